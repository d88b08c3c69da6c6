/*
 * test_wire.c - what a connection keeps of its input: as much as there is, and places in it stay
 * right when it moves.
 *
 * Thread: one.
 */
#include <string.h>

#include "src/tests/unit/test.h"
#include "http/server/wire.h"

static char lent[WIRE_INPUT_BYTES];

/* So many bytes came, each another than its neighbours. */
static void receive(struct wire *wire, uint32_t len)
{
    wire_borrow(wire, lent);
    for (uint32_t i = 0; i < len; i++) {
        wire->bytes[wire->end + i] = (char)('a' + (wire->end + i) % 23);
    }
    wire->end += len;
}

static void expect_kept(struct wire *wire, uint32_t len, uint32_t size)
{
    wire_keep(wire, lent, true, 0);
    assert_ptr_not_equal(wire->bytes, lent);
    assert_int_equal(wire_len(wire), len);
    assert_int_equal(wire->size, size);
    memset(lent, 0, sizeof lent); /* another connection's input */
}

static void test_memory_is_what_it_takes(void **state)
{
    static const uint32_t lens[] = {1,
                                    WIRE_STEP_BYTES - 1,
                                    WIRE_STEP_BYTES,
                                    513,
                                    2 * WIRE_STEP_BYTES,
                                    WIRE_INPUT_BYTES - 1,
                                    WIRE_INPUT_BYTES};

    (void)state;
    for (size_t i = 0; i < sizeof lens / sizeof *lens; i++) {
        uint32_t size = (lens[i] + WIRE_STEP_BYTES - 1) / WIRE_STEP_BYTES * WIRE_STEP_BYTES;
        struct wire wire = {0};

        receive(&wire, lens[i]);
        expect_kept(&wire, lens[i], size);
        for (uint32_t at = 0; at < lens[i]; at++) {
            assert_int_equal(wire.bytes[at], 'a' + at % 23);
        }
        wire_free(&wire, lent);
        assert_null(wire.bytes);
        assert_int_equal(wire.size, 0);
    }
}

/* Two pieces with a turn of another connection in between. */
static void test_it_goes_on_behind_what_was_kept(void **state)
{
    struct wire wire = {0};

    (void)state;
    receive(&wire, 700);
    expect_kept(&wire, 700, 1024);
    receive(&wire, 400);
    assert_ptr_equal(wire.bytes, lent);
    assert_int_equal(wire.size, 0);
    expect_kept(&wire, 1100, 1536);
    for (uint32_t at = 0; at < 1100; at++) {
        assert_int_equal(wire.bytes[at], 'a' + at % 23);
    }
    wire_free(&wire, lent);
}

static void test_places_move_along(void **state)
{
    struct wire wire = {0};

    (void)state;
    receive(&wire, 1000);
    wire.next = 300; /* the first request */
    wire_used(&wire);
    assert_int_equal(wire.start, 300);
    wire.next = 500; /* of the second, its head */
    expect_kept(&wire, 700, 1024);
    assert_int_equal(wire.start, 0);
    assert_int_equal(wire.next, 200);
    assert_int_equal(wire.bytes[0], 'a' + 300 % 23);
    wire_used(&wire);
    receive(&wire, 10); /* its memory goes with what was used */
    assert_int_equal(wire.start, 0);
    assert_int_equal(wire_len(&wire), 510);
    assert_int_equal(wire.bytes[0], 'a' + 500 % 23);
    wire.next = wire.end;
    wire_used(&wire);
    wire_keep(&wire, lent, true, 0);
    assert_null(wire.bytes);
}

/* What was used makes room where all of the lent memory is taken. */
static void test_room_at_the_end_of_the_lent_memory(void **state)
{
    struct wire wire = {0};

    (void)state;
    receive(&wire, WIRE_INPUT_BYTES);
    wire.next = 1;
    wire_used(&wire);
    wire_borrow(&wire, lent);
    assert_int_equal(wire.start, 0);
    assert_int_equal(wire.end, WIRE_INPUT_BYTES - 1);
    assert_int_equal(wire.bytes[0], 'b');
    wire_drop(&wire);
    wire_keep(&wire, lent, true, 0);
    assert_null(wire.bytes);
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
