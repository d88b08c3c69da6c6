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
#include "src/id/snowflake/snowflake_named.h"

#define MEMBER_BYTES 32 /* of a label with a member's id */

/* --- what atomics say --- */

/* Which cluster this is, once it is one: two that were born apart show by it. */
static void expose_birth(struct exposition *to, const struct id_health *health)
{
    char text[UID_TEXT_BYTES];
    struct uid uid;
    bool born = id_health_uid(health, &uid);

    expose_one(to, "leafd_born", METRIC_GAUGE, "1 if this node has heard of its cluster's birth.",
               born);
    if (born) {
        expose_family(to, "leafd_cluster_info", METRIC_GAUGE, "1, with the uid of the cluster.");
        expose_of(to, "uid", uid_text(&uid, text), 1);
    }
}

static void put_health(struct exposition *to, const struct id_health *health)
{
    const struct exposed gauges[] = {
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

    expose_ones(to, METRIC_GAUGE, gauges, COUNT_OF(gauges));
    expose_family(to, "leafd_setting_differs", METRIC_GAUGE,
                  "1 if this setting is not what the log knows, which holds.");
    for (unsigned i = 0; i < ID_DIFFERENCES; i++) {
        expose_of(to, "setting", id_difference_setting(i),
                  (atomic_load(&health->differs) >> i) & 1);
    }
    expose_birth(to, health);
    expose_one(to, "leafd_peer_implausible_total", METRIC_COUNTER,
               "What other nodes told this one and was refused, since it cannot be.",
               id_count_of(&health->implausible));
}

/* The cluster's own has no label. */
static void put_layouts(struct exposition *to, const struct snowflake *snowflake, uint64_t now_ms)
{
    struct snowflake_end ends[1 + LIMIT_LAYOUTS];
    uint32_t count = snowflake_ends(snowflake, ends);

    if (count > 0) {
        expose_family(to, "leafd_snowflake_layout_seconds_left", METRIC_GAUGE,
                      "Time until the layout of snowflake ids is used up.");
    }
    for (uint32_t i = 0; i < count; i++) {
        BUF_LOCAL(labels);

        if (ends[i].name_len > 0) {
            expose_label(&labels, "layout", ends[i].name, ends[i].name_len);
        }
        buf_put(&labels, "", 1);
        expose_sample(to, (const char *)labels.data,
                      ends[i].last_ms > now_ms ? (ends[i].last_ms - now_ms) / 1000 : 0);
    }
}

static void put_snowflake(struct exposition *to, const struct id_backend *backend)
{
    static const int codes[] = REFUSAL_CODES;
    int refusal = refusal_now(backend);

    expose_family(to, "leafd_snowflake_refused", METRIC_GAUGE,
                  "1 while snowflake ids are refused for this reason.");
    for (size_t i = 0; i < COUNT_OF(codes); i++) {
        expose_of(to, "code", err_code(codes[i]), codes[i] == refusal);
    }
    expose_family(to, "leafd_clock_off_seconds", METRIC_GAUGE,
                  "How far the clock is ahead of the cluster's; behind: negative.");
    expose_ms(to, "", atomic_load(&backend->health->clock_off_ms));
    if (backend->snowflake != NULL) {
        put_layouts(to, backend->snowflake, clock_wall_ms(backend->clock));
    }
}

/* --- what the raft loop gathered --- */

static void put_consensus(struct exposition *to, const struct id_figures *now)
{
    const struct exposed gauges[] = {
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
        {"leafd_worker_names_shared", "Names under which several worker ids are held.",
         now->worker_names_shared},
    };
    const struct exposed counters[] = {
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

    expose_ones(to, METRIC_GAUGE, gauges, COUNT_OF(gauges));
    expose_ones(to, METRIC_COUNTER, counters, COUNT_OF(counters));
    expose_family(to, "leafd_role", METRIC_GAUGE, "1 for the role that this node has.");
    for (enum id_node_state i = 0; i < ID_NODE_STATES; i++) {
        expose_of(to, "role", id_node_state_name(i), i == now->role);
    }
}

enum member_metric { REACHABLE, VOTER, LAG, ROUND_TRIP, CLOCK, LEVEL, MEMBER_METRICS };

/* What is known of a member, if it is. */
static void put_of_member(struct exposition *to, const char *label, enum member_metric metric,
                          const struct id_figures *now, const struct id_member_figures *member)
{
    uint64_t last = now->last_index;

    if (metric == REACHABLE || metric == VOTER) {
        expose_sample(to, label, metric == VOTER ? member->voter : member->reachable);
    } else if (metric == LAG && member->has_match) {
        expose_sample(to, label, last > member->match_index ? last - member->match_index : 0);
    } else if (metric == ROUND_TRIP && member->has_rtt) {
        expose_us(to, label, member->rtt_us);
    } else if (metric == CLOCK && member->has_clock) {
        expose_ms(to, label, member->clock_off_ms);
    } else if (metric == LEVEL && member->levels.max > 0) {
        expose_sample(to, label, member->levels.max);
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
            expose_sample(to, (const char *)labels.data, 1);
        }
    }
}

static void expose_members(struct exposition *to, const struct id_figures *now)
{
    static const struct {
        const char *name;
        const char *help;
    } metrics[] = {
        [REACHABLE] = {"leafd_member_reachable", "1 if this node has a link to the member."},
        [VOTER] = {"leafd_member_voter", "1 if the member votes."},
        [LAG] = {"leafd_member_lag_entries", "Entries that the member lacks; the leader tells."},
        [ROUND_TRIP] = {"leafd_link_rtt_seconds", "The way to the member and back, last measured."},
        [CLOCK] = {"leafd_member_clock_off_seconds",
                   "How far the clock of the member is ahead of this node's; behind: negative."},
        [LEVEL] = {"leafd_member_level_able", "The newest level that the member speaks."},
    };
    char label[MEMBER_BYTES];

    for (enum member_metric metric = 0; metric < MEMBER_METRICS; metric++) {
        expose_family(to, metrics[metric].name, METRIC_GAUGE, metrics[metric].help);
        for (size_t i = 0; i < now->member_count; i++) {
            (void)snprintf(label, sizeof label, "member=\"%" PRIu64 "\"", now->members[i].id);
            put_of_member(to, label, metric, now, &now->members[i]);
        }
    }
    put_versions(to, now);
}

static void put_disk(struct exposition *to, const struct id_disk_figures *disk)
{
    const struct exposed gauges[] = {
        {"leafd_map_bytes", "What the database may grow to: data.map-bytes.", disk->map_bytes},
        {"leafd_map_used_bytes", "What it takes of that.", disk->used_bytes},
        {"leafd_disk_bytes", "Size of the file system of the data directory.", disk->disk_bytes},
        {"leafd_disk_free_bytes", "What is free of it.", disk->disk_free_bytes},
    };

    if (disk->map_bytes > 0) {
        expose_ones(to, METRIC_GAUGE, gauges, COUNT_OF(gauges));
        expose_family(to, "leafd_views_ended_total", METRIC_COUNTER,
                      "Backups and snapshots that were ended so that changes had room.");
        expose_sample(to, "", disk->views_ended);
    }
}

static void put_backups(struct exposition *to, const struct id_backup_figures *backups)
{
    expose_family(to, "leafd_backups_total", METRIC_COUNTER,
                  "Backups that were taken of this node, and those that were given up.");
    expose_of(to, "result", "done", backups->taken);
    expose_of(to, "result", "failed", backups->failed);
    if (backups->last_ms == 0) {
        return; /* nobody has to take any */
    }
    expose_family(to, "leafd_backup_last_success_time_seconds", METRIC_GAUGE,
                  "Unix time at which the last backup was sent, whole.");
    expose_ms(to, "", (int64_t)backups->last_ms);
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
        expose_histogram(to, "", durations[i].view, NULL);
    }
}

