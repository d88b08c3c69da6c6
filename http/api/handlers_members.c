/*
 * handlers_members.c - changes of the membership: POST /api/cluster/members, DELETE
 * /api/cluster/members/{id}, and POST /api/cluster/leader.
 *
 * The happy path: the request is checked, the backend asks the leader until it is so, and the
 * answer is 200; if that takes longer than timeout_ms, 202, and it goes on without this request:
 * asking again, on any node, waits for the same change.
 *
 * Failure modes: bad input 400; an id that no member has 404; whatever stands against the change
 * 409, with a code of its own; a node that cannot be reached, or no answer, 503.
 *
 * Thread: the loop's.
 */
#include "http/api/handlers.h"

#include <string.h>

#include "http/api/body.h"
#include "http/api/call.h"
#include "http/api/context.h"
#include "http/api/request.h"
#include "src/base/assert.h"
#include "src/id/codec/member.h"

/* How an outcome is answered. */
struct outcome {
    int status;
    const char *code; /* NULL: it is no error */
};

static const struct outcome outcomes[MEMBER_OUTCOMES] = {
    [MEMBER_DONE] = {200, NULL},
    [MEMBER_PENDING] = {202, NULL},
    [MEMBER_IN_PROGRESS] = {409, "in_progress"},
    [MEMBER_UNKNOWN] = {404, "unknown_member"},
    [MEMBER_WAS_REMOVED] = {409, "removed"},
    [MEMBER_EXISTS] = {409, "conflict"},
    [MEMBER_ADDRESS_IN_USE] = {409, "address_in_use"},
    [MEMBER_LAST_VOTER] = {409, "last_voter"},
    [MEMBER_TOO_MANY] = {409, "too_many_members"},
    [MEMBER_NOT_VOTER] = {409, "not_a_voter"},
    [MEMBER_UNREACHABLE] = {503, "unreachable"},
    [MEMBER_NOT_CAUGHT_UP] = {409, "not_caught_up"},
    [MEMBER_NO_QUORUM] = {409, "no_quorum"},
    [MEMBER_GIVEN_UP] = {409, "given_up"},
};

static void answered_cb(struct conn *conn, struct call *call)
{
    const struct buf *reply = &call->request.reply;
    struct buf *scratch = &conn->conns->scratch;
    const struct outcome *outcome;
    struct member_answer answer;

    if (member_answer_decode(reply->data, reply->len, &answer) != 0) {
        reply_err(conn, ERR_BAD_MESSAGE);
        return;
    }
    outcome = &outcomes[answer.outcome];
    if (outcome->code != NULL) {
        reply_error(conn, outcome->status, outcome->code, "%s", answer.why);
        return;
    }
    scratch->len = 0;
    buf_printf(scratch,
               "{\"id\":%llu,\"status\":\"%s\",\"message\":", (unsigned long long)call->member_id,
               answer.outcome == MEMBER_DONE ? "done" : "pending");
    text_put_json(scratch, answer.why, strlen(answer.why));
    buf_printf(scratch, "}");
    reply_json(conn, outcome->status, scratch);
}

/* The options of all three routes. False if they are wrong; answered. */
static bool read_options(struct conn *conn, struct member_ask *ask, uint32_t *ret_timeout_ms)
{
    struct option options[] = {{.name = "timeout_ms"}, {.name = "force"}};
    size_t count = ask->kind == MEMBER_ASK_LEAD ? 1 : 2;
    char space[LIMIT_HTTP_TARGET_BYTES];
    uint64_t force = 0;

    if (!request_options(conn, options, count, space) ||
        !request_timeout(conn, &options[0], ret_timeout_ms) ||
        !request_number(conn, &options[1], "bad_request", 0, 1, 0, &force)) {
        return false;
    }
    ask->force = force == 1;
    return true;
}

static void submit(struct conn *conn, const struct member_ask *ask, uint32_t timeout_ms)
{
    struct call *call = call_new(ID_REQUEST_MEMBER, answered_cb);

    call->member_id = ask->node_id;
    member_ask_encode(ask, &call->request.payload);
    call_submit_for(conn, call, timeout_ms);
}

/* The body: an id, and for an addition an address. False if it is wrong; answered. */
static bool read_body(struct conn *conn, struct member_ask *ask)
{
    struct body_field fields[] = {
        {.name = "id", .needed = true, .min = 1, .max = LIMIT_NODE_ID},
        {.name = "peer_address", .needed = true, .is_text = true},
    };
    struct body_fault fault;
    json_t *root = body_parse(conn->body.data, conn->body.len, 1, &fault);
    char shown[SHOWN_BYTES];
    const char *why;
    bool good;

    good = root != NULL && body_fields(root, "a member's fields", fields,
                                       ask->kind == MEMBER_ASK_ADD ? 2 : 1, &fault) == 0;
    if (!good) {
        reply_error(conn, 400, fault.code, "%s", fault.message);
    } else {
        ask->node_id = fields[0].number;
    }
    if (good && ask->kind == MEMBER_ASK_ADD) {
        good = member_address_check(fields[1].text, fields[1].len, &why);
        if (good) {
            memcpy(ask->address, fields[1].text, fields[1].len);
        } else {
            reply_error(conn, 400, "bad_address", "peer_address %s is no host:port to dial: %s",
                        text_show(fields[1].text, fields[1].len, shown, sizeof shown), why);
        }
    }
    json_decref(root);
    return good;
}

void handle_member_add(struct conn *conn)
{
    struct member_ask ask = {.kind = MEMBER_ASK_ADD};
    uint32_t timeout_ms;

    if (read_options(conn, &ask, &timeout_ms) && read_body(conn, &ask)) {
        submit(conn, &ask, timeout_ms);
    }
}

void handle_leader(struct conn *conn)
{
    struct member_ask ask = {.kind = MEMBER_ASK_LEAD};
    uint32_t timeout_ms;

    if (read_options(conn, &ask, &timeout_ms) && read_body(conn, &ask)) {
        submit(conn, &ask, timeout_ms);
    }
}

void handle_member_remove(struct conn *conn)
{
    struct member_ask ask = {.kind = MEMBER_ASK_REMOVE};
    uint32_t timeout_ms;

    if (request_path_number(conn, "node id", 1, LIMIT_NODE_ID, &ask.node_id) &&
        read_options(conn, &ask, &timeout_ms)) {
        submit(conn, &ask, timeout_ms);
    }
}
