/*
 * conn_world.c - see conn_world.h. Thread: one.
 */
#include "http/tests/conn_world.h"

#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "http/api/api.h"
#include "http/resp/api/resp.h"
#include "src/base/assert.h"
#include "src/base/process.h"
#include "src/id/codec/command.h"
#include "src/id/codec/tag.h"

#define START_MS 1000000
#define START_WALL_MS 1700000000000ULL
#define WALL_WINDOW_MS 3600000
#define STEP_MS 500
#define STEPS_MAX 100     /* the longest wait is shorter */
#define TURNS_MAX 1000000 /* it has to come to rest at some time */
#define FULL_MAX_ID ((uint64_t)INT64_MAX)

/* What the loop takes for the time; 0: libuv's own. */
static _Thread_local uint64_t still_ms;

/* In the place of libuv's, for the objects of this program. */
uint64_t uv_now(const uv_loop_t *loop)
{
    return still_ms != 0 ? still_ms : loop->time;
}

/* Its turns take no time: what is measured of them is in /metrics. */
uint64_t uv_hrtime(void)
{
    return still_ms * 1000000;
}

/* So are memory and descriptors. */
void process_look(struct process_figures *ret_figures)
{
    memset(ret_figures, 0, sizeof *ret_figures);
}

/* --- what the backend is asked --- */

static void note_text(struct buf *buf, const void *text, size_t len)
{
    const unsigned char *at = text;

    for (size_t i = 0; i < len; i++) {
        if (at[i] > ' ' && at[i] < 0x7f && at[i] != '\\') {
            buf_put_u8(buf, at[i]);
        } else {
            buf_printf(buf, "\\x%02x", at[i]);
        }
    }
}

static void note_name(struct conn_world *world, const char *name, size_t len)
{
    buf_put_str16(&world->names, name, len);
    buf_put_u8(&world->asked, ' ');
    note_text(&world->asked, name, len);
}

static void note_put(struct conn_world *world, const struct buf *payload)
{
    struct command read;
    struct command_list command;
    struct tag_put put;

    ASSERT(command_read(payload->data, payload->len, &read) == 0);
    command = read.list;
    buf_printf(&world->asked, " force=%d", command.force);
    while (command_next(&command, &put)) {
        note_name(world, put.name, put.name_len);
        buf_printf(&world->asked, " fields=%u mode=%u step=%u max_step=%u max_id=%llu ", put.fields,
                   put.mode, put.step, put.max_step, (unsigned long long)put.max_id);
        note_text(&world->asked, put.description, put.description_len);
    }
}

/* A command. Its id is another each time and is left out, and of commands on worker ids therefore
 * all but their length. */
static void note_command(struct conn_world *world, const struct buf *payload)
{
    int type = command_type(payload->data, payload->len);
    struct command deleted;

    buf_printf(&world->asked, " type=%d len=%zu", type, payload->len);
    if (command_puts_tags(type)) {
        note_put(world, payload);
    } else if (type == COMMAND_TAG_DELETE) {
        ASSERT(command_read(payload->data, payload->len, &deleted) == 0);
        note_name(world, deleted.deletion.name, deleted.deletion.name_len);
    }
}

static void note_strict(struct conn_world *world, const struct buf *payload)
{
    struct strict_item item;

    ASSERT(strict_item_decode(payload->data, payload->len, &item) == 0);
    note_name(world, item.name, item.name_len);
    buf_printf(&world->asked, " count=%u key=", item.count);
    note_text(&world->asked, item.key, item.key_len);
}

static void note_query(struct conn_world *world, const struct buf *payload)
{
    struct query query;

    ASSERT(query_decode(payload->data, payload->len, &query) == 0);
    note_text(&world->asked, payload->data, payload->len);
    if (query.type == QUERY_TAG_GET) {
        note_name(world, query.name, query.name_len);
    }
}

static void watch_cb(void *data, const struct cluster_request *request)
{
    struct conn_world *world = data;
    const struct buf *payload = &request->payload;

    buf_printf(&world->asked, "kind=%d local=%d wait=%llu", (int)request->kind, request->local,
               (unsigned long long)(request->deadline_ms - world->fake.now_ms));
    switch (request->kind) {
    case CLUSTER_REQUEST_COMMAND:
        note_command(world, payload);
        break;
    case CLUSTER_REQUEST_QUERY:
        note_query(world, payload);
        break;
    case ID_REQUEST_OPEN:
        note_name(world, (const char *)payload->data, payload->len);
        break;
    case ID_REQUEST_STRICT:
        note_strict(world, payload);
        break;
    case ID_REQUEST_STATUS:
    case ID_REQUEST_SEGMENTS:
    case ID_REQUEST_BUFFERS:
    case CLUSTER_REQUEST_MEMBER:
    case ID_REQUEST_BACKUP:
    case CLUSTER_REQUEST_BARRIER:
    case CLUSTER_REQUEST_LEADER:
        note_text(&world->asked, payload->data, payload->len);
        break;
    }
    buf_put_u8(&world->asked, '\n');
}

