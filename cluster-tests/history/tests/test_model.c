/*
 * test_model.c - random small histories, right, nearly right and plainly wrong ones, give
 * what the model says, in any order and if they are checked in between; and of gaps exactly those
 * are refused that cannot have been made.
 *
 * Thread: one.
 */
#include <string.h>

#include "src/tests/unit/test.h"
#include "src/base/prng.h"
#include "cluster-tests/history/history.h"
#include "cluster-tests/history/tests/model.h"
#include "cluster-tests/history/tests/world.h"

#define ROUNDS 60000

static uint64_t upto(struct prng *prng, uint64_t most)
{
    return prng_below(prng, most + 1);
}

static bool chance(struct prng *prng, unsigned percent)
{
    return prng_below(prng, 100) < percent;
}

/* Anything at all: mostly wrong. */
static void make_any(struct prng *prng, struct model *model)
{
    model->start = chance(prng, 50) ? upto(prng, 6) : HISTORY_NO_START;
    for (unsigned i = 0; i < model->count; i++) {
        struct history_op *op = &model->ops[i];

        op->sent = upto(prng, 20);
        op->received = chance(prng, 40) ? LOST : op->sent + upto(prng, 20);
        op->first = upto(prng, 24);
        op->count = 1 + (uint32_t)upto(prng, 5);
        op->key = chance(prng, 40) ? 1 + upto(prng, 3) : 0;
        op->client = (uint32_t)upto(prng, 9);
    }
}

/* What a service that does right could have done: ids are handed out one after the other. */
static void make_right(struct prng *prng, struct model *model)
{
    uint64_t next = upto(prng, 3);
    uint64_t now = 10;

    model->start = chance(prng, 50) ? next : HISTORY_NO_START;
    for (unsigned i = 0; i < model->count; i++) {
        struct history_op *op = &model->ops[i];
        const struct history_op *earlier = &model->ops[i > 0 ? upto(prng, i - 1) : 0];

        now += upto(prng, 4);
        *op = (struct history_op){.client = (uint32_t)upto(prng, 9)};
        op->sent = now - upto(prng, 8);
        op->received = chance(prng, 40) ? LOST : now + upto(prng, 8);
        op->count = 1 + (uint32_t)upto(prng, 3);
        op->key = chance(prng, 30) ? i + 1 : 0;
        op->first = next;
        if (i > 0 && earlier->key != 0 && chance(prng, 40)) {
            op->key = earlier->key;
            op->count = earlier->count;
            op->first = earlier->first;
        } else {
            next += op->count;
        }
    }
}

/* Some of the requests whose outcome is unknown were not served in their turn: what came after them
 * moves down. From the first key on it stays, since other attempts have its ids: there the requests
 * are served, late. */
static void make_unserved(struct prng *prng, struct model *model)
{
    uint64_t moved = 0;

    for (unsigned i = 0; i < model->count; i++) {
        struct history_op *op = &model->ops[i];

        if (op->key != 0) {
            return;
        }
        op->first -= moved;
        if (op->received == LOST && chance(prng, 50)) {
            moved += op->count;
        }
    }
}

static void spoil(struct prng *prng, struct model *model)
{
    struct history_op *op = &model->ops[prng_below(prng, model->count)];

    switch (upto(prng, 5)) {
    case 0:
        op->first = op->first > 0 ? op->first - 1 : 1;
        break;
    case 1:
        op->first += 1 + upto(prng, 3);
        break;
    case 2:
        op->count += 1 + (uint32_t)upto(prng, 1);
        break;
    case 3:
        op->sent += op->received == LOST ? upto(prng, 30) : op->received - op->sent;
        break;
    case 4:
        op->received = LOST;
        break;
    default:
        op->key = op->key != 0 ? 0 : 1 + upto(prng, 8);
        break;
    }
}

static void make(struct prng *prng, struct model *model)
{
    memset(model, 0, sizeof *model);
    model->mode = chance(prng, 80)   ? HISTORY_STRICT
                  : chance(prng, 50) ? HISTORY_MONOTONIC
                                     : HISTORY_TREND;
    model->count = 1 + (unsigned)upto(prng, 9);
    if (chance(prng, 30)) {
        make_any(prng, model);
    } else {
        make_right(prng, model);
        if (chance(prng, 20)) {
            make_unserved(prng, model);
        }
        for (uint64_t i = upto(prng, 2); i > 0; i--) {
            spoil(prng, model);
        }
    }
    if (!history_rises(model->mode)) {
        model->start = HISTORY_NO_START;
    }
}

static void put_op(struct history_world *w, const struct history_op *op)
{
    put(w, op->client, op->sent, op->received, op->first, op->count, op->key);
}

