/*
 * test_replica.c - replicas wired directly: tags that are opened, made again and forced down; the
 * registry of nodes; a snapshot on a node that leads at once; status and the end.
 *
 * Thread: one.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/tests/unit/test.h"
#include "raft/cluster/tests/requests_scene.h"
#include "raft/core/tests/core_noop.h"

#define PATIENCE_MS 3000

/* Open a tag on a node; returns the status. */
static int open_tag(struct ring *ring, uint64_t id, const char *tag)
{
    struct asked asked;
    int status;

    asked_open(&asked, tag);
    ask(ring, id, &asked, PATIENCE_MS);
    ring_settle(ring);
    assert_int_equal(asked.done, 1);
    status = asked.base.status;
    asked_free(&asked);
    return status;
}

static struct id_tag *entry_of_tag(struct ring *ring, uint64_t id, const char *tag)
{
    return id_table_find(ring_node(ring, id)->ids.table, tag, strlen(tag));
}

static void delete_tag(struct ring *ring, uint64_t id, const char *tag)
{
    struct asked asked;

    asked_delete(&asked, tag);
    ask(ring, id, &asked, PATIENCE_MS);
    ring_settle(ring);
    assert_int_equal(asked.done, 1);
    assert_int_equal(asked.base.status, 0);
    asked_free(&asked);
}

static void put_max_id(struct ring *ring, uint64_t id, const char *tag, uint64_t max_id, bool force)
{
    struct tag_put put = {.name = tag, .name_len = (uint16_t)strlen(tag)};
    struct put_result result = {0};
    struct asked asked;

    asked_put(&asked, tag, 1); /* for its fields; the command is written anew */
    asked.base.payload.len = 0;
    put.fields = TAG_FIELD_MAX_ID;
    put.max_id = max_id;
    command_put(&asked.base.payload, COMMAND_TAGS_PUT,
                &(struct command_list){.force = force, .wall_ms = FAKE_WALL_MS});
    command_item_put(&asked.base.payload, COMMAND_TAGS_PUT, &put);
    command_items_end(&asked.base.payload);
    ask(ring, id, &asked, PATIENCE_MS);
    ring_settle(ring);
    assert_int_equal(asked.done, 1);
    assert_int_equal(asked.base.status, 0);
    assert_int_equal(put_result_decode(asked.base.reply.data, asked.base.reply.len, &result), 0);
    assert_int_equal(result.status, 0);
    assert_int_equal(result.first.max_id, max_id);
    asked_free(&asked);
}

/* --- tags --- */

static void test_open_asks_the_leader_about_an_unknown_tag(void **state)
{
    struct trio *t = *state;

    assert_int_equal(open_tag(&t->ring, t->follower, "none"), ERR_UNKNOWN_TAG);
    assert_int_equal(open_tag(&t->ring, t->leader, "none"), ERR_UNKNOWN_TAG);
    assert_null(entry_of_tag(&t->ring, t->follower, "none"));
    assert_int_equal(ring_node(&t->ring, t->follower)->replica.requests.count, 0);
}

static void test_open_without_a_leader_is_told_so(void **state)
{
    RING ring = {0};
    struct asked asked;

    (void)state;
    ring_start(&ring, 3);
    ring_isolate(&ring, 1, true);
    asked_open(&asked, "a");
    ask(&ring, 1, &asked, 300);
    ring_run_ms(&ring, 400);
    assert_int_equal(asked.done, 1);
    assert_int_equal(asked.base.status, ERR_NO_LEADER);
    asked_free(&asked);
}

/* Made on one node, used on another that has not applied it yet. */
static void test_a_new_tag_is_usable_everywhere_at_once(void **state)
{
    struct trio *t = *state;
    uint64_t here;
    uint64_t there;

    ring_make(&t->ring, t->leader, "a", 10);
    assert_null(ring_row(&t->ring, t->follower, "a")); /* the next heartbeat will commit it there */
    assert_int_equal(open_tag(&t->ring, t->follower, "a"), 0);
    assert_int_equal(open_tag(&t->ring, t->leader, "a"), 0);
    there = ring_take(&t->ring, t->follower, "a", 3);
    here = ring_take(&t->ring, t->leader, "a", 3);
    assert_true(here >= there + 3 || there >= here + 3);
}

