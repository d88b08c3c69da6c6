/*
 * table.h - the table of settings: the one place where a setting is described.
 *
 * A row says its name, the field it goes into, which values it may have, its default and what it
 * means. The names of flag and variable, parsing, errors, --help, --print-config and the table in
 * docs/configuration.md all come from it. Thread: main.
 */
#ifndef LEAFD_APP_CONFIG_TABLE_H
#define LEAFD_APP_CONFIG_TABLE_H

#include "src/app/config/config.h"
#include "src/app/config/type.h"
#include "src/base/buf.h"

#define CONFIG_ENVIRONMENT_PREFIX "LEAFD_"

extern const struct setting settings[];
extern const size_t setting_count;

struct setting_text {
    char text[48];
};

/* A row's name as a source spells it: "http.timeout-ms" in a file, "--http-timeout-ms",
 * "LEAFD_HTTP_TIMEOUT_MS". Returns out's text. */
const char *setting_spell(size_t row, enum config_source source, struct setting_text *out);

/* The row with this name, as the source spells it; the count of rows when there is none. */
size_t setting_find(const char *text, size_t len, enum config_source source);

/* The row of a name that is in the table (ASSERT). */
size_t setting_row(const char *name);

/* Put a value into its field, and note where it came from. 0, or ERR_INVALID with *ret_error saying
 * what is wrong with it, and nothing changed. */
int config_set(struct config *config, size_t row, const char *text, enum config_source source,
               unsigned line, struct config_error *ret_error) MUST_CHECK;

/* Append where the present value came from: "leafd.conf:3", "LEAFD_NODE_ID", "--node-id",
 * "default". */
void config_where(const struct config *config, size_t row, struct buf *out);

#endif
