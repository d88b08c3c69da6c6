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
#include "http/server/conn.h"
#include "src/base/assert.h"
#include "src/id/codec/member.h"

#define SHOWN_BYTES 160

/* How an outcome is told. */
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

static void wish_cb(struct conn *conn, struct control *control)
{
    const struct buf *reply = &control->request.reply;
    struct buf *scratch = &conn->loop->scratch;
    const struct outcome *outcome;
    struct member_answer answer;

    if (control->request.status != 0) {
        conn_fail_err(conn, control->request.status);
        return;
    }
    if (member_answer_decode(reply->data, reply->len, &answer) != 0) {
        conn_fail_err(conn, ERR_BAD_MESSAGE);
        return;
    }
    outcome = &outcomes[answer.outcome];
    if (outcome->code != NULL) {
        conn_fail(conn, outcome->status, outcome->code, "%s", answer.why);
        return;
    }
    scratch->len = 0;
    buf_printf(scratch, "{\"id\":%u,\"status\":\"%s\",\"message\":", control->asked.worker_id,
               answer.outcome == MEMBER_DONE ? "done" : "pending");
    text_put_json(scratch, answer.why, strlen(answer.why));
    buf_printf(scratch, "}");
    conn_reply_json(conn, outcome->status, scratch);
}

/* The options of all three routes. False if they are wrong; answered. */
static bool read_options(struct conn *conn, struct member_ask *ask, uint64_t *ret_timeout_ms)
{
    struct option options[] = {{.name = "timeout_ms"}, {.name = "force"}};
    size_t count = ask->kind == MEMBER_ASK_LEAD ? 1 : 2;
    char space[LIMIT_HTTP_TARGET_BYTES];
    uint64_t force = 0;

    if (!conn_options(conn, options, count, space) ||
        !conn_option_number(conn, &options[0], "bad_request", 0, LIMIT_TIMEOUT_MS,
                            conn->loop->settings->default_timeout_ms, ret_timeout_ms) ||
        (count == 2 && !conn_option_number(conn, &options[1], "bad_request", 0, 1, 0, &force))) {
        return false;
    }
    ask->force = force == 1;
    return true;
}

static void submit(struct conn *conn, const struct member_ask *ask, uint64_t timeout_ms)
{
    struct control *control = control_new(conn, ID_REQUEST_MEMBER, wish_cb);

    _Static_assert(LIMIT_NODE_ID <= UINT16_MAX, "a node id fits the field");
    control->asked.worker_id = (uint16_t)ask->node_id;
    member_ask_encode(ask, &control->request.payload);
    control_submit(control, (uint32_t)timeout_ms);
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
        conn_fail(conn, 400, fault.code, "%s", fault.message);
    } else {
        ask->node_id = fields[0].number;
    }
    if (good && ask->kind == MEMBER_ASK_ADD) {
        good = member_address_check(fields[1].text, fields[1].len, &why);
        if (good) {
            memcpy(ask->address, fields[1].text, fields[1].len);
        } else {
            conn_fail(conn, 400, "bad_address", "peer_address %s is no host:port to dial: %s",
                      text_show(fields[1].text, fields[1].len, shown, sizeof(shown)), why);
        }
    }
    json_decref(root);
    return good;
}

void handle_members(struct conn *conn)
{
    struct member_ask ask = {.kind = MEMBER_ASK_ADD};
    uint64_t timeout_ms;

    if (read_options(conn, &ask, &timeout_ms) && read_body(conn, &ask)) {
        submit(conn, &ask, timeout_ms);
    }
}

void handle_leader(struct conn *conn)
{
    struct member_ask ask = {.kind = MEMBER_ASK_LEAD};
    uint64_t timeout_ms;

    if (read_options(conn, &ask, &timeout_ms) && read_body(conn, &ask)) {
        submit(conn, &ask, timeout_ms);
    }
}

/* The node id in the path. False if it is none; answered. */
static bool path_node_id(struct conn *conn, uint64_t *ret_id)
{
    const struct request *request = &conn->request;
    const char *raw = conn->input + conn->start + request->name_at;
    char text[LIMIT_TAG_NAME_BYTES];
    char shown[SHOWN_BYTES];
    size_t len;

    if (target_decode(raw, request->name_len, TARGET_PLUS_IS_PLUS, text, sizeof(text), &len) == 0 &&
        text_parse_decimal(text, len, 1, LIMIT_NODE_ID, ret_id) == 0) {
        return true;
    }
    conn_fail(conn, 400, "bad_request", "node id %s is not a whole number from 1 to %d",
              text_show(raw, request->name_len, shown, sizeof(shown)), LIMIT_NODE_ID);
    return false;
}

void handle_member(struct conn *conn)
{
    struct member_ask ask = {.kind = MEMBER_ASK_REMOVE};
    uint64_t timeout_ms;

    if (path_node_id(conn, &ask.node_id) && read_options(conn, &ask, &timeout_ms)) {
        submit(conn, &ask, timeout_ms);
    }
}
