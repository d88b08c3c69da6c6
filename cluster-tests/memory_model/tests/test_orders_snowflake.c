/*
 * test_orders_snowflake.c - the generator of snowflake ids under the whole of C11's memory model:
 * claimers, a wall clock that goes on, and an owner that adds, extends and kills a worker id.
 *
 * What holds in each execution: no id is claimed twice; none is later than what the owner read
 * after a kill; none is later than the mark that was durable before the limit was raised to it; the
 * layout and the worker id are complete when they are used; a clock that never goes back is never
 * said to have; who finds the mark lapsed has told the owner, or somebody else has.
 *
 * The clock is a counter that a claim reads by a relaxed read-modify-write: all readings are in one
 * order, and order nothing else. Its steps are longer than what a claim waits for.
 *
 * Threads: none of the system; see model.h.
 */
#include "src/tests/unit/test.h"
#include "src/id/snowflake/snowflake.h"
#include "cluster-tests/memory_model/model_atomic.h"
#include "cluster-tests/memory_model/tests/orders.h"

#define CLAIMERS 2
#define CLAIMS 3
#define T0 1700000000000ULL
#define STEP_MS (LIMIT_CLOCK_BACK_WAIT_MS + 5)
#define WORKER 5U

struct bound {
    unsigned claims[CLAIMERS];
    uint32_t count;  /* ids of a claim */
    unsigned ticks;  /* of the clock, by the owner */
    bool late_start; /* the owner sets the layout and adds the worker id, not the set-up */
    bool lapsed;     /* the mark is reached in the beginning; the owner raises it when told */
    bool extends;    /* it raises it before the clock gets there */
    bool kills;      /* after that */
};

struct claim {
    struct segment_range range;
    int err;
};

static struct {
    struct snowflake snowflake;
    struct clock clock;
    _Atomic uint64_t now_ms;
    _Atomic uint32_t notified;
    uint64_t durable_ms; /* the owner's mark: plain memory */
    struct snowflake_slot *slot;
    uint64_t last_ms; /* as the owner read it after the kill */
    uint64_t word;
    struct claim claims[CLAIMERS][CLAIMS];
} at;

static const struct snowflake_layout layout = SNOWFLAKE_LEAF_LAYOUT;

static const struct bound *bound(void)
{
    return orders_bound;
}

static uint64_t wall_cb(const struct clock *clock)
{
    (void)clock;
    return atomic_fetch_add_explicit(&at.now_ms, 0, memory_order_relaxed);
}

/* The mark is on disk from here on. */
static uint64_t make_durable(uint64_t mark_ms)
{
    model_plain(&at.durable_ms, sizeof at.durable_ms, true);
    at.durable_ms = mark_ms;
    return mark_ms;
}

static void add(void)
{
    uint64_t first_ms = T0 + (bound()->lapsed || bound()->extends ? 0 : 100 * STEP_MS);

    snowflake_set_layout(&at.snowflake, &layout);
    at.slot = snowflake_add(&at.snowflake, WORKER, T0 - 1, first_ms - bound()->lapsed,
                            T0 + 200 * STEP_MS);
}

static void set_up(void)
{
    memset((void *)&at, 0, sizeof at);
    at.clock.wall_ms = wall_cb;
    atomic_init(&at.now_ms, T0 + (bound()->lapsed ? 1 : 0));
    atomic_init(&at.notified, 0);
    snowflake_init(&at.snowflake, &at.clock);
    if (!bound()->late_start) {
        add();
    }
}

static void own(void)
{
    if (bound()->late_start) {
        add();
    }
    if (bound()->lapsed) {
        (void)MODEL_AWAIT_OR_STAY(&at.notified);
        (void)atomic_exchange_explicit(&at.snowflake.wanted, false, memory_order_acq_rel);
    }
    if (bound()->lapsed || bound()->extends) {
        uint64_t mark_ms = make_durable(T0 + 100 * STEP_MS);

        snowflake_extend(at.slot, mark_ms, T0 + 200 * STEP_MS);
    }
    for (unsigned i = 0; i < bound()->ticks; i++) {
        (void)atomic_fetch_add_explicit(&at.now_ms, STEP_MS, memory_order_relaxed);
    }
    if (bound()->kills) {
        snowflake_kill(at.slot);
        at.last_ms = snowflake_last_used_ms(&at.snowflake, at.slot);
        at.word = atomic_load_explicit(&at.slot->word, memory_order_relaxed);
    }
}

static void claim_as(unsigned me)
{
    for (unsigned i = 0; i < bound()->claims[me]; i++) {
        struct segment_range range = {0};
        bool notify;
        int err = snowflake_claim(&at.snowflake, NULL, me, bound()->count, 0, &range, &notify);

        at.claims[me][i] = (struct claim){range, err};
        MODEL_CHECK(err != ERR_CLOCK_BACKWARDS && err != ERR_WINDOW_EXPIRED);
        if (notify) {
            atomic_store_explicit(&at.notified, 1, memory_order_release);
        }
        if (err == 0 && snowflake_decode(&layout, range.first).unix_ms > T0 &&
            (bound()->lapsed || bound()->extends)) {
            model_plain(&at.durable_ms, sizeof at.durable_ms, false);
            MODEL_CHECK(snowflake_decode(&layout, range.first).unix_ms <= at.durable_ms);
        }
    }
}

