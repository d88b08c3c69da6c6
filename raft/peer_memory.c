/*
 * peer_memory.c - see peer_memory.h. The record: version u8, mark u8 (1: this directory is an older
 * copy), and for each peer id u64, life u64.
 *
 * Thread: pure functions, one owner.
 */
#include "raft/peer_memory.h"

#include <string.h>

#include "src/base/assert.h"

#define RECORD_VERSION 1

const struct peer_seen *peer_memory_find(const struct peer_memory *memory, uint64_t peer)
{
    for (size_t i = 0; i < memory->count; i++) {
        if (memory->peers[i].id == peer) {
            return &memory->peers[i];
        }
    }
    return NULL;
}

/* NULL when there is no room for another. */
static struct peer_seen *find_or_add(struct peer_memory *memory, uint64_t peer)
{
    for (size_t i = 0; i < memory->count; i++) {
        if (memory->peers[i].id == peer) {
            return &memory->peers[i];
        }
    }
    if (memory->count == PEER_MEMORY_MAX) {
        return NULL;
    }
    memory->peers[memory->count] = (struct peer_seen){.id = peer};
    return &memory->peers[memory->count++];
}

void peer_memory_term(struct peer_memory *memory, uint64_t peer, uint64_t term)
{
    struct peer_seen *seen = find_or_add(memory, peer);

    if (seen != NULL && term > seen->term) {
        seen->term = term;
    }
}

void peer_memory_index(struct peer_memory *memory, uint64_t peer, uint64_t index)
{
    struct peer_seen *seen = find_or_add(memory, peer);

    if (seen != NULL && index > seen->index) {
        seen->index = index;
    }
}

int peer_memory_meet(struct peer_memory *memory, uint64_t peer, const struct peer_start *start)
{
    struct peer_seen *seen = find_or_add(memory, peer);

    if (seen == NULL || seen->life == start->life) {
        return 0;
    }
    if (start->life >> PEER_LIFE_RANDOM_BITS <= seen->life >> PEER_LIFE_RANDOM_BITS ||
        start->term < seen->term || start->index < seen->index) {
        return ERR_STALE;
    }
    seen->life = start->life;
    memory->changed = true;
    return 0;
}

void peer_memory_forget(struct peer_memory *memory, uint64_t peer)
{
    for (size_t i = 0; i < memory->count; i++) {
        if (memory->peers[i].id == peer) {
            memory->peers[i] = memory->peers[--memory->count];
            memory->changed = true;
            return;
        }
    }
}

void peer_memory_save(const struct peer_memory *memory, struct buf *record)
{
    buf_put_u8(record, RECORD_VERSION);
    buf_put_u8(record, memory->older);
    for (size_t i = 0; i < memory->count; i++) {
        buf_put_u64(record, memory->peers[i].id);
        buf_put_u64(record, memory->peers[i].life);
    }
}

int peer_memory_load(struct peer_memory *memory, const void *record, size_t len)
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
        uint64_t life = reader_u64(&reader);

        if (reader.bad || peer == 0 || peer > LIMIT_NODE_ID || memory->count == PEER_MEMORY_MAX ||
            peer_memory_find(memory, peer) != NULL) {
            memset(memory, 0, sizeof *memory);
            return ERR_CORRUPT;
        }
        memory->peers[memory->count++] = (struct peer_seen){.id = peer, .life = life};
    }
    return 0;
}
