/*
 * snapshot.h - transfers of the state to nodes that lag behind the log: chunks out, chunks in.
 *
 * The core asks for INSTALL_SNAPSHOT; the driver opens a read view of the store at its newest
 * durable position, sends the message's head (FRAME_RAFT) and then the rows in chunks
 * (FRAME_SNAPSHOT_CHUNK) with at most LIMIT_SNAPSHOT_WINDOW unacknowledged. The receiver gathers
 * them and gives the core one message when the last has come. The stream is {u64 digest, records as
 * the store gives them}.
 *
 * Failure modes: link down, no acknowledgement for two election timeouts when the core asks again,
 * or for LIMIT_SNAPSHOT_MS: the transfer is dropped, the core asks anew. A chunk out of order: the
 * receiver answers abort. More than LIMIT_SNAPSHOT_BYTES: abort.
 *
 * Thread: the raft loop.
 */
#ifndef LEAFD_RAFT_CORE_SNAPSHOT_H
#define LEAFD_RAFT_CORE_SNAPSHOT_H

#include <raft.h>

#include "raft/transport/net.h"
#include "storage/disk.h"

struct driver;

struct snapshot_out {
    bool active;
    bool reading; /* a disk_read is under way */
    bool ended;   /* the last chunk was sent */
    bool dropped; /* close the view when the read comes back */
    uint64_t peer;
    uint64_t transfer;
    uint64_t at_least; /* index the core asked for */
    uint64_t sent;     /* bytes of the stream */
    uint64_t acked;
    uint64_t progress_ms;
    struct store_snapshot *view;
    struct disk_read read;
    struct driver *driver;
};

struct snapshot_in {
    bool active;
    uint64_t from;
    uint64_t transfer;
    uint64_t started_ms;
    struct raft_message message; /* its conf is owned */
    struct buf stream;
};

/* Entries above index stay in the log until then: a peer that gets a snapshot needs them next. */
struct snapshot_hold {
    uint64_t index;
    uint64_t until_ms; /* UINT64_MAX: as long as the transfer takes */
};

struct snapshot_transfers {
    struct snapshot_out out[LIMIT_NODES];
    struct snapshot_hold holds[LIMIT_NODES]; /* of each of out */
    struct snapshot_in in;
    uint64_t next_transfer;
};

void snapshot_init(struct driver *driver);

/* Drop everything that is not being read from disk. */
void snapshot_close(struct driver *driver);

/* The core wants a peer to install a snapshot at or above last_index. */
void snapshot_send(struct driver *driver, uint64_t peer, uint64_t last_index);

/* Entries above this index are needed by peers that get a snapshot, or just got one; UINT64_MAX:
 * none are. Without them a peer would need the next snapshot when it has this one, for ever, where
 * the log grows fast. */
uint64_t snapshot_held_index(const struct driver *driver);

/* The head of a snapshot arrived; takes over message->install_snapshot.conf. */
void snapshot_receive_head(struct driver *driver, uint64_t from, uint64_t transfer,
                           struct raft_message *message);

/* Frames. False: malformed. */
bool snapshot_receive_chunk(struct driver *driver, uint64_t from, const uint8_t *payload,
                            size_t len);
bool snapshot_receive_ack(struct driver *driver, uint64_t from, const uint8_t *payload, size_t len);

void snapshot_link_down(struct driver *driver, uint64_t peer);

/* Drop transfers without progress. */
void snapshot_tick(struct driver *driver);

/* Outgoing transfers whose disk read is under way. */
unsigned snapshot_reads(const struct driver *driver);

#endif
