/*
 * meter.c - see meter.h. Threads: as said there.
 */
#include "http/server/meter.h"

#include <arpa/inet.h>
#include <endian.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "http/proto/text.h"
#include "src/base/assert.h"
#include "src/base/container.h"
#include "src/base/hash.h"
#include "src/base/hot.h"

/* --- clients --- */

#define BURST_NS UINT64_C(1000000000) /* usable at once: a second's worth */
#define SECOND_NS UINT64_C(1000000000)
#define KIND_ADDRESS 1 /* seeds of ids */
#define KIND_NAME 2
#define KIND_OTHERS 3
#define KIND_CERTIFICATE 4

TAILQ_HEAD(client_list, http_client);

struct clients {
    pthread_mutex_t mutex; /* guards all */
    struct client_quotas quotas;
    size_t max;
    struct hash_table table;
    struct client_list idle;   /* without references, longest idle first */
    struct http_client others; /* not in the table */
};

static uint32_t client_row_hash(const struct hash_link *link)
{
    return CONTAINER(link, struct http_client, link)->hash;
}

/* With another quota nothing is owed: what was taken under a small one may be hours of it. */
static void set_rate(struct client_rate *rate, uint32_t per_s)
{
    if (atomic_exchange_explicit(&rate->per_s, per_s, memory_order_relaxed) != per_s) {
        atomic_store_explicit(&rate->until_ns, 0, memory_order_relaxed);
    }
}

static void set_quotas(struct http_client *client, const struct client_quotas *quotas)
{
    set_rate(&client->requests, quotas->requests_per_s);
    set_rate(&client->ids, quotas->ids_per_s);
    atomic_store_explicit(&client->connections_max, quotas->connections, memory_order_relaxed);
    atomic_store_explicit(&client->bodies_max, quotas->bodies, memory_order_relaxed);
}

struct clients *clients_new(const struct client_quotas *quotas, size_t max)
{
    struct clients *clients = MUST_HAVE(calloc(1, sizeof *clients));

    ASSERT(max >= 1 && max <= LIMIT_CLIENTS);
    ASSERT(pthread_mutex_init(&clients->mutex, NULL) == 0);
    clients->quotas = *quotas;
    clients->max = max;
    hash_table_init(&clients->table, client_row_hash);
    TAILQ_INIT(&clients->idle);
    (void)snprintf(clients->others.name, sizeof clients->others.name, "others");
    clients->others.name_len = (uint16_t)strlen(clients->others.name);
    clients->others.id = hash_bytes(clients->others.name, clients->others.name_len, KIND_OTHERS);
    set_quotas(&clients->others, quotas);
    return clients;
}

/* Has a client without references nothing counted for it? */
static bool holds_nothing(const struct http_client *client)
{
    return client->connections == 0 && client->bodies == 0 && client->body_bytes == 0;
}

static void client_drop(struct clients *clients, struct http_client *client)
{
    TAILQ_REMOVE(&clients->idle, client, idle_link);
    hash_table_remove(&clients->table, &client->link);
    free(client);
}

void clients_free(struct clients *clients)
{
    struct http_client *client;

    ASSERT(clients->others.refs == 0);
    while ((client = TAILQ_FIRST(&clients->idle)) != NULL) {
        ASSERT(holds_nothing(client) && client->streams == 0);
        client_drop(clients, client);
    }
    ASSERT(clients->table.count == 0);
    hash_table_free(&clients->table);
    ASSERT(pthread_mutex_destroy(&clients->mutex) == 0);
    free(clients);
}

