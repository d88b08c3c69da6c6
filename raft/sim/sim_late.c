/*
 * sim_late.c - see sim_late.h. Thread: one.
 */
#include "raft/sim/sim_late.h"

#include <stdlib.h>

#include "raft/sim/sim_check.h"
#include "src/base/assert.h"
#include "src/base/container.h"

#define ONE_IN 100
#define LATE_MS 5000 /* at most; the allocator waits for two seconds */

static void tell(struct sim_late *late)
{
    struct id_request *request = late->request;

    request->done = late->done;
    request->data = late->data;
    free(late);
    request->done(request);
}

static void answered(struct id_request *request)
{
    struct sim_late *late = request->data;
    struct sim_node *node = late->node;
    struct sim_world *world = node->world;

    if (!world->faults || !node->up || node->replica.stopping || sim_below(world, ONE_IN) != 0) {
        tell(late);
        return;
    }
    STAILQ_INSERT_TAIL(&node->late, late, link);
    sim_happens(node, SIM_LATE, 1 + sim_below(world, LATE_MS));
}

static struct sim_node *replica_node(struct replica *replica)
{
    return CONTAINER(replica, struct sim_node, replica);
}

static void propose(struct id_proposer *proposer, struct id_request *request)
{
    struct replica *replica = CONTAINER(proposer, struct replica, proposer);
    struct sim_late *late;

    sim_check_offered(replica_node(replica)->world, request->payload.data, request->payload.len);
    if (request->payload.data[1] == COMMAND_GRANT) {
        late = calloc(1, sizeof *late);
        ASSERT(late != NULL);
        late->node = replica_node(replica);
        late->request = request;
        late->done = request->done;
        late->data = request->data;
        request->done = answered;
        request->data = late;
    }
    replica_submit(replica, request);
}

void sim_late_start(struct sim_node *node)
{
    STAILQ_INIT(&node->late);
    node->replica.proposer.propose = propose;
}

void sim_late_event(struct sim_node *node)
{
    struct sim_late *late = STAILQ_FIRST(&node->late);

    if (late != NULL) {
        STAILQ_REMOVE_HEAD(&node->late, link);
        tell(late);
    }
}

void sim_late_flush(struct sim_node *node)
{
    while (!STAILQ_EMPTY(&node->late)) {
        sim_late_event(node);
    }
}
