/*
 * fsm_drain.c - which nodes may hold segments, and strict tags that wait for them (fsm_state.h).
 *
 * A segment in a node's memory is below max_id. Were its ids handed out after the tag became
 * strict, they would be smaller than ids acknowledged before. So the tag drains first: it hands out
 * nothing until each node that may hold a segment of it has said that it does not.
 *
 * The happy path: every node that is granted a segment, of whatever tag, becomes a grantee for good
 * (a node's row says nothing of tags: that would cost a row a tag and node). A tag that becomes
 * strict gets a row with all grantees; each COMMAND_DRAINED takes one off; with the last the row
 * goes and the tag is open.
 *
 * A tag that is deleted while it drains keeps the mark without the row: made again as strict, it
 * begins with all grantees anew, since nodes confirm a generation.
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
_Static_assert(1 + LIMIT_TAG_NAME_BYTES <= LIMIT_ROW_KEY_BYTES, "the key of a drain");

static int drain_order(const struct fsm_drain *a, const struct fsm_drain *b);
static struct fsm_drain *drain_new(struct fsm *fsm, struct fsm_row *row, const uint16_t *nodes,
                                   size_t count, struct fsm_changes *changes);
static void drain_drop(struct fsm *fsm, struct fsm_drain *drain, struct fsm_changes *changes);
static void drain_leave(struct fsm *fsm, struct fsm_drain *drain, uint64_t node_id,
                        struct fsm_changes *changes);
static void drain_bytes(struct fsm *fsm, const struct fsm_drain *drain, size_t *ret_key_len);
static void grantee_bytes(struct fsm *fsm, uint64_t node_id, size_t *ret_key_len);
static void grantee_insert(struct fsm *fsm, size_t at, uint64_t node_id,
                           struct fsm_changes *changes);
static size_t place(const uint16_t *nodes, size_t count, uint64_t node_id);
static bool contains(const uint16_t *nodes, size_t count, uint64_t node_id);
static struct fsm_drain *drain_after(const struct fsm *fsm, const char *name, size_t len);

/* RB_GENERATE_STATIC of libbsd wants BSD's __unused; not all that is generated is used here. */
RB_GENERATE_INTERNAL(fsm_drains, fsm_drain, link, drain_order, __attribute__((unused)) static)

/* --- for the node --- */

bool fsm_drain_has(const struct fsm *fsm, const char *name, size_t name_len, uint64_t node_id)
{
    const struct fsm_drain *drain = fsm_drain_find(fsm, name, name_len);

    return drain != NULL && contains(drain->nodes, drain->count, node_id);
}

const struct tag_row *fsm_drain_next(const struct fsm *fsm, uint64_t node_id, const char *after,
                                     size_t after_len)
{
    struct fsm_drain *drain = drain_after(fsm, after, after_len);

    while (drain != NULL && !contains(drain->nodes, drain->count, node_id)) {
        drain = RB_NEXT(fsm_drains, &fsm->drains, drain);
    }
    return drain != NULL ? &drain->row->tag : NULL;
}

uint64_t fsm_drain_node(const struct fsm *fsm, const char *name, size_t name_len)
{
    const struct fsm_drain *drain = fsm_drain_find(fsm, name, name_len);

    return drain != NULL ? drain->nodes[0] : 0;
}

size_t fsm_drain_count(const struct fsm *fsm)
{
    return fsm->drain_count;
}

/* --- grantees --- */

bool fsm_grantee_add(struct fsm *fsm, uint64_t node_id, struct fsm_changes *changes)
{
    size_t at = place(fsm->grantees, fsm->grantee_count, node_id);

    if (contains(fsm->grantees, fsm->grantee_count, node_id)) {
        return true;
    }
    if (fsm->grantee_count == LIMIT_GRANTEES) {
        return false;
    }
    grantee_insert(fsm, at, node_id, changes);
    return true;
}

void fsm_grantee_removed(struct fsm *fsm, uint64_t node_id, struct fsm_changes *changes)
{
    size_t at = place(fsm->grantees, fsm->grantee_count, node_id);
    struct fsm_drain *drain;
    struct fsm_drain *next;
    size_t key_len;

    if (!contains(fsm->grantees, fsm->grantee_count, node_id)) {
        return;
    }
    fsm->grantee_count--;
    memmove(&fsm->grantees[at], &fsm->grantees[at + 1],
            (fsm->grantee_count - at) * sizeof fsm->grantees[0]);
    grantee_bytes(fsm, node_id, &key_len);
    fsm_scratch_delete(fsm, key_len, changes);
    RB_FOREACH_SAFE(drain, fsm_drains, &fsm->drains, next)
    {
        drain_leave(fsm, drain, node_id, changes);
    }
}

