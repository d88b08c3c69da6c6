/*
 * args.c - the command line, by the table of commands: parsing, help, of which scripts/generate
 * makes the manual page, and completions. See command.h.
 *
 * A shell's completion script (packaging/completions) asks leafctl itself (--complete) for the
 * words possible at the cursor. leafctl finds the words before the cursor that are no options or
 * values of options: the first is the family, the second is the name, if the family has names.
 * Thread: one.
 */
#include <string.h>

#include "src/base/assert.h"
#include "src/base/process.h"
#include "src/ctl/cmd/command.h"

/* --- the command line: which command --- */

#define WORDS_MAX (2 + COMMAND_OPERANDS_MAX)

/* Family and name, for "%s%s%s". */
#define COMMAND_WORDS(command)                                                                     \
    (command)->family, (command)->name != NULL ? " " : "",                                         \
        (command)->name != NULL ? (command)->name : ""

/* The state while the command line is parsed. */
struct parsing {
    struct ctl *ctl;
    enum { ARGS_RUN, ARGS_HELP, ARGS_VERSION } action;
    int argc;
    char **argv;
    int at;
    const char *words[WORDS_MAX];
    unsigned count;
    bool only_words;                  /* after "--" */
    const struct command *of_options; /* the command of the options so far; NULL: no options */
};

/* The command that the words name; NULL: none, or none yet. The default command of a family has
 * only its family's word. */
static const struct command *args_find(const struct parsing *parsing)
{
    const struct command *by_default = NULL;

    for (const struct command *c = COMMANDS; c->family != NULL; c++) {
        bool own = parsing->count > 0 && strcmp(c->family, parsing->words[0]) == 0;

        if (own &&
            (c->name == NULL || (parsing->count > 1 && strcmp(c->name, parsing->words[1]) == 0))) {
            return c;
        }
        by_default = own && parsing->count == 1 && c->is_default ? c : by_default;
    }
    return by_default;
}

static enum ctl_exit args_unknown(const struct parsing *parsing)
{
    BUF_LOCAL(names);

    if (parsing->count == 0) {
        return ctl_fail(CTL_USAGE, "no command; see leafctl --help");
    }
    for (const struct command *c = COMMANDS; c->family != NULL; c++) {
        if (strcmp(c->family, parsing->words[0]) == 0) {
            buf_printf(&names, " %s", c->name);
        }
    }
    if (names.len == 0) {
        return ctl_fail(CTL_USAGE, "there is no command \"%s\"; see leafctl --help",
                        parsing->words[0]);
    }
    return ctl_fail(CTL_USAGE, "%s: say which:%s", parsing->words[0], buf_text(&names));
}

/* --- options --- */

/* Does a value, or an operand, name a file? */
static bool is_file(const char *text)
{
    return text != NULL && strstr(text, "FILE") != NULL;
}

/* A backup is verified as a file before it is kept, and a terminal never gets one; only rows are
 * read from standard input. */
static enum ctl_exit args_check_file(const char *what, const char *path)
{
    return strcmp(path, "-") != 0 ? CTL_DONE : ctl_fail(CTL_USAGE, "%s: " SETTINGS_NO_STREAM, what);
}

/* The value of an option: after its '=', or the next word. */
static enum ctl_exit args_value_of(struct parsing *parsing, const char *name, const char *given,
                                   const char **ret_value)
{
    *ret_value = given != NULL                     ? given
                 : parsing->at + 1 < parsing->argc ? parsing->argv[++parsing->at]
                                                   : NULL;
    return *ret_value != NULL ? CTL_DONE : ctl_fail(CTL_USAGE, "%s needs a value", name);
}

/* Take an option of the command that the words so far name. word: as it was given. */
static enum ctl_exit args_take_own(struct parsing *parsing, const char *word, const char *name,
                                   size_t len, const char *given)
{
    struct ctl *ctl = parsing->ctl;
    const struct command *command = args_find(parsing);
    const struct option_about *option;
    const char **value;

    ctl->command = parsing->of_options = command;
    if (command == NULL) {
        return parsing->count > 0
                   ? args_unknown(parsing)
                   : ctl_fail(CTL_USAGE, "there is no option %s before a command", word);
    }
    option = option_find(command->options, name, len, word[1] != '-');
    if (option == NULL) {
        return ctl_fail(CTL_USAGE, "%s%s%s has no option %s", COMMAND_WORDS(command), word);
    }
    ASSERT(option - command->options < COMMAND_OPTIONS_MAX);
    value = &ctl->args.values[option - command->options];
    if (*value != NULL) {
        return ctl_fail(CTL_USAGE, "%s is given twice", word);
    }
    if (option->value == NULL) {
        *value = "";
        return given == NULL ? CTL_DONE : ctl_fail(CTL_USAGE, "%s has no value", word);
    }
    if (args_value_of(parsing, word, given, value) != CTL_DONE) {
        return CTL_USAGE;
    }
    return is_file(option->value) ? args_check_file(word, *value) : CTL_DONE;
}

