/*
 * tokens.c - see tokens.h. Threads: as said there.
 */
#include "http/auth/tokens.h"

#include <arpa/inet.h>
#include <openssl/evp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "http/proto/head.h"
#include "http/proto/text.h"
#include "src/base/assert.h"
#include "src/base/container.h"

/* --- who asks --- */

static const char *const role_names[ROLE_COUNT] = {"ids",   "read",    "tags",  "workers",
                                                   "admin", "metrics", "health"};

const char *role_name(enum role role)
{
    ASSERT(__builtin_popcount(role) == 1);
    return role_names[__builtin_ctz(role)];
}

unsigned role_named(const char *name, size_t len)
{
    for (unsigned i = 0; i < ROLE_COUNT; i++) {
        if (strlen(role_names[i]) == len && memcmp(role_names[i], name, len) == 0) {
            return 1U << i;
        }
    }
    return len == 3 && memcmp(name, "all", 3) == 0 ? ROLES_ALL : 0;
}

const char *roles_text(unsigned roles, char out[ROLES_TEXT_BYTES])
{
    size_t at = 0;

    (void)snprintf(out, ROLES_TEXT_BYTES, "none");
    for (unsigned i = 0; i < ROLE_COUNT; i++) {
        if ((roles & 1U << i) != 0) {
            at += (size_t)snprintf(out + at, ROLES_TEXT_BYTES - at, "%s%s", at > 0 ? ", " : "",
                                   role_names[i]);
        }
    }
    ASSERT(at < ROLES_TEXT_BYTES);
    return out;
}

bool identity_may_use(const struct identity *identity, const char *name, size_t len)
{
    for (size_t i = 0; i < identity->prefix_count; i++) {
        const struct identity_prefix *prefix = &identity->prefixes[i];

        if (prefix->len <= len && memcmp(prefix->text, name, prefix->len) == 0) {
            return true;
        }
    }
    return identity->prefix_count == 0;
}

/* --- the tokens file --- */

#define TOKEN_BYTES_MAX 512 /* a longer one is none of ours */
#define HASH_FIELD "sha256:"
#define CERT_FIELD "cert:"
#define SHOWN_BYTES 80

struct entry {
    struct token_hash hash; /* of a token; else zeros, which no token has */
    const char *subject;    /* of a certificate; NULL: it is a token */
};

struct token_table {
    _Atomic uint32_t refs;
    bool is_used;
    size_t count; /* of identities, and of entries of the same index */
    struct identity *identities;
    struct entry *entries;
    struct identity_prefix *prefixes; /* of all */
    size_t prefix_count;
    char *text; /* decoded prefixes and subjects; never moves */
    size_t text_len;
};

/* The text being read. */
struct tokens_reader {
    struct token_table *table;
    struct identity *identity;
    struct entry *entry;
    unsigned line;
    char *why;
};

/* A field of a line, or a part of one. */
struct field {
    const char *at;
    size_t len;
};

__attribute__((format(printf, 2, 3))) static int refuse_line(struct tokens_reader *reader,
                                                             const char *format, ...)
{
    int used = snprintf(reader->why, TOKENS_WHY_BYTES, "line %u: ", reader->line);
    va_list args;

    va_start(args, format);
    (void)vsnprintf(reader->why + used, TOKENS_WHY_BYTES - (size_t)used, format, args);
    va_end(args);
    return ERR_INVALID;
}

#define SHOW(field) text_show((field)->at, (field)->len, (char[SHOWN_BYTES]){0}, SHOWN_BYTES)

static bool field_has_prefix(const struct field *field, const char *word)
{
    return field->len >= strlen(word) && memcmp(field->at, word, strlen(word)) == 0;
}

