/*
 * fsm.c - see fsm.h: the tables together. Dispatch of commands and queries, loading, and the memory
 * of digests.
 *
 * The happy path: fsm_apply() sees that the command is a new one of its session, reads it whole,
 * hands it to its table, and remembers the answer, and the digest under the entry's index.
 *
 * Failure modes: as in fsm.h. Nothing is changed before the whole command was read. Thread: one
 * owner.
 */
#include "src/id/fsm/fsm.h"

#include <stdlib.h>
#include <string.h>

#include "src/base/assert.h"
#include "src/id/codec/command.h"
#include "src/id/codec/tag_marks.h"
#include "src/id/fsm/fsm_puts.h"
#include "src/id/fsm/fsm_segments.h"
#include "src/id/fsm/fsm_strict.h"
#include "src/id/fsm/fsm_tables.h"

/* A committed command. */
struct entry {
    uint64_t index;
    struct session_stamp stamp;
    int type; /* enum command_type */
    const void *data;
    size_t len;
};

struct fsm *fsm_new(void)
{
    struct fsm *fsm = calloc(1, sizeof *fsm);

    ASSERT(fsm != NULL);
    fsm_tags_init(&fsm->tags, &fsm->journal);
    fsm_recalls_init(&fsm->recalls, &fsm->tags);
    fsm_keys_init(&fsm->keys, &fsm->tags);
    fsm_nodes_init(&fsm->nodes, &fsm->journal);
    fsm_settings_init(&fsm->settings, &fsm->journal);
    fsm_workers_init(&fsm->workers, &fsm->settings, &fsm->journal);
    fsm_sessions_init(&fsm->sessions, &fsm->journal);
    fsm_members_init(&fsm->members, &fsm->journal);
    return fsm;
}

/* Forget all rows: first those that point to tags. */
static void clear(struct fsm *fsm)
{
    fsm_keys_clear(&fsm->keys);
    fsm_recalls_clear(&fsm->recalls);
    fsm_tags_clear(&fsm->tags);
    fsm_nodes_clear(&fsm->nodes);
    fsm_settings_init(&fsm->settings, &fsm->journal);
    fsm_workers_clear(&fsm->workers);
    fsm_sessions_clear(&fsm->sessions);
    fsm_members_clear(&fsm->members);
    ASSERT(fsm->tags.count == 0 && fsm->recalls.count == 0 && fsm->keys.table.count == 0);
    fsm->journal.digest = 0;
}

void fsm_free(struct fsm *fsm)
{
    if (fsm == NULL) {
        return;
    }
    clear(fsm);
    buf_free(&fsm->journal.row);
    free(fsm);
}

void fsm_listen(struct fsm *fsm, struct fsm_listener *listener)
{
    ASSERT(listener == NULL || fsm->journal.listener == NULL);
    fsm->journal.listener = listener;
}

/* The digest after the entry at index, for COMMAND_DIGEST. */
static void digest_remember(struct fsm *fsm, uint64_t index)
{
    fsm->marks[index % FSM_DIGEST_MARKS] = (struct fsm_digest_mark){index, fsm->journal.digest};
}

/* --- commands --- */

/* Segments granted, given back and recalled; strict ids. */
static int apply_ids(struct fsm *fsm, const struct entry *entry, struct buf *result)
{
    const struct fsm_strict on = {.tags = &fsm->tags,
                                  .keys = &fsm->keys,
                                  .recalls = &fsm->recalls,
                                  .log_ms = fsm->settings.log_ms,
                                  .index = entry->index};
    struct grant_command grant;
    struct strict_command strict;
    struct give_back_command give_back;
    struct recalled_command recalled;
    int err = ERR_BAD_MESSAGE;

    switch (entry->type) {
    case COMMAND_GRANT:
        err = grant_command_read(entry->data, entry->len, &grant);
        if (err == 0) {
            fsm_segments_grant(&fsm->recalls, entry->stamp.node_id, &grant, result);
        }
        break;
    case COMMAND_STRICT:
        err = strict_command_read(entry->data, entry->len, &strict);
        if (err == 0) {
            fsm_strict_apply(&on, &strict, result);
        }
        break;
    case COMMAND_GIVE_BACK:
        err = give_back_command_read(entry->data, entry->len, &give_back);
        if (err == 0) {
            fsm_segments_give_back(&fsm->tags, &give_back, result);
        }
        break;
    case COMMAND_RECALLED:
        err = recalled_command_read(entry->data, entry->len, &recalled);
        if (err == 0) {
            fsm_recalls_confirm(&fsm->recalls, entry->stamp.node_id, &recalled, result);
        }
        break;
    default: /* no command, or of a newer version */
        break;
    }
    return err;
}

