/*
 * entry_log.h - the tail of the Raft log in memory: what followers, the writer and apply read.
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

/* Forget all; the next entry will be `first`. */
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

#endif
