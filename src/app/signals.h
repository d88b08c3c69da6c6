/*
 * signals.h - what each signal does to the process (the table is in docs/operations.md).
 *
 * SIGTERM and SIGINT stop the node (server_stop.c). SIGHUP, SIGUSR1 and SIGUSR2 are told in the log
 * and do nothing: whoever sends one means no end of the node, and by default each of them is one,
 * without a word and with all segments burnt. Signals that report a failed write, or that come from
 * timers and the like that leafd does not use, are ignored. The rest does what it does by default.
 *
 * The happy path: signals_setup() is the first thing that main() does; the three that are told stay
 * blocked for good, in all threads, and come through a file descriptor that the loop watches. So
 * there is no moment at which one could end the process: one that comes while the node starts is
 * told when the loop runs, one that comes when the loop is gone is never told.
 *
 * Failure modes: none. Thread: main.
 */
#ifndef LEAFD_APP_SIGNALS_H
#define LEAFD_APP_SIGNALS_H

#include <stdbool.h>
#include <stddef.h>

/* Before there is any other thread. What the process inherited as ignored or has a handler for,
 * such as a profiler's, stays. */
void signals_setup(void);

/* A descriptor that is readable while one of the three waits to be told; the caller closes it. */
int signals_open(void);

/* Tell all that wait. */
void signals_tell(int fd);

#endif
