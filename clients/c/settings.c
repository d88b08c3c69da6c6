/* See settings.h. */
#include "settings.h"

#include "fault.h"
#include "text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct number_rule {
    const char *name;
    size_t offset;
    uint64_t min, max, value;
} numbers[] = {
    {"connect_ms", offsetof(struct settings, connect_ms), 1, 600000, 300},
    {"attempt_ms", offsetof(struct settings, attempt_ms), 1, 600000, 4000},
    {"deadline_ms", offsetof(struct settings, deadline_ms), 1, 600000, 10000},
    {"cover_ms", offsetof(struct settings, cover_ms), 1, 600000, 10000},
    {"min_count", offsetof(struct settings, min_count), 1, TEXT_COUNT_MAX, 100},
    {"max_count", offsetof(struct settings, max_count), 1, TEXT_COUNT_MAX, TEXT_COUNT_MAX},
    {"window_ms", offsetof(struct settings, window_ms), 1000, 86400000, 60000},
    {"max_age_ms", offsetof(struct settings, max_age_ms), 1, 86400000, 3600000},
};
enum { NUMBERS = sizeof numbers / sizeof numbers[0] };

static int refuse(struct leafd_error *error, const char *name, const char *value, const char *rule)
{
    return fault(error, "bad_setting", 0, false, "%s=%.300s must be %s", name, value, rule);
}

static uint64_t *number_of(struct settings *settings, const struct number_rule *rule)
{
    return (uint64_t *)(void *)((char *)settings + rule->offset);
}

static int read_number(struct settings *settings, const struct number_rule *rule, const char *value,
                       struct leafd_error *error)
{
    if (text_to_number(value, rule->min, rule->max, number_of(settings, rule))) {
        return 0;
    }
    return fault(error, "bad_setting", 0, false,
                 "%s=%.300s must be a whole number from %llu to %llu", rule->name, value,
                 (unsigned long long)rule->min, (unsigned long long)rule->max);
}

/* Has this host no port, or one that there is? */
static bool has_good_port(const char *host)
{
    const char *address_end = strrchr(host, ']');
    const char *port = strchr(address_end != NULL ? address_end : host, ':');
    uint64_t number;
    return port == NULL || text_to_number(port + 1, 1, 65535, &number);
}

/* scheme://host[:port], with nothing after it; or of an SRV record without a port. */
static bool is_url(const char *url)
{
    static const char *const schemes[] = {"http://", "https://", "http+srv://", "https+srv://"};
    size_t scheme = 0;
    while (scheme < 4 && strncmp(url, schemes[scheme], strlen(schemes[scheme])) != 0) {
        scheme++;
    }
    if (scheme == 4) {
        return false;
    }
    url += strlen(schemes[scheme]);
    return text_is_visible(url, URL_BYTES) && *url != ':' && has_good_port(url) &&
           strpbrk(url, scheme < 2 ? "/?#@\\\"'<>{}|^`" : ":[]/?#@\\\"'<>{}|^`") == NULL;
}

/* Is the last one given twice? Then it is one node. */
static bool is_given_before(const struct endpoints *endpoints)
{
    for (unsigned i = 0; i + 1 < endpoints->count; i++) {
        if (strcmp(endpoints->urls[i], endpoints->urls[endpoints->count - 1]) == 0) {
            return true;
        }
    }
    return false;
}

static int read_endpoints(struct endpoints *endpoints, const char *name, const char *value,
                          struct leafd_error *error)
{
    static const char rule[] =
        "1 to 16 addresses separated by commas, each http:// or https:// "
        "with a host and maybe a port from 1 to 65535, or http+srv:// with a name";
    endpoints->count = 0;
    for (const char *at = value;; at++) {
        size_t bytes = strcspn(at, ",");
        size_t end = bytes;
        while (end > 0 && at[end - 1] == '/') {
            end--;
        }
        if (endpoints->count == ENDPOINTS_MAX || end >= URL_BYTES) {
            return refuse(error, name, value, rule);
        }
        char *url = endpoints->urls[endpoints->count++];
        memcpy(url, at, end);
        url[end] = 0;
        if (!is_url(url)) {
            return refuse(error, name, value, rule);
        }
        endpoints->count -= is_given_before(endpoints) ? 1 : 0;
        at += bytes;
        if (*at == 0) {
            return 0;
        }
    }
}

