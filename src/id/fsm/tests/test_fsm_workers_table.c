/*
 * test_fsm_workers_table.c - the table of worker ids as a table: its rows' bytes, their loading,
 * the query, the listener, and what happens when all 1024 are held.
 *
 * Thread: one.
 */
#include <stdio.h>
#include <string.h>

#include "src/tests/unit/test.h"
#include "src/id/fsm/fsm_tables.h"
#include "src/id/tests/id_apply.h"
#include "src/tests/unit/hex.h"

#define T 1700000000000ULL
#define WINDOW 10000ULL

static const struct snowflake_layout LEAF = SNOWFLAKE_LEAF_LAYOUT;

static int setup(void **state)
{
    struct id_apply *a = id_apply_new(state);

    assert_int_equal(id_apply_layout(a, &LEAF), 0);
    assert_int_equal(id_apply_clock(a, T), 0);
    return 0;
}

static struct worker_result acquire(struct id_apply *a, const char *name, uint32_t id,
                                    uint64_t wall_ms)
{
    return id_apply_acquire(a, (struct worker_acquire){.kind = WORKER_NODE,
                                                       .worker_id = id,
                                                       .window_ms = WINDOW,
                                                       .wall_ms = wall_ms,
                                                       .name = name});
}

/* --- all of them held --- */

static void name_of(unsigned i, char ret_name[16])
{
    (void)snprintf(ret_name, 16, "client-%u", i);
}

/* Each client comes a millisecond after the one before. */
/* Shows lesson-workers-out. */
static void test_1100_registrations_for_1024_ids(void **state)
{
    struct id_apply *a = *state;
    struct worker_result result;
    uint64_t first_until;
    char name[16];

    for (unsigned i = 0; i < 1100; i++) {
        name_of(i, name);
        result = acquire(a, name, WORKER_ID_ANY, T + i);
        if (i < LIMIT_WORKERS_PER_PAGE) {
            assert_int_equal(result.status, 0);
            assert_int_equal(result.row.id, i);
        } else {
            assert_int_equal(result.status, ERR_NO_WORKER_ID);
            assert_int_equal(a->changed, 0);
        }
    }
    /* The first window ends: this id, and no other, is handed on, above its window. */
    first_until = fsm_worker(a->fsm, 0)->granted_until_ms;
    (void)id_apply_clock(a, first_until);
    name_of(1024, name);
    assert_int_equal(acquire(a, name, WORKER_ID_ANY, T).status, ERR_NO_WORKER_ID);
    (void)id_apply_clock(a, first_until + 1);
    result = acquire(a, name, WORKER_ID_ANY, T);
    assert_int_equal(result.status, 0);
    assert_int_equal(result.row.id, 0);
    assert_true(result.row.epoch == 2);
    assert_true(result.row.granted_from_ms >= first_until);
    name_of(1025, name);
    assert_int_equal(acquire(a, name, WORKER_ID_ANY, T).status, ERR_NO_WORKER_ID);
    /* One that is given back is there for the next. */
    assert_int_equal(
        id_apply_release(a, (struct worker_release){512, 1, T, WORKER_NODE, 0, false}).status, 0);
    result = acquire(a, name, WORKER_ID_ANY, T);
    assert_int_equal(result.status, 0);
    assert_int_equal(result.row.id, 512);
    assert_true(result.row.granted_from_ms == T);
}

/* --- rows --- */

static void test_worker_rows_are_golden(void **state)
{
    struct id_apply *a = *state;

    (void)acquire(a, "n", 0x0102, T);
    assert_int_equal(a->row_count, 4); /* layout, answer, time */
    assert_true(hex_equal(&a->rows[3].key, "77 0102"));
    assert_true(hex_equal(&a->rows[3].value,
                          "02 01 01 0100000000000000 0000000000000000 108fe5cf8b010000 "
                          "0000000000000000 0068e5cf8b010000 0100 6e 0000"));
}

