/*
 * load.c - see load.h: the rules between settings, and the sources of settings, from the weakest to
 * the strongest.
 *
 * The command line is read twice: first for what it asks (--help, --config FILE), last for
 * settings, so that flags overrule the file they name. getopt_long() is not used for it: it takes
 * any abbreviation for a flag, and a later release that adds a flag would change what one means.
 *
 * Thread: main.
 */
#include "src/node/config/load.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "http/auth/tokens.h"
#include "src/base/address.h"
#include "src/base/assert.h"
#include "src/base/clock.h"
#include "src/base/container.h"
#include "src/id/alloc/prefetch.h"
#include "src/id/alloc/refill.h"
#include "src/node/config/config.h"
#include "src/node/config/table.h"

/* --- rules between settings --- */

#define ADMIN_PORT_STEP 1000
#define LOST_ID_MAX 1000         /* LOST_ID_STEP: no two configured ids stand for the same one */
#define WRITTEN_MS 1767225600000 /* 2026-01-01: no clock that is right is before it */

/* Nobody turns these apart from the setting that they follow. */
#define HEARTBEATS_PER_ELECTION 10 /* so many are lost before anybody stands for election */
#define HEARTBEAT_MIN_MS 10        /* a third of the shortest election timeout */
#define CATCH_UP_ELECTIONS 60      /* what outlasts an election or two will not come any more */
#define SNAPSHOTS_PER_TRAIL                                                                        \
    4 /* entries are cheaper than a snapshot for a node that is late by these */
#define RENEWALS_PER_WINDOW 3  /* two may fail */
#define RENEW_MS 3000          /* Leaf's report interval */
#define SHUTDOWN_GRACE_MS 5000 /* an election and some; half of what supervisors give at least */
#define GRANT_REQUEST_MS 10000
#define GRANT_RETRY_MS 50
#define MARK_LEAD_MS 1000 /* a write a second; and what a crash costs in waiting */

/* --- errors --- */

struct citation {
    char text[400];
};

/* "name = value (where)". Returns out's text. */
static const char *cite(const struct config *config, const char *name, struct citation *out)
{
    size_t row = setting_row(name);
    const char *value = config->origins[row].text;
    BUF_LOCAL(where);
    char quoted[128];

    config_where(config, row, &where);
    (void)snprintf(out->text, sizeof out->text, "%s = %s (%s)", name,
                   log_quote(value, strlen(value), quoted, sizeof quoted), buf_text(&where));
    return out->text;
}

/* --- defaults that come from other settings --- */

/* Where nothing is set. */
static void set_default(struct config *config, const char *name, const char *value)
{
    size_t row = setting_row(name);
    struct config_error error;

    if (config->origins[row].text[0] == '\0') {
        ASSERT(config_set(config, row, value, CONFIG_FROM_RULE, 0, &error) == 0);
    }
}

static const struct net_peer *own_member(const struct config *config)
{
    const struct node_peers *members = &config->node.members;

    return net_peer_find(members->peers, members->count, config->node.node_id);
}

/* A member's address is the one that the members know. */
static void default_peer_addresses(struct config *config)
{
    const struct net_peer *member = own_member(config);

    set_default(config, "peer.advertise",
                member != NULL ? member->address : config->node.listen_address);
    set_default(config, "peer.listen", config->node.peer_address);
}

uint32_t rules_http_loops(unsigned processors)
{
    if (processors <= 2) {
        return 1;
    }
    return processors - 1 < LIMIT_HTTP_LOOPS ? processors - 1 : LIMIT_HTTP_LOOPS;
}

/* What is shown of a wildcard is its port at the host of another address of this node. The longest
 * host with a longer port would not fit: then the wildcard has to do. */
static void show_address(const char *listen, const char *other,
                         char ret_shown[LIMIT_ADDRESS_BYTES + 1])
{
    int len = -1;

    if (address_is_wildcard(listen) && other[0] != '\0') {
        len = snprintf(ret_shown, LIMIT_ADDRESS_BYTES + 1, "%.*s%s",
                       (int)(strrchr(other, ':') - other), other, strrchr(listen, ':'));
    }
    if (len < 0 || len > LIMIT_ADDRESS_BYTES) {
        (void)snprintf(ret_shown, LIMIT_ADDRESS_BYTES + 1, "%s", listen);
    }
}

