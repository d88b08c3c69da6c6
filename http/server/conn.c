/*
 * conn.c - see conn.h. Thread: the loop's.
 */
#include "http/server/conn.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "http/proto/target.h"
#include "src/base/assert.h"
#include "src/base/clock.h"
#include "src/base/container.h"
#include "src/base/log.h"

#define CONTINUE "HTTP/1.1 100 Continue\r\n\r\n"

/* A busy connection is idle again after each request. Its timer is moved only when the deadline has
 * become so much too early: by this part of the idle time is it late. */
#define IDLE_LATE_PART 64
#define CONN_KEEPALIVE_S 300 /* as Redis's tcp-keepalive */

/* What serving a request counts for, beside its bytes. */
#define REQUEST_WORK_BYTES 512

/* Connections of those put off that have a turn in one turn of the loop, however little they do. */
#define TURN_STEPS_MAX 64

/* While so small a part of the connections is left, no client may have more than as large a one. */
#define CONNS_SHARE 4

/* A header is shorter, as a rule. */
#define PROXY_PEEK_BYTES 512

/* %s: the address. */
#define PROXY_UNNAMED                                                                              \
    "a header of the PROXY protocol from %s: let proxy.from name that address, or the proxy send " \
    "none (send-proxy)"
#define PROXY_MISSING                                                                              \
    "proxy.from names %s, so each connection from there begins with a header of the PROXY "        \
    "protocol, and this one does not: let the proxy send it (send-proxy)"

#define BIT(state) (1u << (state))

static void conn_rest(struct conn *conn);

/* --- state --- */

HOT static void conn_move(struct conn *conn, enum conn_state to)
{
    static const unsigned allowed[] = {
        [CONN_IDLE] = BIT(CONN_IDLE) | BIT(CONN_HEAD) | BIT(CONN_SERVING) | BIT(CONN_FINISHING) |
                      BIT(CONN_HANDSHAKE) | BIT(CONN_PROXY) | BIT(CONN_CLOSED),
        [CONN_HEAD] = BIT(CONN_IDLE) | BIT(CONN_BODY) | BIT(CONN_SERVING) | BIT(CONN_FINISHING) |
                      BIT(CONN_CLOSED),
        [CONN_BODY] = BIT(CONN_SERVING) | BIT(CONN_FINISHING) | BIT(CONN_CLOSED),
        [CONN_SERVING] = BIT(CONN_IDLE) | BIT(CONN_FINISHING) | BIT(CONN_CLOSED),
        [CONN_FINISHING] = BIT(CONN_LINGERING) | BIT(CONN_CLOSED),
        [CONN_LINGERING] = BIT(CONN_CLOSED),
        [CONN_HANDSHAKE] = BIT(CONN_IDLE) | BIT(CONN_FINISHING) | BIT(CONN_CLOSED),
        [CONN_PROXY] = BIT(CONN_IDLE) | BIT(CONN_CLOSED),
        [CONN_CLOSED] = 0,
    };

    ASSERT((allowed[conn->state] & BIT(to)) != 0);
    conn->state = to;
    if (to != CONN_SERVING) { /* which has no deadline */
        conn->since_ms = conns_now_ms(conn->conns);
    }
}

static bool is_receiving(const struct conn *conn)
{
    return conn->state <= CONN_BODY;
}

/* To go on at the end of the turn. */
HOT static void conn_queue(struct conn *conn)
{
    if (!conn->queued) {
        conn->queued = true;
        TAILQ_INSERT_TAIL(&conn->conns->queue, conn, queue_link);
        conn->conns->queue_len++;
    }
}

HOT static void conn_unqueue(struct conn *conn)
{
    ASSERT(conn->queued);
    conn->queued = false;
    TAILQ_REMOVE(&conn->conns->queue, conn, queue_link);
    conn->conns->queue_len--;
}

/* --- what is put off --- */

/* Go on in a later turn, when those before it had theirs. */
static void put_off_to(struct conn *conn, struct conn_queue *queue)
{
    if (conn->put_off == NULL) {
        conn->put_off = queue;
        TAILQ_INSERT_TAIL(queue, conn, put_off_link);
    }
}

static void put_off(struct conn *conn)
{
    put_off_to(conn, &conn->conns->later);
}

static void put_off_end(struct conn *conn)
{
    TAILQ_REMOVE(conn->put_off, conn, put_off_link);
    conn->put_off = NULL;
}

/* Is there room for the reply to another request? A client that took all of its replies is served
 * although others have not, as far as that goes. */
HOT static bool has_room(const struct conn *conn)
{
    const struct budget *budget = &conn->conns->budget;

    return !budget_output_is_full(budget) ||
           (output_is_empty(&conn->output) && !budget_output_is_over(budget));
}

HOT static bool makes_parts(const struct conn *conn)
{
    return conn->state == CONN_SERVING && conn->wait != NULL && conn->wait->sent != NULL;
}

/* Is there room for what this connection does in its turn? */
static bool has_room_for_turn(const struct conn *conn)
{
    if (output_is_waiting(&conn->output)) {
        return true;
    }
    return makes_parts(conn) && !conn->wait->takes_turn
               ? !budget_output_is_full(&conn->conns->budget)
               : has_room(conn);
}

HOT static void count_output(struct conn *conn)
{
    budget_output(&conn->conns->budget, &conn->output.counted, output_held_bytes(&conn->output));
}

/* The name of a refusal, and what conn_refuse() answers; the others are told elsewhere. */
static const struct refusal {
    const char *name;
    int status; /* 429: a quota */
    const char *code;
    const char *why;
} refusals[CONN_REFUSALS] = {
    [CONN_REFUSED_FULL] = {"connections", 503, "overloaded", "too many connections are open"},
    [CONN_REFUSED_SHARE] = {"connections_share", 503, "overloaded",
                            "many connections are open, and this client has more than its share"},
    [CONN_REFUSED_CONNECTIONS] = {"connections_quota", 429, "quota",
                                  "this client has too many connections"},
    [CONN_REFUSED_LARGE] = {"body_large", 413, "body_too_large",
                            "the body is larger than this route takes (limit in bytes)"},
    [CONN_REFUSED_BODIES] = {"bodies", 503, "overloaded",
                             "too many request bodies are being received"},
    [CONN_REFUSED_BODY_SHARE] = {"bodies_share", 503, "overloaded",
                                 "this client's request bodies take all the room that one client "
                                 "may take (a twelfth of http.memory-bytes)"},
    [CONN_REFUSED_BODY_QUOTA] = {"bodies_quota", 429, "quota",
                                 "this client sends as many request bodies at a time as its quota "
                                 "allows"},
    [CONN_REFUSED_BODY_SLOW] = {"body_slow", 408, "too_slow",
                                "the request's body came slowly, and its place was needed for "
                                "another"},
    [CONN_REFUSED_INPUT] = {"input", 408, "too_slow",
                            "the request came slowly, and its place was needed for another"},
    [CONN_REFUSED_READER] = {.name = "reader_slow"},
    [CONN_REFUSED_REQUESTS] = {.name = "requests_quota", .status = 429},
    [CONN_REFUSED_IDS] = {.name = "ids_quota", .status = 429},
    [CONN_REFUSED_KEYS] = {.name = "keys_share"},
    [CONN_REFUSED_WORKERS] = {.name = "workers_share"},
};

const char *conn_refusal_name(enum conn_refusal refusal)
{
    return refusals[refusal].name;
}

/* For who asks later why a client was refused: the metrics have no clients. */
static void tell_quota(struct conn *conn, enum conn_refusal refusal, uint64_t refused)
{
    struct conns *conns = conn->conns;
    const struct http_client *client = conn->client;
    char name[LIMIT_CLIENT_NAME_BYTES + 16];
    uint64_t more = 0;

    if (client_tells(conn->client, &conns->client_lines, conns_now_ms(conns), &more)) {
        log_warn("http", "a client is over its quota",
                 "client=%s by=%s quota=%s refused=%llu more_clients=%llu",
                 log_quote(client->name, client->name_len, name, sizeof name),
                 client->is_named ? "token" : "address", conn_refusal_name(refusal), ull(refused),
                 ull(more));
    }
}

