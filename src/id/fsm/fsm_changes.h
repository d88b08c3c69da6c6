/*
 * fsm_changes.h - what an apply changed: the rows for storage, and those who hear of them at once.
 *
 * Thread: one owner (the raft loop).
 */
#ifndef LEAFD_ID_FSM_FSM_CHANGES_H
#define LEAFD_ID_FSM_FSM_CHANGES_H

#include "src/base/buf.h"
#include "src/base/container.h"
#include "src/id/codec/named_layout.h"
#include "src/id/codec/tag.h"
#include "src/id/codec/worker.h"

/* A row changed by apply, as storage keeps it: key and value bytes (fsm_journal.h has the keys). */
struct fsm_change {
    struct buf key;
    struct buf value; /* empty: the row was deleted (tags never are, they leave tombstones) */
};

/* In the order of apply: a key may be there several times, put and deleted; the last one counts. */
struct fsm_changes {
    struct fsm_change *items;
    size_t count;
    size_t capacity;
};

void fsm_changes_release(struct fsm_changes *changes);

/* Called with each row after a command changed it, on the owner's thread, during fsm_apply(), and
 * with each row after fsm_load_end(): the layout, then the named ones, worker ids, tags. Rows are
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
