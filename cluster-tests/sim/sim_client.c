/*
 * sim_client.c - see sim_client.h. Thread: one.
 */
#include "cluster-tests/sim/sim_client.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster-tests/sim/sim_calm.h"
#include "cluster-tests/sim/sim_check.h"
#include "cluster-tests/sim/sim_strict.h"
#include "src/base/assert.h"
#include "src/id/snowflake/snowflake.h"

#define PATIENCE_MS 3000
#define BULK_SEEDS 3 /* one in so many has bulks: they make the state, and so the work, large */
#define SPARED_PERCENT 85 /* nodes that get few turns: a round begins with each query */

enum sim_request_kind {
    ASK_OPEN,
    ASK_PUT,
    ASK_KEPT,
    ASK_KEPT_AGAIN,
    ASK_DELETE,
    ASK_GET,
    ASK_GET_KEPT,
    ASK_FINAL,
    ASK_BARRIER,
    ASK_BULK
};

struct sim_request {
    struct cluster_request base;
    struct sim_node *node;
    enum sim_request_kind kind;
    unsigned tag;
    uint64_t kept;
    uint64_t incarnation;
    bool changed;   /* GET_KEPT: the second change was acknowledged when it was sent */
    uint64_t floor; /* GET: an acknowledged max_id when it was sent; PUT: the max_id it sets;
                       EVERYWHERE: that which was set */
    bool force;
    struct missing_members missing; /* EVERYWHERE */
};

static const char *const kind_names[] = {"an open", "a put", "a put", "a put",          "a delete",
                                         "a get",   "a get", "a put", "a wait for all", "a bulk"};

static bool final_done[SIM_NODES_MAX];
static unsigned final_left;

static void request_done(struct cluster_request *base);

/* --- requests --- */

static struct sim_request *request_new(struct sim_node *node, enum sim_request_kind kind)
{
    struct sim_request *request = MUST_HAVE(calloc(1, sizeof *request));

    request->node = node;
    request->kind = kind;
    request->incarnation = node->incarnation;
    request->base.kind = CLUSTER_REQUEST_COMMAND;
    request->base.deadline_ms = clock_now_ms(&node->clock) + PATIENCE_MS;
    request->base.done = request_done;
    request->base.data = request;
    node->world->requests_open++;
    return request;
}

static void put_submit(struct sim_request *request, const struct tag_put *put)
{
    struct sim_node *node = request->node;
    struct command_list head = {.force = request->force, .wall_ms = clock_wall_ms(&node->clock)};

    node->world->stats.puts++;
    if (state_level(node->replica.state) >= command_since(COMMAND_TAGS_PUT_BY)) {
        head.client = node->id;
        head.most = UINT64_MAX;
    }
    command_put(&request->base.payload, command_type_for(COMMAND_TAGS_PUT, &head), &head);
    command_item_put(&request->base.payload, command_type_for(COMMAND_TAGS_PUT, &head), put);
    command_items_end(&request->base.payload);
    id_service_submit(&node->ids, &request->base);
}

/* All tags of the bulk get the same step, and no two bulks give the same one. */
static void put_bulk(struct sim_node *node)
{
    struct sim_request *request = request_new(node, ASK_BULK);
    char text[LIMIT_TAG_DESCRIPTION_BYTES];
    char name[SIM_BULK_NAME_BYTES];

    memset(text, 'd', sizeof text);
    command_put(&request->base.payload, COMMAND_TAGS_PUT,
                &(struct command_list){.wall_ms = clock_wall_ms(&node->clock)});
    node->world->stats.bulks++;
    for (unsigned i = 0; i < SIM_BULK_TAGS; i++) {
        struct tag_put put = {.name = name,
                              .name_len = (uint16_t)sim_bulk_name(i, name),
                              .fields = TAG_FIELD_STEP | TAG_FIELD_DESCRIPTION,
                              .step = (uint32_t)node->world->stats.bulks,
                              .description = text,
                              .description_len = sizeof text};

        command_item_put(&request->base.payload, COMMAND_TAGS_PUT, &put);
    }
    command_items_end(&request->base.payload);
    id_service_submit(&node->ids, &request->base);
}

