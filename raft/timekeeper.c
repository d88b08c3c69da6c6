/*
 * timekeeper.c - see timekeeper.h. Thread: the raft loop.
 */
#include "raft/timekeeper.h"

#include <string.h>

#include "raft/wire.h"
#include "src/base/assert.h"

#define ASK_MS 1000
#define ASK_SOON_MS 200 /* until a majority of the clocks is known */
#define THRESHOLD_DEFAULT_MS 1000
#define PROPOSAL_MS 5000    /* how long a proposal may take before it is made anew */
#define LAYOUT_AGAIN_MS 100 /* a layout that the log refuses is not proposed in every turn */

void timekeeper_init(struct timekeeper *keeper, const struct timekeeper_config *config,
                     struct driver *driver, struct net *net, const struct clock *clock,
                     struct fsm *fsm, struct id_proposer *proposer)
{
    uint64_t now_ms = clock_now_ms(clock);

    memset(keeper, 0, sizeof *keeper);
    keeper->config = *config;
    keeper->driver = driver;
    keeper->net = net;
    keeper->clock = clock;
    keeper->fsm = fsm;
    keeper->proposer = proposer;
    keeper->ask_at_ms = now_ms;
    keeper->tick_at_ms = now_ms;
    clock_check_init(&keeper->check,
                     config->threshold_ms > 0 ? config->threshold_ms : THRESHOLD_DEFAULT_MS);
}

static void send(struct timekeeper *keeper, uint64_t to, const struct wire_clock *message)
{
    struct buf payload = BUF_INIT;

    wire_clock_encode(message, &payload);
    (void)keeper->net->ops->send(keeper->net, to, FRAME_CLOCK, &payload);
    buf_free(&payload);
}

bool timekeeper_receive(struct timekeeper *keeper, uint64_t from, const uint8_t *payload,
                        size_t len)
{
    uint64_t wall_ms = clock_wall_ms(keeper->clock);
    struct wire_clock message;

    if (wire_clock_decode(payload, len, &message) != 0) {
        return false;
    }
    if (!message.answer) {
        message.answer = true;
        message.wall_ms = wall_ms;
        send(keeper, from, &message);
        return true;
    }
    clock_check_sample(&keeper->check, from, message.sent_ms, clock_now_ms(keeper->clock),
                       message.wall_ms, wall_ms);
    return true;
}

static void ask_all(struct timekeeper *keeper, uint64_t now_ms)
{
    const struct raft_configuration *configuration = &keeper->driver->raft.configuration;
    struct wire_clock question = {.sent_ms = now_ms};

    for (unsigned i = 0; i < configuration->n; i++) {
        if (configuration->servers[i].id != keeper->driver->config.node_id) {
            send(keeper, configuration->servers[i].id, &question);
        }
    }
}

static void proposed(struct id_request *request)
{
    struct timekeeper *keeper = request->data;

    keeper->in_flight = false;
    buf_free(&request->payload);
    buf_free(&request->reply);
}

/* The time only once a majority of the clocks is known: the first one that the log ever gets is
 * taken as it is, and later ones cannot turn it back. */
static void propose(struct timekeeper *keeper)
{
    struct id_request *request = &keeper->request;
    uint64_t now_ms = clock_now_ms(keeper->clock);
    struct snowflake_layout layout;
    bool has_layout = fsm_layout(keeper->fsm, &layout);
    size_t samples;

    if (has_layout ? !clock_check_asked(&keeper->check, now_ms) : now_ms < keeper->layout_at_ms) {
        return;
    }
    memset(request, 0, sizeof *request);
    if (has_layout) {
        command_clock_encode(
            &request->payload,
            clock_check_cluster_ms(&keeper->check, now_ms, clock_wall_ms(keeper->clock), &samples));
        keeper->tick_at_ms = now_ms + keeper->config.tick_ms;
    } else {
        command_layout_encode(&request->payload, &keeper->config.layout);
        keeper->layout_at_ms = now_ms + LAYOUT_AGAIN_MS;
    }
    request->kind = ID_REQUEST_COMMAND;
    request->deadline_ms = now_ms + PROPOSAL_MS;
    request->done = proposed;
    request->data = keeper;
    keeper->in_flight = true;
    keeper->proposer->propose(keeper->proposer, request);
}

void timekeeper_turn(struct timekeeper *keeper)
{
    uint64_t now_ms = clock_now_ms(keeper->clock);

    if (!keeper->config.enabled) {
        return;
    }
    if (now_ms >= keeper->ask_at_ms) {
        keeper->ask_at_ms =
            now_ms + (clock_check_asked(&keeper->check, now_ms) ? ASK_MS : ASK_SOON_MS);
        ask_all(keeper, now_ms);
    }
    if (!keeper->in_flight && now_ms >= keeper->tick_at_ms && driver_leads(keeper->driver)) {
        propose(keeper);
    }
}

uint64_t timekeeper_next_ms(const struct timekeeper *keeper)
{
    return keeper->config.enabled ? keeper->ask_at_ms : UINT64_MAX;
}
