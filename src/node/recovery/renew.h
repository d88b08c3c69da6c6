/*
 * renew.h - what a saved state becomes as the beginning of a new cluster, in which nothing may be
 * handed out that the old one may have handed out since.
 *
 *   tags, deleted ones too   max_id is raised, the generation too; nobody holds a segment, so a tag
 *                            that was changing to strict is strict. With a date it continues in
 *                            today's period, and the counter in that is raised. With {key} it
 *                            continues by the key after the next, which may have been in force
 *   worker ids               all of the layout, also those that the state does not know: released,
 *                            under a later epoch, and with nothing to be stamped at or before now
 *   idempotency keys         kept: a client that repeats one gets the ids that were its own (or
 *                            dropped, if the operator says so)
 *   settings                 kept; the log's time is now, and the birth is another one
 *   nodes, sessions, segment holders, changes of members, removed ids
 *                            dropped: they are the old cluster's
 *
 * The happy path: renew() makes the rows of the new store, in order, and the text that says for
 * each tag from where it continues; both state machines, of before and after, are loaded on the
 * way, so that nothing is written that a node would refuse.
 *
 * Failure modes: ERR_CORRUPT, ERR_BAD_VERSION: the rows do not make a state. ERR_CLOCK_BACKWARDS:
 * this machine's clock is before the time when the state was taken. ERR_INVALID: the raise is by
 * time, and how fast a tag grew is not known; or a zone of a date is not known here. Thread: main.
 */
#ifndef LEAFD_NODE_RECOVERY_RENEW_H
#define LEAFD_NODE_RECOVERY_RENEW_H

#include "src/base/buf.h"
#include "src/node/recovery/saved.h"
#include "src/state/codec/cluster_command.h"
#include "storage/store.h"

/* How far each tag's max_id is raised: by the larger of the two. */
struct raise {
    bool by_ids;
    bool by_time;
    uint64_t ids;
    uint64_t time_ms;
    uint64_t factor;
};

/* What the operator says about it. */
struct renew_options {
    struct raise raise;
    bool drop_keys; /* forget the idempotency keys */
};

struct renewed {
    struct buf rows; /* records, as STORE_INSTALL takes them; owned */
    uint64_t digest;
    struct uid uid;    /* of the new cluster */
    struct buf tags;   /* the text about them; owned */
    struct buf limits; /* what of them the raise does not cover, and what to do; owned */
    size_t row_count;
    size_t tag_count; /* that are not deleted, */
    size_t clamped;   /* and of these: could not be raised so far */
    size_t used_up;   /* have no number left in today's period, or at all */
    size_t keys;      /* kept, or dropped */
    size_t workers;
};

/* How far the tag of this row is to be raised. False: it is not known. */
bool renew_raise(const struct raise *raise, const struct saved_row *row, uint64_t max_step,
                 uint64_t *ret_ids);

int renew(const struct saved *saved, const struct renew_options *options, uint64_t now_ms,
          struct renewed *ret_renewed, struct store_error *ret_error) MUST_CHECK;

void renewed_release(struct renewed *renewed);

#endif
