/* A source of snowflake ids (docs/clients.md, Snowflake ids): a worker id, and the thread that
 * renews it.
 *
 * The happy path: next() stamps by the lease that *lease points to. Failure modes: without one
 * a worker id is asked for, by the call that needs it; ids go on while renewals fail, up to the
 * window's end. In a child of fork there is no lease: the pointer lies in memory that a fork wipes.
 *
 * A lease that was lost is kept until the source is freed, since others may be about to stamp by
 * it: within its window they may. */
#include "client.h"

#include "fault.h"
#include "stamp.h"
#include "text.h"
#include "wipe.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TIME_END_MS ((int64_t)1 << 46) /* leafd grants no window up to there */

/* A lease, and those that were before it. */
struct held {
    struct lease lease;
    struct held *before;
};

struct leafd_snowflake {
    struct source source;
    _Atomic(struct lease *) *lease; /* in memory that a fork wipes */
    pthread_mutex_t lock;
    pthread_cond_t changed; /* acquired, renewed, lost, or the end */
    struct held *held;      /* the newest first */
    bool acquiring;
    bool renewing; /* there is the thread */
    pthread_t thread;
    uint64_t renew_ns; /* when */
    bool known;        /* the layout is */
    struct layout layout;
    bool own_name; /* made by the library */
    char name[TEXT_NAME_BYTES + 1];
    bool fenced; /* and nobody was told yet */
    atomic_bool told_back;
    char failures[900];
};

/* --- what the server grants --- */

struct grant {
    int64_t worker_id, epoch, from_ms, until_ms;
    bool has_layout;
    struct layout layout;
};

/* A whole number from 0 on; false: it is not there. */
static bool read_number(json_t *object, const char *name, int64_t *number)
{
    json_t *value = json_object_get(object, name);
    *number = json_integer_value(value);
    return json_is_integer(value) && *number >= 0;
}

static bool read_layout(json_t *json, struct grant *grant)
{
    int64_t time_bits, worker_bits, sequence_bits;
    grant->has_layout = !json_is_null(json);
    if (!grant->has_layout) {
        return true;
    }
    if (!read_number(json, "epoch_ms", &grant->layout.epoch_ms) ||
        !read_number(json, "time_bits", &time_bits) ||
        !read_number(json, "worker_bits", &worker_bits) ||
        !read_number(json, "sequence_bits", &sequence_bits) || time_bits > 63 || worker_bits > 63 ||
        sequence_bits > 63) {
        return false;
    }
    grant->layout.time_bits = (unsigned)time_bits;
    grant->layout.worker_bits = (unsigned)worker_bits;
    grant->layout.sequence_bits = (unsigned)sequence_bits;
    return layout_is_right(&grant->layout) && grant->worker_id >> worker_bits == 0;
}

static int read_grant(const struct answer *answer, struct grant *grant, struct leafd_error *error)
{
    json_t *json = json_loadb(answer->body, answer->body_bytes, 0, NULL);
    json_t *layout = json_object_get(json, "layout");
    bool good = read_number(json, "worker_id", &grant->worker_id) &&
                read_number(json, "epoch", &grant->epoch) &&
                read_number(json, "from_ms", &grant->from_ms) &&
                read_number(json, "until_ms", &grant->until_ms) && layout != NULL &&
                grant->epoch > 0 && grant->until_ms < TIME_END_MS &&
                grant->from_ms < grant->until_ms && read_layout(layout, grant);
    json_decref(json);
    if (!good) {
        return fault(error, "bad_answer", answer->status, false, "no grant of a worker id: %.200s",
                     answer->body);
    }
    return 0;
}

/* --- requests --- */

static int ask(struct leafd_snowflake *snowflake, struct call *call, struct grant *grant,
               struct leafd_error *error)
{
    struct leafd *client = snowflake->source.client;
    call->client = client;
    call->door = &client->admin;
    struct line *line;
    struct answer answer;
    if (client_call(call, &line, &answer, error) != 0) {
        return -1;
    }
    int result = grant != NULL ? read_grant(&answer, grant, error) : 0;
    line_put(line);
    return result;
}

