/*
 * metrics.c - GET /metrics: the metrics of the HTTP side and of the node (consensus, members, disk,
 * state, ids, the busiest tags, the process), as text: in Prometheus's text format 0.0.4 or in
 * OpenMetrics 1.0.0, whichever the client prefers.
 *
 * The happy path: atomics, and a copy of the figures that the raft loop gathered (id_backend.h),
 * are written out without asking another thread, so also while the raft loop hangs. expose_family()
 * once for each metric, then its samples in turn. Names of counters end in "_total", in both
 * formats.
 *
 * Failure modes: none; unknown values are left out. Code that takes a label's value from outside
 * escapes it (expose_label()).
 *
 * Thread: the loop's; it reads the present counters of other loops.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "http/api/json.h"
#include "http/api/ids.h"
#include "http/api/request.h"
#include "http/proto/head.h"
#include "http/tls/tls.h"
#include "src/base/assert.h"
#include "src/base/process.h"
#include "src/base/stats.h"
#include "src/base/utf8.h"
#include "src/id/snowflake/snowflake.h"

#define EXPOSITION_TYPE "text/plain; version=0.0.4"
#define EXPOSITION_OPEN_TYPE "application/openmetrics-text; version=1.0.0; charset=utf-8"
#define EXPOSITION_WORD_BYTES 64
#define TOTAL "_total"
#define REPLACEMENT "\xef\xbf\xbd"

struct exposition {
    struct buf *text; /* borrowed */
    bool is_open;     /* OpenMetrics */
    /* the metric that was begun; nothing of it is written before its first sample */
    const char *name;
    const char *help; /* NULL: it has had a sample */
    const char *kind; /* static */
    bool is_total;    /* the name ends in "_total" */
};

/* Begin a metric: a counter if its name ends in "_total", a histogram if it gets one, else a gauge.
 * One that gets no sample is left out. name and help: static; help a sentence without quotes and
 * backslashes. */
static void expose_family(struct exposition *to, const char *name, const char *help)
{
    size_t len = strlen(name);

    to->name = name;
    to->help = help;
    to->is_total = len > strlen(TOTAL) && strcmp(name + len - strlen(TOTAL), TOTAL) == 0;
    to->kind = to->is_total ? "counter" : "gauge";
}

/* Before the first sample of a metric, put its help and type. */
static void begin_family(struct exposition *to)
{
    size_t len = strlen(to->name);

    if (to->help == NULL) {
        return;
    }
    if (to->is_open && to->is_total) { /* the family's name lacks it */
        len -= strlen(TOTAL);
    }
    buf_printf(to->text, "# HELP %.*s %s\n# TYPE %.*s %s\n", (int)len, to->name, to->help, (int)len,
               to->name, to->kind);
    to->help = NULL;
}

/* The name, and the text between the braces, "loop=\"raft\"", or "". */
static void begin_sample(struct exposition *to, const char *labels)
{
    begin_family(to);
    if (labels[0] != '\0') {
        buf_printf(to->text, "%s{%s} ", to->name, labels);
    } else {
        buf_printf(to->text, "%s ", to->name);
    }
}

static void expose_sample(struct exposition *to, const char *labels, uint64_t value)
{
    begin_sample(to, labels);
    buf_printf(to->text, "%" PRIu64 "\n", value);
}

static void expose_real(struct exposition *to, const char *labels, double value)
{
    begin_sample(to, labels);
    buf_printf(to->text, "%.6g\n", value);
}

/* A signed number of milliseconds, as seconds, exactly. */
static void expose_ms(struct exposition *to, const char *labels, int64_t ms)
{
    uint64_t size_ms = ms < 0 ? 0 - (uint64_t)ms : (uint64_t)ms;

    begin_sample(to, labels);
    buf_printf(to->text, "%s%" PRIu64 ".%03" PRIu64 "\n", ms < 0 ? "-" : "", size_ms / 1000,
               size_ms % 1000);
}

/* A number of microseconds, likewise. */
static void expose_us(struct exposition *to, const char *labels, uint64_t us)
{
    begin_sample(to, labels);
    buf_printf(to->text, "%" PRIu64 ".%06" PRIu64 "\n", us / 1000000, us % 1000000);
}

