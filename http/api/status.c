/*
 * status.c - the node's status: a look once a second (alarms, events, and the picture that all
 * viewers share), GET /api/status, /api/cluster, /api/nodes, /api/events and /api/live; and /livez,
 * /readyz, /version.
 *
 * The happy path of a look: api_watch() starts it, on the loop of the operators' listener. Each
 * look asks the raft loop for the cluster's status. The answer, HTTP's counters and the health are
 * judged (http/watch) and, if there are viewers, made into one picture, also that of GET
 * /api/status. Each loop with viewers appends a copy of the same bytes to each of its streams of
 * Server-Sent Events: nothing is made per viewer. GET /api/nodes, which clients request every few
 * seconds, is made once a look, for all of them.
 *
 * /livez, /readyz and /version are answered from atomics, without asking another thread. Ready
 * means that this node can hand out ids: it has its state, is not stopping, and either holds
 * segments or can have them granted. What does not keep it from that is shown as a failed check or
 * a warning.
 *
 * Failure modes: the raft loop does not answer: the next look is a second later, and the alarms
 * stay as they were. Not started (tests): there are no alarms and no events. A viewer that has not
 * taken the last picture does not get the next: nothing piles up, neither here nor, beyond
 * LIMIT_LIVE_SOCKET_BYTES, in the kernel. A viewer that takes nothing for 10 s is cut off, as any
 * reader. When tokens are reread, the stream of a client that may no longer watch ends. More than
 * LIMIT_LIVE_VIEWERS: 503 overloaded. A drain ends all streams.
 *
 * Threads: the look's loop; viewers are their loop's; events and the picture have locks.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "http/api/ids.h"
#include "http/api/request.h"
#include "http/watch/watch.h"
#include "src/base/assert.h"
#include "src/base/container.h"
#include "src/base/process.h"
#include "src/id/snowflake/snowflake.h"

struct watch {
    struct events events;
    pthread_mutex_t lock; /* guards the next four */
    struct alarms alarms;
    struct buf nodes;  /* the answer of GET /api/nodes, as of the last look; empty: none yet */
    uint64_t nodes_ms; /* when it was made, monotonic */
    uint64_t resident_bytes; /* of the process, as of the last look; ID_UNKNOWN */
    struct changes changes;
    uint64_t began_ms;     /* of the api, monotonic */
    struct api_loop *loop; /* NULL: it does not run */
    struct timer timer;    /* the next look */
    bool asking;           /* a look is under way */
    uint64_t told;         /* the last event that the viewers have */
    struct mailbox_item begin;
};

/* --- GET /api/live --- */

#define LIVE_TYPE "text/event-stream"

struct live_viewer {
    struct http_wait wait;
    struct api_loop *loop;
    struct http_client *client; /* at its begin; holds a reference */
    bool untaken;               /* it has not taken all bytes sent */
    LIST_ENTRY(live_viewer) link;
};

/* A picture on its way to a loop, for all its viewers. */
struct picture {
    struct mailbox_item item;
    struct api_loop *loop;
    struct buf bytes;
};

/* --- viewers --- */

unsigned live_viewers(const struct api *api)
{
    unsigned count = 0;

    for (unsigned i = 0; i < api->loop_count; i++) {
        count += atomic_load_explicit(&api->loops[i]->live.count, memory_order_relaxed);
    }
    return count;
}

/* The viewer has closed its connection, or its stream has ended. */
static void viewer_free(struct http_wait *wait)
{
    struct live_viewer *viewer = CONTAINER(wait, struct live_viewer, wait);

    atomic_fetch_sub_explicit(&viewer->loop->live.count, 1, memory_order_relaxed);
    atomic_fetch_sub_explicit(&viewer->client->streams, 1, memory_order_relaxed);
    clients_release(viewer->loop->conns->clients, viewer->client);
    LIST_REMOVE(viewer, link);
    free(viewer);
}

/* The viewer may no longer watch: the node drains, or the tokens changed. */
static void viewer_end(struct http_wait *wait)
{
    conn_stream_end(conn_resume(wait), NULL);
    viewer_free(wait);
}

static void viewer_sent(struct http_wait *wait)
{
    CONTAINER(wait, struct live_viewer, wait)->untaken = false;
}

/* --- showing --- */

static void picture_free(struct picture *picture)
{
    buf_free(&picture->bytes);
    free(picture);
}

