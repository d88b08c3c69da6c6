/*
 * text.h - text of others, made fit for a terminal; and numbers as people read them.
 *
 * Names come from whoever may make a tag, messages from whatever answers at an address. What a
 * terminal would take for a command (control characters, also those of C1 in UTF-8), what turns the
 * direction of text round, and what is no UTF-8 is shown as \xNN or \u{NNNN}; a backslash stays as
 * it is. Everything that leafctl prints for people goes through here.
 *
 * Thread: any; units_*() return the buffer that they were given.
 */
#ifndef LEAFD_CTL_OUT_TEXT_H
#define LEAFD_CTL_OUT_TEXT_H

#include <stdint.h>

#include "src/base/buf.h"

/* Append len bytes of text, cleaned. Line ends are no exception. */
void clean_put(struct buf *out, const char *text, size_t len);

/* The same of a C string; NULL is shown as "-". */
void clean_text(struct buf *out, const char *text);

/* Columns that clean text takes in a terminal: wide characters count twice. */
size_t clean_width(const char *text, size_t len);

/* --- units --- */

#define UNITS_BYTES 40

/* 12 B, 3.4 KiB, 1.2 GiB */
const char *units_bytes(uint64_t bytes, char out[UNITS_BYTES]);

/* 850 ms, 12 s, 5 min, 3 h 20 min, 12 d */
const char *units_ms(uint64_t ms, char out[UNITS_BYTES]);

#endif
