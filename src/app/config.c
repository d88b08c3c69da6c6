/*
 * config.c - the settings put together: defaults, file, environment, flags, then the rules between
 * settings.
 *
 * The command line is read twice: first for what it asks (--help, --config FILE), last for
 * settings, so that flags overrule the file they name. See config.h. Thread: main.
 */
#include "src/app/config.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/app/config_table.h"
#include "src/base/assert.h"
#include "src/base/clock.h"

#define WRITTEN_MS 1767225600000 /* 2026-01-01: no clock that is right is before it */

/* An argument that is no setting. */
struct command {
    const char *flag;
    enum config_action action;
};

static const struct command commands[] = {
    {"--help", CONFIG_HELP},          {"-h", CONFIG_HELP},
    {"--version", CONFIG_VERSION},    {"--print-config", CONFIG_PRINT},
    {"--check-config", CONFIG_CHECK}, {"--print-config-doc", CONFIG_PRINT_DOC},
};

static int load_all(struct config *config, int argc, char *const argv[], char *const env[],
                    struct config_error *ret_error);
static int read_commands(int argc, char *const argv[], struct config *config,
                         enum config_action *ret_action, struct config_error *ret_error);
static void load_defaults(struct config *config);
static int load_file(struct config *config, char *const env[], struct config_error *ret_error);
static int load_environment(struct config *config, char *const env[],
                            struct config_error *ret_error);
static int load_flags(struct config *config, int argc, char *const argv[],
                      struct config_error *ret_error);
static void load_derived(struct config *config);
static int check_required(const struct config *config, struct config_error *ret_error);
static int check_members(const struct config *config, struct config_error *ret_error);
static int check_advertised(const struct config *config, struct config_error *ret_error);
static int check_rules(const struct config *config, struct config_error *ret_error);

int config_load(int argc, char *const argv[], char *const env[], struct config *ret_config,
                enum config_action *ret_action, struct config_error *ret_error)
{
    enum config_action action = CONFIG_RUN;
    int rv;

    *ret_config = (struct config){0};
    rv = read_commands(argc, argv, ret_config, &action, ret_error);
    if (rv == 0 && action != CONFIG_HELP && action != CONFIG_VERSION &&
        action != CONFIG_PRINT_DOC) {
        rv = load_all(ret_config, argc, argv, env, ret_error);
    }
    if (rv != 0) {
        config_release(ret_config);
        return rv;
    }
    *ret_action = action;
    return 0;
}

void config_release(struct config *config)
{
    for (size_t i = 0; i < CONFIG_KEYS_MAX; i++) {
        free(config->origins[i].text);
    }
    explicit_bzero(config, sizeof *config);
}

static int load_all(struct config *config, int argc, char *const argv[], char *const env[],
                    struct config_error *ret_error)
{
    int rv;

    load_defaults(config);
    if ((rv = load_file(config, env, ret_error)) != 0 ||
        (rv = load_environment(config, env, ret_error)) != 0 ||
        (rv = load_flags(config, argc, argv, ret_error)) != 0 ||
        (rv = check_required(config, ret_error)) != 0 ||
        (rv = check_members(config, ret_error)) != 0) {
        return rv;
    }
    load_derived(config);
    if ((rv = check_advertised(config, ret_error)) != 0) {
        return rv;
    }
    if (config->secret_file[0] != '\0' && (rv = config_secret_read(config, ret_error)) != 0) {
        return rv;
    }
    return check_rules(config, ret_error);
}

