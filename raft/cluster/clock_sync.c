/*
 * clock_sync.c - see clock_sync.h. Thread: the raft loop.
 */
#include "raft/cluster/clock_sync.h"

#include "src/base/assert.h"
#include "src/base/container.h"

#define ASK_MS 1000
#define ASK_SOON_MS 200 /* until a majority of the clocks is known */
#define THRESHOLD_DEFAULT_MS 1000

const struct clock_link *clock_sync_link(const struct clock_sync *sync, uint64_t peer)
{
    const struct peer_row *row = context_peer(sync->on, peer);

    return row != NULL && row->clock.answered_ms > 0 &&
                   clock_now_ms(sync->on->real_clock) - row->clock.answered_ms <=
                       CLOCK_SAMPLE_FRESH_MS
               ? &row->clock
               : NULL;
}

uint8_t clock_sync_serves(const struct clock_sync *sync, uint64_t node_id)
{
    const struct service *service = sync->on->service;
    const struct clock_link *link = clock_sync_link(sync, node_id);
    uint8_t serves = node_id == sync->on->node_id ? service->ops->serves(service)
                     : link != NULL               ? link->serves
                                                  : 0;

    return serves != 0 ? serves : WIRE_SERVES_READY | WIRE_SERVES_SNOWFLAKE;
}

bool clock_sync_receive(struct clock_sync *sync, uint64_t from, const uint8_t *payload, size_t len)
{
    uint64_t wall_ms = clock_wall_ms(sync->on->real_clock);
    struct wire_clock message;
    struct peer_row *row;

    if (wire_clock_decode(payload, len, &message) != 0) {
        return false;
    }
    if (!message.answer) {
        message.answer = true;
        message.wall_ms = wall_ms;
        message.serves = state_level(sync->on->state) >= PLACEMENT_LEVEL
                             ? sync->on->service->ops->serves(sync->on->service)
                             : 0;
        (void)context_send_clock(sync->on, from, FRAME_CLOCK, &message);
        return true;
    }
    row = context_peer(sync->on, from);
    /* Only an answer to the last question gives its round trip. */
    if (row != NULL && message.sent_ms != 0 && row->clock.sent_ms == message.sent_ms) {
        row->clock.answered_ms = clock_now_ms(sync->on->real_clock);
        row->clock.rtt_us = clock_now_us(sync->on->real_clock) - row->clock.sent_us;
        row->clock.serves = message.serves;
        row->clock.sent_ms = 0; /* a second answer has no information */
    }
    clock_check_sample(&sync->check, from, message.sent_ms, clock_now_ms(sync->on->real_clock),
                       message.wall_ms, wall_ms);
    context_wake(sync->on, WAKE_CLOCK_SYNC);
    return true;
}

static void on_ask(struct timer *timer, uint64_t now_ms)
{
    struct clock_sync *sync = CONTAINER(timer, struct clock_sync, ask);
    const struct wire_clock question = {.sent_ms = now_ms};

    MEMBER_FOREACH (member, driver_configuration(sync->on->driver)) {
        if (member->id != sync->on->node_id) {
            struct clock_link *link = &context_peer(sync->on, member->id)->clock;

            link->sent_ms = now_ms;
            link->sent_us = clock_now_us(sync->on->real_clock);
            (void)context_send_clock(sync->on, member->id, FRAME_CLOCK, &question);
        }
    }
    timer_arm(sync->on->timers, timer,
              now_ms + (clock_check_asked(&sync->check, now_ms) ? ASK_MS : ASK_SOON_MS));
}

void clock_sync_turn(struct clock_sync *sync)
{
    uint64_t now_ms = clock_now_ms(sync->on->real_clock);
    struct buf payload = BUF_INIT;
    size_t samples;

    /* Propose the time only once a majority of the clocks is known: the log takes the first time
     * unchecked, and later ones cannot turn it back. */
    if (sync->on->config->clock.threshold_ms == 0 || sync->command.in_flight ||
        timer_is_armed(&sync->tick) || !driver_leads(sync->on->driver) ||
        !clock_check_asked(&sync->check, now_ms)) {
        return;
    }
    cluster_command_put(
        &payload, COMMAND_CLOCK,
        &(struct clock_command){
            .cluster_ms = clock_check_cluster_ms(&sync->check, now_ms,
                                                 clock_wall_ms(sync->on->real_clock), &samples)});
    timer_arm(sync->on->timers, &sync->tick, now_ms + sync->on->config->clock.renew_ms);
    node_command_send(&sync->command, sync->on, &payload, false);
}

void clock_sync_init(struct clock_sync *sync, const struct raft_context *on)
{
    const struct clock_sync_config *config = &on->config->clock;
    uint32_t threshold_ms = config->threshold_ms > 0 ? config->threshold_ms : THRESHOLD_DEFAULT_MS;

    ASSERT_IMPLIES(config->threshold_ms > 0, config->renew_ms > 0);
    *sync = (struct clock_sync){.on = on};
    clock_check_init(&sync->check, threshold_ms);
    timer_init(&sync->ask, on_ask);
    sync->ask.wakes = WAKE_CLOCK_SYNC;
    sync->tick.wakes = WAKE_CLOCK_SYNC;
    sync->command.wakes = WAKE_CLOCK_SYNC;
    if (config->threshold_ms > 0) {
        timer_arm(on->timers, &sync->ask, context_now_ms(on));
    }
}
