/*
 * commands.h - all commands of leafctl, in the order of its help. Thread: any.
 */
#ifndef LEAFD_CTL_COMMANDS_H
#define LEAFD_CTL_COMMANDS_H

#include "src/ctl/cmd/command.h"

extern const struct command *const COMMANDS[]; /* ends with NULL */

#endif