/* HTTP at the host that the peers know, RESP at the one of HTTP. */
static void default_shown_addresses(struct config *config)
{
    char shown[LIMIT_ADDRESS_BYTES + 1];

    show_address(config->http.listen_address, config->node.peer_address, shown);
    set_default(config, "http.advertise", shown);
    show_address(config->http.resp_address, config->node.http_address, config->resp_shown);
    config->http.resp_shown = config->resp_shown;
}

/* Beside the ids: on loopback, so far from their port that nodes which share a machine do not
 * meet. */
static void default_admin(struct config *config)
{
    unsigned long port = strtoul(strrchr(config->http.listen_address, ':') + 1, NULL, 10);
    char address[sizeof "127.0.0.1:65535"];

    port = port + ADMIN_PORT_STEP > UINT16_MAX ? port - ADMIN_PORT_STEP : port + ADMIN_PORT_STEP;
    (void)snprintf(address, sizeof address, "127.0.0.1:%u", (unsigned)(uint16_t)port);
    set_default(config, "admin.listen", address);
    config->admin.http = config->http;
    config->admin.http.listen_address = config->admin.listen;
    config->admin.http.loops = LIMIT_HTTP_ADMIN_LOOPS;
    config->admin.http.resp_address = "";
    config->admin.http.resp_tls = false;
    config->admin.http.connections = LIMIT_HTTP_ADMIN_CONNECTIONS;
}

/* What follows from a setting by a fixed ratio, and what none of them changes. */
static void set_followers(struct node_settings *node, struct id_service_config *ids)
{
    struct driver_config *driver = &node->replica.driver;
    struct lease_config *lease = &ids->lease;
    uint32_t heartbeat_ms = driver->election_ms / HEARTBEATS_PER_ELECTION;
    uint32_t part_ms = lease->window_ms / RENEWALS_PER_WINDOW;

    driver->heartbeat_ms = heartbeat_ms > HEARTBEAT_MIN_MS ? heartbeat_ms : HEARTBEAT_MIN_MS;
    driver->applier.trailing_entries = driver->applier.snapshot_entries / SNAPSHOTS_PER_TRAIL;
    node->replica.catch_up_ms = driver->election_ms * CATCH_UP_ELECTIONS;
    ids->refill_percent = REFILL_DEFAULT_PERCENT;
    ids->allocator.request_ms = GRANT_REQUEST_MS;
    ids->allocator.retry_ms = GRANT_RETRY_MS;
    ids->prefetch.rate_per_s = PREFETCH_DEFAULT_RATE;
    lease->renew_ms = part_ms < RENEW_MS ? part_ms : RENEW_MS;
    lease->mark_lead_ms = MARK_LEAD_MS;
    node->replica.clock = (struct clock_sync_config){.threshold_ms = lease->threshold_ms,
                                                     .renew_ms = lease->renew_ms};
}

static uint32_t at_most(uint32_t value, uint32_t most)
{
    return value < most ? value : most;
}

/* Parts of the memory, and times that are no longer than a connection may be idle. */
static void set_http_followers(struct http_settings *http, uint64_t memory_bytes)
{
    http->bodies_bytes = memory_bytes / 3;
    http->client_bodies_bytes = memory_bytes / 12;
    http->output_bytes = memory_bytes / 3;
    http->input_bytes = memory_bytes / 6; /* and as much again, see meter.h */
    http->head_ms = at_most(LIMIT_HTTP_HEAD_MS, http->idle_ms);
    http->body_ms = at_most(LIMIT_HTTP_BODY_MS, http->idle_ms);
    http->write_ms = at_most(LIMIT_HTTP_WRITE_MS, http->idle_ms);
    http->min_rate_bytes = HTTP_DEFAULT_MIN_RATE_BYTES;
    http->connections = LIMIT_HTTP_CONNECTIONS; /* open files may allow fewer, see listeners.h */
    http->resp_idle_ms = LIMIT_RESP_IDLE_MS;
}

