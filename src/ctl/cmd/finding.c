/*
 * finding.c - see finding.h. Thread: one.
 */
#include "src/ctl/cmd/finding.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/assert.h"
#include "src/ctl/cmd/fields.h"
#include "src/ctl/out/clean.h"

void findings_init(struct findings *findings)
{
    *findings = (struct findings){.list = json_array(), .topics = json_array()};
    ASSERT(findings->list != NULL && findings->topics != NULL);
}

void findings_free(struct findings *findings)
{
    json_decref(findings->list);
    json_decref(findings->topics);
    findings->list = NULL;
    findings->topics = NULL;
}

const char *severity_name(enum severity severity)
{
    static const char *const names[] = {"good", "warning", "critical"};

    return names[severity];
}

/* Text of a server may be anything, so it may be no UTF-8 after a cut. */
static json_t *text_json(const char *text)
{
    BUF_LOCAL(clean);

    clean_text(&clean, text);
    return MUST_HAVE(json_stringn((const char *)clean.data, clean.len));
}

/* --- topics --- */

#define TOPIC_BYTES 64

static const char *topic_text(struct topic topic, char out[TOPIC_BYTES])
{
    out[0] = '\0';
    if (topic.kind != NULL) {
        (void)snprintf(out, TOPIC_BYTES, "%s/%" PRId64, topic.kind, topic.node);
    }
    return out;
}

static bool has_topic(const struct findings *findings, size_t i, struct topic topic)
{
    char wanted[TOPIC_BYTES];

    return topic.kind != NULL && strcmp(json_string_value(json_array_get(findings->topics, i)),
                                        topic_text(topic, wanted)) == 0;
}

/* Is there a finding of it, or of the same of the whole cluster? */
static bool is_told(const struct findings *findings, struct topic topic)
{
    const struct topic of_all = {topic.kind, 0};

    for (size_t i = 0; i < json_array_size(findings->list); i++) {
        if (has_topic(findings, i, topic) || has_topic(findings, i, of_all)) {
            return true;
        }
    }
    return false;
}

static bool is_alarm(const json_t *finding)
{
    return strcmp(field_text(finding, "about"), "alarm") == 0;
}

/* Other findings give way to an alarm of their topic. */
static void finding_make_room(struct findings *findings, struct topic topic)
{
    for (size_t i = json_array_size(findings->list); i-- > 0;) {
        const char *told = json_string_value(json_array_get(findings->topics, i));
        size_t len = topic.kind != NULL ? strlen(topic.kind) : 0;
        bool of_kind = len > 0 && strncmp(told, topic.kind, len) == 0 && told[len] == '/';

        if (!is_alarm(json_array_get(findings->list, i)) &&
            (has_topic(findings, i, topic) || (of_kind && topic.node == 0))) {
            ASSERT(json_array_remove(findings->list, i) == 0);
            ASSERT(json_array_remove(findings->topics, i) == 0);
        }
    }
}

/* --- adding --- */

static void see(struct findings *findings, enum severity severity)
{
    findings->worst = severity > findings->worst ? severity : findings->worst;
}

static bool finding_is_known(const struct findings *findings, const json_t *finding)
{
    size_t i;
    json_t *other;

    json_array_foreach(findings->list, i, other)
    {
        if (json_equal(other, finding)) {
            return true;
        }
    }
    return false;
}

/* Takes the finding over. */
static void finding_put(struct findings *findings, struct topic topic, json_t *finding)
{
    char told[TOPIC_BYTES];

    ASSERT(json_array_append_new(findings->list, finding) == 0);
    ASSERT(json_array_append_new(findings->topics, json_string(topic_text(topic, told))) == 0);
}

