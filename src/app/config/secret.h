/*
 * secret.h - the file of the cluster's secret: what is in it, and a new one.
 *
 * A secret is 32 random bytes, written as 64 hex digits or in base64 (44 characters), one a line;
 * blanks at a line's ends, empty lines, and lines that begin with '#' do not count. There may be
 * two, while one is exchanged: nodes take both, and offer the first.
 *
 * A passphrase cannot be told from anything else that is short on randomness, so what is accepted
 * has the form of random bytes and looks like them: whoever listens on the wire can try as many
 * secrets as they like at home.
 *
 * Failure modes: ERR_INVALID with a text that says what to do. Thread: any.
 */
#ifndef LEAFD_APP_CONFIG_SECRET_H
#define LEAFD_APP_CONFIG_SECRET_H

#include "raft/transport/net_keys.h"

#define SECRET_TEXT_BYTES 45 /* of a new one, with its NUL */
#define SECRET_WHY_BYTES 160

struct secret_list {
    uint8_t secrets[LIMIT_SECRETS][NET_SECRET_BYTES];
    size_t count; /* at least 1 */
};

/* Of a file's text. 0 or ERR_INVALID. */
int secret_parse(const void *text, size_t len, struct secret_list *ret_list,
                 char ret_why[SECRET_WHY_BYTES]) MUST_CHECK;

/* A new one, in base64, of the system's random bytes. */
void secret_new(char ret_text[SECRET_TEXT_BYTES]);

#endif
