/*
 * sim_net.c - see sim_net.h. Thread: one.
 */
#include "cluster-tests/sim/sim_net.h"

#include <stdlib.h>

#include "cluster-tests/sim/sim_level.h"
#include "raft/wire/wire.h"
#include "src/base/assert.h"
#include "src/base/container.h"
#include "src/base/hash.h"
#include "src/id/codec/command.h"

/* How late a command comes again: half of them soon, half at any time. */
#define REPEAT_SOON_MS 800
#define REPEAT_LATE_MS 8000
#define STATES_ANEW 16 /* one frame in so many comes over a link that was opened just now */

static struct sim_frame *frame_new(const struct sim_node *from, enum frame_type type,
                                   const struct buf *payload)
{
    struct sim_frame *frame = MUST_HAVE(calloc(1, sizeof *frame));

    frame->from = from->id;
    frame->from_incarnation = from->incarnation;
    frame->set_back = from->set_back;
    frame->type = type;
    buf_put(&frame->payload, payload->data, payload->len);
    return frame;
}

void sim_net_free_frame(struct sim_frame *frame)
{
    if (frame != NULL) {
        buf_free(&frame->payload);
        free(frame);
    }
}

static void arrives(struct sim_world *world, unsigned to, struct sim_frame *frame, uint64_t in_ms)
{
    sim_schedule(world, in_ms,
                 (struct sim_event){.kind = SIM_FRAME,
                                    .node = to,
                                    .incarnation = world->nodes[to].incarnation,
                                    .frame = frame});
}

/* The link is there again: what an older connection still had in its pipes may come once more. */
static void come_again(struct sim_world *world, unsigned from, unsigned to)
{
    struct sim_frame *frame = world->echo[from][to];

    if (frame != NULL) {
        world->echo[from][to] = NULL;
        arrives(world, to, frame, sim_below(world, 50));
    }
}

/* How often a command comes again, in percent. One that gives ids back is rare, and has to find
 * them granted anew. */
static unsigned repeat_percent(const struct wire_request *wire)
{
    if (wire->kind == CLUSTER_REQUEST_MEMBER) {
        return 10;
    }
    if (wire->kind != CLUSTER_REQUEST_COMMAND) {
        return 0;
    }
    return command_type(wire->payload, wire->payload_len) == COMMAND_GIVE_BACK ? 60 : 4;
}

/* A command comes once more, perhaps much later, with any number of others in between, and perhaps
 * to another node: it must not be carried out again. */
static void repeat_command(struct sim_world *world, const struct sim_frame *frame, unsigned to)
{
    struct wire_request wire;
    uint64_t late_ms;

    if (!world->faults || (frame->type != FRAME_REQUEST && frame->type != FRAME_FORWARD) ||
        wire_request_decode(frame->payload.data, frame->payload.len, &wire) != 0 ||
        !sim_percent(world, repeat_percent(&wire))) {
        return;
    }
    late_ms = sim_percent(world, 50) ? sim_below(world, REPEAT_SOON_MS)
                                     : sim_below(world, REPEAT_LATE_MS);
    if (sim_percent(world, 30)) {
        to = (unsigned)sim_below(world, world->node_count);
    }
    if (to != frame->from - 1) {
        world->stats.repeats++;
        arrives(world, to, frame_new(&world->nodes[frame->from - 1], frame->type, &frame->payload),
                late_ms);
    }
}

/* A chunk of a snapshot comes twice, the second time soon or late. */
static void repeat_chunk(struct sim_world *world, const struct sim_frame *frame, unsigned to)
{
    if (world->faults && frame->type == FRAME_SNAPSHOT_CHUNK && sim_percent(world, 10)) {
        arrives(world, to, frame_new(&world->nodes[frame->from - 1], frame->type, &frame->payload),
                4 + sim_below(world, 40));
    }
}

static int net_send(struct net *base, uint64_t to, enum frame_type type, struct buf *payload,
                    struct entry_block *tail)
{
    struct sim_node *from = CONTAINER(base, struct sim_node, net);
    struct sim_world *world = from->world;
    unsigned a = from->id - 1;
    unsigned b = (unsigned)(to - 1);
    struct sim_frame *frame;
    uint64_t at_ms = world->now_ms + sim_below(world, 4);

