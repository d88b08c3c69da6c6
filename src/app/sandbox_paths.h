/*
 * sandbox_paths.h - Landlock: from now on this thread, and all that it starts, open no file and no
 * directory but those that are named.
 *
 * What is open stays open. Files are found by the directories that lead to them, as of now: a file
 * that is renamed over another in a named directory can be opened, a directory that is renamed
 * cannot. Signals, and connections to abstract sockets, reach no other process (Linux 6.12).
 *
 * The happy path: no_new_privs is set, then sandbox_paths_restrict(), before there are threads.
 *
 * Failure modes: a negative errno, and nothing is restricted: -ENOSYS or -EOPNOTSUPP where the
 * kernel has no Landlock, or it is switched off. A path that is not there is left out.
 * Thread: one, for itself.
 */
#ifndef LEAFD_APP_SANDBOX_PATHS_H
#define LEAFD_APP_SANDBOX_PATHS_H

#include <stdbool.h>
#include <stddef.h>

#include "src/base/err.h"

struct sandbox_path {
    const char *path;
    bool writable; /* what lies below it may be made, changed and removed */
};

/* *ret_version: the kernel's Landlock, from 1 on. */
int sandbox_paths_restrict(const struct sandbox_path *paths, size_t count,
                           unsigned *ret_version) MUST_CHECK;

#endif
