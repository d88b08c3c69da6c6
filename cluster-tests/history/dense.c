/*
 * dense.c - see dense.h. Thread: one.
 */
#include "cluster-tests/history/dense.h"

#include <stdlib.h>

#include "src/base/assert.h"
#include "cluster-tests/history/pack.h"

struct dense {
    uint32_t *lengths; /* of the classes 1, 2, ...: the least of each, rising */
    size_t classes;
    size_t leaves; /* a power of two */
    /* Nodes from 1 (the root) to 2 * leaves - 1. */
    int64_t *sum;
    int64_t *highest;   /* the highest sum of a prefix of the node's leaves, one leaf at least */
    uint32_t *divisors; /* a Fenwick tree: of the operations of a range of classes, 0: none */
};

static int by_value(const void *a, const void *b)
{
    return history_order(*(const uint32_t *)a, *(const uint32_t *)b);
}

/* Sort the lengths and drop the repeated ones. The lowest stays, so each operation has a class. */
static void make_classes(struct dense *dense, size_t count)
{
    uint32_t *lengths = dense->lengths;
    size_t distinct = 1;

    qsort(lengths, count, sizeof *lengths, by_value);
    for (size_t i = 1; i < count; i++) {
        if (lengths[i] != lengths[distinct - 1]) {
            lengths[distinct++] = lengths[i];
        }
    }
    dense->classes = distinct < DENSE_CLASSES ? distinct : DENSE_CLASSES;
}

static void dense_init(struct dense *dense, const struct history_entry *unknown, size_t count)
{
    *dense = (struct dense){.leaves = 1};
    dense->lengths = MUST_HAVE(calloc(count, sizeof *dense->lengths));
    ASSERT(count > 0);
    for (size_t i = 0; i < count; i++) {
        dense->lengths[i] = unknown[i].count;
    }
    make_classes(dense, count);
    while (dense->leaves < dense->classes) {
        dense->leaves *= 2;
    }
    dense->sum = MUST_HAVE(calloc(dense->leaves * 2, sizeof *dense->sum));
    dense->highest = MUST_HAVE(calloc(dense->leaves * 2, sizeof *dense->highest));
    dense->divisors = MUST_HAVE(calloc(dense->classes + 1, sizeof *dense->divisors));
}

static void dense_free(struct dense *dense)
{
    free(dense->lengths);
    free(dense->sum);
    free(dense->highest);
    free(dense->divisors);
}

/* The highest class whose length is not above this one; 0 if none is. */
static size_t class_of(const struct dense *dense, uint64_t length)
{
    return pack_upto(dense->lengths, dense->classes, length);
}

static void add_ids(struct dense *dense, size_t class, int64_t ids)
{
    size_t at = dense->leaves + class - 1;

    ASSERT(class >= 1 && class <= dense->classes);
    dense->sum[at] += ids;
    dense->highest[at] = dense->sum[at];
    while (at > 1) {
        size_t left = at & ~(size_t)1;
        int64_t through = dense->sum[left] + dense->highest[left + 1];

        at /= 2;
        dense->sum[at] = dense->sum[left] + dense->sum[left + 1];
        dense->highest[at] = dense->highest[left] > through ? dense->highest[left] : through;
    }
}

static uint32_t divisor_of(uint32_t a, uint32_t b)
{
    while (b != 0) {
        uint32_t rest = a % b;

        a = b;
        b = rest;
    }
    return a;
}

static void add_divisor(struct dense *dense, size_t class, uint32_t divisor)
{
    for (size_t at = class; at <= dense->classes; at += at & -at) {
        dense->divisors[at] = divisor_of(dense->divisors[at], divisor);
    }
}

/* The greatest common divisor of the operations up to a class; 0 if there is none. */
static uint32_t divisor_up_to(const struct dense *dense, size_t class)
{
    uint32_t divisor = 0;

    for (size_t at = class; at > 0; at -= at & -at) {
        divisor = divisor_of(dense->divisors[at], divisor);
    }
    return divisor;
}

static void add_operation(struct dense *dense, const struct history_entry *entry)
{
    size_t class = class_of(dense, entry->count);

    ASSERT(!history_answered(entry));
    add_ids(dense, class, -(int64_t)entry->count);
    add_divisor(dense, class, entry->count);
}

/* True if the conditions hold, and the gap is then counted; else why not. */
static bool add_gap(struct dense *dense, const struct dense_gap *gap, enum dense_why *ret_why,
                    uint64_t *ret_number)
{
    uint64_t length = gap->to - gap->from;
    size_t class = class_of(dense, length);
    uint32_t divisor = divisor_up_to(dense, class);

    *ret_number = divisor;
    if (divisor == 0) {
        *ret_why = DENSE_NO_FIT;
        return false;
    }
    if (length % divisor != 0) {
        *ret_why = DENSE_DIVISOR;
        return false;
    }
    /* All gaps together are less than 2^63 ids, and so are all operations: nothing overflows. */
    add_ids(dense, class, (int64_t)length);
    if (dense->highest[1] <= 0) {
        return true;
    }
    *ret_why = DENSE_TOO_FEW;
    *ret_number = (uint64_t)dense->highest[1];
    add_ids(dense, class, -(int64_t)length);
    return false;
}

/* True if the gap can be. */
static bool decide(struct dense *dense, struct pack *pack, const struct dense_gap *gap,
                   enum dense_why *ret_why, uint64_t *ret_number)
{
    static const enum dense_why whys[] = {[PACK_NO_SUM] = DENSE_NO_SUM,
                                          [PACK_NO_WAY] = DENSE_NO_WAY,
                                          [PACK_UNDECIDED] = DENSE_UNDECIDED};
    uint64_t length = gap->to - gap->from;
    enum pack_result result;

    if (!add_gap(dense, gap, ret_why, ret_number)) {
        return false;
    }
    result = pack_gap(pack, length);
    if (result == PACK_FITS) {
        return true;
    }
    add_ids(dense, class_of(dense, length), -(int64_t)length); /* it is not counted after all */
    *ret_why = whys[result];
    return false;
}

void dense_check(const struct dense_gap *gaps, size_t gap_count,
                 const struct dense_unknown *unknown, uint64_t steps, dense_found_cb found_cb,
                 void *data)
{
    struct dense dense;
    struct pack *pack;
    size_t next = 0;

    if (gap_count == 0) {
        return;
    }
    if (unknown->count == 0) {
        for (size_t i = 0; i < gap_count; i++) {
            found_cb(&gaps[i], DENSE_NO_FIT, 0, data);
        }
        return;
    }
    dense_init(&dense, unknown->entries, unknown->count);
    pack = pack_new(unknown->entries, unknown->count, steps);
    for (size_t i = 0; i < gap_count; i++) {
        enum dense_why why;
        uint64_t number;

        ASSERT(gaps[i].from < gaps[i].to && gaps[i].to <= HISTORY_LAST_ID + 1);
        ASSERT_IMPLIES(i > 0, gaps[i].deadline >= gaps[i - (i > 0)].deadline);
        while (next < unknown->count && unknown->entries[next].sent <= gaps[i].deadline) {
            add_operation(&dense, &unknown->entries[next++]);
            pack_release(pack);
        }
        if (!decide(&dense, pack, &gaps[i], &why, &number)) {
            found_cb(&gaps[i], why, number, data);
        }
    }
    pack_free(pack);
    dense_free(&dense);
}
