/*
 * fsm_machine.c - see fsm_tables.h and fsm.h: the tables together, and the dispatch of commands,
 * rows and queries.
 *
 * The happy path: fsm_read() decodes a command, and fsm_apply() passes it to its table.
 *
 * Failure modes: as in machine.h. Thread: one owner.
 */
#include <stdlib.h>

#include "src/base/assert.h"
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

static void foreseen_drop(struct fsm *fsm)
{
    fsm_puts_drop(fsm->foreseen.judged);
    fsm->foreseen.judged = NULL;
}

/* Forget all rows: first those that point to tags. Also makes the tables of a machine of zeros. */
static void fsm_clear(struct machine *machine)
{
    struct fsm *fsm = fsm_from(machine);

    foreseen_drop(fsm);
    fsm_keys_clear(fsm);
    fsm_recalls_clear(fsm);
    fsm_tags_clear(fsm);
    fsm->settings = (struct fsm_settings){.has_layout = false};
    fsm->layouts.count = 0;
    fsm_workers_clear(&fsm->workers);
    ASSERT(fsm->tags.count == 0 && fsm->recalls.count == 0 && fsm->keys.table.count == 0);
}

static struct machine *fsm_make(struct state *state)
{
    struct fsm *fsm = MUST_HAVE(calloc(1, sizeof *fsm));

    fsm->machine = (struct machine){.ops = &fsm_machine, .state = state};
    fsm->shown = MUST_HAVE(malloc(sizeof *fsm->shown));
    fsm_clear(&fsm->machine);
    return &fsm->machine;
}

static void fsm_free(struct machine *machine)
{
    fsm_clear(machine);
    free(fsm_from(machine)->shown);
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
    enum command_type type = fsm->command.type;

    if (err == 0) {
        fsm->data = data;
        fsm->len = len;
        *ret_command = (struct machine_command){
            .since = command_since((int)type),
            .is_leaders = type == COMMAND_WINDOW || type == COMMAND_KEYED,
        };
    }
    return err;
}

/* A judgement is valid only in the state that it was made in. */
static bool fsm_foresee_more(struct machine *machine, uint64_t index)
{
    struct fsm *fsm = fsm_from(machine);
    struct fsm_foreseen *foreseen = &fsm->foreseen;

    return foreseen->judged != NULL && foreseen->index == index &&
           foreseen->digest == fsm_journal(fsm)->digest &&
           fsm_puts_judge(fsm, foreseen->judged, FORESEE_ITEMS);
}

static bool fsm_foresee(struct machine *machine, uint64_t index)
{
    struct fsm *fsm = fsm_from(machine);

    foreseen_drop(fsm);
    if (command_puts_tags((int)fsm->command.type)) {
        fsm->foreseen =
            (struct fsm_foreseen){.judged = fsm_puts_judge_begin(fsm, &fsm->command.list),
                                  .index = index,
                                  .data = fsm->data,
                                  .len = fsm->len,
                                  .digest = fsm_journal(fsm)->digest};
    }
    return fsm_foresee_more(machine, index);
}

static void fsm_apply(struct machine *machine, const struct machine_entry *entry,
                      struct buf *result)
{
    struct fsm *fsm = fsm_from(machine);
    struct command *command = &fsm->command;
    struct fsm_foreseen *foreseen = &fsm->foreseen;
    int status = 0;

    switch (command->type) {
    case COMMAND_GRANT:
        fsm_ids_grant(fsm, TAG_MODE_TREND, entry->node_id, &command->list, result);
        return;
    case COMMAND_TAGS_PUT:
    case COMMAND_TAGS_PUT_BY:
    case COMMAND_TAGS_PUT_STEPPED:
        /* An earlier judgement is valid only for this entry in the state that it was made in. */
        if (foreseen->index != entry->index || foreseen->data != fsm->data ||
            foreseen->len != fsm->len || foreseen->digest != fsm_journal(fsm)->digest) {
            foreseen_drop(fsm);
        }
        if (foreseen->judged == NULL) {
            foreseen->judged = fsm_puts_judge_begin(fsm, &command->list);
        }
        fsm_puts_apply(fsm, foreseen->judged, result);
        foreseen_drop(fsm);
        return;
    case COMMAND_WORKER_ACQUIRE:
    case COMMAND_WORKER_ACQUIRE_OF:
    case COMMAND_WORKER_RENEW:
    case COMMAND_WORKER_RELEASE:
    case COMMAND_WORKER_RENEW_OF:
    case COMMAND_WORKER_RELEASE_OF:
        fsm_workers_apply(fsm, command, result);
        return;
    case COMMAND_STRICT:
    case COMMAND_KEYED:
        fsm_batch_apply(fsm, entry, &command->list, command->type == COMMAND_KEYED, result);
        return;
    case COMMAND_GIVE_BACK:
        fsm_segments_give_back(fsm, &command->list, result);
        return;
    case COMMAND_WINDOW:
        fsm_ids_grant(fsm, TAG_MODE_MONOTONIC, 0, &command->list, result);
        return;
    case COMMAND_TAG_DELETE:
        status = fsm_puts_delete(fsm, &command->deletion);
        break;
    case COMMAND_LAYOUT:
        status = fsm_settings_layout(fsm, &command->layout);
        break;
    case COMMAND_WORKER_POOLS:
        status = fsm_settings_pools(fsm, &command->pools);
        break;
    case COMMAND_LAYOUT_PUT:
        status = fsm_layouts_put(fsm, &command->named);
        break;
    case COMMAND_LAYOUT_DELETE:
        status = fsm_layouts_delete(fsm, &command->deletion);
        break;
    case COMMAND_RECALLED:
        fsm_recalls_confirm(fsm, entry->node_id, &command->list);
        break;
    }
    status_result_encode(status, result);
}

