/*
 * fsm_puts.c - see fsm_tables.h: recalls and puts.
 */
#include "src/id/fsm/fsm_tables.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/assert.h"
#include "src/base/container.h"
#include "src/base/hash.h"

/* --- fsm_recalls --- */

_Static_assert(1 + LIMIT_TAG_NAME_BYTES <= LIMIT_ROW_KEY_BYTES, "the key of a recall");

static int recall_order(const struct fsm_recall *a, const struct fsm_recall *b)
{
    return tag_name_compare(a->row->name, a->row->name_len, b->row->name, b->row->name_len);
}

/* RB_GENERATE_STATIC of libbsd wants BSD's __unused; not all that is generated is used here. */
RB_GENERATE_INTERNAL(fsm_recall_tree, fsm_recall, link, recall_order,
                     __attribute__((unused)) static)

static void recall_free(struct fsm_recalls *recalls, struct fsm_recall *recall)
{
    (void)RB_REMOVE(fsm_recall_tree, &recalls->tree, recall);
    recalls->count--;
    node_set_free(&recall->nodes);
    free(recall);
}

void fsm_recalls_clear(struct fsm *fsm)
{
    struct fsm_recall *recall;

    while ((recall = RB_ROOT(&fsm->recalls.tree)) != NULL) {
        recall_free(&fsm->recalls, recall);
    }
    ASSERT(fsm->recalls.count == 0);
    node_set_free(&fsm->recalls.holders);
}

/* --- rows --- */

/* Put the recall's key and value into the journal, which is returned. */
static struct journal *recall_journal(struct fsm *fsm, const struct fsm_recall *recall)
{
    struct journal *journal = fsm_journal(fsm);

    ASSERT(recall->nodes.count > 0);
    journal_key(journal, FSM_TABLE_RECALLS);
    buf_put(&journal->row, recall->row->name, recall->row->name_len);
    journal_value(journal);
    buf_put_u8(&journal->row, ROW_VERSION);
    for (size_t i = 0; i < recall->nodes.count; i++) {
        buf_put_u16(&journal->row, recall->nodes.ids[i]);
    }
    return journal;
}

static void recall_new(struct fsm *fsm, struct fsm_row *row, const struct node_set *nodes)
{
    struct fsm_recall *recall = MUST_HAVE(calloc(1, sizeof *recall));
    struct fsm_recall *twin;

    ASSERT(nodes->count <= LIMIT_SEGMENT_HOLDERS && fsm->recalls.count < LIMIT_RECALLS);
    recall->row = row;
    for (size_t i = 0; i < nodes->count; i++) {
        (void)node_set_add(&recall->nodes, nodes->ids[i]);
    }
    twin = RB_INSERT(fsm_recall_tree, &fsm->recalls.tree, recall);
    ASSERT(twin == NULL);
    fsm->recalls.count++;
    journal_enter(recall_journal(fsm, recall));
}

static void recall_drop(struct fsm *fsm, struct fsm_recall *recall)
{
    journal_delete(recall_journal(fsm, recall));
    recall_free(&fsm->recalls, recall);
}

/* Stop waiting for the node, if the recall waits for it; after the last node the tag is open. */
static void recall_leave(struct fsm *fsm, struct fsm_recall *recall, uint64_t node_id)
{
    struct fsm_row *row = recall->row;

    ASSERT(row->recalling && !row->deleted);
    if (!node_set_has(&recall->nodes, node_id)) {
        return;
    }
    if (recall->nodes.count == 1) {
        recall_drop(fsm, recall);
        fsm_tags_change_begin(fsm, row);
        row->recalling = false;
        fsm_tags_change_end(fsm, row);
        return;
    }
    journal_leave(recall_journal(fsm, recall));
    (void)node_set_remove(&recall->nodes, node_id);
    journal_enter(recall_journal(fsm, recall));
}

void fsm_holder_removed(struct machine *machine, uint64_t node_id)
{
    struct fsm *fsm = CONTAINER(machine, struct fsm, machine);
    struct fsm_recall *recall;
    struct fsm_recall *next;

    if (!node_set_change_row(&fsm->recalls.holders, fsm_journal(fsm), FSM_TABLE_HOLDERS, node_id,
                             false)) {
        return;
    }
    RB_FOREACH_SAFE(recall, fsm_recall_tree, &fsm->recalls.tree, next)
    {
        recall_leave(fsm, recall, node_id);
    }
}

