/*
 * test_shape.c - shapes of ids: what a shape may be, the texts of ids, their checks, the way back,
 * and that no two ids have one text. Thread: one.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/tests/unit/test.h"
#include "src/base/prng.h"
#include "src/id/codec/shape.h"

#define MANY 20000

#define KEYS 3 /* of shapes with {key} */

static struct shape parsed(const char *spec)
{
    static uint8_t keys[KEYS * SHAPE_KEY_BYTES];
    struct shape shape;
    const char *why = NULL;

    if (shape_parse(spec, strlen(spec), &shape, &why) != 0) {
        fail_msg("%s: %s", spec, why);
    }
    for (size_t i = 0; i < sizeof keys; i++) {
        keys[i] = (uint8_t)(3 * i + 1);
    }
    shape.keys = keys;
    shape.key_count = shape.has_key ? KEYS : shape.secret ? 1 : 0;
    return shape;
}

static const char *text_of(const struct shape *shape, struct ff1 *ff1, uint64_t id)
{
    static char text[SHAPE_ID_BYTES_MAX + 1];
    size_t len;

    shape_prepare(shape, id, ff1);
    len = shape_put(shape, ff1, id, text);
    assert_int_equal(len, shape_bytes(shape, id));
    text[len] = '\0';
    return text;
}

static void test_texts(void **state)
{
    static const struct {
        const char *spec;
        uint64_t id;
        const char *text;
    } cases[] = {
        {"{id}", 0, "0"},
        {"{id}", INT64_MAX - 1, "9223372036854775806"},
        {"INV-{id:6}", 42, "INV-000042"},
        {"INV-{id:6}", 1234567, "INV-1234567"},
        {"{id16}", 0xBEEF, "BEEF"},
        {"{id32:8}/x", 31, "0000000Z/x"},
        {"{id36}", 35, "Z"},
        {"{id36}", 36, "10"},
        {"a{id62:3}b", 61, "a00zb"},
        {"a{id62:3}b", 62, "a010b"},
        {"{id:32}", 7, "00000000000000000000000000000007"},
        /* Luhn's own example, and the one of ISO/IEC 7812. */
        {"{id}{luhn}", 7992739871, "79927398713"},
        {"{id}-{luhn}", 1789372997, "1789372997-4"},
        {"{id:4}{luhn}", 0, "00000"},
        /* ISO 7064's example of MOD 97-10. */
        {"{id}{mod97}", 794, "79444"},
        {"A{id}.{mod97}", 1, "A1.86"},
    };
    struct ff1 *ff1 = ff1_new();

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct shape shape = parsed(cases[i].spec);
        uint64_t id;

        assert_string_equal(text_of(&shape, ff1, cases[i].id), cases[i].text);
        assert_true(shape_read(&shape, ff1, cases[i].text, strlen(cases[i].text), &id));
        assert_int_equal(id, cases[i].id);
    }
    ff1_free(ff1);
}

/* What is left of a text, letters as two digits, when it is divided by 97. */
static unsigned rest_of(const char *text)
{
    unsigned rest = 0;

    for (; *text != '\0'; text++) {
        if (*text >= '0' && *text <= '9') {
            rest = (rest * 10 + (unsigned)(*text - '0')) % 97;
        } else if (*text != '-' && *text != '.') {
            rest = (rest * 100 + (unsigned)((*text | 0x20) - 'a' + 10)) % 97;
        }
    }
    return rest;
}

/* ISO 7064: that is 1. */
static void test_mod97_leaves_one(void **state)
{
    static const char *const specs[] = {"{id}{mod97}", "LF{id36:5}-{mod97}",
                                        "x-{secret32:8}.{mod97}"};
    struct ff1 *ff1 = ff1_new();

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        struct shape shape = parsed(specs[i]);

        for (uint64_t id = 0; id < 500; id++) {
            assert_int_equal(rest_of(text_of(&shape, ff1, id)), 1);
        }
    }
    ff1_free(ff1);
}

