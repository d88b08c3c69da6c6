/*
 * resp.c - see resp.h: the data of a connection, the handlers and table of methods, and the talker.
 * Thread: the connection's loop.
 */
#include "http/resp/api/resp.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "http/api/audited.h"
#include "http/api/ids.h"
#include "http/api/request.h"
#include "http/proto/text.h"
#include "http/resp/proto/bytes.h"
#include "http/server/conn.h"
#include "src/base/assert.h"
#include "src/base/container.h"
#include "src/base/hot.h"
#include "src/base/limits.h"
#include "src/base/process.h"
#include "src/id/codec/tag.h"
#include "src/id/snowflake/snowflake.h"

/* Codes of errors for which Redis has its own word. */
#define RESP_WRONG_TOKEN "wrong_token"
#define RESP_NO_PROTOCOL "bad_protocol"

struct resp_method {
    struct route route; /* its path is the method, in capitals */
    uint32_t words_min; /* with the method */
    uint32_t words_max;
    const char *usage;
    const char *summary; /* for COMMAND DOCS */
};

/* --- the data of a connection --- */

struct resp_caller {
    struct caller api; /* must be the first: see there */
    unsigned version;  /* of RESP: 2 or 3 */
    uint64_t id;       /* of this connection, for its client: unique in the process */
    const struct resp_method *method; /* of the present request; NULL: no such method */
    struct words words;               /* the present request's, as offsets for conn_at() */
    uint32_t name_len;
    char name[LIMIT_RESP_NAME_BYTES]; /* given by its client */
};

static struct resp_caller *resp_caller(const struct conn *conn)
{
    return conn->caller;
}

/* A word of the present request, 0..words.count - 1. Borrowed until it is answered. */
static const char *caller_word(const struct conn *conn, uint32_t index, size_t *ret_len)
{
    const struct word *word = &resp_caller(conn)->words.word[index];

    *ret_len = word->len;
    return conn_at(conn, word->at);
}

/* Is it this word, which is in capitals, in any case? */
static bool caller_word_is(const struct conn *conn, uint32_t index, const char *word)
{
    size_t len;
    const char *text = caller_word(conn, index, &len);

    return text_is(text, len, word);
}

/* --- shared by handlers --- */

/* 400: the method takes other words. Returns ANSWERED, or false. */
static int caller_wrong_words(struct conn *conn)
{
    return reply_error(conn, 400, "bad_request", "wrong words: %s",
                       resp_caller(conn)->method->usage);
}

/* Take the word as the connection's name. False: not a valid name; answered. */
static bool caller_name(struct conn *conn, uint32_t index)
{
    struct resp_caller *caller = resp_caller(conn);
    size_t len;
    const char *name = caller_word(conn, index, &len);

    for (size_t i = 0; i < len; i++) {
        if (name[i] <= ' ' || name[i] > '~') {
            return reply_error(conn, 400, "bad_request",
                               "the name %s has a blank or a character that is not of ASCII",
                               TEXT_SHOWN(name, len, SHOWN_BYTES));
        }
    }
    if (len > LIMIT_RESP_NAME_BYTES) {
        return reply_error(conn, 400, "bad_request", "a name of %zu bytes; it may have %d", len,
                           LIMIT_RESP_NAME_BYTES);
    }
    caller->name_len = (uint32_t)len;
    memcpy(caller->name, name, len);
    return true;
}

/* --- requests of clients and people, other than for ids --- */

static int reply_ok(struct conn *conn)
{
    reply_simple(reply_begin(conn), "OK");
    return 200;
}

/* PING, which may have a message, and ECHO. */
static int handle_ping(struct conn *conn)
{
    size_t len;
    const char *text;

    if (resp_caller(conn)->words.count == 2) {
        text = caller_word(conn, 1, &len);
        reply_bulk(reply_begin(conn), text, len);
    } else {
        reply_simple(reply_begin(conn), "PONG");
    }
    return 200;
}

static int handle_select(struct conn *conn)
{
    size_t len;
    const char *text = caller_word(conn, 1, &len);

    if (!caller_word_is(conn, 1, "0")) {
        return reply_error(conn, 400, "bad_request", "there is no database %s: there is one, 0",
                           TEXT_SHOWN(text, len, SHOWN_BYTES));
    }
    return reply_ok(conn);
}

static int handle_quit(struct conn *conn)
{
    conn->ending = CONN_CLOSES;
    return reply_ok(conn);
}

/* --- CLIENT --- */

static int handle_client(struct conn *conn)
{
    const struct resp_caller *caller = resp_caller(conn);
    uint32_t count = caller->words.count;

    if (count == 2 && caller_word_is(conn, 1, "ID")) {
        reply_integer(reply_begin(conn), caller->id);
        return 200;
    }
    if (count == 2 && caller_word_is(conn, 1, "GETNAME")) {
        if (caller->name_len > 0) {
            reply_bulk(reply_begin(conn), caller->name, caller->name_len);
        } else {
            reply_nil(reply_begin(conn), caller->version);
        }
        return 200;
    }
    if (count == 3 && caller_word_is(conn, 1, "SETNAME")) {
        return caller_name(conn, 2) ? reply_ok(conn) : ANSWERED;
    }
    /* A client's description of itself, and its wishes for a cache. */
    if ((count == 4 && caller_word_is(conn, 1, "SETINFO")) ||
        (count == 3 &&
         (caller_word_is(conn, 1, "NO-EVICT") || caller_word_is(conn, 1, "NO-TOUCH")))) {
        return reply_ok(conn);
    }
    return caller_wrong_words(conn);
}

