/*
 * worker_json.h - worker ids as JSON: bodies of /api/workers read strictly, rows written.
 *
 * Failure modes: those of body.h: unknown, repeated or missing fields, numbers that are not whole
 * or out of range, texts that break their rule. Nothing is taken from a body with any fault.
 *
 * Thread: pure functions, any.
 */
#ifndef LEAFD_HTTP_API_WORKER_JSON_H
#define LEAFD_HTTP_API_WORKER_JSON_H

#include "http/api/body.h"
#include "src/id/codec/tag.h"
#include "src/id/codec/worker.h"

#define WORKER_WINDOW_DEFAULT_MS 60000
#define WORKER_EPOCH_MAX INT64_MAX
#define WORKER_TIME_MAX_MS TAG_TIME_MAX_MS /* times in requests; the end of the year 9999 */

/* Read the body of an acquire and append it as a command. The caller has set kind and wall_ms;
 * the rest is filled in, and the texts of *acquire are no longer valid afterwards. 0,
 * or ERR_INVALID with *ret_fault. */
int worker_json_read_acquire(const void *body, size_t len, struct worker_acquire *acquire,
                             struct buf *command, struct body_fault *ret_fault) MUST_CHECK;

/* Read the body of a renewal: everything but worker_id and wall_ms. 0 or ERR_INVALID. */
int worker_json_read_renew(const void *body, size_t len, struct worker_renew *renew,
                           struct body_fault *ret_fault) MUST_CHECK;

/* Read the body of a release, which may be empty. Fields that are absent are left as they are; one
 * that is not 0 already is a fault: it was given twice. 0 or ERR_INVALID. */
int worker_json_read_release(const void *body, size_t len, struct worker_release *release,
                             struct body_fault *ret_fault) MUST_CHECK;

/* Append what an acquire or a renewal gave. */
void worker_json_put_grant(const struct worker_row *row, struct buf *buf);

/* Append a row of the registry. */
void worker_json_put_row(const struct worker_row *row, struct buf *buf);

#endif
