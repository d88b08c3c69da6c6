/*
 * exposition.c - see exposition.h. Thread: one owner.
 */
#include "http/api/exposition.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "src/base/assert.h"
#include "src/base/utf8.h"

#define TOTAL "_total"
#define REPLACEMENT "\xef\xbf\xbd"

static bool is_total(const char *name)
{
    size_t len = strlen(name);

    return len > strlen(TOTAL) && strcmp(name + len - strlen(TOTAL), TOTAL) == 0;
}

void expose_family(struct exposition *to, const char *name, enum metric_kind kind, const char *help)
{
    static const char *const kinds[] = {
        [METRIC_COUNTER] = "counter", [METRIC_GAUGE] = "gauge", [METRIC_HISTOGRAM] = "histogram"};

    ASSERT(is_total(name) == (kind == METRIC_COUNTER));
    to->name = name;
    to->help = help;
    to->kind = kinds[kind];
}

/* A sample comes: before the first of its metric goes what there is to say of all. */
static void begin_family(struct exposition *to)
{
    size_t len = strlen(to->name);

    if (to->help == NULL) {
        return;
    }
    if (to->is_open && is_total(to->name)) { /* the family is called without it */
        len -= strlen(TOTAL);
    }
    buf_printf(to->text, "# HELP %.*s %s\n# TYPE %.*s %s\n", (int)len, to->name, to->help, (int)len,
               to->name, to->kind);
    to->help = NULL;
}

/* The name and what goes before the value. */
static void begin_sample(struct exposition *to, const char *labels)
{
    begin_family(to);
    if (labels[0] != '\0') {
        buf_printf(to->text, "%s{%s} ", to->name, labels);
    } else {
        buf_printf(to->text, "%s ", to->name);
    }
}

void expose_sample(struct exposition *to, const char *labels, uint64_t value)
{
    begin_sample(to, labels);
    buf_printf(to->text, "%" PRIu64 "\n", value);
}

void expose_real(struct exposition *to, const char *labels, double value)
{
    begin_sample(to, labels);
    buf_printf(to->text, "%.6g\n", value);
}

void expose_ms(struct exposition *to, const char *labels, int64_t ms)
{
    uint64_t size_ms = ms < 0 ? 0 - (uint64_t)ms : (uint64_t)ms;

    begin_sample(to, labels);
    buf_printf(to->text, "%s%" PRIu64 ".%03" PRIu64 "\n", ms < 0 ? "-" : "", size_ms / 1000,
               size_ms % 1000);
}

void expose_us(struct exposition *to, const char *labels, uint64_t us)
{
    begin_sample(to, labels);
    buf_printf(to->text, "%" PRIu64 ".%06" PRIu64 "\n", us / 1000000, us % 1000000);
}

static void put_exemplar(const struct exposition *to, const struct exemplar_view *exemplar)
{
    if (to->is_open && exemplar->wall_ms > 0) {
        buf_printf(to->text,
                   " # {trace_id=\"%s\"} %" PRIu64 ".%06" PRIu64 " %" PRIu64 ".%03" PRIu64,
                   exemplar->trace, exemplar->took_us / 1000000, exemplar->took_us % 1000000,
                   exemplar->wall_ms / 1000, exemplar->wall_ms % 1000);
    }
}

const char *expose_word(const char *name, const char *value, char out[EXPOSITION_WORD_BYTES])
{
    (void)snprintf(out, EXPOSITION_WORD_BYTES, "%s=\"%s\"", name, value);
    return out;
}

void expose_of(struct exposition *to, const char *name, const char *value, uint64_t sample)
{
    expose_sample(to, expose_word(name, value, (char[EXPOSITION_WORD_BYTES]){0}), sample);
}

void expose_histogram(struct exposition *to, const char *labels, const struct histogram_view *view,
                      const struct exemplar_view *exemplars)
{
    const char *name = to->name;
    const char *comma = labels[0] != '\0' ? "," : "";
    const char *open = labels[0] != '\0' ? "{" : "";
    const char *close = labels[0] != '\0' ? "}" : "";
    uint64_t count = 0;

    begin_family(to);
    for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++) {
        count += view->counts[i];
        buf_printf(to->text, "%s_bucket{%s%sle=\"%s\"} %" PRIu64, name, labels, comma,
                   i < HISTOGRAM_BOUNDS ? histogram_bound_text(i) : "+Inf", count);
        if (exemplars != NULL) {
            put_exemplar(to, &exemplars[i]);
        }
        buf_printf(to->text, "\n");
    }
    buf_printf(to->text, "%s_sum%s%s%s %" PRIu64 ".%06" PRIu64 "\n", name, open, labels, close,
               view->sum_us / 1000000, view->sum_us % 1000000);
    buf_printf(to->text, "%s_count%s%s%s %" PRIu64 "\n", name, open, labels, close, count);
}

void expose_one(struct exposition *to, const char *name, enum metric_kind kind, const char *help,
                uint64_t value)
{
    expose_family(to, name, kind, help);
    expose_sample(to, "", value);
}

void expose_ones(struct exposition *to, enum metric_kind kind, const struct exposed *ones,
                 size_t count)
{
    for (size_t i = 0; i < count; i++) {
        expose_one(to, ones[i].name, kind, ones[i].help, ones[i].value);
    }
}

void expose_label(struct buf *labels, const char *name, const void *value, size_t len)
{
    const char *text = value;
    size_t at = 0;

    buf_printf(labels, "%s%s=\"", labels->len > 0 ? "," : "", name);
    while (at < len) {
        uint32_t code;
        size_t step = utf8_step(text + at, len - at, &code);

        if (step == 0) {
            buf_put(labels, REPLACEMENT, strlen(REPLACEMENT));
            at++;
            continue;
        }
        if (text[at] == '\n') {
            buf_put(labels, "\\n", 2);
        } else {
            if (text[at] == '"' || text[at] == '\\') {
                buf_put(labels, "\\", 1);
            }
            buf_put(labels, text + at, step);
        }
        at += step;
    }
    buf_put(labels, "\"", 1);
}

void expose_end(struct exposition *to)
{
    if (to->is_open) {
        buf_printf(to->text, "# EOF\n");
    }
}
