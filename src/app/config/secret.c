/*
 * secret.c - see secret.h. Thread: any.
 */
#include "src/app/config/secret.h"

#include <stdio.h>
#include <string.h>

#include <openssl/crypto.h>
#include <openssl/evp.h>

#include "http/proto/text.h"
#include "src/base/assert.h"
#include "src/base/prng.h"

#define HEX_CHARS (2 * NET_SECRET_BYTES)
#define BASE64_CHARS (SECRET_TEXT_BYTES - 1)
/* Of 32 random bytes about 30 differ; fewer than 20 are not to be seen in the age of the world. */
#define DISTINCT_MIN 20
#define NEW_SECRET "make one with leafd --new-secret"

static bool from_hex(const char *text, uint8_t secret[NET_SECRET_BYTES])
{
    for (size_t i = 0; i < NET_SECRET_BYTES; i++) {
        int high = text_hex_digit(text[2 * i]);
        int low = text_hex_digit(text[2 * i + 1]);

        if (high < 0 || low < 0) {
            return false;
        }
        secret[i] = (uint8_t)(high * 16 + low);
    }
    return true;
}

/* Only as it is written: one '=' at the end, and no bits that do not count. */
static bool from_base64(const char *text, uint8_t secret[NET_SECRET_BYTES])
{
    uint8_t bytes[NET_SECRET_BYTES + 1];
    unsigned char again[SECRET_TEXT_BYTES];
    bool same;

    if (EVP_DecodeBlock(bytes, (const unsigned char *)text, BASE64_CHARS) != sizeof bytes) {
        return false;
    }
    memcpy(secret, bytes, NET_SECRET_BYTES);
    (void)EVP_EncodeBlock(again, secret, NET_SECRET_BYTES);
    same = memcmp(again, text, BASE64_CHARS) == 0;
    OPENSSL_cleanse(bytes, sizeof bytes);
    OPENSSL_cleanse(again, sizeof again);
    return same;
}

/* NULs, a pattern, a sentence: not what a generator gives. */
static bool looks_random(const uint8_t secret[NET_SECRET_BYTES])
{
    bool seen[256] = {false};
    unsigned distinct = 0;
    unsigned printable = 0;

    for (size_t i = 0; i < NET_SECRET_BYTES; i++) {
        distinct += seen[secret[i]] ? 0 : 1;
        seen[secret[i]] = true;
        printable += secret[i] >= ' ' && secret[i] <= '~' ? 1 : 0;
    }
    return distinct >= DISTINCT_MIN && printable < NET_SECRET_BYTES;
}

static int fail(char why[SECRET_WHY_BYTES], unsigned line, const char *what)
{
    (void)snprintf(why, SECRET_WHY_BYTES, "line %u: %s: " NEW_SECRET, line, what);
    return ERR_INVALID;
}

static int parse_line(const char *text, size_t len, unsigned line, struct secret_list *list,
                      char why[SECRET_WHY_BYTES])
{
    uint8_t *secret;

    if (list->count == LIMIT_SECRETS) {
        return fail(why, line, "there are more than two secrets");
    }
    secret = list->secrets[list->count];
    if (!(len == HEX_CHARS && from_hex(text, secret)) &&
        !(len == BASE64_CHARS && from_base64(text, secret))) {
        return fail(why, line, "a secret is 32 random bytes, as 64 hex digits or in base64");
    }
    if (!looks_random(secret)) {
        return fail(why, line, "the secret is not random");
    }
    for (size_t i = 0; i < list->count; i++) {
        if (memcmp(list->secrets[i], secret, NET_SECRET_BYTES) == 0) {
            return fail(why, line, "the secret stands there twice");
        }
    }
    list->count++;
    return 0;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

int secret_parse(const void *text, size_t len, struct secret_list *ret_list,
                 char ret_why[SECRET_WHY_BYTES])
{
    const char *at = text;
    const char *end = at + len;
    unsigned line = 0;
    int rv = 0;

    memset(ret_list, 0, sizeof *ret_list);
    while (rv == 0 && at < end) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        const char *next = stop != NULL ? stop + 1 : end;

        line++;
        stop = stop != NULL ? stop : end;
        while (at < stop && is_blank(*at)) {
            at++;
        }
        while (stop > at && is_blank(stop[-1])) {
            stop--;
        }
        if (at < stop && *at != '#') {
            rv = parse_line(at, (size_t)(stop - at), line, ret_list, ret_why);
        }
        at = next;
    }
    if (rv == 0 && ret_list->count == 0) {
        (void)snprintf(ret_why, SECRET_WHY_BYTES, "there is no secret in it: " NEW_SECRET);
        rv = ERR_INVALID;
    }
    return rv;
}

void secret_new(char ret_text[SECRET_TEXT_BYTES])
{
    uint64_t words[NET_SECRET_BYTES / sizeof(uint64_t)];
    uint8_t bytes[NET_SECRET_BYTES];

    do {
        for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
            words[i] = prng_entropy();
        }
        memcpy(bytes, words, sizeof bytes);
    } while (!looks_random(bytes));
    ASSERT(EVP_EncodeBlock((unsigned char *)ret_text, bytes, sizeof bytes) == BASE64_CHARS);
    OPENSSL_cleanse(words, sizeof words);
    OPENSSL_cleanse(bytes, sizeof bytes);
}
