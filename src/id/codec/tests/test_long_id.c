/*
 * test_long_id.c - snowflake ids as UUIDs and ULIDs: each bit is where the formats want it, what is
 * put is read back, texts sort as numbers do, and what is neither is refused. Thread: one.
 */
#include <string.h>

#include "src/tests/unit/test.h"
#include "src/base/prng.h"
#include "src/id/codec/snowflake_layout.h"

#define ROUNDS 2000

static const enum id_form FORMS[] = {ID_FORM_UUID, ID_FORM_ULID};

static const char *text_of(enum id_form form, struct snowflake_parts parts, uint64_t random)
{
    static char text[LONG_ID_BYTES_MAX + 1];

    memset(text, '?', sizeof text);
    long_id_put(form, &parts, random, text);
    assert_int_equal(text[long_id_bytes(form)], '?');
    text[long_id_bytes(form)] = '\0';
    return text;
}

/* The times are those of the examples of RFC 9562 (A.6) and of the ULID specification. */
static void test_each_bit_has_its_place(void **state)
{
    const struct snowflake_parts zero = {0x017F22E279B0, 0, 0};
    const struct snowflake_parts worker = {0x017F22E279B0, 1023, 0};
    const struct snowflake_parts sequence = {0x017F22E279B0, 0, 0xffff};
    const struct snowflake_parts ulid = {1469918176385, 0, 0};

    (void)state;
    assert_string_equal(text_of(ID_FORM_UUID, zero, 0), "017f22e2-79b0-7000-8000-000000000000");
    assert_string_equal(text_of(ID_FORM_UUID, worker, 0), "017f22e2-79b0-7ffc-8000-000000000000");
    assert_string_equal(text_of(ID_FORM_UUID, sequence, 0), "017f22e2-79b0-7003-bfff-000000000000");
    assert_string_equal(text_of(ID_FORM_UUID, zero, UINT64_MAX),
                        "017f22e2-79b0-7000-8000-ffffffffffff");
    assert_string_equal(text_of(ID_FORM_ULID, ulid, 0), "01ARYZ6S410000000000000000");
    assert_string_equal(text_of(ID_FORM_ULID, ulid, UINT64_MAX), "01ARYZ6S4100000FZZZZZZZZZZ");
    assert_string_equal(text_of(ID_FORM_ULID, worker, 0), "01FWHE4YDGZZ00000000000000");
    assert_string_equal(text_of(ID_FORM_ULID, sequence, 0), "01FWHE4YDG00ZZZG0000000000");
}

static struct snowflake_parts random_parts(struct prng *prng)
{
    return (struct snowflake_parts){.unix_ms = prng_next(prng) >> 16,
                                    .worker = (uint32_t)prng_below(prng, 1024),
                                    .sequence = (uint32_t)prng_below(prng, 65536)};
}

static int order_of(const struct snowflake_parts *a, const struct snowflake_parts *b)
{
    if (a->unix_ms != b->unix_ms) {
        return a->unix_ms < b->unix_ms ? -1 : 1;
    }
    if (a->worker != b->worker) {
        return a->worker < b->worker ? -1 : 1;
    }
    return a->sequence < b->sequence ? -1 : a->sequence > b->sequence;
}

static void test_what_is_put_is_read_and_sorts_as_its_number(void **state)
{
    char before[LONG_ID_BYTES_MAX + 1];
    struct prng prng;

    (void)state;
    prng_seed(&prng, 7);
    for (unsigned i = 0; i < ROUNDS; i++) {
        enum id_form form = FORMS[i % 2];
        struct snowflake_parts parts = random_parts(&prng);
        struct snowflake_parts other = random_parts(&prng);
        struct snowflake_parts got;
        enum id_form got_form;
        const char *text;

        if (i % 4 < 2) { /* of one millisecond, or of one worker id as well */
            other.unix_ms = parts.unix_ms;
            other.worker = i % 8 < 4 ? parts.worker : other.worker;
        }
        memcpy(before, text_of(form, other, prng_next(&prng)), sizeof before);
        text = text_of(form, parts, prng_next(&prng));
        assert_true(long_id_read(text, strlen(text), &got_form, &got));
        assert_int_equal(got_form, form);
        assert_int_equal(order_of(&got, &parts), 0);
        if (order_of(&other, &parts) != 0) {
            assert_int_equal(strcmp(before, text) < 0, order_of(&other, &parts) < 0);
        }
    }
}

static void test_small_and_large_letters_are_read(void **state)
{
    struct snowflake_parts parts;
    enum id_form form;

    (void)state;
    assert_true(long_id_read("017F22E2-79B0-7FFC-BFFF-00000000ABCD", 36, &form, &parts));
    assert_int_equal(parts.worker, 1023);
    assert_int_equal(parts.sequence, 0x3fff);
    assert_true(long_id_read("01arz3ndektsv4rrffq69g5fav", 26, &form, &parts));
    assert_int_equal(parts.unix_ms, 1469922850259);
}

static void test_what_is_neither_is_refused(void **state)
{
    static const char *const texts[] = {
        "",
        "017f22e2-79b0-4000-8000-000000000000",  /* version 4 */
        "017f22e2-79b0-7000-c000-000000000000",  /* another variant */
        "017f22e2-79b0-7000-0000-000000000000",  /* another variant */
        "017f22e2079b0-7000-8000-000000000000",  /* a digit for a dash */
        "017f22e2-79b0-7000-8000-00000000000-",  /* a dash for a digit */
        "017f22e2-79b0-7000-8000-00000000000g",  /* no digit */
        "017f22e2-79b0-7000-8000-00000000000",   /* one too few */
        "017f22e2-79b0-7000-8000-0000000000000", /* one too many */
        "81ARZ3NDEKTSV4RRFFQ69G5FAV",            /* more than 128 bits */
        "01ARZ3NDEKTSV4RRFFQ69G5FAU",            /* a letter that Crockford has not */
        "01ARZ3NDEKTSV4RRFFQ69G5FA",             /* one too few */
        "01ARZ3NDEKTSV4RRFFQ69G5FAVV",           /* one too many */
    };
    struct snowflake_parts parts;
    enum id_form form;
    char with_nul[ULID_TEXT_BYTES] = "01ARZ3NDEKTSV4RRFFQ69G5FA";

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        if (long_id_read(texts[i], strlen(texts[i]), &form, &parts)) {
            fail_msg("%s was read", texts[i]);
        }
    }
    assert_false(long_id_read(with_nul, sizeof with_nul, &form, &parts));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_bit_has_its_place),
        cmocka_unit_test(test_what_is_put_is_read_and_sorts_as_its_number),
        cmocka_unit_test(test_small_and_large_letters_are_read),
        cmocka_unit_test(test_what_is_neither_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
