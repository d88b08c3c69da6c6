/*
 * caller.h - what a connection of a protocol beside HTTP has said of who asks, once and for all its
 * requests. What the protocol itself keeps of a connection begins with it (conn->caller); that of
 * HTTP is NULL, where each request says it.
 *
 * Thread: the loop's.
 */
#ifndef LEAFD_HTTP_API_CALLER_H
#define LEAFD_HTTP_API_CALLER_H

#include "http/auth/tokens.h"

struct caller {
    bool has_token;
    struct token_hash token; /* looked for again when the tokens were read again */
};

#endif
