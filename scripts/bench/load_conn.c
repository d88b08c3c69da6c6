/*
 * load_conn.c - see load.h: one connection. Thread: the load's.
 */
#include <errno.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "scripts/bench/load.h"
#include "src/base/assert.h"

#define SHOWN_BYTES 200

static void conn_watch(struct load_conn *conn, int operation, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = conn};

    ASSERT(epoll_ctl(conn->load->epoll, operation, conn->fd, &event) == 0);
}

static unsigned conn_port(const struct load_conn *conn)
{
    return ntohs(conn->load->options->addresses[conn->address].sin_port);
}

/* The connection is over, and what was under way on it is lost. */
static void conn_end(struct load_conn *conn, uint64_t *counter, const char *why)
{
    struct load *load = conn->load;

    ASSERT(conn->state != CONN_GONE);
    (*counter)++;
    load->result.unanswered += conn->count;
    result_bad(&load->result, load->now_ns,
               "connection to port %u: %s, with %zu requests under way", conn_port(conn), why,
               conn->count);
    ASSERT(load->under_way >= conn->count);
    load->under_way -= conn->count;
    conn->count = 0;
    *(conn->state == CONN_OPEN ? &load->open : &load->connecting) -= 1;
    conn->state = CONN_GONE;
    close(conn->fd);
}

/* Send what is in out, as far as the socket takes it. */
static void conn_flush(struct load_conn *conn)
{
    ssize_t len = 0;

    while (conn->out_at < conn->out.len && len >= 0) {
        len = send(conn->fd, conn->out.data + conn->out_at, conn->out.len - conn->out_at,
                   MSG_NOSIGNAL);
        conn->out_at += len > 0 ? (size_t)len : 0;
    }
    if (len < 0 && errno != EAGAIN && errno != EINTR) {
        conn_end(conn, &conn->load->result.closed, strerror(errno));
        return;
    }
    if (conn->out_at == conn->out.len) {
        conn->out.len = 0;
        conn->out_at = 0;
    }
    if (conn->writable_wanted != (conn->out.len > 0)) {
        conn->writable_wanted = conn->out.len > 0;
        conn_watch(conn, EPOLL_CTL_MOD, conn->writable_wanted ? EPOLLIN | EPOLLOUT : EPOLLIN);
    }
}

void load_conn_send(struct load_conn *conn, size_t count, uint64_t due_ns)
{
    struct load *load = conn->load;
    const struct load_targets *targets = &load->targets;

    ASSERT(conn->state == CONN_OPEN && conn->count == 0);
    ASSERT(count > 0 && count <= load->options->pipeline);
    for (size_t i = 0; i < count; i++) {
        size_t target = (size_t)(load->result.sent++ % targets->count);
        size_t group = load->options->group_by_target ? target : 0;

        buf_put(&conn->out, targets->bytes.data + targets->begins[target],
                targets->begins[target + 1] - targets->begins[target]);
        conn->requests[i] = (struct load_request){due_ns, load->acknowledged[group], target};
    }
    conn->first = 0;
    conn->count = count;
    load->under_way += count;
    conn_flush(conn);
}

/* Is the reply good? Its ids go into the set; *ret_max is the greatest. */
static bool reply_check(struct load_conn *conn, const struct load_request *request,
                        const struct reply *reply, uint64_t *ret_max)
{
    struct load *load = conn->load;
    struct result *result = &load->result;
    size_t group = load->options->group_by_target ? request->target : 0;
    const char *why = NULL;

    result->statuses[reply->status]++;
    if (reply->status == 200) {
        why = verify_body(&load->options->verify, &result->ids, (uint32_t)group, request->floor,
                          reply->body, reply->len, ret_max);
        result->bad_body += why != NULL;
    } else {
        why = "not status 200";
    }
    if (why != NULL) {
        result_bad(result, load->now_ns, "port %u: %s: status %d, %zu bytes: %.*s", conn_port(conn),
                   why, reply->status, reply->len,
                   (int)(reply->len < SHOWN_BYTES ? reply->len : SHOWN_BYTES),
                   reply->len ? reply->body : "");
    }
    return why == NULL;
}

