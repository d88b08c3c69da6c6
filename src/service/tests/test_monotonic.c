/*
 * test_monotonic.c - monotonic ids on a ring of replicas: rounds in a pipeline, windows while
 * leadership changes, keys, deposed leaders that do not know it, giving back. In each case an id is
 * above all that had arrived before it was asked for. The letters are the rules of
 * docs/monotonic.md.
 *
 * Thread: one.
 */
#include <string.h>

#include "src/tests/unit/test.h"
#include "raft/core/tests/core_frames.h"
#include "raft/tests/raft_strict.h"
#include "src/id/codec/command.h"

#define PATIENCE_MS 8000

static uint64_t start(struct ring *ring, unsigned count)
{
    uint64_t leader;

    ring->meet = true;
    ring_start(ring, count);
    leader = ring_elect(ring);
    strict_mode(ring, leader, "a", TAG_MODE_MONOTONIC);
    ring_run_ms(ring, 100);
    return leader;
}

static struct serving *serving_of(struct ring *ring, uint64_t id)
{
    return &ring_node(ring, id)->replica.requests.serving;
}

static const struct window_counts *counts_of(struct ring *ring, uint64_t id)
{
    return windows_counts(ring_node(ring, id)->ids.windows);
}

/* An id of a monotonic tag; the submitter knows its mode. */
static void ask_id(struct ring *ring, uint64_t id, struct asked *asked, const char *key)
{
    strict_prepare(asked, "a", 1, key);
    asked->base.mode = TAG_MODE_MONOTONIC;
    ask(ring, id, asked, PATIENCE_MS);
}

static uint64_t take(struct ring *ring, uint64_t id, uint32_t count, const char *key)
{
    struct asked asked;
    struct asked *waiting = &asked;
    uint64_t first;

    strict_prepare(&asked, "a", count, key);
    asked.base.mode = TAG_MODE_MONOTONIC;
    ask(ring, id, &asked, PATIENCE_MS);
    strict_wait(ring, &waiting, 1);
    first = strict_first(&asked);
    asked_free(&asked);
    return first;
}

static void acknowledge(struct ring *ring, uint64_t leader, uint64_t from, uint64_t term,
                        uint64_t round)
{
    const struct wire_confirm ack = {term, round};
    struct buf frame = BUF_INIT;

    wire_confirm_encode(&ack, &frame);
    assert_true(replica_receive(&ring_node(ring, leader)->replica.peers.receiver, from,
                                FRAME_CONFIRM_ACK, frame.data, frame.len));
    (void)replica_turn(&ring_node(ring, leader)->replica);
    buf_free(&frame);
}

static uint64_t term_of(struct ring *ring, uint64_t id)
{
    return driver_term(&ring_node(ring, id)->replica.driver);
}

/* --- the happy path --- */

static void test_ids_through_any_node(void **state)
{
    RING ring = {0};
    struct id_figures now;
    uint64_t leader;
    uint64_t last;

    (void)state;
    leader = start(&ring, 3);
    last = 0;
    for (unsigned i = 0; i < 30; i++) {
        uint64_t first = take(&ring, 1 + i % 3, 1 + i % 2, NULL);

        assert_int_equal(first, last + 1); /* one leader, no failure: dense */
        last = first + i % 2;
    }
    ring_run_ms(&ring, 2 * FIGURES_MS);
    id_figures_copy(&ring_node(&ring, leader)->ids.health.figures, &now);
    assert_int_equal(now.windows, 1);
    assert_int_equal(now.window_ids, counts_of(&ring, leader)->left);
    assert_true(now.window_ids > 0 && now.window_entries > 0 && now.window_waits > 0);
    assert_true(now.rounds_confirmed >= 30);
    id_figures_copy(&ring_node(&ring, leader % 3 + 1)->ids.health.figures, &now);
    assert_int_equal(now.windows, 0);
}

/* A disk that becomes low while requests wait for ids that the log has to grant: one with room
 * leads instead, and they get theirs from there. */
