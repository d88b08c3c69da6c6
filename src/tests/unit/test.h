/*
 * test.h - cmocka, and the four headers that it wants before itself. Thread: any.
 */
#ifndef LEAFD_TESTS_UNIT_TEST_H
#define LEAFD_TESTS_UNIT_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#endif
