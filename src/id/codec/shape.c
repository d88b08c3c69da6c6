/*
 * shape.c - see shape.h.
 */
#include "src/id/codec/shape.h"

#include <string.h>
#include <time.h>

#include "src/base/assert.h"

/* --- shape_date --- */

#define DAY_MS 86400000ULL
#define YEAR_MAX 9999

static const struct {
    const char *name;
    size_t digits;
    unsigned below; /* 10^digits */
} PARTS[] = {
    [DATE_YEAR] = {"{year", 4, 10000},
    [DATE_MONTH] = {"{month", 2, 100},
    [DATE_DAY] = {"{day", 2, 100},
};

static int shape_refuse(const char **ret_why, const char *why)
{
    *ret_why = why;
    return ERR_INVALID;
}

/* --- reading a shape --- */

static const char ZONE_CHARS[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789/_-+";

/* No name has a dot, begins with a slash or has two in a row: it is no path out of the database. */
static int take_zone(struct shape_date *date, const char **at, const char *end,
                     const char **ret_why)
{
    size_t len = 0;

    while (*at < end && **at != '\0' && strchr(ZONE_CHARS, **at) != NULL &&
           len < SHAPE_ZONE_BYTES_MAX && (**at != '/' || (len > 0 && date->zone[len - 1] != '/'))) {
        date->zone[len++] = *(*at)++;
    }
    date->zone[len] = '\0';
    if (len == 0 || date->zone[len - 1] == '/') {
        return shape_refuse(ret_why,
                            "a zone is a name of the time zone database: {year@Europe/Berlin}");
    }
    return 0;
}

int shape_date_take(struct shape_date *date, const char **at, const char *end, size_t text_len,
                    const char **ret_why)
{
    enum date_part part = DATE_YEAR;
    const char *from = *at;
    size_t len = 0;

    for (; part <= DATE_DAY; part++) {
        len = strlen(PARTS[part].name);
        if ((size_t)(end - from) > len && memcmp(from, PARTS[part].name, len) == 0 &&
            (from[len] == '}' || from[len] == '@')) {
            break;
        }
    }
    if (part > DATE_DAY) {
        return 0;
    }
    from += len;
    if (*from == '@') {
        from++;
        if (date->count > 0) {
            return shape_refuse(ret_why, "the first part of a date names the zone of all");
        }
        if (take_zone(date, &from, end, ret_why) != 0) {
            return ERR_INVALID;
        }
    }
    if (from == end || *from != '}') {
        return shape_refuse(ret_why,
                            "a part of a date is {year}, {month} or {day}; the first may name a "
                            "zone of up to 40 characters: {year@Europe/Berlin}");
    }
    if (memchr(date->part, (int)part, date->count) != NULL) {
        return shape_refuse(ret_why, "a part of a date stands twice");
    }
    ASSERT(date->count < SHAPE_DATE_PARTS);
    date->part[date->count] = (uint8_t)part;
    date->at[date->count++] = (uint8_t)text_len;
    date->unit = date->unit > part ? date->unit : (uint8_t)part;
    *at = from + 1;
    return 1;
}

int shape_date_check(const struct shape_date *date, const char **ret_why)
{
    /* Each part but the year belongs to a larger one, and none occurs twice. */
    return date->count == date->unit
               ? 0
               : shape_refuse(ret_why,
                              "a date has {year}, or {year} and {month}, or {day} as well");
}

/* --- periods --- */

uint64_t shape_date_periods(const struct shape_date *date)
{
    uint64_t periods = 1;

    for (unsigned i = 0; i < date->count; i++) {
        periods *= PARTS[date->part[i]].below;
    }
    return periods;
}

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

/* --- texts --- */

size_t shape_date_bytes(const struct shape_date *date)
{
    size_t bytes = 0;

    for (unsigned i = 0; i < date->count; i++) {
        bytes += PARTS[date->part[i]].digits;
    }
    return bytes;
}

size_t shape_date_put(const struct shape_date *date, const char *text, size_t text_len,
                      uint32_t period, char *out)
{
    size_t from = 0;
    size_t len = 0;

    for (unsigned i = 0; i < date->count; i++) {
        size_t digits = PARTS[date->part[i]].digits;
        unsigned part = date->part[i];
        uint32_t number = period;

        for (unsigned finer = date->unit; finer > part; finer--) {
            number /= PARTS[finer].below;
        }
        number %= PARTS[part].below;

        memcpy(out + len, text + from, date->at[i] - from);
        len += date->at[i] - from;
        from = date->at[i];
        for (size_t at = digits; at > 0; at--) {
            out[len + at - 1] = (char)('0' + number % 10);
            number /= 10;
        }
        len += digits;
    }
    memcpy(out + len, text + from, text_len - from);
    return len + text_len - from;
}

static bool read_part(const char *in, size_t digits, unsigned *ret_number)
{
    unsigned number = 0;

    for (size_t i = 0; i < digits; i++) {
        if (in[i] < '0' || in[i] > '9') {
            return false;
        }
        number = number * 10 + (unsigned)(in[i] - '0');
    }
    *ret_number = number;
    return true;
}

bool shape_date_read(const struct shape_date *date, const char *text, size_t text_len,
                     const char *in, uint32_t *ret_period)
{
    unsigned numbers[DATE_DAY + 1] = {0};
    uint32_t period = 0;
    size_t from = 0;

    for (unsigned i = 0; i < date->count; i++) {
        size_t digits = PARTS[date->part[i]].digits;
        size_t before = date->at[i] - from;

        if (memcmp(in, text + from, before) != 0 ||
            !read_part(in + before, digits, &numbers[date->part[i]])) {
            return false;
        }
        in += before + digits;
        from = date->at[i];
    }
    for (enum date_part part = DATE_YEAR; part <= (enum date_part)date->unit; part++) {
        period = period * PARTS[part].below + numbers[part];
    }
    *ret_period = period;
    return memcmp(in, text + from, text_len - from) == 0;
}

/* --- shape --- */

#define MOD97_DIGITS 2

static const char DIGITS[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
static const char CROCKFORD[] = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";

/* --- reading a shape --- */

/* The reader's position. */
struct cursor {
    const char *at;
    const char *end;
};

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

/* Take {key}, as shape_date_take() takes a part of a date. */
static int take_key(struct cursor *cursor, struct shape *shape, const char **ret_why)
{
    if (!cursor_take(cursor, "{key}")) {
        return 0;
    }
    if (shape->has_key) {
        return shape_refuse(ret_why, "{key} stands twice in the shape");
    }
    shape->has_key = true;
    shape->key_at = shape->text_len[0];
    return 1;
}

/* The length of an id's text before the number. */
static size_t first_bytes(const struct shape *shape)
{
    return (size_t)shape->text_len[0] + shape_date_bytes(&shape->date) + (shape->has_key ? 1 : 0);
}

/* Take the first text, with or without a date or {key}. */
static int take_first_text(struct cursor *cursor, struct shape *shape, const char **ret_why)
{
    int taken;

    do {
        if (take_text(cursor, shape, 0, ret_why) != 0) {
            return ERR_INVALID;
        }
        taken = take_key(cursor, shape, ret_why);
        if (taken == 0 && cursor->at < cursor->end) {
            taken = shape_date_take(&shape->date, &cursor->at, cursor->end, shape->text_len[0],
                                    ret_why);
        }
    } while (taken == 1);
    if (taken == 0 && first_bytes(shape) > SHAPE_TEXT_BYTES_MAX) {
        return shape_refuse(ret_why, "a text of a shape is longer than 32 characters");
    }
    return taken == 0 ? shape_date_check(&shape->date, ret_why) : ERR_INVALID;
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
    if (shape->date.count == 0) {
        return 0;
    }
    if (shape->secret) {
        return shape_refuse(ret_why, "a shape has a date or a secret number, not both");
    }
    if (shape->width == 0 || shape->numbers == 0 ||
        shape->numbers > INT64_MAX / shape_date_periods(&shape->date)) {
        return shape_refuse(ret_why,
                            "a shape with a date needs a width, as in {id:6}, and base^width * "
                            "10^4 for years, 10^6 for months, 10^8 for days is below 2^63");
    }
    return 0;
}

/* base^width; 0 if that is 2^63 or more. */
static uint64_t power_of(unsigned base, unsigned width)
{
    uint64_t power = 1;

    for (unsigned i = 0; i < width && power != 0; i++) {
        power = power > INT64_MAX / base ? 0 : power * base;
    }
    return power;
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
    shape->numbers = power_of(base, width);
    return 0;
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

static int parse(struct cursor cursor, struct shape *ret_shape, const char **ret_why)
{
    struct shape shape = {.check = SHAPE_CHECK_NONE};
    int err;

    if (cursor.at == cursor.end || cursor.end - cursor.at > SHAPE_SPEC_BYTES_MAX) {
        return shape_refuse(ret_why, "a shape has 1 to 128 characters");
    }
    err = take_first_text(&cursor, &shape, ret_why);
    if (err == 0) {
        err = take_id(&cursor, &shape, ret_why);
    }
    if (err == 0) {
        err = check_number(&shape, ret_why);
    }
    if (err == 0) {
        err = take_text(&cursor, &shape, 1, ret_why);
    }
    if (err == 0 && cursor.at < cursor.end) {
        err = take_check(&cursor, &shape, ret_why);
        if (err == 0) {
            err = take_text(&cursor, &shape, 2, ret_why);
        }
        if (err == 0 && cursor.at < cursor.end) {
            err = shape_refuse(ret_why, "a shape has nothing in braces behind its check");
        }
    }
    if (err == 0) {
        *ret_shape = shape;
    }
    return err;
}

int shape_parse(const char *spec, size_t len, struct shape *ret_shape, const char **ret_why)
{
    const char *unheard;

    return parse((struct cursor){spec, spec + len}, ret_shape,
                 ret_why != NULL ? ret_why : &unheard);
}

/* --- lengths --- */

uint64_t shape_capacity(const struct shape *shape)
{
    if (shape->date.count > 0) {
        return shape_date_periods(&shape->date) * shape->numbers;
    }
    return shape->secret ? (shape->has_key ? SHAPE_KEYS_MAX : 1) * shape->numbers : INT64_MAX;
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

    ASSERT(shape->date.count > 0 && numbers > 0 && period < shape_date_periods(&shape->date));
    *ret_first = period > present ? period * numbers + 1 : max_id;
    *ret_end = ((period > present ? period : present) + 1) * numbers;
}

uint64_t shape_grown(const struct shape *shape, uint64_t from, uint64_t to)
{
    uint64_t begin = 0; /* of the ids of the present period or key */

    ASSERT(from <= to);
    if (shape->date.count > 0 && to > 0) {
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

    if (shape->date.count > 0 || shape->has_key) {
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

/* The text before the number of the id. */
static size_t first_put(const struct shape *shape, uint64_t id, char *text)
{
    size_t at = shape->key_at;

    if (shape->date.count > 0) {
        return shape_date_put(&shape->date, shape->text[0], shape->text_len[0],
                              (uint32_t)(id / shape->numbers), text);
    }
    if (!shape->has_key) {
        return put_text(shape, 0, text);
    }
    memcpy(text, shape->text[0], at);
    text[at] = DIGITS[shape_key_of(shape, id)];
    memcpy(text + at + 1, shape->text[0] + at, shape->text_len[0] - at);
    return (size_t)shape->text_len[0] + 1;
}

size_t shape_put(const struct shape *shape, struct ff1 *ff1, uint64_t id, char *text)
{
    uint64_t number = shape->secret || shape->date.count > 0 ? id % shape->numbers : id;
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

/* The value of a digit; -1: none. */
static int digit_of(const struct shape *shape, char c)
{
    const char *alphabet = alphabet_of(shape);
    const char *at;

    if (shape->base != 62 && c >= 'a' && c <= 'z') {
        c = (char)(c - 'a' + 'A');
    }
    if (shape->base == 32) {
        c = c == 'I' || c == 'L' ? '1' : c == 'O' ? '0' : c;
    }
    at = c != '\0' ? strchr(alphabet, c) : NULL;
    return at != NULL && at - alphabet < shape->base ? (int)(at - alphabet) : -1;
}

static bool digits_read(const struct shape *shape, const char *text, size_t len,
                        uint64_t *ret_number)
{
    uint64_t number = 0;

    for (size_t i = 0; i < len; i++) {
        int digit = digit_of(shape, text[i]);

        if (digit < 0 || number > (INT64_MAX - (uint64_t)digit) / shape->base) {
            return false;
        }
        number = number * shape->base + (uint64_t)digit;
    }
    *ret_number = number;
    return len > 0;
}

static bool has_text(const struct shape *shape, unsigned which, const char *at)
{
    return memcmp(at, shape->text[which], shape->text_len[which]) == 0;
}

/* Read the text before the number. *ret_base: its period or key times base^width, the first number
 * there. */
static bool first_read(const struct shape *shape, const char *text, uint64_t *ret_base)
{
    size_t at = shape->key_at;
    uint32_t period = 0;
    uint64_t key = 0;

    if (!shape->has_key) {
        bool is_one =
            shape_date_read(&shape->date, shape->text[0], shape->text_len[0], text, &period);

        *ret_base = shape->date.count > 0 ? period * shape->numbers : 0;
        return is_one;
    }
    key = (uint64_t)(uint8_t)text[at] - '0';
    *ret_base = key < SHAPE_KEYS_MAX ? key * shape->numbers : 0;
    return key < shape->key_count && memcmp(text, shape->text[0], at) == 0 &&
           memcmp(text + at + 1, shape->text[0] + at, shape->text_len[0] - at) == 0;
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