/* Cut off the next piece, at any of the bytes. False: there is none. */
static bool cut_piece(struct field *rest, const char *at, struct field *ret_piece)
{
    size_t len = 0;

    if (rest->at == NULL) {
        return false;
    }
    /* A NUL would be found at the end of every text. */
    while (len < rest->len && (rest->at[len] == '\0' || strchr(at, rest->at[len]) == NULL)) {
        len++;
    }
    *ret_piece = (struct field){rest->at, len};
    if (len == rest->len) {
        rest->at = NULL;
    } else {
        rest->at += len + 1;
        rest->len -= len + 1;
    }
    return true;
}

/* --- the fields --- */

bool tokens_name_check(const char *name, size_t len)
{
    char copy[LIMIT_TOKEN_NAME_BYTES + 1] = "";
    bool fits = len >= 1 && len <= LIMIT_TOKEN_NAME_BYTES;
    struct in_addr address;

    for (size_t i = 0; i < len && fits; i++) {
        char c = name[i];

        fits = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               c == '.' || c == '_' || c == '-';
        copy[i] = c;
    }
    return fits && inet_pton(AF_INET, copy, &address) != 1; /* a cut would be of both */
}

/* Undo the percent encoding of a field into the table's text, and end it with a NUL. */
static int keep_text(struct tokens_reader *reader, const struct field *field, size_t most,
                     const char **ret_text, size_t *ret_len)
{
    struct token_table *table = reader->table;
    char *to = table->text + table->text_len;

    if (target_decode(field->at, field->len, TARGET_PLUS_IS_PLUS, to, most, ret_len) != 0 ||
        *ret_len == 0 || memchr(to, '\0', *ret_len) != NULL || !text_is_utf8(to, *ret_len)) {
        return refuse_line(reader, "%s must be 1 to %zu bytes of UTF-8, with %%XX for bytes",
                           SHOW(field), most);
    }
    to[*ret_len] = '\0';
    table->text_len += *ret_len + 1;
    *ret_text = to;
    return 0;
}

/* The hash of a token, or what a certificate proves. */
static int read_proof(struct tokens_reader *reader, const struct field *field)
{
    const struct token_table *table = reader->table;
    struct entry *entry = reader->entry;
    uint8_t bytes[TOKEN_HASH_BYTES];
    struct field rest;
    size_t len;

    if (field_has_prefix(field, HASH_FIELD)) {
        rest = (struct field){field->at + strlen(HASH_FIELD), field->len - strlen(HASH_FIELD)};
        if (rest.len != 2 * sizeof bytes || !text_hex(rest.at, sizeof bytes, bytes)) {
            return refuse_line(reader,
                               "the hash %s must be %zu hex digits: leafd --new-token makes one",
                               SHOW(&rest), sizeof bytes * 2);
        }
        memcpy(entry->hash.words, bytes, sizeof bytes);
        for (size_t i = 0; i < table->count - 1; i++) {
            if (memcmp(&table->entries[i].hash, &entry->hash, sizeof entry->hash) == 0) {
                return refuse_line(
                    reader, i == 0 ? "the hash %s is not a hash" : "the hash %s is given twice",
                    SHOW(&rest));
            }
        }
        reader->identity->kind = IDENTITY_TOKEN;
        return 0;
    }
    if (!field_has_prefix(field, CERT_FIELD)) {
        return refuse_line(reader, "%s must be " HASH_FIELD "HEX or " CERT_FIELD "NAME",
                           SHOW(field));
    }
    rest = (struct field){field->at + strlen(CERT_FIELD), field->len - strlen(CERT_FIELD)};
    if (keep_text(reader, &rest, LIMIT_TOKEN_SUBJECT_BYTES, &entry->subject, &len) != 0) {
        return ERR_INVALID;
    }
    for (size_t i = 0; i < table->count - 1; i++) {
        const char *other = table->entries[i].subject;

        if (other != NULL && strcmp(other, entry->subject) == 0) {
            return refuse_line(reader, "the certificate %s is given twice", SHOW(&rest));
        }
    }
    reader->identity->kind = IDENTITY_CERTIFICATE;
    return 0;
}

