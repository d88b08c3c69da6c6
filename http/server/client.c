/*
 * client.c - see client.h. Threads: any.
 */
#include "http/server/client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/assert.h"
#include "src/base/container.h"
#include "src/base/hash.h"

#define BURST_NS UINT64_C(1000000000) /* what may be used at once: a second's worth */
#define SECOND_NS UINT64_C(1000000000)
#define KIND_ADDRESS 1 /* seeds of ids */
#define KIND_NAME 2
#define KIND_OTHERS 3

TAILQ_HEAD(client_list, http_client);

struct clients {
    pthread_mutex_t mutex; /* guards all */
    struct client_quotas quotas;
    size_t max;
    struct hash_table table;
    struct client_list idle;   /* that nobody refers to, longest first */
    struct http_client others; /* not in the table */
};

struct client_kind {
    bool is_named;
    bool is_local;
};

static uint32_t client_row_hash(const struct hash_link *link)
{
    return CONTAINER(link, struct http_client, link)->hash;
}

static void set_quotas(struct http_client *client, const struct client_quotas *quotas)
{
    atomic_store_explicit(&client->requests.per_s, quotas->requests_per_s, memory_order_relaxed);
    atomic_store_explicit(&client->ids.per_s, quotas->ids_per_s, memory_order_relaxed);
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

/* What was counted for a client that nobody refers to any more was given back. */
static bool holds_nothing(const struct http_client *client)
{
    return client->connections == 0 && client->bodies == 0 && client->body_bytes == 0;
}

void clients_free(struct clients *clients)
{
    struct http_client *client;

    ASSERT(clients->others.refs == 0);
    while ((client = TAILQ_FIRST(&clients->idle)) != NULL) {
        ASSERT(holds_nothing(client) && client->streams == 0);
        TAILQ_REMOVE(&clients->idle, client, idle_link);
        hash_table_remove(&clients->table, &client->link);
        free(client);
    }
    ASSERT(clients->table.count == 0);
    hash_table_free(&clients->table);
    ASSERT(pthread_mutex_destroy(&clients->mutex) == 0);
    free(clients);
}

static uint32_t id_hash(const struct clients *clients, uint64_t id)
{
    return (uint32_t)hash_bytes(&id, sizeof id, clients->table.seed);
}

static struct http_client *client_find(struct clients *clients, uint64_t id, const char *name,
                                       size_t len, bool is_named)
{
    struct hash_link *link = hash_table_chain(&clients->table, id_hash(clients, id));

    for (; link != NULL; link = link->next) {
        struct http_client *client = CONTAINER(link, struct http_client, link);

        if (client->id == id && client->is_named == is_named && client->name_len == len &&
            memcmp(client->name, name, len) == 0) {
            return client;
        }
    }
    return NULL;
}

/* A new record; NULL: all are in use. */
static struct http_client *client_add(struct clients *clients, uint64_t id, const char *name,
                                      size_t len, const struct client_kind *kind)
{
    struct http_client *client = TAILQ_FIRST(&clients->idle);

    if (clients->table.count >= clients->max) {
        if (client == NULL) {
            return NULL;
        }
        TAILQ_REMOVE(&clients->idle, client, idle_link);
        hash_table_remove(&clients->table, &client->link);
        free(client);
    }
    client = MUST_HAVE(calloc(1, sizeof *client));
    client->id = id;
    client->hash = id_hash(clients, id);
    client->is_named = kind->is_named;
    client->is_local = kind->is_local;
    client->name_len = (uint16_t)len;
    memcpy(client->name, name, len);
    hash_table_add(&clients->table, &client->link);
    TAILQ_INSERT_TAIL(&clients->idle, client, idle_link);
    return client;
}

/* The record with one reference more. */
static struct http_client *client_get(struct clients *clients, const char *name, size_t len,
                                      const struct client_kind *kind,
                                      const struct client_quotas *quotas)
{
    uint64_t id = hash_bytes(name, len, kind->is_named ? KIND_NAME : KIND_ADDRESS);
    struct http_client *client;

    ASSERT(len >= 1 && len <= LIMIT_CLIENT_NAME_BYTES);
    ASSERT(pthread_mutex_lock(&clients->mutex) == 0);
    client = client_find(clients, id, name, len, kind->is_named);
    if (client == NULL) {
        client = client_add(clients, id, name, len, kind);
    }
    if (client == NULL) {
        client = &clients->others;
    } else {
        set_quotas(client, quotas);
        if (client->refs == 0) {
            TAILQ_REMOVE(&clients->idle, client, idle_link);
        }
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
    static const struct client_kind kind = {.is_named = true};

    len = len < LIMIT_CLIENT_NAME_BYTES ? len : LIMIT_CLIENT_NAME_BYTES;
    return client_get(clients, name, len, &kind, quotas);
}

/* "10.0.0.1", "2001:db8:1:2::/64". True if it is this machine's own. */
static bool address_name(const struct sockaddr *address, char out[LIMIT_CLIENT_NAME_BYTES + 1])
{
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)(const void *)address;
    struct in6_addr prefix;
    struct in_addr v4;

    if (address->sa_family == AF_INET) {
        v4 = ((const struct sockaddr_in *)(const void *)address)->sin_addr;
    } else if (address->sa_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr)) {
        memcpy(&v4, &v6->sin6_addr.s6_addr[12], sizeof v4);
    } else if (address->sa_family == AF_INET6) {
        prefix = v6->sin6_addr;
        if (IN6_IS_ADDR_LOOPBACK(&prefix)) {
            (void)snprintf(out, LIMIT_CLIENT_NAME_BYTES + 1, "::1");
            return true;
        }
        memset(&prefix.s6_addr[8], 0, 8);
        ASSERT(inet_ntop(AF_INET6, &prefix, out, INET6_ADDRSTRLEN) != NULL);
        memcpy(out + strlen(out), "/64", sizeof "/64");
        return false;
    } else {
        (void)snprintf(out, LIMIT_CLIENT_NAME_BYTES + 1, "local");
        return true;
    }
    ASSERT(inet_ntop(AF_INET, &v4, out, INET_ADDRSTRLEN) != NULL);
    return ntohl(v4.s_addr) >> 24 == IN_LOOPBACKNET;
}

struct http_client *clients_of_address(struct clients *clients, const struct sockaddr *address)
{
    char name[LIMIT_CLIENT_NAME_BYTES + 1];
    const struct client_kind kind = {.is_local = address_name(address, name)};

    return client_get(clients, name, strlen(name), &kind, &clients->quotas);
}

void clients_hold(struct clients *clients, struct http_client *client)
{
    ASSERT(pthread_mutex_lock(&clients->mutex) == 0);
    ASSERT(client->refs > 0); /* the caller has one, or knows who has */
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

bool client_tells(struct http_client *client, struct client_lines *lines, uint64_t now_ms,
                  uint64_t *ret_more)
{
    uint64_t told_ms = atomic_load_explicit(&client->told_ms, memory_order_relaxed);

    if (told_ms != 0 && now_ms < told_ms + CLIENT_TOLD_MS) {
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
        return false; /* another loop tells it */
    }
    lines->in_second++;
    *ret_more = lines->more;
    lines->more = 0;
    return true;
}
