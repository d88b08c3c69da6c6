/*
 * test_forwarder.c - what a member does with requests that it passes on to the leader for
 * another one (requests.c): once and no further, within bounds, for members alone.
 *
 * Thread: one.
 */
#include <stdlib.h>
#include <string.h>

#include "src/tests/unit/test.h"
#include "raft/core/driver.h"
#include "raft/core/tests/core_frames.h"
#include "raft/cluster/tests/requests_scene.h"

#define LEFT_MS 1000

static void start(struct ring *ring, struct roles *ret_roles)
{
    scene_start_roles(ring, 3, ret_roles);
    ring_run_ms(ring, 200); /* all have registered */
    memset(ring->passed, 0, sizeof ring->passed);
}

/* A frame with a request comes from a peer; what the receiver says of it. */
static bool receive(struct ring *ring, uint64_t to, uint64_t from, enum frame_type type,
                    const struct wire_request *request)
{
    struct buf frame = BUF_INIT;

    wire_request_encode(request, &frame);
    return scene_receive(ring, to, from, type, &frame);
}

/* A query for a row. */
static struct wire_request query_of(uint64_t id, struct buf *payload)
{
    query_get_encode(payload, "a", 1);
    return (struct wire_request){.id = id,
                                 .kind = CLUSTER_REQUEST_QUERY,
                                 .time_left_ms = LEFT_MS,
                                 .payload = payload->data,
                                 .payload_len = payload->len};
}

/* The next thing that the node sent is this reply, to this node. */
static void expect_reply(struct ring *ring, uint64_t by, uint64_t to, uint64_t id, int status)
{
    struct fake_frame *sent = fake_net_take(&ring_node(ring, by)->net);
    struct wire_reply reply;

    assert_non_null(sent);
    assert_int_equal(sent->to, to);
    assert_int_equal(sent->type, FRAME_REPLY);
    assert_int_equal(wire_reply_decode(sent->payload.data, sent->payload.len, &reply), 0);
    assert_int_equal(reply.id, id);
    assert_int_equal(reply.status, status);
    fake_frame_free(sent);
}

/* Somebody asks it to ask on; the answer comes at once. */
static void expect_probe(struct ring *ring, uint64_t by, uint64_t to, uint8_t kind)
{
    const struct wire_probe ask_on = {WIRE_PROBE_ASK_ON, 0, 5};
    struct buf frame = BUF_INIT;
    struct fake_frame *sent;
    struct wire_probe answer;

    wire_probe_encode(&ask_on, &frame);
    assert_true(scene_receive(ring, by, to, FRAME_PROBE, &frame));
    sent = fake_net_take(&ring_node(ring, by)->net);
    assert_non_null(sent);
    assert_int_equal(sent->to, to);
    assert_int_equal(sent->type, FRAME_PROBE);
    assert_int_equal(wire_probe_decode(sent->payload.data, sent->payload.len, &answer), 0);
    assert_int_equal(answer.kind, kind);
    assert_int_equal(answer.round, 5);
    fake_frame_free(sent);
    buf_free(&frame);
}

static void expect_nothing_kept(struct ring *ring, uint64_t id)
{
    assert_int_equal(requests_of(ring, id)->forwarder.count, 0);
    assert_int_equal(requests_of(ring, id)->forwarder.bytes, 0);
}

/* --- there and back --- */

/* The leader has it from the member that passed it on, under that one's number, and with its
 * origin; the answer finds its route back under the origin's. */
