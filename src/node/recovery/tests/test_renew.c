/*
 * test_renew.c - what each row becomes in the new cluster, how far tags are raised, and what is
 * refused.
 *
 * Thread: one.
 */
#include <string.h>

#include "src/tests/unit/test.h"
#include "src/node/recovery/saved.h"
#include "src/node/recovery/tests/recovery_fixture.h"
#include "src/state/journal.h"

#define DAY_MS 86400000ULL

static const struct renew_options by_ids = {.raise = {.by_ids = true, .ids = 1000, .factor = 10}};

/* Renew, and load what comes out. */
static struct fsm *renewed(struct fixture *fixture, const struct renew_options *options,
                           struct renewed *ret_renewed)
{
    const struct saved *saved = fixture_saved(fixture);
    struct store_error error = {""};
    struct fsm *fsm = fsm_of(state_new(&fsm_machine));
    struct reader reader;
    struct state_row row;

    if (renew(saved, options, FIXTURE_NOW_MS, ret_renewed, &error) != 0) {
        print_error("%s\n", error.text);
        fail();
    }
    state_load_begin(fsm_state(fsm));
    reader_init(&reader, ret_renewed->rows.data, ret_renewed->rows.len);
    while (store_rows_next(&reader, &row)) {
        assert_int_equal(state_load_row(fsm_state(fsm), &row), 0);
    }
    assert_int_equal(state_load_end(fsm_state(fsm), saved->index), 0);
    assert_true(state_digest(fsm_state(fsm)) == ret_renewed->digest);
    return fsm;
}

static bool has_text(struct renewed *of, const char *text)
{
    return memmem(of->tags.data, of->tags.len, text, strlen(text)) != NULL;
}

static bool has_limit(struct renewed *of, const char *text)
{
    return memmem(of->limits.data, of->limits.len, text, strlen(text)) != NULL;
}

static const struct tag_row *tag_of(struct fsm *fsm, const char *name)
{
    const struct tag_row *row = fsm_tag(fsm, name, strlen(name));

    assert_non_null(row);
    return row;
}

static void test_every_tag_is_raised_deleted_ones_too(void **state)
{
    struct fixture fixture;
    struct renewed of;
    struct fsm *fsm;

    (void)state;
    fixture_begin(&fixture);
    fixture_put(&fixture, "a", 5, TAG_MODE_TREND);
    fixture_put(&fixture, "gone", 70, TAG_MODE_TREND);
    fixture_delete(&fixture, "gone");
    fsm = renewed(&fixture, &by_ids, &of);
    assert_int_equal(tag_of(fsm, "a")->max_id, 1005);
    /* Above any that a client may have seen since. */
    assert_int_equal(tag_of(fsm, "a")->generation, 1 + 1048576);
    assert_int_equal(tag_of(fsm, "gone")->max_id, 1070);
    assert_int_equal(tag_of(fsm, "gone")->generation, 2 + 1048576);
    assert_true(tag_of(fsm, "gone")->deleted);
    assert_int_equal(of.tag_count, 1);
    assert_true(has_text(&of, "\"a\" continues from 1005 (was 5, raised by 1000)\n"));
    assert_true(has_text(&of, "\"gone\" continues from 1070 (was 70, raised by 1000), deleted\n"));
    state_free(fsm_state(fsm));
    renewed_release(&of);
    fixture_end(&fixture);
}

static void test_a_tag_near_the_end_is_clamped_and_said(void **state)
{
    struct fixture fixture;
    struct renewed of;
    struct fsm *fsm;

    (void)state;
    fixture_begin(&fixture);
    fixture_put(&fixture, "end", TAG_MAX_ID_END - 1000, TAG_MODE_TREND);
    fixture_put(&fixture, "over", TAG_MAX_ID_END - 999, TAG_MODE_TREND);
    fixture_put(&fixture, "there", TAG_MAX_ID_END, TAG_MODE_TREND);
    fsm = renewed(&fixture, &by_ids, &of);
    assert_int_equal(tag_of(fsm, "end")->max_id, TAG_MAX_ID_END);
    assert_int_equal(tag_of(fsm, "over")->max_id, TAG_MAX_ID_END);
    assert_int_equal(tag_of(fsm, "there")->max_id, TAG_MAX_ID_END);
    assert_int_equal(of.exhausted, 3);
    assert_true(has_text(&of, "raised by 999; NOT by 1000: it ends there, and is exhausted"));
    state_free(fsm_state(fsm));
    renewed_release(&of);
    fixture_end(&fixture);
}

