/*
 * facts.c - see state_tables.h.
 */
#include <stdlib.h>
#include <string.h>

#include "src/base/assert.h"
#include "src/base/buf.h"
#include "src/state/state_tables.h"

/* --- facts --- */

/* So low that every window granted by the log's time ends at a time that can be displayed. */
#define LOG_MS_MAX (LIMIT_TIME_MAX_MS - LIMIT_WORKER_AHEAD_MS - LIMIT_WINDOW_MAX_MS)

static const struct row_format BIRTH =
    ROW_FORMAT(ROW_VERSION, FIELDS(birth_fields), birth_is_sound);

static const struct field TIME_FIELDS[] = {FIELD_NUMBER(struct facts, log_ms)};

static bool time_is_sound(const void *data)
{
    const struct facts *facts = data;

    return facts->log_ms >= 1 && facts->log_ms <= LOG_MS_MAX;
}

static const struct row_format TIME = ROW_FORMAT(ROW_VERSION, FIELDS(TIME_FIELDS), time_is_sound);

static void birth_set(struct state *state, const struct birth *birth)
{
    ASSERT(uid_is_none(&state->facts.birth.uid));
    state->facts.birth = *birth;
    journal_change(&state->journal, STATE_TABLE_SETTINGS, STATE_SETTING_BIRTH,
                   strlen(STATE_SETTING_BIRTH), &BIRTH, NULL, birth);
}

static void level_set(struct state *state, const struct level_row *row)
{
    struct level_row *level = &state->facts.level;

    journal_change(&state->journal, STATE_TABLE_SETTINGS, STATE_SETTING_LEVEL,
                   strlen(STATE_SETTING_LEVEL), &level_row_format, level->level != 0 ? level : NULL,
                   row);
    *level = *row;
}

static void time_set(struct state *state, uint64_t log_ms)
{
    const struct facts after = {.log_ms = log_ms};
    struct facts *facts = &state->facts;

    ASSERT(log_ms > facts->log_ms);
    journal_change(&state->journal, STATE_TABLE_SETTINGS, STATE_SETTING_TIME,
                   strlen(STATE_SETTING_TIME), &TIME, facts->log_ms > 0 ? facts : NULL, &after);
    facts->log_ms = log_ms;
}

static int birth_apply(struct state *state, const struct birth *birth, uint64_t index)
{
    struct birth shown = *birth;

    if (!uid_is_none(&state->facts.birth.uid)) {
        return ERR_EXISTS;
    }
    shown.wall_ms = displayable_ms(birth->wall_ms);
    shown.level = 0;
    birth_set(state, &shown);
    if (birth->level > state_level(state)) {
        ASSERT(birth->level <= state->facts.speaks.max);
        level_set(state, &(struct level_row){birth->level, index, shown.wall_ms});
    }
    return 0;
}

void facts_birth_value(const struct birth *birth, struct buf *out)
{
    row_put(out, &BIRTH, birth);
}

uint16_t state_level(const struct state *state)
{
    return state->facts.level.level != 0 ? state->facts.level.level : LEVEL_FIRST;
}

static int level_raise(struct state *state, const struct level_command *command, uint64_t index)
{
    uint16_t now = state_level(state);

    if (command->to == now) {
        return 0;
    }
    if (command->to != now + 1) {
        return ERR_CONFLICT;
    }
    ASSERT(command->to <= state->facts.speaks.max && index > state->facts.level.index);
    level_set(state, &(struct level_row){.level = command->to,
                                         .index = index,
                                         .wall_ms = displayable_ms(command->wall_ms)});
    return 0;
}

void facts_clock(struct state *state, uint64_t cluster_ms)
{
    uint64_t before_ms = state->facts.log_ms;
    uint64_t log_ms = cluster_ms < LOG_MS_MAX ? cluster_ms : LOG_MS_MAX;

    if (log_ms <= before_ms) {
        return;
    }
    if (before_ms > 0 && log_ms - before_ms > LIMIT_LOG_STEP_MS) {
        log_ms = before_ms + LIMIT_LOG_STEP_MS;
    }
    time_set(state, log_ms);
}

void facts_time_value(uint64_t log_ms, struct buf *out)
{
    const struct facts facts = {.log_ms = log_ms < LOG_MS_MAX ? log_ms : LOG_MS_MAX};

    row_put(out, &TIME, &facts);
}