/* On the loop's thread. */
static void viewers_show_cb(struct mailbox_item *item)
{
    struct picture *picture = CONTAINER(item, struct picture, item);
    struct live_viewer *viewer = LIST_FIRST(&picture->loop->live.viewers);

    while (viewer != NULL) {
        struct live_viewer *next = LIST_NEXT(viewer, link);

        if (!gate_stays_open(viewer->wait.conn)) {
            viewer_end(&viewer->wait);
        } else if (!viewer->untaken) {
            viewer->untaken = true;
            conn_stream_put(viewer->wait.conn, picture->bytes.data, picture->bytes.len);
        }
        viewer = next;
    }
    picture_free(picture);
}

void live_show(struct api *api, struct buf *bytes)
{
    for (unsigned i = 0; i < api->loop_count; i++) {
        struct api_loop *loop = api->loops[i];
        struct picture *picture;

        if (atomic_load_explicit(&loop->live.count, memory_order_relaxed) == 0) {
            continue;
        }
        picture = MUST_HAVE(calloc(1, sizeof *picture));
        picture->item.run = viewers_show_cb;
        picture->loop = loop;
        buf_put(&picture->bytes, bytes->data, bytes->len);
        if (mailbox_post(&loop->port->mailbox, &picture->item, SIZE_MAX) != 0) {
            picture_free(picture);
        }
    }
    buf_free(bytes);
}

/* --- the route --- */

int handle_live(struct conn *conn)
{
    static const char hello[] = "retry: 2000\n\n";
    static const int socket_bytes = LIMIT_LIVE_SOCKET_BYTES;
    struct api_loop *loop = api_loop(conn);
    unsigned viewers = live_viewers(loop->api);
    struct live_viewer *viewer;

    if (viewers >= LIMIT_LIVE_VIEWERS) {
        return reply_error(conn, 503, "overloaded", "%u viewers watch this node already",
                           LIMIT_LIVE_VIEWERS);
    }
    /* While few places are left, no client takes more than its share. This machine's own address
     * may, since it can be many clients. */
    if (!conn->client->is_local && viewers >= LIMIT_LIVE_VIEWERS - LIMIT_LIVE_SHARE &&
        atomic_load_explicit(&conn->client->streams, memory_order_relaxed) >= LIMIT_LIVE_SHARE) {
        return reply_error(conn, 503, "overloaded",
                           "%u viewers watch this node, and this client has more than its share "
                           "of them",
                           viewers);
    }
    viewer = MUST_HAVE(calloc(1, sizeof *viewer));
    viewer->loop = loop;
    viewer->client = conn->client; /* the connection's may change when tokens are reloaded */
    clients_hold(conn->conns->clients, viewer->client);
    atomic_fetch_add_explicit(&viewer->client->streams, 1, memory_order_relaxed);
    viewer->wait = (struct http_wait){.cancel = viewer_free,
                                      .expire = viewer_end,
                                      .sent = viewer_sent,
                                      .needs_client = true,
                                      .expires_on_drain = true};
    LIST_INSERT_HEAD(&loop->live.viewers, viewer, link);
    atomic_fetch_add_explicit(&loop->live.count, 1, memory_order_relaxed);
    /* Bounds what the kernel keeps for a viewer that takes nothing; a reading viewer keeps it
     * empty. Without the bound the kernel would take pictures for hours, and that they are not read
     * would go unnoticed. */
    (void)setsockopt(conn->wire.fd, SOL_SOCKET, SO_SNDBUF, &socket_bytes, sizeof socket_bytes);
    conn_stream(conn, LIVE_TYPE);
    conn_stream_put(conn, hello, sizeof hello - 1);
    viewer->untaken = true;
    conn_wait(conn, &viewer->wait, TIMER_NEVER);
    return ANSWERED;
}

/* --- the cluster as JSON --- */

/* The fields by which clients choose a node. */
static void put_placement(const struct id_member *member, struct buf *json)
{
    const struct placement *placement = &member->placement;

    text_put_field(json, ",\"zone\":", placement->zone[0] != '\0' ? placement->zone : NULL);
    buf_printf(json, ",\"weight\":%u,\"state\":\"%s\",\"snowflake\":%s", placement->weight,
               id_serving_name(member->serving), member->has_snowflake ? "true" : "false");
}

