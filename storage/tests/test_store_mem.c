/*
 * test_store_mem.c - the store in memory: what a list changes, that it is whole or nothing, and
 * that what breaks a rule is refused.
 */
#include <string.h>

#include "src/tests/unit/test.h"
#include "src/base/hash.h"
#include "storage/store.h"
#include "storage/tests/store_gen.h"
#include "storage/tests/store_mem.h"

static const struct store_identity identity = {.cluster_id = "c", .node_id = 3, .store_id = 9};

static void commit(struct store *store, struct store_op *op)
{
    struct store_error error = {""};

    if (gen_commit(store, op, &error) != 0) {
        fail_msg("commit: %s", error.text);
    }
}

static void assert_same(struct buf *a, struct buf *b)
{
    assert_int_equal(a->len, b->len);
    assert_memory_equal(a->data, b->data, a->len);
    buf_free(a);
    buf_free(b);
}

static int no_row(void *data, const struct state_row *row)
{
    (void)data;
    (void)row;
    return 0;
}

static void test_store_mem_is_empty_when_new(void **state)
{
    struct store *store = store_mem_new(&identity);
    struct store_loaded loaded;
    struct store_error error;

    (void)state;
    assert_int_equal(store->ops->load(store, &loaded, no_row, NULL, &error), 0);
    assert_int_equal(loaded.first_index, 1);
    assert_int_equal(loaded.entry_count, 0);
    assert_int_equal(loaded.term, 0);
    assert_int_equal(loaded.position.index, 0);
    assert_int_equal(loaded.identity.store_id, 9);
    store_loaded_release(&loaded);
    store_mem_free(store);
}

static void test_store_mem_truncates_and_appends(void **state)
{
    struct store *store = store_mem_new(&identity);
    struct store_loaded loaded;
    struct store_error error;
    struct gen gen;

    (void)state;
    gen_init(&gen, 1);
    commit(store, gen_hard_state(&gen, 1, 0));
    commit(store, gen_append(&gen, 1, 5));
    commit(store, gen_hard_state(&gen, 2, 0));
    commit(store, gen_append(&gen, 3, 1));
    assert_int_equal(store->ops->load(store, &loaded, no_row, NULL, &error), 0);
    assert_int_equal(loaded.entry_count, 3);
    assert_int_equal(loaded.entries[1].term, 1);
    assert_int_equal(loaded.entries[2].term, 2);
    store_loaded_release(&loaded);
    gen_release(&gen);
    store_mem_free(store);
}

/* A list whose last operation does not fit changes nothing, whatever came before it. */
static void test_store_mem_list_is_whole_or_nothing(void **state)
{
    struct store *store = store_mem_new(&identity);
    struct gen gen;

    (void)state;
    gen_init(&gen, 77);
    for (unsigned round = 0; round < 300; round++) {
        struct store_op_list list = STAILQ_HEAD_INITIALIZER(list);
        struct store_op *ops[6];
        struct store_op bad = {.kind = STORE_APPEND, .index = GEN_LOG_MAX};
        struct store_error error = {""};
        struct buf before = BUF_INIT;
        struct buf after = BUF_INIT;

        gen_must_dump(store, &before);
        for (unsigned i = 0; i < 6; i++) {
            ops[i] = gen_any(&gen);
            STAILQ_INSERT_TAIL(&list, ops[i], link);
        }
        STAILQ_INSERT_TAIL(&list, &bad, link);
        assert_int_equal(store->ops->commit(store, &list, &error), ERR_CORRUPT);
        assert_non_null(strstr(error.text, "append at index"));
        gen_must_dump(store, &after);
        assert_same(&before, &after);
        STAILQ_REMOVE(&list, &bad, store_op, link);
        assert_int_equal(store->ops->commit(store, &list, &error), 0);
        for (unsigned i = 0; i < 6; i++) {
            gen_op_free(ops[i]);
        }
    }
    gen_release(&gen);
    store_mem_free(store);
}

