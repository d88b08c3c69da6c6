/*
 * bell.h - wakes a loop from any thread, so that it looks at what was left for it.
 *
 * The happy path: a thread leaves something where the loop finds it and rings; the loop's thread
 * calls `rang` once for all rings since it last did. What was left before a ring is seen by it.
 *
 * Why not uv_async_t: it lets the loop spin, and then yield, until the thread that woke it has come
 * back from the system call by which it did, which on a busy machine is often a time slice away.
 *
 * Failure modes: none, once it is made.
 *
 * Threads: bell_ring() from any, until bell_free(); the rest from the loop's thread.
 */
#ifndef LEAFD_LOOP_BELL_H
#define LEAFD_LOOP_BELL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <uv.h>

#include "src/base/container.h"
#include "src/base/err.h"

struct bell {
    _Atomic bool rung; /* the loop was woken and has not come yet */
    int fd;
    uv_poll_t poll;
    void (*rang)(struct bell *bell);
    void (*close_cb)(struct bell *bell);
} BY_NAME;

/* rang: on the loop's thread. 0 or ERR_NOMEM (no descriptor is left). */
int bell_init(struct bell *bell, uv_loop_t *loop, void (*rang)(struct bell *bell)) MUST_CHECK;

void bell_ring(struct bell *bell);

/* It rings no more; cb, on the loop's thread, when the loop has let go of it. */
void bell_close(struct bell *bell, void (*cb)(struct bell *bell));

/* Of one that is closed. */
void bell_free(struct bell *bell);

#endif
