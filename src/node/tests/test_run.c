/*
 * test_run.c - the order of starting and stopping, and the exit codes, with a node, an HTTP
 * server and a store that only note what is asked of them.
 *
 * The functions of raft/node/node.h, http/server/loop.h and storage/lmdb/store.h are defined
 * here, so that the linker does not take the real ones. Threads: main; one that tells that HTTP is
 * drained.
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/tests/unit/test.h"
#include "http/api/api.h"
#include "http/server/loop.h"
#include "raft/node/node.h"
#include "src/service/node_backend.h"
#include "src/node/config/config.h"
#include "src/node/run.h"
#include "storage/lmdb/store.h"

/* What a server is to call when it has drained. */
struct drain {
    void (*cb)(void *data);
    void *data;
};

struct fake {
    char events[512]; /* names of what was called, in order */
    /* what goes wrong */
    int store_err;
    int node_err;
    int http_err;
    int signal;           /* raised once HTTP has started */
    bool signal_in_drain; /* and again */
    bool fail_in_drain;   /* the node reports ERR_IO on the HTTP thread */
    int lost_after;       /* looks until the data directory is lost; 0: it never is */
    int drained_after;    /* calls of node_drained() until it is true; -1: never */
    /* what came */
    const struct node_settings *node_settings;
    struct replica_listener *listener;
    const struct http_settings *api_settings;
    bool has_admin;                     /* and so two servers */
    struct http_settings http_settings; /* a copy */
    const struct http_build *build;
    struct store_lmdb_config store_config;
    uint32_t retire_ms;
    uint32_t drain_grace_ms;
    uint32_t stop_grace_ms;
    uv_loop_t *loop;
    uv_timer_t timer;
    pthread_t threads[2];
    unsigned starts;
    unsigned drains;
    unsigned stops;
    struct drain drain[2]; /* of each listener; its thread's own from then on */
    void (*stop_cb)(void *data);
    void *stop_data;
};

static struct fake fake;
static struct config config;

#define JOINED "--admin-listen=same"
static const char *admin_listen = JOINED;

static void event(const char *name)
{
    size_t used = strlen(fake.events);
    int len =
        snprintf(fake.events + used, sizeof fake.events - used, "%s%s", used > 0 ? " " : "", name);

    assert_true(len > 0 && (size_t)len < sizeof fake.events - used);
}

/* --- the store --- */

static void fake_space(struct store *store, struct store_space *ret_space)
{
    (void)store;
    *ret_space = (struct store_space){0};
}

static void fake_close(struct store *store)
{
    (void)store;
    event("store_close");
}

static bool fake_lost(struct store *store, struct store_error *ret_error)
{
    (void)store;
    if (fake.lost_after > 0 && --fake.lost_after == 0) {
        (void)snprintf(ret_error->text, sizeof ret_error->text, "as the test wants");
        return true;
    }
    return false;
}

static const struct store_ops fake_store_ops = {
    .space = fake_space, .lost = fake_lost, .close = fake_close};
static struct store fake_store = {.ops = &fake_store_ops};

int store_lmdb_open(const struct store_lmdb_config *lmdb, struct store **ret_store, bool *ret_made,
                    struct store_error *ret_error)
{
    event("store_open");
    fake.store_config = *lmdb;
    if (fake.store_err != 0) {
        (void)snprintf(ret_error->text, sizeof ret_error->text, "as the test wants");
        return fake.store_err;
    }
    *ret_store = &fake_store;
    *ret_made = false;
    return 0;
}

const char *store_lmdb_version(void)
{
    return "none";
}

/* --- the node --- */

static struct id_backend *fake_backend;

int node_start(uv_loop_t *loop, const struct node_settings *node, struct replica_listener *listener,
               struct store *store, struct service *service, struct node **ret_node,
               struct store_error *ret_error)
{
    event("node_start");
    assert_non_null(service);
    assert_ptr_equal(store, &fake_store);
    fake.loop = loop;
    fake.node_settings = node;
    fake.listener = listener;
    if (fake.node_err != 0) {
        (void)snprintf(ret_error->text, sizeof ret_error->text, "as the test wants");
        return fake.node_err;
    }
    *ret_node = (struct node *)&fake;
    return 0;
}

void node_backend_open(struct node_backend *backend, struct id_service *service, struct node *node)
{
    assert_ptr_equal(node, &fake);
    assert_non_null(service);
    fake_backend = &backend->base;
}

