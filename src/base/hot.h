/*
 * hot.h - where the linker puts a function: HOT for what every request for an id runs through, COLD
 * for what none does that goes well.
 *
 * Between two requests the kernel has had the processor's caches, so that a request costs less by
 * its instructions than by the lines and pages of code it touches. HOT functions lie side by side
 * (16 pages of code became 5), and what leads to a call of a COLD one is moved out of their way.
 *
 * Neither changes what a function does. Thread: any.
 */
#ifndef LEAFD_BASE_HOT_H
#define LEAFD_BASE_HOT_H

#define HOT __attribute__((hot))
#define COLD __attribute__((cold))

/*
 * --- yield: places between two steps that threads take in an order that matters. A test may stop
 * a thread there, until others have gone on; between any two of its steps this can happen, but by
 * itself it hardly ever does.
 *
 * YIELD() is nothing in the builds that are used (release). Where LEAFD_YIELD is defined (the
 * builds with sanitizers) it calls yield_at() of a test that has one, and else nothing.
 *
 * Thread: any.
 */

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
