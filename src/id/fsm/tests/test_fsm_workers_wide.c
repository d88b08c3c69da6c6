/*
 * test_fsm_workers_wide.c - worker ids of 22 bits: those beyond 65,535, the bound of registered
 * ones, what is forgotten there, and 2,000 pods that come and go.
 *
 * Thread: one.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/tests/unit/test.h"
#include "src/base/prng.h"
#include "src/id/fsm/fsm_tables.h"
#include "src/id/tests/id_apply.h"

#define T 1700000000000ULL
#define BITS 22
#define NODE 7     /* whose commands come */
#define FIRST 1024 /* the first id beyond the own layout */

static const struct snowflake_layout LEAF = SNOWFLAKE_LEAF_LAYOUT;

/* A state with many worker ids, and all its rows as storage would keep them. */
struct table {
    struct fsm *fsm;
    struct id_stamps stamps;
    uint64_t index;
    uint64_t now_ms;
    struct buf *workers; /* the value by id; empty: no row */
    struct kept_row *others;
    size_t other_count;
    size_t deleted; /* rows of worker ids, by the commands so far */
};

static void keep(struct table *t, const struct state_row *row)
{
    struct kept_row *other = t->others;
    struct buf *value = NULL;
    uint32_t id;

    if (row->key[0] == FSM_TABLE_WORKERS) {
        assert_true(worker_key_read(row->key + 1, row->key_len - 1, &id));
        assert_true(row->value_len > 0 || t->workers[id].len > 0);
        t->deleted += row->value_len == 0;
        value = &t->workers[id];
    } else {
        for (size_t i = 0; i < t->other_count && value == NULL; i++) {
            other = &t->others[i];
            value = other->key.len == row->key_len &&
                            memcmp(other->key.data, row->key, row->key_len) == 0
                        ? &other->value
                        : NULL;
        }
    }
    if (value == NULL) {
        t->others = realloc(t->others, (t->other_count + 1) * sizeof *t->others);
        assert_non_null(t->others);
        other = &t->others[t->other_count++];
        *other = (struct kept_row){0};
        buf_put(&other->key, row->key, row->key_len);
        value = &other->value;
    }
    value->len = 0;
    buf_put(value, row->value, row->value_len);
}

/* What the kept rows are when they are loaded. */
static struct fsm *load(const struct table *t)
{
    struct fsm *fsm = fsm_of(state_new(&fsm_machine));
    struct state *state = fsm_state(fsm);

    state_load_begin(state);
    for (size_t i = 0; i < t->other_count; i++) {
        const struct state_row row = kept_row(&t->others[i]);

        assert_true(row.value_len == 0 || state_load_row(state, &row) == 0);
    }
    for (uint32_t id = 0; id < LIMIT_WORKER_IDS; id++) {
        BUF_LOCAL(key);

        if (t->workers[id].len > 0) {
            buf_put_u8(&key, FSM_TABLE_WORKERS);
            worker_key_put(&key, id);
            assert_int_equal(
                state_load_row(state,
                               &(struct state_row){key.data, (uint32_t)key.len, t->workers[id].data,
                                                   (uint32_t)t->workers[id].len}),
                0);
        }
    }
    assert_int_equal(state_load_end(state, t->index), 0);
    return fsm;
}

/* At level 3, with a layout and a time. */
static int setup(void **state)
{
    struct table *t = calloc(1, sizeof *t);
    struct id_apply *a = calloc(1, sizeof *a);
    const struct kept_row *kept;

    assert_true(t != NULL && a != NULL);
    id_apply_init(a);
    id_apply_raise(a, 3);
    assert_int_equal(id_apply_layout(a, &LEAF), 0);
    assert_int_equal(id_apply_clock(a, T), 0);
    t->workers = calloc(LIMIT_WORKER_IDS, sizeof *t->workers);
    assert_non_null(t->workers);
    for (size_t i = 0; (kept = id_apply_kept(a, i)) != NULL; i++) {
        const struct state_row row = kept_row(kept);

        keep(t, &row);
    }
    t->index = a->index;
    t->now_ms = T;
    t->fsm = load(t);
    id_apply_free(a);
    free(a);
    *state = t;
    return 0;
}

