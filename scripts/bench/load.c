/*
 * load.c - the load generator of the benchmarks; --help tells its options.
 *
 * The happy path: all connections are opened, then the load begins; each connection sends as many
 * requests as `pipeline` says, and the next when all are answered. With a rate, request i is due at
 * begin + i / rate and goes to the connection that has been idle longest; while none is idle it
 * waits, and its latency grows from when it was due.
 *
 * Why this and not wrk, redis-benchmark or sysbench (times of a virtual machine of two processors):
 *  - wrk's scripts do not know which request a reply belongs to. So they can see neither whether an
 *    id is above those acknowledged before it was asked for, nor of which tag it is. What is under
 *    way when wrk ends is lost, so that the ids of a strict tag would have holes. And wrk has no
 *    fixed rate: what a stall delays is not seen.
 *  - A server that waits for its load takes more time for each request, and looks more expensive
 *    than it is. This load needs 5.6 us a request with every check; wrk 7.2 without any, and leafd
 *    then takes a tenth more time; wrk with a script that looks at ids 10, and leafd a seventh
 *    more; redis-benchmark 10.8, and Redis a third more.
 *  - The threads of sysbench (35 us a query, this load 13) take the processors from MariaDB.
 *    All contenders shall have the same load, and the cheapest.
 *
 * Failure modes: a connection that ends or sends nonsense is counted and not opened again; what was
 * under way on it is unanswered. Thread: one, so that it takes one core at most and its cost is
 * known.
 */
#include <err.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "scripts/bench/load_options.h"
#include "scripts/bench/nanoseconds.h"
#include "scripts/bench/result.h"
#include "src/base/address.h"
#include "src/base/assert.h"

#define NS_PER_S 1e9
#define EVENTS_MAX 256
#define WAIT_MAX_NS UINT64_C(100000000)
#define INPUT_BYTES (256U << 10)
#define SHOWN_BYTES 200
#define SHORT_TURN_NS 100000 /* the shortest there is */

/* A request under way. */
struct request {
    uint64_t due_ns;
    uint64_t floor; /* greatest id of its group acknowledged when it was sent */
    uint32_t group;
};

struct conn {
    int fd; /* its calls wait, but for recv(); -1: gone */
    uint16_t port;
    struct request *requests; /* `count` from `first` on are under way */
    size_t first;
    size_t count;
    struct buf input; /* the beginning of a reply */
};

struct load {
    struct load_options options;
    struct load_targets targets;
    struct result result;
    int epoll;
    struct conn *conns;
    size_t open;       /* connections */
    size_t under_way;  /* requests without a reply yet */
    bool sending;      /* more requests may be sent */
    uint64_t ended_ns; /* when that became false */
    uint64_t now_ns;
    uint64_t *acknowledged; /* by group: the greatest id acknowledged */
    struct conn **idle;     /* with a rate: a ring of connections without a request */
    size_t idle_first;
    size_t idle_count;
    struct buf output;
    char input[INPUT_BYTES];
};

static void end_sending(struct load *load)
{
    if (load->sending) {
        load->sending = false;
        load->ended_ns = load->now_ns;
    }
}

/* The connection is over, and what was under way on it is lost. */
static void conn_end(struct load *load, struct conn *conn, uint64_t *counter, const char *why)
{
    ASSERT(conn->fd >= 0 && load->open > 0 && load->under_way >= conn->count);
    (*counter)++;
    result_bad(&load->result, "connection to port %u: %s, with %zu requests under way", conn->port,
               why, conn->count);
    load->result.unanswered += conn->count;
    load->under_way -= conn->count;
    load->open--;
    conn->count = 0;
    close(conn->fd);
    conn->fd = -1;
}

/* Send `count` requests that were due at due_ns. The server has answered all it got on this
 * connection, so it takes them. */
