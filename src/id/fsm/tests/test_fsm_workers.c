/*
 * test_fsm_workers.c - what acquire, renew and release do to the table of worker ids, case by case;
 * the query, loading and the listener. Copies of them that come late are in
 * test_fsm_workers_repeats.c, random sequences in test_fsm_workers_model.c.
 *
 * Thread: one.
 */
#include <string.h>

#include "src/tests/unit/test.h"
#include "src/id/tests/four_ids.h"

#define DAY 86400000ULL

static struct worker_result acquire_id(struct id_apply *a, const char *name, uint32_t id)
{
    struct worker_acquire ask = four_ids_asking(name);

    ask.worker_id = id;
    return id_apply_acquire(a, ask);
}

/* --- acquire --- */

static void test_acquire_gives_the_lowest_id_never_used(void **state)
{
    struct id_apply *a = *state;
    struct worker_acquire ask = four_ids_asking("a");

    ask.kind = WORKER_NODE;
    ask.address = "10.0.0.1:8080";
    four_ids_granted(id_apply_acquire(a, ask), 0, 1, 0, T + WINDOW);
    assert_int_equal(a->changed, 1);
    assert_string_equal(fsm_worker(a->fsm, 0)->name, "a");
    assert_string_equal(fsm_worker(a->fsm, 0)->address, "10.0.0.1:8080");
    assert_int_equal(fsm_worker(a->fsm, 0)->kind, WORKER_NODE);
    assert_true(fsm_worker(a->fsm, 0)->updated_ms == T);
    assert_true(fsm_worker(a->fsm, 0)->last_timestamp_ms == 0);
    four_ids_granted(four_ids_acquire(a, "b"), 1, 1, 0, T + WINDOW);
    /* A released one is not taken while one was never used. */
    assert_int_equal(
        id_apply_release(a, (struct worker_release){0, 1, T, WORKER_NODE, 0, false}).status, 0);
    four_ids_granted(four_ids_acquire(a, "c"), 2, 1, 0, T + WINDOW);
    assert_null(fsm_worker(a->fsm, 3));
    assert_null(fsm_worker(a->fsm, LIMIT_WORKER_IDS));
    assert_null(fsm_worker(a->fsm, WORKER_ID_ANY));
}

static void test_acquire_needs_layout_and_time(void **state)
{
    struct id_apply *a = *state;

    id_apply_free(a);
    id_apply_init(a);
    four_ids_refused(a, four_ids_acquire(a, "a"), ERR_EMPTY);
    (void)id_apply_clock(a, T);
    four_ids_refused(a, four_ids_acquire(a, "a"), ERR_EMPTY);
    id_apply_free(a);
    id_apply_init(a);
    (void)id_apply_layout(a, &FOUR_IDS);
    four_ids_refused(a, four_ids_acquire(a, "a"), ERR_EMPTY);
    (void)id_apply_clock(a, T);
    four_ids_granted(four_ids_acquire(a, "a"), 0, 1, 0, T + WINDOW);
}

static void test_same_name_gets_its_id_back_above(void **state)
{
    struct id_apply *a = *state;
    struct worker_acquire ask = four_ids_asking("b");

    (void)four_ids_acquire(a, "a");
    four_ids_granted(four_ids_acquire(a, "b"), 1, 1, 0, T + WINDOW);
    /* Held: its window may have been used up to the end. */
    ask.address = "new";
    four_ids_granted(id_apply_acquire(a, ask), 1, 2, T + WINDOW, T + 2 * WINDOW);
    assert_string_equal(fsm_worker(a->fsm, 1)->address, "new");
    /* Expired. */
    (void)id_apply_clock(a, T + DAY);
    ask.wall_ms = T + DAY;
    ask.address = NULL;
    four_ids_granted(id_apply_acquire(a, ask), 1, 3, T + 2 * WINDOW, T + DAY + WINDOW);
    assert_string_equal(fsm_worker(a->fsm, 1)->address, "");
    /* Released. */
    (void)id_apply_release(a, (struct worker_release){1, 3, T + DAY + 5, WORKER_NODE, 0, false});
    four_ids_granted(id_apply_acquire(a, ask), 1, 4, T + DAY + 5, T + DAY + 5 + WINDOW);
}