void node_backend_set_waker(struct node_backend *backend, struct id_waker *waker)
{
    assert_ptr_equal(&backend->base, fake_backend);
    event(waker != NULL ? "waker" : "no_waker");
}

void node_drain(struct node *node)
{
    assert_ptr_equal(node, &fake);
    event("node_drain");
}

bool node_drained(const struct node *node)
{
    assert_ptr_equal(node, &fake);
    if (fake.drained_after > 0) {
        fake.drained_after--;
    }
    return fake.drained_after == 0;
}

static void stopped_cb(uv_handle_t *handle)
{
    (void)handle;
    fake.stop_cb(fake.stop_data);
}

void node_stop(struct node *node, uint32_t grace_ms, void (*cb)(void *data), void *data)
{
    assert_ptr_equal(node, &fake);
    event("node_stop");
    fake.stop_grace_ms = grace_ms;
    fake.stop_cb = cb;
    fake.stop_data = data;
    assert_int_equal(uv_timer_init(fake.loop, &fake.timer), 0);
    uv_close((uv_handle_t *)&fake.timer, stopped_cb);
}

bool node_keys_commit(struct node *node, struct net_keys *keys, unsigned *ret_renewed)
{
    assert_non_null(node);
    net_keys_unref(keys);
    *ret_renewed = 0;
    return false;
}

int64_t node_keys_until_s(const struct node *node)
{
    assert_non_null(node);
    return 0;
}

void node_free(struct node *node)
{
    assert_ptr_equal(node, &fake);
    event("node_free");
}

/* --- HTTP --- */

static struct api fake_api;

struct api *api_new(const struct http_settings *http, const struct http_build *build,
                    struct id_backend *backend, struct auth *auth, const struct talker *resp,
                    const char *admin_address)
{
    event("api_new");
    if (resp != NULL) {
        event("resp");
    }
    assert_ptr_equal(backend, fake_backend);
    assert_non_null(auth);
    fake.api_settings = http;
    fake.build = build;
    fake.has_admin = admin_address != NULL;
    return &fake_api;
}

void api_watch(struct api *api)
{
    assert_ptr_equal(api, &fake_api);
    event("api_watch");
}

void api_free(struct api *api)
{
    assert_ptr_equal(api, &fake_api);
    event("api_free");
}

int http_server_start(const struct http_settings *http, const struct http_service *service,
                      struct http_server **ret_server)
{
    event("http_start");
    assert_ptr_equal(service, fake.starts == 0 ? &fake_api.ids.service : &fake_api.admin.service);
    fake.http_settings = *http;
    if (fake.http_err != 0) {
        return fake.http_err;
    }
    if (!fake.has_admin || fake.starts++ == 1) { /* once: a second signal ends the process */
        assert_int_equal(raise(fake.signal), 0);
    }
    *ret_server = (struct http_server *)&fake;
    return 0;
}

static void *drain_thread(void *data)
{
    const struct drain *drain = data;

    if (fake.signal_in_drain) {
        (void)raise(SIGINT);
    }
    if (fake.fail_in_drain) {
        fake.listener->failed(fake.listener, ERR_IO, "as the \"test\" wants");
    }
    drain->cb(drain->data);
    return NULL;
}

bool http_server_takes_turns(struct http_server *server)
{
    assert_ptr_equal(server, &fake);
    return true;
}

void http_server_retire(struct http_server *server, uint32_t over_ms)
{
    assert_ptr_equal(server, &fake);
    event("http_retire");
    fake.retire_ms = over_ms;
}

void http_server_drain(struct http_server *server, uint32_t grace_ms, void (*cb)(void *data),
                       void *data)
{
    struct drain *drain = &fake.drain[fake.drains % 2];

    assert_ptr_equal(server, &fake);
    event("http_drain");
    fake.drain_grace_ms = grace_ms;
    drain->cb = cb;
    drain->data = data;
    assert_int_equal(pthread_create(&fake.threads[fake.drains++ % 2], NULL, drain_thread, drain),
                     0);
}

void http_server_stop(struct http_server *server)
{
    assert_ptr_equal(server, &fake);
    assert_int_equal(pthread_join(fake.threads[fake.stops++ % 2], NULL), 0);
    event("http_stop");
}

/* Of calls that answer connections, of which there are none. */
void http_port_ref(struct http_port *port)
{
    (void)port;
    fail_msg("there is no connection");
}

