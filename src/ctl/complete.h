/*
 * complete.h - the table of commands for shells and for the manual page. Thread: any.
 */
#ifndef LEAFD_CTL_COMPLETE_H
#define LEAFD_CTL_COMPLETE_H

#include <stdbool.h>

#include "src/ctl/cmd/command.h"

/* Append a script that completes command lines. False: shell is none of bash, zsh and fish. */
bool complete_script(const struct command *const *commands, const char *shell, struct buf *out);

/* Append the commands and settings as scdoc, for docs/man. */
void complete_manual(const struct command *const *commands, struct buf *out);

#endif
