/*
 * test_strict_order.c - strict ids while leadership changes: batches under way at each change,
 * proposals of an old term, a snapshot on the node that leads next, leaders that are stopped or cut
 * off. In each case ids rise, none is missing, and each request is answered once.
 *
 * Thread: one.
 */
#include "src/tests/unit/test.h"
#include "raft/tests/raft_strict.h"
#include "src/id/codec/command.h"

#define PATIENCE_MS 8000
#define CHANGES_MAX 60
#define NODES 3

static uint64_t start(struct ring *ring)
{
    uint64_t leader;

    ring_start(ring, 3);
    leader = ring_elect(ring);
    ring_run_ms(ring, 100);
    strict_mode(ring, leader, "a", TAG_MODE_STRICT);
    ring_run_ms(ring, 100);
    return leader;
}

/* Every node has the same state, and max_id is the end of what was given. */
static void expect_end(struct ring *ring, uint64_t end)
{
    ring_run_ms(ring, 500);
    for (uint64_t id = 1; id <= ring->count; id++) {
        assert_int_equal(ring_row(ring, id, "a")->max_id, end);
        assert_int_equal(ring_node(ring, id)->failed_count, 0);
        assert_int_equal(ring_node(ring, id)->replica.requests.count,
                         ring_node(ring, id)->replica.requests.tidying.in_flight);
    }
}

/* --- A, B, A --- */

/* One request a node, on its way when the leader is cut off. */
static void ask_all(struct ring *ring, struct asked asked[NODES])
{
    for (uint64_t id = 1; id <= NODES; id++) {
        strict_ask(ring, id, &asked[id - 1], "a", (uint32_t)id, NULL, PATIENCE_MS);
    }
}

static void wait_all(struct ring *ring, struct asked asked[NODES], struct strict_ranges *ranges)
{
    struct asked *const waiting[NODES] = {&asked[0], &asked[1], &asked[2]};

    strict_wait(ring, waiting, NODES);
    for (uint32_t id = 1; id <= NODES; id++) {
        strict_note(ranges, &asked[id - 1], id);
        asked_free(&asked[id - 1]);
    }
}

/* Shows P3-aba, lesson-aba. */
static void test_strict_a_b_a_leadership(void **state)
{
    static struct strict_ranges ranges;
    RING ring = {0};
    uint64_t first = start(&ring);
    uint64_t leader = first;
    uint64_t highest = 0;
    unsigned returns = 0;
    struct asked asked[NODES];

    (void)state;
    ranges.count = 0;
    for (unsigned i = 0; returns < 2 || i < 8; i++) {
        uint64_t before = leader;

        assert_true(i < CHANGES_MAX);
        ask_all(&ring, asked);
        if (i % 2 == 0) { /* the requests of the others reach the old leader's log */
            (void)replica_turn(&ring_node(&ring, leader)->replica);
            ring.cut[leader][1] = ring.cut[leader][2] = ring.cut[leader][3] = true;
            ring_settle(&ring);
        }
        leader = strict_depose(&ring, leader);
        returns += leader == first && before != first;
        wait_all(&ring, asked, &ranges);
        for (size_t k = ranges.count - NODES; k < ranges.count; k++) {
            assert_true(ranges.items[k].first > highest); /* of what was known before */
        }
        for (size_t k = ranges.count - NODES; k < ranges.count; k++) {
            uint64_t last = ranges.items[k].first + ranges.items[k].count - 1;

            highest = last > highest ? last : highest;
        }
    }
    strict_expect_dense(&ranges, 1);
    expect_end(&ring, highest + 1);
}

/* --- proposals of an old term --- */

/* The old leader's entry is on a majority when it is cut off, without knowing: it commits under the
 * next leader, to which the node that asked has sent its batch again. */
