/*
 * applier.h - the state machine's place in the log: applies entries, writes rows to disk, installs
 * a snapshot's state, and decides how much of the log may be cut.
 *
 * Rows are written after the log. The log has the same changes, so rows can wait. A commit of rows
 * alone would cost as much as one with new entries. The happy path: an applied command leaves its
 * changes here. Once they are rows_join_ms old, they are written right before the next entries, in
 * the same group commit (write_entries() in driver.c). If no entries come before they are
 * rows_hold_ms old, they are written alone (rows_due). The rows of a bulk keep a disk busy for a
 * while. They wait a different time on each node, so that the other nodes form the majority that
 * other commands need. When enough of the state is durable, applier_compaction() says that the log
 * may be cut.
 *
 * Failure modes: the process dies: held changes are applied again from the log. A state that
 * diverged, or a snapshot whose rows do not load: an error, and the owner ends the process.
 *
 * Invariants: the applied index never falls, and no entry is applied while a snapshot is being
 * installed; the durable position is never ahead of the applied one.
 *
 * Thread: the raft loop.
 */
#ifndef LEAFD_RAFT_CORE_APPLIER_H
#define LEAFD_RAFT_CORE_APPLIER_H

#include "raft/core/entry_log.h"
#include "raft/wire/wire.h"
#include "src/base/clock.h"
#include "src/base/timers.h"

struct applier_config {
    uint32_t snapshot_entries; /* compact after this many entries applied durably */
    uint32_t trailing_entries; /* kept after a compaction */
    uint32_t rows_join_ms;     /* changed rows of this age go with the next entries, */
    uint32_t rows_hold_ms;     /* or of this age alone; >= rows_join_ms */
    uint32_t rows_many_ms;     /* rows of a bulk wait this long; differs on each node */
};

/* Made by driver_start(), with the position that the state has the rows of. */
struct applier {
    struct applier_config config;
    struct state *state;
    struct writes *writes;
    const struct clock *clock;
    struct state *next;            /* of the snapshot that is being installed; owned */
    struct store_position applied; /* in memory; conf is owned */
    struct store_position durable; /* as the disk has it; conf is owned */
    struct row_changes rows;       /* changed, and not on their way to the disk yet */
    uint64_t rows_since_ms;        /* UINT64_MAX: there are none */
    bool rows_many;                /* they wait only for their timer */
    struct timers *timers;
    struct timer rows_due; /* they have waited as long as they may */
    uint64_t compacted;    /* index up to which the log was last cut, or a snapshot's */
    bool installing;
};

/* --- entries: each the one after the applied index --- */

/* An entry that needs no action. */
void applier_skip(struct applier *applier, uint64_t index, uint64_t term);

/* A configuration. 0, or ERR_CORRUPT: it does not decode. */
int applier_configuration(struct applier *applier, uint64_t index, uint64_t term,
                          const struct entry_block *block) MUST_CHECK;

/* The configuration that is applied; without members if none is yet. */
void applier_configured(const struct applier *applier, struct configuration *ret_configuration);

/* --- rows: only the last change of a key is written, so that most commits of a busy node carry
 * entries alone, and fewer pages --- */

/* Keep the last change of each key; before a deletion also the last change that is no deletion,
 * since only an existing row can be deleted. The order stays. */
void rows_coalesce(struct row_changes *changes);

/* Entries were applied in this turn: their rows wait from now on. */
void applier_hold(struct applier *applier);

/* Write the rows now, if there are any: the next write is not durable without them. more: that
 * write follows at once, for the same commit. Never from inside a call of the driver's observer or
 * of a listener of the state machine: an entry may be applied in part there. */
void applier_write(struct applier *applier, bool more);

/* Such a write came back, or that of a snapshot, which is the state from now on: it is durable up
 * to there. */
void applier_written(struct applier *applier, const struct write *write);

/* --- compaction --- */

/* Must the log be cut after the durable state? Returns the index up to which it may be cut, and how
 * many entries up to that index must stay nevertheless; 0: not now. needed: peers that get a
 * snapshot need the entries above this index; if the disk is low, the log is cut nevertheless. */
uint64_t applier_compaction(struct applier *applier, const struct entry_log *log, uint64_t needed,
                            bool is_disk_low, uint32_t *ret_trailing);

/* --- snapshots --- */

/* Put a snapshot that has come on disk in place of log and state: its rows, from byte `at` of the
 * stream on, and the state machine that they make (snapshot.h). All three are taken over. Nothing
 * is applied until it is there. */
void applier_install(struct applier *applier, struct store_position *position, struct buf *stream,
                     size_t at, struct state *state);

#endif
