/*
 * client.h - who is at the other end of connections: what all of a client's connections, on all
 * loops, hold and use together.
 *
 * A client is an address (an IPv6 one by its /64, which one household has), or the name of the
 * token that a request came with. There is one record for each, so that shares and quotas hold for
 * a client and not for each of its connections.
 *
 * The happy path: clients_of_address() when a connection is accepted gives a record with a
 * reference, which clients_release() gives back when the connection ends. In between each request
 * is charged by client_charge(): a load, and a compare-and-swap where there is a quota. A record
 * that nobody refers to is kept for a while, since a quota would otherwise be evaded by
 * connecting anew.
 *
 * Failure modes: a client that has used up its quota is told when to come again. The table is
 * bounded: beyond LIMIT_CLIENTS the record that was idle for longest goes, and when none is idle,
 * whoever is new shares one record ("others") with everybody else who came too late.
 *
 * Threads: any. The table is guarded by a mutex, which is taken when a connection begins and ends,
 * never for a request. A record's counts are atomic.
 */
#ifndef LEAFD_HTTP_SERVER_CLIENT_H
#define LEAFD_HTTP_SERVER_CLIENT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/socket.h>

#include "src/base/hash.h"
#include "src/base/hot.h"
#include "src/base/limits.h"

/* What a client may use and hold, on this node; 0: as much as there is. */
struct client_quotas {
    uint32_t requests_per_s;
    uint32_t ids_per_s;
    uint32_t connections;
    uint32_t bodies; /* request bodies that are being received */
};

/* Of a rate: up to when what was used is paid for, on the clock of charging. */
struct client_rate {
    _Atomic uint32_t per_s; /* 0: no quota */
    _Atomic uint64_t until_ns;
};

struct http_client {
    /* Each request looks at these. */
    struct client_rate requests;
    struct client_rate ids;
    _Atomic uint64_t refused; /* requests, connections and bodies, for a quota or a share */
    _Atomic uint64_t told_ms; /* when the log last said that it is over a quota; 0: never */
    /* What its connections hold. */
    _Atomic uint32_t connections;
    _Atomic uint32_t connections_max; /* 0: no quota; so below */
    _Atomic uint32_t bodies;
    _Atomic uint32_t bodies_max;
    _Atomic uint64_t body_bytes; /* of large bodies */
    _Atomic uint32_t streams;    /* replies without an end, which the service counts */
    /* Fixed. */
    uint64_t id;   /* a hash of the name and its kind: the same on all nodes */
    uint32_t hash; /* and one by the table's seed */
    bool is_local; /* this machine's own address: there may be many behind it */
    bool is_named; /* by a token */
    uint16_t name_len;
    char name[LIMIT_CLIENT_NAME_BYTES + 1];
    /* The table's. */
    uint32_t refs;
    struct hash_link link;
    TAILQ_ENTRY(http_client) idle_link;
};

struct clients;

/* quotas: of addresses, copied. max: records, 1 to LIMIT_CLIENTS, beside "others". */
struct clients *clients_new(const struct client_quotas *quotas, size_t max);

/* No record is referred to. */
void clients_free(struct clients *clients);

/* The record of an address, or of a token's name (1 to LIMIT_CLIENT_NAME_BYTES bytes; longer ones
 * are cut), with one reference more. The quotas of a name are taken over, also by a record that is
 * there. An address that is neither IPv4 nor IPv6 is "local". Never NULL. */
struct http_client *clients_of_address(struct clients *clients, const struct sockaddr *address);
struct http_client *clients_of_name(struct clients *clients, const char *name, size_t len,
                                    const struct client_quotas *quotas);

/* The id that the record of this name has, whether there is one or not. */
uint64_t client_id_of_name(const char *name, size_t len);

/* One reference more. */
void clients_hold(struct clients *clients, struct http_client *client);

/* Give a reference back. */
void clients_release(struct clients *clients, struct http_client *client);

/* What one loop tells in the log of clients that are over their quotas. */
struct client_lines {
    uint64_t second;    /* in which lines are counted, of the loop's clock */
    uint32_t in_second; /* lines in it */
    uint64_t more;      /* clients that would have had a line since the last one */
};

/* Is it time to tell that this client is over a quota? Once in CLIENT_TOLD_MS of each, and only
 * LIMIT_QUOTA_LINES_PER_S lines a second in all. *ret_more: how many were not told since the last
 * line; they count as told now. */
#define CLIENT_TOLD_MS 60000
bool client_tells(struct http_client *client, struct client_lines *lines, uint64_t now_ms,
                  uint64_t *ret_more);

/* Records that there are, idle ones too. */
size_t clients_count(struct clients *clients);

static inline bool client_has_quota(const struct client_rate *rate)
{
    return atomic_load_explicit(&rate->per_s, memory_order_relaxed) != 0;
}

/* Charge so many requests or ids. 0: go on; else nothing was charged, and the client may come again
 * after so many seconds. What is charged may be more than is left: the debt is paid before the next
 * one. So a quota of 1,000 ids a second lets 100,000 through, and then nothing for 99 s. A second's
 * worth may be used at once. */
uint32_t client_charge(struct client_rate *rate, uint64_t amount, uint64_t now_ms);

#endif