/* Shows P3-late. */
static void test_strict_proposal_of_old_term_commits_late(void **state)
{
    RING ring = {0};
    uint64_t old = start(&ring);
    uint64_t asking = ring_follower(&ring);
    uint64_t next = 6 - old - asking;
    struct asked asked;
    struct asked *waiting = &asked;
    size_t sent = ring.passed[FRAME_REQUEST];

    (void)state;
    assert_int_equal(strict_take(&ring, asking, "a", 5, NULL), 1);
    ring.cut[next][old] = true; /* its acknowledgement is lost */
    ring.cut[old][asking] = true;
    sent = ring.passed[FRAME_REQUEST];
    strict_ask(&ring, asking, &asked, "a", 3, NULL, PATIENCE_MS);
    ring_settle(&ring);
    assert_int_equal(ring.passed[FRAME_REQUEST], sent + 1);
    assert_int_equal(asked.done, 0);
    assert_int_equal(entry_log_last(&ring_node(&ring, next)->replica.driver.log),
                     entry_log_last(&ring_node(&ring, old)->replica.driver.log));
    assert_int_equal(ring_row(&ring, next, "a")->max_id, 6); /* there, and not applied */
    assert_int_equal(strict_depose(&ring, old), next); /* its log is longer: nobody else can */
    strict_wait(&ring, &waiting, 1);
    assert_true(ring.passed[FRAME_REQUEST] >= sent + 2);
    assert_int_equal(strict_first(&asked), 6);
    asked_free(&asked);
    expect_end(&ring, 9); /* applied once, though it is in the log twice */
    assert_int_equal(strict_take(&ring, old, "a", 1, NULL), 9);
}

/* The old leader's entry is on no other disk: what the next leader was sent again is the one that
 * counts, and the old one goes. */
/* Shows P3-late. */
static void test_strict_proposal_of_old_term_is_lost(void **state)
{
    RING ring = {0};
    uint64_t old = start(&ring);
    uint64_t asking = ring_follower(&ring);
    struct asked asked;
    struct asked own;
    struct asked *const waiting[2] = {&asked, &own};
    static struct strict_ranges ranges;

    (void)state;
    ranges.count = 0;
    ring.cut[old][1] = ring.cut[old][2] = ring.cut[old][3] = true;
    strict_ask(&ring, asking, &asked, "a", 3, NULL, PATIENCE_MS);
    strict_ask(&ring, old, &own, "a", 4, NULL, PATIENCE_MS);
    ring_settle(&ring);
    assert_int_equal(asked.done + own.done, 0);
    (void)strict_depose(&ring, old);
    strict_wait(&ring, waiting, 2);
    strict_note(&ranges, &asked, 3);
    strict_note(&ranges, &own, 4);
    strict_expect_dense(&ranges, 1);
    asked_free(&asked);
    asked_free(&own);
    expect_end(&ring, 8);
}

/* The frame with a batch lies in the net until long after the batch was sent again and answered. */
static void late_frame(unsigned batches_between)
{
    RING ring = {0};
    uint64_t leader = start(&ring);
    uint64_t asking = ring_follower(&ring);
    struct fake_frame *late;
    struct asked asked;
    struct asked *waiting = &asked;
    uint64_t end = 4;

    strict_ask(&ring, asking, &asked, "a", 3, NULL, PATIENCE_MS);
    late = fake_net_take(&ring_node(&ring, asking)->net);
    while (late->type != FRAME_REQUEST) {
        fake_frame_free(late);
        late = fake_net_take(&ring_node(&ring, asking)->net);
    }
    strict_wait(&ring, &waiting, 1); /* sent again: no answer came */
    assert_int_equal(strict_first(&asked), 1);
    asked_free(&asked);
    for (unsigned i = 0; i < batches_between; i++) {
        assert_int_equal(strict_take(&ring, asking, "a", 1, NULL), end++);
    }
    assert_true(replica_receive(&ring_node(&ring, leader)->replica.peers.receiver, asking,
                                FRAME_REQUEST, late->payload.data, late->payload.len));
    fake_frame_free(late);
    ring_run_ms(&ring, 100);
    assert_int_equal(ring.refused, 0);
    expect_end(&ring, end);
    assert_int_equal(strict_take(&ring, leader, "a", 1, NULL), end);
}

/* Shows P3-late. */
static void test_strict_proposal_that_arrives_late(void **state)
{
    (void)state;
    late_frame(0);
    late_frame(LIMIT_STRICT_BATCHES - 1); /* its answer is still known */
    late_frame(LIMIT_STRICT_BATCHES);     /* and here it is not: nobody waits for it */
    late_frame(3 * LIMIT_STRICT_BATCHES);
}

