/*
 * tag.c - see tag.h: rules for the fields of a tag, and the bytes of its row.
 *
 * The happy path: a row is checked before it is kept (tag_row_check), written in its format, and
 * checked again when it is read back (tag_row_decode), so that damage on disk is found at start.
 *
 * Failure modes: bad input gives ERR_INVALID with the rule's name; bad bytes ERR_TRUNCATED,
 * ERR_BAD_VERSION or ERR_CORRUPT. Thread: pure functions, any.
 */
#include "src/id/codec/tag.h"

#include <string.h>

#include "src/base/hot.h"
#include "src/base/utf8.h"

int tag_name_compare(const char *a, size_t a_len, const char *b, size_t b_len)
{
    size_t shorter = a_len < b_len ? a_len : b_len;
    int order = shorter > 0 ? memcmp(a, b, shorter) : 0;

    if (order != 0) {
        return order;
    }
    return a_len < b_len ? -1 : a_len > b_len;
}

static int tag_refuse(const char **ret_why, const char *why)
{
    if (ret_why != NULL) {
        *ret_why = why;
    }
    return ERR_INVALID;
}

HOT int tag_name_check(const char *name, size_t len, const char **ret_why)
{
    if (len == 0) {
        return tag_refuse(ret_why, "the name of a tag is empty");
    }
    if (len > LIMIT_TAG_NAME_BYTES) {
        return tag_refuse(ret_why, "the name of a tag is longer than 128 bytes");
    }
    if (utf8_text_check(name, len, false) == 0) {
        return 0;
    }
    return tag_refuse(ret_why, utf8_text_check(name, len, true) != 0
                                   ? "the name of a tag is not UTF-8, or holds a NUL"
                                   : "the name of a tag holds a control character");
}

int tag_description_check(const char *text, size_t len, const char **ret_why)
{
    if (len > LIMIT_TAG_DESCRIPTION_BYTES) {
        return tag_refuse(ret_why, "description is longer than 256 bytes");
    }
    if (utf8_text_check(text, len, true) != 0) {
        return tag_refuse(ret_why, "description is not UTF-8, or holds a NUL");
    }
    return 0;
}

int tag_reason_check(const char *text, size_t len, const char **ret_why)
{
    if (len > LIMIT_TAG_REASON_BYTES) {
        return tag_refuse(ret_why, "reason is longer than 200 bytes");
    }
    if (utf8_text_check(text, len, false) != 0) {
        return tag_refuse(ret_why, "reason is not UTF-8, or holds a control character");
    }
    return 0;
}

int tag_shape(const char *bytes, size_t len, struct shape *ret_shape, const char **ret_why)
{
    size_t text_len = tag_shape_text_len(bytes, len);
    size_t key_len = len > text_len ? len - text_len - 1 : 0;

    if (shape_parse(bytes, text_len, ret_shape, ret_why) != 0) {
        return ERR_INVALID;
    }
    if (len != text_len + (ret_shape->secret ? 1 + key_len : 0) ||
        (key_len > 0) != ret_shape->secret || key_len % SHAPE_KEY_BYTES != 0 ||
        key_len / SHAPE_KEY_BYTES > (ret_shape->has_key ? SHAPE_KEYS_MAX : 1)) {
        return tag_refuse(ret_why, "the key of a shape is missing, or too much");
    }
    ret_shape->keys = (const uint8_t *)bytes + len - key_len;
    ret_shape->key_count = (uint8_t)(key_len / SHAPE_KEY_BYTES);
    return 0;
}

static bool shape_names(const struct tag_row *row, const char *what)
{
    return row->shape_len > 0 && memmem(row->shape, tag_shape_text_len(row->shape, row->shape_len),
                                        what, strlen(what)) != NULL;
}

/* Each date has its year. */
bool tag_is_dated(const struct tag_row *row)
{
    return shape_names(row, "{year");
}

bool tag_is_rekeyable(const struct tag_row *row)
{
    return shape_names(row, "{key}");
}