/* Put a value into its field and note where it came from. */
static int take(struct config *config, size_t i, const char *text, enum config_source source,
                unsigned line, struct config_error *ret_error)
{
    struct config_origin *origin = &config->origins[i];
    char *copy;
    int rv;

    ASSERT(i < config_key_count);
    if (strlen(text) > LIMIT_CONFIG_VALUE_BYTES) {
        return config_fail(ret_error, "%s: the value is longer than %d bytes", config_keys[i].name,
                           LIMIT_CONFIG_VALUE_BYTES);
    }
    rv = config_value_set(config, &config_keys[i], text, ret_error);
    if (rv != 0) {
        return rv;
    }
    copy = strdup(text);
    ASSERT(copy != NULL);
    free(origin->text);
    *origin = (struct config_origin){source, line, copy};
    return 0;
}

static void load_defaults(struct config *config)
{
    struct config_error error;

    for (size_t i = 0; i < config_key_count; i++) {
        if (config_keys[i].fallback != NULL) {
            ASSERT(take(config, i, config_keys[i].fallback, CONFIG_FROM_DEFAULT, 0, &error) == 0);
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
    memcpy(config->file, path, strlen(path) + 1);
    return 0;
}

/* If argv[*at] is the flag, with its value behind it or behind '=', give the value and step over
 * it. */
static int flag_value(int argc, char *const argv[], int *at, const char *flag,
                      const char **ret_value, struct config_error *ret_error)
{
    const char *arg = argv[*at];
    size_t len = strlen(flag);

    *ret_value = NULL;
    if (strncmp(arg, flag, len) != 0 || (arg[len] != '=' && arg[len] != '\0')) {
        return 0;
    }
    if (arg[len] == '=') {
        *ret_value = arg + len + 1;
        return 0;
    }
    if (*at + 1 >= argc) {
        return config_fail(ret_error, "%s: the value is missing", flag);
    }
    (*at)++;
    *ret_value = argv[*at];
    return 0;
}

static const struct command *find_command(const char *arg)
{
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        if (strcmp(arg, commands[i].flag) == 0) {
            return &commands[i];
        }
    }
    return NULL;
}

/* One argument, a flag of the table: its value, and which row; an unknown one is an error. */
static int setting_flag(int argc, char *const argv[], int *at, size_t *ret_row,
                        const char **ret_value, struct config_error *ret_error)
{
    char flag[CONFIG_KEY_TEXT_BYTES];
    char quoted[128];
    int rv;

    for (size_t i = 0; i < config_key_count; i++) {
        rv = flag_value(argc, argv, at, config_key_flag(&config_keys[i], flag), ret_value,
                        ret_error);
        if (rv != 0 || *ret_value != NULL) {
            *ret_row = i;
            return rv;
        }
    }
    return config_fail(ret_error, "unknown argument %s; --help lists the flags",
                       log_quote(argv[*at], strlen(argv[*at]), quoted, sizeof quoted));
}

/* What the command line asks for, and the config file it names; the rest must be settings. */
static int read_commands(int argc, char *const argv[], struct config *config,
                         enum config_action *ret_action, struct config_error *ret_error)
{
    for (int at = 1; at < argc; at++) {
        const struct command *command = find_command(argv[at]);
        const char *value;
        size_t row;

        if (command != NULL) {
            /* The first wins: "--help --check-config" shows the help. */
            *ret_action = *ret_action == CONFIG_RUN ? command->action : *ret_action;
            continue;
        }
        if (flag_value(argc, argv, &at, "--config", &value, ret_error) != 0) {
            return ERR_INVALID;
        }
        if (value != NULL) {
            if (set_file(config, value, "--config", ret_error) != 0) {
                return ERR_INVALID;
            }
        } else if (setting_flag(argc, argv, &at, &row, &value, ret_error) != 0) {
            return ERR_INVALID;
        }
    }
    return 0;
}

static int file_line(void *data, unsigned line, const char *key, const char *value,
                     struct config_error *ret_error)
{
    struct config *config = data;
    size_t i = config_key_find(key, strlen(key));
    char quoted[128];

    if (i == config_key_count) {
        return config_fail(ret_error, "unknown setting %s; --help lists the settings",
                           log_quote(key, strlen(key), quoted, sizeof quoted));
    }
    if (config->origins[i].source == CONFIG_FROM_FILE) {
        return config_fail(ret_error, "%s is set twice, first on line %u", key,
                           config->origins[i].line);
    }
    return take(config, i, value, CONFIG_FROM_FILE, line, ret_error);
}

/* The value of a variable, or NULL. */
static const char *variable(char *const env[], const char *name)
{
    size_t len = strlen(name);

    for (; *env != NULL; env++) {
        if (strncmp(*env, name, len) == 0 && (*env)[len] == '=') {
            return *env + len + 1;
        }
    }
    return NULL;
}

static int load_file(struct config *config, char *const env[], struct config_error *ret_error)
{
    const char *path = variable(env, CONFIG_ENV_PREFIX "CONFIG");

    if (config->file[0] == '\0' && path != NULL &&
        set_file(config, path, CONFIG_ENV_PREFIX "CONFIG", ret_error) != 0) {
        return ERR_INVALID;
    }
    if (config->file[0] == '\0') {
        return 0;
    }
    return config_file_read(config->file, file_line, config, ret_error);
}

/* Kubernetes gives every container variables named after the services around it: one called "leafd"
 * makes LEAFD_SERVICE_HOST, LEAFD_PORT=tcp://..., LEAFD_PORT_8080_TCP_ADDR and their like. No more
 * is let pass: LEAFD_HTTP_PORT=8080 is somebody's mistake. */
static bool is_service_link(const char *name, const char *value)
{
    const char *port = strstr(name, "_PORT");

    if (strstr(name, "_SERVICE_HOST") != NULL || strstr(name, "_SERVICE_PORT") != NULL) {
        return true;
    }
    if (port == NULL) {
        return false;
    }
    port += strlen("_PORT");
    return *port == '\0' ? strstr(value, "://") != NULL
                         : *port == '_' && port[1] >= '0' && port[1] <= '9';
}

static size_t find_variable(const char *name, size_t len)
{
    char text[CONFIG_KEY_TEXT_BYTES];
    size_t i;

    for (i = 0; i < config_key_count; i++) {
        config_key_variable(&config_keys[i], text);
        if (strlen(text) == len && memcmp(text, name, len) == 0) {
            break;
        }
    }
    return i;
}

/* One variable that begins with our prefix. name: up to the '='. */
static int take_variable(struct config *config, const char *name, size_t len, const char *value,
                         struct config_error *ret_error)
{
    size_t i = find_variable(name, len);
    struct config_error reason;
    char cut[256];
    char quoted[128];

    if (i < config_key_count) {
        if (take(config, i, value, CONFIG_FROM_ENVIRONMENT, 0, &reason) != 0) {
            return config_fail(ret_error, "environment %.*s: %s", (int)len, name, reason.text);
        }
        return 0;
    }
    (void)snprintf(cut, sizeof cut, "%.*s", len < 200 ? (int)len : 200, name);
    if (strcmp(cut, CONFIG_ENV_PREFIX "CONFIG") == 0 || is_service_link(cut, value)) {
        return 0;
    }
    return config_fail(ret_error, "environment: unknown variable %s; --help lists the settings",
                       log_quote(cut, strlen(cut), quoted, sizeof quoted));
}

static int load_environment(struct config *config, char *const env[],
                            struct config_error *ret_error)
{
    for (; *env != NULL; env++) {
        const char *equals = strchr(*env, '=');

        if (equals == NULL || strncmp(*env, CONFIG_ENV_PREFIX, strlen(CONFIG_ENV_PREFIX)) != 0) {
            continue;
        }
        if (take_variable(config, *env, (size_t)(equals - *env), equals + 1, ret_error) != 0) {
            return ERR_INVALID;
        }
    }
    return 0;
}

/* Settings among the arguments; the last of a flag given twice holds. */
static int load_flags(struct config *config, int argc, char *const argv[],
                      struct config_error *ret_error)
{
    char flag[CONFIG_KEY_TEXT_BYTES];
    struct config_error reason;

    for (int at = 1; at < argc; at++) {
        const char *value;
        size_t row;

        if (find_command(argv[at]) != NULL) {
            continue;
        }
        if (flag_value(argc, argv, &at, "--config", &value, ret_error) != 0) {
            return ERR_INVALID;
        }
        if (value != NULL) {
            continue;
        }
        if (setting_flag(argc, argv, &at, &row, &value, ret_error) != 0) {
            return ERR_INVALID;
        }
        if (take(config, row, value, CONFIG_FROM_FLAG, 0, &reason) != 0) {
            return config_fail(ret_error, "flag %s: %s", config_key_flag(&config_keys[row], flag),
                               reason.text);
        }
    }
    return 0;
}

static const struct net_peer *own_member(const struct config *config)
{
    for (size_t i = 0; i < config->member_count; i++) {
        if (config->members[i].id == config->node_id) {
            return &config->members[i];
        }
    }
    return NULL;
}

/* A setting whose default comes from others. */
static void derive(struct config *config, const char *name, const char *text)
{
    size_t i = config_key_find(name, strlen(name));
    struct config_error error;

    ASSERT(i < config_key_count);
    if (((char *)config)[config_keys[i].offset] == '\0' && text[0] != '\0') {
        ASSERT(take(config, i, text, CONFIG_FROM_RULE, 0, &error) == 0);
    }
}

static bool is_wildcard(const char *host)
{
    return strcmp(host, "0.0.0.0") == 0 || strcmp(host, "::") == 0;
}

static void load_derived(struct config *config)
{
    const struct net_peer *member = own_member(config);
    const char *own;
    char advertise[LIMIT_ADDRESS_BYTES + 8];
    char host[LIMIT_ADDRESS_BYTES + 1];
    struct config_error error;
    uint16_t port;

    if (member != NULL) {
        derive(config, "peer.advertise", member->address);
    }
    derive(config, "peer.advertise", config->peer_listen);
    derive(config, "peer.listen", config->peer_advertise);
    own = config->peer_advertise;
    ASSERT(config_address_split(config->http_listen, host, &port, &error));
    if (!is_wildcard(host) || own[0] == '\0') {
        derive(config, "http.advertise", config->http_listen);
        return;
    }
    (void)snprintf(advertise, sizeof advertise, "%.*s:%u", (int)(strrchr(own, ':') - own), own,
                   (unsigned)port);
    /* The longest host with a longer port would not fit: then the wildcard has to do. */
    derive(config, "http.advertise",
           strlen(advertise) <= LIMIT_ADDRESS_BYTES ? advertise : config->http_listen);
}

static int check_required(const struct config *config, struct config_error *ret_error)
{
    char flag[CONFIG_KEY_TEXT_BYTES];
    char name[CONFIG_KEY_TEXT_BYTES];

    for (size_t i = 0; i < config_key_count; i++) {
        if (config->origins[i].text == NULL &&
            (config->join_count == 0 || config_keys[i].type != CONFIG_MEMBERS)) {
            return config_fail(ret_error, "%s is not set: give it in a config file, as %s or as %s",
                               config_keys[i].name, config_key_variable(&config_keys[i], name),
                               config_key_flag(&config_keys[i], flag));
        }
    }
    return 0;
}

/* "name = value (where)", for errors about several settings. */
static const char *cite(const struct config *config, const char *name, struct buf *out)
{
    size_t i = config_key_find(name, strlen(name));
    char quoted[128];

    ASSERT(i < config_key_count);
    out->len = 0;
    buf_printf(
        out, "%s = %s (", name,
        log_quote(config->origins[i].text, strlen(config->origins[i].text), quoted, sizeof quoted));
    config_where(config, i, out);
    buf_put(out, ")", 2); /* with its NUL */
    return (const char *)out->data;
}

/* Fail because of two settings: "%s" for each of them in the format, in that order. */
static int fail_two(const struct config *config, const char *first, const char *rule,
                    const char *second, struct config_error *ret_error)
{
    struct buf one = BUF_INIT;
    struct buf two = BUF_INIT;
    int rv = config_fail(ret_error, "%s %s %s", cite(config, first, &one), rule,
                         cite(config, second, &two));

    buf_free(&one);
    buf_free(&two);
    return rv;
}

static int check_members(const struct config *config, struct config_error *ret_error)
{
    if (own_member(config) == NULL && config->join_count == 0) {
        return fail_two(config, "node.id", "is not among", "cluster.members", ret_error);
    }
    return 0;
}

/* The others must be able to dial it, and it is one address for good. */
static int check_advertised(const struct config *config, struct config_error *ret_error)
{
    const struct net_peer *member = own_member(config);
    char host[LIMIT_ADDRESS_BYTES + 1];
    struct config_error error;
    uint16_t port;

    if (config->peer_advertise[0] == '\0') {
        return config_fail(ret_error,
                           "peer.listen is not set: a node that joins a cluster needs an "
                           "address where the others reach it");
    }
    if (config->join_count == 0 && strcmp(member->address, config->peer_advertise) != 0) {
        return fail_two(config, "peer.advertise", "is not this node's address in",
                        "cluster.members", ret_error);
    }
    ASSERT(config_address_split(config->peer_advertise, host, &port, &error));
    if (config->join_count > 0 && is_wildcard(host)) {
        return fail_two(config, "peer.advertise", "is an address that nobody can dial; given",
                        "join", ret_error);
    }
    return 0;
}

int config_layout_check(const struct config *config, uint64_t now_ms,
                        struct config_error *ret_error)
{
    uint64_t compared_ms = now_ms > WRITTEN_MS ? now_ms : WRITTEN_MS;
    struct buf layout = BUF_INIT;
    struct buf epoch = BUF_INIT;
    const char *why;
    int rv;

    if (snowflake_layout_check(&config->snowflake_layout, compared_ms, &why) == 0) {
        return 0;
    }
    rv = config_fail(ret_error, "%s, %s: %s; this machine's clock says %" PRIu64 " ms",
                     cite(config, "snowflake.epoch-ms", &epoch),
                     cite(config, "snowflake.layout", &layout), why, now_ms);
    buf_free(&layout);
    buf_free(&epoch);
    return rv;
}

static int check_rules(const struct config *config, struct config_error *ret_error)
{
    struct buf listen = BUF_INIT;
    int rv;

    if (config->raft_election_ms < 3 * config->raft_heartbeat_ms) {
        return fail_two(config, "raft.election-ms", "is less than 3 times", "raft.heartbeat-ms",
                        ret_error);
    }
    if (strcmp(config->http_listen, config->peer_listen) == 0) {
        return fail_two(config, "http.listen", "is the same address as", "peer.listen", ret_error);
    }
    if (config->snowflake_window_ms < 3 * config->snowflake_renew_ms) {
        return fail_two(config, "snowflake.renew-ms", "is more than a third of",
                        "snowflake.window-ms", ret_error);
    }
    if (config_layout_check(config, clock_wall_ms(clock_system()), ret_error) != 0) {
        return ERR_INVALID;
    }
    if (config->secret_len > 0 || config_is_loopback(config->peer_listen)) {
        return 0;
    }
    rv = config_fail(ret_error,
                     "%s can be reached from other machines, and cluster.secret-file is not set: "
                     "anybody could join the cluster and change its data. Make a secret with: "
                     "(umask 077; head -c 32 /dev/urandom | base64 > leafd.secret), copy the file "
                     "to every node, and set cluster.secret-file to it",
                     cite(config, "peer.listen", &listen));
    buf_free(&listen);
    return rv;
}
