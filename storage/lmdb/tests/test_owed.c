/*
 * test_owed.c - rows that are recorded, and put in their table by later commits: a kill between any
 * two of these, a clean stop, a view, damage, and that an older leafd refuses the file meanwhile.
 * And entries in pieces, where no two free pages are neighbours.
 * (test_model.c and test_power.c have such rows among random operations.)
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "src/tests/unit/test.h"
#include "src/base/assert.h"
#include "storage/disk.h"
#include "storage/lmdb/record.h"
#include "storage/lmdb/store.h"
#include "storage/lmdb/tests/tmp_dir.h"
#include "storage/tests/store_gen.h"
#include "storage/tests/store_mem.h"

#define SLICES (GEN_KEYS / GEN_SLICE_ROWS)
#define MAP_BYTES (16 << 20)
#define PAGE_BYTES 4096
#define PAGE_VALUE_BYTES 4000 /* a record of it takes a page of its own */
#define TAIL_PAGES 200        /* that fragment() leaves at the end of the map */

struct fixture {
    struct tmp_dir dir;
    struct tmp_dir after; /* where a copy is opened */
    struct store_lmdb_config config;
    struct store *store;
    struct store *mem;
    struct gen gen;
    struct store_error error;
};

static void must_open(const struct store_lmdb_config *config, struct store **ret_store)
{
    struct store_error error = {""};
    bool made;

    if (store_lmdb_open(config, ret_store, &made, &error) != 0) {
        fail_msg("open: %s", error.text);
    }
}

static void must_commit(struct store *store, struct store_op_list *list)
{
    struct store_error error = {""};

    if (store->ops->commit(store, list, &error) != 0) {
        fail_msg("commit: %s", error.text);
    }
}

/* To both stores. */
static void commit_op(struct fixture *fixture, struct store_op *op)
{
    struct store_op_list list = STAILQ_HEAD_INITIALIZER(list);

    STAILQ_INSERT_TAIL(&list, op, link);
    must_commit(fixture->store, &list);
    must_commit(fixture->mem, &list);
    gen_op_free(op);
}

static void commit_nothing(struct store *store)
{
    struct store_op_list nothing = STAILQ_HEAD_INITIALIZER(nothing);

    must_commit(store, &nothing);
}

static int setup(void **state)
{
    struct fixture *fixture = MUST_HAVE(calloc(1, sizeof *fixture));
    struct buf marker = BUF_INIT;
    char path[TMP_PATH_BYTES];

    tmp_dir_make(&fixture->dir);
    tmp_dir_make(&fixture->after);
    fixture->config =
        (struct store_lmdb_config){.dir = fixture->dir.path,
                                   .map_bytes = MAP_BYTES,
                                   .slice_rows = GEN_SLICE_ROWS,
                                   .identity = {.cluster_id = "owed", .node_id = 1, .store_id = 1}};
    fixture->mem = store_mem_new(&fixture->config.identity);
    must_open(&fixture->config, &fixture->store);
    file_read(tmp_dir_path(&fixture->dir, "made", path), &marker);
    file_write(tmp_dir_path(&fixture->after, "made", path), marker.data, marker.len);
    ASSERT(mkdir(tmp_dir_path(&fixture->after, "db", path), 0700) == 0);
    gen_init(&fixture->gen, 1);
    commit_op(fixture, gen_hard_state(&fixture->gen, 1, 0));
    commit_op(fixture, gen_append(&fixture->gen, 1, 20));
    commit_op(fixture, gen_apply(&fixture->gen, 1, 5));
    buf_free(&marker);
    *state = fixture;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *fixture = *state;

    if (fixture->store != NULL) {
        fixture->store->ops->close(fixture->store);
    }
    store_mem_free(fixture->mem);
    gen_release(&fixture->gen);
    tmp_dir_remove(&fixture->dir);
    tmp_dir_remove(&fixture->after);
    free(fixture);
    return 0;
}

