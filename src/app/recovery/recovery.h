/*
 * recovery.h - `leafd restore` and `leafd recover`: offline, the data of the first node of a new
 * cluster out of a backup, or out of the directory of one node that survived.
 *
 * The happy path: read all of it and verify it (read.h); make what it becomes (renew.h); ask, where
 * the survivor may not be the newest; write it in one commit (fresh.h); say from where each tag
 * goes on, what the raise cannot cover, and what is to be done next.
 *
 * Failure modes: one line on stderr, an ERR_*, and nothing written. Thread: main.
 */
#ifndef LEAFD_APP_RECOVERY_RECOVERY_H
#define LEAFD_APP_RECOVERY_RECOVERY_H

#include <stdbool.h>

#include "src/base/err.h"

/* Is the argument one of the subcommands? */
bool recovery_is_command(const char *argument);

/* argv[1] is. 0 or ERR_* (ERR_INVALID: the command line is wrong, or the name was not typed). */
int recovery_run(char *const argv[]) MUST_CHECK;

#endif
