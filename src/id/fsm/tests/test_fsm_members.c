/*
 * test_fsm_members.c - the membership in the state machine: the change under way, ids that were
 * removed, their rows and bytes, and addresses.
 *
 * Thread: one.
 */
#include <stdio.h>
#include <string.h>

#include "src/tests/unit/test.h"
#include "src/id/tests/id_apply.h"
#include "src/state/codec/cluster_command.h"
#include "src/tests/unit/hex.h"

static int32_t applied(struct id_apply *a, struct buf *command)
{
    int32_t status = 1;

    buf_free(command);
    if (id_apply_refused(a) != 0) {
        return id_apply_refused(a);
    }
    assert_int_equal(status_result_decode(a->result.data, a->result.len, &status), 0);
    return status;
}

static int32_t apply(struct id_apply *a, struct buf *command)
{
    assert_int_equal(id_apply_bytes(a, command), 0);
    return applied(a, command);
}

static int32_t begin(struct id_apply *a, uint8_t kind, uint64_t node_id, const char *address)
{
    struct member_change change = {.kind = kind, .node_id = node_id};
    struct buf command = BUF_INIT;

    memcpy(change.address, address, strlen(address));
    cluster_command_put(&command, COMMAND_MEMBER_BEGIN, &change);
    return apply(a, &command);
}

static int32_t end(struct id_apply *a, uint64_t index, bool given_up)
{
    struct buf command = BUF_INIT;

    cluster_command_put(&command, COMMAND_MEMBER_END,
                        &(struct member_change){.index = index, .given_up = given_up});
    return apply(a, &command);
}

/* A configuration is applied: ids of voters, and one standby (0: none). */
static void configured(struct id_apply *a, const uint64_t *before, size_t before_count,
                       const uint64_t *after, size_t after_count, uint64_t standby)
{
    struct configuration old = {0};
    struct configuration new = {0};
    struct row_changes changes = {0};

    for (size_t i = 0; i < before_count; i++) {
        configuration_add(&old, before[i], "", ROLE_VOTER);
    }
    for (size_t i = 0; i < after_count; i++) {
        configuration_add(&new, after[i], "", after[i] != standby ? ROLE_VOTER : ROLE_STANDBY);
    }
    state_configured(fsm_state(a->fsm), ++a->index, &old, &new, &changes);
    id_apply_keep(a, &changes);
}

static const uint64_t IDS[] = {1, 2, 3, 4};

static void test_addition(void **state)
{
    struct id_apply *a = *state;
    const struct member_change *change;

    assert_null(state_member_change(fsm_state(a->fsm)));
    assert_int_equal(begin(a, MEMBER_ADD, 4, "h:1"), 0);
    assert_int_equal(a->changed, 1);
    change = state_member_change(fsm_state(a->fsm));
    assert_non_null(change);
    assert_int_equal(change->kind, MEMBER_ADD);
    assert_int_equal(change->node_id, 4);
    assert_int_equal(change->index, a->index);
    assert_string_equal(change->address, "h:1");
    assert_int_equal(begin(a, MEMBER_ADD, 4, "h:1"), 0); /* the same again */
    assert_int_equal(a->changed, 0);
    assert_int_equal(begin(a, MEMBER_ADD, 4, "h:2"), ERR_EXISTS);
    assert_int_equal(begin(a, MEMBER_ADD, 5, "h:1"), ERR_EXISTS);
    assert_int_equal(begin(a, MEMBER_REMOVE, 3, ""), ERR_EXISTS);
    configured(a, IDS, 3, IDS, 4, 4); /* a standby: not the end */
    assert_non_null(state_member_change(fsm_state(a->fsm)));
    configured(a, IDS, 4, IDS, 4, 0);
    assert_null(state_member_change(fsm_state(a->fsm)));
    assert_false(state_member_removed(fsm_state(a->fsm), 4));
}

