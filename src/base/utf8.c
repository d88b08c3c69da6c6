/*
 * utf8.c - see utf8.h. Thread: any.
 */
#include "src/base/utf8.h"

#include <stdio.h>

#include "src/base/assert.h"
#include "src/base/err.h"
#include "src/base/hot.h"

size_t utf8_step(const char *text, size_t len, uint32_t *ret_code)
{
    uint8_t lead = (uint8_t)text[0];
    uint32_t code;
    uint32_t lowest; /* a smaller code is an overlong form */
    size_t more;

    ASSERT(len > 0);
    if (lead < 0x80) {
        *ret_code = lead;
        return 1;
    }
    if ((lead & 0xe0) == 0xc0) {
        code = lead & 0x1f, more = 1, lowest = 0x80;
    } else if ((lead & 0xf0) == 0xe0) {
        code = lead & 0x0f, more = 2, lowest = 0x800;
    } else if ((lead & 0xf8) == 0xf0) {
        code = lead & 0x07, more = 3, lowest = 0x10000;
    } else {
        return 0;
    }
    if (more >= len) {
        return 0;
    }
    for (size_t i = 1; i <= more; i++) {
        if ((text[i] & 0xc0) != 0x80) {
            return 0;
        }
        code = code << 6 | ((uint8_t)text[i] & 0x3f);
    }
    if (code < lowest || (code >= 0xd800 && code <= 0xdfff) || code > 0x10ffff) {
        return 0;
    }
    *ret_code = code;
    return more + 1;
}

/* C0, DEL and C1. */
static bool is_control(uint32_t code)
{
    return code < 0x20 || (code >= 0x7f && code <= 0x9f);
}

HOT int utf8_text_check(const char *text, size_t len, bool controls)
{
    const char *at = text;

    while (len > 0) {
        uint32_t code = 0;
        size_t used;

        if (*at >= 0x20 && *at < 0x7f) { /* most are ASCII */
            at++;
            len--;
            continue;
        }
        used = utf8_step(at, len, &code);
        if (used == 0 || code == 0 || (!controls && is_control(code))) {
            return ERR_INVALID;
        }
        ASSERT(used <= len);
        at += used;
        len -= used;
    }
    return 0;
}

/* --- looks --- */

struct range {
    uint32_t first;
    uint32_t last;
};

static const struct range UNSEEN[] = {
    {0x00, 0x1f},     {0x7f, 0x9f},       {0xad, 0xad},       {0x34f, 0x34f},     {0x61c, 0x61c},
    {0x115f, 0x1160}, {0x17b4, 0x17b5},   {0x180b, 0x180f},   {0x200b, 0x200f},   {0x2028, 0x202e},
    {0x2060, 0x206f}, {0x3164, 0x3164},   {0xfe00, 0xfe0f},   {0xfeff, 0xfeff},   {0xffa0, 0xffa0},
    {0xfff0, 0xfffb}, {0x1bca0, 0x1bca3}, {0x1d173, 0x1d17a}, {0xe0000, 0xe0fff},
};

/* Blanks that are not U+0020. */
static const struct range BLANKS[] = {
    {0xa0, 0xa0},     {0x1680, 0x1680}, {0x2000, 0x200a}, {0x202f, 0x202f},
    {0x205f, 0x205f}, {0x2800, 0x2800}, {0x3000, 0x3000},
};

/* Marks, and parts of syllables, that are mostly written as one character with the one before. */
static const struct range MARKS[] = {
    {0x300, 0x36f},   {0x653, 0x655},   {0x1100, 0x11ff}, {0x1ab0, 0x1aff}, {0x1dc0, 0x1dff},
    {0x20d0, 0x20ff}, {0x3099, 0x309a}, {0xa960, 0xa97f}, {0xd7b0, 0xd7ff}, {0xfe20, 0xfe2f},
};

