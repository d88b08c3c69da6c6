/*
 * fsm_settings.c - see fsm_tables.h: settings and named layouts.
 */
#include "src/id/fsm/fsm_tables.h"

#include <string.h>

#include "src/base/assert.h"

/* --- fsm_settings --- */

/* The rules of the layout, and an epoch so low that no time of the layout wraps. */
static int layout_check(const struct snowflake_layout *layout, uint64_t now_ms)
{
    const char *why;

    return layout->epoch_ms > LIMIT_TIME_MAX_MS ? ERR_INVALID
                                                : snowflake_layout_check(layout, now_ms, &why);
}

static bool layout_is_sound(const void *data)
{
    const struct snowflake_layout *layout = data;

    return layout_check(layout, layout->epoch_ms) == 0;
}

static const struct row_format LAYOUT_ROW =
    ROW_FORMAT(ROW_VERSION, FIELDS(snowflake_layout_fields), layout_is_sound);

static void set_layout(struct fsm *fsm, const struct snowflake_layout *layout)
{
    ASSERT(!fsm->settings.has_layout);
    fsm->settings.has_layout = true;
    fsm->settings.layout = *layout;
    journal_change(fsm_journal(fsm), STATE_TABLE_SETTINGS, FSM_SETTING_LAYOUT,
                   strlen(FSM_SETTING_LAYOUT), &LAYOUT_ROW, NULL, layout);
}

int fsm_settings_layout(struct fsm *fsm, const struct snowflake_layout *layout)
{
    struct fsm_listener *listener = fsm->listener;
    uint64_t log_ms = fsm->settings.log_ms;

    if (fsm->settings.has_layout) {
        return fsm->settings.layout.epoch_ms == layout->epoch_ms &&
                       snowflake_bits_equal(&fsm->settings.layout, layout)
                   ? 0
                   : ERR_EXISTS;
    }
    /* While the log has no time, the epoch cannot be checked against it. */
    if (layout_check(layout, log_ms > 0 ? log_ms : layout->epoch_ms) != 0) {
        return ERR_INVALID;
    }
    set_layout(fsm, layout);
    if (listener != NULL && listener->layout_changed != NULL) {
        listener->layout_changed(listener, &fsm->settings.layout);
    }
    return 0;
}

bool fsm_layout(const struct fsm *fsm, struct snowflake_layout *ret_layout)
{
    if (fsm->settings.has_layout) {
        *ret_layout = fsm->settings.layout;
    }
    return fsm->settings.has_layout;
}

/* Set the rules, which are sound. */
static void set_rules(struct fsm *fsm, const struct worker_rules *rules)
{
    struct fsm_settings *settings = &fsm->settings;
    char why[WORKER_POOLS_WHY_BYTES];
    const struct worker_rules before = settings->rules;

    settings->rules = *rules;
    ASSERT(worker_pools_read(rules->pools, rules->pools_len, &settings->pools, why) == 0);
    journal_change(fsm_journal(fsm), STATE_TABLE_SETTINGS, FSM_SETTING_WORKERS,
                   strlen(FSM_SETTING_WORKERS), &worker_rules_format,
                   settings->has_rules ? &before : NULL, rules);
    settings->has_rules = true;
}

int fsm_settings_pools(struct fsm *fsm, const struct worker_pools_put *put)
{
    struct worker_rules rules = fsm->settings.rules;
    char why[WORKER_POOLS_WHY_BYTES];
    struct worker_pools pools;

    if (put->pools_len > LIMIT_POOLS_BYTES ||
        worker_pools_read(put->pools, put->pools_len, &pools, why) != 0) {
        return ERR_INVALID;
    }
    memset(rules.pools, 0, sizeof rules.pools);
    memcpy(rules.pools, put->pools, put->pools_len);
    rules.pools_len = put->pools_len;
    set_rules(fsm, &rules);
    return 0;
}

void fsm_settings_raise(struct fsm *fsm, uint64_t epoch, uint64_t until_ms)
{
    const struct worker_rules *before = &fsm->settings.rules;
    struct worker_rules rules = *before;

    rules.epoch = later_of(rules.epoch, epoch);
    rules.until_ms = later_of(rules.until_ms, until_ms);
    if (rules.epoch != before->epoch || rules.until_ms != before->until_ms) {
        set_rules(fsm, &rules);
    }
}

