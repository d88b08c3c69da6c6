/*
 * cluster.h - the servers to ask, and with which identity; asks them until one answers, within a
 * deadline.
 *
 * The happy path: settings_set() for each flag; settings_load(), which takes settings that no flag
 * set from the environment (LEAFCTL_SERVER for --server, and so on) and the file, and checks the
 * files of secrets; cluster_new(), cluster_ask() for each request. A request begins with the server
 * that answered last. Connections are kept; redirects are not followed and proxies not used.
 *
 * The file is --config, LEAFCTL_CONFIG, or leafctl/config below XDG_CONFIG_HOME or ~/.config, with
 * lines NAME = VALUE and comments after '#'. It names files of secrets and contains none, so others
 * may read it. But a user that can write to it can send the token to another server: it must belong
 * to the user or to root, and no other user may write to it. A file with a token or a key must not
 * be readable by others. A token is never on the command line, where every user of the machine
 * could see it. Without a setting, the servers are the nodes that `make run` started in the current
 * folder, if it runs; otherwise SETTINGS_SERVER_DEFAULT.
 *
 * Repeats: a request that cannot have been sent goes to the next server. A request that may have
 * been carried out, or that got 429 (except `share`) or 503, is repeated, there or elsewhere, until
 * the deadline, unless it has `once`. Then the result is CTL_UNKNOWN. `once` is for changes by
 * force: a repeat after ids were handed out would make them a second time.
 *
 * A server is "host:port", or the same after "http://" or "https://". Without a scheme, TLS is used
 * if an authority or a certificate was given. A node has two listeners, and each route is at one of
 * them. Only an answer shows which one an address is: 404 other_door, which also names the other
 * listener's address. From then on that address is asked, unless it is a loopback address of
 * another machine: here that would be another node.
 *
 * Failure modes: of a setting, a text that names it, the value and the rule; of a request, an exit
 * code, with a text in the answer that includes the remedy. HTTP codes other than 2xx are failures;
 * so is an answer beyond ANSWER_BODY_BYTES, unless `take` has it. Ownership: the settings own
 * their texts; the caller owns an answer, answer_free(). Thread: one.
 */
#ifndef LEAFD_CTL_NET_CLUSTER_H
#define LEAFD_CTL_NET_CLUSTER_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "src/base/address.h"
#include "src/base/buf.h"
#include "src/base/container.h"
#include "src/base/err.h"

/* --- exit codes --- */

/* docs/leafctl.md explains each. 1 and 2 are those of monitoring plugins; the others follow
 * sysexits(3) where one fits. */
enum ctl_exit {
    CTL_DONE = 0,
    CTL_WARNING = 1,      /* `check` found a problem */
    CTL_CRITICAL = 2,     /* `check` found an urgent problem */
    CTL_NOT_FOUND = 4,    /* no such tag, member or worker id */
    CTL_USAGE = 64,       /* the command line, a setting or a file that it names is wrong */
    CTL_DATA = 65,        /* a file of data is damaged, or has rows that break a rule */
    CTL_UNREACHABLE = 69, /* no server answered; nothing was done */
    CTL_INTERNAL = 70,    /* a bug, here or in an answer */
    CTL_OUTPUT = 74,      /* output could not be written */
    CTL_UNKNOWN = 75,     /* no answer in time: the change may have been made, or continues */
    CTL_REFUSED = 76,     /* the cluster refused */
    CTL_DENIED = 77       /* a token, a role or the right listener is missing */
};

/* --- settings --- */

enum setting {
    SETTING_SERVER,
    SETTING_CA,
    SETTING_CERT,
    SETTING_KEY,
    SETTING_TOKEN_FILE,
    SETTING_TIMEOUT,
    SETTING_CONFIG,
    SETTINGS
};

#define SETTINGS_SERVER_DEFAULT "127.0.0.1:9080,127.0.0.1:8080"
#define SETTINGS_LOCAL "data" /* where `make run` keeps its cluster */
#define SETTINGS_TIMEOUT_DEFAULT_MS 10000
#define SETTINGS_TIMEOUT_MAX_S 3600
#define SETTINGS_FILE_BYTES (64 << 10) /* of any file that is read; more: refused */
#define SETTINGS_TOKEN_BYTES 4096      /* a longer token is refused */
/* Of "-" where a file is to be named, except one with rows for `import`. */
#define SETTINGS_NO_STREAM                                                                         \
    "\"-\" does not mean standard input or output here: name a file; one of that name is ./-"

