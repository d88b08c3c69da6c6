/*
 * hist.c - see hist.h. Thread: one owner.
 */
#include "scripts/bench/hist.h"

#include "src/base/assert.h"

/* The bucket of a value: its highest HIST_SUB_BITS + 1 bits, behind the buckets of smaller ones. */
static size_t bucket_of(uint64_t value)
{
    unsigned bits = value ? 64U - (unsigned)__builtin_clzll(value) : 0;
    unsigned shift = bits > HIST_SUB_BITS + 1 ? bits - (HIST_SUB_BITS + 1) : 0;

    return ((size_t)shift << HIST_SUB_BITS) + (size_t)(value >> shift);
}

/* The largest value of a bucket. */
static uint64_t bucket_end(size_t bucket)
{
    size_t shift = bucket >= 2 * HIST_SUB ? (bucket >> HIST_SUB_BITS) - 1 : 0;
    uint64_t first = bucket - (shift << HIST_SUB_BITS);

    return ((first + 1) << shift) - 1; /* of the last bucket: 2^64 - 1, by wrapping */
}

void hist_add(struct hist *hist, uint64_t value)
{
    size_t bucket = bucket_of(value);

    ASSERT(bucket < HIST_BUCKETS);
    hist->counts[bucket]++;
    hist->count++;
    hist->sum += (double)value;
    if (value > hist->max) {
        hist->max = value;
    }
}

uint64_t hist_percentile(const struct hist *hist, double percent)
{
    double exact = (double)hist->count * percent / 100;
    uint64_t rank = (uint64_t)exact;
    uint64_t below = 0;

    ASSERT(percent > 0 && percent <= 100);
    if (hist->count == 0) {
        return 0;
    }
    if ((double)rank < exact || rank == 0) {
        rank++;
    }
    for (size_t i = 0; i < HIST_BUCKETS; i++) {
        below += hist->counts[i];
        if (below >= rank) {
            return bucket_end(i) < hist->max ? bucket_end(i) : hist->max;
        }
    }
    return hist->max;
}

double hist_mean(const struct hist *hist)
{
    return hist->count ? hist->sum / (double)hist->count : 0;
}
