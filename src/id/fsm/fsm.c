/*
 * fsm.c - see fsm.h: dispatch of commands and queries, loading, and the memory of digests.
 *
 * The happy path: fsm_apply() sees that the command is a new one of its session, reads it whole,
 * hands it to the file of its table, and remembers the answer, and the digest under the entry's
 * index.
 *
 * Failure modes: as in fsm.h. Nothing is changed before the whole command was read. Thread: one
 * owner.
 */
#include "src/id/fsm/fsm.h"

#include <stdlib.h>
#include <string.h>

#include "src/base/assert.h"
#include "src/id/codec/tag_marks.h"
#include "src/id/fsm/fsm_state.h"

/* A committed command. */
struct entry {
    uint64_t index;
    struct session_stamp stamp;
    int type; /* enum command_type */
    const void *data;
    size_t len;
};

static int apply_unstamped(struct fsm *fsm, const struct entry *entry, struct buf *result);
static int apply_once(struct fsm *fsm, const struct entry *entry, struct buf *result,
                      struct fsm_changes *changes);
static int apply_type(struct fsm *fsm, const struct entry *entry, struct buf *result,
                      struct fsm_changes *changes);
static int apply_ids(struct fsm *fsm, const struct entry *entry, struct buf *result,
                     struct fsm_changes *changes);
static int apply_node_info(struct fsm *fsm, const struct entry *entry, struct buf *result,
                           struct fsm_changes *changes);
static int apply_digest(struct fsm *fsm, const void *command, size_t len, struct buf *result);
static int apply_setting(struct fsm *fsm, const struct entry *entry, struct buf *result,
                         struct fsm_changes *changes);
static void query_list(const struct fsm *fsm, const struct query *query, struct buf *result);
static int load_node(struct fsm *fsm, const uint8_t *key, size_t key_len, const void *value,
                     size_t value_len);

struct fsm *fsm_new(void)
{
    struct fsm *fsm = calloc(1, sizeof *fsm);

    ASSERT(fsm != NULL);
    RB_INIT(&fsm->tags);
    RB_INIT(&fsm->recalls);
    TAILQ_INIT(&fsm->keys.ages);
    return fsm;
}

void fsm_free(struct fsm *fsm)
{
    if (fsm == NULL) {
        return;
    }
    fsm_rows_clear(fsm);
    buf_free(&fsm->scratch);
    free(fsm);
}

void fsm_listen(struct fsm *fsm, struct fsm_listener *listener)
{
    ASSERT(listener == NULL || fsm->listener == NULL);
    fsm->listener = listener;
}

int fsm_apply(struct fsm *fsm, uint64_t index, const void *command, size_t len, struct buf *result,
              struct fsm_changes *changes)
{
    struct entry entry = {.index = index, .data = command, .len = len};
    int err;

    ASSERT(!fsm->loading);
    entry.type = command_type(command, len);
    err = entry.type < 0 ? ERR_BAD_MESSAGE : session_stamp_read(command, len, &entry.stamp);
    if (err == 0) {
        err = entry.stamp.node_id == 0 ? apply_unstamped(fsm, &entry, result)
                                       : apply_once(fsm, &entry, result, changes);
    }
    if (err == ERR_BAD_MESSAGE) {
        status_result_encode(ERR_BAD_MESSAGE, result);
    }
    fsm_digest_remember(fsm, index);
    return err;
}

int fsm_query(const struct fsm *fsm, const void *query, size_t len, struct buf *result)
{
    struct query what;
    const struct tag_row *row;
    int err = query_decode(query, len, &what);

    if (err != 0) {
        return err;
    }
    if (what.type == QUERY_TAG_LIST) {
        query_list(fsm, &what, result);
        return 0;
    }
    if (what.type == QUERY_WORKERS) {
        fsm_query_workers(fsm, &what, result);
        return 0;
    }
    row = fsm_tag(fsm, what.name, what.name_len);
    if (row == NULL || row->deleted) {
        return ERR_UNKNOWN_TAG;
    }
    tag_rows_encode(&row, 1, NULL, result);
    return 0;
}