static void set_max(struct fixture *fixture, const char *tag, uint64_t max)
{
    const struct command_list list = {.wall_ms = FIXTURE_LOG_MS};
    const struct tag_put put = {
        .name = tag, .name_len = (uint16_t)strlen(tag), .fields = TAG_FIELD_MAX, .max = max};
    struct buf command = BUF_INIT;

    command_put(&command, COMMAND_TAGS_PUT, &list);
    command_item_put(&command, COMMAND_TAGS_PUT, &put);
    command_items_end(&command);
    fixture_apply(fixture, &command);
}

/* It may have been raised since, and more than once; a deleted tag may have been made again without
 * one. So ids continue above the raise, whatever the max is set to here. */
static void test_a_max_bounds_no_raise(void **state)
{
    static const struct {
        const char *shape; /* "": none */
        uint64_t max_id;
        uint64_t max;
        bool deleted;
        uint64_t wanted;
        uint64_t wanted_max;
        const char *said;
    } cases[] = {
        {"", 600, 5000, false, 1600, 5000, "raised by 1000)"},
        {"", 600, 1600, false, 1600, 1600, "raised by 1000)"},
        {"", 600, 900, false, 1600, 1600, "1000 beyond its max of 900, which moves there: it is"},
        {"", 600, 600, false, 1600, 1600, "1000 beyond its max of 600"},
        {"", 600, 900, true, 1600, 1600, "1000 beyond its max of 900"},
        {"P{id:6}", 600, 900, false, 1600, 1600, "1000 beyond its max of 900"},
        {"{secret:6}", 600, 900, true, 1600, 1600, "1000 beyond its max of 900"},
        {"{secret:6}", 999500, 999900, false, 1000000, 1000000, "NOT by 1000: it ends there"},
        {"{year}{id:6}", 2023000042, 2023000100, false, 2023001042, 2023001042,
         "raised by 1000 in 2023 beyond its max of 2023000100"},
        {"{year}{id:6}", 2022000042, 2022000100, false, 2023001001, 2023001001,
         "raised by 1000 in 2023 beyond its max of 2022000100"},
        {"{year}{id:4}", 20239500, 20240001, false, 20240000, 20240001,
         "NOT by 1000: it ends there, and is exhausted"},
        {"{year}{id:4}", 20239500, 20240002, false, 20240000, 20240002,
         "NOT by 1000: no number is left until the next period begins"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        enum tag_mode mode =
            strstr(cases[i].shape, "{year}") != NULL ? TAG_MODE_STRICT : TAG_MODE_TREND;
        struct fixture fixture;
        struct renewed of;
        struct fsm *fsm;

        fixture_begin(&fixture);
        fixture_put_shaped(&fixture, "m", cases[i].shape, cases[i].max_id, mode);
        set_max(&fixture, "m", cases[i].max);
        if (cases[i].deleted) {
            fixture_delete(&fixture, "m");
        }
        fsm = renewed(&fixture, &by_ids, &of);
        if (tag_of(fsm, "m")->max_id != cases[i].wanted ||
            tag_of(fsm, "m")->max != cases[i].wanted_max || !has_text(&of, cases[i].said)) {
            fail_msg("case %zu: %llu: %.*s", i, (unsigned long long)tag_of(fsm, "m")->max_id,
                     (int)of.tags.len, (const char *)of.tags.data);
        }
        assert_int_equal(of.exhausted, strstr(cases[i].said, "beyond") != NULL ||
                                           strstr(cases[i].said, "ends there") != NULL ||
                                           cases[i].wanted == cases[i].wanted_max);
        state_free(fsm_state(fsm));
        renewed_release(&of);
        fixture_end(&fixture);
    }
}

/* Nobody of the new cluster holds a segment. */
static void test_a_tag_that_was_changing_is_strict(void **state)
{
    struct fixture fixture;
    struct renewed of;
    struct fsm *fsm;

    (void)state;
    fixture_begin(&fixture);
    fixture_put(&fixture, "a", 1, TAG_MODE_TREND);
    fixture_grant(&fixture, "a", 100);
    fixture_put(&fixture, "a", 200, TAG_MODE_STRICT);
    assert_true(tag_of(fixture.fsm, "a")->recalling);
    fsm = renewed(&fixture, &by_ids, &of);
    assert_false(tag_of(fsm, "a")->recalling);
    assert_int_equal(tag_of(fsm, "a")->mode, TAG_MODE_STRICT);
    assert_null(fsm_recall_next(fsm, FIXTURE_NODE, "", 0));
    state_free(fsm_state(fsm));
    renewed_release(&of);
    fixture_end(&fixture);
}

/* Also those that the state does not know: they may have been acquired since. */
/* Shows backup-times. */
static void test_no_worker_id_may_stamp_what_is_over(void **state)
{
    const struct worker_acquire wide = {.kind = WORKER_CLIENT,
                                        .worker_id = 20,
                                        .bits = 10,
                                        .window_ms = 1000,
                                        .wall_ms = FIXTURE_NOW_MS,
                                        .name = "wide",
                                        .name_len = 4,
                                        .address = "",
                                        .client = 9,
                                        .percent = 100};
    struct buf command = BUF_INIT;
    struct fixture fixture;
    struct renewed of;
    struct fsm *fsm;

    (void)state;
    fixture_begin(&fixture);
    fixture_raise(&fixture);
    fixture_acquire(&fixture, "short", 1000);
    fixture_acquire(&fixture, "long", DAY_MS);
    fsm = renewed(&fixture, &by_ids, &of);
    assert_int_equal(of.workers, 16);
    for (uint32_t id = 0; id < 16; id++) {
        const struct worker_row *row = fsm_worker(fsm, id);
        const struct worker_row *old = fsm_worker(fixture.fsm, id);

        assert_non_null(row);
        assert_int_equal(row->state, WORKER_RELEASED);
        assert_true(row->granted_until_ms >= FIXTURE_NOW_MS);
        assert_true(row->updated_ms >= FIXTURE_NOW_MS); /* nothing of it is older than the state */
        assert_int_equal(row->client, 0);               /* nor counts for a client */
        assert_true(row->epoch > (old != NULL ? old->epoch : 0) + 1000);
        assert_true(old == NULL || row->granted_until_ms >= old->granted_until_ms);
    }
    assert_null(fsm_worker(fsm, 16));
    assert_int_equal(fsm_worker(fsm, 1)->granted_until_ms, FIXTURE_LOG_MS + DAY_MS);
    assert_string_equal(fsm_worker(fsm, 1)->name, "was:long");
    assert_string_equal(fsm_worker(fsm, 2)->name, "restored/2");
    assert_int_equal(fsm_state(fsm)->facts.log_ms, FIXTURE_NOW_MS);
    /* So who comes gets one whose window begins now, not in a day. */
    state_free(fixture.state);
    fixture.fsm = fsm;
    fixture.state = fsm_state(fsm);
    fixture_acquire(&fixture, "long", 1000);
    assert_string_equal(fsm_worker(fsm, 0)->name, "long");
    assert_int_equal(fsm_worker(fsm, 0)->granted_from_ms, FIXTURE_NOW_MS);
    /* Nor does one beyond the cluster's own layout, of which there is no row. */
    command_put(&command, COMMAND_WORKER_ACQUIRE_OF, &wide);
    fixture_apply(&fixture, &command);
    assert_true(fsm_worker(fsm, wide.worker_id)->epoch > 1000);
    assert_int_equal(fsm_worker(fsm, wide.worker_id)->granted_from_ms, FIXTURE_NOW_MS);
    renewed_release(&of);
    fixture_end(&fixture);
}

static void test_a_state_twice_renewed(void **state)
{
    struct fixture fixture;
    struct renewed of;
    struct renewed again;
    struct reader reader;
    struct state_row row;
    struct fsm *fsm;

    (void)state;
    fixture_begin(&fixture);
    fixture_put(&fixture, "a", 5, TAG_MODE_TREND);
    fixture_acquire(&fixture, "x", 1000);
    fsm = renewed(&fixture, &by_ids, &of);
    state_free(fsm_state(fsm));
    saved_free(&fixture.saved);
    reader_init(&reader, of.rows.data, of.rows.len);
    while (store_rows_next(&reader, &row)) {
        saved_add(&fixture.saved, row.key, row.key_len, row.value, row.value_len);
    }
    fsm = renewed(&fixture, &by_ids, &again);
    assert_int_equal(tag_of(fsm, "a")->max_id, 2005);
    assert_string_equal(fsm_worker(fsm, 0)->name, "restored/0");
    state_free(fsm_state(fsm));
    renewed_release(&of);
    renewed_release(&again);
    fixture_end(&fixture);
}

/* Each time another, whether the old one was born or not. */
static void test_the_new_cluster_has_a_birth_of_its_own(void **state)
{
    const struct birth old = {.uid = uid_make(1, 2), .list_digest = 3, .wall_ms = 4};

    (void)state;
    for (int born = 0; born < 2; born++) {
        struct fixture fixture;
        struct renewed of;
        struct renewed again;
        struct birth birth;
        struct fsm *fsm;

        fixture_begin(&fixture);
        if (born) {
            fixture_born(&fixture, &old);
        }
        fsm = renewed(&fixture, &by_ids, &of);
        assert_non_null(state_birth(fsm_state(fsm)));
        birth = *state_birth(fsm_state(fsm));
        assert_true(uid_equal(&birth.uid, &of.uid));
        assert_false(uid_equal(&birth.uid, &old.uid));
        assert_int_equal(birth.wall_ms, FIXTURE_NOW_MS);
        state_free(fsm_state(fsm));
        state_free(fsm_state(renewed(&fixture, &by_ids, &again)));
        assert_false(uid_equal(&again.uid, &of.uid));
        renewed_release(&of);
        renewed_release(&again);
        fixture_end(&fixture);
    }
}

/* Deleted ones, too: what a name means it means in the new cluster. */
static void test_named_layouts_are_kept(void **state)
{
    const struct layout_row row = {
        .name = "s", .name_len = 1, .layout = {{SNOWFLAKE_EPOCH_MS, 39, 10, 8}, 10, 0}};
    struct layout_row other = row;
    struct fixture fixture;
    struct renewed of;
    struct fsm *fsm;
    uint32_t count;

    (void)state;
    fixture_begin(&fixture);
    other.name[0] = 't';
    for (int i = 0; i < 2; i++) {
        struct buf command = BUF_INIT;

        command_put(&command, COMMAND_LAYOUT_PUT, i == 0 ? &row : &other);
        fixture_apply(&fixture, &command);
    }
    {
        struct buf command = BUF_INIT;

        command_put(&command, COMMAND_LAYOUT_DELETE,
                    &(struct delete_command){.name = "t", .name_len = 1, .wall_ms = 1});
        fixture_apply(&fixture, &command);
    }
    fsm = renewed(&fixture, &by_ids, &of);
    for (uint32_t i = 0; i < 2; i++) {
        const struct layout_row *kept = &fsm_layouts(fsm, &count)[i];

        assert_int_equal(count, 2);
        assert_true(named_layout_equal(&kept->layout, &row.layout));
        assert_int_equal(kept->deleted, kept->name[0] == 't');
    }
    state_free(fsm_state(fsm));
    renewed_release(&of);
    fixture_end(&fixture);
}

/* What is the old cluster's is gone, and the keys are there, or not. */
static void test_keys_are_kept_or_dropped_and_sessions_gone(void **state)
{
    struct renew_options drop = by_ids;

    (void)state;
    drop.drop_keys = true;
    for (int dropping = 0; dropping < 2; dropping++) {
        struct fixture fixture;
        struct renewed of;
        struct reader reader;
        struct state_row row;
        struct buf command = BUF_INIT;
        unsigned keys = 0;

        fixture_begin(&fixture);
        fixture_raise(&fixture);
        fixture_put(&fixture, "s", 1, TAG_MODE_STRICT);
        fixture_strict(&fixture, "s", 3, "k-1");
        fixture_strict(&fixture, "s", 4, "k-2");
        cluster_command_put(&command, COMMAND_CUT,
                            &(struct client_cut){"::1", FIXTURE_NOW_MS, "r", "ops"});
        fixture_apply(&fixture, &command);
        state_free(fsm_state(renewed(&fixture, dropping ? &drop : &by_ids, &of)));
        reader_init(&reader, of.rows.data, of.rows.len);
        while (store_rows_next(&reader, &row)) {
            assert_null(memchr("adgmnry", *(const char *)row.key, 7));
            keys += *(const char *)row.key == FSM_TABLE_KEYS;
        }
        assert_int_equal(keys, dropping ? 0 : 2);
        assert_int_equal(of.keys, 2);
        renewed_release(&of);
        fixture_end(&fixture);
    }
}

static void test_how_far_a_tag_is_raised(void **state)
{
    const uint64_t hour_ms = 3600000;
    static const struct {
        struct raise raise;
        struct saved_row row;
        uint64_t ids; /* UINT64_MAX: it is not known */
    } cases[] = {
        {{.by_ids = true, .ids = 7}, {.span_ms = 0}, 7},
        {{.by_ids = true, .ids = 0}, {.span_ms = 0}, 0},
        {{.by_time = true, .time_ms = 3600000, .factor = 10}, {.span_ms = 0}, UINT64_MAX},
        {{.by_time = true, .time_ms = 3600000, .factor = 10}, {.span_ms = 59999}, UINT64_MAX},
        /* a quiet one: some of its largest segments */
        {{.by_time = true, .time_ms = 3600000, .factor = 10}, {.span_ms = 3600000}, 5000},
        {{.by_time = true, .time_ms = 3600000, .factor = 10},
         {.span_ms = 3600000, .grew = 999},
         10000},
        {{.by_time = true, .time_ms = 7200000, .factor = 3},
         {.span_ms = 1800000, .grew = 1000},
         12003},
        {{.by_time = true, .by_ids = true, .ids = 20000, .time_ms = 3600000, .factor = 10},
         {.span_ms = 3600000, .grew = 999},
         20000},
        {{.by_time = true, .by_ids = true, .ids = 20, .time_ms = 3600000, .factor = 10},
         {.span_ms = 3600000, .grew = 999},
         10000},
        {{.by_time = true, .by_ids = true, .ids = 20, .time_ms = 3600000, .factor = 10},
         {.span_ms = 0},
         20},
        {{.by_time = true, .time_ms = 31622400000, .factor = 1000000},
         {.span_ms = 60000, .grew = TAG_MAX_ID_END},
         TAG_MAX_ID_END},
    };

    const struct tag_row tag = {.max_step = 500};

    (void)state;
    (void)hour_ms;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint64_t ids = 1;
        bool known = renew_raise(&cases[i].raise, &cases[i].row, &tag, &ids);

        assert_int_equal(known, cases[i].ids != UINT64_MAX);
        if (known && ids != cases[i].ids) {
            print_error("case %zu\n", i);
            assert_int_equal(ids, cases[i].ids);
        }
    }
}

