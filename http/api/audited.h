/*
 * audited.h - who changed what, and who was refused: what the client, the audit (http/auth/audit.h)
 * and the log receive.
 *
 * Changes. The happy path: audited_begin() makes a note of the request, and the route's handler has
 * its change submitted by audited_submit(), which first asks this node for the state before. The
 * reply ends the note, which becomes a line of the log and an entry of the ring. A request whose
 * answer is not known (503, or the client has closed) is "unknown": it may have been carried out,
 * now or later. A change that its own rules refuse (400, 404, 409), or whose client closes while
 * the state before is asked for, changed nothing and is not noted.
 *
 * Refusals. deny() answers a request that the gate (request.h) does not let through, and names what
 * is missing. All are audited but those at the wrong listener. Where no path names the tags, a
 * prefix limits what may be listed and put.
 *
 * Shares: how much one client may hold of what is scarce in the whole cluster: idempotency keys,
 * worker ids, and memory for tags. A share is a quarter, unless the setting quota or the client's
 * token says otherwise. A client is identified as in meter.h, and counted in the log by its id, a
 * hash that is the same on all nodes: a share holds over all nodes, after a change of leaders, and
 * after a restart. Each command carries what the line or the settings allow: the node that was
 * asked decides. The state machine counts (worker.h, command.h); where it returns ERR_SHARE,
 * share_refuse() answers.
 *
 * Failure modes: if the state before is not available, it is null. Values that are too long are
 * cut.
 *
 * Thread: the loop's.
 */
#ifndef LEAFD_HTTP_API_AUDITED_H
#define LEAFD_HTTP_API_AUDITED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "http/api/request.h"
#include "src/base/buf.h"

struct call;
struct conn;

/* The request is to be audited: its note begins here. */
void audited_begin(struct conn *conn);

/* Submit a change as call_submit_for() does; if the request has a note, once that has the state
 * before: of a tag, of the first AUDITED_ITEMS tags of a bulk, up to the note's room, and the
 * number of the rest; of a worker id, unless the cluster chooses it; of the members and the leader;
 * of the level; of a layout. */
#define AUDITED_ITEMS 8
int audited_submit(struct conn *conn, struct call *change, uint32_t wait_ms);

/* A request is refused for lack of rights: with this status, for this reason. */
void audited_refuse_as(struct conn *conn, int status, const char *reason);

/* conn->note's request was answered; status 0: the connection has closed. For http_service. */
void audited_answered(struct conn *conn, int status, const void *body, size_t len);

/* --- requests that the gate refused --- */

/* Answer what the gate refused. Returns ANSWERED. */
int deny(struct conn *conn);

/* Ask for what a request lists by tag, up to `most` in a page, of those tags that the client may
 * see. Returns ANSWERED. */
int list_ask(struct conn *conn, unsigned kind, uint64_t most, uint32_t wait_ms,
             int (*finish)(struct conn *conn, struct call *call));

/* May the client change all tags of a command? Else answered. */
bool may_put(struct conn *conn, const struct buf *command);

/* --- what one client may hold --- */

struct share {
    uint64_t client;  /* > 1; the lowest bit: it has a name (worker.h) */
    uint32_t keys;    /* allowed by its line of the tokens file; 0: by the settings */
    uint32_t workers; /* the same */
    uint64_t tags;    /* bytes that its tags may count (tag_share_bytes()) */
};

struct share share_of(struct conn *conn);

enum share_kind { SHARE_KEYS, SHARE_WORKERS, SHARE_TAGS /* in bytes */ };

/* Answer a client that has used up its share: how many it holds, and may hold. where: "", or the
 * start of the message. Returns ANSWERED. */
int share_refuse(struct conn *conn, enum share_kind kind, uint64_t held, uint64_t most,
                 const char *where);

#endif
