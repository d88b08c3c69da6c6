/*
 * snowflake.h - snowflake ids: GET and POST /api/snowflake/get/{key}; named layouts, /api/layouts;
 * taking ids apart, also the texts of tags with a shape; and why ids are refused, in words and
 * numbers.
 *
 * The happy path of taking: one compare-and-swap claims the ids, the reply is appended to the
 * connection's output. No lock, no allocation, no system call (the clock is read through the vDSO).
 * When a millisecond has too few ids, what there is is taken and kept, and the request parks with a
 * deadline. Nobody could wake it: time alone brings new ids, or the raft loop extends the mark. So
 * the loop's timer lets the parked ones try again each millisecond, oldest first, for each layout
 * by itself. When a reply has no place for one more range, the shortest is given up for it: so the
 * most that the layout allows can be had, though others claim from the same milliseconds.
 *
 * Layouts. A PUT names a preset, or says all fields; it is checked here, proposed, and answered
 * once it is in the log. Reading shows what this node has applied, and asks nobody.
 *
 * Taking apart. Snowflake ids: /api/snowflake/decode/{id} by the cluster's layout, or a named one,
 * also as UUIDs and ULIDs, and /decodeSnowflakeId as Leaf has it, by Leaf's. Texts of a tag with a
 * shape: GET /api/segment/decode/{tag}, by the row that the cluster has. The reverse, the smallest
 * id of a time: /api/snowflake/at.
 *
 * Failure modes: what the rules forbid 400 and 409; a clock or window that is no good 503 at once;
 * the deadline 503; the layout's end 507. Ids claimed for a request that then fails are burnt. A
 * layout's name with other fields, and a cluster whose level is too low, 409; no such layout 404;
 * one name too many 503. What is no id, or none of this layout, 400 (Leaf's route: 200 with
 * errorMsg); the cluster's layout not known yet 503.
 *
 * Threads: the loop's; of refusals any: numbers are read from atomics and are of about the same
 * moment.
 */
#ifndef LEAFD_HTTP_API_SNOWFLAKE_H
#define LEAFD_HTTP_API_SNOWFLAKE_H

#include "src/id/backend/id_backend.h"

/* --- why ids are refused --- */

/* Every error with which snowflake ids may be refused, apart from "disabled". */
#define REFUSAL_CODES                                                                              \
    {                                                                                              \
        ERR_CLOCK_BACKWARDS, ERR_CLOCK_SKEW, ERR_WINDOW_EXPIRED, ERR_EPOCH_EXHAUSTED,              \
            ERR_NO_WORKER_ID                                                                       \
    }

/* What the backend tells of this moment: 0, or one of REFUSAL_CODES. 0 also if snowflake ids are
 * switched off. */
int refusal_now(const struct id_backend *backend);

/* True if snowflake ids are served on this node, now or at another time. */
bool refusal_enabled(const struct id_backend *backend);

/* The wall time from which ids go on, as far as it is known; 0: time alone does not help. */
uint64_t refusal_wait_until_ms(const struct id_backend *backend, int err);

/* A sentence on an error of REFUSAL_CODES into out, cut to size. Returns out. */
const char *refusal_text(const struct id_backend *backend, int err, char *out, size_t size);

#define REFUSAL_TEXT_BYTES 320

struct conn;
struct id_claim;
struct param;

/* Is the cluster's layout known here? False: answered. */
bool snowflake_is_known(struct conn *conn);

/* The smallest id of a time, of the layout that is named or the cluster's own; the texts are as the
 * client sent them. False: answered. */
bool snowflake_id_at(struct conn *conn, const struct param *time, const struct param *named,
                     uint64_t *ret_id);

/* Take the ids of a claim that was read, and answer. Return as a handler does. */
int snowflake_begin(struct conn *conn, struct id_claim *claim);

#endif
