/*
 * gate.h - decides if a request is allowed: at this listener, from this client.
 *
 * The happy path: gate_admit() judges a head once, when it is read, and keeps the verdict with the
 * request; a head that repeats it has the same verdict. The path of an id costs two loads: the
 * verdict, and whether the tokens were reread (gate_look()). If they were, the first request that a
 * loop sees makes the loop judge all its connections anew.
 *
 * A cut (struct client_cut) is looked up with the client's identity, and again when the cuts
 * change. A head that met a cut is judged each time, since the cut ends by itself.
 *
 * Failure modes: every refusal is answered by deny() (audited.h). An api without struct auth
 * (tests) refuses nothing.
 *
 * Thread: the loop's.
 */
#ifndef LEAFD_HTTP_API_GATE_H
#define LEAFD_HTTP_API_GATE_H

#include "http/api/context.h"
#include "http/api/route.h"

/* The client's identity, given once for all requests of a connection of a protocol other than HTTP.
 * The protocol's own data of a connection begins with it (conn->caller). In HTTP conn->caller is
 * NULL: each request names its client. */
struct caller {
    bool has_token;
    struct token_hash token; /* looked up again after the tokens were reread */
};

/* conn->request.gate */
enum gate {
    GATE_OPEN,
    GATE_OTHER_LISTENER,
    GATE_MISDIRECTED,
    GATE_FOREIGN,
    GATE_TYPE,
    GATE_TWO_TOKENS,
    GATE_NO_BEARER, /* Authorization is of another scheme */
    GATE_UNKNOWN,   /* no such token */
    GATE_NO_TOKEN,  /* and the role needs one */
    GATE_ROLE,
    GATE_TAG,
    GATE_CUT
};

/* Judge a head that has this route. */
void gate_admit(struct conn *conn, const struct route *route);

/* The tokens were reread since this loop looked: take them, and judge the present request anew. */
COLD void gate_renew(struct conn *conn);

/* The same, if the tokens were reread. */
static inline void gate_look(struct conn *conn)
{
    const struct api_loop *loop = conn->conns->data;
    const struct auth *auth = loop->api->auth;

    if (auth != NULL &&
        atomic_load_explicit(&auth->generation, memory_order_acquire) != loop->tokens_generation) {
        gate_renew(conn);
    }
}

/* May a long-running request continue under the tokens in force? */
bool gate_stays_open(struct conn *conn);

/* The cluster's time, as this node knows it: Unix milliseconds. */
uint64_t gate_now_ms(const struct api_loop *loop);

/* Does a cut hit the client, on a route other than health? Then the gate is set to say so. */
bool gate_cuts(struct conn *conn);

/* Take the present cuts. All of the loop's connections are judged anew. */
COLD void gate_take_cuts(struct api_loop *loop);

/* Why the request may not be served, in a few words, and the status for that. Static. */
const char *gate_reason(const struct conn *conn, int *ret_status);

/* The client's identity, by the tokens in force; never NULL. Only where there is struct auth. */
const struct identity *gate_identity(struct conn *conn);

/* Does the client have this role, beyond the one its route requires? */
bool gate_may(struct conn *conn, enum role role);

/* May a client that shows this token as an option (NULL: none) take ids of the tag? Where there are
 * tokens, this one identifies the client until the next request. */
bool gate_may_take(struct conn *conn, const char *token, size_t token_len, const char *tag,
                   size_t tag_len);

#endif