static json_t *finding_make(enum severity severity, const char *about, const char *todo,
                            const char *text)
{
    json_t *finding = json_object();

    ASSERT(json_object_set_new(finding, "severity", json_string(severity_name(severity))) == 0);
    ASSERT(json_object_set_new(finding, "about", json_string(about)) == 0);
    ASSERT(json_object_set_new(finding, "text", text_json(text)) == 0);
    if (todo != NULL) {
        ASSERT(json_object_set_new(finding, "do", text_json(todo)) == 0);
    }
    return finding;
}

void finding_add_of(struct findings *findings, struct topic topic, enum severity severity,
                    const char *about, const char *todo, const char *format, ...)
{
    json_t *finding;
    char *text = NULL;
    va_list args;

    va_start(args, format);
    ASSERT(vasprintf(&text, format, args) >= 0);
    va_end(args);
    finding = finding_make(severity, about, todo, text);
    free(text);
    see(findings, severity);
    if (finding_is_known(findings, finding) || (topic.kind != NULL && is_told(findings, topic))) {
        json_decref(finding);
    } else {
        finding_put(findings, topic, finding);
    }
}

/* The alarm of this name that another node told, or NULL. */
static json_t *same_alarm(const struct findings *findings, const char *name)
{
    size_t len = strlen(name);
    json_t *finding;
    size_t i;

    json_array_foreach(findings->list, i, finding)
    {
        const char *text = field_text(finding, "text");

        if (is_alarm(finding) && strncmp(text, name, len) == 0 &&
            strncmp(text + len, ": ", 2) == 0) {
            return finding;
        }
    }
    return NULL;
}

/* What another node says of an alarm that is told already. */
static void tell_more(json_t *finding, size_t name_len, const char *text)
{
    json_t *said = text_json(text);
    json_t *more = json_object_get(finding, "more");
    bool known = strcmp(field_text(finding, "text") + name_len + 2, json_string_value(said)) == 0;
    json_t *other;
    size_t i;

    json_array_foreach(more, i, other)
    {
        known = known || json_equal(other, said);
    }
    if (!known && more == NULL) {
        more = json_array();
        ASSERT(json_object_set_new(finding, "more", more) == 0);
    }
    if (!known) {
        ASSERT(json_array_append(more, said) == 0);
    }
    json_decref(said);
}

void finding_add_alarm(struct findings *findings, struct topic topic, enum severity severity,
                       const char *name, const char *todo, const char *text)
{
    json_t *shown = text_json(name != NULL ? name : "?");
    json_t *same = same_alarm(findings, json_string_value(shown));
    char *whole = NULL;

    see(findings, severity);
    finding_make_room(findings, topic);
    if (same != NULL && name != NULL) {
        tell_more(same, strlen(json_string_value(shown)), text != NULL ? text : "?");
    } else {
        ASSERT(asprintf(&whole, "%s: %s", json_string_value(shown), text != NULL ? text : "?") >=
               0);
        finding_put(findings, topic, finding_make(severity, "alarm", todo, whole));
        free(whole);
    }
    json_decref(shown);
}

static void print_more(const json_t *more, struct buf *out)
{
    size_t i;
    json_t *text;

    json_array_foreach(more, i, text)
    {
        buf_printf(out, "          also: %s\n", json_string_value(text));
    }
}

void findings_print(const struct findings *findings, bool with_good, struct buf *out)
{
    size_t i;
    json_t *finding;

    for (int severity = SEVERITY_CRITICAL; severity >= (with_good ? 0 : SEVERITY_WARNING);
         severity--) {
        const char *name = severity_name((enum severity)severity);

        json_array_foreach(findings->list, i, finding)
        {
            if (strcmp(field_text(finding, "severity"), name) != 0) {
                continue;
            }
            buf_printf(out, "%-8s  %s: %s\n", name, field_text(finding, "about"),
                       field_text(finding, "text"));
            print_more(json_object_get(finding, "more"), out);
            if (field_text(finding, "do") != NULL) {
                buf_printf(out, "          do: %s\n", field_text(finding, "do"));
            }
        }
    }
}