/* --- recalls --- */

/* Must the segments of a tag that leaves trend mode, or has left it, be recalled? old: its row
 * before, NULL: none; ended: the operator states that no node holds a segment of it. */
static bool recall_is_due(const struct fsm *fsm, const struct tag_row *old, bool ended)
{
    if (old == NULL || (old->mode != TAG_MODE_TREND && !old->recalling)) {
        return false; /* no node was ever granted a segment, or all have confirmed since */
    }
    if (ended && old->recalling && !old->deleted) {
        return false;
    }
    return fsm->recalls.holders.count > 0;
}

/* The tag's recall, or else the next one in the order of names. */
static struct fsm_recall *recalls_seek(const struct fsm *fsm, struct fsm_row *row)
{
    struct fsm_recall like = {.row = row};
    struct fsm_recall_tree *tree = (struct fsm_recall_tree *)(uintptr_t)&fsm->recalls.tree;

    return row != NULL ? RB_NFIND(fsm_recall_tree, tree, &like) : NULL;
}

struct fsm_recall *fsm_recalls_find(const struct fsm *fsm, struct fsm_row *row)
{
    struct fsm_recall *recall = recalls_seek(fsm, row);

    return recall != NULL && recall->row == row ? recall : NULL;
}

const struct tag_row *fsm_recall_next(const struct fsm *fsm, uint64_t node_id, const char *after,
                                      size_t after_len)
{
    struct fsm_row *row = fsm_tags_seek(&fsm->tags, after, after_len);
    struct fsm_recall *recall = recalls_seek(fsm, row);

    while (recall != NULL &&
           (fsm_row_is(recall->row, after, after_len) || !node_set_has(&recall->nodes, node_id))) {
        recall = RB_NEXT(fsm_recall_tree, &fsm->recalls.tree, recall);
    }
    return recall != NULL ? fsm_tag(fsm, recall->row->name, recall->row->name_len) : NULL;
}

uint64_t fsm_recall_waits_for(const struct fsm *fsm, const char *name, size_t name_len)
{
    const struct fsm_recall *recall =
        fsm_recalls_find(fsm, fsm_tags_find(&fsm->tags, name, name_len));

    return recall != NULL ? recall->nodes.ids[0] : 0;
}

/* The tag was changed: make or drop its recall, as the row requires. */
static void recall_follow(struct fsm *fsm, struct fsm_row *row)
{
    struct fsm_recall *recall = fsm_recalls_find(fsm, row);
    bool wanted = row->recalling && !row->deleted;

    if (recall != NULL && !wanted) {
        recall_drop(fsm, recall);
    } else if (recall == NULL && wanted) {
        recall_new(fsm, row, &fsm->recalls.holders);
    }
}

void fsm_recalls_confirm(struct fsm *fsm, uint64_t node_id, struct command_list *list)
{
    struct recalled_item item;

    while (command_next(list, &item)) {
        struct fsm_row *row = fsm_tags_find(&fsm->tags, item.name, item.name_len);
        struct fsm_recall *recall = fsm_recalls_find(fsm, row);

        if (recall != NULL && item.generation >= row->generation) {
            recall_leave(fsm, recall, node_id);
        }
    }
}

/* --- loading --- */

/* The nodes of a recall's value: at least one, rising. */
static int recall_nodes_read(const struct state_row *row, struct node_set *nodes)
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

