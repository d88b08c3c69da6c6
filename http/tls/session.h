/*
 * session.h - TLS of one connection: sealed bytes in, plain bytes out, and the other way round. No
 * socket is touched here; the connection moves the bytes.
 *
 * All sessions of a loop share two buffers: what was received passes through one, what is to be
 * sent through the other. So one recv() takes what has come, and one send() takes what the replies
 * of a turn were sealed to.
 *
 * The happy path of a turn: recv() into session_room(); session_received(); session_handshake()
 * until it says TLS_OPEN; session_read() until it gives 0; session_keep(). At the turn's end
 * session_write(), and what session_sealed() then has is sent.
 *
 * A session has nothing of OpenSSL's until its client's first record is complete: a connection that
 * is silent, or sends half of a hello, costs what it sent. The buffers of one that has been quiet
 * for LIMIT_TLS_WARM_MS are freed; so are the oldest where more than LIMIT_TLS_WARM have some.
 *
 * Failure modes: TLS_FAILED and TLS_BROKEN: no byte more is to be read or written, but what is
 * sealed (the alert) is to be sent. A client that sends one handshake message after the other
 * without a request (LIMIT_TLS_CONTROL) is one of them. OpenSSL's queue of errors is of the thread:
 * it is emptied before a handshake and after a failure, and nothing is judged by it when records
 * are read and written, so that no connection suffers from what another did.
 *
 * Thread: the loop's.
 */
#ifndef LEAFD_HTTP_TLS_SESSION_H
#define LEAFD_HTTP_TLS_SESSION_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

#include "http/tls/context.h"
#include "src/base/buf.h"
#include "src/base/limits.h"
#include "src/base/timers.h"

struct ssl_st;

/* The longest record and some more: received and not decrypted. */
#define TLS_INPUT_BYTES (18 << 10)

TAILQ_HEAD(tls_sessions, tls_session);

struct tls_counts {
    _Atomic uint64_t full;    /* handshakes that were done, */
    _Atomic uint64_t resumed; /* those that began with a ticket, */
    _Atomic uint64_t failed;  /* and those that were not; or records that were wrong */
};

/* Of a loop. */
struct tls_loop {
    struct tls *tls;                /* borrowed */
    struct timers *timers;          /* the loop's, borrowed */
    struct buf sealed;              /* of the session that was written to last, not sent yet */
    uint32_t starts;                /* handshakes begun in this turn; the loop sets it to 0 */
    struct tls_sessions handshakes; /* under way, the oldest first */
    uint32_t handshake_count;
    struct tls_sessions warm; /* open, with buffers; the longest quiet first */
    uint32_t warm_count;
    struct timer cooling; /* of the first of them */
    uint64_t now_ms;      /* of the last session_keep() */
    struct tls_counts counts;
    uint8_t received[TLS_INPUT_BYTES]; /* lent to the session that is being read from */
};

enum tls_phase { TLS_HELLO, TLS_SHAKING, TLS_READY, TLS_DEAD };

struct tls_session {
    struct ssl_st *ssl; /* NULL: the first record is not complete */
    struct tls_loop *loop;
    void *owner; /* the connection */
    enum tls_phase phase;
    bool has_more;     /* OpenSSL holds decrypted bytes */
    bool said_end;     /* the client's close_notify has come, */
    bool ended;        /* and was read */
    bool closed;       /* ours was sealed, or is not wanted */
    uint32_t controls; /* handshake messages and alerts since the last reply */
    const uint8_t *in; /* received, not decrypted: in `kept`, or in what the loop lends */
    size_t in_len;
    uint8_t *kept;             /* owned; NULL: none */
    struct buf held;           /* sealed, to go before what is written next */
    char *certificate;         /* the client's name; owned; NULL: none */
    uint64_t quiet_ms;         /* since when, while it is warm */
    struct tls_sessions *list; /* in which it is; NULL: in none */
    TAILQ_ENTRY(tls_session) link;
};

/* --- of a loop --- */

struct tls_loop *tls_loop_new(struct tls *tls, struct timers *timers);

/* No session is left. NULL-safe. */
void tls_loop_free(struct tls_loop *loop);

/* Are there too many handshakes? Then the oldest is to be closed; else NULL. */
struct tls_session *tls_loop_surplus(struct tls_loop *loop);

/* --- of a connection --- */

struct tls_session *session_new(struct tls_loop *loop, void *owner);

/* It is in no list of its loop any more, and must not be used, but freed. Idempotent. */
void session_stop(struct tls_session *session);
void session_free(struct tls_session *session);

/* Is there room for more input? */
static inline bool session_wants(const struct tls_session *session)
{
    return session->in_len < TLS_INPUT_BYTES;
}

/* Bytes received and not decrypted: memory of its own, once session_keep() was called. */
static inline uint32_t session_kept(const struct tls_session *session)
{
    return (uint32_t)session->in_len;
}

/* Not now: there is no room, or enough handshakes have begun in this turn. */
static inline bool session_must_wait(const struct tls_session *session)
{
    return !session_wants(session) ||
           (session->phase == TLS_HELLO && session->loop->starts >= LIMIT_TLS_STARTS_PER_TURN);
}

/* Is there something to be sent, though nothing is written? is_last: with our close_notify. */
static inline bool session_owes(const struct tls_session *session, bool is_last)
{
    return session->held.len > 0 || (is_last && session->phase == TLS_READY && !session->closed);
}

/* Where to receive, and how much; then how much it was. */
uint8_t *session_room(struct tls_session *session, size_t *ret_room);
void session_received(struct tls_session *session, size_t len);

enum tls_step {
    TLS_MORE,  /* it takes more input */
    TLS_OPEN,  /* done */
    TLS_PLAIN, /* these are no records of TLS, but the beginning of a request of HTTP or RESP */
    TLS_FAILED
};

/* Get on with the handshake. What it seals is owed: session_owes(). */
enum tls_step session_handshake(struct tls_session *session);

#define TLS_ENDED (-1)  /* the client's close_notify */
#define TLS_BROKEN (-2) /* see above */

/* Decrypt. Returns how many bytes; 0: there are no more; or one of these. */
ssize_t session_read(struct tls_session *session, void *out, size_t room);

/* At the end of reading: what was not decrypted goes out of what the loop lends. */
void session_keep(struct tls_session *session, uint64_t now_ms);

/* Nothing of what was received is wanted. */
void session_drop(struct tls_session *session);

/* The client has hung up without a word, and waits for none. */
static inline void session_cut(struct tls_session *session)
{
    session->closed = true;
}

/* Seal bytes; len may be 0, for what is owed alone. is_last: then our close_notify. Returns what is
 * to be sent, for the caller to empty before the next call for any session of the loop. NULL:
 * broken. */
struct buf *session_write(struct tls_session *session, const void *data, size_t len, bool is_last);

#endif
