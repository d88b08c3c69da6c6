/*
 * fsm_level.c - see fsm_level.h.
 */
#include "src/id/fsm/fsm_level.h"

#include <string.h>

#include "src/base/assert.h"

void fsm_level_init(struct fsm_level *level, struct fsm_journal *journal, struct level_range speaks)
{
    ASSERT(level_is_sound(speaks));
    *level = (struct fsm_level){.journal = journal, .speaks = speaks};
}

uint16_t fsm_level_now(const struct fsm_level *level)
{
    return level->row.level != 0 ? level->row.level : LEVEL_FIRST;
}

static void set(struct fsm_level *level, const struct level_row *row)
{
    fsm_journal_change(level->journal, FSM_TABLE_SETTINGS, FSM_SETTING_LEVEL,
                       strlen(FSM_SETTING_LEVEL), &level_row_format,
                       level->row.level != 0 ? &level->row : NULL, row);
    level->row = *row;
}

int fsm_level_raise(struct fsm_level *level, const struct level_command *command, uint64_t index)
{
    uint16_t now = fsm_level_now(level);

    if (command->to == now) {
        return 0;
    }
    if (command->to != now + 1) {
        return ERR_CONFLICT;
    }
    ASSERT(command->to <= level->speaks.max && index > level->row.index);
    set(level, &(struct level_row){.level = command->to,
                                   .index = index,
                                   .wall_ms = fsm_shown_ms(command->wall_ms)});
    return 0;
}

int fsm_level_load(struct fsm_level *level, const struct fsm_loaded *row)
{
    struct level_row loaded = {0};
    int err = row_read(row->value, row->value_len, &level_row_format, &loaded);

    if (err != 0) {
        return err;
    }
    if (level->row.level != 0) {
        return ERR_EXISTS;
    }
    set(level, &loaded);
    return loaded.level > level->speaks.max ? ERR_NEWER : 0;
}
