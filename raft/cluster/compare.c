/*
 * compare.c - see compare.h. Thread: the raft loop.
 */
#include "raft/cluster/compare.h"

#include <stdio.h>
#include <string.h>

#include "src/base/assert.h"
#include "src/base/hash.h"
#include "src/base/log.h"

#define HAND_OVER_MS 1000
#define HAND_OVER_LOOK_MS 10

/* --- a view --- */

static void compare_read_cb(void *data)
{
    const struct compare *compare = data;

    context_wake(compare->on, WAKE_COMPARE);
}

static void open_view(struct compare *compare, struct disk_view *rows)
{
    applier_write(&compare->on->driver->applier, true);
    disk_view_read(rows, LIMIT_SNAPSHOT_CHUNK_BYTES);
}

/* --- the lender --- */

static void refuse(struct compare *compare, uint64_t to, uint64_t number)
{
    (void)context_send_compared(
        compare->on, to, FRAME_COMPARED,
        &(struct wire_compared){.number = number, .kind = WIRE_COMPARED_NOT});
}

static void end_loan(struct compare *compare)
{
    struct compare_lender *lender = &compare->lender;

    if (lender->peer != 0) {
        lender->peer = 0;
        lender->asked = 0;
        lender->quiet_until_ms = context_now_ms(compare->on) + LIMIT_COMPARE_PAUSE_MS;
        timer_cancel(compare->on->timers, &lender->due);
        disk_view_drop(&lender->rows);
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
        .number = lender->number, .kind = WIRE_COMPARED_PART, .end = lender->rows.read.end};
    struct reader records;
    struct state_row row;

    reader_init(&records, lender->rows.read.chunk.data, lender->rows.read.chunk.len);
    while (store_rows_next(&records, &row)) {
        part.digest += hash_row(row.key, row.key_len, row.value, row.value_len);
        part.count++;
        part.data = row.key;
        part.len = row.key_len;
    }
    lender->fresh = false;
    (void)context_send_compared(compare->on, lender->peer, FRAME_COMPARED, &part);
}

/* Compare the asker's reported state with this node's. */
static enum wire_compared_kind judge(const struct compare *compare, const struct wire_compare *ask)
{
    uint64_t digest;

    if (!state_digest_at(compare->on->state, ask->index, &digest)) {
        return WIRE_COMPARED_NOT;
    }
    return digest == ask->digest ? WIRE_COMPARED_SAME : WIRE_COMPARED_OTHER;
}

/* --- which node is wrong --- */

/* By the applied configuration: an uncommitted one may be a wrong leader's. */
static void voters_of(const struct compare *compare, struct configuration *ret_voters)
{
    struct configuration applied;

    applier_configured(&compare->on->driver->applier, &applied);
    ret_voters->count = 0;
    MEMBER_FOREACH (member, &applied) {
        if (member->role == ROLE_VOTER) {
            configuration_add(ret_voters, member->id, member->address, ROLE_VOTER);
        }
    }
}

/* What a voter has answered to the question that is asked now; 0: nothing. */
static uint8_t said_by(const struct compare *compare, uint64_t id)
{
    const struct peer_row *row = context_peer(compare->on, id);

    return row->compare_number == compare->asker.number ? row->compare_said : 0;
}

static void ask_states(struct compare *compare)
{
    struct compare_asker *asker = &compare->asker;
    const struct wire_compare question = {asker->number, WIRE_COMPARE_STATE, asker->index,
                                          asker->digest};
    struct configuration voters;

    voters_of(compare, &voters);
    MEMBER_FOREACH (member, &voters) {
        if (member->id != compare->on->node_id) {
            (void)context_send_compare(compare->on, member->id, FRAME_COMPARE, &question);
        }
    }
}

static void compare_again_cb(struct timer *timer, uint64_t now_ms)
{
    struct compare *compare = CONTAINER(timer, struct compare, asker.again);

    timer_arm(compare->on->timers, timer, now_ms + COMPARE_AGAIN_MS);
    ask_states(compare);
}

void compare_diverged(struct compare *compare, uint64_t said_by, const char *why)
{
    struct compare_asker *asker = &compare->asker;

    ASSERT(asker->state == COMPARE_NONE && compare->on->driver->halted);
    asker->state = COMPARE_DECIDING;
    asker->said_by = said_by;
    asker->index = driver_applied(compare->on->driver)->index;
    asker->digest = state_digest(compare->on->state);
    asker->number++;
    asker->until_ms = context_now_ms(compare->on) + LIMIT_DIVERGED_MS;
    snprintf(asker->why, sizeof asker->why, "%s", why);
    log_warn("raft", "this node's state may be wrong: the others are asked for theirs",
             "peer=%llu index=%llu", ull(said_by), ull(asker->index));
    ask_states(compare);
    context_arm_in(compare->on, &asker->again, COMPARE_AGAIN_MS);
    context_wake(compare->on, WAKE_ALL); /* nothing is served meanwhile */
}

