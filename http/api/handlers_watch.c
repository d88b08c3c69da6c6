/*
 * handlers_watch.c - GET /api/status and GET /api/events: what an operator sees of this node.
 *
 * Failure modes: those of the backend, see reply_err(). Thread: the loop's.
 */
#include "http/api/call.h"
#include "http/api/gate.h"
#include "http/api/handlers.h"
#include "http/api/request.h"
#include "http/api/watch.h"

/* Who asks, and what it may do: so that the page offers nothing else. */
static void put_you(struct conn *conn, struct buf *json)
{
    const struct identity *identity = NULL;
    unsigned roles = ROLES_ALL;
    const char *comma = "";

    if (api_loop(conn)->api->auth != NULL) {
        identity = gate_identity(conn);
        roles = identity->roles;
    }
    text_put_field(json, ",\"you\":{\"name\":", identity != NULL ? identity->name : "anybody");
    buf_printf(json, ",\"roles\":[");
    for (unsigned i = 0; i < ROLE_COUNT; i++) {
        if ((roles & 1U << i) != 0) {
            text_put_field(json, comma, role_name((enum role)(1U << i)));
            comma = ",";
        }
    }
    buf_printf(json, "],\"prefixes\":[");
    for (size_t i = 0; identity != NULL && i < identity->prefix_count; i++) {
        buf_printf(json, "%s", i > 0 ? "," : "");
        text_put_json(json, identity->prefixes[i].text, identity->prefixes[i].len);
    }
    buf_printf(json, "]}");
}

static int status_cb(struct conn *conn, struct call *call)
{
    struct buf *json = reply_begin(conn);

    buf_printf(json, "{");
    status_json_put(api_loop(conn)->api, call->cluster, json);
    put_you(conn, json);
    buf_printf(json, "}");
    return 200;
}

int handle_status(struct conn *conn)
{
    return call_submit(conn, call_new(ID_REQUEST_STATUS, status_cb));
}

int handle_events(struct conn *conn)
{
    struct param options[] = {
        {.name = "after", .max = UINT64_MAX},
        {.name = "limit", .min = 1, .max = LIMIT_EVENTS_PER_PAGE, .number = PAGE_LIMIT_DEFAULT},
    };

    if (!request_options(conn, options, COUNT_OF(options))) {
        return ANSWERED;
    }
    events_list(&api_loop(conn)->api->watch->events, options[0].number, (size_t)options[1].number,
                reply_begin(conn));
    return 200;
}