static int read_prefixes(struct tokens_reader *reader, struct field value)
{
    struct token_table *table = reader->table;
    struct identity *identity = reader->identity;
    struct field item;

    identity->prefixes = table->prefixes + table->prefix_count;
    while (cut_piece(&value, ",", &item)) {
        struct identity_prefix *prefix = &table->prefixes[table->prefix_count];

        if (identity->prefix_count == LIMIT_TOKEN_PREFIXES) {
            return refuse_line(reader, "more than %d prefixes", LIMIT_TOKEN_PREFIXES);
        }
        if (keep_text(reader, &item, LIMIT_TAG_NAME_BYTES, &prefix->text, &prefix->len) != 0) {
            return ERR_INVALID;
        }
        table->prefix_count++;
        identity->prefix_count++;
    }
    return 0;
}

/* By their keys. */
static const struct {
    const char *key;
    size_t at;
} quotas[] = {
    {"requests-per-s", offsetof(struct identity_quotas, requests_per_s)},
    {"ids-per-s", offsetof(struct identity_quotas, ids_per_s)},
    {"connections", offsetof(struct identity_quotas, connections)},
    {"bodies", offsetof(struct identity_quotas, bodies)},
    {"keys", offsetof(struct identity_quotas, keys)},
    {"workers", offsetof(struct identity_quotas, workers)},
    {"tags", offsetof(struct identity_quotas, tags_mib)},
};

static uint32_t *quota_of(const struct identity *identity, size_t i)
{
    return (uint32_t *)(void *)((uintptr_t)&identity->quotas + quotas[i].at);
}

/* "key=value". */
static int read_pair(struct tokens_reader *reader, const struct field *field)
{
    struct identity *identity = reader->identity;
    struct field rest = *field;
    uint64_t number = 0;
    struct field item;
    struct field key;

    if (!cut_piece(&rest, "=", &key) || rest.at == NULL) {
        return refuse_line(reader, "%s must be a key, =, and a value", SHOW(field));
    }
    if (field_has_prefix(field, "roles=")) {
        if (identity->roles != 0) {
            return refuse_line(reader, "roles is given twice");
        }
        while (cut_piece(&rest, ",", &item)) {
            unsigned role = role_named(item.at, item.len);

            if (role == 0) {
                return refuse_line(reader, "%s is not a role; roles are %s, and all", SHOW(&item),
                                   roles_text(ROLES_ALL, (char[ROLES_TEXT_BYTES]){0}));
            }
            identity->roles |= role;
        }
        return 0;
    }
    if (field_has_prefix(field, "prefix=")) {
        return identity->prefix_count == 0 ? read_prefixes(reader, rest)
                                           : refuse_line(reader, "prefix is given twice");
    }
    for (size_t i = 0; i < COUNT_OF(quotas); i++) {
        uint32_t *quota = quota_of(identity, i);

        if (strlen(quotas[i].key) != key.len || memcmp(quotas[i].key, key.at, key.len) != 0) {
            continue;
        }
        if (text_parse_decimal(rest.at, rest.len, 1, LIMIT_TOKEN_QUOTA, &number) != 0) {
            return refuse_line(reader, "%s=%s must be a whole number from 1 to %d", quotas[i].key,
                               SHOW(&rest), LIMIT_TOKEN_QUOTA);
        }
        if (*quota != 0) {
            return refuse_line(reader, "%s is given twice", quotas[i].key);
        }
        *quota = (uint32_t)number;
        return 0;
    }
    return refuse_line(
        reader,
        "%s is not a key: roles, prefix, requests-per-s, ids-per-s, connections, bodies, "
        "keys, workers, tags",
        SHOW(&key));
}

/* --- lines --- */

static bool same_prefixes(const struct identity *one, const struct identity *other)
{
    bool same = one->prefix_count == other->prefix_count;

    for (size_t i = 0; i < one->prefix_count && same; i++) {
        same = one->prefixes[i].len == other->prefixes[i].len &&
               memcmp(one->prefixes[i].text, other->prefixes[i].text, one->prefixes[i].len) == 0;
    }
    return same;
}