/* A client that asks under a node's name would fence the node off. */
static void test_a_name_stays_with_its_kind(void **state)
{
    struct id_apply *a = *state;
    struct worker_acquire ask = four_ids_asking("node-1/0/0");
    struct worker_result result;

    ask.kind = WORKER_NODE;
    four_ids_granted(id_apply_acquire(a, ask), 0, 1, 0, T + WINDOW);
    ask.kind = WORKER_CLIENT;
    result = id_apply_acquire(a, ask);
    four_ids_refused(a, result, ERR_CONFLICT);
    assert_int_equal(result.row.kind, WORKER_NODE);
    assert_int_equal(
        id_apply_release(a, (struct worker_release){0, 1, T, WORKER_NODE, 0, false}).status, 0);
    four_ids_refused(a, id_apply_acquire(a, ask), ERR_CONFLICT);
}

static void test_given_id_must_be_free(void **state)
{
    struct id_apply *a = *state;
    struct worker_result result;

    four_ids_granted(acquire_id(a, "a", 2), 2, 1, 0, T + WINDOW);
    four_ids_granted(acquire_id(a, "a", 2), 2, 2, T + WINDOW, T + 2 * WINDOW); /* its own */
    result = acquire_id(a, "b", 2);
    four_ids_refused(a, result, ERR_CONFLICT);
    assert_true(result.has_row);
    assert_true(id_apply_is_named(&result.row, "a"));
    assert_int_equal(result.row.id, 2);
    four_ids_refused(a, acquire_id(a, "b", 4), ERR_INVALID); /* beyond two bits */
    four_ids_refused(a, acquire_id(a, "b", 1024), ERR_INVALID);
    four_ids_granted(acquire_id(a, "b", 3), 3, 1, 0, T + WINDOW);
    (void)id_apply_release(a, (struct worker_release){2, 2, 0, WORKER_NODE, 0, false});
    four_ids_refused(a, acquire_id(a, "c", 2), ERR_CONFLICT); /* its window is not over */
    (void)id_apply_clock(a, T + WINDOW);
    four_ids_refused(a, acquire_id(a, "d", 3), ERR_CONFLICT); /* its last millisecond */
    (void)id_apply_clock(a, T + WINDOW + 1);
    four_ids_granted(acquire_id(a, "a longer name", 3), 3, 2, T + WINDOW, T + 2 * WINDOW);
    (void)id_apply_release(a, (struct worker_release){3, 2, 1, WORKER_NODE, 0, false});
    (void)id_apply_clock(a, T + WINDOW + 2);
    four_ids_granted(acquire_id(a, "d", 3), 3, 3, T + WINDOW, T + 2 * WINDOW);
    assert_string_equal(fsm_worker(a->fsm, 3)->name, "d");
}