void http_port_unref(struct http_port *port)
{
    (void)port;
    fail_msg("there is no connection");
}

/* --- tests --- */

static int setup(void **state)
{
    (void)state;
    fake = (struct fake){.signal = SIGTERM};
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    config_release(&config);
    return 0;
}

/* Load the settings of two nodes, and those given. */
static void configure(const char *flag, const char *value)
{
    char *args[] = {"leafd",
                    "--node-id=2",
                    "--cluster-members=1=127.0.0.1:7081,2=127.0.0.1:7082,3=127.0.0.1:7083",
                    "--data-dir=/nonexistent",
                    "--log-level=error",
                    "--sandbox=off", /* the tests go on in this process */
                    (char *)(uintptr_t)admin_listen,
                    (char *)(uintptr_t)flag,
                    (char *)(uintptr_t)value,
                    NULL};
    char *env[] = {NULL};
    enum config_action action;
    struct config_error error;

    if (config_load(flag != NULL ? 9 : 7, args, env, &config, &action, &error) != 0) {
        fail_msg("%s", error.text);
    }
}

#define UP "store_open node_start api_new http_start api_watch waker"
#define DOWN                                                                                       \
    "http_retire node_drain http_drain no_waker node_stop http_stop api_free node_free "           \
    "store_close"

/* HTTP is there until leadership is elsewhere; the node is there until HTTP is drained; the memory
 * of the node until HTTP's threads have ended; the store until the last. */
static void test_order(void **state)
{
    (void)state;
    configure(NULL, NULL);
    (void)umask(0);
    assert_int_equal(run_node(&config), EXIT_CODE_STOPPED);
    assert_string_equal(fake.events, UP " " DOWN);
    assert_int_equal(umask(077), 077); /* its files are its own */
    fake = (struct fake){.signal = SIGINT};
    assert_int_equal(run_node(&config), EXIT_CODE_STOPPED);
    assert_string_equal(fake.events, UP " " DOWN);
}

/* Both are drained before the node stops, and both are stopped before it is freed. */
static void test_two_doors(void **state)
{
    (void)state;
    admin_listen = "--admin-listen=127.0.0.1:9999";
    configure(NULL, NULL);
    admin_listen = JOINED;
    assert_int_equal(run_node(&config), EXIT_CODE_STOPPED);
    assert_true(fake.has_admin);
    assert_string_equal(
        fake.events,
        "store_open node_start api_new http_start http_start api_watch waker http_retire "
        "http_retire node_drain http_drain http_drain no_waker node_stop http_stop "
        "http_stop api_free "
        "node_free store_close");
}

/* Not copied: each layer reads the settings where they were parsed. */
static void test_settings_are_handed_down(void **state)
{
    (void)state;
    configure("--http-loops", "3");
    assert_int_equal(run_node(&config), EXIT_CODE_STOPPED);
    assert_ptr_equal(fake.node_settings, &config.node);
    assert_non_null(fake.api_settings);
    assert_string_equal(fake.http_settings.listen_address, config.http.listen_address);
    assert_int_equal(fake.http_settings.idle_ms, config.http.idle_ms);
    assert_int_equal(fake.http_settings.loops, 3);
    assert_in_range(fake.http_settings.connections, 1, config.http.connections);
    assert_string_equal(fake.store_config.dir, "/nonexistent");
    assert_int_equal(fake.store_config.map_bytes, 16ULL << 30);
    assert_string_equal(fake.store_config.identity.cluster_id, "leafd");
    assert_int_equal(fake.store_config.identity.node_id, 2);
    assert_true(fake.store_config.identity.store_id != 0);
}

/* Two starts with the same settings make different stores. */
static void test_store_id_is_random(void **state)
{
    uint64_t first;

    (void)state;
    configure(NULL, NULL);
    assert_int_equal(run_node(&config), EXIT_CODE_STOPPED);
    first = fake.store_config.identity.store_id;
    assert_int_equal(run_node(&config), EXIT_CODE_STOPPED);
    assert_true(fake.store_config.identity.store_id != first);
}

