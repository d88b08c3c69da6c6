/*
 * doors.c - see doors.h. Thread: main, but for one_drained.
 */
#include "src/app/doors.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "http/resp/api/resp.h"
#include "src/app/config/file.h"
#include "src/app/report.h"
#include "src/base/address.h"
#include "src/base/assert.h"
#include "src/base/log.h"

bool doors_are_joined(const struct config *config)
{
    return strcmp(config->admin.listen, DOORS_JOINED) == 0;
}

/* --- who may come in --- */

static struct auth_settings auth_settings_of(const struct config *config)
{
    struct auth_settings settings = {
        .web = {.hosts = config->auth.hosts,
                .origins = config->auth.origins,
                .own = {config->http.listen_address, config->node.http_address}},
        .anonymous_roles = config->auth.anonymous_roles,
    };

    if (!doors_are_joined(config)) {
        settings.web.own[2] = config->admin.listen;
    }
    return settings;
}

static int open_auth(struct doors *doors)
{
    const struct config *config = doors->config;
    const struct auth_settings settings = auth_settings_of(config);
    struct config_error error = {""};
    char why[TOKENS_WHY_BYTES];
    BUF_LOCAL(text);
    bool is_used = config->auth.tokens_file[0] != '\0';
    int rv = config_tokens_read(config, &text, &error);

    if (rv == 0) {
        rv = auth_new(&settings, is_used ? (const char *)text.data : NULL, text.len, &doors->auth,
                      why);
        if (rv != 0) {
            (void)config_fail(&error, "auth.tokens-file %s: %s", config->auth.tokens_file, why);
        }
    }
    if (rv != 0) {
        report_tokens_failed(error.text);
    }
    return rv;
}

static int prepare_tokens(void *data, const struct config *next, struct config_error *ret_error)
{
    struct doors *doors = data;
    char why[TOKENS_WHY_BYTES];
    BUF_LOCAL(text);
    int rv;

    (void)next; /* the path takes a restart; the content does not */
    if (doors->config->auth.tokens_file[0] == '\0') {
        return 0;
    }
    rv = config_tokens_read(doors->config, &text, ret_error);
    if (rv == 0 && auth_prepare(doors->auth, (const char *)text.data, text.len, why) != 0) {
        rv =
            config_fail(ret_error, "auth.tokens-file %s: %s", doors->config->auth.tokens_file, why);
    }
    return rv;
}

static void commit_tokens(void *data, struct buf *ret_changes)
{
    struct doors *doors = data;
    BUF_LOCAL(words);

    if (doors->config->auth.tokens_file[0] == '\0') {
        return;
    }
    auth_commit(doors->auth, &doors->tokens_before, &doors->tokens_after, &words);
    if (words.len > 0) {
        buf_printf(ret_changes, "%zu, there were %zu: %.*s", doors->tokens_after,
                   doors->tokens_before, (int)words.len, (const char *)words.data);
    }
}

static void drop_tokens(void *data)
{
    struct doors *doors = data;

    auth_drop(doors->auth);
}

struct reload_part doors_reload_part(struct doors *doors)
{
    return (struct reload_part){.name = "tokens",
                                .prepare = prepare_tokens,
                                .commit = commit_tokens,
                                .drop = drop_tokens,
                                .data = doors};
}

/* --- open --- */

static int open_door(struct doors *doors, const struct http_service *service, const char *name)
{
    const struct http_settings *settings = &doors->settings[doors->count];
    int rv = http_server_start(settings, service, &doors->servers[doors->count]);

    if (rv != 0) {
        report_http_failed(name, settings->listen_address, settings->resp_address, rv, errno);
        return rv;
    }
    doors->count++;
    log_info("http", "listening", "%s=%s loops=%" PRIu32 " tls=%s", name, settings->listen_address,
             settings->loops, settings->tls != NULL ? "true" : "false");
    if (settings->resp_address[0] != '\0') {
        log_info("http", "listening", "resp.listen=%s loops=%" PRIu32 " tls=%s",
                 settings->resp_address, settings->loops, settings->resp_tls ? "true" : "false");
    }
    return 0;
}

