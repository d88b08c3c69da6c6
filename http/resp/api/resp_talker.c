/*
 * resp_talker.c - see resp_talker.h. The table of methods is searched in order, the hot ones
 * first. Thread: the connection's loop.
 */
#include "http/resp/api/resp_talker.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "http/api/context.h"
#include "http/api/denial.h"
#include "http/api/gate.h"
#include "http/api/request.h"
#include "http/resp/api/resp.h"
#include "http/resp/proto/reply.h"
#include "src/base/assert.h"
#include "src/base/container.h"
#include "src/base/hot.h"

#define NAMES_BYTES 320 /* of all methods */

#define WORDS(min, max) .words_min = (min), .words_max = (max)
#define ANY_WORDS(min) WORDS(min, LIMIT_RESP_WORDS)
#define METHOD(name_, role_, handle_, ...)                                                         \
    .route = {.path = (name_),                                                                     \
              .role = (role_),                                                                     \
              .listeners = LISTENER_IDS,                                                           \
              .handle = (handle_),                                                                 \
              __VA_ARGS__}
#define TAG .names_tag = true

static const struct resp_method methods[] = {
    {METHOD("INCR", ROLE_IDS, handle_incr, TAG), .traffic = TRAFFIC_SEGMENT, WORDS(2, 2),
     .usage = "INCR tag", .summary = "Take one id of a tag."},
    {METHOD("INCRBY", ROLE_IDS, handle_incrby, TAG), .traffic = TRAFFIC_SEGMENT, WORDS(3, 3),
     .usage = "INCRBY tag count",
     .summary = "Take so many ids of a tag that follow each other; the last one is the answer."},
    {METHOD("LEAFD.NEXT", ROLE_IDS, handle_next, TAG), .traffic = TRAFFIC_SEGMENT, WORDS(2, 6),
     .usage = "LEAFD.NEXT tag [COUNT count] [KEY key]",
     .summary = "Take an id of a tag, or so many as an array; with an idempotency key."},
    {METHOD("LEAFD.SNOWFLAKE", ROLE_IDS, handle_snowflake), .traffic = TRAFFIC_SNOWFLAKE,
     WORDS(1, 5), .usage = "LEAFD.SNOWFLAKE [COUNT count] [LAYOUT name]",
     .summary = "Take a snowflake id, or so many as an array."},
    {METHOD("LEAFD.DECODE", ROLE_IDS, handle_decode), .traffic = TRAFFIC_DECODE, WORDS(2, 4),
     .usage = "LEAFD.DECODE id [LAYOUT name]", .summary = "Take a snowflake id apart."},
    {METHOD("GET", ROLE_READ, handle_get, TAG), .traffic = TRAFFIC_READ, WORDS(2, 2),
     .usage = "GET tag", .summary = "The max_id of a tag: all its ids lie below it."},
    {METHOD("PING", ROLE_NONE, handle_ping), .traffic = TRAFFIC_RESP, WORDS(1, 2),
     .usage = "PING [message]", .summary = "PONG, or the message."},
    {METHOD("ECHO", ROLE_NONE, handle_echo), .traffic = TRAFFIC_RESP, WORDS(2, 2),
     .usage = "ECHO message", .summary = "The message."},
    {METHOD("HELLO", ROLE_NONE, handle_hello), .traffic = TRAFFIC_RESP, ANY_WORDS(1),
     .usage = "HELLO [2|3 [AUTH user token] [SETNAME name]]",
     .summary = "Choose the version of RESP, and say who asks."},
    {METHOD("AUTH", ROLE_NONE, handle_auth), .traffic = TRAFFIC_RESP, WORDS(2, 3),
     .usage = "AUTH [user] token", .summary = "Say who asks."},
    {METHOD("CLIENT", ROLE_NONE, handle_client), .traffic = TRAFFIC_RESP, ANY_WORDS(2),
     .usage = "CLIENT SETNAME name|GETNAME|SETINFO attribute value|ID|NO-EVICT on|NO-TOUCH on",
     .summary = "The connection's name and number."},
    {METHOD("COMMAND", ROLE_NONE, handle_command), .traffic = TRAFFIC_RESP, ANY_WORDS(1),
     .usage = "COMMAND [COUNT|INFO [name ...]|DOCS [name ...]]",
     .summary = "What may be asked here."},
    {METHOD("CONFIG", ROLE_NONE, handle_config), .traffic = TRAFFIC_RESP, ANY_WORDS(2),
     .usage = "CONFIG GET name ...", .summary = "Empty: Redis's settings are not leafd's."},
    {METHOD("INFO", ROLE_NONE, handle_info), .traffic = TRAFFIC_RESP, ANY_WORDS(1),
     .usage = "INFO [section ...]", .summary = "What this node is."},
    {METHOD("SELECT", ROLE_NONE, handle_select), .traffic = TRAFFIC_RESP, WORDS(2, 2),
     .usage = "SELECT 0", .summary = "There is one database, number 0."},
    {METHOD("QUIT", ROLE_NONE, handle_quit), .traffic = TRAFFIC_RESP, WORDS(1, 1), .usage = "QUIT",
     .summary = "End the connection."},
};