/* The record with one reference more. */
static struct http_client *client_get(struct clients *clients, const char *name, size_t len,
                                      bool is_named, bool is_local,
                                      const struct client_quotas *quotas)
{
    uint64_t id = hash_bytes(name, len, is_named ? KIND_NAME : KIND_ADDRESS);
    uint32_t hash = (uint32_t)hash_bytes(&id, sizeof id, clients->table.seed);
    struct http_client *client = NULL;
    struct hash_link *link;

    ASSERT(len >= 1 && len <= LIMIT_CLIENT_NAME_BYTES);
    ASSERT(pthread_mutex_lock(&clients->mutex) == 0);
    link = hash_table_chain(&clients->table, hash);
    for (; link != NULL && client == NULL; link = link->next) {
        struct http_client *other = CONTAINER(link, struct http_client, link);

        if (other->id == id && other->is_named == is_named && other->name_len == len &&
            memcmp(other->name, name, len) == 0) {
            client = other;
        }
    }
    if (client != NULL) {
        if (client->refs == 0) {
            TAILQ_REMOVE(&clients->idle, client, idle_link);
        }
    } else if (clients->table.count < clients->max || !TAILQ_EMPTY(&clients->idle)) {
        if (clients->table.count >= clients->max) {
            client_drop(clients, TAILQ_FIRST(&clients->idle));
        }
        client = MUST_HAVE(calloc(1, sizeof *client));
        client->id = id;
        client->hash = hash;
        client->is_named = is_named;
        client->is_local = is_local;
        client->name_len = (uint16_t)len;
        memcpy(client->name, name, len);
        hash_table_add(&clients->table, &client->link);
    }
    if (client != NULL) {
        set_quotas(client, quotas);
    } else {
        client = &clients->others;
    }
    client->refs++;
    ASSERT(pthread_mutex_unlock(&clients->mutex) == 0);
    return client;
}

uint64_t client_id_of_name(const char *name, size_t len)
{
    return hash_bytes(name, len < LIMIT_CLIENT_NAME_BYTES ? len : LIMIT_CLIENT_NAME_BYTES,
                      KIND_NAME);
}

struct http_client *clients_of_name(struct clients *clients, const char *name, size_t len,
                                    const struct client_quotas *quotas)
{
    len = len < LIMIT_CLIENT_NAME_BYTES ? len : LIMIT_CLIENT_NAME_BYTES;
    return client_get(clients, name, len, true, false, quotas);
}

uint64_t client_id_of_certificate(const char *name)
{
    return hash_bytes(name, strlen(name), KIND_CERTIFICATE);
}

/* "10.0.0.1", "2001:db8:1:2::/64", "local". */
static void address_name(const struct sockaddr *address, char name[LIMIT_CLIENT_NAME_BYTES + 1],
                         bool *ret_is_local)
{
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)(const void *)address;
    struct in6_addr prefix;
    struct in_addr v4;

    *ret_is_local = true;
    (void)snprintf(name, LIMIT_CLIENT_NAME_BYTES + 1, "local");
    if (address->sa_family == AF_INET6 && !IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr)) {
        prefix = v6->sin6_addr;
        *ret_is_local = IN6_IS_ADDR_LOOPBACK(&prefix);
        if (!*ret_is_local) {
            memset(&prefix.s6_addr[8], 0, 8);
        }
        ASSERT(inet_ntop(AF_INET6, &prefix, name, INET6_ADDRSTRLEN) != NULL);
        if (!*ret_is_local) {
            memcpy(name + strlen(name), "/64", sizeof "/64");
        }
    } else if (address->sa_family == AF_INET || address->sa_family == AF_INET6) {
        memcpy(&v4,
               address->sa_family == AF_INET
                   ? (const void *)&((const struct sockaddr_in *)(const void *)address)->sin_addr
                   : (const void *)&v6->sin6_addr.s6_addr[12],
               sizeof v4);
        ASSERT(inet_ntop(AF_INET, &v4, name, INET_ADDRSTRLEN) != NULL);
        *ret_is_local = ntohl(v4.s_addr) >> 24 == IN_LOOPBACKNET;
    }
}

uint64_t client_id_of_address(const struct sockaddr *address)
{
    char name[LIMIT_CLIENT_NAME_BYTES + 1];
    bool is_local;

    address_name(address, name, &is_local);
    return hash_bytes(name, strlen(name), KIND_ADDRESS);
}

