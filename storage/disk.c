/*
 * disk.c - see disk.h.
 */
#include "storage/disk.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "src/base/assert.h"
#include "src/base/clock.h"
#include "src/base/container.h"

/* --- disk --- */

void disk_read_run(struct disk_read *read, struct store *store, size_t max_bytes)
{
    read->status = 0;
    if (read->snapshot == NULL) {
        struct store_position position;

        read->status = store->ops->snapshot_open(store, &read->snapshot, &position);
        if (read->status != 0) {
            read->snapshot = NULL;
            return;
        }
        store_position_copy(&read->position, &position);
    }
    if (max_bytes > 0) {
        read->status =
            store->ops->snapshot_read(store, read->snapshot, max_bytes, &read->chunk, &read->end);
    }
    if (read->close) {
        store->ops->snapshot_close(store, read->snapshot);
        read->snapshot = NULL;
    }
}

void disk_read_forget(struct disk_read *read)
{
    store_position_release(&read->position);
    buf_free(&read->chunk);
    *read = (struct disk_read){0};
}

/* --- disk_view --- */

static void view_read_cb(struct store_op *op)
{
    struct disk_view *view = op->data;

    ASSERT(view->reading && !view->back);
    view->back = true;
    if (view->abandoned) {
        disk_view_abandon(view);
    } else if (view->came != NULL) {
        view->came(view->data);
    }
}

static void view_submit(struct disk_view *view, size_t max_bytes)
{
    disk_read_forget(&view->read);
    view->reading = true;
    view->read = (struct disk_read){.op = {.kind = STORE_READ, .done = view_read_cb, .data = view},
                                    .snapshot = view->snapshot,
                                    .max_bytes = max_bytes,
                                    .close = max_bytes == 0};
    view->disk->ops->submit(view->disk, &view->read.op);
}

void disk_view_read(struct disk_view *view, size_t max_bytes)
{
    ASSERT(!view->reading && !view->dropped && max_bytes > 0);
    view_submit(view, max_bytes);
}

bool disk_view_take(struct disk_view *view)
{
    if (!view->back) {
        return false;
    }
    view->reading = false;
    view->back = false;
    view->first = view->snapshot == NULL;
    view->snapshot = view->read.close ? NULL : view->read.snapshot;
    view->index = view->first ? view->read.position.index : view->index;
    if (view->dropped) {
        view->dropped = false;
        disk_view_drop(view);
        return false;
    }
    return true;
}

void disk_view_drop(struct disk_view *view)
{
    if (view->reading) {
        view->dropped = true;
        return;
    }
    disk_read_forget(&view->read);
    if (view->snapshot != NULL) {
        view->dropped = true;
        view_submit(view, 0);
    }
}

void disk_view_abandon(struct disk_view *view)
{
    view->abandoned = true;
    if (view->back) {
        view->back = false;
        view->reading = false;
    }
    if (!view->reading) {
        disk_read_forget(&view->read);
    }
}

/*
 * --- writer
 *
 * Operations and reads wait in one queue, so a read sees exactly the operations before it. The
 * thread takes the whole queue, carries it out in groups (neighbouring operations up to the batch
 * limits are one transaction; a read is a group of its own), and appends each finished group to
 * `done`.
 *
 * On a slow disk a commit does not begin with the first operation. Clients that waited for the last
 * commit ask again within a millisecond or two of its end. A commit begun for the first of them
 * would make the others wait for its whole length, and so would each later commit: half of the
 * clients in a commit, half waiting for the next. So the thread gathers: it waits until the queued
 * entries have nearly the size of those of the last commit and those that came while it ran. It
 * waits at most for a GATHER_SHARE of the last flush's time and for gather_max_us. It does not wait
 * if flushes are quick, if no operation came for the length of a flush, if there are more clients
 * than could ask again in that time, or for a vote or a read.
 *
 * Space is measured after commits: every SPACE_COMMITS of them, SPACE_MS, or SPACE_BYTES of file
 * growth or of payload, which may go into free pages. While low it is also measured without
 * commits: proposals are then refused, so no commit would do it.
 *
 * A disk that stands still is known by looks, not by times: each look of a machine that was
 * suspended counts once, however long it was.
 */