static void test_what_is_no_shape(void **state)
{
    static const char *const specs[] = {"",
                                        "x",
                                        "{id",
                                        "{id}}",
                                        "}{id}",
                                        "{id}{id}",
                                        "{id8}",
                                        "{id0}",
                                        "{id010}",
                                        "{id:0}",
                                        "{id:33}",
                                        "{id:}",
                                        "{id: 6}",
                                        "{luhn}{id}",
                                        "{id16}{luhn}",
                                        "{id62}{mod97}",
                                        "{id}{luhn}{mod97}",
                                        "{id}{crc}",
                                        "{secret}",
                                        "{secret:5}",
                                        "{secret:19}",
                                        "{secret36:13}",
                                        "{secret62:11}",
                                        "a b{id}",
                                        "a\"{id}",
                                        "a\\{id}",
                                        "\xc3\xa9{id}",
                                        "a\n{id}",
                                        "{year}-{id}",
                                        "{key}{id:6}",
                                        "{key}{key}{secret:6}",
                                        "{key}{year}{secret:6}",
                                        "{secret:6}{key}",
                                        "{key}{secret:18}",
                                        "{key}{secret36:12}"};
    char longer[SHAPE_SPEC_BYTES_MAX + 2];
    struct shape shape;
    const char *why;

    (void)state;
    for (size_t i = 0; i < sizeof specs / sizeof specs[0]; i++) {
        why = NULL;
        if (shape_parse(specs[i], strlen(specs[i]), &shape, &why) != ERR_INVALID || why == NULL) {
            fail_msg("%s is taken for a shape", specs[i]);
        }
    }
    assert_int_equal(shape_parse("{id}\0", 5, &shape, NULL), ERR_INVALID);
    /* At the bounds, and beyond. */
    snprintf(longer, sizeof longer, "%.*s{id}%.*s{mod97}%.*s", SHAPE_TEXT_BYTES_MAX,
             "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", SHAPE_TEXT_BYTES_MAX,
             "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb", SHAPE_TEXT_BYTES_MAX,
             "ccccccccccccccccccccccccccccccccc");
    assert_int_equal(shape_parse(longer, strlen(longer), &shape, NULL), 0);
    assert_int_equal(shape_parse("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa{id}", 37, &shape, NULL),
                     ERR_INVALID);
    memset(longer, 'x', sizeof longer);
    assert_int_equal(shape_parse(longer, SHAPE_SPEC_BYTES_MAX + 1, &shape, &why), ERR_INVALID);
    assert_non_null(strstr(why, "1 to 128"));
}

static int compare(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* Texts differ, come back, and secret ones have one length and no order. */
static void test_no_two_ids_have_one_text(void **state)
{
    static const char *const specs[] = {"{id}",       "7{id}3{luhn}1",         "x{id36}9{mod97}0",
                                        "{secret:6}", "c-{secret36:7}{mod97}", "{secret62:10}"};
    char(*texts)[SHAPE_ID_BYTES_MAX + 1] = calloc(MANY, sizeof *texts);
    struct ff1 *ff1 = ff1_new();

    (void)state;
    assert_non_null(texts);
    for (size_t i = 0; i < sizeof specs / sizeof specs[0]; i++) {
        struct shape shape = parsed(specs[i]);
        unsigned rising = 0;

        for (unsigned k = 0; k < MANY; k++) {
            uint64_t id;

            memcpy(texts[k], text_of(&shape, ff1, k), sizeof texts[k]);
            assert_true(shape_read(&shape, ff1, texts[k], strlen(texts[k]), &id));
            assert_int_equal(id, k);
            rising += k > 0 && strcmp(texts[k - 1], texts[k]) < 0;
        }
        if (shape.secret) {
            assert_in_range(rising, MANY * 45 / 100, MANY * 55 / 100);
        }
        qsort(texts, MANY, sizeof *texts, compare);
        for (unsigned k = 1; k < MANY; k++) {
            assert_string_not_equal(texts[k - 1], texts[k]);
        }
    }
    free(texts);
    ff1_free(ff1);
}

/* A digit that is changed, or two neighbours in each other's place. */
static void test_checks_notice_slips(void **state)
{
    static const char *const specs[] = {"{id:8}{luhn}", "AB{id:8}{mod97}"};
    struct ff1 *ff1 = ff1_new();
    struct prng prng;

    (void)state;
    prng_seed(&prng, 5);
    for (unsigned round = 0; round < 2000; round++) {
        struct shape shape = parsed(specs[round % 2]);
        char text[SHAPE_ID_BYTES_MAX + 1];
        uint64_t id = prng_below(&prng, 100000000);
        size_t at = shape.text_len[0] + prng_below(&prng, 7);
        char before;

        memcpy(text, text_of(&shape, ff1, id), sizeof text);
        before = text[at];
        text[at] = (char)('0' + (before - '0' + 1 + (char)prng_below(&prng, 9)) % 10);
        assert_false(shape_read(&shape, ff1, text, strlen(text), &id));
        text[at] = text[at + 1];
        text[at + 1] = before;
        /* Luhn does not tell 09 from 90. */
        if (text[at] != before &&
            !(shape.check == SHAPE_CHECK_LUHN && text[at] + before == '0' + '9' &&
              (before == '0' || before == '9'))) {
            assert_false(shape_read(&shape, ff1, text, strlen(text), &id));
        }
    }
    ff1_free(ff1);
}

static void test_texts_that_are_none(void **state)
{
    static const struct {
        const char *spec;
        const char *text;
    } cases[] = {
        {"INV-{id:6}", "INV-42"},
        {"INV-{id:6}", "inv-000042"},
        {"INV-{id:6}", "INV-0000042"},
        {"INV-{id:6}", "INV-"},
        {"INV-{id:6}", ""},
        {"{id}", "007"},
        {"{id}", "9223372036854775807"},
        {"{id}", "18446744073709551617"},
        {"{id}x", "1"},
        {"{id16}", "G"},
        {"{id32}", "U"},
        {"{id62}", "-"},
        {"{secret:6}", "1234567"},
        {"{secret:6}", "12345"},
        {"{id}{luhn}", "79927398710"},
    };
    struct ff1 *ff1 = ff1_new();
    uint64_t id;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct shape shape = parsed(cases[i].spec);

        if (shape_read(&shape, ff1, cases[i].text, strlen(cases[i].text), &id)) {
            fail_msg("%s is taken for a text of %s", cases[i].text, cases[i].spec);
        }
    }
    ff1_free(ff1);
}

