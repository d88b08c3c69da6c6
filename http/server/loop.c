/*
 * loop.c - see loop.h. Thread: the loop's, apart from init, release and the posts.
 */
#include "http/server/loop.h"

#include <stdio.h>
#include <unistd.h>

#include "src/base/assert.h"
#include "src/base/container.h"
#include "src/base/hot.h"

static void timer_cb(uv_timer_t *timer);

/* Set the timer to the earliest deadline. */
HOT static void arm(struct http_loop *loop)
{
    uint64_t due_ms = timers_next_ms(&loop->conns.timers);
    uint64_t now_ms = uv_now(&loop->uv);

    if (due_ms < loop->timer_due_ms && !loop->stopping) {
        loop->timer_due_ms = due_ms;
        ASSERT(uv_timer_start(&loop->timer, timer_cb, due_ms > now_ms ? due_ms - now_ms : 0, 0) ==
               0);
    }
}

/* libuv reads the clock when its wait is over: what was done since then is the turn. */
HOT static void note_turn(struct http_loop *loop)
{
    stall_begin(&loop->conns.stall, uv_now(&loop->uv), "requests");
    stall_end(&loop->conns.stall, uv_hrtime() / 1000000, loop->name);
}

/* That it is active is all: the loop then does not sleep. */
static void no_rest_cb(uv_idle_t *idle)
{
    (void)idle;
}

/* Let the next turn come at once, or not. */
HOT static void set_rest(struct http_loop *loop, bool more)
{
    if (more && !loop->stopping) {
        (void)uv_idle_start(&loop->no_rest, no_rest_cb);
    } else {
        (void)uv_idle_stop(&loop->no_rest);
    }
}

/* Whatever a turn was, it ends here. */
HOT static void turn_end(struct http_loop *loop)
{
    struct conns *conns = &loop->conns;

    set_rest(loop, conns_turn_end(conns));
    if (conns->draining && conns->counts.conns == 0 && loop->drained != NULL) {
        timer_cancel(&conns->timers, &loop->grace);
        loop->drained(loop->drained_data);
        loop->drained = NULL;
    }
    arm(loop);
    note_turn(loop);
}

HOT static void turn_end_cb(uv_check_t *check)
{
    turn_end(check->data);
}

static void timer_cb(uv_timer_t *timer)
{
    struct http_loop *loop = timer->data;

    loop->timer_due_ms = TIMER_NEVER;
    timers_run(&loop->conns.timers, uv_now(&loop->uv));
    turn_end(loop);
}

/* --- drain and stop --- */

static void grace_fire(struct timer *timer, uint64_t now_ms)
{
    struct http_loop *loop = CONTAINER(timer, struct http_loop, grace);

    (void)now_ms;
    conns_close(&loop->conns, "drained");
}

static void drain_cb(struct mailbox_item *item)
{
    struct http_loop *loop = CONTAINER(item, struct http_loop, drain_item);

    if (loop->stopping) {
        return;
    }
    acceptor_close(&loop->acceptor);
    conns_drain(&loop->conns);
    timer_arm(&loop->conns.timers, &loop->grace, uv_now(&loop->uv) + loop->grace_ms);
}

static void stop_cb(struct mailbox_item *item)
{
    struct http_loop *loop = CONTAINER(item, struct http_loop, stop_item);

    ASSERT(!loop->stopping);
    loop->stopping = true;
    acceptor_close(&loop->acceptor);
    conns_flush(&loop->conns);
    conns_close(&loop->conns, "stopping");
    if (loop->conns.draining && loop->drained != NULL) {
        loop->drained(loop->drained_data);
        loop->drained = NULL;
    }
    uv_close((uv_handle_t *)&loop->timer, NULL);
    uv_close((uv_handle_t *)&loop->turn_end, NULL);
    uv_close((uv_handle_t *)&loop->no_rest, NULL);
    mailbox_close(&loop->port->mailbox, NULL);
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
    loop->stop_item.run = stop_cb;
    ASSERT(mailbox_post_always(&loop->port->mailbox, &loop->stop_item) == 0);
}

/* --- start and end --- */

int loop_init(struct http_loop *loop, unsigned index, const struct http_settings *settings,
              const struct http_service *service, struct clients *clients, int listen_fd)
{
    *loop = (struct http_loop){.index = index, .timer_due_ms = TIMER_NEVER};
    (void)snprintf(loop->name, sizeof loop->name, "http-%u", index % 1000);
    if (uv_loop_init(&loop->uv) != 0) {
        close(listen_fd);
        return ERR_IO;
    }
    conns_init(&loop->conns, &loop->uv, settings, service, clients);
    timer_init(&loop->grace, grace_fire);
    loop->port = http_port_new(&loop->uv);
    if (loop->port == NULL) {
        close(listen_fd);
        ASSERT(uv_loop_close(&loop->uv) == 0);
        return ERR_IO;
    }
    if (acceptor_init(&loop->acceptor, &loop->conns, index, listen_fd) != 0) {
        mailbox_close(&loop->port->mailbox, NULL);
        ASSERT(uv_run(&loop->uv, UV_RUN_DEFAULT) == 0);
        ASSERT(uv_loop_close(&loop->uv) == 0);
        http_port_unref(loop->port);
        return ERR_IO;
    }
    ASSERT(uv_timer_init(&loop->uv, &loop->timer) == 0);
    loop->timer.data = loop;
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
        stop_cb(&loop->stop_item);
    }
    ASSERT(uv_run(&loop->uv, UV_RUN_DEFAULT) == 0);
    ASSERT(uv_loop_close(&loop->uv) == 0);
    loop->conns.service->loop_end(loop->conns.data);
    conns_free(&loop->conns);
    http_port_unref(loop->port);
}
