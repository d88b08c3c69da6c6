/*
 * config.c - see config.h. Thread: main.
 */
#include "src/node/config/config.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "http/proto/text.h"
#include "src/base/assert.h"
#include "src/base/clock.h"
#include "src/base/prng.h"

void config_release(struct config *config)
{
    for (size_t i = 0; i < CONFIG_SETTINGS_MAX; i++) {
        free(config->origins[i].text);
    }
    explicit_bzero(config, sizeof *config);
}

void config_tls_paths(const struct config *config, const char *ret_paths[CONFIG_TLS_PATHS])
{
    const struct config_tls_files *const both[] = {&config->tls.files, &config->peer_tls.files};
    size_t count = 0;

    for (size_t i = 0; i < 2; i++) {
        ret_paths[count++] = both[i]->certificate;
        ret_paths[count++] = both[i]->key;
        ret_paths[count++] = both[i]->ca;
    }
}

int config_fail(struct config_error *ret_error, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    (void)vsnprintf(ret_error->text, sizeof ret_error->text, format, args);
    va_end(args);
    return ERR_INVALID;
}

int config_fail_at(struct config_error *ret_error, const char *place, ...)
{
    struct config_error reason = *ret_error;
    va_list args;
    size_t len;

    va_start(args, place);
    (void)vsnprintf(ret_error->text, sizeof ret_error->text, place, args);
    va_end(args);
    len = strlen(ret_error->text);
    (void)snprintf(ret_error->text + len, sizeof ret_error->text - len, ": %s", reason.text);
    return ERR_INVALID;
}

/* --- files --- */

/* A FIFO would be waited for, a device may have no end. */
static int check_kind(int fd, bool is_private, struct config_error *ret_error)
{
    mode_t not_private = S_IRWXG | S_IRWXO;
    struct stat st;

    ASSERT(fstat(fd, &st) == 0);
    if (!S_ISREG(st.st_mode)) {
        return config_fail(ret_error, "is not a regular file");
    }
    /* Root may let a group read its file: so packages install what a service reads, and so
     * Kubernetes mounts it. */
    not_private &= st.st_uid == 0 ? ~(mode_t)S_IRGRP : ~(mode_t)0;
    if (is_private && (st.st_mode & not_private) != 0) {
        return config_fail(ret_error,
                           "has mode %04o, so others than its owner can use it: chmod 600 it, and "
                           "make a new secret if it may have been read",
                           (unsigned)st.st_mode & 07777);
    }
    if ((st.st_mode & S_IWOTH) != 0) {
        return config_fail(ret_error, "has mode %04o, so anybody can change it: chmod o-w it",
                           (unsigned)st.st_mode & 07777);
    }
    return 0;
}

static int read_at_once(int fd, void *out, size_t room, size_t *ret_len,
                        struct config_error *ret_error)
{
    ssize_t len;

    *ret_len = 0;
    while ((len = read(fd, (char *)out + *ret_len, room - *ret_len)) != 0) {
        if (len < 0 && errno != EINTR) {
            return config_fail(ret_error, "cannot read: %s", strerror(errno));
        }
        *ret_len += len > 0 ? (size_t)len : 0;
    }
    return 0;
}