/* A label of words of our own. Returns out. */
static const char *expose_word(const char *name, const char *value, char out[EXPOSITION_WORD_BYTES])
{
    (void)snprintf(out, EXPOSITION_WORD_BYTES, "%s=\"%s\"", name, value);
    return out;
}

/* A sample with only such a label. */
static void expose_of(struct exposition *to, const char *name, const char *value, uint64_t sample)
{
    expose_sample(to, expose_word(name, value, (char[EXPOSITION_WORD_BYTES]){0}), sample);
}

/* The metric's buckets, sum and count. exemplars: HISTOGRAM_BUCKETS of them, shown only in
 * OpenMetrics; NULL: none. */
static void expose_histogram(struct exposition *to, const char *labels,
                             const struct histogram_view *view,
                             const struct exemplar_view *exemplars)
{
    const char *name = to->name;
    const char *comma = labels[0] != '\0' ? "," : "";
    const char *open = labels[0] != '\0' ? "{" : "";
    const char *close = labels[0] != '\0' ? "}" : "";
    uint64_t count = 0;

    to->kind = "histogram";
    begin_family(to);
    for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++) {
        count += view->counts[i];
        buf_printf(to->text, "%s_bucket{%s%sle=\"%s\"} %" PRIu64, name, labels, comma,
                   i < HISTOGRAM_BOUNDS ? histogram_bound_text(i) : "+Inf", count);
        if (exemplars != NULL && to->is_open && exemplars[i].wall_ms > 0) {
            buf_printf(
                to->text, " # {trace_id=\"%s\"} %" PRIu64 ".%06" PRIu64 " %" PRIu64 ".%03" PRIu64,
                exemplars[i].trace, exemplars[i].took_us / 1000000, exemplars[i].took_us % 1000000,
                exemplars[i].wall_ms / 1000, exemplars[i].wall_ms % 1000);
        }
        buf_printf(to->text, "\n");
    }
    buf_printf(to->text, "%s_sum%s%s%s %" PRIu64 ".%06" PRIu64 "\n", name, open, labels, close,
               view->sum_us / 1000000, view->sum_us % 1000000);
    buf_printf(to->text, "%s_count%s%s%s %" PRIu64 "\n", name, open, labels, close, count);
}

/* A metric that has one sample without labels. */
static void expose_one(struct exposition *to, const char *name, const char *help, uint64_t value)
{
    expose_family(to, name, help);
    expose_sample(to, "", value);
}

/* Some of these. */
struct exposed {
    const char *name;
    const char *help;
    uint64_t value;
};

static void expose_ones(struct exposition *to, const struct exposed *ones, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        expose_one(to, ones[i].name, ones[i].help, ones[i].value);
    }
}

/* Append a label, with a comma before it if there are others: name="value", escaped; bytes that are
 * no UTF-8 are replaced. */
static void expose_label(struct buf *labels, const char *name, const void *value, size_t len)
{
    const char *text = value;
    size_t at = 0;

    buf_printf(labels, "%s%s=\"", labels->len > 0 ? "," : "", name);
    while (at < len) {
        uint32_t code;
        size_t step = utf8_step(text + at, len - at, &code);

        if (step == 0) {
            buf_put(labels, REPLACEMENT, strlen(REPLACEMENT));
            at++;
            continue;
        }
        if (text[at] == '\n') {
            buf_put(labels, "\\n", 2);
        } else {
            if (text[at] == '"' || text[at] == '\\') {
                buf_put(labels, "\\", 1);
            }
            buf_put(labels, text + at, step);
        }
        at += step;
    }
    buf_put(labels, "\"", 1);
}

/* --- the node's part, from atomics --- */

