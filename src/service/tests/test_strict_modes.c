/*
 * test_strict_modes.c - tags that become strict and go back, and how a replica sends strict
 * requests: nodes that hold segments are waited for; one submit a turn; the end; a node whose data
 * was set back.
 *
 * Thread: one.
 */
#include <stdio.h>
#include <string.h>

#include "src/tests/unit/test.h"
#include "raft/tests/raft_strict.h"
#include "src/id/fsm/fsm_tables.h"
#include "src/id/codec/command.h"

#define PATIENCE_MS 3000

static uint64_t start(struct ring *ring)
{
    uint64_t leader;

    ring_start(ring, 3);
    leader = ring_elect(ring);
    ring_run_ms(ring, 100);
    return leader;
}

static void open_tag(struct ring *ring, uint64_t id, const char *tag)
{
    struct asked asked;

    asked_open(&asked, tag);
    ask(ring, id, &asked, PATIENCE_MS);
    ring_settle(ring);
    assert_int_equal(asked.done, 1);
    assert_int_equal(asked.base.status, 0);
    asked_free(&asked);
}

/* A trend tag of which every node holds a segment; returns the highest id taken. */
static uint64_t hold_everywhere(struct ring *ring, uint64_t leader, const char *tag)
{
    uint64_t highest = 0;

    ring_make(ring, leader, tag, 10);
    ring_run_ms(ring, 100);
    for (uint64_t id = 1; id <= ring->count; id++) {
        uint64_t taken;

        open_tag(ring, id, tag);
        taken = ring_take(ring, id, tag, 1);
        highest = taken > highest ? taken : highest;
    }
    return highest;
}

static uint64_t left_at(struct ring *ring, uint64_t id, const char *tag)
{
    return segment_left(&id_table_find(ring_node(ring, id)->ids.table, tag, strlen(tag))->buffer);
}

/* --- the mode --- */

static void test_a_tag_becomes_strict(void **state)
{
    RING ring = {0};
    uint64_t leader = start(&ring);
    uint64_t highest = hold_everywhere(&ring, leader, "a");
    uint64_t end = ring_row(&ring, leader, "a")->max_id;
    uint64_t burnt = 0;

    (void)state;
    strict_mode(&ring, ring_follower(&ring), "a", TAG_MODE_STRICT);
    assert_int_equal(strict_take(&ring, ring_follower(&ring), "a", 2, NULL), end);
    assert_true(end > highest);
    for (uint64_t id = 1; id <= 3; id++) {
        assert_int_equal(left_at(&ring, id, "a"), 0);
        burnt += ring_node(&ring, id)->ids.health.seen.burnt[ID_BURN_GENERATION];
        assert_false(ring_row(&ring, id, "a")->recalling);
    }
    assert_int_equal(burnt, end - 1 - 3); /* all but the three that were taken */
    assert_int_equal(strict_take(&ring, leader, "a", 1, NULL), end + 2);
    ring_run_ms(&ring, 500);
    for (uint64_t id = 1; id <= 3; id++) {
        assert_false(ring_node(&ring, id)->ids.recalls.look); /* nothing is left to say */
    }
}

/* One that cannot be reached may hand out what it holds, and so nothing is handed out above. */
/* Shows P3-mode. */
static void test_a_node_that_is_cut_off_is_waited_for(void **state)
{
    RING ring = {0};
    uint64_t leader = start(&ring);
    uint64_t alone = ring_follower(&ring);
    struct asked asked;
    struct asked *waiting = &asked;
    uint64_t highest = hold_everywhere(&ring, leader, "a");

    (void)state;
    ring_isolate(&ring, alone, true);
    strict_mode(&ring, leader, "a", TAG_MODE_STRICT);
    strict_ask(&ring, leader, &asked, "a", 1, NULL, 500);
    strict_wait(&ring, &waiting, 1);
    assert_int_equal(strict_told(&asked, ERR_CHANGING).detail, alone);
    asked_free(&asked);
    highest = ring_take(&ring, alone, "a", 5) + 4;
    strict_ask(&ring, leader, &asked, "a", 1, NULL, PATIENCE_MS);
    ring_run_ms(&ring, 200);
    assert_int_equal(asked.done, 0);
    ring_isolate(&ring, alone, false);
    strict_wait(&ring, &waiting, 1); /* a request that waits goes on by itself */
    assert_true(strict_first(&asked) > highest);
    assert_int_equal(left_at(&ring, alone, "a"), 0);
    asked_free(&asked);
}

