/*
 * renew.c - see renew.h. Thread: main.
 */
#include "src/app/recovery/renew.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "http/proto/text.h"
#include "src/base/hash.h"
#include "src/base/log.h"
#include "src/base/prng.h"
#include "src/id/codec/tag.h"
#include "src/id/fsm/fsm.h"
#include "src/id/fsm/fsm_birth.h"
#include "src/id/fsm/fsm_journal.h"
#include "src/id/fsm/fsm_settings.h"

/* Epochs of worker ids go up by so many: nobody acquired one so often since, so no holder of the
 * old cluster can be taken for one of the new. */
#define EPOCHS_AHEAD 1048576
/* A rate that was measured over less is not one. */
#define SPAN_MIN_MS 60000
#define WORKER_KEY_BYTES 3
#define SHOWN_BYTES (4 * LIMIT_TAG_NAME_BYTES + 3)

struct renewing {
    const struct options *options;
    uint64_t now_ms;
    struct renewed *to;
    struct fsm *fsm; /* the new state */
    uint32_t worker_count;
    uint32_t worker_next; /* worker ids below it have their rows */
    bool born;
    struct store_error *error;
};

static int fail_row(const struct renewing *renewing, const struct saved_row *row, int err)
{
    char key[128];

    (void)store_key_print(key, sizeof key, row->key, row->key_len);
    return store_error_set(renewing->error, err, "row %s: %s", key, err_text(err));
}

/* A row of the new state. Keys rise. */
static int put(struct renewing *renewing, const void *key, size_t key_len, const void *value,
               size_t value_len)
{
    struct renewed *to = renewing->to;

    buf_put_str16(&to->rows, key, key_len);
    buf_put_str32(&to->rows, value, value_len);
    to->digest += hash_row(key, key_len, value, value_len);
    to->row_count++;
    return fsm_load_row(renewing->fsm, key, key_len, value, value_len);
}

static int keep(struct renewing *renewing, const struct saved_row *row)
{
    int err = put(renewing, row->key, row->key_len, saved_value(row), row->value_len);

    return err == 0 ? 0 : fail_row(renewing, row, err);
}

/* --- tags --- */

static uint64_t times(uint64_t a, uint64_t b)
{
    return b != 0 && a > TAG_MAX_ID_END / b ? TAG_MAX_ID_END : a * b;
}

/* What it would grow by in the time; a quiet tag, too, may have been granted some segments. */
static uint64_t raise_of_time(const struct raise *raise, const struct saved_row *row,
                              uint64_t max_step)
{
    double grown = (double)row->grew * (double)raise->time_ms / (double)row->span_ms;
    uint64_t ids = grown < (double)TAG_MAX_ID_END / 2 ? (uint64_t)grown + 1 : TAG_MAX_ID_END;

    return times(ids > max_step ? ids : max_step, raise->factor);
}

bool renew_raise(const struct raise *raise, const struct saved_row *row, uint64_t max_step,
                 uint64_t *ret_ids)
{
    bool known = row->span_ms >= SPAN_MIN_MS;
    uint64_t by_time = raise->by_time && known ? raise_of_time(raise, row, max_step) : 0;
    uint64_t by_ids = raise->by_ids ? raise->ids : 0;

    *ret_ids = by_ids > by_time ? by_ids : by_time;
    return known || raise->by_ids;
}

/* "order goes on from 2001 (was 1001; raised by 1000)" */
static void tell_tag(struct renewing *renewing, const struct saved_row *row,
                     const struct tag_row *tag, uint64_t was, uint64_t by)
{
    struct buf *text = &renewing->to->tags;
    char shown[SHOWN_BYTES];

    buf_printf(text, "  %s goes on from %" PRIu64 " (was %" PRIu64 ", raised by %" PRIu64,
               log_quote(tag->name, tag->name_len, shown, sizeof shown), tag->max_id, was,
               tag->max_id - was);
    if (renewing->options->raise.by_time && row->span_ms >= SPAN_MIN_MS) {
        buf_printf(text, "; grew by %" PRIu64 " in %" PRIu64 " min", row->grew,
                   row->span_ms / 60000);
    }
    if (tag->max_id - was < by) {
        buf_printf(text, "; NOT by %" PRIu64 ": it ends there, and is exhausted", by);
    }
    buf_printf(text, ")%s\n", tag->deleted ? ", deleted" : "");
}

