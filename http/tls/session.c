/*
 * session.c - see session.h. Thread: the loop's.
 */
#include "http/tls/session.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdlib.h>
#include <string.h>

#include "http/tls/certificate.h"
#include "src/base/assert.h"
#include "src/base/container.h"
#include "src/base/hot.h"
#include "src/base/log.h"

#define RECORD_HEAD_BYTES 5
#define RECORD_HANDSHAKE 0x16
#define RECORD_BYTES_MAX 16384
#define SEALED_KEPT_BYTES (128 << 10) /* memory grown beyond this is freed once it is sent */

/* --- the way of bytes: a BIO of our own --- */

HOT static int session_bio_read(BIO *bio, char *out, size_t room, size_t *ret_len)
{
    struct tls_session *session = BIO_get_data(bio);
    size_t len = session->in_len < room ? session->in_len : room;

    BIO_clear_retry_flags(bio);
    if (len == 0) {
        BIO_set_retry_read(bio);
        return 0;
    }
    memcpy(out, session->in, len);
    session->in += len;
    session->in_len -= len;
    *ret_len = len;
    return 1;
}

HOT static int session_bio_write(BIO *bio, const char *data, size_t len, size_t *ret_len)
{
    struct tls_session *session = BIO_get_data(bio);

    BIO_clear_retry_flags(bio);
    buf_put(&session->loop->sealed, data, len);
    *ret_len = len;
    return 1;
}

static long session_bio_ctrl(BIO *bio, int command, long number, void *pointer)
{
    (void)bio;
    (void)number;
    (void)pointer;
    return command == BIO_CTRL_FLUSH || command == BIO_CTRL_DUP;
}

static int session_bio_create(BIO *bio)
{
    BIO_set_init(bio, 1);
    return 1;
}

static BIO_METHOD *bio_method;

/* Once in the process; it stays. */
static void make_bio_method(void)
{
    bio_method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "turn");
    ASSERT(bio_method != NULL);
    ASSERT(BIO_meth_set_read_ex(bio_method, session_bio_read) == 1);
    ASSERT(BIO_meth_set_write_ex(bio_method, session_bio_write) == 1);
    ASSERT(BIO_meth_set_ctrl(bio_method, session_bio_ctrl) == 1);
    ASSERT(BIO_meth_set_create(bio_method, session_bio_create) == 1);
}

/* A look costs a fifth of emptying it. */
static void session_clear_errors(void)
{
    if (ERR_peek_error() != 0) {
        ERR_clear_error();
    }
}

/* --- of a loop --- */

static void list_leave(struct tls_session *session)
{
    struct tls_loop *loop = session->loop;

    if (session->list != NULL) {
        TAILQ_REMOVE(session->list, session, link);
        loop->handshake_count -= session->list == &loop->handshakes;
        loop->warm_count -= session->list == &loop->warm;
        session->list = NULL;
    }
}

static void list_enter(struct tls_session *session, struct tls_sessions *list)
{
    struct tls_loop *loop = session->loop;

    ASSERT(session->list == NULL);
    TAILQ_INSERT_TAIL(list, session, link);
    loop->handshake_count += list == &loop->handshakes;
    loop->warm_count += list == &loop->warm;
    session->list = list;
}

/* OpenSSL keeps them where something is under way; then the next turn warms it again. */
static void session_cool(struct tls_session *session)
{
    list_leave(session);
    (void)SSL_free_buffers(session->ssl);
}

static void cooling_arm(struct tls_loop *loop)
{
    const struct tls_session *first = TAILQ_FIRST(&loop->warm);

    if (first == NULL) {
        timer_cancel(loop->timers, &loop->cooling);
    } else if (!timer_is_armed(&loop->cooling)) {
        timer_arm(loop->timers, &loop->cooling, first->quiet_ms + LIMIT_TLS_WARM_MS);
    }
}

