/*
 * raft_strict.c - see raft_strict.h. Thread: the test's.
 */
#include "raft/tests/raft_strict.h"

#include <stdlib.h>
#include <string.h>

#include "src/base/assert.h"
#include "src/id/codec/command.h"

#define WAIT_MS 20000

static void done(struct cluster_request *request)
{
    struct asked *asked = (struct asked *)request; /* its first member */

    asked->done++;
}

void strict_prepare(struct asked *asked, const char *tag, uint32_t count, const char *key)
{
    struct strict_item item = {.name = tag,
                               .name_len = (uint16_t)strlen(tag),
                               .key = key,
                               .key_len = key != NULL ? (uint16_t)strlen(key) : 0,
                               .count = count};

    memset(asked, 0, sizeof *asked);
    asked->base.kind = ID_REQUEST_STRICT;
    asked->base.done = done;
    strict_item_encode(&item, &asked->base.payload);
}

void strict_ask(struct ring *ring, uint64_t id, struct asked *asked, const char *tag,
                uint32_t count, const char *key, uint64_t patience_ms)
{
    strict_prepare(asked, tag, count, key);
    ask(ring, id, asked, patience_ms);
}

struct strict_result strict_told(const struct asked *asked, int status)
{
    struct strict_result result;
    size_t count = 0;

    ASSERT(asked->done == 1 && asked->base.status == status);
    ASSERT(results_decode(RESULT_STRICT, asked->base.reply.data, asked->base.reply.len, &result, 1,
                          &count) == 0);
    ASSERT(count == 1 && result.status == status);
    return result;
}

uint64_t strict_first(const struct asked *asked)
{
    return strict_told(asked, 0).first;
}

void strict_wait(struct ring *ring, struct asked *const *asked, size_t count)
{
    uint64_t end_ms = ring->clock.now_ms + WAIT_MS;

    ring_settle(ring);
    for (size_t i = 0; i < count; i++) {
        while (asked[i]->done == 0) {
            ASSERT(ring->clock.now_ms < end_ms);
            ring_run_ms(ring, 5);
        }
    }
}

uint64_t strict_take(struct ring *ring, uint64_t id, const char *tag, uint32_t count,
                     const char *key)
{
    struct asked asked;
    struct asked *waiting = &asked;
    uint64_t first;

    strict_ask(ring, id, &asked, tag, count, key, 5000);
    strict_wait(ring, &waiting, 1);
    first = strict_first(&asked);
    asked_free(&asked);
    return first;
}

void strict_mode(struct ring *ring, uint64_t id, const char *tag, uint8_t mode)
{
    struct tag_put put = {
        .name = tag, .name_len = (uint16_t)strlen(tag), .fields = TAG_FIELD_MODE, .mode = mode};
    struct asked asked;
    struct asked *waiting = &asked;

    asked_put(&asked, tag, 1); /* for its fields; the command is written anew */
    asked.base.payload.len = 0;
    command_put(&asked.base.payload, COMMAND_TAGS_PUT,
                &(struct command_list){.force = false, .wall_ms = FAKE_WALL_MS});
    command_item_put(&asked.base.payload, COMMAND_TAGS_PUT, &put);
    command_items_end(&asked.base.payload);
    ask(ring, id, &asked, 5000);
    strict_wait(ring, &waiting, 1);
    ASSERT(asked.base.status == 0);
    asked_free(&asked);
}

void strict_note(struct strict_ranges *ranges, const struct asked *asked, uint32_t count)
{
    ASSERT(ranges->count < sizeof ranges->items / sizeof ranges->items[0]);
    ranges->items[ranges->count++] = (struct segment_range){strict_first(asked), count, 0};
}

static int by_first(const void *a, const void *b)
{
    const struct segment_range *x = a;
    const struct segment_range *y = b;

    return x->first < y->first ? -1 : x->first > y->first;
}

void strict_expect_dense(struct strict_ranges *ranges, uint64_t first)
{
    ASSERT(ranges->count > 0);
    qsort(ranges->items, ranges->count, sizeof ranges->items[0], by_first);
    for (size_t i = 0; i < ranges->count; i++) {
        ASSERT(ranges->items[i].first == first);
        first += ranges->items[i].count;
    }
}

uint64_t strict_depose(struct ring *ring, uint64_t leader)
{
    uint64_t next = leader;

    ring_isolate(ring, leader, true);
    for (unsigned i = 0; next == leader || next == 0; i++) {
        ASSERT(i < 4000);
        ring_run_ms(ring, 5);
        for (uint64_t id = 1; id <= ring->count; id++) {
            if (id != leader && driver_leads(&ring_node(ring, id)->replica.driver)) {
                next = id;
            }
        }
    }
    ring_isolate(ring, leader, false);
    return next;
}
