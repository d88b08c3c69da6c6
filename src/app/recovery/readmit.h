/*
 * readmit.h - `leafd readmit`: offline, take the mark off a data directory that was refused as an
 * older copy, so that its node may ask to be let in again.
 *
 * Whoever refused it decides again, and it is marked again if what it knows is right. The tool is
 * for a refusal that was wrong: by a member that held the node to a copy which has been replaced by
 * the newest data since. It says what the directory holds, to be compared with what the refusing
 * node logged (`said`, `known`), and what may be lost: while those who know are away, an older copy
 * would be believed. So the cluster's uid is to be typed.
 *
 * The happy path: look; say; ask; one commit of the one local record, all else as it was.
 *
 * Failure modes: one line on stderr, an ERR_*, and nothing written; ERR_NOT_FOUND: it is not
 * marked. Thread: main.
 */
#ifndef LEAFD_APP_RECOVERY_READMIT_H
#define LEAFD_APP_RECOVERY_READMIT_H

#include <stddef.h>

#include "src/base/err.h"

/* argv: behind the subcommand, NULL at the end. restrict_to: as of recovery.h; NULL: none. */
int readmit_run(char *const argv[],
                void (*restrict_to)(const char *file, const char *const directories[],
                                    size_t count)) MUST_CHECK;

#endif
