/*
 * load.h - reads the settings: flags, environment and a file, by one table.
 *
 * The happy path: config_load() takes each setting's default, then the config file, the environment
 * and the flags, each overruling what came before; checks every value against its rule, and the
 * rules between settings; and reads the secret. What comes out is valid as a whole.
 *
 * Failure modes: an unknown setting, a bad value, a broken rule, an unreadable file: ERR_INVALID
 * with a text that names where the value came from (file and line, variable, flag), the value and
 * the rule. A bad value is an error even where a stronger source overrules it.
 *
 * Thread: main.
 */
#ifndef LEAFD_APP_CONFIG_LOAD_H
#define LEAFD_APP_CONFIG_LOAD_H

#include "src/app/config/config.h"

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
