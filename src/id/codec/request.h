/*
 * request.h - the kinds of requests that the id service has beside those of the cluster
 * (src/state/codec/request.h), and how the parts below it submit a request.
 *
 * The happy path: an HTTP loop submits a request by id_backend.submit, a part of the node on the
 * raft loop by an id_proposer.
 *
 * Failure modes: the status, as below. Thread: as each struct says.
 */
#ifndef LEAFD_ID_CODEC_REQUEST_H
#define LEAFD_ID_CODEC_REQUEST_H

#include "src/state/codec/request.h"

/* Of the cluster's kinds, a LEADER is a COMMAND_STRICT, never stamped, whose items take ids of the
 * leader's windows (docs/monotonic.md); reply: RESULT_STRICT. */
enum id_request_kind {
    /* payload: a tag's name; afterwards the id table holds it. Status 0 or ERR_UNKNOWN_TAG; asks
     * the leader before it answers unknown */
    ID_REQUEST_OPEN = CLUSTER_REQUEST_KINDS,
    ID_REQUEST_STATUS,   /* out: struct id_cluster_status, filled from this node's view */
    ID_REQUEST_SEGMENTS, /* payload: a QUERY_TAG_LIST; out: struct id_segments_page */
    ID_REQUEST_STRICT,   /* payload: strict_item_encode(); reply: RESULT_STRICT of one, also when
                            status is the error of that result (the details of an ERR_KEY_CONFLICT,
                            ERR_KEYS_FULL, ERR_CHANGING, ERR_EXHAUSTED); empty when the request was
                            never carried out */
    ID_REQUEST_BACKUP,   /* out: struct id_backup; reply: its next bytes */
    ID_REQUEST_BUFFERS   /* payload: a QUERY_TAG_LIST; out: struct id_buffers: the ids held by each
                            member that answers by the deadline. Status 0, ERR_OVERLOADED
                            (LIMIT_BUFFERS_WAITS) or ERR_SHUTTING_DOWN */
};

/* How a part of the node on the raft loop reaches the cluster: by a request of kind COMMAND or
 * LEADER. The id service implements it by the function that serves id_backend.submit; the
 * simulation and tests provide their own. Owner's thread. */
struct id_proposer {
    void (*propose)(struct id_proposer *proposer, struct cluster_request *request);
};

#endif
