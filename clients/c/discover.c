/* See discover.h. A job asks one node after another for a listing, then each node of the listing
 * that is not known yet. Until that has shown what it is, it gets no other request. */
#include "discover.h"

#include "fault.h"
#include "text.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

enum {
    AGAIN_MS = 5000,        /* of use */
    OLDER_AGAIN_MS = 60000, /* where no node knows the request */
    ASK_MS = 1000,          /* one node */
    ASK_ALL_MS = 5000,      /* in all, for a listing, and then for the nodes of it */
    WEIGHT_MAX = 1000,
    ADDRESS_CHARS = 255
};

/* A row of a listing. */
struct row {
    long long id;
    const char *address; /* "host:port"; borrowed from the JSON */
    unsigned tier;
    uint64_t weight; /* 0: it was taken */
};

struct listing {
    json_t *json;
    long long self;
    const char *uid; /* of the cluster; borrowed from the JSON; NULL: it has none */
    size_t count;
    struct row *rows;
};

/* The nodes of a listing as they become those of the door. */
struct draw {
    const struct listing *listing;
    const char *scheme; /* "http" or "https" */
    struct nodes *nodes;
    bool met[LISTED_MAX]; /* it has shown what it is */
    unsigned chosen;      /* which is asked from now on; NODES_MAX: as before */
    unsigned now_tier;    /* of the node that is asked now; above LAST_TIER: of none of these */
};

static uint64_t random_below(uint64_t end)
{
    uint64_t number;
    while (getrandom(&number, sizeof number, 0) != (ssize_t)sizeof number) {
    }
    return number % end;
}

/* --- reading a listing --- */

/* host:port, and nothing that means more in a URL. */
static bool is_address(const char *text)
{
    const char *port = text != NULL ? strrchr(text, ':') : NULL;
    uint64_t number;
    if (port == NULL || port == text || !text_is_visible(text, ADDRESS_CHARS) ||
        strpbrk(text, "/?#@\\\"'<>{}|^`,%") != NULL ||
        !text_to_number(port + 1, 1, 65535, &number)) {
        return false;
    }
    const char *colon = strchr(text, ':');
    return *text == '[' ? port[-1] == ']' : colon == port;
}

static bool read_row(const struct leafd *client, const struct door *door, json_t *json,
                     struct row *row)
{
    const json_t *weight = json_object_get(json, "weight");
    const char *state = json_string_value(json_object_get(json, "state"));
    const char *zone = json_string_value(json_object_get(json, "zone"));
    row->id = json_integer_value(json_object_get(json, "id"));
    row->address = json_string_value(json_object_get(json, "http_address"));
    if (row->id < 1 || !is_address(row->address) || state == NULL || !json_is_integer(weight) ||
        json_integer_value(weight) < 0 || json_integer_value(weight) > WEIGHT_MAX) {
        return false;
    }
    row->weight = (uint64_t)json_integer_value(weight);
    bool serves =
        strcmp(state, "ready") == 0 && row->weight > 0 &&
        !(door->discovery.for_snowflake && json_is_false(json_object_get(json, "snowflake")));
    bool own =
        client->settings.zone[0] == 0 || (zone != NULL && strcmp(zone, client->settings.zone) == 0);
    row->tier = !serves ? LAST_TIER : own ? 1 : 2;
    row->weight += row->weight == 0;
    return true;
}

static void listing_free(struct listing *listing)
{
    free(listing->rows);
    json_decref(listing->json);
}

/* False: it is none. True: for listing_free(). */
static bool read_listing(const struct leafd *client, const struct door *door,
                         const struct answer *answer, struct listing *listing)
{
    json_t *json = json_loadb(answer->body, answer->body_bytes, 0, NULL);
    json_t *rows = json_object_get(json, "nodes");
    size_t count = json_array_size(rows);
    *listing = (struct listing){
        .json = json,
        .self = json_integer_value(json_object_get(json, "self")),
        .uid = json_string_value(json_object_get(json, "uid")),
        .rows = calloc(count + 1, sizeof *listing->rows),
    };
    for (size_t i = 0; listing->rows != NULL && i < count; i++) {
        struct row *row = &listing->rows[listing->count];
        listing->count += read_row(client, door, json_array_get(rows, i), row);
    }
    if (listing->count == 0 || listing->self < 1) {
        listing_free(listing);
        return false;
    }
    return true;
}

/* Where the others have a node, or a free place (""); NODES_MAX: nowhere. Under the client's
 * lock. */
