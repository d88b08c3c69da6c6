/*
 * four_ids.c - see four_ids.h. Thread: one.
 */
#include "src/tests/unit/test.h"
#include "src/id/tests/four_ids.h"

const struct snowflake_layout FOUR_IDS = {SNOWFLAKE_EPOCH_MS, 41, 2, 12};

int four_ids_setup(void **state)
{
    struct id_apply *a = id_apply_new(state);

    assert_int_equal(id_apply_layout(a, &FOUR_IDS), 0);
    assert_int_equal(id_apply_clock(a, T), 0);
    return 0;
}

struct worker_acquire four_ids_asking(const char *name)
{
    return (struct worker_acquire){.kind = WORKER_NODE,
                                   .worker_id = WORKER_ID_ANY,
                                   .window_ms = WINDOW,
                                   .wall_ms = T,
                                   .name = name};
}

struct worker_result four_ids_acquire(struct id_apply *a, const char *name)
{
    return id_apply_acquire(a, four_ids_asking(name));
}

void four_ids_granted(struct worker_result result, uint32_t id, uint64_t epoch, uint64_t from_ms,
                      uint64_t until_ms)
{
    assert_int_equal(result.status, 0);
    assert_true(result.has_row);
    assert_int_equal(result.row.state, WORKER_HELD);
    assert_int_equal(result.row.id, id);
    assert_true(result.row.epoch == epoch);
    assert_true(result.row.granted_from_ms == from_ms);
    assert_true(result.row.granted_until_ms == until_ms);
}

/* Refused, and nothing changed. */
void four_ids_refused(struct id_apply *a, struct worker_result result, int status)
{
    assert_int_equal(result.status, status);
    assert_int_equal(a->changed, 0);
}

struct worker_renew four_ids_renewal(uint32_t id, uint64_t epoch, uint64_t wall_ms)
{
    return (struct worker_renew){
        .worker_id = id, .epoch = epoch, .window_ms = WINDOW, .wall_ms = wall_ms};
}
