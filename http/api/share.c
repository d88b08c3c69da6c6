/*
 * share.c - see share.h. Thread: the loop's.
 */
#include "http/api/share.h"

#include <stdio.h>
#include <string.h>

#include "http/api/audited.h"
#include "http/api/gate.h"
#include "http/api/request.h"

#define WHY_BYTES 96
#define MESSAGE_BYTES 400

static const struct {
    enum meter_refusal refusal;
    const char *things;
    const char *quota; /* of a token, and of all others */
    const char *until;
} kinds[] = {
    [SHARE_KEYS] = {REFUSED_KEYS, "idempotency keys", "keys",
                    "each is forgotten a day after its first use"},
    [SHARE_WORKERS] = {REFUSED_WORKERS, "worker ids", "workers",
                       "each counts until its window is over, also once released"},
    [SHARE_TAGS] = {REFUSED_TAGS, "bytes of tags", "tags",
                    "a tag that is deleted counts less, and nothing more when it is made again"},
};

/* The one with a line in the tokens file; NULL: none, an address is counted. */
static const struct identity *named_client(struct conn *conn)
{
    const struct identity *identity =
        api_loop(conn)->api->auth != NULL ? gate_identity(conn) : NULL;

    return identity != NULL && identity->kind != IDENTITY_ANONYMOUS ? identity : NULL;
}

struct share share_of(struct conn *conn)
{
    const struct identity *identity = named_client(conn);
    struct share share = {.client = conn->peer->id};
    uint64_t is_named = identity != NULL;

    if (identity != NULL) {
        share.client = client_id_of_name(identity->name, strlen(identity->name));
        share.keys = identity->quotas.keys;
        share.workers = identity->quotas.workers;
    }
    share.tags = identity != NULL && identity->quotas.tags_mib > 0
                     ? (uint64_t)identity->quotas.tags_mib << 20
                     : api_loop(conn)->api->settings->tags_bytes;
    share.client = (share.client & ~UINT64_C(1)) | is_named;
    share.client += share.client <= 1 ? 2 : 0; /* that would be nobody */
    return share;
}

int share_refuse(struct conn *conn, enum share_kind kind, uint64_t held, uint64_t most,
                 const char *where)
{
    const struct identity *identity = named_client(conn);
    char message[MESSAGE_BYTES];
    char more[WHY_BYTES];
    char why[WHY_BYTES];

    conns_count(&conn->conns->counts.refused[kinds[kind].refusal], 1);
    (void)snprintf(why, sizeof why, "holds %llu %s, its share is %llu", ull(held),
                   kinds[kind].things, ull(most));
    (void)snprintf(more, sizeof more, ",\"held\":%llu,\"share\":%llu", ull(held), ull(most));
    (void)snprintf(message, sizeof message,
                   "%s%s %s holds %llu %s, and may hold %llu: %s; %s= in the setting quota, or "
                   "in the line of a token, allows more",
                   where, identity != NULL ? "client" : "the address",
                   identity != NULL ? identity->name : conn->peer->name, ull(held),
                   kinds[kind].things, ull(most), kinds[kind].until, kinds[kind].quota);
    if (api_loop(conn)->api->auth != NULL) {
        audited_refuse_as(conn, 429, why);
    }
    conn_fail(conn, 429, err_code(ERR_SHARE), NULL, more, message);
    return ANSWERED;
}