static unsigned other_at(const struct known_cluster *cluster, const char *node)
{
    unsigned at = 0;
    while (at < NODES_MAX && strcmp(cluster->others[at].node, node) != 0) {
        at++;
    }
    return at;
}

/* Is it of another cluster than the client's, which is that of the first listing with a uid?
 * learns: this may be the first. */
static bool is_foreign(struct leafd *client, const struct node *node, const char *uid, bool learns)
{
    struct known_cluster *cluster = &client->cluster;
    char text[NODE_TEXT_BYTES];
    bool has = uid != NULL && text_is_visible(uid, UID_BYTES - 1);
    pthread_mutex_lock(&client->lock);
    if (has && learns && cluster->uid[0] == 0) {
        (void)snprintf(cluster->uid, sizeof cluster->uid, "%s", uid);
        atomic_store(&cluster->whole, true);
    }
    bool foreign = has && cluster->uid[0] != 0 && strcmp(cluster->uid, uid) != 0;
    node_text(node, text);
    unsigned at = other_at(cluster, text);
    if (at < NODES_MAX) {
        cluster->others[at].node[0] = 0;
    }
    if (foreign) {
        at = other_at(cluster, "");
        memmove(&cluster->others[1], cluster->others,
                (at < NODES_MAX ? at : NODES_MAX - 1) * sizeof cluster->others[0]);
        memcpy(cluster->others[0].node, text, sizeof text);
        (void)snprintf(cluster->others[0].uid, UID_BYTES, "%s", uid);
    }
    bool tells = foreign && !cluster->told;
    cluster->told |= foreign;
    pthread_mutex_unlock(&client->lock);
    if (tells) {
        client_event(client, (struct leafd_event){.kind = "other_cluster", .from = text});
    }
    return foreign;
}

/* The uid of the other cluster that the node is of; NULL: it is not. Under the client's lock. */
static const char *other_of(const struct leafd *client, const struct nodes *nodes, unsigned at)
{
    char text[NODE_TEXT_BYTES];
    struct node node = node_of(nodes, at);
    node_text(&node, text);
    unsigned other = other_at(&client->cluster, text);
    return other < NODES_MAX ? client->cluster.others[other].uid : NULL;
}

void discover_forget(struct leafd *client)
{
    struct known_cluster *cluster = &client->cluster;
    if (!atomic_load(&cluster->whole)) {
        cluster->uid[0] = 0;
    }
    cluster->told = false;
    memset(cluster->others, 0, sizeof cluster->others);
}

enum foreign discover_foreign(struct leafd *client, const struct nodes *nodes, unsigned at,
                              char why[FOREIGN_BYTES])
{
    enum foreign foreign = FOREIGN_NOT;
    pthread_mutex_lock(&client->lock);
    const char *uid = client->cluster.told ? other_of(client, nodes, at) : NULL;
    if (uid != NULL) {
        (void)snprintf(why, FOREIGN_BYTES, "cluster %s, and this client's is %s", uid,
                       client->cluster.uid);
        foreign = FOREIGN_ALL;
        for (unsigned i = 0; i < nodes->count; i++) {
            foreign = other_of(client, nodes, i) != NULL ? foreign : FOREIGN_ONE;
        }
    }
    pthread_mutex_unlock(&client->lock);
    return foreign;
}

enum heard { HEARD_LISTING, HEARD_OLDER, HEARD_NOTHING };

/* Ask one node. learns: which cluster the client's is, if that is not known yet. */
static enum heard ask_listing(struct leafd *client, const struct door *door,
                              const struct node *node, bool learns, struct listing *listing)
{
    struct line *line = line_get(&client->lines);
    struct answer answer;
    struct request request = {.method = "GET", .path = "/api/nodes"};
    uint64_t now = now_ns(), connect_ms = client->settings.connect_ms;
    struct limits limits = {
        .connected_ns = now + (connect_ms < ASK_MS ? connect_ms : ASK_MS) * NS_PER_MS,
        .until_ns = now + (uint64_t)ASK_MS * NS_PER_MS,
    };
    if (line == NULL) {
        return HEARD_NOTHING;
    }
    enum heard heard = HEARD_NOTHING;
    if (line_ask(line, node, &request, &limits, &answer) == ASK_ANSWERED) {
        bool good = answer.status == 200 && read_listing(client, door, &answer, listing);
        if (good && is_foreign(client, node, listing->uid, learns)) {
            listing_free(listing);
            good = false;
        }
        heard = good ? HEARD_LISTING : answer.status == 404 ? HEARD_OLDER : HEARD_NOTHING;
    }
    line_put(line);
    return heard;
}

