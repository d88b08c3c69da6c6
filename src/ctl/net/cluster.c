/*
 * cluster.c - see cluster.h.
 *
 * The happy path of a request: cluster_ask() goes through rounds of all servers; try_server() sends
 * it by libcurl and judges the answer; conclude() sets the result. Thread: one.
 */
#include "src/ctl/net/cluster.h"

#include <ctype.h>
#include <curl/curl.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "http/proto/text.h"
#include "src/base/assert.h"
#include "src/base/clock.h"

#define BETWEEN_LISTENERS ".listen, " /* in the message: the text before the address */
#define NOT_IN_ADDRESS "@/?#% \\"
#define TRY_MS 4000     /* for one server, if others can be asked */
#define CONNECT_MS 3000 /* at most, within a request's time */
#define RETRY_AFTER_MAX_S 3600
#define BLANKS_OF_LINE " \t\n\v\f\r"

/* One request, over all its tries. */
struct asking {
    struct cluster *cluster;
    const struct ask *ask;
    struct answer *answer;
    struct buf failures; /* a line each: the errors of this round's servers */
    uint64_t deadline_ms;
    uint32_t pause_ms;
    bool may_be;   /* the request may have been carried out */
    bool answered; /* by a server, even with 503 */
    /* Of the exchange under way. */
    struct buf body;
    bool too_large;
};

/* VERDICT_OTHER: the same server is asked at its other listener. */
enum verdict { VERDICT_DONE, VERDICT_NEXT, VERDICT_FAILED, VERDICT_OTHER };

/* --- settings --- */

const struct option_about SETTINGS_ABOUT[] = {
    [SETTING_SERVER] =
        {"server", 0, "HOST:PORT,...",
         "addresses of nodes, either listener, with https:// before them for TLS; one "
         "that answers is asked (default: the nodes that make run started in this "
         "folder, otherwise " SETTINGS_SERVER_DEFAULT ")"},
    [SETTING_CA] = {"ca", 0, "FILE", "certificates of authorities to trust, in PEM; asks over TLS"},
    [SETTING_CERT] = {"cert", 0, "FILE", "certificate to show, in PEM; asks over TLS"},
    [SETTING_KEY] = {"key", 0, "FILE", "its key, in PEM"},
    [SETTING_TOKEN_FILE] = {"token-file", 0, "FILE",
                            "file with the token to show (or the token itself in LEAFCTL_TOKEN)"},
    [SETTING_TIMEOUT] = {"timeout", 0, "SECONDS",
                         "how long an answer may take, 1 to 3600 (default 10)"},
    [SETTING_CONFIG] = {"config", 0, "FILE",
                        "settings for what no flag and no variable of the "
                        "environment says (default ~/.config/leafctl/config)"},
    [SETTINGS] = {"json", 0, NULL, "answers for programs"},
    {NULL, 0, NULL, NULL},
};

void settings_set(struct settings *settings, enum setting setting, const char *value)
{
    free(settings->values[setting]);
    settings->values[setting] = MUST_HAVE(strdup(value));
}

static void set_unless_set(struct settings *settings, enum setting setting, const char *value)
{
    if (settings->values[setting] == NULL && value != NULL && *value != '\0') {
        settings_set(settings, setting, value);
    }
}

/* A whole file of bounded size, which must belong to this user or to root, without these bits in
 * its mode (rule: the text of that rule). 0; ERR_NOT_FOUND: no file; ERR_INVALID. */