static int handle_config(struct conn *conn)
{
    if (!caller_word_is(conn, 1, "GET") || resp_caller(conn)->words.count < 3) {
        return caller_wrong_words(conn);
    }
    reply_map(reply_begin(conn), resp_caller(conn)->version, 0);
    return 200;
}

/* --- the client's identity: AUTH and HELLO --- */

static bool fail_token(struct conn *conn, const char *reason, const char *message)
{
    audited_refuse_as(conn, 401, reason);
    return reply_error(conn, 401, RESP_WRONG_TOKEN, "%s", message);
}

/* Take the token in one word, with the user in another (0: none is named). False: refused;
 * answered. */
static bool take_word_token(struct conn *conn, uint32_t user, uint32_t token)
{
    struct api_loop *loop = api_loop(conn);
    struct resp_caller *caller = resp_caller(conn);
    const struct identity *identity;
    struct token_hash hash;
    size_t len;
    const char *text = caller_word(conn, token, &len);

    if (!tokens_are_used(loop->tokens)) {
        return reply_error(conn, 400, "no_tokens",
                           "this node has no tokens (auth.tokens-file): AUTH is not needed");
    }
    identity = tokens_find_text(loop->tokens, text, len, &hash);
    if (identity == NULL) {
        return fail_token(conn, "unknown token", "this token is not known here");
    }
    if (user != 0) {
        text = caller_word(conn, user, &len);
        if (!text_is(text, len, "DEFAULT") &&
            (len != strlen(identity->name) || memcmp(text, identity->name, len) != 0)) {
            return fail_token(conn, "another's token",
                              "this token is not this user's: say its name, or default");
        }
    }
    caller->api.has_token = true;
    caller->api.token = hash;
    conn->identity = NULL;
    conn->last_len = 0; /* the next request is judged anew */
    (void)gate_identity(conn);
    return gate_cuts(conn) ? deny(conn) : true;
}

static int handle_auth(struct conn *conn)
{
    uint32_t count = resp_caller(conn)->words.count;

    return take_word_token(conn, count == 3 ? 1 : 0, count - 1) ? reply_ok(conn) : ANSWERED;
}

/* --- HELLO --- */

/* The words after the version. */
struct hello {
    uint32_t user; /* indices; 0: not given */
    uint32_t name;
};

static int handle_hello(struct conn *conn)
{
    struct resp_caller *caller = resp_caller(conn);
    const struct http_build *build = api_loop(conn)->api->build;
    uint32_t count = caller->words.count;
    unsigned version = caller->version;
    struct hello hello = {0};
    struct buf *out;

    if (count > 1) {
        version = caller_word_is(conn, 1, "2") ? 2 : caller_word_is(conn, 1, "3") ? 3 : 0;
    }
    if (version == 0) {
        return reply_error(conn, 400, RESP_NO_PROTOCOL,
                           "unsupported protocol version; there are 2 and 3");
    }
    for (uint32_t i = 2; i < count;) {
        if (i + 2 < count && caller_word_is(conn, i, "AUTH")) {
            hello.user = i + 1;
            i += 3;
        } else if (i + 1 < count && caller_word_is(conn, i, "SETNAME")) {
            hello.name = i + 1;
            i += 2;
        } else {
            return caller_wrong_words(conn);
        }
    }
    if ((hello.user != 0 && !take_word_token(conn, hello.user, hello.user + 1)) ||
        (hello.name != 0 && !caller_name(conn, hello.name))) {
        return ANSWERED;
    }
    caller->version = version;
    out = reply_begin(conn);
    reply_map(out, version, 7);
    reply_pair(out, "server", "leafd");
    reply_pair(out, "version", gate_may(conn, ROLE_HEALTH) ? build->version : "0");
    reply_number(out, "proto", version);
    reply_number(out, "id", caller->id);
    reply_pair(out, "mode", "standalone");
    reply_pair(out, "role", "master");
    reply_bulk(out, "modules", strlen("modules"));
    reply_array(out, 0);
    return 200;
}

/* --- reading: GET, LEAFD.DECODE, INFO --- */

static int got_cb(struct conn *conn, struct call *call)
{
    const struct buf *reply = &call->request.reply;
    char digits[TEXT_DECIMAL_BYTES];
    TAG_ROWS_LOCAL(rows);
    int status = call->request.status;

    if (status != 0 && status != ERR_UNKNOWN_TAG) {
        return status;
    }
    if (status == 0 && (tag_rows_decode(reply->data, reply->len, &rows) != 0 || rows.count != 1)) {
        return ERR_BAD_MESSAGE;
    }
    if (status == 0) {
        reply_bulk(reply_begin(conn), digits, text_decimal(rows.rows[0].max_id, digits));
    } else {
        reply_nil(reply_begin(conn), resp_caller(conn)->version);
    }
    return 200;
}