/* --name, --name=VALUE, -n or -nVALUE. */
static enum ctl_exit args_take_option(struct parsing *parsing, const char *word)
{
    static const struct option_about others[] = {{"help", 'h', NULL, NULL},
                                                 {"version", 0, NULL, NULL},
                                                 {"token", 0, NULL, NULL},
                                                 {NULL, 0, NULL, NULL}};
    struct ctl *ctl = parsing->ctl;
    bool is_long = word[1] == '-';
    const char *name = word + 1 + is_long;
    size_t len = is_long ? strcspn(name, "=") : 1;
    const char *given = name[len] != '\0' ? name + len + is_long : NULL;
    const struct option_about *setting = option_find(SETTINGS_ABOUT, name, len, !is_long);
    const struct option_about *other =
        is_long || given == NULL ? option_find(others, name, len, !is_long) : NULL;
    const char *value;

    if (setting != NULL && setting->value != NULL) {
        if (args_value_of(parsing, word, given, &value) != CTL_DONE) {
            return CTL_USAGE;
        }
        settings_set(&ctl->settings, (enum setting)(setting - SETTINGS_ABOUT), value);
        return CTL_DONE;
    }
    if (setting == NULL && other == NULL) {
        return args_take_own(parsing, word, name, len, given);
    }
    if (other == &others[2]) {
        return ctl_fail(CTL_USAGE, "a token on the command line is seen by all users of this "
                                   "machine: put it into a file, for --token-file");
    }
    ctl->json |= setting != NULL;
    parsing->action = other == NULL         ? parsing->action
                      : other == &others[0] ? ARGS_HELP
                                            : ARGS_VERSION;
    return given == NULL ? CTL_DONE : ctl_fail(CTL_USAGE, "%s: no value", word);
}

/* --- help --- */

#define TEXT_COLUMN 30

/* "tags put TAG", without parts that cannot be given. */
static void describe_words(const struct command *command, struct buf *out)
{
    buf_printf(out, "%s", command->family);
    if (command->name != NULL) {
        buf_printf(out, command->is_default ? " [%s]" : " %s", command->name);
    }
    if (command->operands != NULL) {
        buf_printf(out, " %s", command->operands);
    }
}

static void describe_put_line(const char *what, const char *text, struct buf *out)
{
    size_t at = strlen(what) + 2;

    buf_printf(out, "  %s", what);
    if (at + 2 > TEXT_COLUMN) {
        buf_printf(out, "\n");
        at = 0;
    }
    buf_printf(out, "%*s%s\n", (int)(TEXT_COLUMN - at), "", text);
}

static void describe_put_options(const struct option_about *list, struct buf *out)
{
    for (EACH_OPTION(option, list)) {
        BUF_LOCAL(what);

        if (option->letter != 0) {
            buf_printf(&what, "-%c, ", option->letter);
        }
        buf_printf(&what, "--%s%s%s", option->name, option->value != NULL ? " " : "",
                   option->value != NULL ? option->value : "");
        describe_put_line(buf_text(&what), option->text, out);
    }
}

/* All commands, a line each; or this one, with its options. Then the settings. */
static void describe(const struct command *command, struct buf *out)
{
    if (command != NULL) {
        buf_printf(out, "usage: leafctl ");
        describe_words(command, out);
        buf_printf(out, "%s\n\n  %s\n", command->options != NULL ? " [OPTIONS]" : "",
                   command->summary);
        if (command->text != NULL) {
            buf_printf(out, "  %s\n", command->text);
        }
        buf_printf(out, "%s", command->options != NULL ? "\noptions:\n" : "");
        describe_put_options(command->options, out);
    } else {
        buf_printf(out, "leafctl - look at a cluster of leafd, and change it\n\n"
                        "usage: leafctl [SETTINGS] COMMAND\n\ncommands:\n");
    }
    for (const struct command *at = COMMANDS; command == NULL && at->family != NULL; at++) {
        BUF_LOCAL(what);

        describe_words(at, &what);
        describe_put_line(buf_text(&what), at->summary, out);
    }
    buf_printf(out,
               "\nsettings, also as LEAFCTL_SERVER and so on, or in ~/.config/leafctl/config:\n");
    describe_put_options(SETTINGS_ABOUT, out);
    buf_printf(out, "%s",
               command == NULL ? "\nleafctl COMMAND --help explains a command; leafctl --version "
                                 "prints the version.\n"
                               : "");
}

/* --- completions --- */

static void complete_put(const char *dashes, const char *word, const char *text, struct buf *out)
{
    buf_printf(out, "%s%s\t%s\n", dashes, word, text != NULL ? text : "");
}

static void complete_put_options(const struct option_about *list, struct buf *out)
{
    for (EACH_OPTION(option, list)) {
        complete_put("--", option->name, option->text, out);
    }
}

/* The kind of the value that must follow a word, an option of any command: "FILE"; NULL: none. */
static const char *complete_value_of(const char *word)
{
    bool is_long = word[1] == '-';
    const char *name = word + 1 + is_long;
    size_t len = strlen(name);
    const struct option_about *found = NULL;

    if (len == 0 || (!is_long && len > 1)) {
        return NULL;
    }
    found = option_find(SETTINGS_ABOUT, name, len, !is_long);
    for (const struct command *at = COMMANDS; at->family != NULL; at++) {
        found = found != NULL ? found : option_find(at->options, name, len, !is_long);
    }
    return found != NULL ? found->value : NULL;
}

