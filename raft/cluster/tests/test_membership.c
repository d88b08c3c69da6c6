/*
 * test_membership.c - changes of the membership on replicas wired directly: asked on any node,
 * driven by the leader, carried on by the next one, given up.
 *
 * Thread: one.
 */
#include <stdio.h>
#include <string.h>

#include "src/tests/unit/test.h"
#include "raft/cluster/tests/requests_scene.h"

#define PATIENCE_MS 2000

/* Wait for the answer; its outcome. */
static enum member_outcome await_outcome(struct ring *ring, struct asked *asked)
{
    struct member_answer answer;
    uint8_t outcome;

    for (unsigned i = 0; asked->done == 0 && i < 4 * RING_CATCH_UP_MS; i++) {
        ring_run_ms(ring, 1);
    }
    assert_int_equal(asked->done, 1);
    assert_int_equal(asked->base.status, 0);
    assert_int_equal(member_answer_decode(asked->base.reply.data, asked->base.reply.len, &answer),
                     0);
    outcome = answer.outcome;
    asked_free(asked);
    return (enum member_outcome)outcome;
}

/* Ask through a node; the outcome. */
static enum member_outcome outcome_of(struct ring *ring, uint64_t via, enum member_ask_kind kind,
                                      uint64_t node_id, const char *address)
{
    struct asked asked;

    asked_member(&asked, kind, node_id, address);
    ask(ring, via, &asked, PATIENCE_MS);
    return await_outcome(ring, &asked);
}

static unsigned voters_of(struct ring *ring, uint64_t id)
{
    return configuration_voters(driver_configuration(&ring_node(ring, id)->replica.driver));
}

static const char *address_seen(struct ring *ring, uint64_t at, uint64_t id)
{
    const struct peers *peers = &ring_node(ring, at)->replica.peers;

    for (size_t i = 0; i < peers->count; i++) {
        if (peers->items[i].id == id) {
            return peers->items[i].address;
        }
    }
    return "none";
}

static void test_a_member_is_told_to_move(void **state)
{
    struct trio *t = *state;
    struct wire_statement said;
    struct configuration conf;
    struct buf statement = BUF_INIT;

    assert_int_equal(outcome_of(&t->ring, t->follower, MEMBER_ASK_MOVE, t->other, "moved:1"),
                     MEMBER_DONE);
    ring_run_ms(&t->ring, 200);
    assert_string_equal(address_seen(&t->ring, t->leader, t->other), "moved:1");
    assert_string_equal(address_seen(&t->ring, t->follower, t->other), "moved:1");
    peers_state(&ring_node(&t->ring, t->leader)->replica.peers.receiver, &statement);
    assert_int_equal(wire_statement_decode(statement.data, statement.len, &said), 0);
    assert_int_equal(configuration_decode(said.conf.data, said.conf.len, &conf), 0);
    assert_string_equal(configuration_find(&conf, t->other)->address, "moved:1");
    buf_free(&statement);
    for (unsigned i = 0; i <= LIMIT_MEMBERSHIP_REQUESTS; i++) { /* none that is over counts */
        assert_int_equal(outcome_of(&t->ring, t->leader, MEMBER_ASK_MOVE, t->other, "moved:1"),
                         MEMBER_DONE);
    }
    assert_int_equal(outcome_of(&t->ring, t->leader, MEMBER_ASK_MOVE, t->follower, "moved:1"),
                     MEMBER_ADDRESS_IN_USE);
    assert_int_equal(outcome_of(&t->ring, t->leader, MEMBER_ASK_ADD, 9, "moved:1"),
                     MEMBER_ADDRESS_IN_USE);
    assert_int_equal(outcome_of(&t->ring, t->leader, MEMBER_ASK_MOVE, 9, "h:9"), MEMBER_UNKNOWN);

    /* A wrong address of another one would leave no majority. */
    ring_crash(&t->ring, t->other);
    assert_int_equal(outcome_of(&t->ring, t->leader, MEMBER_ASK_MOVE, t->follower, "moved:2"),
                     MEMBER_NO_QUORUM);
    assert_int_equal(outcome_of(&t->ring, t->leader, MEMBER_ASK_MOVE, t->other, "moved:3"),
                     MEMBER_DONE);
}

/* It was started at the address of another one. Nobody says a configuration with one address twice:
 * that was an assertion, on every node and at each of its starts. */
