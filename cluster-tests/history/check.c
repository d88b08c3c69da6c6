/*
 * check.c - see check.h. Thread: one.
 */
#include "cluster-tests/history/check.h"

#include <inttypes.h>
#include <stdlib.h>

#include "src/base/buf.h"
#include "src/base/assert.h"
#include "cluster-tests/history/dense.h"

struct gaps {
    struct dense_gap *gaps;
    size_t count;
    size_t capacity;
};

struct check {
    struct history_axis *axis;
    struct report *report;
    struct history_entry *entries; /* those with an answer, by their first id */
    size_t count;
    struct gaps gaps;
};

static int by_ids(const void *a, const void *b)
{
    const struct history_entry *x = a;
    const struct history_entry *y = b;
    int order = history_order(x->first, y->first);

    order = order != 0 ? order : history_order(x->count, y->count);
    order = order != 0 ? order : history_order(x->received, y->received);
    order = order != 0 ? order : history_order(x->sent, y->sent);
    return order != 0 ? order : history_order(x->client, y->client);
}

static int by_sent(const void *a, const void *b)
{
    const struct history_entry *x = a;
    const struct history_entry *y = b;

    return history_order(x->sent, y->sent);
}

/* Those of a key together, those with an answer before those without, a range's by its time, and
 * so those of one count. */
static int by_key(const void *a, const void *b)
{
    const struct history_entry *x = a;
    const struct history_entry *y = b;
    int order = history_order(x->key, y->key);

    order = order != 0 ? order : history_order(!history_answered(x), !history_answered(y));
    if (order == 0 && !history_answered(x)) {
        order = history_order(x->count, y->count);
        return order != 0 ? order : history_order(x->sent, y->sent);
    }
    return order != 0 ? order : by_ids(a, b);
}

/* Move the entries that are so before those that are not; returns how many there are. */
static size_t partition(struct history_entry *entries, size_t count,
                        bool (*is)(const struct history_entry *))
{
    size_t end = 0;

    for (size_t i = 0; i < count; i++) {
        if (is(&entries[i])) {
            struct history_entry moved = entries[i];

            entries[i] = entries[end];
            entries[end++] = moved;
        }
    }
    return end;
}

static void tell_two(struct check *check, enum history_kind kind, const struct history_entry *entry,
                     const char *relation, const struct history_entry *other)
{
    if (report_begin(check->report, kind)) {
        report_entry(check->report, entry);
        buf_printf(&check->report->to->text, " %s ", relation);
        report_entry(check->report, other);
        buf_put_u8(&check->report->to->text, '\n');
    }
}

/* --- keys --- */

static bool has_no_key(const struct history_entry *entry)
{
    return entry->key == 0;
}

/*
 * Merge the operations of one key without an answer, sorted by_key, to the front; returns how many
 * entries are left: one a count, with the time it was first asked for.
 */
static size_t merge_unanswered(struct history_entry *entries, size_t count)
{
    size_t left = 1;

    for (size_t i = 1; i < count; i++) {
        if (entries[i].count != entries[left - 1].count) {
            entries[left++] = entries[i];
        }
    }
    return left;
}

/*
 * Merge the operations of one key, sorted by_key, to the front; returns how many entries are left:
 * one a range, which is one in all if nothing is wrong, or those of unknown outcome. Attempts
 * without an answer beside one that has one burnt nothing: they would have got the same ids.
 */
static size_t merge_key(struct check *check, struct history_entry *entries, size_t count)
{
    uint64_t sent = entries[0].sent;
    size_t left = 1;

    ASSERT(count > 0 && entries[0].key != 0);
    if (!history_answered(&entries[0])) {
        return merge_unanswered(entries, count);
    }
    for (size_t i = 1; i < count; i++) {
        const struct history_entry *last = &entries[left - 1];

        sent = entries[i].sent < sent ? entries[i].sent : sent;
        if (history_answered(&entries[i]) &&
            (last->first != entries[i].first || last->count != entries[i].count)) {
            entries[left++] = entries[i];
        }
    }
    for (size_t i = 0; i < left; i++) {
        entries[i].sent = sent;
    }
    for (size_t i = 1; i < left; i++) {
        tell_two(check, HISTORY_OTHER_IDS, &entries[i], "has the key of", &entries[0]);
    }
    return left;
}

static void merge_keys(struct check *check)
{
    struct history_axis *axis = check->axis;
    struct history_entry *entries = axis->entries;
    size_t end;
    size_t next;

    if (!axis->keyed) {
        return;
    }
    end = partition(entries, axis->count, has_no_key);
    qsort(entries + end, axis->count - end, sizeof *entries, by_key);
    for (size_t i = end; i < axis->count; i = next) {
        size_t left;

        for (next = i + 1; next < axis->count && entries[next].key == entries[i].key;) {
            next++;
        }
        left = merge_key(check, entries + i, next - i);
        ASSERT(left >= 1 && end + left <= next);
        for (size_t k = 0; k < left; k++) {
            entries[end++] = entries[i + k];
        }
    }
    axis->count = end;
}

/* --- once, start; finding the gaps --- */

static void tell_below_start(struct check *check, const struct history_entry *entry)
{
    if (report_begin(check->report, HISTORY_BELOW_START)) {
        report_entry(check->report, entry);
        buf_printf(&check->report->to->text, " is below the start of the tag, %" PRIu64 "\n",
                   check->axis->start);
    }
}