static int teardown(void **state)
{
    struct table *t = *state;

    for (uint32_t id = 0; id < LIMIT_WORKER_IDS; id++) {
        buf_free(&t->workers[id]);
    }
    for (size_t i = 0; i < t->other_count; i++) {
        buf_free(&t->others[i].key);
        buf_free(&t->others[i].value);
    }
    free(t->workers);
    free(t->others);
    state_free(fsm_state(t->fsm));
    free(t);
    return 0;
}

/* Storage has what the state has. */
static void check_rows(const struct table *t)
{
    struct fsm *loaded = load(t);

    assert_true(state_digest(fsm_state(loaded)) == state_digest(fsm_state(t->fsm)));
    state_free(fsm_state(loaded));
}

/* Apply the command and free it. */
static void apply(struct table *t, struct buf *command, struct buf *result)
{
    struct row_changes changes = {0};

    id_stamp(&t->stamps, NODE, command);
    assert_int_equal(state_apply(fsm_state(t->fsm), ++t->index, 1, command->data, command->len,
                                 result, &changes),
                     0);
    for (size_t i = 0; i < changes.count; i++) {
        keep(t, &changes.items[i]);
    }
    row_changes_release(&changes);
    buf_free(command);
}

static struct worker_result apply_worker(struct table *t, struct buf *command)
{
    struct worker_result result;
    BUF_LOCAL(bytes);

    apply(t, command, &bytes);
    assert_int_equal(worker_result_decode(bytes.data, bytes.len, &result), 0);
    return result;
}

static void pass_ms(struct table *t, uint64_t ms)
{
    struct buf command = BUF_INIT;
    BUF_LOCAL(result);

    t->now_ms += ms;
    cluster_command_put(&command, COMMAND_CLOCK, &(struct clock_command){t->now_ms});
    apply(t, &command, &result);
}

static struct worker_result acquire(struct table *t, const char *name, uint32_t id,
                                    uint64_t window_ms)
{
    struct buf command = BUF_INIT;

    command_put(&command, COMMAND_WORKER_ACQUIRE_OF,
                &(struct worker_acquire){.kind = WORKER_CLIENT,
                                         .worker_id = id,
                                         .window_ms = window_ms,
                                         .wall_ms = t->now_ms,
                                         .name = name,
                                         .name_len = (uint16_t)strlen(name),
                                         .client = 1 + strlen(name) % 3,
                                         .percent = 100,
                                         .bits = BITS});
    return apply_worker(t, &command);
}

/* Any worker id, for a node. */
static struct worker_result acquire_for_node(struct table *t, const char *name)
{
    struct buf command = BUF_INIT;

    command_put(&command, COMMAND_WORKER_ACQUIRE,
                &(struct worker_acquire){.kind = WORKER_NODE,
                                         .worker_id = WORKER_ID_ANY,
                                         .window_ms = 60000,
                                         .wall_ms = t->now_ms,
                                         .name = name,
                                         .name_len = (uint16_t)strlen(name)});
    return apply_worker(t, &command);
}

static struct worker_result renew(struct table *t, const struct worker_row *row, uint64_t epoch)
{
    const struct worker_renew record = {.worker_id = row->id,
                                        .epoch = epoch,
                                        .window_ms = 60000,
                                        .wall_ms = t->now_ms,
                                        .kind = WORKER_CLIENT,
                                        .client = row->client != 0 ? row->client : 1};
    struct buf command = BUF_INIT;

    command_put(&command, command_type_for(COMMAND_WORKER_RENEW, &record), &record);
    return apply_worker(t, &command);
}

static struct worker_result let_go(struct table *t, const struct worker_row *row)
{
    const struct worker_release record = {.worker_id = row->id,
                                          .epoch = row->epoch,
                                          .kind = WORKER_CLIENT,
                                          .client = row->client != 0 ? row->client : 1};
    struct buf command = BUF_INIT;

    command_put(&command, command_type_for(COMMAND_WORKER_RELEASE, &record), &record);
    return apply_worker(t, &command);
}

/* --- ids beyond two bytes --- */

