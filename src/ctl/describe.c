/*
 * describe.c - see describe.h. Thread: any.
 */
#include "src/ctl/describe.h"

#include <string.h>

#define TEXT_COLUMN 30

void describe_usage(const struct command *command, struct buf *out)
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

void describe_all(const struct command *const *commands, struct buf *out)
{
    buf_printf(out,
               "leafctl - look at a cluster of leafd, and change it\n\nusage: leafctl [SETTINGS] "
               "COMMAND\n\ncommands:\n");
    for (; *commands != NULL; commands++) {
        BUF_LOCAL(what);

        buf_printf(&what, "%s", (*commands)->family);
        if ((*commands)->name != NULL) {
            buf_printf(&what, (*commands)->is_default ? " [%s]" : " %s", (*commands)->name);
        }
        buf_printf(&what, "%s%s", (*commands)->operands != NULL ? " " : "",
                   (*commands)->operands != NULL ? (*commands)->operands : "");
        describe_put_line(buf_text(&what), (*commands)->summary, out);
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
