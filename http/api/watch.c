/*
 * watch.c - see watch.h. Threads: the loop's that it runs on; watch_begin() main.
 */
#include "http/api/watch.h"

#include <stdio.h>
#include <stdlib.h>

#include "http/api/call.h"
#include "http/api/cluster_json.h"
#include "http/api/gate.h"
#include "http/api/handlers.h"
#include "http/api/live.h"
#include "http/api/refusal.h"
#include "http/api/request.h"
#include "http/watch/watch.h"
#include "src/base/assert.h"
#include "src/base/container.h"
#include "src/base/process.h"
#include "src/id/snowflake/snowflake_named.h"

/* --- the picture --- */

static void put_quorum(const struct id_cluster_status *status, struct buf *json)
{
    struct quorum quorum;

    quorum_of(status, &quorum);
    buf_printf(json, ",\"quorum\":{\"needed\":%u,\"reachable\":%u,\"survives_next_failure\":%s",
               quorum.needed, quorum.reachable, quorum.survives_next_failure ? "true" : "false");
    text_put_field(json, ",\"text\":", quorum.text);
    buf_printf(json, "}");
}

/* A figure of 0 is not known. */
static void put_figure(struct buf *json, const char *before, uint64_t value)
{
    text_put_number(json, before, value > 0 ? value : TEXT_UNKNOWN);
}

static void put_machine(const struct id_backend *backend, uint64_t resident_bytes, struct buf *json)
{
    const struct id_health *health = backend->health;
    struct id_disk_figures disk = {0};

    if (backend->figures != NULL) {
        struct id_figures figures;

        id_figures_copy(backend->figures, &figures);
        disk = figures.disk;
    }
    put_figure(json, ",\"disk\":{\"data_bytes\":", disk.used_bytes);
    put_figure(json, ",\"map_bytes\":", disk.map_bytes);
    put_figure(json, ",\"map_used_bytes\":", disk.used_bytes);
    put_figure(json, ",\"free_bytes\":", disk.disk_free_bytes);
    put_figure(json, "},\"memory\":{\"resident_bytes\":", resident_bytes);
    text_put_number(json, ",\"state_bytes\":", id_count_of(&health->state_bytes));
    put_figure(json, ",\"state_limit_bytes\":", id_count_of(&health->state_max_bytes));
    buf_printf(json, "}");
}

/* What clients are shown; where HTTP is plain there is none. */
static void put_certificates(struct tls *tls, struct buf *json)
{
    int64_t until_s = tls != NULL ? tls_until_s(tls) : 0;
    char time[TEXT_TIME_BYTES];

    buf_printf(json, ",\"certificates\":[");
    if (until_s > 0) {
        buf_printf(json, "{\"what\":\"http.tls-dir\",\"expires\":\"%s\"}",
                   text_time_rfc3339((uint64_t)until_s * 1000, time));
    }
    buf_printf(json, "]");
}

void status_json_put(struct api *api, const struct id_cluster_status *status, struct buf *json)
{
    struct watch *watch = api->watch;
    uint64_t now_ms = clock_now_ms(api->backend->clock);
    uint64_t resident_bytes;
    char time[TEXT_TIME_BYTES];

    cluster_json_put(status, true, json);
    put_quorum(status, json);
    buf_printf(json, ",\"alarms\":");
    ASSERT(pthread_mutex_lock(&watch->lock) == 0);
    alarms_put(&watch->alarms, json);
    resident_bytes = watch->resident_bytes;
    ASSERT(pthread_mutex_unlock(&watch->lock) == 0);
    put_machine(api->backend, resident_bytes, json);
    put_certificates(api->settings->tls, json);
    buf_printf(json, ",\"uptime_s\":%llu,\"time\":\"%s\"", ull((now_ms - watch->began_ms) / 1000),
               text_time_rfc3339(clock_wall_ms(api->backend->clock), time));
    text_put_field(json, ",\"version\":", api->build->version);
    text_put_field(json, ",\"commit\":", api->build->commit);
    layout_json_put(api->backend->snowflake, ",\"snowflake\":", json);
}

/* --- a look --- */

static uint64_t left_s(uint64_t last_ms, uint64_t now_ms)
{
    return last_ms > now_ms ? (last_ms - now_ms) / 1000 : 0;
}

/* Of the layout that ends first: the cluster's own, or one by name, which *ret_name is then. */
static uint64_t layout_left_s(const struct id_backend *backend,
                              char ret_name[LIMIT_LAYOUT_NAME_BYTES + 1])
{
    const struct snowflake *snowflake = backend->snowflake;
    uint64_t now_ms = clock_wall_ms(backend->clock);
    uint64_t least_s;

    ret_name[0] = '\0';
    if (snowflake == NULL || !atomic_load_explicit(&snowflake->ready, memory_order_acquire)) {
        return ID_UNKNOWN;
    }
    least_s = left_s(snowflake_last_ms(&snowflake->layout), now_ms);
    for (uint32_t i = 0; i < atomic_load(&snowflake->named.count); i++) {
        const struct layout_words *named = snowflake->named.items[i];
        uint64_t own_s = left_s(named_layout_last_ms(&named->row.layout), now_ms);

        if (!snowflake_named_is_deleted(named) && own_s < least_s) {
            least_s = own_s;
            (void)snprintf(ret_name, LIMIT_LAYOUT_NAME_BYTES + 1, "%.*s", (int)named->row.name_len,
                           named->row.name);
        }
    }
    return least_s;
}

