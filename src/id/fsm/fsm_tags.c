/*
 * fsm_tags.c - what commands do to tags: grant, give back, put, delete (fsm_state.h).
 *
 * The happy path of a put: check that no name stands twice, merge and check every item against its
 * row, and only then change the rows. Of a grant: item by item, each takes [max_id, max_id + n) and
 * moves max_id up. Of a range given back: it must be the topmost, of this generation, and then
 * max_id is its first id again. Of a delete: the row becomes a tombstone.
 *
 * Failure modes go into the result, and then nothing was changed, but for single grants of a
 * command: each of them stands for itself.
 *
 * Thread: one owner. Deterministic: only the state and the command decide.
 */
#include "src/id/fsm/fsm_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/assert.h"

/* Who is granted segments, and when. */
struct grant_to {
    uint64_t node_id;
    uint64_t wall_ms;
};

/* An item's name and its position, to find names that stand twice. */
struct named {
    const char *name;
    uint16_t len;
    uint32_t at;
};

static void grant_one(struct fsm *fsm, const struct grant_to *to, const struct grant_item *item,
                      struct fsm_changes *changes, struct grant_result *ret_result);
static bool give_back_one(struct fsm *fsm, const struct give_back_item *item, uint64_t wall_ms,
                          struct fsm_changes *changes);
static bool put_refused(struct fsm *fsm, struct put_command command, struct put_result *result);
static void put_carry_out(struct fsm *fsm, struct put_command command, struct put_result *result,
                          struct fsm_changes *changes);
static int put_merge(const struct fsm *fsm, const struct tag_row *old, const struct tag_put *put,
                     bool force, struct tag_row *ret_row, struct put_result *result);
static int merge_max_id(const struct tag_row *old, const struct tag_put *put, bool force,
                        struct tag_row *row, struct put_result *result);
static bool find_twice(struct put_command command, uint32_t *ret_at);
static int named_order(const void *a, const void *b);
static bool refuse_put(struct put_result *result, int status, const char *why);

void fsm_apply_grant(struct fsm *fsm, uint64_t node_id, struct grant_command *command,
                     struct buf *result, struct fsm_changes *changes)
{
    const struct grant_to to = {node_id, fsm_shown_ms(command->wall_ms)};
    struct grant_result results[LIMIT_GRANTS_PER_ENTRY];
    struct grant_item item;
    size_t count = 0;

    while (grant_command_next(command, &item)) {
        ASSERT(count < LIMIT_GRANTS_PER_ENTRY);
        grant_one(fsm, &to, &item, changes, &results[count++]);
    }
    ASSERT(count == command->count);
    grant_results_encode(results, count, result);
}

void fsm_apply_put(struct fsm *fsm, struct put_command *command, struct buf *result,
                   struct fsm_changes *changes)
{
    struct put_result answer = {0};

    command->wall_ms = fsm_shown_ms(command->wall_ms);
    if (!put_refused(fsm, *command, &answer)) {
        put_carry_out(fsm, *command, &answer, changes);
    }
    put_result_encode(&answer, result);
    put_result_release(&answer);
}

/* What the delete is told. */
static int delete_one(struct fsm *fsm, const struct delete_command *command,
                      struct fsm_changes *changes)
{
    struct fsm_row *row = fsm_row_find(fsm, command->name, command->name_len);
    struct tag_row *tag = row != NULL ? &row->tag : NULL;

    if (tag == NULL || tag->deleted) {
        return ERR_UNKNOWN_TAG;
    }
    fsm_row_change_begin(fsm, row);
    tag->deleted = true;
    tag->generation++;
    tag->updated_ms = fsm_later(tag->updated_ms, fsm_shown_ms(command->wall_ms));
    fsm_row_change_end(fsm, row, changes);
    fsm_recall_follow(fsm, row, changes);
    return 0;
}

void fsm_apply_delete(struct fsm *fsm, const struct delete_command *command, struct buf *result,
                      struct fsm_changes *changes)
{
    status_result_encode(delete_one(fsm, command, changes), result);
}

void fsm_apply_give_back(struct fsm *fsm, struct give_back_command *command, struct buf *result,
                         struct fsm_changes *changes)
{
    uint64_t wall_ms = fsm_shown_ms(command->wall_ms);
    int32_t statuses[LIMIT_GRANTS_PER_ENTRY];
    struct give_back_item item;
    size_t count = 0;

    while (give_back_command_next(command, &item)) {
        ASSERT(count < LIMIT_GRANTS_PER_ENTRY);
        statuses[count++] = give_back_one(fsm, &item, wall_ms, changes) ? 0 : ERR_CONFLICT;
    }
    ASSERT(count == command->count);
    statuses_encode(statuses, count, result);
}

static void grant_one(struct fsm *fsm, const struct grant_to *to, const struct grant_item *item,
                      struct fsm_changes *changes, struct grant_result *ret_result)
{
    struct fsm_row *row = fsm_row_find(fsm, item->name, item->name_len);
    struct tag_row *tag = row != NULL ? &row->tag : NULL;
    uint64_t left;
    uint32_t size;

