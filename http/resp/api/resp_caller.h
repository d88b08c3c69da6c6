/*
 * resp_caller.h - what a connection of RESP keeps from one request to the next.
 *
 * Thread: the loop's.
 */
#ifndef LEAFD_HTTP_RESP_API_RESP_CALLER_H
#define LEAFD_HTTP_RESP_API_RESP_CALLER_H

#include "http/api/caller.h"
#include "http/resp/proto/words.h"
#include "http/server/conn.h"

struct resp_method;
struct resp_methods;

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

#endif