int fsm_recalls_load(struct fsm *fsm, const struct state_row *loaded)
{
    const char *name = (const char *)loaded->key + 1;
    size_t len = loaded->key_len - 1;
    struct node_set nodes = {0};
    struct fsm_row *row = NULL;
    int err;

    if (loaded->key[0] == FSM_TABLE_HOLDERS) {
        err = node_set_load_row(&fsm->recalls.holders, fsm_journal(fsm), loaded);
        return err == 0 && fsm->recalls.holders.count > LIMIT_SEGMENT_HOLDERS ? ERR_CORRUPT : err;
    }
    err = recall_nodes_read(loaded, &nodes);
    if (err == 0 && tag_name_check(name, len, NULL) != 0) {
        err = ERR_CORRUPT;
    }
    if (err == 0 && fsm_recalls_find(fsm, fsm_tags_find(&fsm->tags, name, len)) != NULL) {
        err = ERR_EXISTS;
    }
    if (err == 0) {
        row = fsm->recalls.count < LIMIT_RECALLS ? fsm_tags_expect(fsm, name, len) : NULL;
        err = row == NULL ? ERR_CORRUPT : 0;
    }
    if (err == 0) {
        recall_new(fsm, row, &nodes);
    }
    node_set_free(&nodes);
    return err;
}

int fsm_recalls_check(const struct fsm *fsm)
{
    struct fsm_recall *recall;

    if (fsm->tags.recalling_count != fsm->recalls.count) {
        return ERR_CORRUPT;
    }
    RB_FOREACH (recall, fsm_recall_tree, (struct fsm_recall_tree *)(uintptr_t)&fsm->recalls.tree) {
        if (!recall->row->recalling || recall->row->deleted) {
            return ERR_CORRUPT;
        }
        for (size_t i = 0; i < recall->nodes.count; i++) {
            if (!node_set_has(&fsm->recalls.holders, recall->nodes.ids[i])) {
                return ERR_CORRUPT;
            }
        }
    }
    return 0;
}

/* --- fsm_puts --- */

/* The effect of an item. */
struct plan {
    struct fsm_change change; /* its strings are the item's, or the old row's */
    char *shape;              /* or this, owned: the shape with further keys; NULL: none */
    uint64_t key_first;       /* of a shape with further keys: the first id by the last of them */
};

/* The names of the items so far, by their hashes: an index that is at most half full; 0 is free,
 * else it is 1 + an item's position. */
struct names {
    uint32_t *index;
    size_t mask;
    uint64_t seed;
};

/* Of the items so far. */
struct so_far {
    struct fsm_tags_walk walk;
    size_t made;
    size_t recalled;
    uint64_t held; /* bytes that the asking client's tags count */
};

#define FETCH_AHEAD 8
#define PLANS_PER_BLOCK 512
#define PLAN_BLOCKS (LIMIT_TAGS_PER_BULK / PLANS_PER_BLOCK + 1)

struct puts_judged {
    struct plan *blocks[PLAN_BLOCKS]; /* a plan for each item: plan_at() */
    struct command_list command;      /* at the next item */
    struct names names;
    struct so_far so_far;
    struct fsm_changes_sum sum;
    uint64_t wall_ms;
    uint32_t made;
    uint32_t count; /* items so far */
    bool is_done;   /* no more items, or they do not matter */
    bool refused;
    struct put_result answer; /* the refusal; or the counts of changes */
};

static struct plan *plan_at(const struct puts_judged *judged, uint32_t at)
{
    return &judged->blocks[at / PLANS_PER_BLOCK][at % PLANS_PER_BLOCK];
}

/* A typing error could use up the tag: only force raises max_id so far. The result says why. */
static bool needs_force(uint64_t mark, uint64_t wanted, const struct tag_row *row,
                        struct put_result *result)
{
    uint64_t bound = tag_bound(row);

    if (wanted <= mark || wanted > bound) {
        return false; /* beyond bound: breaks another rule */
    }
    if (tag_is_dated(row)) {
        (void)snprintf(result->why, sizeof result->why, "may be of a later date than today's");
    } else if (wanted - mark > LIMIT_MAX_ID_JUMP) {
        (void)snprintf(result->why, sizeof result->why, "is a jump of more than %llu (2^48)",
                       (unsigned long long)LIMIT_MAX_ID_JUMP);
    } else if (bound - wanted < LIMIT_MAX_ID_LEFT) {
        (void)snprintf(result->why, sizeof result->why, "leaves %llu ids below %llu, less than %d",
                       (unsigned long long)(bound - wanted), (unsigned long long)bound,
                       LIMIT_MAX_ID_LEFT);
    } else {
        return false;
    }
    result->status = ERR_NEEDS_FORCE;
    result->max_id = mark;
    result->asked = wanted;
    return true;
}