/* Shows P4-killed. */
static void test_ids_go_on_while_there_is_no_leader(void **state)
{
    struct trio *t = *state;
    struct segment_range range;
    struct segment_view view;
    uint64_t first;

    ring_make(&t->ring, t->leader, "a", 1000);
    assert_int_equal(open_tag(&t->ring, t->follower, "a"), 0);
    first = ring_take(&t->ring, t->follower, "a", 1);
    for (uint64_t id = 1; id <= 3; id++) {
        ring_isolate(&t->ring, id, true);
    }
    ring_run_ms(&t->ring, 5000);
    assert_int_equal(driver_leader(&ring_node(&t->ring, t->follower)->replica.driver), 0);
    assert_int_equal(
        segment_claim(&entry_of_tag(&t->ring, t->follower, "a")->buffer, 1, 500, &range, &view), 0);
    assert_int_equal(range.first, first + 1);
    assert_int_equal(range.count, 500);
}

/* Deleted: nothing of what a node still holds is handed out; made again: it goes on above. */
/* Shows lesson-epoch. */
static void test_a_tag_made_again_burns_the_old_segments(void **state)
{
    struct trio *t = *state;
    struct segment_range range;
    struct segment_view view;
    uint64_t before;
    uint64_t max_id;

    ring_make(&t->ring, t->leader, "a", 100);
    assert_int_equal(open_tag(&t->ring, t->follower, "a"), 0);
    before = ring_take(&t->ring, t->follower, "a", 1);
    assert_true(segment_left(&entry_of_tag(&t->ring, t->follower, "a")->buffer) >= 99);
    max_id = ring_row(&t->ring, t->leader, "a")->max_id;
    delete_tag(&t->ring, t->leader, "a");
    ring_run_ms(&t->ring, 100);
    assert_int_equal(atomic_load(&entry_of_tag(&t->ring, t->follower, "a")->state), ID_TAG_UNKNOWN);
    assert_int_equal(
        segment_claim(&entry_of_tag(&t->ring, t->follower, "a")->buffer, 1, 1, &range, &view),
        ERR_EMPTY);
    assert_int_equal(open_tag(&t->ring, t->follower, "a"), ERR_UNKNOWN_TAG);
    ring_make(&t->ring, t->leader, "a", 100);
    assert_int_equal(open_tag(&t->ring, t->follower, "a"), 0);
    assert_true(ring_take(&t->ring, t->follower, "a", 1) >= max_id);
    assert_true(max_id > before);
}

/* An operator forces max_id down: what a node holds from above is not handed out any more, or it
 * would come twice. */
/* Shows P1-tags. */
static void test_a_forced_max_id_burns_the_old_segments(void **state)
{
    struct trio *t = *state;
    uint64_t first;

    ring_make(&t->ring, t->leader, "a", 100);
    assert_int_equal(open_tag(&t->ring, t->follower, "a"), 0);
    (void)ring_take(&t->ring, t->follower, "a", 50);
    put_max_id(&t->ring, t->leader, "a", 5, true);
    ring_run_ms(&t->ring, 100);
    first = ring_take(&t->ring, t->follower, "a", 1);
    assert_int_equal(first, 5);
}

/* An operator raises max_id, because ids below it are in use elsewhere: what a node holds from
 * below is not handed out any more. */
/* Shows P1-tags. */
static void test_a_raised_max_id_burns_the_old_segments(void **state)
{
    struct trio *t = *state;

    ring_make(&t->ring, t->leader, "a", 100);
    assert_int_equal(open_tag(&t->ring, t->follower, "a"), 0);
    (void)ring_take(&t->ring, t->follower, "a", 50);
    put_max_id(&t->ring, t->leader, "a", 5000, false);
    ring_run_ms(&t->ring, 100);
    assert_true(ring_take(&t->ring, t->follower, "a", 1) >= 5000);
}

/* --- the registry of nodes --- */

static void test_nodes_register_themselves(void **state)
{
    struct trio *t = *state;
    struct node_info info;

    for (uint64_t on = 1; on <= 3; on++) {
        for (uint64_t id = 1; id <= 3; id++) {
            assert_non_null(state_node(ring_node(&t->ring, on)->replica.state, id));
            info = *state_node(ring_node(&t->ring, on)->replica.state, id);
            assert_int_equal(info.store_id, 1000 + id);
            assert_string_equal(info.http_address, ring_node(&t->ring, id)->http_address);
            assert_string_equal(info.version, "ring");
        }
    }
}

