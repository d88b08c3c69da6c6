/*
 * test_requests_bounds.c - what is not taken: beyond a bound, on a low disk, while stopping, and
 * what is malformed.
 *
 * Thread: one.
 */
#include <stdlib.h>
#include <string.h>

#include "src/tests/unit/test.h"
#include "raft/core/tests/core_frames.h"
#include "raft/cluster/tests/requests_scene.h"
#include "src/id/fsm/fsm_tables.h"

#define PATIENCE_MS 3000

static void test_pending_requests_up_to_the_limit(void **state)
{
    struct asked *asked = calloc(LIMIT_REQUESTS_PENDING + 1, sizeof *asked);
    RING ring = {0};
    unsigned refused = 0;

    (void)state;
    assert_non_null(asked);
    ring_start(&ring, 3);
    ring_isolate(&ring, 1, true);
    for (unsigned i = 0; i <= LIMIT_REQUESTS_PENDING; i++) {
        asked_get(&asked[i], "a");
        asked[i].base.deadline_ms = ring.clock.now_ms + 100;
        id_service_submit(&ring_node(&ring, 1)->ids, &asked[i].base);
    }
    (void)replica_turn(&ring_node(&ring, 1)->replica);
    for (unsigned i = 0; i < LIMIT_REQUESTS_PENDING; i++) {
        refused += asked[i].done;
    }
    assert_int_equal(refused, 0); /* at the limit */
    assert_int_equal(asked[LIMIT_REQUESTS_PENDING].done, 1);
    assert_int_equal(asked[LIMIT_REQUESTS_PENDING].base.status, ERR_OVERLOADED);
    ring_run_ms(&ring, 120);
    for (unsigned i = 0; i < LIMIT_REQUESTS_PENDING; i++) {
        assert_int_equal(asked[i].done, 1);
        assert_int_equal(asked[i].base.status, ERR_NO_LEADER);
        asked_free(&asked[i]);
    }
    asked_free(&asked[LIMIT_REQUESTS_PENDING]);
    free(asked);
    assert_int_equal(requests_of(&ring, 1)->count, 0);
}

static void test_work_at_the_leader_up_to_the_limit(void **state)
{
    struct trio *t = *state;
    struct wire_request request = {0,    0,          CLUSTER_REQUEST_QUERY,
                                   1000, NOOP_BYTES, sizeof NOOP_BYTES};
    struct replica *replica;
    struct fake_frame *sent;
    struct wire_reply reply;

    replica = &ring_node(&t->ring, t->leader)->replica;
    for (unsigned i = 0; i <= LIMIT_REQUESTS_PENDING; i++) {
        struct buf frame = BUF_INIT;

        request.id = i;
        wire_request_encode(&request, &frame);
        assert_true(replica_receive(&replica->peers.receiver, t->follower, FRAME_REQUEST,
                                    frame.data, frame.len));
        assert_int_equal(ring_node(&t->ring, t->leader)->net.frame_count,
                         i == LIMIT_REQUESTS_PENDING);
        buf_free(&frame);
    }
    sent = fake_net_take(&ring_node(&t->ring, t->leader)->net);
    assert_int_equal(wire_reply_decode(sent->payload.data, sent->payload.len, &reply), 0);
    assert_int_equal(reply.id, LIMIT_REQUESTS_PENDING);
    assert_int_equal(reply.status, ERR_OVERLOADED);
    fake_frame_free(sent);
    ring_settle(&t->ring);
    scene_expect_idle(&t->ring, false);
}

static void test_a_payload_up_to_the_limit(void **state)
{
    struct trio *t = *state;
    struct asked fits;
    struct asked large;

    asked_put(&fits, "fits", 10);
    asked_put(&large, "large", 10);
    buf_reserve(&fits.base.payload, LIMIT_ENTRY_BYTES);
    buf_reserve(&large.base.payload, LIMIT_ENTRY_BYTES + 1);
    memset(fits.base.payload.data, 0, LIMIT_ENTRY_BYTES);
    memset(large.base.payload.data, 0, LIMIT_ENTRY_BYTES + 1);
    fits.base.payload.data[0] = COMMAND_VERSION; /* a stamp fits it, but nothing else does */
    fits.base.payload.len = LIMIT_ENTRY_BYTES;
    large.base.payload.len = LIMIT_ENTRY_BYTES + 1;
    ask(&t->ring, t->follower, &large, PATIENCE_MS);
    assert_int_equal(large.done, 1);
    assert_int_equal(large.base.status, ERR_TOO_LARGE);
    ask(&t->ring, t->follower, &fits, PATIENCE_MS);
    ring_settle(&t->ring);
    assert_int_equal(fits.done, 1);
    assert_int_equal(fits.base.status, ERR_REFUSED); /* it came through: it is no command */
    scene_expect_idle(&t->ring, false);
    asked_free(&fits);
    asked_free(&large);
}

