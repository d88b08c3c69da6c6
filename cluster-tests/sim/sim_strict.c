/*
 * sim_strict.c - see sim_strict.h. Thread: one.
 */
#include "cluster-tests/sim/sim_strict.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster-tests/sim/sim_calm.h"
#include "cluster-tests/sim/sim_check.h"
#include "src/base/buf.h"
#include "src/base/assert.h"
#include "cluster-tests/history/history.h"

#define PATIENCE_MS 3000
#define KEYS_MAX 4096 /* of a run */
#define KEYS_RECENT 12
#define MONO_COUNT_MAX 12
#define NO_KEY UINT32_MAX
#define TAGS (SIM_TAGS_ALL - SIM_TAGS)
#define GENERATIONS_MAX 1024 /* of a tag in a run */

struct strict_key {
    uint32_t count;
    uint64_t floor; /* of the first request with it */
    uint64_t first; /* of its ids, once they are known */
    bool known;
};

/* One span of a tag in which its ids must rise, or be dense. */
struct strict_axis {
    uint32_t generation;
    uint32_t history_tag;
};

/* A request whose outcome nobody knows: its ids may be missing from now on. */
struct strict_lost {
    unsigned tag;
    uint32_t generation; /* of the tag when it was sent, at least */
    struct history_op op;
};

struct strict_tag {
    struct strict_axis *axes;
    size_t axis_count;
    uint64_t known_end;  /* end of all ids that anybody knows, of both modes */
    uint64_t strict_end; /* of those among them that are not of a segment */
    struct strict_key keys[KEYS_MAX];
    uint32_t key_count;
    uint8_t modes[GENERATIONS_MAX]; /* enum tag_mode */
};

struct sim_strict {
    struct history *history;
    uint64_t now; /* events so far */
    struct strict_tag tags[TAGS];
    struct strict_lost *lost;
    size_t lost_count;
    size_t lost_capacity;
    bool changing_has_keys; /* then the changing tag's ids are not checked for density */
    bool final[SIM_NODES_MAX][TAGS];
};

struct strict_request {
    struct cluster_request base;
    struct sim_node *node;
    unsigned tag;         /* from 0 */
    uint32_t count;       /* 0: not for ids, but to make the tag strict at the end */
    uint32_t key;         /* NO_KEY: none */
    uint64_t incarnation; /* of the node */
    uint64_t sent;        /* on the history's clock */
    uint64_t floor;       /* ids below were known when it was sent */
    uint32_t generation;  /* of the tag then, at least */
    bool known;           /* its key's ids were known when it was sent */
    bool timed;           /* the log had a time then, which keys need */
    bool final;
};

static void final_step(struct sim_node *node, unsigned tag, bool put);

/* --- the history --- */

static const char *name_of(const struct sim_world *world, unsigned tag)
{
    return world->tags[SIM_TAGS + tag].name;
}

static bool is_changing(unsigned tag)
{
    return tag == SIM_CHANGING - SIM_TAGS;
}

/* The tags that are used in this run. */
static unsigned tags_of(const struct sim_world *world)
{
    return world->mono ? TAGS : TAGS - 1;
}

/* Has the tag one axis for the whole run? */
static bool one_axis(const struct sim_world *world, unsigned tag)
{
    return !is_changing(tag) || world->strict->changing_has_keys;
}

/* What is demanded of an axis. */
static enum history_mode mode_of(const struct sim_world *world, unsigned tag, uint32_t generation)
{
    if (tag == SIM_STRICT - SIM_TAGS) {
        return HISTORY_STRICT;
    }
    if (tag == SIM_MONOTONIC - SIM_TAGS) {
        return HISTORY_MONOTONIC;
    }
    if (one_axis(world, tag)) {
        return HISTORY_TREND;
    }
    ASSERT(generation < GENERATIONS_MAX);
    return world->strict->tags[tag].modes[generation] == TAG_MODE_STRICT ? HISTORY_STRICT
                                                                         : HISTORY_MONOTONIC;
}

/*
 * The history's tag for ids of this generation. The tags that are always strict, or never trend,
 * are one axis from their first id on, also over deletions. The ids of the changing one have gaps
 * where it had segments in between, so each generation stands for itself; a key that gives ids of
 * an earlier generation would confuse that, so with keys the tag is only checked for what holds in
 * trend mode as well.
 */
