/*
 * word.h - the words that values are made of: numbers, names, addresses.
 *
 * Numbers are decimal digits and nothing else: no sign, no blank, no hexadecimal. Thread: any.
 */
#ifndef LEAFD_APP_CONFIG_WORD_H
#define LEAFD_APP_CONFIG_WORD_H

#include "src/app/config/config.h"

/* True if there are only digits, at least one, and the value fits. */
bool word_digits(const char *text, size_t len, uint64_t *ret_value) MUST_CHECK;

/* Nothing but letters, digits, '.', '_' and '-'. */
bool word_is_name(const char *text);

struct word_address {
    char host[LIMIT_ADDRESS_BYTES + 1]; /* without brackets */
    uint16_t port;
};

/* Split "host:port" or "[IPv6]:port". 0, or ERR_INVALID with *ret_error. */
int word_address(const char *text, struct word_address *ret_address,
                 struct config_error *ret_error) MUST_CHECK;

/* Is it an address that only this machine can reach; one that nobody can dial? */
bool word_is_loopback(const char *address);
bool word_is_wildcard(const char *address);

#endif
