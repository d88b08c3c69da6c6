/*
 * test_fsm_birth.c - the birth of the cluster in the state machine: the first one holds, it is
 * nobody's command, and its row loads again.
 *
 * Thread: one.
 */
#include <string.h>

#include "src/tests/unit/test.h"
#include "src/id/tests/id_apply.h"
#include "src/tests/unit/hex.h"

#define KEY "73 6269727468" /* "s", "birth" */
#define UID "d041ec7dae4f1df8 f66b1ec9a00065a7 "
#define LIST "8877665544332211 "
#define WALL "0068e5cf8b010000"

static const struct birth BIRTH = {
    {0xf81d4fae7dec41d0, 0xa76500a0c91e6bf6}, 0x1122334455667788, 1700000000000, 0};

/* Apply the bytes as they are, unstamped; the status, or what fsm_apply() said. */
static int apply(struct fsm *fsm, struct buf *command, size_t *ret_changed)
{
    struct row_changes changes = {0};
    struct buf result = BUF_INIT;
    int32_t status = 0;
    int rv = state_apply(fsm_state(fsm), 7, 1, command->data, command->len, &result, &changes);

    assert_int_equal(status_result_decode(result.data, result.len, &status), 0);
    *ret_changed = changes.count;
    row_changes_release(&changes);
    buf_free(&result);
    buf_free(command);
    return rv != 0 ? rv : status;
}

static int apply_birth(struct fsm *fsm, const struct birth *birth, size_t *ret_changed)
{
    struct buf command = BUF_INIT;

    cluster_command_put(&command, COMMAND_BIRTH, birth);
    return apply(fsm, &command, ret_changed);
}

static void test_the_first_birth_holds_for_good(void **state)
{
    struct birth other = BIRTH;
    struct fsm *fsm = fsm_of(state_new(&fsm_machine));
    struct birth found;
    uint64_t digest;
    size_t changed;

    (void)state;
    assert_null(state_birth(fsm_state(fsm)));
    assert_int_equal(apply_birth(fsm, &BIRTH, &changed), 0);
    assert_int_equal(changed, 1);
    digest = state_digest(fsm_state(fsm));
    assert_true(digest != 0);
    other.uid = uid_make(1, 2);
    assert_int_equal(apply_birth(fsm, &other, &changed), ERR_EXISTS);
    assert_int_equal(changed, 0);
    assert_int_equal(apply_birth(fsm, &BIRTH, &changed), ERR_EXISTS);
    assert_non_null(state_birth(fsm_state(fsm)));
    found = *state_birth(fsm_state(fsm));
    assert_memory_equal(&found, &BIRTH, sizeof found);
    assert_true(state_digest(fsm_state(fsm)) == digest);
    state_free(fsm_state(fsm));
}

/* A cluster that is born at a level has it from its first entry on, and one that is born has the
 * level that it has. */
static void test_it_brings_the_level_that_it_names(void **state)
{
    struct fsm *fsm = fsm_of(state_new(&fsm_machine));
    struct birth born = BIRTH;
    struct buf command = BUF_INIT;
    struct level_row level;
    struct birth found;
    size_t changed;

    (void)state;
    born.level = 3;
    cluster_command_put(&command, COMMAND_BIRTH_AT, &born);
    assert_int_equal(command_raises_to(command.data, command.len), 3);
    assert_int_equal(apply(fsm, &command, &changed), 0);
    assert_int_equal(changed, 2);
    assert_non_null(state_birth(fsm_state(fsm)));
    found = *state_birth(fsm_state(fsm));
    assert_memory_equal(&found, &BIRTH, sizeof found);
    assert_int_equal(state_level(fsm_state(fsm)), 3);
    level = fsm_state(fsm)->facts.level;
    assert_true(level.index == 7 && level.wall_ms == BIRTH.wall_ms);
    cluster_command_put(&command, COMMAND_BIRTH_AT, &born);
    assert_int_equal(apply(fsm, &command, &changed), ERR_EXISTS);
    assert_int_equal(changed, 0);
    state_free(fsm_state(fsm));

    fsm = fsm_of(state_new(&fsm_machine));
    assert_int_equal(apply_birth(fsm, &BIRTH, &changed), 0);
    cluster_command_put(&command, COMMAND_BIRTH_AT, &born);
    assert_int_equal(apply(fsm, &command, &changed), ERR_EXISTS);
    assert_int_equal(state_level(fsm_state(fsm)), LEVEL_FIRST);
    state_free(fsm_state(fsm));
}

/* A leafd that does not speak it stops before the entry. One that knows no COMMAND_BIRTH_AT does
 * so for its type. */
static void test_one_at_a_level_that_is_not_spoken_is_not_applied(void **state)
{
    struct row_changes changes = {0};
    struct buf command = BUF_INIT;
    struct buf result = BUF_INIT;
    struct birth born = BIRTH;
    struct state *of = state_new(&fsm_machine);

    (void)state;
    born.level = (uint16_t)(level_own.max + 1);
    cluster_command_put(&command, COMMAND_BIRTH_AT, &born);
    assert_int_equal(state_apply(of, 7, 1, command.data, command.len, &result, &changes),
                     ERR_NEWER);
    assert_true(result.len == 0 && changes.count == 0);
    assert_null(state_birth(of));
    buf_free(&command);
    born = BIRTH;
    for (uint16_t level = 0; level < BIRTH_LEVEL_MIN; level++) { /* an older leafd reads none */
        born.level = level;
        cluster_command_put(&command, COMMAND_BIRTH_AT, &born);
        assert_int_equal(state_check(of, command.data, command.len), ERR_BAD_MESSAGE);
        buf_free(&command);
    }
    state_free(of);
}

