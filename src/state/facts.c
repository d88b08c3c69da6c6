/*
 * facts.c - see facts.h.
 */
#include "src/state/facts.h"

#include <stdlib.h>
#include <string.h>

#include "src/base/assert.h"
#include "src/base/buf.h"

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

void facts_init(struct facts *facts, struct journal *journal, struct level_range speaks)
{
    ASSERT(level_is_sound(speaks));
    *facts = (struct facts){.journal = journal, .speaks = speaks};
}

/* --- the birth --- */

static void birth_set(struct facts *facts, const struct birth *birth)
{
    ASSERT(uid_is_none(&facts->birth.uid));
    facts->birth = *birth;
    journal_change(facts->journal, STATE_TABLE_SETTINGS, STATE_SETTING_BIRTH,
                   strlen(STATE_SETTING_BIRTH), &BIRTH, NULL, birth);
}

static void level_set(struct facts *facts, const struct level_row *row)
{
    journal_change(facts->journal, STATE_TABLE_SETTINGS, STATE_SETTING_LEVEL,
                   strlen(STATE_SETTING_LEVEL), &level_row_format,
                   facts->level.level != 0 ? &facts->level : NULL, row);
    facts->level = *row;
}

int facts_birth(struct facts *facts, const struct birth *birth, uint64_t index)
{
    struct birth shown = *birth;

    if (!uid_is_none(&facts->birth.uid)) {
        return ERR_EXISTS;
    }
    shown.wall_ms = displayable_ms(birth->wall_ms);
    shown.level = 0;
    birth_set(facts, &shown);
    if (birth->level > facts_level(facts)) {
        ASSERT(birth->level <= facts->speaks.max);
        level_set(facts, &(struct level_row){birth->level, index, shown.wall_ms});
    }
    return 0;
}

void facts_birth_value(const struct birth *birth, struct buf *out)
{
    row_put(out, &BIRTH, birth);
}

static int birth_load(struct facts *facts, const struct row_loaded *row)
{
    struct birth birth = {0};
    int err = row_read(row->value, row->value_len, &BIRTH, &birth);

    if (err != 0) {
        return err;
    }
    if (birth.wall_ms > LIMIT_TIME_MAX_MS) {
        return ERR_CORRUPT;
    }
    if (!uid_is_none(&facts->birth.uid)) {
        return ERR_EXISTS;
    }
    birth_set(facts, &birth);
    return 0;
}

/* --- the level --- */

uint16_t facts_level(const struct facts *facts)
{
    return facts->level.level != 0 ? facts->level.level : LEVEL_FIRST;
}

int facts_raise(struct facts *facts, const struct level_command *command, uint64_t index)
{
    uint16_t now = facts_level(facts);

    if (command->to == now) {
        return 0;
    }
    if (command->to != now + 1) {
        return ERR_CONFLICT;
    }
    ASSERT(command->to <= facts->speaks.max && index > facts->level.index);
    level_set(facts, &(struct level_row){.level = command->to,
                                         .index = index,
                                         .wall_ms = displayable_ms(command->wall_ms)});
    return 0;
}

static int level_load(struct facts *facts, const struct row_loaded *row)
{
    struct level_row loaded = {0};
    int err = row_read(row->value, row->value_len, &level_row_format, &loaded);

    if (err != 0) {
        return err;
    }
    if (facts->level.level != 0) {
        return ERR_EXISTS;
    }
    level_set(facts, &loaded);
    return loaded.level > facts->speaks.max ? ERR_NEWER : 0;
}

/* --- the log's time --- */

static void time_set(struct facts *facts, uint64_t log_ms)
{
    const struct facts after = {.log_ms = log_ms};

    ASSERT(log_ms > facts->log_ms);
    journal_change(facts->journal, STATE_TABLE_SETTINGS, STATE_SETTING_TIME,
                   strlen(STATE_SETTING_TIME), &TIME, facts->log_ms > 0 ? facts : NULL, &after);
    facts->log_ms = log_ms;
}