static int settings_read_file(const char *path, mode_t bad_mode, const char *rule, struct buf *out,
                              struct buf *why)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat st = {0};
    ssize_t got = 1;

    if (fd < 0 || fstat(fd, &st) != 0) {
        int seen = errno;

        buf_printf(why, "%s cannot be read: %s", path, strerror(seen));
        if (fd >= 0) {
            (void)close(fd);
        }
        return seen == ENOENT || seen == ENOTDIR ? ERR_NOT_FOUND : ERR_INVALID;
    }
    if (!S_ISREG(st.st_mode)) {
        buf_printf(why, "%s is not a regular file", path);
    } else if (st.st_uid != geteuid() && st.st_uid != 0) {
        buf_printf(why, "%s belongs to another user (%u)", path, (unsigned)st.st_uid);
    } else if ((st.st_mode & bad_mode) != 0) {
        buf_printf(why, "%s has mode %04o: %s; chmod go-%s it", path,
                   (unsigned)(st.st_mode & 07777), rule, (bad_mode & 044) != 0 ? "rwx" : "w");
    }
    buf_reserve(out, SETTINGS_FILE_BYTES + 2);
    while (why->len == 0 && got > 0 && out->len <= SETTINGS_FILE_BYTES) {
        got = read(fd, out->data + out->len, SETTINGS_FILE_BYTES + 1 - out->len);
        out->len += got > 0 ? (size_t)got : 0;
    }
    if (got < 0 || out->len > SETTINGS_FILE_BYTES) {
        buf_printf(why, "%s %s", path, got < 0 ? strerror(errno) : "has more than 65536 bytes");
    } else if (strlen(buf_text(out)) != out->len) {
        buf_printf(why, "%s has a NUL", path);
    }
    (void)close(fd);
    return why->len == 0 ? 0 : ERR_INVALID;
}

/* No setting that names a file takes standard input. */
static void refuse_streams(const struct settings *settings, struct buf *why)
{
    for (unsigned setting = 0; setting < SETTINGS && why->len == 0; setting++) {
        const char *value = settings->values[setting];

        if (strcmp(SETTINGS_ABOUT[setting].value, "FILE") == 0 && value != NULL &&
            strcmp(value, "-") == 0) {
            buf_printf(why, "%s: " SETTINGS_NO_STREAM, SETTINGS_ABOUT[setting].name);
        }
    }
}

/* The lines of the file, if there is one. */
static void take_file(struct settings *settings, struct buf *why)
{
    const char *named = settings->values[SETTING_CONFIG];
    const char *base = getenv("XDG_CONFIG_HOME");
    const char *home = getenv("HOME");
    BUF_LOCAL(path);
    BUF_LOCAL(text);
    char *rest;
    char *line;

    if (named != NULL) {
        buf_printf(&path, "%s", named);
    } else if (base != NULL && *base == '/') {
        buf_printf(&path, "%s/leafctl/config", base);
    } else if (home != NULL && *home == '/') {
        buf_printf(&path, "%s/.config/leafctl/config", home);
    } else {
        return;
    }
    if (settings_read_file(buf_text(&path), 022,
                           "another user with write access could send your token elsewhere", &text,
                           why) == ERR_NOT_FOUND &&
        named == NULL) {
        why->len = 0;
        return;
    }
    rest = buf_text(&text);
    for (unsigned number = 1; why->len == 0 && (line = strsep(&rest, "\n")) != NULL; number++) {
        char *name = text_strip(line, BLANKS_OF_LINE);
        char *value = strchr(name, '=');
        unsigned setting = 0;

        if (*name == '\0' || *name == '#') {
            continue;
        }
        if (value == NULL) {
            buf_printf(why, "%s:%u: not NAME = VALUE", buf_text(&path), number);
            return;
        }
        *value++ = '\0';
        name = text_strip(name, BLANKS_OF_LINE);
        while (setting < SETTING_CONFIG && strcmp(name, SETTINGS_ABOUT[setting].name) != 0) {
            setting++;
        }
        if (setting < SETTING_CONFIG) {
            set_unless_set(settings, (enum setting)setting, text_strip(value, BLANKS_OF_LINE));
        } else {
            buf_printf(why, "%s:%u: there is no setting %.64s%s", buf_text(&path), number, name,
                       strcmp(name, "token") == 0 ? "; name a file with it by token-file" : "");
        }
    }
}