static void test_ids_up_to_22_bits(void **state)
{
    static const uint32_t ids[] = {65534, 65535, 65536, LIMIT_WORKER_IDS - 1};
    struct table *t = *state;
    struct worker_rows rows;
    BUF_LOCAL(query);
    BUF_LOCAL(answer);

    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        struct worker_result result = acquire(t, "pod", ids[i], 10000);

        assert_int_equal(result.status, 0);
        assert_int_equal(result.row.id, ids[i]);
        result.row.client = fsm_worker(t->fsm, ids[i])->client;
        assert_int_equal(renew(t, &result.row, 1).status, 0);
        assert_int_equal(fsm_worker(t->fsm, ids[i])->granted_until_ms, T + 60000);
        assert_int_equal(renew(t, &result.row, 2).status, ERR_FENCED);
        assert_int_equal(let_go(t, &result.row).status, 0);
        assert_int_equal(fsm_worker(t->fsm, ids[i])->state, WORKER_RELEASED);
    }
    assert_int_equal(acquire(t, "pod", LIMIT_WORKER_IDS, 10000).status, ERR_INVALID);
    assert_int_equal(acquire(t, "other", WORKER_ID_ANY, 10000).row.id, FIRST);
    query_workers_encode(&query, 65536, 10);
    assert_int_equal(fsm_query(t->fsm, query.data, query.len, &answer), 0);
    assert_int_equal(worker_rows_decode(answer.data, answer.len, &rows), 0);
    assert_int_equal(rows.count, 2);
    assert_int_equal(rows.rows[0].id, 65536);
    assert_int_equal(rows.rows[1].id, LIMIT_WORKER_IDS - 1);
    worker_rows_release(&rows);
    check_rows(t);
}

/* --- as many as there may be --- */

/* Make rows of the first `count` ids from FIRST on; their windows end one after the other, from
 * `from_ms` on during `over_ms`. */
static void fill(struct table *t, struct prng *prng, unsigned count, uint64_t from_ms,
                 uint64_t over_ms)
{
    for (unsigned i = 0; i < count; i++) {
        char name[32];
        char address[32];
        struct worker_row row = {.id = FIRST + i,
                                 .state = i % 2 == 0 ? WORKER_HELD : WORKER_RELEASED,
                                 .kind = i % 50 == 0 ? WORKER_NODE : WORKER_CLIENT,
                                 .epoch = 1 + prng_below(prng, 50),
                                 .granted_from_ms = T - 1000,
                                 .granted_until_ms = T + from_ms + over_ms * i / count,
                                 .updated_ms = T,
                                 .name = name,
                                 .address = address};

        row.client = row.kind == WORKER_CLIENT && row.state == WORKER_HELD ? 1 + i % 3 : 0;
        row.name_len = (uint16_t)snprintf(name, sizeof name, "payments-7d4b9c-%05u", i);
        row.address_len =
            (uint16_t)snprintf(address, sizeof address, "10.1.%u.%u:8080", i / 256, i % 256);
        worker_row_put(&t->workers[row.id], &row);
    }
    state_free(fsm_state(t->fsm));
    t->fsm = load(t);
}

/* What a client holds of a wider layout takes no share of the cluster's own; and all of 65,536 are
 * all. */
static void test_shares_of_two_layouts(void **state)
{
    struct table *t = *state;
    struct worker_acquire own = {.kind = WORKER_CLIENT,
                                 .worker_id = WORKER_ID_ANY,
                                 .window_ms = 60000,
                                 .wall_ms = T,
                                 .name = "own",
                                 .name_len = 3,
                                 .client = 1,
                                 .percent = 1}; /* of 1024: 10 */
    struct worker_result result;
    struct buf command = BUF_INIT;

    for (uint32_t id = FIRST; id < FIRST + LIMIT_WORKER_ROWS - 2; id++) {
        struct worker_row row = {.id = id,
                                 .state = WORKER_HELD,
                                 .kind = WORKER_CLIENT,
                                 .epoch = 1,
                                 .granted_until_ms = T + 60000,
                                 .name = "pod",
                                 .name_len = 3,
                                 .client = 1};

        worker_row_put(&t->workers[id], &row);
    }
    state_free(fsm_state(t->fsm));
    t->fsm = load(t);
    command_put(&command, COMMAND_WORKER_ACQUIRE_OF, &own);
    result = apply_worker(t, &command);
    assert_int_equal(result.status, 0);
    assert_int_equal(result.row.id, 0);
    own.bits = BITS;
    command_put(&command, COMMAND_WORKER_ACQUIRE_OF, &own);
    result = apply_worker(t, &command);
    assert_int_equal(result.status, ERR_SHARE);
    assert_int_equal(result.most, LIMIT_WORKER_ROWS / 100);
    own.percent = 100;
    command_put(&command, COMMAND_WORKER_ACQUIRE_OF, &own);
    assert_int_equal(apply_worker(t, &command).status, 0);
    assert_null(fsm_worker_at(t->fsm, LIMIT_WORKER_ROWS));
    check_rows(t);
}