/* The mark of granted ids. Only force moves it down, and then with a new generation. */
static int merge_max_id(const struct tag_row *old, const struct tag_put *put,
                        const struct command_list *command, struct tag_row *row,
                        struct put_result *result)
{
    bool asked = (put->fields & TAG_FIELD_MAX_ID) != 0;
    bool live = old != NULL && !old->deleted;
    uint64_t mark = old != NULL ? old->max_id : 0;
    uint64_t wanted = asked ? put->max_id : TAG_DEFAULT_MAX_ID;
    bool falls = wanted < mark && !(asked && command->force);

    if (old != NULL && asked && falls) {
        result->status = ERR_WOULD_REPEAT;
        result->max_id = mark;
        result->asked = wanted;
        return ERR_WOULD_REPEAT;
    }
    if (asked && !command->force && !(command->is_dump && old == NULL) &&
        needs_force(old != NULL ? mark : TAG_DEFAULT_MAX_ID, wanted, row, result)) {
        return ERR_NEEDS_FORCE;
    }
    /* Made again, it continues above the granted ids. */
    row->max_id = (live && !asked) || falls ? mark : wanted;
    return 0;
}

/* True, for the caller to return. */
static bool refuse_put(struct put_result *result, int status, const char *why)
{
    ASSERT(why != NULL);
    result->status = status;
    (void)snprintf(result->why, sizeof result->why, "%s", why);
    return true;
}

/* A name, even of a tombstone, keeps its first shape: its ids have texts that no other ids may
 * have. */
static bool merge_shape(const struct tag_row *old, const struct tag_put *put, struct tag_row *row,
                        struct put_result *result)
{
    bool asked = (put->fields & TAG_FIELD_SHAPE) != 0;
    size_t len = tag_shape_text_len(put->shape, asked ? put->shape_len : 0);
    struct shape shape;

    row->shape = old != NULL ? old->shape : asked ? put->shape : "";
    row->shape_len = old != NULL ? old->shape_len : asked ? put->shape_len : 0;
    /* A secret shape, or one with a date, has texts for a limited number of ids: without a max,
     * that is the max. */
    if (row->max == 0 && row->shape_len > 0 &&
        tag_shape(row->shape, row->shape_len, &shape, NULL) == 0 && shape_is_bounded(&shape)) {
        row->max = shape_bound(&shape);
    }
    /* Two shapes are the same if their visible texts are; the proposer's key is ignored once there
     * is one. */
    return old == NULL || !asked ||
           (len == tag_shape_text_len(old->shape, old->shape_len) &&
            memcmp(old->shape, put->shape, len) == 0) ||
           !refuse_put(result, ERR_INVALID,
                       "a name keeps the shape that it was first made with, also when deleted");
}

/* The tag shall have this key: its present one, or the next, from which on ids are by the put's
 * key. Ids still in segments or windows are by the key before, and so are the ids below max_id that
 * no client got; none of them comes again. A new name may begin with any key number, as in a dump
 * of another cluster: its earlier keys have no ids. Sets plan->shape if it has further keys, and
 * max. */
static bool merge_key(const struct tag_row *old, const struct tag_put *put, struct tag_row *row,
                      struct plan *plan, struct put_result *result)
{
    unsigned count = put->key_number + 1U;
    struct shape shape;

