/*
 * test_rows.c - rows of both engines: put and deleted, in order and whole lists at a time,
 * over reopening and under snapshots; and what no row may be.
 *
 * Every test runs on the LMDB engine and on the one in memory. Thread: one.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/tests/unit/test.h"
#include "src/base/assert.h"
#include "src/base/hash.h"
#include "storage/lmdb/store.h"
#include "storage/tests/store_mem.h"
#include "storage/tests/store_gen.h"
#include "storage/lmdb/tests/tmp_dir.h"

#define MANY 3000

/* A store of one engine at index 1 of term 1, and what its rows' digest must be. */
struct fixture {
    bool in_memory;
    struct tmp_dir dir;
    struct store_lmdb_config config;
    struct store *store;
    uint64_t digest;
    struct store_error error;
};

static int setup(void **state, bool in_memory)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);
    struct store_op_list list = STAILQ_HEAD_INITIALIZER(list);
    struct store_op vote = {.kind = STORE_HARD_STATE, .term = 1};
    struct store_entry entry = {.term = 1, .type = 1, .len = 1, .data = "x"};
    struct store_op append = {
        .kind = STORE_APPEND, .index = 1, .entries = &entry, .entry_count = 1};
    bool made;

    ASSERT(fixture != NULL);
    fixture->in_memory = in_memory;
    fixture->config =
        (struct store_lmdb_config){.dir = fixture->dir.path,
                                   .map_bytes = 64 << 20,
                                   .identity = {.cluster_id = "rows", .node_id = 1, .store_id = 1}};
    if (in_memory) {
        fixture->store = store_mem_new(&fixture->config.identity);
    } else {
        tmp_dir_make(&fixture->dir);
        ASSERT(store_lmdb_open(&fixture->config, &fixture->store, &made, &fixture->error) == 0);
    }
    STAILQ_INSERT_TAIL(&list, &vote, link);
    STAILQ_INSERT_TAIL(&list, &append, link);
    ASSERT(fixture->store->ops->commit(fixture->store, &list, &fixture->error) == 0);
    *state = fixture;
    return 0;
}

static int setup_lmdb(void **state)
{
    return setup(state, false);
}

static int setup_mem(void **state)
{
    return setup(state, true);
}

static int teardown(void **state)
{
    struct fixture *fixture = *state;

    if (fixture->in_memory) {
        store_mem_free(fixture->store);
    } else {
        fixture->store->ops->close(fixture->store);
        tmp_dir_remove(&fixture->dir);
    }
    free(fixture);
    return 0;
}

static void reopen(struct fixture *fixture)
{
    bool made;

    fixture->store->ops->close(fixture->store);
    if (fixture->in_memory) {
        store_mem_reopen(fixture->store);
    } else if (store_lmdb_open(&fixture->config, &fixture->store, &made, &fixture->error) != 0) {
        fail_msg("open: %s", fixture->error.text);
    }
}

static struct state_row put(const char *key, const char *value)
{
    return (struct state_row){(const uint8_t *)key, (uint32_t)strlen(key), value,
                              (uint32_t)strlen(value)};
}

static struct state_row gone(const char *key)
{
    return (struct state_row){(const uint8_t *)key, (uint32_t)strlen(key), NULL, 0};
}

static uint64_t hash_of(const struct state_row *row)
{
    return hash_row(row->key, row->key_len, row->value, row->value_len);
}

/* Apply rows at index 1; the position's digest is the one given. */
static int apply(struct fixture *fixture, const struct state_row *rows, size_t count,
                 uint64_t digest)
{
    struct store_op_list list = STAILQ_HEAD_INITIALIZER(list);
    struct store_op op = {.kind = STORE_APPLY,
                          .position = {.index = 1, .term = 1, .digest = digest},
                          .rows = rows,
                          .row_count = (uint32_t)count};

    fixture->error.text[0] = '\0';
    STAILQ_INSERT_TAIL(&list, &op, link);
    return fixture->store->ops->commit(fixture->store, &list, &fixture->error);
}

