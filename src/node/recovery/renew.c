/*
 * renew.c - see saved.h: converts a saved state for a new cluster. Thread: main.
 */
#include "src/node/recovery/saved.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "http/proto/text.h"
#include "src/base/hash.h"
#include "src/base/log.h"
#include "src/base/prng.h"
#include "src/base/zone.h"
#include "src/id/codec/tag.h"
#include "src/id/fsm/fsm.h"
#include "src/state/state_tables.h"
#include "src/state/journal.h"

/* Raise of the epochs of worker ids. No worker id was acquired this often since, so no holder of
 * the old cluster can pass for one of the new. */
#define EPOCHS_AHEAD 1048576
/* Likewise of generations. A client library refuses an answer of an older one than it has seen, and
 * so would every program that runs through the restore, for ever. */
#define GENERATIONS_AHEAD 1048576
/* A rate measured over less time does not count. */
#define SPAN_MIN_MS 60000
/* The old cluster may have changed to the next key since, and handed out texts by it. */
#define KEYS_AHEAD 2
#define SHOWN_BYTES (4 * LIMIT_TAG_NAME_BYTES + 3)
#define SHOWN(tag) log_quote((tag)->name, (tag)->name_len, (char[SHOWN_BYTES]){0}, SHOWN_BYTES)

struct renewing {
    const struct renew_options *options;
    uint64_t now_ms;
    uint64_t taken_ms; /* time of the saved state; 0: not known */
    struct renewed *to;
    struct saved rows; /* the new ones, in any order; of one key the last one counts */
    struct zones *zones;
    struct store_error *error;
};

static int fail_row(struct store_error *error, const struct saved_row *row, int err)
{
    char key[128];

    (void)store_key_print(key, sizeof key, row->key, row->key_len);
    return store_error_set(error, err, "row %s: %s", key, err_text(err));
}

/* A new row in place of this one. */
static void put_renewed(struct renewing *renewing, const struct saved_row *row, const void *value,
                        size_t value_len)
{
    saved_add(&renewing->rows, row->key, row->key_len, value, value_len);
}

/* --- tags --- */

static uint64_t times_capped(uint64_t a, uint64_t b)
{
    return b != 0 && a > TAG_MAX_ID_END / b ? TAG_MAX_ID_END : a * b;
}

bool renew_raise(const struct raise *raise, const struct saved_row *row, const struct tag_row *tag,
                 uint64_t *ret_numbers)
{
    bool known = row->span_ms >= SPAN_MIN_MS;
    uint64_t by_ids = raise->by_ids ? times_capped(raise->ids, increment_of(tag->increment)) : 0;
    uint64_t by_time = 0;

    if (raise->by_time && known) { /* even an idle tag may have been granted some segments */
        double grown = (double)row->grew * (double)raise->time_ms / (double)row->span_ms;
        uint64_t by = grown < (double)TAG_MAX_ID_END / 2 ? (uint64_t)grown + 1 : TAG_MAX_ID_END;
        /* Numbers of the largest segment. With a cover_s segments follow the pace, and the default
         * max_step is far above them: a raise by it would use up a tag with a max. */
        uint64_t segment = (uint64_t)tag->max_step * increment_of(tag->increment);
        uint64_t least = (uint64_t)TAG_DEFAULT_MAX_STEP * increment_of(tag->increment);
        double paced = (double)row->grew * tag->cover_s * 1000 / (double)row->span_ms;

        if (tag->cover_s > 0 && segment >= least && paced < (double)segment) {
            segment = paced > (double)least ? (uint64_t)paced : least;
        }
        by_time = times_capped(by > segment ? by : segment, raise->factor);
    }
    *ret_numbers = by_ids > by_time ? by_ids : by_time;
    return known || raise->by_ids;
}

/* The raise in numbers, at most. 0, or the reason why it is not known. */
static int raise_of(struct renewing *renewing, const struct saved_row *row,
                    const struct tag_row *tag, uint64_t *ret_numbers)
{
    if (renew_raise(&renewing->options->raise, row, tag, ret_numbers)) {
        return 0;
    }
    return store_error_set(renewing->error, ERR_INVALID,
                           "how fast tag \"%.*s\" grew is not known (its node watched for less "
                           "than a minute, or too many tags): give --raise-ids, too",
                           tag->name_len, tag->name);
}

