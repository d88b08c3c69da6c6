/*
 * requests_scene.c - see requests_scene.h. Thread: the test's.
 */
#include <stdlib.h>
#include <string.h>

#include "src/tests/unit/test.h"
#include "raft/cluster/tests/requests_scene.h"

#define REGISTERED_MS 100 /* so soon all have */

void scene_start(struct ring *ring, uint64_t *ret_leader, uint64_t *ret_follower)
{
    ring_start(ring, 3);
    *ret_leader = ring_elect(ring);
    *ret_follower = ring_follower(ring);
    ring_run_ms(ring, REGISTERED_MS);
    memset(ring->passed, 0, sizeof ring->passed);
}

int scene_setup(void **state)
{
    struct trio *trio = calloc(1, sizeof *trio);

    assert_non_null(trio);
    scene_start(&trio->ring, &trio->leader, &trio->follower);
    trio->other = 6 - trio->leader - trio->follower;
    *state = trio;
    return 0;
}

int scene_teardown(void **state)
{
    struct trio *trio = *state;

    ring_close(&trio->ring);
    free(trio);
    return 0;
}

void scene_start_roles(struct ring *ring, unsigned count, struct roles *ret_roles)
{
    ring_start(ring, count);
    ret_roles->leader = ring_elect(ring);
    ret_roles->far = ret_roles->leader % count + 1;
    ret_roles->forwarder = ret_roles->far % count + 1;
    ring_make(ring, ret_roles->leader, "a", 10);
}

struct replica *replica_of(struct ring *ring, uint64_t id)
{
    return &ring_node(ring, id)->replica;
}

struct requests *requests_of(struct ring *ring, uint64_t id)
{
    return &replica_of(ring, id)->requests;
}

uint64_t term_of(struct ring *ring, uint64_t id)
{
    return driver_term(&replica_of(ring, id)->driver);
}

bool scene_receive(struct ring *ring, uint64_t to, uint64_t from, enum frame_type type,
                   struct buf *frame)
{
    bool fine =
        replica_receive(&replica_of(ring, to)->peers.receiver, from, type, frame->data, frame->len);

    buf_free(frame);
    return fine;
}

void scene_expect_idle(struct ring *ring, bool stamps_may)
{
    for (uint64_t id = 1; id <= ring->count; id++) {
        const struct requests *requests = requests_of(ring, id);
        bool stamp = stamps_may && requests->tidying.in_flight;

        assert_int_equal(requests->count, stamp);
        assert_int_equal(requests->numbers.count, stamp);
        assert_true(requests->serving.count <= stamp);
        assert_int_equal(requests->forwarder.count, 0);
        assert_int_equal(requests->forwarder.bytes, 0);
    }
    assert_int_equal(ring->refused, 0);
}
