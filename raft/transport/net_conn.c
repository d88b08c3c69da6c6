/*
 * net_conn.c - see net_conn.h.
 */
#include "raft/transport/net_conn.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "src/base/address.h"
#include "src/base/assert.h"
#include "src/base/container.h"

/* --- net_hub --- */

static uint32_t or_default(uint32_t value, uint32_t standard)
{
    return value != 0 ? value : standard;
}

void net_hub_init(struct net_hub *hub, uv_loop_t *loop, const struct net_uv_config *config)
{
    *hub = (struct net_hub){.loop = loop, .config = *config};
    hub->config.connect_ms = or_default(config->connect_ms, LIMIT_CONNECT_MS);
    hub->config.handshake_ms = or_default(config->handshake_ms, LIMIT_HANDSHAKE_MS);
    hub->config.idle_ms = or_default(config->idle_ms, LIMIT_PEER_IDLE_MS);
    hub->config.stall_ms = or_default(config->stall_ms, LIMIT_PEER_STALL_MS);
    hub->config.silent_ms = or_default(config->silent_ms, LIMIT_PEER_SILENT_MS);
    (void)net_keys_ref(config->keys);
    prng_seed(&hub->prng, prng_entropy());
}

void net_hub_release(struct net_hub *hub)
{
    ASSERT(hub->alive_count > 0);
    hub->alive_count--;
    if (hub->alive_count == 0 && hub->all_gone != NULL) {
        ASSERT(hub->closing);
        net_keys_unref(hub->config.keys);
        hub->config.keys = NULL;
        hub->all_gone(hub);
    }
}

/* --- net_out --- */

#define SEALED_KEPT (128 << 10) /* a larger buffer goes back to the system */

/* What the next flush may still take. */
static size_t part_left(const struct net_out *out)
{
    const size_t sending_bytes = out->writing ? out->sending_bytes : 0;
    const size_t taken = out->queue_bytes - out->waiting_bytes - sending_bytes;

    return taken < NET_OUT_PART_BYTES ? NET_OUT_PART_BYTES - taken : 0;
}

static size_t tail_bytes(const struct entry_block *tail)
{
    return tail != NULL ? tail->len : 0;
}

void net_out_frame(struct net_out *out, enum frame_type type, struct buf *payload,
                   struct entry_block *tail)
{
    const size_t bytes = FRAME_HEADER_BYTES + payload->len + tail_bytes(tail);
    uint8_t header[FRAME_HEADER_BYTES];
    struct net_frame *frame;

    frame_header(header, type, payload->data, payload->len, tail);
    if (tail == NULL && out->waiting_bytes == 0 && bytes <= part_left(out)) {
        tls_channel_write(out->tls, header, sizeof header);
        tls_channel_write(out->tls, payload->data, payload->len);
        buf_free(payload);
    } else {
        frame = MUST_HAVE(calloc(1, sizeof *frame));
        memcpy(frame->header, header, sizeof header);
        buf_move(&frame->payload, payload);
        frame->tail = tail != NULL ? entry_block_ref(tail) : NULL;
        STAILQ_INSERT_TAIL(&out->waiting, frame, link);
        out->waiting_bytes += bytes;
    }
    out->queue_bytes += bytes;
}

static void drop_first(struct net_out *out)
{
    struct net_frame *frame = STAILQ_FIRST(&out->waiting);

    STAILQ_REMOVE_HEAD(&out->waiting, link);
    buf_free(&frame->payload);
    entry_block_unref(frame->tail);
    free(frame);
}

/* Seal up to `most` bytes of the frame, of its payload or of its tail. Returns their number. */
static size_t seal_some(struct net_out *out, struct net_frame *frame, size_t most)
{
    const size_t before = frame->payload.len;
    const bool in_tail = frame->at >= before;
    const size_t rest = in_tail ? before + tail_bytes(frame->tail) - frame->at : before - frame->at;
    const size_t part = rest < most ? rest : most;

    if (frame->at == 0) {
        tls_channel_write(out->tls, frame->header, sizeof frame->header);
    }
    if (part > 0) {
        tls_channel_write(out->tls,
                          in_tail ? frame->tail->data + (frame->at - before)
                                  : frame->payload.data + frame->at,
                          part);
    }
    frame->at += part;
    return part;
}

