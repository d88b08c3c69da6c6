/*
 * model.h - the rules of history.h written down plainly, for small histories: everything is
 * compared with everything.
 *
 * Thread: one.
 */
#ifndef LEAFD_HISTORY_TESTS_MODEL_H
#define LEAFD_HISTORY_TESTS_MODEL_H

#include "src/history/history.h"

#define MODEL_OPS 16
#define MODEL_IDS 64 /* ids are below this */

struct model {
    enum history_mode mode;
    uint64_t start;
    unsigned count;
    struct history_op ops[MODEL_OPS];
};

/* How many violations of each kind there are. */
void model_check(const struct model *model, uint64_t ret_found[HISTORY_KINDS]);

/* Can the operations of unknown outcome be laid into the gaps so that these are filled? By trying
 * all ways. True for a tag without gaps. */
bool model_gaps_can_be(const struct model *model);

#endif
