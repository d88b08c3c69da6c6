/*
 * config.h - the settings of a node, read once and passed down, and the files that they name.
 *
 * Each layer gets a pointer to the struct of settings that it defines itself.
 *
 * Only the table (table.c) describes a setting. A row has its name, its field, its allowed values,
 * its default and its meaning. The names of flag and variable, parsing, errors, --help,
 * --print-config, the example config file and the table in docs/configuration.md all come from the
 * row.
 *
 * The happy path (load.c): config_load() takes each setting's default, then the config file, the
 * environment and the flags, each overriding the earlier ones. It checks every value against its
 * rule, fills in the defaults that depend on other settings, checks the rules between settings
 * (listed in docs/configuration.md), and reads the secret. The result is valid as a whole.
 *
 * A line of the config file is empty, a comment, or "key = value". A comment begins with '#' at the
 * start of a line or after a blank. Double quotes around a value (there are no escapes) keep blanks
 * at its ends and '#' in it.
 *
 * The cluster's secret is 32 random bytes, written as 64 hex digits or in base64 (44 characters),
 * one a line; blanks at a line's ends, empty lines, and lines that begin with '#' do not count.
 * During an exchange there may be two: nodes accept both, and offer the first. A secret must have
 * the form of random bytes and look random, so passphrases are refused: an eavesdropper can try any
 * number of secrets offline.
 *
 * The files of http.tls-dir are read whole, checked, converted for the HTTP listeners
 * (http/tls/context.h), and freed; the key is wiped. So new files may replace them, under the same
 * names, while the node runs.
 *
 * Failure modes: an unknown setting, a bad value, a broken rule, an unreadable file: ERR_INVALID
 * with a text that names the value's source (file and line, variable, flag), the value and the
 * rule; config_file_read() and secret_parse() name neither setting nor file. A bad value is an
 * error even if a stronger source overrides it.
 *
 * Thread: main. The struct is read-only once other threads start.
 */
#ifndef LEAFD_NODE_CONFIG_CONFIG_H
#define LEAFD_NODE_CONFIG_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "http/server/loop.h"
#include "http/tls/tls.h"
#include "raft/node/node.h"
#include "raft/transport/net_keys.h"
#include "src/base/buf.h"
#include "src/service/id_service.h"
#include "src/base/err.h"
#include "src/base/limits.h"
#include "src/base/log.h"

#define CONFIG_SETTINGS_MAX 46 /* rows of the table; checked at compile time */

#define CONFIG_ADMIN_SAME "same" /* of admin.listen */
#define CONFIG_ROOT "root"       /* of user */

/* Later ones override earlier ones. */
enum config_source {
    CONFIG_FROM_DEFAULT,
    CONFIG_FROM_RULE, /* a default that depends on other settings */
    CONFIG_FROM_FILE,
    CONFIG_FROM_ENVIRONMENT,
    CONFIG_FROM_FLAG
};

/* Does the process give up calls and paths (src/node/privileges.h)? */
enum config_sandbox {
    CONFIG_SANDBOX_AUTO, /* all features that the kernel has */
    CONFIG_SANDBOX_ON,   /* all, else the node does not start */
    CONFIG_SANDBOX_OFF,
    CONFIG_SANDBOX_DEBUG /* off; and its memory is open to other processes of the user */
};

/* How a node with a new data directory starts. */
enum config_bootstrap { CONFIG_BOOTSTRAP_MEMBERS, CONFIG_BOOTSTRAP_SINGLE, CONFIG_BOOTSTRAP_NEVER };

/* The files in a directory with a certificate; the names are those of a secret in Kubernetes. */
#define CONFIG_TLS_CERTIFICATE "/tls.crt"
#define CONFIG_TLS_KEY "/tls.key"
#define CONFIG_TLS_CA "/ca.crt"

struct config_tls_files {
    char certificate[LIMIT_PATH_BYTES + 1]; /* all are "" if there is no directory */
    char key[LIMIT_PATH_BYTES + 1];
    char ca[LIMIT_PATH_BYTES + 1]; /* "" also if no certificate is checked against it */
};

/* Quotas of one client. */
struct quota_settings {
    struct client_quotas clients; /* of one node */
    uint32_t keys_percent;        /* 1..100: of the cluster's */
    uint32_t workers_percent;     /* 1..100 */
    uint32_t tags_percent;        /* 1..100: of data.memory-bytes */
};

/* The source of a setting's effective value. */
struct config_origin {
    enum config_source source;
    unsigned line; /* of the file; 0 otherwise */
    char *text;    /* the value as written; owned; NULL: required and not given */
};

/* Of the widest snowflake.layout. */
#define CONFIG_WORKER_ID_MAX 1023

/* Do not copy: strings point at the texts of the origins, the keys of the node at the secret and at
 * paths. */
