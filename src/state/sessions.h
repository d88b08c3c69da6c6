/*
 * sessions.h - the commands that were carried out, and the answer of each (session.h).
 *
 * The happy path: sessions_lookup() finds that a command is new; it is carried out;
 * sessions_answer() stores its answer, and forgets answers that its node no longer waits for. A
 * repeated command gets the stored answer, byte for byte.
 *
 * Each answer is a row, in a slot: its value has the incarnation, the number, the lowest number
 * awaited as of then, and the bytes. A new answer takes the slot of the first forgotten one, so
 * that a busy node writes the same few rows again and again, and deletes none.
 *
 * Failure modes: a command that must not be carried out is refused, as in session.h, and nothing
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
    struct journal *journal;
    struct node_session *items[LIMIT_SESSIONS]; /* in no order */
    size_t count;
};

void sessions_init(struct sessions *sessions, struct journal *journal);
void sessions_clear(struct sessions *sessions);

/* True: the command must not be carried out, and its result is appended: its earlier result, or a
 * refusal. Changes nothing. */
bool sessions_lookup(const struct sessions *sessions, const struct session_stamp *stamp,
                     struct buf *result);
/* True: too many bytes of answers are kept for the node. The refusal is appended, and becomes the
 * command's answer. */
bool sessions_is_full(const struct sessions *sessions, const struct session_stamp *stamp,
                      struct buf *result);
/* A command that sessions_lookup() let pass was carried out, with this answer. All answers of
 * earlier incarnations, and those its node no longer waits for, are forgotten. */
void sessions_answer(struct sessions *sessions, const struct session_stamp *stamp, const void *data,
                     size_t len);
/* The node was removed from the cluster for good: delete its session. */
void sessions_removed(struct sessions *sessions, uint64_t node_id);
/* Is a request with this stamp no longer awaited? */
bool sessions_is_past(const struct sessions *sessions, const struct session_stamp *stamp);

/* The newest incarnation of the node that is known here; 0: none. */
uint64_t sessions_incarnation(const struct sessions *sessions, uint64_t node_id);

/* A row as state_load_row() gets it. */
int sessions_load(struct sessions *sessions, const struct row_loaded *row) MUST_CHECK;
/* All rows are loaded: ERR_CORRUPT if some cannot have existed together. */
int sessions_check(const struct sessions *sessions) MUST_CHECK;

#endif
