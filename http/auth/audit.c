/*
 * audit.c - see audit.h. Thread: any.
 */
#include "http/auth/audit.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "http/proto/text.h"
#include "src/base/assert.h"

void audit_init(struct audit *audit)
{
    *audit = (struct audit){
        .rings = {[AUDIT_CHANGE] = {.room = LIMIT_AUDIT_ENTRIES - LIMIT_AUDIT_REFUSALS,
                                    .bytes_max = LIMIT_AUDIT_BYTES / 10 * 9},
                  [AUDIT_REFUSAL] = {.room = LIMIT_AUDIT_REFUSALS,
                                     .bytes_max = LIMIT_AUDIT_BYTES / 10}},
    };
    ASSERT(pthread_mutex_init(&audit->lock, NULL) == 0);
}

static struct audit_entry *ring_entry(const struct audit_ring *ring, size_t index)
{
    ASSERT(index < ring->count);
    return &ring->entries[(ring->first + index) % ring->room];
}

static void drop_oldest(struct audit_ring *ring)
{
    struct audit_entry *entry = ring_entry(ring, 0);

    ring->bytes -= entry->len;
    free(entry->json);
    *entry = (struct audit_entry){0};
    ring->first = (ring->first + 1) % ring->room;
    ring->count--;
}

void audit_free(struct audit *audit)
{
    for (size_t i = 0; i < AUDIT_KINDS; i++) {
        while (audit->rings[i].count > 0) {
            drop_oldest(&audit->rings[i]);
        }
        free(audit->rings[i].entries);
    }
    ASSERT(pthread_mutex_destroy(&audit->lock) == 0);
}

bool audit_takes_refusal(struct audit *audit, uint64_t wall_ms, uint64_t *ret_over)
{
    bool takes;

    ASSERT(pthread_mutex_lock(&audit->lock) == 0);
    if (audit->second != wall_ms / 1000) {
        audit->second = wall_ms / 1000;
        audit->in_second = 0;
    }
    takes = audit->in_second < LIMIT_AUDIT_REFUSALS_PER_S;
    audit->in_second += takes;
    audit->refusals_over += !takes;
    *ret_over = audit->refusals_over;
    audit->refusals_over = takes ? 0 : audit->refusals_over;
    ASSERT(pthread_mutex_unlock(&audit->lock) == 0);
    return takes;
}

uint64_t audit_put(struct audit *audit, enum audit_kind kind, const void *json, size_t len)
{
    struct audit_ring *ring = &audit->rings[kind];
    char *copy = MUST_HAVE(malloc(len));
    uint64_t number;

    ASSERT(len > 0 && len <= LIMIT_AUDIT_ENTRY_BYTES);
    memcpy(copy, json, len);
    ASSERT(pthread_mutex_lock(&audit->lock) == 0);
    if (ring->entries == NULL) {
        ring->entries = MUST_HAVE(calloc(ring->room, sizeof *ring->entries));
    }
    while (ring->count == ring->room || ring->bytes + len > ring->bytes_max) {
        drop_oldest(ring);
        audit->lost++;
    }
    number = ++audit->last_number;
    ring->count++;
    *ring_entry(ring, ring->count - 1) = (struct audit_entry){number, len, copy};
    ring->bytes += len;
    ASSERT(pthread_mutex_unlock(&audit->lock) == 0);
    return number;
}

/* The oldest entry left in either ring; NULL: none. */
static const struct audit_entry *next_entry(struct audit *audit, size_t places[AUDIT_KINDS])
{
    const struct audit_entry *next = NULL;
    size_t from = 0;

    for (size_t i = 0; i < AUDIT_KINDS; i++) {
        const struct audit_ring *ring = &audit->rings[i];

        if (places[i] < ring->count &&
            (next == NULL || ring_entry(ring, places[i])->number < next->number)) {
            next = ring_entry(ring, places[i]);
            from = i;
        }
    }
    places[from] += next != NULL;
    return next;
}

void audit_list(struct audit *audit, uint64_t after, size_t limit, struct buf *out)
{
    const struct audit_entry *entry = NULL;
    size_t places[AUDIT_KINDS] = {0};
    uint64_t last = 0;

    ASSERT(pthread_mutex_lock(&audit->lock) == 0);
    for (size_t i = 0; i < AUDIT_KINDS; i++) {
        const struct audit_ring *ring = &audit->rings[i];

        while (places[i] < ring->count && ring_entry(ring, places[i])->number <= after) {
            places[i]++;
        }
    }
    buf_printf(out, "{\"entries\":[");
    for (size_t i = 0; i < limit && (entry = next_entry(audit, places)) != NULL; i++) {
        buf_printf(out, "%s{\"number\":%" PRIu64 ",", i > 0 ? "," : "", entry->number);
        buf_put(out, entry->json, entry->len);
        buf_printf(out, "}");
        last = entry->number;
    }
    entry = last > 0 ? next_entry(audit, places) : NULL;
    text_put_number(out, "],\"next\":", entry != NULL ? last : TEXT_UNKNOWN);
    buf_printf(out, ",\"lost\":%" PRIu64 ",\"refusals_not_kept\":%" PRIu64 "}", audit->lost,
               audit->refusals_over);
    ASSERT(pthread_mutex_unlock(&audit->lock) == 0);
}
