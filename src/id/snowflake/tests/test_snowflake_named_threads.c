/*
 * test_snowflake_named_threads.c - many threads claim under two named layouts and the cluster's own
 * at once, while the owner learns the layouts, moves the limits on, kills a worker id under them
 * and puts another in its place.
 *
 * Afterwards no id of a layout came twice, each unit began within the bounds that its worker id
 * ever had, and none of the killed one is later than what snowflake_last_used_ms() said then.
 *
 * Time is a number that every reading of the clock moves up a little, so that units end under the
 * claimers however slow the machine is.
 *
 * Threads: claimers, and the test's as the owner.
 */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "src/tests/unit/test.h"
#include "src/base/assert.h"
#include "src/base/prng.h"
#include "src/id/snowflake/snowflake.h"

#define CLAIMERS 4
#define IDS_EACH 200000U
#define IDS ((size_t)CLAIMERS * IDS_EACH)
#define KINDS 3 /* own, ten, second */
#define T0 1700000000000ULL
#define WINDOW_MS 3600000000ULL
#define STEP_MS 40        /* of a limit */
#define READINGS_PER_MS 8 /* of the clock */
#define WORKERS 3         /* 0 stays, 2 takes the place of 1 */

struct race {
    struct snowflake snowflake;
    struct clock clock;
    _Atomic uint64_t readings;
    _Atomic unsigned claimers; /* that still claim */
    _Atomic uint64_t claimed;  /* ids, by all of them */
    uint64_t from_ms[WORKERS];
    uint64_t last_ms[WORKERS];
};

struct claim {
    uint64_t first; /* in its plain form */
    uint32_t count;
    unsigned kind;
};

struct claimer {
    struct race *race;
    pthread_t thread;
    unsigned index;
    struct prng prng;
    struct claim *claims; /* IDS_EACH */
    uint32_t count;
    uint32_t ids;
};

static const struct snowflake_layout own = SNOWFLAKE_LEAF_LAYOUT;
static const char *const names[KINDS] = {NULL, "ten", "second"};
static const struct named_layout layouts[KINDS] = {
    [1] = {{T0 - 5, 39, 16, 8}, 10, LAYOUT_WORKER_LAST},
    [2] = {{T0 - 123456, 32, 10, 13}, 1000, LAYOUT_SEQUENCE_LAST},
};

static uint64_t race_wall_ms(const struct clock *clock)
{
    struct race *race = clock->data;

    return T0 + atomic_fetch_add(&race->readings, 1) / READINGS_PER_MS;
}

static int claim_one(struct claimer *c, unsigned kind, uint32_t count,
                     struct segment_range *ret_range)
{
    struct snowflake *snowflake = &c->race->snowflake;
    struct layout_words *named =
        kind > 0 ? snowflake_named_find(snowflake, names[kind], strlen(names[kind])) : NULL;
    bool notify;

    if (kind > 0 && named == NULL) {
        return ERR_EMPTY; /* not learnt yet */
    }
    return snowflake_claim(snowflake, named, c->index, count, prng_next(&c->prng), ret_range,
                           &notify);
}

static void *claim_all(void *data)
{
    struct claimer *c = data;

    while (c->ids < IDS_EACH) {
        unsigned kind = (unsigned)prng_below(&c->prng, KINDS);
        uint32_t left = IDS_EACH - c->ids;
        struct segment_range range;
        int err =
            claim_one(c, kind, 1 + (uint32_t)prng_below(&c->prng, left < 9 ? left : 9), &range);

        if (err == 0) {
            c->claims[c->count++] = (struct claim){range.first, range.count, kind};
            c->ids += range.count;
            atomic_fetch_add(&c->race->claimed, range.count);
            continue;
        }
        /* No worker id before the owner has added one. */
        ASSERT(err == ERR_EMPTY || err == ERR_NO_WORKER_ID);
        (void)sched_yield();
    }
    atomic_fetch_sub(&c->race->claimers, 1);
    return NULL;
}

static struct snowflake_slot *race_add(struct race *race, uint32_t worker)
{
    uint64_t from_ms = clock_wall_ms(&race->clock);
    struct snowflake_slot *slot =
        snowflake_add(&race->snowflake, worker, from_ms, from_ms, from_ms + WINDOW_MS);

    ASSERT(slot != NULL);
    race->from_ms[worker] = from_ms;
    race->last_ms[worker] = from_ms;
    return slot;
}

