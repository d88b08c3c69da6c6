/*
 * show.c - what a failed assertion of cmocka says, so that a person can read it: the line of the
 * test, numbers as numbers, error codes by name, strings and bytes as text from where they differ.
 *
 * cmocka itself prints integers in hexadecimal (ERR_IO is 0xfffffffffffffff2), strings as they are,
 * and of bytes each that differs. The linker puts these functions in the place of its own (--wrap,
 * see tests.mk), so every test has them and none needs to know.
 *
 * Failure modes: a source file that is not there (a binary that is run from elsewhere): its line is
 * left out.
 *
 * Thread: the test's.
 */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "src/tests/unit/test.h"
#include "src/base/err.h"

#define NUMBER_BYTES 80
#define LINE_BYTES 512
#define STATEMENT_LINES 8 /* of the source, at most */
#define BEFORE 40         /* bytes that are shown in front of the first difference */
#define SHOWN 160         /* bytes that are shown at all */
#define HEX_FROM 65536    /* numbers from here on are shown in hexadecimal, too */

typedef LargestIntegralType number;

void __wrap__assert_int_equal(number a, number b, const char *file, int line);
void __wrap__assert_int_not_equal(number a, number b, const char *file, int line);
void __wrap__assert_in_range(number value, number min, number max, const char *file, int line);
void __wrap__assert_string_equal(const char *a, const char *b, const char *file, int line);
void __wrap__assert_memory_equal(const void *a, const void *b, size_t size, const char *file,
                                 int line);

/* The statement of the test that begins in this line. */
static void show_source(const char *file, int line)
{
    FILE *source = fopen(file, "re");
    char text[LINE_BYTES];
    bool over = source == NULL;

    for (int at = 1; !over && at < line + STATEMENT_LINES; at++) {
        over = fgets(text, sizeof(text), source) == NULL;
        if (!over && at >= line) {
            print_error("%s", text);
            over = strchr(text, ';') != NULL;
        }
    }
    if (source != NULL) {
        (void)fclose(source);
    }
}

static const char *error_name(int64_t value)
{
    switch (value) {
#define X(name, number, code, text)                                                                \
    case number:                                                                                   \
        return "ERR_" #name;
        ERR_LIST(X)
#undef X
    default:
        return NULL;
    }
}

static const char *show_number(number value, char out[NUMBER_BYTES])
{
    int64_t with_sign = (int64_t)value;
    const char *name = error_name(with_sign);

    if (name != NULL) {
        (void)snprintf(out, NUMBER_BYTES, "%lld (%s)", (long long)with_sign, name);
    } else if (with_sign < 0) {
        (void)snprintf(out, NUMBER_BYTES, "%lld (%llu, 0x%llx)", (long long)with_sign,
                       (unsigned long long)value, (unsigned long long)value);
    } else if (value >= HEX_FROM) {
        (void)snprintf(out, NUMBER_BYTES, "%llu (0x%llx)", (unsigned long long)value,
                       (unsigned long long)value);
    } else {
        (void)snprintf(out, NUMBER_BYTES, "%llu", (unsigned long long)value);
    }
    return out;
}

void __wrap__assert_int_equal(number a, number b, const char *file, int line)
{
    char shown_a[NUMBER_BYTES];
    char shown_b[NUMBER_BYTES];

    if (a != b) {
        show_source(file, line);
        print_error("%s != %s\n", show_number(a, shown_a), show_number(b, shown_b));
        _fail(file, line);
    }
}

void __wrap__assert_int_not_equal(number a, number b, const char *file, int line)
{
    char shown[NUMBER_BYTES];

    if (a == b) {
        show_source(file, line);
        print_error("both are %s\n", show_number(a, shown));
        _fail(file, line);
    }
}

void __wrap__assert_in_range(number value, number min, number max, const char *file, int line)
{
    char shown[NUMBER_BYTES];
    char shown_min[NUMBER_BYTES];
    char shown_max[NUMBER_BYTES];

    if (value < min || value > max) {
        show_source(file, line);
        print_error("%s is not from %s to %s\n", show_number(value, shown),
                    show_number(min, shown_min), show_number(max, shown_max));
        _fail(file, line);
    }
}

/* A byte as it is written in a string of C. */
static size_t put_byte(unsigned char byte, char out[5])
{
    static const char names[][2] = {
        {'\n', 'n'}, {'\r', 'r'}, {'\t', 't'}, {'"', '"'}, {'\\', '\\'}};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (byte == (unsigned char)names[i][0]) {
            out[0] = '\\';
            out[1] = names[i][1];
            return 2;
        }
    }
    if (byte >= ' ' && byte < 0x7f) {
        out[0] = (char)byte;
        return 1;
    }
    (void)snprintf(out, 5, "\\x%02x", byte);
    return 4;
}

static void show_text(const unsigned char *data, size_t len)
{
    char text[4 * SHOWN + 2];
    size_t at = 0;

    for (size_t i = 0; i < len; i++) {
        at += put_byte(data[i], text + at);
    }
    print_error("\"%.*s\"", (int)at, text);
}

/* One of two byte strings, from a little before the place where they differ. */
static void show_around(const unsigned char *data, size_t len, size_t at)
{
    size_t from = at > BEFORE ? at - BEFORE : 0;
    size_t to = len - from > SHOWN ? from + SHOWN : len;

    print_error("  %s", from > 0 ? "... " : "");
    show_text(data + from, to - from);
    print_error("%s\n", to < len ? " ..." : "");
}

static void show_hex(const unsigned char *data, size_t len, size_t at)
{
    print_error(" ");
    for (size_t i = at; i < len && i < at + 16; i++) {
        print_error(" %02x", data[i]);
    }
    print_error("%s\n", len > at + 16 ? " ..." : "");
}

static size_t first_difference(const unsigned char *a, const unsigned char *b, size_t len)
{
    size_t at = 0;

    while (at < len && a[at] == b[at]) {
        at++;
    }
    return at;
}

void __wrap__assert_string_equal(const char *a, const char *b, const char *file, int line)
{
    size_t a_len = a != NULL ? strlen(a) : 0;
    size_t b_len = b != NULL ? strlen(b) : 0;
    const unsigned char *a_data = (const unsigned char *)a;
    const unsigned char *b_data = (const unsigned char *)b;
    size_t at;

    if (a != NULL && b != NULL && strcmp(a, b) == 0) {
        return;
    }
    show_source(file, line);
    if (a == NULL || b == NULL) {
        print_error("a string is NULL: %s, %s\n", a != NULL ? a : "NULL", b != NULL ? b : "NULL");
        _fail(file, line);
        return;
    }
    at = first_difference(a_data, b_data, a_len < b_len ? a_len : b_len);
    print_error("strings of %zu and %zu bytes differ at %zu:\n", a_len, b_len, at);
    show_around(a_data, a_len, at);
    show_around(b_data, b_len, at);
    _fail(file, line);
}

void __wrap__assert_memory_equal(const void *a, const void *b, size_t size, const char *file,
                                 int line)
{
    const unsigned char *a_data = a;
    const unsigned char *b_data = b;
    size_t at = first_difference(a_data, b_data, size);
    size_t count = 0;

    if (at == size) {
        return;
    }
    for (size_t i = at; i < size; i++) {
        count += a_data[i] != b_data[i];
    }
    show_source(file, line);
    print_error("%zu of %zu bytes differ, the first is at %zu:\n", count, size, at);
    show_around(a_data, size, at);
    show_around(b_data, size, at);
    print_error("from there on:\n");
    show_hex(a_data, size, at);
    show_hex(b_data, size, at);
    _fail(file, line);
}
