/*
 * history.c - see history.h: operations come in, one array a tag; violations are told.
 *
 * Failure modes: what cannot be an operation is refused with an error and leaves no trace; lack of
 * memory ends the process. Thread: one owner each.
 */
#include "src/history/history.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/assert.h"
#include "src/base/log.h"
#include "src/history/history_internal.h"

#define SHOWN_NAME_BYTES 320

struct history *history_new(void)
{
    struct history *history = calloc(1, sizeof *history);

    ASSERT(history != NULL);
    history->steps = HISTORY_STEPS;
    history_names_init(&history->tags);
    history_names_init(&history->clients);
    return history;
}

void history_free(struct history *history)
{
    if (history == NULL) {
        return;
    }
    for (uint32_t i = 0; i < history->axis_count; i++) {
        free(history->axes[i].entries);
    }
    free(history->axes);
    history_names_free(&history->tags);
    history_names_free(&history->clients);
    free(history);
}

uint32_t history_tag(struct history *history, const char *name, size_t len)
{
    uint32_t tag = history_names_number(&history->tags, name, len);

    if (tag < history->axis_count) {
        return tag;
    }
    ASSERT(tag == history->axis_count);
    if (history->axis_count == history->axis_capacity) {
        history->axis_capacity = history->axis_capacity ? history->axis_capacity * 2 : 16;
        history->axes = realloc(history->axes, history->axis_capacity * sizeof *history->axes);
        ASSERT(history->axes != NULL);
    }
    history->axes[history->axis_count++] = (struct history_axis){.declared = false};
    return tag;
}

uint32_t history_client(struct history *history, const char *name, size_t len)
{
    return history_names_number(&history->clients, name, len);
}

int history_declare(struct history *history, uint32_t tag, enum history_mode mode, uint64_t start)
{
    struct history_axis *axis = &history->axes[tag];

    ASSERT(tag < history->axis_count);
    ASSERT(mode == HISTORY_TREND || mode == HISTORY_STRICT);
    if (mode == HISTORY_TREND) {
        start = HISTORY_NO_START;
    }
    if (axis->declared) {
        return axis->mode == mode && axis->start == start ? 0 : ERR_CONFLICT;
    }
    if (start != HISTORY_NO_START && start > HISTORY_LAST_ID) {
        return ERR_INVALID;
    }
    axis->declared = true;
    axis->mode = mode;
    axis->start = start;
    return 0;
}

const char *history_undeclared(const struct history *history, size_t *ret_len)
{
    for (uint32_t i = 0; i < history->axis_count; i++) {
        if (history->axes[i].count > 0 && !history->axes[i].declared) {
            *ret_len = history->tags.names[i].len;
            return history->tags.names[i].text;
        }
    }
    return NULL;
}

static bool is_operation(const struct history_op *op)
{
    if (op->count == 0 || op->sent == HISTORY_UNKNOWN || op->received < op->sent) {
        return false;
    }
    return op->received == HISTORY_UNKNOWN ||
           (op->first <= HISTORY_LAST_ID && op->count - 1 <= HISTORY_LAST_ID - op->first);
}

/* Room for one more. Large blocks are moved by the kernel (mremap), not copied, and what is beyond
 * the last entry takes no memory yet. */
static void make_room(struct history_axis *axis)
{
    if (axis->count < axis->capacity) {
        return;
    }
    axis->capacity = axis->capacity ? axis->capacity + axis->capacity / 2 : 16;
    axis->entries = realloc(axis->entries, axis->capacity * sizeof *axis->entries);
    ASSERT(axis->entries != NULL);
}

int history_add(struct history *history, const struct history_op *op)
{
    struct history_axis *axis;
    struct history_entry *entry;

    ASSERT(op->tag < history->axis_count && op->client < history->clients.count);
    if (!is_operation(op)) {
        return ERR_INVALID;
    }
    if (history->operations == HISTORY_OPS_MAX) {
        return ERR_TOO_LARGE;
    }
    axis = &history->axes[op->tag];
    make_room(axis);
    entry = &axis->entries[axis->count++];
    *entry = (struct history_entry){.sent = op->sent,
                                    .received = op->received,
                                    .first = op->first,
                                    .key = op->key,
                                    .count = op->count,
                                    .client = op->client};
    history->operations++;
    axis->keyed = axis->keyed || op->key != 0;
    history->unknown += !history_answered(entry);
    return 0;
}

void history_steps(struct history *history, uint64_t steps)
{
    history->steps = steps;
}

bool history_check(struct history *history, unsigned texts_max, struct history_report *ret_report)
{
    struct history_telling telling = {.history = history,
                                      .texts_left = texts_max,
                                      .undecided_left = texts_max,
                                      .report = ret_report};

    *ret_report = (struct history_report){
        .operations = history->operations, .unknown = history->unknown, .text = BUF_INIT};
    for (uint32_t i = 0; i < history->axis_count; i++) {
        if (history->axes[i].count > 0) {
            telling.tag = i;
            ret_report->tags++;
            history_check_axis(&history->axes[i], &telling);
        }
    }
    return ret_report->violations == 0;
}

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

/* --- telling of violations --- */

static bool begin_text(struct history_telling *telling, unsigned *left, const char *what)
{
    const struct history_name *name = &telling->history->tags.names[telling->tag];
    char shown[SHOWN_NAME_BYTES];

    if (*left == 0) {
        return false;
    }
    (*left)--;
    buf_printf(&telling->report->text, "%s: tag %s: ", what,
               log_quote(name->text, name->len, shown, sizeof shown));
    return true;
}

bool history_tell(struct history_telling *telling, enum history_kind kind)
{
    telling->report->violations++;
    telling->report->found[kind]++;
    return begin_text(telling, &telling->texts_left, history_kind_name(kind));
}

bool history_tell_undecided(struct history_telling *telling)
{
    telling->report->undecided++;
    return begin_text(telling, &telling->undecided_left, "not_decided");
}

void history_tell_entry(struct history_telling *telling, const struct history_entry *entry)
{
    const struct history_name *name = &telling->history->clients.names[entry->client];
    struct buf *text = &telling->report->text;
    char shown[SHOWN_NAME_BYTES];

    ASSERT(history_answered(entry));
    buf_printf(text, "%" PRIu64, entry->first);
    if (entry->count > 1) {
        buf_printf(text, "..%" PRIu64, history_end(entry) - 1);
    }
    buf_printf(text, " of client %s (", log_quote(name->text, name->len, shown, sizeof shown));
    if (entry->key != 0) {
        buf_printf(text, "key %016" PRIx64 ", first of its attempts ", entry->key);
    }
    buf_printf(text, "sent %" PRIu64 ", received %" PRIu64 ")", entry->sent, entry->received);
}
