/*
 * test_driver_rows.c - the changes of the state machine as rows of a STORE_APPLY: put and deleted
 * in order, so that the store ends with what memory holds, and with its digest.
 *
 * Thread: one.
 */
#include <stdlib.h>
#include <string.h>

#include "src/tests/unit/test.h"
#include "raft/core/applier.h"
#include "raft/core/driver.h"
#include "raft/core/prepare.h"
#include "raft/core/tests/raft_bench.h"
#include "src/base/assert.h"
#include "src/base/hash.h"
#include "src/base/prng.h"
#include "src/id/fsm/fsm.h"
#include "storage/tests/store_mem.h"

#define KEYS 6
#define BATCHES 40
#define STEPS_MAX 30

/* What the state machine would hold: a value a key, 0 for none. */
struct picture {
    uint8_t values[KEYS];
    uint64_t digest;
};

static uint64_t hash_of(size_t key, uint8_t value)
{
    const uint8_t bytes[2] = {'x', (uint8_t)key};

    return value == 0 ? 0 : hash_row(bytes, 2, &value, 1);
}

/* Put or delete one row, and list it as apply does. */
static void change(struct picture *picture, size_t key, uint8_t value, struct row_changes *changes)
{
    const uint8_t row[3] = {'x', (uint8_t)key, value};

    row_changes_add(changes, row, 2, value != 0 ? 1 : 0);
    picture->digest += hash_of(key, value) - hash_of(key, picture->values[key]);
    picture->values[key] = value;
}

static int check_row(void *data, const struct state_row *row)
{
    struct picture *picture = data;
    const uint8_t *key = row->key;

    assert_int_equal(row->key_len, 2);
    assert_int_equal(row->value_len, 1);
    assert_int_equal(*(const uint8_t *)row->value, picture->values[key[1]]);
    picture->values[key[1]] = 0; /* seen */
    return 0;
}

static int commit(struct store *store, struct store_op *op)
{
    struct store_op_list list = STAILQ_HEAD_INITIALIZER(list);
    struct store_error error = {""};

    STAILQ_INSERT_TAIL(&list, op, link);
    return store->ops->commit(store, &list, &error);
}

static void apply(struct store *store, const struct picture *picture, struct row_changes *changes)
{
    struct store_op op = {.kind = STORE_APPLY,
                          .position = {.index = 1, .term = 1, .digest = picture->digest},
                          .rows = changes->items,
                          .row_count = (uint32_t)changes->count};

    assert_int_equal(commit(store, &op), 0);
}

static void expect(struct store *store, struct picture picture)
{
    struct store_error error = {""};
    struct store_loaded loaded;

    assert_int_equal(store->ops->load(store, &loaded, check_row, &picture, &error), 0);
    assert_true(loaded.position.digest == picture.digest);
    for (size_t key = 0; key < KEYS; key++) {
        assert_int_equal(picture.values[key], 0); /* nothing is missing */
    }
    store_loaded_release(&loaded);
}

static struct store *new_store(void)
{
    struct store_identity identity = {.cluster_id = "test", .node_id = 1, .store_id = 1};
    struct store_entry entry = {.term = 1, .type = RAFT_COMMAND, .len = 1, .data = "x"};
    struct store_op term = {.kind = STORE_HARD_STATE, .term = 1};
    struct store_op append = {
        .kind = STORE_APPEND, .index = 1, .entries = &entry, .entry_count = 1};
    struct store *store = store_mem_new(&identity);

    assert_int_equal(commit(store, &term), 0);
    assert_int_equal(commit(store, &append), 0);
    return store;
}

/* Of the changes of a batch, all are written, or for each key the last ones. */
static void random_changes(bool coalesced)
{
    struct store *store = new_store();
    struct picture picture = {0};
    struct prng prng;
    unsigned deleted = 0;
    uint64_t all = 0;
    uint64_t written = 0;

    prng_seed(&prng, 5);
    for (unsigned batch = 0; batch < BATCHES; batch++) {
        struct row_changes changes = {0};
        uint64_t steps = prng_below(&prng, STEPS_MAX + 1);

        for (uint64_t step = 0; step < steps; step++) {
            size_t key = (size_t)prng_below(&prng, KEYS);
            bool gone = picture.values[key] != 0 && prng_below(&prng, 2) == 0;

            change(&picture, key, gone ? 0 : (uint8_t)(1 + prng_below(&prng, 200)), &changes);
            deleted += gone ? 1 : 0;
        }
        all += changes.count;
        if (coalesced) {
            rows_coalesce(&changes);
            assert_true(changes.count <= 2 * KEYS);
        }
        written += changes.count;
        apply(store, &picture, &changes);
        expect(store, picture);
        row_changes_release(&changes);
    }
    assert_true(deleted > BATCHES);
    assert_true(coalesced ? written < all * 2 / 3 : written == all);
    store_mem_free(store);
}

