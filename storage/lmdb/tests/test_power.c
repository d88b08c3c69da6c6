/*
 * test_power.c - power loss at any moment: what LMDB wrote and did not sync may be there, may
 * be missing, whole or by sectors, in any mixture; what a commit acknowledged is there whatever of
 * the rest is.
 *
 * This program's own pwrite(), writev(), write(), fdatasync() and fsync() stand before libc's. They
 * note what LMDB does to the data file: `durable` is what a disk holds for certain, `pending` what
 * was written since the last sync. At moments drawn by a seed, around writes and syncs, a disk is
 * made from durable and some of pending; after the commit it is opened, and must hold exactly the
 * content after the last acknowledged commit, or after the one under way.
 *
 * The second test lets syncs do nothing and must see the loss: else the first would prove nothing.
 *
 * Thread: one.
 */
#include <fcntl.h>
#include <stdlib.h>
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

#define SEEDS 2
#define COMMITS 120
#define SECTOR_BYTES 512
#define IMAGES_PER_COMMIT 2
#define IMAGE_PERCENT 15 /* of the moments */

struct pending {
    size_t at;
    struct buf data;
};

/* What is known of the data file. */
struct recorder {
    bool on;
    bool ignore_syncs;
    dev_t device;
    ino_t inode;
    struct prng prng;
    struct buf durable;
    struct pending *pending;
    size_t pending_count;
    size_t pending_capacity;
    struct buf images[IMAGES_PER_COMMIT];
    unsigned image_count;
};

static struct recorder recorder;

/* Commits of one operation, by its kind. */
static unsigned committed[STORE_READ];

struct world {
    struct tmp_dir dir;
    struct tmp_dir after; /* where images are opened */
    struct store_lmdb_config config;
    struct store *store;
    struct store *mem; /* the same operations, for the content that must be found */
    struct gen gen;
    struct buf before;  /* content as of the last acknowledged commit */
    struct buf now;     /* and with the one under way */
    unsigned as_before; /* images found with the one */
    unsigned as_now;    /* or the other */
    unsigned lost;      /* or neither */
};

/* --- the disk --- */

/* A disk after a power loss at this moment. */
static void make_image(struct buf *image)
{
    /* All, nothing, whole writes or single sectors of what was not synced. */
    uint64_t mode = prng_below(&recorder.prng, 4);

    buf_free(image);
    buf_put(image, recorder.durable.data, recorder.durable.len);
    for (size_t i = 0; i < recorder.pending_count && mode > 0; i++) {
        const struct pending *pending = &recorder.pending[i];
        size_t step = mode == 3 ? SECTOR_BYTES : pending->data.len;

        for (size_t at = 0; at < pending->data.len; at += step) {
            size_t len = pending->data.len - at < step ? pending->data.len - at : step;

            if (mode == 1 || prng_below(&recorder.prng, 2) == 0) {
                file_put(image, pending->at + at, pending->data.data + at, len);
            }
        }
    }
}

static void moment(void)
{
    unsigned at = recorder.image_count;

    if (prng_below(&recorder.prng, 100) >= IMAGE_PERCENT) {
        return;
    }
    if (at < IMAGES_PER_COMMIT) {
        recorder.image_count++;
    } else { /* late moments count as much as early ones */
        at = (unsigned)prng_below(&recorder.prng, IMAGES_PER_COMMIT);
    }
    make_image(&recorder.images[at]);
}

static void forget_pending(void)
{
    for (size_t i = 0; i < recorder.pending_count; i++) {
        buf_free(&recorder.pending[i].data);
    }
    recorder.pending_count = 0;
}

static bool is_recorded(int fd)
{
    struct stat st;

    return recorder.on && fstat(fd, &st) == 0 && st.st_dev == recorder.device &&
           st.st_ino == recorder.inode;
}

static void note_write(int fd, size_t at, const void *data, size_t len)
{
    struct pending *pending;

    moment();
    if ((fcntl(fd, F_GETFL) & O_DSYNC) != 0) {
        file_put(&recorder.durable, at, data, len);
        moment();
        return;
    }
    if (recorder.pending_count == recorder.pending_capacity) {
        recorder.pending_capacity = 2 * recorder.pending_capacity + 16;
        recorder.pending =
            realloc(recorder.pending, recorder.pending_capacity * sizeof *recorder.pending);
        ASSERT(recorder.pending != NULL);
    }
    pending = &recorder.pending[recorder.pending_count++];
    *pending = (struct pending){at, BUF_INIT};
    buf_put(&pending->data, data, len);
}

