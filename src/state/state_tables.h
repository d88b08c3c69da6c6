/*
 * state_tables.h - the replicated state's struct, with the cluster's tables, and the functions that
 * change them: facts of the cluster and its members (facts.c), and the commands that were carried
 * out (sessions.c). state.h has those that read them.
 *
 * The happy path: a command of the cluster, or an applied configuration, changes a struct here,
 * whose row is written through the journal.
 *
 * Failure modes: a command that does not fit the state changes nothing. A row that no apply can
 * have made is ERR_CORRUPT. Thread: one owner. The levels that this leafd speaks decide only
 * whether it can continue.
 */
#ifndef LEAFD_STATE_STATE_TABLES_H
#define LEAFD_STATE_STATE_TABLES_H

#include "src/state/codec/cluster_command.h"
#include "src/state/codec/session.h"
#include "src/state/journal.h"
#include "src/state/machine.h"

/* The names of the settings, after the table in their keys. */
#define STATE_SETTING_BIRTH "birth"
#define STATE_SETTING_LEVEL "level"
#define STATE_SETTING_TIME "time"

/*
 * Single facts of the whole cluster. Each is a row of its own in the table of settings.
 *
 * The happy path: the first COMMAND_BIRTH or COMMAND_BIRTH_AT of the log writes the birth, for
 * good; the latter also writes the level that it names. (A leader elected before that was applied
 * may have proposed another birth, which changes nothing.) COMMAND_LEVEL names the level in force
 * plus 1, which is in force from the next entry on and never falls. No row: LEVEL_FIRST. Every
 * COMMAND_CLOCK above the log's time moves it up. A command or row of a level that this leafd does
 * not speak is ERR_NEWER: the node stops before it.
 */
struct facts {
    struct level_range speaks; /* spoken by this leafd */
    struct birth birth;        /* without a uid: none yet */
    struct level_row level;    /* level 0: there is no row; state_level() is that in force */
    uint64_t log_ms;           /* the log's time (highest COMMAND_CLOCK), 0: none yet */
};

/*
 * The membership change under way (cluster_command.h), the removed node ids, each node's report of
 * itself, and the addresses of members that have moved since they were added.
 *
 * The happy path: COMMAND_MEMBER_BEGIN makes the row of the change. For each applied configuration
 * state_configured() removes the ids that left, each of which has a row of its own from then on,
 * and facts_reached() deletes the row of the change once its goal is reached.
 *
 * The configuration keeps the address that a member was added with: the consensus core cannot
 * change it. A member that moved has a row here, which counts instead. A node that starts with
 * another address than it last reported registers the new one, or an operator sets it by
 * COMMAND_MEMBER_MOVE; the latest counts. The row is deleted with the member, like that of its
 * placement.
 */
struct members {
    struct member_change change; /* kind 0: none */
    struct node_set removed;
    struct node_rows infos;      /* struct node_info; one for each node ever */
    struct node_rows moves;      /* struct member_move */
    struct node_rows placements; /* struct placement; none for a node with only defaults */
    uint64_t move_changes;       /* how often one changed since the start; no part of the state */
};

/* Clients that are cut. A cut ends by itself once the cluster's clock is past its time; the next
 * COMMAND_CUT after that, by the log's time, deletes its row. */
struct cuts {
    struct client_cuts now;
    uint64_t changes; /* how often one changed since the start; no part of the state */
};

/*
 * The commands that were carried out, and the answer of each (session.h).
 *
 * The happy path: sessions_lookup() finds that a command is new; it is carried out;
 * sessions_answer() stores its answer, and forgets answers that its node no longer waits for. A
 * repeated command gets the stored answer, byte for byte.
 *
 * Each answer is a row, in a slot: its value has the incarnation, the number, the lowest number
 * awaited as of then, and the bytes. A new answer takes the slot of the first forgotten one, so
 * that a busy node writes the same few rows again and again, and deletes none.
 */

/* No answer is longer: it must fit a row. */
#define SESSION_ANSWER_BYTES_MAX (LIMIT_ROW_VALUE_BYTES - SESSION_ROW_HEAD_BYTES)
#define SESSION_ROW_HEAD_BYTES (1 + 3 * 8 + 4) /* version, incarnation, seq, lowest, length */

/* The answer to one command. */
struct session_answer {
    uint64_t seq;    /* 0: none, the slot is free */
    uint64_t lowest; /* the session's, as of then */
    struct buf bytes;
};

