/*
 * leading.h - what this node does as the leader for requests about tags and keys: it refuses what
 * apply cannot judge before that is in the log, and takes the ids of monotonic tags from its
 * windows.
 *
 * The happy path of a batch of monotonic ids: it is confirmed, takes ids (window.h), and is
 * answered. If the windows are too short it waits until an entry of this leader's has extended
 * them. Where it has keys, the ids are answered once an entry of this leader's has bound them to
 * the keys (docs/monotonic.md, R3, R9).
 *
 * Failure modes: of one item, in its result. Thread: the raft loop.
 */
#ifndef LEAFD_SERVICE_LEADING_H
#define LEAFD_SERVICE_LEADING_H

#include "raft/cluster/service.h"
#include "src/service/window.h"

/* May a peer ask for it (service_ops.accepts)? */
bool leading_accepts(enum cluster_request_kind kind, const void *data, size_t len);

/* Would apply carry out a command that must not be in the log: names that hide something, time
 * zones that this system does not have? is_bounded: *ret_adds_bytes is wanted. */
enum service_admission leading_admit(const struct fsm *fsm, bool is_bounded, const void *data,
                                     size_t len, uint64_t *ret_adds_bytes, struct buf *reply);

/* Of a batch that is confirmed: its ids; or it waits for a window, or for its keys' entry. taken:
 * room for what it gets. */
enum service_lead leading_lead(struct windows *windows, const struct fsm *fsm,
                               struct service_lead_ask *ask, struct window_taken *taken);

/* R9: the ids of reply are bound to their keys, or were not, as apply said. 0 or ERR_BAD_MESSAGE.
 */
int leading_led(const struct buf *payload, const void *result, size_t len,
                struct window_taken *taken, struct buf *reply);

#endif