static void expect_as_mem(struct fixture *fixture, struct store *store)
{
    struct buf want = BUF_INIT;
    struct buf found = BUF_INIT;

    gen_must_dump(fixture->mem, &want);
    gen_must_dump(store, &found);
    assert_true(gen_same(&want, &found));
    buf_free(&want);
    buf_free(&found);
}

/* What a kill at this moment leaves. */
static void copy_file(struct fixture *fixture)
{
    struct buf file = BUF_INIT;
    char path[TMP_PATH_BYTES];

    file_read(tmp_dir_path(&fixture->dir, "db/data.mdb", path), &file);
    file_write(tmp_dir_path(&fixture->after, "db/data.mdb", path), file.data, file.len);
    buf_free(&file);
}

/* The format that the copy has for a leafd that knows nothing of rows that are owed. */
static uint32_t format_of_copy(struct fixture *fixture)
{
    char path[TMP_PATH_BYTES];
    struct lmdb_env env;
    struct lmdb_txn txn;
    struct reader reader;
    uint32_t format;

    (void)tmp_dir_path(&fixture->after, "db", path);
    assert_int_equal(lmdb_env_open(&env, path, MAP_BYTES, MDB_RDONLY | MDB_NOLOCK, &fixture->error),
                     0);
    assert_int_equal(lmdb_begin(&env, MDB_RDONLY, &txn, &fixture->error), 0);
    assert_int_equal(lmdb_meta_get(&txn, LMDB_IDENTITY, &reader), 0);
    format = reader_u32(&reader);
    lmdb_abort(&txn);
    lmdb_env_close(&env);
    return format;
}

static void expect_copy(struct fixture *fixture, enum store_lmdb_use use)
{
    struct store_lmdb_config config = fixture->config;
    struct store *store;

    config.dir = fixture->after.path;
    config.use = use;
    copy_file(fixture);
    must_open(&config, &store);
    assert_false(store->owes);
    expect_as_mem(fixture, store);
    store->ops->close(store);
    assert_int_equal(format_of_copy(fixture), LMDB_FORMAT_VERSION);
}

/* With each commit less is owed; killed between any two, a start has the whole state, and so has
 * one that only looks. Shows P1-kill. */
static void test_a_kill_at_each_step(void **state)
{
    struct fixture *fixture = *state;
    unsigned steps = 0;

    commit_op(fixture, gen_puts(&fixture->gen, 5));
    assert_true(fixture->store->owes);
    while (fixture->store->owes) {
        copy_file(fixture);
        assert_int_equal(format_of_copy(fixture), LMDB_FORMAT_OWED);
        expect_copy(fixture, steps % 2 == 0 ? STORE_LMDB_NODE : STORE_LMDB_LOOK);
        if (steps++ % 2 == 0) {
            commit_nothing(fixture->store);
        } else { /* also of a row that is owed, and a second time of all */
            commit_op(fixture, gen_apply(&fixture->gen, fixture->gen.position.index, 1));
        }
        if (steps == 3) {
            commit_op(fixture, gen_puts(&fixture->gen, 7));
        }
        assert_true(steps < 4 * SLICES);
    }
    assert_true(steps > 5);
    expect_copy(fixture, STORE_LMDB_NODE);
    expect_as_mem(fixture, fixture->store);
}

/* As many slices as come are put in place in the end, however few commits are for them alone. */
static void test_what_is_owed_stays_below_its_bound(void **state)
{
    struct fixture *fixture = *state;

    for (unsigned i = 0; i < 30; i++) {
        commit_op(fixture, gen_puts(&fixture->gen, 5));
    }
    expect_copy(fixture, STORE_LMDB_NODE);
    for (unsigned i = 0; fixture->store->owes; i++) {
        assert_true(i < 256 + SLICES);
        commit_nothing(fixture->store);
    }
    expect_as_mem(fixture, fixture->store);
}

/* A snapshot takes the place of all rows, and of those that are owed. */
static void test_an_install_forgets_what_is_owed(void **state)
{
    struct fixture *fixture = *state;

    commit_op(fixture, gen_puts(&fixture->gen, 5));
    assert_true(fixture->store->owes);
    commit_op(fixture, gen_install(&fixture->gen, 30));
    assert_false(fixture->store->owes);
    expect_copy(fixture, STORE_LMDB_NODE);
}

