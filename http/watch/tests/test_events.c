/*
 * test_events.c - the ring of events: its bound, at it and one beyond; pages; texts that are long
 * or hostile.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "http/watch/watch.h"

/* The first number that a page has, how many it has, and its next (0: null). */
static size_t page(struct events *events, uint64_t after, size_t limit,
                   unsigned long long *ret_first, unsigned long long *ret_next)
{
    struct buf out = BUF_INIT;
    size_t count = 0;
    const char *at;

    *ret_first = 0;
    *ret_next = 0;
    events_list(events, after, limit, &out);
    buf_put_u8(&out, '\0');
    at = (char *)out.data;
    (void)sscanf(at, "{\"events\":[{\"number\":%llu,", ret_first);
    while ((at = strstr(at, "{\"number\":")) != NULL) {
        count++;
        at++;
    }
    at = strstr((char *)out.data, "],\"next\":");
    assert_non_null(at);
    if (strcmp(at, "],\"next\":null}") != 0) {
        assert_int_equal(sscanf(at, "],\"next\":%llu}", ret_next), 1);
    }
    buf_free(&out);
    return count;
}

static void test_bound(void **state)
{
    struct events *events = malloc(sizeof *events);
    unsigned long long first;
    unsigned long long next;

    (void)state;
    assert_non_null(events);
    events_init(events);
    assert_int_equal(page(events, 0, 10, &first, &next), 0);
    assert_int_equal(next, 0);
    for (unsigned i = 0; i < LIMIT_EVENTS; i++) {
        events_put(events, 1000, EVENT_LEVEL, "event %u", i);
    }
    assert_int_equal(page(events, 0, LIMIT_EVENTS, &first, &next), LIMIT_EVENTS);
    assert_int_equal(first, 1);
    assert_int_equal(next, 0);
    events_put(events, 1000, EVENT_LEVEL, "one more");
    assert_int_equal(page(events, 0, LIMIT_EVENTS, &first, &next), LIMIT_EVENTS);
    assert_int_equal(first, 2);
    assert_int_equal(events_last(events), LIMIT_EVENTS + 1);
    assert_int_equal(page(events, 0, LIMIT_EVENTS - 1, &first, &next), LIMIT_EVENTS - 1);
    assert_int_equal(next, LIMIT_EVENTS);
    assert_int_equal(page(events, next, 10, &first, &next), 1);
    assert_int_equal(first, LIMIT_EVENTS + 1);
    assert_int_equal(page(events, UINT64_MAX, 10, &first, &next), 0);
    events_free(events);
    free(events);
}

static void test_texts(void **state)
{
    struct events *events = malloc(sizeof *events);
    struct buf out = BUF_INIT;
    char text[4 * EVENT_TEXT_BYTES];

    (void)state;
    assert_non_null(events);
    events_init(events);
    memset(text, 'a', sizeof text);
    text[sizeof text - 1] = '\0';
    events_put(events, 1700000000000, EVENT_ALARM, "%s", text);
    events_put(events, 1700000000000, EVENT_MEMBER, "\"</script>\n\xff");
    events_list(events, 1, 10, &out);
    buf_put_u8(&out, '\0');
    assert_string_equal((char *)out.data,
                        "{\"events\":[{\"number\":2,\"time\":\"2023-11-14T22:13:20.000Z\","
                        "\"kind\":\"member\",\"text\":\"\\\"</script>\\n\xef\xbf\xbd\"}],"
                        "\"next\":null}");
    assert_int_equal(strlen(events->ring[0].text), EVENT_TEXT_BYTES - 1);
    buf_free(&out);
    events_free(events);
    free(events);
}

static void test_names(void **state)
{
    (void)state;
    for (unsigned i = 0; i < EVENT_KINDS; i++) {
        assert_true(strlen(event_kind_name((enum event_kind)i)) > 0);
        for (unsigned k = 0; k < i; k++) {
            assert_string_not_equal(event_kind_name((enum event_kind)i),
                                    event_kind_name((enum event_kind)k));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bound),
        cmocka_unit_test(test_texts),
        cmocka_unit_test(test_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
