/*
 * standing.c - see standing.h. Thread: the raft loop.
 */
#include "raft/cluster/standing.h"

#include <string.h>

#include "src/base/container.h"

static void tell(const struct standing *standing, uint64_t to, const struct peer_standing *now)
{
    (void)ground_send_standing(standing->on, to, FRAME_STANDING, &(struct wire_standing){*now});
}

static void tell_all(const struct standing *standing, const struct peer_standing *now)
{
    MEMBER_FOREACH (member, driver_configuration(standing->on->driver)) {
        if (member->id != standing->on->node_id) {
            tell(standing, member->id, now);
        }
    }
}

static void on_timer(struct timer *timer, uint64_t now_ms)
{
    struct standing *standing = CONTAINER(timer, struct standing, timer);
    struct peer_standing now;

    timer_arm(standing->on->timers, timer, now_ms + STANDING_CHANGED_MS);
    if (driver_standing(standing->on->driver, &now) &&
        (memcmp(&now, &standing->told, sizeof now) != 0 ||
         now_ms >= standing->told_ms + STANDING_MS)) {
        tell_all(standing, &now);
        standing->told = now;
        standing->told_ms = now_ms;
    }
}

void standing_init(struct standing *standing, const struct ground *on)
{
    *standing = (struct standing){.on = on};
    timer_init(&standing->timer, on_timer);
    timer_arm(on->timers, &standing->timer, ground_now_ms(on));
}

void standing_stop(struct standing *standing)
{
    struct peer_standing now;

    if (driver_standing(standing->on->driver, &now)) {
        tell_all(standing, &now);
    }
}

void standing_link_up(struct standing *standing, uint64_t peer)
{
    struct peer_standing now;

    if (driver_standing(standing->on->driver, &now)) {
        tell(standing, peer, &now);
    }
}