static void put_kept(struct sim_node *node, enum sim_request_kind kind, uint64_t kept)
{
    struct sim_request *request = request_new(node, kind);
    struct tag_put put = {.fields = TAG_FIELD_STEP, .step = SIM_KEPT_STEP};
    char name[32];

    request->kept = kept;
    put.step += kind == ASK_KEPT;
    put.name = name;
    put.name_len = (uint16_t)snprintf(name, sizeof name, "kept-%" PRIu64, kept);
    put_submit(request, &put);
}

static void query_submit(struct sim_request *request, const char *name, size_t len)
{
    request->node->world->stats.queries++;
    request->base.kind = CLUSTER_REQUEST_QUERY;
    query_get_encode(&request->base.payload, name, len);
    id_service_submit(&request->node->ids, &request->base);
}

static void final_put(struct sim_node *node)
{
    struct sim_request *request = request_new(node, ASK_FINAL);
    struct tag_put put = {.name = "final", .name_len = 5};

    request->tag = node->id - 1;
    put_submit(request, &put);
}

/* --- answers --- */

/* The same client waits until the change holds everywhere. */
static void wait_for_all(const struct sim_request *put)
{
    struct sim_request *request = request_new(put->node, ASK_BARRIER);

    request->tag = put->tag;
    request->floor = put->floor;
    request->base.kind = CLUSTER_REQUEST_BARRIER;
    request->base.index = put->base.index;
    request->base.out = &request->missing;
    id_service_submit(&put->node->ids, &request->base);
}

static void put_acknowledged(struct sim_request *request)
{
    struct sim_world *world = request->node->world;
    struct sim_tag *tag = &world->tags[request->tag];

    if (request->floor == 0) {
        return;
    }
    tag->acked_max_id = request->floor > tag->acked_max_id ? request->floor : tag->acked_max_id;
    if (request->tag == SIM_MONOTONIC) {
        sim_strict_raised(world, request->tag, request->floor);
    }
    sim_check_raised(request->node, request->tag, request->floor);
    if (world->clients && sim_percent(world, 60)) {
        wait_for_all(request);
    }
}

/* All members have applied the raise: none of them hands out a lower id any more. */
static void barrier_answered(struct sim_request *request)
{
    struct sim_world *world = request->node->world;

    world->stats.barrier++;
    MEMBER_FOREACH (member, driver_configuration(&request->node->replica.driver)) {
        sim_check_raised(&world->nodes[member->id - 1], request->tag, request->floor);
    }
}

/* The same client changes what it made; its first change, should it come again, must not undo it.
 */
static void change_again(const struct sim_request *put)
{
    struct sim_node *node = sim_any_running(put->node->world);

    if (node != NULL) {
        put_kept(node, ASK_KEPT_AGAIN, put->kept);
    }
}

static void put_answered(struct sim_request *request)
{
    struct sim_world *world = request->node->world;
    struct put_result result = {0};

    if (put_result_decode(request->base.reply.data, request->base.reply.len, &result) != 0) {
        sim_fail(world, "the result of a put does not decode");
    }
    if (request->kind == ASK_BULK &&
        (result.status != 0 || result.made + result.changed != SIM_BULK_TAGS)) {
        sim_fail(world, "a bulk came to %d, made %u and changed %u", result.status, result.made,
                 result.changed);
    }
    if (result.status == 0 && request->kind == ASK_KEPT) {
        world->kept[request->kept] = true;
        world->recent[world->recent_count++ % SIM_RECENT] = request->kept;
        if (world->clients && sim_percent(world, 50)) {
            change_again(request);
        }
    } else if (result.status == 0 && request->kind == ASK_KEPT_AGAIN) {
        world->kept_again[request->kept] = true;
    } else if (result.status == 0 && request->kind == ASK_PUT) {
        put_acknowledged(request);
    } else if (result.status == 0 && request->kind == ASK_FINAL && !final_done[request->tag]) {
        final_done[request->tag] = true;
        final_left--;
    }
}

