/*
 * raft_child.h - run a call in a child process: for what ends it by a failed assertion or a crash.
 *
 * Thread: one; no other may run when it is called.
 */
#ifndef LEAFD_RAFT_TESTS_RAFT_CHILD_H
#define LEAFD_RAFT_TESTS_RAFT_CHILD_H

#include <stdbool.h>

/* Run call(data) in a child. Its return value if it came back, minus the signal if that ended it;
 * 99 if it ended by itself in another way (a sanitizer's report). Its stderr is thrown away. */
int child_run(int (*call)(void *data), void *data);

/* True if call(data) ended its child by a failed ASSERT. */
bool child_asserts(int (*call)(void *data), void *data);

#endif
