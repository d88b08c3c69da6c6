/*
 * test_orders_park.c - parking and waking (allocator.h) under the whole of C11's memory model: the
 * real allocator, and claimers that do what its header says, with the orders it names.
 *
 * What holds in each execution: nobody who parked waits for ever, no id is claimed twice, nothing
 * is lost, and the demand is 0 in the end.
 *
 * Threads: none of the system; see model.h.
 */
#include "src/tests/unit/test.h"
#include "src/id/alloc/allocator.h"
#include "src/id/codec/command.h"
#include "cluster-tests/memory_model/model_atomic.h"
#include "cluster-tests/memory_model/tests/orders.h"

#define CLAIMERS 2
#define IDS_MAX 16
#define ROUNDS_MAX 12 /* of the owner */

struct bound {
    uint32_t held;            /* ids that are there at the beginning */
    uint32_t grant;           /* ids of a grant */
    uint32_t takes[CLAIMERS]; /* ids that each claimer takes; 0: it asks for a refill, no more */
    unsigned fails;           /* requests of the owner that fail before one is answered */
    bool want_first;          /* of step 2 the want comes before the claim */
    bool deleted;             /* the answer: there is no such tag */
};

static struct {
    struct id_table *table;
    struct timers timers;
    struct allocator *allocator;
    struct id_tag *tag;
    struct id_proposer proposer;
    struct id_waker waker;
    struct clock clock;
    _Atomic uint32_t want;            /* a want is on its way to the owner */
    _Atomic uint32_t woken[CLAIMERS]; /* by the owner */
    /* the owner's */
    struct cluster_request *request;
    uint64_t now_ms;
    uint64_t next_id;
    unsigned fails;
    /* what happened, by thread */
    uint32_t got[CLAIMERS];
    uint64_t ids[CLAIMERS][IDS_MAX];
    bool refused[CLAIMERS];
} at;

static const struct bound *bound(void)
{
    return orders_bound;
}

/* --- the owner and its cluster --- */

static uint64_t clock_cb(const struct clock *clock)
{
    (void)clock;
    return at.now_ms;
}

static void propose_cb(struct id_proposer *proposer, struct cluster_request *request)
{
    (void)proposer;
    MODEL_CHECK(at.request == NULL); /* one in flight */
    at.request = request;
}

static void wake_cb(struct id_waker *waker, struct id_tag *tag, uint64_t loops)
{
    (void)waker;
    (void)tag;
    for (unsigned i = 0; i < CLAIMERS; i++) {
        if (loops & 1U << i) {
            atomic_store_explicit(&at.woken[i], 1, memory_order_release);
        }
    }
}

static void answer(void)
{
    struct cluster_request *request = at.request;
    struct grant_result result = {.size = bound()->grant,
                                  .first = at.next_id,
                                  .generation = 1,
                                  .step = bound()->grant,
                                  .max_step = bound()->grant};

    at.request = NULL;
    if (at.fails < bound()->fails) {
        at.fails++;
        request->status = ERR_NO_LEADER;
    } else if (bound()->deleted) {
        result = (struct grant_result){.status = ERR_UNKNOWN_TAG, .generation = 1};
        results_encode(RESULT_GRANTS, &result, 1, &request->reply);
    } else {
        at.next_id += bound()->grant;
        results_encode(RESULT_GRANTS, &result, 1, &request->reply);
    }
    request->done(request);
}

static void own(void)
{
    for (unsigned i = 0; i < ROUNDS_MAX; i++) {
        (void)MODEL_AWAIT_OR_STAY(&at.want);
        (void)atomic_exchange_explicit(&at.want, 0, memory_order_acquire);
        allocator_want(at.allocator, at.tag);
        timers_run(&at.timers, at.now_ms);
        while (at.request != NULL) {
            answer();
            at.now_ms += 50;
            timers_run(&at.timers, at.now_ms);
        }
    }
    MODEL_CHECK(false); /* more rounds than there can be */
}

/* --- claimers --- */

static uint32_t claim(unsigned me)
{
    struct segment_range range;
    struct segment_view view;

    if (segment_claim(&at.tag->buffer, 1, bound()->takes[me] - at.got[me], &range, &view) != 0) {
        return 0;
    }
    for (uint32_t i = 0; i < range.count; i++) {
        at.ids[me][at.got[me]++] = range.first + i;
    }
    return range.count;
}

static bool is_refused(unsigned me)
{
    at.refused[me] = atomic_load_explicit(&at.tag->state, memory_order_acquire) != ID_TAG_ACTIVE;
    return at.refused[me];
}

static void want(void)
{
    if (!atomic_load_explicit(&at.tag->refill_wanted, memory_order_relaxed) &&
        !atomic_exchange_explicit(&at.tag->refill_wanted, true, memory_order_acq_rel)) {
        atomic_store_explicit(&at.want, 1, memory_order_release);
    }
}