static void conn_send(struct load *load, struct conn *conn, size_t count, uint64_t due_ns)
{
    const struct load_targets *targets = &load->targets;
    struct buf *out = &load->output;

    ASSERT(conn->fd >= 0 && conn->count == 0);
    ASSERT(count > 0 && count <= load->options.pipeline);
    out->len = 0;
    for (size_t i = 0; i < count; i++) {
        size_t target = (size_t)(load->result.sent++ % targets->count);
        size_t begin = targets->begins[target];
        uint32_t group = load->options.group_by_target ? (uint32_t)target : 0;

        buf_put(out, targets->bytes.data + begin, targets->begins[target + 1] - begin);
        conn->requests[i] = (struct request){due_ns, load->acknowledged[group], group};
    }
    conn->first = 0;
    conn->count = count;
    load->under_way += count;
    if (send(conn->fd, out->data, out->len, MSG_NOSIGNAL) != (ssize_t)out->len) {
        conn_end(load, conn, &load->result.closed, strerror(errno));
    }
}

/* How many requests the load may still have. */
static uint64_t requests_left(const struct load *load)
{
    uint64_t bound = load->options.requests;

    return bound == 0 ? UINT64_MAX : bound - load->result.sent;
}

/* A connection has no request under way: send the next ones, or keep it until one is due. */
static void conn_idle(struct load *load, struct conn *conn)
{
    const struct load_options *options = &load->options;
    uint64_t left = requests_left(load);

    if (options->rate > 0) {
        load->idle[(load->idle_first + load->idle_count++) % options->connections] = conn;
        return;
    }
    if (load->now_ns >= load->result.stop_ns || left == 0) {
        end_sending(load);
    }
    if (load->sending) {
        conn_send(load, conn, left < options->pipeline ? left : options->pipeline, load->now_ns);
    }
}

/* Check the reply to the first request that is under way. */
static void conn_reply(struct load *load, struct conn *conn, const struct reply *reply)
{
    struct result *result = &load->result;
    struct request request = conn->requests[conn->first++];
    struct verified ids = {0};
    const char *why = "not status 200";

    ASSERT(conn->count > 0 && load->under_way > 0);
    conn->count--;
    load->under_way--;
    result->statuses[reply->status]++;
    if (reply->status == 200) {
        why = verify_body(&load->options.verify, &result->ids, request.group, request.floor,
                          reply->body, reply->len, &ids);
        result->bad_body += why != NULL;
    }
    if (why != NULL) {
        result_bad(result, "port %u: %s: status %d, %zu bytes: %.*s", conn->port, why,
                   reply->status, reply->len,
                   (int)(reply->len < SHOWN_BYTES ? reply->len : SHOWN_BYTES),
                   reply->len ? reply->body : "");
        return;
    }
    if (ids.max > load->acknowledged[request.group]) {
        load->acknowledged[request.group] = ids.max;
    }
    result_good(result, load->now_ns, load->now_ns - request.due_ns, ids.count);
}

/* Take all replies of the connection's input, which may be the end of it. NULL, or what is wrong
 * with the bytes. */
static const char *conn_take(struct load *load, struct conn *conn)
{
    struct buf *input = &conn->input;
    size_t at = 0;
    size_t taken = 1;

    while (taken > 0 && at < input->len) {
        struct reply reply;
        const char *why = protocol_take(load->options.protocol, (const char *)input->data + at,
                                        input->len - at, &reply, &taken);

        if (why != NULL || conn->count == 0) {
            return why != NULL ? why : "a reply that nobody asked for";
        }
        at += taken;
        if (taken > 0) {
            conn_reply(load, conn, &reply);
        }
        if (taken > 0 && !reply.keep_alive) {
            conn_end(load, conn, &load->result.closed, "the server says that it closes");
            return NULL;
        }
    }
    memmove(input->data, input->data + at, input->len - at);
    input->len -= at;
    return NULL;
}