/* --raise-ids counts ids; what max_id grew by are numbers. */
/* Its max_step is a billion by default, and its segments are what it uses in that time. */
static void test_raises_of_a_tag_with_a_cover(void **state)
{
    const struct raise time = {.by_time = true, .time_ms = 60000, .factor = 10};
    static const struct {
        uint32_t cover_s;
        uint32_t max_step;
        uint32_t increment;
        uint64_t grew; /* in an hour */
        uint64_t numbers;
    } cases[] = {
        {600, LIMIT_TAG_STEP, 0, 0, 10000000},        /* as a tag without */
        {600, LIMIT_TAG_STEP, 0, 5999999, 10000000},  /* 999,999 in ten minutes */
        {600, LIMIT_TAG_STEP, 0, 36000000, 60000000}, /* ten times ten minutes */
        {600, 2000000, 0, 36000000, 20000000},        /* its own max_step */
        {600, 5000, 0, 0, 50000},
        {600, LIMIT_TAG_STEP, 100, 0, 1000000000},
        {86400, LIMIT_TAG_STEP, 0, 3600000000000, 600000000010}, /* of the minute: more */
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct tag_row tag = {.max_step = cases[i].max_step,
                                    .cover_s = cases[i].cover_s,
                                    .increment = cases[i].increment};
        const struct saved_row row = {.span_ms = 3600000, .grew = cases[i].grew};
        uint64_t numbers;

        assert_true(renew_raise(&time, &row, &tag, &numbers));
        assert_int_equal(numbers, cases[i].numbers);
    }
}