/* Raise max_id by so many from `first` on, at most to `end`. The old cluster may have raised the
 * max since, or made a deleted tag again without one: so the max does not bound the raise, but
 * moves to where it ends. period: 0 for a tag without a date. True: the tag is exhausted. */
static bool raise_from(struct renewing *renewing, struct tag_row *tag, uint64_t first, uint64_t by,
                       uint64_t end, uint32_t period, struct buf *how)
{
    bool is_exhausted;

    tag->max_id = by < end - first ? first + by : end;
    buf_printf(how, "raised by %" PRIu64, tag->max_id - first);
    if (period > 0) {
        buf_printf(how, " in %" PRIu32, period);
    }
    /* A period's numbers begin at 1, so a max of the next one's first id leaves none of them. */
    is_exhausted = tag->max_id + (period > 0 && tag->max_id == end ? 1 : 0) >= tag_bound(tag);
    renewing->to->exhausted += is_exhausted;
    if (tag->max_id > tag_bound(tag)) {
        buf_printf(how, " beyond its max of %" PRIu64 ", which moves there: it is exhausted",
                   tag->max);
        tag->max = tag->max_id;
    }
    return is_exhausted;
}

/* This and the following raise a tag's max_id, and append to `how` what they did. shape: zeros if
 * it has none. */
static int raise_plain(struct renewing *renewing, const struct saved_row *row,
                       const struct shape *shape, struct tag_row *tag, struct buf *how)
{
    uint64_t end = shape_is_bounded(shape) ? shape_bound(shape) : TAG_MAX_ID_END;
    uint64_t was = tag->max_id;
    uint64_t by;
    int err = raise_of(renewing, row, tag, &by);

    if (err == 0 && raise_from(renewing, tag, was, by, end, 0, how) && by > end - was) {
        buf_printf(how, "; NOT by %" PRIu64 ": it ends there, and is exhausted", by);
    }
    return err;
}

/* --- tags with a date --- */

/* The period of a time, and the part of it that is over. */
struct moment {
    uint32_t period;
    uint64_t elapsed_ms;
    uint64_t length_ms;
};

static bool moment_of(const struct renewing *renewing, const struct shape *shape, uint64_t wall_ms,
                      struct moment *ret_moment)
{
    enum date_part unit = (enum date_part)shape->date.unit;
    uint64_t local_ms;

    if (!zones_local_ms(renewing->zones, shape->date.zone, wall_ms, &local_ms)) {
        return false;
    }
    ret_moment->period = shape_period(unit, local_ms);
    shape_period_times(unit, local_ms, &ret_moment->elapsed_ms, &ret_moment->length_ms);
    return true;
}

static uint32_t period_of_number(const struct shape *shape, uint64_t max_id)
{
    return max_id > 0 ? (uint32_t)((max_id - 1) / shape->numbers) : 0;
}

/* The numbers that the tag took of its present period, and in which time. If a period began within
 * the observed time, max_id jumped, which is not growth. */
static struct saved_row growth_in_period(const struct renewing *renewing,
                                         const struct saved_row *row, const struct shape *shape,
                                         uint64_t max_id)
{
    struct saved_row of = *row;
    struct moment taken = {.elapsed_ms = row->span_ms};

    if (row->grew == 0 ||
        period_of_number(shape, max_id - row->grew) == period_of_number(shape, max_id)) {
        return of;
    }
    if (renewing->taken_ms != 0) {
        (void)moment_of(renewing, shape, renewing->taken_ms, &taken);
    }
    of.grew = shape_grown(shape, max_id - row->grew, max_id);
    if (taken.elapsed_ms < of.span_ms) {
        of.span_ms = taken.elapsed_ms > SPAN_MIN_MS ? taken.elapsed_ms : SPAN_MIN_MS;
    }
    return of;
}

/* The raise in numbers of the present period, of which `left` remain: the larger one, unless it
 * takes all of them and the raise by time needs fewer. */