static void test_a_member_that_claims_the_address_of_another(void **state)
{
    struct trio *t = *state;
    struct node_info info = {.levels = {1, 1}};
    struct asked asked = {0};

    assert_non_null(state_node(ring_node(&t->ring, t->leader)->replica.state, t->leader));
    info = *state_node(ring_node(&t->ring, t->leader)->replica.state, t->leader);
    memcpy(info.peer_address, "ring:2", sizeof "ring:2");
    if (t->leader == 2) {
        memcpy(info.peer_address, "ring:3", sizeof "ring:3");
    }
    asked_put(&asked, "", 1);
    asked.base.payload.len = 0;
    cluster_command_put(&asked.base.payload, COMMAND_NODE_INFO, &info);
    ask(&t->ring, t->leader, &asked, PATIENCE_MS);
    ring_run_ms(&t->ring, 500);
    assert_int_equal(asked.done, 1);
    assert_non_null(state_member_address(ring_node(&t->ring, t->leader)->replica.state, t->leader));
    for (uint64_t id = 1; id <= 3; id++) {
        struct wire_statement said;
        struct buf statement = BUF_INIT;

        peers_state(&ring_node(&t->ring, id)->replica.peers.receiver, &statement);
        assert_int_equal(wire_statement_decode(statement.data, statement.len, &said), 0);
        assert_true(said.conf.len > 0);
        buf_free(&statement);
    }
    asked_free(&asked);
}

static void test_follower_is_removed(void **state)
{
    struct trio *t = *state;
    struct rollback *seen;

    seen = &ring_node(&t->ring, t->leader)->replica.driver.peers.seen;
    assert_non_null(rollback_find(seen, t->follower));
    assert_int_equal(outcome_of(&t->ring, t->follower, MEMBER_ASK_REMOVE, t->follower, ""),
                     MEMBER_DONE);
    assert_null(rollback_find(seen, t->follower)); /* it never comes back */
    assert_non_null(rollback_find(seen, 6 - t->leader - t->follower));
    assert_int_equal(voters_of(&t->ring, t->leader), 2);
    assert_true(state_member_removed(ring_node(&t->ring, t->leader)->replica.state, t->follower));
    assert_int_equal(peers_admit(&ring_node(&t->ring, t->leader)->replica.peers, t->follower,
                                 1000 + t->follower),
                     ERR_REMOVED);
    assert_int_equal(outcome_of(&t->ring, t->leader, MEMBER_ASK_REMOVE, t->follower, ""),
                     MEMBER_DONE);
    assert_int_equal(outcome_of(&t->ring, t->leader, MEMBER_ASK_ADD, t->follower, "h:1"),
                     MEMBER_WAS_REMOVED);
}

/* Asked for, it is refused with words; but an entry may say so as well, of a leader that lies. */
static void test_an_address_that_is_there_already(void **state)
{
    struct trio *t = *state;

    assert_int_equal(
        driver_change(&ring_node(&t->ring, t->leader)->replica.driver, 7, "ring:2", ROLE_STANDBY),
        ERR_INVALID);
    assert_int_equal(outcome_of(&t->ring, t->leader, MEMBER_ASK_ADD, 7, "ring:2"),
                     MEMBER_ADDRESS_IN_USE);
}

static void test_leader_is_removed(void **state)
{
    RING ring = {0};
    uint64_t leader;
    uint64_t follower;
    uint64_t next;

    (void)state;
    ring_start(&ring, 3);
    leader = ring_elect(&ring);
    follower = ring_follower(&ring);
    assert_int_equal(outcome_of(&ring, follower, MEMBER_ASK_REMOVE, leader, ""), MEMBER_DONE);
    next = driver_leader(&ring_node(&ring, follower)->replica.driver);
    assert_true(next != leader && next != 0);
    assert_int_equal(voters_of(&ring, follower), 2);
}

static void test_leadership_moves(void **state)
{
    RING ring = {0};
    uint64_t leader;
    uint64_t follower;

    (void)state;
    ring_start(&ring, 3);
    leader = ring_elect(&ring);
    follower = ring_follower(&ring);
    assert_int_equal(outcome_of(&ring, leader, MEMBER_ASK_LEAD, leader, ""), MEMBER_DONE);
    assert_int_equal(outcome_of(&ring, leader, MEMBER_ASK_LEAD, follower, ""), MEMBER_DONE);
    assert_int_equal(driver_leader(&ring_node(&ring, leader)->replica.driver), follower);
    assert_int_equal(outcome_of(&ring, leader, MEMBER_ASK_LEAD, 7, ""), MEMBER_UNKNOWN);
}

