/*
 * sandbox.h - the process shuts itself in: no system call and no path but what a node needs.
 *
 * Paths: it writes below data.dir, and reads below /etc and the directories of libraries (for the
 * resolver, which reads them anew at each change), of the config file and of each file that a
 * setting names (so that SIGHUP finds what was renamed over it). Calls: sandbox_calls.h.
 *
 * The happy path: sandbox_begin() once the store is open, before there are threads;
 * sandbox_complete() once HTTP listens. Each leaves a line in the log.
 *
 * `leafd restore` and `recover` shut themselves in by sandbox_tool(), before they read anything.
 *
 * Failure modes: sandbox = auto: what the kernel does not have is off, and the log says so;
 * sandbox = on: ERR_INVALID, logged, and the process has to end.
 * Thread: main.
 */
#ifndef LEAFD_APP_SANDBOX_H
#define LEAFD_APP_SANDBOX_H

#include "src/app/config/config.h"

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

#endif
