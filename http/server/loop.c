/*
 * loop.c - see loop.h. Thread: the loop's, apart from init, release and the posts.
 */
#include "http/server/loop.h"

#include <stdio.h>
#include <unistd.h>

#include "http/server/http.h"
#include "src/base/assert.h"
#include "src/base/container.h"
#include "src/base/hot.h"

static void loop_timer_cb(uv_timer_t *timer);

/* That it is active is all: the loop then does not sleep. */
static void no_rest_cb(uv_idle_t *idle)
{
    (void)idle;
}

/* Whatever a turn was, it ends here: what is to be sent is sent, the timer is set to the earliest
 * deadline, and what the turn took is noted. libuv reads the clock when its wait is over: what was
 * done since then is the turn. */
HOT static void turn_end(struct http_loop *loop)
{
    struct conns *conns = &loop->conns;
    bool more = conns_turn_end(conns);
    uint64_t now_ms = uv_now(&loop->uv);
    uint64_t due_ms;
    uint64_t end_us;

    if (more && !loop->stopping) { /* let the next turn come at once */
        (void)uv_idle_start(&loop->no_rest, no_rest_cb);
    } else {
        (void)uv_idle_stop(&loop->no_rest);
    }
    mailbox_release();
    if (conns->draining && !timer_is_armed(&loop->last) && conns->counts.conns == 0 &&
        loop->drained != NULL) {
        timer_cancel(&conns->timers, &loop->grace);
        loop->drained(loop->drained_data);
        loop->drained = NULL;
    }
    due_ms = timers_next_ms(&conns->timers);
    if (due_ms < loop->timer_due_ms && !loop->stopping) {
        loop->timer_due_ms = due_ms;
        ASSERT(uv_timer_start(&loop->timer, loop_timer_cb, due_ms > now_ms ? due_ms - now_ms : 0,
                              0) == 0);
    }
    end_us = uv_hrtime() / 1000;
    latency_turn_end(&conns->latency, end_us);
    stall_begin(&conns->stall, now_ms, "requests");
    stall_end(&conns->stall, end_us / 1000, loop->name);
}

HOT static void turn_end_cb(uv_check_t *check)
{
    turn_end(check->data);
}

/* The raft loop is woken once for all requests of the turn that now begins. */
HOT static void turn_begin_cb(uv_prepare_t *prepare)
{
    (void)prepare;
    mailbox_hold();
}

static void loop_timer_cb(uv_timer_t *timer)
{
    struct http_loop *loop = timer->data;

    loop->timer_due_ms = TIMER_NEVER;
    timers_run(&loop->conns.timers, uv_now(&loop->uv));
    turn_end(loop);
}

/* --- drain and stop --- */

static void close_listeners(struct http_loop *loop)
{
    acceptor_close(&loop->acceptor);
    acceptor_close(&loop->resp);
}

static void last_fire(struct timer *timer, uint64_t now_ms)
{
    struct http_loop *loop = CONTAINER(timer, struct http_loop, last);

    (void)now_ms;
    close_listeners(loop);
}

static void grace_fire(struct timer *timer, uint64_t now_ms)
{
    struct http_loop *loop = CONTAINER(timer, struct http_loop, grace);

    (void)now_ms;
    timer_cancel(&loop->conns.timers, &loop->last);
    close_listeners(loop);
    conns_close(&loop->conns, "drained");
}

static void retire_cb(struct mailbox_item *item)
{
    struct http_loop *loop = CONTAINER(item, struct http_loop, retire_item);

    if (!loop->stopping) {
        conns_retire(&loop->conns, loop->retire_ms);
    }
}

static void drain_cb(struct mailbox_item *item)
{
    struct http_loop *loop = CONTAINER(item, struct http_loop, drain_item);
    uint64_t now_ms = uv_now(&loop->uv);

    if (loop->stopping) {
        return;
    }
    acceptor_fade(&loop->acceptor);
    acceptor_fade(&loop->resp);
    timer_arm(&loop->conns.timers, &loop->last, now_ms + LIMIT_HTTP_LAST_MS);
    conns_drain(&loop->conns);
    timer_arm(&loop->conns.timers, &loop->grace, now_ms + loop->grace_ms);
}

static void loop_stop_cb(struct mailbox_item *item)
{
    struct http_loop *loop = CONTAINER(item, struct http_loop, stop_item);

    ASSERT(!loop->stopping);
    loop->stopping = true;
    timer_cancel(&loop->conns.timers, &loop->last);
    close_listeners(loop);
    conns_flush(&loop->conns);
    conns_close(&loop->conns, "stopping");
    if (loop->conns.draining && loop->drained != NULL) {
        loop->drained(loop->drained_data);
        loop->drained = NULL;
    }
    uv_close((uv_handle_t *)&loop->timer, NULL);
    uv_close((uv_handle_t *)&loop->turn_begin, NULL);
    uv_close((uv_handle_t *)&loop->turn_end, NULL);
    uv_close((uv_handle_t *)&loop->no_rest, NULL);
    mailbox_close(&loop->port->mailbox, NULL);
    mailbox_release(); /* this turn has no end */
}

