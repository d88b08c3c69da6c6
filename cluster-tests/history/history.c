/*
 * history.c - see history.h: operations come in, one array a tag.
 *
 * Failure modes: what cannot be an operation is refused with an error and leaves no trace; lack of
 * memory ends the process. Thread: one owner each.
 */
#include "cluster-tests/history/history.h"

#include <stdlib.h>

#include "src/base/buf.h"
#include "src/base/assert.h"
#include "cluster-tests/history/check.h"

struct history {
    struct history_names tags;
    struct history_names clients;
    struct history_axis *axes; /* one a tag, by its number */
    size_t axis_count;
    size_t axis_capacity;
    uint64_t operations;
    uint64_t unknown;
    uint64_t steps;
};

struct history *history_new(void)
{
    struct history *history = MUST_HAVE(calloc(1, sizeof *history));

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
    for (size_t i = 0; i < history->axis_count; i++) {
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
    history->axes = array_room(history->axes, history->axis_count, &history->axis_capacity,
                               sizeof *history->axes);
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
    ASSERT(mode <= HISTORY_STRICT);
    if (!history_rises(mode)) {
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
    for (size_t i = 0; i < history->axis_count; i++) {
        if (history->axes[i].count > 0 && !history->axes[i].declared) {
            *ret_len = history->tags.names[i]->len;
            return history->tags.names[i]->text;
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
    axis->entries = array_room(axis->entries, axis->count, &axis->capacity, sizeof *axis->entries);
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

const struct history_axis *history_axis(const struct history *history, uint32_t tag)
{
    ASSERT(tag < history->axis_count);
    return &history->axes[tag];
}

void history_steps(struct history *history, uint64_t steps)
{
    history->steps = steps;
}

bool history_check(struct history *history, unsigned texts_max, struct history_report *ret_report)
{
    struct report report = {.tags = &history->tags,
                            .clients = &history->clients,
                            .texts_left = texts_max,
                            .undecided_left = texts_max,
                            .to = ret_report};

    *ret_report = (struct history_report){
        .operations = history->operations, .unknown = history->unknown, .text = BUF_INIT};
    for (size_t i = 0; i < history->axis_count; i++) {
        if (history->axes[i].count > 0) {
            report.tag = (uint32_t)i;
            ret_report->tags++;
            history_check_axis(&history->axes[i], history->steps, &report);
        }
    }
    return ret_report->violations == 0;
}