static void get_answered(struct sim_request *request)
{
    struct tag_rows rows = {0};

    if (tag_rows_decode(request->base.reply.data, request->base.reply.len, &rows) != 0) {
        sim_fail(request->node->world, "the result of a query does not decode");
    }
    if (request->kind == ASK_GET_KEPT && request->changed &&
        (rows.count != 1 || rows.rows[0].step != SIM_KEPT_STEP)) {
        sim_fail(request->node->world,
                 "node %u does not know the last change of kept-%" PRIu64
                 ", which had been acknowledged",
                 request->node->id, request->kept);
    }
    if (rows.count == 1 && rows.rows[0].max_id < request->floor) {
        sim_fail(request->node->world,
                 "node %u answered max_id %" PRIu64 " of %.*s after %" PRIu64 " was acknowledged",
                 request->node->id, rows.rows[0].max_id, (int)rows.rows[0].name_len,
                 rows.rows[0].name, request->floor);
    }
    tag_rows_release(&rows);
}

static void request_done(struct cluster_request *base)
{
    struct sim_request *request = base->data;
    struct sim_world *world = request->node->world;

    ASSERT(world->requests_open > 0);
    world->requests_open--;
    if (request->kind == ASK_OPEN && request->incarnation == request->node->incarnation) {
        request->node->opening[request->tag] = false;
    }
    sim_note(world, (uint64_t)base->status << 8 | request->kind);
    if (request->kind == ASK_GET_KEPT && base->status == ERR_UNKNOWN_TAG) {
        sim_fail(world, "node %u did not find kept-%" PRIu64 ", which had been acknowledged",
                 request->node->id, request->kept);
    }
    if (request->kind == ASK_BARRIER && base->status == ERR_TIMEOUT &&
        request->missing.count == 0) {
        sim_fail(world, "node %u waited for all, and nobody is missing", request->node->id);
    }
    if (request->kind != ASK_BARRIER && request->incarnation == request->node->incarnation) {
        sim_calm_timed_out(request->node, base->status, kind_names[request->kind]);
    }
    if (base->status != 0) {
        world->stats.failed_requests++;
    } else if (request->kind == ASK_GET || request->kind == ASK_GET_KEPT) {
        get_answered(request);
    } else if (request->kind == ASK_BARRIER) {
        barrier_answered(request);
    } else if (request->kind != ASK_OPEN && request->kind != ASK_DELETE) {
        put_answered(request);
    }
    if (request->kind == ASK_FINAL && base->status != 0 && request->node->up) {
        final_put(request->node); /* the end's liveness check gives it as long as it takes */
    }
    buf_free(&base->payload);
    buf_free(&base->reply);
    free(request);
}

/* --- changes and reads --- */

/* Above what was handed out; or what it is already: then nothing may come back that was granted. */
static uint64_t max_id_to_put(struct sim_node *node, struct sim_tag *tag)
{
    uint64_t handed_out = sim_check_epoch(tag)->highest_end;
    const struct tag_row *row = fsm_tag(node->ids.context.fsm, tag->name, strlen(tag->name));

    if (row != NULL && row->max_id >= handed_out && sim_percent(node->world, 30)) {
        return row->max_id;
    }
    handed_out = handed_out > TAG_DEFAULT_MAX_ID ? handed_out : TAG_DEFAULT_MAX_ID;
    return handed_out + sim_below(node->world, 500);
}

/* A mode that the level does not know is refused before it is proposed (handlers_tags.c). */
static uint8_t mode_to_put(struct sim_node *node, unsigned t)
{
    struct sim_world *world = node->world;
    bool mono = world->mono && state_level(node->replica.state) >= SIM_MONO_LEVEL;

    if (t == SIM_CHANGING && sim_percent(world, 50)) {
        return TAG_MODE_TREND;
    }
    if (!mono || t == SIM_STRICT || sim_percent(world, t == SIM_CHANGING ? 50 : 10)) {
        return TAG_MODE_STRICT;
    }
    return TAG_MODE_MONOTONIC;
}