static void put_cluster_member(const struct id_member *member, bool with_links, struct buf *json)
{
    buf_printf(json, "{\"id\":%llu", ull(member->id));
    text_put_field(json, ",\"peer_address\":", member->peer_address);
    text_put_field(json, ",\"http_address\":", member->http_address);
    text_put_field(json, ",\"role\":", member->role);
    text_put_field(json, ",\"version\":", member->version);
    put_placement(member, json);
    if (member->levels.max != 0) {
        buf_printf(json, ",\"levels\":{\"min\":%u,\"max\":%u}", member->levels.min,
                   member->levels.max);
    } else {
        buf_printf(json, ",\"levels\":null");
    }
    buf_printf(json, ",\"reachable\":%s,\"match_index\":%llu", member->reachable ? "true" : "false",
               ull(member->match_index));
    if (with_links) { /* this node's data of the link to it */
        text_put_number(json, ",\"lag\":", member->lag);
        text_put_number(json, ",\"round_trip_us\":", member->round_trip_us);
        if (member->has_clock_offset) {
            buf_printf(json, ",\"clock_offset_ms\":%lld", (long long)member->clock_offset_ms);
        } else {
            buf_printf(json, ",\"clock_offset_ms\":null");
        }
        text_put_number(json, ",\"last_heard_ms\":", member->last_heard_ms);
    }
    buf_printf(json, "}");
}

/* Append the members of the object, without its braces. with_links: each member has lag,
 * round_trip_us, clock_offset_ms and last_heard_ms, too. */
static void cluster_json_put(const struct id_cluster_status *status, bool with_links,
                             struct buf *json)
{
    const struct id_member_change *change = &status->change; /* under way, or left unfinished */
    const struct level_row *level = &status->level;
    bool is_known = level->index != 0; /* since when */
    char uid[UID_TEXT_BYTES];

    ASSERT(status->member_count <= LIMIT_NODES);
    text_put_field(json, "\"cluster_id\":", status->cluster_id);
    text_put_field(json,
                   ",\"uid\":", uid_is_none(&status->uid) ? NULL : uid_text(&status->uid, uid));
    buf_printf(json, ",\"node_id\":%llu,\"state\":\"%s\"", ull(status->node_id),
               id_node_state_name(status->state));
    text_put_number(json,
                    ",\"leader_id\":", status->leader_id != 0 ? status->leader_id : TEXT_UNKNOWN);
    buf_printf(json,
               ",\"term\":%llu,\"commit_index\":%llu,\"applied_index\":%llu,"
               "\"level\":{\"number\":%u",
               ull(status->term), ull(status->commit_index), ull(status->applied_index),
               level->level);
    text_put_field(json, ",\"since\":", is_known ? TEXT_TIME(level->wall_ms) : NULL);
    text_put_number(json, ",\"index\":", is_known ? level->index : TEXT_UNKNOWN);
    buf_printf(json, "},\"members\":[");
    for (size_t i = 0; i < status->member_count; i++) {
        buf_printf(json, "%s", i > 0 ? "," : "");
        put_cluster_member(&status->members[i], with_links, json);
    }
    buf_printf(json, "],\"change\":");
    if (change->kind == NULL) {
        buf_printf(json, "null");
        return;
    }
    buf_printf(json, "{\"kind\":\"%s\",\"id\":%llu,\"state\":\"%s\"", change->kind,
               ull(change->node_id), change->state);
    if (change->peer_address[0] != '\0') {
        text_put_field(json, ",\"peer_address\":", change->peer_address);
    }
    buf_printf(json, "}");
}

/* Append the object of GET /api/nodes, by which clients choose a node. A node that has not
 * registered yet has no address for clients. False: so have all. */
static bool nodes_json_put(const struct id_cluster_status *status, struct buf *json)
{
    const char *comma = "";
    char uid[UID_TEXT_BYTES];

    buf_printf(json, "{\"self\":%llu", ull(status->node_id));
    text_put_field(json,
                   ",\"uid\":", uid_is_none(&status->uid) ? NULL : uid_text(&status->uid, uid));
    buf_printf(json, ",\"nodes\":[");
    for (size_t i = 0; i < status->member_count; i++) {
        const struct id_member *member = &status->members[i];

        if (member->http_address[0] != '\0') {
            buf_printf(json, "%s{\"id\":%llu", comma, ull(member->id));
            text_put_field(json, ",\"http_address\":", member->http_address);
            put_placement(member, json);
            buf_printf(json, "}");
            comma = ",";
        }
    }
    buf_printf(json, "]}");
    return comma[0] != '\0';
}

