/*
 * table.h - the table of settings: the one place where a setting is described.
 *
 * A row says its name, the field it goes into, which values it may have, its default and what it
 * means. The names of flag and variable, parsing, errors, --help, --print-config, the example of a
 * config file and the table in docs/configuration.md all come from it. A type says which texts are
 * values, and how one goes into the field.
 *
 * The happy path: setting_find() a row by a name as some source spells it, config_set() its value;
 * config_print() and its like show what came of it.
 *
 * Failure modes: a value that breaks its row's rule: ERR_INVALID with a text that quotes it and
 * says the rule. Thread: main.
 */
#ifndef LEAFD_NODE_CONFIG_TABLE_H
#define LEAFD_NODE_CONFIG_TABLE_H

#include "src/base/buf.h"
#include "src/node/config/config.h"

#define CONFIG_ENVIRONMENT_PREFIX "LEAFD_"

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
    bool live;                /* SIGHUP changes it while the node runs (src/node/reload.h) */
    const char *meaning;
};

extern const struct setting settings[];
extern const size_t setting_count;

/* The type and its field. */
extern const struct setting_type setting_number;  /* uint32_t or uint64_t: decimal digits */
extern const struct setting_type setting_bytes;   /* uint64_t: the same, with KiB, MiB, ... */
extern const struct setting_type setting_boolean; /* bool */
extern const struct setting_type setting_name;    /* const char *: letters, digits, '.', '_', '-' */
extern const struct setting_type setting_path;    /* const char *: a file */
extern const struct setting_type setting_directory; /* const char * */
extern const struct setting_type setting_address;   /* const char *: host:port */
extern const struct setting_type setting_level;     /* enum log_level */
extern const struct setting_type setting_format;    /* enum log_format */
extern const struct setting_type setting_members;   /* struct node_peers: id=host:port,... */
extern const struct setting_type setting_targets;  /* struct node_peers: host:port,... or nothing */
extern const struct setting_type setting_listener; /* an address, or CONFIG_ADMIN_SAME */
extern const struct setting_type setting_roles;    /* const char *; config_roles() reads it */
extern const struct setting_type setting_hosts;    /* const char *, a list for web.h */
extern const struct setting_type setting_origins;  /* likewise */
extern const struct setting_type setting_proxies;  /* const char *, a list for proxy.h */
extern const struct setting_type setting_tls_client; /* enum tls_client */
extern const struct setting_type setting_sandbox;    /* enum config_sandbox */
extern const struct setting_type setting_bootstrap;  /* enum config_bootstrap */
extern const struct setting_type setting_layout;     /* struct snowflake_layout */
extern const struct setting_type setting_quota;      /* struct quota_settings */
extern const struct setting_type setting_hold;       /* struct upgrade_config */

/* Append which values the setting may have: "0..10000 ms", "true or false". */
void setting_rule(const struct setting *setting, struct buf *out);

/* The same in few words, for a table's cell. */
void setting_rule_brief(const struct setting *setting, struct buf *out);

struct setting_text {
    char text[48];
};

/* A setting's name as a source spells it: "http.timeout-ms" in a file, "--http-timeout-ms",
 * "LEAFD_HTTP_TIMEOUT_MS". Returns out's text. */
const char *setting_spell(const char *name, enum config_source source, struct setting_text *out);

/* The row with this name, as the source spells it; the count of rows when there is none. */
size_t setting_find(const char *text, size_t len, enum config_source source);

/* The row of a name that is in the table (ASSERT). */
size_t setting_row(const char *name);

/* Put a value into its field, and note where it came from. 0, or ERR_INVALID with *ret_error, which
 * quotes it and says the rule (http.loops: "many" is not valid: must be 0..64), and nothing
 * changed. */
int config_set(struct config *config, size_t row, const char *text, enum config_source source,
               unsigned line, struct config_error *ret_error) MUST_CHECK;

/* "ids,health", "none": the roles as bits. 0, or ERR_INVALID with *ret_item, to its comma, that is
 * none. */
int config_roles(const char *list, unsigned *ret_roles, const char **ret_item) MUST_CHECK;

/* Is the row's value the same in both? Numbers count as such, whatever their unit. */
bool setting_same(size_t row, const struct config *one, const struct config *other);

/* Append where the present value came from: "leafd.conf:3", "LEAFD_NODE_ID", "--node-id",
 * "default". */
void config_where(const struct config *config, size_t row, struct buf *out);

/* --- settings as people read them --- */

/* Append all effective settings with their sources, in the syntax of the config file. The secret's
 * content is never printed. */
void config_print(const struct config *config, struct buf *out);

/* Append the text of --help. */
void config_print_help(struct buf *out);

/* Append a config file in which each setting stands with its meaning and default, as a comment. */
void config_print_example(struct buf *out);

/* Append the Markdown table of all settings, as docs/configuration.md holds it. */
void config_print_doc(struct buf *out);

#endif