    if (!tag_is_rekeyable(row)) {
        return !refuse_put(result, ERR_INVALID, "key is for a tag whose shape has {key}");
    }
    if (tag_shape(row->shape, row->shape_len, &shape, NULL) != 0) {
        return !refuse_put(result, ERR_INVALID, "the key of a shape is missing, or too much");
    }
    if (count == shape.key_count) {
        return true; /* e.g. a repeat */
    }
    if (count < shape.key_count || (old != NULL && count != shape.key_count + 1U)) {
        result->status = ERR_CONFLICT;
        (void)snprintf(result->why, sizeof result->why, "the tag has key %u", shape.key_count - 1U);
        return false;
    }
    if (old != NULL && (put->fields & (TAG_FIELD_MAX_ID | TAG_FIELD_MAX)) != 0) {
        return !refuse_put(result, ERR_INVALID,
                           "another key comes without max_id and max, which it sets");
    }
    plan->shape = MUST_HAVE(malloc((size_t)row->shape_len + SHAPE_KEYS_MAX * SHAPE_KEY_BYTES));
    memcpy(plan->shape, row->shape, row->shape_len);
    row->shape = plan->shape;
    for (unsigned keys = shape.key_count; keys < count; keys++) {
        memcpy(plan->shape + row->shape_len, put->key, SHAPE_KEY_BYTES);
        row->shape_len = (uint16_t)(row->shape_len + SHAPE_KEY_BYTES);
    }
    if ((put->fields & TAG_FIELD_MAX) == 0 || put->max == 0) {
        row->max = shape_key_first(&shape, count);
    }
    plan->key_first = shape_key_first(&shape, put->key_number);
    return true;
}

/* Merge these fields of the item; without an increment there is one offset. */
static void merge_fields(const struct tag_put *put, struct tag_row *row)
{
    bool had_cover = row->cover_s > 0;

    if (put->fields & TAG_FIELD_STEP) {
        row->step = put->step;
    }
    if (put->fields & TAG_FIELD_MAX_STEP) {
        row->max_step = put->max_step;
    } else if (row->max_step < row->step) {
        row->max_step = row->step;
    }
    if (put->fields & TAG_FIELD_MAX) {
        row->max = put->max;
    }
    if (put->fields & TAG_FIELD_MODE) {
        row->mode = put->mode;
    }
    if (put->fields & TAG_FIELD_DESCRIPTION) {
        row->description = put->description;
        row->description_len = put->description_len;
    }
    if (put->step_fields & TAG_FIELD_INCREMENT) {
        row->increment = put->increment > 1 ? put->increment : 0;
        row->offset = row->increment > 0 ? row->offset : 0;
    }
    if (put->step_fields & TAG_FIELD_OFFSET) {
        row->offset = put->offset;
    }
    if (put->step_fields & TAG_FIELD_COVER) {
        row->cover_s = put->cover_s;
    }
    /* A default max_step does not bound segments that are sized by time. */
    if ((put->fields & TAG_FIELD_MAX_STEP) == 0 && had_cover != (row->cover_s > 0)) {
        if (!had_cover && row->max_step == TAG_DEFAULT_MAX_STEP) {
            row->max_step = LIMIT_TAG_STEP;
        } else if (had_cover && row->max_step == LIMIT_TAG_STEP) {
            row->max_step = row->step > TAG_DEFAULT_MAX_STEP ? row->step : TAG_DEFAULT_MAX_STEP;
        }
    }
    if (put->step_fields & TAG_FIELD_PAUSED) {
        row->paused = put->paused;
        row->reason_len = row->paused ? row->reason_len : 0;
    }
    if (put->step_fields & TAG_FIELD_REASON) {
        row->reason = put->reason;
        row->reason_len = put->reason_len;
    }
}

/*
 * Compute the new row: fields that were not given keep the row's values, or take the defaults where
 * there is no row or only a tombstone. name and description are borrowed from the item or from the
 * old row. The caller sets times and frees plan->shape.
 */
static int put_merge(const struct fsm *fsm, const struct tag_row *old, const struct tag_put *put,
                     const struct command_list *command, struct plan *plan,
                     struct put_result *result)
{
    bool live = old != NULL && !old->deleted;
    struct tag_row row = {
        .description = "",
        .reason = "",
        .mode = TAG_MODE_TREND,
        .step = TAG_DEFAULT_STEP,
        .max_step = TAG_DEFAULT_MAX_STEP,
    };
    const char *why = NULL;
    bool is_moved;
    int err;

