/*
 * test_room.c - how much LMDB could write now, while readers keep pages from being used again; and
 * which views end so that a change has room.
 *
 * Shows backup-slow. */
#include <dlfcn.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/quota.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/tests/unit/test.h"
#include "src/base/assert.h"
#include "storage/lmdb/record.h"
#include "storage/lmdb/store.h"
#include "storage/lmdb/tests/tmp_dir.h"
#include "storage/tests/store_gen.h"

#define MAP_BYTES (8 << 20)
#define PAGE_BYTES 4096
#define PAGE_VALUE_BYTES 4000                    /* a record of it takes a page of its own */
#define PAGES 1000                               /* that are written and left again */
#define TREE_PAGES (MAP_BYTES / PAGE_BYTES / 50) /* what leads to so many, and the free list */

struct fixture {
    struct tmp_dir dir;
    char path[TMP_PATH_BYTES];
    struct lmdb_env env;
    struct store *store;
    struct store_error error;
};

static int setup(void **state)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);

    ASSERT(fixture != NULL);
    tmp_dir_make(&fixture->dir);
    (void)tmp_dir_path(&fixture->dir, "data", fixture->path);
    *state = fixture;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *fixture = *state;

    lmdb_env_close(&fixture->env);
    if (fixture->store != NULL) {
        fixture->store->ops->close(fixture->store);
    }
    tmp_dir_remove(&fixture->dir);
    free(fixture);
    return 0;
}

/* --- the account --- */

static void open_env(struct fixture *fixture)
{
    assert_int_equal(
        lmdb_env_open(&fixture->env, fixture->path, MAP_BYTES, MDB_CREATE, &fixture->error), 0);
}

/* Put records of a page each from `first` on until `count` are there, or there is no room. Returns
 * how many are in. */
static size_t put_pages(struct lmdb_txn *txn, uint64_t first, size_t count)
{
    static const uint8_t data[PAGE_VALUE_BYTES];
    const struct lmdb_payload payload = {.data = data, .len = sizeof data};
    size_t done = 0;
    int err = 0;

    while (done < count && err == 0) {
        uint8_t key_bytes[LMDB_LOG_KEY_BYTES];
        MDB_val key = lmdb_log_key(first + done, key_bytes);

        err = lmdb_record_put(txn, LMDB_LOG, &key, &payload, MDB_APPEND);
        done += err == 0;
    }
    assert_true(err == 0 || err == ERR_DISK_FULL);
    return done;
}

/* PAGES are written, and left again. */
static void leave_pages(struct fixture *fixture)
{
    struct lmdb_txn txn;

    assert_int_equal(lmdb_begin(&fixture->env, 0, &txn, &fixture->error), 0);
    assert_int_equal(put_pages(&txn, 1, PAGES), PAGES);
    assert_int_equal(lmdb_end(&txn, 0), 0);
    assert_int_equal(lmdb_begin(&fixture->env, 0, &txn, &fixture->error), 0);
    assert_int_equal(lmdb_table_empty(&txn, LMDB_LOG), 0);
    assert_int_equal(lmdb_end(&txn, 0), 0);
}

/* What the last commit left is in use until the next one. */
static void commit_little(struct fixture *fixture)
{
    struct lmdb_txn txn;

    for (uint64_t i = 0; i < 2; i++) {
        uint8_t key_bytes[LMDB_LOG_KEY_BYTES];
        MDB_val key = lmdb_log_key(i, key_bytes);
        const struct lmdb_payload payload = {.data = &i, .len = sizeof i};

        assert_int_equal(lmdb_begin(&fixture->env, 0, &txn, &fixture->error), 0);
        assert_int_equal(lmdb_record_put(&txn, LMDB_META, &key, &payload, 0), 0);
        assert_int_equal(lmdb_end(&txn, 0), 0);
    }
}

/* The room that is told is what one transaction can write, to a few pages: never less than that is
 * there. Returns the pages. */
