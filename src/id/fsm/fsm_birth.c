/*
 * fsm_birth.c - see fsm_birth.h.
 */
#include "src/id/fsm/fsm_birth.h"

#include <string.h>

#include "src/base/assert.h"
#include "src/id/codec/tag.h"

static const struct row_format BIRTH =
    ROW_FORMAT(FSM_ROW_VERSION, FIELDS(birth_fields), birth_is_sound);

void fsm_birth_init(struct fsm_birth *table, struct fsm_journal *journal)
{
    *table = (struct fsm_birth){.journal = journal};
}

static void set(struct fsm_birth *table, const struct birth *birth)
{
    ASSERT(uid_is_none(&table->birth.uid));
    table->birth = *birth;
    fsm_journal_change(table->journal, FSM_TABLE_SETTINGS, FSM_SETTING_BIRTH,
                       strlen(FSM_SETTING_BIRTH), &BIRTH, NULL, birth);
}

void fsm_birth_value(const struct birth *birth, struct buf *out)
{
    row_put(out, &BIRTH, birth);
}

int fsm_birth_apply(struct fsm_birth *table, const struct birth *birth)
{
    struct birth shown = *birth;

    if (!uid_is_none(&table->birth.uid)) {
        return ERR_EXISTS;
    }
    shown.wall_ms = fsm_shown_ms(birth->wall_ms);
    set(table, &shown);
    return 0;
}

int fsm_birth_load(struct fsm_birth *table, const struct fsm_loaded *row)
{
    struct birth birth = {0};
    int err = row_read(row->value, row->value_len, &BIRTH, &birth);

    if (err != 0) {
        return err;
    }
    if (birth.wall_ms > TAG_TIME_MAX_MS) {
        return ERR_CORRUPT;
    }
    if (!uid_is_none(&table->birth.uid)) {
        return ERR_EXISTS;
    }
    set(table, &birth);
    return 0;
}