/* While a token is exchanged its client has two: one name, so one owner of what it holds, and one
 * record of quotas. */
static int check_name_again(struct tokens_reader *reader)
{
    const struct token_table *table = reader->table;
    const struct identity *identity = reader->identity;
    unsigned before = 0;

    for (size_t i = 1; i < identity->index; i++) {
        const struct identity *other = &table->identities[i];

        if (strcmp(other->name, identity->name) != 0) {
            continue;
        }
        if (other->roles != identity->roles || !same_prefixes(other, identity) ||
            memcmp(&other->quotas, &identity->quotas, sizeof other->quotas) != 0) {
            return refuse_line(reader,
                               "the name \"%s\" is given twice; two lines of a name must be the "
                               "same but for " HASH_FIELD "HEX or " CERT_FIELD "NAME",
                               identity->name);
        }
        if (++before == LIMIT_TOKEN_PROOFS) {
            return refuse_line(reader, "the name \"%s\" is given more than %d times",
                               identity->name, LIMIT_TOKEN_PROOFS);
        }
    }
    return 0;
}

static int read_token_line(struct tokens_reader *reader, struct field line)
{
    struct token_table *table = reader->table;
    struct identity *identity = &table->identities[table->count];
    struct field field;
    unsigned fields = 0;
    int rv = 0;

    if (line.len > LIMIT_TOKEN_LINE_BYTES) {
        return refuse_line(reader, "longer than %d bytes", LIMIT_TOKEN_LINE_BYTES);
    }
    if (tokens_count(table) == LIMIT_TOKENS) {
        return refuse_line(reader, "more than %d tokens", LIMIT_TOKENS);
    }
    reader->identity = identity;
    reader->entry = &table->entries[table->count];
    reader->identity->index = (uint32_t)table->count;
    table->count++;
    while (rv == 0 && cut_piece(&line, " \t", &field)) {
        if (field.len == 0) {
            continue;
        }
        if (fields == 0 && !tokens_name_check(field.at, field.len)) {
            return refuse_line(reader,
                               "the name %s must be 1 to %d of A-Z a-z 0-9 . _ -, and no address",
                               SHOW(&field), LIMIT_TOKEN_NAME_BYTES);
        }
        if (fields == 0) {
            memcpy(identity->name, field.at, field.len);
            rv = strcmp(table->identities[0].name, identity->name) != 0
                     ? 0
                     : refuse_line(reader, "the name %s is reserved for clients without a token",
                                   SHOW(&field));
        } else {
            rv = fields == 1 ? read_proof(reader, &field) : read_pair(reader, &field);
        }
        fields++;
    }
    if (rv != 0) {
        return rv;
    }
    if (fields < 2 || identity->roles == 0) {
        return refuse_line(reader, "a token is: NAME " HASH_FIELD "HEX roles=LIST");
    }
    if (identity->prefix_count > 0 && (identity->roles & ROLE_ADMIN) != 0) {
        return refuse_line(reader, "%s has the role admin, which sees all tags, and a prefix",
                           identity->name);
    }
    return check_name_again(reader);
}

static int read_lines(struct tokens_reader *reader, struct field text)
{
    struct field line;
    int rv = 0;

    while (rv == 0 && cut_piece(&text, "\n", &line)) {
        reader->line++;
        if (line.len > 0 && line.at[line.len - 1] == '\r') {
            line.len--;
        }
        while (line.len > 0 && text_is_blank(line.at[0])) {
            line = (struct field){line.at + 1, line.len - 1};
        }
        if (memchr(line.at, '\0', line.len) != NULL) {
            return refuse_line(reader, "has a NUL byte");
        }
        if (line.len > 0 && line.at[0] != '#') {
            rv = read_token_line(reader, line);
        }
    }
    if (rv == 0 && tokens_count(reader->table) == 0) {
        (void)snprintf(reader->why, TOKENS_WHY_BYTES, "has no token: leafd --new-token makes one");
        rv = ERR_INVALID;
    }
    return rv;
}