const struct tag_row *fsm_tag(const struct fsm *fsm, const char *name, size_t name_len)
{
    struct fsm_row *row = fsm_row_find(fsm, name, name_len);

    return row != NULL ? &row->tag : NULL;
}

void fsm_tag_marks(const struct fsm *fsm, const void *command, size_t len, struct buf *marks)
{
    struct tag_names names;
    const char *name;
    size_t name_len;

    tag_names_begin(&names, command, len);
    buf_reserve(marks, (size_t)names.left * TAG_MARK_BYTES);
    while (tag_names_next(&names, &name, &name_len)) {
        const struct tag_row *row = fsm_tag(fsm, name, name_len);

        buf_put_u32(marks, row != NULL ? row->generation : 0);
    }
}

bool fsm_node(const struct fsm *fsm, uint64_t node_id, struct node_info *ret_info)
{
    const struct node_info *info = fsm_node_find(fsm, node_id);

    if (info == NULL) {
        return false;
    }
    *ret_info = *info;
    return true;
}

size_t fsm_tag_count(const struct fsm *fsm)
{
    return fsm->tag_count;
}

uint64_t fsm_digest(const struct fsm *fsm)
{
    return fsm->digest;
}

void fsm_load_begin(struct fsm *fsm)
{
    fsm_rows_clear(fsm);
    memset(fsm->marks, 0, sizeof fsm->marks);
    fsm->loading = true;
}

int fsm_load_row(struct fsm *fsm, const void *key, size_t key_len, const void *value,
                 size_t value_len)
{
    const uint8_t *bytes = key;

    ASSERT(fsm->loading);
    if (key_len < 1) {
        return ERR_CORRUPT;
    }
    switch (bytes[0]) {
    case FSM_TABLE_TAGS:
        return fsm_load_tag(fsm, (const char *)bytes + 1, key_len - 1, value, value_len);
    case FSM_TABLE_NODES:
        return load_node(fsm, bytes, key_len, value, value_len);
    case FSM_TABLE_WORKERS:
        return fsm_load_worker(fsm, bytes, key_len, value, value_len);
    case FSM_TABLE_SETTINGS:
        return fsm_load_setting(fsm, bytes, key_len, value, value_len);
    case FSM_TABLE_MEMBERS:
        return fsm_load_member_change(fsm, key_len, value, value_len);
    case FSM_TABLE_REMOVED:
        return fsm_load_member_removed(fsm, bytes, key_len, value, value_len);
    case FSM_TABLE_HOLDERS:
        return fsm_load_holder(fsm, bytes, key_len, value, value_len);
    case FSM_TABLE_RECALLS:
        return fsm_load_recall(fsm, bytes, key_len, value, value_len);
    case FSM_TABLE_ANSWERS:
        return fsm_load_answer(fsm, bytes, key_len, value, value_len);
    case FSM_TABLE_KEYS:
        return fsm_load_key(fsm, bytes, key_len, value, value_len);
    default:
        return ERR_CORRUPT;
    }
}

int fsm_load_end(struct fsm *fsm, uint64_t index)
{
    int err = fsm->hollow_count > 0 ? ERR_CORRUPT : 0; /* rows that tell of tags without a row */

    ASSERT(fsm->loading);
    if (err == 0) {
        err = fsm_recalls_check(fsm);
    }
    if (err == 0) {
        err = fsm_sessions_check(fsm);
    }
    if (err == 0) {
        err = fsm_keys_order(fsm, index);
    }
    if (err != 0) {
        return err;
    }
    fsm->loading = false;
    fsm_digest_remember(fsm, index);
    fsm_tell_layout(fsm);
    fsm_tell_workers(fsm);
    if (fsm->listener == NULL || fsm->listener->tag_changed == NULL) {
        return 0;
    }
    for (struct fsm_row *row = fsm_row_first(fsm); row != NULL; row = fsm_row_next(row)) {
        fsm->listener->tag_changed(fsm->listener, &row->tag);
    }
    return 0;
}

/* The first entry of a term is nobody's and does nothing; everything else is somebody's. */
static int apply_unstamped(struct fsm *fsm, const struct entry *entry, struct buf *result)
{
    return entry->type == COMMAND_NOOP ? apply_type(fsm, entry, result, NULL) : ERR_BAD_MESSAGE;
}

