/*
 * tag_json.c - see tag_json.h. Thread: pure functions, any.
 */
#include "http/api/tag_json.h"

#include <stdio.h>
#include <string.h>

#include "http/proto/text.h"
#include "src/base/assert.h"
#include "src/base/prng.h"
#include "src/base/utf8.h"

static int read_description(const json_t *value, struct param *field, struct body_fault *ret_fault)
{
    char shown[BODY_SHOWN_BYTES];
    const char *why = "description is not a string";

    field->text = json_string_value(value);
    field->len = json_string_length(value);
    if (field->text == NULL || tag_description_check(field->text, field->len, &why) != 0) {
        return body_fail(ret_fault, "bad_request", "description=%s: %s", body_show(value, shown),
                         why);
    }
    return 0;
}

static int read_name(const json_t *value, struct param *field, struct body_fault *ret_fault)
{
    char shown[BODY_SHOWN_BYTES];
    char place[LOOKS_WHY_BYTES];
    const char *why = "the name of a tag is not a string";

    field->text = json_string_value(value);
    field->len = json_string_length(value);
    if (field->text == NULL || tag_name_check(field->text, field->len, &why) != 0) {
        return body_fail(ret_fault, "bad_tag", "bad tag %s: %s", body_show(value, shown),
                         looks_hidden(field->text, field->len, place) ? place : why);
    }
    return 0;
}

/* Files beside the database's zones: this machine's own one, and clocks that count leap seconds,
 * by which a date would begin half a minute late. Whether there is a zone at all, the leader
 * says (src/service/dates.h). */
static bool is_zone_of_all(const char *zone)
{
    return strncmp(zone, "right/", strlen("right/")) != 0 &&
           strncmp(zone, "posix/", strlen("posix/")) != 0 && strcmp(zone, "localtime") != 0 &&
           strcmp(zone, "posixrules") != 0 && strcmp(zone, "Factory") != 0;
}

static int read_shape(const json_t *value, struct param *field, struct body_fault *ret_fault)
{
    char shown[BODY_SHOWN_BYTES];
    const char *why = "the shape of a tag is not a string";
    struct shape shape;

    field->text = json_string_value(value);
    field->len = json_string_length(value);
    if (field->text == NULL || shape_parse(field->text, field->len, &shape, &why) != 0) {
        return body_fail(ret_fault, "bad_request", "shape=%s: %s", body_show(value, shown), why);
    }
    if (!is_zone_of_all(shape.date.zone)) {
        return body_fail(ret_fault, "bad_request",
                         "shape=%s: %s is no zone that is the same on all machines",
                         body_show(value, shown), shape.date.zone);
    }
    field->number = shape.secret;
    return 0;
}

/* The fields of an object into put, whose name is set unless it comes from the object. Strings stay
 * the object's. *ret_secret: its shape needs a key. */
static int read_object(json_t *object, struct tag_put *put, bool *ret_secret,
                       struct body_fault *ret_fault)
{
    static const char *const modes[] = {[TAG_MODE_TREND] = "trend",
                                        [TAG_MODE_STRICT] = "strict",
                                        [TAG_MODE_MONOTONIC] = "monotonic",
                                        NULL};
    struct param fields[] = {
        {.name = "tag", .needed = true, .read = read_name},
        {.name = "step", .min = 1, .max = LIMIT_TAG_STEP},
        {.name = "max_id", .max = TAG_MAX_ID_END, .takes_digits = true},
        {.name = "max_step", .min = 1, .max = LIMIT_TAG_STEP},
        {.name = "mode",
         .kind = PARAM_WORD,
         .words = modes,
         .rule = "is none of \"trend\", \"strict\" and \"monotonic\""},
        {.name = "description", .read = read_description},
        {.name = "max", .min = 1, .max = TAG_MAX_ID_END, .takes_digits = true},
        {.name = "shape", .read = read_shape},
        {.name = "key", .max = SHAPE_KEYS_MAX - 1},
    };
    static const uint8_t bits[] = {0,
                                   TAG_FIELD_STEP,
                                   TAG_FIELD_MAX_ID,
                                   TAG_FIELD_MAX_STEP,
                                   TAG_FIELD_MODE,
                                   TAG_FIELD_DESCRIPTION,
                                   TAG_FIELD_MAX,
                                   TAG_FIELD_SHAPE,
                                   TAG_FIELD_KEY};
    size_t skip = put->name != NULL ? 1 : 0; /* the name is no field then */
    int rv =
        body_fields(object, "a tag's fields", fields + skip, COUNT_OF(fields) - skip, ret_fault);

    if (rv != 0) {
        return rv;
    }
    if (skip == 0) {
        put->name = fields[0].text;
        put->name_len = (uint16_t)fields[0].len;
    }
    for (size_t i = 1; i < COUNT_OF(fields); i++) {
        if (fields[i].present) {
            put->fields |= bits[i];
        }
    }
    put->step = (uint32_t)fields[1].number;
    put->max_id = fields[2].number;
    put->max_step = (uint32_t)fields[3].number;
    put->mode = (uint8_t)fields[4].number;
    put->description = fields[5].text;
    put->description_len = (uint16_t)fields[5].len;
    put->max = fields[6].number == TAG_MAX_ID_END ? 0 : fields[6].number;
    put->shape = fields[7].text;
    put->shape_len = (uint16_t)fields[7].len;
    put->key_number = (uint8_t)fields[8].number;
    *ret_secret = fields[7].number != 0;
    return 0;
}

