/*
 * command.c - see command.h. Thread: one.
 */
#include "src/ctl/cmd/command.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "http/proto/text.h"
#include "src/base/assert.h"
#include "src/ctl/net/exchange.h"
#include "src/ctl/out/text.h"

const char *ctl_option(const struct ctl *ctl, const char *name)
{
    const struct option_about *options = ctl->command->options;

    for (size_t i = 0; options != NULL && options[i].name != NULL; i++) {
        if (strcmp(options[i].name, name) == 0) {
            return ctl->args.values[i];
        }
    }
    UNREACHABLE("a command asks for an option that it does not have");
}

/* Lines of others, each cleaned. */
static void say_lines(const char *text)
{
    BUF_LOCAL(line);

    while (*text != '\0') {
        size_t len = strcspn(text, "\n");

        line.len = 0;
        clean_put(&line, text, len);
        fprintf(stderr, "leafctl: %.*s\n", (int)line.len, line.len > 0 ? (char *)line.data : "");
        text += text[len] == '\n' ? len + 1 : len;
    }
}

enum ctl_exit ctl_fail(enum ctl_exit code, const char *format, ...)
{
    char *text = NULL;
    va_list args;

    va_start(args, format);
    (void)fflush(stdout);
    ASSERT(vasprintf(&text, format, args) >= 0);
    va_end(args);
    say_lines(text);
    free(text);
    return code;
}

enum ctl_exit ctl_failed(enum ctl_exit code, struct answer *answer)
{
    (void)fflush(stdout);
    say_lines(answer->error.len > 0 ? (const char *)answer->error.data : "failed");
    answer_free(answer);
    return code;
}

enum ctl_exit ctl_number(const char *what, const char *text, uint64_t min, uint64_t max,
                         uint64_t *value)
{
    if (text != NULL && text_parse_decimal(text, strlen(text), min, max, value) != 0) {
        return ctl_fail(CTL_USAGE, "%s: \"%s\" is not a whole number from %" PRIu64 " to %" PRIu64,
                        what, text, min, max);
    }
    return CTL_DONE;
}

enum ctl_exit ctl_flush(struct ctl *ctl)
{
    bool good = ctl->out.len == 0 || fwrite(ctl->out.data, 1, ctl->out.len, stdout) == ctl->out.len;

    ctl->out.len = 0;
    if (!good || fflush(stdout) != 0) {
        return ctl_fail(CTL_OUTPUT, "the output cannot be written: %m");
    }
    return CTL_DONE;
}

/* DEL, which jansson leaves as it is, stands in strings alone. */
static int put_piece(const char *bytes, size_t len, void *data)
{
    const char *end = bytes + len;

    while (bytes < end) {
        const char *del = memchr(bytes, 0x7f, (size_t)(end - bytes));
        const char *stop = del != NULL ? del : end;

        buf_put(data, bytes, (size_t)(stop - bytes));
        if (del != NULL) {
            buf_printf(data, "\\u007f");
        }
        bytes = del != NULL ? del + 1 : end;
    }
    return 0;
}

void ctl_put_json(struct ctl *ctl, const json_t *json)
{
    ASSERT(json_dump_callback(json, put_piece, &ctl->out,
                              JSON_COMPACT | JSON_ENSURE_ASCII | JSON_ENCODE_ANY) == 0);
    buf_put(&ctl->out, "\n", 1);
}

enum ctl_exit ctl_must_be_object(struct answer *answer)
{
    if (json_is_object(answer->json)) {
        return CTL_DONE;
    }
    (void)ctl_fail(CTL_INTERNAL, "%s: the answer is no JSON object: is it a leafd?",
                   answer->server);
    answer_free(answer);
    return CTL_INTERNAL;
}

enum ctl_exit ctl_get(struct ctl *ctl, const char *target, struct answer *ret)
{
    const struct ask ask = {.target = target};
    enum ctl_exit code = cluster_ask(ctl->cluster, &ask, ret);

    return code != CTL_DONE ? ctl_failed(code, ret) : ctl_must_be_object(ret);
}

void ctl_put(struct ctl *ctl, const json_t *json, void (*put)(struct ctl *ctl, const json_t *json))
{
    if (ctl->json) {
        ctl_put_json(ctl, json);
    } else {
        put(ctl, json);
    }
}

enum ctl_exit ctl_show(struct ctl *ctl, const char *target,
                       void (*put)(struct ctl *ctl, const json_t *json))
{
    ANSWER_LOCAL(answer);
    enum ctl_exit code = ctl_get(ctl, target, &answer);

    if (code == CTL_DONE) {
        ctl_put(ctl, answer.json, put);
    }
    return code;
}

/* --- targets: a path, and options after it --- */

void target_init(struct target *target, const char *path, const char *name)
{
    *target = (struct target){0};
    buf_printf(&target->text, "%s", path);
    if (name != NULL) {
        exchange_encode(&target->text, name);
    }
}

void target_add(struct target *target, const char *option, const char *value)
{
    if (value != NULL) {
        buf_printf(&target->text, "%c%s=", target->has_option ? '&' : '?', option);
        exchange_encode(&target->text, value);
        target->has_option = true;
    }
}

void target_add_number(struct target *target, const char *option, uint64_t value)
{
    char text[24];

    (void)snprintf(text, sizeof text, "%" PRIu64, value);
    target_add(target, option, text);
}

const char *target_text(struct target *target)
{
    return buf_text(&target->text);
}

void target_free(struct target *target)
{
    buf_free(&target->text);
}

/* --- fields --- */

const char *field_text(const json_t *object, const char *name)
{
    return json_string_value(json_object_get(object, name));
}

bool field_is(const json_t *object, const char *name, const char *text)
{
    const char *there = field_text(object, name);

    return there != NULL && strcmp(there, text) == 0;
}

bool field_has_number(const json_t *object, const char *name)
{
    return field_number(object, name, INT64_MIN) != INT64_MIN;
}

int64_t field_number(const json_t *object, const char *name, int64_t without)
{
    const json_t *field = json_object_get(object, name);
    const char *text = json_string_value(field);
    uint64_t value = 0;

    if (json_is_integer(field)) {
        return json_integer_value(field);
    }
    if (json_is_real(field)) {
        double real = json_real_value(field);

        return real > -9e18 && real < 9e18 ? (int64_t)real : without;
    }
    if (text != NULL && text_parse_decimal(text, strlen(text), 0, INT64_MAX, &value) == 0) {
        return (int64_t)value;
    }
    return without;
}

bool field_true(const json_t *object, const char *name)
{
    return json_is_true(json_object_get(object, name));
}

size_t field_count(const json_t *object, const char *name)
{
    return json_array_size(json_object_get(object, name));
}

const json_t *field_item(const json_t *object, const char *name, size_t index)
{
    return json_array_get(json_object_get(object, name), index);
}
