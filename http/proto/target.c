/*
 * target.c - see target.h. Thread: pure functions, any.
 */
#include "http/proto/target.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "http/proto/text.h"
#include "src/base/hot.h"

/* Length of "scheme://authority" in an absolute-form target, 0 if it is none. */
static size_t authority_end(const char *raw, size_t len)
{
    static const char *const schemes[] = {"http://", "https://"};

    for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++) {
        size_t at = strlen(schemes[i]);

        if (len > at && strncasecmp(raw, schemes[i], at) == 0) {
            while (at < len && raw[at] != '/' && raw[at] != '?') {
                at++;
            }
            return at;
        }
    }
    return 0;
}

HOT int target_split(const char *raw, size_t len, struct target *ret_target)
{
    size_t start = len > 0 && raw[0] == '/' ? 0 : authority_end(raw, len);
    const char *mark;

    if (len == 0 || (start == 0 && raw[0] != '/') || memchr(raw, '#', len) != NULL) {
        return ERR_INVALID;
    }
    raw += start;
    len -= start;
    mark = memchr(raw, '?', len);
    *ret_target = (struct target){.path = raw, .path_len = len};
    if (mark != NULL) {
        ret_target->path_len = (size_t)(mark - raw);
        ret_target->query = mark + 1;
        ret_target->query_len = len - ret_target->path_len - 1;
    }
    return 0;
}

/* How many bytes in front stand for themselves. */
HOT static size_t literal_len(const char *text, size_t len, enum target_plus plus)
{
    size_t i = 0;

    while (i < len && text[i] != '%' && (text[i] != '+' || plus == TARGET_PLUS_IS_PLUS)) {
        i++;
    }
    return i;
}

HOT int target_decode(const char *text, size_t len, enum target_plus plus, char *out, size_t size,
                      size_t *ret_len)
{
    /* As a rule that is all of it. */
    size_t at = literal_len(text, len, plus);

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

static struct option *option_find(struct option *options, size_t count, const char *name,
                                  size_t len)
{
    for (size_t i = 0; i < count; i++) {
        if (strlen(options[i].name) == len && memcmp(options[i].name, name, len) == 0) {
            return &options[i];
        }
    }
    return NULL;
}

/* What options_parse() reads. */
struct query {
    struct option *options;
    size_t count;
    enum options_others others;
    bool plain;  /* nothing in it is encoded: pieces are taken where they stand */
    char *space; /* for what is decoded; moves on behind values */
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
    struct option *option;
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
    option = option_find(query->options, query->count, name, name_len);
    if (option == NULL && query->others == OPTIONS_OTHERS_IGNORED) {
        return 0;
    }
    if (option == NULL || option->present) {
        snprintf(query->why, OPTION_WHY_BYTES, "%s query option %s",
                 option == NULL ? "unknown" : "repeated",
                 text_show(name, name_len, shown, sizeof(shown)));
        return ERR_INVALID;
    }
    if (piece_read(query, value, value_len, &option->value, &option->len) != 0) {
        snprintf(query->why, OPTION_WHY_BYTES, "bad percent encoding in the value of %s: %s",
                 option->name, text_show(value, value_len, shown, sizeof(shown)));
        return ERR_INVALID;
    }
    option->present = true;
    query->space += option->len;
    return 0;
}

int options_parse(const char *query, size_t query_len, enum options_others others,
                  struct option *options, size_t count, char *space, char *ret_why)
{
    const char *end = query + query_len;
    struct query reading = {options, count, others, false, space, ret_why};

    for (size_t i = 0; i < count; i++) {
        options[i].present = false;
        options[i].value = "";
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
