/*
 * trust.h - is a peer's message plausible? Implausible numbers, and two leaders of one term.
 *
 * Bytes may be wrong: bad memory, a bug, a disk. A term near the maximum, once adopted, leaves no
 * room for another election, and every node that hears of it adopts it: the cluster would be lost.
 * The library also fails on two leaders of one term. So nothing from a peer is believed or written
 * to disk before it is plausible compared with this node's own data:
 *
 *  - An index is at most LIMIT_PLAUSIBLE_JUMP above the node's last one.
 *  - A term is at most LIMIT_PLAUSIBLE_JUMP above the node's own.
 *  - No number reaches LIMIT_PLAUSIBLE: from there on, even the own data directory is not believed.
 *
 * A node that has nothing yet (no log, no state) has nothing to compare with and nothing to lose:
 * only the last rule applies, or no node could join an old cluster. A malicious member that has the
 * secret can raise a term repeatedly: out of scope (SECURITY.md).
 *
 * The happy path: every message passes trust_message() before the consensus core, the disk or any
 * part's memory gets data from it.
 *
 * Failure modes: an implausible number, or a second leader of a term. The answer is false, the
 * caller must refuse the message, which closes the link, and the alarm is raised: a line of level
 * error, at most one in a second, and a count (leafd_peer_implausible_total). It does not happen
 * among nodes whose disks keep their data.
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

/* The highest term, or index, that is believed. own: this node's own one. has_log: it has a log or
 * a state. */
uint64_t plausible_bound(uint64_t own, bool has_log);

/* Claims of peers that were not believed. */
struct trust_alarm {
    uint64_t count;
    uint64_t unlogged;       /* since the last line about it */
    uint64_t quiet_until_ms; /* no line before */
};

struct trust { /* its owner sets the first two; the rest begins as zeros */
    const struct clock *clock;
    struct consensus *consensus; /* this node's own data */
    struct trust_alarm alarm;
    uint64_t led_term; /* the newest term in which this node heard a leader, or led; 0: none yet */
    uint64_t leader;   /* of that term, which has only one */
};

/* Is a message plausible? False: no part of it may be used. */
bool trust_message(struct trust *trust, uint64_t from, const struct raft_message *message);

/* Check a term, or an index, of a peer; field is its name in the log line. */
bool trust_term(struct trust *trust, uint64_t from, const char *field, uint64_t term);
bool trust_index(struct trust *trust, uint64_t from, const char *field, uint64_t index);

/* Raise the alarm: a peer's field is not believed, since it is above its bound. Returns false. */
bool trust_alarm(struct trust *trust, uint64_t from, const char *field, uint64_t value,
                 uint64_t bound);

/* This node leads a term, or has heard its leader. */
void trust_note_leader(struct trust *trust, uint64_t id, uint64_t term);

/*
 * --- witness: does a leader's log agree with the entries committed here?
 *
 * A leader has every entry that was ever committed (Leader Completeness), unless a majority lost
 * its data, by restored older copies, say. So if a leader has another entry where this node knows a
 * committed one, nothing of its message may be used (guard_normalise() would mix both logs). This
 * node then ends, since it is the witness that acknowledged changes were lost. Where its own
 * entries are compacted away, it can only detect that terms would fall.
 *
 * Thread: pure functions, one owner.
 */

struct applier;

/* What this node knows. */
struct witness {
    const struct entry_log *log;
    const struct applier *applier;
    const uint64_t *commit; /* index */
    uint64_t node_id;
};

/* Where a leader's log differs from the entries committed here. */
struct contradiction {
    uint64_t index;
    uint64_t term;       /* there */
    uint64_t known_term; /* here; its upper bound if the entry is compacted away */
};

/* Term of the entry at index, 0 if not known any more. */
uint64_t witness_term_at(const struct witness *witness, uint64_t index);

/* Entries, or the head of a snapshot, of a leader of this node's term or a later one. False: see
 * *ret_contradiction. */
bool witness_agrees(const struct witness *witness, const struct raft_message *message,
                    struct contradiction *ret_contradiction);

/*
 * --- entries_check: may the entries of a leader go to the disk? An entry on disk is loaded at each
 * start: one that no leafd could apply would end the node again and again.
 *
 * The happy path: entries_check() looks at all entries of a message that are not committed here
 * yet, before the log, the disk or the consensus core has any of them. Entries that do not follow
 * this node's log are not checked: the core refuses them, and the leader sends earlier ones. Rules:
 *
 *  - A command is whole: it decodes up to its last byte (command_read()).
 *  - A barrier, which the core writes by itself, has BARRIER_BYTES_MAX bytes at most.
 *  - A configuration decodes: message_decode() ensures it.
 *  - A command that raises the level above what this leafd speaks, or a command of an unknown kind,
 *    comes from an honest leader only if an earlier start of this node has reported that it speaks
 *    that level, in its row of the state (upgrade in membership.h). That row may come in the log
 *    just before the entry, so the entry is left out until all before it are applied. If the row
 *    shows it, the node went back to an older leafd and must stop before the entry; else the entry
 *    is a lie. Before the birth there are no rows. The birth itself shows it: its level is one that
 *    each first member had reported in a handshake (birth_watch_speaks()).
 *
 * Failure modes: ENTRIES_LIE, and the caller refuses the message, which closes the link, and raises
 * the alarm (trust.h). Entries that a version before these rules wrote to disk are applied as
 * before: a command that does not decode does nothing.
 *
 * Thread: the raft loop; a pure function.
 */

#define BARRIER_BYTES_MAX 8

enum entries_verdict {
    ENTRIES_FINE,  /* all of them */
    ENTRIES_CUT,   /* only those before `at` for now */
    ENTRIES_NEWER, /* `at` is for a later leafd, which this node once ran */
    ENTRIES_LIE    /* nothing of the message */
};

struct entries_checked {
    unsigned at;       /* the entry, by its position in the message */
    const char *field; /* its name in the log line */
    uint64_t value;
    uint64_t bound;
};

enum entries_verdict entries_check(const struct witness *witness,
                                   const struct raft_append_entries *append,
                                   struct entries_checked *ret_checked);

#endif
