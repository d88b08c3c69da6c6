/*
 * config_table.h - the table of settings, and what the files of the configuration share.
 *
 * Everything about a setting stands in its row: the flag's and the variable's name, parsing,
 * --help,
 * --print-config and the table in docs/configuration.md all come from it. Thread: main.
 */
#ifndef LEAFD_APP_CONFIG_TABLE_H
#define LEAFD_APP_CONFIG_TABLE_H

#include "src/app/config.h"

#define CONFIG_ENV_PREFIX "LEAFD_"

enum config_type {
    CONFIG_UINT,    /* decimal digits; min and max bound the value */
    CONFIG_BYTES,   /* the same, with KiB, MiB, GiB or TiB behind it */
    CONFIG_BOOL,    /* true or false */
    CONFIG_NAME,    /* letters, digits, '.', '_', '-'; max bounds the length */
    CONFIG_PATH,    /* a file or directory; max bounds the length */
    CONFIG_ADDRESS, /* host:port; max bounds the length */
    CONFIG_LEVEL,   /* of the log */
    CONFIG_MEMBERS, /* id=host:port,... */
    CONFIG_TARGETS, /* host:port,... or nothing */
    CONFIG_LAYOUT   /* of snowflake ids: a name or bits; the field's epoch is left alone */
};

struct config_key {
    const char *name; /* "http.timeout-ms": --http-timeout-ms, LEAFD_HTTP_TIMEOUT_MS */
    enum config_type type;
    uint64_t min;
    uint64_t max;
    const char *unit;     /* "ms", "bytes", "%", or NULL */
    const char *fallback; /* the default, as it would be written; NULL: the setting is required */
    const char *fallback_doc; /* what the default means, where its text does not say it; or NULL */
    size_t offset;            /* of the field in struct config */
    const char *description;
};

extern const struct config_key config_keys[];
extern const size_t config_key_count;

/* The row of a name; the count of rows when there is none. */
size_t config_key_find(const char *name, size_t len);

#define CONFIG_KEY_TEXT_BYTES 48 /* a flag's or a variable's name */

/* "--http-timeout-ms" and "LEAFD_HTTP_TIMEOUT_MS" of a row. Return out. */
const char *config_key_flag(const struct config_key *key, char out[CONFIG_KEY_TEXT_BYTES]);
const char *config_key_variable(const struct config_key *key, char out[CONFIG_KEY_TEXT_BYTES]);

/* A type's values in words: "1..65535", "true or false". Appended to out. */
void config_key_rule(const struct config_key *key, struct buf *out);

/* Where the present value of row i came from: "leafd.conf:3", "LEAFD_NODE_ID", "--node-id",
 * "default". */
void config_where(const struct config *config, size_t i, struct buf *out);

/*
 * Check the text against the row's rule and put it into its field. 0, or ERR_INVALID with
 * *ret_error saying what is wrong (without where it came from), and the field unchanged.
 */
int config_value_set(struct config *config, const struct config_key *key, const char *text,
                     struct config_error *ret_error) MUST_CHECK;

/* Parse decimal digits: true if there are only digits and the value fits. */
bool config_parse_uint(const char *text, size_t len, uint64_t *ret_value);

/* Split "host:port". True if it is valid; host gets no brackets. */
bool config_address_split(const char *address, char host[LIMIT_ADDRESS_BYTES + 1],
                          uint16_t *ret_port, struct config_error *ret_error) MUST_CHECK;

/* One line of a config file, given to the reader's caller. key and value are NUL-terminated. */
typedef int (*config_line_fn)(void *data, unsigned line, const char *key, const char *value,
                              struct config_error *ret_error);

/* Read a config file and call fn for each setting in it. 0, or ERR_INVALID with *ret_error naming
 * file and line; fn's error texts get "file:line: " put before them. */
int config_file_read(const char *path, config_line_fn fn, void *data,
                     struct config_error *ret_error) MUST_CHECK;

/* Can ids of the layout be stamped at this time? A clock that stands before leafd was written is
 * wrong, and no reason to refuse an epoch. 0, or ERR_INVALID with *ret_error. */
int config_layout_check(const struct config *config, uint64_t now_ms,
                        struct config_error *ret_error) MUST_CHECK;

/* Read the secret into config. 0 or ERR_INVALID with *ret_error. */
int config_secret_read(struct config *config, struct config_error *ret_error) MUST_CHECK;

/* Set the error's text, cut to size, and return ERR_INVALID. */
int config_fail(struct config_error *ret_error, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
