/*
 * rollback.c - see rollback.h. The record: version u8, mark u8 (1: this directory is an older
 * copy), and for each peer id u64, incarnation u64.
 */
#include "raft/core/rollback.h"

#include <string.h>

#include "src/base/assert.h"
#include "src/base/log.h"

#define RECORD_VERSION 1

const struct peer_seen *rollback_find(const struct rollback *memory, uint64_t peer)
{
    for (size_t i = 0; i < memory->count; i++) {
        if (memory->peers[i].id == peer) {
            return &memory->peers[i];
        }
    }
    return NULL;
}

/* NULL when there is no room for another. */
static struct peer_seen *find_or_add(struct rollback *memory, uint64_t peer)
{
    const struct peer_seen *seen = rollback_find(memory, peer);

    ASSERT(peer > 0 && peer <= LIMIT_NODE_ID);
    if (seen != NULL) {
        return &memory->peers[seen - memory->peers];
    }
    if (memory->count == ROLLBACK_MAX) {
        return NULL;
    }
    memory->peers[memory->count] = (struct peer_seen){.id = peer};
    return &memory->peers[memory->count++];
}

void rollback_term(struct rollback *memory, uint64_t peer, uint64_t term)
{
    struct peer_seen *seen = find_or_add(memory, peer);

    if (seen != NULL && term > seen->term) {
        seen->term = term;
    }
}

void rollback_index(struct rollback *memory, uint64_t peer, uint64_t index)
{
    struct peer_seen *seen = find_or_add(memory, peer);

    if (seen != NULL && index > seen->index) {
        seen->index = index;
    }
}

int rollback_meet(struct rollback *memory, uint64_t peer, const struct peer_start *start)
{
    struct peer_seen *seen = find_or_add(memory, peer);

    if (seen == NULL || seen->incarnation == start->incarnation) {
        return 0;
    }
    if (start->incarnation >> PEER_INCARNATION_RANDOM_BITS <= seen->incarnation >>
            PEER_INCARNATION_RANDOM_BITS ||
        start->term < seen->term || start->index < seen->index) {
        return ERR_STALE;
    }
    ASSERT(start->incarnation > seen->incarnation);
    seen->incarnation = start->incarnation;
    memory->changed = true;
    return 0;
}

static unsigned long long count_of(uint64_t incarnation)
{
    return incarnation >> PEER_INCARNATION_RANDOM_BITS;
}

void rollback_log_older(const struct rollback *memory, uint64_t peer,
                        const struct peer_start *start, uint64_t index)
{
    const struct peer_seen none = {0};
    const struct peer_seen *seen = rollback_find(memory, peer);

    seen = seen != NULL ? seen : &none;
    log_warn("raft", "the data directory of a peer is an older copy",
             "peer=%llu start=%llu term=%llu last=%llu seen_start=%llu seen_term=%llu "
             "seen_last=%llu",
             (unsigned long long)peer, count_of(start->incarnation),
             (unsigned long long)start->term, (unsigned long long)start->index,
             count_of(seen->incarnation), (unsigned long long)seen->term,
             (unsigned long long)(seen->index > index ? seen->index : index));
}

void rollback_forget(struct rollback *memory, uint64_t peer)
{
    const struct peer_seen *seen = rollback_find(memory, peer);

    if (seen != NULL) {
        memory->peers[seen - memory->peers] = memory->peers[--memory->count];
        memory->changed = true;
    }
}

void rollback_save(const struct rollback *memory, struct buf *record)
{
    ASSERT(memory->count <= ROLLBACK_MAX);
    buf_put_u8(record, RECORD_VERSION);
    buf_put_u8(record, memory->older);
    for (size_t i = 0; i < memory->count; i++) {
        buf_put_u64(record, memory->peers[i].id);
        buf_put_u64(record, memory->peers[i].incarnation);
    }
}

int rollback_load(struct rollback *memory, const void *record, size_t len)
{
    struct reader reader;
    uint8_t mark;

    memset(memory, 0, sizeof *memory);
    if (len == 0) {
        return 0;
    }
    reader_init(&reader, record, len);
    if (reader_u8(&reader) != RECORD_VERSION) {
        return ERR_BAD_VERSION;
    }
    mark = reader_u8(&reader);
    if (reader.bad || mark > 1) {
        return ERR_CORRUPT;
    }
    memory->older = mark == 1;
    while (reader_left(&reader) > 0) {
        uint64_t peer = reader_u64(&reader);
        uint64_t incarnation = reader_u64(&reader);

        if (reader.bad || peer == 0 || peer > LIMIT_NODE_ID || memory->count == ROLLBACK_MAX ||
            rollback_find(memory, peer) != NULL) {
            memset(memory, 0, sizeof *memory);
            return ERR_CORRUPT;
        }
        memory->peers[memory->count++] = (struct peer_seen){.id = peer, .incarnation = incarnation};
    }
    return 0;
}
