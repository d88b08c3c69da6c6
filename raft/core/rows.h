/*
 * rows.h - what apply changed, as rows for the store.
 *
 * Of a key that changed several times before it is written only the last change counts: on a busy
 * node most commits carry entries alone, and so fewer pages.
 *
 * Thread: pure functions, one owner.
 */
#ifndef LEAFD_RAFT_CORE_ROWS_H
#define LEAFD_RAFT_CORE_ROWS_H

#include "src/id/fsm/fsm.h"
#include "storage/store.h"

/* Of the changes of each key keep the last; before a deletion the last that was none, too, since
 * only a row that is there can be deleted. Order stays. */
void rows_coalesce(struct fsm_changes *changes);

/* The changes as rows of a STORE_APPLY, in their order, one without a value for a deletion. They
 * point into the changes; malloc'ed, NULL when there are none. */
struct store_row *rows_of(const struct fsm_changes *changes);

#endif