static void note_sync(void)
{
    moment();
    if (recorder.ignore_syncs) {
        return;
    }
    for (size_t i = 0; i < recorder.pending_count; i++) {
        file_put(&recorder.durable, recorder.pending[i].at, recorder.pending[i].data.data,
                 recorder.pending[i].data.len);
    }
    forget_pending();
}

/* --- in libc's place --- */

ssize_t pwrite(int fd, const void *data, size_t len, off_t at)
{
    ssize_t done;

    if (is_recorded(fd)) {
        note_write(fd, (size_t)at, data, len);
    }
    done = syscall(SYS_pwrite64, fd, data, len, at);
    ASSERT_IMPLIES(is_recorded(fd), done == (ssize_t)len);
    return done;
}

ssize_t writev(int fd, const struct iovec *parts, int count)
{
    size_t at = is_recorded(fd) ? (size_t)lseek(fd, 0, SEEK_CUR) : 0;

    for (int i = 0; i < count && is_recorded(fd); i++) {
        note_write(fd, at, parts[i].iov_base, parts[i].iov_len);
        at += parts[i].iov_len;
    }
    return syscall(SYS_writev, fd, parts, count);
}

ssize_t write(int fd, const void *data, size_t len)
{
    if (is_recorded(fd)) {
        note_write(fd, (size_t)lseek(fd, 0, SEEK_CUR), data, len);
    }
    return syscall(SYS_write, fd, data, len);
}

/* The disk under the test need not be waited for: the one that is tested is the recorded one. */
static int sync_of(int fd, long number)
{
    if (is_recorded(fd)) {
        note_sync();
    }
    return recorder.on ? 0 : (int)syscall(number, fd);
}

int fdatasync(int fd)
{
    return sync_of(fd, SYS_fdatasync);
}

int fsync(int fd)
{
    return sync_of(fd, SYS_fsync);
}

/* --- the test --- */

static void begin_to_record(const char *path, uint64_t seed, bool ignore_syncs)
{
    struct stat st;

    assert_int_equal(stat(path, &st), 0);
    recorder = (struct recorder){.ignore_syncs = ignore_syncs};
    recorder.device = st.st_dev;
    recorder.inode = st.st_ino;
    prng_seed(&recorder.prng, seed);
    file_read(path, &recorder.durable);
    recorder.on = true;
}

static void world_make(struct world *world, uint64_t seed, bool ignore_syncs)
{
    char path[TMP_PATH_BYTES];
    struct store_error error = {""};
    struct buf marker = BUF_INIT;
    bool made;

    memset(world, 0, sizeof *world);
    tmp_dir_make(&world->dir);
    tmp_dir_make(&world->after);
    world->config = (struct store_lmdb_config){
        .dir = world->dir.path,
        .map_bytes = 64 << 20,
        .slice_rows = GEN_SLICE_ROWS,
        .identity = {.cluster_id = "power", .node_id = 1, .store_id = 1}};
    world->mem = store_mem_new(&world->config.identity);
    gen_init(&world->gen, seed);
    if (store_lmdb_open(&world->config, &world->store, &made, &error) != 0) {
        fail_msg("open: %s", error.text);
    }
    file_read(tmp_dir_path(&world->dir, "made", path), &marker);
    file_write(tmp_dir_path(&world->after, "made", path), marker.data, marker.len);
    assert_int_equal(mkdir(tmp_dir_path(&world->after, "db", path), 0700), 0);
    begin_to_record(tmp_dir_path(&world->dir, "db/data.mdb", path), seed, ignore_syncs);
    gen_must_dump(world->mem, &world->before);
    buf_free(&marker);
}

static void world_release(struct world *world)
{
    recorder.on = false;
    forget_pending();
    free(recorder.pending);
    buf_free(&recorder.durable);
    for (unsigned i = 0; i < IMAGES_PER_COMMIT; i++) {
        buf_free(&recorder.images[i]);
    }
    world->store->ops->close(world->store);
    store_mem_free(world->mem);
    gen_release(&world->gen);
    buf_free(&world->before);
    buf_free(&world->now);
    tmp_dir_remove(&world->dir);
    tmp_dir_remove(&world->after);
}