static void conn_readable(struct load *load, struct conn *conn)
{
    ssize_t len = recv(conn->fd, load->input, sizeof load->input, MSG_DONTWAIT);
    const char *why;

    load->now_ns = nanoseconds(CLOCK_MONOTONIC);
    if (len < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    if (len <= 0) {
        why = len == 0 ? "closed by the server" : strerror(errno);
        conn_end(load, conn, &load->result.closed, why);
        return;
    }
    buf_put(&conn->input, load->input, (size_t)len);
    why = conn_take(load, conn);
    if (why != NULL) {
        conn_end(load, conn, &load->result.broken, why);
    } else if (conn->fd >= 0 && conn->count == 0) {
        conn_idle(load, conn);
    }
}

/* Wait for events until a time, at most WAIT_MAX_NS, and handle them. */
static void wait_until(struct load *load, uint64_t until_ns)
{
    struct epoll_event events[EVENTS_MAX];
    uint64_t wait_ns = until_ns > load->now_ns ? until_ns - load->now_ns : 0;
    struct timespec timeout = {0, (long)(wait_ns < WAIT_MAX_NS ? wait_ns : WAIT_MAX_NS)};
    int count = epoll_pwait2(load->epoll, events, EVENTS_MAX, &timeout, NULL);

    if (count < 0 && errno != EINTR) {
        err(LOAD_EXIT_CANNOT_RUN, "epoll_pwait2");
    }
    for (int i = 0; i < count; i++) {
        conn_readable(load, events[i].data.ptr);
    }
    load->now_ns = nanoseconds(CLOCK_MONOTONIC);
}

/* Open a connection; the load has not begun, so waiting for it does no harm. */
static void conn_open(struct load *load, struct conn *conn, const struct sockaddr_storage *address)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = conn};
    struct timeval limit = {.tv_sec = 10};
    const char *why = NULL;
    int on = 1;

    conn->port = address_port(address);
    conn->requests = MUST_HAVE(calloc(load->options.pipeline, sizeof *conn->requests));
    conn->fd = socket(address->ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (conn->fd < 0) {
        err(LOAD_EXIT_CANNOT_RUN, "socket %zu", load->open + 1);
    }
    ASSERT(setsockopt(conn->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0);
    ASSERT(setsockopt(conn->fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit) == 0);
    ASSERT(setsockopt(conn->fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0);
    if (connect(conn->fd, (const struct sockaddr *)address, sizeof *address) != 0) {
        err(LOAD_EXIT_CANNOT_RUN, "connection %zu", load->open + 1);
    }
    why = protocol_hello(load->options.protocol, conn->fd, load->options.target);
    if (why != NULL) {
        errx(LOAD_EXIT_CANNOT_RUN, "connection %zu: %s", load->open + 1, why);
    }
    ASSERT(epoll_ctl(load->epoll, EPOLL_CTL_ADD, conn->fd, &event) == 0);
    load->open++;
}

/* With a rate: how many requests there will be. */
static uint64_t due_count(const struct load *load)
{
    uint64_t count = (uint64_t)(load->options.rate * load->options.seconds);
    uint64_t bound = load->options.requests;

    count = count ? count : 1;
    return bound != 0 && bound < count ? bound : count;
}

/* With a rate: send what is due, as far as connections are idle. Returns when the next is due. */
static uint64_t send_due(struct load *load)
{
    uint64_t total = due_count(load);

    while (load->result.sent < total && load->idle_count > 0) {
        uint64_t after_ns = (uint64_t)((double)load->result.sent * NS_PER_S / load->options.rate);
        uint64_t due_ns = load->result.begin_ns + after_ns;
        struct conn *conn = load->idle[load->idle_first];

        if (due_ns > load->now_ns) {
            return due_ns;
        }
        load->idle_first = (load->idle_first + 1) % load->options.connections;
        load->idle_count--;
        if (conn->fd >= 0) {
            conn_send(load, conn, 1, due_ns);
        }
    }
    if (load->result.sent == total) {
        end_sending(load);
    }
    return load->now_ns + WAIT_MAX_NS;
}

/* Nothing more is to be sent or to be waited for. */
static bool window_is_over(const struct load *load)
{
    uint64_t grace_ns = (uint64_t)(load->options.grace_s * NS_PER_S);
    /* With a rate, requests that are due may still wait for a connection when the time is over. */
    uint64_t end_ns = load->sending ? load->result.stop_ns : load->ended_ns;

    return load->open == 0 || (!load->sending && load->under_way == 0) ||
           load->now_ns > end_ns + grace_ns;
}

static void run(struct load *load)
{
    const struct load_options *options = &load->options;

    result_begin(&load->result, (uint64_t)(options->seconds * NS_PER_S));
    load->now_ns = load->result.begin_ns;
    load->sending = true;
    for (size_t i = 0; i < options->connections; i++) {
        conn_idle(load, &load->conns[i]);
    }
    while (!window_is_over(load)) {
        uint64_t until_ns = load->now_ns + WAIT_MAX_NS;

        if (options->rate > 0) {
            until_ns = send_due(load);
        } else if (load->now_ns >= load->result.stop_ns || requests_left(load) == 0) {
            end_sending(load);
        }
        wait_until(load, until_ns);
    }
}

/* What is left open at the end. */
static void sum_up(struct load *load)
{
    struct result *result = &load->result;
    uint64_t never = load->options.rate > 0 ? due_count(load) - result->sent : 0;

    result->sent += never;
    result->unanswered += load->under_way + never;
    if (load->under_way + never > 0) {
        result_bad(result, "%zu requests were not answered, %llu could not be sent",
                   load->under_way, (unsigned long long)never);
    }
    /* A load that ended by its number of requests, or because the server was gone. */
    if (load->now_ns < result->stop_ns && load->options.rate <= 0) {
        result->stop_ns = load->now_ns;
    }
}

/* The kernel's struct sched_attr, whose header does not go with the C library's. */
struct turn_attr {
    uint32_t size;
    uint32_t policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime_ns;
    uint64_t deadline_ns;
    uint64_t period_ns;
};

/* With a rate, latency counts from when a request was due, and so does what the load itself is
 * late: it asks for short turns of the processor, since who does that is woken before those who
 * have longer ones (Linux 6.12; an older one takes no notice). */
static void ask_for_short_turns(void)
{
    struct turn_attr attr;

    ASSERT(syscall(SYS_sched_getattr, 0, &attr, sizeof attr, 0) == 0);
    if (attr.policy == SCHED_OTHER) { /* and not real-time */
        attr.runtime_ns = SHORT_TURN_NS;
        ASSERT(syscall(SYS_sched_setattr, 0, &attr, 0) == 0);
    }
}

/* As many files as the system allows, and timers as sharp. */
static void process_prepare(const struct load_options *options)
{
    struct rlimit limit;

    ASSERT(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    limit.rlim_cur = limit.rlim_max;
    ASSERT(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    ASSERT(prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL) == 0);
    if (options->rate > 0) {
        ask_for_short_turns();
    }
}

static void load_init(struct load *load)
{
    const struct load_options *options = &load->options;
    size_t groups;

    load_targets_make(&load->targets, options);
    result_init(&load->result);
    groups = options->group_by_target ? load->targets.count : 1;
    load->acknowledged = MUST_HAVE(calloc(groups, sizeof *load->acknowledged));
    load->conns = MUST_HAVE(calloc(options->connections, sizeof *load->conns));
    load->idle = MUST_HAVE(calloc(options->connections, sizeof *load->idle));
    load->epoll = epoll_create1(EPOLL_CLOEXEC);
    ASSERT(load->epoll >= 0);
    for (size_t i = 0; i < options->connections; i++) {
        conn_open(load, &load->conns[i], &options->addresses[i % options->address_count]);
    }
}

static void load_free(struct load *load)
{
    for (size_t i = 0; i < load->options.connections; i++) {
        free(load->conns[i].requests);
        buf_free(&load->conns[i].input);
    }
    result_free(&load->result);
    load_targets_free(&load->targets);
    buf_free(&load->output);
    free(load->acknowledged);
    free(load->conns);
    free(load->idle);
}

int main(int argc, char **argv)
{
    static struct load load;
    bool good;

    load_options_read(&load.options, argc, argv);
    process_prepare(&load.options);
    load_init(&load);
    run(&load);
    sum_up(&load);
    good = result_print(&load.result, stdout);
    if (fflush(stdout) != 0) {
        err(LOAD_EXIT_CANNOT_RUN, "the report");
    }
    load_free(&load);
    return good ? 0 : 1;
}
