/*
 * command.c - see command.h. Thread: one.
 */
#include "src/ctl/cmd/command.h"

#include <inttypes.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>

#include "http/proto/text.h"
#include "src/base/address.h"
#include "src/base/assert.h"
#include "src/base/clock.h"
#include "src/base/utf8.h"
#include "src/id/codec/snowflake_layout.h"

/* --- text --- */

void clean_put(struct buf *out, const char *text, size_t len)
{
    while (len > 0) {
        uint32_t code = 0;
        size_t step = utf8_step(text, len, &code);

        if (step == 0) {
            buf_printf(out, "\\x%02x", (unsigned char)*text);
            step = 1;
        } else if (!looks_unseen(code)) {
            buf_put(out, text, step);
        } else if (code < 0x80) {
            buf_printf(out, "\\x%02x", (unsigned)code);
        } else {
            buf_printf(out, "\\u{%x}", (unsigned)code);
        }
        text += step;
        len -= step;
    }
}

void clean_text(struct buf *out, const char *text)
{
    if (text == NULL) {
        buf_put(out, "-", 1);
    } else {
        clean_put(out, text, strlen(text));
    }
}

/* The width of clean text, which is UTF-8, in a terminal: wide characters count twice. */
static size_t clean_width(const char *text)
{
    size_t width = 0;

    for (size_t left = strlen(text), step; left > 0; text += step, left -= step) {
        uint32_t code = 0;
        int columns;

        step = utf8_step(text, left, &code);
        ASSERT(step > 0);
        columns = wcwidth((wchar_t)code);
        width += columns < 0 ? 1 : (size_t)columns;
    }
    return width;
}

/* --- units --- */

