/*
 * head.h - what a head says beside its framing (parser.h): the target's path and query, percent
 * decoding, strict query options; and headers that few handlers read.
 *
 * The happy path: target_split() finds path and query in place; target_decode() undoes percent
 * encoding of one piece; options_parse() fills the table of options that a route knows.
 *
 * Failure modes: ERR_INVALID with a text that names the fault; ERR_TOO_LARGE when a decoded piece
 * does not fit its space; a header whose value breaks its rules counts as absent. Nothing
 * allocates.
 *
 * Thread: pure functions, any.
 */
#ifndef LEAFD_HTTP_PROTO_HEAD_H
#define LEAFD_HTTP_PROTO_HEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/base/err.h"

/* --- the target --- */

struct target {
    const char *authority; /* of an absolute-form one; NULL: there is none */
    size_t authority_len;
    const char *path;  /* in the raw target, from its first '/' to the '?' */
    size_t path_len;   /* 0 for "http://host" */
    const char *query; /* after the '?'; NULL if there is none */
    size_t query_len;
};

/* Split an origin-form ("/path?query") or absolute-form ("http://host/path?query") target. */
int target_split(const char *raw, size_t len, struct target *ret_target) MUST_CHECK;

enum target_plus { TARGET_PLUS_IS_PLUS, TARGET_PLUS_IS_SPACE };

/* Undo percent encoding into out (size bytes, no NUL added). In a query a '+' means a space, in a
 * path it is itself. ERR_INVALID: a '%' without two hex digits; ERR_TOO_LARGE: more than size. */
int target_decode(const char *text, size_t len, enum target_plus plus, char *out, size_t size,
                  size_t *ret_len) MUST_CHECK;

struct body_fault;
struct json_t;

enum param_kind {
    PARAM_NUMBER, /* a whole number, min to max */
    PARAM_WORD,   /* one of `words`; `number` is its place among them */
    PARAM_TEXT    /* taken as it is; the caller checks it, except max, its bytes of UTF-8 */
};

/* An option of a query, or a field of a body (http/api/json.h). Reading fills in `present` and the
 * members after the blank line. */
struct param {
    const char *name;
    enum param_kind kind;
    bool needed;       /* in a body */
    bool takes_digits; /* a number in a body: also a string of its digits */
    bool takes_null;   /* a number in a body: null is 0 */
    bool may_be_empty; /* an option: "name=" counts as absent */
    bool present;
    uint64_t min;
    uint64_t max;
    const char *const *words; /* NULL after the last */
    const char *rule;         /* of a word, for a message: "is neither 1 nor 0" */
    const char *code;         /* of its fault; NULL: bad_request */
    /* Checks a text in a body (`rule` is the message for a text that fails). 0, or an error with
     * *ret_why. */
    int (*check)(const char *text, size_t len, const char **ret_why);
    /* Reads a body's value by its own rules. 0 or ERR_INVALID with *ret_fault */
    int (*read)(const struct json_t *value, struct param *field, struct body_fault *ret_fault);

    uint64_t number;  /* unchanged if absent: the caller's default */
    const char *text; /* borrowed from the object, or from the option's text */
    size_t len;
};

#define OPTION_WHY_BYTES 256

/* How names that are not in the table, and pairs that cannot be read, are treated. */
enum options_others { OPTIONS_OTHERS_REFUSED, OPTIONS_OTHERS_IGNORED };

/*
 * Parse "a=1&b=2" strictly: a name that is not in the table (unless such are ignored), a name given
 * twice, an empty name, and bad percent encoding are ERR_INVALID, with the reason in ret_why
 * (OPTION_WHY_BYTES). If nothing in the query is encoded, values point into it; else decoded values
 * go to space, which must have query_len bytes.
 */
int options_parse(const char *query, size_t query_len, enum options_others others,
                  struct param *options, size_t count, char *space, char *ret_why) MUST_CHECK;

/* --- headers --- */

/* Does an Accept header name application/json, and neither text/plain nor all types? */
bool header_wants_json(const char *accept, size_t len);

/* Does an Accept header prefer OpenMetrics 1.0.0 to the text format of Prometheus? */
bool header_wants_openmetrics(const char *accept, size_t len);

#define HEADER_TRACE_BYTES 33 /* an id of a trace as text, with its NUL */

/* The trace id of a traceparent (W3C Trace Context, level 1): 32 hexadecimal digits in lower case.
 * False: it breaks a rule. */
bool header_trace(const char *traceparent, size_t len, char ret_trace[HEADER_TRACE_BYTES]);

#endif