#define SPACE_COMMITS 100
#define SPACE_MS 1000
#define SPACE_BYTES (1 << 20)
#define SETTLE_IDLE_US 5000  /* without work, then a commit of only the store's owed rows */
#define GATHER_FLUSH_US 5000 /* quicker flushes are not worth a wait */
#define GATHER_SHARE 4       /* of a flush */
#define GATHER_BYTES_A_US 1  /* growth of a busy cluster's entries, some 50,000 ids a second */
#define GATHER_MISSING 8     /* one in this many may not return, or come in fewer, larger entries */

struct writer {
    struct disk disk;
    struct store *store;
    struct writer_config config;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t wake;        /* the queue is not empty, or stopping */
    pthread_cond_t idle;        /* nothing is queued or taken, or the thread has ended */
    struct store_op_list queue; /* guarded by mutex */
    struct store_op_list done;  /* guarded by mutex */
    size_t left;                /* guarded by mutex: queued, or taken by the thread, and not done */
    size_t queued_bytes;        /* guarded by mutex: of entries in the queue */
    size_t wanted_bytes;        /* guarded by mutex: size that wakes the gathering thread */
    bool hurried;               /* guarded by mutex: queued operations must not wait for more */
    bool leaving;               /* guarded by mutex: nor must later ones */
    bool stopping;              /* guarded by mutex */
    bool ended;                 /* guarded by mutex: the thread will not use the store again */
    uint64_t moves;             /* guarded by mutex: groups that were finished */
    uint64_t seen_moves;        /* guarded by mutex: at the last look */
    uint32_t stood;             /* guarded by mutex: looks in a row without one, but with work */
    struct store_space space;   /* guarded by mutex: as of the last look */
    _Atomic bool low;
    _Atomic bool stands;     /* it finishes nothing */
    _Atomic bool owes;       /* as of the last commit */
    struct histogram commit; /* the thread notes */
    struct histogram flush;
    struct store_op_list work;      /* the thread's: the operations it took */
    size_t taken_bytes;             /* the thread's: of entries in `work` when taken */
    size_t company_bytes;           /* the thread's: these and those that came until it was done */
    unsigned commits;               /* the thread's: since space was measured */
    uint64_t space_ms;              /* the thread's: when space was measured */
    uint64_t space_file_bytes;      /* the thread's: file size then */
    uint64_t space_bytes;           /* the thread's: payload written since then */
    struct store_op_list completed; /* the driver's: whose done() is being called */
};

/* --- the thread --- */

static void refresh_space(struct writer *writer)
{
    struct store_space space;

    writer->store->ops->space(writer->store, &space);
    ASSERT(pthread_mutex_lock(&writer->mutex) == 0);
    writer->space = space;
    ASSERT(pthread_mutex_unlock(&writer->mutex) == 0);
    atomic_store_explicit(&writer->low, space.low, memory_order_relaxed);
    writer->commits = 0;
    writer->space_ms = clock_now_ms(clock_system());
    writer->space_file_bytes = writer->store->file_bytes;
    writer->space_bytes = 0;
}

static size_t entry_bytes(const struct store_op *op)
{
    size_t bytes = 0;

    for (uint32_t i = 0; i < op->entry_count; i++) {
        bytes += op->entries[i].len;
    }
    return bytes;
}

/* Commit the first operations, as many as fit a batch. They move to `group`; returns their
 * number. */
static size_t commit_group(struct writer *writer, struct store_op_list *group)
{
    struct store_error error = {""};
    uint64_t began_us = clock_now_us(clock_system());
    struct store_op *op;
    size_t bytes = 0;
    size_t count = 0;
    int err;

    while ((op = STAILQ_FIRST(&writer->work)) != NULL && op->kind != STORE_READ &&
           count < LIMIT_STORE_BATCH_OPS) {
        bytes += op->rows_stream_len + op->local_len + entry_bytes(op);
        for (uint32_t i = 0; i < op->row_count; i++) {
            bytes += op->rows[i].key_len + op->rows[i].value_len;
        }
        if (count > 0 && bytes > LIMIT_STORE_BATCH_BYTES) {
            break;
        }
        STAILQ_REMOVE_HEAD(&writer->work, link);
        STAILQ_INSERT_TAIL(group, op, link);
        count++;
    }
    err = writer->store->ops->commit(writer->store, group, &error);
    if (err != 0) {
        writer->config.failed(writer->config.data, err, &error);
        UNREACHABLE("failed() of the writer returned");
    }
    atomic_store_explicit(&writer->owes, writer->store->owes, memory_order_relaxed);
    histogram_note(&writer->commit, clock_now_us(clock_system()) - began_us, 1);
    histogram_note(&writer->flush, writer->store->flush_us, 1);
    writer->commits++;
    writer->space_bytes += bytes;
    if (writer->commits >= SPACE_COMMITS || writer->space_bytes >= SPACE_BYTES ||
        writer->store->file_bytes - writer->space_file_bytes >= SPACE_BYTES ||
        clock_now_ms(clock_system()) - writer->space_ms >= SPACE_MS) {
        refresh_space(writer);
    }
    return count;
}

