/*
 * tag_json.h - tags as JSON: bodies of PUT and POST /api/tags read strictly, rows written.
 *
 * The happy path: tag_json_read_one() or tag_json_read_bulk() turns a body into the items of a
 * COMMAND_TAGS_PUT, or says that it must be a COMMAND_TAGS_PUT_BOUNDED, into which it is then read
 * anew; tag_json_put() shows a row, and what it shows can be read again.
 *
 * Failure modes: a body that is no JSON (bad_json, with line and column), a field that is unknown,
 * of the wrong type or out of range (bad_request, with field, value and rule), a bad name
 * (bad_tag). In a bulk the item is named. Nothing is taken from a body with any fault.
 *
 * Thread: pure functions, any.
 */
#ifndef LEAFD_HTTP_API_TAG_JSON_H
#define LEAFD_HTTP_API_TAG_JSON_H

#include "http/api/body.h"
#include "src/id/codec/command.h"

/* Read one object of fields for the tag and append it as a put item to the command. An empty body
 * is an empty object. 0, or ERR_INVALID with *ret_fault. */
int tag_json_read_one(const char *name, size_t name_len, const void *body, size_t len,
                      struct buf *command, bool *ret_bounded,
                      struct body_fault *ret_fault) MUST_CHECK;

/* Read an array of objects, or objects one a line, each with its "tag", and append them; or what
 * GET /api/tags has shown, page after page: of those objects the fields that cannot be set
 * (changing, created, updated, generation, warning) are left out. */
int tag_json_read_bulk(const void *body, size_t len, struct buf *command, bool *ret_bounded,
                       struct body_fault *ret_fault) MUST_CHECK;

/* Append a row as a JSON object. */
void tag_json_put(const struct tag_row *row, struct buf *buf);

#endif
