/*
 * read.h - histories as text, a line an operation, as recorders write them.
 *
 * The fields of a line are separated by single tabs; a line ends with a newline, the last one too
 * (a line that was cut is refused, not guessed). Empty lines and lines that begin with # are
 * skipped.
 *
 *     tag  NAME  strict|monotonic|trend  [START]
 *     op   TAG  CLIENT  SENT  RECEIVED  FIRST  COUNT  [KEY]
 *
 * NAME, TAG, CLIENT and KEY are any bytes but control characters, 1 to HISTORY_NAME_BYTES of them.
 * START, SENT, RECEIVED and FIRST are whole numbers below 2^64, COUNT one below 2^32. RECEIVED and
 * FIRST are both "-" if there was no answer. Each tag that has operations has a tag line, which may
 * come before or after them, in another file, and more than once as long as it says the same.
 * A reply of several ranges (trend tags) is an operation each.
 *
 * Thread: one owner each.
 */
#ifndef LEAFD_HISTORY_READ_H
#define LEAFD_HISTORY_READ_H

#include <stdio.h>

#include "cluster-tests/history/history.h"

#define HISTORY_NAME_BYTES 1024
#define HISTORY_LINE_BYTES 8192 /* with the newline; longer: ERR_INVALID */

/*
 * Read a file to its end into the history. ERR_INVALID: malformed, ERR_IO: not readable; then
 * *ret_why (an empty buffer) says where and why, "name:line: ..." and a NUL.
 */
int history_read(struct history *history, FILE *file, const char *name,
                 struct buf *ret_why) MUST_CHECK;

#endif
