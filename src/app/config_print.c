/*
 * config_print.c - the table of settings as people read it: --print-config, --help, and the
 * Markdown of docs/configuration.md. Thread: main.
 */
#include <string.h>

#include "src/app/config_table.h"
#include "src/base/assert.h"

#define SOURCE_COLUMN 44
#define HELP_COLUMN 6
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
    for (size_t i = 0; i < config_key_count; i++) {
        size_t start = out->len;

        if (config->origins[i].text == NULL) { /* the members, for a node that joins */
            buf_printf(out, "# %s is not set\n", config_keys[i].name);
            continue;
        }
        buf_printf(out, "%s = ", config_keys[i].name);
        put_value(config->origins[i].text, out);
        while (out->len - start < SOURCE_COLUMN) {
            buf_put(out, " ", 1);
        }
        buf_printf(out, " # ");
        config_where(config, i, out);
        if (config_keys[i].offset == offsetof(struct config, secret_file) &&
            config->secret_len > 0) {
            buf_printf(out, ", holds %zu bytes, not shown", config->secret_len);
        }
        buf_printf(out, "\n");
    }
}

/* Words of text from the column on, in lines of the width; Markdown's backquotes are left out. */
static void put_wrapped(const char *text, struct buf *out)
{
    size_t column = 0;

    while (*text != '\0') {
        size_t word = strcspn(text, " ");

        if (column == 0 || column + 1 + word > HELP_WIDTH) {
            buf_printf(out, "%s%*s", column > 0 ? "\n" : "", HELP_COLUMN, "");
            column = HELP_COLUMN;
        } else {
            buf_put(out, " ", 1);
            column++;
        }
        for (size_t i = 0; i < word; i++) {
            if (text[i] != '`') {
                buf_put(out, &text[i], 1);
                column++;
            }
        }
        text += word + (text[word] == ' ');
    }
    buf_put(out, "\n", 1);
}

/* "1..65535; default 8080": the end of a setting's help. */
static void put_limits(const struct config_key *key, struct buf *out)
{
    struct buf line = BUF_INIT;

    config_key_rule(key, &line);
    if (key->unit != NULL && key->type == CONFIG_UINT) {
        buf_printf(&line, " %s", key->unit);
    }
    if (key->fallback == NULL) {
        buf_printf(&line, "; required");
    } else {
        buf_printf(&line, "; default: %s",
                   key->fallback_doc != NULL ? key->fallback_doc : key->fallback);
    }
    buf_put_u8(&line, '\0');
    put_wrapped((const char *)line.data, out);
    buf_free(&line);
}

/* The three names of a setting, on two lines where one would be too long. */
static void put_names(const char *flag, const char *variable, const char *name, struct buf *out)
{
    size_t len = strlen(flag) + strlen(variable) + strlen(name) + strlen("     file: ");

    buf_printf(out, "  %s   %s%sfile: %s\n", flag, variable, len <= HELP_WIDTH ? "   " : "\n  ",
               name);
}

void config_print_help(struct buf *out)
{
    buf_printf(out, "leafd - unique ids over HTTP, replicated by Raft\n"
                    "\n"
                    "usage: leafd [--config FILE] [--<setting> VALUE ...]\n"
                    "\n"
                    "  --config FILE        read settings from FILE (or LEAFD_CONFIG)\n"
                    "  --check-config       check the settings, and exit\n"
                    "  --print-config       print all settings in force and where each came from\n"
                    "  --print-config-doc   print the settings as a Markdown table\n"
                    "  --version            print the version and those of the libraries\n"
                    "  --help, -h           print this\n"
                    "\n"
                    "A setting comes from its flag, else its environment variable, else the config "
                    "file, else\nits default. In the file: key = value, and # for comments.\n"
                    "\n"
                    "settings:\n");
    for (size_t i = 0; i < config_key_count; i++) {
        const struct config_key *key = &config_keys[i];
        char flag[CONFIG_KEY_TEXT_BYTES];
        char variable[CONFIG_KEY_TEXT_BYTES];

        put_names(config_key_flag(key, flag), config_key_variable(key, variable), key->name, out);
        put_wrapped(key->description, out);
        put_limits(key, out);
    }
}

/* Text in a cell of a Markdown table. */
static void put_cell(const char *text, struct buf *out)
{
    for (; *text != '\0'; text++) {
        if (*text == '|') {
            buf_put(out, "\\", 1);
        }
        buf_put(out, text, 1);
    }
}

void config_print_doc(struct buf *out)
{
    buf_printf(out, "| setting | flag, variable | values | default | meaning |\n"
                    "|---|---|---|---|---|\n");
    for (size_t i = 0; i < config_key_count; i++) {
        const struct config_key *key = &config_keys[i];
        char flag[CONFIG_KEY_TEXT_BYTES];
        char variable[CONFIG_KEY_TEXT_BYTES];

        buf_printf(out, "| `%s` | `%s` `%s` | ", key->name, config_key_flag(key, flag),
                   config_key_variable(key, variable));
        config_key_rule(key, out);
        if (key->unit != NULL && key->type == CONFIG_UINT) {
            buf_printf(out, " %s", key->unit);
        }
        if (key->fallback == NULL) {
            buf_printf(out, " | required | ");
        } else if (key->fallback_doc != NULL) {
            buf_printf(out, " | ");
            put_cell(key->fallback_doc, out);
            buf_printf(out, " | ");
        } else {
            buf_printf(out, " | `%s` | ", key->fallback);
        }
        put_cell(key->description, out);
        buf_printf(out, " |\n");
    }
}
