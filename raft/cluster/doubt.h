/*
 * doubt.h - is it this node that is wrong, or who says so? Others are asked before it ends for what
 * one peer said.
 *
 * A digest in the log that is another than here, or a leader with another entry than the one
 * committed here: every member says the digest of its state at an index that this node has applied
 * (FRAME_WITNESS). Equal digests there mean an equal log and an equal state. With a majority of the
 * voters, itself included, on its side this node goes on, and the alarm names who lies. With a
 * majority that has one other state it ends, and before that finds the first row that differs
 * (compare.h). Where neither comes about within LIMIT_DOUBT_MS, or there is only one other voter,
 * it ends: nobody can tell, and a wrong state could give ids twice. Until then the state stands
 * still (driver.h).
 *
 * A node that is asked hears what the asker has. One that hears from a majority of another state,
 * though nobody has said so in the log, is the one that differs: so a leader whose own state went
 * wrong ends, and not its followers.
 *
 * A snapshot of a later level: nothing was changed, so this node ends only when a majority of the
 * voters says that such a level is in force, and else refuses it. A later start of this node: it
 * ends unless a majority of the voters knows none, neither by its links nor by its log.
 *
 * The happy path: doubt_about() -> questions, again every DOUBT_AGAIN_MS -> answers -> decided.
 *
 * Failure modes: below level 3, which has no such frames, the node ends at once. Whoever has the
 * secret can answer in others' names; with certificates only as itself.
 *
 * Invariant: the answer of one member, and no silence, never keeps a node of a wrong state alive.
 *
 * Thread: the raft loop.
 */
#ifndef LEAFD_RAFT_CLUSTER_DOUBT_H
#define LEAFD_RAFT_CLUSTER_DOUBT_H

#include "raft/cluster/compare.h"

#define DOUBT_AGAIN_MS 50
#define DOUBT_TEXT_BYTES 400

struct doubt_owner {
    /* There is a later start of this node than this one, as far as anybody can tell. */
    void (*superseded)(struct doubt_owner *owner, uint64_t incarnation);
    /* There is none: who said so lied. */
    void (*not_superseded)(struct doubt_owner *owner);
} BY_NAME;

struct doubt_voice {
    uint64_t id; /* 0: a free place */
    uint64_t value;
};

/* What voters said of one index, or number. */
struct doubt_voices {
    uint64_t index;
    struct doubt_voice of[LIMIT_NODES];
};

enum doubt_state { DOUBT_NONE, DOUBT_ASKING, DOUBT_HANDING_OVER, DOUBT_COMPARING };

struct doubt {
    const struct ground *on;
    struct doubt_owner *owner;
    struct compare compare;
    struct compare_owner compared;
    enum doubt_state state;
    int err;          /* as of struct driver_doubt; ERR_STALE: of this start */
    uint8_t kind;     /* enum wire_witness_kind: what is asked */
    uint64_t from;    /* who said it; 0: an entry */
    uint64_t value;   /* what this node has itself; of a start: the later one */
    uint64_t partner; /* with whom it compares */
    struct doubt_voices voices;
    struct doubt_voices heard; /* of questions of others */
    struct timer again;
    uint64_t until_ms;
    char text[DOUBT_TEXT_BYTES];
};

void doubt_init(struct doubt *doubt, const struct ground *on, struct disk *disk,
                struct doubt_owner *owner, uint64_t first);

/* driver_observer.doubted. */
void doubt_about(struct doubt *doubt, const struct driver_doubt *what);

/* The cluster is said to know a later start of this node. */
void doubt_start(struct doubt *doubt, uint64_t incarnation);

/* A FRAME_WITNESS. False: malformed, or it says what cannot be. */
bool doubt_receive(struct doubt *doubt, uint64_t from, const uint8_t *payload, size_t len);

/* A snapshot took the place of the state. */
void doubt_installed(struct doubt *doubt);

void doubt_turn(struct doubt *doubt);
void doubt_stop(struct doubt *doubt);

#endif