/* ERR_NOT_FOUND: it is none of these settings. */
static int setting_load(struct state *state, const struct state_row *row)
{
    const struct facts *facts = &state->facts;
    struct facts loaded = {0};
    int err;

    if (row_is_setting(row, STATE_SETTING_BIRTH)) {
        err = row_read(row->value, row->value_len, &BIRTH, &loaded.birth);
        if (err == 0 && loaded.birth.wall_ms > LIMIT_TIME_MAX_MS) {
            return ERR_CORRUPT;
        }
        if (err != 0 || !uid_is_none(&facts->birth.uid)) {
            return err != 0 ? err : ERR_EXISTS;
        }
        birth_set(state, &loaded.birth);
        return 0;
    }
    if (row_is_setting(row, STATE_SETTING_LEVEL)) {
        err = row_read(row->value, row->value_len, &level_row_format, &loaded.level);
        if (err != 0 || facts->level.level != 0) {
            return err != 0 ? err : ERR_EXISTS;
        }
        level_set(state, &loaded.level);
        return loaded.level.level > facts->speaks.max ? ERR_NEWER : 0;
    }
    if (!row_is_setting(row, STATE_SETTING_TIME)) {
        return ERR_NOT_FOUND;
    }
    err = row_read(row->value, row->value_len, &TIME, &loaded);
    if (err != 0 || facts->log_ms > 0) {
        return err != 0 ? err : ERR_EXISTS;
    }
    time_set(state, loaded.log_ms);
    return 0;
}

/* --- members --- */

_Static_assert(offsetof(struct node_info, node_id) == 0 &&
                   offsetof(struct placement, node_id) == 0 &&
                   offsetof(struct member_move, node_id) == 0,
               "records of nodes");

/* Set the row of the change; NULL: delete it, if there is one. */
static void change_set(struct state *state, const struct member_change *after)
{
    struct member_change *change = &state->members.change;

    ASSERT(after == NULL ||
           (after->kind != 0 && after->node_id >= 1 && after->node_id <= LIMIT_NODE_ID));
    journal_change(&state->journal, STATE_TABLE_MEMBERS, "", 0, &member_change_format,
                   change->kind != 0 ? change : NULL, after);
    *change = after != NULL ? *after : (struct member_change){0};
}

void facts_removed(struct state *state, uint64_t node_id)
{
    struct members *members = &state->members;

    (void)node_set_change_row(&members->removed, &state->journal, STATE_TABLE_REMOVED, node_id,
                              true);
    members->move_changes += node_rows_drop(&members->moves, &state->journal, node_id);
    (void)node_rows_drop(&members->placements, &state->journal, node_id);
}

void facts_reached(struct state *state, const struct configuration *now)
{
    const struct member_change *change = &state->members.change;
    enum conf_role role = configuration_role(now, change->node_id);
    bool reached = role == (change->kind == MEMBER_ADD ? ROLE_VOTER : ROLE_GONE);

    if (change->kind != 0 && reached) {
        change_set(state, NULL);
    }
}

static int change_begin(struct state *state, const struct member_change *change, uint64_t index)
{
    const struct member_change *now = &state->members.change;
    bool under_way = now->kind != 0 && !now->given_up;
    struct member_change begun = *change;

    if (node_set_has(&state->members.removed, change->node_id)) {
        return ERR_REMOVED;
    }
    if (under_way && now->kind == change->kind && now->node_id == change->node_id &&
        strcmp(now->address, change->address) == 0) {
        return 0;
    }
    if (under_way && (change->kind != MEMBER_REMOVE || now->kind != MEMBER_ADD ||
                      now->node_id != change->node_id)) {
        return ERR_EXISTS;
    }
    begun.index = index;
    ASSERT(index > 0 && !begun.given_up);
    change_set(state, &begun);
    return 0;
}

static void move_set(struct state *state, const struct member_move *move)
{
    struct members *members = &state->members;

    members->move_changes += node_rows_put(&members->moves, &state->journal, move);
}

struct placement state_placement(const struct state *state, uint64_t node_id)
{
    const struct placement *row = node_rows_find(&state->members.placements, node_id);

    return row != NULL ? *row
                       : (struct placement){.node_id = node_id, .weight = NODE_WEIGHT_DEFAULT};
}

/* A placement with only defaults has no row: no trace of earlier settings remains. */
static void placement_set(struct state *state, const struct placement *placement)
{
    ASSERT(placement_is_sound(placement) && placement->set == 0);
    if (placement->zone[0] == '\0' && placement->weight == NODE_WEIGHT_DEFAULT &&
        !placement->drained) {
        (void)node_rows_drop(&state->members.placements, &state->journal, placement->node_id);
    } else {
        (void)node_rows_put(&state->members.placements, &state->journal, placement);
    }
}

