/*
 * entry_check.c - see entry_check.h. Thread: the raft loop.
 */
#include "raft/core/entry_check.h"

#include <string.h>

#include "raft/core/applier.h"
#include "raft/core/entry_log.h"
#include "src/id/codec/command.h"
#include "src/id/fsm/fsm.h"

/* --- configurations --- */

unsigned configuration_steps(const struct configuration *before, const struct configuration *after)
{
    unsigned steps = 0;

    MEMBER_FOREACH (member, before) {
        const struct conf_member *then = configuration_find(after, member->id);

        steps += then == NULL || then->role != member->role ||
                 strcmp(then->address, member->address) != 0;
    }
    MEMBER_FOREACH (member, after) {
        steps += configuration_find(before, member->id) == NULL;
    }
    return steps;
}

/* The configuration that holds behind the entry at index, by this node's log; without members where
 * it cannot know. */
static void configuration_at(const struct entry_checker *checker, uint64_t index,
                             struct configuration *ret_configuration)
{
    const struct entry_log *log = checker->log;

    ret_configuration->count = 0;
    if (index > entry_log_last(log)) {
        return; /* the core will ask for what lies between */
    }
    for (uint64_t at = index; at >= log->first; at--) {
        const struct log_entry *entry = entry_log_get(log, at);

        if (entry->type == RAFT_CHANGE) {
            if (configuration_decode(entry->block->data, entry->block->len, ret_configuration) !=
                0) {
                ret_configuration->count = 0;
            }
            return;
        }
    }
    applier_configured(checker->applier, ret_configuration);
}

/* Is a change one step from what was before it? That is *before, or what this node's log has at the
 * index `known`. *before becomes it. */
static enum entries_verdict judge_change(const struct entry_checker *checker, uint64_t index,
                                         uint64_t known, const struct raft_entry *entry,
                                         struct configuration *before,
                                         struct entries_checked *checked)
{
    struct configuration after;
    unsigned steps;

    if (checker->applier->installing) {
        return ENTRIES_CUT; /* what is before it is on its way to the disk */
    }
    if (configuration_decode(entry->buf.base, entry->buf.len, &after) != 0) {
        checked->field = "configuration_form";
        checked->value = index;
        return ENTRIES_LIE;
    }
    if (before->count == 0) {
        configuration_at(checker, known, before);
    }
    steps = before->count > 0 ? configuration_steps(before, &after) : 0;
    *before = after;
    checked->field = "members_changed_at_once";
    checked->value = steps;
    checked->bound = 1;
    return steps <= 1 ? ENTRIES_FINE : ENTRIES_LIE;
}

/* --- commands --- */

/* Once this node ran a leafd that speaks more, as the state says. */
static bool spoke_more(const struct entry_checker *checker)
{
    const struct fsm *fsm = checker->applier->fsm;
    struct node_info info;

    return fsm_node(fsm, checker->node_id, &info) && info.levels.max > fsm_levels(fsm).max;
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
    checked->bound = fsm_levels(checker->applier->fsm).max;
    return spoke_more(checker) ? ENTRIES_NEWER : ENTRIES_LIE;
}

static enum entries_verdict judge_command(const struct entry_checker *checker, uint64_t index,
                                          const struct raft_entry *entry,
                                          struct entries_checked *checked)
{
    struct command command;

    if (command_read(entry->buf.base, entry->buf.len, &command) == 0) {
        if (command.type != COMMAND_LEVEL ||
            command.level.to <= fsm_levels(checker->applier->fsm).max) {
            return ENTRIES_FINE;
        }
        return judge_newer(checker, index, checked);
    }
    if (command_type(entry->buf.base, entry->buf.len) == ERR_NEWER) {
        return judge_newer(checker, index, checked);
    }
    checked->field = "entry_that_does_not_decode";
    checked->value = index;
    return ENTRIES_LIE;
}

/* --- all --- */

enum entries_verdict entries_check(const struct entry_checker *checker,
                                   const struct raft_append_entries *append,
                                   struct entries_checked *ret_checked)
{
    enum entries_verdict verdict = ENTRIES_FINE;
    struct configuration before = {.count = 0};
    uint64_t known = append->prev_log_index;
    const struct log_entry *last = entry_log_get(checker->log, known);
    unsigned i;

    *ret_checked = (struct entries_checked){0};
    if (last != NULL && last->term != append->prev_log_term) {
        return ENTRIES_FINE; /* they follow another entry than is here: the core takes none */
    }
    for (i = 0; i < append->n_entries && verdict == ENTRIES_FINE; i++) {
        const struct raft_entry *entry = &append->entries[i];
        uint64_t index = append->prev_log_index + 1 + i;

        if (index <= checker->commit) {
            known = index; /* the witness compares it; it is on the disk */
            continue;
        }
        ret_checked->at = i;
        if (entry->type == RAFT_CHANGE) {
            verdict = judge_change(checker, index, known, entry, &before, ret_checked);
        } else if (entry->type == RAFT_COMMAND) {
            verdict = judge_command(checker, index, entry, ret_checked);
        } else if (entry->buf.len > BARRIER_BYTES_MAX) {
            ret_checked->field = "barrier_bytes";
            ret_checked->value = entry->buf.len;
            ret_checked->bound = BARRIER_BYTES_MAX;
            verdict = ENTRIES_LIE;
        }
    }
    return verdict;
}
