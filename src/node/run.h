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
 *      |             |      so clients of the other nodes notice only the change of leader;
 *      |             |      its connections retire (http/server/conn.h)
 *      |             v
 *      |          draining  HTTP accepts no more, answers open requests; connections end
 *      |             v
 *      +--------> stopping  the node answers remaining requests and closes; HTTP threads are joined
 *      |             v
 *      +--------> stopped   the store is closed; exit code 0
 *
 * The whole stop has one grace period: a phase gets the time that earlier phases left. None can
 * hang: the handover, HTTP and the node each have a time limit.
 *
 * Failure modes: an error that prevents the start, or makes it unsafe to continue, is logged with
 * what and where, and has its own exit code (report.h). A second signal to stop ends the process at
 * once; signals.h describes the other signals.
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
