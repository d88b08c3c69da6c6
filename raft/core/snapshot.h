/*
 * snapshot.h - transfers of the state to nodes that the log no longer reaches: chunks out, chunks
 * in.
 *
 * Out: snapshot_send() opens a read view of the store at its newest durable position; the message's
 * head (FRAME_RAFT) is sent first, then the rows in chunks (FRAME_SNAPSHOT_CHUNK) with at most
 * LIMIT_SNAPSHOT_WINDOW unacknowledged. In: the head, then the chunks in their order, until
 * in.whole says that the last has come; then the owner gives the head to the core. The stream is
 * {u64 digest, records as the store gives them}.
 *
 * A node that has the whole snapshot then tries the rows and writes them, which takes a while.
 * Until then, a new head of the same leader does not restart the transfer; else a state whose trial
 * takes longer than the core waits would never arrive. The leader's log keeps the entries after a
 * snapshot that was sent; else a peer that installs more slowly than the log is cut would get
 * snapshots for ever.
 *
 * Finished reads wait for snapshot_turn().
 *
 * Failure modes: link down, no acknowledgement for two election timeouts when the core asks again,
 * or for LIMIT_SNAPSHOT_MS, or the store took the view back to free space (store.h): the transfer
 * is dropped, and the core asks again. A chunk out of order, or rows that make no state: the
 * receiver answers abort. More than in_bytes_max: abort.
 *
 * Invariant: each view that was opened is closed by a read of its own, before the transfer's place
 * is used again.
 *
 * Thread: the raft loop.
 */
#ifndef LEAFD_RAFT_CORE_SNAPSHOT_H
#define LEAFD_RAFT_CORE_SNAPSHOT_H

#include <raft.h>

#include "raft/core/entry_log.h"
#include "raft/transport/net.h"
#include "src/base/clock.h"
#include "src/state/state.h"
#include "storage/disk.h"
#include "storage/store.h"

struct snapshot_transfers;

struct snapshot_out {
    bool active; /* else the place is free, once its view is closed */
    bool ended;  /* the last chunk was sent */
    uint64_t peer;
    uint64_t transfer;
    uint64_t at_least; /* index the core asked for */
    uint64_t sent;     /* bytes of the stream */
    uint64_t acked;
    uint64_t progress_ms;
    uint64_t from_index;  /* while active, entries above it stay in the log */
    uint64_t given_index; /* a whole one was sent, and the peer's log reaches this index: entries */
    uint64_t given_until_ms; /* above it stay until then, while the peer installs it */
    struct disk_view view;
    struct snapshot_transfers *transfers;
};

/* Each place for a transfer. */
#define SNAPSHOT_OUT_FOREACH(place, transfers)                                                     \
    for (__typeof__(&(transfers)->out[0]) place = (transfers)->out;                                \
         place < (transfers)->out + LIMIT_NODES; place++)

struct snapshot_in {
    bool active;
    uint64_t from;
    uint64_t transfer;
    uint64_t progress_ms;
    struct raft_message message; /* the head, while active; its configuration is owned */
    struct buf stream;
    bool whole; /* the last chunk is in it */
};

/* Its owner sets all up to election_ms, next_transfer and in_bytes_max; the rest begins as
 * zeros. */
struct snapshot_transfers {
    struct disk *disk;
    struct net *net;
    struct outbox *outbox;
    const struct clock *clock;
    uint32_t election_ms;
    struct snapshot_out out[LIMIT_NODES];
    struct snapshot_in in;
    bool busy;              /* something goes out or comes in, or its view is being closed */
    uint64_t next_transfer; /* begins at random, so that a transfer of an earlier incarnation is not
                               taken for this one's */
    uint64_t sent;          /* to the end, since the start */
    uint64_t in_bytes_max;  /* of a stream that comes; <= LIMIT_SNAPSHOT_BYTES */
};

/* End what goes out to a peer, whose link is lost; 0: to all. Views are closed by the disk. */
void snapshot_end_transfer(struct snapshot_transfers *transfers, uint64_t peer);

/* While transfers are busy, in each turn: take what the disk has read, and drop transfers that were
 * lost or make no progress. led_term: the term in which this node leads; 0: none. */
