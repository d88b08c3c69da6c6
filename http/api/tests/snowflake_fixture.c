/*
 * snowflake_fixture.c - see snowflake_fixture.h.
 */
#include "http/api/tests/snowflake_fixture.h"

#include <stdlib.h>

#include "src/tests/unit/test.h"
#include "src/base/assert.h"

#define HOUR_MS 3600000

static void prepare_bare(struct fixture *f)
{
    fake_snowflake(&f->fake);
    fake_set_wall(&f->fake, T0);
}

static void prepare(struct fixture *f, const struct snowflake_layout *layout, uint32_t worker)
{
    prepare_bare(f);
    snowflake_set_layout(&f->fake.snowflake, layout);
    assert_non_null(
        snowflake_add(&f->fake.snowflake, worker, T0 - HOUR_MS, T0 + HOUR_MS, T0 + HOUR_MS));
}

static void prepare_leaf(struct fixture *f)
{
    static const struct snowflake_layout layout = SNOWFLAKE_LEAF_LAYOUT;
    struct segment_range range;
    bool notify;

    prepare(f, &layout, 7);
    /* A full millisecond long ago: so that the test's first one begins at 0. */
    fake_set_wall(&f->fake, T0 - HOUR_MS + 1);
    assert_int_equal(snowflake_claim(&f->fake.snowflake, NULL, 0, 4096, 0, &range, &notify), 0);
    fake_set_wall(&f->fake, T0);
}

static void prepare_small(struct fixture *f)
{
    static const struct snowflake_layout layout = SNOWFLAKE_JS53_LAYOUT;

    assert_int_equal(layout.sequence_bits, SMALL_BITS);
    prepare(f, &layout, 5);
}

static int setup(void **state, void (*prepare_with)(struct fixture *f))
{
    struct fixture *f = malloc(sizeof *f);

    ASSERT(f != NULL);
    fixture_start_with(f, NULL, prepare_with);
    *state = f;
    return 0;
}

int snowflake_setup(void **state)
{
    return setup(state, prepare_leaf);
}

int snowflake_setup_small(void **state)
{
    return setup(state, prepare_small);
}

int snowflake_setup_bare(void **state)
{
    return setup(state, prepare_bare);
}

int workers_setup(void **state)
{
    static const struct snowflake_layout layout = SNOWFLAKE_JS53_LAYOUT;
    struct fixture *f;

    (void)snowflake_setup_bare(state);
    f = *state;
    fake_log_time(&f->fake, T0);
    fake_log_layout(&f->fake, &layout);
    snowflake_set_layout(&f->fake.snowflake, &layout);
    return 0;
}

struct snowflake_slot *snowflake_slot_of(struct fixture *f)
{
    ASSERT(atomic_load(&f->fake.snowflake.slot_count) > 0);
    return &f->fake.snowflake.slots[0];
}

void snowflake_at(struct fixture *f, int64_t ms)
{
    fake_set_wall(&f->fake, (uint64_t)((int64_t)T0 + ms));
}

void snowflake_use_up(struct fixture *f)
{
    struct segment_range range;
    bool notify;
    int rv;

    do {
        rv = snowflake_claim(&f->fake.snowflake, NULL, 0, UINT32_MAX, 0, &range, &notify);
    } while (rv == 0);
    assert_int_equal(rv, ERR_EMPTY);
}

struct snowflake_parts snowflake_one(struct fixture *f, struct reply *reply)
{
    uint64_t id;
    char *end;

    assert_int_equal(reply->status, 200);
    assert_true(reply->len > 0);
    id = strtoull(reply->body, &end, 10);
    assert_int_equal(end - reply->body, (long)reply->len);
    reply_release(reply);
    return snowflake_decode(&f->fake.snowflake.layout, id);
}

size_t snowflake_lines(const struct reply *reply, uint64_t *ret_ids, size_t max)
{
    const char *at = reply->body;
    size_t count = 0;
    char *end;

    assert_int_equal(reply->status, 200);
    while (at < reply->body + reply->len) {
        assert_true(count < max);
        ret_ids[count] = strtoull(at, &end, 10);
        assert_true(end > at && *end == '\n');
        assert_true(count == 0 || ret_ids[count] > ret_ids[count - 1]);
        count++;
        at = end + 1;
    }
    return count;
}