static void test_a_name_has_one_id(void **state)
{
    struct id_apply *a = *state;
    struct worker_result result;

    (void)four_ids_acquire(a, "a");
    result = acquire_id(a, "a", 3);
    four_ids_refused(a, result, ERR_CONFLICT);
    assert_int_equal(result.row.id, 0); /* the one it holds */
    /* Once its window is over it may move, and what it leaves is fenced. */
    (void)id_apply_clock(a, T + WINDOW + 1);
    four_ids_granted(acquire_id(a, "a", 3), 3, 1, 0, T + WINDOW);
    assert_int_equal(a->changed, 2);
    assert_int_equal(fsm_worker(a->fsm, 0)->state, WORKER_RELEASED);
    assert_true(fsm_worker(a->fsm, 0)->granted_until_ms == T + WINDOW);
    assert_true(fsm_worker(a->fsm, 0)->updated_ms == T + WINDOW + 1);
    four_ids_refused(a, id_apply_renew(a, four_ids_renewal(0, 1, T)), ERR_FENCED);
    four_ids_granted(four_ids_acquire(a, "a"), 3, 2, T + WINDOW, T + 2 * WINDOW);
    /* Of two that it released, the later one is its own. */
    (void)id_apply_clock(a, T + WINDOW + 2);
    (void)id_apply_release(a, (struct worker_release){3, 2, 0, WORKER_NODE, 0, false});
    four_ids_granted(four_ids_acquire(a, "a"), 3, 3, T + 2 * WINDOW, T + 3 * WINDOW);
    (void)id_apply_clock(a, T + WINDOW + 3);
    (void)id_apply_release(a, (struct worker_release){3, 3, 0, WORKER_NODE, 0, false});
    four_ids_refused(a, acquire_id(a, "a", 0), ERR_CONFLICT); /* the last one's is not over */
    (void)id_apply_clock(a, T + 3 * WINDOW + 1);
    four_ids_granted(acquire_id(a, "a", 0), 0, 2, T + WINDOW, T + 2 * WINDOW);
    assert_int_equal(a->changed, 1); /* what it left was released before */
}

static void test_handed_on_is_the_one_that_ended_first(void **state)
{
    struct id_apply *a = *state;
    static const char *const names[] = {"a", "b", "c", "d"};
    static const uint64_t walls[] = {T + 3, T + 1, T + 1, T + 2};

    for (unsigned i = 0; i < 4; i++) {
        struct worker_acquire ask = four_ids_asking(names[i]);

        ask.wall_ms = walls[i];
        four_ids_granted(id_apply_acquire(a, ask), (uint16_t)i, 1, 0, walls[i] + WINDOW);
    }
    four_ids_refused(a, four_ids_acquire(a, "e"), ERR_NO_WORKER_ID);
    assert_false(four_ids_acquire(a, "e").has_row);
    (void)id_apply_clock(a, T + WINDOW + 1);
    four_ids_refused(a, four_ids_acquire(a, "e"), ERR_NO_WORKER_ID);
    /* Released, but its window ends last: it comes after those that expired. */
    (void)id_apply_release(a, (struct worker_release){0, 1, 0, WORKER_NODE, 0, false});
    (void)id_apply_clock(a, T + WINDOW + 3);
    four_ids_granted(four_ids_acquire(a, "e"), 1, 2, T + 1 + WINDOW, T + 1 + 2 * WINDOW);
    four_ids_granted(four_ids_acquire(a, "f"), 2, 2, T + 1 + WINDOW, T + 1 + 2 * WINDOW);
    four_ids_granted(four_ids_acquire(a, "g"), 3, 2, T + 2 + WINDOW, T + 2 + 2 * WINDOW);
    four_ids_granted(four_ids_acquire(a, "h"), 0, 2, T + 3 + WINDOW, T + 3 + 2 * WINDOW);
    four_ids_refused(a, four_ids_acquire(a, "i"), ERR_NO_WORKER_ID);
    assert_string_equal(fsm_worker(a->fsm, 1)->name, "e");
    /* Its former name is nobody's any more. */
    four_ids_refused(a, four_ids_acquire(a, "b"), ERR_NO_WORKER_ID);
    four_ids_refused(a, id_apply_renew(a, four_ids_renewal(1, 1, T)), ERR_FENCED);
}

