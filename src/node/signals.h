/*
 * signals.h - effects of signals on the process, and notifications to its supervisor.
 *
 * Signals (the table is in docs/operations.md): SIGTERM and SIGINT stop the node; a second one ends
 * the process at once. SIGHUP reloads the settings (reload.h). SIGUSR1 and SIGUSR2 only write a
 * line to the log: their default action would end the node silently and burn all segments, which no
 * sender wants. Signals for failed writes, and for timers and the like that leafd does not use, are
 * ignored. All others keep their default action.
 *
 * The supervisor is systemd, or another program that sets NOTIFY_SOCKET (sd_notify(3), a unit of
 * Type=notify). The process reports: ready, once HTTP listens; a reload of settings; its stop; its
 * status in words; and that it is alive, while the raft loop and all HTTP loops take their turns.
 * (Ready does not wait until ids are served: the first nodes of a new cluster wait for the others,
 * and a supervisor may start them one after the other.) If a loop is stuck, reports cease and the
 * supervisor ends the process (WatchdogSec=). The disk's writer does not count: no restart repairs
 * a disk that hangs. libsystemd is not used: it makes a socket for each message, which the sandbox
 * forbids, and needs three more libraries. The protocol is one datagram of lines. Its socket is
 * made and connected before the sandbox.
 *
 * The happy path: signals_setup() is the first thing that main() does. SIGHUP, SIGUSR1 and SIGUSR2
 * stay blocked in all threads, and arrive through a file descriptor that the loop watches. So none
 * of them can ever end the process: one sent during the start is handled once the loop runs, one
 * sent after the loop's end never is. signals_init() and supervisor_open() take the loop; the other
 * functions follow the node's start and stop; signals_close() and supervisor_close() end with the
 * loop.
 *
 * Failure modes: an unusable NOTIFY_SOCKET is logged once, and nothing is sent. A message that the
 * supervisor does not accept is lost; later ones are still sent. Thread: main.
 */
#ifndef LEAFD_NODE_SIGNALS_H
#define LEAFD_NODE_SIGNALS_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "src/id/backend/id_backend.h"
#include "src/node/listeners.h"

/* --- signals --- */

/* On a loop. */
struct signals {
    uv_signal_t sigterm;
    uv_signal_t sigint;
    uv_poll_t blocked; /* SIGHUP, SIGUSR1, SIGUSR2 */
    int blocked_fd;
    void (*stop)(struct signals *signals, int number);
    void (*reload)(struct signals *signals);
};

/* Call before there is any other thread. Signals inherited as ignored, or with a handler (a
 * profiler's), stay so. */
void signals_setup(void);

/* Begin to watch: stop is called for each SIGTERM and SIGINT until signals_stop_now(), reload for
 * SIGHUP. */
void signals_init(struct signals *signals, uv_loop_t *loop,
                  void (*stop)(struct signals *signals, int number),
                  void (*reload)(struct signals *signals));

/* From now on SIGTERM or SIGINT ends the process, even if the loop is stuck. */
void signals_stop_now(struct signals *signals);

/* Close the handles. The struct stays until the loop has run. */
void signals_close(struct signals *signals);

/* --- the supervisor --- */

#define SUPERVISOR_STATUS_BYTES 160

struct supervisor {
    int fd;             /* -1: there is no supervisor */
    uint64_t within_us; /* interval in which the supervisor expects a sign of life; 0: none */
    uv_timer_t timer;
    struct listeners *listeners;      /* borrowed */
    const struct id_backend *backend; /* NULL: not up, or stopping */
    char status[SUPERVISOR_STATUS_BYTES];
};

/* Take the address and the interval from the environment. */
void supervisor_open(struct supervisor *supervisor, uv_loop_t *loop, struct listeners *listeners);

/* The status in words: fewer than SUPERVISOR_STATUS_BYTES bytes, without a newline. */
void supervisor_set_status(struct supervisor *supervisor, const char *status);

/* The node is up: watch it from now on. backend: borrowed until supervisor_stopping(). */
void supervisor_ready(struct supervisor *supervisor, const struct id_backend *backend);

/* A reload of settings begins or has ended. */
void supervisor_reload(struct supervisor *supervisor, bool begins);

void supervisor_stopping(struct supervisor *supervisor);

/* Close the handle. The struct stays until the loop has run. */
void supervisor_close(struct supervisor *supervisor);

#endif