/* Ask for the row of the tag. */
static int look_up_tag(struct conn *conn, int (*finish)(struct conn *, struct call *))
{
    size_t len;
    const char *name = caller_word(conn, 1, &len);
    const char *why = "";
    struct call *call;

    if (tag_name_check(name, len, &why) != 0) {
        return reply_bad_tag(conn, name, len, why);
    }
    call = call_new(CLUSTER_REQUEST_QUERY, finish);
    call->sees_errors = true;
    query_get_encode(&call->request.payload, name, len);
    return call_submit(conn, call);
}

static int handle_get(struct conn *conn)
{
    return look_up_tag(conn, got_cb);
}

/* As Redis answers SETNX, and SET with NX. */
static int put_set(struct conn *conn, bool made)
{
    const struct resp_caller *caller = resp_caller(conn);
    struct buf *out = reply_begin(conn);

    if (caller->words.count == 3) {
        reply_integer(out, made ? 1 : 0);
    } else if (made) {
        reply_simple(out, "OK");
    } else {
        reply_nil(out, caller->version);
    }
    return 200;
}

static int set_made_cb(struct conn *conn, struct call *call)
{
    bool made = false;
    int status = ANSWERED;

    return tag_made(conn, call, &made, &status) ? put_set(conn, made) : status;
}

/* If the tag exists, nothing is set. Else a client that may make tags makes it: the next INCR gives
 * the number after the set one. */
static int set_before_cb(struct conn *conn, struct call *call)
{
    size_t len;
    size_t number_len;
    const char *name = caller_word(conn, 1, &len);
    const char *text = caller_word(conn, 2, &number_len);
    uint64_t number;

    if (call->request.status != ERR_UNKNOWN_TAG) {
        return call->request.status != 0 ? call->request.status : put_set(conn, false);
    }
    if (!gate_may(conn, ROLE_TAGS)) {
        return reply_error(conn, 404, "unknown_tag",
                           "there is no tag %s, and to make one needs the role tags",
                           TEXT_SHOWN(name, len, SHOWN_BYTES));
    }
    if (text_parse_decimal(text, number_len, 0, INT64_MAX - 1, &number) != 0) {
        return ERR_INVALID; /* it was refused before */
    }
    return tag_make(conn, name, len, number + 1, set_made_cb);
}

/* Programs that keep a counter in Redis create it this way, unless it exists. */
static int handle_set_unless_there(struct conn *conn)
{
    uint64_t number;
    size_t len;
    const char *text = caller_word(conn, 2, &len);

    if (resp_caller(conn)->words.count == 4 && !caller_word_is(conn, 3, "NX")) {
        return caller_wrong_words(conn);
    }
    if (text_parse_decimal(text, len, 0, INT64_MAX - 1, &number) != 0) {
        return reply_error(conn, 400, "bad_request",
                           "the number %s is not a whole number from 0 to %llu",
                           TEXT_SHOWN(text, len, SHOWN_BYTES), ull(INT64_MAX - 1));
    }
    return look_up_tag(conn, set_before_cb);
}

static int handle_decode(struct conn *conn)
{
    const struct resp_caller *caller = resp_caller(conn);
    const struct layout_words *named = NULL;
    struct snowflake_parts parts;
    struct buf *out;
    size_t len;
    const char *text = caller_word(conn, 1, &len);
    uint64_t id;

    if (text_parse_decimal(text, len, 0, INT64_MAX, &id) != 0) {
        return reply_error(conn, 400, "bad_request", "id %s is not a whole number from 0 to %llu",
                           TEXT_SHOWN(text, len, SHOWN_BYTES), ull(INT64_MAX));
    }
    if (caller->words.count > 2) {
        if (caller->words.count != 4 || !caller_word_is(conn, 2, "LAYOUT")) {
            return caller_wrong_words(conn);
        }
        text = caller_word(conn, 3, &len);
        named = layout_named(conn, text, len);
        if (named == NULL) {
            return ANSWERED;
        }
    }
    if (!snowflake_take_apart(conn, named, id, &parts)) {
        return ANSWERED;
    }
    out = reply_begin(conn);
    reply_map(out, caller->version, 5);
    reply_number(out, "id", id);
    reply_number(out, "timestamp_ms", parts.unix_ms);
    reply_pair(out, "time", TEXT_TIME(parts.unix_ms));
    reply_number(out, "worker_id", parts.worker);
    reply_number(out, "sequence", parts.sequence);
    return 200;
}

static int handle_at(struct conn *conn)
{
    uint32_t count = resp_caller(conn)->words.count;
    struct param time = {.present = true};
    struct param layout = {.present = count > 2};
    uint64_t id;

    if (count > 2 && (count != 4 || !caller_word_is(conn, 2, "LAYOUT"))) {
        return caller_wrong_words(conn);
    }
    time.text = caller_word(conn, 1, &time.len);
    layout.text = count > 2 ? caller_word(conn, 3, &layout.len) : NULL;
    if (!snowflake_id_at(conn, &time, &layout, &id)) {
        return ANSWERED;
    }
    reply_integer(reply_begin(conn), id);
    return 200;
}