/* --- the picture --- */

/* A figure of 0 means not known. */
static void put_figure(struct buf *json, const char *before, uint64_t value)
{
    text_put_number(json, before, value > 0 ? value : TEXT_UNKNOWN);
}

/* The figures gathered last; zeros if nothing is measured (tests). */
static void figures_now(const struct id_backend *backend, struct id_figures *ret_figures)
{
    *ret_figures = (struct id_figures){0};
    if (backend->figures != NULL) {
        id_figures_copy(backend->figures, ret_figures);
    }
}

/* What ids with an order cost from each zone, as the leader sees it: the round trip from the zone's
 * nearest node, and from the leader to a majority; strict ids two flushes of a disk more. */
static void put_zones(const struct id_cluster_status *status, const struct histogram_view *flush,
                      struct buf *json)
{
    uint64_t flushes = histogram_count(flush);
    const char *comma = ",\"zones\":[{\"zone\":";
    uint64_t trips[LIMIT_NODES];
    size_t voters = 0; /* others, by their trips; ID_UNKNOWN is the longest */
    uint64_t commit_us;

    if (status->leader_id != status->node_id) {
        return;
    }
    for (size_t i = 0; i < status->member_count; i++) {
        const struct id_member *member = &status->members[i];
        size_t at = voters;

        if (member->id == status->node_id || strcmp(member->role, "voter") != 0) {
            continue;
        }
        for (; at > 0 && trips[at - 1] > member->round_trip_us; at--) {
            trips[at] = trips[at - 1];
        }
        trips[at] = member->round_trip_us;
        voters++;
    }
    commit_us = voters == 0 ? 0 : trips[(voters + 1) / 2 - 1];
    for (size_t i = 0; i < status->member_count; i++) {
        const char *zone = status->members[i].placement.zone;
        uint64_t nearest_us = ID_UNKNOWN;
        bool is_first = zone[0] != '\0';

        for (size_t k = 0; k < status->member_count; k++) {
            const struct id_member *member = &status->members[k];
            uint64_t trip_us = member->id == status->node_id ? 0 : member->round_trip_us;

            if (strcmp(member->placement.zone, zone) == 0) {
                is_first = is_first && k >= i;
                nearest_us = trip_us < nearest_us ? trip_us : nearest_us;
            }
        }
        if (is_first) {
            bool is_known = nearest_us != ID_UNKNOWN && commit_us != ID_UNKNOWN;
            uint64_t both_us = is_known ? nearest_us + commit_us : TEXT_UNKNOWN;

            text_put_field(json, comma, zone);
            text_put_number(json, ",\"monotonic_us\":", both_us);
            text_put_number(json, ",\"strict_us\":",
                            is_known && flushes > 0 ? both_us + 2 * flush->sum_us / flushes
                                                    : TEXT_UNKNOWN);
            comma = "},{\"zone\":";
        }
    }
    buf_printf(json, "%s", comma[0] == '}' ? "}]" : "");
}

/* Append the members of the object of GET /api/status, without its braces. Any thread. */
static void status_json_put(struct api *api, const struct id_cluster_status *status,
                            struct buf *json)
{
    struct watch *watch = api->watch;
    const char *resp = api->settings->resp_shown;
    uint64_t now_ms = clock_now_ms(api->backend->clock);
    struct tls *tls = api->settings->tls; /* plain HTTP has no certificate */
    int64_t until_s = tls != NULL ? tls_until_s(tls) : 0;
    uint64_t peer_until_s = id_count_of(&api->build->reloads->peer_until_s);
    const struct id_health *health = api->backend->health;
    struct id_figures figures;
    uint64_t resident_bytes;
    struct quorum quorum;