static size_t expect_room(struct fixture *fixture)
{
    struct store_space space;
    struct lmdb_txn txn;
    size_t pages;

    lmdb_env_space(&fixture->env, UINT64_MAX, &space);
    assert_int_equal(lmdb_begin(&fixture->env, 0, &txn, &fixture->error), 0);
    pages = put_pages(&txn, 1, MAP_BYTES);
    lmdb_abort(&txn);
    assert_in_range(pages, space.room_bytes / PAGE_BYTES - TREE_PAGES,
                    space.room_bytes / PAGE_BYTES);
    assert_int_equal(space.room_bytes, space.map_bytes - space.used_bytes);
    return pages;
}

static void test_room_is_what_can_be_written(void **state)
{
    struct fixture *fixture = *state;
    struct lmdb_txn reader;
    size_t fresh;

    assert_int_equal(mkdir(fixture->path, 0700), 0);
    open_env(fixture);
    fresh = expect_room(fixture);
    leave_pages(fixture);
    commit_little(fixture);
    assert_in_range(expect_room(fixture), fresh - TREE_PAGES, fresh); /* nobody looks: free again */

    assert_int_equal(lmdb_begin(&fixture->env, MDB_RDONLY, &reader, &fixture->error), 0);
    leave_pages(fixture); /* the pages are those that were free: the reader never saw them */
    commit_little(fixture);
    assert_in_range(expect_room(fixture), fresh - PAGES - TREE_PAGES, fresh - PAGES + TREE_PAGES);
    lmdb_abort(&reader);
    assert_in_range(expect_room(fixture), fresh - TREE_PAGES, fresh);
}

