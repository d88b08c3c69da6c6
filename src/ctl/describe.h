/*
 * describe.h - all commands of leafctl, in the order of its help, and their table as text: help for
 * people, completions for shells, the manual page. Thread: any.
 */
#ifndef LEAFD_CTL_DESCRIBE_H
#define LEAFD_CTL_DESCRIBE_H

#include <stdbool.h>

#include "src/ctl/cmd/command.h"

extern const struct command *const COMMANDS[]; /* ends with NULL */

/* --- help --- */

/* All commands, a line each, and the settings. */
void describe_all(struct buf *out);

/* One command, with its options. */
void describe_command(const struct command *command, struct buf *out);

/* --- completions, manual page --- */

/* Append a script that completes command lines. False: shell is none of bash, zsh and fish. */
bool complete_script(const char *shell, struct buf *out);

/* Append the commands and settings as scdoc, for docs/man. */
void complete_manual(struct buf *out);

#endif