static void test_raises_of_a_tag_with_an_increment(void **state)
{
    const struct raise ids = {.by_ids = true, .ids = 20};
    const struct raise time = {.by_time = true, .time_ms = 3600000, .factor = 10};
    const struct saved_row row = {.span_ms = 3600000, .grew = 999999};
    struct tag_row tag = {.max_step = 500, .increment = 1000};
    uint64_t numbers;

    (void)state;
    assert_true(renew_raise(&ids, &row, &tag, &numbers));
    assert_int_equal(numbers, 20000);
    assert_true(renew_raise(&time, &row, &tag, &numbers));
    assert_int_equal(numbers, 10000000);
    tag.increment = 1000000;
    assert_true(renew_raise(&time, &row, &tag, &numbers)); /* ten segments of 500 ids */
    assert_int_equal(numbers, 5000000000);
}

/* NOW is 2023-11-14T23:13:20Z, and 2023-11-15T00:13:20 in Berlin; the log's time an hour before. */
#define TODAY 20231114ULL
#define BERLIN_TODAY 20231115ULL
#define HOUR_MS 3600000ULL

/* The saved row of a tag, to say how it grew. */
static struct saved_row *saved_tag(struct fixture *fixture, const char *name)
{
    struct saved *saved = fixture_saved(fixture);