static void test_a_node_that_is_down_is_waited_for(void **state)
{
    RING ring = {0};
    uint64_t leader = start(&ring);
    uint64_t down = ring_follower(&ring);
    struct asked asked;
    struct asked *waiting = &asked;
    uint64_t end;

    (void)state;
    (void)hold_everywhere(&ring, leader, "a");
    end = ring_row(&ring, leader, "a")->max_id;
    ring_crash(&ring, down);
    strict_mode(&ring, leader, "a", TAG_MODE_STRICT);
    strict_ask(&ring, leader, &asked, "a", 1, NULL, 500);
    strict_wait(&ring, &waiting, 1);
    assert_int_equal(strict_told(&asked, ERR_CHANGING).detail, down);
    asked_free(&asked);
    ring_restart(&ring, down); /* with nothing in memory, and that is what it says */
    assert_int_equal(strict_take(&ring, leader, "a", 1, NULL), end);
}

/* A node reports at once what it holds of a tag, soon after another one as well; what failed it
 * reports again after a pause. */
static void test_when_a_node_reports(void **state)
{
    RING ring = {0};
    uint64_t leader = start(&ring);
    struct recalls *recalls = &ring_node(&ring, ring_follower(&ring))->ids.recalls;
    uint64_t began_ms;

    (void)state;
    for (const char *tag = "a\0b\0c\0"; *tag != '\0'; tag += 2) {
        (void)hold_everywhere(&ring, leader, tag);
    }
    strict_mode(&ring, leader, "a", TAG_MODE_STRICT);
    (void)strict_take(&ring, leader, "a", 1, NULL);
    began_ms = ring.clock.now_ms;
    strict_mode(&ring, leader, "b", TAG_MODE_STRICT);
    (void)strict_take(&ring, leader, "b", 1, NULL);
    assert_true(ring.clock.now_ms - began_ms < 50);
    ring_run_ms(&ring, 500);
    assert_false(recalls->look || timer_is_armed(&recalls->command.pause));
    ring.lost[FRAME_REQUEST] = true;
    strict_mode(&ring, leader, "c", TAG_MODE_STRICT);
    for (unsigned i = 0; !timer_is_armed(&recalls->command.pause); i++) {
        assert_true(i < 2 * NODE_COMMAND_MS);
        ring_run_ms(&ring, 1);
    }
    ring.lost[FRAME_REQUEST] = false;
    (void)strict_take(&ring, leader, "c", 1, NULL);
}

/* More than one command takes. */
static void test_many_tags_become_strict_at_once(void **state)
{
    RING ring = {0};
    uint64_t leader = start(&ring);
    struct tag_put put = {.fields = TAG_FIELD_MODE};
    struct asked asked;
    char name[16];

    (void)state;
    (void)hold_everywhere(&ring, leader, "a");
    for (unsigned mode = TAG_MODE_TREND; mode <= TAG_MODE_STRICT; mode++) {
        asked_put(&asked, "a", 1); /* for its fields; the command is written anew */
        asked.base.payload.len = 0;
        command_put(&asked.base.payload, COMMAND_TAGS_PUT,
                    &(struct command_list){.force = false, .wall_ms = FAKE_WALL_MS});
        put.mode = (uint8_t)mode;
        for (unsigned i = 0; i < 2 * LIMIT_GRANTS_PER_ENTRY + 1; i++) {
            put.name = name;
            put.name_len = (uint16_t)snprintf(name, sizeof name, "tag-%u", i);
            command_item_put(&asked.base.payload, COMMAND_TAGS_PUT, &put);
        }
        command_items_end(&asked.base.payload);
        ask(&ring, leader, &asked, PATIENCE_MS);
        ring_settle(&ring);
        assert_int_equal(asked.done, 1);
        assert_int_equal(asked.base.status, 0);
        asked_free(&asked);
    }
    ring_run_ms(&ring, 500);
    for (uint64_t id = 1; id <= 3; id++) {
        assert_int_equal(ring_node(&ring, id)->ids.context.fsm->recalls.count, 0);
    }
    assert_int_equal(strict_take(&ring, leader, "tag-0", 1, NULL), 1);
    assert_int_equal(strict_take(&ring, leader, "tag-1024", 1, NULL), 1);
}

static void test_a_strict_tag_goes_back(void **state)
{
    RING ring = {0};
    uint64_t leader = start(&ring);
    uint64_t follower = ring_follower(&ring);
    struct asked asked;
    struct asked *waiting = &asked;
    uint64_t taken;

    (void)state;
    strict_mode(&ring, leader, "a", TAG_MODE_STRICT); /* new: nobody to wait for */
    assert_int_equal(strict_take(&ring, follower, "a", 9, NULL), 1);
    strict_mode(&ring, leader, "a", TAG_MODE_TREND);
    strict_ask(&ring, follower, &asked, "a", 1, NULL, PATIENCE_MS);
    strict_wait(&ring, &waiting, 1);
    (void)strict_told(&asked, ERR_WRONG_MODE);
    asked_free(&asked);
    ring_run_ms(&ring, 100);
    open_tag(&ring, follower, "a");
    taken = ring_take(&ring, follower, "a", 1);
    assert_int_equal(taken, 10);
    strict_mode(&ring, leader, "a", TAG_MODE_STRICT);
    assert_true(strict_take(&ring, leader, "a", 1, NULL) > taken);
}