static void add_gap(struct gaps *gaps, uint64_t from, uint64_t to, size_t above)
{
    gaps->gaps = array_room(gaps->gaps, gaps->count, &gaps->capacity, sizeof *gaps->gaps);
    gaps->gaps[gaps->count++] = (struct dense_gap){.from = from, .to = to, .above = above};
}

static void go_up(struct check *check)
{
    const struct history_entry *entries = check->entries;
    bool has_start = check->axis->start != HISTORY_NO_START;
    uint64_t start = has_start ? check->axis->start : entries[0].first;
    uint64_t highest_end = 0;
    size_t highest = 0;

    for (size_t i = 0; i < check->count; i++) {
        uint64_t from = highest_end > start ? highest_end : start;

        ASSERT(history_answered(&entries[i]) &&
               (i == 0 || entries[i].first >= entries[i - 1].first));
        if (entries[i].first < highest_end) {
            tell_two(check, HISTORY_NOT_ONCE, &entries[i], "has ids of", &entries[highest]);
        }
        if (has_start && entries[i].first < start) {
            tell_below_start(check, &entries[i]);
        }
        if (check->axis->mode == HISTORY_STRICT && entries[i].first > from) {
            add_gap(&check->gaps, from, entries[i].first, i);
        }
        if (history_end(&entries[i]) > highest_end) {
            highest_end = history_end(&entries[i]);
            highest = i;
        }
        check->report->to->ids += entries[i].count;
    }
}

/* --- strict, and monotonic --- */

/* Entries with the same first id are taken together: none of them has an id above the first id of
 * another that is not the other's as well, and that was reported already. */
static void go_down(struct check *check)
{
    const struct history_entry *entries = check->entries;
    struct gaps *gaps = &check->gaps;
    size_t gap = gaps->count;
    size_t earliest = check->count; /* of the entries above; none yet */
    size_t begin;

    for (size_t end = check->count; end > 0; end = begin) {
        size_t above = earliest;

        for (begin = end; begin > 0 && entries[begin - 1].first == entries[end - 1].first;) {
            begin--;
        }
        for (size_t i = begin; i < end; i++) {
            if (above < check->count && entries[above].received < entries[i].sent) {
                tell_two(check, HISTORY_NOT_STRICT, &entries[i], "was sent after the reply with",
                         &entries[above]);
            }
            if (earliest == check->count || entries[i].received < entries[earliest].received) {
                earliest = i;
            }
        }
        if (gap > 0 && gaps->gaps[gap - 1].above >= begin) {
            gap--;
            ASSERT(gaps->gaps[gap].above == begin);
            gaps->gaps[gap].deadline = entries[earliest].received;
        }
    }
    ASSERT(gap == 0);
}

/* --- dense --- */

static void dense_found(const struct dense_gap *gap, enum dense_why why, uint64_t number,
                        void *data)
{
    struct check *check = data;
    struct buf *text = &check->report->to->text;

    if (!report_begin(check->report, why == DENSE_UNDECIDED ? HISTORY_UNDECIDED : HISTORY_GAP)) {
        return;
    }
    buf_printf(text, "%" PRIu64 " ids, %" PRIu64 "..%" PRIu64 ", are missing below ",
               gap->to - gap->from, gap->from, gap->to - 1);
    report_entry(check->report, &check->entries[gap->above]);
    buf_printf(text, "; of the operations of unknown outcome sent by %" PRIu64 " ", gap->deadline);
    switch (why) {
    case DENSE_NO_FIT:
        buf_printf(text, "none can have burnt them\n");
        break;
    case DENSE_TOO_FEW:
        buf_printf(text, "those that fit are %" PRIu64 " ids too few, with the gaps below\n",
                   number);
        break;
    case DENSE_DIVISOR:
        buf_printf(text, "those that fit burn multiples of %" PRIu64 "\n", number);
        break;
    case DENSE_NO_SUM:
        buf_printf(text, "no choice burns so many\n");
        break;
    case DENSE_NO_WAY:
        buf_printf(text, "no choice burns so many, with the gaps below\n");
        break;
    case DENSE_UNDECIDED:
        buf_printf(text, "it was not found out whether they can have burnt so many\n");
        break;
    }
}

void history_check_axis(struct history_axis *axis, uint64_t steps, struct report *report)
{
    struct check check = {.axis = axis, .report = report};

    ASSERT(axis->declared && axis->count > 0);
    merge_keys(&check);
    check.entries = axis->entries;
    check.count = partition(axis->entries, axis->count, history_answered);
    if (check.count == 0) {
        return;
    }
    qsort(check.entries, check.count, sizeof *check.entries, by_ids);
    go_up(&check);
    if (history_rises(axis->mode)) {
        go_down(&check);
    }
    if (axis->mode == HISTORY_STRICT) {
        struct history_entry *entries = axis->entries + check.count;
        struct dense_unknown unknown = {.entries = entries, .count = axis->count - check.count};

        qsort(entries, unknown.count, sizeof *entries, by_sent);
        dense_check(check.gaps.gaps, check.gaps.count, &unknown, steps, dense_found, &check);
    }
    free(check.gaps.gaps);
}
