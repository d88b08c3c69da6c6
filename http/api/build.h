/*
 * build.h - what GET /version shows of the process. Thread: any; it does not change.
 */
#ifndef LEAFD_HTTP_API_BUILD_H
#define LEAFD_HTTP_API_BUILD_H

struct http_build {
    const char *version;
    const char *commit;    /* "" if unknown */
    const char *libraries; /* JSON object text of library versions */
};

#endif