static void test_one_more_than_may_be_registered(void **state)
{
    struct table *t = *state;
    struct prng prng;
    struct worker_result result;

    prng_seed(&prng, 34);
    fill(t, &prng, LIMIT_WORKER_ROWS - 1, 5000, 1);
    assert_int_equal(acquire(t, "last", 4000000, 60000).status, 0);
    assert_int_equal(acquire(t, "more", 4000001, 60000).status, ERR_NO_WORKER_ID);
    assert_int_equal(acquire(t, "more", WORKER_ID_ANY, 60000).status, ERR_NO_WORKER_ID);
    result = acquire_for_node(t, "4/0"); /* whatever clients hold */
    assert_true(result.status == 0 && result.row.id == 0);
    assert_non_null(fsm_worker_at(t->fsm, LIMIT_WORKER_ROWS));
    assert_int_equal(acquire(t, "more", 4000001, 60000).status, ERR_NO_WORKER_ID);
    assert_int_equal(t->deleted, 0);
    pass_ms(t, 5002); /* all windows but the last one's are over */
    result = acquire(t, "more", 4000001, 60000);
    assert_int_equal(result.status, 0);
    assert_int_equal(t->deleted, 1);
    assert_null(fsm_worker_at(t->fsm, LIMIT_WORKER_ROWS + 1));
    assert_null(fsm_worker(t->fsm, FIRST + 1)); /* a released one, and no node's */
    assert_int_equal(fsm_worker(t->fsm, 4000000)->granted_until_ms, T + 60000);
    assert_int_equal(acquire(t, "any", WORKER_ID_ANY, 60000).row.id, FIRST); /* the lowest free */
    check_rows(t);
}

/* Of an id that was forgotten no epoch and no time come again. */
static void test_what_is_forgotten_is_not_granted_again(void **state)
{
    enum { IDS = FIRST + LIMIT_WORKER_ROWS + 2000, STEPS = 1500 };
    struct table *t = *state;
    uint64_t *epochs = calloc(IDS, sizeof *epochs);
    uint64_t *untils = calloc(IDS, sizeof *untils);
    unsigned again = 0;
    struct prng prng;

    assert_true(epochs != NULL && untils != NULL);
    prng_seed(&prng, 35);
    fill(t, &prng, LIMIT_WORKER_ROWS, 0, 60000);
    for (unsigned i = 0; i < LIMIT_WORKER_ROWS; i++) {
        epochs[FIRST + i] = fsm_worker(t->fsm, FIRST + i)->epoch;
        untils[FIRST + i] = fsm_worker(t->fsm, FIRST + i)->granted_until_ms;
    }
    for (unsigned step = 0; step < STEPS; step++) {
        /* Ids beyond those of the start, and the few that are forgotten first. */
        uint32_t id = FIRST + (prng_below(&prng, 2) == 0
                                   ? LIMIT_WORKER_ROWS + (uint32_t)prng_below(&prng, 2000)
                                   : (uint32_t)prng_below(&prng, 400));
        const struct worker_row *old = fsm_worker(t->fsm, id);
        bool is_forgotten = old == NULL && epochs[id] > 0;
        struct worker_result result;

        if (prng_below(&prng, 3) == 0) {
            pass_ms(t, prng_below(&prng, 300));
        }
        if (prng_below(&prng, 4) == 0) {
            struct worker_row stale = {.id = id, .client = old != NULL ? old->client : 0};

            result = renew(t, &stale, 1 + prng_below(&prng, epochs[id] + 1));
            assert_true(result.status != 0 || result.row.epoch == epochs[id]);
        } else {
            result = acquire(t, "pods", id, 1000 + prng_below(&prng, 5000));
            if (result.status == 0) {
                assert_true(result.row.epoch > epochs[id]);
                assert_true(result.row.granted_from_ms >= untils[id]);
                again += is_forgotten;
            }
        }
        if (result.status == 0) {
            epochs[id] = result.row.epoch;
            untils[id] = result.row.granted_until_ms;
        }
        assert_null(fsm_worker_at(t->fsm, LIMIT_WORKER_ROWS));
    }
    assert_true(t->deleted > 100 && again > 10);
    check_rows(t);
    free(untils);
    free(epochs);
}

