/*
 * disk.h - operations on their way to the store, and the writer's thread that carries them out.
 *
 * `struct disk` is what the raft driver sees: submit operations in order, and get each one's done()
 * back in the same order, on the driver's thread, never from inside submit. Behind it stands the
 * writer (writer.h) or, in the simulation, a virtual disk.
 *
 * Thread: the driver's.
 */
#ifndef LEAFD_STORAGE_DISK_H
#define LEAFD_STORAGE_DISK_H

#include "src/base/container.h"
#include "src/base/stats.h"
#include "storage/store.h"

struct disk;

/* Snapshot reading goes through the same FIFO, so that one thread touches the store, and sees
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

/* Carry out a read on the thread that has the store, at most max_bytes; done() is not called. */
void disk_read_run(struct disk_read *read, struct store *store, size_t max_bytes);

/* Free what it has brought. */
void disk_read_forget(struct disk_read *read);

/* What a disk is, and how it does. */
struct disk_figures {
    struct store_space space;
    struct histogram_view commit; /* how long commits took, from the first of their operations */
    struct histogram_view flush;  /* of this, writing and syncing */
};

struct disk_ops {
    void (*submit)(struct disk *disk, struct store_op *op);
    /* True when space is low: new proposals are to be refused. Any thread. */
    bool (*low)(struct disk *disk);
    /* As of the last look. Any thread. NULL: nothing is measured. */
    void (*figures)(struct disk *disk, struct disk_figures *ret_figures);
} BY_NAME;

struct disk {
    const struct disk_ops *ops;
};

#endif
