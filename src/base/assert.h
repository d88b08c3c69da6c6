/*
 * assert.h - assertions that stay on in every build.
 *
 * A wrong id is worse than a restart: an invariant that does not hold ends the process with the
 * place, the expression and a non-zero signal (SIGABRT), and the other nodes continue.
 *
 * Thread: any.
 */
#ifndef LEAFD_BASE_ASSERT_H
#define LEAFD_BASE_ASSERT_H

#include <stdbool.h>
#include <stddef.h>

#include "src/base/hot.h"

/* Write a line to stderr if there is room for it: nobody waits for who reads that. True if it was
 * written whole. Async-signal-safe. */
bool stderr_write(const char *text, size_t len);

/* Print the failed expression with its place to stderr and abort(). Never returns. */
COLD _Noreturn void assert_failed(const char *expression, const char *file, int line,
                                  const char *func);

/* The condition must hold; unlike assert(3) it is checked in release builds too. */
#define ASSERT(condition)                                                                          \
    do {                                                                                           \
        if (__builtin_expect(!(condition), 0)) {                                                   \
            assert_failed(#condition, __FILE__, __LINE__, __func__);                               \
        }                                                                                          \
    } while (0)

/* If a holds, b must hold too. */
#define ASSERT_IMPLIES(a, b) ASSERT(!(a) || (b))

/* The allocation must have succeeded: memory is bounded, so a failure ends the process. */
#define MUST_HAVE(memory)                                                                          \
    ({                                                                                             \
        void *had_ = (memory);                                                                     \
                                                                                                   \
        ASSERT(had_ != NULL);                                                                      \
        had_;                                                                                      \
    })

/* A place that cannot be reached. */
#define UNREACHABLE(why) assert_failed("unreachable: " why, __FILE__, __LINE__, __func__)

#endif