static void test_a_request_goes_on_and_its_answer_back(void **state)
{
    struct buf payload = BUF_INIT;
    struct wire_request query = query_of(77, &payload);
    struct wire_reply reply = {.status = ERR_UNKNOWN_TAG};
    struct wire_request passed;
    struct buf frame = BUF_INIT;
    RING ring = {0};
    struct roles roles;
    struct fake_frame *sent;

    (void)state;
    start(&ring, &roles);
    assert_true(receive(&ring, roles.forwarder, roles.far, FRAME_FORWARD, &query));
    assert_int_equal(requests_of(&ring, roles.forwarder)->forwarder.count, 1);
    assert_int_equal(requests_of(&ring, roles.forwarder)->forwarder.bytes, payload.len);
    sent = fake_net_take(&ring_node(&ring, roles.forwarder)->net);
    assert_non_null(sent);
    assert_int_equal(sent->to, roles.leader);
    assert_int_equal(sent->type, FRAME_REQUEST);
    assert_int_equal(wire_request_decode(sent->payload.data, sent->payload.len, &passed), 0);
    assert_int_not_equal(passed.id, 77);
    assert_int_equal(passed.origin, roles.far);
    assert_int_equal(passed.kind, CLUSTER_REQUEST_QUERY);
    assert_int_equal(passed.time_left_ms, LEFT_MS);
    assert_memory_equal(passed.payload, payload.data, payload.len);
    fake_frame_free(sent);
    reply.id = passed.id;
    wire_reply_encode(&reply, &frame);
    assert_true(scene_receive(&ring, roles.forwarder, roles.leader, FRAME_REPLY, &frame));
    expect_reply(&ring, roles.forwarder, roles.far, 77, ERR_UNKNOWN_TAG);
    expect_nothing_kept(&ring, roles.forwarder);
    buf_free(&payload);
    buf_free(&frame);
}

static void test_whoever_leads_serves_what_it_was_to_pass_on(void **state)
{
    struct buf payload = BUF_INIT;
    struct wire_request query = query_of(77, &payload);
    RING ring = {0};
    struct roles roles;

    (void)state;
    start(&ring, &roles);
    expect_probe(&ring, roles.leader, roles.far, WIRE_PROBE_YES);
    assert_true(receive(&ring, roles.leader, roles.far, FRAME_FORWARD, &query));
    assert_int_equal(requests_of(&ring, roles.leader)->serving.count, 1);
    expect_nothing_kept(&ring, roles.leader);
    ring_settle(&ring);
    assert_int_equal(ring.passed[FRAME_REPLY], 1);
    assert_int_equal(ring.passed[FRAME_REQUEST], 0);
    buf_free(&payload);
}

/* --- no further --- */

static void test_a_request_that_was_passed_on_is_not_passed_on_again(void **state)
{
    struct buf payload = BUF_INIT;
    struct wire_request query = query_of(77, &payload);
    RING ring = {0};
    struct roles roles;

    (void)state;
    start(&ring, &roles);
    query.origin = roles.far;
    assert_true(receive(&ring, roles.far, roles.forwarder, FRAME_REQUEST, &query));
    expect_reply(&ring, roles.far, roles.forwarder, 77, ERR_NOT_LEADER);
    assert_int_equal(ring_node(&ring, roles.far)->net.frame_count, 0);
    /* nor may one that has an origin be given to be passed on */
    assert_false(receive(&ring, roles.forwarder, roles.far, FRAME_FORWARD, &query));
    assert_int_equal(ring_node(&ring, roles.forwarder)->net.frame_count, 0);
    expect_nothing_kept(&ring, roles.forwarder);
    buf_free(&payload);
}

static void test_a_member_without_a_leader_says_so_at_once(void **state)
{
    struct buf payload = BUF_INIT;
    struct wire_request query = query_of(77, &payload);
    RING ring = {0};
    struct roles roles;

    (void)state;
    start(&ring, &roles);
    ring_crash(&ring, roles.leader);
    ring.lost[FRAME_RAFT] = true;
    ring_run_ms(&ring, 3 * RING_ELECTION_MS);
    assert_true(receive(&ring, roles.forwarder, roles.far, FRAME_FORWARD, &query));
    expect_reply(&ring, roles.forwarder, roles.far, 77, ERR_NOT_LEADER);
    expect_probe(&ring, roles.forwarder, roles.far, WIRE_PROBE_NO);
    expect_nothing_kept(&ring, roles.forwarder);
    buf_free(&payload);
}

/* The leader is known, but the link to it is down at this moment. */
static void test_a_member_without_a_link_says_so_at_once(void **state)
{
    struct buf payload = BUF_INIT;
    struct wire_request query = query_of(77, &payload);
    RING ring = {0};
    struct roles roles;

    (void)state;
    start(&ring, &roles);
    ring_node(&ring, roles.forwarder)->net.down[roles.leader] = true;
    assert_true(receive(&ring, roles.forwarder, roles.far, FRAME_FORWARD, &query));
    expect_reply(&ring, roles.forwarder, roles.far, 77, ERR_NOT_LEADER);
    expect_nothing_kept(&ring, roles.forwarder);
    buf_free(&payload);
}