static void test_removal_is_for_good(void **state)
{
    struct id_apply *a = *state;
    struct buf command = BUF_INIT;
    struct node_info info = {.node_id = 4, .store_id = 5, .levels = {1, 1}};

    assert_int_equal(begin(a, MEMBER_REMOVE, 4, ""), 0);
    configured(a, IDS, 4, IDS, 4, 4);
    assert_non_null(state_member_change(fsm_state(a->fsm)));
    assert_false(state_member_removed(fsm_state(a->fsm), 4));
    configured(a, IDS, 4, IDS, 3, 0);
    assert_null(state_member_change(fsm_state(a->fsm)));
    assert_true(state_member_removed(fsm_state(a->fsm), 4));
    assert_false(state_member_removed(fsm_state(a->fsm), 3));
    assert_int_equal(begin(a, MEMBER_ADD, 4, "h:1"), ERR_REMOVED);
    assert_int_equal(begin(a, MEMBER_REMOVE, 4, ""), ERR_REMOVED);
    cluster_command_put(&command, COMMAND_NODE_INFO, &info);
    id_stamp(&a->stamps, 4, &command);
    assert_int_equal(apply(a, &command), ERR_REMOVED);
    assert_int_equal(a->changed, 0);
    assert_null(state_node(fsm_state(a->fsm), 4));
    assert_int_equal(id_apply_grant_to(a, 3, "nothing", 1).status, ERR_UNKNOWN_TAG);
}

static void test_addition_called_off(void **state)
{
    struct id_apply *a = *state;

    assert_int_equal(begin(a, MEMBER_ADD, 4, "h:1"), 0);
    assert_int_equal(begin(a, MEMBER_REMOVE, 4, ""), 0);
    assert_int_equal(state_member_change(fsm_state(a->fsm))->kind, MEMBER_REMOVE);
    assert_int_equal(state_member_change(fsm_state(a->fsm))->index, a->index);
    assert_int_equal(begin(a, MEMBER_ADD, 4, "h:1"), ERR_EXISTS); /* not back again */
}

static void test_given_up(void **state)
{
    struct id_apply *a = *state;
    uint64_t index;

    assert_int_equal(end(a, 7, true), ERR_NOT_FOUND);
    assert_int_equal(begin(a, MEMBER_ADD, 4, "h:1"), 0);
    index = a->index;
    assert_int_equal(end(a, index + 1, true), ERR_NOT_FOUND);
    assert_int_equal(end(a, index, true), 0);
    assert_true(state_member_change(fsm_state(a->fsm))->given_up);
    assert_int_equal(end(a, index, true), ERR_NOT_FOUND);
    assert_int_equal(begin(a, MEMBER_REMOVE, 3, ""), 0); /* in nobody's way */
    index = a->index;
    assert_int_equal(end(a, index, false), 0);
    assert_null(state_member_change(fsm_state(a->fsm)));
}

static int32_t move(struct id_apply *a, uint64_t node_id, const char *address)
{
    struct member_move move = {.node_id = node_id};
    struct buf command = BUF_INIT;

    memcpy(move.address, address, strlen(address));
    cluster_command_put(&command, COMMAND_MEMBER_MOVE, &move);
    return apply(a, &command);
}

static void report(struct id_apply *a, uint64_t node_id, uint64_t store_id, const char *address)
{
    struct node_info info = {.node_id = node_id, .store_id = store_id, .levels = {1, 1}};
    struct buf command = BUF_INIT;

    memcpy(info.peer_address, address, strlen(address));
    cluster_command_put(&command, COMMAND_NODE_INFO, &info);
    id_stamp(&a->stamps, node_id, &command);
    assert_int_equal(apply(a, &command), 0);
}

