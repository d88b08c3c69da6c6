/*
 * strict.h - ids of strict tags: one request to the log for each, so that an id is greater than
 * every id of its tag whose reply arrived anywhere before the request was sent.
 *
 * The happy path: the tag, the count and the Idempotency-Key go to the backend (ID_REQUEST_STRICT);
 * the answer is one range. Every node takes the request; the cluster batches what waits on all of
 * them.
 *
 * When the tag is in trend mode after all (this node is behind), a request without a key is handed
 * back, to begin anew with a segment; one with a key is refused, because a segment cannot keep its
 * promise.
 *
 * Failure modes: unknown tag 404; exhausted and a key that was used with another count 409; a bad
 * key 400; all that may be tried again 503, each with its own code. After a 503 `timeout` the ids
 * may have been used up; with a key the same request can be repeated without losing any.
 *
 * Thread: the loop's.
 */
#ifndef LEAFD_HTTP_API_STRICT_H
#define LEAFD_HTTP_API_STRICT_H

#include "http/api/ids.h"

/* Take the ids of a claim from the log. on_trend gets a copy of the claim if the tag has segments,
 * the first time. Returns ANSWERED. */
int strict_start(struct conn *conn, const struct id_claim *claim,
                 int (*on_trend)(struct conn *conn, struct id_claim *claim));

#endif
