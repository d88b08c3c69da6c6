/*
 * selftest.h - does the checker find what it is there to find, in a history of any size?
 *
 * Thread: one.
 */
#ifndef LEAFD_HISTORY_SELFTEST_H
#define LEAFD_HISTORY_SELFTEST_H

#include <stdbool.h>
#include <stdint.h>

#define SELFTEST_MIN 1000 /* operations: fewer may lack what the violations are made of */

/*
 * Make a history of so many operations (random.h), see that nothing is found in it, and
 * plant one violation of each kind, one after the other: each must be found, once, and nothing
 * else. Prints a line for each step with the time it took. True if all is as it should be.
 */
bool selftest_run(uint64_t operations, uint64_t seed);

#endif
