/*
 * listeners.c - see listeners.h.
 *
 * Thread: main, but for one_drained and the waiting_... functions of the backend.
 */
#include "src/node/listeners.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "http/resp/api/resp.h"
#include "src/base/address.h"
#include "src/base/assert.h"
#include "src/base/clock.h"
#include "src/base/limits.h"
#include "src/base/log.h"
#include "src/node/config/config.h"
#include "src/node/report.h"

/* --- the certificate --- */

/* An expired certificate is put in force too: a node that refuses to start serves no client. Alarms
 * report one that expires soon or has expired (http/watch/alarms.def). */
static void certificate_log(const struct tls_context *context)
{
    BUF_LOCAL(text);
    char quoted[400];

    tls_context_describe(context, &text);
    log_info("tls", "certificate in force", "certificate=%s",
             log_quote((const char *)text.data, text.len, quoted, sizeof quoted));
}

int certificate_start(struct certificate *certificate, const struct config *config)
{
    struct tls_context *context;
    struct config_error error;
    struct tls *tls;
    int rv;

    *certificate = (struct certificate){NULL, NULL};
    if (!tls_files_are_set(config)) {
        return 0;
    }
    tls = tls_new(clock_system());
    rv = tls_files_load(config, tls, &context, &error);
    if (rv != 0) {
        log_error("app", "the certificate cannot be used",
                  "reason=%s hint=\"--check-config reads the files, too\"",
                  LOG_QUOTED(error.text, LIMIT_PATH_BYTES + 77));
        tls_free(tls);
        return rv;
    }
    certificate_log(context);
    tls_commit(tls, context);
    certificate->tls = tls;
    return 0;
}

static int certificate_prepare(void *data, const struct config *next,
                               struct config_error *ret_error)
{
    struct certificate *certificate = data;

    ASSERT(certificate->next == NULL);
    if (tls_files_are_set(next) != (certificate->tls != NULL)) {
        return config_fail(ret_error, "http.tls-dir: TLS is switched %s by a restart alone",
                           certificate->tls == NULL ? "on" : "off");
    }
    return certificate->tls == NULL
               ? 0
               : tls_files_load(next, certificate->tls, &certificate->next, ret_error);
}

static void certificate_commit(void *data, struct buf *ret_changes)
{
    struct certificate *certificate = data;

    if (certificate->next != NULL) {
        certificate_log(certificate->next);
        buf_printf(ret_changes, "now ");
        tls_context_describe(certificate->next, ret_changes);
        tls_commit(certificate->tls, certificate->next);
        certificate->next = NULL;
    }
}

static void certificate_drop(void *data)
{
    struct certificate *certificate = data;

    tls_context_free(certificate->next);
    certificate->next = NULL;
}

const struct reload_part certificate_reload_part = {.name = "certificate",
                                                    .prepare = certificate_prepare,
                                                    .commit = certificate_commit,
                                                    .drop = certificate_drop};

void certificate_end(struct certificate *certificate)
{
    certificate_drop(certificate);
    tls_free(certificate->tls);
    certificate->tls = NULL;
}

/* --- open files --- */

#define OF_NODE 48 /* store, log, loops and signals of the node, and files opened briefly */
#define OF_LOOP 12 /* listeners, epoll, wake-ups, and a reserve to refuse with */

uint64_t files_kept(uint32_t loops)
{
    return LIMIT_PEER_CONNECTIONS + LIMIT_PEERS + OF_NODE +
           (uint64_t)loops * (OF_LOOP + LIMIT_HTTP_REFUSED);
}

static uint32_t bound(uint64_t left, uint32_t wanted)
{
    left = left > FILES_CONNECTIONS_MIN ? left : FILES_CONNECTIONS_MIN;
    return left < wanted ? (uint32_t)left : wanted;
}

void files_divide(uint64_t allowed, uint32_t loops, uint32_t wanted, uint32_t admin_wanted,
                  struct files_split *ret_split)
{
    uint64_t kept = files_kept(loops + (admin_wanted > 0));
    uint64_t left = allowed > kept ? allowed - kept : 0;

    ASSERT(loops > 0);
    ret_split->admin_connections = admin_wanted > 0 ? bound(left / 4, admin_wanted) : 0;
    left -= left > ret_split->admin_connections ? ret_split->admin_connections : left;
    ret_split->connections = bound(left / loops, wanted);
}