/* Carry it out, unless it was before or must not be (session.h). */
static int apply_once(struct fsm *fsm, const struct entry *entry, struct buf *result,
                      struct fsm_changes *changes)
{
    size_t before = result->len;
    int err = 0;

    if (fsm_session_lookup(fsm, &entry->stamp, result)) {
        return 0;
    }
    if (!fsm_session_is_full(fsm, &entry->stamp, result)) {
        err = apply_type(fsm, entry, result, changes);
    }
    if (err != ERR_BAD_MESSAGE) {
        fsm_session_answer(fsm, &entry->stamp, result->data + before, result->len - before,
                           changes);
    }
    return err;
}

/* 0, ERR_DIVERGED, or ERR_BAD_MESSAGE, and then nothing was changed or appended. */
static int apply_type(struct fsm *fsm, const struct entry *entry, struct buf *result,
                      struct fsm_changes *changes)
{
    const void *command = entry->data;
    size_t len = entry->len;
    struct put_command put;
    struct delete_command deletion;
    int err = ERR_BAD_MESSAGE;

    switch (entry->type) {
    case COMMAND_NOOP:
        err = noop_command_read(command, len);
        if (err == 0) {
            status_result_encode(0, result);
        }
        break;
    case COMMAND_TAGS_PUT:
        err = put_command_read(command, len, &put);
        if (err == 0) {
            fsm_apply_put(fsm, &put, result, changes);
        }
        break;
    case COMMAND_TAG_DELETE:
        err = delete_command_read(command, len, &deletion);
        if (err == 0) {
            fsm_apply_delete(fsm, &deletion, result, changes);
        }
        break;
    case COMMAND_NODE_INFO:
        err = apply_node_info(fsm, entry, result, changes);
        break;
    case COMMAND_DIGEST:
        err = apply_digest(fsm, command, len, result);
        break;
    case COMMAND_LAYOUT:
    case COMMAND_CLOCK:
        err = apply_setting(fsm, entry, result, changes);
        break;
    case COMMAND_WORKER_ACQUIRE:
    case COMMAND_WORKER_RENEW:
    case COMMAND_WORKER_RELEASE:
        err = fsm_apply_worker(fsm, entry->type, command, len, result, changes);
        break;
    case COMMAND_MEMBER_BEGIN:
    case COMMAND_MEMBER_END:
        err = fsm_apply_member(fsm, entry->type, entry->index, command, len, result, changes);
        break;
    default:
        err = apply_ids(fsm, entry, result, changes);
        break;
    }
    return err;
}

/* Segments granted, given back and dropped; strict ids. */
static int apply_ids(struct fsm *fsm, const struct entry *entry, struct buf *result,
                     struct fsm_changes *changes)
{
    struct grant_command grant;
    struct strict_command strict;
    struct give_back_command give_back;
    struct recalled_command recalled;
    int err = ERR_BAD_MESSAGE;

    switch (entry->type) {
    case COMMAND_GRANT:
        err = grant_command_read(entry->data, entry->len, &grant);
        if (err == 0) {
            fsm_apply_grant(fsm, entry->stamp.node_id, &grant, result, changes);
        }
        break;
    case COMMAND_STRICT:
        err = strict_command_read(entry->data, entry->len, &strict);
        if (err == 0) {
            fsm_apply_strict(fsm, entry->index, &strict, result, changes);
        }
        break;
    case COMMAND_GIVE_BACK:
        err = give_back_command_read(entry->data, entry->len, &give_back);
        if (err == 0) {
            fsm_apply_give_back(fsm, &give_back, result, changes);
        }
        break;
    case COMMAND_RECALLED:
        err = recalled_command_read(entry->data, entry->len, &recalled);
        if (err == 0) {
            fsm_apply_recalled(fsm, entry->stamp.node_id, &recalled, result, changes);
        }
        break;
    default: /* no command, or of a newer version */
        break;
    }
    return err;
}

