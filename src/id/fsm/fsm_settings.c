/*
 * fsm_settings.c - see fsm_settings.h.
 */
#include "src/id/fsm/fsm_settings.h"

#include <string.h>

#include "src/base/assert.h"

/* So low that no window granted by the log's time ends later than what can be shown. */
#define LOG_MS_MAX (TAG_TIME_MAX_MS - LIMIT_WORKER_AHEAD_MS - LIMIT_WINDOW_MAX_MS)

void fsm_settings_init(struct fsm_settings *settings, struct fsm_journal *journal)
{
    *settings = (struct fsm_settings){.journal = journal};
}

/* The rules of the layout, and an epoch so low that no time of the layout wraps. */
static int layout_check(const struct snowflake_layout *layout, uint64_t now_ms)
{
    const char *why;

    return layout->epoch_ms > TAG_TIME_MAX_MS ? ERR_INVALID
                                              : snowflake_layout_check(layout, now_ms, &why);
}

static bool layout_is_sound(const void *data)
{
    const struct snowflake_layout *layout = data;

    return layout_check(layout, layout->epoch_ms) == 0;
}

static const struct row_format LAYOUT =
    ROW_FORMAT(FSM_ROW_VERSION, FIELDS(snowflake_layout_fields), layout_is_sound);

static const struct field TIME_FIELDS[] = {FIELD_NUMBER(struct fsm_settings, log_ms)};

static bool time_is_sound(const void *data)
{
    const struct fsm_settings *settings = data;

    return settings->log_ms >= 1 && settings->log_ms <= LOG_MS_MAX;
}

static const struct row_format TIME =
    ROW_FORMAT(FSM_ROW_VERSION, FIELDS(TIME_FIELDS), time_is_sound);

static bool layout_equal(const struct snowflake_layout *a, const struct snowflake_layout *b)
{
    return a->epoch_ms == b->epoch_ms && snowflake_bits_equal(a, b);
}

static void set_layout(struct fsm_settings *settings, const struct snowflake_layout *layout)
{
    ASSERT(!settings->has_layout);
    settings->has_layout = true;
    settings->layout = *layout;
    fsm_journal_change(settings->journal, FSM_TABLE_SETTINGS, FSM_SETTING_LAYOUT,
                       strlen(FSM_SETTING_LAYOUT), &LAYOUT, NULL, layout);
}

static void set_time(struct fsm_settings *settings, uint64_t log_ms)
{
    const struct fsm_settings after = {.log_ms = log_ms};

    ASSERT(log_ms > settings->log_ms);
    fsm_journal_change(settings->journal, FSM_TABLE_SETTINGS, FSM_SETTING_TIME,
                       strlen(FSM_SETTING_TIME), &TIME, settings->log_ms > 0 ? settings : NULL,
                       &after);
    settings->log_ms = log_ms;
}

void fsm_settings_tell(const struct fsm_settings *settings)
{
    struct fsm_listener *listener = settings->journal->listener;

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

void fsm_settings_clock(struct fsm_settings *settings, uint64_t cluster_ms)
{
    uint64_t log_ms = cluster_ms < LOG_MS_MAX ? cluster_ms : LOG_MS_MAX;

    if (log_ms <= settings->log_ms) {
        return;
    }
    if (settings->log_ms > 0 && log_ms - settings->log_ms > LIMIT_LOG_STEP_MS) {
        log_ms = settings->log_ms + LIMIT_LOG_STEP_MS;
    }
    set_time(settings, log_ms);
}

void fsm_settings_time_value(uint64_t log_ms, struct buf *out)
{
    const struct fsm_settings settings = {.log_ms = log_ms < LOG_MS_MAX ? log_ms : LOG_MS_MAX};

    row_put(out, &TIME, &settings);
}

/* --- loading --- */

int fsm_settings_load(struct fsm_settings *settings, const struct fsm_loaded *row)
{
    struct fsm_settings loaded = {0};
    bool is_layout = fsm_loaded_is(row, FSM_SETTING_LAYOUT);
    int err;

    if (!is_layout && !fsm_loaded_is(row, FSM_SETTING_TIME)) {
        return ERR_NEWER; /* a setting that a later level brought */
    }
    err = is_layout ? row_read(row->value, row->value_len, &LAYOUT, &loaded.layout)
                    : row_read(row->value, row->value_len, &TIME, &loaded);
    if (err != 0) {
        return err;
    }
    if (is_layout ? settings->has_layout : settings->log_ms > 0) {
        return ERR_EXISTS;
    }
    if (is_layout) {
        set_layout(settings, &loaded.layout);
    } else {
        set_time(settings, loaded.log_ms);
    }
    return 0;
}
