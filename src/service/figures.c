/*
 * figures.c - see figures.h. Thread: the raft loop.
 */
#include "src/service/figures.h"

#include <stdlib.h>
#include <string.h>

#include "src/base/assert.h"
#include "src/base/hash.h"
#include "src/base/prng.h"
#include "src/service/health.h"

void figures_init(struct figures *figures, const struct figures_sources *of)
{
    memset(figures, 0, sizeof *figures);
    figures->of = *of;
    figures->seed = prng_entropy();
    ASSERT(pthread_mutex_init(&figures->box.mutex, NULL) == 0);
}

void figures_free(struct figures *figures)
{
    ASSERT(pthread_mutex_destroy(&figures->box.mutex) == 0);
}

static void look_consensus(const struct figures *figures, struct id_figures *now)
{
    const struct raft_context *on = figures->of.on;
    const struct driver *driver = on->driver;

    now->role = health_state(on);
    now->leader_id = driver_leader(driver);
    now->term = driver_term(driver);
    now->commit_index = driver->commit;
    now->applied_index = driver_applied(driver)->index;
    now->last_index = driver_last_index(driver);
    now->log_entries = driver->log.count;
    now->log_bytes = driver->log.bytes;
    now->elections = driver->counts.elections;
    now->leaderships = driver->counts.leaderships;
    now->snapshots_sent = driver->transfers.sent;
    now->snapshots_received = driver->counts.installs;
    now->compactions = driver->counts.compactions;
}

static void look_rounds(const struct figures *figures, struct id_figures *now)
{
    const struct window_counts *counts = windows_counts(figures->of.windows);
    const struct rounds *rounds = &figures->of.requests->serving.round;

    now->windows = counts->open;
    now->window_ids = counts->left;
    now->window_entries = counts->entries;
    now->window_waits = counts->waits;
    now->rounds_confirmed = rounds->confirmed_count;
    now->rounds_abandoned = rounds->abandoned_count;
}

/* How often a hash was counted, up to twice. */
struct name_seen {
    uint64_t hash; /* 0: the place is free */
    bool twice;
};

/* True if it is the second of its hash. places: a power of two, above that of hashes. */
static bool is_second(struct name_seen *seen, size_t places, uint64_t hash)
{
    size_t at;
    bool second;

    hash += hash == 0;
    at = hash & (places - 1);
    while (seen[at].hash != 0 && seen[at].hash != hash) {
        at = (at + 1) & (places - 1);
    }
    second = seen[at].hash == hash && !seen[at].twice;
    seen[at].twice = seen[at].hash == hash;
    seen[at].hash = hash;
    return second;
}

/* Worker ids that are held; and names under which several are whose windows are not over. Sorting
 * them would take 7 ms of the loop, of 65,535. */
static void look_workers(const struct fsm *fsm, uint64_t seed, struct id_figures *now)
{
    const struct worker_row *row;
    struct name_seen *seen;
    size_t count = 0;
    size_t places = 2;

    while (fsm_worker_at(fsm, count) != NULL) {
        count++;
    }
    while (places <= 2 * count) {
        places *= 2;
    }
    seen = MUST_HAVE(calloc(places, sizeof *seen));
    for (size_t at = 0; at < count; at++) {
        bool is_held;

        row = fsm_worker_at(fsm, at);
        is_held = row->state == WORKER_HELD;
        now->workers += is_held;
        now->worker_names_shared +=
            is_held && row->granted_until_ms >= fsm_log_ms(fsm) &&
            is_second(seen, places, hash_bytes(row->name, row->name_len, seed));
    }
    free(seen);
}

static void look_requests(const struct figures *figures, struct id_figures *now)
{
    const struct allocator_counts *counts = allocator_counts(figures->of.allocator);

    now->requests_pending = figures->of.requests->count;
    now->refills_in_flight = counts->in_flight;
    now->ids_granted = counts->granted;
    now->covers_short = allocator_usage(figures->of.allocator)->short_count;
    look_rounds(figures, now);
    histogram_add(&now->refill, &counts->took);
    histogram_add(&now->strict, strict_took(figures->of.strict));
    look_workers(figures->of.context->fsm, figures->seed, now);
}

static void look_disk(const struct figures *figures, struct id_disk_figures *now)
{
    struct disk *disk = figures->of.disk;
    struct disk_figures seen;

    if (disk->ops->figures == NULL) {
        return;
    }
    disk->ops->figures(disk, &seen);
    *now = (struct id_disk_figures){
        .map_bytes = seen.space.map_bytes,
        .used_bytes = seen.space.used_bytes,
        .disk_bytes = seen.space.disk_bytes,
        .disk_free_bytes = seen.space.disk_free_bytes,
        .views_ended = seen.space.views_ended,
        .commit = seen.commit,
        .flush = seen.flush,
    };
}