static const struct resp_methods methods_table = {methods, sizeof methods / sizeof methods[0]};

static void resp_begin(struct conn *conn)
{
    struct conn_counts *counts = &conn->conns->counts;
    struct resp_caller *caller = MUST_HAVE(calloc(1, sizeof *caller));
    uint64_t number; /* of this loop's */

    conns_count(&counts->resp_begun, 1);
    number = counts->resp_begun;
    counts->resp_conns++;
    conn->parser.head.keep_alive = true;
    caller->version = 2;
    caller->table = &methods_table;
    caller->id = number * LIMIT_HTTP_LOOPS + api_loop(conn)->index;
    conn->caller = caller;
}

static void resp_end(struct conn *conn)
{
    conn->conns->counts.resp_conns--;
    free(conn->caller);
    conn->caller = NULL;
}

/* What Redis's clients know such errors by. */
static const char *kind_of(int status, const char *code)
{
    switch (status) {
    case 401:
        return strcmp(code, RESP_WRONG_TOKEN) == 0 ? "WRONGPASS" : "NOAUTH";
    case 403:
        return "NOPERM";
    case 429:
        return "BUSY";
    case 503:
        return strcmp(code, "overloaded") == 0 ? "BUSY" : "TRYAGAIN";
    default:
        return strcmp(code, RESP_NO_PROTOCOL) == 0 ? "NOPROTO" : "ERR";
    }
}

/* What an answer's body is, is all of it. */
HOT static void resp_put(struct conn *conn, struct buf *out, const struct answer *answer)
{
    conns_count(&conn->conns->counts.resp_replies[answer->status / 100 - 2], 1);
    if (answer->way == ANSWER_WHOLE) {
        buf_put(out, answer->body, answer->len);
    }
}

static void resp_put_error(struct conn *conn, struct buf *out, const struct answer_error *error)
{
    (void)conn;
    reply_failure(out, kind_of(error->status, error->code), error->code, error->message);
}

/* The request is there: what is asked, and whether it may be. */
HOT static void resp_admit(struct conn *conn)
{
    struct resp_caller *caller = resp_caller(conn);
    struct request *request = &conn->request;
    const struct words *words = &caller->words;
    const struct resp_method *method =
        resp_method_find(caller->table, conn_at(conn, words->word[0].at), words->word[0].len);

    caller->method = method;
    request->route = NULL;
    request->traffic = TRAFFIC_RESP;
    if (method == NULL || words->count < method->words_min || words->count > method->words_max) {
        return;
    }
    request->route = &method->route;
    request->traffic = method->traffic;
    if (method->route.names_tag) {
        request->name_at = words->word[1].at;
        request->name_len = words->word[1].len;
    }
    gate_admit(conn, &method->route);
}

HOT static bool resp_step(struct conn *conn)
{
    struct resp_caller *caller = resp_caller(conn);
    struct parser_head *head = &conn->parser.head;
    struct wire *wire = &conn->wire;
    struct parser_reject reject;
    enum words_result result =
        words_read(conn_at(conn, 0), wire_len(wire), &caller->words, &reject);

    if (result == WORDS_MORE) {
        if (conn->state == CONN_IDLE) {
            conn_move(conn, CONN_HEAD);
        }
        return false;
    }
    if (result == WORDS_REJECT) {
        if (conn_at(conn, 0)[0] == '\0') { /* behind empty lines: a proxy's binary header */
            conn_is_proxied(conn);
        } else {
            conn_reject(conn, &reject);
        }
        return true;
    }
    head->len = caller->words.len;
    wire->next = wire->start + head->len;
    if (result == WORDS_NOTHING) {
        conn_move(conn, CONN_IDLE);
        wire_used(wire);
        return true;
    }
    ASSERT(result == WORDS_DONE);
    head->key_count = 0;
    head->key_len = 0;
    resp_admit(conn);
    conn_keep_head(conn);
    conn_serve(conn);
    return true;
}