    *ret_result = (struct grant_result){0};
    if (tag == NULL || tag->deleted) {
        ret_result->status = ERR_UNKNOWN_TAG;
        ret_result->generation = tag != NULL ? tag->generation : 0;
        return;
    }
    ret_result->generation = tag->generation;
    ret_result->step = tag->step;
    ret_result->max_step = tag->max_step;
    ASSERT(tag->step >= 1 && tag->step <= tag->max_step);
    ASSERT(tag->max_id <= TAG_MAX_ID_END);
    if (tag->mode != TAG_MODE_TREND) {
        ret_result->status = ERR_WRONG_MODE;
        return;
    }
    size = item->size > 0 ? item->size : tag->step;
    if (size > tag->max_step) {
        size = tag->max_step;
    }
    left = TAG_MAX_ID_END - tag->max_id;
    if (left == 0) {
        ret_result->status = ERR_EXHAUSTED;
        return;
    }
    if (!fsm_holder_add(fsm, to->node_id, changes)) {
        ret_result->status = ERR_OVERLOADED;
        return;
    }
    if (size > left) {
        size = (uint32_t)left;
    }
    ret_result->first = tag->max_id;
    ret_result->size = size;
    fsm_row_change_begin(fsm, row);
    tag->max_id += size;
    tag->updated_ms = fsm_later(tag->updated_ms, to->wall_ms);
    fsm_row_change_end(fsm, row, changes);
    ASSERT(tag->max_id <= TAG_MAX_ID_END);
}

/* False: the range stays burnt. */
static bool give_back_one(struct fsm *fsm, const struct give_back_item *item, uint64_t wall_ms,
                          struct fsm_changes *changes)
{
    struct fsm_row *row = fsm_row_find(fsm, item->name, item->name_len);
    struct tag_row *tag = row != NULL ? &row->tag : NULL;

    ASSERT(item->first < item->end);
    if (tag == NULL || tag->deleted || tag->mode != TAG_MODE_TREND ||
        tag->generation != item->generation || tag->max_id != item->end) {
        return false;
    }
    fsm_row_change_begin(fsm, row);
    tag->max_id = item->first;
    tag->updated_ms = fsm_later(tag->updated_ms, wall_ms);
    fsm_row_change_end(fsm, row, changes);
    return true;
}

/* True if an item breaks a rule; the result says which and why. */
static bool put_refused(struct fsm *fsm, struct put_command command, struct put_result *result)
{
    struct tag_put put;
    uint32_t twice_at = 0;
    size_t made = 0;
    size_t recalls = 0;

    if (command.count < 1) {
        return refuse_put(result, ERR_INVALID, "the list of tags is empty");
    }
    if (command.count > LIMIT_TAGS_PER_BULK) {
        result->failed_at = LIMIT_TAGS_PER_BULK;
        return refuse_put(result, ERR_INVALID, "more than 10000 tags in one request");
    }
    if (find_twice(command, &twice_at)) {
        result->failed_at = twice_at;
        return refuse_put(result, ERR_INVALID, "the same tag stands twice in one request");
    }
    for (; put_command_next(&command, &put); result->failed_at++) {
        struct fsm_row *row = fsm_row_find(fsm, put.name, put.name_len);
        const struct tag_row *old = row != NULL ? &row->tag : NULL;
        struct tag_row merged;

        if (put_merge(fsm, old, &put, command.force, &merged, result) != 0) {
            return true;
        }
        made += row == NULL;
        recalls += merged.recalling && fsm_recall_find(fsm, put.name, put.name_len) == NULL;
        if (fsm->tag_count + made > LIMIT_TAGS) {
            return refuse_put(result, ERR_OVERLOADED, "the table of tags is full (4000000)");
        }
        if (fsm->recall_count + recalls > LIMIT_RECALLS) {
            return refuse_put(result, ERR_OVERLOADED,
                              "10000 tags wait for nodes already to become strict");
        }
    }
    result->failed_at = 0;
    return false;
}

/* Change the rows; put_refused() has seen that nothing stands against it. */
static void put_carry_out(struct fsm *fsm, struct put_command command, struct put_result *result,
                          struct fsm_changes *changes)
{
    struct tag_put put;
    bool first = true;

    while (put_command_next(&command, &put)) {
        struct fsm_row *row = fsm_row_find(fsm, put.name, put.name_len);
        bool exists = row != NULL;
        bool live = exists && !row->tag.deleted;
        struct tag_row merged;
        int err = put_merge(fsm, exists ? &row->tag : NULL, &put, command.force, &merged, result);

        ASSERT(err == 0);
        if (exists) {
            fsm_row_change_begin(fsm, row);
        } else {
            row = fsm_row_make(fsm, put.name, put.name_len);
            ASSERT(row != NULL);
        }
        fsm_row_describe(row, merged.description, merged.description_len);
        merged.name = row->tag.name;
        merged.description = row->tag.description;
        merged.created_ms =
            live ? row->tag.created_ms : fsm_later(row->tag.created_ms, command.wall_ms);
        merged.updated_ms = fsm_later(row->tag.updated_ms, command.wall_ms);
        row->tag = merged;
        fsm_row_change_end(fsm, row, changes);
        fsm_recall_follow(fsm, row, changes);
        result->made += !live;
        result->changed += live;
        if (first) {
            tag_row_copy(&result->first, &row->tag);
        }
        first = false;
    }
}

