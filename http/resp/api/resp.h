/*
 * resp.h - RESP as leafd's methods see it: what may be asked, what a connection keeps from one
 * request to the next, and what serves each method.
 *
 * A method is the first word of a request. It has the route (http/api/route.h) of the same thing
 * over HTTP, as far as the gate and the audit look at it: role, listener, and whether the second
 * word names a tag. The table of methods is the talker's (resp_talker.c).
 *
 * A handler is called when its request is complete and may be made. It returns as one over HTTP
 * does (http/api/request.h): the status of its reply, which it has put into reply_begin(), or an
 * error, or ANSWERED.
 *
 * Thread: the connection's loop; methods are constant.
 */
#ifndef LEAFD_HTTP_RESP_API_RESP_H
#define LEAFD_HTTP_RESP_API_RESP_H

#include <stddef.h>
#include <stdint.h>

#include "http/api/gate.h"
#include "http/api/route.h"
#include "http/resp/proto/words.h"
#include "http/server/conn.h"
#include "src/base/limits.h"

/* --- what may be asked --- */

/* Codes of errors for which Redis has a word of its own. */
#define RESP_WRONG_TOKEN "wrong_token"
#define RESP_NO_PROTOCOL "bad_protocol"

struct resp_method {
    struct route route; /* its path is the method, in capitals */
    uint8_t traffic;    /* enum traffic */
    uint32_t words_min; /* with the method */
    uint32_t words_max;
    const char *usage;
    const char *summary; /* for COMMAND DOCS */
};

/* All that there are. */
struct resp_methods {
    const struct resp_method *methods;
    size_t count;
};

/* The method, in whatever case; NULL: there is none. */
const struct resp_method *resp_method_find(const struct resp_methods *table, const char *text,
                                           size_t len);

/* --- what a connection keeps --- */

struct resp_caller {
    struct caller api; /* has to be the first: see there */
    unsigned version;  /* of RESP: 2 or 3 */
    uint64_t id;       /* of this connection, for its client: unique in the process */
    const struct resp_methods *table; /* all methods */
    const struct resp_method *method; /* of the present request; NULL: there is no such thing */
    struct words words;               /* the present request's, as offsets for conn_at() */
    uint32_t name_len;
    char name[LIMIT_RESP_NAME_BYTES]; /* that its client gave it */
};

static inline struct resp_caller *resp_caller(const struct conn *conn)
{
    return conn->caller;
}

/* A word of the present request, 0..words.count - 1. Borrowed until it is answered. */
static inline const char *caller_word(const struct conn *conn, uint32_t index, size_t *ret_len)
{
    const struct word *word = &resp_caller(conn)->words.word[index];

    *ret_len = word->len;
    return conn_at(conn, word->at);
}

/* Is it this word, which is in capitals, in whatever case? */
static inline bool caller_word_is(const struct conn *conn, uint32_t index, const char *word)
{
    size_t len;
    const char *text = caller_word(conn, index, &len);

    return word_is(text, len, word);
}

/* 400: the method takes other words. Returns ANSWERED, or false. */
int caller_wrong_words(struct conn *conn);

/* Take the word for the connection's name. False: it is none; answered. */
bool caller_name(struct conn *conn, uint32_t index);

/* --- what serves it --- */

/* handlers_ids.c */
int handle_incr(struct conn *conn);
int handle_incrby(struct conn *conn);
int handle_next(struct conn *conn);
int handle_snowflake(struct conn *conn);

/* handlers_look.c */
int handle_get(struct conn *conn);
int handle_decode(struct conn *conn);
int handle_info(struct conn *conn);

/* handlers_talk.c */
int handle_ping(struct conn *conn);
int handle_echo(struct conn *conn);
int handle_select(struct conn *conn);
int handle_quit(struct conn *conn);
int handle_client(struct conn *conn);
int handle_command(struct conn *conn);
int handle_config(struct conn *conn);

/* handlers_auth.c */
int handle_auth(struct conn *conn);
int handle_hello(struct conn *conn);

#endif