static void test_a_node_with_a_new_address_registers_again(void **state)
{
    struct trio *t = *state;
    struct node_info info;
    uint64_t last;

    ring_crash(&t->ring, t->follower);
    ring_restart(&t->ring, t->follower); /* as it was: nothing to tell, but that it began anew */
    ring_run_ms(&t->ring, 2 * SESSION_TIDY_MS);
    last = entry_log_last(&ring_node(&t->ring, t->leader)->replica.driver.log);
    ring_run_ms(&t->ring, 2000);
    assert_int_equal(entry_log_last(&ring_node(&t->ring, t->leader)->replica.driver.log), last);
    ring_crash(&t->ring, t->follower);
    snprintf(ring_node(&t->ring, t->follower)->http_address, 32, "elsewhere:80");
    ring_restart(&t->ring, t->follower);
    ring_run_ms(&t->ring, 500);
    assert_non_null(state_node(ring_node(&t->ring, t->leader)->replica.state, t->follower));
    info = *state_node(ring_node(&t->ring, t->leader)->replica.state, t->follower);
    assert_string_equal(info.http_address, "elsewhere:80");
}

static void test_a_wiped_store_is_not_admitted(void **state)
{
    struct ring ring = {0};
    struct ring blank = {0};
    struct replica *replica;
    uint64_t leader;
    uint64_t follower;

    (void)state;
    scene_start(&ring, &leader, &follower);
    replica = &ring_node(&ring, leader)->replica;
    assert_int_equal(peers_admit(&replica->peers, follower, 1000 + follower), 0);
    assert_int_equal(peers_admit(&replica->peers, follower, 4711), ERR_WRONG_NODE);
    ring_crash(&ring, leader); /* the registry is part of the state */
    ring_restart(&ring, leader);
    assert_int_equal(peers_admit(&replica->peers, follower, 4711), ERR_WRONG_NODE);
    ring_close(&ring);
    ring_start(&blank, 1);
    assert_int_equal(peers_admit(&ring_node(&blank, 1)->replica.peers, 2, 4711),
                     0); /* not known yet */
    ring_close(&blank);
}

static unsigned lost_count;

static void lost_cb(struct replica_listener *listener)
{
    (void)listener;
    lost_count++;
}

/* Only a node that knows of no birth, and was not admitted by a cluster, has lost its data. */
static void test_a_refused_node_without_data_is_lost(void **state)
{
    const struct learned_peers none = {.index = 0};
    const struct learned_peers admitted = {.index = 5};
    const struct {
        const struct learned_peers *learned;
        int err;
        unsigned lost;
    } cases[] = {{NULL, ERR_WRONG_NODE, 1},
                 {&none, ERR_WRONG_NODE, 1},
                 {&none, ERR_REMOVED, 1},
                 {&admitted, ERR_REMOVED, 0},
                 {NULL, ERR_OTHER_LIST, 0}};
    RING born = {0};
    struct ring_node *node;
    uint64_t leader;
    uint64_t follower;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        RING unborn = {.apart = true};

        ring_start(&unborn, 3);
        node = ring_node(&unborn, 1);
        node->listener.lost = lost_cb;
        node->replica.config.learned = cases[i].learned;
        lost_count = 0;
        node->replica.peers.receiver.refused(&node->replica.peers.receiver, 2, cases[i].err,
                                             "a test");
        assert_int_equal(lost_count, cases[i].lost);
    }
    scene_start(&born, &leader, &follower);
    node = ring_node(&born, follower);
    node->listener.lost = lost_cb;
    lost_count = 0;
    node->replica.peers.receiver.refused(&node->replica.peers.receiver, leader, ERR_REMOVED,
                                         "a test");
    assert_int_equal(lost_count, 0);
    assert_int_equal(node->removed_count, 1);
}

/* --- a snapshot --- */

/* Node `behind` is alone while ids are granted and the log is compacted, gets a snapshot, and is
 * made to lead at once. */