static void shuffle(struct prng *prng, struct model *model)
{
    for (unsigned i = model->count; i > 1; i--) {
        unsigned other = (unsigned)prng_below(prng, i);
        struct history_op op = model->ops[i - 1];

        model->ops[i - 1] = model->ops[other];
        model->ops[other] = op;
    }
}

static void test_the_model_says_the_same(void **state)
{
    uint64_t seen[HISTORY_KINDS] = {0};
    uint64_t clean = 0;
    struct prng prng;

    (void)state;
    prng_seed(&prng, 4);
    for (unsigned round = 0; round < ROUNDS; round++) {
        struct history_world w;
        struct model model;
        uint64_t found[HISTORY_KINDS];

        make(&prng, &model);
        model_check(&model, found);
        shuffle(&prng, &model);
        world_begin(&w, model.mode, model.start);
        for (unsigned i = 0; i < model.count; i++) {
            put_op(&w, &model.ops[i]);
            if (chance(&prng, 10)) {
                world_check(&w, 0); /* which changes nothing */
            }
        }
        clean += world_check(&w, 1);
        history_free(w.history);
        for (unsigned kind = 0; kind < HISTORY_KINDS; kind++) {
            assert_int_equal(w.report.found[kind], found[kind]);
            seen[kind] += found[kind] > 0;
        }
    }
    /* All that is to be compared did happen. */
    assert_true(clean > ROUNDS / 10);
    for (unsigned kind = 0; kind < HISTORY_KINDS; kind++) {
        assert_true(seen[kind] > ROUNDS / 100);
    }
}

/* The service did right: nothing is found. */
static void test_no_false_alarm(void **state)
{
    struct prng prng;

    (void)state;
    prng_seed(&prng, 5);
    for (unsigned round = 0; round < ROUNDS; round++) {
        struct history_world w;
        struct model model = {.mode = HISTORY_STRICT, .count = 1 + (unsigned)upto(&prng, 9)};

        make_right(&prng, &model);
        make_unserved(&prng, &model);
        world_begin(&w, model.mode, model.start);
        for (unsigned i = 0; i < model.count; i++) {
            put_op(&w, &model.ops[i]);
        }
        expect_clean(&w);
    }
}

/* Ids with many gaps, and many operations of unknown outcome with few keys: many ways, or none. */
static void make_gaps(struct prng *prng, struct model *model)
{
    uint64_t next = upto(prng, 4);
    unsigned answered = 1 + (unsigned)upto(prng, 3);

    memset(model, 0, sizeof *model);
    model->mode = HISTORY_STRICT;
    model->start = 0;
    model->count = answered + (unsigned)upto(prng, 9);
    for (unsigned i = 0; i < model->count; i++) {
        struct history_op *op = &model->ops[i];

        op->client = i % 10;
        op->sent = upto(prng, 10);
        op->received = LOST;
        op->count = 1 + (uint32_t)upto(prng, 6);
        op->key = chance(prng, 40) ? 1 + upto(prng, 3) : 0;
        if (i < answered) {
            *op = (struct history_op){.received = 1 + upto(prng, 12), .first = next, .count = 1};
            next += 1 + upto(prng, 10);
        }
    }
}

/* Exactly the gaps are refused that cannot be, and every one is decided. */
static void test_gaps_are_decided_as_by_trying_all_ways(void **state)
{
    unsigned impossible = 0;
    unsigned searched = 0;
    struct prng prng;

    (void)state;
    prng_seed(&prng, 6);
    for (unsigned round = 0; round < ROUNDS; round++) {
        struct history_world w;
        struct model model;
        uint64_t found[HISTORY_KINDS];

        make_gaps(&prng, &model);
        model_check(&model, found);
        world_begin(&w, model.mode, model.start);
        for (unsigned i = 0; i < model.count; i++) {
            put_op(&w, &model.ops[i]);
        }
        world_check(&w, 10);
        history_free(w.history);
        assert_int_equal(w.report.found[HISTORY_GAP], found[HISTORY_GAP]);
        assert_int_equal(w.report.undecided, 0);
        impossible += found[HISTORY_GAP] > 0;
        searched += strstr(w.text, "no choice") != NULL;
    }
    /* Of both kinds there are many, and of those that only the search sees. */
    assert_in_range(impossible, ROUNDS / 10, ROUNDS * 9 / 10);
    assert_true(searched > ROUNDS / 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_model_says_the_same),
        cmocka_unit_test(test_no_false_alarm),
        cmocka_unit_test(test_gaps_are_decided_as_by_trying_all_ways),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
