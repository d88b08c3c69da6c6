/*
 * hot.h - where the linker puts a function: HOT if every request for an id runs it, COLD if no
 * successful one does.
 *
 * Between two requests the kernel has used the processor's caches. So the cost of a request depends
 * less on its instructions than on the lines and pages of code it touches. HOT functions are placed
 * side by side (16 pages of code became 5), and paths to a COLD call are moved out of them.
 *
 * Neither changes what a function does. Thread: any.
 */
#ifndef LEAFD_BASE_HOT_H
#define LEAFD_BASE_HOT_H

#define HOT __attribute__((hot))
#define COLD __attribute__((cold))

/*
 * --- yield: places between two steps whose order among threads matters. A test may stop a thread
 * there until others have continued; without a test such a stop is possible, but very rare.
 *
 * YIELD() is empty in release builds. If LEAFD_YIELD is defined (the builds with sanitizers), it
 * calls yield_at() of a test that has one, and else nothing.
 *
 * Thread: any.
 */

#ifdef LEAFD_YIELD

#include <stddef.h>

/* The test's own. place: static text, the thread's last step. */
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