static void seal_waiting(struct net_out *out)
{
    size_t left = part_left(out);
    struct net_frame *frame;

    while (left > 0 && (frame = STAILQ_FIRST(&out->waiting)) != NULL) {
        const size_t part = seal_some(out, frame, left);

        left -= part;
        out->waiting_bytes -= part;
        if (frame->at == frame->payload.len + tail_bytes(frame->tail)) {
            out->waiting_bytes -= sizeof frame->header;
            drop_first(out);
        }
    }
}

bool net_out_waits(const struct net_out *out)
{
    return out->waiting_bytes > 0 && !out->writing;
}

static void write_cb(uv_write_t *write, int status)
{
    struct net_conn *conn = write->data;
    struct net_out *out = &conn->out;

    ASSERT(out->writing && out->queue_bytes >= out->sending_bytes);
    out->writing = false;
    out->queue_bytes -= out->sending_bytes;
    if (status < 0) {
        net_conn_close(conn, uv_strerror(status));
        return;
    }
    net_out_flush(out);
}

void net_out_flush(struct net_out *out)
{
    struct net_conn *conn = CONTAINER(out, struct net_conn, out);
    uv_stream_t *stream = (uv_stream_t *)&conn->tcp;
    struct buf spare = out->sealed;
    struct buf *from;
    uv_buf_t left;
    int rv;

    if (out->writing || conn->state == NET_CONN_CLOSING || out->tls == NULL) {
        return;
    }
    seal_waiting(out);
    tls_channel_seal(out->tls);
    from = &out->tls->out;
    if (from->len == 0) {
        return;
    }
    out->sealed = *from;
    *from = spare;
    from->len = 0;
    if (from->capacity > SEALED_KEPT) {
        buf_free(from);
    }
    left = uv_buf_init((char *)out->sealed.data, (unsigned)out->sealed.len);
    rv = uv_try_write(stream, &left, 1);
    out->write_ms = uv_now(stream->loop);
    if (rv == (int)left.len) {
        out->queue_bytes = out->waiting_bytes;
        return;
    }
    if (rv >= 0 || rv == UV_EAGAIN) { /* the part that the socket did not take */
        left.base += rv > 0 ? rv : 0;
        left.len -= rv > 0 ? (size_t)rv : 0;
        out->sending_bytes = out->queue_bytes - out->waiting_bytes;
        out->write.data = conn;
        rv = uv_write(&out->write, stream, &left, 1, write_cb);
        out->writing = rv == 0;
    }
    if (rv != 0) {
        net_conn_close(conn, uv_strerror(rv));
    }
}

/* --- net_conn --- */

#define CHECKS_PER_LIMIT 4 /* checks of a connection within the shortest of its times */

/* --- its life --- */

static void conn_unref(struct net_conn *conn)
{
    struct net_hub *hub = conn->hub;
    struct net_out *out = &conn->out;

    ASSERT(conn->ref_count > 0);
    conn->ref_count--;
    if (conn->ref_count > 0) {
        return;
    }
    ASSERT(conn->state == NET_CONN_CLOSING);
    if (conn->ops->freed != NULL) {
        conn->ops->freed(conn);
    }
    ASSERT(!out->writing);
    while (!STAILQ_EMPTY(&out->waiting)) {
        drop_first(out);
    }
    buf_free(&out->sealed);
    tls_channel_free(conn->out.tls);
    buf_free(&conn->decoder.buf);
    free(conn);
    net_hub_release(hub);
}

static void conn_close_cb(uv_handle_t *handle)
{
    conn_unref(handle->data);
}