static void put_health(struct exposition *to, const struct id_health *health)
{
    const struct exposed gauges[] = {
        {"leafd_leader_known", "1 if this node knows the cluster's leader.", health->leader_known},
        {"leafd_leader_through",
         "Id of the node through which this one reaches the leader, 0: directly.",
         health->leader_through},
        {"leafd_disk_low",
         "1 if the disk or the database is nearly full, or the disk stands still.",
         health->disk_low},
        {"leafd_state_bytes", "Memory that tags and idempotency keys take.", health->state_bytes},
        {"leafd_state_max_bytes", "What they may take: data.memory-bytes.",
         health->state_max_bytes},
        {"leafd_tags", "Tags of the cluster, as this node has applied them.", health->state_tags},
        {"leafd_tags_deleted", "Deleted tags, whose names keep their high-water marks.",
         health->state_dead},
        {"leafd_idempotency_keys", "Idempotency keys that are kept.", health->state_keys},
        {"leafd_tags_held", "Tags of which this node holds ids in memory.", health->segments_held},
        {"leafd_members", "Members of the cluster, as this node knows them.", health->members},
        {"leafd_voters", "Members that vote.", health->voters},
        {"leafd_level", "The level of the cluster, as this node has applied it.", health->level},
        {"leafd_level_able", "The newest level that this node speaks.", health->level_able},
        {"leafd_member_change", "1 while a change of the members is under way.",
         health->member_change},
        {"leafd_stopping", "1 while this node stops and takes no more requests.", health->stopping},
    };

    char text[UID_TEXT_BYTES];
    struct uid uid;
    bool born = id_health_uid(health, &uid);

    expose_ones(to, gauges, COUNT_OF(gauges));
    expose_family(to, "leafd_setting_differs",
                  "1 if this setting is not what the log knows, which holds.");
    for (unsigned i = 0; i < ID_DIFFERENCES; i++) {
        expose_of(to, "setting", id_difference_setting(i),
                  (atomic_load(&health->differs) >> i) & 1);
    }
    expose_one(to, "leafd_born", "1 if this node has heard of its cluster's birth.", born);
    if (born) { /* it distinguishes clusters born apart */
        expose_family(to, "leafd_cluster_info", "1, with the uid of the cluster.");
        expose_of(to, "uid", uid_text(&uid, text), 1);
    }
    expose_one(to, "leafd_peer_implausible_total",
               "Reports of other nodes that were refused because they cannot be true.",
               id_count_of(&health->implausible));
}

static void put_snowflake(struct exposition *to, const struct id_backend *backend)
{
    static const int codes[] = REFUSAL_CODES;
    struct snowflake_end ends[1 + LIMIT_LAYOUTS];
    uint32_t count = snowflake_ends(backend->snowflake, ends);
    uint64_t now_ms = clock_wall_ms(backend->clock);
    int refusal = refusal_now(backend);

    expose_family(to, "leafd_snowflake_refused",
                  "1 while snowflake ids are refused for this reason.");
    for (size_t i = 0; i < COUNT_OF(codes); i++) {
        expose_of(to, "code", err_code(codes[i]), codes[i] == refusal);
    }
    expose_family(to, "leafd_clock_off_seconds",
                  "How far the clock is ahead of the cluster's; behind: negative.");
    expose_ms(to, "", atomic_load(&backend->health->clock_off_ms));
    if (count > 0) {
        expose_family(to, "leafd_snowflake_layout_seconds_left",
                      "Time until the layout of snowflake ids is used up.");
    }
    for (uint32_t i = 0; i < count; i++) {
        BUF_LOCAL(labels);

        if (ends[i].name_len > 0) { /* the cluster's own has no label */
            expose_label(&labels, "layout", ends[i].name, ends[i].name_len);
        }
        expose_sample(to, buf_text(&labels),
                      ends[i].last_ms > now_ms ? (ends[i].last_ms - now_ms) / 1000 : 0);
    }
}

/* --- gathered by the raft loop --- */