void facts_clock(struct facts *facts, uint64_t cluster_ms)
{
    uint64_t log_ms = cluster_ms < LOG_MS_MAX ? cluster_ms : LOG_MS_MAX;

    if (log_ms <= facts->log_ms) {
        return;
    }
    if (facts->log_ms > 0 && log_ms - facts->log_ms > LIMIT_LOG_STEP_MS) {
        log_ms = facts->log_ms + LIMIT_LOG_STEP_MS;
    }
    time_set(facts, log_ms);
}

void facts_time_value(uint64_t log_ms, struct buf *out)
{
    const struct facts facts = {.log_ms = log_ms < LOG_MS_MAX ? log_ms : LOG_MS_MAX};

    row_put(out, &TIME, &facts);
}

static int time_load(struct facts *facts, const struct row_loaded *row)
{
    struct facts loaded = {0};
    int err = row_read(row->value, row->value_len, &TIME, &loaded);

    if (err != 0) {
        return err;
    }
    if (facts->log_ms > 0) {
        return ERR_EXISTS;
    }
    time_set(facts, loaded.log_ms);
    return 0;
}

int facts_load(struct facts *facts, const struct row_loaded *row)
{
    if (row_is_setting(row, STATE_SETTING_BIRTH)) {
        return birth_load(facts, row);
    }
    if (row_is_setting(row, STATE_SETTING_LEVEL)) {
        return level_load(facts, row);
    }
    return row_is_setting(row, STATE_SETTING_TIME) ? time_load(facts, row) : ERR_NOT_FOUND;
}

/* --- members --- */

_Static_assert(offsetof(struct node_info, node_id) == 0 &&
                   offsetof(struct placement, node_id) == 0 &&
                   offsetof(struct member_move, node_id) == 0,
               "records of nodes");

void members_init(struct members *members, struct journal *journal)
{
    static const struct node_table infos = {STATE_TABLE_NODES, &node_info_format,
                                            sizeof(struct node_info)};
    static const struct node_table moves = {STATE_TABLE_ADDRESSES, &member_move_format,
                                            sizeof(struct member_move)};
    static const struct node_table placements = {STATE_TABLE_PLACEMENTS, &placement_format,
                                                 sizeof(struct placement)};

    *members = (struct members){
        .journal = journal, .infos.of = &infos, .moves.of = &moves, .placements.of = &placements};
}

void members_clear(struct members *members)
{
    uint64_t move_changes = members->move_changes + 1;

    node_set_free(&members->removed);
    free(members->infos.items);
    free(members->moves.items);
    free(members->placements.items);
    members_init(members, members->journal);
    members->move_changes = move_changes;
}

/* --- rows --- */

/* Delete the row of the change, if there is one. */
static void change_forget(struct members *members)
{
    if (members->change.kind != 0) {
        journal_change(members->journal, STATE_TABLE_MEMBERS, "", 0, &member_change_format,
                       &members->change, NULL);
        members->change = (struct member_change){0};
    }
}

static void change_put(struct members *members, const struct member_change *change)
{
    ASSERT(change->kind != 0 && change->node_id >= 1 && change->node_id <= LIMIT_NODE_ID);
    journal_change(members->journal, STATE_TABLE_MEMBERS, "", 0, &member_change_format,
                   members->change.kind != 0 ? &members->change : NULL, change);
    members->change = *change;
}

void members_remove(struct members *members, uint64_t node_id)
{
    (void)node_set_add_row(&members->removed, members->journal, STATE_TABLE_REMOVED, node_id);
    members->move_changes += node_rows_drop(&members->moves, members->journal, node_id);
    (void)node_rows_drop(&members->placements, members->journal, node_id);
}

/* --- configurations --- */

void members_reached(struct members *members, const struct member *now, size_t count)
{
    const struct member_change *change = &members->change;
    const struct member *member = member_find(now, count, change->node_id);
    bool reached = change->kind == MEMBER_ADD ? member != NULL && member->voter : member == NULL;

    if (change->kind != 0 && reached) {
        change_forget(members);
    }
}

