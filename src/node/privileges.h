/*
 * privileges.h - what the process gives up before it reads anything from the network: root's
 * rights, paths that it does not need, and system calls that no node makes.
 *
 * The user: as root the process becomes the user that the setting `user` names, for good: no group
 * of root's, no capability, no return. Without `user` it refuses to run as root unless that is
 * `root`. A data directory that is missing is made for the user before that, since its parent is
 * root's. Whoever it runs as, it can gain nothing by starting a program (no_new_privs), and its
 * memory, which holds secrets, is in no core dump and open to no other process of the user, unless
 * `sandbox` is `debug`.
 *
 * Paths, by Landlock: the process writes below data.dir, and reads below /etc and the directories
 * of libraries (for the resolver, which reads them anew at each change), of the config file and of
 * each file that a setting names (so that SIGHUP finds what was renamed over it). What is open
 * stays open. Files are found by the directories that lead to them, as of now: a file that is
 * renamed over another in a named directory can be opened, a directory that is renamed cannot.
 * Signals, and connections to abstract sockets, reach no other process (Linux 6.12).
 *
 * System calls, by seccomp: what is not listed is an error (EPERM), so that a call that nobody
 * thought of costs what it was for, and not the node. What no part of leafd or of its libraries
 * ever does, and an intruder would do first (start a program, look into another process, load code
 * into the kernel), ends the process by SIGSYS. docs/operations.md describes the list.
 *
 * The happy path: privileges_drop() after the settings were read, before there is any thread, and
 * before anything of the node is opened; sandbox_begin() once the store is open, before there are
 * threads; sandbox_complete() once HTTP listens. Each leaves a line in the log. `leafd restore`,
 * `recover` and `readmit` restrict themselves by sandbox_tool(), before they read anything.
 *
 * Failure modes: a user that cannot be taken: ERR_INVALID with what is wrong and what to do; then
 * the process has to end. sandbox = auto: what the kernel does not have is off, and the log says
 * so; sandbox = on: ERR_INVALID, logged, and the process has to end. Thread: main.
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
    bool writable; /* what lies below it may be made, changed and removed */
};

/* *ret_version: the kernel's Landlock, from 1 on. */
int sandbox_paths_restrict(const struct sandbox_path *paths, size_t count,
                           unsigned *ret_version) MUST_CHECK;

/* --- seccomp: system calls --- */

enum sandbox_calls {
    SANDBOX_CALLS_START, /* what a node needs from the opening of its store on */
    SANDBOX_CALLS_SERVE, /* no further listener, no file to be written that is not open */
    SANDBOX_CALLS_TOOL   /* for `leafd restore` and `recover`, from their begin on: a store is made,
                            and checked by a child; no network, no program */
};

int sandbox_calls_restrict(enum sandbox_calls stage) MUST_CHECK;

/* --- the sandbox --- */

struct sandbox {
    const struct config *config; /* borrowed */
    bool has_calls;              /* seccomp's first stage is in force */
};

int sandbox_begin(struct sandbox *sandbox, const struct config *config) MUST_CHECK;
int sandbox_complete(struct sandbox *sandbox) MUST_CHECK;

/* For a tool: what lies below these directories may be read and written, and this file (NULL: none)
 * and what every program needs of the system be read; no network, no program. What the kernel does
 * not have is off, with a line of level info. */
void sandbox_tool(const char *file, const char *const directories[], size_t count);

/* --- the user --- */

/* Is the user that the settings name one that root could become? For --check-config, which changes
 * nothing and may be run by anybody. */
int privileges_check(const struct config *config, struct config_error *ret_error) MUST_CHECK;

int privileges_drop(const struct config *config, struct config_error *ret_error) MUST_CHECK;

/* A line of the log: as which user it runs. */
void privileges_report(const struct config *config);

#endif
