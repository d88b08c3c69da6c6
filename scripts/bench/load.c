/*
 * load.c - the load generator of the benchmarks; see load.h, and --help for its options.
 *
 * One thread, so that it takes one core at most and its cost is known. Thread: one, the load's.
 */
#include "scripts/bench/load.h"

#include <err.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include "src/base/assert.h"

#define EXIT_CANNOT_RUN 2
#define NS_PER_S 1e9
#define EVENTS_MAX 256
#define CONNECT_LIMIT_NS UINT64_C(10000000000)
#define WAIT_MAX_NS UINT64_C(100000000)
#define CONNECTING_MAX 512 /* fits into a listener's backlog */

size_t load_allowance(const struct load *load)
{
    uint64_t left = load->options->requests ? load->options->requests - load->result.sent
                                            : load->options->pipeline;

    if (!load->sending) {
        return 0;
    }
    return left < load->options->pipeline ? (size_t)left : load->options->pipeline;
}

static void load_end_sending(struct load *load)
{
    if (load->sending) {
        load->sending = false;
        load->ended_ns = load->now_ns;
    }
}

void load_idle(struct load *load, struct load_conn *conn)
{
    size_t count;

    if (load->options->rate > 0) {
        load->idle[(load->idle_first + load->idle_count) % load->options->connections] = conn;
        load->idle_count++;
        return;
    }
    if (load->now_ns >= load->result.stop_ns) {
        load_end_sending(load);
    }
    count = load_allowance(load);
    if (count > 0) {
        load_conn_send(conn, count, load->now_ns);
    }
}

/* Wait for events until a time, at most WAIT_MAX_NS, and handle them. */
static void load_wait(struct load *load, uint64_t until_ns)
{
    struct epoll_event events[EVENTS_MAX];
    uint64_t wait_ns = until_ns > load->now_ns ? until_ns - load->now_ns : 0;
    struct timespec timeout = {0, (long)(wait_ns < WAIT_MAX_NS ? wait_ns : WAIT_MAX_NS)};
    int count = epoll_pwait2(load->epoll, events, EVENTS_MAX, &timeout, NULL);

    if (count < 0 && errno != EINTR) {
        err(EXIT_CANNOT_RUN, "epoll_pwait2");
    }
    for (int i = 0; i < count; i++) {
        load_conn_event(events[i].data.ptr, events[i].events);
    }
    load->now_ns = result_clock_ns();
}

/* Open all connections, so many at a time that no listener drops one. */
static void load_connect(struct load *load)
{
    const struct load_options *options = load->options;
    uint64_t deadline_ns = load->now_ns + CONNECT_LIMIT_NS;
    size_t opened = 0;

    while (load->open < options->connections) {
        while (opened < options->connections && load->connecting < CONNECTING_MAX) {
            if (load_conn_open(load, &load->conns[opened], opened % options->address_count) != 0) {
                err(EXIT_CANNOT_RUN, "connection %zu", opened + 1);
            }
            opened++;
        }
        load_wait(load, deadline_ns);
        if (load->result.closed > 0) {
            errx(EXIT_CANNOT_RUN, "%s", load->result.first_bad);
        }
        if (load->now_ns >= deadline_ns) {
            errx(EXIT_CANNOT_RUN, "%zu of %zu connections were not accepted in 10 s",
                 options->connections - load->open, options->connections);
        }
    }
}

/* With a rate: when request number `index` is due. */
static uint64_t due_ns(const struct load *load, uint64_t index)
{
    return load->result.begin_ns + (uint64_t)((double)index * NS_PER_S / load->options->rate);
}

/* With a rate: how many requests there will be. */
static uint64_t due_count(const struct load *load)
{
    uint64_t count = (uint64_t)(load->options->rate * load->options->seconds);
    uint64_t bound = load->options->requests;

    count = count ? count : 1;
    return bound != 0 && bound < count ? bound : count;
}

/* With a rate: send what is due, as far as connections are idle. Returns when the next is due. */
static uint64_t load_send_due(struct load *load)
{
    uint64_t total = due_count(load);

    while (load->result.sent < total && load->idle_count > 0) {
        uint64_t due = due_ns(load, load->result.sent);
        struct load_conn *conn = load->idle[load->idle_first];

        if (due > load->now_ns) {
            return due;
        }
        load->idle_first = (load->idle_first + 1) % load->options->connections;
        load->idle_count--;
        if (conn->state == CONN_OPEN) {
            load_conn_send(conn, 1, due);
        }
    }
    if (load->result.sent == total) {
        load_end_sending(load);
    }
    return load->now_ns + WAIT_MAX_NS;
}

