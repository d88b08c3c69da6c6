/*
 * session.h - the bytes common to commands, queries and results (command_bytes), and the sessions
 * by which each command is carried out once (session).
 *
 * Failure modes: reading gives false or ERR_BAD_MESSAGE; a full window: session_take() is false.
 * Thread: the functions on bytes: pure, any; a session has one owner (the raft loop).
 */
#ifndef LEAFD_STATE_CODEC_SESSION_H
#define LEAFD_STATE_CODEC_SESSION_H

#include "src/base/assert.h"
#include "src/base/buf.h"
#include "src/base/err.h"
#include "src/base/fields.h"
#include "src/base/limits.h"

/*
 * --- command_bytes: the parts common to all messages.
 *
 * Every message begins with a byte of version and a byte of type; queries and results have ranges
 * of their own, so that one can never be taken for another. A command has a stamp after that
 * (session_stamp): zeros until the node that first sends it fills it in. All are length-checked and
 * little-endian, with golden bytes in src/id/codec/tests/test_command.c.
 *
 * A command carries everything apply needs (its sender, the proposer's wall time): apply reads no
 * clock, no random, no local configuration.
 */

#define COMMAND_VERSION 3
#define MESSAGE_VERSION 1 /* of queries, results, and requests between parts of leafd */

#define SESSION_STAMP_AT 2 /* in a command: after version and type */
#define SESSION_STAMP_BYTES 26

/* Numbers of commands are below, those of queries, requests and results from here on. */
#define QUERY_BASE 0x40

/* The cluster's; the other numbers are the machine's. */
enum cluster_result {
    RESULT_STATUS = 0x83,
    RESULT_REFUSED = 0x89, /* the session's, instead of the command's own */
    RESULT_MEMBER = 0x8a
};

/* The number of a command's type, of either half; ERR_BAD_MESSAGE: too short; or ERR_NEWER: a
 * version that this leafd does not know. Only the first two bytes are read. */
int command_number(const void *data, size_t len) MUST_CHECK;

/* A query, a result, or a request between two parts of leafd. */
static inline void message_head_put(struct buf *buf, unsigned type)
{
    ASSERT(type > 0 && type <= UINT8_MAX);
    buf_put_u8(buf, MESSAGE_VERSION);
    buf_put_u8(buf, (uint8_t)type);
}

/* False if the message is of another version or type. */
static inline bool message_head_read(struct reader *reader, const void *data, size_t len,
                                     unsigned type)
{
    reader_init(reader, data, len);
    return reader_u8(reader) == MESSAGE_VERSION && reader_u8(reader) == type && !reader->bad;
}

/* A command, not stamped yet, up to the end of its fields. _read: 0, or ERR_BAD_MESSAGE with record
 * undefined; session_stamp_read() reads its sender. */
void command_fields_put(struct buf *buf, unsigned type, const struct fields *fields,
                        const void *record);
int command_fields_read(const void *data, size_t len, unsigned type, const struct fields *fields,
                        void *record) MUST_CHECK;

/* A query, a result or a request that has only fields. _read: false if it is another message, or
 * malformed; record is then undefined. */
void message_fields_put(struct buf *buf, unsigned type, const struct fields *fields,
                        const void *record);
bool message_fields_read(const void *data, size_t len, unsigned type, const struct fields *fields,
                         void *record) MUST_CHECK;

/* Items at the end of a message: their count, then one after the other. _read: up to max items into
 * an array of structs, with 0 in all bytes that are no field; 0, or ERR_BAD_MESSAGE.
 * _read_all: into a malloc'ed array, the caller's; NULL: malformed bytes. */
int message_items_read(struct reader *reader, const struct item_format *format, void *ret_items,
                       size_t max, size_t *ret_count) MUST_CHECK;
void *message_items_read_all(struct reader *reader, const struct item_format *format,
                             size_t *ret_count) MUST_CHECK;

/* The result of all commands without a result struct of their own. */
void status_result_encode(int32_t status, struct buf *buf);
int status_result_decode(const void *data, size_t len, int32_t *ret_status) MUST_CHECK;

