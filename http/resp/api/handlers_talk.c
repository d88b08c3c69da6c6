/*
 * handlers_talk.c - what clients and people say beside asking for ids: PING, ECHO, SELECT, QUIT,
 * CLIENT, COMMAND, CONFIG GET.
 *
 * Failure modes: what is not served says what is. Thread: the loop's.
 */
#include "http/resp/api/resp.h"

#include <string.h>

#include "http/api/request.h"
#include "http/resp/proto/reply.h"

static int say_ok(struct conn *conn)
{
    reply_simple(reply_begin(conn), "OK");
    return 200;
}

int handle_ping(struct conn *conn)
{
    if (resp_caller(conn)->words.count == 2) {
        return handle_echo(conn);
    }
    reply_simple(reply_begin(conn), "PONG");
    return 200;
}

int handle_echo(struct conn *conn)
{
    size_t len;
    const char *text = caller_word(conn, 1, &len);

    reply_bulk(reply_begin(conn), text, len);
    return 200;
}

int handle_select(struct conn *conn)
{
    char shown[SHOWN_BYTES];
    size_t len;
    const char *text = caller_word(conn, 1, &len);

    if (!caller_word_is(conn, 1, "0")) {
        return reply_error(conn, 400, "bad_request", "there is no database %s: there is one, 0",
                           text_show(text, len, shown, sizeof shown));
    }
    return say_ok(conn);
}

int handle_quit(struct conn *conn)
{
    conn->ending = CONN_CLOSES;
    return say_ok(conn);
}

/* --- CLIENT --- */

int handle_client(struct conn *conn)
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
        return caller_name(conn, 2) ? say_ok(conn) : ANSWERED;
    }
    /* What a client tells of itself, and what it would have a cache do. */
    if ((count == 4 && caller_word_is(conn, 1, "SETINFO")) ||
        (count == 3 &&
         (caller_word_is(conn, 1, "NO-EVICT") || caller_word_is(conn, 1, "NO-TOUCH")))) {
        return say_ok(conn);
    }
    return caller_wrong_words(conn);
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

/* Name, arity, flags, and where its keys are, as Redis tells it. */
static void put_info(struct buf *out, const struct resp_method *method)
{
    bool has_tag = method->route.names_tag;

    reply_array(out, 6);
    put_method_name(out, method);
    if (method->words_min == method->words_max) {
        reply_integer(out, method->words_min);
    } else {
        buf_printf(out, ":-%u\r\n", method->words_min);
    }
    reply_array(out, 1);
    reply_simple(out, method->route.role == ROLE_IDS ? "write" : "readonly");
    for (unsigned i = 0; i < 3; i++) { /* the first, the last, and how far apart */
        reply_integer(out, has_tag ? 1 : 0);
    }
}

static void put_docs(struct buf *out, unsigned version, const struct resp_method *method)
{
    put_method_name(out, method);
    reply_map(out, version, 2);
    reply_pair(out, "summary", method->summary);
    reply_pair(out, "group", "leafd");
}

/* Tell of all, or of those named from the third word on. */
static int put_methods(struct conn *conn, bool docs)
{
    const struct resp_caller *caller = resp_caller(conn);
    BUF_LOCAL(list);
    struct buf *out;
    uint64_t told = 0;
    const struct resp_methods *table = caller->table;
    bool all = caller->words.count <= 2;

    for (size_t i = 0; i < (all ? table->count : caller->words.count - 2); i++) {
        size_t len = 0;
        const char *name = all ? NULL : caller_word(conn, (uint32_t)i + 2, &len);
        const struct resp_method *method =
            all ? &table->methods[i] : resp_method_find(table, name, len);

        if (docs && method != NULL) {
            put_docs(&list, caller->version, method);
        } else if (method != NULL) {
            put_info(&list, method);
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

int handle_command(struct conn *conn)
{
    const struct resp_caller *caller = resp_caller(conn);

    if (caller->words.count == 1 || caller_word_is(conn, 1, "INFO")) {
        return put_methods(conn, false);
    }
    if (caller_word_is(conn, 1, "DOCS")) {
        return put_methods(conn, true);
    }
    if (caller->words.count == 2 && caller_word_is(conn, 1, "COUNT")) {
        reply_integer(reply_begin(conn), caller->table->count);
        return 200;
    }
    return caller_wrong_words(conn);
}

int handle_config(struct conn *conn)
{
    if (!caller_word_is(conn, 1, "GET") || resp_caller(conn)->words.count < 3) {
        return caller_wrong_words(conn);
    }
    reply_map(reply_begin(conn), resp_caller(conn)->version, 0);
    return 200;
}
