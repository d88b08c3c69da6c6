/* See second.h. */
#include "second.h"

#include "discover.h"
#include "fault.h"
#include "text.h"

#include <stdlib.h>
#include <string.h>

/* What the two requests share. It is freed by whichever ends last. */
struct second {
    pthread_mutex_t lock;
    pthread_cond_t ended;
    unsigned users;
    struct leafd *client;
    struct job job;
    struct node node;
    char url[URL_BYTES], connect_to[CONNECT_TO_BYTES];
    char path[TEXT_ENCODED_BYTES + 96];
    char key[TEXT_KEY_CHARS + 1];
    struct limits limits;
    struct line *first; /* to be woken; valid as long as the first one has not unneeded this */
    bool begun;         /* a thread will do it, or does, or has */
    bool done;
    atomic_bool good;     /* it has an answer of 200 to 299 */
    atomic_bool unneeded; /* the first one has its answer */
    struct line *line;    /* of the answer */
    struct answer answer;
};

static void leave_pair(struct second *second)
{
    bool last = --second->users == 0;
    pthread_mutex_unlock(&second->lock);
    if (last) {
        pthread_cond_destroy(&second->ended);
        pthread_mutex_destroy(&second->lock);
        free(second);
    }
}

static bool has_good(enum ask asked, const struct answer *answer)
{
    return asked == ASK_ANSWERED && answer->status >= 200 && answer->status <= 299;
}

/* The job. */
static void run_second(void *context)
{
    struct second *second = context;
    struct answer answer;
    struct request request = {.method = "GET", .path = second->path, .key = second->key};
    struct line *line = line_get(&second->client->lines);
    bool good = false;
    if (line != NULL) {
        COUNT(second->client, requests);
        good = has_good(line_ask(line, &second->node, &request, &second->limits, &answer), &answer);
    }
    pthread_mutex_lock(&second->lock);
    second->done = true;
    if (good && !atomic_load(&second->unneeded)) {
        second->line = line;
        second->answer = answer;
        atomic_store(&second->good, true);
        line_wake(second->first);
    } else if (line != NULL) {
        line_put(line);
    }
    pthread_cond_broadcast(&second->ended);
    leave_pair(second);
}

/* The first one has taken so long: called by the thread that waits for it. */
static void begin_second(void *context)
{
    struct second *second = context;
    pthread_mutex_lock(&second->lock);
    second->begun = client_start_job(second->client, &second->job);
    if (second->begun) {
        second->users++;
        COUNT(second->client, hedges);
    }
    pthread_mutex_unlock(&second->lock);
}

static struct second *make_pair(const struct call *call, struct node node, struct line *first,
                                const struct limits *limits)
{
    struct second *second = calloc(1, sizeof *second);
    size_t path_bytes = strlen(call->request.path) + 1;
    size_t key_bytes = strlen(call->request.key) + 1;
    if (second == NULL || path_bytes > sizeof second->path || key_bytes > sizeof second->key) {
        free(second);
        return NULL;
    }
    pthread_mutex_init(&second->lock, NULL);
    condition_init(&second->ended);
    second->users = 1;
    second->client = call->client;
    second->job = (struct job){.run = run_second, .context = second};
    memcpy(second->url, node.url, strlen(node.url) + 1);
    memcpy(second->connect_to, node.connect_to, strlen(node.connect_to) + 1);
    second->node = (struct node){second->url, second->connect_to};
    memcpy(second->path, call->request.path, path_bytes);
    memcpy(second->key, call->request.key, key_bytes);
    second->limits = *limits;
    second->limits.stop = &second->unneeded;
    second->first = first;
    return second;
}

enum ask second_ask(const struct call *call, const struct nodes *nodes, unsigned *at,
                    struct line **line, const struct limits *limits, struct answer *answer)
{
    char why[FOREIGN_BYTES];
    unsigned other = nodes_beside(nodes, *at);
    other = discover_foreign(call->client, nodes, other, why) == FOREIGN_NOT ? other : *at;
    struct node node = node_of(nodes, *at);
    struct second *second = other != *at && call->request.key != NULL
                                ? make_pair(call, node_of(nodes, other), *line, limits)
                                : NULL;
    if (second == NULL) {
        return line_ask(*line, &node, &call->request, limits, answer);
    }
    struct limits own = *limits;
    own.stop = &second->good;
    own.late_ns = now_ns() + client_patience_ns(call->client);
    own.late = begin_second;
    own.context = second;
    enum ask asked = line_ask(*line, &node, &call->request, &own, answer);
    pthread_mutex_lock(&second->lock);
    bool failed = asked == ASK_FAILED || (asked == ASK_ANSWERED && answer_is_elsewhere(answer));
    while (failed && second->begun && !second->done) {
        pthread_cond_wait(&second->ended, &second->lock);
    }
    if (failed && second->line != NULL) {
        line_put(*line);
        *line = second->line;
        *answer = second->answer;
        second->line = NULL;
        asked = ASK_ANSWERED;
    } else {
        other = *at;
    }
    atomic_store(&second->unneeded, true);
    if (second->line != NULL) {
        line_put(second->line);
    }
    leave_pair(second);
    client_leave_node(call->client, call->door, nodes, *at, other);
    *at = other;
    return asked;
}
