/*
 * model.h - the rules of history.h written down plainly, for small histories: everything is
 * compared with everything.
 *
 * Thread: one.
 */
#ifndef LEAFD_HISTORY_TESTS_MODEL_H
#define LEAFD_HISTORY_TESTS_MODEL_H

#include "cluster-tests/history/history.h"

#define MODEL_OPS 16
#define MODEL_IDS 64 /* ids are below this */

struct model {
    enum history_mode mode;
    uint64_t start;
    unsigned count;
    struct history_op ops[MODEL_OPS];
};

/* How many violations of each kind there are. The impossible gaps are found by trying all ways to
 * fill each, with those below that can be. */
void model_check(const struct model *model, uint64_t ret_found[HISTORY_KINDS]);

#endif