static void must_apply(struct fixture *fixture, const struct state_row *rows, size_t count,
                       uint64_t digest)
{
    if (apply(fixture, rows, count, digest) != 0) {
        fail_msg("apply: %s", fixture->error.text);
    }
    fixture->digest = digest;
}

static int print_row(void *data, const struct state_row *row)
{
    buf_printf(data, "%.*s=%.*s ", (int)row->key_len, (const char *)row->key, (int)row->value_len,
               (const char *)row->value);
    return 0;
}

/* What load() and a fresh snapshot show must be `text`, "key=value " for each row. */
static void expect_rows(struct fixture *fixture, const char *text)
{
    struct store_position position;
    struct store_loaded loaded;
    struct buf found = BUF_INIT;
    struct buf stream = BUF_INIT;
    struct reader reader;
    struct state_row row;

    if (fixture->store->ops->load(fixture->store, &loaded, print_row, &found, &fixture->error) !=
        0) {
        fail_msg("load: %s", fixture->error.text);
    }
    assert_int_equal(found.len, strlen(text));
    assert_memory_equal(text, found.len > 0 ? found.data : (const void *)"", found.len);
    assert_int_equal(loaded.position.digest, fixture->digest);
    store_loaded_release(&loaded);

    found.len = 0;
    assert_int_equal(gen_snapshot(fixture->store, 20, &stream, &position), 0);
    assert_int_equal(position.digest, fixture->digest);
    assert_int_equal(store_rows_check(stream.data, stream.len, fixture->digest, &fixture->error),
                     0);
    reader_init(&reader, stream.data, stream.len);
    while (store_rows_next(&reader, &row)) {
        assert_int_equal(print_row(&found, &row), 0);
    }
    assert_int_equal(found.len, strlen(text));
    assert_memory_equal(text, found.len > 0 ? found.data : (const void *)"", found.len);
    store_position_release(&position);
    buf_free(&found);
    buf_free(&stream);
}

static void test_store_rows_are_deleted(void **state)
{
    struct fixture *fixture = *state;
    const struct state_row rows[] = {put("a", "1"), put("b", "2"), put("c", "3")};
    const struct state_row both[] = {gone("a"), gone("c")};
    const struct state_row last = gone("b");

    must_apply(fixture, rows, 3, hash_of(&rows[0]) + hash_of(&rows[1]) + hash_of(&rows[2]));
    expect_rows(fixture, "a=1 b=2 c=3 ");
    must_apply(fixture, both, 2, hash_of(&rows[1]));
    expect_rows(fixture, "b=2 ");
    reopen(fixture);
    expect_rows(fixture, "b=2 ");
    must_apply(fixture, &last, 1, 0);
    expect_rows(fixture, "");
    reopen(fixture);
    expect_rows(fixture, "");
    must_apply(fixture, rows, 1, hash_of(&rows[0])); /* and comes again */
    expect_rows(fixture, "a=1 ");
}

/* The same key several times in one operation, and over the operations of one list. */
static void test_store_rows_change_in_order(void **state)
{
    struct fixture *fixture = *state;
    const struct state_row first[] = {put("k", "1"), gone("k"), put("k", "2"), put("n", "0"),
                                      gone("n")};
    const struct state_row second[] = {gone("k"), put("n", "1"), put("k", "3"), gone("k")};
    const struct store_op both[] = {
        {.kind = STORE_APPLY, .rows = first, .row_count = 5}, //
        {.kind = STORE_APPLY, .rows = second, .row_count = 4},
    };
    struct store_op ops[] = {both[0], both[1]};
    struct store_op_list list = STAILQ_HEAD_INITIALIZER(list);

    must_apply(fixture, first, 5, hash_of(&first[2]));
    expect_rows(fixture, "k=2 ");
    must_apply(fixture, second, 4, hash_of(&second[1]));
    expect_rows(fixture, "n=1 ");
    ops[0].position = (struct store_position){.index = 1, .term = 1, .digest = hash_of(&first[2])};
    ops[1].position = (struct store_position){.index = 1, .term = 1, .digest = hash_of(&second[1])};
    STAILQ_INSERT_TAIL(&list, &ops[0], link);
    STAILQ_INSERT_TAIL(&list, &ops[1], link);
    assert_int_equal(fixture->store->ops->commit(fixture->store, &list, &fixture->error), 0);
    expect_rows(fixture, "n=1 ");
}