/* What is asked of a leader that hands over waits at the one that comes. */
static void test_requests_wait_while_leadership_moves(void **state)
{
    RING ring = {0};
    struct asked lead;
    struct asked put;
    struct requests *requests;
    uint64_t leader;
    uint64_t next;

    (void)state;
    ring_start(&ring, 3);
    leader = ring_elect(&ring);
    next = leader % 3 + 1;
    requests = &ring_node(&ring, leader)->replica.requests;
    ring_run_ms(&ring, 100);
    ring.lost[FRAME_RAFT] = true; /* the next one does not hear that it is to lead */
    asked_member(&lead, MEMBER_ASK_LEAD, next, "");
    ask(&ring, leader, &lead, PATIENCE_MS);
    ring_settle(&ring);
    asked_put(&put, "a", 10);
    ask(&ring, leader, &put, PATIENCE_MS);
    ring_settle(&ring);
    assert_true(requests->serving.holding);
    assert_int_equal(entry_log_last(&ring_node(&ring, leader)->replica.driver.log),
                     ring_node(&ring, leader)->replica.driver.commit);
    ring.lost[FRAME_RAFT] = false;
    for (unsigned i = 0; put.done == 0 && i < PATIENCE_MS; i++) {
        ring_run_ms(&ring, 1);
    }
    assert_int_equal(put.done, 1);
    assert_int_equal(put.base.status, 0);
    ring_run_ms(&ring, PATIENCE_MS);
    assert_false(requests->serving.holding);
    asked_free(&lead);
    asked_free(&put);
}

/* Which nobody took: requests wait for it, so the leader serves for a while before the next try. */
static void test_a_handover_that_failed_pauses(void **state)
{
    struct trio *t = *state;
    const struct handover *handover = &ring_node(&t->ring, t->leader)->replica.membership.handover;
    struct asked lead;
    struct asked put;
    unsigned ms = 0;

    ring_run_ms(&t->ring, 100);
    ring_pause(&t->ring, t->other);
    asked_member(&lead, MEMBER_ASK_LEAD, t->other, "");
    ask(&t->ring, t->leader, &lead, 5 * RING_ELECTION_MS);
    for (; handover->failed == 0; ms++) {
        assert_in_range(ms, 0, 3 * RING_ELECTION_MS + 10);
        ring_run_ms(&t->ring, 1);
    }
    asked_put(&put, "a", 10);
    ask(&t->ring, t->leader, &put, PATIENCE_MS);
    for (ms = 0; ms < RING_ELECTION_MS - 10; ms++) {
        assert_false(handover->active);
        ring_run_ms(&t->ring, 1);
    }
    assert_int_equal(put.done, 1);
    assert_int_equal(put.base.status, 0);
    for (ms = 0; !handover->active; ms++) {
        assert_in_range(ms, 0, RING_ELECTION_MS);
        ring_run_ms(&t->ring, 1);
    }
    ring_resume(&t->ring, t->other);
    ring_run_ms(&t->ring, 5 * RING_ELECTION_MS);
    assert_int_equal(lead.done, 1);
    asked_free(&lead);
    asked_free(&put);
}

/* A voter that is removed gives its vote back once all of the log is committed. What is asked
 * meanwhile waits for that, else there would be no such moment under load. */
static void test_requests_wait_while_a_vote_is_taken(void **state)
{
    struct trio *t = *state;
    struct ring_node *follower = ring_node(&t->ring, t->follower);
    const struct driver *leader = &ring_node(&t->ring, t->leader)->replica.driver;
    struct asked puts[2];
    struct asked wish;
    uint64_t last;

    ring_node(&t->ring, t->other)->disk_held = true;
    follower->disk_held = true;
    asked_member(&wish, MEMBER_ASK_REMOVE, t->other, "");
    ask(&t->ring, t->leader, &wish, PATIENCE_MS);
    ring_settle(&t->ring);
    asked_put(&puts[0], "a", 10);
    ask(&t->ring, t->leader, &puts[0], PATIENCE_MS);
    ring_settle(&t->ring);
    last = entry_log_last(&leader->log);
    while (state_member_change(ring_node(&t->ring, t->leader)->replica.state) == NULL) {
        assert_true(fake_disk_step(&follower->disk));
        ring_settle(&t->ring);
    }
    assert_true(leader->commit < last);
    asked_put(&puts[1], "b", 10);
    ask(&t->ring, t->leader, &puts[1], PATIENCE_MS);
    ring_run_ms(&t->ring, RING_ELECTION_MS / 2);
    assert_int_equal(entry_log_last(&leader->log), last);
    ring_node(&t->ring, t->other)->disk_held = false;
    follower->disk_held = false;
    ring_member_done(&t->ring, &wish);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(puts[i].done, 1);
        assert_int_equal(puts[i].base.status, 0);
        asked_free(&puts[i]);
    }
}

