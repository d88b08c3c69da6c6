/*
 * layouts.h - `layouts`: the named layouts of snowflake ids. Thread: one.
 */
#ifndef LEAFD_CTL_CMD_LAYOUTS_H
#define LEAFD_CTL_CMD_LAYOUTS_H

#include "src/ctl/cmd/command.h"

extern const struct command COMMAND_LAYOUTS_LIST;

#endif
