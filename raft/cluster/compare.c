/*
 * compare.c - see compare.h. Thread: the raft loop.
 */
#include "raft/cluster/compare.h"

#include <stdio.h>
#include <string.h>

#include "src/base/assert.h"
#include "src/base/hash.h"
#include "src/base/log.h"

/* --- a view --- */

static void on_read(struct store_op *op)
{
    struct compare_view *rows = op->data;

    ASSERT(rows->reading && !rows->back);
    rows->back = true;
    if (rows->compare->stopped) { /* no turn comes any more; the store closes the view */
        rows->reading = false;
        disk_read_forget(&rows->read);
    }
}

static void start_read(struct compare_view *rows, bool close)
{
    struct disk *disk = rows->compare->disk;

    ASSERT(!rows->reading);
    rows->reading = true;
    rows->back = false;
    rows->read = (struct disk_read){.op = {.kind = STORE_READ, .done = on_read, .data = rows},
                                    .snapshot = rows->view,
                                    .max_bytes = close ? 0 : LIMIT_SNAPSHOT_CHUNK_BYTES,
                                    .close = close};
    disk->ops->submit(disk, &rows->read.op);
}

static void open_view(struct compare_view *rows)
{
    rows->end = false;
    rows->dropped = false;
    rows->status = 0;
    applier_write(&rows->compare->on->driver->applier, true);
    start_read(rows, false);
}

static void drop_view(struct compare_view *rows)
{
    buf_free(&rows->chunk);
    if (rows->reading) {
        rows->dropped = true;
    } else if (rows->view != NULL) {
        rows->dropped = true;
        start_read(rows, true);
    }
}

/* Take what was read. True: there is a chunk, or an error in status. */
static bool take_read(struct compare_view *rows)
{
    bool first = rows->view == NULL;

    if (!rows->back) {
        return false;
    }
    rows->reading = false;
    rows->back = false;
    rows->view = rows->read.close ? NULL : rows->read.snapshot;
    rows->status = rows->read.status;
    rows->end = rows->read.end;
    if (first) {
        rows->index = rows->read.position.index;
    }
    buf_free(&rows->chunk);
    if (!rows->dropped) {
        rows->chunk = rows->read.chunk;
        rows->read.chunk = (struct buf)BUF_INIT;
    }
    disk_read_forget(&rows->read);
    if (rows->dropped) {
        rows->dropped = rows->view != NULL;
        if (rows->view != NULL) {
            start_read(rows, true);
        }
        return false;
    }
    return true;
}

/* Is it free for another one? */
static bool is_closed(const struct compare_view *rows)
{
    return rows->view == NULL && !rows->reading;
}

/* --- the lender --- */

static void answer(struct compare *compare, uint64_t to, const struct wire_compared *compared)
{
    (void)ground_send_compared(compare->on, to, FRAME_COMPARED, compared);
}

static void refuse(struct compare *compare, uint64_t to, uint64_t number)
{
    answer(compare, to, &(struct wire_compared){.number = number, .kind = WIRE_COMPARED_NOT});
}

static void end_loan(struct compare *compare)
{
    struct compare_lender *lender = &compare->lender;

    if (lender->peer != 0) {
        lender->peer = 0;
        lender->asked = 0;
        lender->quiet_until_ms = ground_now_ms(compare->on) + LIMIT_COMPARE_PAUSE_MS;
        timer_cancel(compare->on->timers, &lender->due);
        drop_view(&lender->rows);
    }
}

static void on_loan_due(struct timer *timer, uint64_t now_ms)
{
    (void)now_ms;
    end_loan(CONTAINER(timer, struct compare, lender.due));
}

static void answer_part(struct compare *compare)
{
    struct compare_lender *lender = &compare->lender;
    struct wire_compared part = {
        .number = lender->number, .kind = WIRE_COMPARED_PART, .end = lender->rows.end};
    struct reader records;
    struct store_row row;

    reader_init(&records, lender->rows.chunk.data, lender->rows.chunk.len);
    while (store_rows_next(&records, &row)) {
        part.digest += hash_row(row.key, row.key_len, row.value, row.value_len);
        part.count++;
        part.data = row.key;
        part.len = row.key_len;
    }
    lender->fresh = false;
    answer(compare, lender->peer, &part);
}

static void answer_rows(struct compare *compare)
{
    struct compare_lender *lender = &compare->lender;

    answer(compare, lender->peer,
           &(struct wire_compared){.number = lender->number,
                                   .kind = WIRE_COMPARED_ROWS,
                                   .data = lender->rows.chunk.data,
                                   .len = lender->rows.chunk.len});
}

