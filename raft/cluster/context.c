/*
 * context.c - see context.h. Thread: the raft loop.
 */
#include "raft/cluster/context.h"

#include "src/base/assert.h"
#include "src/base/container.h"

_Static_assert(LIMIT_PEERS >= 2 * LIMIT_NODES, "each member has a row, by either configuration");

static bool is_member(const struct raft_context *on, uint64_t id)
{
    struct configuration applied;

    if (driver_member(on->driver, id) != NULL) {
        return true;
    }
    applier_configured(&on->driver->applier, &applied);
    return configuration_find(&applied, id) != NULL;
}

struct peer_row *context_peer(const struct raft_context *on, uint64_t id)
{
    struct peer_row *unused = NULL;

    for (unsigned i = 0; i < LIMIT_PEERS; i++) {
        if (on->peers[i].id == id) {
            return &on->peers[i];
        }
    }
    if (!is_member(on, id)) {
        return NULL;
    }
    for (unsigned i = 0; i < LIMIT_PEERS && unused == NULL; i++) {
        unused = is_member(on, on->peers[i].id) ? NULL : &on->peers[i];
    }
    ASSERT(unused != NULL);
    *unused = (struct peer_row){.id = id, .birth_wait = BIRTH_WAIT_UNMET};
    return unused;
}

static void node_command_done_cb(struct cluster_request *request)
{
    struct node_command *command = CONTAINER(request, struct node_command, request);

    ASSERT(command->in_flight);
    command->in_flight = false;
    context_wake(command->on, command->wakes);
    buf_free(&request->payload);
    buf_free(&request->reply);
    if (command->on_done != NULL) {
        command->on_done(command, request->status);
    }
}

void node_command_send(struct node_command *command, const struct raft_context *on,
                       struct buf *payload, bool stamped)
{
    ASSERT(!command->in_flight && payload->len > 0 && command->wakes != 0);
    command->on = on;
    command->request = (struct cluster_request){.kind = CLUSTER_REQUEST_COMMAND,
                                                .stamped = stamped,
                                                .deadline_ms = context_now_ms(on) + NODE_COMMAND_MS,
                                                .done = node_command_done_cb};
    buf_move(&command->request.payload, payload);
    command->in_flight = true;
    on->submit(on, &command->request);
}
