/*
 * test_usage.c - how many ids of a tag a node hands out a second: one rate in every mode, which
 * falls to 0, whatever becomes of the tag.
 *
 * Thread: one. Time is the test's own.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/tests/unit/test.h"
#include "src/id/tests/id_world.h"

static void pass_ms(struct id_world *w, uint64_t ms)
{
    for (uint64_t end_ms = w->now_ms + ms; w->now_ms < end_ms; w->now_ms += 100) {
        id_world_turn(w);
    }
}

static uint64_t rate_of(struct id_world *w, const char *name)
{
    struct id_segments_page page;
    uint64_t rate = UINT64_MAX;

    allocator_segments(w->allocator, name, strlen(name), "", 0, 1, &page);
    if (page.count == 1) {
        rate = page.items[0].rate_per_s;
    }
    free(page.items);
    return rate;
}

/* The node answered a strict or monotonic request. */
static void answered(struct id_world *w, const char *name, uint32_t count, bool replayed)
{
    const struct strict_item item = {
        .name = name, .name_len = (uint16_t)strlen(name), .count = count};
    const struct strict_result result = {.first = 1, .replayed = replayed};
    struct cluster_request request = {.kind = ID_REQUEST_STRICT};

    strict_item_encode(&item, &request.payload);
    results_encode(RESULT_STRICT, &result, 1, &request.reply);
    allocator_answered(w->allocator, &request);
    buf_free(&request.payload);
    buf_free(&request.reply);
}

/* As claimers do; a segment that is used up is followed by the next. */
static void claim(struct id_world *w, struct id_tag *tag, uint32_t count)
{
    struct segment_range range;
    struct segment_view view;

    for (; count > 0; count -= range.count) {
        if (segment_claim(&tag->buffer, 1, count, &range, &view) != 0) {
            range.count = 0;
            id_world_load(w, tag);
        }
    }
}

/* 500 ids a second of each, for half a minute; then none. */
static void test_one_rate_of_all_modes(void **state)
{
    struct id_world *w = *state;
    struct id_tag *trend = id_world_tag(w, "trend", 1000000);
    struct id_tag *short_steps = id_world_tag(w, "small", 7);
    static const char *const names[] = {"trend", "small", "strict", "mono"};

    id_world_max_step(w, "small", 7);
    (void)id_world_tag(w, "strict", 10);
    (void)id_world_tag(w, "mono", 10);
    for (unsigned i = 0; i < 300; i++) {
        claim(w, trend, 50);
        claim(w, short_steps, 50);
        answered(w, "strict", 50, false);
        answered(w, "mono", 50, false);
        pass_ms(w, 100);
    }
    for (unsigned i = 0; i < 4; i++) {
        assert_in_range(rate_of(w, names[i]), 475, 525);
    }
    assert_int_equal(allocator_usage(w->allocator)->count, 4);
    pass_ms(w, 2 * USAGE_HALF_MS);
    for (unsigned i = 0; i < 4; i++) {
        assert_in_range(rate_of(w, names[i]), 100, 150);
    }
    pass_ms(w, 12ULL * USAGE_HALF_MS);
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(rate_of(w, names[i]), 0);
    }
}

/* A burst that ends within a segment, and of which nobody asks for a minute and a half. */
static void test_a_burst_is_over_at_the_first_look(void **state)
{
    struct id_world *w = *state;
    struct id_tag *tag = id_world_tag(w, "order", 1000000);

    claim(w, tag, 1);
    pass_ms(w, 2000);
    claim(w, tag, 900000);
    pass_ms(w, 1000);
    assert_true(rate_of(w, "order") > 100000);
    claim(w, tag, 50000);
    pass_ms(w, 90000);
    assert_int_equal(rate_of(w, "order"), 0);
}

/* Ids that were burnt, given back or said again were not handed out. */
static void test_what_is_no_use(void **state)
{
    struct id_world *w = *state;
    struct id_tag *tag = id_world_tag(w, "order", 1000);

    claim(w, tag, 1);
    pass_ms(w, 20ULL * USAGE_HALF_MS);
    id_world_mode(w, "order", TAG_MODE_STRICT);
    allocator_tag_changed(w->allocator, id_world_row(w, "order"));
    assert_int_equal(segment_left(&tag->buffer), 0);
    pass_ms(w, 1000);
    assert_int_equal(rate_of(w, "order"), 0);
    answered(w, "order", 1000, true);
    answered(w, "of another node", 1000, false);
    pass_ms(w, 1000);
    assert_int_equal(rate_of(w, "order"), 0);
    answered(w, "order", 1000, false);
    pass_ms(w, 1000);
    assert_in_range(rate_of(w, "order"), 140, 180);
    id_world_mode(w, "order", TAG_MODE_TREND); /* the rate goes on */
    allocator_tag_changed(w->allocator, id_world_row(w, "order"));
    pass_ms(w, 1000);
    assert_in_range(rate_of(w, "order"), 115, 155);
    claim(w, tag, 1);
    pass_ms(w, 20ULL * USAGE_HALF_MS);
    assert_int_equal(rate_of(w, "order"), 0);
}

