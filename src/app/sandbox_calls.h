/*
 * sandbox_calls.h - seccomp: from now on the process makes no system call that no node needs.
 *
 * What is not listed is an error (EPERM), so that a call that nobody thought of costs what it was
 * for, and not the node. What no part of leafd or of its libraries ever does, and an intruder
 * would do first (start a program, look into another process, load code into the kernel), ends the
 * process by SIGSYS. docs/operations.md describes the list.
 *
 * The happy path: sandbox_calls_restrict(SANDBOX_CALLS_START) before there are threads, which
 * inherit it; sandbox_calls_restrict(SANDBOX_CALLS_SERVE) once all listeners are open, for all
 * threads there are.
 *
 * Failure modes: a negative errno, and nothing is restricted: -EINVAL or -ENOSYS where the kernel
 * has no seccomp, -EOPNOTSUPP in a build with a sanitizer, which needs other calls.
 * Thread: main.
 */
#ifndef LEAFD_APP_SANDBOX_CALLS_H
#define LEAFD_APP_SANDBOX_CALLS_H

#include "src/base/err.h"

enum sandbox_calls {
    SANDBOX_CALLS_START, /* what a node needs from the opening of its store on */
    SANDBOX_CALLS_SERVE, /* no further listener, no file to be written that is not open */
    SANDBOX_CALLS_TOOL   /* for `leafd restore` and `recover`, from their begin on: a store is made,
                            and checked by a child; no network, no program */
};

int sandbox_calls_restrict(enum sandbox_calls stage) MUST_CHECK;

#endif