static void test_floor_lifts_the_window(void **state)
{
    struct id_apply *a = *state;
    struct worker_acquire ask = four_ids_asking("a");

    ask.floor_ms = T + 5000; /* what a former service used */
    four_ids_granted(id_apply_acquire(a, ask), 0, 1, T + 5000, T + 5000 + WINDOW);
    ask.floor_ms = T; /* below the old window */
    four_ids_granted(id_apply_acquire(a, ask), 0, 2, T + 5000 + WINDOW, T + 5000 + 2 * WINDOW);
    ask.name = "b";
    ask.floor_ms = T - 1000;
    four_ids_granted(id_apply_acquire(a, ask), 1, 1, T - 1000, T + WINDOW);
    ask.name = "c";
    ask.floor_ms = T + LIMIT_WINDOW_MAX_MS + 1;
    four_ids_refused(a, id_apply_acquire(a, ask), ERR_CLOCK_SKEW);
    ask.floor_ms = UINT64_MAX;
    four_ids_refused(a, id_apply_acquire(a, ask), ERR_CLOCK_SKEW);
    ask.floor_ms = T + LIMIT_WINDOW_MAX_MS;
    four_ids_granted(id_apply_acquire(a, ask), 2, 1, T + DAY, T + DAY + WINDOW);
    ask.name = "d";
    ask.window_ms = LIMIT_WORKER_AHEAD_MS + 1; /* floor and window together end too late */
    four_ids_refused(a, id_apply_acquire(a, ask), ERR_CLOCK_SKEW);
    ask.window_ms = LIMIT_WORKER_AHEAD_MS;
    four_ids_granted(id_apply_acquire(a, ask), 3, 1, T + DAY, T + DAY + LIMIT_WORKER_AHEAD_MS);
}

static void test_wall_clock_ahead_is_refused(void **state)
{
    struct id_apply *a = *state;
    struct worker_acquire ask = four_ids_asking("a");

    ask.wall_ms = T + 50 * 365 * DAY;
    four_ids_refused(a, id_apply_acquire(a, ask), ERR_CLOCK_SKEW);
    ask.wall_ms = UINT64_MAX;
    four_ids_refused(a, id_apply_acquire(a, ask), ERR_CLOCK_SKEW);
    ask.wall_ms = T + LIMIT_WORKER_AHEAD_MS + 1;
    four_ids_refused(a, id_apply_acquire(a, ask), ERR_CLOCK_SKEW);
    ask.wall_ms = T + LIMIT_WORKER_AHEAD_MS;
    four_ids_granted(id_apply_acquire(a, ask), 0, 1, 0, T + LIMIT_WORKER_AHEAD_MS + WINDOW);
    four_ids_refused(a, id_apply_renew(a, four_ids_renewal(0, 1, T + 50 * 365 * DAY)),
                     ERR_CLOCK_SKEW);
    four_ids_refused(a, id_apply_renew(a, four_ids_renewal(0, 1, UINT64_MAX)), ERR_CLOCK_SKEW);
    four_ids_refused(a, id_apply_renew(a, four_ids_renewal(0, 1, T + LIMIT_WORKER_AHEAD_MS + 1)),
                     ERR_CLOCK_SKEW);
    assert_int_equal(id_apply_renew(a, four_ids_renewal(0, 1, T + LIMIT_WORKER_AHEAD_MS)).status,
                     0);
    /* A slow clock harms nobody: its window is over at once. */
    ask.name = "b";
    ask.wall_ms = 0;
    four_ids_granted(id_apply_acquire(a, ask), 1, 1, 0, WINDOW);
    /* Again and again: the windows end where the log's time says. */
    ask = four_ids_asking("c");
    ask.window_ms = LIMIT_WINDOW_MAX_MS;
    four_ids_granted(id_apply_acquire(a, ask), 1, 2, WINDOW, T + DAY);
    four_ids_refused(a, id_apply_acquire(a, ask), ERR_NO_WORKER_ID);
    (void)id_apply_clock(a, T + DAY);
    four_ids_granted(id_apply_acquire(a, ask), 1, 3, T + DAY, T + 2 * DAY);
}

static int acquire_status(struct id_apply *a, struct worker_acquire ask)
{
    int status = id_apply_acquire(a, ask).status;

    assert_int_equal(a->changed, status == 0);
    return status;
}