/* Of a tag with lengths as these. */
static uint64_t tag_bytes(uint16_t name_len, uint16_t description_len, bool deleted)
{
    return fsm_tag_bytes(&(struct tag_row){
        .name_len = name_len, .description_len = description_len, .deleted = deleted});
}

/* A put, and its status. */
static int put_on(struct ring *ring, uint64_t node, const char *tag)
{
    struct asked asked;
    int status;

    asked_put(&asked, tag, 10);
    ask(ring, node, &asked, PATIENCE_MS);
    ring_settle(ring);
    assert_true(asked.done);
    status = asked.base.status;
    asked_free(&asked);
    return status;
}

/* The leader counts what it appended, too: of many at once no more are taken than there is room
 * for. What is there already can be changed, and made again; a deleted tag still counts. */
static void test_a_full_state_takes_no_new_tags(void **state)
{
    enum { ROOM = 20, ASKED = 30 };
    RING ring = {.memory_bytes = ROOM * tag_bytes(3, 0, false) + 4096};
    struct asked many[ASKED];
    unsigned full = 0;
    uint64_t leader;
    uint64_t follower;
    struct fsm_usage usage;

    (void)state;
    scene_start(&ring, &leader, &follower);
    for (unsigned i = 0; i < ASKED; i++) {
        char tag[8];

        snprintf(tag, sizeof tag, "t%02u", i);
        asked_put(&many[i], tag, 10);
        ask(&ring, i % 2 == 0 ? leader : follower, &many[i], PATIENCE_MS);
    }
    ring_settle(&ring);
    for (unsigned i = 0; i < ASKED; i++) {
        assert_true(many[i].done);
        assert_true(many[i].base.status == 0 || many[i].base.status == ERR_STATE_FULL);
        full += many[i].base.status == ERR_STATE_FULL;
        asked_free(&many[i]);
    }
    fsm_usage(ring_node(&ring, leader)->ids.context.fsm, &usage);
    assert_int_equal(usage.tags, ASKED - full);
    assert_true(full >= ASKED - ROOM - 4096 / tag_bytes(3, 0, false) && full < ASKED - ROOM / 2);
    assert_true(usage.tags * tag_bytes(3, 0, false) <= ring.memory_bytes);
    assert_int_equal(put_on(&ring, follower, "new"), ERR_STATE_FULL);
    assert_null(ring_row(&ring, leader, "new"));
    assert_int_equal(put_on(&ring, follower, "t00"), 0);
    assert_int_equal(ring_node(&ring, leader)->replica.requests.serving.adds_bytes, 0);
    assert_true(state_memory(ring_node(&ring, leader)->replica.state) <= ring.memory_bytes);
    scene_expect_idle(&ring, false);
}

/* What a put, or an acquire, was answered. */
static int result_of(struct ring *ring, uint64_t node, struct asked *asked, char why[96])
{
    const struct buf *reply = &asked->base.reply;
    struct put_result put;
    struct worker_result worker;
    int status;

    ask(ring, node, asked, PATIENCE_MS);
    ring_settle(ring);
    assert_int_equal(asked->base.status, 0);
    if (put_result_decode(reply->data, reply->len, &put) == 0) {
        memcpy(why, put.why, sizeof put.why);
        status = put.status;
    } else {
        assert_int_equal(worker_result_decode(reply->data, reply->len, &worker), 0);
        status = worker.status;
    }
    asked_free(asked);
    return status;
}