/* Other forms of characters, in Unicode only for compatibility. */
static const struct range FORMS[] = {
    {0xaa, 0xaa},       {0xb2, 0xb3},       {0xb5, 0xb5},       {0xb9, 0xba},
    {0xbc, 0xbe},       {0x132, 0x133},     {0x13f, 0x140},     {0x149, 0x149},
    {0x17f, 0x17f},     {0x1c4, 0x1cc},     {0x1f1, 0x1f3},     {0x2b0, 0x2b8},
    {0x2e0, 0x2e4},     {0x374, 0x374},     {0x37e, 0x37e},     {0x387, 0x387},
    {0x3d0, 0x3d6},     {0x3f0, 0x3f5},     {0x1d2c, 0x1d6a},   {0x1d9b, 0x1dbf},
    {0x2010, 0x2015},   {0x2024, 0x2026},   {0x2033, 0x2037},   {0x203c, 0x203c},
    {0x2044, 0x2044},   {0x2070, 0x209f},   {0x2100, 0x218f},   {0x2212, 0x2212},
    {0x2215, 0x2215},   {0x2460, 0x24ff},   {0x2e80, 0x2fdf},   {0x3131, 0x318e},
    {0x3200, 0x33ff},   {0xf900, 0xfaff},   {0xfb00, 0xfdff},   {0xfe10, 0xfe1f},
    {0xfe30, 0xfefe},   {0xff00, 0xffef},   {0x1d400, 0x1d7ff}, {0x1ee00, 0x1eeff},
    {0x1f100, 0x1f1e5}, {0x1f200, 0x1f2ff}, {0x1fbf0, 0x1fbf9}, {0x2f800, 0x2fa1f},
};

#define IS_IN(code, ranges) is_in((code), (ranges), sizeof(ranges) / sizeof *(ranges))

/* The ranges are in rising order. */
static bool is_in(uint32_t code, const struct range *ranges, size_t count)
{
    size_t low = 0;

    while (count > 0) {
        size_t half = count / 2;
        const struct range *middle = &ranges[low + half];

        if (code >= middle->first && code <= middle->last) {
            return true;
        }
        low += code > middle->last ? half + 1 : 0;
        count = code > middle->last ? count - half - 1 : half;
    }
    return false;
}

bool looks_unseen(uint32_t code)
{
    return IS_IN(code, UNSEEN);
}

bool looks_hidden(const char *text, size_t len, char why[LOOKS_WHY_BYTES])
{
    unsigned number = 0;

    for (size_t i = 0; i < len; i++) {
        uint8_t byte = (uint8_t)text[i];
        uint32_t code;

        /* May one begin with this byte? Leaders check lists of 10,000 names: ASCII, the middle of a
         * character, and East Asia are skipped quickly. */
        bool may_be = byte < 0x20 || byte == 0x7f || (byte >= 0xc2 && byte < 0xe4) || byte > 0xee;

        number += (byte & 0xc0) != 0x80;
        if (may_be && utf8_step(text + i, len - i, &code) > 0 && looks_unseen(code)) {
            (void)snprintf(why, LOOKS_WHY_BYTES, "U+%04X at character %u is %s", (unsigned)code,
                           number,
                           is_control(code) ? "a control character"
                                            : "invisible, or changes how others are shown");
            return true;
        }
    }
    return false;
}

/* Alphabets with letters that look the same. */
enum alphabet { NONE, LATIN, GREEK, CYRILLIC };

static enum alphabet script_of(uint32_t code)
{
    uint32_t upper = code & ~0x20U;

    if ((upper >= 'A' && upper <= 'Z') || (code >= 0xc0 && code <= 0x24f) ||
        (code >= 0x1e00 && code <= 0x1eff)) {
        return LATIN;
    }
    if ((code >= 0x370 && code <= 0x3ff) || (code >= 0x1f00 && code <= 0x1fff)) {
        return GREEK;
    }
    return code >= 0x400 && code <= 0x52f ? CYRILLIC : NONE;
}

bool looks_like_another(const char *text, size_t len, char why[LOOKS_WHY_BYTES])
{
    enum alphabet before = NONE;
    unsigned number = 0;

    if (len > 0 && (text[0] == ' ' || text[len - 1] == ' ')) {
        (void)snprintf(why, LOOKS_WHY_BYTES, "a blank at its %s", text[0] == ' ' ? "front" : "end");
        return true;
    }
    for (size_t i = 0; i < len;) {
        uint32_t code = ' ';
        size_t step = utf8_step(text + i, len - i, &code);
        enum alphabet own = script_of(code);
        const char *what = NULL;

        number++;
        if (step > 0 && IS_IN(code, BLANKS)) {
            what = "looks like a blank";
        } else if (step > 0 && IS_IN(code, MARKS)) {
            what = "is mostly written as one with what is before it (NFC)";
        } else if (step > 0 && IS_IN(code, FORMS)) {
            what = "is another form of a common character (NFKC)";
        } else if (step > 0 && own != NONE && before != NONE && own != before) {
            what = "is of another alphabet than the letter before it";
        }
        if (what != NULL) {
            (void)snprintf(why, LOOKS_WHY_BYTES, "U+%04X at character %u %s", (unsigned)code,
                           number, what);
            return true;
        }
        before = own;
        i += step > 0 ? step : 1;
    }
    return false;
}