    if (live) {
        row = *old;
    }
    row.name = put->name;
    row.name_len = put->name_len;
    row.deleted = false;
    row.generation = old != NULL ? old->generation : 0;
    merge_fields(put, &row);
    if (!merge_shape(old, put, &row, result)) {
        return ERR_INVALID;
    }
    if ((put->fields & TAG_FIELD_KEY) != 0 && !merge_key(old, put, &row, plan, result)) {
        return result->status;
    }
    row.recalling = row.mode != TAG_MODE_TREND && recall_is_due(fsm, old, command->force);
    err = merge_max_id(old, put, command, &row, result);
    if (err != 0) {
        return err;
    }
    if (plan->shape != NULL && (put->fields & TAG_FIELD_MAX_ID) == 0) {
        row.max_id = plan->key_first;
    }
    if (tag_row_check(&row, &why) != 0) {
        (void)refuse_put(result, ERR_INVALID, why);
        return ERR_INVALID;
    }
    /* A new tag, or one made again, counts for the asking client. So does one that this client
     * makes larger, whichever client had it before: each growth is checked against the share of the
     * client that causes it. */
    if (command->client != 0 && (!live || tag_share_bytes(&row) > tag_share_bytes(old))) {
        row.client = command->client;
    }
    is_moved = (put->fields & TAG_FIELD_MAX_ID) != 0 || plan->shape != NULL;
    /* A new generation: nodes burn their ids. A set max_id means that ids below it are in use
     * elsewhere (Leaf continued, or a backup was restored), so they must not be handed out or given
     * back here, even if max_id is unchanged. Of a strict tag no node holds any; of a monotonic one
     * the leader has a window (R11). Ids by a key or an increment that is no longer in force must
     * not come from nodes or clients either. */
    row.generation += !live || row.mode != old->mode || row.max_id < old->max_id ||
                      row.increment != old->increment || row.offset != old->offset ||
                      (is_moved && row.mode != TAG_MODE_STRICT);
    plan->change.tag = row;
    return 0;
}

/* Add the name of the item at this position to the index; true: it was there already. */
static bool stood_before(struct puts_judged *judged, const struct tag_put *put, uint32_t at)
{
    struct names *names = &judged->names;
    struct plan *plan = plan_at(judged, at);
    size_t slot = hash_bytes(put->name, put->name_len, names->seed) & names->mask;

    for (; names->index[slot] != 0; slot = (slot + 1) & names->mask) {
        const struct tag_row *other = &plan_at(judged, names->index[slot] - 1)->change.tag;

        if (tag_name_compare(other->name, other->name_len, put->name, put->name_len) == 0) {
            return true;
        }
    }
    names->index[slot] = at + 1;
    plan->change.tag.name = put->name;
    plan->change.tag.name_len = put->name_len;
    return false;
}

/* True if the item breaks a rule, which the result names. Else the plan has its effect. */
static bool item_refused(struct fsm *fsm, const struct command_list *command,
                         const struct tag_put *put, struct so_far *so_far, struct plan *plan,
                         struct put_result *result)
{
    struct fsm_row *row = fsm_tags_walk(&fsm->tags, &so_far->walk, put->name, put->name_len);
    const struct tag_row tag = row != NULL ? fsm_row_tag(row) : (struct tag_row){0};
    const struct tag_row *old = row != NULL ? &tag : NULL;
    const struct tag_row *merged = &plan->change.tag;
    uint64_t before; /* bytes that the asking client's tags count for this one */
    uint64_t after;

    plan->change.row = row;
    plan->change.before = so_far->walk.last;
    plan->change.after = so_far->walk.after;
    if (put_merge(fsm, old, put, command, plan, result) != 0) {
        return true;
    }
    before = old != NULL && old->client == command->client ? tag_share_bytes(old) : 0;
    after = merged->client == command->client ? tag_share_bytes(merged) : 0;
    so_far->held += after - before;
    /* An item that adds none is allowed, even to a client above its share. */
    if (command->client != 0 && after > before && so_far->held > command->most) {
        result->status = ERR_SHARE;
        result->max_id = fsm_owners_held(&fsm->tags.owners, command->client);
        result->asked = command->most;
        return true;
    }
    so_far->made += row == NULL;
    so_far->recalled += merged->recalling && fsm_recalls_find(fsm, row) == NULL;
    if (fsm->tags.count + so_far->made > LIMIT_TAGS) {
        return refuse_put(result, ERR_OVERLOADED, "the table of tags is full (4000000)");
    }
    if (fsm->recalls.count + so_far->recalled > LIMIT_RECALLS) {
        return refuse_put(result, ERR_OVERLOADED,
                          "10000 tags wait for nodes already to become strict");
    }
    return false;
}

