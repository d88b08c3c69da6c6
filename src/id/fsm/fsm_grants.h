/*
 * fsm_grants.h - ids that leave a tag: segments that are granted to nodes (and given back), and
 * strict allocations in batches. That each is applied once is the session's business
 * (sessions.h).
 *
 * The happy path of a grant: item by item, each takes [max_id, max_id + n) and moves max_id up. Of
 * a range given back: it must be the topmost, of this generation, and then max_id is its first id
 * again.
 *
 * The happy path of a batch: items in order, and of each: the tag must be there, in strict mode; a
 * key that is known gives the ids that it gave before; the tag's segments must not be on recall;
 * then the ids are [max_id, max_id + count). A run of items of one tag takes its row out of the
 * digest once.
 *
 * The happy path of ids under keys that the leader took from its window: each key that is not known
 * stands for them from now on; no tag changes.
 *
 * Failure modes: of an item, into its result (command.h), and then nothing was granted or
 * allocated for it; the others stand for themselves.
 *
 * Thread: one owner. Deterministic: only the state and the command decide.
 */
#ifndef LEAFD_ID_FSM_FSM_GRANTS_H
#define LEAFD_ID_FSM_FSM_GRANTS_H

#include "src/id/fsm/fsm_keys.h"
#include "src/id/fsm/fsm_recalls.h"

/* The tables that a batch needs, and what the log says. */
struct fsm_strict {
    struct fsm_tags *tags;
    struct fsm_keys *keys;
    const struct fsm_recalls *recalls;
    uint64_t log_ms;
    uint64_t index; /* of the batch's entry, and its term */
    uint64_t term;
};

/* The node becomes a segment holder. */
void fsm_segments_grant(struct fsm_recalls *recalls, uint64_t node_id, struct command_list *command,
                        struct buf *result);
void fsm_segments_give_back(struct fsm_tags *tags, struct command_list *command,
                            struct buf *result);
/* COMMAND_WINDOW: who appended it holds the ranges; it needs no recall, since it hands nothing out
 * once it does not lead any more (docs/monotonic.md). */
void fsm_windows_grant(struct fsm_recalls *recalls, struct command_list *command,
                       struct buf *result);
void fsm_strict_apply(const struct fsm_strict *strict, struct command_list *command,
                      struct buf *result);
void fsm_keyed_apply(const struct fsm_strict *strict, struct command_list *command,
                     struct buf *result);

#endif
