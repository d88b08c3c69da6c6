/*
 * session.h - each command is carried out once: client sessions, as in Ongaro's thesis, 6.3. The
 * clients are the nodes.
 *
 * A node repeats a command whose outcome it does not know: the answer was late, the leader died. So
 * a command may stand in the log several times, the last time long after the others. Every command
 * says whose it is: the node, its incarnation (which start of that node), the command's number in
 * it, and the lowest number that the node still waits for. The state machine looks that up before
 * it does anything (src/state/sessions.c):
 *  - a number that it has the answer of: the same answer again, and nothing is done;
 *  - a number below the lowest that was ever said: ERR_STALE, and nothing is done. Its node has the
 *    answer, or has given it up;
 *  - an incarnation before the newest one: ERR_STALE, and nothing is done. So the first command of
 *    an incarnation ends all that the earlier ones left on their way;
 *  - a node that was removed: ERR_REMOVED. No clock and no count makes it forget anything.
 *
 * Invariants:
 *  - An incarnation is durable before its first command is sent, and never used again: it holds the
 *    count of the node's starts (prepare_store()).
 *  - A number is used for one command, whatever way that goes and however often.
 *  - A number is awaited until its answer came or its request was given up, and from then on it is
 *    never awaited again: the lowest awaited number only rises.
 *  - At most LIMIT_SESSION_COMMANDS numbers lie from the lowest awaited to the newest, and their
 *    answers hold at most LIMIT_SESSION_BYTES: more waits here.
 *
 * What is below is the node's side: it gives out the numbers. The happy path: session_take() when a
 * command is sent first, session_stamp() whenever it is sent, session_end() when its request is
 * over. session_is_due() says when the cluster must hear of numbers that are over, by a command
 * that does nothing else.
 *
 * Thread: one owner (the raft loop); the functions on stamps: any.
 */
#ifndef LEAFD_STATE_CODEC_SESSION_H
#define LEAFD_STATE_CODEC_SESSION_H

#include "src/base/buf.h"
#include "src/base/err.h"
#include "src/base/limits.h"
#include "src/state/codec/command_bytes.h"

/* Whose a command is. Stands behind the type of every command (command.h), little-endian; zeros: of
 * nobody, which only the first entry of a term is. */
struct session_stamp {
    uint64_t node_id;     /* 1..LIMIT_NODE_ID */
    uint64_t incarnation; /* of that node, >= 1: a later one is greater */
    uint64_t seq;         /* 1.. in the incarnation */
    uint64_t lowest;      /* 1..seq: what the node still waits for begins here */
};

/* Write the stamp into a command, in the place of the one that it has. */
void session_stamp_put(struct buf *command, const struct session_stamp *stamp);

/* Does it keep the rules above, with less than LIMIT_SESSION_COMMANDS from lowest to seq? */
bool session_stamp_is_sound(const struct session_stamp *stamp) MUST_CHECK;

/* 0, or ERR_BAD_MESSAGE if the command is short or the stamp not sound. A stamp of zeros is read as
 * such. */
int session_stamp_read(const void *command, size_t len, struct session_stamp *ret_stamp) MUST_CHECK;

/* Answers that a node lets the cluster hold before it waits: with what may be under way then, and
 * the largest answers, it stays below LIMIT_SESSION_BYTES. */
#define SESSION_HOLD_BYTES (LIMIT_SESSION_BYTES / 2)

/* What a command is answered that was not looked at, instead of the result that it would have. */
struct session_refusal {
    int32_t status;       /* ERR_STALE, ERR_REMOVED, ERR_OVERLOADED (LIMIT_SESSIONS other nodes have
                             one, or its answers are too many bytes) */
    uint64_t incarnation; /* the newest one of that node that the state machine knows; 0: none */
};
void session_refusal_encode(const struct session_refusal *refusal, struct buf *buf);
/* False: it is no refusal, but a result. */
bool session_refusal_decode(const void *result, size_t len,
                            struct session_refusal *ret_refusal) MUST_CHECK;

/* --- the node's side --- */

struct session {
    uint64_t node_id;
    uint64_t incarnation;
    uint64_t newest;   /* the last number that was given out; 0: none yet */
    uint64_t lowest;   /* the lowest awaited, or newest + 1 */
    uint64_t applied;  /* the highest lowest that the cluster has surely applied */
    uint64_t over;     /* the newest that is over and was no tidying command */
    uint64_t over_ms;  /* monotonic: since when one is over that the cluster has not heard of */
    size_t held_bytes; /* of answers that the cluster still keeps, as far as this node knows */
    uint8_t awaited[LIMIT_SESSION_COMMANDS / 8]; /* a bit for seq % LIMIT_SESSION_COMMANDS */
    uint32_t bytes[LIMIT_SESSION_COMMANDS];      /* of its answer */
};

void session_init(struct session *session, uint64_t node_id, uint64_t incarnation);

/* The next number; false: too many, or too many bytes of answers, are between the lowest awaited
 * and it: when that one is over there is room again. */
bool session_take(struct session *session, uint64_t *ret_seq) MUST_CHECK;

/* The stamp of an awaited number as of now. */
struct session_stamp session_stamp(const struct session *session, uint64_t seq);

/* The request of an awaited number is over. Its stamp's lowest, if it was answered: then the
 * cluster has applied that; 0: it was given up, and nobody knows. answer_bytes: of its answer.
 * tidying: it was a command that session_is_due() asked for. */
void session_end(struct session *session, uint64_t seq, uint64_t applied_lowest,
                 size_t answer_bytes, bool tidying, uint64_t now_ms);

/* Monotonic ms from when on a command is wanted that only carries the stamp: at once in a new
 * incarnation, so that those before are over; SESSION_TIDY_MS after a number was over of which the
 * cluster has not heard, so that no late copy of it can be carried out. UINT64_MAX: not now. Any
 * other command serves as well. */
#define SESSION_TIDY_MS 1000
uint64_t session_due_ms(const struct session *session);

#endif
