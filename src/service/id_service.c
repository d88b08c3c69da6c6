/*
 * id_service.c - see id_service.h. Thread: the raft loop.
 */
#include "src/service/id_service.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/assert.h"
#include "src/base/container.h"
#include "src/base/hash.h"
#include "src/base/log.h"
#include "src/base/utf8.h"
#include "src/id/snowflake/snowflake.h"

#define RECALLED_AGAIN_MS 100   /* longer than a follower takes to apply its proposal */
#define RECALLED_SLOWLY_MS 5000 /* for a node that is cut off from its leader */
#define LAYOUT_AGAIN_MS 100     /* a refused layout is not proposed in every turn */

_Static_assert(TAG_MARKS_BYTES_MAX <= WIRE_MARKS_BYTES_MAX, "marks fit an answer");

static struct id_service *service_of(const struct service *base)
{
    return CONTAINER(base, struct id_service, base);
}

/* --- requests of the node itself --- */

/* A tag that the leader is asked about. */
struct open_request {
    struct cluster_request query;
    struct cluster_request *outer;
    struct id_service *service;
};

/* An answer relayed around a cut link may be older than the log applied since. A pause or
 * resumption of a tag is no new generation: the index that the answer reflects shows which is
 * newer. */
static int open_row(struct id_service *service, const struct tag_row *row, uint64_t index)
{
    const struct tag_row *own = fsm_tag(service->context.fsm, row->name, row->name_len);
    struct tag_row taken = *row;

    if (own != NULL && own->generation > row->generation) {
        taken = *own;
    } else if (own != NULL && own->generation == row->generation &&
               index < driver_applied(service->context.on->driver)->index) {
        taken.paused = own->paused;
        taken.reason = own->reason;
        taken.reason_len = own->reason_len;
        taken.cover_s = own->cover_s;
    }
    return allocator_open(service->allocator, &taken) != NULL ? 0 : ERR_OVERLOADED;
}

static void ids_queried_cb(struct cluster_request *query)
{
    struct open_request *open = CONTAINER(query, struct open_request, query);
    struct tag_rows rows = {0};
    int status = query->status;

    if (status == 0) {
        status = tag_rows_decode(query->reply.data, query->reply.len, &rows);
    }
    if (status == 0) {
        status = rows.count == 1 ? open_row(open->service, &rows.rows[0], query->index)
                                 : ERR_UNKNOWN_TAG;
    }
    tag_rows_release(&rows);
    answers_put(open->service->context.on->answers, open->outer, status);
    buf_free(&query->payload);
    buf_free(&query->reply);
    free(open);
}

/* A tag requested on this node for the first time gets its place in the id table, by the row known
 * here or to the leader. No such tag: ERR_UNKNOWN_TAG; the table is full: ERR_OVERLOADED. */
static void open_tag(struct id_service *service, struct cluster_request *request)
{
    const char *name = (const char *)request->payload.data;
    const struct tag_row *row = fsm_tag(service->context.fsm, name, request->payload.len);
    const struct id_tag *tag = id_table_find(service->table, name, request->payload.len);
    uint32_t state = tag != NULL ? atomic_load(&tag->state) : ID_TAG_ACTIVE;
    /* A tag known as exhausted may have been set back, or made again, a moment ago. A tag known as
     * strict is opened here only if the log said that it is not strict. Both need the leader's row,
     * as an unknown tag. */
    bool is_known =
        row != NULL && !row->deleted && (state == ID_TAG_ACTIVE || state == ID_TAG_UNKNOWN);
    struct open_request *open;

    ASSERT(request->kind == ID_REQUEST_OPEN);
    if (is_known && !request->fresh) {
        answers_put(service->context.on->answers, request,
                    open_row(service, row, driver_applied(service->context.on->driver)->index));
        return;
    }
    open = MUST_HAVE(calloc(1, sizeof *open));
    open->outer = request;
    open->service = service;
    open->query.kind = CLUSTER_REQUEST_QUERY;
    open->query.deadline_ms = request->deadline_ms;
    open->query.done = ids_queried_cb;
    query_get_encode(&open->query.payload, name, request->payload.len);
    service->context.on->submit(service->context.on, &open->query);
}

