/*
 * audited.h - who changed what, and who was refused: what the client, the audit (http/auth/audit.h)
 * and the log are told.
 *
 * Changes. The happy path: audited_serve() in the place of the route's handler. What is there
 * before is asked for first, of this node: a tag, a worker id, the members and who leads, the
 * level; then the handler runs. One that has many tags to change has audited_look() look at the
 * first of them. The reply ends the note, which becomes a line of the log and an entry of the ring:
 * who, from where, what, what was before, what came of it. A request whose answer is not known
 * (503, or the client has gone meanwhile) is "unknown": it may have been carried out, now or later.
 * What the rules of the change itself refuse (400, 404, 409) changed nothing, and is not noted.
 *
 * Refusals. deny() answers a request that the gate (gate.h) does not let through: 404 at the wrong
 * listener, 421, 403 and 415 to web pages (web.h), 401 without or with an unknown token, 403
 * without the role or for another's tag, each with what is missing. All but the first are audited.
 * Where no path names the tags, a prefix limits what may be listed and put.
 *
 * Shares: what one client may hold of what the whole cluster has little of: idempotency keys,
 * worker ids, and memory for tags. A quarter, unless the setting quota or its token says otherwise.
 * A client is who meter.h says: the name of its line of the tokens file, else its address. The log
 * counts by its id, a hash of that (the same on all nodes), so a share holds over all nodes, after
 * a change of leaders, and after a restart. What the line or the settings allow stands in each
 * command: the node that was asked decides. share_of() when one is asked for; the state machine
 * counts (worker.h, command.h); where it says ERR_SHARE, share_refuse() answers.
 *
 * Failure modes: what was before cannot be had: it is null. Values that are too long are cut.
 *
 * Thread: the loop's.
 */
#ifndef LEAFD_HTTP_API_AUDITED_H
#define LEAFD_HTTP_API_AUDITED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "http/api/context.h"
#include "src/base/buf.h"

struct call;
struct conn;

/* Serve an admitted request whose route is audited. As a handler. */
int audited_serve(struct conn *conn);

/* The handler of a route that is not audited is about to make a tag: the note begins here. */
void audited_change(struct conn *conn);

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
void audited_refuse_as(struct conn *conn, int status, const char *reason);

/* conn->note's request was answered; status 0: the connection has closed. For http_service. */
void audited_answered(struct conn *conn, int status, const void *body, size_t len);

/* --- requests that the gate refused --- */

struct param;

/* Answer what the gate refused. Returns ANSWERED. */
int deny(struct conn *conn);

/* A list of tags is asked for, by this option; where the client has one prefix, and asks for none,
 * it becomes that. False: the client may not see all of the list; answered. */
bool narrow_list(struct conn *conn, struct param *prefix);

/* May the client change all tags of a command? Else answered. */
bool may_put(struct conn *conn, const struct buf *command);

/* --- what one client may hold --- */

struct share {
    uint64_t client;  /* > 1; its lowest bit says if it has a name (worker.h) */
    uint32_t keys;    /* that its line of the tokens file allows; 0: as the settings say */
    uint32_t workers; /* the same */
    uint64_t tags;    /* bytes that its tags may count (tag_share_bytes()) */
};

struct share share_of(struct conn *conn);

enum share_kind { SHARE_KEYS, SHARE_WORKERS, SHARE_TAGS /* in bytes */ };

/* Answer one that has its share: how many it holds, and may hold. where: "", or what stands before
 * the message. Returns ANSWERED. */
int share_refuse(struct conn *conn, enum share_kind kind, uint64_t held, uint64_t most,
                 const char *where);

#endif