static int handle_info(struct conn *conn)
{
    const struct api_loop *loop = api_loop(conn);
    const struct api *api = loop->api;
    struct process_figures process;
    uint64_t conns = 0;
    uint64_t begun = 0;
    uint64_t replies = 0;
    BUF_LOCAL(text);

    buf_printf(&text, "# Server\r\nserver_name:leafd\r\nredis_version:7.0.0\r\n"
                      "redis_mode:standalone\r\n");
    if (gate_may(conn, ROLE_HEALTH)) {
        buf_printf(&text, "leafd_version:%s\r\nleader_known:%d\r\n", api->build->version,
                   atomic_load(&loop->backend->health->leader_known) ? 1 : 0);
        for (unsigned i = 0; i < api->loop_count; i++) {
            const struct conn_counts *counts = &api->loops[i]->conns->counts;

            conns += atomic_load_explicit(&counts->resp_conns, memory_order_relaxed);
            begun += atomic_load_explicit(&counts->resp_begun, memory_order_relaxed);
            for (unsigned k = 0; k < LATENCY_STATUSES; k++) {
                replies += id_count_of(&counts->resp_replies[k]);
            }
        }
        process_look(&process);
        /* The figures that `redis-cli --stat` shows. */
        buf_printf(&text,
                   "\r\n# Clients\r\nconnected_clients:%llu\r\nblocked_clients:0\r\n"
                   "\r\n# Memory\r\nused_memory:%llu\r\n"
                   "\r\n# Stats\r\ntotal_connections_received:%llu\r\n"
                   "total_commands_processed:%llu\r\n",
                   ull(conns), ull(process.resident_bytes), ull(begun), ull(replies));
    }
    buf_printf(&text, "\r\n# Persistence\r\nloading:0\r\n\r\n# Replication\r\nrole:master\r\n"
                      "connected_slaves:0\r\n\r\n# Cluster\r\ncluster_enabled:0\r\n");
    reply_lines(reply_begin(conn), resp_caller(conn)->version, text.data, text.len);
    return 200;
}

/* --- ids: INCR, INCRBY, LEAFD.NEXT, LEAFD.SNOWFLAKE --- */

#define IDS_PER_PART (LIMIT_HTTP_PART_BYTES / REPLY_ID_BYTES_MAX)
#define HEAD_BYTES 32

/* --- answers --- */

/* Put ids; those of a tag with a shape as texts. Returns how many. */
static uint64_t put_resp_ids(struct conn *conn, const struct id_text *text,
                             const struct segment_range *range, struct buf *out)
{
    uint32_t by = increment_of(range->increment);
    char id[ID_TEXT_BYTES_MAX];

    buf_reserve(out, (size_t)range->count * REPLY_ID_BYTES_MAX);
    for (uint32_t i = 0; i < range->count; i++) {
        if (text->kind == ID_TEXT_NUMBER) {
            reply_integer(out, range->first + (uint64_t)i * by);
        } else if (text->kind == ID_TEXT_LAYOUT) {
            reply_integer(out, named_layout_id(text->layout, range->first + i));
        } else {
            reply_bulk(
                out, id,
                id_text_put(api_loop(conn), text, range->first + (uint64_t)i * by, true, id));
        }
    }
    return range->count;
}

/* The number of ids made at once. */
static uint32_t ids_per_part(const struct id_text *text)
{
    return text->kind == ID_TEXT_NUMBER || text->kind == ID_TEXT_LAYOUT ? IDS_PER_PART
                                                                        : id_text_lines(text);
}

/* One id, or the last of some. */
HOT static int answer_last(struct conn *conn, const struct id_claim *claim)
{
    const struct segment_range *last = &claim->ranges[claim->range_count - 1];
    uint64_t id = last->first + (uint64_t)(last->count - 1) * increment_of(last->increment);
    struct buf *out = reply_begin(conn);

    ASSERT(claim->range_count == 1);
    if (claim->text.kind == ID_TEXT_NUMBER) {
        reply_integer(out, id);
    } else {
        (void)put_resp_ids(conn, &claim->text, &(struct segment_range){id, 1, 0}, out);
    }
    return reply_made(conn, NULL, NULL);
}

static int answer_array(struct conn *conn, const struct id_claim *claim)
{
    struct buf *out;

    if (claim->count > ids_per_part(&claim->text)) {
        return id_text_answer_parts(conn, claim, NULL, NULL, claim->count,
                                    ids_per_part(&claim->text), put_resp_ids);
    }
    out = reply_begin(conn);
    reply_array(out, claim->count);
    for (uint32_t i = 0; i < claim->range_count; i++) {
        (void)put_resp_ids(conn, &claim->text, &claim->ranges[i], out);
    }
    return reply_made(conn, NULL, NULL);
}

/* --- claims --- */