void id_service_submit(struct id_service *service, struct cluster_request *request)
{
    struct answers *answers = service->context.on->answers;

    if (service->context.on->stopping) {
        answers_put(answers, request, ERR_SHUTTING_DOWN);
        return;
    }
    if (request->kind == CLUSTER_REQUEST_QUERY && request->local) {
        answers_put(answers, request,
                    fsm_query(service->context.fsm, request->payload.data, request->payload.len,
                              &request->reply));
        return;
    }
    switch (request->kind) {
    case CLUSTER_REQUEST_COMMAND:
    case CLUSTER_REQUEST_QUERY:
    case CLUSTER_REQUEST_LEADER:
    case CLUSTER_REQUEST_MEMBER:
    case CLUSTER_REQUEST_BARRIER:
        service->context.on->submit(service->context.on, request);
        break;
    case ID_REQUEST_OPEN:
        open_tag(service, request);
        break;
    case ID_REQUEST_STRICT:
        strict_submit(service->strict, request);
        break;
    case ID_REQUEST_BACKUP:
        backups_submit(&service->backups, request);
        break;
    case ID_REQUEST_STATUS:
        health_status(&service->health, request->out);
        answers_put(answers, request, 0);
        break;
    case ID_REQUEST_BUFFERS:
        buffers_submit(&service->buffers, request);
        break;
    case ID_REQUEST_SEGMENTS:
        answers_put(answers, request,
                    buffers_look(&service->buffers, request->payload.data, request->payload.len,
                                 request->out)
                        ? 0
                        : ERR_BAD_MESSAGE);
        break;
    default:
        UNREACHABLE("kind of request");
    }
}

static void on_propose(struct id_proposer *proposer, struct cluster_request *request)
{
    id_service_submit(CONTAINER(proposer, struct id_service, context.proposer), request);
}

/*
 * --- the node's own proposals: that it holds no segment of a tag that leaves trend mode
 *
 * One command at a time. One that fails is repeated after a pause.
 */

static void on_recalled_done(struct node_command *command, int status)
{
    struct id_service *service = CONTAINER(command, struct id_service, recalls.command);

    if (status != 0) {
        service->recalls.after_len = 0;
        node_command_pause(command, service->context.on, RECALLED_AGAIN_MS);
    }
}

/* Report that this node holds nothing of all tags that wait for it, as many as a command takes. A
 * follower applies its report later than the leader: it goes through all tags once, and again after
 * a pause, until none waits. */
static void recalls_turn(struct id_service *service)
{
    const struct raft_context *on = service->context.on;
    const struct fsm *fsm = service->context.fsm;
    const struct leader_route *route = &service->replica->requests.route;
    struct recalls *recalls = &service->recalls;
    struct buf payload = BUF_INIT;
    const struct tag_row *row;
    unsigned count = 0;

    if (!recalls->look || !node_command_may(&recalls->command) || !leader_route_is_known(route)) {
        return;
    }
    row = fsm_recall_next(fsm, on->node_id, recalls->after, recalls->after_len);
    if (row == NULL) {
        recalls->look = recalls->after_len > 0;
        recalls->after_len = 0;
        node_command_pause(&recalls->command, on,
                           route->state == ROUTE_DIRECT ? RECALLED_AGAIN_MS : RECALLED_SLOWLY_MS);
        return;
    }
    command_put(&payload, COMMAND_RECALLED, NULL);
    for (; row != NULL && count < LIMIT_GRANTS_PER_ENTRY; count++) {
        struct recalled_item item = {row->name, row->name_len, row->generation};
        const struct id_tag *tag = id_table_find(service->table, row->name, row->name_len);

        /* The command is true now: the allocator knows the row. */
        ASSERT(tag == NULL || tag->refill.generation >= row->generation);
        ASSERT_IMPLIES(tag != NULL && tag->refill.generation == row->generation,
                       segment_left(&tag->buffer) == 0);
        command_item_put(&payload, COMMAND_RECALLED, &item);
        ASSERT(row->name_len <= sizeof recalls->after);
        recalls->after_len = row->name_len;
        memcpy(recalls->after, row->name, row->name_len);
        row = fsm_recall_next(fsm, on->node_id, recalls->after, recalls->after_len);
    }
    command_items_end(&payload);
    node_command_send(&recalls->command, on, &payload, false);
}

/* --- the layout of snowflake ids, by the leader of the first term --- */

static void layout_turn(struct id_service *service)
{
    const struct raft_context *on = service->context.on;
    const struct lease_config *lease = &service->config.lease;
    const struct snowflake_layout *setting = &lease->layout;
    struct layout *layout = &service->layout;
    struct buf payload = BUF_INIT;
    struct snowflake_layout known;

    if (layout->compared) {
        return;
    }
    if (fsm_layout(service->context.fsm, &known)) {
        layout->compared = true;
        layout->differs = lease->workers > 0 && !(snowflake_bits_equal(setting, &known) &&
                                                  setting->epoch_ms == known.epoch_ms);
        if (layout->differs) {
            log_warn("raft", "the layout of snowflake ids is not what the log knows, which holds",
                     "setting=%u+%u+%u log=%u+%u+%u epoch_ms=%llu log_epoch_ms=%llu hint=\"it is "
                     "fixed at the cluster's first start: correct snowflake.layout\"",
                     setting->time_bits, setting->worker_bits, setting->sequence_bits,
                     known.time_bits, known.worker_bits, known.sequence_bits,
                     ull(setting->epoch_ms), ull(known.epoch_ms));
        }
    } else if (lease->threshold_ms > 0 && node_command_may(&layout->command) &&
               driver_leads(on->driver)) { /* a threshold_ms of 0: this node proposes none */
        command_put(&payload, COMMAND_LAYOUT, setting);
        node_command_pause(&layout->command, on, LAYOUT_AGAIN_MS);
        node_command_send(&layout->command, on, &payload, false);
    }
}

