/*
 * offline.h - `restore` and `recover`, which work on the disk of a stopped node, and are leafd's.
 *
 * leafctl becomes the leafd that lies beside it, or is found in PATH: with the same words, and with
 * its exit codes. No other command of leafctl touches a node's data. Thread: main.
 */
#ifndef LEAFD_CTL_CMD_OFFLINE_H
#define LEAFD_CTL_CMD_OFFLINE_H

#include "src/ctl/cmd/command.h"

/* Is argv[1] one of them? Does not return then unless there is no leafd, and that was told. */
bool offline_is_command(char **argv);
enum ctl_exit offline_run(char **argv);

#endif
