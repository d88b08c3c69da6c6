/*
 * handlers_auth.c - who asks, and in which version of RESP: AUTH and HELLO.
 *
 * A token that is given is looked for in the tokens in force, and again when these were read anew
 * (http/api/gate.c). One that is not known changes nothing: who the connection stood for before, it
 * still does.
 *
 * Failure modes: an unknown token, or another's name before it: WRONGPASS, which is audited.
 *
 * Thread: the loop's.
 */
#include "http/resp/api/resp.h"

#include <string.h>

#include "http/api/audited.h"
#include "http/api/context.h"
#include "http/api/gate.h"
#include "http/api/request.h"
#include "http/resp/proto/reply.h"

#define TOKEN_BYTES_MAX 512 /* what is longer is none of ours */

static bool fail_token(struct conn *conn, const char *reason, const char *message)
{
    audited_refuse_as(conn, 401, reason);
    return reply_error(conn, 401, RESP_WRONG_TOKEN, "%s", message);
}

/* The token in one word, with the user in another; 0: none is named. False: it is not taken;
 * answered. */
static bool take_word_token(struct conn *conn, uint32_t user, uint32_t token)
{
    struct api_loop *loop = api_loop(conn);
    struct resp_caller *caller = resp_caller(conn);
    const struct identity *identity = NULL;
    struct token_hash hash;
    size_t len;
    const char *text = caller_word(conn, token, &len);

    if (loop->api->auth == NULL || !tokens_are_used(loop->tokens)) {
        return reply_error(conn, 400, "no_tokens",
                           "this node has no tokens (auth.tokens-file): AUTH is not needed");
    }
    if (len > 0 && len <= TOKEN_BYTES_MAX && token_hash(text, len, &hash)) {
        identity = tokens_find(loop->tokens, &hash);
    }
    if (identity == NULL) {
        return fail_token(conn, "unknown token", "this token is not known here");
    }
    if (user != 0) {
        text = caller_word(conn, user, &len);
        if (!word_is(text, len, "DEFAULT") &&
            (len != strlen(identity->name) || memcmp(text, identity->name, len) != 0)) {
            return fail_token(conn, "another's token",
                              "this token is not this user's: say its name, or default");
        }
    }
    caller->api.has_token = true;
    caller->api.token = hash;
    conn->identity = NULL;
    conn->last_len = 0; /* what comes is judged anew */
    (void)gate_identity(conn);
    return true;
}

int handle_auth(struct conn *conn)
{
    uint32_t count = resp_caller(conn)->words.count;

    if (!take_word_token(conn, count == 3 ? 1 : 0, count - 1)) {
        return ANSWERED;
    }
    reply_simple(reply_begin(conn), "OK");
    return 200;
}

/* --- HELLO --- */

/* The words behind the version. */
struct hello {
    uint32_t user; /* indices; 0: not given */
    uint32_t name;
};

static bool read_hello(struct conn *conn, struct hello *hello)
{
    uint32_t count = resp_caller(conn)->words.count;
    uint32_t i = 2;

    while (i < count) {
        if (i + 2 < count && caller_word_is(conn, i, "AUTH")) {
            hello->user = i + 1;
            i += 3;
        } else if (i + 1 < count && caller_word_is(conn, i, "SETNAME")) {
            hello->name = i + 1;
            i += 2;
        } else {
            return caller_wrong_words(conn);
        }
    }
    return true;
}

static void put_hello(struct conn *conn)
{
    const struct api_loop *loop = api_loop(conn);
    const struct resp_caller *caller = resp_caller(conn);
    struct buf *out = reply_begin(conn);

    reply_map(out, caller->version, 7);
    reply_pair(out, "server", "leafd");
    reply_pair(out, "version", gate_may(conn, ROLE_HEALTH) ? loop->api->build->version : "0");
    reply_number(out, "proto", caller->version);
    reply_number(out, "id", caller->id);
    reply_pair(out, "mode", "standalone");
    reply_pair(out, "role", "master");
    reply_text(out, "modules");
    reply_array(out, 0);
}

int handle_hello(struct conn *conn)
{
    struct resp_caller *caller = resp_caller(conn);
    unsigned version = caller->version;
    struct hello hello = {0};

    if (caller->words.count > 1) {
        version = caller_word_is(conn, 1, "2") ? 2 : caller_word_is(conn, 1, "3") ? 3 : 0;
    }
    if (version == 0) {
        return reply_error(conn, 400, RESP_NO_PROTOCOL,
                           "unsupported protocol version; there are 2 and 3");
    }
    if (!read_hello(conn, &hello) ||
        (hello.user != 0 && !take_word_token(conn, hello.user, hello.user + 1)) ||
        (hello.name != 0 && !caller_name(conn, hello.name))) {
        return ANSWERED;
    }
    caller->version = version;
    put_hello(conn);
    return 200;
}