static void look_member(const struct figures *figures, const struct conf_member *from,
                        struct id_member_figures *member)
{
    const struct raft_context *on = figures->of.on;
    const struct clock_link *link = clock_sync_link(figures->of.clocks, from->id);
    struct node_info info;

    member->id = from->id;
    member->voter = from->role == ROLE_VOTER;
    member->reachable = context_reaches(on, from->id);
    member->has_match = driver_match(on->driver, from->id, &member->match_index);
    member->has_rtt = link != NULL;
    member->rtt_us = link != NULL ? link->rtt_us : 0;
    member->has_clock =
        clock_check_peer(&figures->of.clocks->check, from->id, clock_now_ms(on->real_clock),
                         clock_wall_ms(on->real_clock), &member->clock_off_ms);
    if (state_node(on->state, from->id, &info)) {
        member->levels = info.levels;
        _Static_assert(sizeof info.version == sizeof member->version, "a version fits");
        memcpy(member->version, info.version, sizeof member->version);
    }
}

static void look_members(const struct figures *figures, struct id_figures *now)
{
    const struct configuration *conf = driver_configuration(figures->of.on->driver);

    ASSERT(conf->count <= LIMIT_NODES);
    MEMBER_FOREACH (member, conf) {
        look_member(figures, member, &now->members[now->member_count++]);
    }
}

/* What an operator makes or sets is no growth (but of a strict tag, which keeps its generation),
 * nor is what a new period or key passes over. */
static void look_growth(struct figures_growth *growth, const struct id_tag *tag,
                        const struct tag_row *row, uint64_t now_ms)
{
    bool is_same = growth->tag == tag && growth->generation == row->generation;
    uint64_t grown = is_same && row->max_id > growth->max_id ? row->max_id - growth->max_id : 0;
    struct shape shape;

    if (growth->tag != tag) {
        *growth = (struct figures_growth){.tag = tag};
    }
    if (grown > 0 && row->shape_len > 0 &&
        tag_shape(row->shape, row->shape_len, &shape, NULL) == 0) {
        grown = shape_grown(&shape, growth->max_id, row->max_id);
    }
    grown /= increment_of(row->increment);
    if (meter_note(&growth->ids, grown, FIGURES_GROWTH_HALF_MS, now_ms) || !is_same) {
        growth->generation = row->generation;
        growth->max_id = row->max_id;
    }
}

static int faster_first(const void *a, const void *b)
{
    double left = ((const struct id_tag_figures *)a)->per_s;
    double right = ((const struct id_tag_figures *)b)->per_s;

    return (left < right) - (left > right);
}

static void look_busiest(struct figures *figures, struct id_figures *now)
{
    const struct raft_context *on = figures->of.on;
    const struct usage *usage = allocator_usage(figures->of.allocator);

    _Static_assert(USAGE_BUSIEST == ID_BUSIEST_TAGS, "all of them are told");
    for (size_t i = 0; i < usage->count; i++) {
        const struct id_tag *tag = usage->busiest[i];
        const struct tag_row *row = fsm_tag(figures->of.context->fsm, tag->name, tag->name_len);
        struct id_tag_figures *to = &now->busiest[now->busiest_count];
        double per_s = (double)tag->refill.rate.per_s;
        double by_all;

        if (row == NULL || row->deleted || per_s < USAGE_RATE_MIN_PER_S) {
            continue;
        }
        look_growth(&figures->growths[i], tag, row, context_now_ms(on));
        by_all = (double)figures->growths[i].ids.per_s;
        by_all = by_all > per_s ? by_all : per_s;
        memcpy(to->name, tag->name, tag->name_len);
        to->name_len = tag->name_len;
        to->per_s = per_s;
        to->ends_s = (double)dates_left(figures->of.dates, row, by_all) / by_all;
        to->lasts_s = usage_lasts_s(tag);
        to->cover_s = tag->refill.cover_s;
        to->is_short = tag->refill.is_short;
        now->busiest_count++;
    }
    qsort(now->busiest, now->busiest_count, sizeof now->busiest[0], faster_first);
}

void figures_look(struct figures *figures)
{
    struct id_figures now;

    memset(&now, 0, sizeof now);
    look_consensus(figures, &now);
    look_requests(figures, &now);
    look_disk(figures, &now.disk);
    now.backups = figures->of.backups->figures;
    look_members(figures, &now);
    look_busiest(figures, &now);
    id_figures_put(&figures->box, &now);
}
