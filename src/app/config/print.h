/*
 * print.h - the settings as people read them: --print-config, --help, and the Markdown table of
 * docs/configuration.md. Thread: main.
 */
#ifndef LEAFD_APP_CONFIG_PRINT_H
#define LEAFD_APP_CONFIG_PRINT_H

#include "src/app/config/config.h"
#include "src/base/buf.h"

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
