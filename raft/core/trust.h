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

#include <raft.h>
#include <stdbool.h>
#include <stdint.h>

#include "raft/core/entry_log.h"
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

struct trust { /* its owner sets the first two; the rest begins as zeros */
    const struct clock *clock;
    struct consensus *consensus; /* what this node has itself */
    struct trust_alarm alarm;
    uint64_t led_term; /* the newest in which this node heard a leader, or led; 0: none yet */
    uint64_t leader;   /* of that term: there is one */
};

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

/*
 * --- witness: does a leader's log agree with what is committed here?
 *
 * A leader has every entry that was ever committed (Leader Completeness), unless a majority lost
 * its data: older copies that were put back, say. So of one that has another entry where this node
 * knows one to be committed nothing may be used (guard_normalise() would mix both logs), and this
 * node ends, since it is the witness that acknowledged changes were lost. Where its own entries are
 * compacted away it can only say that terms would have to fall.
 *
 * Thread: pure functions, one owner.
 */

struct raft_message;

/* What this node knows. */
struct witness {
    const struct entry_log *log;
    const struct store_position *applied;
    const uint64_t *commit; /* index */
};

/* Where a leader's log and what is committed here part. */
struct contradiction {
    uint64_t index;
    uint64_t term;       /* there */
    uint64_t known_term; /* here; of an entry that is compacted away: what it is at most */
};

/* Term of the entry at index, 0 if not known any more. */
uint64_t witness_term_at(const struct witness *witness, uint64_t index);

/* Entries, or the head of a snapshot, of a leader of this node's term or a later one. */
bool witness_agrees(const struct witness *witness, const struct raft_message *message,
                    struct contradiction *ret_contradiction);

/*
 * --- entries_check: may the entries of a leader go to the disk? What is there is there at each
 * start: an entry that no leafd could apply would end the node again and again.
 *
 * The happy path: entries_check() looks at all entries of a message that are not committed here
 * yet, before the log, the disk or the consensus core has any of them. What does not follow this
 * node's log is not judged by it: the core refuses it, and its leader sends what is before. Rules:
 *
 *  - A command is whole: it decodes up to its last byte (command_read()).
 *  - A barrier, which the core writes by itself, has BARRIER_BYTES_MAX bytes at most.
 *  - A configuration decodes: message_decode() has seen to that.
 *  - A command that raises the level above what this leafd speaks, or one of a kind that it does
 *    not know, comes from an honest leader only if this node itself has said that it speaks that:
 *    an earlier start of it, by its row of the state (upgrade in membership.h). That row may stand
 *    in the log just before the entry, so the entry is left out until all before it is applied.
 *    The row shows it: the node went back to an older leafd, and has to stop before the entry; or
 *    it is a lie.
 *
 * Failure modes: ENTRIES_LIE, and the caller refuses the message, which closes the link, and raises
 * the alarm (trust.h). What a version from before these rules has put on the disk is applied as
 * before: a command that does not decode does nothing.
 *
 * Thread: the raft loop; a pure function.
 */

#define BARRIER_BYTES_MAX 8

struct applier;
struct entry_log;

/* What this node knows. */
struct entry_checker {
    const struct entry_log *log;
    const struct applier *applier;
    uint64_t commit; /* index */
    uint64_t node_id;
};

enum entries_verdict {
    ENTRIES_FINE,  /* all of them */
    ENTRIES_CUT,   /* those before `at`: the others not now */
    ENTRIES_NEWER, /* `at` is for a later leafd, which this node once ran */
    ENTRIES_LIE    /* nothing of the message */
};

struct entries_checked {
    unsigned at;       /* the entry, by its position in the message */
    const char *field; /* what the log line calls it */
    uint64_t value;
    uint64_t bound;
};

enum entries_verdict entries_check(const struct entry_checker *checker,
                                   const struct raft_append_entries *append,
                                   struct entries_checked *ret_checked);

#endif