/* Nothing is claimed yet; the client is charged. False: it has used up its quota; answered. */
HOT static bool claim_begin(struct conn *conn, struct id_claim *claim, uint32_t count)
{
    id_claim_init(conn, claim, count);
    claim->counted = true;
    claim->format = ID_FORMAT_OTHER;
    return conn_charge(conn, &conn->client->ids, count);
}

/* Take ids of the tag named by the second word. */
HOT static int take_of_tag(struct conn *conn, struct id_claim *claim)
{
    const struct request *request = &conn->request;
    const char *name = conn_at(conn, request->name_at);
    struct id_tag *tag = request->known;
    const char *why = "";

    if (tag == NULL && tag_name_check(name, request->name_len, &why) != 0) {
        return reply_bad_tag(conn, name, request->name_len, why);
    }
    claim->name_len = (uint16_t)request->name_len;
    memcpy(claim->name, name, request->name_len);
    if (tag == NULL) {
        tag = id_table_find(api_loop(conn)->backend->table, claim->name, claim->name_len);
        /* An entry of the table never moves: it is valid for a repetition of these bytes. */
        conn->request.known = tag;
    }
    return segment_begin(conn, claim, tag);
}

/* Read a word with a count. */
HOT static bool read_count(struct conn *conn, uint32_t index, uint32_t *ret_count)
{
    size_t len;
    const char *text = caller_word(conn, index, &len);
    uint64_t count;

    if (text_parse_decimal(text, len, 1, LIMIT_COUNT, &count) != 0) {
        return reply_error(conn, 400, "bad_count",
                           "the count %s is not a whole number from 1 to %d",
                           TEXT_SHOWN(text, len, SHOWN_BYTES), LIMIT_COUNT);
    }
    *ret_count = (uint32_t)count;
    return true;
}

/* --- methods --- */

HOT static int handle_incr(struct conn *conn)
{
    struct id_claim claim;

    if (!claim_begin(conn, &claim, 1)) {
        return ANSWERED;
    }
    claim.answer = answer_last;
    return take_of_tag(conn, &claim);
}

HOT static int handle_incrby(struct conn *conn)
{
    struct id_claim claim;
    uint32_t count = 0;

    if (!read_count(conn, 2, &count) || !claim_begin(conn, &claim, count)) {
        return ANSWERED;
    }
    claim.answer = answer_last;
    claim.contiguous = count > 1;
    claim.consecutive = count > 1; /* Redis's clients count down from the last one */
    claim.number = count > 1;      /* those below the last cannot be derived from a text */
    return take_of_tag(conn, &claim);
}

/* The options after the required words: COUNT, and KEY or LAYOUT, each at most once. */
struct options {
    bool has_count;
    uint32_t count;
    uint32_t other; /* index of the word after KEY or LAYOUT; 0: none */
};

static bool read_next_options(struct conn *conn, uint32_t from, const char *other,
                              struct options *options)
{
    uint32_t count = resp_caller(conn)->words.count;

    *options = (struct options){.count = 1};
    for (uint32_t i = from; i < count; i += 2) {
        if (i + 1 < count && caller_word_is(conn, i, "COUNT") && !options->has_count) {
            options->has_count = true;
            if (!read_count(conn, i + 1, &options->count)) {
                return false;
            }
        } else if (i + 1 < count && caller_word_is(conn, i, other) && options->other == 0) {
            options->other = i + 1;
        } else {
            return caller_wrong_words(conn);
        }
    }
    return true;
}

static int handle_next(struct conn *conn)
{
    struct parser_head *head = &conn->parser.head;
    const struct words *words = &resp_caller(conn)->words;
    struct id_claim claim;
    struct options options;

    if (!read_next_options(conn, 2, "KEY", &options) || !claim_begin(conn, &claim, options.count)) {
        return ANSWERED;
    }
    if (options.other != 0) {
        claim.keyed = true;
        head->key =
            (struct parser_field){1, words->word[options.other].at, words->word[options.other].len};
    }
    claim.answer = options.has_count ? answer_array : answer_last;
    return take_of_tag(conn, &claim);
}

static int handle_snowflake(struct conn *conn)
{
    struct id_claim claim;
    struct options options;
    const char *layout;
    size_t len;

    if (!read_next_options(conn, 1, "LAYOUT", &options) ||
        !claim_begin(conn, &claim, options.count)) {
        return ANSWERED;
    }
    claim.source = ID_SOURCE_CLOCK;
    claim.answer = options.has_count ? answer_array : answer_last;
    if (options.other != 0) {
        layout = caller_word(conn, options.other, &len);
        if (!id_claim_layout(conn, &claim, layout, len)) {
            return ANSWERED;
        }
    }
    return snowflake_begin(conn, &claim);
}

/* --- the methods --- */

#define WORDS(min, max) .words_min = (min), .words_max = (max)
#define ANY_WORDS(min) WORDS(min, LIMIT_RESP_WORDS)
#define METHOD(name_, role_, traffic_, handle_, ...)                                               \
    .route = {.path = (name_),                                                                     \
              .role = (role_),                                                                     \
              .traffic = (traffic_),                                                               \
              .listeners = LISTENER_IDS,                                                           \
              .takes_options = true, /* its words, which its handler reads */                      \
              .handle = (handle_),                                                                 \
              __VA_ARGS__}
