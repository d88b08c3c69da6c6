/*
 * test_writer.c - the writer's thread: one order for operations and reads, group commit and its
 * limits, the wait for company on a slow disk, the end of a failed commit, space that comes back,
 * and a disk that stands still.
 *
 * The writer stands on a store that counts commits and can hold one back, around a store in memory.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "src/tests/unit/test.h"
#include "src/base/assert.h"
#include "storage/disk.h"
#include "storage/tests/store_gen.h"
#include "storage/tests/store_mem.h"

#define RECORDS_MAX 4096

/* The counting store, the writer on it, and what came back. */
struct stage {
    struct store store; /* first */
    struct store *inner;
    struct writer *writer;
    struct disk *disk;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    unsigned commits;   /* guarded by mutex */
    unsigned held;      /* guarded by mutex: commits that wait at the gate */
    bool gate_shut;     /* guarded by mutex */
    unsigned held_from; /* the commit of this number and later ones never end; 0: none */
    unsigned owed;      /* slices that are not in place after a commit; set while one is held */
    unsigned notes;     /* guarded by mutex */
    _Atomic bool space_low;
    uint64_t order[RECORDS_MAX]; /* data of what came back, in order */
    size_t order_count;
    struct gen gen;
};

static struct store *inner_of(struct store *store)
{
    return ((struct stage *)store)->inner;
}

static int stage_load(struct store *store, struct store_loaded *ret_loaded, store_row_fn row_fn,
                      void *data, struct store_error *ret_error)
{
    return inner_of(store)->ops->load(inner_of(store), ret_loaded, row_fn, data, ret_error);
}

static int stage_commit(struct store *store, struct store_op_list *list,
                        struct store_error *ret_error)
{
    struct stage *stage = (struct stage *)store;

    ASSERT(pthread_mutex_lock(&stage->mutex) == 0);
    ASSERT_IMPLIES(STAILQ_EMPTY(list), stage->disk->ops->owes(stage->disk));
    stage->commits++;
    stage->held++;
    ASSERT(pthread_cond_broadcast(&stage->changed) == 0);
    while (stage->gate_shut || (stage->held_from != 0 && stage->commits >= stage->held_from)) {
        ASSERT(pthread_cond_wait(&stage->changed, &stage->mutex) == 0);
    }
    stage->held--;
    stage->owed -= stage->store.owes;
    stage->store.owes = stage->owed > 0;
    ASSERT(pthread_mutex_unlock(&stage->mutex) == 0);
    return stage->inner->ops->commit(stage->inner, list, ret_error);
}

static int stage_snapshot_open(struct store *store, struct store_snapshot **ret_snapshot,
                               struct store_position *ret_position)
{
    return inner_of(store)->ops->snapshot_open(inner_of(store), ret_snapshot, ret_position);
}

static int stage_snapshot_read(struct store *store, struct store_snapshot *snapshot,
                               size_t max_bytes, struct buf *chunk, bool *ret_end)
{
    return inner_of(store)->ops->snapshot_read(inner_of(store), snapshot, max_bytes, chunk,
                                               ret_end);
}

static void stage_snapshot_close(struct store *store, struct store_snapshot *snapshot)
{
    inner_of(store)->ops->snapshot_close(inner_of(store), snapshot);
}

static void stage_space(struct store *store, struct store_space *ret_space)
{
    *ret_space = (struct store_space){.low = atomic_load(&((struct stage *)store)->space_low)};
}

static void stage_close(struct store *store)
{
    inner_of(store)->ops->close(inner_of(store));
}

static const struct store_ops stage_ops = {
    .load = stage_load,
    .commit = stage_commit,
    .snapshot_open = stage_snapshot_open,
    .snapshot_read = stage_snapshot_read,
    .snapshot_close = stage_snapshot_close,
    .space = stage_space,
    .close = stage_close,
};

static void notify_cb(void *data)
{
    struct stage *stage = data;

    ASSERT(pthread_mutex_lock(&stage->mutex) == 0);
    stage->notes++;
    ASSERT(pthread_cond_broadcast(&stage->changed) == 0);
    ASSERT(pthread_mutex_unlock(&stage->mutex) == 0);
}

/* The contract says: does not return. The status tells the test that reason and text came along. */
static void failed_cb(void *data, int err, const struct store_error *error)
{
    (void)data;
    if (err == ERR_IO && strcmp(error->text, DISK_STANDS_AT_STOP) == 0) {
        _exit(43);
    }
    _exit(err == ERR_IO && strstr(error->text, "as the test asked") != NULL ? 42 : 1);
}