/* The deletion of a row that is not there is refused at once, also while rows are owed. */
static void test_an_absent_row_is_refused_while_rows_are_owed(void **state)
{
    struct fixture *fixture = *state;
    struct store_op_list list = STAILQ_HEAD_INITIALIZER(list);
    const struct state_row absent = {(const uint8_t *)"absent", 6, NULL, 0};
    struct store_op bad = {.kind = STORE_APPLY, .rows = &absent, .row_count = 1};

    commit_op(fixture, gen_puts(&fixture->gen, 5));
    bad.position = fixture->gen.position;
    STAILQ_INSERT_TAIL(&list, &bad, link);
    assert_int_equal(fixture->store->ops->commit(fixture->store, &list, &fixture->error),
                     ERR_CORRUPT);
    assert_true(fixture->store->owes);
    expect_as_mem(fixture, fixture->store);
}

/* A digest that the rows do not have is refused with the last of them at the latest. */
static void test_another_digest_is_refused(void **state)
{
    struct fixture *fixture = *state;
    struct store_op_list nothing = STAILQ_HEAD_INITIALIZER(nothing);
    struct store_op *op = gen_puts(&fixture->gen, 5);
    struct store_op_list list = STAILQ_HEAD_INITIALIZER(list);
    int err;

    op->position.digest ^= 1;
    STAILQ_INSERT_TAIL(&list, op, link);
    must_commit(fixture->store, &list);
    do {
        assert_true(fixture->store->owes);
        err = fixture->store->ops->commit(fixture->store, &nothing, &fixture->error);
    } while (err == 0);
    assert_int_equal(err, ERR_CORRUPT);
    assert_non_null(strstr(fixture->error.text, "the rows' digest is"));
    gen_op_free(op);
}

static void test_a_slice_that_is_missing(void **state)
{
    struct fixture *fixture = *state;
    struct store_lmdb_config config = fixture->config;
    char path[TMP_PATH_BYTES];
    MDB_val key = {13, (void *)(uintptr_t) "owed.00000003"};
    struct lmdb_env env;
    struct lmdb_txn txn;
    struct store *store;
    struct reader reader;
    bool made;

    commit_op(fixture, gen_puts(&fixture->gen, 5));
    copy_file(fixture);
    (void)tmp_dir_path(&fixture->after, "db", path);
    assert_int_equal(lmdb_env_open(&env, path, MAP_BYTES, 0, &fixture->error), 0);
    assert_int_equal(lmdb_begin(&env, 0, &txn, &fixture->error), 0);
    assert_int_equal(lmdb_record_delete(&txn, LMDB_META, &key), 0);
    /* The number of the transaction, so that this is not what is found. */
    assert_int_equal(lmdb_meta_get(&txn, LMDB_NOW, &reader), 0);
    {
        BUF_LOCAL(now);
        size_t len;

        buf_put_u64(&now, reader_u64(&reader) + 1);
        len = reader_left(&reader);
        buf_put(&now, reader_bytes(&reader, len), len);
        assert_int_equal(lmdb_meta_put(&txn, LMDB_NOW, &now), 0);
    }
    assert_int_equal(lmdb_end(&txn, 0), 0);
    lmdb_env_close(&env);
    config.dir = fixture->after.path;
    assert_int_equal(store_lmdb_open(&config, &store, &made, &fixture->error), ERR_CORRUPT);
    assert_string_equal(fixture->error.text, "meta record owed.00000003 is missing");
}

/* --- entries in pieces --- */

