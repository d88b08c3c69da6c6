/*
 * listeners.h - the HTTP side of a node: the listener for ids, the one for operators, their
 * certificate and tokens, and their limits of connections.
 *
 * With `admin.listen` = "same" there is one server, which has all routes. Else there are two, each
 * with its own threads, limits of connections and reserve descriptor: load on the admin listener
 * does not affect ids, and vice versa.
 *
 * Open files: connections to peers, the store and the node's loops come first. However many clients
 * connect, a returning peer and the node's next file get a descriptor. The rest is divided among
 * the HTTP threads.
 *
 * A node that waits to be let in by its cluster has the same listeners over a backend that has no
 * cluster: health is answered, and requests that need the cluster get 503, so that a supervisor can
 * distinguish such a node from a dead one.
 *
 * The happy path: files_bound(); certificate_start(); waiting_begin() and waiting_end() if the
 * node has to be let in; listeners_open(); listeners_retire() and listeners_drain() when the node
 * must stop; listeners_close() when no request is left; certificate_end(). SIGHUP reloads the
 * tokens and the certificate: certificate_reload_part and listeners_reload_part are parts of a
 * reload (reload.h), and no connection is dropped.
 *
 * Failure modes: an address that cannot be bound: ERR_EXISTS, ERR_INVALID or ERR_IO, and nothing is
 * open; while the node waits: logged, and it waits without listeners. An invalid tokens file or
 * certificate: ERR_INVALID with setting and file; at a reload the old one stays in force. A reload
 * switches TLS neither on nor off.
 *
 * Thread: main. But an HTTP thread calls drained and, while the node waits, the backend's
 * functions.
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
    struct tls_context *next; /* prepared; owned; NULL: none */
};

/* 0, also where the settings name no certificate; or ERR_INVALID, logged: the settings were checked
 * already, but the files may have changed since. */
int certificate_start(struct certificate *certificate, const struct config *config) MUST_CHECK;

/* All listeners must be closed. */
void certificate_end(struct certificate *certificate);

extern const struct reload_part certificate_reload_part; /* its data: a struct certificate */

/* --- open files --- */

#define FILES_CONNECTIONS_MIN 16

/* Limits of connections of each HTTP thread, and of the admin listener's thread. */
struct files_split {
    uint32_t connections;
    uint32_t admin_connections; /* 0: no admin listener */
};

/* Descriptors reserved from clients, for this number of HTTP threads of all listeners. */
uint64_t files_kept(uint32_t loops);

/* Divide the rest of the `allowed` descriptors: at most the wanted number, at least
 * FILES_CONNECTIONS_MIN (or the wanted number, if less). admin_wanted: 0: no admin listener; else
 * it has one thread, and gets a quarter of the rest. */
void files_divide(uint64_t allowed, uint32_t loops, uint32_t wanted, uint32_t admin_wanted,
                  struct files_split *ret_split);

/* --- threads --- */

/* Does the system allow the threads of a node: the writer's, those of HTTP and libuv's pool, which
 * looks names up? If not, logged: false. The pool begins here, by an empty `work`: libuv ends the
 * process where a later first look-up would find no threads. */
bool threads_bound(const struct config *config, uv_loop_t *loop, uv_work_t *work);

/* --- the listeners --- */

#define LISTENERS_MAX 2

struct listeners {
    const struct config *config;
    struct http_settings settings[LISTENERS_MAX]; /* of the servers below */
    struct auth *auth;                            /* NULL: not open */
    struct api *api;
    struct http_server *servers[LISTENERS_MAX]; /* ids first */
    unsigned count;                             /* 0: not open */
    size_t tokens_before;                       /* of the last reload */
    size_t tokens_after;
    _Atomic unsigned draining;
    void (*drained)(void *data);
    void *data;
};

/* Divide as many as the system allows for these settings, and log it. False: too few to start. */
bool files_bound(const struct config *config, struct files_split *ret_files);

/* Is there one listener for all? */
bool listeners_are_joined(const struct config *config);

/* Open them for this node, with these limits of connections. tls: for both; borrowed until they are
 * closed; NULL: plain HTTP. The first error is logged. */
int listeners_open(struct listeners *listeners, const struct config *config, struct tls *tls,
                   const struct http_build *build, struct id_backend *backend,
                   const struct files_split *files) MUST_CHECK;

/* Has each HTTP loop taken a turn since the last call? True where they are not open. */
bool listeners_take_turns(struct listeners *listeners);

/* Each reply is its connection's last from now on; idle ones are closed one by one over over_ms. */
void listeners_retire(struct listeners *listeners, uint32_t over_ms);

/* Next: accept no more, answer open requests; drained is called once, when all connections are
 * closed. */
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