    figures_now(api->backend, &figures);
    cluster_json_put(status, true, json);
    quorum_of(status, &quorum);
    if (status->prefer_zone[0] != '\0') {
        text_put_field(json, ",\"prefer_zone\":", status->prefer_zone);
    }
    put_zones(status, &figures.disk.flush, json);
    buf_printf(json, ",\"quorum\":{\"needed\":%u,\"reachable\":%u,\"survives_next_failure\":%s",
               quorum.needed, quorum.reachable, quorum.survives_next_failure ? "true" : "false");
    text_put_field(json, ",\"text\":", quorum.text);
    buf_printf(json, "},\"alarms\":");
    ASSERT(pthread_mutex_lock(&watch->lock) == 0);
    alarms_put(&watch->alarms, json);
    resident_bytes = watch->resident_bytes;
    ASSERT(pthread_mutex_unlock(&watch->lock) == 0);
    put_figure(json, ",\"disk\":{\"data_bytes\":", figures.disk.used_bytes);
    put_figure(json, ",\"map_bytes\":", figures.disk.map_bytes);
    put_figure(json, ",\"map_used_bytes\":", figures.disk.used_bytes);
    put_figure(json, ",\"free_bytes\":", figures.disk.disk_free_bytes);
    put_figure(json, "},\"memory\":{\"resident_bytes\":", resident_bytes);
    text_put_number(json, ",\"state_bytes\":", id_count_of(&health->state_bytes));
    put_figure(json, ",\"state_limit_bytes\":", id_count_of(&health->state_max_bytes));
    buf_printf(json, "},\"certificates\":[");
    if (until_s > 0) {
        buf_printf(json, "{\"what\":\"http.tls-dir\",\"expires\":\"%s\"}",
                   TEXT_TIME((uint64_t)until_s * 1000));
    }
    if (peer_until_s > 0) {
        buf_printf(json, "%s{\"what\":\"peer.tls-dir\",\"expires\":\"%s\"}", until_s > 0 ? "," : "",
                   TEXT_TIME(peer_until_s * 1000));
    }
    text_put_field(json, "],\"resp_address\":", resp[0] != '\0' ? resp : NULL);
    buf_printf(json, ",\"uptime_s\":%llu,\"time\":\"%s\"", ull((now_ms - watch->began_ms) / 1000),
               TEXT_TIME(clock_wall_ms(api->backend->clock)));
    text_put_field(json, ",\"version\":", api->build->version);
    text_put_field(json, ",\"commit\":", api->build->commit);
    layout_json_put(api->backend->snowflake, ",\"snowflake\":", json);
}

/* --- a look --- */

/* Seconds left of the layout that ends first, and its name. */
static uint64_t layout_left_s(const struct id_backend *backend, const char **ret_name)
{
    struct snowflake_end ends[1 + LIMIT_LAYOUTS];
    uint32_t count = snowflake_ends(backend->snowflake, ends);
    uint64_t now_ms = clock_wall_ms(backend->clock);
    uint64_t least_s = ID_UNKNOWN;

    *ret_name = "";
    for (uint32_t i = 0; i < count; i++) {
        uint64_t left_s = ends[i].last_ms > now_ms ? (ends[i].last_ms - now_ms) / 1000 : 0;

        if (left_s < least_s) {
            least_s = left_s;
            *ret_name = ends[i].name;
        }
    }
    return least_s;
}

static void watch_judge(struct watch *watch, const struct id_cluster_status *status)
{
    struct api *api = watch->loop->api;
    const struct id_backend *backend = api->backend;
    char refusal_text_[REFUSAL_TEXT_BYTES] = "";
    const char *layout_name;
    uint64_t left_s = layout_left_s(backend, &layout_name);
    struct id_figures figures;
    struct alarm_facts facts = {
        .alarms = &watch->alarms,
        .now_ms = clock_now_ms(backend->clock),
        .wall_ms = clock_wall_ms(backend->clock),
        .status = status,
        .health = backend->health,
        .figures = &figures,
        .refusal = refusal_now(backend),
        .refusal_text = refusal_text_,
        .layout_left_s = left_s,
        .layout_name = layout_name,
        .certificate_until_s = api->settings->tls != NULL ? tls_until_s(api->settings->tls) : 0,
        .peer_until_s = (int64_t)id_count_of(&api->build->reloads->peer_until_s),
    };
    struct changes_counts counts = {
        .reloads_done = id_count_of(&api->build->reloads->done),
        .reloads_refused = id_count_of(&api->build->reloads->refused),
        .implausible = id_count_of(&backend->health->implausible),
        .refusal = facts.refusal,
    };
    struct process_figures process;

    if (facts.refusal != 0) {
        (void)refusal_text(backend, facts.refusal, refusal_text_, sizeof refusal_text_);
    }
    figures_now(backend, &figures);
    counts.snapshots = figures.snapshots_received;
    process_look(&process);
    for (unsigned i = 0; i < api->loop_count; i++) {
        const struct latency *latency = &api->loops[i]->conns->latency;

        /* Probes do not count: a node that is not ready is no error of a request. */
        for (unsigned k = 0; k < TRAFFIC_PROBE * LATENCY_STATUSES; k++) {
            uint64_t count = latency_count(latency, k / LATENCY_STATUSES, k % LATENCY_STATUSES);

            facts.requests += count;
            facts.errors += k % LATENCY_STATUSES == LATENCY_STATUSES - 1 ? count : 0;
        }
        facts.waiting += atomic_load_explicit(&api->loops[i]->waiters.count, memory_order_relaxed);
    }
    changes_look(&watch->changes, status, &counts, facts.wall_ms, &watch->events);
    ASSERT(pthread_mutex_lock(&watch->lock) == 0);
    alarms_look(&facts, &watch->events);
    watch->nodes.len = 0;
    if (!nodes_json_put(status, &watch->nodes)) {
        watch->nodes.len = 0; /* right after the birth: whoever asks next may see some */
    }
    watch->nodes_ms = facts.now_ms;
    watch->resident_bytes = process.resident_bytes;
    ASSERT(pthread_mutex_unlock(&watch->lock) == 0);
}