static uint32_t axis_of(struct sim_world *world, unsigned t, uint32_t generation)
{
    struct sim_strict *strict = world->strict;
    struct strict_tag *tag = &strict->tags[t];
    struct strict_axis *axis = tag->axes;
    enum history_mode mode = mode_of(world, t, generation);
    char name[64];
    int len;

    generation = one_axis(world, t) ? 0 : generation;
    for (; axis < tag->axes + tag->axis_count; axis++) {
        if (axis->generation == generation) {
            return axis->history_tag;
        }
    }
    tag->axes = MUST_HAVE(realloc(tag->axes, (tag->axis_count + 1) * sizeof *tag->axes));
    axis = &tag->axes[tag->axis_count++];
    len = snprintf(name, sizeof name, "%s#%u", name_of(world, t), generation);
    axis->generation = generation;
    axis->history_tag = history_tag(strict->history, name, (size_t)len);
    ASSERT(history_declare(strict->history, axis->history_tag, mode,
                           is_changing(t) ? HISTORY_NO_START : TAG_DEFAULT_MAX_ID) == 0);
    return axis->history_tag;
}

static void add(struct sim_world *world, struct history_op *op)
{
    if (history_add(world->strict->history, op) != 0) {
        sim_fail(world, "an operation that cannot be: %u ids from %" PRIu64, op->count, op->first);
    }
}

static struct history_op op_of(const struct strict_request *request)
{
    return (struct history_op){
        .client = 0,
        .sent = request->sent,
        .count = request->count,
        .key = request->key == NO_KEY ? 0 : request->key + 1,
        .received = HISTORY_UNKNOWN,
    };
}

/* Which generation it will have been is not known before the end. */
static void lose(struct strict_request *request)
{
    struct sim_strict *strict = request->node->world->strict;

    strict->lost =
        array_room(strict->lost, strict->lost_count, &strict->lost_capacity, sizeof *strict->lost);
    strict->lost[strict->lost_count++] =
        (struct strict_lost){request->tag, request->generation, op_of(request)};
}

static void add_lost(struct sim_world *world)
{
    const struct sim_strict *strict = world->strict;

    for (size_t i = 0; i < strict->lost_count; i++) {
        const struct strict_lost *lost = &strict->lost[i];
        const struct strict_tag *tag = &strict->tags[lost->tag];
        struct history_op op = lost->op;

        for (size_t k = 0; k < tag->axis_count; k++) {
            if (one_axis(world, lost->tag) || tag->axes[k].generation >= lost->generation) {
                op.tag = tag->axes[k].history_tag;
                add(world, &op);
            }
        }
    }
}

/* --- answers --- */

/* The ids of a key, told once more or for the first time. True if they were known. */
static bool key_answered(struct strict_request *request, const struct strict_result *result)
{
    struct sim_world *world = request->node->world;
    struct strict_key *key = &world->strict->tags[request->tag].keys[request->key];

    if (key->known && (key->first != result->first || key->count != request->count)) {
        sim_fail(world,
                 "key %u of %s stands for %u ids from %" PRIu64 ", node %u says %u from %" PRIu64,
                 request->key, name_of(world, request->tag), key->count, key->first,
                 request->node->id, request->count, result->first);
    }
    if (request->known && !result->replayed) {
        sim_fail(world, "key %u of %s was not known any more at node %u", request->key,
                 name_of(world, request->tag), request->node->id);
    }
    request->floor = key->floor;
    key->first = result->first;
    if (key->known) {
        return true;
    }
    key->known = true;
    return false;
}