int tokens_parse(const char *text, size_t len, unsigned anonymous_roles,
                 struct token_table **ret_table, char why[TOKENS_WHY_BYTES])
{
    struct token_table *table;
    struct tokens_reader reader = {.why = why};
    size_t lines = 2;
    size_t items = 1;
    int rv = 0;

    why[0] = '\0';
    if (len > LIMIT_TOKENS_FILE_BYTES) {
        (void)snprintf(why, TOKENS_WHY_BYTES, "larger than %d bytes", LIMIT_TOKENS_FILE_BYTES);
        return ERR_INVALID;
    }
    /* Room for as many lines, prefixes and bytes as the text can have. */
    for (size_t i = 0; i < len; i++) {
        lines += text[i] == '\n';
        items += text[i] == '=' || text[i] == ',';
    }
    lines = lines < LIMIT_TOKENS + 2 ? lines : LIMIT_TOKENS + 2;
    table = MUST_HAVE(calloc(1, sizeof *table));
    table->refs = 1;
    table->count = 1;
    table->identities = MUST_HAVE(calloc(lines, sizeof *table->identities));
    table->entries = MUST_HAVE(calloc(lines, sizeof *table->entries));
    table->prefixes = MUST_HAVE(calloc(items, sizeof *table->prefixes));
    /* target_decode() may fill all of its space before it finds the text too long. */
    table->text = MUST_HAVE(calloc(1, len + items + LIMIT_TOKEN_SUBJECT_BYTES + 1));
    (void)snprintf(table->identities[0].name, sizeof table->identities[0].name, "anonymous");
    table->identities[0].roles = anonymous_roles;
    if (text != NULL) {
        table->is_used = true;
        reader.table = table;
        rv = read_lines(&reader, (struct field){text, len});
    }
    if (rv != 0) {
        tokens_unref(table);
        return rv;
    }
    *ret_table = table;
    return 0;
}

/* --- tables --- */

void tokens_unref(struct token_table *table)
{
    if (table == NULL || atomic_fetch_sub(&table->refs, 1) > 1) {
        return;
    }
    free(table->identities);
    free(table->entries);
    free(table->prefixes);
    free(table->text);
    free(table);
}

bool tokens_are_used(const struct token_table *table)
{
    return table->is_used;
}

size_t tokens_count(const struct token_table *table)
{
    return table->count - 1;
}

const struct identity *tokens_at(const struct token_table *table, size_t index)
{
    return index < table->count ? &table->identities[index] : NULL;
}

const struct identity *tokens_find(const struct token_table *table, const struct token_hash *hash)
{
    size_t found = 0;

    /* Compare all, each in full, without a branch. */
    for (size_t i = 1; i < table->count; i++) {
        const uint64_t *words = table->entries[i].hash.words;
        uint64_t differs = (words[0] ^ hash->words[0]) | (words[1] ^ hash->words[1]) |
                           (words[2] ^ hash->words[2]) | (words[3] ^ hash->words[3]);
        size_t mask = ((size_t)((differs | (0 - differs)) >> 63)) - 1; /* all ones: the same */

        found |= i & mask;
    }
    return found > 0 ? &table->identities[found] : NULL;
}

const struct identity *tokens_find_text(const struct token_table *table, const char *text,
                                        size_t len, struct token_hash *ret_hash)
{
    return len > 0 && len <= TOKEN_BYTES_MAX && token_hash(text, len, ret_hash)
               ? tokens_find(table, ret_hash)
               : NULL;
}

const struct identity *tokens_find_certificate(const struct token_table *table, const char *name)
{
    for (size_t i = 1; i < table->count; i++) {
        if (table->entries[i].subject != NULL && strcmp(table->entries[i].subject, name) == 0) {
            return &table->identities[i];
        }
    }
    return NULL;
}