/* A disk whose flushes take, as it says, flush_us, and a writer that waits gather_max_us. */
static void stage_make_slow(struct stage *stage, uint64_t flush_us, uint32_t gather_max_us)
{
    static const struct store_identity identity = {.cluster_id = "w", .node_id = 1};
    const struct writer_config config = {
        .notify = notify_cb, .failed = failed_cb, .data = stage, .gather_max_us = gather_max_us};

    memset(stage, 0, sizeof *stage);
    stage->store.ops = &stage_ops;
    stage->store.flush_us = flush_us;
    stage->inner = store_mem_new(&identity);
    ASSERT(pthread_mutex_init(&stage->mutex, NULL) == 0);
    ASSERT(pthread_cond_init(&stage->changed, NULL) == 0);
    gen_init(&stage->gen, 1);
    assert_int_equal(writer_start(&stage->store, &config, &stage->writer), 0);
    stage->disk = writer_disk(stage->writer);
}

static void stage_make(struct stage *stage)
{
    stage_make_slow(stage, 0, 0);
}

/* After writer_stop(). */
static void stage_release(struct stage *stage)
{
    gen_release(&stage->gen);
    store_mem_free(stage->inner);
    ASSERT(pthread_mutex_destroy(&stage->mutex) == 0);
    ASSERT(pthread_cond_destroy(&stage->changed) == 0);
}

static void gate(struct stage *stage, bool shut)
{
    ASSERT(pthread_mutex_lock(&stage->mutex) == 0);
    stage->gate_shut = shut;
    ASSERT(pthread_cond_broadcast(&stage->changed) == 0);
    ASSERT(pthread_mutex_unlock(&stage->mutex) == 0);
}

static void wait_held(struct stage *stage)
{
    ASSERT(pthread_mutex_lock(&stage->mutex) == 0);
    while (stage->held == 0) {
        ASSERT(pthread_cond_wait(&stage->changed, &stage->mutex) == 0);
    }
    ASSERT(pthread_mutex_unlock(&stage->mutex) == 0);
}

/* Complete until `count` items came back in all. */
static void wait_completed(struct stage *stage, size_t count)
{
    while (stage->order_count < count) {
        ASSERT(pthread_mutex_lock(&stage->mutex) == 0);
        while (stage->notes == 0) {
            ASSERT(pthread_cond_wait(&stage->changed, &stage->mutex) == 0);
        }
        stage->notes = 0;
        ASSERT(pthread_mutex_unlock(&stage->mutex) == 0);
        (void)writer_complete(stage->writer);
    }
}

static unsigned commits(struct stage *stage)
{
    unsigned count;

    ASSERT(pthread_mutex_lock(&stage->mutex) == 0);
    count = stage->commits;
    ASSERT(pthread_mutex_unlock(&stage->mutex) == 0);
    return count;
}

static struct stage *the_stage;

static void op_done(struct store_op *op)
{
    struct stage *stage = the_stage;

    ASSERT(stage->order_count < RECORDS_MAX);
    stage->order[stage->order_count++] = (uint64_t)(uintptr_t)op->data;
    gen_op_free(op);
}

static void submit(struct stage *stage, struct store_op *op, uint64_t number)
{
    op->done = op_done;
    op->data = (void *)(uintptr_t)number;
    stage->disk->ops->submit(stage->disk, op);
}

/* A hundred operations that come while a commit runs are one commit, in order. */
static void test_writer_commits_in_groups(void **state)
{
    struct disk_figures figures;
    struct stage stage;

    (void)state;
    the_stage = &stage;
    stage_make(&stage);
    gate(&stage, true);
    submit(&stage, gen_hard_state(&stage.gen, 1, 0), 0);
    wait_held(&stage);
    for (uint64_t i = 1; i <= 100; i++) {
        submit(&stage, gen_append(&stage.gen, i, 1), i);
    }
    assert_int_equal(writer_complete(stage.writer), 0);
    gate(&stage, false);
    wait_completed(&stage, 101);
    assert_int_equal(commits(&stage), 2);
    stage.disk->ops->figures(stage.disk, &figures);
    assert_int_equal(histogram_count(&figures.commit), 2);
    assert_int_equal(histogram_count(&figures.flush), 2);
    assert_true(figures.commit.sum_us > 0);
    assert_int_equal(figures.flush.sum_us, 0); /* a store in memory */
    for (uint64_t i = 0; i <= 100; i++) {
        assert_int_equal(stage.order[i], i);
    }
    writer_stop(stage.writer, 30000);
    stage_release(&stage);
}