struct http_client *clients_of_address(struct clients *clients, const struct sockaddr *address)
{
    char name[LIMIT_CLIENT_NAME_BYTES + 1];
    bool is_local;

    address_name(address, name, &is_local);
    return client_get(clients, name, strlen(name), false, is_local, &clients->quotas);
}

void clients_hold(struct clients *clients, struct http_client *client)
{
    ASSERT(pthread_mutex_lock(&clients->mutex) == 0);
    ASSERT(client->refs > 0); /* the caller has one, or knows a holder */
    client->refs++;
    ASSERT(pthread_mutex_unlock(&clients->mutex) == 0);
}

void clients_release(struct clients *clients, struct http_client *client)
{
    ASSERT(pthread_mutex_lock(&clients->mutex) == 0);
    ASSERT(client->refs > 0);
    client->refs--;
    ASSERT(client->refs > 0 || holds_nothing(client));
    if (client->refs == 0 && client != &clients->others) {
        TAILQ_INSERT_TAIL(&clients->idle, client, idle_link);
    }
    ASSERT(pthread_mutex_unlock(&clients->mutex) == 0);
}

size_t clients_count(struct clients *clients)
{
    size_t count;

    ASSERT(pthread_mutex_lock(&clients->mutex) == 0);
    count = clients->table.count;
    ASSERT(pthread_mutex_unlock(&clients->mutex) == 0);
    return count;
}

uint32_t client_charge(struct client_rate *rate, uint64_t amount, uint64_t now_ms)
{
    uint32_t per_s = atomic_load_explicit(&rate->per_s, memory_order_relaxed);
    uint64_t until_ns = atomic_load_explicit(&rate->until_ns, memory_order_relaxed);
    uint64_t now_ns = now_ms * (SECOND_NS / 1000);
    uint64_t from_ns;

    if (per_s == 0) {
        return 0;
    }
    ASSERT(amount <= LIMIT_COUNT);
    do {
        from_ns = until_ns > now_ns ? until_ns : now_ns;
        if (from_ns - now_ns >= BURST_NS) {
            return (uint32_t)((from_ns - now_ns - BURST_NS) / SECOND_NS) + 1;
        }
    } while (!atomic_compare_exchange_weak_explicit(&rate->until_ns, &until_ns,
                                                    from_ns + amount * SECOND_NS / per_s,
                                                    memory_order_relaxed, memory_order_relaxed));
    return 0;
}

bool client_may_log(struct http_client *client, struct client_lines *lines, uint64_t now_ms,
                    uint64_t *ret_more)
{
    uint64_t told_ms = atomic_load_explicit(&client->told_ms, memory_order_relaxed);

    if (told_ms != 0 && now_ms < told_ms + CLIENT_LOG_MS) {
        return false;
    }
    if (lines->second != now_ms / 1000) {
        lines->second = now_ms / 1000;
        lines->in_second = 0;
    }
    if (lines->in_second == LIMIT_QUOTA_LINES_PER_S) {
        lines->more++;
        return false;
    }
    if (!atomic_compare_exchange_strong(&client->told_ms, &told_ms, now_ms > 0 ? now_ms : 1)) {
        return false; /* another loop logs it */
    }
    lines->in_second++;
    *ret_more = lines->more;
    lines->more = 0;
    return true;
}

#define SMALL_PART 4 /* this part of the room for bodies is only for small ones */

static uint64_t at_least(uint64_t value, uint64_t least)
{
    return value > least ? value : least;
}

