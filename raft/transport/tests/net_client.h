/*
 * net_client.h - one end of a peer connection by hand: a plain socket, driven byte by byte.
 *
 * As a dialler it is the hostile client; as an acceptor the peer that answers wrongly or not.
 * The sockets never block, since the node under test runs in the same thread.
 *
 * Thread: the test's.
 */
#ifndef LEAFD_RAFT_TRANSPORT_TESTS_NET_CLIENT_H
#define LEAFD_RAFT_TRANSPORT_TESTS_NET_CLIENT_H

#include "raft/transport/handshake.h"
#include "raft/transport/net_keys.h"
#include "raft/transport/tests/net_fixture.h"
#include "raft/wire/wire.h"

struct net_client {
    struct net_world *world;
    int fd;                       /* -1: closed or not accepted yet */
    struct buf *record;           /* if not NULL: gets a copy of all that goes out */
    struct buf input;             /* received and not taken */
    bool ended;                   /* the other side closed */
    struct net_receiver receiver; /* of its handshakes */
    struct handshake_config config;
    struct handshake handshake;
    const char *secret;      /* its name (net_fixture_keys) */
    struct tls_channel *tls; /* NULL until it is secured */
    struct tls_peer proof;   /* for its handshakes: by TLS */
};

/* A socket connected to the node; claims to be `id` with its store, cluster and secret. */
void net_client_connect(struct net_client *client, struct net_node *node, uint64_t id);
/* A socket connected to a listening one of the test, which need not accept it. */
void net_client_connect_to(struct net_client *client, struct net_world *world, int listen_fd);
void net_client_close(struct net_client *client);

/* Dial with TLS, as its own id, until it is open; or answer one who does. What is written and read
 * goes through it from then on. */
void net_client_secure(struct net_client *client, uint64_t wanted);
void net_server_secure(struct net_client *client);

/* Write all (small amounts, or the test fails), through TLS if that is open. */
void net_client_write(struct net_client *client, const void *data, size_t len);
void net_client_write_frame(struct net_client *client, enum frame_type type, const void *payload,
                            size_t len);

/* Read what is there into input. True if the other side has closed. */
bool net_client_ended(struct net_client *client);

/* True if a whole frame is in the input (and reads what is there). */
bool net_client_has_frame(struct net_client *client);

/* Take the frame that is there: copies its payload. */
enum frame_type net_client_take_frame(struct net_client *client, struct buf *ret_payload);

/* Bytes as they are. */
void net_client_write_raw(struct net_client *client, const void *data, size_t len);

/* Dial the node's handshake to its end, with TLS; the connection is up. */
void net_client_shake(struct net_client *client, uint64_t wanted);

/* A listening socket on 127.0.0.1; ret_address gets "127.0.0.1:port" (64 bytes). */
int net_server_listen(char *ret_address);

/* Wait for the node to dial it, as `id`. */
void net_server_accept(struct net_client *client, struct net_world *world, int listen_fd,
                       uint64_t id);

/* Answer the dialler's handshake to its end, with TLS. */
void net_server_shake(struct net_client *client);

#endif
