/*
 * backup.h - `backup FILE`: the whole state of the cluster as a file, verified before it counts.
 * Thread: one.
 */
#ifndef LEAFD_CTL_CMD_BACKUP_H
#define LEAFD_CTL_CMD_BACKUP_H

#include "src/ctl/cmd/command.h"

extern const struct command COMMAND_BACKUP;

#endif