/* Check the rules that a shape sets for its tag. */
static int shape_check(const struct tag_row *row, const char **ret_why)
{
    struct shape shape;

    if (tag_shape(row->shape, row->shape_len, &shape, ret_why) != 0) {
        return ERR_INVALID;
    }
    if (row->increment != 0 && shape_is_bounded(&shape)) {
        return tag_refuse(
            ret_why, shape.secret ? "a secret shape has no increment: each cluster has its own "
                                    "key, so texts may repeat"
                                  : "a shape with a date has no increment: leave it out");
    }
    if (shape.date.unit != DATE_NONE && row->mode != TAG_MODE_STRICT) {
        return tag_refuse(ret_why, "a shape with a date needs the mode strict");
    }
    return tag_bound(row) <= shape_bound(&shape)
               ? 0
               : tag_refuse(ret_why,
                            shape.secret
                                ? "a secret shape has base^width ids: set max to that, or less"
                                : "max is beyond the shape's year 9999: leave it out");
}

int tag_row_check(const struct tag_row *row, const char **ret_why)
{
    int err = tag_name_check(row->name, row->name_len, ret_why);

    if (err == 0) {
        err = tag_description_check(row->description, row->description_len, ret_why);
    }
    if (err != 0) {
        return err;
    }
    if (row->step < 1 || row->step > LIMIT_TAG_STEP) {
        return tag_refuse(ret_why, "step is not in 1 to 1000000000");
    }
    if (row->max_step < 1 || row->max_step > LIMIT_TAG_STEP) {
        return tag_refuse(ret_why, "max_step is not in 1 to 1000000000");
    }
    if (row->max_step < row->step) {
        return tag_refuse(ret_why, "max_step is smaller than step");
    }
    if (row->max_id > TAG_MAX_ID_END) {
        return tag_refuse(ret_why, "max_id is larger than 9223372036854775807");
    }
    if (row->max > TAG_MAX_ID_END || row->max_id > tag_bound(row)) {
        return tag_refuse(ret_why,
                          row->max > TAG_MAX_ID_END
                              ? "max is larger than 9223372036854775807"
                              : "max is smaller than max_id: ids up to there were granted");
    }
    if (row->created_ms > LIMIT_TIME_MAX_MS || row->updated_ms > LIMIT_TIME_MAX_MS) {
        return tag_refuse(ret_why, "a time lies beyond the year 9999");
    }
    if (row->increment == 1 || row->increment > LIMIT_TAG_INCREMENT ||
        row->offset >= increment_of(row->increment)) {
        return tag_refuse(ret_why, row->increment > LIMIT_TAG_INCREMENT
                                       ? "increment is not in 1 to 1000000"
                                       : "offset is not in 0 to increment - 1");
    }
    if (row->shape_len > 0 && shape_check(row, ret_why) != 0) {
        return ERR_INVALID;
    }
    if (row->cover_s > LIMIT_TAG_COVER_S) {
        return tag_refuse(ret_why, "cover_s is not in 0 to 86400");
    }
    if (row->cover_s > 0 && row->mode != TAG_MODE_TREND) {
        return tag_refuse(ret_why, "cover_s is for the mode trend: nodes hold no ids of other "
                                   "modes. Set it to 0");
    }
    if (row->reason_len > 0 && !row->paused) {
        return tag_refuse(ret_why, "reason is for a paused tag: set paused, too");
    }
    if (row->reason_len > 0 && tag_reason_check(row->reason, row->reason_len, ret_why) != 0) {
        return ERR_INVALID;
    }
    /* Values that only a later version, or damage, can have made. */
    if (row->mode > TAG_MODE_MONOTONIC) {
        return tag_refuse(ret_why, "mode is not known");
    }
    if (row->recalling && row->mode == TAG_MODE_TREND) {
        return tag_refuse(ret_why, "recalling, but in trend mode");
    }
    return 0;
}

uint64_t tag_share_bytes(const struct tag_row *row)
{
    uint64_t bytes = TAG_SHARE_ROW_BYTES + (uint64_t)row->name_len + row->shape_len;

    if (!row->deleted) {
        bytes +=
            TAG_SHARE_USED_BYTES + (uint64_t)row->name_len + row->description_len + row->reason_len;
        bytes += row->shape_len > 0 ? TAG_SHARE_SHAPED_BYTES : 0;
    }
    return bytes;
}

