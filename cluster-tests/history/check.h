/*
 * check.h - one tag's operations, checked in a few passes over sorted arrays.
 *
 * Happy path:
 *
 *   1. Operations of one key are sorted to each other and merged (merge_keys).
 *   2. What has an answer is sorted by its first id, what has none by when it was sent.
 *   3. Upwards through the ids: what begins below the highest end before it repeats ids; what
 *      begins above it leaves a gap.
 *   4. Downwards: the earliest time that any id above was received is kept. An operation sent later
 *      than that is not strict. This needs no sweep over times: "an id above mine was acknowledged
 *      before I was sent" is "the earliest acknowledgement above me is before I was sent". The same
 *      time is the deadline of a gap.
 *   5. Whether the operations of unknown outcome can fill the gaps is decided (dense.h).
 *
 * Merging leaves a history that means the same, so that it can be added to and checked again. Two
 * ranges of one key stay two entries, and both hold their ids; so do two counts of one key that got
 * no answer.
 *
 * Thread: one.
 */
#ifndef LEAFD_HISTORY_CHECK_H
#define LEAFD_HISTORY_CHECK_H

#include "cluster-tests/history/entry.h"
#include "cluster-tests/history/report.h"

/* The operations of a tag, and what is demanded of it. */
struct history_axis {
    struct history_entry *entries;
    size_t count;
    size_t capacity;
    bool keyed; /* some entries have a key */
    bool declared;
    enum history_mode mode;
    uint64_t start;
};

/* All checks of one tag that has operations. The entries are sorted, and those of a key merged.
 * steps: how many the search for a way to fill a gap may take. */
void history_check_axis(struct history_axis *axis, uint64_t steps, struct report *report);

#endif
