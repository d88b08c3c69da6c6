/*
 * fsm_settings.c - see fsm_settings.h.
 */
#include "src/id/fsm/fsm_settings.h"

#include <string.h>

#include "src/base/assert.h"

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

static const struct row_format LAYOUT =
    ROW_FORMAT(ROW_VERSION, FIELDS(snowflake_layout_fields), layout_is_sound);

static bool layout_equal(const struct snowflake_layout *a, const struct snowflake_layout *b)
{
    return a->epoch_ms == b->epoch_ms && snowflake_bits_equal(a, b);
}

static void set_layout(struct fsm_settings *settings, const struct snowflake_layout *layout)
{
    ASSERT(!settings->has_layout);
    settings->has_layout = true;
    settings->layout = *layout;
    journal_change(settings->journal, STATE_TABLE_SETTINGS, FSM_SETTING_LAYOUT,
                   strlen(FSM_SETTING_LAYOUT), &LAYOUT, NULL, layout);
}

void fsm_settings_tell(const struct fsm_settings *settings)
{
    struct fsm_listener *listener = *settings->listener;

    if (listener != NULL && listener->layout_changed != NULL && settings->has_layout) {
        listener->layout_changed(listener, &settings->layout);
    }
}

int fsm_settings_layout(struct fsm_settings *settings, const struct snowflake_layout *layout)
{
    if (settings->has_layout) {
        return layout_equal(&settings->layout, layout) ? 0 : ERR_EXISTS;
    }
    /* While the log has no time, there is nothing to hold the epoch against. */
    if (layout_check(layout, settings->log_ms > 0 ? settings->log_ms : layout->epoch_ms) != 0) {
        return ERR_INVALID;
    }
    set_layout(settings, layout);
    fsm_settings_tell(settings);
    return 0;
}

/* --- loading --- */

int fsm_settings_load(struct fsm_settings *settings, const struct row_loaded *row)
{
    struct snowflake_layout layout = {0};
    int err;

    if (!row_is_setting(row, FSM_SETTING_LAYOUT)) {
        return ERR_NEWER; /* a setting that a later level brought */
    }
    err = row_read(row->value, row->value_len, &LAYOUT, &layout);
    if (err != 0) {
        return err;
    }
    if (settings->has_layout) {
        return ERR_EXISTS;
    }
    set_layout(settings, &layout);
    return 0;
}
