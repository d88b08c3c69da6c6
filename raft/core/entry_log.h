/*
 * entry_log.h - the tail of the Raft log in memory, which followers, the writer and apply read; and
 * the writes on their way to the disk.
 *
 * The consensus core keeps no entries, only a trail of terms; the driver owns this cache. Entries
 * are immutable blocks with a reference count, shared by the cache and by writes under way (no
 * copies). Each entry carries the number of the write that carries it to disk: only entries whose
 * number equals the finished write's count as persisted, since an index can be truncated and
 * appended again, even with the same term, while an older write is in flight.
 *
 * Invariant: indexes first..last without a gap; terms never fall.
 *
 * Thread: the raft loop. The writer reads the data of blocks that an operation holds a reference
 * to.
 */
#ifndef LEAFD_RAFT_CORE_ENTRY_LOG_H
#define LEAFD_RAFT_CORE_ENTRY_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "src/state/state.h"
#include "storage/disk.h"

struct entry_block {
    uint32_t refs;
    uint32_t len;
    uint8_t data[];
};

struct log_entry {
    uint64_t term;
    uint64_t write; /* number of the write that makes it durable */
    uint8_t type;   /* enum raft_entry_type */
    struct entry_block *block;
};

struct entry_log {
    struct log_entry *items; /* items[head] is entry `first` */
    size_t head;
    size_t count;
    size_t capacity;
    uint64_t first; /* index of the first entry, or of the next one when empty; >= 1 */
    uint64_t bytes; /* payload held */
};

/* A copy of the bytes in a new block with one reference. */
struct entry_block *entry_block_new(const void *data, size_t len);
struct entry_block *entry_block_ref(struct entry_block *block);
void entry_block_unref(struct entry_block *block);

void entry_log_init(struct entry_log *log, uint64_t first);
void entry_log_free(struct entry_log *log);

/* Drop all entries; the next one will be `first`. */
void entry_log_clear(struct entry_log *log, uint64_t first);

/* Append one entry; takes over a reference to the block. */
void entry_log_append(struct entry_log *log, uint64_t term, uint8_t type, uint64_t write,
                      struct entry_block *block);

/* Drop entries from `from` to the end. */
void entry_log_truncate(struct entry_log *log, uint64_t from);

/* Drop entries up to and including `upto`. */
void entry_log_drop_prefix(struct entry_log *log, uint64_t upto);

/* The last index; first - 1 when empty. */
uint64_t entry_log_last(const struct entry_log *log);

/* The entry at an index, or NULL when it is not held. Valid until the next change. */
const struct log_entry *entry_log_get(const struct entry_log *log, uint64_t index);

/*
 * The highest index persisted by a finished write of `count` entries from `index` on, numbered
 * `write`: the end of the unbroken run whose entries still carry its number (entries dropped from
 * the front count). 0 if none.
 */
uint64_t entry_log_persisted(const struct entry_log *log, uint64_t index, uint32_t count,
                             uint64_t write);

/*
 * --- writes: the core's writes on their way to the disk, and those that have come back.
 *
 * A write owns all memory that its operation points to. When the disk has carried it out, it only
 * goes to the end of a queue; its owner takes it from there later. So the disk never calls into a
 * step that is under way.
 *
 * Each write has a number, which grows. An epoch ends when a snapshot replaces log and state:
 * writes of an earlier epoch no longer concern them (write_is_current()).
 *
 * The happy path: writes_new(), fill in, write_submit(); later writes_take(), write_free().
 *
 * Invariants: writes come back in the order in which they were submitted.
 */

/* A message that waits for a write. */
struct held_frame {
    STAILQ_ENTRY(held_frame) link;
    uint64_t to;
    struct buf payload;
};

struct write {
    struct store_op op;       /* conf of its position is owned */
    STAILQ_ENTRY(write) link; /* of those that came back */
    struct writes *writes;
    uint64_t number;
    uint64_t epoch;
    struct store_entry *entries; /* APPEND: the data of each is a block, with a reference */
    struct store_row *rows;      /* APPLY */
    struct row_changes changes;  /* what rows point into */
    struct buf bytes;            /* INSTALL: the stream that has the rows; LOCAL: the record */
    void (*on_local)(void *data);
    void *local_data;
    STAILQ_HEAD(, held_frame) held; /* HARD_STATE: see outbox.h */
};

struct writes {
    struct disk *disk;
    uint64_t last_number;
    uint64_t epoch;      /* increment it when log and state are replaced */
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