static void must_settle(struct writer *writer)
{
    struct store_error error = {""};
    int err = store_settle(writer->store, &error);

    if (err != 0) {
        writer->config.failed(writer->config.data, err, &error);
        UNREACHABLE("failed() of the writer returned");
    }
    atomic_store_explicit(&writer->owes, false, memory_order_relaxed);
}

/* The time this many microseconds from now, by the conditions' clock. */
static struct timespec after_us(uint64_t us)
{
    struct timespec at;

    ASSERT(clock_gettime(CLOCK_MONOTONIC, &at) == 0);
    us += (uint64_t)at.tv_nsec / 1000;
    at.tv_sec += (time_t)(us / 1000000);
    at.tv_nsec = (long)(us % 1000000) * 1000;
    return at;
}

static bool is_gathered(const struct writer *writer)
{
    return writer->queued_bytes >= writer->wanted_bytes || writer->hurried || writer->leaving ||
           writer->stopping;
}

/* There is work: on a slow disk, wait for more. idle_us: time without work before. Mutex held. */
static void writer_gather(struct writer *writer, uint64_t idle_us)
{
    uint64_t flush_us = writer->store->flush_us;
    uint64_t limit_us = flush_us / GATHER_SHARE;
    struct timespec until;

    limit_us = limit_us < writer->config.gather_max_us ? limit_us : writer->config.gather_max_us;
    if (limit_us == 0 || flush_us < GATHER_FLUSH_US || idle_us > flush_us ||
        writer->company_bytes > limit_us * GATHER_BYTES_A_US) {
        return;
    }
    until = after_us(limit_us);
    writer->wanted_bytes = writer->company_bytes - writer->company_bytes / GATHER_MISSING;
    while (!is_gathered(writer) &&
           pthread_cond_timedwait(&writer->wake, &writer->mutex, &until) == 0) {
    }
    writer->wanted_bytes = 0;
}

/* Wait for work or the end, and move the queue to `work`; false at the end. While the store owes,
 * wait SETTLE_IDLE_US at most: `work` may be empty then. While space is low, measure it each
 * SPACE_MS. */
static bool take_work(struct writer *writer)
{
    uint64_t began_us = clock_now_us(clock_system());
    bool owes = writer->store->owes; /* then it has work soon */
    struct timespec until;
    bool more;

    ASSERT(pthread_mutex_lock(&writer->mutex) == 0);
    while (STAILQ_EMPTY(&writer->queue) && !writer->stopping) {
        if (owes || atomic_load_explicit(&writer->low, memory_order_relaxed)) {
            until = after_us(owes ? SETTLE_IDLE_US : SPACE_MS * 1000);
            (void)pthread_cond_timedwait(&writer->wake, &writer->mutex, &until);
        } else {
            ASSERT(pthread_cond_wait(&writer->wake, &writer->mutex) == 0);
        }
        if (owes) {
            break;
        }
        if (STAILQ_EMPTY(&writer->queue) && !writer->stopping) {
            ASSERT(pthread_mutex_unlock(&writer->mutex) == 0);
            refresh_space(writer);
            ASSERT(pthread_mutex_lock(&writer->mutex) == 0);
        }
    }
    if (!STAILQ_EMPTY(&writer->queue)) {
        writer_gather(writer, clock_now_us(clock_system()) - began_us);
    }
    STAILQ_CONCAT(&writer->work, &writer->queue);
    writer->taken_bytes = writer->queued_bytes;
    writer->queued_bytes = 0;
    writer->hurried = false;
    more = !STAILQ_EMPTY(&writer->work) || !writer->stopping;
    ASSERT(pthread_mutex_unlock(&writer->mutex) == 0);
    return more;
}