/* The node has not applied the change when it is asked: what the leader knows counts. */
static void test_a_strict_tag_goes_back_on_a_node_that_is_behind(void **state)
{
    RING ring = {0};
    uint64_t leader = start(&ring);
    uint64_t behind = ring_follower(&ring);

    (void)state;
    strict_mode(&ring, leader, "a", TAG_MODE_STRICT);
    ring_run_ms(&ring, 100);
    open_tag(&ring, behind, "a");
    ring_node(&ring, behind)->disk_held = true;
    strict_mode(&ring, leader, "a", TAG_MODE_TREND);
    open_tag(&ring, behind, "a");
    assert_int_equal(ring_row(&ring, behind, "a")->mode, TAG_MODE_STRICT);
    assert_int_equal(id_table_find(ring_node(&ring, behind)->ids.table, "a", 1)->state,
                     ID_TAG_ACTIVE);
    assert_int_equal(ring_take(&ring, behind, "a", 1), 1);
    ring_node(&ring, behind)->disk_held = false;
    ring_run_ms(&ring, 100);
    assert_int_equal(ring_row(&ring, behind, "a")->mode, TAG_MODE_TREND);
    assert_int_equal(ring_take(&ring, behind, "a", 1), 2);
}

/* --- keys --- */

static void test_keys_need_time_and_room(void **state)
{
    RING ring = {.strict_keys = 2};
    struct ring timeless = {0};
    uint64_t leader = start(&timeless);
    struct asked asked;
    struct asked *waiting = &asked;

    (void)state;
    strict_mode(&timeless, leader, "a", TAG_MODE_STRICT);
    strict_ask(&timeless, leader, &asked, "a", 1, "key", 200);
    strict_wait(&timeless, &waiting, 1);
    (void)strict_told(&asked, ERR_EMPTY);
    asked_free(&asked);
    assert_int_equal(strict_take(&timeless, leader, "a", 1, NULL), 1);
    ring_close(&timeless);

    ring.keeps_time = true;
    leader = start(&ring);
    strict_mode(&ring, leader, "a", TAG_MODE_STRICT);
    ring_run_ms(&ring, 2000);
    assert_int_equal(strict_take(&ring, leader, "a", 2, "one"), 1);
    assert_int_equal(strict_take(&ring, leader, "a", 2, "two"), 3);
    strict_ask(&ring, leader, &asked, "a", 2, "three", PATIENCE_MS);
    strict_wait(&ring, &waiting, 1);
    assert_int_equal(strict_told(&asked, ERR_KEYS_FULL).detail, 2);
    asked_free(&asked);
    strict_ask(&ring, leader, &asked, "a", 3, "one", PATIENCE_MS);
    strict_wait(&ring, &waiting, 1);
    assert_int_equal(strict_told(&asked, ERR_KEY_CONFLICT).detail, 2);
    asked_free(&asked);
    assert_int_equal(strict_take(&ring, ring_follower(&ring), "a", 2, "one"), 1);
    assert_int_equal(strict_take(&ring, leader, "a", 1, NULL), 5);
}

/* --- turns --- */

/* What other nodes sent and what waits here is appended in one step: one write, one message a
 * follower. */
static void test_one_submit_a_turn(void **state)
{
    RING ring = {0};
    uint64_t leader = start(&ring);
    struct ring_node *node = ring_node(&ring, leader);
    struct asked asked[4];
    struct asked *const waiting[4] = {&asked[0], &asked[1], &asked[2], &asked[3]};
    uint64_t from[2] = {leader % 3 + 1, (leader + 1) % 3 + 1};
    uint64_t last;

    (void)state;
    strict_mode(&ring, leader, "a", TAG_MODE_STRICT);
    ring_run_ms(&ring, 200);
    last = entry_log_last(&node->replica.driver.log);
    assert_int_equal(fake_disk_count(&node->disk, STORE_APPEND), 0);
    fake_net_clear(&node->net);
    for (unsigned i = 0; i < 2; i++) { /* a follower's batch leaves it in the same turn */
        struct fake_frame *frame;

        strict_ask(&ring, from[i], &asked[i], "a", 1, NULL, PATIENCE_MS);
        assert_int_equal(fake_net_count(&ring_node(&ring, from[i])->net, leader, FRAME_REQUEST), 1);
        while ((frame = fake_net_take(&ring_node(&ring, from[i])->net)) != NULL) {
            assert_true(replica_receive(&node->replica.peers.receiver, from[i], frame->type,
                                        frame->payload.data, frame->payload.len));
            fake_frame_free(frame);
        }
    }
    strict_prepare(&asked[2], "a", 1, NULL);
    asked[2].base.deadline_ms = ring.clock.now_ms + PATIENCE_MS;
    id_service_submit(&node->ids, &asked[2].base);
    strict_ask(&ring, leader, &asked[3], "a", 1, NULL, PATIENCE_MS);       /* takes the turn */
    assert_int_equal(entry_log_last(&node->replica.driver.log), last + 3); /* a batch a node */
    assert_int_equal(fake_disk_count(&node->disk, STORE_APPEND), 1);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(fake_net_count(&node->net, from[i], FRAME_RAFT), 1);
    }
    strict_wait(&ring, waiting, 4);
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(strict_first(&asked[i]), i + 1);
        asked_free(&asked[i]);
    }
}