/* --- tokens --- */

bool token_hash(const char *token, size_t len, struct token_hash *ret_hash)
{
    size_t bytes = 0;

    return EVP_Q_digest(NULL, "SHA256", NULL, token, len, (unsigned char *)ret_hash->words,
                        &bytes) == 1 &&
           bytes == sizeof ret_hash->words;
}

int token_new(char ret_token[TOKEN_TEXT_BYTES], char ret_line[TOKEN_LINE_BYTES])
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    uint8_t random[TOKEN_HASH_BYTES + 1] = {0}; /* and bits to fill the last digit */
    struct token_hash hash;
    char hex[2 * TOKEN_HASH_BYTES + 1];

    if (getrandom(random, TOKEN_HASH_BYTES, 0) != TOKEN_HASH_BYTES) {
        return ERR_IO;
    }
    for (size_t i = 0; i < TOKEN_TEXT_BYTES - 1; i++) {
        size_t bit = 6 * i;
        unsigned pair = (unsigned)random[bit / 8] << 8 | random[bit / 8 + 1];

        ret_token[i] = digits[pair >> (10 - bit % 8) & 63];
    }
    ret_token[TOKEN_TEXT_BYTES - 1] = '\0';
    if (!token_hash(ret_token, TOKEN_TEXT_BYTES - 1, &hash)) {
        return ERR_IO;
    }
    for (size_t i = 0; i < TOKEN_HASH_BYTES; i++) {
        (void)snprintf(hex + 2 * i, 3, "%02x", ((const uint8_t *)hash.words)[i]);
    }
    (void)snprintf(ret_line, TOKEN_LINE_BYTES, "token-%.8s " HASH_FIELD "%s roles=ids", hex, hex);
    return 0;
}

/* --- differences --- */

static bool same_proof(const struct entry *one, const struct entry *other)
{
    return one->subject == NULL || other->subject == NULL
               ? one->subject == other->subject &&
                     memcmp(&one->hash, &other->hash, sizeof one->hash) == 0
               : strcmp(one->subject, other->subject) == 0;
}

/* A line of this name; with `entry`, which also has this proof. NULL: there is none. */
static const struct identity *line_of(const struct token_table *table, const char *name,
                                      const struct entry *entry)
{
    for (size_t i = 1; i < table->count; i++) {
        if (strcmp(table->identities[i].name, name) == 0 &&
            (entry == NULL || same_proof(&table->entries[i], entry))) {
            return &table->identities[i];
        }
    }
    return NULL;
}

/* The line of a table that this line of another one was, or became: with the same proof, or with
 * one that the other table lacks. */
static const struct identity *identity_like(const struct token_table *table,
                                            const struct token_table *other,
                                            const struct identity *like)
{
    const struct entry *entry = &other->entries[like->index];
    const struct identity *same = line_of(table, like->name, entry);

    for (size_t i = 1; i < table->count && same == NULL; i++) {
        const struct identity *identity = &table->identities[i];

        if (strcmp(identity->name, like->name) == 0 &&
            line_of(other, like->name, &table->entries[i]) == NULL) {
            same = identity;
        }
    }
    return same;
}

/* "; name what", or count one more that is not named. */
static void put_compared(struct buf *ret_words, size_t *told, const char *name, const char *what)
{
    if ((*told)++ < TOKENS_TOLD) {
        buf_printf(ret_words, "%s%s %s", ret_words->len > 0 ? "; " : "", name, what);
    }
}

void tokens_compare(const struct token_table *before, const struct token_table *after,
                    struct buf *ret_words)
{
    char roles[2][ROLES_TEXT_BYTES];
    size_t told = 0;