    for (size_t i = 0; i < saved->count; i++) {
        if (saved->rows[i].key[0] == FSM_TABLE_TAGS && saved->rows[i].key_len == 1 + strlen(name) &&
            memcmp(saved->rows[i].key + 1, name, strlen(name)) == 0) {
            return &saved->rows[i];
        }
    }
    fail_msg("no tag %s", name);
    return NULL;
}

/* One dated tag, and where it continues. Growth is of the last two hours. */
static const struct dated_case {
    const char *shape;
    uint64_t max_id;
    struct raise raise;
    uint64_t grew; /* UINT64_MAX: not known */
    uint64_t wanted;
    const char *said;
} dated_cases[] = {
    /* the same period: the counter is raised */
    {"{year}-{id:6}", 2023000042, {.by_ids = true, .ids = 1000}, 0, 2023001042, "1000 in 2023)"},
    {"{year}{month}{day}{id:4}",
     TODAY * 10000 + 7,
     {.by_ids = true, .ids = 10},
     0,
     TODAY * 10000 + 17,
     "raised by 10 in 20231114)"},
    /* a period began since: none of its first numbers comes again */
    {"{year@Europe/Berlin}{month}{day}{id:4}",
     TODAY * 10000 + 7,
     {.by_ids = true, .ids = 10},
     0,
     BERLIN_TODAY * 10000 + 11,
     "raised by 10 in 20231115)"},
    {"{year@Europe/Berlin}{month}{day}{id:4}",
     TODAY * 10000 + 7,
     {.by_ids = true},
     0,
     BERLIN_TODAY * 10000 + 1,
     "raised by 0 in 20231115)"},
    {"{year}{id:6}", 2021000042, {.by_ids = true, .ids = 10}, 0, 2023000011, "10 in 2023)"},
    {"{year}{id:6}", 1, {.by_ids = true, .ids = 10}, 0, 2023000011, "raised by 10 in 2023)"},
    /* one that is to come, by force, stays */
    {"{year}{id:6}", 2025000042, {.by_ids = true, .ids = 10}, 0, 2025000052, "10 in 2025)"},
    /* never into the next period */
    {"{year}{id:6}",
     2023000042,
     {.by_ids = true, .ids = 1000000000},
     0,
     2024000000,
     "NOT by 1000000000: no number is left until the next period begins"},
    {"{year}{id:6}", 2023000042, {.by_ids = true, .ids = 999958}, 0, 2024000000, "NOT by 999958"},
    {"{year}{id:6}", 2023000042, {.by_ids = true, .ids = 999957}, 0, 2023999999, "999957 in 2023)"},
    {"{year}{id:6}", 9999999999, {.by_ids = true, .ids = 5}, 0, 10000000000, "and is exhausted"},
    /* by time: as measured, or as if the period were used up evenly */
    {"{year}{id:6}",
     2023004000,
     {.by_time = true, .time_ms = HOUR_MS, .factor = 10},
     3000,
     2023004000 + 15011,
     "raised by 15011 in 2023; grew by 3000 in 120 min)"},
    {"{year}{id:6}",
     2023004000,
     {.by_time = true, .time_ms = HOUR_MS, .factor = 10},
     0,
     2023004000 + 115,
     "raised by 115 in 2023; grew by 0 in 120 min)"},
    /* a period is no older than it is: 800 s are over of the day */
    {"{year@Europe/Berlin}{month}{day}{id:4}",
     TODAY * 10000 + 7,
     {.by_time = true, .time_ms = 24 * HOUR_MS, .factor = 10},
     0,
     BERLIN_TODAY * 10000 + 1 + 93,
     "raised by 93 in 20231115"},
    {"{year@Europe/Berlin}{month}{day}{id:4}",
     TODAY * 10000 + 7000,
     {.by_time = true, .time_ms = 24 * HOUR_MS, .factor = 10},
     72,
     BERLIN_TODAY * 10000 + 1 + 93,
     "raised by 93 in 20231115"},
    {"{year@Europe/Berlin}{month}{day}{id:4}",
     TODAY * 10000 + 7000,
     {.by_time = true, .time_ms = 24 * HOUR_MS, .factor = 10},
     720,
     BERLIN_TODAY * 10000 + 1 + 811,
     "raised by 811 in 20231115"},
    /* a period that began while it was measured is no growth by a jump */
    {"{year}{id:6}",
     2023000042,
     {.by_time = true, .time_ms = HOUR_MS, .factor = 1},
     2023000041,
     2023000042 + 115,
     "raised by 115 in 2023; grew"},
    /* both: the larger, but where that is all that is left */
    {"{year}{id:6}",
     2023000042,
     {.by_time = true, .by_ids = true, .ids = 1000, .time_ms = HOUR_MS, .factor = 10},
     0,
     2023001042,
     "raised by 1000 in 2023"},
    {"{year}{id:6}",
     2023000042,
     {.by_time = true, .by_ids = true, .ids = 1000000, .time_ms = HOUR_MS, .factor = 10},
     0,
     2023000042 + 115,
     "raised by 115 in 2023"},
    {"{year}{id:6}",
     2023000042,
     {.by_time = true, .by_ids = true, .ids = 1000, .time_ms = HOUR_MS, .factor = 10},
     UINT64_MAX,
     2023001042,
     "raised by 1000 in 2023"},
};