static void test_requests_follow_to_a_disk_with_room(void **state)
{
    RING ring = {.keeps_time = true};
    struct asked asked[4];
    struct asked *waiting[4];
    uint64_t leader;

    (void)state;
    leader = start(&ring, 3);
    ring_run_ms(&ring, 2000); /* the log gets its time, which keys need */
    assert_int_equal(counts_of(&ring, leader)->left, 0);
    ring.lost[FRAME_RAFT] = true; /* no window for now */
    for (unsigned i = 0; i < 4; i++) {
        waiting[i] = &asked[i];
        ask_id(&ring, 1 + (leader + i) % 3, &asked[i], i == 3 ? "key" : NULL);
    }
    for (unsigned i = 0; TAILQ_EMPTY(&serving_of(&ring, leader)->starved); i++) {
        assert_true(i < 50);
        ring_run_ms(&ring, 1);
    }
    ring_node(&ring, leader)->disk.low = true;
    ring.lost[FRAME_RAFT] = false;
    strict_wait(&ring, waiting, 4);
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(asked[i].base.status, 0);
        asked_free(&asked[i]);
    }
    assert_false(driver_leads(&ring_node(&ring, leader)->replica.driver));
}

/* No entry a batch: that is what the mode is for. */
static void test_no_entry_for_each_batch(void **state)
{
    RING ring = {0};
    uint64_t leader = start(&ring, 3);
    uint64_t entries;

    (void)state;
    (void)take(&ring, leader, 1, NULL);
    entries = counts_of(&ring, leader)->entries;
    for (unsigned i = 0; i < 100; i++) {
        (void)take(&ring, 1 + i % 3, 1, NULL);
    }
    assert_int_equal(counts_of(&ring, leader)->entries, entries);
}

static void test_a_sole_node_is_its_own_majority(void **state)
{
    RING ring = {0};

    (void)state;
    start(&ring, 1);
    assert_int_equal(take(&ring, 1, 5, NULL), 1);
    assert_int_equal(take(&ring, 1, 5000, NULL), 6);
    assert_int_equal(take(&ring, 1, 1, NULL), 5006);
}

/* The submitter thinks that it is strict: the leader knows better, and nothing is lost. */
static void test_a_request_of_the_wrong_mode_changes_lanes(void **state)
{
    RING ring = {0};
    uint64_t leader = start(&ring, 3);

    (void)state;
    assert_int_equal(strict_take(&ring, leader, "a", 1, NULL), 1);
    strict_mode(&ring, leader, "a", TAG_MODE_STRICT);
    assert_true(take(&ring, ring_follower(&ring), 1, NULL) > 1);
}

/* --- R4: rounds in a pipeline --- */

static void test_each_turn_begins_a_round_up_to_a_bound(void **state)
{
    RING ring = {0};
    struct asked asked[LIMIT_ROUNDS + 2];
    uint64_t leader = start(&ring, 3);
    uint64_t follower = ring_follower(&ring);
    uint64_t round;

    (void)state;
    (void)take(&ring, leader, 1, NULL);
    ring.lost[FRAME_CONFIRM] = true;
    round = serving_of(&ring, leader)->round.number;
    for (unsigned i = 0; i < LIMIT_ROUNDS + 2; i++) {
        asked_get(&asked[i], "a");
        ask(&ring, leader, &asked[i], PATIENCE_MS);
    }
    assert_int_equal(serving_of(&ring, leader)->round.number, round + LIMIT_ROUNDS);
    /* An answer to one in the middle is one to those before it, and to none behind. */
    acknowledge(&ring, leader, follower, term_of(&ring, leader), round + 3);
    for (unsigned i = 0; i < LIMIT_ROUNDS + 2; i++) {
        assert_int_equal(asked[i].done, i < 3);
    }
    /* Those that had to wait share the next one. */
    assert_int_equal(serving_of(&ring, leader)->round.number, round + LIMIT_ROUNDS + 1);
    acknowledge(&ring, leader, follower, term_of(&ring, leader), round + 2); /* overtaken */
    assert_int_equal(asked[3].done, 0);
    acknowledge(&ring, leader, follower, term_of(&ring, leader), round + LIMIT_ROUNDS + 2);
    assert_int_equal(asked[3].done, 0); /* a round that nobody began */
    acknowledge(&ring, leader, follower, term_of(&ring, leader) - 1, round + LIMIT_ROUNDS + 1);
    assert_int_equal(asked[3].done, 0); /* of another term */
    acknowledge(&ring, leader, follower, term_of(&ring, leader), round + LIMIT_ROUNDS + 1);
    for (unsigned i = 0; i < LIMIT_ROUNDS + 2; i++) {
        assert_int_equal(asked[i].done, 1);
        asked_free(&asked[i]);
    }
}

