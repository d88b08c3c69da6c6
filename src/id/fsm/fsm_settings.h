/*
 * fsm_settings.h - the rows of the ids' half of the state: their tables, and the listener that is
 * called for each changed row; and two of the tables, the layout fixed by the log (settings) and
 * the named layouts.
 *
 * Failure modes: a layout that breaks a rule, or differs from the one in force, is refused and
 * changes nothing. A row that no apply can have made is ERR_CORRUPT.
 *
 * Thread: one owner (the raft loop). Deterministic: only the state and the command decide.
 */
#ifndef LEAFD_ID_FSM_FSM_SETTINGS_H
#define LEAFD_ID_FSM_FSM_SETTINGS_H

#include "src/base/container.h"
#include "src/id/codec/command.h"
#include "src/id/codec/snowflake_layout.h"
#include "src/id/codec/tag.h"
#include "src/id/codec/worker.h"
#include "src/state/journal.h"

/* The first byte of a row's key: its table, besides those of the cluster (journal.h); and the rest
 * of the key. */
enum fsm_table {
    FSM_TABLE_RECALLS = 'd', /* tag whose segments are recalled: its name */
    FSM_TABLE_HOLDERS = 'g', /* node that was ever granted a segment: its id */
    FSM_TABLE_KEYS = 'i',    /* idempotency key: the length of the tag's name (1), the name, the
                                key */
    FSM_TABLE_TAGS = 't',    /* tag: its name */
    /* named layout: its name. After the settings, so that an older leafd first reads the level
     * needed */
    FSM_TABLE_LAYOUTS = 'v',
    FSM_TABLE_WORKERS = 'w' /* worker id: worker_key_put() */
};

/* A tag's row before the change. All zero: it is new, or was loaded. */
struct fsm_tag_before {
    bool known;
    bool recalling;
    uint64_t max_id;
};

/* Called with each row after a command changed it, on the owner's thread, during state_apply().
 * Also called with each row after state_load_end(): the layout, then the named ones, worker ids,
 * tags. Rows are borrowed for the call. A function may be NULL. */
struct fsm_listener {
    void (*tag_changed)(struct fsm_listener *listener, const struct tag_row *row,
                        const struct fsm_tag_before *before);
    void (*worker_changed)(struct fsm_listener *listener, const struct worker_row *row);
    void (*layout_changed)(struct fsm_listener *listener, const struct snowflake_layout *layout);
    void (*named_layout_changed)(struct fsm_listener *listener, const struct layout_row *row);
} BY_NAME;

/*
 * --- fsm_settings: the snowflake layout that the log fixes, and the log's time for the ids' half.
 *
 * The happy path: the first COMMAND_LAYOUT sets the layout for good, in a row of the table of
 * settings. The state keeps the time (facts.h), and passes it to the machine. A row of a setting of
 * another name is ERR_NEWER.
 */

struct fsm_settings {
    struct journal *journal;
    struct fsm_listener *const *listener; /* the machine's */
    bool has_layout;
    struct snowflake_layout layout;
    bool has_rules; /* they have a row; else all are 0 */
    struct worker_rules rules;
    struct worker_pools pools; /* of the rules */
    uint64_t log_ms;           /* the log's time as last passed by the state, 0: none yet */
};

void fsm_settings_init(struct fsm_settings *settings, struct journal *journal,
                       struct fsm_listener *const *listener);

/* 0 (also for the layout in force), ERR_EXISTS (another one is in force) or ERR_INVALID. */
int fsm_settings_layout(struct fsm_settings *settings,
                        const struct snowflake_layout *layout) MUST_CHECK;

/* 0 or ERR_INVALID. */
int fsm_settings_pools(struct fsm_settings *settings,
                       const struct worker_pools_put *put) MUST_CHECK;

/* A worker id that has no row begins at or above this epoch and time. */
void fsm_settings_raise(struct fsm_settings *settings, uint64_t epoch, uint64_t until_ms);

/* The names of the settings, after the table in their keys. */
#define FSM_SETTING_LAYOUT "layout"
#define FSM_SETTING_WORKERS "workers" /* worker_rules, since level 3 */

/* A row as state_load_row() gets it. */
int fsm_settings_load(struct fsm_settings *settings, const struct row_loaded *row) MUST_CHECK;
/* Call the listener for the layout, if there is one. */
void fsm_settings_notify(const struct fsm_settings *settings);

/*
 * --- fsm_layouts: the table of named layouts of snowflake ids.
 *
 * The happy path: a COMMAND_LAYOUT_PUT makes a row. It never changes: the same fields again are
 * accepted, others are refused. When deleted it becomes a tombstone with the same fields, which
 * only the same fields revive: two layouts under one name could give an id twice. A name beyond the
 * limit is refused.
 */

struct fsm_layouts {
    struct journal *journal;
    struct fsm_listener *const *listener; /* the machine's */
    uint32_t count;
    struct layout_row rows[LIMIT_LAYOUTS]; /* in the order in which they were made or loaded */
};

void fsm_layouts_init(struct fsm_layouts *layouts, struct journal *journal,
                      struct fsm_listener *const *listener);

/* 0 (also for the one in force), ERR_CONFLICT (the name has other fields), ERR_OVERLOADED
 * (LIMIT_LAYOUTS) or ERR_INVALID. log_ms: the log's time, 0: none yet. */
int fsm_layouts_put(struct fsm_layouts *layouts, const struct layout_row *row,
                    uint64_t log_ms) MUST_CHECK;
/* 0 or ERR_NOT_FOUND, also for a deleted one. */
int fsm_layouts_delete(struct fsm_layouts *layouts,
                       const struct delete_command *deletion) MUST_CHECK;

/* A row as state_load_row() gets it. */
int fsm_layouts_load(struct fsm_layouts *layouts, const struct row_loaded *row) MUST_CHECK;
/* Call the listener for all rows. */
void fsm_layouts_notify(const struct fsm_layouts *layouts);

#endif