struct net_conn *net_conn_new(struct net_hub *hub, enum net_conn_role role, uint64_t wanted_id,
                              const struct net_conn_ops *ops, void *owner)
{
    struct net_conn *conn = MUST_HAVE(calloc(1, sizeof *conn));

    ASSERT(!hub->closing && (wanted_id != 0) == (role == NET_CONN_DIALS));
    conn->hub = hub;
    conn->ops = ops;
    conn->owner = owner;
    conn->wanted_id = wanted_id;
    conn->role = role;
    conn->state = role == NET_CONN_ACCEPTS ? NET_CONN_HANDSHAKE : NET_CONN_RESOLVING;
    conn->decoder = (struct frame_decoder){0};
    ASSERT(uv_tcp_init(hub->loop, &conn->tcp) == 0);
    ASSERT(uv_timer_init(hub->loop, &conn->timer) == 0);
    conn->tcp.data = conn;
    conn->timer.data = conn;
    conn->ref_count = 2;
    STAILQ_INIT(&conn->out.waiting);
    conn->out.progress_ms = uv_now(hub->loop);
    hub->alive_count++;
    return conn;
}

static void deadline_cb(uv_timer_t *timer)
{
    struct net_conn *conn = timer->data;

    net_conn_close(conn, conn->state == NET_CONN_CONNECTING ? "no answer to connect"
                                                            : "handshake took too long");
}

/* The one place that changes the state. */
static void conn_move(struct net_conn *conn, enum net_conn_state to)
{
    static const unsigned allowed[] = {
        [NET_CONN_RESOLVING] = 1U << NET_CONN_CONNECTING | 1U << NET_CONN_CLOSING,
        [NET_CONN_CONNECTING] = 1U << NET_CONN_HANDSHAKE | 1U << NET_CONN_CLOSING,
        [NET_CONN_HANDSHAKE] =
            1U << NET_CONN_UP | 1U << NET_CONN_REJECTING | 1U << NET_CONN_CLOSING,
        [NET_CONN_REJECTING] = 1U << NET_CONN_CLOSING,
        [NET_CONN_UP] = 1U << NET_CONN_CLOSING,
        [NET_CONN_CLOSING] = 0,
    };

    ASSERT((allowed[conn->state] & 1U << to) != 0);
    conn->state = to;
    if (to == NET_CONN_CONNECTING) {
        ASSERT(uv_timer_start(&conn->timer, deadline_cb, conn->hub->config.connect_ms, 0) == 0);
    }
}

void net_conn_close(struct net_conn *conn, const char *reason)
{
    enum net_conn_state from = conn->state;

    if (from == NET_CONN_CLOSING) {
        return;
    }
    conn_move(conn, NET_CONN_CLOSING); /* closing the stream ends a write under way */
    if (conn->resolving) {
        (void)uv_cancel((uv_req_t *)&conn->resolve);
    }
    uv_close((uv_handle_t *)&conn->tcp, conn_close_cb);
    uv_close((uv_handle_t *)&conn->timer, conn_close_cb);
    conn->ops->down(conn, from, reason);
}

/* --- up --- */

/* A fraction of the shortest of the connection's times. */
static uint64_t check_interval_ms(const struct net_conn *conn)
{
    const struct net_uv_config *config = &conn->hub->config;
    uint64_t ms = config->silent_ms;

    if (conn->role == NET_CONN_DIALS) {
        ms = config->stall_ms < config->idle_ms ? config->stall_ms : config->idle_ms;
    }
    return ms / CHECKS_PER_LIMIT > 0 ? ms / CHECKS_PER_LIMIT : 1;
}