/* --- the end --- */

static void test_a_stop_answers_strict_requests(void **state)
{
    RING ring = {0};
    uint64_t leader = start(&ring);
    struct asked sent;
    struct asked late;

    (void)state;
    strict_mode(&ring, leader, "a", TAG_MODE_STRICT);
    ring_isolate(&ring, leader, true);
    strict_ask(&ring, leader, &sent, "a", 1, NULL, PATIENCE_MS);
    ring_settle(&ring);
    assert_int_equal(sent.done, 0);
    replica_stop(&ring_node(&ring, leader)->replica);
    strict_ask(&ring, leader, &late, "a", 1, NULL, PATIENCE_MS);
    assert_int_equal(sent.done, 1);
    assert_int_equal(sent.base.status, ERR_SHUTTING_DOWN);
    assert_int_equal(late.done, 1);
    assert_int_equal(late.base.status, ERR_SHUTTING_DOWN);
    asked_free(&sent);
    asked_free(&late);
}

/* The data directory of a node comes from a backup, and with it an older count of starts: what the
 * cluster remembers of its incarnations must not be taken for answers to what it asks now. */
static void test_a_node_whose_data_was_set_back(void **state)
{
    RING ring = {0};
    uint64_t leader = start(&ring);
    uint64_t back = ring_follower(&ring);
    const uint8_t incarnation[9] = {1, 1};   /* version, and a count of 1 */
    const uint8_t incarnations[13] = {1, 1}; /* and a random half of 0 */
    struct store_op op = {
        .kind = STORE_LOCAL, .local_key = LOCAL_INCARNATION, .local = incarnation, .local_len = 9};
    struct store_op list_op = {.kind = STORE_LOCAL,
                               .local_key = LOCAL_INCARNATIONS,
                               .local = incarnations,
                               .local_len = 13};
    struct store_op_list list = STAILQ_HEAD_INITIALIZER(list);
    struct store_error error;
    struct asked asked;
    struct asked *waiting = &asked;

    (void)state;
    strict_mode(&ring, leader, "a", TAG_MODE_STRICT);
    for (unsigned i = 0; i < 3; i++) { /* incarnations 1 to 4 */
        ring_crash(&ring, back);
        ring_restart(&ring, back);
        ring_run_ms(&ring, 100);
    }
    for (uint64_t i = 1; i <= 3; i++) {
        assert_int_equal(strict_take(&ring, back, "a", 1, NULL), i);
    }
    ring_crash(&ring, back);
    STAILQ_INSERT_TAIL(&list, &op, link);
    STAILQ_INSERT_TAIL(&list, &list_op, link);
    assert_int_equal(
        ring_node(&ring, back)->store->ops->commit(ring_node(&ring, back)->store, &list, &error),
        0);
    ring_restart(&ring, back);
    ring_run_ms(&ring, 200); /* it says whose start it is, and hears of a later one */
    assert_true(ring_node(&ring, back)->replica.superseded >
                ring_node(&ring, back)->replica.config.driver.incarnation);
    strict_ask(&ring, back, &asked, "a", 1, NULL, PATIENCE_MS);
    strict_wait(&ring, &waiting, 1);
    assert_int_equal(asked.base.status, ERR_TIMEOUT);
    asked_free(&asked);
    assert_int_equal(strict_take(&ring, leader, "a", 1, NULL), 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_tag_becomes_strict),
        cmocka_unit_test(test_a_node_that_is_cut_off_is_waited_for),
        cmocka_unit_test(test_a_node_that_is_down_is_waited_for),
        cmocka_unit_test(test_when_a_node_reports),
        cmocka_unit_test(test_many_tags_become_strict_at_once),
        cmocka_unit_test(test_a_strict_tag_goes_back),
        cmocka_unit_test(test_a_strict_tag_goes_back_on_a_node_that_is_behind),
        cmocka_unit_test(test_keys_need_time_and_room),
        cmocka_unit_test(test_one_submit_a_turn),
        cmocka_unit_test(test_a_stop_answers_strict_requests),
        cmocka_unit_test(test_a_node_whose_data_was_set_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