static void test_acquire_bounds(void **state)
{
    struct id_apply *a = *state;
    struct worker_acquire ask = four_ids_asking("a");
    char text[512];

    memset(text, 'x', sizeof text);
    ask.window_ms = LIMIT_WINDOW_MIN_MS - 1;
    assert_int_equal(acquire_status(a, ask), ERR_INVALID);
    ask.window_ms = LIMIT_WINDOW_MAX_MS + 1;
    assert_int_equal(acquire_status(a, ask), ERR_INVALID);
    ask.window_ms = UINT64_MAX;
    assert_int_equal(acquire_status(a, ask), ERR_INVALID);
    ask.window_ms = LIMIT_WINDOW_MIN_MS;
    assert_int_equal(acquire_status(a, ask), 0);
    ask = four_ids_asking("b");
    ask.kind = 0;
    assert_int_equal(acquire_status(a, ask), ERR_INVALID);
    ask.kind = 3;
    assert_int_equal(acquire_status(a, ask), ERR_INVALID);
    ask = four_ids_asking("");
    assert_int_equal(acquire_status(a, ask), ERR_INVALID);
    ask = four_ids_asking("a\n");
    assert_int_equal(acquire_status(a, ask), ERR_INVALID);
    ask.name = text;
    ask.name_len = LIMIT_WORKER_NAME_BYTES + 1;
    assert_int_equal(acquire_status(a, ask), ERR_INVALID);
    ask.name_len = LIMIT_WORKER_NAME_BYTES;
    ask.address = "\xff";
    assert_int_equal(acquire_status(a, ask), ERR_INVALID);
    ask.address = text;
    ask.address_len = LIMIT_ADDRESS_BYTES + 1;
    assert_int_equal(acquire_status(a, ask), ERR_INVALID);
    ask.address_len = LIMIT_ADDRESS_BYTES;
    assert_int_equal(acquire_status(a, ask), 0);
    assert_int_equal(fsm_worker(a->fsm, 1)->address_len, LIMIT_ADDRESS_BYTES);
    assert_int_equal(strlen(fsm_worker(a->fsm, 1)->name), LIMIT_WORKER_NAME_BYTES);
}

/* --- renew --- */

static void test_renew_moves_the_bound(void **state)
{
    struct id_apply *a = *state;
    struct worker_renew renew = four_ids_renewal(0, 1, T + 3000);

    (void)four_ids_acquire(a, "a");
    (void)id_apply_clock(a, T + 2000);
    renew.last_timestamp_ms = T + 2500;
    four_ids_granted(id_apply_renew(a, renew), 0, 1, 0, T + 3000 + WINDOW);
    assert_int_equal(a->changed, 1);
    assert_true(fsm_worker(a->fsm, 0)->last_timestamp_ms == T + 2500);
    assert_true(fsm_worker(a->fsm, 0)->updated_ms == T + 2000);
    /* Neither the bound nor the last time falls. */
    renew.wall_ms = T;
    renew.last_timestamp_ms = T;
    four_ids_granted(id_apply_renew(a, renew), 0, 1, 0, T + 3000 + WINDOW);
    assert_true(fsm_worker(a->fsm, 0)->last_timestamp_ms == T + 2500);
    /* Over, but nobody took it. */
    (void)id_apply_clock(a, T + DAY);
    four_ids_granted(id_apply_renew(a, four_ids_renewal(0, 1, T + DAY)), 0, 1, 0, T + DAY + WINDOW);
}

static void test_renew_is_fenced(void **state)
{
    struct id_apply *a = *state;
    struct worker_result result;

    four_ids_refused(a, id_apply_renew(a, four_ids_renewal(0, 1, T)), ERR_NOT_FOUND);
    four_ids_refused(a, id_apply_renew(a, four_ids_renewal(WORKER_ID_ANY, 1, T)), ERR_NOT_FOUND);
    (void)four_ids_acquire(a, "a");
    four_ids_refused(a, id_apply_renew(a, four_ids_renewal(0, 0, T)), ERR_FENCED);
    four_ids_refused(a, id_apply_renew(a, four_ids_renewal(0, 2, T)), ERR_FENCED);
    four_ids_refused(a, id_apply_renew(a, four_ids_renewal(1, 1, T)), ERR_NOT_FOUND);
    (void)four_ids_acquire(a, "a"); /* a second incarnation of the same name */
    result = id_apply_renew(a, four_ids_renewal(0, 1, T));
    four_ids_refused(a, result, ERR_FENCED);
    assert_true(result.has_row);
    assert_true(result.row.epoch == 2);
    four_ids_granted(id_apply_renew(a, four_ids_renewal(0, 2, T + 20000)), 0, 2, T + WINDOW,
                     T + 20000 + WINDOW);
    (void)id_apply_release(a, (struct worker_release){0, 2, 0, WORKER_NODE, 0, false});
    result = id_apply_renew(a, four_ids_renewal(0, 2, T));
    four_ids_refused(a, result, ERR_FENCED);
    assert_int_equal(result.row.state, WORKER_RELEASED);
}

