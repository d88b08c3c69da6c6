/*
 * shape.c - see shape.h.
 */
#include "src/id/codec/shape.h"

#include <string.h>
#include <time.h>

#include "src/base/assert.h"

#define DAY_MS 86400000ULL
#define YEAR_MAX 9999
#define MOD97_DIGITS 2
#define PART_KEY (DATE_DAY + 1) /* {key}, in the first text like a part of a date */

static const char DIGITS[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
static const char CROCKFORD[] = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
static const char ZONE_CHARS[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789/_-+";

static const struct {
    const char *name;
    size_t digits;
    unsigned below; /* 10^digits */
} PARTS[] = {
    [DATE_YEAR] = {"{year", 4, 10000},
    [DATE_MONTH] = {"{month", 2, 100},
    [DATE_DAY] = {"{day", 2, 100},
    [PART_KEY] = {"{key", 1, SHAPE_KEYS_MAX},
};

/* --- reading a shape --- */

/* The reader's position. */
struct cursor {
    const char *at;
    const char *end;
};

static int shape_refuse(const char **ret_why, const char *why)
{
    *ret_why = why;
    return ERR_INVALID;
}

static bool cursor_take(struct cursor *cursor, const char *text)
{
    size_t len = strlen(text);

    if ((size_t)(cursor->end - cursor->at) < len || memcmp(cursor->at, text, len) != 0) {
        return false;
    }
    cursor->at += len;
    return true;
}

/* A decimal number of one or two digits, without a zero in front. */
static bool cursor_take_number(struct cursor *cursor, unsigned *ret_number)
{
    const char *from = cursor->at;
    unsigned number = 0;

    while (cursor->at < cursor->end && *cursor->at >= '0' && *cursor->at <= '9' &&
           cursor->at - from < 2) {
        number = number * 10 + (unsigned)(*cursor->at++ - '0');
    }
    *ret_number = number;
    return cursor->at > from && *from != '0';
}

static int take_text(struct cursor *cursor, struct shape *shape, unsigned which,
                     const char **ret_why)
{
    size_t len = shape->text_len[which];

    while (cursor->at < cursor->end && *cursor->at != '{') {
        char c = *cursor->at++;

        if (c <= ' ' || c > '~' || c == '}' || c == '"' || c == '\\') {
            return shape_refuse(ret_why,
                                "a shape has printable ASCII without space, \" and \\, and "
                                "braces around {id}, {secret}, {luhn} and {mod97} alone");
        }
        if (len == SHAPE_TEXT_BYTES_MAX) {
            return shape_refuse(ret_why, "a text of a shape is longer than 32 characters");
        }
        shape->text[which][len++] = c;
    }
    shape->text_len[which] = (uint8_t)len;
    return 0;
}

/* No name has a dot, begins with a slash or has two in a row: it is no path out of the database. */
static int take_zone(struct cursor *cursor, char *zone, const char **ret_why)
{
    size_t len = 0;

    while (cursor->at < cursor->end && *cursor->at != '\0' &&
           strchr(ZONE_CHARS, *cursor->at) != NULL && len < SHAPE_ZONE_BYTES_MAX &&
           (*cursor->at != '/' || (len > 0 && zone[len - 1] != '/'))) {
        zone[len++] = *cursor->at++;
    }
    zone[len] = '\0';
    if (len == 0 || zone[len - 1] == '/') {
        return shape_refuse(ret_why,
                            "a zone is a name of the time zone database: {year@Europe/Berlin}");
    }
    return 0;
}

/* Take {year} and so on, or {key}. 1: taken; 0: it is none of these. */
static int take_part(struct cursor *cursor, struct shape *shape, const char **ret_why)
{
    size_t left = (size_t)(cursor->end - cursor->at);
    unsigned part = DATE_YEAR;
    size_t len = 0;

    for (; part <= PART_KEY; part++) {
        len = strlen(PARTS[part].name);
        if (left > len && memcmp(cursor->at, PARTS[part].name, len) == 0 &&
            (cursor->at[len] == '}' || (cursor->at[len] == '@' && part != PART_KEY))) {
            break;
        }
    }
    if (part > PART_KEY) {
        return 0;
    }
    cursor->at += len;
    if (part == PART_KEY && shape->has_key) {
        return shape_refuse(ret_why, "{key} stands twice in the shape");
    }
    if (cursor_take(cursor, "@")) {
        if (shape->date.unit != DATE_NONE) {
            return shape_refuse(ret_why, "the first part of a date names the zone of all");
        }
        if (take_zone(cursor, shape->date.zone, ret_why) != 0) {
            return ERR_INVALID;
        }
    }
    if (!cursor_take(cursor, "}")) {
        return shape_refuse(ret_why,
                            "a part of a date is {year}, {month} or {day}; the first may name a "
                            "zone of up to 40 characters: {year@Europe/Berlin}");
    }
    if (memchr(shape->part, (int)part, shape->part_count) != NULL) {
        return shape_refuse(ret_why, "a part of a date stands twice");
    }
    ASSERT(shape->part_count < SHAPE_PARTS);
    shape->part[shape->part_count] = (uint8_t)part;
    shape->part_at[shape->part_count++] = shape->text_len[0];
    if (part == PART_KEY) {
        shape->has_key = true;
    } else if (part > shape->date.unit) {
        shape->date.unit = (uint8_t)part;
    }
    return 1;
}

/* The length of an id's text before the number. */
static size_t first_bytes(const struct shape *shape)
{
    size_t bytes = shape->text_len[0];

    for (unsigned i = 0; i < shape->part_count; i++) {
        bytes += PARTS[shape->part[i]].digits;
    }
    return bytes;
}

/* Take the first text, with or without a date or {key}. */
static int take_first_text(struct cursor *cursor, struct shape *shape, const char **ret_why)
{
    int taken;

    do {
        if (take_text(cursor, shape, 0, ret_why) != 0) {
            return ERR_INVALID;
        }
        taken = take_part(cursor, shape, ret_why);
    } while (taken == 1);
    if (taken != 0) {
        return ERR_INVALID;
    }
    if (first_bytes(shape) > SHAPE_TEXT_BYTES_MAX) {
        return shape_refuse(ret_why, "a text of a shape is longer than 32 characters");
    }
    /* Each part but the year belongs to a larger one, and none occurs twice. */
    return shape->part_count - shape->has_key == shape->date.unit
               ? 0
               : shape_refuse(ret_why,
                              "a date has {year}, or {year} and {month}, or {day} as well");
}

/* Numbers of periods, or of keys, are below this: 10^4, 10^6 or 10^8, or 10; 1 without either. */
static uint64_t periods_of(const struct shape *shape)
{
    uint64_t periods = 1;

    for (unsigned i = 0; i < shape->part_count; i++) {
        periods *= PARTS[shape->part[i]].below;
    }
    return periods;
}

/* Check the rules that a date or {key} sets for the number. */
static int check_number(const struct shape *shape, const char **ret_why)
{
    if (shape->has_key && !shape->secret) {
        return shape_refuse(ret_why, "{key} is for a secret number, as in {key}{secret:9}");
    }
    if (shape->has_key && shape->numbers > INT64_MAX / SHAPE_KEYS_MAX) {
        return shape_refuse(ret_why,
                            "with {key} ten times base^width is below 2^63: up to {secret:17}, "
                            "{secret16:14}, {secret32:11}, {secret36:11} and {secret62:9}");
    }
    if (shape->date.unit == DATE_NONE) {
        return 0;
    }
    if (shape->secret) {
        return shape_refuse(ret_why, "a shape has a date or a secret number, not both");
    }
    if (shape->width == 0 || shape->numbers == 0 ||
        shape->numbers > INT64_MAX / periods_of(shape)) {
        return shape_refuse(ret_why,
                            "a shape with a date needs a width, as in {id:6}, and base^width * "
                            "10^4 for years, 10^6 for months, 10^8 for days is below 2^63");
    }
    return 0;
}

static int take_id(struct cursor *cursor, struct shape *shape, const char **ret_why)
{
    unsigned base = 10;
    unsigned width = 0;

    shape->secret = cursor_take(cursor, "{secret");
    if (!shape->secret && !cursor_take(cursor, "{id")) {
        return shape_refuse(ret_why,
                            "a shape has one {id} or {secret:WIDTH}, before {luhn} or {mod97}");
    }
    if (cursor->at < cursor->end && *cursor->at != ':' && *cursor->at != '}' &&
        (!cursor_take_number(cursor, &base) ||
         (base != 10 && base != 16 && base != 32 && base != 36 && base != 62))) {
        return shape_refuse(ret_why, "the base of an id is 10, 16, 32, 36 or 62, as in {id36}");
    }
    if (cursor_take(cursor, ":") &&
        (!cursor_take_number(cursor, &width) || width > SHAPE_WIDTH_MAX)) {
        return shape_refuse(ret_why, "the width of an id is 1 to 32, as in {id:6}");
    }
    if (!cursor_take(cursor, "}")) {
        return shape_refuse(ret_why,
                            "{id} or {secret} is followed by a base, : and a width, and }");
    }
    if (shape->secret && (width == 0 || ff1_domain(base, width) < FF1_DOMAIN_MIN)) {
        return shape_refuse(ret_why,
                            "a secret number needs a width that holds a million numbers and "
                            "fewer than 2^63: {secret:6} to {secret:18}, {secret16:5} to "
                            "{secret16:15}, {secret32:4} to {secret32:12}, {secret36:4} to "
                            "{secret36:12}, {secret62:4} to {secret62:10}");
    }
    shape->base = (uint8_t)base;
    shape->width = (uint8_t)width;
    shape->numbers = 1;
    for (unsigned i = 0; i < width && shape->numbers != 0; i++) {
        shape->numbers = shape->numbers > INT64_MAX / base ? 0 : shape->numbers * base;
    }
    return check_number(shape, ret_why);
}

static int take_check(struct cursor *cursor, struct shape *shape, const char **ret_why)
{
    if (cursor_take(cursor, "{luhn}")) {
        shape->check = SHAPE_CHECK_LUHN;
        return shape->base == 10 ? 0 : shape_refuse(ret_why, "{luhn} is for a decimal id");
    }
    if (cursor_take(cursor, "{mod97}")) {
        shape->check = SHAPE_CHECK_MOD97;
        return shape->base != 62
                   ? 0
                   : shape_refuse(ret_why, "{mod97} does not tell small letters from capital ones, "
                                           "which base 62 does");
    }
    return shape_refuse(ret_why, "behind the id a shape has {luhn}, {mod97}, or no braces");
}

int shape_parse(const char *spec, size_t len, struct shape *ret_shape, const char **ret_why)
{
    struct shape shape = {.check = SHAPE_CHECK_NONE};
    struct cursor cursor = {spec, spec + len};
    const char *unheard;
    const char **why = ret_why != NULL ? ret_why : &unheard;

    if (len == 0 || len > SHAPE_SPEC_BYTES_MAX) {
        return shape_refuse(why, "a shape has 1 to 128 characters");
    }
    if (take_first_text(&cursor, &shape, why) != 0 || take_id(&cursor, &shape, why) != 0 ||
        take_text(&cursor, &shape, 1, why) != 0) {
        return ERR_INVALID;
    }
    if (cursor.at < cursor.end &&
        (take_check(&cursor, &shape, why) != 0 || take_text(&cursor, &shape, 2, why) != 0)) {
        return ERR_INVALID;
    }
    if (cursor.at < cursor.end) {
        return shape_refuse(why, "a shape has nothing in braces behind its check");
    }
    *ret_shape = shape;
    return 0;
}

/* --- periods --- */

uint32_t shape_period(enum date_part unit, uint64_t local_ms)
{
    time_t seconds = (time_t)(local_ms / 1000);
    struct tm tm = {0};
    unsigned year;

    if (gmtime_r(&seconds, &tm) == NULL || tm.tm_year > YEAR_MAX - 1900) {
        tm = (struct tm){.tm_year = YEAR_MAX - 1900, .tm_mon = 11, .tm_mday = 31};
    }
    year = (unsigned)tm.tm_year + 1900;
    return unit == DATE_YEAR ? year
           : unit == DATE_MONTH
               ? year * 100 + (unsigned)tm.tm_mon + 1
               : (year * 100 + (unsigned)tm.tm_mon + 1) * 100 + (unsigned)tm.tm_mday;
}

void shape_period_times(enum date_part unit, uint64_t local_ms, uint64_t *ret_elapsed_ms,
                        uint64_t *ret_length_ms)
{
    uint32_t period = shape_period(DATE_DAY, local_ms);
    struct tm begin = {.tm_year = (int)(period / 10000) - 1900, .tm_mday = 1};
    struct tm next;
    time_t began;

    begin.tm_mon = unit >= DATE_MONTH ? (int)(period / 100 % 100) - 1 : 0;
    begin.tm_mday = unit == DATE_DAY ? (int)(period % 100) : 1;
    next = begin;
    next.tm_year += unit == DATE_YEAR;
    next.tm_mon += unit == DATE_MONTH;
    next.tm_mday += unit == DATE_DAY;
    began = timegm(&begin);
    *ret_elapsed_ms = local_ms - (uint64_t)began * 1000;
    *ret_length_ms = (uint64_t)(timegm(&next) - began) * 1000;
}

bool shape_period_is_near(enum date_part unit, uint32_t period, uint64_t utc_ms)
{
    return period >= shape_period(unit, utc_ms > DAY_MS ? utc_ms - DAY_MS : 0) &&
           period <= shape_period(unit, utc_ms + DAY_MS);
}

/* --- lengths --- */

uint64_t shape_capacity(const struct shape *shape)
{
    return shape_is_bounded(shape) ? periods_of(shape) * shape->numbers : INT64_MAX;
}

uint64_t shape_bound(const struct shape *shape)
{
    return shape->has_key ? shape_key_first(shape, shape->key_count) : shape_capacity(shape);
}

unsigned shape_key_of(const struct shape *shape, uint64_t id)
{
    ASSERT(id < shape_capacity(shape));
    return shape->has_key ? (unsigned)(id / shape->numbers) : 0;
}

uint64_t shape_key_first(const struct shape *shape, unsigned key)
{
    ASSERT(shape->has_key && key <= SHAPE_KEYS_MAX);
    return key * shape->numbers;
}

void shape_period_ids(const struct shape *shape, uint64_t max_id, uint32_t period,
                      uint64_t *ret_first, uint64_t *ret_end)
{
    uint64_t numbers = shape->numbers;
    uint64_t present = max_id > 0 ? (max_id - 1) / numbers : 0;

    ASSERT(shape->date.unit != DATE_NONE && numbers > 0 && period < periods_of(shape));
    *ret_first = period > present ? period * numbers + 1 : max_id;
    *ret_end = ((period > present ? period : present) + 1) * numbers;
}

uint64_t shape_grown(const struct shape *shape, uint64_t from, uint64_t to)
{
    uint64_t begin = 0; /* of the ids of the present period or key */

    ASSERT(from <= to);
    if (shape->date.unit != DATE_NONE && to > 0) {
        begin = (to - 1) / shape->numbers * shape->numbers + 1;
    } else if (shape->has_key) {
        begin = to / shape->numbers * shape->numbers;
    }
    return to - (from > begin ? from : begin);
}

/* The number of digits of an id, and the first id with one more; 0 if no id below 2^63 has. */
static unsigned digits_of(const struct shape *shape, uint64_t id, uint64_t *ret_end)
{
    uint64_t end = 1;
    unsigned digits = 0;

    if (shape->part_count > 0) {
        *ret_end = 0;
        return shape->width;
    }
    do {
        end = end > INT64_MAX / shape->base ? 0 : end * shape->base;
        digits++;
    } while (end != 0 && (id >= end || digits < shape->width));
    *ret_end = end;
    return digits > shape->width ? digits : shape->width;
}

static size_t check_bytes(const struct shape *shape)
{
    return shape->check == SHAPE_CHECK_LUHN    ? 1
           : shape->check == SHAPE_CHECK_MOD97 ? MOD97_DIGITS
                                               : 0;
}

size_t shape_bytes(const struct shape *shape, uint64_t id)
{
    uint64_t end;

    return first_bytes(shape) + digits_of(shape, id, &end) + shape->text_len[1] +
           check_bytes(shape) + shape->text_len[2];
}

uint64_t shape_alike(const struct shape *shape, uint64_t id)
{
    uint64_t end;

    ASSERT(id < shape_capacity(shape));
    (void)digits_of(shape, id, &end);
    if (end == 0 || end > shape_capacity(shape)) {
        end = shape_capacity(shape);
    }
    return end - id;
}

/* --- checks --- */

static char luhn(const char *digits, size_t len)
{
    unsigned sum = 0;

    for (size_t i = 0; i < len; i++) {
        unsigned digit = (unsigned)(digits[len - 1 - i] - '0');
        unsigned weighed = i % 2 == 0 ? 2 * digit : digit;

        sum += weighed > 9 ? weighed - 9 : weighed;
    }
    return (char)('0' + (10 - sum % 10) % 10);
}

static void mod97(const char *text, size_t len, char check[MOD97_DIGITS])
{
    unsigned rest = 0;

    for (size_t i = 0; i < len; i++) {
        char c = text[i];

        if (c >= '0' && c <= '9') {
            rest = (rest * 10 + (unsigned)(c - '0')) % 97;
        } else if ((c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z')) {
            rest = (rest * 100 + (unsigned)((c | 0x20) - 'a') + 10) % 97;
        }
    }
    rest = 98 - rest * 100 % 97;
    check[0] = (char)('0' + rest / 10);
    check[1] = (char)('0' + rest % 10);
}

/* --- ids --- */

void shape_prepare(const struct shape *shape, uint64_t id, struct ff1 *ff1)
{
    if (shape->secret) {
        const uint8_t *key = shape->keys + (size_t)shape_key_of(shape, id) * SHAPE_KEY_BYTES;

        ff1_key(ff1, key, SHAPE_KEY_BYTES, shape->base, shape->width);
    }
}

static size_t put_text(const struct shape *shape, unsigned which, char *at)
{
    memcpy(at, shape->text[which], shape->text_len[which]);
    return shape->text_len[which];
}

static const char *alphabet_of(const struct shape *shape)
{
    return shape->base == 32 ? CROCKFORD : DIGITS;
}

/* The text before the number of the id, with the digits of its period or key. */
static size_t first_put(const struct shape *shape, uint64_t id, char *text)
{
    const char *words = shape->text[0];
    size_t from = 0;
    size_t len = 0;

    for (unsigned i = 0; i < shape->part_count; i++) {
        unsigned part = shape->part[i];
        uint64_t number = id / shape->numbers;

        for (unsigned finer = shape->date.unit; finer > part; finer--) {
            number /= PARTS[finer].below;
        }
        memcpy(text + len, words + from, shape->part_at[i] - from);
        len += shape->part_at[i] - from;
        from = shape->part_at[i];
        for (size_t at = PARTS[part].digits; at > 0; at--) {
            text[len + at - 1] = (char)('0' + number % 10);
            number /= 10;
        }
        len += PARTS[part].digits;
    }
    memcpy(text + len, words + from, shape->text_len[0] - from);
    return len + shape->text_len[0] - from;
}

size_t shape_put(const struct shape *shape, struct ff1 *ff1, uint64_t id, char *text)
{
    uint64_t number = shape_is_bounded(shape) ? id % shape->numbers : id;
    uint64_t end;
    size_t digits;
    size_t len;
    size_t number_at;

    ASSERT(id < shape_capacity(shape));
    number = shape->secret ? ff1_encrypt(ff1, number) : number;
    digits = digits_of(shape, number, &end);
    len = first_put(shape, id, text);
    number_at = len;
    for (size_t i = digits; i > 0; i--) {
        text[len + i - 1] = alphabet_of(shape)[number % shape->base];
        number /= shape->base;
    }
    ASSERT(number == 0);
    len += digits;
    len += put_text(shape, 1, text + len);
    if (shape->check == SHAPE_CHECK_LUHN) {
        text[len] = luhn(text + number_at, digits);
    } else if (shape->check == SHAPE_CHECK_MOD97) {
        mod97(text, len, text + len);
    }
    len += check_bytes(shape);
    len += put_text(shape, 2, text + len);
    ASSERT(len <= SHAPE_ID_BYTES_MAX);
    return len;
}

static bool digits_read(const struct shape *shape, const char *text, size_t len,
                        uint64_t *ret_number)
{
    const char *alphabet = alphabet_of(shape);
    uint64_t number = 0;

    for (size_t i = 0; i < len; i++) {
        char c = text[i];
        const char *at;
        uint64_t digit;

        if (shape->base != 62 && c >= 'a' && c <= 'z') {
            c = (char)(c - 'a' + 'A');
        }
        if (shape->base == 32) {
            c = c == 'I' || c == 'L' ? '1' : c == 'O' ? '0' : c;
        }
        at = c != '\0' ? strchr(alphabet, c) : NULL;
        digit = at != NULL ? (uint64_t)(at - alphabet) : shape->base;
        if (digit >= shape->base || number > (INT64_MAX - digit) / shape->base) {
            return false;
        }
        number = number * shape->base + digit;
    }
    *ret_number = number;
    return len > 0;
}

static bool has_text(const struct shape *shape, unsigned which, const char *at)
{
    return memcmp(at, shape->text[which], shape->text_len[which]) == 0;
}

/* Has the shape this key, and was it not skipped? */
static bool is_key_used(const struct shape *shape, uint64_t key)
{
    return key < shape->key_count &&
           (key + 1 == shape->key_count ||
            memcmp(shape->keys + key * SHAPE_KEY_BYTES, shape->keys + (key + 1) * SHAPE_KEY_BYTES,
                   SHAPE_KEY_BYTES) != 0);
}

/* Read the text before the number. *ret_base: its period or key times base^width, the first number
 * there. */
static bool first_read(const struct shape *shape, const char *text, uint64_t *ret_base)
{
    const char *words = shape->text[0];
    unsigned numbers[PART_KEY + 1] = {0};
    uint64_t period = 0;
    size_t from = 0;

    for (unsigned i = 0; i < shape->part_count; i++) {
        unsigned *number = &numbers[shape->part[i]];
        size_t before = shape->part_at[i] - from;

        if (memcmp(text, words + from, before) != 0) {
            return false;
        }
        text += before;
        from = shape->part_at[i];
        for (size_t digits = PARTS[shape->part[i]].digits; digits > 0; digits--, text++) {
            if (*text < '0' || *text > '9') {
                return false;
            }
            *number = *number * 10 + (unsigned)(*text - '0');
        }
    }
    for (unsigned part = DATE_YEAR; part <= shape->date.unit; part++) {
        period = period * PARTS[part].below + numbers[part];
    }
    if (shape->has_key) {
        period = numbers[PART_KEY];
    }
    *ret_base = shape->part_count > 0 ? period * shape->numbers : 0;
    return memcmp(text, words + from, shape->text_len[0] - from) == 0 &&
           (!shape->has_key || is_key_used(shape, period));
}

bool shape_read(const struct shape *shape, struct ff1 *ff1, const char *text, size_t len,
                uint64_t *ret_id)
{
    size_t checked = check_bytes(shape);
    size_t before = first_bytes(shape);
    size_t around = before + shape->text_len[1] + checked + shape->text_len[2];
    const char *digits = text + before;
    char wanted[SHAPE_ID_BYTES_MAX];
    const char *after;
    uint64_t base;
    uint64_t number;
    size_t count;

    if (len > SHAPE_ID_BYTES_MAX || len <= around) {
        return false;
    }
    count = len - around;
    after = digits + count;
    if (!first_read(shape, text, &base) || !has_text(shape, 1, after) ||
        !has_text(shape, 2, after + shape->text_len[1] + checked) ||
        !digits_read(shape, digits, count, &number)) {
        return false;
    }
    if (shape->secret && number >= shape->numbers) {
        return false;
    }
    shape_prepare(shape, base, ff1);
    number = shape->secret ? ff1_decrypt(ff1, number) : number;
    if (base > 0 && count == shape->width) {
        number += base;
    }
    if (number >= shape_capacity(shape)) {
        return false;
    }
    /* The text must be the one of this number, except for small letters; that includes the check
     * and the zeros in front. */
    *ret_id = number;
    return shape_put(shape, ff1, *ret_id, wanted) == len &&
           memcmp(after, wanted + before + count, len - (size_t)(after - text)) == 0;
}