/* Append the possible last words, a line each with a tab and a description, or ":file"; nothing for
 * other values. */
static void complete_words(char *const *words, size_t count, struct buf *out)
{
    const char *last = count > 0 ? words[count - 1] : "";
    struct parsing before = {.count = 0};
    const struct command *command;
    const char *value = NULL;

    for (size_t i = 0; i + 1 < count; i++) {
        if (value != NULL) {
            value = NULL;
        } else if (*words[i] == '-') {
            value = complete_value_of(words[i]);
        } else if (before.count < 2) {
            before.words[before.count++] = words[i];
        }
    }
    command = args_find(&before);
    if (value != NULL) {
        buf_printf(out, "%s", is_file(value) ? ":file\n" : "");
        return;
    }
    if (*last == '-') {
        complete_put_options(command != NULL ? command->options : NULL, out);
        complete_put_options(SETTINGS_ABOUT, out);
        complete_put("--", "help", NULL, out);
        return;
    }
    for (const struct command *at = COMMANDS; at->family != NULL; at++) {
        if (before.count == 0 && (at == COMMANDS || strcmp(at[-1].family, at->family) != 0)) {
            complete_put("", at->family, at->name == NULL ? at->summary : NULL, out);
        } else if (before.count == 1 && at->name != NULL &&
                   strcmp(at->family, before.words[0]) == 0) {
            complete_put("", at->name, at->summary, out);
        }
    }
    if (out->len == 0 && command != NULL && is_file(command->operands)) {
        buf_printf(out, ":file\n");
    }
}

/* --- all of it --- */

/* The command that the words name, with its operands. */
static enum ctl_exit args_take_operands(struct parsing *parsing)
{
    struct ctl *ctl = parsing->ctl;
    const struct command *command = ctl->command;
    const char *operands = command->operands != NULL ? command->operands : "";
    unsigned used = command->name != NULL && parsing->count > 1 ? 2 : 1;
    unsigned given = parsing->count - used;
    unsigned least = 0;
    unsigned most = 0;

    if (parsing->of_options != NULL && parsing->of_options != command) {
        return ctl_fail(CTL_USAGE, "options of a command stand after its name: leafctl %s %s ...",
                        command->family, command->name != NULL ? command->name : "");
    }
    if (strcmp(operands, "...") == 0) {
        most = COMMAND_OPERANDS_MAX;
    } else { /* a word each, in brackets if optional */
        for (const char *word = command->operands; word != NULL; word = strchr(word, ' ')) {
            word += *word == ' ';
            least += *word != '[';
            most++;
        }
    }
    ASSERT(most <= COMMAND_OPERANDS_MAX);
    if (given < least || given > most) {
        return ctl_fail(CTL_USAGE, "usage: leafctl %s%s%s %s", COMMAND_WORDS(command), operands);
    }
    for (unsigned i = 0; i < given; i++) {
        ctl->args.operands[i] = parsing->words[used + i];
    }
    return given > 0 && is_file(operands) && command->source == NULL
               ? args_check_file("FILE", ctl->args.operands[0])
               : CTL_DONE;
}

enum ctl_exit args_parse(struct ctl *ctl, int argc, char **argv, bool *ret_run)
{
    struct parsing parsing = {.ctl = ctl, .argc = argc, .argv = argv};
    enum ctl_exit code = CTL_DONE;

    ctl->commands = COMMANDS;
    *ret_run = false;
    if (argc >= 2 && strcmp(argv[1], "--complete") == 0) { /* for the shells */
        complete_words(argv + 2, (size_t)argc - 2, &ctl->out);
        return CTL_DONE;
    }
    for (parsing.at = 1; code == CTL_DONE && parsing.at < argc; parsing.at++) {
        const char *word = argv[parsing.at];

        if (!parsing.only_words && strcmp(word, "--") == 0) {
            parsing.only_words = true;
        } else if (!parsing.only_words && word[0] == '-' && word[1] != '\0') {
            code = args_take_option(&parsing, word);
        } else if (parsing.count == WORDS_MAX) {
            code = ctl_fail(CTL_USAGE, "too many operands, from \"%s\" on", word);
        } else {
            parsing.words[parsing.count++] = word;
        }
    }
    ctl->command = args_find(&parsing);
    if (code != CTL_DONE) {
        return code;
    }
    if (parsing.action == ARGS_VERSION) {
        buf_printf(&ctl->out, "leafctl %s%s%s\n", LEAFD_VERSION,
                   commit_built[0] != '\0' ? " commit " : "", commit_built);
    } else if (parsing.action == ARGS_HELP) {
        describe(ctl->command, &ctl->out);
    } else {
        *ret_run = true;
        code = ctl->command != NULL ? args_take_operands(&parsing) : args_unknown(&parsing);
    }
    return code;
}
