/*
 * test_array.c - arrays that grow keep what is in them. Thread: one.
 */
#include <stdlib.h>

#include "src/tests/unit/test.h"
#include "src/base/buf.h"

static void test_array_grows_and_keeps_its_items(void **state)
{
    uint32_t *items = NULL;
    size_t capacity = 0;
    unsigned moves = 0;

    (void)state;
    for (uint32_t count = 0; count < 100000; count++) {
        size_t before = capacity;

        items = array_room(items, count, &capacity, sizeof *items);
        assert_true(capacity > count);
        moves += capacity != before;
        items[count] = count;
    }
    for (uint32_t i = 0; i < 100000; i++) {
        assert_int_equal(items[i], i);
    }
    assert_in_range(moves, 2, 30); /* each larger than the one before by a half */
    free(items);
}

static void test_array_with_room_stays_where_it_is(void **state)
{
    size_t capacity = 0;
    char *items = array_room(NULL, 0, &capacity, 1);
    size_t room = capacity;

    (void)state;
    assert_ptr_equal(array_room(items, 0, &capacity, 1), items);
    assert_ptr_equal(array_room(items, room - 1, &capacity, 1), items);
    assert_int_equal(capacity, room);
    free(items);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_array_grows_and_keeps_its_items),
        cmocka_unit_test(test_array_with_room_stays_where_it_is),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
