/*
 * protocol.h - requests and replies of what a load speaks: HTTP/1.1, Redis's RESP, and MariaDB's.
 *
 * A reply is taken off the front of the bytes that a connection has received; nothing is kept
 * between two calls. Of RESP and MariaDB there is only what a load that takes ids needs: a command
 * that gives an integer, and a statement without rows that sets LAST_INSERT_ID(), sent as text or
 * prepared, for the user "bench" without a password.
 *
 * Failure modes: what is no reply is broken, and so are an HTTP reply without a length and one
 * above PROTOCOL_REPLY_MAX. Thread: the load's.
 */
#ifndef LEAFD_SCRIPTS_BENCH_PROTOCOL_H
#define LEAFD_SCRIPTS_BENCH_PROTOCOL_H

#include <stdbool.h>
#include <stddef.h>

#include "src/base/buf.h"

#define PROTOCOL_REPLY_MAX (64U << 20)

enum protocol { PROTOCOL_HTTP, PROTOCOL_RESP, PROTOCOL_MARIADB, PROTOCOL_MARIADB_PREPARED };

struct reply {
    int status;       /* RESP, MariaDB: 200, or 0 for an error */
    bool keep_alive;  /* false: the server closes after this one */
    const char *body; /* borrowed until the next call; RESP, MariaDB: the id, or the error */
    size_t len;
};

/* Take the first reply of the bytes. *ret_taken: its bytes; 0 while it is not complete. NULL, or
 * what is wrong with the bytes. */
const char *protocol_take(enum protocol protocol, const char *data, size_t len,
                          struct reply *ret_reply, size_t *ret_taken);

/* Append a request. target: path, command or statement; HTTP has a method and maybe a body. */
void protocol_put(enum protocol protocol, struct buf *out, const char *method, const char *target,
                  const char *body);

/* What goes before the first request on a new connection, whose socket waits: log in to MariaDB,
 * and prepare the statement. NULL, or what went wrong. */
const char *protocol_hello(enum protocol protocol, int fd, const char *target);

#endif
