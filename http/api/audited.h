/*
 * audited.h - requests that change something, as the audit (http/auth/audit.h) and the log tell of
 * them: who, from where, what, what was before, what came of it.
 *
 * The happy path: audited_serve() in the place of the route's handler. What is there before is
 * asked for first, of this node: a tag, a worker id, the members and who leads, the level; then the
 * handler runs. One that has many tags to change has audited_look() look at the first of them. The
 * reply ends the note, which becomes a line of the log and an entry of the ring.
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
#include <stdint.h>

struct call;
struct conn;

/* Serve an admitted request whose route is audited. As a handler. */
int audited_serve(struct conn *conn);

/* A handler has a change of many tags ready: submit it once the note has what there was of the
 * first AUDITED_ITEMS of them, as far as they have room there, and how many there are more. */
#define AUDITED_ITEMS 8
int audited_look(struct conn *conn, struct call *change,
                 int (*submit)(struct conn *conn, struct call *change));

/* A handler has a change of this worker id ready: submit it once the note has what there was of it.
 * WORKER_ID_ANY: there is nothing to look at, for the cluster chooses one that is free. */
int audited_look_at_worker(struct conn *conn, struct call *change, uint32_t id);

/* A request is refused for lack of rights, as the gate says; or with this status, for this reason.
 * Only where there is struct auth. */
void audited_refuse(struct conn *conn);
void audited_refuse_as(struct conn *conn, int status, const char *reason);

/* conn->note's request was answered; status 0: the connection has closed. For http_service. */
void audited_answered(struct conn *conn, int status, const void *body, size_t len);

#endif
