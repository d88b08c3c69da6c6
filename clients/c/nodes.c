/* See nodes.h. */
#include "nodes.h"

#include "client.h"
#include "fault.h"
#include "text.h"

#include <arpa/inet.h>
#include <arpa/nameser.h>
#include <netdb.h>
#include <netinet/in.h>
#include <resolv.h>
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

static void add_node(struct nodes *nodes, unsigned endpoint, const char *url,
                     const char *connect_to)
{
    if (nodes->count < NODES_MAX) {
        struct listed_node *node = &nodes->list[nodes->count++];
        node->endpoint = endpoint;
        node->tier = LAST_TIER;
        (void)snprintf(node->url, sizeof node->url, "%s", url);
        (void)snprintf(node->connect_to, sizeof node->connect_to, "%s", connect_to);
    }
}

/* The addresses of a name; false: there are none, or nobody knows. */
static bool add_addresses(struct nodes *nodes, unsigned endpoint, const char *url, const char *host)
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
            add_node(nodes, endpoint, url, to);
        }
    }
    freeaddrinfo(found);
    return nodes->count > before;
}

static unsigned get_16(const unsigned char *at)
{
    return (unsigned)at[0] << 8 | at[1];
}

/* The hosts and ports of an SRV record; its priorities and weights are not used. False: there are
 * none, or nobody knows. */
static bool add_services(struct nodes *nodes, unsigned endpoint, const char *url, const char *name)
{
    enum { HEAD_BYTES = 12, QUESTION_BYTES = 4, RECORD_BYTES = 10, SRV = 33, SRV_BYTES = 6 };
    unsigned char text[NS_MAXMSG];
    unsigned before = nodes->count;
    int bytes = res_query(name, ns_c_in, SRV, text, sizeof text);
    if (bytes < HEAD_BYTES || bytes > (int)sizeof text) {
        return false;
    }
    unsigned questions = get_16(text + 4), records = questions + get_16(text + 6);
    const unsigned char *at = text + HEAD_BYTES, *end = text + bytes;
    for (unsigned i = 0; i < records; i++) {
        int skip = dn_skipname(at, end), fixed = i < questions ? QUESTION_BYTES : RECORD_BYTES;
        if (skip < 0 || end - at - skip < fixed) {
            break;
        }
        at += skip + fixed;
        unsigned data_bytes = i < questions ? 0 : get_16(at - 2);
        char host[NS_MAXDNAME], node[URL_BYTES];
        if (data_bytes > end - at) {
            break;
        }
        if (data_bytes > SRV_BYTES && get_16(at - RECORD_BYTES) == SRV &&
            dn_expand(text, end, at + SRV_BYTES, host, sizeof host) > 0 && strlen(host) < 256 &&
            text_is_visible(host, 255) && strpbrk(host, "/?#@:\\\"'<>{}|^`[]") == NULL) {
            (void)snprintf(node, sizeof node, "%.*s://%.255s:%u", (int)strcspn(url, "+"), url, host,
                           get_16(at + 4));
            add_node(nodes, endpoint, node, "");
        }
        at += data_bytes;
    }
    return nodes->count > before;
}