bool listeners_are_joined(const struct config *config)
{
    return strcmp(config->admin.listen, CONFIG_ADMIN_SAME) == 0;
}

bool files_bound(const struct config *config, struct files_split *ret_files)
{
    bool has_admin = !listeners_are_joined(config);
    uint32_t loops = config->http.loops + (has_admin ? config->admin.http.loops : 0);
    struct rlimit limit;
    struct rlimit raised;
    uint64_t least = OF_NODE + (uint64_t)loops * OF_LOOP;
    uint64_t allowed;

    /* As many open files as the system allows. */
    ASSERT(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    raised = (struct rlimit){limit.rlim_max, limit.rlim_max};
    if (limit.rlim_cur < limit.rlim_max && setrlimit(RLIMIT_NOFILE, &raised) == 0) {
        limit = raised;
    }
    allowed = limit.rlim_cur;
    if (allowed < least) {
        log_error("app",
                  "Too many open files: the system's limit for this process is too low to start",
                  "allowed=%" PRIu64 " needed=%" PRIu64
                  " exit_code=%d hint=\"raise it: LimitNOFILE of the unit, or ulimit -n\"",
                  allowed, least, EXIT_CODE_INTERNAL);
        return false;
    }
    files_divide(allowed, config->http.loops, config->http.connections,
                 has_admin ? config->admin.http.connections : 0, ret_files);
    log_info("app", "open files",
             "allowed=%" PRIu64 " kept=%" PRIu64 " http_loops=%" PRIu32 " http_connections=%" PRIu32
             " admin_connections=%" PRIu32,
             allowed, files_kept(loops), config->http.loops, ret_files->connections,
             ret_files->admin_connections);
    if (ret_files->connections < config->http.connections) {
        log_warn("app", "the system allows fewer open files than all connections would need",
                 "each_loop=%" PRIu32 " wanted=%" PRIu32, ret_files->connections,
                 config->http.connections);
    }
    return true;
}

/* --- threads --- */

#define POOL_THREADS 4 /* libuv's default */
#define POOL_THREADS_MAX 1024

static void *wait_cb(void *data)
{
    ASSERT(pthread_mutex_lock(data) == 0);
    ASSERT(pthread_mutex_unlock(data) == 0);
    return NULL;
}

static void nothing_cb(uv_work_t *work)
{
    (void)work;
}

/* How many of so many threads the system allows. */
static size_t allowed_threads(size_t wanted)
{
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_t *threads = MUST_HAVE(calloc(wanted, sizeof *threads));
    size_t count = 0;

    ASSERT(pthread_mutex_lock(&mutex) == 0);
    while (count < wanted && pthread_create(&threads[count], NULL, wait_cb, &mutex) == 0) {
        count++;
    }
    ASSERT(pthread_mutex_unlock(&mutex) == 0);
    for (size_t i = 0; i < count; i++) {
        ASSERT(pthread_join(threads[i], NULL) == 0);
    }
    free(threads);
    return count;
}

bool threads_bound(const struct config *config, uv_loop_t *loop, uv_work_t *work)
{
    const char *setting = getenv("UV_THREADPOOL_SIZE");
    size_t pool = setting != NULL ? strtoul(setting, NULL, 10) : POOL_THREADS;
    size_t loops =
        config->http.loops + (listeners_are_joined(config) ? 0 : config->admin.http.loops);
    size_t needed = 1 + loops + (pool < POOL_THREADS_MAX ? pool : POOL_THREADS_MAX);
    size_t allowed = allowed_threads(needed);

    if (allowed < needed) {
        log_error("app", "the system allows fewer threads than a node needs to start",
                  "allowed=%zu needed=%zu exit_code=%d hint=\"raise its limit of processes "
                  "(TasksMax of the unit, ulimit -u) or of memory for this process\"",
                  allowed, needed, EXIT_CODE_INTERNAL);
        return false;
    }
    return uv_queue_work(loop, work, nothing_cb, NULL) == 0;
}

/* --- tokens --- */

static int open_auth(struct listeners *listeners)
{
    const struct config *config = listeners->config;
    const struct auth_settings wanted = {
        .web = {.hosts = config->auth.hosts,
                .origins = config->auth.origins,
                .own = {config->http.listen_address, config->node.http_address,
                        listeners_are_joined(config) ? NULL : config->admin.listen}},
        .anonymous_roles = config->auth.anonymous_roles,
    };
    struct config_error error = {""};
    char why[TOKENS_WHY_BYTES];
    BUF_LOCAL(text);
    bool is_used = config->auth.tokens_file[0] != '\0';
    int rv = config_tokens_read(config, &text, &error);

    if (rv == 0) {
        rv = auth_new(&wanted, is_used ? (const char *)text.data : NULL, text.len, &listeners->auth,
                      why);
        if (rv != 0) {
            (void)config_fail(&error, "auth.tokens-file %s: %s", config->auth.tokens_file, why);
        }
    }
    if (rv != 0) {
        log_error("app", "the tokens cannot be used", "reason=%s", LOG_QUOTED(error.text, 500));
    }
    return rv;
}

static int prepare_tokens(void *data, const struct config *next, struct config_error *ret_error)
{
    struct listeners *listeners = data;
    char why[TOKENS_WHY_BYTES];
    BUF_LOCAL(text);
    int rv;

    (void)next; /* a new path needs a restart; new content does not */
    if (listeners->config->auth.tokens_file[0] == '\0') {
        return 0;
    }
    rv = config_tokens_read(listeners->config, &text, ret_error);
    if (rv == 0 && auth_prepare(listeners->auth, (const char *)text.data, text.len, why) != 0) {
        rv = config_fail(ret_error, "auth.tokens-file %s: %s", listeners->config->auth.tokens_file,
                         why);
    }
    return rv;
}

static void commit_tokens(void *data, struct buf *ret_changes)
{
    struct listeners *listeners = data;
    BUF_LOCAL(words);

    if (listeners->config->auth.tokens_file[0] == '\0') {
        return;
    }
    auth_commit(listeners->auth, &listeners->tokens_before, &listeners->tokens_after, &words);
    if (words.len > 0) {
        buf_printf(ret_changes, "%zu, there were %zu: %.*s", listeners->tokens_after,
                   listeners->tokens_before, (int)words.len, (const char *)words.data);
    }
}

static void drop_tokens(void *data)
{
    struct listeners *listeners = data;

    auth_drop(listeners->auth);
}

const struct reload_part listeners_reload_part = {
    .name = "tokens", .prepare = prepare_tokens, .commit = commit_tokens, .drop = drop_tokens};

/* --- open --- */

static int open_listener(struct listeners *listeners, const struct http_service *service,
                         const char *name)
{
    const struct http_settings *http = &listeners->settings[listeners->count];
    bool has_resp = http->resp_address[0] != '\0';
    int rv = http_server_start(http, service, &listeners->servers[listeners->count]);
    int number = errno;

    if (rv != 0) {
        log_error("app", "cannot start HTTP", "err=%s %s=%s%s%s reason=\"%s\" hint=\"%s\"",
                  err_code(rv), name, http->listen_address, has_resp ? " resp.listen=" : "",
                  http->resp_address, address_reason(rv, number), address_hint(rv, number));
        return rv;
    }
    listeners->count++;
    log_info("http", "listening", "%s=%s loops=%" PRIu32 " tls=%s", name, http->listen_address,
             http->loops, http->tls != NULL ? "true" : "false");
    if (has_resp) {
        log_info("http", "listening", "resp.listen=%s loops=%" PRIu32 " tls=%s", http->resp_address,
                 http->loops, http->resp_tls ? "true" : "false");
    }
    return 0;
}

int listeners_open(struct listeners *listeners, const struct config *config, struct tls *tls,
                   const struct http_build *build, struct id_backend *backend,
                   const struct files_split *files)
{
    bool is_joined = listeners_are_joined(config);
    bool has_resp = config->http.resp_address[0] != '\0';
    char text[ROLES_TEXT_BYTES];
    const char *roles = roles_text(config->auth.anonymous_roles, text);
    int rv;

    *listeners =
        (struct listeners){.config = config, .settings = {config->http, config->admin.http}};
    listeners->settings[0].tls = tls;
    listeners->settings[1].tls = tls;
    listeners->settings[0].connections = files->connections;
    listeners->settings[1].connections = files->admin_connections;
    rv = open_auth(listeners);
    if (rv != 0) {
        return rv;
    }
    listeners->api =
        api_new(&listeners->settings[0], build, backend, listeners->auth,
                has_resp ? &resp_talker : NULL, is_joined ? NULL : config->admin.listen);
    rv = open_listener(listeners, &listeners->api->ids.service, "http.listen");
    if (rv == 0 && !is_joined) {
        rv = open_listener(listeners, &listeners->api->admin.service, "admin.listen");
    }
    if (rv != 0) {
        listeners_close(listeners);
        return rv;
    }
    api_watch(listeners->api);
    if (is_joined) {
        log_info("http", "one listener: tags, members and all else are served with the ids",
                 "http.listen=%s admin.listen=" CONFIG_ADMIN_SAME, config->http.listen_address);
    }
    if (config->auth.tokens_file[0] != '\0') {
        log_info("http", "tokens are asked for", "tokens=%zu without_a_token=\"%s\"",
                 tokens_count(listeners->auth->table), roles);
    } else if (!address_is_loopback(config->http.listen_address) ||
               (!is_joined && !address_is_loopback(config->admin.listen)) ||
               (has_resp && !address_is_loopback(config->http.resp_address))) {
        log_warn("http", "there are no tokens: other machines may do all that needs none",
                 "without_a_token=\"%s\"", roles);
    }
    return 0;
}

/* --- the stop --- */

/* A server has no connection left. On one of its threads. */
static void one_drained(void *data)
{
    struct listeners *listeners = data;
    unsigned before = atomic_fetch_sub(&listeners->draining, 1);

    ASSERT(before > 0);
    if (before == 1) {
        listeners->drained(listeners->data);
    }
}

bool listeners_take_turns(struct listeners *listeners)
{
    bool all = true;

    for (unsigned i = 0; i < listeners->count; i++) {
        all = http_server_takes_turns(listeners->servers[i]) && all;
    }
    return all;
}

void listeners_retire(struct listeners *listeners, uint32_t over_ms)
{
    for (unsigned i = 0; i < listeners->count; i++) {
        http_server_retire(listeners->servers[i], over_ms);
    }
}

void listeners_drain(struct listeners *listeners, uint32_t grace_ms, void (*drained)(void *data),
                     void *data)
{
    ASSERT(listeners->count > 0);
    listeners->drained = drained;
    listeners->data = data;
    atomic_store(&listeners->draining, listeners->count);
    for (unsigned i = 0; i < listeners->count; i++) {
        http_server_drain(listeners->servers[i], grace_ms, one_drained, listeners);
    }
}

void listeners_close(struct listeners *listeners)
{
    while (listeners->count > 0) { /* the ids' listener last: the admin listener may read its
                                      counts */
        http_server_stop(listeners->servers[--listeners->count]);
    }
    if (listeners->api != NULL) {
        api_free(listeners->api);
        listeners->api = NULL;
    }
    auth_free(listeners->auth);
    listeners->auth = NULL;
}

/* --- while the node waits to be let in --- */

struct waiting {
    struct listeners listeners;
    struct id_backend backend;
    struct id_health health;
    struct snowflake snowflake; /* without workers: to decode ids */
};

static void waiting_submit(struct id_backend *backend, struct cluster_request *request)
{
    (void)backend;
    request->status = ERR_NO_LEADER;
    request->done(request);
}

/* No ids come: a request for them waits until its timeout. */
static void waiting_want(struct id_backend *backend, struct id_tag *tag)
{
    (void)backend;
    (void)tag;
}

static void waiting_notify(struct id_backend *backend)
{
    (void)backend;
}

struct waiting *waiting_begin(const struct config *config, struct tls *tls,
                              const struct http_build *build, const struct files_split *files)
{
    static const struct id_backend_ops ops = {
        .submit = waiting_submit, .want = waiting_want, .notify = waiting_notify};
    struct waiting *waiting = MUST_HAVE(calloc(1, sizeof *waiting));

    waiting->backend = (struct id_backend){.ops = &ops,
                                           .table = id_table_new(0), /* it stays empty */
                                           .snowflake = &waiting->snowflake,
                                           .health = &waiting->health,
                                           .clock = clock_system(),
                                           .refill_percent = config->ids.refill_percent};
    snowflake_init(&waiting->snowflake, waiting->backend.clock);
    atomic_store(&waiting->health.joining, true);
    if (listeners_open(&waiting->listeners, config, tls, build, &waiting->backend, files) != 0) {
        waiting_end(waiting);
        return NULL;
    }
    return waiting;
}

void waiting_end(struct waiting *waiting)
{
    if (waiting != NULL) {
        listeners_close(&waiting->listeners);
        id_table_free(waiting->backend.table);
        free(waiting);
    }
}