COLD static void count_refusal(struct conn *conn, enum conn_refusal refusal)
{
    uint64_t before = atomic_fetch_add_explicit(&conn->client->refused, 1, memory_order_relaxed);

    conns_count(&conn->conns->counts.refused[refusal], 1);
    if (refusals[refusal].status == 429) {
        tell_quota(conn, refusal, before + 1);
    }
}

/* --- memory of input --- */

/* It keeps so much now: 0 takes it out. */
static void input_count(struct conn *conn, uint32_t kept)
{
    struct conn_queue *inputs = &conn->conns->inputs;

    if (conn->input_counted == 0 && kept > 0) {
        TAILQ_INSERT_TAIL(inputs, conn, input_link);
    } else if (conn->input_counted > 0 && kept == 0) {
        TAILQ_REMOVE(inputs, conn, input_link);
    }
    budget_kept(&conn->conns->budget.input_bytes, &conn->input_counted, kept);
}

/* It got on: others go before it. */
HOT static void input_step(struct conn *conn)
{
    if (conn->input_counted > 0) {
        TAILQ_REMOVE(&conn->conns->inputs, conn, input_link);
        TAILQ_INSERT_TAIL(&conn->conns->inputs, conn, input_link);
    }
}

/* --- the end --- */

/* The body of the present request goes. */
HOT static void body_free(struct conn *conn)
{
    struct conns *conns = conn->conns;

    if (!conn->has_body) {
        return;
    }
    conn->has_body = false;
    TAILQ_REMOVE(&conns->bodies, conn, body_link);
    atomic_fetch_sub_explicit(&conn->client->bodies, 1, memory_order_relaxed);
    budget_body_free(&conns->budget, conn->client, conn->body.len);
    buf_free(&conn->body);
}

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

static void closed_cb(uv_handle_t *handle)
{
    struct conn *conn = handle->data;

    ASSERT(conn->state == CONN_CLOSED);
    input_free(&conn->input, conn->conns->input);
    output_free(&conn->output);
    if (conn->tls != NULL) {
        session_free(conn->tls);
    }
    free(conn->last);
    free(conn->proxied);
    if (conn->protocol != NULL) {
        conn->protocol->end(conn);
    }
    free(conn);
}

/* Between two requests: say that this is the end, so that nobody takes it for a line that was cut.
 * If the socket does not take it, so be it. */
COLD static void say_goodbye(struct conn *conn)
{
    if (conn->state == CONN_IDLE && !output_is_waiting(&conn->output) &&
        conn->output.out.len == 0 && session_owes(conn->tls, true)) {
        (void)output_seal(&conn->output, &conn->conns->pool, conn->fd, conn->tls, true);
    }
}

/* Close without another word; memory goes when libuv is through. Idempotent. */
COLD static void conn_close(struct conn *conn, const char *reason)
{
    struct conns *conns = conn->conns;
    struct http_wait *wait = conn->wait;

    if (conn->state == CONN_CLOSED) {
        return;
    }
    log_debug("http", "connection closed", "reason=\"%s\"", reason);
    if (conn->tls != NULL) {
        say_goodbye(conn);
        session_stop(conn->tls);
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
        conn_unqueue(conn);
    }
    if (conn->put_off != NULL) {
        put_off_end(conn);
    }
    body_free(conn);
    input_count(conn, 0);
    budget_kept(&conns->budget.waiting_bytes, &conn->waiting_counted, 0);
    budget_output(&conns->budget, &conn->output.counted, 0);
    TAILQ_REMOVE(&conns->all, conn, all_link);
    conns->counts.conns--;
    conns->counts.resp_conns -= conn->protocol != NULL;
    conns->refused_count -= conn->refused;
    identify_end(conn);
    atomic_fetch_sub_explicit(&conn->peer->connections, !conn->is_uncounted, memory_order_relaxed);
    clients_release(conns->clients, conn->peer);
    conn->client = NULL;
    uv_close((uv_handle_t *)&conn->poll, closed_cb);
    close(conn->fd);
    conn->fd = -1;
}