static void ids_answered(struct strict_request *request, const struct strict_result *result)
{
    struct sim_node *node = request->node;
    struct sim_world *world = node->world;
    struct strict_tag *tag = &world->strict->tags[request->tag];
    struct segment_range range = {result->first, request->count, 0};
    uint64_t end = result->first + request->count;
    struct history_op op = op_of(request);
    bool again = false;

    if (request->key != NO_KEY) {
        again = key_answered(request, result);
    } else if (result->replayed) {
        sim_fail(world, "ids without a key are said to be those of a key");
    }
    if (result->first < request->floor) {
        sim_fail(world, "node %u answers id %" PRIu64 " of %s after %" PRIu64 " was known",
                 node->id, result->first, name_of(world, request->tag), request->floor - 1);
    }
    if (!again) {
        sim_check_once(world, SIM_TAGS + request->tag, result->generation, &range);
    }
    op.tag = axis_of(world, request->tag, result->generation);
    op.first = result->first;
    op.received = ++world->strict->now;
    add(world, &op);
    tag->known_end = end > tag->known_end ? end : tag->known_end;
    tag->strict_end = end > tag->strict_end ? end : tag->strict_end;
    world->stats.strict_again += again;
    if (request->tag == SIM_MONOTONIC - SIM_TAGS) {
        world->stats.mono_ids += request->count;
    } else {
        world->stats.strict_ids += request->count;
    }
}

/* Did it surely get nothing? Else its ids may have been allocated. */
static bool got_nothing(int status)
{
    switch (status) {
    case ERR_UNKNOWN_TAG:
    case ERR_WRONG_MODE:
    case ERR_CHANGING:
    case ERR_EMPTY:
    case ERR_KEYS_FULL:
    case ERR_SHARE:
    case ERR_KEY_CONFLICT:
    case ERR_EXHAUSTED:
        return true;
    default:
        return false;
    }
}

/* Whatever else is the matter with its tag, a known key is answered by what it stands for. */
static void refusal_check(const struct strict_request *request, const struct strict_result *result,
                          bool conflicts)
{
    int status = request->base.status;
    bool tag_is_away = status == ERR_UNKNOWN_TAG || status == ERR_WRONG_MODE;

    if (status == ERR_CHANGING && (result->detail < 1 || result->detail > SIM_NODES_MAX)) {
        sim_fail(request->node->world, "a tag waits for node %" PRIu64, result->detail);
    }
    if (status == ERR_KEY_CONFLICT ? !conflicts : request->known && !tag_is_away) {
        sim_fail(request->node->world, "key %u of %s is refused: %s", request->key,
                 name_of(request->node->world, request->tag), err_code(status));
    }
}

/* A batch of monotonic requests is repeated as another one, in no session. So what is refused is
 * the last try: an earlier one may have bound its key to ids, before the tag was deleted, say. */
static bool may_be_bound(const struct strict_request *request)
{
    return request->key != NO_KEY && request->tag != SIM_STRICT - SIM_TAGS;
}

static void ids_done(struct strict_request *request)
{
    struct sim_world *world = request->node->world;
    int status = request->base.status;
    struct strict_result result = {0};
    size_t count = 0;
    const struct strict_key *key =
        request->key != NO_KEY ? &world->strict->tags[request->tag].keys[request->key] : NULL;
    bool conflicts = key != NULL && request->known && key->count != request->count;

    if (status != 0 && !got_nothing(status)) {
        world->stats.strict_lost++;
        if (!conflicts) {
            lose(request);
        }
        return;
    }
    if (results_decode(RESULT_STRICT, request->base.reply.data, request->base.reply.len, &result, 1,
                       &count) != 0 ||
        count != 1 || result.status != status) {
        sim_fail(world, "the result of a strict request does not decode");
    }
    if (status == 0) {
        ids_answered(request, &result);
        return;
    }
    world->stats.strict_refused++;
    refusal_check(request, &result, conflicts);
    if (may_be_bound(request) && !conflicts) {
        lose(request);
    }
}

/* No id of a tag whose mode changes, and none under a key while the log has no time. */
static bool could_be_served(const struct strict_request *request)
{
    return !is_changing(request->tag) && (request->key == NO_KEY || request->timed);
}

static void request_done(struct cluster_request *base)
{
    struct strict_request *request = base->data;
    struct sim_node *node = request->node;
    struct sim_world *world = node->world;

    ASSERT(world->requests_open > 0);
    world->requests_open--;
    sim_note(world, (uint64_t)(unsigned)-base->status << 8 | 0x80 | request->tag);
    if (request->count > 0) {
        ids_done(request);
    }
    if (request->count > 0 && request->incarnation == node->incarnation &&
        could_be_served(request)) {
        sim_calm_timed_out(node, base->status, "a strict request");
    }
    if (request->final && request->count > 0 && base->status == 0) {
        world->strict->final[node->id - 1][request->tag] = true;
    } else if (request->final && node->up) {
        final_step(node, request->tag, request->count > 0 || base->status != 0);
    }
    buf_free(&base->payload);
    buf_free(&base->reply);
    free(request);
}

