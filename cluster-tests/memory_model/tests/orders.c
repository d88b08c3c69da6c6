/*
 * orders.c - see orders.h. Thread: one.
 */
#include "cluster-tests/memory_model/tests/orders.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "src/tests/unit/test.h"
#include "cluster-tests/memory_model/graph.h"

/* A weakened order may let a loop go on for ever; a case that is explored so far is enough. */
#define WEAK_RUNS_MAX 400000

#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

const void *orders_bound;

static bool wanted(const struct orders_case *at)
{
    const char *mode = getenv("MODEL");

    return !at->is_long || (mode != NULL && strcmp(mode, "long") == 0);
}

static double seconds(void)
{
    return (double)clock() / CLOCKS_PER_SEC;
}

void orders_hold(const struct orders_case *cases, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct model_result result;
        double begin = seconds();

        if (!wanted(&cases[i])) {
            continue;
        }
        orders_bound = cases[i].bound;
        model_explore(&cases[i].scenario, &result);
        print_message("%s: %llu executions (%llu with late loads), %llu runs, %.1f s\n",
                      cases[i].scenario.name, (unsigned long long)result.executions,
                      (unsigned long long)result.late, (unsigned long long)result.runs,
                      seconds() - begin);
        if (result.found) {
            print_message("%s\n%s", result.what, result.story);
        }
        assert_false(result.found);
        assert_false(result.stopped);
        assert_int_equal(result.cut, 0);
        assert_true(result.executions > 0);
    }
}

/* The case in which something is found, or NULL. */
static const struct orders_case *find(const struct orders_case *cases, size_t count,
                                      struct model_result *ret_result)
{
    for (size_t i = 0; i < count; i++) {
        struct model_scenario scenario = cases[i].scenario;

        if (cases[i].is_long) {
            continue;
        }
        scenario.runs_max = WEAK_RUNS_MAX;
        orders_bound = cases[i].bound;
        model_explore(&scenario, ret_result);
        if (ret_result->found) {
            return &cases[i];
        }
    }
    return NULL;
}

static bool is_of(const struct model_site *site, const char *file)
{
    const char *name = site->file != NULL ? strrchr(site->file, '/') : NULL;

    return name != NULL && strcmp(name + 1, file) == 0;
}

/* The how-manieth of its kind in its function, from 1. */
static unsigned number_of(const struct model_site *site)
{
    unsigned number = 1;

    for (const struct model_site *other = model_sites(); other != NULL; other = other->next) {
        number += other->file == site->file && strcmp(other->func, site->func) == 0 &&
                  strcmp(other->what, site->what) == 0 && strcmp(other->place, site->place) == 0 &&
                  other->line < site->line;
    }
    return number;
}

/* The next order that is weaker than it, after `last`; -1: none. */
static int weaker(const char *what, int order, int last)
{
    static const int of_acq_rel[] = {memory_order_acquire, memory_order_release,
                                     memory_order_relaxed};
    bool modifies = strcmp(what, "load") != 0 && strcmp(what, "store") != 0;

    if (order == memory_order_relaxed || last == memory_order_relaxed) {
        return -1;
    }
    if (order == memory_order_seq_cst && last < 0) {
        return modifies                    ? memory_order_acq_rel
               : strcmp(what, "load") == 0 ? memory_order_acquire
                                           : memory_order_release;
    }
    if (modifies && (order == memory_order_acq_rel || order == memory_order_seq_cst)) {
        for (size_t i = 0; i < 2; i++) {
            if (last == of_acq_rel[i]) {
                return of_acq_rel[i + 1];
            }
        }
        return of_acq_rel[0];
    }
    return memory_order_relaxed;
}

struct weakened {
    unsigned found;
    unsigned unfound;
    unsigned surprises;
};

static void weaken_one(const struct orders_case *cases, size_t count,
                       const struct orders_needless *needless, size_t needless_count,
                       const char *what, struct weakened *ret_counts)
{
    static struct model_result result;
    const struct orders_case *in = find(cases, count, &result);
    const char *why = NULL;

    for (size_t i = 0; i < needless_count; i++) {
        if (strcmp(needless[i].what, what) == 0) {
            why = needless[i].why;
        }
    }
    if (in != NULL) {
        print_message("found     %s: %s: %s\n", what, in->scenario.name, result.what);
        ret_counts->found++;
    } else {
        print_message("not found %s: %s\n", what, why != NULL ? why : "?");
        ret_counts->unfound++;
    }
    ret_counts->surprises += (in != NULL) == (why != NULL);
}

void orders_weaken(const struct orders_case *cases, size_t count, const char *file,
                   const struct orders_needless *needless, size_t needless_count)
{
    struct weakened counts = {0};
    char what[256];

    if (SANITIZED) { /* it is about leafd's orders, and takes long */
        skip();
    }
    for (struct model_site *site = model_sites(); site != NULL; site = site->next) {
        for (int order = weaker(site->what, site->order, -1); is_of(site, file) && order >= 0;
             order = weaker(site->what, site->order, order)) {
            snprintf(what, sizeof what, "%s: %s %s (%u) %s to %s", site->func, site->what,
                     site->place, number_of(site), order_name(site->order), order_name(order));
            site->weak_order = order;
            weaken_one(cases, count, needless, needless_count, what, &counts);
            site->weak_order = -1;
        }
        if (is_of(site, file) && site->failure > memory_order_relaxed) {
            snprintf(what, sizeof what, "%s: %s %s (%u) failing %s to relaxed", site->func,
                     site->what, site->place, number_of(site), order_name(site->failure));
            site->weak_failure = memory_order_relaxed;
            weaken_one(cases, count, needless, needless_count, what, &counts);
            site->weak_failure = -1;
        }
    }
    print_message("%u orders weakened and found, %u not needed\n", counts.found, counts.unfound);
    assert_int_equal(counts.surprises, 0);
    assert_int_equal(counts.unfound, needless_count);
    assert_true(counts.found > 0);
}

bool orders_find(const struct orders_case *cases, size_t count, const char *func, const char *what,
                 const char *place, int order)
{
    static struct model_result result;
    const struct orders_case *in;

    for (struct model_site *site = model_sites(); site != NULL; site = site->next) {
        if (strcmp(site->func, func) == 0 && strcmp(site->what, what) == 0 &&
            strcmp(site->place, place) == 0) {
            site->weak_order = order;
            in = find(cases, count, &result);
            site->weak_order = -1;
            return in != NULL;
        }
    }
    fail_msg("there is no %s of %s in %s", what, place, func);
    return false;
}