/* A token goes into a header: it must be one word. */
static void load_token(struct settings *settings, struct buf *why)
{
    const char *path = settings->values[SETTING_TOKEN_FILE];
    const char *given = getenv("LEAFCTL_TOKEN");
    const char *from = path != NULL ? path : "LEAFCTL_TOKEN";
    BUF_LOCAL(text);
    const char *token;
    size_t word = 0;

    if (path != NULL) {
        (void)settings_read_file(path, 077, "others may read a token in it", &text, why);
    } else if (given != NULL && *given != '\0') {
        buf_printf(&text, "%s", given);
    } else {
        return;
    }
    token = text_strip(buf_text(&text), BLANKS_OF_LINE);
    while (token[word] > ' ' && token[word] <= '~') {
        word++;
    }
    if (why->len > 0) {
        /* it cannot be read */
    } else if (*token == '\0' || strlen(token) > SETTINGS_TOKEN_BYTES) {
        buf_printf(why, "%s has %s", from, *token == '\0' ? "no token" : "more than a token");
    } else if (token[word] != '\0') {
        buf_printf(why, "%s has more than one word, or a character that no token has", from);
    } else {
        settings->token = MUST_HAVE(strdup(token));
    }
    explicit_bzero(text.data, text.capacity);
}

/* The nodes that `make run` started below this folder, if it runs (scripts/run-cluster): it holds
 * the lock, and names them in a file that no other user may write to. They are on this machine: a
 * token stays on it. */
static bool find_local_nodes(struct settings *settings)
{
    int lock = open(SETTINGS_LOCAL "/lock", O_RDONLY | O_CLOEXEC);
    struct flock held = {.l_type = F_RDLCK, .l_whence = SEEK_SET}; /* of all of it */
    bool runs = lock >= 0 && fcntl(lock, F_GETLK, &held) == 0 && held.l_type == F_WRLCK;
    BUF_LOCAL(text);
    BUF_LOCAL(why);
    char *addresses;
    char *copy;
    char *rest;

    if (lock >= 0) {
        (void)close(lock);
    }
    if (!runs || settings_read_file(SETTINGS_LOCAL "/servers", 022, "", &text, &why) != 0) {
        return false;
    }
    addresses = text_strip((char *)text.data, BLANKS_OF_LINE);
    copy = rest = MUST_HAVE(strdup(addresses));
    while (runs && rest != NULL) {
        runs = address_is_loopback(strsep(&rest, ","));
    }
    free(copy);
    set_unless_set(settings, SETTING_SERVER, runs ? addresses : NULL);
    return runs;
}

int settings_load(struct settings *settings, struct buf *why)
{
    char *const *values = settings->values;
    uint64_t seconds = SETTINGS_TIMEOUT_DEFAULT_MS / 1000;
    const char *text;
    BUF_LOCAL(key);

    for (unsigned setting = 0; setting < SETTINGS; setting++) {
        char name[32] = "LEAFCTL_";
        size_t len = strlen(name);

        for (const char *c = SETTINGS_ABOUT[setting].name; *c != '\0'; c++) {
            name[len++] = *c == '-' ? '_' : (char)toupper((unsigned char)*c);
        }
        set_unless_set(settings, setting, getenv(name));
    }
    refuse_streams(settings, why);
    if (why->len == 0) {
        take_file(settings, why);
        refuse_streams(settings, why);
    }
    text = values[SETTING_TIMEOUT];
    if (why->len == 0 && text != NULL &&
        text_parse_decimal(text, strlen(text), 1, SETTINGS_TIMEOUT_MAX_S, &seconds) != 0) {
        buf_printf(why, "timeout: \"%s\" is not a number of seconds from 1 to %d", text,
                   SETTINGS_TIMEOUT_MAX_S);
    }
    settings->timeout_ms = (uint32_t)seconds * 1000;
    if (why->len == 0) {
        load_token(settings, why);
    }
    if (why->len == 0 && (values[SETTING_KEY] == NULL) != (values[SETTING_CERT] == NULL)) {
        buf_printf(why, "cert and key belong together: %s is missing",
                   values[SETTING_KEY] == NULL ? "key" : "cert");
    } else if (why->len == 0 && values[SETTING_KEY] != NULL) {
        (void)settings_read_file(values[SETTING_KEY], 077, "others may read a key in it", &key,
                                 why);
        explicit_bzero(buf_text(&key), key.capacity);
    }
    if (why->len > 0) {
        return ERR_INVALID;
    }
    settings->local = values[SETTING_SERVER] == NULL && find_local_nodes(settings);
    set_unless_set(settings, SETTING_SERVER, SETTINGS_SERVER_DEFAULT);
    return 0;
}