static int renew_tag(struct renewing *renewing, const struct saved_row *row)
{
    BUF_LOCAL(value);
    struct tag_row tag;
    uint64_t was;
    uint64_t by;
    int err = tag_row_decode((const char *)row->key + 1, row->key_len - 1, saved_value(row),
                             row->value_len, &tag);

    if (err != 0) {
        return fail_row(renewing, row, err);
    }
    if (!renew_raise(&renewing->options->raise, row, tag.max_step, &by)) {
        return store_error_set(renewing->error, ERR_INVALID,
                               "how fast tag \"%.*s\" grew is not known (its node watched for less "
                               "than a minute, or too many tags): give --raise-ids, too",
                               tag.name_len, tag.name);
    }
    was = tag.max_id;
    tag.max_id = by < tag_bound(&tag) - was ? was + by : tag_bound(&tag);
    tag.generation += tag.generation < UINT32_MAX;
    tag.recalling = false;
    renewing->to->tag_count += !tag.deleted;
    renewing->to->clamped += tag.max_id - was < by;
    tell_tag(renewing, row, &tag, was, by);
    row_put(&value, tag_row_format(&tag), &tag);
    err = put(renewing, row->key, row->key_len, value.data, value.len);
    return err == 0 ? 0 : fail_row(renewing, row, err);
}

/* --- worker ids --- */

static int put_worker(struct renewing *renewing, struct worker_row *row)
{
    uint8_t key[WORKER_KEY_BYTES] = {FSM_TABLE_WORKERS, (uint8_t)(row->id >> 8), (uint8_t)row->id};
    BUF_LOCAL(value);
    int err;

    row->state = WORKER_RELEASED;
    row->client = 0; /* whoever acquires it again, it counts for */
    row->epoch += EPOCHS_AHEAD;
    row->granted_until_ms = fsm_later(row->granted_until_ms, renewing->now_ms);
    row->updated_ms = fsm_later(row->updated_ms, renewing->now_ms);
    worker_row_put(&value, row);
    err = put(renewing, key, sizeof key, value.data, value.len);
    renewing->worker_next = row->id + 1u;
    renewing->to->workers++;
    return err == 0
               ? 0
               : store_error_set(renewing->error, err, "worker id %u: %s", row->id, err_text(err));
}

/* Worker ids below this one that the state does not know may have been granted since. */
static int put_unknown_workers(struct renewing *renewing, uint32_t below)
{
    int err = 0;

    while (err == 0 && renewing->worker_next < below) {
        struct worker_row row = {.id = (uint16_t)renewing->worker_next, .kind = WORKER_CLIENT};

        row.name_len = (uint16_t)snprintf(row.name, sizeof row.name, "restored/%u", row.id);
        err = put_worker(renewing, &row);
    }
    return err;
}

/* The name it had is free for another worker id: this one's window may end far ahead. */
static void rename_worker(struct worker_row *row)
{
    char name[sizeof row->name];
    int len = snprintf(name, sizeof name, "was:%.*s", row->name_len, row->name);

    if (len < 0 || (size_t)len >= sizeof name || strncmp(row->name, "was:", 4) == 0) {
        len = snprintf(name, sizeof name, "restored/%u", row->id);
    }
    memset(row->name, 0, sizeof row->name);
    memcpy(row->name, name, (size_t)len);
    row->name_len = (uint16_t)len;
}

static int renew_worker(struct renewing *renewing, const struct saved_row *row)
{
    struct worker_row worker = {0};
    uint16_t id;
    int err;

    if (row->key_len != WORKER_KEY_BYTES) {
        return fail_row(renewing, row, ERR_CORRUPT);
    }
    id = (uint16_t)(row->key[1] << 8 | row->key[2]);
    worker.id = id;
    err = worker_row_read(saved_value(row), row->value_len, &worker);
    if (err != 0) {
        return fail_row(renewing, row, err);
    }
    err = put_unknown_workers(renewing, id < renewing->worker_count ? id : renewing->worker_count);
    if (err != 0) {
        return err;
    }
    rename_worker(&worker);
    return put_worker(renewing, &worker);
}

/* --- settings --- */

static bool is_setting(const struct saved_row *row, const char *name)
{
    return row->key_len == 1 + strlen(name) && memcmp(row->key + 1, name, row->key_len - 1) == 0;
}

static int renew_setting(struct renewing *renewing, const struct saved_row *row)
{
    BUF_LOCAL(value);
    int err;

    if (!is_setting(row, FSM_SETTING_TIME)) {
        return keep(renewing, row);
    }
    fsm_settings_time_value(renewing->now_ms, &value);
    err = put(renewing, row->key, row->key_len, value.data, value.len);
    return err == 0 ? 0 : fail_row(renewing, row, err);
}

/* --- the birth --- */

#define BIRTH_KEY "s" FSM_SETTING_BIRTH

/* The row of the birth of the new cluster, with a uid of its own, by which it and the nodes of the
 * old one refuse each other. No first list of members has its digest: nobody whose directory is
 * empty takes it for the cluster that its list was to begin. */