/* The one that asks is taken for the leader here: it would get its own request. */
static void test_nothing_goes_back_to_where_it_came_from(void **state)
{
    struct buf payload = BUF_INIT;
    struct wire_request query = query_of(77, &payload);
    RING ring = {0};
    struct roles roles;

    (void)state;
    start(&ring, &roles);
    assert_true(receive(&ring, roles.forwarder, roles.leader, FRAME_FORWARD, &query));
    expect_reply(&ring, roles.forwarder, roles.leader, 77, ERR_NOT_LEADER);
    expect_probe(&ring, roles.forwarder, roles.leader, WIRE_PROBE_NO);
    expect_nothing_kept(&ring, roles.forwarder);
    buf_free(&payload);
}

/* --- for whom --- */

static void test_the_leader_serves_members_alone(void **state)
{
    struct buf payload = BUF_INIT;
    struct wire_request query = query_of(77, &payload);
    RING ring = {0};
    struct roles roles;

    (void)state;
    start(&ring, &roles);
    query.origin = 4; /* nobody */
    assert_true(receive(&ring, roles.leader, roles.forwarder, FRAME_REQUEST, &query));
    expect_reply(&ring, roles.leader, roles.forwarder, 77, ERR_NOT_LEADER);
    assert_int_equal(requests_of(&ring, roles.leader)->serving.count, 0);
    query.origin = roles.far;
    assert_true(receive(&ring, roles.leader, roles.forwarder, FRAME_REQUEST, &query));
    assert_int_equal(requests_of(&ring, roles.leader)->serving.count, 1);
    ring_settle(&ring);
    buf_free(&payload);
}

/* Only the node that has a request may answer it, here and at its origin. */
static void test_an_answer_of_another_node_is_none(void **state)
{
    struct buf payload = BUF_INIT;
    struct wire_request query = query_of(77, &payload);
    struct wire_reply reply = {.status = ERR_UNKNOWN_TAG};
    struct buf frame = BUF_INIT;
    RING ring = {0};
    struct roles roles;
    struct asked asked;

    (void)state;
    start(&ring, &roles);
    assert_true(receive(&ring, roles.forwarder, roles.far, FRAME_FORWARD, &query));
    reply.id = TAILQ_FIRST(&requests_of(&ring, roles.forwarder)->forwarder.list)->id;
    wire_reply_encode(&reply, &frame);
    assert_true(scene_receive(&ring, roles.forwarder, roles.far, FRAME_REPLY, &frame));
    assert_int_equal(requests_of(&ring, roles.forwarder)->forwarder.count, 1);
    asked_get(&asked, "a");
    ask(&ring, roles.far, &asked, LEFT_MS);
    reply.id = TAILQ_FIRST(&requests_of(&ring, roles.far)->sent)->id;
    wire_reply_encode(&reply, &frame);
    assert_true(scene_receive(&ring, roles.far, roles.forwarder, FRAME_REPLY, &frame));
    assert_int_equal(asked.done, 0);
    ring_settle(&ring);
    assert_int_equal(asked.done, 1);
    assert_int_equal(asked.base.status, 0);
    expect_nothing_kept(&ring, roles.forwarder);
    asked_free(&asked);
    buf_free(&payload);
    buf_free(&frame);
}

/* Nor may anybody but the leader say through this node that it leads. */
static void test_a_yes_of_another_node_is_not_passed_on(void **state)
{
    struct wire_probe told = {WIRE_PROBE_YES, 0, 5};
    struct buf frame = BUF_INIT;
    RING ring = {0};
    struct roles roles;

    (void)state;
    start(&ring, &roles);
    told.origin = roles.leader;
    wire_probe_encode(&told, &frame);
    assert_true(scene_receive(&ring, roles.forwarder, roles.far, FRAME_PROBE, &frame));
    assert_int_equal(ring_node(&ring, roles.forwarder)->net.frame_count, 0);
    told.origin = roles.far;
    wire_probe_encode(&told, &frame);
    assert_true(scene_receive(&ring, roles.forwarder, roles.leader, FRAME_PROBE, &frame));
    assert_int_equal(
        fake_net_count(&ring_node(&ring, roles.forwarder)->net, roles.far, FRAME_PROBE), 1);
    buf_free(&frame);
}

