/*
 * fsm.c - see fsm.h: the tables together, and the dispatch of commands, rows and queries.
 *
 * The happy path: fsm_read() decodes a command, and fsm_apply() passes it to its table.
 *
 * Failure modes: as in machine.h. Thread: one owner.
 */
#include "src/id/fsm/fsm.h"

#include <stdlib.h>

#include "src/base/assert.h"
#include "src/id/codec/command.h"
#include "src/id/fsm/fsm_tables.h"

#define FORESEE_ITEMS 512 /* of a put at once: each is searched for among all tags */

_Static_assert(STRICT_RESULTS_HEAD_BYTES + LIMIT_STRICT_ITEMS * STRICT_RESULT_BYTES <=
                   SESSION_ANSWER_BYTES_MAX,
               "the largest answer fits a row");

static struct fsm *fsm_from(const struct machine *machine)
{
    return CONTAINER(machine, struct fsm, machine);
}

struct fsm *fsm_of(const struct state *state)
{
    ASSERT(state->machine->ops == &fsm_machine);
    return fsm_from(state->machine);
}

struct state *fsm_state(const struct fsm *fsm)
{
    return fsm->machine.state;
}

static struct machine *fsm_make(struct state *state)
{
    struct fsm *fsm = MUST_HAVE(calloc(1, sizeof *fsm));
    struct journal *journal = &state->journal;

    fsm->machine = (struct machine){.ops = &fsm_machine, .state = state};
    fsm->shown = MUST_HAVE(malloc(sizeof *fsm->shown));
    fsm->shown_worker = MUST_HAVE(malloc(sizeof *fsm->shown_worker));
    fsm_tags_init(&fsm->tags, journal, &fsm->listener);
    fsm_recalls_init(&fsm->recalls, &fsm->tags);
    fsm_keys_init(&fsm->keys, &fsm->tags);
    fsm_settings_init(&fsm->settings, journal, &fsm->listener);
    fsm_layouts_init(&fsm->layouts, journal, &fsm->listener);
    fsm_workers_init(&fsm->workers, &fsm->settings, journal, &fsm->listener);
    return &fsm->machine;
}

static void foreseen_drop(struct fsm *fsm)
{
    fsm_puts_drop(fsm->foreseen.judged);
    fsm->foreseen.judged = NULL;
}

/* Forget all rows: first those that point to tags. */
static void fsm_clear(struct machine *machine)
{
    struct fsm *fsm = fsm_from(machine);
    struct journal *journal = &machine->state->journal;

    foreseen_drop(fsm);
    fsm_keys_clear(&fsm->keys);
    fsm_recalls_clear(&fsm->recalls);
    fsm_tags_clear(&fsm->tags);
    fsm_settings_init(&fsm->settings, journal, &fsm->listener);
    fsm_layouts_init(&fsm->layouts, journal, &fsm->listener);
    fsm_workers_clear(&fsm->workers);
    ASSERT(fsm->tags.count == 0 && fsm->recalls.count == 0 && fsm->keys.table.count == 0);
}

static void fsm_free(struct machine *machine)
{
    fsm_clear(machine);
    free(fsm_from(machine)->shown);
    free(fsm_from(machine)->shown_worker);
    free(fsm_from(machine));
}

void fsm_listen(struct fsm *fsm, struct fsm_listener *listener)
{
    ASSERT(listener == NULL || fsm->listener == NULL);
    fsm->listener = listener;
}

/* --- commands --- */

static int fsm_read(struct machine *machine, const void *data, size_t len,
                    struct machine_command *ret_command)
{
    struct fsm *fsm = fsm_from(machine);
    int err = command_read(data, len, &fsm->command);

    if (err == 0) {
        fsm->data = data;
        fsm->len = len;
        *ret_command = (struct machine_command){command_since((int)fsm->command.type),
                                                command_is_leaders((int)fsm->command.type)};
    }
    return err;
}

/* A judgement is valid only in the state that it was made in. */
static bool fsm_foresee_more(struct machine *machine, uint64_t index)
{
    struct fsm *fsm = fsm_from(machine);
    struct fsm_foreseen *foreseen = &fsm->foreseen;

    return foreseen->judged != NULL && foreseen->index == index &&
           foreseen->digest == machine->state->journal.digest &&
           fsm_puts_judge(&fsm->recalls, foreseen->judged, FORESEE_ITEMS);
}

static bool fsm_foresee(struct machine *machine, uint64_t index)
{
    struct fsm *fsm = fsm_from(machine);

    foreseen_drop(fsm);
    if (command_puts_tags((int)fsm->command.type)) {
        fsm->foreseen =
            (struct fsm_foreseen){.judged = fsm_puts_judge_begin(&fsm->recalls, &fsm->command.list),
                                  .index = index,
                                  .data = fsm->data,
                                  .len = fsm->len,
                                  .digest = machine->state->journal.digest};
    }
    return fsm_foresee_more(machine, index);
}