/* Shows P1-snapshot, lesson-install. */
static void test_a_snapshot_on_the_node_that_leads_next(void **state)
{
    RING ring = {.snapshot_entries = 20};
    uint64_t leader;
    uint64_t behind;
    uint64_t other;
    uint64_t highest = 0;

    (void)state;
    scene_start(&ring, &leader, &behind);
    ring_make(&ring, leader, "a", 10);
    ring_run_ms(&ring, 100);
    assert_int_equal(open_tag(&ring, leader, "a"), 0);
    assert_int_equal(open_tag(&ring, behind, "a"), 0);
    ring_isolate(&ring, behind, true);
    for (unsigned i = 0; i < 60; i++) {
        highest = ring_take(&ring, leader, "a", 10) + 9;
    }
    ring_make(&ring, leader, "b", 10);
    assert_true(ring_node(&ring, leader)->replica.driver.log.first >
                entry_log_last(&ring_node(&ring, behind)->replica.driver.log) + 1);
    ring_isolate(&ring, behind, false);
    for (unsigned i = 0; ring_node(&ring, behind)->installed_count == 0; i++) {
        assert_true(i < 1000);
        ring_run_ms(&ring, 5);
    }
    other = 6 - leader - behind;
    ring_node(&ring, leader)->net.down[other] = true; /* so that only `behind` can follow */
    for (unsigned i = 0; !replica_transfer(&ring_node(&ring, leader)->replica); i++) {
        assert_true(i < 1000);
        ring_run_ms(&ring, 5);
    }
    ring_crash(&ring, leader);
    leader = ring_elect(&ring);
    assert_int_equal(leader, behind);
    assert_non_null(ring_row(&ring, leader, "b"));
    assert_true(ring_take(&ring, behind, "a", 1) > highest);
    assert_int_equal(open_tag(&ring, behind, "b"), 0);
    (void)ring_take(&ring, behind, "b", 1);
}

/* Shows lesson-deterministic. */
static void test_digests_are_compared(void **state)
{
    RING ring = {.digest_ms = 100};
    uint64_t leader;
    uint64_t follower;
    uint64_t last;

    (void)state;
    scene_start(&ring, &leader, &follower);
    for (char name[2] = "b"; name[0] <= 'f'; name[0]++) {
        last = entry_log_last(&ring_node(&ring, leader)->replica.driver.log);
        ring_make(&ring, leader, name, 10);
        ring_run_ms(&ring, 200);
        assert_true(entry_log_last(&ring_node(&ring, leader)->replica.driver.log) >= last + 2);
    }
    /* While nothing changes it is done now and then. */
    last = entry_log_last(&ring_node(&ring, leader)->replica.driver.log);
    ring_run_ms(&ring, 1000);
    assert_true(entry_log_last(&ring_node(&ring, leader)->replica.driver.log) <= last + 2);
    ring_run_ms(&ring, 1000);
    assert_true(entry_log_last(&ring_node(&ring, leader)->replica.driver.log) > last);
    /* One node's state goes wrong: that node ends, and no other. */
    ring_plant(&ring, follower, "b", 1);
    ring_make(&ring, leader, "g", 10);
    ring_run_ms(&ring, 300);
    for (uint64_t id = 1; id <= 3; id++) {
        assert_int_equal(ring_node(&ring, id)->failed_count, id == follower);
    }
}

/* Thousands of entries stand between the index that is compared and the entry that says so, and
 * were applied in between. */
static void test_digests_are_compared_under_load(void **state)
{
    struct buf commands[250];
    RING ring = {.digest_ms = 1000};
    uint64_t leader;
    uint64_t follower;
    uint64_t index;
    uint64_t term;

    (void)state;
    scene_start(&ring, &leader, &follower);
    ring_make(&ring, leader, "b", 10);
    ring_run_ms(&ring, 500);
    ring_plant(&ring, follower, "b", 1);
    for (uint64_t id = 1; id <= 3; id++) {
        ring_node(&ring, id)->disk_held = id != leader;
    }
    for (unsigned i = 0; i < 250; i++) {
        commands[i] =
            (struct buf){.data = (uint8_t *)(uintptr_t)NOOP_BYTES, .len = sizeof NOOP_BYTES};
    }
    for (unsigned i = 0; i < 14; i++) {
        assert_int_equal(
            driver_submit(&ring_node(&ring, leader)->replica.driver, commands, 250, &index, &term),
            0);
    }
    ring_run_ms(&ring, 700); /* the digest is behind them */
    assert_int_equal(ring_node(&ring, follower)->failed_count, 0);
    for (uint64_t id = 1; id <= 3; id++) {
        ring_node(&ring, id)->disk_held = false;
    }
    ring_run_ms(&ring, 300);
    for (uint64_t id = 1; id <= 3; id++) {
        assert_int_equal(ring_node(&ring, id)->failed_count, id == follower);
    }
}

