/*
 * cluster.c - see cluster.h. Thread: one.
 */
#include "src/ctl/net/cluster.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/assert.h"
#include "src/base/clock.h"

#define TRY_MS 4000 /* of one server, if others can be asked */

struct cluster {
    const struct settings *settings;
    struct servers servers;
    struct exchange *exchange;
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
    bool answered; /* by somebody, if only to say 503 */
};

enum verdict { VERDICT_DONE, VERDICT_NEXT, VERDICT_FAILED };

struct cluster *cluster_new(const struct settings *settings, struct buf *why)
{
    struct cluster *cluster = MUST_HAVE(calloc(1, sizeof *cluster));

    cluster->settings = settings;
    if (servers_parse(&cluster->servers, settings, why) != 0) {
        free(cluster);
        return NULL;
    }
    cluster->exchange = exchange_new(settings);
    return cluster;
}

void cluster_free(struct cluster *cluster)
{
    if (cluster != NULL) {
        exchange_free(cluster->exchange);
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

void answer_free(struct answer *answer)
{
    json_decref(answer->json);
    buf_free(&answer->body);
    buf_free(&answer->error);
    free(answer->server);
    *answer = (struct answer){0};
}

static const char *cluster_text_of(const json_t *json, const char *name)
{
    const char *text = json_string_value(json_object_get(json, name));

    return text != NULL ? text : "";
}

/* It has as much as one client may: asked again, it hears the same until something of its own ends.
 */
static bool cluster_refused_share(const struct answer *answer)
{
    return answer->status == 429 && strcmp(answer->code, "share") == 0;
}

/* What to do about an answer that is an error, and its exit code. */
static enum ctl_exit cluster_meaning_of(const struct answer *answer, const char **ret_hint)
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
        return cluster_refused_share(answer) ? CTL_REFUSED : CTL_UNKNOWN;
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

/* Take the answer's body apart; an error's text becomes the answer's. */
static void read_answer(struct answer *answer)
{
    const char *message;

    answer->code = "";
    answer->error.len = 0;
    if (answer->body.len > 0 && answer->body.data[0] == '{') {
        answer->json =
            json_loadb((char *)answer->body.data, answer->body.len, JSON_REJECT_DUPLICATES, NULL);
    }
    if (answer->status >= 200 && answer->status < 300) {
        return;
    }
    message = cluster_text_of(answer->json, "message");
    answer->code = cluster_text_of(answer->json, "code");
    buf_printf(&answer->error, "%s: %ld %s: %s", answer->server, answer->status, answer->code,
               *message != '\0' ? message : "no message");
}

static void replace_answer(struct asking *asking, struct exchange_answer *got, const char *server)
{
    struct answer *answer = asking->answer;
    bool repeated = answer->repeated;

    answer_free(answer);
    answer->repeated = repeated;
    answer->status = got->status;
    answer->server = MUST_HAVE(strdup(server));
    buf_move(&answer->body, &got->body);
    read_answer(answer);
}

static uint32_t time_left(const struct asking *asking)
{
    uint64_t now_ms = clock_now_ms(clock_system());

    return now_ms < asking->deadline_ms ? (uint32_t)(asking->deadline_ms - now_ms) : 0;
}

/* Send it there. */
static enum exchange_outcome send_to(struct asking *asking, const struct server *server,
                                     const char *address, struct exchange_answer *ret_got)
{
    const struct ask *ask = asking->ask;
    uint32_t left_ms = time_left(asking);
    bool can_go_elsewhere = !asking->alone && !ask->once && asking->cluster->servers.count > 1;
    BUF_LOCAL(url);
    BUF_LOCAL(why);
    enum exchange_outcome outcome;

    buf_printf(&url, "%s://%s%s", server->tls ? "https" : "http", address, ask->target);
    left_ms = left_ms == 0 ? 1 : left_ms;
    const struct exchange_request request = {
        .method = ask->method != NULL ? ask->method : "GET",
        .url = buf_text(&url),
        .body = ask->body,
        .body_len = ask->body == NULL   ? 0
                    : ask->body_len > 0 ? ask->body_len
                                        : strlen(ask->body),
        .key = ask->key,
        .timeout_ms = can_go_elsewhere && left_ms > TRY_MS ? TRY_MS : left_ms,
        .sink = ask->sink,
        .once = ask->once,
    };
    outcome = exchange_do(asking->cluster->exchange, &request, ret_got, &why);
    if (outcome != EXCHANGE_DONE) {
        buf_printf(&asking->failures, "%s%s: %s", asking->failures.len > 0 ? "\n" : "", address,
                   buf_text(&why));
    }
    return outcome;
}

/* Is another server, or the same one a little later, to be asked because of this answer? */
static enum verdict cluster_judge(struct asking *asking, struct server *server, enum door door,
                                  uint32_t retry_after_ms)
{
    struct answer *answer = asking->answer;

    if (answer->status >= 200 && answer->status < 300) {
        return VERDICT_DONE;
    }
    if (answer->status == 404 && strcmp(answer->code, "other_door") == 0) {
        if (server_learn(server, door, cluster_text_of(answer->json, "message"))) {
            return VERDICT_NEXT;
        }
        buf_printf(&asking->failures, "%s%s: %s", asking->failures.len > 0 ? "\n" : "",
                   answer->server,
                   server->elsewhere[door][0] != '\0' ? server->elsewhere[door]
                                                      : "it serves this at another door");
        return VERDICT_NEXT;
    }
    if ((answer->status != 429 && answer->status != 503) || cluster_refused_share(answer)) {
        return VERDICT_FAILED;
    }
    asking->answered = true;
    asking->may_be |= answer->status == 503;
    if (asking->ask->once || asking->alone) {
        return VERDICT_FAILED;
    }
    asking->pause_ms = retry_after_ms > asking->pause_ms && answer->status == 429
                           ? retry_after_ms
                           : asking->pause_ms;
    return VERDICT_NEXT;
}

static enum verdict try_server(struct asking *asking, struct server *server)
{
    enum door door = servers_door(asking->ask->target);
    const char *address = server_address(server, door);
    struct exchange_answer got;
    enum exchange_outcome outcome;
    enum verdict verdict;

    if (address == NULL) {
        return VERDICT_NEXT;
    }
    asking->answer->repeated |= asking->may_be;
    outcome = send_to(asking, server, address, &got);
    if (outcome != EXCHANGE_DONE) {
        buf_free(&got.body);
        asking->may_be |= outcome == EXCHANGE_UNKNOWN;
        return outcome == EXCHANGE_UNKNOWN && asking->ask->once ? VERDICT_FAILED : VERDICT_NEXT;
    }
    replace_answer(asking, &got, address);
    verdict = cluster_judge(asking, server, door, got.retry_after_ms);
    if (verdict == VERDICT_NEXT && server_address(server, door) != address &&
        server_address(server, door) != NULL) {
        return try_server(asking, server); /* at its other door: no further one is ever learnt */
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

/* Nobody did it: say why. */
static enum ctl_exit cluster_print_failure(struct asking *asking)
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
        code = cluster_meaning_of(answer, &hint);
        if (hint != NULL) {
            buf_printf(&answer->error, "\n%s", hint);
        }
        if (asking->answer->repeated && code == CTL_REFUSED) {
            buf_printf(&answer->error, "\nthis was asked a second time, as the first time had no "
                                       "answer: it may have been done then; look before you go on");
        } else if (code == CTL_UNKNOWN && asking->ask->once) {
            buf_printf(&answer->error, "\nit is not repeated by itself: look whether it was done");
        }
    } else if (verdict != VERDICT_DONE) {
        code = cluster_print_failure(asking);
    }
    buf_put(&answer->error, "", 1);
    buf_free(&asking->failures);
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
        /* Where nobody is there, nobody comes within a moment; where one was, another one will. */
        if (verdict != VERDICT_NEXT || asking->alone || (!asking->may_be && !asking->answered) ||
            time_left(asking) <= asking->pause_ms) {
            return conclude(asking, verdict);
        }
        (void)poll(NULL, 0, (int)asking->pause_ms);
    }
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
