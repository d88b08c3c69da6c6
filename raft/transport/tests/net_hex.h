/*
 * net_hex.h - bytes as text, for golden bytes in tests, and copies that end where their memory
 * ends.
 *
 * Thread: the test's.
 */
#ifndef LEAFD_RAFT_TRANSPORT_TESTS_NET_HEX_H
#define LEAFD_RAFT_TRANSPORT_TESTS_NET_HEX_H

#include <stddef.h>
#include <stdint.h>

#include "src/tests/unit/hex.h"

/* A configuration: one voter, id 1, address "ab:1": 24 bytes. */
#define CONF_HEX "01 0100000000000000 0100000000000000 61623a3100 01 00"

/* Fail the test unless the bytes are those of the text ("01 02", spaces ignored). */
void assert_hex(const void *data, size_t len, const char *text);

/* A malloc'ed copy of exactly len bytes, so that the sanitizer sees a read beyond them. */
uint8_t *exact_copy(const void *data, size_t len);

#endif
