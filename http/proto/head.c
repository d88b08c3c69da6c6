/*
 * head.c - see head.h. Thread: pure functions, any.
 */
#include "http/proto/head.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "http/proto/text.h"
#include "src/base/container.h"
#include "src/base/hot.h"

/* --- the target --- */

HOT int target_split(const char *raw, size_t len, struct target *ret_target)
{
    static const char *const schemes[] = {"http://", "https://"};
    const char *authority = NULL;
    size_t authority_len = 0;
    const char *mark;

    for (size_t i = 0; i < COUNT_OF(schemes) && len > 0 && raw[0] != '/'; i++) {
        size_t skip = strlen(schemes[i]);

        if (len > skip && strncasecmp(raw, schemes[i], skip) == 0) {
            authority = raw + skip;
            while (skip + authority_len < len && authority[authority_len] != '/' &&
                   authority[authority_len] != '?') {
                authority_len++;
            }
            raw = authority + authority_len;
            len -= skip + authority_len;
            break;
        }
    }
    if ((authority == NULL && (len == 0 || raw[0] != '/')) || memchr(raw, '#', len) != NULL) {
        return ERR_INVALID;
    }
    mark = memchr(raw, '?', len);
    *ret_target = (struct target){
        .authority = authority, .authority_len = authority_len, .path = raw, .path_len = len};
    if (mark != NULL) {
        ret_target->path_len = (size_t)(mark - raw);
        ret_target->query = mark + 1;
        ret_target->query_len = len - ret_target->path_len - 1;
    }
    return 0;
}

HOT int target_decode(const char *text, size_t len, enum target_plus plus, char *out, size_t size,
                      size_t *ret_len)
{
    size_t at = 0;

    /* The unencoded bytes, usually all. */
    while (at < len && text[at] != '%' && (text[at] != '+' || plus == TARGET_PLUS_IS_PLUS)) {
        at++;
    }
    if (at > size) {
        return ERR_TOO_LARGE;
    }
    memcpy(out, text, at);
    for (size_t i = at; i < len; i++) {
        char c = text[i];

        if (c == '%') {
            int high = i + 2 < len ? text_hex_digit(text[i + 1]) : -1;
            int low = i + 2 < len ? text_hex_digit(text[i + 2]) : -1;

            if (high < 0 || low < 0) {
                return ERR_INVALID;
            }
            c = (char)(high << 4 | low);
            i += 2;
        } else if (c == '+' && plus == TARGET_PLUS_IS_SPACE) {
            c = ' ';
        }
        if (at == size) {
            return ERR_TOO_LARGE;
        }
        out[at++] = c;
    }
    *ret_len = at;
    return 0;
}

/* The query of options_parse(). */
struct query {
    struct param *options;
    size_t count;
    enum options_others others;
    bool plain;  /* nothing in it is encoded: pieces point into it */
    char *space; /* for decoded pieces; moves on after values */
    char *why;
};

/* A name or a value, decoded. */
HOT static int piece_read(const struct query *query, const char *text, size_t len,
                          const char **ret_piece, size_t *ret_len)
{
    if (query->plain) {
        *ret_piece = text;
        *ret_len = len;
        return 0;
    }
    *ret_piece = query->space;
    return target_decode(text, len, TARGET_PLUS_IS_SPACE, query->space, len, ret_len);
}

/* Take one "name=value". */
static int option_take(struct query *query, const char *pair, size_t len)
{
    const char *equals = memchr(pair, '=', len);
    size_t name_len = equals != NULL ? (size_t)(equals - pair) : len;
    const char *value = equals != NULL ? equals + 1 : pair + len;
    size_t value_len = (size_t)(pair + len - value);
    struct param *option = NULL;
    const char *name;
    char shown[80];

    if (piece_read(query, pair, name_len, &name, &name_len) != 0) {
        if (query->others == OPTIONS_OTHERS_IGNORED) {
            return 0;
        }
        snprintf(query->why, OPTION_WHY_BYTES, "bad percent encoding in the query option %s",
                 text_show(pair, len, shown, sizeof(shown)));
        return ERR_INVALID;
    }
    for (size_t i = 0; i < query->count && option == NULL; i++) {
        if (strlen(query->options[i].name) == name_len &&
            memcmp(query->options[i].name, name, name_len) == 0) {
            option = &query->options[i];
        }
    }
    if (option == NULL && query->others == OPTIONS_OTHERS_IGNORED) {
        return 0;
    }
    if (option == NULL || option->present) {
        snprintf(query->why, OPTION_WHY_BYTES, "%s query option %s",
                 option == NULL ? "unknown" : "repeated",
                 text_show(name, name_len, shown, sizeof(shown)));
        return ERR_INVALID;
    }
    if (piece_read(query, value, value_len, &option->text, &option->len) != 0) {
        snprintf(query->why, OPTION_WHY_BYTES, "bad percent encoding in the value of %s: %s",
                 option->name, text_show(value, value_len, shown, sizeof(shown)));
        return ERR_INVALID;
    }
    option->present = true;
    query->space += option->len;
    return 0;
}

int options_parse(const char *query, size_t query_len, enum options_others others,
                  struct param *options, size_t count, char *space, char *ret_why)
{
    const char *end = query + query_len;
    struct query reading = {options, count, others, false, space, ret_why};

