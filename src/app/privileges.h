/*
 * privileges.h - as whom the process runs, and what it gives away before it reads anything from the
 * network.
 *
 * As root it becomes the user that the setting `user` names, for good: no group of root's, no
 * capability, no way back. Without `user` it refuses to run as root unless that is `root`. A
 * data directory that is missing is made for the user before that, since its parent is root's.
 * Whoever it runs as, it can gain nothing by starting a program (no_new_privs), and its memory,
 * which holds secrets, is in no core dump and open to no other process of the user, unless
 * `sandbox` is `debug`.
 *
 * The happy path: privileges_drop() after the settings were read, before there is any thread, and
 * before anything of the node is opened.
 *
 * Failure modes: ERR_INVALID with what is wrong and what to do; then the process has to end.
 * Thread: main.
 */
#ifndef LEAFD_APP_PRIVILEGES_H
#define LEAFD_APP_PRIVILEGES_H

#include "src/app/config/config.h"

/* Is the user that the settings name one that root could become? For --check-config, which changes
 * nothing and may be run by anybody. */
int privileges_check(const struct config *config, struct config_error *ret_error) MUST_CHECK;

int privileges_drop(const struct config *config, struct config_error *ret_error) MUST_CHECK;

/* A line of the log: as whom it runs. */
void privileges_report(const struct config *config);

#endif
