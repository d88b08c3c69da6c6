/*
 * store.h - the durable state of a node behind a vtable: Raft log, term and vote, and the state
 * machine's rows with their applied index.
 *
 * Two engines: LMDB (lmdb/store.h) and memory (store_mem.h, for tests and the simulation). Both
 * take operations in lists: one list is one transaction and one durable commit (group commit). The
 * raft driver does not call commit itself: it submits operations to a `struct disk` (disk.h). In
 * the process that is the writer's thread, in the simulation a virtual disk.
 *
 * Invariants:
 *  - After commit returned 0, everything in the list survives kill -9 and power loss.
 *  - A list is applied whole or not at all, in order.
 *  - The applied index, its term and configuration are in the same transaction as the rows they
 *    belong to, or as a record of these rows, which load() and views never see (store.owes).
 *    (Keeping them apart caused etcd 3.5's corruption.)
 *  - A deleted row must exist. Apply is deterministic, so the deletion of an absent row means that
 *    disk and memory differ: the list is refused as ERR_CORRUPT.
 *  - An install replaces rows, snapshot metadata and log in one transaction. A stream of rows holds
 *    no deleted rows: each has a value.
 *  - Every record carries a CRC32C over its key and value. load() verifies all of them, the log's
 *    continuity (no gap, terms never fall), applied index <= last index unless the log is empty,
 *    and the digest of the rows. Damaged, missing or shortened data is ERR_CORRUPT, with what and
 *    where. The node then does not start; it never repairs by dropping data.
 *
 * Failure modes of commit: any error is final: the caller must end the process (a failed fsync is
 * never retried). Low space is reported earlier (struct store_space).
 *
 * Thread: one at a time; after start-up, the writer's.
 */
#ifndef LEAFD_STORAGE_STORE_H
#define LEAFD_STORAGE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "src/base/buf.h"
#include "src/base/container.h"
#include "src/base/err.h"
#include "src/base/fields.h"
#include "src/base/limits.h"

/* The node that the data belongs to; written once, when the store is made. */
struct store_identity {
    char cluster_id[LIMIT_CLUSTER_ID_BYTES + 1];
    uint64_t node_id;
    uint64_t store_id; /* random, made with the store; a wiped node has another */
};

/* An entry of the log. The consensus core defines type (1 command, 2 barrier, 3 change). */
struct store_entry {
    uint64_t term;    /* > 0 */
    uint8_t type;     /* 1..3 */
    uint32_t len;     /* <= LIMIT_ENTRY_BYTES */
    const void *data; /* borrowed by operations; owned by struct store_loaded */
};

/* Position of the state: the entry applied last, and the cluster configuration at that entry. */
struct store_position {
    uint64_t index; /* 0: nothing applied */
    uint64_t term;
    uint64_t conf_index; /* entry that set the configuration; 0: none */
    const void *conf;    /* encoded by the consensus core; borrowed in operations */
    uint32_t conf_len;
    uint64_t digest; /* of all rows at this index */
};

enum store_op_kind {
    STORE_HARD_STATE, /* term and vote */
    STORE_APPEND,     /* drop the log from `index` on, then append entries */
    STORE_APPLY,      /* put and delete rows in order (a key's last one counts); set position */
    STORE_INSTALL, /* replace all rows, set position, empty the log (it continues at index + 1) */
    STORE_LOCAL,   /* put a record of this node alone, not part of the replicated state */
    STORE_COMPACT, /* drop the log below `index`, at most LIMIT_COMPACT_PER_COMMIT entries a
                      commit; later commits drop the rest */
    STORE_READ     /* never in a commit: a read queued among operations (disk.h) */
};

/*
 * One operation. The submitter owns all memory it points to, and keeps it until done is called.
 */
struct store_op {
    STAILQ_ENTRY(store_op) link;
    enum store_op_kind kind;
    /* HARD_STATE */
    uint64_t term;
    uint64_t vote;
    bool lower; /* the term may be lower than before, but not lower than the log's last: for
                   disks that lose acknowledged writes (cluster-tests/sim/sim_lost_vote.c) */
    /* APPEND: first index of entries; COMPACT: first index to keep */
    uint64_t index;
    const struct store_entry *entries;
    uint32_t entry_count;
    /* APPLY, INSTALL. INSTALL takes its rows from `rows_stream`: records as snapshot_read writes
     * them */
    struct store_position position;
    const struct state_row *rows;
    uint32_t row_count;
    const void *rows_stream;
    size_t rows_stream_len;
    /* LOCAL: record number below LIMIT_LOCAL_RECORDS, and 1..LIMIT_LOCAL_RECORD_BYTES bytes */
    uint32_t local_key;
    const void *local;
    uint32_t local_len;
    /* The submitter is about to submit another operation: a commit can wait for it. */
    bool more;
    /* Called once the operation is durable (disk.h says on which thread). */
    void (*done)(struct store_op *op);
    void *data;
};