/* The voter to compare rows with: one that has another state, and is reached if any is. 0: there is
 * none. */
static uint64_t other_of(const struct compare *compare)
{
    struct configuration voters;
    uint64_t other = 0;

    voters_of(compare, &voters);
    MEMBER_FOREACH (member, &voters) {
        if (said_by(compare, member->id) == WIRE_COMPARED_OTHER &&
            (other == 0 || !context_reaches(compare->on, other))) {
            other = member->id;
        }
    }
    return other;
}

/* A leader hands over before rows are compared: meanwhile nothing is served. */
static void is_wrong(struct compare *compare, const char *why)
{
    struct compare_asker *asker = &compare->asker;
    char text[COMPARE_WHY_BYTES + 100];

    timer_cancel(compare->on->timers, &asker->again);
    log_warn("raft", "this node's state is another than the cluster's", "index=%llu why=\"%s\"",
             ull(asker->index), why);
    if (other_of(compare) != 0) {
        asker->state = COMPARE_HANDING_OVER;
        asker->until_ms = context_now_ms(compare->on) + HAND_OVER_MS;
        context_wake(compare->on, WAKE_COMPARE);
        return;
    }
    asker->state = COMPARE_NONE;
    snprintf(text, sizeof text, "%s (%s)", asker->why, why);
    driver_end_diverged(compare->on->driver, text);
}

static void decide(struct compare *compare)
{
    struct compare_asker *asker = &compare->asker;
    struct configuration voters;
    unsigned majority;
    unsigned same = 0;
    unsigned silent = 0;
    unsigned self;

    voters_of(compare, &voters);
    majority = voters.count / 2 + 1;
    self = configuration_find(&voters, compare->on->node_id) != NULL;
    MEMBER_FOREACH (member, &voters) {
        same += said_by(compare, member->id) == WIRE_COMPARED_SAME;
        silent += member->id != compare->on->node_id && said_by(compare, member->id) == 0;
    }
    if (same > 0 && same + self >= majority) {
        timer_cancel(compare->on->timers, &asker->again);
        asker->state = COMPARE_NONE;
        log_line(
            LOG_LEVEL_ERROR, "raft", "most nodes have this node's state: another one's is wrong",
            "peer=%llu index=%llu said=\"%s\"", ull(asker->said_by), ull(asker->index), asker->why);
        compare->on->driver->halted = false;
        context_wake(compare->on, WAKE_ALL); /* it applies again, and serves */
    } else if (silent == 0 || same + silent + self < majority) {
        is_wrong(compare, "no majority has this node's state");
    } else if (context_now_ms(compare->on) >= asker->until_ms) {
        is_wrong(compare, "too few members answered in time to decide which is right");
    }
}

/* --- questions --- */

/* A node asks for a comparison of its state with this one's. */
static void on_state_asked(struct compare *compare, uint64_t from, const struct wire_compare *ask)
{
    enum wire_compared_kind kind = judge(compare, ask);
    struct driver *driver = compare->on->driver;
    struct peer_row *row = context_peer(compare->on, from);
    struct configuration voters;
    unsigned asked = 0;
    char why[160];

    (void)context_send_compared(
        compare->on, from, FRAME_COMPARED,
        &(struct wire_compared){.number = ask->number, .kind = (uint8_t)kind});
    if (kind != WIRE_COMPARED_OTHER || row == NULL || ask->index < compare->asked_index ||
        driver->halted || driver->applier.installing) {
        return;
    }
    /* If most voters ask with another state, this node's differs: it asks, too, and will learn
     * that. */
    compare->asked_index = ask->index;
    row->compare_index = ask->index;
    voters_of(compare, &voters);
    MEMBER_FOREACH (member, &voters) {
        asked += context_peer(compare->on, member->id)->compare_index == ask->index;
    }
    if (asked > voters.count / 2) {
        snprintf(why, sizeof why, "most members have another state than this node at entry %llu",
                 ull(ask->index));
        driver_halt(driver);
        compare_diverged(compare, from, why);
    }
}

