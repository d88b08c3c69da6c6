/*
 * compare.h - states differ: is this node's the wrong one? If so, it reports the first row that
 * differs before it ends. Also the other side, which lends a view of its rows.
 *
 * A digest in the log that differs from this node's comes from one node, whose own state may be
 * wrong, by bad memory, say. So the driver is halted, and this node asks all voters for their
 * states at the index that it has applied. An equal digest there means an equal log and state. If a
 * majority of the voters, itself included, has its state, it resumes. Else it ends: which state is
 * right is unknown, and a wrong state could give ids twice. A node that is asked by more than half
 * of the voters, all with another state, asks as well and finds that its own is wrong. So a leader
 * with a wrong state ends, not its followers.
 *
 * To name the row, both sides hold a fixed view of their rows at one index. The lender chooses the
 * ranges of keys: as many rows as it reads at once. For each range it reports the last key and the
 * sum of its rows' hashes; the asker adds up its own rows up to that key. It asks for the rows of
 * the first range whose sums differ, and compares both lists.
 *
 * The happy path of the asker: compare_diverged() -> STATE to all, again every COMPARE_AGAIN_MS ->
 * it is wrong; a leader hands over -> OPEN to one -> the lender's index; the driver applies up to
 * there -> its own view -> PART by PART, until one differs -> ROWS -> driver_end_diverged(). Of the
 * lender: OPEN of a node whose digest at some index is not this one's -> rows to the disk, and
 * a view of them -> an answer for each question -> CLOSE, or its time is over.
 *
 * Failure modes: no answer, a view that cannot be had, answers that make no sense, or
 * LIMIT_COMPARE_MS over: the node ends without naming a row, and logs that. A lender lends one view
 * at a time, for LIMIT_COMPARE_MS, and then none for LIMIT_COMPARE_PAUSE_MS, so that no peer
 * prevents the store from reusing free pages. It reads one chunk for each question, one question at
 * a time.
 *
 * Thread: the raft loop.
 */
#ifndef LEAFD_RAFT_CLUSTER_COMPARE_H
#define LEAFD_RAFT_CLUSTER_COMPARE_H

#include "raft/cluster/context.h"

#define COMPARE_TEXT_BYTES 640
#define COMPARE_WHY_BYTES 400
#define COMPARE_AGAIN_MS 50

enum compare_state {
    COMPARE_NONE,
    COMPARE_DECIDING,     /* the others are asked for their states */
    COMPARE_HANDING_OVER, /* this state is wrong: another node must lead, */
    COMPARE_OPENING,      /* the lender is asked for a view */
    COMPARE_APPLYING,     /* this node's state goes there */
    COMPARE_READING,      /* its rows are read */
    COMPARE_ASKING        /* the lender is asked for a range, or its rows */
};

struct compare_asker {
    enum compare_state state;
    uint64_t said_by; /* the node whose digest differs */
    uint64_t index;   /* at which the others are asked for their states */
    uint64_t digest;  /* of this node there */
    struct timer again;
    struct timer hand_over;      /* HANDING_OVER: the next step of it */
    uint64_t until_ms;           /* of deciding, or handing over */
    char why[COMPARE_WHY_BYTES]; /* the reason why this state may be wrong */
    uint64_t peer;               /* the node that rows are compared with */
    uint64_t number;
    uint64_t open_index;     /* of the lender's view */
    struct disk_view rows;   /* of this node, at that index */
    size_t at;               /* within the chunk: the part that was summed */
    struct wire_compared of; /* the range that is compared; its key is in last */
    struct buf last;
    bool has_part;
    uint64_t sum; /* of the own rows in it */
    uint32_t count;
    struct buf mine; /* those rows, up to LIMIT_COMPARE_BYTES */
    struct timer due;
};

struct compare_lender {
    uint64_t peer; /* 0: no peer has a view */
    uint64_t number;
    struct disk_view rows;
    uint8_t asked; /* enum wire_compare_kind that waits for the read under way; 0: none */
    bool fresh;    /* the chunk was not used yet */
    uint64_t quiet_until_ms;
    struct timer due;
};

struct compare {
    const struct raft_context *on;
    struct compare_asker asker;
    struct compare_lender lender;
    uint64_t asked_index; /* the newest that nodes of another state asked about */
};

void compare_init(struct compare *compare, const struct raft_context *on);

/* driver_observer.diverged. */
void compare_diverged(struct compare *compare, uint64_t said_by, const char *why);

/* A FRAME_COMPARE or FRAME_COMPARED. False: malformed. */
bool compare_receive(struct compare *compare, uint64_t from, const uint8_t *payload, size_t len);
bool compare_receive_answer(struct compare *compare, uint64_t from, const uint8_t *payload,
                            size_t len);

/* Woken by a question, an answer, a read that came back, its timers, and what wakes all. */
void compare_turn(struct compare *compare);

/* A snapshot took the place of the state. */
void compare_installed(struct compare *compare);

void compare_stop(struct compare *compare);

#endif