static void turn_taken_cb(struct mailbox_item *item)
{
    atomic_store(&CONTAINER(item, struct http_loop, turn_item)->turn_asked, false);
}

bool loop_takes_turns(struct http_loop *loop)
{
    if (atomic_exchange(&loop->turn_asked, true)) {
        return false;
    }
    loop->turn_item.run = turn_taken_cb;
    ASSERT(mailbox_post_always(&loop->port->mailbox, &loop->turn_item) == 0);
    return true;
}

void loop_post_retire(struct http_loop *loop, uint32_t over_ms)
{
    loop->retire_ms = over_ms;
    loop->retire_item.run = retire_cb;
    ASSERT(mailbox_post_always(&loop->port->mailbox, &loop->retire_item) == 0);
}

void loop_post_drain(struct http_loop *loop, uint32_t grace_ms, void (*drained)(void *data),
                     void *data)
{
    loop->grace_ms = grace_ms;
    loop->drained = drained;
    loop->drained_data = data;
    loop->drain_item.run = drain_cb;
    ASSERT(mailbox_post_always(&loop->port->mailbox, &loop->drain_item) == 0);
}

void loop_post_stop(struct http_loop *loop)
{
    loop->stop_item.run = loop_stop_cb;
    ASSERT(mailbox_post_always(&loop->port->mailbox, &loop->stop_item) == 0);
}

/* --- start and end --- */

void loop_listeners_close(const struct loop_listeners *listeners)
{
    close(listeners->http);
    if (listeners->resp >= 0) {
        close(listeners->resp);
    }
}

/* Begin to accept at each listener. */
static int open_listeners(struct http_loop *loop, const struct loop_listeners *listeners)
{
    const struct http_settings *settings = loop->conns.settings;
    const struct listener http = {
        .talker = http_talker(), .idle_ms = settings->idle_ms, .tls = settings->tls != NULL};
    const struct listener resp = {.talker = loop->conns.service->resp,
                                  .idle_ms = settings->resp_idle_ms,
                                  .tls = settings->resp_tls};
    int rv = acceptor_init(&loop->acceptor, &loop->conns, &http, loop->index, listeners->http);

    if (listeners->resp < 0) {
        return rv;
    }
    if (rv != 0) {
        close(listeners->resp);
        return rv;
    }
    ASSERT(resp.talker != NULL && (settings->tls != NULL || !resp.tls));
    rv = acceptor_init(&loop->resp, &loop->conns, &resp, loop->index, listeners->resp);
    if (rv != 0) {
        acceptor_close(&loop->acceptor);
    }
    return rv;
}

int loop_init(struct http_loop *loop, unsigned index, const struct http_settings *settings,
              const struct http_service *service, struct clients *clients,
              const struct loop_listeners *listeners)
{
    *loop = (struct http_loop){.index = index, .timer_due_ms = TIMER_NEVER};
    (void)snprintf(loop->name, sizeof loop->name, "http-%u", index % 1000);
    if (uv_loop_init(&loop->uv) != 0) {
        loop_listeners_close(listeners);
        return ERR_IO;
    }
    conns_init(&loop->conns, &loop->uv, settings, service, clients);
    timer_init(&loop->last, last_fire);
    timer_init(&loop->grace, grace_fire);
    loop->port = http_port_new(&loop->uv);
    if (loop->port == NULL) {
        loop_listeners_close(listeners);
        ASSERT(uv_loop_close(&loop->uv) == 0);
        return ERR_IO;
    }
    if (open_listeners(loop, listeners) != 0) {
        mailbox_close(&loop->port->mailbox, NULL);
        ASSERT(uv_run(&loop->uv, UV_RUN_DEFAULT) == 0);
        ASSERT(uv_loop_close(&loop->uv) == 0);
        http_port_unref(loop->port);
        return ERR_IO;
    }
    ASSERT(uv_timer_init(&loop->uv, &loop->timer) == 0);
    loop->timer.data = loop;
    ASSERT(uv_prepare_init(&loop->uv, &loop->turn_begin) == 0);
    ASSERT(uv_prepare_start(&loop->turn_begin, turn_begin_cb) == 0);
    ASSERT(uv_check_init(&loop->uv, &loop->turn_end) == 0);
    ASSERT(uv_check_start(&loop->turn_end, turn_end_cb) == 0);
    loop->turn_end.data = loop;
    ASSERT(uv_idle_init(&loop->uv, &loop->no_rest) == 0);
    loop->conns.data = service->loop_begin(service->data, index, &loop->conns, loop->port);
    return 0;
}

void *loop_run(void *data)
{
    struct http_loop *loop = data;

    (void)pthread_setname_np(pthread_self(), loop->name);
    ASSERT(uv_run(&loop->uv, UV_RUN_DEFAULT) == 0);
    return NULL;
}

void loop_release(struct http_loop *loop)
{
    if (!loop->stopping) {
        /* The thread was never started. */
        loop_stop_cb(&loop->stop_item);
    }
    ASSERT(uv_run(&loop->uv, UV_RUN_DEFAULT) == 0);
    ASSERT(uv_loop_close(&loop->uv) == 0);
    loop->conns.service->loop_end(loop->conns.data);
    conns_free(&loop->conns);
    http_port_unref(loop->port);
}
