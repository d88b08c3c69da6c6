/*
 * test_locals.c - local records of the LMDB engine: at their limits, replaced, seen when one
 * is missing or is an earlier one; and a store of format 1, read as it is and changed by the first
 * commit. What both engines share is in test_store_mem.c and test_model.c.
 *
 * Damage that no flipped bit gives is done through LMDB itself, with right checksums. Thread: one.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/tests/unit/test.h"
#include "src/base/assert.h"
#include "src/base/hash.h"
#include "storage/lmdb/record.h"
#include "storage/lmdb/store.h"
#include "storage/lmdb/tests/tmp_dir.h"
#include "storage/tests/store_gen.h"

struct fixture {
    struct tmp_dir dir;
    char path[TMP_PATH_BYTES]; /* of the database */
    struct store_lmdb_config config;
    struct store *store;
    struct store_error error;
};

static void must_open(struct fixture *fixture)
{
    bool made;

    fixture->error.text[0] = '\0';
    if (store_lmdb_open(&fixture->config, &fixture->store, &made, &fixture->error) != 0) {
        fail_msg("open: %s", fixture->error.text);
    }
}

static void must_refuse(struct fixture *fixture, int err, const char *text)
{
    bool made;

    fixture->error.text[0] = '\0';
    assert_int_equal(store_lmdb_open(&fixture->config, &fixture->store, &made, &fixture->error),
                     err);
    if (strstr(fixture->error.text, text) == NULL) {
        fail_msg("the text is: %s", fixture->error.text);
    }
    fixture->store = NULL;
}

static void close_store(struct fixture *fixture)
{
    if (fixture->store != NULL) {
        fixture->store->ops->close(fixture->store);
    }
    fixture->store = NULL;
}

static int setup(void **state)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);

    ASSERT(fixture != NULL);
    tmp_dir_make(&fixture->dir);
    (void)tmp_dir_path(&fixture->dir, "db", fixture->path);
    fixture->config = (struct store_lmdb_config){
        .dir = fixture->dir.path,
        .map_bytes = 64 << 20,
        .identity = {.cluster_id = "locals", .node_id = 1, .store_id = 1}};
    must_open(fixture);
    *state = fixture;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *fixture = *state;

    close_store(fixture);
    tmp_dir_remove(&fixture->dir);
    free(fixture);
    return 0;
}

static struct store_op local(uint32_t key, const void *data, size_t len)
{
    return (struct store_op){
        .kind = STORE_LOCAL, .local_key = key, .local = data, .local_len = (uint32_t)len};
}

/* Commit copies of the operations in one list. */
static int commit(struct fixture *fixture, const struct store_op *ops, size_t count)
{
    struct store_op_list list = STAILQ_HEAD_INITIALIZER(list);
    struct store_op copies[LIMIT_LOCAL_RECORDS];

    ASSERT(count <= LIMIT_LOCAL_RECORDS);
    for (size_t i = 0; i < count; i++) {
        copies[i] = ops[i];
        STAILQ_INSERT_TAIL(&list, &copies[i], link);
    }
    return fixture->store->ops->commit(fixture->store, &list, &fixture->error);
}

static void must_put(struct fixture *fixture, uint32_t key, const char *text)
{
    struct store_op op = local(key, text, strlen(text));

    if (commit(fixture, &op, 1) != 0) {
        fail_msg("commit: %s", fixture->error.text);
    }
}

static int no_row(void *data, const struct state_row *row)
{
    (void)data;
    (void)row;
    return 0;
}

static void must_load(struct fixture *fixture, struct store_loaded *ret_loaded)
{
    if (fixture->store->ops->load(fixture->store, ret_loaded, no_row, NULL, &fixture->error) != 0) {
        fail_msg("load: %s", fixture->error.text);
    }
}