/* --- a snapshot --- */

/* Leave `behind` without what is going on until the others' logs do not reach back to it. */
static void fall_behind(struct ring *ring, uint64_t behind, uint64_t leader)
{
    uint64_t last = entry_log_last(&ring_node(ring, behind)->replica.driver.log);

    for (unsigned i = 0; ring_node(ring, leader)->replica.driver.log.first <= last + 1; i++) {
        assert_true(i < 1000);
        ring_make(ring, leader, "other", 10 + i);
    }
}

/* Leadership goes from one node to another at once. */
static void hand_over(struct ring *ring, uint64_t from, uint64_t to)
{
    uint64_t third = 6 - from - to;

    ring_node(ring, from)->net.down[third] = true; /* so that only one can follow */
    for (unsigned i = 0; !replica_transfer(&ring_node(ring, from)->replica); i++) {
        assert_true(i < 1000);
        ring_run_ms(ring, 5);
    }
    ring_crash(ring, from);
    assert_int_equal(ring_elect(ring), to);
}

/* Answers of batches and ids of keys came with the snapshot: what the new leader is sent again was
 * applied before it heard of it. */
/* Shows P3-snapshot, lesson-install. */
static void test_strict_snapshot_installed_on_node_that_leads_at_once(void **state)
{
    RING ring = {.snapshot_entries = 20, .keeps_time = true};
    uint64_t leader = start(&ring);
    uint64_t behind = ring_follower(&ring);
    uint64_t asking = 6 - leader - behind;
    struct asked asked;
    struct asked keyed;
    struct asked *const waiting[2] = {&asked, &keyed};

    (void)state;
    ring_run_ms(&ring, 2000); /* the log gets its time, which keys need */
    assert_int_equal(strict_take(&ring, leader, "a", 7, "first"), 1);
    ring_isolate(&ring, behind, true);
    ring.lost[FRAME_REPLY] = true;
    strict_ask(&ring, asking, &asked, "a", 3, NULL, PATIENCE_MS);
    strict_ask(&ring, asking, &keyed, "a", 4, "second", PATIENCE_MS);
    ring_settle(&ring);
    assert_int_equal(ring_row(&ring, leader, "a")->max_id, 15); /* applied, and nobody was told */
    assert_int_equal(asked.done + keyed.done, 0);
    fall_behind(&ring, behind, leader);
    ring_isolate(&ring, behind, false);
    for (unsigned i = 0; ring_node(&ring, behind)->installed_count == 0; i++) {
        assert_true(i < 1000);
        ring_run_ms(&ring, 5);
    }
    assert_int_equal(asked.done + keyed.done, 0);
    hand_over(&ring, leader, behind);
    ring.lost[FRAME_REPLY] = false;
    strict_wait(&ring, waiting, 2);
    assert_int_equal(strict_first(&asked), 8);
    assert_int_equal(strict_first(&keyed), 11);
    asked_free(&asked);
    asked_free(&keyed);
    assert_int_equal(ring_row(&ring, behind, "a")->max_id, 15);
    assert_int_equal(strict_take(&ring, behind, "a", 7, "first"), 1);
    assert_int_equal(strict_take(&ring, asking, "a", 4, "second"), 11);
    assert_int_equal(strict_take(&ring, behind, "a", 1, NULL), 15);
    ring_restart(&ring, leader);
    ring_run_ms(&ring, 500);
    assert_int_equal(strict_take(&ring, leader, "a", 4, "second"), 11);
    expect_end(&ring, 16);
}

/* --- a leader that is stopped, or cut off --- */