/* A node tells of itself alone. */
static int apply_node_info(struct fsm *fsm, const struct entry *entry, struct buf *result,
                           struct fsm_changes *changes)
{
    struct node_info info;
    int err = node_info_command_read(entry->data, entry->len, &info);

    if (err != 0 || info.node_id != entry->stamp.node_id) {
        return ERR_BAD_MESSAGE;
    }
    fsm_node_put(fsm, &info, changes);
    status_result_encode(0, result);
    return 0;
}

/* Compare with what this node had at that index, if it still remembers. */
static int apply_digest(struct fsm *fsm, const void *command, size_t len, struct buf *result)
{
    struct digest_command digest;
    const struct fsm_digest_mark *mark;
    int err = digest_command_read(command, len, &digest);

    if (err != 0) {
        return err;
    }
    mark = &fsm->marks[digest.index % FSM_DIGEST_MARKS];
    if (digest.index != 0 && mark->index == digest.index && mark->digest != digest.digest) {
        err = ERR_DIVERGED;
    }
    status_result_encode(err, result);
    return err;
}

static int apply_setting(struct fsm *fsm, const struct entry *entry, struct buf *result,
                         struct fsm_changes *changes)
{
    struct snowflake_layout layout;
    uint64_t cluster_ms;
    int32_t status = 0;
    int err;

    if (entry->type == COMMAND_LAYOUT) {
        err = layout_command_read(entry->data, entry->len, &layout);
        if (err == 0) {
            status = fsm_apply_layout(fsm, &layout, changes);
        }
    } else {
        err = clock_command_read(entry->data, entry->len, &cluster_ms);
        if (err == 0) {
            fsm_apply_clock(fsm, cluster_ms, changes);
            fsm_keys_expire(fsm, LIMIT_KEYS_FORGOTTEN, changes);
        }
    }
    if (err == 0) {
        status_result_encode(status, result);
    }
    return err;
}

void fsm_digest_remember(struct fsm *fsm, uint64_t index)
{
    fsm->marks[index % FSM_DIGEST_MARKS] = (struct fsm_digest_mark){index, fsm->digest};
}

static void query_list(const struct fsm *fsm, const struct query *query, struct buf *result)
{
    const struct tag_row *rows[LIMIT_TAGS_PER_PAGE];
    bool by_after = query->after_len > 0 && tag_name_compare(query->after, query->after_len,
                                                             query->name, query->name_len) >= 0;
    struct fsm_row *row = by_after ? fsm_row_seek(fsm, query->after, query->after_len)
                                   : fsm_row_seek(fsm, query->name, query->name_len);
    const struct tag_row *looked_at = NULL; /* the last one */
    const struct tag_row *next = NULL;
    size_t count = 0;
    size_t looks = 0;

    if (by_after && row != NULL &&
        tag_name_compare(query->after, query->after_len, row->tag.name, row->tag.name_len) == 0) {
        row = fsm_row_next(row);
    }
    for (; row != NULL && next == NULL; row = fsm_row_next(row)) {
        if (row->tag.name_len < query->name_len ||
            memcmp(row->tag.name, query->name, query->name_len) != 0) {
            break; /* past the prefix */
        }
        if (looks == LIMIT_ROWS_PER_LOOK) { /* of a loop that has others to serve */
            next = looked_at;
        } else if (!row->tag.deleted && count == query->limit) {
            next = rows[count - 1];
        } else if (!row->tag.deleted) {
            rows[count++] = &row->tag;
        }
        looked_at = &row->tag;
        looks++;
    }
    tag_rows_encode(rows, count, next, result);
}

static int load_node(struct fsm *fsm, const uint8_t *key, size_t key_len, const void *value,
                     size_t value_len)
{
    struct node_info info;
    int err;

    if (key_len != FSM_NODE_KEY_BYTES) {
        return ERR_CORRUPT;
    }
    err = node_info_row_decode(fsm_key_node(key), value, value_len, &info);
    if (err != 0) {
        return err;
    }
    if (fsm_node_find(fsm, info.node_id) != NULL) {
        return ERR_EXISTS;
    }
    fsm_node_put(fsm, &info, NULL);
    return 0;
}
