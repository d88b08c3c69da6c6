/*
 * test_records.c - the checksum of every record: single bits of what a record holds are
 * flipped in the data file, the checksum's own and the payload's, and the store must refuse itself
 * and name that record.
 *
 * Of the records of meta (identity, now, local records) each bit is flipped, or one of each byte
 * where they are long; of entries and rows some. test_damage.c flips bits anywhere: few of its
 * flips meet one of these, and the structure or another record may be what notices.
 *
 * Where a record lies in the file LMDB says itself: its map is the file.
 *
 * Thread: one.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "src/tests/unit/test.h"
#include "src/base/assert.h"
#include "storage/lmdb/record.h"
#include "storage/lmdb/store.h"
#include "storage/tests/store_gen.h"
#include "storage/lmdb/tests/tmp_dir.h"

#define RECORDS_MAX 128
#define WHOLE_BYTES 64 /* records up to so long have each bit flipped */

static const char *const meta_names[] = {"meta record identity", "meta record now",
                                         "meta record local.00", "meta record local.01",
                                         "meta record local.07"};

struct record {
    char name[96]; /* as the refusal has it */
    bool meta;
    size_t at; /* in the file */
    size_t len;
};

struct stage {
    struct tmp_dir dir;
    struct store_lmdb_config config;
    int fd; /* of the data file */
    struct buf file;
    struct prng prng;
    struct record records[RECORDS_MAX];
    size_t count;
    unsigned flips;
};

static void commit_local(struct store *store, uint32_t number, uint32_t len, uint8_t with)
{
    struct store_op_list list = STAILQ_HEAD_INITIALIZER(list);
    struct store_error error = {""};
    uint8_t data[600];
    struct store_op op = {
        .kind = STORE_LOCAL, .local_key = number, .local = data, .local_len = len};

    ASSERT(len <= sizeof data);
    memset(data, with, len);
    STAILQ_INSERT_TAIL(&list, &op, link);
    if (store->ops->commit(store, &list, &error) != 0) {
        fail_msg("local record %u: %s", number, error.text);
    }
}

/* Two entries of one length, which could stand in for each other. */
static void commit_twins(struct store *store, uint64_t index, uint64_t term)
{
    struct store_entry entries[] = {{.term = term, .type = 1, .len = 5, .data = "first"},
                                    {.term = term, .type = 1, .len = 5, .data = "other"}};
    struct store_op_list list = STAILQ_HEAD_INITIALIZER(list);
    struct store_error error = {""};
    struct store_op op = {
        .kind = STORE_APPEND, .index = index, .entries = entries, .entry_count = 2};

    STAILQ_INSERT_TAIL(&list, &op, link);
    if (store->ops->commit(store, &list, &error) != 0) {
        fail_msg("entries from %u: %s", (unsigned)index, error.text);
    }
}

/* A store with a record of each kind. */
static void make_store(struct stage *stage)
{
    struct store_error error = {""};
    struct store *store;
    struct gen gen;
    bool made;

    if (store_lmdb_open(&stage->config, &store, &made, &error) != 0) {
        fail_msg("open: %s", error.text);
    }
    gen_init(&gen, 12);
    gen.max_entry_bytes = 200;
    ASSERT(gen_commit(store, gen_hard_state(&gen, 5, 2), &error) == 0);
    ASSERT(gen_commit(store, gen_append(&gen, 1, 12), &error) == 0);
    ASSERT(gen_commit(store, gen_apply(&gen, 7, 15), &error) == 0);
    commit_twins(store, gen.last + 1, gen.term);
    commit_local(store, 0, 20, 1);
    commit_local(store, 1, 20, 2);
    commit_local(store, 7, 600, 3);
    store->ops->close(store);
    gen_release(&gen);
}

/* Where in the file a value lies: the page in the map begins with its number. */
static size_t place_of(const struct stage *stage, const MDB_val *value, size_t page_bytes)
{
    size_t within = (uintptr_t)value->mv_data % page_bytes;
    uint64_t page;
    size_t at;

    memcpy(&page, (const uint8_t *)value->mv_data - within, sizeof page);
    at = (size_t)page * page_bytes + within;
    ASSERT(at + value->mv_size <= stage->file.len);
    ASSERT(memcmp(stage->file.data + at, value->mv_data, value->mv_size) == 0);
    return at;
}