/* --- commands --- */

int members_begin(struct members *members, const struct member_change *change, uint64_t index)
{
    const struct member_change *now = &members->change;
    bool under_way = now->kind != 0 && !now->given_up;
    struct member_change begun = *change;

    if (node_set_has(&members->removed, change->node_id)) {
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
    change_put(members, &begun);
    return 0;
}

int members_end(struct members *members, uint64_t index, bool given_up)
{
    struct member_change change = members->change;

    ASSERT_IMPLIES(change.given_up, change.kind != 0);
    if (change.kind == 0 || change.given_up || change.index != index) {
        return ERR_NOT_FOUND;
    }
    if (!given_up) {
        change_forget(members);
        return 0;
    }
    change.given_up = true;
    change_put(members, &change);
    return 0;
}

/* --- addresses of members that have moved --- */

static void move_set(struct members *members, const struct member_move *move)
{
    const struct member_move *row = node_rows_find(&members->moves, move->node_id);

    ASSERT(member_move_is_sound(move));
    if (row == NULL || strcmp(row->address, move->address) != 0) {
        node_rows_put(&members->moves, members->journal, move);
        members->move_changes++;
    }
}

int members_move(struct members *members, const struct member_move *move)
{
    if (node_set_has(&members->removed, move->node_id)) {
        return ERR_REMOVED;
    }
    move_set(members, move);
    return 0;
}

/* --- places of nodes, and their share of the work --- */

struct placement members_placement(const struct members *members, uint64_t node_id)
{
    const struct placement *row = node_rows_find(&members->placements, node_id);

    return row != NULL ? *row
                       : (struct placement){.node_id = node_id, .weight = NODE_WEIGHT_DEFAULT};
}

/* A placement with only defaults has no row: no trace of earlier settings remains. */
static void placement_set(struct members *members, const struct placement *placement)
{
    struct placement now = members_placement(members, placement->node_id);

    ASSERT(placement_is_sound(placement) && placement->set == 0);
    if (placement->zone[0] == '\0' && placement->weight == NODE_WEIGHT_DEFAULT &&
        !placement->drained) {
        (void)node_rows_drop(&members->placements, members->journal, placement->node_id);
    } else if (strcmp(now.zone, placement->zone) != 0 || now.weight != placement->weight ||
               now.drained != placement->drained) {
        node_rows_put(&members->placements, members->journal, placement);
    }
}

int members_place(struct members *members, const struct placement *placement)
{
    struct placement now = members_placement(members, placement->node_id);

    if (node_set_has(&members->removed, placement->node_id)) {
        return ERR_REMOVED;
    }
    if ((placement->set & PLACE_ZONE) != 0) {
        memcpy(now.zone, placement->zone, sizeof now.zone);
    }
    if ((placement->set & PLACE_WEIGHT) != 0) {
        now.weight = placement->weight;
    }
    if ((placement->set & PLACE_DRAINED) != 0) {
        now.drained = placement->drained;
    }
    placement_set(members, &now);
    return 0;
}

/* --- reports of nodes --- */

const struct node_info *members_info(const struct members *members, uint64_t node_id)
{
    return node_rows_find(&members->infos, node_id);
}

static void info_set(struct members *members, const struct node_info *info)
{
    const struct node_info *row = members_info(members, info->node_id);

    if (row == NULL || row->store_id != info->store_id || row->incarnation != info->incarnation ||
        row->levels.min != info->levels.min || row->levels.max != info->levels.max ||
        strcmp(row->version, info->version) != 0 ||
        strcmp(row->http_address, info->http_address) != 0 ||
        strcmp(row->peer_address, info->peer_address) != 0) {
        node_rows_put(&members->infos, members->journal, info);
    }
}

void members_report(struct members *members, const struct node_info *info)
{
    const struct node_info *known = members_info(members, info->node_id);
    struct member_move move = {.node_id = info->node_id};

    if (known != NULL && known->store_id == info->store_id && info->peer_address[0] != '\0' &&
        strcmp(known->peer_address, info->peer_address) != 0) {
        memcpy(move.address, info->peer_address, sizeof move.address);
        move_set(members, &move);
    }
    info_set(members, info);
}

/* --- loading --- */

static int change_load(struct members *members, const struct row_loaded *row)
{
    struct member_change change = {0};
    int err = row_read(row->value, row->value_len, &member_change_format, &change);

    if (err != 0 || row->key_len != 1) {
        return err != 0 ? err : ERR_CORRUPT;
    }
    if (members->change.kind != 0) {
        return ERR_EXISTS;
    }
    change_put(members, &change);
    return 0;
}

int members_load(struct members *members, const struct row_loaded *row)
{
    struct node_info info = {0};
    struct member_move move = {0};
    struct placement placement = {0};
    int err;

    switch (row->key[0]) {
    case STATE_TABLE_MEMBERS:
        return change_load(members, row);
    case STATE_TABLE_REMOVED:
        return node_set_load_row(&members->removed, members->journal, row);
    case STATE_TABLE_ADDRESSES:
        err = node_rows_read(&members->moves, row, &move);
        if (err == 0) {
            move_set(members, &move);
        }
        return err;
    case STATE_TABLE_PLACEMENTS:
        err = node_rows_read(&members->placements, row, &placement);
        if (err == 0) {
            placement_set(members, &placement);
            if (node_rows_find(&members->placements, placement.node_id) == NULL) {
                return ERR_CORRUPT; /* only defaults have no row */
            }
        }
        return err;
    default:
        ASSERT(row->key[0] == STATE_TABLE_NODES);
        err = node_rows_read(&members->infos, row, &info);
        if (err == 0) {
            info_set(members, &info);
        }
        return err;
    }
}

/* --- cuts --- */

void cuts_init(struct cuts *cuts, struct journal *journal)
{
    *cuts = (struct cuts){.journal = journal, .changes = cuts->changes + 1};
}

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
static void cut_set(struct cuts *cuts, struct client_cut *before, const struct client_cut *after)
{
    const char *who = after != NULL ? after->who : before->who;

    journal_change(cuts->journal, STATE_TABLE_CUTS, who, strlen(who), &client_cut_format, before,
                   after);
    if (after == NULL) {
        *before = cuts->now.items[--cuts->now.count];
    } else {
        ASSERT(before != NULL || cuts->now.count < LIMIT_CUTS);
        *(before != NULL ? before : &cuts->now.items[cuts->now.count++]) = *after;
    }
    cuts->changes++;
}

int cuts_put(struct cuts *cuts, const struct client_cut *cut, uint64_t log_ms)
{
    uint64_t most_ms = log_ms + LIMIT_CUT_S * UINT64_C(1000);
    struct client_cut put = *cut;
    struct client_cut *row = cut_find(cuts, cut->who);

    if (cut->until_ms == 0) {
        if (row == NULL) {
            return ERR_NOT_FOUND;
        }
        cut_set(cuts, row, NULL);
        return 0;
    }
    /* Those that are over make room only if it is needed: after clocks were set back the log's time
     * is beyond the end of cuts that are in force. */
    for (size_t i = cuts->now.count; row == NULL && i > 0 && cuts->now.count == LIMIT_CUTS; i--) {
        if (cuts->now.items[i - 1].until_ms <= log_ms) {
            cut_set(cuts, &cuts->now.items[i - 1], NULL);
        }
    }
    if (row == NULL && cuts->now.count == LIMIT_CUTS) {
        return ERR_CONFLICT;
    }
    put.until_ms = log_ms > 0 && cut->until_ms > most_ms ? most_ms : cut->until_ms;
    cut_set(cuts, row, &put);
    return 0;
}

int cuts_load(struct cuts *cuts, const struct row_loaded *row)
{
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
        cut_set(cuts, NULL, &cut);
    }
    return err;
}