static void test_a_member_moves(void **state)
{
    struct id_apply *a = *state;
    uint64_t moves = fsm_state(a->fsm)->members.move_changes;

    report(a, 3, 9, "h:3"); /* its first word: where it was added */
    assert_null(state_member_address(fsm_state(a->fsm), 3));
    assert_int_equal(fsm_state(a->fsm)->members.move_changes, moves);
    report(a, 3, 9, "h:33");
    assert_string_equal(state_member_address(fsm_state(a->fsm), 3), "h:33");
    assert_true(fsm_state(a->fsm)->members.move_changes > moves);
    assert_int_equal(move(a, 3, "h:34"), 0); /* an operator knows better, */
    assert_string_equal(state_member_address(fsm_state(a->fsm), 3), "h:34");
    report(a, 3, 9, "h:33"); /* until the node starts elsewhere again */
    assert_string_equal(state_member_address(fsm_state(a->fsm), 3), "h:34");
    report(a, 3, 9, "");
    assert_string_equal(state_member_address(fsm_state(a->fsm), 3), "h:34");
    report(a, 3, 8, "h:35"); /* another store: it proves nothing */
    assert_string_equal(state_member_address(fsm_state(a->fsm), 3), "h:34");
    report(a, 3, 8, "h:36");
    assert_string_equal(state_member_address(fsm_state(a->fsm), 3), "h:36");
    moves = fsm_state(a->fsm)->members.move_changes;
    assert_int_equal(move(a, 3, "h:36"), 0);
    assert_int_equal(a->changed, 0);
    assert_int_equal(fsm_state(a->fsm)->members.move_changes, moves);
    assert_null(state_member_address(fsm_state(a->fsm), 2));

    configured(a, IDS, 4, (uint64_t[]){1, 2, 4}, 3, 0); /* it goes, and its row with it */
    assert_null(state_member_address(fsm_state(a->fsm), 3));
    assert_int_equal(move(a, 3, "h:1"), ERR_REMOVED);
}

static int32_t place(struct id_apply *a, uint64_t by, const struct placement *placement)
{
    struct buf command = BUF_INIT;

    cluster_command_put(&command, COMMAND_PLACEMENT, placement);
    id_stamp(&a->stamps, by, &command);
    if (id_apply_bytes(a, &command) == ERR_BAD_MESSAGE) {
        buf_free(&command);
        return ERR_BAD_MESSAGE;
    }
    return applied(a, &command);
}

static void expect_placement(const struct id_apply *a, uint64_t node_id, const char *zone,
                             uint16_t weight, bool drained)
{
    struct placement now = state_placement(fsm_state(a->fsm), node_id);

    assert_int_equal(now.node_id, node_id);
    assert_string_equal(now.zone, zone);
    assert_int_equal(now.weight, weight);
    assert_int_equal(now.drained, drained);
}

/* Each command sets what it names. A node says its zone itself, and nobody else does. */
static void test_placements(void **state)
{
    struct id_apply *a = *state;

    assert_int_equal(
        place(a, 3, &(struct placement){.node_id = 3, .set = PLACE_ZONE, .zone = "eu-1"}),
        ERR_BAD_MESSAGE); /* level 1 has none */
    id_apply_raise(a, PLACEMENT_LEVEL);
    expect_placement(a, 3, "", NODE_WEIGHT_DEFAULT, false);
    assert_int_equal(place(a, 3, &(struct placement){3, PLACE_ZONE, "eu-1", 7, true}), 0);
    expect_placement(a, 3, "eu-1", NODE_WEIGHT_DEFAULT, false);
    assert_int_equal(place(a, 2, &(struct placement){3, PLACE_ZONE, "eu-2", 7, true}),
                     ERR_BAD_MESSAGE);
    assert_int_equal(place(a, 2, &(struct placement){3, PLACE_WEIGHT, "", 0, true}), 0);
    expect_placement(a, 3, "eu-1", 0, false);
    assert_int_equal(place(a, 1, &(struct placement){3, PLACE_DRAINED, "", 7, true}), 0);
    expect_placement(a, 3, "eu-1", 0, true);
    assert_int_equal(place(a, 1, &(struct placement){3, PLACE_DRAINED, "", 7, true}), 0);
    assert_int_equal(a->changed, 0); /* it was so */
    expect_placement(a, 2, "", NODE_WEIGHT_DEFAULT, false);
    assert_int_equal(
        place(a, 1, &(struct placement){3, PLACE_DRAINED | PLACE_WEIGHT, "", 100, false}), 0);
    assert_int_equal(place(a, 3, &(struct placement){3, PLACE_ZONE, "", 7, true}), 0);
    expect_placement(a, 3, "", NODE_WEIGHT_DEFAULT, false);
    assert_int_equal(place(a, 3, &(struct placement){3, PLACE_ZONE, "eu-1", 0, false}), 0);
    configured(a, IDS, 4, (uint64_t[]){1, 2, 4}, 3, 0); /* it goes, and its row with it */
    expect_placement(a, 3, "", NODE_WEIGHT_DEFAULT, false);
    assert_int_equal(place(a, 1, &(struct placement){3, PLACE_WEIGHT, "", 1, false}), ERR_REMOVED);
}

