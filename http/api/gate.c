/*
 * gate.c - the gate of request.h. Thread: the loop's.
 */
#include <string.h>
#include <strings.h>

#include "http/api/request.h"
#include "http/server/proxy.h"
#include "src/base/assert.h"

#define BEARER "Bearer "

/* --- who asks --- */

static uint32_t either(uint32_t own, uint32_t other)
{
    return own != 0 ? own : other;
}

/* --- cuts --- */

uint64_t gate_now_ms(const struct api_loop *loop)
{
    const struct id_backend *backend = loop->backend;

    return id_health_now_ms(backend->health, backend->clock);
}

static inline bool is_cut(const struct conn *conn)
{
    return conn->cut != NULL && conn->cut->until_ms > gate_now_ms(api_loop(conn));
}

/* From now on charge the bearer's quotas; those that its line lacks are those of addresses. Of the
 * cuts that hit the client, the one that ends last counts. */
static void count_for(struct conn *conn, const struct identity *identity)
{
    const struct client_quotas *others = &conn->conns->settings->quotas;
    const struct client_quotas quotas = {
        .requests_per_s = either(identity->quotas.requests_per_s, others->requests_per_s),
        .ids_per_s = either(identity->quotas.ids_per_s, others->ids_per_s),
        .connections = either(identity->quotas.connections, others->connections),
        .bodies = either(identity->quotas.bodies, others->bodies)};
    const struct client_cuts *cuts = &api_loop(conn)->cuts;
    bool is_named = identity->kind != IDENTITY_ANONYMOUS;
    struct sockaddr_storage address = {0};
    bool has_address = cuts->count > 0 && conn_address(conn, &address);

    conn_identify(conn, is_named ? identity->name : NULL, strlen(identity->name), &quotas);
    conn->identity = identity;
    conn->cut = NULL;
    for (size_t i = 0; i < cuts->count; i++) {
        const struct client_cut *cut = &cuts->items[i];
        bool hits = (is_named && strcmp(cut->who, identity->name) == 0) ||
                    (has_address && proxy_is_named(cut->who, (const struct sockaddr *)&address));

        if (hits && (conn->cut == NULL || cut->until_ms > conn->cut->until_ms)) {
            conn->cut = cut;
        }
    }
}

/* By the token; else by the certificate, if it has a line; else anonymous. */
static enum gate identify(struct conn *conn)
{
    const struct token_table *tokens = api_loop(conn)->tokens;
    const struct parser_field *field = &conn->parser.head.authorization;
    const char *text = conn_at(conn, field->at);
    size_t at = strlen(BEARER);
    struct caller *caller = conn->caller;
    const struct identity *identity = NULL;
    bool is_used = tokens_are_used(tokens);
    bool shows_token = is_used && caller == NULL && field->count > 0;
    enum gate gate = GATE_OPEN;
    struct token_hash hash;

    if (is_used && caller != NULL && caller->has_token) {
        identity = tokens_find(tokens, &caller->token);
        caller->has_token = identity != NULL; /* false: it was removed from the file */
    }
    if (!shows_token) {
        if (is_used && identity == NULL && conn_certificate(conn) != NULL) {
            identity = tokens_find_certificate(tokens, conn_certificate(conn));
        }
    } else if (field->count > 1) {
        gate = GATE_TWO_TOKENS;
    } else if (field->len < at || strncasecmp(text, BEARER, at) != 0) {
        gate = GATE_NO_BEARER;
    } else {
        while (at < field->len && text[at] == ' ') {
            at++;
        }
        identity = tokens_find_text(tokens, text + at, field->len - at, &hash);
        gate = identity != NULL ? GATE_OPEN : GATE_UNKNOWN;
    }
    identity = identity != NULL ? identity : tokens_at(tokens, 0);
    if (conn->identity != identity) {
        count_for(conn, identity);
    }
    return gate;
}

const struct identity *gate_identity(struct conn *conn)
{
    if (conn->identity == NULL) {
        (void)identify(conn);
    }
    return conn->identity;
}

bool gate_may(struct conn *conn, enum role role)
{
    return (gate_identity(conn)->roles & (unsigned)role) != 0;
}

bool gate_may_take(struct conn *conn, const char *token, size_t token_len, const char *tag,
                   size_t tag_len)
{
    const struct token_table *tokens = api_loop(conn)->tokens;
    const struct identity *identity;
    struct token_hash hash;

    (void)identify(conn); /* a connection may carry many tokens, one after the other */
    if (token != NULL && tokens_are_used(tokens)) {
        identity = tokens_find_text(tokens, token, token_len, &hash);
        if (identity == NULL) {
            return false;
        }
        count_for(conn, identity);
    }
    return !is_cut(conn) && (conn->identity->roles & (unsigned)ROLE_IDS) != 0 &&
           (conn->identity->prefix_count == 0 || identity_may_use(conn->identity, tag, tag_len));
}