/* Shows lesson-fence. */
static void test_renew_compares_and_sets(void **state)
{
    struct id_apply *a = *state;
    struct worker_renew renew = four_ids_renewal(0, 1, T + 1);
    struct worker_result result;

    (void)four_ids_acquire(a, "a");
    renew.expected_until_ms = T + WINDOW;
    four_ids_granted(id_apply_renew(a, renew), 0, 1, 0, T + 1 + WINDOW);
    result = id_apply_renew(a, renew); /* repeated, or an older one that comes late */
    four_ids_refused(a, result, ERR_CONFLICT);
    assert_true(result.has_row);
    assert_true(result.row.granted_until_ms == T + 1 + WINDOW);
    renew.expected_until_ms = T + 2 + WINDOW; /* the log has lost what it granted */
    result = id_apply_renew(a, renew);
    four_ids_refused(a, result, ERR_CONFLICT);
    assert_true(result.row.granted_until_ms == T + 1 + WINDOW);
    renew.expected_until_ms = 0;
    four_ids_granted(id_apply_renew(a, renew), 0, 1, 0, T + 1 + WINDOW);
}

static void test_renew_bounds(void **state)
{
    struct id_apply *a = *state;
    struct worker_renew renew = four_ids_renewal(0, 1, T);

    (void)four_ids_acquire(a, "a");
    renew.window_ms = LIMIT_WINDOW_MIN_MS - 1;
    four_ids_refused(a, id_apply_renew(a, renew), ERR_INVALID);
    renew.window_ms = LIMIT_WINDOW_MAX_MS + 1;
    four_ids_refused(a, id_apply_renew(a, renew), ERR_INVALID);
    renew.window_ms = LIMIT_WINDOW_MIN_MS;
    renew.last_timestamp_ms = T + WINDOW + 1; /* above what is granted */
    four_ids_refused(a, id_apply_renew(a, renew), ERR_INVALID);
    renew.last_timestamp_ms = T + WINDOW;
    four_ids_granted(id_apply_renew(a, renew), 0, 1, 0, T + WINDOW);
    renew.window_ms = LIMIT_WINDOW_MAX_MS;
    four_ids_granted(id_apply_renew(a, renew), 0, 1, 0, T + DAY);
}

/* --- release --- */