/* Memory and disk differ: refused with the key, and nothing of the list is left. */
static void test_store_rows_absent_are_not_deleted(void **state)
{
    struct fixture *fixture = *state;
    const struct state_row row = put("a", "1");
    const struct state_row never[] = {put("b", "2"), gone("a"), gone("n\x01")};
    const struct state_row twice[] = {gone("a"), gone("a")};
    const struct state_row again[] = {put("z", "1"), gone("z"), gone("z")};

    must_apply(fixture, &row, 1, hash_of(&row));
    assert_int_equal(apply(fixture, never, 3, hash_of(&never[0])), ERR_CORRUPT);
    assert_string_equal(fixture->error.text, "apply: row n\\x01 is deleted, but is not there");
    expect_rows(fixture, "a=1 ");
    assert_int_equal(apply(fixture, twice, 2, 0), ERR_CORRUPT);
    assert_string_equal(fixture->error.text, "apply: row a is deleted, but is not there");
    expect_rows(fixture, "a=1 ");
    assert_int_equal(apply(fixture, again, 3, hash_of(&row)), ERR_CORRUPT);
    expect_rows(fixture, "a=1 ");
    reopen(fixture);
    expect_rows(fixture, "a=1 ");
    must_apply(fixture, twice, 1, 0);
    expect_rows(fixture, "");
}

/* A deletion moves the digest: a position that does not say so is refused. */
static void test_store_rows_deleted_leave_the_digest(void **state)
{
    struct fixture *fixture = *state;
    const struct state_row rows[] = {put("a", "1"), put("b", "2")};
    const struct state_row one = gone("a");
    uint64_t all = hash_of(&rows[0]) + hash_of(&rows[1]);

    must_apply(fixture, rows, 2, all);
    assert_int_equal(apply(fixture, &one, 1, all), ERR_CORRUPT);
    assert_non_null(strstr(fixture->error.text, "digest"));
    expect_rows(fixture, "a=1 b=2 ");
    must_apply(fixture, &one, 1, all - hash_of(&rows[0]));
    expect_rows(fixture, "b=2 ");
}

static void test_store_rows_deleted_stay_in_older_snapshots(void **state)
{
    struct fixture *fixture = *state;
    const struct state_row rows[] = {put("a", "1"), put("b", "2"), put("c", "3")};
    const struct state_row all[] = {gone("a"), gone("b"), gone("c")};
    uint64_t digest = hash_of(&rows[0]) + hash_of(&rows[1]) + hash_of(&rows[2]);
    struct store *store = fixture->store;
    struct store_snapshot *before;
    struct store_position position;
    struct buf stream = BUF_INIT;
    bool end = false;

    must_apply(fixture, rows, 3, digest);
    assert_int_equal(store->ops->snapshot_open(store, &before, &position), 0);
    assert_int_equal(store->ops->snapshot_read(store, before, 1, &stream, &end), 0);
    assert_false(end);
    must_apply(fixture, all, 3, 0);
    expect_rows(fixture, "");
    while (!end) {
        assert_int_equal(store->ops->snapshot_read(store, before, 1, &stream, &end), 0);
    }
    assert_int_equal(position.digest, digest);
    assert_int_equal(store_rows_check(stream.data, stream.len, digest, &fixture->error), 0);
    store->ops->snapshot_close(store, before);
    buf_free(&stream);
}

