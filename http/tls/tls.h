/*
 * tls.h - TLS for clients: what all connections of the process share (the certificate in force, the
 * keys of session tickets), and the session of each connection: sealed bytes in, plain bytes out,
 * and the reverse.
 *
 * TLS 1.2 and 1.3; only ciphers with forward secrecy and authentication; X25519 and P-256; no
 * renegotiation, no compression, no early data; ALPN "http/1.1": a client that offers only others
 * is refused; one session ticket a handshake.
 *
 * The happy path of a certificate: tls_context_make() from the PEM text of files, then tls_commit()
 * or tls_context_free(). Each new connection uses the context in force. Open ones keep theirs.
 * Unless the rules for client certificates have changed: then tickets are void, and an open session
 * reads nothing more, as if its client had sent close_notify (session_is_outdated()). So does one
 * whose client's certificate has ended.
 *
 * The happy path of a session, in a turn of its loop: recv() into session_room();
 * session_handshake() until it says TLS_OPEN; session_read() until it gives 0; session_keep(). At
 * the turn's end session_write(), whose result is sent. No socket is touched here. All sessions of
 * a loop share two buffers: one for received bytes, one for bytes to send. So one recv() takes all
 * that has come, and one send() takes all sealed replies of a turn.
 *
 * A session has no OpenSSL object until its client's first record is complete: a silent connection,
 * or one with half a hello, costs only the bytes it sent. The buffers of a session that has been
 * quiet for LIMIT_TLS_WARM_MS are freed; so are the oldest if more than LIMIT_TLS_WARM sessions
 * have buffers.
 *
 * A client's name must be unambiguous: if its certificate has exactly one URI or DNS name among its
 * alternative names, and that is printable, the name is "uri:..." or "dns:..."; else it is the hash
 * of the public key, "sha256:" and 64 hexadecimal digits. The subject is never used: it may have
 * several common names in several encodings.
 *
 * Tickets. All loops, listeners and certificates share a small ring of keys, so that a client may
 * return to another loop, and after a reload. The newest key seals; each key of the ring opens. A
 * key is replaced when it is TLS_KEY_MS old, by the next call that seals. It opens tickets until
 * TLS_KEYS newer ones were made: longer than a ticket is valid (TLS_TICKET_S). A key that leaves
 * the ring is wiped. After that, data of TLS 1.2 sessions of its tickets cannot be decrypted.
 *
 * Failure modes: a certificate or key that cannot be used: ERR_INVALID and a text that names the
 * file and says why; nothing was changed. TLS_FAILED and TLS_BROKEN: nothing more may be read or
 * written, but sealed bytes (the alert) must be sent. A client that sends many handshake messages
 * without a request (LIMIT_TLS_CONTROL) causes one of them. No randomness: no ticket is sealed, the
 * handshake continues without. OpenSSL's queue of errors belongs to the thread. It is emptied
 * before a handshake and after a failure, and is not consulted when records are read and written,
 * so that no connection suffers from another's errors.
 *
 * Threads: a session and its loop's part are the loop's; the rest: any (a mutex guards the context
 * in force and the ring; only handshakes take it).
 */
#ifndef LEAFD_HTTP_TLS_TLS_H
#define LEAFD_HTTP_TLS_TLS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

#include "src/base/buf.h"
#include "src/base/clock.h"
#include "src/base/container.h"
#include "src/base/crypto.h"
#include "src/base/err.h"
#include "src/base/limits.h"
#include "src/base/timers.h"

/* --- names in certificates --- */

struct x509_st;

#define CERTIFICATE_NAME_MAX 255 /* bytes of a URI or DNS name; a longer one is not used */

/* Is it valid by its dates? */
bool certificate_is_current(struct x509_st *certificate);

/* --- the keys of session tickets --- */

#define TLS_KEYS 4
#define TLS_KEY_MS 3600000 /* an hour */
#define TLS_TICKET_S 7200
_Static_assert((TLS_KEYS - 1) * TLS_KEY_MS >= TLS_TICKET_S * 1000, "tickets outlive their keys");

#define TLS_KEY_NAME_BYTES 16

struct tls_key {
    uint8_t name[TLS_KEY_NAME_BYTES]; /* in the ticket, in clear */
    uint8_t cipher[32];
    uint8_t mac[32];
};

/* --- what all connections share --- */

/* Certificates of clients. */
enum tls_client {
    TLS_CLIENT_NONE,
    TLS_CLIENT_OPTIONAL, /* asked for; a shown one must be valid */
    TLS_CLIENT_REQUIRED
};

/* The content of a file, borrowed for a call. */
struct tls_file {
    const char *name; /* for errors */
    const void *data; /* PEM */
    size_t len;
};

struct tls_files {
    struct tls_file certificate; /* the server's, then those of the CAs between it and the root */
    struct tls_file key;         /* without a pass phrase */
    struct tls_file client_ca;   /* len 0: none; needed where client is not TLS_CLIENT_NONE */
    enum tls_client client;
};

struct tls_error {
    char text[400];
};

struct tls;
struct tls_context;
struct ssl_st;

/* Make it without a certificate. clock: borrowed. */
struct tls *tls_new(const struct clock *clock);

/* No session may be left. NULL-safe. */
void tls_free(struct tls *tls);

/* The key of this name; NULL: the one to seal with. *ret_newest: it is the latter. The caller wipes
 * *ret_key. False: there is no randomness, or the name is unknown, or no longer known. */
