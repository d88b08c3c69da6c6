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
#include "src/id/fsm/fsm_grants.h"
#include "src/id/fsm/fsm_puts.h"
#include "src/id/fsm/fsm_tables.h"

struct fsm *fsm_new(void)
{
    struct fsm *fsm = MUST_HAVE(calloc(1, sizeof *fsm));

    fsm_tags_init(&fsm->tags, &fsm->journal);
    fsm_recalls_init(&fsm->recalls, &fsm->tags);
    fsm_keys_init(&fsm->keys, &fsm->tags);
    fsm_settings_init(&fsm->settings, &fsm->journal);
    fsm_layouts_init(&fsm->layouts, &fsm->journal);
    fsm_birth_init(&fsm->birth, &fsm->journal);
    fsm_level_init(&fsm->level, &fsm->journal, level_own);
    fsm_workers_init(&fsm->workers, &fsm->settings, &fsm->journal);
    fsm_sessions_init(&fsm->sessions, &fsm->journal);
    fsm_members_init(&fsm->members, &fsm->journal);
    fsm_addresses_init(&fsm->addresses, &fsm->journal);
    return fsm;
}

static void foreseen_drop(struct fsm *fsm)
{
    fsm_puts_drop(fsm->foreseen.judged);
    fsm->foreseen.judged = NULL;
}