STAILQ_HEAD(store_op_list, store_op);

/* Everything a node needs to start. Rows are passed to a callback. Free with
 * store_loaded_release(). */
struct store_loaded {
    struct store_identity identity;
    uint64_t incarnation; /* number of this start of the node: from 1, never used twice; 0: not
                             yet counted (a commit of LOCAL_INCARNATION after load() does so) */
    uint64_t term;
    uint64_t vote;
    uint64_t first_index;        /* of the log; >= 1; of an empty log at least position.index + 1 */
    struct store_entry *entries; /* owned, data too */
    size_t entry_count;
    size_t entry_capacity;
    struct store_position position;         /* conf owned */
    struct buf locals[LIMIT_LOCAL_RECORDS]; /* owned; empty: no such record */
};

/* Append a copy of an entry. */
void store_loaded_add(struct store_loaded *loaded, const struct store_entry *entry);

void store_loaded_release(struct store_loaded *loaded);

/* Deep copy (conf is malloc'ed, NULL when empty), and its release: frees conf and zeroes. */
void store_position_copy(struct store_position *ret_position, const struct store_position *from);
void store_position_release(struct store_position *position);

/* Called by load() for each row, in key order. Return 0 to continue; any other value ends load(),
 * which returns it. */
typedef int (*store_row_fn)(void *data, const struct state_row *row);

/* The error's text, for the log line: "log entry 17: checksum is 1234abcd, stored is 0badf00d". */
struct store_error {
    char text[256];
};

/* The error of a system call that failed: ERR_DISK_FULL; ERR_NOMEM if the system refuses this
 * process memory, a descriptor or a process; else ERR_IO. */
int store_error_of(int number);

