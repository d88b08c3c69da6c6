/*
 * print.c - see print.h.
 */
#include "src/app/config/print.h"

#include <string.h>

#include "src/app/config/table.h"
#include "src/base/assert.h"

#define SOURCE_COLUMN 44
#define HELP_INDENT "      "
#define HELP_WIDTH 92

/* A value as the config file's syntax has it. No value has a double quote in it. */
static void put_value(const char *text, struct buf *out)
{
    size_t len = strlen(text);
    bool bare = len > 0 && strchr(text, '#') == NULL && text[0] != ' ' && text[len - 1] != ' ';

    ASSERT(strchr(text, '"') == NULL);
    buf_printf(out, bare ? "%s" : "\"%s\"", text);
}

void config_print(const struct config *config, struct buf *out)
{
    size_t secret = setting_row("cluster.secret-file");

    for (size_t row = 0; row < setting_count; row++) {
        size_t start = out->len;

        if (config->origins[row].text == NULL) { /* the members, for a node that joins */
            buf_printf(out, "# %s is not set\n", settings[row].name);
            continue;
        }
        buf_printf(out, "%s = ", settings[row].name);
        put_value(config->origins[row].text, out);
        while (out->len - start < SOURCE_COLUMN) {
            buf_put(out, " ", 1);
        }
        buf_printf(out, " # ");
        config_where(config, row, out);
        if (row == secret && config->node.keys.secret_count > 0) {
            buf_printf(out, ", holds %zu secret%s, not shown", config->node.keys.secret_count,
                       config->node.keys.secret_count > 1 ? "s" : "");
        }
        buf_printf(out, "\n");
    }
}

/* Text of docs/configuration.md for people at a terminal: without Markdown's backquotes, and of a
 * link the words alone. */
static void put_plain(const char *markdown, struct buf *out)
{
    const char *link = NULL; /* the end of its words */

    for (const char *at = markdown; *at != '\0'; at++) {
        if (at == link) {
            at = strchr(at, ')');
            ASSERT(at != NULL);
            link = NULL;
        } else if (*at == '[' && strchr(at, ']') != NULL && strchr(at, ']')[1] == '(') {
            link = strchr(at, ']');
        } else if (*at != '`') {
            buf_put(out, at, 1);
        }
    }
}

/* Words of text in lines of the width that begin so. */
static void put_wrapped(const char *begin, const char *markdown, struct buf *out)
{
    BUF_LOCAL(plain);
    const char *text;
    size_t column = 0;

    put_plain(markdown, &plain);
    text = buf_text(&plain);
    while (*text != '\0') {
        size_t word = strcspn(text, " ");

        if (column == 0 || column + 1 + word > HELP_WIDTH) {
            buf_printf(out, "%s%s", column > 0 ? "\n" : "", begin);
            column = strlen(begin);
        } else {
            buf_put(out, " ", 1);
            column++;
        }
        buf_put(out, text, word);
        column += word;
        text += word + (text[word] == ' ');
    }
    buf_put(out, "\n", 1);
}

/* The default in words; the mark goes around a value. */
static void put_default(const struct setting *setting, const char *mark, struct buf *out)
{
    if (setting->fallback == NULL) {
        buf_printf(out, "required");
    } else if (setting->fallback_doc != NULL) {
        buf_printf(out, "%s", setting->fallback_doc);
    } else {
        buf_printf(out, "%s%s%s", mark, setting->fallback, mark);
    }
}

/* "0..64; default: 0": the end of a setting's help. */
static void put_limits(const char *begin, const struct setting *setting, struct buf *out)
{
    BUF_LOCAL(line);

    setting_rule(setting, &line);
    buf_printf(&line, setting->fallback != NULL ? "; default: " : "; ");
    put_default(setting, "", &line);
    put_wrapped(begin, buf_text(&line), out);
}

void config_print_help(struct buf *out)
{
    buf_printf(out,
               "leafd - unique ids over HTTP, replicated by Raft\n"
               "\n"
               "usage: leafd [--config FILE] [--<setting> VALUE ...]\n"
               "       leafd restore FILE ...   a new cluster out of a backup; --help says more\n"
               "       leafd recover ...        and out of one node of a lost majority\n"
               "       leafd readmit ...        takes the mark off a directory that was refused\n"
               "\n"
               "  --config FILE        read settings from FILE (or LEAFD_CONFIG)\n"
               "  --check-config       check the settings, and exit\n"
               "  --print-config       print all settings in force and where each came from\n"
               "  --print-config-example  print a config file with all of them, as comments\n"
               "  --print-config-doc   print the settings as a Markdown table\n"
               "  --new-secret         print a new secret for cluster.secret-file\n"
               "  --new-token          print a new token, and its line for auth.tokens-file\n"
               "  --version            print the version and those of the libraries\n"
               "  --help, -h           print this\n"
               "\n"
               "A setting comes from its flag, else its environment variable, else the config "
               "file, else\nits default. In the file: key = value, and # for comments.\n"
               "\n"
               "settings:\n");
    for (size_t row = 0; row < setting_count; row++) {
        const struct setting *setting = &settings[row];
        struct setting_text variable;
        struct setting_text flag;
        size_t len = strlen(setting_spell(row, CONFIG_FROM_FLAG, &flag)) +
                     strlen(setting_spell(row, CONFIG_FROM_ENVIRONMENT, &variable)) +
                     strlen(setting->name) + strlen("     file: ");

        /* The three names, on two lines where one would be too long. */
        buf_printf(out, "  %s   %s%sfile: %s\n", flag.text, variable.text,
                   len <= HELP_WIDTH ? "   " : "\n  ", setting->name);
        put_wrapped(HELP_INDENT, setting->meaning, out);
        put_limits(HELP_INDENT, setting, out);
    }
}

void config_print_example(struct buf *out)
{
    buf_printf(out,
               "# Settings of a node of leafd. Those below begin with # and have their defaults; "
               "take the #\n# away to set one. Flags and environment variables overrule this "
               "file; `leafd --help` has\n# their names. `leafd --config THIS_FILE "
               "--check-config` says whether all is well.\n");
    for (size_t row = 0; row < setting_count; row++) {
        const struct setting *setting = &settings[row];
        bool has_default = setting->fallback != NULL;

        buf_printf(out, "\n");
        put_wrapped("# ", setting->meaning, out);
        put_limits("# ", setting, out);
        if (setting->live) {
            buf_printf(out, "# SIGHUP changes it.\n");
        }
        buf_printf(out, "#%s =%s%s\n", setting->name, has_default && *setting->fallback ? " " : "",
                   has_default ? setting->fallback : "");
    }
}

void config_print_doc(struct buf *out)
{
    buf_printf(out, "| setting | values | default | meaning |\n"
                    "|---|---|---|---|\n");
    for (size_t row = 0; row < setting_count; row++) {
        const struct setting *setting = &settings[row];

        ASSERT(strchr(setting->meaning, '|') == NULL); /* it would end the cell */
        buf_printf(out, "| `%s` | ", setting->name);
        setting_rule_brief(setting, out);
        buf_printf(out, " | ");
        put_default(setting, "`", out);
        buf_printf(out, " | %s%s |\n", setting->meaning, setting->live ? " `SIGHUP`." : "");
    }
}
