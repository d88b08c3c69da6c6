/*
 * test_config.c - the sources of settings and their order, what the command line asks for, and the
 * rules between settings. Thread: one.
 */
#include "src/base/container.h"
#include "src/node/config/tests/config_fixture.h"

#include <uv.h>

#define SETTINGS_WANTED 46 /* at most */

static void test_defaults(void **state)
{
    struct config_fixture *f = *state;
    const struct config *config = &f->config;

    expect_ok(f, ARGS(NODE_1), NO_ENV);
    assert_int_equal(f->action, CONFIG_RUN);
    assert_int_equal(config->node.node_id, 1);
    assert_string_equal(config->node.cluster_id, "leafd");
    assert_int_equal(config->node.members.count, 1);
    assert_int_equal(config->node.members.peers[0].id, 1);
    assert_string_equal(config->node.members.peers[0].address, "127.0.0.1:7081");
    assert_string_equal(config->secret_file, "");
    assert_int_equal(config->node.keys.secret_count, 0);
    assert_string_equal(config->data.dir, "/var/lib/leafd");
    assert_int_equal(config->data.map_bytes, 16ULL << 30);
    assert_true(config->data.map_by_disk);
    assert_int_equal(config->bootstrap, CONFIG_BOOTSTRAP_MEMBERS);
    assert_string_equal(config->http.listen_address, "127.0.0.1:8080");
    assert_string_equal(config->node.http_address, "127.0.0.1:8080");
    assert_int_equal(config->http.loops, rules_http_loops(uv_available_parallelism()));
    assert_string_equal(origin(f, "http.loops")->text, "0");
    assert_int_equal(config->http.default_timeout_ms, 3000);
    assert_int_equal(config->http.head_ms, LIMIT_HTTP_HEAD_MS);
    assert_int_equal(config->http.body_ms, LIMIT_HTTP_BODY_MS);
    assert_int_equal(config->http.idle_ms, LIMIT_HTTP_IDLE_MS);
    assert_int_equal(config->http.write_ms, LIMIT_HTTP_WRITE_MS);
    assert_int_equal(config->http.connections, LIMIT_HTTP_CONNECTIONS);
    assert_string_equal(config->node.listen_address, "127.0.0.1:7081");
    assert_int_equal(config->node.replica.driver.heartbeat_ms, 100);
    assert_int_equal(config->node.replica.driver.election_ms, 1000);
    assert_int_equal(config->node.replica.driver.applier.snapshot_entries, 8192);
    assert_int_equal(config->node.replica.driver.applier.trailing_entries, 2048);
    assert_int_equal(config->ids.allocator.cover_ms, 5000);
    assert_int_equal(config->ids.refill_percent, 10);
    assert_int_equal(config->ids.strict_keys, (192 << 20) / 200);
    assert_int_equal(config->ids.prefetch.tags, 10000);
    assert_int_equal(config->ids.prefetch.rate_per_s, 1000);
    assert_int_equal(config->ids.lease.workers, 1);
    assert_int_equal(config->ids.lease.window_ms, 600000);
    assert_int_equal(config->ids.lease.renew_ms, 3000);
    assert_int_equal(config->ids.lease.mark_lead_ms, 1000);
    assert_int_equal(config->ids.lease.threshold_ms, 1000);
    assert_int_equal(config->ids.lease.layout.time_bits, 41);
    assert_int_equal(config->ids.lease.layout.worker_bits, 10);
    assert_int_equal(config->ids.lease.layout.sequence_bits, 12);
    assert_int_equal(config->ids.lease.layout.epoch_ms, 1288834974657);
    assert_int_equal(config->log_level, LOG_LEVEL_INFO);
    assert_int_equal(config->shutdown.delay_ms, 0);
    assert_int_equal(config->shutdown.grace_ms, 5000);
    assert_int_equal(origin(f, "node.id")->source, CONFIG_FROM_FLAG);
    assert_int_equal(origin(f, "cluster.id")->source, CONFIG_FROM_DEFAULT);
    assert_int_equal(origin(f, "peer.listen")->source, CONFIG_FROM_RULE);
}

