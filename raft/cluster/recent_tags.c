/*
 * recent_tags.c - see recent_tags.h. Thread: the raft loop.
 */
#include "raft/cluster/recent_tags.h"

#include "src/base/assert.h"
#include "src/base/log.h"

/* Tags age by the log's time; a cluster that keeps none has only each node's own clock. */
static uint64_t time_ms(const struct recent_tags *recent)
{
    uint64_t log_ms = fsm_log_ms(recent->on->fsm);

    return log_ms > 0 ? log_ms : clock_wall_ms(recent->on->clock);
}

static void on_written(void *data)
{
    (void)data; /* a list that is not there is only slower */
}

static void on_write(void *data, unsigned number, const void *bytes, size_t len)
{
    struct recent_tags *recent = data;

    ASSERT(number < LIMIT_LOCAL_LISTS);
    driver_write_local(recent->on->driver, LOCAL_LISTS_FIRST + number, bytes, len, on_written,
                       NULL);
}

static void on_fetch(void *data, const char *name, size_t len)
{
    struct recent_tags *recent = data;
    const struct tag_row *row = fsm_tag(recent->on->fsm, name, len);
    struct id_tag *tag;

    if (row == NULL || row->deleted || row->mode != TAG_MODE_TREND) {
        return;
    }
    tag = allocator_open(recent->allocator, row);
    if (tag == NULL || segment_left(&tag->buffer) > 0 ||
        atomic_exchange(&tag->refill_wanted, true)) {
        return;
    }
    allocator_want(recent->allocator, tag);
}

void recent_tags_start(struct recent_tags *recent, const struct ground *on,
                       struct allocator *allocator, const struct prefetch_config *config,
                       const struct store_loaded *loaded)
{
    const struct prefetch_ops ops = {.write = on_write, .fetch = on_fetch, .data = recent};

    *recent = (struct recent_tags){
        .on = on,
        .allocator = allocator,
        .prefetch = prefetch_new(config, &ops, on->clock, on->timers),
    };
    for (unsigned i = 0; i < LIMIT_LOCAL_LISTS; i++) {
        const struct buf *list = &loaded->locals[LOCAL_LISTS_FIRST + i];
        int rv = list->len > 0 ? prefetch_resume(recent->prefetch, i, list->data, list->len) : 0;

        if (rv != 0) {
            log_warn("raft", "a list of recent tags does not read, and is left out",
                     "number=%u code=%s", i, err_code(rv));
        }
    }
    allocator_set_prefetch(allocator, recent->prefetch);
}

void recent_tags_free(struct recent_tags *recent)
{
    prefetch_free(recent->prefetch);
}

void recent_tags_turn(struct recent_tags *recent, bool leader_known)
{
    prefetch_turn(recent->prefetch, time_ms(recent), leader_known);
}

void recent_tags_save(struct recent_tags *recent)
{
    prefetch_save(recent->prefetch, time_ms(recent));
}
