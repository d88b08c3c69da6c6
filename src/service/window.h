/*
 * window.h - the windows of a leader: for each monotonic tag in use, the ids that an entry of this
 * leader's own term has reserved. Rules R1 to R12 are those of docs/monotonic.md.
 *
 * The happy path: a batch of requests whose round is confirmed takes its ids (windows_take()). When
 * less than half of a window is left, or it is too short, the tag is wanted. All wanted tags become
 * one COMMAND_WINDOW (batch.h), which is proposed once. When the process that appended the command
 * applies it, in the same term, its answer opens or extends the windows.
 *
 * Invariants:
 *  - Ids come in only by the answer to this leader's own proposal, whose place still has its tag
 *    (R3): windows_forget() empties all places.
 *  - Whether a window may be used is asked in one place, at each take, of the term and of the
 *    applied row: window.term == the round's term == the present one, window.generation == the
 *    row's, the tag is there, in monotonic mode, and the window is not closed (R6). So a change
 *    that is not reported here does no harm.
 *  - low only rises; ids that were taken are taken, even if no answer arrives.
 *  - All windows are dropped with the leadership and the term (R7).
 *
 * Failure modes: of an item: in its result (command.h). ERR_EMPTY: a window is too short for the
 * batch; nothing was taken; try again after an entry was applied. More than LIMIT_WINDOWS tags: the
 * tag unused for longest loses its window; its ids are burnt.
 *
 * Thread: one owner (the raft loop).
 */
#ifndef LEAFD_SERVICE_WINDOW_H
#define LEAFD_SERVICE_WINDOW_H

#include "src/base/clock.h"
#include "src/base/timers.h"
#include "src/id/codec/command.h"
#include "src/id/codec/request.h"
#include "src/id/fsm/fsm.h"

#define WINDOW_COVER_MS 1000 /* a window should last this long */

struct windows;

/* fsm: whose applied rows hold. */
struct windows *windows_new(const struct fsm *fsm, const struct clock *clock, struct timers *timers,
                            struct id_proposer *proposer);
/* No command of it may be under way. Accepts NULL. */
void windows_free(struct windows *windows);

/* R7: leadership, or the term, has changed. The ids left are burnt. */
void windows_forget(struct windows *windows);

/* The terms in which a batch was confirmed and is answered. */
struct window_terms {
    uint64_t round; /* of the round that confirmed it */
    uint64_t now;
};

/* The ids that a batch was given. */
struct window_taken {
    uint32_t count; /* of the batch's items */
    uint32_t keyed; /* of those, with ids that count once KEYED is applied */
    struct strict_result results[LIMIT_STRICT_ITEMS];
};

/* Take the ids of all items of a batch (COMMAND_STRICT, as windows_read() has read it), as the
 * applied state and the windows allow. 0; ERR_EMPTY: the batch must wait; ERR_STALE: it was
 * confirmed in another term. Known keys get their old ids, and take none. */
int windows_take(struct windows *windows, struct window_terms terms, struct command_list batch,
                 struct window_taken *ret_taken) MUST_CHECK;

/* Read a batch from its bytes. 0 or ERR_BAD_MESSAGE. */
int windows_read(const void *data, size_t len, struct command_list *ret_batch) MUST_CHECK;

/* The item took ids, which count once they are bound to its key. */
static inline bool window_item_is_keyed(const struct strict_item *item,
                                        const struct strict_result *result)
{
    return result->status == 0 && item->key_len > 0 && !result->replayed;
}

/* R9: the KEYED of those items that took ids under a key, in this term. */
void windows_keyed(const struct command_list *batch, const struct window_taken *taken,
                   uint64_t term, struct buf *command);

/* R10: close all windows, and give back their ids left, until deadline_ms. From now on all batches
 * wait, until windows_open(); the windows stay closed. */
void windows_close(struct windows *windows, uint64_t deadline_ms);
/* No giving back is under way (also if windows_close() was never called). */
bool windows_given_back(const struct windows *windows);
bool windows_are_closed(const struct windows *windows);
void windows_open(struct windows *windows);

struct window_counts {
    uint64_t burnt_window; /* ids left when leadership was lost, or a window was dropped for room */
    uint64_t burnt_generation; /* of an older generation of their tag */
    uint64_t burnt_stop;       /* closed, and not taken back */
    uint64_t returned;         /* ids that were given back */
    uint64_t taken;            /* ids */
    uint64_t entries;          /* COMMAND_WINDOWs that were made */
    uint64_t waits;            /* batches that had to wait for a window */
    uint64_t left;             /* ids in windows, now */
    size_t open;               /* tags that have one, now */
};
const struct window_counts *windows_counts(const struct windows *windows);

#endif