/* Take what is wanted, parking as allocator.h says. */
static void serve(unsigned me)
{
    uint64_t demand = bound()->takes[me];

    if (demand == 0) {
        want(); /* as who took most of what there was */
        return;
    }
    demand -= claim(me);
    if (demand == 0) {
        return;
    }
    (void)atomic_fetch_add_explicit(&at.tag->demand, demand, memory_order_relaxed);
    for (;;) {
        (void)atomic_fetch_or_explicit(&at.tag->waiting_loops, 1U << me, memory_order_acq_rel);
        if (bound()->want_first) {
            want();
        }
        (void)claim(me);
        if (at.got[me] == bound()->takes[me] || is_refused(me)) {
            break;
        }
        if (!bound()->want_first) {
            want();
        }
        (void)MODEL_AWAIT(&at.woken[me]);
        (void)atomic_exchange_explicit(&at.woken[me], 0, memory_order_acquire);
    }
    (void)atomic_fetch_sub_explicit(&at.tag->demand, demand, memory_order_relaxed);
}

static void claim_0(void)
{
    serve(0);
}

static void claim_1(void)
{
    serve(1);
}

static void set_up(void)
{
    static const struct allocator_config config = {
        .cover_ms = 5000, .request_ms = 10000, .retry_ms = 50};
    struct tag_row row = {.name = (char *)"a",
                          .name_len = 1,
                          .description = (char *)"",
                          .generation = 1,
                          .step = bound()->grant,
                          .max_step = bound()->grant};

    memset((void *)&at, 0, sizeof at);
    at.clock = (struct clock){.now_ms = clock_cb, .wall_ms = clock_cb, .data = NULL};
    at.proposer.propose = propose_cb;
    at.waker.wake = wake_cb;
    at.next_id = 100;
    at.now_ms = 1000;
    atomic_init(&at.want, 0);
    atomic_init(&at.woken[0], 0);
    atomic_init(&at.woken[1], 0);
    at.table = id_table_new(0);
    at.allocator = allocator_new(&config, at.table, NULL, &at.clock, &at.timers, &at.proposer);
    allocator_set_waker(at.allocator, &at.waker);
    at.tag = allocator_open(at.allocator, &row);
    if (bound()->held > 0) {
        segment_publish(&at.tag->buffer, 1, bound()->held, 0, 0);
    }
}

static void check(void)
{
    bool seen[100 + 10 * IDS_MAX] = {false};
    uint64_t ids = segment_left(&at.tag->buffer);

    for (unsigned me = 0; me < CLAIMERS; me++) {
        MODEL_CHECK(at.refused[me] == (bound()->deleted && at.got[me] < bound()->takes[me]));
        ids += at.got[me];
        for (uint32_t i = 0; i < at.got[me]; i++) {
            MODEL_CHECK(at.ids[me][i] < sizeof seen && !seen[at.ids[me][i]]);
            seen[at.ids[me][i]] = true;
        }
    }
    MODEL_CHECK(ids + allocator_counts(at.allocator)->burnt[ID_BURN_GENERATION] ==
                bound()->held + at.next_id - 100);
    MODEL_CHECK(atomic_load_explicit(&at.tag->demand, memory_order_relaxed) == 0);
}

#define CASE(is_it_long, title, others, ...)                                                       \
    {                                                                                              \
        .scenario = {.name = (title),                                                              \
                     .setup = set_up,                                                              \
                     .threads = {own, claim_0, (others)},                                          \
                     .finish = check,                                                              \
                     .late_max = 1},                                                               \
        .bound = &(const struct bound){__VA_ARGS__}, .is_long = (is_it_long),                      \
    }

static const struct orders_case cases[] = {
    CASE(false, "one parks, one asks early", claim_1, .grant = 1, .takes = {1, 0}),
    CASE(false, "one parks, one asks early, a request fails", claim_1, .grant = 1, .takes = {1, 0},
         .fails = 1),
    CASE(false, "one parks, one asks early, the tag is deleted", claim_1, .grant = 1,
         .takes = {1, 0}, .deleted = true),
    CASE(false, "one parks twice, one asks early", claim_1, .grant = 1, .takes = {2, 0}),
    CASE(false, "two park", claim_1, .grant = 2, .takes = {1, 1}),
    CASE(false, "one parks with its want first, one asks early", claim_1, .grant = 1,
         .takes = {2, 0}, .fails = 1, .want_first = true),
    CASE(true, "long: two park, the want before the claim", claim_1, .grant = 2, .takes = {1, 1},
         .want_first = true),
    CASE(true, "long: two park, each grant too small", claim_1, .grant = 1, .takes = {1, 1}),
};

#define COUNT (sizeof cases / sizeof cases[0])

static void test_no_wake_up_is_lost_under_all_orders_of_memory(void **state)
{
    (void)state;
    orders_hold(cases, COUNT);
}

/* The releases that carry what the allocator did to who parks. Their acquires are of no use here:
 * all that the allocator reads of claimers afterwards is their demand, by which it sizes segments.
 */
static void test_a_weaker_wake_is_found(void **state)
{
    (void)state;
    assert_true(orders_find(cases, COUNT, "tag_wake", "exchange", "&tag->waiting_loops",
                            memory_order_acquire));
    assert_true(orders_find(cases, COUNT, "tag_end", "exchange", "&tag->refill_wanted",
                            memory_order_acquire));
    assert_true(orders_find(cases, COUNT, "tag_needed", "fetch_or", "&tag->waiting_loops",
                            memory_order_acquire));
    /* And of claimers: the acquire of who finds that the allocator came first. */
    assert_true(orders_find(cases, COUNT, "serve", "fetch_or", "&at.tag->waiting_loops",
                            memory_order_release));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_wake_up_is_lost_under_all_orders_of_memory),
        cmocka_unit_test(test_a_weaker_wake_is_found),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