int fsm_settings_load(struct fsm *fsm, const struct state_row *row)
{
    struct snowflake_layout layout = {0};
    struct worker_rules rules = {0};
    int err;

    if (row_is_setting(row, FSM_SETTING_WORKERS)) {
        err = row_read(row->value, row->value_len, &worker_rules_format, &rules);
        if (err != 0 || fsm->settings.has_rules) {
            return err != 0 ? err : ERR_EXISTS;
        }
        set_rules(fsm, &rules);
        return 0;
    }
    if (!row_is_setting(row, FSM_SETTING_LAYOUT)) {
        return ERR_NEWER; /* a setting of a later level */
    }
    err = row_read(row->value, row->value_len, &LAYOUT_ROW, &layout);
    if (err != 0 || fsm->settings.has_layout) {
        return err != 0 ? err : ERR_EXISTS;
    }
    set_layout(fsm, &layout);
    return 0;
}

/* --- fsm_layouts --- */

const struct layout_row *fsm_layouts(const struct fsm *fsm, uint32_t *ret_count)
{
    *ret_count = fsm->layouts.count;
    return fsm->layouts.rows;
}

static struct layout_row *layout_find(struct fsm *fsm, const char *name, size_t len)
{
    for (uint32_t i = 0; i < fsm->layouts.count; i++) {
        struct layout_row *row = &fsm->layouts.rows[i];

        if (row->name_len == len && memcmp(row->name, name, len) == 0) {
            return row;
        }
    }
    return NULL;
}

/* Make the row this; NULL: it is new. Calls the listener, but not while loading. */
static void layout_put(struct fsm *fsm, struct layout_row *row, const struct layout_row *after)
{
    struct fsm_listener *listener = fsm->listener;

    ASSERT(row != NULL || fsm->layouts.count < LIMIT_LAYOUTS);
    journal_change(fsm_journal(fsm), FSM_TABLE_LAYOUTS, after->name, after->name_len,
                   &layout_row_format, row, after);
    *(row != NULL ? row : &fsm->layouts.rows[fsm->layouts.count++]) = *after;
    if (listener != NULL && listener->named_layout_changed != NULL && !fsm_journal(fsm)->loading) {
        listener->named_layout_changed(listener, after);
    }
}

int fsm_layouts_put(struct fsm *fsm, const struct layout_row *row)
{
    struct layout_row *known = layout_find(fsm, row->name, row->name_len);
    uint64_t log_ms = fsm->settings.log_ms;
    struct layout_row made = *row;
    const char *why;

    if (known != NULL && !named_layout_equal(&known->layout, &row->layout)) {
        return ERR_CONFLICT;
    }
    /* While the log has no time, the epoch cannot be checked against it. */
    if (!layout_name_fits(row->name, row->name_len) ||
        named_layout_check(&row->layout, log_ms > 0 ? log_ms : row->layout.bits.epoch_ms, &why) !=
            0) {
        return known != NULL && !known->deleted ? 0 : ERR_INVALID;
    }
    if (known != NULL && !known->deleted) {
        return 0;
    }
    if (known == NULL && fsm->layouts.count == LIMIT_LAYOUTS) {
        return ERR_OVERLOADED;
    }
    if (known != NULL) {
        made = *known;
    }
    made.deleted = false;
    made.created_ms = displayable_ms(made.created_ms);
    layout_put(fsm, known, &made);
    return 0;
}

int fsm_layouts_delete(struct fsm *fsm, const struct delete_command *deletion)
{
    struct layout_row *row = layout_find(fsm, deletion->name, deletion->name_len);
    struct layout_row after;

    if (row == NULL || row->deleted) {
        return ERR_NOT_FOUND;
    }
    after = *row;
    after.deleted = true;
    layout_put(fsm, row, &after);
    return 0;
}

int fsm_layouts_load(struct fsm *fsm, const struct state_row *loaded)
{
    struct layout_row row = {0};
    int err;

    if (!layout_name_fits((const char *)loaded->key + 1, loaded->key_len - 1)) {
        return ERR_CORRUPT;
    }
    row.name_len = (uint16_t)(loaded->key_len - 1);
    memcpy(row.name, loaded->key + 1, row.name_len);
    err = row_read(loaded->value, loaded->value_len, &layout_row_format, &row);
    if (err != 0) {
        return err;
    }
    if (layout_find(fsm, row.name, row.name_len) != NULL) {
        return ERR_EXISTS;
    }
    if (fsm->layouts.count == LIMIT_LAYOUTS) {
        return ERR_CORRUPT;
    }
    layout_put(fsm, NULL, &row);
    return 0;
}
