/*
 * conns.h - the connections of a loop, turn by turn: what is read, served and sent, and when each
 * ends. For loop.c, which decides who gets a connection.
 *
 * The happy path: bytes are read into a buffer of fixed size, and the talker is given every
 * complete request in it. What a turn of the loop caused is written at its end, by one write for
 * each connection. So first all requests are read and served, then all replies sent: reading and
 * serving, and the kernel's path from send() to the receiver, both fit into the processor's caches,
 * but not together.
 *
 * Large replies and long pipelines keep no other connection waiting: what is more than a little
 * work is put off and done part by part, one connection after the other, a bounded amount in each
 * turn of the loop, after all that other connections asked for in it. What unsent replies may take
 * is bounded too: a connection that has not taken all of its own is then put off until there is
 * room, and slow readers are closed. A request or a body that comes slowly is refused when its
 * place is needed (meter.h).
 *
 * Over TLS a connection begins with a handshake. A client that speaks without TLS is answered so.
 *
 * A node that is about to stop retires its connections (conns_retire()): each reply is the last of
 * its connection and says so, and those that are idle end one by one, the one that was idle longest
 * first, so that a client that asks now and then hears of it by a reply. What has arrived is served
 * before a connection ends; it ends by an orderly end of the stream, never by a reset. So no client
 * that follows HTTP sees a request lost, but one whose request crosses the end of a connection that
 * was idle for all that time; it knows that nobody took the request up, and asks again.
 *
 * Failure modes: as of conn.h; a state that lasts too long ends, with an error where the client can
 * still be told of it.
 *
 * Thread: the loop's.
 */
#ifndef LEAFD_HTTP_SERVER_CONNS_H
#define LEAFD_HTTP_SERVER_CONNS_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "http/server/conn.h"
#include "src/base/hot.h"

/* --- one of them --- */

/* A connection for the socket. client: with a reference, which it takes over; refused: it only gets
 * an error. NULL: it is closed, and the reference is still the caller's. */
struct conn *conn_new(struct conns *conns, const struct listener *listener, int fd,
                      struct http_client *client, bool refused);

/* Set the deadline of the present state, if it has one. One whose replies are still being sent is
 * not idle: the deadline of the write side holds. */
HOT void conn_set_deadline(struct conn *conn);

/* After each step: which deadline holds, what to keep, and whether to read on: for input as long as
 * there is room, or to see the client's end. It may have closed then. */
HOT void conn_rest(struct conn *conn);

/* --- all of a loop --- */

void conns_init(struct conns *conns, uv_loop_t *uv, const struct http_settings *settings,
                const struct http_service *service, struct clients *clients);

/* All are closed. */
void conns_free(struct conns *conns);

/* Continue after what was answered, and send all replies. */
void conns_flush(struct conns *conns);

/* The end of a turn: the same, and a bounded amount of what was put off. True if there is more to
 * be done, in another turn, which should come at once. */
bool conns_turn_end(struct conns *conns);

/* From now on each reply is its connection's last, and idle connections end, one by one over so
 * long. New ones may still come. At most once. */
void conns_retire(struct conns *conns, uint32_t over_ms);

/* After conns_retire(): requests that wait for no more than an answer that may never come are
 * answered now (http_wait.expires_on_drain). */
void conns_drain(struct conns *conns);

COLD void conns_close(struct conns *conns, const char *reason);

#endif
