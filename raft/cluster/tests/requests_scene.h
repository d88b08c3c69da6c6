/*
 * requests_scene.h - where tests of requests begin: nodes that have elected a leader, and what is
 * left of requests afterwards.
 *
 * Thread: the test's.
 */
#ifndef LEAFD_RAFT_CLUSTER_TESTS_REQUESTS_SCENE_H
#define LEAFD_RAFT_CLUSTER_TESTS_REQUESTS_SCENE_H

#include "raft/tests/raft_ring.h"

/* Three nodes. */
void scene_start(struct ring *ring, uint64_t *ret_leader, uint64_t *ret_follower);

/* The same for a whole test, which begins with scene_setup() and ends with scene_teardown(). */
struct trio {
    struct ring ring;
    uint64_t leader;
    uint64_t follower;
    uint64_t other;
};
int scene_setup(void **state); /* *state: a struct trio */
int scene_teardown(void **state);
#define TRIO_TEST(name) cmocka_unit_test_setup_teardown(name, scene_setup, scene_teardown)

/* Who leads, who does not reach it, and who is in between. */
struct roles {
    uint64_t leader;
    uint64_t far;
    uint64_t forwarder;
};

/* So many nodes, with the tag "a" of step 10, before they have registered. */
void scene_start_roles(struct ring *ring, unsigned count, struct roles *ret_roles);

struct replica *replica_of(struct ring *ring, uint64_t id);
struct requests *requests_of(struct ring *ring, uint64_t id);
uint64_t term_of(struct ring *ring, uint64_t id);

/* A frame comes from a peer; what the receiver says of it. The frame is gone afterwards. */
bool scene_receive(struct ring *ring, uint64_t to, uint64_t from, enum frame_type type,
                   struct buf *frame);

/* Nothing is under way on any node, and no frame was refused. stamps_may: but a stamp that cannot
 * be brought to the cluster now, which is no client's request. */
void scene_expect_idle(struct ring *ring, bool stamps_may);

#endif