struct config {
    struct node_settings node;
    struct id_service_config ids;    /* what the node serves */
    enum config_bootstrap bootstrap; /* node has a copy of its part */
    struct http_settings http;
    char resp_shown[LIMIT_ADDRESS_BYTES + 1]; /* what http has of it */
    uint64_t http_memory_bytes;               /* http has its parts */
    struct quota_settings quota;              /* likewise in http and node */
    struct {
        const char *dir;
        const char *root; /* that dir was chosen in, see replace_lost.h; NULL: it was not */
        char chosen[LIMIT_PATH_BYTES + sizeof "/65535"];
        int next_fd; /* with root: see replace_lost.h */
        uint64_t map_bytes;
        bool map_by_disk; /* map_bytes was not set: also bounded by the disk of dir */
        bool loose_mode;
    } data;
    struct {
        uint32_t delay_ms;
        uint32_t grace_ms;
    } shutdown;
    struct {
        const char *listen; /* CONFIG_ADMIN_SAME: one listener for all */
        struct http_settings http;
    } admin;
    struct {
        const char *tokens_file; /* "": none */
        const char *anonymous;   /* "": by rule; roles, or "none" */
        const char *hosts;
        const char *origins;
        unsigned anonymous_roles; /* by the rules */
    } auth;
    struct {
        const char *dir; /* "": none */
        struct config_tls_files files;
        enum tls_client client;
    } tls;
    struct {
        const char *dir;
        struct config_tls_files files;
    } peer_tls; /* the keys of the node point here */
    struct {
        const char *user; /* "": none; CONFIG_ROOT: stay root */
        enum config_sandbox sandbox;
    } process;
    enum log_level log_level;
    enum log_format log_format;
    const char *secret_file;                /* "": none */
    uint8_t secret[LIMIT_SECRET_BYTES + 3]; /* and a newline, and room to detect a longer file */
    const char *file;                       /* the config file that was read, borrowed; "": none */
    struct config_origin origins[CONFIG_SETTINGS_MAX]; /* by row of the table */
    struct {
        int argc;
        char *const *argv;
        char *const *env;
    } given; /* to config_load(), borrowed */
};

/* Free what is owned and wipe the secret. NULL-safe on an all-zero struct. */
void config_release(struct config *config);

/* A file that the node may read again: it, and what names it. path: "" if there is none. */
struct config_file {
    const char *what;
    const char *path;
};

#define CONFIG_FILES_MAX (CONFIG_SETTINGS_MAX + 7) /* the config file, and those of certificates */

/* All of them; returns the number. */
size_t config_files(const struct config *config, struct config_file ret_files[CONFIG_FILES_MAX]);

struct config_error {
    char text[768];
};