static void test_the_newest_round_is_asked_again(void **state)
{
    RING ring = {0};
    struct asked asked[3];
    uint64_t leader = start(&ring, 3);

    (void)state;
    (void)take(&ring, leader, 1, NULL);
    ring.lost[FRAME_CONFIRM] = true;
    for (unsigned i = 0; i < 3; i++) {
        ask_id(&ring, leader, &asked[i], NULL);
    }
    ring_run_ms(&ring, 20);
    ring.lost[FRAME_CONFIRM] = false;
    ring_run_ms(&ring, RING_HEARTBEAT_MS + 20);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(strict_first(&asked[i]), 2 + i);
        asked_free(&asked[i]);
    }
}

/* A majority of five is three: an answer of one of the others is not enough. */
static void test_a_majority_of_the_newest_configuration(void **state)
{
    RING ring = {0};
    struct asked asked;
    struct configuration five = {0};
    uint64_t leader = start(&ring, 3);
    uint64_t follower = ring_follower(&ring);
    uint64_t round;

    (void)state;
    (void)take(&ring, leader, 1, NULL);
    ring.lost[FRAME_CONFIRM] = true;
    for (unsigned i = 0; i < 5; i++) {
        configuration_add(&five, i + 1, "", i < 4 ? ROLE_VOTER : ROLE_STANDBY);
    }
    core_pretend(&ring_node(&ring, leader)->replica.driver, &five);
    ask_id(&ring, leader, &asked, NULL);
    round = serving_of(&ring, leader)->round.number;
    acknowledge(&ring, leader, follower, term_of(&ring, leader), round);
    acknowledge(&ring, leader, follower, term_of(&ring, leader), round); /* twice is once */
    acknowledge(&ring, leader, 5, term_of(&ring, leader), round);        /* a standby has no say */
    assert_int_equal(asked.done, 0);
    acknowledge(&ring, leader, 4, term_of(&ring, leader), round);
    assert_int_equal(asked.done, 1);
    asked_free(&asked);
}

/* One that hands its vote back leads on until the change is committed, and is no part of a majority
 * from the moment when it appends the change. */
static void test_a_leader_without_a_vote_does_not_count_itself(void **state)
{
    RING ring = {0};
    struct asked asked;
    struct configuration without = {0};
    uint64_t leader = start(&ring, 3);
    uint64_t round;

    (void)state;
    (void)take(&ring, leader, 1, NULL);
    ring.lost[FRAME_CONFIRM] = true;
    for (uint64_t id = 1; id <= 3; id++) {
        configuration_add(&without, id, "", id != leader ? ROLE_VOTER : ROLE_STANDBY);
    }
    core_pretend(&ring_node(&ring, leader)->replica.driver, &without);
    ask_id(&ring, leader, &asked, NULL);
    round = serving_of(&ring, leader)->round.number;
    acknowledge(&ring, leader, leader % 3 + 1, term_of(&ring, leader), round);
    assert_int_equal(asked.done, 0); /* one voter of two */
    acknowledge(&ring, leader, (leader + 1) % 3 + 1, term_of(&ring, leader), round);
    assert_int_equal(asked.done, 1);
    asked_free(&asked);
}

