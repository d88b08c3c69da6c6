/*
 * test_damage.c - a data file that is emptied, cut, overwritten or has single bits flipped.
 *
 * Every case must end in a refusal that says what is wrong, or in a store with exactly the content
 * that was written, which then takes further operations and is whole after them: damage to a free
 * page may pass, damage to LMDB's own bookkeeping may not wait for a later write to do harm. Never
 * a crash, never other content.
 *
 * Shows attack-disk.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/tests/unit/test.h"
#include "src/base/assert.h"
#include "storage/lmdb/check.h"
#include "storage/lmdb/store.h"
#include "storage/tests/store_gen.h"
#include "storage/lmdb/tests/tmp_dir.h"

#define FLIPS 200
#define META_BYTES 168 /* of a meta page that LMDB writes */

enum outcome { REFUSED, UNHARMED };

/* A directory with a store, and what its data file and content were before the damage. */
struct stage {
    struct tmp_dir dir;
    char path[TMP_PATH_BYTES]; /* of the data file */
    struct store_lmdb_config config;
    struct buf file;
    struct buf content;
    uint64_t last;
    uint64_t term;
    unsigned counts[2]; /* by outcome */
};

static struct store *must_open(struct stage *stage)
{
    struct store_error error;
    struct store *store = NULL;
    bool made;

    if (store_lmdb_open(&stage->config, &store, &made, &error) != 0) {
        fail_msg("open: %s", error.text);
    }
    return store;
}

static int setup(void **state)
{
    struct stage *stage = calloc(1, sizeof *stage);
    struct store_error error;
    struct store *store;
    struct gen gen;

    ASSERT(stage != NULL);
    tmp_dir_make(&stage->dir);
    (void)tmp_dir_path(&stage->dir, "db/data.mdb", stage->path);
    stage->config =
        (struct store_lmdb_config){.dir = stage->dir.path,
                                   .map_bytes = 64 << 20,
                                   .identity = {.cluster_id = "d", .node_id = 1, .store_id = 1}};
    store = must_open(stage);
    gen_init(&gen, 2026);
    gen.max_entry_bytes = 600;
    for (unsigned i = 0; i < 250; i++) {
        ASSERT(gen_commit(store, gen_any(&gen), &error) == 0);
    }
    gen.max_entry_bytes = 6000; /* pages of their own */
    ASSERT(gen_commit(store, gen_hard_state(&gen, gen.term + 1, 1), &error) == 0);
    ASSERT(gen_commit(store, gen_append(&gen, gen.last + 1, 20), &error) == 0);
    ASSERT(gen_dump(store, &stage->content, &error) == 0);
    stage->last = gen.last;
    stage->term = gen.term;
    store->ops->close(store);
    gen_release(&gen);
    file_read(stage->path, &stage->file);
    *state = stage;
    return 0;
}

static int teardown(void **state)
{
    struct stage *stage = *state;

    tmp_dir_remove(&stage->dir);
    buf_free(&stage->file);
    buf_free(&stage->content);
    free(stage);
    return 0;
}

/* More operations on a store that seemed unharmed: they use free pages and move most others. */
static void work_on(struct stage *stage, const char *what)
{
    struct store *store = must_open(stage);
    struct store_error error = {""};
    struct buf before = BUF_INIT;
    struct buf after = BUF_INIT;
    struct gen gen;

    gen_init(&gen, 7);
    gen.term = stage->term;
    gen.last = stage->last;
    gen.max_entry_bytes = 3000;
    for (unsigned i = 0; i < 5; i++) {
        if (gen_commit(store, gen_append(&gen, gen.last + 1, 8), &error) != 0) {
            fail_msg("%s: later commit %u: %s", what, i, error.text);
        }
    }
    if (gen_dump(store, &before, &error) != 0) {
        fail_msg("%s: after later commits: %s", what, error.text);
    }
    store->ops->close(store);
    store = must_open(stage);
    assert_int_equal(gen_dump(store, &after, &error), 0);
    assert_int_equal(before.len, after.len);
    assert_memory_equal(before.data, after.data, before.len);
    store->ops->close(store);
    gen_release(&gen);
    buf_free(&before);
    buf_free(&after);
}

