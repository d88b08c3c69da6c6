/*
 * incarnations.c - see incarnations.h. The record: version u8, count u64 of the newest, and random
 * halves u32, the newest first. Thread: pure functions, one owner.
 */
#include "raft/core/incarnations.h"

#include <string.h>

#include "src/base/assert.h"

#define RECORD_VERSION 1
#define HEAD_BYTES 9

_Static_assert(HEAD_BYTES + sizeof(uint32_t) * LIMIT_INCARNATIONS <= LIMIT_LOCAL_RECORD_BYTES,
               "all incarnations that are remembered fit their record");

int incarnations_load(struct incarnations *incarnations, const void *record, size_t len)
{
    struct reader reader;

    *incarnations = (struct incarnations){0};
    if (len == 0) {
        return 0;
    }
    reader_init(&reader, record, len);
    if (reader_u8(&reader) != RECORD_VERSION) {
        return ERR_BAD_VERSION;
    }
    incarnations->newest = reader_u64(&reader);
    while (reader_left(&reader) > 0 && incarnations->known < LIMIT_INCARNATIONS) {
        incarnations->random[incarnations->known++] = reader_u32(&reader);
    }
    if (!reader_done(&reader) || incarnations->known == 0 ||
        incarnations->newest < incarnations->known ||
        incarnations->newest >> (64 - PEER_INCARNATION_RANDOM_BITS) != 0) {
        *incarnations = (struct incarnations){0};
        return ERR_CORRUPT;
    }
    return 0;
}

void incarnations_save(const struct incarnations *incarnations, struct buf *record)
{
    ASSERT(incarnations->known > 0);
    buf_put_u8(record, RECORD_VERSION);
    buf_put_u64(record, incarnations->newest);
    for (uint32_t i = 0; i < incarnations->known; i++) {
        buf_put_u32(record, incarnations->random[i]);
    }
}

void incarnations_add(struct incarnations *incarnations, uint64_t count, uint32_t random)
{
    uint32_t kept = incarnations->newest + 1 == count ? incarnations->known : 0;

    ASSERT(count > incarnations->newest);
    kept = kept < LIMIT_INCARNATIONS ? kept : LIMIT_INCARNATIONS - 1;
    memmove(incarnations->random + 1, incarnations->random, kept * sizeof(uint32_t));
    incarnations->random[0] = random;
    incarnations->known = kept + 1;
    incarnations->newest = count;
}

uint64_t incarnations_newest(const struct incarnations *incarnations)
{
    ASSERT(incarnations->known > 0);
    return incarnations->newest << PEER_INCARNATION_RANDOM_BITS | incarnations->random[0];
}

void incarnations_earlier(const struct incarnations *incarnations, struct buf *earlier)
{
    for (uint32_t i = 1; i < incarnations->known; i++) {
        buf_put_u32(earlier, incarnations->random[i]);
    }
}

bool incarnations_include(const struct incarnations *incarnations, uint64_t incarnation)
{
    uint64_t count = incarnation >> PEER_INCARNATION_RANDOM_BITS;

    return count <= incarnations->newest &&
           (incarnations->newest - count >= incarnations->known ||
            incarnations->random[incarnations->newest - count] == (uint32_t)incarnation);
}

bool incarnations_may_include(const struct wire_statement *statement, uint64_t incarnation)
{
    uint64_t newest = statement->start.incarnation >> PEER_INCARNATION_RANDOM_BITS;
    uint64_t count = incarnation >> PEER_INCARNATION_RANDOM_BITS;
    struct reader reader;
    uint64_t back;

    if (count >= newest) {
        return false; /* its own present one is no earlier one */
    }
    back = newest - count - 1;
    if (back >= statement->earlier_len / sizeof(uint32_t)) {
        return true;
    }
    reader_init(&reader, statement->earlier + back * sizeof(uint32_t), sizeof(uint32_t));
    return reader_u32(&reader) == (uint32_t)incarnation;
}