/* Paths that are too long are of no setting: its bound has room for the names. */
static void set_tls_files(const char *dir, bool has_ca, struct config_tls_files *ret_files)
{
    *ret_files = (struct config_tls_files){"", "", ""};
    if (dir[0] == '\0') {
        return;
    }
    (void)snprintf(ret_files->certificate, sizeof ret_files->certificate,
                   "%s" CONFIG_TLS_CERTIFICATE, dir);
    (void)snprintf(ret_files->key, sizeof ret_files->key, "%s" CONFIG_TLS_KEY, dir);
    if (has_ca) {
        (void)snprintf(ret_files->ca, sizeof ret_files->ca, "%s" CONFIG_TLS_CA, dir);
    }
}

static void set_tls(struct config *config)
{
    struct net_key_source *keys = &config->node.keys;

    set_tls_files(config->tls.dir, config->tls.client != TLS_CLIENT_NONE, &config->tls.files);
    set_tls_files(config->peer_tls.dir, true, &config->peer_tls.files);
    keys->cert_file = config->peer_tls.files.certificate;
    keys->key_file = config->peer_tls.files.key;
    keys->ca_file = config->peer_tls.files.ca;
    config->http.resp_tls = config->tls.dir[0] != '\0';
}

static int set_defaults(struct config *config, struct config_error *ret_error)
{
    const char *item;

    (void)ret_error;
    set_followers(&config->node, &config->ids);
    set_http_followers(&config->http, config->http_memory_bytes);
    config->node.bootstrap_single = config->bootstrap == CONFIG_BOOTSTRAP_SINGLE;
    config->data.create = config->bootstrap != CONFIG_BOOTSTRAP_NEVER;
    config->shutdown.grace_ms = SHUTDOWN_GRACE_MS;
    config->http.quotas = config->quota.clients;
    config->http.worker_percent = config->quota.workers_percent;
    config->ids.key_percent = config->quota.keys_percent;
    config->http.tags_bytes =
        config->quota.tags_percent < 100
            ? config->node.replica.memory_bytes / 100 * config->quota.tags_percent
            : UINT64_MAX;
    default_peer_addresses(config);
    default_shown_addresses(config);
    set_tls(config);
    default_admin(config);
    set_default(config, "auth.anonymous", config->auth.tokens_file[0] != '\0' ? "health" : "all");
    ASSERT(config_roles(config->auth.anonymous, &config->auth.anonymous_roles, &item) == 0);
    config->data.map_by_disk =
        config->origins[setting_row("data.map-bytes")].source == CONFIG_FROM_DEFAULT;
    config->ids.lease.fixed = config->worker_id == WORKER_ID_ANY ? 0 : config->worker_id + 1;
    if (config->http.loops == 0) {
        config->http.loops = rules_http_loops(uv_available_parallelism());
    }
    return 0;
}

/* --- rules --- */

static int check_required(struct config *config, struct config_error *ret_error)
{
    struct setting_text variable;
    struct setting_text flag;

    for (size_t row = 0; row < setting_count; row++) {
        if (config->origins[row].text == NULL &&
            (config->node.join.count == 0 || settings[row].type != &setting_members)) {
            return config_fail(
                ret_error, "%s is not set: give it in a config file, as %s or as %s",
                settings[row].name,
                setting_spell(settings[row].name, CONFIG_FROM_ENVIRONMENT, &variable),
                setting_spell(settings[row].name, CONFIG_FROM_FLAG, &flag));
        }
    }
    return 0;
}

