/*
 * load.c - see load.h: the sources of settings, from the weakest to the strongest.
 *
 * The command line is read twice: first for what it asks (--help, --config FILE), last for
 * settings, so that flags overrule the file they name. getopt_long() is not used for it: it takes
 * any abbreviation for a flag, and a later release that adds a flag would change what one means.
 */
#include "src/app/config/load.h"

#include <ctype.h>
#include <string.h>

#include "src/app/config/file.h"
#include "src/app/config/rules.h"
#include "src/app/config/table.h"
#include "src/base/assert.h"

#define FILE_FLAG "--config"
#define FILE_VARIABLE CONFIG_ENVIRONMENT_PREFIX "CONFIG"
#define QUOTED_BYTES 128

static const struct {
    const char *flag;
    enum config_action action;
} commands[] = {
    {"--help", CONFIG_HELP},
    {"-h", CONFIG_HELP},
    {"--version", CONFIG_VERSION},
    {"--print-config", CONFIG_PRINT},
    {"--check-config", CONFIG_CHECK},
    {"--print-config-doc", CONFIG_PRINT_DOC},
    {"--print-config-example", CONFIG_PRINT_EXAMPLE},
    {"--new-secret", CONFIG_NEW_SECRET},
    {"--new-token", CONFIG_NEW_TOKEN},
};

static void load_defaults(struct config *config)
{
    struct config_error error;

    for (size_t row = 0; row < setting_count; row++) {
        if (settings[row].fallback != NULL) {
            ASSERT(config_set(config, row, settings[row].fallback, CONFIG_FROM_DEFAULT, 0,
                              &error) == 0);
        }
    }
}

static int set_file(struct config *config, const char *path, const char *from,
                    struct config_error *ret_error)
{
    if (path[0] == '\0' || strlen(path) > LIMIT_PATH_BYTES) {
        return config_fail(ret_error, "%s: must be a path of 1 to %d bytes", from,
                           LIMIT_PATH_BYTES);
    }
    config->file = path;
    return 0;
}

/* The name is of no setting: is it of one that there was? A flag may have its value in it. */
static int refuse_name(enum config_source source, const char *name, size_t len,
                       struct config_error *ret_error)
{
    static const char *const unknown[] = {[CONFIG_FROM_FILE] = "unknown setting",
                                          [CONFIG_FROM_ENVIRONMENT] =
                                              "environment: unknown variable",
                                          [CONFIG_FROM_FLAG] = "unknown argument"};
    const char *value = memchr(name, '=', len);
    const struct setting_gone *gone =
        setting_find_gone(name, value != NULL ? (size_t)(value - name) : len, source);
    struct setting_text old;
    struct setting_text heir;
    char quoted[QUOTED_BYTES];

    if (gone == NULL) {
        return config_fail(ret_error, "%s %s; --help lists the settings", unknown[source],
                           log_quote(name, len, quoted, sizeof quoted));
    }
    (void)setting_spell_name(gone->name, source, &old);
    if (gone->heir == NULL) {
        return config_fail(ret_error,
                           "%s is no setting any more, since leafd " SETTINGS_GONE_SINCE
                           ": leave it out; %s",
                           old.text, gone->how);
    }
    return config_fail(ret_error,
                       "%s is no setting any more, since leafd " SETTINGS_GONE_SINCE
                       ": set %s instead; %s",
                       old.text, setting_spell_name(gone->heir, source, &heir), gone->how);
}

/* Set what a source names. The error says where, but for a file, which has lines. */
static int assign(struct config *config, enum config_source source, unsigned line, const char *name,
                  size_t len, const char *value, struct config_error *ret_error)
{
    size_t row = setting_find(name, len, source);
    struct setting_text spelled;

    if (row == setting_count) {
        return refuse_name(source, name, len, ret_error);
    }
    if (source == CONFIG_FROM_FILE && config->origins[row].source == source) {
        return config_fail(ret_error, "%s is set twice, first on line %u", settings[row].name,
                           config->origins[row].line);
    }
    if (config_set(config, row, value, source, line, ret_error) == 0) {
        return 0;
    }
    return source == CONFIG_FROM_FILE
               ? ERR_INVALID
               : config_fail_at(ret_error,
                                source == CONFIG_FROM_FLAG ? "flag %s" : "environment %s",
                                setting_spell(row, source, &spelled));
}

/* --- the file --- */

static int load_file(struct config *config, struct config_error *ret_error)
{
    char text[LIMIT_CONFIG_FILE_BYTES + 2];
    char *rest = text;
    size_t len = 0;
    char *line;
    int rv;

    rv = config_file_read(config->file, false, text, sizeof text - 1, &len, ret_error);
    text[len] = '\0';
    if (rv == 0 && len > LIMIT_CONFIG_FILE_BYTES) {
        rv = config_fail(ret_error, "larger than %d bytes", LIMIT_CONFIG_FILE_BYTES);
    } else if (rv == 0 && strlen(text) < len) {
        rv = config_fail(ret_error, "has a NUL byte; is it a text file?");
    }
    if (rv != 0) {
        return config_fail_at(ret_error, "config file %s", config->file);
    }
    for (unsigned number = 1; (line = strsep(&rest, "\n")) != NULL; number++) {
        char *value;
        char *key;

        if (config_line_parse(line, &key, &value, ret_error) != 0 ||
            (key != NULL &&
             assign(config, CONFIG_FROM_FILE, number, key, strlen(key), value, ret_error) != 0)) {
            return config_fail_at(ret_error, "%s:%u", config->file, number);
        }
    }
    return 0;
}

/* --- the environment --- */