/* --- drawing --- */

/* One of the rows of a tier that were not taken, by chance and weight; NULL: all were. */
static struct row *draw_row(const struct listing *listing, unsigned tier)
{
    uint64_t total = 0;
    for (size_t i = 0; i < listing->count; i++) {
        total += listing->rows[i].tier == tier ? listing->rows[i].weight : 0;
    }
    uint64_t at = total > 0 ? random_below(total) : 0;
    for (size_t i = 0; i < listing->count && total > 0; i++) {
        struct row *row = &listing->rows[i];
        uint64_t weight = row->tier == tier ? row->weight : 0;
        if (at < weight) {
            return row;
        }
        at -= weight;
    }
    return NULL;
}

/* The rows become nodes, by tier. */
static void draw_nodes(struct draw *draw)
{
    struct nodes *nodes = draw->nodes;
    for (unsigned tier = 1; tier <= LAST_TIER && nodes->count < LISTED_MAX; tier++) {
        struct row *row;
        while (nodes->count < LISTED_MAX && (row = draw_row(draw->listing, tier)) != NULL) {
            struct listed_node *node = &nodes->list[nodes->count++];
            node->endpoint = LISTED;
            node->tier = tier;
            node->id = row->id;
            (void)snprintf(node->url, sizeof node->url, "%s://%s", draw->scheme, row->address);
            row->weight = 0;
        }
    }
}

/* Is the node that answered with other what listing says of it: of that number, and of the same
 * cluster, since both know a third node by the same address? */
static bool is_same(const struct listing *listing, const struct listing *other, long long id)
{
    for (size_t i = 0; other->self == id && i < listing->count; i++) {
        for (size_t k = 0; listing->rows[i].id != id && k < other->count; k++) {
            if (other->rows[k].id == listing->rows[i].id &&
                strcmp(other->rows[k].address, listing->rows[i].address) == 0) {
                return true;
            }
        }
    }
    return false;
}

/* Those that were met before, or have just been asked, and which of them is asked now. */
static void know_again(struct draw *draw, const struct door *door, const struct nodes *known,
                       unsigned current, unsigned asked)
{
    char place[PLACE_BYTES], one[PLACE_BYTES];
    draw->now_tier = LAST_TIER + 1;
    for (unsigned i = 0; i < draw->nodes->count; i++) {
        const struct listed_node *node = &draw->nodes->list[i];
        place_of(node, place);
        for (unsigned k = 0; k < known->count; k++) {
            place_of(&known->list[k], one);
            if (strcmp(place, one) != 0) {
                continue;
            }
            bool was_listed = known->list[k].endpoint == LISTED && known->list[k].id == node->id;
            draw->met[i] |= was_listed || (k == asked && node->id == draw->listing->self);
            if (k == current && draw->met[i] && door->discovery.drawn) {
                draw->now_tier = node->tier;
            }
        }
    }
}

/* The nodes that were met become the door's. */
static void publish(struct leafd *client, struct door *door, const struct draw *draw)
{
    struct nodes *met = calloc(1, sizeof *met);
    char texts[2][NODE_TEXT_BYTES];
    unsigned chosen = NODES_MAX;
    if (met == NULL) {
        return;
    }
    for (unsigned i = 0; i < draw->nodes->count; i++) {
        if (draw->met[i]) {
            chosen = i == draw->chosen ? met->count : chosen;
            met->list[met->count++] = draw->nodes->list[i];
        }
    }
    bool moved = door_set(door, met, true, chosen, texts);
    free(met);
    pthread_mutex_lock(&door->lock);
    bool told = door->discovery.drawn && moved;
    door->discovery.drawn |= chosen < NODES_MAX;
    pthread_cond_broadcast(&door->changed);
    pthread_mutex_unlock(&door->lock);
    if (told) {
        COUNT(client, failovers);
        client_event(client,
                     (struct leafd_event){.kind = "failover", .from = texts[0], .to = texts[1]});
    }
}

/* Ask the nodes that are not known yet; and, where calls go to a worse tier, those of better ones
 * until one answers, to which they go then. */
