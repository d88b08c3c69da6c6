/*
 * fsm_sessions.h - which commands were carried out, and what each was answered (session.h).
 *
 * The happy path: fsm_session_lookup() finds that a command is new; it is carried out;
 * fsm_session_answer() remembers its answer, and forgets what its node no longer waits for. A
 * command that comes again is answered from there, byte for byte.
 *
 * Each answer is a row, in a slot: its value tells the incarnation, the number, the lowest number
 * awaited as of then, and the bytes. The first answer that is forgotten leaves its slot to the new
 * one, so that a busy node writes the same few rows again and again, and deletes none.
 *
 * Failure modes: a command that must not be carried out is refused, as session.h says, and nothing
 * changes. A row that no apply can have made is ERR_CORRUPT.
 *
 * Thread: one owner. Deterministic: only the state and the command decide.
 */
#ifndef LEAFD_ID_FSM_FSM_SESSIONS_H
#define LEAFD_ID_FSM_FSM_SESSIONS_H

#include "src/id/codec/session.h"
#include "src/id/fsm/fsm_journal.h"

/* What one command was answered. */
struct fsm_answer {
    uint64_t seq;    /* 0: none, the slot is free */
    uint64_t lowest; /* the session's, as of then */
    struct buf bytes;
};

/* The commands of a node. */
struct fsm_session {
    uint64_t node_id;
    uint64_t incarnation;
    uint64_t lowest;          /* numbers below it are awaited no more */
    struct fsm_answer *slots; /* of numbers from lowest on */
    size_t slot_count;
    size_t free_from; /* slots below it are taken */
    size_t bytes;     /* of all answers; < LIMIT_SESSION_BYTES and one answer */
    uint16_t slot_of[LIMIT_SESSION_COMMANDS]; /* by seq % LIMIT_SESSION_COMMANDS: slot + 1; 0: no
                                                 answer */
};

struct fsm_sessions {
    struct fsm_journal *journal;
    struct fsm_session *items[LIMIT_SESSIONS]; /* in no order */
    size_t count;
};

void fsm_sessions_init(struct fsm_sessions *sessions, struct fsm_journal *journal);
void fsm_sessions_clear(struct fsm_sessions *sessions);

/* True: the command must not be carried out, and its result is appended: the one that it had
 * before, or a refusal. Changes nothing. */
bool fsm_session_lookup(const struct fsm_sessions *sessions, const struct session_stamp *stamp,
                        struct buf *result);
/* True: too many bytes of answers are kept for the node. The refusal is appended; it is the answer
 * that the command then has. */
bool fsm_session_is_full(const struct fsm_sessions *sessions, const struct session_stamp *stamp,
                         struct buf *result);
/* A command that fsm_session_lookup() let pass was carried out, with this answer. Everything of
 * earlier incarnations, and what its node waits for no more, is forgotten. */
void fsm_session_answer(struct fsm_sessions *sessions, const struct session_stamp *stamp,
                        const void *data, size_t len);
/* The node was removed from the cluster for good: its session goes. */
void fsm_session_removed(struct fsm_sessions *sessions, uint64_t node_id);
/* Is a request with this stamp one that nobody waits for any more? */
bool fsm_session_is_past(const struct fsm_sessions *sessions, const struct session_stamp *stamp);

/* The newest incarnation of the node that is known here; 0: none. */
uint64_t fsm_session_incarnation(const struct fsm_sessions *sessions, uint64_t node_id);

/* A row as fsm_load_row() gets it. */
int fsm_sessions_load(struct fsm_sessions *sessions, const struct fsm_loaded *row) MUST_CHECK;
/* All rows are there: ERR_CORRUPT if some cannot have been there together. */
int fsm_sessions_check(const struct fsm_sessions *sessions) MUST_CHECK;

#endif