static bool conn_reply_cb(void *data, const struct reply *reply)
{
    struct load_conn *conn = data;
    struct load *load = conn->load;
    struct idset *ids = &load->result.ids;
    struct load_request request;
    uint64_t before = ids->count + ids->duplicates;
    uint64_t max = 0;

    if (conn->count == 0) {
        return false;
    }
    request = conn->requests[conn->first++];
    conn->count--;
    load->under_way--;
    if (reply_check(conn, &request, reply, &max)) {
        uint64_t *acknowledged =
            &load->acknowledged[load->options->group_by_target ? request.target : 0];

        *acknowledged = max > *acknowledged ? max : *acknowledged;
        result_good(&load->result, load->now_ns, load->now_ns - request.due_ns,
                    ids->count + ids->duplicates - before);
    }
    if (!reply->keep_alive) {
        conn_end(conn, &load->result.closed, "the server says that it closes");
    }
    return true;
}

static void conn_readable(struct load_conn *conn)
{
    struct load *load = conn->load;
    ssize_t len = recv(conn->fd, load->input, sizeof load->input, 0);
    const char *why;

    load->now_ns = result_clock_ns();
    if (len < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    if (len <= 0) {
        conn_end(conn, &load->result.closed, len == 0 ? "closed by the server" : strerror(errno));
        return;
    }
    why = reply_feed(&conn->reader, load->input, (size_t)len);
    if (conn->state == CONN_GONE) {
        return;
    }
    if (why != NULL) {
        conn_end(conn, &load->result.broken, why);
    } else if (conn->count == 0) {
        load_idle(load, conn);
    }
}

int load_conn_open(struct load *load, struct load_conn *conn, size_t address)
{
    const struct sockaddr_in *to = &load->options->addresses[address];
    int on = 1;

    conn->load = load;
    conn->address = address;
    conn->state = CONN_CONNECTING;
    conn->requests = calloc(load->options->pipeline, sizeof *conn->requests);
    ASSERT(conn->requests != NULL);
    reply_init(&conn->reader, load->options->protocol, conn_reply_cb, conn);
    conn->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (conn->fd < 0) {
        return -1;
    }
    ASSERT(setsockopt(conn->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0);
    if (connect(conn->fd, (const struct sockaddr *)to, sizeof *to) != 0 && errno != EINPROGRESS) {
        return -1;
    }
    load->connecting++;
    conn_watch(conn, EPOLL_CTL_ADD, EPOLLOUT);
    return 0;
}

static void conn_connected(struct load_conn *conn)
{
    int error = 0;
    socklen_t len = sizeof error;

    ASSERT(getsockopt(conn->fd, SOL_SOCKET, SO_ERROR, &error, &len) == 0);
    if (error != 0) {
        conn_end(conn, &conn->load->result.closed, strerror(error));
        return;
    }
    conn->state = CONN_OPEN;
    conn->load->connecting--;
    conn->load->open++;
    conn_watch(conn, EPOLL_CTL_MOD, EPOLLIN);
}

void load_conn_event(struct load_conn *conn, uint32_t events)
{
    ASSERT(conn->state != CONN_GONE);
    if (conn->state == CONN_CONNECTING) {
        conn_connected(conn);
        return;
    }
    if (events & EPOLLOUT) {
        conn_flush(conn);
    }
    if (conn->state == CONN_OPEN && (events & ~(uint32_t)EPOLLOUT)) {
        conn_readable(conn);
    }
}

void load_conn_free(struct load_conn *conn)
{
    if (conn->state != CONN_GONE) {
        close(conn->fd);
    }
    free(conn->requests);
    buf_free(&conn->out);
    reply_free(&conn->reader);
}
