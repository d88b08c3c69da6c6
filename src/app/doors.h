/*
 * doors.h - the HTTP side of a node: the door for ids, the one for operators, and who may come in.
 *
 * With `admin.listen` = "same" there is one server, which has all routes. Else there are two, each
 * with its own threads, limits of connections and descriptor in reserve: whatever is done at the
 * admin door, ids are served beside it, and the other way round.
 *
 * The happy path: doors_open(), doors_retire() and doors_drain() when the node is to stop,
 * doors_close() when nobody asks the node any more. doors_reload_part() has the tokens read again
 * by SIGHUP.
 *
 * Failure modes: an address that cannot be bound: ERR_EXISTS, ERR_INVALID or ERR_IO, and nothing is
 * open; a tokens file that is not valid: ERR_INVALID, and at a reload the old one stays in force.
 *
 * Thread: main, but for drained, which is called on a thread of HTTP.
 */
#ifndef LEAFD_APP_DOORS_H
#define LEAFD_APP_DOORS_H

#include <stdatomic.h>

#include "http/api/api.h"
#include "http/server/loop.h"
#include "src/app/config/config.h"
#include "src/app/files.h"
#include "src/app/reload.h"

#define DOORS_MAX 2

struct doors {
    const struct config *config;
    struct http_settings settings[DOORS_MAX]; /* as the servers below have them */
    struct auth *auth;                        /* NULL: not open */
    struct api *api;
    struct http_server *servers[DOORS_MAX]; /* ids first */
    unsigned count;
    size_t tokens_before; /* of the last reload */
    size_t tokens_after;
    _Atomic unsigned draining;
    void (*drained)(void *data);
    void *data;
};

/* Is there one door for all? */
bool doors_are_joined(const struct config *config);

/* Open them for this node, with so many connections. tls: both have it; borrowed until they are
 * closed; NULL: plain HTTP. The first error is logged. */
int doors_open(struct doors *doors, const struct config *config, struct tls *tls,
               const struct http_build *build, struct id_backend *backend,
               const struct files_split *files) MUST_CHECK;

bool doors_are_open(const struct doors *doors);

/* Has each HTTP loop taken a turn since the last call? True where they are not open. */
bool doors_take_turns(struct doors *doors);

/* Each reply is its connection's last from now on; idle ones end one by one over so long. */
void doors_retire(struct doors *doors, uint32_t over_ms);

/* Then: accept no more, answer what is under way; drained is called once, when all connections are
 * gone. */
void doors_drain(struct doors *doors, uint32_t grace_ms, void (*drained)(void *data), void *data);

/* Idempotent; also where they are not open. */
void doors_close(struct doors *doors);

/* The tokens, for reload_add(). */
struct reload_part doors_reload_part(struct doors *doors);

#endif
