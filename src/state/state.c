/*
 * state.c - see state.h: sessions around both halves, the dispatch of commands and rows, and the
 * memory of digests.
 *
 * The happy path: state_apply() reads the whole command, checks that it is new in its session, has
 * its half carry it out, and stores the answer, and the digest under the entry's index.
 *
 * Failure modes: as in state.h. No change is made before the whole command was read. Thread: one
 * owner.
 */
#include "src/state/state.h"

#include <stdlib.h>
#include <string.h>

#include "src/base/assert.h"

struct state *state_new(const struct machine_ops *ops)
{
    struct state *state = MUST_HAVE(calloc(1, sizeof *state));

    state->facts.speaks = level_own;
    facts_clear(state);
    state->machine = ops->make(state);
    ASSERT(state->machine->ops == ops && state->machine->state == state);
    return state;
}

void state_free(struct state *state)
{
    if (state == NULL) {
        return;
    }
    state->machine->ops->free(state->machine);
    sessions_clear(state);
    facts_clear(state);
    buf_free(&state->journal.row);
    free(state);
}

void state_speaks(struct state *state, struct level_range range)
{
    ASSERT(state->facts.level.level == 0);
    state->facts.speaks = range;
}

/* The digest after the entry at index, for COMMAND_DIGEST. */
static void digest_remember(struct state *state, uint64_t index)
{
    state->marks[index % STATE_DIGEST_MARKS] =
        (struct state_digest_mark){index, state->journal.digest};
}

/* --- commands --- */

/* A command that was read, by one half. */
struct state_command {
    bool is_clusters;
    struct session_stamp stamp;
    struct machine_command of; /* the machine's */
    struct cluster_command cluster;
};

/* 0, ERR_BAD_MESSAGE or ERR_NEWER. */
static int state_read(const struct state *state, const void *data, size_t len,
                      struct state_command *ret_command)
{
    struct machine *machine = state->machine;
    int type = command_number(data, len);
    int err;

    if (type < 0) {
        return type;
    }
    ret_command->is_clusters = cluster_command_since(type) > 0;
    if (ret_command->is_clusters) {
        err = cluster_command_read(data, len, &ret_command->cluster);
        ret_command->stamp = ret_command->cluster.stamp;
        return err;
    }
    if (machine->ops->since(type) == 0) {
        return ERR_NEWER;
    }
    err = session_stamp_read(data, len, &ret_command->stamp);
    return err != 0 ? err : machine->ops->read(machine, data, len, &ret_command->of);
}

/* Apply it by its half. 0 or ERR_DIVERGED. */
static int apply_type(struct state *state, const struct machine_entry *entry,
                      const struct state_command *command, struct buf *result)
{
    const struct cluster_command *cluster = &command->cluster;
    const struct state_digest_mark *mark;

    if (!command->is_clusters) {
        state->machine->ops->apply(state->machine, entry, result);
        return 0;
    }
    status_result_encode(facts_apply(state, entry->index, cluster), result);
    if (cluster->type != COMMAND_DIGEST || cluster->digest.index == 0) {
        return 0;
    }
    /* Did this node have another digest at that index, if it still remembers? */
    mark = &state->marks[cluster->digest.index % STATE_DIGEST_MARKS];
    return mark->index == cluster->digest.index && mark->digest != cluster->digest.digest
               ? ERR_DIVERGED
               : 0;
}

/* Carry it out, unless that was done before or must not be done (session.h). */
static int apply_once(struct state *state, const struct machine_entry *entry,
                      const struct state_command *command, struct buf *result)
{
    const struct session_stamp *stamp = &command->stamp;
    size_t before = result->len;
    int err = 0;

    ASSERT(stamp->lowest >= 1 && stamp->lowest <= stamp->seq);
    if (node_set_has(&state->members.removed, stamp->node_id)) {
        session_refusal_encode(&(struct session_refusal){.status = ERR_REMOVED}, result);
        return 0;
    }
    if (sessions_lookup(state, stamp, result)) {
        return 0;
    }
    if (!sessions_is_full(state, stamp, result)) {
        err = apply_type(state, entry, command, result);
    }
    ASSERT(result->len > before); /* every command has an answer */
    sessions_answer(state, stamp, result->data + before, result->len - before);
    return err;
}