/* Probes are none: that a node is not ready is no error of a request. */
static void count_requests(const struct api *api, struct alarm_facts *facts)
{
    for (unsigned i = 0; i < api->loop_count; i++) {
        const struct latency *latency = &api->loops[i]->conns->latency;

        for (unsigned class = 0; class < TRAFFIC_PROBE; class ++) {
            for (unsigned k = 0; k < LATENCY_STATUSES; k++) {
                facts->requests += latency_count(latency, class, k);
            }
            facts->errors += latency_count(latency, class, LATENCY_STATUSES - 1);
        }
        facts->waiting += atomic_load_explicit(&api->loops[i]->waiters.count, memory_order_relaxed);
    }
}

static void watch_judge(struct watch *watch, const struct id_cluster_status *status)
{
    struct api *api = watch->loop->api;
    const struct id_backend *backend = api->backend;
    char refusal_text_[REFUSAL_TEXT_BYTES] = "";
    char layout_name[LIMIT_LAYOUT_NAME_BYTES + 1];
    struct alarm_facts facts = {
        .now_ms = clock_now_ms(backend->clock),
        .wall_ms = clock_wall_ms(backend->clock),
        .status = status,
        .health = backend->health,
        .refusal = refusal_now(backend),
        .refusal_text = refusal_text_,
        .layout_left_s = layout_left_s(backend, layout_name),
        .layout_name = layout_name,
        .certificate_until_s = api->settings->tls != NULL ? tls_until_s(api->settings->tls) : 0,
    };
    struct changes_counts counts = {.implausible = id_count_of(&backend->health->implausible),
                                    .refusal = facts.refusal};
    struct process_figures process;

    if (facts.refusal != 0) {
        (void)refusal_text(backend, facts.refusal, refusal_text_, sizeof refusal_text_);
    }
    if (api->build->reloads != NULL) {
        counts.reloads_done = id_count_of(&api->build->reloads->done);
        counts.reloads_refused = id_count_of(&api->build->reloads->refused);
    }
    if (backend->figures != NULL) {
        struct id_figures figures;

        id_figures_copy(backend->figures, &figures);
        counts.snapshots = figures.snapshots_received;
        facts.map_bytes = figures.disk.map_bytes;
        facts.map_used_bytes = figures.disk.used_bytes;
        facts.worker_names_shared = figures.worker_names_shared;
    }
    process_look(&process);
    count_requests(api, &facts);
    changes_look(&watch->changes, status, &counts, facts.wall_ms, &watch->events);
    ASSERT(pthread_mutex_lock(&watch->lock) == 0);
    alarms_look(&watch->alarms, &facts, &watch->events);
    watch->resident_bytes = process.resident_bytes;
    ASSERT(pthread_mutex_unlock(&watch->lock) == 0);
}

static void watch_show(struct watch *watch, const struct id_cluster_status *status)
{
    struct api *api = watch->loop->api;
    struct buf frame = BUF_INIT;

    if (live_is_watched(api)) {
        buf_printf(&frame, "event: status\ndata: {");
        status_json_put(api, status, &frame);
        buf_printf(&frame, "}\n\n");
        if (events_last(&watch->events) > watch->told) {
            buf_printf(&frame, "event: events\ndata: ");
            events_list(&watch->events, watch->told, LIMIT_EVENTS_PER_FRAME, &frame);
            buf_printf(&frame, "\n\n");
        }
        live_show(api, &frame);
    }
    watch->told = events_last(&watch->events);
}

/* The answer is there; the call belongs to no connection. */
static void looked_cb(struct call *call)
{
    struct watch *watch = call->loop->api->watch;

    watch->asking = false;
    if (call->request.status == 0) {
        watch_judge(watch, call->cluster);
        watch_show(watch, call->cluster);
    }
}

static void look_fire(struct timer *timer, uint64_t now_ms)
{
    struct watch *watch = CONTAINER(timer, struct watch, timer);
    struct call *call;

    timer_arm(&watch->loop->conns->timers, timer, now_ms + WATCH_MS);
    if (watch->asking) {
        return;
    }
    watch->asking = true;
    call = call_new(ID_REQUEST_STATUS, NULL);
    call->sees_errors = true;
    call->gone = looked_cb;
    call_submit_alone(watch->loop, call);
}

/* --- begin and end --- */

static void begin_cb(struct mailbox_item *item)
{
    struct watch *watch = CONTAINER(item, struct watch, begin);

    look_fire(&watch->timer, conns_now_ms(watch->loop->conns));
}

void watch_begin(struct api *api)
{
    struct watch *watch = api->watch;
    struct api_loop *loop = NULL;

    for (unsigned i = 0; i < api->loop_count && loop == NULL; i++) {
        if ((api->loops[i]->listeners & LISTENER_ADMIN) != 0) {
            loop = api->loops[i];
        }
    }
    ASSERT(loop != NULL && watch->loop == NULL);
    watch->loop = loop;
    watch->begin.run = begin_cb;
    ASSERT(mailbox_post_always(&loop->port->mailbox, &watch->begin) == 0);
}

void watch_loop_ends(struct api_loop *loop)
{
    struct watch *watch = loop->api->watch;

    if (watch->loop == loop) {
        timer_cancel(&loop->conns->timers, &watch->timer);
        watch->loop = NULL;
    }
}

struct watch *watch_new(const struct id_backend *backend)
{
    struct watch *watch = MUST_HAVE(calloc(1, sizeof *watch));

    events_init(&watch->events);
    ASSERT(pthread_mutex_init(&watch->lock, NULL) == 0);
    timer_init(&watch->timer, look_fire);
    watch->began_ms = clock_now_ms(backend->clock);
    return watch;
}

void watch_free(struct watch *watch)
{
    ASSERT(watch->loop == NULL);
    events_free(&watch->events);
    ASSERT(pthread_mutex_destroy(&watch->lock) == 0);
    free(watch);
}

/* --- GET /api/status and /api/events --- */

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
