/*
 * raft_fakes.h - what the driver reaches through vtables, for tests: a clock that stands still,
 * links that keep what is sent, a disk that works when it is told to, an observer that counts.
 *
 * Thread: the test's.
 */
#ifndef LEAFD_RAFT_TESTS_RAFT_FAKES_H
#define LEAFD_RAFT_TESTS_RAFT_FAKES_H

#include "raft/core/driver.h"
#include "storage/tests/store_mem.h"

#define FAKE_NODES 8 /* ids 1..7 */
#define FAKE_WALL_MS 1700000000000ULL

struct fake_clock {
    struct clock base;
    uint64_t now_ms;
};

void fake_clock_init(struct fake_clock *clock, uint64_t now_ms);

/* --- links --- */

struct fake_frame {
    STAILQ_ENTRY(fake_frame) link;
    uint64_t to;
    enum frame_type type;
    struct buf payload;
};

struct fake_net {
    struct net base;
    STAILQ_HEAD(, fake_frame) frames; /* sent and not taken yet, in order */
    size_t frame_count;
    bool down[FAKE_NODES]; /* send() gives ERR_IO, connected() false */
    bool full[FAKE_NODES];
    struct net_peer peers[LIMIT_PEERS]; /* as set_peers() said last */
    size_t peer_count;
};

void fake_net_init(struct fake_net *net);
void fake_net_free(struct fake_net *net);

/* The oldest frame, now the caller's to free; NULL if none. */
struct fake_frame *fake_net_take(struct fake_net *net);
void fake_frame_free(struct fake_frame *frame);

/* How many frames of a type wait for a peer (0: any peer). */
size_t fake_net_count(const struct fake_net *net, uint64_t to, enum frame_type type);

/* Throw away everything sent so far. */
void fake_net_clear(struct fake_net *net);

/* --- the disk --- */

struct fake_disk {
    struct disk base;
    struct store *store;
    struct store_op_list queue;
    size_t queued;
    bool low;
    bool owes;
    size_t chunk_bytes; /* of a read at most; 0: as asked */
    int read_status;    /* of reads; 0: they work */
};

void fake_disk_init(struct fake_disk *disk, struct store *store);

/* Carry out the oldest operation and call its done(). False if there was none. */
bool fake_disk_step(struct fake_disk *disk);

/* Carry out everything, and what that leads to. */
void fake_disk_run(struct fake_disk *disk);

/* Call done() of everything without carrying it out: only for drivers that were quiesced. */
void fake_disk_lose(struct fake_disk *disk);

/* How many operations of a kind wait. */
size_t fake_disk_count(const struct fake_disk *disk, enum store_op_kind kind);

/* --- the observer --- */

struct fake_observer {
    struct driver_observer base;
    unsigned applied_count;
    uint64_t applied_index;
    uint64_t applied_term;
    unsigned role_count;
    unsigned configured_count;
    unsigned installed_count;
    uint64_t installed_index;
    unsigned failed_count;
    int failed_err;
    unsigned diverged_count;
};

void fake_observer_init(struct fake_observer *observer);

#endif