/* What was read for a question. */
static void lender_turn(struct compare *compare)
{
    struct compare_lender *lender = &compare->lender;

    if (!take_read(&lender->rows)) {
        return;
    }
    if (lender->rows.status != 0) {
        refuse(compare, lender->peer, lender->number);
        end_loan(compare);
        return;
    }
    lender->fresh = true;
    if (lender->asked == WIRE_COMPARE_OPEN) {
        answer(compare, lender->peer,
               &(struct wire_compared){.number = lender->number,
                                       .kind = WIRE_COMPARED_OPEN,
                                       .index = lender->rows.index});
    } else {
        answer_part(compare);
    }
    lender->asked = 0;
}

/* Does the asker's state differ from this node's, as it says? */
static bool is_other(const struct compare *compare, const struct wire_compare *ask)
{
    uint64_t digest;

    return fsm_digest_at(compare->on->fsm, ask->index, &digest) && digest != ask->digest;
}

static void lend(struct compare *compare, uint64_t to, const struct wire_compare *ask)
{
    struct compare_lender *lender = &compare->lender;
    uint64_t now_ms = ground_now_ms(compare->on);

    if (lender->peer != 0 || !is_closed(&lender->rows) || now_ms < lender->quiet_until_ms ||
        driver_member(compare->on->driver, to) == NULL || !is_other(compare, ask) ||
        compare->on->driver->applier.installing || driver_disk_is_low(compare->on->driver)) {
        refuse(compare, to, ask->number);
        return;
    }
    log_warn("raft", "another node's state differs: it may compare its rows with this one's",
             "peer=%llu index=%llu", ull(to), ull(ask->index));
    lender->peer = to;
    lender->number = ask->number;
    lender->asked = WIRE_COMPARE_OPEN;
    timer_arm(compare->on->timers, &lender->due, now_ms + LIMIT_COMPARE_MS);
    open_view(&lender->rows);
}

bool compare_receive(struct compare *compare, uint64_t from, const uint8_t *payload, size_t len)
{
    struct compare_lender *lender = &compare->lender;
    struct wire_compare ask;

    if (wire_compare_decode(payload, len, &ask) != 0) {
        return false;
    }
    if (ask.kind == WIRE_COMPARE_OPEN) {
        lend(compare, from, &ask);
        return true;
    }
    if (lender->peer != from || lender->number != ask.number) {
        refuse(compare, from, ask.number);
    } else if (ask.kind == WIRE_COMPARE_CLOSE) {
        end_loan(compare);
    } else if (lender->asked != 0) {
        return true; /* one question at a time */
    } else if (ask.kind == WIRE_COMPARE_ROWS) {
        answer_rows(compare);
    } else if (lender->fresh || lender->rows.end) {
        answer_part(compare);
    } else {
        lender->asked = WIRE_COMPARE_PART;
        start_read(&lender->rows, false);
    }
    return true;
}

/* --- the asker --- */

static void ask(struct compare *compare, enum wire_compare_kind kind)
{
    (void)ground_send_compare(
        compare->on, compare->asker.peer, FRAME_COMPARE,
        &(struct wire_compare){.number = compare->asker.number, .kind = (uint8_t)kind});
}

static void forget_asker(struct compare *compare)
{
    struct compare_asker *asker = &compare->asker;

    timer_cancel(compare->on->timers, &asker->due);
    asker->state = COMPARE_NONE;
    drop_view(&asker->rows);
    buf_free(&asker->last);
    buf_free(&asker->mine);
}

static void finish(struct compare *compare, bool differs, const char *text)
{
    ASSERT(compare->asker.state != COMPARE_NONE);
    ask(compare, WIRE_COMPARE_CLOSE);
    forget_asker(compare);
    compare->owner->compared(compare->owner, differs, text);
}

static void give_up(struct compare *compare, const char *why)
{
    char text[COMPARE_TEXT_BYTES];

    snprintf(text, sizeof text, "the first row that differs is not known: node %llu %s",
             ull(compare->asker.peer), why);
    finish(compare, false, text);
}

static void on_due(struct timer *timer, uint64_t now_ms)
{
    (void)now_ms;
    give_up(CONTAINER(timer, struct compare, asker.due), "did not answer in time");
}

/* A value for people: its length, a hash, and how it begins. */
static int print_value(char *text, size_t size, const struct store_row *row)
{
    const uint8_t *value = row->value;
    int len = 0;

    if (row->key_len == 0) {
        return snprintf(text, size, "no such row");
    }
    len = snprintf(text, size, "%u bytes, hash %016llx:", row->value_len,
                   ull(hash_row(row->key, row->key_len, value, row->value_len)));
    for (uint32_t i = 0; i < row->value_len && i < 48; i++) {
        len += snprintf(text + len, size - (size_t)len, "%s%02x", i == 0 ? " " : "", value[i]);
    }
    return len;
}