static void race_extend(struct race *race, struct snowflake_slot *slot)
{
    race->last_ms[slot->worker] = clock_wall_ms(&race->clock) + STEP_MS;
    snowflake_extend(slot, race->last_ms[slot->worker], race->from_ms[slot->worker] + WINDOW_MS);
}

static void race_learn(struct race *race, unsigned kind)
{
    struct layout_row row = {.name_len = (uint16_t)strlen(names[kind]), .layout = layouts[kind]};

    memcpy(row.name, names[kind], row.name_len);
    snowflake_learn(&race->snowflake, &row);
}

/* The owner's part: one layout is learnt at once, the other when a worker id was killed. */
static void own_race(struct race *race)
{
    struct snowflake_slot *kept = race_add(race, 0);
    struct snowflake_slot *other = race_add(race, 1);

    race_learn(race, 1);
    while (atomic_load(&race->claimers) > 0) {
        if (other->worker == 1 && atomic_load(&race->claimed) > IDS / 3) {
            snowflake_kill(other);
            race->last_ms[1] = snowflake_last_used_ms(&race->snowflake, other);
            race_learn(race, 2);
            other = race_add(race, 2);
        }
        if (atomic_exchange(&race->snowflake.wanted, false)) {
            race_extend(race, kept);
            race_extend(race, other);
        }
        (void)sched_yield();
    }
}

static int compare_claims(const void *a, const void *b)
{
    const struct claim *x = a;
    const struct claim *y = b;

    return x->kind != y->kind ? (x->kind > y->kind) - (x->kind < y->kind)
                              : (x->first > y->first) - (x->first < y->first);
}

static struct snowflake_parts parts_of(const struct claim *claim)
{
    struct snowflake_parts parts;

    if (claim->kind == 0) {
        return snowflake_decode(&own, claim->first);
    }
    assert_true(named_layout_decode(&layouts[claim->kind],
                                    named_layout_id(&layouts[claim->kind], claim->first), &parts));
    return parts;
}

static void check_claims(const struct race *race, struct claim *claims, size_t count)
{
    size_t of_kind[KINDS] = {0};
    size_t of_worker[WORKERS] = {0};

    qsort(claims, count, sizeof *claims, compare_claims);
    for (size_t i = 0; i < count; i++) {
        struct snowflake_parts parts = parts_of(&claims[i]);

        assert_true(i == 0 || claims[i].kind != claims[i - 1].kind ||
                    claims[i].first >= claims[i - 1].first + claims[i - 1].count);
        assert_true(parts.worker < WORKERS);
        assert_true(parts.unix_ms > race->from_ms[parts.worker]);
        assert_true(parts.unix_ms <= race->last_ms[parts.worker]);
        of_kind[claims[i].kind]++;
        of_worker[parts.worker]++;
    }
    for (size_t i = 0; i < KINDS; i++) {
        assert_true(of_kind[i] > 0);
    }
    assert_true(of_worker[0] > 0 && of_worker[1] + of_worker[2] > 0);
}

static void test_threads_claim_under_all_layouts(void **state)
{
    struct race *race = calloc(1, sizeof *race);
    struct claim *claims = calloc(IDS, sizeof *claims);
    struct claimer claimers[CLAIMERS] = {0};
    size_t count = 0;

    (void)state;
    assert_true(race != NULL && claims != NULL);
    race->clock = (struct clock){.wall_ms = race_wall_ms, .data = race};
    atomic_store(&race->claimers, CLAIMERS);
    snowflake_init(&race->snowflake, &race->clock);
    snowflake_set_layout(&race->snowflake, &own);
    for (unsigned i = 0; i < CLAIMERS; i++) {
        claimers[i].race = race;
        claimers[i].index = i;
        claimers[i].claims = calloc(IDS_EACH, sizeof *claims);
        assert_non_null(claimers[i].claims);
        prng_seed(&claimers[i].prng, i + 1);
    }
    for (unsigned i = 0; i < CLAIMERS; i++) {
        assert_int_equal(pthread_create(&claimers[i].thread, NULL, claim_all, &claimers[i]), 0);
    }
    own_race(race);
    for (unsigned i = 0; i < CLAIMERS; i++) {
        assert_int_equal(pthread_join(claimers[i].thread, NULL), 0);
        memcpy(claims + count, claimers[i].claims, claimers[i].count * sizeof *claims);
        count += claimers[i].count;
        free(claimers[i].claims);
    }
    assert_int_equal(atomic_load(&race->claimed), IDS);
    check_claims(race, claims, count);
    snowflake_release(&race->snowflake);
    free(claims);
    free(race);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_threads_claim_under_all_layouts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
