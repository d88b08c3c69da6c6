/*
 * entry_log.h - the tail of the Raft log in memory, which followers, the writer and apply read; the
 * writes on their way to the disk; and what leaves for the peers: messages that wait for a term and
 * vote (outbox), and entries for followers (appends).
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

#include "raft/core/message.h"
#include "raft/transport/net.h"
#include "src/base/limits.h"
#include "src/state/state.h"
#include "storage/disk.h"

struct log_entry {
    uint64_t term;
    uint64_t write; /* number of the write that makes it durable */
    uint8_t type;   /* enum raft_entry_type */
    struct entry_block *block;
};

/* Its owner sets first; the rest begins as zeros. */
struct entry_log {
    struct log_entry *items; /* items[head] is entry `first` */
    size_t head;
    size_t count;
    size_t capacity;
    uint64_t first;             /* index of the first entry, or of the next one when empty; >= 1 */
    uint64_t bytes;             /* payload held */
    struct entry_block *unused; /* a list of large ones, each with the next one's address */
};

void entry_log_free(struct entry_log *log);

/* Drop all entries; the next one will be `first`. */
void entry_log_clear(struct entry_log *log, uint64_t first);

/* Append one entry; takes over a reference to the block. */
void entry_log_append(struct entry_log *log, uint64_t term, uint8_t type, uint64_t write,
                      struct entry_block *block);

/* Drop entries from `from` to the end. */
void entry_log_truncate(struct entry_log *log, uint64_t from);

/* Free a large block of dropped entries, if there is one: once a turn. No turn needs to come for
 * it. */
void entry_log_tidy(struct entry_log *log);

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
 * The happy path: writes_new(), fill in, write_submit(); later the owner takes it from
 * `back`, and write_free().
 *
 * Invariants: writes come back in the order in which they were submitted.
 */

/* A message that waits for a write. */
struct held_frame {
    STAILQ_ENTRY(held_frame) link;
    uint64_t to;
    struct buf payload;
    struct entry_block *tail; /* the payload's end, a reference; or NULL */
};

struct write {
    struct store_op op;       /* conf of its position is owned */
    STAILQ_ENTRY(write) link; /* of those that came back */
    struct writes *writes;
    uint64_t number;
    uint64_t epoch;
    struct store_entry *entries; /* APPEND: the data of each is a block, with a reference */
    struct row_changes changes;  /* APPLY: its rows */
    struct buf bytes;            /* INSTALL: the stream that has the rows; LOCAL: the record */
    void (*on_local)(void *data);
    void *local_data;
    STAILQ_HEAD(, held_frame) held; /* HARD_STATE: see outbox below */
};

struct writes { /* its owner sets disk and back; the rest begins as zeros */
    struct disk *disk;
    uint64_t last_number;
    uint64_t epoch;            /* increment it when log and state are replaced */
    size_t count;              /* not freed yet */
    uint64_t last_taken;       /* number */
    STAILQ_HEAD(, write) back; /* that came back, the oldest first */
};

/* A write of this kind, counted until write_free(). */
struct write *writes_new(struct writes *writes, enum store_op_kind kind);

void write_submit(struct write *write);

/* Submit one of LOCAL, whose record is in bytes; done, unless it is NULL, once it is written. */
void write_submit_local(struct write *write, uint32_t key, void (*done)(void *data), void *data);

bool write_is_current(const struct write *write);
void write_free(struct write *write);

/*
 * --- outbox: term and vote to the disk, and the messages that must wait for them.
 *
 * The happy path: the driver writes a new term and vote. Until they are durable, messages given to
 * outbox_send() are held by the newest such write; when it comes back, they leave in order. With no
 * such write under way a message leaves at once.
 *
 * Failure modes: a link that is down loses the frame (net.h); the consensus core sends it anew.
 *
 * Invariant: a message never leaves before the term and vote that it implies are durable: those of
 * the step that made it, and of all steps before.
 */

/* Its owner sets writes and net, and term and vote as the disk has them. */
struct outbox {
    struct writes *writes;
    struct net *net;
    struct write *awaited; /* the newest write of a term and vote; NULL: the disk has them all */
    uint64_t term;         /* as the disk has it */
    uint64_t vote;         /* 0: none */
};

/* Send a payload as FRAME_RAFT; its memory is taken over. tail: its end, borrowed; or NULL. */
void outbox_send(struct outbox *outbox, uint64_t to, struct buf *payload, struct entry_block *tail);

/*
 * --- appends: entries on their way to followers: split into frames, one frame per follower and
 * turn.
 *
 * The core counts entries and not bytes: to a follower that comes back it sends all missing entries
 * at once, up to LIMIT_ENTRIES_PER_FRAME entries of up to LIMIT_ENTRY_BYTES each. To encode and
 * encrypt tens of MiB in one turn would delay everything else by a tenth of a second.
 *
 * The happy path: appends_send() for each AppendEntries of the core sends the first frame, and
 * remembers the rest as a range of the log, without bytes. Each appends_turn() sends one more
 * frame, if the link has room: a full one drops frames. An AppendEntries to the same follower
 * meanwhile extends the range if it begins at its end. A heartbeat does so too: the frames of the
 * range replace it.
 *
 * Failure modes: the term ends, the log was cut in front, the core begins at another index (the
 * follower refused, or a frame was lost), or a snapshot goes to the follower: the rest is dropped,
 * as if its frames were lost. The core notices it as it notices lost frames.
 */

/* The rest for one follower. */
struct append_rest {
    uint64_t to;                     /* 0: nothing is left here */
    struct raft_append_entries next; /* the message that continues it, without entries */
    uint64_t last;                   /* index of the last entry */
    bool fresh;                      /* it had a frame in this turn */
};

struct appends {
    const struct entry_log *log; /* borrowed, as the outbox; the rest begins as zeros */
    struct outbox *outbox;
    struct append_rest rests[LIMIT_PEERS];
    unsigned count; /* of followers for which something is left */
    unsigned turn;  /* the rest that is looked at first, so that each has its turn */
};

/* Send the entries that an AppendEntries of the core names, from the log. Afterwards the message
 * has no entries. */
void appends_send(struct appends *appends, struct raft_message *message);

/* Drop the rest for this follower. */
void appends_forget(struct appends *appends, uint64_t to);

/* Is anything left for the next turn, for a follower whose link has room? */
bool appends_wait(const struct appends *appends);

/* Once a turn. term: that this node leads, 0: it does not. Returns appends_wait(). */
bool appends_turn(struct appends *appends, uint64_t term);

#endif
