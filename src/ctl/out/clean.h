/*
 * clean.h - text of others, made fit for a terminal.
 *
 * Names come from whoever may make a tag, messages from whatever answers at an address. What a
 * terminal would take for a command (control characters, also those of C1 in UTF-8), what turns the
 * direction of text round, and what is no UTF-8 is shown as \xNN or \u{NNNN}; a backslash stays as
 * it is. Everything that leafctl prints for people goes through here.
 *
 * Thread: any.
 */
#ifndef LEAFD_CTL_OUT_CLEAN_H
#define LEAFD_CTL_OUT_CLEAN_H

#include "src/base/buf.h"

/* Append len bytes of text, cleaned. Line ends are no exception. */
void clean_put(struct buf *out, const char *text, size_t len);

/* The same of a C string; NULL is shown as "-". */
void clean_text(struct buf *out, const char *text);

/* Columns that clean text takes in a terminal: wide characters count twice. */
size_t clean_width(const char *text, size_t len);

#endif