#define TAG .names_tag = true

static int handle_command(struct conn *conn);

static const struct resp_method methods[] = {
    {METHOD("INCR", ROLE_IDS, TRAFFIC_SEGMENT, handle_incr, TAG), WORDS(2, 2), .usage = "INCR tag",
     .summary = "Take one id of a tag."},
    {METHOD("INCRBY", ROLE_IDS, TRAFFIC_SEGMENT, handle_incrby, TAG), WORDS(3, 3),
     .usage = "INCRBY tag count",
     .summary = "Take so many ids of a tag that follow each other; the last one is the answer."},
    {METHOD("LEAFD.NEXT", ROLE_IDS, TRAFFIC_SEGMENT, handle_next, TAG), WORDS(2, 6),
     .usage = "LEAFD.NEXT tag [COUNT count] [KEY key]",
     .summary = "Take an id of a tag, or so many as an array; with an idempotency key."},
    {METHOD("LEAFD.SNOWFLAKE", ROLE_IDS, TRAFFIC_SNOWFLAKE, handle_snowflake), WORDS(1, 5),
     .usage = "LEAFD.SNOWFLAKE [COUNT count] [LAYOUT name]",
     .summary = "Take a snowflake id, or so many as an array."},
    {METHOD("LEAFD.DECODE", ROLE_IDS, TRAFFIC_DECODE, handle_decode), WORDS(2, 4),
     .usage = "LEAFD.DECODE id [LAYOUT name]", .summary = "Decode a snowflake id."},
    {METHOD("LEAFD.AT", ROLE_IDS, TRAFFIC_DECODE, handle_at), WORDS(2, 4),
     .usage = "LEAFD.AT time [LAYOUT name]", .summary = "The smallest snowflake id of a time."},
    {METHOD("GET", ROLE_READ, TRAFFIC_READ, handle_get, TAG), WORDS(2, 2), .usage = "GET tag",
     .summary = "The max_id of a tag: all its ids lie below it."},
    {METHOD("SET", ROLE_IDS, TRAFFIC_READ, handle_set_unless_there, TAG), WORDS(4, 4),
     .usage = "SET tag number NX",
     .summary = "OK: the tag is made. Nil: it is there, and not changed."},
    {METHOD("SETNX", ROLE_IDS, TRAFFIC_READ, handle_set_unless_there, TAG), WORDS(3, 3),
     .usage = "SETNX tag number",
     .summary = "1: the tag is made. 0: it is there, and not changed."},
    {METHOD("PING", ROLE_NONE, TRAFFIC_RESP, handle_ping), WORDS(1, 2), .usage = "PING [message]",
     .summary = "PONG, or the message."},
    {METHOD("ECHO", ROLE_NONE, TRAFFIC_RESP, handle_ping), WORDS(2, 2), .usage = "ECHO message",
     .summary = "The message."},
    {METHOD("HELLO", ROLE_NONE, TRAFFIC_RESP, handle_hello), ANY_WORDS(1),
     .usage = "HELLO [2|3 [AUTH user token] [SETNAME name]]",
     .summary = "Choose the version of RESP, and name the client."},
    {METHOD("AUTH", ROLE_NONE, TRAFFIC_RESP, handle_auth), WORDS(2, 3),
     .usage = "AUTH [user] token", .summary = "Name the client."},
    {METHOD("CLIENT", ROLE_NONE, TRAFFIC_RESP, handle_client), ANY_WORDS(2),
     .usage = "CLIENT SETNAME name|GETNAME|SETINFO attribute value|ID|NO-EVICT on|NO-TOUCH on",
     .summary = "The connection's name and number."},
    {METHOD("COMMAND", ROLE_NONE, TRAFFIC_RESP, handle_command), ANY_WORDS(1),
     .usage = "COMMAND [COUNT|INFO [name ...]|DOCS [name ...]]",
     .summary = "What may be asked here."},
    {METHOD("CONFIG", ROLE_NONE, TRAFFIC_RESP, handle_config), ANY_WORDS(2),
     .usage = "CONFIG GET name ...", .summary = "Empty: Redis's settings are not leafd's."},
    {METHOD("INFO", ROLE_NONE, TRAFFIC_RESP, handle_info), ANY_WORDS(1),
     .usage = "INFO [section ...]", .summary = "What this node is."},
    {METHOD("SELECT", ROLE_NONE, TRAFFIC_RESP, handle_select), WORDS(2, 2), .usage = "SELECT 0",
     .summary = "There is one database, number 0."},
    {METHOD("QUIT", ROLE_NONE, TRAFFIC_RESP, handle_quit), WORDS(1, 1), .usage = "QUIT",
     .summary = "End the connection."},
};

/* The method, in any case; NULL: there is none. */
HOT static const struct resp_method *resp_method_find(const char *text, size_t len)
{
    for (size_t i = 0; i < COUNT_OF(methods); i++) {
        if (text_is(text, len, methods[i].route.path)) {
            return &methods[i];
        }
    }
    return NULL;
}

