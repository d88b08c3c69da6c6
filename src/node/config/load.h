/*
 * load.h - reads the settings: flags, environment and a file, by one table.
 *
 * The happy path: config_load() takes each setting's default, then the config file, the environment
 * and the flags, each overruling what came before; checks every value against its rule; fills in
 * the defaults that come from other settings, and checks the rules between settings
 * (docs/configuration.md lists these); and reads the secret. What comes out is valid as a whole.
 *
 * A line of the config file is empty, a comment, or "key = value". A comment begins with '#' at the
 * start of a line or after a blank. A value may stand in double quotes (there are no escapes),
 * which keeps blanks at its ends and '#' in it.
 *
 * Failure modes: an unknown setting, a bad value, a broken rule, an unreadable file: ERR_INVALID
 * with a text that names where the value came from (file and line, variable, flag), the value and
 * the rule. A bad value is an error even where a stronger source overrules it.
 *
 * Thread: main.
 */
#ifndef LEAFD_NODE_CONFIG_LOAD_H
#define LEAFD_NODE_CONFIG_LOAD_H

#include "src/node/config/config.h"

/* --- rules between settings --- */

/* Can ids of the layout be stamped at this time? A clock that stands before leafd was written is
 * wrong, and no reason to refuse an epoch. 0 or ERR_INVALID. */
int rules_layout(const struct config *config, uint64_t now_ms,
                 struct config_error *ret_error) MUST_CHECK;

/* Threads that serve HTTP where nothing is set: one less than the processors, at least one. */
uint32_t rules_http_loops(unsigned processors);

/* --- the sources --- */

/* What the command line asks for. */
enum config_action {
    CONFIG_RUN,
    CONFIG_CHECK,         /* --check-config */
    CONFIG_PRINT,         /* --print-config */
    CONFIG_PRINT_DOC,     /* --print-config-doc; this and the following look at no setting */
    CONFIG_PRINT_EXAMPLE, /* --print-config-example */
    CONFIG_NEW_SECRET,
    CONFIG_NEW_TOKEN,
    CONFIG_VERSION,
    CONFIG_HELP
};

/*
 * Load and check everything. argv[0] is skipped; env is as environ; both live as long as the
 * config. With CONFIG_PRINT_DOC and what follows nothing else is looked at and *ret_config is
 * empty. 0, or ERR_INVALID with *ret_error set and nothing to release.
 */
int config_load(int argc, char *const argv[], char *const env[], struct config *ret_config,
                enum config_action *ret_action, struct config_error *ret_error) MUST_CHECK;

/* Load all of it again, from the same command line, environment and file (whose content may be
 * another by now). 0, or ERR_INVALID with *ret_error set and nothing to release. */
int config_load_again(const struct config *config, struct config *ret_next,
                      struct config_error *ret_error) MUST_CHECK;

#endif