/* A client's. */
static void asked_acquire(struct asked *asked, const char *name)
{
    asked_get(asked, name); /* for what every request has */
    asked->base.kind = CLUSTER_REQUEST_COMMAND;
    asked->base.payload.len = 0;
    command_put(&asked->base.payload, COMMAND_WORKER_ACQUIRE,
                &(struct worker_acquire){.kind = WORKER_CLIENT,
                                         .worker_id = WORKER_ID_ANY,
                                         .window_ms = LIMIT_WINDOW_MIN_MS,
                                         .wall_ms = FAKE_WALL_MS,
                                         .name = name,
                                         .name_len = (uint16_t)strlen(name),
                                         .address = "",
                                         .client = 9,
                                         .percent = 100});
}

/* Into the log as it is, as leaders before this rule did. */
static void append(struct ring *ring, uint64_t leader, struct asked *asked, uint64_t seq)
{
    uint64_t index;
    uint64_t term;

    session_stamp_put(&asked->base.payload, &(struct session_stamp){9, 1, seq, 1});
    assert_int_equal(driver_submit(&ring_node(ring, leader)->replica.driver, &asked->base.payload,
                                   1, &index, &term),
                     0);
    ring_run_ms(ring, 500);
    asked_free(asked);
}

/* Nobody makes a tag, or takes a worker id, by such a name; by whatever node, and in a list. What
 * has it already is changed, acquired again and deleted; and then the name is gone. */
static void test_a_hidden_name_is_for_what_is_there(void **state)
{
    static const char name[] = "or\xe2\x80\x8b"
                               "der";
    RING ring = {.keeps_time = true, .workers = 1};
    struct asked asked;
    uint64_t leader;
    uint64_t follower;
    char why[96] = "";

    (void)state;
    scene_start(&ring, &leader, &follower);
    ring_run_ms(&ring, 2000); /* the log has a time, and a layout */
    for (unsigned i = 0; i < 2; i++) {
        asked_put(&asked, name, 10);
        assert_int_equal(result_of(&ring, i == 0 ? leader : follower, &asked, why), ERR_INVALID);
        assert_string_equal(
            why, "name: U+200B at character 3 is invisible, or changes how others are shown");
    }
    assert_null(ring_row(&ring, leader, name));
    asked_put(&asked, name, 10);
    append(&ring, leader, &asked, 1);
    assert_int_equal(ring_row(&ring, follower, name)->step, 10);
    asked_put(&asked, name, 20);
    assert_int_equal(result_of(&ring, follower, &asked, why), 0);
    assert_int_equal(ring_row(&ring, leader, name)->step, 20);
    asked_delete(&asked, name);
    ask(&ring, follower, &asked, PATIENCE_MS);
    ring_settle(&ring);
    asked_free(&asked);
    assert_true(ring_row(&ring, leader, name)->deleted);
    asked_put(&asked, name, 10);
    assert_int_equal(result_of(&ring, follower, &asked, why), ERR_INVALID);

    asked_acquire(&asked, name);
    assert_int_equal(result_of(&ring, follower, &asked, why), ERR_INVALID);
    asked_acquire(&asked, name);
    append(&ring, leader, &asked, 2);
    asked_acquire(&asked, name);
    assert_int_equal(result_of(&ring, follower, &asked, why), 0);
    asked_acquire(&asked, "order");
    assert_int_equal(result_of(&ring, follower, &asked, why), 0);
    scene_expect_idle(&ring, true);
}

/* Shows P8-disk. */
static void test_low_disks_refuse_commands(void **state)
{
    struct trio *t = *state;
    struct asked local;
    struct asked remote;
    struct asked query;

    ring_make(&t->ring, t->leader, "a", 10);
    for (uint64_t id = 1; id <= 3; id++) { /* else one with room would lead instead */
        ring_node(&t->ring, id)->disk.low = true;
    }
    asked_put(&local, "local", 10);
    asked_put(&remote, "remote", 10);
    asked_get(&query, "a");
    ask(&t->ring, t->leader, &local, PATIENCE_MS);
    ask(&t->ring, t->follower, &remote, PATIENCE_MS);
    ask(&t->ring, t->follower, &query, PATIENCE_MS);
    ring_settle(&t->ring);
    assert_int_equal(local.base.status, ERR_DISK_FULL);
    assert_int_equal(remote.base.status, ERR_DISK_FULL);
    assert_int_equal(local.done + remote.done + query.done, 3);
    assert_int_equal(query.base.status, 0); /* reading goes on */
    assert_null(ring_row(&t->ring, t->leader, "local"));
    assert_true(atomic_load(&ring_node(&t->ring, t->leader)->ids.health.seen.disk_low));
    scene_expect_idle(&t->ring, false);
    asked_free(&local);
    asked_free(&remote);
    asked_free(&query);
}

