/*
 * fsm_recalls.c - see fsm_recalls.h.
 */
#include "src/id/fsm/fsm_recalls.h"

#include <stdlib.h>

#include "src/base/assert.h"

_Static_assert(1 + LIMIT_TAG_NAME_BYTES <= LIMIT_ROW_KEY_BYTES, "the key of a recall");

static int recall_order(const struct fsm_recall *a, const struct fsm_recall *b)
{
    return tag_name_compare(a->row->tag.name, a->row->tag.name_len, b->row->tag.name,
                            b->row->tag.name_len);
}

/* RB_GENERATE_STATIC of libbsd wants BSD's __unused; not all that is generated is used here. */
RB_GENERATE_INTERNAL(fsm_recall_tree, fsm_recall, link, recall_order,
                     __attribute__((unused)) static)

void fsm_recalls_init(struct fsm_recalls *recalls, struct fsm_tags *tags)
{
    *recalls = (struct fsm_recalls){
        .journal = tags->journal, .tags = tags, .tree = RB_INITIALIZER(&recalls->tree)};
}

static void recall_free(struct fsm_recalls *recalls, struct fsm_recall *recall)
{
    (void)RB_REMOVE(fsm_recall_tree, &recalls->tree, recall);
    recalls->count--;
    node_set_free(&recall->nodes);
    free(recall);
}

void fsm_recalls_clear(struct fsm_recalls *recalls)
{
    struct fsm_recall *recall;

    while ((recall = RB_ROOT(&recalls->tree)) != NULL) {
        recall_free(recalls, recall);
    }
    ASSERT(recalls->count == 0);
    node_set_free(&recalls->holders);
}

/* --- rows --- */

/* The recall's key and value into the journal. */
static void journal_recall(struct fsm_recalls *recalls, const struct fsm_recall *recall)
{
    struct journal *journal = recalls->journal;

    ASSERT(recall->nodes.count > 0);
    journal_key(journal, FSM_TABLE_RECALLS);
    buf_put(&journal->row, recall->row->tag.name, recall->row->tag.name_len);
    journal_value(journal);
    buf_put_u8(&journal->row, ROW_VERSION);
    for (size_t i = 0; i < recall->nodes.count; i++) {
        buf_put_u16(&journal->row, recall->nodes.ids[i]);
    }
}

static void recall_new(struct fsm_recalls *recalls, struct fsm_row *row,
                       const struct node_set *nodes)
{
    struct fsm_recall *recall = MUST_HAVE(calloc(1, sizeof *recall));
    struct fsm_recall *twin;

    ASSERT(nodes->count <= LIMIT_SEGMENT_HOLDERS && recalls->count < LIMIT_RECALLS);
    recall->row = row;
    node_set_copy(&recall->nodes, nodes);
    twin = RB_INSERT(fsm_recall_tree, &recalls->tree, recall);
    ASSERT(twin == NULL);
    recalls->count++;
    journal_recall(recalls, recall);
    journal_enter(recalls->journal);
}

static void recall_drop(struct fsm_recalls *recalls, struct fsm_recall *recall)
{
    journal_recall(recalls, recall);
    journal_delete(recalls->journal);
    recall_free(recalls, recall);
}

/* The node, if it is waited for, is not any more; after the last one the tag is open. */
static void recall_leave(struct fsm_recalls *recalls, struct fsm_recall *recall, uint64_t node_id)
{
    struct fsm_row *row = recall->row;

    ASSERT(row->tag.recalling && !row->tag.deleted);
    if (!node_set_has(&recall->nodes, node_id)) {
        return;
    }
    if (recall->nodes.count == 1) {
        recall_drop(recalls, recall);
        fsm_tags_change_begin(recalls->tags, row);
        row->tag.recalling = false;
        fsm_tags_change_end(recalls->tags, row);
        return;
    }
    journal_recall(recalls, recall);
    journal_leave(recalls->journal);
    (void)node_set_remove(&recall->nodes, node_id);
    journal_recall(recalls, recall);
    journal_enter(recalls->journal);
}

/* --- segment holders --- */

bool fsm_holder_add(struct fsm_recalls *recalls, uint64_t node_id)
{
    if (node_set_has(&recalls->holders, node_id)) {
        return true;
    }
    if (recalls->holders.count == LIMIT_SEGMENT_HOLDERS) {
        return false;
    }
    return node_set_add_row(&recalls->holders, recalls->journal, FSM_TABLE_HOLDERS, node_id);
}

void fsm_holder_removed(struct fsm_recalls *recalls, uint64_t node_id)
{
    struct fsm_recall *recall;
    struct fsm_recall *next;

    if (!node_set_remove_row(&recalls->holders, recalls->journal, FSM_TABLE_HOLDERS, node_id)) {
        return;
    }
    RB_FOREACH_SAFE(recall, fsm_recall_tree, &recalls->tree, next)
    {
        recall_leave(recalls, recall, node_id);
    }
}

/* --- recalls --- */

bool fsm_recall_is_due(const struct fsm_recalls *recalls, const struct tag_row *old, bool ended)
{
    if (old == NULL || (old->mode != TAG_MODE_TREND && !old->recalling)) {
        return false; /* nobody was ever granted a segment, or all have confirmed since */
    }
    if (ended && old->recalling && !old->deleted) {
        return false;
    }
    return recalls->holders.count > 0;
}