/* The commands of a node. */
struct node_session {
    uint64_t node_id;
    uint64_t incarnation;
    uint64_t lowest;              /* numbers below it are no longer awaited */
    struct session_answer *slots; /* for numbers from lowest on */
    size_t slot_count;
    size_t free_from; /* slots below it are taken */
    size_t bytes;     /* of all answers; < LIMIT_SESSION_BYTES and one answer */
    uint16_t slot_of[LIMIT_SESSION_COMMANDS]; /* by seq % LIMIT_SESSION_COMMANDS: slot + 1; 0: no
                                                 answer */
};

struct sessions {
    struct node_session *items[LIMIT_SESSIONS]; /* in no order */
    size_t count;
};

/* Entries whose digest is remembered, for COMMAND_DIGEST. It names its proposer's applied index;
 * all entries that were appended but not applied there are between the two. */
#define STATE_DIGEST_MARKS 8192
_Static_assert(STATE_DIGEST_MARKS >= 2 * LIMIT_UNCOMMITTED_ENTRIES, "also where apply is late");

/* The number of these commands' own entries that are remembered for longer. */
#define STATE_DIGEST_CHECKS 64

struct state_digest_mark {
    uint64_t index; /* 0: none */
    uint64_t digest;
};

/* Only the functions here and in state.h, and the machine, change the fields. All may read the
 * facts, the cuts and move_changes, and use the functions of state.h for the rest. */
struct state {
    struct machine *machine;
    struct journal journal;
    struct facts facts;
    struct members members;
    struct cuts cuts;
    struct sessions sessions;
    struct state_digest_mark marks[STATE_DIGEST_MARKS]; /* at index % STATE_DIGEST_MARKS */
    struct state_digest_mark checks[STATE_DIGEST_CHECKS];
    unsigned check_count; /* number so far; modulo the size, the next one's place */
};

/* --- facts, members and cuts --- */

/* Forget all rows; also makes the tables of a new state, of zeros. */
void facts_clear(struct state *state);

/* Carry out a command of the cluster, of the entry at index. Returns the status that is its
 * result. */
int facts_apply(struct state *state, uint64_t index,
                const struct cluster_command *command) MUST_CHECK;

/* The log's time moves up to this, by a day at most. */
void facts_clock(struct state *state, uint64_t cluster_ms);

/* The node is no longer a member, and never will be again: its address and place are forgotten. */
void facts_removed(struct state *state, uint64_t node_id);
/* This is the configuration now: forget the change if its goal is reached. */
void facts_reached(struct state *state, const struct configuration *now);

/* A row as state_load_row() gets it; ERR_NOT_FOUND: it is of no such table or setting. */
int facts_load(struct state *state, const struct state_row *row) MUST_CHECK;

/* Append the value of such a row, for a restore, which makes one state from another; a time is
 * capped at the highest possible. */
void facts_birth_value(const struct birth *birth, struct buf *out);
void facts_time_value(uint64_t log_ms, struct buf *out);

/* The level in force. */
uint16_t state_level(const struct state *state);
/* Where a node is, and its share of the work; defaults where nothing was set. */
struct placement state_placement(const struct state *state, uint64_t node_id);

/* --- sessions --- */

void sessions_clear(struct state *state);

/* The node's session; NULL: none. */
struct node_session *sessions_find(const struct state *state, uint64_t node_id);

/* True: the command must not be carried out, and its result is appended: its earlier result, or a
 * refusal. Changes nothing. */
bool sessions_lookup(const struct state *state, const struct session_stamp *stamp,
                     struct buf *result);
/* True: too many bytes of answers are kept for the node. The refusal is appended, and becomes the
 * command's answer. */
bool sessions_is_full(const struct state *state, const struct session_stamp *stamp,
                      struct buf *result);
/* A command that sessions_lookup() let pass was carried out, with this answer. All answers of
 * earlier incarnations, and those its node no longer waits for, are forgotten. */
void sessions_answer(struct state *state, const struct session_stamp *stamp, const void *data,
                     size_t len);
/* The node was removed from the cluster for good: delete its session. */
void sessions_removed(struct state *state, uint64_t node_id);

/* A row as state_load_row() gets it. */
int sessions_load(struct state *state, const struct state_row *row) MUST_CHECK;
/* All rows are loaded: ERR_CORRUPT if some cannot have existed together. */
int sessions_check(const struct state *state) MUST_CHECK;

#endif