/* A node tells of itself alone. */
static int apply_node_info(struct fsm *fsm, const struct entry *entry)
{
    struct node_info info;
    int err = node_info_command_read(entry->data, entry->len, &info);

    if (err != 0 || info.node_id != entry->stamp.node_id) {
        return ERR_BAD_MESSAGE;
    }
    fsm_nodes_put(&fsm->nodes, &info);
    return 0;
}

/* Compare with what this node had at that index, if it still remembers. */
static int apply_digest(struct fsm *fsm, const struct entry *entry, int *ret_status)
{
    struct digest_command digest;
    const struct fsm_digest_mark *mark;
    int err = digest_command_read(entry->data, entry->len, &digest);

    if (err != 0) {
        return err;
    }
    mark = &fsm->marks[digest.index % FSM_DIGEST_MARKS];
    if (digest.index != 0 && mark->index == digest.index && mark->digest != digest.digest) {
        *ret_status = ERR_DIVERGED;
    }
    return 0;
}

static int apply_clock(struct fsm *fsm, const struct entry *entry)
{
    uint64_t cluster_ms;
    int err = clock_command_read(entry->data, entry->len, &cluster_ms);

    if (err == 0) {
        fsm_settings_clock(&fsm->settings, cluster_ms);
        fsm_keys_expire(&fsm->keys, fsm->settings.log_ms, LIMIT_KEYS_FORGOTTEN);
    }
    return err;
}

/* The commands whose result is a status. ERR_BAD_MESSAGE: nothing was changed. */
static int apply_plain(struct fsm *fsm, const struct entry *entry, int *ret_status)
{
    struct delete_command deletion;
    struct snowflake_layout layout;
    struct member_change change;
    uint64_t begun;
    bool given_up;
    int err = ERR_BAD_MESSAGE;

    *ret_status = 0;
    switch (entry->type) {
    case COMMAND_NOOP:
        return noop_command_read(entry->data, entry->len);
    case COMMAND_NODE_INFO:
        return apply_node_info(fsm, entry);
    case COMMAND_DIGEST:
        return apply_digest(fsm, entry, ret_status);
    case COMMAND_CLOCK:
        return apply_clock(fsm, entry);
    case COMMAND_TAG_DELETE:
        err = delete_command_read(entry->data, entry->len, &deletion);
        *ret_status = err == 0 ? fsm_puts_delete(&fsm->recalls, &deletion) : 0;
        break;
    case COMMAND_LAYOUT:
        err = layout_command_read(entry->data, entry->len, &layout);
        *ret_status = err == 0 ? fsm_settings_layout(&fsm->settings, &layout) : 0;
        break;
    case COMMAND_MEMBER_BEGIN:
        err = member_begin_command_read(entry->data, entry->len, &change);
        *ret_status = err == 0 ? fsm_members_begin(&fsm->members, &change, entry->index) : 0;
        break;
    case COMMAND_MEMBER_END:
        err = member_end_command_read(entry->data, entry->len, &begun, &given_up);
        *ret_status = err == 0 ? fsm_members_end(&fsm->members, begun, given_up) : 0;
        break;
    default:
        UNREACHABLE("not a command whose result is a status");
    }
    return err;
}

/* 0, ERR_DIVERGED, or ERR_BAD_MESSAGE, and then nothing was changed or appended. */
static int apply_type(struct fsm *fsm, const struct entry *entry, struct buf *result)
{
    struct put_command put;
    int status = 0;
    int err;

    switch (entry->type) {
    case COMMAND_TAGS_PUT:
        err = put_command_read(entry->data, entry->len, &put);
        if (err == 0) {
            fsm_puts_apply(&fsm->recalls, &put, result);
        }
        return err;
    case COMMAND_WORKER_ACQUIRE:
    case COMMAND_WORKER_RENEW:
    case COMMAND_WORKER_RELEASE:
        return fsm_workers_apply(&fsm->workers, entry->type, entry->data, entry->len, result);
    case COMMAND_GRANT:
    case COMMAND_STRICT:
    case COMMAND_GIVE_BACK:
    case COMMAND_RECALLED:
        return apply_ids(fsm, entry, result);
    default:
        break;
    }
    err = apply_plain(fsm, entry, &status);
    if (err == 0) {
        status_result_encode(status, result);
    }
    return err == 0 && status == ERR_DIVERGED ? ERR_DIVERGED : err;
}