/* The record must be this text; empty: there is none. */
static void expect(struct fixture *fixture, uint32_t key, const char *text)
{
    struct store_loaded loaded;

    must_load(fixture, &loaded);
    assert_int_equal(loaded.locals[key].len, strlen(text));
    assert_memory_equal(loaded.locals[key].len > 0 ? (const void *)loaded.locals[key].data : "",
                        text, strlen(text));
    store_loaded_release(&loaded);
}

/* --- limits --- */

/* Every record there can be, each of the largest size, put twice. */
static void test_store_locals_all_of_the_largest(void **state)
{
    static uint8_t bytes[LIMIT_LOCAL_RECORDS][LIMIT_LOCAL_RECORD_BYTES];
    struct fixture *fixture = *state;
    struct store_op ops[LIMIT_LOCAL_RECORDS];
    struct store_loaded loaded;

    for (unsigned round = 0; round < 2; round++) {
        for (unsigned i = 0; i < LIMIT_LOCAL_RECORDS; i++) {
            memset(bytes[i], (int)(i + round * 100), sizeof bytes[i]);
            ops[i] = local(i, bytes[i], sizeof bytes[i]);
        }
        assert_int_equal(commit(fixture, ops, LIMIT_LOCAL_RECORDS), 0);
        close_store(fixture);
        must_open(fixture);
        must_load(fixture, &loaded);
        for (unsigned i = 0; i < LIMIT_LOCAL_RECORDS; i++) {
            assert_int_equal(loaded.locals[i].len, LIMIT_LOCAL_RECORD_BYTES);
            assert_memory_equal(loaded.locals[i].data, bytes[i], LIMIT_LOCAL_RECORD_BYTES);
        }
        store_loaded_release(&loaded);
    }
}

static void test_store_locals_beyond_the_limits(void **state)
{
    static const uint8_t bytes[LIMIT_LOCAL_RECORD_BYTES + 1];
    struct fixture *fixture = *state;
    const struct store_op bad[] = {
        local(LIMIT_LOCAL_RECORDS, bytes, 1),
        local(0, bytes, 0),
        local(LIMIT_LOCAL_RECORDS - 1, bytes, sizeof bytes),
    };

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(commit(fixture, &bad[i], 1), ERR_CORRUPT);
        assert_non_null(strstr(fixture->error.text, "at most number 81, 1 to 32768 bytes"));
    }
    expect(fixture, LIMIT_LOCAL_RECORDS - 1, "");
}

/* --- lists --- */

static void test_store_locals_last_of_a_list_counts(void **state)
{
    struct fixture *fixture = *state;
    const struct store_op ops[] = {local(3, "a", 1), local(81, "b", 1), local(3, "cc", 2)};

    assert_int_equal(commit(fixture, ops, 3), 0);
    expect(fixture, 3, "cc");
    close_store(fixture);
    must_open(fixture);
    expect(fixture, 3, "cc");
    expect(fixture, 81, "b");
    expect(fixture, 4, "");
}

/* A list that is refused leaves the records as they were, in memory and on disk. */
static void test_store_locals_of_a_refused_list(void **state)
{
    struct fixture *fixture = *state;
    const struct store_op ops[] = {local(3, "new", 3), local(4, "new", 3), local(5, "", 0)};

    must_put(fixture, 3, "old");
    assert_int_equal(commit(fixture, ops, 3), ERR_CORRUPT);
    expect(fixture, 3, "old");
    expect(fixture, 4, "");
    must_put(fixture, 6, "more"); /* carries nothing of the refused list */
    close_store(fixture);
    must_open(fixture);
    expect(fixture, 3, "old");
    expect(fixture, 4, "");
    expect(fixture, 6, "more");
}

