/*
 * handlers_metrics.c - GET /metrics: what the HTTP side sees, and the node's part
 * (metrics_node.h), in the format that the client would rather have (exposition.h).
 *
 * Thread: the loop's; counters of other loops are read as they are at the moment.
 */
#include "http/api/handlers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "http/api/context.h"
#include "http/api/exposition.h"
#include "http/api/gate.h"
#include "http/api/metrics_node.h"
#include "http/api/request.h"
#include "http/proto/head.h"
#include "http/tls/tls.h"
#include "src/base/assert.h"

/* Sums over all loops, as of now. */
struct totals {
    uint64_t segment_ids;
    uint64_t snowflake_ids;
    uint64_t strict_ids;
    uint64_t monotonic_ids;
    uint64_t burnt_skipped;
    uint64_t burnt_unanswered;
    struct histogram_view took[LATENCY_CLASSES][LATENCY_STATUSES];
    uint64_t connections;
    uint64_t resp_connections;
    uint64_t resp_replies[LATENCY_STATUSES];
    uint64_t waiting; /* requests that wait for ids */
    uint64_t refused[METER_REFUSALS];
    uint64_t parts;
    uint64_t body_bytes;
    uint64_t output_bytes;
    uint64_t input_bytes;
    uint64_t waiting_bytes;
    bool has_tls;
    uint64_t handshakes_full;
    uint64_t handshakes_resumed;
    uint64_t handshakes_failed;
};

/* What the connections of a loop hold, and whom it refused. */
static void totals_add_conns(struct totals *totals, const struct conns *conns)
{
    const struct conn_counts *counts = &conns->counts;

    for (unsigned class = 0; class < LATENCY_CLASSES; class ++) {
        for (unsigned k = 0; k < LATENCY_STATUSES; k++) {
            histogram_add(&totals->took[class][k], &conns->latency.took[class][k]);
        }
    }
    for (unsigned k = 0; k < METER_REFUSALS; k++) {
        totals->refused[k] += id_count_of(&counts->refused[k]);
    }
    totals->connections += atomic_load_explicit(&counts->conns, memory_order_relaxed);
    totals->resp_connections += atomic_load_explicit(&counts->resp_conns, memory_order_relaxed);
    for (unsigned k = 0; k < LATENCY_STATUSES; k++) {
        totals->resp_replies[k] += id_count_of(&counts->resp_replies[k]);
    }
    totals->parts += id_count_of(&counts->parts);
    totals->body_bytes += id_count_of(&conns->meter.body_bytes);
    totals->output_bytes += id_count_of(&conns->meter.output_bytes);
    totals->input_bytes += id_count_of(&conns->meter.input_bytes);
    totals->waiting_bytes += id_count_of(&conns->meter.waiting_bytes);
}

static void totals_make(const struct api *api, struct totals *totals)
{
    memset(totals, 0, sizeof *totals);
    for (unsigned i = 0; i < api->loop_count; i++) {
        const struct api_loop *loop = api->loops[i];

        totals->segment_ids += id_count_of(&loop->counts.segment_ids);
        totals->snowflake_ids += id_count_of(&loop->counts.snowflake_ids);
        totals->strict_ids += id_count_of(&loop->counts.strict_ids);
        totals->monotonic_ids += id_count_of(&loop->counts.monotonic_ids);
        totals->burnt_skipped += id_count_of(&loop->counts.burnt_skipped);
        totals->burnt_unanswered += id_count_of(&loop->counts.burnt_unanswered);
        totals_add_conns(totals, loop->conns);
        if (loop->conns->tls != NULL) {
            totals->handshakes_full += id_count_of(&loop->conns->tls->counts.full);
            totals->handshakes_resumed += id_count_of(&loop->conns->tls->counts.resumed);
            totals->handshakes_failed += id_count_of(&loop->conns->tls->counts.failed);
            totals->has_tls = true;
        }
        totals->waiting += atomic_load_explicit(&loop->waiters.count, memory_order_relaxed);
    }
}

static const char *const statuses[LATENCY_STATUSES] = {"2xx", "3xx", "4xx", "5xx"};

