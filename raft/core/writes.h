/*
 * writes.h - what the core has on its way to the disk, and what has come back from there.
 *
 * A write owns all memory that its operation points to. When the disk has carried it out, it goes
 * to the end of a queue, and nothing else happens: its owner takes it out when it has time for it,
 * so that the disk never calls into a step that is under way.
 *
 * Each write has a number, which grows. An epoch ends when a snapshot takes the place of log and
 * state: what was begun before says nothing about them any more (write_is_current()).
 *
 * The happy path: writes_new(), fill in, write_submit(); later writes_take(), write_free().
 *
 * Invariants: writes come back in the order in which they were submitted.
 *
 * Thread: the raft loop.
 */
#ifndef LEAFD_RAFT_CORE_WRITES_H
#define LEAFD_RAFT_CORE_WRITES_H

#include <sys/queue.h>

#include "raft/core/entry_log.h"
#include "src/state/state.h"
#include "storage/disk.h"

struct write {
    struct store_op op;       /* conf of its position is owned */
    STAILQ_ENTRY(write) link; /* of those that came back */
    struct writes *writes;
    uint64_t number;
    uint64_t epoch;
    struct store_entry *entries; /* APPEND */
    struct entry_block **blocks; /* references held for entries */
    struct store_row *rows;      /* APPLY */
    struct row_changes changes;  /* what rows point into */
    struct buf bytes;            /* INSTALL: the stream that has the rows; LOCAL: the record */
    void (*on_local)(void *data);
    void *local_data;
};

struct writes {
    struct disk *disk;
    uint64_t last_number;
    uint64_t epoch;      /* one more: what is begun from here on belongs to another log and state */
    size_t count;        /* not freed yet */
    uint64_t last_taken; /* number */
    STAILQ_HEAD(, write) back;
};

void writes_init(struct writes *writes, struct disk *disk);

/* A write of this kind, counted until write_free(). */
struct write *writes_new(struct writes *writes, enum store_op_kind kind);

void write_submit(struct write *write);

/* Submit one of LOCAL, whose record is in bytes; done, unless it is NULL, once it is written. */
void write_submit_local(struct write *write, uint32_t key, void (*done)(void *data), void *data);

/* The oldest one that came back, or NULL. */
struct write *writes_take(struct writes *writes);

bool write_is_current(const struct write *write);
void write_free(struct write *write);

#endif