/* --- bounds --- */

static void test_requests_passed_on_up_to_the_limit(void **state)
{
    struct wire_request request = {.kind = CLUSTER_REQUEST_QUERY,
                                   .time_left_ms = LEFT_MS,
                                   .payload = NOOP_BYTES,
                                   .payload_len = 2};
    RING ring = {0};
    struct roles roles;

    (void)state;
    start(&ring, &roles);
    for (unsigned i = 0; i < LIMIT_FORWARDED; i++) {
        request.id = i;
        assert_true(receive(&ring, roles.forwarder, roles.far, FRAME_FORWARD, &request));
    }
    assert_int_equal(requests_of(&ring, roles.forwarder)->forwarder.count, LIMIT_FORWARDED);
    assert_int_equal(
        fake_net_count(&ring_node(&ring, roles.forwarder)->net, roles.leader, FRAME_REQUEST),
        LIMIT_FORWARDED);
    fake_net_clear(&ring_node(&ring, roles.forwarder)->net);
    request.id = LIMIT_FORWARDED;
    assert_true(receive(&ring, roles.forwarder, roles.far, FRAME_FORWARD, &request));
    expect_reply(&ring, roles.forwarder, roles.far, LIMIT_FORWARDED, ERR_OVERLOADED);
    assert_int_equal(requests_of(&ring, roles.forwarder)->forwarder.count, LIMIT_FORWARDED);
    ring_run_ms(&ring, 2 * RING_ELECTION_MS - 20);
    assert_int_equal(requests_of(&ring, roles.forwarder)->forwarder.count, LIMIT_FORWARDED);
    ring_run_ms(&ring, 40); /* by then each was sent again, or its origin has given up */
    expect_nothing_kept(&ring, roles.forwarder);
}

static void test_bytes_passed_on_up_to_the_limit(void **state)
{
    uint8_t *data = calloc(1, LIMIT_ENTRY_BYTES);
    struct wire_request request = {.kind = CLUSTER_REQUEST_QUERY,
                                   .time_left_ms = 100,
                                   .payload = data,
                                   .payload_len = LIMIT_ENTRY_BYTES};
    RING ring = {0};
    struct roles roles;
    unsigned fit = LIMIT_FORWARDED_BYTES / LIMIT_ENTRY_BYTES;

    (void)state;
    assert_non_null(data);
    start(&ring, &roles);
    for (unsigned i = 0; i < fit; i++) {
        assert_true(receive(&ring, roles.forwarder, roles.far, FRAME_FORWARD, &request));
    }
    assert_int_equal(requests_of(&ring, roles.forwarder)->forwarder.bytes, LIMIT_FORWARDED_BYTES);
    fake_net_clear(&ring_node(&ring, roles.forwarder)->net);
    request.id = 99;
    request.payload_len = 1;
    assert_true(receive(&ring, roles.forwarder, roles.far, FRAME_FORWARD, &request));
    expect_reply(&ring, roles.forwarder, roles.far, 99, ERR_OVERLOADED);
    ring_run_ms(&ring, 90);
    assert_int_equal(requests_of(&ring, roles.forwarder)->forwarder.count, fit);
    ring_run_ms(&ring, 30); /* the origin's time is over */
    expect_nothing_kept(&ring, roles.forwarder);
    free(data);
}

/* --- what ends before its answer --- */

/* One request is on its way to the leader through the forwarder, and no frame arrives any more. */
static void begin(struct ring *ring, struct roles *ret_roles)
{
    struct buf payload = BUF_INIT;
    struct wire_request query = query_of(77, &payload);

    start(ring, ret_roles);
    assert_true(receive(ring, ret_roles->forwarder, ret_roles->far, FRAME_FORWARD, &query));
    assert_int_equal(requests_of(ring, ret_roles->forwarder)->forwarder.count, 1);
    fake_net_clear(&ring_node(ring, ret_roles->forwarder)->net);
    buf_free(&payload);
}