static void test_zone_names(void **state)
{
    char longest[LIMIT_ZONE_BYTES + 2];

    (void)state;
    memset(longest, 'a', sizeof longest);
    assert_true(zone_check("eu-west-1.a_B9", strlen("eu-west-1.a_B9")));
    assert_true(zone_check(longest, LIMIT_ZONE_BYTES));
    assert_false(zone_check(longest, LIMIT_ZONE_BYTES + 1));
    assert_false(zone_check("", 0));
    assert_false(zone_check("a b", 3));
    assert_false(zone_check("a\0b", 3));
    assert_false(zone_check("zon\xc3\xa9", 5));
}

static int32_t cut(struct id_apply *a, const char *who, uint64_t until_ms)
{
    struct client_cut asked = {.until_ms = until_ms, .reason = "why", .by = "ops"};
    struct buf command = BUF_INIT;

    memcpy(asked.who, who, strlen(who));
    cluster_command_put(&command, COMMAND_CUT, &asked);
    id_stamp(&a->stamps, 1, &command);
    if (id_apply_bytes(a, &command) == ERR_BAD_MESSAGE) {
        buf_free(&command);
        return ERR_BAD_MESSAGE;
    }
    return applied(a, &command);
}

#define CUT_T 1700000000000

/* The bound, and at it; one in place of itself; the end by an operator. One that is over by the
 * log's time stays until another one needs its place: the clocks may have been set back. */
static void test_cuts(void **state)
{
    struct id_apply *a = *state;
    const struct cuts *cuts = &fsm_state(a->fsm)->cuts;
    uint64_t changes = cuts->changes;
    char who[LIMIT_CUT_WHO_BYTES + 1];

    assert_int_equal(cut(a, "shop", CUT_T), ERR_BAD_MESSAGE); /* level 1 has none */
    id_apply_raise(a, CUT_LEVEL);
    assert_int_equal(id_apply_clock(a, CUT_T), 0);
    assert_int_equal(cut(a, "shop", 0), ERR_NOT_FOUND);
    assert_int_equal(cuts->changes, changes);
    for (unsigned i = 0; i < LIMIT_CUTS; i++) {
        (void)snprintf(who, sizeof who, "10.0.0.%u", i);
        assert_int_equal(cut(a, who, CUT_T + 1000 + i), 0);
    }
    assert_int_equal(cut(a, "shop", CUT_T + 9000), ERR_CONFLICT);
    assert_int_equal(cut(a, "10.0.0.5", CUT_T + 5000), 0);
    assert_int_equal(cuts->now.count, LIMIT_CUTS);
    assert_true(cuts->changes > changes);
    assert_int_equal(id_apply_clock(a, CUT_T + 1000), 0);
    assert_int_equal(cut(a, "10.0.0.5", CUT_T + 5000), 0); /* it has a place */
    assert_string_equal(cuts->now.items[0].who, "10.0.0.0");
    assert_int_equal(cuts->now.count, LIMIT_CUTS);
    memset(who, 'x', LIMIT_CUT_WHO_BYTES);
    who[LIMIT_CUT_WHO_BYTES] = '\0';
    assert_int_equal(cut(a, who, UINT64_MAX / 2), ERR_BAD_MESSAGE);
    assert_int_equal(cut(a, who, CUT_T * 2), 0);
    assert_int_equal(cuts->now.count, LIMIT_CUTS);
    assert_int_equal(cuts->now.items[LIMIT_CUTS - 1].until_ms,
                     CUT_T + 1000 + LIMIT_CUT_S * UINT64_C(1000));
    assert_int_equal(id_apply_clock(a, CUT_T + 4999), 0);
    assert_int_equal(cut(a, who, 0), 0);
    assert_int_equal(cuts->now.count, LIMIT_CUTS - 1);
    assert_int_equal(cut(a, "10.0.0.7", 0), 0);
    assert_int_equal(cut(a, "10.0.0.7", 0), ERR_NOT_FOUND);
    assert_int_equal(cut(a, "shop", CUT_T + 9000), 0);
    assert_int_equal(cut(a, "till", CUT_T + 9000), 0);
    assert_int_equal(cuts->now.count, LIMIT_CUTS);
    for (unsigned i = 0; i < LIMIT_CUTS - 3; i++) { /* all but those three are over */
        (void)snprintf(who, sizeof who, "new.%u", i);
        assert_int_equal(cut(a, who, CUT_T + 9000), 0);
    }
    assert_int_equal(cut(a, "last", CUT_T + 9000), ERR_CONFLICT);
    assert_string_equal(cuts->now.items[0].by, "ops");
    assert_int_equal(cut(a, "", CUT_T * 2), ERR_BAD_MESSAGE);
    assert_int_equal(cut(a, "a\nb", CUT_T * 2), ERR_BAD_MESSAGE);
}