static char *acquire_body(const struct leafd_snowflake *snowflake)
{
    char host[64] = "";
    (void)gethostname(host, sizeof host - 1);
    json_t *json = json_pack("{s:s, s:s, s:I}", "name", snowflake->name, "address",
                             text_is_name(host) ? host : "", "window_ms",
                             (json_int_t)snowflake->source.client->settings.window_ms);
    char *text = json != NULL ? json_dumps(json, JSON_COMPACT) : NULL;
    json_decref(json);
    return text;
}

static void release(struct leafd_snowflake *snowflake, int64_t worker_id, int64_t epoch,
                    int64_t last_ms, bool after_close)
{
    char path[160];
    int used = snprintf(path, sizeof path, "/api/workers/%lld?epoch=%lld", (long long)worker_id,
                        (long long)epoch);
    if (last_ms > 0) {
        (void)snprintf(path + used, sizeof path - (size_t)used, "&last_timestamp_ms=%lld",
                       (long long)last_ms);
    }
    const struct settings *settings = &snowflake->source.client->settings;
    struct call call = {
        .request = {.method = "DELETE", .path = path},
        .until_ns = now_ns() + settings->attempt_ms * NS_PER_MS,
        .after_close = after_close,
    };
    (void)ask(snowflake, &call, NULL, NULL);
}

/* The layout that the node which granted the worker id did not tell: the others are asked by
 * renewals, whose answers have it too. A second acquire would begin behind the first window. */
static int ask_layout(struct leafd_snowflake *snowflake, uint64_t until_ns, struct grant *grant,
                      struct leafd_error *error)
{
    struct leafd *client = snowflake->source.client;
    char path[64];
    char body[96];
    struct call call = {
        .request = {.method = "PUT", .path = path, .body = body},
        .until_ns = until_ns,
    };
    int result = 0;
    (void)snprintf(path, sizeof path, "/api/workers/%lld", (long long)grant->worker_id);
    (void)snprintf(body, sizeof body, "{\"epoch\":%lld,\"window_ms\":%lld}",
                   (long long)grant->epoch, (long long)client->settings.window_ms);
    unsigned at;
    struct nodes *nodes = door_nodes(&client->admin, false, 0, &at);
    for (unsigned i = 1; result == 0 && !grant->has_layout && i < nodes->count; i++) {
        unsigned from = at;
        at = (at + 1) % nodes->count;
        client_leave_node(client, &client->admin, nodes, from, at);
        result = ask(snowflake, &call, grant, error);
    }
    nodes_put(&client->admin, nodes);
    return result;
}

static int acquire(struct leafd_snowflake *snowflake, uint64_t until_ns, struct grant *grant,
                   struct leafd_error *error)
{
    char *body = acquire_body(snowflake);
    if (body == NULL) {
        return fault(error, "no_memory", 0, true, "there is no memory for a request");
    }
    struct call call = {
        .request = {.method = "POST", .path = "/api/workers", .body = body},
        .until_ns = until_ns,
    };
    int result = ask(snowflake, &call, grant, error);
    free(body);
    if (result == 0) {
        result = ask_layout(snowflake, until_ns, grant, error);
    }
    if (result == 0 && !grant->has_layout) {
        release(snowflake, grant->worker_id, grant->epoch, grant->from_ms, false);
        return fault(error, "layout_unknown", 0, true,
                     "no node knows the layout of the cluster's ids");
    }
    return result;
}

/* --- the lease --- */

static void make_name(struct leafd_snowflake *snowflake)
{
    static const char digits[] = "0123456789abcdef";
    char host[64] = "";
    char key[TEXT_OWN_KEY_CHARS + 1];
    char bytes[17] = {0};
    (void)gethostname(host, sizeof host - 1);
    text_make_key(key);
    for (size_t i = 0; i < 16; i++) {
        /* Five random bits each, of which four are shown. */
        bytes[i] = digits[key[i] & 15];
    }
    (void)snprintf(snowflake->name, sizeof snowflake->name, "%s/%ld/%s",
                   text_is_name(host) ? host : "host", (long)getpid(), bytes);
}

static void *keep(void *context);