/* The shape of the put with a key behind it, in these bytes. */
static void draw_key(struct tag_put *put, char shape[TAG_SHAPE_BYTES_MAX])
{
    memcpy(shape, put->shape, put->shape_len);
    shape[put->shape_len] = '\0';
    entropy_bytes(shape + put->shape_len + 1, SHAPE_KEY_BYTES);
    put->shape = shape;
    put->shape_len = (uint16_t)(put->shape_len + 1 + SHAPE_KEY_BYTES);
}

int tag_json_add(json_t *object, const char *name, size_t name_len, struct buf *command,
                 struct body_fault *ret_fault)
{
    struct tag_put put = {.name = name, .name_len = (uint16_t)name_len};
    char shape[TAG_SHAPE_BYTES_MAX];
    char key[SHAPE_KEY_BYTES];
    bool secret = false;
    int rv = read_object(object, &put, &secret, ret_fault);

    if (rv != 0) {
        return rv;
    }
    if (secret) {
        draw_key(&put, shape);
    }
    if ((put.fields & TAG_FIELD_KEY) != 0) {
        entropy_bytes(key, sizeof key);
        put.key = key;
        put.key_len = sizeof key;
    }
    command_item_put(command, (enum command_type)command_type(command->data, command->len), &put);
    return 0;
}

int tag_json_read_one(const char *name, size_t name_len, const void *body, size_t len,
                      const struct command_list *head, struct buf *command,
                      struct body_fault *ret_fault)
{
    json_t *object = body_parse(len > 0 ? body : "{}", 0, len > 0 ? len : 2, ret_fault);
    int rv = ERR_INVALID;

    ASSERT(name_len > 0 && name_len <= LIMIT_TAG_NAME_BYTES);
    if (object != NULL) {
        command_put(command, command_put_type(head), head);
        rv = tag_json_add(object, name, name_len, command, ret_fault);
    }
    json_decref(object);
    if (rv == 0) {
        command_items_end(command);
    }
    return rv;
}

bool tag_period_now(const struct shape *shape, uint64_t max_id, struct zones *zones,
                    uint64_t wall_ms, struct tag_period *ret_period)
{
    enum date_part unit = (enum date_part)shape->date.unit;
    char time[TEXT_TIME_BYTES];
    uint64_t local_ms;
    uint64_t elapsed_ms;
    uint64_t length_ms;
    uint64_t first;
    uint64_t end;

    if (shape->date.count == 0 || !zones_local_ms(zones, shape->date.zone, wall_ms, &local_ms)) {
        return false;
    }
    ret_period->number = shape_period(unit, local_ms);
    shape_period_ids(shape, max_id, ret_period->number, &first, &end);
    ret_period->left = first < end ? end - first : 0;
    shape_period_times(unit, local_ms, &elapsed_ms, &length_ms);
    (void)snprintf(ret_period->next, sizeof ret_period->next, "on %.10s (%s)",
                   text_time_rfc3339(local_ms - elapsed_ms + length_ms, time),
                   shape->date.zone[0] != '\0' ? shape->date.zone : "UTC");
    return true;
}

/* A warning, if less than a tenth is left, of the ids below its max or of this period's; and of a
 * new tag, if its name looks like another one. */
static void put_warning(const struct tag_row *row, bool is_new, struct zones *zones,
                        uint64_t wall_ms, struct buf *buf)
{
    struct tag_period period;
    struct shape shape;
    char looks[LOOKS_WHY_BYTES];
    BUF_LOCAL(warning);

    if (tag_is_nearly_exhausted(row)) {
        buf_printf(&warning, "less than 10 %% of the ids below max are left");
    } else if (tag_is_dated(row) && tag_shape(row->shape, row->shape_len, &shape, NULL) == 0 &&
               tag_period_now(&shape, row->max_id, zones, wall_ms, &period) &&
               period.left < (shape.numbers + 9) / 10) {
        buf_printf(&warning,
                   "less than 10 %% of the numbers of %u are left; the tag counts from 1 again %s",
                   period.number, period.next);
    }
    if (is_new && looks_like_another(row->name, row->name_len, looks)) {
        buf_printf(&warning, "%sthe name looks like another one: %s", warning.len > 0 ? "; " : "",
                   looks);
    }
    if (warning.len > 0) {
        text_put_field_of(buf, ",\"warning\":", (const char *)warning.data, warning.len);
    }
}

void tag_json_put(const struct tag_row *row, bool is_new, struct zones *zones, uint64_t wall_ms,
                  struct buf *buf)
{
    char time[TEXT_TIME_BYTES];

    text_put_field_of(buf, "{\"tag\":", row->name, row->name_len);
    buf_printf(buf, ",\"max_id\":\"%llu\",\"step\":%u,\"max_step\":%u,\"mode\":\"%s\"",
               ull(row->max_id), row->step, row->max_step, tag_mode_name(row->mode));
    if (row->max > 0) {
        buf_printf(buf, ",\"max\":\"%llu\"", ull(row->max));
    }
    if (row->shape_len > 0) {
        text_put_field_of(buf, ",\"shape\":", row->shape,
                          tag_shape_text_len(row->shape, row->shape_len));
    }
    if (tag_is_rekeyable(row)) {
        buf_printf(buf, ",\"key\":%u", tag_key_number(row));
    }
    put_warning(row, is_new, zones, wall_ms, buf);
    if (row->mode != TAG_MODE_TREND) {
        buf_printf(buf, ",\"changing\":%s", row->recalling ? "true" : "false");
    }
    text_put_field_of(buf, ",\"description\":", row->description != NULL ? row->description : "",
                      row->description_len);
    text_put_field(buf, ",\"created\":", text_time_rfc3339(row->created_ms, time));
    text_put_field(buf, ",\"updated\":", text_time_rfc3339(row->updated_ms, time));
    buf_printf(buf, ",\"generation\":%u}", row->generation);
}