static int raise_in_period(struct renewing *renewing, const struct saved_row *row,
                           const struct shape *shape, const struct tag_row *tag,
                           const struct moment *now, uint64_t left, uint64_t *ret_numbers)
{
    const struct raise *raise = &renewing->options->raise;
    struct saved_row growth = growth_in_period(renewing, row, shape, tag->max_id);
    bool by_time = raise->by_time && growth.span_ms >= SPAN_MIN_MS;
    uint64_t of_ids = raise->by_ids ? raise->ids : 0;
    uint64_t of_time = 0;

    if (by_time) { /* bounded by the period's age; one observed only briefly may still be used up */
        uint64_t time_ms = raise->time_ms < now->elapsed_ms ? raise->time_ms : now->elapsed_ms;
        double even = (double)shape->numbers * (double)time_ms / (double)now->length_ms;
        double grown = (double)growth.grew * (double)time_ms / (double)growth.span_ms + 1;
        double numbers = grown * (double)raise->factor;

        numbers = numbers > even ? numbers : even;
        of_time = numbers < (double)shape->numbers ? (uint64_t)numbers + 1 : shape->numbers;
    }
    if (!by_time && !raise->by_ids) {
        return raise_of(renewing, row, tag, ret_numbers);
    }
    *ret_numbers = of_time > of_ids ? of_time : of_ids;
    if (by_time && of_ids >= left && of_time < left) {
        *ret_numbers = of_time;
        buf_printf(&renewing->to->limits,
                   "- Numbers of %s: raised by %" PRIu64 " alone, by --raise-time, since %" PRIu64
                   " would use up %" PRIu32 ".\n",
                   SHOWN(tag), of_time, of_ids, now->period);
    }
    return 0;
}

/* A dated number is a period and a counter. All periods up to today's may have begun since: the tag
 * continues in today's period, with a raised counter. */
static int raise_dated(struct renewing *renewing, const struct saved_row *row,
                       const struct shape *shape, struct tag_row *tag, struct buf *how)
{
    struct moment now;
    uint64_t was = tag->max_id;
    uint64_t first;
    uint64_t end;
    uint64_t by = 0;
    bool is_exhausted;
    int err;

    if (!moment_of(renewing, shape, renewing->now_ms, &now)) {
        return store_error_set(renewing->error, ERR_INVALID,
                               "this machine does not know the time zone %s, by which tag "
                               "\"%.*s\" counts: install tzdata, and try again",
                               shape->date.zone, tag->name_len, tag->name);
    }
    if (period_of_number(shape, was) > now.period) { /* by force */
        now = (struct moment){period_of_number(shape, was), UINT64_MAX, now.length_ms};
    }
    shape_period_ids(shape, was, now.period, &first, &end);
    err = raise_in_period(renewing, row, shape, tag, &now, end - first, &by);
    if (err != 0) {
        return err;
    }
    is_exhausted = raise_from(renewing, tag, first, by, end, now.period, how);
    if (tag->max_id == end) {
        buf_printf(how, "; NOT by %" PRIu64 ": %s", by,
                   is_exhausted ? "it ends there, and is exhausted"
                                : "no number is left until the next period begins");
        buf_printf(&renewing->to->limits,
                   "- %s has no number of %" PRIu32 " left. If you know the last one that was "
                   "given out, set\n  max_id above it, with force=1.\n",
                   SHOWN(tag), now.period);
    }
    return 0;
}

/* --- tags with {key} --- */

/* Its key may have been changed once since. The two clusters draw different keys, so texts of the
 * next key number could repeat: that number is skipped. keys: of TAG_SHAPE_BYTES_MAX. row: of its
 * growth only that of the present key stays. */
static int raise_key(struct renewing *renewing, struct saved_row *row, const struct shape *shape,
                     struct tag_row *tag, char *keys, struct buf *how)
{
    uint8_t number = (uint8_t)(shape->key_count - 1 + KEYS_AHEAD);
    uint64_t was = tag->max_id;

