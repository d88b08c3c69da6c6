/*
 * strict_world.c - see strict_world.h. Thread: one.
 */
#include "src/id/alloc/tests/strict_world.h"

#include <stdlib.h>
#include <string.h>

#include "src/base/assert.h"
#include "src/base/container.h"
#include "src/id/tests/id_stamp.h"

static uint64_t now_ms(const struct clock *clock)
{
    return ((const struct strict_world *)clock->data)->now_ms;
}

static struct cluster_request *take(struct strict_world *world, size_t at)
{
    struct cluster_request *request;

    ASSERT(at < world->batch_count);
    request = world->batches[at];
    world->batch_count--;
    memmove(&world->batches[at], &world->batches[at + 1],
            (world->batch_count - at) * sizeof(struct cluster_request *));
    return request;
}

static void propose(struct id_proposer *proposer, struct cluster_request *request)
{
    struct strict_world *world = CONTAINER(proposer, struct strict_world, proposer);

    ASSERT(request->kind == CLUSTER_REQUEST_COMMAND && request->reply.len == 0);
    ASSERT(id_stamp_is_empty(&request->payload));
    ASSERT(request->deadline_ms > world->now_ms &&
           request->deadline_ms <= world->now_ms + LIMIT_TIMEOUT_MS);
    ASSERT(world->batch_count < LIMIT_STRICT_BATCHES);
    world->batches[world->batch_count++] = request;
    world->proposed++;
    if (world->answer_at_once > 0) {
        world->answer_at_once--;
        strict_world_give(world, world->batch_count - 1);
    }
}

static void answered(struct cluster_request *request)
{
    struct strict_ask *ask = CONTAINER(request, struct strict_ask, base);
    const struct strict_world *world = request->data;

    ask->answers++;
    ask->answered_ms = world->now_ms;
}

struct strict_world *strict_world_new(void)
{
    static const struct allocator_config config = {
        .cover_ms = REFILL_DEFAULT_COVER_MS, .request_ms = 10000, .retry_ms = 50};
    struct strict_world *world = calloc(1, sizeof *world);

    ASSERT(world != NULL);
    world->clock = (struct clock){.now_ms = now_ms, .wall_ms = now_ms, .data = world};
    world->now_ms = 1000000;
    world->next_id = 1;
    world->proposer.propose = propose;
    STAILQ_INIT(&world->asks);
    world->leader_known = true;
    answers_init(&world->answers);
    world->table = id_table_new(1);
    world->allocator =
        allocator_new(&config, world->table, NULL, &world->clock, &world->timers, &world->proposer);
    world->strict = strict_new(STRICT_WORLD_KEYS, &world->clock, &world->timers, &world->proposer,
                               &world->answers, world->allocator);
    strict_turn(world->strict, true);
    return world;
}

void strict_world_free(struct strict_world *world)
{
    struct strict_ask *ask;

    strict_world_stop(world);
    while (world->batch_count > 0) {
        strict_world_fail(world, 0, ERR_SHUTTING_DOWN);
    }
    strict_free(world->strict);
    allocator_free(world->allocator);
    id_table_free(world->table);
    ASSERT(timers_next_ms(&world->timers) == TIMER_NEVER);
    while ((ask = STAILQ_FIRST(&world->asks)) != NULL) {
        STAILQ_REMOVE_HEAD(&world->asks, next);
        ASSERT(ask->answers == 1);
        buf_free(&ask->base.payload);
        buf_free(&ask->base.reply);
        free(ask);
    }
    free(world);
}

int strict_world_setup(void **state)
{
    *state = strict_world_new();
    return 0;
}

int strict_world_teardown(void **state)
{
    strict_world_free(*state);
    return 0;
}

struct strict_ask *strict_world_ask(struct strict_world *world, const char *tag, uint32_t count,
                                    const char *key, uint64_t patience_ms)
{
    struct strict_ask *ask = calloc(1, sizeof *ask);
    struct strict_item item = {.name = tag,
                               .name_len = (uint16_t)strlen(tag),
                               .key = key,
                               .key_len = key != NULL ? (uint16_t)strlen(key) : 0,
                               .count = count};

    ASSERT(ask != NULL);
    ask->base.kind = ID_REQUEST_STRICT;
    ask->base.deadline_ms = world->now_ms + patience_ms;
    strict_item_encode(&item, &ask->base.payload);
    STAILQ_INSERT_TAIL(&world->asks, ask, next);
    ask->base.done = answered;
    ask->base.data = world;
    strict_submit(world->strict, &ask->base);
    answers_deliver(&world->answers);
    return ask;
}

struct command_list strict_world_command(struct strict_world *world, size_t at)
{
    struct command read;
    struct command_list command;
    const struct buf *payload;

    ASSERT(at < world->batch_count);
    payload = &world->batches[at]->payload;
    ASSERT(command_read(payload->data, payload->len, &read) == 0);
    command = read.list;
    return command;
}

void strict_world_give(struct strict_world *world, size_t at)
{
    struct command_list command = strict_world_command(world, at);
    struct strict_result results[LIMIT_STRICT_ITEMS] = {{0}};
    struct strict_item item;
    size_t count = 0;

    while (command_next(&command, &item)) {
        results[count].generation = 1;
        results[count++].first = world->next_id;
        world->next_id += item.count;
    }
    strict_world_results(world, at, results, count);
}

void strict_world_results(struct strict_world *world, size_t at,
                          const struct strict_result *results, size_t count)
{
    struct cluster_request *request = take(world, at);

    results_encode(RESULT_STRICT, results, count, &request->reply);
    request->status = 0;
    request->done(request);
    answers_deliver(&world->answers);
}

void strict_world_fail(struct strict_world *world, size_t at, int status)
{
    struct cluster_request *request = take(world, at);

    request->status = status;
    request->done(request);
    answers_deliver(&world->answers);
}

void strict_world_say(struct strict_world *world, size_t at, int32_t status, uint64_t detail)
{
    struct command_list command = strict_world_command(world, at);
    struct strict_result results[LIMIT_STRICT_ITEMS] = {{0}};

    for (uint32_t i = 0; i < command.count; i++) {
        results[i].status = status;
        results[i].detail = detail;
    }
    strict_world_results(world, at, results, command.count);
}

void strict_world_turn(struct strict_world *world)
{
    strict_turn(world->strict, world->leader_known);
    do {
        timers_run(&world->timers, world->now_ms);
        answers_deliver(&world->answers);
    } while (timers_next_ms(&world->timers) <= world->now_ms);
}

void strict_world_stop(struct strict_world *world)
{
    strict_stop(world->strict);
    answers_deliver(&world->answers);
}

uint64_t strict_world_next_ms(const struct strict_world *world)
{
    return timers_next_ms(&world->timers);
}

void strict_world_pass_ms(struct strict_world *world, uint64_t ms)
{
    world->now_ms += ms;
    strict_world_turn(world);
}

struct strict_result strict_world_result(const struct strict_ask *ask)
{
    struct strict_result result;
    size_t count = 0;

    ASSERT(ask->answers == 1);
    ASSERT(results_decode(RESULT_STRICT, ask->base.reply.data, ask->base.reply.len, &result, 1,
                          &count) == 0);
    ASSERT(count == 1 && result.status == ask->base.status);
    return result;
}