/* A leader's entries for itself have no stamp; all others have one. A node reports only itself, and
 * so sets only its own zone. A later level's commands do nothing before that level: the level in
 * force decides, not this leafd's abilities. */
static bool is_allowed(const struct state *state, const struct state_command *command)
{
    const struct cluster_command *cluster = &command->cluster;
    bool is_unstamped = command->stamp.node_id == 0;

    if (!command->is_clusters) {
        return command->of.since <= state_level(state) && command->of.is_leaders == is_unstamped;
    }
    if (cluster_command_since((int)cluster->type) > state_level(state) &&
        cluster->type != COMMAND_BIRTH_AT) { /* it carries its level */
        return false;
    }
    switch (cluster->type) {
    case COMMAND_NOOP: /* the first entry of a term, or only a stamp */
        return true;
    case COMMAND_BIRTH:
    case COMMAND_BIRTH_AT:
        return is_unstamped;
    case COMMAND_NODE_INFO:
        return !is_unstamped && cluster->node.node_id == command->stamp.node_id;
    case COMMAND_PLACEMENT:
        return !is_unstamped && ((cluster->placement.set & PLACE_ZONE) == 0 ||
                                 cluster->placement.node_id == command->stamp.node_id);
    default:
        return !is_unstamped;
    }
}

int state_check(const struct state *state, const void *data, size_t len)
{
    struct state_command command;

    return state_read(state, data, len, &command);
}

uint16_t state_since(const struct state *state, int type)
{
    uint16_t since = cluster_command_since(type);

    return since > 0 || type < 0 ? since : state->machine->ops->since(type);
}

bool state_can_apply(const struct state *state, const void *data, size_t len)
{
    int type = command_number(data, len);

    return (type == ERR_BAD_MESSAGE || state_since(state, type) > 0) &&
           command_raises_to(data, len) <= state->facts.speaks.max;
}

bool state_foresee(struct state *state, uint64_t index, const void *data, size_t len)
{
    struct state_command command;

    ASSERT(!state->journal.loading && state->journal.changes == NULL);
    return state_read(state, data, len, &command) == 0 && !command.is_clusters &&
           is_allowed(state, &command) && state->machine->ops->foresee(state->machine, index);
}

bool state_foresee_more(struct state *state, uint64_t index)
{
    ASSERT(!state->journal.loading && state->journal.changes == NULL);
    return state->machine->ops->foresee_more(state->machine, index);
}

int state_apply(struct state *state, uint64_t index, uint64_t term, const void *data, size_t len,
                struct buf *result, struct row_changes *changes)
{
    struct machine_entry entry = {.index = index, .term = term};
    struct state_command command;
    int err;

    ASSERT(!state->journal.loading && state->journal.changes == NULL);
    if (!state_can_apply(state, data, len)) {
        return ERR_NEWER;
    }
    err = state_read(state, data, len, &command);
    state->journal.changes = changes;
    if (err != 0 || !is_allowed(state, &command)) {
        err = ERR_BAD_MESSAGE;
        status_result_encode(err, result);
    } else if (command.stamp.node_id == 0) {
        err = apply_type(state, &entry, &command, result);
    } else {
        entry.node_id = command.stamp.node_id;
        err = apply_once(state, &entry, &command, result);
    }
    state->journal.changes = NULL;
    digest_remember(state, index);
    if (command_number(data, len) == COMMAND_DIGEST) {
        state->checks[state->check_count++ % STATE_DIGEST_CHECKS] =
            state->marks[index % STATE_DIGEST_MARKS];
    }
    return err;
}

bool state_digest_at(const struct state *state, uint64_t index, uint64_t *ret_digest)
{
    const struct state_digest_mark *mark = &state->marks[index % STATE_DIGEST_MARKS];

    for (unsigned i = 0; mark->index != index && i < STATE_DIGEST_CHECKS; i++) {
        mark = &state->checks[i];
    }
    if (index == 0 || mark->index != index) {
        return false;
    }
    *ret_digest = mark->digest;
    return true;
}

