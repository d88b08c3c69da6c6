/*
 * cluster.c - see cluster.h.
 *
 * The happy path of a request: ask_until() goes through rounds of all servers; try_server() sends
 * it by libcurl and judges the answer; conclude() says what became of it. Thread: one.
 */
#include "src/ctl/net/cluster.h"

#include <curl/curl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/assert.h"
#include "src/base/clock.h"

#define BETWEEN_LISTENERS ".listen, " /* in the message: what stands before the address */
#define NOT_IN_ADDRESS "@/?#% \\"
#define TRY_MS 4000     /* of one server, if others can be asked */
#define CONNECT_MS 3000 /* at most, of a request's time */
#define RETRY_AFTER_MAX_S 3600

struct cluster {
    const struct settings *settings;
    struct servers servers;
    CURL *curl;
    size_t last; /* the server that answered last */
};

/* One asking, over all its tries. */
struct asking {
    struct cluster *cluster;
    const struct ask *ask;
    struct answer *answer;
    struct buf failures; /* a line each: what the servers of this round had to say */
    uint64_t deadline_ms;
    uint32_t pause_ms;
    bool alone;    /* one server, once */
    bool may_be;   /* it may have been carried out */
    bool answered; /* by a server, if only with 503 */
    /* Of the exchange under way. */
    struct buf body;
    bool too_large;
};

enum outcome { OUTCOME_ANSWERED, OUTCOME_NOT_SENT, OUTCOME_UNKNOWN };
enum verdict { VERDICT_DONE, VERDICT_NEXT, VERDICT_FAILED };

/* --- servers --- */

static int servers_add(struct servers *servers, const char *text, size_t len, bool tls,
                       struct buf *why)
{
    static const char *const schemes[] = {"http://", "https://"};
    struct server *server = &servers->list[servers->count];
    struct address address;

    if (servers->count == SERVERS_MAX) {
        buf_printf(why, "server: more than %d addresses", SERVERS_MAX);
        return ERR_INVALID;
    }
    *server = (struct server){.tls = tls};
    for (size_t i = 0; i < COUNT_OF(schemes); i++) {
        size_t scheme = strlen(schemes[i]);

        if (len > scheme && memcmp(text, schemes[i], scheme) == 0) {
            server->tls = i == 1;
            text += scheme;
            len -= scheme;
            break;
        }
    }
    len -= len > 0 && text[len - 1] == '/' ? 1 : 0;
    if (len < sizeof server->address) {
        memcpy(server->address, text, len);
    }
    if (len >= sizeof server->address || strpbrk(server->address, NOT_IN_ADDRESS) != NULL ||
        address_split(server->address, &address) != 0) {
        buf_printf(why, "server: \"%.*s\" is not HOST:PORT (an IPv6 address stands in brackets)",
                   (int)(len < 200 ? len : 200), text);
        return ERR_INVALID;
    }
    servers->count++;
    return 0;
}