void meter_init(struct conn_meter *meter, const struct http_settings *settings)
{
    /* One bulk body must fit, whatever the settings and the number of loops. */
    uint64_t least_bytes = LIMIT_HTTP_BODY_BYTES / (SMALL_PART - 1) * SMALL_PART + SMALL_PART;

    ASSERT(settings->loops > 0);
    *meter = (struct conn_meter){
        .bodies_max = at_least(settings->bodies_bytes / settings->loops, least_bytes),
        .client_max = at_least(settings->client_bodies_bytes, LIMIT_HTTP_BODY_BYTES),
        .output_max =
            at_least(settings->output_bytes / settings->loops, LIMIT_HTTP_OUTPUT_MIN_BYTES),
        .input_max = at_least(settings->input_bytes / settings->loops, LIMIT_HTTP_INPUT_MIN_BYTES),
    };
    meter->large_max = meter->bodies_max - meter->bodies_max / SMALL_PART;
    ASSERT(meter->large_max >= LIMIT_HTTP_BODY_BYTES);
    TAILQ_INIT(&meter->later);
    TAILQ_INIT(&meter->no_room);
    TAILQ_INIT(&meter->bodies);
    TAILQ_INIT(&meter->inputs);
}

bool meter_is_clear(const struct conn_meter *meter)
{
    return meter->body_bytes == 0 && meter->output_bytes == 0 && meter->input_bytes == 0 &&
           meter->waiting_bytes == 0 && TAILQ_EMPTY(&meter->later) &&
           TAILQ_EMPTY(&meter->no_room) && TAILQ_EMPTY(&meter->bodies) &&
           TAILQ_EMPTY(&meter->inputs);
}

/* --- refusals --- */

const struct refusal_answer refusal_answers[METER_REFUSALS] = {
    [REFUSED_FULL] = {"connections", 503, "overloaded", "too many connections are open"},
    [REFUSED_SHARE] = {"connections_share", 503, "overloaded",
                       "many connections are open, and this client has more than its share"},
    [REFUSED_CONNECTIONS] = {"connections_quota", 429, "quota",
                             "this client has too many connections"},
    [REFUSED_LARGE] = {"body_large", 413, "body_too_large",
                       "the body is larger than this route takes (limit in bytes)"},
    [REFUSED_BODIES] = {"bodies", 503, "overloaded", "too many request bodies are being received"},
    [REFUSED_BODY_SHARE] = {"bodies_share", 503, "overloaded",
                            "this client's request bodies take all the room that one client "
                            "may take (a twelfth of http.memory-bytes)"},
    [REFUSED_BODY_QUOTA] = {"bodies_quota", 429, "quota",
                            "this client sends as many request bodies at a time as its quota "
                            "allows"},
    [REFUSED_BODY_SLOW] = {"body_slow", 408, "too_slow",
                           "the request's body came slowly, and its place was needed for "
                           "another"},
    [REFUSED_INPUT] = {"input", 408, "too_slow",
                       "the request came slowly, and its place was needed for another"},
    [REFUSED_READER] = {.name = "reader_slow"},
    [REFUSED_REQUESTS] = {.name = "requests_quota", .status = 429},
    [REFUSED_IDS] = {.name = "ids_quota", .status = 429},
    [REFUSED_KEYS] = {.name = "keys_share"},
    [REFUSED_WORKERS] = {.name = "workers_share"},
    [REFUSED_TAGS] = {.name = "tags_share"},
};

/* --- turns --- */

void meter_put_off(struct metered *metered, struct metered_queue *queue)
{
    if (metered->put_off == NULL) {
        metered->put_off = queue;
        TAILQ_INSERT_TAIL(queue, metered, put_off_link);
    }
}

void meter_put_on(struct metered *metered)
{
    TAILQ_REMOVE(metered->put_off, metered, put_off_link);
    metered->put_off = NULL;
}

/* --- output --- */

bool meter_output_is_full(const struct conn_meter *meter)
{
    return meter->output_bytes >= meter->output_max;
}

bool meter_output_is_short(const struct conn_meter *meter)
{
    return meter->output_bytes >= meter->output_max / 4 * 3;
}

HOT bool meter_has_room(const struct conn_meter *meter, const struct wire *wire)
{
    uint64_t bytes = atomic_load_explicit(&meter->output_bytes, memory_order_relaxed);

    return bytes < meter->output_max ||
           (wire->out.len <= LIMIT_HTTP_SMALL_REPLY_BYTES && wire->sending.len == 0 &&
            bytes < meter->output_max / 2 * 3);
}