/* At LIMIT_STORE_BATCH_OPS one commit, one more makes another. */
static void test_writer_batch_limit_of_operations(void **state)
{
    (void)state;
    for (unsigned more = 0; more <= 1; more++) {
        struct stage stage;

        the_stage = &stage;
        stage_make(&stage);
        gate(&stage, true);
        submit(&stage, gen_hard_state(&stage.gen, 1, 0), 0);
        wait_held(&stage);
        for (uint64_t i = 0; i < LIMIT_STORE_BATCH_OPS + more; i++) {
            submit(&stage, gen_hard_state(&stage.gen, 2 + i, 0), 1 + i);
        }
        gate(&stage, false);
        wait_completed(&stage, 1 + LIMIT_STORE_BATCH_OPS + more);
        assert_int_equal(commits(&stage), 2 + more);
        writer_stop(stage.writer, 30000);
        stage_release(&stage);
    }
}

/* Entries that fill LIMIT_STORE_BATCH_BYTES to the byte are one commit, one byte more is two. */
static void test_writer_batch_limit_of_bytes(void **state)
{
    static char data[LIMIT_STORE_BATCH_BYTES / 4];

    (void)state;
    for (unsigned more = 0; more <= 1; more++) {
        struct stage stage;

        the_stage = &stage;
        stage_make(&stage);
        gate(&stage, true);
        submit(&stage, gen_hard_state(&stage.gen, 1, 0), 0);
        wait_held(&stage);
        for (uint64_t i = 1; i <= 4 + more; i++) {
            struct store_op *op = gen_append(&stage.gen, i, 1);
            struct store_entry *entry = (struct store_entry *)(uintptr_t)op->entries;

            free((void *)(uintptr_t)entry->data);
            entry->len = i <= 4 ? sizeof data : 1;
            entry->data = memcpy(malloc(entry->len), data, entry->len);
            submit(&stage, op, i);
        }
        gate(&stage, false);
        wait_completed(&stage, 5 + more);
        assert_int_equal(commits(&stage), 2 + more);
        writer_stop(stage.writer, 30000);
        stage_release(&stage);
    }
}

static void read_done(struct store_op *op)
{
    the_stage->order[the_stage->order_count++] = (uint64_t)(uintptr_t)op->data;
}

/* --- the wait for company --- */

#define HOUR_US 3600000000U
#define LONG_US 600000000U /* no test waits for it */
#define CLIENTS 32         /* entries of a commit */
#define ENTRY_BYTES 100

/* Append entries of one size at the end of the log. */
static void submit_entries(struct stage *stage, uint32_t count)
{
    struct store_op *op = gen_append(&stage->gen, stage->gen.last + 1, count);

    for (uint32_t i = 0; i < count; i++) {
        struct store_entry *entry = (struct store_entry *)(uintptr_t)&op->entries[i];

        free((void *)(uintptr_t)entry->data);
        entry->len = ENTRY_BYTES;
        entry->data = calloc(1, ENTRY_BYTES);
        ASSERT(entry->data != NULL);
    }
    submit(stage, op, 0);
}

/* A stage after two commits, the second one of so many entries. */
static void stage_make_gathering(struct stage *stage, uint64_t flush_us, uint32_t gather_max_us,
                                 uint32_t count)
{
    the_stage = stage;
    stage_make_slow(stage, flush_us, gather_max_us);
    gate(stage, true);
    submit(stage, gen_hard_state(&stage->gen, 1, 0), 0);
    wait_held(stage);
    submit_entries(stage, count);
    gate(stage, false);
    wait_completed(stage, 2);
    assert_int_equal(commits(stage), 2);
}

/* All who were in one commit are in the next, though one of them comes first; a few may stay away
 * and are not waited for. */
static void test_writer_waits_for_company(void **state)
{
    struct stage stage;

    (void)state;
    stage_make_gathering(&stage, HOUR_US, LONG_US, CLIENTS);
    for (unsigned round = 1; round <= 50; round++) {
        submit_entries(&stage, 1);
        submit_entries(&stage, CLIENTS - (round % 2 == 0 ? 1 : 3));
        wait_completed(&stage, 2 + 2 * round);
        assert_int_equal(commits(&stage), 2 + round);
    }
    writer_stop(stage.writer, 30000);
    stage_release(&stage);
}

