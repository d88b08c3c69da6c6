/*
 * test_audit.c - the ring of changes and refusals: its bounds, at them and one beyond, in entries
 * and in bytes; pages; and refusals that are too many.
 */
#include <stdlib.h>
#include <string.h>

#include "src/tests/unit/test.h"
#include "http/auth/audit.h"

#define CHANGES (LIMIT_AUDIT_ENTRIES - LIMIT_AUDIT_REFUSALS)

static void put(struct audit *audit, enum audit_kind kind, size_t len)
{
    char json[LIMIT_AUDIT_ENTRY_BYTES];

    memset(json, 'x', sizeof json);
    (void)audit_put(audit, kind, json, len);
}

/* The numbers that a page has: its first and last, and how many. */
static size_t page(struct audit *audit, uint64_t after, size_t limit, uint64_t *ret_first,
                   uint64_t *ret_last)
{
    struct buf out = BUF_INIT;
    size_t count = 0;
    const char *at;

    *ret_first = 0;
    audit_list(audit, after, limit, &out);
    buf_put_u8(&out, '\0');
    at = (char *)out.data;
    /* ASan's strstr() and sscanf() would measure all the rest, each time. */
    while ((at = strchr(at, '{')) != NULL) {
        static const char key[] = "{\"number\":";
        char *end;
        uint64_t number;

        if (strncmp(at, key, sizeof key - 1) != 0) {
            at++;
            continue;
        }
        at += sizeof key - 1;
        number = strtoull(at, &end, 10);
        assert_true(end > at && *end == ',');
        assert_true(count == 0 || number > *ret_last);
        *ret_first = count == 0 ? number : *ret_first;
        *ret_last = number;
        count++;
    }
    buf_free(&out);
    return count;
}

static void test_entries(void **state)
{
    struct audit audit;
    uint64_t first;
    uint64_t last;

    (void)state;
    audit_init(&audit);
    assert_int_equal(page(&audit, 0, 10, &first, &last), 0);
    for (size_t i = 0; i < CHANGES; i++) {
        put(&audit, AUDIT_CHANGE, 10);
    }
    assert_int_equal(page(&audit, 0, SIZE_MAX, &first, &last), CHANGES);
    assert_int_equal(first, 1);
    put(&audit, AUDIT_CHANGE, 10);
    assert_int_equal(audit.lost, 1);
    assert_int_equal(page(&audit, 0, SIZE_MAX, &first, &last), CHANGES);
    assert_int_equal(first, 2);
    for (size_t i = 0; i < LIMIT_AUDIT_REFUSALS + 1; i++) {
        put(&audit, AUDIT_REFUSAL, 10);
    }
    /* A refusal pushed a refusal out, and no change. */
    assert_int_equal(audit.lost, 2);
    assert_int_equal(page(&audit, 0, SIZE_MAX, &first, &last), LIMIT_AUDIT_ENTRIES);
    assert_int_equal(first, 2);
    assert_int_equal(last, CHANGES + 1 + LIMIT_AUDIT_REFUSALS + 1);
    audit_free(&audit);
}

static void test_bytes(void **state)
{
    size_t fit = LIMIT_AUDIT_BYTES / 10 * 9 / LIMIT_AUDIT_ENTRY_BYTES;
    struct audit audit;
    uint64_t first;
    uint64_t last;

    (void)state;
    audit_init(&audit);
    for (size_t i = 0; i < fit; i++) {
        put(&audit, AUDIT_CHANGE, LIMIT_AUDIT_ENTRY_BYTES);
    }
    assert_int_equal(audit.lost, 0);
    put(&audit, AUDIT_CHANGE, LIMIT_AUDIT_ENTRY_BYTES);
    assert_int_equal(audit.lost, 1);
    assert_int_equal(page(&audit, 0, SIZE_MAX, &first, &last), fit);
    audit_free(&audit);
}

/* Both kinds, in the order in which they came, page by page. */
static void test_pages(void **state)
{
    struct audit audit;
    uint64_t first;
    uint64_t last = 0;

    (void)state;
    audit_init(&audit);
    for (int i = 0; i < 20; i++) {
        put(&audit, i % 3 == 0 ? AUDIT_REFUSAL : AUDIT_CHANGE, 10);
    }
    for (uint64_t next = 0; next < 20; next += 5) {
        assert_int_equal(page(&audit, last, 5, &first, &last), 5);
        assert_int_equal(first, next + 1);
        assert_int_equal(last, next + 5);
    }
    assert_int_equal(page(&audit, last, 5, &first, &last), 0);
    assert_int_equal(page(&audit, UINT64_MAX, 5, &first, &last), 0);
    audit_free(&audit);
}

static void test_refusals_of_a_second(void **state)
{
    struct audit audit;
    uint64_t over;

    (void)state;
    audit_init(&audit);
    for (int i = 0; i < LIMIT_AUDIT_REFUSALS_PER_S; i++) {
        assert_true(audit_takes_refusal(&audit, 5000, &over));
        assert_int_equal(over, 0);
    }
    for (uint64_t i = 1; i < 8; i++) {
        assert_false(audit_takes_refusal(&audit, 5999, &over));
        assert_int_equal(over, i);
    }
    assert_true(audit_takes_refusal(&audit, 6000, &over));
    assert_int_equal(over, 7);
    assert_true(audit_takes_refusal(&audit, 6000, &over));
    assert_int_equal(over, 0);
    audit_free(&audit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_entries),
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_pages),
        cmocka_unit_test(test_refusals_of_a_second),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