static int install(struct fixture *fixture, const struct buf *stream, uint64_t digest)
{
    struct store_op_list list = STAILQ_HEAD_INITIALIZER(list);
    struct store_op op = {.kind = STORE_INSTALL,
                          .position = {.index = 5, .term = 1, .digest = digest},
                          .rows_stream = stream->data,
                          .rows_stream_len = stream->len};

    STAILQ_INSERT_TAIL(&list, &op, link);
    return fixture->store->ops->commit(fixture->store, &list, &fixture->error);
}

/* A stream holds what is there: one that deletes is none. */
static void test_store_rows_install_wants_values(void **state)
{
    struct fixture *fixture = *state;
    const struct state_row row = put("a", "1");
    struct buf stream = BUF_INIT;

    must_apply(fixture, &row, 1, hash_of(&row));
    buf_put_str16(&stream, "a", 1);
    buf_put_str32(&stream, NULL, 0);
    assert_int_equal(install(fixture, &stream, 0), ERR_CORRUPT);
    assert_non_null(strstr(fixture->error.text, "no row after row 0"));
    expect_rows(fixture, "a=1 ");
    buf_free(&stream);
}

/* --- sizes --- */

/* A key of the given length, and one of the largest values. */
static struct state_row largest(const uint8_t *bytes, size_t key_len)
{
    return (struct state_row){bytes, (uint32_t)key_len, bytes, LIMIT_ROW_VALUE_BYTES};
}

static int check_largest(void *data, const struct state_row *row)
{
    const struct state_row *want = data;

    assert_int_equal(row->key_len, want->key_len);
    assert_memory_equal(row->key, want->key, want->key_len);
    assert_int_equal(row->value_len, want->value_len);
    assert_memory_equal(row->value, want->value, want->value_len);
    return 0;
}

static void test_store_rows_of_the_largest_size(void **state)
{
    static uint8_t bytes[LIMIT_ROW_VALUE_BYTES];
    struct fixture *fixture = *state;
    struct state_row row = largest(bytes, LIMIT_ROW_KEY_BYTES);
    const struct state_row del = {bytes, LIMIT_ROW_KEY_BYTES, NULL, 0};
    struct store_position position;
    struct store_loaded loaded;
    struct buf stream = BUF_INIT;

    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = (uint8_t)(i * 7 + i / 251);
    }
    must_apply(fixture, &row, 1, hash_of(&row));
    reopen(fixture);
    assert_int_equal(
        fixture->store->ops->load(fixture->store, &loaded, check_largest, &row, &fixture->error),
        0);
    store_loaded_release(&loaded);
    assert_int_equal(gen_snapshot(fixture->store, 1, &stream, &position), 0);
    assert_int_equal(stream.len, LIMIT_ROW_BYTES);
    store_position_release(&position);
    must_apply(fixture, &del, 1, 0);
    expect_rows(fixture, "");
    assert_int_equal(install(fixture, &stream, hash_of(&row)), 0);
    assert_int_equal(
        fixture->store->ops->load(fixture->store, &loaded, check_largest, &row, &fixture->error),
        0);
    store_loaded_release(&loaded);
    buf_free(&stream);
}

