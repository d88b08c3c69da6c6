/*
 * utf8.h - strict UTF-8: no overlong form, no surrogate, at most U+10FFFF. Thread: any.
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

#endif
