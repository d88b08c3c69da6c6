/*
 * fsm_settings.c - see fsm_settings.h.
 */
#include "src/id/fsm/fsm_settings.h"

#include <string.h>

#include "src/base/assert.h"

/* --- fsm_settings --- */

void fsm_settings_init(struct fsm_settings *settings, struct journal *journal,
                       struct fsm_listener *const *listener)
{
    *settings = (struct fsm_settings){.journal = journal, .listener = listener};
}

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

static void set_layout(struct fsm_settings *settings, const struct snowflake_layout *layout)
{
    ASSERT(!settings->has_layout);
    settings->has_layout = true;
    settings->layout = *layout;
    journal_change(settings->journal, STATE_TABLE_SETTINGS, FSM_SETTING_LAYOUT,
                   strlen(FSM_SETTING_LAYOUT), &LAYOUT_ROW, NULL, layout);
}

void fsm_settings_notify(const struct fsm_settings *settings)
{
    struct fsm_listener *listener = *settings->listener;

    if (listener != NULL && listener->layout_changed != NULL && settings->has_layout) {
        listener->layout_changed(listener, &settings->layout);
    }
}

int fsm_settings_layout(struct fsm_settings *settings, const struct snowflake_layout *layout)
{
    if (settings->has_layout) {
        return settings->layout.epoch_ms == layout->epoch_ms &&
                       snowflake_bits_equal(&settings->layout, layout)
                   ? 0
                   : ERR_EXISTS;
    }
    /* While the log has no time, the epoch cannot be checked against it. */
    if (layout_check(layout, settings->log_ms > 0 ? settings->log_ms : layout->epoch_ms) != 0) {
        return ERR_INVALID;
    }
    set_layout(settings, layout);
    fsm_settings_notify(settings);
    return 0;
}

/* Set the rules, which are sound. */
static void set_rules(struct fsm_settings *settings, const struct worker_rules *rules)
{
    char why[WORKER_POOLS_WHY_BYTES];
    const struct worker_rules before = settings->rules;

    settings->rules = *rules;
    ASSERT(worker_pools_read(rules->pools, rules->pools_len, &settings->pools, why) == 0);
    journal_change(settings->journal, STATE_TABLE_SETTINGS, FSM_SETTING_WORKERS,
                   strlen(FSM_SETTING_WORKERS), &worker_rules_format,
                   settings->has_rules ? &before : NULL, rules);
    settings->has_rules = true;
}

int fsm_settings_pools(struct fsm_settings *settings, const struct worker_pools_put *put)
{
    struct worker_rules rules = settings->rules;
    char why[WORKER_POOLS_WHY_BYTES];
    struct worker_pools pools;

    if (put->pools_len > LIMIT_POOLS_BYTES ||
        worker_pools_read(put->pools, put->pools_len, &pools, why) != 0) {
        return ERR_INVALID;
    }
    memset(rules.pools, 0, sizeof rules.pools);
    memcpy(rules.pools, put->pools, put->pools_len);
    rules.pools_len = put->pools_len;
    set_rules(settings, &rules);
    return 0;
}

void fsm_settings_raise(struct fsm_settings *settings, uint64_t epoch, uint64_t until_ms)
{
    struct worker_rules rules = settings->rules;

    rules.epoch = later_of(rules.epoch, epoch);
    rules.until_ms = later_of(rules.until_ms, until_ms);
    if (rules.epoch != settings->rules.epoch || rules.until_ms != settings->rules.until_ms) {
        set_rules(settings, &rules);
    }
}

/* --- loading --- */

static int load_rules(struct fsm_settings *settings, const struct row_loaded *row)
{
    struct worker_rules rules = {0};
    int err = row_read(row->value, row->value_len, &worker_rules_format, &rules);

    if (err == 0 && settings->has_rules) {
        err = ERR_EXISTS;
    }
    if (err == 0) {
        set_rules(settings, &rules);
    }
    return err;
}