static void tell_row(struct compare *compare, const struct store_row *here,
                     const struct store_row *there)
{
    const struct store_row *named = here->key_len > 0 ? here : there;
    char text[COMPARE_TEXT_BYTES];
    char key[128];
    char mine[160];
    char others[160];

    (void)store_key_print(key, sizeof key, named->key, named->key_len);
    (void)print_value(mine, sizeof mine, here);
    (void)print_value(others, sizeof others, there);
    snprintf(
        text, sizeof text,
        "the first row that differs, with both at index %llu, is %s; here: %s; on node %llu: %s",
        ull(compare->asker.rows.index), key, mine, ull(compare->asker.peer), others);
    finish(compare, true, text);
}

static bool next_row(struct reader *records, struct store_row *ret_row)
{
    *ret_row = (struct store_row){0};
    return reader_left(records) > 0 && store_rows_next(records, ret_row);
}

static bool same_key(const struct store_row *a, const struct store_row *b)
{
    return a->key_len == b->key_len && memcmp(a->key, b->key, a->key_len) == 0;
}

static bool same_value(const struct store_row *a, const struct store_row *b)
{
    return a->value_len == b->value_len && memcmp(a->value, b->value, a->value_len) == 0;
}

/* Through both lists of the range, up to the first row that is not in both. */
static void find_row(struct compare *compare, const struct wire_compared *theirs)
{
    static const struct store_row none = {0};
    const struct buf *mine = &compare->asker.mine;
    struct reader here;
    struct reader there;
    struct store_row own;
    struct store_row other;

    reader_init(&here, mine->data, mine->len);
    reader_init(&there, theirs->data, theirs->len);
    for (;;) {
        bool has_own = next_row(&here, &own);
        bool has_other = next_row(&there, &other);

        if (!has_own && !has_other) {
            give_up(compare, "says other sums than its rows have");
            return;
        }
        if (has_own && has_other && same_key(&own, &other)) {
            if (!same_value(&own, &other)) {
                tell_row(compare, &own, &other);
                return;
            }
        } else if (has_own &&
                   (!has_other || store_key_less(own.key, own.key_len, other.key, other.key_len))) {
            tell_row(compare, &own, &none);
            return;
        } else {
            tell_row(compare, &none, &other);
            return;
        }
    }
}

/* The range has all rows of this node up to its last key. */
static void range_is_whole(struct compare *compare)
{
    struct compare_asker *asker = &compare->asker;

    asker->has_part = false;
    if (asker->sum != asker->of.digest || asker->count != asker->of.count) {
        asker->state = COMPARE_ASKING;
        ask(compare, WIRE_COMPARE_ROWS);
    } else if (asker->of.end) {
        finish(compare, false,
               "no row on the disks differs: the memory of this node does, or did (is it bad?)");
    } else {
        asker->state = COMPARE_ASKING;
        ask(compare, WIRE_COMPARE_PART);
    }
}

/* Does the row lie behind the range? */
static bool is_behind(const struct compare_asker *asker, const struct store_row *row)
{
    return !asker->of.end &&
           store_key_less(asker->last.data, asker->last.len, row->key, row->key_len);
}

/* Count the own rows that are read; the next chunk is read when all are. */
static void count_rows(struct compare *compare)
{
    struct compare_asker *asker = &compare->asker;
    struct reader records;
    struct store_row row;

    reader_init(&records, asker->rows.chunk.data + asker->at, asker->rows.chunk.len - asker->at);
    for (;;) {
        size_t before = records.at;

        if (reader_left(&records) == 0) {
            break;
        }
        ASSERT(store_rows_next(&records, &row));
        if (is_behind(asker, &row)) {
            asker->at += before;
            range_is_whole(compare);
            return;
        }
        asker->sum += hash_row(row.key, row.key_len, row.value, row.value_len);
        asker->count++;
        if (asker->mine.len < LIMIT_COMPARE_BYTES) {
            buf_put(&asker->mine, records.data + before, records.at - before);
        }
    }
    asker->at = asker->rows.chunk.len;
    if (asker->rows.end) {
        range_is_whole(compare);
    } else {
        start_read(&asker->rows, false);
    }
}

/* --- what the lender says --- */

static void take_open(struct compare *compare, const struct wire_compared *compared)
{
    struct compare_asker *asker = &compare->asker;
    struct driver *driver = compare->on->driver;

    if (compared->index < driver->apply_until) {
        give_up(compare, "lags behind");
        return;
    }
    asker->rows.index = compared->index;
    asker->state = COMPARE_APPLYING;
    driver_apply_until(driver, compared->index);
}

