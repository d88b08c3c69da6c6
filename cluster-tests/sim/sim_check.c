/*
 * sim_check.c - see sim_check.h. Thread: one.
 */
#include "cluster-tests/sim/sim_check.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/assert.h"
#include "src/id/codec/command.h"

void sim_check_init(struct sim_world *world)
{
    world->flakes = MUST_HAVE(calloc(SIM_FLAKES_MAX, sizeof *world->flakes));
    for (unsigned i = 0; i < SIM_TAGS_ALL; i++) {
        struct sim_tag *tag = &world->tags[i];

        snprintf(tag->name, sizeof tag->name, "tag-%u", i);
        tag->epochs = MUST_HAVE(calloc(1, sizeof *tag->epochs));
        tag->epoch_count = 1;
    }
}

void sim_check_free(struct sim_world *world)
{
    for (unsigned i = 0; i < SIM_TAGS_ALL; i++) {
        for (size_t k = 0; k < world->tags[i].epoch_count; k++) {
            free(world->tags[i].epochs[k].used);
        }
        free(world->tags[i].epochs);
        free(world->tags[i].offers);
    }
    free(world->flakes);
    free(world->digests);
    free(world->leaders);
}

/* --- tags --- */

struct sim_epoch *sim_check_epoch(struct sim_tag *tag)
{
    return &tag->epochs[tag->epoch_count - 1];
}

/* The epoch that ids of this generation belong to, as a position. */
static size_t epoch_of(const struct sim_tag *tag, uint32_t generation)
{
    size_t at = tag->epoch_count - 1;

    while (tag->epochs[at].from_generation > generation) {
        at--;
    }
    return at;
}

/* max_id was forced down with this generation: from here on ids come again that came before. The
 * nodes tell it in the order of the log, each for itself; the first that does counts. */
static void begin_epoch(struct sim_world *world, struct sim_tag *tag, uint32_t generation)
{
    if (sim_check_epoch(tag)->from_generation >= generation) {
        return;
    }
    world->stats.forced++;
    tag->epochs = MUST_HAVE(realloc(tag->epochs, (tag->epoch_count + 1) * sizeof *tag->epochs));
    tag->epochs[tag->epoch_count++] = (struct sim_epoch){.from_generation = generation};
}

void sim_check_incarnation(struct sim_node *node)
{
    for (unsigned i = 0; i < SIM_TAGS_ALL && !node->world->counts; i++) {
        const char *name = node->world->tags[i].name;
        const struct tag_row *row = fsm_tag(node->ids.context.fsm, name, strlen(name));

        node->generation[i] = row != NULL ? row->generation : 0;
        node->max_id[i] = row != NULL ? row->max_id : 0;
    }
    node->seen_conf = 0;
    node->seen_change = 0;
    node->seen_commit = 0;
    node->seen_applied = 0;
    node->bulks_digest = 0;
}

/* SIM_TAGS_ALL: none that is checked. */
static unsigned find_tag(const struct sim_world *world, const char *name, size_t len)
{
    unsigned t = 0;

    while (t < SIM_TAGS_ALL &&
           tag_name_compare(world->tags[t].name, strlen(world->tags[t].name), name, len) != 0) {
        t++;
    }
    return t;
}

void sim_check_offered(struct sim_world *world, const void *command, size_t len)
{
    struct command given;
    struct give_back_item item;

    if (command_read(command, len, &given) != 0 || given.type != COMMAND_GIVE_BACK) {
        return;
    }
    while (command_next(&given.list, &item)) {
        unsigned t = find_tag(world, item.name, item.name_len);
        struct sim_tag *tag = &world->tags[t];

        if (t == SIM_TAGS_ALL) {
            continue;
        }
        tag->offers = MUST_HAVE(realloc(tag->offers, (tag->offer_count + 1) * sizeof *tag->offers));
        tag->offers[tag->offer_count++] = (struct sim_offer){item.first, item.end, false};
    }
}

/* An offer of the range, not taken yet; NULL: none. */
static struct sim_offer *find_offer(struct sim_tag *tag, uint64_t first, uint64_t end)
{
    for (size_t i = 0; i < tag->offer_count; i++) {
        struct sim_offer *offer = &tag->offers[i];

        if (!offer->taken && offer->first == first && offer->end == end) {
            return offer;
        }
    }
    return NULL;
}

/* Ids were given back: nobody can have them. The first node that tells it has just applied it; the
 * others may come later, when the ids have been granted anew, or by a snapshot. */
