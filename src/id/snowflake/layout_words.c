/*
 * layout_words.c - see layout_words.h.
 */
#include "src/id/snowflake/layout_words.h"

#include <stdlib.h>

#include "src/base/assert.h"

void layout_words_add(struct layout_words_all *all, const struct layout_row *row,
                      uint32_t slot_count, bool (*dead)(const void *data, uint32_t k),
                      const void *data)
{
    uint32_t count = atomic_load_explicit(&all->count, memory_order_relaxed);
    struct layout_words *words = MUST_HAVE(calloc(1, sizeof *words));

    ASSERT(count < LIMIT_LAYOUTS && slot_count <= LIMIT_SNOWFLAKE_SLOTS);
    words->row = *row;
    atomic_init(&words->deleted, row->deleted);
    for (uint32_t k = 0; k < slot_count; k++) {
        atomic_init(&words->words[k].word, dead(data, k) ? LAYOUT_WORD_CLOSED : 0);
    }
    all->items[count] = words;
    atomic_store_explicit(&all->count, count + 1, memory_order_release);
}

void layout_words_close(struct layout_words_all *all, uint32_t k)
{
    uint32_t count = atomic_load_explicit(&all->count, memory_order_relaxed);

    for (uint32_t i = 0; i < count; i++) {
        (void)atomic_fetch_or_explicit(&all->items[i]->words[k].word, LAYOUT_WORD_CLOSED,
                                       memory_order_acq_rel);
    }
}

uint64_t layout_words_last_used_ms(const struct layout_words_all *all, uint32_t k)
{
    uint32_t count = atomic_load_explicit(&all->count, memory_order_acquire);
    uint64_t last_ms = 0;

    for (uint32_t i = 0; i < count; i++) {
        const struct layout_words *words = all->items[i];
        struct layout_position last =
            layout_position_of(atomic_load_explicit(&words->words[k].word, memory_order_acquire));
        uint64_t begin_ms = named_layout_begin_ms(&words->row.layout, last.unit);

        last_ms = last.next > 0 && begin_ms > last_ms ? begin_ms : last_ms;
    }
    return last_ms;
}

void layout_words_release(struct layout_words_all *all)
{
    uint32_t count = atomic_load_explicit(&all->count, memory_order_relaxed);

    for (uint32_t i = 0; i < count; i++) {
        free(all->items[i]);
    }
    atomic_store_explicit(&all->count, 0, memory_order_relaxed);
}
