/*
 * json.h - JSON: bodies of requests read strictly, and rows of the state (tags, layouts) written.
 *
 * The happy path: body_parse() parses one value; body_fields() reads an object by a table of
 * fields, each with its kind, bounds and rule; param_take() reads the options of a query by the
 * same table. tag_json_read_one() turns the body of a PUT into a command that puts a tag;
 * tag_json_put() shows a row in a form that can be read again. The key of a secret shape is drawn
 * here, and never shown.
 *
 * Many tags. The body of POST /api/tags is an array of objects, or one object a line, each with its
 * "tag"; or the output of GET /api/tags, page after page, whose fields that cannot be set are left
 * out. Call tag_bulk_step() until it is done; between two steps other connections have their turn.
 * No more than one object is in memory as JSON.
 *
 * Failure modes: a body that is no JSON (bad_json, with line and column); a number that no field
 * can hold, an unknown or missing field, a value that breaks its rule (bad_request as a rule, with
 * field, value and rule); a bad name (bad_tag). With many tags the fault names the item, line or
 * page. The first fault ends the reading; one tag too many (LIMIT_TAGS_PER_BULK) is a fault.
 * Nothing is taken from a body with a fault.
 *
 * Thread: any; pure functions, but for the key.
 */
#ifndef LEAFD_HTTP_API_JSON_H
#define LEAFD_HTTP_API_JSON_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "http/proto/head.h"
#include "src/base/container.h"
#include "src/base/err.h"
#include "src/base/zone.h"
#include "src/id/codec/command.h"

#define BODY_SHOWN_BYTES 80

/* %s, %u: what needs which level. For the code "newer". */
#define NEEDS_LEVEL                                                                                \
    "%s level %u, and the cluster is at a lower one: GET /api/cluster/level says what is in the "  \
    "way"

struct body_fault {
    const char *code; /* static */
    char message[400];
};

/* Parse the one value at [from, to) of the text. A value that breaks a bound of LIMIT_JSON_* is not
 * parsed. Lines and columns are those of the text. NULL with *ret_fault; else the caller owns
 * it. */
json_t *body_parse(const char *text, size_t from, size_t to, struct body_fault *ret_fault);

/* Read a text: an option's, or that of a string in a body. 0, or ERR_INVALID with *ret_fault. */
int param_take(struct param *field, const char *text, size_t len,
               struct body_fault *ret_fault) MUST_CHECK;

/* Read an object whose fields are those of the table. `what` names it for a message ("a worker's
 * fields"). 0, or ERR_INVALID with *ret_fault. */
int body_fields(json_t *object, const char *what, struct param *fields, size_t count,
                struct body_fault *ret_fault) MUST_CHECK;

/* --- where a JSON value ends ---
 *
 * The JSON library makes a tree of what it reads, 40 to 100 bytes for each byte of "[{},{},...". So
 * every value is measured first, by its brackets and quotes: how long, how many values, how deep.
 * Where the text is JSON, the library ends at the same place; where it is not, it finds the fault
 * before that. At most LIMIT_JSON_BYTES are looked at, however long the text is. */

/* The first place at or after `at` that is no JSON white space; len if there is none. */
size_t json_skip_space(const char *text, size_t len, size_t at);

/* The end of the value that begins at `at`, which is no white space; len if it is not whole. 0 with
 * *ret_why (static: "has more than 64 values") when it breaks a bound. */
size_t json_end(const char *text, size_t len, size_t at, const char **ret_why);

/* --- tags --- */

/* Read one object with the tag's fields into the command, which already has its head. An empty body
 * is an empty object. 0, or ERR_INVALID with *ret_fault. */
int tag_json_read_one(const char *name, size_t name_len, const void *body, size_t len,
                      const struct command_list *head, struct buf *command,
                      struct body_fault *ret_fault) MUST_CHECK;

/* The present period of a tag with a date, by this node's clock, or the later one that max_id is
 * in. */
struct tag_period {
    uint32_t number; /* yyyy, yyyymm or yyyymmdd */
    uint64_t left;   /* numbers left in it */
    char next[64];   /* "on 2027-01-01 (Europe/Berlin)": when the next begins */
};

/* max_id, bound: the tag's (tag_bound()). False: the shape has no date, or no later period has
 * numbers below the bound, or this system does not know the zone. */
bool tag_period_now(const struct shape *shape, uint64_t max_id, uint64_t bound, struct zones *zones,
                    uint64_t wall_ms, struct tag_period *ret_period);

/* Append a row as a JSON object. zones, wall_ms: for a warning about a tag with a date; is_new:
 * with a warning about its name. */
void tag_json_put(const struct tag_row *row, bool is_new, struct zones *zones, uint64_t wall_ms,
                  struct buf *buf);

/* --- many tags --- */

enum tag_bulk_state {
    TAG_BULK_BEGIN,
    TAG_BULK_LINE,        /* a line follows */
    TAG_BULK_FIRST_ITEM,  /* after an array's bracket */
    TAG_BULK_ITEM,        /* after a comma in it */
    TAG_BULK_PAGE,        /* a page follows, or the end */
    TAG_BULK_MEMBER,      /* the name of a page's member follows */
    TAG_BULK_BEHIND_VALUE /* its value is read */
};

/* The caller sets the first four; the rest is zeros. */
struct tag_bulk {
    const char *text; /* the body, borrowed */
    size_t len;
    struct command_list head;
    struct buf *command; /* borrowed */
    size_t at;
    size_t count; /* tags */
    size_t pages; /* 0: no dump */
    enum tag_bulk_state state;
    bool has_tags; /* the page had "tags"; */
    bool has_next; /* had "next" */
};

/* Read on, about `bytes` bytes. 0; or ERR_INVALID with *ret_fault. */
int tag_bulk_step(struct tag_bulk *bulk, size_t bytes, bool *ret_done,
                  struct body_fault *ret_fault) MUST_CHECK;

/* --- layouts of snowflake ids --- */

struct layout_row;
struct snowflake;

/* The words for enum layout_order. */
extern const char *const layout_orders[];

void layout_row_json_put(const struct layout_row *row, bool deleted, struct buf *json);

/* Append the layout of this cluster's snowflake ids: an object, or null if this node does not know
 * it, or for NULL. `before` is put first, unchanged. */
void layout_json_put(const struct snowflake *snowflake, const char *before, struct buf *json);

#endif