/* --- COMMAND --- */

/* The method in small letters. */
static void put_method_name(struct buf *out, const struct resp_method *method)
{
    char name[32];
    size_t len = strlen(method->route.path);

    for (size_t i = 0; i < len; i++) {
        char c = method->route.path[i];

        name[i] = (char)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
    }
    reply_bulk(out, name, len);
}

/* Describe all methods, or those named from the third word on. */
static int put_methods(struct conn *conn, bool docs)
{
    const struct resp_caller *caller = resp_caller(conn);
    BUF_LOCAL(list);
    struct buf *out;
    uint64_t told = 0;
    bool all = caller->words.count <= 2;

    for (size_t i = 0; i < (all ? COUNT_OF(methods) : caller->words.count - 2); i++) {
        size_t len = 0;
        const char *name = all ? NULL : caller_word(conn, (uint32_t)i + 2, &len);
        const struct resp_method *method = all ? &methods[i] : resp_method_find(name, len);

        if (docs && method != NULL) {
            put_method_name(&list, method);
            reply_map(&list, caller->version, 2);
            reply_pair(&list, "summary", method->summary);
            reply_pair(&list, "group", "leafd");
        } else if (method != NULL) {
            /* Name, arity, flags, and the places of its keys, as in Redis. */
            reply_array(&list, 6);
            put_method_name(&list, method);
            if (method->words_min == method->words_max) {
                reply_integer(&list, method->words_min);
            } else {
                buf_printf(&list, ":-%u\r\n", method->words_min);
            }
            reply_array(&list, 1);
            reply_simple(&list, method->route.role == ROLE_IDS ? "write" : "readonly");
            for (unsigned k = 0; k < 3; k++) { /* the first, the last, and how far apart */
                reply_integer(&list, method->route.names_tag ? 1 : 0);
            }
        } else if (!docs) {
            reply_nil(&list, caller->version);
        }
        told += !docs || method != NULL;
    }
    out = reply_begin(conn);
    if (docs) {
        reply_map(out, caller->version, told);
    } else {
        reply_array(out, told);
    }
    buf_put(out, list.data, list.len);
    return 200;
}

static int handle_command(struct conn *conn)
{
    const struct resp_caller *caller = resp_caller(conn);

    if (caller->words.count == 1 || caller_word_is(conn, 1, "INFO")) {
        return put_methods(conn, false);
    }
    if (caller_word_is(conn, 1, "DOCS")) {
        return put_methods(conn, true);
    }
    if (caller->words.count == 2 && caller_word_is(conn, 1, "COUNT")) {
        reply_integer(reply_begin(conn), COUNT_OF(methods));
        return 200;
    }
    return caller_wrong_words(conn);
}

/* --- the talker --- */

#define NAMES_BYTES 320 /* of all methods */

static void resp_begin(struct conn *conn)
{
    struct conn_counts *counts = &conn->conns->counts;
    struct resp_caller *caller = MUST_HAVE(calloc(1, sizeof *caller));
    uint64_t number; /* of this loop's */

    counter_add(&counts->resp_begun, 1);
    number = counts->resp_begun;
    counts->resp_conns++;
    conn->parser.head.keep_alive = true;
    caller->version = 2;
    caller->id = number * LIMIT_HTTP_LOOPS + api_loop(conn)->index;
    conn->caller = caller;
}

static void resp_end(struct conn *conn)
{
    conn->conns->counts.resp_conns--;
    free(conn->caller);
    conn->caller = NULL;
}

/* The body is the whole answer; parts are those of an array. */
HOT static void resp_put(struct conn *conn, struct buf *out, const struct answer *answer)
{
    counter_add(&conn->conns->counts.resp_replies[answer->status / 100 - 2], 1);
    if (answer->form == ANSWER_WHOLE) {
        buf_put(out, answer->body, answer->len);
    } else {
        ASSERT(answer->form == ANSWER_PARTS);
        reply_array(out, (uint32_t)answer->len);
    }
}

static void resp_put_error(struct conn *conn, struct buf *out, const struct answer_error *error)
{
    const char *code = error->code;
    const char *kind; /* the word by which Redis's clients know such errors */

    (void)conn;
    switch (error->status) {
    case 401:
        kind = strcmp(code, RESP_WRONG_TOKEN) == 0 ? "WRONGPASS" : "NOAUTH";
        break;
    case 403:
        kind = strcmp(code, "client_cut") == 0 ? "CUT" : "NOPERM";
        break;
    case 423:
        kind = "PAUSED";
        break;
    case 429:
        kind = "BUSY";
        break;
    case 503:
        kind = strcmp(code, "overloaded") == 0 ? "BUSY" : "TRYAGAIN";
        break;
    default:
        kind = strcmp(code, RESP_NO_PROTOCOL) == 0 ? "NOPROTO" : "ERR";
    }
    reply_failure(out, kind, code, error->message);
}

static int resp_refuse(struct conn *conn);