/* Requests by the class of their status, those of all classes of `probes`, or of all others. */
static void put_replies(struct exposition *to, const struct totals *totals, const char *name,
                        const char *help, bool probes)
{
    expose_family(to, name, METRIC_COUNTER, help);
    for (unsigned k = 0; k < LATENCY_STATUSES; k++) {
        uint64_t count = 0;

        for (unsigned class = 0; class < LATENCY_CLASSES; class ++) {
            if ((class == TRAFFIC_PROBE) == probes) {
                count += histogram_count(&totals->took[class][k]);
            }
        }
        expose_of(to, "status", statuses[k], count);
    }
}

/* The newest of all loops. */
static void see_exemplars(const struct api *api, unsigned class, unsigned k,
                          struct exemplar_view ret_exemplars[HISTOGRAM_BUCKETS])
{
    memset(ret_exemplars, 0, HISTOGRAM_BUCKETS * sizeof ret_exemplars[0]);
    for (unsigned i = 0; i < api->loop_count; i++) {
        const struct latency *latency = &api->loops[i]->conns->latency;

        for (unsigned b = 0; b < HISTOGRAM_BUCKETS; b++) {
            exemplar_newer(&ret_exemplars[b], &latency->exemplars[class][k][b]);
        }
    }
}

/* Those of which there was none yet are left out but for successes: each is many lines. */
static void put_latency(struct exposition *to, const struct api *api, const struct totals *totals)
{
    static const char *const classes[] = {
        [TRAFFIC_OTHER] = "other",   [TRAFFIC_SEGMENT] = "segment",
        [TRAFFIC_STRICT] = "strict", [TRAFFIC_SNOWFLAKE] = "snowflake",
        [TRAFFIC_DECODE] = "decode", [TRAFFIC_READ] = "read",
        [TRAFFIC_TAGS] = "tags",     [TRAFFIC_WORKERS] = "workers",
        [TRAFFIC_ADMIN] = "admin",   [TRAFFIC_RESP] = "resp"};
    struct exemplar_view exemplars[HISTOGRAM_BUCKETS];
    char label[2 * EXPOSITION_WORD_BYTES];

    expose_family(to, "leafd_http_request_duration_seconds", METRIC_HISTOGRAM,
                  "From a request that is complete to its reply, by class and status.");
    for (unsigned class = 0; class < COUNT_OF(classes); class ++) {
        for (unsigned k = 0; k < LATENCY_STATUSES; k++) {
            const struct histogram_view *view = &totals->took[class][k];

            if (histogram_count(view) > 0 || (k == 0 && class != TRAFFIC_OTHER)) {
                (void)snprintf(label, sizeof label, "class=\"%s\",status=\"%s\"", classes[class],
                               statuses[k]);
                see_exemplars(api, class, k, exemplars);
                expose_histogram(to, label, view, exemplars);
            }
        }
    }
}

static void put_counters(struct exposition *to, const struct totals *totals)
{
    expose_family(to, "leafd_ids_total", METRIC_COUNTER, "Ids handed out by this node.");
    expose_of(to, "kind", "segment", totals->segment_ids);
    expose_of(to, "kind", "snowflake", totals->snowflake_ids);
    expose_of(to, "kind", "strict", totals->strict_ids);
    expose_of(to, "kind", "monotonic", totals->monotonic_ids);
    put_replies(to, totals, "leafd_http_requests_total",
                "Requests answered, by the class of their status; probes apart.", false);
    put_replies(to, totals, "leafd_http_probes_total",
                "Requests for health, version and metrics that were answered.", true);
    expose_family(
        to, "leafd_http_refused_total", METRIC_COUNTER,
        "Requests, bodies and connections refused or cut off for what a client may take.");
    for (int refusal = 0; refusal < METER_REFUSALS; refusal++) {
        expose_of(to, "why", refusal_answer((enum meter_refusal)refusal)->name,
                  totals->refused[refusal]);
    }
    expose_one(to, "leafd_http_parts_total", METRIC_COUNTER,
               "Parts of large replies, each made in a turn of its own.", totals->parts);
}