/* Nothing set: one loop less than the processors, within the bounds. */
static void test_http_loops_by_processors(void **state)
{
    (void)state;
    assert_int_equal(rules_http_loops(1), 1);
    assert_int_equal(rules_http_loops(2), 1);
    assert_int_equal(rules_http_loops(3), 2);
    assert_int_equal(rules_http_loops(LIMIT_HTTP_LOOPS + 1), LIMIT_HTTP_LOOPS);
    assert_int_equal(rules_http_loops(LIMIT_HTTP_LOOPS + 2), LIMIT_HTTP_LOOPS);
}

static void test_required(void **state)
{
    struct config_fixture *f = *state;

    expect_error(f, ARGS("--node-id", "1"), NO_ENV, "cluster.members is not set");
    expect_error(f, ARGS("--cluster-members", "1=127.0.0.1:7081"), NO_ENV,
                 "node.id is not set: give it in a config file, as LEAFD_NODE_ID or as --node-id");
}

/* Each source overrules the one before it, and the origin says which it was. */
static void test_precedence(void **state)
{
    struct config_fixture *f = *state;

    file_make(f, "# three settings\nnode.id = 1\n\ncluster.members = 1=127.0.0.1:7081\n"
                 "http.loops = 2\n");
    expect_ok(f, ARGS("--config", f->path), NO_ENV);
    assert_int_equal(f->config.http.loops, 2);
    assert_int_equal(origin(f, "http.loops")->source, CONFIG_FROM_FILE);
    assert_int_equal(origin(f, "http.loops")->line, 5);
    assert_string_equal(f->config.file, f->path);

    expect_ok(f, ARGS("--config", f->path), ENV("PATH=/bin", "LEAFD_HTTP_LOOPS=3"));
    assert_int_equal(f->config.http.loops, 3);
    assert_int_equal(origin(f, "http.loops")->source, CONFIG_FROM_ENVIRONMENT);

    expect_ok(f, ARGS("--http-loops=4", "--config", f->path), ENV("LEAFD_HTTP_LOOPS=3"));
    assert_int_equal(f->config.http.loops, 4);
    assert_int_equal(origin(f, "http.loops")->source, CONFIG_FROM_FLAG);
    assert_string_equal(origin(f, "http.loops")->text, "4");

    /* The last of a flag given twice holds. */
    expect_ok(f, ARGS(NODE_1, "--http-loops", "5", "--http-loops", "6"), NO_ENV);
    assert_int_equal(f->config.http.loops, 6);
}

static void test_config_file_named(void **state)
{
    struct config_fixture *f = *state;
    char variable[128];

    file_make(f, "node.id = 1\ncluster.members = 1=127.0.0.1:7081\n");
    (void)snprintf(variable, sizeof variable, "LEAFD_CONFIG=%s", f->path);
    expect_ok(f, ARGS("--http-loops", "1"), ENV(variable));
    assert_string_equal(f->config.file, f->path);
    /* The flag overrules the variable. */
    expect_ok(f, ARGS("--config", f->path), ENV("LEAFD_CONFIG=/nonexistent/leafd.conf"));
    expect_error(f, ARGS("--http-loops", "1"), ENV("LEAFD_CONFIG=/nonexistent/leafd.conf"),
                 "config file /nonexistent/leafd.conf: cannot open: No such file or directory");
    expect_error(f, ARGS("--config", f->dir), NO_ENV, "is not a regular file");
    expect_error(f, ARGS("--config="), NO_ENV, "--config: must be a path of 1 to 1023 bytes");
}

/* A bad value names its source; it is an error even where it is overruled. */
static void test_error_names_source(void **state)
{
    struct config_fixture *f = *state;
    char expected[256];

    file_make(f, "node.id = 1\nhttp.loops = many\n");
    (void)snprintf(expected, sizeof expected,
                   "%s:2: http.loops: \"many\" is not valid: must be 0..64", f->path);
    expect_error(f, ARGS("--config", f->path, "--http-loops", "1"), NO_ENV, expected);
    expect_error(f, ARGS(NODE_1), ENV("LEAFD_HTTP_LOOPS=-1"),
                 "environment LEAFD_HTTP_LOOPS: http.loops: \"-1\" is not valid: must be 0..64");
    expect_flag_error(f, "--shutdown-delay-ms", "60001",
                      "flag --shutdown-delay-ms: shutdown.delay-ms: \"60001\" is not valid: must "
                      "be 0..60000 ms");
}