static void test_stop_answers_everything(void **state)
{
    struct trio *t = *state;
    struct asked asked[3];
    struct asked after;

    t->ring.lost[FRAME_RAFT] = true;
    asked_put(&asked[0], "a", 10);
    asked_get(&asked[1], "a");
    asked_put(&asked[2], "b", 10);
    asked_get(&after, "a");
    ask(&t->ring, t->leader, &asked[0], PATIENCE_MS); /* appended */
    ask(&t->ring, t->leader, &asked[1], PATIENCE_MS);
    ask(&t->ring, t->follower, &asked[2], PATIENCE_MS);
    replica_stop(&ring_node(&t->ring, t->leader)->replica);
    assert_int_equal(asked[0].done, 0); /* never from inside a call */
    ring_turn(&t->ring, t->leader);
    replica_stop(&ring_node(&t->ring, t->follower)->replica);
    ring_turn(&t->ring, t->follower);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(asked[i].done, 1);
        assert_int_equal(asked[i].base.status, ERR_SHUTTING_DOWN);
        asked_free(&asked[i]);
    }
    ask(&t->ring, t->leader, &after, PATIENCE_MS);
    assert_int_equal(after.done, 1);
    assert_int_equal(after.base.status, ERR_SHUTTING_DOWN);
    asked_free(&after);
    assert_int_equal(requests_of(&t->ring, t->leader)->serving.count, 0);
}

static void test_malformed_frames_are_told(void **state)
{
    struct trio *t = *state;
    static const enum frame_type types[] = {FRAME_REQUEST, FRAME_REPLY, FRAME_CONFIRM,
                                            FRAME_CONFIRM_ACK};
    static const uint8_t bytes[3] = {1, 2, 3};

    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        assert_false(replica_receive(&ring_node(&t->ring, t->leader)->replica.peers.receiver,
                                     t->follower, types[i], bytes, sizeof bytes));
    }
    assert_false(replica_receive(&ring_node(&t->ring, t->leader)->replica.peers.receiver,
                                 t->follower, FRAME_PING, bytes, 3));
    scene_expect_idle(&t->ring, false);
}

/* --- large commands --- */

#define LARGE_ITEMS 400
#define TURNS 3 /* that the ring gives a millisecond each: seen to be applied, admitted, appended */

/* So many tags in one command. */
static void asked_tags(struct asked *asked, char prefix, unsigned items)
{
    char text[LIMIT_TAG_DESCRIPTION_BYTES];
    struct buf *payload = &asked->base.payload;

    memset(text, 'd', sizeof text);
    asked_put(asked, "replaced", 10);
    buf_free(payload);
    command_put(payload, COMMAND_TAGS_PUT, &(struct command_list){.wall_ms = FAKE_WALL_MS});
    for (unsigned i = 0; i < items; i++) {
        char name[] = {prefix, (char)('a' + i / 676), (char)('a' + i / 26 % 26),
                       (char)('a' + i % 26)};
        struct tag_put put = {.name = name,
                              .name_len = sizeof name,
                              .fields = TAG_FIELD_DESCRIPTION,
                              .description = text,
                              .description_len = sizeof text};

        command_item_put(payload, COMMAND_TAGS_PUT, &put);
    }
    command_items_end(payload);
    assert_true(payload->len > 64 << 10);
}

/* As many as make it a large one. */
static void asked_bulk(struct asked *asked, char prefix)
{
    asked_tags(asked, prefix, LARGE_ITEMS);
}

/* As many as are judged in several turns. */
static void asked_judged(struct asked *asked, char prefix)
{
    asked_tags(asked, prefix, 1000);
}

static unsigned large_entries(const struct driver *driver)
{
    unsigned count = 0;

    for (uint64_t at = driver->log.first; at <= entry_log_last(&driver->log); at++) {
        count += entry_log_get(&driver->log, at)->block->len > 64 << 10;
    }
    return count;
}

