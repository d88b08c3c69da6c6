/*
 * test_fsm_layouts.c - named layouts in the state machine: made once, never changed, deleted to
 * tombstones; their rows, their loading, and what the listener hears.
 *
 * Thread: one.
 */
#include <stdio.h>
#include <string.h>

#include "src/tests/unit/test.h"
#include "src/id/tests/id_apply.h"
#include "src/tests/unit/hex.h"

#define T 1700000000000ULL
#define KEY "76 733130" /* vs10 */
#define VALUE "01 00 0a00 00d8822e48010000 27 10 08 01 0000000000000000"

static const struct named_layout SONY = {{1409529600000, 39, 16, 8}, 10, LAYOUT_WORKER_LAST};

static const struct layout_row *row_of(struct id_apply *a, const char *name)
{
    uint32_t count;
    const struct layout_row *rows = fsm_layouts(a->fsm, &count);

    for (uint32_t i = 0; i < count; i++) {
        if (strcmp(rows[i].name, name) == 0) {
            return &rows[i];
        }
    }
    return NULL;
}

static void test_a_layout_never_changes(void **state)
{
    struct id_apply *a = *state;
    struct named_layout others[7] = {SONY, SONY, SONY, SONY, SONY, SONY, SONY};

    assert_int_equal(id_apply_layout_put(a, "s10", &SONY), 0);
    assert_int_equal(a->changed, 1);
    assert_int_equal(id_apply_layout_put(a, "s10", &SONY), 0); /* the same again */
    assert_int_equal(a->changed, 0);
    others[0].bits.epoch_ms++;
    others[1].bits.time_bits--;
    others[2].bits.worker_bits--;
    others[3].bits.sequence_bits--;
    others[4].unit_ms = 1;
    others[5].order = LAYOUT_SEQUENCE_LAST;
    others[6].unit_ms = 7; /* breaks a rule, too */
    for (size_t i = 0; i < 7; i++) {
        assert_int_equal(id_apply_layout_put(a, "s10", &others[i]), ERR_CONFLICT);
        assert_int_equal(a->changed, 0);
    }
    assert_true(named_layout_equal(&row_of(a, "s10")->layout, &SONY));
    assert_int_equal(id_apply_layout_put(a, "s1", &others[0]), 0); /* a name of its own */
}

static void test_a_tombstone_keeps_what_its_name_means(void **state)
{
    struct id_apply *a = *state;
    struct named_layout other = SONY;

    other.bits.epoch_ms++;
    assert_int_equal(id_apply_layout_delete(a, "s10"), ERR_NOT_FOUND);
    assert_int_equal(id_apply_layout_put(a, "s10", &SONY), 0);
    assert_int_equal(id_apply_layout_delete(a, "s1"), ERR_NOT_FOUND);
    assert_int_equal(id_apply_layout_delete(a, "s10"), 0);
    assert_int_equal(a->changed, 1);
    assert_true(row_of(a, "s10")->deleted);
    assert_int_equal(id_apply_layout_delete(a, "s10"), ERR_NOT_FOUND);
    assert_int_equal(a->changed, 0);
    assert_int_equal(id_apply_layout_put(a, "s10", &other), ERR_CONFLICT);
    assert_int_equal(id_apply_layout_put(a, "s10", &SONY), 0);
    assert_int_equal(a->changed, 1);
    assert_false(row_of(a, "s10")->deleted);
}

static void test_rules_are_held_against_the_time_of_the_log(void **state)
{
    struct id_apply *a = *state;
    struct named_layout layout = SONY;

    assert_int_equal(id_apply_clock(a, T), 0);
    assert_int_equal(id_apply_layout_put(a, "S", &SONY), ERR_INVALID);
    assert_int_equal(id_apply_layout_put(a, "", &SONY), ERR_INVALID);
    layout.bits.epoch_ms = T + 1;
    assert_int_equal(id_apply_layout_put(a, "s", &layout), ERR_INVALID);
    layout.bits.epoch_ms = T - (10ULL << 24);
    layout.bits.time_bits = 24;
    assert_int_equal(id_apply_layout_put(a, "s", &layout), ERR_INVALID); /* over */
    layout.bits.epoch_ms++;
    assert_int_equal(id_apply_layout_put(a, "s", &layout), 0);
    assert_int_equal(id_apply_clock(a, T + 1), 0);
    assert_int_equal(id_apply_layout_put(a, "s", &layout), 0); /* over by now, and there */
    assert_int_equal(a->changed, 0);
    assert_int_equal(id_apply_layout_delete(a, "s"), 0);
    assert_int_equal(id_apply_layout_put(a, "s", &layout), ERR_INVALID); /* what for? */
}

static void test_names_are_bounded(void **state)
{
    struct id_apply *a = *state;
    char name[8];

    for (unsigned i = 0; i < LIMIT_LAYOUTS; i++) {
        (void)snprintf(name, sizeof name, "n%u", i);
        assert_int_equal(id_apply_layout_put(a, name, &SONY), 0);
    }
    assert_int_equal(id_apply_layout_put(a, "more", &SONY), ERR_OVERLOADED);
    assert_int_equal(id_apply_layout_delete(a, "n0"), 0);
    assert_int_equal(id_apply_layout_put(a, "more", &SONY), ERR_OVERLOADED); /* n0 stays */
    assert_int_equal(id_apply_layout_put(a, "n0", &SONY), 0);
}

/* --- rows --- */