static void cooling_fire(struct timer *timer, uint64_t now_ms)
{
    struct tls_loop *loop = CONTAINER(timer, struct tls_loop, cooling);
    struct tls_session *first;

    while ((first = TAILQ_FIRST(&loop->warm)) != NULL &&
           first->quiet_ms + LIMIT_TLS_WARM_MS <= now_ms) {
        session_cool(first);
    }
    cooling_arm(loop);
}

/* It was busy just now, so it has buffers. */
HOT static void session_warm(struct tls_session *session, uint64_t now_ms)
{
    struct tls_loop *loop = session->loop;

    session->quiet_ms = now_ms;
    if (TAILQ_LAST(&loop->warm, tls_sessions) != session) {
        list_leave(session);
        list_enter(session, &loop->warm);
    }
    if (loop->warm_count > LIMIT_TLS_WARM) {
        session_cool(TAILQ_FIRST(&loop->warm));
    }
    cooling_arm(loop);
}

struct tls_loop *tls_loop_new(struct tls *tls, struct timers *timers)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct tls_loop *loop = MUST_HAVE(calloc(1, sizeof *loop));

    ASSERT(pthread_once(&once, make_bio_method) == 0);
    loop->tls = tls;
    loop->timers = timers;
    TAILQ_INIT(&loop->handshakes);
    TAILQ_INIT(&loop->warm);
    timer_init(&loop->cooling, cooling_fire);
    return loop;
}

void tls_loop_free(struct tls_loop *loop)
{
    if (loop != NULL) {
        ASSERT(TAILQ_EMPTY(&loop->handshakes) && TAILQ_EMPTY(&loop->warm));
        buf_free(&loop->sealed);
        free(loop);
    }
}

struct tls_session *tls_loop_surplus(struct tls_loop *loop)
{
    return loop->handshake_count > LIMIT_TLS_HANDSHAKES ? TAILQ_FIRST(&loop->handshakes) : NULL;
}

/* The loop alone writes: no need to lock the bus. */
static void session_count(_Atomic uint64_t *counter)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + 1,
                          memory_order_relaxed);
}

/* --- begin and end --- */

struct tls_session *session_new(struct tls_loop *loop, void *owner)
{
    struct tls_session *session = MUST_HAVE(calloc(1, sizeof *session));

    session->loop = loop;
    session->owner = owner;
    return session;
}

void session_stop(struct tls_session *session)
{
    if (session->list == &session->loop->handshakes) {
        session_count(&session->loop->counts.failed);
        session->phase = TLS_DEAD;
    }
    list_leave(session);
    cooling_arm(session->loop);
}

void session_free(struct tls_session *session)
{
    ASSERT(session->list == NULL);
    SSL_free(session->ssl);
    free(session->kept);
    free(session->certificate);
    buf_free(&session->held);
    free(session);
}

/* What a call has sealed by the way waits for the connection's turn to send. */
HOT static void session_hold(struct tls_session *session)
{
    struct buf *sealed = &session->loop->sealed;

    if (sealed->len > 0) {
        buf_put(&session->held, sealed->data, sealed->len);
        sealed->len = 0;
    }
}

/* Nothing more is to be done with it. */
COLD static void session_die(struct tls_session *session, const char *what)
{
    const char *reason = ERR_reason_error_string(ERR_peek_last_error());

    log_debug("tls", what, "reason=\"%s\"", reason != NULL ? reason : "none");
    ERR_clear_error();
    session_count(&session->loop->counts.failed);
    session->phase = TLS_DEAD;
    session->has_more = false;
    session_drop(session);
    list_leave(session);
}

/* --- bytes in --- */

uint8_t *session_room(struct tls_session *session, size_t *ret_room)
{
    uint8_t *lent = session->loop->received;

    ASSERT(session_wants(session));
    if (session->in_len > 0) {
        memcpy(lent, session->in, session->in_len);
    }
    free(session->kept);
    session->kept = NULL;
    session->in = lent;
    *ret_room = TLS_INPUT_BYTES - session->in_len;
    return lent + session->in_len;
}

