/*
 * privileges.h - privileges that the process gives up before it reads from the network: root's
 * rights, paths that it does not need, and system calls that no node makes.
 *
 * The user: started as root, the process becomes the user of the setting `user`, for good: no group
 * of root's, no capability, no return. Without `user` it refuses to run as root; `user` = `root`
 * allows it. A missing data directory is made for the user before that, since root may own its
 * parent. As any user, the process can gain no rights by starting a program (no_new_privs). Its
 * memory, which holds secrets, is in no core dump and closed to other processes of the user, unless
 * `sandbox` is `debug`.
 *
 * Paths, by Landlock: the process writes below data.dir. It reads below /etc and the directories of
 * libraries (for the resolver, which reads them again at each change), of the config file and of
 * each file that a setting names (so that SIGHUP finds a file renamed over it). Open files stay
 * open. The rules are on the directories as they are now: a file renamed over another in such a
 * directory can be opened, a renamed directory cannot. Signals, and connections to abstract
 * sockets, reach no other process (Linux 6.12).
 *
 * System calls, by seccomp: a call that is not listed is an error (EPERM), so that an overlooked
 * call fails alone and does not end the node. A call that leafd and its libraries never make, and
 * that an intruder would make first (start a program, look into another process, load code into the
 * kernel), ends the process by SIGSYS. docs/operations.md describes the list.
 *
 * The happy path: privileges_drop() after the settings are read, before there is any thread or open
 * file of the node; sandbox_begin() once the store is open, before there are threads;
 * sandbox_complete() once HTTP listens. Each leaves a line in the log. `leafd restore`, `recover`
 * and `readmit` restrict themselves by sandbox_tool(), before they read anything.
 *
 * Failure modes: a user that cannot be taken: ERR_INVALID with error and remedy; the process must
 * end. A sandbox feature that the kernel lacks: with sandbox = auto it is off, and logged; with
 * sandbox = on: ERR_INVALID, logged, and the process must end. Thread: main.
 */
#ifndef LEAFD_NODE_PRIVILEGES_H
#define LEAFD_NODE_PRIVILEGES_H

#include <stdbool.h>
#include <stddef.h>

#include "src/base/err.h"
#include "src/node/config/config.h"

/* --- Landlock: paths --- */

struct sandbox_path {
    const char *path;
    bool writable; /* paths below it may be made, changed and removed */
};

/* *ret_version: of the kernel's Landlock, from 1 on. */
int sandbox_paths_restrict(const struct sandbox_path *paths, size_t count,
                           unsigned *ret_version) MUST_CHECK;

/* --- seccomp: system calls --- */

enum sandbox_calls {
    SANDBOX_CALLS_START, /* calls a node needs once its store is being opened */
    SANDBOX_CALLS_SERVE, /* no further listener, no further file opened to write */
    SANDBOX_CALLS_TOOL   /* for `leafd restore` and `recover`, from their begin: make a store,
                            check it in a child; no network, no program */
};

int sandbox_calls_restrict(enum sandbox_calls stage) MUST_CHECK;

/* --- the sandbox --- */

/* *ret_has_calls: seccomp's first stage is in force. */
int sandbox_begin(const struct config *config, bool *ret_has_calls) MUST_CHECK;

/* Only if it is. */
int sandbox_complete(const struct config *config) MUST_CHECK;

/* For a tool: it may read and write below these directories, and read this file (NULL: none) and
 * system files that every program needs; no network, no program. A feature that the kernel lacks is
 * off, with a line of level info. */
void sandbox_tool(const char *file, const char *const directories[], size_t count);

/* --- the user --- */

/* Could root become the user of the settings? For --check-config, which changes nothing and any
 * user may run. */
int privileges_check(const struct config *config, struct config_error *ret_error) MUST_CHECK;

int privileges_drop(const struct config *config, struct config_error *ret_error) MUST_CHECK;

/* Log the user that the process runs as. */
void privileges_report(const struct config *config);

#endif