static void test_refusals(void **state)
{
    RING ring = {0};
    const struct conf_member *server;
    uint64_t leader;
    uint64_t follower;

    (void)state;
    ring_start(&ring, 3);
    leader = ring_elect(&ring);
    follower = ring_follower(&ring);
    server = driver_member(&ring_node(&ring, leader)->replica.driver, follower);
    assert_int_equal(outcome_of(&ring, leader, MEMBER_ASK_REMOVE, 7, ""), MEMBER_UNKNOWN);
    assert_int_equal(outcome_of(&ring, leader, MEMBER_ASK_ADD, 7, server->address),
                     MEMBER_ADDRESS_IN_USE);
    assert_int_equal(outcome_of(&ring, leader, MEMBER_ASK_ADD, follower, "h:1"), MEMBER_EXISTS);
    assert_int_equal(outcome_of(&ring, leader, MEMBER_ASK_ADD, 7, "h:1"), MEMBER_PENDING);
    assert_int_equal(outcome_of(&ring, follower, MEMBER_ASK_ADD, 6, "h:2"), MEMBER_IN_PROGRESS);
    assert_int_equal(outcome_of(&ring, follower, MEMBER_ASK_REMOVE, leader, ""),
                     MEMBER_IN_PROGRESS);
    assert_int_equal(outcome_of(&ring, follower, MEMBER_ASK_LEAD, 7, ""), MEMBER_NOT_VOTER);
}

/* The next leader finds the change in its state, and calls it off when it is told to. */
static void test_change_outlives_its_leader(void **state)
{
    enum member_outcome outcome = MEMBER_PENDING;
    RING ring = {0};
    uint64_t leader;
    uint64_t next;

    (void)state;
    ring_start(&ring, 3);
    leader = ring_elect(&ring);
    assert_int_equal(outcome_of(&ring, leader, MEMBER_ASK_ADD, 7, "h:1"), MEMBER_PENDING);
    ring_crash(&ring, leader);
    next = ring_elect(&ring);
    assert_non_null(state_member_change(ring_node(&ring, next)->replica.state));
    assert_non_null(driver_member(&ring_node(&ring, next)->replica.driver, 7));
    for (unsigned i = 0; i < 5 && outcome != MEMBER_DONE; i++) { /* the core watches it catch up */
        outcome = outcome_of(&ring, next, MEMBER_ASK_REMOVE, 7, "");
    }
    assert_int_equal(outcome, MEMBER_DONE);
    assert_null(state_member_change(ring_node(&ring, next)->replica.state));
    assert_null(driver_member(&ring_node(&ring, next)->replica.driver, 7));
    ring_restart(&ring, leader);
    ring_run_ms(&ring, 500);
    assert_true(state_member_removed(ring_node(&ring, leader)->replica.state, 7));
}

static void test_given_up(void **state)
{
    RING ring = {0};
    const struct member_change *change;
    struct id_health *health;
    uint64_t leader;

    (void)state;
    ring_start(&ring, 3);
    leader = ring_elect(&ring);
    health = &ring_node(&ring, leader)->ids.health.seen;
    assert_int_equal(outcome_of(&ring, leader, MEMBER_ASK_ADD, 7, "h:1"), MEMBER_PENDING);
    assert_true(atomic_load(&health->member_change));
    ring_run_ms(&ring, RING_CATCH_UP_MS + 500);
    change = state_member_change(ring_node(&ring, leader)->replica.state);
    assert_non_null(change);
    assert_true(change->given_up);
    assert_false(atomic_load(&health->member_change));
    assert_int_equal(driver_member(&ring_node(&ring, leader)->replica.driver, 7)->role,
                     ROLE_STANDBY);
    /* In nobody's way. */
    assert_int_equal(outcome_of(&ring, leader, MEMBER_ASK_REMOVE, ring_follower(&ring), ""),
                     MEMBER_DONE);
}

