/*
 * guard.h - no unit test hangs for ever: after a time the process ends, and says which test it was
 * and where it stands.
 *
 * Every test binary is linked with guard.c, which the linker puts between the binary and cmocka's
 * runner (--wrap, see tests.mk): tests need not know of it. The time is counted anew for each
 * test with its setup and teardown: GUARD_LIMIT_S, or LEAFD_TEST_LIMIT_S of the environment (0: no
 * limit, for a debugger). One that is at work may use GUARD_BUSY_TIMES as much of a processor,
 * however long that takes: others may be at work on this machine, too, and a sanitizer makes some
 * tests ten times slower. One that uses no processor does not.
 *
 * The happy path: an alarm is set before each setup, and put off after the last teardown.
 *
 * Failure modes: the alarm comes: the test is named on stderr, the stack of the main thread is
 * shown by addr2line and those of all threads by gdb, as far as these are there and may; children
 * are ended where the process leads its group, and the exit code is GUARD_EXIT. A thread that spins
 * without a system call under TSan gets no signal; who runs the binary has to have a limit, too.
 *
 * Thread: the alarm's handler runs on the main thread, or on any if that does not take it.
 */
#ifndef LEAFD_TESTS_UNIT_GUARD_H
#define LEAFD_TESTS_UNIT_GUARD_H

#define GUARD_LIMIT_S 30
#define GUARD_BUSY_TIMES 5
#define GUARD_BUSY_PERCENT 1 /* of a processor: a test that uses less only waits */
#define GUARD_EXIT 124       /* as timeout(1) */

#endif