/* An earlier judgement is valid only for this entry in the state that it was made in. */
static void apply_puts(struct fsm *fsm, uint64_t index, struct command_list *list,
                       struct buf *result)
{
    struct fsm_foreseen *foreseen = &fsm->foreseen;

    if (foreseen->index != index || foreseen->data != fsm->data || foreseen->len != fsm->len ||
        foreseen->digest != fsm->machine.state->journal.digest) {
        foreseen_drop(fsm);
    }
    if (foreseen->judged == NULL) {
        foreseen->judged = fsm_puts_judge_begin(&fsm->recalls, list);
    }
    fsm_puts_apply(&fsm->recalls, foreseen->judged, result);
    foreseen_drop(fsm);
}

/* Commands whose result is a status; returns it. */
static int apply_plain(struct fsm *fsm, uint64_t node_id, struct command *command)
{
    switch (command->type) {
    case COMMAND_TAG_DELETE:
        return fsm_puts_delete(&fsm->recalls, &command->deletion);
    case COMMAND_LAYOUT:
        return fsm_settings_layout(&fsm->settings, &command->layout);
    case COMMAND_WORKER_POOLS:
        return fsm_settings_pools(&fsm->settings, &command->pools);
    case COMMAND_LAYOUT_PUT:
        return fsm_layouts_put(&fsm->layouts, &command->named, fsm->settings.log_ms);
    case COMMAND_LAYOUT_DELETE:
        return fsm_layouts_delete(&fsm->layouts, &command->deletion);
    default:
        ASSERT(command->type == COMMAND_RECALLED);
        fsm_recalls_confirm(&fsm->recalls, node_id, &command->list);
        return 0;
    }
}

static void fsm_apply(struct machine *machine, const struct machine_entry *entry,
                      struct buf *result)
{
    struct fsm *fsm = fsm_from(machine);
    struct command *command = &fsm->command;

    switch (command->type) {
    case COMMAND_GRANT:
        fsm_ids_grant(&fsm->recalls, TAG_MODE_TREND, entry->node_id, &command->list, result);
        return;
    case COMMAND_TAGS_PUT:
    case COMMAND_TAGS_PUT_BY:
    case COMMAND_TAGS_PUT_STEPPED:
        apply_puts(fsm, entry->index, &command->list, result);
        return;
    case COMMAND_WORKER_ACQUIRE:
    case COMMAND_WORKER_ACQUIRE_OF:
    case COMMAND_WORKER_RENEW:
    case COMMAND_WORKER_RELEASE:
    case COMMAND_WORKER_RENEW_OF:
    case COMMAND_WORKER_RELEASE_OF:
        fsm_workers_apply(&fsm->workers, command, result);
        return;
    case COMMAND_STRICT:
        fsm_strict_apply(fsm, entry, &command->list, result);
        return;
    case COMMAND_GIVE_BACK:
        fsm_segments_give_back(&fsm->tags, &command->list, result);
        return;
    case COMMAND_WINDOW:
        fsm_ids_grant(&fsm->recalls, TAG_MODE_MONOTONIC, 0, &command->list, result);
        return;
    case COMMAND_KEYED:
        fsm_keyed_apply(fsm, entry, &command->list, result);
        return;
    default:
        status_result_encode(apply_plain(fsm, entry->node_id, command), result);
    }
}

/* --- reports of the cluster's half --- */

static void fsm_clock(struct machine *machine, uint64_t log_ms)
{
    struct fsm *fsm = fsm_from(machine);

    fsm->settings.log_ms = log_ms;
    fsm_keys_expire(&fsm->keys, log_ms, LIMIT_KEYS_FORGOTTEN);
}

static void fsm_node_removed(struct machine *machine, uint64_t node_id)
{
    fsm_holder_removed(&fsm_from(machine)->recalls, node_id);
}

/* --- reading the state --- */

static uint64_t fsm_bytes(const struct machine *machine)
{
    struct fsm_usage usage;

    fsm_usage(fsm_from(machine), &usage);
    return usage.bytes;
}