static void check_returned(struct sim_node *node, unsigned t, const struct tag_row *row)
{
    struct sim_world *world = node->world;
    struct sim_tag *tag = &world->tags[t];
    uint64_t index = driver_applied(&node->replica.driver)->index;
    struct sim_offer *offer = find_offer(tag, row->max_id, node->max_id[t]);

    if (index <= tag->changed_at) {
        return;
    }
    if (row->mode == TAG_MODE_STRICT ||
        (offer == NULL && node->replica.driver.applier.compacted != index)) {
        sim_fail(world,
                 "ids %" PRIu64 " to %" PRIu64
                 " of %s came back on node %u, and nobody gave them back",
                 row->max_id, node->max_id[t] - 1, row->name, node->id);
    }
    if (offer != NULL) {
        offer->taken = true;
    }
    world->stats.given_back += node->max_id[t] - row->max_id;
    if (row->max_id < sim_check_epoch(tag)->highest_end) {
        sim_fail(world, "max_id of %s fell to %" PRIu64 ", and id %" PRIu64 " was handed out",
                 row->name, row->max_id, sim_check_epoch(tag)->highest_end - 1);
    }
}

/* Ids came back and then the generation changed, both in a snapshot that this node was sent. */
static bool fell_unseen(const struct sim_node *node, unsigned t, const struct tag_row *row)
{
    const struct sim_tag *tag = &node->world->tags[t];
    uint64_t index = driver_applied(&node->replica.driver)->index;

    return node->replica.driver.applier.compacted == index &&
           (index <= tag->changed_at ||
            row->max_id >= tag->epochs[tag->epoch_count - 1].highest_end);
}

static void follow_row(struct sim_node *node, unsigned t, const struct tag_row *row)
{
    struct sim_tag *tag = &node->world->tags[t];

    node->generation[t] = row->generation;
    node->max_id[t] = row->max_id;
    tag->generation = row->generation > tag->generation ? row->generation : tag->generation;
    if (driver_applied(&node->replica.driver)->index > tag->changed_at) {
        tag->changed_at = driver_applied(&node->replica.driver)->index;
    }
}

void sim_check_row(struct sim_node *node, const struct tag_row *row)
{
    struct sim_world *world = node->world;
    unsigned t = find_tag(world, row->name, row->name_len);

    if (t == SIM_TAGS_ALL) {
        return;
    }
    if (row->generation < node->generation[t]) {
        sim_fail(world, "generation of %s fell on node %u", row->name, node->id);
    }
    if (row->max_id < node->max_id[t] && row->generation == node->generation[t]) {
        check_returned(node, t, row);
    } else if (row->max_id < node->max_id[t] && t == SIM_FORCED) {
        begin_epoch(world, &world->tags[t], row->generation);
    } else if (row->max_id < node->max_id[t] && !fell_unseen(node, t, row)) {
        sim_fail(world, "max_id of %s fell on node %u", row->name, node->id);
    }
    follow_row(node, t, row);
}

/* Room for this index; what is new is 0. */
static void make_table(uint64_t **table, uint64_t *capacity, uint64_t index)
{
    uint64_t want = *capacity ? *capacity : 1024;

    while (want <= index) {
        want *= 2;
    }
    if (want == *capacity) {
        return;
    }
    *table = MUST_HAVE(realloc(*table, want * sizeof **table));
    memset(*table + *capacity, 0, (want - *capacity) * sizeof **table);
    *capacity = want;
}

/* I2: the rising part. */
static void check_rising(struct sim_node *node, unsigned t, size_t at,
                         const struct segment_range *range)
{
    struct sim_world *world = node->world;

    if (at < node->next_epoch[t]) {
        sim_fail(world, "node %u handed out ids of %s from before max_id was forced down", node->id,
                 world->tags[t].name);
    }
    if (at > node->next_epoch[t]) {
        node->next_epoch[t] = at;
        node->next_id[t] = 0;
    }
    if (range->first < node->next_id[t]) {
        sim_fail(world, "node %u went back to id %" PRIu64 " of %s, below %" PRIu64, node->id,
                 range->first, world->tags[t].name, node->next_id[t]);
    }
    node->next_id[t] = range->first + range->count;
}

/* I1 */
void sim_check_once(struct sim_world *world, unsigned t, uint32_t generation,
                    const struct segment_range *range)
{
    struct sim_tag *tag = &world->tags[t];
    struct sim_epoch *epoch = &tag->epochs[epoch_of(tag, generation)];
    uint64_t end = range->first + range->count;

    if (end > (1u << 26)) {
        sim_fail(world, "ids of %s ran away to %" PRIu64, tag->name, end);
    }
    make_table(&epoch->used, &epoch->used_words, end / 64);
    for (uint64_t id = range->first; id < end; id++) {
        if (epoch->used[id / 64] & UINT64_C(1) << id % 64) {
            sim_fail(world, "id %" PRIu64 " of %s handed out twice", id, tag->name);
        }
        epoch->used[id / 64] |= UINT64_C(1) << id % 64;
    }
    epoch->highest_end = end > epoch->highest_end ? end : epoch->highest_end;
    sim_note(world, range->first << 16 | range->count);
}

