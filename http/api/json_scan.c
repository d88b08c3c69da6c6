/*
 * json_scan.c - see json_scan.h. Thread: pure functions, any.
 */
#include "http/api/json_scan.h"

#include <stdbool.h>
#include <string.h>

#include "src/base/assert.h"
#include "src/base/limits.h"

#define TEXT(number) TEXT_(number)
#define TEXT_(number) #number

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

size_t json_skip_space(const char *text, size_t len, size_t at)
{
    while (at < len && is_space(text[at])) {
        at++;
    }
    return at;
}

/* Behind the string whose first quote is at `at`; len if it has no second one. */
static size_t string_end(const char *text, size_t len, size_t at)
{
    for (at++; at < len && text[at] != '"'; at++) {
        if (text[at] == '\\') {
            at++;
        }
    }
    return at < len ? at + 1 : len;
}

/* Behind a number or a word, or one byte that begins nothing. */
static size_t word_end(const char *text, size_t len, size_t at)
{
    do {
        at++;
    } while (at < len && !is_space(text[at]) && strchr(",:]}[{\"", text[at]) == NULL);
    return at;
}

/* Behind the object or array at `at`, in a text that is no longer than it may be. */
static size_t tree_end(const char *text, size_t len, size_t at, const char **ret_why)
{
    unsigned values = 0;
    unsigned depth = 0;

    while (at < len) {
        char c = text[at];

        if (c == '"') {
            at = string_end(text, len, at);
            continue;
        }
        at++;
        values += c == '[' || c == '{' || c == ',';
        depth += c == '[' || c == '{';
        if (depth > LIMIT_JSON_DEPTH) {
            *ret_why = "is nested in more than " TEXT(LIMIT_JSON_DEPTH) " levels";
            return 0;
        }
        if (values > LIMIT_JSON_VALUES) {
            *ret_why = "has more than " TEXT(LIMIT_JSON_VALUES) " values";
            return 0;
        }
        if ((c == ']' || c == '}') && --depth == 0) {
            return at;
        }
    }
    return len;
}

size_t json_end(const char *text, size_t len, size_t at, const char **ret_why)
{
    size_t bound = len - at > LIMIT_JSON_BYTES ? at + LIMIT_JSON_BYTES + 1 : len;
    size_t end;

    ASSERT(at < len && !is_space(text[at]));
    if (text[at] == '[' || text[at] == '{') {
        end = tree_end(text, bound, at, ret_why);
    } else if (text[at] == '"') {
        end = string_end(text, bound, at);
    } else {
        end = word_end(text, bound, at);
    }
    if (end > at + LIMIT_JSON_BYTES) {
        *ret_why = "is longer than " TEXT(LIMIT_JSON_BYTES) " bytes";
        return 0;
    }
    return end;
}
