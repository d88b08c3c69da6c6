/*
 * id_world.c - see id_world.h. Thread: one.
 */
#include "src/id/tests/id_world.h"

#include <stdlib.h>
#include <string.h>

#include "src/base/assert.h"
#include "src/base/container.h"

#define OF(pointer, member) CONTAINER(pointer, struct id_world, member)

static uint64_t now_ms(const struct clock *clock)
{
    return ((const struct id_world *)clock->data)->now_ms;
}

static struct cluster_request *take(struct id_world *world, size_t at)
{
    struct cluster_request *request;

    ASSERT(at < world->request_count);
    request = world->requests[at];
    world->request_count--;
    memmove(&world->requests[at], &world->requests[at + 1],
            (world->request_count - at) * sizeof(struct cluster_request *));
    return request;
}

static void propose(struct id_proposer *proposer, struct cluster_request *request)
{
    struct id_world *world = OF(proposer, proposer);

    ASSERT(request->kind == CLUSTER_REQUEST_COMMAND && id_stamp_is_empty(&request->payload));
    ASSERT(world->giving_back || request->deadline_ms == world->now_ms + ID_WORLD_REQUEST_MS);
    ASSERT(world->request_count < ID_WORLD_REQUESTS);
    world->requests[world->request_count++] = request;
    if (world->answer_at_once > 0) {
        world->answer_at_once--;
        id_world_answer(world, world->request_count - 1);
    }
}

static void wake(struct id_waker *waker, struct id_tag *tag, uint64_t loops)
{
    struct id_world *world = OF(waker, waker);

    ASSERT(loops != 0);
    world->wakes++;
    world->woken = tag;
    world->woken_loops = loops;
}

struct id_world *id_world_new(void)
{
    static const struct allocator_config config = {
        .cover_ms = ID_WORLD_COVER_MS,
        .request_ms = ID_WORLD_REQUEST_MS,
        .retry_ms = ID_WORLD_RETRY_MS,
    };
    struct id_world *world = calloc(1, sizeof *world);

    ASSERT(world != NULL);
    world->cluster = fsm_of(state_new(&fsm_machine));
    world->clock = (struct clock){.now_ms = now_ms, .wall_ms = now_ms, .data = world};
    world->now_ms = 1000000;
    world->table = id_table_new(0);
    world->proposer.propose = propose;
    world->waker.wake = wake;
    world->allocator =
        allocator_new(&config, world->table, NULL, &world->clock, &world->timers, &world->proposer);
    allocator_set_waker(world->allocator, &world->waker);
    return world;
}

void id_world_free(struct id_world *world)
{
    while (world->request_count > 0) {
        id_world_fail(world, 0, ERR_SHUTTING_DOWN);
    }
    allocator_free(world->allocator);
    ASSERT(timers_next_ms(&world->timers) == TIMER_NEVER);
    id_table_free(world->table);
    state_free(fsm_state(world->cluster));
    free(world);
}

int id_world_setup(void **state)
{
    *state = id_world_new();
    return 0;
}

int id_world_teardown(void **state)
{
    id_world_free(*state);
    return 0;
}

/* Apply a command, which is then freed; the answer goes to *ret_answer unless that is NULL. */
static void apply(struct id_world *world, struct buf *command, struct buf *ret_answer)
{
    struct row_changes changes = {0};
    struct buf answer = BUF_INIT;
    int err;

    if (id_stamp_is_empty(command)) {
        id_stamp(&world->stamps, 1, command);
    }
    err = state_apply(fsm_state(world->cluster), ++world->index, 1, command->data, command->len,
                      &answer, &changes);
    ASSERT(err == 0);
    row_changes_release(&changes);
    if (ret_answer != NULL) {
        buf_move(ret_answer, &answer);
    }
    buf_free(&answer);
}

static void put_tag(struct id_world *world, struct tag_put put)
{
    struct buf command = BUF_INIT;

    put.name_len = (uint16_t)strlen(put.name);
    command_put(&command, COMMAND_TAGS_PUT, &(struct command_list){.force = true, .wall_ms = 1});
    command_item_put(&command, COMMAND_TAGS_PUT, &put);
    command_items_end(&command);
    apply(world, &command, NULL);
    buf_free(&command);
}

