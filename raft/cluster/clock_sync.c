/*
 * clock_sync.c - see clock_sync.h. Thread: the raft loop.
 */
#include "raft/cluster/clock_sync.h"

#include <string.h>

#include "raft/wire/wire.h"
#include "src/base/assert.h"

#define ASK_MS 1000
#define ASK_SOON_MS 200 /* until a majority of the clocks is known */
#define THRESHOLD_DEFAULT_MS 1000
#define PROPOSAL_MS 5000    /* how long a proposal may take before it is made anew */
#define LAYOUT_AGAIN_MS 100 /* a layout that the log refuses is not proposed in every turn */

void clock_sync_init(struct clock_sync *sync, const struct clock_sync_config *config,
                     struct driver *driver, struct net *net, const struct clock *clock,
                     struct fsm *fsm, struct id_proposer *proposer)
{
    uint64_t now_ms = clock_now_ms(clock);

    memset(sync, 0, sizeof *sync);
    sync->config = *config;
    sync->driver = driver;
    sync->net = net;
    sync->clock = clock;
    sync->fsm = fsm;
    sync->proposer = proposer;
    sync->ask_at_ms = now_ms;
    sync->tick_at_ms = now_ms;
    clock_check_init(&sync->check,
                     config->threshold_ms > 0 ? config->threshold_ms : THRESHOLD_DEFAULT_MS);
}

static void send(struct clock_sync *sync, uint64_t to, const struct wire_clock *message)
{
    struct buf payload = BUF_INIT;

    wire_clock_encode(message, &payload);
    (void)sync->net->ops->send(sync->net, to, FRAME_CLOCK, &payload);
    buf_free(&payload);
}

bool clock_sync_receive(struct clock_sync *sync, uint64_t from, const uint8_t *payload, size_t len)
{
    uint64_t wall_ms = clock_wall_ms(sync->clock);
    struct wire_clock message;

    if (wire_clock_decode(payload, len, &message) != 0) {
        return false;
    }
    if (!message.answer) {
        message.answer = true;
        message.wall_ms = wall_ms;
        send(sync, from, &message);
        return true;
    }
    clock_check_sample(&sync->check, from, message.sent_ms, clock_now_ms(sync->clock),
                       message.wall_ms, wall_ms);
    return true;
}

static void ask_all(struct clock_sync *sync, uint64_t now_ms)
{
    const struct configuration *configuration = driver_configuration(sync->driver);
    struct wire_clock question = {.sent_ms = now_ms};

    for (unsigned i = 0; i < configuration->count; i++) {
        if (configuration->members[i].id != sync->driver->config.node_id) {
            send(sync, configuration->members[i].id, &question);
        }
    }
}

static void proposed(struct id_request *request)
{
    struct clock_sync *sync = request->data;

    sync->in_flight = false;
    buf_free(&request->payload);
    buf_free(&request->reply);
}

/* The time only once a majority of the clocks is known: the first one that the log ever gets is
 * taken as it is, and later ones cannot turn it back. */
static void propose(struct clock_sync *sync)
{
    struct id_request *request = &sync->request;
    uint64_t now_ms = clock_now_ms(sync->clock);
    struct snowflake_layout layout;
    bool has_layout = fsm_layout(sync->fsm, &layout);
    size_t samples;

    if (has_layout ? !clock_check_asked(&sync->check, now_ms) : now_ms < sync->layout_at_ms) {
        return;
    }
    memset(request, 0, sizeof *request);
    if (has_layout) {
        command_clock_encode(
            &request->payload,
            clock_check_cluster_ms(&sync->check, now_ms, clock_wall_ms(sync->clock), &samples));
        sync->tick_at_ms = now_ms + sync->config.tick_ms;
    } else {
        command_layout_encode(&request->payload, &sync->config.layout);
        sync->layout_at_ms = now_ms + LAYOUT_AGAIN_MS;
    }
    request->kind = ID_REQUEST_COMMAND;
    request->deadline_ms = now_ms + PROPOSAL_MS;
    request->done = proposed;
    request->data = sync;
    sync->in_flight = true;
    sync->proposer->propose(sync->proposer, request);
}

void clock_sync_turn(struct clock_sync *sync)
{
    uint64_t now_ms = clock_now_ms(sync->clock);

    if (!sync->config.enabled) {
        return;
    }
    if (now_ms >= sync->ask_at_ms) {
        sync->ask_at_ms = now_ms + (clock_check_asked(&sync->check, now_ms) ? ASK_MS : ASK_SOON_MS);
        ask_all(sync, now_ms);
    }
    if (!sync->in_flight && now_ms >= sync->tick_at_ms && driver_leads(sync->driver)) {
        propose(sync);
    }
}

uint64_t clock_sync_next_ms(const struct clock_sync *sync)
{
    return sync->config.enabled ? sync->ask_at_ms : UINT64_MAX;
}