/* --- pods --- */

#define PODS 2000
#define POD_IDS (FIRST + 2 * PODS)

struct pod {
    struct worker_row held;
    uint64_t ends_ms;
    uint64_t renews_ms;
    unsigned starts;
};

static void pod_step(struct table *t, struct prng *prng, struct pod *pod, unsigned number,
                     uint64_t *free_ms)
{
    struct worker_result result = {0};
    char name[32];

    if (t->now_ms >= pod->ends_ms) {
        if (pod->starts > 0 && prng_below(prng, 4) > 0) { /* else it is killed */
            assert_int_equal(let_go(t, &pod->held).status, 0);
        }
        (void)snprintf(name, sizeof name, "pod-%u-%u", number, pod->starts++);
        result = acquire(t, name, WORKER_ID_ANY, 60000);
        pod->ends_ms = t->now_ms + 30000 + prng_below(prng, 90000);
        pod->renews_ms = t->now_ms + 20000;
        assert_int_equal(result.status, 0);
        assert_true(result.row.id < POD_IDS &&
                    result.row.granted_from_ms >= free_ms[result.row.id]);
        result.row.client = fsm_worker(t->fsm, result.row.id)->client;
        pod->held = result.row;
        free_ms[result.row.id] = result.row.granted_until_ms;
    } else if (pod->starts > 0 && t->now_ms >= pod->renews_ms) {
        result = renew(t, &pod->held, pod->held.epoch);
        pod->renews_ms += 20000;
        assert_int_equal(result.status, 0);
        free_ms[result.row.id] = result.row.granted_until_ms;
    }
}

/* Five minutes: each lives for half a minute to two, and is renewed every 20 s. No window of an id
 * begins before the one before it ends, and no more ids are used than pods lived in a window. */
static void test_two_thousand_pods_come_and_go(void **state)
{
    struct table *t = *state;
    struct pod *pods = calloc(PODS, sizeof *pods);
    uint64_t *free_ms = calloc(POD_IDS, sizeof *free_ms);
    unsigned starts = 0;
    struct prng prng;

    assert_true(pods != NULL && free_ms != NULL);
    prng_seed(&prng, 36);
    for (unsigned i = 0; i < PODS; i++) {
        pods[i].ends_ms = T + prng_below(&prng, 30000);
    }
    while (t->now_ms < T + 300000) {
        for (unsigned i = 0; i < PODS; i++) {
            pod_step(t, &prng, &pods[i], i, free_ms);
        }
        pass_ms(t, 1000);
    }
    for (unsigned i = 0; i < PODS; i++) {
        starts += pods[i].starts;
    }
    assert_true(starts > 3 * PODS);
    assert_null(fsm_worker_at(t->fsm, 2 * PODS));
    check_rows(t);
    free(free_ms);
    free(pods);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_ids_up_to_22_bits, setup, teardown),
        cmocka_unit_test_setup_teardown(test_shares_of_two_layouts, setup, teardown),
        cmocka_unit_test_setup_teardown(test_one_more_than_may_be_registered, setup, teardown),
        cmocka_unit_test_setup_teardown(test_what_is_forgotten_is_not_granted_again, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_two_thousand_pods_come_and_go, setup, teardown),
    };

    return cmocka_run_group_tests_name("fsm_workers_wide", tests, NULL, NULL);
}
