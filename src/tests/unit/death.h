/*
 * death.h - does a call end the process by a failed assertion?
 *
 * cmocka's own way needs assert() to be replaced; ASSERT() aborts, so the call runs in a child.
 * Thread: one; no other may run when it is called.
 */
#ifndef LEAFD_TESTS_UNIT_DEATH_H
#define LEAFD_TESTS_UNIT_DEATH_H

#include <stdbool.h>

/* True if call(data) ended a child process by SIGABRT. Its stderr is thrown away. */
bool death_by_assert(void (*call)(void *data), void *data);

#endif