void settings_free(struct settings *settings)
{
    for (unsigned setting = 0; setting < SETTINGS; setting++) {
        free(settings->values[setting]);
    }
    if (settings->token != NULL) {
        explicit_bzero(settings->token, strlen(settings->token));
    }
    free(settings->token);
    *settings = (struct settings){0};
}

/* --- servers --- */

int servers_parse(struct servers *servers, const struct settings *settings, struct buf *why)
{
    const char *text = settings->values[SETTING_SERVER];
    bool tls = settings->values[SETTING_CA] != NULL || settings->values[SETTING_CERT] != NULL;

    *servers = (struct servers){0};
    for (bool more = true; more;) {
        struct server *server = &servers->list[servers->count];
        size_t len = strcspn(text, ",");
        const char *next = text + len + 1;
        size_t scheme = strncmp(text, "https://", 8) == 0  ? 8
                        : strncmp(text, "http://", 7) == 0 ? 7
                                                           : 0;
        struct address address;

        more = text[len] != '\0';
        if (servers->count == SERVERS_MAX) {
            buf_printf(why, "server: more than %d addresses", SERVERS_MAX);
            return ERR_INVALID;
        }
        scheme = len > scheme ? scheme : 0;
        server->tls = scheme == 8 || (scheme == 0 && tls);
        text += scheme;
        len -= scheme;
        len -= len > 0 && text[len - 1] == '/' ? 1 : 0;
        if (len < sizeof server->address) {
            memcpy(server->address, text, len);
        }
        /* Answers are shown as JSON with their server's address: it has to be UTF-8. */
        if (len >= sizeof server->address || strpbrk(server->address, NOT_IN_ADDRESS) != NULL ||
            !text_is_utf8(text, len) || address_split(server->address, &address) != 0) {
            buf_printf(why,
                       "server: \"%.*s\" is not HOST:PORT (an IPv6 address is written in brackets)",
                       (int)(len < 200 ? len : 200), text);
            return ERR_INVALID;
        }
        for (int listener = 0; listener < LISTENERS; listener++) {
            memcpy(server->at[listener], server->address, len + 1);
        }
        servers->count++;
        text = next;
    }
    return 0;
}

enum listener servers_listener(const char *target)
{
    static const char *const of_ids[] = {"/api/segment/", "/api/snowflake/", "/decodeSnowflakeId"};

    for (size_t i = 0; i < COUNT_OF(of_ids); i++) {
        if (strncmp(target, of_ids[i], strlen(of_ids[i])) == 0) {
            return LISTENER_IDS;
        }
    }
    return LISTENER_ADMIN;
}

bool server_learn(struct server *server, enum listener listener, const char *message,
                  struct buf *why)
{
    const char *text = message != NULL ? strstr(message, BETWEEN_LISTENERS) : NULL;
    bool first = !server->has_learnt[listener];
    char *other = server->at[listener];
    struct address asked;
    struct address named;

    server->has_learnt[listener] = true;
    *other = '\0';
    text = text != NULL ? text + strlen(BETWEEN_LISTENERS) : "";
    if (!first || strpbrk(text, NOT_IN_ADDRESS) != NULL || address_split(text, &named) != 0 ||
        strlen(text) > LIMIT_ADDRESS_BYTES) {
        buf_printf(why, "it serves this at another listener");
    } else if (address_is_wildcard(text)) { /* which is reached at the host asked before */
        ASSERT(address_split(server->address, &asked) == 0);
        (void)snprintf(other, sizeof server->at[listener],
                       strchr(asked.host, ':') != NULL ? "[%s]:%s" : "%s:%s", asked.host,
                       named.port);
    } else if (address_is_loopback(text) && !address_is_loopback(server->address)) {
        buf_printf(why, "its other listener, %s, is for that machine alone: run leafctl there",
                   text);
    } else {
        memcpy(other, text, strlen(text) + 1);
    }
    return *other != '\0';
}