int fsm_settings_load(struct fsm_settings *settings, const struct row_loaded *row)
{
    struct snowflake_layout layout = {0};
    int err;

    if (row_is_setting(row, FSM_SETTING_WORKERS)) {
        return load_rules(settings, row);
    }
    if (!row_is_setting(row, FSM_SETTING_LAYOUT)) {
        return ERR_NEWER; /* a setting of a later level */
    }
    err = row_read(row->value, row->value_len, &LAYOUT_ROW, &layout);
    if (err != 0) {
        return err;
    }
    if (settings->has_layout) {
        return ERR_EXISTS;
    }
    set_layout(settings, &layout);
    return 0;
}

/* --- fsm_layouts --- */

void fsm_layouts_init(struct fsm_layouts *layouts, struct journal *journal,
                      struct fsm_listener *const *listener)
{
    memset(layouts, 0, sizeof *layouts);
    layouts->journal = journal;
    layouts->listener = listener;
}

static struct layout_row *layout_find(struct fsm_layouts *layouts, const char *name, size_t len)
{
    for (uint32_t i = 0; i < layouts->count; i++) {
        struct layout_row *row = &layouts->rows[i];

        if (row->name_len == len && memcmp(row->name, name, len) == 0) {
            return row;
        }
    }
    return NULL;
}

static void layout_notify(const struct fsm_layouts *layouts, const struct layout_row *row)
{
    struct fsm_listener *listener = *layouts->listener;

    if (listener != NULL && listener->named_layout_changed != NULL) {
        listener->named_layout_changed(listener, row);
    }
}

static void layout_add(struct fsm_layouts *layouts, const struct layout_row *row)
{
    ASSERT(layouts->count < LIMIT_LAYOUTS);
    layouts->rows[layouts->count++] = *row;
    journal_change(layouts->journal, FSM_TABLE_LAYOUTS, row->name, row->name_len,
                   &layout_row_format, NULL, row);
}

static void layout_set_deleted(struct fsm_layouts *layouts, struct layout_row *row, bool deleted)
{
    const struct layout_row before = *row;

    ASSERT(row->deleted != deleted);
    row->deleted = deleted;
    journal_change(layouts->journal, FSM_TABLE_LAYOUTS, row->name, row->name_len,
                   &layout_row_format, &before, row);
    layout_notify(layouts, row);
}

int fsm_layouts_put(struct fsm_layouts *layouts, const struct layout_row *row, uint64_t log_ms)
{
    struct layout_row *known = layout_find(layouts, row->name, row->name_len);
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
    if (known != NULL) {
        if (known->deleted) {
            layout_set_deleted(layouts, known, false);
        }
        return 0;
    }
    if (layouts->count == LIMIT_LAYOUTS) {
        return ERR_OVERLOADED;
    }
    made.deleted = false;
    made.created_ms = displayable_ms(row->created_ms);
    layout_add(layouts, &made);
    layout_notify(layouts, &made);
    return 0;
}

int fsm_layouts_delete(struct fsm_layouts *layouts, const struct delete_command *deletion)
{
    struct layout_row *row = layout_find(layouts, deletion->name, deletion->name_len);

    if (row == NULL || row->deleted) {
        return ERR_NOT_FOUND;
    }
    layout_set_deleted(layouts, row, true);
    return 0;
}

int fsm_layouts_load(struct fsm_layouts *layouts, const struct row_loaded *loaded)
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
    if (layout_find(layouts, row.name, row.name_len) != NULL) {
        return ERR_EXISTS;
    }
    if (layouts->count == LIMIT_LAYOUTS) {
        return ERR_CORRUPT;
    }
    layout_add(layouts, &row);
    return 0;
}

void fsm_layouts_notify(const struct fsm_layouts *layouts)
{
    for (uint32_t i = 0; i < layouts->count; i++) {
        layout_notify(layouts, &layouts->rows[i]);
    }
}
