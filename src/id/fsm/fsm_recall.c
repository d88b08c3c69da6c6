/*
 * fsm_recall.c - which nodes may hold segments, and strict tags that wait for them (fsm_state.h).
 *
 * A segment in a node's memory is below max_id. Were its ids handed out after the tag became
 * strict, they would be smaller than ids acknowledged before. So the tag recalls first: it hands
 * out nothing until each node that may hold a segment of it has said that it does not.
 *
 * The happy path: every node that is granted a segment, of whatever tag, becomes a holder for good
 * (a node's row says nothing of tags: that would cost a row a tag and node). A tag that becomes
 * strict gets a row with all holders; each COMMAND_RECALLED takes one off; with the last the row
 * goes and the tag is open.
 *
 * A tag that is deleted while it recalls keeps the mark without the row: made again as strict, it
 * begins with all holders anew, since nodes confirm a generation.
 *
 * Failure modes: a confirmation of an older generation, or of a node that is not waited for,
 * changes nothing. Full tables are the callers' to refuse. A row that no apply can have made is
 * ERR_CORRUPT.
 *
 * Thread: one owner. Deterministic: only the state and the command decide.
 */
#include <stdlib.h>
#include <string.h>

#include "src/base/assert.h"
#include "src/id/fsm/fsm_state.h"

#define ROW_VERSION 1 /* of both tables */

_Static_assert(LIMIT_NODE_ID <= UINT16_MAX, "a node's id has two bytes here");
_Static_assert(1 + LIMIT_TAG_NAME_BYTES <= LIMIT_ROW_KEY_BYTES, "the key of a recall");

static int recall_order(const struct fsm_recall *a, const struct fsm_recall *b);
static struct fsm_recall *recall_new(struct fsm *fsm, struct fsm_row *row, const uint16_t *nodes,
                                     size_t count, struct fsm_changes *changes);
static void recall_drop(struct fsm *fsm, struct fsm_recall *recall, struct fsm_changes *changes);
static void recall_leave(struct fsm *fsm, struct fsm_recall *recall, uint64_t node_id,
                         struct fsm_changes *changes);
static void recall_bytes(struct fsm *fsm, const struct fsm_recall *recall, size_t *ret_key_len);
static void holder_bytes(struct fsm *fsm, uint64_t node_id, size_t *ret_key_len);
static void holder_insert(struct fsm *fsm, size_t at, uint64_t node_id,
                          struct fsm_changes *changes);
static size_t place(const uint16_t *nodes, size_t count, uint64_t node_id);
static bool contains(const uint16_t *nodes, size_t count, uint64_t node_id);
static struct fsm_recall *recall_after(const struct fsm *fsm, const char *name, size_t len);

/* RB_GENERATE_STATIC of libbsd wants BSD's __unused; not all that is generated is used here. */
RB_GENERATE_INTERNAL(fsm_recalls, fsm_recall, link, recall_order, __attribute__((unused)) static)

/* --- for the node --- */

bool fsm_recall_has(const struct fsm *fsm, const char *name, size_t name_len, uint64_t node_id)
{
    const struct fsm_recall *recall = fsm_recall_find(fsm, name, name_len);

    return recall != NULL && contains(recall->nodes, recall->count, node_id);
}

const struct tag_row *fsm_recall_next(const struct fsm *fsm, uint64_t node_id, const char *after,
                                      size_t after_len)
{
    struct fsm_recall *recall = recall_after(fsm, after, after_len);

    while (recall != NULL && !contains(recall->nodes, recall->count, node_id)) {
        recall = RB_NEXT(fsm_recalls, &fsm->recalls, recall);
    }
    return recall != NULL ? &recall->row->tag : NULL;
}

uint64_t fsm_recall_node(const struct fsm *fsm, const char *name, size_t name_len)
{
    const struct fsm_recall *recall = fsm_recall_find(fsm, name, name_len);

    return recall != NULL ? recall->nodes[0] : 0;
}