static void test_a_leader_that_is_lost_gives_requests_back(void **state)
{
    RING ring = {0};
    struct roles roles;

    (void)state;
    begin(&ring, &roles);
    replica_link_changed(&replica_of(&ring, roles.forwarder)->peers.receiver, roles.leader, false);
    expect_reply(&ring, roles.forwarder, roles.far, 77, ERR_NOT_LEADER);
    expect_nothing_kept(&ring, roles.forwarder);
}

static void test_a_new_leader_gives_requests_back(void **state)
{
    RING ring = {0};
    struct roles roles;
    struct driver *driver;
    struct buf frame = BUF_INIT;

    (void)state;
    begin(&ring, &roles);
    driver = &replica_of(&ring, roles.forwarder)->driver;
    core_heartbeat(driver_term(driver) + 1, driver->commit,
                   witness_term_at(&driver->witness, driver->commit), &frame);
    assert_true(scene_receive(&ring, roles.forwarder, roles.far, FRAME_RAFT, &frame));
    assert_int_equal(driver_leader(driver), roles.far);
    expect_reply(&ring, roles.forwarder, roles.far, 77, ERR_NOT_LEADER);
    expect_nothing_kept(&ring, roles.forwarder);
    buf_free(&frame);
}

static void test_an_origin_that_is_lost_gets_nothing(void **state)
{
    RING ring = {0};
    struct roles roles;

    (void)state;
    begin(&ring, &roles);
    replica_link_changed(&replica_of(&ring, roles.forwarder)->peers.receiver, roles.far, false);
    assert_int_equal(ring_node(&ring, roles.forwarder)->net.frame_count, 0);
    expect_nothing_kept(&ring, roles.forwarder);
}

static void test_a_node_that_stops_gives_requests_back(void **state)
{
    struct buf payload = BUF_INIT;
    struct wire_request query = query_of(78, &payload);
    RING ring = {0};
    struct roles roles;

    (void)state;
    begin(&ring, &roles);
    replica_stop(replica_of(&ring, roles.forwarder));
    expect_reply(&ring, roles.forwarder, roles.far, 77, ERR_NOT_LEADER);
    /* What comes later is not looked at: its link breaks soon. */
    assert_true(receive(&ring, roles.forwarder, roles.far, FRAME_FORWARD, &query));
    assert_int_equal(ring_node(&ring, roles.forwarder)->net.frame_count, 0);
    expect_nothing_kept(&ring, roles.forwarder);
    buf_free(&payload);
}

static void test_malformed_frames_are_told(void **state)
{
    static const uint8_t bytes[3] = {1, 2, 3};
    RING ring = {0};
    struct roles roles;

    (void)state;
    start(&ring, &roles);
    assert_false(replica_receive(&replica_of(&ring, roles.forwarder)->peers.receiver, roles.far,
                                 FRAME_FORWARD, bytes, 3));
    assert_false(replica_receive(&replica_of(&ring, roles.forwarder)->peers.receiver, roles.far,
                                 FRAME_PROBE, bytes, 3));
    expect_nothing_kept(&ring, roles.forwarder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_request_goes_on_and_its_answer_back),
        cmocka_unit_test(test_whoever_leads_serves_what_it_was_to_pass_on),
        cmocka_unit_test(test_a_request_that_was_passed_on_is_not_passed_on_again),
        cmocka_unit_test(test_a_member_without_a_leader_says_so_at_once),
        cmocka_unit_test(test_a_member_without_a_link_says_so_at_once),
        cmocka_unit_test(test_nothing_goes_back_to_where_it_came_from),
        cmocka_unit_test(test_the_leader_serves_members_alone),
        cmocka_unit_test(test_an_answer_of_another_node_is_none),
        cmocka_unit_test(test_a_yes_of_another_node_is_not_passed_on),
        cmocka_unit_test(test_requests_passed_on_up_to_the_limit),
        cmocka_unit_test(test_bytes_passed_on_up_to_the_limit),
        cmocka_unit_test(test_a_leader_that_is_lost_gives_requests_back),
        cmocka_unit_test(test_a_new_leader_gives_requests_back),
        cmocka_unit_test(test_an_origin_that_is_lost_gets_nothing),
        cmocka_unit_test(test_a_node_that_stops_gives_requests_back),
        cmocka_unit_test(test_malformed_frames_are_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