int servers_parse(struct servers *servers, const struct settings *settings, struct buf *why)
{
    const char *text = settings->values[SETTING_SERVER];
    bool tls = settings->values[SETTING_CA] != NULL || settings->values[SETTING_CERT] != NULL;

    *servers = (struct servers){0};
    for (;;) {
        size_t len = strcspn(text, ",");

        if (servers_add(servers, text, len, tls, why) != 0) {
            return ERR_INVALID;
        }
        if (text[len] == '\0') {
            return 0;
        }
        text += len + 1;
    }
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

const char *server_address(const struct server *server, enum listener listener)
{
    if (!server->is_not[listener]) {
        return server->address;
    }
    return server->other[listener][0] != '\0' ? server->other[listener] : NULL;
}

bool server_learn(struct server *server, enum listener listener, const char *message)
{
    const char *text = message != NULL ? strstr(message, BETWEEN_LISTENERS) : NULL;
    bool first = !server->is_not[listener];
    struct address asked;
    struct address named;

    server->is_not[listener] = true;
    server->other[listener][0] = '\0';
    text = text != NULL ? text + strlen(BETWEEN_LISTENERS) : "";
    if (!first || strpbrk(text, NOT_IN_ADDRESS) != NULL || address_split(text, &named) != 0 ||
        strlen(text) >= sizeof server->other[listener]) {
        return false;
    }
    ASSERT(address_split(server->address, &asked) == 0);
    if (address_is_wildcard(text)) { /* which is reached at the host that was asked */
        (void)snprintf(server->other[listener], sizeof server->other[listener],
                       strchr(asked.host, ':') != NULL ? "[%s]:%s" : "%s:%s", asked.host,
                       named.port);
        return true;
    }
    if (address_is_loopback(text) && !address_is_loopback(server->address)) {
        (void)snprintf(server->elsewhere[listener], sizeof server->elsewhere[listener],
                       "its other listener, %s, is for that machine alone: run leafctl there",
                       text);
        return false;
    }
    memcpy(server->other[listener], text, strlen(text) + 1);
    return true;
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
    const struct ask_sink *sink = asking->ask->sink;
    size_t len = size * count;
    long status = 0;

    must(curl_easy_getinfo(asking->cluster->curl, CURLINFO_RESPONSE_CODE, &status));
    if (sink != NULL && status == 200) {
        return sink->take(sink->data, bytes, len) ? len : 0;
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
    /* libcurl sends a request again where a connection that was kept turns out to be closed; on one
     * of its own it does not. */
    SET(curl, FRESH_CONNECT, ask->once ? 1L : 0L);
    SET(curl, CUSTOMREQUEST, ask->method != NULL ? ask->method : "GET");
    SET(curl, NOSIGNAL, 1L);
    SET(curl, CONNECTTIMEOUT_MS, (long)(timeout_ms < CONNECT_MS ? timeout_ms : CONNECT_MS));
    if (ask->sink == NULL) {
        SET(curl, TIMEOUT_MS, (long)timeout_ms);
    } else {
        SET(curl, LOW_SPEED_LIMIT, 1L);
        SET(curl, LOW_SPEED_TIME, (long)((timeout_ms + 999) / 1000));
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

static struct curl_slist *add_header(struct curl_slist *headers, const char *name,
                                     const char *value)
{
    BUF_LOCAL(line);

    buf_printf(&line, "%s%s", name, value);
    headers = MUST_HAVE(curl_slist_append(headers, buf_text(&line)));
    explicit_bzero(line.data, line.capacity);
    return headers;
}

static struct curl_slist *make_headers(const struct asking *asking)
{
    const char *token = asking->cluster->settings->token;
    struct curl_slist *headers = NULL;

    if (asking->ask->body != NULL) {
        headers = add_header(headers, "Content-Type: application/json", "");
        headers = add_header(headers, "Expect:", "");
    }
    if (token != NULL) {
        headers = add_header(headers, "Authorization: Bearer ", token);
    }
    return asking->ask->key != NULL ? add_header(headers, "Idempotency-Key: ", asking->ask->key)
                                    : headers;
}

/* Can the server not have seen the request? */
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
        /* A time that was over before there was a connection. */
        must(curl_easy_getinfo(
            curl, over_tls ? CURLINFO_APPCONNECT_TIME_T : CURLINFO_CONNECT_TIME_T, &connected_us));
        return code == CURLE_OPERATION_TIMEDOUT && connected_us == 0;
    }
}

/* A line of what a server had to say, or of why it said nothing. */
static void add_failure(struct asking *asking, const char *address, const char *text)
{
    buf_printf(&asking->failures, "%s%s: %s", asking->failures.len > 0 ? "\n" : "", address, text);
}

static enum outcome exchange(struct asking *asking, const struct server *server,
                             const char *address, uint32_t timeout_ms)
{
    CURL *curl = asking->cluster->curl;
    struct curl_slist *headers = make_headers(asking);
    char error[CURL_ERROR_SIZE] = "";
    BUF_LOCAL(url);
    CURLcode code;

    buf_printf(&url, "%s://%s%s", server->tls ? "https" : "http", address, asking->ask->target);
    asking->body.len = 0;
    asking->too_large = false;
    set_request(asking, buf_text(&url), timeout_ms);
    SET(curl, HTTPHEADER, headers);
    SET(curl, ERRORBUFFER, error);
    code = curl_easy_perform(curl);
    SET(curl, ERRORBUFFER, NULL);
    curl_slist_free_all(headers);
    if (code == CURLE_OK) {
        return OUTCOME_ANSWERED;
    }
    add_failure(asking, address,
                asking->too_large  ? "the answer is larger than 64 MiB"
                : error[0] != '\0' ? error
                                   : curl_easy_strerror(code));
    return cannot_be_sent(curl, code, server->tls) ? OUTCOME_NOT_SENT : OUTCOME_UNKNOWN;
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

/* What came takes the place of the answer before; an error's text becomes the answer's. */
static void take_answer(struct asking *asking, const char *server)
{
    struct answer *answer = asking->answer;
    bool repeated = answer->repeated;
    const char *message;

    answer_free(answer);
    *answer =
        (struct answer){.repeated = repeated, .server = MUST_HAVE(strdup(server)), .code = ""};
    must(curl_easy_getinfo(asking->cluster->curl, CURLINFO_RESPONSE_CODE, &answer->status));
    (void)buf_text(&asking->body);
    buf_move(&answer->body, &asking->body);
    if (answer->body.len > 0 && answer->body.data[0] == '{') {
        answer->json =
            json_loadb((char *)answer->body.data, answer->body.len, JSON_REJECT_DUPLICATES, NULL);
    }
    if (answer->status < 200 || answer->status >= 300) {
        message = answer_text(answer, "message");
        answer->code = answer_text(answer, "code");
        buf_printf(&answer->error, "%s: %ld %s: %s", answer->server, answer->status, answer->code,
                   *message != '\0' ? message : "no message");
    }
}

/* The client has as much as one may: asked again, it gets the same answer until something of its
 * own ends. */
static bool refused_share(const struct answer *answer)
{
    return answer->status == 429 && strcmp(answer->code, "share") == 0;
}

/* What to do about an answer that is an error, and its exit code. */
static enum ctl_exit meaning_of(const struct answer *answer, const char **ret_hint)
{
    *ret_hint = NULL;
    switch (answer->status) {
    case 401:
        *ret_hint = "show a token: --token-file FILE, LEAFCTL_TOKEN_FILE, or token-file in the "
                    "config file";
        return CTL_DENIED;
    case 403:
        return CTL_DENIED;
    case 421:
        *ret_hint = "ask by a name that the node knows (http.hosts)";
        return CTL_DENIED;
    case 404:
        if (strncmp(answer->code, "unknown_", 8) == 0) {
            return CTL_NOT_FOUND;
        }
        if (strcmp(answer->code, "no_route") == 0) {
            *ret_hint = "is it an older leafd than this leafctl?";
        }
        return CTL_REFUSED;
    case 429:
        return refused_share(answer) ? CTL_REFUSED : CTL_UNKNOWN;
    case 503:
    case 500:
        return CTL_UNKNOWN;
    default:
        if (strcmp(answer->code, "tls_required") == 0) {
            *ret_hint = "the server speaks TLS: --ca FILE, or https:// before its address";
        }
        return CTL_REFUSED;
    }
}

/* --- tries --- */

static uint32_t time_left(const struct asking *asking)
{
    uint64_t now_ms = clock_now_ms(clock_system());

    return now_ms < asking->deadline_ms ? (uint32_t)(asking->deadline_ms - now_ms) : 0;
}

/* Is another server, or the same one a little later, to be asked because of this answer? */
static enum verdict judge_answer(struct asking *asking, struct server *server,
                                 enum listener listener)
{
    struct answer *answer = asking->answer;
    curl_off_t retry_after_s = 0;

    if (answer->status >= 200 && answer->status < 300) {
        return VERDICT_DONE;
    }
    if (answer->status == 404 && strcmp(answer->code, "other_door") == 0) {
        if (!server_learn(server, listener, answer_text(answer, "message"))) {
            add_failure(asking, answer->server,
                        server->elsewhere[listener][0] != '\0'
                            ? server->elsewhere[listener]
                            : "it serves this at another listener");
        }
        return VERDICT_NEXT;
    }
    if ((answer->status != 429 && answer->status != 503) || refused_share(answer)) {
        return VERDICT_FAILED;
    }
    asking->answered = true;
    asking->may_be |= answer->status == 503;
    if (asking->ask->once || asking->alone) {
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
    bool others = !asking->alone && !asking->ask->once && asking->cluster->servers.count > 1;
    enum verdict verdict = VERDICT_NEXT;
    const char *asked = NULL;
    const char *address;

    /* A second time at its other listener, of which no further one is ever learnt. */
    while ((address = server_address(server, listener)) != NULL && address != asked &&
           verdict == VERDICT_NEXT) {
        uint32_t left_ms = time_left(asking);
        enum outcome outcome;

        left_ms = left_ms == 0 ? 1 : left_ms;
        asked = address;
        asking->answer->repeated |= asking->may_be;
        outcome = exchange(asking, server, address, others && left_ms > TRY_MS ? TRY_MS : left_ms);
        if (outcome != OUTCOME_ANSWERED) {
            asking->may_be |= outcome == OUTCOME_UNKNOWN;
            return outcome == OUTCOME_UNKNOWN && asking->ask->once ? VERDICT_FAILED : VERDICT_NEXT;
        }
        take_answer(asking, address);
        verdict = judge_answer(asking, server, listener);
    }
    return verdict;
}

/* All servers in turn, the one that answered last first. */
static enum verdict try_round(struct asking *asking)
{
    struct cluster *cluster = asking->cluster;
    size_t count = asking->alone ? 1 : cluster->servers.count;
    size_t first = cluster->last;

    asking->failures.len = 0;
    for (size_t i = 0; i < count; i++) {
        size_t which = (first + i) % cluster->servers.count;
        enum verdict verdict = try_server(asking, &cluster->servers.list[which]);

        if (verdict == VERDICT_DONE) {
            cluster->last = which;
        }
        if (verdict != VERDICT_NEXT || (i + 1 < count && time_left(asking) == 0)) {
            return verdict;
        }
    }
    return VERDICT_NEXT;
}

/* No server did it: say why. */
static enum ctl_exit nobody_did_it(struct asking *asking)
{
    struct answer *answer = asking->answer;
    bool has_answer = answer->error.len > 0 && asking->answered;
    const char *what = asking->ask->method == NULL ? "" : "; it may or may not have been done";
    enum ctl_exit code = CTL_UNREACHABLE;

    if (asking->may_be || has_answer) {
        code = CTL_UNKNOWN;
    }
    if (!has_answer) {
        answer->error.len = 0;
        buf_printf(&answer->error, "%s%s%s",
                   asking->may_be ? "no answer came" : "no server answers",
                   asking->failures.len > 0 ? ": " : "", buf_text(&asking->failures));
    }
    if (asking->may_be) {
        buf_printf(&answer->error, "%s", what);
    }
    if (code == CTL_UNREACHABLE) {
        buf_printf(&answer->error, "\nname the nodes by --server HOST:PORT,... or LEAFCTL_SERVER");
    }
    return code;
}

static enum ctl_exit conclude(struct asking *asking, enum verdict verdict)
{
    struct answer *answer = asking->answer;
    const char *hint = NULL;
    enum ctl_exit code = CTL_DONE;

    if (verdict == VERDICT_FAILED && answer->error.len > 0) {
        code = meaning_of(answer, &hint);
        if (hint != NULL) {
            buf_printf(&answer->error, "\n%s", hint);
        }
        if (answer->repeated && code == CTL_REFUSED) {
            buf_printf(&answer->error,
                       "\nthis was asked a second time, as the first time had no "
                       "answer: it may have been done then; look before you continue");
        } else if (code == CTL_UNKNOWN && asking->ask->once) {
            buf_printf(&answer->error,
                       "\nit is not repeated automatically: look whether it was done");
        }
    } else if (verdict != VERDICT_DONE) {
        code = nobody_did_it(asking);
    }
    buf_put(&answer->error, "", 1);
    buf_free(&asking->failures);
    buf_free(&asking->body);
    return code;
}

static enum ctl_exit ask_until(struct asking *asking)
{
    const struct ask *ask = asking->ask;
    uint32_t timeout_ms =
        ask->timeout_ms > 0 ? ask->timeout_ms : asking->cluster->settings->timeout_ms;
    enum verdict verdict;

    *asking->answer = (struct answer){.code = ""};
    asking->deadline_ms = clock_now_ms(clock_system()) + timeout_ms;
    for (;;) {
        asking->pause_ms = ASK_PAUSE_MS;
        verdict = try_round(asking);
        /* Where no server answered, none will within a moment; where one did, another one will. */
        if (verdict != VERDICT_NEXT || asking->alone || (!asking->may_be && !asking->answered) ||
            time_left(asking) <= asking->pause_ms) {
            return conclude(asking, verdict);
        }
        (void)poll(NULL, 0, (int)asking->pause_ms);
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

void cluster_next(struct cluster *cluster)
{
    cluster->last = (cluster->last + 1) % cluster->servers.count;
}

const struct servers *cluster_servers(const struct cluster *cluster)
{
    return &cluster->servers;
}

enum ctl_exit cluster_ask(struct cluster *cluster, const struct ask *ask, struct answer *ret)
{
    struct asking asking = {.cluster = cluster, .ask = ask, .answer = ret};

    return ask_until(&asking);
}

enum ctl_exit cluster_ask_one(struct cluster *cluster, size_t server, const struct ask *ask,
                              struct answer *ret)
{
    struct asking asking = {.cluster = cluster, .ask = ask, .answer = ret, .alone = true};

    ASSERT(server < cluster->servers.count);
    cluster->last = server;
    return ask_until(&asking);
}
