/*
 * test_failing.c - a disk that fails a commit at each of its writes and syncs, one after the
 * other: the commit says so, and started again the store has exactly the content before that commit
 * or with it, and goes on.
 *
 * This program's own pwrite(), writev(), fdatasync() and fsync() stand before libc's and fail on
 * demand: once, with nothing or half of it written, or from then on. LMDB answers a failed write of
 * its meta page by writing half of the old one back, so what is left depends on all of that.
 *
 * Thread: one.
 *
 * Shows P5-disk. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "src/tests/unit/test.h"
#include "src/base/assert.h"
#include "storage/lmdb/store.h"
#include "storage/tests/store_mem.h"
#include "storage/tests/store_gen.h"
#include "storage/lmdb/tests/tmp_dir.h"

#define COMMITS 150
#define SEEDS 2

/* ONCE_BY_QUOTA: once, with an error that means a full disk, while the disk has room. */
enum manner { ONCE, ONCE_BUT_DONE, ONCE_BY_QUOTA, SHORT, FROM_THEN_ON, MANNERS };

/* Which call on a regular file fails, and how. */
struct failure {
    bool on;
    enum manner manner;
    unsigned after; /* so many calls that succeed */
    unsigned calls;
    unsigned struck;
};

static struct failure failure;

struct world {
    struct tmp_dir dir;
    struct store_lmdb_config config;
    struct store *store;
    struct store *mem; /* the same operations, for the content that must be found */
    struct gen gen;
    struct buf before;
    struct buf now;
    unsigned as_before;
    unsigned as_now;
};

/* --- in libc's place --- */

static bool strikes(int fd)
{
    struct stat st;
    unsigned call;

    if (!failure.on || fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        return false;
    }
    call = failure.calls++;
    if (call < failure.after || (call > failure.after && failure.manner != FROM_THEN_ON)) {
        return false;
    }
    failure.struck++;
    return true;
}

static ssize_t fail_io(void)
{
    errno = failure.manner == ONCE_BY_QUOTA ? EDQUOT : EIO;
    return -1;
}

ssize_t pwrite(int fd, const void *data, size_t len, off_t at)
{
    if (!strikes(fd)) {
        return syscall(SYS_pwrite64, fd, data, len, at);
    }
    if (failure.manner == SHORT || failure.manner == ONCE_BUT_DONE) {
        (void)syscall(SYS_pwrite64, fd, data, failure.manner == SHORT ? len / 2 : len, at);
    }
    return fail_io();
}

ssize_t writev(int fd, const struct iovec *parts, int count)
{
    if (!strikes(fd)) {
        return syscall(SYS_writev, fd, parts, count);
    }
    if (failure.manner == SHORT || failure.manner == ONCE_BUT_DONE) {
        (void)syscall(SYS_writev, fd, parts, failure.manner == SHORT ? count / 2 : count);
    }
    return fail_io();
}

int fdatasync(int fd)
{
    return strikes(fd) ? (int)fail_io() : (int)syscall(SYS_fdatasync, fd);
}

int fsync(int fd)
{
    return strikes(fd) ? (int)fail_io() : (int)syscall(SYS_fsync, fd);
}

/* --- the test --- */

static void must_open(struct world *world)
{
    struct store_error error = {""};
    bool made;

    if (store_lmdb_open(&world->config, &world->store, &made, &error) != 0) {
        fail_msg("not opened again after call %u failed, manner %d: %s", failure.after,
                 (int)failure.manner, error.text);
    }
}

static void world_make(struct world *world, uint64_t seed)
{
    memset(world, 0, sizeof *world);
    tmp_dir_make(&world->dir);
    world->config = (struct store_lmdb_config){
        .dir = world->dir.path,
        .map_bytes = 64 << 20,
        .slice_rows = GEN_SLICE_ROWS,
        .identity = {.cluster_id = "failing", .node_id = 1, .store_id = 1}};
    world->mem = store_mem_new(&world->config.identity);
    gen_init(&world->gen, seed);
    world->gen.max_entry_bytes = seed % 2 == 1 ? 300 : 9000;
    must_open(world);
}

static void world_release(struct world *world)
{
    world->store->ops->close(world->store);
    store_mem_free(world->mem);
    gen_release(&world->gen);
    buf_free(&world->before);
    buf_free(&world->now);
    tmp_dir_remove(&world->dir);
}

/* Commit to the store; false if it failed, and then the store is opened anew. */
static bool commit_once(struct world *world, struct store_op_list *list)
{
    struct store_error error = {""};
    struct buf found = BUF_INIT;
    int err;

    failure.calls = failure.struck = 0;
    failure.on = true;
    err = world->store->ops->commit(world->store, list, &error);
    failure.on = false;
    assert_int_equal(err != 0, failure.struck > 0);
    if (err == 0) {
        return true;
    }
    assert_int_equal(err, failure.manner == ONCE_BY_QUOTA ? ERR_DISK_FULL : ERR_IO);
    assert_true(error.text[0] != '\0');
    world->store->ops->close(world->store);
    must_open(world);
    gen_must_dump(world->store, &found);
    if (gen_same(&found, &world->before)) {
        world->as_before++;
        err = ERR_IO;
    } else if (gen_same(&found, &world->now)) {
        world->as_now++;
        err = 0;
    } else {
        fail_msg("other content after call %u failed, manner %d", failure.after,
                 (int)failure.manner);
    }
    buf_free(&found);
    return err == 0;
}

/* An operation, tried until no call of it is left to fail, or until it was done all the same. */
static void run_commit(struct world *world, enum manner manner)
{
    struct store_op_list list = STAILQ_HEAD_INITIALIZER(list);
    struct store_op *op = gen_any(&world->gen);
    struct store_error error = {""};
    struct buf found = BUF_INIT;
    bool done = false;

    gen_must_dump(world->mem, &world->before);
    STAILQ_INSERT_TAIL(&list, op, link);
    assert_int_equal(world->mem->ops->commit(world->mem, &list, &error), 0);
    gen_must_dump(world->mem, &world->now);
    failure.manner = manner;
    for (failure.after = 0; !done; failure.after++) {
        assert_in_range(failure.after, 0, 1000);
        done = commit_once(world, &list);
    }
    gen_must_dump(world->store, &found);
    assert_true(gen_same(&found, &world->now));
    buf_free(&found);
    gen_op_free(op);
}

/* A seed each, so that each has the time of a test. */
static void test_failing_at_each_call(void **state)
{
    const uint64_t *seed = *state;
    struct world world;

    world_make(&world, *seed);
    for (unsigned commit = 0; commit < COMMITS; commit++) {
        run_commit(&world, (enum manner)(commit % MANNERS));
    }
    print_message("seed %u: %u commits failed and left nothing, %u were done all the same\n",
                  (unsigned)*seed, world.as_before, world.as_now);
    assert_true(world.as_before > COMMITS);
    assert_true(world.as_now > COMMITS / 8);
    world_release(&world);
}

int main(void)
{
    static uint64_t seeds[SEEDS];
    struct CMUnitTest tests[SEEDS];

    for (size_t i = 0; i < SEEDS; i++) {
        seeds[i] = i + 1;
        tests[i] =
            (struct CMUnitTest)cmocka_unit_test_prestate(test_failing_at_each_call, &seeds[i]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