/* The first recall whose name is >= name. */
static struct fsm_recall *seek(const struct fsm_recalls *recalls, const char *name, size_t len)
{
    struct fsm_row row = {.tag = {.name = name, .name_len = (uint16_t)len}};
    struct fsm_recall like = {.row = &row};

    ASSERT(len <= UINT16_MAX);
    return RB_NFIND(fsm_recall_tree, (struct fsm_recall_tree *)(uintptr_t)&recalls->tree, &like);
}

static bool is_of(const struct fsm_recall *recall, const char *name, size_t len)
{
    return tag_name_compare(name, len, recall->row->tag.name, recall->row->tag.name_len) == 0;
}

struct fsm_recall *fsm_recalls_find(const struct fsm_recalls *recalls, const char *name, size_t len)
{
    struct fsm_recall *recall = seek(recalls, name, len);

    return recall != NULL && is_of(recall, name, len) ? recall : NULL;
}

struct fsm_recall *fsm_recalls_next(const struct fsm_recalls *recalls, uint64_t node_id,
                                    const char *after, size_t after_len)
{
    struct fsm_recall *recall = seek(recalls, after, after_len);

    while (recall != NULL &&
           (is_of(recall, after, after_len) || !node_set_has(&recall->nodes, node_id))) {
        recall = RB_NEXT(fsm_recall_tree, &recalls->tree, recall);
    }
    return recall;
}

void fsm_recall_follow(struct fsm_recalls *recalls, struct fsm_row *row)
{
    struct fsm_recall *recall = fsm_recalls_find(recalls, row->tag.name, row->tag.name_len);
    bool wanted = row->tag.recalling && !row->tag.deleted;

    if (recall != NULL && !wanted) {
        recall_drop(recalls, recall);
    } else if (recall == NULL && wanted) {
        recall_new(recalls, row, &recalls->holders);
    }
}

void fsm_recalls_confirm(struct fsm_recalls *recalls, uint64_t node_id, struct command_list *list)
{
    struct recalled_item item;

    while (command_next(list, &item)) {
        struct fsm_recall *recall = fsm_recalls_find(recalls, item.name, item.name_len);

        if (recall != NULL && item.generation >= recall->row->tag.generation) {
            recall_leave(recalls, recall, node_id);
        }
    }
}

/* --- loading --- */

/* The nodes of a recall's value: one at least, rising. */
static int read_nodes(const struct row_loaded *row, struct node_set *nodes)
{
    struct reader reader;
    uint16_t last = 0;

    reader_init(&reader, row->value, row->value_len);
    if (row->value_len > 0 && reader_u8(&reader) != ROW_VERSION) {
        return ERR_BAD_VERSION;
    }
    if (row->value_len < 1 + sizeof last || row->value_len % 2 != 1) {
        return ERR_TRUNCATED;
    }
    while (reader_left(&reader) > 0 && nodes->count < LIMIT_SEGMENT_HOLDERS) {
        uint16_t node_id = reader_u16(&reader);

        if (node_id <= last) {
            return ERR_CORRUPT;
        }
        (void)node_set_add(nodes, node_id);
        last = node_id;
    }
    return reader_done(&reader) ? 0 : ERR_CORRUPT;
}

static int load_recall(struct fsm_recalls *recalls, const char *name, size_t len,
                       const struct node_set *nodes)
{
    struct fsm_row *row;

    if (tag_name_check(name, len, NULL) != 0) {
        return ERR_CORRUPT;
    }
    if (fsm_recalls_find(recalls, name, len) != NULL) {
        return ERR_EXISTS;
    }
    row = recalls->count < LIMIT_RECALLS ? fsm_tags_expect(recalls->tags, name, len) : NULL;
    if (row == NULL) {
        return ERR_CORRUPT;
    }
    recall_new(recalls, row, nodes);
    return 0;
}

int fsm_recalls_load(struct fsm_recalls *recalls, const struct row_loaded *row)
{
    struct node_set nodes = {0};
    int err;

    if (row->key[0] == FSM_TABLE_HOLDERS) {
        err = node_set_load_row(&recalls->holders, recalls->journal, row);
        return err == 0 && recalls->holders.count > LIMIT_SEGMENT_HOLDERS ? ERR_CORRUPT : err;
    }
    err = read_nodes(row, &nodes);
    if (err == 0) {
        err = load_recall(recalls, (const char *)row->key + 1, row->key_len - 1, &nodes);
    }
    node_set_free(&nodes);
    return err;
}

int fsm_recalls_check(const struct fsm_recalls *recalls)
{
    struct fsm_recall *recall = seek(recalls, "", 0);

    if (recalls->tags->recalling_count != recalls->count) {
        return ERR_CORRUPT;
    }
    for (; recall != NULL; recall = RB_NEXT(fsm_recall_tree, &recalls->tree, recall)) {
        if (!recall->row->tag.recalling || recall->row->tag.deleted) {
            return ERR_CORRUPT;
        }
        for (size_t i = 0; i < recall->nodes.count; i++) {
            if (!node_set_has(&recalls->holders, recall->nodes.ids[i])) {
                return ERR_CORRUPT;
            }
        }
    }
    return 0;
}