static void put_consensus(struct exposition *to, const struct id_figures *now)
{
    const struct exposed figures[] = {
        {"leafd_leader_id", "Id of the leader that this node knows; 0: none.", now->leader_id},
        {"leafd_term", "Term of this node.", now->term},
        {"leafd_commit_index", "Last entry of the log that is committed, as this node knows.",
         now->commit_index},
        {"leafd_applied_index", "Last entry that this node has applied.", now->applied_index},
        {"leafd_last_index", "Last entry of this node's log.", now->last_index},
        {"leafd_log_entries", "Entries of the log that are in memory.", now->log_entries},
        {"leafd_log_bytes", "What they take.", now->log_bytes},
        {"leafd_requests_pending", "Requests that this node holds for the cluster.",
         now->requests_pending},
        {"leafd_refills_in_flight", "Tags whose next segment is asked for.",
         now->refills_in_flight},
        {"leafd_cover_short_tags", "Tags that last less than their cover_s, also after refills.",
         now->covers_short},
        {"leafd_windows", "Windows of monotonic tags that this node has as the leader.",
         now->windows},
        {"leafd_window_ids", "Ids that are left in these windows.", now->window_ids},
        {"leafd_workers", "Worker ids that are held.", now->workers},
        {"leafd_worker_names_shared", "Names under which several worker ids are held.",
         now->worker_names_shared},
        {"leafd_elections_total", "Elections that this node stood for.", now->elections},
        {"leafd_leaderships_total", "Elections that it won.", now->leaderships},
        {"leafd_snapshots_sent_total", "Snapshots that went to other nodes, whole.",
         now->snapshots_sent},
        {"leafd_snapshots_received_total", "Snapshots that replaced this node's state.",
         now->snapshots_received},
        {"leafd_log_compactions_total", "Times that the log was truncated after rows on the disk.",
         now->compactions},
        {"leafd_ids_granted_total", "Ids of segments that this node was granted.",
         now->ids_granted},
        {"leafd_window_entries_total", "Entries by which this node asked for windows.",
         now->window_entries},
        {"leafd_window_waits_total", "Batches of monotonic ids that had to wait for a window.",
         now->window_waits},
        {"leafd_rounds_confirmed_total", "Rounds by which a majority said that this node leads.",
         now->rounds_confirmed},
        {"leafd_rounds_abandoned_total", "Rounds that ended without that.", now->rounds_abandoned},
    };

    expose_ones(to, figures, COUNT_OF(figures));
    expose_family(to, "leafd_role", "1 for the role that this node has.");
    for (enum id_node_state i = 0; i < ID_NODE_STATES; i++) {
        expose_of(to, "role", id_node_state_name(i), i == now->role);
    }
}

enum member_metric { REACHABLE, VOTER, LAG, ROUND_TRIP, CLOCK, LEVEL, MEMBER_METRICS };

static void expose_members(struct exposition *to, const struct id_figures *now)
{
    static const struct {
        const char *name;
        const char *help;
    } metrics[] = {
        [REACHABLE] = {"leafd_member_reachable", "1 if this node has a link to the member."},
        [VOTER] = {"leafd_member_voter", "1 if the member votes."},
        [LAG] = {"leafd_member_lag_entries",
                 "Entries that the member lacks, as the leader counts them."},
        [ROUND_TRIP] = {"leafd_link_rtt_seconds", "The way to the member and back, last measured."},
        [CLOCK] = {"leafd_member_clock_off_seconds",
                   "How far the clock of the member is ahead of this node's; behind: negative."},
        [LEVEL] = {"leafd_member_level_able", "The newest level that the member speaks."},
    };
    uint64_t last = now->last_index;
    char label[32];

    for (enum member_metric metric = 0; metric < MEMBER_METRICS; metric++) {
        expose_family(to, metrics[metric].name, metrics[metric].help);
        for (size_t i = 0; i < now->member_count; i++) { /* what is known */
            const struct id_member *member = &now->members[i];

            (void)snprintf(label, sizeof label, "member=\"%" PRIu64 "\"", member->id);
            if (metric == REACHABLE || metric == VOTER) {
                expose_sample(to, label,
                              metric == VOTER ? strcmp(member->role, "voter") == 0
                                              : member->reachable);
            } else if (metric == LAG && member->has_match) {
                expose_sample(to, label,
                              last > member->match_index ? last - member->match_index : 0);
            } else if (metric == ROUND_TRIP && member->round_trip_us != ID_UNKNOWN) {
                expose_us(to, label, member->round_trip_us);
            } else if (metric == CLOCK && member->has_clock_offset) {
                expose_ms(to, label, member->clock_offset_ms);
            } else if (metric == LEVEL && member->levels.max > 0) {
                expose_sample(to, label, member->levels.max);
            }
        }
    }
    expose_family(to, "leafd_member_info", "1, with the version that a member registered.");
    for (size_t i = 0; i < now->member_count; i++) {
        const struct id_member *member = &now->members[i];
        BUF_LOCAL(labels);

        if (member->version[0] != '\0') {
            buf_printf(&labels, "member=\"%" PRIu64 "\"", member->id);
            expose_label(&labels, "version", member->version, /* chosen by the member */
                         strnlen(member->version, sizeof member->version));
            expose_sample(to, buf_text(&labels), 1);
        }
    }
}

