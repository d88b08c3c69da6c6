/*
 * keys_scene.c - see keys_scene.h. Thread: the test's.
 */
#include <stdlib.h>

#include "src/id/fsm/tests/keys_scene.h"

#include "src/tests/unit/test.h"
#include "src/id/fsm/fsm_tables.h"

int keys_setup(void **state)
{
    struct id_apply *a = calloc(1, sizeof *a);

    assert_non_null(a);
    id_apply_init(a);
    id_apply_mode(a, "a", TAG_MODE_STRICT);
    assert_int_equal(id_apply_clock(a, NOW_MS), 0);
    *state = a;
    return 0;
}

int keys_teardown(void **state)
{
    struct id_apply *a = *state;
    struct fsm *other = fsm_of(state_new(&fsm_machine));

    id_apply_load(a, other);
    assert_true(state_digest(fsm_state(other)) == state_digest(fsm_state(a->fsm)));
    assert_int_equal(other->keys.table.count, a->fsm->keys.table.count);
    state_free(fsm_state(other));
    id_apply_free(a);
    free(a);
    return 0;
}

void gives(struct strict_result result, uint64_t first)
{
    assert_int_equal(result.status, 0);
    assert_true(result.first == first && !result.replayed);
}

void replays(struct strict_result result, uint64_t first)
{
    assert_int_equal(result.status, 0);
    assert_true(result.first == first && result.replayed);
}

void refuses(struct strict_result result, int status, uint64_t detail)
{
    assert_int_equal(result.status, status);
    assert_true(result.detail == detail && !result.replayed);
}