static void test_load_gives_the_same_state(void **state)
{
    struct id_apply *a = *state;
    struct fsm *loaded = fsm_of(state_new(&fsm_machine));
    struct fsm *again = fsm_of(state_new(&fsm_machine));

    (void)acquire(a, "a", 1023, T);
    (void)acquire(a, "b", WORKER_ID_ANY, T);
    (void)acquire(a, "b", WORKER_ID_ANY, T);
    (void)id_apply_release(a, (struct worker_release){1023, 1, T, WORKER_NODE, 0, false});
    id_apply_load(a, loaded);
    assert_true(state_digest(fsm_state(loaded)) == state_digest(fsm_state(a->fsm)));
    assert_true(id_apply_same_worker(fsm_worker(loaded, 0), fsm_worker(a->fsm, 0)));
    assert_true(id_apply_same_worker(fsm_worker(loaded, 1023), fsm_worker(a->fsm, 1023)));
    assert_null(fsm_worker(loaded, 1));
    state_load_begin(fsm_state(loaded)); /* begin forgets them */
    assert_null(fsm_worker(loaded, 0));
    assert_int_equal(state_load_end(fsm_state(loaded), 1), 0);
    assert_true(state_digest(fsm_state(loaded)) == 0);
    id_apply_load(a, again);
    assert_true(state_digest(fsm_state(again)) == state_digest(fsm_state(a->fsm)));
    state_free(fsm_state(again));
    state_free(fsm_state(loaded));
}

static void test_load_refuses_damage(void **state)
{
    const char *row = "02 01 02 0100000000000000 0000000000000000 108fe5cf8b010000 "
                      "0000000000000000 0068e5cf8b010000 0100 6e 0000";
    struct fsm *fsm = ((struct id_apply *)*state)->fsm;
    uint64_t digest;

    state_load_begin(fsm_state(fsm));
    assert_int_equal(id_load_hex(fsm, "77 0102", row), 0);
    digest = state_digest(fsm_state(fsm));
    assert_int_equal(id_load_hex(fsm, "77 0102", row), ERR_EXISTS);
    assert_int_equal(id_load_hex(fsm, "77", row), ERR_CORRUPT);
    assert_int_equal(id_load_hex(fsm, "77 01", row), ERR_CORRUPT);
    assert_int_equal(id_load_hex(fsm, "77 000102", row), ERR_CORRUPT);
    assert_int_equal(id_load_hex(fsm, "77 ffff", row), ERR_CORRUPT);
    assert_int_equal(id_load_hex(fsm, "77 0001", ""), ERR_TRUNCATED);
    assert_int_equal(id_load_hex(fsm, "77 0001", "02 01"), ERR_TRUNCATED);
    assert_int_equal(id_load_hex(fsm, "77 0001", "01"), ERR_BAD_VERSION);
    assert_true(state_digest(fsm_state(fsm)) == digest);
    assert_int_equal(state_load_end(fsm_state(fsm), 1), 0);
    assert_string_equal(fsm_worker(fsm, 0x0102)->name, "n");
}

/* --- the counts --- */

static void expect_counts(const struct fsm *fsm, uint64_t held, uint64_t shared)
{
    uint64_t now_held;
    uint64_t now_shared;

    fsm_worker_counts(fsm, &now_held, &now_shared);
    assert_int_equal(now_held, held);
    assert_int_equal(now_shared, shared);
}

/* A name counts once, however many worker ids it has; and not for windows that are over, or ids
 * that were released. */