/* Of several large changes one is under way; what is small does not wait for the others. Also when
 * they come from another node, and when the leader changes meanwhile. */
static void test_large_commands_go_one_at_a_time(void **state)
{
    struct asked bulks[4];
    struct asked small;
    RING ring = {0};
    struct driver *driver;
    uint64_t leader;

    (void)state;
    ring_start(&ring, 3);
    leader = ring_elect(&ring);
    driver = &ring_node(&ring, leader)->replica.driver;
    for (uint64_t id = 1; id <= 3; id++) {
        ring_node(&ring, id)->disk_held = id != leader;
    }
    for (unsigned i = 0; i < 4; i++) {
        asked_bulk(&bulks[i], (char)('a' + i));
        ask(&ring, i < 2 ? leader : ring_follower(&ring), &bulks[i], PATIENCE_MS);
    }
    asked_put(&small, "small", 10);
    ask(&ring, leader, &small, PATIENCE_MS);
    ring_run_ms(&ring, 20);
    assert_int_equal(large_entries(driver), 1);
    assert_true(entry_log_get(&driver->log, entry_log_last(&driver->log))->block->len < 1000);
    for (uint64_t id = 1; id <= 3; id++) {
        ring_node(&ring, id)->disk_held = false;
    }
    ring_settle(&ring);
    assert_int_equal(small.done, 1);
    ring_run_ms(&ring, 500);
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(bulks[i].done, 1);
        assert_int_equal(bulks[i].base.status, 0);
        asked_free(&bulks[i]);
    }
    assert_int_equal(large_entries(driver), 4);
    asked_free(&small);
}

/* They are copied into frames: one in a turn. */
static void test_large_requests_leave_one_a_turn(void **state)
{
    struct trio *t = *state;
    struct replica *replica = replica_of(&t->ring, t->follower);
    struct cluster_request *request;
    struct asked bulks[3];
    unsigned sent;

    for (unsigned i = 0; i < 3; i++) {
        asked_tags(&bulks[i], (char)('a' + i), 4200);
        assert_true(bulks[i].base.payload.len > 1 << 20);
        bulks[i].base.deadline_ms = t->ring.clock.now_ms + PATIENCE_MS;
        id_service_submit(&ring_node(&t->ring, t->follower)->ids, &bulks[i].base);
    }
    for (unsigned turns = 1; turns <= 3; turns++) {
        (void)replica_turn(replica);
        sent = 0;
        TAILQ_FOREACH (request, &replica->requests.sent, link) {
            sent++;
        }
        assert_int_equal(sent, turns);
    }
    ring_settle(&t->ring);
    ring_run_ms(&t->ring, 3000);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(bulks[i].done, 1);
        assert_int_equal(bulks[i].base.status, 0);
        asked_free(&bulks[i]);
    }
}

/* However quick disks and links are, and however many wait: so many bytes a millisecond, and then
 * the next. */
static void test_large_commands_leave_time(void **state)
{
    struct asked bulks[4];
    RING ring = {0};
    struct driver *driver;
    uint64_t leader;
    unsigned each_ms = 0;

    (void)state;
    ring_start(&ring, 3);
    leader = ring_elect(&ring);
    driver = &ring_node(&ring, leader)->replica.driver;
    for (unsigned i = 0; i < 4; i++) {
        asked_bulk(&bulks[i], (char)('a' + i));
        each_ms = (unsigned)(bulks[i].base.payload.len / (4 << 10));
        ask(&ring, leader, &bulks[i], PATIENCE_MS);
    }
    assert_true(each_ms >= 8);
    ring_settle(&ring);
    for (unsigned ms = 0; ms < 3 * (each_ms + TURNS); ms++) {
        assert_in_range(large_entries(driver), 1 + ms / (each_ms + TURNS), 1 + ms / each_ms);
        ring_run_ms(&ring, 1);
    }
    assert_int_equal(large_entries(driver), 4);
    ring_settle(&ring);
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(bulks[i].done, 1);
        assert_int_equal(bulks[i].base.status, 0);
        asked_free(&bulks[i]);
    }
}