static void put_burnt(struct exposition *to, const struct id_health *health,
                      const struct totals *totals)
{
    static const char *const causes[] = {[ID_BURN_GENERATION] = "generation",
                                         [ID_BURN_LATE] = "late",
                                         [ID_BURN_STOP] = "stop",
                                         [ID_BURN_STRICT] = "strict",
                                         [ID_BURN_SKIPPED] = "skipped",
                                         [ID_BURN_UNANSWERED] = "unanswered",
                                         [ID_BURN_WINDOW] = "window"};

    expose_family(to, "leafd_ids_burnt_total", METRIC_COUNTER,
                  "Ids granted to this node that nobody was given, by cause.");
    for (int cause = 0; cause < ID_BURN_CAUSES; cause++) {
        uint64_t burnt = id_count_of(&health->burnt[cause]);

        burnt += cause == ID_BURN_SKIPPED ? totals->burnt_skipped : 0;
        burnt += cause == ID_BURN_UNANSWERED ? totals->burnt_unanswered : 0;
        expose_of(to, "cause", causes[cause], burnt);
    }
    expose_one(to, "leafd_ids_given_back_total", METRIC_COUNTER,
               "Ids that this node gave back unused when it stopped.",
               id_count_of(&health->given_back));
}

static void put_connections(struct exposition *to, const struct totals *totals)
{
    const struct exposed gauges[] = {
        {"leafd_connections", "Open client connections.", totals->connections},
        {"leafd_waiting_requests", "Requests that wait for ids.", totals->waiting},
        {"leafd_http_body_bytes", "Request bodies in memory.", totals->body_bytes},
        {"leafd_http_input_bytes", "Memory of requests that are not whole.", totals->input_bytes},
        {"leafd_http_waiting_bytes", "What requests that wait keep beyond 512 bytes each.",
         totals->waiting_bytes},
        {"leafd_http_output_bytes", "Memory of replies that were not taken.", totals->output_bytes},
    };

    expose_ones(to, METRIC_GAUGE, gauges, COUNT_OF(gauges));
}

/* Those of the RESP listener, which are among the others, too. */
static void put_resp(struct exposition *to, const struct totals *totals)
{
    expose_one(to, "leafd_resp_connections", METRIC_GAUGE,
               "Open client connections at the RESP door.", totals->resp_connections);
    expose_family(to, "leafd_resp_requests_total", METRIC_COUNTER,
                  "Requests answered at the RESP door, by the class of their status over HTTP.");
    for (unsigned k = 0; k < LATENCY_STATUSES; k++) {
        expose_of(to, "status", statuses[k], totals->resp_replies[k]);
    }
}

static void put_tls(struct exposition *to, const struct totals *totals, struct tls *tls)
{
    int64_t until_s;

    if (totals->has_tls) {
        expose_family(to, "leafd_tls_handshakes_total", METRIC_COUNTER,
                      "TLS connections that began, and those that could not.");
        expose_of(to, "result", "full", totals->handshakes_full);
        expose_of(to, "result", "resumed", totals->handshakes_resumed);
        expose_of(to, "result", "failed", totals->handshakes_failed);
    }
    if (tls != NULL) {
        until_s = tls_until_s(tls);
        expose_one(to, "leafd_certificate_end_timestamp_seconds", METRIC_GAUGE,
                   "Unix time at which the certificate in force ends.",
                   until_s > 0 ? (uint64_t)until_s : 0);
    }
}

/* Of the settings, on SIGHUP. */
static void put_reloads(struct exposition *to, const struct http_reloads *reloads)
{
    if (reloads == NULL) {
        return;
    }
    expose_family(to, "leafd_reloads_total", METRIC_COUNTER,
                  "How often the settings were read again.");
    expose_of(to, "result", "done", id_count_of(&reloads->done));
    expose_of(to, "result", "refused", id_count_of(&reloads->refused));
    expose_family(to, "leafd_reload_timestamp_seconds", METRIC_GAUGE,
                  "Unix time of the last reload that was done; 0: none yet.");
    expose_ms(to, "", (int64_t)id_count_of(&reloads->done_ms));
}

