/*
 * report.c - see report.h. Thread: one owner each.
 */
#include "cluster-tests/history/report.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/assert.h"
#include "src/base/container.h"
#include "src/base/log.h"

#define SHOWN_NAME_BYTES 320

/* --- names --- */

static uint32_t hash_of(const struct hash_link *link)
{
    return CONTAINER(link, const struct history_name, link)->hash;
}

void history_names_init(struct history_names *names)
{
    *names = (struct history_names){0};
    hash_table_init(&names->table, hash_of);
}

void history_names_free(struct history_names *names)
{
    for (size_t i = 0; i < names->count; i++) {
        free(names->names[i]);
    }
    free(names->names);
    hash_table_free(&names->table);
    history_names_init(names);
}

uint32_t history_names_number(struct history_names *names, const char *text, size_t len)
{
    uint32_t hash = (uint32_t)hash_bytes(text, len, 0);
    struct hash_link *link = hash_table_chain(&names->table, hash);
    struct history_name *name;

    for (; link != NULL; link = link->next) {
        name = CONTAINER(link, struct history_name, link);
        if (name->hash == hash && name->len == len && memcmp(name->text, text, len) == 0) {
            return name->number;
        }
    }
    name = MUST_HAVE(malloc(sizeof *name + len + 1));
    ASSERT(names->count < UINT32_MAX);
    name->number = (uint32_t)names->count;
    name->hash = hash;
    name->len = len;
    memcpy(name->text, text, len);
    name->text[len] = '\0';
    names->names = array_room(names->names, names->count, &names->capacity, sizeof *names->names);
    names->names[names->count++] = name;
    hash_table_add(&names->table, &name->link);
    return name->number;
}

/* --- reports --- */

const char *history_kind_name(enum history_kind kind)
{
    static const char *const names[HISTORY_KINDS] = {
        [HISTORY_NOT_ONCE] = "not_once",
        [HISTORY_OTHER_IDS] = "other_ids",
        [HISTORY_NOT_STRICT] = "not_strict",
        [HISTORY_BELOW_START] = "below_start",
        [HISTORY_GAP] = "gap",
    };

    ASSERT(kind < HISTORY_KINDS);
    return names[kind];
}

static void put_name(struct report *report, const struct history_names *names, uint32_t number)
{
    const struct history_name *name = names->names[number];
    char shown[SHOWN_NAME_BYTES];

    ASSERT(number < names->count);
    buf_printf(&report->to->text, "%s", log_quote(name->text, name->len, shown, sizeof shown));
}

bool report_begin(struct report *report, enum history_kind kind)
{
    bool decided = kind != HISTORY_UNDECIDED;
    unsigned *left = decided ? &report->texts_left : &report->undecided_left;

    if (decided) {
        ASSERT(kind < HISTORY_KINDS);
        report->to->violations++;
        report->to->found[kind]++;
    } else {
        report->to->undecided++;
    }
    if (*left == 0) {
        return false;
    }
    (*left)--;
    buf_printf(&report->to->text, "%s: tag ", decided ? history_kind_name(kind) : "not_decided");
    put_name(report, report->tags, report->tag);
    buf_printf(&report->to->text, ": ");
    return true;
}

void report_entry(struct report *report, const struct history_entry *entry)
{
    struct buf *text = &report->to->text;

    ASSERT(history_answered(entry));
    buf_printf(text, "%" PRIu64, entry->first);
    if (entry->count > 1) {
        buf_printf(text, "..%" PRIu64, history_end(entry) - 1);
    }
    buf_printf(text, " of client ");
    put_name(report, report->clients, entry->client);
    buf_printf(text, " (");
    if (entry->key != 0) {
        buf_printf(text, "key %016" PRIx64 ", first of its attempts ", entry->key);
    }
    buf_printf(text, "sent %" PRIu64 ", received %" PRIu64 ")", entry->sent, entry->received);
}
