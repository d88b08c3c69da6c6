/*
 * check.h - `check`: is this cluster healthy, and well set up? An opinion, with reasons and what to
 * do; the exit code is that of the worst of them. Thread: one.
 */
#ifndef LEAFD_CTL_CMD_CHECK_H
#define LEAFD_CTL_CMD_CHECK_H

#include "src/ctl/cmd/command.h"

extern const struct command COMMAND_CHECK;

#endif