static void test_a_date_goes_on_in_todays_period(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof dated_cases / sizeof dated_cases[0]; i++) {
        const struct dated_case *is = &dated_cases[i];
        const struct renew_options options = {.raise = is->raise};
        struct fixture fixture;
        struct saved_row *row;
        struct renewed of;
        struct fsm *fsm;

        fixture_begin(&fixture);
        fixture_put_shaped(&fixture, "d", is->shape, is->max_id, TAG_MODE_STRICT);
        row = saved_tag(&fixture, "d");
        row->grew = is->grew;
        row->span_ms = is->grew == UINT64_MAX ? 0 : 2 * HOUR_MS;
        fsm = renewed(&fixture, &options, &of);
        if (tag_of(fsm, "d")->max_id != is->wanted || !has_text(&of, is->said)) {
            fail_msg("case %zu: %llu: %.*s", i, (unsigned long long)tag_of(fsm, "d")->max_id,
                     (int)of.tags.len, (const char *)of.tags.data);
        }
        state_free(fsm_state(fsm));
        renewed_release(&of);
        fixture_end(&fixture);
    }
}

static void test_what_a_raise_of_dates_does_not_cover_is_named(void **state)
{
    struct renew_options options = {
        .raise = {.by_ids = true, .by_time = true, .ids = 1000000, .time_ms = 1, .factor = 1}};
    struct fixture fixture;
    struct renewed of;

    (void)state;
    fixture_begin(&fixture);
    fixture_put_shaped(&fixture, "inv", "{year}{id:6}", 2023000042, TAG_MODE_STRICT);
    saved_tag(&fixture, "inv")->span_ms = HOUR_MS;
    state_free(fsm_state(renewed(&fixture, &options, &of)));
    assert_true(has_limit(&of, "\"inv\": raised by"));
    renewed_release(&of);
    options.raise.by_time = false;
    state_free(fsm_state(renewed(&fixture, &options, &of)));
    assert_true(has_limit(&of, "\"inv\" has no number of 2023"));
    renewed_release(&of);
    fixture_end(&fixture);
}

