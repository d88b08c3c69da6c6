/*
 * server.h - the node as a process: everything put together, started, and stopped in order.
 *
 * Start: data directory, node (raft, peers), HTTP, then the loop. Stop, on SIGTERM or SIGINT:
 *
 *   serving -> handover: /readyz refuses, leadership goes to another node; HTTP still serves,
 *              so that clients of the other nodes feel the change of leader and no more
 *           -> draining: HTTP accepts no more, answers what is under way, closes its connections
 *           -> stopping: the node answers what is left and closes; HTTP threads are joined
 *           -> stopped:  the data is closed; exit code 0
 *
 * Failure modes: whatever keeps the node from starting, or makes going on unsafe, is logged with
 * what and where, and gives an exit code of its own (exit_code.h). A second signal to stop ends the
 * process at once; what other signals do is in signals.h.
 *
 * Thread: main, which is the raft loop.
 */
#ifndef LEAFD_APP_SERVER_H
#define LEAFD_APP_SERVER_H

#include "src/app/config.h"
#include "src/app/exit_code.h"

/* Run a node until it is told to stop. */
enum exit_code server_run(const struct config *config);

#endif
