/*
 * replica_own.c - what a replica tells the cluster by itself: its address, version and store id;
 * the digest that all nodes compare their state with; that it holds no segment any more of tags
 * that became strict.
 *
 * The happy path: replica_own_turn() looks what is due and proposes it, one command of a kind at a
 * time. Failure modes: a command that fails is due again after a pause.
 *
 * Thread: the raft loop.
 */
#include <string.h>

#include "raft/cluster/replica_internal.h"
#include "src/base/assert.h"
#include "src/id/codec/strict_command.h"

#define REGISTER_AGAIN_MS 1000
#define DRAINED_AGAIN_MS 100   /* longer than a follower takes to apply what it has proposed */
#define DRAINED_SLOWLY_MS 5000 /* the log does not reach a node that is cut off from its leader */
#define OWN_REQUEST_MS 5000

static void info_done(struct id_request *request)
{
    struct replica *replica = request->data;

    replica->info_in_flight = false;
    replica->info_next_ms = clock_now_ms(replica->clock) + REGISTER_AGAIN_MS;
    buf_free(&request->payload);
    buf_free(&request->reply);
}

static bool info_is_registered(const struct replica *replica)
{
    const struct node_info *own = &replica->config.info;
    struct node_info known;

    return own->node_id == 0 ||
           (fsm_node(replica->fsm, own->node_id, &known) && known.store_id == own->store_id &&
            strcmp(known.http_address, own->http_address) == 0 &&
            strcmp(known.version, own->version) == 0);
}

static void own_command(struct replica *replica, struct id_request *request,
                        void (*done)(struct id_request *request))
{
    struct buf payload = request->payload;

    memset(request, 0, sizeof *request);
    request->payload = payload;
    request->kind = ID_REQUEST_COMMAND;
    request->deadline_ms = clock_now_ms(replica->clock) + OWN_REQUEST_MS;
    request->done = done;
    request->data = replica;
    replica_submit(replica, request);
}

/* Tell the cluster this node's HTTP address, version and store id, once a leader is known. */
static void maybe_register(struct replica *replica)
{
    if (replica->info_in_flight || !requests_leader_known(&replica->requests) ||
        clock_now_ms(replica->clock) < replica->info_next_ms || info_is_registered(replica)) {
        return;
    }
    replica->info_in_flight = true;
    command_node_info_encode(&replica->info_request.payload, &replica->config.info);
    own_command(replica, &replica->info_request, info_done);
}

static void digest_done(struct id_request *request)
{
    struct replica *replica = request->data;

    replica->digest_in_flight = false;
    buf_free(&request->payload);
    buf_free(&request->reply);
}

/* The leader has every node compare its state at an equal index. */
static void maybe_compare_digests(struct replica *replica)
{
    uint64_t now = clock_now_ms(replica->clock);

    if (replica->config.digest_ms == 0 || replica->digest_in_flight ||
        now < replica->digest_next_ms || !driver_leads(&replica->driver)) {
        return;
    }
    replica->digest_in_flight = true;
    replica->digest_next_ms = now + replica->config.digest_ms;
    command_digest_encode(&replica->digest_request.payload, driver_applied(&replica->driver)->index,
                          fsm_digest(replica->fsm));
    own_command(replica, &replica->digest_request, digest_done);
}

/* --- tags that drain --- */

void replica_own_tag_changed(struct replica *replica, const struct tag_row *row)
{
    if (row->recalling) {
        replica->drain.look = true;
        replica->drain.next_ms = 0;
        replica->drain.after_len = 0;
    }
}

static void drained_done(struct id_request *request)
{
    struct replica *replica = request->data;

    replica->drain.in_flight = false;
    if (request->status != 0) {
        replica->drain.after_len = 0;
        replica->drain.next_ms = clock_now_ms(replica->clock) + DRAINED_AGAIN_MS;
    }
    buf_free(&request->payload);
    buf_free(&request->reply);
}

/* What the command says must be true when it is proposed: the allocator has heard of the row. */
static void assert_dropped(struct replica *replica, const struct tag_row *row)
{
    struct id_tag *tag = id_table_find(replica->table, row->name, row->name_len);

    if (tag != NULL) {
        ASSERT(tag->refill.generation >= row->generation);
        ASSERT_IMPLIES(tag->refill.generation == row->generation, segment_left(&tag->buffer) == 0);
    }
}

/* The next of the tags that wait for this node, as many as a command takes; 0: none. */
static unsigned gather_drained(struct replica *replica, struct buf *payload)
{
    uint64_t self = replica->config.driver.node_id;
    struct replica_drain *drain = &replica->drain;
    const struct tag_row *row = fsm_recall_next(replica->fsm, self, drain->after, drain->after_len);
    unsigned count = 0;

    if (row == NULL) {
        return 0;
    }
    command_recalled_begin(payload);
    while (row != NULL && count < LIMIT_GRANTS_PER_ENTRY) {
        struct recalled_item item = {row->name, row->name_len, row->generation};

        assert_dropped(replica, row);
        command_recalled_add(payload, &item);
        ASSERT(row->name_len <= sizeof drain->after);
        drain->after_len = row->name_len;
        memcpy(drain->after, row->name, row->name_len);
        row = fsm_recall_next(replica->fsm, self, drain->after, drain->after_len);
        count++;
    }
    command_items_end(payload);
    return count;
}

/* Say of all tags that wait for it that this node holds nothing of them. A follower applies what it
 * has said later than the leader: it goes through all tags once, and again after a pause, until
 * none waits. */
static void maybe_say_drained(struct replica *replica)
{
    struct replica_drain *drain = &replica->drain;
    uint64_t now = clock_now_ms(replica->clock);

    if (!drain->look || drain->in_flight || !requests_leader_known(&replica->requests) ||
        now < drain->next_ms) {
        return;
    }
    if (gather_drained(replica, &drain->request.payload) == 0) {
        drain->look = drain->after_len > 0;
        drain->after_len = 0;
        drain->next_ms = now + (replica->requests.way.state == WAY_DIRECT ? DRAINED_AGAIN_MS
                                                                          : DRAINED_SLOWLY_MS);
        return;
    }
    drain->in_flight = true;
    own_command(replica, &drain->request, drained_done);
}

/* --- turns --- */

void replica_own_turn(struct replica *replica)
{
    maybe_register(replica);
    maybe_compare_digests(replica);
    maybe_say_drained(replica);
}

uint64_t replica_own_next_ms(const struct replica *replica)
{
    const struct replica_drain *drain = &replica->drain;
    bool led = atomic_load_explicit(&replica->health.leader_known, memory_order_relaxed);

    return led && drain->look && !drain->in_flight ? drain->next_ms : UINT64_MAX;
}