static void test_store_mem_commit_fails_by_countdown(void **state)
{
    struct store *store = store_mem_new(&identity);
    struct store_error error = {""};
    struct buf before = BUF_INIT;
    struct buf after = BUF_INIT;
    struct gen gen;

    (void)state;
    gen_init(&gen, 1);
    store_mem_fail_commit(store, 2, ERR_IO);
    commit(store, gen_hard_state(&gen, 1, 1));
    gen_must_dump(store, &before);
    assert_int_equal(gen_commit(store, gen_append(&gen, 1, 2), &error), ERR_IO);
    assert_true(error.text[0] != '\0');
    gen_must_dump(store, &after);
    assert_same(&before, &after);
    commit(store, gen_append(&gen, 1, 2));
    gen_release(&gen);
    store_mem_free(store);
}

static void test_store_mem_keeps_data_over_close(void **state)
{
    struct store *store = store_mem_new(&identity);
    struct buf before = BUF_INIT;
    struct buf after = BUF_INIT;
    struct gen gen;

    (void)state;
    gen_init(&gen, 5);
    for (unsigned i = 0; i < 100; i++) {
        commit(store, gen_any(&gen));
    }
    gen_must_dump(store, &before);
    store->ops->close(store);
    store_mem_reopen(store);
    gen_must_dump(store, &after);
    assert_same(&before, &after);
    gen_release(&gen);
    store_mem_free(store);
}

/* A compaction of more than LIMIT_COMPACT_PER_COMMIT entries goes on with later commits. */
static void test_store_mem_compacts_in_chunks(void **state)
{
    struct store *store = store_mem_new(&identity);
    struct store_loaded loaded;
    struct store_error error;
    struct gen gen;

    (void)state;
    gen_init(&gen, 1);
    gen.max_entry_bytes = 8;
    commit(store, gen_hard_state(&gen, 1, 0));
    commit(store, gen_append(&gen, 1, LIMIT_COMPACT_PER_COMMIT * 2 + 10));
    commit(store, gen_apply(&gen, gen.last, 1));
    for (unsigned round = 1; round <= 4; round++) {
        uint64_t first = 1 + (uint64_t)LIMIT_COMPACT_PER_COMMIT * round;

        if (round == 1) {
            commit(store, gen_compact(&gen, gen.last));
        } else {
            commit(store, gen_hard_state(&gen, 1 + round, 0));
        }
        assert_int_equal(store->ops->load(store, &loaded, no_row, NULL, &error), 0);
        assert_int_equal(loaded.first_index, first < gen.last ? first : gen.last);
        store_loaded_release(&loaded);
    }
    gen_release(&gen);
    store_mem_free(store);
}

static void test_store_mem_snapshot_is_fixed(void **state)
{
    struct store *store = store_mem_new(&identity);
    struct store_snapshot *snapshots[LIMIT_STORE_SNAPSHOTS + 1];
    struct store_position position;
    struct store_error error;
    struct buf rows = BUF_INIT;
    struct gen gen;
    uint64_t digest;
    bool end = false;

    (void)state;
    gen_init(&gen, 8);
    commit(store, gen_hard_state(&gen, 1, 0));
    commit(store, gen_append(&gen, 1, 10));
    commit(store, gen_apply(&gen, 4, 40));
    digest = gen.position.digest;
    for (unsigned i = 0; i < LIMIT_STORE_SNAPSHOTS; i++) {
        assert_int_equal(store->ops->snapshot_open(store, &snapshots[i], &position), 0);
    }
    assert_int_equal(store->ops->snapshot_open(store, &snapshots[4], &position), ERR_OVERLOADED);
    commit(store, gen_apply(&gen, 9, 40));
    assert_int_equal(position.index, 4);
    while (!end) {
        size_t before = rows.len;

        assert_int_equal(store->ops->snapshot_read(store, snapshots[0], 500, &rows, &end), 0);
        assert_true(end || rows.len > before);
        assert_true(rows.len - before <= 500);
    }
    assert_int_equal(store_rows_check(rows.data, rows.len, digest, &error), 0);
    assert_int_equal(store_rows_check(rows.data, rows.len, digest + 1, &error), ERR_CORRUPT);
    assert_int_equal(store_rows_check(rows.data, rows.len - 1, digest, &error), ERR_CORRUPT);
    for (unsigned i = 0; i < LIMIT_STORE_SNAPSHOTS; i++) {
        store->ops->snapshot_close(store, snapshots[i]);
    }
    buf_free(&rows);
    gen_release(&gen);
    store_mem_free(store);
}