/* Rules between two settings. */
static int check_pairs(struct config *config, struct config_error *ret_error)
{
    const struct node_settings *node = &config->node;
    const struct net_peer *member = own_member(config);
    bool joins = node->join.count > 0;
    bool has_resp = config->http.resp_address[0] != '\0';
    const struct {
        bool is_broken;
        const char *first;
        const char *how;
        const char *second;
    } rules[] = {
        {!joins && member == NULL, "node.id", "is not among", "cluster.members"},
        {!joins && member != NULL && strcmp(member->address, node->peer_address) != 0,
         "peer.advertise", "is not this node's address in", "cluster.members"},
        {node->bootstrap_single && !joins && node->members.count > 1, "cluster.bootstrap",
         "is for a node that is all of its cluster, and not with", "cluster.members"},
        {joins && address_is_wildcard(node->peer_address), "peer.advertise",
         "is an address that nobody can dial; given", "join"},
        {strcmp(config->http.listen_address, node->listen_address) == 0, "http.listen",
         "is the same address as", "peer.listen"},
        {strcmp(config->admin.listen, node->listen_address) == 0, "admin.listen",
         "is the same address as", "peer.listen"},
        {strcmp(config->admin.listen, config->http.listen_address) == 0, "admin.listen",
         "(\"" CONFIG_ADMIN_SAME "\" joins the listeners) is the same address as", "http.listen"},
        {has_resp && strcmp(config->http.resp_address, node->listen_address) == 0, "resp.listen",
         "is the same address as", "peer.listen"},
        {strcmp(config->http.resp_address, config->http.listen_address) == 0, "resp.listen",
         "is the same address as", "http.listen"},
        {strcmp(config->http.resp_address, config->admin.listen) == 0, "resp.listen",
         "is the same address as", "admin.listen"},
        {node->replica.replace_lost && node->node_id > LOST_ID_MAX, "node.id",
         "is more than 1000, which it may not be with", "cluster.replace-lost"},
        {node->replica.replace_lost && config->peer_tls.dir[0] != '\0', "peer.tls-dir",
         "has a certificate of one node id for good, and so cannot be used with",
         "cluster.replace-lost"},
        {config->ids.lease.fixed > 0 && config->ids.lease.workers != 1, "snowflake.worker-id",
         "is one worker id, and so needs 1 of", "snowflake.workers"},
        {config->ids.lease.fixed > 1u << config->ids.lease.layout.worker_bits,
         "snowflake.worker-id", "is beyond what has room in", "snowflake.layout"},
        {config->tls.client != TLS_CLIENT_NONE && config->tls.dir[0] == '\0', "http.tls-client",
         "is for TLS: set", "http.tls-dir"},
    };
    struct citation first;
    struct citation second;

    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        if (rules[i].is_broken) {
            return config_fail(ret_error, "%s %s %s", cite(config, rules[i].first, &first),
                               rules[i].how, cite(config, rules[i].second, &second));
        }
    }
    return 0;
}

/* The others must be able to dial it, and it is one address for good. */
static int check_peer_address(struct config *config, struct config_error *ret_error)
{
    if (config->node.peer_address[0] == '\0') {
        return config_fail(ret_error, "peer.listen is not set: a node that joins a cluster needs "
                                      "an address where the others reach it");
    }
    return 0;
}

int rules_layout(const struct config *config, uint64_t now_ms, struct config_error *ret_error)
{
    uint64_t compared_ms = now_ms > WRITTEN_MS ? now_ms : WRITTEN_MS;
    struct citation layout;
    const char *why;

    if (snowflake_layout_check(&config->ids.lease.layout, compared_ms, &why) == 0) {
        return 0;
    }
    return config_fail(ret_error, "%s: %s; this machine's clock says %" PRIu64 " ms",
                       cite(config, "snowflake.layout", &layout), why, now_ms);
}

static int check_layout(struct config *config, struct config_error *ret_error)
{
    return rules_layout(config, clock_wall_ms(clock_system()), ret_error);
}

static int check_secret(struct config *config, struct config_error *ret_error)
{
    struct citation listen;

    if (config->node.keys.secret_count > 0 || config->peer_tls.dir[0] != '\0' ||
        address_is_loopback(config->node.listen_address)) {
        return 0;
    }
    return config_fail(ret_error,
                       "%s can be reached from other machines, and cluster.secret-file is not "
                       "set: anybody could join the cluster and change its data. Make a secret "
                       "with: (umask 077; leafd --new-secret > leafd.secret), copy "
                       "the file to every node, and set cluster.secret-file to it",
                       cite(config, "peer.listen", &listen));
}

