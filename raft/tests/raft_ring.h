/*
 * raft_ring.h - a few replicas wired directly: frames go from one to the other in order and at
 * once, disks write at once, and time moves only when the test says so. Links can be cut, kinds of
 * frames lost, disks held, nodes crashed and started again.
 *
 * Thread: the test's.
 */
#ifndef LEAFD_RAFT_TESTS_RAFT_RING_H
#define LEAFD_RAFT_TESTS_RAFT_RING_H

#include "raft/tests/raft_fakes.h"
#include "raft/wire/wire.h"
#include "src/service/id_service.h"
#include "src/state/codec/cluster_command.h"

#define RING_MAX 5
#define RING_ELECTION_MS 400
#define RING_HEARTBEAT_MS 50
#define RING_CATCH_UP_MS 3000

struct ring;

struct ring_node {
    struct ring *ring;
    uint64_t id;
    bool up;
    bool disk_held;                  /* its disk does nothing */
    bool paused;                     /* the process is stopped, as by SIGSTOP */
    STAILQ_HEAD(, fake_frame) inbox; /* what came meanwhile; `to` is the sender here */
    uint64_t incarnations;
    uint16_t able;      /* the newest level that it speaks from its next start on; 0: the first */
    struct clock clock; /* the ring's ... */
    int64_t wall_ahead_ms; /* ... but for its time of day */
    struct store *store;
    struct fake_disk disk;
    struct fake_net net;
    struct id_service ids;
    struct replica replica;
    struct replica_listener listener;
    char http_address[32];
    unsigned failed_count;
    int failed_err;
    char failed_text[1200];
    unsigned installed_count;
    unsigned removed_count;
};

struct ring {
    unsigned count;
    struct fake_clock clock;
    struct ring_node nodes[RING_MAX];     /* node id - 1 */
    uint32_t snapshot_entries;            /* set before ring_start(); 0: 1000 */
    uint32_t digest_ms;                   /* likewise; 0: never */
    uint32_t strict_keys;                 /* likewise; 0: 1000 */
    uint64_t memory_bytes;                /* likewise; 0: no bound */
    bool keeps_time;                      /* likewise: the log has a time, which keys need */
    unsigned workers;                     /* likewise: worker ids of each node; needs keeps_time */
    uint32_t rows_hold_ms;                /* likewise: so long rows wait, also for entries */
    bool apart;                           /* likewise: nobody meets but by ring_meet() */
    bool meet;                            /* likewise: nodes say of each start to the others what
                                             a handshake says, as level and rollback need */
    struct upgrade_config upgrade;        /* likewise */
    unsigned joiners;                     /* likewise: the last so many nodes wait to be added */
    bool cut[RING_MAX + 1][RING_MAX + 1]; /* from, to */
    bool lost[FRAME_TYPE_MAX + 1];        /* kinds of frames that get lost, from anybody */
    size_t passed[FRAME_TYPE_MAX + 1];    /* frames of a kind that arrived */
    unsigned refused;                     /* frames that were found malformed */
};

/* Start count nodes; *ring must be zeroed but for the settings. */
void ring_start(struct ring *ring, unsigned count);
void ring_close(struct ring *ring);

/* One that is closed at the end of its block. */
#define RING struct ring __attribute__((cleanup(ring_close)))

struct ring_node *ring_node(struct ring *ring, uint64_t id);

/* Let everything happen that needs no time. */
void ring_settle(struct ring *ring);

/* Let so much time go by. */
void ring_run_ms(struct ring *ring, uint64_t ms);

/* Run until a node leads and all that are up know it; returns its id. */
uint64_t ring_elect(struct ring *ring);

/* Cut or heal all links of a node. */
void ring_isolate(struct ring *ring, uint64_t id, bool cut);

/* One dials another, which judges of which cluster it is: 0 or its error. */
int ring_meet(struct ring *ring, uint64_t from, uint64_t to);

/* A node's row of the tag goes wrong, in memory and on its disk, as by a bug of apply. */
void ring_plant(struct ring *ring, uint64_t id, const char *tag, int64_t by);
void ring_crash(struct ring *ring, uint64_t id);
void ring_restart(struct ring *ring, uint64_t id);

/* Stop the process of a node, and let it go on: then it finds all that was sent to it. */
void ring_pause(struct ring *ring, uint64_t id);
void ring_resume(struct ring *ring, uint64_t id);

/* A node that does not lead: the first of them. */
uint64_t ring_follower(struct ring *ring);

/* What `on` takes id for: ROLE_VOTER, ROLE_STANDBY, ..., or ROLE_GONE for no member. */
int ring_role(struct ring *ring, uint64_t on, uint64_t id);

/* --- requests --- */

struct asked {
    struct cluster_request base;
    unsigned done; /* how often done() was called */
};

/* Prepare a request; ask() hands it to a node. Free with asked_free(). */
void asked_put(struct asked *asked, const char *tag, uint32_t step);
void asked_delete(struct asked *asked, const char *tag);
void asked_get(struct asked *asked, const char *tag);
void asked_open(struct asked *asked, const char *tag);
void asked_member(struct asked *asked, enum member_ask_kind kind, uint64_t node_id,
                  const char *address);
/* missing: filled if somebody is. */
void asked_everywhere(struct asked *asked, uint64_t index, struct missing_members *missing);
/* Of all tags; out: what each node holds, the items the caller's. */
void asked_buffers(struct asked *asked, struct id_buffers *out);
void asked_free(struct asked *asked);

/* All turns that a node has to take at once. */
void ring_turn(struct ring *ring, uint64_t id);

/* Hand it to a node, with so much patience, and let it take its turns. */
void ask(struct ring *ring, uint64_t id, struct asked *asked, uint64_t patience_ms);

/* Wait for the answer to an asked_member(), which must be "done", and free it. */
void ring_member_done(struct ring *ring, struct asked *asked);

/* Make a tag through a node and wait for the answer. */
void ring_make(struct ring *ring, uint64_t id, const char *tag, uint32_t step);

/* The row of a tag as a node's state has it, or NULL. */
const struct tag_row *ring_row(struct ring *ring, uint64_t id, const char *tag);

/* Take n ids of a tag on a node, waiting for refills; returns the first. The tag must be open.
 * Fails the test if they do not come. */
uint64_t ring_take(struct ring *ring, uint64_t id, const char *tag, uint32_t n);

#endif
