/*
 * handlers_members.c - changes of the membership: POST /api/cluster/members, DELETE and PUT
 * /api/cluster/members/{id}, and POST /api/cluster/leader; and of the level: GET and POST
 * /api/cluster/level.
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

#include "http/api/call.h"
#include "http/api/context.h"
#include "http/api/request.h"
#include "src/state/codec/cluster_command.h"

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
    [MEMBER_IN_THE_WAY] = {409, "in_the_way"},
    [MEMBER_NOT_NEXT] = {409, "not_the_next_level"},
};

/* An answer on a member, by its id, or on the level, by its number. see: it was only looked at. */
static int put_answer(struct conn *conn, const struct call *call, const char *what, bool see)
{
    const struct id_health *health = api_loop(conn)->backend->health;
    const struct buf *reply = &call->request.reply;
    const struct outcome *outcome;
    struct member_answer answer;
    struct buf *json;

    if (member_answer_decode(reply->data, reply->len, &answer) != 0) {
        return ERR_BAD_MESSAGE;
    }
    outcome = &outcomes[answer.outcome];
    if (!see && outcome->code != NULL) {
        return reply_error(conn, outcome->status, outcome->code, "%s", answer.why);
    }
    json = reply_begin(conn);
    if (see) { /* the leader's word; what this node has applied may be a moment behind */
        buf_printf(json, "{\"%s\":%u,\"can_rise\":%s,\"newest\":%s", what,
                   atomic_load(&health->level), answer.outcome == MEMBER_DONE ? "true" : "false",
                   answer.outcome == MEMBER_NOT_NEXT ? "true" : "false");
    } else {
        buf_printf(json, "{\"%s\":%llu,\"status\":\"%s\"", what, ull(call->member_id),
                   answer.outcome == MEMBER_DONE ? "done" : "pending");
    }
    text_put_field(json, ",\"message\":", answer.why);
    buf_printf(json, "}");
    return see ? 200 : outcome->status;
}

static int member_answered_cb(struct conn *conn, struct call *call)
{
    return put_answer(conn, call, "id", false);
}

static int level_cb(struct conn *conn, struct call *call)
{
    return put_answer(conn, call, "level", call->member_id == 0);
}

/* number: the member's id, or the level. */
static int submit_member_ask(struct conn *conn, const struct member_ask *ask, uint64_t number,
                             int (*finish)(struct conn *conn, struct call *call),
                             uint32_t timeout_ms)
{
    struct call *call = call_new(ID_REQUEST_MEMBER, finish);

    call->member_id = number;
    member_ask_encode(ask, &call->request.payload);
    return call_submit_for(conn, call, timeout_ms);
}

/* What each asks for: an id in the path or the body, an address, the option force. */
static const struct form {
    bool id_in_path;
    bool body;
    bool address;
    bool force;
} forms[] = {
    [MEMBER_ASK_ADD] = {.body = true, .address = true, .force = true},
    [MEMBER_ASK_REMOVE] = {.id_in_path = true, .force = true},
    [MEMBER_ASK_LEAD] = {.body = true},
    [MEMBER_ASK_MOVE] = {.id_in_path = true, .body = true, .address = true, .force = true},
};

/* The body: an id unless the path has it, and an address. */
static bool read_body(struct conn *conn, struct member_ask *ask)
{
    const struct form *form = &forms[ask->kind];
    struct param fields[] = {
        {.name = "id", .needed = true, .min = 1, .max = LIMIT_NODE_ID},
        {.name = "peer_address", .needed = true, .kind = PARAM_TEXT},
    };
    struct param *address = &fields[1];
    json_t *body = request_body(conn, "a member's fields", "", form->id_in_path ? address : fields,
                                form->address && !form->id_in_path ? 2 : 1);
    char shown[SHOWN_BYTES];
    const char *why;
    bool good = body != NULL;

    if (good && form->address && !member_address_check(address->text, address->len, &why)) {
        good = reply_error(conn, 400, "bad_address", "peer_address %s is no host:port to dial: %s",
                           text_show(address->text, address->len, shown, sizeof shown), why);
    } else if (good && form->address) {
        memcpy(ask->address, address->text, address->len);
    }
    ask->node_id = form->id_in_path ? ask->node_id : fields[0].number;
    json_decref(body);
    return good;
}

static int handle_member_ask(struct conn *conn, enum member_ask_kind kind)
{
    struct param options[] = {OPTION_TIMEOUT(conn), {.name = "force", .max = 1}};
    struct member_ask ask = {.kind = (uint8_t)kind};
    const struct form *form = &forms[kind];

    if ((form->id_in_path &&
         !request_path_number(conn, "node id", 1, LIMIT_NODE_ID, &ask.node_id)) ||
        !request_options(conn, options, form->force ? 2 : 1) ||
        (form->body && !read_body(conn, &ask))) {
        return ANSWERED;
    }
    ask.force = options[1].number == 1;
    return submit_member_ask(conn, &ask, ask.node_id, member_answered_cb,
                             (uint32_t)options[0].number);
}

/* --- the level --- */

int handle_level_see(struct conn *conn)
{
    const struct member_ask ask = {.kind = MEMBER_ASK_LEVEL_SEE};
    struct param options[] = {OPTION_TIMEOUT(conn)};

    return request_options(conn, options, 1)
               ? submit_member_ask(conn, &ask, 0, level_cb, (uint32_t)options[0].number)
               : ANSWERED;
}

int handle_level_raise(struct conn *conn)
{
    struct param fields[] = {{.name = "level", .needed = true, .min = 1, .max = UINT16_MAX}};
    struct member_ask ask = {.kind = MEMBER_ASK_LEVEL};
    struct param options[] = {OPTION_TIMEOUT(conn)};
    json_t *body;

    if (!request_options(conn, options, 1)) {
        return ANSWERED;
    }
    body = request_body(conn, "the level", "", fields, 1);
    if (body == NULL) {
        return ANSWERED;
    }
    ask.level = (uint16_t)fields[0].number;
    json_decref(body);
    return submit_member_ask(conn, &ask, ask.level, level_cb, (uint32_t)options[0].number);
}

/* --- members --- */

int handle_member_add(struct conn *conn)
{
    return handle_member_ask(conn, MEMBER_ASK_ADD);
}

int handle_member_remove(struct conn *conn)
{
    return handle_member_ask(conn, MEMBER_ASK_REMOVE);
}

int handle_member_move(struct conn *conn)
{
    return handle_member_ask(conn, MEMBER_ASK_MOVE);
}

int handle_leader(struct conn *conn)
{
    return handle_member_ask(conn, MEMBER_ASK_LEAD);
}
