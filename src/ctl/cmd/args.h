/*
 * args.h - the command line: which command, its operands and options, and the settings.
 *
 *     leafctl [SETTINGS] FAMILY [NAME] [OPERANDS] [OPTIONS]
 *
 * Options and settings may stand anywhere, as --name VALUE or --name=VALUE; behind "--" everything
 * is an operand. Failure modes: CTL_USAGE, told on stderr. Thread: one.
 */
#ifndef LEAFD_CTL_CMD_ARGS_H
#define LEAFD_CTL_CMD_ARGS_H

#include "src/ctl/cmd/command.h"

enum args_action { ARGS_RUN, ARGS_HELP, ARGS_VERSION };

/* commands ends with NULL. ctl->command is NULL for help of all. Texts are borrowed from argv. */
enum ctl_exit args_parse(struct ctl *ctl, const struct command *const *commands, int argc,
                         char **argv, enum args_action *ret_action);

#endif