/* Set the named fields, keep the rest. */
static void placement_apply(struct state *state, const struct placement *placement)
{
    struct placement now = state_placement(state, placement->node_id);

    if ((placement->set & PLACE_ZONE) != 0) {
        memcpy(now.zone, placement->zone, sizeof now.zone);
    }
    if ((placement->set & PLACE_WEIGHT) != 0) {
        now.weight = placement->weight;
    }
    if ((placement->set & PLACE_DRAINED) != 0) {
        now.drained = placement->drained;
    }
    placement_set(state, &now);
}

/* A node that starts with another address has moved there: its store proves that it is the same
 * node. */
static void info_apply(struct state *state, const struct node_info *info)
{
    const struct node_info *known = node_rows_find(&state->members.infos, info->node_id);
    struct member_move move = {.node_id = info->node_id};

    if (known != NULL && known->store_id == info->store_id && info->peer_address[0] != '\0' &&
        strcmp(known->peer_address, info->peer_address) != 0) {
        memcpy(move.address, info->peer_address, sizeof move.address);
        move_set(state, &move);
    }
    (void)node_rows_put(&state->members.infos, &state->journal, info);
}

/* --- cuts --- */

static struct client_cut *cut_find(struct cuts *cuts, const char *who)
{
    for (size_t i = 0; i < cuts->now.count; i++) {
        if (strcmp(cuts->now.items[i].who, who) == 0) {
            return &cuts->now.items[i];
        }
    }
    return NULL;
}

/* Set the row. before NULL: there was none; after NULL: it is deleted. */
static void cut_set(struct state *state, struct client_cut *before, const struct client_cut *after)
{
    struct cuts *cuts = &state->cuts;
    const char *who = after != NULL ? after->who : before->who;

    journal_change(&state->journal, STATE_TABLE_CUTS, who, strlen(who), &client_cut_format, before,
                   after);
    if (after == NULL) {
        *before = cuts->now.items[--cuts->now.count];
    } else {
        ASSERT(before != NULL || cuts->now.count < LIMIT_CUTS);
        *(before != NULL ? before : &cuts->now.items[cuts->now.count++]) = *after;
    }
    cuts->changes++;
}

/* Replaces the cut of this name. It lasts LIMIT_CUT_S by the log's time at most. ERR_CONFLICT:
 * there are LIMIT_CUTS, and none of them is over; ERR_NOT_FOUND: none of this name can end. */
static int cut_apply(struct state *state, const struct client_cut *cut)
{
    uint64_t log_ms = state->facts.log_ms;
    uint64_t most_ms = log_ms + LIMIT_CUT_S * UINT64_C(1000);
    struct cuts *cuts = &state->cuts;
    struct client_cut put = *cut;
    struct client_cut *row = cut_find(cuts, cut->who);

    if (cut->until_ms == 0) {
        if (row == NULL) {
            return ERR_NOT_FOUND;
        }
        cut_set(state, row, NULL);
        return 0;
    }
    /* Those that are over make room only if it is needed: after clocks were set back the log's time
     * is beyond the end of cuts that are in force. */
    for (size_t i = cuts->now.count; row == NULL && i > 0 && cuts->now.count == LIMIT_CUTS; i--) {
        if (cuts->now.items[i - 1].until_ms <= log_ms) {
            cut_set(state, &cuts->now.items[i - 1], NULL);
        }
    }
    if (row == NULL && cuts->now.count == LIMIT_CUTS) {
        return ERR_CONFLICT;
    }
    put.until_ms = log_ms > 0 && cut->until_ms > most_ms ? most_ms : cut->until_ms;
    cut_set(state, row, &put);
    return 0;
}

static int cut_load(struct state *state, const struct state_row *row)
{
    struct cuts *cuts = &state->cuts;
    struct client_cut cut = {0};
    int err;

    if (row->key_len < 2 || row->key_len > sizeof cut.who ||
        memchr(row->key, '\0', row->key_len) != NULL) {
        return ERR_CORRUPT;
    }
    memcpy(cut.who, row->key + 1, row->key_len - 1);
    err = row_read(row->value, row->value_len, &client_cut_format, &cut);
    if (err == 0 && (cut.until_ms == 0 || cuts->now.count == LIMIT_CUTS)) {
        return ERR_CORRUPT;
    }
    if (err == 0 && cut_find(cuts, cut.who) != NULL) {
        return ERR_EXISTS;
    }
    if (err == 0) {
        cut_set(state, NULL, &cut);
    }
    return err;
}