/* --- leadership that changes --- */

static void test_later_leaders_begin_above(void **state)
{
    RING ring = {0};
    uint64_t leader = start(&ring, 3);
    uint64_t last = 0;

    (void)state;
    for (unsigned i = 0; i < 8; i++) {
        for (unsigned k = 0; k < 5; k++) {
            uint64_t first = take(&ring, 1 + k % 3, 2, NULL);

            assert_true(first > last);
            last = first + 1;
        }
        leader = strict_depose(&ring, leader);
    }
}

/* It leads, as far as it knows, and has a window; nobody answers its rounds. */
static void test_a_deposed_leader_falls_silent(void **state)
{
    RING ring = {0};
    struct asked stale;
    struct asked *waiting = &stale;
    uint64_t old = start(&ring, 3);
    uint64_t next = 0;
    uint64_t last;

    (void)state;
    assert_int_equal(take(&ring, old, 1, NULL), 1);
    ring_isolate(&ring, old, true);
    for (unsigned i = 0; next == 0; i++) {
        assert_true(i < 4000);
        ring_run_ms(&ring, 5);
        for (uint64_t id = 1; id <= 3; id++) {
            next = id != old && driver_leads(&ring_node(&ring, id)->replica.driver) ? id : next;
        }
    }
    last = take(&ring, next, 3, NULL) + 2;
    ask_id(&ring, old, &stale, NULL);
    ring_run_ms(&ring, 300);
    assert_int_equal(stale.done, 0);
    ring_isolate(&ring, old, false);
    strict_wait(&ring, &waiting, 1);
    assert_true(strict_first(&stale) > last);
    asked_free(&stale);
}

/* R3, R7: a WINDOW that commits under the next leader opens nothing, for neither of them. */
static void test_a_window_that_completes_in_another_term_is_nobodys(void **state)
{
    RING ring = {0};
    uint64_t old = start(&ring, 3);
    uint64_t asking = ring_follower(&ring);
    uint64_t next = 6 - old - asking;
    struct asked asked;
    struct asked *waiting = &asked;
    uint64_t first;

    (void)state;
    ring.cut[next][old] = true; /* its acknowledgements are lost: the window is on a majority, */
    ring.cut[asking][old] = true;
    ask_id(&ring, old, &asked, NULL);
    acknowledge(&ring, old, next, term_of(&ring, old), serving_of(&ring, old)->round.number);
    ring_settle(&ring);
    assert_int_equal(counts_of(&ring, old)->entries, 1); /* and the old leader does not know it */
    assert_int_equal(counts_of(&ring, old)->open, 0);
    next = strict_depose(&ring, old);
    ring.cut[6 - old - asking][old] = false;
    ring.cut[asking][old] = false;
    strict_wait(&ring, &waiting, 1);
    first = strict_first(&asked);
    assert_true(first > 1); /* the ids of the first window are nobody's */
    assert_int_equal(counts_of(&ring, old)->open, 0);
    assert_true(take(&ring, old, 1, NULL) > first);
    asked_free(&asked);
}

static void test_a_leader_that_leads_again_has_no_window(void **state)
{
    RING ring = {0};
    uint64_t first = start(&ring, 3);
    uint64_t leader = first;
    uint64_t last;

    (void)state;
    last = take(&ring, first, 1, NULL);
    do {
        leader = strict_depose(&ring, leader);
        assert_int_equal(counts_of(&ring, first)->left * (leader != first), 0);
        last = take(&ring, leader, 1, NULL) > last ? last + 1 : 0;
        assert_true(last > 0);
        last = take(&ring, leader, 1, NULL);
    } while (leader != first);
    assert_true(take(&ring, first, 1, NULL) > last);
}

/* --- keys (R9) --- */