/* --- events of the machine --- */

static void on_tag_changed(struct fsm_listener *listener, const struct tag_row *row,
                           const struct fsm_tag_before *before)
{
    struct id_service *service = CONTAINER(listener, struct id_service, listener);
    struct tag_row grown = *row;

    if (before->known && row->max_id != before->max_id) {
        grown.max_id = before->max_id;
        growth_note(&service->growth, &grown, id_tags_ms(&service->context));
    }
    if (before->recalling && !row->recalling && !row->deleted && row->mode != TAG_MODE_TREND) {
        change_log_opened(&service->change_log, row);
    }
    allocator_tag_changed(service->allocator, row);
    if (row->recalling) { /* it may wait for this node to report that it holds no segment */
        service->recalls.look = true;
        service->recalls.after_len = 0;
        timer_cancel(service->context.on->timers, &service->recalls.command.pause);
    }
}

static void on_worker_changed(struct fsm_listener *listener, const struct worker_row *row)
{
    lease_worker_changed(CONTAINER(listener, struct id_service, listener)->lease, row);
}

static void on_layout_changed(struct fsm_listener *listener, const struct snowflake_layout *layout)
{
    lease_layout(CONTAINER(listener, struct id_service, listener)->lease, layout);
}

static void on_named_layout_changed(struct fsm_listener *listener, const struct layout_row *row)
{
    snowflake_learn(&CONTAINER(listener, struct id_service, listener)->snowflake, row);
}

/* --- start --- */

static void on_lease_write(struct lease_disk *disk, unsigned k, const void *data, size_t len,
                           void (*done)(void *data), void *done_data)
{
    struct driver *driver = CONTAINER(disk, struct id_service, lease_disk)->context.on->driver;

    /* In order. A node that restarts without a leader knows only its rows: the record of a grant
     * that is not among them would be useless. */
    applier_write(&driver->applier, true);
    driver_write_local(driver, k, data, len, done, done_data);
}

/* --- the tags served lately, on the disk: fetched after a restart --- */

static void on_tags_write(void *data, unsigned number, const void *bytes, size_t len)
{
    struct id_service *service = data;

    ASSERT(number < LIMIT_LOCAL_LISTS);
    /* No request waits for it: a missing list only costs time. */
    driver_write_local(service->context.on->driver, LOCAL_LISTS_FIRST + number, bytes, len, NULL,
                       NULL);
}

static void on_tag_fetch(void *data, const char *name, size_t len)
{
    struct id_service *service = data;
    const struct tag_row *row = fsm_tag(service->context.fsm, name, len);
    struct id_tag *tag;

    if (row == NULL || row->deleted || row->mode != TAG_MODE_TREND) {
        return;
    }
    tag = allocator_open(service->allocator, row);
    if (tag == NULL || segment_left(&tag->buffer) > 0 ||
        atomic_exchange(&tag->refill_wanted, true)) {
        return;
    }
    allocator_want(service->allocator, tag);
}

/* Start the parts that hand out ids, except snowflake ids. */
static void start_allocation(struct id_service *service, const struct store_loaded *loaded)
{
    const struct id_service_config *config = &service->config;
    const struct raft_context *on = service->context.on;
    uint64_t seed = service->replica->config.driver.seed;
    struct id_proposer *proposer = &service->context.proposer;
    const struct prefetch_ops prefetch = {
        .write = on_tags_write, .fetch = on_tag_fetch, .data = service, .wakes = WAKE_PREFETCH};

    service->prefetch = prefetch_new(&config->prefetch, &prefetch, on->clock, on->timers);
    for (unsigned i = 0; i < LIMIT_LOCAL_LISTS; i++) {
        const struct buf *list = &loaded->locals[LOCAL_LISTS_FIRST + i];
        int rv = list->len > 0 ? prefetch_resume(service->prefetch, i, list->data, list->len) : 0;

        if (rv != 0) { /* costs a few first requests a round trip */
            log_warn("raft", "a list of recent tags cannot be read, and is ignored",
                     "number=%u code=%s", i, err_code(rv));
        }
    }
    service->table = id_table_new(seed);
    service->allocator = allocator_new(&config->allocator, service->table, service->prefetch,
                                       on->clock, on->timers, proposer);
    service->strict = strict_new(config->strict_keys, on->clock, on->timers, proposer, on->answers,
                                 service->allocator);
    service->windows = windows_new(service->context.fsm, on->clock, on->timers, proposer);
    service->taken = MUST_HAVE(calloc(1, sizeof *service->taken));
    service->dates = (struct dates){
        .context = &service->context, .on = on, .replica = service->replica, .zones = zones_new()};
    strict_dates(service->strict, dates_period, &service->dates);
}