static void test_release_gives_back_what_was_not_used(void **state)
{
    struct id_apply *a = *state;
    struct worker_result result;

    (void)four_ids_acquire(a, "a");
    result = id_apply_release(a, (struct worker_release){0, 1, T + 1234, WORKER_NODE, 0, false});
    assert_int_equal(result.status, 0);
    assert_int_equal(result.row.state, WORKER_RELEASED);
    assert_true(result.row.granted_until_ms == T + 1234);
    assert_true(result.row.last_timestamp_ms == T + 1234);
    assert_true(id_apply_is_named(&result.row, "a")); /* so that it gets its id back */
    /* Unknown: all of it counts as used. */
    four_ids_granted(four_ids_acquire(a, "a"), 0, 2, T + 1234, T + 1234 + WINDOW);
    result = id_apply_release(a, (struct worker_release){0, 2, 0, WORKER_NODE, 0, false});
    assert_true(result.row.granted_until_ms == T + 1234 + WINDOW);
    assert_true(result.row.last_timestamp_ms == T + 1234);
    /* Never below the start, which may be another's end. */
    four_ids_granted(four_ids_acquire(a, "a"), 0, 3, T + 1234 + WINDOW, T + 1234 + 2 * WINDOW);
    result = id_apply_release(a, (struct worker_release){0, 3, 1, WORKER_NODE, 0, false});
    assert_true(result.row.granted_until_ms == T + 1234 + WINDOW);
    assert_true(result.row.last_timestamp_ms == T + 1234);
    /* Nor above the end. */
    four_ids_granted(four_ids_acquire(a, "a"), 0, 4, T + 1234 + WINDOW, T + 1234 + 2 * WINDOW);
    result = id_apply_release(a, (struct worker_release){0, 4, UINT64_MAX, WORKER_NODE, 0, false});
    assert_int_equal(result.status, 0);
    assert_true(result.row.granted_until_ms == T + 1234 + 2 * WINDOW);
    assert_true(result.row.last_timestamp_ms == T + 1234 + 2 * WINDOW);
}

static void test_release_cannot_take_back_a_report(void **state)
{
    struct id_apply *a = *state;
    struct worker_renew renew = four_ids_renewal(0, 1, T);
    struct worker_result result;

    (void)four_ids_acquire(a, "a");
    renew.last_timestamp_ms = T + 700;
    (void)id_apply_renew(a, renew);
    result = id_apply_release(a, (struct worker_release){0, 1, T + 5, WORKER_NODE, 0, false});
    assert_int_equal(result.status, 0);
    assert_true(result.row.granted_until_ms == T + 700);
    assert_true(result.row.last_timestamp_ms == T + 700);
}

static void test_release_is_fenced(void **state)
{
    struct id_apply *a = *state;
    struct worker_result result;

    four_ids_refused(a,
                     id_apply_release(a, (struct worker_release){0, 1, 0, WORKER_NODE, 0, false}),
                     ERR_NOT_FOUND);
    (void)four_ids_acquire(a, "a");
    result = id_apply_release(a, (struct worker_release){0, 2, T, WORKER_NODE, 0, false});
    four_ids_refused(a, result, ERR_FENCED);
    assert_true(result.row.epoch == 1);
    (void)four_ids_acquire(a, "a");
    four_ids_refused(a,
                     id_apply_release(a, (struct worker_release){0, 1, T, WORKER_NODE, 0, false}),
                     ERR_FENCED);
    assert_int_equal(fsm_worker(a->fsm, 0)->state, WORKER_HELD);
    assert_int_equal(
        id_apply_release(a, (struct worker_release){0, 2, 0, WORKER_NODE, 0, false}).status, 0);
    /* Again: answered as before, and the bound stays. */
    result = id_apply_release(a, (struct worker_release){0, 2, T, WORKER_NODE, 0, false});
    four_ids_refused(a, result, 0);
    assert_true(result.row.granted_until_ms == T + 2 * WINDOW);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, four_ids_setup, id_apply_end)
    const struct CMUnitTest tests[] = {
        TEST(test_acquire_gives_the_lowest_id_never_used),
        TEST(test_acquire_needs_layout_and_time),
        TEST(test_same_name_gets_its_id_back_above),
        TEST(test_a_name_stays_with_its_kind),
        TEST(test_given_id_must_be_free),
        TEST(test_a_name_has_one_id),
        TEST(test_handed_on_is_the_one_that_ended_first),
        TEST(test_floor_lifts_the_window),
        TEST(test_wall_clock_ahead_is_refused),
        TEST(test_acquire_bounds),
        TEST(test_renew_moves_the_bound),
        TEST(test_renew_is_fenced),
        TEST(test_renew_compares_and_sets),
        TEST(test_renew_bounds),
        TEST(test_release_gives_back_what_was_not_used),
        TEST(test_release_cannot_take_back_a_report),
        TEST(test_release_is_fenced),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