struct puts_judged *fsm_puts_judge_begin(const struct fsm *fsm, const struct command_list *command)
{
    struct puts_judged *judged = MUST_HAVE(calloc(1, sizeof *judged));
    size_t size = 16; /* of the index of names */

    judged->command = *command;
    judged->wall_ms = displayable_ms(command->wall_ms);
    judged->so_far.held = fsm_owners_held(&fsm->tags.owners, command->client);
    if (command->count < 1) {
        judged->refused = refuse_put(&judged->answer, ERR_INVALID, "the list of tags is empty");
    } else if (command->count > LIMIT_TAGS_PER_BULK) {
        judged->answer.failed_at = LIMIT_TAGS_PER_BULK;
        judged->refused =
            refuse_put(&judged->answer, ERR_INVALID, "more than 10000 tags in one request");
    }
    judged->is_done = judged->refused;
    while (!judged->is_done && size < 2 * (size_t)command->count) {
        size *= 2;
    }
    judged->names.index = MUST_HAVE(calloc(size, sizeof *judged->names.index));
    judged->names.mask = size - 1;
    judged->names.seed = fsm->tags.seed;
    return judged;
}

/* A name that occurs twice is refused before any other error of an item. */
static void judge_item(struct fsm *fsm, struct puts_judged *judged, const struct tag_put *put)
{
    uint32_t at = judged->count++;
    const struct fsm_row *old;
    struct tag_row *tag;
    struct plan *plan;
    bool is_made;

    if (at % PLANS_PER_BLOCK == 0) {
        judged->blocks[at / PLANS_PER_BLOCK] =
            MUST_HAVE(calloc(PLANS_PER_BLOCK, sizeof(struct plan)));
    }
    plan = plan_at(judged, at);
    if (stood_before(judged, put, at)) {
        judged->answer = (struct put_result){.failed_at = at};
        judged->refused = judged->is_done =
            refuse_put(&judged->answer, ERR_INVALID, "the same tag stands twice in one request");
        return;
    }
    if (judged->refused) {
        return;
    }
    judged->answer.failed_at = at;
    judged->refused =
        item_refused(fsm, &judged->command, put, &judged->so_far, plan, &judged->answer);
    if (judged->refused) {
        return;
    }
    old = plan->change.row;
    tag = &plan->change.tag;
    is_made = old == NULL || old->deleted;
    tag->created_ms = old != NULL ? old->created_ms : 0;
    tag->created_ms = is_made ? later_of(tag->created_ms, judged->wall_ms) : tag->created_ms;
    tag->updated_ms = later_of(old != NULL ? old->updated_ms : 0, judged->wall_ms);
    fsm_tags_ready(fsm, &plan->change, &judged->sum);
    judged->made += is_made;
}

bool fsm_puts_judge(struct fsm *fsm, struct puts_judged *judged, uint32_t items)
{
    struct tag_put put;

    for (; items > 0 && !judged->is_done; items--) {
        if (command_next(&judged->command, &put)) {
            judge_item(fsm, judged, &put);
        } else {
            judged->is_done = true;
            judged->answer.failed_at = judged->refused ? judged->answer.failed_at : 0;
        }
    }
    return !judged->is_done;
}

void fsm_puts_drop(struct puts_judged *judged)
{
    if (judged == NULL) {
        return;
    }
    for (uint32_t i = 0; i < judged->count; i++) {
        free(plan_at(judged, i)->change.rest);
        free(plan_at(judged, i)->shape);
    }
    row_changes_release(&judged->sum.rows);
    for (uint32_t i = 0; i < PLAN_BLOCKS; i++) {
        free(judged->blocks[i]);
    }
    free(judged->names.index);
    free(judged);
}

/* Item number `at` will be carried out soon: prefetch its data into the caches. */
static void fetch(const struct puts_judged *judged, uint32_t at)
{
    const struct fsm_change *change = &plan_at(judged, at)->change;

    __builtin_prefetch(change->row != NULL ? change->row : change->before, 1);
    __builtin_prefetch(change->row != NULL ? change->row : change->after, 1);
}

