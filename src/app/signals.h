/*
 * signals.h - what each signal does to the process (the table is in docs/operations.md).
 *
 * SIGTERM and SIGINT stop the node; a second one of them ends the process at once. SIGHUP has the
 * settings read again (reload.h). SIGUSR1 and SIGUSR2 leave a line in the log and do nothing:
 * whoever sends one means no end of the node, and by default each of them is one, without a word
 * and with all segments burnt. Signals that
 * report a failed write, or that come from timers and the like that leafd does not use, are
 * ignored. The rest does what it does by default.
 *
 * The happy path: signals_setup() is the first thing that main() does. These three stay blocked for
 * good, in all threads, and come through a file descriptor that the loop watches. So there is no
 * moment at which one could end the process: one that comes while the node starts is taken when the
 * loop runs, one that comes when the loop is gone never is.
 *
 * Failure modes: none. Thread: main.
 */
#ifndef LEAFD_APP_SIGNALS_H
#define LEAFD_APP_SIGNALS_H

#include <uv.h>

struct signals;

/* stop is called for each SIGTERM and SIGINT until signals_stop_now(), reload for SIGHUP. */
struct signals_owner {
    void (*stop)(struct signals *signals, int number);
    void (*reload)(struct signals *signals);
};

/* On a loop. */
struct signals {
    uv_signal_t sigterm;
    uv_signal_t sigint;
    uv_poll_t told; /* SIGHUP, SIGUSR1, SIGUSR2 */
    int told_fd;
    const struct signals_owner *owner;
};

/* Before there is any other thread. What the process inherited as ignored or has a handler for,
 * such as a profiler's, stays. */
void signals_setup(void);

/* Begin to watch. The owner is borrowed until signals_close(). */
void signals_init(struct signals *signals, uv_loop_t *loop, const struct signals_owner *owner);

/* From now on SIGTERM or SIGINT ends the process, even while the loop is kept from running. */
void signals_stop_now(struct signals *signals);

/* Close the handles. The struct stays until the loop has run. */
void signals_close(struct signals *signals);

#endif
