/*
 * layouts.c - `layouts`: the named layouts of snowflake ids. Thread: one.
 */
#include "src/ctl/cmd/all.h"

#include <inttypes.h>

#include "http/proto/text.h"
#include "src/ctl/cmd/command.h"
#include "src/ctl/out/grid.h"

static void layouts_put_row(struct grid *grid, const json_t *row)
{
    static const char *const numbers[] = {"unit_ms", "time_bits", "worker_bits", "sequence_bits"};
    char text[TEXT_TIME_BYTES];
    int64_t epoch_ms = field_number(row, "epoch_ms", 0);

    grid_cell(grid, field_text(row, "name"));
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        grid_cellf(grid, "%" PRId64, field_number(row, numbers[i], 0));
    }
    grid_cell(grid, field_text(row, "order"));
    grid_cell(grid, text_time_rfc3339((uint64_t)epoch_ms, text));
    grid_cell(grid, json_is_true(json_object_get(row, "deleted")) ? "deleted" : "");
}

static void layouts_put_rows(struct ctl *ctl, const json_t *json)
{
    static const char *const titles[] = {"name",  ">unit", ">time", ">worker", ">sequence",
                                         "order", "epoch", "state", NULL};
    GRID_LOCAL(grid);

    grid_init(&grid, titles);
    for (size_t i = 0; i < field_count(json, "layouts"); i++) {
        layouts_put_row(&grid, field_item(json, "layouts", i));
    }
    grid_print(&grid, 0, true, &ctl->out);
}

static enum ctl_exit layouts_run_list(struct ctl *ctl)
{
    return ctl_show(ctl, "/api/layouts", layouts_put_rows);
}

const struct command COMMAND_LAYOUTS_LIST = {
    .family = "layouts",
    .name = "list",
    .is_default = true,
    .summary = "layouts of snowflake ids by name",
    .run = layouts_run_list,
};
