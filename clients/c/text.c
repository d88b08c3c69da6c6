/* See text.h. */
#include "text.h"

#include "fault.h"

#include <string.h>
#include <sys/random.h>

/* The bytes of the character that begins there, 0 if it is none: UTF-8 in its shortest form,
 * without surrogates, up to U+10FFFF. */
static size_t character_bytes(const unsigned char *at)
{
    static const struct {
        unsigned char mask, lead;
        uint32_t least;
    } forms[] = {{0x80, 0x00, 0}, {0xe0, 0xc0, 0x80}, {0xf0, 0xe0, 0x800}, {0xf8, 0xf0, 0x10000}};
    for (size_t form = 0; form < 4; form++) {
        if ((at[0] & forms[form].mask) != forms[form].lead) {
            continue;
        }
        uint32_t code = at[0] & (uint32_t)(unsigned char)~forms[form].mask;
        for (size_t i = 1; i <= form; i++) {
            if ((at[i] & 0xc0) != 0x80) {
                return 0;
            }
            code = code << 6 | (at[i] & 0x3fu);
        }
        bool surrogate = code >= 0xd800 && code <= 0xdfff;
        return code < forms[form].least || code > 0x10ffff || surrogate ? 0 : form + 1;
    }
    return 0;
}

/* C0, DEL and C1, as the server counts them. */
static bool is_control(const unsigned char *at)
{
    return at[0] < 0x20 || at[0] == 0x7f || (at[0] == 0xc2 && at[1] < 0xa0);
}

void text_make_plain(char *text)
{
    unsigned char *at = (unsigned char *)text;
    while (*at != 0) {
        size_t step = character_bytes(at);
        if (step == 0 || is_control(at)) {
            *at = '?';
            step = 1;
        }
        at += step;
    }
}

bool text_is_name(const char *text)
{
    size_t bytes = strnlen(text, TEXT_NAME_BYTES + 1);
    if (bytes == 0 || bytes > TEXT_NAME_BYTES) {
        return false;
    }
    const unsigned char *at = (const unsigned char *)text;
    while (*at != 0) {
        size_t step = character_bytes(at);
        if (step == 0 || is_control(at)) {
            return false;
        }
        at += step;
    }
    return true;
}

bool text_is_visible(const char *text, size_t max_chars)
{
    size_t length = strnlen(text, max_chars + 1);
    for (size_t i = 0; i < length; i++) {
        if (text[i] <= ' ' || text[i] > '~') {
            return false;
        }
    }
    return length > 0 && length <= max_chars;
}

int text_check_key(const char *key, struct leafd_error *error)
{
    if (key != NULL && !text_is_visible(key, TEXT_KEY_CHARS)) {
        return fault(error, "bad_setting", 0, false,
                     "key=\"%.200s\" must be 1 to %d visible ASCII characters", key,
                     TEXT_KEY_CHARS);
    }
    return 0;
}

void text_encode(const char *name, char *into)
{
    static const char plain[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";
    static const char digits[] = "0123456789ABCDEF";
    for (; *name != 0; name++) {
        unsigned char byte = (unsigned char)*name;
        if (strchr(plain, byte) != NULL) {
            *into++ = (char)byte;
        } else {
            *into++ = '%';
            *into++ = digits[byte >> 4];
            *into++ = digits[byte & 15];
        }
    }
    *into = 0;
}

/* Digits up to the first other byte: their number, 19 of them at most, or -1. */
static int64_t read_digits(const char **at, const char *end)
{
    uint64_t value = 0;
    const char *from = *at;
    while (*at < end && **at >= '0' && **at <= '9' && *at - from < 20) {
        value = value * 10 + (uint64_t)(**at - '0');
        (*at)++;
    }
    bool fits = *at - from >= 1 && *at - from <= 19 && value <= INT64_MAX;
    return fits ? (int64_t)value : -1;
}

bool text_to_number(const char *text, uint64_t min, uint64_t max, uint64_t *number)
{
    const char *at = text;
    int64_t value = read_digits(&at, text + strnlen(text, 21));
    if (value < 0 || *at != 0 || (uint64_t)value < min || (uint64_t)value > max) {
        return false;
    }
    *number = (uint64_t)value;
    return true;
}

void text_make_key(char into[static TEXT_OWN_KEY_CHARS + 1])
{
    static const char digits[] = "abcdefghijklmnopqrstuvwxyz234567";
    unsigned char bytes[TEXT_OWN_KEY_CHARS];
    /* Up to 256 bytes come whole, once the system has started. */
    while (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes) {
    }
    for (size_t i = 0; i < TEXT_OWN_KEY_CHARS; i++) {
        into[i] = digits[bytes[i] & 31];
    }
    into[TEXT_OWN_KEY_CHARS] = 0;
}

/* "first last\n", or "first last increment\n". */
static bool read_line(const char **at, const char *end, bool stepped, struct leafd_series *range)
{
    int64_t *const numbers[] = {&range->first, &range->last, &range->increment};
    size_t count = stepped ? 3 : 2;
    range->increment = 1;
    for (size_t i = 0; i < count; i++) {
        const char *from = *at;
        *numbers[i] = read_digits(at, end);
        if (*numbers[i] < 0 || (*from == '0' && *at - from > 1) || *at == end ||
            *(*at)++ != (i + 1 < count ? ' ' : '\n')) {
            return false;
        }
    }
    return true;
}

uint64_t text_ids_of(const struct leafd_series *range)
{
    return (uint64_t)(range->last - range->first) / (uint64_t)range->increment + 1;
}

int text_read_ranges(const char *body, size_t body_bytes, uint32_t count, bool stepped,
                     struct leafd_series *into, const char **why)
{
    const char *at = body;
    const char *end = body + body_bytes;
    uint64_t left = count;
    int64_t before = -1;
    int found = 0;
    while (at < end) {
        if (found == TEXT_RANGES_MAX) {
            *why = "more than 64 ranges";
            return -1;
        }
        struct leafd_series range;
        if (!read_line(&at, end, stepped, &range)) {
            *why = "a line that is no range of ids";
            return -1;
        }
        if (range.first > range.last || range.first <= before) {
            *why = "ranges that do not rise";
            return -1;
        }
        if (range.increment < 1 || (range.last - range.first) % range.increment != 0) {
            *why = "an increment that does not lead from the first id to the last";
            return -1;
        }
        uint64_t size = text_ids_of(&range);
        if (size > left) {
            *why = "more ids than were asked for";
            return -1;
        }
        left -= size;
        before = range.last;
        into[found++] = range;
    }
    *why = left > 0 ? "fewer ids than were asked for" : NULL;
    return left > 0 ? -1 : found;
}

bool text_read_lines(const char *body, size_t body_bytes, uint32_t count,
                     char (*into)[LEAFD_TEXT_BYTES], const char **why)
{
    const char *at = body;
    const char *end = body + body_bytes;
    uint32_t found = 0;
    while (at < end) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        size_t bytes = stop != NULL ? (size_t)(stop - at) : LEAFD_TEXT_BYTES;
        if (found == count) {
            *why = "more ids than were asked for";
            return false;
        }
        if (bytes >= LEAFD_TEXT_BYTES) {
            *why = "a line that is too long, or has no end";
            return false;
        }
        memcpy(into[found], at, bytes);
        into[found][bytes] = 0;
        /* One with a 0 in it is shorter than its line. */
        if (!text_is_visible(into[found], LEAFD_TEXT_BYTES - 1) || strlen(into[found]) != bytes) {
            *why = "a line that is no id";
            return false;
        }
        found++;
        at = stop + 1;
    }
    *why = "fewer ids than were asked for";
    return found == count;
}