static void put_disk(struct exposition *to, const struct id_figures *now)
{
    const struct id_disk_figures *disk = &now->disk;
    const struct id_backup_figures *backups = &now->backups;
    const struct exposed gauges[] = {
        {"leafd_map_bytes", "What the database may grow to: data.map-bytes.", disk->map_bytes},
        {"leafd_map_used_bytes", "What it takes of that.", disk->used_bytes},
        {"leafd_disk_bytes", "Size of the file system of the data directory.", disk->disk_bytes},
        {"leafd_disk_free_bytes", "What is free of it.", disk->disk_free_bytes},
        {"leafd_views_ended_total",
         "Backups and snapshots that were ended so that changes had room.", disk->views_ended},
        {"leafd_disk_stands_seconds",
         "For how long the disk has finished nothing of what waits for it.", disk->stood_s},
    };

    expose_ones(to, gauges, disk->map_bytes > 0 ? COUNT_OF(gauges) : 0);
    expose_family(to, "leafd_backups_total",
                  "Backups that were taken of this node, and those that were given up.");
    expose_of(to, "result", "done", backups->taken);
    expose_of(to, "result", "failed", backups->failed);
    if (backups->last_ms == 0) {
        return; /* backups are optional */
    }
    expose_family(to, "leafd_backup_last_success_time_seconds",
                  "Unix time at which the last backup was sent, whole.");
    expose_ms(to, "", (int64_t)backups->last_ms);
    expose_one(to, "leafd_backup_bytes", "Size of that backup.", backups->last_bytes);
}

static void put_durations(struct exposition *to, const struct id_figures *now)
{
    const struct {
        const char *name;
        const char *help;
        const struct histogram_view *view;
    } durations[] = {
        {"leafd_refill_duration_seconds", "From asking for a segment to the answer.", &now->refill},
        {"leafd_strict_duration_seconds",
         "Of requests for strict ids, from the raft loop on to their answer.", &now->strict},
        {"leafd_commit_duration_seconds", "Of commits to the disk, as a whole.", &now->disk.commit},
        {"leafd_flush_duration_seconds", "Of them, writing and syncing.", &now->disk.flush},
    };

    for (size_t i = 0; i < COUNT_OF(durations); i++) {
        expose_family(to, durations[i].name, durations[i].help);
        expose_histogram(to, "", durations[i].view, NULL);
    }
}

/* The busiest tags that the identity may use. */
static void expose_busiest_tags(struct exposition *to, const struct id_figures *now,
                                const struct identity *identity)
{
    static const char *const names[] = {"leafd_busiest_tag_ids_per_second",
                                        "leafd_busiest_tag_exhaustion_seconds",
                                        "leafd_busiest_tag_lasts_seconds"};
    static const char *const helps[] = {
        "Ids of a tag that this node hands out, of its fastest tags.",
        "Time until its ids end, below its max or 2^63, as all nodes use them.",
        "Time for which what this node holds of it lasts at this node's rate."};

    for (unsigned k = 0; k < COUNT_OF(names); k++) {
        expose_family(to, names[k], helps[k]);
        for (size_t i = 0; i < now->busiest_count; i++) {
            const struct id_tag_figures *tag = &now->busiest[i];
            BUF_LOCAL(labels);

            if ((k < 2 || tag->lasts_s != UINT64_MAX) &&
                identity_may_use(identity, tag->name, tag->name_len)) {
                expose_label(&labels, "tag", tag->name, tag->name_len);
                expose_real(to, buf_text(&labels),
                            k == 0   ? tag->per_s
                            : k == 1 ? tag->ends_s
                                     : (double)tag->lasts_s);
            }
        }
    }
}

/* --- the process --- */

/* The process's use of the machine. */
static void metrics_process_put(struct exposition *to)
{
    char word[EXPOSITION_WORD_BYTES];
    struct process_figures process;

    process_look(&process);
    const struct exposed gauges[] = {
        {"process_resident_memory_bytes", "Memory in use.", process.resident_bytes},
        {"process_virtual_memory_bytes", "Addresses in use.", process.virtual_bytes},
        {"process_open_fds", "Open descriptors.", process.open_descriptors},
        {"process_max_fds", "How many there may be.", process.max_descriptors},
    };
    expose_ones(to, gauges, COUNT_OF(gauges));
    expose_family(to, "process_cpu_seconds_total", "Processor time.");
    expose_us(to, "", process.cpu_us);
    expose_family(to, "leafd_thread_cpu_seconds_total", "Processor time of threads, by name.");
    for (size_t i = 0; i < process.thread_count; i++) {
        expose_us(to, expose_word("thread", process.threads[i].name, word),
                  process.threads[i].cpu_us);
    }
}