/* Each key has its own texts, of one length, and their ids are found again; no text is another
 * id's. */
static void test_keys(void **state)
{
    struct shape shape = parsed("A{key}-{secret36:4}{mod97}");
    uint64_t numbers = 36ULL * 36 * 36 * 36;
    struct ff1 *ff1 = ff1_new();
    char before[KEYS][SHAPE_ID_BYTES_MAX + 1];
    uint8_t keys[KEYS * SHAPE_KEY_BYTES];
    uint64_t id;

    (void)state;
    assert_true(shape_bound(&shape) == KEYS * numbers);
    assert_true(shape_capacity(&shape) == SHAPE_KEYS_MAX * numbers);
    for (unsigned key = 0; key < KEYS; key++) {
        uint64_t first = shape_key_first(&shape, key);

        assert_true(first == key * numbers);
        assert_int_equal(shape_key_of(&shape, first), key);
        assert_int_equal(shape_key_of(&shape, first + numbers - 1), key);
        for (uint64_t n = 0; n < numbers; n += 104729) {
            const char *text = text_of(&shape, ff1, first + n);

            assert_int_equal(text[1], '0' + (int)key);
            assert_int_equal(strlen(text), 9);
            assert_true(shape_read(&shape, ff1, text, 9, &id));
            assert_true(id == first + n);
        }
        memcpy(before[key], text_of(&shape, ff1, first + 7), sizeof before[key]);
        assert_true(key == 0 || strncmp(before[key] + 3, before[key - 1] + 3, 4) != 0);
    }
    /* A skipped key, one that it has not, and another one's number. */
    memcpy(keys, shape.keys, sizeof keys);
    memcpy(keys, keys + SHAPE_KEY_BYTES, SHAPE_KEY_BYTES);
    shape.keys = keys;
    assert_false(shape_read(&shape, ff1, before[0], 9, &id));
    assert_true(shape_read(&shape, ff1, before[1], 9, &id) && id == numbers + 7);
    shape.key_count = KEYS - 1;
    assert_false(shape_read(&shape, ff1, before[KEYS - 1], 9, &id));
    before[1][1] = '0';
    assert_false(shape_read(&shape, ff1, before[1], 9, &id)); /* the check covers it */
    before[0][1] = ':';
    assert_false(shape_read(&shape, ff1, before[0], 9, &id));
    ff1_free(ff1);
}

static void test_what_people_write(void **state)
{
    struct shape crockford = parsed("{id32:3}");
    struct shape hex = parsed("{id16}{mod97}");
    struct ff1 *ff1 = ff1_new();
    uint64_t id;

    (void)state;
    assert_true(shape_read(&crockford, ff1, "oil", 3, &id));
    assert_int_equal(id, 33);
    assert_true(shape_read(&hex, ff1, "beef", 4, &id) == false);
    assert_string_equal(text_of(&hex, ff1, 0xBEEF), "BEEF16");
    assert_true(shape_read(&hex, ff1, "beef16", 6, &id));
    assert_int_equal(id, 0xBEEF);
    ff1_free(ff1);
}

static void test_ids_of_one_length(void **state)
{
    struct shape plain = parsed("{id}");
    struct shape wide = parsed("{id36:4}");
    struct shape secret = parsed("{secret:8}");

    (void)state;
    assert_int_equal(shape_alike(&plain, 0), 10);
    assert_int_equal(shape_alike(&plain, 95), 5);
    assert_int_equal(shape_alike(&plain, 1000000000000000000), INT64_MAX - 1000000000000000000);
    assert_int_equal(shape_alike(&wide, 1), 36 * 36 * 36 * 36 - 1);
    assert_int_equal(shape_alike(&secret, 1), 99999999);
    assert_int_equal(shape_capacity(&secret), 100000000);
    assert_int_equal(shape_capacity(&plain), INT64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_texts),
        cmocka_unit_test(test_mod97_leaves_one),
        cmocka_unit_test(test_what_is_no_shape),
        cmocka_unit_test(test_no_two_ids_have_one_text),
        cmocka_unit_test(test_checks_notice_slips),
        cmocka_unit_test(test_texts_that_are_none),
        cmocka_unit_test(test_keys),
        cmocka_unit_test(test_what_people_write),
        cmocka_unit_test(test_ids_of_one_length),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