void id_world_put(struct id_world *world, const char *name, uint32_t step, uint64_t max_id)
{
    put_tag(world, (struct tag_put){.name = name,
                                    .fields = TAG_FIELD_STEP | TAG_FIELD_MAX_ID,
                                    .step = step,
                                    .max_id = max_id});
}

void id_world_max_step(struct id_world *world, const char *name, uint32_t max_step)
{
    put_tag(world,
            (struct tag_put){.name = name, .fields = TAG_FIELD_MAX_STEP, .max_step = max_step});
}

void id_world_mode(struct id_world *world, const char *name, enum tag_mode mode)
{
    put_tag(world, (struct tag_put){.name = name, .fields = TAG_FIELD_MODE, .mode = (uint8_t)mode});
}

void id_world_command(struct id_world *world, struct buf *command)
{
    apply(world, command, NULL);
    buf_free(command);
}

void id_world_delete(struct id_world *world, const char *name)
{
    struct buf command = BUF_INIT;

    command_put(
        &command, COMMAND_TAG_DELETE,
        &(struct delete_command){.name = name, .name_len = (uint16_t)(strlen(name)), .wall_ms = 1});
    apply(world, &command, NULL);
    buf_free(&command);
}

const struct tag_row *id_world_row(struct id_world *world, const char *name)
{
    const struct tag_row *row = fsm_tag(world->cluster, name, strlen(name));

    ASSERT(row != NULL);
    return row;
}

struct id_tag *id_world_tag(struct id_world *world, const char *name, uint32_t step)
{
    struct id_tag *tag;

    id_world_put(world, name, step, 1);
    tag = allocator_open(world->allocator, id_world_row(world, name));
    ASSERT(tag != NULL);
    return tag;
}

void id_world_park(struct id_world *world, struct id_tag *tag, uint64_t demand)
{
    atomic_fetch_add(&tag->demand, demand);
    atomic_fetch_or(&tag->waiting_loops, 1);
    (void)id_world_want(world, tag);
}

bool id_world_want(struct id_world *world, struct id_tag *tag)
{
    if (atomic_exchange(&tag->refill_wanted, true)) {
        return false;
    }
    allocator_want(world->allocator, tag);
    return true;
}

void id_world_apply(struct id_world *world, size_t at, struct buf *ret_reply)
{
    ASSERT(at < world->request_count);
    apply(world, &world->requests[at]->payload, ret_reply);
}

void id_world_answer(struct id_world *world, size_t at)
{
    struct buf reply = BUF_INIT;

    id_world_apply(world, at, &reply);
    id_world_reply(world, at, &reply);
    buf_free(&reply);
}

void id_world_fail(struct id_world *world, size_t at, int status)
{
    struct cluster_request *request = take(world, at);

    request->status = status;
    request->done(request);
}

void id_world_reply(struct id_world *world, size_t at, const struct buf *reply)
{
    struct cluster_request *request = take(world, at);

    request->status = 0;
    buf_put(&request->reply, reply->data, reply->len);
    request->done(request);
}

void id_world_turn(struct id_world *world)
{
    do {
        timers_run(&world->timers, world->now_ms);
    } while (timers_next_ms(&world->timers) <= world->now_ms);
}

uint64_t id_world_next_ms(const struct id_world *world)
{
    return timers_next_ms(&world->timers);
}

void id_world_load(struct id_world *world, struct id_tag *tag)
{
    bool asked = id_world_want(world, tag);

    ASSERT(asked);
    ASSERT(world->request_count == 0);
    id_world_turn(world);
    id_world_answer(world, 0);
}

uint64_t id_world_claim(struct id_tag *tag)
{
    struct segment_range range;
    struct segment_view view;
    int err = segment_claim(&tag->buffer, 1, 1, &range, &view);

    ASSERT(err == 0 && range.count == 1);
    return range.first;
}