bool compare_receive(struct compare *compare, uint64_t from, const uint8_t *payload, size_t len)
{
    struct compare_lender *lender = &compare->lender;
    const struct driver *driver = compare->on->driver;
    uint64_t now_ms = context_now_ms(compare->on);
    struct wire_compare ask;

    if (wire_compare_decode(payload, len, &ask) != 0) {
        return false;
    }
    if (driver->failed) {
        return true;
    }
    if (ask.kind == WIRE_COMPARE_STATE) {
        on_state_asked(compare, from, &ask);
    } else if (ask.kind == WIRE_COMPARE_OPEN) {
        if (lender->peer != 0 || !disk_view_is_closed(&lender->rows) ||
            now_ms < lender->quiet_until_ms || driver_member(driver, from) == NULL ||
            judge(compare, &ask) != WIRE_COMPARED_OTHER || driver->applier.installing ||
            driver_disk_is_low(driver)) {
            refuse(compare, from, ask.number);
            return true;
        }
        log_warn("raft", "another node's state differs: it may compare its rows with this one's",
                 "peer=%llu index=%llu", ull(from), ull(ask.index));
        lender->peer = from;
        lender->number = ask.number;
        lender->asked = WIRE_COMPARE_OPEN;
        timer_arm(compare->on->timers, &lender->due, now_ms + LIMIT_COMPARE_MS);
        open_view(compare, &lender->rows);
    } else if (lender->peer != from || lender->number != ask.number) {
        refuse(compare, from, ask.number);
    } else if (ask.kind == WIRE_COMPARE_CLOSE) {
        end_loan(compare);
    } else if (lender->asked != 0) {
        return true; /* one question at a time */
    } else if (ask.kind == WIRE_COMPARE_ROWS) {
        (void)context_send_compared(compare->on, from, FRAME_COMPARED,
                                    &(struct wire_compared){.number = ask.number,
                                                            .kind = WIRE_COMPARED_ROWS,
                                                            .data = lender->rows.read.chunk.data,
                                                            .len = lender->rows.read.chunk.len});
    } else if (lender->fresh || lender->rows.read.end) {
        answer_part(compare);
    } else {
        lender->asked = WIRE_COMPARE_PART;
        disk_view_read(&lender->rows, LIMIT_SNAPSHOT_CHUNK_BYTES);
    }
    return true;
}

/* --- the asker --- */

static void compare_ask(struct compare *compare, enum wire_compare_kind kind)
{
    (void)context_send_compare(
        compare->on, compare->asker.peer, FRAME_COMPARE,
        &(struct wire_compare){.number = compare->asker.number, .kind = (uint8_t)kind});
}

static void forget_asker(struct compare *compare)
{
    struct compare_asker *asker = &compare->asker;

    timer_cancel(compare->on->timers, &asker->due);
    timer_cancel(compare->on->timers, &asker->again);
    timer_cancel(compare->on->timers, &asker->hand_over);
    asker->state = COMPARE_NONE;
    disk_view_drop(&asker->rows);
    buf_free(&asker->last);
    buf_free(&asker->mine);
}

/* text: the row that differs, or why none is named. */
static void compare_finish(struct compare *compare, bool differs, const char *text)
{
    const struct compare_asker *asker = &compare->asker;
    char whole[COMPARE_WHY_BYTES + COMPARE_TEXT_BYTES];

    ASSERT(asker->state >= COMPARE_OPENING);
    compare_ask(compare, WIRE_COMPARE_CLOSE);
    forget_asker(compare);
    log_line(LOG_LEVEL_ERROR, "raft",
             differs ? "the state differs from the cluster's" : "no row that differs was found",
             "index=%llu peer=%llu row=\"%s\"", ull(asker->index), ull(asker->peer), text);
    snprintf(whole, sizeof whole, "%s; %s", asker->why, text);
    driver_end_diverged(compare->on->driver, whole);
}

static void compare_give_up(struct compare *compare, const char *why)
{
    char text[COMPARE_TEXT_BYTES];

    snprintf(text, sizeof text, "the first row that differs is not known: node %llu %s",
             ull(compare->asker.peer), why);
    compare_finish(compare, false, text);
}

static void compare_due_cb(struct timer *timer, uint64_t now_ms)
{
    (void)now_ms;
    compare_give_up(CONTAINER(timer, struct compare, asker.due), "did not answer in time");
}

/* A value as text: its length, a hash, and its first bytes. */
static int print_value(char *text, size_t size, const struct state_row *row)
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

static void report_row(struct compare *compare, const struct state_row *here,
                       const struct state_row *there)
{
    const struct state_row *named = here->key_len > 0 ? here : there;
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
    compare_finish(compare, true, text);
}

