/*
 * tag_json.c - see tag_json.h. Thread: pure functions, any.
 */
#include "http/api/tag_json.h"

#include <ctype.h>
#include <string.h>

#include "http/proto/text.h"
#include "src/base/assert.h"

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
    const char *why = "the name of a tag is not a string";

    field->text = json_string_value(value);
    field->len = json_string_length(value);
    if (field->text == NULL || tag_name_check(field->text, field->len, &why) != 0) {
        return body_fail(ret_fault, "bad_tag", "bad tag %s: %s", body_show(value, shown), why);
    }
    return 0;
}

/* The fields of an object into put, whose name is set unless it comes from the object. Strings stay
 * the object's. */
static int read_object(json_t *object, struct tag_put *put, struct body_fault *ret_fault)
{
    static const char *const modes[] = {
        [TAG_MODE_TREND] = "trend", [TAG_MODE_STRICT] = "strict", NULL};
    struct param fields[] = {
        {.name = "tag", .needed = true, .read = read_name},
        {.name = "step", .min = 1, .max = LIMIT_TAG_STEP},
        {.name = "max_id", .max = TAG_MAX_ID_END, .takes_digits = true},
        {.name = "max_step", .min = 1, .max = LIMIT_TAG_STEP},
        {.name = "mode",
         .kind = PARAM_WORD,
         .words = modes,
         .rule = "is neither \"trend\" nor \"strict\""},
        {.name = "description", .read = read_description},
        {.name = "max", .min = 1, .max = TAG_MAX_ID_END, .takes_digits = true},
    };
    static const uint8_t bits[] = {0,
                                   TAG_FIELD_STEP,
                                   TAG_FIELD_MAX_ID,
                                   TAG_FIELD_MAX_STEP,
                                   TAG_FIELD_MODE,
                                   TAG_FIELD_DESCRIPTION,
                                   TAG_FIELD_MAX};
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
    return 0;
}

/* Append the put of an object, whose name is given or one of its fields. One that has a max goes
 * into a command that may have it alone: *ret_bounded says that it is to be that, and all is read
 * anew. */
static int add_object(json_t *object, const char *name, size_t name_len, struct buf *command,
                      bool *ret_bounded, struct body_fault *ret_fault)
{
    struct tag_put put = {.name = name, .name_len = (uint16_t)name_len};
    int rv = read_object(object, &put, ret_fault);

    if (rv != 0) {
        return rv;
    }
    if ((put.fields & TAG_FIELD_MAX) != 0) {
        *ret_bounded = true;
    }
    if (!*ret_bounded || command->data[1] == COMMAND_TAGS_PUT_BOUNDED) {
        command_item_put(command, command->data[1], &put);
    }
    return 0;
}

int tag_json_read_one(const char *name, size_t name_len, const void *body, size_t len,
                      struct buf *command, bool *ret_bounded, struct body_fault *ret_fault)
{
    json_t *object = body_parse(len > 0 ? body : "{}", len > 0 ? len : 2, 1, ret_fault);
    int rv = ERR_INVALID;

    ASSERT(name_len > 0 && name_len <= LIMIT_TAG_NAME_BYTES);
    if (object != NULL) {
        rv = add_object(object, name, name_len, command, ret_bounded, ret_fault);
    }
    json_decref(object);
    return rv;
}

/* Put "item N: " or "line N: " before a fault's message. */
static int fault_at(struct body_fault *ret_fault, const char *what, size_t number)
{
    char message[sizeof ret_fault->message];

    memcpy(message, ret_fault->message, sizeof message);
    return body_fail(ret_fault, ret_fault->code, "%s %zu: %.360s", what, number, message);
}

static int too_many(struct body_fault *ret_fault, size_t count)
{
    return body_fail(ret_fault, "bad_request", "%zu tags or more in one call; the limit is %d",
                     count, LIMIT_TAGS_PER_BULK);
}

