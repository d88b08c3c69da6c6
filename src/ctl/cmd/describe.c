/*
 * describe.c - the table of commands as text: help, completions, the manual page.
 *
 * The scripts of all three shells do the same: they look for the words before the cursor that are
 * no options and no values of options; the first is the family, the second, where the family has
 * names, the name. What is offered then are words, or options, or files where a value or an operand
 * is one. Thread: any.
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
    buf_printf(out, "\nleafctl COMMAND --help tells more of one; leafctl --version, of this "
                    "program.\n");
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

/* --- completions: what all shells ask --- */

static bool is_first_of_family(const struct command *at)
{
    return at == COMMANDS || strcmp(at[-1].family, at->family) != 0;
}

/* Does a value, or an operand, name a file? */
static bool is_file(const char *text)
{
    return text != NULL && strstr(text, "FILE") != NULL;
}

/* The families; or, of one of them, the names. */
static void complete_put_words(const char *family, struct buf *out)
{
    const char *between = "";

    for
        EACH_COMMAND(at)
        {
            if (family == NULL ? is_first_of_family(at)
                               : at->name != NULL && strcmp(at->family, family) == 0) {
                buf_printf(out, "%s%s", between, family == NULL ? at->family : at->name);
                between = " ";
            }
        }
}

static void complete_put_options(const struct option_about *list, struct buf *out)
{
    for
        EACH_OPTION(option, list)
        {
            buf_printf(out, "--%s%s", option->name, option[1].name != NULL ? " " : "");
        }
}

/* --- completions: bash and zsh, one table of functions --- */

static void complete_put_words_cases(struct buf *out)
{
    buf_printf(out, "_leafctl_words() {\n    case $1 in\n    '') echo '");
    complete_put_words(NULL, out);
    buf_printf(out, "' ;;\n");
    for
        EACH_COMMAND(at)
        {
            if (is_first_of_family(at) && at->name != NULL) {
                buf_printf(out, "    '%s') echo '", at->family);
                complete_put_words(at->family, out);
                buf_printf(out, "' ;;\n");
            }
        }
    buf_printf(out, "    esac\n}\n");
}

static void complete_put_options_cases(struct buf *out)
{
    buf_printf(out, "_leafctl_options() {\n    case $1 in\n");
    for
        EACH_COMMAND(at)
        {
            if (at->options != NULL) {
                buf_printf(out, "    '%s%s%s'", COMMAND_WORDS(at));
                if (at->is_default) {
                    buf_printf(out, " | '%s'", at->family);
                }
                buf_printf(out, ") echo '");
                complete_put_options(at->options, out);
                buf_printf(out, "' ;;\n");
            }
        }
    buf_printf(out, "    esac\n    echo '");
    complete_put_options(SETTINGS_ABOUT, out);
    buf_printf(out, " --help'\n}\n");
}

/* "file" or "value" after an option that has one. */
static void complete_put_values(const struct option_about *list, struct buf *out)
{
    for
        EACH_OPTION(option, list)
        {
            if (option->value != NULL) {
                buf_printf(out, "    --%s", option->name);
                if (option->letter != 0) {
                    buf_printf(out, " | -%c", option->letter);
                }
                buf_printf(out, ") echo %s ;;\n", is_file(option->value) ? "file" : "value");
            }
        }
}

static void complete_put_functions(struct buf *out)
{
    complete_put_words_cases(out);
    complete_put_options_cases(out);
    buf_printf(out, "_leafctl_value() {\n    case $1 in\n");
    complete_put_values(SETTINGS_ABOUT, out);
    for
        EACH_COMMAND(at)
        {
            complete_put_values(at->options, out);
        }
    buf_printf(out, "    esac\n}\n_leafctl_operand() {\n    case $1 in\n");
    for
        EACH_COMMAND(at)
        {
            if (is_file(at->operands)) {
                buf_printf(out, "    '%s%s%s') echo file ;;\n", COMMAND_WORDS(at));
            }
        }
    buf_printf(out, "    esac\n}\n");
}

/* What the words before the cursor say: sets family, name (both as far as they are there), kind. */
static const char FIND[] =
    "    local family= name= kind= word skip=\n"
    "    for word in \"${before[@]}\"; do\n"
    "        if [ -n \"$skip\" ]; then skip=; continue; fi\n"
    "        case $word in\n"
    "            --*=*) ;;\n"
    "            -*) skip=$(_leafctl_value \"$word\") ;;\n"
    "            *) if [ -z \"$family\" ]; then family=$word\n"
    "               elif [ -z \"$name\" ] && [ -n \"$(_leafctl_words \"$family\")\" ]; then "
    "name=$word\n"
    "               fi ;;\n"
    "        esac\n"
    "    done\n"
    "    kind=$skip\n"
    "    local offered=\n"
    "    if [ \"$kind\" = value ]; then return\n"
    "    elif [ -z \"$kind\" ]; then\n"
    "        case $cur in\n"
    "            -*) offered=$(_leafctl_options \"$family${name:+ $name}\") ;;\n"
    "            *) if [ -z \"$family\" ]; then offered=$(_leafctl_words '')\n"
    "               elif [ -z \"$name\" ]; then offered=$(_leafctl_words \"$family\")\n"
    "               fi\n"
    "               [ -n \"$offered\" ] || kind=$(_leafctl_operand \"$family${name:+ $name}\") ;;\n"
    "        esac\n"
    "    fi\n";

