/* See nodes.h. */
#include "nodes.h"

#include "client.h"
#include "fault.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RESOLVE_AGAIN_MS = 30000 };

/* What the thread that resolves shares with the door. It is freed by whichever leaves it last. */
struct resolving {
    pthread_mutex_t lock;
    unsigned users;
    struct door *door; /* NULL: it was released */
    struct endpoints endpoints;
    struct nodes *old; /* a copy of what was known */
};

/* The host of scheme://host[:port], without the brackets of an address. */
static void read_host(const char *url, char host[URL_BYTES])
{
    const char *at = strstr(url, "://") + 3;
    const char *end = at + strcspn(at, ":");
    if (*at == '[') {
        at++;
        end = at + strcspn(at, "]");
    }
    memcpy(host, at, (size_t)(end - at));
    host[end - at] = 0;
}

static bool is_name(const char *host)
{
    unsigned char address[16];
    return inet_pton(AF_INET, host, address) != 1 && inet_pton(AF_INET6, host, address) != 1;
}

static void add_node(struct nodes *nodes, unsigned endpoint, const char *connect_to)
{
    if (nodes->count < NODES_MAX) {
        nodes->list[nodes->count].endpoint = endpoint;
        (void)snprintf(nodes->list[nodes->count].connect_to, CONNECT_TO_BYTES, "%s", connect_to);
        nodes->count++;
    }
}

/* The addresses of a name; false: there are none, or nobody knows. */
static bool add_addresses(struct nodes *nodes, unsigned endpoint, const char *host)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG};
    struct addrinfo *found = NULL;
    unsigned before = nodes->count;
    if (getaddrinfo(host, NULL, &hints, &found) != 0) {
        return false;
    }
    for (const struct addrinfo *one = found; one != NULL; one = one->ai_next) {
        char text[CONNECT_TO_BYTES - 6], to[CONNECT_TO_BYTES];
        if (getnameinfo(one->ai_addr, one->ai_addrlen, text, sizeof text, NULL, 0,
                        NI_NUMERICHOST) == 0) {
            (void)snprintf(to, sizeof to, one->ai_family == AF_INET6 ? "::[%s]:" : "::%s:", text);
            add_node(nodes, endpoint, to);
        }
    }
    freeaddrinfo(found);
    return nodes->count > before;
}

static void look_up(const struct resolving *work, struct nodes *nodes)
{
    for (unsigned i = 0; i < work->endpoints.count; i++) {
        char host[URL_BYTES];
        read_host(work->endpoints.urls[i], host);
        if (is_name(host) && add_addresses(nodes, i, host)) {
            continue;
        }
        for (unsigned n = 0; n < work->old->count; n++) {
            if (work->old->list[n].endpoint == i) {
                add_node(nodes, i, work->old->list[n].connect_to);
            }
        }
    }
}

static void leave_work(struct resolving *work, unsigned users)
{
    work->users -= users;
    bool last = work->users == 0;
    pthread_mutex_unlock(&work->lock);
    if (last) {
        pthread_mutex_destroy(&work->lock);
        free(work->old);
        free(work);
    }
}

/* With the lock of the door. */
static void drop_nodes(struct nodes *nodes)
{
    if (--nodes->users == 0) {
        free(nodes);
    }
}

/* The new list, which begins at the node that was asked last, if it is there. True: the door has
 * left the work. */
static bool set_nodes(struct door *door, const struct resolving *work, struct nodes *nodes)
{
    unsigned at = (unsigned)(now_ns() >> 10) % nodes->count;
    pthread_mutex_lock(&door->lock);
    struct node old = node_of(door, door->nodes, atomic_load(&door->current));
    for (unsigned i = 0; i < nodes->count; i++) {
        struct node node = node_of(door, nodes, i);
        at = node.url == old.url && strcmp(node.connect_to, old.connect_to) == 0 ? i : at;
    }
    struct nodes *before = door->nodes;
    door->nodes = nodes; /* first: a fork at any moment finds a list */
    drop_nodes(before);
    atomic_store(&door->current, at);
    door->resolved_ns = now_ns();
    bool left = door->resolving == work; /* else door_release() has taken it, and waits */
    door->resolving = NULL;
    pthread_cond_broadcast(&door->changed);
    pthread_mutex_unlock(&door->lock);
    return left;
}

