/*
 * facts.c - see facts.h.
 */
#include "src/state/facts.h"

#include <string.h>

#include "src/base/assert.h"

/* So low that no window granted by the log's time ends later than what can be shown. */
#define LOG_MS_MAX (LIMIT_TIME_MAX_MS - LIMIT_WORKER_AHEAD_MS - LIMIT_WINDOW_MAX_MS)

static const struct row_format BIRTH =
    ROW_FORMAT(ROW_VERSION, FIELDS(birth_fields), birth_is_sound);

static const struct field TIME_FIELDS[] = {FIELD_NUMBER(struct facts, log_ms)};

static bool time_is_sound(const void *data)
{
    const struct facts *facts = data;

    return facts->log_ms >= 1 && facts->log_ms <= LOG_MS_MAX;
}

static const struct row_format TIME = ROW_FORMAT(ROW_VERSION, FIELDS(TIME_FIELDS), time_is_sound);

void facts_init(struct facts *facts, struct journal *journal, struct level_range speaks)
{
    ASSERT(level_is_sound(speaks));
    *facts = (struct facts){.journal = journal, .speaks = speaks};
}

/* --- the birth --- */

static void set_birth(struct facts *facts, const struct birth *birth)
{
    ASSERT(uid_is_none(&facts->birth.uid));
    facts->birth = *birth;
    journal_change(facts->journal, STATE_TABLE_SETTINGS, STATE_SETTING_BIRTH,
                   strlen(STATE_SETTING_BIRTH), &BIRTH, NULL, birth);
}

int facts_birth(struct facts *facts, const struct birth *birth)
{
    struct birth shown = *birth;

    if (!uid_is_none(&facts->birth.uid)) {
        return ERR_EXISTS;
    }
    shown.wall_ms = time_shown_ms(birth->wall_ms);
    set_birth(facts, &shown);
    return 0;
}

void facts_birth_value(const struct birth *birth, struct buf *out)
{
    row_put(out, &BIRTH, birth);
}

static int load_birth(struct facts *facts, const struct row_loaded *row)
{
    struct birth birth = {0};
    int err = row_read(row->value, row->value_len, &BIRTH, &birth);

    if (err != 0) {
        return err;
    }
    if (birth.wall_ms > LIMIT_TIME_MAX_MS) {
        return ERR_CORRUPT;
    }
    if (!uid_is_none(&facts->birth.uid)) {
        return ERR_EXISTS;
    }
    set_birth(facts, &birth);
    return 0;
}

/* --- the level --- */

uint16_t facts_level(const struct facts *facts)
{
    return facts->level.level != 0 ? facts->level.level : LEVEL_FIRST;
}

static void set_level(struct facts *facts, const struct level_row *row)
{
    journal_change(facts->journal, STATE_TABLE_SETTINGS, STATE_SETTING_LEVEL,
                   strlen(STATE_SETTING_LEVEL), &level_row_format,
                   facts->level.level != 0 ? &facts->level : NULL, row);
    facts->level = *row;
}

int facts_raise(struct facts *facts, const struct level_command *command, uint64_t index)
{
    uint16_t now = facts_level(facts);

    if (command->to == now) {
        return 0;
    }
    if (command->to != now + 1) {
        return ERR_CONFLICT;
    }
    ASSERT(command->to <= facts->speaks.max && index > facts->level.index);
    set_level(facts, &(struct level_row){.level = command->to,
                                         .index = index,
                                         .wall_ms = time_shown_ms(command->wall_ms)});
    return 0;
}

static int load_level(struct facts *facts, const struct row_loaded *row)
{
    struct level_row loaded = {0};
    int err = row_read(row->value, row->value_len, &level_row_format, &loaded);

    if (err != 0) {
        return err;
    }
    if (facts->level.level != 0) {
        return ERR_EXISTS;
    }
    set_level(facts, &loaded);
    return loaded.level > facts->speaks.max ? ERR_NEWER : 0;
}

/* --- the log's time --- */

static void set_time(struct facts *facts, uint64_t log_ms)
{
    const struct facts after = {.log_ms = log_ms};

    ASSERT(log_ms > facts->log_ms);
    journal_change(facts->journal, STATE_TABLE_SETTINGS, STATE_SETTING_TIME,
                   strlen(STATE_SETTING_TIME), &TIME, facts->log_ms > 0 ? facts : NULL, &after);
    facts->log_ms = log_ms;
}

void facts_clock(struct facts *facts, uint64_t cluster_ms)
{
    uint64_t log_ms = cluster_ms < LOG_MS_MAX ? cluster_ms : LOG_MS_MAX;

    if (log_ms <= facts->log_ms) {
        return;
    }
    if (facts->log_ms > 0 && log_ms - facts->log_ms > LIMIT_LOG_STEP_MS) {
        log_ms = facts->log_ms + LIMIT_LOG_STEP_MS;
    }
    set_time(facts, log_ms);
}

void facts_time_value(uint64_t log_ms, struct buf *out)
{
    const struct facts facts = {.log_ms = log_ms < LOG_MS_MAX ? log_ms : LOG_MS_MAX};

    row_put(out, &TIME, &facts);
}

static int load_time(struct facts *facts, const struct row_loaded *row)
{
    struct facts loaded = {0};
    int err = row_read(row->value, row->value_len, &TIME, &loaded);

    if (err != 0) {
        return err;
    }
    if (facts->log_ms > 0) {
        return ERR_EXISTS;
    }
    set_time(facts, loaded.log_ms);
    return 0;
}

int facts_load(struct facts *facts, const struct row_loaded *row)
{
    if (row_is_setting(row, STATE_SETTING_BIRTH)) {
        return load_birth(facts, row);
    }
    if (row_is_setting(row, STATE_SETTING_LEVEL)) {
        return load_level(facts, row);
    }
    return row_is_setting(row, STATE_SETTING_TIME) ? load_time(facts, row) : ERR_NOT_FOUND;
}
