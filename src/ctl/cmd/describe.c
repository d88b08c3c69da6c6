/*
 * describe.c - the table of commands as text: help, completions, the manual page.
 *
 * A completion script of a shell asks leafctl itself (--complete) what may stand at the cursor. It
 * looks for the words before the cursor that are no options and no values of options; the first is
 * the family, the second, where the family has names, the name. Thread: any.
 */
#include <string.h>

#include "src/ctl/cmd/command.h"

#define TEXT_COLUMN 30
#define EACH_COMMAND(at) (const struct command *at = COMMANDS; at->family != NULL; at++)
#define EACH_OPTION(option, list)                                                                  \
    (const struct option_about *option = (list); option != NULL && option->name != NULL; option++)

/* --- help --- */

/* "tags put TAG", without what cannot be given. */
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
    for
        EACH_OPTION(option, list)
        {
            BUF_LOCAL(what);

            if (option->letter != 0) {
                buf_printf(&what, "-%c, ", option->letter);
            }
            buf_printf(&what, "--%s%s%s", option->name, option->value != NULL ? " " : "",
                       option->value != NULL ? option->value : "");
            describe_put_line(buf_text(&what), option->text, out);
        }
}

static void describe_put_settings(struct buf *out)
{
    buf_printf(out,
               "\nsettings, also as LEAFCTL_SERVER and so on, or in ~/.config/leafctl/config:\n");
    describe_put_options(SETTINGS_ABOUT, out);
}

void describe_all(struct buf *out)
{
    buf_printf(out,
               "leafctl - look at a cluster of leafd, and change it\n\nusage: leafctl [SETTINGS] "
               "COMMAND\n\ncommands:\n");
    for
        EACH_COMMAND(at)
        {
            BUF_LOCAL(what);

            describe_words(at, &what);
            describe_put_line(buf_text(&what), at->summary, out);
        }
    describe_put_settings(out);
    buf_printf(out, "\nleafctl COMMAND --help explains a command; leafctl --version prints the "
                    "version.\n");
}

void describe_command(const struct command *command, struct buf *out)
{
    buf_printf(out, "usage: leafctl ");
    describe_words(command, out);
    buf_printf(out, "%s\n\n  %s\n", command->options != NULL ? " [OPTIONS]" : "", command->summary);
    if (command->text != NULL) {
        buf_printf(out, "  %s\n", command->text);
    }
    if (command->options != NULL) {
        buf_printf(out, "\noptions:\n");
    }
    describe_put_options(command->options, out);
    describe_put_settings(out);
}

/* --- completions --- */

static bool is_first_of_family(const struct command *at)
{
    return at == COMMANDS || strcmp(at[-1].family, at->family) != 0;
}

/* Does a value, or an operand, name a file? */
static bool is_file(const char *text)
{
    return text != NULL && strstr(text, "FILE") != NULL;
}

static void complete_put(const char *dashes, const char *word, const char *text, struct buf *out)
{
    buf_printf(out, "%s%s\t%s\n", dashes, word, text != NULL ? text : "");
}

static void complete_put_options(const struct option_about *list, struct buf *out)
{
    for
        EACH_OPTION(option, list)
        {
            complete_put("--", option->name, option->text, out);
        }
}

/* What the value of this option is, if it is one of the list: "FILE"; NULL: nothing. */
static const char *complete_value_of(const struct option_about *list, const char *word)
{
    for
        EACH_OPTION(option, list)
        {
            if (word[1] == '-' ? strcmp(word + 2, option->name) == 0
                               : word[1] != '\0' && word[1] == option->letter && word[2] == '\0') {
                return option->value;
            }
        }
    return NULL;
}

/* The words before the cursor: the family, the name where the family has names, and what the value
 * is that the last one needs. */
static void complete_read(const char *const *words, size_t count, const char **ret_family,
                          const char **ret_name, const char **ret_value)
{
    *ret_family = *ret_name = *ret_value = NULL;
    for (size_t i = 0; i < count; i++) {
        const char *word = words[i];
        bool has_names = false;

        if (*ret_value != NULL) {
            *ret_value = NULL;
        } else if (*word == '-') {
            *ret_value = complete_value_of(SETTINGS_ABOUT, word);
            for
                EACH_COMMAND(at)
                {
                    *ret_value =
                        *ret_value == NULL ? complete_value_of(at->options, word) : *ret_value;
                }
        } else if (*ret_family == NULL) {
            *ret_family = word;
        } else if (*ret_name == NULL) {
            for
                EACH_COMMAND(at)
                {
                    has_names |= at->name != NULL && strcmp(at->family, *ret_family) == 0;
                }
            *ret_name = has_names ? word : NULL;
        }
    }
}