/* --- drains --- */

bool fsm_drain_is_due(const struct fsm *fsm, const struct tag_row *old, bool ended)
{
    if (old == NULL || (old->mode == TAG_MODE_STRICT && !old->draining)) {
        return false; /* nobody was ever granted a segment, or all have confirmed since */
    }
    if (ended && old->draining && !old->deleted) {
        return false;
    }
    return fsm->grantee_count > 0;
}

struct fsm_drain *fsm_drain_find(const struct fsm *fsm, const char *name, size_t len)
{
    struct fsm_drain *at = RB_ROOT(&fsm->drains);

    while (at != NULL) {
        int order = tag_name_compare(name, len, at->row->tag.name, at->row->tag.name_len);

        if (order == 0) {
            return at;
        }
        at = order < 0 ? RB_LEFT(at, link) : RB_RIGHT(at, link);
    }
    return NULL;
}

void fsm_drain_follow(struct fsm *fsm, struct fsm_row *row, struct fsm_changes *changes)
{
    struct fsm_drain *drain = fsm_drain_find(fsm, row->tag.name, row->tag.name_len);
    bool wanted = row->tag.draining && !row->tag.deleted;

    if (drain != NULL && !wanted) {
        drain_drop(fsm, drain, changes);
    } else if (drain == NULL && wanted) {
        (void)drain_new(fsm, row, fsm->grantees, fsm->grantee_count, changes);
    }
}

void fsm_apply_drained(struct fsm *fsm, uint64_t node_id, struct drained_command *command,
                       struct buf *result, struct fsm_changes *changes)
{
    struct drained_item item;

    while (drained_command_next(command, &item)) {
        struct fsm_drain *drain = fsm_drain_find(fsm, item.name, item.name_len);

        if (drain != NULL && item.generation >= drain->row->tag.generation) {
            drain_leave(fsm, drain, node_id, changes);
        }
    }
    status_result_encode(0, result);
}

/* --- loading --- */

int fsm_load_grantee(struct fsm *fsm, const uint8_t *key, size_t key_len, const void *value,
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
    if (contains(fsm->grantees, fsm->grantee_count, node_id)) {
        return ERR_EXISTS;
    }
    return fsm_grantee_add(fsm, node_id, NULL) ? 0 : ERR_CORRUPT;
}

int fsm_load_drain(struct fsm *fsm, const uint8_t *key, size_t key_len, const void *value,
                   size_t value_len)
{
    const char *name = (const char *)key + 1;
    uint16_t nodes[LIMIT_GRANTEES];
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
    while (reader_left(&reader) > 0 && count < LIMIT_GRANTEES) {
        nodes[count] = reader_u16(&reader);
        if (nodes[count] <= (count > 0 ? nodes[count - 1] : 0)) {
            return ERR_CORRUPT;
        }
        count++;
    }
    if (!reader_done(&reader) || tag_name_check(name, key_len - 1, NULL) != 0) {
        return ERR_CORRUPT;
    }
    if (fsm_drain_find(fsm, name, key_len - 1) != NULL) {
        return ERR_EXISTS;
    }
    row = fsm->drain_count < LIMIT_DRAINS ? fsm_row_expect(fsm, name, key_len - 1) : NULL;
    if (row == NULL) {
        return ERR_CORRUPT;
    }
    (void)drain_new(fsm, row, nodes, count, NULL);
    return 0;
}

int fsm_drains_check(const struct fsm *fsm)
{
    struct fsm_drain *drain;

    if (fsm->draining_count != fsm->drain_count) {
        return ERR_CORRUPT;
    }
    RB_FOREACH (drain, fsm_drains, (struct fsm_drains *)(uintptr_t)&fsm->drains) {
        if (!drain->row->tag.draining || drain->row->tag.deleted) {
            return ERR_CORRUPT;
        }
        for (size_t i = 0; i < drain->count; i++) {
            if (!contains(fsm->grantees, fsm->grantee_count, drain->nodes[i])) {
                return ERR_CORRUPT;
            }
        }
    }
    return 0;
}

