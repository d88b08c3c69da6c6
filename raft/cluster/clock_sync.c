/*
 * clock_sync.c - see clock_sync.h. Thread: the raft loop.
 */
#include "raft/cluster/clock_sync.h"

#include "src/base/assert.h"
#include "src/base/container.h"

#define ASK_MS 1000
#define ASK_SOON_MS 200 /* until a majority of the clocks is known */
#define THRESHOLD_DEFAULT_MS 1000
#define LAYOUT_AGAIN_MS 100 /* a layout that the log refuses is not proposed in every turn */

bool clock_sync_receive(struct clock_sync *sync, uint64_t from, const uint8_t *payload, size_t len)
{
    uint64_t wall_ms = clock_wall_ms(sync->on->clock);
    struct wire_clock message;

    if (wire_clock_decode(payload, len, &message) != 0) {
        return false;
    }
    if (!message.answer) {
        message.answer = true;
        message.wall_ms = wall_ms;
        (void)ground_send_clock(sync->on, from, FRAME_CLOCK, &message);
        return true;
    }
    clock_check_sample(&sync->check, from, message.sent_ms, ground_now_ms(sync->on),
                       message.wall_ms, wall_ms);
    return true;
}

static void on_ask(struct timer *timer, uint64_t now_ms)
{
    struct clock_sync *sync = CONTAINER(timer, struct clock_sync, ask);
    const struct configuration *conf = driver_configuration(sync->on->driver);
    const struct wire_clock question = {.sent_ms = now_ms};

    MEMBER_FOREACH (member, conf) {
        if (member->id != sync->on->node_id) {
            (void)ground_send_clock(sync->on, member->id, FRAME_CLOCK, &question);
        }
    }
    timer_arm(sync->on->timers, timer,
              now_ms + (clock_check_asked(&sync->check, now_ms) ? ASK_MS : ASK_SOON_MS));
}

/* The time only once a majority of the clocks is known: the first one that the log ever gets is
 * taken as it is, and later ones cannot turn it back. */
static void propose(struct clock_sync *sync)
{
    uint64_t now_ms = ground_now_ms(sync->on);
    struct buf payload = BUF_INIT;
    struct snowflake_layout layout;
    bool has_layout = fsm_layout(sync->on->fsm, &layout);
    size_t samples;

    ASSERT(!sync->command.in_flight);
    if (has_layout ? !clock_check_asked(&sync->check, now_ms)
                   : timer_is_armed(&sync->layout_pause)) {
        return;
    }
    if (has_layout) {
        command_put(&payload, COMMAND_CLOCK,
                    &(struct clock_command){
                        .cluster_ms = clock_check_cluster_ms(
                            &sync->check, now_ms, clock_wall_ms(sync->on->clock), &samples)});
        timer_arm(sync->on->timers, &sync->tick, now_ms + sync->config->renew_ms);
    } else {
        command_put(&payload, COMMAND_LAYOUT, &sync->config->layout);
        timer_arm(sync->on->timers, &sync->layout_pause, now_ms + LAYOUT_AGAIN_MS);
    }
    node_command_send(&sync->command, sync->on, &payload, false);
}

void clock_sync_turn(struct clock_sync *sync)
{
    if (sync->config->threshold_ms > 0 && !sync->command.in_flight &&
        !timer_is_armed(&sync->tick) && driver_leads(sync->on->driver)) {
        propose(sync);
    }
}

void clock_sync_init(struct clock_sync *sync, const struct ground *on,
                     const struct lease_config *config)
{
    uint32_t threshold_ms = config->threshold_ms > 0 ? config->threshold_ms : THRESHOLD_DEFAULT_MS;

    ASSERT_IMPLIES(config->threshold_ms > 0, config->renew_ms > 0);
    *sync = (struct clock_sync){.on = on, .config = config};
    clock_check_init(&sync->check, threshold_ms);
    timer_init(&sync->ask, on_ask);
    if (config->threshold_ms > 0) {
        timer_arm(on->timers, &sync->ask, ground_now_ms(on));
    }
}
