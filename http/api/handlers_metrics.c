/*
 * handlers_metrics.c - GET /metrics: what the HTTP side sees, in the text format of Prometheus.
 *
 * The happy path: atomics are read and written out, without asking anybody. A value that is not
 * known (the layout's end, before there is a layout) is left out.
 *
 * Thread: the loop's; counters of other loops are read as they are at the moment.
 */
#include "http/api/handlers.h"

#include "http/api/context.h"
#include "http/api/request.h"
#include "http/api/refusal.h"

#define METRICS_TYPE "text/plain; version=0.0.4"

/* Sums over all loops, as of now. */
struct totals {
    uint64_t segment_ids;
    uint64_t snowflake_ids;
    uint64_t strict_ids;
    uint64_t burnt_skipped;
    uint64_t burnt_unanswered;
    uint64_t replies[6]; /* by the first digit of their status */
    uint64_t connections;
    uint64_t waiting; /* requests that wait for ids */
    uint64_t refused[CONN_REFUSALS];
    uint64_t parts;
    uint64_t body_bytes;
    uint64_t output_bytes;
    bool has_tls;
    uint64_t handshakes_full;
    uint64_t handshakes_resumed;
    uint64_t handshakes_failed;
};

static uint64_t count_of(const _Atomic uint64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

/* What the connections of a loop hold, and whom it refused. */
static void totals_add_conns(struct totals *totals, const struct conns *conns)
{
    const struct conn_counts *counts = &conns->counts;

    for (unsigned k = 0; k < sizeof totals->replies / sizeof totals->replies[0]; k++) {
        totals->replies[k] += count_of(&counts->replies[k]);
    }
    for (unsigned k = 0; k < CONN_REFUSALS; k++) {
        totals->refused[k] += count_of(&counts->refused[k]);
    }
    totals->connections += atomic_load_explicit(&counts->conns, memory_order_relaxed);
    totals->parts += count_of(&counts->parts);
    totals->body_bytes += count_of(&conns->budget.body_bytes);
    totals->output_bytes += count_of(&conns->budget.output_bytes);
}

static void totals_make(const struct api *api, struct totals *ret_totals)
{
    struct totals totals = {0};

    for (unsigned i = 0; i < api->loop_count; i++) {
        const struct api_loop *loop = api->loops[i];

        totals.segment_ids += count_of(&loop->counts.segment_ids);
        totals.snowflake_ids += count_of(&loop->counts.snowflake_ids);
        totals.strict_ids += count_of(&loop->counts.strict_ids);
        totals.burnt_skipped += count_of(&loop->counts.burnt_skipped);
        totals.burnt_unanswered += count_of(&loop->counts.burnt_unanswered);
        totals_add_conns(&totals, loop->conns);
        if (loop->conns->tls != NULL) {
            totals.handshakes_full += count_of(&loop->conns->tls->counts.full);
            totals.handshakes_resumed += count_of(&loop->conns->tls->counts.resumed);
            totals.handshakes_failed += count_of(&loop->conns->tls->counts.failed);
            totals.has_tls = true;
        }
        totals.waiting += atomic_load_explicit(&loop->waiters.count, memory_order_relaxed);
    }
    *ret_totals = totals;
}

static void put_head(struct buf *buf, const char *name, const char *type, const char *help)
{
    buf_printf(buf, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

/* A metric of one sample. */
static void put_metric(struct buf *buf, const char *name, const char *type, const char *help,
                       uint64_t value)
{
    put_head(buf, name, type, help);
    buf_printf(buf, "%s %llu\n", name, (unsigned long long)value);
}

/* One sample of a metric that has several. */
static void put_sample(struct buf *buf, const char *name, const char *label,
                       const char *label_value, uint64_t value)
{
    buf_printf(buf, "%s{%s=\"%s\"} %llu\n", name, label, label_value, (unsigned long long)value);
}

static void put_counters(struct buf *buf, const struct totals *totals)
{
    static const char ids[] = "leafd_ids_total";
    static const char *const classes[] = {[2] = "2xx", "3xx", "4xx", "5xx"};

    put_head(buf, ids, "counter", "Ids handed out by this node.");
    put_sample(buf, ids, "kind", "segment", totals->segment_ids);
    put_sample(buf, ids, "kind", "snowflake", totals->snowflake_ids);
    put_sample(buf, ids, "kind", "strict", totals->strict_ids);
    put_head(buf, "leafd_http_requests_total", "counter",
             "Requests answered, by the class of their status.");
    for (int digit = 2; digit <= 5; digit++) {
        put_sample(buf, "leafd_http_requests_total", "status", classes[digit],
                   totals->replies[digit]);
    }
    put_head(buf, "leafd_http_refused_total", "counter",
             "Requests, bodies and connections refused or cut off for what a client may take.");
    for (int refusal = 0; refusal < CONN_REFUSALS; refusal++) {
        put_sample(buf, "leafd_http_refused_total", "why",
                   conn_refusal_name((enum conn_refusal)refusal), totals->refused[refusal]);
    }
    put_metric(buf, "leafd_http_parts_total", "counter",
               "Parts of large replies, each made in a turn of its own.", totals->parts);
}

static void put_burnt(struct buf *buf, const struct id_health *health, const struct totals *totals)
{
    static const char *const causes[] = {[ID_BURN_GENERATION] = "generation",
                                         [ID_BURN_LATE] = "late",
                                         [ID_BURN_STOP] = "stop",
                                         [ID_BURN_STRICT] = "strict",
                                         [ID_BURN_SKIPPED] = "skipped",
                                         [ID_BURN_UNANSWERED] = "unanswered"};

    put_head(buf, "leafd_ids_burnt_total", "counter",
             "Ids granted to this node that nobody was given, by cause.");
    for (int cause = 0; cause < ID_BURN_CAUSES; cause++) {
        uint64_t burnt = count_of(&health->burnt[cause]);

        burnt += cause == ID_BURN_SKIPPED ? totals->burnt_skipped : 0;
        burnt += cause == ID_BURN_UNANSWERED ? totals->burnt_unanswered : 0;
        put_sample(buf, "leafd_ids_burnt_total", "cause", causes[cause], burnt);
    }
    put_metric(buf, "leafd_ids_given_back_total", "counter",
               "Ids that this node gave back unused when it stopped.",
               count_of(&health->given_back));
}

/* Which cluster this is, once it is one: two that were born apart show by it. */
static void put_birth(struct buf *buf, const struct id_health *health)
{
    char text[UID_TEXT_BYTES];
    struct uid uid;
    bool born = id_health_uid(health, &uid);

    put_metric(buf, "leafd_born", "gauge", "1 if this node has heard of its cluster's birth.",
               born);
    if (born) {
        put_head(buf, "leafd_cluster_info", "gauge", "1, with the uid of the cluster.");
        put_sample(buf, "leafd_cluster_info", "uid", uid_text(&uid, text), 1);
    }
}

static void put_health(struct buf *buf, const struct id_health *health, const struct totals *totals)
{
    const struct {
        const char *name;
        const char *help;
        uint64_t value;
    } gauges[] = {
        {"leafd_connections", "Open client connections.", totals->connections},
        {"leafd_waiting_requests", "Requests that wait for ids.", totals->waiting},
        {"leafd_http_body_bytes", "Request bodies in memory.", totals->body_bytes},
        {"leafd_http_output_bytes", "Memory of replies that were not taken.", totals->output_bytes},
        {"leafd_leader_known", "1 if this node knows the cluster's leader.", health->leader_known},
        {"leafd_leader_through",
         "Id of the node through which this one reaches the leader, 0: directly.",
         health->leader_through},
        {"leafd_disk_low", "1 if the disk or the database is nearly full.", health->disk_low},
        {"leafd_state_bytes", "Memory that tags and idempotency keys take.", health->state_bytes},
        {"leafd_state_max_bytes", "What they may take: data.memory-bytes.",
         health->state_max_bytes},
        {"leafd_tags", "Tags of the cluster, as this node has applied them.", health->state_tags},
        {"leafd_tags_deleted", "Deleted tags, whose names keep their high-water marks.",
         health->state_dead},
        {"leafd_idempotency_keys", "Idempotency keys that are kept.", health->state_keys},
        {"leafd_members", "Members of the cluster, as this node knows them.", health->members},
        {"leafd_voters", "Members that vote.", health->voters},
        {"leafd_level", "The level of the cluster, as this node has applied it.", health->level},
        {"leafd_level_able", "The newest level that this node speaks.", health->level_able},
        {"leafd_member_change", "1 while a change of the members is under way.",
         health->member_change},
    };

    for (size_t i = 0; i < COUNT_OF(gauges); i++) {
        put_metric(buf, gauges[i].name, "gauge", gauges[i].help, gauges[i].value);
    }
    put_head(buf, "leafd_setting_differs", "gauge",
             "1 if this setting is not what the log knows, which holds.");
    for (unsigned i = 0; i < ID_DIFFERENCES; i++) {
        put_sample(buf, "leafd_setting_differs", "setting", id_difference_setting(i),
                   (atomic_load(&health->differs) >> i) & 1);
    }
    put_birth(buf, health);
    put_metric(buf, "leafd_peer_implausible_total", "counter",
               "What other nodes told this one and was refused, since it cannot be.",
               count_of(&health->implausible));
}

/* A signed number of milliseconds as seconds, exactly. */
static void put_seconds(struct buf *buf, const char *name, int64_t ms)
{
    uint64_t size_ms = ms < 0 ? 0 - (uint64_t)ms : (uint64_t)ms;

    buf_printf(buf, "%s %s%llu.%03llu\n", name, ms < 0 ? "-" : "",
               (unsigned long long)(size_ms / 1000), (unsigned long long)(size_ms % 1000));
}

static void put_snowflake(struct buf *buf, const struct id_backend *backend)
{
    static const int codes[] = REFUSAL_CODES;
    const struct snowflake *snowflake = backend->snowflake;
    int refusal = refusal_now(backend);
    uint64_t now_ms = clock_wall_ms(backend->clock);
    uint64_t last_ms;

    put_head(buf, "leafd_snowflake_refused", "gauge",
             "1 while snowflake ids are refused for this reason.");
    for (size_t i = 0; i < COUNT_OF(codes); i++) {
        put_sample(buf, "leafd_snowflake_refused", "code", err_code(codes[i]), codes[i] == refusal);
    }
    put_head(buf, "leafd_clock_off_seconds", "gauge",
             "How far the clock is ahead of the cluster's; behind: negative.");
    put_seconds(buf, "leafd_clock_off_seconds", atomic_load(&backend->health->clock_off_ms));
    if (snowflake != NULL && atomic_load_explicit(&snowflake->ready, memory_order_acquire)) {
        last_ms = snowflake_last_ms(&snowflake->layout);
        put_metric(buf, "leafd_snowflake_layout_seconds_left", "gauge",
                   "Time until the layout of snowflake ids is used up.",
                   last_ms > now_ms ? (last_ms - now_ms) / 1000 : 0);
    }
}

static void put_tls(struct buf *buf, const struct totals *totals)
{
    static const char name[] = "leafd_tls_handshakes_total";

    if (totals->has_tls) {
        put_head(buf, name, "counter", "TLS connections that began, and those that could not.");
        put_sample(buf, name, "result", "full", totals->handshakes_full);
        put_sample(buf, name, "result", "resumed", totals->handshakes_resumed);
        put_sample(buf, name, "result", "failed", totals->handshakes_failed);
    }
}

/* Of the settings, on SIGHUP. */
static void put_reloads(struct buf *buf, const struct http_reloads *reloads)
{
    if (reloads == NULL) {
        return;
    }
    put_head(buf, "leafd_reloads_total", "counter", "How often the settings were read again.");
    put_sample(buf, "leafd_reloads_total", "result", "done", count_of(&reloads->done));
    put_sample(buf, "leafd_reloads_total", "result", "refused", count_of(&reloads->refused));
    put_head(buf, "leafd_reload_timestamp_seconds", "gauge",
             "Unix time of the last reload that was done; 0: none yet.");
    put_seconds(buf, "leafd_reload_timestamp_seconds", (int64_t)count_of(&reloads->done_ms));
}

/* For how long whatever came had to wait for a loop. */
static void put_stalls(struct buf *buf, const struct api_loop *loop)
{
    const struct stall *raft = &loop->backend->health->stall;
    uint64_t now_ms = clock_now_ms(loop->backend->clock);

    for (unsigned minute = 0; minute < 2; minute++) {
        const char *name = minute == 1 ? "leafd_loop_longest_stall_minute_seconds"
                                       : "leafd_loop_longest_stall_seconds";

        put_head(buf, name, "gauge",
                 minute == 1 ? "The longest turn of a loop in the last minute."
                             : "The longest turn of a loop since the start.");
        buf_printf(
            buf, "%s{loop=\"raft\"} %.3f\n", name,
            1e-3 * (double)(minute == 1 ? stall_minute_ms(raft, now_ms) : stall_longest_ms(raft)));
        for (unsigned i = 0; i < loop->api->loop_count; i++) {
            const struct stall *stall = &loop->api->loops[i]->conns->stall;

            buf_printf(buf, "%s{loop=\"http-%u\"} %.3f\n", name, i,
                       1e-3 * (double)(minute == 1 ? stall_minute_ms(stall, now_ms)
                                                   : stall_longest_ms(stall)));
        }
    }
}

int handle_metrics(struct conn *conn)
{
    const struct api_loop *loop = api_loop(conn);
    struct buf *text = reply_begin(conn);
    struct totals totals;

    totals_make(loop->api, &totals);
    totals.output_bytes -= conn->output.counted; /* of this reply's connection */
    put_counters(text, &totals);
    put_tls(text, &totals);
    put_burnt(text, loop->backend->health, &totals);
    put_health(text, loop->backend->health, &totals);
    put_snowflake(text, loop->backend);
    put_reloads(text, loop->api->build->reloads);
    put_stalls(text, loop);
    put_head(text, "leafd_build_info", "gauge", "1, with what this binary is.");
    text_put_field(text, "leafd_build_info{version=", loop->api->build->version);
    text_put_field(text, ",commit=", loop->api->build->commit);
    buf_printf(text, "} 1\n");
    conn_reply(conn, 200, METRICS_TYPE, NULL, text->data, text->len);
    return ANSWERED;
}