/* --- what people see --- */

static void test_status_of_a_cluster(void **state)
{
    struct trio *t = *state;
    struct id_cluster_status status;

    ring_isolate(&t->ring, t->follower, false);
    ring_node(&t->ring, t->leader)->net.down[t->follower] = true;
    health_status(&ring_node(&t->ring, t->leader)->ids.health, &status);
    assert_string_equal(status.cluster_id, "ring");
    assert_int_equal(status.node_id, t->leader);
    assert_int_equal(status.leader_id, t->leader);
    assert_int_equal(status.state, ID_NODE_LEADER);
    assert_int_equal(status.member_count, 3);
    for (unsigned i = 0; i < 3; i++) {
        const struct id_member *member = &status.members[i];

        assert_int_equal(member->id, i + 1);
        assert_string_equal(member->role, "voter");
        assert_string_equal(member->http_address, ring_node(&t->ring, i + 1)->http_address);
        assert_int_equal(member->reachable, member->id != t->follower);
        assert_true(member->match_index > 0);
    }
    health_status(&ring_node(&t->ring, t->follower)->ids.health, &status);
    assert_int_equal(status.state, ID_NODE_FOLLOWER);
    assert_int_equal(status.leader_id, t->leader);
    assert_int_equal(status.members[0].match_index, 0); /* only a leader knows */
    assert_int_equal(ring_node(&t->ring, t->follower)->net.peer_count, 2);
}

static int segments(struct ring *ring, uint64_t id, const struct buf *query,
                    struct id_segments_page *ret_page)
{
    struct asked asked;
    int status;

    asked_get(&asked, "");
    asked.base.kind = ID_REQUEST_SEGMENTS;
    asked.base.payload.len = 0;
    buf_put(&asked.base.payload, query->data, query->len);
    asked.base.out = ret_page;
    ask(ring, id, &asked, PATIENCE_MS);
    assert_int_equal(asked.done, 1);
    status = asked.base.status;
    asked_free(&asked);
    return status;
}

static void test_segments_of_a_node(void **state)
{
    struct trio *t = *state;
    struct id_segments_page page = {0};
    struct buf query = BUF_INIT;

    ring_make(&t->ring, t->leader, "a", 10);
    assert_int_equal(open_tag(&t->ring, t->leader, "a"), 0);
    (void)ring_take(&t->ring, t->leader, "a", 4);
    query_list_encode(&query, "", 0, "", 0, 10);
    assert_int_equal(segments(&t->ring, t->leader, &query, &page), 0);
    assert_int_equal(page.count, 1);
    assert_string_equal(page.items[0].name, "a");
    assert_int_equal(page.items[0].slots[0].end - page.items[0].slots[0].next_id, 6);
    free(page.items);
    query.len = 0;
    query_get_encode(&query, "a", 1); /* another kind of query, and bytes that are none */
    assert_int_equal(segments(&t->ring, t->leader, &query, &page), ERR_BAD_MESSAGE);
    query.len = 1;
    assert_int_equal(segments(&t->ring, t->leader, &query, &page), ERR_BAD_MESSAGE);
    buf_free(&query);
}

static void test_health_follows_the_node(void **state)
{
    RING ring = {0};
    struct id_health *health;

    (void)state;
    ring_start(&ring, 3);
    health = &ring_node(&ring, 1)->ids.health.seen;
    assert_true(atomic_load(&health->started));
    assert_false(atomic_load(&health->leader_known));
    assert_false(atomic_load(&health->applied_once));
    (void)ring_elect(&ring);
    ring_run_ms(&ring, 100);
    assert_true(atomic_load(&health->leader_known));
    assert_true(atomic_load(&health->applied_once));
    ring_isolate(&ring, 1, true);
    ring_run_ms(&ring, 3000);
    assert_false(atomic_load(&health->leader_known));
    assert_true(atomic_load(&health->applied_once));
}

/* Its log has what its rows lack, and without the others it does not know what of that counts: its
 * state is older than at its end. */
