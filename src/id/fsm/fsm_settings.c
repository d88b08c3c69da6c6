/*
 * fsm_settings.c - the settings that the log fixes or moves: the snowflake layout and the log's
 * time (fsm_state.h).
 *
 * The happy path: the first COMMAND_LAYOUT sets the layout for good; every COMMAND_CLOCK above the
 * log's time moves it up. Each setting is a row of its own in the table of settings.
 *
 * Failure modes: a layout that breaks a rule, or differs from the one in force, is told so and
 * changes nothing. A row that no apply can have made is ERR_CORRUPT.
 *
 * Thread: one owner. Deterministic: only the state and the command decide.
 */
#include "src/id/fsm/fsm_state.h"

#include <string.h>

#include "src/base/assert.h"

#define SETTING_VERSION 1
#define LAYOUT_KEY "layout"
#define TIME_KEY "time"

/* So low that no window granted by the log's time ends later than what can be shown. */
#define LOG_MS_MAX (TAG_TIME_MAX_MS - LIMIT_WORKER_AHEAD_MS - LIMIT_WINDOW_MAX_MS)

static int layout_check(const struct snowflake_layout *layout, uint64_t now_ms);
static bool layout_equal(const struct snowflake_layout *a, const struct snowflake_layout *b);
static void put_key(struct fsm *fsm, const char *name, size_t *ret_key_len);
static void layout_bytes(struct fsm *fsm, size_t *ret_key_len);
static void time_bytes(struct fsm *fsm, size_t *ret_key_len);
static bool is_key(const uint8_t *key, size_t key_len, const char *name);
static int load_layout(struct fsm *fsm, struct reader *reader);
static int load_time(struct fsm *fsm, struct reader *reader);

bool fsm_layout(const struct fsm *fsm, struct snowflake_layout *ret_layout)
{
    if (fsm->has_layout) {
        *ret_layout = fsm->layout;
    }
    return fsm->has_layout;
}

uint64_t fsm_log_ms(const struct fsm *fsm)
{
    return fsm->log_ms;
}

int fsm_apply_layout(struct fsm *fsm, const struct snowflake_layout *layout,
                     struct fsm_changes *changes)
{
    size_t key_len;

    if (fsm->has_layout) {
        return layout_equal(&fsm->layout, layout) ? 0 : ERR_EXISTS;
    }
    /* While the log has no time, there is nothing to hold the epoch against. */
    if (layout_check(layout, fsm->log_ms > 0 ? fsm->log_ms : layout->epoch_ms) != 0) {
        return ERR_INVALID;
    }
    fsm->has_layout = true;
    fsm->layout = *layout;
    layout_bytes(fsm, &key_len);
    fsm_scratch_enter(fsm, key_len, changes);
    fsm_tell_layout(fsm);
    return 0;
}

void fsm_apply_clock(struct fsm *fsm, uint64_t cluster_ms, struct fsm_changes *changes)
{
    size_t key_len;

    if (cluster_ms > LOG_MS_MAX) {
        cluster_ms = LOG_MS_MAX;
    }
    if (cluster_ms <= fsm->log_ms) {
        return;
    }
    if (fsm->log_ms > 0) {
        time_bytes(fsm, &key_len);
        fsm_scratch_leave(fsm, key_len);
        if (cluster_ms - fsm->log_ms > LIMIT_LOG_STEP_MS) {
            cluster_ms = fsm->log_ms + LIMIT_LOG_STEP_MS;
        }
    }
    fsm->log_ms = cluster_ms;
    time_bytes(fsm, &key_len);
    fsm_scratch_enter(fsm, key_len, changes);
}

void fsm_tell_layout(struct fsm *fsm)
{
    if (fsm->listener != NULL && fsm->listener->layout_changed != NULL && fsm->has_layout) {
        fsm->listener->layout_changed(fsm->listener, &fsm->layout);
    }
}

int fsm_load_setting(struct fsm *fsm, const uint8_t *key, size_t key_len, const void *value,
                     size_t value_len)
{
    struct reader reader;

    reader_init(&reader, value, value_len);
    if (value_len > 0 && reader_u8(&reader) != SETTING_VERSION) {
        return ERR_BAD_VERSION;
    }
    if (is_key(key, key_len, LAYOUT_KEY)) {
        return load_layout(fsm, &reader);
    }
    if (is_key(key, key_len, TIME_KEY)) {
        return load_time(fsm, &reader);
    }
    return ERR_CORRUPT;
}

void fsm_settings_clear(struct fsm *fsm)
{
    fsm->has_layout = false;
    fsm->layout = (struct snowflake_layout){0};
    fsm->log_ms = 0;
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

static void put_key(struct fsm *fsm, const char *name, size_t *ret_key_len)
{
    fsm->scratch.len = 0;
    buf_put_u8(&fsm->scratch, FSM_TABLE_SETTINGS);
    buf_put(&fsm->scratch, name, strlen(name));
    *ret_key_len = fsm->scratch.len;
    buf_put_u8(&fsm->scratch, SETTING_VERSION);
}

static void layout_bytes(struct fsm *fsm, size_t *ret_key_len)
{
    ASSERT(fsm->has_layout);
    put_key(fsm, LAYOUT_KEY, ret_key_len);
    buf_put_u64(&fsm->scratch, fsm->layout.epoch_ms);
    buf_put_u8(&fsm->scratch, fsm->layout.time_bits);
    buf_put_u8(&fsm->scratch, fsm->layout.worker_bits);
    buf_put_u8(&fsm->scratch, fsm->layout.sequence_bits);
}

static void time_bytes(struct fsm *fsm, size_t *ret_key_len)
{
    ASSERT(fsm->log_ms > 0 && fsm->log_ms <= LOG_MS_MAX);
    put_key(fsm, TIME_KEY, ret_key_len);
    buf_put_u64(&fsm->scratch, fsm->log_ms);
}

static bool is_key(const uint8_t *key, size_t key_len, const char *name)
{
    return key_len == 1 + strlen(name) && memcmp(key + 1, name, key_len - 1) == 0;
}

static int load_layout(struct fsm *fsm, struct reader *reader)
{
    struct snowflake_layout layout = {0};
    size_t key_len;

    layout.epoch_ms = reader_u64(reader);
    layout.time_bits = reader_u8(reader);
    layout.worker_bits = reader_u8(reader);
    layout.sequence_bits = reader_u8(reader);
    if (reader->bad) {
        return ERR_TRUNCATED;
    }
    if (!reader_done(reader) || layout_check(&layout, layout.epoch_ms) != 0) {
        return ERR_CORRUPT;
    }
    if (fsm->has_layout) {
        return ERR_EXISTS;
    }
    fsm->has_layout = true;
    fsm->layout = layout;
    layout_bytes(fsm, &key_len);
    fsm_scratch_enter(fsm, key_len, NULL);
    return 0;
}

static int load_time(struct fsm *fsm, struct reader *reader)
{
    uint64_t log_ms = reader_u64(reader);
    size_t key_len;

    if (reader->bad) {
        return ERR_TRUNCATED;
    }
    if (!reader_done(reader) || log_ms < 1 || log_ms > LOG_MS_MAX) {
        return ERR_CORRUPT;
    }
    if (fsm->log_ms > 0) {
        return ERR_EXISTS;
    }
    fsm->log_ms = log_ms;
    time_bytes(fsm, &key_len);
    fsm_scratch_enter(fsm, key_len, NULL);
    return 0;
}