/* With the lock. */
static int hold(struct leafd_snowflake *snowflake, const struct grant *grant,
                struct leafd_error *error)
{
    struct held *held = aligned_alloc(64, sizeof *held);
    if (held == NULL) {
        return fault(error, "no_memory", 0, true, "there is no memory for a worker id");
    }
    struct lease *lease = &held->lease;
    lease_init(lease, &grant->layout, grant->from_ms, grant->until_ms,
               now_ns() * 0x9e3779b97f4a7c15u);
    lease->worker_id = (uint32_t)grant->worker_id;
    lease->epoch = grant->epoch;
    snowflake->known = true;
    snowflake->layout = grant->layout;
    snowflake->renew_ns = now_ns() + snowflake->source.client->settings.window_ms * NS_PER_MS / 3;
    if (!snowflake->renewing) {
        snowflake->renewing = client_start_thread(&snowflake->thread, keep, snowflake);
    }
    held->before = snowflake->held;
    snowflake->held = held;
    atomic_store_explicit(snowflake->lease, lease, memory_order_release);
    return 0;
}

/* It is another's now, or nobody's. With the lock. */
static void drop(struct leafd_snowflake *snowflake)
{
    atomic_store(snowflake->lease, NULL);
    if (snowflake->own_name) {
        make_name(snowflake);
    } else {
        snowflake->fenced = true;
    }
}

/* Make sure that there is a lease. */
static int find_lease(struct leafd_snowflake *snowflake, uint64_t until_ns,
                      struct leafd_error *error)
{
    struct leafd *client = snowflake->source.client;
    if (source_enter(&snowflake->source, error) != 0) {
        return -1;
    }
    struct grant grant;
    bool late = false;
    pthread_mutex_lock(&snowflake->lock);
    COUNT(client, waits);
    while (snowflake->acquiring && now_ns() < until_ns) {
        condition_wait_news(&snowflake->changed, &snowflake->lock, until_ns);
    }
    int result = 0;
    if (atomic_load(snowflake->lease) != NULL) {
        /* Another call has got it. */
    } else if (snowflake->acquiring) {
        result = fault(error, "unreachable", 0, true, "no worker id was granted by the deadline");
    } else if (snowflake->fenced) {
        snowflake->fenced = false;
        result = fault(error, "fenced", 409, true,
                       "another client holds the worker id of %s now; the next call acquires one",
                       snowflake->name);
    } else {
        snowflake->acquiring = true;
        pthread_mutex_unlock(&snowflake->lock);
        result = acquire(snowflake, until_ns, &grant, error);
        pthread_mutex_lock(&snowflake->lock);
        snowflake->acquiring = false;
        late = result == 0 && atomic_load(&snowflake->source.closed);
        if (result == 0 && !late) {
            result = hold(snowflake, &grant, error);
        }
        pthread_cond_broadcast(&snowflake->changed);
    }
    pthread_mutex_unlock(&snowflake->lock);
    if (late) {
        /* The source was closed meanwhile: nothing was stamped. */
        release(snowflake, grant.worker_id, grant.epoch, grant.from_ms, true);
        return fault(error, "closed", 0, false, "the client, or this source, was closed");
    }
    return result;
}

/* --- renewing --- */

/* One renewal; 0, or -1 where it failed. */
static int renew(struct leafd_snowflake *snowflake, struct lease *lease, struct leafd_error *error)
{
    struct leafd *client = snowflake->source.client;
    char path[64], body[160], last[64] = "";
    int64_t last_ms = lease_last_ms(lease);
    if (last_ms > 0) {
        (void)snprintf(last, sizeof last, ",\"last_timestamp_ms\":%lld", (long long)last_ms);
    }
    (void)snprintf(path, sizeof path, "/api/workers/%u", lease->worker_id);
    (void)snprintf(body, sizeof body, "{\"epoch\":%lld,\"window_ms\":%llu%s}",
                   (long long)lease->epoch, (unsigned long long)client->settings.window_ms, last);
    struct call call = {
        .request = {.method = "PUT", .path = path, .body = body},
        .until_ns = now_ns() + client->settings.deadline_ms * NS_PER_MS,
    };
    struct grant grant;
    if (ask(snowflake, &call, &grant, error) != 0) {
        return -1;
    }
    if (grant.worker_id != lease->worker_id || grant.epoch != lease->epoch) {
        return fault(error, "bad_answer", 200, false, "another worker id was renewed");
    }
    COUNT(client, renewals);
    if (grant.until_ms > atomic_load(&lease->until_ms)) {
        atomic_store(&lease->until_ms, grant.until_ms);
    }
    return 0;
}

