/*
 * describe.h - the table of commands as text: help for people. Thread: any.
 */
#ifndef LEAFD_CTL_DESCRIBE_H
#define LEAFD_CTL_DESCRIBE_H

#include "src/ctl/cmd/command.h"

/* "leafctl tags put TAG [OPTIONS]", without what cannot be given. */
void describe_usage(const struct command *command, struct buf *out);

/* All commands, a line each, and the settings. */
void describe_all(const struct command *const *commands, struct buf *out);

/* One command, with its options. */
void describe_command(const struct command *command, struct buf *out);

#endif
