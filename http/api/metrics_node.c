/*
 * metrics_node.c - see metrics_node.h. Thread: any.
 */
#include "http/api/metrics_node.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "http/api/body.h"
#include "http/api/refusal.h"
#include "src/base/assert.h"
#include "src/base/process.h"

#define LABEL_BYTES 64 /* of labels that are numbers and words of our own */

struct one {
    const char *name;
    const char *help;
    uint64_t value;
};

static void put_ones(struct exposition *to, enum metric_kind kind, const struct one *ones,
                     size_t count)
{
    for (size_t i = 0; i < count; i++) {
        expose_one(to, ones[i].name, kind, ones[i].help, ones[i].value);
    }
}

/* --- what atomics say --- */

/* Which cluster this is, once it is one: two that were born apart show by it. */
static void put_birth(struct exposition *to, const struct id_health *health)
{
    char text[UID_TEXT_BYTES];
    char label[LABEL_BYTES];
    struct uid uid;
    bool born = id_health_uid(health, &uid);

    expose_one(to, "leafd_born", METRIC_GAUGE, "1 if this node has heard of its cluster's birth.",
               born);
    if (born) {
        expose_family(to, "leafd_cluster_info", METRIC_GAUGE, "1, with the uid of the cluster.");
        (void)snprintf(label, sizeof label, "uid=\"%s\"", uid_text(&uid, text));
        expose_sample(to, "leafd_cluster_info", label, 1);
    }
}

static void put_health(struct exposition *to, const struct id_health *health)
{
    const struct one gauges[] = {
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
        {"leafd_tags_held", "Tags of which this node holds ids in memory.", health->segments_held},
        {"leafd_members", "Members of the cluster, as this node knows them.", health->members},
        {"leafd_voters", "Members that vote.", health->voters},
        {"leafd_level", "The level of the cluster, as this node has applied it.", health->level},
        {"leafd_level_able", "The newest level that this node speaks.", health->level_able},
        {"leafd_member_change", "1 while a change of the members is under way.",
         health->member_change},
        {"leafd_stopping", "1 while this node stops and takes no more requests.", health->stopping},
    };
    char label[LABEL_BYTES];

    put_ones(to, METRIC_GAUGE, gauges, COUNT_OF(gauges));
    expose_family(to, "leafd_setting_differs", METRIC_GAUGE,
                  "1 if this setting is not what the log knows, which holds.");
    for (unsigned i = 0; i < ID_DIFFERENCES; i++) {
        (void)snprintf(label, sizeof label, "setting=\"%s\"", id_difference_setting(i));
        expose_sample(to, "leafd_setting_differs", label, (atomic_load(&health->differs) >> i) & 1);
    }
    put_birth(to, health);
    expose_one(to, "leafd_peer_implausible_total", METRIC_COUNTER,
               "What other nodes told this one and was refused, since it cannot be.",
               id_count_of(&health->implausible));
}

static void put_snowflake(struct exposition *to, const struct id_backend *backend)
{
    static const int codes[] = REFUSAL_CODES;
    const struct snowflake *snowflake = backend->snowflake;
    int refusal = refusal_now(backend);
    uint64_t now_ms = clock_wall_ms(backend->clock);
    char label[LABEL_BYTES];
    uint64_t last_ms;

    expose_family(to, "leafd_snowflake_refused", METRIC_GAUGE,
                  "1 while snowflake ids are refused for this reason.");
    for (size_t i = 0; i < COUNT_OF(codes); i++) {
        (void)snprintf(label, sizeof label, "code=\"%s\"", err_code(codes[i]));
        expose_sample(to, "leafd_snowflake_refused", label, codes[i] == refusal);
    }
    expose_family(to, "leafd_clock_off_seconds", METRIC_GAUGE,
                  "How far the clock is ahead of the cluster's; behind: negative.");
    expose_ms(to, "leafd_clock_off_seconds", "", atomic_load(&backend->health->clock_off_ms));
    if (snowflake != NULL && atomic_load_explicit(&snowflake->ready, memory_order_acquire)) {
        last_ms = snowflake_last_ms(&snowflake->layout);
        expose_one(to, "leafd_snowflake_layout_seconds_left", METRIC_GAUGE,
                   "Time until the layout of snowflake ids is used up.",
                   last_ms > now_ms ? (last_ms - now_ms) / 1000 : 0);
    }
}

/* --- what the raft loop gathered --- */