    if (number >= SHAPE_KEYS_MAX) {
        uint64_t of_key = was - shape_key_first(shape, shape->key_count - 1U);

        if (shape->key_count < SHAPE_KEYS_MAX) {
            buf_printf(&renewing->to->limits,
                       "- Texts of %s by key %u, the last one: if it was in force, never set it "
                       "here. Take a new name.\n",
                       SHOWN(tag), shape->key_count);
        }
        row->grew = row->grew < of_key ? row->grew : of_key; /* the rest was a jump */
        return raise_plain(renewing, row, shape, tag, how);
    }
    memcpy(keys, tag->shape, tag->shape_len);
    entropy_bytes(keys + tag->shape_len, SHAPE_KEY_BYTES);
    for (unsigned ahead = 1; ahead < KEYS_AHEAD; ahead++) { /* skipped: the same as the next one */
        memcpy(keys + tag->shape_len + ahead * SHAPE_KEY_BYTES, keys + tag->shape_len,
               SHAPE_KEY_BYTES);
    }
    tag->shape = keys;
    tag->shape_len = (uint16_t)(tag->shape_len + KEYS_AHEAD * SHAPE_KEY_BYTES);
    tag->max_id = shape_key_first(shape, number);
    tag->max = shape_key_first(shape, number + 1U);
    buf_printf(how, "by key %u: key %u may have been in force since", number, number - 1);
    return 0;
}

static int renew_tag(struct renewing *renewing, const struct saved_row *row)
{
    struct buf *text = &renewing->to->tags;
    char keys[TAG_SHAPE_BYTES_MAX];
    struct saved_row growth = *row;
    struct shape shape = {0};
    BUF_LOCAL(value);
    BUF_LOCAL(how);
    struct tag_row tag;
    uint64_t was;
    int err = tag_row_decode((const char *)row->key + 1, row->key_len - 1, saved_value(row),
                             row->value_len, &tag);

    if (err == 0 && tag.shape_len > 0) {
        err = tag_shape(tag.shape, tag.shape_len, &shape, NULL);
    }
    if (err != 0) {
        return fail_row(renewing->error, row, err);
    }
    was = tag.max_id;
    err = shape.date.unit != DATE_NONE ? raise_dated(renewing, row, &shape, &tag, &how)
          : shape.has_key              ? raise_key(renewing, &growth, &shape, &tag, keys, &how)
                                       : raise_plain(renewing, row, &shape, &tag, &how);
    if (err != 0) {
        return err;
    }
    buf_printf(text, "  %s continues from %" PRIu64 " (was %" PRIu64 ", %s", SHOWN(&tag),
               tag.max_id, was, buf_text(&how));
    if (renewing->options->raise.by_time && growth.span_ms >= SPAN_MIN_MS) {
        buf_printf(text, "; grew by %" PRIu64 " in %" PRIu64 " min", growth.grew,
                   growth.span_ms / 60000);
    }
    buf_printf(text, ")%s\n", tag.deleted ? ", deleted" : "");
    tag.generation += tag.generation < UINT32_MAX - GENERATIONS_AHEAD ? GENERATIONS_AHEAD
                                                                      : tag.generation < UINT32_MAX;
    tag.recalling = false;
    renewing->to->tag_count += !tag.deleted;
    row_put(&value, tag_row_format(&tag), &tag);
    put_renewed(renewing, row, value.data, value.len);
    return 0;
}

/* --- worker ids --- */

static void put_worker(struct renewing *renewing, struct worker_row *row)
{
    BUF_LOCAL(key);
    BUF_LOCAL(value);

    buf_put_u8(&key, FSM_TABLE_WORKERS);
    worker_key_put(&key, row->id);
    row->state = WORKER_RELEASED;
    row->client = 0; /* counts for the client that acquires it next */
    row->epoch += EPOCHS_AHEAD;
    row->granted_until_ms = later_of(row->granted_until_ms, renewing->now_ms);
    row->updated_ms = later_of(row->updated_ms, renewing->now_ms);
    worker_row_put(&value, row);
    saved_add(&renewing->rows, key.data, key.len, value.data, value.len);
}

static int renew_worker(struct renewing *renewing, const struct saved_row *row)
{
    struct worker_row worker = {0};
    char name[LIMIT_WORKER_NAME_BYTES + 1];
    int err = worker_key_read((const uint8_t *)row->key + 1, row->key_len - 1, &worker.id)
                  ? worker_row_read(saved_value(row), row->value_len, &worker)
                  : ERR_CORRUPT;
    int len;

    if (err != 0) {
        return fail_row(renewing->error, row, err);
    }
    /* Its name becomes free for another worker id: this id's window may end far ahead. */
    len = snprintf(name, sizeof name, "was:%.*s", worker.name_len, worker.name);
    if (len < 0 || (size_t)len >= sizeof name || strncmp(worker.name, "was:", 4) == 0) {
        len = snprintf(name, sizeof name, "restored/%u", worker.id);
    }
    worker.name = name;
    worker.name_len = (uint16_t)len;
    put_worker(renewing, &worker);
    return 0;
}

