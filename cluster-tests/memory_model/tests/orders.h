/*
 * orders.h - explore scenarios of a file of leafd under the model of memory, and see whether each
 * memory order that it names is needed: weakened, one at a time, it has to be found.
 *
 * The environment: MODEL=long also explores the scenarios that take minutes.
 *
 * Failure modes: cmocka's. Thread: one.
 */
#ifndef LEAFD_MEMORY_MODEL_TESTS_ORDERS_H
#define LEAFD_MEMORY_MODEL_TESTS_ORDERS_H

#include "cluster-tests/memory_model/model.h"

struct orders_case {
    struct model_scenario scenario;
    const void *bound; /* of the scenario: put into *orders_bound before it is explored */
    bool is_long;      /* only with MODEL=long */
};

/* A weakening that is known not to show: text as orders_weaken() prints it, and why it is so. */
struct orders_needless {
    const char *what;
    const char *why;
};

/* What the scenario that is being explored is bound by. */
extern const void *orders_bound;

/* Nothing is found in any of the cases, and none is cut. Prints how much was explored. */
void orders_hold(const struct orders_case *cases, size_t count);

/* Each memory order of the file that the cases run through is weakened, one at a time: something is
 * found in one of the cases, unless it is one of the needless. Prints what was found, or not. */
void orders_weaken(const struct orders_case *cases, size_t count, const char *file,
                   const struct orders_needless *needless, size_t needless_count);

/* Weaken one order of a function, the first one that fits; true if something is then found. */
bool orders_find(const struct orders_case *cases, size_t count, const char *func, const char *what,
                 const char *place, int order);

#endif