HOT static bool resp_step(struct conn *conn)
{
    /* For unknown methods, or wrong words. */
    static const struct route refused = {.path = "",
                                         .role = ROLE_NONE,
                                         .listeners = LISTENER_IDS,
                                         .takes_options = true,
                                         .handle = resp_refuse};
    struct resp_caller *caller = resp_caller(conn);
    const struct words *words = &caller->words;
    struct request *request = &conn->request;
    const struct resp_method *method;
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
        if (conn_at(conn, 0)[0] == '\0') { /* after empty lines: a proxy's binary header */
            conn_reject_proxy(conn, false);
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
    head->key = (struct parser_field){0};
    method = resp_method_find(conn_at(conn, words->word[0].at), words->word[0].len);
    caller->method = method;
    request->route = &refused;
    request->traffic = TRAFFIC_RESP;
    if (method != NULL && words->count >= method->words_min && words->count <= method->words_max) {
        request->route = &method->route;
        request->traffic = method->route.traffic;
        if (method->route.names_tag) {
            request->name_at = words->word[1].at;
            request->name_len = words->word[1].len;
        }
    }
    gate_admit(conn, request->route);
    conn_keep_head(conn);
    conn_serve(conn);
    return true;
}

/* Other requests of programs that took ids from Redis, and their replacements. */
static const struct advice {
    const char *methods[10]; /* NULL: the end */
    const char *text;
} advices[] = {
    {{"SET", "SETNX", "SETEX", "PSETEX", "GETSET", "MSET", "MSETNX", "APPEND"},
     "SETNX makes a tag; its max_id is raised over HTTP, by PUT /api/tags/{tag}"},
    {{"MULTI", "EXEC", "DISCARD", "WATCH", "UNWATCH"},
     "there are no transactions, send the requests as a pipeline without one"},
    {{"EVAL", "EVALSHA", "SCRIPT", "FCALL"}, "there are no scripts, INCRBY takes many ids at once"},
    {{"DECR", "DECRBY", "INCRBYFLOAT"}, "ids are whole numbers, and never go back"},
    {{"EXPIRE", "PEXPIRE", "EXPIREAT", "PEXPIREAT", "PERSIST", "TTL", "PTTL"},
     "no tag expires; one with a date in its shape counts from 1 again each year, month or day"},
    {{"DEL", "UNLINK"}, "a tag is deleted over HTTP, by DELETE /api/tags/{tag}"},
    {{"HINCRBY", "HINCRBYFLOAT", "ZINCRBY"}, "each counter is a tag of its own, take INCRBY"},
    {{"EXISTS", "KEYS", "SCAN", "TYPE", "DBSIZE", "MGET"},
     "GET shows one tag; all are listed over HTTP, by GET /api/tags"},
    {{"CLUSTER", "SENTINEL", "READONLY"}, "any node serves any tag, name one or several"},
};

/* Answer that there is no such method, or that it takes other words. */
COLD __attribute__((noinline)) static int resp_refuse(struct conn *conn)
{
    const struct resp_method *method = resp_caller(conn)->method;
    char names[NAMES_BYTES];
    size_t len;
    const char *word = caller_word(conn, 0, &len);
    const char *advice = NULL;
    size_t at = 0;

    for (size_t i = 0; i < COUNT_OF(advices) && advice == NULL; i++) {
        const char *const *named = advices[i].methods;

        while (*named != NULL && !caller_word_is(conn, 0, *named)) {
            named++;
        }
        advice = *named != NULL ? advices[i].text : NULL;
    }
    if (method != NULL) {
        return reply_error(conn, 400, "bad_request", "wrong number of words: %s%s%s", method->usage,
                           advice != NULL ? "; " : "", advice != NULL ? advice : "");
    }
    if (is_proxy_header(conn_at(conn, 0), wire_len(&conn->wire))) {
        conn_reject_proxy(conn, false);
        return ANSWERED;
    }
    if (conn_at(conn, 0)[0] != '*' && advice == NULL) {
        /* Not this client's line: if it were answered, each later answer would be taken as that of
         * the request before. */
        conn->ending = CONN_LINGERS;
        return reply_error(conn, 404, "unknown_command",
                           "%s begins no request of RESP, so the connection ends",
                           TEXT_SHOWN(word, len, SHOWN_BYTES));
    }
    for (size_t i = 0; i < COUNT_OF(methods) && at < sizeof names; i++) {
        at += (size_t)snprintf(names + at, sizeof names - at, "%s%s", i > 0 ? ", " : "",
                               methods[i].route.path);
    }
    return reply_error(conn, 404, "unknown_command", "unknown command %s%s%s; here are: %s",
                       TEXT_SHOWN(word, len, SHOWN_BYTES), advice != NULL ? ": " : "",
                       advice != NULL ? advice : "", names);
}

const struct talker resp_talker = {
    .begin = resp_begin,
    .end = resp_end,
    .step = resp_step,
    .put = resp_put,
    .put_error = resp_put_error,
    .starved = "-BUSY overloaded: no file descriptor is left for another connection\r\n",
    .tls_required = "this address is for TLS: begin its URL with rediss://",
};