void net_conn_check(uv_timer_t *timer)
{
    struct net_conn *conn = timer->data;
    struct net_out *out = &conn->out;
    const struct net_uv_config *config = &conn->hub->config;
    const size_t unsent_bytes = uv_stream_get_write_queue_size((uv_stream_t *)&conn->tcp);
    uint64_t now_ms = uv_now(conn->hub->loop);
    struct buf nothing = BUF_INIT;

    ASSERT(conn->state == NET_CONN_UP);
    if (conn->expires_ms != 0 && now_ms >= conn->expires_ms) {
        net_conn_close(conn, "its secret was exchanged");
        return;
    }
    if (now_ms - conn->keyed_ms >= LIMIT_REKEY_MS) {
        conn->keyed_ms = now_ms;
        tls_channel_rekey(out->tls);
    }
    if (unsent_bytes == 0 || unsent_bytes != out->unsent_bytes) {
        out->unsent_bytes = unsent_bytes;
        out->progress_ms = now_ms;
    }
    if (conn->role != NET_CONN_DIALS) {
        if (now_ms - conn->read_ms >= config->silent_ms) {
            net_conn_close(conn, "the peer is silent");
        }
    } else if (now_ms - out->progress_ms >= config->stall_ms) {
        net_conn_close(conn, "the peer takes no data");
    } else if (out->queue_bytes == 0 && now_ms - out->write_ms >= config->idle_ms) {
        net_out_frame(out, FRAME_PING, &nothing, NULL);
        net_out_flush(out);
    }
}

bool net_conn_keys_changed(struct net_conn *conn, uint32_t wait_ms)
{
    const uint64_t interval_ms = check_interval_ms(conn);

    if (conn->state != NET_CONN_UP || conn->expires_ms != 0 ||
        net_keys_find(conn->hub->config.keys, conn->out.tls->peer.credential_id) != NULL) {
        return false;
    }
    ASSERT(conn->out.tls->state == CHANNEL_OPEN);
    conn->expires_ms = uv_now(conn->hub->loop) + wait_ms;
    ASSERT(uv_timer_start(&conn->timer, net_conn_check, wait_ms, interval_ms) == 0);
    return true;
}

/* --- input --- */

static void handshake_frame(struct net_conn *conn, const struct frame *frame)
{
    const uint64_t interval_ms = check_interval_ms(conn);
    BUF_LOCAL(out);

    handshake_receive(&conn->handshake, frame->type, frame->payload, frame->len, &out);
    tls_channel_write(conn->out.tls, out.data, out.len);
    net_out_flush(&conn->out);
    if (conn->state == NET_CONN_CLOSING) {
        return;
    }
    if (conn->handshake.state == HANDSHAKE_DONE) {
        conn_move(conn, NET_CONN_UP);
        conn->was_up = true;
        conn->up_ms = uv_now(conn->hub->loop);
        conn->keyed_ms = conn->up_ms;
        ASSERT(uv_timer_start(&conn->timer, net_conn_check, interval_ms, interval_ms) == 0);
        if (conn->role == NET_CONN_ACCEPTS) {
            conn->decoder.is_open = true;
        }
        conn->ops->up(conn);
    } else if (conn->handshake.state == HANDSHAKE_ANSWERED && conn->role == NET_CONN_JOINS) {
        conn->ops->answered(conn, frame);
    } else if (conn->handshake.state == HANDSHAKE_ANSWERED) {
        conn_move(conn, NET_CONN_REJECTING); /* until the other side has read it and closes */
    } else if (conn->handshake.state == HANDSHAKE_FAILED) {
        conn->ops->failed(conn);
        if (conn->role == NET_CONN_ACCEPTS) {
            conn_move(conn, NET_CONN_REJECTING); /* likewise */
        }
    }
}

static void take_plain(struct net_conn *conn, const uint8_t *data, size_t len)
{
    const char *reason;
    struct frame frame;
    int rv;

    conn->read_ms = uv_now(conn->hub->loop);
    while (conn->state == NET_CONN_HANDSHAKE || conn->state == NET_CONN_UP) {
        rv = frame_decoder_next(&conn->decoder, &data, &len, &frame);
        if (rv == 0) {
            return;
        }
        if (rv < 0) {
            reason = rv == ERR_BAD_VERSION ? "frame of an unknown version"
                     : rv == ERR_TOO_LARGE ? "frame too large"
                     : rv == ERR_CORRUPT   ? "frame with a wrong checksum"
                                           : "malformed frame or unknown type";
            net_conn_close(conn, reason);
        } else if (conn->state == NET_CONN_HANDSHAKE) {
            handshake_frame(conn, &frame);
        } else if (conn->role == NET_CONN_DIALS) {
            net_conn_close(conn, "data on a link that only sends");
        } else if (frame.type != FRAME_PING) {
            ASSERT(!frame_is_handshake(frame.type));
            reason = conn->ops->frame(conn, &frame);
            if (reason != NULL) {
                net_conn_close(conn, reason);
            }
        }
    }
}

