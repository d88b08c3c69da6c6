/*
 * members.h - `members`, `leader`, `level`: who belongs to the cluster, who leads it, and what all
 * of it speaks. Thread: one.
 */
#ifndef LEAFD_CTL_CMD_MEMBERS_H
#define LEAFD_CTL_CMD_MEMBERS_H

#include "src/ctl/cmd/command.h"

extern const struct command COMMAND_MEMBERS_LIST;
extern const struct command COMMAND_MEMBERS_ADD;
extern const struct command COMMAND_MEMBERS_REMOVE;
extern const struct command COMMAND_MEMBERS_REPLACE;
extern const struct command COMMAND_MEMBERS_ADDRESS;
extern const struct command COMMAND_LEADER;
extern const struct command COMMAND_LEVEL;
extern const struct command COMMAND_LEVEL_RAISE;

#endif
