/*
 * keys_scene.c - see keys_scene.h. Thread: the test's.
 */
#include "src/tests/unit/test.h"
#include "src/id/fsm/tests/keys_scene.h"

int keys_setup(void **state)
{
    struct id_apply *a = id_apply_new(state);

    id_apply_mode(a, "a", TAG_MODE_STRICT);
    assert_int_equal(id_apply_clock(a, NOW_MS), 0);
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
