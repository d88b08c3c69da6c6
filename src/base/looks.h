/*
 * looks.h - what people see of a text: characters that they do not see, and others that they cannot
 * tell from what they know.
 *
 * Both are decided by the text alone, by blocks of Unicode, without its tables of normalization.
 * Of two names that differ only in form (NFC and NFD, wide letters, other blanks) at least one has
 * such a character, in the scripts of Europe and East Asia: whoever makes that one is told.
 *
 * Failure modes: bytes that are not UTF-8 are passed over. Thread: pure functions, any.
 */
#ifndef LEAFD_BASE_LOOKS_H
#define LEAFD_BASE_LOOKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LOOKS_WHY_BYTES 88

/* A control, a mark of direction, or what shows nothing (Unicode: default ignorable). */
bool looks_unseen(uint32_t code);

/* True if the text has one; why names the first, and its place: "U+200B at character 3 is ...". */
bool looks_hidden(const char *text, size_t len, char why[LOOKS_WHY_BYTES]);

/* True if the text looks like another one that people may write instead; why says by what. */
bool looks_like_another(const char *text, size_t len, char why[LOOKS_WHY_BYTES]);

#endif