/* --- requests --- */

static struct strict_request *request_new(struct sim_node *node, unsigned kind, unsigned tag)
{
    struct strict_request *request = MUST_HAVE(calloc(1, sizeof *request));

    request->node = node;
    request->incarnation = node->incarnation;
    request->tag = tag;
    request->key = NO_KEY;
    request->base.kind = kind;
    request->base.deadline_ms = clock_now_ms(&node->clock) + PATIENCE_MS;
    request->base.done = request_done;
    request->base.data = request;
    node->world->requests_open++;
    return request;
}

/* A new key, or one that was used lately: then mostly with the same count. */
static void choose_key(struct strict_request *request)
{
    struct sim_world *world = request->node->world;
    struct strict_tag *tag = &world->strict->tags[request->tag];
    uint64_t recent = tag->key_count < KEYS_RECENT ? tag->key_count : KEYS_RECENT;
    struct strict_key *key;

    if (recent > 0 && sim_percent(world, 60)) {
        request->key = tag->key_count - 1 - (uint32_t)sim_below(world, recent);
        key = &tag->keys[request->key];
        request->known = key->known;
        if (!key->known || sim_percent(world, 90)) {
            request->count = key->count;
        }
        return;
    }
    ASSERT(tag->key_count < KEYS_MAX);
    request->key = tag->key_count++;
    tag->keys[request->key] = (struct strict_key){.count = request->count, .floor = tag->known_end};
}

static void ask(struct sim_node *node, unsigned tag, bool final)
{
    struct sim_world *world = node->world;
    struct sim_strict *strict = world->strict;
    struct strict_request *request = request_new(node, ID_REQUEST_STRICT, tag);
    struct strict_item item = {.name = name_of(world, tag)};
    const struct tag_row *row;
    char key[32];

    request->final = final;
    request->count = 1 + (uint32_t)sim_below(world, sim_percent(world, 10) ? 200 : 3);
    if (tag == SIM_MONOTONIC - SIM_TAGS && request->count > MONO_COUNT_MAX) {
        request->count = 1; /* a window is as large as what is asked for, and is to end soon */
    }
    request->generation = world->tags[SIM_TAGS + tag].generation;
    request->floor = strict->tags[tag].known_end;
    request->timed = node->replica.state->facts.log_ms > 0;
    if (!final && (!is_changing(tag) || strict->changing_has_keys) && sim_percent(world, 35)) {
        choose_key(request);
        item.key_len = (uint16_t)snprintf(key, sizeof key, "key-%u", request->key);
        item.key = key;
        item.client = 1 + request->key % SIM_KEY_CLIENTS;
    }
    request->sent = ++strict->now;
    item.name_len = (uint16_t)strlen(item.name);
    row = fsm_tag(node->ids.context.fsm, item.name, item.name_len);
    request->base.mode = row != NULL ? row->mode : TAG_MODE_STRICT; /* as a worker of HTTP does */
    item.count = request->count;
    strict_item_encode(&item, &request->base.payload);
    id_service_submit(&node->ids, &request->base);
}

bool sim_strict_event(struct sim_node *node, unsigned tag)
{
    struct sim_world *world = node->world;
    const char *name = name_of(world, tag - SIM_TAGS);
    const struct tag_row *row = fsm_tag(node->ids.context.fsm, name, strlen(name));
    uint64_t most = tag == SIM_MONOTONIC ? 2 : 3; /* for whose clients there are more events */
    uint64_t count = 1 + sim_below(world, sim_percent(world, 5) ? 13 * most : most);

    if (is_changing(tag - SIM_TAGS) &&
        (row == NULL || row->deleted || row->mode == TAG_MODE_TREND) && sim_percent(world, 80)) {
        return false;
    }
    for (uint64_t i = 0; i < count; i++) {
        ask(node, tag - SIM_TAGS, false);
    }
    return true;
}