/* Of the tag whose max_id is forced down nothing is known by that. */
void sim_check_raised(struct sim_node *node, unsigned t, uint64_t max_id)
{
    if (t != SIM_FORCED && max_id > node->floor[t]) {
        node->floor[t] = max_id;
    }
}

/* A raise of max_id that a node has told of holds on that node. */
static void check_floor(struct sim_node *node, unsigned t, const struct segment_range *range)
{
    if (range->first < node->floor[t]) {
        sim_fail(node->world, "node %u handed out id %" PRIu64 " of %s after max_id %" PRIu64,
                 node->id, range->first, node->world->tags[t].name, node->floor[t]);
    }
}

/* I1, and the rising part of I2. */
void sim_check_ids(struct sim_node *node, unsigned t, uint32_t generation,
                   const struct segment_range *range)
{
    sim_check_once(node->world, t, generation, range);
    check_rising(node, t, epoch_of(&node->world->tags[t], generation), range);
    check_floor(node, t, range);
    node->world->stats.ids += range->count;
}

void sim_check_flakes(struct sim_node *node, unsigned layout, const struct segment_range *range)
{
    struct sim_world *world = node->world;

    ASSERT(world->flake_count < SIM_FLAKES_MAX);
    world->flakes[world->flake_count++] = (struct sim_flakes){layout, *range};
    world->stats.flakes += range->count;
}

static int by_first(const void *a, const void *b)
{
    const struct sim_flakes *x = a;
    const struct sim_flakes *y = b;

    if (x->layout != y->layout) {
        return x->layout < y->layout ? -1 : 1;
    }
    return x->range.first < y->range.first ? -1 : x->range.first > y->range.first;
}

/* I1 and I5 of snowflake ids: over all nodes, incarnations and clocks no id of a
 * layout twice. */
static void check_all_flakes(struct sim_world *world)
{
    qsort(world->flakes, world->flake_count, sizeof *world->flakes, by_first);
    for (size_t i = 1; i < world->flake_count; i++) {
        const struct sim_flakes *before = &world->flakes[i - 1];
        const struct sim_flakes *flakes = &world->flakes[i];

        if (before->layout == flakes->layout &&
            before->range.first + before->range.count > flakes->range.first) {
            sim_fail(world, "snowflake id %" PRIu64 " of layout %u handed out twice",
                     flakes->range.first, flakes->layout);
        }
    }
}

/* Within an incarnation neither index goes back, and nothing is applied that is not committed. */
static void check_indexes(struct sim_node *node)
{
    const struct driver *driver = &node->replica.driver;

    if (driver_applied(driver)->index > driver->commit) {
        sim_fail(node->world, "node %u applied above its commit index", node->id);
    }
    if (driver->commit < node->seen_commit || driver_applied(driver)->index < node->seen_applied) {
        sim_fail(node->world, "node %u: commit or applied index went back", node->id);
    }
    node->seen_commit = driver->commit;
    node->seen_applied = driver_applied(driver)->index;
}

/* The first time that the log gets is not that of one clock which is ahead: by the lower one of
 * two, or the median of more, another one is at least there. Nothing takes it back. */
static void check_first_time(struct sim_node *node)
{
    struct sim_world *world = node->world;
    uint64_t log_ms = node->replica.state->facts.log_ms;
    bool alone = world->first_count == 1;
    unsigned there = 0;

    if (world->has_time || log_ms == 0) {
        return;
    }
    world->has_time = true;
    SIM_NODE_FOREACH (one, world) { /* who joined has a clock, too */
        int64_t highest_ms =
            (int64_t)(world->now_ms + SIM_WALL_MS + CLOCK_SAMPLE_RTT_MAX_MS) + one->wall_highest_ms;

        there += (int64_t)log_ms <= highest_ms;
        alone = alone || (one->up && driver_configuration(&one->replica.driver)->count == 1);
    }
    if (there < 2 && !alone) { /* who is a cluster alone has no other clock */
        sim_fail(world,
                 "the first time of the log, %" PRIu64 ", is that of one clock, which is ahead",
                 log_ms);
    }
}

/* One cluster has one birth; and a node that has nothing but the first list stands for election
 * only once all that are in it have said so. */
static void check_birth(const struct sim_node *node)
{
    struct sim_world *world = node->world;
    const struct driver *driver = &node->replica.driver;
    unsigned first = (1u << world->first_count) - 1;
    const struct birth *birth = state_birth(node->replica.state);

    if (birth != NULL) {
        if (!uid_is_none(&world->uid) && !uid_equal(&world->uid, &birth->uid)) {
            sim_fail(world, "node %u is of another cluster than the others", node->id);
        }
        if (uid_is_none(&world->uid)) {
            world->stats.births_at += state_level(node->replica.state) > LEVEL_FIRST;
        }
        world->uid = birth->uid;
    }
    if (driver_state(driver) == DRIVER_CANDIDATE && driver_last_index(driver) <= 1 &&
        ((node->met | BIT(node->id)) & first) != first) {
        sim_fail(world, "node %u stands for election before it has met all", node->id);
    }
}