/* A snapshot of another node's state is no reason to forget what is this node's own. */
static void test_store_locals_outlive_an_install(void **state)
{
    struct fixture *fixture = *state;
    struct gen gen;

    gen_init(&gen, 2);
    must_put(fixture, 20, "mine");
    assert_int_equal(gen_commit(fixture->store, gen_hard_state(&gen, 1, 0), &fixture->error), 0);
    assert_int_equal(gen_commit(fixture->store, gen_install(&gen, 5), &fixture->error), 0);
    expect(fixture, 20, "mine");
    close_store(fixture);
    must_open(fixture);
    expect(fixture, 20, "mine");
    gen_release(&gen);
}

/* --- through LMDB itself --- */

/* A write to the tables behind the store's back; the store is closed. */
struct raw {
    struct lmdb_env env;
    struct lmdb_txn txn;
    struct store_error error;
};

static void raw_begin(struct fixture *fixture, struct raw *raw)
{
    close_store(fixture);
    memset(raw, 0, sizeof *raw);
    assert_int_equal(
        lmdb_env_open(&raw->env, fixture->path, fixture->config.map_bytes, 0, &raw->error), 0);
    assert_int_equal(lmdb_begin(&raw->env, 0, &raw->txn, &raw->error), 0);
}

static void raw_put(struct raw *raw, const char *name, const struct buf *payload)
{
    assert_int_equal(lmdb_meta_put(&raw->txn, name, payload), 0);
}

static void raw_delete(struct raw *raw, const char *name)
{
    MDB_val key = {strlen(name), (void *)(uintptr_t)name};

    assert_int_equal(lmdb_record_delete(&raw->txn, LMDB_META, &key), 0);
}

static bool raw_has(struct raw *raw, const char *name)
{
    MDB_val key = {strlen(name), (void *)(uintptr_t)name};
    struct reader reader;

    return lmdb_record_get(&raw->txn, LMDB_META, &key, &reader) == 0;
}

/* Copy the record `now` as this transaction would write it, up to the list of local records; the
 * list, or another one, is put behind it. */
static void raw_put_now(struct raw *raw, const struct buf *list)
{
    struct buf payload = BUF_INIT;
    struct reader reader;
    size_t conf_len;
    size_t all;

    assert_int_equal(lmdb_meta_get(&raw->txn, LMDB_NOW, &reader), 0);
    all = reader_left(&reader);
    buf_put_u64(&payload, mdb_txn_id(raw->txn.txn));
    buf_put(&payload, reader.data + reader.at + 8, all - 8);
    for (unsigned i = 0; i < 10; i++) {
        (void)reader_u64(&reader);
    }
    (void)reader_str32(&reader, &conf_len);
    assert_false(reader.bad);
    if (list != NULL) {
        payload.len = all - reader_left(&reader);
        buf_put(&payload, list->data, list->len);
    }
    raw_put(raw, LMDB_NOW, &payload);
    buf_free(&payload);
}

static void raw_end(struct raw *raw, const struct buf *list)
{
    raw_put_now(raw, list);
    assert_int_equal(lmdb_end(&raw->txn, 0), 0);
    lmdb_env_close(&raw->env);
}

static void put_format(struct raw *raw, uint32_t format)
{
    struct buf payload = BUF_INIT;

    buf_put_u32(&payload, format);
    buf_put_str16(&payload, LMDB_FORMAT_MAGIC, strlen(LMDB_FORMAT_MAGIC));
    raw_put(raw, LMDB_IDENTITY, &payload);
    buf_free(&payload);
}

static void test_store_locals_miss_a_record(void **state)
{
    struct fixture *fixture = *state;
    struct raw raw;

    must_put(fixture, 7, "lease");
    raw_begin(fixture, &raw);
    raw_delete(&raw, "local.07");
    raw_end(&raw, NULL);
    must_refuse(fixture, ERR_CORRUPT, "meta record local.07 is missing");
}