static void test_counts_of_held_ids_and_shared_names(void **state)
{
    struct id_apply *a = *state;
    struct fsm *loaded = fsm_of(state_new(&fsm_machine));
    struct worker_acquire ask = {.kind = WORKER_CLIENT,
                                 .worker_id = WORKER_ID_ANY,
                                 .window_ms = 2 * WINDOW,
                                 .wall_ms = T,
                                 .client = 0x1001,
                                 .percent = 100};

    expect_counts(a->fsm, 0, 0);
    (void)acquire(a, "node", WORKER_ID_ANY, T);
    for (unsigned i = 0; i < 3; i++) { /* worker ids 1, 3, 5; and 2, 4, 6 */
        ask.name = "twin";
        assert_int_equal(id_apply_acquire(a, ask).status, 0);
        expect_counts(a->fsm, 2 + 2 * i, i == 0 ? 0 : i == 1 ? 1 : 2);
        ask.name = "other";
        assert_int_equal(id_apply_acquire(a, ask).status, 0);
        expect_counts(a->fsm, 3 + 2 * i, i == 0 ? 0 : 2);
    }
    id_apply_load(a, loaded);
    expect_counts(loaded, 7, 2);
    state_free(fsm_state(loaded));
    for (uint32_t id = 2; id <= 4; id += 2) { /* "other" has 6 alone */
        struct worker_release release = {id, 1, 0, WORKER_CLIENT, 0x1001, false};

        assert_int_equal(id_apply_release(a, release).status, 0);
    }
    expect_counts(a->fsm, 5, 1);
    (void)id_apply_clock(a, T + 2 * WINDOW + 1);
    expect_counts(a->fsm, 5, 0);
}

/* --- the query --- */

/* The ids of an answer, joined by blanks. */
static const char *query(struct id_apply *a, uint32_t first, uint16_t limit)
{
    static char ids[256];
    struct buf asked = BUF_INIT;
    struct buf answer = BUF_INIT;
    struct worker_rows rows;
    int len = 0;

    query_workers_encode(&asked, first, limit);
    assert_int_equal(fsm_query(a->fsm, asked.data, asked.len, &answer), 0);
    assert_int_equal(worker_rows_decode(answer.data, answer.len, &rows), 0);
    assert_true(rows.log_ms == a->fsm->settings.log_ms);
    ids[0] = '\0';
    for (size_t i = 0; i < rows.count; i++) {
        assert_true(id_apply_same_worker(&rows.rows[i], fsm_worker(a->fsm, rows.rows[i].id)));
        len += snprintf(ids + len, sizeof ids - (size_t)len, "%s%u", i > 0 ? " " : "",
                        rows.rows[i].id);
    }
    worker_rows_release(&rows);
    buf_free(&answer);
    buf_free(&asked);
    return ids;
}

static void test_query_lists_in_order(void **state)
{
    struct id_apply *a = *state;
    struct buf asked = BUF_INIT;
    struct buf answer = BUF_INIT;

    assert_string_equal(query(a, 0, LIMIT_WORKERS_PER_PAGE), "");
    (void)acquire(a, "z", 1023, T);
    (void)acquire(a, "y", 7, T);
    (void)acquire(a, "x", WORKER_ID_ANY, T);
    (void)id_apply_release(
        a, (struct worker_release){7, 1, 0, WORKER_NODE, 0, false}); /* released ones too */
    (void)id_apply_clock(a, T + 1);
    assert_string_equal(query(a, 0, LIMIT_WORKERS_PER_PAGE), "0 7 1023");
    assert_string_equal(query(a, 0, 2), "0 7");
    assert_string_equal(query(a, 7, 1), "7");
    assert_string_equal(query(a, 8, 5), "1023");
    assert_string_equal(query(a, 1023, 1), "1023");
    assert_string_equal(query(a, 1024, 1), "");
    assert_string_equal(query(a, WORKER_ID_ANY, 1), "");
    query_workers_encode(&asked, 0, 1);
    assert_int_equal(fsm_query(a->fsm, asked.data, asked.len - 1, &answer), ERR_BAD_MESSAGE);
    assert_int_equal(answer.len, 0);
    buf_free(&asked);
}