/* Forget all rows: first those that point to tags. */
static void clear(struct fsm *fsm)
{
    foreseen_drop(fsm);
    fsm_keys_clear(&fsm->keys);
    fsm_recalls_clear(&fsm->recalls);
    fsm_tags_clear(&fsm->tags);
    fsm_settings_init(&fsm->settings, &fsm->journal);
    fsm_layouts_init(&fsm->layouts, &fsm->journal);
    fsm_birth_init(&fsm->birth, &fsm->journal);
    fsm_level_init(&fsm->level, &fsm->journal, fsm->level.speaks);
    fsm_workers_clear(&fsm->workers);
    fsm_sessions_clear(&fsm->sessions);
    fsm_members_clear(&fsm->members);
    fsm_addresses_clear(&fsm->addresses);
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

void fsm_speaks(struct fsm *fsm, struct level_range range)
{
    ASSERT(fsm->level.row.level == 0);
    fsm->level.speaks = range;
}

/* The digest after the entry at index, for COMMAND_DIGEST. */
static void digest_remember(struct fsm *fsm, uint64_t index)
{
    fsm->marks[index % FSM_DIGEST_MARKS] = (struct fsm_digest_mark){index, fsm->journal.digest};
}

/* --- commands --- */

/* Did this node have another digest at that index, as far as it still remembers? */
static bool digest_differs(const struct fsm *fsm, const struct digest_command *digest)
{
    const struct fsm_digest_mark *mark = &fsm->marks[digest->index % FSM_DIGEST_MARKS];

    return digest->index != 0 && mark->index == digest->index && mark->digest != digest->digest;
}

static void apply_clock(struct fsm *fsm, const struct clock_command *clock)
{
    fsm_settings_clock(&fsm->settings, clock->cluster_ms);
    fsm_keys_expire(&fsm->keys, fsm->settings.log_ms, LIMIT_KEYS_FORGOTTEN);
}

/* A node that starts with another address than it had has moved there: that it is this very node
 * its store shows. */
static void apply_node_info(struct fsm *fsm, const struct node_info *info)
{
    const struct node_info *known = fsm_members_info(&fsm->members, info->node_id);
    struct member_move move = {.node_id = info->node_id};

    if (known != NULL && known->store_id == info->store_id && info->peer_address[0] != '\0' &&
        strcmp(known->peer_address, info->peer_address) != 0) {
        memcpy(move.address, info->peer_address, sizeof move.address);
        fsm_addresses_set(&fsm->addresses, &move);
    }
    fsm_members_report(&fsm->members, info);
}

static int apply_move(struct fsm *fsm, const struct member_move *move)
{
    if (node_set_has(&fsm->members.removed, move->node_id)) {
        return ERR_REMOVED;
    }
    fsm_addresses_set(&fsm->addresses, move);
    return 0;
}

/* The commands whose result is a status: it. */
static int apply_plain(struct fsm *fsm, uint64_t index, struct command *command)
{
    switch (command->type) {
    case COMMAND_TAG_DELETE:
        return fsm_puts_delete(&fsm->recalls, &command->deletion);
    case COMMAND_NODE_INFO:
        apply_node_info(fsm, &command->node);
        return 0;
    case COMMAND_DIGEST:
        return 0; /* in the rows of all nodes, whatever each of them finds */
    case COMMAND_LAYOUT:
        return fsm_settings_layout(&fsm->settings, &command->layout);
    case COMMAND_LAYOUT_PUT:
        return fsm_layouts_put(&fsm->layouts, &command->named, fsm->settings.log_ms);
    case COMMAND_LAYOUT_DELETE:
        return fsm_layouts_delete(&fsm->layouts, &command->deletion);
    case COMMAND_CLOCK:
        apply_clock(fsm, &command->clock);
        return 0;
    case COMMAND_RECALLED:
        fsm_recalls_confirm(&fsm->recalls, command->stamp.node_id, &command->list);
        return 0;
    case COMMAND_MEMBER_BEGIN:
        return fsm_members_begin(&fsm->members, &command->change, index);
    case COMMAND_MEMBER_END:
        return fsm_members_end(&fsm->members, command->change.index, command->change.given_up);
    case COMMAND_MEMBER_MOVE:
        return apply_move(fsm, &command->move);
    case COMMAND_LEVEL:
        return fsm_level_raise(&fsm->level, &command->level, index);
    default:
        ASSERT(command->type == COMMAND_NOOP);
        return 0;
    }
}

/* What was judged before is only right for this entry in the very state that it found. */
static void apply_puts(struct fsm *fsm, struct command_list *list, struct buf *result)
{
    if (fsm->foreseen.judged == NULL) {
        fsm->foreseen.judged = fsm_puts_judge(&fsm->recalls, *list);
    }
    fsm_puts_apply(&fsm->recalls, list, fsm->foreseen.judged, result);
}

static struct fsm_strict strict_tables(struct fsm *fsm, uint64_t index, uint64_t term)
{
    return (struct fsm_strict){.tags = &fsm->tags,
                               .keys = &fsm->keys,
                               .recalls = &fsm->recalls,
                               .log_ms = fsm->settings.log_ms,
                               .index = index,
                               .term = term};
}

/* 0 or ERR_DIVERGED. */
static int apply_type(struct fsm *fsm, uint64_t index, struct command *command, struct buf *result)
{
    const struct fsm_strict strict = strict_tables(fsm, index, 0);
    int status;

    switch (command->type) {
    case COMMAND_GRANT:
        fsm_segments_grant(&fsm->recalls, command->stamp.node_id, &command->list, result);
        return 0;
    case COMMAND_TAGS_PUT:
    case COMMAND_TAGS_PUT_BY:
        apply_puts(fsm, &command->list, result);
        return 0;
    case COMMAND_WORKER_ACQUIRE:
    case COMMAND_WORKER_RENEW:
    case COMMAND_WORKER_RELEASE:
        fsm_workers_apply(&fsm->workers, command, result);
        return 0;
    case COMMAND_STRICT:
        fsm_strict_apply(&strict, &command->list, result);
        return 0;
    case COMMAND_GIVE_BACK:
        fsm_segments_give_back(&fsm->tags, &command->list, result);
        return 0;
    default:
        status = apply_plain(fsm, index, command);
        status_result_encode(status, result);
        return command->type == COMMAND_DIGEST && digest_differs(fsm, &command->digest)
                   ? ERR_DIVERGED
                   : 0;
    }
}

/* Carry it out, unless it was before or must not be (session.h). */
static int apply_once(struct fsm *fsm, uint64_t index, struct command *command, struct buf *result)
{
    const struct session_stamp *stamp = &command->stamp;
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
        err = apply_type(fsm, index, command, result);
    }
    ASSERT(result->len > before); /* an answer for every command */
    fsm_session_answer(&fsm->sessions, stamp, result->data + before, result->len - before);
    return err;
}

/* What a leader appends for itself is nobody's; everything else is somebody's. A node tells of
 * itself alone. What a later level brings does nothing before it: the level in force decides,
 * whatever this leafd could do. */
static bool is_allowed(const struct fsm *fsm, const struct command *command)
{
    uint64_t node_id = command->stamp.node_id;

    if (command_since((int)command->type) > fsm_level_now(&fsm->level)) {
        return false;
    }
    if (node_id == 0) {
        return command_is_leaders(command->type);
    }
    if (command_is_leaders(command->type)) {
        return command->type == COMMAND_NOOP;
    }
    return command->type != COMMAND_NODE_INFO || command->node.node_id == node_id;
}

/* The first entry of a term does nothing, or it is the birth of the cluster. The others are about
 * the windows of the term's leader. */