static void test_a_key_has_one_answer(void **state)
{
    RING ring = {.keeps_time = true};
    uint64_t leader = start(&ring, 3);
    uint64_t follower = ring_follower(&ring);
    uint64_t entries;
    uint64_t first;

    (void)state;
    ring_run_ms(&ring, 2000); /* the log gets its time, which keys need */
    first = take(&ring, follower, 2, "k");
    assert_true(take(&ring, leader, 1, NULL) > first + 1);
    entries = driver_last_index(&ring_node(&ring, leader)->replica.driver);
    assert_int_equal(take(&ring, leader, 2, "k"), first);
    assert_int_equal(take(&ring, follower, 2, "k"), first);
    assert_in_range(driver_last_index(&ring_node(&ring, leader)->replica.driver), entries,
                    entries + 3); /* a known key needs none; clocks may say theirs */
    leader = strict_depose(&ring, leader);
    assert_int_equal(take(&ring, leader, 2, "k"), first);
    assert_true(take(&ring, leader, 1, "other") > first + 1);
}

/* Each request of a batch gets the answer to its own key: one has ids already, the others none. */
static void test_known_and_new_keys_in_one_batch(void **state)
{
    static const char *const keys[] = {"known", "new", "newer"};
    RING ring = {.keeps_time = true};
    struct asked asked[3];
    struct asked *waiting[3];
    uint64_t leader = start(&ring, 3);
    uint64_t known;

    (void)state;
    ring_run_ms(&ring, 2000);
    known = take(&ring, leader, 1, keys[0]);
    for (unsigned i = 0; i < 3; i++) {
        waiting[i] = &asked[i];
        strict_prepare(&asked[i], "a", 1, keys[i]);
        asked[i].base.mode = TAG_MODE_MONOTONIC;
        asked[i].base.deadline_ms = ring.clock.now_ms + PATIENCE_MS;
        id_service_submit(&ring_node(&ring, leader)->ids, &asked[i].base);
    }
    strict_wait(&ring, waiting, 3);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(strict_first(&asked[i]), known + i);
        assert_int_equal(strict_told(&asked[i], 0).replayed, i == 0);
        asked_free(&asked[i]);
    }
}

/* The entry is on no other disk: the next leader takes other ids, above all that it acknowledged.
 */
static void test_a_key_on_a_deposed_leader(void **state)
{
    RING ring = {.keeps_time = true};
    uint64_t old = start(&ring, 3);
    uint64_t follower = ring_follower(&ring);
    struct asked keyed;
    struct asked *waiting = &keyed;
    uint64_t next;
    uint64_t last;
    uint64_t first;

    (void)state;
    ring_run_ms(&ring, 2000);
    (void)take(&ring, old, 1, NULL);
    ring.lost[FRAME_RAFT] = true;
    ask_id(&ring, old, &keyed, "k");
    ring_settle(&ring);
    assert_int_equal(keyed.done, 0); /* confirmed, its ids taken, and not committed */
    ring_isolate(&ring, old, true);
    ring.lost[FRAME_RAFT] = false;
    for (next = 0; next == 0;) {
        ring_run_ms(&ring, 5);
        for (uint64_t id = 1; id <= 3; id++) {
            next = id != old && driver_leads(&ring_node(&ring, id)->replica.driver) ? id : next;
        }
    }
    last = take(&ring, follower, 1, NULL);
    ring_isolate(&ring, old, false);
    strict_wait(&ring, &waiting, 1);
    first = strict_first(&keyed);
    assert_true(first > last);
    assert_int_equal(take(&ring, next, 1, "k"), first);
    asked_free(&keyed);
}

/* --- R10 --- */

static void test_leadership_that_is_handed_over_leaves_no_gap(void **state)
{
    RING ring = {0};
    uint64_t leader = start(&ring, 3);
    uint64_t returned;

    (void)state;
    assert_int_equal(take(&ring, leader, 3, NULL), 1);
    for (unsigned i = 0; !replica_transfer(&ring_node(&ring, leader)->replica); i++) {
        assert_true(i < 1000);
        ring_run_ms(&ring, 5);
    }
    returned = counts_of(&ring, leader)->returned;
    assert_true(returned > 0);
    assert_int_equal(counts_of(&ring, leader)->burnt_window, 0);
    assert_int_equal(atomic_load(&ring_node(&ring, leader)->ids.health.seen.given_back), returned);
    ring_run_ms(&ring, 500);
    replica_transfer_end(&ring_node(&ring, leader)->replica);
    assert_int_equal(take(&ring, 1, 1, NULL), 4);
}

