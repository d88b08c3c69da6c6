/*
 * listeners.h - the HTTP side of a node: the listener for ids, the one for operators, the
 * certificate that they show, the tokens that they ask for, and how many connections each may have.
 *
 * With `admin.listen` = "same" there is one server, which has all routes. Else there are two, each
 * with its own threads, limits of connections and descriptor in reserve: whatever is done at the
 * admin listener, ids are served beside it, and vice versa.
 *
 * Open files: connections to peers, the store and the loops of the node come first: however many
 * clients connect, a peer that comes back finds a descriptor, and so does the node's next file.
 * What is left is divided among the HTTP threads.
 *
 * A node that waits to be let in by its cluster has the same listeners over a backend that has no
 * cluster: health is answered, and whatever needs the cluster gets 503, so that a supervisor can
 * tell such a node from a dead one.
 *
 * The happy path: certificate_start(); files_divide(); waiting_begin() and waiting_end() if the
 * node has to be let in; listeners_open(); listeners_retire() and listeners_drain() when the node
 * is to stop; listeners_close() when nobody asks the node any more; certificate_end(). By SIGHUP
 * the tokens and the certificate are read again: certificate_reload_part and listeners_reload_part
 * are parts of a reload (reload.h), and no connection is dropped.
 *
 * Failure modes: an address that cannot be bound: ERR_EXISTS, ERR_INVALID or ERR_IO, and nothing is
 * open; while the node waits: logged, and it waits without listeners. A tokens file or certificate
 * that is not valid: ERR_INVALID with setting and file; at a reload the old one stays in force. TLS
 * is neither switched on nor off by a reload.
 *
 * Thread: main, but for drained, which is called on a thread of HTTP, as are the functions of the
 * backend while the node waits.
 */
#ifndef LEAFD_NODE_LISTENERS_H
#define LEAFD_NODE_LISTENERS_H

#include <stdatomic.h>
#include <stdint.h>

#include "http/api/api.h"
#include "http/server/loop.h"
#include "http/tls/tls.h"
#include "src/node/config/config.h"
#include "src/node/reload.h"

/* --- the certificate --- */

struct certificate {
    struct tls *tls;          /* owned; for the listeners; NULL: plain HTTP */
    struct tls_context *next; /* prepared; owned; NULL: nothing is */
};

/* 0, also where the settings name no certificate; or ERR_INVALID. */
int certificate_start(struct certificate *certificate, const struct config *config,
                      struct config_error *ret_error) MUST_CHECK;

/* All listeners are closed. */
void certificate_end(struct certificate *certificate);

extern const struct reload_part certificate_reload_part; /* its data: a struct certificate */

/* --- open files --- */

#define FILES_CONNECTIONS_MIN 16

/* Connections that each HTTP thread may have, and the one of the admin listener. */
struct files_split {
    uint32_t connections;
    uint32_t admin_connections; /* 0: there is no such listener */
};

/* Descriptors that are kept from clients, with so many HTTP threads, of all listeners. */
uint64_t files_kept(uint32_t loops);

/* Without so many a node does not start at all. */
uint64_t files_least(uint32_t loops);

/* Divide what the `allowed` descriptors leave: at most what is wanted, at least
 * FILES_CONNECTIONS_MIN (or what is wanted, if that is less). admin_wanted: 0: there is no admin
 * listener; else it has one thread, and gets a quarter of what is left. */
void files_divide(uint64_t allowed, uint32_t loops, uint32_t wanted, uint32_t admin_wanted,
                  struct files_split *ret_split);

/* --- the listeners --- */

#define LISTENERS_MAX 2

struct listeners {
    const struct config *config;
    struct http_settings settings[LISTENERS_MAX]; /* as the servers below have them */
    struct auth *auth;                            /* NULL: not open */
    struct api *api;
    struct http_server *servers[LISTENERS_MAX]; /* ids first */
    unsigned count;
    size_t tokens_before; /* of the last reload */
    size_t tokens_after;
    _Atomic unsigned draining;
    void (*drained)(void *data);
    void *data;
};

/* Is there one listener for all? */
bool listeners_are_joined(const struct config *config);

/* Open them for this node, with so many connections. tls: both have it; borrowed until they are
 * closed; NULL: plain HTTP. The first error is logged. */
int listeners_open(struct listeners *listeners, const struct config *config, struct tls *tls,
                   const struct http_build *build, struct id_backend *backend,
                   const struct files_split *files) MUST_CHECK;

bool listeners_are_open(const struct listeners *listeners);

/* Has each HTTP loop taken a turn since the last call? True where they are not open. */
bool listeners_take_turns(struct listeners *listeners);

/* Each reply is its connection's last from now on; idle ones end one by one over so long. */
void listeners_retire(struct listeners *listeners, uint32_t over_ms);

/* Then: accept no more, answer what is under way; drained is called once, when all connections are
 * gone. */
void listeners_drain(struct listeners *listeners, uint32_t grace_ms, void (*drained)(void *data),
                     void *data);

/* Idempotent; also where they are not open. */
void listeners_close(struct listeners *listeners);

/* The tokens; its data: a struct listeners. */
extern const struct reload_part listeners_reload_part;

/* --- while the node waits to be let in --- */

struct waiting;

/* All arguments are borrowed until waiting_end(). NULL: the listeners could not be opened. */
struct waiting *waiting_begin(const struct config *config, struct tls *tls,
                              const struct http_build *build, const struct files_split *files);

/* Accepts NULL. */
void waiting_end(struct waiting *waiting);

#endif