static void test_unknown(void **state)
{
    struct config_fixture *f = *state;
    char expected[256];

    expect_error(f, ARGS(NODE_1, "--http-loop", "1"), NO_ENV, "unknown argument \"--http-loop\"");
    expect_error(f, ARGS(NODE_1, "http.loops=1"), NO_ENV, "unknown argument \"http.loops=1\"");
    expect_error(f, ARGS(NODE_1, "--http-loopsx=1"), NO_ENV, "unknown argument");
    expect_error(f, ARGS(NODE_1, "--http.loops", "1"), NO_ENV, "unknown argument");
    expect_error(f, ARGS(NODE_1, "--http-loops"), NO_ENV, "--http-loops: the value is missing");
    expect_error(f, ARGS(NODE_1, "--config"), NO_ENV, "--config: the value is missing");
    expect_error(f, ARGS(NODE_1), ENV("LEAFD_HTTP_LOOP=1"),
                 "environment: unknown variable \"LEAFD_HTTP_LOOP\"");
    expect_error(f, ARGS(NODE_1), ENV("LEAFD_\x01=1"), "unknown variable \"LEAFD_\\x01\"");
    expect_error(f, ARGS(NODE_1), ENV("LEAFD_CONF=x"), "unknown variable \"LEAFD_CONF\"");
    expect_error(f, ARGS(NODE_1), ENV("LEAFD_HTTP_PORT=8080"), "unknown variable");
    expect_error(f, ARGS(NODE_1), ENV("LEAFD_PORTS_80=tcp://10.0.0.1"), "unknown variable");
    file_make(f, "\nnode-id = 1\n");
    (void)snprintf(expected, sizeof expected, "%s:2: unknown setting \"node-id\"", f->path);
    expect_error(f, ARGS("--config", f->path), NO_ENV, expected);
    /* Not ours: other prefixes, and what Kubernetes sets for a service called leafd. */
    expect_ok(f, ARGS(NODE_1),
              ENV("LEAF_X=1", "leafd_x=1", "LEAFD_SERVICE_HOST=10.0.0.1",
                  "LEAFD_SERVICE_PORT_HTTP=80", "LEAFD_PORT=tcp://10.0.0.1:80",
                  "LEAFD_PORT_80_TCP_ADDR=10.0.0.1", "LEAFD_NO_VALUE"));
}

static void test_commands(void **state)
{
    static const struct {
        const char *flag;
        enum config_action action;
    } with_nothing[] = {{"--help", CONFIG_HELP},
                        {"-h", CONFIG_HELP},
                        {"--version", CONFIG_VERSION},
                        {"--new-secret", CONFIG_NEW_SECRET},
                        {"--print-config-doc", CONFIG_PRINT_DOC},
                        {"--print-config-example", CONFIG_PRINT_EXAMPLE}};
    struct config_fixture *f = *state;

    for (size_t i = 0; i < sizeof with_nothing / sizeof with_nothing[0]; i++) {
        expect_ok(f, ARGS((char *)(uintptr_t)with_nothing[i].flag), ENV("LEAFD_BAD=1"));
        assert_int_equal(f->action, with_nothing[i].action);
    }
    expect_ok(f, ARGS(NODE_1, "--print-config"), NO_ENV);
    assert_int_equal(f->action, CONFIG_PRINT);
    expect_ok(f, ARGS("--check-config", NODE_1), NO_ENV);
    assert_int_equal(f->action, CONFIG_CHECK);
    expect_error(f, ARGS("--check-config"), NO_ENV, "node.id is not set");
    expect_error(f, ARGS("--help=1"), NO_ENV, "unknown argument");
}

/* A value that looks like a command is a value. */
static void test_value_like_flag(void **state)
{
    struct config_fixture *f = *state;

    expect_ok(f, ARGS(NODE_1, "--data-dir", "--help"), NO_ENV);
    assert_int_equal(f->action, CONFIG_RUN);
    assert_string_equal(f->config.data.dir, "--help");
}