/* What programs that took ids from Redis ask for as well, and what there is in its place. */
static const struct advice {
    const char *methods[10];
    const char *text;
} advices[] = {
    {{"SET", "SETNX", "SETEX", "PSETEX", "GETSET", "MSET", "MSETNX", "APPEND"},
     "a tag is made, and its max_id raised, over HTTP, by PUT /api/tags/{tag}"},
    {{"MULTI", "EXEC", "DISCARD", "WATCH", "UNWATCH"},
     "there are no transactions, send the requests as a pipeline without one"},
    {{"EVAL", "EVALSHA", "SCRIPT", "FCALL"}, "there are no scripts, INCRBY takes many ids at once"},
    {{"DECR", "DECRBY", "INCRBYFLOAT"}, "ids are whole numbers, and never go back"},
    {{"EXPIRE", "PEXPIRE", "EXPIREAT", "PEXPIREAT", "PERSIST", "TTL", "PTTL", "DEL", "UNLINK"},
     "no tag expires; one with a date in its shape counts from 1 again each year, month or day"},
    {{"HINCRBY", "HINCRBYFLOAT", "ZINCRBY"}, "each counter is a tag of its own, take INCRBY"},
    {{"EXISTS", "KEYS", "SCAN", "TYPE", "DBSIZE", "MGET"},
     "the tags are listed over HTTP, by GET /api/tags"},
    {{"CLUSTER", "SENTINEL", "READONLY"}, "any node serves any tag, name one or several"},
};

static const char *advice_for(struct conn *conn)
{
    for (size_t i = 0; i < COUNT_OF(advices); i++) {
        const struct advice *advice = &advices[i];

        for (size_t k = 0; k < COUNT_OF(advice->methods) && advice->methods[k] != NULL; k++) {
            if (caller_word_is(conn, 0, advice->methods[k])) {
                return advice->text;
            }
        }
    }
    return NULL;
}

/* There is no such method, or it takes other words. */
COLD __attribute__((noinline)) static int resp_refuse(struct conn *conn)
{
    const struct resp_method *method = resp_caller(conn)->method;
    const struct resp_methods *table = resp_caller(conn)->table;
    char shown[SHOWN_BYTES];
    char names[NAMES_BYTES];
    size_t len;
    const char *word = caller_word(conn, 0, &len);
    const char *advice = advice_for(conn);
    size_t at = 0;

    if (method != NULL) {
        return reply_error(conn, 400, "bad_request", "wrong number of words: %s", method->usage);
    }
    if (proxy_begins(conn_at(conn, 0), wire_len(&conn->wire))) {
        conn_is_proxied(conn);
        return ANSWERED;
    }
    if (conn_at(conn, 0)[0] != '*' && advice == NULL) {
        /* A line of somebody else: were it answered, each later answer would be taken for that to
         * the request before. */
        conn->ending = CONN_LINGERS;
        return reply_error(conn, 404, "unknown_command",
                           "%s begins no request of RESP, so the connection ends",
                           text_show(word, len, shown, sizeof shown));
    }
    for (size_t i = 0; i < table->count && at < sizeof names; i++) {
        at += (size_t)snprintf(names + at, sizeof names - at, "%s%s", i > 0 ? ", " : "",
                               table->methods[i].route.path);
    }
    return reply_error(conn, 404, "unknown_command", "unknown command %s%s%s; here are: %s",
                       text_show(word, len, shown, sizeof shown), advice != NULL ? ": " : "",
                       advice != NULL ? advice : "", names);
}

HOT static void resp_handle(struct conn *conn)
{
    const struct route *route = conn->request.route;
    int result;

    if (!conn_charge(conn, &conn->client->requests, 1)) {
        return;
    }
    if (route == NULL) {
        result = resp_refuse(conn);
    } else if (!gate_is_open(conn)) {
        result = deny(conn);
    } else {
        result = route->handle(conn);
    }
    if (result != ANSWERED) {
        reply_finish(conn, result);
    }
}

const struct talker *resp_talker(void)
{
    static const struct talker talker = {
        .begin = resp_begin,
        .end = resp_end,
        .step = resp_step,
        .handle = resp_handle,
        .put = resp_put,
        .put_error = resp_put_error,
        .starved = "-BUSY overloaded: no file descriptor is left for another connection\r\n",
        .tls_required = "this address is for TLS: begin its URL with rediss://",
    };

    return &talker;
}
