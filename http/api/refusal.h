/*
 * refusal.h - why snowflake ids are refused, in words and numbers, for replies and for /readyz.
 *
 * Thread: any; numbers are read from atomics and are of about the same moment.
 */
#ifndef LEAFD_HTTP_API_REFUSAL_H
#define LEAFD_HTTP_API_REFUSAL_H

#include "src/id/backend/id_backend.h"

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

#endif