/* As the node asks before it ends. */
static bool gave_back(struct ring *ring, uint64_t id)
{
    const struct service *service = ring_node(ring, id)->replica.context.service;

    return service->ops->gave_back(service);
}

/* Nobody is there to hand it to, so the windows are open until the node gives its ids back. */
static void test_a_sole_node_that_stops_leaves_no_gap(void **state)
{
    RING ring = {0};
    uint64_t returned;

    (void)state;
    (void)start(&ring, 1);
    assert_int_equal(take(&ring, 1, 3, NULL), 1);
    replica_give_back(&ring_node(&ring, 1)->replica, ring.clock.now_ms + 1000);
    ring_run_ms(&ring, 100);
    returned = counts_of(&ring, 1)->returned;
    assert_true(returned > 0 && gave_back(&ring, 1));
    assert_int_equal(atomic_load(&ring_node(&ring, 1)->ids.health.seen.given_back), returned);
    ring_crash(&ring, 1);
    ring_restart(&ring, 1);
    (void)ring_elect(&ring);
    assert_int_equal(take(&ring, 1, 1, NULL), 4);
    ring_node(&ring, 1)->disk_held = true; /* what cannot be given back is burnt */
    replica_give_back(&ring_node(&ring, 1)->replica, ring.clock.now_ms + 100);
    ring_run_ms(&ring, 50);
    assert_false(gave_back(&ring, 1));
    ring_run_ms(&ring, 150);
    assert_true(counts_of(&ring, 1)->burnt_stop > 0);
    assert_int_equal(ring_node(&ring, 1)->ids.health.seen.burnt[ID_BURN_STOP],
                     counts_of(&ring, 1)->burnt_stop);
}

/* Nobody is there to hand it to: the node goes on as the leader, and monotonic ids with it, also
 * for who asked while its windows were closed. */
static void test_leadership_that_nobody_can_take(void **state)
{
    RING ring = {0};
    struct replica *replica;

    (void)state;
    (void)start(&ring, 1);
    replica = &ring_node(&ring, 1)->replica;
    for (uint64_t next = 1; next <= 11; next += 5) { /* it fails again and again */
        struct asked held;
        struct asked *waiting = &held;

        assert_int_equal(take(&ring, 1, 3, NULL), next);
        assert_false(replica_transfer(replica));
        ask_id(&ring, 1, &held, NULL);
        for (unsigned i = 0; !replica_transfer(replica); i++) {
            assert_true(i < 1000);
            ring_run_ms(&ring, 5);
        }
        assert_true(driver_leads(&replica->driver));
        assert_false(windows_are_closed(ring_node(&ring, 1)->ids.windows));
        strict_wait(&ring, &waiting, 1);
        assert_int_equal(strict_first(&held), next + 3);
        assert_int_equal(take(&ring, 1, 1, NULL), next + 4);
        asked_free(&held);
    }
    assert_int_equal(counts_of(&ring, 1)->burnt_window, 0);
}

