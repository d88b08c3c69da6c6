/*
 * describe.c - see describe.h.
 *
 * The scripts of all three shells do the same: they look for the words before the cursor that are
 * no options and no values of options; the first is the family, the second, where the family has
 * names, the name. What is offered then are words, or options, or files where a value or an operand
 * is one. Thread: any.
 */
#include "src/ctl/describe.h"

#include <string.h>

#include "src/ctl/cmd/all.h"

#define PLACE_OF(name) &COMMAND_##name,
const struct command *const COMMANDS[] = {EACH_COMMAND(PLACE_OF) NULL};

/* --- help --- */

#define TEXT_COLUMN 30

typedef const struct command *const *commands_t;

/* "leafctl tags put TAG [OPTIONS]", without what cannot be given. */
static void describe_usage(const struct command *command, struct buf *out)
{
    buf_printf(out, "leafctl %s", command->family);
    if (command->name != NULL) {
        buf_printf(out, command->is_default ? " [%s]" : " %s", command->name);
    }
    if (command->operands != NULL) {
        buf_printf(out, " %s", command->operands);
    }
    if (command->options != NULL) {
        buf_printf(out, " [OPTIONS]");
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

static void describe_put_options(const struct option_about *option, struct buf *out)
{
    for (; option != NULL && option->name != NULL; option++) {
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
    for (commands_t at = COMMANDS; *at != NULL; at++) {
        BUF_LOCAL(what);

        buf_printf(&what, "%s", (*at)->family);
        if ((*at)->name != NULL) {
            buf_printf(&what, (*at)->is_default ? " [%s]" : " %s", (*at)->name);
        }
        buf_printf(&what, "%s%s", (*at)->operands != NULL ? " " : "",
                   (*at)->operands != NULL ? (*at)->operands : "");
        describe_put_line(buf_text(&what), (*at)->summary, out);
    }
    describe_put_settings(out);
    buf_printf(out, "\nleafctl COMMAND --help tells more of one; leafctl --version, of this "
                    "program.\n");
}

void describe_command(const struct command *command, struct buf *out)
{
    buf_printf(out, "usage: ");
    describe_usage(command, out);
    buf_printf(out, "\n\n  %s\n", command->summary);
    if (command->text != NULL) {
        buf_printf(out, "  %s\n", command->text);
    }
    if (command->options != NULL) {
        buf_printf(out, "\noptions:\n");
    }
    describe_put_options(command->options, out);
    describe_put_settings(out);
}

/* --- completions, manual page --- */

static bool is_first_of_family(commands_t at)
{
    for (commands_t before = COMMANDS; before != at; before++) {
        if (strcmp((*before)->family, (*at)->family) == 0) {
            return false;
        }
    }
    return true;
}

/* Does a value, or an operand, name a file? */
static bool is_file(const char *text)
{
    return text != NULL && strstr(text, "FILE") != NULL;
}

static void put_families(struct buf *out)
{
    const char *between = "";

    for (commands_t at = COMMANDS; *at != NULL; at++) {
        if (is_first_of_family(at)) {
            buf_printf(out, "%s%s", between, (*at)->family);
            between = " ";
        }
    }
}

static void put_names(const char *family, struct buf *out)
{
    const char *between = "";

    for (commands_t at = COMMANDS; *at != NULL; at++) {
        if ((*at)->name != NULL && strcmp((*at)->family, family) == 0) {
            buf_printf(out, "%s%s", between, (*at)->name);
            between = " ";
        }
    }
}

static void complete_put_settings(struct buf *out)
{
    for (const struct option_about *option = SETTINGS_ABOUT; option->name != NULL; option++) {
        buf_printf(out, "--%s ", option->name);
    }
    buf_printf(out, "--help");
}

/* --- bash and zsh: one table of functions --- */

static void put_case(const char *what, struct buf *text, struct buf *out)
{
    if (text->len > 0) {
        buf_printf(out, "    '%s') echo '%s' ;;\n", what, buf_text(text));
    }
}

static void complete_put_words(struct buf *out)
{
    BUF_LOCAL(words);

    buf_printf(out, "_leafctl_words() {\n    case $1 in\n");
    put_families(&words);
    put_case("", &words, out);
    for (commands_t at = COMMANDS; *at != NULL; at++) {
        words.len = 0;
        if (is_first_of_family(at)) {
            put_names((*at)->family, &words);
            put_case((*at)->family, &words, out);
        }
    }
    buf_printf(out, "    esac\n}\n");
}

static void complete_put_options(struct buf *out)
{
    BUF_LOCAL(text);

    buf_printf(out, "_leafctl_options() {\n    case $1 in\n");
    for (commands_t at = COMMANDS; *at != NULL; at++) {
        const struct command *command = *at;

        text.len = 0;
        for (const struct option_about *option = command->options;
             option != NULL && option->name != NULL; option++) {
            buf_printf(&text, "%s--%s", text.len > 0 ? " " : "", option->name);
        }
        if (text.len > 0) {
            buf_printf(out, "    '%s%s%s'", COMMAND_WORDS(command));
            if (command->is_default) {
                buf_printf(out, " | '%s'", command->family);
            }
            buf_printf(out, ") echo '%s' ;;\n", buf_text(&text));
        }
    }
    buf_printf(out, "    esac\n    echo '");
    complete_put_settings(out);
    buf_printf(out, "'\n}\n");
}

/* "file" or "value" behind an option that has one. */
static void put_values_of(const struct option_about *option, struct buf *out)
{
    for (; option != NULL && option->name != NULL; option++) {
        if (option->value == NULL) {
            continue;
        }
        buf_printf(out, "    --%s", option->name);
        if (option->letter != 0) {
            buf_printf(out, " | -%c", option->letter);
        }
        buf_printf(out, ") echo %s ;;\n", is_file(option->value) ? "file" : "value");
    }
}

static void put_values(struct buf *out)
{
    buf_printf(out, "_leafctl_value() {\n    case $1 in\n");
    put_values_of(SETTINGS_ABOUT, out);
    for (commands_t at = COMMANDS; *at != NULL; at++) {
        put_values_of((*at)->options, out);
    }
    buf_printf(out, "    esac\n}\n");
}

static void put_operands(struct buf *out)
{
    buf_printf(out, "_leafctl_operand() {\n    case $1 in\n");
    for (commands_t at = COMMANDS; *at != NULL; at++) {
        if (is_file((*at)->operands)) {
            buf_printf(out, "    '%s%s%s') echo file ;;\n", COMMAND_WORDS(*at));
        }
    }
    buf_printf(out, "    esac\n}\n");
}

static void put_functions(struct buf *out)
{
    complete_put_words(out);
    complete_put_options(out);
    put_values(out);
    put_operands(out);
}

/* Behind the words before the cursor: sets family, name (both as far as they are there), kind. */
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

static void put_bash(struct buf *out)
{
    buf_printf(out, "# leafctl completion for bash; made by leafctl --print-completion bash\n");
    put_functions(out);
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

static void put_zsh(struct buf *out)
{
    buf_printf(out, "#compdef leafctl\n# made by leafctl --print-completion zsh\n");
    put_functions(out);
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

/* --- fish --- */

/* Single quotes within single quotes; the end of a line. */
static void put_fish_text(const char *text, struct buf *out)
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

static void put_fish_options(const char *when, const struct option_about *option, struct buf *out)
{
    for (; option != NULL && option->name != NULL; option++) {
        buf_printf(out, "complete -c leafctl%s -l %s", when, option->name);
        if (option->letter != 0) {
            buf_printf(out, " -s %c", option->letter);
        }
        if (option->value != NULL) {
            buf_printf(out, " -r%s", is_file(option->value) ? " -F" : "");
        }
        buf_printf(out, " -d ");
        put_fish_text(option->text, out);
    }
}

static void put_fish_command(commands_t at, struct buf *out)
{
    const struct command *command = *at;
    BUF_LOCAL(when);

    if (is_first_of_family(at)) {
        buf_printf(out, "complete -c leafctl -n __fish_use_subcommand -a %s -d ", command->family);
        put_fish_text(command->name != NULL ? "" : command->summary, out);
    }
    if (command->name != NULL) {
        BUF_LOCAL(names);

        put_names(command->family, &names);
        buf_printf(out,
                   "complete -c leafctl -n '__fish_seen_subcommand_from %s; and not "
                   "__fish_seen_subcommand_from %s' -a %s -d ",
                   command->family, buf_text(&names), command->name);
        put_fish_text(command->summary, out);
    }
    buf_printf(&when, " -n '__fish_seen_subcommand_from %s", command->family);
    if (command->name != NULL) {
        buf_printf(&when, "; and __fish_seen_subcommand_from %s", command->name);
    }
    buf_put(&when, "'", 1);
    put_fish_options(buf_text(&when), command->options, out);
    if (is_file(command->operands)) {
        buf_printf(out, "complete -c leafctl%s -F\n", buf_text(&when));
    }
}

static void put_fish(struct buf *out)
{
    buf_printf(out, "# leafctl completion for fish; made by leafctl --print-completion fish\n"
                    "complete -c leafctl -f\n");
    put_fish_options("", SETTINGS_ABOUT, out);
    for (commands_t at = COMMANDS; *at != NULL; at++) {
        put_fish_command(at, out);
    }
}

bool complete_script(const char *shell, struct buf *out)
{
    if (strcmp(shell, "bash") == 0) {
        put_bash(out);
    } else if (strcmp(shell, "zsh") == 0) {
        put_zsh(out);
    } else if (strcmp(shell, "fish") == 0) {
        put_fish(out);
    } else {
        return false;
    }
    return true;
}

/* --- the manual page --- */

/* Text in which nothing means anything to scdoc. */
static void put_scdoc(const char *text, struct buf *out)
{
    for (; *text != '\0'; text++) {
        if (strchr("\\*_<>#|[]", *text) != NULL) {
            buf_put(out, "\\", 1);
        }
        buf_put(out, text, 1);
    }
}

static void put_manual_options(const struct option_about *option, struct buf *out)
{
    for (; option != NULL && option->name != NULL; option++) {
        if (option->letter != 0) {
            buf_printf(out, "*-%c*, ", option->letter);
        }
        buf_printf(out, "*--%s*", option->name);
        if (option->value != NULL) {
            buf_printf(out, " ");
            put_scdoc(option->value, out);
        }
        buf_printf(out, "\n\t");
        put_scdoc(option->text, out);
        buf_printf(out, "\n\n");
    }
}

static void put_manual_command(const struct command *command, struct buf *out)
{
    BUF_LOCAL(usage);

    describe_usage(command, &usage);
    /* A heading is taken as it is. */
    buf_printf(out, "## %s\n\n", buf_text(&usage) + strlen("leafctl "));
    put_scdoc(command->summary, out);
    buf_printf(out, ".%s", command->text != NULL ? " " : "");
    put_scdoc(command->text != NULL ? command->text : "", out);
    buf_printf(out, "\n\n");
    put_manual_options(command->options, out);
}

void complete_manual(struct buf *out)
{
    buf_printf(out, "# COMMANDS\n\n");
    for (commands_t at = COMMANDS; *at != NULL; at++) {
        put_manual_command(*at, out);
    }
    buf_printf(out, "# SETTINGS\n\n");
    put_manual_options(SETTINGS_ABOUT, out);
}