/* Start the generator, the lease with its record on the disk, and the cluster's time. */
static int start_lease(struct id_service *service, const struct store_loaded *loaded)
{
    const struct lease_config *config = &service->config.lease;
    const struct clock *clock =
        service->context.on->real_clock; /* snowflake: used by other threads, too */
    struct snowflake_layout layout;
    const struct layout_row *named;
    const struct worker_row *row;
    uint32_t named_count;
    int rv = 0;

    ASSERT(config->workers <= LIMIT_WORKERS_PER_NODE);
    snowflake_init(&service->snowflake, clock);
    service->lease =
        lease_new(config, &service->snowflake, &service->replica->clock_sync.check, clock,
                  service->context.on->timers, &service->context.proposer, &service->lease_disk);
    for (unsigned k = 0; k < config->workers && rv == 0; k++) {
        if (loaded->locals[k].len > 0) {
            rv = lease_resume(service->lease, k, loaded->locals[k].data, loaded->locals[k].len);
        }
    }
    if (fsm_layout(service->context.fsm, &layout)) {
        lease_layout(service->lease, &layout);
    }
    named = fsm_layouts(service->context.fsm, &named_count);
    for (uint32_t i = 0; i < named_count; i++) {
        snowflake_learn(&service->snowflake, &named[i]);
    }
    for (size_t at = 0; (row = fsm_worker_at(service->context.fsm, at)) != NULL; at++) {
        lease_worker_changed(service->lease, row);
    }
    return rv;
}

#define ZONE_LOOKS 4 /* 4 s: a member reports its zone right after it has registered */

static bool zone_has_nobody(const struct raft_context *on, const char *zone)
{
    MEMBER_FOREACH (member, driver_configuration(on->driver)) {
        if (strcmp(state_placement(on->state, member->id).zone, zone) == 0) {
            return false;
        }
    }
    return true;
}

/* Log once, as the leader, that all members have registered and a zone that has a pool of worker
 * ids, or is to lead, has none of them. Again when the pools have changed, or where members are. */
static void log_empty_zones(struct id_service *service)
{
    const struct raft_context *on = service->context.on;
    const char *preferred = on->config->prefer_zone;
    uint64_t seen = service->zones_seen;
    char why[WORKER_POOLS_WHY_BYTES];
    char zone[2 * LIMIT_ZONE_BYTES];
    struct worker_pools pools = {0};
    BUF_LOCAL(query);
    BUF_LOCAL(text);

    service->zones_seen = 0;
    if (!driver_leads(on->driver)) {
        return;
    }
    query_pools_encode(&query);
    ASSERT(fsm_query(service->context.fsm, query.data, query.len, &text) == 0);
    ASSERT(text.len == 0 || worker_pools_read((const char *)text.data, text.len, &pools, why) == 0);
    service->zones_seen = hash_bytes(text.data, text.len, 0);
    MEMBER_FOREACH (member, driver_configuration(on->driver)) {
        const struct placement placement = state_placement(on->state, member->id);

        if (state_node(on->state, member->id) == NULL) {
            service->zones_seen = 0;
            return;
        }
        service->zones_seen =
            hash_bytes(placement.zone, strlen(placement.zone), service->zones_seen + member->id);
    }
    service->zone_looks = service->zones_seen == seen ? service->zone_looks + 1 : 1;
    if (service->zone_looks != ZONE_LOOKS) {
        return;
    }
    if (preferred != NULL && preferred[0] != '\0' && zone_has_nobody(on, preferred)) {
        log_warn("raft", "no node is in the zone that is to lead",
                 "prefer_zone=%s hint=\"is raft.prefer-zone spelt as zone on its nodes?\"",
                 preferred);
    }
    for (uint32_t i = 0; i < pools.count; i++) {
        if (zone_has_nobody(on, pools.items[i].zone)) {
            log_warn("snowflake", "a pool of worker ids is for a zone that no node is in",
                     "zone=%s worker_ids=%u-%u hint=\"is it spelt as zone on its nodes?\"",
                     log_quote(pools.items[i].zone, pools.items[i].zone_len, zone, sizeof zone),
                     pools.items[i].first, pools.items[i].last);
        }
    }
}

static void figures_due_cb(struct timer *timer, uint64_t now_ms)
{
    struct id_service *service = CONTAINER(timer, struct id_service, figures_due);

    timer_arm(service->context.on->timers, timer, now_ms + FIGURES_MS);
    health_measure(&service->health);
    log_empty_zones(service);
}