static int read_secret(struct config *config, struct config_error *ret_error)
{
    struct net_key_source *keys = &config->node.keys;
    char why[SECRET_WHY_BYTES];
    struct secret_list list;
    size_t len = 0;
    int rv;

    keys->cluster_id = config->node.cluster_id;
    if (config->secret_file[0] == '\0') {
        return 0;
    }
    rv = config_file_read(config->secret_file, true, config->secret, sizeof config->secret, &len,
                          ret_error);
    if (rv == 0 && len > LIMIT_SECRET_BYTES) {
        rv = config_fail(ret_error,
                         "there is more in it than %d bytes: make one with leafd "
                         "--new-secret",
                         LIMIT_SECRET_BYTES);
    }
    if (rv == 0 && secret_parse(config->secret, len, &list, why) != 0) {
        rv = config_fail(ret_error, "%s", why);
    }
    if (rv != 0) {
        return config_fail_at(ret_error, "cluster.secret-file %s", config->secret_file);
    }
    keys->secret_count = list.count;
    memcpy(keys->secrets, list.secrets, sizeof keys->secrets);
    explicit_bzero(&list, sizeof list);
    return 0;
}

/* What is in them is looked at when the node starts. */
static int check_peer_files(struct config *config, struct config_error *ret_error)
{
    const struct config_tls_files *files = &config->peer_tls.files;
    const char *const paths[] = {files->certificate, files->key, files->ca};
    uint8_t first;
    size_t len;

    for (size_t i = 0; config->peer_tls.dir[0] != '\0' && i < COUNT_OF(paths); i++) {
        if (config_file_read(paths[i], paths[i] == files->key, &first, 1, &len, ret_error) != 0) {
            return config_fail_at(ret_error, "peer.tls-dir %s", paths[i]);
        }
    }
    return 0;
}

/* The file is read again when the node starts: here it is only looked at. */
static int check_tokens(struct config *config, struct config_error *ret_error)
{
    BUF_LOCAL(text);
    char why[TOKENS_WHY_BYTES];
    struct token_table *table = NULL;
    int rv = config_tokens_read(config, &text, ret_error);

    if (rv == 0 && config->auth.tokens_file[0] != '\0') {
        rv = tokens_parse((const char *)text.data, text.len, 0, &table, why);
        tokens_unref(table);
        if (rv != 0) {
            (void)config_fail(ret_error, "auth.tokens-file %s: %s", config->auth.tokens_file, why);
        }
    }
    return rv;
}

/* A listener that others reach has tokens, or the operator says that it needs none. */
static int check_open(struct config *config, struct config_error *ret_error)
{
    bool joined = strcmp(config->admin.listen, CONFIG_ADMIN_SAME) == 0;
    bool http_open = !address_is_loopback(config->http.listen_address);
    bool admin_open = !joined && !address_is_loopback(config->admin.listen);
    bool resp_open =
        config->http.resp_address[0] != '\0' && !address_is_loopback(config->http.resp_address);
    struct citation listen;
    const char *name = http_open ? "http.listen" : admin_open ? "admin.listen" : "resp.listen";
    bool all = http_open ? joined : admin_open;

    if (config->auth.tokens_file[0] != '\0' ||
        config->origins[setting_row("auth.anonymous")].source > CONFIG_FROM_RULE ||
        (!http_open && !admin_open && !resp_open)) {
        return 0;
    }
    return config_fail(ret_error,
                       "%s can be reached from other machines, and auth.tokens-file is not set: "
                       "anybody could %s. Make a token with: leafd --new-token, put its line into "
                       "a file of mode 0600, and set auth.tokens-file to it; or, where whoever "
                       "reaches the port may do all that, set auth.anonymous to all, or to the "
                       "roles that they have",
                       cite(config, name, &listen), all ? "change tags and members" : "take ids");
}

/* Could the files be put in force? */
static int check_certificate(struct config *config, struct config_error *ret_error)
{
    struct tls_context *context = NULL;
    struct tls *tls;
    int rv;

    if (!tls_files_are_set(config)) {
        return 0;
    }
    tls = tls_new(clock_system());
    rv = tls_files_load(config, tls, &context, ret_error);
    tls_context_free(context);
    tls_free(tls);
    return rv;
}

