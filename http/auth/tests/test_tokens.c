/*
 * test_tokens.c - the tokens file: what is read from it, and which rule each bad line breaks; and
 * tables that are found by a hash, exchanged and freed.
 */
#include <stdio.h>
#include <string.h>

#include "src/tests/unit/test.h"
#include "http/auth/tokens.h"
#include "src/base/buf.h"

/* Of "abc" and of "". */
#define ABC "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
#define EMPTY "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
#define LINE "a sha256:" ABC " roles=ids"

static struct token_table *parse(const char *text)
{
    struct token_table *table = NULL;
    char why[TOKENS_WHY_BYTES];

    if (tokens_parse(text, strlen(text), ROLE_HEALTH, &table, why) != 0) {
        fail_msg("refused: %s", why);
    }
    return table;
}

static void expect_refused(const char *text, size_t len, const char *reason)
{
    struct token_table *table = NULL;
    char why[TOKENS_WHY_BYTES];

    if (tokens_parse(text, len, 0, &table, why) != ERR_INVALID) {
        fail_msg("taken: %s", text);
    }
    if (strstr(why, reason) == NULL) {
        fail_msg("the reason is:\n  %s\nand should have in it:\n  %s", why, reason);
    }
    assert_null(table);
}

static const struct identity *find(const struct token_table *table, const char *token)
{
    struct token_hash hash;

    assert_true(token_hash(token, strlen(token), &hash));
    return tokens_find(table, &hash);
}

static void test_all_fields(void **state)
{
    struct token_table *table =
        parse("# comment\n\n \t# one more\r\n"
              "shop\tsha256:" ABC "  roles=ids,tags prefix=a%20b/,%C3%A9 requests-per-s=1 "
              "ids-per-s=2 connections=3 bodies=4 keys=5 workers=1000000000 \r\n"
              "web cert:dns:a.example roles=all");
    const struct identity *shop = find(table, "abc");
    const struct identity *web = tokens_find_certificate(table, "dns:a.example");

    (void)state;
    assert_int_equal(tokens_count(table), 2);
    assert_true(tokens_are_used(table));
    assert_string_equal(shop->name, "shop");
    assert_int_equal(shop->kind, IDENTITY_TOKEN);
    assert_int_equal(shop->index, 1);
    assert_int_equal(shop->roles, ROLE_IDS | ROLE_TAGS);
    assert_int_equal(shop->quotas.requests_per_s, 1);
    assert_int_equal(shop->quotas.ids_per_s, 2);
    assert_int_equal(shop->quotas.connections, 3);
    assert_int_equal(shop->quotas.bodies, 4);
    assert_int_equal(shop->quotas.keys, 5);
    assert_int_equal(shop->quotas.workers, 1000000000);
    assert_int_equal(shop->prefix_count, 2);
    assert_true(identity_may_use(shop, "a b/", 4));
    assert_true(identity_may_use(shop, "a b/c", 5));
    assert_true(identity_may_use(shop, "\xc3\xa9x", 3));
    assert_false(identity_may_use(shop, "a b", 3));
    assert_false(identity_may_use(shop, "", 0));
    assert_int_equal(web->kind, IDENTITY_CERTIFICATE);
    assert_int_equal(web->roles, ROLES_ALL);
    assert_true(identity_may_use(web, "anything", 8));
    assert_null(find(table, ""));
    assert_null(find(table, "abd"));
    assert_null(tokens_find_certificate(table, "dns:b.example"));
    assert_string_equal(tokens_at(table, 0)->name, "anonymous");
    assert_int_equal(tokens_at(table, 0)->roles, ROLE_HEALTH);
    tokens_unref(table);
}