/* Carry out one group after the other, and return each. */
static void *writer_run(void *data)
{
    struct store_op_list group = STAILQ_HEAD_INITIALIZER(group);
    struct writer *writer = data;
    struct disk_read *read;
    struct store_op *op;
    size_t count;

    (void)pthread_setname_np(pthread_self(), "leafd-writer");
    while (take_work(writer)) {
        if (STAILQ_EMPTY(&writer->work) && writer->store->owes) {
            (void)commit_group(writer, &group);
        }
        while ((op = STAILQ_FIRST(&writer->work)) != NULL) {
            read = disk_read_of(op);
            if (op->kind == STORE_READ && read->snapshot == NULL) {
                must_settle(writer);
            }
            if (op->kind != STORE_READ) {
                count = commit_group(writer, &group);
            } else {
                STAILQ_REMOVE_HEAD(&writer->work, link);
                STAILQ_INSERT_TAIL(&group, op, link);
                disk_read_run(read, writer->store, read->max_bytes);
                count = 1;
            }
            ASSERT(pthread_mutex_lock(&writer->mutex) == 0);
            STAILQ_CONCAT(&writer->done, &group);
            writer->company_bytes = writer->taken_bytes + writer->queued_bytes;
            writer->left -= count;
            writer->moves++;
            writer->stood = 0;
            atomic_store_explicit(&writer->stands, false, memory_order_relaxed);
            if (writer->left == 0) {
                ASSERT(pthread_cond_signal(&writer->idle) == 0);
            }
            ASSERT(pthread_mutex_unlock(&writer->mutex) == 0);
            writer->config.notify(writer->config.data);
        }
    }
    must_settle(writer);
    ASSERT(pthread_mutex_lock(&writer->mutex) == 0);
    writer->ended = true;
    ASSERT(pthread_cond_signal(&writer->idle) == 0);
    ASSERT(pthread_mutex_unlock(&writer->mutex) == 0);
    return NULL;
}

/* --- the driver --- */

static void writer_submit(struct disk *disk, struct store_op *op)
{
    struct writer *writer = CONTAINER(disk, struct writer, disk);

    const bool more = op->more; /* once queued, the thread owns the operation */
    const size_t bytes = op->kind == STORE_APPEND ? entry_bytes(op) : 0;
    const bool hurried =
        op->kind != STORE_APPEND && op->kind != STORE_APPLY && op->kind != STORE_COMPACT;
    bool wake;

    ASSERT(op->done != NULL);
    ASSERT(pthread_mutex_lock(&writer->mutex) == 0);
    ASSERT(!writer->stopping);
    STAILQ_INSERT_TAIL(&writer->queue, op, link);
    writer->left++;
    writer->queued_bytes += bytes;
    writer->hurried = writer->hurried || hurried;
    wake = !more && is_gathered(writer);
    ASSERT(pthread_mutex_unlock(&writer->mutex) == 0);
    if (wake) { /* after the unlock: the woken thread finds the mutex free */
        ASSERT(pthread_cond_signal(&writer->wake) == 0);
    }
}

static bool writer_low(struct disk *disk)
{
    const struct writer *writer = CONTAINER(disk, struct writer, disk);

    return atomic_load_explicit(&writer->low, memory_order_relaxed) ||
           atomic_load_explicit(&writer->stands, memory_order_relaxed);
}

static bool writer_owes(struct disk *disk)
{
    return atomic_load_explicit(&CONTAINER(disk, struct writer, disk)->owes, memory_order_relaxed);
}

static void writer_figures(struct disk *disk, struct disk_figures *ret_figures)
{
    struct writer *writer = CONTAINER(disk, struct writer, disk);

    *ret_figures = (struct disk_figures){0};
    ASSERT(pthread_mutex_lock(&writer->mutex) == 0);
    writer->stood = writer->left > 0 && writer->moves == writer->seen_moves ? writer->stood + 1 : 0;
    writer->seen_moves = writer->moves;
    atomic_store_explicit(&writer->stands, writer->stood >= DISK_STANDS_S, memory_order_relaxed);
    ret_figures->stood_s = writer->stood;
    ret_figures->space = writer->space;
    if (writer->stood >= DISK_STANDS_S) {
        ret_figures->space.bound = NULL; /* it is not room that lacks */
    }
    ASSERT(pthread_mutex_unlock(&writer->mutex) == 0);
    histogram_add(&ret_figures->commit, &writer->commit);
    histogram_add(&ret_figures->flush, &writer->flush);
}

static const struct disk_ops writer_disk_ops = {
    .submit = writer_submit,
    .low = writer_low,
    .owes = writer_owes,
    .figures = writer_figures,
};

static void writer_free(struct writer *writer)
{
    ASSERT(pthread_cond_destroy(&writer->wake) == 0);
    ASSERT(pthread_cond_destroy(&writer->idle) == 0);
    ASSERT(pthread_mutex_destroy(&writer->mutex) == 0);
    free(writer);
}