size_t fsm_recall_count(const struct fsm *fsm)
{
    return fsm->recall_count;
}

/* --- holders --- */

bool fsm_holder_add(struct fsm *fsm, uint64_t node_id, struct fsm_changes *changes)
{
    size_t at = place(fsm->holders, fsm->holder_count, node_id);

    if (contains(fsm->holders, fsm->holder_count, node_id)) {
        return true;
    }
    if (fsm->holder_count == LIMIT_SEGMENT_HOLDERS) {
        return false;
    }
    holder_insert(fsm, at, node_id, changes);
    return true;
}

void fsm_holder_removed(struct fsm *fsm, uint64_t node_id, struct fsm_changes *changes)
{
    size_t at = place(fsm->holders, fsm->holder_count, node_id);
    struct fsm_recall *recall;
    struct fsm_recall *next;
    size_t key_len;

    if (!contains(fsm->holders, fsm->holder_count, node_id)) {
        return;
    }
    fsm->holder_count--;
    memmove(&fsm->holders[at], &fsm->holders[at + 1],
            (fsm->holder_count - at) * sizeof fsm->holders[0]);
    holder_bytes(fsm, node_id, &key_len);
    fsm_scratch_delete(fsm, key_len, changes);
    RB_FOREACH_SAFE(recall, fsm_recalls, &fsm->recalls, next)
    {
        recall_leave(fsm, recall, node_id, changes);
    }
}

/* --- recalls --- */

bool fsm_recall_is_due(const struct fsm *fsm, const struct tag_row *old, bool ended)
{
    if (old == NULL || (old->mode == TAG_MODE_STRICT && !old->recalling)) {
        return false; /* nobody was ever granted a segment, or all have confirmed since */
    }
    if (ended && old->recalling && !old->deleted) {
        return false;
    }
    return fsm->holder_count > 0;
}

struct fsm_recall *fsm_recall_find(const struct fsm *fsm, const char *name, size_t len)
{
    struct fsm_recall *at = RB_ROOT(&fsm->recalls);

    while (at != NULL) {
        int order = tag_name_compare(name, len, at->row->tag.name, at->row->tag.name_len);

        if (order == 0) {
            return at;
        }
        at = order < 0 ? RB_LEFT(at, link) : RB_RIGHT(at, link);
    }
    return NULL;
}

void fsm_recall_follow(struct fsm *fsm, struct fsm_row *row, struct fsm_changes *changes)
{
    struct fsm_recall *recall = fsm_recall_find(fsm, row->tag.name, row->tag.name_len);
    bool wanted = row->tag.recalling && !row->tag.deleted;

    if (recall != NULL && !wanted) {
        recall_drop(fsm, recall, changes);
    } else if (recall == NULL && wanted) {
        (void)recall_new(fsm, row, fsm->holders, fsm->holder_count, changes);
    }
}

void fsm_apply_recalled(struct fsm *fsm, uint64_t node_id, struct recalled_command *command,
                        struct buf *result, struct fsm_changes *changes)
{
    struct recalled_item item;

    while (recalled_command_next(command, &item)) {
        struct fsm_recall *recall = fsm_recall_find(fsm, item.name, item.name_len);

        if (recall != NULL && item.generation >= recall->row->tag.generation) {
            recall_leave(fsm, recall, node_id, changes);
        }
    }
    status_result_encode(0, result);
}

/* --- loading --- */

int fsm_load_holder(struct fsm *fsm, const uint8_t *key, size_t key_len, const void *value,
                    size_t value_len)
{
    struct reader reader;
    uint64_t node_id;

    reader_init(&reader, value, value_len);
    if (value_len > 0 && reader_u8(&reader) != ROW_VERSION) {
        return ERR_BAD_VERSION;
    }
    if (value_len == 0) {
        return ERR_TRUNCATED;
    }
    if (key_len != FSM_NODE_KEY_BYTES || !reader_done(&reader)) {
        return ERR_CORRUPT;
    }
    node_id = fsm_key_node(key);
    if (node_id < 1 || node_id > LIMIT_NODE_ID) {
        return ERR_CORRUPT;
    }
    if (contains(fsm->holders, fsm->holder_count, node_id)) {
        return ERR_EXISTS;
    }
    return fsm_holder_add(fsm, node_id, NULL) ? 0 : ERR_CORRUPT;
}