/* Set the text, cut to size, and return ERR_INVALID. */
int config_fail(struct config_error *ret_error, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Put "place: " before the present text, and return ERR_INVALID. */
int config_fail_at(struct config_error *ret_error, const char *place, ...)
    __attribute__((format(printf, 2, 3)));

/* --- files --- */

/* Is it a path of 1 to LIMIT_PATH_BYTES bytes? Not "-", which no command of leafd takes for
 * standard input or output: a file of that name is "./-". 0, or ERR_INVALID with the rule. */
int config_path_check(const char *path, struct config_error *ret_error) MUST_CHECK;

/* Read the first `room` bytes of a file at once, without waiting. No other copy of them stays in
 * memory. The file must be regular and not world-writable; a private file must be open to its owner
 * alone. */
int config_file_read(const char *path, bool is_private, void *out, size_t room, size_t *ret_len,
                     struct config_error *ret_error) MUST_CHECK;

/* The text of auth.tokens-file, ended by a NUL that its length does not count; empty if none is
 * set. The error names the file. */
int config_tokens_read(const struct config *config, struct buf *ret_text,
                       struct config_error *ret_error) MUST_CHECK;

/* --- the cluster's secret --- */

#define SECRET_TEXT_BYTES 45 /* of a new one, with its NUL */
#define SECRET_WHY_BYTES 160

struct secret_list {
    uint8_t secrets[LIMIT_SECRETS][NET_SECRET_BYTES];
    size_t count; /* at least 1 */
};

/* Parse a file's text. 0 or ERR_INVALID. */
int secret_parse(const void *text, size_t len, struct secret_list *ret_list,
                 char ret_why[SECRET_WHY_BYTES]) MUST_CHECK;

/* A new one, in base64, of the system's random bytes. */
void secret_new(char ret_text[SECRET_TEXT_BYTES]);

/* --- the certificate of http.tls-dir --- */

/* Is there a certificate? Without one there is no TLS. */
static inline bool tls_files_are_set(const struct config *config)
{
    return config->tls.dir[0] != '\0';
}

/* Load the files, for tls_commit() or tls_context_free(). There must be a certificate. */
int tls_files_load(const struct config *config, struct tls *tls, struct tls_context **ret_context,
                   struct config_error *ret_error) MUST_CHECK;

/* --- the table --- */

#define CONFIG_ENVIRONMENT_PREFIX "LEAFD_"

struct setting_type; /* the texts that are values, and how the field is set */

/* A row of the table. */
struct setting {
    const char *name; /* "http.idle-ms": --http-idle-ms, LEAFD_HTTP_IDLE_MS */
    const struct setting_type *type;
    size_t offset; /* of the field in struct config */
    size_t size;   /* of the field */
    uint64_t min;  /* of a number; of the length of a text; of the items of a list */
    uint64_t max;
    const char *unit;         /* of a number, or NULL */
    const char *fallback;     /* the default, as a source would write it; NULL: required */
    const char *fallback_doc; /* the default's meaning, if its text is unclear; or NULL */
    bool live;                /* SIGHUP changes it while the node runs (src/node/reload.h) */
    const char *meaning;
};

extern const struct setting settings[];
extern const size_t setting_count;

/* Those that other code compares with: uint32_t or uint64_t; bool; const char *, a file; struct
 * node_peers. */
extern const struct setting_type setting_number;
extern const struct setting_type setting_boolean;
extern const struct setting_type setting_path;
extern const struct setting_type setting_members;

struct setting_text {
    char text[48];
};

/* A setting's name as a source spells it: "http.idle-ms" in a file, "--http-idle-ms",
 * "LEAFD_HTTP_IDLE_MS". Returns out's text. */
const char *setting_spell(const char *name, enum config_source source, struct setting_text *out);

/* The row with this name, as the source spells it; the number of rows if there is none. */
size_t setting_find(const char *text, size_t len, enum config_source source);

/* The row of a name that is in the table (ASSERT). */
size_t setting_row(const char *name);

/* Put a value into its field, and note its source. 0, or ERR_INVALID with *ret_error, which quotes
 * the value and the rule (http.loops: "many" is not valid: must be 0..64), and nothing is
 * changed. */
int config_set(struct config *config, size_t row, const char *text, enum config_source source,
               unsigned line, struct config_error *ret_error) MUST_CHECK;

/* "ids,health", "none": the roles as bits. 0, or ERR_INVALID with *ret_item, the invalid item up to
 * its comma. */
int config_roles(const char *list, unsigned *ret_roles, const char **ret_item) MUST_CHECK;

/* Is the row's value the same in both? Numbers are compared as numbers, in any unit. */
bool setting_same(size_t row, const struct config *one, const struct config *other);

/* Append the source of the present value: "leafd.conf:3", "LEAFD_NODE_ID", "--node-id",
 * "default". */
void config_where(const struct config *config, size_t row, struct buf *out);

/* --- settings as people read them --- */

/* Append all effective settings with their sources, in the syntax of the config file. The secret's
 * content is never printed. */
void config_print(const struct config *config, struct buf *out);

/* Append the text of --help. */
void config_print_help(struct buf *out);

/* Append a config file that has each setting with its meaning and default, as comments. */
void config_print_example(struct buf *out);

/* Append the Markdown table of all settings, as docs/configuration.md holds it. */
void config_print_doc(struct buf *out);

/* --- rules between settings --- */

/* Can ids of the layout be stamped at this time? A clock before leafd's first release is wrong, and
 * no reason to refuse an epoch. 0 or ERR_INVALID. */
int rules_layout(const struct config *config, uint64_t now_ms,
                 struct config_error *ret_error) MUST_CHECK;

/* Default number of HTTP threads: one less than the processors, at least one. */
uint32_t rules_http_loops(unsigned processors);

/* --- the sources --- */

/* The command line's command. */
enum config_action {
    CONFIG_RUN,
    CONFIG_CHECK,         /* --check-config */
    CONFIG_PRINT,         /* --print-config */
    CONFIG_PRINT_DOC,     /* --print-config-doc; this and the following read no setting */
    CONFIG_PRINT_EXAMPLE, /* --print-config-example */
    CONFIG_NEW_SECRET,
    CONFIG_NEW_TOKEN,
    CONFIG_VERSION,
    CONFIG_HELP
};

/*
 * Load and check everything. argv[0] is skipped; env is as environ; both live as long as the
 * config. With CONFIG_PRINT_DOC and the following actions nothing else is read, and *ret_config is
 * empty. 0, or ERR_INVALID with *ret_error set and nothing to release.
 */
int config_load(int argc, char *const argv[], char *const env[], struct config *ret_config,
                enum config_action *ret_action, struct config_error *ret_error) MUST_CHECK;

#endif