int writer_start(struct store *store, const struct writer_config *config,
                 struct writer **ret_writer)
{
    struct writer *writer = MUST_HAVE(calloc(1, sizeof *writer));
    pthread_condattr_t attr;
    sigset_t before;
    sigset_t all;
    int rc;

    ASSERT(config->notify != NULL && config->failed != NULL);
    writer->disk.ops = &writer_disk_ops;
    writer->store = store;
    writer->config = *config;
    STAILQ_INIT(&writer->queue);
    STAILQ_INIT(&writer->done);
    STAILQ_INIT(&writer->work);
    STAILQ_INIT(&writer->completed);
    ASSERT(pthread_mutex_init(&writer->mutex, NULL) == 0);
    ASSERT(pthread_condattr_init(&attr) == 0);
    ASSERT(pthread_condattr_setclock(&attr, CLOCK_MONOTONIC) == 0);
    ASSERT(pthread_cond_init(&writer->wake, &attr) == 0);
    ASSERT(pthread_cond_init(&writer->idle, &attr) == 0);
    ASSERT(pthread_condattr_destroy(&attr) == 0);
    refresh_space(writer);
    /* Signals are the main thread's: the writer begins with all of them blocked. */
    (void)sigfillset(&all);
    ASSERT(pthread_sigmask(SIG_SETMASK, &all, &before) == 0);
    rc = pthread_create(&writer->thread, NULL, writer_run, writer);
    ASSERT(pthread_sigmask(SIG_SETMASK, &before, NULL) == 0);
    if (rc != 0) {
        writer_free(writer);
        return ERR_NOMEM;
    }
    *ret_writer = writer;
    return 0;
}

struct disk *writer_disk(struct writer *writer)
{
    return &writer->disk;
}

size_t writer_complete(struct writer *writer)
{
    struct store_op *op;
    size_t count = 0;

    ASSERT(STAILQ_EMPTY(&writer->completed)); /* never from inside a done() */
    ASSERT(pthread_mutex_lock(&writer->mutex) == 0);
    STAILQ_CONCAT(&writer->completed, &writer->done);
    ASSERT(pthread_mutex_unlock(&writer->mutex) == 0);
    while ((op = STAILQ_FIRST(&writer->completed)) != NULL) {
        STAILQ_REMOVE_HEAD(&writer->completed, link);
        op->done(op);
        count++;
    }
    return count;
}

/* Wait for the thread: callers look again. After until_ms: failed(). By the clock and not by what
 * the wait returns, which libfaketime ends too early. Mutex held. */
static void writer_await(struct writer *writer, uint64_t until_ms)
{
    static const struct store_error error = {DISK_STANDS_AT_STOP};
    uint64_t now_ms = clock_now_ms(clock_system());
    struct timespec until;

    if (now_ms >= until_ms) {
        writer->config.failed(writer->config.data, ERR_IO, &error);
        UNREACHABLE("failed() of the writer returned");
    }
    until = after_us((until_ms - now_ms) * 1000);
    (void)pthread_cond_timedwait(&writer->idle, &writer->mutex, &until);
}

void writer_stop(struct writer *writer, uint32_t within_ms)
{
    uint64_t until_ms = clock_now_ms(clock_system()) + within_ms;
    bool more = true;

    ASSERT(pthread_mutex_lock(&writer->mutex) == 0);
    writer->leaving = true;
    ASSERT(pthread_cond_signal(&writer->wake) == 0);
    ASSERT(pthread_mutex_unlock(&writer->mutex) == 0);
    /* A done() may submit again: repeat until nothing is left. */
    while (more) {
        ASSERT(pthread_mutex_lock(&writer->mutex) == 0);
        while (writer->left > 0) {
            writer_await(writer, until_ms);
        }
        more = !STAILQ_EMPTY(&writer->done);
        writer->stopping = !more;
        ASSERT(pthread_cond_signal(&writer->wake) == 0);
        ASSERT(pthread_mutex_unlock(&writer->mutex) == 0);
        (void)writer_complete(writer);
    }
    ASSERT(pthread_mutex_lock(&writer->mutex) == 0);
    while (!writer->ended) {
        writer_await(writer, until_ms);
    }
    ASSERT(pthread_mutex_unlock(&writer->mutex) == 0);
    ASSERT(pthread_join(writer->thread, NULL) == 0);
    writer_free(writer);
}