/* --- the HTTP side --- */

/* The sum of a value over all loops; the value names its loop `loop`. */
#define SUM(api, loop, value)                                                                      \
    ({                                                                                             \
        uint64_t sum_ = 0;                                                                         \
        for (unsigned i_ = 0; i_ < (api)->loop_count; i_++) {                                      \
            const struct api_loop *loop = (api)->loops[i_];                                        \
            sum_ += (value);                                                                       \
        }                                                                                          \
        sum_;                                                                                      \
    })

/* How long requests took at all loops, as of now. */
struct totals {
    struct histogram_view took[LATENCY_CLASSES][LATENCY_STATUSES];
};

static const char *const statuses[LATENCY_STATUSES] = {"2xx", "3xx", "4xx", "5xx"};

/* Requests by the class of their status: of the probes, or of all other classes. */
static void put_replies(struct exposition *to, const struct totals *totals, const char *name,
                        const char *help, bool probes)
{
    expose_family(to, name, help);
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

/* Those without requests are left out except successes: each is many lines. */
static void put_latency(struct exposition *to, const struct api *api, const struct totals *totals)
{
    static const char *const classes[] = {
        [TRAFFIC_OTHER] = "other",   [TRAFFIC_SEGMENT] = "segment",
        [TRAFFIC_STRICT] = "strict", [TRAFFIC_SNOWFLAKE] = "snowflake",
        [TRAFFIC_DECODE] = "decode", [TRAFFIC_READ] = "read",
        [TRAFFIC_TAGS] = "tags",     [TRAFFIC_WORKERS] = "workers",
        [TRAFFIC_ADMIN] = "admin",   [TRAFFIC_RESP] = "resp"};
    char label[2 * EXPOSITION_WORD_BYTES];

    expose_family(to, "leafd_http_request_duration_seconds",
                  "From a request that is complete to its reply, by class and status.");
    for (unsigned class = 0; class < COUNT_OF(classes); class ++) {
        for (unsigned k = 0; k < LATENCY_STATUSES; k++) {
            const struct histogram_view *view = &totals->took[class][k];
            struct exemplar_view exemplars[HISTOGRAM_BUCKETS] = {0}; /* the newest of all loops */

            if (histogram_count(view) == 0 && (k > 0 || class == TRAFFIC_OTHER)) {
                continue;
            }
            for (unsigned i = 0; i < api->loop_count * HISTOGRAM_BUCKETS; i++) {
                const struct latency *of = &api->loops[i / HISTOGRAM_BUCKETS]->conns->latency;
                unsigned b = i % HISTOGRAM_BUCKETS;

                exemplar_newer(&exemplars[b], &of->exemplars[class][k][b]);
            }
            (void)snprintf(label, sizeof label, "class=\"%s\",status=\"%s\"", classes[class],
                           statuses[k]);
            expose_histogram(to, label, view, exemplars);
        }
    }
}

static void put_counters(struct exposition *to, const struct api *api, const struct totals *totals)
{
    static const char *const kinds[] = {[ID_SOURCE_SEGMENT] = "segment",
                                        [ID_SOURCE_CLOCK] = "snowflake",
                                        [ID_SOURCE_LOG] = "strict",
                                        [ID_SOURCE_LEADER] = "monotonic"};

    expose_family(to, "leafd_ids_total", "Ids handed out by this node.");
    for (int source = 0; source < ID_SOURCES; source++) {
        expose_of(to, "kind", kinds[source], SUM(api, loop, loop->counts.ids[source]));
    }
    put_replies(to, totals, "leafd_http_requests_total",
                "Requests answered, by the class of their status; probes apart.", false);
    put_replies(to, totals, "leafd_http_probes_total",
                "Requests for health, version and metrics that were answered.", true);
    expose_family(
        to, "leafd_http_refused_total",
        "Requests, bodies and connections refused or cut off for what a client may take.");
    for (int refusal = 0; refusal < METER_REFUSALS; refusal++) {
        expose_of(to, "why", refusal_answers[refusal].name,
                  SUM(api, loop, loop->conns->counts.refused[refusal]));
    }
    expose_one(to, "leafd_http_parts_total",
               "Parts of large replies, each made in a turn of its own.",
               SUM(api, loop, loop->conns->counts.parts));
}

static void put_burnt(struct exposition *to, const struct api *api)
{
    static const char *const causes[] = {[ID_BURN_GENERATION] = "generation",
                                         [ID_BURN_LATE] = "late",
                                         [ID_BURN_STOP] = "stop",
                                         [ID_BURN_STRICT] = "strict",
                                         [ID_BURN_SKIPPED] = "skipped",
                                         [ID_BURN_UNANSWERED] = "unanswered",
                                         [ID_BURN_WINDOW] = "window"};

    const struct id_health *health = api->backend->health;

    expose_family(to, "leafd_ids_burnt_total",
                  "Ids granted to this node that no client got, by cause.");
    for (int cause = 0; cause < ID_BURN_CAUSES; cause++) {
        uint64_t burnt = id_count_of(&health->burnt[cause]);

        burnt += cause == ID_BURN_SKIPPED      ? SUM(api, loop, loop->counts.burnt_skipped)
                 : cause == ID_BURN_UNANSWERED ? SUM(api, loop, loop->counts.burnt_unanswered)
                                               : 0;
        expose_of(to, "cause", causes[cause], burnt);
    }
    expose_one(to, "leafd_ids_given_back_total",
               "Ids that this node gave back unused when it stopped.",
               id_count_of(&health->given_back));
}

/* mine: the memory of this reply's connection, which is subtracted. */
static void put_connections(struct exposition *to, const struct api *api,
                            const struct metered *mine)
{
    const struct exposed gauges[] = {
        {"leafd_connections", "Open client connections.",
         SUM(api, loop, loop->conns->counts.conns)},
        {"leafd_waiting_requests", "Requests that wait for ids.",
         SUM(api, loop, loop->waiters.count)},
        {"leafd_http_body_bytes", "Request bodies in memory.",
         SUM(api, loop, loop->conns->meter.body_bytes)},
        {"leafd_http_input_bytes", "Memory of requests that are not whole.",
         SUM(api, loop, loop->conns->meter.input_bytes) - mine->input},
        {"leafd_http_waiting_bytes", "What requests that wait keep beyond 512 bytes each.",
         SUM(api, loop, loop->conns->meter.waiting_bytes) - mine->waiting},
        {"leafd_http_output_bytes", "Memory of replies that were not taken.",
         SUM(api, loop, loop->conns->meter.output_bytes) - mine->output},
        {"leafd_resp_connections", "Open client connections at the RESP listener.",
         SUM(api, loop, loop->conns->counts.resp_conns)},
    };

    expose_ones(to, gauges, COUNT_OF(gauges));
    expose_family(to, "leafd_resp_requests_total",
                  "Requests answered at the RESP listener, by the class of the HTTP status.");
    for (unsigned k = 0; k < LATENCY_STATUSES; k++) {
        expose_of(to, "status", statuses[k], SUM(api, loop, loop->conns->counts.resp_replies[k]));
    }
}

/* Over the loops that have TLS. */
#define HANDSHAKES(api, result)                                                                    \
    SUM((api), loop, loop->conns->tls != NULL ? loop->conns->tls->counts.result : 0)

static void put_tls(struct exposition *to, const struct api *api)
{
    uint64_t peer_until_s = id_count_of(&api->build->reloads->peer_until_s);
    struct tls *tls = api->settings->tls;
    int64_t until_s;

    if (SUM(api, loop, loop->conns->tls != NULL) > 0) {
        expose_family(to, "leafd_tls_handshakes_total",
                      "TLS connections that began, and those that could not.");
        expose_of(to, "result", "full", HANDSHAKES(api, full));
        expose_of(to, "result", "resumed", HANDSHAKES(api, resumed));
        expose_of(to, "result", "failed", HANDSHAKES(api, failed));
    }
    if (tls != NULL || peer_until_s > 0) {
        expose_family(to, "leafd_certificate_end_timestamp_seconds",
                      "Unix time at which the certificate in force ends.");
    }
    if (tls != NULL) {
        until_s = tls_until_s(tls);
        expose_of(to, "what", "http.tls-dir", until_s > 0 ? (uint64_t)until_s : 0);
    }
    if (peer_until_s > 0) {
        expose_of(to, "what", "peer.tls-dir", peer_until_s);
    }
}

/* How long arrivals had to wait for a loop; also without the time of the machine's other work. */
static void put_stalls(struct exposition *to, const struct api_loop *at)
{
    static const char *const names[] = {"leafd_loop_longest_stall_seconds",
                                        "leafd_loop_longest_stall_minute_seconds",
                                        "leafd_loop_busiest_turn_cpu_seconds"};
    static const char *const helps[] = {"The longest turn of a loop since the start.",
                                        "The longest turn of a loop in the last minute.",
                                        "The most processor time that a turn of a loop has taken."};
    uint64_t now_ms = clock_now_ms(at->backend->clock);
    char label[32];

    for (unsigned k = 0; k < COUNT_OF(names); k++) {
        expose_family(to, names[k], helps[k]);
        for (unsigned i = 0; i <= at->api->loop_count; i++) { /* the first is the raft loop */
            const struct stall *stall = &at->backend->health->stall;

            (void)snprintf(label, sizeof label, "loop=\"raft\"");
            if (i > 0) {
                stall = &at->api->loops[i - 1]->conns->stall;
                (void)snprintf(label, sizeof label, "loop=\"http-%u\"", i - 1);
            }
            if (k == 0) {
                expose_ms(to, label, (int64_t)stall->longest_ms);
            } else if (k == 1) {
                expose_ms(to, label, (int64_t)stall_minute_ms(stall, now_ms));
            } else {
                expose_us(to, label, stall->busiest_us);
            }
        }
    }
}

int handle_metrics(struct conn *conn)
{
    const struct api_loop *loop = api_loop(conn);
    const struct api *api = loop->api;
    const struct http_reloads *reloads = api->build->reloads;
    const struct parser_field *accept = &conn->parser.head.accept;
    bool is_open =
        accept->count == 1 && header_wants_openmetrics(conn_at(conn, accept->at), accept->len);
    struct exposition to = {.text = reply_begin(conn), .is_open = is_open};
    struct totals *totals = MUST_HAVE(calloc(1, sizeof *totals));
    struct id_figures *now = MUST_HAVE(malloc(sizeof *now));
    BUF_LOCAL(labels);

    latency_turn_end(&conn->conns->latency, uv_hrtime() / 1000);
    for (unsigned i = 0; i < api->loop_count; i++) {
        for (unsigned class = 0; class < LATENCY_CLASSES; class ++) {
            for (unsigned k = 0; k < LATENCY_STATUSES; k++) {
                histogram_add(&totals->took[class][k],
                              &api->loops[i]->conns->latency.took[class][k]);
            }
        }
    }
    put_counters(&to, api, totals);
    put_latency(&to, api, totals);
    put_connections(&to, api, &conn->metered);
    put_tls(&to, api);
    put_burnt(&to, api);
    put_health(&to, loop->backend->health);
    put_snowflake(&to, loop->backend);
    if (loop->backend->figures != NULL) {
        id_figures_copy(loop->backend->figures, now);
        put_consensus(&to, now);
        expose_members(&to, now);
        put_disk(&to, now);
        put_durations(&to, now);
        expose_busiest_tags(&to, now, gate_identity(conn));
    }
    metrics_process_put(&to);
    expose_family(&to, "leafd_reloads_total", "How often the settings were read again.");
    expose_of(&to, "result", "done", id_count_of(&reloads->done));
    expose_of(&to, "result", "refused", id_count_of(&reloads->refused));
    expose_family(&to, "leafd_reload_timestamp_seconds",
                  "Unix time of the last reload that was done; 0: none yet.");
    expose_ms(&to, "", (int64_t)id_count_of(&reloads->done_ms));
    put_stalls(&to, loop);
    expose_family(&to, "leafd_build_info", "1, with what this binary is.");
    expose_label(&labels, "version", api->build->version, strlen(api->build->version));
    expose_label(&labels, "commit", api->build->commit, strlen(api->build->commit));
    expose_sample(&to, buf_text(&labels), 1);
    if (is_open) {
        buf_printf(to.text, "# EOF\n");
    }
    free(now);
    free(totals);
    return reply_made(conn, is_open ? EXPOSITION_OPEN_TYPE : EXPOSITION_TYPE, NULL);
}