struct settings {
    char *values[SETTINGS]; /* NULL: not set */
    char *token;            /* NULL: none */
    uint32_t timeout_ms;
    bool local; /* the servers are the nodes that `make run` started in this folder */
};

/* An option, for help and documents. */
struct option_about {
    const char *name;  /* "prefix"; NULL: the end of the list */
    char letter;       /* 'n' for -n; 0: none */
    const char *value; /* "TEXT"; NULL: no value */
    const char *text;
};

/* Options of every command: the settings in their order, then --json. */
extern const struct option_about SETTINGS_ABOUT[];

/* From a flag. */
void settings_set(struct settings *settings, enum setting setting, const char *value);

/* Load all settings that no flag has set. 0, or ERR_INVALID with *why. */
int settings_load(struct settings *settings, struct buf *why) MUST_CHECK;

void settings_free(struct settings *settings);

/* --- servers --- */

#define SERVERS_MAX 32

enum listener { LISTENER_IDS, LISTENER_ADMIN, LISTENERS };

#define SERVER_BYTES (LIMIT_ADDRESS_BYTES + 16)

struct server {
    char address[SERVER_BYTES]; /* as given, without http:// */
    bool tls;
    bool has_learnt[LISTENERS];       /* it answered other_door */
    char at[LISTENERS][SERVER_BYTES]; /* the address to ask for this listener; empty: not known */
};

struct servers {
    struct server list[SERVERS_MAX];
    size_t count;
};

/* ERR_INVALID: *why names the invalid address. */
int servers_parse(struct servers *servers, const struct settings *settings,
                  struct buf *why) MUST_CHECK;

/* The listener that serves a target ("/api/tags?limit=1"). Health and metrics: both. */
enum listener servers_listener(const char *target);

/* The server answered other_door with this message. True: server->at has changed; false: *why says
 * why there is nothing to ask. */
bool server_learn(struct server *server, enum listener listener, const char *message,
                  struct buf *why);

/* --- requests and answers --- */

#define ANSWER_BODY_BYTES (64 << 20)
#define ASK_PAUSE_MS 200 /* between two rounds of all servers */

struct ask {
    const char *method; /* NULL: GET */
    const char *target;
    const char *body; /* JSON, NULL: none */
    const char *key;  /* Idempotency-Key; NULL: none */
    /* Takes a body of status 200 piece by piece; false ends the exchange. NULL: nothing does. */
    bool (*take)(void *data, const void *bytes, size_t len);
    void *data;           /* of take */
    uint32_t timeout_ms;  /* for the whole request; with take, without a byte received; 0: the
                             settings' */
    bool once;            /* the request must not be sent twice */
    const size_t *server; /* the only one asked, and once; NULL: all, until one answers */
};

struct answer {
    long status;
    json_t *json; /* NULL: the body is not JSON */
    struct buf body;
    char *server;     /* that answered, NULL: none */
    const char *code; /* of an error, in json; or "" */
    struct buf error; /* the text of a failure, one or more lines, not clean yet; ends with NUL */
    bool repeated;    /* the request was sent more than once: an earlier one may have been
                         carried out */
};

struct cluster {
    const struct settings *settings;
    struct servers servers;
    size_t last; /* the server that the next request begins with: the one that answered last */
    void *curl;
};

/* NULL: a setting is wrong; *why names it. settings: borrowed. */
struct cluster *cluster_new(const struct settings *settings, struct buf *why);
void cluster_free(struct cluster *cluster); /* NULL-safe */

enum ctl_exit cluster_ask(struct cluster *cluster, const struct ask *ask, struct answer *ret);

void answer_free(struct answer *answer);

/* An answer that is freed at the end of its block. */
#define ANSWER_LOCAL(name) struct answer name __attribute__((cleanup(answer_free))) = {0}

#endif
