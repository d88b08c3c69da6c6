/*
 * facts.h - the cluster's tables except sessions: facts of the whole cluster (facts), of its nodes
 * and members (members), and clients that are cut (cuts).
 *
 * The happy path: a command of the cluster, or an applied configuration, changes a struct here,
 * whose row is written through the journal.
 *
 * Failure modes: a command that does not fit the state changes nothing. A row that no apply can
 * have made is ERR_CORRUPT. Thread: one owner. Deterministic: only the state and the entry decide.
 * The levels that this leafd speaks decide only whether it can continue.
 */
#ifndef LEAFD_STATE_FACTS_H
#define LEAFD_STATE_FACTS_H

#include "src/state/codec/cluster_command.h"
#include "src/state/journal.h"

/*
 * --- facts: single facts of the whole cluster: its birth, the level in force (level.h), and the
 * log's time. Each is a row of its own in the table of settings.
 *
 * The happy path: the first COMMAND_BIRTH or COMMAND_BIRTH_AT of the log writes the birth, for
 * good; the latter also writes the level that it names. (A leader elected before that was applied
 * may have proposed another birth, which changes nothing.) COMMAND_LEVEL names the level in force
 * plus 1, which is in force from the next entry on and never falls. No row: LEVEL_FIRST. Every
 * COMMAND_CLOCK above the log's time moves it up.
 *
 * A command that names another level than the next changes nothing. A command or row of a level
 * that this leafd does not speak is ERR_NEWER: the node stops before it.
 */

/* The names of the settings, after the table in their keys. */
#define STATE_SETTING_BIRTH "birth"
#define STATE_SETTING_LEVEL "level"
#define STATE_SETTING_TIME "time"

struct facts {
    struct journal *journal;
    struct level_range speaks; /* spoken by this leafd */
    struct birth birth;        /* without a uid: none yet */
    struct level_row level;    /* level 0: there is no row */
    uint64_t log_ms;           /* the log's time, 0: none yet */
};

void facts_init(struct facts *facts, struct journal *journal, struct level_range speaks);

/* 0, or ERR_EXISTS: there is one already, which stays. index: of its entry. */
int facts_birth(struct facts *facts, const struct birth *birth, uint64_t index) MUST_CHECK;

/* The level in force. */
uint16_t facts_level(const struct facts *facts);
/* 0 (also for the level in force), or ERR_CONFLICT: not the next level. */
int facts_raise(struct facts *facts, const struct level_command *command,
                uint64_t index) MUST_CHECK;

void facts_clock(struct facts *facts, uint64_t cluster_ms);

/* A row of the table of settings as state_load_row() gets it; ERR_NOT_FOUND: it is none of these.
 */
int facts_load(struct facts *facts, const struct row_loaded *row) MUST_CHECK;

/* Append the value of such a row, for a restore, which makes one state from another; a time is
 * capped at the highest possible. */
void facts_birth_value(const struct birth *birth, struct buf *out);
void facts_time_value(uint64_t log_ms, struct buf *out);

/*
 * --- members: the state's knowledge of nodes: the membership change under way (cluster_command.h),
 * the removed node ids, each node's report of itself, and the addresses of members that have moved
 * since they were added.
 *
 * The happy path: COMMAND_MEMBER_BEGIN makes the row of the change. For each applied configuration
 * state_configured() removes the ids that left, each of which has a row of its own from then on,
 * and members_reached() deletes the row of the change once its goal is reached.
 *
 * The configuration keeps the address that a member was added with: the consensus core cannot
 * change it. A member that moved has a row here, which counts instead. A node that starts with
 * another address than it last reported registers the new one, or an operator sets it by
 * COMMAND_MEMBER_MOVE; the latest counts. The row is deleted with the member, like that of its
 * placement.
 */

struct members {
    struct journal *journal;
    struct member_change change; /* kind 0: none */
    struct node_set removed;
    struct node_rows infos;      /* struct node_info; one for each node ever */
    struct node_rows moves;      /* struct member_move */
    struct node_rows placements; /* struct placement; none for a node with only defaults */
    uint64_t move_changes;       /* how often one changed since the start; no part of the state */
};

void members_init(struct members *members, struct journal *journal);
void members_clear(struct members *members);

/* COMMAND_MEMBER_BEGIN of the entry at index: 0, ERR_REMOVED or ERR_EXISTS. */
int members_begin(struct members *members, const struct member_change *change,
                  uint64_t index) MUST_CHECK;
/* COMMAND_MEMBER_END of the change that the entry at index began: 0 or ERR_NOT_FOUND. */
int members_end(struct members *members, uint64_t index, bool given_up) MUST_CHECK;

/* This node is no longer a member, and never will be again: its address and place are forgotten. */
void members_remove(struct members *members, uint64_t node_id);
/* These are the members now: forget the change if its goal is reached. */
void members_reached(struct members *members, const struct member *now, size_t count);

/* The node's report; NULL: none yet. Borrowed until the next report. */
const struct node_info *members_info(const struct members *members, uint64_t node_id);
/* COMMAND_NODE_INFO: the row changes only if a field differs. A node that starts with another
 * address has moved there: its store proves that it is the same node. */
void members_report(struct members *members, const struct node_info *info);

/* COMMAND_MEMBER_MOVE: the member has this address from now on. 0 or ERR_REMOVED. */
int members_move(struct members *members, const struct member_move *move) MUST_CHECK;

/* COMMAND_PLACEMENT: set the named fields, keep the rest. 0 or ERR_REMOVED. */
int members_place(struct members *members, const struct placement *placement) MUST_CHECK;
/* The node's placement; defaults where nothing was set. */
struct placement members_placement(const struct members *members, uint64_t node_id);

/* Rows of the tables MEMBERS, REMOVED, NODES, ADDRESSES and PLACEMENTS. */
int members_load(struct members *members, const struct row_loaded *row) MUST_CHECK;

/*
 * --- cuts: clients that are cut. A cut ends by itself once the cluster's clock is past its time;
 * the next COMMAND_CUT after that, by the log's time, deletes its row.
 */
struct cuts {
    struct journal *journal;
    struct client_cuts now;
    uint64_t changes; /* how often one changed since the start; no part of the state */
};

void cuts_init(struct cuts *cuts, struct journal *journal);

/* COMMAND_CUT: replaces the cut of this name. It lasts LIMIT_CUT_S by the log's time at most. 0;
 * ERR_CONFLICT: there are LIMIT_CUTS, and none of them is over; ERR_NOT_FOUND: none of this name
 * can end. */
int cuts_put(struct cuts *cuts, const struct client_cut *cut, uint64_t log_ms) MUST_CHECK;

int cuts_load(struct cuts *cuts, const struct row_loaded *row) MUST_CHECK;

#endif
