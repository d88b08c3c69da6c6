/*
 * test_input.c - what a connection keeps of its input: as much as there is, and places in it stay
 * right when it moves.
 *
 * Thread: one.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "http/server/input.h"

static char lent[INPUT_BYTES];

/* So many bytes came, each another than its neighbours. */
static void receive(struct input *input, uint32_t len)
{
    input_borrow(input, lent);
    for (uint32_t i = 0; i < len; i++) {
        input->bytes[input->end + i] = (char)('a' + (input->end + i) % 23);
    }
    input->end += len;
}

static void expect_kept(struct input *input, uint32_t len, uint32_t size)
{
    input_keep(input, lent);
    assert_ptr_not_equal(input->bytes, lent);
    assert_int_equal(input_len(input), len);
    assert_int_equal(input->size, size);
    memset(lent, 0, sizeof lent); /* another's input */
}

static void test_memory_is_what_it_takes(void **state)
{
    static const uint32_t lens[] = {1,          INPUT_STEP_BYTES - 1, INPUT_STEP_BYTES,
                                    513,        2 * INPUT_STEP_BYTES, INPUT_BYTES - 1,
                                    INPUT_BYTES};

    (void)state;
    for (size_t i = 0; i < sizeof lens / sizeof *lens; i++) {
        uint32_t size = (lens[i] + INPUT_STEP_BYTES - 1) / INPUT_STEP_BYTES * INPUT_STEP_BYTES;
        struct input input = {0};

        receive(&input, lens[i]);
        expect_kept(&input, lens[i], size);
        for (uint32_t at = 0; at < lens[i]; at++) {
            assert_int_equal(input.bytes[at], 'a' + at % 23);
        }
        input_free(&input, lent);
        assert_null(input.bytes);
        assert_int_equal(input.size, 0);
    }
}

/* Two pieces with a turn of another connection in between. */
static void test_it_goes_on_behind_what_was_kept(void **state)
{
    struct input input = {0};

    (void)state;
    receive(&input, 700);
    expect_kept(&input, 700, 1024);
    receive(&input, 400);
    assert_ptr_equal(input.bytes, lent);
    assert_int_equal(input.size, 0);
    expect_kept(&input, 1100, 1536);
    for (uint32_t at = 0; at < 1100; at++) {
        assert_int_equal(input.bytes[at], 'a' + at % 23);
    }
    input_free(&input, lent);
}

static void test_places_move_along(void **state)
{
    struct input input = {0};

    (void)state;
    receive(&input, 1000);
    input.next = 300; /* the first request */
    input_used(&input);
    assert_int_equal(input.start, 300);
    input.next = 500; /* of the second, its head */
    expect_kept(&input, 700, 1024);
    assert_int_equal(input.start, 0);
    assert_int_equal(input.next, 200);
    assert_int_equal(input.bytes[0], 'a' + 300 % 23);
    input_used(&input);
    receive(&input, 10); /* its memory goes with what was used */
    assert_int_equal(input.start, 0);
    assert_int_equal(input_len(&input), 510);
    assert_int_equal(input.bytes[0], 'a' + 500 % 23);
    input.next = input.end;
    input_used(&input);
    input_keep(&input, lent);
    assert_null(input.bytes);
}

/* What was used makes room where all of the lent memory is taken. */
static void test_room_at_the_end_of_the_lent_memory(void **state)
{
    struct input input = {0};

    (void)state;
    receive(&input, INPUT_BYTES);
    input.next = 1;
    input_used(&input);
    input_borrow(&input, lent);
    assert_int_equal(input.start, 0);
    assert_int_equal(input.end, INPUT_BYTES - 1);
    assert_int_equal(input.bytes[0], 'b');
    input_drop(&input);
    input_keep(&input, lent);
    assert_null(input.bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory_is_what_it_takes),
        cmocka_unit_test(test_it_goes_on_behind_what_was_kept),
        cmocka_unit_test(test_places_move_along),
        cmocka_unit_test(test_room_at_the_end_of_the_lent_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