/* --- a bulk is all or none --- */

size_t sim_bulk_name(unsigned tag, char name[SIM_BULK_NAME_BYTES])
{
    return (size_t)snprintf(name, SIM_BULK_NAME_BYTES, "bulk-%03u", tag);
}

/* The step of a tag of the bulks, 0 if it is not there. */
static uint32_t bulk_step(const struct sim_node *node, unsigned tag)
{
    char name[SIM_BULK_NAME_BYTES];
    const struct tag_row *row = fsm_tag(node->ids.context.fsm, name, sim_bulk_name(tag, name));

    return row != NULL ? row->step : 0;
}

/* Every stride-th tag of the bulks has the same step. */
static void check_bulk(const struct sim_node *node, unsigned stride)
{
    uint32_t first = bulk_step(node, 0);

    for (unsigned i = 0; i < SIM_BULK_TAGS; i += stride) {
        if (bulk_step(node, i) != first) {
            sim_fail(node->world, "node %u has half of a bulk: step %u of tag 0, %u of tag %u",
                     node->id, first, bulk_step(node, i), i);
        }
    }
}

/* I8: equal digest at equal index, term included; one leader a term. */
void sim_check_node(struct sim_node *node)
{
    struct sim_world *world = node->world;
    struct driver *driver = &node->replica.driver;
    uint64_t index = driver_applied(driver)->index;
    uint64_t digest = state_digest(node->replica.state) + (driver_applied(driver)->term << 32);
    uint64_t term = driver_term(driver);

    digest |= 1; /* 0 marks "not seen" */
    check_indexes(node);
    check_first_time(node);
    check_birth(node);
    sim_note(world, digest);
    if (!driver->applier.installing && !node->planted) {
        if (!world->counts && node->bulks_digest != digest) { /* most turns change no row */
            check_bulk(node, SIM_BULK_TAGS - 1);
            node->bulks_digest = digest;
        }
        make_table(&world->digests, &world->digest_capacity, index);
        if (world->digests[index] != 0 && world->digests[index] != digest) {
            sim_fail(world, "node %u has another state at index %" PRIu64, node->id, index);
        }
        world->digests[index] = digest;
    }
    if (driver_is_leader(driver)) {
        make_table(&world->leaders, &world->leader_capacity, term);
        if (world->leaders[term] != 0 && world->leaders[term] != node->id) {
            sim_fail(world, "two leaders in term %" PRIu64, term);
        }
        if (world->leaders[term] == 0 && (world->removed & BIT(node->id))) {
            sim_fail(world, "node %u was removed, and now leads a new term", node->id);
        }
        world->leaders[term] = node->id;
    }
}

static void check_tags(struct sim_node *node)
{
    struct sim_world *world = node->world;

    for (unsigned i = 0; i < SIM_TAGS_ALL; i++) {
        struct sim_tag *tag = &world->tags[i];
        const struct tag_row *row = fsm_tag(node->ids.context.fsm, tag->name, strlen(tag->name));
        uint64_t floor = sim_check_epoch(tag)->highest_end;

        if (i != SIM_FORCED && tag->acked_max_id > floor) {
            floor = tag->acked_max_id;
        }
        if (floor > 0 && (row == NULL || row->max_id < floor)) {
            sim_fail(world, "node %u has max_id %" PRIu64 " of %s below %" PRIu64, node->id,
                     row != NULL ? row->max_id : 0, tag->name, floor);
        }
    }
}

/* I7: whatever was acknowledged is there, on every node. */
void sim_check_end(struct sim_world *world)
{
    SIM_LIVING_FOREACH (node, world) {
        sim_check_node(node);
        check_tags(node);
        check_bulk(node, 1);
        for (uint64_t k = 0; k < world->kept_next; k++) {
            char name[32];
            int len = snprintf(name, sizeof name, "kept-%" PRIu64, k);

            const struct tag_row *row = fsm_tag(node->ids.context.fsm, name, (size_t)len);

            if ((world->kept[k] && row == NULL) ||
                (world->kept_again[k] && row->step != SIM_KEPT_STEP)) {
                sim_fail(world, "node %u lost an acknowledged change of tag %s", node->id, name);
            }
        }
    }
    check_all_flakes(world);
    /* Of one kind there may be none, where the cluster came to be as the faults ended. */
    if (world->stats.ids + world->stats.strict_ids + world->stats.mono_ids == 0) {
        sim_fail(world, "not one id was handed out");
    }
}
