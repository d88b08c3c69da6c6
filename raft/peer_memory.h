/*
 * peer_memory.h - what this node has seen of its peers, so that a data directory that was set back
 * to an older copy is told from one that was not.
 *
 * A node whose directory was set back has forgotten votes and entries that it acknowledged. Its
 * vote could count twice, and what was committed with its help could be lost. It cannot notice by
 * itself, but those who talked to it can: with every dial a node says which start of its this is
 * (its *life*), and what its term and its last entry were when it began. Each is durable before
 * anybody hears of it, so of a node that forgot nothing
 *
 *  - a later life has a higher count than every earlier one;
 *  - its term is at least that of any message of an earlier life;
 *  - its log reaches at least to what it had acknowledged and was committed, and within one term
 *    and under one leader to all that it had acknowledged.
 *
 * A node that was told so marks its directory, and never starts on it again: each start counts the
 * older copy's lives up, until they look like later ones.
 *
 * Lives are also kept on disk (LOCAL_PEERS), terms and indexes in memory alone. So what nobody is
 * left to tell is: a copy of the life that was the last one, while all who met that life were
 * started anew. docs/failure-model.md says what follows.
 *
 * The happy path: peer_memory_load() at the start, peer_memory_term() and peer_memory_index() as
 * messages come in, peer_memory_meet() at each handshake; while `changed` is set,
 * peer_memory_save() wants to be written.
 *
 * Thread: pure functions, one owner.
 */
#ifndef LEAFD_RAFT_PEER_MEMORY_H
#define LEAFD_RAFT_PEER_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

#include "src/base/buf.h"
#include "src/base/err.h"
#include "src/base/limits.h"

#define PEER_MEMORY_MAX (2 * LIMIT_PEERS) /* more peers are not remembered */
#define PEER_LIFE_RANDOM_BITS 32

/* What a node says of its start. */
struct peer_start {
    uint64_t life;  /* the count of its starts, and below it random bits of this one */
    uint64_t term;  /* current term, as its disk had it */
    uint64_t index; /* of the last entry, as its disk had it */
};

/* Of one peer; 0 is "nothing yet". */
struct peer_seen {
    uint64_t id;
    uint64_t life;
    uint64_t term;
    uint64_t index; /* committed, and acknowledged by it */
};

struct peer_memory {
    struct peer_seen peers[PEER_MEMORY_MAX];
    size_t count;
    bool changed; /* a life is not on disk yet; the owner clears it */
    bool older;   /* of this node itself: a peer said that its data directory is an older copy */
};

/* The peer's durable term is at least this. */
void peer_memory_term(struct peer_memory *memory, uint64_t peer, uint64_t term);

/* The peer has the committed entries up to here on its disk. */
void peer_memory_index(struct peer_memory *memory, uint64_t peer, uint64_t index);

/* The peer is there. Its start is remembered and 0 returned, or, if it has forgotten what is
 * remembered of an earlier life, ERR_STALE, and nothing changes. */
int peer_memory_meet(struct peer_memory *memory, uint64_t peer,
                     const struct peer_start *start) MUST_CHECK;

/* What is remembered of a peer, NULL if nothing. Borrowed until the next call. */
const struct peer_seen *peer_memory_find(const struct peer_memory *memory, uint64_t peer);

/* The peer will never come back. */
void peer_memory_forget(struct peer_memory *memory, uint64_t peer);

/* Lives and mark as a record, and from one (of an empty record: nothing). 0, ERR_BAD_VERSION or
 * ERR_CORRUPT. */
void peer_memory_save(const struct peer_memory *memory, struct buf *record);
int peer_memory_load(struct peer_memory *memory, const void *record, size_t len) MUST_CHECK;

#endif
