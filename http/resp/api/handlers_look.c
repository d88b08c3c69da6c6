/*
 * handlers_look.c - what is looked at over RESP: GET, LEAFD.DECODE, INFO.
 *
 * GET asks the leader for the tag's max_id, which is not what Redis's GET would say after INCR: the
 * ids below it belong to nodes, and some of them were not handed out yet.
 *
 * INFO is what clients look at when they connect, in words of Redis: none is loading or a replica.
 * What it says of the node itself is for those who may ask for its health.
 *
 * Failure modes: a tag that there is not: nil; what the cluster cannot say now: an error.
 *
 * Thread: the loop's.
 */
#include "http/resp/api/resp.h"

#include "http/api/call.h"
#include "http/api/context.h"
#include "http/api/gate.h"
#include "http/api/layout_use.h"
#include "http/api/request.h"
#include "http/resp/proto/reply.h"
#include "src/base/assert.h"
#include "src/base/process.h"
#include "src/id/codec/tag.h"
#include "src/id/snowflake/snowflake_named.h"

static int got_cb(struct conn *conn, struct call *call)
{
    const struct buf *reply = &call->request.reply;
    char digits[TEXT_DECIMAL_BYTES];
    TAG_ROWS_LOCAL(rows);
    int status = call->request.status;

    if (status != 0 && status != ERR_UNKNOWN_TAG) {
        return status;
    }
    if (status == 0 && (tag_rows_decode(reply->data, reply->len, &rows) != 0 || rows.count != 1)) {
        return ERR_BAD_MESSAGE;
    }
    if (status == 0) {
        reply_bulk(reply_begin(conn), digits, text_decimal(rows.rows[0].max_id, digits));
    } else {
        reply_nil(reply_begin(conn), resp_caller(conn)->version);
    }
    return 200;
}

int handle_get(struct conn *conn)
{
    size_t len;
    const char *name = caller_word(conn, 1, &len);
    const char *why = "";
    struct call *call;

    if (tag_name_check(name, len, &why) != 0) {
        return reply_bad_tag(conn, name, len, why);
    }
    call = call_new(ID_REQUEST_QUERY, got_cb);
    call->sees_errors = true;
    query_get_encode(&call->request.payload, name, len);
    return call_submit(conn, call);
}

/* The id's parts by the cluster's own layout. False: answered. */
static bool decode_own(struct conn *conn, uint64_t id, struct snowflake_parts *ret_parts)
{
    const struct snowflake *snowflake = api_loop(conn)->backend->snowflake;

    if (snowflake == NULL) {
        return reply_error(conn, 503, "disabled", "snowflake ids are switched off on this node");
    }
    if (!atomic_load_explicit(&snowflake->ready, memory_order_acquire)) {
        return reply_error(conn, 503, "no_leader",
                           "the cluster's layout is not known on this node yet");
    }
    *ret_parts = snowflake_decode(&snowflake->layout, id);
    return true;
}

/* By the layout that LAYOUT names. False: answered. */
static bool decode_named(struct conn *conn, uint64_t id, struct snowflake_parts *ret_parts)
{
    const struct layout_words *named;
    const char *name;
    size_t len;

    if (resp_caller(conn)->words.count != 4 || !caller_word_is(conn, 2, "LAYOUT")) {
        return caller_wrong_words(conn);
    }
    name = caller_word(conn, 3, &len);
    named = layout_named(conn, name, len);
    if (named == NULL) {
        return false;
    }
    return named_layout_decode(&named->row.layout, id, ret_parts) ||
           reply_error(conn, 400, "bad_request",
                       "id %llu is of no time that can be shown in layout %s", ull(id),
                       named->row.name);
}

int handle_decode(struct conn *conn)
{
    unsigned version = resp_caller(conn)->version;
    char time[TEXT_TIME_BYTES];
    char shown[SHOWN_BYTES];
    struct snowflake_parts parts = {0};
    struct buf *out;
    size_t len;
    const char *text = caller_word(conn, 1, &len);
    uint64_t id;

    if (text_parse_decimal(text, len, 0, INT64_MAX, &id) != 0) {
        return reply_error(conn, 400, "bad_request", "id %s is not a whole number from 0 to %llu",
                           text_show(text, len, shown, sizeof shown), ull(INT64_MAX));
    }
    if (resp_caller(conn)->words.count > 2 ? !decode_named(conn, id, &parts)
                                           : !decode_own(conn, id, &parts)) {
        return ANSWERED;
    }
    out = reply_begin(conn);
    reply_map(out, version, 5);
    reply_number(out, "id", id);
    reply_number(out, "timestamp_ms", parts.unix_ms);
    reply_pair(out, "time", text_time_rfc3339(parts.unix_ms, time));
    reply_number(out, "worker_id", parts.worker);
    reply_number(out, "sequence", parts.sequence);
    return 200;
}

/* What `redis-cli --stat` shows. */
static void put_activity(struct buf *text, const struct api *api)
{
    uint64_t conns = 0;
    uint64_t begun = 0;
    uint64_t replies = 0;
    struct process_figures process;

    for (unsigned i = 0; i < api->loop_count; i++) {
        const struct conn_counts *counts = &api->loops[i]->conns->counts;

        conns += atomic_load_explicit(&counts->resp_conns, memory_order_relaxed);
        begun += atomic_load_explicit(&counts->resp_begun, memory_order_relaxed);
        for (unsigned k = 0; k < LATENCY_STATUSES; k++) {
            replies += id_count_of(&counts->resp_replies[k]);
        }
    }
    process_look(&process);
    buf_printf(text,
               "\r\n# Clients\r\nconnected_clients:%llu\r\nblocked_clients:0\r\n"
               "\r\n# Memory\r\nused_memory:%llu\r\n"
               "\r\n# Stats\r\ntotal_connections_received:%llu\r\n"
               "total_commands_processed:%llu\r\n",
               ull(conns), ull(process.resident_bytes), ull(begun), ull(replies));
}

int handle_info(struct conn *conn)
{
    const struct api_loop *loop = api_loop(conn);
    const struct id_health *health = loop->backend->health;
    BUF_LOCAL(text);

    buf_printf(&text, "# Server\r\nserver_name:leafd\r\nredis_version:7.0.0\r\n"
                      "redis_mode:standalone\r\n");
    if (gate_may(conn, ROLE_HEALTH)) {
        buf_printf(&text, "leafd_version:%s\r\nleader_known:%d\r\n", loop->api->build->version,
                   atomic_load(&health->leader_known) ? 1 : 0);
        put_activity(&text, loop->api);
    }
    buf_printf(&text, "\r\n# Persistence\r\nloading:0\r\n\r\n# Replication\r\nrole:master\r\n"
                      "connected_slaves:0\r\n\r\n# Cluster\r\ncluster_enabled:0\r\n");
    reply_lines(reply_begin(conn), resp_caller(conn)->version, text.data, text.len);
    return 200;
}