static void test_driver_rows_of_random_changes(void **state)
{
    (void)state;
    random_changes(false);
}

static void test_driver_rows_of_the_last_changes(void **state)
{
    (void)state;
    random_changes(true);
}

static const struct boot FIRST = {.id = 1,
                                  .term = 1,
                                  .last = 1,
                                  .last_term = 1,
                                  .applied = 1,
                                  .servers = 3,
                                  .roles = THREE_VOTERS};

/* Entries 3.. are committed and applied; what they changed is not on its way to the disk. */
static void apply_some(struct bench *bench, unsigned n)
{
    assert_int_equal(bench_submit(bench, n), 0);
    bench_disk_run(bench);
    bench_ack(bench, 2);
    assert_int_equal(driver_applied(&bench->driver)->index, entry_log_last(&bench->driver.log));
}

static void test_rows_wait_for_entries_to_be_written_with(void **state)
{
    BENCH bench = {.rows_hold_ms = 50};
    uint64_t durable;

    (void)state;
    bench_start(&bench, &FIRST);
    bench_elect(&bench);
    bench_ack(&bench, 2);
    bench_run(&bench);
    durable = driver_applied(&bench.driver)->index; /* nothing of it is yet */
    apply_some(&bench, 3);
    assert_int_equal(fake_disk_count(&bench.disk, STORE_APPLY), 0);
    assert_int_equal(bench_submit(&bench, 1), 0);
    assert_int_equal(fake_disk_count(&bench.disk, STORE_APPLY), 1);
    assert_int_equal(fake_disk_count(&bench.disk, STORE_APPEND), 1);
    assert_true(STAILQ_FIRST(&bench.disk.queue)->more); /* rows first, for one commit */
    assert_true(bench_disk_step(&bench));
    assert_int_equal(bench.driver.applier.durable.index, durable + 3);
    bench_disk_run(&bench);
    bench_ack(&bench, 2);
    /* Nothing more comes: they go alone. */
    assert_int_equal(fake_disk_count(&bench.disk, STORE_APPLY), 0);
    assert_true(timers_next_ms(&bench.timers) <= clock_now_ms(&bench.clock.base) + 50);
    bench.clock.now_ms += 49;
    bench_tick(&bench);
    assert_int_equal(fake_disk_count(&bench.disk, STORE_APPLY), 0);
    bench.clock.now_ms += 1;
    bench_tick(&bench);
    assert_int_equal(fake_disk_count(&bench.disk, STORE_APPLY), 1);
    bench_disk_run(&bench);
    assert_int_equal(bench.driver.applier.durable.index, durable + 4);
}

/* Of many entries in quick succession few carry rows. */
static void test_rows_that_are_young_let_entries_go_without_them(void **state)
{
    BENCH bench = {.rows_join_ms = 10, .rows_hold_ms = 50};

    (void)state;
    bench_start(&bench, &FIRST);
    bench_elect(&bench);
    bench_ack(&bench, 2);
    bench_run(&bench);
    apply_some(&bench, 1);
    for (unsigned ms = 0; ms < 9; ms++) {
        bench.clock.now_ms += 1;
        bench_tick(&bench);
        assert_int_equal(bench_submit(&bench, 1), 0);
        assert_int_equal(fake_disk_count(&bench.disk, STORE_APPLY), 0);
        bench_disk_run(&bench);
        bench_ack(&bench, 2);
    }
    bench.clock.now_ms += 1;
    bench_tick(&bench);
    assert_int_equal(fake_disk_count(&bench.disk, STORE_APPLY), 0); /* not alone */
    assert_int_equal(bench_submit(&bench, 1), 0);
    assert_int_equal(fake_disk_count(&bench.disk, STORE_APPLY), 1);
    assert_true(STAILQ_FIRST(&bench.disk.queue)->more);
    bench_disk_run(&bench);
    assert_int_equal(bench.driver.applier.durable.index, entry_log_last(&bench.driver.log) - 1);
}

/* As an entry with so many new rows. */
static void list_rows(struct applier *applier, unsigned count, uint32_t *number)
{
    struct journal *journal = &applier->state->journal;

    journal->changes = &applier->rows;
    for (unsigned i = 0; i < count; i++) {
        journal_key(journal, 'x');
        buf_put_u32(&journal->row, (*number)++);
        journal_value(journal);
        buf_put_u8(&journal->row, 1);
        journal_enter(journal);
    }
    journal->changes = NULL;
    applier_hold(applier);
}