/* Put or delete records of a page each beside the store, which is closed. */
static void beside(struct fixture *fixture, bool put, unsigned to, unsigned step)
{
    static const uint8_t data[PAGE_VALUE_BYTES];
    const struct lmdb_payload payload = {.data = data, .len = sizeof data};
    struct store_identity identity;
    char path[TMP_PATH_BYTES];
    struct store_meta meta;
    struct lmdb_owed owed;
    struct lmdb_env env;
    struct lmdb_txn txn;

    (void)tmp_dir_path(&fixture->dir, "db", path);
    assert_int_equal(lmdb_env_open(&env, path, MAP_BYTES, 0, &fixture->error), 0);
    assert_int_equal(lmdb_begin(&env, MDB_RDONLY, &txn, &fixture->error), 0);
    assert_int_equal(lmdb_meta_read(&txn, &identity, &meta, &owed), 0);
    lmdb_abort(&txn);
    assert_int_equal(lmdb_begin(&env, 0, &txn, &fixture->error), 0);
    for (unsigned i = 0; i < to; i += step) {
        char name[16];
        MDB_val key = {(size_t)snprintf(name, sizeof name, "x%06u", i), name};

        assert_int_equal(put ? lmdb_record_put(&txn, LMDB_META, &key, &payload, 0)
                             : lmdb_record_delete(&txn, LMDB_META, &key),
                         0);
    }
    assert_int_equal(lmdb_meta_write(&txn, &identity, &meta, &meta, &owed, &owed),
                     0); /* with the transaction's number */
    assert_int_equal(lmdb_end(&txn, 0), 0);
    lmdb_env_close(&env);
    store_meta_release(&meta);
}

/* The file is full, and every second of its pages is free: room for a large entry, in no run. */
static void fragment(struct fixture *fixture)
{
    unsigned pages = (unsigned)((MAP_BYTES - fixture->store->file_bytes) / PAGE_BYTES) - TAIL_PAGES;

    fixture->store->ops->close(fixture->store);
    beside(fixture, true, pages, 1);
    beside(fixture, false, pages, 2);
    must_open(&fixture->config, &fixture->store);
    commit_nothing(fixture->store);
    commit_nothing(fixture->store);
    fixture->gen.max_entry_bytes = 2 << 20;
}

/* What a kill leaves now, as it is opened again: it holds the same, in this format. */
static void expect_pieces(struct fixture *fixture, uint32_t format)
{
    struct store_lmdb_config config = fixture->config;
    struct store *store;

    copy_file(fixture);
    assert_int_equal(format_of_copy(fixture), format);
    config.dir = fixture->after.path;
    must_open(&config, &store);
    expect_as_mem(fixture, store);
    store->ops->close(store);
}

/* A large entry is written where no two free pages are neighbours. It is read again, cut off,
 * written anew; and once the log has dropped it, an older leafd may start. Shows backup-slow. */
static void test_a_large_entry_in_single_pages(void **state)
{
    struct fixture *fixture = *state;
    struct gen *gen = &fixture->gen;
    struct store_space space;

    fragment(fixture);
    fixture->store->ops->space(fixture->store, &space);
    assert_false(space.low);
    commit_op(fixture, gen_append(gen, 21, 3));
    expect_pieces(fixture, LMDB_FORMAT_PIECES);
    commit_op(fixture, gen_puts(gen, 6)); /* rows that are owed, beside */
    expect_pieces(fixture, LMDB_FORMAT_PIECES);
    commit_op(fixture, gen_append(gen, 22, 1)); /* in place of two */
    expect_pieces(fixture, LMDB_FORMAT_PIECES);
    gen->max_entry_bytes = 400;
    commit_op(fixture, gen_append(gen, gen->last + 1, 20));
    commit_op(fixture, gen_apply(gen, gen->last, 5));
    commit_op(fixture, gen_compact(gen, 24));
    for (unsigned i = 0; i < SLICES; i++) {
        commit_nothing(fixture->store);
    }
    expect_pieces(fixture, LMDB_FORMAT_VERSION);
}

static void test_an_install_forgets_the_pieces(void **state)
{
    struct fixture *fixture = *state;

    fragment(fixture);
    commit_op(fixture, gen_append(&fixture->gen, 21, 3));
    expect_pieces(fixture, LMDB_FORMAT_PIECES);
    fixture->gen.max_entry_bytes = 400;
    commit_op(fixture, gen_install(&fixture->gen, 30));
    expect_pieces(fixture, LMDB_FORMAT_VERSION);
}

