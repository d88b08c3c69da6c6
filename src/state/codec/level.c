/*
 * level.c - see level.h.
 */
#include "src/state/codec/level.h"

#ifndef LEVEL_MAX
#define LEVEL_MAX LEVEL_NEWEST
#endif

const struct level_range level_own = {.min = LEVEL_OLDEST, .max = LEVEL_MAX};

static const struct field ROW_FIELDS[] = {
    FIELD_NUMBER(struct level_row, level),
    FIELD_NUMBER(struct level_row, index),
    FIELD_NUMBER(struct level_row, wall_ms),
};

static bool level_row_is_sound(const void *data)
{
    const struct level_row *row = data;

    return row->level > LEVEL_FIRST && row->index > 0;
}

const struct row_format level_row_format = ROW_FORMAT(1, FIELDS(ROW_FIELDS), level_row_is_sound);