static const struct field ROW_FIELDS[] = {
    FIELD_STRING(struct tag_row, name), /* in storage it is in the key */
    FIELD_BOOL(struct tag_row, deleted),      FIELD_BOOL(struct tag_row, recalling),
    FIELD_NUMBER(struct tag_row, mode),       FIELD_NUMBER(struct tag_row, generation),
    FIELD_NUMBER(struct tag_row, step),       FIELD_NUMBER(struct tag_row, max_step),
    FIELD_NUMBER(struct tag_row, max_id),     FIELD_NUMBER(struct tag_row, created_ms),
    FIELD_NUMBER(struct tag_row, updated_ms), FIELD_STRING(struct tag_row, description),
    FIELD_NUMBER(struct tag_row, max),       /* from TAG_FORM_BOUNDED on */
    FIELD_STRING(struct tag_row, shape),     /* from TAG_FORM_SHAPED on */
    FIELD_NUMBER(struct tag_row, client),    /* from TAG_FORM_OWNED on */
    FIELD_NUMBER(struct tag_row, increment), /* of TAG_FORM_STEPPED, as all that follow */
    FIELD_NUMBER(struct tag_row, offset),     FIELD_NUMBER(struct tag_row, cover_s),
    FIELD_BOOL(struct tag_row, paused),       FIELD_STRING(struct tag_row, reason),
};
#define ROW_FIELDS_STEPPED 5
#define ROW_FIELDS_ALL (sizeof ROW_FIELDS / sizeof *ROW_FIELDS)
#define ROW_FIELD_COUNT(form)                                                                      \
    ((form) == TAG_FORM_STEPPED                                                                    \
         ? ROW_FIELDS_ALL                                                                          \
         : ROW_FIELDS_ALL - ROW_FIELDS_STEPPED - (size_t)(TAG_FORM_OWNED - (form)))

static bool tag_row_is_sound(const void *row)
{
    return tag_row_check(row, NULL) == 0;
}

/* Soundness is checked on reading: the writer keeps the rules. */
FIELDS_FLAT(plain, ROW_FIELDS + 1, ROW_FIELD_COUNT(TAG_FORM_PLAIN) - 1)
FIELDS_FLAT(bounded, ROW_FIELDS + 1, ROW_FIELD_COUNT(TAG_FORM_BOUNDED) - 1)
FIELDS_FLAT(shaped, ROW_FIELDS + 1, ROW_FIELD_COUNT(TAG_FORM_SHAPED) - 1)
FIELDS_FLAT(owned, ROW_FIELDS + 1, ROW_FIELD_COUNT(TAG_FORM_OWNED) - 1)
FIELDS_FLAT(stepped, ROW_FIELDS + 1, ROW_FIELD_COUNT(TAG_FORM_STEPPED) - 1)

#define ROW_OF(form, name, version)                                                                \
    [form] = ROW_FORMAT(version, FIELDS_STRAIGHT(name, ROW_FIELDS + 1, ROW_FIELD_COUNT(form) - 1), \
                        NULL)
static const struct row_format ROW_FORMATS[] = {
    ROW_OF(TAG_FORM_PLAIN, plain, 3),     ROW_OF(TAG_FORM_BOUNDED, bounded, 4),
    ROW_OF(TAG_FORM_SHAPED, shaped, 5),   ROW_OF(TAG_FORM_OWNED, owned, 6),
    ROW_OF(TAG_FORM_STEPPED, stepped, 7),
};

const struct row_format *tag_row_format(const struct tag_row *row)
{
    return &ROW_FORMATS[tag_form(row)];
}

const struct item_format tag_item_format =
    ITEM_FORMAT(FIELDS_FIRST(ROW_FIELDS, ROW_FIELD_COUNT(TAG_FORM_SHAPED)), struct tag_row,
                tag_row_is_sound, LIMIT_TAGS_PER_PAGE);
const struct item_format tag_stepped_item_format =
    ITEM_FORMAT(FIELDS(ROW_FIELDS), struct tag_row, tag_row_is_sound, LIMIT_TAGS_PER_PAGE);

int tag_row_decode(const char *name, size_t name_len, const void *value, size_t value_len,
                   struct tag_row *ret_row)
{
    struct tag_row row = {.name = name, .name_len = (uint16_t)name_len};
    enum tag_form form = TAG_FORM_STEPPED;
    int err;

    while (form > TAG_FORM_PLAIN && value_len > 0 &&
           *(const uint8_t *)value != ROW_FORMATS[form].version) {
        form--;
    }
    err = row_read(value, value_len, &ROW_FORMATS[form], &row);
    if (err == 0 && form != tag_form(&row)) {
        err = ERR_CORRUPT;
    }
    if (err != 0 || name_len > LIMIT_TAG_NAME_BYTES || !tag_row_is_sound(&row)) {
        return err != 0 ? err : ERR_CORRUPT;
    }
    *ret_row = row;
    return 0;
}