static void *resolve_names(void *context)
{
    struct resolving *work = context;
    struct nodes *nodes = calloc(1, sizeof *nodes);
    if (nodes != NULL) {
        nodes->users = 1;
        look_up(work, nodes);
    }
    pthread_mutex_lock(&work->lock);
    if (work->door == NULL) {
        free(nodes);
        leave_work(work, 1);
        return NULL;
    }
    /* Without memory the old list stays, as a copy. */
    if (nodes == NULL) {
        nodes = work->old;
        work->old = NULL;
    }
    bool left = set_nodes(work->door, work, nodes);
    work->door = NULL;
    leave_work(work, left ? 2 : 1);
    return NULL;
}

/* Have a thread do it. With the lock of the door. */
static void begin_resolving(struct door *door)
{
    struct resolving *work = calloc(1, sizeof *work);
    struct nodes *old = work != NULL ? malloc(sizeof *old) : NULL;
    pthread_t thread;
    if (old == NULL) {
        free(work);
        return;
    }
    *old = *door->nodes;
    old->users = 1;
    *work = (struct resolving){.users = 2, .door = door, .endpoints = *door->endpoints, .old = old};
    pthread_mutex_init(&work->lock, NULL);
    door->resolving = work;
    if (client_start_thread(&thread, resolve_names, work)) {
        pthread_detach(thread);
        return;
    }
    door->resolving = NULL;
    pthread_mutex_lock(&work->lock);
    leave_work(work, 2);
}

bool door_init(struct door *door, const struct endpoints *endpoints, unsigned random)
{
    struct nodes *nodes = calloc(1, sizeof *nodes);
    if (nodes == NULL) {
        return false;
    }
    nodes->users = 1;
    door->endpoints = endpoints;
    door->nodes = nodes;
    door->named = false;
    for (unsigned i = 0; i < endpoints->count; i++) {
        char host[URL_BYTES];
        read_host(endpoints->urls[i], host);
        door->named = door->named || is_name(host);
        add_node(nodes, i, "");
    }
    door_forget(door, random);
    return true;
}

void door_forget(struct door *door, unsigned random)
{
    atomic_store(&door->current, random % door->nodes->count);
    pthread_mutex_init(&door->lock, NULL);
    condition_init(&door->changed);
    door->resolving = NULL;
    door->resolved_ns = 0;
}

void door_release(struct door *door)
{
    pthread_mutex_lock(&door->lock);
    struct resolving *work = door->resolving;
    door->resolving = NULL;
    pthread_mutex_unlock(&door->lock);
    if (work != NULL) {
        pthread_mutex_lock(&work->lock);
        work->door = NULL;
        leave_work(work, 1);
    }
    drop_nodes(door->nodes);
    pthread_cond_destroy(&door->changed);
    pthread_mutex_destroy(&door->lock);
}

struct nodes *door_nodes(struct door *door, bool failed, uint64_t wait_ms)
{
    pthread_mutex_lock(&door->lock);
    if (door->named) {
        uint64_t now = now_ns();
        bool wait = failed || door->resolved_ns == 0;
        bool old = now - door->resolved_ns >= (uint64_t)RESOLVE_AGAIN_MS * NS_PER_MS;
        if (door->resolving == NULL && (wait || old)) {
            begin_resolving(door);
        }
        const struct resolving *work = door->resolving;
        while (wait && work != NULL && door->resolving == work &&
               condition_wait(&door->changed, &door->lock, now + wait_ms * NS_PER_MS)) {
        }
    }
    struct nodes *nodes = door->nodes;
    nodes->users++;
    pthread_mutex_unlock(&door->lock);
    return nodes;
}

void nodes_put(struct door *door, struct nodes *nodes)
{
    pthread_mutex_lock(&door->lock);
    drop_nodes(nodes);
    pthread_mutex_unlock(&door->lock);
}

unsigned door_count(struct door *door)
{
    pthread_mutex_lock(&door->lock);
    unsigned count = door->nodes->count;
    pthread_mutex_unlock(&door->lock);
    return count;
}

struct node node_of(const struct door *door, const struct nodes *nodes, unsigned at)
{
    at %= nodes->count;
    return (struct node){door->endpoints->urls[nodes->list[at].endpoint],
                         nodes->list[at].connect_to};
}

void node_text(const struct node *node, char into[NODE_TEXT_BYTES])
{
    size_t bytes = strlen(node->connect_to);
    if (bytes == 0) {
        (void)snprintf(into, NODE_TEXT_BYTES, "%s", node->url);
        return;
    }
    (void)snprintf(into, NODE_TEXT_BYTES, "%s (%.*s)", node->url, (int)bytes - 3,
                   node->connect_to + 2);
}
