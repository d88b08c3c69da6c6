/*
 * entry_check.h - may the entries of a leader go to the disk? What is there is there at each start:
 * an entry that no leafd could apply would end the node again and again.
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
 *    an earlier start of it, by its row of the state (raft/cluster/upgrade.h). That row may stand
 *    in the log just before the entry, so the entry is left out until all before it is applied.
 *    Then the row tells: the node went back to an older leafd, and has to stop before the entry; or
 *    it is a lie.
 *
 * Failure modes: ENTRIES_LIE, and the caller refuses the message, which closes the link, and raises
 * the alarm (trust.h). What a version from before these rules has put on the disk is applied as
 * before: a command that does not decode does nothing.
 *
 * Thread: the raft loop; a pure function.
 */
#ifndef LEAFD_RAFT_CORE_ENTRY_CHECK_H
#define LEAFD_RAFT_CORE_ENTRY_CHECK_H

#include <raft.h>
#include <stdbool.h>
#include <stdint.h>

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