/* A removal that would leave no majority is given up, too: a voter dies before it begins. Its
 * client gets that answer, and the removal does not begin anew. A later request begins it anew. */
static void test_a_removal_is_given_up(void **state)
{
    struct trio *t = *state;
    struct asked wish;

    for (uint64_t id = 1; id <= 3; id++) {
        ring_node(&t->ring, id)->disk_held = true;
    }
    asked_member(&wish, MEMBER_ASK_REMOVE, t->other, "");
    ask(&t->ring, t->leader, &wish, 3 * RING_CATCH_UP_MS);
    ring_run_ms(&t->ring, 10);
    ring_crash(&t->ring, t->follower);
    for (uint64_t id = 1; id <= 3; id++) {
        ring_node(&t->ring, id)->disk_held = false;
    }
    assert_int_equal(await_outcome(&t->ring, &wish), MEMBER_GIVEN_UP);
    assert_int_equal(voters_of(&t->ring, t->leader), 3);
    ring_restart(&t->ring, t->follower);
    ring_run_ms(&t->ring, 500);
    assert_int_equal(outcome_of(&t->ring, t->leader, MEMBER_ASK_REMOVE, t->other, ""), MEMBER_DONE);
}

/* Make a tag through a node; the status. */
static int status_of_put(struct ring *ring, uint64_t via, const char *tag)
{
    struct asked asked;
    int status;

    asked_put(&asked, tag, 10);
    ask(ring, via, &asked, PATIENCE_MS);
    for (unsigned i = 0; asked.done == 0 && i < 2 * PATIENCE_MS; i++) {
        ring_run_ms(ring, 1);
    }
    assert_int_equal(asked.done, 1);
    status = asked.base.status;
    asked_free(&asked);
    return status;
}

static bool is_registered(struct ring *ring, uint64_t on, uint64_t id)
{
    return state_node(ring_node(ring, on)->replica.state, id) != NULL;
}

/*
 * Node 3 had caught up when its change was given up, since it did not register. The log went on
 * without it: a second change makes it no voter before it has caught up again.
 */
static void test_a_catch_up_of_an_earlier_change_does_not_count(void **state)
{
    RING ring = {.joiners = 1};
    struct membership *membership;
    struct asked wish;
    uint64_t leader;

    (void)state;
    ring_start(&ring, 3);
    leader = ring_elect(&ring);
    membership = &ring_node(&ring, leader)->replica.membership;
    ring.lost[FRAME_REQUEST] = true;
    asked_member(&wish, MEMBER_ASK_ADD, 3, "ring:3");
    ask(&ring, leader, &wish, 3 * RING_CATCH_UP_MS);
    for (unsigned i = 0; membership->caught_up != 3 && i < 1000; i++) {
        ring_run_ms(&ring, 5);
    }
    assert_int_equal(membership->caught_up, 3);
    ring_crash(&ring, 3);
    ring_run_ms(&ring, RING_CATCH_UP_MS + 500);
    assert_true(state_member_change(ring_node(&ring, leader)->replica.state)->given_up);
    asked_free(&wish);

    ring.lost[FRAME_REQUEST] = false;
    ring_restart(&ring, 3);
    for (unsigned i = 0; !is_registered(&ring, leader, 3) && i < 1000; i++) {
        ring_run_ms(&ring, 5);
    }
    assert_true(is_registered(&ring, leader, 3));
    ring.cut[leader][3] = true; /* it is heard, and hears nothing */
    for (unsigned i = 0; i < 20; i++) {
        assert_int_equal(status_of_put(&ring, leader, "a"), 0);
    }
    asked_member(&wish, MEMBER_ASK_ADD, 3, "ring:3");
    ask(&ring, leader, &wish, PATIENCE_MS);
    ring_run_ms(&ring, 300);
    assert_int_equal(ring_role(&ring, leader, 3), ROLE_STANDBY);
    ring.cut[leader][3] = false;
    ring_member_done(&ring, &wish);
    assert_int_equal(ring_role(&ring, leader, 3), ROLE_VOTER);
}