static int read_array(const char *body, size_t len, struct buf *command, bool *ret_bounded,
                      struct body_fault *ret_fault)
{
    json_t *array = body_parse(body, len, 1, ret_fault);
    int rv = 0;

    if (array == NULL) {
        return ERR_INVALID;
    }
    ASSERT(json_is_array(array));
    if (json_array_size(array) == 0) {
        rv = body_fail(ret_fault, "bad_request", "the array holds no tags");
    } else if (json_array_size(array) > LIMIT_TAGS_PER_BULK) {
        rv = too_many(ret_fault, json_array_size(array));
    }
    for (size_t i = 0; rv == 0 && i < json_array_size(array); i++) {
        rv = add_object(json_array_get(array, i), NULL, 0, command, ret_bounded, ret_fault);
        if (rv != 0) {
            fault_at(ret_fault, "item", i);
        }
    }
    json_decref(array);
    return rv;
}

static size_t skip_space(const char *text, size_t len, size_t at)
{
    while (at < len && isspace((unsigned char)text[at])) {
        at++;
    }
    return at;
}

/* --- what GET /api/tags has shown --- */

/* Is it a page of it? */
static bool is_page(const json_t *value)
{
    return json_is_object(value) && json_object_get(value, "tags") != NULL;
}

static int check_page(json_t *page, struct body_fault *ret_fault)
{
    const json_t *next = json_object_get(page, "next");
    size_t known = 1 + (next != NULL);

    if (!json_is_array(json_object_get(page, "tags"))) {
        return body_fail(ret_fault, "bad_request", "\"tags\" is not an array");
    }
    if (json_object_size(page) != known ||
        (next != NULL && !json_is_string(next) && !json_is_null(next))) {
        return body_fail(ret_fault, "bad_request",
                         "an object with \"tags\" is a page of GET /api/tags, which has \"tags\" "
                         "and \"next\" (a name or null) and nothing else");
    }
    return 0;
}

/* One page behind *count tags. */
static int read_page(json_t *page, size_t *count, struct buf *command, bool *ret_bounded,
                     struct body_fault *ret_fault)
{
    static const char *const shown[] = {"changing", "created", "updated", "generation", "warning"};
    json_t *tags = json_object_get(page, "tags");
    int rv = check_page(page, ret_fault);

    for (size_t i = 0; rv == 0 && i < json_array_size(tags); i++) {
        json_t *tag = json_array_get(tags, i);

        for (size_t k = 0; k < COUNT_OF(shown); k++) {
            (void)json_object_del(tag, shown[k]);
        }
        rv = ++*count > LIMIT_TAGS_PER_BULK
                 ? too_many(ret_fault, *count)
                 : add_object(tag, NULL, 0, command, ret_bounded, ret_fault);
        if (rv != 0 && *count <= LIMIT_TAGS_PER_BULK) {
            fault_at(ret_fault, "item", *count - 1);
        }
    }
    return rv;
}

/* The first page is read, up to `at`. */
static int read_pages(const char *body, size_t len, json_t *first, size_t at, struct buf *command,
                      bool *ret_bounded, struct body_fault *ret_fault)
{
    size_t pages = 1;
    size_t count = 0;
    int rv = read_page(first, &count, command, ret_bounded, ret_fault);

    while (rv == 0 && (at = skip_space(body, len, at)) < len) {
        size_t used = 0;
        json_t *page = body_parse_first(body + at, len - at, 1, &used, ret_fault);

        pages++;
        if (page == NULL) {
            rv = fault_at(ret_fault, "page", pages);
        } else {
            rv = is_page(page) ? read_page(page, &count, command, ret_bounded, ret_fault)
                               : body_fail(ret_fault, "bad_request",
                                           "page %zu is not what GET /api/tags gives", pages);
        }
        json_decref(page);
        at += used;
    }
    if (rv == 0 && count == 0) {
        rv = body_fail(ret_fault, "bad_request", "the pages hold no tags");
    }
    return rv;
}