static void put_consensus(struct exposition *to, const struct id_figures *now)
{
    static const char *const roles[] = {[ID_NODE_STARTING] = "starting",
                                        [ID_NODE_FOLLOWER] = "follower",
                                        [ID_NODE_CANDIDATE] = "candidate",
                                        [ID_NODE_LEADER] = "leader",
                                        [ID_NODE_STOPPING] = "stopping"};
    const struct one gauges[] = {
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
        {"leafd_windows", "Windows of monotonic tags that this node has as the leader.",
         now->windows},
        {"leafd_window_ids", "Ids that are left in these windows.", now->window_ids},
        {"leafd_workers", "Worker ids that are held.", now->workers},
    };
    const struct one counters[] = {
        {"leafd_elections_total", "Elections that this node stood for.", now->elections},
        {"leafd_leaderships_total", "Elections that it won.", now->leaderships},
        {"leafd_snapshots_sent_total", "Snapshots that went to other nodes, whole.",
         now->snapshots_sent},
        {"leafd_snapshots_received_total", "Snapshots that replaced this node's state.",
         now->snapshots_received},
        {"leafd_log_compactions_total", "Times that the log was cut behind rows on the disk.",
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
    char label[LABEL_BYTES];

    put_ones(to, METRIC_GAUGE, gauges, COUNT_OF(gauges));
    put_ones(to, METRIC_COUNTER, counters, COUNT_OF(counters));
    expose_family(to, "leafd_role", METRIC_GAUGE, "1 for the role that this node has.");
    for (unsigned i = 0; i < COUNT_OF(roles); i++) {
        (void)snprintf(label, sizeof label, "role=\"%s\"", roles[i]);
        expose_sample(to, "leafd_role", label, i == now->role);
    }
}

/* What is known of a member: a function each; false: nothing. */

struct of_member {
    const char *name;
    const char *help;
    void (*put)(struct exposition *to, const char *name, const char *label,
                const struct id_figures *now, const struct id_member_figures *member);
};

static void put_reachable(struct exposition *to, const char *name, const char *label,
                          const struct id_figures *now, const struct id_member_figures *member)
{
    (void)now;
    expose_sample(to, name, label, member->reachable);
}

static void put_voter(struct exposition *to, const char *name, const char *label,
                      const struct id_figures *now, const struct id_member_figures *member)
{
    (void)now;
    expose_sample(to, name, label, member->voter);
}

static void put_lag(struct exposition *to, const char *name, const char *label,
                    const struct id_figures *now, const struct id_member_figures *member)
{
    if (member->has_match) {
        expose_sample(to, name, label,
                      now->last_index > member->match_index ? now->last_index - member->match_index
                                                            : 0);
    }
}

static void put_rtt(struct exposition *to, const char *name, const char *label,
                    const struct id_figures *now, const struct id_member_figures *member)
{
    (void)now;
    if (member->has_rtt) {
        expose_us(to, name, label, member->rtt_us);
    }
}

static void put_clock(struct exposition *to, const char *name, const char *label,
                      const struct id_figures *now, const struct id_member_figures *member)
{
    (void)now;
    if (member->has_clock) {
        expose_ms(to, name, label, member->clock_off_ms);
    }
}

static void put_level(struct exposition *to, const char *name, const char *label,
                      const struct id_figures *now, const struct id_member_figures *member)
{
    (void)now;
    if (member->levels.max > 0) {
        expose_sample(to, name, label, member->levels.max);
    }
}

/* Versions come from other nodes. */
static void put_versions(struct exposition *to, const struct id_figures *now)
{
    expose_family(to, "leafd_member_info", METRIC_GAUGE,
                  "1, with the version that a member registered.");
    for (size_t i = 0; i < now->member_count; i++) {
        const struct id_member_figures *member = &now->members[i];
        BUF_LOCAL(labels);

        if (member->version[0] != '\0') {
            buf_printf(&labels, "member=\"%" PRIu64 "\"", member->id);
            expose_label(&labels, "version", member->version,
                         strnlen(member->version, sizeof member->version));
            buf_put(&labels, "", 1);
            expose_sample(to, "leafd_member_info", (const char *)labels.data, 1);
        }
    }
}

static void put_members(struct exposition *to, const struct id_figures *now)
{
    static const struct of_member metrics[] = {
        {"leafd_member_reachable", "1 if this node has a link to the member.", put_reachable},
        {"leafd_member_voter", "1 if the member votes.", put_voter},
        {"leafd_member_lag_entries", "Entries that the member lacks; the leader tells.", put_lag},
        {"leafd_link_rtt_seconds", "The way to the member and back, last measured.", put_rtt},
        {"leafd_member_clock_off_seconds",
         "How far the clock of the member is ahead of this node's; behind: negative.", put_clock},
        {"leafd_member_level_able", "The newest level that the member speaks.", put_level},
    };
    char label[LABEL_BYTES];

    for (size_t k = 0; k < COUNT_OF(metrics); k++) {
        expose_family(to, metrics[k].name, METRIC_GAUGE, metrics[k].help);
        for (size_t i = 0; i < now->member_count; i++) {
            (void)snprintf(label, sizeof label, "member=\"%" PRIu64 "\"", now->members[i].id);
            metrics[k].put(to, metrics[k].name, label, now, &now->members[i]);
        }
    }
    put_versions(to, now);
}

static void put_disk(struct exposition *to, const struct id_disk_figures *disk)
{
    const struct one gauges[] = {
        {"leafd_map_bytes", "What the database may grow to: data.map-bytes.", disk->map_bytes},
        {"leafd_map_used_bytes", "What it takes of that.", disk->used_bytes},
        {"leafd_disk_bytes", "Size of the file system of the data directory.", disk->disk_bytes},
        {"leafd_disk_free_bytes", "What is free of it.", disk->disk_free_bytes},
    };

    if (disk->map_bytes > 0) {
        put_ones(to, METRIC_GAUGE, gauges, COUNT_OF(gauges));
    }
}

static void put_backups(struct exposition *to, const struct id_backup_figures *backups)
{
    static const char name[] = "leafd_backups_total";

    expose_family(to, name, METRIC_COUNTER,
                  "Backups that were taken of this node, and those that were given up.");
    expose_sample(to, name, "result=\"done\"", backups->taken);
    expose_sample(to, name, "result=\"failed\"", backups->failed);
    if (backups->last_ms == 0) {
        return; /* nobody has to take any */
    }
    expose_family(to, "leafd_backup_last_success_time_seconds", METRIC_GAUGE,
                  "Unix time at which the last backup was sent, whole.");
    expose_ms(to, "leafd_backup_last_success_time_seconds", "", (int64_t)backups->last_ms);
    expose_one(to, "leafd_backup_bytes", METRIC_GAUGE, "Size of that backup.", backups->last_bytes);
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
        expose_family(to, durations[i].name, METRIC_HISTOGRAM, durations[i].help);
        expose_histogram(to, durations[i].name, "", durations[i].view, NULL);
    }
}

/* Of the busiest tags those that the identity may use. */
static void put_busiest(struct exposition *to, const struct id_figures *now,
                        const struct identity *identity)
{
    static const char *const names[] = {"leafd_busiest_tag_ids_per_second",
                                        "leafd_busiest_tag_exhaustion_seconds"};
    static const char *const helps[] = {
        "Ids of a tag that all nodes were granted, of the fastest tags.",
        "Time until its ids end, below its max or 2^63, at this rate."};

    for (unsigned k = 0; k < COUNT_OF(names); k++) {
        expose_family(to, names[k], METRIC_GAUGE, helps[k]);
        for (size_t i = 0; i < now->busiest_count; i++) {
            const struct id_tag_figures *tag = &now->busiest[i];
            BUF_LOCAL(labels);

            if (identity == NULL || identity_may_use(identity, tag->name, tag->name_len)) {
                expose_label(&labels, "tag", tag->name, tag->name_len);
                buf_put(&labels, "", 1);
                expose_real(to, names[k], (const char *)labels.data,
                            k == 0 ? tag->per_s : (double)tag->left / tag->per_s);
            }
        }
    }
}

void metrics_node_put(struct exposition *to, const struct id_backend *backend,
                      const struct identity *identity)
{
    struct id_figures *now = MUST_HAVE(malloc(sizeof *now));

    put_health(to, backend->health);
    put_snowflake(to, backend);
    if (backend->figures != NULL) {
        id_figures_copy(backend->figures, now);
        put_consensus(to, now);
        put_members(to, now);
        put_disk(to, &now->disk);
        put_backups(to, &now->backups);
        put_durations(to, now);
        put_busiest(to, now, identity);
    }
    free(now);
}

/* --- the process --- */

void metrics_process_put(struct exposition *to)
{
    struct process_figures process;
    char label[LABEL_BYTES];

    process_look(&process);
    expose_one(to, "process_resident_memory_bytes", METRIC_GAUGE, "Memory in use.",
               process.resident_bytes);
    expose_one(to, "process_virtual_memory_bytes", METRIC_GAUGE, "Addresses in use.",
               process.virtual_bytes);
    expose_one(to, "process_open_fds", METRIC_GAUGE, "Open descriptors.", process.open_descriptors);
    expose_one(to, "process_max_fds", METRIC_GAUGE, "How many there may be.",
               process.max_descriptors);
    expose_family(to, "process_cpu_seconds_total", METRIC_COUNTER, "Processor time.");
    expose_us(to, "process_cpu_seconds_total", "", process.cpu_us);
    expose_family(to, "leafd_thread_cpu_seconds_total", METRIC_COUNTER,
                  "Processor time of threads, by name.");
    for (size_t i = 0; i < process.thread_count; i++) {
        (void)snprintf(label, sizeof label, "thread=\"%s\"", process.threads[i].name);
        expose_us(to, "leafd_thread_cpu_seconds_total", label, process.threads[i].cpu_us);
    }
}