/* No entry takes them along: they go when it is this node's turn. So many that nothing may wait for
 * them go at once. */
static void test_rows_of_a_bulk_wait_for_the_nodes_turn(void **state)
{
    BENCH bench = {.rows_join_ms = 10, .rows_hold_ms = 50, .rows_many_ms = 70};
    struct applier *applier = &bench.driver.applier;
    uint32_t number = 0;

    (void)state;
    bench_start(&bench, &FIRST);
    bench_elect(&bench);
    bench_ack(&bench, 2);
    bench_run(&bench);
    apply_some(&bench, 1);
    list_rows(applier, 2040, &number);
    assert_false(applier->rows_many);
    list_rows(applier, 2048, &number);
    bench.clock.now_ms += 69;
    bench_tick(&bench);
    assert_int_equal(bench_submit(&bench, 1), 0);
    assert_int_equal(fake_disk_count(&bench.disk, STORE_APPLY), 0);
    list_rows(applier, 2048, &number); /* they wait no longer for these */
    bench.clock.now_ms += 1;
    bench_tick(&bench);
    assert_int_equal(fake_disk_count(&bench.disk, STORE_APPLY), 1);
    assert_int_equal(applier->rows.count, 0);
    list_rows(applier, 32768, &number);
    bench_tick(&bench);
    assert_int_equal(fake_disk_count(&bench.disk, STORE_APPLY), 2);
    assert_false(applier->rows_many);
}

static void test_rows_that_are_held_are_not_lost(void **state)
{
    BENCH bench = {.rows_hold_ms = 50};
    uint64_t applied;
    uint64_t digest;

    (void)state;
    bench_start(&bench, &FIRST);
    bench_elect(&bench);
    bench_ack(&bench, 2);
    bench_run(&bench);
    apply_some(&bench, 3);
    applied = driver_applied(&bench.driver)->index;
    digest = state_digest(bench.state);
    bench_crash(&bench);
    bench_restart(&bench);
    bench_elect(&bench);
    bench_ack(&bench, 2);
    assert_true(driver_applied(&bench.driver)->index > applied); /* from the log */
    assert_true(state_digest(bench.state) == digest);
    /* An orderly stop writes what is held. */
    assert_true(bench.driver.applier.rows_since_ms != UINT64_MAX);
    driver_quiesce(&bench.driver);
    assert_int_equal(fake_disk_count(&bench.disk, STORE_APPLY), 1);
}

/* A change to no value is a deletion. */
static void test_driver_rows_of_an_emptied_value(void **state)
{
    struct row_changes changes = {0};

    (void)state;
    row_changes_add(&changes, "x", 1, 0);
    assert_null(changes.items[0].value);
    assert_int_equal(changes.items[0].value_len, 0);
    assert_int_equal(changes.items[0].key_len, 1);
    row_changes_release(&changes);
}

/* A tag that waits for a node, without the tag: each row is well formed, but no apply made both. */
static void test_driver_load_of_rows_that_contradict_each_other(void **state)
{
    struct store *store = new_store();
    struct state *whole = state_new(&fsm_machine);
    const struct state_row row = {(const uint8_t *)"dtag", 4, "\x01\x01",
                                  3}; /* version 1, node 1 */
    struct store_op op = {
        .kind = STORE_APPLY,
        .position = {.index = 1, .term = 1, .digest = hash_row("dtag", 4, "\x01\x01", 3)},
        .rows = &row,
        .row_count = 1};
    struct store_error error = {""};
    struct store_loaded loaded;

    (void)state;
    assert_int_equal(commit(store, &op), 0);
    assert_int_equal(prepare_load(store, whole, &loaded, &error), ERR_CORRUPT);
    assert_non_null(strstr(error.text, "contradict"));
    state_free(whole);
    store_mem_free(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_driver_rows_of_random_changes),
        cmocka_unit_test(test_driver_rows_of_the_last_changes),
        cmocka_unit_test(test_rows_wait_for_entries_to_be_written_with),
        cmocka_unit_test(test_rows_that_are_young_let_entries_go_without_them),
        cmocka_unit_test(test_rows_of_a_bulk_wait_for_the_nodes_turn),
        cmocka_unit_test(test_rows_that_are_held_are_not_lost),
        cmocka_unit_test(test_driver_rows_of_an_emptied_value),
        cmocka_unit_test(test_driver_load_of_rows_that_contradict_each_other),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
