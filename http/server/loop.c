/*
 * loop.c - see loop.h. Thread: the loop's, apart from init, release and the posts.
 */
#include "http/server/loop.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "http/server/accept.h"
#include "http/server/conn.h"
#include "http/api/handlers.h"
#include "http/server/server_internal.h"
#include "src/base/assert.h"
#include "src/base/hot.h"

/* A wake-up of a tag's parked requests on its way to the loop. */
struct wake {
    struct mailbox_item item;
    struct http_loop *loop;
    struct id_tag *tag;
};

static struct http_loop *loop_of_item(struct mailbox_item *item, size_t offset)
{
    return (struct http_loop *)((char *)item - offset);
}

/* --- time --- */

HOT uint64_t loop_now_ms(const struct http_loop *loop)
{
    return uv_now(&loop->uv);
}

HOT const char *loop_date(struct http_loop *loop)
{
    uint64_t now_ms = loop_now_ms(loop);
    uint64_t wall_ms;

    if (now_ms >= loop->date_until_ms) {
        wall_ms = clock_wall_ms(loop->backend->clock);
        text_time_http(wall_ms, loop->date);
        loop->date_until_ms = now_ms + 1000 - wall_ms % 1000;
    }
    return loop->date;
}

static uint64_t min_u64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* The earliest thing to be done, UINT64_MAX if there is none. */
static uint64_t next_due_ms(struct http_loop *loop)
{
    uint64_t due_ms = min_u64(waiters_next_ms(&loop->waiters), loop->accept_again_ms);

    due_ms = min_u64(due_ms, loop->snowflake_again_ms);
    for (int phase = PHASE_IDLE; phase < PHASE_COUNT; phase++) {
        struct conn *first = TAILQ_FIRST(&loop->phases[phase]);

        due_ms = first != NULL ? min_u64(due_ms, first->phase_due_ms) : due_ms;
    }
    if (!TAILQ_EMPTY(&loop->writers)) {
        due_ms = min_u64(due_ms, TAILQ_FIRST(&loop->writers)->write_due_ms);
    }
    return loop->draining ? min_u64(due_ms, loop->drain_until_ms) : due_ms;
}

static void close_all(struct http_loop *loop, const char *reason)
{
    struct conn *conn;
    struct conn *next;

    for (conn = TAILQ_FIRST(&loop->conns); conn != NULL; conn = next) {
        next = TAILQ_NEXT(conn, all_link);
        conn_close(conn, reason);
    }
}

static void expire(struct http_loop *loop, uint64_t now_ms)
{
    struct conn *conn;

    for (int phase = PHASE_IDLE; phase < PHASE_COUNT; phase++) {
        while ((conn = TAILQ_FIRST(&loop->phases[phase])) != NULL && conn->phase_due_ms <= now_ms) {
            conn_phase_expired(conn);
        }
    }
    while ((conn = TAILQ_FIRST(&loop->writers)) != NULL && conn->write_due_ms <= now_ms) {
        conn_write_expired(conn);
    }
    if (loop->snowflake_again_ms <= now_ms) {
        snowflake_retry(loop);
    }
    ids_expire(loop, now_ms);
    if (loop->accept_again_ms <= now_ms) {
        accept_start(loop);
    }
    if (loop->draining && loop->drain_until_ms <= now_ms) {
        loop->drain_until_ms = UINT64_MAX;
        close_all(loop, "drained");
    }
}

static void timer_cb(uv_timer_t *timer)
{
    struct http_loop *loop = timer->data;
    uint64_t due_ms;

    loop->timer_due_ms = UINT64_MAX;
    expire(loop, loop_now_ms(loop));
    loop_settle(loop);
    loop_flush(loop);
    due_ms = next_due_ms(loop);
    if (due_ms != UINT64_MAX && !loop->stopping) {
        loop_arm(loop, due_ms);
    }
}

void loop_arm(struct http_loop *loop, uint64_t at_ms)
{
    uint64_t now_ms = loop_now_ms(loop);

    if (at_ms >= loop->timer_due_ms || loop->stopping) {
        return;
    }
    loop->timer_due_ms = at_ms;
    ASSERT(uv_timer_start(&loop->timer, timer_cb, at_ms > now_ms ? at_ms - now_ms : 0, 0) == 0);
}

HOT void loop_settle(struct http_loop *loop)
{
    struct conn *conn;

    while ((conn = TAILQ_FIRST(&loop->ready)) != NULL) {
        ASSERT(conn->ready);
        conn->ready = false;
        TAILQ_REMOVE(&loop->ready, conn, ready_link);
        conn_process(conn);
    }
    if (loop->unflushed_count >= LOOP_BATCH) {
        loop_flush(loop);
    }
}

HOT void loop_flush_later(struct http_loop *loop, struct conn *conn)
{
    if (!conn->unflushed) {
        conn->unflushed = true;
        TAILQ_INSERT_TAIL(&loop->unflushed, conn, flush_link);
        loop->unflushed_count++;
    }
}

HOT void loop_flush_not(struct http_loop *loop, struct conn *conn)
{
    ASSERT(conn->unflushed);
    conn->unflushed = false;
    TAILQ_REMOVE(&loop->unflushed, conn, flush_link);
    loop->unflushed_count--;
}

HOT void loop_flush(struct http_loop *loop)
{
    struct conn *conn;

    while ((conn = TAILQ_FIRST(&loop->unflushed)) != NULL) {
        loop_flush_not(loop, conn);
        conn_flush(conn);
    }
}

HOT static void turn_end_cb(uv_check_t *turn_end)
{
    loop_flush(turn_end->data);
}

/* --- messages --- */

static void drained_cb(struct mailbox *mailbox)
{
    loop_settle(mailbox->data);
}

