/*
 * cluster.h - asks the servers that were given until one answers, within a deadline.
 *
 * The happy path: cluster_new(), cluster_ask() for each request. It begins with the server that
 * answered last. Connections are kept; no redirect is followed and no proxy is asked.
 *
 * What is repeated: a request that cannot have been sent goes to the next server. One that may have
 * been carried out, and one that got 429 (but not `share`) or 503, is asked again, there or
 * elsewhere, until the deadline, unless it says `once`: changes by force, which a repeat would make
 * a second time after ids were handed out, are sent once. Then the result is CTL_UNKNOWN.
 *
 * A server is "host:port", or the same after "http://" or "https://". Where nothing says how to
 * ask, TLS is spoken if an authority or a certificate was given. A node has two listeners, and a
 * route is served at one of them. Which one an address is shows only by an answer: 404 other_door,
 * which also names the other one's address. That one is asked from then on, but not if it is a
 * loopback address of another machine: here that would be another node.
 *
 * Failure modes: an exit code with a text in the answer, which says what to do next; other codes of
 * HTTP than 2xx are failures. An answer beyond ANSWER_BODY_BYTES is one, unless a sink takes it.
 * Ownership: an answer is the caller's, answer_free(). Thread: one.
 */
#ifndef LEAFD_CTL_NET_CLUSTER_H
#define LEAFD_CTL_NET_CLUSTER_H

#include <jansson.h>
#include <stdbool.h>

#include "src/base/address.h"
#include "src/base/container.h"
#include "src/ctl/net/settings.h"
#include "src/ctl/out/out.h"

/* --- servers --- */

#define SERVERS_MAX 32

enum listener { LISTENER_IDS, LISTENER_ADMIN, LISTENERS };

struct server {
    char address[LIMIT_ADDRESS_BYTES + 16]; /* as it was given, without http:// */
    bool tls;
    bool is_not[LISTENERS];                              /* it answered other_door */
    char other[LISTENERS][LIMIT_ADDRESS_BYTES + 1];      /* what to ask instead, or empty */
    char elsewhere[LISTENERS][LIMIT_ADDRESS_BYTES + 96]; /* why that cannot be asked, or empty */
};

struct servers {
    struct server list[SERVERS_MAX];
    size_t count;
};

/* ERR_INVALID: *why names the address that is none. */
int servers_parse(struct servers *servers, const struct settings *settings,
                  struct buf *why) MUST_CHECK;

/* At which listener a target ("/api/tags?limit=1") is served. Health and metrics: at both. */
enum listener servers_listener(const char *target);

/* The address to ask there for this listener; NULL: none is known. */
const char *server_address(const struct server *server, enum listener listener);

/* It answered other_door with this message. True: server_address() has another one now. */
bool server_learn(struct server *server, enum listener listener, const char *message);

/* --- requests and answers --- */

#define ANSWER_BODY_BYTES (64 << 20)
#define ASK_PAUSE_MS 200 /* between two rounds of all servers */

/* Takes a body of status 200 piece by piece; false ends the exchange. */
struct ask_sink {
    bool (*take)(void *data, const void *bytes, size_t len);
    void *data;
} BY_NAME;

struct ask {
    const char *method; /* NULL: GET */
    const char *target;
    const char *body; /* JSON, NULL: none */
    const char *key;  /* Idempotency-Key; NULL: none */
    const struct ask_sink *sink;
    uint32_t timeout_ms; /* of all of it, with a sink without a byte; 0: as the settings have it */
    bool once;           /* it must not be sent twice */
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

/* The next request begins with the server after the one that answered last. */
void cluster_next(struct cluster *cluster);

const struct servers *cluster_servers(const struct cluster *cluster);

void answer_free(struct answer *answer);

/* One that is freed at the end of its block. */
#define ANSWER_LOCAL(name) struct answer name __attribute__((cleanup(answer_free))) = {0}

#endif
