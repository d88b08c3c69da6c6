/* See stamp.h. */
#include "stamp.h"

enum {
    SEQUENCE_BITS = 17, /* of the word: one more than the largest layout has */
    UNUSED = (1 << SEQUENCE_BITS) - 1
};

bool layout_is_right(const struct layout *layout)
{
    return layout->time_bits >= 39 && layout->time_bits <= 45 && layout->worker_bits >= 1 &&
           layout->worker_bits <= 10 && layout->sequence_bits >= 4 && layout->sequence_bits <= 16 &&
           layout->time_bits + layout->worker_bits + layout->sequence_bits <= 63 &&
           layout->epoch_ms >= 0 && layout->epoch_ms < (int64_t)1 << 45;
}

int64_t layout_last_ms(const struct layout *layout)
{
    return layout->epoch_ms + ((int64_t)1 << layout->time_bits) - 1;
}

int64_t layout_at(const struct layout *layout, int64_t time_ms)
{
    return (time_ms - layout->epoch_ms) << (layout->worker_bits + layout->sequence_bits);
}

struct leafd_parts layout_decode(const struct layout *layout, int64_t id)
{
    uint64_t bits = (uint64_t)id;
    return (struct leafd_parts){
        .time_ms =
            (int64_t)(bits >> (layout->worker_bits + layout->sequence_bits)) + layout->epoch_ms,
        .worker_id = (uint32_t)(bits >> layout->sequence_bits) & ((1u << layout->worker_bits) - 1),
        .sequence = (uint32_t)bits & ((1u << layout->sequence_bits) - 1),
    };
}

void lease_init(struct lease *lease, const struct layout *layout, int64_t from_ms, int64_t until_ms,
                uint64_t seed)
{
    lease->layout = *layout;
    lease->from_ms = from_ms;
    lease->seed = seed;
    atomic_init(&lease->until_ms, until_ms);
    int64_t from = from_ms > layout->epoch_ms ? from_ms - layout->epoch_ms : 0;
    atomic_init(&lease->word, (uint64_t)from << SEQUENCE_BITS | UNUSED);
}

/* Where a new millisecond begins: it need not be hard to guess, only spread (the end of splitmix64:
 * Steele, Lea, Flood 2014, "Fast splittable pseudorandom number generators"). */
static uint32_t first_sequence(const struct lease *lease, uint64_t time, uint32_t per_ms)
{
    uint64_t mixed = (time ^ lease->seed) * 0x9e3779b97f4a7c15u;
    mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9u;
    mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111ebu;
    mixed ^= mixed >> 31;
    return (uint32_t)(mixed % per_ms);
}

enum stamp lease_stamp(struct lease *lease, int64_t now_ms, int64_t *id)
{
    const struct layout *layout = &lease->layout;
    uint32_t per_ms = 1u << layout->sequence_bits;
    /* Below the epoch is behind all times. */
    uint64_t now = now_ms > layout->epoch_ms ? (uint64_t)(now_ms - layout->epoch_ms) : 0;
    uint64_t word = atomic_load_explicit(&lease->word, memory_order_relaxed);
    for (;;) {
        uint64_t time = word >> SEQUENCE_BITS;
        uint32_t sequence = (uint32_t)word & UNUSED;
        if (now > time) {
            bool used_up = sequence == per_ms && now == time + 1;
            time = now;
            sequence = used_up ? 0 : first_sequence(lease, time, per_ms);
        } else if (sequence >= per_ms) {
            return STAMP_WAIT;
        }
        if ((int64_t)time + layout->epoch_ms > atomic_load(&lease->until_ms) ||
            time >> layout->time_bits != 0) {
            return STAMP_OVER;
        }
        if (atomic_compare_exchange_weak_explicit(&lease->word, &word,
                                                  time << SEQUENCE_BITS | (sequence + 1),
                                                  memory_order_relaxed, memory_order_relaxed)) {
            *id = (int64_t)(time << (layout->worker_bits + layout->sequence_bits) |
                            (uint64_t)lease->worker_id << layout->sequence_bits | sequence);
            return STAMPED;
        }
    }
}

static int64_t last_of(const struct lease *lease, uint64_t word)
{
    if (((uint32_t)word & UNUSED) == UNUSED) {
        return 0;
    }
    return (int64_t)(word >> SEQUENCE_BITS) + lease->layout.epoch_ms;
}

int64_t lease_last_ms(const struct lease *lease)
{
    return last_of(lease, atomic_load(&lease->word));
}

int64_t lease_end(struct lease *lease)
{
    /* A time that no clock reaches, with nothing left in it. */
    uint64_t word = atomic_exchange(&lease->word, UINT64_MAX >> 1);
    return last_of(lease, word);
}