/* A child that applies the row must end by an assertion. */
static void expect_death(struct fixture *fixture, const struct state_row *row)
{
    int status = 0;
    pid_t pid;

    if (!fixture->in_memory) {
        return; /* LMDB's lock is not for a forked child; the check is the engines' common one */
    }
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        const struct rlimit none = {0, 0};

        (void)setrlimit(RLIMIT_CORE, &none);
        (void)signal(SIGABRT, SIG_DFL); /* cmocka's would jump back into the test */
        (void)fclose(stderr);
        (void)apply(fixture, row, 1, hash_of(row));
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

/* The state machine makes no such rows: they are bugs of the caller. */
static void test_store_rows_beyond_the_largest_size(void **state)
{
    static uint8_t bytes[LIMIT_ROW_VALUE_BYTES + 1];
    struct fixture *fixture = *state;
    struct state_row row = largest(bytes, LIMIT_ROW_KEY_BYTES + 1);
    struct buf stream = BUF_INIT;

    expect_death(fixture, &row);
    row.key_len = 0;
    expect_death(fixture, &row);
    row = (struct state_row){bytes, 1, bytes, LIMIT_ROW_VALUE_BYTES + 1};
    expect_death(fixture, &row);
    row.value_len = 0; /* neither a value nor a deletion */
    expect_death(fixture, &row);
    /* From elsewhere they are damage. */
    buf_put_str16(&stream, bytes, LIMIT_ROW_KEY_BYTES + 1);
    buf_put_str32(&stream, bytes, 1);
    assert_int_equal(install(fixture, &stream, hash_row(bytes, LIMIT_ROW_KEY_BYTES + 1, bytes, 1)),
                     ERR_CORRUPT);
    buf_free(&stream);
    expect_rows(fixture, "");
}

/* --- many --- */

static int count_row(void *data, const struct state_row *row)
{
    assert_true(row->value_len > 0);
    ++*(size_t *)data;
    return 0;
}

/* Rows of a table of several pages: put, deleted and checked again after each tenth of it, in an
 * order of its own, until none is left. The open checks the pages of the file. */
static void test_store_rows_many_are_deleted(void **state)
{
    static char keys[MANY][12];
    static char values[MANY][64];
    static struct state_row rows[MANY];
    struct fixture *fixture = *state;
    struct store_loaded loaded;
    struct prng prng;
    uint64_t digest = 0;
    size_t count;

    prng_seed(&prng, 11);
    for (size_t i = 0; i < MANY; i++) {
        (void)snprintf(keys[i], sizeof keys[i], "%zu", i * 7919 % 1000003);
        memset(values[i], 'v', sizeof values[i]);
        rows[i] = (struct state_row){(const uint8_t *)keys[i], (uint32_t)strlen(keys[i]), values[i],
                                     (uint32_t)(1 + prng_below(&prng, sizeof values[i]))};
        digest += hash_of(&rows[i]);
    }
    must_apply(fixture, rows, MANY, digest);
    for (size_t i = MANY; i > 1; i--) {
        size_t other = (size_t)prng_below(&prng, i);
        struct state_row row = rows[i - 1];

        rows[i - 1] = rows[other];
        rows[other] = row;
    }
    for (size_t at = 0; at < MANY; at += MANY / 10) {
        for (size_t i = at; i < at + MANY / 10; i++) {
            digest -= hash_of(&rows[i]);
            rows[i].value = NULL;
            rows[i].value_len = 0;
        }
        must_apply(fixture, rows + at, MANY / 10, digest);
        reopen(fixture);
        count = 0;
        assert_int_equal(
            fixture->store->ops->load(fixture->store, &loaded, count_row, &count, &fixture->error),
            0);
        assert_int_equal(count, MANY - at - MANY / 10);
        store_loaded_release(&loaded);
    }
    assert_int_equal(digest, 0);
    expect_rows(fixture, "");
}

int main(void)
{
#define TESTS(setup)                                                                               \
    TEST(test_store_rows_are_deleted, setup), TEST(test_store_rows_change_in_order, setup),        \
        TEST(test_store_rows_absent_are_not_deleted, setup),                                       \
        TEST(test_store_rows_deleted_leave_the_digest, setup),                                     \
        TEST(test_store_rows_deleted_stay_in_older_snapshots, setup),                              \
        TEST(test_store_rows_install_wants_values, setup),                                         \
        TEST(test_store_rows_of_the_largest_size, setup),                                          \
        TEST(test_store_rows_beyond_the_largest_size, setup),                                      \
        TEST(test_store_rows_many_are_deleted, setup)
#define TEST(f, setup) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {TESTS(setup_lmdb), TESTS(setup_mem)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
