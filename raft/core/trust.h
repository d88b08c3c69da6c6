/*
 * trust.h - may what a peer says be true? Numbers that cannot be, and two leaders of one term.
 *
 * Bytes may be wrong: bad memory, a bug, a disk. A term near the end of the numbers, once adopted,
 * leaves no room for another election, and every node that hears of it adopts it: the cluster would
 * be lost. And the library trips over two leaders of one term. So nothing of a peer is believed,
 * and nothing of it gets to the disk, before it is plausible beside what this node has itself:
 *
 *  - An index is at most LIMIT_PLAUSIBLE_JUMP above the node's last one.
 *  - A term is at most that much above the node's own.
 *  - Nothing gets to LIMIT_PLAUSIBLE: from there on its own data directory is not believed either.
 *
 * A node that has nothing yet (no log, no state) has nothing to compare with and nothing to lose:
 * there the last rule holds alone, or no node could join an old cluster. A member that has the
 * secret and lies on purpose can move a term as often as it likes: out of scope (SECURITY.md).
 *
 * The happy path: every message passes trust_message() before the consensus core, or the disk, or
 * anybody's memory gets anything of it.
 *
 * Failure modes: a number that cannot be, or a second leader of a term. The answer is false, the
 * message is to be refused, which closes the link, and the alarm is raised: a line of level error,
 * at most one in a second, and a count (leafd_peer_implausible_total). It does not happen among
 * nodes whose disks kept what they were given.
 *
 * Thread: the raft loop.
 */
#ifndef LEAFD_RAFT_CORE_TRUST_H
#define LEAFD_RAFT_CORE_TRUST_H

#include <stdbool.h>
#include <stdint.h>

#include "src/base/clock.h"

struct consensus;
struct raft_message;

/* --- numbers: pure functions --- */

/* The highest term that is believed. has_log: this node has a log or a state. */
uint64_t plausible_term(uint64_t own, bool has_log);

/* The highest index that is believed: last is that of this node's last entry, 0 for none. */
uint64_t plausible_index(uint64_t last);

/* --- peers --- */

/* What peers said and was not believed. */
struct trust_alarm {
    uint64_t count;
    uint64_t unlogged;       /* since the last line about it */
    uint64_t quiet_until_ms; /* no line before */
};

struct trust {
    const struct clock *clock;
    struct consensus *consensus; /* what this node has itself */
    struct trust_alarm alarm;
    uint64_t led_term; /* the newest in which this node heard a leader, or led; 0: none yet */
    uint64_t leader;   /* of that term: there is one */
};

void trust_init(struct trust *trust, const struct clock *clock, struct consensus *consensus);

/* May a message be true? False: nothing of it must be used. */
bool trust_message(struct trust *trust, uint64_t from, const struct raft_message *message);

/* A term, or an index, that the peer names; field is what the log line calls it. */
bool trust_term(struct trust *trust, uint64_t from, const char *field, uint64_t term);
bool trust_index(struct trust *trust, uint64_t from, const char *field, uint64_t index);

/* Raise the alarm: a field that a peer said is not believed, beside what it may be (bound). False.
 */
bool trust_alarm(struct trust *trust, uint64_t from, const char *field, uint64_t value,
                 uint64_t bound);

/* Somebody leads a term, as far as this node can know. */
void trust_note_leader(struct trust *trust, uint64_t id, uint64_t term);

#endif
