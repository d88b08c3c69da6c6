/*
 * histogram.c - see histogram.h. Thread: as there.
 */
#include "src/base/histogram.h"

#include "src/base/assert.h"

struct bound {
    uint64_t us;
    const char *seconds;
};

static const struct bound bounds[HISTOGRAM_BOUNDS] = {
    {10, "0.00001"},  {20, "0.00002"},  {50, "0.00005"},  {100, "0.0001"},   {200, "0.0002"},
    {500, "0.0005"},  {1000, "0.001"},  {2000, "0.002"},  {5000, "0.005"},   {10000, "0.01"},
    {20000, "0.02"},  {50000, "0.05"},  {100000, "0.1"},  {200000, "0.2"},   {500000, "0.5"},
    {1000000, "1.0"}, {2000000, "2.0"}, {5000000, "5.0"}, {10000000, "10.0"}};

uint64_t histogram_bound_us(unsigned i)
{
    ASSERT(i < HISTOGRAM_BOUNDS);
    return bounds[i].us;
}

const char *histogram_bound_text(unsigned i)
{
    ASSERT(i < HISTOGRAM_BOUNDS);
    return bounds[i].seconds;
}

unsigned histogram_bucket(uint64_t took_us)
{
    unsigned i = 0;

    while (i < HISTOGRAM_BOUNDS && took_us > bounds[i].us) {
        i++;
    }
    return i;
}

void histogram_note(struct histogram *histogram, uint64_t took_us, uint64_t times)
{
    _Atomic uint64_t *count = &histogram->counts[histogram_bucket(took_us)];
    uint64_t sum_us = atomic_load_explicit(&histogram->sum_us, memory_order_relaxed);

    /* One thread writes: no need to lock the bus. */
    atomic_store_explicit(count, atomic_load_explicit(count, memory_order_relaxed) + times,
                          memory_order_relaxed);
    atomic_store_explicit(&histogram->sum_us, sum_us + took_us * times, memory_order_relaxed);
}

void histogram_add(struct histogram_view *view, const struct histogram *histogram)
{
    for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++) {
        view->counts[i] += atomic_load_explicit(&histogram->counts[i], memory_order_relaxed);
    }
    view->sum_us += atomic_load_explicit(&histogram->sum_us, memory_order_relaxed);
}

uint64_t histogram_count(const struct histogram_view *view)
{
    uint64_t sum = 0;

    for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++) {
        sum += view->counts[i];
    }
    return sum;
}