/* --- all of them --- */

void facts_clear(struct state *state)
{
    static const struct node_table infos = {STATE_TABLE_NODES, &node_info_format,
                                            sizeof(struct node_info)};
    static const struct node_table moves = {STATE_TABLE_ADDRESSES, &member_move_format,
                                            sizeof(struct member_move)};
    static const struct node_table placements = {STATE_TABLE_PLACEMENTS, &placement_format,
                                                 sizeof(struct placement)};
    struct members *members = &state->members;

    state->facts = (struct facts){.speaks = state->facts.speaks};
    state->cuts = (struct cuts){.changes = state->cuts.changes + 1};
    node_set_free(&members->removed);
    free(members->infos.items);
    free(members->moves.items);
    free(members->placements.items);
    *members = (struct members){.infos.of = &infos,
                                .moves.of = &moves,
                                .placements.of = &placements,
                                .move_changes = members->move_changes + 1};
}

int facts_apply(struct state *state, uint64_t index, const struct cluster_command *command)
{
    struct member_change change;

    switch (command->type) {
    case COMMAND_NODE_INFO:
        info_apply(state, &command->node);
        return 0;
    case COMMAND_CLOCK:
        facts_clock(state, command->clock.cluster_ms);
        state->machine->ops->clock(state->machine, state->facts.log_ms);
        return 0;
    case COMMAND_BIRTH:
    case COMMAND_BIRTH_AT:
        return birth_apply(state, &command->birth, index);
    case COMMAND_LEVEL:
        return level_raise(state, &command->level, index);
    case COMMAND_MEMBER_BEGIN:
        return change_begin(state, &command->change, index);
    case COMMAND_MEMBER_END:
        change = state->members.change;
        ASSERT_IMPLIES(change.given_up, change.kind != 0);
        if (change.kind == 0 || change.given_up || change.index != command->change.index) {
            return ERR_NOT_FOUND;
        }
        change.given_up = command->change.given_up;
        change_set(state, change.given_up ? &change : NULL);
        return 0;
    case COMMAND_MEMBER_MOVE:
        if (node_set_has(&state->members.removed, command->move.node_id)) {
            return ERR_REMOVED;
        }
        move_set(state, &command->move);
        return 0;
    case COMMAND_PLACEMENT:
        if (node_set_has(&state->members.removed, command->placement.node_id)) {
            return ERR_REMOVED;
        }
        placement_apply(state, &command->placement);
        return 0;
    case COMMAND_CUT:
        return cut_apply(state, &command->cut);
    case COMMAND_DIGEST: /* the same rows on all nodes, whatever each node finds */
    case COMMAND_NOOP:
        return 0;
    }
    UNREACHABLE("a command of the cluster");
}

int facts_load(struct state *state, const struct state_row *row)
{
    struct members *members = &state->members;
    struct member_change change = {0};
    struct node_info info = {0};
    struct member_move move = {0};
    struct placement placement = {0};
    int err;

    switch (row->key[0]) {
    case STATE_TABLE_SETTINGS:
        return setting_load(state, row);
    case STATE_TABLE_CUTS:
        return cut_load(state, row);
    case STATE_TABLE_MEMBERS:
        err = row_read(row->value, row->value_len, &member_change_format, &change);
        if (err != 0 || row->key_len != 1) {
            return err != 0 ? err : ERR_CORRUPT;
        }
        if (members->change.kind != 0) {
            return ERR_EXISTS;
        }
        change_set(state, &change);
        return 0;
    case STATE_TABLE_REMOVED:
        return node_set_load_row(&members->removed, &state->journal, row);
    case STATE_TABLE_ADDRESSES:
        err = node_rows_read(&members->moves, row, &move);
        if (err == 0) {
            move_set(state, &move);
        }
        return err;
    case STATE_TABLE_PLACEMENTS:
        err = node_rows_read(&members->placements, row, &placement);
        if (err == 0) {
            placement_set(state, &placement);
            if (node_rows_find(&members->placements, placement.node_id) == NULL) {
                return ERR_CORRUPT; /* only defaults have no row */
            }
        }
        return err;
    case STATE_TABLE_NODES:
        err = node_rows_read(&members->infos, row, &info);
        if (err == 0) {
            (void)node_rows_put(&members->infos, &state->journal, &info);
        }
        return err;
    default:
        return ERR_NOT_FOUND;
    }
}
