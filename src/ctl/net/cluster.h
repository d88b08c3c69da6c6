/*
 * cluster.h - asks the servers until one answers, within a deadline.
 *
 * The happy path: cluster_new(), cluster_ask() for each request. It begins with the server that
 * answered last.
 *
 * What is repeated: a request that cannot have been sent goes to the next server. One that may have
 * been carried out, and one that got 429 (but not `share`) or 503, is asked again, there or
 * elsewhere, until the deadline, unless it says `once`: changes by force, which a repeat would make
 * a second time after ids were handed out, are sent once. Then the result is CTL_UNKNOWN.
 *
 * Failure modes: an exit code with a text in the answer, which says what to do next; other codes of
 * HTTP than 2xx are failures. Ownership: an answer is the caller's, answer_free(). Thread: one.
 */
#ifndef LEAFD_CTL_NET_CLUSTER_H
#define LEAFD_CTL_NET_CLUSTER_H

#include <jansson.h>

#include "src/ctl/net/exchange.h"
#include "src/ctl/net/servers.h"
#include "src/ctl/out/exit.h"

struct ask {
    const char *method; /* NULL: GET */
    const char *target;
    const char *body; /* JSON, NULL: none */
    size_t body_len;  /* 0: up to its NUL */
    const char *key;  /* Idempotency-Key */
    const struct exchange_sink *sink;
    uint32_t timeout_ms; /* 0: as the settings have it */
    bool once;
};

struct answer {
    long status;
    json_t *json; /* NULL: the body is none */
    struct buf body;
    char *server;     /* that answered, NULL: none */
    const char *code; /* of an error, in json; or "" */
    struct buf error; /* what to say of a failure, one line or more, not clean yet; ends with NUL */
    bool repeated;    /* it was sent more than once: an earlier one may have been carried out */
};

struct cluster;

/* NULL: a setting is wrong, and *why says which. settings: borrowed. */
struct cluster *cluster_new(const struct settings *settings, struct buf *why);
void cluster_free(struct cluster *cluster); /* NULL-safe */

enum ctl_exit cluster_ask(struct cluster *cluster, const struct ask *ask, struct answer *ret);

/* The same of one server alone, which is asked once. */
enum ctl_exit cluster_ask_one(struct cluster *cluster, size_t server, const struct ask *ask,
                              struct answer *ret);

/* The next request begins with the server behind the one that answered last. */
void cluster_next(struct cluster *cluster);

const struct servers *cluster_servers(const struct cluster *cluster);

void answer_free(struct answer *answer);

/* One that is freed at the end of its block. */
#define ANSWER_LOCAL(name) struct answer name __attribute__((cleanup(answer_free))) = {0}

/* A change under way is what another answer may know more of. */
#define ASK_PAUSE_MS 200 /* between two rounds of all servers */

#endif
