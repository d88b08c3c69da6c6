/*
 * fuzz_restore.c - any rows in a backup whose checksums are right: `leafd restore` refuses them
 * with a reason, or makes a new cluster of them that repeats nothing.
 *
 * The input makes a state by commands; then come changes of its rows, and rows as they are in the
 * input. All of it is written as a backup, with its counts and its digest, read back
 * from a file, and renewed. What was renewed must load, and each tag of it must begin above what it
 * had, under a later generation. The input as it is, as a file, is refused or taken the same way.
 *
 * Thread: one.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "src/base/assert.h"
#include "src/base/hash.h"
#include "src/base/zone.h"
#include "src/id/codec/backup_file.h"
#include "src/id/codec/tag.h"
#include "src/node/recovery/saved.h"
#include "src/node/recovery/tests/recovery_fixture.h"
#include "src/state/journal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

#define COMMANDS_MAX 24
#define RAISE 1000
#define A_BUG "this is a bug of leafd"

static char path[64];

static void remove_file(void)
{
    (void)unlink(path);
}

static void write_file(const struct buf *bytes)
{
    FILE *file;

    if (path[0] == '\0') {
        int fd;

        (void)snprintf(path, sizeof path, "/tmp/leafd-fuzz-XXXXXX");
        fd = mkstemp(path);
        ASSERT(fd >= 0 && close(fd) == 0 && atexit(remove_file) == 0);
    }
    file = fopen(path, "wb");
    ASSERT(file != NULL && fwrite(bytes->data, 1, bytes->len, file) == bytes->len);
    ASSERT(fclose(file) == 0);
}

/* --- the state --- */

/* A tag with a shape of each kind, or without; a name keeps the first. */
static void put_any(struct fixture *fixture, const char *name, uint8_t value)
{
    static const char *const shapes[] = {"",
                                         "D{year}{month}{day@Asia/Tokyo}{id:3}",
                                         "D{year@Europe/Berlin}{month}{day}-{id:4}",
                                         "D{year}{id36:2}",
                                         "K{key}{secret:6}",
                                         "{secret36:8}",
                                         "I{id62}{luhn}",
                                         "D{year}{month}{id:1}"};
    const char *shape = shapes[value % 8];
    static const uint64_t max_ids[] = {1, 2023000, 20231114000, 202311150005, 202311139};

    if (shape[0] == '\0') {
        fixture_put(fixture, name, value + 1u, TAG_MODE_TREND);
    } else {
        fixture_put_shaped(fixture, name, shape, max_ids[value / 8 % 5],
                           shape[0] == 'D' ? TAG_MODE_STRICT : TAG_MODE_TREND);
    }
}

/* Commands over a few names. */
static void make_state(struct fixture *fixture, struct reader *reader)
{
    static const char *const names[] = {"a", "b", "c", "order/item"};
    unsigned count = reader_u8(reader) % COMMANDS_MAX;

    for (unsigned i = 0; i < count && reader_left(reader) > 1; i++) {
        uint8_t kind = reader_u8(reader);
        const char *name = names[kind / 8 % 4];
        uint8_t value = reader_u8(reader);

        switch (kind % 8) {
        case 0:
            fixture_put(fixture, name, TAG_MAX_ID_END - value, TAG_MODE_TREND);
            break;
        case 1:
            fixture_put(fixture, name, value, TAG_MODE_STRICT);
            break;
        case 2:
            fixture_delete(fixture, name);
            break;
        case 3:
        case 4:
            fixture_grant(fixture, name, value + 1u);
            break;
        case 5:
            fixture_strict(fixture, name, value % 9u + 1, "key");
            break;
        case 6:
            fixture_acquire(fixture, name, 1000u * (value + 1u));
            break;
        default:
            put_any(fixture, name, value);
            break;
        }
    }
}

/* Changes of bytes and rows of the input's own, as long as it has any. */
static void change_rows(struct saved *saved, struct reader *reader)
{
    while (reader_left(reader) > 3) {
        uint8_t kind = reader_u8(reader);

        if (kind % 2 == 0 && saved->count > 0) {
            const struct saved_row *row = &saved->rows[reader_u8(reader) % saved->count];
            uint8_t at = reader_u8(reader);

            row->key[at % (row->key_len + row->value_len)] ^= reader_u8(reader);
        } else {
            size_t key_len = 1 + reader_u8(reader) % 16u;
            size_t value_len = 1 + reader_u8(reader) % 64u;

            if (reader_left(reader) < key_len + value_len) {
                return;
            }
            const uint8_t *key = reader_bytes(reader, key_len);

            saved_add(saved, key, key_len, reader_bytes(reader, value_len), value_len);
        }
    }
}

