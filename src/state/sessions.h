/*
 * sessions.h - which commands were carried out, and what each was answered (session.h).
 *
 * The happy path: sessions_lookup() finds that a command is new; it is carried out;
 * sessions_answer() remembers its answer, and forgets what its node no longer waits for. A
 * command that comes again is answered from there, byte for byte.
 *
 * Each answer is a row, in a slot: its value has the incarnation, the number, the lowest number
 * awaited as of then, and the bytes. The first answer that is forgotten leaves its slot to the new
 * one, so that a busy node writes the same few rows again and again, and deletes none.
 *
 * Failure modes: a command that must not be carried out is refused, as session.h says, and nothing
 * changes. A row that no apply can have made is ERR_CORRUPT.
 *
 * Thread: one owner. Deterministic: only the state and the command decide.
 */
#ifndef LEAFD_STATE_SESSIONS_H
#define LEAFD_STATE_SESSIONS_H

#include "src/state/codec/session.h"
#include "src/state/journal.h"

/* No answer is longer: it must fit a row. */
#define SESSION_ANSWER_BYTES_MAX (LIMIT_ROW_VALUE_BYTES - SESSION_ROW_HEAD_BYTES)
#define SESSION_ROW_HEAD_BYTES (1 + 3 * 8 + 4) /* version, incarnation, seq, lowest, length */

/* What one command was answered. */
struct session_answer {
    uint64_t seq;    /* 0: none, the slot is free */
    uint64_t lowest; /* the session's, as of then */
    struct buf bytes;
};

/* The commands of a node. */
struct node_session {
    uint64_t node_id;
    uint64_t incarnation;
    uint64_t lowest;              /* numbers below it are awaited no more */
    struct session_answer *slots; /* of numbers from lowest on */
    size_t slot_count;
    size_t free_from; /* slots below it are taken */
    size_t bytes;     /* of all answers; < LIMIT_SESSION_BYTES and one answer */
    uint16_t slot_of[LIMIT_SESSION_COMMANDS]; /* by seq % LIMIT_SESSION_COMMANDS: slot + 1; 0: no
                                                 answer */
};

struct sessions {
    struct journal *journal;
    struct node_session *items[LIMIT_SESSIONS]; /* in no order */
    size_t count;
};

void sessions_init(struct sessions *sessions, struct journal *journal);
void sessions_clear(struct sessions *sessions);

/* True: the command must not be carried out, and its result is appended: the one that it had
 * before, or a refusal. Changes nothing. */
bool sessions_lookup(const struct sessions *sessions, const struct session_stamp *stamp,
                     struct buf *result);
/* True: too many bytes of answers are kept for the node. The refusal is appended; it is the answer
 * that the command then has. */
bool sessions_is_full(const struct sessions *sessions, const struct session_stamp *stamp,
                      struct buf *result);
/* A command that sessions_lookup() let pass was carried out, with this answer. Everything of
 * earlier incarnations, and what its node waits for no more, is forgotten. */
void sessions_answer(struct sessions *sessions, const struct session_stamp *stamp, const void *data,
                     size_t len);
/* The node was removed from the cluster for good: its session goes. */
void sessions_removed(struct sessions *sessions, uint64_t node_id);
/* Is a request with this stamp one that is awaited no more? */
bool sessions_is_past(const struct sessions *sessions, const struct session_stamp *stamp);

/* The newest incarnation of the node that is known here; 0: none. */
uint64_t sessions_incarnation(const struct sessions *sessions, uint64_t node_id);

/* A row as state_load_row() gets it. */
int sessions_load(struct sessions *sessions, const struct row_loaded *row) MUST_CHECK;
/* All rows are there: ERR_CORRUPT if some cannot have been there together. */
int sessions_check(const struct sessions *sessions) MUST_CHECK;

#endif
