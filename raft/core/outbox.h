/*
 * outbox.h - term and vote to the disk, and the messages that must wait for them.
 *
 * The happy path: outbox_vote() starts the write of a new term and vote. Until they are durable,
 * messages given to outbox_send() are held by the newest such write; when it comes back, they leave
 * in order. With no such write under way a message leaves at once.
 *
 * Failure modes: a link that is down loses the frame (net.h); the consensus core sends it anew.
 *
 * Invariant: a message never leaves before the term and vote that it implies are durable: those of
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

/* Its owner sets writes and net, and term and vote as the disk has them. */
struct outbox {
    struct writes *writes;
    struct net *net;
    struct write *awaited; /* the newest write of a term and vote; NULL: the disk has them all */
    uint64_t term;         /* as the disk has it */
    uint64_t vote;
};

/* Write down a term and the vote in it (0: none). */
void outbox_vote(struct outbox *outbox, uint64_t term, uint64_t vote);

/* Such a write came back: send the messages that waited for it. */
void outbox_written(struct outbox *outbox, const struct write *write);

/* Send a payload as FRAME_RAFT; its memory is taken over. */
void outbox_send(struct outbox *outbox, uint64_t to, struct buf *payload);

/*
 * --- appends: entries on their way to followers: split into frames, one frame per follower and
 * turn.
 *
 * The core counts entries and not bytes: to a follower that comes back it sends all missing entries
 * at once, up to LIMIT_ENTRIES_PER_FRAME entries of up to LIMIT_ENTRY_BYTES each. To encode and
 * encrypt tens of MiB in one turn would delay everything else by a tenth of a second.
 *
 * The happy path: appends_send() for each AppendEntries of the core sends the first frame, and
 * remembers the rest as a range of the log, without bytes. Each appends_turn() sends one more
 * frame. An AppendEntries to the same follower meanwhile extends the range if it begins at its end.
 * A heartbeat does so too: the frames of the range replace it.
 *
 * Failure modes: the term ends, the log was cut in front, the core begins at another index (the
 * follower refused, or a frame was lost), or a snapshot goes to the follower: the rest is dropped,
 * as if its frames were lost. The core notices it as it notices lost frames.
 */

/* The rest for one follower. */
struct append_rest {
    uint64_t to;                     /* 0: nothing is left here */
    struct raft_append_entries next; /* the message that continues it, without entries */
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

/* Send the entries that an AppendEntries of the core names, from the log. Afterwards the message
 * has no entries. */
void appends_send(struct appends *appends, struct raft_message *message);

/* Drop the rest for this follower. */
void appends_forget(struct appends *appends, uint64_t to);

/* Once a turn. term: that this node leads, 0: it does not. True: more is left for the next turn. */
bool appends_turn(struct appends *appends, uint64_t term);

#endif