/* Numbers of the text of an id, by the keys that its tag has now. */
static void put_id(const struct tag_row *tag, uint64_t id, char text[SHAPE_ID_BYTES_MAX + 1])
{
    struct ff1 *ff1 = ff1_new();
    struct shape shape;

    assert_int_equal(tag_shape(tag->shape, tag->shape_len, &shape, NULL), 0);
    shape_prepare(&shape, id, ff1);
    text[shape_put(&shape, ff1, id, text)] = '\0';
    ff1_free(ff1);
}

static bool is_read(const struct tag_row *tag, const char *text)
{
    struct ff1 *ff1 = ff1_new();
    struct shape shape;
    uint64_t id;
    bool is;

    assert_int_equal(tag_shape(tag->shape, tag->shape_len, &shape, NULL), 0);
    is = shape_read(&shape, ff1, text, strlen(text), &id);
    ff1_free(ff1);
    return is;
}

/* The old cluster may have made the next key, and given out texts by it. */
static void test_a_key_that_may_have_been_made_since_is_passed_over(void **state)
{
    char before[SHAPE_ID_BYTES_MAX + 1];
    char text[SHAPE_ID_BYTES_MAX + 1];
    struct fixture fixture;
    const struct tag_row *tag;
    struct renewed of;
    struct fsm *fsm;

    (void)state;
    fixture_begin(&fixture);
    fixture_put_shaped(&fixture, "c", "A{key}-{secret:6}", 42, TAG_MODE_TREND);
    fixture_put_shaped(&fixture, "plain", "{secret:6}", 42, TAG_MODE_STRICT);
    put_id(tag_of(fixture.fsm, "c"), 7, before);
    fsm = renewed(&fixture, &by_ids, &of);
    tag = tag_of(fsm, "c");
    assert_int_equal(tag_key_number(tag), 2);
    assert_int_equal(tag->max_id, 2000000);
    assert_int_equal(tag->max, 3000000);
    put_id(tag, tag->max_id, text);
    assert_memory_equal(text, "A2-", 3);
    put_id(tag, 7, text); /* what was given out is read as it was */
    assert_string_equal(text, before);
    assert_true(is_read(tag, before) && is_read(tag, "A2-000007"));
    assert_false(is_read(tag, "A1-000007")); /* of the old cluster, if of any */
    assert_true(has_text(&of, "(was 42, by key 2: key 1 may have been in force since)"));
    assert_int_equal(tag_of(fsm, "plain")->max_id, 1042);
    assert_int_equal(of.limits.len, 0);
    state_free(fsm_state(fsm));
    renewed_release(&of);
    fixture_end(&fixture);
}

