/*
 * signals.h - what signals do to the process, and of what the process notifies its supervisor.
 *
 * Signals (the table is in docs/operations.md): SIGTERM and SIGINT stop the node; a second one of
 * them ends the process at once. SIGHUP has the settings read again (reload.h). SIGUSR1 and SIGUSR2
 * leave a line in the log and do nothing: nobody who sends one means to end the node, and by
 * default each of them does, without a word and with all segments burnt. Signals that report a
 * failed write, or that come from timers and the like that leafd does not use, are ignored. The
 * rest does what it does by default.
 *
 * The supervisor is systemd, or whatever else has set NOTIFY_SOCKET (sd_notify(3), a unit of
 * Type=notify). It learns of these: ready, once HTTP listens (and not only when ids are served: the
 * first nodes of a new cluster wait for the others, and a supervisor that starts one after the
 * other must not wait for that); that settings are being read again; that the process stops; its
 * status in words; and that it is alive, as long as the raft loop and all HTTP loops take their
 * turns. If a loop is stuck nothing is said any more, and the supervisor ends the process
 * (WatchdogSec=). The writer of the disk is left out: no restart mends a disk that hangs.
 * libsystemd makes a socket for each message, which the sandbox does not allow, and brings three
 * libraries along. The protocol is a datagram of lines, so it is spoken here: the socket is made
 * and connected before the sandbox.
 *
 * The happy path: signals_setup() is the first thing that main() does. SIGHUP, SIGUSR1 and SIGUSR2
 * stay blocked for good, in all threads, and come through a file descriptor that the loop watches.
 * So none of them can end the process at any moment: one that comes while the node starts is taken
 * when the loop runs, one that comes when the loop is gone never is. signals_init() and
 * supervisor_open() take the loop, the others follow the node up and down, signals_close() and
 * supervisor_close() come with the end of the loop.
 *
 * Failure modes: a NOTIFY_SOCKET that cannot be used is logged, once, and nothing is sent. Messages
 * that the supervisor does not take are lost; the next ones come. Thread: main.
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

/* Before there is any other thread. What the process inherited as ignored or has a handler for,
 * such as a profiler's, stays. */
void signals_setup(void);

/* Begin to watch: stop is called for each SIGTERM and SIGINT until signals_stop_now(), reload for
 * SIGHUP. */
void signals_init(struct signals *signals, uv_loop_t *loop,
                  void (*stop)(struct signals *signals, int number),
                  void (*reload)(struct signals *signals));

/* From now on SIGTERM or SIGINT ends the process, even while the loop is kept from running. */
void signals_stop_now(struct signals *signals);

/* Close the handles. The struct stays until the loop has run. */
void signals_close(struct signals *signals);

/* --- the supervisor --- */

#define SUPERVISOR_STATUS_BYTES 160

struct supervisor {
    int fd;             /* -1: there is no supervisor */
    uint64_t within_us; /* so often it wants to hear that the node is alive; 0: it does not */
    uv_timer_t timer;
    struct listeners *listeners;      /* borrowed */
    const struct id_backend *backend; /* NULL: not up, or stopping */
    char status[SUPERVISOR_STATUS_BYTES];
};

/* Take the address and the interval from the environment. */
void supervisor_open(struct supervisor *supervisor, uv_loop_t *loop, struct listeners *listeners);

/* In words, of less than SUPERVISOR_STATUS_BYTES, without a line's end. */
void supervisor_set_status(struct supervisor *supervisor, const char *status);

/* The node is up: from now on it is looked at. backend: borrowed until supervisor_stopping(). */
void supervisor_ready(struct supervisor *supervisor, const struct id_backend *backend);

/* Settings are being read again, or no more. */
void supervisor_reload(struct supervisor *supervisor, bool begins);

void supervisor_stopping(struct supervisor *supervisor);

/* Close the handle. The struct stays until the loop has run. */
void supervisor_close(struct supervisor *supervisor);

#endif
