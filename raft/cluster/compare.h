/*
 * compare.h - the first row in which this node's state differs from another node's, before this one
 * ends for it; and the other side, which lends a view of its rows.
 *
 * Both sides hold a view of their rows at one index, which stays as it is whatever changes
 * meanwhile. The ranges of keys are the lender's: as many rows as it reads at once. For each it
 * says the last key and the sum of its rows' hashes; the asker adds up its own rows up to that key.
 * Of the first range whose sums differ it asks for the rows, and goes through both lists.
 *
 * The happy path of the asker: compare_begin() -> OPEN -> the lender's index; the driver applies up
 * to there -> its own view -> PART by PART, until one differs -> ROWS -> owner->compared(text). Of
 * the lender: OPEN of a node whose digest at some index is not this one's -> rows to the disk, and
 * a view of them -> an answer for each question -> CLOSE, or its time is over.
 *
 * Failure modes: no answer, a view that cannot be had, answers that make no sense, or
 * LIMIT_COMPARE_MS over: compared() says so. A lender lends one view at a time, for
 * LIMIT_COMPARE_MS, and then none for LIMIT_COMPARE_PAUSE_MS, so that no peer keeps the store from
 * using free pages again; it reads one chunk for each question, and takes one at a time.
 *
 * Thread: the raft loop.
 */
#ifndef LEAFD_RAFT_CLUSTER_COMPARE_H
#define LEAFD_RAFT_CLUSTER_COMPARE_H

#include "raft/cluster/ground.h"

#define COMPARE_TEXT_BYTES 640

struct compare_owner {
    /* It is over. differs: text names the row; else why none is named. */
    void (*compared)(struct compare_owner *owner, bool differs, const char *text);
} BY_NAME;

/* A fixed view of this node's rows, read in chunks. */
struct compare_view {
    struct compare *compare;
    struct store_snapshot *view;
    struct disk_read read;
    bool reading; /* a read is under way, */
    bool back;    /* and has come back */
    bool dropped; /* close it when it does */
    uint64_t index;
    struct buf chunk; /* the last that was read */
    bool end;         /* nothing is behind it */
    int status;
};

enum compare_state {
    COMPARE_NONE,
    COMPARE_OPENING,  /* the lender is asked for a view */
    COMPARE_APPLYING, /* this node's state goes there */
    COMPARE_READING,  /* its rows are read */
    COMPARE_ASKING    /* the lender is asked for a range, or its rows */
};

struct compare_asker {
    enum compare_state state;
    uint64_t peer;
    uint64_t number;
    struct compare_view rows;
    size_t at;               /* within rows.chunk: what was counted of it */
    struct wire_compared of; /* the range that is compared; its key is in last */
    struct buf last;
    bool has_part;
    uint64_t sum; /* of the own rows in it */
    uint32_t count;
    struct buf mine; /* them, as far as LIMIT_COMPARE_BYTES hold */
    struct timer due;
};

struct compare_lender {
    uint64_t peer; /* 0: nobody has a view */
    uint64_t number;
    struct compare_view rows;
    uint8_t asked; /* enum wire_compare_kind that waits for the read under way; 0: none */
    bool fresh;    /* the chunk was not told of yet */
    uint64_t quiet_until_ms;
    struct timer due;
};

struct compare {
    const struct ground *on;
    struct disk *disk;
    struct compare_owner *owner;
    struct compare_asker asker;
    struct compare_lender lender;
    bool stopped;
};

void compare_init(struct compare *compare, const struct ground *on, struct disk *disk,
                  struct compare_owner *owner, uint64_t first);

/* Compare with this member. The driver is in doubt of its state, whose digest at index is this. */
void compare_begin(struct compare *compare, uint64_t peer, uint64_t index, uint64_t digest);

/* A FRAME_COMPARE or FRAME_COMPARED. False: malformed. */
bool compare_receive(struct compare *compare, uint64_t from, const uint8_t *payload, size_t len);
bool compare_receive_answer(struct compare *compare, uint64_t from, const uint8_t *payload,
                            size_t len);

void compare_turn(struct compare *compare);

/* Give it up without a word; views are closed by the disk. */
void compare_drop(struct compare *compare);
void compare_stop(struct compare *compare);

#endif
