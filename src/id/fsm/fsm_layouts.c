/*
 * fsm_layouts.c - see fsm_layouts.h.
 */
#include "src/id/fsm/fsm_layouts.h"

#include <string.h>

#include "src/base/assert.h"

void fsm_layouts_init(struct fsm_layouts *layouts, struct journal *journal,
                      struct fsm_listener *const *listener)
{
    memset(layouts, 0, sizeof *layouts);
    layouts->journal = journal;
    layouts->listener = listener;
}

static struct layout_row *find(struct fsm_layouts *layouts, const char *name, size_t len)
{
    for (uint32_t i = 0; i < layouts->count; i++) {
        struct layout_row *row = &layouts->rows[i];

        if (row->name_len == len && memcmp(row->name, name, len) == 0) {
            return row;
        }
    }
    return NULL;
}

static void tell(const struct fsm_layouts *layouts, const struct layout_row *row)
{
    struct fsm_listener *listener = *layouts->listener;

    if (listener != NULL && listener->named_layout_changed != NULL) {
        listener->named_layout_changed(listener, row);
    }
}

static void add(struct fsm_layouts *layouts, const struct layout_row *row)
{
    ASSERT(layouts->count < LIMIT_LAYOUTS);
    layouts->rows[layouts->count++] = *row;
    journal_change(layouts->journal, FSM_TABLE_LAYOUTS, row->name, row->name_len,
                   &layout_row_format, NULL, row);
}

static void set_deleted(struct fsm_layouts *layouts, struct layout_row *row, bool deleted)
{
    const struct layout_row before = *row;

    ASSERT(row->deleted != deleted);
    row->deleted = deleted;
    journal_change(layouts->journal, FSM_TABLE_LAYOUTS, row->name, row->name_len,
                   &layout_row_format, &before, row);
    tell(layouts, row);
}

int fsm_layouts_put(struct fsm_layouts *layouts, const struct layout_row *row, uint64_t log_ms)
{
    struct layout_row *known = find(layouts, row->name, row->name_len);
    struct layout_row made = *row;
    const char *why;

    if (known != NULL && !named_layout_equal(&known->layout, &row->layout)) {
        return ERR_CONFLICT;
    }
    /* While the log has no time, there is nothing to hold the epoch against. */
    if (!layout_name_fits(row->name, row->name_len) ||
        named_layout_check(&row->layout, log_ms > 0 ? log_ms : row->layout.bits.epoch_ms, &why) !=
            0) {
        return known != NULL && !known->deleted ? 0 : ERR_INVALID;
    }
    if (known != NULL) {
        if (known->deleted) {
            set_deleted(layouts, known, false);
        }
        return 0;
    }
    if (layouts->count == LIMIT_LAYOUTS) {
        return ERR_OVERLOADED;
    }
    made.deleted = false;
    made.created_ms = time_shown_ms(row->created_ms);
    add(layouts, &made);
    tell(layouts, &made);
    return 0;
}

int fsm_layouts_delete(struct fsm_layouts *layouts, const struct delete_command *deletion)
{
    struct layout_row *row = find(layouts, deletion->name, deletion->name_len);

    if (row == NULL || row->deleted) {
        return ERR_NOT_FOUND;
    }
    set_deleted(layouts, row, true);
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
    if (find(layouts, row.name, row.name_len) != NULL) {
        return ERR_EXISTS;
    }
    if (layouts->count == LIMIT_LAYOUTS) {
        return ERR_CORRUPT;
    }
    add(layouts, &row);
    return 0;
}

void fsm_layouts_tell(const struct fsm_layouts *layouts)
{
    for (uint32_t i = 0; i < layouts->count; i++) {
        tell(layouts, &layouts->rows[i]);
    }
}
