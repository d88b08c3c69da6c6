/*
 * tag_bulk.c - see tag_bulk.h. Thread: one owner.
 */
#include "http/api/tag_bulk.h"

#include <stdio.h>
#include <string.h>

#include "http/api/body.h"
#include "http/proto/text.h"
#include "src/base/assert.h"

#define STEP_DONE 1

void tag_bulk_begin(struct tag_bulk *bulk, const void *body, size_t len,
                    const struct command_list *head, struct buf *command)
{
    *bulk = (struct tag_bulk){.text = body, .len = len, .head = *head, .command = command};
}

/* --- faults --- */

/* Put "item N: ", "line N: " or "page N: " before a fault's message. */
static int fault_at(struct body_fault *ret_fault, const char *what, size_t number)
{
    char message[sizeof ret_fault->message];

    memcpy(message, ret_fault->message, sizeof message);
    return body_fail(ret_fault, ret_fault->code, "%s %zu: %.360s", what, number, message);
}

/* Text that is no JSON: of a dump, the page is named. */
static int bad_json(const struct tag_bulk *bulk, struct body_fault *ret_fault)
{
    return bulk->pages > 0 ? fault_at(ret_fault, "page", bulk->pages) : ERR_INVALID;
}

/* Not what had to follow. */
static int expected(const struct tag_bulk *bulk, const char *what, struct body_fault *ret_fault)
{
    char shown[BODY_SHOWN_BYTES];
    char why[2 * BODY_SHOWN_BYTES];
    size_t left = bulk->len - bulk->at;

    if (left == 0) {
        (void)snprintf(why, sizeof why, "%s expected near end of file", what);
    } else {
        (void)snprintf(
            why, sizeof why, "%s expected near %s", what,
            text_show(bulk->text + bulk->at, left < 16 ? left : 16, shown, sizeof shown));
    }
    (void)body_fail_at(bulk->text, bulk->at, why, ret_fault);
    return bad_json(bulk, ret_fault);
}

static int no_page(struct body_fault *ret_fault)
{
    return body_fail(ret_fault, "bad_request",
                     "an object with \"tags\" is a page of GET /api/tags, which has \"tags\" "
                     "and \"next\" (a name or null) and nothing else");
}

/* --- pieces --- */

static void skip_space(struct tag_bulk *bulk)
{
    bulk->at = json_skip_space(bulk->text, bulk->len, bulk->at);
}

/* What is there behind white space? '\0' at the end. */
static char peek(struct tag_bulk *bulk)
{
    skip_space(bulk);
    return bulk->at < bulk->len ? bulk->text[bulk->at] : '\0';
}

/* The value that begins at `at`. NULL with *ret_fault. */
static json_t *take_value(struct tag_bulk *bulk, struct body_fault *ret_fault)
{
    const char *why;
    size_t end = json_end(bulk->text, bulk->len, bulk->at, &why);
    json_t *value = body_parse(bulk->text, bulk->at, end > 0 ? end : bulk->len, ret_fault);

    if (value != NULL) {
        bulk->at = end;
    }
    return value;
}

/* One tag more. */
static int bulk_add_tag(struct tag_bulk *bulk, json_t *object, struct body_fault *ret_fault)
{
    static const char *const shown[] = {"changing", "created", "updated", "generation", "warning"};

    for (size_t i = 0; bulk->pages > 0 && i < COUNT_OF(shown); i++) {
        (void)json_object_del(object, shown[i]);
    }
    return tag_json_add(object, NULL, 0, bulk->command, ret_fault);
}

/* Count one tag more, before it is read. */
static int count_tag(struct tag_bulk *bulk, struct body_fault *ret_fault)
{
    if (++bulk->count <= LIMIT_TAGS_PER_BULK) {
        return 0;
    }
    return body_fail(ret_fault, "bad_request", "%zu tags or more in one call; the limit is %d",
                     bulk->count, LIMIT_TAGS_PER_BULK);
}

/* --- an array, the body's or a page's --- */

static int end_array(struct tag_bulk *bulk, struct body_fault *ret_fault)
{
    if (bulk->pages > 0) {
        bulk->state = TAG_BULK_BEHIND_VALUE;
        return 0;
    }
    if (bulk->count == 0) {
        return body_fail(ret_fault, "bad_request", "the array holds no tags");
    }
    return peek(bulk) == '\0' && bulk->at == bulk->len ? STEP_DONE
                                                       : expected(bulk, "end of file", ret_fault);
}

