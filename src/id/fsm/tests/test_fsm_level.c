/*
 * test_fsm_level.c - the level in force: how it rises, its row, and what happens to whoever does
 * not speak it. Thread: one.
 */
#include "src/tests/unit/test.h"
#include "src/id/fsm/fsm.h"
#include "src/id/tests/id_apply.h"
#include "src/tests/unit/hex.h"

#define LEVEL_KEY "73 6c6576656c"

static int setup(void **state)
{
    struct id_apply *apply = id_apply_new(state);

    state_speaks(fsm_state(apply->fsm), (struct level_range){1, 3});
    return 0;
}

/* The status that a raise was told; or what fsm_apply() returned. */
static int raise_to(struct id_apply *apply, uint16_t to)
{
    struct buf command = BUF_INIT;
    int32_t status = 0;
    int err;

    cluster_command_put(&command, COMMAND_LEVEL,
                        &(struct level_command){.to = to, .wall_ms = 1234});
    err = id_apply_bytes(apply, &command);
    if (err == 0) {
        assert_int_equal(status_result_decode(apply->result.data, apply->result.len, &status), 0);
    }
    buf_free(&command);
    return err != 0 ? err : status;
}

static void test_it_rises_one_by_one_and_never_falls(void **state)
{
    struct id_apply *apply = *state;
    struct level_row row;

    assert_int_equal(state_level(fsm_state(apply->fsm)), 1);
    assert_int_equal(raise_to(apply, 3), ERR_CONFLICT);
    assert_int_equal(raise_to(apply, 0), ERR_CONFLICT);
    assert_int_equal(raise_to(apply, 1), 0); /* it is so, and no row says it */
    assert_int_equal(apply->changed, 0);
    assert_int_equal(raise_to(apply, 2), 0);
    assert_int_equal(state_level(fsm_state(apply->fsm)), 2);
    assert_int_equal(raise_to(apply, 2), 0);
    assert_int_equal(apply->changed, 0);
    assert_int_equal(raise_to(apply, 1), ERR_CONFLICT);
    row = fsm_state(apply->fsm)->facts.level;
    assert_int_equal(row.level, 2);
    assert_int_equal(row.index, 4);
    assert_int_equal(row.wall_ms, 1234);
}

static void test_row_golden_and_loaded(void **state)
{
    struct id_apply *apply = *state;
    struct fsm *fsm = fsm_of(state_new(&fsm_machine));

    assert_int_equal(raise_to(apply, 2), 0);
    assert_true(hex_equal(&id_apply_kept(apply, 0)->key, LEVEL_KEY));
    assert_true(
        hex_equal(&id_apply_kept(apply, 0)->value, "01 0200 0100000000000000 d204000000000000"));
    state_speaks(fsm_state(fsm), (struct level_range){1, 2});
    id_apply_load(apply, fsm);
    assert_int_equal(state_level(fsm_state(fsm)), 2);
    assert_true(state_digest(fsm_state(fsm)) == state_digest(fsm_state(apply->fsm)));
    state_free(fsm_state(fsm));
}

static void test_what_is_above_is_not_applied(void **state)
{
    struct id_apply *apply = *state;
    struct buf command = BUF_INIT;
    uint64_t before;

    assert_int_equal(raise_to(apply, 2), 0);
    assert_int_equal(raise_to(apply, 3), 0);
    before = state_digest(fsm_state(apply->fsm));
    assert_int_equal(raise_to(apply, 4), ERR_NEWER);
    assert_int_equal(apply->result.len, 0);
    assert_int_equal(state_level(fsm_state(apply->fsm)), 3);
    hex_put(&command, "0063");
    command.data[0] = COMMAND_VERSION; /* a type that a later level brought */
    assert_false(state_can_apply(fsm_state(apply->fsm), command.data, command.len));
    command.data[0] = COMMAND_VERSION + 1;
    command.data[1] = COMMAND_NOOP;
    assert_false(state_can_apply(fsm_state(apply->fsm), command.data, command.len));
    command.data[0] = COMMAND_VERSION;
    assert_true(state_can_apply(fsm_state(apply->fsm), command.data,
                                command.len)); /* malformed, and known */
    assert_true(state_digest(fsm_state(apply->fsm)) == before);
    buf_free(&command);
}

static void test_rows_of_another_level(void **state)
{
    struct fsm *fsm = ((struct id_apply *)*state)->fsm;

    state_load_begin(fsm_state(fsm));
    assert_int_equal(id_load_hex(fsm, LEVEL_KEY, "01 0400 0100000000000000 0000000000000000"),
                     ERR_NEWER);
    assert_int_equal(state_level(fsm_state(fsm)), 4); /* so that it can be said which is needed */
    state_load_begin(fsm_state(fsm));
    assert_int_equal(id_load_hex(fsm, LEVEL_KEY, "02 0200 0100000000000000 0000000000000000"),
                     ERR_BAD_VERSION);
    assert_int_equal(id_load_hex(fsm, LEVEL_KEY, "01 0100 0100000000000000 0000000000000000"),
                     ERR_CORRUPT); /* the first level has no row */
    assert_int_equal(id_load_hex(fsm, LEVEL_KEY, "01 0200 0000000000000000 0000000000000000"),
                     ERR_CORRUPT);
    assert_int_equal(id_load_hex(fsm, LEVEL_KEY, "01 0200 0100000000000000"), ERR_TRUNCATED);
    assert_int_equal(id_load_hex(fsm, LEVEL_KEY, "01 0200 0100000000000000 0000000000000000"), 0);
    assert_int_equal(id_load_hex(fsm, LEVEL_KEY, "01 0300 0100000000000000 0000000000000000"),
                     ERR_EXISTS);
    assert_int_equal(id_load_hex(fsm, "7a 01", "01"), ERR_NEWER);     /* a table */
    assert_int_equal(id_load_hex(fsm, "73 6e6577", "01"), ERR_NEWER); /* a setting */
    assert_int_equal(state_load_end(fsm_state(fsm), 9), 0);
}

static void test_a_level_that_is_spoken_no_more(void **state)
{
    struct id_apply *apply = *state;
    struct fsm *fsm = fsm_of(state_new(&fsm_machine));

    state_speaks(fsm_state(fsm), (struct level_range){2, 3});
    state_load_begin(fsm_state(fsm));
    assert_int_equal(state_load_end(fsm_state(fsm), 1), ERR_BAD_VERSION);
    assert_int_equal(raise_to(apply, 2), 0);
    id_apply_load(apply, fsm);
    state_free(fsm_state(fsm));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, id_apply_drop)
    const struct CMUnitTest tests[] = {
        TEST(test_it_rises_one_by_one_and_never_falls), TEST(test_row_golden_and_loaded),
        TEST(test_what_is_above_is_not_applied),        TEST(test_rows_of_another_level),
        TEST(test_a_level_that_is_spoken_no_more),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
