/*
 * audited.h - requests that change something, as the audit (http/auth/audit.h) and the log tell of
 * them: who, from where, what, what was before, what came of it.
 *
 * The happy path: audited_serve() in the place of the route's handler. What is there before is
 * asked for first, of this node, for a tag; then the handler runs; the reply ends the note, which
 * becomes a line of the log and an entry of the ring.
 *
 * A request whose answer is not known (503, or the client has gone meanwhile) is told of as
 * "unknown": it may have been carried out, now or later. What the rules of the change itself refuse
 * (400, 404, 409) changed nothing, and is not told of.
 *
 * Failure modes: what was before cannot be had: it is null. Values that are too long are cut.
 *
 * Thread: the loop's.
 */
#ifndef LEAFD_HTTP_API_AUDITED_H
#define LEAFD_HTTP_API_AUDITED_H

#include <stddef.h>

struct conn;

/* Serve an admitted request whose route is audited. As a handler. */
int audited_serve(struct conn *conn);

/* A request is refused for lack of rights. */
void audited_refuse(struct conn *conn);

/* conn->note's request was answered; status 0: the connection has closed. For http_service. */
void audited_answered(struct conn *conn, int status, const void *body, size_t len);

#endif