static void test_query_of_all_ids_with_longest_texts(void **state)
{
    struct id_apply *a = *state;
    struct buf asked = BUF_INIT;
    struct buf answer = BUF_INIT;
    struct worker_rows rows;
    char name[LIMIT_WORKER_NAME_BYTES + 1];
    char address[LIMIT_ADDRESS_BYTES + 1];

    memset(address, 'a', LIMIT_ADDRESS_BYTES);
    address[LIMIT_ADDRESS_BYTES] = '\0';
    for (unsigned i = 0; i < LIMIT_WORKERS_PER_PAGE; i++) {
        (void)snprintf(name, sizeof name, "%0*u", LIMIT_WORKER_NAME_BYTES, i);
        assert_int_equal(id_apply_acquire(a, (struct worker_acquire){.kind = WORKER_NODE,
                                                                     .worker_id = WORKER_ID_ANY,
                                                                     .window_ms = WINDOW,
                                                                     .wall_ms = T,
                                                                     .name = name,
                                                                     .address = address})
                             .status,
                         0);
    }
    query_workers_encode(&asked, 0, LIMIT_WORKERS_PER_PAGE);
    assert_int_equal(fsm_query(a->fsm, asked.data, asked.len, &answer), 0);
    assert_true(answer.len < LIMIT_ENTRY_BYTES);
    assert_int_equal(worker_rows_decode(answer.data, answer.len, &rows), 0);
    assert_int_equal(rows.count, LIMIT_WORKERS_PER_PAGE);
    assert_true(id_apply_is_named(&rows.rows[1023], name));
    assert_int_equal(rows.rows[1023].address_len, strlen(address));
    assert_memory_equal(rows.rows[1023].address, address, strlen(address));
    worker_rows_release(&rows);
    buf_free(&answer);
    buf_free(&asked);
}

/* --- listener --- */

struct watcher {
    struct fsm_listener listener;
    char heard[128];
};

static void worker_changed_cb(struct fsm_listener *listener, const struct worker_row *row)
{
    struct watcher *watcher = (struct watcher *)listener;
    size_t len = strlen(watcher->heard);

    (void)snprintf(watcher->heard + len, sizeof watcher->heard - len, "%u%s:%s:%u ", row->id,
                   row->state == WORKER_HELD ? "" : "-", row->name, (unsigned)row->epoch);
}

static void test_listener_hears_of_each_change(void **state)
{
    struct id_apply *a = *state;
    struct watcher watcher = {.listener = {.worker_changed = worker_changed_cb}};
    struct fsm *loaded = fsm_of(state_new(&fsm_machine));

    fsm_listen(a->fsm, &watcher.listener);
    (void)acquire(a, "a", 5, T);
    (void)acquire(a, "b", 5, T); /* refused */
    (void)id_apply_renew(
        a, (struct worker_renew){.worker_id = 5, .epoch = 1, .window_ms = WINDOW, .wall_ms = T});
    (void)id_apply_renew(
        a, (struct worker_renew){.worker_id = 5, .epoch = 2, .window_ms = WINDOW, .wall_ms = T});
    (void)id_apply_clock(a, T + WINDOW + 1);
    (void)acquire(a, "a", 3, T); /* and 5 is released with it */
    (void)id_apply_release(a, (struct worker_release){3, 1, 0, WORKER_NODE, 0, false});
    assert_string_equal(watcher.heard, "5:a:1 5:a:1 5-:a:1 3:a:1 3-:a:1 ");
    (void)id_apply_put(a, (struct tag_put){.name = "tag"}, false); /* nobody hears of tags */
    watcher.heard[0] = '\0';
    fsm_listen(loaded, &watcher.listener);
    id_apply_load(a, loaded); /* all of them, when the load is through */
    assert_string_equal(watcher.heard, "3-:a:1 5-:a:1 ");
    state_free(fsm_state(loaded));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, id_apply_drop)
    const struct CMUnitTest tests[] = {
        TEST(test_1100_registrations_for_1024_ids),     TEST(test_worker_rows_are_golden),
        TEST(test_load_gives_the_same_state),           TEST(test_load_refuses_damage),
        TEST(test_counts_of_held_ids_and_shared_names), TEST(test_query_lists_in_order),
        TEST(test_query_of_all_ids_with_longest_texts), TEST(test_listener_hears_of_each_change),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
