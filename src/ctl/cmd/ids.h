/*
 * ids.h - `next` and `decode`. Thread: one.
 */
#ifndef LEAFD_CTL_CMD_IDS_H
#define LEAFD_CTL_CMD_IDS_H

#include "src/ctl/cmd/command.h"

extern const struct command COMMAND_NEXT;
extern const struct command COMMAND_DECODE;

#endif