static void wake_cb(struct mailbox_item *item)
{
    struct wake *wake = (struct wake *)((char *)item - offsetof(struct wake, item));

    ids_wake(wake->loop, wake->tag);
    free(wake);
}

void loop_post_wake(struct http_loop *loop, struct id_tag *tag)
{
    struct wake *wake = malloc(sizeof(*wake));

    ASSERT(wake != NULL);
    *wake = (struct wake){.item.run = wake_cb, .loop = loop, .tag = tag};
    if (mailbox_post_always(&loop->port->mailbox, &wake->item) != 0) {
        free(wake);
    }
}

void loop_conn_gone(struct http_loop *loop)
{
    if (loop->draining && loop->conn_count == 0 && !loop->drain_told) {
        loop->drain_told = true;
        http_server_drained(loop->server);
    }
}

static void drain_cb(struct mailbox_item *item)
{
    struct http_loop *loop = loop_of_item(item, offsetof(struct http_loop, drain_item));
    struct conn *conn;
    struct conn *next;

    if (loop->stopping) {
        return;
    }
    loop->draining = true;
    loop->drain_until_ms = loop_now_ms(loop) + http_server_grace_ms(loop->server);
    accept_close(loop);
    for (conn = TAILQ_FIRST(&loop->conns); conn != NULL; conn = next) {
        next = TAILQ_NEXT(conn, all_link);
        conn_drain(conn);
    }
    loop_arm(loop, loop->drain_until_ms);
    loop_conn_gone(loop);
}

static void stop_cb(struct mailbox_item *item)
{
    struct http_loop *loop = loop_of_item(item, offsetof(struct http_loop, stop_item));

    ASSERT(!loop->stopping);
    loop->stopping = true;
    accept_close(loop);
    loop_flush(loop);
    close_all(loop, "stopping");
    uv_close((uv_handle_t *)&loop->timer, NULL);
    uv_close((uv_handle_t *)&loop->turn_end, NULL);
    mailbox_close(&loop->port->mailbox, NULL);
}

void loop_post_drain(struct http_loop *loop)
{
    loop->drain_item.run = drain_cb;
    ASSERT(mailbox_post_always(&loop->port->mailbox, &loop->drain_item) == 0);
}

void loop_post_stop(struct http_loop *loop)
{
    loop->stop_item.run = stop_cb;
    ASSERT(mailbox_post_always(&loop->port->mailbox, &loop->stop_item) == 0);
}

/* --- life --- */

int loop_init(struct http_loop *loop, struct http_server *server, unsigned index, int listen_fd)
{
    const struct http_settings *settings = http_server_settings(server);

    *loop = (struct http_loop){.server = server,
                               .settings = settings,
                               .build = http_server_build(server),
                               .backend = http_server_backend(server),
                               .index = index,
                               .listen_fd = listen_fd,
                               .timer_due_ms = UINT64_MAX,
                               .snowflake_again_ms = UINT64_MAX,
                               .drain_until_ms = UINT64_MAX};
    loop->phase_ms[PHASE_IDLE] = settings->idle_ms;
    loop->phase_ms[PHASE_HEAD] = settings->head_ms;
    loop->phase_ms[PHASE_BODY] = settings->body_ms;
    loop->phase_ms[PHASE_LINGER] = LIMIT_HTTP_LINGER_MS;
    TAILQ_INIT(&loop->conns);
    TAILQ_INIT(&loop->ready);
    TAILQ_INIT(&loop->unflushed);
    TAILQ_INIT(&loop->writers);
    for (int phase = 0; phase < PHASE_COUNT; phase++) {
        TAILQ_INIT(&loop->phases[phase]);
    }
    waiters_init(&loop->waiters);
    prng_seed(&loop->prng, prng_entropy());
    if (uv_loop_init(&loop->uv) != 0) {
        close(listen_fd);
        return ERR_IO;
    }
    loop->snowflake_queue = calloc(1, sizeof(*loop->snowflake_queue) + 1);
    ASSERT(loop->snowflake_queue != NULL);
    ASSERT(uv_timer_init(&loop->uv, &loop->timer) == 0);
    loop->timer.data = loop;
    ASSERT(uv_check_init(&loop->uv, &loop->turn_end) == 0);
    ASSERT(uv_check_start(&loop->turn_end, turn_end_cb) == 0);
    loop->turn_end.data = loop;
    loop->port = control_port_new(&loop->uv);
    if (loop->port == NULL || accept_init(loop) != 0) {
        loop->stopping = true;
        uv_close((uv_handle_t *)&loop->timer, NULL);
        uv_close((uv_handle_t *)&loop->turn_end, NULL);
        if (loop->port != NULL) {
            mailbox_close(&loop->port->mailbox, NULL);
        }
        accept_release(loop);
        loop_release(loop);
        return ERR_IO;
    }
    loop->port->mailbox.data = loop;
    loop->port->mailbox.drained = drained_cb;
    accept_start(loop);
    return 0;
}

void *loop_run(void *data)
{
    struct http_loop *loop = data;
    char name[16];

    (void)snprintf(name, sizeof(name), "http-%u", loop->index % 1000);
    (void)pthread_setname_np(pthread_self(), name);
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
    ASSERT(loop->conn_count == 0);
    ASSERT(loop->waiters.count == 0);
    ASSERT(loop->body_bytes == 0);
    buf_free(&loop->scratch);
    while (loop->output_count > 0) {
        buf_free(&loop->outputs[--loop->output_count]);
    }
    free(loop->snowflake_queue);
    loop->snowflake_queue = NULL;
    if (loop->port != NULL) {
        control_port_unref(loop->port);
        loop->port = NULL;
    }
}