void snapshot_turn(struct snapshot_transfers *transfers, uint64_t led_term);

/* Transfers whose disk read is under way or came back. */
unsigned snapshot_reads(const struct snapshot_transfers *transfers);

/* --- out --- */

/* The core wants a peer to install a snapshot at or above last_index. durable: the position of the
 * store's state. */
void snapshot_send(struct snapshot_transfers *transfers, uint64_t peer, uint64_t last_index,
                   uint64_t durable);

/* The transfer to a peer that is under way; NULL: there is none. */
const struct snapshot_out *snapshot_to(const struct snapshot_transfers *transfers, uint64_t peer);

/* A peer's log is known to reach this index. is_near: it needs no entry that the log could be cut
 * by now, so no entries are kept for this peer any longer. */
void snapshot_reached(struct snapshot_transfers *transfers, uint64_t peer, uint64_t index,
                      bool is_near);

/* Peers that get a snapshot, or got one in the last LIMIT_SNAPSHOT_MS, need the entries above this
 * index; UINT64_MAX: no peer does. */
uint64_t snapshot_needed_index(const struct snapshot_transfers *transfers);

/* A frame. False: malformed. */
bool snapshot_receive_ack(struct snapshot_transfers *transfers, uint64_t from,
                          const uint8_t *payload, size_t len);

/* --- in --- */

/* A frame. False: malformed. After the last (in.whole): snapshot_rows(); the head may be given
 * away, once in.active is false; snapshot_drop_in(). */
bool snapshot_receive_chunk(struct snapshot_transfers *transfers, uint64_t from,
                            const uint8_t *payload, size_t len);

/* What has come: borrowed until snapshot_drop_in(). */
struct snapshot_rows {
    uint64_t digest;
    const uint8_t *data;
    size_t len;
};
struct snapshot_rows snapshot_rows(const struct snapshot_transfers *transfers);

/* Free all of what comes in. */
void snapshot_drop_in(struct snapshot_transfers *transfers);

/* The same, and report the failure to the sender, so that it begins anew. */
void snapshot_refuse_in(struct snapshot_transfers *transfers);

/*
 * --- trial: the rows of a snapshot, tried as they arrive: do they form a valid state?
 *
 * They go into a state machine of their own, in slices of TRIAL_MS, so that a large state does not
 * block the loop. When all have come and match their digest, that state machine replaces this
 * node's once the snapshot is on the disk (applier_written()).
 *
 * The happy path: trial_begin() with the head; trial_step() with each chunk, and each turn while it
 * says that there is more; trial_end() when all are tried; then its owner takes the state.
 *
 * Failure modes: rows that form no valid state, or one above its bound: trial_step() still computes
 * their digest, and trial_end() returns the error. Rows that do not match their digest:
 * ERR_CORRUPT, before any other error, for then their origin is unknown.
 */

#define TRIAL_MS 5

struct trial {
    struct state *state; /* NULL: there is none */
    struct store_rows_checker rows;
    size_t at;            /* bytes that are tried */
    uint64_t state_bytes; /* bound of the state; 0: none */
    int err;              /* why they form no state */
    bool bad;             /* they are no rows, or not in order */
};

/* For a state with a machine of this kind. state_bytes 0: no bound. Drops a trial that was
 * begun. */
void trial_begin(struct trial *trial, const struct machine_ops *ops, struct level_range speaks,
                 uint64_t state_bytes);

/* Try the new part of the stream's first len bytes. whole: no more will come. True: all were tried;
 * false: call again soon. */
bool trial_step(struct trial *trial, const uint8_t *rows, size_t len, bool whole,
                const struct clock *clock);

/* All were tried: do they form a state, at this index, with this digest? 0; ERR_CORRUPT with
 * *ret_fits false: they do not match the digest. With *ret_fits true, ERR_CORRUPT, ERR_NEWER (only
 * a newer leafd can decide), ERR_STATE_FULL or another error: they form none. */
int trial_end(struct trial *trial, uint64_t digest, uint64_t index, bool *ret_fits) MUST_CHECK;

void trial_drop(struct trial *trial);

#endif
