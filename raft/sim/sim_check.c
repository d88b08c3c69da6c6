/*
 * sim_check.c - the invariants, checked after every turn and at the end.
 *
 * Thread: one.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "raft/sim/sim.h"
#include "src/base/assert.h"

void sim_check_init(struct sim_world *world)
{
    for (unsigned i = 0; i < SIM_TAGS; i++) {
        snprintf(world->tags[i].name, sizeof world->tags[i].name, "tag-%u", i);
    }
}

void sim_check_free(struct sim_world *world)
{
    for (unsigned i = 0; i < SIM_TAGS; i++) {
        free(world->tags[i].used);
    }
    free(world->flakes);
    free(world->digests);
    free(world->leaders);
}

static void make_room(struct sim_tag *tag, uint64_t bits)
{
    uint64_t want = tag->used_bits ? tag->used_bits : 4096;

    while (want < bits) {
        want *= 2;
    }
    if (want == tag->used_bits) {
        return;
    }
    tag->used = realloc(tag->used, want / 8);
    ASSERT(tag->used != NULL);
    memset(tag->used + tag->used_bits / 8, 0, (want - tag->used_bits) / 8);
    tag->used_bits = want;
}

/* I1, and the rising part of I2. */
void sim_check_ids(struct sim_node *node, unsigned t, const struct segment_range *range)
{
    struct sim_world *world = node->world;
    struct sim_tag *tag = &world->tags[t];
    uint64_t end = range->first + range->count;

    if (end > (1u << 26)) {
        sim_fail(world, "ids of %s ran away to %llu", tag->name, (unsigned long long)end);
    }
    make_room(tag, end);
    for (uint64_t id = range->first; id < end; id++) {
        if (tag->used[id / 8] & (1u << (id % 8))) {
            sim_fail(world, "id %llu of %s handed out twice, now by node %llu",
                     (unsigned long long)id, tag->name, (unsigned long long)node->id);
        }
        tag->used[id / 8] |= (uint8_t)(1u << (id % 8));
    }
    if (range->first < node->next_id[t]) {
        sim_fail(world, "node %llu went back to id %llu of %s, below %llu",
                 (unsigned long long)node->id, (unsigned long long)range->first, tag->name,
                 (unsigned long long)node->next_id[t]);
    }
    node->next_id[t] = end;
    tag->highest_end = end > tag->highest_end ? end : tag->highest_end;
    world->stats.ids += range->count;
}

void sim_check_flakes(struct sim_node *node, const struct segment_range *range)
{
    struct sim_world *world = node->world;

    if (world->flakes == NULL) {
        world->flakes = calloc(SIM_FLAKES_MAX, sizeof *world->flakes);
        ASSERT(world->flakes != NULL);
    }
    ASSERT(world->flake_count < SIM_FLAKES_MAX);
    world->flakes[world->flake_count++] = *range;
    world->stats.flakes += range->count;
}

static int by_first(const void *a, const void *b)
{
    const struct segment_range *x = a;
    const struct segment_range *y = b;

    return x->first < y->first ? -1 : x->first > y->first;
}

/* I1 and I5 of snowflake ids: over all nodes, lives and clocks no id twice. */
static void check_all_flakes(struct sim_world *world)
{
    if (world->flake_count > 0) {
        qsort(world->flakes, world->flake_count, sizeof *world->flakes, by_first);
    }
    for (size_t i = 1; i < world->flake_count; i++) {
        const struct segment_range *before = &world->flakes[i - 1];

        if (before->first + before->count > world->flakes[i].first) {
            sim_fail(world, "snowflake id %llu handed out twice",
                     (unsigned long long)world->flakes[i].first);
        }
    }
}

static void make_table(uint64_t **table, uint64_t *capacity, uint64_t index)
{
    uint64_t want = *capacity ? *capacity : 1024;

    while (want <= index) {
        want *= 2;
    }
    if (want == *capacity) {
        return;
    }
    *table = realloc(*table, want * sizeof **table);
    ASSERT(*table != NULL);
    memset(*table + *capacity, 0, (want - *capacity) * sizeof **table);
    *capacity = want;
}

/* I8: equal digest at equal index; one leader a term. */
void sim_check_node(struct sim_node *node)
{
    struct sim_world *world = node->world;
    struct driver *driver = &node->replica.driver;
    uint64_t index = driver->applied.index;
    uint64_t digest = fsm_digest(node->replica.fsm) | 1; /* 0 marks "not seen" */
    uint64_t term = raft_current_term(&driver->raft);

    if (driver->applied.index > driver->commit) {
        sim_fail(world, "node %llu applied above its commit index", (unsigned long long)node->id);
    }
    if (!driver->installing) {
        make_table(&world->digests, &world->digest_capacity, index);
        if (world->digests[index] != 0 && world->digests[index] != digest) {
            sim_fail(world, "node %llu has another state at index %llu",
                     (unsigned long long)node->id, (unsigned long long)index);
        }
        world->digests[index] = digest;
    }
    if (raft_state(&driver->raft) == RAFT_LEADER) {
        make_table(&world->leaders, &world->leader_capacity, term);
        if (world->leaders[term] != 0 && world->leaders[term] != node->id) {
            sim_fail(world, "two leaders in term %llu", (unsigned long long)term);
        }
        world->leaders[term] = node->id;
    }
}

static void check_tags(struct sim_node *node)
{
    struct sim_world *world = node->world;

    for (unsigned i = 0; i < SIM_TAGS; i++) {
        const struct sim_tag *tag = &world->tags[i];
        const struct tag_row *row = fsm_tag(node->replica.fsm, tag->name, strlen(tag->name));
        uint64_t floor =
            tag->highest_end > tag->acked_max_id ? tag->highest_end : tag->acked_max_id;

        if (floor > 0 && (row == NULL || row->max_id < floor)) {
            sim_fail(world, "node %llu has max_id %llu of %s below %llu",
                     (unsigned long long)node->id,
                     row != NULL ? (unsigned long long)row->max_id : 0, tag->name,
                     (unsigned long long)floor);
        }
    }
}

/* I7: whatever was acknowledged is there, on every node. */
void sim_check_end(struct sim_world *world)
{
    for (unsigned i = 0; i < world->node_count; i++) {
        struct sim_node *node = &world->nodes[i];

        sim_check_node(node);
        check_tags(node);
        for (uint64_t k = 0; k < world->kept_next; k++) {
            char name[32];
            int len = snprintf(name, sizeof name, "kept-%llu", (unsigned long long)k);

            if (world->kept[k] && fsm_tag(node->replica.fsm, name, (size_t)len) == NULL) {
                sim_fail(world, "node %llu lost the acknowledged tag %s",
                         (unsigned long long)node->id, name);
            }
        }
    }
    check_all_flakes(world);
    if (world->stats.ids == 0) {
        sim_fail(world, "not one id was handed out");
    }
}