static void test_a_state_that_is_older_than_the_log(void **state)
{
    RING ring = {.rows_hold_ms = 60000};
    struct id_health *health;
    uint64_t leader;
    uint64_t follower;

    (void)state;
    ring_start(&ring, 3);
    leader = ring_elect(&ring);
    follower = ring_follower(&ring);
    ring_make(&ring, leader, "a", 10);
    ring_run_ms(&ring, 200);
    ring_isolate(&ring, follower, true);
    ring_crash(&ring, follower);
    ring_restart(&ring, follower);
    health = &ring_node(&ring, follower)->ids.health.seen;
    ring_run_ms(&ring, 500);
    assert_true(atomic_load(&health->started));
    assert_false(atomic_load(&health->applied_once));
    ring_isolate(&ring, follower, false);
    ring_run_ms(&ring, 2000);
    assert_true(atomic_load(&health->applied_once));
    assert_non_null(ring_row(&ring, follower, "a"));
}

/* Requests of every kind that can be answered at once, of which most are refused. */
static size_t asked_at_once(struct asked asked[8], struct id_cluster_status *status,
                            struct id_segments_page *page, struct missing_members *missing)
{
    size_t n = 0;

    asked_get(&asked[n], "a");
    asked[n++].base.local = true;
    asked_open(&asked[n++], "a");
    asked_everywhere(&asked[n++], 1, missing);
    asked_get(&asked[n], "a");
    asked[n].base.kind = ID_REQUEST_STATUS;
    asked[n++].base.out = status;
    asked_get(&asked[n], "a"); /* no list */
    asked[n].base.kind = ID_REQUEST_SEGMENTS;
    asked[n++].base.out = page;
    asked_get(&asked[n], "a"); /* none of an operator */
    asked[n++].base.kind = CLUSTER_REQUEST_MEMBER;
    asked_put(&asked[n], "b", 10);
    buf_reserve(&asked[n].base.payload, LIMIT_ENTRY_BYTES + 1);
    memset(asked[n].base.payload.data + asked[n].base.payload.len, 0,
           LIMIT_ENTRY_BYTES + 1 - asked[n].base.payload.len);
    asked[n++].base.payload.len = LIMIT_ENTRY_BYTES + 1;
    asked_get(&asked[n], "a");
    asked[n++].base.kind = ID_REQUEST_STRICT; /* an item that does not read */
    return n;
}

/* The contract of id_backend.h: done() once, from a turn, whatever the answer. */
static void submit_at_once(struct ring *ring, int status_of_all)
{
    struct replica *replica = &ring_node(ring, 1)->replica;
    struct id_cluster_status status;
    struct id_segments_page page = {0};
    struct missing_members missing = {0};
    struct asked asked[8];
    size_t n = asked_at_once(asked, &status, &page, &missing);

    for (size_t i = 0; i < n; i++) {
        asked[i].base.deadline_ms = ring->clock.now_ms + PATIENCE_MS;
        id_service_submit(&ring_node(ring, 1)->ids, &asked[i].base);
        assert_int_equal(asked[i].done, 0);
    }
    assert_int_equal(replica_next_ms(replica), 0);
    ring_turn(ring, 1);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(asked[i].done, 1);
        assert_true(status_of_all == 0 || asked[i].base.status == status_of_all);
    }
    ring_run_ms(ring, 100);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(asked[i].done, 1);
        asked_free(&asked[i]);
    }
}

static void test_no_answer_comes_from_inside_submit(void **state)
{
    RING ring = {0};

    (void)state;
    ring_start(&ring, 1);
    (void)ring_elect(&ring);
    ring_make(&ring, 1, "a", 10);
    submit_at_once(&ring, 0);
    replica_stop(&ring_node(&ring, 1)->replica);
    submit_at_once(&ring, ERR_SHUTTING_DOWN);
}

static void test_a_stopping_replica_takes_nothing(void **state)
{
    struct trio *t = *state;
    struct id_cluster_status status;
    struct asked asked[3];

    ring_make(&t->ring, t->leader, "a", 10);
    asked_open(&asked[0], "unknown");
    t->ring.lost[FRAME_REQUEST] = true;
    ask(&t->ring, t->follower, &asked[0], PATIENCE_MS); /* under way */
    replica_stop(&ring_node(&t->ring, t->follower)->replica);
    asked_open(&asked[1], "a");
    asked_get(&asked[2], "a");
    ask(&t->ring, t->follower, &asked[1], PATIENCE_MS);
    ask(&t->ring, t->follower, &asked[2], PATIENCE_MS);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(asked[i].done, 1);
        assert_int_equal(asked[i].base.status, ERR_SHUTTING_DOWN);
        asked_free(&asked[i]);
    }
    health_status(&ring_node(&t->ring, t->follower)->ids.health, &status);
    assert_int_equal(status.state, ID_NODE_STOPPING);
}

