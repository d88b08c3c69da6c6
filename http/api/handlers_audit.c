/*
 * handlers_audit.c - GET /api/audit: who changed what at this node, and who was refused.
 *
 * Failure modes: none of its own. Thread: the loop's.
 */
#include "http/api/context.h"
#include "http/api/handlers.h"
#include "http/api/request.h"

int handle_audit(struct conn *conn)
{
    struct param options[] = {
        {.name = "after", .max = UINT64_MAX},
        {.name = "limit", .min = 1, .max = LIMIT_AUDIT_PER_PAGE, .number = PAGE_LIMIT_DEFAULT},
    };
    struct auth *auth = api_loop(conn)->api->auth;

    if (!request_options(conn, options, COUNT_OF(options))) {
        return ANSWERED;
    }
    if (auth == NULL) {
        buf_printf(reply_begin(conn), "{\"entries\":[],\"next\":null}");
        return 200;
    }
    audit_list(&auth->audit, options[0].number, (size_t)options[1].number, reply_begin(conn));
    return 200;
}
