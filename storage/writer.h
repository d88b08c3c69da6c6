/*
 * writer.h - the storage writer: a thread of its own behind struct disk.
 *
 * The happy path: submit() appends to a FIFO; the thread takes all that waits (up to
 * LIMIT_STORE_BATCH_OPS and _BYTES), one transaction, one commit (group commit), and hands the
 * finished list back through `notify`; the driver's loop then calls writer_complete(), which calls
 * each done() in order. While a commit runs new operations gather, so latency is at most two
 * commits. On a disk whose flushes take milliseconds it also waits for company before a commit, a
 * quarter of a flush at most (gather_max_us; writer.c).
 *
 * Failure modes: a failed commit calls `failed` on the writer's thread with the reason; the process
 * must end there (it is never retried), so it must not return.
 *
 * Threads: writer_start, submit, read, writer_complete, writer_stop: the driver's; notify and
 * failed are called on the writer's.
 */
#ifndef LEAFD_STORAGE_WRITER_H
#define LEAFD_STORAGE_WRITER_H

#include "src/base/container.h"
#include "storage/disk.h"

struct writer;

struct writer_config {
    void (*notify)(void *data); /* wake the driver's loop (bell_ring()); may be called often */
    void (*failed)(void *data, int err, const struct store_error *error); /* must not return */
    void *data;
    /* The longest that a commit on a slow disk waits for operations that are likely to come. 0: it
     * never does. */
    uint32_t gather_max_us;
} BY_NAME;

/* Start the thread on a store that was loaded. The store stays the caller's to close after stop. */
int writer_start(struct store *store, const struct writer_config *config,
                 struct writer **ret_writer) MUST_CHECK;

/* The face for the driver. Valid until writer_stop(). */
struct disk *writer_disk(struct writer *writer);

/* Call done() of everything that has finished; returns how many. */
size_t writer_complete(struct writer *writer);

/* Commit all that is queued, call the remaining done()s, join the thread, free. */
void writer_stop(struct writer *writer);

#endif
