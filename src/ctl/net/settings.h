/*
 * settings.h - which servers to ask, and as whom: from flags, the environment and a file.
 *
 * The happy path: settings_set() for each flag, settings_load(), which adds the environment
 * (LEAFCTL_SERVER for --server, and so on) and the file for what no flag has set; then the files
 * that hold secrets are looked at.
 *
 * The file is --config, LEAFCTL_CONFIG, or leafctl/config below XDG_CONFIG_HOME or ~/.config, with
 * lines NAME = VALUE and comments after '#'. It names files of secrets and has none, so it may be
 * read by others; but a user that can write to it can send the token to another server, so it must
 * belong to the user or to root, and nobody else may write to it. A file with a token or a key must
 * not be readable by others.
 *
 * Where nothing names a server, the nodes that `make run` started in the current folder are asked,
 * if it runs; otherwise those of SETTINGS_SERVER_DEFAULT.
 *
 * A token is never on the command line, where every user of the machine could see it.
 *
 * Failure modes: a text that names the setting, the value and the rule. Ownership: texts are the
 * settings' own. Thread: one.
 */
#ifndef LEAFD_CTL_NET_SETTINGS_H
#define LEAFD_CTL_NET_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "src/base/buf.h"
#include "src/base/err.h"

enum setting {
    SETTING_SERVER,
    SETTING_CA,
    SETTING_CERT,
    SETTING_KEY,
    SETTING_TOKEN_FILE,
    SETTING_TIMEOUT,
    SETTING_CONFIG,
    SETTINGS
};

#define SETTINGS_SERVER_DEFAULT "127.0.0.1:9080,127.0.0.1:8080"
#define SETTINGS_LOCAL "data" /* where `make run` keeps its cluster */
#define SETTINGS_TIMEOUT_DEFAULT_MS 10000
#define SETTINGS_TIMEOUT_MAX_S 3600
#define SETTINGS_FILE_BYTES (64 << 10) /* of any file that is read; more: refused */
#define SETTINGS_TOKEN_BYTES 4096      /* a longer token is refused */

struct settings {
    char *values[SETTINGS]; /* NULL: not set */
    char *token;            /* NULL: none */
    uint32_t timeout_ms;
    bool local; /* the servers are those that `make run` started in this folder */
};

/* An option, for help and documents. */
struct option_about {
    const char *name;  /* "prefix"; NULL: the end of the list */
    char letter;       /* 'n' for -n; 0: none */
    const char *value; /* "TEXT"; NULL: it has none */
    const char *text;
};

/* What every command takes: the settings in their order, and then --json. */
extern const struct option_about SETTINGS_ABOUT[];

/* From a flag. */
void settings_set(struct settings *settings, enum setting setting, const char *value);

/* All that no flag has set. 0, or ERR_INVALID with *why. */
int settings_load(struct settings *settings, struct buf *why) MUST_CHECK;

void settings_free(struct settings *settings);

#endif