/* Nobody waits where flushes are quick, where no longest wait is given, or where few were. */
static void test_writer_waits_for_nobody(void **state)
{
    static const struct {
        uint64_t flush_us;
        uint32_t gather_max_us;
        uint32_t before;
        uint32_t then;
    } cases[] = {{4999, LONG_US, CLIENTS, 1}, {HOUR_US, 0, CLIENTS, 1}, {HOUR_US, LONG_US, 1, 8}};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct stage stage;

        stage_make_gathering(&stage, cases[i].flush_us, cases[i].gather_max_us, cases[i].before);
        submit_entries(&stage, cases[i].then);
        wait_completed(&stage, 3);
        assert_int_equal(commits(&stage), 3);
        writer_stop(stage.writer, 30000);
        stage_release(&stage);
    }
}

/* Who waits for company goes without it in the end. */
static void test_writer_waits_no_longer_than_it_may(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 2; i++) { /* the bound, or a quarter of a flush */
        struct stage stage;

        stage_make_gathering(&stage, i == 0 ? HOUR_US : 20000, i == 0 ? 5000 : LONG_US, CLIENTS);
        for (size_t count = 3; count < 10; count++) {
            submit_entries(&stage, 1);
            wait_completed(&stage, count);
        }
        writer_stop(stage.writer, 30000);
        stage_release(&stage);
    }
}

/* A vote and a read do not wait, nor does who waited before them; nor is an end waited for. */
static void test_writer_hurries(void **state)
{
    struct disk_read read = {.max_bytes = 0, .close = true};
    struct stage stage;

    (void)state;
    stage_make_gathering(&stage, HOUR_US, LONG_US, CLIENTS);
    submit_entries(&stage, 1);
    submit(&stage, gen_hard_state(&stage.gen, 2, 0), 0);
    wait_completed(&stage, 4);
    submit(&stage, gen_hard_state(&stage.gen, 3, 0), 0);
    submit_entries(&stage, CLIENTS);
    wait_completed(&stage, 6);
    submit_entries(&stage, 1);
    read.op = (struct store_op){.kind = STORE_READ, .done = read_done};
    stage.disk->ops->submit(stage.disk, &read.op);
    wait_completed(&stage, 8);
    submit(&stage, gen_hard_state(&stage.gen, 4, 0), 0);
    submit_entries(&stage, CLIENTS);
    wait_completed(&stage, 10);
    submit_entries(&stage, 1);
    writer_stop(stage.writer, 30000);
    assert_int_equal(stage.order_count, 11);
    stage_release(&stage);
}

/* Submit an operation after which the store owes so many slices; it waits at the gate. */
static void submit_owed(struct stage *stage, unsigned slices)
{
    gate(stage, true);
    submit(stage, gen_hard_state(&stage->gen, 1, 0), 0);
    wait_held(stage);
    stage->owed = slices;
}

static void submit_read(struct stage *stage, struct disk_read *read, uint64_t number)
{
    read->op =
        (struct store_op){.kind = STORE_READ, .done = read_done, .data = (void *)(uintptr_t)number};
    stage->disk->ops->submit(stage->disk, &read->op);
}

/* A read between operations sees those before it and none after, and comes back in its place. */
static void test_writer_reads_in_order(void **state)
{
    struct stage stage;
    struct disk_read first = {.max_bytes = 100};
    struct disk_read rest = {.max_bytes = 1 << 20, .close = true};
    struct store_error error;
    uint64_t digest;

    (void)state;
    the_stage = &stage;
    stage_make(&stage);
    gate(&stage, true);
    submit(&stage, gen_hard_state(&stage.gen, 1, 0), 0);
    wait_held(&stage);
    submit(&stage, gen_append(&stage.gen, 1, 10), 1);
    submit(&stage, gen_apply(&stage.gen, 5, 30), 2);
    digest = stage.gen.position.digest;
    submit_read(&stage, &first, 3);
    submit(&stage, gen_apply(&stage.gen, 9, 30), 4);
    gate(&stage, false);
    wait_completed(&stage, 5);
    for (uint64_t i = 0; i < 5; i++) {
        assert_int_equal(stage.order[i], i);
    }
    assert_int_equal(first.status, 0);
    assert_int_equal(first.position.index, 5);
    assert_int_equal(first.position.digest, digest);
    assert_non_null(first.snapshot);
    assert_false(first.end);

    rest.snapshot = first.snapshot;
    buf_move(&rest.chunk, &first.chunk);
    submit_read(&stage, &rest, 5);
    wait_completed(&stage, 6);
    assert_int_equal(rest.status, 0);
    assert_true(rest.end);
    assert_null(rest.snapshot);
    assert_int_equal(store_rows_check(rest.chunk.data, rest.chunk.len, digest, &error), 0);
    store_position_release(&first.position);
    buf_free(&rest.chunk);
    writer_stop(stage.writer, 30000);
    stage_release(&stage);
}