void complete_words(const char *const *words, size_t count, struct buf *out)
{
    const char *last = count > 0 ? words[count - 1] : "";
    const char *family;
    const char *name;
    const char *value;
    bool file = false;

    complete_read(words, count > 0 ? count - 1 : 0, &family, &name, &value);
    for
        EACH_COMMAND(at)
        {
            bool own = family != NULL && strcmp(at->family, family) == 0;
            bool this = own && (name != NULL       ? at->name != NULL && strcmp(at->name, name) == 0
                                : at->name != NULL ? at->is_default
                                                   : true);

            if (value != NULL) {
                continue;
            }
            if (*last == '-') {
                complete_put_options(this ? at->options : NULL, out);
            } else if (family == NULL && is_first_of_family(at)) {
                complete_put("", at->family, at->name == NULL ? at->summary : NULL, out);
            } else if (own && name == NULL && at->name != NULL) {
                complete_put("", at->name, at->summary, out);
            }
            file |= this && out->len == 0 && is_file(at->operands);
        }
    if (value == NULL && *last == '-') {
        complete_put_options(SETTINGS_ABOUT, out);
        complete_put("--", "help", NULL, out);
    } else if (file || is_file(value)) {
        buf_printf(out, ":file\n");
    }
}

const char *complete_script(const char *shell)
{
    static const char *const scripts[][2] = {
        {"bash", "# leafctl completion for bash; made by leafctl --print-completion bash\n"
                 "_leafctl() {\n"
                 "    local cur=${COMP_WORDS[COMP_CWORD]} offered\n"
                 "    offered=$(\"${COMP_WORDS[0]}\" --complete \"${COMP_WORDS[@]:1:COMP_CWORD}\" "
                 "2>/dev/null | cut -f 1)\n"
                 "    if [ \"$offered\" = :file ]; then\n"
                 "        compopt -o filenames 2>/dev/null\n"
                 "        mapfile -t COMPREPLY < <(compgen -f -- \"$cur\")\n"
                 "    else\n"
                 "        mapfile -t COMPREPLY < <(compgen -W \"$offered\" -- \"$cur\")\n"
                 "    fi\n"
                 "}\n"
                 "complete -F _leafctl leafctl\n"},
        {"zsh", "#compdef leafctl\n# made by leafctl --print-completion zsh\n"
                "_leafctl() {\n"
                "    local offered\n"
                "    offered=$(${~words[1]} --complete \"${(@)words[2,CURRENT]}\" 2>/dev/null | "
                "cut -f 1)\n"
                "    if [ \"$offered\" = :file ]; then _files\n"
                "    else compadd -- ${=offered}\n"
                "    fi\n"
                "}\n"
                "_leafctl \"$@\"\n"},
        {"fish", "# leafctl completion for fish; made by leafctl --print-completion fish\n"
                 "function __leafctl\n"
                 "    set -l words (commandline -opc) (commandline -ct)\n"
                 "    set -l offered ($words[1] --complete $words[2..-1] 2>/dev/null)\n"
                 "    if test \"$offered\" = :file\n"
                 "        __fish_complete_path (commandline -ct)\n"
                 "    else\n"
                 "        string join \\n -- $offered\n"
                 "    end\n"
                 "end\n"
                 "complete -c leafctl -f -a '(__leafctl)'\n"},
    };

    for (size_t i = 0; i < COUNT_OF(scripts); i++) {
        if (strcmp(scripts[i][0], shell) == 0) {
            return scripts[i][1];
        }
    }
    return NULL;
}

/* --- the manual page --- */

/* Text in which nothing means anything to scdoc. */
static void manual_put_text(const char *text, struct buf *out)
{
    for (; *text != '\0'; text++) {
        if (strchr("\\*_<>#|[]", *text) != NULL) {
            buf_put(out, "\\", 1);
        }
        buf_put(out, text, 1);
    }
}

static void manual_put_options(const struct option_about *list, struct buf *out)
{
    for
        EACH_OPTION(option, list)
        {
            if (option->letter != 0) {
                buf_printf(out, "*-%c*, ", option->letter);
            }
            buf_printf(out, "*--%s*", option->name);
            if (option->value != NULL) {
                buf_printf(out, " ");
                manual_put_text(option->value, out);
            }
            buf_printf(out, "\n\t");
            manual_put_text(option->text, out);
            buf_printf(out, "\n\n");
        }
}

void complete_manual(struct buf *out)
{
    buf_printf(out, "# COMMANDS\n\n");
    for
        EACH_COMMAND(at)
        {
            buf_printf(out, "## ");
            describe_words(at, out); /* a heading is taken as it is */
            buf_printf(out, "%s\n\n", at->options != NULL ? " [OPTIONS]" : "");
            manual_put_text(at->summary, out);
            buf_printf(out, ".%s", at->text != NULL ? " " : "");
            manual_put_text(at->text != NULL ? at->text : "", out);
            buf_printf(out, "\n\n");
            manual_put_options(at->options, out);
        }
    buf_printf(out, "# SETTINGS\n\n");
    manual_put_options(SETTINGS_ABOUT, out);
}
