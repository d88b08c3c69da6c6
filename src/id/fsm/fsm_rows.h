/*
 * fsm_rows.h - the rows of the ids' half: their tables, and who hears at once of those that an
 * apply changed.
 *
 * Thread: one owner (the raft loop).
 */
#ifndef LEAFD_ID_FSM_FSM_ROWS_H
#define LEAFD_ID_FSM_FSM_ROWS_H

#include "src/base/container.h"
#include "src/id/codec/snowflake_layout.h"
#include "src/id/codec/tag.h"
#include "src/id/codec/worker.h"
#include "src/state/journal.h"

/* The first byte of a row's key: its table, beside those of the cluster (journal.h); and what
 * follows. */
enum fsm_table {
    FSM_TABLE_RECALLS = 'd', /* tag whose segments are recalled: its name */
    FSM_TABLE_HOLDERS = 'g', /* node that was ever granted a segment: its id */
    FSM_TABLE_KEYS = 'i',    /* idempotency key: the length of the tag's name (1), the name, the
                                key */
    FSM_TABLE_TAGS = 't',    /* tag: its name */
    /* named layout: its name. Behind the settings: so an older leafd reads first which level it
     * needs */
    FSM_TABLE_LAYOUTS = 'v',
    FSM_TABLE_WORKERS = 'w' /* worker id: the id (2) */
};

/* Called with each row after a command changed it, on the owner's thread, during state_apply(), and
 * with each row after state_load_end(): the layout, then the named ones, worker ids, tags. Rows are
 * borrowed for the call. A function may be NULL. */
struct fsm_listener {
    void (*tag_changed)(struct fsm_listener *listener, const struct tag_row *row);
    /* Before a command changes a row; row: as it is yet. */
    void (*tag_changes)(struct fsm_listener *listener, const struct tag_row *row);
    void (*worker_changed)(struct fsm_listener *listener, const struct worker_row *row);
    void (*layout_changed)(struct fsm_listener *listener, const struct snowflake_layout *layout);
    void (*named_layout_changed)(struct fsm_listener *listener, const struct layout_row *row);
} BY_NAME;

#endif
