/*
 * supervisor.h - what the node tells the program that supervises it: systemd, or whoever else has
 * set NOTIFY_SOCKET (sd_notify(3), a unit of Type=notify).
 *
 * Told are: ready, once HTTP listens (and not only when ids are served: the first nodes of a new
 * cluster wait for the others, and whoever starts one after the other must not wait for that);
 * that settings are being read again; that it stops; in a line of words, what it is at; and that
 * it is alive, as long as the raft loop and all HTTP loops take their turns. If a loop is stuck
 * nothing is said any more, and the supervisor ends the process (WatchdogSec=). The writer of the
 * disk is left out: a disk that hangs is mended by no restart.
 *
 * libsystemd makes a socket for each message, which the sandbox does not allow, and brings three
 * libraries along. The protocol is a datagram of lines, so this file speaks it: the socket is made
 * and connected at the start, before the sandbox.
 *
 * The happy path: supervisor_open() first, the others as the node goes up and down,
 * supervisor_close() with the loop.
 *
 * Failure modes: an address that cannot be used is logged, once, and nobody is told anything.
 * Messages that the supervisor does not take are lost; the next ones come. Thread: main.
 */
#ifndef LEAFD_APP_SUPERVISOR_H
#define LEAFD_APP_SUPERVISOR_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "src/app/doors.h"
#include "src/id/backend/id_backend.h"

#define SUPERVISOR_STATUS_BYTES 160

struct supervisor {
    int fd;             /* -1: nobody is to be told */
    uint64_t within_us; /* so often it wants to hear that the node is alive; 0: it does not */
    uv_timer_t timer;
    struct doors *doors;              /* borrowed */
    const struct id_backend *backend; /* NULL: not up, or on its way down */
    char status[SUPERVISOR_STATUS_BYTES];
};

/* Take the address and the interval from the environment. */
void supervisor_open(struct supervisor *supervisor, uv_loop_t *loop, struct doors *doors);

/* In words, of less than SUPERVISOR_STATUS_BYTES, without a line's end. */
void supervisor_tell(struct supervisor *supervisor, const char *status);

/* The node is up: from now on it is looked at. backend: borrowed until supervisor_stopping(). */
void supervisor_ready(struct supervisor *supervisor, const struct id_backend *backend);

/* Settings are being read again, until supervisor_reloaded(). */
void supervisor_reloading(struct supervisor *supervisor);
void supervisor_reloaded(struct supervisor *supervisor);

void supervisor_stopping(struct supervisor *supervisor);

/* Close the handle. The struct stays until the loop has run. */
void supervisor_close(struct supervisor *supervisor);

#endif