/* HTTP is drained only once the node says that it does not lead. */
static void test_waits_for_the_handover(void **state)
{
    (void)state;
    configure(NULL, NULL);
    fake.drained_after = 5;
    assert_int_equal(run_node(&config), EXIT_CODE_STOPPED);
    assert_int_equal(fake.drained_after, 0);
    assert_string_equal(fake.events, UP " " DOWN);
    assert_int_equal(fake.retire_ms, LIMIT_HTTP_RETIRE_MS);
    assert_in_range(fake.drain_grace_ms, 1, 5000);
    assert_in_range(fake.stop_grace_ms, 1, fake.drain_grace_ms);
}

/* Nobody takes over: it goes on after the grace period, with nothing left of it. */
static void test_handover_is_bounded(void **state)
{
    (void)state;
    configure(NULL, NULL);
    config.shutdown.grace_ms = 50;
    fake.drained_after = -1;
    assert_int_equal(run_node(&config), EXIT_CODE_STOPPED);
    assert_string_equal(fake.events, UP " " DOWN);
    assert_int_equal(fake.retire_ms, 25); /* within the grace */
    assert_int_equal(fake.drain_grace_ms, 0);
    assert_int_equal(fake.stop_grace_ms, 0);
}

static void test_no_grace(void **state)
{
    (void)state;
    configure(NULL, NULL);
    config.shutdown.grace_ms = 0;
    fake.drained_after = -1;
    assert_int_equal(run_node(&config), EXIT_CODE_STOPPED);
    assert_string_equal(fake.events, UP " " DOWN);
}

/* The delay passes before HTTP is drained, though leadership is elsewhere; then comes the grace. */
static void test_delay(void **state)
{
    uint64_t began;

    (void)state;
    configure("--shutdown-delay-ms", "1100");
    began = uv_hrtime();
    assert_int_equal(run_node(&config), EXIT_CODE_STOPPED);
    assert_true(uv_hrtime() - began >= 1099000000);
    assert_int_equal(fake.retire_ms, 1100);
    assert_in_range(fake.drain_grace_ms, 4000, 5000);
}

static void test_store_errors(void **state)
{
    static const struct {
        int err;
        enum exit_code code;
    } cases[] = {
        {ERR_LOCKED, EXIT_CODE_DATA},     {ERR_CORRUPT, EXIT_CODE_DATA},
        {ERR_TRUNCATED, EXIT_CODE_DATA},  {ERR_BAD_VERSION, EXIT_CODE_DATA},
        {ERR_WRONG_NODE, EXIT_CODE_DATA}, {ERR_IO, EXIT_CODE_DISK},
        {ERR_DISK_FULL, EXIT_CODE_DISK},  {ERR_NOMEM, EXIT_CODE_INTERNAL},
    };

    (void)state;
    configure(NULL, NULL);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fake = (struct fake){.store_err = cases[i].err};
        assert_int_equal(run_node(&config), cases[i].code);
        assert_string_equal(fake.events, "store_open");
    }
}

static void test_node_errors(void **state)
{
    static const struct {
        int err;
        enum exit_code code;
    } cases[] = {
        {ERR_CORRUPT, EXIT_CODE_DATA},       {ERR_EXISTS, EXIT_CODE_ADDRESS},
        {ERR_INVALID, EXIT_CODE_CONFIG},     {ERR_IO, EXIT_CODE_DISK},
        {ERR_WRONG_NODE, EXIT_CODE_REFUSED}, {ERR_REMOVED, EXIT_CODE_REMOVED},
        {ERR_REFUSED, EXIT_CODE_REFUSED},
    };

    (void)state;
    configure(NULL, NULL);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fake = (struct fake){.node_err = cases[i].err};
        assert_int_equal(run_node(&config), cases[i].code);
        assert_string_equal(fake.events, "store_open node_start store_close");
    }
}

/* The node that was started is stopped again. */
static void test_http_errors(void **state)
{
    (void)state;
    configure(NULL, NULL);
    fake.http_err = ERR_EXISTS;
    assert_int_equal(run_node(&config), EXIT_CODE_ADDRESS);
    assert_string_equal(
        fake.events,
        "store_open node_start api_new http_start api_free node_stop node_free store_close");
    fake = (struct fake){.http_err = ERR_INVALID};
    assert_int_equal(run_node(&config), EXIT_CODE_CONFIG);
}