/* Rows loaded give the same state and digest. */
static void test_rows(void **state)
{
    struct id_apply *a = *state;
    struct fsm *fsm = fsm_of(state_new(&fsm_machine));
    const struct member_change *change;

    configured(a, IDS, 4, IDS, 3, 0);
    assert_int_equal(move(a, 2, "h:2"), 0);
    id_apply_raise(a, PLACEMENT_LEVEL);
    assert_int_equal(place(a, 1, &(struct placement){2, PLACE_DRAINED, "", 7, true}), 0);
    assert_int_equal(place(a, 1, &(struct placement){1, PLACE_ZONE, "b", 7, true}), 0);
    assert_int_equal(begin(a, MEMBER_ADD, 5, "[::1]:7"), 0);
    assert_int_equal(cut(a, "2001:db8::/32", CUT_T), 0);
    assert_int_equal(cut(a, "shop", CUT_T + 1), 0);
    assert_int_equal(cut(a, "2001:db8::/32", 0), 0);
    state_load_begin(fsm_state(fsm));
    for (size_t i = 0; i < a->row_count; i++) {
        const struct state_row row = kept_row(&a->rows[i]);

        if (row.value_len > 0) {
            assert_int_equal(state_load_row(fsm_state(fsm), &row), 0);
        }
    }
    assert_int_equal(state_load_end(fsm_state(fsm), a->index), 0);
    assert_int_equal(state_digest(fsm_state(fsm)), state_digest(fsm_state(a->fsm)));
    assert_true(state_member_removed(fsm_state(fsm), 4));
    assert_string_equal(state_member_address(fsm_state(fsm), 2), "h:2");
    change = state_member_change(fsm_state(fsm));
    assert_non_null(change);
    assert_string_equal(change->address, "[::1]:7");
    assert_int_equal(fsm_state(fsm)->cuts.now.count, 1);
    assert_string_equal(fsm_state(fsm)->cuts.now.items[0].who, "shop");
    state_free(fsm_state(fsm));
}