/* --- turns --- */

/* Take what was sent to the client. True if that was anything. */
static bool take_replies(struct conn_world *world)
{
    struct buf *replies = &world->replies;
    size_t before = replies->len;
    ssize_t got = 1;

    while (world->fd >= 0 && !world->ended && !world->deaf && got > 0) {
        buf_reserve(replies, 64 << 10);
        got = recv(world->fd, replies->data + replies->len, 64 << 10, 0);
        ASSERT(got >= 0 || errno == EAGAIN || errno == ECONNRESET);
        replies->len += got > 0 ? (size_t)got : 0;
        world->ended = got == 0 || (got < 0 && errno == ECONNRESET);
    }
    return replies->len > before;
}

/* What changes when a connection gets on without a word to anybody. */
static uint64_t progress(struct conn_world *world)
{
    const struct conn *conn = TAILQ_FIRST(&world->loop->conns.all);
    int unread = 0;

    if (conn == NULL || conn->state == CONN_CLOSED) {
        return world->loop->conns.counts.conns;
    }
    (void)ioctl(conn->wire.fd, FIONREAD, &unread);
    return world->loop->conns.meter.work_bytes * 1000003 +
           (((uint64_t)unread * 31 + conn->wire.start) * 31 + conn->wire.end) * 31 + conn->state +
           2;
}

static void come_to_rest(struct conn_world *world)
{
    unsigned still = 0;
    unsigned turns = 0;

    while (still < 2) {
        uint64_t before = progress(world);
        bool moved = !world->late && fake_turn(&world->fake);

        (void)uv_run(&world->loop->uv, UV_RUN_NOWAIT);
        moved = take_replies(world) || moved || progress(world) != before;
        still = moved ? 0 : still + 1;
        ASSERT(++turns < TURNS_MAX);
    }
    world->conn = TAILQ_FIRST(&world->loop->conns.all);
}

void conn_world_pass(struct conn_world *world, uint64_t ms)
{
    struct http_loop *loop = world->loop;

    still_ms += ms;
    world->fake.now_ms += ms;
    fake_set_wall(&world->fake, atomic_load(&world->fake.wall_ms) + ms);
    if (loop->timer_due_ms <= still_ms) {
        /* It is armed, for a time of the clock on the wall. */
        ASSERT(uv_timer_start(&loop->timer, loop->timer.timer_cb, 0, 0) == 0);
    }
    come_to_rest(world);
}

void conn_world_rest(struct conn_world *world)
{
    unsigned steps = 0;

    come_to_rest(world);
    while (!world->late && world->conn != NULL && world->conn->state == CONN_SERVING) {
        size_t answered = world->replies.len;

        conn_world_pass(world, STEP_MS);
        steps = world->replies.len > answered ? 0 : steps + 1; /* of many, each may wait so long */
        ASSERT(steps < STEPS_MAX);
    }
}

/* --- start and end --- */

static void make_tags(struct fake *fake)
{
    char longest[LIMIT_TAG_NAME_BYTES + 1] = "";

    memset(longest, 'n', LIMIT_TAG_NAME_BYTES);
    fake_make_tag(fake, "plain", 1, 1000, 1000000);
    fake_make_tag(fake, "a/b", 1, 1000, 1000000);
    fake_make_tag(fake, longest, 1, 1000, 1000000);
    fake_make_tag(fake, "small", 1, 1, 8);
    fake_make_tag(fake, "full", FULL_MAX_ID, 1, 1);
    fake_set_mode(fake, "strict", TAG_MODE_STRICT);
    fake_make_tag(fake, "behind1", 1, 1000, 1000000);
    fake_make_tag(fake, "behind2", 1, 1000, 1000000);
    atomic_store(&fake_open(fake, "behind1", 0, 0)->state, ID_TAG_STRICT);
    atomic_store(&fake_open(fake, "behind2", 0, 0)->state, ID_TAG_STRICT);
}

static void backend_start(struct conn_world *world)
{
    static const struct snowflake_layout layout = SNOWFLAKE_LEAF_LAYOUT;
    struct fake *fake = &world->fake;

    fake_start_still(fake);
    fake->now_ms = START_MS;
    fake->watch = watch_cb;
    fake->watch_data = world;
    fake_set_wall(fake, START_WALL_MS);
    fake_log_time(fake, START_WALL_MS);
    make_tags(fake);
    fake_snowflake(fake);
    snowflake_set_layout(&fake->snowflake, &layout);
    ASSERT(snowflake_add(&fake->snowflake, 7, START_WALL_MS - 1, START_WALL_MS + WALL_WINDOW_MS,
                         START_WALL_MS + WALL_WINDOW_MS) != NULL);
}

