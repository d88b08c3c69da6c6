/*
 * net_client.c - see net_client.h. Thread: the test's.
 */
#include "raft/transport/tests/net_client.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "src/tests/unit/test.h"

static int always_right(struct net_receiver *receiver, const struct net_claim *claim,
                        uint16_t *ret_level)
{
    (void)receiver;
    (void)ret_level;
    return claim->id > 0 && claim->store_id > 0 ? 0 : ERR_WRONG_NODE;
}

static void client_init(struct net_client *client, struct net_world *world, uint64_t id)
{
    memset(client, 0, sizeof *client);
    client->world = world;
    client->fd = -1;
    client->config.node_id = id;
    client->config.store_id = 1000 + id;
    client->config.cluster_id = "test";
    client->secret = "secret";
    client->config.receiver = &client->receiver;
    client->receiver.judge = always_right;
}

static struct sockaddr_in loopback(uint16_t port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

static void set_nonblocking(int fd)
{
    int flags = fcntl(fd, F_GETFL);

    assert_true(flags >= 0);
    assert_int_equal(fcntl(fd, F_SETFL, flags | O_NONBLOCK), 0);
}

/* The kernel completes the connection without the other side's help. */
static void connect_now(struct net_client *client, const struct sockaddr_in *address)
{
    client->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(client->fd >= 0);
    assert_int_equal(connect(client->fd, (const struct sockaddr *)address, sizeof *address), 0);
    set_nonblocking(client->fd);
}

void net_client_connect(struct net_client *client, struct net_node *node, uint64_t id)
{
    struct sockaddr_in address = loopback(net_uv_port(node->net));

    client_init(client, node->world, id);
    connect_now(client, &address);
}

void net_client_connect_to(struct net_client *client, struct net_world *world, int listen_fd)
{
    struct sockaddr_in address = loopback(0);
    socklen_t len = sizeof address;

    client_init(client, world, 2);
    assert_int_equal(getsockname(listen_fd, (struct sockaddr *)&address, &len), 0);
    connect_now(client, &address);
}

void net_client_close(struct net_client *client)
{
    if (client->fd >= 0) {
        assert_int_equal(close(client->fd), 0);
    }
    client->fd = -1;
    tls_channel_free(client->tls);
    client->tls = NULL;
    buf_free(&client->input);
}

static void flush_tls(struct net_client *client)
{
    struct buf *out = &client->tls->out;

    if (out->len > 0) {
        net_client_write_raw(client, out->data, out->len);
        out->len = 0;
    }
}

void net_client_write(struct net_client *client, const void *data, size_t len)
{
    if (client->tls == NULL) {
        net_client_write_raw(client, data, len);
        return;
    }
    tls_channel_write(client->tls, data, len);
    tls_channel_seal(client->tls);
    flush_tls(client);
}

void net_client_write_raw(struct net_client *client, const void *data, size_t len)
{
    if (client->record != NULL) {
        buf_put(client->record, data, len);
    }
    assert_int_equal(send(client->fd, data, len, MSG_NOSIGNAL), (ssize_t)len);
}

void net_client_write_frame(struct net_client *client, enum frame_type type, const void *payload,
                            size_t len)
{
    struct buf frame = BUF_INIT;

    frame_put(&frame, type, payload, len);
    net_client_write(client, frame.data, frame.len);
    buf_free(&frame);
}

/* What came is plain bytes, or becomes them. */
static void take(struct net_client *client, const uint8_t *data, size_t len)
{
    uint8_t plain[16384];
    ssize_t got = 1;
    int rv = 1;

    if (client->tls == NULL) {
        buf_put(&client->input, data, len);
        return;
    }
    tls_channel_feed(client->tls, data, len);
    if (client->tls->state != CHANNEL_OPEN) {
        rv = tls_channel_shake(client->tls);
    }
    while (rv > 0 && got > 0) {
        got = tls_channel_read(client->tls, plain, sizeof plain);
        buf_put(&client->input, plain, got > 0 ? (size_t)got : 0);
    }
    client->ended = rv < 0 || got < 0;
    if (client->fd >= 0 && !client->ended) {
        flush_tls(client);
    }
    tls_channel_feed(client->tls, NULL, 0);
}

bool net_client_ended(struct net_client *client)
{
    uint8_t data[16384];
    ssize_t len;

    while (!client->ended) {
        len = recv(client->fd, data, sizeof data, MSG_DONTWAIT);
        if (len > 0) {
            take(client, data, (size_t)len);
        } else if (len < 0 && (errno == EAGAIN || errno == EINTR)) {
            break;
        } else {
            client->ended = true;
        }
    }
    return client->ended;
}

static size_t first_frame_bytes(const struct net_client *client)
{
    struct reader reader;

    reader_init(&reader, client->input.data, client->input.len);
    return 8 + (size_t)reader_u32(&reader);
}

bool net_client_has_frame(struct net_client *client)
{
    (void)net_client_ended(client);
    return client->input.len >= FRAME_HEADER_BYTES &&
           client->input.len >= first_frame_bytes(client);
}

enum frame_type net_client_take_frame(struct net_client *client, struct buf *ret_payload)
{
    const size_t bytes = first_frame_bytes(client);
    enum frame_type type;

    assert_true(bytes <= client->input.len && bytes >= FRAME_HEADER_BYTES);
    type = (enum frame_type)client->input.data[9];
    ret_payload->len = 0;
    buf_put(ret_payload, client->input.data + FRAME_HEADER_BYTES, bytes - FRAME_HEADER_BYTES);
    memmove(client->input.data, client->input.data + bytes, client->input.len - bytes);
    client->input.len -= bytes;
    return type;
}

/* Exchange frames until the handshake is over. */
static void shake(struct net_client *client, struct buf *out)
{
    struct buf payload = BUF_INIT;

    if (out->len > 0) {
        net_client_write(client, out->data, out->len);
    }
    out->len = 0;
    while (client->handshake.state != HANDSHAKE_DONE) {
        enum frame_type type;

        assert_true(client->handshake.state != HANDSHAKE_FAILED);
        RUN_UNTIL(client->world, net_client_has_frame(client));
        type = net_client_take_frame(client, &payload);
        handshake_receive(&client->handshake, type, payload.data, payload.len, out);
        if (out->len > 0) {
            net_client_write(client, out->data, out->len);
        }
        out->len = 0;
    }
    buf_free(&payload);
}

/* Wait for TLS, and tell the handshake what it has proved. */
static void secured(struct net_client *client, struct tls_channel *tls)
{
    client->tls = tls;
    flush_tls(client);
    RUN_UNTIL(client->world, net_client_ended(client) || tls->state == CHANNEL_OPEN);
    assert_false(client->ended);
    client->proof = *tls_channel_peer(tls);
}

static struct net_keys *keys_of(const struct net_client *client)
{
    return net_fixture_keys(client->config.cluster_id, client->secret, NULL);
}

void net_client_secure(struct net_client *client, uint64_t wanted)
{
    struct net_keys *keys = keys_of(client);

    secured(client, tls_channel_new(keys, &keys->credentials[0], client->config.node_id, wanted));
    net_keys_unref(keys);
}

void net_server_secure(struct net_client *client)
{
    struct net_keys *keys = keys_of(client);

    secured(client, tls_channel_new(keys, NULL, client->config.node_id, 0));
    net_keys_unref(keys);
}

void net_client_shake(struct net_client *client, uint64_t wanted)
{
    struct buf out = BUF_INIT;

    net_client_secure(client, wanted);
    handshake_dial(&client->handshake, &client->config, wanted, &client->proof, &out);
    shake(client, &out);
    buf_free(&out);
}

int net_server_listen(char *ret_address)
{
    struct sockaddr_in address = loopback(0);
    socklen_t len = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(fd, 8), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &len), 0);
    set_nonblocking(fd);
    (void)snprintf(ret_address, 64, "127.0.0.1:%u", (unsigned)ntohs(address.sin_port));
    return fd;
}

static bool try_accept(struct net_client *client, int listen_fd)
{
    client->fd = accept4(listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    return client->fd >= 0;
}

void net_server_accept(struct net_client *client, struct net_world *world, int listen_fd,
                       uint64_t id)
{
    client_init(client, world, id);
    RUN_UNTIL(world, try_accept(client, listen_fd));
}

void net_server_shake(struct net_client *client)
{
    struct buf out = BUF_INIT;

    net_server_secure(client);
    handshake_accept(&client->handshake, &client->config, &client->proof);
    RUN_UNTIL(client->world, net_client_has_frame(client));
    shake(client, &out);
    buf_free(&out);
}
