/*
 * test_trial.c - the rows of a snapshot, tried as they come: in slices of time, cut anywhere, with
 * a bound; what fits its digest and makes no state; and the state machine that takes another's
 * place.
 *
 * Thread: one.
 */
#include <stdio.h>
#include <string.h>

#include "src/tests/unit/test.h"
#include "raft/core/snapshot.h"
#include "raft/tests/raft_fakes.h"
#include "src/base/hash.h"
#include "src/id/fsm/fsm.h"
#include "src/id/fsm/fsm_tables.h"

#define ROWS 1000

struct stream {
    struct buf bytes;
    uint64_t digest;
};

static void put_row(struct stream *stream, const void *key, size_t key_len, const void *value,
                    size_t value_len)
{
    buf_put_str16(&stream->bytes, key, key_len);
    buf_put_str32(&stream->bytes, value, value_len);
    stream->digest += hash_row(key, key_len, value, value_len);
}

/* The rows of so many tags, as a store gives them: in order. */
static void make_stream(struct stream *stream, unsigned count)
{
    struct state *state = state_new(&fsm_machine);
    struct fsm *fsm = fsm_of(state);
    struct row_changes changes = {0};

    memset(stream, 0, sizeof *stream);
    state->journal.changes = &changes;
    for (unsigned i = 0; i < count; i++) {
        char name[16];
        struct fsm_row *row;

        snprintf(name, sizeof name, "tag%08u", i);
        row = fsm_tags_make(&fsm->tags, name, strlen(name), NULL, NULL);
        row->step = 1;
        row->max_step = 1;
        row->generation = 1;
        fsm_tags_change_end(fsm, row);
    }
    state->journal.changes = NULL;
    for (size_t i = 0; i < changes.count; i++) {
        put_row(stream, changes.items[i].key, changes.items[i].key_len, changes.items[i].value,
                changes.items[i].value_len);
    }
    assert_true(stream->digest == state_digest(state));
    row_changes_release(&changes);
    state_free(state);
}

/* Each look at it is a millisecond later. */
static uint64_t ticking_ms(const struct clock *clock)
{
    return ++*(uint64_t *)clock->data;
}

static void test_in_slices_of_time(void **state)
{
    uint64_t now_ms = 0;
    const struct clock clock = {.now_ms = ticking_ms, .data = &now_ms};
    struct stream stream;
    struct trial trial = {0};
    unsigned steps = 1;
    bool fits;

    (void)state;
    make_stream(&stream, ROWS);
    trial_begin(&trial, &fsm_machine, level_own, 0);
    while (!trial_step(&trial, stream.bytes.data, stream.bytes.len, true, &clock)) {
        steps++;
    }
    assert_true(steps >= ROWS / 64 / (TRIAL_MS + 1) && steps > 1);
    assert_int_equal(trial_end(&trial, stream.digest, 7, &fits), 0);
    assert_true(fits);
    assert_int_equal(fsm_tag_count(fsm_of(trial.state)), ROWS);
    trial_drop(&trial);
    buf_free(&stream.bytes);
}

static void test_cut_at_each_byte(void **state)
{
    struct fake_clock fake;
    struct stream stream;
    struct trial trial = {0};
    bool fits;

    (void)state;
    fake_clock_init(&fake, 1000);
    make_stream(&stream, 3);
    trial_begin(&trial, &fsm_machine, level_own, 0);
    for (size_t len = 0; len < stream.bytes.len; len++) {
        assert_true(trial_step(&trial, stream.bytes.data, len, false, &fake.base));
    }
    assert_int_equal(fsm_tag_count(fsm_of(trial.state)), 2);
    assert_true(trial_step(&trial, stream.bytes.data, stream.bytes.len, true, &fake.base));
    assert_int_equal(trial_end(&trial, stream.digest, 7, &fits), 0);
    /* Cut for good: no rows at all. */
    trial_begin(&trial, &fsm_machine, level_own, 0);
    assert_true(trial_step(&trial, stream.bytes.data, stream.bytes.len - 1, true, &fake.base));
    assert_int_equal(trial_end(&trial, stream.digest, 7, &fits), ERR_CORRUPT);
    assert_false(fits);
    trial_drop(&trial);
    buf_free(&stream.bytes);
}

