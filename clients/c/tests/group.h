/* cmocka, with what it needs to be included before. */
#ifndef LEAFD_CLIENTS_C_TESTS_GROUP_H
#define LEAFD_CLIENTS_C_TESTS_GROUP_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#endif
