/*
 * gate.h - may this request be made: at this listener, by this client?
 *
 * The happy path: gate_admit() looks at a head once, when it is read, and keeps its verdict with
 * the request; a head that repeats it has the same. The path of an id sees two loads: that verdict,
 * and whether the tokens were read again (gate_look()). If so, the first request that a loop sees
 * has all of the loop's connections looked at anew.
 *
 * A client that is cut (struct client_cut) is found when its identity is, and once more when the
 * cuts change. A head that found one open is looked at each time: the cut ends by itself.
 *
 * Failure modes: whatever is refused is answered by deny() (audited.h). An api without struct auth
 * (tests) refuses nothing.
 *
 * Thread: the loop's.
 */
#ifndef LEAFD_HTTP_API_GATE_H
#define LEAFD_HTTP_API_GATE_H

#include "http/api/context.h"
#include "http/api/route.h"

/* What a connection of a protocol beside HTTP has said of the client that asks, once and for all
 * its requests. What the protocol itself keeps of a connection begins with it (conn->caller); that
 * of HTTP is NULL, where each request says it. */
struct caller {
    bool has_token;
    struct token_hash token; /* looked for again when the tokens were read again */
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

/* A head with this route is there: judge it. */
void gate_admit(struct conn *conn, const struct route *route);

/* The tokens were read again since this loop looked: take them, and judge the present request
 * anew. */
COLD void gate_renew(struct conn *conn);

/* The same, if they were. */
static inline void gate_look(struct conn *conn)
{
    const struct api_loop *loop = conn->conns->data;
    const struct auth *auth = loop->api->auth;

    if (auth != NULL && auth_is_newer(auth, loop->tokens_generation)) {
        gate_renew(conn);
    }
}

/* May a request that is being answered for long go on, by the tokens in force? */
bool gate_stays_open(struct conn *conn);

/* The cluster's time, as this node knows it: Unix milliseconds. */
uint64_t gate_now_ms(const struct api_loop *loop);

/* Does a cut hit the client, for a route that is not of health? Then the gate says so. */
bool gate_cuts(struct conn *conn);

/* Take the cuts as they are now. All of the loop's connections are looked at anew. */
COLD void gate_take_cuts(struct api_loop *loop);

/* Why it may not be served, in a few words, and the status that says so. Static. */
const char *gate_reason(const struct conn *conn, int *ret_status);

/* Who asks, by the tokens in force; never NULL. Only where there is struct auth. */
const struct identity *gate_identity(struct conn *conn);

/* Has the client this role, which its route does not ask for? */
bool gate_may(struct conn *conn, enum role role);

/* May a client that shows this token as an option, NULL: none, take ids of the tag? Where there are
 * tokens this one says who asks, until the next request. */
bool gate_may_take(struct conn *conn, const char *token, size_t token_len, const char *tag,
                   size_t tag_len);

#endif