static bool same_bytes(const void *a, size_t a_len, const void *b, size_t b_len)
{
    return a_len == b_len && memcmp(a, b, a_len) == 0;
}

/* Compare both lists of the range, up to the first row that is not in both. */
static void find_row(struct compare *compare, const struct wire_compared *theirs)
{
    const struct state_row none = {0};
    const struct buf *mine = &compare->asker.mine;
    struct reader here;
    struct reader there;
    struct state_row own;
    struct state_row other;

    reader_init(&here, mine->data, mine->len);
    reader_init(&there, theirs->data, theirs->len);
    for (;;) {
        bool has_own = reader_left(&here) > 0 && store_rows_next(&here, &own);
        bool has_other = reader_left(&there) > 0 && store_rows_next(&there, &other);

        if (!has_own && !has_other) {
            compare_give_up(compare, "says other sums than its rows have");
            return;
        }
        if (has_own && has_other && same_bytes(own.key, own.key_len, other.key, other.key_len)) {
            if (!same_bytes(own.value, own.value_len, other.value, other.value_len)) {
                report_row(compare, &own, &other);
                return;
            }
        } else if (has_own && (!has_other || store_key_compare(own.key, own.key_len, other.key,
                                                               other.key_len) < 0)) {
            report_row(compare, &own, &none);
            return;
        } else {
            report_row(compare, &none, &other);
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
        compare_ask(compare, WIRE_COMPARE_ROWS);
    } else if (asker->of.end) {
        compare_finish(
            compare, false,
            "no row on the disks differs: the memory of this node does, or did (is it bad?)");
    } else {
        asker->state = COMPARE_ASKING;
        compare_ask(compare, WIRE_COMPARE_PART);
    }
}

/* Sum the own rows of the chunk, then read the next one. */
static void count_rows(struct compare *compare)
{
    struct compare_asker *asker = &compare->asker;
    struct reader records;
    struct state_row row;

    reader_init(&records, asker->rows.read.chunk.data + asker->at,
                asker->rows.read.chunk.len - asker->at);
    for (;;) {
        size_t before = records.at;

        if (reader_left(&records) == 0) {
            break;
        }
        ASSERT(store_rows_next(&records, &row));
        if (!asker->of.end && /* does it come after the range? */
            store_key_compare(asker->last.data, asker->last.len, row.key, row.key_len) < 0) {
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
    asker->at = asker->rows.read.chunk.len;
    if (asker->rows.read.end) {
        range_is_whole(compare);
    } else {
        disk_view_read(&asker->rows, LIMIT_SNAPSHOT_CHUNK_BYTES);
    }
}

/* --- the lender's answers --- */

bool compare_receive_answer(struct compare *compare, uint64_t from, const uint8_t *payload,
                            size_t len)
{
    struct compare_asker *asker = &compare->asker;
    struct wire_compared compared;
    struct peer_row *row;

    if (wire_compared_decode(payload, len, &compared) != 0) {
        return false;
    }
    context_wake(compare->on, WAKE_COMPARE);
    if (asker->state == COMPARE_NONE || asker->number != compared.number) {
        return true;
    }
    row = context_peer(compare->on, from);
    if (asker->state == COMPARE_DECIDING && row != NULL && said_by(compare, from) == 0 &&
        (compared.kind == WIRE_COMPARED_SAME || compared.kind == WIRE_COMPARED_OTHER)) {
        row->compare_number = asker->number; /* its first answer counts */
        row->compare_said = compared.kind;
    }
    if (asker->state < COMPARE_OPENING || asker->peer != from) {
        return true;
    }
    if (compared.kind == WIRE_COMPARED_NOT) {
        compare_give_up(compare, "lends no view of its rows");
    } else if (compared.kind == WIRE_COMPARED_OPEN && asker->state == COMPARE_OPENING) {
        if (compared.index < compare->on->driver->apply_until) {
            compare_give_up(compare, "lags behind");
            return true;
        }
        asker->open_index = compared.index;
        asker->state = COMPARE_APPLYING;
        ASSERT(compare->on->driver->halted);
        compare->on->driver->apply_until = compared.index;
    } else if (compared.kind == WIRE_COMPARED_PART && asker->state == COMPARE_ASKING) {
        if (compared.len > 0 && asker->last.len > 0 &&
            store_key_compare(asker->last.data, asker->last.len, compared.data, compared.len) >=
                0) {
            compare_give_up(compare, "has rows that are not in order");
            return true;
        }
        asker->of = compared;
        asker->of.data = NULL;
        asker->last.len = 0;
        asker->mine.len = 0;
        asker->sum = 0;
        asker->count = 0;
        asker->has_part = true;
        buf_put(&asker->last, compared.data, compared.len);
        asker->state = COMPARE_READING;
        count_rows(compare);
    } else if (compared.kind == WIRE_COMPARED_ROWS && asker->state == COMPARE_ASKING) {
        find_row(compare, &compared);
    }
    return true;
}

static void asker_turn(struct compare *compare)
{
    struct compare_asker *asker = &compare->asker;

    if (asker->state == COMPARE_APPLYING && disk_view_is_closed(&asker->rows) &&
        driver_applied(compare->on->driver)->index == asker->open_index) {
        asker->state = COMPARE_READING;
        asker->at = 0;
        open_view(compare, &asker->rows);
        return;
    }
    if (!disk_view_take(&asker->rows) || asker->state != COMPARE_READING) {
        return;
    }
    if (asker->rows.read.status != 0 ||
        asker->rows.index != driver_applied(compare->on->driver)->index) {
        compare_give_up(compare, "has a view, and this node none of its own");
        return;
    }
    asker->at = 0;
    if (asker->has_part) {
        count_rows(compare);
    } else {
        asker->state = COMPARE_ASKING;
        compare_ask(compare, WIRE_COMPARE_PART);
    }
}

/* --- for the replica --- */

void compare_turn(struct compare *compare)
{
    struct compare_asker *asker = &compare->asker;
    struct compare_lender *lender = &compare->lender;

    if (compare->on->driver->failed) {
        return;
    }
    if (asker->state == COMPARE_DECIDING) {
        decide(compare);
    }
    if (asker->state == COMPARE_HANDING_OVER) {
        if (!driver_transfer(compare->on->driver, 0) &&
            context_now_ms(compare->on) < asker->until_ms) {
            context_arm_in(compare->on, &asker->hand_over, HAND_OVER_LOOK_MS);
        } else { /* compare with one of the nodes that have another state */
            asker->peer = other_of(compare);
            asker->state = COMPARE_OPENING;
            asker->number++;
            asker->has_part = false;
            context_arm_in(compare->on, &asker->due, LIMIT_COMPARE_MS);
            (void)context_send_compare(compare->on, asker->peer, FRAME_COMPARE,
                                       &(struct wire_compare){.number = asker->number,
                                                              .kind = WIRE_COMPARE_OPEN,
                                                              .index = asker->index,
                                                              .digest = asker->digest});
        }
    }
    /* Answer the pending question with the finished read. */
    if (disk_view_take(&lender->rows)) {
        lender->fresh = true;
        if (lender->rows.read.status != 0) {
            refuse(compare, lender->peer, lender->number);
            end_loan(compare);
        } else if (lender->asked == WIRE_COMPARE_OPEN) {
            (void)context_send_compared(compare->on, lender->peer, FRAME_COMPARED,
                                        &(struct wire_compared){.number = lender->number,
                                                                .kind = WIRE_COMPARED_OPEN,
                                                                .index = lender->rows.index});
        } else {
            answer_part(compare);
        }
        lender->asked = 0;
    }
    asker_turn(compare);
}

void compare_installed(struct compare *compare)
{
    if (compare->asker.state >= COMPARE_OPENING) {
        compare_ask(compare, WIRE_COMPARE_CLOSE);
    }
    forget_asker(compare);
}

void compare_stop(struct compare *compare)
{
    timer_cancel(compare->on->timers, &compare->lender.due);
    timer_cancel(compare->on->timers, &compare->asker.due);
    timer_cancel(compare->on->timers, &compare->asker.again);
    timer_cancel(compare->on->timers, &compare->asker.hand_over);
    compare->asker.state = COMPARE_NONE;
    compare->lender.peer = 0;
    buf_free(&compare->asker.last);
    buf_free(&compare->asker.mine);
    disk_view_abandon(&compare->asker.rows);
    disk_view_abandon(&compare->lender.rows);
}

void compare_init(struct compare *compare, const struct raft_context *on)
{
    const struct disk_view rows = {.disk = on->disk, .came = compare_read_cb, .data = compare};

    *compare = (struct compare){.on = on, .asker.rows = rows, .lender.rows = rows};
    compare->asker.number =
        on->config->driver.seed >> 16; /* answers from before a restart do not match */
    timer_init(&compare->asker.again, compare_again_cb);
    compare->asker.again.wakes = WAKE_COMPARE;
    compare->asker.hand_over.wakes = WAKE_COMPARE;
    timer_init(&compare->asker.due, compare_due_cb);
    timer_init(&compare->lender.due, on_loan_due);
}
