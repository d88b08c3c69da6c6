/*
 * share.h - what one client may hold of what the whole cluster has little of: idempotency keys,
 * worker ids, and memory for tags. A quarter, unless the setting quota or its token says
 * otherwise.
 *
 * A client is who meter.h says: the name of its line of the tokens file, else its address. The log
 * counts by its id, a hash of that (the same on all nodes), so a share holds over all nodes, behind
 * a change of leaders, and after a restart. What the line or the settings allow stands in each
 * command: the node that was asked decides.
 *
 * The happy path: share_of() when a key, a worker id or a tag is asked for; the state machine
 * counts (worker.h, command.h); where it says ERR_SHARE, share_refuse() tells the client, the audit
 * and the metrics.
 *
 * Failure modes: none. Thread: the loop's.
 */
#ifndef LEAFD_HTTP_API_SHARE_H
#define LEAFD_HTTP_API_SHARE_H

#include "http/api/context.h"

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