static void test_no_quorum(void **state)
{
    RING ring = {0};
    uint64_t leader;
    uint64_t follower;
    uint64_t other;

    (void)state;
    ring_start(&ring, 3);
    leader = ring_elect(&ring);
    follower = ring_follower(&ring);
    other = 6 - leader - follower;
    ring_crash(&ring, other);
    assert_int_equal(outcome_of(&ring, leader, MEMBER_ASK_REMOVE, follower, ""), MEMBER_NO_QUORUM);
    assert_int_equal(outcome_of(&ring, leader, MEMBER_ASK_REMOVE, other, ""), MEMBER_DONE);
    assert_int_equal(outcome_of(&ring, leader, MEMBER_ASK_REMOVE, follower, ""), MEMBER_DONE);
    assert_int_equal(outcome_of(&ring, leader, MEMBER_ASK_REMOVE, leader, ""), MEMBER_LAST_VOTER);
}

/* A standby that can be reached does not stand for a voter that cannot. */
static void test_a_standby_is_no_part_of_a_quorum(void **state)
{
    RING ring = {0};
    uint64_t followers[3];
    uint64_t leader;
    unsigned count = 0;

    (void)state;
    ring_start(&ring, 4);
    leader = ring_elect(&ring);
    for (uint64_t id = 1; id <= 4; id++) {
        if (id != leader) {
            followers[count++] = id;
        }
    }
    assert_int_equal(
        driver_change(&ring_node(&ring, leader)->replica.driver, followers[0], NULL, ROLE_STANDBY),
        0);
    ring_run_ms(&ring, 200);
    assert_int_equal(voters_of(&ring, leader), 3);
    ring_crash(&ring, followers[1]);
    ring_run_ms(&ring, 50);
    assert_int_equal(outcome_of(&ring, leader, MEMBER_ASK_REMOVE, followers[2], ""),
                     MEMBER_NO_QUORUM);
    assert_int_equal(voters_of(&ring, leader), 3);
    assert_int_equal(outcome_of(&ring, leader, MEMBER_ASK_REMOVE, followers[0], ""), MEMBER_DONE);
}

static void test_leader_without_room_gives_way(void **state)
{
    RING ring = {0};
    uint64_t first;
    uint64_t term;

    (void)state;
    ring_start(&ring, 3);
    first = ring_elect(&ring);
    ring_node(&ring, first)->disk.low = true;
    assert_int_equal(status_of_put(&ring, first, "a"), 0);
    assert_true(ring_elect(&ring) != first);
    assert_int_equal(status_of_put(&ring, first, "b"), 0);

    /* Nobody has room: that is said, and leadership does not go round and round. */
    for (uint64_t id = 1; id <= 3; id++) {
        ring_node(&ring, id)->disk.low = true;
    }
    ring_run_ms(&ring, 1000);
    term = driver_term(&ring_node(&ring, first)->replica.driver);
    ring_run_ms(&ring, 5000);
    assert_int_equal(driver_term(&ring_node(&ring, first)->replica.driver), term);
    assert_int_equal(status_of_put(&ring, first, "c"), ERR_DISK_FULL);

    for (uint64_t id = 1; id <= 3; id++) {
        ring_node(&ring, id)->disk.low = false;
    }
    assert_int_equal(status_of_put(&ring, first, "d"), 0);

    /* Each time anew: a pause of before does not count once there was room. */
    for (unsigned i = 0; i < 2; i++) {
        first = ring_elect(&ring);
        ring_run_ms(&ring, RING_ELECTION_MS); /* since it was handed over */
        ring_node(&ring, first)->disk.low = true;
        ring_run_ms(&ring, 1000);
        assert_int_not_equal(ring_elect(&ring), first);
        ring_node(&ring, first)->disk.low = false;
        ring_run_ms(&ring, 1000);
        assert_int_equal(outcome_of(&ring, first, MEMBER_ASK_LEAD, first, ""), MEMBER_DONE);
    }
}

