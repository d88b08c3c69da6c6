/*
 * peer_memory.c - see peer_memory.h. Thread: the raft loop.
 */
#include "raft/core/peer_memory.h"

int peer_memory_init(struct peer_memory *memory, struct writes *writes, const struct clock *clock,
                     const struct buf *record)
{
    int rv;

    *memory = (struct peer_memory){.writes = writes, .clock = clock, .since_ms = UINT64_MAX};
    rv = rollback_load(&memory->seen, record->data, record->len);
    memory->at_start = memory->seen;
    return rv;
}

static void submit(struct peer_memory *memory, bool more, void (*done)(void *data), void *data)
{
    struct write *write = writes_new(memory->writes, STORE_LOCAL);

    memory->seen.met = false;
    memory->seen.changed = false;
    memory->since_ms = UINT64_MAX;
    memory->saved_ms = clock_now_ms(memory->clock);
    rollback_save(&memory->seen, &write->bytes);
    write->op.more = more;
    write_submit_local(write, LOCAL_PEERS, done, data);
}

/* Since when is there something to write? */
static void note_change(struct peer_memory *memory, uint64_t now_ms)
{
    if (memory->seen.changed && memory->since_ms == UINT64_MAX) {
        memory->since_ms = now_ms;
    }
}

void peer_memory_join(struct peer_memory *memory)
{
    uint64_t now_ms = clock_now_ms(memory->clock);

    note_change(memory, now_ms);
    if (memory->since_ms != UINT64_MAX && now_ms >= memory->saved_ms + PEER_MEMORY_JOIN_MS) {
        submit(memory, true, NULL, NULL);
    }
}

void peer_memory_tick(struct peer_memory *memory)
{
    uint64_t now_ms = clock_now_ms(memory->clock);

    note_change(memory, now_ms);
    if (memory->seen.met || now_ms >= peer_memory_next_ms(memory)) {
        submit(memory, false, NULL, NULL);
    }
}

uint64_t peer_memory_next_ms(const struct peer_memory *memory)
{
    return memory->since_ms == UINT64_MAX ? UINT64_MAX : memory->since_ms + PEER_MEMORY_HOLD_MS;
}

void peer_memory_save(struct peer_memory *memory)
{
    if (memory->seen.met || memory->seen.changed) {
        submit(memory, false, NULL, NULL);
    }
}

void peer_memory_write(struct peer_memory *memory, void (*done)(void *data), void *data)
{
    submit(memory, false, done, data);
}

void peer_memory_restore(struct peer_memory *memory, void (*done)(void *data), void *data)
{
    memory->seen = memory->at_start;
    submit(memory, false, done, data);
}