/* With cluster.bootstrap = never the store is not even opened where there is none. */
static void test_create_false(void **state)
{
    char dir[] = "/tmp/leafd-server-XXXXXX";
    char db[64];

    (void)state;
    configure("--cluster-bootstrap", "never");
    assert_int_equal(run_node(&config), EXIT_CODE_DATA);
    assert_string_equal(fake.events, "");

    assert_non_null(mkdtemp(dir));
    (void)snprintf(db, sizeof db, "%s/db", dir);
    config.data.dir = dir;
    assert_int_equal(run_node(&config), EXIT_CODE_DATA);
    assert_int_equal(mkdir(db, 0700), 0);
    assert_int_equal(run_node(&config), EXIT_CODE_STOPPED);
    assert_string_equal(fake.events, UP " " DOWN);
    assert_int_equal(rmdir(db), 0);
    assert_int_equal(rmdir(dir), 0);
}

/* Run it in a process of its own; its exit code, or -1 when a signal ended it. */
static int run_in_child(void)
{
    pid_t child = fork();
    int status;

    assert_true(child >= 0);
    if (child == 0) {
        struct rlimit no_core = {0, 0};

        (void)setrlimit(RLIMIT_CORE, &no_core);
        (void)!freopen("/dev/null", "w", stderr);
        (void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); /* as main() has it */
        _exit((int)run_node(&config));
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void test_second_signal(void **state)
{
    (void)state;
    configure(NULL, NULL);
    fake.signal_in_drain = true;
    assert_int_equal(run_in_child(), EXIT_CODE_SECOND_SIGNAL);
}

/* The node reports that it cannot go on, from a thread of its own: the process ends there. */
static void test_node_fails(void **state)
{
    (void)state;
    configure(NULL, NULL);
    fake.fail_in_drain = true;
    assert_int_equal(run_in_child(), EXIT_CODE_DISK);
}

/* The data directory is looked at as long as the node runs, also while it stops. */
static void test_data_is_lost(void **state)
{
    (void)state;
    configure("--shutdown-delay-ms", "60000");
    fake.lost_after = 3;
    assert_int_equal(run_in_child(), EXIT_CODE_DATA);
}

/* The node comes up and goes down in the sandbox as without; where there is none, not at all. */
static void test_sandbox(void **state)
{
    int code;

    (void)state;
    configure("--sandbox", "on");
    code = run_in_child();
    config_release(&config);
    configure("--sandbox", "auto");
    assert_int_equal(run_in_child(), EXIT_CODE_STOPPED);
    assert_true(code == EXIT_CODE_STOPPED || code == EXIT_CODE_CONFIG);
}

static void test_exit_codes(void **state)
{
    (void)state;
    assert_int_equal(exit_code_of(ERR_DIVERGED), EXIT_CODE_DIVERGED);
    assert_int_equal(exit_code_of(ERR_WRONG_NODE), EXIT_CODE_REFUSED);
    assert_int_equal(exit_code_of(ERR_REFUSED), EXIT_CODE_REFUSED);
    assert_int_equal(exit_code_of(ERR_IO), EXIT_CODE_DISK);
    assert_int_equal(exit_code_of(ERR_DISK_FULL), EXIT_CODE_DISK);
    assert_int_equal(exit_code_of(ERR_NOMEM), EXIT_CODE_INTERNAL);
    assert_int_equal(exit_code_of(ERR_CONFLICT), EXIT_CODE_INTERNAL);
    assert_int_equal(exit_code_of(ERR_CORRUPT), EXIT_CODE_DATA);
    assert_int_equal(exit_code_of(ERR_IMPLAUSIBLE), EXIT_CODE_DATA);
    assert_int_equal(exit_code_of(ERR_CONTRADICTED), EXIT_CODE_WITNESS);
    /* No reason to end may look like a clean stop. */
    for (int err = -42; err < 0; err++) {
        assert_int_not_equal(exit_code_of(err), EXIT_CODE_STOPPED);
        assert_int_not_equal(exit_code_of_open(err), EXIT_CODE_STOPPED);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_second_signal), /* first those that fork, while there are no threads */
        TEST(test_node_fails),
        TEST(test_data_is_lost),
        TEST(test_sandbox),
        TEST(test_order),
        TEST(test_two_doors),
        TEST(test_settings_are_handed_down),
        TEST(test_store_id_is_random),
        TEST(test_waits_for_the_handover),
        TEST(test_handover_is_bounded),
        TEST(test_no_grace),
        TEST(test_delay),
        TEST(test_store_errors),
        TEST(test_node_errors),
        TEST(test_http_errors),
        TEST(test_create_false),
        TEST(test_exit_codes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