/* The others lag, and the leader gives it up: what was held back meanwhile is served, by it. */
static void test_a_handing_over_that_is_given_up(void **state)
{
    RING ring = {0};
    uint64_t leader = start(&ring, 3);
    struct replica *replica = &ring_node(&ring, leader)->replica;
    uint64_t term = term_of(&ring, leader);
    struct asked *waiting;
    struct asked entry;
    struct asked held;

    (void)state;
    assert_int_equal(take(&ring, leader, 3, NULL), 1);
    assert_false(replica_transfer(replica)); /* it gives its windows back */
    ring_run_ms(&ring, 5);
    assert_true(windows_given_back(ring_node(&ring, leader)->ids.windows));
    for (uint64_t id = 1; id <= 3; id++) {
        ring_node(&ring, id)->disk_held = id != leader;
    }
    asked_put(&entry, "b", 10); /* nobody else has it */
    ask(&ring, leader, &entry, PATIENCE_MS);
    assert_false(replica_transfer(replica));
    assert_true(replica->draining);
    ask_id(&ring, leader, &held, NULL);
    ring_run_ms(&ring, 10);
    assert_int_equal(held.done, 0);
    replica_transfer_end(replica);
    for (uint64_t id = 1; id <= 3; id++) {
        ring_node(&ring, id)->disk_held = false;
    }
    waiting = &held;
    strict_wait(&ring, &waiting, 1);
    assert_int_equal(strict_first(&held), 4);
    assert_int_equal(take(&ring, leader, 1, NULL), 5);
    assert_int_equal(term_of(&ring, leader), term);
    assert_int_equal(entry.done, 1);
    asked_free(&held);
    asked_free(&entry);
}

/* --- bounds --- */

static void set_disks_low(struct ring *ring, bool low)
{
    for (uint64_t id = 1; id <= 3; id++) { /* else one with room would lead instead */
        ring_node(ring, id)->disk.low = low;
    }
}

/* What a request for so many ids is told; *ret_first: if it is 0. */
static int try_take(struct ring *ring, uint64_t id, uint32_t count, const char *key,
                    uint64_t *ret_first)
{
    struct asked asked;
    struct asked *waiting = &asked;
    int status;

    strict_prepare(&asked, "a", count, key);
    asked.base.mode = TAG_MODE_MONOTONIC;
    ask(ring, id, &asked, PATIENCE_MS);
    strict_wait(ring, &waiting, 1);
    status = asked.base.status;
    *ret_first = status == 0 ? strict_first(&asked) : 0;
    asked_free(&asked);
    return status;
}

/* No disk has room: what needs an entry, a key or a longer window, is refused and not kept waiting.
 * What a window has left is given as long as its leader leads, which looks for one with room. */
static void test_disks_without_room(void **state)
{
    RING ring = {.keeps_time = true};
    uint64_t leader = start(&ring, 3);
    uint64_t last;
    uint64_t first;

    (void)state;
    ring_run_ms(&ring, 2000); /* the log gets its time, which keys need */
    last = take(&ring, leader, 1, NULL);
    set_disks_low(&ring, true);
    for (unsigned i = 0; i < 12; i++) {
        int status = try_take(&ring, 1 + i % 3, 1, NULL, &first);

        assert_true(status == ERR_DISK_FULL || (status == 0 && first > last));
        last = status == 0 ? first : last;
        assert_int_equal(try_take(&ring, 1 + i % 3, 1, "key", &first), ERR_DISK_FULL);
        assert_int_equal(try_take(&ring, 1 + i % 3, LIMIT_COUNT, NULL, &first), ERR_DISK_FULL);
        ring_run_ms(&ring, 100);
    }
    set_disks_low(&ring, false);
    assert_true(take(&ring, 1, 1, "key") > last);
}

/* As many requests as one batch holds, with keys as long as they may be. */
static void put_large_batch(struct buf *payload)
{
    const struct command_list head = {.wall_ms = 1, .key_limit = 1, .key_share = 1};
    char key[LIMIT_KEY_BYTES];
    struct strict_item item = {
        .name = "a", .name_len = 1, .key = key, .key_len = sizeof key, .count = 1};

    memset(key, 'k', sizeof key);
    command_put(payload, COMMAND_STRICT, &head);
    for (unsigned i = 0; i < LIMIT_STRICT_ITEMS; i++) {
        command_item_put(payload, COMMAND_STRICT, &item);
    }
    command_items_end(payload);
}