static void meet(struct leafd *client, struct door *door, struct draw *draw, long long answered)
{
    uint64_t until_ns = now_ns() + (uint64_t)ASK_ALL_MS * NS_PER_MS;
    struct nodes *nodes = draw->nodes;
    draw->chosen = NODES_MAX;
    for (unsigned i = 0; i < nodes->count; i++) {
        bool better = draw->chosen == NODES_MAX && nodes->list[i].tier < draw->now_tier;
        bool fresh = draw->met[i] && nodes->list[i].id == answered;
        bool asks = !fresh && (better || !draw->met[i]) && nodes->list[i].tier < LAST_TIER;
        struct listing other;
        struct node node = node_of(nodes, i);
        if (asks && now_ns() < until_ns && !atomic_load(&client->closed) &&
            ask_listing(client, door, &node, false, &other) == HEARD_LISTING) {
            fresh = is_same(draw->listing, &other, nodes->list[i].id);
            draw->met[i] |= fresh;
            listing_free(&other);
        }
        if (better && fresh) {
            draw->chosen = i;
        }
        if (i + 1 == nodes->count || nodes->list[i + 1].tier != nodes->list[i].tier) {
            publish(client, door, draw);
            /* Calls that leave it from now on are not brought back. */
            draw->now_tier = draw->chosen < NODES_MAX ? 0 : draw->now_tier;
            draw->chosen = NODES_MAX;
        }
    }
}

/* --- the job --- */

/* Of those that are known calls go to current, and asked has answered with the listing. */
static void take_listing(struct leafd *client, struct door *door, const struct nodes *known,
                         unsigned current, unsigned asked, const struct listing *listing)
{
    const char *url = known->list[asked].url;
    struct draw draw = {
        .listing = listing,
        .scheme = strncmp(url, "https:", 6) == 0 ? "https" : "http",
        .nodes = calloc(1, sizeof *draw.nodes),
    };
    if (draw.nodes == NULL) {
        return;
    }
    draw_nodes(&draw);
    know_again(&draw, door, known, current, asked);
    meet(client, door, &draw, listing->self);
    free(draw.nodes);
}

static void discover(void *context)
{
    struct door *door = context;
    struct leafd *client = door->discovery.client;
    unsigned first;
    struct nodes *known = door_nodes(door, false, client->settings.connect_ms, &first);
    uint64_t until_ns = now_ns() + (uint64_t)ASK_ALL_MS * NS_PER_MS;
    enum heard heard = HEARD_NOTHING;
    bool older = false;
    for (unsigned i = 0; heard != HEARD_LISTING && i < known->count && now_ns() < until_ns; i++) {
        struct listing listing;
        unsigned at = (first + i) % known->count;
        struct node node = node_of(known, at);
        heard = ask_listing(client, door, &node, true, &listing);
        older = older || heard == HEARD_OLDER;
        if (heard == HEARD_LISTING) {
            take_listing(client, door, known, first, at, &listing);
            listing_free(&listing);
        }
    }
    older = older && heard != HEARD_LISTING;
    if (older && door->discovery.drawn) {
        char texts[2][NODE_TEXT_BYTES];
        (void)door_set(door, &(struct nodes){.count = 0}, true, NODES_MAX, texts);
    }
    nodes_put(door, known);
    pthread_mutex_lock(&door->lock);
    door->discovery.drawn = door->discovery.drawn && !older;
    door->discovery.again_ns = (uint64_t)(older ? OLDER_AGAIN_MS : AGAIN_MS) * NS_PER_MS;
    door->discovery.asking = false;
    door->discovery.ended = true;
    pthread_cond_broadcast(&door->changed);
    pthread_mutex_unlock(&door->lock);
}

void discover_nodes(struct leafd *client, struct door *door, bool failed, uint64_t first_ms)
{
    struct discovery *discovery = &door->discovery;
    if (!discovery->wanted) {
        return;
    }
    uint64_t now = now_ns();
    pthread_mutex_lock(&door->lock);
    bool first = !discovery->ended;
    if (!discovery->asking &&
        (discovery->asked_ns == 0 || now - discovery->asked_ns >= discovery->again_ns ||
         (failed && discovery->again_ns == (uint64_t)AGAIN_MS * NS_PER_MS))) {
        discovery->asked_ns = now;
        discovery->client = client;
        discovery->job.run = discover;
        discovery->job.context = door;
        discovery->job.is_urgent = true;
        discovery->asking = client_start_job(client, &discovery->job);
    }
    uint64_t until_ns = now + (first ? first_ms : client->settings.connect_ms) * NS_PER_MS;
    uint32_t serial = door->nodes->serial;
    while (discovery->asking &&
           (first ? !discovery->drawn : failed && door->nodes->serial == serial) &&
           condition_wait(&door->changed, &door->lock, until_ns)) {
    }
    pthread_mutex_unlock(&door->lock);
}