static int put_birth(struct renewing *renewing)
{
    const struct birth birth = {.uid = uid_make(prng_entropy(), prng_entropy()),
                                .list_digest = prng_entropy() | 1,
                                .wall_ms = fsm_shown_ms(renewing->now_ms)};
    BUF_LOCAL(value);

    fsm_birth_value(&birth, &value);
    renewing->born = true;
    renewing->to->uid = birth.uid;
    return put(renewing, BIRTH_KEY, strlen(BIRTH_KEY), value.data, value.len);
}

/* -1, 0, 1: the row stands before the birth, is that of the old cluster, or behind it. */
static int beside_birth(const struct saved_row *row)
{
    size_t len = strlen(BIRTH_KEY);
    int order = memcmp(row->key, BIRTH_KEY, row->key_len < len ? row->key_len : len);

    if (order != 0) {
        return order < 0 ? -1 : 1;
    }
    return row->key_len < len ? -1 : row->key_len > len;
}

/* --- all of it --- */

static int renew_row(struct renewing *renewing, const struct saved_row *row)
{
    if (!renewing->born && beside_birth(row) >= 0 && put_birth(renewing) != 0) {
        return fail_row(renewing, row, ERR_CORRUPT);
    }
    if (beside_birth(row) == 0) {
        return 0; /* the old cluster's */
    }
    switch (row->key[0]) {
    case FSM_TABLE_ADDRESSES:
    case FSM_TABLE_ANSWERS:
    case FSM_TABLE_HOLDERS:
    case FSM_TABLE_MEMBERS:
    case FSM_TABLE_NODES:
    case FSM_TABLE_RECALLS:
    case FSM_TABLE_REMOVED:
        return 0; /* the old cluster's */
    case FSM_TABLE_KEYS:
        renewing->to->keys++;
        return renewing->options->drop_keys ? 0 : keep(renewing, row);
    case FSM_TABLE_LAYOUTS:
        return keep(renewing, row);
    case FSM_TABLE_SETTINGS:
        return renew_setting(renewing, row);
    case FSM_TABLE_TAGS:
        return renew_tag(renewing, row);
    case FSM_TABLE_WORKERS:
        return renew_worker(renewing, row);
    default:
        return fail_row(renewing, row, ERR_BAD_VERSION);
    }
}

/* The rows as they were must make a state, too; it tells the layout and the log's time. */
static int load_before(const struct saved *saved, struct renewing *renewing, uint64_t *ret_log_ms)
{
    struct snowflake_layout layout;
    struct fsm *fsm = fsm_new();
    int err = 0;

    fsm_load_begin(fsm);
    for (size_t i = 0; i < saved->count && err == 0; i++) {
        const struct saved_row *row = &saved->rows[i];

        err = fsm_load_row(fsm, row->key, row->key_len, saved_value(row), row->value_len);
        err = err == 0 ? 0 : fail_row(renewing, row, err);
    }
    if (err == 0 && fsm_load_end(fsm, saved->index) != 0) {
        err = store_error_set(renewing->error, ERR_CORRUPT, "its rows contradict each other");
    }
    if (err == 0) {
        *ret_log_ms = fsm_log_ms(fsm);
        renewing->worker_count = fsm_layout(fsm, &layout) ? 1u << layout.worker_bits : 0;
    }
    fsm_free(fsm);
    return err;
}

static int check_clock(const struct saved *saved, uint64_t log_ms, uint64_t now_ms,
                       struct store_error *ret_error)
{
    uint64_t at_least = fsm_later(saved->wall_ms, log_ms);
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

static int renew_all(const struct saved *saved, struct renewing *renewing)
{
    uint64_t log_ms = 0;
    int err = load_before(saved, renewing, &log_ms);

    if (err == 0) {
        err = check_clock(saved, log_ms, renewing->now_ms, renewing->error);
    }
    fsm_load_begin(renewing->fsm);
    for (size_t i = 0; i < saved->count && err == 0; i++) {
        err = renew_row(renewing, &saved->rows[i]);
    }
    if (err == 0 && !renewing->born) {
        err = put_birth(renewing);
    }
    if (err == 0) { /* the last table */
        err = put_unknown_workers(renewing, renewing->worker_count);
    }
    if (err == 0 && fsm_load_end(renewing->fsm, saved->index) != 0) {
        err = store_error_set(renewing->error, ERR_CORRUPT,
                              "the new rows contradict each other: this is a bug of leafd");
    }
    return err;
}

int renew(const struct saved *saved, const struct options *options, uint64_t now_ms,
          struct renewed *ret_renewed, struct store_error *ret_error)
{
    struct renewing renewing = {.options = options,
                                .now_ms = now_ms,
                                .to = ret_renewed,
                                .fsm = fsm_new(),
                                .error = ret_error};
    int err;

    *ret_renewed = (struct renewed){0};
    err = renew_all(saved, &renewing);
    fsm_free(renewing.fsm);
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
}