/* A snapshot beyond LIMIT_STORE_SNAPSHOTS is refused in its read, and the writer lives on. */
static void test_writer_read_reports_errors(void **state)
{
    struct stage stage;
    struct disk_read reads[LIMIT_STORE_SNAPSHOTS + 1];

    (void)state;
    the_stage = &stage;
    stage_make(&stage);
    memset(reads, 0, sizeof reads);
    for (uint64_t i = 0; i <= LIMIT_STORE_SNAPSHOTS; i++) {
        submit_read(&stage, &reads[i], i);
    }
    wait_completed(&stage, LIMIT_STORE_SNAPSHOTS + 1);
    assert_int_equal(reads[LIMIT_STORE_SNAPSHOTS].status, ERR_OVERLOADED);
    assert_null(reads[LIMIT_STORE_SNAPSHOTS].snapshot);
    for (uint64_t i = 0; i < LIMIT_STORE_SNAPSHOTS; i++) {
        assert_int_equal(reads[i].status, 0);
        reads[i].close = true;
        submit_read(&stage, &reads[i], i);
    }
    wait_completed(&stage, 2 * LIMIT_STORE_SNAPSHOTS + 1);
    writer_stop(stage.writer, 30000);
    stage_release(&stage);
}

static void resubmit_done(struct store_op *op)
{
    struct stage *stage = the_stage;
    uint64_t number = (uint64_t)(uintptr_t)op->data;

    op_done(op);
    if (number < 20) {
        struct store_op *next = gen_append(&stage->gen, stage->gen.last + 1, 1);

        next->done = resubmit_done;
        next->data = (void *)(uintptr_t)(number + 1);
        stage->disk->ops->submit(stage->disk, next);
    }
}

/* Stopping carries out what is queued and what the last done() functions add. */
static void test_writer_stop_leaves_nothing(void **state)
{
    struct stage stage;
    struct store_op *op;

    (void)state;
    the_stage = &stage;
    stage_make(&stage);
    for (uint64_t i = 0; i < 50; i++) {
        submit(&stage, gen_hard_state(&stage.gen, 1 + i, 0), 100 + i);
    }
    op = gen_append(&stage.gen, 1, 1);
    op->done = resubmit_done;
    stage.disk->ops->submit(stage.disk, op);
    writer_stop(stage.writer, 30000);
    assert_int_equal(stage.order_count, 50 + 21);
    assert_int_equal(stage.order[50 + 20], 20);
    stage_release(&stage);
}

/* What the store owes is put in place at once before a view, and soon where there is no work. */
static void test_writer_puts_in_place_what_is_owed(void **state)
{
    struct disk_read read = {.max_bytes = 1 << 20, .close = true};
    struct stage stage;

    (void)state;
    the_stage = &stage;
    stage_make(&stage);
    submit_owed(&stage, 1000);
    submit_read(&stage, &read, 1);
    gate(&stage, false);
    wait_completed(&stage, 2);
    assert_int_equal(read.status, 0);
    assert_int_equal(commits(&stage), 1 + 1000);
    assert_false(stage.disk->ops->owes(stage.disk));
    submit_owed(&stage, 20);
    gate(&stage, false);
    wait_completed(&stage, 3);
    while (stage.disk->ops->owes(stage.disk)) {
        const struct timespec pause = {.tv_nsec = 5000000};

        (void)nanosleep(&pause, NULL); /* the condition has no signal: it is polled */
    }
    assert_int_equal(commits(&stage), 1 + 1000 + 1 + 20);
    disk_read_forget(&read);
    writer_stop(stage.writer, 30000);
    stage_release(&stage);
}

/* A commit that fails ends the process through failed(), with the reason. */
/* Shows P5-disk, lesson-fsync. */
static void test_writer_failed_commit_ends_the_process(void **state)
{
    int status = 0;
    pid_t pid = fork();

    (void)state;
    assert_true(pid >= 0);
    if (pid == 0) {
        struct stage stage;

        the_stage = &stage;
        stage_make(&stage);
        store_mem_fail_commit(stage.inner, 1, ERR_IO);
        submit(&stage, gen_hard_state(&stage.gen, 1, 0), 1);
        wait_completed(&stage, 1);
        _exit(2); /* the operation must not have been done */
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 42);
}