/* One item, and what stands behind it. */
static int step_item(struct tag_bulk *bulk, struct body_fault *ret_fault)
{
    char next = peek(bulk);
    json_t *object;
    int rv;

    if (next == ']' && bulk->state == TAG_BULK_FIRST_ITEM) {
        bulk->at++;
        return end_array(bulk, ret_fault);
    }
    if (bulk->at == bulk->len) {
        return expected(bulk, "']'", ret_fault);
    }
    rv = count_tag(bulk, ret_fault);
    if (rv != 0) {
        return rv;
    }
    object = take_value(bulk, ret_fault);
    if (object == NULL) {
        return bad_json(bulk, ret_fault);
    }
    rv = bulk_add_tag(bulk, object, ret_fault);
    json_decref(object);
    if (rv != 0) {
        return rv == ERR_INVALID ? fault_at(ret_fault, "item", bulk->count - 1) : rv;
    }
    next = peek(bulk);
    if (next != ',' && next != ']') {
        return expected(bulk, "']'", ret_fault);
    }
    bulk->at++;
    bulk->state = TAG_BULK_ITEM;
    return next == ']' ? end_array(bulk, ret_fault) : 0;
}

/* --- pages of GET /api/tags --- */

static bool is_next(const json_t *value)
{
    return json_is_string(value) || json_is_null(value);
}

/* A member's name and the colon; borrowed until the value is freed. NULL with *ret_fault. */
static json_t *take_name(struct tag_bulk *bulk, struct body_fault *ret_fault)
{
    json_t *name;

    if (peek(bulk) != '"') {
        (void)expected(bulk, "string or '}'", ret_fault);
        return NULL;
    }
    name = take_value(bulk, ret_fault);
    if (name == NULL) {
        (void)bad_json(bulk, ret_fault);
    } else if (peek(bulk) != ':') {
        (void)expected(bulk, "':'", ret_fault);
        json_decref(name);
        return NULL;
    } else {
        bulk->at++;
        skip_space(bulk);
    }
    return name;
}

static bool name_is(const json_t *name, const char *text)
{
    return strcmp(json_string_value(name), text) == 0;
}

/* Does a page begin at `at`: an object with "tags", first or behind "next"? The bulk is looked at
 * as a copy, which nobody keeps. */
static bool page_begins(struct tag_bulk bulk)
{
    struct body_fault fault;
    bool is_page = false;

    for (unsigned i = 0; i < 2 && !is_page && peek(&bulk) == (i == 0 ? '{' : ','); i++) {
        json_t *name;
        json_t *value;

        bulk.at++;
        name = take_name(&bulk, &fault);
        is_page = name != NULL && name_is(name, "tags");
        value = name != NULL && !is_page && name_is(name, "next") && bulk.at < bulk.len
                    ? take_value(&bulk, &fault)
                    : NULL;
        json_decref(name);
        json_decref(value);
        if (value == NULL) {
            break;
        }
    }
    return is_page;
}

/* A page, or the end. */
static int step_page(struct tag_bulk *bulk, struct body_fault *ret_fault)
{
    skip_space(bulk);
    if (bulk->at == bulk->len) {
        return bulk->count > 0 ? STEP_DONE
                               : body_fail(ret_fault, "bad_request", "the pages hold no tags");
    }
    bulk->pages++;
    if (!page_begins(*bulk)) {
        return body_fail(ret_fault, "bad_request", "page %zu is not what GET /api/tags gives",
                         bulk->pages);
    }
    bulk->at++;
    bulk->has_tags = false;
    bulk->has_next = false;
    bulk->state = TAG_BULK_MEMBER;
    return 0;
}

static int begin_tags(struct tag_bulk *bulk, struct body_fault *ret_fault)
{
    if (peek(bulk) != '[') {
        return body_fail(ret_fault, "bad_request", "\"tags\" is not an array");
    }
    bulk->at++;
    bulk->has_tags = true;
    bulk->state = TAG_BULK_FIRST_ITEM;
    return 0;
}

static int take_next(struct tag_bulk *bulk, struct body_fault *ret_fault)
{
    json_t *value = bulk->at < bulk->len ? take_value(bulk, ret_fault) : NULL;
    int rv;

    if (value == NULL) {
        return bulk->at < bulk->len ? bad_json(bulk, ret_fault)
                                    : expected(bulk, "a name or null", ret_fault);
    }
    rv = is_next(value) ? 0 : no_page(ret_fault);
    json_decref(value);
    bulk->has_next = true;
    bulk->state = TAG_BULK_BEHIND_VALUE;
    return rv;
}