int fsm_query(const struct fsm *fsm, const void *query, size_t len, struct buf *result)
{
    struct query what;
    const struct fsm_row *row;
    struct tag_row tag;
    int err = query_decode(query, len, &what);

    if (err != 0) {
        return err;
    }
    if (what.type == QUERY_TAG_LIST) {
        fsm_tags_list(&fsm->tags, &what, result);
        return 0;
    }
    if (what.type == QUERY_POOLS) {
        buf_put(result, fsm->settings.rules.pools, fsm->settings.rules.pools_len);
        return 0;
    }
    if (what.type == QUERY_WORKERS) {
        fsm_workers_list(&fsm->workers, &what, result);
        return 0;
    }
    row = fsm_tags_find(&fsm->tags, what.name, what.name_len);
    if (row == NULL || row->deleted) {
        return ERR_UNKNOWN_TAG;
    }
    tag = fsm_row_tag(row);
    tag_rows_encode(&tag, 1, NULL, result);
    return 0;
}

static const struct tag_row *tag_shown(const struct fsm *fsm, const struct fsm_row *row)
{
    if (row == NULL) {
        return NULL;
    }
    *fsm->shown = fsm_row_tag(row);
    return fsm->shown;
}

const struct tag_row *fsm_tag(const struct fsm *fsm, const char *name, size_t name_len)
{
    return tag_shown(fsm, fsm_tags_find(&fsm->tags, name, name_len));
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

        buf_put_u32(marks, row != NULL ? row->generation : 0);
    }
}

static const struct worker_row *worker_shown(const struct fsm *fsm,
                                             const struct fsm_worker_row *row)
{
    if (row == NULL) {
        return NULL;
    }
    fsm_worker_row_show(row, fsm->shown_worker);
    return fsm->shown_worker;
}

const struct worker_row *fsm_worker(const struct fsm *fsm, uint32_t worker_id)
{
    return worker_shown(fsm, fsm_workers_find(&fsm->workers, worker_id));
}

const struct worker_row *fsm_worker_at(const struct fsm *fsm, size_t at)
{
    return worker_shown(fsm, fsm_workers_at(&fsm->workers, at));
}