/* Kubernetes gives every container variables named after the services around it: one called "leafd"
 * makes LEAFD_SERVICE_HOST, LEAFD_PORT=tcp://..., LEAFD_PORT_8080_TCP_ADDR and their like. No more
 * is let pass: LEAFD_HTTP_PORT=8080 is somebody's mistake. */
static bool is_service_link(const char *variable, size_t len)
{
    const char *port = memmem(variable, len, "_PORT", strlen("_PORT"));

    if (memmem(variable, len, "_SERVICE_HOST", strlen("_SERVICE_HOST")) != NULL ||
        memmem(variable, len, "_SERVICE_PORT", strlen("_SERVICE_PORT")) != NULL) {
        return true;
    }
    if (port == NULL) {
        return false;
    }
    port += strlen("_PORT");
    return *port == '=' ? strstr(port, "://") != NULL
                        : *port == '_' && isdigit((unsigned char)port[1]);
}

static int load_environment(struct config *config, char *const env[],
                            struct config_error *ret_error)
{
    static const char prefix[] = CONFIG_ENVIRONMENT_PREFIX;
    int rv = 0;

    for (; rv == 0 && *env != NULL; env++) {
        size_t len = strcspn(*env, "=");

        if ((*env)[len] == '=' && strncmp(*env, prefix, sizeof prefix - 1) == 0 &&
            strncmp(*env, FILE_VARIABLE "=", len + 1) != 0 && !is_service_link(*env, len)) {
            rv = assign(config, CONFIG_FROM_ENVIRONMENT, 0, *env, len, *env + len + 1, ret_error);
        }
    }
    return rv;
}

/* The file that the environment names. */
static int find_file(struct config *config, char *const env[], struct config_error *ret_error)
{
    static const char name[] = FILE_VARIABLE "=";

    for (; *env != NULL; env++) {
        if (strncmp(*env, name, sizeof name - 1) == 0) {
            return set_file(config, *env + sizeof name - 1, FILE_VARIABLE, ret_error);
        }
    }
    return 0;
}

/* --- the command line --- */

/* CONFIG_RUN: it is no command. */
static enum config_action command_of(const char *argument)
{
    size_t i = 0;

    while (i < sizeof commands / sizeof commands[0] && strcmp(argument, commands[i].flag) != 0) {
        i++;
    }
    return i < sizeof commands / sizeof commands[0] ? commands[i].action : CONFIG_RUN;
}

/* One that is no command: the config file or, if settings are to be taken, a setting; with its
 * value, which may be the next argument. Of a flag given twice the last one holds. */
static int take_flag(struct config *config, char *const argv[], int *at, bool take,
                     struct config_error *ret_error)
{
    const char *flag = argv[*at];
    size_t len = strcspn(flag, "=");
    bool is_file = strlen(FILE_FLAG) == len && strncmp(flag, FILE_FLAG, len) == 0;
    const char *value = flag[len] == '=' ? flag + len + 1 : argv[*at + 1];
    size_t row = setting_find(flag, len, CONFIG_FROM_FLAG);
    /* One of yes or no may stand alone. */
    bool is_bare = flag[len] != '=' && (value == NULL || value[0] == '-') && row < setting_count &&
                   settings[row].type == &setting_boolean;

    if (!is_file && row == setting_count) {
        return assign(config, CONFIG_FROM_FLAG, 0, flag, strlen(flag), NULL, ret_error);
    }
    if (is_bare) {
        value = "true";
    } else if (value == NULL) {
        return config_fail(ret_error, "%s: the value is missing", flag);
    }
    *at += flag[len] != '=' && !is_bare;
    if (is_file) {
        return set_file(config, value, FILE_FLAG, ret_error);
    }
    return take ? assign(config, CONFIG_FROM_FLAG, 0, flag, len, value, ret_error) : 0;
}

/* What the command line asks for, the config file it names, and settings if they are to be taken.
 * Of commands the first holds: "--help --check-config" shows the help. */
static int load_arguments(struct config *config, bool take, enum config_action *ret_action,
                          struct config_error *ret_error)
{
    char *const *argv = config->given.argv;
    int rv = 0;

    *ret_action = CONFIG_RUN;
    for (int at = 1; rv == 0 && at < config->given.argc; at++) {
        enum config_action command = command_of(argv[at]);

        if (command == CONFIG_RUN) {
            rv = take_flag(config, argv, &at, take, ret_error);
        } else if (*ret_action == CONFIG_RUN) {
            *ret_action = command;
        }
    }
    return rv;
}

/* --- all of them --- */

static int load_all(struct config *config, struct config_error *ret_error)
{
    char *const *env = config->given.env;
    enum config_action action;
    int rv = config->file[0] == '\0' ? find_file(config, env, ret_error) : 0;

    load_defaults(config);
    if (rv == 0 && config->file[0] != '\0') {
        rv = load_file(config, ret_error);
    }
    if (rv == 0) {
        rv = load_environment(config, env, ret_error);
    }
    if (rv == 0) {
        rv = load_arguments(config, true, &action, ret_error);
    }
    return rv == 0 ? rules_apply(config, ret_error) : rv;
}

int config_load(int argc, char *const argv[], char *const env[], struct config *ret_config,
                enum config_action *ret_action, struct config_error *ret_error)
{
    int rv;

    *ret_config = (struct config){.file = "", .given = {argc, argv, env}};
    rv = load_arguments(ret_config, false, ret_action, ret_error);
    if (rv == 0 && *ret_action < CONFIG_PRINT_DOC) {
        rv = load_all(ret_config, ret_error);
    }
    if (rv != 0) {
        config_release(ret_config);
    }
    return rv;
}

int config_load_again(const struct config *config, struct config *ret_next,
                      struct config_error *ret_error)
{
    enum config_action action;

    return config_load(config->given.argc, config->given.argv, config->given.env, ret_next, &action,
                       ret_error);
}
