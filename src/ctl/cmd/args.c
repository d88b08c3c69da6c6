/*
 * args.c - see args.h. Thread: one.
 */
#include "src/ctl/cmd/args.h"

#include <stdlib.h>
#include <string.h>

#include "src/base/assert.h"

#define WORDS_MAX (2 + COMMAND_OPERANDS_MAX)

/* While the command line is read. */
struct parsing {
    struct ctl *ctl;
    const struct command *const *commands;
    enum args_action *action;
    int argc;
    char **argv;
    int at;
    const char *words[WORDS_MAX];
    unsigned count;
    bool only_words;                  /* behind "--" */
    const struct command *of_options; /* that the options so far are of; NULL: there are none */
};

/* --- which command --- */

/* The command that these words name, and how many of them do; NULL: none yet. */
static const struct command *args_find(const struct parsing *parsing, unsigned *ret_used)
{
    const struct command *by_default = NULL;

    for (const struct command *const *c = parsing->commands; parsing->count > 0 && *c != NULL;
         c++) {
        if (strcmp((*c)->family, parsing->words[0]) != 0) {
            continue;
        }
        if ((*c)->name == NULL ||
            (parsing->count > 1 && strcmp((*c)->name, parsing->words[1]) == 0)) {
            *ret_used = (*c)->name == NULL ? 1 : 2;
            return *c;
        }
        if ((*c)->is_default) {
            by_default = *c;
        }
    }
    *ret_used = 1;
    return by_default;
}

/* A second word has to be a command of the family: the default one takes no operands this way. */
static enum ctl_exit unknown_command(const struct parsing *parsing)
{
    BUF_LOCAL(names);

    if (parsing->count == 0) {
        return ctl_fail(CTL_USAGE, "no command; see leafctl --help");
    }
    for (const struct command *const *c = parsing->commands; *c != NULL; c++) {
        if (strcmp((*c)->family, parsing->words[0]) == 0) {
            buf_printf(&names, " %s", (*c)->name);
        }
    }
    if (names.len == 0) {
        return ctl_fail(CTL_USAGE, "there is no command \"%s\"; see leafctl --help",
                        parsing->words[0]);
    }
    return ctl_fail(CTL_USAGE, "%s: say which:%s", parsing->words[0], buf_text(&names));
}

/* --- options --- */

static const char *args_next_word(struct parsing *parsing)
{
    return parsing->at + 1 < parsing->argc ? parsing->argv[++parsing->at] : NULL;
}

/* The value of an option: behind its '=', or the next word. */
static enum ctl_exit args_value_of(struct parsing *parsing, const char *name, const char *given,
                                   const char **ret_value)
{
    *ret_value = given != NULL ? given : args_next_word(parsing);
    return *ret_value != NULL ? CTL_DONE : ctl_fail(CTL_USAGE, "%s needs a value", name);
}

static bool args_is_name(const char *word, size_t len, const char *name)
{
    return strlen(name) == len && memcmp(word, name, len) == 0;
}

/* One of every command. False: it is none of them. */
static bool take_common(struct parsing *parsing, const char *name, size_t len, const char *given,
                        enum ctl_exit *ret_code)
{
    struct ctl *ctl = parsing->ctl;
    const char *value;

    for (unsigned setting = 0; setting < SETTINGS; setting++) {
        if (args_is_name(name, len, SETTINGS_ABOUT[setting].name)) {
            *ret_code = args_value_of(parsing, name - 2, given, &value);
            if (*ret_code == CTL_DONE) {
                settings_set(&ctl->settings, setting, value);
            }
            return true;
        }
    }
    if (args_is_name(name, len, "json") || args_is_name(name, len, "help") ||
        args_is_name(name, len, "version")) {
        ctl->json |= *name == 'j';
        *parsing->action = *name == 'h'   ? ARGS_HELP
                           : *name == 'v' ? ARGS_VERSION
                                          : *parsing->action;
        *ret_code = given == NULL ? CTL_DONE : ctl_fail(CTL_USAGE, "%s: no value", name - 2);
        return true;
    }
    if (args_is_name(name, len, "token")) {
        *ret_code = ctl_fail(CTL_USAGE, "a token on the command line is seen by all users of this "
                                        "machine: put it into a file, for --token-file");
        return true;
    }
    return false;
}

