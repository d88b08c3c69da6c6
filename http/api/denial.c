/*
 * denial.c - see denial.h. Thread: the loop's.
 */
#include "http/api/denial.h"

#include <stdio.h>
#include <string.h>

#include "http/api/audited.h"
#include "http/api/gate.h"
#include "http/api/request.h"
#include "src/base/assert.h"
#include "src/id/codec/command.h"

/* --- what the client is told --- */

static int refuse_token(struct conn *conn, const char *error, const char *message)
{
    char extra[96];

    (void)snprintf(extra, sizeof extra, "WWW-Authenticate: Bearer realm=\"leafd\"%s\r\n", error);
    conn_fail(conn, 401, "unauthorized", extra, "", message);
    return ANSWERED;
}

static int refuse_role(struct conn *conn)
{
    const struct route *route = conn->request.route;
    const struct identity *identity = gate_identity(conn);
    char shown[SHOWN_BYTES];
    char roles[ROLES_TEXT_BYTES];

    if (identity->kind == IDENTITY_ANONYMOUS) {
        const char *name = conn_certificate(conn);

        return reply_error(conn, 403, "forbidden",
                           "this needs the role %s, and the certificate %s has no line in the "
                           "tokens file",
                           role_name(route->role),
                           name != NULL ? text_show(name, strlen(name), shown, sizeof shown) : "");
    }
    return reply_error(conn, 403, "forbidden", "this needs the role %s, and %s has %s",
                       role_name(route->role), identity->name, roles_text(identity->roles, roles));
}

/* "a", "b" of a client's prefixes. */
static void show_prefixes(const struct identity *identity, char *out, size_t size)
{
    char shown[SHOWN_BYTES];
    size_t at = 0;

    out[0] = '\0';
    for (size_t i = 0; i < identity->prefix_count && at + SHOWN_BYTES + 3 < size; i++) {
        const struct identity_prefix *prefix = &identity->prefixes[i];

        at += (size_t)snprintf(out + at, size - at, "%s%s", i > 0 ? ", " : "",
                               text_show(prefix->text, prefix->len, shown, sizeof shown));
    }
}

static int refuse_tag(struct conn *conn, const char *what)
{
    const struct identity *identity = gate_identity(conn);
    char prefixes[4 * SHOWN_BYTES];

    show_prefixes(identity, prefixes, sizeof prefixes);
    return reply_error(conn, 403, "forbidden_tag", "%s: %s has the tags that begin with %s", what,
                       identity->name, prefixes);
}

static int refuse_page(struct conn *conn)
{
    const struct parser_head *head = conn_head(conn);
    const struct web_request request = {.head = head, .bytes = conn_at(conn, 0)};
    char shown[SHOWN_BYTES];
    const char *host;
    size_t len;

    switch ((enum gate)conn->request.gate) {
    case GATE_MISDIRECTED:
        host = web_authority(&request, &len);
        return reply_error(conn, 421, "misdirected",
                           "Host %s is no host of this node: http.hosts lists further ones",
                           text_show(host, len, shown, sizeof shown));
    case GATE_FOREIGN:
        if (head->origin.count == 0) {
            return reply_error(
                conn, 403, "foreign_origin",
                "a page of another site (Sec-Fetch-Site %s) may not take or change anything here",
                text_show(conn_at(conn, head->fetch_site.at), head->fetch_site.len, shown,
                          sizeof shown));
        }
        return reply_error(
            conn, 403, "foreign_origin",
            "a page of Origin %s may not ask this node: http.origins lists those that may",
            text_show(conn_at(conn, head->origin.at), head->origin.len, shown, sizeof shown));
    default:
        return reply_error(conn, 415, "bad_content_type",
                           "Content-Type %s: a body that changes something must be "
                           "application/json, and say so once",
                           text_show(conn_at(conn, head->content_type.at), head->content_type.len,
                                     shown, sizeof shown));
    }
}