int fsm_load_recall(struct fsm *fsm, const uint8_t *key, size_t key_len, const void *value,
                    size_t value_len)
{
    const char *name = (const char *)key + 1;
    uint16_t nodes[LIMIT_SEGMENT_HOLDERS];
    struct reader reader;
    struct fsm_row *row;
    size_t count = 0;

    reader_init(&reader, value, value_len);
    if (value_len > 0 && reader_u8(&reader) != ROW_VERSION) {
        return ERR_BAD_VERSION;
    }
    if (value_len < 1 + sizeof nodes[0] || value_len % 2 != 1) {
        return ERR_TRUNCATED;
    }
    while (reader_left(&reader) > 0 && count < LIMIT_SEGMENT_HOLDERS) {
        nodes[count] = reader_u16(&reader);
        if (nodes[count] <= (count > 0 ? nodes[count - 1] : 0)) {
            return ERR_CORRUPT;
        }
        count++;
    }
    if (!reader_done(&reader) || tag_name_check(name, key_len - 1, NULL) != 0) {
        return ERR_CORRUPT;
    }
    if (fsm_recall_find(fsm, name, key_len - 1) != NULL) {
        return ERR_EXISTS;
    }
    row = fsm->recall_count < LIMIT_RECALLS ? fsm_row_expect(fsm, name, key_len - 1) : NULL;
    if (row == NULL) {
        return ERR_CORRUPT;
    }
    (void)recall_new(fsm, row, nodes, count, NULL);
    return 0;
}

int fsm_recalls_check(const struct fsm *fsm)
{
    struct fsm_recall *recall;

    if (fsm->recalling_count != fsm->recall_count) {
        return ERR_CORRUPT;
    }
    RB_FOREACH (recall, fsm_recalls, (struct fsm_recalls *)(uintptr_t)&fsm->recalls) {
        if (!recall->row->tag.recalling || recall->row->tag.deleted) {
            return ERR_CORRUPT;
        }
        for (size_t i = 0; i < recall->count; i++) {
            if (!contains(fsm->holders, fsm->holder_count, recall->nodes[i])) {
                return ERR_CORRUPT;
            }
        }
    }
    return 0;
}

void fsm_recalls_clear(struct fsm *fsm)
{
    struct fsm_recall *recall;

    while ((recall = RB_ROOT(&fsm->recalls)) != NULL) {
        RB_REMOVE(fsm_recalls, &fsm->recalls, recall);
        free(recall);
    }
    fsm->recall_count = 0;
    fsm->holder_count = 0;
}

/* --- rows --- */

static int recall_order(const struct fsm_recall *a, const struct fsm_recall *b)
{
    return tag_name_compare(a->row->tag.name, a->row->tag.name_len, b->row->tag.name,
                            b->row->tag.name_len);
}

static struct fsm_recall *recall_new(struct fsm *fsm, struct fsm_row *row, const uint16_t *nodes,
                                     size_t count, struct fsm_changes *changes)
{
    struct fsm_recall *recall = malloc(sizeof *recall + count * sizeof nodes[0]);
    struct fsm_recall *twin;
    size_t key_len;

    ASSERT(recall != NULL);
    ASSERT(count >= 1 && count <= LIMIT_SEGMENT_HOLDERS && fsm->recall_count < LIMIT_RECALLS);
    recall->row = row;
    recall->count = (uint16_t)count;
    memcpy(recall->nodes, nodes, count * sizeof nodes[0]);
    twin = RB_INSERT(fsm_recalls, &fsm->recalls, recall);
    ASSERT(twin == NULL);
    fsm->recall_count++;
    recall_bytes(fsm, recall, &key_len);
    fsm_scratch_enter(fsm, key_len, changes);
    return recall;
}