static void apply_leaders(struct fsm *fsm, const struct fsm_strict *strict, struct command *command,
                          struct buf *result)
{
    switch (command->type) {
    case COMMAND_BIRTH:
        status_result_encode(fsm_birth_apply(&fsm->birth, &command->birth), result);
        return;
    case COMMAND_WINDOW:
        fsm_windows_grant(&fsm->recalls, &command->list, result);
        return;
    case COMMAND_KEYED:
        fsm_keyed_apply(strict, &command->list, result);
        return;
    default:
        status_result_encode(0, result);
    }
}

bool fsm_can_apply(const struct fsm *fsm, const void *data, size_t len)
{
    return command_type(data, len) != ERR_NEWER &&
           command_raises_to(data, len) <= fsm->level.speaks.max;
}

void fsm_foresee(struct fsm *fsm, uint64_t index, const void *data, size_t len)
{
    struct command command;

    ASSERT(!fsm->journal.loading && fsm->journal.changes == NULL);
    foreseen_drop(fsm);
    if (fsm_can_apply(fsm, data, len) && command_read(data, len, &command) == 0 &&
        is_allowed(fsm, &command) && command_puts_tags((int)command.type)) {
        fsm->foreseen = (struct fsm_foreseen){.judged = fsm_puts_judge(&fsm->recalls, command.list),
                                              .index = index,
                                              .data = data,
                                              .len = len,
                                              .digest = fsm->journal.digest};
    }
}

static bool is_foreseen(const struct fsm_foreseen *foreseen, uint64_t index, const void *data,
                        size_t len, uint64_t digest)
{
    return foreseen->index == index && foreseen->data == data && foreseen->len == len &&
           foreseen->digest == digest;
}

int fsm_apply(struct fsm *fsm, uint64_t index, uint64_t term, const void *data, size_t len,
              struct buf *result, struct fsm_changes *changes)
{
    const struct fsm_strict strict = strict_tables(fsm, index, term);
    struct command command;
    int err;

    ASSERT(!fsm->journal.loading && fsm->journal.changes == NULL);
    if (!is_foreseen(&fsm->foreseen, index, data, len, fsm->journal.digest)) {
        foreseen_drop(fsm);
    }
    if (!fsm_can_apply(fsm, data, len)) {
        return ERR_NEWER;
    }
    err = command_read(data, len, &command);
    fsm->journal.changes = changes;
    if (err != 0 || !is_allowed(fsm, &command)) {
        err = ERR_BAD_MESSAGE;
        status_result_encode(err, result);
    } else if (command.stamp.node_id == 0) {
        apply_leaders(fsm, &strict, &command, result);
    } else {
        err = apply_once(fsm, index, &command, result);
    }
    foreseen_drop(fsm);
    fsm->journal.changes = NULL;
    digest_remember(fsm, index);
    if (command_type(data, len) == COMMAND_DIGEST) {
        fsm->checks[fsm->check_count++ % FSM_DIGEST_CHECKS] = fsm->marks[index % FSM_DIGEST_MARKS];
    }
    return err;
}

