/*
 * fsm_members.c - see fsm_members.h.
 */
#include "src/id/fsm/fsm_members.h"

#include <string.h>

#include "src/base/assert.h"

void fsm_members_init(struct fsm_members *members, struct fsm_journal *journal)
{
    *members = (struct fsm_members){.journal = journal};
}

void fsm_members_clear(struct fsm_members *members)
{
    node_set_free(&members->removed);
    fsm_members_init(members, members->journal);
}

/* --- rows --- */

static void journal_change(struct fsm_members *members)
{
    ASSERT(members->change.kind != 0);
    fsm_journal_key(members->journal, FSM_TABLE_MEMBERS);
    fsm_journal_value(members->journal);
    member_change_row_encode(&members->change, &members->journal->row);
}

/* Take the row of the change away, if there is one. */
static void change_forget(struct fsm_members *members)
{
    if (members->change.kind != 0) {
        journal_change(members);
        fsm_journal_delete(members->journal);
        members->change = (struct member_change){0};
    }
}

static void change_put(struct fsm_members *members, const struct member_change *change)
{
    ASSERT(change->kind != 0 && change->node_id >= 1 && change->node_id <= LIMIT_NODE_ID);
    if (members->change.kind != 0) {
        journal_change(members);
        fsm_journal_leave(members->journal);
    }
    members->change = *change;
    journal_change(members);
    fsm_journal_enter(members->journal);
}

void fsm_members_remove(struct fsm_members *members, uint64_t node_id)
{
    if (!node_set_add(&members->removed, node_id)) {
        return;
    }
    fsm_journal_node_key(members->journal, FSM_TABLE_REMOVED, node_id);
    fsm_journal_value(members->journal);
    buf_put_u8(&members->journal->row, FSM_ROW_VERSION);
    fsm_journal_enter(members->journal);
}

/* --- configurations --- */

void fsm_members_reached(struct fsm_members *members, const struct member *now, size_t count)
{
    const struct member_change *change = &members->change;
    const struct member *member = member_find(now, count, change->node_id);
    bool reached = change->kind == MEMBER_ADD ? member != NULL && member->voter : member == NULL;

    if (change->kind != 0 && reached) {
        change_forget(members);
    }
}

/* --- commands --- */

static bool same_change(const struct member_change *a, const struct member_change *b)
{
    return a->kind == b->kind && a->node_id == b->node_id && strcmp(a->address, b->address) == 0;
}

int fsm_members_begin(struct fsm_members *members, const struct member_change *change,
                      uint64_t index)
{
    const struct member_change *now = &members->change;
    bool under_way = now->kind != 0 && !now->given_up;
    struct member_change begun = *change;

    if (node_set_has(&members->removed, change->node_id)) {
        return ERR_REMOVED;
    }
    if (under_way && same_change(now, change)) {
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

int fsm_members_end(struct fsm_members *members, uint64_t index, bool given_up)
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

/* --- loading --- */

int fsm_members_load_change(struct fsm_members *members, size_t key_len, const void *value,
                            size_t value_len)
{
    struct member_change change;
    int err;

    if (key_len != 1) {
        return ERR_CORRUPT;
    }
    err = member_change_row_decode(value, value_len, &change);
    if (err != 0) {
        return err;
    }
    if (members->change.kind != 0) {
        return ERR_EXISTS;
    }
    change_put(members, &change);
    return 0;
}

int fsm_members_load_removed(struct fsm_members *members, const uint8_t *key, size_t key_len,
                             const void *value, size_t value_len)
{
    uint64_t node_id;
    int err = fsm_node_row_read(key, key_len, value, value_len, &node_id);

    if (err != 0) {
        return err;
    }
    if (node_set_has(&members->removed, node_id)) {
        return ERR_EXISTS;
    }
    fsm_members_remove(members, node_id);
    return 0;
}