/* --- answers --- */

void answer_free(struct answer *answer)
{
    json_decref(answer->json);
    buf_free(&answer->body);
    buf_free(&answer->error);
    free(answer->server);
    *answer = (struct answer){0};
}

static const char *answer_text(const struct answer *answer, const char *name)
{
    const char *text = json_string_value(json_object_get(answer->json, name));

    return text != NULL ? text : "";
}

/* --- one request and its answer, by libcurl --- */

static void must(CURLcode code)
{
    ASSERT(code == CURLE_OK);
}

#define SET(curl, option, value) must(curl_easy_setopt((curl), CURLOPT_##option, (value)))

static size_t on_body(char *bytes, size_t size, size_t count, void *data)
{
    struct asking *asking = data;
    const struct ask *ask = asking->ask;
    size_t len = size * count;
    long status = 0;

    must(curl_easy_getinfo(asking->cluster->curl, CURLINFO_RESPONSE_CODE, &status));
    if (ask->take != NULL && status == 200) {
        return ask->take(ask->data, bytes, len) ? len : 0;
    }
    if (len > ANSWER_BODY_BYTES - asking->body.len) {
        asking->too_large = true;
        return 0;
    }
    buf_put(&asking->body, bytes, len);
    return len;
}

static void set_request(struct asking *asking, const char *url, uint32_t timeout_ms)
{
    CURL *curl = asking->cluster->curl;
    const struct settings *settings = asking->cluster->settings;
    const struct ask *ask = asking->ask;

    curl_easy_reset(curl); /* which keeps connections */
    SET(curl, URL, url);
    SET(curl, PATH_AS_IS, 1L);
    SET(curl, PROTOCOLS_STR, "http,https");
    SET(curl, PROXY, "");
    SET(curl, FOLLOWLOCATION, 0L);
    SET(curl, HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    SET(curl, USERAGENT, "leafctl/" LEAFD_VERSION);
    SET(curl, WRITEFUNCTION, on_body);
    SET(curl, WRITEDATA, asking);
    if (ask->body != NULL) {
        SET(curl, POSTFIELDSIZE_LARGE, (curl_off_t)strlen(ask->body));
        SET(curl, POSTFIELDS, ask->body);
    }
    /* libcurl repeats a request if a kept connection turns out to be closed; on a new connection it
     * does not. */
    SET(curl, FRESH_CONNECT, ask->once ? 1L : 0L);
    SET(curl, CUSTOMREQUEST, ask->method != NULL ? ask->method : "GET");
    SET(curl, NOSIGNAL, 1L);
    SET(curl, CONNECTTIMEOUT_MS, (long)(timeout_ms < CONNECT_MS ? timeout_ms : CONNECT_MS));
    if (ask->take == NULL) {
        SET(curl, TIMEOUT_MS, (long)timeout_ms);
    } else {
        SET(curl, LOW_SPEED_LIMIT, 1L);
        SET(curl, LOW_SPEED_TIME, (long)((timeout_ms + 999) / 1000));
    }
    if (settings->token != NULL) {
        SET(curl, HTTPAUTH, CURLAUTH_BEARER);
        SET(curl, XOAUTH2_BEARER, settings->token);
    }
    SET(curl, SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    if (settings->values[SETTING_CA] != NULL) {
        SET(curl, CAINFO, settings->values[SETTING_CA]);
        SET(curl, CAPATH, NULL);
    }
    if (settings->values[SETTING_CERT] != NULL) {
        SET(curl, SSLCERT, settings->values[SETTING_CERT]);
        SET(curl, SSLKEY, settings->values[SETTING_KEY]);
    }
}

/* Is it certain that the server has not seen the request? */
static bool cannot_be_sent(CURL *curl, CURLcode code, bool over_tls)
{
    curl_off_t connected_us = 0;

    switch (code) {
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_CONNECT:
    case CURLE_URL_MALFORMAT:
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_CERTPROBLEM:
        return true;
    default:
        /* The time ran out before there was a connection. */
        must(curl_easy_getinfo(
            curl, over_tls ? CURLINFO_APPCONNECT_TIME_T : CURLINFO_CONNECT_TIME_T, &connected_us));
        return code == CURLE_OPERATION_TIMEDOUT && connected_us == 0;
    }
}

/* Add a line with a server's error, or the reason why it did not answer. */
static void add_failure(struct asking *asking, const char *address, const char *text)
{
    buf_printf(&asking->failures, "%s%s: %s", asking->failures.len > 0 ? "\n" : "", address, text);
}

/* True: answered; the new answer replaces the earlier one, with the text of an error. Otherwise the
 * failure is added, and may_be is set unless the request cannot have been sent. */
static bool exchange(struct asking *asking, const struct server *server, const char *address,
                     uint32_t timeout_ms)
{
    CURL *curl = asking->cluster->curl;
    const struct ask *ask = asking->ask;
    struct answer *answer = asking->answer;
    struct buf *body = &answer->body;
    struct curl_slist *headers = NULL; /* beside those that libcurl sends by itself */
    const char *message;
    char error[CURL_ERROR_SIZE] = "";
    BUF_LOCAL(url);
    BUF_LOCAL(key);
    CURLcode code;
    bool repeated;

    if (ask->body != NULL) {
        headers = MUST_HAVE(curl_slist_append(headers, "Content-Type: application/json"));
        headers = MUST_HAVE(curl_slist_append(headers, "Expect:"));
    }
    if (ask->key != NULL) {
        buf_printf(&key, "Idempotency-Key: %s", ask->key);
        headers = MUST_HAVE(curl_slist_append(headers, buf_text(&key)));
    }
    buf_printf(&url, "%s://%s%s", server->tls ? "https" : "http", address, ask->target);
    asking->body.len = 0;
    asking->too_large = false;
    set_request(asking, buf_text(&url), timeout_ms);
    SET(curl, HTTPHEADER, headers);
    SET(curl, ERRORBUFFER, error);
    code = curl_easy_perform(curl);
    SET(curl, ERRORBUFFER, NULL);
    curl_slist_free_all(headers);
    if (code != CURLE_OK) {
        add_failure(asking, address,
                    asking->too_large  ? "the answer is larger than 64 MiB"
                    : error[0] != '\0' ? error
                                       : curl_easy_strerror(code));
        asking->may_be |= !cannot_be_sent(curl, code, server->tls);
        return false;
    }
    repeated = answer->repeated;
    answer_free(answer);
    *answer =
        (struct answer){.repeated = repeated, .server = MUST_HAVE(strdup(address)), .code = ""};
    must(curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &answer->status));
    (void)buf_text(&asking->body);
    buf_move(body, &asking->body);
    if (body->len > 0 && body->data[0] == '{') {
        answer->json = json_loadb((char *)body->data, body->len, JSON_REJECT_DUPLICATES, NULL);
    }
    if (answer->status < 200 || answer->status >= 300) {
        message = answer_text(answer, "message");
        answer->code = answer_text(answer, "code");
        buf_printf(&answer->error, "%s: %ld %s: %s", answer->server, answer->status, answer->code,
                   *message != '\0' ? message : "no message");
    }
    return true;
}

/* --- tries --- */

/* The exit codes of error answers, and their remedies; the first row that fits counts. */
static const struct {
    long status;      /* 0: any */
    const char *code; /* its beginning */
    enum ctl_exit exit;
    const char *hint;
} MEANINGS[] = {
    {401, "", CTL_DENIED,
     "show a token: --token-file FILE, LEAFCTL_TOKEN_FILE, or token-file in the config file"},
    {403, "", CTL_DENIED, NULL},
    {421, "", CTL_DENIED, "ask by a name that the node knows (http.hosts)"},
    {404, "unknown_", CTL_NOT_FOUND, NULL},
    {404, "no_route", CTL_REFUSED, "is it an older leafd than this leafctl?"},
    {429, "share", CTL_REFUSED, NULL},
    {429, "", CTL_UNKNOWN, NULL},
    {503, "", CTL_UNKNOWN, NULL},
    {500, "", CTL_UNKNOWN, NULL},
    {0, "tls_required", CTL_REFUSED,
     "the server speaks TLS: --ca FILE, or https:// before its address"},
    {0, "", CTL_REFUSED, NULL},
};

static uint32_t time_left(const struct asking *asking)
{
    uint64_t now_ms = clock_now_ms(clock_system());

    return now_ms < asking->deadline_ms ? (uint32_t)(asking->deadline_ms - now_ms) : 0;
}

/* Must another server, or the same one a little later, be asked because of this answer? */
static enum verdict judge_answer(struct asking *asking, struct server *server,
                                 enum listener listener)
{
    struct answer *answer = asking->answer;
    curl_off_t retry_after_s = 0;
    BUF_LOCAL(why);

    if (answer->status >= 200 && answer->status < 300) {
        return VERDICT_DONE;
    }
    if (answer->status == 404 && strcmp(answer->code, "other_door") == 0) {
        if (server_learn(server, listener, answer_text(answer, "message"), &why)) {
            return VERDICT_OTHER;
        }
        add_failure(asking, answer->server, buf_text(&why));
        return VERDICT_NEXT;
    }
    /* 429 share: a repeat gets the same answer until something of the client's own ends. */
    if ((answer->status != 429 && answer->status != 503) ||
        (answer->status == 429 && strcmp(answer->code, "share") == 0)) {
        return VERDICT_FAILED;
    }
    asking->answered = true;
    asking->may_be |= answer->status == 503;
    if (asking->ask->once || asking->ask->server != NULL) {
        return VERDICT_FAILED;
    }
    must(curl_easy_getinfo(asking->cluster->curl, CURLINFO_RETRY_AFTER, &retry_after_s));
    if (answer->status == 429 && retry_after_s > 0 && retry_after_s < RETRY_AFTER_MAX_S &&
        (uint32_t)retry_after_s * 1000 > asking->pause_ms) {
        asking->pause_ms = (uint32_t)retry_after_s * 1000;
    }
    return VERDICT_NEXT;
}

static enum verdict try_server(struct asking *asking, struct server *server)
{
    enum listener listener = servers_listener(asking->ask->target);
    bool others =
        asking->ask->server == NULL && !asking->ask->once && asking->cluster->servers.count > 1;
    const char *address = server->at[listener];
    enum verdict verdict = *address != '\0' ? VERDICT_OTHER : VERDICT_NEXT;

    /* A second time at its other listener; that one's other listener is never learnt. */
    while (verdict == VERDICT_OTHER) {
        uint32_t left_ms = time_left(asking);

        left_ms = left_ms == 0 ? 1 : left_ms;
        asking->answer->repeated |= asking->may_be;
        if (!exchange(asking, server, address, others && left_ms > TRY_MS ? TRY_MS : left_ms)) {
            return asking->may_be && asking->ask->once ? VERDICT_FAILED : VERDICT_NEXT;
        }
        verdict = judge_answer(asking, server, listener);
    }
    return verdict;
}

/* The exit code, and the text of a failure. */
static enum ctl_exit conclude(struct asking *asking, enum verdict verdict)
{
    struct answer *answer = asking->answer;
    struct buf *error = &answer->error;
    bool has_answer = error->len > 0 && asking->answered;
    enum ctl_exit code = CTL_DONE;
    size_t row = 0;

    if (verdict == VERDICT_FAILED && error->len > 0) {
        while ((MEANINGS[row].status != 0 && MEANINGS[row].status != answer->status) ||
               strncmp(answer->code, MEANINGS[row].code, strlen(MEANINGS[row].code)) != 0) {
            row++;
        }
        code = MEANINGS[row].exit;
        if (MEANINGS[row].hint != NULL) {
            buf_printf(error, "\n%s", MEANINGS[row].hint);
        }
        if (answer->repeated && code == CTL_REFUSED) {
            buf_printf(error, "\nthis was asked a second time, as the first time had no "
                              "answer: it may have been done then; look before you continue");
        } else if (code == CTL_UNKNOWN && asking->ask->once) {
            buf_printf(error, "\nit is not repeated automatically: look whether it was done");
        }
    } else if (verdict != VERDICT_DONE) { /* no server did it */
        if (!has_answer) {
            error->len = 0;
            buf_printf(error, "%s%s%s", asking->may_be ? "no answer came" : "no server answers",
                       asking->failures.len > 0 ? ": " : "", buf_text(&asking->failures));
        }
        if (asking->may_be && asking->ask->method != NULL) {
            buf_printf(error, "; it may or may not have been done");
        }
        code = asking->may_be || has_answer ? CTL_UNKNOWN : CTL_UNREACHABLE;
        buf_printf(error, "%s",
                   code == CTL_UNREACHABLE
                       ? "\nname the nodes by --server HOST:PORT,... or LEAFCTL_SERVER"
                       : "");
    }
    buf_put(error, "", 1);
    buf_free(&asking->failures);
    buf_free(&asking->body);
    return code;
}

enum ctl_exit cluster_ask(struct cluster *cluster, const struct ask *ask, struct answer *ret)
{
    struct asking asking = {.cluster = cluster, .ask = ask, .answer = ret};
    uint32_t timeout_ms = ask->timeout_ms > 0 ? ask->timeout_ms : cluster->settings->timeout_ms;
    size_t count = ask->server != NULL ? 1 : cluster->servers.count;

    if (ask->server != NULL) {
        ASSERT(*ask->server < cluster->servers.count);
        cluster->last = *ask->server;
    }
    *ret = (struct answer){.code = ""};
    asking.deadline_ms = clock_now_ms(clock_system()) + timeout_ms;
    for (;;) {
        size_t first = cluster->last;
        enum verdict verdict = VERDICT_NEXT;

        asking.pause_ms = ASK_PAUSE_MS;
        asking.failures.len = 0;
        /* All servers in turn, the one that answered last first. */
        for (size_t i = 0;
             i < count && verdict == VERDICT_NEXT && (i == 0 || time_left(&asking) > 0); i++) {
            size_t which = (first + i) % cluster->servers.count;

            verdict = try_server(&asking, &cluster->servers.list[which]);
            cluster->last = verdict == VERDICT_DONE ? which : cluster->last;
        }
        /* If no server answered, none will soon; if one did, another one will. */
        if (verdict != VERDICT_NEXT || ask->server != NULL ||
            (!asking.may_be && !asking.answered) || time_left(&asking) <= asking.pause_ms) {
            return conclude(&asking, verdict);
        }
        (void)poll(NULL, 0, (int)asking.pause_ms);
    }
}

/* --- the cluster --- */

struct cluster *cluster_new(const struct settings *settings, struct buf *why)
{
    struct cluster *cluster = MUST_HAVE(calloc(1, sizeof *cluster));

    cluster->settings = settings;
    if (servers_parse(&cluster->servers, settings, why) != 0) {
        free(cluster);
        return NULL;
    }
    must(curl_global_init(CURL_GLOBAL_DEFAULT));
    cluster->curl = MUST_HAVE(curl_easy_init());
    return cluster;
}

void cluster_free(struct cluster *cluster)
{
    if (cluster != NULL) {
        curl_easy_cleanup(cluster->curl);
        curl_global_cleanup();
        free(cluster);
    }
}