/* Start the parts that answer and show. */
static void start_views(struct id_service *service, const struct store_loaded *loaded)
{
    struct replica *replica = service->replica;
    struct id_context *context = &service->context;
    const struct health_sources of = {.replica = replica,
                                      .on = context->on,
                                      .context = context,
                                      .allocator = service->allocator,
                                      .strict = service->strict,
                                      .windows = service->windows,
                                      .lease = service->lease,
                                      .table = service->table,
                                      .layout_differs = &service->layout.differs,
                                      .backups = &service->backups,
                                      .dates = &service->dates};

    service->layout = (struct layout){.command.wakes = WAKE_LAYOUT};
    service->recalls = (struct recalls){.look = true, /* also after a restart */
                                        .command.on_done = on_recalled_done,
                                        .command.wakes = WAKE_RECALLS};
    service->buffers = (struct buffers){.on = context->on, .allocator = service->allocator};
    TAILQ_INIT(&service->buffers.waits);
    service->growth = (struct growth){.seed = replica->config.driver.seed};
    growth_reset(&service->growth, id_tags_ms(context));
    backups_init(&service->backups, context, &service->growth);
    service->health.of = of;
    service->health.start_last = loaded->first_index + loaded->entry_count - 1;
    service->health.held_look.wakes = WAKE_SEEN;
    atomic_store(&service->health.seen.clock_line_ms, ID_CLOCK_UNKNOWN);
    ASSERT(pthread_mutex_init(&service->health.figures.mutex, NULL) == 0);
    timer_init(&service->figures_due, figures_due_cb);
    context_arm_in(service->context.on, &service->figures_due, 0);
}

static int on_start(struct service *base, struct replica *replica,
                    const struct store_loaded *loaded)
{
    struct id_service *service = service_of(base);
    struct lease_config *lease = &service->config.lease;
    int rv;

    service->replica = replica;
    service->context.on = &replica->context;
    service->context.fsm = fsm_of(replica->state);
    lease->node_id = replica->context.node_id;
    lease->store_id = replica->config.info.store_id;
    lease->wakes = WAKE_SEEN;
    if (lease->address == NULL) {
        lease->address = replica->config.info.http_address;
    }
    lease->zone = replica->config.zone;
    start_allocation(service, loaded);
    rv = start_lease(service, loaded);
    if (rv != 0) {
        return rv;
    }
    start_views(service, loaded);
    fsm_listen(service->context.fsm, &service->listener);
    service->seen_refusal = lease->workers > 0 ? 0 : ERR_DISABLED;
    log_info("raft", "state loaded",
             "tags=%zu level=%u applied=%llu last=%llu term=%llu incarnation=%llu",
             fsm_tag_count(service->context.fsm), state_level(replica->state),
             ull(loaded->position.index), ull(service->health.start_last), ull(loaded->term),
             ull(loaded->incarnation));
    return 0;
}

/* --- turns --- */

/* Log once when snowflake ids are first refused, are refused for another reason, or are served
 * again; and who holds the worker id that the settings fix, or why this node may not have it. */
static void log_refusal(struct id_service *service)
{
    const struct lease_config *config = &service->config.lease;
    const struct id_health *health = &service->health.seen;
    int refusal = atomic_load_explicit(&health->snowflake_refusal, memory_order_relaxed);
    struct snowflake_layout layout = {0};
    char name[2 * LIMIT_WORKER_NAME_BYTES];
    struct lease_status status;
    BUF_LOCAL(query);
    BUF_LOCAL(pools);

    if (refusal == service->seen_refusal) {
        return;
    }
    service->seen_refusal = refusal;
    if (refusal == ERR_EMPTY || refusal == 0) {
        log_info("snowflake", refusal == 0 ? "ids are served" : "waiting for a worker id",
                 "workers=%u",
                 refusal == 0 ? atomic_load(&service->snowflake.slot_count) : config->workers);
        return;
    }
    log_warn("snowflake", "ids are refused", "code=%s clock_off_ms=%lld wait_until_ms=%llu",
             err_code(refusal), (long long)atomic_load(&health->clock_off_ms),
             ull(atomic_load(&health->clock_wait_until_ms)));
    lease_status(service->lease, &status);
    if (status.holder != NULL) {
        log_warn("snowflake", "snowflake.worker-id is another's, so ids are off until it is free",
                 "worker_id=%u holder=%s until_ms=%llu", config->fixed - 1,
                 log_quote(status.holder->name, status.holder->name_len, name, sizeof name),
                 ull(status.holder->granted_until_ms));
    } else if (status.denied == ERR_CONFLICT) {
        query_pools_encode(&query);
        ASSERT(fsm_query(service->context.fsm, query.data, query.len, &pools) == 0);
        log_warn("snowflake", "snowflake.worker-id is not of the pool of this node's zone",
                 "worker_id=%u zone=%s pools=%.*s", config->fixed - 1,
                 config->zone != NULL && config->zone[0] != '\0' ? config->zone : "none",
                 (int)pools.len, (const char *)pools.data);
    } else if (status.denied == ERR_INVALID && fsm_layout(service->context.fsm, &layout)) {
        log_warn("snowflake", "snowflake.worker-id is beyond the cluster's layout",
                 "worker_id=%u highest=%u", config->fixed - 1, (1u << layout.worker_bits) - 1);
    }
}