/* While the leader's disk owes rows no other large one begins; what is small does not wait. */
static void test_large_commands_wait_for_the_disk(void **state)
{
    struct asked bulk;
    struct asked small;
    RING ring = {0};
    uint64_t leader;

    (void)state;
    ring_start(&ring, 3);
    leader = ring_elect(&ring);
    ring_node(&ring, leader)->disk.owes = true;
    asked_bulk(&bulk, 'a');
    asked_put(&small, "small", 10);
    ask(&ring, leader, &bulk, PATIENCE_MS);
    ask(&ring, leader, &small, PATIENCE_MS);
    ring_run_ms(&ring, 200);
    assert_int_equal(small.done, 1);
    assert_int_equal(large_entries(&ring_node(&ring, leader)->replica.driver), 0);
    ring_node(&ring, leader)->disk.owes = false;
    ring_run_ms(&ring, 200);
    assert_int_equal(bulk.done, 1);
    assert_int_equal(bulk.base.status, 0);
    asked_free(&bulk);
    asked_free(&small);
}

/* Those that wait go to the next leader. */
static void test_large_commands_outlive_their_leader(void **state)
{
    struct asked bulks[3];
    RING ring = {0};
    uint64_t leader;

    (void)state;
    ring_start(&ring, 3);
    leader = ring_elect(&ring);
    for (uint64_t id = 1; id <= 3; id++) {
        ring_node(&ring, id)->disk_held = id != leader;
    }
    for (unsigned i = 0; i < 3; i++) {
        asked_bulk(&bulks[i], (char)('a' + i));
        ask(&ring, leader, &bulks[i], 10 * PATIENCE_MS);
    }
    ring_isolate(&ring, leader, true);
    for (uint64_t id = 1; id <= 3; id++) {
        ring_node(&ring, id)->disk_held = false;
    }
    ring_run_ms(&ring, PATIENCE_MS);
    ring_isolate(&ring, leader, false);
    ring_run_ms(&ring, PATIENCE_MS);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(bulks[i].done, 1);
        assert_int_equal(bulks[i].base.status, 0);
        asked_free(&bulks[i]);
    }
}

static void expect_equal_states(struct ring *ring)
{
    const struct driver *first = &ring_node(ring, 1)->replica.driver;

    for (uint64_t id = 2; id <= 3; id++) {
        const struct driver *driver = &ring_node(ring, id)->replica.driver;

        assert_true(driver_applied(driver)->index == driver_applied(first)->index);
        assert_true(state_digest(driver->applier.state) == state_digest(first->applier.state));
    }
}

/* The leader judges it as soon as it is the next to be applied, whatever disks and links do: then
 * only the carrying out is left when it is committed. */
static void test_a_large_command_is_judged_while_it_is_stored(void **state)
{
    struct asked bulk;
    RING ring = {0};
    struct driver *driver;
    uint64_t applied;
    uint64_t leader;

    (void)state;
    ring_start(&ring, 3);
    leader = ring_elect(&ring);
    driver = &ring_node(&ring, leader)->replica.driver;
    ring_settle(&ring);
    applied = driver_applied(driver)->index;
    for (uint64_t id = 1; id <= 3; id++) {
        ring_node(&ring, id)->disk_held = true;
    }
    asked_judged(&bulk, 'a');
    ask(&ring, ring_follower(&ring), &bulk, PATIENCE_MS);
    ring_run_ms(&ring, 20);
    assert_int_equal(large_entries(driver), 1);
    assert_true(driver_applied(driver)->index == applied && driver->commit == applied);
    assert_non_null(driver->foreseen);
    assert_null(fsm_tag(fsm_of(driver->applier.state), "aaaa", 4));
    for (uint64_t id = 1; id <= 3; id++) {
        assert_true((ring_node(&ring, id)->replica.driver.foreseen != NULL) == (id == leader));
        ring_node(&ring, id)->disk_held = false;
    }
    ring_run_ms(&ring, 500);
    assert_int_equal(bulk.done, 1);
    assert_int_equal(bulk.base.status, 0);
    assert_null(driver->foreseen);
    assert_non_null(fsm_tag(fsm_of(driver->applier.state), "aaaa", 4));
    expect_equal_states(&ring);
    asked_free(&bulk);
}

/* What was judged and never committed counts for nothing, also where the next leader puts another
 * large command in its very place. */