/* Continue the TLS handshake; true once the channel is open, when the handshake of nodes begins
 * with the facts that TLS has proved. TLS's output is written in any case, also the alert of a
 * failure. */
static bool secure(struct net_conn *conn)
{
    int rv = tls_channel_shake(conn->out.tls);
    const struct tls_peer *peer;
    BUF_LOCAL(out);

    if (rv <= 0) {
        net_out_flush(&conn->out);
    }
    if (rv < 0) {
        conn->untrusted = rv == ERR_REFUSED;
        net_conn_close(conn, conn->out.tls->reason);
    }
    if (rv <= 0) {
        return false;
    }
    peer = &conn->out.tls->peer;
    if (conn->role == NET_CONN_ACCEPTS) {
        handshake_accept(&conn->handshake, &conn->hub->config.self, peer);
    } else { /* of one that joins, wanted_id is 0 */
        handshake_dial(&conn->handshake, &conn->hub->config.self, conn->wanted_id, peer, &out);
    }
    tls_channel_write(conn->out.tls, out.data, out.len);
    net_out_flush(&conn->out);
    return conn->state == NET_CONN_HANDSHAKE;
}

/* One buffer for all connections: the input is consumed before the loop reads again. */
static void alloc_cb(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    struct net_conn *conn = handle->data;

    (void)suggested;
    *buf = uv_buf_init((char *)conn->hub->input, sizeof conn->hub->input);
}

/* libuv reads a stream up to 32 times before others get their turn: 2 MiB, to be decrypted. */
static void pause_input(struct net_conn *conn, size_t len)
{
    if (conn->state == NET_CONN_UP) {
        conn->hub->input_bytes += len;
        if (conn->hub->input_bytes >= NET_INPUT_TURN_BYTES) {
            (void)uv_read_stop((uv_stream_t *)&conn->tcp);
            conn->paused = true;
        }
    }
}

static void read_cb(uv_stream_t *stream, ssize_t len, const uv_buf_t *buf)
{
    struct net_conn *conn = stream->data;
    struct net_hub *hub = conn->hub;
    ssize_t got = 1;

    if (len < 0) {
        net_conn_close(conn, len == UV_EOF ? "closed by the peer" : uv_strerror((int)len));
        return;
    }
    if (len == 0) {
        return;
    }
    conn->heard = true;
    if (conn->state == NET_CONN_REJECTING) {
        return;
    }
    if (conn->out.tls == NULL) { /* an acceptor's first bytes */
        conn->out.tls = tls_channel_new(hub->config.keys, NULL, hub->config.self.node_id, 0);
    }
    tls_channel_feed(conn->out.tls, buf->base, (size_t)len);
    if (conn->out.tls->state == CHANNEL_OPEN || secure(conn)) {
        while (got > 0 && (conn->state == NET_CONN_HANDSHAKE || conn->state == NET_CONN_UP)) {
            got = tls_channel_read(conn->out.tls, hub->plain, sizeof hub->plain);
            if (got > 0) {
                take_plain(conn, hub->plain, (size_t)got);
            }
        }
        net_out_flush(&conn->out);
    }
    if (got < 0) {
        net_conn_close(conn, conn->out.tls->reason);
    }
    tls_channel_feed(conn->out.tls, NULL, 0);
    pause_input(conn, (size_t)len);
}

void net_conn_continue(struct net_conn *conn)
{
    int rv = 0;

    if (conn->paused && conn->state == NET_CONN_UP) {
        conn->paused = false;
        rv = uv_read_start((uv_stream_t *)&conn->tcp, alloc_cb, read_cb);
    }
    if (rv != 0) {
        net_conn_close(conn, uv_strerror(rv));
    }
}

/* --- the handshake --- */