static int read_token(struct settings *settings, const char *value, struct leafd_error *error)
{
    if (!text_is_visible(value, TOKEN_CHARS)) {
        /* Its value is nobody's to see. */
        return fault(error, "bad_setting", 0, false,
                     "token must be 1 to 512 visible ASCII characters");
    }
    memcpy(settings->token, value, strlen(value) + 1);
    return 0;
}

bool settings_read_token(const char *path, char token[TOKEN_CHARS + 1])
{
    char text[TOKEN_CHARS + 16]; /* a longer one is none */
    FILE *file = fopen(path, "re");
    size_t bytes = file != NULL ? fread(text, 1, sizeof text - 1, file) : 0;
    if (file != NULL) {
        (void)fclose(file);
    }
    text[bytes] = 0;
    char *at = text + strspn(text, " \t\r\n");
    bytes = strlen(at);
    while (bytes > 0 && strchr(" \t\r\n", at[bytes - 1]) != NULL) {
        at[--bytes] = 0;
    }
    if (!text_is_visible(at, TOKEN_CHARS)) {
        return false;
    }
    memcpy(token, at, bytes + 1);
    return true;
}

/* The path of a file that can be read, of the setting of that name. */
static char *path_of(struct settings *settings, const char *name)
{
    return strcmp(name, "token_file") == 0  ? settings->token_file
           : strcmp(name, "ca_file") == 0   ? settings->ca_file
           : strcmp(name, "cert_file") == 0 ? settings->cert_file
           : strcmp(name, "key_file") == 0  ? settings->key_file
                                            : NULL;
}

static int read_path(char *into, const char *name, const char *value, struct leafd_error *error)
{
    size_t bytes = strlen(value);
    if (bytes == 0 || bytes >= FILE_BYTES || access(value, R_OK) != 0) {
        return refuse(error, name, value, "a file that can be read");
    }
    memcpy(into, value, bytes + 1);
    return 0;
}

static int read_zone(struct settings *settings, const char *value, struct leafd_error *error)
{
    if (!text_is_name(value)) {
        return refuse(error, "zone", value, "1 to 128 bytes of UTF-8 without control characters");
    }
    memcpy(settings->zone, value, strlen(value) + 1);
    return 0;
}

static int read_discover(struct settings *settings, const char *value, struct leafd_error *error)
{
    bool yes = strcmp(value, "true") == 0;
    if (!yes && strcmp(value, "false") != 0) {
        return refuse(error, "discover", value, "true or false");
    }
    settings->discover = yes ? DISCOVER : DISCOVER_NOT;
    return 0;
}

static int read_one(struct settings *settings, const char *text, struct leafd_error *error)
{
    size_t name_bytes = strcspn(text, "=");
    const char *value = text[name_bytes] == '=' ? text + name_bytes + 1 : "";
    char name[40];
    if (name_bytes >= sizeof name) {
        name_bytes = sizeof name - 1;
    }
    memcpy(name, text, name_bytes);
    name[name_bytes] = 0;
    for (size_t i = 0; i < NUMBERS; i++) {
        if (strcmp(name, numbers[i].name) == 0) {
            return read_number(settings, &numbers[i], value, error);
        }
    }
    if (strcmp(name, "endpoints") == 0) {
        return read_endpoints(&settings->ids, name, value, error);
    }
    if (strcmp(name, "admin_endpoints") == 0) {
        return read_endpoints(&settings->admin, name, value, error);
    }
    if (strcmp(name, "token") == 0) {
        return read_token(settings, value, error);
    }
    if (strcmp(name, "zone") == 0) {
        return read_zone(settings, value, error);
    }
    if (strcmp(name, "discover") == 0) {
        return read_discover(settings, value, error);
    }
    char *path = path_of(settings, name);
    if (path != NULL) {
        return read_path(path, name, value, error);
    }
    return fault(error, "bad_setting", 0, false, "there is no setting %s", name);
}