/* --- settings --- */

#define BIRTH_KEY "s" STATE_SETTING_BIRTH
#define TIME_KEY "s" STATE_SETTING_TIME
#define RULES_KEY "s" FSM_SETTING_WORKERS

static bool is_setting(const struct saved_row *row, const char *key)
{
    return row->key_len == strlen(key) && memcmp(row->key, key, row->key_len) == 0;
}

/* A worker id that is not in the state, and that no row marks as restored, may have been granted
 * since: its first epoch and window are above all it can have had. rules: the old ones. */
static void put_rules(struct renewing *renewing, struct worker_rules rules)
{
    BUF_LOCAL(value);

    rules.epoch += EPOCHS_AHEAD;
    rules.until_ms = later_of(rules.until_ms, renewing->now_ms);
    row_put(&value, &worker_rules_format, &rules);
    saved_add(&renewing->rows, RULES_KEY, strlen(RULES_KEY), value.data, value.len);
}

static int renew_setting(struct renewing *renewing, const struct saved_row *row)
{
    struct worker_rules rules = {0};
    BUF_LOCAL(value);

    if (is_setting(row, BIRTH_KEY)) {
        return 0; /* the old cluster's */
    }
    if (is_setting(row, RULES_KEY)) {
        if (row_read(saved_value(row), row->value_len, &worker_rules_format, &rules)) {
            return fail_row(renewing->error, row, ERR_CORRUPT);
        }
        put_rules(renewing, rules);
    } else if (is_setting(row, TIME_KEY)) {
        facts_time_value(renewing->now_ms, &value);
        put_renewed(renewing, row, value.data, value.len);
    } else {
        put_renewed(renewing, row, saved_value(row), row->value_len);
    }
    return 0;
}

/* --- all of it --- */

/* Rows that the old state may lack; where it has one, the renewed one counts. */
static void put_new_rows(struct renewing *renewing, struct state *before)
{
    /* A new uid, by which it and the old cluster's nodes refuse each other. No first list of
     * members has this digest: a node with an empty directory does not take it for the cluster of
     * its own list. */
    const struct birth birth = {.uid = uid_make(prng_entropy(), prng_entropy()),
                                .list_digest = prng_entropy() | 1,
                                .wall_ms = displayable_ms(renewing->now_ms)};
    struct snowflake_layout layout;
    uint32_t workers = fsm_layout(fsm_of(before), &layout) ? 1u << layout.worker_bits : 0;
    BUF_LOCAL(value);

    renewing->to->uid = birth.uid;
    facts_birth_value(&birth, &value);
    saved_add(&renewing->rows, BIRTH_KEY, strlen(BIRTH_KEY), value.data, value.len);
    if (state_level(before) >= command_since(COMMAND_WORKER_ACQUIRE_OF)) {
        put_rules(renewing, (struct worker_rules){0});
    }
    /* Worker ids that are not in the state may have been granted since. */
    for (uint32_t id = 0; id < workers; id++) {
        char name[sizeof "restored/4294967295"];
        struct worker_row row = {.id = id, .kind = WORKER_CLIENT, .name = name};

        row.name_len = (uint16_t)snprintf(name, sizeof name, "restored/%u", id);
        put_worker(renewing, &row);
    }
}

