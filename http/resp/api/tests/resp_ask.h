/*
 * resp_ask.h - requests of RESP by the blocking client of the tests, and the bytes of their
 * replies.
 */
#ifndef LEAFD_HTTP_RESP_API_TESTS_RESP_ASK_H
#define LEAFD_HTTP_RESP_API_TESTS_RESP_ASK_H

#include "http/tests/client.h"

/* Send words, which blanks part, as an array. */
void resp_send(struct client *client, const char *words);

/* The next bytes are these. */
void resp_expect_bytes(struct client *client, const char *bytes);

/* Both. */
void resp_expect(struct client *client, const char *words, const char *bytes);

/* The next reply is an error: a line that begins so ("-NOAUTH unauthorized: ") and has the text. */
void resp_expect_line(struct client *client, const char *begin, const char *text);
void resp_expect_error(struct client *client, const char *words, const char *begin,
                       const char *text);

#endif