void fsm_puts_apply(struct fsm *fsm, struct puts_judged *judged, struct buf *result)
{
    struct put_result *answer = &judged->answer;
    const struct fsm_counts *adds = &judged->sum.counts;

    (void)fsm_puts_judge(fsm, judged, UINT32_MAX);
    if (judged->refused) {
        put_result_encode(answer, result);
        return;
    }
    journal_move(fsm_journal(fsm), &judged->sum.rows, judged->sum.digest);
    fsm->tags.counts.bytes += adds->bytes;
    fsm->tags.counts.dead += adds->dead;
    fsm->tags.counts.dated += adds->dated;
    for (uint32_t i = 0; i < judged->count; i++) {
        struct fsm_row *row;

        if (i + FETCH_AHEAD < judged->count) {
            fetch(judged, i + FETCH_AHEAD);
        }
        row = fsm_tags_change(fsm, &plan_at(judged, i)->change);
        recall_follow(fsm, row);
        if (i == 0) {
            answer->first = fsm_row_tag(row);
        }
    }
    answer->made = judged->made;
    answer->changed = judged->count - judged->made;
    put_result_encode(answer, result);
}

int fsm_puts_delete(struct fsm *fsm, const struct delete_command *command)
{
    struct fsm_row *row = fsm_tags_find(&fsm->tags, command->name, command->name_len);
    struct tag_row tag;

    if (row == NULL || row->deleted) {
        return ERR_UNKNOWN_TAG;
    }
    tag = fsm_row_tag(row);
    fsm_owners_leave(&fsm->tags.owners, tag.client, tag_share_bytes(&tag));
    fsm_tags_change_begin(fsm, row);
    tag.deleted = true;
    tag.generation++;
    tag.updated_ms = later_of(tag.updated_ms, displayable_ms(command->wall_ms));
    if (tag.client != 0 || tag.paused || tag.cover_s != 0) {
        /* From level 2 on; before, a tombstone kept texts that are never shown again. */
        tag.description_len = 0;
        tag.reason_len = 0;
        tag.paused = false;
        tag.cover_s = 0;
    }
    fsm_row_set(row, &tag);
    fsm_owners_enter(&fsm->tags.owners, tag.client, tag_share_bytes(&tag));
    fsm_tags_change_end(fsm, row);
    recall_follow(fsm, row);
    return 0;
}

/* --- the memory of puts --- */

uint64_t fsm_adds(const struct fsm *fsm, struct command_list puts)
{
    struct fsm_tags_walk walk = {0};
    struct tag_put put;
    uint64_t bytes = 0;

    while (command_next(&puts, &put)) {
        const struct fsm_row *old = fsm_tags_walk(&fsm->tags, &walk, put.name, put.name_len);
        const struct tag_row was = old != NULL ? fsm_row_tag(old) : (struct tag_row){0};
        uint64_t before = old != NULL ? fsm_tag_bytes(&was) : 0;
        struct tag_row row = was;
        uint64_t after;

        if (old == NULL || was.deleted) {
            row = (struct tag_row){.shape = old != NULL ? was.shape : put.shape,
                                   .shape_len = old != NULL ? was.shape_len : put.shape_len};
        }
        if ((put.step_fields & TAG_FIELD_PAUSED) != 0 && !put.paused) {
            row.reason_len = 0;
        }
        row.name_len = put.name_len;
        row.description_len =
            put.fields & TAG_FIELD_DESCRIPTION ? put.description_len : row.description_len;
        row.max = put.fields & TAG_FIELD_MAX ? put.max : row.max;
        row.increment = put.step_fields & TAG_FIELD_INCREMENT ? put.increment : row.increment;
        row.cover_s = put.step_fields & TAG_FIELD_COVER ? put.cover_s : row.cover_s;
        row.reason_len = put.step_fields & TAG_FIELD_REASON ? put.reason_len : row.reason_len;
        after = fsm_tag_bytes(&row);
        bytes += after > before ? after - before : 0; /* by every text that it makes longer */
    }
    return bytes;
}
