/*
 * wait_all.c - see wait_all.h. Thread: the loop's.
 */
#include "http/api/wait_all.h"

#include <stdio.h>
#include <string.h>

#include "http/api/context.h"
#include "http/api/request.h"
#include "src/base/assert.h"
#include "src/base/container.h"

/* A change needs a majority, which no request that waits for nothing could ever hear: with less
 * than that, timeout_ms bounds only the wait for all. */
#define CHANGE_WAIT_MIN_MS 500
#define NAMES_BYTES 320

bool wait_all_read(struct conn *conn, const struct option *wait, const struct option *timeout_ms,
                   struct change_wait *ret_wait)
{
    char shown[80];

    ret_wait->all = wait->present && wait->len == 3 && memcmp(wait->value, "all", 3) == 0;
    if (wait->present && !ret_wait->all) {
        reply_error(conn, 400, "bad_request", "wait=%s is not all, its only value",
                    text_show(wait->value, wait->len, shown, sizeof shown));
        return false;
    }
    if (!request_timeout(conn, timeout_ms, &ret_wait->timeout_ms)) {
        return false;
    }
    ret_wait->until_ms = conns_now_ms(conn->conns) + ret_wait->timeout_ms;
    return true;
}

void wait_all_submit(struct conn *conn, struct call *change, const struct change_wait *wait)
{
    change->sees_errors = true;
    change->change.wait = *wait;
    call_submit_for(conn, change,
                    wait->timeout_ms > CHANGE_WAIT_MIN_MS ? wait->timeout_ms : CHANGE_WAIT_MIN_MS);
}

static void drain(struct http_wait *wait);

/* Ask for the wait of a change, or once more for one that is asked for; its answer moves on. */
static void ask(struct conn *conn, struct call *from, uint32_t wait_ms)
{
    struct call *waited = call_new(ID_REQUEST_EVERYWHERE, from->finish);

    waited->sees_errors = true;
    waited->change.wait = from->change.wait;
    waited->request.index = from->request.index;
    buf_move(&waited->request.reply, &from->request.reply);
    waited->wait.expire = drain;
    waited->wait.expires_on_drain = true;
    call_submit_for(conn, waited, wait_ms);
}

/* The loop drains: the request is answered with what is known now. */
static void drain(struct http_wait *wait)
{
    ask(conn_resume(wait), CONTAINER(wait, struct call, wait), 0);
}

bool wait_all_begin(struct conn *conn, struct call *change)
{
    uint64_t now_ms = conns_now_ms(conn->conns);
    uint64_t until_ms = conn->conns->draining ? now_ms : change->change.wait.until_ms;

    if (!change->change.wait.all || change->request.kind == ID_REQUEST_EVERYWHERE) {
        return false;
    }
    ask(conn, change, until_ms > now_ms ? (uint32_t)(until_ms - now_ms) : 0);
    return true;
}

/* "node 2 and node 3 (cut off)"; as JSON: [{"id":2,"reachable":true},...]. */
static void name_missing(const struct id_missing *missing, char names[NAMES_BYTES],
                         char json[NAMES_BYTES])
{
    size_t at = 0;
    size_t json_at = 0;

    for (size_t i = 0; i < missing->count; i++) {
        bool reachable = missing->nodes[i].reachable;
        const char *before = i == 0 ? "" : i + 1 == missing->count ? " and " : ", ";
        unsigned long long id = missing->nodes[i].id;

        at += (size_t)snprintf(names + at, NAMES_BYTES - at, "%snode %llu%s", before, id,
                               reachable ? "" : " (cut off)");
        json_at += (size_t)snprintf(json + json_at, NAMES_BYTES - json_at,
                                    "%s{\"id\":%llu,\"reachable\":%s}", i == 0 ? "" : ",", id,
                                    reachable ? "true" : "false");
        ASSERT(at < NAMES_BYTES && json_at < NAMES_BYTES);
    }
}

bool wait_all_failed(struct conn *conn, const struct call *waited, const char *what)
{
    char names[NAMES_BYTES] = "some node";
    char json[NAMES_BYTES] = "";
    char when[32] = "yet as far as is known";
    char why[96] = "";
    char more[NAMES_BYTES + 32];

    if (waited->request.status == 0) {
        return false;
    }
    if (waited->request.kind != ID_REQUEST_EVERYWHERE) {
        reply_err(conn, waited->request.status);
        return true;
    }
    name_missing(&waited->change.missing, names, json);
    (void)snprintf(more, sizeof more, ",\"missing\":[%s]", json);
    if (conn->conns->draining) {
        (void)snprintf(why, sizeof why, ": %s", err_text(ERR_SHUTTING_DOWN));
    } else if (waited->request.status == ERR_TIMEOUT) {
        (void)snprintf(when, sizeof when, "within %u ms", waited->change.wait.timeout_ms);
    } else if (waited->request.status == ERR_OVERLOADED) {
        (void)snprintf(why, sizeof why, ": %d requests wait for all already",
                       LIMIT_EVERYWHERE_WAITS);
    } else {
        (void)snprintf(why, sizeof why, ": %s", err_text(waited->request.status));
    }
    reply_error_with(conn, 503, "not_everywhere", more,
                     "%s, but %s %s not followed %s, and may hand out older ids%s", what, names,
                     waited->change.missing.count > 1 ? "have" : "has", when, why);
    return true;
}
