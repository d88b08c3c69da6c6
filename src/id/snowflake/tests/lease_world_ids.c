/*
 * lease_world_ids.c - ids claimed in a world of leases, and what every one of them has to keep; and
 * others who take worker ids (see lease_world.h). Thread: one.
 */
#include <stdlib.h>
#include <string.h>

#include "src/base/assert.h"
#include "src/id/snowflake/tests/lease_world.h"

/* --- ids --- */

/* Its time is within a durable mark, and within what the log granted. */
static void check_range(const struct lease_node *node, struct segment_range range)
{
    struct snowflake_parts parts = snowflake_decode(&node->snowflake.layout, range.first);
    struct snowflake_parts last =
        snowflake_decode(&node->snowflake.layout, range.first + range.count - 1);
    const struct worker_row *row = fsm_worker(node->world->log, parts.worker);
    bool durable = false;

    ASSERT(last.unix_ms == parts.unix_ms && last.worker == parts.worker);
    ASSERT(row != NULL);
    for (unsigned k = 0; k < LIMIT_WORKERS_PER_NODE; k++) {
        struct lease_record record;

        if (node->records[k].len == 0) {
            continue;
        }
        record = lease_world_record(node, k);
        ASSERT(record.epoch > 0);
        if (record.worker_id == parts.worker && parts.unix_ms <= record.mark_ms &&
            parts.unix_ms > record.from_ms) {
            durable = true;
            ASSERT(record.epoch <= row->epoch);
            ASSERT(parts.unix_ms <=
                   (record.epoch == row->epoch ? row->granted_until_ms : row->granted_from_ms));
        }
    }
    ASSERT(durable);
    /* No earlier incarnation can have stamped it. */
    for (unsigned k = 0; k < LIMIT_WORKERS_PER_NODE; k++) {
        ASSERT(node->found[k].worker_id != parts.worker || parts.unix_ms > node->found[k].mark_ms);
    }
}

int lease_world_claim(struct lease_node *node, uint32_t count, struct segment_range *ret_range)
{
    struct lease_world *world = node->world;
    bool notify;
    int err;

    ASSERT(node->up);
    world->random = world->random * 6364136223846793005ULL + 1442695040888963407ULL;
    err = snowflake_claim(&node->snowflake, NULL, (unsigned)(world->random >> 33), count,
                          world->random >> 20, ret_range, &notify);
    if (err != 0) {
        return err;
    }
    check_range(node, *ret_range);
    if (world->range_count == world->range_capacity) {
        world->range_capacity = world->range_capacity > 0 ? world->range_capacity * 2 : 1024;
        world->ranges =
            realloc(world->ranges, world->range_capacity * sizeof(struct segment_range));
        ASSERT(world->ranges != NULL);
    }
    world->ranges[world->range_count++] = *ret_range;
    return 0;
}

int lease_world_wait_id(struct lease_node *node, uint64_t max_ms, struct snowflake_parts *ret_id)
{
    struct segment_range range = {0};
    int err = lease_world_claim(node, 1, &range);

    for (uint64_t ms = 0; err != 0 && ms < max_ms; ms++) {
        lease_world_run(node->world, 1);
        err = lease_world_claim(node, 1, &range);
    }
    if (err == 0) {
        *ret_id = snowflake_decode(&node->snowflake.layout, range.first);
    }
    return err;
}

struct snowflake_parts lease_world_id(struct lease_node *node)
{
    struct snowflake_parts parts;
    /* The mark may have to be extended first: a write. */
    int err = lease_world_wait_id(node, LEASE_WORLD_DISK_MS + 1, &parts);

    ASSERT(err == 0);
    return parts;
}

struct lease_status lease_world_status(const struct lease_node *node)
{
    struct lease_status status;

    lease_status(node->lease, &status);
    return status;
}

struct lease_record lease_world_record(const struct lease_node *node, unsigned k)
{
    struct lease_record record;
    int err = row_read(node->records[k].data, node->records[k].len, &lease_record_format, &record);

    ASSERT(err == 0);
    return record;
}

const struct worker_row *lease_world_row(struct lease_world *world, const struct lease_node *node,
                                         unsigned k)
{
    const struct worker_row *row = fsm_worker(world->log, lease_world_record(node, k).worker_id);

    ASSERT(row != NULL);
    return row;
}

static int compare_ranges(const void *a, const void *b)
{
    const struct segment_range *left = a;
    const struct segment_range *right = b;

    return left->first < right->first ? -1 : left->first > right->first;
}

void lease_world_check(const struct lease_world *world)
{
    struct segment_range *ranges = calloc(world->range_count + 1, sizeof *ranges);

    ASSERT(ranges != NULL);
    for (size_t i = 0; i < world->range_count; i++) {
        ranges[i] = world->ranges[i];
    }
    qsort(ranges, world->range_count, sizeof *ranges, compare_ranges);
    for (size_t i = 1; i < world->range_count; i++) {
        ASSERT(ranges[i - 1].first + ranges[i - 1].count <= ranges[i].first);
    }
    free(ranges);
}

/* --- others --- */

int lease_world_steal(struct lease_world *world, enum worker_kind kind, const char *name,
                      uint32_t worker_id)
{
    struct worker_acquire acquire = {.kind = (uint8_t)kind,
                                     .worker_id = worker_id,
                                     .window_ms = LEASE_WORLD_WINDOW_MS,
                                     .wall_ms = world->true_ms,
                                     .name = name,
                                     .name_len = (uint16_t)strlen(name),
                                     .address = "",
                                     .client = kind == WORKER_CLIENT ? 9 : 0,
                                     .percent = 100};
    struct buf command = BUF_INIT;
    struct worker_result result;

    command_put(&command, COMMAND_WORKER_ACQUIRE, &acquire);
    result = lease_world_command(world, &command);
    buf_free(&command);
    return result.status;
}

void lease_world_release(struct lease_world *world, uint32_t worker_id, uint64_t used_ms)
{
    const struct worker_row *row = fsm_worker(world->log, worker_id);
    struct worker_release release = {.worker_id = worker_id, .last_timestamp_ms = used_ms};
    struct buf command = BUF_INIT;
    struct worker_result result;

    ASSERT(row != NULL);
    release.epoch = row->epoch;
    release.kind = row->kind;
    release.client = row->client;
    command_put(&command, COMMAND_WORKER_RELEASE, &release);
    result = lease_world_command(world, &command);
    ASSERT(result.status == 0);
    buf_free(&command);
}