/* Shows lesson-old-leader. */
static void test_strict_leader_stopped_and_resumed(void **state)
{
    static struct strict_ranges ranges;
    RING ring = {0};
    uint64_t old = start(&ring);
    uint64_t other = ring_follower(&ring);
    struct asked hasty;
    struct asked patient;
    struct asked there;
    struct asked *waiting[2] = {&there, &patient};

    (void)state;
    ranges.count = 0;
    strict_prepare(&hasty, "a", 50, NULL);
    hasty.base.deadline_ms = ring.clock.now_ms + 1000;
    id_service_submit(&ring_node(&ring, old)->ids, &hasty.base); /* both in one batch */
    strict_ask(&ring, old, &patient, "a", 2, NULL, PATIENCE_MS);
    ring_node(&ring, old)->disk_held = true;
    fake_net_clear(&ring_node(&ring, old)->net); /* stopped before anything left it */
    ring_pause(&ring, old);
    strict_ask(&ring, other, &there, "a", 4, NULL, PATIENCE_MS);
    strict_wait(&ring, waiting, 1);
    assert_int_equal(strict_first(&there), 1);
    strict_note(&ranges, &there, 4);
    ring_run_ms(&ring, 5000);
    assert_int_equal(hasty.done + patient.done, 0);
    ring_node(&ring, old)->disk_held = false;
    ring_resume(&ring, old);
    strict_wait(&ring, &waiting[1], 1);
    assert_int_equal(hasty.done, 1);
    assert_true(hasty.base.status == ERR_TIMEOUT || hasty.base.status == ERR_NO_LEADER);
    assert_int_equal(hasty.base.reply.len, 0);
    assert_true(strict_first(&patient) > 4); /* and never what it had in mind when it was stopped */
    strict_note(&ranges, &patient, 2);
    asked_free(&hasty);
    asked_free(&patient);
    asked_free(&there);
    /* The batch brought the hasty one's ids as well. */
    ring_run_ms(&ring, 500);
    assert_int_equal(strict_counts(ring_node(&ring, old)->ids.strict)->burnt, 50);
    assert_int_equal(ring_node(&ring, old)->ids.health.seen.burnt[ID_BURN_STRICT], 50);
    expect_end(&ring, 1 + 4 + 50 + 2);
}

/* Clients reach the leader, but it reaches nobody. What they ask then is answered when the links
 * are back, above all that was known before they asked, or not at all. */
/* Shows P3-leader. */
static void test_strict_leader_cut_off_from_its_peers(void **state)
{
    RING ring = {0};
    uint64_t old = start(&ring);
    uint64_t other = ring_follower(&ring);
    struct asked before;
    struct asked hasty;
    struct asked after;
    struct asked *const waiting[2] = {&before, &after};
    uint64_t known;

    (void)state;
    assert_int_equal(strict_take(&ring, old, "a", 1, NULL), 1);
    ring_isolate(&ring, old, true);
    strict_ask(&ring, old, &before, "a", 1, NULL, PATIENCE_MS);
    strict_ask(&ring, old, &hasty, "a", 1, NULL, 300);
    ring_run_ms(&ring, 300);
    assert_int_equal(before.done, 0);
    assert_int_equal(hasty.done, 1);
    assert_true(hasty.base.status == ERR_TIMEOUT || hasty.base.status == ERR_NO_LEADER);
    ring_run_ms(&ring, 3000);
    assert_int_equal(before.done, 0);
    known = strict_take(&ring, other, "a", 1, NULL);
    assert_true(known >= 2);
    strict_ask(&ring, old, &after, "a", 1, NULL, PATIENCE_MS);
    ring_run_ms(&ring, 500);
    assert_int_equal(before.done + after.done, 0);
    ring_isolate(&ring, old, false);
    strict_wait(&ring, waiting, 2);
    assert_true(strict_first(&before) != known);
    assert_true(strict_first(&after) > known);
    asked_free(&before);
    asked_free(&hasty);
    asked_free(&after);
    ring_run_ms(&ring, 500);
    known = ring_row(&ring, other, "a")->max_id;
    assert_true(known == 5 || known == 6); /* the hasty one's may be burnt */
    assert_int_equal(strict_take(&ring, other, "a", 1, NULL), known);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_strict_a_b_a_leadership),
        cmocka_unit_test(test_strict_proposal_of_old_term_commits_late),
        cmocka_unit_test(test_strict_proposal_of_old_term_is_lost),
        cmocka_unit_test(test_strict_proposal_that_arrives_late),
        cmocka_unit_test(test_strict_snapshot_installed_on_node_that_leads_at_once),
        cmocka_unit_test(test_strict_leader_stopped_and_resumed),
        cmocka_unit_test(test_strict_leader_cut_off_from_its_peers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
