/*
 * type.h - the types of settings: for each, which texts are values, the field that a value goes
 * into, and the rule in words.
 *
 * Failure modes: a text that is no value: ERR_INVALID, with a text that quotes it and says the rule
 * ("http.loops: "many" is not valid: must be 0..64"); the field is unchanged. Thread: main.
 */
#ifndef LEAFD_APP_CONFIG_TYPE_H
#define LEAFD_APP_CONFIG_TYPE_H

#include "src/app/config/config.h"
#include "src/base/buf.h"

struct setting_type;

/* A row of the table. */
struct setting {
    const char *name; /* "http.timeout-ms": --http-timeout-ms, LEAFD_HTTP_TIMEOUT_MS */
    const struct setting_type *type;
    size_t offset; /* of the field in struct config */
    size_t size;   /* of the field */
    uint64_t min;  /* of a number; of the length of a text; of the items of a list */
    uint64_t max;
    const char *unit;         /* of a number, or NULL */
    const char *fallback;     /* the default, as it would be written; NULL: required */
    const char *fallback_doc; /* what the default means, where its text does not say it; or NULL */
    const char *meaning;
};

/* The type and its field. */
extern const struct setting_type setting_number;  /* uint32_t or uint64_t: decimal digits */
extern const struct setting_type setting_bytes;   /* uint64_t: the same, with KiB, MiB, ... */
extern const struct setting_type setting_boolean; /* bool */
extern const struct setting_type setting_name;    /* const char *: letters, digits, '.', '_', '-' */
extern const struct setting_type setting_path;    /* const char *: a file or directory */
extern const struct setting_type setting_address; /* const char *: host:port */
extern const struct setting_type setting_level;   /* enum log_level */
extern const struct setting_type setting_members; /* struct node_peers: id=host:port,... */
extern const struct setting_type setting_targets; /* struct node_peers: host:port,... or nothing */
extern const struct setting_type setting_layout;  /* struct snowflake_layout: all but its epoch */

/* Check the text and put it into its field of config. A field of a text is set to the text itself,
 * which has to live as long as the config. 0, or ERR_INVALID with *ret_error. */
int setting_parse(const struct setting *setting, const char *text, struct config *config,
                  struct config_error *ret_error) MUST_CHECK;

/* Append which values the setting may have: "0..10000 ms", "true or false". */
void setting_rule(const struct setting *setting, struct buf *out);

#endif