static void claim_0(void)
{
    claim_as(0);
}

static void claim_1(void)
{
    claim_as(1);
}

static void check_pair(const struct claim *a, const struct claim *b)
{
    MODEL_CHECK(a == b || a->err != 0 || b->err != 0 ||
                a->range.first + a->range.count <= b->range.first ||
                b->range.first + b->range.count <= a->range.first);
}

static void check_claim(const struct claim *claim)
{
    uint64_t last = claim->range.first + claim->range.count - 1;
    struct snowflake_parts parts = snowflake_decode(&layout, last);

    MODEL_CHECK(parts.worker == WORKER && claim->range.count == bound()->count);
    MODEL_CHECK(!bound()->kills || parts.unix_ms <= at.last_ms);
    if (bound()->kills && parts.unix_ms == at.last_ms) {
        MODEL_CHECK(parts.sequence < (at.word & 0x1ffff));
    }
}

static void check(void)
{
    unsigned empty = 0;

    for (unsigned i = 0; i < CLAIMERS * CLAIMS; i++) {
        const struct claim *claim = &at.claims[i / CLAIMS][i % CLAIMS];

        if (i % CLAIMS >= bound()->claims[i / CLAIMS]) {
            continue;
        }
        empty += claim->err == ERR_EMPTY;
        MODEL_CHECK(claim->err == 0 || claim->err == ERR_EMPTY || claim->err == ERR_NO_WORKER_ID);
        MODEL_CHECK(claim->err != ERR_NO_WORKER_ID || bound()->late_start || bound()->kills);
        if (claim->err == 0) {
            check_claim(claim);
        }
        for (unsigned j = 0; j < i; j++) {
            const struct claim *other = &at.claims[j / CLAIMS][j % CLAIMS];

            if (j % CLAIMS < bound()->claims[j / CLAIMS]) {
                check_pair(claim, other);
            }
        }
    }
    MODEL_CHECK(empty == 0 || bound()->lapsed || bound()->extends || bound()->kills);
    MODEL_CHECK(empty == 0 || !bound()->lapsed || at.durable_ms > 0);
}

#define CASE(is_it_long, title, ...)                                                               \
    {                                                                                              \
        .scenario = {.name = (title),                                                              \
                     .setup = set_up,                                                              \
                     .threads = {own, claim_0, claim_1},                                           \
                     .finish = check,                                                              \
                     .late_max = 1},                                                               \
        .bound = &(const struct bound){__VA_ARGS__}, .is_long = (is_it_long),                      \
    }

static const struct orders_case cases[] = {
    CASE(false, "a worker id that is added", .claims = {1, 1}, .count = 2, .late_start = true),
    CASE(false, "a kill", .claims = {2, 1}, .count = 2, .kills = true),
    CASE(false, "the clock goes on", .claims = {2, 1}, .count = 1, .ticks = 1),
    CASE(false, "a limit that is raised", .claims = {1, 1}, .count = 1, .ticks = 1,
         .extends = true),
    CASE(false, "a mark that lapsed", .claims = {2, 1}, .count = 1, .lapsed = true),
    CASE(true, "long: a kill while the clock goes on", .claims = {2, 2}, .count = 1, .ticks = 1,
         .kills = true),
};

#define COUNT (sizeof cases / sizeof cases[0])

static void test_the_generator_under_all_orders_of_memory(void **state)
{
    (void)state;
    orders_hold(cases, COUNT);
}

static void test_each_order_of_the_generator_is_needed(void **state)
{
    static const char first[] = "slot_count, stored later and loaded later, carries it as well";
    static const char swap[] = "the same word was loaded with acquire before, and none comes twice";
    static const char one[] = "one location: all its changes are in one order anyway";
    static const char refusal[] = "decides between two refusals, of what either would be right";
    static const char unnamed[] = "no layout has a name here: layouts are published as tags are";
    static const struct orders_needless needless[] = {
        {"snowflake_set_layout: store &snowflake->ready (1) release to relaxed", first},
        {"snowflake_claim: load &snowflake->ready (1) acquire to relaxed", first},
        {"slot_claim: compare_exchange word_at (1) acq_rel to release", swap},
        {"snowflake_kill: fetch_or &slot->word (1) acq_rel to acquire", one},
        {"snowflake_kill: fetch_or &slot->word (1) acq_rel to release", one},
        {"snowflake_kill: fetch_or &slot->word (1) acq_rel to relaxed", one},
        {"snowflake_kill: store &slot->limit_ms (1) release to relaxed", one},
        {"last_begin_ms: load word (1) acquire to relaxed", one},
        {"claim_end: exchange &snowflake->wanted (1) acq_rel to acquire", one},
        {"claim_end: exchange &snowflake->wanted (1) acq_rel to release", one},
        {"claim_end: exchange &snowflake->wanted (1) acq_rel to relaxed", one},
        {"snowflake_extend: store &slot->until_ms (1) release to relaxed", refusal},
        {"unit_check: load &slot->until_ms (1) acquire to relaxed", refusal},
        {"snowflake_last_used_ms: load &named->count (1) acquire to relaxed", unnamed},
    };

    (void)state;
    orders_weaken(cases, COUNT, "snowflake.c", needless, sizeof needless / sizeof needless[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_generator_under_all_orders_of_memory),
        cmocka_unit_test(test_each_order_of_the_generator_is_needed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