void sim_client_put(struct sim_node *node, unsigned t)
{
    struct sim_world *world = node->world;
    struct sim_tag *tag = &world->tags[t];
    struct sim_request *request = request_new(node, ASK_PUT);
    struct tag_put put = {.name = tag->name, .name_len = (uint16_t)strlen(tag->name)};

    request->tag = t;
    put.fields = TAG_FIELD_STEP | TAG_FIELD_MAX_STEP;
    put.step = 1 + (uint32_t)sim_below(world, 20);
    put.max_step = put.step + (uint32_t)sim_below(world, 40);
    if (t ==
        SIM_STEADY) { /* its segments are all alike: what was given back is granted as it was */
        put.step = 4;
        put.max_step = 4;
    }
    if (t >= SIM_TAGS) {
        put.fields |= TAG_FIELD_MODE;
        put.mode = mode_to_put(node, t);
    }
    if (t == SIM_MONOTONIC) { /* windows that end soon, or that last beyond an election */
        bool is_short = sim_percent(world, 50);

        put.step = is_short ? 2 : 200;
        put.max_step = is_short ? 3 : 400;
    }
    if ((t < SIM_TAGS || t == SIM_MONOTONIC) && sim_percent(world, 20)) {
        put.fields |= TAG_FIELD_MAX_ID;
        put.max_id = max_id_to_put(node, tag);
        request->floor = put.max_id;
    }
    if (t == SIM_FORCED && sim_percent(world, 30)) {
        request->force = true;
        put.fields |= TAG_FIELD_MAX_ID;
        put.max_id = sim_below(world, sim_check_epoch(tag)->highest_end + 1);
    }
    put_submit(request, &put);
}

static void delete_shared(struct sim_node *node, unsigned t)
{
    const struct sim_tag *tag = &node->world->tags[t];
    struct sim_request *request = request_new(node, ASK_DELETE);

    node->world->stats.deletes++;
    request->tag = t;
    command_put(&request->base.payload, COMMAND_TAG_DELETE,
                &(struct delete_command){.name = tag->name,
                                         .name_len = (uint16_t)(strlen(tag->name)),
                                         .wall_ms = clock_wall_ms(&node->clock)});
    id_service_submit(&node->ids, &request->base);
}

static void get_shared(struct sim_node *node, unsigned t)
{
    struct sim_tag *tag = &node->world->tags[t];
    uint64_t handed_out = sim_check_epoch(tag)->highest_end;
    struct sim_request *request = request_new(node, ASK_GET);

    request->tag = t;
    request->floor = tag->acked_max_id > handed_out ? tag->acked_max_id : handed_out;
    if (t == SIM_FORCED) {
        request->floor = 0; /* it may fall */
    }
    query_submit(request, tag->name, strlen(tag->name));
}

/* A tag that was acknowledged a moment ago, perhaps by another node, must be found on any. */
static void get_kept(struct sim_node *node)
{
    struct sim_world *world = node->world;
    uint64_t among = world->recent_count < SIM_RECENT ? world->recent_count : SIM_RECENT;
    struct sim_request *request;
    char name[32];
    int len;

    if (among == 0) {
        return;
    }
    request = request_new(node, ASK_GET_KEPT);
    request->kept = world->recent[(world->recent_count - 1 - sim_below(world, among)) % SIM_RECENT];
    request->changed = world->kept_again[request->kept];
    len = snprintf(name, sizeof name, "kept-%" PRIu64, request->kept);
    query_submit(request, name, (size_t)len);
}

void sim_admin_event(struct sim_world *world)
{
    struct sim_node *node = sim_any_running(world);
    unsigned t = (unsigned)sim_below(world, world->mono ? SIM_TAGS_ALL : SIM_MONOTONIC);
    uint64_t what = sim_below(world, 100);

    if (node == NULL || !world->clients ||
        (node->drift.until_ms > world->now_ms && sim_percent(world, SPARED_PERCENT))) {
        return;
    }
    if (what < 35) {
        sim_client_put(node, t);
    } else if (what < 43) {
        delete_shared(node, t);
    } else if (what < 65) {
        ASSERT(world->kept_next < SIM_KEPT_MAX);
        put_kept(node, ASK_KEPT, world->kept_next++);
    } else if (what < 82) {
        get_kept(node);
    } else if (what >= 98 && world->seed % BULK_SEEDS == 0) {
        put_bulk(node);
    } else {
        get_shared(node, t);
    }
    sim_turn(node);
}