static void test_same_address(void **state)
{
    struct config_fixture *f = *state;

    expect_error(f, ARGS(NODE_1, "--http-listen", "127.0.0.1:7081"), NO_ENV,
                 "http.listen = \"127.0.0.1:7081\" (--http-listen) is the same address as "
                 "peer.listen = \"127.0.0.1:7081\" (default, from other settings)");
}

/* At the bounds of the timeout: three heartbeats at least fit into it. */
static void test_what_follows_the_election_timeout(void **state)
{
    struct config_fixture *f = *state;
    const struct replica_config *replica = &f->config.node.replica;
    const uint32_t *timeout_ms = &f->config.http.default_timeout_ms;
    const uint32_t *cover_ms = &f->config.ids.allocator.cover_ms;

    expect_flag_ok(f, "--raft-election-ms", "30");
    assert_int_equal(replica->driver.heartbeat_ms, 10);
    assert_int_equal(replica->catch_up_ms, 1800);
    assert_true(*timeout_ms == 3000 && *cover_ms == 5000);
    expect_flag_ok(f, "--raft-election-ms", "300");
    assert_int_equal(replica->driver.heartbeat_ms, 30);
    expect_flag_ok(f, "--raft-election-ms", "1001");
    assert_true(*timeout_ms == 3003 && *cover_ms == 5005);
    expect_flag_ok(f, "--raft-election-ms", "3333");
    assert_int_equal(*timeout_ms, 9999);
    expect_flag_ok(f, "--raft-election-ms", "3334");
    assert_int_equal(*timeout_ms, LIMIT_TIMEOUT_MS);
    expect_flag_ok(f, "--raft-election-ms", "60000");
    assert_int_equal(replica->driver.heartbeat_ms, 6000);
    assert_int_equal(replica->catch_up_ms, 3600000);
    assert_true(*timeout_ms == LIMIT_TIMEOUT_MS && *cover_ms == 300000);
    expect_flag_ok(f, "--segment-cover-ms", "1");
    assert_int_equal(*cover_ms, 1);
    expect_flag_ok(f, "--segment-cover-ms", "600000");
    assert_int_equal(*cover_ms, 600000);
    expect_flag_error(f, "--segment-cover-ms", "600001", "must be 0..600000 ms");
}

/* Its parts at the default are those of limits.h, and of service.h. */
static void test_what_follows_the_memory_of_http(void **state)
{
    struct config_fixture *f = *state;
    const struct http_settings *http = &f->config.http;

    expect_ok(f, ARGS(NODE_1), NO_ENV);
    assert_int_equal(http->bodies_bytes, 64 << 20);
    assert_int_equal(http->client_bodies_bytes, 16 << 20);
    assert_int_equal(http->output_bytes, 64 << 20);
    assert_int_equal(http->input_bytes, 32 << 20);
    assert_int_equal(http->min_rate_bytes, 1024);
    assert_int_equal(http->resp_idle_ms, 0);
    expect_flag_ok(f, "--http-memory-bytes", "48MiB");
    assert_int_equal(http->input_bytes, 8 << 20);
    assert_int_equal(f->config.admin.http.input_bytes, 8 << 20);
    expect_flag_error(f, "--http-memory-bytes", "16777215", "must be 16MiB..64GiB");
    expect_flag_error(f, "--http-memory-bytes", "68719476737", "must be 16MiB..64GiB");
}

static void test_what_follows_the_idle_time(void **state)
{
    struct config_fixture *f = *state;
    const struct http_settings *http = &f->config.http;

    expect_flag_ok(f, "--http-idle-ms", "5000");
    assert_int_equal(http->head_ms, 5000);
    assert_int_equal(http->body_ms, 5000);
    assert_int_equal(http->write_ms, 5000);
    expect_flag_ok(f, "--http-idle-ms", "1");
    assert_int_equal(http->head_ms, 1);
    assert_int_equal(f->config.admin.http.write_ms, 1);
    expect_flag_ok(f, "--http-idle-ms", "86400000");
    assert_int_equal(http->head_ms, 5000);
    assert_int_equal(http->body_ms, 10000);
    assert_int_equal(http->write_ms, 10000);
}