    from->sent++;
    if (to < 1 || to > world->node_count || !(from->peers & (1u << b))) {
        buf_free(payload);
        return ERR_NOT_FOUND;
    }
    if (!from->up || !world->nodes[b].up || world->cut[a][b] ||
        (type == FRAME_CLOCK && world->now_ms < world->unheard_until_ms) ||
        sim_percent(world, world->drop_percent)) {
        buf_free(payload);
        world->stats.frames_lost++;
        /* A sender learns of a broken link only sometimes. */
        return world->nodes[b].up ? 0 : ERR_IO;
    }
    if (world->faults && !sim_is_quiet(world) && sim_percent(world, 3)) {
        at_ms += sim_below(world, 400); /* overtaken by later ones */
    } else {
        if (at_ms < world->link_free_ms[a][b]) {
            at_ms = world->link_free_ms[a][b];
        }
        world->link_free_ms[a][b] = at_ms;
    }
    if (tail != NULL) {
        buf_put(payload, tail->data, tail->len);
    }
    world->hooks->sent(from, to, type, payload);
    frame = frame_new(from, type, payload);
    world->stats.frames++;
    world->stats.forwarded += type == FRAME_FORWARD;
    if (world->faults && sim_below(world, 300) == 0) {
        sim_net_free_frame(world->echo[a][b]);
        world->echo[a][b] = frame_new(from, type, &frame->payload);
    }
    buf_free(payload);
    repeat_command(world, frame, b);
    repeat_chunk(world, frame, b);
    arrives(world, b, frame, at_ms - world->now_ms);
    return 0;
}

static bool net_connected(struct net *base, uint64_t peer)
{
    struct sim_node *node = CONTAINER(base, struct sim_node, net);

    return peer >= 1 && peer <= node->world->node_count && (node->peers & BIT(peer)) && node->up &&
           node->world->nodes[peer - 1].up && !node->world->broken[node->id - 1][peer - 1];
}

static void net_set_peers(struct net *base, const struct net_peer *peers, size_t count)
{
    struct sim_node *node = CONTAINER(base, struct sim_node, net);

    unsigned before = node->peers;

    node->peers = 0;
    for (size_t i = 0; i < count; i++) {
        ASSERT(peers[i].id != node->id && peers[i].id <= SIM_NODES_MAX);
        node->peers |= BIT(peers[i].id);
    }
    for (unsigned i = 0; i < node->world->node_count; i++) {
        if ((before & ~node->peers) & (1u << i)) { /* it sees the link break, and dials again */
            sim_schedule(node->world, 20 + sim_below(node->world, 300),
                         (struct sim_event){.kind = SIM_DIAL, .node = i, .peer = node->id - 1});
        }
    }
}

static const struct net_ops sim_net_ops = {
    .send = net_send, .connected = net_connected, .set_peers = net_set_peers};

void sim_net_init(struct sim_node *node)
{
    node->net.ops = &sim_net_ops;
}

/* May the node take part, by what it says of itself? All are of one cluster; and nobody may be
 * taken for an older copy whose disk was not set back. */
static bool check_statement(struct sim_node *to, struct sim_node *from)
{
    struct wire_statement said;
    struct buf statement = BUF_INIT;
    int rv;

    peers_state(&from->replica.peers.receiver, &statement);
    birth_watch_speaks(&to->replica.peers.births, from->id, from->replica.state->facts.speaks);
    birth_watch_speaks(&from->replica.peers.births, to->id, to->replica.state->facts.speaks);
    if (wire_statement_decode(statement.data, statement.len, &said) != 0 ||
        birth_watch_judge(&to->replica.peers.births, from->id, &said.birth) != 0) {
        sim_fail(to->world, "node %u takes node %u for one of another cluster", to->id, from->id);
    }
    to->met |= BIT(from->id);
    rv = peers_check(&to->replica.peers, from->id, &(struct net_presence){0}, &said);
    buf_free(&statement);
    if (rv != 0 && !(from->set_back && rv == ERR_STALE)) {
        sim_fail(to->world, "node %u takes the data of node %u for an older copy, or a lie", to->id,
                 from->id);
    }
    if (rv != 0 && !from->refused) {
        from->refused = true;
        sim_trace(to->world, "node %u refuses node %u, an older copy", to->id, from->id);
        sim_happens(from, SIM_OLDER, 0);
    }
    return rv == 0;
}

/* Would the frame find its link new? The first of these two starts does, and so does any by chance:
 * links break and come again more often than the world cuts them. Whoever has an older copy is
 * looked at each time. */
static bool is_new_link(struct sim_node *to, const struct sim_node *from)
{
    return from->set_back || !(to->met & BIT(from->id)) || !(from->met & BIT(to->id)) ||
           sim_below(to->world, STATES_ANEW) == 0;
}

/* What the handshake of this link would say. */
static bool let_in(struct sim_node *to, struct sim_node *from)
{
    BUF_LOCAL(statement);
    struct wire_statement said;
    int rv = peers_admit(&to->replica.peers, from->id, 1000 + from->id);

    if (rv == ERR_REMOVED) {
        sim_happens(from, SIM_TOLD, 1);
    }
    /* A link that was there before the level rose stays. */
    if (rv == 0 && to->world->newest > LEVEL_FIRST && sim_percent(to->world, 10) &&
        sim_level_refuses(to, from)) {
        return false;
    }
    if (rv != 0 || (to->peers & BIT(from->id))) {
        return rv == 0;
    }
    if (!from->up) {
        return false;
    }
    peers_state(&from->replica.peers.receiver, &statement);
    return wire_statement_decode(statement.data, statement.len, &said) == 0 &&
           peers_know(&to->replica.peers, from->id, &said);
}