/* False: the body is none of these. */
static bool read_dump(const char *body, size_t len, struct buf *command, bool *ret_bounded,
                      struct body_fault *ret_fault, int *ret_rv)
{
    size_t used = 0;
    json_t *first = body_parse_first(body, len, 1, &used, ret_fault);
    bool is_dump = first != NULL && is_page(first);

    if (is_dump) {
        *ret_rv = read_pages(body, len, first, used, command, ret_bounded, ret_fault);
    }
    json_decref(first);
    return is_dump;
}

/* --- lines --- */

static bool is_blank(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (text[i] != ' ' && text[i] != '\t' && text[i] != '\r') {
            return false;
        }
    }
    return true;
}

static int read_line(const char *line, size_t len, int number, struct buf *command,
                     bool *ret_bounded, struct body_fault *ret_fault)
{
    json_t *object = body_parse(line, len, number, ret_fault);
    int rv = ERR_INVALID;

    if (object != NULL) {
        rv = add_object(object, NULL, 0, command, ret_bounded, ret_fault);
    }
    /* What is no JSON names its line itself. */
    if (rv != 0 && strcmp(ret_fault->code, "bad_json") != 0) {
        fault_at(ret_fault, "line", (size_t)number);
    }
    json_decref(object);
    return rv;
}

static int read_lines(const char *body, size_t len, struct buf *command, bool *ret_bounded,
                      struct body_fault *ret_fault)
{
    const char *end = body + len;
    size_t count = 0;
    int number = 0;

    for (const char *at = body; at < end;) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        size_t line_len = (size_t)((newline != NULL ? newline : end) - at);
        int rv = 0;

        number++;
        if (!is_blank(at, line_len)) {
            count++;
            rv = count > LIMIT_TAGS_PER_BULK
                     ? too_many(ret_fault, count)
                     : read_line(at, line_len, number, command, ret_bounded, ret_fault);
        }
        if (rv != 0) {
            return rv;
        }
        at += line_len + 1;
    }
    ASSERT(count > 0);
    return 0;
}

int tag_json_read_bulk(const void *body, size_t len, struct buf *command, bool *ret_bounded,
                       struct body_fault *ret_fault)
{
    const char *text = body;
    size_t at = skip_space(text, len, 0);
    int rv;

    if (at == len) {
        return body_fail(ret_fault, "bad_json", "the body is empty; it holds no tags");
    }
    if (text[at] == '[') {
        return read_array(text, len, command, ret_bounded, ret_fault);
    }
    return read_dump(text, len, command, ret_bounded, ret_fault, &rv)
               ? rv
               : read_lines(text, len, command, ret_bounded, ret_fault);
}

void tag_json_put(const struct tag_row *row, struct buf *buf)
{
    char time[TEXT_TIME_BYTES];

    buf_printf(buf, "{\"tag\":");
    text_put_json(buf, row->name, row->name_len);
    buf_printf(buf, ",\"max_id\":\"%llu\",\"step\":%u,\"max_step\":%u,\"mode\":\"%s\"",
               (unsigned long long)row->max_id, row->step, row->max_step,
               row->mode == TAG_MODE_STRICT ? "strict" : "trend");
    if (row->max > 0) {
        buf_printf(buf, ",\"max\":\"%llu\"", (unsigned long long)row->max);
    }
    if (tag_is_nearly_exhausted(row)) {
        buf_printf(buf, ",\"warning\":\"less than 10 %% of the ids below max are left\"");
    }
    if (row->mode == TAG_MODE_STRICT) {
        buf_printf(buf, ",\"changing\":%s", row->recalling ? "true" : "false");
    }
    buf_printf(buf, ",\"description\":");
    text_put_json(buf, row->description != NULL ? row->description : "", row->description_len);
    buf_printf(buf, ",\"created\":\"%s\"", text_time_rfc3339(row->created_ms, time));
    buf_printf(buf, ",\"updated\":\"%s\"", text_time_rfc3339(row->updated_ms, time));
    buf_printf(buf, ",\"generation\":%u}", row->generation);
}