static void test_load_refuses_damage(void **state)
{
    const char *change = "01 01 00 00 0400000000000000 0900000000000000 0300 683a31";
    struct fsm *fsm = ((struct id_apply *)*state)->fsm;

    state_load_begin(fsm_state(fsm));
    assert_int_equal(id_load_hex(fsm, "78 0000000000000004", "01 0000 3200 01"), 0);
    assert_int_equal(id_load_hex(fsm, "78 0000000000000004", "01 0000 3200 01"), ERR_EXISTS);
    assert_int_equal(id_load_hex(fsm, "78 0000000000000005", "01 0000 6400 00"), ERR_CORRUPT);
    assert_int_equal(id_load_hex(fsm, "78 0000000000000005", "01 0000 e903 00"), ERR_CORRUPT);
    assert_int_equal(id_load_hex(fsm, "78 0000000000000005", "01 0100 20 6400 00"), ERR_CORRUPT);
    assert_int_equal(id_load_hex(fsm, "78 0000000000000005", "02 0000 3200 01"), ERR_BAD_VERSION);
    assert_int_equal(id_load_hex(fsm, "78 00000005", "01 0000 3200 01"), ERR_CORRUPT);
    assert_int_equal(id_load_hex(fsm, "79 61", "01 0500000000000000 0000 0100 62"), 0);
    assert_int_equal(id_load_hex(fsm, "79 61", "01 0500000000000000 0000 0100 62"), ERR_EXISTS);
    assert_int_equal(id_load_hex(fsm, "79", "01 0500000000000000 0000 0000"), ERR_CORRUPT);
    assert_int_equal(id_load_hex(fsm, "79 6100", "01 0500000000000000 0000 0000"), ERR_CORRUPT);
    assert_int_equal(id_load_hex(fsm, "79 62", "01 0000000000000000 0000 0000"), ERR_CORRUPT);
    assert_int_equal(id_load_hex(fsm, "79 62", "01 0500000000000000 0100 0a 0000"), ERR_CORRUPT);
    assert_int_equal(id_load_hex(fsm, "6d", change), 0);
    assert_int_equal(id_load_hex(fsm, "6d", change), ERR_EXISTS);
    assert_int_equal(id_load_hex(fsm, "6d 00", change), ERR_CORRUPT);
    assert_int_equal(id_load_hex(fsm, "6d", "02"), ERR_BAD_VERSION);
    assert_int_equal(id_load_hex(fsm, "6d", "01 01 00 04"), ERR_TRUNCATED);
    assert_int_equal(
        id_load_hex(fsm, "6d", "01 03 00 00 0400000000000000 0900000000000000 0300 683a31"),
        ERR_CORRUPT); /* no such kind */
    assert_int_equal(
        id_load_hex(fsm, "6d", "01 02 00 00 0400000000000000 0900000000000000 0300 683a31"),
        ERR_CORRUPT); /* a removal has no address */
    assert_int_equal(
        id_load_hex(fsm, "6d", "01 01 02 00 0400000000000000 0900000000000000 0300 683a31"),
        ERR_CORRUPT); /* forced or not, and nothing else */
    assert_int_equal(id_load_hex(fsm, "72 0000000000000004", "01"), 0);
    assert_int_equal(id_load_hex(fsm, "72 0000000000000004", "01"), ERR_EXISTS);
    assert_int_equal(id_load_hex(fsm, "72 0000000000000000", "01"), ERR_CORRUPT);
    assert_int_equal(id_load_hex(fsm, "72 000000000000ffff", "01"), 0); /* the largest id */
    assert_int_equal(id_load_hex(fsm, "72 0000000000010000", "01"), ERR_CORRUPT);
    assert_int_equal(id_load_hex(fsm, "72 00000004", "01"), ERR_CORRUPT);
    assert_int_equal(id_load_hex(fsm, "72 0000000000000005", "02"), ERR_BAD_VERSION);
    assert_int_equal(id_load_hex(fsm, "72 0000000000000005", "0101"), ERR_CORRUPT);
    assert_int_equal(state_load_end(fsm_state(fsm), 1), 0);
}

/* --- bytes --- */

static void assert_bytes(struct buf *got, const char *hex)
{
    struct buf want = BUF_INIT;

    hex_put(&want, hex);
    assert_int_equal(got->len, want.len);
    assert_memory_equal(got->data, want.data, want.len);
    buf_free(&want);
}

static void test_golden_bytes(void **state)
{
    struct member_change change = {
        .kind = MEMBER_ADD, .force = true, .node_id = 4, .address = "h:1"};
    struct member_ask ask = {.kind = MEMBER_ASK_LEAD, .again = true, .node_id = 2};
    struct member_answer answer = {.outcome = MEMBER_LAST_VOTER, .why = "no"};
    struct member_answer read;
    struct buf buf = BUF_INIT;

    (void)state;
    cluster_command_put(&buf, COMMAND_MEMBER_BEGIN, &change);
    assert_bytes(&buf, "03 11 " ID_STAMP_EMPTY "01 01 0400000000000000 0300 683a31");
    buf.len = 0;
    cluster_command_put(&buf, COMMAND_MEMBER_END,
                        &(struct member_change){.index = 9, .given_up = true});
    assert_bytes(&buf, "03 12 " ID_STAMP_EMPTY "01 0900000000000000");
    buf.len = 0;
    cluster_command_put(&buf, COMMAND_MEMBER_MOVE, &(struct member_move){2, "h:1"});
    assert_bytes(&buf, "03 13 " ID_STAMP_EMPTY "0200000000000000 0300 683a31");
    buf.len = 0;
    cluster_command_put(&buf, COMMAND_PLACEMENT,
                        &(struct placement){2, PLACE_ZONE | PLACE_DRAINED, "eu", 50, true});
    assert_bytes(&buf, "03 24 " ID_STAMP_EMPTY "0200000000000000 05 0200 6575 3200 01");
    buf.len = 0;
    cluster_command_put(&buf, COMMAND_CUT, &(struct client_cut){"::1", 5, "r", "ops"});
    assert_bytes(&buf, "03 25 " ID_STAMP_EMPTY "0300 3a3a31 0500000000000000 0100 72 0300 6f7073");
    buf.len = 0;
    member_ask_encode(&ask, &buf);
    assert_bytes(&buf, "03 03 " ID_STAMP_EMPTY "00 01 0200000000000000 0000 0000");
    buf.len = 0;
    member_answer_encode(&answer, &buf);
    assert_bytes(&buf, "01 8a 07 0200 6e6f");
    assert_int_equal(member_answer_decode(buf.data, buf.len, &read), 0);
    assert_string_equal(read.why, "no");
    buf_free(&buf);
}