void fsm_drains_clear(struct fsm *fsm)
{
    struct fsm_drain *drain;

    while ((drain = RB_ROOT(&fsm->drains)) != NULL) {
        RB_REMOVE(fsm_drains, &fsm->drains, drain);
        free(drain);
    }
    fsm->drain_count = 0;
    fsm->grantee_count = 0;
}

/* --- rows --- */

static int drain_order(const struct fsm_drain *a, const struct fsm_drain *b)
{
    return tag_name_compare(a->row->tag.name, a->row->tag.name_len, b->row->tag.name,
                            b->row->tag.name_len);
}

static struct fsm_drain *drain_new(struct fsm *fsm, struct fsm_row *row, const uint16_t *nodes,
                                   size_t count, struct fsm_changes *changes)
{
    struct fsm_drain *drain = malloc(sizeof *drain + count * sizeof nodes[0]);
    struct fsm_drain *twin;
    size_t key_len;

    ASSERT(drain != NULL);
    ASSERT(count >= 1 && count <= LIMIT_GRANTEES && fsm->drain_count < LIMIT_DRAINS);
    drain->row = row;
    drain->count = (uint16_t)count;
    memcpy(drain->nodes, nodes, count * sizeof nodes[0]);
    twin = RB_INSERT(fsm_drains, &fsm->drains, drain);
    ASSERT(twin == NULL);
    fsm->drain_count++;
    drain_bytes(fsm, drain, &key_len);
    fsm_scratch_enter(fsm, key_len, changes);
    return drain;
}

static void drain_drop(struct fsm *fsm, struct fsm_drain *drain, struct fsm_changes *changes)
{
    size_t key_len;

    drain_bytes(fsm, drain, &key_len);
    fsm_scratch_delete(fsm, key_len, changes);
    RB_REMOVE(fsm_drains, &fsm->drains, drain);
    fsm->drain_count--;
    free(drain);
}

/* The node, if it is waited for, is not any more; after the last one the tag is open. */
static void drain_leave(struct fsm *fsm, struct fsm_drain *drain, uint64_t node_id,
                        struct fsm_changes *changes)
{
    size_t at = place(drain->nodes, drain->count, node_id);
    struct fsm_row *row = drain->row;
    size_t key_len;

    ASSERT(row->tag.draining && !row->tag.deleted);
    if (!contains(drain->nodes, drain->count, node_id)) {
        return;
    }
    if (drain->count == 1) {
        drain_drop(fsm, drain, changes);
        fsm_row_change_begin(fsm, row);
        row->tag.draining = false;
        fsm_row_change_end(fsm, row, changes);
        return;
    }
    drain_bytes(fsm, drain, &key_len);
    fsm_scratch_leave(fsm, key_len);
    drain->count--;
    memmove(&drain->nodes[at], &drain->nodes[at + 1], (drain->count - at) * sizeof drain->nodes[0]);
    drain_bytes(fsm, drain, &key_len);
    fsm_scratch_enter(fsm, key_len, changes);
}

static void drain_bytes(struct fsm *fsm, const struct fsm_drain *drain, size_t *ret_key_len)
{
    fsm->scratch.len = 0;
    buf_put_u8(&fsm->scratch, FSM_TABLE_DRAINS);
    buf_put(&fsm->scratch, drain->row->tag.name, drain->row->tag.name_len);
    *ret_key_len = fsm->scratch.len;
    buf_put_u8(&fsm->scratch, ROW_VERSION);
    for (size_t i = 0; i < drain->count; i++) {
        buf_put_u16(&fsm->scratch, drain->nodes[i]);
    }
}

static void grantee_bytes(struct fsm *fsm, uint64_t node_id, size_t *ret_key_len)
{
    fsm_scratch_node(fsm, FSM_TABLE_GRANTEES, node_id);
    *ret_key_len = fsm->scratch.len;
    buf_put_u8(&fsm->scratch, ROW_VERSION);
}

static void grantee_insert(struct fsm *fsm, size_t at, uint64_t node_id,
                           struct fsm_changes *changes)
{
    size_t key_len;

    memmove(&fsm->grantees[at + 1], &fsm->grantees[at],
            (fsm->grantee_count - at) * sizeof fsm->grantees[0]);
    fsm->grantees[at] = (uint16_t)node_id;
    fsm->grantee_count++;
    grantee_bytes(fsm, node_id, &key_len);
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

/* The first drain whose name is greater. */
static struct fsm_drain *drain_after(const struct fsm *fsm, const char *name, size_t len)
{
    struct fsm_drain *at = RB_ROOT(&fsm->drains);
    struct fsm_drain *found = NULL;

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
