/*
 * outbox.h - term and vote to the disk, and the messages that have to wait for them.
 *
 * The happy path: outbox_vote() puts a new term and vote on their way to the disk; what
 * outbox_send() is given from then on is held until they are durable, and leaves in its order.
 * Without such a write under way a message leaves at once.
 *
 * Failure modes: a link that is down loses the frame (net.h); the consensus core sends it anew.
 *
 * Invariant: a message never leaves before the term and vote it stands for are durable: those of
 * the step that made it, and of all steps before.
 *
 * Thread: the raft loop.
 */
#ifndef LEAFD_RAFT_CORE_OUTBOX_H
#define LEAFD_RAFT_CORE_OUTBOX_H

#include <stdbool.h>
#include <stdint.h>

#include "raft/core/entry_log.h"
#include "raft/core/message.h"
#include "raft/transport/net.h"
#include "src/base/limits.h"

/* A frame that waits. */
struct held_frame {
    STAILQ_ENTRY(held_frame) link;
    uint64_t write; /* number of the write it waits for */
    uint64_t to;
    struct buf payload;
};

struct outbox {
    struct writes *writes;
    struct net *net;
    uint64_t submitted; /* number of the newest write of a term and vote */
    uint64_t durable;   /* and of the newest that the disk has; the same: nothing is awaited */
    uint64_t term;      /* as the disk has it */
    uint64_t vote;
    STAILQ_HEAD(, held_frame) held;
};

/* term and vote: as the disk has them. */
void outbox_init(struct outbox *outbox, struct writes *writes, struct net *net, uint64_t term,
                 uint64_t vote);
void outbox_free(struct outbox *outbox);

/* Write down a term and the vote in it (0: none). */
void outbox_vote(struct outbox *outbox, uint64_t term, uint64_t vote);

/* Such a write came back: what waited for it leaves. */
void outbox_written(struct outbox *outbox, const struct write *write);

/* Send a payload as FRAME_RAFT; its memory is taken over. */
void outbox_send(struct outbox *outbox, uint64_t to, struct buf *payload);

/*
 * --- appends: entries on their way to followers: what would not fit one frame goes in several, and
 * those of one follower a frame a turn.
 *
 * The core counts entries and not bytes: to a follower that comes back it sends all that it lacks,
 * up to LIMIT_ENTRIES_PER_FRAME entries of up to LIMIT_ENTRY_BYTES each, at once. To make and seal
 * tens of MiB in one turn would keep everything else waiting for a tenth of a second.
 *
 * The happy path: appends_send() for each AppendEntries of the core sends the first frame, and
 * keeps in mind what is left: a range of the log, no bytes. Each appends_turn() sends one frame
 * more. What the core sends to the same follower meanwhile joins the range, if it begins where that
 * ends; a heartbeat is one of these: the frames of the range stand for it.
 *
 * Failure modes: the term ends, the log was cut in front, the core begins elsewhere (the follower
 * refused, or a frame was lost), or a snapshot goes to the follower: what is left is forgotten, as
 * if its frames were lost. The core finds out as it does then.
 */

/* What is left for one follower. */
struct append_rest {
    uint64_t to;                     /* 0: nothing is left here */
    struct raft_append_entries next; /* that continues it, without entries */
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

/* Send the entries that an AppendEntries of the core names, from the log. The message has none of
 * its own behind this. */
void appends_send(struct appends *appends, struct raft_message *message);

/* Nothing more of it is for this follower. */
void appends_forget(struct appends *appends, uint64_t to);

/* Once a turn. term: that this node leads, 0: it does not. True: more is left for the next. */
bool appends_turn(struct appends *appends, uint64_t term);

#endif
