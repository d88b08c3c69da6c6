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

#include "raft/core/writes.h"
#include "raft/transport/net.h"

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

#endif