void fsm_worker_counts(const struct fsm *fsm, uint64_t *ret_held, uint64_t *ret_shared)
{
    fsm_workers_count(&fsm->workers, ret_held, ret_shared);
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

bool fsm_has_dates(const struct fsm *fsm)
{
    return fsm->tags.counts.dated > 0;
}

uint64_t fsm_log_ms(const struct fsm *fsm)
{
    return fsm->settings.log_ms;
}

size_t fsm_tag_count(const struct fsm *fsm)
{
    return fsm->tags.count;
}

void fsm_usage(const struct fsm *fsm, struct fsm_usage *ret_usage)
{
    *ret_usage = (struct fsm_usage){.bytes = fsm->tags.counts.bytes + fsm->tags.owners.bytes +
                                             fsm->keys.bytes + fsm->keys.owners.bytes,
                                    .tags = fsm->tags.count - fsm->tags.counts.dead,
                                    .dead = fsm->tags.counts.dead,
                                    .keys = fsm->keys.table.count};
}

/* The bytes that one put adds: by every text that it makes longer. */
static uint64_t put_adds(const struct fsm_row *old, const struct tag_put *put)
{
    struct tag_row row = {.shape = put->shape, .shape_len = put->shape_len};
    uint64_t before = 0;
    uint64_t after;

    if (old != NULL) {
        const struct tag_row was = fsm_row_tag(old);

        before = fsm_tag_bytes(&was);
        row = was.deleted ? (struct tag_row){.shape = was.shape, .shape_len = was.shape_len} : was;
    }
    if ((put->step_fields & TAG_FIELD_PAUSED) != 0 && !put->paused) {
        row.reason_len = 0;
    }
    if ((put->fields & TAG_FIELD_KEY) != 0 && tag_is_rekeyable(&row) &&
        row.shape_len > tag_shape_text_len(row.shape, row.shape_len) &&
        put->key_number > tag_key_number(&row)) {
        row.shape_len =
            (uint16_t)(row.shape_len + (put->key_number - tag_key_number(&row)) * SHAPE_KEY_BYTES);
    }
    row.name_len = put->name_len;
    row.description_len =
        put->fields & TAG_FIELD_DESCRIPTION ? put->description_len : row.description_len;
    row.max = put->fields & TAG_FIELD_MAX ? put->max : row.max;
    row.increment = put->step_fields & TAG_FIELD_INCREMENT ? put->increment : row.increment;
    row.cover_s = put->step_fields & TAG_FIELD_COVER ? put->cover_s : row.cover_s;
    row.reason_len = put->step_fields & TAG_FIELD_REASON ? put->reason_len : row.reason_len;
    after = fsm_tag_bytes(&row);
    return after > before ? after - before : 0;
}

uint64_t fsm_adds(const struct fsm *fsm, struct command_list puts)
{
    struct fsm_tags_walk walk = {0};
    struct tag_put put;
    uint64_t bytes = 0;

    while (command_next(&puts, &put)) {
        bytes += put_adds(fsm_tags_walk(&fsm->tags, &walk, put.name, put.name_len), &put);
    }
    return bytes;
}

const struct tag_row *fsm_recall_next(const struct fsm *fsm, uint64_t node_id, const char *after,
                                      size_t after_len)
{
    const struct fsm_recall *recall = fsm_recalls_next(&fsm->recalls, node_id, after, after_len);

    return tag_shown(fsm, recall != NULL ? recall->row : NULL);
}

uint64_t fsm_recall_waits_for(const struct fsm *fsm, const char *name, size_t name_len)
{
    const struct fsm_recall *recall =
        fsm_recalls_find(&fsm->recalls, fsm_tags_find(&fsm->tags, name, name_len));

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
    fsm_key_answer(key, item, result);
    return true;
}

/* --- loading --- */

static int fsm_load_row(struct machine *machine, const struct row_loaded *row)
{
    struct fsm *fsm = fsm_from(machine);

    switch (row->key[0]) {
    case FSM_TABLE_TAGS:
        return fsm_tags_load(&fsm->tags, row);
    case FSM_TABLE_WORKERS:
        return fsm_workers_load(&fsm->workers, row);
    case STATE_TABLE_SETTINGS:
        return fsm_settings_load(&fsm->settings, row);
    case FSM_TABLE_LAYOUTS:
        return fsm_layouts_load(&fsm->layouts, row);
    case FSM_TABLE_HOLDERS:
    case FSM_TABLE_RECALLS:
        return fsm_recalls_load(&fsm->recalls, row);
    case FSM_TABLE_KEYS:
        return fsm_keys_load(&fsm->keys, row);
    default:
        return ERR_NEWER; /* a table of a later level */
    }
}

static void fsm_notify_all(struct fsm *fsm)
{
    fsm_settings_notify(&fsm->settings);
    fsm_layouts_notify(&fsm->layouts);
    fsm_workers_notify(&fsm->workers);
    fsm_tags_notify(&fsm->tags);
}

/* Rows of different tables may name each other. */
static int fsm_load_end(struct machine *machine, uint64_t index, uint64_t log_ms)
{
    struct fsm *fsm = fsm_from(machine);
    int err = fsm->tags.hollow_count > 0 ? ERR_CORRUPT : fsm_recalls_check(&fsm->recalls);

    if (err == 0) {
        err = fsm_keys_order(&fsm->keys, index, log_ms);
    }
    if (err == 0) {
        fsm->settings.log_ms = log_ms;
        fsm_notify_all(fsm);
    }
    return err;
}

/* Its tables have another address now: update the pointers into them. */
static void fsm_moved(struct fsm *fsm)
{
    struct journal *journal = &fsm->machine.state->journal;

    fsm->tags.journal = journal;
    fsm->tags.listener = &fsm->listener;
    fsm->recalls.journal = journal;
    fsm->recalls.tags = &fsm->tags;
    fsm_keys_moved(&fsm->keys, &fsm->tags);
    fsm->settings.journal = journal;
    fsm->settings.listener = &fsm->listener;
    fsm->layouts.journal = journal;
    fsm->layouts.listener = &fsm->listener;
    fsm->workers.journal = journal;
    fsm->workers.listener = &fsm->listener;
    fsm->workers.settings = &fsm->settings;
}

static void fsm_take(struct machine *machine, struct machine *from)
{
    struct fsm *fsm = fsm_from(machine);
    struct fsm *taken = fsm_from(from);
    struct machine self = *machine;
    struct machine other = *from;
    struct fsm *before = MUST_HAVE(malloc(sizeof *before));

    ASSERT(other.ops == &fsm_machine && taken->listener == NULL);
    *before = *fsm;
    *fsm = *taken;
    *taken = *before;
    fsm->machine = self;
    fsm->listener = before->listener;
    taken->machine = other;
    taken->listener = NULL;
    free(before);
    fsm_moved(fsm);
    fsm_moved(taken);
    fsm_notify_all(fsm);
}

const struct machine_ops fsm_machine = {.make = fsm_make,
                                        .free = fsm_free,
                                        .take = fsm_take,
                                        .bytes = fsm_bytes,
                                        .since = command_since,
                                        .read = fsm_read,
                                        .apply = fsm_apply,
                                        .foresee = fsm_foresee,
                                        .foresee_more = fsm_foresee_more,
                                        .clock = fsm_clock,
                                        .removed = fsm_node_removed,
                                        .load_begin = fsm_clear,
                                        .load_row = fsm_load_row,
                                        .load_end = fsm_load_end};