static int refuse_door(struct conn *conn)
{
    const struct api_loop *loop = api_loop(conn);
    bool is_admin = (loop->listeners & LISTENER_ADMIN) != 0;
    char message[LIMIT_ADDRESS_BYTES + 96];

    (void)snprintf(message, sizeof message, "this route is served at the other door: %s, %s",
                   is_admin ? "http.listen" : "admin.listen",
                   is_admin ? loop->api->http_address : loop->api->admin_address);
    return reply_error(conn, 404, "other_door", "%s", message);
}

static int refuse_by(struct conn *conn)
{
    switch ((enum gate)conn->request.gate) {
    case GATE_OTHER_LISTENER:
        return refuse_door(conn);
    case GATE_MISDIRECTED:
    case GATE_FOREIGN:
    case GATE_TYPE:
        return refuse_page(conn);
    case GATE_TWO_TOKENS:
        return reply_error(conn, 400, "bad_request", "Authorization is given twice");
    case GATE_NO_BEARER:
        return refuse_token(conn, "", "Authorization must be: Bearer TOKEN");
    case GATE_UNKNOWN:
        return refuse_token(conn, ", error=\"invalid_token\"", "this token is not known here");
    case GATE_NO_TOKEN:
        return refuse_token(conn, "",
                            conn->caller == NULL ? "this needs a token: Authorization: Bearer TOKEN"
                                                 : "this needs a token: AUTH TOKEN");
    case GATE_ROLE:
        return refuse_role(conn);
    case GATE_TAG:
        return refuse_tag(conn, "this tag is another's");
    case GATE_OPEN:
        break;
    }
    UNREACHABLE("a verdict of the gate");
}

int deny(struct conn *conn)
{
    if (conn->request.gate != GATE_OTHER_LISTENER) {
        audited_refuse(conn);
    }
    return refuse_by(conn);
}

/* --- tags that no path names --- */

bool narrow_list(struct conn *conn, struct param *prefix)
{
    const struct identity *identity;

    if (api_loop(conn)->api->auth == NULL) {
        return true;
    }
    identity = gate_identity(conn);
    if (identity->prefix_count == 0 ||
        (prefix->present && identity_may_use(identity, prefix->text, prefix->len))) {
        return true;
    }
    if (!prefix->present && identity->prefix_count == 1) {
        prefix->present = true;
        prefix->text = identity->prefixes[0].text;
        prefix->len = identity->prefixes[0].len;
        return true;
    }
    conn->request.gate = GATE_TAG;
    audited_refuse(conn);
    refuse_tag(conn, prefix->present ? "this prefix has others' tags, too" : "name a prefix");
    return false;
}

bool may_put(struct conn *conn, const struct buf *command)
{
    const struct identity *identity;
    struct command read;
    struct tag_put tag;
    char what[64 + SHOWN_BYTES];
    char shown[SHOWN_BYTES];

    if (api_loop(conn)->api->auth == NULL) {
        return true;
    }
    identity = gate_identity(conn);
    if ((identity->roles & ROLE_TAGS) == 0) { /* the tokens were read again meanwhile */
        conn->request.gate = identity->kind == IDENTITY_ANONYMOUS ? GATE_NO_TOKEN : GATE_ROLE;
        deny(conn);
        return false;
    }
    if (identity->prefix_count == 0 || command_read(command->data, command->len, &read) != 0) {
        return true; /* what cannot be read is refused by whoever applies it */
    }
    while (command_next(&read.list, &tag)) {
        if (!identity_may_use(identity, tag.name, tag.name_len)) {
            (void)snprintf(what, sizeof what, "tag %s is another's",
                           text_show(tag.name, tag.name_len, shown, sizeof shown));
            conn->request.gate = GATE_TAG;
            audited_refuse(conn);
            refuse_tag(conn, what);
            return false;
        }
    }
    return true;
}