static int apply_rules(struct config *config, struct config_error *ret_error)
{
    static int (*const steps[])(struct config *, struct config_error *) = {
        check_required,    set_defaults,     check_pairs,  check_peer_address,
        read_secret,       check_peer_files, check_layout, check_secret,
        check_certificate, check_tokens,     check_open};
    int rv = 0;

    for (size_t i = 0; rv == 0 && i < sizeof steps / sizeof steps[0]; i++) {
        rv = steps[i](config, ret_error);
    }
    return rv;
}

/* --- the sources --- */

#define FILE_FLAG "--config"
#define FILE_VARIABLE CONFIG_ENVIRONMENT_PREFIX "CONFIG"
#define QUOTED_BYTES 128

static const struct {
    const char *flag;
    enum config_action action;
} commands[] = {
    {"--help", CONFIG_HELP},
    {"-h", CONFIG_HELP},
    {"--version", CONFIG_VERSION},
    {"--print-config", CONFIG_PRINT},
    {"--check-config", CONFIG_CHECK},
    {"--print-config-doc", CONFIG_PRINT_DOC},
    {"--print-config-example", CONFIG_PRINT_EXAMPLE},
    {"--new-secret", CONFIG_NEW_SECRET},
    {"--new-token", CONFIG_NEW_TOKEN},
};

static void load_defaults(struct config *config)
{
    struct config_error error;

    for (size_t row = 0; row < setting_count; row++) {
        if (settings[row].fallback != NULL) {
            ASSERT(config_set(config, row, settings[row].fallback, CONFIG_FROM_DEFAULT, 0,
                              &error) == 0);
        }
    }
}

static int set_file(struct config *config, const char *path, const char *from,
                    struct config_error *ret_error)
{
    if (path[0] == '\0' || strlen(path) > LIMIT_PATH_BYTES) {
        return config_fail(ret_error, "%s: must be a path of 1 to %d bytes", from,
                           LIMIT_PATH_BYTES);
    }
    config->file = path;
    return 0;
}

/* Set what a source names. The error says where, but for a file, which has lines. */
static int assign(struct config *config, enum config_source source, unsigned line, const char *name,
                  size_t len, const char *value, struct config_error *ret_error)
{
    static const char *const unknown[] = {[CONFIG_FROM_FILE] = "unknown setting",
                                          [CONFIG_FROM_ENVIRONMENT] =
                                              "environment: unknown variable",
                                          [CONFIG_FROM_FLAG] = "unknown argument"};
    size_t row = setting_find(name, len, source);
    struct setting_text spelled;
    char quoted[QUOTED_BYTES];

    if (row == setting_count) {
        return config_fail(ret_error, "%s %s; --help lists the settings", unknown[source],
                           log_quote(name, len, quoted, sizeof quoted));
    }
    if (source == CONFIG_FROM_FILE && config->origins[row].source == source) {
        return config_fail(ret_error, "%s is set twice, first on line %u", settings[row].name,
                           config->origins[row].line);
    }
    if (config_set(config, row, value, source, line, ret_error) == 0) {
        return 0;
    }
    return source == CONFIG_FROM_FILE
               ? ERR_INVALID
               : config_fail_at(ret_error,
                                source == CONFIG_FROM_FLAG ? "flag %s" : "environment %s",
                                setting_spell(settings[row].name, source, &spelled));
}

/* --- the file --- */

static bool is_config_blank(char c)
{
    return c == ' ' || c == '\t';
}

/* Cut the blanks, and a carriage return, off the end. */
static void trim_end(char *text)
{
    size_t len = strlen(text);

    while (len > 0 && (is_config_blank(text[len - 1]) || text[len - 1] == '\r')) {
        len--;
    }
    text[len] = '\0';
}

/* Cut off a comment: '#' after a blank, or at the very start. */
static void cut_comment(char *text)
{
    for (char *hash = strchr(text, '#'); hash != NULL; hash = strchr(hash + 1, '#')) {
        if (hash == text || is_config_blank(hash[-1])) {
            *hash = '\0';
            return;
        }
    }
}