void session_received(struct tls_session *session, size_t len)
{
    ASSERT(len <= TLS_INPUT_BYTES - session->in_len);
    session->in_len += len;
}

void session_drop(struct tls_session *session)
{
    free(session->kept);
    session->kept = NULL;
    session->in = NULL;
    session->in_len = 0;
}

HOT void session_keep(struct tls_session *session, uint64_t now_ms)
{
    const uint8_t *lent = session->loop->received;

    if (session->in_len == 0) {
        session_drop(session);
    } else if (session->kept == NULL) {
        ASSERT(session->in >= lent && session->in + session->in_len <= lent + TLS_INPUT_BYTES);
        session->kept = MUST_HAVE(malloc(session->in_len));
        memcpy(session->kept, session->in, session->in_len);
        session->in = session->kept;
    }
    if (session->phase == TLS_READY) {
        session_warm(session, now_ms);
    }
}

/* --- the handshake --- */

/* Handshake messages and alerts, of both sides. */
static void session_count_control(int is_ours, int version, int type, const void *data, size_t len,
                                  SSL *ssl, void *context)
{
    struct tls_session *session = context;
    const uint8_t *alert = data; /* its level, and what it says */

    (void)version;
    (void)ssl;
    session->controls += type == SSL3_RT_HANDSHAKE || type == SSL3_RT_ALERT;
    if (type == SSL3_RT_ALERT && !is_ours && len == 2 && alert[1] == SSL3_AD_CLOSE_NOTIFY) {
        session->said_end = true;
    }
}

static void session_start(struct tls_session *session)
{
    struct tls_loop *loop = session->loop;
    BIO *bio = BIO_new(bio_method);

    ASSERT(bio != NULL);
    BIO_set_data(bio, session);
    session->ssl = tls_connection(loop->tls);
    SSL_set_bio(session->ssl, bio, bio);
    SSL_set_accept_state(session->ssl);
    SSL_set_msg_callback(session->ssl, session_count_control);
    SSL_set_msg_callback_arg(session->ssl, session);
    session->phase = TLS_SHAKING;
    loop->starts++;
}

/* Is the first record there? A client's hello is one record as a rule; what OpenSSL makes of others
 * is its own. */
static enum tls_step look_at_hello(const struct tls_session *session)
{
    const uint8_t *in = session->in;
    size_t len;

    if (session->in_len == 0) {
        return TLS_MORE;
    }
    if (in[0] != RECORD_HANDSHAKE) {
        /* Of HTTP, of RESP, or a proxy's header. */
        bool is_plain = (in[0] >= 'A' && in[0] <= 'Z') || in[0] == '*' || in[0] == '\r';

        return is_plain ? TLS_PLAIN : TLS_FAILED;
    }
    if (session->in_len < RECORD_HEAD_BYTES) {
        return TLS_MORE;
    }
    len = (size_t)in[3] << 8 | in[4];
    if (len == 0 || len > RECORD_BYTES_MAX) {
        return TLS_FAILED;
    }
    return session->in_len < RECORD_HEAD_BYTES + len ? TLS_MORE : TLS_OPEN;
}

/* Take the name of a client that has shown a certificate. False: it must not be let in. A session
 * that is resumed has the certificate of its first handshake, which may have ended since. */
static bool take_certificate(struct tls_session *session)
{
    X509 *certificate = SSL_get0_peer_certificate(session->ssl);
    struct buf name = BUF_INIT;

    if (certificate == NULL) {
        return tls_connection_client(session->ssl) != TLS_CLIENT_REQUIRED;
    }
    if (SSL_get_verify_result(session->ssl) != X509_V_OK || !certificate_is_current(certificate)) {
        return false;
    }
    certificate_name(certificate, &name);
    buf_put_u8(&name, '\0');
    session->certificate = (char *)name.data;
    return true;
}