int config_file_read(const char *path, bool is_private, void *out, size_t room, size_t *ret_len,
                     struct config_error *ret_error)
{
    /* Without waiting: nobody may ever write to a FIFO. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    int rv;

    if (fd < 0) {
        return config_fail(ret_error, "cannot open: %s", strerror(errno));
    }
    rv = check_kind(fd, is_private, ret_error);
    if (rv == 0) {
        rv = read_at_once(fd, out, room, ret_len, ret_error);
    }
    close(fd);
    return rv;
}

int config_tokens_read(const struct config *config, struct buf *ret_text,
                       struct config_error *ret_error)
{
    const char *path = config->auth.tokens_file;
    size_t len = 0;

    if (path[0] == '\0') {
        return 0;
    }
    buf_reserve(ret_text, LIMIT_TOKENS_FILE_BYTES + 2);
    if (config_file_read(path, true, ret_text->data, LIMIT_TOKENS_FILE_BYTES + 1, &len,
                         ret_error) != 0) {
        return config_fail_at(ret_error, "auth.tokens-file %s", path);
    }
    ret_text->len = len;
    ret_text->data[len] = '\0';
    return 0;
}

/* --- the cluster's secret --- */

#define HEX_CHARS (2 * NET_SECRET_BYTES)
#define BASE64_CHARS (SECRET_TEXT_BYTES - 1)
/* Of 32 random bytes about 30 differ; fewer than 20 are not to be seen in the age of the world. */
#define DISTINCT_MIN 20
#define NEW_SECRET "make one with leafd --new-secret"

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

static int secret_fail(char why[SECRET_WHY_BYTES], unsigned line, const char *what)
{
    (void)snprintf(why, SECRET_WHY_BYTES, "line %u: %s: " NEW_SECRET, line, what);
    return ERR_INVALID;
}

static int secret_parse_line(const char *text, size_t len, unsigned line, struct secret_list *list,
                             char why[SECRET_WHY_BYTES])
{
    uint8_t *secret;

    if (list->count == LIMIT_SECRETS) {
        return secret_fail(why, line, "there are more than two secrets");
    }
    secret = list->secrets[list->count];
    if (!(len == HEX_CHARS && text_hex(text, NET_SECRET_BYTES, secret)) &&
        !(len == BASE64_CHARS && from_base64(text, secret))) {
        return secret_fail(why, line, "a secret is 32 random bytes, as 64 hex digits or in base64");
    }
    if (!looks_random(secret)) {
        return secret_fail(why, line, "the secret is not random");
    }
    for (size_t i = 0; i < list->count; i++) {
        if (memcmp(list->secrets[i], secret, NET_SECRET_BYTES) == 0) {
            return secret_fail(why, line, "the secret stands there twice");
        }
    }
    list->count++;
    return 0;
}

static bool is_secret_blank(char c)
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
        while (at < stop && is_secret_blank(*at)) {
            at++;
        }
        while (stop > at && is_secret_blank(stop[-1])) {
            stop--;
        }
        if (at < stop && *at != '#') {
            rv = secret_parse_line(at, (size_t)(stop - at), line, ret_list, ret_why);
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

/* --- the certificate of http.tls-dir --- */

/* One more, to see that there is more. */
#define ROOM_BYTES (LIMIT_TLS_FILE_BYTES + 1)

static int read_tls_file(const char *path, bool is_private, struct tls_file *ret_file,
                         struct config_error *ret_error)
{
    void *data = MUST_HAVE(malloc(ROOM_BYTES));
    size_t len = 0;
    int rv;

    *ret_file = (struct tls_file){.name = path, .data = data};
    rv = config_file_read(path, is_private, data, ROOM_BYTES, &len, ret_error);
    if (rv == 0 && len > LIMIT_TLS_FILE_BYTES) {
        rv = config_fail(ret_error, "larger than %d bytes", LIMIT_TLS_FILE_BYTES);
    }
    ret_file->len = len;
    return rv == 0 ? 0 : config_fail_at(ret_error, "http.tls-dir %s", path);
}

static void tls_file_release(struct tls_file *file)
{
    if (file->data != NULL) {
        explicit_bzero((void *)(uintptr_t)file->data, file->len);
        free((void *)(uintptr_t)file->data);
    }
}

static int read_tls_files(const struct config *config, struct tls_files *files,
                          struct config_error *ret_error)
{
    const struct config_tls_files *paths = &config->tls.files;
    int rv = read_tls_file(paths->certificate, false, &files->certificate, ret_error);

    if (rv == 0) {
        rv = read_tls_file(paths->key, true, &files->key, ret_error);
    }
    if (rv == 0 && files->client != TLS_CLIENT_NONE) {
        rv = read_tls_file(paths->ca, false, &files->client_ca, ret_error);
    }
    return rv;
}

int tls_files_load(const struct config *config, struct tls *tls, struct tls_context **ret_context,
                   struct config_error *ret_error)
{
    struct tls_files files = {.client = config->tls.client};
    struct tls_error error = {""};
    int rv;

    ASSERT(tls_files_are_set(config));
    rv = read_tls_files(config, &files, ret_error);
    if (rv == 0 && tls_context_make(tls, &files, ret_context, &error) != 0) {
        rv = config_fail(ret_error, "http.tls-dir: %s", error.text);
    }
    tls_file_release(&files.certificate);
    tls_file_release(&files.key);
    tls_file_release(&files.client_ca);
    return rv;
}