/* What a renewal has led to; true: the worker id is lost. With the lock. */
static bool after_renewal(struct leafd_snowflake *snowflake, int result,
                          const struct leafd_error *error)
{
    uint64_t third_ns = snowflake->source.client->settings.window_ms * NS_PER_MS / 3;
    bool lost = false;
    snowflake->failures[0] = 0;
    snowflake->renew_ns = now_ns() + third_ns;
    if (result != 0) {
        (void)snprintf(snowflake->failures, sizeof snowflake->failures, "%.40s: %.800s",
                       error->code, error->message);
        lost = strcmp(error->code, "fenced") == 0 || strcmp(error->code, "unknown_worker") == 0;
        if (lost) {
            drop(snowflake);
        } else if (fault_is_late(error)) {
            snowflake->renew_ns = 0; /* its rounds have waited */
        }
    }
    pthread_cond_broadcast(&snowflake->changed);
    return lost;
}

/* The thread of a source: it renews when it is time. */
static void *keep(void *context)
{
    struct leafd_snowflake *snowflake = context;
    pthread_mutex_lock(&snowflake->lock);
    while (!atomic_load(&snowflake->source.closed)) {
        struct lease *lease = atomic_load(snowflake->lease);
        if (lease == NULL || now_ns() < snowflake->renew_ns) {
            uint64_t until_ns = lease != NULL ? snowflake->renew_ns : UINT64_MAX;
            (void)condition_wait(&snowflake->changed, &snowflake->lock, until_ns);
            continue;
        }
        pthread_mutex_unlock(&snowflake->lock);
        struct leafd_error error;
        int result = renew(snowflake, lease, &error);
        char name[SOURCE_NAME_BYTES];
        pthread_mutex_lock(&snowflake->lock);
        memcpy(name, snowflake->name, sizeof name);
        if (!atomic_load(&snowflake->source.closed) && after_renewal(snowflake, result, &error)) {
            pthread_mutex_unlock(&snowflake->lock);
            client_event(snowflake->source.client,
                         (struct leafd_event){.kind = "fenced", .name = name});
            pthread_mutex_lock(&snowflake->lock);
        }
    }
    pthread_mutex_unlock(&snowflake->lock);
    return NULL;
}

/* --- ids --- */

static int window_over(struct leafd_snowflake *snowflake, struct lease *lease,
                       struct leafd_error *error)
{
    pthread_mutex_lock(&snowflake->lock);
    const char *why = snowflake->failures[0] != 0 ? snowflake->failures : "none";
    (void)fault(error, "window_over", 0, true,
                "the clock says %lld, the last id has %lld, and times up to %lld are granted; "
                "failures of the renewal: %s",
                (long long)wall_ms(), (long long)lease_last_ms(lease),
                (long long)atomic_load(&lease->until_ms), why);
    pthread_mutex_unlock(&snowflake->lock);
    return -1;
}

/* Nothing can be stamped now: wait a little, for the clock or for a renewal. */
static int wait_a_little(struct leafd_snowflake *snowflake, struct lease *lease, enum stamp why,
                         uint64_t until_ns, struct leafd_error *error)
{
    uint64_t now = now_ns();
    if (now >= until_ns) {
        return window_over(snowflake, lease, error);
    }
    uint64_t pause_ns = why == STAMP_WAIT ? NS_PER_MS / 4 : NS_PER_MS;
    uint64_t wake_ns = now + pause_ns < until_ns ? now + pause_ns : until_ns;
    pthread_mutex_lock(&snowflake->lock);
    if (!atomic_load(&snowflake->source.closed)) {
        (void)condition_wait(&snowflake->changed, &snowflake->lock, wake_ns);
    }
    pthread_mutex_unlock(&snowflake->lock);
    return 0;
}