static void test_what_fits_and_makes_no_state(void **state)
{
    struct fake_clock fake;
    struct stream stream = {BUF_INIT, 0};
    struct trial trial = {0};
    bool fits;

    (void)state;
    fake_clock_init(&fake, 1000);
    put_row(&stream, "t", 1, "x", 1);
    trial_begin(&trial, &fsm_machine, level_own, 0);
    assert_true(trial_step(&trial, stream.bytes.data, stream.bytes.len, true, &fake.base));
    assert_int_not_equal(trial_end(&trial, stream.digest, 7, &fits), 0);
    assert_true(fits);
    /* And one that does not fit is nobody's lie. */
    trial_begin(&trial, &fsm_machine, level_own, 0);
    assert_true(trial_step(&trial, stream.bytes.data, stream.bytes.len, true, &fake.base));
    assert_int_equal(trial_end(&trial, stream.digest + 1, 7, &fits), ERR_CORRUPT);
    assert_false(fits);
    /* Of a table that a later level brought. */
    stream.bytes.len = 0;
    stream.digest = 0;
    put_row(&stream, "~x", 2, "x", 1);
    trial_begin(&trial, &fsm_machine, level_own, 0);
    assert_true(trial_step(&trial, stream.bytes.data, stream.bytes.len, true, &fake.base));
    assert_int_equal(trial_end(&trial, stream.digest, 7, &fits), ERR_NEWER);
    trial_drop(&trial);
    buf_free(&stream.bytes);
}

static void test_rows_out_of_order(void **state)
{
    struct fake_clock fake;
    struct stream stream = {BUF_INIT, 0};
    struct trial trial = {0};
    bool fits;

    (void)state;
    fake_clock_init(&fake, 1000);
    put_row(&stream, "tb", 2, "x", 1);
    put_row(&stream, "ta", 2, "x", 1);
    trial_begin(&trial, &fsm_machine, level_own, 0);
    assert_true(trial_step(&trial, stream.bytes.data, stream.bytes.len, true, &fake.base));
    assert_int_equal(trial_end(&trial, stream.digest, 7, &fits), ERR_CORRUPT);
    assert_false(fits);
    trial_drop(&trial);
    buf_free(&stream.bytes);
}

static void test_more_than_the_state_may_take(void **state)
{
    struct fake_clock fake;
    uint64_t bytes;
    struct stream stream;
    struct trial trial = {0};
    bool fits;

    (void)state;
    fake_clock_init(&fake, 1000);
    make_stream(&stream, 1024); /* it looks after each 64 rows */
    trial_begin(&trial, &fsm_machine, level_own, 0);
    assert_true(trial_step(&trial, stream.bytes.data, stream.bytes.len, true, &fake.base));
    bytes = state_memory(trial.state);
    for (int less = 0; less <= 1; less++) {
        trial_begin(&trial, &fsm_machine, level_own, bytes - (uint64_t)less);
        assert_true(trial_step(&trial, stream.bytes.data, stream.bytes.len, true, &fake.base));
        assert_int_equal(trial_end(&trial, stream.digest, 7, &fits), less ? ERR_STATE_FULL : 0);
    }
    trial_drop(&trial);
    buf_free(&stream.bytes);
}

/* The new state is as if it had been loaded there; the old one is whole, and can be freed. */
static void test_a_state_takes_the_place_of_another(void **state)
{
    struct fake_clock fake;
    struct stream stream;
    struct trial trial = {0};
    struct fsm *fsm = fsm_of(state_new(&fsm_machine));
    struct fsm_row *row;
    struct state *other;
    uint64_t digest;
    bool fits;

    (void)state;
    fake_clock_init(&fake, 1000);
    make_stream(&stream, 10);
    state_load_begin(fsm_state(fsm));
    assert_int_equal(state_load_end(fsm_state(fsm), 3), 0);
    trial_begin(&trial, &fsm_machine, level_own, 0);
    assert_true(trial_step(&trial, stream.bytes.data, stream.bytes.len, true, &fake.base));
    assert_int_equal(trial_end(&trial, stream.digest, 7, &fits), 0);
    other = trial.state;
    trial.state = NULL;
    state_take(fsm_state(fsm), other);
    assert_true(state_digest(fsm_state(fsm)) == stream.digest);
    assert_int_equal(fsm_tag_count(fsm), 10);
    assert_true(state_digest_at(fsm_state(fsm), 7, &digest) && digest == stream.digest);
    assert_int_equal(fsm_tag_count(fsm_of(other)), 0);
    state_free(other);
    row = fsm_tags_find(&fsm->tags, "tag00000003", 11);
    fsm_tags_change_begin(fsm, row);
    row->max_id = 99;
    fsm_tags_change_end(fsm, row);
    assert_true(state_digest(fsm_state(fsm)) != stream.digest);
    state_free(fsm_state(fsm));
    trial_drop(&trial);
    buf_free(&stream.bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_in_slices_of_time),
        cmocka_unit_test(test_cut_at_each_byte),
        cmocka_unit_test(test_what_fits_and_makes_no_state),
        cmocka_unit_test(test_rows_out_of_order),
        cmocka_unit_test(test_more_than_the_state_may_take),
        cmocka_unit_test(test_a_state_takes_the_place_of_another),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