HOT void meter_output(struct conn_meter *meter, struct metered *metered, const struct wire *wire)
{
    uint64_t held = wire->out.capacity + wire->sending.capacity;

    if (held != metered->output) {
        counter_add(&meter->output_bytes, held - metered->output);
        metered->output = held;
    }
}

/* --- input --- */

HOT bool meter_input(struct conn_meter *meter, struct metered *metered, const struct wire *wire,
                     bool waits)
{
    const uint32_t kept = wire->size + (wire->tls != NULL ? (uint32_t)wire->tls->bytes.in_len : 0);
    const uint32_t input = waits ? 0 : kept;
    const uint32_t waiting = waits && kept > WIRE_STEP_BYTES ? kept - WIRE_STEP_BYTES : 0;
    bool grows = input > metered->input || waiting > metered->waiting;

    if (metered->input == 0 && input > 0) {
        TAILQ_INSERT_TAIL(&meter->inputs, metered, input_link);
    } else if (metered->input > 0 && input == 0) {
        TAILQ_REMOVE(&meter->inputs, metered, input_link);
    }
    if (input != metered->input) {
        counter_add(&meter->input_bytes, (uint64_t)input - metered->input);
        metered->input = input;
    }
    if (waiting != metered->waiting) {
        counter_add(&meter->waiting_bytes, (uint64_t)waiting - metered->waiting);
        metered->waiting = waiting;
    }
    return grows && (waits ? meter->waiting_bytes > meter->input_max : meter_input_is_over(meter));
}

bool meter_input_is_over(const struct conn_meter *meter)
{
    return meter->input_bytes > meter->input_max;
}

HOT void meter_input_step(struct conn_meter *meter, struct metered *metered)
{
    if (metered->input > 0) {
        TAILQ_REMOVE(&meter->inputs, metered, input_link);
        TAILQ_INSERT_TAIL(&meter->inputs, metered, input_link);
    }
}

void meter_end(struct conn_meter *meter, struct metered *metered)
{
    static const struct wire nothing = {0};

    ASSERT(!metered->has_body);
    if (metered->put_off != NULL) {
        meter_put_on(metered);
    }
    (void)meter_input(meter, metered, &nothing, false);
    meter_output(meter, metered, &nothing);
}

/* --- bodies --- */

static uint64_t large_of(uint64_t bytes)
{
    return bytes > LIMIT_HTTP_SMALL_BODY_BYTES ? bytes : 0;
}

enum meter_body meter_body(struct conn_meter *meter, struct metered *metered,
                           struct http_client *client, uint64_t more, uint64_t now_ms)
{
    uint32_t max = atomic_load_explicit(&client->bodies_max, memory_order_relaxed);
    uint64_t all = atomic_load_explicit(&meter->body_bytes, memory_order_relaxed);
    uint64_t clients = atomic_load_explicit(&client->body_bytes, memory_order_relaxed);
    uint64_t more_large; /* clients: of large ones too, on all loops */

    if (!metered->has_body) {
        if (max > 0 && atomic_load_explicit(&client->bodies, memory_order_relaxed) >= max) {
            return METER_BODY_QUOTA;
        }
        atomic_fetch_add_explicit(&client->bodies, 1, memory_order_relaxed);
        metered->has_body = true;
        metered->body_bytes = 0;
        metered->body_step_ms = now_ms;
        metered->body_step_bytes = 0;
        TAILQ_INSERT_TAIL(&meter->bodies, metered, body_link);
    }
    more_large = large_of(metered->body_bytes + more) - large_of(metered->body_bytes);
    if (all + more > meter->bodies_max) {
        return METER_BODY_ALL;
    }
    if (meter->large_bytes + more_large > meter->large_max) {
        return METER_BODY_LARGE;
    }
    do {
        if (more_large > 0 && clients + more_large > meter->client_max) {
            return METER_BODY_SHARE;
        }
    } while (!atomic_compare_exchange_weak_explicit(&client->body_bytes, &clients,
                                                    clients + more_large, memory_order_relaxed,
                                                    memory_order_relaxed));
    meter->large_bytes += more_large;
    counter_add(&meter->body_bytes, more);
    metered->body_bytes += more;
    if (metered->body_bytes - metered->body_step_bytes >= LIMIT_HTTP_BODY_STEP_BYTES) {
        metered->body_step_bytes = metered->body_bytes;
        metered->body_step_ms = now_ms;
        TAILQ_REMOVE(&meter->bodies, metered, body_link);
        TAILQ_INSERT_TAIL(&meter->bodies, metered, body_link);
        meter_input_step(meter, metered);
    }
    return METER_BODY_OK;
}