static void complete_bash(struct buf *out)
{
    buf_printf(out, "# leafctl completion for bash; made by leafctl --print-completion bash\n");
    complete_put_functions(out);
    buf_printf(out,
               "_leafctl() {\n"
               "    local cur=${COMP_WORDS[COMP_CWORD]}\n"
               "    local before=(\"${COMP_WORDS[@]:1:COMP_CWORD-1}\")\n"
               "%s"
               "    if [ \"$kind\" = file ]; then\n"
               "        compopt -o filenames 2>/dev/null\n"
               "        mapfile -t COMPREPLY < <(compgen -f -- \"$cur\")\n"
               "    else\n"
               "        mapfile -t COMPREPLY < <(compgen -W \"$offered\" -- \"$cur\")\n"
               "    fi\n"
               "}\n"
               "complete -F _leafctl leafctl\n",
               FIND);
}

static void complete_zsh(struct buf *out)
{
    buf_printf(out, "#compdef leafctl\n# made by leafctl --print-completion zsh\n");
    complete_put_functions(out);
    buf_printf(out,
               "_leafctl() {\n"
               "    local cur=${words[CURRENT]}\n"
               "    local -a before\n"
               "    before=(${words[2,CURRENT-1]})\n"
               "%s"
               "    if [ \"$kind\" = file ]; then _files\n"
               "    else compadd -- ${=offered}\n"
               "    fi\n"
               "}\n"
               "_leafctl \"$@\"\n",
               FIND);
}

/* --- completions: fish --- */

/* Single quotes within single quotes; the end of a line. */
static void fish_put_text(const char *text, struct buf *out)
{
    buf_put(out, "'", 1);
    for (; *text != '\0'; text++) {
        if (*text == '\'' || *text == '\\') {
            buf_put(out, "\\", 1);
        }
        buf_put(out, text, 1);
    }
    buf_put(out, "'\n", 2);
}

static void fish_put_options(const char *when, const struct option_about *list, struct buf *out)
{
    for
        EACH_OPTION(option, list)
        {
            buf_printf(out, "complete -c leafctl%s -l %s", when, option->name);
            if (option->letter != 0) {
                buf_printf(out, " -s %c", option->letter);
            }
            if (option->value != NULL) {
                buf_printf(out, " -r%s", is_file(option->value) ? " -F" : "");
            }
            buf_printf(out, " -d ");
            fish_put_text(option->text, out);
        }
}

static void fish_put_command(const struct command *command, struct buf *out)
{
    BUF_LOCAL(when);

    if (is_first_of_family(command)) {
        buf_printf(out, "complete -c leafctl -n __fish_use_subcommand -a %s -d ", command->family);
        fish_put_text(command->name != NULL ? "" : command->summary, out);
    }
    if (command->name != NULL) {
        BUF_LOCAL(names);

        complete_put_words(command->family, &names);
        buf_printf(out,
                   "complete -c leafctl -n '__fish_seen_subcommand_from %s; and not "
                   "__fish_seen_subcommand_from %s' -a %s -d ",
                   command->family, buf_text(&names), command->name);
        fish_put_text(command->summary, out);
    }
    buf_printf(&when, " -n '__fish_seen_subcommand_from %s", command->family);
    if (command->name != NULL) {
        buf_printf(&when, "; and __fish_seen_subcommand_from %s", command->name);
    }
    buf_put(&when, "'", 1);
    fish_put_options(buf_text(&when), command->options, out);
    if (is_file(command->operands)) {
        buf_printf(out, "complete -c leafctl%s -F\n", buf_text(&when));
    }
}

static void complete_fish(struct buf *out)
{
    buf_printf(out, "# leafctl completion for fish; made by leafctl --print-completion fish\n"
                    "complete -c leafctl -f\n");
    fish_put_options("", SETTINGS_ABOUT, out);
    for
        EACH_COMMAND(at)
        {
            fish_put_command(at, out);
        }
}

bool complete_script(const char *shell, struct buf *out)
{
    if (strcmp(shell, "bash") == 0) {
        complete_bash(out);
    } else if (strcmp(shell, "zsh") == 0) {
        complete_zsh(out);
    } else if (strcmp(shell, "fish") == 0) {
        complete_fish(out);
    } else {
        return false;
    }
    return true;
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