static void test_what_follows_the_snapshots(void **state)
{
    struct config_fixture *f = *state;
    const struct applier_config *applier = &f->config.node.replica.driver.applier;

    expect_flag_ok(f, "--raft-snapshot-entries", "3");
    assert_int_equal(applier->trailing_entries, 0);
    expect_flag_ok(f, "--raft-snapshot-entries", "64");
    assert_int_equal(applier->trailing_entries, 16);
}

static void test_quota(void **state)
{
    static const struct {
        const char *text;
        const char *error;
    } bad[] = {
        {"100",
         "quota: \"100\" is not a quota: requests-per-s, ids-per-s, connections, bodies, keys, "
         "workers or tags, then = and a number"},
        {"id-per-s=1", "\"id-per-s=1\" is not a quota"},
        {"ids-per-s=1,", "\"\" is not a quota"},
        {"keys-percent=1", "is not a quota"},
        {"ids-per-s", "ids-per-s=\"\" is not valid: must be 1..1000000000"},
        {"ids-per-s=0", "must be 1..1000000000"},
        {"ids-per-s=1000000001", "must be 1..1000000000"},
        {"bodies=1%", "bodies=\"1%\" is not valid: must be 1..1000000000"},
        {"bodies=1,bodies=1", "bodies is given twice"},
        {"keys=25", "keys=\"25\" is not valid: must be 1..100 with a % after it, as 25%"},
        {"keys=0%", "must be 1..100 with a %"},
        {"workers=101%", "must be 1..100 with a %"},
        {"workers=%", "must be 1..100 with a %"},
        {"tags=0%", "must be 1..100 with a %"},
        {"workers=1%\n", "quota: \"workers=1%\\x0a\" is not valid"},
    };
    struct config_fixture *f = *state;
    const struct http_settings *http = &f->config.http;

    expect_ok(f, ARGS(NODE_1), NO_ENV);
    assert_int_equal(http->quotas.requests_per_s, 0);
    assert_int_equal(http->worker_percent, 25);
    assert_int_equal(f->config.ids.key_percent, 25);
    expect_flag_ok(f, "--quota", "");
    assert_int_equal(http->worker_percent, 25);
    expect_flag_ok(f, "--quota",
                   "requests-per-s=1, ids-per-s=1000000000,connections=3 ,bodies=4,keys=1%,"
                   "workers=100%");
    assert_int_equal(http->quotas.requests_per_s, 1);
    assert_int_equal(http->quotas.ids_per_s, 1000000000);
    assert_int_equal(http->quotas.connections, 3);
    assert_int_equal(http->quotas.bodies, 4);
    assert_int_equal(f->config.admin.http.quotas.bodies, 4);
    assert_int_equal(f->config.ids.key_percent, 1);
    assert_int_equal(http->worker_percent, 100);
    assert_true(http->tags_bytes == (192ULL << 20) / 100 * 25);
    expect_flag_ok(f, "--quota", "tags=1%");
    assert_true(http->tags_bytes == (192ULL << 20) / 100);
    assert_true(f->config.admin.http.tags_bytes == http->tags_bytes);
    expect_flag_ok(f, "--quota", "tags=100%");
    assert_true(http->tags_bytes == UINT64_MAX);
    expect_flag_ok(f, "--quota", "keys=50%");
    assert_int_equal(http->worker_percent, 25);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        expect_flag_error(f, "--quota", bad[i].text, bad[i].error);
    }
}

static void test_hold(void **state)
{
    struct config_fixture *f = *state;
    const struct upgrade_config *upgrade = &f->config.node.replica.upgrade;

    expect_flag_ok(f, "--upgrade-hold-ms", "604800000");
    assert_int_equal(upgrade->hold_ms, 604800000);
    assert_true(upgrade->automatic);
    expect_flag_ok(f, "--upgrade-hold-ms", "0");
    assert_int_equal(upgrade->hold_ms, 0);
    assert_true(upgrade->automatic);
    expect_flag_ok(f, "--upgrade-hold-ms", "never");
    assert_false(upgrade->automatic);
    expect_flag_error(f, "--upgrade-hold-ms", "604800001",
                      "upgrade.hold-ms: \"604800001\" is not valid: must be 0..604800000 ms, or "
                      "never");
    expect_flag_error(f, "--upgrade-hold-ms", "", "must be 0..604800000 ms, or never");
    expect_flag_error(f, "--upgrade-hold-ms", "Never", "must be 0..604800000 ms, or never");
}