static void test_a_large_command_that_was_judged_may_be_lost(void **state)
{
    struct asked lost;
    struct asked taken;
    RING ring = {0};
    struct driver *driver;
    uint64_t leader;
    uint64_t index;

    (void)state;
    ring_start(&ring, 3);
    leader = ring_elect(&ring);
    driver = &ring_node(&ring, leader)->replica.driver;
    ring_settle(&ring);
    ring_isolate(&ring, leader, true);
    asked_judged(&lost, 'a');
    ask(&ring, leader, &lost, 10);
    ring_run_ms(&ring, 5);
    assert_non_null(driver->foreseen);
    index = entry_log_last(&driver->log);
    asked_judged(&taken, 'b');
    ask(&ring, leader % 3 + 1, &taken, 10 * PATIENCE_MS);
    ring_run_ms(&ring, PATIENCE_MS);
    assert_int_equal(taken.done, 1);
    assert_int_equal(taken.base.status, 0);
    ring_isolate(&ring, leader, false);
    ring_run_ms(&ring, PATIENCE_MS);
    assert_true(driver_applied(driver)->index > index);
    assert_null(driver->foreseen);
    assert_null(fsm_tag(fsm_of(driver->applier.state), "aaaa", 4));
    assert_non_null(fsm_tag(fsm_of(driver->applier.state), "baaa", 4));
    expect_equal_states(&ring);
    asked_free(&lost);
    asked_free(&taken);
}

/* A request behind a large one, and whether that was still to be answered when it was. */
struct behind {
    struct asked asked;
    const struct serving *serving;
    bool was_first;
};

static void behind_done(struct cluster_request *request)
{
    struct behind *behind = CONTAINER(request, struct behind, asked.base);

    behind->asked.done++;
    behind->was_first = !TAILQ_EMPTY(&behind->serving->large_done);
}

/* Another node's large change is answered, with a mark for each of its tags, a turn after it was
 * applied: a small command behind it in the log is answered first. */
static void test_what_stands_behind_a_large_command_is_answered_first(void **state)
{
    struct behind small = {.was_first = false};
    struct asked bulk;
    RING ring = {0};
    uint64_t leader;

    (void)state;
    ring_start(&ring, 3);
    leader = ring_elect(&ring);
    small.serving = &requests_of(&ring, leader)->serving;
    for (uint64_t id = 1; id <= 3; id++) {
        ring_node(&ring, id)->disk_held = true;
    }
    asked_judged(&bulk, 'a');
    ask(&ring, ring_follower(&ring), &bulk, PATIENCE_MS);
    ring_run_ms(&ring, 20);
    asked_put(&small.asked, "small", 10);
    small.asked.base.done = behind_done;
    ask(&ring, leader, &small.asked, PATIENCE_MS);
    ring_run_ms(&ring, 20);
    assert_int_equal(bulk.done + small.asked.done, 0);
    for (uint64_t id = 1; id <= 3; id++) {
        ring_node(&ring, id)->disk_held = false;
    }
    ring_run_ms(&ring, 500);
    assert_int_equal(small.asked.done, 1);
    assert_true(small.was_first);
    assert_int_equal(bulk.done, 1);
    assert_int_equal(bulk.base.status, 0);
    asked_free(&small.asked);
    asked_free(&bulk);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_large_commands_go_one_at_a_time),
        TRIO_TEST(test_large_requests_leave_one_a_turn),
        cmocka_unit_test(test_large_commands_leave_time),
        cmocka_unit_test(test_large_commands_wait_for_the_disk),
        cmocka_unit_test(test_a_large_command_is_judged_while_it_is_stored),
        cmocka_unit_test(test_a_large_command_that_was_judged_may_be_lost),
        cmocka_unit_test(test_what_stands_behind_a_large_command_is_answered_first),
        cmocka_unit_test(test_large_commands_outlive_their_leader),
        cmocka_unit_test(test_pending_requests_up_to_the_limit),
        TRIO_TEST(test_work_at_the_leader_up_to_the_limit),
        TRIO_TEST(test_a_payload_up_to_the_limit),
        TRIO_TEST(test_low_disks_refuse_commands),
        cmocka_unit_test(test_a_full_state_takes_no_new_tags),
        cmocka_unit_test(test_a_hidden_name_is_for_what_is_there),
        TRIO_TEST(test_stop_answers_everything),
        TRIO_TEST(test_malformed_frames_are_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