void net_conn_begin(struct net_conn *conn)
{
    const struct net_uv_config *config = &conn->hub->config;
    unsigned timeout_ms = config->stall_ms;
    uv_os_fd_t fd;
    int rv;

    ASSERT(conn->state == NET_CONN_HANDSHAKE);
    ASSERT(uv_timer_start(&conn->timer, deadline_cb, config->handshake_ms, 0) == 0);
    conn->read_ms = uv_now(conn->hub->loop);
    /* Send small frames at once, and have the kernel give up on a peer that acknowledges nothing.
     * Neither is needed for correctness, so a failure is ignored. */
    (void)uv_tcp_nodelay(&conn->tcp, 1);
    if (uv_fileno((uv_handle_t *)&conn->tcp, &fd) == 0) {
        (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout_ms, sizeof timeout_ms);
    }
    rv = uv_read_start((uv_stream_t *)&conn->tcp, alloc_cb, read_cb);
    if (rv != 0) {
        net_conn_close(conn, uv_strerror(rv));
        return;
    }
    if (conn->role != NET_CONN_ACCEPTS) { /* an acceptor waits for the first byte */
        conn->out.tls = tls_channel_new(
            config->keys, &config->keys->credentials[conn->offer % config->keys->credential_count],
            config->self.node_id, conn->wanted_id);
        net_out_flush(&conn->out);
    }
}

/* --- dialling --- */

static void connect_cb(uv_connect_t *connect, int status)
{
    struct net_conn *conn = connect->data;

    if (conn->state == NET_CONN_CLOSING) {
        return;
    }
    if (status != 0) {
        conn->refused = status == UV_ECONNREFUSED;
        net_conn_close(conn, uv_strerror(status));
        return;
    }
    conn_move(conn, NET_CONN_HANDSHAKE);
    net_conn_begin(conn);
}

static void conn_connect_to(struct net_conn *conn, const struct sockaddr *address)
{
    int rv;

    conn_move(conn, NET_CONN_CONNECTING);
    conn->connect.data = conn;
    rv = uv_tcp_connect(&conn->connect, &conn->tcp, address, connect_cb);
    if (rv != 0) {
        net_conn_close(conn, uv_strerror(rv));
    }
}

static void resolve_cb(uv_getaddrinfo_t *resolve, int status, struct addrinfo *result)
{
    struct net_conn *conn = resolve->data;
    const struct addrinfo *address;
    unsigned count = 0;

    conn->resolving = false;
    for (address = result; address != NULL; address = address->ai_next) {
        count++;
    }
    /* Addresses take turns, so that a dead one does not hide the others. */
    address = result;
    for (unsigned turn = count > 0 ? conn->turn % count : 0; turn > 0; turn--) {
        address = address->ai_next;
    }
    if (conn->state != NET_CONN_CLOSING && (status != 0 || result == NULL)) {
        net_conn_close(conn, status != 0 ? uv_strerror(status) : "the name has no address");
    } else if (conn->state != NET_CONN_CLOSING) {
        conn_connect_to(conn, address->ai_addr);
    }
    uv_freeaddrinfo(result);
    conn_unref(conn);
}

void net_conn_dial(struct net_conn *conn, const char *address, unsigned turn, unsigned credential)
{
    const struct addrinfo hints = address_hints();
    struct sockaddr_storage literal;
    struct address parsed;
    int rv;

    ASSERT(conn->role != NET_CONN_ACCEPTS && conn->state == NET_CONN_RESOLVING);
    conn->turn = turn;
    conn->offer = credential;
    if (address_split(address, &parsed) != 0) {
        net_conn_close(conn, "its address is not host:port");
        return;
    }
    if (address_literal(&parsed, &literal)) {
        conn_connect_to(conn, (const struct sockaddr *)&literal);
        return;
    }
    conn->resolve.data = conn;
    rv = uv_getaddrinfo(conn->hub->loop, &conn->resolve, resolve_cb, parsed.host, parsed.port,
                        &hints);
    if (rv != 0) {
        net_conn_close(conn, uv_strerror(rv));
        return;
    }
    conn->resolving = true;
    ASSERT(conn->ref_count > 0);
    conn->ref_count++;
}
