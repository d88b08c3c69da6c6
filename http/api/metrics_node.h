/*
 * metrics_node.h - the part of /metrics that is not HTTP's: consensus, members, disk, state, ids,
 * the busiest tags, the process.
 *
 * The happy path: atomics, and a copy of what the raft loop gathered (id_figures.h), are written
 * out, without asking anybody: also while the raft loop hangs. What is not known is left out.
 *
 * Thread: any.
 */
#ifndef LEAFD_HTTP_API_METRICS_NODE_H
#define LEAFD_HTTP_API_METRICS_NODE_H

#include "http/api/exposition.h"
#include "http/auth/tokens.h"
#include "src/id/backend/id_backend.h"

/* identity: who asks, for names of tags; NULL: one who may see all. */
void metrics_node_put(struct exposition *to, const struct id_backend *backend,
                      const struct identity *identity);

/* What the process takes of the machine. */
void metrics_process_put(struct exposition *to);

#endif
