/*
 * trust.h - may what a peer says be true? Numbers that cannot be, and two leaders of one term.
 *
 * A member that lies, or a frame that somebody slipped into a link, may name any number. A term
 * near the end of the numbers, once adopted, leaves no room for another election, and every node
 * that hears of it adopts it: the cluster would be lost. So nothing that a peer tells is believed,
 * and nothing of it gets to the disk, before it is plausible beside what this node has itself:
 *
 *  - An index is at most LIMIT_PLAUSIBLE_JUMP above the node's last one.
 *  - A term is at most that much above the node's own, all rises by messages taken together, beside
 *    LIMIT_PLAUSIBLE_RISE_PER_MS: in t ms a liar moves a term by 2^32 + t, however many messages
 *    it sends, and needs more than 70 million years for all numbers.
 *  - Nothing gets to LIMIT_PLAUSIBLE: from there on its own data directory is not believed either.
 *
 * A node that has nothing yet (no log, no state) has nothing to compare with and nothing to lose:
 * there the last rule holds alone, or no node could join an old cluster.
 *
 * A liar may move one node by all that it may be moved, and the next honest election moves it one
 * further, which to a node that the liar did not reach is one too many. So what a term may rise by
 * grows on while peers tell higher ones: from LIMIT_PLAUSIBLE_WAIT_MS after the first refusal, by
 * the same LIMIT_PLAUSIBLE_RISE_PER_MS, until none was refused for so long. Two honest nodes are so
 * parted by a lie for not much longer than it went on.
 *
 * The happy path: every message passes trust_message() before the consensus core, or the disk, or
 * anybody's memory gets anything of it.
 *
 * Failure modes: a number that cannot be, or a second leader of a term: somebody
 * lies. The answer is false, the message is to be refused, which closes the link, and the alarm is
 * raised: a line of level error, at most one in a second, and a count
 * (leafd_peer_implausible_total). It does not happen among honest nodes whose disks kept what they
 * were given.
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

/* What the term may yet rise by through messages. Times are of the monotonic clock. */
struct plausible {
    uint64_t left;
    uint64_t updated_ms;
    uint64_t refused_since_ms; /* of a series of refusals */
    uint64_t refused_ms;       /* the last of them */
    bool refusing;             /* such a series is not over */
};

void plausible_init(struct plausible *plausible, uint64_t now_ms);

/* The highest term that is believed now. has_log: this node has a log or a state. */
uint64_t plausible_term(struct plausible *plausible, uint64_t own, bool has_log, uint64_t now_ms);

/* Messages moved this node's term up by so much. */
void plausible_rose(struct plausible *plausible, uint64_t by);

/* A peer named a higher term, and was not believed. */
void plausible_refused(struct plausible *plausible, uint64_t now_ms);

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
    struct plausible plausible;
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
