/*
 * talk.c - see talk.h. Thread: the loop's.
 */
#include "http/server/talk.h"

#include <stdio.h>

#include "src/base/assert.h"
#include "src/base/clock.h"

/* %s: the address. */
#define PROXY_UNNAMED                                                                              \
    "a header of the PROXY protocol from %s: let proxy.from name that address, or the proxy send " \
    "none (send-proxy)"

HOT void conn_serve(struct conn *conn)
{
    conn_move(conn, CONN_SERVING);
    conn->traffic = conn->request.traffic;
    conn->began_us = latency_begin(&conn->conns->latency);
    conn->handle(conn);
}

/* Is the reply that begins now the last? The answer holds until its end. While connections retire
 * what the client has sent behind the request is served, too, as long as there is time. */
static inline bool is_last(struct conn *conn)
{
    const struct conns *conns = conn->conns;

    if (conns->retiring &&
        (conn->wire.end == conn->wire.next || conns_now_ms(conns) >= conns->retire_until_ms)) {
        conn->ending = CONN_LINGERS; /* the client did not ask for it, and may ask for more */
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

    if (conn->talker->has_headers && conn_trace(conn, trace)) {
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

    ASSERT(is_complete || (conn_is_receiving(conn) && conn->ending != CONN_STAYS));
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
    const struct answer answer = {.way = ANSWER_PARTS,
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
        .way = ANSWER_STREAM, .is_last = is_last(conn), .status = 200, .type = type};

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