/* Low space is seen after commits; once it is back that is noticed with no commit at all. */
/* Shows P8-disk. */
static void test_writer_low_space_comes_and_goes(void **state)
{
    struct stage stage;
    uint64_t count = 0;

    (void)state;
    the_stage = &stage;
    stage_make(&stage);
    assert_false(stage.disk->ops->low(stage.disk));
    atomic_store(&stage.space_low, true);
    while (!stage.disk->ops->low(stage.disk)) {
        assert_true(count <= 101); /* looked at every 100 commits at the latest */
        submit(&stage, gen_hard_state(&stage.gen, 1 + count, 0), count);
        count++;
        wait_completed(&stage, count);
    }
    atomic_store(&stage.space_low, false);
    while (stage.disk->ops->low(stage.disk)) {
        const struct timespec pause = {.tv_nsec = 5000000};

        (void)nanosleep(&pause, NULL); /* the condition has no signal: it is polled */
    }
    assert_int_equal(commits(&stage), count);
    writer_stop(stage.writer, 30000);
    stage_release(&stage);
}

/* The disk is as full only when so many looks have found the same work, and only until it moves: it
 * was slow, or stood, or the machine was suspended. */
/* Shows P8-disk. */
static void test_writer_disk_stands_and_moves(void **state)
{
    struct disk_figures figures;
    struct stage stage;

    (void)state;
    the_stage = &stage;
    stage_make(&stage);
    for (uint64_t i = 0; i < 3; i++) {
        gate(&stage, true);
        submit(&stage, gen_hard_state(&stage.gen, 1 + i, 0), i);
        for (uint32_t looks = 1; looks <= DISK_STANDS_S + 2; looks++) {
            assert_int_equal(stage.disk->ops->low(stage.disk), looks > DISK_STANDS_S);
            stage.disk->ops->figures(stage.disk, &figures);
            assert_int_equal(figures.stood_s, looks);
        }
        assert_null(figures.space.bound);
        gate(&stage, false);
        wait_completed(&stage, i + 1);
        assert_false(stage.disk->ops->low(stage.disk));
        for (uint32_t looks = 0; looks <= DISK_STANDS_S; looks++) { /* no work: it does not stand */
            stage.disk->ops->figures(stage.disk, &figures);
            assert_int_equal(figures.stood_s, 0);
        }
    }
    writer_stop(stage.writer, 30000);
    stage_release(&stage);
}

/* What a stop must wait for: a write, and rows that the store owes, which the thread puts in place
 * at its end. */
/* Shows P5-disk. */
static void stop_on_a_disk_that_stands(bool owed)
{
    int status = 0;
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        struct stage stage;

        the_stage = &stage;
        stage_make(&stage);
        if (owed) {
            submit_owed(&stage, 1000);
            stage.held_from = 2;
            gate(&stage, false);
        } else {
            gate(&stage, true);
            submit(&stage, gen_hard_state(&stage.gen, 1, 0), 1);
        }
        writer_stop(stage.writer, 50);
        _exit(2);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 43);
}

static void test_writer_stop_ends_on_a_disk_that_stands(void **state)
{
    (void)state;
    stop_on_a_disk_that_stands(false);
    stop_on_a_disk_that_stands(true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_writer_commits_in_groups),
        cmocka_unit_test(test_writer_batch_limit_of_operations),
        cmocka_unit_test(test_writer_batch_limit_of_bytes),
        cmocka_unit_test(test_writer_waits_for_company),
        cmocka_unit_test(test_writer_waits_for_nobody),
        cmocka_unit_test(test_writer_waits_no_longer_than_it_may),
        cmocka_unit_test(test_writer_hurries),
        cmocka_unit_test(test_writer_reads_in_order),
        cmocka_unit_test(test_writer_read_reports_errors),
        cmocka_unit_test(test_writer_stop_leaves_nothing),
        cmocka_unit_test(test_writer_failed_commit_ends_the_process),
        cmocka_unit_test(test_writer_puts_in_place_what_is_owed),
        cmocka_unit_test(test_writer_low_space_comes_and_goes),
        cmocka_unit_test(test_writer_disk_stands_and_moves),
        cmocka_unit_test(test_writer_stop_ends_on_a_disk_that_stands),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
