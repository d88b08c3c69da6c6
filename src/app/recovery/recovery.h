/*
 * recovery.h - `leafd restore` and `leafd recover`: offline, the data of the first node of a new
 * cluster out of a backup, or out of the directory of one node that survived. And the way to
 * `leafd readmit` (readmit.h).
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
#include <stddef.h>

#include "src/base/container.h"
#include "src/base/err.h"

/* Is the argument one of the subcommands? */
bool recovery_is_command(const char *argument);

/* The process shuts itself in, before anything is read: from then on it opens nothing but the file
 * (NULL: none) and what lies below the directories, one of which may yet have to be made. */
struct recovery_guard {
    void (*restrict_to)(const char *file, const char *const directories[], size_t count);
} BY_NAME;

/* argv[1] is. guard: NULL for none. 0 or ERR_* (ERR_INVALID: the command line is wrong, or the name
 * was not typed). */
int recovery_run(char *const argv[], const struct recovery_guard *guard) MUST_CHECK;

#endif