/* Each rule of store.h, broken once. The store: term 3, vote 2, log [1, 6], applied 4. */
static void test_store_rules_are_kept(void **state)
{
    struct store_entry old = {.term = 2, .type = 1};
    struct store_entry newer = {.term = 4, .type = 1};
    struct store_entry none = {.term = 0, .type = 1};
    const char local[LIMIT_LOCAL_RECORD_BYTES + 1] = "";
    const struct store_op bad[] = {
        {.kind = STORE_HARD_STATE, .term = 2},
        {.kind = STORE_HARD_STATE, .term = 3, .vote = 1},
        {.kind = STORE_APPEND, .index = 8},
        {.kind = STORE_APPEND, .index = 4},
        {.kind = STORE_APPEND, .index = 0},
        {.kind = STORE_APPEND, .index = 7, .entries = &old, .entry_count = 1},
        {.kind = STORE_APPEND, .index = 6, .entries = &old, .entry_count = 1},
        {.kind = STORE_APPEND, .index = 7, .entries = &newer, .entry_count = 1},
        {.kind = STORE_APPEND, .index = 7, .entries = &none, .entry_count = 1},
        {.kind = STORE_APPLY, .position = {.index = 3, .term = 3}},
        {.kind = STORE_APPLY, .position = {.index = 7, .term = 3}},
        {.kind = STORE_APPLY, .position = {.index = 5, .term = 2}},
        {.kind = STORE_APPLY, .position = {.index = 5, .term = 3, .digest = 1}},
        {.kind = STORE_APPLY, .position = {.index = 5, .term = 3, .conf_index = 6}},
        {.kind = STORE_INSTALL, .position = {.index = 3, .term = 3}},
        {.kind = STORE_INSTALL, .position = {.index = 9, .term = 4}},
        {.kind = STORE_INSTALL, .position = {.index = 9, .term = 3, .digest = 1}},
        {.kind = STORE_INSTALL,
         .position = {.index = 9, .term = 3},
         .rows_stream = "x",
         .rows_stream_len = 1},
        {.kind = STORE_COMPACT, .index = 6},
        {.kind = STORE_LOCAL, .local_key = LIMIT_LOCAL_RECORDS, .local = local, .local_len = 1},
        {.kind = STORE_LOCAL, .local_key = 0, .local = local, .local_len = 0},
        {.kind = STORE_LOCAL, .local = local, .local_len = LIMIT_LOCAL_RECORD_BYTES + 1},
    };
    struct store *store = store_mem_new(&identity);
    struct buf before = BUF_INIT;
    struct buf after = BUF_INIT;
    struct gen gen;

    (void)state;
    gen_init(&gen, 1);
    commit(store, gen_hard_state(&gen, 3, 2));
    commit(store, gen_append(&gen, 1, 6));
    commit(store, gen_apply(&gen, 4, 0));
    gen_must_dump(store, &before);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct store_op_list list = STAILQ_HEAD_INITIALIZER(list);
        struct store_op op = bad[i];
        struct store_error error = {""};

        STAILQ_INSERT_TAIL(&list, &op, link);
        if (store->ops->commit(store, &list, &error) != ERR_CORRUPT || error.text[0] == '\0') {
            fail_msg("operation %zu was taken", i);
        }
    }
    gen_must_dump(store, &after);
    assert_same(&before, &after);
    gen_release(&gen);
    store_mem_free(store);
}

/* A local record of the last number and the largest size; a later one replaces it; an install does
 * not touch it. */