struct finding {
    struct stage *stage;
    enum lmdb_table table;
    size_t page_bytes;
};

/* lmdb_record_fn */
static int find_record(void *data, const MDB_val *key, const MDB_val *value)
{
    const struct finding *finding = data;
    struct record *record = &finding->stage->records[finding->stage->count++];

    ASSERT(finding->stage->count <= RECORDS_MAX);
    (void)lmdb_record_name(finding->table, key, record->name);
    record->meta = finding->table == LMDB_META;
    record->at = place_of(finding->stage, value, finding->page_bytes);
    record->len = value->mv_size;
    return 0;
}

static void find_records(struct stage *stage)
{
    struct store_error error;
    char path[TMP_PATH_BYTES];
    struct lmdb_env env;
    struct lmdb_txn txn;
    MDB_stat stat;

    ASSERT(lmdb_env_open(&env, tmp_dir_path(&stage->dir, "db", path), 0, MDB_RDONLY | MDB_NOLOCK,
                         &error) == 0);
    ASSERT(lmdb_begin(&env, MDB_RDONLY, &txn, &error) == 0);
    ASSERT(mdb_env_stat(env.env, &stat) == 0);
    for (unsigned table = 0; table < LMDB_TABLES; table++) {
        struct finding finding = {.stage = stage, .table = table, .page_bytes = stat.ms_psize};

        ASSERT(lmdb_record_each(&txn, table, find_record, &finding) == 0);
    }
    lmdb_abort(&txn);
    lmdb_env_close(&env);
}

static int setup(void **state)
{
    struct stage *stage = calloc(1, sizeof *stage);
    char path[TMP_PATH_BYTES];

    ASSERT(stage != NULL);
    tmp_dir_make(&stage->dir);
    stage->config =
        (struct store_lmdb_config){.dir = stage->dir.path,
                                   .map_bytes = 1 << 20,
                                   .identity = {.cluster_id = "r", .node_id = 1, .store_id = 1}};
    make_store(stage);
    file_read(tmp_dir_path(&stage->dir, "db/data.mdb", path), &stage->file);
    stage->fd = open(path, O_WRONLY | O_CLOEXEC);
    ASSERT(stage->fd >= 0);
    prng_seed(&stage->prng, 12);
    find_records(stage);
    *state = stage;
    return 0;
}

static int teardown(void **state)
{
    struct stage *stage = *state;

    ASSERT(close(stage->fd) == 0);
    tmp_dir_remove(&stage->dir);
    buf_free(&stage->file);
    free(stage);
    return 0;
}

static void write_at(const struct stage *stage, size_t at, const void *data, size_t len)
{
    ASSERT(pwrite(stage->fd, data, len, (off_t)at) == (ssize_t)len);
}

/* With the file as it now is: refused, by the name. */
static void must_refuse(const struct stage *stage, const char *name, const char *what)
{
    struct store_error error = {""};
    struct store *store = NULL;
    bool named;
    bool made;
    int err = store_lmdb_open(&stage->config, &store, &made, &error);

    if (err == 0) {
        store->ops->close(store);
        fail_msg("%s, %s: taken", name, what);
    }
    /* The check of the pages looks at the commit's number first, and has words of its own. */
    named = strstr(error.text, name) != NULL ||
            (strcmp(name, "meta record now") == 0 && strstr(error.text, "its record now") != NULL);
    if (err != ERR_CORRUPT || !named) {
        fail_msg("%s, %s: refused with %s: %s", name, what, err_code(err), error.text);
    }
}

static void flip(struct stage *stage, const struct record *record, size_t byte, unsigned bit)
{
    size_t at = record->at + byte;
    uint8_t flipped = stage->file.data[at] ^ (uint8_t)(1u << bit);
    char what[64];

    (void)snprintf(what, sizeof what, "bit %u of byte %zu of %zu", bit, byte, record->len);
    write_at(stage, at, &flipped, 1);
    must_refuse(stage, record->name, what);
    write_at(stage, at, &stage->file.data[at], 1);
    stage->flips++;
}