static void recall_drop(struct fsm *fsm, struct fsm_recall *recall, struct fsm_changes *changes)
{
    size_t key_len;

    recall_bytes(fsm, recall, &key_len);
    fsm_scratch_delete(fsm, key_len, changes);
    RB_REMOVE(fsm_recalls, &fsm->recalls, recall);
    fsm->recall_count--;
    free(recall);
}

/* The node, if it is waited for, is not any more; after the last one the tag is open. */
static void recall_leave(struct fsm *fsm, struct fsm_recall *recall, uint64_t node_id,
                         struct fsm_changes *changes)
{
    size_t at = place(recall->nodes, recall->count, node_id);
    struct fsm_row *row = recall->row;
    size_t key_len;

    ASSERT(row->tag.recalling && !row->tag.deleted);
    if (!contains(recall->nodes, recall->count, node_id)) {
        return;
    }
    if (recall->count == 1) {
        recall_drop(fsm, recall, changes);
        fsm_row_change_begin(fsm, row);
        row->tag.recalling = false;
        fsm_row_change_end(fsm, row, changes);
        return;
    }
    recall_bytes(fsm, recall, &key_len);
    fsm_scratch_leave(fsm, key_len);
    recall->count--;
    memmove(&recall->nodes[at], &recall->nodes[at + 1],
            (recall->count - at) * sizeof recall->nodes[0]);
    recall_bytes(fsm, recall, &key_len);
    fsm_scratch_enter(fsm, key_len, changes);
}

static void recall_bytes(struct fsm *fsm, const struct fsm_recall *recall, size_t *ret_key_len)
{
    fsm->scratch.len = 0;
    buf_put_u8(&fsm->scratch, FSM_TABLE_RECALLS);
    buf_put(&fsm->scratch, recall->row->tag.name, recall->row->tag.name_len);
    *ret_key_len = fsm->scratch.len;
    buf_put_u8(&fsm->scratch, ROW_VERSION);
    for (size_t i = 0; i < recall->count; i++) {
        buf_put_u16(&fsm->scratch, recall->nodes[i]);
    }
}

static void holder_bytes(struct fsm *fsm, uint64_t node_id, size_t *ret_key_len)
{
    fsm_scratch_node(fsm, FSM_TABLE_HOLDERS, node_id);
    *ret_key_len = fsm->scratch.len;
    buf_put_u8(&fsm->scratch, ROW_VERSION);
}

static void holder_insert(struct fsm *fsm, size_t at, uint64_t node_id, struct fsm_changes *changes)
{
    size_t key_len;

    memmove(&fsm->holders[at + 1], &fsm->holders[at],
            (fsm->holder_count - at) * sizeof fsm->holders[0]);
    fsm->holders[at] = (uint16_t)node_id;
    fsm->holder_count++;
    holder_bytes(fsm, node_id, &key_len);
    fsm_scratch_enter(fsm, key_len, changes);
}

/* Where the node stands in the rising array, or would. */
static size_t place(const uint16_t *nodes, size_t count, uint64_t node_id)
{
    size_t at = 0;

    while (at < count && nodes[at] < node_id) {
        at++;
    }
    return at;
}

static bool contains(const uint16_t *nodes, size_t count, uint64_t node_id)
{
    size_t at = place(nodes, count, node_id);

    return at < count && nodes[at] == node_id;
}

/* The first recall whose name is greater. */
static struct fsm_recall *recall_after(const struct fsm *fsm, const char *name, size_t len)
{
    struct fsm_recall *at = RB_ROOT(&fsm->recalls);
    struct fsm_recall *found = NULL;

    while (at != NULL) {
        if (tag_name_compare(name, len, at->row->tag.name, at->row->tag.name_len) < 0) {
            found = at;
            at = RB_LEFT(at, link);
        } else {
            at = RB_RIGHT(at, link);
        }
    }
    return found;
}