static void put_stall(struct exposition *to, const char *loop, const struct stall *stall,
                      uint64_t minute_ms)
{
    char word[EXPOSITION_WORD_BYTES];
    uint64_t ms = minute_ms > 0 ? stall_minute_ms(stall, minute_ms) : stall_longest_ms(stall);

    expose_ms(to, expose_word("loop", loop, word), (int64_t)ms);
}

/* For how long whatever came had to wait for a loop. */
static void put_stalls(struct exposition *to, const struct api_loop *loop)
{
    uint64_t now_ms = clock_now_ms(loop->backend->clock);
    char name[16];

    for (unsigned minute = 0; minute < 2; minute++) {
        expose_family(to,
                      minute == 1 ? "leafd_loop_longest_stall_minute_seconds"
                                  : "leafd_loop_longest_stall_seconds",
                      METRIC_GAUGE,
                      minute == 1 ? "The longest turn of a loop in the last minute."
                                  : "The longest turn of a loop since the start.");
        put_stall(to, "raft", &loop->backend->health->stall, minute * now_ms);
        for (unsigned i = 0; i < loop->api->loop_count; i++) {
            (void)snprintf(name, sizeof name, "http-%u", i);
            put_stall(to, name, &loop->api->loops[i]->conns->stall, minute * now_ms);
        }
    }
}

/* The same without what else the machine did meanwhile. */
static void put_busiest_turns(struct exposition *to, const struct api_loop *loop)
{
    char labels[32];

    expose_family(to, "leafd_loop_busiest_turn_cpu_seconds", METRIC_GAUGE,
                  "The most processor time that a turn of a loop has taken.");
    expose_us(to, "loop=\"raft\"", stall_busiest_us(&loop->backend->health->stall));
    for (unsigned i = 0; i < loop->api->loop_count; i++) {
        (void)snprintf(labels, sizeof labels, "loop=\"http-%u\"", i);
        expose_us(to, labels, stall_busiest_us(&loop->api->loops[i]->conns->stall));
    }
}

static void put_build(struct exposition *to, const struct http_build *build)
{
    BUF_LOCAL(labels);

    expose_family(to, "leafd_build_info", METRIC_GAUGE, "1, with what this binary is.");
    expose_label(&labels, "version", build->version, strlen(build->version));
    expose_label(&labels, "commit", build->commit, strlen(build->commit));
    buf_put(&labels, "", 1);
    expose_sample(to, (const char *)labels.data, 1);
}

static bool wants_openmetrics(const struct conn *conn)
{
    size_t len = 0;
    size_t count;
    const char *accept =
        header_find(conn_at(conn, 0), conn_head(conn)->len, "accept", &len, &count);

    return accept != NULL && count == 1 && header_wants_openmetrics(accept, len);
}

int handle_metrics(struct conn *conn)
{
    const struct api_loop *loop = api_loop(conn);
    struct exposition to = {.text = reply_begin(conn), .is_open = wants_openmetrics(conn)};
    const struct identity *identity = loop->api->auth != NULL ? gate_identity(conn) : NULL;
    struct totals *totals = MUST_HAVE(malloc(sizeof *totals));

    latency_flush(&conn->conns->latency);
    totals_make(loop->api, totals);
    totals->output_bytes -= conn->metered.output; /* of this reply's connection */
    totals->input_bytes -= conn->metered.input;
    totals->waiting_bytes -= conn->metered.waiting;
    put_counters(&to, totals);
    put_latency(&to, loop->api, totals);
    put_connections(&to, totals);
    put_resp(&to, totals);
    put_tls(&to, totals, loop->api->settings->tls);
    put_burnt(&to, loop->backend->health, totals);
    metrics_node_put(&to, loop->backend, identity);
    metrics_process_put(&to);
    put_reloads(&to, loop->api->build->reloads);
    put_stalls(&to, loop);
    put_busiest_turns(&to, loop);
    put_build(&to, loop->api->build);
    expose_end(&to);
    conn_answer(conn, 200, to.is_open ? EXPOSITION_OPEN_TYPE : EXPOSITION_TYPE, NULL, to.text->data,
                to.text->len);
    free(totals);
    return ANSWERED;
}
