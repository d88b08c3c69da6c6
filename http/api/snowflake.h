/*
 * snowflake.h - snowflake ids: GET and POST /api/snowflake/get/{key}; named layouts, /api/layouts;
 * decoding ids, also the texts of tags with a shape; and the reasons of refusals, in words and
 * numbers.
 *
 * The happy path of taking: one compare-and-swap claims the ids, the reply is appended to the
 * connection's output. No lock, no allocation, no system call (the clock is read through the vDSO).
 * When a millisecond has too few ids, those it has are taken and kept, and the request parks with a
 * deadline. No event could wake it: new ids come only with time, or when the raft loop extends the
 * mark. So the loop's timer lets parked requests try again each millisecond, oldest first, for each
 * layout separately. When a reply has no room for one more range, its shortest range is given up:
 * a request can get the most that the layout allows, though others claim from the same
 * milliseconds.
 *
 * A layout's PUT is checked here, proposed, and answered once it is in the log. Layouts are read,
 * and snowflake ids decoded, by what this node has applied; texts of a tag with a shape by the
 * cluster's row; /decodeSnowflakeId, as in Leaf, by Leaf's layout.
 *
 * Failure modes: forbidden by the rules 400 and 409; an unusable clock or window 503 at once; the
 * deadline 503; the layout's end 507. Ids claimed for a request that then fails are burnt. A
 * layout's name with other fields, and a cluster whose level is too low, 409; no such layout 404;
 * one name too many 503. A text that is no id, or none of this layout, 400 (Leaf's route: 200 with
 * errorMsg); the cluster's layout not known yet 503.
 *
 * Threads: the loop's; refusals: any. Their numbers are read from atomics at about the same moment.
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

/* The backend's present state: 0, or one of REFUSAL_CODES. 0 also if snowflake ids are switched
 * off. */
int refusal_now(const struct id_backend *backend);

/* True if snowflake ids are served on this node, now or at another time. */
bool refusal_enabled(const struct id_backend *backend);

/* The wall time from which ids continue, if known; 0: time alone does not help. */
uint64_t refusal_wait_until_ms(const struct id_backend *backend, int err);

/* A sentence on an error of REFUSAL_CODES into out, cut to size. Returns out. */
const char *refusal_text(const struct id_backend *backend, int err, char *out, size_t size);

#define REFUSAL_TEXT_BYTES 320

struct conn;
struct id_claim;
struct layout_words;
struct snowflake_parts;
struct param;

/* Take an id apart, by the named layout or (NULL) the cluster's own. False: answered. */
bool snowflake_take_apart(struct conn *conn, const struct layout_words *named, uint64_t id,
                          struct snowflake_parts *ret_parts);

/* The smallest id of a time, by the named layout or the cluster's own; the texts are as the client
 * sent them. False: answered. */
bool snowflake_id_at(struct conn *conn, const struct param *time, const struct param *named,
                     uint64_t *ret_id);

/* Take the ids of a claim that was read, and answer. Returns as a handler does. */
int snowflake_begin(struct conn *conn, struct id_claim *claim);

#endif