bool tls_ticket_key(struct tls *tls, const uint8_t *name, struct tls_key *ret_key,
                    bool *ret_newest);

/* Read and check all; nothing is changed. 0, or ERR_INVALID with *ret_error. */
int tls_context_make(struct tls *tls, const struct tls_files *files,
                     struct tls_context **ret_context, struct tls_error *ret_error) MUST_CHECK;

/* NULL-safe. */
void tls_context_free(struct tls_context *context);

/* Describe its certificate, for the log: "CN=shop until 2027-01-31". */
void tls_context_describe(const struct tls_context *context, struct buf *out);

/* When the certificate in force ends, in seconds of Unix time; 0: there is none. Any thread. */
int64_t tls_until_s(struct tls *tls);

/* Put it in force, for all handshakes that begin from now on; takes it over. */
void tls_commit(struct tls *tls, struct tls_context *context);

/* --- one connection --- */

/* The longest record and some more: received and not decrypted. */
#define TLS_INPUT_BYTES (18 << 10)

TAILQ_HEAD(tls_sessions, tls_session);

struct tls_counts {
    _Atomic uint64_t full;    /* handshakes that succeeded, */
    _Atomic uint64_t resumed; /* those that began with a ticket, */
    _Atomic uint64_t failed;  /* handshakes that failed, and wrong records */
};

/* Of a loop. */
struct tls_loop {
    struct tls *tls;                /* borrowed */
    struct timers *timers;          /* the loop's, borrowed */
    struct buf sealed;              /* of the session written to last, not sent yet */
    uint32_t starts;                /* handshakes begun in this turn; the loop sets it to 0 */
    struct tls_sessions handshakes; /* under way, the oldest first */
    uint32_t handshake_count;
    struct tls_sessions warm; /* open, with buffers; the longest quiet first */
    uint32_t warm_count;
    struct timer cooling; /* of the first of them */
    struct tls_counts counts;
    uint8_t received[TLS_INPUT_BYTES]; /* lent to the session that is being read from */
};

enum tls_phase { TLS_HELLO, TLS_SHAKING, TLS_READY, TLS_DEAD };

struct tls_session {
    struct ssl_st *ssl; /* NULL: the first record is not complete */
    struct tls_loop *loop;
    void *owner; /* the connection */
    enum tls_phase phase;
    bool has_more;          /* OpenSSL holds decrypted bytes */
    bool said_end;          /* the client's close_notify has come */
    bool closed;            /* ours was sealed, or is not needed */
    uint64_t rules;         /* tls->rules at the begin of its handshake */
    int64_t until_s;        /* Unix time; when the client's certificate ends, if it has shown one */
    uint32_t controls;      /* handshake messages and alerts since the last reply */
    struct tls_bytes bytes; /* received: in `kept`, its own memory after session_keep(), or in the
                               loop's buffer; sealed: the loop's */
    uint8_t *kept;          /* owned; NULL: none */
    struct buf held;        /* sealed, sent before what is written next */
    char *certificate;      /* the client's name; owned; NULL: none */
    uint64_t quiet_ms;      /* since when, while it is warm */
    struct tls_sessions *list; /* the list it is in; NULL: none */
    TAILQ_ENTRY(tls_session) link;
};

/* --- of a loop --- */

struct tls_loop *tls_loop_new(struct tls *tls, struct timers *timers);

/* No session may be left. NULL-safe. */
void tls_loop_free(struct tls_loop *loop);

/* --- of a connection --- */

struct tls_session *session_new(struct tls_loop *loop, void *owner);

/* Remove it from its loop's lists; after that it may only be freed. Idempotent. */
void session_stop(struct tls_session *session);
void session_free(struct tls_session *session);

/* Is there room for more input? */
static inline bool session_wants(const struct tls_session *session)
{
    return session->bytes.in_len < TLS_INPUT_BYTES;
}

/* Is there something to send, though nothing is written? is_last: with our close_notify. */
static inline bool session_owes(const struct tls_session *session, bool is_last)
{
    return session->held.len > 0 || (is_last && session->phase == TLS_READY && !session->closed);
}

/* Where to receive, and how much; the caller adds to bytes.in_len how much it was. */
uint8_t *session_room(struct tls_session *session, size_t *ret_room);

enum tls_step {
    TLS_MORE,  /* it takes more input */
    TLS_OPEN,  /* done */
    TLS_PLAIN, /* not TLS, but the beginning of a request of HTTP or RESP */
    TLS_FAILED
};

/* Continue the handshake. What it seals is owed: session_owes(). */
enum tls_step session_handshake(struct tls_session *session);

#define TLS_ENDED (-1)  /* the client's close_notify, or the session is outdated */
#define TLS_BROKEN (-2) /* see above */

/* Decrypt. Returns how many bytes; 0: there are no more; or one of these. */
ssize_t session_read(struct tls_session *session, void *out, size_t room);

/* At the end of reading: move undecrypted bytes out of the loop's buffer. */
void session_keep(struct tls_session *session, uint64_t now_ms);

/* Was it opened under other rules for client certificates than those in force, or by a certificate
 * that has ended since? */
bool session_is_outdated(const struct tls_session *session);

/* Drop all received bytes. */
void session_drop(struct tls_session *session);

/* Seal bytes; len may be 0, to get only the owed bytes. is_last: then our close_notify. Returns the
 * bytes to send; the caller empties them before the next call for any session of the loop. NULL:
 * broken. */
struct buf *session_write(struct tls_session *session, const void *data, size_t len, bool is_last);

#endif
