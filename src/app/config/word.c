/*
 * word.c - see word.h.
 */
#include "src/app/config/word.h"

#include <arpa/inet.h>
#include <string.h>
#include <strings.h>

#define QUOTED_BYTES 160 /* of a value in an error text; the rest is cut */

bool word_digits(const char *text, size_t len, uint64_t *ret_value)
{
    uint64_t value = 0;

    for (size_t i = 0; i < len; i++) {
        unsigned digit = (unsigned)text[i] - '0';

        if (digit > 9 || value > (UINT64_MAX - digit) / 10) {
            return false;
        }
        value = value * 10 + digit;
    }
    *ret_value = value;
    return len > 0;
}

bool word_is_name(const char *text)
{
    return text[strspn(
               text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-")] == '\0';
}

/* An IPv4 address, or a name that does not look like one. */
static bool is_host(const char *host)
{
    struct in_addr parsed;

    if (host[0] == '\0' || host[0] == '.' || host[0] == '-' || !word_is_name(host)) {
        return false;
    }
    return host[strspn(host, "0123456789.")] != '\0' || inet_pton(AF_INET, host, &parsed) == 1;
}

/* Cut the brackets off an IPv6 address. False if it is none. */
static bool unbracket(char *host)
{
    struct in6_addr parsed;
    size_t len = strlen(host);

    if (len < 3 || host[len - 1] != ']') {
        return false;
    }
    memmove(host, host + 1, len - 2);
    host[len - 2] = '\0';
    return inet_pton(AF_INET6, host, &parsed) == 1;
}

int word_address(const char *text, struct word_address *ret_address, struct config_error *ret_error)
{
    const char *colon = strrchr(text, ':');
    char *host = ret_address->host;
    char quoted[QUOTED_BYTES];
    uint64_t port;

    log_quote(text, strlen(text), quoted, sizeof quoted);
    if (strlen(text) > LIMIT_ADDRESS_BYTES) {
        return config_fail(ret_error, "address %s is longer than %d bytes", quoted,
                           LIMIT_ADDRESS_BYTES);
    }
    if (colon == NULL || !word_digits(colon + 1, strlen(colon + 1), &port) || port == 0 ||
        port > UINT16_MAX) {
        return config_fail(ret_error, "address %s must end in :port, with a port in 1..65535",
                           quoted);
    }
    memcpy(host, text, (size_t)(colon - text));
    host[colon - text] = '\0';
    if (strchr(host, ':') != NULL && host[strspn(host, "0123456789abcdefABCDEF:.")] == '\0') {
        return config_fail(ret_error, "address %s: write an IPv6 host in brackets, [host]:port",
                           quoted);
    }
    if (host[0] == '[' ? !unbracket(host) : !is_host(host)) {
        return config_fail(ret_error,
                           "address %s: the host must be a name, an IPv4 address, or an IPv6 "
                           "address in brackets",
                           quoted);
    }
    ret_address->port = (uint16_t)port;
    return 0;
}

/* An address without a host if the text is none. */
static struct word_address split(const char *text)
{
    struct word_address address;
    struct config_error error;

    return word_address(text, &address, &error) == 0 ? address : (struct word_address){.host = ""};
}

bool word_is_loopback(const char *address)
{
    struct word_address parts = split(address);
    struct in6_addr v6;
    struct in_addr v4;

    if (inet_pton(AF_INET, parts.host, &v4) == 1) {
        return ntohl(v4.s_addr) >> 24 == 127;
    }
    if (inet_pton(AF_INET6, parts.host, &v6) == 1) {
        return IN6_IS_ADDR_LOOPBACK(&v6) || (IN6_IS_ADDR_V4MAPPED(&v6) && v6.s6_addr[12] == 127);
    }
    return strcasecmp(parts.host, "localhost") == 0;
}

bool word_is_wildcard(const char *address)
{
    struct word_address parts = split(address);

    return strcmp(parts.host, "0.0.0.0") == 0 || strcmp(parts.host, "::") == 0;
}