/* Put a damaged file in place and see what comes of it. */
static enum outcome try_file(struct stage *stage, const void *data, size_t len, const char *what)
{
    struct store_error error = {""};
    struct store *store = NULL;
    struct buf content = BUF_INIT;
    bool made;
    int err;

    file_write(stage->path, data, len);
    err = store_lmdb_open(&stage->config, &store, &made, &error);
    if (err == 0) {
        err = gen_dump(store, &content, &error);
        store->ops->close(store);
    }
    if (err != 0) {
        if ((err != ERR_CORRUPT && err != ERR_BAD_VERSION) || error.text[0] == '\0') {
            fail_msg("%s: refused with %s: %s", what, err_code(err), error.text);
        }
        buf_free(&content);
        stage->counts[REFUSED]++;
        return REFUSED;
    }
    if (content.len != stage->content.len ||
        memcmp(content.data, stage->content.data, content.len) != 0) {
        fail_msg("%s: taken with other content", what);
    }
    buf_free(&content);
    work_on(stage, what);
    stage->counts[UNHARMED]++;
    return UNHARMED;
}

static enum outcome try_flip(struct stage *stage, size_t byte, unsigned bit)
{
    enum outcome outcome;
    char what[64];

    (void)snprintf(what, sizeof what, "bit %u of byte %zu flipped", bit, byte);
    stage->file.data[byte] ^= (uint8_t)(1u << bit);
    outcome = try_file(stage, stage->file.data, stage->file.len, what);
    stage->file.data[byte] ^= (uint8_t)(1u << bit);
    return outcome;
}

static void test_damage_none(void **state)
{
    struct stage *stage = *state;

    assert_int_equal(try_file(stage, stage->file.data, stage->file.len, "nothing"), UNHARMED);
}

/* LMDB would take an empty file for a new database. */
static void test_damage_cut(void **state)
{
    struct stage *stage = *state;
    const size_t lens[] = {0,
                           1,
                           15,
                           16,
                           17,
                           43,
                           44,
                           160,
                           4095,
                           4096,
                           4097,
                           8191,
                           8192,
                           8193,
                           12288,
                           16384,
                           stage->file.len / 4,
                           stage->file.len / 2,
                           stage->file.len * 3 / 4};

    for (size_t i = 0; i < sizeof lens / sizeof lens[0]; i++) {
        char what[64];

        (void)snprintf(what, sizeof what, "cut to %zu bytes", lens[i]);
        assert_int_equal(try_file(stage, stage->file.data, lens[i], what), REFUSED);
    }
    /* The last pages may be free ones: refused or unharmed, as everywhere. */
    for (size_t pages = 1; pages <= 8; pages++) {
        (void)try_file(stage, stage->file.data, stage->file.len - 4096 * pages + 1,
                       "cut at the end");
    }
}

static void test_damage_overwritten(void **state)
{
    struct stage *stage = *state;
    uint8_t *bytes = calloc(1, stage->file.len);
    struct prng prng;

    assert_non_null(bytes);
    assert_int_equal(try_file(stage, bytes, stage->file.len, "zeros"), REFUSED);
    prng_seed(&prng, 5);
    for (size_t i = 0; i < stage->file.len; i++) {
        bytes[i] = (uint8_t)prng_next(&prng);
    }
    assert_int_equal(try_file(stage, bytes, stage->file.len, "noise"), REFUSED);
    /* True meta pages, noise behind them. */
    memcpy(bytes, stage->file.data, 8192);
    assert_int_equal(try_file(stage, bytes, stage->file.len, "noise behind meta pages"), REFUSED);
    /* Every page but the meta pages zeroed in turn. */
    for (size_t at = 8192; at < stage->file.len; at += 4096 * 3) {
        memcpy(bytes, stage->file.data, stage->file.len);
        memset(bytes + at, 0, 4096);
        (void)try_file(stage, bytes, stage->file.len, "a page zeroed");
    }
    free(bytes);
}

/* A page that another one's bytes were written to: each record in it is whole, and in a wrong
 * place. */