static bool has_resp(const struct config *config)
{
    return config->http.resp_address[0] != '\0';
}

static void tell(const struct doors *doors)
{
    const struct config *config = doors->config;
    bool used = config->auth.tokens_file[0] != '\0';

    if (doors_are_joined(config)) {
        log_info("http", "one door: tags, members and all else are served with the ids",
                 "http.listen=%s admin.listen=" DOORS_JOINED, config->http.listen_address);
    }
    if (used) {
        log_info("http", "tokens are asked for", "tokens=%zu without_a_token=\"%s\"",
                 tokens_count(doors->auth->table),
                 roles_text(config->auth.anonymous_roles, (char[ROLES_TEXT_BYTES]){0}));
    } else if (!address_is_loopback(config->http.listen_address) ||
               (!doors_are_joined(config) && !address_is_loopback(config->admin.listen)) ||
               (has_resp(config) && !address_is_loopback(config->http.resp_address))) {
        log_warn("http", "there are no tokens: other machines may do all that needs none",
                 "without_a_token=\"%s\"",
                 roles_text(config->auth.anonymous_roles, (char[ROLES_TEXT_BYTES]){0}));
    }
}

int doors_open(struct doors *doors, const struct config *config, struct tls *tls,
               const struct http_build *build, struct id_backend *backend,
               const struct files_split *files)
{
    const struct http_service *admin = NULL;
    int rv;

    *doors = (struct doors){.config = config, .settings = {config->http, config->admin.http}};
    doors->settings[0].tls = tls;
    doors->settings[1].tls = tls;
    doors->settings[0].connections = files->connections;
    doors->settings[1].connections = files->admin_connections;
    rv = open_auth(doors);
    if (rv != 0) {
        return rv;
    }
    doors->api = api_new(&doors->settings[0], build, backend);
    api_set_auth(doors->api, doors->auth);
    if (!doors_are_joined(config)) {
        admin = api_admin_service(doors->api, config->http.listen_address, config->admin.listen);
    }
    if (has_resp(config)) {
        api_set_resp(doors->api, resp_talker());
    }
    rv = open_door(doors, api_service(doors->api), "http.listen");
    if (rv == 0 && admin != NULL) {
        rv = open_door(doors, admin, "admin.listen");
    }
    if (rv != 0) {
        doors_close(doors);
        return rv;
    }
    api_watch(doors->api);
    tell(doors);
    return 0;
}

bool doors_are_open(const struct doors *doors)
{
    return doors->count > 0;
}

/* --- the way down --- */

/* A server has no connection left. On one of its threads. */
static void one_drained(void *data)
{
    struct doors *doors = data;
    unsigned before = atomic_fetch_sub(&doors->draining, 1);

    ASSERT(before > 0);
    if (before == 1) {
        doors->drained(doors->data);
    }
}

bool doors_take_turns(struct doors *doors)
{
    bool all = true;

    for (unsigned i = 0; i < doors->count; i++) {
        all = http_server_takes_turns(doors->servers[i]) && all;
    }
    return all;
}

void doors_retire(struct doors *doors, uint32_t over_ms)
{
    for (unsigned i = 0; i < doors->count; i++) {
        http_server_retire(doors->servers[i], over_ms);
    }
}

void doors_drain(struct doors *doors, uint32_t grace_ms, void (*drained)(void *data), void *data)
{
    ASSERT(doors->count > 0);
    doors->drained = drained;
    doors->data = data;
    atomic_store(&doors->draining, doors->count);
    for (unsigned i = 0; i < doors->count; i++) {
        http_server_drain(doors->servers[i], grace_ms, one_drained, doors);
    }
}

void doors_close(struct doors *doors)
{
    while (doors->count > 0) { /* the ids last: the admin door may look at their counts */
        http_server_stop(doors->servers[--doors->count]);
    }
    if (doors->api != NULL) {
        api_free(doors->api);
        doors->api = NULL;
    }
    auth_free(doors->auth);
    doors->auth = NULL;
}