/* No number means "any": 65535 did, and was shown as a worker id. */
static void test_the_worker_id_of_a_node(void **state)
{
    struct config_fixture *f = *state;

    assert_int_equal(f->config.ids.lease.fixed, 0);
    expect_flag_ok(f, "--snowflake-worker-id", "0");
    assert_int_equal(f->config.ids.lease.fixed, 1);
    expect_flag_ok(f, "--snowflake-worker-id", "1023");
    assert_int_equal(f->config.ids.lease.fixed, 1024);
    expect_flag_ok(f, "--snowflake-worker-id", "any");
    assert_int_equal(f->config.ids.lease.fixed, 0);
    expect_flag_error(f, "--snowflake-worker-id", "1024",
                      "snowflake.worker-id: \"1024\" is not valid: must be 0..1023, or any");
    expect_flag_error(f, "--snowflake-worker-id", "65535", "must be 0..1023, or any");
    expect_flag_error(f, "--snowflake-worker-id", "", "must be 0..1023, or any");
}

/* Settings that there were: refused wherever one is given, with the name as the source spells it,
 * and with what holds now. */
static void test_settings_that_went(void **state)
{
    struct config_fixture *f = *state;
    static const struct {
        char *names[3]; /* in a file, of a variable, of a flag */
        const char *how;
    } gone[] = {
        {{"prefetch.tags", "LEAFD_PREFETCH_TAGS", "--prefetch-tags"},
         "after a restart a node fetches a segment of each tag that it served within a day, of "
         "10000 at most"},
        {{"http.timeout-ms", "LEAFD_HTTP_TIMEOUT_MS", "--http-timeout-ms"},
         "a request waits three times raft.election-ms, 3 to 10 s; where a client needs another "
         "time, let it send timeout_ms"},
        {{"strict.keys", "LEAFD_STRICT_KEYS", "--strict-keys"},
         "data.memory-bytes bounds the idempotency keys, some 200 bytes each"},
    };
    char text[400];
    char given[64];

    for (size_t i = 0; i < sizeof gone / sizeof gone[0]; i++) {
        char *const *names = gone[i].names;

        (void)snprintf(given, sizeof given, "\n%s = 1\n", names[0]);
        file_make(f, given);
        (void)snprintf(text, sizeof text, "%s:2: %s is no longer a setting: leave it out; %s",
                       f->path, names[0], gone[i].how);
        expect_error(f, ARGS(NODE_1, "--config", f->path), NO_ENV, text);
        for (size_t source = 1; source < 3; source++) {
            (void)snprintf(given, sizeof given, "%s=1", names[source]);
            (void)snprintf(text, sizeof text, "%s is no longer a setting: leave it out; %s",
                           names[source], gone[i].how);
            expect_error(f, source == 1 ? ARGS(NODE_1) : ARGS(NODE_1, given),
                         source == 1 ? ENV(given) : NO_ENV, text);
        }
        expect_error(f, ARGS(NODE_1, names[2], "1"), NO_ENV, text);
    }
    expect_error(f, ARGS(NODE_1, "--prefetch-tag", "0"), NO_ENV,
                 "unknown argument \"--prefetch-tag\"; --help lists the settings");
}

/* Each setting is one that somebody has to understand before the first start. */
static void test_number_of_settings(void **state)
{
    (void)state;
    assert_in_range(setting_count, 1, SETTINGS_WANTED);
}