/* The text in quotes, and nothing but a comment after it. */
static int parse_quoted(char *text, char **ret_value, struct config_error *ret_error)
{
    char *end = strchr(text + 1, '"');

    if (end == NULL) {
        return config_fail(ret_error, "the quote is not closed");
    }
    *end = '\0';
    if (end[1] != '#') {
        cut_comment(end + 1);
        trim_end(end + 1);
    }
    if (end[1] != '\0') {
        return config_fail(ret_error, "there is more after the closing quote");
    }
    *ret_value = text + 1;
    return 0;
}

/* Cut a line into texts. *ret_key is NULL if there is no setting on it. */
static int parse_line(char *line, char **ret_key, char **ret_value, struct config_error *ret_error)
{
    char *equals;
    char *value;

    *ret_key = NULL;
    line += strspn(line, " \t\r");
    if (*line == '\0' || *line == '#') {
        return 0;
    }
    equals = strchr(line, '=');
    if (equals == NULL || equals == line) {
        return config_fail(ret_error, "must be: key = value");
    }
    *equals = '\0';
    trim_end(line);
    *ret_key = line;
    value = equals + 1 + strspn(equals + 1, " \t");
    if (*value == '"') {
        return parse_quoted(value, ret_value, ret_error);
    }
    cut_comment(value);
    trim_end(value);
    *ret_value = value;
    return 0;
}

static int load_file(struct config *config, struct config_error *ret_error)
{
    char text[LIMIT_CONFIG_FILE_BYTES + 2];
    char *rest = text;
    size_t len = 0;
    char *line;
    int rv;

    rv = config_file_read(config->file, false, text, sizeof text - 1, &len, ret_error);
    text[len] = '\0';
    if (rv == 0 && len > LIMIT_CONFIG_FILE_BYTES) {
        rv = config_fail(ret_error, "larger than %d bytes", LIMIT_CONFIG_FILE_BYTES);
    } else if (rv == 0 && strlen(text) < len) {
        rv = config_fail(ret_error, "has a NUL byte; is it a text file?");
    }
    if (rv != 0) {
        return config_fail_at(ret_error, "config file %s", config->file);
    }
    for (unsigned number = 1; (line = strsep(&rest, "\n")) != NULL; number++) {
        char *value = NULL;
        char *key;

        if (parse_line(line, &key, &value, ret_error) != 0 ||
            (key != NULL &&
             assign(config, CONFIG_FROM_FILE, number, key, strlen(key), value, ret_error) != 0)) {
            return config_fail_at(ret_error, "%s:%u", config->file, number);
        }
    }
    return 0;
}

/* --- the environment --- */

/* Kubernetes gives every container variables named after the services around it: one called "leafd"
 * makes LEAFD_SERVICE_HOST, LEAFD_PORT=tcp://..., LEAFD_PORT_8080_TCP_ADDR and their like. No more
 * is let pass: LEAFD_HTTP_PORT=8080 is somebody's mistake. */
static bool is_service_link(const char *variable, size_t len)
{
    const char *port = memmem(variable, len, "_PORT", strlen("_PORT"));

    if (memmem(variable, len, "_SERVICE_HOST", strlen("_SERVICE_HOST")) != NULL ||
        memmem(variable, len, "_SERVICE_PORT", strlen("_SERVICE_PORT")) != NULL) {
        return true;
    }
    if (port == NULL) {
        return false;
    }
    port += strlen("_PORT");
    return *port == '=' ? strstr(port, "://") != NULL
                        : *port == '_' && isdigit((unsigned char)port[1]);
}

static int load_environment(struct config *config, char *const env[],
                            struct config_error *ret_error)
{
    static const char prefix[] = CONFIG_ENVIRONMENT_PREFIX;
    int rv = 0;

    for (; rv == 0 && *env != NULL; env++) {
        size_t len = strcspn(*env, "=");

        if ((*env)[len] == '=' && strncmp(*env, prefix, sizeof prefix - 1) == 0 &&
            strncmp(*env, FILE_VARIABLE "=", len + 1) != 0 && !is_service_link(*env, len)) {
            rv = assign(config, CONFIG_FROM_ENVIRONMENT, 0, *env, len, *env + len + 1, ret_error);
        }
    }
    return rv;
}

