/*
 * build.h - what GET /version and /metrics show of the process. Thread: any; but for the counters
 * it does not change.
 */
#ifndef LEAFD_HTTP_API_BUILD_H
#define LEAFD_HTTP_API_BUILD_H

#include "http/api/reloads.h"

struct http_build {
    const char *version;
    const char *commit;                 /* "" if unknown */
    const char *libraries;              /* JSON object text of library versions */
    const struct http_reloads *reloads; /* NULL: it has no settings to read again */
};

#endif