/* Renewed again and again, until there is no further key. */
static void test_the_last_key_is_named(void **state)
{
    static const unsigned numbers[] = {2, 4, 6, 8, 8};
    struct fixture fixture;
    struct renewed of;

    (void)state;
    fixture_begin(&fixture);
    fixture_put_shaped(&fixture, "c", "A{key}-{secret:6}", 42, TAG_MODE_TREND);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        struct fsm *fsm = renewed(&fixture, &by_ids, &of);
        struct reader reader;
        struct state_row row;

        assert_int_equal(tag_key_number(tag_of(fsm, "c")), numbers[i]);
        assert_int_equal(tag_of(fsm, "c")->max_id, numbers[i] * 1000000 + (i == 4 ? 1000 : 0));
        assert_true((of.limits.len > 0) == (i == 4));
        state_free(fsm_state(fsm));
        saved_free(&fixture.saved);
        reader_init(&reader, of.rows.data, of.rows.len);
        while (store_rows_next(&reader, &row)) {
            saved_add(&fixture.saved, row.key, row.key_len, row.value, row.value_len);
        }
        if (i == 4) {
            assert_true(has_limit(&of, "\"c\" by key 9, the last"));
        }
        renewed_release(&of);
    }
    fixture_end(&fixture);
}

static void expect_refused(struct fixture *fixture, const struct renew_options *options,
                           uint64_t now_ms, int err, const char *text)
{
    struct store_error error = {""};
    struct renewed of;

    assert_int_equal(renew(fixture_saved(fixture), options, now_ms, &of, &error), err);
    if (strstr(error.text, text) == NULL) {
        print_error("\"%s\" is not in \"%s\"\n", text, error.text);
        fail();
    }
}

static void test_what_is_refused(void **state)
{
    const struct renew_options by_time = {
        .raise = {.by_time = true, .time_ms = 3600000, .factor = 10}};
    struct fixture fixture;

    (void)state;
    fixture_begin(&fixture);
    fixture_put(&fixture, "a", 5, TAG_MODE_TREND);
    expect_refused(&fixture, &by_time, FIXTURE_NOW_MS, ERR_INVALID, "\"a\" grew is not known");
    /* The time of the log and that of the backup: neither may be ahead of this machine's. */
    for (unsigned i = 0; i < 2; i++) {
        fixture.saved.wall_ms = i == 0 ? 0 : FIXTURE_LOG_MS + 5000;
        expect_refused(&fixture, &by_ids, FIXTURE_LOG_MS + (i == 0 ? 0 : 5000) - 1,
                       ERR_CLOCK_BACKWARDS, "set the clock");
    }
    fixture.saved.wall_ms = 0;
    fixture_put_shaped(&fixture, "d", "{year@Europe/Nowhere}{id:6}", 1, TAG_MODE_STRICT);
    expect_refused(&fixture, &by_ids, FIXTURE_NOW_MS, ERR_INVALID, "zone Europe/Nowhere, by");
    saved_add(&fixture.saved, "zzz", 3, "1", 1);
    expect_refused(&fixture, &by_ids, FIXTURE_NOW_MS, ERR_NEWER, "row zzz");
    fixture_end(&fixture);
}

static void test_rows_that_come_in_any_order(void **state)
{
    struct saved saved = {0};

    (void)state;
    for (unsigned i = 0; i < 1000; i++) {
        uint8_t key[2] = {(uint8_t)(i * 7 % 251), (uint8_t)(i % 3)};

        saved_add(&saved, key, sizeof key, &i, i % 11 == 0 ? 0 : sizeof i);
    }
    saved_sort(&saved);
    assert_true(saved.count > 500);
    for (size_t i = 0; i < saved.count; i++) {
        unsigned last;

        memcpy(&last, saved_value(&saved.rows[i]), sizeof last);
        assert_true(i == 0 || memcmp(saved.rows[i - 1].key, saved.rows[i].key, 2) < 0);
        assert_true(last + 753 >= 1000); /* of one key the last one that was added */
    }
    saved_free(&saved);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_tag_is_raised_deleted_ones_too),
        cmocka_unit_test(test_a_tag_near_the_end_is_clamped_and_said),
        cmocka_unit_test(test_a_max_bounds_no_raise),
        cmocka_unit_test(test_a_tag_that_was_changing_is_strict),
        cmocka_unit_test(test_no_worker_id_may_stamp_what_is_over),
        cmocka_unit_test(test_a_state_twice_renewed),
        cmocka_unit_test(test_the_new_cluster_has_a_birth_of_its_own),
        cmocka_unit_test(test_named_layouts_are_kept),
        cmocka_unit_test(test_keys_are_kept_or_dropped_and_sessions_gone),
        cmocka_unit_test(test_how_far_a_tag_is_raised),
        cmocka_unit_test(test_a_date_goes_on_in_todays_period),
        cmocka_unit_test(test_what_a_raise_of_dates_does_not_cover_is_named),
        cmocka_unit_test(test_a_key_that_may_have_been_made_since_is_passed_over),
        cmocka_unit_test(test_the_last_key_is_named),
        cmocka_unit_test(test_raises_of_a_tag_with_a_cover),
        cmocka_unit_test(test_raises_of_a_tag_with_an_increment),
        cmocka_unit_test(test_what_is_refused),
        cmocka_unit_test(test_rows_that_come_in_any_order),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