static enum tls_step handshake_done(struct tls_session *session)
{
    struct tls_counts *counts = &session->loop->counts;

    if (!take_certificate(session)) {
        session_die(session, "a client's certificate is not good any more");
        return TLS_FAILED;
    }
    session_count(SSL_session_reused(session->ssl) ? &counts->resumed : &counts->full);
    list_leave(session);
    session->phase = TLS_READY;
    session->controls = 0;
    return TLS_OPEN;
}

enum tls_step session_handshake(struct tls_session *session)
{
    bool wants_more;
    int done;

    if (session->phase == TLS_HELLO) {
        enum tls_step step = look_at_hello(session);

        if (step == TLS_FAILED) {
            session_die(session, "no handshake");
        } else if (step != TLS_PLAIN && session->list == NULL && session->in_len > 0) {
            list_enter(session, &session->loop->handshakes); /* a part of the hello is enough */
        }
        if (step != TLS_OPEN) {
            return step;
        }
        session_start(session);
    }
    ASSERT(session->phase == TLS_SHAKING);
    session_clear_errors();
    done = SSL_do_handshake(session->ssl);
    if (done == 1) {
        /* Under TLS 1.3 this is a ticket alone, for which no client waits. But it acknowledges what
         * came: a client that gathers what is small keeps its request back until then, and the
         * kernel alone would take 40 ms. */
        session_hold(session);
        return handshake_done(session);
    }
    wants_more = SSL_get_error(session->ssl, done) == SSL_ERROR_WANT_READ;
    session_hold(session);
    if (wants_more) {
        return TLS_MORE;
    }
    session_die(session, "the handshake failed");
    return TLS_FAILED;
}

/* --- reading and writing --- */

/* SSL_read() had nothing to give. Why, the session itself knows: SSL_get_error() would look at the
 * thread's queue of errors, and that would have to be emptied before each call. */
COLD static ssize_t read_nothing(struct tls_session *session)
{
    if (SSL_want_read(session->ssl)) {
        return 0;
    }
    if (session->said_end) {
        session->ended = true;
        session_drop(session);
        return TLS_ENDED;
    }
    session_die(session, "a record cannot be read");
    return TLS_BROKEN;
}

HOT ssize_t session_read(struct tls_session *session, void *out, size_t room)
{
    ssize_t result;
    int got;

    ASSERT(room > 0 && room <= INT_MAX);
    if (session->phase != TLS_READY || (session->in_len == 0 && !session->has_more)) {
        return 0;
    }
    got = SSL_read(session->ssl, out, (int)room);
    session->has_more = got == (int)room && SSL_pending(session->ssl) > 0;
    result = got > 0 ? got : read_nothing(session);
    session_hold(session);
    if (session->controls > LIMIT_TLS_CONTROL && result >= 0) {
        session_die(session, "handshake messages without a request");
        return TLS_BROKEN;
    }
    return result;
}

HOT struct buf *session_write(struct tls_session *session, const void *data, size_t len,
                              bool is_last)
{
    struct buf *sealed = &session->loop->sealed;

    ASSERT(len <= INT_MAX && sealed->len == 0);
    if (sealed->capacity > SEALED_KEPT_BYTES) {
        buf_free(sealed);
    }
    if (session->held.len > 0) {
        buf_put(sealed, session->held.data, session->held.len);
        buf_free(&session->held);
    }
    if (session->phase != TLS_READY) {
        return sealed;
    }
    if (len > 0 && SSL_write(session->ssl, data, (int)len) != (int)len) {
        sealed->len = 0;
        session_die(session, "a record cannot be written");
        return NULL;
    }
    session->controls = len > 0 ? 0 : session->controls;
    if (is_last && !session->closed) {
        session->closed = true;
        (void)SSL_shutdown(session->ssl); /* once: the client's is not waited for */
        session_clear_errors();
    }
    return sealed;
}
