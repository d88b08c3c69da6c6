/*
 * history.h - `audit` and `events`: what happened, oldest first; with --follow also what comes.
 * Thread: one.
 */
#ifndef LEAFD_CTL_CMD_HISTORY_H
#define LEAFD_CTL_CMD_HISTORY_H

#include "src/ctl/cmd/command.h"

extern const struct command COMMAND_AUDIT;
extern const struct command COMMAND_EVENTS;

#endif
