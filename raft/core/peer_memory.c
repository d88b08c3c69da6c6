/*
 * peer_memory.c - see peer_memory.h. Thread: the raft loop.
 */
#include "raft/core/peer_memory.h"

#include "src/base/container.h"

static void submit(struct peer_memory *memory, bool more, void (*done)(void *data), void *data)
{
    struct write *write = writes_new(memory->writes, STORE_LOCAL);

    memory->seen.met = false;
    memory->seen.changed = false;
    timer_cancel(memory->timers, &memory->due);
    memory->saved_ms = clock_now_ms(memory->clock);
    rollback_save(&memory->seen, &write->bytes);
    write->op.more = more;
    write_submit_local(write, LOCAL_PEERS, done, data);
}

static void on_memory_due(struct timer *timer, uint64_t now_ms)
{
    (void)now_ms;
    submit(CONTAINER(timer, struct peer_memory, due), false, NULL, NULL);
}

int peer_memory_init(struct peer_memory *memory, struct writes *writes, const struct clock *clock,
                     struct timers *timers, const struct buf *record)
{
    int rv;

    *memory = (struct peer_memory){.writes = writes, .clock = clock, .timers = timers};
    timer_init(&memory->due, on_memory_due);
    rv = rollback_load(&memory->seen, record->data, record->len);
    memory->at_start = memory->seen;
    return rv;
}

void peer_memory_join(struct peer_memory *memory)
{
    if (memory->seen.changed &&
        clock_now_ms(memory->clock) >= memory->saved_ms + PEER_MEMORY_JOIN_MS) {
        submit(memory, true, NULL, NULL);
    }
}

void peer_memory_changed(struct peer_memory *memory)
{
    if (memory->seen.met) {
        submit(memory, false, NULL, NULL);
    } else if (memory->seen.changed && !timer_is_armed(&memory->due)) {
        timer_arm(memory->timers, &memory->due, clock_now_ms(memory->clock) + PEER_MEMORY_HOLD_MS);
    }
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
