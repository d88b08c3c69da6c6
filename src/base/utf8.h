/*
 * utf8.h - strict UTF-8 (no overlong form, no surrogate, at most U+10FFFF), and how texts look to
 * people.
 *
 * Failure modes: none; bytes that are not UTF-8 are an answer. Thread: pure functions, any.
 */
#ifndef LEAFD_BASE_UTF8_H
#define LEAFD_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/base/err.h"

/* Bytes of the character at the front (1..4) and its code, or 0 if they are not strict UTF-8.
 * len > 0. */
size_t utf8_step(const char *text, size_t len, uint32_t *ret_code);

/* 0 if the text is strict UTF-8 without NUL and,
 * unless controls is true, without U+0001-1F and 7F-9F; else ERR_INVALID. */
int utf8_text_check(const char *text, size_t len, bool controls) MUST_CHECK;

/*
 * --- looks: characters that people do not see, and others that they cannot distinguish from known
 * ones. Both are decided by the text alone, by blocks of Unicode, without its tables of
 * normalization. Of two names that differ only in form (NFC and NFD, wide letters, other blanks) at
 * least one has such a character, in the scripts of Europe and East Asia; a client that creates
 * that one is warned. Bytes that are not UTF-8 are skipped.
 */

#define LOOKS_WHY_BYTES 88

/* A control, a mark of direction, or an invisible character (Unicode: default ignorable). */
bool looks_unseen(uint32_t code);

/* True if the text has one; why names the first, and its place: "U+200B at character 3 is ...". */
bool looks_hidden(const char *text, size_t len, char why[LOOKS_WHY_BYTES]);

/* True if the text looks like another one that people may write instead; why gives the reason. */
bool looks_like_another(const char *text, size_t len, char why[LOOKS_WHY_BYTES]);

#endif