/* While its clients leave, it waits as any other. */
static void test_a_drained_follower_has_turns_that_end(void **state)
{
    struct trio *t = *state;
    struct replica *replica;

    replica = &ring_node(&t->ring, t->follower)->replica;
    replica_drain(replica);
    ring_run_ms(&t->ring, 100);
    assert_true(replica->drained);
    ring_turn(&t->ring, t->follower);
    assert_true(replica_next_ms(replica) > t->ring.clock.now_ms);
}

/* Let time go by until a node serves snowflake ids; false if it does not within so long. */
static bool serves_snowflakes(struct ring *ring, uint64_t id, uint64_t within_ms)
{
    for (uint64_t ms = 0; ms < within_ms; ms += 10) {
        if (atomic_load(&ring_node(ring, id)->ids.snowflake.slot_count) > 0) {
            return true;
        }
        ring_run_ms(ring, 10);
    }
    return false;
}

/* A node that serves snowflake ids can be killed at any moment and serves again on its own: the
 * rows that its grant stands in are durable with its own record, however long rows may wait. */
static void test_a_worker_id_is_known_after_a_crash_without_a_leader(void **state)
{
    RING ring = {.keeps_time = true, .workers = 1, .rows_hold_ms = 60000};

    (void)state;
    ring_start(&ring, 3);
    ring_elect(&ring);
    for (uint64_t id = 1; id <= 3; id++) {
        assert_true(serves_snowflakes(&ring, id, 2000));
    }
    for (uint64_t id = 1; id <= 3; id++) {
        ring_crash(&ring, id);
    }
    for (uint64_t id = 1; id <= 3; id++) {
        ring_restart(&ring, id);
        assert_true(serves_snowflakes(&ring, id, 1000));
        ring_crash(&ring, id);
    }
}

/* A layout that the log refuses is not proposed in each turn, which would fill the log as fast as
 * the disk can write. */
static void test_a_layout_that_is_refused_is_not_proposed_all_the_time(void **state)
{
    RING ring = {.keeps_time = true, .workers = 1};
    uint64_t last;

    (void)state;
    ring_start(&ring, 3);
    for (uint64_t id = 1; id <= 3; id++) {
        ring_node(&ring, id)->ids.config.lease.layout.epoch_ms = UINT64_MAX;
    }
    (void)ring_elect(&ring);
    ring_run_ms(&ring, 200);
    last = entry_log_last(&ring_node(&ring, 1)->replica.driver.log);
    ring_run_ms(&ring, 1000);
    assert_in_range(entry_log_last(&ring_node(&ring, 1)->replica.driver.log) - last, 1, 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TRIO_TEST(test_open_asks_the_leader_about_an_unknown_tag),
        cmocka_unit_test(test_open_without_a_leader_is_told_so),
        TRIO_TEST(test_a_new_tag_is_usable_everywhere_at_once),
        TRIO_TEST(test_ids_go_on_while_there_is_no_leader),
        TRIO_TEST(test_a_tag_made_again_burns_the_old_segments),
        TRIO_TEST(test_a_forced_max_id_burns_the_old_segments),
        TRIO_TEST(test_a_raised_max_id_burns_the_old_segments),
        TRIO_TEST(test_nodes_register_themselves),
        TRIO_TEST(test_a_node_with_a_new_address_registers_again),
        cmocka_unit_test(test_a_wiped_store_is_not_admitted),
        cmocka_unit_test(test_a_refused_node_without_data_is_lost),
        cmocka_unit_test(test_a_snapshot_on_the_node_that_leads_next),
        cmocka_unit_test(test_digests_are_compared),
        cmocka_unit_test(test_digests_are_compared_under_load),
        TRIO_TEST(test_status_of_a_cluster),
        TRIO_TEST(test_segments_of_a_node),
        cmocka_unit_test(test_health_follows_the_node),
        cmocka_unit_test(test_a_state_that_is_older_than_the_log),
        cmocka_unit_test(test_no_answer_comes_from_inside_submit),
        TRIO_TEST(test_a_stopping_replica_takes_nothing),
        TRIO_TEST(test_a_drained_follower_has_turns_that_end),
        cmocka_unit_test(test_a_worker_id_is_known_after_a_crash_without_a_leader),
        cmocka_unit_test(test_a_layout_that_is_refused_is_not_proposed_all_the_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