/*
 * What the row becomes: fields that were not given keep the row's values, or take the defaults
 * where there is no row or only a tombstone. name and description are borrowed from the item or
 * from the old row; times are the caller's to set.
 */
static int put_merge(const struct fsm *fsm, const struct tag_row *old, const struct tag_put *put,
                     bool force, struct tag_row *ret_row, struct put_result *result)
{
    bool live = old != NULL && !old->deleted;
    struct tag_row row = {
        .description = (char *)(uintptr_t) "",
        .mode = TAG_MODE_TREND,
        .step = TAG_DEFAULT_STEP,
        .max_step = TAG_DEFAULT_MAX_STEP,
    };
    const char *why = NULL;
    int err;

    if (live) {
        row = *old;
    }
    row.name = (char *)(uintptr_t)put->name;
    row.name_len = put->name_len;
    row.deleted = false;
    row.generation = old != NULL ? old->generation : 0;
    if (put->fields & TAG_FIELD_STEP) {
        row.step = put->step;
    }
    if (put->fields & TAG_FIELD_MAX_STEP) {
        row.max_step = put->max_step;
    } else if (row.max_step < row.step) {
        row.max_step = row.step;
    }
    if (put->fields & TAG_FIELD_MODE) {
        row.mode = put->mode;
    }
    if (put->fields & TAG_FIELD_DESCRIPTION) {
        row.description = (char *)(uintptr_t)put->description;
        row.description_len = put->description_len;
    }
    row.recalling = row.mode == TAG_MODE_STRICT && fsm_recall_is_due(fsm, old, force);
    err = merge_max_id(old, put, force, &row, result);
    if (err != 0) {
        return err;
    }
    if (tag_row_check(&row, &why) != 0) {
        (void)refuse_put(result, ERR_INVALID, why);
        return ERR_INVALID;
    }
    /* New to the nodes: they burn what they hold. That max_id is set means that ids below it are in
     * use elsewhere (Leaf went on, or a backup was restored), so they must not come from here
     * either, nor be given back, also if it is what it was; of a strict tag nobody holds any. */
    row.generation += !live || row.mode != old->mode || row.max_id < old->max_id ||
                      ((put->fields & TAG_FIELD_MAX_ID) != 0 && row.mode == TAG_MODE_TREND);
    *ret_row = row;
    return 0;
}

/* The mark of what was granted. Only force moves it down, and then to a new generation. */
static int merge_max_id(const struct tag_row *old, const struct tag_put *put, bool force,
                        struct tag_row *row, struct put_result *result)
{
    bool asked = (put->fields & TAG_FIELD_MAX_ID) != 0;
    bool live = old != NULL && !old->deleted;
    uint64_t mark = old != NULL ? old->max_id : 0;
    uint64_t wanted = asked ? put->max_id : TAG_DEFAULT_MAX_ID;

    if (live && !asked) {
        row->max_id = mark;
        return 0;
    }
    if (wanted >= mark) {
        row->max_id = wanted;
        return 0;
    }
    if (asked && force) {
        row->max_id = wanted;
        return 0;
    }
    if (!live) {
        row->max_id = mark; /* made again, it goes on above what was granted */
        return 0;
    }
    result->status = ERR_WOULD_REPEAT;
    result->max_id = mark;
    result->asked = wanted;
    return ERR_WOULD_REPEAT;
}

/* The position of the first item whose name stood before it; false if there is none. */
static bool find_twice(struct put_command command, uint32_t *ret_at)
{
    struct named *names = calloc(command.count, sizeof *names);
    struct tag_put put;
    uint32_t count = 0;
    uint32_t at = UINT32_MAX;

    ASSERT(names != NULL);
    while (put_command_next(&command, &put)) {
        ASSERT(count < command.count);
        names[count] = (struct named){put.name, put.name_len, count};
        count++;
    }
    qsort(names, count, sizeof *names, named_order);
    for (uint32_t i = 1; i < count; i++) {
        if (tag_name_compare(names[i - 1].name, names[i - 1].len, names[i].name, names[i].len) ==
                0 &&
            names[i].at < at) {
            at = names[i].at;
        }
    }
    free(names);
    *ret_at = at;
    return at != UINT32_MAX;
}

/* By name, then by position: a total order, so that every C library sorts alike. */
static int named_order(const void *a, const void *b)
{
    const struct named *left = a;
    const struct named *right = b;
    int order = tag_name_compare(left->name, left->len, right->name, right->len);

    if (order != 0) {
        return order;
    }
    return left->at < right->at ? -1 : left->at > right->at;
}

/* True, for the caller to return. */
static bool refuse_put(struct put_result *result, int status, const char *why)
{
    ASSERT(why != NULL);
    result->status = status;
    (void)snprintf(result->why, sizeof result->why, "%s", why);
    return true;
}