void meter_body_free(struct conn_meter *meter, struct metered *metered, struct http_client *client)
{
    uint64_t before = atomic_load_explicit(&meter->body_bytes, memory_order_relaxed);
    uint64_t large = large_of(metered->body_bytes);

    if (!metered->has_body) {
        return;
    }
    metered->has_body = false;
    TAILQ_REMOVE(&meter->bodies, metered, body_link);
    atomic_fetch_sub_explicit(&client->bodies, 1, memory_order_relaxed);
    ASSERT(before >= metered->body_bytes && meter->large_bytes >= large);
    atomic_store_explicit(&meter->body_bytes, before - metered->body_bytes, memory_order_relaxed);
    if (large > 0) {
        meter->large_bytes -= large;
        ASSERT(atomic_fetch_sub_explicit(&client->body_bytes, large, memory_order_relaxed) >=
               large);
    }
    metered->body_bytes = 0;
}

struct metered *meter_slow_body(const struct conn_meter *meter, const struct metered *after,
                                uint64_t now_ms)
{
    struct metered *body =
        after == NULL ? TAILQ_FIRST(&meter->bodies) : TAILQ_NEXT(after, body_link);

    return body != NULL && now_ms - body->body_step_ms >= LIMIT_HTTP_BODY_SLOW_MS ? body : NULL;
}

/* --- what a client takes of its replies --- */

#define LOOK_MS 1000

void rate_begin(struct rate *rate, uint64_t taken, uint64_t now_ms)
{
    *rate = (struct rate){.progress_ms = now_ms,
                          .begin_ms = now_ms,
                          .begin_taken = taken,
                          .look_ms = now_ms,
                          .look_taken = taken};
}

uint32_t rate_check_ms(const struct http_settings *settings)
{
    return settings->write_ms < LOOK_MS ? settings->write_ms : LOOK_MS;
}

enum rate_verdict rate_check(struct rate *rate, const struct http_settings *settings,
                             uint64_t taken, uint64_t now_ms, bool waits, uint64_t held,
                             bool is_short)
{
    uint64_t since_look_ms = now_ms - rate->look_ms;
    uint64_t since_look = taken - rate->look_taken;
    uint64_t min_rate = settings->min_rate_bytes;

    ASSERT(now_ms >= rate->look_ms && taken >= rate->look_taken);
    if (!waits) {
        rate_begin(rate, taken, now_ms);
        return RATE_OK;
    }
    if (since_look > 0) {
        rate->progress_ms = now_ms;
    }
    rate->look_ms = now_ms;
    rate->look_taken = taken;
    if (now_ms - rate->progress_ms >= settings->write_ms) {
        return RATE_STALLED;
    }
    if (is_short && held >= LIMIT_HTTP_HELD_BYTES && since_look_ms >= rate_check_ms(settings) &&
        since_look * 1000 < min_rate * LIMIT_HTTP_SHORT_RATE * since_look_ms) {
        return RATE_SLOW_WHILE_SHORT;
    }
    if (now_ms - rate->begin_ms < settings->write_ms) {
        return RATE_OK;
    }
    if ((taken - rate->begin_taken) * 1000 < min_rate * (now_ms - rate->begin_ms)) {
        return RATE_SLOW;
    }
    rate->begin_ms = now_ms;
    rate->begin_taken = taken;
    return RATE_OK;
}

/* --- latency --- */