static void test_advertise(void **state)
{
    struct config_fixture *f = *state;

    expect_ok(f, ARGS(NODE_1, "--auth-anonymous=all", "--http-listen", "0.0.0.0:9000"), NO_ENV);
    assert_string_equal(f->config.node.http_address, "127.0.0.1:9000");
    expect_ok(f,
              ARGS("--node-id", "1", "--cluster-members", "1=[::1]:7081", "--auth-anonymous=all",
                   "--http-listen", "[::]:9000"),
              NO_ENV);
    assert_string_equal(f->config.node.http_address, "[::1]:9000");
    expect_ok(f,
              ARGS(NODE_1, "--auth-anonymous=all", "--http-listen", "0.0.0.0:9000",
                   "--http-advertise", "ids.example:80"),
              NO_ENV);
    assert_string_equal(f->config.node.http_address, "ids.example:80");
    assert_int_equal(origin(f, "http.advertise")->source, CONFIG_FROM_FLAG);
    assert_string_equal(f->config.http.resp_shown, "");
}

/* RESP is shown where HTTP is, unless it listens at one address alone. */
static void test_where_resp_is_shown(void **state)
{
    struct {
        char *http;
        char *resp;
        const char *want;
    } rows[] = {
        {"ids.example:80", "0.0.0.0:6379", "ids.example:6379"},
        {"[::1]:80", "[::]:6379", "[::1]:6379"},
        {"ids.example:80", "127.0.0.1:6379", "127.0.0.1:6379"},
    };
    struct config_fixture *f = *state;
    char longest[LIMIT_ADDRESS_BYTES + 1];

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        expect_ok(f,
                  ARGS(NODE_1, "--auth-anonymous=all", "--http-advertise", rows[i].http,
                       "--resp-listen", rows[i].resp),
                  NO_ENV);
        assert_string_equal(f->config.http.resp_shown, rows[i].want);
    }
    /* One that would be too long stays a wildcard. */
    memset(longest, 'h', sizeof longest);
    memcpy(longest + sizeof longest - sizeof ":80", ":80", sizeof ":80");
    expect_ok(f,
              ARGS(NODE_1, "--auth-anonymous=all", "--http-advertise", longest, "--resp-listen",
                   "0.0.0.0:6379"),
              NO_ENV);
    assert_string_equal(f->config.http.resp_shown, "0.0.0.0:6379");
    expect_ok(f,
              ARGS(NODE_1, "--auth-anonymous=all", "--http-advertise", longest, "--resp-listen",
                   "0.0.0.0:79"),
              NO_ENV);
    memcpy(longest + sizeof longest - sizeof ":80", ":79", sizeof ":79");
    assert_string_equal(f->config.http.resp_shown, longest);
}

static void test_open_peers_need_secret(void **state)
{
    struct config_fixture *f = *state;

    expect_error(f, ARGS("--node-id", "1", "--cluster-members", "1=10.0.0.1:7081"), NO_ENV,
                 "peer.listen = \"10.0.0.1:7081\" (default, from other settings) can be reached "
                 "from other machines, and cluster.secret-file is not set");
    expect_error(f, ARGS(NODE_1, "--peer-listen", "0.0.0.0:7081"), NO_ENV,
                 "(umask 077; leafd --new-secret > leafd.secret)");
    file_make(f, SOME_SECRET "\n");
    expect_ok(f, ARGS(NODE_1, "--peer-listen", "0.0.0.0:7081", "--cluster-secret-file", f->path),
              NO_ENV);
    assert_int_equal(f->config.node.keys.secret_count, 1);
    assert_memory_equal(f->config.secret, SOME_SECRET, strlen(SOME_SECRET));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, config_setup, config_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_defaults),
        TEST(test_http_loops_by_processors),
        TEST(test_required),
        TEST(test_precedence),
        TEST(test_config_file_named),
        TEST(test_error_names_source),
        TEST(test_unknown),
        TEST(test_commands),
        TEST(test_value_like_flag),
        TEST(test_same_address),
        TEST(test_advertise),
        TEST(test_where_resp_is_shown),
        TEST(test_open_peers_need_secret),
        TEST(test_what_follows_the_election_timeout),
        TEST(test_what_follows_the_snapshots),
        TEST(test_what_follows_the_memory_of_http),
        TEST(test_what_follows_the_idle_time),
        TEST(test_hold),
        TEST(test_quota),
        TEST(test_the_worker_id_of_a_node),
        TEST(test_settings_that_went),
        TEST(test_number_of_settings),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
