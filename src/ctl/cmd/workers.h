/*
 * workers.h - `workers list|acquire|renew|release`: worker ids of snowflake ids. Thread: one.
 */
#ifndef LEAFD_CTL_CMD_WORKERS_H
#define LEAFD_CTL_CMD_WORKERS_H

#include "src/ctl/cmd/command.h"

extern const struct command COMMAND_WORKERS_LIST;
extern const struct command COMMAND_WORKERS_ACQUIRE;
extern const struct command COMMAND_WORKERS_RENEW;
extern const struct command COMMAND_WORKERS_RELEASE;

#endif