/* Nothing more is to be sent or to be waited for. */
static bool load_over(const struct load *load)
{
    uint64_t grace_ns = (uint64_t)(load->options->grace_s * NS_PER_S);
    /* With a rate, requests that are due may still wait for a connection when the time is over. */
    uint64_t end_ns = load->sending ? load->result.stop_ns : load->ended_ns;

    if (load->sending && load->options->seconds <= 0) {
        /* Bounded by replies alone: it is over when there are none. */
        end_ns = load->result.last_good_ns;
    }
    return load->open == 0 || (!load->sending && load->under_way == 0) ||
           load->now_ns > end_ns + grace_ns;
}

static void load_run(struct load *load)
{
    const struct load_options *options = load->options;
    double seconds = options->seconds > 0 ? options->seconds : LOAD_SECONDS_MAX;
    bool timeline = options->timeline && options->seconds > 0;

    result_begin(&load->result, (uint64_t)(seconds * NS_PER_S),
                 (uint64_t)(options->grace_s * NS_PER_S), timeline);
    load->now_ns = load->result.begin_ns;
    load->sending = true;
    for (size_t i = 0; i < options->connections; i++) {
        load_idle(load, &load->conns[i]);
    }
    while (!load_over(load)) {
        uint64_t until_ns = load->now_ns + WAIT_MAX_NS;

        if (options->rate > 0) {
            until_ns = load_send_due(load);
        } else if (load->now_ns >= load->result.stop_ns || load_allowance(load) == 0) {
            load_end_sending(load);
        }
        load_wait(load, until_ns);
    }
}

/* What is left open at the end. */
static void load_sum_up(struct load *load)
{
    struct result *result = &load->result;
    uint64_t never = load->options->rate > 0 ? due_count(load) - result->sent : 0;

    result->sent += never;
    result->unanswered += load->under_way + never;
    if (load->under_way + never > 0) {
        result_bad(result, load->now_ns, "%zu requests were not answered, %llu could not be sent",
                   load->under_way, (unsigned long long)never);
    }
    /* A load that ended by its number of requests, or because the server was gone. */
    if (load->now_ns < result->stop_ns && load->options->rate <= 0) {
        result->stop_ns = load->now_ns;
    }
}

static void load_init(struct load *load, const struct load_options *options)
{
    size_t groups;

    load->options = options;
    load_targets_make(&load->targets, options);
    result_init(&load->result);
    if (options->seen_file && idset_load(&load->result.ids, options->seen_file) != 0) {
        err(EXIT_CANNOT_RUN, "%s", options->seen_file);
    }
    groups = options->group_by_target ? load->targets.count : 1;
    load->acknowledged = calloc(groups, sizeof *load->acknowledged);
    load->conns = calloc(options->connections, sizeof *load->conns);
    load->idle = calloc(options->connections, sizeof *load->idle);
    ASSERT(load->acknowledged && load->conns && load->idle);
    load->epoll = epoll_create1(EPOLL_CLOEXEC);
    ASSERT(load->epoll >= 0);
    load->now_ns = result_clock_ns();
}

static void load_free(struct load *load)
{
    for (size_t i = 0; i < load->options->connections; i++) {
        load_conn_free(&load->conns[i]);
    }
    result_free(&load->result);
    load_targets_free(&load->targets);
    free(load->acknowledged);
    free(load->conns);
    free(load->idle);
}

/* As many files as the system allows, and timers as sharp. */
static void process_prepare(void)
{
    struct rlimit limit;

    ASSERT(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    limit.rlim_cur = limit.rlim_max;
    ASSERT(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    ASSERT(prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL) == 0);
}

int main(int argc, char **argv)
{
    static struct load_options options;
    static struct load load;
    bool good;

    load_options_read(&options, argc, argv);
    process_prepare();
    load_init(&load, &options);
    load_connect(&load);
    load_run(&load);
    load_sum_up(&load);
    good = result_is_good(&load.result);
    if (result_print(&load.result, stdout) != 0) {
        err(EXIT_CANNOT_RUN, "the report");
    }
    if (options.seen_file && idset_save(&load.result.ids, options.seen_file) != 0) {
        err(EXIT_CANNOT_RUN, "%s", options.seen_file);
    }
    load_free(&load);
    load_options_free(&options);
    return good ? 0 : 1;
}