static void take_part(struct compare *compare, const struct wire_compared *compared)
{
    struct compare_asker *asker = &compare->asker;

    if (compared->len > 0 && asker->last.len > 0 &&
        !store_key_less(asker->last.data, asker->last.len, compared->data, compared->len)) {
        give_up(compare, "has rows that are not in order");
        return;
    }
    asker->of = *compared;
    asker->last.len = 0;
    asker->mine.len = 0;
    asker->sum = 0;
    asker->count = 0;
    asker->has_part = true;
    buf_put(&asker->last, compared->data, compared->len);
    asker->of.data = NULL;
    asker->state = COMPARE_READING;
    count_rows(compare);
}

bool compare_receive_answer(struct compare *compare, uint64_t from, const uint8_t *payload,
                            size_t len)
{
    struct compare_asker *asker = &compare->asker;
    struct wire_compared compared;

    if (wire_compared_decode(payload, len, &compared) != 0) {
        return false;
    }
    if (asker->state == COMPARE_NONE || asker->peer != from || asker->number != compared.number) {
        return true;
    }
    if (compared.kind == WIRE_COMPARED_NOT) {
        give_up(compare, "lends no view of its rows");
    } else if (compared.kind == WIRE_COMPARED_OPEN && asker->state == COMPARE_OPENING) {
        take_open(compare, &compared);
    } else if (compared.kind == WIRE_COMPARED_PART && asker->state == COMPARE_ASKING) {
        take_part(compare, &compared);
    } else if (compared.kind == WIRE_COMPARED_ROWS && asker->state == COMPARE_ASKING) {
        find_row(compare, &compared);
    }
    return true;
}

static void asker_turn(struct compare *compare)
{
    struct compare_asker *asker = &compare->asker;

    if (asker->state == COMPARE_APPLYING && is_closed(&asker->rows) &&
        driver_applied(compare->on->driver)->index == asker->rows.index) {
        asker->state = COMPARE_READING;
        asker->at = 0;
        open_view(&asker->rows);
        return;
    }
    if (!take_read(&asker->rows) || asker->state != COMPARE_READING) {
        return;
    }
    if (asker->rows.status != 0 ||
        asker->rows.index != driver_applied(compare->on->driver)->index) {
        give_up(compare, "has a view, and this node none of its own");
        return;
    }
    asker->at = 0;
    if (asker->has_part) {
        count_rows(compare);
    } else {
        asker->state = COMPARE_ASKING;
        ask(compare, WIRE_COMPARE_PART);
    }
}

/* --- for the owner --- */

void compare_begin(struct compare *compare, uint64_t peer, uint64_t index, uint64_t digest)
{
    struct compare_asker *asker = &compare->asker;

    ASSERT(asker->state == COMPARE_NONE && compare->on->driver->doubted);
    asker->state = COMPARE_OPENING;
    asker->peer = peer;
    asker->number++;
    asker->has_part = false;
    ground_arm_in(compare->on, &asker->due, LIMIT_COMPARE_MS);
    (void)ground_send_compare(
        compare->on, peer, FRAME_COMPARE,
        &(struct wire_compare){
            .number = asker->number, .kind = WIRE_COMPARE_OPEN, .index = index, .digest = digest});
}

void compare_turn(struct compare *compare)
{
    lender_turn(compare);
    asker_turn(compare);
}

void compare_drop(struct compare *compare)
{
    if (compare->asker.state != COMPARE_NONE) {
        ask(compare, WIRE_COMPARE_CLOSE);
    }
    forget_asker(compare);
}

void compare_stop(struct compare *compare)
{
    struct compare_view *views[] = {&compare->asker.rows, &compare->lender.rows};

    compare->stopped = true;
    timer_cancel(compare->on->timers, &compare->lender.due);
    timer_cancel(compare->on->timers, &compare->asker.due);
    compare->asker.state = COMPARE_NONE;
    compare->lender.peer = 0;
    buf_free(&compare->asker.last);
    buf_free(&compare->asker.mine);
    for (size_t i = 0; i < 2; i++) {
        buf_free(&views[i]->chunk);
        if (views[i]->back) {
            views[i]->back = false;
            views[i]->reading = false;
            disk_read_forget(&views[i]->read);
        }
    }
}

void compare_init(struct compare *compare, const struct ground *on, struct disk *disk,
                  struct compare_owner *owner, uint64_t first)
{
    *compare = (struct compare){.on = on, .disk = disk, .owner = owner};
    compare->asker.rows.compare = compare;
    compare->lender.rows.compare = compare;
    compare->asker.number = first >> 16; /* an answer of before a restart is none */
    timer_init(&compare->asker.due, on_due);
    timer_init(&compare->lender.due, on_loan_due);
}
