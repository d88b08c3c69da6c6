/*
 * reloads.h - how often the process read its settings again (SIGHUP), for the metrics.
 *
 * Thread: written by main, read by any.
 */
#ifndef LEAFD_HTTP_API_RELOADS_H
#define LEAFD_HTTP_API_RELOADS_H

#include <stdatomic.h>
#include <stdint.h>

struct http_reloads {
    _Atomic uint64_t done;
    _Atomic uint64_t refused;
    _Atomic uint64_t done_ms; /* wall time of the last one that was done; 0: none yet */
};

static inline void http_reloads_add(_Atomic uint64_t *count)
{
    atomic_fetch_add_explicit(count, 1, memory_order_relaxed);
}

static inline void http_reloads_set(_Atomic uint64_t *value, uint64_t to)
{
    atomic_store_explicit(value, to, memory_order_relaxed);
}

#endif
