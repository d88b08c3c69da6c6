/*
 * conn.c - see conn.h. Thread: the loop's.
 */
#include "http/server/conn.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "src/base/assert.h"
#include "src/base/clock.h"
#include "src/base/log.h"

/* --- state --- */

void conn_queue(struct conn *conn)
{
    if (!conn->queued) {
        conn->queued = true;
        TAILQ_INSERT_TAIL(&conn->conns->queue, conn, queue_link);
        conn->conns->queue_len++;
    }
}

/* Most heads are far shorter than the longest one kept, and many connections are idle: each has
 * memory for what its client sends, not for what it might. */
void conn_keep_head(struct conn *conn)
{
    const size_t len = conn_head(conn)->len;

    if (len > CONN_LAST_BYTES) {
        return;
    }
    if (len > conn->last_size) {
        free(conn->last);
        conn->last_size = (uint32_t)((len + CONN_LAST_STEP_BYTES - 1) / CONN_LAST_STEP_BYTES *
                                     CONN_LAST_STEP_BYTES);
        conn->last = MUST_HAVE(malloc(conn->last_size));
    }
    memcpy(conn->last, conn_at(conn, 0), len);
    conn->last_len = (uint32_t)len;
}

/* The body of the present request is not needed any more. */
static void free_body(struct conn *conn)
{
    meter_body_free(&conn->conns->meter, &conn->metered, conn->client);
    buf_free(&conn->body);
}

/* The present request is answered, and is_last of its connection: make room for the next one. */
HOT static void conn_done(struct conn *conn, bool is_last)
{
    if (conn->metered.has_body) {
        free_body(conn);
    }
    if (is_last) {
        if (conn->wire.end > conn->wire.next) {
            conn->ending = CONN_LINGERS;
        }
        conn_move(conn, CONN_FINISHING);
        wire_drop(&conn->wire);
        timer_cancel(&conn->conns->timers, &conn->read_timer);
        meter_input_end(&conn->conns->meter, &conn->metered);
    } else {
        if (conn->metered.input > 0) {
            meter_input_step(&conn->conns->meter, &conn->metered);
        }
        conn_move(conn, CONN_IDLE);
        wire_used(&conn->wire);
    }
    conn_queue(conn);
}

void conn_count_refusal(struct conn *conn, enum meter_refusal refusal)
{
    struct conns *conns = conn->conns;
    struct http_client *client = conn->client;
    uint64_t before = atomic_fetch_add_explicit(&client->refused, 1, memory_order_relaxed);
    char name[LIMIT_CLIENT_NAME_BYTES + 16];
    uint64_t more = 0;

    conns_count(&conns->counts.refused[refusal], 1);
    if (refusal_answer(refusal)->status != 429) {
        return;
    }
    /* For those that ask later why a client was refused: the metrics have no clients. */
    if (client_tells(client, &conns->client_lines, conns_now_ms(conns), &more)) {
        log_warn("http", "a client is over its quota",
                 "client=%s by=%s quota=%s refused=%llu more_clients=%llu",
                 log_quote(client->name, client->name_len, name, sizeof name),
                 client->is_named ? "token" : "address", refusal_answer(refusal)->name,
                 ull(before + 1), ull(more));
    }
}

/* --- the end --- */

/* The connection counts for its address alone. */
static void identify_end(struct conn *conn)
{
    if (conn->client != conn->peer) {
        atomic_fetch_sub_explicit(&conn->client->connections, 1, memory_order_relaxed);
        clients_release(conn->conns->clients, conn->client);
        conn->client = conn->peer;
    }
    conn->over_quota = false;
}

static void conn_closed_cb(uv_handle_t *handle)
{
    struct conn *conn = handle->data;

    ASSERT(conn->state == CONN_CLOSED);
    wire_free(&conn->wire, conn->conns->input);
    free(conn->last);
    free(conn->proxied);
    if (conn->talker->end != NULL) {
        conn->talker->end(conn);
    }
    free(conn);
}

/* Between two requests: say that this is the end, so that nobody takes it for a line that was cut.
 * If the socket does not take it, so be it. */
COLD static void say_goodbye(struct conn *conn)
{
    struct wire *wire = &conn->wire;

    if (conn->state == CONN_IDLE && !wire_is_waiting(wire) && wire->out.len == 0 &&
        session_owes(wire->tls, true)) {
        (void)wire_send(wire, &conn->conns->pool, true);
    }
}