/* Carry it out, unless it was before or must not be (session.h). */
static int apply_once(struct fsm *fsm, const struct entry *entry, struct buf *result)
{
    const struct session_stamp *stamp = &entry->stamp;
    size_t before = result->len;
    int err = 0;

    ASSERT(stamp->lowest >= 1 && stamp->lowest <= stamp->seq);
    if (node_set_has(&fsm->members.removed, stamp->node_id)) {
        session_refusal_encode(&(struct session_refusal){.status = ERR_REMOVED}, result);
        return 0;
    }
    if (fsm_session_lookup(&fsm->sessions, stamp, result)) {
        return 0;
    }
    if (!fsm_session_is_full(&fsm->sessions, stamp, result)) {
        err = apply_type(fsm, entry, result);
    }
    ASSERT((err == ERR_BAD_MESSAGE) == (result->len == before)); /* an answer for every command */
    if (err != ERR_BAD_MESSAGE) {
        fsm_session_answer(&fsm->sessions, stamp, result->data + before, result->len - before);
    }
    return err;
}

/* The first entry of a term is nobody's and does nothing; everything else is somebody's. */
static int apply_entry(struct fsm *fsm, const struct entry *entry, struct buf *result)
{
    if (entry->stamp.node_id != 0) {
        return apply_once(fsm, entry, result);
    }
    return entry->type == COMMAND_NOOP ? apply_type(fsm, entry, result) : ERR_BAD_MESSAGE;
}

int fsm_apply(struct fsm *fsm, uint64_t index, const void *command, size_t len, struct buf *result,
              struct fsm_changes *changes)
{
    struct entry entry = {.index = index, .data = command, .len = len};
    int err;

    ASSERT(!fsm->journal.loading && fsm->journal.changes == NULL);
    fsm->journal.changes = changes;
    entry.type = command_type(command, len);
    err = entry.type < 0 ? ERR_BAD_MESSAGE : session_stamp_read(command, len, &entry.stamp);
    if (err == 0) {
        err = apply_entry(fsm, &entry, result);
    }
    if (err == ERR_BAD_MESSAGE) {
        status_result_encode(ERR_BAD_MESSAGE, result);
    }
    fsm->journal.changes = NULL;
    digest_remember(fsm, index);
    return err;
}

/* --- membership --- */

void fsm_configured(struct fsm *fsm, uint64_t index, const struct member *before,
                    size_t before_count, const struct member *after, size_t after_count,
                    struct fsm_changes *changes)
{
    ASSERT(!fsm->journal.loading && fsm->journal.changes == NULL);
    fsm->journal.changes = changes;
    for (size_t i = 0; i < before_count; i++) {
        uint64_t node_id = before[i].node_id;

        /* Everything that is kept for this node alone ends here. */
        if (member_find(after, after_count, node_id) == NULL) {
            fsm_members_remove(&fsm->members, node_id);
            fsm_holder_removed(&fsm->recalls, node_id);
            fsm_session_removed(&fsm->sessions, node_id);
        }
    }
    fsm_members_reached(&fsm->members, after, after_count);
    fsm->journal.changes = NULL;
    digest_remember(fsm, index);
}

const struct member_change *fsm_member_change(const struct fsm *fsm)
{
    return fsm->members.change.kind != 0 ? &fsm->members.change : NULL;
}

bool fsm_member_removed(const struct fsm *fsm, uint64_t node_id)
{
    return node_set_has(&fsm->members.removed, node_id);
}

/* --- what is there --- */

