/*
 * witness.c - see witness.h. Thread: pure functions, one owner.
 */
#include "raft/core/witness.h"

#include <string.h>

#include "raft/core/message.h"
#include "src/base/assert.h"

uint64_t witness_term_at(const struct witness *witness, uint64_t index)
{
    const struct log_entry *entry = entry_log_get(witness->log, index);

    if (entry != NULL) {
        return entry->term;
    }
    return index == witness->applied->index ? witness->applied->term : 0;
}

/* What the term of a committed entry cannot be above where it is not known: terms of a log never
 * fall. */
static uint64_t highest_term(const struct witness *witness)
{
    const struct log_entry *first = witness->log->first <= *witness->commit
                                        ? entry_log_get(witness->log, witness->log->first)
                                        : NULL;

    return first != NULL ? first->term : witness->applied->term;
}

/* May the leader's log have this term at an index that is committed here? */
static bool term_agrees(const struct witness *witness, uint64_t index, uint64_t term,
                        struct contradiction *ret_contradiction)
{
    uint64_t known = witness_term_at(witness, index);
    uint64_t most = known > 0 ? known : highest_term(witness);

    if (known > 0 ? term == known : term <= most) {
        return true;
    }
    *ret_contradiction = (struct contradiction){index, term, most};
    return false;
}

static bool entry_agrees(const struct witness *witness, uint64_t index,
                         const struct raft_entry *entry, struct contradiction *ret_contradiction)
{
    const struct log_entry *own = entry_log_get(witness->log, index);

    if (!term_agrees(witness, index, entry->term, ret_contradiction)) {
        return false;
    }
    if (own == NULL || (own->type == entry->type && own->block->len == entry->buf.len &&
                        (own->block->len == 0 ||
                         memcmp(own->block->data, entry->buf.base, own->block->len) == 0))) {
        return true;
    }
    *ret_contradiction = (struct contradiction){index, entry->term, own->term};
    return false;
}

static bool append_agrees(const struct witness *witness, const struct raft_append_entries *args,
                          struct contradiction *ret_contradiction)
{
    uint64_t prev = args->prev_log_index;

    if (prev > 0 && prev <= *witness->commit &&
        !term_agrees(witness, prev, args->prev_log_term, ret_contradiction)) {
        return false;
    }
    for (unsigned i = 0; i < args->n_entries && prev + 1 + i <= *witness->commit; i++) {
        if (!entry_agrees(witness, prev + 1 + i, &args->entries[i], ret_contradiction)) {
            return false;
        }
    }
    return true;
}

/* A snapshot beyond what is committed here stands for that, too: its term, and the index of its
 * configuration, cannot be lower. */
static bool snapshot_agrees(const struct witness *witness, const struct raft_install_snapshot *args,
                            struct contradiction *ret_contradiction)
{
    uint64_t commit_term = witness_term_at(witness, *witness->commit);

    if (args->last_index <= *witness->commit) {
        return term_agrees(witness, args->last_index, args->last_term, ret_contradiction);
    }
    if (args->last_term < commit_term || args->conf_index < witness->applied->conf_index) {
        *ret_contradiction = (struct contradiction){*witness->commit, args->last_term, commit_term};
        return false;
    }
    return true;
}

bool witness_agrees(const struct witness *witness, const struct raft_message *message,
                    struct contradiction *ret_contradiction)
{
    ASSERT(message_is_of_leader(message));
    return message->type == RAFT_APPEND_ENTRIES
               ? append_agrees(witness, &message->append_entries, ret_contradiction)
               : snapshot_agrees(witness, &message->install_snapshot, ret_contradiction);
}