/* The file that the environment names. */
static int find_file(struct config *config, char *const env[], struct config_error *ret_error)
{
    static const char name[] = FILE_VARIABLE "=";

    for (; *env != NULL; env++) {
        if (strncmp(*env, name, sizeof name - 1) == 0) {
            return set_file(config, *env + sizeof name - 1, FILE_VARIABLE, ret_error);
        }
    }
    return 0;
}

/* --- the command line --- */

/* CONFIG_RUN: it is no command. */
static enum config_action command_of(const char *argument)
{
    size_t i = 0;

    while (i < sizeof commands / sizeof commands[0] && strcmp(argument, commands[i].flag) != 0) {
        i++;
    }
    return i < sizeof commands / sizeof commands[0] ? commands[i].action : CONFIG_RUN;
}

/* One that is no command: the config file or, if settings are to be taken, a setting; with its
 * value, which may be the next argument. Of a flag given twice the last one holds. */
static int take_flag(struct config *config, char *const argv[], int *at, bool take,
                     struct config_error *ret_error)
{
    const char *flag = argv[*at];
    size_t len = strcspn(flag, "=");
    bool is_file = strlen(FILE_FLAG) == len && strncmp(flag, FILE_FLAG, len) == 0;
    const char *value = flag[len] == '=' ? flag + len + 1 : argv[*at + 1];
    size_t row = setting_find(flag, len, CONFIG_FROM_FLAG);
    /* One of yes or no may stand alone. */
    bool is_bare = flag[len] != '=' && (value == NULL || value[0] == '-') && row < setting_count &&
                   settings[row].type == &setting_boolean;

    if (!is_file && row == setting_count) {
        return assign(config, CONFIG_FROM_FLAG, 0, flag, strlen(flag), NULL, ret_error);
    }
    if (is_bare) {
        value = "true";
    } else if (value == NULL) {
        return config_fail(ret_error, "%s: the value is missing", flag);
    }
    *at += flag[len] != '=' && !is_bare;
    if (is_file) {
        return set_file(config, value, FILE_FLAG, ret_error);
    }
    return take ? assign(config, CONFIG_FROM_FLAG, 0, flag, len, value, ret_error) : 0;
}

/* What the command line asks for, the config file it names, and settings if they are to be taken.
 * Of commands the first holds: "--help --check-config" shows the help. */
static int load_arguments(struct config *config, bool take, enum config_action *ret_action,
                          struct config_error *ret_error)
{
    char *const *argv = config->given.argv;
    int rv = 0;

    *ret_action = CONFIG_RUN;
    for (int at = 1; rv == 0 && at < config->given.argc; at++) {
        enum config_action command = command_of(argv[at]);

        if (command == CONFIG_RUN) {
            rv = take_flag(config, argv, &at, take, ret_error);
        } else if (*ret_action == CONFIG_RUN) {
            *ret_action = command;
        }
    }
    return rv;
}

/* --- all of them --- */

static int load_all(struct config *config, struct config_error *ret_error)
{
    char *const *env = config->given.env;
    enum config_action action;
    int rv = config->file[0] == '\0' ? find_file(config, env, ret_error) : 0;

    load_defaults(config);
    if (rv == 0 && config->file[0] != '\0') {
        rv = load_file(config, ret_error);
    }
    if (rv == 0) {
        rv = load_environment(config, env, ret_error);
    }
    if (rv == 0) {
        rv = load_arguments(config, true, &action, ret_error);
    }
    return rv == 0 ? apply_rules(config, ret_error) : rv;
}

int config_load(int argc, char *const argv[], char *const env[], struct config *ret_config,
                enum config_action *ret_action, struct config_error *ret_error)
{
    int rv;

    *ret_config = (struct config){.file = "", .given = {argc, argv, env}};
    rv = load_arguments(ret_config, false, ret_action, ret_error);
    if (rv == 0 && *ret_action < CONFIG_PRINT_DOC) {
        rv = load_all(ret_config, ret_error);
    }
    if (rv != 0) {
        config_release(ret_config);
    }
    return rv;
}

int config_load_again(const struct config *config, struct config *ret_next,
                      struct config_error *ret_error)
{
    enum config_action action;

    return config_load(config->given.argc, config->given.argv, config->given.env, ret_next, &action,
                       ret_error);
}
