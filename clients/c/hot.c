/* See segment.h. The loads of a slot are acquires, and the stores releases, so that a thread which
 * sees part of a newer range sees the newer number, too. On x86-64 both are plain moves. */
#include "segment.h"

void hot_publish(struct hot *hot, const struct leafd_series *range, uint32_t low)
{
    uint32_t number = (uint32_t)(atomic_load(&hot->word) >> 32) + 1;
    struct hot_slot *slot = &hot->slots[number & 1];
    uint32_t size = (uint32_t)text_ids_of(range);
    /* No range has the number of the other slot. */
    atomic_store_explicit(&slot->number, number + 1, memory_order_relaxed);
    atomic_store_explicit(&slot->first, range->first, memory_order_release);
    atomic_store_explicit(&slot->increment, range->increment, memory_order_release);
    atomic_store_explicit(&slot->size, size, memory_order_release);
    atomic_store_explicit(&slot->low, low, memory_order_release);
    atomic_store_explicit(&slot->number, number, memory_order_release);
    atomic_store_explicit(&hot->word, (uint64_t)number << 32, memory_order_release);
}

/* Calls that find nothing take, too: long before that spoils the number, it is set back. */
static void limit(struct hot *hot)
{
    uint64_t word = atomic_load(&hot->word);
    while ((uint32_t)word > HOT_TAKEN_MAX) {
        uint64_t lower = (word & ~(uint64_t)UINT32_MAX) | HOT_TAKEN_MAX;
        if (atomic_compare_exchange_weak(&hot->word, &word, lower)) {
            return;
        }
    }
}

uint32_t hot_take(struct hot *hot, uint32_t count, struct hot_taken *taken)
{
    uint64_t word = atomic_fetch_add_explicit(&hot->word, count, memory_order_acquire);
    uint32_t number = (uint32_t)(word >> 32);
    uint32_t at = (uint32_t)word;
    struct hot_slot *slot = &hot->slots[number & 1];
    uint32_t size = atomic_load_explicit(&slot->size, memory_order_acquire);
    uint32_t low_at = atomic_load_explicit(&slot->low, memory_order_acquire);
    int64_t increment = atomic_load_explicit(&slot->increment, memory_order_acquire);
    int64_t first = atomic_load_explicit(&slot->first, memory_order_acquire);
    if (__builtin_expect(
            atomic_load_explicit(&slot->number, memory_order_relaxed) != number || at >= size, 0)) {
        limit(hot);
        taken->low = false;
        return 0;
    }
    taken->first = first + at * increment; /* at most the range's last */
    taken->increment = increment;
    taken->low = low_at - at < count;
    return size - at < count ? size - at : count;
}

uint32_t hot_left(struct hot *hot)
{
    uint64_t word = atomic_load(&hot->word);
    uint32_t size = atomic_load(&hot->slots[word >> 32 & 1].size);
    uint32_t taken = (uint32_t)word;
    return taken < size ? size - taken : 0;
}

uint32_t hot_end(struct hot *hot)
{
    uint64_t word = atomic_load(&hot->word);
    /* What is taken between the load and the exchange is given to whoever took it. */
    while (!atomic_compare_exchange_weak(&hot->word, &word,
                                         (word & ~(uint64_t)UINT32_MAX) | HOT_TAKEN_MAX)) {
    }
    uint32_t size = atomic_load(&hot->slots[word >> 32 & 1].size);
    return (uint32_t)word < size ? size - (uint32_t)word : 0;
}
