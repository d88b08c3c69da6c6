/*
 * tag_json.h - tags as JSON: the objects of PUT and POST /api/tags read strictly, rows written.
 *
 * The happy path: tag_json_read_one() turns the body of a PUT into a command that puts tags;
 * tag_bulk.h does so with those of a POST; tag_json_put() shows a row, and what it shows can be
 * read again.
 * The key of a secret shape is drawn here, and never shown.
 *
 * Failure modes: a body that is no JSON (bad_json, with line and column), a field that is unknown,
 * of the wrong type or out of range (bad_request, with field, value and rule), a bad name
 * (bad_tag). Nothing is taken from a body with any fault.
 *
 * Thread: any; pure functions, but for the key.
 */
#ifndef LEAFD_HTTP_API_TAG_JSON_H
#define LEAFD_HTTP_API_TAG_JSON_H

#include "http/api/body.h"
#include "src/base/zone.h"
#include "src/id/codec/command.h"

/* Read one object of fields for the tag into the command, whose head is given. An empty body is an
 * empty object. 0, or ERR_INVALID with *ret_fault. */
int tag_json_read_one(const char *name, size_t name_len, const void *body, size_t len,
                      const struct command_list *head, struct buf *command,
                      struct body_fault *ret_fault) MUST_CHECK;

/* Append the put of an object, whose name is given, or NULL: one of its fields. 0, or
 * ERR_INVALID with *ret_fault. */
int tag_json_add(json_t *object, const char *name, size_t name_len, struct buf *command,
                 struct body_fault *ret_fault) MUST_CHECK;

/* Of a tag with a date, the period that it is now by this node's clock. */
struct tag_period {
    uint32_t number; /* yyyy, yyyymm or yyyymmdd */
    uint64_t left;   /* numbers that it has */
    char next[64];   /* "on 2027-01-01 (Europe/Berlin)": when the next begins */
};

/* max_id: of the tag. False: the shape has no date, or this system does not know its zone. */
bool tag_period_now(const struct shape *shape, uint64_t max_id, struct zones *zones,
                    uint64_t wall_ms, struct tag_period *ret_period);

/* Append a row as a JSON object. zones, wall_ms: for a warning of a tag with a date; is_new: one of
 * its name, too. */
void tag_json_put(const struct tag_row *row, bool is_new, struct zones *zones, uint64_t wall_ms,
                  struct buf *buf);

#endif
