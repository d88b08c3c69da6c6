/*
 * conn.c - see conn.h. Thread: the loop's.
 */
#include "http/server/conn.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "src/base/assert.h"
#include "src/base/clock.h"
#include "src/base/log.h"

/* A busy connection is idle again after each request. Its timer is moved only when the deadline has
 * become too early by this part of the idle time. */
#define IDLE_LATE_PART 64

/* The work of serving a request, beside its bytes. */
#define REQUEST_WORK_BYTES 512

/* The most put-off connections served in one turn of the loop, however little they do. */
#define TURN_STEPS_MAX 64

#define KEEPALIVE_S 300 /* as Redis's tcp-keepalive */

static void conn_poll_cb(uv_poll_t *poll, int status, int events);

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
 * only memory for the heads that its client sends. */
void conn_keep_head(struct conn *conn)
{
    const size_t len = conn->parser.head.len;

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

/* The present request is answered: make room for the next one. */
HOT static void conn_done(struct conn *conn)
{
    static const struct wire nothing;

    if (conn->metered.has_body) {
        meter_body_free(&conn->conns->meter, &conn->metered, conn->client);
        buf_free(&conn->body);
    }
    if (conn->ending != CONN_STAYS || !conn->parser.head.keep_alive) { /* it was the last */
        if (conn->wire.end > conn->wire.next) {
            conn->ending = CONN_LINGERS;
        }
        conn_move(conn, CONN_FINISHING);
        wire_drop(&conn->wire);
        timer_cancel(&conn->conns->timers, &conn->read_timer);
        (void)meter_input(&conn->conns->meter, &conn->metered, &nothing, false);
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

    counter_add(&conns->counts.refused[refusal], 1);
    if (refusal_answers[refusal].status != 429) {
        return;
    }
    /* Logged, since the metrics do not name clients. */
    if (client_may_log(client, &conns->client_lines, uv_now(conns->uv), &more)) {
        log_warn("http", "a client is over its quota",
                 "client=%s by=%s quota=%s refused=%llu more_clients=%llu",
                 log_quote(client->name, client->name_len, name, sizeof name),
                 client->is_named ? "token" : "address", refusal_answers[refusal].name,
                 ull(before + 1), ull(more));
    }
}

/* --- the end --- */

/* From now on the connection counts only for its address. */
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

void conn_close(struct conn *conn, const char *reason)
{
    struct conns *conns = conn->conns;
    struct http_wait *wait = conn->wait;
    struct wire *wire = &conn->wire;

    if (conn->state == CONN_CLOSED) {
        return;
    }
    log_debug("http", "connection closed", "reason=\"%s\"", reason);
    if (wire->tls != NULL) {
        /* Between two requests: send the end, so that it does not look like a cut line. It is no
         * error if the socket does not take it. */
        if (conn->state == CONN_IDLE && !wire_is_waiting(wire) && wire->out.len == 0 &&
            session_owes(wire->tls, true)) {
            (void)wire_send(wire, &conns->pool, true);
        }
        session_stop(wire->tls);
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
    meter_body_free(&conns->meter, &conn->metered, conn->client);
    buf_free(&conn->body);
    meter_end(&conns->meter, &conn->metered);
    TAILQ_REMOVE(&conns->all, conn, all_link);
    conns->counts.conns--;
    conns->refused_count -= conn->refused;
    identify_end(conn);
    atomic_fetch_sub_explicit(&conn->peer->connections, !conn->is_uncounted, memory_order_relaxed);
    clients_release(conns->clients, conn->peer);
    conn->client = NULL;
    uv_close((uv_handle_t *)&conn->poll, conn_closed_cb);
    close(wire->fd);
    wire->fd = -1;
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
    const struct parser_field *field = &conn->parser.head.traceparent;

    return field->count == 1 && header_trace(conn_at(conn, field->at), field->len, ret_trace);
}

void conn_identify(struct conn *conn, const char *name, size_t len,
                   const struct client_quotas *quotas)
{
    struct http_client *client;
    uint32_t count;

    if (conn->metered.has_body) {
        return; /* charged to the client at that time */
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

void conn_wait_free(struct http_wait *wait)
{
    free(wait);
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

HOT void conn_serve(struct conn *conn)
{
    conn_move(conn, CONN_SERVING);
    conn->traffic = conn->request.traffic;
    conn->began_us = latency_begin(&conn->conns->latency);
    conn->conns->service->handle(conn);
}

/* Is the reply that begins now the last? The answer holds until its end. While connections retire,
 * requests already sent after this one are served, too, as long as there is time. */
static inline bool is_last(struct conn *conn)
{
    const struct conns *conns = conn->conns;

    if (conns->retiring &&
        (conn->wire.end == conn->wire.next || uv_now(conns->uv) >= conns->retire_until_ms)) {
        conn->ending = CONN_LINGERS; /* the client does not expect it and may send more */
    } else if (conns->lets_go != NULL && conn->caller == NULL &&
               conn->wire.end == conn->wire.next &&
               atomic_load_explicit(conns->lets_go, memory_order_relaxed)) {
        conn->ending = CONN_LINGERS;
    }
    return conn->ending != CONN_STAYS || !conn->parser.head.keep_alive;
}

/* The request waited for a node, or a disk: finding its trace costs little beside that. */
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
    bool is_complete = conn->state == CONN_SERVING; /* else the head is not valid yet */
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
    conn_done(conn);
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

/* The beginning of an answer that does not end at once. */
static void answer_begin(struct conn *conn, const struct answer *answer)
{
    ASSERT(conn->state == CONN_SERVING && conn->wait == NULL);
    conn->talker->put(conn, wire_out(&conn->wire, &conn->conns->pool), answer);
    meter_output(&conn->conns->meter, &conn->metered, &conn->wire);
    latency_end(&conn->conns->latency, conn->traffic, 200, conn->began_us);
}

/* --- in parts --- */

_Static_assert(offsetof(struct answer_parts, wait) == 0, "to be freed by its wait");

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
    free(parts);
    conn->wire.reply_count++;
    conn_done(conn);
}

void conn_answer_parts(struct conn *conn, const char *type, const char *extra, size_t len,
                       struct answer_parts *parts)
{
    const struct answer answer = {.form = ANSWER_PARTS,
                                  .is_last = is_last(conn),
                                  .status = 200,
                                  .type = type,
                                  .extra = extra,
                                  .len = len};

    ASSERT(len > 0);
    answer_begin(conn, &answer);
    parts->wait = (struct http_wait){.cancel = conn_wait_free, .sent = parts_sent};
    meter_put_off(&conn->metered, &conn->conns->meter.later);
    conn_wait(conn, &parts->wait, TIMER_NEVER);
}

/* --- as a stream --- */

void conn_stream(struct conn *conn, const char *type)
{
    const struct answer answer = {
        .form = ANSWER_STREAM, .is_last = is_last(conn), .status = 200, .type = type};

    answer_begin(conn, &answer);
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
    conn_done(conn);
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
    const struct refusal_answer *answer = &refusal_answers[refusal];
    const struct parser_reject reject = {answer->status, answer->code, answer->why, limit};

    conn_count_refusal(conn, refusal);
    conn_reject(conn, &reject);
}

void conn_reject_proxy(struct conn *conn, bool is_missing)
{
    char why[200 + LIMIT_CLIENT_NAME_BYTES];
    const struct parser_reject reject = {400, "bad_request", why, 0};

    (void)snprintf(why, sizeof why,
                   is_missing
                       ? "proxy.from names %s, so each connection from there begins with a header "
                         "of the PROXY protocol, and this one does not: let the proxy send it "
                         "(send-proxy)"
                       : "a header of the PROXY protocol from %s: let proxy.from name that "
                         "address, or the proxy send none (send-proxy)",
                   conn->peer->name);
    conn_reject(conn, &reject);
}

/* --- quotas --- */

bool conn_charge_bound(struct conn *conn, struct client_rate *rate, uint64_t amount)
{
    bool is_ids = rate == &conn->client->ids;
    char message[160];
    char extra[48];
    uint32_t wait_s;

    if (conn->over_quota) {
        conn_refuse(conn, REFUSED_CONNECTIONS, conn->client->connections_max);
        return false;
    }
    wait_s = client_charge(rate, amount, uv_now(conn->conns->uv));
    if (wait_s == 0) {
        return true;
    }
    conn_count_refusal(conn, is_ids ? REFUSED_IDS : REFUSED_REQUESTS);
    (void)snprintf(message, sizeof message, "client %s has used up its quota of %u %s a second",
                   conn->client->name, atomic_load_explicit(&rate->per_s, memory_order_relaxed),
                   is_ids ? "ids" : "requests");
    (void)snprintf(extra, sizeof extra, "Retry-After: %u\r\n", wait_s);
    conn_fail(conn, 429, "quota", extra, "", message);
    return false;
}

/* --- resting: the deadline, kept memory, awaited events --- */

/* Too much is kept. If this connection's request waits, the connection is closed without a reply,
 * since the request may be carried out or not. Else the requests with the least progress are
 * refused; a connection with untaken replies could not receive that, and is closed. */
COLD static void make_room_for_input(struct conn *conn)
{
    struct conn_meter *meter = &conn->conns->meter;
    struct metered *first;

    if (conn->state == CONN_SERVING) {
        conn_count_refusal(conn, REFUSED_INPUT);
        conn_abort(conn, "requests that wait keep too much");
        return;
    }
    while (meter_input_is_over(meter) && (first = TAILQ_FIRST(&meter->inputs)) != &conn->metered) {
        struct conn *slowest = CONTAINER(first, struct conn, metered);

        if (slowest->state == CONN_HEAD || slowest->state == CONN_BODY) {
            conn_refuse(slowest, REFUSED_INPUT, 0);
            conn_rest(slowest);
        } else {
            conn_count_refusal(slowest, REFUSED_INPUT);
            conn_abort(slowest, "its place for input was needed for others");
        }
    }
}

HOT void conn_rest(struct conn *conn)
{
    struct conns *conns = conn->conns;
    struct wire *wire = &conn->wire;
    bool is_idle = conn->state == CONN_IDLE;
    bool has_room;
    uint64_t due_ms;
    uint64_t late_ms;
    uint32_t limit_ms;
    int events;

    ASSERT(conn->state != CONN_CLOSED);
    /* A connection whose replies are still being sent is not idle: the deadline of the write side
     * holds. */
    if ((conn->state > CONN_BODY && conn->state < CONN_LINGERING) || wire_is_full(wire) ||
        conn->metered.put_off == &conns->meter.no_room ||
        (is_idle && (wire_is_waiting(wire) || (conn->idle_ms == 0 && !conns->retiring)))) {
        timer_cancel(&conns->timers, &conn->read_timer);
    } else if (is_idle && conns->retiring) {
        /* No request since conns_retire(): a new connection has a moment for one. */
        due_ms = conn->since_ms + LIMIT_HTTP_RETIRE_MS;
        if (!timer_is_armed(&conn->read_timer)) {
            timer_arm(&conns->timers, &conn->read_timer,
                      due_ms > conns->retire_until_ms ? due_ms : conns->retire_until_ms);
        }
    } else {
        limit_ms = is_idle         ? conn->idle_ms
                   : conn->retired ? LIMIT_HTTP_GOODBYE_MS
                                   : conns->limits_ms[conn->state];
        due_ms = conn->since_ms + limit_ms;
        late_ms = is_idle ? limit_ms / IDLE_LATE_PART : 0;
        if (conn->read_timer.due_ms < due_ms || conn->read_timer.due_ms > due_ms + late_ms) {
            timer_arm(&conns->timers, &conn->read_timer, due_ms + late_ms);
        }
    }
    wire_keep(wire, conns->input, conn->state != CONN_FINISHING && conn->state != CONN_LINGERING,
              uv_now(conns->uv));
    if (meter_input(&conns->meter, &conn->metered, wire, conn->state == CONN_SERVING)) {
        make_room_for_input(conn);
        if (conn->state == CONN_CLOSED) {
            return;
        }
    }
    has_room = wire->tls == NULL ? wire->start > 0 || wire->end < WIRE_INPUT_BYTES
                                 : session_wants(wire->tls);
    events = (has_room && !wire->ended ? UV_READABLE : 0) |
             (wire_is_waiting(wire) && conn->metered.put_off == NULL ? UV_WRITABLE : 0);
    if (events != conn->events) {
        conn->events = events;
        if (uv_poll_start(&conn->poll, events, conn_poll_cb) != 0) {
            conn_close(conn, "cannot poll");
        }
    }
}

/* End it after sending what is left, for example an alert. */
COLD static void conn_finish(struct conn *conn)
{
    conn->ending = CONN_LINGERS;
    conn_move(conn, CONN_FINISHING);
    conn_queue(conn);
    conn_rest(conn);
}

static void read_timer_fire(struct timer *timer, uint64_t now_ms)
{
    static const char *const reasons[] = {
        [CONN_IDLE] = "idle",
        [CONN_HEAD] = "the request's head did not arrive in time (limit in ms)",
        [CONN_BODY] = "the request's body did not arrive in time (limit in ms)",
        [CONN_LINGERING] = "lingered",
        [CONN_HANDSHAKE] = "the handshake was too slow",
        [CONN_PROXY] = "the proxy's header was too slow",
    };
    struct conn *conn = CONTAINER(timer, struct conn, read_timer);
    const struct parser_reject slow = {408, "too_slow", reasons[conn->state],
                                       conn->conns->limits_ms[conn->state]};
    char first;

    if (conn->state == CONN_IDLE && conn->conns->retiring) {
        /* It is due to end; but requests that have come are answered first, the last reply ends
         * it. */
        if (conn->queued || conn->metered.put_off != NULL || wire_len(&conn->wire) > 0 ||
            recv(conn->wire.fd, &first, 1, MSG_PEEK) > 0) {
            timer_arm(&conn->conns->timers, timer, now_ms + LIMIT_HTTP_RETIRE_MS);
            return;
        }
        conn->retired = true;
        conn_finish(conn);
    } else if (conn->state == CONN_HEAD || conn->state == CONN_BODY) {
        conn_reject(conn, &slow);
    } else {
        conn_close(conn, reasons[conn->state]);
    }
}

/* --- reading and serving --- */

/* Decrypt more of the bytes received over TLS. False: there is no more now; the client's end may
 * have been read. */
HOT static bool conn_decrypt(struct conn *conn)
{
    struct wire *wire = &conn->wire;
    ssize_t len;

    wire_borrow(wire, conn->conns->input);
    len = session_read(wire->tls, wire->bytes + wire->end, WIRE_INPUT_BYTES - wire->end);
    if (len > 0) {
        wire->end += (uint32_t)len;
        return true;
    }
    wire->ended = wire->ended || len < 0;
    if (len == TLS_BROKEN) {
        conn->ending = CONN_LINGERS; /* bytes after it were not read */
    }
    if (session_owes(wire->tls, false)) {
        conn_queue(conn);
    }
    return false;
}

/* Serve the requests in the buffer, up to one connection's turn. The replies are sent at the end of
 * the turn. */
HOT static void conn_process(struct conn *conn)
{
    struct conn_meter *meter = &conn->conns->meter;
    struct wire *wire = &conn->wire;
    unsigned steps = 0;
    bool hungry = false;

    ASSERT(conn->state != CONN_CLOSED);
    while (!hungry && conn->state <= CONN_BODY && !wire_is_full(wire) &&
           meter_has_room(meter, wire) && steps++ < LIMIT_HTTP_TURN_REQUESTS) {
        bool is_idle = conn->state == CONN_IDLE;

        if (is_idle && wire->start == wire->end) {
            hungry = true;
        } else if (is_idle && conn->last_len > 0 && conn->last_len <= wire_len(wire) &&
                   memcmp(wire->bytes + wire->start, conn->last, conn->last_len) == 0) {
            ASSERT(conn->parser.head.len == conn->last_len);
            wire->next = wire->start + conn->last_len;
            conn_serve(conn); /* its head repeats the one before it */
        } else {
            if (is_idle) {
                conn->last_len = 0;
                conn->request = (struct request){0};
            }
            hungry = !conn->talker->step(conn);
        }
        if (hungry && wire->tls != NULL) {
            hungry = !conn_decrypt(conn);
        }
    }
    if (hungry && wire->ended) {
        conn_move(conn, CONN_FINISHING);
        conn_queue(conn);
    } else if (!hungry && conn->state <= CONN_BODY && !wire_is_full(wire)) {
        meter_put_off(&conn->metered,
                      meter_has_room(meter, wire) ? &meter->later : &meter->no_room);
    }
    meter->work_bytes += steps * (uint64_t)REQUEST_WORK_BYTES;
    conn_rest(conn);
}

/* Bytes were received before the session is open. */
static void conn_handshake(struct conn *conn)
{
    const struct parser_reject plain = {400, "tls_required", conn->talker->tls_required, 0};
    const struct tls_loop *tls = conn->conns->tls;
    enum tls_step step;
    bool is_proxied;

    if (conn->state == CONN_IDLE) {
        conn_move(conn, CONN_HANDSHAKE);
    }
    step = session_handshake(conn->wire.tls);
    if (tls->handshake_count > LIMIT_TLS_HANDSHAKES) {
        conn_close(TAILQ_FIRST(&tls->handshakes)->owner, "too many handshakes are under way");
    }
    if (session_owes(conn->wire.tls, false)) {
        conn_queue(conn);
    }
    switch (step) {
    case TLS_MORE:
        conn_rest(conn);
        return;
    case TLS_OPEN:
        conn_move(conn, CONN_IDLE);
        conn_process(conn);
        return;
    case TLS_PLAIN: /* the first bytes of a request, answered in its own protocol */
        is_proxied = is_proxy_header(conn->wire.tls->bytes.in, conn->wire.tls->bytes.in_len);
        wire_end_tls(&conn->wire);
        conn_move(conn, CONN_IDLE);
        if (is_proxied) {
            conn_reject_proxy(conn, false);
        } else {
            conn_reject(conn, &plain);
        }
        conn_rest(conn);
        return;
    case TLS_FAILED:
        conn_finish(conn);
        return;
    }
}

HOT static void conn_read(struct conn *conn)
{
    struct wire *wire = &conn->wire;

    if (wire->tls != NULL &&
        (!session_wants(wire->tls) || (wire->tls->phase == TLS_HELLO &&
                                       conn->conns->tls->starts >= LIMIT_TLS_STARTS_PER_TURN))) {
        return; /* no room, or enough handshakes in this turn: the socket reports again */
    }
    switch (wire_read(wire, conn->conns->input)) {
    case WIRE_FAILED:
        conn_close(conn, "read failed");
        return;
    case WIRE_ENDED:
        /* The client may still read its answers, unless its request waits for ids that it may never
         * read. */
        if (wire->tls != NULL && conn->state == CONN_IDLE && wire->reply_count == 0) {
            wire->tls->closed = true; /* the client has hung up and needs no close_notify */
        }
        if (conn->state == CONN_LINGERING || conn->state == CONN_HANDSHAKE) {
            conn_close(conn, "done");
        } else if (conn->wait != NULL && conn->wait->needs_client) {
            conn_close(conn, "the client has gone while its request waited");
        } else {
            conn_process(conn);
        }
        return;
    case WIRE_AGAIN:
        conn_rest(conn);
        return;
    case WIRE_READ:
        break;
    }
    if (conn->state == CONN_HANDSHAKE || (wire->tls != NULL && wire->tls->phase == TLS_HELLO)) {
        conn_handshake(conn);
    } else if (conn->state <= CONN_BODY && conn->metered.put_off == NULL) {
        conn_process(conn);
    } else {
        if (conn->state > CONN_SERVING) {
            wire_drop(wire);
        }
        conn_rest(conn); /* its turn comes */
    }
}

HOT static void conn_poll_cb(uv_poll_t *poll, int status, int events)
{
    struct conn *conn = poll->data;
    struct conns *conns = conn->conns;

    if (status < 0) {
        conn_close(conn, "the socket reports an error");
    } else {
        if ((events & UV_WRITABLE) != 0 && wire_is_waiting(&conn->wire)) {
            meter_put_off(&conn->metered, &conns->meter.later);
            conn_rest(conn);
        }
        if ((events & UV_READABLE) != 0 && conn->state != CONN_CLOSED && !conn->wire.ended) {
            conn_read(conn);
        }
    }
    if (conns->queue_len >= WIRE_BATCH) {
        conns_flush(conns);
    }
}

/* --- sending --- */

static void write_timer_arm(struct conn *conn)
{
    struct conns *conns = conn->conns;

    timer_arm(&conns->timers, &conn->write_timer,
              uv_now(conns->uv) + rate_check_ms(conns->settings));
}

static void write_timer_fire(struct timer *timer, uint64_t now_ms)
{
    static const char *const reasons[] = {
        [RATE_STALLED] = "the client takes no output",
        [RATE_SLOW] = "the client takes its output too slowly",
        [RATE_SLOW_WHILE_SHORT] = "the client takes its output slowly while there is no room",
    };
    struct conn *conn = CONTAINER(timer, struct conn, write_timer);
    struct metered *metered = &conn->metered;
    enum rate_verdict verdict = rate_check(
        &metered->rate, conn->conns->settings, conn->wire.taken_bytes, now_ms,
        wire_is_waiting(&conn->wire), metered->output, meter_output_is_short(&conn->conns->meter));

    if (verdict != RATE_OK) {
        conn_count_refusal(conn, REFUSED_READER);
        conn_abort(conn, reasons[verdict]);
    } else {
        write_timer_arm(conn);
    }
}

/* Does its request wait for its turn to make the next part of the answer? */
static bool makes_parts(const struct conn *conn)
{
    return conn->state == CONN_SERVING && conn->wait != NULL && conn->wait->sent != NULL;
}

/* Send the replies, at a turn's end or when the socket takes more. */
HOT static void conn_send(struct conn *conn)
{
    struct conns *conns = conn->conns;
    struct wire *wire = &conn->wire;
    bool is_finishing = conn->state == CONN_FINISHING;
    bool go_on = wire_is_waiting(wire) || wire_is_full(wire);
    uint64_t taken_bytes = wire->taken_bytes;
    enum wire_sent result = wire_send(wire, &conns->pool, is_finishing);
    bool has_more;

    conns->meter.work_bytes += wire->taken_bytes - taken_bytes;
    meter_output(&conns->meter, &conn->metered, wire);
    if (result == WIRE_SEND_FAILED) {
        conn_close(conn, "write failed");
        return;
    }
    if (result == WIRE_WAITS) {
        if (!timer_is_armed(&conn->write_timer)) { /* the rate is watched until it is idle */
            rate_begin(&conn->metered.rate, wire->taken_bytes, uv_now(conns->uv));
            write_timer_arm(conn);
        }
        conn_rest(conn);
        return;
    }
    if (conn->state == CONN_IDLE && timer_is_armed(&conn->write_timer)) {
        timer_cancel(&conns->timers, &conn->write_timer);
        conn_move(conn, CONN_IDLE); /* not before now */
    }
    has_more = wire->out.len > 0 || (wire->tls != NULL && session_owes(wire->tls, is_finishing));
    if (has_more) {
        conn_queue(conn); /* replies that came meanwhile */
    }
    if (is_finishing && !has_more) { /* all is written and no more will follow */
        if ((conn->ending != CONN_LINGERS && wire->tls == NULL) || wire->ended) {
            conn_close(conn, "done");
            return;
        }
        conn_move(conn, CONN_LINGERING);
        if (shutdown(wire->fd, SHUT_WR) != 0) {
            conn_close(conn, "shutdown failed");
            return;
        }
        conn_rest(conn);
    } else if (go_on || (wire->out.len == 0 && conn->wait != NULL && makes_parts(conn))) {
        meter_put_off(&conn->metered, &conns->meter.later);
        conn_rest(conn);
    }
}

HOT void conns_flush(struct conns *conns)
{
    struct conn *conn;

    while ((conn = TAILQ_FIRST(&conns->queue)) != NULL) {
        TAILQ_REMOVE(&conns->queue, conn, queue_link);
        conns->queue_len--;
        conn->queued = false;
        if (conn->state == CONN_IDLE && !timer_is_armed(&conn->read_timer)) {
            conn_process(conn); /* answered after its own turn: there may be another request */
        }
        if (conn->state != CONN_CLOSED && !wire_is_waiting(&conn->wire)) {
            conn_send(conn);
        }
    }
    if (conns->tls != NULL) {
        conns->tls->starts = 0;
    }
}

/* --- what was put off --- */

HOT bool conns_turn_end(struct conns *conns)
{
    struct conn_meter *meter = &conns->meter;
    struct metered *metered;
    uint64_t until_bytes;

    conns_flush(conns);
    if (TAILQ_EMPTY(&meter->later) && TAILQ_EMPTY(&meter->no_room)) {
        return false;
    }
    until_bytes = meter->work_bytes + LIMIT_HTTP_TURN_BYTES;
    /* Connections that wait for room continue, as many as one turn may serve. */
    for (unsigned i = 0; i < TURN_STEPS_MAX && !meter_output_is_full(meter) &&
                         (metered = TAILQ_FIRST(&meter->no_room)) != NULL;
         i++) {
        meter_put_on(metered);
        meter_put_off(metered, &meter->later);
    }
    for (unsigned i = 0; i < TURN_STEPS_MAX && meter->work_bytes < until_bytes &&
                         (metered = TAILQ_FIRST(&meter->later)) != NULL;
         i++) {
        struct conn *conn = CONTAINER(metered, struct conn, metered);
        bool is_waiting = wire_is_waiting(&conn->wire);
        bool makes_part = makes_parts(conn) && !conn->wait->takes_turn;

        meter_put_on(metered);
        if (is_waiting) {
            conn_send(conn);
        } else if (makes_part ? meter_output_is_full(meter) : !meter_has_room(meter, &conn->wire)) {
            meter_put_off(metered, &meter->no_room);
            conn_queue(conn); /* a connection that waits for room keeps none */
        } else if (makes_parts(conn)) {
            meter->work_bytes += makes_part ? 0 : LIMIT_HTTP_TURN_BYTES;
            counter_add(&conns->counts.parts, makes_part);
            conn->wait->sent(conn->wait);
        } else if (conn->state <= CONN_BODY) {
            conn_process(conn);
        }
        conns_flush(conns);
    }
    return !TAILQ_EMPTY(&meter->later) ||
           (!TAILQ_EMPTY(&meter->no_room) && !meter_output_is_full(meter));
}

/* --- begin --- */

struct conn *conn_new(struct conns *conns, const struct listener *listener, int fd,
                      struct http_client *client, bool refused)
{
    static const int on = 1;
    static const int unsent_bytes = LIMIT_HTTP_UNSENT_BYTES;
    static const int keepalive_s = KEEPALIVE_S;
    struct conn *conn = MUST_HAVE(calloc(1, sizeof *conn));

    conn->conns = conns;
    conn->wire.fd = fd;
    conn->client = client;
    conn->peer = client;
    conn->refused = refused;
    conn->since_ms = uv_now(conns->uv);
    timer_init(&conn->read_timer, read_timer_fire);
    timer_init(&conn->write_timer, write_timer_fire);
    if (uv_poll_init_socket(conns->uv, &conn->poll, fd) != 0) {
        log_debug("http", "connection closed", "reason=\"cannot poll\"");
        free(conn);
        close(fd);
        return NULL;
    }
    conn->poll.data = conn;
    conn->wire.tls = listener->tls ? session_new(conns->tls, conn) : NULL;
    conn->idle_ms = listener->idle_ms;
    conn->talker = listener->talker;
    if (conn->talker->begin != NULL) {
        conn->talker->begin(conn);
    }
    conns->counts.conns++;
    conns->refused_count += refused;
    TAILQ_INSERT_TAIL(&conns->all, conn, all_link);
    /* Replies are whole when they are written; waiting for more would only delay them. */
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (conn->idle_ms == 0) { /* the kernel detects that the client has gone */
        (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
        (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &keepalive_s, sizeof keepalive_s);
    }
    /* Bytes that the kernel holds for a client that does not read are memory, too. */
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent_bytes, sizeof unsent_bytes);
    return conn;
}

/* --- all of a loop --- */

void conns_init(struct conns *conns, uv_loop_t *uv, const struct http_settings *settings,
                const struct http_service *service, struct clients *clients)
{
    ASSERT(settings->head_ms > 0 && settings->connections > 0);
    conns->uv = uv;
    conns->settings = settings;
    conns->service = service;
    conns->clients = clients;
    conns->limits_ms[CONN_HEAD] = settings->head_ms;
    conns->limits_ms[CONN_PROXY] = settings->head_ms;
    conns->limits_ms[CONN_BODY] = settings->body_ms;
    conns->limits_ms[CONN_LINGERING] = LIMIT_HTTP_LINGER_MS;
    conns->limits_ms[CONN_HANDSHAKE] = LIMIT_TLS_HANDSHAKE_MS;
    meter_init(&conns->meter, settings);
    TAILQ_INIT(&conns->queue);
    TAILQ_INIT(&conns->all);
    if (settings->tls != NULL) {
        conns->tls = tls_loop_new(settings->tls, &conns->timers);
    }
}

void conns_free(struct conns *conns)
{
    ASSERT(conns->counts.conns == 0);
    ASSERT(TAILQ_EMPTY(&conns->queue) && meter_is_clear(&conns->meter));
    buf_free(&conns->scratch);
    tls_loop_free(conns->tls);
    while (conns->pool.count > 0) {
        buf_free(&conns->pool.spare[--conns->pool.count]);
    }
}

/* conn: the present one; next: kept by the caller, as the present one may close. */
#define EACH_CONN(conns, conn, next)                                                               \
    for ((conn) = TAILQ_FIRST(&(conns)->all);                                                      \
         (conn) != NULL && ((next) = TAILQ_NEXT((conn), all_link), true); (conn) = (next))

/* Longest idle first. */
static int by_idle_since(const void *a, const void *b)
{
    const struct conn *const *one = a;
    const struct conn *const *other = b;

    return ((*one)->since_ms > (*other)->since_ms) - ((*one)->since_ms < (*other)->since_ms);
}

void conns_retire(struct conns *conns, uint32_t over_ms)
{
    uint64_t now_ms = uv_now(conns->uv);
    struct conn **idle = MUST_HAVE(calloc(conns->counts.conns + 1, sizeof *idle));
    uint64_t count = 0;
    struct conn *conn;

    ASSERT(!conns->retiring);
    conns->retiring = true;
    conns->retire_until_ms = now_ms + over_ms;
    TAILQ_FOREACH (conn, &conns->all, all_link) {
        if (conn->state == CONN_IDLE && timer_is_armed(&conn->read_timer)) {
            idle[count++] = conn;
        }
    }
    qsort(idle, count, sizeof *idle, by_idle_since);
    for (uint64_t i = 0; i < count; i++) {
        uint64_t used_ago_ms = now_ms - idle[i]->since_ms;
        uint32_t floor_ms = LIMIT_HTTP_RETIRE_MS / 2; /* it is left alone for: */

        /* A connection used just now will probably be used again: its client may send a request
         * before it sees the end. */
        floor_ms = used_ago_ms < floor_ms ? floor_ms - (uint32_t)used_ago_ms : 0;
        floor_ms = floor_ms < over_ms ? floor_ms : over_ms;
        timer_arm(&conns->timers, &idle[i]->read_timer,
                  now_ms + floor_ms + (over_ms - floor_ms) * (i + 1) / count);
    }
    free(idle);
}

void conns_drain(struct conns *conns)
{
    struct conn *conn;
    struct conn *next;

    ASSERT(conns->retiring);
    conns->draining = true;
    EACH_CONN(conns, conn, next)
    {
        if (conn->wait != NULL && conn->wait->expires_on_drain) {
            conn->wait->expire(conn->wait);
        }
    }
}

void conns_close(struct conns *conns, const char *reason)
{
    struct conn *conn;
    struct conn *next;

    EACH_CONN(conns, conn, next)
    {
        conn_close(conn, reason);
    }
}