static enum ctl_exit take_own(struct parsing *parsing, const char *word, const char *name,
                              size_t len, const char *given)
{
    const struct command *command = parsing->ctl->command;
    const struct option_about *options = command != NULL ? command->options : NULL;

    for (size_t i = 0; options != NULL && options[i].name != NULL; i++) {
        bool by_letter = word[1] != '-' && len == 1 && options[i].letter == *name;

        ASSERT(i < COMMAND_OPTIONS_MAX);
        if (!by_letter && (word[1] != '-' || !args_is_name(name, len, options[i].name))) {
            continue;
        }
        if (parsing->ctl->args.values[i] != NULL) {
            return ctl_fail(CTL_USAGE, "%s is given twice", word);
        }
        if (options[i].value == NULL) {
            parsing->ctl->args.values[i] = "";
            return given == NULL ? CTL_DONE : ctl_fail(CTL_USAGE, "%s has no value", word);
        }
        return args_value_of(parsing, word, given, &parsing->ctl->args.values[i]);
    }
    return command == NULL
               ? ctl_fail(CTL_USAGE, "there is no option %s before a command", word)
               : ctl_fail(CTL_USAGE, "%s%s%s has no option %s", COMMAND_WORDS(command), word);
}

static enum ctl_exit take_option(struct parsing *parsing, const char *word)
{
    const char *name = word[1] == '-' ? word + 2 : word + 1;
    const char *equals = word[1] == '-' ? strchr(name, '=') : NULL;
    size_t len = equals != NULL ? (size_t)(equals - name) : word[1] == '-' ? strlen(name) : 1;
    const char *given = equals != NULL ? equals + 1 : NULL;
    enum ctl_exit code = CTL_DONE;
    unsigned used;

    if (word[1] != '-' && name[1] != '\0') {
        given = name + 1; /* -n5 */
    }
    if (word[1] == '-' && take_common(parsing, name, len, given, &code)) {
        return code;
    }
    if (strcmp(word, "-h") == 0) {
        *parsing->action = ARGS_HELP;
        return CTL_DONE;
    }
    parsing->ctl->command = args_find(parsing, &used);
    parsing->of_options = parsing->ctl->command;
    return take_own(parsing, word, name, len, given);
}

/* --- all of it --- */

/* How many operands a command takes, by what its usage says: a word each, in brackets if it may be
 * left out. */
static bool takes(const char *operands, unsigned given)
{
    unsigned least = 0;
    unsigned most = 0;

    if (operands != NULL && strcmp(operands, "...") == 0) {
        return given <= COMMAND_OPERANDS_MAX;
    }
    for (const char *word = operands; word != NULL; word = strchr(word, ' ')) {
        word += *word == ' ';
        least += *word != '[';
        most++;
    }
    ASSERT(most <= COMMAND_OPERANDS_MAX);
    return given >= least && given <= most;
}

static enum ctl_exit take_operands(struct parsing *parsing)
{
    struct ctl *ctl = parsing->ctl;
    unsigned used = 0;
    const struct command *command = args_find(parsing, &used);
    unsigned given;

    ctl->command = command;
    if (*parsing->action != ARGS_RUN) {
        return CTL_DONE;
    }
    if (command == NULL || (used == 1 && command->name != NULL && parsing->count > 1)) {
        return unknown_command(parsing);
    }
    if (parsing->of_options != NULL && parsing->of_options != command) {
        return ctl_fail(CTL_USAGE, "options of a command stand behind its name: leafctl %s %s ...",
                        command->family, command->name != NULL ? command->name : "");
    }
    given = parsing->count - used;
    if (!takes(command->operands, given)) {
        return ctl_fail(CTL_USAGE, "usage: leafctl %s%s%s %s", COMMAND_WORDS(command),
                        command->operands != NULL ? command->operands : "");
    }
    for (unsigned i = 0; i < given; i++) {
        ctl->args.operands[i] = parsing->words[used + i];
    }
    return CTL_DONE;
}

enum ctl_exit args_parse(struct ctl *ctl, const struct command *const *commands, int argc,
                         char **argv, enum args_action *ret_action)
{
    struct parsing parsing = {
        .ctl = ctl, .commands = commands, .action = ret_action, .argc = argc, .argv = argv};
    enum ctl_exit code = CTL_DONE;

    *ret_action = ARGS_RUN;
    for (parsing.at = 1; code == CTL_DONE && parsing.at < argc; parsing.at++) {
        const char *word = argv[parsing.at];

        if (!parsing.only_words && strcmp(word, "--") == 0) {
            parsing.only_words = true;
        } else if (!parsing.only_words && word[0] == '-' && word[1] != '\0') {
            code = take_option(&parsing, word);
        } else if (parsing.count == WORDS_MAX) {
            code = ctl_fail(CTL_USAGE, "too many operands, from \"%s\" on", word);
        } else {
            parsing.words[parsing.count++] = word;
        }
    }
    return code == CTL_DONE ? take_operands(&parsing) : code;
}