/* All its bits, or one if the record is long. */
static void flip_byte(struct stage *stage, const struct record *record, size_t byte)
{
    unsigned any = (unsigned)prng_below(&stage->prng, 8);

    for (unsigned bit = 0; bit < 8; bit++) {
        if (record->len <= WHOLE_BYTES || bit == any) {
            flip(stage, record, byte, bit);
        }
    }
}

/* Each test leaves the file as it was, and nothing that is refused changes it. */
static void must_be_whole(const struct stage *stage)
{
    struct store_error error = {""};
    struct store *store = NULL;
    struct buf now = BUF_INIT;
    char path[TMP_PATH_BYTES];
    bool made;

    file_read(tmp_dir_path(&stage->dir, "db/data.mdb", path), &now);
    assert_int_equal(now.len, stage->file.len);
    assert_memory_equal(now.data, stage->file.data, now.len);
    buf_free(&now);
    if (store_lmdb_open(&stage->config, &store, &made, &error) != 0) {
        fail_msg("whole: %s", error.text);
    }
    store->ops->close(store);
}

static const struct record *find(const struct stage *stage, const char *name)
{
    for (size_t i = 0; i < stage->count; i++) {
        if (strcmp(stage->records[i].name, name) == 0) {
            return &stage->records[i];
        }
    }
    fail_msg("there is no %s", name);
    return NULL;
}

/* Shows P1-damage. */
static void test_each_bit_of_a_meta_record(void **state)
{
    struct stage *stage = *state;
    size_t found = 0;

    for (size_t i = 0; i < sizeof meta_names / sizeof meta_names[0]; i++) {
        (void)find(stage, meta_names[i]);
    }
    for (size_t i = 0; i < stage->count; i++) {
        const struct record *record = &stage->records[i];

        for (size_t byte = 0; record->meta && byte < record->len; byte++) {
            flip_byte(stage, record, byte);
        }
        found += record->meta;
    }
    assert_int_equal(found, sizeof meta_names / sizeof meta_names[0]);
    print_message("%u bits of %zu meta records\n", stage->flips, found);
    must_be_whole(stage);
}

/* One of the checksum, one of the first field, two anywhere. */
static void test_bits_of_each_entry_and_row(void **state)
{
    struct stage *stage = *state;
    unsigned others = 0;

    for (size_t i = 0; i < stage->count; i++) {
        const struct record *record = &stage->records[i];

        if (record->meta) {
            continue;
        }
        flip(stage, record, (size_t)prng_below(&stage->prng, 4), 3);
        flip(stage, record, 4, (unsigned)prng_below(&stage->prng, 8));
        for (unsigned n = 0; n < 2; n++) {
            flip(stage, record, (size_t)prng_below(&stage->prng, record->len),
                 (unsigned)prng_below(&stage->prng, 8));
        }
        others++;
    }
    assert_in_range(others, 20, RECORDS_MAX);
    must_be_whole(stage);
}

/* Whole records, each with its own checksum, in each other's place: it covers the key, too. */
static void exchange(struct stage *stage, const char *one_name, const char *other_name)
{
    const struct record *one = find(stage, one_name);
    const struct record *other = find(stage, other_name);
    const uint8_t *file = stage->file.data;

    assert_int_equal(one->len, other->len);
    write_at(stage, one->at, file + other->at, one->len);
    must_refuse(stage, one_name, "another in its place");
    write_at(stage, other->at, file + one->at, one->len);
    must_refuse(stage, one_name, "both exchanged");
    write_at(stage, one->at, file + one->at, one->len);
    must_refuse(stage, other_name, "another in its place");
    write_at(stage, other->at, file + other->at, one->len);
    must_be_whole(stage);
}

static void test_records_in_each_others_place(void **state)
{
    exchange(*state, "meta record local.00", "meta record local.01");
    exchange(*state, "log entry 13", "log entry 14");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_each_bit_of_a_meta_record),
        TEST(test_bits_of_each_entry_and_row),
        TEST(test_records_in_each_others_place),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
