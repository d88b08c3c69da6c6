/*
 * exemplar.c - see exemplar.h. Thread: as there.
 */
#include "http/server/exemplar.h"

#include <inttypes.h>
#include <stdio.h>

#include "src/base/assert.h"

/* Of 16 digits, which are some. */
static uint64_t number_of(const char *digits)
{
    uint64_t number = 0;

    for (int i = 0; i < 16; i++) {
        char c = digits[i];

        ASSERT((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'));
        number = number << 4 | (uint64_t)(c <= '9' ? c - '0' : c - 'a' + 10);
    }
    return number;
}

void exemplar_put(struct exemplar *exemplar, const char trace[HEADER_TRACE_BYTES], uint64_t took_us,
                  uint64_t wall_ms)
{
    uint64_t writes = atomic_load_explicit(&exemplar->writes, memory_order_relaxed);

    /* Each is stored behind the odd count, and the even one behind them. */
    atomic_store_explicit(&exemplar->writes, writes + 1, memory_order_relaxed);
    atomic_store_explicit(&exemplar->trace[0], number_of(trace), memory_order_release);
    atomic_store_explicit(&exemplar->trace[1], number_of(trace + 16), memory_order_release);
    atomic_store_explicit(&exemplar->took_us, took_us, memory_order_release);
    atomic_store_explicit(&exemplar->wall_ms, wall_ms, memory_order_release);
    atomic_store_explicit(&exemplar->writes, writes + 2, memory_order_release);
}

void exemplar_newer(struct exemplar_view *view, const struct exemplar *exemplar)
{
    uint64_t writes = atomic_load_explicit(&exemplar->writes, memory_order_acquire);
    /* Whoever sees one of a later write sees its odd count, too. */
    uint64_t high = atomic_load_explicit(&exemplar->trace[0], memory_order_acquire);
    uint64_t low = atomic_load_explicit(&exemplar->trace[1], memory_order_acquire);
    uint64_t took_us = atomic_load_explicit(&exemplar->took_us, memory_order_acquire);
    uint64_t wall_ms = atomic_load_explicit(&exemplar->wall_ms, memory_order_acquire);

    if (writes % 2 == 0 && wall_ms > view->wall_ms &&
        atomic_load_explicit(&exemplar->writes, memory_order_relaxed) == writes) {
        (void)snprintf(view->trace, sizeof view->trace, "%016" PRIx64 "%016" PRIx64, high, low);
        view->took_us = took_us;
        view->wall_ms = wall_ms;
    }
}