/* That the clock is behind by more than is waited for is reported once, until it is not. */
static void tell_clock(struct leafd_snowflake *snowflake, const struct lease *lease)
{
    int64_t back_ms = lease_last_ms(lease) - wall_ms();
    bool back = back_ms > STAMP_BACK_MS;
    if (atomic_exchange(&snowflake->told_back, back) == back || !back) {
        return;
    }
    char name[SOURCE_NAME_BYTES];
    pthread_mutex_lock(&snowflake->lock);
    memcpy(name, snowflake->name, sizeof name);
    pthread_mutex_unlock(&snowflake->lock);
    client_event(snowflake->source.client,
                 (struct leafd_event){.kind = "clock_back", .name = name, .ms = back_ms});
}

/* The clock, which up to 5 ms behind the last time is waited for. */
static int64_t read_clock(struct leafd_snowflake *snowflake, struct lease *lease, bool *waited)
{
    int64_t last_ms = lease_last_ms(lease);
    int64_t now_ms = wall_ms();
    while (now_ms < last_ms && now_ms >= last_ms - STAMP_BACK_MS) {
        *waited = true;
        pthread_mutex_lock(&snowflake->lock);
        (void)condition_wait(&snowflake->changed, &snowflake->lock, now_ns() + NS_PER_MS / 4);
        pthread_mutex_unlock(&snowflake->lock);
        last_ms = lease_last_ms(lease);
        now_ms = wall_ms();
    }
    return now_ms;
}

/* By the slow way: *id, or -1. */
static int stamp_by(struct leafd_snowflake *snowflake, uint64_t until_ns, int64_t *id,
                    struct leafd_error *error)
{
    struct leafd *client = snowflake->source.client;
    bool waited = false;
    for (;;) {
        struct lease *lease = atomic_load(snowflake->lease);
        if (lease == NULL) {
            if (find_lease(snowflake, until_ns, error) != 0) {
                return -1;
            }
            continue;
        }
        if (source_enter(&snowflake->source, error) != 0) {
            return -1;
        }
        tell_clock(snowflake, lease);
        enum stamp how = lease_stamp(lease, read_clock(snowflake, lease, &waited), id);
        if (how == STAMPED) {
            if (waited) {
                COUNT(client, clock_waits);
            }
            return 0;
        }
        waited = waited || how == STAMP_WAIT;
        if (wait_a_little(snowflake, lease, how, until_ns, error) != 0) {
            COUNT(client, clock_waits);
            return -1;
        }
    }
}

int64_t leafd_snowflake_next_within(struct leafd_snowflake *snowflake, uint32_t deadline_ms,
                                    struct leafd_error *error)
{
    struct leafd *client = snowflake->source.client;
    int64_t id;
    struct lease *lease = atomic_load_explicit(snowflake->lease, memory_order_acquire);
    if (lease != NULL) {
        int64_t last_ms = lease_last_ms(lease);
        int64_t now_ms = wall_ms();
        bool back = now_ms < last_ms && now_ms >= last_ms - STAMP_BACK_MS;
        if (!back && lease_stamp(lease, now_ms, &id) == STAMPED) {
            COUNT(client, ids_snowflake);
            return id;
        }
    }
    if (stamp_by(snowflake, client_until_ns(client, deadline_ms), &id, error) != 0) {
        COUNT(client, errors);
        return -1;
    }
    COUNT(client, ids_snowflake);
    return id;
}

int64_t leafd_snowflake_next(struct leafd_snowflake *snowflake, struct leafd_error *error)
{
    return leafd_snowflake_next_within(snowflake, 0, error);
}

/* The cluster's layout; one that is not known yet comes with a worker id. 0 or -1. */
static int find_layout(struct leafd_snowflake *snowflake, struct layout *layout,
                       struct leafd_error *error)
{
    struct leafd *client = snowflake->source.client;
    for (;;) {
        pthread_mutex_lock(&snowflake->lock);
        bool known = snowflake->known;
        *layout = snowflake->layout;
        pthread_mutex_unlock(&snowflake->lock);
        if (known) {
            return 0;
        }
        if (find_lease(snowflake, client_until_ns(client, 0), error) != 0) {
            COUNT(client, errors);
            return -1;
        }
    }
}