void conn_close(struct conn *conn, const char *reason)
{
    struct conns *conns = conn->conns;
    struct http_wait *wait = conn->wait;

    if (conn->state == CONN_CLOSED) {
        return;
    }
    log_debug("http", "connection closed", "reason=\"%s\"", reason);
    if (conn->wire.tls != NULL) {
        say_goodbye(conn);
        session_stop(conn->wire.tls);
    }
    conn_move(conn, CONN_CLOSED);
    if (wait != NULL) {
        (void)conn_resume(wait);
        wait->cancel(wait);
    }
    if (conn->note != NULL) {
        conns->service->answered(conn, 0, NULL, 0);
    }
    timer_cancel(&conns->timers, &conn->read_timer);
    timer_cancel(&conns->timers, &conn->write_timer);
    if (conn->queued) {
        TAILQ_REMOVE(&conns->queue, conn, queue_link);
        conns->queue_len--;
    }
    free_body(conn);
    meter_end(&conns->meter, &conn->metered);
    TAILQ_REMOVE(&conns->all, conn, all_link);
    conns->counts.conns--;
    conns->refused_count -= conn->refused;
    identify_end(conn);
    atomic_fetch_sub_explicit(&conn->peer->connections, !conn->is_uncounted, memory_order_relaxed);
    clients_release(conns->clients, conn->peer);
    conn->client = NULL;
    uv_close((uv_handle_t *)&conn->poll, conn_closed_cb);
    close(conn->wire.fd);
    conn->wire.fd = -1;
}