static int renew_row(struct renewing *renewing, const struct saved_row *row)
{
    switch (row->key[0]) {
    case STATE_TABLE_ADDRESSES:
    case STATE_TABLE_ANSWERS:
    case STATE_TABLE_CUTS:
    case FSM_TABLE_HOLDERS:
    case STATE_TABLE_MEMBERS:
    case STATE_TABLE_NODES:
    case STATE_TABLE_PLACEMENTS:
    case FSM_TABLE_RECALLS:
    case STATE_TABLE_REMOVED:
        return 0; /* the old cluster's */
    case FSM_TABLE_KEYS:
        renewing->to->keys++;
        if (!renewing->options->drop_keys) {
            put_renewed(renewing, row, saved_value(row), row->value_len);
        }
        return 0;
    case FSM_TABLE_LAYOUTS:
        put_renewed(renewing, row, saved_value(row), row->value_len);
        return 0;
    case STATE_TABLE_SETTINGS:
        return renew_setting(renewing, row);
    case FSM_TABLE_TAGS:
        return renew_tag(renewing, row);
    case FSM_TABLE_WORKERS:
        return renew_worker(renewing, row);
    default:
        return fail_row(renewing->error, row, ERR_BAD_VERSION);
    }
}

/* Are the rows a valid state? contradiction: the error's text if they are not together. */
static int load_rows(const struct saved *rows, uint64_t index, const char *contradiction,
                     struct state *state, struct store_error *ret_error)
{
    state_load_begin(state);
    for (size_t i = 0; i < rows->count; i++) {
        const struct saved_row *row = &rows->rows[i];
        int err = state_load_row(
            state, &(struct state_row){row->key, row->key_len, saved_value(row), row->value_len});

        if (err != 0) {
            return fail_row(ret_error, row, err);
        }
    }
    return state_load_end(state, index) == 0
               ? 0
               : store_error_set(ret_error, ERR_CORRUPT, "%s", contradiction);
}

/* The rows are sorted. */
static int put_records(const struct saved *rows, struct renewed *to, struct store_error *ret_error)
{
    for (size_t i = 0; i < rows->count; i++) {
        const struct saved_row *row = &rows->rows[i];

        buf_put_str16(&to->rows, row->key, row->key_len);
        buf_put_str32(&to->rows, saved_value(row), row->value_len);
        to->digest += hash_row(row->key, row->key_len, saved_value(row), row->value_len);
        to->workers += row->key[0] == FSM_TABLE_WORKERS;
    }
    to->row_count = rows->count;
    return store_rows_check(to->rows.data, to->rows.len, to->digest, ret_error);
}

int renew(const struct saved *saved, const struct renew_options *options, uint64_t now_ms,
          struct renewed *ret_renewed, struct store_error *ret_error)
{
    struct renewing renewing = {.options = options,
                                .now_ms = now_ms,
                                .taken_ms = saved->wall_ms,
                                .to = ret_renewed,
                                .zones = zones_new(),
                                .error = ret_error};
    struct state *before = state_new(&fsm_machine);
    struct state *after = state_new(&fsm_machine);
    char now[TEXT_TIME_BYTES];
    char then[TEXT_TIME_BYTES];
    uint64_t at_least;
    int err;

    *ret_renewed = (struct renewed){0};
    err = load_rows(saved, saved->index, "its rows contradict each other", before, ret_error);
    at_least = err == 0 ? later_of(saved->wall_ms, before->facts.log_ms) : 0;
    if (now_ms < at_least) {
        err = store_error_set(ret_error, ERR_CLOCK_BACKWARDS,
                              "this machine's clock says %s, but the state is of %s: set the clock "
                              "right, since no snowflake id may be of a time that is over",
                              text_time_rfc3339(now_ms, now), text_time_rfc3339(at_least, then));
    }
    if (err == 0) {
        put_new_rows(&renewing, before);
    }
    state_free(before); /* a state may be large */
    for (size_t i = 0; i < saved->count && err == 0; i++) {
        err = renew_row(&renewing, &saved->rows[i]);
    }
    if (err == 0) {
        saved_sort(&renewing.rows);
        err = load_rows(&renewing.rows, saved->index,
                        "the new rows contradict each other: this is a bug of leafd", after,
                        ret_error);
    }
    if (err == 0) {
        err = put_records(&renewing.rows, ret_renewed, ret_error);
    }
    state_free(after);
    zones_free(renewing.zones);
    saved_free(&renewing.rows);
    if (err != 0) {
        renewed_release(ret_renewed);
    }
    return err;
}

void renewed_release(struct renewed *renewed)
{
    buf_free(&renewed->rows);
    buf_free(&renewed->tags);
    buf_free(&renewed->limits);
}
