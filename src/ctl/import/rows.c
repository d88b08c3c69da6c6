/*
 * rows.c - see rows.h. Thread: one.
 */
#include "src/ctl/import/rows.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "src/base/array.h"
#include "src/base/assert.h"

const struct source SOURCE_LEAF = {
    .what = "Leaf",
    .table = "leaf_alloc",
    .columns = {[COLUMN_NAME] = "biz_tag",
                [COLUMN_MAX_ID] = "max_id",
                [COLUMN_STEP] = "step",
                [COLUMN_DESCRIPTION] = "description"},
    .needed = {[COLUMN_NAME] = true, [COLUMN_MAX_ID] = true, [COLUMN_STEP] = true},
    .order = {"biz_tag", "max_id", "step", "description", "update_time", NULL},
};

const struct source SOURCE_TINYID = {
    .what = "TinyID",
    .table = "tiny_id_info",
    .columns = {[COLUMN_NAME] = "biz_type",
                [COLUMN_MAX_ID] = "max_id",
                [COLUMN_STEP] = "step",
                [COLUMN_DELTA] = "delta",
                [COLUMN_REMAINDER] = "remainder"},
    .needed = {[COLUMN_NAME] = true,
               [COLUMN_MAX_ID] = true,
               [COLUMN_STEP] = true,
               [COLUMN_DELTA] = true,
               [COLUMN_REMAINDER] = true},
    .order = {"id", "biz_type", "begin_id", "max_id", "step", "delta", "remainder", "create_time",
              "update_time", "version", NULL},
};

int source_column(const struct source *source, const char *name, size_t len)
{
    for (int column = 0; column < COLUMNS; column++) {
        const char *known = source->columns[column];

        if (known != NULL && strlen(known) == len && strncasecmp(known, name, len) == 0) {
            return column;
        }
    }
    return NO_COLUMN;
}

void columns_add(struct columns *columns, int meaning)
{
    if (columns->count == TABLE_COLUMNS_MAX) {
        columns->too_many = true;
    } else {
        columns->meaning[columns->count++] = meaning;
    }
}

void columns_in_order(struct columns *columns, const struct source *source)
{
    columns->count = 0;
    for (size_t i = 0; source->order[i] != NULL; i++) {
        columns_add(columns, source_column(source, source->order[i], strlen(source->order[i])));
    }
}

const char *columns_lack(const struct source *source, const struct columns *columns)
{
    for (int column = 0; column < COLUMNS; column++) {
        bool there = false;

        for (size_t i = 0; i < columns->count; i++) {
            there |= columns->meaning[i] == column;
        }
        if (source->needed[column] && !there) {
            return source->columns[column];
        }
    }
    return NULL;
}

void messages_add(struct messages *messages, const char *format, ...)
{
    char *text = NULL;
    va_list args;

    messages->count++;
    if (messages->kept == MESSAGES_KEPT) {
        return;
    }
    va_start(args, format);
    ASSERT(vasprintf(&text, format, args) >= 0);
    va_end(args);
    buf_put(&messages->texts, text, strlen(text) + 1);
    messages->kept++;
    free(text);
}

void rows_free(struct rows *rows)
{
    buf_free(&rows->text);
    buf_free(&rows->errors.texts);
    free(rows->list);
    *rows = (struct rows){0};
}

struct row rows_begin(uint32_t line, uint32_t number)
{
    struct row row = {.line = line, .number = number};

    for (int column = 0; column < COLUMNS; column++) {
        row.values[column].is_null = true;
    }
    return row;
}

void rows_keep(struct rows *rows, const struct row *row)
{
    rows->list = array_room(rows->list, rows->count, &rows->capacity, sizeof *rows->list);
    rows->list[rows->count++] = *row;
}

const char *row_place(const struct row *row, char out[ROW_PLACE_BYTES])
{
    if (row->line == 0) {
        (void)snprintf(out, ROW_PLACE_BYTES, "row %u", (unsigned)row->number);
    } else if (row->number > 0) {
        (void)snprintf(out, ROW_PLACE_BYTES, "line %u, row %u", (unsigned)row->line,
                       (unsigned)row->number);
    } else {
        (void)snprintf(out, ROW_PLACE_BYTES, "line %u", (unsigned)row->line);
    }
    return out;
}
