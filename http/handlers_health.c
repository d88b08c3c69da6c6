/*
 * handlers_health.c - GET /livez, /readyz, /version: answered from atomics, without asking anybody.
 *
 * Ready means that this node can hand out ids: it has its state, does not stop, and either holds
 * segments or can have them granted. A disk that is nearly full does not make a node unready while
 * it holds segments or while nothing is missing: it is shown as a warning.
 *
 * Thread: the loop's.
 */
#include "http/handlers.h"

#include <string.h>

#include "http/conn.h"
#include "src/base/assert.h"

#define CHECK_COUNT 5

struct check {
    const char *name;
    const char *reason; /* when it fails */
    bool ok;
    bool needed; /* readiness depends on it */
};

void handle_livez(struct conn *conn)
{
    static const char body[] = "{\"status\":\"alive\"}";
    char space[LIMIT_HTTP_TARGET_BYTES];

    if (conn_options(conn, NULL, 0, space)) {
        conn_reply(conn, 200, RESPONSE_JSON, NULL, body, sizeof(body) - 1);
    }
}

static void checks_make(const struct id_health *health, struct check ret_checks[CHECK_COUNT])
{
    bool leader = atomic_load(&health->leader_known);
    bool disk_ok = !atomic_load(&health->disk_low);
    bool held = atomic_load(&health->segments_held) > 0;

    ret_checks[0] = (struct check){"started", "the log is still being loaded",
                                   atomic_load(&health->started), true};
    ret_checks[1] = (struct check){"applied", "the state is older than at this node's last stop",
                                   atomic_load(&health->applied_once), true};
    ret_checks[2] =
        (struct check){"serving", "the node is stopping", !atomic_load(&health->stopping), true};
    ret_checks[3] = (struct check){"ids",
                                   leader ? "the disk is nearly full and no ids are held"
                                          : "no leader is known and no ids are held",
                                   held || (leader && disk_ok), true};
    ret_checks[4] = (struct check){"disk", "the disk is nearly full", disk_ok, false};
}

static void put_checks(const struct check checks[CHECK_COUNT], struct buf *buf)
{
    buf_printf(buf, ",\"checks\":[");
    for (int i = 0; i < CHECK_COUNT; i++) {
        buf_printf(buf, "%s{\"name\":\"%s\",\"ok\":%s,\"needed\":%s}", i > 0 ? "," : "",
                   checks[i].name, checks[i].ok ? "true" : "false",
                   checks[i].needed ? "true" : "false");
    }
    buf_printf(buf, "]");
}

void handle_readyz(struct conn *conn)
{
    struct option options[] = {{.name = "verbose"}};
    struct buf *scratch = &conn->loop->scratch;
    struct check checks[CHECK_COUNT];
    char space[LIMIT_HTTP_TARGET_BYTES];
    const char *comma = "";
    bool ready = true;

    if (!conn_options(conn, options, 1, space)) {
        return;
    }
    checks_make(conn->loop->backend->health, checks);
    for (int i = 0; i < CHECK_COUNT; i++) {
        ready = ready && (checks[i].ok || !checks[i].needed);
    }
    scratch->len = 0;
    buf_printf(scratch, "{\"status\":\"%s\"", ready ? "ready" : "not ready");
    if (!ready) {
        buf_printf(scratch, ",\"reasons\":[");
        for (int i = 0; i < CHECK_COUNT; i++) {
            if (!checks[i].ok && checks[i].needed) {
                buf_printf(scratch, "%s\"%s\"", comma, checks[i].reason);
                comma = ",";
            }
        }
        buf_printf(scratch, "]");
    }
    if (options[0].present) {
        put_checks(checks, scratch);
    }
    buf_printf(scratch, "}");
    conn_reply_json(conn, ready ? 200 : 503, scratch);
}

void handle_version(struct conn *conn)
{
    const struct http_config *config = conn->loop->config;
    struct buf *scratch = &conn->loop->scratch;
    char space[LIMIT_HTTP_TARGET_BYTES];

    if (!conn_options(conn, NULL, 0, space)) {
        return;
    }
    scratch->len = 0;
    buf_printf(scratch, "{\"version\":");
    text_put_json(scratch, config->version, strlen(config->version));
    buf_printf(scratch, ",\"commit\":");
    text_put_json(scratch, config->commit, strlen(config->commit));
    buf_printf(scratch, ",\"libraries\":%s}", config->libraries);
    conn_reply_json(conn, 200, scratch);
}
