/*
 * test_memo.c - heads are found again byte for byte, and what differs in anything is not.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "http/server/memo.h"
#include "src/base/prng.h"

#define HEAD "GET /api/segment/get/order HTTP/1.1\r\nHost: a\r\n\r\n"

static int memos_setup(void **state)
{
    *state = calloc(1, sizeof(struct memos));
    return *state != NULL ? 0 : -1;
}

static int memos_teardown(void **state)
{
    free(*state);
    return 0;
}

/* Keep a head that says nothing but its length. */
static struct memo *keep(struct memos *memos, const char *text, size_t len)
{
    struct parser_head head = {.len = (uint32_t)len, .keep_alive = true};
    struct request request = {.path_at = 4, .path_len = (uint32_t)len - 4};

    return memo_keep(memos, text, &head, &request);
}

/* Find in a copy that ends where the bytes do, so that the sanitizer sees a read past them. */
static struct memo *find(struct memos *memos, const char *text, size_t len)
{
    char *exact = malloc(len > 0 ? len : 1);
    struct memo *memo;

    assert_non_null(exact);
    memcpy(exact, text, len);
    memo = memo_find(memos, exact, len);
    free(exact);
    return memo;
}

static void test_found_byte_for_byte(void **state)
{
    struct memos *memos = *state;
    const size_t len = sizeof(HEAD) - 1;
    char text[] = HEAD "GET /next";
    struct memo *memo;

    assert_null(find(memos, text, len));
    memo = keep(memos, text, len);
    assert_non_null(memo);
    assert_ptr_equal(find(memos, text, len), memo);
    assert_ptr_equal(find(memos, text, sizeof(text) - 1), memo);
    assert_int_equal(memo->head.len, len);
    assert_true(memo->head.keep_alive);
    assert_int_equal(memo->request.path_len, len - 4);
    assert_false(memo->is_name_plain);
    assert_null(memo->tag);
    for (size_t shorter = 0; shorter < len; shorter++) {
        assert_null(find(memos, text, shorter));
    }
    for (size_t at = 0; at < len; at++) {
        char right = text[at];

        for (unsigned c = 0; c < 256; c++) {
            text[at] = (char)c;
            assert_int_equal(find(memos, text, len) != NULL, text[at] == right);
        }
        text[at] = right;
    }
}

/* The same place for all of them: they differ behind the bytes that choose it. */
static void test_displaced_when_missed_often(void **state)
{
    static const char a[] = HEAD;
    static const char b[] = "GET /api/segment/get/order HTTP/1.1\r\nHost: b\r\n\r\n";
    struct memos *memos = *state;
    struct memo *memo = keep(memos, a, sizeof(a) - 1);

    memo->is_name_plain = true;
    memo->tag = (struct id_tag *)memos;
    for (int i = 0; i < 3; i++) {
        assert_null(keep(memos, b, sizeof(b) - 1));
    }
    assert_non_null(find(memos, a, sizeof(a) - 1));
    for (int i = 0; i < 3; i++) {
        assert_null(keep(memos, b, sizeof(b) - 1));
    }
    assert_ptr_equal(keep(memos, b, sizeof(b) - 1), memo);
    assert_null(find(memos, a, sizeof(a) - 1));
    assert_ptr_equal(find(memos, b, sizeof(b) - 1), memo);
    assert_false(memo->is_name_plain);
    assert_null(memo->tag);
}

static void test_lengths(void **state)
{
    struct memos *memos = *state;
    char text[MEMO_HEAD_BYTES + 1];

    memset(text, 'x', sizeof(text));
    assert_null(find(memos, text, sizeof(text)));
    assert_null(keep(memos, text, 35));
    assert_non_null(keep(memos, text, 36));
    assert_non_null(find(memos, text, 36));
    assert_null(find(memos, text, 35));
    memset(text, 'y', sizeof(text));
    assert_null(keep(memos, text, sizeof(text)));
    assert_non_null(keep(memos, text, sizeof(text) - 1));
    assert_non_null(find(memos, text, sizeof(text) - 1));
    assert_null(find(memos, text, sizeof(text) - 2));
}

/* Whatever is found begins with the bytes that were kept, and has their meaning. */
static void test_many_heads(void **state)
{
    struct memos *memos = *state;
    unsigned found = 0;
    struct prng prng;

    prng_seed(&prng, 3);
    for (unsigned i = 0; i < 100000; i++) {
        char text[128];
        int len =
            snprintf(text, sizeof(text), "GET /api/segment/get/tag-%u HTTP/1.1\r\nH: %u\r\n\r\n",
                     (unsigned)prng_below(&prng, 100), (unsigned)prng_below(&prng, 3));
        struct memo *memo = find(memos, text, (size_t)len);

        if (memo == NULL) {
            (void)keep(memos, text, (size_t)len);
            continue;
        }
        found++;
        assert_int_equal(memo->len, len);
        assert_int_equal(memo->head.len, len);
        assert_memory_equal(memo->text, text, (size_t)len);
    }
    /* 300 heads for 64 places. */
    assert_true(found > 5000);
}

/* Tags of one service have places of their own, by and large. */
static void test_tags_spread(void **state)
{
    struct memos *memos = *state;
    unsigned kept = 0;

    for (unsigned i = 0; i < 32; i++) {
        char text[128];
        int len = snprintf(text, sizeof(text), "GET /api/segment/get/order.%c HTTP/1.1\r\n\r\n",
                           'a' + (char)i);

        kept += keep(memos, text, (size_t)len) != NULL;
    }
    assert_true(kept >= 20);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, memos_setup, memos_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_found_byte_for_byte),
        TEST(test_displaced_when_missed_often),
        TEST(test_lengths),
        TEST(test_many_heads),
        TEST(test_tags_spread),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
