/*
 * build.h - what GET /version and /metrics show of the process. Thread: any; but for the counters
 * it does not change.
 */
#ifndef LEAFD_HTTP_API_BUILD_H
#define LEAFD_HTTP_API_BUILD_H

#include <stdatomic.h>
#include <stdint.h>

/* How often it read its settings again (SIGHUP): written by main, read by any. */
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

struct http_build {
    const char *version;
    const char *commit;                 /* "" if unknown */
    const char *libraries;              /* JSON object text of library versions */
    const struct http_reloads *reloads; /* NULL: it has no settings to read again */
};

#endif