/* More than are looked at in a second, and the busiest among them, fastest first or not. */
static void test_many_tags(void **state)
{
    struct id_world *w = *state;
    const struct usage *usage = allocator_usage(w->allocator);
    char name[32];

    for (unsigned i = 0; i < USAGE_LOOKS + 1; i++) {
        (void)snprintf(name, sizeof name, "t%05u", i);
        (void)id_world_tag(w, name, 10);
        if (i < 3 * USAGE_BUSIEST) {
            answered(w, name, 1, false);
        }
    }
    for (unsigned second = 0; second < 10; second++) {
        for (unsigned i = 0; i < 2 * USAGE_BUSIEST; i++) { /* the later half is faster */
            (void)snprintf(name, sizeof name, "t%05u", USAGE_LOOKS - i);
            answered(w, name, i < USAGE_BUSIEST ? 1000 + i : 10, false);
        }
        pass_ms(w, 1000);
    }
    assert_int_equal(usage->count, USAGE_BUSIEST);
    for (unsigned i = 0; i < USAGE_BUSIEST; i++) {
        assert_in_range(usage->busiest[i]->refill.rate.per_s, 700, 1050);
    }
    pass_ms(w, 20ULL * USAGE_HALF_MS);
    for (unsigned i = 0; i < USAGE_BUSIEST; i++) {
        assert_true(usage->busiest[i]->refill.rate.per_s < 0.5F);
    }
}

/* 500 ids a second of segments of 1000 never last for a minute, which is said after two refills. A
 * larger max_step mends it, and so does that nobody asks. */
static void test_short_of_its_cover(void **state)
{
    struct id_world *w = *state;
    const struct usage *usage = allocator_usage(w->allocator);
    struct id_tag *tag;

    id_world_max_step(w, "order", 1000);
    tag = id_world_tag(w, "order", 1000);
    tag->refill.cover_s = 60;
    for (unsigned i = 0; i < 100; i++) {
        claim(w, tag, 50);
        pass_ms(w, 100);
    }
    assert_int_equal(usage->short_count, 1);
    assert_true(tag->refill.is_short && usage_lasts_s(tag) < 60);
    id_world_max_step(w, "order", LIMIT_TAG_STEP);
    for (unsigned i = 0; i < 100; i++) {
        claim(w, tag, 50);
        pass_ms(w, 100);
    }
    assert_int_equal(usage->short_count, 0);
    assert_in_range(usage_lasts_s(tag), 60, 170);
    tag->refill.cover_s = 3600; /* more than asked before: a refill is not wanted yet */
    pass_ms(w, 30000);
    assert_int_equal(usage->short_count, 0);
    pass_ms(w, 40ULL * USAGE_HALF_MS);
    assert_true(usage_lasts_s(tag) == UINT64_MAX);
    assert_int_equal(usage->short_count, 0);
}

/* Without a majority no refill comes: after a while that is said, too. */
static void test_short_without_refills(void **state)
{
    struct id_world *w = *state;
    const struct usage *usage = allocator_usage(w->allocator);
    struct id_tag *tag = id_world_tag(w, "order", 100000);
    struct segment_range range;
    struct segment_view view;

    id_world_load(w, tag);
    tag->refill.cover_s = 600;
    for (unsigned i = 0; i < 300; i++) {
        assert_int_equal(segment_claim(&tag->buffer, 1, 50, &range, &view), 0);
        pass_ms(w, 100);
        assert_true(i > 100 || usage->short_count == 0); /* less than asked, but none is wanted */
        if (i >= 100) {
            (void)id_world_want(w, tag); /* as each claim does */
        }
    }
    assert_int_equal(usage->short_count, 1);
}

/* A node whose tags nobody uses is not woken for them. */
static void test_no_tag_no_timer(void **state)
{
    struct id_world *w = *state;
    struct id_tag *tag;

    pass_ms(w, 5000);
    assert_int_equal(id_world_next_ms(w), TIMER_NEVER);
    tag = id_world_tag(w, "order", 10);
    assert_int_equal(id_world_next_ms(w), TIMER_NEVER);
    claim(w, tag, 1);
    assert_int_equal(id_world_next_ms(w), w->now_ms + USAGE_LOOK_MS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(test) cmocka_unit_test_setup_teardown(test, id_world_setup, id_world_teardown)
        TEST(test_one_rate_of_all_modes), TEST(test_a_burst_is_over_at_the_first_look),
        TEST(test_what_is_no_use),        TEST(test_many_tags),
        TEST(test_short_of_its_cover),    TEST(test_short_without_refills),
        TEST(test_no_tag_no_timer),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