static void look_up(const struct resolving *work, struct nodes *nodes)
{
    for (unsigned i = 0; i < work->endpoints.count; i++) {
        char host[URL_BYTES];
        const char *url = work->endpoints.urls[i];
        read_host(url, host);
        bool is_srv = strstr(url, "+srv://") != NULL;
        if (is_srv ? add_services(nodes, i, url, host)
                   : is_name(host) && add_addresses(nodes, i, url, host)) {
            continue;
        }
        for (unsigned n = 0; n < work->old->count + work->old->hidden; n++) {
            const struct listed_node *old = &work->old->list[n];
            if (old->endpoint == i) {
                add_node(nodes, i, old->url, old->connect_to);
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

/* --- the list of a door --- */

void place_of(const struct listed_node *node, char into[PLACE_BYTES])
{
    const char *host = strstr(node->url, "://") + 3;
    const char *port = strrchr(host, ':');
    if (port == NULL || strchr(port, ']') != NULL) {
        port = strncmp(node->url, "https:", 6) == 0 ? ":443" : ":80";
    }
    size_t host_bytes = *host == '[' ? strcspn(host, "]") + 1 : strcspn(host, ":");
    if (node->connect_to[0] != 0) { /* "::ADDRESS:" */
        host = node->connect_to + 2;
        host_bytes = strlen(host) - 1;
    }
    (void)snprintf(into, PLACE_BYTES, "%.*s%s", (int)host_bytes, host, port);
}

/* Where the list has a node of that place; count: nowhere. */
static unsigned find_place(const struct nodes *nodes, unsigned count, const char *place)
{
    unsigned at = 0;
    char one[PLACE_BYTES];
    while (at < count) {
        place_of(&nodes->list[at], one);
        if (strcmp(one, place) == 0) {
            break;
        }
        at++;
    }
    return at;
}

/* Both parts, of which endpoints that are listed as well are hidden. */
static void combine(struct nodes *all, const struct nodes *listed, const struct nodes *endpoints)
{
    char place[PLACE_BYTES];
    for (unsigned i = 0; i < listed->count && all->count < LISTED_MAX; i++) {
        if (listed->list[i].endpoint == LISTED) {
            all->list[all->count++] = listed->list[i];
        }
    }
    unsigned listed_count = all->count, used = all->count;
    for (int hidden = 0; hidden < 2; hidden++) {
        for (unsigned i = 0; i < endpoints->count + endpoints->hidden && used < NODES_MAX; i++) {
            place_of(&endpoints->list[i], place);
            bool twice = find_place(all, listed_count, place) < listed_count;
            if (endpoints->list[i].endpoint != LISTED && twice == (hidden == 1)) {
                all->list[used++] = endpoints->list[i];
            }
        }
        all->count = hidden == 0 ? used : all->count;
    }
    all->hidden = used - all->count;
}

/* The node of that place becomes the first of its tier, since it is kept to. */
static unsigned keep_place(struct nodes *nodes, const char *place, unsigned otherwise)
{
    unsigned at = find_place(nodes, nodes->count, place), first = at;
    if (at == nodes->count) {
        return otherwise;
    }
    while (first > 0 && nodes->list[first - 1].tier == nodes->list[at].tier) {
        first--;
    }
    struct listed_node kept = nodes->list[at];
    nodes->list[at] = nodes->list[first];
    nodes->list[first] = kept;
    return first;
}

unsigned nodes_in_tier(const struct nodes *nodes, unsigned at)
{
    unsigned count = 0;
    for (unsigned i = 0; i < nodes->count; i++) {
        count += nodes->list[i].tier == nodes->list[at].tier;
    }
    return count;
}

bool door_set(struct door *door, const struct nodes *part, bool are_listed, unsigned chosen,
              char texts[2][NODE_TEXT_BYTES])
{
    struct nodes *all = calloc(1, sizeof *all);
    if (all == NULL) {
        return false; /* the list stays */
    }
    all->users = 1;
    pthread_mutex_lock(&door->lock);
    struct nodes *before = door->nodes;
    combine(all, are_listed ? part : before, are_listed ? before : part);
    all->serial = before->serial + 1;
    char place[PLACE_BYTES];
    struct node old = node_of(before, door->current);
    place_of(&before->list[door->current], place);
    node_text(&old, texts[0]);
    if (chosen < all->count) {
        char other[PLACE_BYTES];
        place_of(&all->list[chosen], other);
        chosen = keep_place(all, other, chosen);
    } else {
        unsigned any = (unsigned)(now_ns() >> 10) % nodes_in_tier(all, 0);
        chosen = keep_place(all, place, any);
    }
    struct node fresh = node_of(all, chosen);
    node_text(&fresh, texts[1]);
    door->nodes = all; /* first: a fork at any moment finds a list */
    door->current = chosen;
    drop_nodes(before);
    pthread_cond_broadcast(&door->changed);
    pthread_mutex_unlock(&door->lock);
    return strcmp(texts[0], texts[1]) != 0;
}

unsigned nodes_beside(const struct nodes *nodes, unsigned at)
{
    unsigned other = at;
    do {
        other = (other + 1) % nodes->count;
    } while (nodes->list[other].tier != nodes->list[at].tier);
    return other;
}

bool door_leave(struct door *door, const struct nodes *nodes, unsigned from, unsigned to)
{
    char texts[2][PLACE_BYTES];
    place_of(&nodes->list[from], texts[0]);
    place_of(&nodes->list[to], texts[1]);
    pthread_mutex_lock(&door->lock);
    const struct nodes *now = door->nodes;
    unsigned at = find_place(now, now->count, texts[1]);
    char asked[PLACE_BYTES];
    place_of(&now->list[door->current], asked);
    bool leaves = from != to && at < now->count && strcmp(asked, texts[0]) == 0;
    if (leaves) {
        door->current = at;
    }
    pthread_mutex_unlock(&door->lock);
    return leaves;
}

static void *resolve_names(void *context)
{
    struct resolving *work = context;
    struct nodes *nodes = calloc(1, sizeof *nodes);
    if (nodes != NULL) {
        look_up(work, nodes);
    }
    pthread_mutex_lock(&work->lock);
    struct door *door = work->door;
    if (door == NULL) {
        free(nodes);
        leave_work(work, 1);
        return NULL;
    }
    char texts[2][NODE_TEXT_BYTES];
    if (nodes != NULL) {
        (void)door_set(door, nodes, false, NODES_MAX, texts);
        free(nodes);
    }
    pthread_mutex_lock(&door->lock);
    door->resolved_ns = now_ns();
    bool left = door->resolving == work; /* else door_release() has taken it, and waits */
    door->resolving = NULL;
    pthread_cond_broadcast(&door->changed);
    pthread_mutex_unlock(&door->lock);
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
        add_node(nodes, i, endpoints->urls[i], "");
    }
    door_forget(door, random);
    return true;
}

void door_forget(struct door *door, unsigned random)
{
    door->current = random % nodes_in_tier(door->nodes, 0);
    pthread_mutex_init(&door->lock, NULL);
    condition_init(&door->changed);
    door->resolving = NULL;
    door->resolved_ns = 0;
    door->discovery.asking = door->discovery.ended = door->discovery.drawn = false;
    door->discovery.asked_ns = 0;
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

struct nodes *door_nodes(struct door *door, bool failed, uint64_t wait_ms, unsigned *at)
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
    if (at != NULL) {
        *at = door->current;
    }
    pthread_mutex_unlock(&door->lock);
    return nodes;
}

void nodes_put(struct door *door, struct nodes *nodes)
{
    pthread_mutex_lock(&door->lock);
    drop_nodes(nodes);
    pthread_mutex_unlock(&door->lock);
}

struct node node_of(const struct nodes *nodes, unsigned at)
{
    const struct listed_node *node = &nodes->list[at % nodes->count];
    return (struct node){node->url, node->connect_to};
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
