/*
 * latency.c - see latency.h. Thread: the loop's.
 */
#include "http/server/latency.h"

#include <inttypes.h>
#include <stdio.h>
#include <uv.h>

#include "src/base/assert.h"
#include "src/base/hot.h"

HOT uint64_t latency_begin(struct latency *latency)
{
    if (latency->turn_us == 0) {
        latency->turn_us = uv_hrtime() / 1000;
    }
    return latency->turn_us;
}

HOT uint64_t latency_end(struct latency *latency, unsigned class, int status, uint64_t began_us)
{
    unsigned digit = (unsigned)status / 100 - 2;
    unsigned kind = class * LATENCY_STATUSES + digit;
    uint64_t turn_us = latency_begin(latency);

    ASSERT(class < LATENCY_CLASSES && digit < LATENCY_STATUSES);
    if (began_us != 0 && began_us != turn_us) { /* it waited */
        histogram_note(&latency->took[class][digit], turn_us - began_us, 1);
        return turn_us - began_us;
    }
    if (latency->answered[kind]++ == 0) {
        latency->kinds[latency->kind_count++] = (uint8_t)kind;
    }
    return 0;
}

/* Of 16 digits, which are some. */
static uint64_t trace_half(const char *digits)
{
    uint64_t number = 0;

    for (int i = 0; i < 16; i++) {
        char c = digits[i];

        ASSERT((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'));
        number = number << 4 | (uint64_t)(c <= '9' ? c - '0' : c - 'a' + 10);
    }
    return number;
}

void latency_exemplar(struct latency *latency, unsigned class, int status, uint64_t took_us,
                      const char trace[HEADER_TRACE_BYTES], uint64_t wall_ms)
{
    unsigned digit = (unsigned)status / 100 - 2;
    struct exemplar *exemplar;
    uint64_t writes;

    ASSERT(class < LATENCY_CLASSES && digit < LATENCY_STATUSES);
    exemplar = &latency->exemplars[class][digit][histogram_bucket(took_us)];
    writes = atomic_load_explicit(&exemplar->writes, memory_order_relaxed);
    /* Each is stored after the odd count, and the even one after them. */
    atomic_store_explicit(&exemplar->writes, writes + 1, memory_order_relaxed);
    atomic_store_explicit(&exemplar->trace[0], trace_half(trace), memory_order_release);
    atomic_store_explicit(&exemplar->trace[1], trace_half(trace + 16), memory_order_release);
    atomic_store_explicit(&exemplar->took_us, took_us, memory_order_release);
    atomic_store_explicit(&exemplar->wall_ms, wall_ms, memory_order_release);
    atomic_store_explicit(&exemplar->writes, writes + 2, memory_order_release);
}

uint64_t latency_count(const struct latency *latency, unsigned class, unsigned status)
{
    struct histogram_view view = {0};

    ASSERT(class < LATENCY_CLASSES && status < LATENCY_STATUSES);
    histogram_add(&view, &latency->took[class][status]);
    return histogram_count(&view);
}

void latency_flush(struct latency *latency)
{
    latency_turn_end(latency, uv_hrtime() / 1000);
}

HOT void latency_turn_end(struct latency *latency, uint64_t now_us)
{
    for (unsigned i = 0; i < latency->kind_count; i++) {
        unsigned kind = latency->kinds[i];

        histogram_note(&latency->took[kind / LATENCY_STATUSES][kind % LATENCY_STATUSES],
                       now_us - latency->turn_us, latency->answered[kind]);
        latency->answered[kind] = 0;
    }
    latency->kind_count = 0;
    latency->turn_us = 0;
}

/* --- exemplars --- */

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