void conn_world_start(struct conn_world *world)
{
    conn_world_start_tls(world, NULL, NULL);
}

void conn_world_start_tls(struct conn_world *world, struct tls *tls, struct auth *auth)
{
    static const struct http_build build = {
        .version = "9.8.7", .commit = "abc", .libraries = "{}", .reloads = &fake_reloads};

    memset(world, 0, sizeof *world);
    world->fd = -1;
    backend_start(world);
    fake_settings(&world->settings);
    world->settings.tls = tls;
    world->api = api_new(&world->settings, &build, &world->fake.backend,
                         auth != NULL ? auth : fake_auth(), NULL, NULL);
    ASSERT(http_server_make(&world->settings, &world->api->ids.service, &world->server) == 0);
    world->loop = http_server_loop(world->server, 0);
    conn_world_reset(world);
}

void conn_world_stop(struct conn_world *world)
{
    still_ms = 0;
    http_server_stop(world->server);
    api_free(world->api);
    fake_stop(&world->fake);
    buf_free(&world->replies);
    buf_free(&world->asked);
    buf_free(&world->names);
}

void conn_world_reset(struct conn_world *world)
{
    struct http_loop *loop = world->loop;

    ASSERT(world->fd < 0);
    fake_stop(&world->fake);
    backend_start(world);
    fake_set_waker(&world->fake, &world->api->waker);
    memset(&loop->conns.counts, 0, sizeof loop->conns.counts);
    memset(&loop->conns.latency, 0, sizeof loop->conns.latency);
    memset(&world->api->loops[0]->counts, 0, sizeof world->api->loops[0]->counts);
    prng_seed(&world->api->loops[0]->prng, 1);
    loop->conns.date_until_ms = 0;
    timer_cancel(&loop->conns.timers, &world->api->loops[0]->snowflake_retry);
    loop->timer_due_ms = UINT64_MAX;
    ASSERT(uv_timer_stop(&loop->timer) == 0);
    still_ms = START_MS;
    world->replies.len = 0;
    world->asked.len = 0;
    world->names.len = 0;
}

void conn_world_connect(struct conn_world *world)
{
    static const struct sockaddr nobody = {.sa_family = AF_UNSPEC};
    const struct listener resp = {.talker = &resp_talker,
                                  .idle_ms = LIMIT_RESP_IDLE_MS,
                                  .tls = world->loop->conns.tls != NULL};
    int fds[2];

    ASSERT(world->fd < 0);
    ASSERT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) == 0);
    conns_take(&world->loop->conns,
               world->resp ? &resp : &world->loop->acceptors[ACCEPT_HTTP].listener, fds[0],
               world->peer != NULL ? world->peer : &nobody);
    world->fd = fds[1];
    world->ended = false;
    come_to_rest(world);
}

void conn_world_send(struct conn_world *world, const void *data, size_t len)
{
    const char *at = data;

    while (len > 0 && !world->ended) {
        ssize_t sent = send(world->fd, at, len, MSG_NOSIGNAL);

        ASSERT(sent >= 0 || errno == EAGAIN || errno == EPIPE || errno == ECONNRESET);
        if (sent < 0 && errno != EAGAIN) {
            break;
        }
        at += sent > 0 ? sent : 0;
        len -= sent > 0 ? (size_t)sent : 0;
        conn_world_rest(world);
    }
}

void conn_world_disconnect(struct conn_world *world)
{
    struct http_loop *loop = world->loop;

    world->late = false;
    conn_world_rest(world); /* it waits for its replies before it says that it is through */
    (void)shutdown(world->fd, SHUT_WR);
    conn_world_rest(world);
    ASSERT(world->ended);
    close(world->fd);
    world->fd = -1;
    conn_world_rest(world);
    ASSERT(loop->conns.counts.conns == 0);
    ASSERT(loop->conns.meter.body_bytes == 0);
    ASSERT(world->api->loops[0]->waiters.count == 0);
    ASSERT(loop->conns.queue_len == 0 && TAILQ_EMPTY(&loop->conns.queue));
    /* One more try for nobody may be left. */
    timer_cancel(&loop->conns.timers, &world->api->loops[0]->snowflake_retry);
    ASSERT(timers_next_ms(&loop->conns.timers) == TIMER_NEVER);
}

void conn_world_send_text(struct conn_world *world, const char *text)
{
    conn_world_send(world, text, strlen(text));
}

void conn_world_expect_status(struct conn_world *world, const char *status)
{
    ASSERT(world->replies.len > 12 && memcmp(world->replies.data + 9, status, 3) == 0);
    world->replies.len = 0;
}
