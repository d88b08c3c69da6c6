/*
 * config.h - the settings of a node, read once and handed down: each layer gets a pointer to the
 * struct of settings that it defines itself.
 *
 * load.h fills it in, print.h shows it, table.h says which setting is which field. Here is what
 * all of them share: the struct, and the text of an error.
 *
 * Thread: main, before others start; read-only afterwards.
 */
#ifndef LEAFD_APP_CONFIG_CONFIG_H
#define LEAFD_APP_CONFIG_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "http/server/loop.h"
#include "http/tls/tls.h"
#include "raft/node/node.h"
#include "src/base/err.h"
#include "src/base/limits.h"
#include "src/base/log.h"

#define CONFIG_SETTINGS_MAX 45 /* rows of the table; checked at compile time */

#define DOORS_JOINED "same" /* of admin.listen */
#define CONFIG_ROOT "root"  /* of user */

/* Later ones overrule earlier ones. */
enum config_source {
    CONFIG_FROM_DEFAULT,
    CONFIG_FROM_RULE, /* a default that comes from other settings */
    CONFIG_FROM_FILE,
    CONFIG_FROM_ENVIRONMENT,
    CONFIG_FROM_FLAG
};

/* Whether the process shuts itself in (src/app/sandbox.h). */
enum config_sandbox {
    CONFIG_SANDBOX_AUTO, /* as far as the kernel can */
    CONFIG_SANDBOX_ON,   /* or not at all: it does not start without */
    CONFIG_SANDBOX_OFF,
    CONFIG_SANDBOX_DEBUG /* nor is its memory kept from others of the same user */
};

/* What a node does whose data directory is new. */
enum config_bootstrap { CONFIG_BOOTSTRAP_MEMBERS, CONFIG_BOOTSTRAP_SINGLE, CONFIG_BOOTSTRAP_NEVER };

/* The files in a directory with a certificate; the names are those of a secret in Kubernetes. */
#define CONFIG_TLS_CERTIFICATE "/tls.crt"
#define CONFIG_TLS_KEY "/tls.key"
#define CONFIG_TLS_CA "/ca.crt"

struct config_tls_files {
    char certificate[LIMIT_PATH_BYTES + 1]; /* all are "" where there is no directory */
    char key[LIMIT_PATH_BYTES + 1];
    char ca[LIMIT_PATH_BYTES + 1]; /* "" also where nothing is held against it */
};

#define CONFIG_TLS_PATHS 6 /* of both directories */

/* What one client may take. */
struct quota_settings {
    struct client_quotas clients; /* of one node */
    uint32_t keys_percent;        /* 1..100: of the cluster's */
    uint32_t workers_percent;     /* 1..100 */
    uint32_t tags_percent;        /* 1..100: of data.memory-bytes */
};

/* Where the effective value of a setting came from. */
struct config_origin {
    enum config_source source;
    unsigned line; /* of the file; 0 otherwise */
    char *text;    /* the value as it was written; owned; NULL: required and not given */
};

/* Strings point at the texts of the origins, the keys of the node at the secret and at paths: not
 * to be copied. */
struct config {
    struct node_settings node;
    enum config_bootstrap bootstrap; /* of which node and data have their parts */
    struct http_settings http;
    uint64_t http_memory_bytes;  /* of which the parts are in http */
    struct quota_settings quota; /* likewise in http and node */
    struct {
        const char *dir;
        const char *root; /* in which dir was chosen, see src/app/lost.h; NULL: it was not */
        char chosen[LIMIT_PATH_BYTES + sizeof "/65535"];
        int next_fd; /* with root: see lost.h */
        uint64_t map_bytes;
        bool map_by_disk; /* not set: and no more than the disk of dir suits */
        bool create;      /* not CONFIG_BOOTSTRAP_NEVER */
        bool loose_mode;
    } data;
    struct {
        uint32_t delay_ms;
        uint32_t grace_ms;
    } shutdown;
    struct {
        const char *listen; /* DOORS_JOINED: one door for all */
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
    } peer_tls; /* to which the keys of the node point */
    struct {
        const char *user; /* "": none; CONFIG_ROOT: stay root */
        enum config_sandbox sandbox;
    } process;
    enum log_level log_level;
    enum log_format log_format;
    const char *secret_file;                /* "": none */
    uint8_t secret[LIMIT_SECRET_BYTES + 3]; /* and a newline, and room to see that there is more */
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

/* All files of both directories, "" among them. */
void config_tls_paths(const struct config *config, const char *ret_paths[CONFIG_TLS_PATHS]);

struct config_error {
    char text[768];
};

/* Set the text, cut to size, and return ERR_INVALID. */
int config_fail(struct config_error *ret_error, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Put "place: " before the text that is there, and return ERR_INVALID. */
int config_fail_at(struct config_error *ret_error, const char *place, ...)
    __attribute__((format(printf, 2, 3)));

#endif