static int step_member(struct tag_bulk *bulk, struct body_fault *ret_fault)
{
    json_t *name = take_name(bulk, ret_fault);
    bool at_tags = name != NULL && name_is(name, "tags");
    bool at_next = name != NULL && name_is(name, "next");

    if (name == NULL) {
        return ERR_INVALID;
    }
    json_decref(name);
    if ((at_tags && bulk->has_tags) || (at_next && bulk->has_next)) {
        (void)body_fail_at(bulk->text, bulk->at, "duplicate object key", ret_fault);
        return bad_json(bulk, ret_fault);
    }
    if (at_tags) {
        return begin_tags(bulk, ret_fault);
    }
    return at_next ? take_next(bulk, ret_fault) : no_page(ret_fault);
}

static int step_behind_value(struct tag_bulk *bulk, struct body_fault *ret_fault)
{
    char next = peek(bulk);

    if (next != ',' && next != '}') {
        return expected(bulk, "'}'", ret_fault);
    }
    ASSERT(next == ',' || bulk->has_tags); /* page_begins() has seen it */
    bulk->at++;
    bulk->state = next == ',' ? TAG_BULK_MEMBER : TAG_BULK_PAGE;
    return 0;
}

/* --- lines --- */

static bool bulk_line_is_blank(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (text[i] != ' ' && text[i] != '\t' && text[i] != '\r') {
            return false;
        }
    }
    return true;
}

static int bulk_read_line(struct tag_bulk *bulk, size_t end, struct body_fault *ret_fault)
{
    json_t *object;
    int rv = count_tag(bulk, ret_fault);

    if (rv != 0) {
        return rv;
    }
    object = body_parse(bulk->text, bulk->at, end, ret_fault);
    rv = object != NULL ? bulk_add_tag(bulk, object, ret_fault) : ERR_INVALID;
    /* What is no JSON names its line itself. */
    if (rv == ERR_INVALID && (object != NULL || strcmp(ret_fault->code, "bad_json") != 0)) {
        fault_at(ret_fault, "line", body_line(bulk->text, bulk->at));
    }
    json_decref(object);
    return rv;
}

static int step_line(struct tag_bulk *bulk, struct body_fault *ret_fault)
{
    const char *begin = bulk->text + bulk->at;
    const char *newline = memchr(begin, '\n', bulk->len - bulk->at);
    size_t end = newline != NULL ? (size_t)(newline - bulk->text) : bulk->len;
    int rv = 0;

    if (!bulk_line_is_blank(begin, end - bulk->at)) {
        rv = bulk_read_line(bulk, end, ret_fault);
    }
    if (rv != 0) {
        return rv;
    }
    bulk->at = end + (newline != NULL);
    ASSERT(bulk->at < bulk->len || bulk->count > 0);
    return bulk->at < bulk->len ? 0 : STEP_DONE;
}

/* --- all of it --- */

static int step_begin(struct tag_bulk *bulk, struct body_fault *ret_fault)
{
    char first = peek(bulk);

    if (bulk->at == bulk->len) {
        return body_fail(ret_fault, "bad_json", "the body is empty; it holds no tags");
    }
    bulk->head.is_dump = first != '[' && page_begins(*bulk);
    command_put(bulk->command, command_put_type(&bulk->head), &bulk->head);
    if (first == '[') {
        bulk->at++;
        bulk->state = TAG_BULK_FIRST_ITEM;
    } else {
        bulk->state = bulk->head.is_dump ? TAG_BULK_PAGE : TAG_BULK_LINE;
    }
    return 0;
}

static int bulk_step(struct tag_bulk *bulk, struct body_fault *ret_fault)
{
    switch (bulk->state) {
    case TAG_BULK_BEGIN:
        return step_begin(bulk, ret_fault);
    case TAG_BULK_LINE:
        return step_line(bulk, ret_fault);
    case TAG_BULK_FIRST_ITEM:
    case TAG_BULK_ITEM:
        return step_item(bulk, ret_fault);
    case TAG_BULK_PAGE:
        return step_page(bulk, ret_fault);
    case TAG_BULK_MEMBER:
        return step_member(bulk, ret_fault);
    case TAG_BULK_BEHIND_VALUE:
        return step_behind_value(bulk, ret_fault);
    }
    UNREACHABLE("a state of a bulk");
}

int tag_bulk_step(struct tag_bulk *bulk, size_t bytes, bool *ret_done, struct body_fault *ret_fault)
{
    size_t from = bulk->at;
    int rv = 0;

    while (rv == 0 && bulk->at - from < bytes) {
        rv = bulk_step(bulk, ret_fault);
    }
    *ret_done = rv == STEP_DONE;
    if (*ret_done) {
        command_items_end(bulk->command);
    }
    return rv == STEP_DONE ? 0 : rv;
}