/* Whole, with a right checksum of its own, but not the one that was written last. */
static void test_store_locals_see_an_earlier_record(void **state)
{
    struct fixture *fixture = *state;
    struct buf payload = BUF_INIT;
    struct raw raw;

    must_put(fixture, 7, "older");
    must_put(fixture, 7, "newer");
    raw_begin(fixture, &raw);
    buf_put(&payload, "older", 5);
    raw_put(&raw, "local.07", &payload);
    raw_end(&raw, NULL);
    must_refuse(fixture, ERR_CORRUPT, "meta record local.07: checksum is");
    buf_free(&payload);
}

static void test_store_locals_malformed(void **state)
{
    static const uint8_t zeros[LIMIT_LOCAL_RECORD_BYTES + 1];
    struct fixture *fixture = *state;
    const struct {
        unsigned number;
        size_t data_len; /* 0: no record of that number */
        size_t cut;
        const char *text;
    } cases[] = {
        {LIMIT_LOCAL_RECORDS, 1, 0, "meta record now is malformed"},
        {LIMIT_LOCAL_RECORDS - 1, sizeof zeros, 0, "meta record local.81 is malformed"},
        {3, 1, 1, "meta record now is malformed"},
        {3, 0, 0, "meta record local.03 is missing"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct buf list = BUF_INIT;
        struct buf data = BUF_INIT;
        char name[16];
        struct raw raw;

        raw_begin(fixture, &raw);
        (void)snprintf(name, sizeof name, "local.%02u", cases[i].number);
        if (cases[i].data_len > 0) {
            buf_put(&data, zeros, cases[i].data_len);
            raw_put(&raw, name, &data);
        } else if (raw_has(&raw, name)) {
            raw_delete(&raw, name);
        }
        buf_put_u16(&list, (uint16_t)cases[i].number);
        buf_put_u32(&list, hash_crc32c(data.data, data.len));
        list.len -= cases[i].cut;
        raw_end(&raw, &list);
        must_refuse(fixture, ERR_CORRUPT, cases[i].text);
        buf_free(&list);
        buf_free(&data);
    }
}

static void test_store_locals_named_twice(void **state)
{
    struct fixture *fixture = *state;
    struct buf list = BUF_INIT;
    struct raw raw;

    must_put(fixture, 7, "x");
    raw_begin(fixture, &raw);
    for (unsigned i = 0; i < 2; i++) {
        buf_put_u16(&list, 7);
        buf_put_u32(&list, hash_crc32c("x", 1));
    }
    raw_end(&raw, &list);
    must_refuse(fixture, ERR_CORRUPT, "meta record now is malformed");
    buf_free(&list);
}

/* --- formats --- */

static void test_store_of_another_format_is_refused(void **state)
{
    struct fixture *fixture = *state;
    struct raw raw;

    for (uint32_t format = 0; format <= LMDB_FORMAT_PIECES + 1; format++) {
        char rule[160];

        if (format >= LMDB_FORMAT_VERSION && format <= LMDB_FORMAT_PIECES) {
            continue;
        }
        raw_begin(fixture, &raw);
        put_format(&raw, format);
        raw_end(&raw, NULL);
        (void)snprintf(rule, sizeof rule,
                       "the store has format %" PRIu32 ", this leafd reads formats %d to %d: "
                       "start the leafd that wrote it, %s",
                       format, LMDB_FORMAT_VERSION, LMDB_FORMAT_PIECES,
                       format > LMDB_FORMAT_PIECES ? "or a newer one" : "take a backup");
        must_refuse(fixture, ERR_BAD_VERSION, rule);
    }
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_store_locals_all_of_the_largest),
        TEST(test_store_locals_beyond_the_limits),
        TEST(test_store_locals_last_of_a_list_counts),
        TEST(test_store_locals_of_a_refused_list),
        TEST(test_store_locals_outlive_an_install),
        TEST(test_store_locals_miss_a_record),
        TEST(test_store_locals_see_an_earlier_record),
        TEST(test_store_locals_malformed),
        TEST(test_store_locals_named_twice),
        TEST(test_store_of_another_format_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