static void on_turn(struct service *base, uint32_t woken)
{
    struct id_service *service = service_of(base);
    const struct replica *replica = service->replica;
    const struct cuts *cuts = &replica->state->cuts;
    uint64_t memory_bytes = replica->config.memory_bytes;
    uint32_t key_limit = service->config.strict_keys;
    uint64_t key_share = (uint64_t)key_limit * service->config.key_percent / 100;
    struct fsm_usage usage;
    bool leader_known = leader_route_is_known(&replica->requests.route);

    if (announce_is_registered(&replica->announce)) {
        lease_zone(service->lease,
                   state_level(replica->state) >= command_since(COMMAND_WORKER_ACQUIRE_OF));
    }
    if (woken & WAKE_BACKUPS) {
        backups_turn(&service->backups);
    }
    if (woken & WAKE_RECALLS) {
        recalls_turn(service);
    }
    if (woken & WAKE_LAYOUT) {
        layout_turn(service);
    }
    if (woken & WAKE_LEASE) {
        lease_turn(service->lease);
    }
    if (woken & WAKE_PREFETCH) {
        prefetch_turn(service->prefetch, id_tags_ms(&service->context), leader_known);
    }
    if (woken & WAKE_STRICT) {
        dates_turn(&service->dates);
        /* The keys that the table may hold, by the settings, but no more than at present once the
         * memory of the state is used up; and how many of these one client. Each batch carries
         * both, so that apply need not know of memory. */
        fsm_usage(service->context.fsm, &usage);
        if (memory_bytes > 0 && state_memory(replica->state) >= memory_bytes &&
            usage.keys < key_limit) {
            key_limit = usage.keys > 0 ? (uint32_t)usage.keys : 1;
        }
        strict_limit_keys(service->strict, key_limit, key_share > 0 ? (uint32_t)key_share : 1);
        strict_turn(service->strict, leader_known);
    }
    health_update(&service->health);
    if (service->cut_changes != cuts->changes) {
        service->cut_changes = cuts->changes;
        id_cuts_put(&service->health.figures, &cuts->now);
        if (service->waker != NULL) {
            service->waker->wake(service->waker, NULL, 0);
        }
    }
    change_log_turn(&service->change_log);
    log_refusal(service);
}

static void on_woken(struct service *base)
{
    struct id_service *service = service_of(base);
    struct id_tag *tag = want_list_take(&service->wanted);

    if (atomic_load_explicit(&service->snowflake.wanted, memory_order_relaxed)) {
        context_wake(service->context.on, WAKE_LEASE);
    }
    while (tag != NULL) {
        struct id_tag *next = want_list_next(tag);

        allocator_want(service->allocator, tag);
        tag = next;
    }
}

/* --- events of the replica --- */

static bool on_receive(struct service *base, uint64_t from, enum frame_type type,
                       const uint8_t *payload, size_t len)
{
    return type == FRAME_BUFFERS && buffers_receive(&service_of(base)->buffers, from, payload, len);
}

static uint8_t on_serves(const struct service *base)
{
    const struct id_service *service = CONTAINER(base, struct id_service, base);
    const struct id_health *health = &service->health.seen;
    bool has_snowflake = atomic_load(&service->snowflake.refusal) != ERR_DISABLED &&
                         atomic_load(&health->snowflake_refusal) == 0;

    return (uint8_t)(WIRE_SERVES_KNOWN | (id_health_lacks(health) == 0 ? WIRE_SERVES_READY : 0) |
                     (has_snowflake ? WIRE_SERVES_SNOWFLAKE : 0));
}

static void on_event(struct service *base, enum service_event event, uint64_t number)
{
    struct id_service *service = service_of(base);

    switch (event) {
    case SERVICE_STARTED:
        change_log_begin(&service->change_log, service->replica, service->lease,
                         &service->snowflake);
        atomic_store(&service->health.seen.started, true);
        break;
    case SERVICE_LINK:
        buffers_link_changed(&service->buffers, number);
        break;
    case SERVICE_INSTALLED:
        growth_reset(&service->growth, id_tags_ms(&service->context));
        log_info("raft", "snapshot installed", "index=%llu tags=%zu", ull(number),
                 fsm_tag_count(service->context.fsm));
        break;
    case SERVICE_RESET:
        windows_forget(service->windows); /* R7 */
        break;
    case SERVICE_DRAINS:
        atomic_store(&service->health.seen.stopping, true);
        break;
    case SERVICE_TRANSFER_ENDED:
        windows_open(service->windows);
        break;
    }
}

/* --- requests, on the leader --- */

static int on_query(struct service *base, const void *data, size_t len, struct buf *reply)
{
    return fsm_query(service_of(base)->context.fsm, data, len, reply);
}

/* False: commands that only a leader proposes itself. */
static bool on_accepts(const struct service *base, enum cluster_request_kind kind, const void *data,
                       size_t len)
{
    struct command_list batch;
    int type = command_number(data, len);

    (void)base;
    return kind == CLUSTER_REQUEST_LEADER
               ? windows_read(data, len, &batch) == 0
               : type != COMMAND_LAYOUT && type != COMMAND_WINDOW && type != COMMAND_KEYED;
}

