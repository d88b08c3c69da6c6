/*
 * test_model.c - LMDB against memory: the same random operations in the same lists must give
 * the same content, over reopening, refused lists and snapshots. Seeds are fixed and named on
 * failure.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/tests/unit/test.h"
#include "storage/lmdb/store.h"
#include "storage/tests/store_mem.h"
#include "storage/tests/store_gen.h"
#include "storage/lmdb/tests/tmp_dir.h"

#define SEEDS 20
#define LISTS 80
#define LIST_OPS_MAX 7

struct world {
    uint64_t seed;
    struct tmp_dir dir;
    struct store_lmdb_config config;
    struct store *lmdb;
    struct store *mem;
    struct prng prng;
    struct gen gen;
};

static void open_lmdb(struct world *world, bool must_be_new)
{
    struct store_error error = {""};
    bool made = false;

    if (store_lmdb_open(&world->config, &world->lmdb, &made, &error) != 0) {
        fail_msg("seed %llu: open: %s", (unsigned long long)world->seed, error.text);
    }
    assert_int_equal(made, must_be_new);
}

static void world_make(struct world *world, uint64_t seed)
{
    world->seed = seed;
    tmp_dir_make(&world->dir);
    world->config = (struct store_lmdb_config){
        .dir = world->dir.path,
        .map_bytes = 64 << 20,
        .slice_rows = GEN_SLICE_ROWS,
        .identity = {.cluster_id = "model", .node_id = 1, .store_id = 5}};
    open_lmdb(world, true);
    world->mem = store_mem_new(&world->config.identity);
    prng_seed(&world->prng, seed * 31 + 1);
    gen_init(&world->gen, seed);
    world->gen.max_entry_bytes = seed % 3 == 0 ? 9000 : 300;
}

static void world_release(struct world *world)
{
    world->lmdb->ops->close(world->lmdb);
    store_mem_free(world->mem);
    gen_release(&world->gen);
    tmp_dir_remove(&world->dir);
}

static void check_same(struct world *world, unsigned step)
{
    struct store_error error = {""};
    struct buf left = BUF_INIT;
    struct buf right = BUF_INIT;

    if (gen_dump(world->lmdb, &left, &error) != 0 || gen_dump(world->mem, &right, &error) != 0) {
        fail_msg("seed %llu step %u: load: %s", (unsigned long long)world->seed, step, error.text);
    }
    if (left.len != right.len || memcmp(left.data, right.data, left.len) != 0) {
        fail_msg("seed %llu step %u: stores differ", (unsigned long long)world->seed, step);
    }
    buf_free(&left);
    buf_free(&right);
}

static void check_snapshots(struct world *world)
{
    size_t max_bytes = 1 + (size_t)prng_below(&world->prng, 3000);
    struct store_position left_position;
    struct store_position right_position;
    struct buf left = BUF_INIT;
    struct buf right = BUF_INIT;

    assert_int_equal(gen_snapshot(world->lmdb, max_bytes, &left, &left_position), 0);
    assert_int_equal(gen_snapshot(world->mem, max_bytes, &right, &right_position), 0);
    assert_int_equal(left.len, right.len);
    assert_memory_equal(left.data, right.data, left.len);
    assert_int_equal(left_position.index, right_position.index);
    assert_int_equal(left_position.digest, right_position.digest);
    assert_int_equal(left_position.conf_len, right_position.conf_len);
    store_position_release(&left_position);
    store_position_release(&right_position);
    buf_free(&left);
    buf_free(&right);
}

/* Commit a list to both; when it must fail, both refuse it. */
static void commit_both(struct world *world, struct store_op_list *list, int want, unsigned step)
{
    struct store *stores[] = {world->lmdb, world->mem};

    for (unsigned i = 0; i < 2; i++) {
        struct store_error error = {""};

        if (stores[i]->ops->commit(stores[i], list, &error) != want) {
            fail_msg("seed %llu step %u store %u: %s", (unsigned long long)world->seed, step, i,
                     error.text);
        }
    }
}

static void run_list(struct world *world, unsigned step)
{
    struct store_op_list list = STAILQ_HEAD_INITIALIZER(list);
    const struct state_row absent = {(const uint8_t *)"absent", 6, NULL, 0};
    struct store_op bad = {.kind = STORE_COMPACT, .index = UINT64_MAX};
    struct store_op *ops[LIST_OPS_MAX];
    unsigned count = (unsigned)prng_below(&world->prng, LIST_OPS_MAX + 1);

    for (unsigned i = 0; i < count; i++) {
        ops[i] = gen_any(&world->gen);
        STAILQ_INSERT_TAIL(&list, ops[i], link);
    }
    if (prng_below(&world->prng, 8) == 0) {
        if (world->gen.term > 0 && prng_below(&world->prng, 2) == 0) {
            bad = (struct store_op){.kind = STORE_APPLY,
                                    .position = world->gen.position,
                                    .rows = &absent,
                                    .row_count = 1};
        }
        STAILQ_INSERT_TAIL(&list, &bad, link);
        commit_both(world, &list, ERR_CORRUPT, step);
        check_same(world, step);
        STAILQ_REMOVE(&list, &bad, store_op, link);
    }
    commit_both(world, &list, 0, step);
    for (unsigned i = 0; i < count; i++) {
        gen_op_free(ops[i]);
    }
}

static void run_seed(uint64_t seed)
{
    struct world world;

    world_make(&world, seed);
    for (unsigned step = 0; step < LISTS; step++) {
        run_list(&world, step);
        if (prng_below(&world.prng, 10) == 0) {
            world.lmdb->ops->close(world.lmdb);
            world.mem->ops->close(world.mem);
            open_lmdb(&world, false);
            store_mem_reopen(world.mem);
            check_same(&world, step);
        }
        if (prng_below(&world.prng, 10) == 0) {
            check_same(&world, step);
            check_snapshots(&world);
        }
    }
    check_same(&world, LISTS);
    world_release(&world);
}

/* LEAFD_TEST_SEEDS=from-to runs other seeds than 1-20. */
static void test_store_lmdb_equals_memory(void **state)
{
    const char *seeds = getenv("LEAFD_TEST_SEEDS");
    unsigned long long from = 1;
    unsigned long long to = SEEDS;

    (void)state;
    if (seeds != NULL) {
        assert_int_equal(sscanf(seeds, "%llu-%llu", &from, &to), 2);
    }
    print_message("seeds %llu to %llu\n", from, to);
    for (unsigned long long seed = from; seed <= to; seed++) {
        run_seed(seed);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_store_lmdb_equals_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