static void test_damage_misplaced_pages(void **state)
{
    struct stage *stage = *state;
    uint8_t *bytes = malloc(stage->file.len);
    size_t pages = stage->file.len / 4096;
    struct prng prng;

    assert_non_null(bytes);
    prng_seed(&prng, 6);
    for (unsigned i = 0; i < 40; i++) {
        size_t from = (size_t)prng_below(&prng, pages);
        size_t to = (size_t)prng_below(&prng, pages);

        memcpy(bytes, stage->file.data, stage->file.len);
        memcpy(bytes + to * 4096, stage->file.data + from * 4096, 4096);
        (void)try_file(stage, bytes, stage->file.len, "a page over another");
    }
    free(bytes);
}

/* The newest meta page lost: the one before it would give the state of one commit earlier. */
/* Shows P1-damage. */
static void test_damage_older_meta_page(void **state)
{
    struct stage *stage = *state;
    uint8_t *bytes = malloc(stage->file.len);

    assert_non_null(bytes);
    for (unsigned i = 0; i < 2; i++) {
        uint8_t *page = bytes + (size_t)i * 4096;

        memcpy(bytes, stage->file.data, stage->file.len);
        memcpy(page, stage->file.data + (size_t)(1 - i) * 4096, 4096);
        assert_int_equal(try_file(stage, bytes, stage->file.len, "meta page copied"), REFUSED);
        page[0] = (uint8_t)i; /* with its own page number */
        assert_int_equal(try_file(stage, bytes, stage->file.len, "meta page copied"), REFUSED);
        memset(page, 0, 4096);
        assert_int_equal(try_file(stage, bytes, stage->file.len, "meta page zeroed"), REFUSED);
    }
    free(bytes);
}

/* A bit of every second byte of the meta pages, and random bits of the whole file. */
/* Shows P1-damage. */
static void test_damage_flipped_bits(void **state)
{
    struct stage *stage = *state;
    unsigned refused = 0;
    struct prng prng;

    prng_seed(&prng, 20261120);
    for (size_t i = 0; i < META_BYTES; i++) {
        (void)try_flip(stage, i % 2 * 4096 + i, (unsigned)prng_below(&prng, 8));
    }
    /* The low bits of the two transaction numbers: one of them wrong would lose a commit. One of
     * them may look like a commit that failed at its end, and is finished then. */
    for (unsigned bit = 0; bit < 64; bit++) {
        size_t at = 16 + 24 + 96 + 8 + (bit / 32) * 4096 + bit % 32 / 8;

        refused += try_flip(stage, at, bit % 8) == REFUSED;
    }
    assert_in_range(refused, 63, 64);
    for (unsigned i = 0; i < FLIPS; i++) {
        size_t byte = (size_t)prng_below(&prng, stage->file.len);

        (void)try_flip(stage, byte, (unsigned)prng_below(&prng, 8));
    }
    print_message("%zu bytes: %u cases refused, %u unharmed\n", stage->file.len,
                  stage->counts[REFUSED], stage->counts[UNHARMED]);
    assert_true(stage->counts[REFUSED] > FLIPS / 4);
}

/* A last page that no file of this size can have is refused before anything is made for each page:
 * of 2^40 pages the check would take a terabyte. */
static void test_damage_last_page(void **state)
{
    struct stage *stage = *state;
    const size_t at = 16 + 24 + 96;

    for (unsigned bit = 20; bit < 64; bit++) {
        uint8_t *byte = &stage->file.data[at + bit % 2 * 4096 + bit / 8];
        struct store_error error;

        *byte ^= (uint8_t)(1u << bit % 8);
        file_write(stage->path, stage->file.data, stage->file.len);
        *byte ^= (uint8_t)(1u << bit % 8);
        assert_int_equal(lmdb_file_check(stage->path, &error), ERR_CORRUPT);
        assert_non_null(strstr(error.text, "the last page is"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_damage_none),
        cmocka_unit_test(test_damage_cut),
        cmocka_unit_test(test_damage_overwritten),
        cmocka_unit_test(test_damage_misplaced_pages),
        cmocka_unit_test(test_damage_older_meta_page),
        cmocka_unit_test(test_damage_flipped_bits),
        cmocka_unit_test(test_damage_last_page),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
