/*
 * refusal.c - see refusal.h. Thread: any.
 */
#include "http/api/refusal.h"

#include <stdio.h>

#include "http/proto/text.h"
#include "src/base/assert.h"

/* Of this node's worker ids: the latest end of a window, and the time behind which the first of
 * them is usable again. 0 if it has none. */
struct slot_times {
    uint64_t window_end_ms;
    uint64_t caught_up_ms;
};

static struct slot_times slot_times(const struct snowflake *snowflake)
{
    uint32_t count = atomic_load_explicit(&snowflake->slot_count, memory_order_acquire);
    struct slot_times times = {.caught_up_ms = UINT64_MAX};

    for (uint32_t i = 0; i < count; i++) {
        const struct snowflake_slot *slot = &snowflake->slots[i];
        uint64_t until_ms = atomic_load_explicit(&slot->until_ms, memory_order_relaxed);
        uint64_t used_ms = snowflake_last_used_ms(snowflake, slot);
        uint64_t from_ms = atomic_load_explicit(&slot->from_ms, memory_order_relaxed);
        uint64_t slot_ms = used_ms > from_ms ? used_ms : from_ms;

        if (atomic_load_explicit(&slot->limit_ms, memory_order_relaxed) == 0) {
            continue;
        }
        if (until_ms > times.window_end_ms) {
            times.window_end_ms = until_ms;
        }
        if (slot_ms < times.caught_up_ms) {
            times.caught_up_ms = slot_ms;
        }
    }
    times.caught_up_ms = times.caught_up_ms != UINT64_MAX ? times.caught_up_ms : 0;
    return times;
}

bool refusal_enabled(const struct id_backend *backend)
{
    const struct snowflake *snowflake = backend->snowflake;

    return snowflake != NULL &&
           atomic_load_explicit(&snowflake->refusal, memory_order_relaxed) != ERR_DISABLED;
}

int refusal_now(const struct id_backend *backend)
{
    return refusal_enabled(backend) ? atomic_load(&backend->health->snowflake_refusal) : 0;
}

uint64_t refusal_wait_until_ms(const struct id_backend *backend, int err)
{
    uint64_t until_ms = atomic_load(&backend->health->clock_wait_until_ms);

    /* The claim may have seen it before the backend did. */
    return until_ms == 0 && err == ERR_CLOCK_BACKWARDS ? slot_times(backend->snowflake).caught_up_ms
                                                       : until_ms;
}

static const char *clock_text(const struct id_backend *backend, int err, char *out, size_t size)
{
    uint64_t now_ms = clock_wall_ms(backend->clock);
    uint64_t until_ms = refusal_wait_until_ms(backend, err);
    long long off_ms = (long long)atomic_load(&backend->health->clock_off_ms);
    char time[TEXT_TIME_BYTES];

    if (off_ms == 0 && until_ms > now_ms) { /* no other clock was heard yet: our own past tells */
        off_ms = -(long long)(until_ms - now_ms);
    }
    if (until_ms == 0) {
        (void)snprintf(out, size,
                       "%s: it is off by %lld ms, and ids go on when it has been set right",
                       err_text(err), off_ms);
    } else {
        (void)snprintf(out, size,
                       "%s: it is off by %lld ms, and ids go on when it shows %llu (%s), which is "
                       "in %llu ms",
                       err_text(err), off_ms, ull(until_ms), text_time_rfc3339(until_ms, time),
                       ull(until_ms > now_ms ? until_ms - now_ms : 0));
    }
    return out;
}

const char *refusal_text(const struct id_backend *backend, int err, char *out, size_t size)
{
    uint64_t now_ms = clock_wall_ms(backend->clock);
    char time[TEXT_TIME_BYTES];
    uint64_t end_ms;

    ASSERT(backend->snowflake != NULL);
    switch (err) {
    case ERR_WINDOW_EXPIRED:
        end_ms = slot_times(backend->snowflake).window_end_ms;
        (void)snprintf(out, size,
                       "%s: it ended at %llu (%s), %llu ms ago, and ids go on when a majority of "
                       "the nodes has renewed it",
                       err_text(err), ull(end_ms), text_time_rfc3339(end_ms, time),
                       ull(now_ms > end_ms ? now_ms - end_ms : 0));
        return out;
    case ERR_EPOCH_EXHAUSTED:
        end_ms = snowflake_last_ms(&backend->snowflake->layout);
        (void)snprintf(out, size, "%s: its last millisecond was %llu (%s)", err_text(err),
                       ull(end_ms), text_time_rfc3339(end_ms, time));
        return out;
    case ERR_NO_WORKER_ID:
        (void)snprintf(out, size,
                       "%s, or none was granted to this node yet; GET /api/workers tells who holds "
                       "them",
                       err_text(err));
        return out;
    case ERR_EMPTY:
        (void)snprintf(out, size, "this node is still being granted its worker id");
        return out;
    default:
        return clock_text(backend, err, out, size);
    }
}