void sim_net_dial(struct sim_node *from, struct sim_node *to)
{
    if (from->up && sim_reaches(from, to) && let_in(to, from)) {
        (void)check_statement(to, from);
    }
}

void sim_net_event(struct sim_node *to, const struct sim_frame *frame)
{
    struct sim_world *world = to->world;
    struct sim_node *from = &world->nodes[frame->from - 1];
    bool current = from->up && from->incarnation == frame->from_incarnation;

    sim_note(world, hash_bytes(frame->payload.data, frame->payload.len, frame->type));
    /* Cut since it was sent, or the sender died: half of what was in flight is lost with the link.
     */
    if (world->cut[frame->from - 1][to->id - 1] ||
        (from->incarnation != frame->from_incarnation && !sim_percent(world, 50)) ||
        !let_in(to, from)) {
        return;
    }
    /* Of an older copy nothing arrives that its link was not opened for. */
    if (current && is_new_link(to, from) && !check_statement(to, from)) {
        return;
    }
    if (!current && frame->set_back) {
        return;
    }
    if (!replica_receive(&to->replica.peers.receiver, frame->from, frame->type, frame->payload.data,
                         frame->payload.len)) {
        sim_fail(world, "node %u found a frame of type %d malformed", to->id, frame->type);
    }
}

static void notify(struct sim_world *world, unsigned a, unsigned b, bool up)
{
    if (sim_node_runs(&world->nodes[a])) {
        replica_link_changed(&world->nodes[a].replica.peers.receiver, b + 1, up);
        sim_turn(&world->nodes[a]);
    }
}

/* Node a finds, or believes wrongly, that nobody listens at b's address. */
static void refuse(struct sim_world *world, unsigned a, unsigned b)
{
    sim_schedule(
        world, 25 + sim_below(world, 200),
        (struct sim_event){
            .kind = SIM_REFUSED, .node = a, .incarnation = world->nodes[a].incarnation, .peer = b});
}

void sim_net_lose(struct sim_world *world, unsigned from, unsigned to)
{
    ASSERT(from != to);
    world->cut[from][to] = true;
    sim_trace(world, "lose link %u -> %u", from + 1, to + 1);
}

void sim_net_cut(struct sim_world *world, unsigned from, unsigned to, bool cut)
{
    if (from == to || world->cut[from][to] == cut) {
        return;
    }
    world->cut[from][to] = cut;
    sim_trace(world, "%s link %u -> %u", cut ? "cut" : "heal", from + 1, to + 1);
    if (cut ? sim_percent(world, 70) : !world->cut[to][from]) { /* else nobody notices for now */
        world->broken[from][to] = cut;
        world->broken[to][from] = cut;
        notify(world, from, to, !cut);
        notify(world, to, from, !cut);
    }
    if (cut && sim_percent(world, 20)) { /* by somebody who answers in its place */
        refuse(world, from, to);
    }
    if (!cut) {
        come_again(world, from, to);
        sim_net_dial(&world->nodes[from], &world->nodes[to]);
        sim_net_dial(&world->nodes[to], &world->nodes[from]);
    }
}

static bool stays_alone(const struct sim_world *world, unsigned node)
{
    return world->now_ms < world->nodes[node].alone_until_ms;
}

void sim_net_cut_off(struct sim_node *node)
{
    unsigned n = node->id - 1;

    for (unsigned i = 0; i < node->world->node_count; i++) {
        sim_net_cut(node->world, n, i, true);
        sim_net_cut(node->world, i, n, true);
    }
}

void sim_net_heal(struct sim_world *world)
{
    for (unsigned i = 0; i < world->node_count; i++) {
        for (unsigned j = 0; j < world->node_count; j++) {
            if (!stays_alone(world, i) && !stays_alone(world, j)) {
                sim_net_cut(world, i, j, false);
            }
        }
    }
}

void sim_net_node_changed(struct sim_node *node, bool up)
{
    unsigned n = node->id - 1;
    bool linked;

    for (unsigned i = 0; i < node->world->node_count; i++) {
        if (i == n) {
            continue;
        }
        node->world->link_free_ms[i][n] = 0; /* what is late came by an older connection */
        node->world->link_free_ms[n][i] = 0;
        linked = up && !node->world->cut[i][n] && !node->world->cut[n][i];
        node->world->broken[i][n] = up && !linked; /* a new connection does not come about */
        node->world->broken[n][i] = up && !linked;
        notify(node->world, i, n, linked);
        if (!up && sim_percent(node->world, 80)) { /* else its whole machine is lost */
            refuse(node->world, i, n);
        }
        if (up) {
            sim_net_dial(node, &node->world->nodes[i]);
            sim_net_dial(&node->world->nodes[i], node);
            come_again(node->world, i, n);
            come_again(node->world, n, i);
        }
    }
}

void sim_net_free(struct sim_world *world)
{
    for (unsigned i = 0; i < SIM_NODES_MAX; i++) {
        for (unsigned j = 0; j < SIM_NODES_MAX; j++) {
            sim_net_free_frame(world->echo[i][j]);
        }
    }
}
