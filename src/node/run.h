/*
 * run.h - the node as a process: everything put together, started, and stopped in order.
 *
 * Up:   the store is opened, the node starts (links to the peers; one that joins a cluster is let
 *       in), HTTP listens.
 * Down, on SIGTERM or SIGINT, or because the cluster has removed the node:
 *
 *   starting ---> serving
 *      |             v
 *      |          handover  /readyz refuses and leadership goes to another node; HTTP still serves,
 *      |             |      so that clients of the other nodes feel the change of leader, no more;
 *      |             |      its connections retire (http/server/conn.h)
 *      |             v
 *      |          draining  HTTP accepts no more, answers what is under way; connections end
 *      |             v
 *      +--------> stopping  the node answers what is left and closes; HTTP threads are joined
 *      |             v
 *      +--------> stopped   the store is closed; exit code 0
 *
 * The whole stop has one grace period: a phase gets what those before it left. None can hang:
 * the handover has a bound of its own, HTTP and the node keep theirs.
 *
 * Failure modes: whatever keeps the node from starting, or makes it unsafe to continue, is logged
 * with what and where, and gives an exit code of its own (report.h). A second signal to stop ends
 * the process at once; what other signals do is in signals.h.
 *
 * Thread: main, which is the raft loop.
 */
#ifndef LEAFD_NODE_RUN_H
#define LEAFD_NODE_RUN_H

#include "src/node/config/config.h"
#include "src/node/report.h"

/* Run a node until something stops it. */
enum exit_code run_node(const struct config *config);

#endif