/* --- reports of the cluster's half --- */

static void fsm_clock(struct machine *machine, uint64_t log_ms)
{
    struct fsm *fsm = fsm_from(machine);

    fsm->settings.log_ms = log_ms;
    fsm_keys_expire(fsm, LIMIT_KEYS_FORGOTTEN);
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
        fsm_workers_list(fsm, &what, result);
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

void fsm_usage(const struct fsm *fsm, struct fsm_usage *ret_usage)
{
    *ret_usage = (struct fsm_usage){.bytes = fsm->tags.counts.bytes + fsm->tags.owners.bytes +
                                             fsm->keys.bytes + fsm->keys.owners.bytes,
                                    .tags = fsm->tags.count - fsm->tags.counts.dead,
                                    .dead = fsm->tags.counts.dead,
                                    .keys = fsm->keys.table.count};
}

/* --- loading --- */

static int fsm_load_row(struct machine *machine, const struct state_row *row)
{
    struct fsm *fsm = fsm_from(machine);

    switch (row->key[0]) {
    case FSM_TABLE_TAGS:
        return fsm_tags_load(fsm, row);
    case FSM_TABLE_WORKERS:
        return fsm_workers_load(fsm, row);
    case STATE_TABLE_SETTINGS:
        return fsm_settings_load(fsm, row);
    case FSM_TABLE_LAYOUTS:
        return fsm_layouts_load(fsm, row);
    case FSM_TABLE_HOLDERS:
    case FSM_TABLE_RECALLS:
        return fsm_recalls_load(fsm, row);
    case FSM_TABLE_KEYS:
        return fsm_keys_load(fsm, row);
    default:
        return ERR_NEWER; /* a table of a later level */
    }
}

/* Call the listener for every row. */
static void notify_all(struct fsm *fsm)
{
    struct fsm_listener *listener = fsm->listener;

    if (listener == NULL) {
        return;
    }
    if (listener->layout_changed != NULL && fsm->settings.has_layout) {
        listener->layout_changed(listener, &fsm->settings.layout);
    }
    for (uint32_t i = 0; listener->named_layout_changed != NULL && i < fsm->layouts.count; i++) {
        listener->named_layout_changed(listener, &fsm->layouts.rows[i]);
    }
    for (size_t i = 0; listener->worker_changed != NULL && i < fsm->workers.count; i++) {
        listener->worker_changed(listener, fsm->workers.list[i].row);
    }
    if (listener->tag_changed == NULL) {
        return;
    }
    for (struct fsm_row *row = fsm_tags_seek(&fsm->tags, "", 0); row != NULL;
         row = fsm_tags_next(row)) {
        const struct tag_row tag = fsm_row_tag(row);

        listener->tag_changed(listener, &tag, &(const struct fsm_tag_before){.known = false});
    }
}

/* Rows of different tables may name each other. */
static int fsm_load_end(struct machine *machine, uint64_t index, uint64_t log_ms)
{
    struct fsm *fsm = fsm_from(machine);
    int err = fsm->tags.hollow_count > 0 ? ERR_CORRUPT : fsm_recalls_check(fsm);

    if (err == 0) {
        err = fsm_keys_order(fsm, index, log_ms);
    }
    if (err == 0) {
        fsm->settings.log_ms = log_ms;
        notify_all(fsm);
    }
    return err;
}

/* The list has another address now. */
static void ages_moved(struct fsm_key_ages *ages)
{
    if (ages->tqh_first != NULL) {
        ages->tqh_first->age.tqe_prev = &ages->tqh_first;
    } else {
        TAILQ_INIT(ages);
    }
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
    ages_moved(&fsm->keys.ages);
    ages_moved(&taken->keys.ages);
    notify_all(fsm);
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
                                        .removed = fsm_holder_removed,
                                        .load_begin = fsm_clear,
                                        .load_row = fsm_load_row,
                                        .load_end = fsm_load_end};
