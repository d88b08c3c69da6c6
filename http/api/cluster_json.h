/*
 * cluster_json.h - the cluster as a node sees it, as JSON: of GET /api/cluster, and with what is
 * known of each link, of GET /api/status.
 *
 * Thread: pure functions, any.
 */
#ifndef LEAFD_HTTP_API_CLUSTER_JSON_H
#define LEAFD_HTTP_API_CLUSTER_JSON_H

#include "src/base/buf.h"
#include "src/id/backend/id_backend.h"

/* Append the members of the object, without its braces. with_links: each member has lag,
 * round_trip_us, clock_offset_ms and last_heard_ms, too. */
void cluster_json_put(const struct id_cluster_status *status, bool with_links, struct buf *json);

/* Append how snowflake ids of this cluster are made: an object, or null where this node does not
 * know it. before: as it is. */
void layout_json_put(const struct snowflake *snowflake, const char *before, struct buf *json);

#endif