/* Where the program names no cluster, the environment does, and says who is asking: each that the
 * program has not set. */
static int read_environment(struct settings *settings, struct leafd_error *error)
{
    static const struct {
        const char *variable, *name;
    } known[] = {
        {"LEAFD_ENDPOINTS", "endpoints"}, {"LEAFD_ADMIN_ENDPOINTS", "admin_endpoints"},
        {"LEAFD_TOKEN", "token"},         {"LEAFD_TOKEN_FILE", "token_file"},
        {"LEAFD_CA_FILE", "ca_file"},     {"LEAFD_CERT_FILE", "cert_file"},
        {"LEAFD_KEY_FILE", "key_file"},   {"LEAFD_ZONE", "zone"},
        {"LEAFD_DISCOVER", "discover"},
    };
    bool has_token = settings->token[0] != 0 || settings->token_file[0] != 0;
    int result = 0;
    for (size_t i = 0; i < sizeof known / sizeof known[0] && result == 0; i++) {
        const char *name = known[i].name;
        const char *value = getenv(known[i].variable);
        char *path = path_of(settings, name);
        bool is_set = strncmp(name, "token", 5) == 0         ? has_token
                      : strcmp(name, "admin_endpoints") == 0 ? settings->admin.count > 0
                      : strcmp(name, "zone") == 0            ? settings->zone[0] != 0
                      : strcmp(name, "discover") == 0 ? settings->discover != DISCOVER_WITH_ZONE
                                                      : path != NULL && path[0] != 0;
        char text[sizeof settings->admin.urls];
        if (value != NULL && !is_set) {
            int used = snprintf(text, sizeof text, "%s=%s", name, value);
            result = used < (int)sizeof text ? read_one(settings, text, error)
                                             : refuse(error, name, value, "shorter");
        }
    }
    return result;
}

/* What holds for several settings together. */
static int check_all(struct settings *settings, struct leafd_error *error)
{
    if (settings->ids.count == 0) {
        return refuse(error, "endpoints", "",
                      "given, here or as LEAFD_ENDPOINTS: 1 to 16 "
                      "addresses separated by commas");
    }
    if (settings->token_file[0] != 0 && settings->token[0] != 0) {
        return refuse(error, "token_file", settings->token_file, "given without token");
    }
    if (settings->token_file[0] != 0 &&
        !settings_read_token(settings->token_file, settings->token)) {
        return refuse(error, "token_file", settings->token_file,
                      "a file with 1 to 512 visible ASCII characters");
    }
    if ((settings->cert_file[0] != 0) != (settings->key_file[0] != 0)) {
        return refuse(error, "cert_file", settings->cert_file, "given together with key_file");
    }
    if (settings->min_count > settings->max_count) {
        return fault(
            error, "bad_setting", 0, false, "max_count=%llu must be min_count=%llu or more",
            (unsigned long long)settings->max_count, (unsigned long long)settings->min_count);
    }
    return 0;
}

int settings_read(struct settings *settings, const char *const *texts, struct leafd_error *error)
{
    memset(settings, 0, sizeof *settings);
    for (size_t i = 0; i < NUMBERS; i++) {
        *number_of(settings, &numbers[i]) = numbers[i].value;
    }
    for (; *texts != NULL; texts++) {
        if (read_one(settings, *texts, error) != 0) {
            return -1;
        }
    }
    if (settings->ids.count == 0 && read_environment(settings, error) != 0) {
        return -1;
    }
    settings->has_admin = settings->admin.count > 0;
    if (!settings->has_admin) {
        settings->admin = settings->ids;
    }
    return check_all(settings, error);
}