static void put_backup(const struct saved *saved, struct buf *out)
{
    struct backup_head head = {.level = 1,
                               .node_id = saved->node_id,
                               .index = saved->index,
                               .term = 2,
                               .wall_ms = FIXTURE_LOG_MS,
                               .cluster_id = "c-1",
                               .version = "1"};
    const struct backup_growth growth = {1, FIXTURE_LOG_MS, true, 0};
    struct backup_writer writer = {0};
    struct buf records = BUF_INIT;

    for (size_t i = 0; i < saved->count; i++) {
        const struct saved_row *row = &saved->rows[i];

        buf_put_str16(&records, row->key, row->key_len);
        buf_put_u32(&records, row->value_len);
        buf_put(&records, saved_value(row), row->value_len);
        head.digest += hash_row(row->key, row->key_len, saved_value(row), row->value_len);
    }
    backup_put_head(&writer, &head, out);
    backup_growth_begin(&writer, &growth, out);
    backup_growth_end(&writer, out);
    backup_put_rows(&writer, records.data, records.len, saved->count, out);
    backup_put_end(&writer, out);
    buf_free(&records);
}

/* --- what must hold --- */

/* All periods that may have begun are over, or the present one's counter is raised. */
static void check_dated(const struct shape *shape, uint64_t was, uint64_t max_id)
{
    struct zones *zones = zones_new();
    uint64_t local_ms;
    uint64_t first;
    uint64_t end;

    ASSERT(zones_local_ms(zones, shape->date.zone, FIXTURE_NOW_MS, &local_ms));
    zones_free(zones);
    shape_period_ids(shape, was, shape_period((enum date_part)shape->date.unit, local_ms), &first,
                     &end);
    ASSERT(max_id <= end && (max_id == end || max_id == first + RAISE));
}

/* The same key with its ids raised, or one that the old cluster cannot have come to by a change. */
static void check_rekeyable(const struct tag_row *before, const struct tag_row *now)
{
    if (tag_key_number(now) == tag_key_number(before)) {
        ASSERT(tag_key_number(now) + 2 >= SHAPE_KEYS_MAX);
        ASSERT(now->max_id == before->max_id + RAISE || now->max_id == tag_bound(now));
    } else {
        ASSERT(tag_key_number(now) >= tag_key_number(before) + 2);
        ASSERT(memcmp(now->shape, before->shape, before->shape_len) == 0);
    }
}

static void check_tag(struct fsm *fsm, const struct saved_row *row)
{
    struct shape shape;
    const struct tag_row *now;
    struct tag_row before;

    if (row->key[0] != FSM_TABLE_TAGS) {
        return;
    }
    ASSERT(tag_row_decode((const char *)row->key + 1, row->key_len - 1, saved_value(row),
                          row->value_len, &before) == 0);
    now = fsm_tag(fsm, (const char *)row->key + 1, row->key_len - 1);
    ASSERT(now != NULL && now->generation > before.generation && now->deleted == before.deleted);
    ASSERT(now->max_id >= before.max_id);
    if (tag_is_dated(&before)) {
        ASSERT(tag_shape(before.shape, before.shape_len, &shape, NULL) == 0);
        check_dated(&shape, before.max_id, now->max_id);
    } else if (tag_is_rekeyable(&before)) {
        check_rekeyable(&before, now);
    } else {
        ASSERT(now->max_id == before.max_id + RAISE || now->max_id == tag_bound(now));
    }
}

static void check_renewed(const struct saved *saved, const struct renewed *renewed)
{
    struct fsm *fsm = fsm_of(state_new(&fsm_machine));
    struct reader reader;
    struct state_row row;

    state_load_begin(fsm_state(fsm));
    reader_init(&reader, renewed->rows.data, renewed->rows.len);
    while (store_rows_next(&reader, &row)) {
        ASSERT(state_load_row(fsm_state(fsm), &row) == 0);
    }
    ASSERT(reader_done(&reader) && state_load_end(fsm_state(fsm), saved->index) == 0);
    ASSERT(state_digest(fsm_state(fsm)) == renewed->digest);
    for (size_t i = 0; i < saved->count; i++) {
        check_tag(fsm, &saved->rows[i]);
    }
    state_free(fsm_state(fsm));
}

static void restore(const struct buf *file, bool must_read)
{
    const struct renew_options options = {.raise = {.by_ids = true, .ids = RAISE, .factor = 10}};
    struct store_error error = {""};
    struct renewed renewed;
    struct saved saved;
    int rv;

    write_file(file);
    rv = read_backup(path, &saved, &error);
    ASSERT(rv == 0 || (!must_read && error.text[0] != '\0'));
    rv = rv == 0 ? renew(&saved, &options, FIXTURE_NOW_MS, &renewed, &error) : rv;
    if (rv == 0) {
        check_renewed(&saved, &renewed);
        renewed_release(&renewed);
    } else {
        ASSERT(error.text[0] != '\0' && strstr(error.text, A_BUG) == NULL);
    }
    saved_free(&saved);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct fixture fixture;
    struct buf file = BUF_INIT;
    struct reader reader;

    if (len < 2) {
        return 0;
    }
    buf_put(&file, data, len);
    restore(&file, false);
    fixture_begin(&fixture);
    reader_init(&reader, data, len);
    make_state(&fixture, &reader);
    (void)fixture_saved(&fixture);
    change_rows(&fixture.saved, &reader);
    (void)fixture_saved(&fixture); /* changes may have moved keys */
    file.len = 0;
    put_backup(&fixture.saved, &file);
    restore(&file, true);
    fixture_end(&fixture);
    buf_free(&file);
    return 0;
}
