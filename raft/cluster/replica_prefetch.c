/*
 * replica_prefetch.c - a replica keeps the names of the tags it served lately, and fetches their
 * segments after a restart (src/id/alloc/prefetch.h).
 *
 * Thread: the raft loop.
 */
#include "raft/cluster/replica_internal.h"
#include "src/base/assert.h"
#include "src/base/log.h"

/* Tags age by the log's time; a cluster that keeps none has only each node's own clock. */
static uint64_t time_ms(const struct replica *replica)
{
    uint64_t log_ms = fsm_log_ms(replica->fsm);

    return log_ms > 0 ? log_ms : clock_wall_ms(replica->clock);
}

static void on_written(void *data)
{
    (void)data; /* a list that is not there costs a few first requests a round trip */
}

static void on_write(void *data, unsigned number, const void *bytes, size_t len)
{
    struct replica *replica = data;

    ASSERT(number < LIMIT_LOCAL_LISTS);
    driver_write_local(&replica->driver, LOCAL_LISTS_FIRST + number, bytes, len, on_written, NULL);
}

static void on_fetch(void *data, const char *name, size_t len)
{
    struct replica *replica = data;
    const struct tag_row *row = fsm_tag(replica->fsm, name, len);
    struct id_tag *tag;

    if (row == NULL || row->deleted || row->mode != TAG_MODE_TREND) {
        return;
    }
    tag = allocator_open(replica->allocator, row);
    if (tag == NULL || segment_left(&tag->buffer) > 0 ||
        atomic_exchange(&tag->refill_wanted, true)) {
        return;
    }
    allocator_want(replica->allocator, tag);
}

static void on_granted(void *data, struct id_tag *tag)
{
    prefetch_served(((struct replica *)data)->prefetch, tag);
}

void replica_prefetch_start(struct replica *replica, const struct store_loaded *loaded)
{
    struct prefetch_ops ops = {on_write, on_fetch, replica};

    replica->prefetch = prefetch_new(&replica->config.prefetch, &ops, replica->clock);
    for (unsigned i = 0; i < LIMIT_LOCAL_LISTS; i++) {
        const struct buf *list = &loaded->locals[LOCAL_LISTS_FIRST + i];
        int rv = list->len > 0 ? prefetch_resume(replica->prefetch, i, list->data, list->len) : 0;

        if (rv != 0) {
            log_warn("raft", "a list of recent tags does not read, and is left out",
                     "number=%u code=%s", i, err_code(rv));
        }
    }
    allocator_set_granted(replica->allocator, on_granted, replica);
}

void replica_prefetch_turn(struct replica *replica)
{
    prefetch_turn(replica->prefetch, time_ms(replica), requests_leader_known(&replica->requests));
}

void replica_prefetch_save(struct replica *replica)
{
    prefetch_save(replica->prefetch, time_ms(replica));
}