/* In a process of its own: a reader at what is committed, until it is killed. */
static pid_t other_reader(struct fixture *fixture)
{
    int ready[2];
    char byte = 0;
    pid_t pid;

    assert_int_equal(pipe(ready), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct lmdb_env env;
        struct lmdb_txn txn;
        struct store_error error;

        if (lmdb_env_open(&env, fixture->path, 0, 0, &error) != 0 ||
            lmdb_begin(&env, MDB_RDONLY, &txn, &error) != 0 || write(ready[1], "", 1) != 1) {
            _exit(1);
        }
        for (;;) {
            (void)pause();
        }
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    (void)close(ready[0]);
    (void)close(ready[1]);
    return pid;
}

/* Such as mdb_copy: what it looks at is in use, until it ends, of whatever. */
static void test_room_is_less_by_what_another_process_reads(void **state)
{
    struct fixture *fixture = *state;
    size_t fresh;
    int status;
    pid_t pid;

    assert_int_equal(mkdir(fixture->path, 0700), 0);
    open_env(fixture);
    fresh = expect_room(fixture);
    lmdb_env_close(&fixture->env); /* LMDB is not for both sides of a fork */
    pid = other_reader(fixture);
    open_env(fixture);
    leave_pages(fixture);
    commit_little(fixture);
    assert_in_range(expect_room(fixture), fresh - PAGES - TREE_PAGES, fresh - PAGES + TREE_PAGES);
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_in_range(expect_room(fixture), fresh - TREE_PAGES, fresh);
}

/* --- who is ended first --- */

static void open_store(struct fixture *fixture, struct gen *gen)
{
    const struct store_lmdb_config config = {
        .dir = fixture->path,
        .map_bytes = MAP_BYTES,
        .identity = {.cluster_id = "one", .node_id = 2, .store_id = 7}};
    bool made;

    gen_init(gen, 3);
    assert_int_equal(store_lmdb_open(&config, &fixture->store, &made, &fixture->error), 0);
    assert_int_equal(gen_commit(fixture->store, gen_hard_state(gen, 1, 1), &fixture->error), 0);
    assert_int_equal(gen_commit(fixture->store, gen_append(gen, 1, 4), &fixture->error), 0);
    assert_int_equal(gen_commit(fixture->store, gen_apply(gen, 4, 60), &fixture->error), 0);
}

/* A commit that leaves as many pages as it takes. */
static void churn(struct fixture *fixture, struct gen *gen)
{
    if (gen_commit(fixture->store, gen_hard_state(gen, gen->term + 1, 1), &fixture->error) != 0) {
        fail_msg("commit: %s", fixture->error.text);
    }
}

static struct store_snapshot *open_view(struct fixture *fixture)
{
    struct store_snapshot *view;
    struct store_position position;

    assert_int_equal(fixture->store->ops->snapshot_open(fixture->store, &view, &position), 0);
    return view;
}

static int read_view(struct fixture *fixture, struct store_snapshot *view)
{
    BUF_LOCAL(chunk);
    bool end;

    return fixture->store->ops->snapshot_read(fixture->store, view, 1, &chunk, &end);
}

static uint64_t room(struct fixture *fixture)
{
    struct store_space space;

    fixture->store->ops->space(fixture->store, &space);
    assert_false(space.low); /* a view ends before changes are refused */
    return space.room_bytes;
}

static uint64_t views_ended(struct fixture *fixture)
{
    struct store_space space;

    fixture->store->ops->space(fixture->store, &space);
    return space.views_ended;
}

/* Each look: the oldest view ends once half of the room of its begin is gone, and not before; what
 * it kept is used again, and the file grows no more. */
static void test_room_ends_the_oldest_view_first(void **state)
{
    struct fixture *fixture = *state;
    struct store_snapshot *first;
    struct store_snapshot *second;
    uint64_t at_first;
    uint64_t file_bytes;
    struct gen gen;

    open_store(fixture, &gen);
    at_first = room(fixture);
    first = open_view(fixture);
    file_bytes = fixture->store->file_bytes;
    while (room(fixture) > at_first / 4 * 3) {
        churn(fixture, &gen);
    }
    second = open_view(fixture);
    while (!atomic_load(&first->ended)) {
        churn(fixture, &gen);
        assert_true(room(fixture) >= at_first / 2 - 64 * PAGE_BYTES);
        assert_false(atomic_load(&second->ended));
    }
    assert_true(fixture->store->file_bytes - file_bytes <= at_first / 2 + 64 * PAGE_BYTES);
    assert_int_equal(views_ended(fixture), 1);
    assert_int_equal(read_view(fixture, first), ERR_DISK_FULL);
    assert_int_equal(read_view(fixture, second), 0);
    for (unsigned i = 0; i < 100000 && !atomic_load(&second->ended); i++) {
        churn(fixture, &gen);
        (void)room(fixture);
    }
    assert_true(atomic_load(&second->ended));
    file_bytes = fixture->store->file_bytes;
    for (unsigned i = 0; i < 1000; i++) {
        churn(fixture, &gen);
    }
    assert_int_equal(fixture->store->file_bytes, file_bytes);
    fixture->store->ops->snapshot_close(fixture->store, first);
    fixture->store->ops->snapshot_close(fixture->store, second);
    fixture->store->ops->snapshot_close(fixture->store, open_view(fixture)); /* by itself */
    assert_int_equal(views_ended(fixture), 2);
    gen_release(&gen);
}

/* However seldom somebody looks: no commit fails for a view. */
static void test_room_is_made_for_a_commit(void **state)
{
    struct fixture *fixture = *state;
    struct store_snapshot *views[LIMIT_STORE_SNAPSHOTS];
    struct gen gen;

    open_store(fixture, &gen);
    for (unsigned i = 0; i < LIMIT_STORE_SNAPSHOTS; i++) {
        views[i] = open_view(fixture);
        churn(fixture, &gen);
    }
    for (unsigned i = 0; i < LIMIT_STORE_SNAPSHOTS; i++) {
        while (!atomic_load(&views[i]->ended)) {
            churn(fixture, &gen);
        }
        for (unsigned j = i + 1; j < LIMIT_STORE_SNAPSHOTS; j++) {
            assert_true(!atomic_load(&views[j]->ended) || atomic_load(&views[j - 1]->ended));
        }
    }
    for (unsigned i = 0; i < 1000; i++) {
        churn(fixture, &gen);
    }
    (void)room(fixture);
    assert_int_equal(views_ended(fixture), LIMIT_STORE_SNAPSHOTS);
    for (unsigned i = 0; i < LIMIT_STORE_SNAPSHOTS; i++) {
        fixture->store->ops->snapshot_close(fixture->store, views[i]);
    }
    gen_release(&gen);
}

/* Where room is low by what is in use, a view can still be had, for the backup that an operator
 * wants just then; and it ends as any other. */
static void test_room_that_is_low_lends_a_view(void **state)
{
    struct fixture *fixture = *state;
    struct store_snapshot *view;
    struct store_space space = {0};
    struct gen gen;

    open_store(fixture, &gen);
    gen.max_entry_bytes = 16000;
    while (!space.low) {
        assert_int_equal(
            gen_commit(fixture->store, gen_append(&gen, gen.last + 1, 1), &fixture->error), 0);
        fixture->store->ops->space(fixture->store, &space);
    }
    view = open_view(fixture);
    churn(fixture, &gen);
    fixture->store->ops->space(fixture->store, &space);
    assert_true(space.low);
    assert_int_equal(read_view(fixture, view), 0);
    for (unsigned i = 0; i < 100000 && !atomic_load(&view->ended); i++) {
        churn(fixture, &gen);
        fixture->store->ops->space(fixture->store, &space);
    }
    assert_int_equal(read_view(fixture, view), ERR_DISK_FULL);
    fixture->store->ops->snapshot_close(fixture->store, view);
    gen_release(&gen);
}

/* --- the map --- */

static uint64_t map_of(struct fixture *fixture, uint64_t map_bytes, bool map_by_disk)
{
    const struct store_lmdb_config config = {
        .dir = fixture->path,
        .map_bytes = map_bytes,
        .map_by_disk = map_by_disk,
        .identity = {.cluster_id = "one", .node_id = 2, .store_id = 7}};
    struct store_space space;
    bool made;

    assert_int_equal(store_lmdb_open(&config, &fixture->store, &made, &fixture->error), 0);
    fixture->store->ops->space(fixture->store, &space);
    fixture->store->ops->close(fixture->store);
    fixture->store = NULL;
    return space.map_bytes;
}

/* Made and opened so: what is said counts, and where nothing is said the disk does. */
static void test_room_of_the_map_fits_the_disk(void **state)
{
    struct fixture *fixture = *state;
    struct statvfs fs;
    uint64_t disk_bytes;

    assert_int_equal(map_of(fixture, 1ULL << 44, false), 1ULL << 44);
    assert_int_equal(statvfs(fixture->path, &fs), 0);
    disk_bytes = (uint64_t)fs.f_blocks * fs.f_frsize;
    for (unsigned i = 0; i < 2; i++) {
        assert_in_range(map_of(fixture, 1ULL << 44, true), disk_bytes / 100 * 80 - (1 << 20),
                        disk_bytes / 100 * 80);
        assert_int_equal(map_of(fixture, MAP_BYTES, true), MAP_BYTES);
        tmp_dir_remove(&fixture->dir);
        tmp_dir_make(&fixture->dir);
        (void)tmp_dir_path(&fixture->dir, "data", fixture->path);
    }
}

/* This program's own syscall() stands before libc's, and answers the question for a quota while one
 * is set: not every kernel has quotas. */
static struct dqblk quotas[2]; /* of user, group */
static bool quotas_are_set;

long syscall(long number, ...)
{
    long (*next)(long number, ...);
    void *symbol = dlsym(RTLD_NEXT, "syscall");
    long a[6];
    va_list args;

    va_start(args, number);
    for (size_t i = 0; i < 6; i++) {
        a[i] = va_arg(args, long);
    }
    va_end(args);
    if (number == SYS_quotactl_fd && quotas_are_set) {
        unsigned type = (unsigned)a[1] & SUBCMDMASK;

        assert_int_equal((unsigned)a[1] >> SUBCMDSHIFT, Q_GETQUOTA);
        assert_int_equal(a[2], type == USRQUOTA ? geteuid() : getegid());
        memcpy((void *)(uintptr_t)a[3], &quotas[type], sizeof quotas[type]);
        return 0;
    }
    memcpy(&next, &symbol, sizeof next);
    return next(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

/* statvfs(2) knows of no user's or group's quota: the nearest of all limits is the room. */
static void test_room_of_a_quota(void **state)
{
    struct fixture *fixture = *state;
    const struct store_lmdb_config config = {
        .use = STORE_LMDB_NODE, .dir = fixture->path, .map_bytes = 1ULL << 30};
    struct store_space space;
    struct statvfs fs;
    bool made;

    assert_int_equal(store_lmdb_open(&config, &fixture->store, &made, &fixture->error), 0);
    quotas_are_set = true;
    for (unsigned type = 0; type < 4; type++) { /* soft and hard ones, of user and group */
        uint64_t *soft = &quotas[type % 2].dqb_bsoftlimit;
        uint64_t *limit = type < 2 ? &quotas[type % 2].dqb_bhardlimit : soft;

        memset(quotas, 0, sizeof quotas);
        quotas[type % 2].dqb_curspace = 10 << 20;
        *limit = (LIMIT_STORE_LOW_BYTES + (10 << 20)) / 1024; /* in KiB */
        fixture->store->ops->space(fixture->store, &space);
        assert_int_equal(space.disk_free_bytes, LIMIT_STORE_LOW_BYTES);
        assert_false(space.low);
        quotas[type % 2].dqb_curspace += 1 << 20; /* more than free pages */
        fixture->store->ops->space(fixture->store, &space);
        assert_int_equal(space.disk_free_bytes, LIMIT_STORE_LOW_BYTES - (1 << 20));
        assert_true(space.low);
        assert_string_equal(space.bound, type % 2 == USRQUOTA ? "the disk quota of the user"
                                                              : "the disk quota of the group");
        quotas[type % 2].dqb_curspace = UINT64_MAX; /* beyond it */
        fixture->store->ops->space(fixture->store, &space);
        assert_int_equal(space.disk_free_bytes, 0);
        quotas[type % 2].dqb_curspace = 0;
        *limit = UINT64_MAX / 1024; /* farther than the disk's end */
        fixture->store->ops->space(fixture->store, &space);
        assert_int_equal(statvfs(fixture->path, &fs), 0);
        assert_false(space.low);
        assert_true(space.disk_free_bytes <= (uint64_t)fs.f_blocks * fs.f_frsize);
    }
    quotas_are_set = false;
}

/* statvfs(2) does not know of RLIMIT_FSIZE: the room ends before writes fail, and comes back. */
static void test_room_of_a_file_that_may_not_grow(void **state)
{
    struct fixture *fixture = *state;
    const struct store_lmdb_config config = {
        .use = STORE_LMDB_NODE, .dir = fixture->path, .map_bytes = 1ULL << 30};
    struct store_space space;
    struct rlimit before;
    struct rlimit limit;
    bool made;

    assert_int_equal(store_lmdb_open(&config, &fixture->store, &made, &fixture->error), 0);
    fixture->store->ops->space(fixture->store, &space);
    assert_false(space.low);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    limit = before;
    limit.rlim_cur = space.used_bytes + LIMIT_STORE_LOW_BYTES + PAGE_BYTES;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    fixture->store->ops->space(fixture->store, &space);
    assert_false(space.low);
    assert_int_equal(space.disk_free_bytes, LIMIT_STORE_LOW_BYTES + PAGE_BYTES);
    limit.rlim_cur = space.used_bytes + LIMIT_STORE_LOW_BYTES / 2;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    fixture->store->ops->space(fixture->store, &space);
    assert_true(space.low);
    assert_int_equal(space.disk_free_bytes, LIMIT_STORE_LOW_BYTES / 2);
    assert_string_equal(space.bound, "the room within RLIMIT_FSIZE");
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    fixture->store->ops->space(fixture->store, &space);
    assert_false(space.low);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_room_is_what_can_be_written),
        TEST(test_room_is_less_by_what_another_process_reads),
        TEST(test_room_ends_the_oldest_view_first),
        TEST(test_room_is_made_for_a_commit),
        TEST(test_room_that_is_low_lends_a_view),
        TEST(test_room_of_the_map_fits_the_disk),
        TEST(test_room_of_a_quota),
        TEST(test_room_of_a_file_that_may_not_grow),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