/* The answer has come; the call belongs to no connection. */
static void looked_cb(struct call *call)
{
    struct api *api = call->loop->api;
    struct watch *watch = api->watch;
    struct buf frame = BUF_INIT;

    watch->asking = false;
    if (call->request.status != 0) {
        return;
    }
    watch_judge(watch, call->cluster);
    if (live_viewers(api) > 0) {
        buf_printf(&frame, "event: status\ndata: {");
        status_json_put(api, call->cluster, &frame);
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
    call_submit_alone(watch->loop, call, watch->loop->api->settings->default_timeout_ms);
}

/* --- begin and end --- */

static void begin_cb(struct mailbox_item *item)
{
    struct watch *watch = CONTAINER(item, struct watch, begin);

    look_fire(&watch->timer, uv_now(watch->loop->conns->uv));
}

void api_watch(struct api *api)
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
    ASSERT(mailbox_post(&loop->port->mailbox, &watch->begin, SIZE_MAX) == 0);
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

    ASSERT(pthread_mutex_init(&watch->events.lock, NULL) == 0);
    ASSERT(pthread_mutex_init(&watch->lock, NULL) == 0);
    timer_init(&watch->timer, look_fire);
    watch->began_ms = clock_now_ms(backend->clock);
    return watch;
}

void watch_free(struct watch *watch)
{
    ASSERT(watch->loop == NULL);
    buf_free(&watch->nodes);
    ASSERT(pthread_mutex_destroy(&watch->events.lock) == 0);
    ASSERT(pthread_mutex_destroy(&watch->lock) == 0);
    free(watch);
}

/* --- GET /api/status and /api/events --- */

static int status_cb(struct conn *conn, struct call *call)
{
    struct api *api = api_loop(conn)->api;
    const struct identity *identity = gate_identity(conn);
    struct buf *json = reply_begin(conn);
    const char *comma = "";

    buf_printf(json, "{");
    status_json_put(api, call->cluster, json);
    /* The client's identity and roles, so that the page offers nothing else. */
    text_put_field(json, ",\"you\":{\"name\":", identity->name);
    buf_printf(json, ",\"roles\":[");
    for (unsigned i = 0; i < ROLE_COUNT; i++) {
        if ((identity->roles & 1U << i) != 0) {
            text_put_field(json, comma, role_name((enum role)(1U << i)));
            comma = ",";
        }
    }
    buf_printf(json, "],\"prefixes\":[");
    for (size_t i = 0; i < identity->prefix_count; i++) {
        buf_printf(json, "%s", i > 0 ? "," : "");
        text_put_json(json, identity->prefixes[i].text, identity->prefixes[i].len);
    }
    buf_printf(json, "]}}");
    return 200;
}

int handle_status(struct conn *conn)
{
    return call_submit(conn, call_new(ID_REQUEST_STATUS, status_cb));
}

static int cluster_cb(struct conn *conn, struct call *call)
{
    struct buf *json = reply_begin(conn);

    buf_printf(json, "{");
    cluster_json_put(call->cluster, false, json);
    buf_printf(json, "}");
    return 200;
}