/* The clock of a leader may say anything: it is only shown. */
static void test_a_time_beyond_what_can_be_shown_is_cut(void **state)
{
    struct birth late = BIRTH;
    struct fsm *fsm = fsm_of(state_new(&fsm_machine));
    size_t changed;

    (void)state;
    late.wall_ms = UINT64_MAX;
    assert_int_equal(apply_birth(fsm, &late, &changed), 0);
    assert_non_null(state_birth(fsm_state(fsm)));
    assert_int_equal(state_birth(fsm_state(fsm))->wall_ms, LIMIT_TIME_MAX_MS);
    state_free(fsm_state(fsm));
}

/* Only the first entry of a term, which is nobody's, can be it. */
static void test_a_node_cannot_ask_for_one(void **state)
{
    struct buf command = BUF_INIT;
    struct id_apply a;

    (void)state;
    id_apply_init(&a);
    cluster_command_put(&command, COMMAND_BIRTH, &BIRTH);
    assert_int_equal(id_apply_as(&a, 1, &command), ERR_BAD_MESSAGE);
    assert_null(state_birth(fsm_state(a.fsm)));
    buf_free(&command);
    id_apply_free(&a);
}

static void test_what_is_no_birth_changes_nothing(void **state)
{
    struct {
        struct birth birth;
    } bad[] = {
        {{.list_digest = 1}},                                  /* without a uid */
        {{.uid = uid_make(1, 2)}},                             /* without a digest */
        {{.uid = {1, 2}, .list_digest = 1}},                   /* no version 4 UUID */
        {{.uid = {uid_make(1, 2).high, 2}, .list_digest = 1}}, /* of another variant */
    };
    struct fsm *fsm = fsm_of(state_new(&fsm_machine));
    size_t changed;

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(apply_birth(fsm, &bad[i].birth, &changed), ERR_BAD_MESSAGE);
        assert_int_equal(changed, 0);
        assert_null(state_birth(fsm_state(fsm)));
    }
    state_free(fsm_state(fsm));
}

static void test_the_row_loads_and_damage_is_refused(void **state)
{
    struct fsm *fsm = fsm_of(state_new(&fsm_machine));
    struct fsm *same = fsm_of(state_new(&fsm_machine));
    struct birth found;
    size_t changed;

    (void)state;
    assert_int_equal(apply_birth(fsm, &BIRTH, &changed), 0);
    state_load_begin(fsm_state(same));
    assert_int_equal(id_load_hex(same, KEY, "02 " UID LIST WALL), ERR_BAD_VERSION);
    assert_int_equal(id_load_hex(same, KEY, "01 " UID LIST), ERR_TRUNCATED);
    assert_int_equal(id_load_hex(same, KEY, "01 " UID LIST WALL "00"), ERR_CORRUPT);
    assert_int_equal(id_load_hex(same, KEY, "01 " UID "0000000000000000" WALL), ERR_CORRUPT);
    assert_int_equal(id_load_hex(same, KEY, "01 " LIST UID LIST WALL), ERR_CORRUPT);
    assert_int_equal(id_load_hex(same, KEY, "01 " UID LIST "ffffffffffffffff"), ERR_CORRUPT);
    assert_int_equal(id_load_hex(same, KEY, "01 " UID LIST WALL), 0);
    assert_int_equal(id_load_hex(same, KEY, "01 " UID LIST WALL), ERR_EXISTS);
    assert_int_equal(id_load_hex(same, "73 6269727469", "01 " UID LIST WALL), ERR_NEWER);
    assert_int_equal(state_load_end(fsm_state(same), 7), 0);
    assert_non_null(state_birth(fsm_state(same)));
    found = *state_birth(fsm_state(same));
    assert_memory_equal(&found, &BIRTH, sizeof found);
    assert_true(state_digest(fsm_state(same)) == state_digest(fsm_state(fsm)));
    state_load_begin(fsm_state(same)); /* all is forgotten */
    assert_int_equal(state_load_end(fsm_state(same), 0), 0);
    assert_null(state_birth(fsm_state(same)));
    state_free(fsm_state(same));
    state_free(fsm_state(fsm));
}

static void test_a_uid_reads_as_a_uuid(void **state)
{
    char text[UID_TEXT_BYTES];
    struct uid uid;

    (void)state;
    assert_string_equal(uid_text(&BIRTH.uid, text), "f81d4fae-7dec-41d0-a765-00a0c91e6bf6");
    for (unsigned bits = 0; bits < 2; bits++) { /* whatever was drawn */
        uid = uid_make(bits ? UINT64_MAX : 0, bits ? UINT64_MAX : 0);
        assert_true(uid_is_sound(&uid) && !uid_is_none(&uid));
        assert_int_equal(uid_text(&uid, text)[14], '4');
        assert_non_null(strchr("89ab", text[19]));
    }
    assert_true(uid_is_sound(&(struct uid){0, 0}) && uid_is_none(&(struct uid){0, 0}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_first_birth_holds_for_good),
        cmocka_unit_test(test_it_brings_the_level_that_it_names),
        cmocka_unit_test(test_one_at_a_level_that_is_not_spoken_is_not_applied),
        cmocka_unit_test(test_a_time_beyond_what_can_be_shown_is_cut),
        cmocka_unit_test(test_a_node_cannot_ask_for_one),
        cmocka_unit_test(test_what_is_no_birth_changes_nothing),
        cmocka_unit_test(test_the_row_loads_and_damage_is_refused),
        cmocka_unit_test(test_a_uid_reads_as_a_uuid),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