/* Start on a disk after a power loss. */
static void check_image(struct world *world, const struct buf *image, unsigned commit)
{
    struct store_lmdb_config config = world->config;
    char path[TMP_PATH_BYTES];
    struct store_error error = {"other content than any that was committed"};
    struct buf found = BUF_INIT;
    struct store *store = NULL;
    bool made;
    int err;

    config.dir = world->after.path;
    file_write(tmp_dir_path(&world->after, "db/data.mdb", path), image->data, image->len);
    err = store_lmdb_open(&config, &store, &made, &error);
    if (err == 0) {
        err = gen_dump(store, &found, &error);
        store->ops->close(store);
    }
    if (err == 0 && gen_same(&found, &world->before)) {
        world->as_before++;
    } else if (err == 0 && gen_same(&found, &world->now)) {
        world->as_now++;
    } else if (recorder.ignore_syncs) {
        world->lost++;
    } else {
        fail_msg("power lost in commit %u: %s", commit, error.text);
    }
    buf_free(&found);
}

/* What is acknowledged is on the disk, of whatever kind the operations were: no image has to be
 * drawn at the right moment to see that. */
static void expect_flushed(struct store_op *const ops[], unsigned count)
{
    if (recorder.ignore_syncs) {
        return;
    }
    if (recorder.pending_count > 0) {
        fail_msg("acknowledged with %u writes that were not synced; the first operation is of "
                 "kind %d",
                 (unsigned)recorder.pending_count, count > 0 ? (int)ops[0]->kind : -1);
    }
    for (unsigned i = 0; i < count; i++) {
        committed[ops[i]->kind] += count == 1;
    }
}

/* Commits of up to three operations, or of none, with power losses in them and between them. */
static void run_commits(struct world *world)
{
    for (unsigned commit = 1; commit <= COMMITS; commit++) {
        struct store_op_list list = STAILQ_HEAD_INITIALIZER(list);
        unsigned count = (unsigned)prng_below(&recorder.prng, 4);
        struct store_error error = {""};
        struct store_op *ops[3];

        for (unsigned i = 0; i < count; i++) {
            ops[i] = gen_any(&world->gen);
            STAILQ_INSERT_TAIL(&list, ops[i], link);
        }
        assert_int_equal(world->mem->ops->commit(world->mem, &list, &error), 0);
        gen_must_dump(world->mem, &world->now);
        if (world->store->ops->commit(world->store, &list, &error) != 0) {
            fail_msg("commit %u: %s", commit, error.text);
        }
        expect_flushed(ops, count);
        for (unsigned i = 0; i < recorder.image_count; i++) {
            check_image(world, &recorder.images[i], commit);
        }
        recorder.image_count = 0;
        world->before.len = 0; /* it was acknowledged */
        buf_put(&world->before, world->now.data, world->now.len);
        if (prng_below(&recorder.prng, 4) == 0) {
            make_image(&recorder.images[0]);
            check_image(world, &recorder.images[0], commit);
        }
        for (unsigned i = 0; i < count; i++) {
            gen_op_free(ops[i]);
        }
    }
}

/* Shows P1-power, P5-power, lesson-fsync. */
static void test_power_loss_keeps_what_was_acknowledged(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct world world;

        world_make(&world, seed, false);
        world.gen.max_entry_bytes = seed % 2 == 1 ? 300 : 9000;
        run_commits(&world);
        print_message("seed %u: %u losses without and %u with the commit under way\n",
                      (unsigned)seed, world.as_before, world.as_now);
        assert_true(world.as_before > COMMITS / 8);
        assert_true(world.as_now > 0);
        world_release(&world);
    }
    for (unsigned kind = 0; kind < STORE_READ; kind++) {
        assert_true(committed[kind] > 0);
    }
}

/* The test's own proof: a disk that lies about syncs loses commits. */
/* Shows P5-power. */
static void test_power_loss_is_seen_without_syncs(void **state)
{
    struct world world;

    (void)state;
    world_make(&world, 3, true);
    run_commits(&world);
    print_message("%u losses seen\n", world.lost);
    assert_true(world.lost > COMMITS / 8);
    world_release(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_power_loss_keeps_what_was_acknowledged),
        cmocka_unit_test(test_power_loss_is_seen_without_syncs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
