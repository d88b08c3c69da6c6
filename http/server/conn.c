/*
 * conn.c - see conn.h. Thread: the loop's.
 */
#include "http/server/conn.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "src/base/assert.h"
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

void conn_done(struct conn *conn, bool is_last)
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
        wire_owes(wire, true)) {
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
    size_t len = 0;
    size_t count;
    const char *value =
        header_find(conn_at(conn, 0), conn_head(conn)->len, "traceparent", &len, &count);

    return value != NULL && count == 1 && header_trace(value, len, ret_trace);
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