/* Refuse puts that a leader does not propose, but apply would carry out. True: the result is as if
 * apply had refused. Of a name with invisible characters: an existing tag stays usable; the name of
 * a deleted tag counts as new. */
static bool refuse_puts(const struct fsm *fsm, struct command_list list,
                        struct put_result *ret_refused)
{
    char known[SHAPE_ZONE_BYTES_MAX + 1] = "";
    char place[LOOKS_WHY_BYTES];
    struct tag_put put;
    bool refused = false;

    *ret_refused = (struct put_result){.status = ERR_INVALID};
    while (!refused && command_next(&list, &put)) {
        if (looks_hidden(put.name, put.name_len, place)) {
            const struct tag_row *row = fsm_tag(fsm, put.name, put.name_len);

            (void)snprintf(ret_refused->why, sizeof ret_refused->why, "name: %s", place);
            refused = row == NULL || row->deleted;
        }
        refused =
            refused || dates_refuse(fsm, &put, known, ret_refused->why, sizeof ret_refused->why);
        ret_refused->failed_at += !refused;
    }
    return refused;
}

/* Would apply carry out a command that must not be in the log: names with invisible characters,
 * time zones that this system lacks? */
static enum service_admission ids_admit_cb(struct service *base, const void *data, size_t len,
                                           uint64_t *ret_adds_bytes, struct buf *reply)
{
    const struct id_context *context = &service_of(base)->context;
    int type = command_type(data, len);
    bool is_put = command_puts_tags(type);
    char place[LOOKS_WHY_BYTES];
    struct command command;
    struct put_result puts;

    *ret_adds_bytes = 0;
    if ((!is_put && !command_acquires(type)) || command_read(data, len, &command) != 0) {
        return SERVICE_ADMITS;
    }
    if (is_put && refuse_puts(context->fsm, command.list, &puts)) {
        put_result_encode(&puts, reply);
        return SERVICE_ANSWERS;
    }
    if (!is_put) { /* of a client's new name of a worker id, the same */
        const struct worker_acquire *acquire = &command.acquire;
        const struct worker_row *row;
        bool refused =
            acquire->kind == WORKER_CLIENT && looks_hidden(acquire->name, acquire->name_len, place);

        for (size_t at = 0; refused && (row = fsm_worker_at(context->fsm, at)) != NULL; at++) {
            refused =
                tag_name_compare(row->name, row->name_len, acquire->name, acquire->name_len) != 0;
        }
        if (refused) {
            worker_result_encode(&(struct worker_result){.status = ERR_INVALID}, reply);
            return SERVICE_ANSWERS;
        }
    }
    if (is_put && context->on->config->memory_bytes > 0) {
        *ret_adds_bytes = fsm_adds(context->fsm, command.list);
    }
    return SERVICE_ADMITS;
}

/* The happy path of a batch of monotonic ids: it is confirmed, takes ids (window.h), and is
 * answered. If the windows are too short, it waits until an entry of this leader has extended them.
 * If it has keys, it is answered once an entry of this leader has bound the ids to the keys
 * (docs/monotonic.md, R3, R9). */
static enum service_lead on_lead(struct service *base, struct service_lead_ask *ask)
{
    struct id_service *service = service_of(base);
    struct window_taken *taken = service->taken;
    const struct window_terms terms = {.round = ask->round_term, .now = ask->term};
    struct command_list batch;

    ask->status = windows_read(ask->payload->data, ask->payload->len, &batch);
    if (ask->status == 0) {
        ask->status = windows_take(service->windows, terms, batch, taken);
    }
    if (ask->status == ERR_STALE) {
        return SERVICE_STALE;
    }
    if (ask->status == ERR_EMPTY) {
        return SERVICE_WAITS;
    }
    if (ask->status != 0) {
        return SERVICE_LED;
    }
    results_encode(RESULT_STRICT, taken->results, taken->count, ask->reply);
    if (taken->keyed == 0) {
        return SERVICE_LED;
    }
    windows_keyed(&batch, taken, ask->term, ask->entry); /* R9 */
    return SERVICE_APPENDS;
}

/* R9: the ids of reply were bound to their keys, or not, by the result of apply. */
static int on_led(struct service *base, const struct buf *payload, const void *result, size_t len,
                  struct buf *reply)
{
    struct strict_result *results = service_of(base)->taken->results;
    struct strict_result said[LIMIT_STRICT_ITEMS];
    struct command_list batch;
    struct strict_item item;
    size_t count = 0;
    size_t said_count = 0;
    size_t at = 0;