/* No node has room: a change of the members is refused, at once, and nothing is left of it. */
static void test_changes_without_room(void **state)
{
    const struct {
        enum member_ask_kind kind;
        uint64_t node_id;
        const char *address;
    } asks[] = {
        {MEMBER_ASK_REMOVE, 3, ""}, {MEMBER_ASK_ADD, 4, "ring:4"}, {MEMBER_ASK_MOVE, 3, "moved:3"}};
    RING ring = {0};

    (void)state;
    ring_start(&ring, 3);
    (void)ring_elect(&ring);
    for (uint64_t id = 1; id <= 3; id++) {
        ring_node(&ring, id)->disk.low = true;
    }
    ring_run_ms(&ring, 1000);
    for (size_t i = 0; i < sizeof asks / sizeof asks[0]; i++) {
        struct asked asked;

        asked_member(&asked, asks[i].kind, asks[i].node_id, asks[i].address);
        ask(&ring, 1, &asked, PATIENCE_MS);
        ring_run_ms(&ring, 100);
        assert_int_equal(asked.done, 1);
        assert_int_equal(asked.base.status, ERR_DISK_FULL);
        asked_free(&asked);
    }
    for (uint64_t id = 1; id <= 3; id++) {
        ring_node(&ring, id)->disk.low = false;
    }
    ring_run_ms(&ring, 1000);
    assert_int_equal(voters_of(&ring, 1), 3);
    assert_int_equal(outcome_of(&ring, 1, MEMBER_ASK_REMOVE, 3, ""), MEMBER_DONE);
}

static void test_so_many_wait(void **state)
{
    RING ring = {0};
    struct asked asked[LIMIT_MEMBERSHIP_REQUESTS + 1];
    uint64_t follower;

    (void)state;
    ring_start(&ring, 3);
    (void)ring_elect(&ring);
    follower = ring_follower(&ring);
    ring_isolate(&ring, follower, true);
    for (unsigned i = 0; i <= LIMIT_MEMBERSHIP_REQUESTS; i++) {
        asked_member(&asked[i], MEMBER_ASK_MOVE, 1, "moved:1");
        ask(&ring, follower, &asked[i], PATIENCE_MS);
        ring_settle(&ring);
        assert_int_equal(asked[i].done, i == LIMIT_MEMBERSHIP_REQUESTS);
    }
    assert_int_equal(asked[LIMIT_MEMBERSHIP_REQUESTS].base.status, ERR_OVERLOADED);
    ring_run_ms(&ring, PATIENCE_MS + 100);
    for (unsigned i = 0; i <= LIMIT_MEMBERSHIP_REQUESTS; i++) {
        assert_int_equal(asked[i].done, 1);
        asked_free(&asked[i]);
    }
}

static void test_the_most_members(void **state)
{
    RING ring = {0};
    struct driver *driver;

    (void)state;
    ring_start(&ring, 1);
    (void)ring_elect(&ring);
    driver = &ring_node(&ring, 1)->replica.driver;
    for (uint64_t id = 2; id <= LIMIT_NODES; id++) {
        char address[16];

        (void)snprintf(address, sizeof address, "h:%u", (unsigned)id);
        assert_int_equal(driver_change(driver, id, address, ROLE_STANDBY), 0);
        ring_run_ms(&ring, 100);
        assert_int_equal(ring_role(&ring, 1, id), ROLE_STANDBY);
    }
    assert_int_equal(outcome_of(&ring, 1, MEMBER_ASK_ADD, LIMIT_NODES + 1, "h:99"),
                     MEMBER_TOO_MANY);
    assert_null(state_member_change(ring_node(&ring, 1)->replica.state));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TRIO_TEST(test_a_member_is_told_to_move),
        TRIO_TEST(test_a_member_that_claims_the_address_of_another),
        TRIO_TEST(test_follower_is_removed),
        cmocka_unit_test(test_leader_is_removed),
        TRIO_TEST(test_an_address_that_is_there_already),
        cmocka_unit_test(test_leadership_moves),
        cmocka_unit_test(test_leader_without_room_gives_way),
        cmocka_unit_test(test_the_most_members),
        cmocka_unit_test(test_changes_without_room),
        cmocka_unit_test(test_so_many_wait),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_given_up),
        TRIO_TEST(test_a_handover_that_failed_pauses),
        TRIO_TEST(test_requests_wait_while_a_vote_is_taken),
        TRIO_TEST(test_a_removal_is_given_up),
        cmocka_unit_test(test_a_catch_up_of_an_earlier_change_does_not_count),
        cmocka_unit_test(test_no_quorum),
        cmocka_unit_test(test_a_standby_is_no_part_of_a_quorum),
        cmocka_unit_test(test_requests_wait_while_leadership_moves),
        cmocka_unit_test(test_change_outlives_its_leader),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