/*
 * --- session: client sessions, as in Ongaro's thesis, 6.3, by which each command is carried out
 * once. The clients are the nodes.
 *
 * A node repeats a command whose outcome it does not know: the answer was late, the leader died. So
 * a command may be in the log several times, the last time long after the others. The state machine
 * looks its stamp up first (src/state/sessions.c):
 *  - a number with a stored answer: the same answer again, and nothing is done;
 *  - a number below the highest "lowest" ever reported: ERR_STALE, and nothing is done. Its node
 *    has the answer, or has given it up;
 *  - an incarnation before the newest one: ERR_STALE, and nothing is done. So the first command of
 *    an incarnation ends all commands of the earlier ones that are still under way;
 *  - a node that was removed: ERR_REMOVED. The state machine forgets nothing by a clock or a count.
 *
 * Invariants:
 *  - An incarnation is durable before its first command is sent, and never used again: it holds the
 *    count of the node's starts (prepare_store()).
 *  - A number is used for one command, whichever nodes it passes through and however often.
 *  - A number is awaited until its answer came or its request was given up, and never again after
 *    that: the lowest awaited number only rises.
 *  - At most LIMIT_SESSION_COMMANDS numbers are from the lowest awaited to the newest, and their
 *    answers hold at most LIMIT_SESSION_BYTES: further commands wait here.
 *
 * The node's side, below, gives out the numbers. The happy path: session_take() when a command is
 * first sent, session_stamp() whenever it is sent, session_end() when its request is over.
 * session_due_ms() is when the cluster must learn of numbers that are over, by a command that does
 * nothing else.
 */

/* The sender of a command. Zeros: no node, only in a leader's entries for itself. */
struct session_stamp {
    uint64_t node_id;     /* 1..LIMIT_NODE_ID */
    uint64_t incarnation; /* of that node, >= 1: a later one is greater */
    uint64_t seq;         /* 1.. in the incarnation */
    uint64_t lowest;      /* 1..seq: the lowest number that the node still waits for */
};

/* Write the stamp into a command, in place of its old one. */
void session_stamp_put(struct buf *command, const struct session_stamp *stamp);

/* Does it keep the rules above, with less than LIMIT_SESSION_COMMANDS from lowest to seq? */
bool session_stamp_is_sound(const struct session_stamp *stamp) MUST_CHECK;

/* 0, or ERR_BAD_MESSAGE if the command is too short or the stamp not sound. A stamp of zeros is
 * read as zeros. */
int session_stamp_read(const void *command, size_t len, struct session_stamp *ret_stamp) MUST_CHECK;

/* Bytes of answers that a node lets the cluster hold before it waits. Even with the commands then
 * under way, and the largest answers, they stay below LIMIT_SESSION_BYTES. */
#define SESSION_HOLD_BYTES (LIMIT_SESSION_BYTES / 2)

/* The answer to a refused command, in place of its result. */
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
    uint64_t newest;   /* the last number given out; 0: none yet */
    uint64_t lowest;   /* the lowest awaited, or newest + 1 */
    uint64_t applied;  /* the highest "lowest" that the cluster has surely applied */
    uint64_t over;     /* the newest that is over, without tidying commands */
    uint64_t over_ms;  /* monotonic; since when one is over that the cluster has not learnt of */
    size_t held_bytes; /* of answers that the cluster still keeps, as far as this node knows */
    uint8_t awaited[LIMIT_SESSION_COMMANDS / 8]; /* a bit for seq % LIMIT_SESSION_COMMANDS */
    uint32_t bytes[LIMIT_SESSION_COMMANDS];      /* of its answer */
};

void session_init(struct session *session, uint64_t node_id, uint64_t incarnation);

/* The next number; false: too many numbers, or bytes of answers, since the lowest awaited one. When
 * that one is over there is room again. */
bool session_take(struct session *session, uint64_t *ret_seq) MUST_CHECK;

/* The stamp of an awaited number as of now. */
struct session_stamp session_stamp(const struct session *session, uint64_t seq);

/* The request of an awaited number is over. applied_lowest: its stamp's lowest, if it was answered,
 * since the cluster has then applied that; 0: it was given up, and that is unknown. answer_bytes:
 * of its answer. tidying: it was a command that session_due_ms() asked for. */
void session_end(struct session *session, uint64_t seq, uint64_t applied_lowest,
                 size_t answer_bytes, bool tidying, uint64_t now_ms);

/* Monotonic ms from when on a command that only carries the stamp is due: at once in a new
 * incarnation, to end the earlier ones; SESSION_TIDY_MS after a number was over that the cluster
 * has not learnt of, so that no late copy of it can be carried out. UINT64_MAX: not now. Any other
 * command serves as well. */
#define SESSION_TIDY_MS 1000
uint64_t session_due_ms(const struct session *session);

#endif