/* --- the verdict --- */

static enum gate judge_client(struct conn *conn, const struct route *route)
{
    const struct request *request = &conn->request;
    const char *tag = conn_at(conn, request->name_at);
    size_t tag_len = request->name_len;
    char decoded[LIMIT_TAG_NAME_BYTES];
    enum gate gate = identify(conn);
    unsigned roles;

    if (is_cut(conn) && route->role != ROLE_HEALTH) {
        return GATE_CUT;
    }
    if (gate != GATE_OPEN) {
        return gate;
    }
    if (route->role == ROLE_NONE) {
        return GATE_OPEN;
    }
    roles = conn->identity->roles;
    if (route->role == ROLE_HEALTH) { /* a client may do with a token what it may without */
        roles |= tokens_at(api_loop(conn)->tokens, 0)->roles;
    }
    if ((roles & ((unsigned)route->role | route->also)) == 0) {
        return conn->identity->kind == IDENTITY_ANONYMOUS && conn_certificate(conn) == NULL
                   ? GATE_NO_TOKEN
                   : GATE_ROLE;
    }
    if (!route->names_tag || conn->identity->prefix_count == 0) {
        return GATE_OPEN;
    }
    if (conn->caller == NULL) { /* else the name is unencoded */
        if (target_decode(tag, tag_len, TARGET_PLUS_IS_PLUS, decoded, sizeof decoded, &tag_len) !=
            0) {
            return GATE_OPEN; /* the route refuses it */
        }
        tag = decoded;
    }
    return identity_may_use(conn->identity, tag, tag_len) ? GATE_OPEN : GATE_TAG;
}

static enum gate judge_page(struct conn *conn, const struct route *route)
{
    static const enum gate verdicts[] = {[WEB_FINE] = GATE_OPEN,
                                         [WEB_MISDIRECTED] = GATE_MISDIRECTED,
                                         [WEB_FOREIGN] = GATE_FOREIGN,
                                         [WEB_TYPE] = GATE_TYPE};
    const struct parser_head *head = &conn->parser.head;
    bool reads = head->method == METHOD_GET || head->method == METHOD_HEAD;
    /* A POST to a Leaf route does the same as its GET. */
    bool changes = !reads && !route->is_leaf;
    /* Ids and health are for any client that reaches the port, under any host name. */
    bool is_open = (route->role & (ROLE_IDS | ROLE_HEALTH | ROLE_METRICS)) != 0 || route->is_tinyid;
    const struct web_request request = {.head = head,
                                        .bytes = conn_at(conn, 0),
                                        .guarded = changes || !is_open,
                                        .changes = changes,
                                        .acts = !reads || route->takes};

    return verdicts[web_check(&api_loop(conn)->api->auth->settings.web, &request)];
}

COLD void gate_forget(struct api_loop *loop)
{
    struct conn *conn;

    TAILQ_FOREACH (conn, &loop->conns->all, all_link) {
        conn->identity = NULL;
        conn->cut = NULL;
        conn->last_len = 0; /* so its head is judged again */
    }
}

bool gate_cuts(struct conn *conn)
{
    const struct route *route = conn->request.route;
    bool cuts = judge_client(conn, route) == GATE_CUT;

    conn->request.gate = cuts ? GATE_CUT : conn->request.gate;
    return cuts;
}

COLD void gate_renew(struct conn *conn)
{
    struct api_loop *loop = api_loop(conn);
    struct token_table *old = loop->tokens;

    loop->tokens = auth_take(loop->api->auth, &loop->tokens_generation);
    gate_forget(loop);
    tokens_unref(old);
    if (conn->request.route != NULL && conn->request.gate == GATE_OPEN) {
        conn->request.gate = (uint8_t)judge_client(conn, conn->request.route);
    }
}

void gate_admit(struct conn *conn, const struct route *route)
{
    struct api_loop *loop = api_loop(conn);
    enum gate gate = GATE_OPEN;

    gate_look(conn);
    if ((route->listeners & loop->listeners) == 0) {
        gate = GATE_OTHER_LISTENER;
    } else {
        gate = conn->caller == NULL ? judge_page(conn, route) : GATE_OPEN;
        gate = gate == GATE_OPEN ? judge_client(conn, route) : gate;
    }
    conn->request.gate = (uint8_t)gate;
}

bool gate_stays_open(struct conn *conn)
{
    if (conn->wire.tls != NULL && session_is_outdated(conn->wire.tls)) {
        return false;
    }
    gate_look(conn);
    if (conn->identity == NULL) { /* tokens were reread: it was judged by old ones */
        conn->request.gate = (uint8_t)judge_client(conn, conn->request.route);
    }
    return conn->request.gate == GATE_OPEN;
}