static void receive_batch(struct ring *ring, uint64_t leader, uint64_t from, uint64_t id,
                          const struct buf *payload)
{
    const struct wire_request request = {.id = id,
                                         .kind = CLUSTER_REQUEST_LEADER,
                                         .time_left_ms = 100,
                                         .payload = payload->data,
                                         .payload_len = payload->len};
    struct buf frame = BUF_INIT;

    wire_request_encode(&request, &frame);
    assert_true(replica_receive(&ring_node(ring, leader)->replica.peers.receiver, from,
                                FRAME_REQUEST, frame.data, frame.len));
    buf_free(&frame);
}

/* A member can have the leader keep so many bytes, until its own time is over, and no more. */
static void test_batches_up_to_so_many_bytes(void **state)
{
    RING ring = {0};
    struct buf payload = BUF_INIT;
    uint64_t leader = start(&ring, 3);
    uint64_t member = ring_follower(&ring);
    struct fake_frame *sent;
    struct wire_reply reply;
    size_t fit;

    (void)state;
    put_large_batch(&payload);
    fit = LIMIT_MONOTONIC_BYTES / payload.len;
    assert_true(fit < LIMIT_REQUESTS_PENDING);
    ring.lost[FRAME_CONFIRM] = true;
    for (uint64_t id = 1; id <= fit; id++) {
        receive_batch(&ring, leader, member, id, &payload);
        assert_int_equal(serving_of(&ring, leader)->leader_bytes, id * payload.len);
    }
    fake_net_clear(&ring_node(&ring, leader)->net);
    receive_batch(&ring, leader, member, 7777, &payload);
    sent = fake_net_take(&ring_node(&ring, leader)->net);
    assert_non_null(sent);
    assert_int_equal(sent->type, FRAME_REPLY);
    assert_int_equal(wire_reply_decode(sent->payload.data, sent->payload.len, &reply), 0);
    assert_int_equal(reply.id, 7777);
    assert_int_equal(reply.status, ERR_OVERLOADED);
    fake_frame_free(sent);
    assert_int_equal(serving_of(&ring, leader)->leader_bytes, fit * payload.len);
    assert_int_equal(serving_of(&ring, leader)->count, fit);
    ring_run_ms(&ring, 120); /* the member waits no longer */
    assert_int_equal(serving_of(&ring, leader)->leader_bytes, 0);
    assert_int_equal(serving_of(&ring, leader)->count, 0);
    ring.lost[FRAME_CONFIRM] = false;
    assert_int_equal(take(&ring, leader, 1, NULL), 1);
    buf_free(&payload);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ids_through_any_node),
        cmocka_unit_test(test_requests_follow_to_a_disk_with_room),
        cmocka_unit_test(test_no_entry_for_each_batch),
        cmocka_unit_test(test_a_sole_node_is_its_own_majority),
        cmocka_unit_test(test_a_request_of_the_wrong_mode_changes_lanes),
        cmocka_unit_test(test_each_turn_begins_a_round_up_to_a_bound),
        cmocka_unit_test(test_the_newest_round_is_asked_again),
        cmocka_unit_test(test_a_majority_of_the_newest_configuration),
        cmocka_unit_test(test_a_leader_without_a_vote_does_not_count_itself),
        cmocka_unit_test(test_later_leaders_begin_above),
        cmocka_unit_test(test_a_deposed_leader_falls_silent),
        cmocka_unit_test(test_a_window_that_completes_in_another_term_is_nobodys),
        cmocka_unit_test(test_a_leader_that_leads_again_has_no_window),
        cmocka_unit_test(test_a_key_has_one_answer),
        cmocka_unit_test(test_known_and_new_keys_in_one_batch),
        cmocka_unit_test(test_a_key_on_a_deposed_leader),
        cmocka_unit_test(test_leadership_that_is_handed_over_leaves_no_gap),
        cmocka_unit_test(test_a_sole_node_that_stops_leaves_no_gap),
        cmocka_unit_test(test_leadership_that_nobody_can_take),
        cmocka_unit_test(test_a_handing_over_that_is_given_up),
        cmocka_unit_test(test_disks_without_room),
        cmocka_unit_test(test_batches_up_to_so_many_bytes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
