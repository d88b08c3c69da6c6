/*
 * top.h - `top`: the busiest tags, live. Thread: one.
 */
#ifndef LEAFD_CTL_CMD_TOP_H
#define LEAFD_CTL_CMD_TOP_H

#include "src/ctl/cmd/command.h"

extern const struct command COMMAND_TOP;

#endif
