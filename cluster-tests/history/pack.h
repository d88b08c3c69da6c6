/*
 * pack.h - lays operations of unknown outcome into gaps: is there a way to fill them all?
 *
 * What is to be filled are gaps in rising order, each with the operations that were sent by its
 * deadline (dense.h); an operation that is good for a gap is good for all later ones. Each
 * gap is made of whole operations, none of them is used twice, and of the operations of one key one
 * at most is.
 *
 * It is bin packing, so in general nobody knows a quick way. The search here goes through the gaps
 * and tries the longest operations first. What makes it quick in practice, and loses no way:
 *
 *   - Two short operations can stand wherever a long one can that has their ids together, but not
 *     the other way round. So if one operation fills what is left of a gap it is taken, and nothing
 *     else is tried; and two are not used together in a gap while one of their sum is free.
 *   - Operations of the same length are alike once they are sent. A gap that could not be filled
 *     after so many of each length were used cannot be when they were used in another way.
 *
 * Most gaps are filled in a step each, whatever the size of the history. For one that is not, at
 * most `steps` steps are taken, and PACK_TIMES as many in all: then it is said that it is not
 * decided. PACK_DECIDED operations, and gaps for them, always are with HISTORY_STEPS (tested).
 *
 * Failure modes: lack of memory ends the process. Thread: one owner each.
 */
#ifndef LEAFD_HISTORY_PACK_H
#define LEAFD_HISTORY_PACK_H

#include <stddef.h>
#include <stdint.h>

#include "cluster-tests/history/entry.h"

#define PACK_TIMES 100
#define PACK_DECIDED 16

struct pack;

enum pack_result {
    PACK_FITS,      /* it is filled, with all that were filled before */
    PACK_NO_SUM,    /* no choice of the operations makes up its length */
    PACK_NO_WAY,    /* some do, but not together with the gaps that were filled before */
    PACK_UNDECIDED, /* the steps were used up */
};

/* How many of the lengths, which do not fall, are no longer than this one. */
size_t pack_upto(const uint32_t *lengths, size_t count, uint64_t length);

/* The operations in the order they were sent, which are not copied. To be freed by pack_free(). */
struct pack *pack_new(const struct history_entry *unknown, size_t count, uint64_t steps);

void pack_free(struct pack *pack);

/* The next operation was sent by the deadline of the gaps that follow. */
void pack_release(struct pack *pack);

/* Fill a gap of so many ids as well, if need be by filling those before in another way. A gap that
 * does not come out as PACK_FITS is left out for those that follow. */
enum pack_result pack_gap(struct pack *pack, uint64_t length);

#endif