int fsm_query(const struct fsm *fsm, const void *query, size_t len, struct buf *result)
{
    struct query what;
    const struct tag_row *row;
    int err = query_decode(query, len, &what);

    if (err != 0) {
        return err;
    }
    if (what.type == QUERY_TAG_LIST) {
        fsm_tags_list(&fsm->tags, &what, result);
        return 0;
    }
    if (what.type == QUERY_WORKERS) {
        fsm_workers_list(&fsm->workers, &what, result);
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
    struct fsm_row *row = fsm_tags_find(&fsm->tags, name, name_len);

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
    const struct node_info *info = fsm_nodes_find(&fsm->nodes, node_id);

    if (info != NULL) {
        *ret_info = *info;
    }
    return info != NULL;
}

const struct worker_row *fsm_worker(const struct fsm *fsm, uint16_t worker_id)
{
    return fsm_workers_find(&fsm->workers, worker_id);
}

bool fsm_layout(const struct fsm *fsm, struct snowflake_layout *ret_layout)
{
    if (fsm->settings.has_layout) {
        *ret_layout = fsm->settings.layout;
    }
    return fsm->settings.has_layout;
}

uint64_t fsm_log_ms(const struct fsm *fsm)
{
    return fsm->settings.log_ms;
}

bool fsm_session_is_over(const struct fsm *fsm, const struct session_stamp *stamp)
{
    return fsm_session_is_past(&fsm->sessions, stamp);
}

uint64_t fsm_digest(const struct fsm *fsm)
{
    return fsm->journal.digest;
}

size_t fsm_tag_count(const struct fsm *fsm)
{
    return fsm->tags.count;
}

size_t fsm_key_count(const struct fsm *fsm)
{
    return fsm->keys.table.count;
}

bool fsm_recall_has(const struct fsm *fsm, const char *name, size_t name_len, uint64_t node_id)
{
    const struct fsm_recall *recall = fsm_recalls_find(&fsm->recalls, name, name_len);

    return recall != NULL && node_set_has(&recall->nodes, node_id);
}

const struct tag_row *fsm_recall_next(const struct fsm *fsm, uint64_t node_id, const char *after,
                                      size_t after_len)
{
    const struct fsm_recall *recall = fsm_recalls_next(&fsm->recalls, node_id, after, after_len);

    return recall != NULL ? &recall->row->tag : NULL;
}

uint64_t fsm_recall_node(const struct fsm *fsm, const char *name, size_t name_len)
{
    const struct fsm_recall *recall = fsm_recalls_find(&fsm->recalls, name, name_len);

    return recall != NULL ? recall->nodes.ids[0] : 0;
}

size_t fsm_recall_count(const struct fsm *fsm)
{
    return fsm->recalls.count;
}

/* --- loading --- */

void fsm_load_begin(struct fsm *fsm)
{
    clear(fsm);
    memset(fsm->marks, 0, sizeof fsm->marks);
    fsm->journal.loading = true;
}

int fsm_load_row(struct fsm *fsm, const void *key, size_t key_len, const void *value,
                 size_t value_len)
{
    const uint8_t *bytes = key;

    ASSERT(fsm->journal.loading);
    if (key_len < 1) {
        return ERR_CORRUPT;
    }
    switch (bytes[0]) {
    case FSM_TABLE_TAGS:
        return fsm_tags_load(&fsm->tags, bytes, key_len, value, value_len);
    case FSM_TABLE_NODES:
        return fsm_nodes_load(&fsm->nodes, bytes, key_len, value, value_len);
    case FSM_TABLE_WORKERS:
        return fsm_workers_load(&fsm->workers, bytes, key_len, value, value_len);
    case FSM_TABLE_SETTINGS:
        return fsm_settings_load(&fsm->settings, bytes, key_len, value, value_len);
    case FSM_TABLE_MEMBERS:
        return fsm_members_load_change(&fsm->members, key_len, value, value_len);
    case FSM_TABLE_REMOVED:
        return fsm_members_load_removed(&fsm->members, bytes, key_len, value, value_len);
    case FSM_TABLE_HOLDERS:
        return fsm_holders_load(&fsm->recalls, bytes, key_len, value, value_len);
    case FSM_TABLE_RECALLS:
        return fsm_recalls_load(&fsm->recalls, bytes, key_len, value, value_len);
    case FSM_TABLE_ANSWERS:
        return fsm_sessions_load(&fsm->sessions, bytes, key_len, value, value_len);
    case FSM_TABLE_KEYS:
        return fsm_keys_load(&fsm->keys, bytes, key_len, value, value_len);
    default:
        return ERR_CORRUPT;
    }
}

/* Rows of different tables may tell of each other. */
static int check(struct fsm *fsm, uint64_t index)
{
    int err = fsm_tags_check(&fsm->tags);

    if (err == 0) {
        err = fsm_recalls_check(&fsm->recalls);
    }
    if (err == 0) {
        err = fsm_sessions_check(&fsm->sessions);
    }
    return err != 0 ? err : fsm_keys_order(&fsm->keys, index, fsm->settings.log_ms);
}

int fsm_load_end(struct fsm *fsm, uint64_t index)
{
    int err = check(fsm, index);

    ASSERT(fsm->journal.loading && fsm->journal.changes == NULL);
    if (err != 0) {
        return err;
    }
    fsm->journal.loading = false;
    digest_remember(fsm, index);
    fsm_settings_tell(&fsm->settings);
    fsm_workers_tell(&fsm->workers);
    fsm_tags_tell(&fsm->tags);
    return 0;
}