HOT uint64_t latency_begin(struct latency *latency)
{
    if (latency->turn_us == 0) {
        latency->turn_us = uv_hrtime() / 1000;
    }
    return latency->turn_us;
}

HOT uint64_t latency_end(struct latency *latency, unsigned class, int status, uint64_t began_us)
{
    unsigned digit = (unsigned)status / 100 - 2;
    unsigned kind = class * LATENCY_STATUSES + digit;
    uint64_t turn_us = latency_begin(latency);

    ASSERT(class < LATENCY_CLASSES && digit < LATENCY_STATUSES);
    if (began_us != 0 && began_us != turn_us) { /* it waited */
        histogram_note(&latency->took[class][digit], turn_us - began_us, 1);
        return turn_us - began_us;
    }
    if (latency->answered[kind]++ == 0) {
        latency->kinds[latency->kind_count++] = (uint8_t)kind;
    }
    return 0;
}

void latency_exemplar(struct latency *latency, unsigned class, int status, uint64_t took_us,
                      const char trace[HEADER_TRACE_BYTES], uint64_t wall_ms)
{
    unsigned digit = (unsigned)status / 100 - 2;
    struct exemplar *exemplar;
    uint64_t halves[2];
    uint64_t writes;

    ASSERT(class < LATENCY_CLASSES && digit < LATENCY_STATUSES);
    ASSERT(text_hex(trace, sizeof halves, (uint8_t *)halves));
    exemplar = &latency->exemplars[class][digit][histogram_bucket(took_us)];
    writes = atomic_load_explicit(&exemplar->writes, memory_order_relaxed);
    /* Each is stored after the odd count, and the even count after them. */
    atomic_store_explicit(&exemplar->writes, writes + 1, memory_order_relaxed);
    atomic_store_explicit(&exemplar->trace[0], be64toh(halves[0]), memory_order_release);
    atomic_store_explicit(&exemplar->trace[1], be64toh(halves[1]), memory_order_release);
    atomic_store_explicit(&exemplar->took_us, took_us, memory_order_release);
    atomic_store_explicit(&exemplar->wall_ms, wall_ms, memory_order_release);
    atomic_store_explicit(&exemplar->writes, writes + 2, memory_order_release);
}

uint64_t latency_count(const struct latency *latency, unsigned class, unsigned status)
{
    struct histogram_view view = {0};

    ASSERT(class < LATENCY_CLASSES && status < LATENCY_STATUSES);
    histogram_add(&view, &latency->took[class][status]);
    return histogram_count(&view);
}

HOT void latency_turn_end(struct latency *latency, uint64_t now_us)
{
    for (unsigned i = 0; i < latency->kind_count; i++) {
        unsigned kind = latency->kinds[i];

        histogram_note(&latency->took[kind / LATENCY_STATUSES][kind % LATENCY_STATUSES],
                       now_us - latency->turn_us, latency->answered[kind]);
        latency->answered[kind] = 0;
    }
    latency->kind_count = 0;
    latency->turn_us = 0;
}

/* --- exemplars --- */

void exemplar_newer(struct exemplar_view *view, const struct exemplar *exemplar)
{
    uint64_t writes = atomic_load_explicit(&exemplar->writes, memory_order_acquire);
    /* A reader that sees a value of a later write also sees its odd count. */
    uint64_t high = atomic_load_explicit(&exemplar->trace[0], memory_order_acquire);
    uint64_t low = atomic_load_explicit(&exemplar->trace[1], memory_order_acquire);
    uint64_t took_us = atomic_load_explicit(&exemplar->took_us, memory_order_acquire);
    uint64_t wall_ms = atomic_load_explicit(&exemplar->wall_ms, memory_order_acquire);

    if (writes % 2 == 0 && wall_ms > view->wall_ms &&
        atomic_load_explicit(&exemplar->writes, memory_order_relaxed) == writes) {
        (void)snprintf(view->trace, sizeof view->trace, "%016" PRIx64 "%016" PRIx64, high, low);
        view->took_us = took_us;
        view->wall_ms = wall_ms;
    }
}
