/*
 * id_hex.h - compare bytes with golden ones written as hexadecimal text.
 *
 * Thread: any.
 */
#ifndef LEAFD_ID_TESTS_ID_HEX_H
#define LEAFD_ID_TESTS_ID_HEX_H

#include <stdbool.h>
#include <stddef.h>

#include "src/base/buf.h"

/* True if the bytes are those of hex ("01 0a ff", blanks are skipped); else both are printed. */
bool id_hex_equal(const struct buf *buf, const char *hex);

/* Append the bytes of hex to buf. */
void id_hex_put(struct buf *buf, const char *hex);

#endif
