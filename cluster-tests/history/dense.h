/*
 * dense.h - can operations of unknown outcome have made the gaps of a strict tag?
 *
 * Let an axis have gaps g1, g2, ... in rising order, and operations u of unknown outcome. Ids are
 * allocated in rising order, one contiguous range an operation. So for a gap g:
 *
 *   - It is made of whole ranges of distinct operations, each of at most the gap's length.
 *   - The ids above it were allocated after it, and before any of them was acknowledged. Let
 *     deadline(g) be the earliest time an id above it was received: an operation that was sent
 *     later can have no part in it. Deadlines rise from gap to gap, since fewer ids are above.
 *   - Nothing bounds an operation on the other side: its request may be allocated at any later
 *     time, say after a new leader committed it.
 *
 * To find out whether the ranges can be laid so that they fill all gaps is bin packing. It is
 * decided by a search (pack.h), which takes a bounded number of steps; a gap for which that
 * is not enough is reported as undecided. Before, three conditions are looked at that are necessary
 * and cheap, also where the search would be too long: what they refuse cannot have happened.
 *
 *   (1) A gap has an operation that fits: sent by its deadline, and no longer than it.
 *   (2) For every deadline D and every length L: the gaps of at most L ids up to deadline D have no
 *       more ids together than the operations of at most L ids sent by D. (Those gaps can only be
 *       made of those operations, and none of them is in two gaps.) With L unbounded and D the last
 *       deadline it is the total; with one deadline's gaps alone it is each gap by itself.
 *   (3) The greatest common divisor of the operations that fit divides the gap's length: when all
 *       clients ask for ten ids at a time, three ids cannot be missing.
 *
 * (2) for all D and L in O(n log n): the gaps are taken in rising order, and before each the
 * operations sent by its deadline. A tree over the lengths has in each leaf the ids of the gaps
 * minus those of the operations of that length, and in each node the sum and the highest sum of a
 * prefix; a prefix above 0 is a violation. (3) is a second tree over the lengths, of divisors.
 *
 * Of more than DENSE_CLASSES different lengths only the shortest are told apart, and those above
 * count as fitting wherever the longest of these does; so nothing is refused that can be.
 *
 * A gap that is refused or undecided is left out for those that follow, so that each is reported
 * for its own sake. So without undecided gaps exactly those are refused that cannot be filled
 * together with all before them that were not; with some, what is refused cannot be all the same.
 *
 * Thread: one.
 */
#ifndef LEAFD_HISTORY_DENSE_H
#define LEAFD_HISTORY_DENSE_H

#include <stddef.h>
#include <stdint.h>

#include "cluster-tests/history/entry.h"

#define DENSE_CLASSES 131072 /* more than the counts that leafd takes */

struct dense_gap {
    uint64_t from; /* the ids from .. to - 1 were never acknowledged */
    uint64_t to;
    uint64_t deadline; /* the earliest time an id above was received */
    size_t above;      /* the entry that begins at to, for the caller */
};

enum dense_why {
    DENSE_NO_FIT,  /* (1) */
    DENSE_TOO_FEW, /* (2); number: so many ids are missing for which there is no operation */
    DENSE_DIVISOR, /* (3); number: the divisor */
    DENSE_NO_SUM,  /* no choice of those that fit has as many ids as the gap */
    DENSE_NO_WAY,  /* none that leaves the gaps before it theirs */
    DENSE_UNDECIDED,
};

typedef void (*dense_found_cb)(const struct dense_gap *gap, enum dense_why why, uint64_t number,
                               void *data);

struct dense_unknown {
    const struct history_entry *entries; /* in the order they were sent */
    size_t count;
};

/*
 * Check gaps against operations of unknown outcome. The gaps are in rising order, disjoint, their
 * deadlines not falling. A gap's search takes at most so many steps. Calls found_cb for each gap
 * that is refused or undecided.
 */
void dense_check(const struct dense_gap *gaps, size_t gap_count,
                 const struct dense_unknown *unknown, uint64_t steps, dense_found_cb found_cb,
                 void *data);

#endif