void sim_strict_row(struct sim_world *world, const struct tag_row *row)
{
    for (unsigned t = 0; t < TAGS; t++) {
        const char *name = name_of(world, t);

        if (tag_name_compare(name, strlen(name), row->name, row->name_len) == 0) {
            ASSERT(row->generation < GENERATIONS_MAX);
            world->strict->tags[t].modes[row->generation] = row->mode;
        }
    }
}

void sim_strict_raised(struct sim_world *world, unsigned tag, uint64_t max_id)
{
    struct strict_tag *known = &world->strict->tags[tag - SIM_TAGS];

    known->known_end = max_id > known->known_end ? max_id : known->known_end;
}

void sim_strict_trend(struct sim_node *node, unsigned tag, const struct segment_range *range)
{
    struct sim_world *world = node->world;
    struct sim_strict *strict = world->strict;
    struct strict_tag *known = &strict->tags[tag - SIM_TAGS];
    uint64_t end = range->first + range->count;
    struct history_op op = {.first = range->first, .count = range->count};

    /* A tag that becomes strict waits no more for a node that was removed, which may not have heard
     * of it: a known limit (docs/membership.md). */
    if (range->first < known->strict_end && !(world->removed & BIT(node->id))) {
        sim_fail(world,
                 "node %u takes id %" PRIu64 " of %s from a segment after %" PRIu64 " was known",
                 node->id, range->first, name_of(world, tag - SIM_TAGS), known->strict_end - 1);
    }
    known->known_end = end > known->known_end ? end : known->known_end;
    if (strict->changing_has_keys) {
        op.sent = ++strict->now;
        op.received = ++strict->now;
        op.tag = axis_of(world, tag - SIM_TAGS, 0);
        add(world, &op);
    }
}

/* --- a run --- */

void sim_strict_init(struct sim_world *world)
{
    world->strict = MUST_HAVE(calloc(1, sizeof *world->strict));
    world->strict->history = history_new();
    (void)history_client(world->strict->history, "sim", 3);
    world->strict->changing_has_keys = world->seed % 3 == 0;
}

void sim_strict_free(struct sim_world *world)
{
    for (unsigned i = 0; i < TAGS; i++) {
        free(world->strict->tags[i].axes);
    }
    history_free(world->strict->history);
    free(world->strict->lost);
    free(world->strict);
}

/* At the end all these tags give ids at every node: made to first, then asked. */
static void final_step(struct sim_node *node, unsigned tag, bool put)
{
    struct strict_request *request;
    struct tag_put item = {
        .name = name_of(node->world, tag), .fields = TAG_FIELD_MODE, .mode = TAG_MODE_STRICT};

    if (tag == SIM_MONOTONIC - SIM_TAGS && state_level(node->replica.state) >= SIM_MONO_LEVEL) {
        item.mode = TAG_MODE_MONOTONIC;
    }
    if (!put) {
        ask(node, tag, true);
        return;
    }
    request = request_new(node, CLUSTER_REQUEST_COMMAND, tag);
    request->final = true;
    item.name_len = (uint16_t)strlen(item.name);
    command_put(&request->base.payload, COMMAND_TAGS_PUT,
                &(struct command_list){.force = false, .wall_ms = clock_wall_ms(&node->clock)});
    command_item_put(&request->base.payload, COMMAND_TAGS_PUT, &item);
    command_items_end(&request->base.payload);
    id_service_submit(&node->ids, &request->base);
}

void sim_strict_begin_final(struct sim_node *node)
{
    for (unsigned i = 0; i < tags_of(node->world); i++) {
        final_step(node, i, true);
    }
}

bool sim_strict_final_done(const struct sim_world *world)
{
    SIM_LIVING_FOREACH (node, world) {
        for (unsigned t = 0; t < tags_of(world); t++) {
            if (!world->strict->final[node->id - 1][t]) {
                return false;
            }
        }
    }
    return true;
}

void sim_strict_check_end(struct sim_world *world)
{
    struct history_report report;

    add_lost(world);
    if (!history_check(world->strict->history, 5, &report)) {
        sim_fail(world, "the history of strict ids is wrong:\n%.*s", (int)report.text.len,
                 (const char *)report.text.data);
    }
    world->stats.strict_undecided += report.undecided;
    buf_free(&report.text);
}