    for (size_t i = 0; i < count; i++) {
        options[i].present = false;
        options[i].text = "";
        options[i].len = 0;
    }
    if (query_len == 0) {
        return 0;
    }
    reading.plain = memchr(query, '%', query_len) == NULL && memchr(query, '+', query_len) == NULL;
    for (const char *at = query; at <= end;) {
        const char *next = at < end ? memchr(at, '&', (size_t)(end - at)) : NULL;
        size_t len = (size_t)((next != NULL ? next : end) - at);
        int rv = option_take(&reading, at, len);

        if (rv != 0) {
            return rv;
        }
        if (next == NULL) {
            break;
        }
        at = next + 1;
    }
    return 0;
}

/* --- headers --- */

#define QUALITY_ALL 1000 /* a weight of 1, in thousandths */

/* One of the ranges of an Accept header. */
struct range {
    const char *type;
    size_t type_len;
    int quality;        /* 0: not wanted */
    bool other_version; /* than 1.0.0 */
};

/* "0.75" in thousandths; 0: also what is no weight. */
static int quality_of(const char *text, size_t len)
{
    int value = len > 0 ? text[0] - '0' : 0;

    if (len == 0 || len > 5 || (text[0] != '0' && text[0] != '1') || (len > 1 && text[1] != '.')) {
        return 0;
    }
    for (size_t i = 2; i < 5; i++) {
        if (i < len && (text[i] < '0' || text[i] > '9')) {
            return 0;
        }
        value = value * 10 + (i < len ? text[i] - '0' : 0);
    }
    return value <= QUALITY_ALL ? value : 0;
}

/* The next range of the header; false at its end. Quoted strings, in which separators would not
 * count, do not occur in it. */
static bool next_range(const char **accept, const char *end, struct range *ret_range)
{
    const char *text;
    const char *part;
    size_t len;

    *ret_range = (struct range){.quality = QUALITY_ALL};
    if (!text_next(accept, end, ',', &text, &len)) {
        return false;
    }
    end = text + len;
    if (!text_next(&text, end, ';', &ret_range->type, &ret_range->type_len)) {
        ret_range->quality = 0;
    }
    while (text_next(&text, end, ';', &part, &len)) {
        if (len >= 2 && strncasecmp(part, "q=", 2) == 0) {
            ret_range->quality = quality_of(part + 2, len - 2);
        } else if (len >= 8 && strncasecmp(part, "version=", 8) == 0) {
            ret_range->other_version = !text_is(part + 8, len - 8, "1.0.0");
        }
    }
    return true;
}

bool header_wants_json(const char *accept, size_t len)
{
    const char *end = accept + len;
    bool names_json = false;
    struct range range;

    while (next_range(&accept, end, &range)) {
        if (range.quality > 0 && (text_is(range.type, range.type_len, "text/plain") ||
                                  text_is(range.type, range.type_len, "text/*") ||
                                  text_is(range.type, range.type_len, "*/*"))) {
            return false;
        }
        names_json |= range.quality > 0 && text_is(range.type, range.type_len, "application/json");
    }
    return names_json;
}

bool header_wants_openmetrics(const char *accept, size_t len)
{
    const char *end = accept + len;
    struct range range;
    int open = 0;
    int plain = 0;

    while (next_range(&accept, end, &range)) {
        if (text_is(range.type, range.type_len, "application/openmetrics-text")) {
            open = !range.other_version && range.quality > open ? range.quality : open;
        } else if (text_is(range.type, range.type_len, "text/plain")) {
            plain = range.quality > plain ? range.quality : plain;
        }
    }
    return open > 0 && open >= plain;
}

/* Are these `count` digits? Without `zeros` not all may be 0. */
static bool are_hex(const char *text, size_t count, bool zeros)
{
    bool is_zero = true;

    for (size_t i = 0; i < count; i++) {
        if ((text[i] < '0' || text[i] > '9') && (text[i] < 'a' || text[i] > 'f')) {
            return false;
        }
        is_zero = is_zero && text[i] == '0';
    }
    return zeros || !is_zero;
}

/* version "-" trace-id "-" parent-id "-" flags; later versions may add "-" and more. */
bool header_trace(const char *traceparent, size_t len, char ret_trace[HEADER_TRACE_BYTES])
{
    enum { VERSION = 0, TRACE = 3, PARENT = 36, FLAGS = 53, END = 55 };
    const char *text = traceparent;
    bool is_first = len >= END && memcmp(text, "00", 2) == 0;

    if (len < END || text[TRACE - 1] != '-' || text[PARENT - 1] != '-' || text[FLAGS - 1] != '-' ||
        !are_hex(text + VERSION, 2, true) || memcmp(text, "ff", 2) == 0 ||
        !are_hex(text + TRACE, 32, false) || !are_hex(text + PARENT, 16, false) ||
        !are_hex(text + FLAGS, 2, true) ||
        (is_first ? len != END : len > END && text[END] != '-')) {
        return false;
    }
    memcpy(ret_trace, text + TRACE, HEADER_TRACE_BYTES - 1);
    ret_trace[HEADER_TRACE_BYTES - 1] = '\0';
    return true;
}