/* Of the busiest tags those that the identity may use. */
static void expose_busiest_tags(struct exposition *to, const struct id_figures *now,
                                const struct identity *identity)
{
    static const char *const names[] = {"leafd_busiest_tag_ids_per_second",
                                        "leafd_busiest_tag_exhaustion_seconds"};
    static const char *const helps[] = {
        "Ids of a tag that this node hands out, of its fastest tags.",
        "Time until its ids end, below its max or 2^63, as all nodes use them."};

    for (unsigned k = 0; k < COUNT_OF(names); k++) {
        expose_family(to, names[k], METRIC_GAUGE, helps[k]);
        for (size_t i = 0; i < now->busiest_count; i++) {
            const struct id_tag_figures *tag = &now->busiest[i];
            BUF_LOCAL(labels);

            if (identity == NULL || identity_may_use(identity, tag->name, tag->name_len)) {
                expose_label(&labels, "tag", tag->name, tag->name_len);
                buf_put(&labels, "", 1);
                expose_real(to, (const char *)labels.data, k == 0 ? tag->per_s : tag->ends_s);
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
        expose_members(to, now);
        put_disk(to, &now->disk);
        put_backups(to, &now->backups);
        put_durations(to, now);
        expose_busiest_tags(to, now, identity);
    }
    free(now);
}

/* --- the process --- */

void metrics_process_put(struct exposition *to)
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
    expose_ones(to, METRIC_GAUGE, gauges, COUNT_OF(gauges));
    expose_family(to, "process_cpu_seconds_total", METRIC_COUNTER, "Processor time.");
    expose_us(to, "", process.cpu_us);
    expose_family(to, "leafd_thread_cpu_seconds_total", METRIC_COUNTER,
                  "Processor time of threads, by name.");
    for (size_t i = 0; i < process.thread_count; i++) {
        expose_us(to, expose_word("thread", process.threads[i].name, word),
                  process.threads[i].cpu_us);
    }
}