bool fsm_digest_at(const struct fsm *fsm, uint64_t index, uint64_t *ret_digest)
{
    const struct fsm_digest_mark *mark = &fsm->marks[index % FSM_DIGEST_MARKS];

    for (unsigned i = 0; mark->index != index && i < FSM_DIGEST_CHECKS; i++) {
        mark = &fsm->checks[i];
    }
    if (index == 0 || mark->index != index) {
        return false;
    }
    *ret_digest = mark->digest;
    return true;
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
            fsm_addresses_forget(&fsm->addresses, node_id);
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

const char *fsm_member_address(const struct fsm *fsm, uint64_t node_id)
{
    return fsm_addresses_find(&fsm->addresses, node_id);
}

uint64_t fsm_member_moves(const struct fsm *fsm)
{
    return fsm->addresses.changes;
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
    struct fsm_tags_walk walk = {0};
    struct tag_names names;
    const char *name;
    size_t name_len;

    tag_names_begin(&names, command, len);
    buf_reserve(marks, (size_t)names.left * TAG_MARK_BYTES);
    while (tag_names_next(&names, &name, &name_len)) {
        const struct fsm_row *row = fsm_tags_walk(&fsm->tags, &walk, name, name_len);

        buf_put_u32(marks, row != NULL ? row->tag.generation : 0);
    }
}

bool fsm_node(const struct fsm *fsm, uint64_t node_id, struct node_info *ret_info)
{
    const struct node_info *info = fsm_members_info(&fsm->members, node_id);

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

const struct layout_row *fsm_layouts(const struct fsm *fsm, uint32_t *ret_count)
{
    *ret_count = fsm->layouts.count;
    return fsm->layouts.rows;
}

bool fsm_birth(const struct fsm *fsm, struct birth *ret_birth)
{
    bool is_born = !uid_is_none(&fsm->birth.birth.uid);

    if (is_born) {
        *ret_birth = fsm->birth.birth;
    }
    return is_born;
}

uint16_t fsm_level(const struct fsm *fsm)
{
    return fsm_level_now(&fsm->level);
}

void fsm_level_row(const struct fsm *fsm, struct level_row *ret_row)
{
    *ret_row = fsm->level.row;
    ret_row->level = fsm_level_now(&fsm->level);
}

struct level_range fsm_levels(const struct fsm *fsm)
{
    return fsm->level.speaks;
}

bool fsm_has_dates(const struct fsm *fsm)
{
    return fsm->tags.dated_count > 0;
}

uint64_t fsm_log_ms(const struct fsm *fsm)
{
    return fsm->settings.log_ms;
}

bool fsm_session_is_over(const struct fsm *fsm, const struct session_stamp *stamp)
{
    return fsm_session_is_past(&fsm->sessions, stamp);
}

uint64_t fsm_node_start(const struct fsm *fsm, uint64_t node_id)
{
    uint64_t asked = fsm_session_incarnation(&fsm->sessions, node_id);
    struct node_info info = {0};

    (void)fsm_node(fsm, node_id, &info);
    return info.incarnation > asked ? info.incarnation : asked;
}

uint64_t fsm_digest(const struct fsm *fsm)
{
    return fsm->journal.digest;
}

size_t fsm_tag_count(const struct fsm *fsm)
{
    return fsm->tags.count;
}

void fsm_usage(const struct fsm *fsm, struct fsm_usage *ret_usage)
{
    *ret_usage =
        (struct fsm_usage){.bytes = fsm->tags.bytes + fsm->tags.owners.bytes + fsm->keys.bytes,
                           .tags = fsm->tags.count - fsm->tags.dead_count,
                           .dead = fsm->tags.dead_count,
                           .keys = fsm->keys.table.count};
    for (size_t i = 0; i < fsm->sessions.count; i++) {
        ret_usage->bytes += fsm->sessions.items[i]->bytes;
    }
}

/* Of one put. */
static uint64_t put_adds(const struct tag_row *old, const struct tag_put *put)
{
    struct tag_row row = {.name_len = put->name_len,
                          .description_len = put->description_len,
                          .shape = old != NULL ? old->shape : put->shape,
                          .shape_len = old != NULL ? old->shape_len : put->shape_len};
    uint64_t after;
    uint64_t before;

    if ((put->fields & TAG_FIELD_DESCRIPTION) == 0) {
        row.description_len = old != NULL && !old->deleted ? old->description_len : 0;
    }
    after = fsm_tag_bytes(&row);
    before = old != NULL ? fsm_tag_bytes(old) : 0;
    return after > before ? after - before : 0;
}

uint64_t fsm_adds(const struct fsm *fsm, const void *command, size_t len)
{
    int type = command_type(command, len);
    struct command read;
    struct fsm_tags_walk walk = {0};
    struct tag_put put;
    uint64_t bytes = 0;

    if (!command_puts_tags(type) || command_read(command, len, &read) != 0) {
        return 0;
    }
    while (command_next(&read.list, &put)) {
        const struct fsm_row *row = fsm_tags_walk(&fsm->tags, &walk, put.name, put.name_len);

        bytes += put_adds(row != NULL ? &row->tag : NULL, &put);
    }
    return bytes;
}

const struct tag_row *fsm_recall_next(const struct fsm *fsm, uint64_t node_id, const char *after,
                                      size_t after_len)
{
    const struct fsm_recall *recall = fsm_recalls_next(&fsm->recalls, node_id, after, after_len);

    return recall != NULL ? &recall->row->tag : NULL;
}

uint64_t fsm_recall_waits_for(const struct fsm *fsm, const char *name, size_t name_len)
{
    const struct fsm_recall *recall = fsm_recalls_find(&fsm->recalls, name, name_len);

    return recall != NULL ? recall->nodes.ids[0] : 0;
}

bool fsm_key_known(const struct fsm *fsm, const struct strict_item *item,
                   struct strict_result *result)
{
    const struct fsm_row *row = fsm_tags_find(&fsm->tags, item->name, item->name_len);
    const struct fsm_key *key =
        row != NULL ? fsm_key_find(&fsm->keys, row, item->key, item->key_len) : NULL;

    if (fsm->settings.log_ms == 0) {
        result->status = ERR_EMPTY;
        return true;
    }
    if (key == NULL || !fsm_key_in_force(key, fsm->settings.log_ms)) {
        return false;
    }
    fsm_key_tell(key, item, result);
    return true;
}

/* --- loading --- */

void fsm_load_begin(struct fsm *fsm)
{
    clear(fsm);
    memset(fsm->marks, 0, sizeof fsm->marks);
    memset(fsm->checks, 0, sizeof fsm->checks);
    fsm->journal.loading = true;
}

int fsm_load_row(struct fsm *fsm, const void *key, size_t key_len, const void *value,
                 size_t value_len)
{
    const struct fsm_loaded row = {key, key_len, value, value_len};

    ASSERT(fsm->journal.loading);
    if (key_len < 1) {
        return ERR_CORRUPT;
    }
    switch (row.key[0]) {
    case FSM_TABLE_TAGS:
        return fsm_tags_load(&fsm->tags, &row);
    case FSM_TABLE_WORKERS:
        return fsm_workers_load(&fsm->workers, &row);
    case FSM_TABLE_SETTINGS:
        if (fsm_loaded_is(&row, FSM_SETTING_BIRTH)) {
            return fsm_birth_load(&fsm->birth, &row);
        }
        return fsm_loaded_is(&row, FSM_SETTING_LEVEL) ? fsm_level_load(&fsm->level, &row)
                                                      : fsm_settings_load(&fsm->settings, &row);
    case FSM_TABLE_LAYOUTS:
        return fsm_layouts_load(&fsm->layouts, &row);
    case FSM_TABLE_MEMBERS:
    case FSM_TABLE_REMOVED:
    case FSM_TABLE_NODES:
        return fsm_members_load(&fsm->members, &row);
    case FSM_TABLE_ADDRESSES:
        return fsm_addresses_load(&fsm->addresses, &row);
    case FSM_TABLE_HOLDERS:
    case FSM_TABLE_RECALLS:
        return fsm_recalls_load(&fsm->recalls, &row);
    case FSM_TABLE_ANSWERS:
        return fsm_sessions_load(&fsm->sessions, &row);
    case FSM_TABLE_KEYS:
        return fsm_keys_load(&fsm->keys, &row);
    default:
        return ERR_NEWER; /* a table that a later level brought */
    }
}

/* Rows of different tables may tell of each other. */
static int check(struct fsm *fsm, uint64_t index)
{
    int err = fsm_tags_check(&fsm->tags);

    if (fsm_level_now(&fsm->level) < fsm->level.speaks.min) {
        return ERR_BAD_VERSION;
    }
    if (err == 0) {
        err = fsm_recalls_check(&fsm->recalls);
    }
    if (err == 0) {
        err = fsm_sessions_check(&fsm->sessions);
    }
    return err != 0 ? err : fsm_keys_order(&fsm->keys, index, fsm->settings.log_ms);
}

static void tell_all(const struct fsm *fsm)
{
    fsm_settings_tell(&fsm->settings);
    fsm_layouts_tell(&fsm->layouts);
    fsm_workers_tell(&fsm->workers);
    fsm_tags_tell(&fsm->tags);
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
    tell_all(fsm);
    return 0;
}

/* Its tables lie elsewhere now: what points into itself follows. */
static void moved(struct fsm *fsm)
{
    struct fsm_journal *journal = &fsm->journal;

    fsm->tags.journal = journal;
    fsm->recalls.journal = journal;
    fsm->recalls.tags = &fsm->tags;
    fsm_keys_moved(&fsm->keys, &fsm->tags);
    fsm->settings.journal = journal;
    fsm->layouts.journal = journal;
    fsm->birth.journal = journal;
    fsm->level.journal = journal;
    fsm->workers.journal = journal;
    fsm->workers.settings = &fsm->settings;
    fsm->sessions.journal = journal;
    fsm->members.journal = journal;
    fsm->addresses.journal = journal;
}

void fsm_take(struct fsm *fsm, struct fsm *from)
{
    struct fsm_listener *listener = fsm->journal.listener;
    struct fsm *other = MUST_HAVE(malloc(sizeof *other));

    ASSERT(from->journal.listener == NULL);
    ASSERT(!fsm->journal.loading && !from->journal.loading);
    *other = *fsm;
    *fsm = *from;
    *from = *other;
    free(other);
    from->journal.listener = NULL;
    fsm->journal.listener = listener;
    moved(fsm);
    moved(from);
    tell_all(fsm);
}