const char *units_bytes(uint64_t bytes, char out[UNITS_BYTES])
{
    static const char *const names[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double value = (double)bytes;
    unsigned unit = 0;

    while (value >= 1023.95 && unit < 6) {
        value /= 1024;
        unit++;
    }
    (void)snprintf(out, UNITS_BYTES, unit == 0 ? "%.0f %s" : "%.1f %s", value, names[unit]);
    return out;
}

const char *units_ms(uint64_t ms, char out[UNITS_BYTES])
{
    uint64_t s = ms / 1000;

    if (ms < 1000) {
        (void)snprintf(out, UNITS_BYTES, "%" PRIu64 " ms", ms);
    } else if (s < 120) {
        (void)snprintf(out, UNITS_BYTES, "%" PRIu64 " s", s);
    } else if (s < 2 * 3600) {
        (void)snprintf(out, UNITS_BYTES, "%" PRIu64 " min", s / 60);
    } else if (s < UINT64_C(48) * 3600) {
        (void)snprintf(out, UNITS_BYTES, "%" PRIu64 " h %" PRIu64 " min", s / 3600, s / 60 % 60);
    } else {
        (void)snprintf(out, UNITS_BYTES, "%" PRIu64 " d", s / 86400);
    }
    return out;
}

/* --- messages and output --- */

enum ctl_exit ctl_fail(enum ctl_exit code, const char *format, ...)
{
    BUF_LOCAL(text);
    BUF_LOCAL(clean);
    va_list args;
    char *rest;

    va_start(args, format);
    buf_vprintf(&text, format, args);
    va_end(args);
    for (rest = buf_text(&text); *rest != '\0';) {
        size_t len = strcspn(rest, "\n");

        buf_printf(&clean, "leafctl: ");
        clean_put(&clean, rest, len);
        buf_put(&clean, "\n", 1);
        rest += rest[len] == '\n' ? len + 1 : len;
    }
    (void)fflush(stdout);
    (void)fwrite(clean.data, 1, clean.len, stderr);
    return code;
}

enum ctl_exit ctl_failed(enum ctl_exit code, struct answer *answer)
{
    (void)ctl_fail(code, "%s", answer->error.len > 0 ? (char *)answer->error.data : "failed");
    answer_free(answer);
    return code;
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

void ctl_put_json(struct ctl *ctl, const json_t *json)
{
    char *text = json_dumps(json, JSON_COMPACT | JSON_ENSURE_ASCII | JSON_ENCODE_ANY);

    ASSERT((text == NULL) == (json == NULL));
    for (const char *c = text != NULL ? text : "null"; *c != '\0'; c++) {
        /* jansson does not escape DEL, which is only in strings. */
        buf_put(&ctl->out, *c == 0x7f ? "\\u007f" : c, *c == 0x7f ? 6 : 1);
    }
    buf_put(&ctl->out, "\n", 1);
    free(text);
}

/* --- options of the command --- */

const struct option_about *option_find(const struct option_about *list, const char *name,
                                       size_t len, bool by_letter)
{
    for (EACH_OPTION(option, list)) {
        if (by_letter ? *name == option->letter
                      : strlen(option->name) == len && memcmp(name, option->name, len) == 0) {
            return option;
        }
    }
    return NULL;
}

const char *ctl_option(const struct ctl *ctl, const char *name)
{
    const char *value = NULL;
    bool known = false;

    for (const struct command *at = ctl->commands; at->family != NULL; at++) {
        const struct option_about *option = option_find(at->options, name, strlen(name), false);

        known |= option != NULL;
        if (at == ctl->command && option != NULL) {
            value = ctl->args.values[option - at->options];
        }
    }
    ASSERT(known);
    return value;
}

bool ctl_has(const struct ctl *ctl, const char *name)
{
    return ctl_option(ctl, name) != NULL;
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

enum ctl_exit ctl_number_option(const struct ctl *ctl, const char *name, uint64_t max,
                                uint64_t *value)
{
    return ctl_number(name, ctl_option(ctl, name), 1, max, value);
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

json_t *field_item(const json_t *object, const char *name, size_t index)
{
    return json_array_get(json_object_get(object, name), index);
}

/* --- forms --- */

#define FORM_NAME_BYTES 64

/* A field of one of the forms that command.h names. */
static void form_put_number(struct buf *out, const json_t *object, const char *name,
                            const char *how)
{
    int64_t number = field_number(object, name, 0);
    char text[TEXT_TIME_BYTES + UNITS_BYTES];

    if (*how == '!') {
        buf_printf(out, "%s", field_true(object, name) ? how + 1 : "");
    } else if (strcmp(how, "n") != 0 && !field_has_number(object, name)) {
        buf_printf(out, "-");
    } else if (strcmp(how, "bytes") == 0) {
        buf_printf(out, "%s", units_bytes((uint64_t)number, text));
    } else if (strcmp(how, "age") == 0) {
        buf_printf(out, "%s", units_ms((uint64_t)number, text));
    } else if (strcmp(how, "ms") == 0) {
        buf_printf(out, "%.1f ms", (double)number / 1000);
    } else if (strcmp(how, "signed") == 0) {
        buf_printf(out, "%+" PRId64 " ms", number);
    } else if (strcmp(how, "time") == 0 || strcmp(how, "date") == 0) {
        buf_printf(out, "%s",
                   number > 0 || *how == 'd' ? text_time_rfc3339((uint64_t)number, text) : "-");
    } else {
        ASSERT(strcmp(how, "n") == 0 || strcmp(how, "int") == 0);
        buf_printf(out, "%" PRId64, number);
    }
}

void ctl_put_form(struct buf *out, const char *form, const json_t *json)
{
    while (*form != '\0') {
        size_t plain = strcspn(form, "{");
        size_t before;
        char name[FORM_NAME_BYTES] = "";
        char *how;
        char *part = name;
        const json_t *object = json;

        buf_put(out, form, plain);
        form += plain;
        if (*form == '\0') {
            break;
        }
        plain = strcspn(form, "}");
        ASSERT(form[plain] == '}' && plain < sizeof name);
        memcpy(name, form + 1, plain - 1);
        form += plain + 1;
        how = strchr(name, ':');
        if (how != NULL) {
            *how++ = '\0';
        }
        for (char *dot; (dot = strchr(part, '.')) != NULL; part = dot + 1) {
            *dot = '\0';
            object = json_object_get(object, part);
        }
        before = out->len;
        if (how != NULL && (*how < '0' || *how > '9')) {
            form_put_number(out, object, part, how);
            continue;
        }
        clean_text(out, field_text(object, part));
        for (size_t width = how != NULL ? strtoul(how, NULL, 10) : 0; out->len - before < width;) {
            buf_put(out, " ", 1);
        }
    }
}

void ctl_put(struct ctl *ctl, const json_t *json, const char *form)
{
    if (ctl->json) {
        ctl_put_json(ctl, json);
    } else {
        ctl_put_form(&ctl->out, form, json);
    }
}

void ctl_put_rows(struct buf *out, struct grid *grid, const json_t *rows, unsigned indent)
{
    size_t titles = grid->titled ? 0 : 1; /* the first line is of titles */
    size_t columns = 0;
    size_t cells;
    const char *at;
    BUF_LOCAL(text); /* of the cells, each ended by a NUL */

    while (grid->titles[columns].title != NULL) {
        columns++;
    }
    ASSERT(columns <= GRID_COLUMNS_MAX);
    cells = (json_array_size(rows) + titles) * columns;
    for (size_t cell = 0; cell < cells; cell++) {
        const struct grid_column *column = &grid->titles[cell % columns];
        size_t *width = &grid->widths[cell % columns];
        size_t before = text.len;
        size_t own;

        if (titles > 0 && cell < columns) {
            buf_printf(&text, "%s", column->title + (*column->title == '>'));
        } else {
            ctl_put_form(&text, column->form, json_array_get(rows, cell / columns - titles));
        }
        buf_put(&text, "", 1);
        own = clean_width((const char *)text.data + before);
        *width = own > *width ? own : *width;
    }
    grid->titled = true;
    at = (const char *)text.data;
    for (size_t cell = 0; cell < cells; cell++, at += strlen(at) + 1) {
        size_t column = cell % columns;
        int blanks = (int)(grid->widths[column] - clean_width(at));
        bool right = *grid->titles[column].title == '>';

        buf_printf(out, "%*s%s", (column == 0 ? (int)indent : 0) + (right ? blanks : 0), "", at);
        if (column + 1 < columns) {
            buf_printf(out, "%*s", right ? 2 : blanks + 2, "");
            continue;
        }
        while (out->len > 0 && out->data[out->len - 1] == ' ') {
            out->len--;
        }
        buf_put(out, "\n", 1);
    }
}

/* --- requests --- */

enum ctl_exit ctl_ask(struct ctl *ctl, const struct ask *ask, struct answer *ret)
{
    enum ctl_exit code = cluster_ask(ctl->cluster, ask, ret);

    if (code != CTL_DONE || json_is_object(ret->json)) {
        return code;
    }
    ret->error.len = 0;
    buf_printf(&ret->error, "%s: the answer is no JSON object: is it a leafd?", ret->server);
    buf_put(&ret->error, "", 1);
    return CTL_INTERNAL;
}

enum ctl_exit ctl_get(struct ctl *ctl, const char *target, struct answer *ret)
{
    const struct ask ask = {.target = target};
    enum ctl_exit code = ctl_ask(ctl, &ask, ret);

    return code != CTL_DONE ? ctl_failed(code, ret) : CTL_DONE;
}

void target_put(struct buf *target, const char *text)
{
    for (; *text != '\0'; text++) {
        bool plain = (*text >= 'a' && *text <= 'z') || (*text >= 'A' && *text <= 'Z') ||
                     (*text >= '0' && *text <= '9') || strchr("-._~", *text) != NULL;

        buf_printf(target, plain ? "%c" : "%%%02X", (unsigned char)*text);
    }
}

void target_add(struct buf *target, const char *option, const char *value)
{
    if (value != NULL) {
        buf_printf(target, "%c%s=", strchr(buf_text(target), '?') != NULL ? '&' : '?', option);
        target_put(target, value);
    }
}

void target_add_number(struct buf *target, const char *option, uint64_t value)
{
    char text[24];

    (void)snprintf(text, sizeof text, "%" PRIu64, value);
    target_add(target, option, text);
}

enum ctl_exit ctl_send(struct ctl *ctl, const char *method, const char *target, const json_t *body,
                       bool once, struct answer *ret)
{
    char *text = body != NULL ? MUST_HAVE(json_dumps(body, JSON_COMPACT)) : NULL;
    const struct ask ask = {.method = method, .target = target, .body = text, .once = once};
    enum ctl_exit code = ctl_ask(ctl, &ask, ret);

    free(text);
    return code;
}

/* The options that are fields of requests. */
static const struct part OPTION_PARTS[] = {
    {"max-id", "max_id", PART_NUMBER, 0, INT64_MAX},
    {"step", "step", PART_NUMBER, 0, INT64_MAX},
    {"max-step", "max_step", PART_NUMBER, 0, INT64_MAX},
    {"max", "max", PART_BOUND, 0, INT64_MAX},
    {"shape-key", "key", PART_NUMBER, 0, INT64_MAX},
    {"mode", "mode", PART_TEXT, 0, 0},
    {"increment", "increment", PART_NUMBER, 0, INT64_MAX},
    {"offset", "offset", PART_NUMBER, 0, INT64_MAX},
    {"cover-s", "cover_s", PART_NUMBER, 0, INT64_MAX},
    {"description", "description", PART_TEXT, 0, 0},
    {"shape", "shape", PART_TEXT, 0, 0},
    {"reason", "reason", PART_TEXT, 0, 0},
    {"worker-id", "worker_id", PART_NUMBER, 0, LIMIT_WORKER_IDS - 1},
    {"from-ms", "from_ms", PART_NUMBER, 0, INT64_MAX},
    {"layout", "layout", PART_TEXT, 0, 0},
    {"zone", "zone", PART_TEXT, 0, 0},
    {"address", "address", PART_TEXT, 0, 0},
    {"epoch", "epoch", PART_NUMBER, 1, INT64_MAX},
    {"window-ms", "window_ms", PART_NUMBER, LIMIT_WINDOW_MIN_MS, LIMIT_WINDOW_MAX_MS},
    {"last-timestamp-ms", "last_timestamp_ms", PART_NUMBER, 0, INT64_MAX},
    {"wait-all", "wait=all", PART_FLAG, 0, 0},
    {"force", "force=1", PART_FLAG, 0, 0},
    {NULL, NULL, PART_TEXT, 0, 0},
};

static enum ctl_exit part_check(const struct part *part, const char *text, uint64_t *ret_number)
{
    size_t len = strlen(text);
    struct snowflake_parts parts;
    struct address split;
    enum id_form form;

    if (part->kind == PART_BOUND && strcmp(text, "none") == 0) {
        *ret_number = part->max;
        return CTL_DONE;
    }
    if (part->kind == PART_NUMBER || part->kind == PART_BOUND ||
        (part->kind == PART_ID && !long_id_read(text, len, &form, &parts))) {
        return ctl_number(part->given, text, part->min, part->max, ret_number);
    }
    if (part->kind == PART_TAG && (len == 0 || len > LIMIT_TAG_NAME_BYTES)) {
        return ctl_fail(CTL_USAGE, "a tag's name has 1 to %d bytes, not %zu", LIMIT_TAG_NAME_BYTES,
                        len);
    }
    if (part->kind == PART_ADDRESS && (address_split(text, &split) != 0 ||
                                       strpbrk(text, "\"\\") != NULL || !text_is_utf8(text, len))) {
        return ctl_fail(CTL_USAGE, "\"%s\" is not HOST:PORT", text);
    }
    return CTL_DONE;
}

bool body_set(json_t **body, const char *field, json_t *value)
{
    *body = *body != NULL ? *body : MUST_HAVE(json_object());
    return json_object_set_new(*body, field, value) == 0;
}

/* Put it into the query or the body; text NULL: it is not given. */
static enum ctl_exit part_put(const struct part *part, const char *text, const char *method,
                              struct buf *target, json_t **body)
{
    uint64_t number = 0;

    if (text == NULL) {
        return CTL_DONE;
    }
    if (part_check(part, text, &number) != CTL_DONE) {
        return CTL_USAGE;
    }
    if (part->kind == PART_FLAG) {
        buf_printf(target, "%c%s", strchr(buf_text(target), '?') != NULL ? '&' : '?', part->field);
    } else if (method == NULL) {
        target_add(target, part->field, text);
    } else if (!body_set(body, part->field,
                         part->kind == PART_NUMBER || part->kind == PART_BOUND
                             ? json_integer((json_int_t)number)
                             : json_string(text))) {
        return ctl_fail(CTL_USAGE, "%s: not UTF-8", part->given);
    }
    return CTL_DONE;
}

enum ctl_exit ctl_fill(struct ctl *ctl, const char *method, struct buf *target, json_t **body)
{
    const struct command *command = ctl->command;
    const char *star = strchr(command->path, '*');
    const char *const *text = ctl->args.operands;
    const struct part *operand = command->takes;
    enum ctl_exit code = CTL_DONE;
    uint64_t number = 0;

    if (star != NULL) {
        code = part_check(operand++, *text, &number);
        buf_put(target, command->path, (size_t)(star - command->path));
        target_put(target, *text++);
    }
    buf_printf(target, "%s", star != NULL ? star + 1 : command->path);
    for (; code == CTL_DONE && operand->given != NULL; operand++) {
        code = part_put(operand, *text++, method, target, body);
    }
    for (const struct part *option = OPTION_PARTS; code == CTL_DONE && option->given != NULL;
         option++) {
        code = part_put(option, ctl_option(ctl, option->given), method, target, body);
    }
    return code;
}

/* A list, page by page. */
static enum ctl_exit request_list(struct ctl *ctl)
{
    const struct command *command = ctl->command;
    bool is_filtered = ctl_has(ctl, "mode") || ctl_has(ctl, "nearly-used-up");
    const char *after = ctl_option(ctl, "after");
    uint64_t left = UINT64_MAX; /* to show yet */
    struct pages pages = {.ctl = ctl, .path = command->path, .prefix = ctl->args.operands[0]};
    struct grid grid = {.titles = command->columns};

    pages.code = ctl_number_option(ctl, "limit", INT64_MAX, &left);
    if (pages.code == CTL_DONE && command->before != NULL) {
        pages.code = command->before(ctl, NULL);
    }
    pages.after = after != NULL ? MUST_HAVE(strdup(after)) : NULL;
    do {
        json_t *rows;

        /* How many rows a filter drops is not known before. */
        pages.limit = left < command->page && !is_filtered ? left : command->page;
        if (!pages_next(&pages)) {
            break;
        }
        rows = json_object_get(pages.answer.json, command->list);
        for (size_t i = 0; command->keep != NULL && i < json_array_size(rows);) {
            if (left > 0 && command->keep(ctl, pages.answer.json, json_array_get(rows, i))) {
                left--;
                i++;
            } else {
                ASSERT(json_array_remove(rows, i) == 0);
            }
        }
        if (ctl->json) {
            ctl_put_json(ctl, command->bare ? rows : pages.answer.json);
        } else if (ctl_has(ctl, "csv")) {
            command->put(ctl, rows);
        } else {
            ctl_put_rows(&ctl->out, &grid, rows, 0);
        }
        pages.code = ctl_flush(ctl);
    } while (pages.code == CTL_DONE && pages.after != NULL && left > 0);
    if (pages.code == CTL_DONE && pages.after != NULL && !ctl->json) {
        ctl_progress("there may be more: --after %s", pages.after);
    }
    return pages_end(&pages);
}

enum ctl_exit ctl_request(struct ctl *ctl)
{
    const struct command *command = ctl->command;
    bool looks = command->before == NULL && command->operands != NULL &&
                 command->operands[0] == '[' && ctl->args.operands[0] == NULL;
    const char *method = looks ? NULL : command->method;
    bool once = command->once && ctl_has(ctl, "force");
    BUF_LOCAL(target);
    BUF_LOCAL(path);
    ANSWER_LOCAL(answer);
    json_auto_t *body = NULL;
    enum ctl_exit code = CTL_DONE;
    bool gone = false;

    if (command->columns != NULL) {
        return request_list(ctl);
    }
    code = ctl_fill(ctl, method, &target, &body);
    code = code == CTL_DONE && command->before != NULL ? command->before(ctl, &body) : code;
    if (code != CTL_DONE) {
        return code;
    }
    if (command->waits) {
        return ctl_change(ctl, method, &target, body, command->name, false);
    }
    if (command->must_exist) {
        buf_put(&path, target.data, strcspn(buf_text(&target), "?"));
        code = ctl_send(ctl, "GET", buf_text(&path), NULL, false, &answer);
    }
    if (code == CTL_DONE) {
        answer_free(&answer);
        code = ctl_send(ctl, method, buf_text(&target), body, once, &answer);
        gone = answer.status == 204 && method != NULL && strcmp(method, "DELETE") == 0;
        gone |= command->may_be_gone && code == CTL_NOT_FOUND && answer.repeated;
    }
    if (code != CTL_DONE && !gone) {
        if (strcmp(answer.code, "would_repeat") == 0) {
            ctl_progress("--force sets it all the same: only where no id from there on is in use");
        }
        return ctl_failed(code, &answer);
    }
    ctl->status = answer.status;
    if (gone) {
        buf_printf(&ctl->out, "%s", ctl->json ? "" : command->gone);
    } else if (command->form != NULL || ctl->json) {
        ctl_put(ctl, answer.json, command->form);
    } else {
        command->put(ctl, answer.json);
    }
    return CTL_DONE;
}

/* --- changes that take a while --- */

#define WAIT_DEFAULT_S 120
#define WAIT_EACH_MS 3000 /* of one request */

enum ctl_exit ctl_change(struct ctl *ctl, const char *method, struct buf *target,
                         const json_t *body, const char *again, bool in_turn)
{
    uint64_t wait_s = WAIT_DEFAULT_S;
    enum ctl_exit code = ctl_number_option(ctl, "wait", 86400, &wait_s);
    uint64_t deadline_ms = clock_now_ms(clock_system()) + wait_s * 1000;
    bool force = ctl_has(ctl, "force");
    bool printed = false;

    target_add_number(target, "timeout_ms", WAIT_EACH_MS);
    while (code == CTL_DONE) {
        ANSWER_LOCAL(answer);

        code = ctl_send(ctl, method, buf_text(target), body, force, &answer);
        if (code != CTL_DONE && in_turn && answer.status == 409 &&
            strcmp(answer.code, "in_progress") == 0) {
            (void)poll(NULL, 0, ASK_PAUSE_MS); /* since the request is answered at once */
            code = CTL_DONE;
        } else if (code != CTL_DONE) {
            code = ctl_failed(code, &answer);
            break;
        }
        if (answer.status == 200) {
            ctl_put(ctl, answer.json, "{message}\n");
            break;
        }
        if (!printed) {
            const char *message = field_text(answer.json, "message");

            ctl_progress("under way: %s", message != NULL ? message : "no message");
            printed = true;
        }
        if (clock_now_ms(clock_system()) >= deadline_ms) {
            code = ctl_fail(
                CTL_UNKNOWN,
                "not done after %" PRIu64 " s; it continues. leafctl %s%s%s waits for it", wait_s,
                ctl->command->family, again != NULL ? " " : "", again != NULL ? again : "");
        }
    }
    return code;
}

/* --- lists in pages --- */

bool pages_next(struct pages *pages)
{
    struct answer *answer = &pages->answer;
    char *before = pages->after;
    struct ask ask;
    const json_t *next;
    bool later = true;
    BUF_LOCAL(target);

    answer_free(answer);
    if (pages->code != CTL_DONE || (pages->begun && before == NULL)) {
        return false;
    }
    pages->begun = true;
    buf_printf(&target, "%s", pages->path);
    target_add(&target, "prefix", pages->prefix);
    if (pages->limit > 0) {
        target_add_number(&target, "limit", pages->limit);
    }
    target_add(&target, "after", before);
    ask = (struct ask){.target = buf_text(&target), .server = pages->server};
    pages->code = ctl_ask(pages->ctl, &ask, answer);
    if (pages->code != CTL_DONE && !pages->quiet) {
        (void)ctl_failed(pages->code, answer);
    }
    if (pages->code != CTL_DONE) {
        return false;
    }
    next = json_object_get(answer->json, "next");
    pages->after = NULL;
    if (json_is_integer(next)) {
        ASSERT(asprintf(&pages->after, "%" JSON_INTEGER_FORMAT, json_integer_value(next)) >= 0);
        later = json_integer_value(next) > (before != NULL ? strtoll(before, NULL, 10) : -1);
    } else if (json_is_string(next)) {
        pages->after = MUST_HAVE(strdup(json_string_value(next)));
        later = before == NULL || strcmp(pages->after, before) > 0;
    }
    free(before);
    if (!later) {
        pages->code =
            ctl_fail(CTL_INTERNAL, "%s: the next page begins before this one", answer->server);
    }
    return later;
}

enum ctl_exit pages_end(struct pages *pages)
{
    answer_free(&pages->answer);
    free(pages->after);
    pages->after = NULL;
    return pages->code;
}

/* --- again and again --- */

#define REPEAT_S 2
#define CLEAR "\x1b[H\x1b[J" /* cursor home, then clear to the end */

enum ctl_exit ctl_repeat(struct ctl *ctl, bool live, bool counts, ctl_show_t *show)
{
    const char *before = live && !ctl->json && isatty(STDOUT_FILENO) ? CLEAR : "";
    uint64_t every_s = REPEAT_S;
    uint64_t times = live ? 0 : 1;
    enum ctl_exit code = ctl_number_option(ctl, "every", 3600, &every_s);

    code = code == CTL_DONE ? ctl_number_option(ctl, "times", UINT32_MAX, &times) : code;
    if (code != CTL_DONE) {
        return code;
    }
    times = live || counts ? times : 1;
    for (uint64_t shown = 1;; shown++) {
        code = show(ctl, before);
        if ((times > 0 && shown >= times) || code == CTL_OUTPUT || code == CTL_USAGE) {
            return code;
        }
        (void)poll(NULL, 0, (int)every_s * 1000);
    }
}