/* What the kernel still holds for the client would linger for minutes behind an orderly close. */
COLD static void conn_abort(struct conn *conn, const char *reason)
{
    static const struct linger at_once = {.l_onoff = 1, .l_linger = 0};

    (void)setsockopt(conn->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    conn_close(conn, reason);
}

/* --- replies --- */

/* While connections retire what the client has sent behind the request is served, too, as long as
 * there is time. */
COLD static void retire(struct conn *conn)
{
    const struct conns *conns = conn->conns;

    if (conn->input.end == conn->input.next || conns_now_ms(conns) >= conns->retire_until_ms) {
        conn->ending = CONN_LINGERS; /* the client did not ask for it, and may ask for more */
    }
}

/* As the head of the reply says, or will say. */
HOT static bool was_last(const struct conn *conn)
{
    return conn->ending != CONN_STAYS || !conn_head(conn)->keep_alive;
}

/* Is the reply that begins now the last? The answer holds until its end. */
HOT static bool is_last(struct conn *conn)
{
    if (conn->conns->retiring) {
        retire(conn);
    }
    return was_last(conn);
}

HOT static const char *conns_date(struct conns *conns)
{
    uint64_t now_ms = conns_now_ms(conns);
    uint64_t wall_ms;

    if (now_ms >= conns->date_until_ms) {
        wall_ms = clock_wall_ms(conns->service->clock);
        text_time_http(wall_ms, conns->date);
        conns->date_until_ms = now_ms + 1000 - wall_ms % 1000;
    }
    return conns->date;
}

/* The present request is answered: make room for the next one. */
HOT static void request_done(struct conn *conn, bool is_last)
{
    body_free(conn);
    input_step(conn);
    if (is_last) {
        if (conn->input.end > conn->input.next) {
            conn->ending = CONN_LINGERS;
        }
        conn_move(conn, CONN_FINISHING);
        input_drop(&conn->input);
    } else {
        conn_move(conn, CONN_IDLE);
        input_used(&conn->input);
    }
    conn_queue(conn);
}

bool conn_trace(const struct conn *conn, char ret_trace[HEADER_TRACE_BYTES])
{
    size_t len = 0;
    size_t count;
    const char *value =
        header_find(conn_at(conn, 0), conn_head(conn)->len, "traceparent", &len, &count);

    return value != NULL && count == 1 && header_trace(value, len, ret_trace);
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

HOT void conn_reply(struct conn *conn, int status, const char *type, const char *extra,
                    const void *body, size_t len)
{
    const struct parser_head *head = conn_head(conn);
    struct conns *conns = conn->conns;
    bool is_complete = conn->state == CONN_SERVING; /* else the head says nothing yet */
    uint64_t took_us;
    struct response_frame frame = {
        .date = conns_date(conns),
        .close = is_last(conn),
        .head_only = is_complete && head->method == METHOD_HEAD,
    };

    ASSERT(is_complete || (is_receiving(conn) && conn->ending != CONN_STAYS));
    ASSERT(conn->wait == NULL);
    frame.keep_alive = head->http_1_0 && !frame.close;
    response_put(output_buf(&conn->output, &conns->pool), &frame, status, type, extra, body, len);
    conn->output.reply_count++;
    count_output(conn);
    took_us = latency_end(&conns->latency, is_complete ? conn->traffic : conn->request.traffic,
                          status, is_complete ? conn->began_us : 0);
    if (took_us > 0) {
        note_trace(conn, status, took_us);
    }
    if (conn->note != NULL) {
        conns->service->answered(conn, status, body, len);
    }
    request_done(conn, frame.close);
}

struct buf *conn_put(struct conn *conn)
{
    return output_buf(&conn->output, &conn->conns->pool);
}

HOT void conn_put_done(struct conn *conn, int status)
{
    struct conns *conns = conn->conns;
    bool is_complete = conn->state == CONN_SERVING;

    ASSERT(conn->protocol != NULL && conn->wait == NULL);
    ASSERT(is_complete || (is_receiving(conn) && conn->ending != CONN_STAYS));
    conn->output.reply_count++;
    count_output(conn);
    conns_count(&conns->counts.resp_replies[status / 100 - 2], 1);
    latency_end(&conns->latency, is_complete ? conn->traffic : conn->request.traffic, status,
                is_complete ? conn->began_us : 0);
    request_done(conn, is_last(conn));
}

void conn_fail(struct conn *conn, int status, const char *code, const char *extra, const char *more,
               const char *message)
{
    const struct request *request = &conn->request;
    struct buf *scratch = &conn->conns->scratch;

    if (conn->protocol != NULL) {
        conn->protocol->put_error(conn_put(conn), status, code, message);
        conn_put_done(conn, status);
        return;
    }
    scratch->len = 0;
    response_error_json(scratch, clock_wall_ms(conn->conns->service->clock), status, code, message,
                        request->path_len > 0 ? conn_at(conn, request->path_at) : "",
                        request->path_len, more);
    conn_reply(conn, status, RESPONSE_JSON, extra, scratch->data, scratch->len);
}

/* --- replies that come part by part --- */

void conn_stream(struct conn *conn, const char *type)
{
    struct conns *conns = conn->conns;
    struct response_frame frame = {.date = conns_date(conns),
                                   .close = is_last(conn) || conn_head(conn)->http_1_0};

    ASSERT(conn->state == CONN_SERVING && conn->wait == NULL);
    response_put_stream(conn_put(conn), &frame, type, !conn_head(conn)->http_1_0);
    count_output(conn);
    latency_end(&conns->latency, conn->traffic, 200, conn->began_us);
    conn_queue(conn);
}

void conn_stream_put(struct conn *conn, const void *data, size_t len)
{
    struct buf *out = conn_put(conn);

    ASSERT(conn->state == CONN_SERVING && len > 0);
    if (conn_head(conn)->http_1_0) {
        buf_put(out, data, len);
    } else {
        response_put_chunk(out, data, len);
    }
    count_output(conn);
    conn_queue(conn);
}

void conn_stream_end(struct conn *conn)
{
    ASSERT(conn->state == CONN_SERVING && conn->wait == NULL);
    if (!conn_head(conn)->http_1_0) {
        response_put_chunk(conn_put(conn), NULL, 0);
    }
    conn->output.reply_count++;
    if (conn->note != NULL) {
        conn->conns->service->answered(conn, 200, NULL, 0);
    }
    request_done(conn, was_last(conn) || conn_head(conn)->http_1_0);
}

void conn_stream_cut(struct conn *conn, const char *reason)
{
    conn_abort(conn, reason);
}

/* --- replies of a known length that are made part by part --- */

void conn_reply_begin(struct conn *conn, const char *type, const char *extra, size_t len)
{
    const struct parser_head *head = conn_head(conn);
    struct conns *conns = conn->conns;
    struct response_frame frame = {.date = conns_date(conns), .close = is_last(conn)};

    ASSERT(conn->state == CONN_SERVING && conn->wait == NULL);
    ASSERT(len > 0 && head->method != METHOD_HEAD);
    frame.keep_alive = head->http_1_0 && !frame.close;
    response_put_head(conn_put(conn), &frame, 200, type, extra, len);
    count_output(conn);
    latency_end(&conns->latency, conn->traffic, 200, conn->began_us);
    put_off(conn);
}

void conn_put_begin(struct conn *conn)
{
    struct conns *conns = conn->conns;

    ASSERT(conn->protocol != NULL && conn->state == CONN_SERVING && conn->wait == NULL);
    (void)is_last(conn);
    count_output(conn);
    conns_count(&conns->counts.resp_replies[0], 1);
    latency_end(&conns->latency, conn->traffic, 200, conn->began_us);
    put_off(conn);
}

struct buf *conn_reply_part(struct conn *conn)
{
    ASSERT(conn->state == CONN_SERVING && conn->wait == NULL);
    return conn_put(conn);
}

void conn_reply_made(struct conn *conn)
{
    count_output(conn);
    conn_queue(conn);
}

void conn_reply_end(struct conn *conn)
{
    ASSERT(conn->state == CONN_SERVING && conn->wait == NULL);
    conn->output.reply_count++;
    request_done(conn, was_last(conn));
}

/* Answer with an error and close: the input cannot be trusted to be in step. */
COLD static void conn_reject(struct conn *conn, const struct parser_reject *reject)
{
    char message[160];

    (void)snprintf(message, sizeof message, "%s; the limit is %llu", reject->why,
                   ull(reject->limit));
    conn->ending = CONN_LINGERS;
    conn_fail(conn, reject->status, reject->code, NULL, "",
              reject->limit > 0 ? message : reject->why);
}

/* The same, for want of room, or for a quota. */
COLD static void conn_refuse(struct conn *conn, enum conn_refusal refusal, uint64_t limit)
{
    const struct refusal *how = &refusals[refusal];
    const struct parser_reject reject = {how->status, how->code, how->why, limit};

    count_refusal(conn, refusal);
    conn_reject(conn, &reject);
}

/* --- who asks --- */

const char *conn_certificate(const struct conn *conn)
{
    return conn->tls != NULL ? conn->tls->certificate : NULL;
}

bool conn_address(const struct conn *conn, struct sockaddr_storage *ret_address)
{
    socklen_t len = sizeof *ret_address;

    if (conn->proxied != NULL && conn->proxied->client.any.sa_family != AF_UNSPEC) {
        memcpy(ret_address, &conn->proxied->client, sizeof conn->proxied->client);
        return true;
    }
    return getpeername(conn->fd, (struct sockaddr *)ret_address, &len) == 0;
}

COLD static void fail_charge(struct conn *conn, const struct client_rate *rate, uint32_t wait_s)
{
    bool is_ids = rate == &conn->client->ids;
    char message[160];
    char extra[48];

    count_refusal(conn, is_ids ? CONN_REFUSED_IDS : CONN_REFUSED_REQUESTS);
    (void)snprintf(message, sizeof message, "client %s has used up its quota of %u %s a second",
                   conn->client->name, atomic_load_explicit(&rate->per_s, memory_order_relaxed),
                   is_ids ? "ids" : "requests");
    (void)snprintf(extra, sizeof extra, "Retry-After: %u\r\n", wait_s);
    conn_fail(conn, 429, "quota", extra, "", message);
}

void conn_identify(struct conn *conn, const char *name, size_t len,
                   const struct client_quotas *quotas)
{
    struct http_client *client;
    uint32_t count;

    if (conn->has_body) {
        return; /* which was charged to who asked then */
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

bool conn_charge_bound(struct conn *conn, struct client_rate *rate, uint64_t amount)
{
    uint32_t wait_s;

    if (conn->over_quota) {
        conn_refuse(conn, CONN_REFUSED_CONNECTIONS, conn->client->connections_max);
        return false;
    }
    wait_s = client_charge(rate, amount, conns_now_ms(conn->conns));
    if (wait_s > 0) {
        fail_charge(conn, rate, wait_s);
    }
    return wait_s == 0;
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
    put_off(conn);
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

/* --- from bytes to requests --- */

/* The request is to be answered. */
HOT static void serving_begin(struct conn *conn)
{
    conn_move(conn, CONN_SERVING);
    conn->traffic = conn->request.traffic;
    conn->began_us = latency_begin(&conn->conns->latency);
}

/* The request is complete. */
HOT static bool request_serve(struct conn *conn)
{
    serving_begin(conn);
    conn->handle(conn);
    return true;
}

/* Split the target and ask the service. False when the target cannot be read; answered. */
HOT static bool request_admit(struct conn *conn)
{
    static const struct parser_reject bad_target = {
        400, "bad_request", "the request target is not a path beginning with \"/\"", 0};
    const char *head = conn_at(conn, 0);
    struct request *request = &conn->request;
    const char *raw = head + conn_head(conn)->target_at;
    const size_t len = conn_head(conn)->target_len;
    struct target target = {.path = raw, .path_len = len};
    bool is_of_all = len == 1 && raw[0] == '*' && conn_head(conn)->method == METHOD_OPTIONS;

    if (!is_of_all && target_split(raw, len, &target) != 0) {
        serving_begin(conn);
        conn_reject(conn, &bad_target);
        return false;
    }
    request->path_at = (uint32_t)(target.path - head);
    request->path_len = (uint32_t)target.path_len;
    if (target.query_len > 0) {
        request->query_at = (uint32_t)(target.query - head);
        request->query_len = (uint32_t)target.query_len;
    }
    request->admission = conn->conns->service->admit(conn);
    return true;
}

/* Keep the head, for the next request. Most are far shorter than the longest one kept, and many
 * connections are idle: each has memory for what its client sends, not for what it might. */
HOT static void keep_head(struct conn *conn)
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

/* The head is complete. */
HOT static bool head_done(struct conn *conn)
{
    const struct parser_head *head = conn_head(conn);

    conn->input.next = conn->input.start + head->len;
    if (!request_admit(conn)) {
        return true;
    }
    if (!head->has_body) {
        keep_head(conn);
        return request_serve(conn);
    }
    conn_move(conn, CONN_BODY);
    if (conn->request.admission == HTTP_REFUSE &&
        (head->expect_continue || head->content_length > conn->request.body_max)) {
        /* The client may or may not send its body now: no telling where the next request begins. */
        conn->ending = CONN_LINGERS;
        return request_serve(conn);
    }
    if (head->content_length > conn->request.body_max) {
        conn_refuse(conn, CONN_REFUSED_LARGE, conn->request.body_max);
        return true;
    }
    if (head->expect_continue && conn->input.next == conn->input.end) {
        buf_put(conn_put(conn), CONTINUE, sizeof(CONTINUE) - 1);
        conn_queue(conn);
    }
    return true;
}

/* Does a request begin with the head that was read last? */
HOT static bool is_repeated(const struct conn *conn)
{
    return conn->last_len > 0 && conn->last_len <= input_len(&conn->input) &&
           memcmp(conn_at(conn, 0), conn->last, conn->last_len) == 0;
}

void conn_is_proxied(struct conn *conn)
{
    char why[sizeof PROXY_UNNAMED + LIMIT_CLIENT_NAME_BYTES];
    const struct parser_reject reject = {400, "bad_request", why, 0};

    (void)snprintf(why, sizeof why, PROXY_UNNAMED, conn->peer->name);
    conn_reject(conn, &reject);
}

/* Read a request of the protocol. False when it needs more input. */
HOT static bool step_protocol(struct conn *conn)
{
    struct input *input = &conn->input;

    switch (conn->protocol->read(conn)) {
    case CONN_READ_MORE:
        if (conn->state == CONN_IDLE) {
            conn_move(conn, CONN_HEAD);
        }
        return false;
    case CONN_READ_NOTHING:
        input->next = input->start + conn_head(conn)->len;
        conn_move(conn, CONN_IDLE);
        input_used(input);
        return true;
    case CONN_READ_REQUEST:
        input->next = input->start + conn_head(conn)->len;
        keep_head(conn);
        return request_serve(conn);
    case CONN_READ_REJECT:
        if (conn_at(conn, 0)[0] == '\0') { /* behind empty lines: a proxy's binary header */
            conn_is_proxied(conn);
        } else {
            conn_reject(conn, &conn->parser.reject);
        }
        return true;
    }
    UNREACHABLE("a result of a protocol's reading");
}

/* Scan the head. False when it needs more input. */
HOT static bool step_head(struct conn *conn)
{
    struct input *input = &conn->input;

    if (conn->state == CONN_IDLE) {
        if (input->start == input->end) {
            return false;
        }
        if (is_repeated(conn)) {
            ASSERT(conn_head(conn)->len == conn->last_len);
            input->next = input->start + conn->last_len;
            return request_serve(conn);
        }
        conn->last_len = 0;
        conn->request = (struct request){0};
        if (conn->protocol != NULL) {
            return step_protocol(conn);
        }
        parser_init(&conn->parser);
        conn_move(conn, CONN_HEAD);
    } else if (conn->protocol != NULL) {
        return step_protocol(conn);
    }
    switch (parser_head(&conn->parser, conn_at(conn, 0), input_len(input))) {
    case PARSER_MORE:
        return false;
    case PARSER_DONE:
        return head_done(conn);
    case PARSER_REJECT:
        if (proxy_begins(conn_at(conn, 0), input_len(input))) {
            conn_is_proxied(conn);
        } else {
            conn_reject(conn, &conn->parser.reject);
        }
        return true;
    }
    UNREACHABLE("an event of the parser");
}

/* May this body give way to another that finds no room because of `full`? */
static bool gives_way(const struct conn *body, const struct conn *to, enum budget_result full)
{
    return body != to && (full == BUDGET_ALL || budget_is_large(body->body.len)) &&
           (full != BUDGET_CLIENT || body->client == to->client);
}

/* Take the place of the body that has come on least, if there is one that is slow. False: none
 * is. */
static bool make_way(struct conn *to, enum budget_result full)
{
    uint64_t now_ms = conns_now_ms(to->conns);
    struct conn *body;

    TAILQ_FOREACH (body, &to->conns->bodies, body_link) {
        if (now_ms - body->body_step_ms < LIMIT_HTTP_BODY_SLOW_MS) {
            return false;
        }
        if (gives_way(body, to, full)) {
            conn_refuse(body, CONN_REFUSED_BODY_SLOW, 0);
            conn_rest(body);
            return true;
        }
    }
    return false;
}

/* The first piece of a body that is to be kept. False: its client has too many; answered. */
static bool body_begin(struct conn *conn)
{
    struct http_client *client = conn->client;
    uint32_t max = atomic_load_explicit(&client->bodies_max, memory_order_relaxed);

    if (max > 0 && atomic_load_explicit(&client->bodies, memory_order_relaxed) >= max) {
        conn_refuse(conn, CONN_REFUSED_BODY_QUOTA, max);
        return false;
    }
    atomic_fetch_add_explicit(&client->bodies, 1, memory_order_relaxed);
    conn->has_body = true;
    conn->body_step_ms = conns_now_ms(conn->conns);
    conn->body_step_bytes = 0;
    TAILQ_INSERT_TAIL(&conn->conns->bodies, conn, body_link);
    return true;
}

/* A body that comes on is not the first to give way. */
static void body_step(struct conn *conn)
{
    struct conn_queue *bodies = &conn->conns->bodies;

    if (conn->body.len - conn->body_step_bytes >= LIMIT_HTTP_BODY_STEP_BYTES) {
        conn->body_step_bytes = conn->body.len;
        conn->body_step_ms = conns_now_ms(conn->conns);
        TAILQ_REMOVE(bodies, conn, body_link);
        TAILQ_INSERT_TAIL(bodies, conn, body_link);
        input_step(conn);
    }
}

/* Keep a piece of the body if the service wants it. False when there is no room; answered. */
static bool body_keep(struct conn *conn, const char *data, size_t len)
{
    enum budget_result full;

    if (conn->parser.body_bytes + conn->parser.body_left > conn->request.body_max) {
        conn_refuse(conn, CONN_REFUSED_LARGE, conn->request.body_max);
        return false;
    }
    if (conn->request.admission != HTTP_KEEP_BODY || len == 0) {
        return true;
    }
    ASSERT(conn->body.len + len <= conn->request.body_max);
    if (!conn->has_body && !body_begin(conn)) {
        return false;
    }
    do {
        full =
            budget_body(&conn->conns->budget, conn->client, conn->body.len, conn->body.len + len);
    } while (full != BUDGET_OK && make_way(conn, full));
    if (full == BUDGET_CLIENT) {
        conn_refuse(conn, CONN_REFUSED_BODY_SHARE, conn->conns->budget.client_max);
        return false;
    }
    if (full != BUDGET_OK) {
        conn_refuse(conn, CONN_REFUSED_BODIES, 0);
        return false;
    }
    buf_put(&conn->body, data, len);
    body_step(conn);
    return true;
}

/* Take what is there of the body. False when it needs more input. */
static bool step_body(struct conn *conn)
{
    struct input *input = &conn->input;
    char *data = input->bytes + input->next;
    size_t used;
    size_t decoded;
    enum parser_event event =
        parser_body(&conn->parser, data, input->end - input->next, &used, &decoded);

    if (event == PARSER_REJECT) {
        conn_reject(conn, &conn->parser.reject);
        return true;
    }
    if (!body_keep(conn, data, decoded)) {
        return true;
    }
    if (event == PARSER_MORE) {
        /* All of it was consumed: its place takes what comes next. */
        ASSERT(used == input->end - input->next);
        input->end = input->next;
        return false;
    }
    input->next += (uint32_t)used;
    ASSERT(input->next <= input->end);
    return request_serve(conn);
}

/* --- the socket --- */

/* More of what was received over TLS. False: there is no more now; conn->ended may be true. */
HOT static bool conn_decrypt(struct conn *conn)
{
    struct input *input = &conn->input;
    ssize_t len;

    input_borrow(input, conn->conns->input);
    len = session_read(conn->tls, input->bytes + input->end, INPUT_BYTES - input->end);
    if (len > 0) {
        input->end += (uint32_t)len;
        return true;
    }
    if (len == TLS_BROKEN) {
        conn->ending = CONN_LINGERS; /* what came behind was not read */
    }
    conn->ended = conn->ended || len < 0;
    if (session_owes(conn->tls, false)) {
        conn_queue(conn);
    }
    return false;
}

/* Serve what is in the buffer, but no more than is one connection's turn. The replies are sent at
 * the end of the turn. */
HOT static void conn_process(struct conn *conn)
{
    unsigned steps = 0;
    bool hungry = false;

    ASSERT(conn->state != CONN_CLOSED);
    while (!hungry && is_receiving(conn) && !output_is_full(&conn->output) && has_room(conn) &&
           steps++ < LIMIT_HTTP_TURN_REQUESTS) {
        hungry = conn->state == CONN_BODY ? !step_body(conn) : !step_head(conn);
        if (hungry && conn->tls != NULL) {
            hungry = !conn_decrypt(conn);
        }
    }
    if (hungry && conn->ended) {
        conn_move(conn, CONN_FINISHING);
        conn_queue(conn);
    } else if (!hungry && is_receiving(conn) && !output_is_full(&conn->output)) {
        put_off_to(conn, has_room(conn) ? &conn->conns->later : &conn->conns->no_room);
    }
    conn->conns->work_bytes += steps * (uint64_t)REQUEST_WORK_BYTES;
    conn_rest(conn);
}

/* All is written and nothing more will be. */
static void conn_end(struct conn *conn)
{
    if ((conn->ending != CONN_LINGERS && conn->tls == NULL) || conn->ended) {
        conn_close(conn, "done");
        return;
    }
    conn_move(conn, CONN_LINGERING);
    if (shutdown(conn->fd, SHUT_WR) != 0) {
        conn_close(conn, "shutdown failed");
        return;
    }
    conn_rest(conn);
}

static struct rate_rule rate_rule(const struct conns *conns)
{
    return (struct rate_rule){conns->settings->write_ms, conns->settings->min_rate_bytes};
}

static void write_timer_arm(struct conn *conn)
{
    struct conns *conns = conn->conns;
    struct rate_rule rule = rate_rule(conns);

    timer_arm(&conns->timers, &conn->write_timer, conns_now_ms(conns) + rate_look_ms(&rule));
}

/* The client did not take all at once. It is looked at until it is idle. */
static void rate_watch(struct conn *conn)
{
    if (!timer_is_armed(&conn->write_timer)) {
        rate_begin(&conn->rate, conn->output.taken_bytes, conns_now_ms(conn->conns));
        write_timer_arm(conn);
    }
}

static void write_timer_fire(struct timer *timer, uint64_t now_ms)
{
    static const char *const reasons[] = {
        [RATE_STALLED] = "the client takes no output",
        [RATE_SLOW] = "the client takes its output too slowly",
        [RATE_SLOW_WHILE_SHORT] = "the client takes its output slowly while there is no room",
    };
    struct conn *conn = CONTAINER(timer, struct conn, write_timer);
    const struct output *output = &conn->output;
    struct rate_rule rule = rate_rule(conn->conns);
    enum rate_verdict verdict =
        rate_look(&conn->rate, &rule, output->taken_bytes, now_ms, output_is_waiting(output),
                  output->counted, budget_output_is_short(&conn->conns->budget));

    if (verdict != RATE_OK) {
        count_refusal(conn, CONN_REFUSED_READER);
        conn_abort(conn, reasons[verdict]);
    } else {
        write_timer_arm(conn);
    }
}

/* Does a part of a stream wait to be sent before the next one is asked for? */
HOT static bool is_streaming(const struct conn *conn)
{
    return makes_parts(conn) && conn->output.out.len == 0;
}

/* Give the socket what there is. */
HOT static enum output_result conn_give(struct conn *conn)
{
    struct output_pool *pool = &conn->conns->pool;

    return conn->tls == NULL ? output_send(&conn->output, pool, conn->fd)
                             : output_seal(&conn->output, pool, conn->fd, conn->tls,
                                           conn->state == CONN_FINISHING);
}

/* Send what there is, in a turn's end or when the socket takes more. */
HOT static void conn_send(struct conn *conn)
{
    bool was_waiting = output_is_waiting(&conn->output);
    bool go_on = was_waiting || output_is_full(&conn->output);
    uint64_t taken_bytes = conn->output.taken_bytes;
    enum output_result result = conn_give(conn);
    bool has_more;

    conn->conns->work_bytes += conn->output.taken_bytes - taken_bytes;
    count_output(conn);
    switch (result) {
    case OUTPUT_FAILED:
        conn_close(conn, "write failed");
        return;
    case OUTPUT_WAITS:
        rate_watch(conn);
        conn_rest(conn);
        return;
    case OUTPUT_DONE:
        break;
    }
    if (conn->state == CONN_IDLE && timer_is_armed(&conn->write_timer)) {
        timer_cancel(&conn->conns->timers, &conn->write_timer);
        conn_move(conn, CONN_IDLE); /* not before now */
    }
    has_more = conn->output.out.len > 0 ||
               (conn->tls != NULL && session_owes(conn->tls, conn->state == CONN_FINISHING));
    if (has_more) {
        conn_queue(conn); /* replies that came meanwhile */
    }
    if (conn->state == CONN_FINISHING && !has_more) {
        conn_end(conn);
    } else if (go_on || is_streaming(conn)) {
        put_off(conn);
        conn_rest(conn);
    }
}

/* At the end of a turn. */
HOT static void conn_turn_end(struct conn *conn)
{
    if (conn->state == CONN_IDLE && !timer_is_armed(&conn->read_timer)) {
        conn_process(conn); /* it was answered after its own turn: there may be another request */
    }
    if (conn->state != CONN_CLOSED && !output_is_waiting(&conn->output)) {
        conn_send(conn);
    }
}

/* A connection that was put off has its turn. */
static void conn_go_on(struct conn *conn)
{
    if (output_is_waiting(&conn->output)) {
        conn_send(conn);
    } else if (makes_parts(conn)) {
        if (conn->wait->takes_turn) {
            conn->conns->work_bytes += LIMIT_HTTP_TURN_BYTES;
        } else {
            conns_count(&conn->conns->counts.parts, 1);
        }
        conn->wait->sent(conn->wait);
    } else if (is_receiving(conn)) {
        conn_process(conn);
    }
}

/* The client sends no more: it may still read what it asked for, unless its request waits for what
 * nobody may ever read. */
static void read_end(struct conn *conn)
{
    conn->ended = true;
    if (conn->state == CONN_LINGERING || conn->state == CONN_HANDSHAKE) {
        conn_close(conn, "done");
    } else if (conn->wait != NULL && conn->wait->needs_client) {
        conn_close(conn, "the client has gone while its request waited");
    } else {
        conn_process(conn);
    }
}

HOT static void conn_read(struct conn *conn)
{
    struct input *input = &conn->input;
    ssize_t count;

    input_borrow(input, conn->conns->input);
    count = recv(conn->fd, input->bytes + input->end, INPUT_BYTES - input->end, 0);
    if (count == 0) {
        read_end(conn);
    } else if (count < 0 && errno != EAGAIN && errno != EINTR && errno != ENOBUFS) {
        conn_close(conn, "read failed");
    } else if (count > 0 && conn->state <= CONN_SERVING) {
        input->end += (uint32_t)count;
        ASSERT(input->end <= INPUT_BYTES);
        if (conn->put_off == NULL) {
            conn_process(conn);
        } else {
            conn_rest(conn); /* its turn comes */
        }
    } else {
        input_keep(input, conn->conns->input); /* what came is dropped */
    }
}

/* --- TLS --- */

/* What is said from now on is said without it. */
COLD static void end_tls(struct conn *conn)
{
    session_stop(conn->tls);
    session_free(conn->tls);
    conn->tls = NULL;
}

/* These are the first bytes of an HTTP request: it is told so in its own language. */
COLD static void conn_is_plain(struct conn *conn)
{
    static const struct parser_reject plain = {
        400, "tls_required", "this address is for TLS: begin its URL with https://", 0};
    static const struct parser_reject plain_resp = {
        400, "tls_required", "this address is for TLS: begin its URL with rediss://", 0};

    bool is_proxied = proxy_begins(conn->tls->in, conn->tls->in_len);

    end_tls(conn);
    conn_move(conn, CONN_IDLE);
    if (is_proxied) {
        conn_is_proxied(conn);
    } else {
        conn_reject(conn, conn->protocol == NULL ? &plain : &plain_resp);
    }
    conn_rest(conn);
}

/* It ends when what is there was sent: an alert, say. */
COLD static void conn_finish(struct conn *conn)
{
    conn->ending = CONN_LINGERS;
    conn_move(conn, CONN_FINISHING);
    conn_queue(conn);
    conn_rest(conn);
}

/* Something was received before the session is open. */
static void conn_handshake(struct conn *conn)
{
    struct tls_session *surplus;
    enum tls_step step;

    if (conn->state == CONN_IDLE) {
        conn_move(conn, CONN_HANDSHAKE);
    }
    step = session_handshake(conn->tls);
    surplus = tls_loop_surplus(conn->conns->tls);
    if (surplus != NULL) {
        conn_close(surplus->owner, "too many handshakes are under way");
    }
    if (session_owes(conn->tls, false)) {
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
    case TLS_PLAIN:
        conn_is_plain(conn);
        return;
    case TLS_FAILED:
        conn_finish(conn);
        return;
    }
}

/* As conn_read(). */
HOT static void conn_read_sealed(struct conn *conn)
{
    struct tls_session *tls = conn->tls;
    size_t room;
    uint8_t *at;
    ssize_t count;

    if (session_must_wait(tls)) {
        return; /* the socket tells again */
    }
    at = session_room(tls, &room);
    count = recv(conn->fd, at, room, 0);
    session_received(tls, count > 0 ? (size_t)count : 0);
    if (count == 0) {
        if (conn->state == CONN_IDLE && conn->output.reply_count == 0) {
            session_cut(tls);
        }
        read_end(conn);
    } else if (count < 0 && errno != EAGAIN && errno != EINTR && errno != ENOBUFS) {
        conn_close(conn, "read failed");
    } else if (count > 0 && (conn->state == CONN_HANDSHAKE || tls->phase == TLS_HELLO)) {
        conn_handshake(conn);
    } else if (conn->state < CONN_SERVING && conn->put_off == NULL) {
        conn_process(conn);
    } else {
        conn_rest(conn);
    }
}

HOT static void poll_cb(uv_poll_t *poll, int status, int events)
{
    struct conn *conn = poll->data;
    struct conns *conns = conn->conns;

    if (status < 0) {
        conn_close(conn, "the socket reports an error");
    } else {
        if ((events & UV_WRITABLE) != 0 && output_is_waiting(&conn->output)) {
            put_off(conn);
            conn_rest(conn);
        }
        if ((events & UV_READABLE) != 0 && conn->state != CONN_CLOSED && !conn->ended) {
            if (conn->tls == NULL) {
                conn_read(conn);
            } else {
                conn_read_sealed(conn);
            }
        }
    }
    if (conns->queue_len >= OUTPUT_BATCH) {
        conns_flush(conns);
    }
}

/* Wait for what there is a use for: for input as long as there is room, or to see the client's
 * end. */
HOT static void set_events(struct conn *conn, bool has_room)
{
    bool want = !conn->ended && has_room;
    bool waits = output_is_waiting(&conn->output) && conn->put_off == NULL;
    int events = (want ? UV_READABLE : 0) | (waits ? UV_WRITABLE : 0);

    if (events == conn->events) {
        return;
    }
    conn->events = events;
    if (uv_poll_start(&conn->poll, events, poll_cb) != 0) {
        conn_close(conn, "cannot poll");
    }
}

/* --- deadlines of the read side --- */

static uint32_t limit_ms(const struct conn *conn)
{
    const struct http_settings *settings = conn->conns->settings;

    switch (conn->state) {
    case CONN_IDLE:
        return conn->idle_ms;
    case CONN_HEAD:
    case CONN_PROXY:
        return settings->head_ms;
    case CONN_BODY:
        return settings->body_ms;
    case CONN_LINGERING:
        return conn->retired ? LIMIT_HTTP_GOODBYE_MS : LIMIT_HTTP_LINGER_MS;
    case CONN_HANDSHAKE:
        return LIMIT_TLS_HANDSHAKE_MS;
    case CONN_SERVING:
    case CONN_FINISHING:
    case CONN_CLOSED:
        break;
    }
    UNREACHABLE("a state without a deadline");
}

/* An idle connection whose turn to end has come; but what was asked by now is answered, and that is
 * its end. */
COLD static void conn_retire(struct conn *conn, uint64_t now_ms)
{
    char first;

    if (conn->queued || conn->put_off != NULL || input_len(&conn->input) > 0 ||
        recv(conn->fd, &first, 1, MSG_PEEK) > 0) {
        timer_arm(&conn->conns->timers, &conn->read_timer, now_ms + LIMIT_HTTP_RETIRE_MS);
        return;
    }
    conn->retired = true;
    conn_finish(conn);
}

static void read_timer_fire(struct timer *timer, uint64_t now_ms)
{
    struct conn *conn = CONTAINER(timer, struct conn, read_timer);
    struct parser_reject slow = {408, "too_slow", "", limit_ms(conn)};

    if (conn->state == CONN_IDLE && conn->conns->retiring) {
        conn_retire(conn, now_ms);
    } else if (conn->state == CONN_IDLE) {
        conn_close(conn, "idle");
    } else if (conn->state == CONN_LINGERING) {
        conn_close(conn, "lingered");
    } else if (conn->state == CONN_HANDSHAKE) {
        conn_close(conn, "the handshake was too slow");
    } else if (conn->state == CONN_PROXY) {
        conn_close(conn, "the proxy's header was too slow");
    } else {
        slow.why = conn->state == CONN_HEAD
                       ? "the request's head did not arrive in time (limit in ms)"
                       : "the request's body did not arrive in time (limit in ms)";
        conn_reject(conn, &slow);
    }
}

/* When a connection ends of which nothing was asked for since conns_retire(): a new one has a
 * moment to ask. */
COLD static void set_retire_timer(struct conn *conn)
{
    const struct conns *conns = conn->conns;
    uint64_t due_ms = conn->since_ms + LIMIT_HTTP_RETIRE_MS;

    if (!timer_is_armed(&conn->read_timer)) {
        timer_arm(&conn->conns->timers, &conn->read_timer,
                  due_ms > conns->retire_until_ms ? due_ms : conns->retire_until_ms);
    }
}

/* Set the deadline of the present state, if it has one. One whose replies are still being sent is
 * not idle: the deadline of the write side holds. */
HOT static void set_read_timer(struct conn *conn)
{
    struct timers *timers = &conn->conns->timers;
    bool is_idle = conn->state == CONN_IDLE;
    uint64_t due_ms;
    uint64_t late_ms;

    if ((!is_receiving(conn) && conn->state < CONN_LINGERING) || output_is_full(&conn->output) ||
        conn->put_off == &conn->conns->no_room || (is_idle && output_is_waiting(&conn->output))) {
        timer_cancel(timers, &conn->read_timer);
        return;
    }
    if (is_idle && conn->conns->retiring) {
        set_retire_timer(conn);
        return;
    }
    if (is_idle && conn->idle_ms == 0) {
        timer_cancel(timers, &conn->read_timer);
        return;
    }
    due_ms = conn->since_ms + limit_ms(conn);
    late_ms = is_idle ? limit_ms(conn) / IDLE_LATE_PART : 0;
    if (conn->read_timer.due_ms < due_ms || conn->read_timer.due_ms > due_ms + late_ms) {
        timer_arm(timers, &conn->read_timer, due_ms + late_ms);
    }
}

/* Nothing that came is left in what the loop lends. */
HOT static void keep(struct conn *conn)
{
    input_keep(&conn->input, conn->conns->input);
    if (conn->tls == NULL) {
        return;
    }
    if (conn->state == CONN_FINISHING || conn->state == CONN_LINGERING) {
        session_drop(conn->tls); /* as of plain HTTP */
    }
    session_keep(conn->tls, conns_now_ms(conn->conns));
}

/* The request that came on least gives way: a connection whose replies nobody takes has no ear for
 * a word. */
COLD static void input_gives_way(struct conn *conn)
{
    if (conn->state != CONN_HEAD && conn->state != CONN_BODY) {
        count_refusal(conn, CONN_REFUSED_INPUT);
        conn_abort(conn, "the input that it keeps gave way to others'");
        return;
    }
    conn_refuse(conn, CONN_REFUSED_INPUT, 0);
    conn_rest(conn);
}

static void account_input(struct conn *conn, uint32_t kept)
{
    struct conns *conns = conn->conns;
    bool grows = kept > conn->input_counted;

    input_count(conn, kept);
    while (grows && budget_input_is_over(&conns->budget) && TAILQ_FIRST(&conns->inputs) != conn) {
        input_gives_way(TAILQ_FIRST(&conns->inputs));
    }
}

/* What it keeps beyond its own while its request waits. Too much: it is cut off. It is not told so:
 * what it asked for may be done, or not. */
static void account_waiting(struct conn *conn, uint32_t kept)
{
    struct budget *budget = &conn->conns->budget;
    bool grows = kept > conn->waiting_counted;

    budget_kept(&budget->waiting_bytes, &conn->waiting_counted, kept);
    if (grows && budget_waiting_is_over(budget)) {
        count_refusal(conn, CONN_REFUSED_INPUT);
        conn_abort(conn, "requests that wait keep too much");
    }
}

/* What is kept may have changed. */
HOT static void account(struct conn *conn)
{
    const uint32_t kept = conn->input.size + (conn->tls != NULL ? session_kept(conn->tls) : 0);
    const bool waits = conn->state == CONN_SERVING;
    const uint32_t input = waits ? 0 : kept;
    const uint32_t waiting = waits && kept > INPUT_STEP_BYTES ? kept - INPUT_STEP_BYTES : 0;

    if (input != conn->input_counted) {
        account_input(conn, input);
    }
    if (waiting != conn->waiting_counted) {
        account_waiting(conn, waiting);
    }
}

/* After each step: which deadline holds, what to keep, and whether to read on. */
HOT static void conn_rest(struct conn *conn)
{
    ASSERT(conn->state != CONN_CLOSED);
    set_read_timer(conn);
    keep(conn);
    account(conn);
    if (conn->state != CONN_CLOSED) {
        set_events(conn, conn->tls == NULL ? conn->input.start > 0 || conn->input.end < INPUT_BYTES
                                           : session_wants(conn->tls));
    }
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
    budget_init(&conns->budget, settings);
    timers_init(&conns->timers);
    TAILQ_INIT(&conns->queue);
    TAILQ_INIT(&conns->later);
    TAILQ_INIT(&conns->no_room);
    TAILQ_INIT(&conns->bodies);
    TAILQ_INIT(&conns->inputs);
    TAILQ_INIT(&conns->all);
    if (settings->tls != NULL) {
        conns->tls = tls_loop_new(settings->tls, &conns->timers);
    }
}

void conns_free(struct conns *conns)
{
    ASSERT(conns->counts.conns == 0);
    ASSERT(conns->budget.body_bytes == 0 && conns->budget.output_bytes == 0);
    ASSERT(TAILQ_EMPTY(&conns->queue) && TAILQ_EMPTY(&conns->bodies));
    ASSERT(TAILQ_EMPTY(&conns->inputs) && budget_input_bytes(&conns->budget) == 0);
    ASSERT(budget_waiting_bytes(&conns->budget) == 0);
    ASSERT(TAILQ_EMPTY(&conns->later) && TAILQ_EMPTY(&conns->no_room));
    buf_free(&conns->scratch);
    tls_loop_free(conns->tls);
    output_pool_free(&conns->pool);
}

/* While few are left no client takes more than its share. This machine's own address does, since
 * there may be many behind it. */
static bool is_over_share(const struct conns *conns, const struct http_client *client)
{
    uint32_t most = conns->settings->connections;

    return !client->is_local && conns->counts.conns >= most - most / CONNS_SHARE &&
           client->connections > most * conns->settings->loops / CONNS_SHARE;
}

/* Is a connection of this client one too many? CONN_REFUSALS: no. */
static enum conn_refusal too_many(const struct conns *conns, const struct http_client *client)
{
    uint32_t max = atomic_load_explicit(&client->connections_max, memory_order_relaxed);

    if (max > 0 && client->connections > max) {
        return CONN_REFUSED_CONNECTIONS;
    }
    return is_over_share(conns, client) ? CONN_REFUSED_SHARE : CONN_REFUSALS;
}

/* There are too many connections, of its client or of all. */
COLD static void turn_away(struct conn *conn, enum conn_refusal refusal)
{
    conn_refuse(conn, refusal,
                refusal == CONN_REFUSED_CONNECTIONS ? conn->client->connections_max : 0);
}

/* A connection for the socket; NULL: it is closed. */
static struct conn *conn_new(struct conns *conns, const struct conn_door *door, int fd,
                             struct http_client *client, bool refused)
{
    static const int on = 1;
    static const int unsent_bytes = LIMIT_HTTP_UNSENT_BYTES;
    static const int keepalive_s = CONN_KEEPALIVE_S;
    struct conn *conn = MUST_HAVE(calloc(1, sizeof *conn));

    conn->conns = conns;
    conn->fd = fd;
    conn->client = client;
    conn->peer = client;
    conn->refused = refused;
    conn->since_ms = conns_now_ms(conns);
    timer_init(&conn->read_timer, read_timer_fire);
    timer_init(&conn->write_timer, write_timer_fire);
    if (uv_poll_init_socket(conns->uv, &conn->poll, fd) != 0) {
        log_debug("http", "connection closed", "reason=\"cannot poll\"");
        free(conn);
        close(fd);
        return NULL;
    }
    conn->poll.data = conn;
    conn->tls = door->tls ? session_new(conns->tls, conn) : NULL;
    conn->handle = conns->service->handle;
    conn->idle_ms = door->idle_ms;
    conn->protocol = door->protocol;
    if (door->protocol != NULL) {
        conn->handle = door->protocol->handle;
        conn->parser.head.keep_alive = true;
        conns_count(&conns->counts.resp_begun, 1);
        door->protocol->begin(conn);
    }
    conns->counts.conns++;
    conns->counts.resp_conns += door->protocol != NULL;
    conns->refused_count += refused;
    TAILQ_INSERT_TAIL(&conns->all, conn, all_link);
    /* Replies are whole when they are written; waiting for more would only delay them. */
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (conn->idle_ms == 0) { /* then the kernel finds out that its client has gone */
        (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
        (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &keepalive_s, sizeof keepalive_s);
    }
    /* What the kernel holds for a client that does not read is memory, too. */
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent_bytes, sizeof unsent_bytes);
    return conn;
}

/* --- for whom a proxy has made a connection --- */

/* The connection counts for the client that the header names, or else for the proxy. */
static void proxy_count(struct conn *conn)
{
    const struct sockaddr *address = &conn->proxied->client.any;
    struct clients *clients = conn->conns->clients;

    ASSERT(conn->client == conn->peer && conn->is_uncounted);
    if (address->sa_family != AF_UNSPEC) {
        clients_release(clients, conn->peer);
        conn->peer = clients_of_address(clients, address);
        conn->client = conn->peer;
    }
    atomic_fetch_add_explicit(&conn->peer->connections, 1, memory_order_relaxed);
    conn->is_uncounted = false;
}

/* The header is there: all goes on as if its client had connected. */
static void proxy_done(struct conn *conn)
{
    struct conns *conns = conn->conns;
    enum conn_refusal refusal;

    proxy_count(conn);
    refusal = too_many(conns, conn->peer);
    if (refusal == CONN_REFUSALS) {
        conn_rest(conn);
    } else if (conns->refused_count >= LIMIT_HTTP_REFUSED || conn->tls != NULL) {
        count_refusal(conn, refusal);
        conn_close(conn, "the client has too many connections");
    } else {
        conn->refused = true;
        conns->refused_count++;
        turn_away(conn, refusal);
        conn_rest(conn);
    }
}

/* There is none: whoever it is gets a word about it, without TLS, as that has not begun. */
COLD static void proxy_fail(struct conn *conn)
{
    char why[sizeof PROXY_MISSING + LIMIT_CLIENT_NAME_BYTES];
    const struct parser_reject reject = {400, "bad_request", why, 0};

    (void)snprintf(why, sizeof why, PROXY_MISSING, conn->peer->name);
    if (conn->tls != NULL) {
        end_tls(conn);
    }
    conn_reject(conn, &reject);
    conn_rest(conn);
}

/* Take of the socket what belongs to the header, and no more. */
static void proxy_cb(uv_poll_t *poll, int status, int events)
{
    struct conn *conn = poll->data;
    uint8_t bytes[PROXY_PEEK_BYTES];
    ssize_t count = status < 0 ? 0 : recv(conn->fd, bytes, sizeof bytes, MSG_PEEK);
    enum proxy_step step;
    size_t used;

    (void)events;
    if (count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR)) {
        conn_close(conn, "the proxy has gone before its header was there");
        return;
    }
    if (count < 0) {
        return;
    }
    step = proxy_take(conn->proxied, bytes, (size_t)count, &used);
    if (recv(conn->fd, bytes, used, 0) != (ssize_t)used) {
        conn_close(conn, "read failed");
        return;
    }
    if (step == PROXY_MORE) {
        return;
    }
    if (uv_poll_start(&conn->poll, UV_READABLE, poll_cb) != 0) {
        conn_close(conn, "cannot poll");
        return;
    }
    timer_cancel(&conn->conns->timers, &conn->read_timer);
    conn_move(conn, CONN_IDLE);
    if (step == PROXY_DONE) {
        proxy_done(conn);
    } else {
        proxy_fail(conn);
    }
}

static void proxy_begin(struct conn *conn)
{
    conn->proxied = MUST_HAVE(calloc(1, sizeof *conn->proxied));
    conn_move(conn, CONN_PROXY);
    set_read_timer(conn);
    conn->events = UV_READABLE;
    if (uv_poll_start(&conn->poll, conn->events, proxy_cb) != 0) {
        conn_close(conn, "cannot poll");
    }
}

void conns_take(struct conns *conns, const struct conn_door *door, int fd,
                const struct sockaddr *peer)
{
    struct http_client *client = clients_of_address(conns->clients, peer);
    const char *proxies = conns->settings->proxies;
    bool is_proxy = proxies != NULL && proxy_is_named(proxies, peer);
    enum conn_refusal refusal = CONN_REFUSALS;
    struct conn *conn = NULL;

    atomic_fetch_add_explicit(&client->connections, !is_proxy, memory_order_relaxed);
    if (conns->counts.conns - conns->refused_count >= conns->settings->connections) {
        refusal = CONN_REFUSED_FULL;
    } else if (!is_proxy) {
        refusal = too_many(conns, client);
    }
    /* Who is to be told so over TLS would need the handshake first. */
    if (refusal != CONN_REFUSALS && (conns->refused_count >= LIMIT_HTTP_REFUSED || door->tls)) {
        conns_count(&conns->counts.refused[refusal], 1);
        close(fd);
    } else {
        conn = conn_new(conns, door, fd, client, refusal != CONN_REFUSALS);
    }
    if (conn == NULL) {
        atomic_fetch_sub_explicit(&client->connections, !is_proxy, memory_order_relaxed);
        clients_release(conns->clients, client);
        return;
    }
    conn->is_uncounted = is_proxy;
    if (refusal != CONN_REFUSALS) {
        turn_away(conn, refusal);
    } else if (is_proxy) {
        proxy_begin(conn);
    } else {
        conn_rest(conn);
    }
}

HOT void conns_flush(struct conns *conns)
{
    struct conn *conn;

    while ((conn = TAILQ_FIRST(&conns->queue)) != NULL) {
        conn_unqueue(conn);
        conn_turn_end(conn);
    }
    if (conns->tls != NULL) {
        conns->tls->starts = 0;
    }
}

/* Those that wait for room go on, as many as one turn may serve. */
static void find_room(struct conns *conns)
{
    struct conn *conn;

    for (unsigned i = 0; i < TURN_STEPS_MAX && !budget_output_is_full(&conns->budget) &&
                         (conn = TAILQ_FIRST(&conns->no_room)) != NULL;
         i++) {
        put_off_end(conn);
        put_off(conn);
    }
}

/* The connections that were put off, one after the other, until this turn's work is done. */
COLD static void do_later(struct conns *conns)
{
    uint64_t until_bytes = conns->work_bytes + LIMIT_HTTP_TURN_BYTES;
    struct conn *conn;

    find_room(conns);
    for (unsigned i = 0; i < TURN_STEPS_MAX && conns->work_bytes < until_bytes &&
                         (conn = TAILQ_FIRST(&conns->later)) != NULL;
         i++) {
        put_off_end(conn);
        if (has_room_for_turn(conn)) {
            conn_go_on(conn);
        } else {
            put_off_to(conn, &conns->no_room);
            conn_queue(conn); /* who waits for room keeps none */
        }
        conns_flush(conns);
    }
}

HOT bool conns_turn_end(struct conns *conns)
{
    conns_flush(conns);
    if (TAILQ_EMPTY(&conns->later) && TAILQ_EMPTY(&conns->no_room)) {
        return false;
    }
    do_later(conns);
    return !TAILQ_EMPTY(&conns->later) ||
           (!TAILQ_EMPTY(&conns->no_room) && !budget_output_is_full(&conns->budget));
}

/* conn: the present one; next: kept by the caller, as the present one may close. */
#define EACH_CONN(conns, conn, next)                                                               \
    for ((conn) = TAILQ_FIRST(&(conns)->all);                                                      \
         (conn) != NULL && ((next) = TAILQ_NEXT((conn), all_link), true); (conn) = (next))

/* Who is idle longest first. */
static int by_rest(const void *a, const void *b)
{
    const struct conn *const *one = a;
    const struct conn *const *other = b;

    return ((*one)->since_ms > (*other)->since_ms) - ((*one)->since_ms < (*other)->since_ms);
}

void conns_retire(struct conns *conns, uint32_t over_ms)
{
    uint64_t now_ms = conns_now_ms(conns);
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
    qsort(idle, count, sizeof *idle, by_rest);
    for (uint64_t i = 0; i < count; i++) {
        timer_arm(&conns->timers, &idle[i]->read_timer, now_ms + over_ms * (i + 1) / count);
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