    if (windows_read(payload->data, payload->len, &batch) != 0 ||
        results_decode(RESULT_STRICT, reply->data, reply->len, results, LIMIT_STRICT_ITEMS,
                       &count) != 0 ||
        results_decode(RESULT_STRICT, result, len, said, LIMIT_STRICT_ITEMS, &said_count) != 0) {
        return ERR_BAD_MESSAGE;
    }
    for (size_t i = 0; i < count && command_next(&batch, &item); i++) {
        if (window_item_is_keyed(&item, &results[i]) && at < said_count) {
            results[i] = said[at++];
        }
    }
    reply->len = 0;
    results_encode(RESULT_STRICT, results, count, reply);
    return 0;
}

static void on_marks(struct service *base, const void *data, size_t len, struct buf *marks)
{
    fsm_tag_marks(service_of(base)->context.fsm, data, len, marks);
}

static int on_take_marks(struct service *base, const void *data, size_t len, const void *marks,
                         size_t marks_len)
{
    return allocator_take_marks(service_of(base)->allocator, data, len, marks, marks_len);
}

/* --- the end --- */

/* R10: the windows' ids left are given back before another leader reserves ids after them.
 * Meanwhile nothing is taken from the windows, and everything else continues. */
static bool on_may_transfer(struct service *base)
{
    struct id_service *service = service_of(base);
    struct windows *windows = service->windows;
    uint64_t now_ms = context_now_ms(service->context.on);

    if (!driver_leads(service->context.on->driver)) {
        return true;
    }
    if (!windows_are_closed(windows)) {
        service->windows_until_ms = now_ms + service->replica->config.driver.election_ms;
        windows_close(windows, service->windows_until_ms);
    }
    return windows_given_back(windows) || now_ms >= service->windows_until_ms;
}

static const struct tag_row *on_row_of(void *data, const char *name, size_t len)
{
    return fsm_tag(data, name, len);
}

static void on_give_back(struct service *base, uint64_t deadline_ms)
{
    struct id_service *service = service_of(base);

    /* Called while it still shows which ids were used, and are left. */
    prefetch_save(service->prefetch, id_tags_ms(&service->context));
    allocator_give_back(service->allocator, deadline_ms, on_row_of, service->context.fsm);
    if (driver_leads(service->context.on->driver)) {
        windows_close(service->windows, deadline_ms);
    }
}

static bool on_gave_back(const struct service *base)
{
    const struct id_service *service = service_of(base);

    return allocator_given_back(service->allocator) && windows_given_back(service->windows);
}

static void on_stop(struct service *base)
{
    struct id_service *service = service_of(base);
    const struct allocator_counts *counts = allocator_counts(service->allocator);

    log_info("raft", "segments given back", "ids=%llu burnt=%llu", ull(counts->returned),
             ull(counts->burnt[ID_BURN_STOP]));
    lease_stop(service->lease);
    strict_stop(service->strict);
    buffers_stop(&service->buffers);
    backups_stop(&service->backups);
}

static void on_close(struct service *base)
{
    struct id_service *service = service_of(base);

    growth_free(&service->growth);
    strict_free(service->strict);
    windows_free(service->windows);
    free(service->taken);
    zones_free(service->dates.zones);
    prefetch_free(service->prefetch);
    allocator_free(service->allocator);
    lease_free(service->lease);
}

static void on_release(struct service *base)
{
    struct id_service *service = service_of(base);

    ASSERT(pthread_mutex_destroy(&service->health.figures.mutex) == 0);
    snowflake_release(&service->snowflake);
    id_table_free(service->table);
}

void id_service_init(struct id_service *service, const struct id_service_config *config)
{
    static const struct service_ops ops = {
        .start = on_start,
        .stop = on_stop,
        .close = on_close,
        .release = on_release,
        .turn = on_turn,
        .woken = on_woken,
        .receive = on_receive,
        .event = on_event,
        .serves = on_serves,
        .query = on_query,
        .accepts = on_accepts,
        .admit = ids_admit_cb,
        .lead = on_lead,
        .led = on_led,
        .marks = on_marks,
        .take_marks = on_take_marks,
        .may_transfer = on_may_transfer,
        .give_back = on_give_back,
        .gave_back = on_gave_back,
    };
    const struct fields fields = FIELDS(snowflake_layout_fields);

    BUF_LOCAL(agreed);

    *service = (struct id_service){.config = *config};
    fields_put(&agreed, &fields, &config->lease.layout);
    ASSERT(agreed.len <= sizeof service->agreed);
    memcpy(service->agreed, agreed.data, agreed.len);
    service->base = (struct service){.ops = &ops,
                                     .machine = &fsm_machine,
                                     .stall = &service->health.seen.stall,
                                     .agreed = service->agreed,
                                     .agreed_len = agreed.len};
    service->context.proposer.propose = on_propose;
    service->lease_disk.write = on_lease_write;
    service->listener = (struct fsm_listener){.tag_changed = on_tag_changed,
                                              .worker_changed = on_worker_changed,
                                              .layout_changed = on_layout_changed,
                                              .named_layout_changed = on_named_layout_changed};
}
