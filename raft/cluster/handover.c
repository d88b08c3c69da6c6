/*
 * handover.c - see handover.h. Thread: the raft loop.
 */
#include "raft/cluster/handover.h"

#include "src/base/assert.h"

#define LIMIT_ELECTIONS 2      /* how long it may take, in election timeouts */
#define NO_ROOM_AGAIN_MS 30000 /* a leader without room tries again: the others may have none */

void handover_init(struct handover *handover, const struct ground *on)
{
    *handover = (struct handover){.on = on};
    timer_init(&handover->limit, ground_wake);
    timer_init(&handover->pause, ground_wake);
    timer_init(&handover->next_turn, ground_wake);
    timer_init(&handover->no_room_pause, ground_wake);
}

void handover_begin(struct handover *handover, uint64_t to)
{
    const struct ground *on = handover->on;

    ASSERT(to != on->node_id);
    if (handover->active || timer_is_armed(&handover->pause)) {
        return;
    }
    handover->active = true;
    handover->to = to;
    timer_arm(on->timers, &handover->limit,
              ground_now_ms(on) + LIMIT_ELECTIONS * (uint64_t)on->driver->config.election_ms);
    timer_arm(on->timers, &handover->next_turn, ground_now_ms(on));
}

static void end(struct handover *handover)
{
    handover->active = false;
    timer_cancel(handover->on->timers, &handover->limit);
    timer_cancel(handover->on->timers, &handover->next_turn);
}

void handover_turn(struct handover *handover)
{
    const struct ground *on = handover->on;

    if (!handover->active) {
        return;
    }
    ASSERT(driver_leads(on->driver));
    if (driver_transfer(on->driver, handover->to) || !timer_is_armed(&handover->limit)) {
        end(handover);
        timer_arm(on->timers, &handover->pause, ground_now_ms(on) + on->driver->config.election_ms);
        handover->failed++;
        return;
    }
    timer_arm(on->timers, &handover->next_turn, ground_now_ms(on) + 1);
}

void handover_reset(struct handover *handover)
{
    end(handover);
    timer_cancel(handover->on->timers, &handover->pause);
    handover->failed = 0;
}

void handover_if_no_room(struct handover *handover)
{
    const struct ground *on = handover->on;

    if (!driver_disk_is_low(on->driver)) {
        timer_cancel(on->timers, &handover->no_room_pause);
    } else if (driver_leads(on->driver) && !timer_is_armed(&handover->no_room_pause)) {
        timer_arm(on->timers, &handover->no_room_pause, ground_now_ms(on) + NO_ROOM_AGAIN_MS);
        handover_begin(handover, 0);
    }
}