static void test_store_local_records(void **state)
{
    struct store *store = store_mem_new(&identity);
    char bytes[LIMIT_LOCAL_RECORD_BYTES];
    struct store_op op = {.kind = STORE_LOCAL,
                          .local_key = LIMIT_LOCAL_RECORDS - 1,
                          .local = bytes,
                          .local_len = sizeof bytes};
    struct store_op_list list = STAILQ_HEAD_INITIALIZER(list);
    struct store_loaded loaded;
    struct store_error error;
    struct gen gen;

    (void)state;
    gen_init(&gen, 2);
    for (unsigned i = 0; i < 2; i++) {
        memset(bytes, 'a' + (int)i, sizeof bytes);
        STAILQ_INIT(&list);
        STAILQ_INSERT_TAIL(&list, &op, link);
        assert_int_equal(store->ops->commit(store, &list, &error), 0);
    }
    commit(store, gen_hard_state(&gen, 1, 0));
    commit(store, gen_install(&gen, 5));
    assert_int_equal(store->ops->load(store, &loaded, no_row, NULL, &error), 0);
    assert_int_equal(loaded.locals[LIMIT_LOCAL_RECORDS - 1].len, sizeof bytes);
    assert_memory_equal(loaded.locals[LIMIT_LOCAL_RECORDS - 1].data, bytes, sizeof bytes);
    assert_int_equal(loaded.locals[0].len, 0);
    store_loaded_release(&loaded);
    gen_release(&gen);
    store_mem_free(store);
}

static void test_store_rows_check_wants_order(void **state)
{
    struct buf stream = BUF_INIT;
    struct store_error error;
    uint64_t digest = 2 * hash_row("a", 1, "v", 1);

    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        buf_put_str16(&stream, "a", 1);
        buf_put_str32(&stream, "v", 1);
    }
    assert_int_equal(store_rows_check(stream.data, stream.len, digest, &error), ERR_CORRUPT);
    assert_non_null(strstr(error.text, "out of order"));
    assert_int_equal(store_rows_check(NULL, 0, 0, &error), 0);
    buf_free(&stream);
}

/* Keys and values at their limits, one below and one beyond. */
static void test_store_rows_check_wants_limits(void **state)
{
    static char bytes[LIMIT_ROW_VALUE_BYTES + 1];
    const struct {
        size_t key_len;
        size_t value_len;
        int err;
    } cases[] = {
        {1, 1, 0},
        {0, 1, ERR_CORRUPT},
        {1, 0, ERR_CORRUPT},
        {LIMIT_ROW_KEY_BYTES, LIMIT_ROW_VALUE_BYTES, 0},
        {LIMIT_ROW_KEY_BYTES + 1, 1, ERR_CORRUPT},
        {1, LIMIT_ROW_VALUE_BYTES + 1, ERR_CORRUPT},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct buf stream = BUF_INIT;
        struct store_error error;

        buf_put_str16(&stream, bytes, cases[i].key_len);
        buf_put_str32(&stream, bytes, cases[i].value_len);
        assert_int_equal(
            store_rows_check(stream.data, stream.len,
                             hash_row(bytes, cases[i].key_len, bytes, cases[i].value_len), &error),
            cases[i].err);
        buf_free(&stream);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_store_mem_is_empty_when_new),
        cmocka_unit_test(test_store_mem_truncates_and_appends),
        cmocka_unit_test(test_store_mem_list_is_whole_or_nothing),
        cmocka_unit_test(test_store_mem_commit_fails_by_countdown),
        cmocka_unit_test(test_store_mem_keeps_data_over_close),
        cmocka_unit_test(test_store_mem_compacts_in_chunks),
        cmocka_unit_test(test_store_mem_snapshot_is_fixed),
        cmocka_unit_test(test_store_rules_are_kept),
        cmocka_unit_test(test_store_local_records),
        cmocka_unit_test(test_store_rows_check_wants_order),
        cmocka_unit_test(test_store_rows_check_wants_limits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
