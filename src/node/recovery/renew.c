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
    struct state *state; /* the new state */
    struct zones *zones;
    uint32_t worker_count;
    uint32_t worker_next; /* worker ids below it have rows already */
    bool born;
    bool ruled; /* the rules for worker ids have a row, or the level has none */
    struct store_error *error;
};

static int fail_row(const struct renewing *renewing, const struct saved_row *row, int err)
{
    char key[128];

    (void)store_key_print(key, sizeof key, row->key, row->key_len);
    return store_error_set(renewing->error, err, "row %s: %s", key, err_text(err));
}

/* A row of the new state. Keys rise. */
static int put_renewed_row(struct renewing *renewing, const void *key, size_t key_len,
                           const void *value, size_t value_len)
{
    struct renewed *to = renewing->to;

    buf_put_str16(&to->rows, key, key_len);
    buf_put_str32(&to->rows, value, value_len);
    to->digest += hash_row(key, key_len, value, value_len);
    to->row_count++;
    return state_load_row(renewing->state, key, key_len, value, value_len);
}

/* The row with another value. */
static int put_renewed(struct renewing *renewing, const struct saved_row *row, const void *value,
                       size_t value_len)
{
    int err = put_renewed_row(renewing, row->key, row->key_len, value, value_len);

    return err == 0 ? 0 : fail_row(renewing, row, err);
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

/* "order continues from 2001 (was 1001, " */
static void put_tag_begin(struct renewing *renewing, const struct tag_row *tag, uint64_t was)
{

    buf_printf(&renewing->to->tags, "  %s continues from %" PRIu64 " (was %" PRIu64 ", ",
               SHOWN(tag), tag->max_id, was);
}

static void put_tag_end(struct renewing *renewing, const struct saved_row *row,
                        const struct tag_row *tag)
{
    struct buf *text = &renewing->to->tags;

    if (renewing->options->raise.by_time && row->span_ms >= SPAN_MIN_MS) {
        buf_printf(text, "; grew by %" PRIu64 " in %" PRIu64 " min", row->grew,
                   row->span_ms / 60000);
    }
    buf_printf(text, ")%s\n", tag->deleted ? ", deleted" : "");
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

static int raise_plain(struct renewing *renewing, const struct saved_row *row, struct tag_row *tag)
{
    uint64_t was = tag->max_id;
    uint64_t by;
    int err = raise_of(renewing, row, tag, &by);

    if (err != 0) {
        return err;
    }
    tag->max_id = by < tag_bound(tag) - was ? was + by : tag_bound(tag);
    put_tag_begin(renewing, tag, was);
    buf_printf(&renewing->to->tags, "raised by %" PRIu64, tag->max_id - was);
    if (tag->max_id - was < by) {
        renewing->to->clamped++;
        buf_printf(&renewing->to->tags, "; NOT by %" PRIu64 ": it ends there, and is exhausted",
                   by);
    }
    put_tag_end(renewing, row, tag);
    return 0;
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
                       const struct shape *shape, struct tag_row *tag)
{
    struct moment now;
    uint64_t was = tag->max_id;
    uint64_t first;
    uint64_t end;
    uint64_t by = 0;
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
    first = first < tag_bound(tag) ? first : tag_bound(tag);
    end = end < tag_bound(tag) ? end : tag_bound(tag);
    err = raise_in_period(renewing, row, shape, tag, &now, end - first, &by);
    if (err != 0) {
        return err;
    }
    tag->max_id = by < end - first ? first + by : end;
    put_tag_begin(renewing, tag, was);
    buf_printf(&renewing->to->tags, "raised by %" PRIu64 " in %" PRIu32, tag->max_id - first,
               now.period);
    if (tag->max_id == end) {
        buf_printf(&renewing->to->tags, "; NOT by %" PRIu64 ": %s", by,
                   end == tag_bound(tag) ? "it ends there, and is exhausted"
                                         : "no number is left until the next period begins");
        buf_printf(&renewing->to->limits,
                   "- %s has no number of %" PRIu32 " left. If you know the last one that was "
                   "given out, set\n  max_id above it, with force=1.\n",
                   SHOWN(tag), now.period);
    }
    put_tag_end(renewing, row, tag);
    return 0;
}

/* --- tags with {key} --- */

/* Its key may have been changed once since. The two clusters draw different keys, so texts of the
 * next key number could repeat: that number is skipped. keys: of TAG_SHAPE_BYTES_MAX. */
static int raise_key(struct renewing *renewing, const struct saved_row *row,
                     const struct shape *shape, struct tag_row *tag, char *keys)
{
    uint8_t number = (uint8_t)(shape->key_count - 1 + KEYS_AHEAD);
    uint64_t was = tag->max_id;
    struct saved_row growth = *row;

    if (number >= SHAPE_KEYS_MAX) {
        uint64_t of_key = was - shape_key_first(shape, shape->key_count - 1U);

        if (shape->key_count < SHAPE_KEYS_MAX) {
            buf_printf(&renewing->to->limits,
                       "- Texts of %s by key %u, the last one: if it was in force, never set it "
                       "here. Take a new name.\n",
                       SHOWN(tag), shape->key_count);
        }
        growth.grew = growth.grew < of_key ? growth.grew : of_key; /* the rest was a jump */
        return raise_plain(renewing, &growth, tag);
    }
    memcpy(keys, tag->shape, tag->shape_len);
    entropy_bytes(keys + tag->shape_len, KEYS_AHEAD * SHAPE_KEY_BYTES);
    tag->shape = keys;
    tag->shape_len = (uint16_t)(tag->shape_len + KEYS_AHEAD * SHAPE_KEY_BYTES);
    tag->max_id = shape_key_first(shape, number);
    tag->max = shape_key_first(shape, number + 1U);
    put_tag_begin(renewing, tag, was);
    buf_printf(&renewing->to->tags, "by key %u: key %u may have been in force since", number,
               number - 1);
    put_tag_end(renewing, row, tag);
    return 0;
}

static int renew_tag(struct renewing *renewing, const struct saved_row *row)
{
    char keys[TAG_SHAPE_BYTES_MAX];
    struct shape shape = {0};
    BUF_LOCAL(value);
    struct tag_row tag;
    int err = tag_row_decode((const char *)row->key + 1, row->key_len - 1, saved_value(row),
                             row->value_len, &tag);

    if (err == 0 && tag.shape_len > 0) {
        err = tag_shape(tag.shape, tag.shape_len, &shape, NULL);
    }
    if (err != 0) {
        return fail_row(renewing, row, err);
    }
    err = shape.date.unit != DATE_NONE ? raise_dated(renewing, row, &shape, &tag)
          : shape.has_key              ? raise_key(renewing, row, &shape, &tag, keys)
                                       : raise_plain(renewing, row, &tag);
    if (err != 0) {
        return err;
    }
    tag.generation += tag.generation < UINT32_MAX - GENERATIONS_AHEAD ? GENERATIONS_AHEAD
                                                                      : tag.generation < UINT32_MAX;
    tag.recalling = false;
    renewing->to->tag_count += !tag.deleted;
    row_put(&value, tag_row_format(&tag), &tag);
    return put_renewed(renewing, row, value.data, value.len);
}

/* --- worker ids --- */

static int put_worker(struct renewing *renewing, struct worker_row *row)
{
    BUF_LOCAL(key);
    BUF_LOCAL(value);
    int err;

    buf_put_u8(&key, FSM_TABLE_WORKERS);
    worker_key_put(&key, row->id);
    row->state = WORKER_RELEASED;
    row->client = 0; /* counts for the client that acquires it next */
    row->epoch += EPOCHS_AHEAD;
    row->granted_until_ms = later_of(row->granted_until_ms, renewing->now_ms);
    row->updated_ms = later_of(row->updated_ms, renewing->now_ms);
    worker_row_put(&value, row);
    err = put_renewed_row(renewing, key.data, key.len, value.data, value.len);
    renewing->worker_next = row->id + 1u;
    renewing->to->workers++;
    return err == 0
               ? 0
               : store_error_set(renewing->error, err, "worker id %u: %s", row->id, err_text(err));
}

/* Worker ids below this one that are not in the state may have been granted since. */
static int put_unknown_workers(struct renewing *renewing, uint32_t below)
{
    int err = 0;

    while (err == 0 && renewing->worker_next < below) {
        struct worker_row row = {.id = renewing->worker_next, .kind = WORKER_CLIENT};

        row.name_len = (uint16_t)snprintf(row.name, sizeof row.name, "restored/%u", row.id);
        err = put_worker(renewing, &row);
    }
    return err;
}

static int renew_worker(struct renewing *renewing, const struct saved_row *row)
{
    struct worker_row worker = {0};
    char name[sizeof worker.name];
    uint32_t id;
    int err;
    int len;

    if (!worker_key_read((const uint8_t *)row->key + 1, row->key_len - 1, &worker.id)) {
        return fail_row(renewing, row, ERR_CORRUPT);
    }
    id = worker.id;
    err = worker_row_read(saved_value(row), row->value_len, &worker);
    if (err != 0) {
        return fail_row(renewing, row, err);
    }
    err = put_unknown_workers(renewing, id < renewing->worker_count ? id : renewing->worker_count);
    if (err != 0) {
        return err;
    }
    /* Its name becomes free for another worker id: this id's window may end far ahead. */
    len = snprintf(name, sizeof name, "was:%.*s", worker.name_len, worker.name);
    if (len < 0 || (size_t)len >= sizeof name || strncmp(worker.name, "was:", 4) == 0) {
        len = snprintf(name, sizeof name, "restored/%u", id);
    }
    memset(worker.name, 0, sizeof worker.name);
    memcpy(worker.name, name, (size_t)len);
    worker.name_len = (uint16_t)len;
    return put_worker(renewing, &worker);
}

/* --- the birth --- */

#define BIRTH_KEY "s" STATE_SETTING_BIRTH
#define TIME_KEY "s" STATE_SETTING_TIME

/* The row of the new cluster's birth, with a new uid, by which it and the old cluster's nodes
 * refuse each other. No first list of members has its digest: a node with an empty directory does
 * not take it for the cluster of its own list. */
static int put_new_birth(struct renewing *renewing)
{
    const struct birth birth = {.uid = uid_make(prng_entropy(), prng_entropy()),
                                .list_digest = prng_entropy() | 1,
                                .wall_ms = displayable_ms(renewing->now_ms)};
    BUF_LOCAL(value);

    facts_birth_value(&birth, &value);
    renewing->born = true;
    renewing->to->uid = birth.uid;
    return put_renewed_row(renewing, BIRTH_KEY, strlen(BIRTH_KEY), value.data, value.len);
}

/* -1, 0, 1: the row comes before this key, is the old cluster's row of this key, or comes after
 * it. */
static int beside_key(const struct saved_row *row, const char *key)
{
    size_t len = strlen(key);
    int order = memcmp(row->key, key, row->key_len < len ? row->key_len : len);

    if (order != 0) {
        return order < 0 ? -1 : 1;
    }
    return row->key_len < len ? -1 : row->key_len > len;
}

/* --- the rules for worker ids --- */

#define RULES_KEY "s" FSM_SETTING_WORKERS

/* A worker id that is not in the state, and that no row marks as restored, may have been granted
 * since: its first epoch and window are above all it can have had. old: the old row, or NULL. */
static int put_rules(struct renewing *renewing, const struct saved_row *old)
{
    struct worker_rules rules = {0};
    BUF_LOCAL(value);

    if (old != NULL && row_read(saved_value(old), old->value_len, &worker_rules_format, &rules)) {
        return fail_row(renewing, old, ERR_CORRUPT);
    }
    rules.epoch += EPOCHS_AHEAD;
    rules.until_ms = later_of(rules.until_ms, renewing->now_ms);
    row_put(&value, &worker_rules_format, &rules);
    renewing->ruled = true;
    return put_renewed_row(renewing, RULES_KEY, strlen(RULES_KEY), value.data, value.len);
}

/* --- all of it --- */

static int renew_row(struct renewing *renewing, const struct saved_row *row)
{
    BUF_LOCAL(value);

    if (!renewing->born && beside_key(row, BIRTH_KEY) >= 0 && put_new_birth(renewing) != 0) {
        return fail_row(renewing, row, ERR_CORRUPT);
    }
    if (beside_key(row, BIRTH_KEY) == 0) {
        return 0; /* the old cluster's */
    }
    if (beside_key(row, RULES_KEY) == 0) {
        return put_rules(renewing, row);
    }
    if (!renewing->ruled && beside_key(row, RULES_KEY) > 0 && put_rules(renewing, NULL) != 0) {
        return fail_row(renewing, row, ERR_CORRUPT);
    }
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
        return renewing->options->drop_keys
                   ? 0
                   : put_renewed(renewing, row, saved_value(row), row->value_len);
    case FSM_TABLE_LAYOUTS:
        return put_renewed(renewing, row, saved_value(row), row->value_len);
    case STATE_TABLE_SETTINGS:
        if (beside_key(row, TIME_KEY) != 0) {
            return put_renewed(renewing, row, saved_value(row), row->value_len);
        }
        facts_time_value(renewing->now_ms, &value);
        return put_renewed(renewing, row, value.data, value.len);
    case FSM_TABLE_TAGS:
        return renew_tag(renewing, row);
    case FSM_TABLE_WORKERS:
        return renew_worker(renewing, row);
    default:
        return fail_row(renewing, row, ERR_BAD_VERSION);
    }
}

/* The old rows must also be a valid state; the layout and the log's time come from it. */
static int load_before(const struct saved *saved, struct renewing *renewing, uint64_t *ret_log_ms)
{
    struct snowflake_layout layout;
    struct state *state = state_new(&fsm_machine);
    int err = 0;

    state_load_begin(state);
    for (size_t i = 0; i < saved->count && err == 0; i++) {
        const struct saved_row *row = &saved->rows[i];

        err = state_load_row(state, row->key, row->key_len, saved_value(row), row->value_len);
        err = err == 0 ? 0 : fail_row(renewing, row, err);
    }
    if (err == 0 && state_load_end(state, saved->index) != 0) {
        err = store_error_set(renewing->error, ERR_CORRUPT, "its rows contradict each other");
    }
    if (err == 0) {
        *ret_log_ms = state->facts.log_ms;
        renewing->ruled = state_level(state) < command_since(COMMAND_WORKER_ACQUIRE_OF);
        renewing->worker_count = fsm_layout(fsm_of(state), &layout) ? 1u << layout.worker_bits : 0;
    }
    state_free(state);
    return err;
}

static int check_clock(const struct saved *saved, uint64_t log_ms, uint64_t now_ms,
                       struct store_error *ret_error)
{
    uint64_t at_least = later_of(saved->wall_ms, log_ms);
    char now[TEXT_TIME_BYTES];
    char then[TEXT_TIME_BYTES];

    if (now_ms >= at_least) {
        return 0;
    }
    return store_error_set(ret_error, ERR_CLOCK_BACKWARDS,
                           "this machine's clock says %s, but the state is of %s: set the clock "
                           "right, since no snowflake id may be of a time that is over",
                           text_time_rfc3339(now_ms, now), text_time_rfc3339(at_least, then));
}

int renew(const struct saved *saved, const struct renew_options *options, uint64_t now_ms,
          struct renewed *ret_renewed, struct store_error *ret_error)
{
    struct renewing renewing = {.options = options,
                                .now_ms = now_ms,
                                .taken_ms = saved->wall_ms,
                                .to = ret_renewed,
                                .state = state_new(&fsm_machine),
                                .zones = zones_new(),
                                .error = ret_error};
    uint64_t log_ms = 0;
    int err;

    *ret_renewed = (struct renewed){0};
    err = load_before(saved, &renewing, &log_ms);
    if (err == 0) {
        err = check_clock(saved, log_ms, now_ms, ret_error);
    }
    state_load_begin(renewing.state);
    for (size_t i = 0; i < saved->count && err == 0; i++) {
        err = renew_row(&renewing, &saved->rows[i]);
    }
    if (err == 0 && !renewing.born) {
        err = put_new_birth(&renewing);
    }
    if (err == 0 && !renewing.ruled) {
        err = put_rules(&renewing, NULL);
    }
    if (err == 0) { /* the last table */
        err = put_unknown_workers(&renewing, renewing.worker_count);
    }
    if (err == 0 && state_load_end(renewing.state, saved->index) != 0) {
        err = store_error_set(ret_error, ERR_CORRUPT,
                              "the new rows contradict each other: this is a bug of leafd");
    }
    state_free(renewing.state);
    zones_free(renewing.zones);
    if (err == 0) {
        err = store_rows_check(ret_renewed->rows.data, ret_renewed->rows.len, ret_renewed->digest,
                               ret_error);
    }
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