/* Write the text and return err. */
int store_error_set(struct store_error *ret_error, int err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* ERR_CORRUPT: an apply deletes a row that does not exist. */
int store_error_no_row(struct store_error *ret_error, const struct state_row *row);

/* Write a key as text, as much as fits, other bytes as "\x01". Returns the length. */
size_t store_key_print(char *text, size_t size, const void *key, size_t key_len);

/* < 0, 0, > 0: a comes before b in key order (bytes, then length), is b, comes after b. */
int store_key_compare(const void *a, size_t a_len, const void *b, size_t b_len);

/* Free pages count as room, unless an older reader may still read them. */
struct store_space {
    uint64_t map_bytes;       /* 0 for memory */
    uint64_t used_bytes;      /* 0 for memory */
    uint64_t room_bytes;      /* that could be written now */
    uint64_t disk_free_bytes; /* for the file: by quotas and RLIMIT_FSIZE too */
    uint64_t disk_bytes;      /* of the file system */
    const char *bound;        /* while low: what is nearly full, as alarms name it */
    uint64_t views_ended;     /* to make room, since the store was opened */
    bool low;                 /* less than LIMIT_STORE_LOW_*: refuse new proposals */
};

struct store;

/* A view of the rows; an engine's own struct begins with it. */
struct store_snapshot {
    _Atomic bool ended; /* the store ended the view to make room: reads return ERR_DISK_FULL; it
                           must still be closed. Any thread, until then */
};

struct store_ops {
    /* Read and verify everything. row_fn (may be NULL) is called for each row. 0, ERR_CORRUPT,
     * ERR_BAD_VERSION, ERR_IO, or row_fn's error; *ret_error is set on failure. */
    int (*load)(struct store *store, struct store_loaded *ret_loaded, store_row_fn row_fn,
                void *data, struct store_error *ret_error);
    /* Carry out the list in one durable transaction. 0 or ERR_IO, ERR_DISK_FULL, ERR_CORRUPT (an
     * operation that does not fit: a gap in the log, the deletion of an absent row). Does not call
     * done. */
    int (*commit)(struct store *store, struct store_op_list *list, struct store_error *ret_error);
    /* A fixed view of the rows and position of the last commit. At most 4 at once; none while the
     * store owes. The position's conf stays valid until close. Commits have priority: the oldest
     * view is ended when half of the room at its begin is used up, when room has become low, or
     * when a commit has no room otherwise. */
    int (*snapshot_open)(struct store *store, struct store_snapshot **ret_snapshot,
                         struct store_position *ret_position);
    /* Append records {key str16, value str32} to *chunk, up to about max_bytes but at least one;
     * *ret_end is true once the last row is appended. */
    int (*snapshot_read)(struct store *store, struct store_snapshot *snapshot, size_t max_bytes,
                         struct buf *chunk, bool *ret_end);
    void (*snapshot_close)(struct store *store, struct store_snapshot *snapshot);
    /* Measure the room; ends views before it is low. */
    void (*space)(struct store *store, struct store_space *ret_space);
    /* Was the data deleted or moved away since it was opened? Then it is lost when the process
     * ends, with all that was acknowledged. *ret_error says what. Any thread. NULL: the store has
     * no files. */
    bool (*lost)(struct store *store, struct store_error *ret_error);
    void (*close)(struct store *store);
} BY_NAME;

struct store {
    const struct store_ops *ops;
    /* Of the last commit. Thread: as commit */
    uint64_t flush_us;   /* time that writing and syncing took */
    uint64_t file_bytes; /* size of the file; 0 for memory */
    bool owes; /* some rows are not in their table yet: later commits put them there, also those
                  of an empty list */
};

/* Commit empty lists until the store owes nothing. 0 or the error of a commit, which is final. */
int store_settle(struct store *store, struct store_error *ret_error) MUST_CHECK;

/* The next row of a stream of records {key str16, value str32}, borrowed from it. False at the end,
 * or if the bytes are not a row (then reader_done() is false). */
bool store_rows_next(struct reader *reader, struct state_row *ret_row);

/* Adds up the rows of a stream one by one. Zero it at the begin. */
struct store_rows_checker {
    uint64_t count;
    uint64_t sum; /* the digest of all */
    uint8_t last[LIMIT_ROW_KEY_BYTES];
    uint32_t last_len;
};

/* 0, or ERR_CORRUPT: its key does not come after the last one. */
int store_rows_checker_add(struct store_rows_checker *checker,
                           const struct state_row *row) MUST_CHECK;

/* Check a whole stream before STORE_INSTALL, where the same errors are final: rows within their
 * limits, keys rising, digest as given. 0 or ERR_CORRUPT with what and where. */
int store_rows_check(const void *stream, size_t len, uint64_t digest,
                     struct store_error *ret_error) MUST_CHECK;

/*
 * --- store_meta: a store's data beside its entries and rows, and the rules that every operation
 * keeps.
 *
 * Both engines hold a struct store_meta and move it with store_meta_step(), so the rules of store.h
 * are in one place, and an engine never commits data that load() would refuse.
 *
 * Invariants, at every commit:
 *  - first_index >= 1; last_index >= first_index - 1 (then the log is empty).
 *  - first_index - 1 <= position.index <= last_index: no gap between state and log, and no applied
 *    entry that the log lacks.
 *  - Terms of entries never fall and never pass the hard state's term.
 *  - last_term is the term of the entry at last_index, in the log or dropped from its front.
 *
 * Failure modes: an operation that breaks a rule gives ERR_CORRUPT with its text; the meta is then
 * undefined, and the engine drops it with the transaction. A size out of bounds is a bug of the
 * caller (ASSERT). Thread: one owner each.
 */

/* A local record. Never changed once made: the meta of a transaction shares the records it does not
 * replace. */
struct store_local {
    unsigned refs;
    uint32_t len;      /* 1..LIMIT_LOCAL_RECORD_BYTES */
    uint32_t checksum; /* CRC32C of data */
    uint8_t data[];
};

struct store_meta { /* of a new store: first_index 1, else zeros */
    uint64_t term;
    uint64_t vote;
    uint64_t first_index;
    uint64_t last_index;
    uint64_t last_term;
    struct store_position position;                  /* conf owned */
    struct store_local *locals[LIMIT_LOCAL_RECORDS]; /* shared; NULL: no such record */
    uint64_t compact_to; /* first index to keep; 0: nothing to do; not durable */
};

/* The term of the log's entry at an index within [first_index, last_index]. 0, or ERR_*: then the
 * engine writes the text to the ret_error that it gave to store_meta_step(). */
typedef int (*store_term_fn)(void *engine, uint64_t index, uint64_t *ret_term);

void store_meta_copy(struct store_meta *ret_meta, const struct store_meta *from);
void store_meta_release(struct store_meta *meta);

/* Replace a record by a copy of the bytes. */
void store_local_set(struct store_local **local, const void *data, uint32_t len);

/* Copy all of it to load()'s result: term and vote, first index, position, local records. */
void store_meta_load(const struct store_meta *meta, struct store_loaded *ret_loaded);

/* Check an operation against the meta and move the meta. The engine checks the rows' digest. */
int store_meta_step(struct store_meta *meta, const struct store_op *op, store_term_fn term_fn,
                    void *engine, struct store_error *ret_error) MUST_CHECK;

/* Take the next chunk of a pending compaction: first_index moves up by the returned number, and the
 * engine deletes as many entries from the front. */
uint64_t store_meta_compact(struct store_meta *meta);

/* Check the invariants of a meta that was read from disk. */
int store_meta_verify(const struct store_meta *meta, struct store_error *ret_error) MUST_CHECK;

/* 0 if the digest of the rows is the position's, else ERR_CORRUPT. */
int store_meta_verify_digest(const struct store_position *position, uint64_t rows_digest,
                             struct store_error *ret_error) MUST_CHECK;

#endif
