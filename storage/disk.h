/*
 * disk.h - operations for the store, as the raft driver submits them (disk), and the thread that
 * carries them out (writer).
 *
 * Failure modes: a commit that fails ends the process. Thread: the driver's; functions for other
 * threads say so.
 */
#ifndef LEAFD_STORAGE_DISK_H
#define LEAFD_STORAGE_DISK_H

#include "src/base/container.h"
#include "src/base/stats.h"
#include "storage/store.h"

/*
 * --- disk
 *
 * `struct disk` is what the raft driver sees: submit operations in order, and get each one's done()
 * back in the same order, on the driver's thread, never from inside submit. The writer implements
 * it or, in the simulation, a virtual disk.
 *
 * Thread: the driver's.
 */

struct disk;

/* A snapshot read goes through the same FIFO: only one thread uses the store, and the read sees
 * exactly the operations before it. */
struct disk_read {
    struct store_op op;              /* of kind STORE_READ; with done() and data */
    struct store_snapshot *snapshot; /* NULL: open one first */
    bool close;                      /* close it after reading (or at once when max_bytes is 0) */
    size_t max_bytes;                /* 0: read nothing */
    /* results */
    int status;
    struct store_position position; /* when opened; conf is owned by the read (malloc'ed) */
    struct buf chunk;
    bool end;
};

static inline struct disk_read *disk_read_of(struct store_op *op)
{
    return CONTAINER(op, struct disk_read, op);
}

/* Carry out a read of at most max_bytes on the store's thread; does not call done(). */
void disk_read_run(struct disk_read *read, struct store *store, size_t max_bytes);

/* Free the results of a read. */
void disk_read_forget(struct disk_read *read);

/* Kind and performance of a disk. */
struct disk_figures {
    struct store_space space;
    struct histogram_view commit; /* duration of commits, from their first operation */
    struct histogram_view flush;  /* their part of writing and syncing */
    uint32_t stood_s; /* looks in a row, one a second, that found work and none of it finished */
};

/* A disk that finishes nothing for so long stands still: a hung volume. The commit of one whose
 * flushes take 2 s is quicker. */
#define DISK_STANDS_S 6
#define DISK_STANDS_AT_STOP "the disk stands still: a stop waited in vain for its last writes"

struct disk_ops {
    void (*submit)(struct disk *disk, struct store_op *op);
    /* True when space is low, or the disk stands still (DISK_STANDS_S): new proposals must be
     * refused. Any thread. */
    bool (*low)(struct disk *disk);
    /* True while the store owes rows (store.h): a large command would add to them. Any thread.
     * NULL: the disk never does. */
    bool (*owes)(struct disk *disk);
    /* As of the last look; itself the look that tells whether the disk stands still. Once a second;
     * the driver's thread. NULL: nothing is measured. */
    void (*figures)(struct disk *disk, struct disk_figures *ret_figures);
} BY_NAME;

struct disk {
    const struct disk_ops *ops;
};

/*
 * --- disk_view: a fixed view of the store's rows, read chunk by chunk, one read at a time.
 *
 * The happy path: disk_view_read(), the first of which opens the view; when the read has come back,
 * disk_view_take(), and its results are in `read` until the next call of disk_view_read() or
 * disk_view_drop(). A view that is dropped is closed by the disk, now or once the read under way
 * was taken: its owner takes reads until it is closed.
 *
 * Failure modes: read.status. While a view is open, the store reuses no freed page; it may end the
 * view (store_snapshot.ended).
 */
struct disk_view { /* its owner sets disk, came and data; the rest begins as zeros */
    struct disk *disk;
    void (*came)(void *data); /* a read has come back; NULL: the owner looks in each turn */
    void *data;
    struct store_snapshot *snapshot; /* NULL: it is not open */
    struct disk_read read;
    uint64_t index; /* of the state that it shows */
    bool first;     /* the read that was taken has opened it: read.position is filled */
    bool reading;   /* a read is under way, */
    bool back;      /* and has come back */
    bool dropped;
    bool abandoned; /* no read is taken any more: the store closes the view */
};

/* Read up to max_bytes of rows. No read may be under way. */
void disk_view_read(struct disk_view *view, size_t max_bytes);

/* Take a read that has come back. False: there is none, or the view was dropped meanwhile. */
bool disk_view_take(struct disk_view *view);

/* Close it. Idempotent. */
void disk_view_drop(struct disk_view *view);

/* True if it was never opened, or is closed again: it may be opened anew. */
static inline bool disk_view_is_closed(const struct disk_view *view)
{
    return view->snapshot == NULL && !view->reading;
}

/* Its owner has no more turns. */
void disk_view_abandon(struct disk_view *view);

/*
 * --- writer: the storage writer: a thread of its own, which serves a struct disk.
 *
 * The happy path: submit() appends to a FIFO; the thread takes all queued operations (up to
 * LIMIT_STORE_BATCH_OPS and _BYTES), carries them out in one transaction and one commit (group
 * commit), and returns the finished list through `notify`. The driver's loop then calls
 * writer_complete(), which calls each done() in order. New operations queue up while a commit runs,
 * so latency is at most two commits. On a disk whose flushes take milliseconds the thread also
 * waits for more operations before a commit, for a quarter of a flush at most (gather_max_us;
 * disk.c).
 *
 * Failure modes: a failed commit calls `failed` on the writer's thread with the reason; the process
 * must end there (it is never retried), so it must not return. So does a disk that stands still
 * when the writer is to stop.
 *
 * Threads: writer_start, submit, read, writer_complete, writer_stop: the driver's; notify and
 * failed are called on the writer's, and failed by writer_stop().
 */

struct writer;

struct writer_config {
    void (*notify)(void *data); /* wake the driver's loop (mailbox_wake()); may be called often */
    void (*failed)(void *data, int err, const struct store_error *error); /* must not return */
    void *data;
    /* The longest wait of a commit on a slow disk for more operations. 0: no wait. */
    uint32_t gather_max_us;
} BY_NAME;

/* Start the thread on a loaded store. The caller closes the store after stop. */
int writer_start(struct store *store, const struct writer_config *config,
                 struct writer **ret_writer) MUST_CHECK;

/* The disk that the driver submits to. Valid until writer_stop(). */
struct disk *writer_disk(struct writer *writer);

/* Call done() of all finished operations; returns their number. */
size_t writer_complete(struct writer *writer);

/* Commit all that is queued, call the remaining done()s, join the thread, free. If the disk does
 * not finish within so many ms: failed(). */
void writer_stop(struct writer *writer, uint32_t within_ms);

#endif