int leafd_snowflake_decode(struct leafd_snowflake *snowflake, int64_t id, struct leafd_parts *parts,
                           struct leafd_error *error)
{
    struct layout layout;
    if (source_enter(&snowflake->source, error) != 0) {
        return -1;
    }
    if (id < 0) {
        return fault(error, "bad_setting", 0, false, "id=%lld must be 0 or more", (long long)id);
    }
    if (find_layout(snowflake, &layout, error) != 0) {
        return -1;
    }
    *parts = layout_decode(&layout, id);
    return 0;
}

int64_t leafd_snowflake_at(struct leafd_snowflake *snowflake, int64_t time_ms,
                           struct leafd_error *error)
{
    struct layout layout;
    if (source_enter(&snowflake->source, error) != 0 ||
        find_layout(snowflake, &layout, error) != 0) {
        return -1;
    }
    if (time_ms < layout.epoch_ms || time_ms > layout_last_ms(&layout)) {
        return fault(error, "bad_setting", 0, false, "time_ms=%lld must be from %lld to %lld",
                     (long long)time_ms, (long long)layout.epoch_ms,
                     (long long)layout_last_ms(&layout));
    }
    return layout_at(&layout, time_ms);
}

/* --- as a source of the client --- */

static void forget(void *source)
{
    struct leafd_snowflake *snowflake = source;
    pthread_mutex_init(&snowflake->lock, NULL);
    condition_init(&snowflake->changed);
    snowflake->acquiring = snowflake->renewing = snowflake->fenced = false;
    snowflake->failures[0] = 0;
    if (snowflake->own_name) {
        make_name(snowflake);
    }
}

static void stop(void *source)
{
    struct leafd_snowflake *snowflake = source;
    pthread_mutex_lock(&snowflake->lock);
    pthread_cond_broadcast(&snowflake->changed);
    pthread_mutex_unlock(&snowflake->lock);
}

static void finish(void *source)
{
    struct leafd_snowflake *snowflake = source;
    pthread_mutex_lock(&snowflake->lock);
    bool renewing = snowflake->renewing;
    snowflake->renewing = false;
    pthread_mutex_unlock(&snowflake->lock);
    if (renewing) {
        pthread_join(snowflake->thread, NULL);
    }
    struct lease *lease = atomic_exchange(snowflake->lease, NULL);
    if (lease == NULL) {
        return;
    }
    int64_t last_ms = lease_end(lease);
    release(snowflake, lease->worker_id, lease->epoch, last_ms > 0 ? last_ms : lease->from_ms,
            true);
}

static void free_snowflake(void *source)
{
    struct leafd_snowflake *snowflake = source;
    while (snowflake->held != NULL) {
        struct held *held = snowflake->held;
        snowflake->held = held->before;
        free(held);
    }
    wipe_free((void *)snowflake->lease, sizeof *snowflake->lease);
    pthread_cond_destroy(&snowflake->changed);
    pthread_mutex_destroy(&snowflake->lock);
}

static bool gauge_window(void *source, struct leafd_gauge *gauge, char name[SOURCE_NAME_BYTES])
{
    struct leafd_snowflake *snowflake = source;
    pthread_mutex_lock(&snowflake->lock);
    const struct lease *lease = atomic_load(snowflake->lease);
    gauge->is_window = true;
    gauge->window_end_ms = lease != NULL ? atomic_load(&lease->until_ms) : 0;
    memcpy(name, snowflake->name, SOURCE_NAME_BYTES);
    pthread_mutex_unlock(&snowflake->lock);
    return true;
}

static const struct source_kind kind = {
    .forget = forget,
    .stop = stop,
    .finish = finish,
    .free = free_snowflake,
    .age = source_ageless,
    .gauge = gauge_window,
};

static bool make(void *source)
{
    struct leafd_snowflake *snowflake = source;
    snowflake->lease = wipe_new(sizeof *snowflake->lease);
    snowflake->own_name = snowflake->source.name[0] == 0;
    memcpy(snowflake->name, snowflake->source.name, sizeof snowflake->name);
    forget(source);
    return snowflake->lease != NULL;
}

struct leafd_snowflake *leafd_snowflake(struct leafd *client, const char *name,
                                        struct leafd_error *error)
{
    return client_source(client, &kind, name, sizeof(struct leafd_snowflake), make, error);
}

void leafd_snowflake_close(struct leafd_snowflake *snowflake)
{
    source_close(&snowflake->source);
}
