/*
 * fsm_settings.c - see fsm_settings.h.
 */
#include "src/id/fsm/fsm_settings.h"

#include <string.h>

#include "src/base/assert.h"

static const struct fields LAYOUT = FIELDS(snowflake_layout_fields);

#define LAYOUT_KEY "layout"
#define TIME_KEY "time"

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

static bool layout_equal(const struct snowflake_layout *a, const struct snowflake_layout *b)
{
    return a->epoch_ms == b->epoch_ms && a->time_bits == b->time_bits &&
           a->worker_bits == b->worker_bits && a->sequence_bits == b->sequence_bits;
}

static void journal_begin(struct fsm_journal *journal, const char *name)
{
    fsm_journal_key(journal, FSM_TABLE_SETTINGS);
    buf_put(&journal->row, name, strlen(name));
    fsm_journal_value(journal);
    buf_put_u8(&journal->row, FSM_ROW_VERSION);
}

static void journal_layout(struct fsm_settings *settings)
{
    ASSERT(settings->has_layout);
    journal_begin(settings->journal, LAYOUT_KEY);
    fields_put(&settings->journal->row, &LAYOUT, &settings->layout);
}

static void journal_time(struct fsm_settings *settings)
{
    ASSERT(settings->log_ms > 0 && settings->log_ms <= LOG_MS_MAX);
    journal_begin(settings->journal, TIME_KEY);
    buf_put_u64(&settings->journal->row, settings->log_ms);
}

static void set_layout(struct fsm_settings *settings, const struct snowflake_layout *layout)
{
    ASSERT(!settings->has_layout);
    settings->has_layout = true;
    settings->layout = *layout;
    journal_layout(settings);
    fsm_journal_enter(settings->journal);
}

static void set_time(struct fsm_settings *settings, uint64_t log_ms)
{
    ASSERT(log_ms > settings->log_ms);
    if (settings->log_ms > 0) {
        journal_time(settings);
        fsm_journal_leave(settings->journal);
    }
    settings->log_ms = log_ms;
    journal_time(settings);
    fsm_journal_enter(settings->journal);
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

/* --- loading --- */

static bool is_key(const uint8_t *key, size_t key_len, const char *name)
{
    return key_len == 1 + strlen(name) && memcmp(key + 1, name, key_len - 1) == 0;
}

static int load_layout(struct fsm_settings *settings, struct reader *reader)
{
    struct snowflake_layout layout = {0};

    if (!fields_read(reader, &LAYOUT, &layout)) {
        return ERR_TRUNCATED;
    }
    if (!reader_done(reader) || layout_check(&layout, layout.epoch_ms) != 0) {
        return ERR_CORRUPT;
    }
    if (settings->has_layout) {
        return ERR_EXISTS;
    }
    set_layout(settings, &layout);
    return 0;
}

static int load_time(struct fsm_settings *settings, struct reader *reader)
{
    uint64_t log_ms = reader_u64(reader);

    if (reader->bad) {
        return ERR_TRUNCATED;
    }
    if (!reader_done(reader) || log_ms < 1 || log_ms > LOG_MS_MAX) {
        return ERR_CORRUPT;
    }
    if (settings->log_ms > 0) {
        return ERR_EXISTS;
    }
    set_time(settings, log_ms);
    return 0;
}
int fsm_settings_load(struct fsm_settings *settings, const uint8_t *key, size_t key_len,
                      const void *value, size_t value_len)
{
    struct reader reader;
    int err = fsm_value_begin(&reader, value, value_len);

    if (err != 0) {
        return err;
    }
    if (is_key(key, key_len, LAYOUT_KEY)) {
        return load_layout(settings, &reader);
    }
    if (is_key(key, key_len, TIME_KEY)) {
        return load_time(settings, &reader);
    }
    return ERR_CORRUPT;
}