/* --- membership --- */

void state_configured(struct state *state, uint64_t index, const struct configuration *before,
                      const struct configuration *after, struct row_changes *changes)
{
    ASSERT(!state->journal.loading && state->journal.changes == NULL);
    state->journal.changes = changes;
    MEMBER_FOREACH (member, before) {
        /* Delete all that is kept for this node alone. */
        if (configuration_find(after, member->id) == NULL) {
            facts_removed(state, member->id);
            state->machine->ops->removed(state->machine, member->id);
            sessions_removed(state, member->id);
        }
    }
    facts_reached(state, after);
    state->journal.changes = NULL;
    digest_remember(state, index);
}

const struct member_change *state_member_change(const struct state *state)
{
    return state->members.change.kind != 0 ? &state->members.change : NULL;
}

bool state_member_removed(const struct state *state, uint64_t node_id)
{
    return node_set_has(&state->members.removed, node_id);
}

const char *state_member_address(const struct state *state, uint64_t node_id)
{
    const struct member_move *row = node_rows_find(&state->members.moves, node_id);

    return row != NULL ? row->address : NULL;
}

/* --- reading the state --- */

const struct node_info *state_node(const struct state *state, uint64_t node_id)
{
    return node_rows_find(&state->members.infos, node_id);
}

const struct birth *state_birth(const struct state *state)
{
    return uid_is_none(&state->facts.birth.uid) ? NULL : &state->facts.birth;
}

bool state_session_is_over(const struct state *state, const struct session_stamp *stamp)
{
    const struct node_session *session = sessions_find(state, stamp->node_id);

    return session != NULL &&
           (stamp->incarnation < session->incarnation ||
            (stamp->incarnation == session->incarnation && stamp->seq < session->lowest));
}

uint64_t state_node_start(const struct state *state, uint64_t node_id)
{
    const struct node_session *session = sessions_find(state, node_id);
    const struct node_info *info = state_node(state, node_id);

    return later_of(info != NULL ? info->incarnation : 0,
                    session != NULL ? session->incarnation : 0);
}

uint64_t state_digest(const struct state *state)
{
    return state->journal.digest;
}

uint64_t state_memory(const struct state *state)
{
    return state->machine->ops->bytes(state->machine);
}

/* --- loading --- */

void state_load_begin(struct state *state)
{
    state->journal.loading = true;
    state->machine->ops->load_begin(state->machine);
    facts_clear(state);
    sessions_clear(state);
    state->journal.digest = 0;
    memset(state->marks, 0, sizeof state->marks);
    memset(state->checks, 0, sizeof state->checks);
}

int state_load_row(void *data, const struct state_row *row)
{
    struct state *state = data;
    int err;

    ASSERT(state->journal.loading);
    if (row->key_len < 1) {
        return ERR_CORRUPT;
    }
    if (row->key[0] == STATE_TABLE_ANSWERS) {
        return sessions_load(state, row);
    }
    err = facts_load(state, row);
    return err == ERR_NOT_FOUND ? state->machine->ops->load_row(state->machine, row) : err;
}

int state_load_end(struct state *state, uint64_t index)
{
    int err;

    ASSERT(state->journal.loading && state->journal.changes == NULL);
    if (state_level(state) < state->facts.speaks.min) {
        return ERR_BAD_VERSION;
    }
    err = sessions_check(state);
    if (err != 0) {
        return err;
    }
    err = state->machine->ops->load_end(state->machine, index, state->facts.log_ms);
    state->journal.loading = err != 0;
    if (err == 0) {
        digest_remember(state, index);
    }
    return err;
}

void state_take(struct state *state, struct state *from)
{
    struct state *other = MUST_HAVE(malloc(sizeof *other));
    struct machine *machine = state->machine;
    struct machine *taken = from->machine;

    ASSERT(!state->journal.loading && !from->journal.loading);
    *other = *state;
    *state = *from;
    *from = *other;
    free(other);
    state->cuts.changes = later_of(state->cuts.changes, from->cuts.changes) + 1;
    state->machine = machine;
    from->machine = taken;
    machine->ops->take(machine, taken);
}
