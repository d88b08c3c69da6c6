/*
 * fuzz_auth.c - any bytes as a tokens file, and any head before lists of hosts and origins.
 *
 * The first byte chooses. A tokens file is refused with a text that can be logged, or each of its
 * lines is an identity that is found by its hash or certificate alone, with the roles and prefixes
 * of the line. A head passes the rules of web pages only with a Host and an Origin that stand in a
 * list, or are the node's own.
 *
 * Thread: one.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "http/auth/tokens.h"
#include "http/auth/web.h"
#include "http/proto/parser.h"
#include "src/base/assert.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

#define PART_END 0xff

static void check_printable(const char *text)
{
    ASSERT(text[0] != '\0');
    for (; *text != '\0'; text++) {
        ASSERT((unsigned char)*text >= ' ' && *text != 0x7f);
    }
}

/* --- tokens --- */

static bool hash_of_hex(const char *hex, size_t len, struct token_hash *ret_hash)
{
    uint8_t *bytes = (uint8_t *)ret_hash->words;

    for (size_t i = 0; i < TOKEN_HASH_BYTES; i++) {
        char pair[3] = {0};

        if (i * 2 + 2 > len || !isxdigit((unsigned char)hex[i * 2]) ||
            !isxdigit((unsigned char)hex[i * 2 + 1])) {
            return false;
        }
        memcpy(pair, hex + i * 2, 2);
        bytes[i] = (uint8_t)strtoul(pair, NULL, 16);
    }
    return true;
}

static void check_identity(const struct identity *identity)
{
    char roles[ROLES_TEXT_BYTES];

    ASSERT(identity->name[0] != '\0' && strlen(identity->name) <= LIMIT_TOKEN_NAME_BYTES);
    ASSERT((identity->roles & ~ROLES_ALL) == 0);
    ASSERT(strlen(roles_text(identity->roles, roles)) < sizeof roles);
    for (size_t i = 0; i < identity->prefix_count; i++) {
        const struct identity_prefix *prefix = &identity->prefixes[i];

        ASSERT(prefix->len >= 1 && identity_may_use(identity, prefix->text, prefix->len));
    }
    ASSERT(identity->prefix_count == 0 || !identity_may_use(identity, "", 0));
}

/* Each hash of the text is somebody's, and nobody else's is. */
static void check_table(const struct token_table *table, const char *text, size_t len)
{
    static const char word[] = " sha256:";
    const char *at = text;
    const char *end = text + len;
    struct token_hash other = {{1, 2, 3, 4}};
    struct token_hash hash;

    ASSERT(tokens_count(table) <= LIMIT_TOKENS && tokens_find(table, &other) == NULL);
    while ((at = memmem(at, (size_t)(end - at), word, sizeof word - 1)) != NULL) {
        const char *line = memrchr(text, '\n', (size_t)(at - text));

        line = line != NULL ? line + 1 : text;
        line += strspn(line, " \t");
        at += sizeof word - 1;
        if (line[0] == '#' || !hash_of_hex(at, (size_t)(end - at), &hash)) {
            continue;
        }
        ASSERT(tokens_find(table, &hash) != NULL);
        check_identity(tokens_find(table, &hash));
    }
    check_identity(tokens_at(table, 0));
}

static void fuzz_tokens(const char *text, size_t len)
{
    char why[TOKENS_WHY_BYTES] = "";
    struct token_table *table = NULL;

    if (tokens_parse(text, len, ROLE_HEALTH, &table, why) != 0) {
        check_printable(why);
        return;
    }
    check_table(table, text, len);
    tokens_unref(table);
}

/* --- web pages --- */

/* The next part of the input, as a text. */
static char *take_text(const uint8_t **at, const uint8_t *end)
{
    const uint8_t *stop = memchr(*at, PART_END, (size_t)(end - *at));
    size_t len = (size_t)((stop != NULL ? stop : end) - *at);
    char *text = calloc(1, len + 1);

    ASSERT(text != NULL);
    memcpy(text, *at, len);
    *at = stop != NULL ? stop + 1 : end;
    return text;
}

static void fuzz_web(const uint8_t *data, size_t len)
{
    const uint8_t *end = data + len;
    char *hosts = take_text(&data, end);
    char *origins = take_text(&data, end);
    struct web_rules rules = {hosts, origins, {"127.0.0.1:80", "[::1]:80"}};
    struct web_rules none = {"", "", {NULL}};
    size_t head_len = (size_t)(end - data);
    char *head = malloc(head_len + 1);
    struct parser parser;
    const char *item;

    ASSERT(head != NULL);
    memcpy(head, data, head_len);
    parser = (struct parser){0};
    if (web_is_hosts(hosts, &item) && web_is_origins(origins, &item) &&
        parser_head(&parser, head, head_len) == PARSER_DONE) {
        struct web_request request = {&parser.head, head, true, true, true};

        /* What is allowed by no list is allowed by any. */
        ASSERT(web_check(&none, &request) != WEB_FINE || web_check(&rules, &request) == WEB_FINE);
        rules.hosts = rules.origins = "*";
        item = web_authority(&request, &len);
        /* Any host, but not none: what is left then is a port, of however many digits. */
        ASSERT(web_check(&rules, &request) != WEB_MISDIRECTED || len == 0 || item[0] == ':');
        ASSERT(web_check(&rules, &request) != WEB_FOREIGN || parser.head.origin.count > 1 ||
               parser.head.origin.len == 0);
    }
    free(hosts);
    free(origins);
    free(head);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    if (len == 0) {
        return 0;
    }
    if (data[0] % 2 == 0) {
        fuzz_tokens((const char *)data + 1, len - 1);
    } else {
        fuzz_web(data + 1, len - 1);
    }
    return 0;
}
