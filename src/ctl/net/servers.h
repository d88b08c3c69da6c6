/*
 * servers.h - the addresses that were given, and which door each of them is.
 *
 * A server is "host:port", or the same behind "http://" or "https://". Where nothing says how to
 * ask, TLS is spoken if an authority or a certificate was given.
 *
 * A node has two doors, and a route is served at one of them. Which door an address is shows only
 * by an answer: 404 other_door, which also names the other door's address. That one is asked from
 * then on, but not if it is a loopback address of another machine: here that would be another node.
 *
 * Failure modes: ERR_INVALID with a text that names the address. Thread: one.
 */
#ifndef LEAFD_CTL_NET_SERVERS_H
#define LEAFD_CTL_NET_SERVERS_H

#include <stdbool.h>

#include "src/base/address.h"
#include "src/base/buf.h"
#include "src/ctl/net/settings.h"

#define SERVERS_MAX 32

enum door { DOOR_OF_IDS, DOOR_OF_ADMIN, DOORS };

struct server {
    char address[LIMIT_ADDRESS_BYTES + 16]; /* as it was given, without http:// */
    bool tls;
    bool is_not[DOORS];                              /* it answered other_door */
    char other[DOORS][LIMIT_ADDRESS_BYTES + 1];      /* what is served there instead, or empty */
    char elsewhere[DOORS][LIMIT_ADDRESS_BYTES + 96]; /* why that cannot be asked, or empty */
};

struct servers {
    struct server list[SERVERS_MAX];
    size_t count;
};

int servers_parse(struct servers *servers, const struct settings *settings,
                  struct buf *why) MUST_CHECK;

/* At which door a target ("/api/tags?limit=1") is served. Health and metrics: at both. */
enum door servers_door(const char *target);

/* The address to ask there for this door; NULL: there is none that is known. */
const char *server_address(const struct server *server, enum door door);

/* It answered other_door with this message. True: server_address() has another one now. */
bool server_learn(struct server *server, enum door door, const char *message);

#endif