static void test_refused(void **state)
{
    static const struct {
        const char *text;
        const char *reason;
    } cases[] = {
        {"", "has no token"},
        {"# nothing\n", "has no token"},
        {"a", "line 1: a token is: NAME"},
        {"\na sha256:" ABC, "line 2: a token is: NAME"},
        {"a roles=ids", "line 1: \"roles=ids\" must be sha256:HEX or cert:NAME"},
        {"a/b sha256:" ABC " roles=ids", "the name \"a/b\" must be 1 to 64"},
        {"10.0.0.7 sha256:" ABC " roles=ids", "and no address"},
        {"anonymous sha256:" ABC " roles=ids", "the name \"anonymous\" is reserved"},
        {LINE "\na sha256:" EMPTY " roles=read", "line 2: the name \"a\" is given twice; two"},
        {LINE "\na sha256:" EMPTY " roles=ids prefix=x", "line 2: the name \"a\" is given twice"},
        {LINE " prefix=x\na cert:x roles=ids prefix=y", "line 2: the name \"a\" is given twice"},
        {LINE "\na cert:x roles=ids keys=1", "line 2: the name \"a\" is given twice"},
        {LINE "\na cert:x roles=ids\na cert:y roles=ids",
         "line 3: the name \"a\" is given more than 2 times"},
        {LINE "\nb sha256:" ABC " roles=ids", "line 2: the hash \"" ABC "\" is given twice"},
        {"a sha256:12 roles=ids", "the hash \"12\" must be 64 hex digits"},
        {"a sha256:" ABC "0 roles=ids", "must be 64 hex digits"},
        {"a cert: roles=ids", "\"\" must be 1 to 255 bytes"},
        {"a cert:x roles=ids\nb cert:x roles=ids", "line 2: the certificate \"x\" is given twice"},
        {"a cert:%zz roles=ids", "must be 1 to 255 bytes"},
        {"a cert:%00 roles=ids", "must be 1 to 255 bytes"},
        {"a cert:%ff roles=ids", "must be 1 to 255 bytes"},
        {LINE " roles=ids", "roles is given twice"},
        {"a sha256:" ABC " roles=", "\"\" is not a role"},
        {"a sha256:" ABC " roles=ids,", "\"\" is not a role"},
        {"a sha256:" ABC " roles=tgas", "\"tgas\" is not a role; roles are ids, read, tags"},
        {"a sha256:" ABC " roles=admin prefix=x", "has the role admin, which sees all tags"},
        {LINE " prefix=", "\"\" must be 1 to 128 bytes"},
        {LINE " prefix=a prefix=b", "prefix is given twice"},
        {LINE " prefix=1,2,3,4,5,6,7,8,9,0,a,b,c,d,e,f,g", "more than 16 prefixes"},
        {LINE " keys=0", "keys=\"0\" must be a whole number from 1 to 1000000000"},
        {LINE " keys=1000000001", "must be a whole number"},
        {LINE " keys=+1", "must be a whole number"},
        {LINE " keys=1 keys=1", "keys is given twice"},
        {LINE " key=1", "\"key\" is not a key: roles, prefix"},
        {LINE " keys", "\"keys\" must be a key, =, and a value"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        expect_refused(cases[i].text, strlen(cases[i].text), cases[i].reason);
    }
    expect_refused(LINE "\0", sizeof LINE, "line 1: has a NUL byte");
}

static void put_line(struct buf *text, unsigned number)
{
    buf_printf(text, "t%u sha256:%064x roles=ids\n", number, number + 1);
}

/* As many as there may be, and one more; the same of a line and of the file. */
static void test_limits(void **state)
{
    struct buf text = BUF_INIT;
    struct token_table *table;
    char why[TOKENS_WHY_BYTES];

    (void)state;
    for (unsigned i = 0; i < LIMIT_TOKENS; i++) {
        put_line(&text, i);
    }
    assert_int_equal(tokens_parse((char *)text.data, text.len, 0, &table, why), 0);
    assert_int_equal(tokens_count(table), LIMIT_TOKENS);
    tokens_unref(table);
    put_line(&text, LIMIT_TOKENS);
    expect_refused((char *)text.data, text.len, "line 1025: more than 1024 tokens");
    for (size_t over = 0; over < 2; over++) {
        text.len = 0;
        buf_printf(&text, LINE);
        while (text.len < LIMIT_TOKEN_LINE_BYTES + over) {
            buf_put_u8(&text, ' ');
        }
        if (over == 0) {
            assert_int_equal(tokens_parse((char *)text.data, text.len, 0, &table, why), 0);
            tokens_unref(table);
        } else {
            expect_refused((char *)text.data, text.len, "line 1: longer than 4096 bytes");
        }
    }
    text.len = 0;
    buf_printf(&text, LINE "\n");
    while (text.len < LIMIT_TOKENS_FILE_BYTES) {
        buf_put_u8(&text, '\n');
    }
    assert_int_equal(tokens_parse((char *)text.data, text.len, 0, &table, why), 0);
    tokens_unref(table);
    buf_put_u8(&text, '\n');
    expect_refused((char *)text.data, text.len, "larger than 524288 bytes");
    buf_free(&text);
}

/* Every one of them is found, and none that is not there, though it differs in one bit. */
static void test_each_is_found(void **state)
{
    struct buf text = BUF_INIT;
    struct token_table *table;
    struct token_hash hash;
    char why[TOKENS_WHY_BYTES];

    (void)state;
    for (unsigned i = 0; i < 100; i++) {
        put_line(&text, i);
    }
    assert_int_equal(tokens_parse((char *)text.data, text.len, 0, &table, why), 0);
    for (unsigned i = 0; i < 100; i++) {
        memset(&hash, 0, sizeof hash);
        ((uint8_t *)&hash)[TOKEN_HASH_BYTES - 1] = (uint8_t)(i + 1);
        assert_int_equal(tokens_find(table, &hash)->index, i + 1);
        for (unsigned bit = 0; bit < 8 * (TOKEN_HASH_BYTES - 1); bit++) {
            ((uint8_t *)&hash)[bit / 8] ^= (uint8_t)(1U << bit % 8);
            assert_null(tokens_find(table, &hash));
            ((uint8_t *)&hash)[bit / 8] ^= (uint8_t)(1U << bit % 8);
        }
    }
    tokens_unref(table);
    buf_free(&text);
}

static void test_new_token(void **state)
{
    char token[TOKEN_TEXT_BYTES];
    char other[TOKEN_TEXT_BYTES];
    char line[TOKEN_LINE_BYTES];
    struct token_table *table;

    (void)state;
    assert_int_equal(token_new(other, line), 0);
    assert_int_equal(token_new(token, line), 0);
    assert_string_not_equal(token, other);
    assert_int_equal(strlen(token), 43);
    assert_int_equal(
        strspn(token, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"), 43);
    table = parse(line);
    assert_int_equal(find(table, token)->roles, ROLE_IDS);
    assert_null(find(table, other));
    tokens_unref(table);
}

/* Two tokens of one client, while the one is exchanged for the other. */
static void test_two_lines_of_a_name(void **state)
{
    struct token_table *table = parse(LINE " prefix=x keys=1\nother cert:o roles=ids\n"
                                           "a cert:new keys=1 roles=ids prefix=x");
    const struct identity *first = find(table, "abc");
    const struct identity *second = tokens_find_certificate(table, "new");

    (void)state;
    assert_string_equal(first->name, "a");
    assert_string_equal(second->name, "a");
    assert_int_equal(first->index, 1);
    assert_int_equal(second->index, 3);
    tokens_unref(table);
}

static void expect_words(const char *before, const char *after, const char *words)
{
    struct token_table *tables[] = {parse(before), parse(after)};
    struct buf said = BUF_INIT;

    tokens_compare(tables[0], tables[1], &said);
    buf_put(&said, "", 1);
    assert_string_equal((char *)said.data, words);
    buf_free(&said);
    tokens_unref(tables[0]);
    tokens_unref(tables[1]);
}

#define SHOP "shop sha256:" EMPTY " roles=ids"

static void test_what_differs(void **state)
{
    char many[(TOKENS_TOLD + 2) * 40] = "";

    (void)state;
    expect_words(SHOP "\nb cert:b roles=ids", SHOP "\nb cert:b roles=ids", "");
    expect_words(SHOP "\nb cert:b roles=ids", "b cert:b roles=ids\n" SHOP, ""); /* moved */
    expect_words(SHOP, SHOP " ids-per-s=50", "shop ids-per-s=50 (was 0)");
    expect_words(SHOP " requests-per-s=1 connections=2 bodies=3 keys=4 workers=5 tags=6",
                 SHOP " requests-per-s=2 connections=3 bodies=4 keys=5 workers=6 tags=7",
                 "shop requests-per-s=2 (was 1), connections=3 (was 2), bodies=4 (was 3), "
                 "keys=5 (was 4), workers=6 (was 5), tags=7 (was 6)");
    expect_words(SHOP " prefix=a/", SHOP ",read prefix=b/",
                 "shop roles=ids, read (was ids), prefix");
    expect_words(SHOP " prefix=a/", SHOP " prefix=a/,b/", "shop prefix");
    expect_words(SHOP, "shop cert:shop roles=ids", "shop proof");
    expect_words("shop cert:a roles=ids", "shop cert:b roles=ids", "shop proof");
    expect_words(SHOP, "till cert:till roles=ids", "till is new; shop is gone");
    expect_words(SHOP, "shop cert:new roles=ids\n" SHOP, "shop has one proof more");
    expect_words("shop cert:new roles=ids\n" SHOP, "shop cert:new roles=ids",
                 "shop has one proof less");
    expect_words("shop cert:new roles=ids\n" SHOP, SHOP "\nshop cert:new roles=ids", "");
    expect_words("shop cert:a roles=ids\nshop cert:b roles=ids",
                 "shop cert:a roles=read\nshop cert:c roles=read",
                 "shop roles=read (was ids); shop roles=read (was ids), proof");
    for (int i = 0; i < TOKENS_TOLD; i++) {
        snprintf(many + strlen(many), sizeof many - strlen(many), "n%d cert:%d roles=ids\n", i, i);
    }
    expect_words("n0 cert:0 roles=ids", many,
                 "n1 is new; n2 is new; n3 is new; n4 is new; n5 is new; n6 is new; n7 is new; "
                 "n8 is new; n9 is new");
    expect_words(SHOP, many,
                 "n0 is new; n1 is new; n2 is new; n3 is new; n4 is new; n5 is new; n6 is new; "
                 "n7 is new; n8 is new; n9 is new; and 1 more");
}

/* A table lasts as long as somebody has it; a file that is wrong changes nothing. */
static void test_reload(void **state)
{
    static const struct auth_settings settings = {.anonymous_roles = ROLE_IDS};
    static const char next[] = "b sha256:" EMPTY " roles=read\nc cert:c roles=ids";
    struct auth *auth;
    struct token_table *old;
    struct token_table *new;
    uint64_t generation;
    uint64_t later;
    size_t before;
    size_t after;
    struct buf words = BUF_INIT;
    char why[TOKENS_WHY_BYTES];

    (void)state;
    assert_int_equal(auth_new(&settings, LINE, strlen(LINE), &auth, why), 0);
    old = auth_take(auth, &generation);
    assert_false(auth->generation != generation);
    assert_int_equal(auth_prepare(auth, "x", 1, why), ERR_INVALID);
    assert_int_equal(auth_prepare(auth, next, strlen(next), why), 0);
    auth_drop(auth);
    assert_false(auth->generation != generation);
    assert_int_equal(auth_prepare(auth, next, strlen(next), why), 0);
    assert_false(auth->generation != generation);
    auth_commit(auth, &before, &after, &words);
    assert_int_equal(before, 1);
    assert_int_equal(after, 2);
    buf_put(&words, "", 1);
    assert_string_equal((char *)words.data, "b is new; c is new; a is gone");
    buf_free(&words);
    assert_true(auth->generation != generation);
    new = auth_take(auth, &later);
    assert_false(auth->generation != later);
    assert_non_null(find(old, "abc"));
    assert_null(find(new, "abc"));
    assert_non_null(find(new, ""));
    assert_int_equal(tokens_at(new, 0)->roles, ROLE_IDS);
    tokens_unref(old);
    tokens_unref(new);
    auth_free(auth);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_fields),   cmocka_unit_test(test_refused),
        cmocka_unit_test(test_limits),       cmocka_unit_test(test_each_is_found),
        cmocka_unit_test(test_new_token),    cmocka_unit_test(test_two_lines_of_a_name),
        cmocka_unit_test(test_what_differs), cmocka_unit_test(test_reload),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
