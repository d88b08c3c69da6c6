/*
 * fsm_puts.h - changes of tags: what makes, changes and deletes them (puts), and the recall of
 * their segments where that is due (recalls).
 *
 * Failure modes: a put or delete that is refused says so in its result, and changed nothing. A row
 * that no apply can have made is ERR_CORRUPT. Thread: one owner. Deterministic: only the state and
 * the command decide.
 */
#ifndef LEAFD_ID_FSM_FSM_PUTS_H
#define LEAFD_ID_FSM_FSM_PUTS_H

#include "src/id/codec/command.h"
#include "src/id/fsm/fsm_tags.h"
#include "src/state/journal.h"

/*
 * --- fsm_recalls: the segment holders, and the tags whose segments are recalled from them.
 *
 * A segment in a node's memory is below max_id. Were its ids handed out after the tag became
 * strict, they would be smaller than ids acknowledged before. So the tag's segments are recalled
 * first: it hands out nothing until each node that may hold one has said that it does not.
 *
 * The happy path: every node that is granted a segment, of whatever tag, becomes a segment holder
 * for good (a node's row says nothing of tags: that would cost a row a tag and node). A tag that
 * becomes strict gets a row with all holders; each COMMAND_RECALLED takes one off; with the last
 * the row goes and the tag is open.
 *
 * A tag that is deleted while it is recalled keeps the mark without the row: made again as strict,
 * it begins with all holders anew, since nodes confirm a generation.
 *
 * Invariant: there is a recall exactly for each live tag with tag_row.recalling, and every node of
 * it is a segment holder.
 *
 * A confirmation of an older generation, or of a node that is not waited for, changes nothing. Full
 * tables are the callers' to refuse.
 */

struct fsm_recall {
    RB_ENTRY(fsm_recall) link; /* by name */
    struct fsm_row *row;
    struct node_set nodes; /* that have not said yet that they hold nothing; never empty */
};

RB_HEAD(fsm_recall_tree, fsm_recall);

struct fsm_recalls {
    struct journal *journal;
    struct fsm_tags *tags;
    struct node_set holders; /* nodes that were ever granted a segment */
    struct fsm_recall_tree tree;
    size_t count;
};

void fsm_recalls_init(struct fsm_recalls *recalls, struct fsm_tags *tags);
void fsm_recalls_clear(struct fsm_recalls *recalls);

/* The node is granted a segment. False: the table of holders is full. */
bool fsm_holder_add(struct fsm_recalls *recalls, uint64_t node_id) MUST_CHECK;
/* The node was removed from the cluster for good, and its commands are refused from now on: it
 * is not waited for any more. May change tags. */
void fsm_holder_removed(struct fsm_recalls *recalls, uint64_t node_id);

/* Must the segments of a tag that leaves trend mode, or has left it, be recalled? old: as it was
 * before, NULL: never there; ended: the operator says that no node holds a segment of it. */
bool fsm_recall_is_due(const struct fsm_recalls *recalls, const struct tag_row *old, bool ended);
/* NULL: no node is waited for. */
struct fsm_recall *fsm_recalls_find(const struct fsm_recalls *recalls, const char *name,
                                    size_t len);
/* The first recall, in the order of names, after which the node is waited for; NULL: none. Only
 * names greater than after. */
struct fsm_recall *fsm_recalls_next(const struct fsm_recalls *recalls, uint64_t node_id,
                                    const char *after, size_t after_len);
/* The tag was changed: make or drop its recall, as it says. */
void fsm_recall_follow(struct fsm_recalls *recalls, struct fsm_row *row);
/* COMMAND_RECALLED of a node. */
void fsm_recalls_confirm(struct fsm_recalls *recalls, uint64_t node_id, struct command_list *list);

/* Rows of the tables HOLDERS and RECALLS. */
int fsm_recalls_load(struct fsm_recalls *recalls, const struct row_loaded *row) MUST_CHECK;
/* All rows are there: ERR_CORRUPT if they contradict each other. */
int fsm_recalls_check(const struct fsm_recalls *recalls) MUST_CHECK;

/*
 * --- fsm_puts: tags that are made, changed and deleted.
 *
 * The happy path of a put: it is judged, that is, no name stands twice, and every item is merged,
 * checked against its row, and made ready (fsm_tags_ready()); only then are the rows changed, at
 * once, by what is ready. Of a delete: the row becomes a tombstone.
 */

struct puts_judged;

/* Begin to judge what a put will do, and judge so many items more of it; true: there are further
 * ones. Both change nothing. What was judged is good as long as no row changes, and the command
 * stays where it is. Only force raises a max_id by more than LIMIT_MAX_ID_JUMP, or so that fewer
 * than LIMIT_MAX_ID_LEFT ids are left (ERR_NEEDS_FORCE), but a dump's of a name that never was.
 * What a client makes, or makes larger, counts for it, and not above command.most (ERR_SHARE). */
struct puts_judged *fsm_puts_judge_begin(const struct fsm_recalls *recalls,
                                         const struct command_list *command);
bool fsm_puts_judge(struct fsm_recalls *recalls, struct puts_judged *judged, uint32_t items);
/* NULL-safe. */
void fsm_puts_drop(struct puts_judged *judged);

/* Judge the rest, and do it. */
void fsm_puts_apply(struct fsm_recalls *recalls, struct puts_judged *judged, struct buf *result);
/* 0 or ERR_UNKNOWN_TAG. */
int fsm_puts_delete(struct fsm_recalls *recalls, const struct delete_command *command) MUST_CHECK;

#endif
