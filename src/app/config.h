/*
 * config.h - the settings of a node: flags, environment and a file, from one table.
 *
 * The happy path: config_load() takes each setting's default, then the config file, the environment
 * and the flags, each overruling what came before; checks every value against its rule and the
 * rules between settings; and reads the secret. What comes out is valid as a whole.
 *
 * Failure modes: an unknown setting, a bad value, a broken rule, an unreadable file: ERR_INVALID
 * with a text that names where the value came from (file and line, variable, flag), the value and
 * the rule. A bad value is an error even where a stronger source overrules it.
 *
 * Thread: main, before others start; read-only afterwards.
 */
#ifndef LEAFD_APP_CONFIG_H
#define LEAFD_APP_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "raft/transport/net.h"
#include "src/base/buf.h"
#include "src/base/err.h"
#include "src/base/limits.h"
#include "src/base/log.h"
#include "src/id/snowflake/snowflake.h"

#define CONFIG_KEYS_MAX 48 /* rows of the table, checked when it is compiled */

enum config_source {
    CONFIG_FROM_DEFAULT,
    CONFIG_FROM_RULE, /* worked out from other settings */
    CONFIG_FROM_FILE,
    CONFIG_FROM_ENVIRONMENT,
    CONFIG_FROM_FLAG
};

/* Where the effective value of a setting came from. */
struct config_origin {
    enum config_source source;
    unsigned line; /* of the file; 0 otherwise */
    char *text;    /* the value as it was written; owned; NULL: required and not given */
};

struct config {
    uint64_t node_id;
    char cluster_id[LIMIT_CLUSTER_ID_BYTES + 1];
    struct net_peer members[LIMIT_NODES]; /* in the order they were given */
    size_t member_count;
    struct net_peer join[LIMIT_NODES]; /* whom to ask to be let in; ids are 0 */
    size_t join_count;
    char secret_file[LIMIT_PATH_BYTES + 1]; /* "": none */
    uint8_t secret[LIMIT_SECRET_BYTES];     /* content of the file, without the last newline */
    size_t secret_len;

    char data_dir[LIMIT_PATH_BYTES + 1];
    uint64_t data_map_bytes;
    bool data_create;

    char http_listen[LIMIT_ADDRESS_BYTES + 1];
    char http_advertise[LIMIT_ADDRESS_BYTES + 1];
    uint64_t http_loops; /* 0: by the number of cores */
    uint64_t http_timeout_ms;
    uint64_t http_head_ms;
    uint64_t http_body_ms;
    uint64_t http_idle_ms;
    uint64_t http_write_ms;
    uint64_t http_connections;

    char peer_listen[LIMIT_ADDRESS_BYTES + 1];
    char peer_advertise[LIMIT_ADDRESS_BYTES + 1];
    uint64_t raft_heartbeat_ms;
    uint64_t raft_election_ms;
    uint64_t raft_snapshot_entries;
    uint64_t raft_trailing_entries;
    uint64_t raft_catch_up_ms;
    bool raft_reset_term;

    uint64_t segment_cover_ms;
    uint64_t segment_refill_percent;

    uint64_t strict_keys;

    uint64_t prefetch_tags; /* 0: switched off */
    uint64_t prefetch_rate;

    uint64_t snowflake_workers; /* 0: switched off */
    uint64_t snowflake_window_ms;
    uint64_t snowflake_renew_ms;
    uint64_t snowflake_mark_lead_ms;
    uint64_t snowflake_clock_threshold_ms;
    struct snowflake_layout snowflake_layout; /* snowflake.layout and snowflake.epoch-ms */

    enum log_level log_level;
    uint64_t shutdown_delay_ms;
    uint64_t shutdown_grace_ms;

    char file[LIMIT_PATH_BYTES + 1];               /* the config file that was read; "": none */
    struct config_origin origins[CONFIG_KEYS_MAX]; /* by row of the table */
};

/* What the command line asks for. */
enum config_action {
    CONFIG_RUN,
    CONFIG_HELP,
    CONFIG_VERSION,
    CONFIG_PRINT,     /* --print-config */
    CONFIG_PRINT_DOC, /* --print-config-doc */
    CONFIG_CHECK      /* --check-config */
};

struct config_error {
    char text[768];
};

/*
 * Load and check everything. argv[0] is skipped; env is as environ. With CONFIG_HELP,
 * CONFIG_VERSION and CONFIG_PRINT_DOC nothing else is looked at and *ret_config is empty. 0, or
 * ERR_INVALID with *ret_error set and nothing to release.
 */
int config_load(int argc, char *const argv[], char *const env[], struct config *ret_config,
                enum config_action *ret_action, struct config_error *ret_error) MUST_CHECK;

/* Free what is owned and wipe the secret. NULL-safe on an all-zero struct. */
void config_release(struct config *config);

/* Append all effective settings with their sources, in the syntax of the config file. The secret's
 * content is never printed. */
void config_print(const struct config *config, struct buf *out);

/* Append the text of --help. */
void config_print_help(struct buf *out);

/* Append the Markdown table of all settings, as docs/configuration.md holds it. */
void config_print_doc(struct buf *out);

/* True if the address ("host:port", valid) is one that only this machine can reach. */
bool config_is_loopback(const char *address);

#endif
