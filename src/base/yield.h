/*
 * yield.h - places between two steps that threads take in an order that matters. A test may stop
 * a thread there, until others have gone on; between any two of its steps this can happen, but by
 * itself it hardly ever does.
 *
 * YIELD() is nothing in the builds that are used (release). Where LEAFD_YIELD is defined (the
 * builds with sanitizers) it calls yield_at() of a test that has one, and else nothing.
 *
 * Thread: any.
 */
#ifndef LEAFD_BASE_YIELD_H
#define LEAFD_BASE_YIELD_H

#ifdef LEAFD_YIELD

#include <stddef.h>

/* The test's own. place: static text, what the thread has just done. */
void yield_at(const char *place) __attribute__((weak));

#define YIELD(place)                                                                               \
    do {                                                                                           \
        if (yield_at != NULL) {                                                                    \
            yield_at(place);                                                                       \
        }                                                                                          \
    } while (0)

#else
#define YIELD(place) ((void)0)
#endif

#endif