void conn_abort(struct conn *conn, const char *reason)
{
    static const struct linger at_once = {.l_onoff = 1, .l_linger = 0};

    (void)setsockopt(conn->wire.fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    conn_close(conn, reason);
}

/* --- who asks --- */

const char *conn_certificate(const struct conn *conn)
{
    return conn->wire.tls != NULL ? conn->wire.tls->certificate : NULL;
}

bool conn_address(const struct conn *conn, struct sockaddr_storage *ret_address)
{
    socklen_t len = sizeof *ret_address;

    if (conn->proxied != NULL && conn->proxied->client.any.sa_family != AF_UNSPEC) {
        memcpy(ret_address, &conn->proxied->client, sizeof conn->proxied->client);
        return true;
    }
    return getpeername(conn->wire.fd, (struct sockaddr *)ret_address, &len) == 0;
}

bool conn_trace(const struct conn *conn, char ret_trace[HEADER_TRACE_BYTES])
{
    return conn->talker->trace != NULL && conn->talker->trace(conn, ret_trace);
}

void conn_identify(struct conn *conn, const char *name, size_t len,
                   const struct client_quotas *quotas)
{
    struct http_client *client;
    uint32_t count;

    if (conn->metered.has_body) {
        return; /* which was charged to the client that asked then */
    }
    identify_end(conn);
    if (name == NULL) {
        return;
    }
    client = clients_of_name(conn->conns->clients, name, len, quotas);
    count = atomic_fetch_add_explicit(&client->connections, 1, memory_order_relaxed);
    conn->over_quota = quotas->connections > 0 && count >= quotas->connections;
    conn->client = client;
}

/* --- requests that wait --- */

static void wait_fire(struct timer *timer, uint64_t now_ms)
{
    struct http_wait *wait = CONTAINER(timer, struct http_wait, timer);

    (void)now_ms;
    wait->expire(wait);
}

void conn_wait(struct conn *conn, struct http_wait *wait, uint64_t until_ms)
{
    ASSERT(conn->state == CONN_SERVING);
    ASSERT(conn->wait == NULL);
    ASSERT(wait->cancel != NULL);
    ASSERT(wait->expire != NULL || (until_ms == TIMER_NEVER && !wait->expires_on_drain));
    conn->wait = wait;
    wait->conn = conn;
    timer_init(&wait->timer, wait_fire);
    timer_arm(&conn->conns->timers, &wait->timer, until_ms);
}

void conn_wait_turn(struct conn *conn, struct http_wait *wait)
{
    ASSERT(wait->sent != NULL);
    wait->takes_turn = true;
    conn_wait(conn, wait, TIMER_NEVER);
    meter_put_off(&conn->metered, &conn->conns->meter.later);
}

struct conn *conn_resume(struct http_wait *wait)
{
    struct conn *conn = wait->conn;

    ASSERT(conn->wait == wait);
    timer_cancel(&conn->conns->timers, &wait->timer);
    conn->wait = NULL;
    wait->conn = NULL;
    return conn;
}

/* --- answering --- */

/* %s: the address. */
#define PROXY_UNNAMED                                                                              \
    "a header of the PROXY protocol from %s: let proxy.from name that address, or the proxy send " \
    "none (send-proxy)"

HOT void conn_serve(struct conn *conn)
{
    conn_move(conn, CONN_SERVING);
    conn->traffic = conn->request.traffic;
    conn->began_us = latency_begin(&conn->conns->latency);
    conn->conns->service->handle(conn);
}

/* Is the reply that begins now the last? The answer holds until its end. While connections retire
 * what the client has sent after the request is served, too, as long as there is time. */
static inline bool is_last(struct conn *conn)
{
    const struct conns *conns = conn->conns;

    if (conns->retiring &&
        (conn->wire.end == conn->wire.next || conns_now_ms(conns) >= conns->retire_until_ms)) {
        conn->ending = CONN_LINGERS; /* the client did not ask for it, and may ask for more */
    } else if (conns->lets_go != NULL && conn->caller == NULL &&
               conn->wire.end == conn->wire.next &&
               atomic_load_explicit(conns->lets_go, memory_order_relaxed)) {
        conn->ending = CONN_LINGERS;
    }
    return conn->ending != CONN_STAYS || !conn->parser.head.keep_alive;
}

/* As the head of the reply said. */
static bool was_last(const struct conn *conn)
{
    return conn->ending != CONN_STAYS || !conn->parser.head.keep_alive;
}

/* It waited for a node, or a disk: to look for its trace costs little beside that. */
COLD static void note_trace(struct conn *conn, int status, uint64_t took_us)
{
    char trace[HEADER_TRACE_BYTES];

    if (conn_trace(conn, trace)) {
        latency_exemplar(&conn->conns->latency, conn->traffic, status, took_us, trace,
                         clock_wall_ms(clock_system()));
    }
}

/* --- whole --- */

HOT void conn_answer(struct conn *conn, int status, const char *type, const char *extra,
                     const void *body, size_t len)
{
    struct conns *conns = conn->conns;
    bool is_complete = conn->state == CONN_SERVING; /* else the head says nothing yet */
    const struct answer answer = {.is_last = is_last(conn),
                                  .status = status,
                                  .type = type,
                                  .extra = extra,
                                  .body = body,
                                  .len = len};
    uint64_t took_us;

    ASSERT(is_complete || (conn->state <= CONN_BODY && conn->ending != CONN_STAYS));
    ASSERT(conn->wait == NULL);
    conn->talker->put(conn, wire_out(&conn->wire, &conns->pool), &answer);
    conn->wire.reply_count++;
    meter_output(&conn->conns->meter, &conn->metered, &conn->wire);
    took_us = latency_end(&conns->latency, is_complete ? conn->traffic : conn->request.traffic,
                          status, is_complete ? conn->began_us : 0);
    if (took_us > 0) {
        note_trace(conn, status, took_us);
    }
    if (conn->note != NULL) {
        conns->service->answered(conn, status, body, len);
    }
    conn_done(conn, answer.is_last);
}

void conn_fail(struct conn *conn, int status, const char *code, const char *extra, const char *more,
               const char *message)
{
    const struct answer_error error = {status, code, message, more};
    struct buf *scratch = &conn->conns->scratch;

    scratch->len = 0;
    conn->talker->put_error(conn, scratch, &error);
    conn_answer(conn, status, ANSWER_JSON, extra, scratch->data, scratch->len);
}

/* --- in parts --- */

static void parts_cancelled(struct http_wait *wait)
{
    struct answer_parts *parts = CONTAINER(wait, struct answer_parts, wait);

    parts->free(parts);
}

static void parts_sent(struct http_wait *wait)
{
    struct answer_parts *parts = CONTAINER(wait, struct answer_parts, wait);
    struct conn *conn = conn_resume(wait);
    bool is_last_part = parts->put(conn, parts, wire_out(&conn->wire, &conn->conns->pool));

    meter_output(&conn->conns->meter, &conn->metered, &conn->wire);
    conn_queue(conn);
    if (!is_last_part) {
        conn_wait(conn, wait, TIMER_NEVER);
        return;
    }
    parts->free(parts);
    conn->wire.reply_count++;
    conn_done(conn, was_last(conn));
}

void conn_answer_parts(struct conn *conn, const char *type, const char *extra, size_t len,
                       struct answer_parts *parts)
{
    struct conns *conns = conn->conns;
    const struct answer answer = {.form = ANSWER_PARTS,
                                  .is_last = is_last(conn),
                                  .status = 200,
                                  .type = type,
                                  .extra = extra,
                                  .len = len};

    ASSERT(conn->state == CONN_SERVING && conn->wait == NULL && len > 0);
    conn->talker->put(conn, wire_out(&conn->wire, &conns->pool), &answer);
    meter_output(&conn->conns->meter, &conn->metered, &conn->wire);
    latency_end(&conns->latency, conn->traffic, 200, conn->began_us);
    parts->wait = (struct http_wait){.cancel = parts_cancelled, .sent = parts_sent};
    meter_put_off(&conn->metered, &conns->meter.later);
    conn_wait(conn, &parts->wait, TIMER_NEVER);
}

/* --- as a stream --- */

void conn_stream(struct conn *conn, const char *type)
{
    struct conns *conns = conn->conns;
    const struct answer answer = {
        .form = ANSWER_STREAM, .is_last = is_last(conn), .status = 200, .type = type};

    ASSERT(conn->state == CONN_SERVING && conn->wait == NULL);
    conn->talker->put(conn, wire_out(&conn->wire, &conns->pool), &answer);
    meter_output(&conn->conns->meter, &conn->metered, &conn->wire);
    latency_end(&conns->latency, conn->traffic, 200, conn->began_us);
    conn_queue(conn);
}

void conn_stream_put(struct conn *conn, const void *data, size_t len)
{
    ASSERT(conn->state == CONN_SERVING && len > 0);
    conn->talker->put_piece(conn, wire_out(&conn->wire, &conn->conns->pool), data, len);
    meter_output(&conn->conns->meter, &conn->metered, &conn->wire);
    conn_queue(conn);
}

void conn_stream_end(struct conn *conn, const char *cut)
{
    if (cut != NULL) {
        conn_abort(conn, cut);
        return;
    }
    ASSERT(conn->state == CONN_SERVING && conn->wait == NULL);
    conn->talker->put_piece(conn, wire_out(&conn->wire, &conn->conns->pool), NULL, 0);
    conn->wire.reply_count++;
    if (conn->note != NULL) {
        conn->conns->service->answered(conn, 200, NULL, 0);
    }
    conn_done(conn, was_last(conn));
}

/* --- errors that end the connection --- */

void conn_reject(struct conn *conn, const struct parser_reject *reject)
{
    char message[160];

    (void)snprintf(message, sizeof message, "%s; the limit is %llu", reject->why,
                   ull(reject->limit));
    conn->ending = CONN_LINGERS;
    conn_fail(conn, reject->status, reject->code, NULL, "",
              reject->limit > 0 ? message : reject->why);
}

void conn_refuse(struct conn *conn, enum meter_refusal refusal, uint64_t limit)
{
    const struct refusal_answer *answer = refusal_answer(refusal);
    const struct parser_reject reject = {answer->status, answer->code, answer->why, limit};

    conn_count_refusal(conn, refusal);
    conn_reject(conn, &reject);
}

void conn_is_proxied(struct conn *conn)
{
    char why[sizeof PROXY_UNNAMED + LIMIT_CLIENT_NAME_BYTES];
    const struct parser_reject reject = {400, "bad_request", why, 0};

    (void)snprintf(why, sizeof why, PROXY_UNNAMED, conn->peer->name);
    conn_reject(conn, &reject);
}

/* --- quotas --- */

COLD static void fail_charge(struct conn *conn, const struct client_rate *rate, uint32_t wait_s)
{
    bool is_ids = rate == &conn->client->ids;
    char message[160];
    char extra[48];

    conn_count_refusal(conn, is_ids ? REFUSED_IDS : REFUSED_REQUESTS);
    (void)snprintf(message, sizeof message, "client %s has used up its quota of %u %s a second",
                   conn->client->name, atomic_load_explicit(&rate->per_s, memory_order_relaxed),
                   is_ids ? "ids" : "requests");
    (void)snprintf(extra, sizeof extra, "Retry-After: %u\r\n", wait_s);
    conn_fail(conn, 429, "quota", extra, "", message);
}

bool conn_charge_bound(struct conn *conn, struct client_rate *rate, uint64_t amount)
{
    uint32_t wait_s;

    if (conn->over_quota) {
        conn_refuse(conn, REFUSED_CONNECTIONS, conn->client->connections_max);
        return false;
    }
    wait_s = client_charge(rate, amount, conns_now_ms(conn->conns));
    if (wait_s > 0) {
        fail_charge(conn, rate, wait_s);
    }
    return wait_s == 0;
}
