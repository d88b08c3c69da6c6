/*
 * file.h - files of the configuration: what is in them, and a line of the config file.
 *
 * A line is empty, a comment, or "key = value". A comment begins with '#' at the start of a line or
 * after a blank. A value may stand in double quotes (there are no escapes), which keeps blanks at
 * its ends and '#' in it.
 *
 * Failure modes: ERR_INVALID, with a text that says what is wrong, without the file's name.
 * Thread: main.
 */
#ifndef LEAFD_APP_CONFIG_FILE_H
#define LEAFD_APP_CONFIG_FILE_H

#include "src/app/config/config.h"
#include "src/base/buf.h"

/* Read the first `room` bytes of a file, which has to be a regular one, at once: nothing is waited
 * for. No copy of them stays elsewhere in memory. Not everybody may write to it; a private file is
 * open to its owner alone. */
int config_file_read(const char *path, bool is_private, void *out, size_t room, size_t *ret_len,
                     struct config_error *ret_error) MUST_CHECK;

/* The text of auth.tokens-file, ended by a NUL that its length does not count; nothing if none is
 * set. The error names the file. */
int config_tokens_read(const struct config *config, struct buf *ret_text,
                       struct config_error *ret_error) MUST_CHECK;

/* Cut a line into texts. *ret_key is NULL if there is no setting on it. */
int config_line_parse(char *line, char **ret_key, char **ret_value,
                      struct config_error *ret_error) MUST_CHECK;

#endif
