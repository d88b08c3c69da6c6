/*
 * hex.h - compare bytes with golden ones written as hexadecimal text.
 *
 * Thread: any.
 */
#ifndef LEAFD_TESTS_UNIT_HEX_H
#define LEAFD_TESTS_UNIT_HEX_H

#include <stdbool.h>
#include <stddef.h>

#include "src/base/buf.h"

/* True if the bytes are those of hex ("01 0a ff", blanks are skipped); else both are printed. */
bool hex_equal(const struct buf *buf, const char *hex);

/* Append the bytes of hex to buf. */
void hex_put(struct buf *buf, const char *hex);

#endif