    for (size_t i = 1; i < after->count; i++) {
        const struct identity *is = &after->identities[i];
        const struct identity *was = identity_like(before, after, is);
        BUF_LOCAL(words);

        if (was == NULL) {
            put_compared(ret_words, &told, is->name,
                         line_of(before, is->name, NULL) == NULL ? "is new" : "has one proof more");
            continue;
        }
        /* ", ids-per-s=50 (was 1000), proof" */
        for (size_t k = 0; k < COUNT_OF(quotas); k++) {
            if (*quota_of(was, k) != *quota_of(is, k)) {
                buf_printf(&words, ", %s=%u (was %u)", quotas[k].key, *quota_of(is, k),
                           *quota_of(was, k));
            }
        }
        if (was->roles != is->roles) {
            buf_printf(&words, ", roles=%s (was %s)", roles_text(is->roles, roles[0]),
                       roles_text(was->roles, roles[1]));
        }
        if (!same_prefixes(was, is)) {
            buf_printf(&words, ", prefix");
        }
        if (!same_proof(&before->entries[was->index], &after->entries[is->index])) {
            buf_printf(&words, ", proof");
        }
        if (words.len > 0) {
            buf_put(&words, "", 1);
            put_compared(ret_words, &told, is->name, (const char *)words.data + 2);
        }
    }
    for (size_t i = 1; i < before->count; i++) {
        const struct identity *was = &before->identities[i];

        if (identity_like(after, before, was) == NULL) {
            put_compared(ret_words, &told, was->name,
                         line_of(after, was->name, NULL) == NULL ? "is gone"
                                                                 : "has one proof less");
        }
    }
    if (told > TOKENS_TOLD) {
        buf_printf(ret_words, "; and %zu more", told - TOKENS_TOLD);
    }
}

/* --- the table in force --- */

int auth_new(const struct auth_settings *settings, const char *text, size_t len,
             struct auth **ret_auth, char why[TOKENS_WHY_BYTES])
{
    struct token_table *table;
    struct auth *auth;

    if (tokens_parse(text, len, settings->anonymous_roles, &table, why) != 0) {
        return ERR_INVALID;
    }
    auth = MUST_HAVE(calloc(1, sizeof *auth));
    auth->settings = *settings;
    auth->table = table;
    auth->generation = 1;
    ASSERT(pthread_mutex_init(&auth->lock, NULL) == 0);
    audit_init(&auth->audit);
    *ret_auth = auth;
    return 0;
}

void auth_free(struct auth *auth)
{
    if (auth == NULL) {
        return;
    }
    auth_drop(auth);
    tokens_unref(auth->table);
    audit_free(&auth->audit);
    ASSERT(pthread_mutex_destroy(&auth->lock) == 0);
    free(auth);
}

struct token_table *auth_take(struct auth *auth, uint64_t *ret_generation)
{
    struct token_table *table;

    ASSERT(pthread_mutex_lock(&auth->lock) == 0);
    table = auth->table;
    atomic_fetch_add(&table->refs, 1);
    *ret_generation = auth->generation;
    ASSERT(pthread_mutex_unlock(&auth->lock) == 0);
    return table;
}

int auth_prepare(struct auth *auth, const char *text, size_t len, char why[TOKENS_WHY_BYTES])
{
    auth_drop(auth);
    return tokens_parse(text, len, auth->settings.anonymous_roles, &auth->prepared, why);
}

void auth_commit(struct auth *auth, size_t *ret_before, size_t *ret_after, struct buf *ret_words)
{
    struct token_table *old;

    ASSERT(auth->prepared != NULL);
    tokens_compare(auth->table, auth->prepared, ret_words); /* only this thread changes it */
    *ret_after = tokens_count(auth->prepared);
    ASSERT(pthread_mutex_lock(&auth->lock) == 0);
    old = auth->table;
    auth->table = auth->prepared;
    auth->prepared = NULL;
    auth->generation++;
    ASSERT(pthread_mutex_unlock(&auth->lock) == 0);
    *ret_before = tokens_count(old);
    tokens_unref(old);
}

void auth_drop(struct auth *auth)
{
    tokens_unref(auth->prepared);
    auth->prepared = NULL;
}