/* --- ids --- */

static void open_tag(struct sim_node *node, unsigned t)
{
    const struct sim_tag *tag = &node->world->tags[t];
    struct sim_request *request;

    if (node->opening[t]) {
        return;
    }
    node->opening[t] = true;
    request = request_new(node, ASK_OPEN);
    request->tag = t;
    request->base.kind = ID_REQUEST_OPEN;
    buf_put(&request->base.payload, tag->name, strlen(tag->name));
    id_service_submit(&node->ids, &request->base);
}

static void want(struct sim_node *node, struct id_tag *tag)
{
    if (!atomic_exchange(&tag->refill_wanted, true)) {
        allocator_want(node->ids.allocator, tag);
    }
}

static void claim(struct sim_node *node, unsigned t, struct id_tag *tag)
{
    struct sim_world *world = node->world;
    uint32_t count = 1 + (uint32_t)sim_below(world, 12);
    struct segment_range range;
    struct segment_view view;
    int rv;

    if (sim_percent(world, 10)) {
        rv = segment_claim(&tag->buffer, count, count, &range, &view);
        atomic_store(&tag->demand, rv == 0 ? 0 : count);
    } else {
        rv = segment_claim(&tag->buffer, 1, count, &range, &view);
    }
    if (rv == 0) {
        sim_check_ids(node, t, tag->refill.generation, &range);
        if (t == SIM_CHANGING) {
            sim_strict_trend(node, t, &range);
        }
    }
    if (!view.next_ready && (rv != 0 || refill_due(view.used, view.size, 10))) {
        want(node, tag);
    }
}

static void take_flakes(struct sim_node *node)
{
    struct sim_world *world = node->world;
    struct snowflake *snowflake = &node->ids.snowflake;
    uint32_t count = 1 + (uint32_t)sim_below(world, 20);
    uint64_t random = prng_next(&world->prng);
    unsigned layout = count % 5 < SIM_LAYOUTS ? count % 5 : 0; /* 0: the cluster's own */
    struct segment_range range;
    bool notify = false;
    struct layout_words *named = layout > 0 ? snowflake->named.items[layout - 1] : NULL;
    int rv = snowflake_claim(snowflake, named, 0, count, random, &range, &notify);

    if (notify) { /* as id_backend_ops.notify does */
        node->ids.base.ops->woken(&node->ids.base);
    }
    if (rv != 0) {
        world->stats.flakes_refused++;
        return;
    }
    world->flake_served[node->id - 1] = !world->faults;
    sim_check_flakes(node, layout, &range);
}

void sim_client_event(struct sim_world *world)
{
    struct sim_node *node = sim_any_running(world);
    unsigned t = (unsigned)sim_below(world, SIM_MONOTONIC); /* whose clients are in sim_mono.c */
    struct id_tag *tag;

    sim_calm_look(world);
    if (node == NULL) {
        return;
    }
    if (!world->clients || sim_percent(world, 30)) {
        take_flakes(node);
        sim_turn(node);
        return;
    }
    if (t >= SIM_TAGS && sim_strict_event(node, t)) {
        sim_turn(node);
        return;
    }
    tag = id_table_find(node->ids.table, world->tags[t].name, strlen(world->tags[t].name));
    if (tag == NULL || atomic_load(&tag->state) == ID_TAG_UNKNOWN) {
        open_tag(node, t);
    } else {
        claim(node, t, tag);
    }
    sim_turn(node);
}

/* --- the end --- */

void sim_client_begin_final(struct sim_world *world)
{
    memset(final_done, 0, sizeof final_done);
    final_left = 0;
    SIM_LIVING_FOREACH (node, world) {
        final_left++;
        final_put(node);
        sim_strict_begin_final(node);
        sim_turn(node);
    }
}

bool sim_client_final_done(const struct sim_world *world)
{
    return final_left == 0 && sim_strict_final_done(world);
}