/* Rows of a bulk are not put into slices, which are large, where there is no room for these. */
static void test_what_was_owed_when_no_run_was_left(void **state)
{
    struct fixture *fixture = *state;
    struct store_op_list list = STAILQ_HEAD_INITIALIZER(list);
    struct store_op *ops[3];

    fragment(fixture);
    commit_op(fixture, gen_puts(&fixture->gen, 6));
    assert_true(fixture->store->owes);
    ops[0] = gen_append(&fixture->gen, 21, 3);
    ops[1] = gen_puts(&fixture->gen, 7);
    ops[2] = gen_apply(&fixture->gen, 8, 10);
    for (unsigned i = 0; i < 3; i++) {
        STAILQ_INSERT_TAIL(&list, ops[i], link);
    }
    must_commit(fixture->store, &list);
    must_commit(fixture->mem, &list);
    assert_false(fixture->store->owes);
    expect_pieces(fixture, LMDB_FORMAT_PIECES);
    for (unsigned i = 0; i < 3; i++) {
        gen_op_free(ops[i]);
    }
}

/* --- the writer --- */

static void notify_cb(void *data)
{
    (void)data;
}

_Noreturn static void failed_cb(void *data, int err, const struct store_error *error)
{
    (void)data;
    (void)err;
    fprintf(stderr, "%s\n", error->text);
    abort();
}

static void op_done(struct store_op *op)
{
    *(bool *)op->data = true;
}

/* A view has all rows of what was submitted before it; what is left over is put in place by a stop:
 * then an older leafd may start. */
static void test_the_writer_puts_all_in_place(void **state)
{
    struct fixture *fixture = *state;
    const struct writer_config config = {.notify = notify_cb, .failed = failed_cb};
    struct store_op *ops[2] = {gen_puts(&fixture->gen, 5), gen_puts(&fixture->gen, 6)};
    struct disk_read read = {.max_bytes = 1 << 20, .close = true};
    struct store_position position;
    struct writer *writer;
    struct buf rows = BUF_INIT;
    bool done[3] = {false};

    for (unsigned i = 0; i < 2; i++) {
        struct store_op_list list = STAILQ_HEAD_INITIALIZER(list);

        STAILQ_INSERT_TAIL(&list, ops[i], link);
        must_commit(fixture->mem, &list);
        if (i == 0) {
            assert_int_equal(gen_snapshot(fixture->mem, 1 << 20, &rows, &position), 0);
        }
        ops[i]->done = op_done;
        ops[i]->data = &done[i];
    }
    read.op = (struct store_op){.kind = STORE_READ, .done = op_done, .data = &done[2]};
    assert_int_equal(writer_start(fixture->store, &config, &writer), 0);
    writer_disk(writer)->ops->submit(writer_disk(writer), ops[0]);
    writer_disk(writer)->ops->submit(writer_disk(writer), &read.op);
    writer_disk(writer)->ops->submit(writer_disk(writer), ops[1]);
    writer_stop(writer, 30000);
    assert_true(done[0] && done[1] && done[2]);
    assert_int_equal(read.status, 0);
    assert_true(read.end && read.position.index == 5 && gen_same(&read.chunk, &rows));
    assert_false(fixture->store->owes);
    copy_file(fixture);
    assert_int_equal(format_of_copy(fixture), LMDB_FORMAT_VERSION);
    expect_as_mem(fixture, fixture->store);
    disk_read_forget(&read);
    store_position_release(&position);
    buf_free(&rows);
    gen_op_free(ops[0]);
    gen_op_free(ops[1]);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_a_kill_at_each_step),
        TEST(test_what_is_owed_stays_below_its_bound),
        TEST(test_an_install_forgets_what_is_owed),
        TEST(test_an_absent_row_is_refused_while_rows_are_owed),
        TEST(test_another_digest_is_refused),
        TEST(test_a_slice_that_is_missing),
        TEST(test_a_large_entry_in_single_pages),
        TEST(test_an_install_forgets_the_pieces),
        TEST(test_what_was_owed_when_no_run_was_left),
        TEST(test_the_writer_puts_all_in_place),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