int handle_cluster(struct conn *conn)
{
    return call_submit(conn, call_new(ID_REQUEST_STATUS, cluster_cb));
}

/* If no look came for this long, its answer is no longer shown. */
#define NODES_FRESH_MS (3 * WATCH_MS)

static int nodes_cb(struct conn *conn, struct call *call)
{
    (void)nodes_json_put(call->cluster, reply_begin(conn));
    return 200;
}

int handle_nodes(struct conn *conn)
{
    struct api *api = api_loop(conn)->api;
    struct watch *watch = api->watch;
    uint64_t now_ms = clock_now_ms(api->backend->clock);
    bool fresh;

    ASSERT(pthread_mutex_lock(&watch->lock) == 0);
    fresh = watch->nodes.len > 0 && now_ms - watch->nodes_ms < NODES_FRESH_MS;
    if (fresh) {
        buf_put(reply_begin(conn), watch->nodes.data, watch->nodes.len);
    }
    ASSERT(pthread_mutex_unlock(&watch->lock) == 0);
    return fresh ? 200 : call_submit(conn, call_new(ID_REQUEST_STATUS, nodes_cb));
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

/* --- GET /livez, /readyz, /version --- */

/* What is checked, as JSON, and what follows from it. */
struct checks {
    bool ready;
    struct buf list;    /* the items of "checks", */
    struct buf reasons; /* and of "reasons", or "warnings" */
};

int handle_livez(struct conn *conn)
{
    buf_printf(reply_begin(conn), "{\"status\":\"alive\"}");
    return 200;
}

/* reason: if it fails: what keeps the node from being ready, or is worth a warning; NULL: neither.
 * more: JSON members, each with a comma before it. */
static void put_check(struct checks *to, const char *name, bool ok, bool needed, const char *reason,
                      const char *more)
{
    to->ready = to->ready && (ok || !needed);
    buf_printf(&to->list, "%s{\"name\":\"%s\",\"ok\":%s,\"needed\":%s%s}",
               to->list.len > 0 ? "," : "", name, ok ? "true" : "false", needed ? "true" : "false",
               more);
    if (!ok && reason != NULL) {
        text_put_field(&to->reasons, to->reasons.len > 0 ? "," : "", reason);
    }
}

/* Has the cluster been born? If not, the nodes that its birth waits for. */
static void check_birth(struct checks *to, const struct id_health *health, bool fails)
{
    const char *comma = ": ";
    BUF_LOCAL(text);
    BUF_LOCAL(more);

    if (fails) {
        buf_printf(&text, "the cluster is not born yet, as far as this node knows");
        for (size_t i = 0; i < LIMIT_NODES; i++) {
            uint32_t wait = atomic_load(&health->birth_waits[i]);

            if (wait != 0) {
                buf_printf(&text, "%snode %u %s", comma, wait >> 8,
                           birth_wait_text((enum birth_wait)(wait & 0xff)));
                comma = "; ";
            }
        }
        text_put_field_of(&more, ",\"reason\":", (const char *)text.data, text.len);
    }
    put_check(to, "born", !fails, true, buf_text(&text), buf_text(&more));
}

/* needed: only snowflake ids are wanted: a refused clock makes the node not ready. */
static void check_snowflake(struct checks *to, const struct id_backend *backend, bool needed)
{
    int refusal = refusal_now(backend);
    char text[REFUSAL_TEXT_BYTES] = "";
    BUF_LOCAL(more);

    if (refusal != 0) {
        (void)refusal_text(backend, refusal, text, sizeof text);
        buf_printf(&more, ",\"code\":\"%s\"", err_code(refusal));
        text_put_field(&more, ",\"reason\":", text);
        buf_printf(&more, ",\"clock_off_ms\":%lld,\"wait_until_ms\":%llu",
                   (long long)atomic_load(&backend->health->clock_off_ms),
                   ull(refusal_wait_until_ms(backend, refusal)));
    }
    put_check(to, "snowflake", refusal == 0, needed, text, buf_text(&more));
}

#define LACKS(bits, need) (((bits)&1U << ID_NEED_##need) != 0)

static void checks_make(const struct id_backend *backend, bool needs_snowflake, struct checks *to)
{
    const struct id_health *health = backend->health;
    uint64_t max_bytes = atomic_load(&health->state_max_bytes);
    uint64_t percent = max_bytes > 0 ? atomic_load(&health->state_bytes) * 100 / max_bytes : 0;
    unsigned differs = atomic_load(&health->differs); /* settings, from those in the log */
    unsigned lacks = id_health_lacks(health);
    char memory[200] = "";
    const char *comma = ",\"differ\":[";
    BUF_LOCAL(settings);

    if (LACKS(lacks, MEMBER)) {
        put_check(to, "member", false, true,
                  "the node waits to be let in by its cluster, see its log", "");
    } else {
        put_check(to, "started", !LACKS(lacks, STARTED), true, "the log is still being loaded", "");
        put_check(to, "applied", !LACKS(lacks, APPLIED), true,
                  "the state is older than at this node's last stop", "");
        put_check(to, "serving", !LACKS(lacks, SERVING), true, "the node is stopping", "");
        put_check(to, "ids", !LACKS(lacks, IDS), true,
                  atomic_load(&health->leader_known)
                      ? "the disk is nearly full or stands still, and no ids are held"
                      : "no leader is known and no ids are held",
                  "");
        put_check(to, "disk", !atomic_load(&health->disk_low), false, NULL, "");
        check_birth(to, health, LACKS(lacks, BORN));
        put_check(to, "drained", !LACKS(lacks, UNDRAINED), true,
                  "drained: it was asked to give its work to others", "");
        if (percent >= ID_STATE_HIGH_PERCENT) {
            (void)snprintf(
                memory, sizeof memory,
                ",\"reason\":\"tags and keys take %llu %% of data.memory-bytes; %s\"", ull(percent),
                percent >= ID_STATE_NEARLY_FULL_PERCENT ? "nearly all: new ones are refused next"
                                                        : "at 100 % new ones are refused");
        }
        put_check(to, "memory", percent < ID_STATE_HIGH_PERCENT, false, NULL, memory);
        for (unsigned i = 0; i < ID_DIFFERENCES; i++) {
            if ((differs & 1U << i) != 0) {
                buf_printf(&settings, "%s\"%s\"", comma, id_difference_setting(i));
                comma = ",";
            }
        }
        buf_printf(&settings, "%s", differs != 0 ? "]" : "");
        put_check(to, "settings", differs == 0, false, NULL, buf_text(&settings));
        if (refusal_enabled(backend)) {
            check_snowflake(to, backend, needs_snowflake);
        }
    }
    if (needs_snowflake && !refusal_enabled(backend)) {
        put_check(to, "snowflake", false, true, "this node serves no snowflake ids", "");
    }
}

int handle_readyz(struct conn *conn)
{
    static const char *const whats[] = {"snowflake", NULL};
    struct param options[] = {{.name = "verbose", .kind = PARAM_TEXT},
                              {.name = "for",
                               .kind = PARAM_WORD,
                               .words = whats,
                               .rule = "is not known: leave it out, or say for=snowflake"}};
    struct buf *json = reply_begin(conn);
    struct checks checks = {.ready = true};

    if (!request_options(conn, options, COUNT_OF(options))) {
        return ANSWERED;
    }
    checks_make(api_loop(conn)->backend, options[1].present, &checks);
    buf_printf(json, "{\"status\":\"%s\"", checks.ready ? "ready" : "not ready");
    if (checks.reasons.len > 0) {
        buf_printf(json, ",\"%s\":[", checks.ready ? "warnings" : "reasons");
        buf_put(json, checks.reasons.data, checks.reasons.len);
        buf_put_u8(json, ']');
    }
    if (options[0].present) {
        buf_printf(json, ",\"checks\":[");
        buf_put(json, checks.list.data, checks.list.len);
        buf_put_u8(json, ']');
    }
    buf_printf(json, "}");
    buf_free(&checks.list);
    buf_free(&checks.reasons);
    return checks.ready ? 200 : 503;
}

int handle_version(struct conn *conn)
{
    const struct http_build *build = api_loop(conn)->api->build;
    struct buf *json = reply_begin(conn);

    text_put_field(json, "{\"version\":", build->version);
    text_put_field(json, ",\"commit\":", build->commit);
    buf_printf(json, ",\"level\":%u,\"levels\":{\"min\":%u,\"max\":%u}",
               atomic_load(&api_loop(conn)->backend->health->level), level_own.min, level_own.max);
    buf_printf(json, ",\"libraries\":%s}", build->libraries);
    return 200;
}