static void test_rows_load_to_the_same_state(void **state)
{
    struct id_apply *a = *state;
    struct fsm *loaded = fsm_of(state_new(&fsm_machine));
    uint32_t count;

    a->wall_ms = 0;
    assert_int_equal(id_apply_layout_put(a, "s10", &SONY), 0);
    assert_true(hex_equal(&id_apply_kept(a, 0)->key, KEY));
    assert_true(hex_equal(&id_apply_kept(a, 0)->value, VALUE));
    assert_int_equal(id_apply_layout_put(a, "other", &SONY), 0);
    assert_int_equal(id_apply_layout_delete(a, "other"), 0);
    id_apply_load(a, loaded);
    assert_true(state_digest(fsm_state(loaded)) == state_digest(fsm_state(a->fsm)));
    assert_int_equal(fsm_layouts(loaded, &count)[0].layout.unit_ms, 10);
    assert_int_equal(count, 2);
    state_load_begin(fsm_state(loaded));
    (void)fsm_layouts(loaded, &count);
    assert_int_equal(count, 0);
    state_free(fsm_state(loaded));
}

static void test_load_refuses_damage(void **state)
{
    struct fsm *fsm = ((struct id_apply *)*state)->fsm;
    char key[16];

    state_load_begin(fsm_state(fsm));
    assert_int_equal(id_load_hex(fsm, "76", VALUE), ERR_CORRUPT);
    assert_int_equal(id_load_hex(fsm, "76 53", VALUE), ERR_CORRUPT);
    assert_int_equal(id_load_hex(fsm, KEY, ""), ERR_TRUNCATED);
    assert_int_equal(id_load_hex(fsm, KEY, "01 00 0a00"), ERR_TRUNCATED);
    assert_int_equal(id_load_hex(fsm, KEY, "02" VALUE), ERR_BAD_VERSION);
    assert_int_equal(id_load_hex(fsm, KEY, VALUE "00"), ERR_CORRUPT);
    assert_int_equal(
        id_load_hex(fsm, KEY, "01 02 0a00 00d8822e48010000 27 10 08 01 0000000000000000"),
        ERR_CORRUPT);
    assert_int_equal(
        id_load_hex(fsm, KEY, "01 00 0b00 00d8822e48010000 27 10 08 01 0000000000000000"),
        ERR_CORRUPT);
    assert_int_equal(
        id_load_hex(fsm, KEY, "01 00 0a00 00d8822e48010000 27 10 08 01 ffffffffffffffff"),
        ERR_CORRUPT);
    assert_int_equal(id_load_hex(fsm, KEY, VALUE), 0);
    assert_int_equal(id_load_hex(fsm, KEY, VALUE), ERR_EXISTS);
    for (unsigned i = 1; i < LIMIT_LAYOUTS; i++) {
        (void)snprintf(key, sizeof key, "76 %02x %02x", 'a' + i / 26, 'a' + i % 26);
        assert_int_equal(id_load_hex(fsm, key, VALUE), 0);
    }
    assert_int_equal(id_load_hex(fsm, "76 7a", VALUE), ERR_CORRUPT); /* one too many */
    assert_int_equal(state_load_end(fsm_state(fsm), 1), 0);
}

/* --- listener --- */

struct watcher {
    struct fsm_listener listener;
    unsigned heard;
    unsigned deleted;
};

static void changed_cb(struct fsm_listener *listener, const struct layout_row *row)
{
    struct watcher *watcher = (struct watcher *)listener;

    watcher->heard++;
    watcher->deleted += row->deleted;
}

static void test_listener_hears_of_changes_and_of_loaded_rows(void **state)
{
    struct id_apply *a = *state;
    struct watcher watcher = {.listener = {.named_layout_changed = changed_cb}};
    struct fsm *loaded = fsm_of(state_new(&fsm_machine));
    struct fsm *empty;

    fsm_listen(a->fsm, &watcher.listener);
    (void)id_apply_layout_put(a, "a", &SONY);
    (void)id_apply_layout_put(a, "b", &SONY);
    (void)id_apply_layout_put(a, "b", &SONY);
    assert_int_equal(watcher.heard, 2);
    (void)id_apply_layout_delete(a, "b");
    assert_int_equal(watcher.heard, 3);
    assert_int_equal(watcher.deleted, 1);
    fsm_listen(a->fsm, NULL);
    watcher = (struct watcher){.listener = watcher.listener};
    id_apply_load(a, loaded);
    fsm_listen(loaded, &watcher.listener);
    empty = fsm_of(state_new(&fsm_machine));
    state_take(fsm_state(loaded), fsm_state(empty));
    assert_int_equal(watcher.heard, 0); /* of an empty state */
    state_take(fsm_state(loaded), fsm_state(empty));
    assert_int_equal(watcher.heard, 2);
    assert_int_equal(watcher.deleted, 1);
    state_free(fsm_state(loaded));
    state_free(fsm_state(empty));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, id_apply_begin, id_apply_drop)
    const struct CMUnitTest tests[] = {
        TEST(test_a_layout_never_changes),
        TEST(test_a_tombstone_keeps_what_its_name_means),
        TEST(test_rules_are_held_against_the_time_of_the_log),
        TEST(test_names_are_bounded),
        TEST(test_rows_load_to_the_same_state),
        TEST(test_load_refuses_damage),
        TEST(test_listener_hears_of_changes_and_of_loaded_rows),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