/* Every shorter and longer form of each is refused. */
static void test_lengths(void **state)
{
    struct member_change change = {.kind = MEMBER_REMOVE, .node_id = 4};
    struct member_ask ask = {.kind = MEMBER_ASK_ADD, .node_id = 2, .address = "h:1"};
    struct cluster_command read;
    struct buf begin_bytes = BUF_INIT;
    struct buf ask_bytes = BUF_INIT;

    (void)state;
    cluster_command_put(&begin_bytes, COMMAND_MEMBER_BEGIN, &change);
    member_ask_encode(&ask, &ask_bytes);
    for (size_t len = 0; len < begin_bytes.len; len++) {
        assert_int_equal(cluster_command_read(begin_bytes.data, len, &read), ERR_BAD_MESSAGE);
    }
    for (size_t len = 0; len < ask_bytes.len; len++) {
        assert_int_equal(member_ask_decode(ask_bytes.data, len, &ask), ERR_BAD_MESSAGE);
    }
    assert_int_equal(cluster_command_read(begin_bytes.data, begin_bytes.len, &read), 0);
    assert_int_equal(member_ask_decode(ask_bytes.data, ask_bytes.len, &ask), 0);
    buf_put_u8(&begin_bytes, 0);
    buf_put_u8(&ask_bytes, 0);
    assert_int_equal(cluster_command_read(begin_bytes.data, begin_bytes.len, &read),
                     ERR_BAD_MESSAGE);
    assert_int_equal(member_ask_decode(ask_bytes.data, ask_bytes.len, &ask), ERR_BAD_MESSAGE);
    buf_free(&begin_bytes);
    buf_free(&ask_bytes);
}

static void test_addresses(void **state)
{
    static const char *const good[] = {"h:1",
                                       "node-1.example.org:65535",
                                       "10.0.0.1:7081",
                                       "[::1]:7081",
                                       "[fe80::1%eth0]:1",
                                       "under_score:1",
                                       "127.0.0.1:80",
                                       "0x:1"};
    static const char *const bad[] = {
        "",      "h",      "h:",        ":1",     "h:0",    "h:65536",  "h:1x", "h: 1",    "a b:1",
        "::1:1", "[::1:1", "0.0.0.0:1", "[::]:1", "h\"x:1", "h:00001x", "[]:1", "h:123456"};
    char longest[LIMIT_ADDRESS_BYTES + 2];
    const char *why;

    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_true(member_address_check(good[i], strlen(good[i]), &why));
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_false(member_address_check(bad[i], strlen(bad[i]), &why));
        assert_true(strlen(why) > 0);
    }
    memset(longest, 'h', sizeof longest);
    memcpy(longest + LIMIT_ADDRESS_BYTES - 2, ":1", 2);
    assert_true(member_address_check(longest, LIMIT_ADDRESS_BYTES, &why));
    memcpy(longest + LIMIT_ADDRESS_BYTES - 2, "h:1", 3);
    assert_false(member_address_check(longest, LIMIT_ADDRESS_BYTES + 1, &why));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, id_apply_begin, id_apply_drop)
    const struct CMUnitTest tests[] = {
        TEST(test_addition),       TEST(test_removal_is_for_good),
        TEST(test_given_up),       TEST(test_addition_called_off),
        TEST(test_a_member_moves), TEST(test_placements),
        TEST(test_cuts),           TEST(test_zone_names),
        TEST(test_rows),           TEST(test_load_refuses_damage),
        TEST(test_golden_bytes),   TEST(test_lengths),
        TEST(test_addresses),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
