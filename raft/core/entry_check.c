/*
 * entry_check.c - see entry_check.h. Thread: the raft loop.
 */
#include "raft/core/entry_check.h"

#include "raft/core/applier.h"
#include "raft/core/entry_log.h"
#include "src/state/state.h"

/* Once this node ran a leafd that speaks more, as the state says. */
static bool spoke_more(const struct entry_checker *checker)
{
    const struct state *state = checker->applier->state;
    struct node_info info;

    return state_node(state, checker->node_id, &info) && info.levels.max > state_levels(state).max;
}

/* A command that this leafd does not know. */
static enum entries_verdict judge_newer(const struct entry_checker *checker, uint64_t index,
                                        struct entries_checked *checked)
{
    if (checker->applier->applied.index + 1 < index) {
        return ENTRIES_CUT;
    }
    checked->field = "entry_of_a_later_level";
    checked->value = index;
    checked->bound = state_levels(checker->applier->state).max;
    return spoke_more(checker) ? ENTRIES_NEWER : ENTRIES_LIE;
}

static enum entries_verdict judge_command(const struct entry_checker *checker, uint64_t index,
                                          const struct raft_entry *entry,
                                          struct entries_checked *checked)
{
    const struct state *state = checker->applier->state;
    int err = state_check(state, entry->buf.base, entry->buf.len);

    if (err == ERR_NEWER ||
        (err == 0 && !state_can_apply(state, entry->buf.base, entry->buf.len))) {
        return judge_newer(checker, index, checked);
    }
    if (err == 0) {
        return ENTRIES_FINE;
    }
    checked->field = "entry_that_does_not_decode";
    checked->value = index;
    return ENTRIES_LIE;
}

enum entries_verdict entries_check(const struct entry_checker *checker,
                                   const struct raft_append_entries *append,
                                   struct entries_checked *ret_checked)
{
    enum entries_verdict verdict = ENTRIES_FINE;
    const struct log_entry *last = entry_log_get(checker->log, append->prev_log_index);
    unsigned i;

    *ret_checked = (struct entries_checked){0};
    if (last != NULL && last->term != append->prev_log_term) {
        return ENTRIES_FINE; /* they follow another entry than is here: the core takes none */
    }
    for (i = 0; i < append->n_entries && verdict == ENTRIES_FINE; i++) {
        const struct raft_entry *entry = &append->entries[i];
        uint64_t index = append->prev_log_index + 1 + i;

        if (index <= checker->commit) {
            continue; /* the witness compares it; it is on the disk */
        }
        ret_checked->at = i;
        if (entry->type == RAFT_COMMAND) {
            verdict = judge_command(checker, index, entry, ret_checked);
        } else if (entry->type == RAFT_BARRIER && entry->buf.len > BARRIER_BYTES_MAX) {
            ret_checked->field = "barrier_bytes";
            ret_checked->value = entry->buf.len;
            ret_checked->bound = BARRIER_BYTES_MAX;
            verdict = ENTRIES_LIE;
        }
    }
    return verdict;
}
