/*
 * cluster.h - the cluster as operators see and change it: GET /api/cluster, the segments of a node
 * and of all, members, leadership, level, and the backup.
 *
 * The happy path of a view: the raft loop is asked, and its answer shown. Of a change (POST
 * /api/cluster/members, DELETE and PUT /api/cluster/members/{id}, POST /api/cluster/leader and
 * /api/cluster/level): the request is checked, the backend asks the leader until it is so, and the
 * answer is 200; if that takes longer than timeout_ms, 202, and it continues without this request:
 * asking again, on any node, waits for the same change.
 *
 * The happy path of the backup, all rows of the state as a file (backup_file.h), streamed: the
 * first call to the backend begins the backup and gives its first bytes; they are sent; when the
 * client has taken them, the next call asks for more, until the last. So at most one part is in
 * memory, however slow the client is; the usual limit of connections cuts it off when it takes
 * nothing at all.
 *
 * Failure modes: bad input 400; an id that no member has 404; whatever stands against the change
 * 409, with a code of its own; a node that cannot be reached, or no answer, 503. A backup: before
 * the first byte 503, as other requests; `overloaded` when another backup is being taken on this
 * node; later the connection is reset, and the file has no closing record. The client goes: the
 * backend hears of it, so that the next backup can begin.
 *
 * Thread: the loop's.
 */
#ifndef LEAFD_HTTP_API_CLUSTER_H
#define LEAFD_HTTP_API_CLUSTER_H

#include "src/base/buf.h"
#include "src/id/backend/id_backend.h"

/* --- the cluster as JSON --- */

/* Append the members of the object, without its braces. with_links: each member has lag,
 * round_trip_us, clock_offset_ms and last_heard_ms, too. */
void cluster_json_put(const struct id_cluster_status *status, bool with_links, struct buf *json);

/* Append the object of GET /api/nodes: what clients choose a node by. */
void nodes_json_put(const struct id_cluster_status *status, struct buf *json);

#endif
