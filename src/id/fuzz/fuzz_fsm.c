/*
 * fuzz_fsm.c - any bytes as committed commands: no entry of the log can stop a node or part two
 * replicas.
 *
 * The first byte says at which level to begin; the others are a list of steps: a command as bytes,
 * a well-formed one made from a seed, the same with a byte changed, one of those that later levels
 * brought or the raise to the next level, or a look at the rows with a byte of one changed. Two
 * state machines apply each command: result, rows and digest must be the same. Every fourth step
 * the second is loaded anew from the rows that were written: it must have the same digest, and go
 * on as the first does. Rows with a changed byte load or are refused, and end nothing. Queries are
 * made of the same bytes as the commands.
 *
 * Thread: one.
 */
#include <string.h>

#include "src/base/assert.h"
#include "src/base/buf.h"
#include "src/base/prng.h"
#include "src/id/fsm/fsm.h"
#include "src/id/tests/id_apply.h"
#include "src/id/tests/id_random.h"
#include "src/id/tests/id_stamp.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

#define ROWS_MAX 512

/* The rows as storage has them. */
struct rows {
    struct kept_row items[ROWS_MAX];
    size_t count;
};

static void keep(struct rows *rows, const struct state_row *change)
{
    struct kept_row *row = rows->items;
    struct kept_row *end = row + rows->count;

    while (row < end && (row->key.len != change->key_len ||
                         memcmp(row->key.data, change->key, change->key_len) != 0)) {
        row++;
    }
    if (row == end) {
        ASSERT(change->value_len > 0 && rows->count < ROWS_MAX);
        *row = (struct kept_row){BUF_INIT, BUF_INIT};
        buf_put(&row->key, change->key, change->key_len);
        rows->count++;
    }
    row->value.len = 0;
    buf_put(&row->value, change->value, change->value_len);
    if (row->value.len == 0) { /* deleted: the last one takes its place */
        buf_free(&row->key);
        buf_free(&row->value);
        *row = rows->items[--rows->count];
    }
}

static void free_rows(struct rows *rows)
{
    for (size_t i = 0; i < rows->count; i++) {
        buf_free(&rows->items[i].key);
        buf_free(&rows->items[i].value);
    }
}

static void expect_equal(const void *a, size_t a_len, const void *b, size_t b_len)
{
    ASSERT(a_len == b_len && (a_len == 0 || memcmp(a, b, a_len) == 0));
}

/* Apply to both; the rows that changed are kept. False if there is no room for more rows, or if the
 * first sees that they differ: there a node ends, and what the command was told is not kept. */
static bool apply(struct fsm *a, struct fsm *b, uint64_t index, const uint8_t *command, size_t len,
                  struct rows *rows)
{
    struct buf results[2] = {BUF_INIT, BUF_INIT};
    struct row_changes changes[2] = {{0}, {0}};
    int rv = state_apply(fsm_state(a), index, 1, command, len, &results[0], &changes[0]);
    int other = state_apply(fsm_state(b), index, 1, command, len, &results[1], &changes[1]);
    bool room = rows->count + changes[0].count <= ROWS_MAX;

    /* A restart forgets older digests, so only the one that did not may see that they differ. */
    ASSERT(rv == other || rv == ERR_DIVERGED);
    ASSERT(rv == 0 || rv == ERR_BAD_MESSAGE || rv == ERR_NEWER || rv == ERR_DIVERGED);
    ASSERT((rv != ERR_BAD_MESSAGE && rv != ERR_NEWER) || changes[0].count == 0);
    ASSERT(changes[0].count == changes[1].count);
    if (rv == other) {
        ASSERT(state_digest(fsm_state(a)) == state_digest(fsm_state(b)));
        expect_equal(results[0].data, results[0].len, results[1].data, results[1].len);
    }
    room = room && rv != ERR_DIVERGED;
    for (size_t i = 0; i < changes[0].count && room; i++) {
        const struct state_row *row = &changes[0].items[i];
        const struct state_row *same = &changes[1].items[i];

        expect_equal(row->key, row->key_len, same->key, same->key_len);
        expect_equal(row->value, row->value_len, same->value, same->value_len);
        keep(rows, row);
    }
    for (unsigned i = 0; i < 2; i++) {
        buf_free(&results[i]);
        row_changes_release(&changes[i]);
    }
    return room;
}

static void reload(struct fsm *fsm, const struct rows *rows, uint64_t index)
{
    state_load_begin(fsm_state(fsm));
    for (size_t i = 0; i < rows->count; i++) {
        const struct kept_row *kept = &rows->items[i];
        const struct state_row row = {kept->key.data, (uint32_t)kept->key.len, kept->value.data,
                                      (uint32_t)kept->value.len};

        ASSERT(state_load_row(fsm_state(fsm), &row) == 0);
    }
    ASSERT(state_load_end(fsm_state(fsm), index) == 0);
}

static void query(struct fsm *fsm, const struct buf *bytes)
{
    struct buf result = BUF_INIT;
    int rv = fsm_query(fsm, bytes->data, bytes->len, &result);

    ASSERT(rv == 0 || rv == ERR_UNKNOWN_TAG || rv == ERR_BAD_MESSAGE);
    buf_free(&result);
}

/* Load the rows with one byte changed, of the key or the value of one of them. */
static void load_damaged(const struct rows *rows, struct reader *reader)
{
    uint16_t at = reader_u16(reader);
    uint8_t change = reader_u8(reader);
    struct fsm *fsm = fsm_of(state_new(&fsm_machine));
    int rv = 0;

    state_load_begin(fsm_state(fsm));
    for (size_t i = 0; i < rows->count && rv == 0; i++) {
        const struct kept_row *row = &rows->items[i];
        struct buf copy = BUF_INIT;

        buf_put(&copy, row->key.data, row->key.len);
        buf_put(&copy, row->value.data, row->value.len);
        if (i == at % rows->count) {
            copy.data[at / rows->count % copy.len] ^= change;
        }
        rv = state_load_row(fsm_state(fsm), &(struct state_row){copy.data, (uint32_t)row->key.len,
                                                                copy.data + row->key.len,
                                                                (uint32_t)row->value.len});
        buf_free(&copy);
    }
    rv = rv == 0 ? state_load_end(fsm_state(fsm), 1) : rv;
    ASSERT(rv == 0 || rv == ERR_CORRUPT || rv == ERR_BAD_VERSION || rv == ERR_TRUNCATED ||
           rv == ERR_EXISTS || rv == ERR_NEWER);
    state_free(fsm_state(fsm));
}

enum step_kind { STEP_BYTES, STEP_MADE, STEP_CHANGED, STEP_DAMAGE, STEP_LATER, STEP_KINDS };

/* What a level later than the first brought; or the raise itself. They are of one node, as most of
 * id_random_command() are of others. */
static void later_command(struct prng *prng, const struct fsm *fsm, uint64_t step,
                          struct buf *command)
{
    bool is_stamped = true;

    switch (prng_below(prng, 10)) {
    case 0:
        cluster_command_put(
            command, COMMAND_LEVEL,
            &(struct level_command){.to = (uint16_t)(state_level(fsm_state(fsm)) + 1),
                                    .wall_ms = step});
        break;
    case 1:
        id_random_bounded_put(prng, command);
        break;
    case 2:
        id_random_shaped_put(prng, command);
        break;
    case 3:
        id_random_for_client(prng, command);
        break;
    case 4:
        id_random_rekeyed_put(prng, command);
        break;
    case 5:
        id_random_layout(prng, command);
        break;
    case 6:
        id_random_dated(prng, fsm, command);
        break;
    default:
        is_stamped = id_random_monotonic(prng, fsm, command);
    }
    if (is_stamped) {
        id_stamp_as(command, 9, 1, step + 1, step + 1);
    }
}

/* The next command. False at the end. */
static bool next_command(struct reader *reader, enum step_kind kind, const struct fsm *fsm,
                         uint64_t step, struct buf *command)
{
    struct prng prng;
    const uint8_t *bytes;
    size_t len;

    if (kind == STEP_BYTES) {
        bytes = reader_str16(reader, &len);
        buf_put(command, bytes, len);
        return !reader->bad;
    }
    prng_seed(&prng, reader_u16(reader));
    if (kind == STEP_LATER) {
        later_command(&prng, fsm, step, command);
    } else {
        id_random_command(&prng, step, command);
    }
    if (kind == STEP_CHANGED) {
        size_t at = reader_u16(reader) % command->len;

        command->data[at] = reader_u8(reader);
    }
    return !reader->bad;
}

/* To this level; returns the index of the last raise. */
static uint64_t raise_both(struct fsm *a, struct fsm *b, uint16_t level, struct rows *rows)
{
    uint64_t index = 0;

    for (uint16_t to = LEVEL_FIRST + 1; to <= level; to++) {
        const struct level_command raise = {.to = to, .wall_ms = 1};
        struct buf command = BUF_INIT;
        bool room;

        cluster_command_put(&command, COMMAND_LEVEL, &raise);
        id_stamp_as(&command, 9, 1, index + 1, index + 1);
        room = apply(a, b, ++index, command.data, command.len, rows);
        ASSERT(room && state_level(fsm_state(a)) == to);
        buf_free(&command);
    }
    return index;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static struct rows rows;
    struct fsm *a = fsm_of(state_new(&fsm_machine));
    struct fsm *b = fsm_of(state_new(&fsm_machine));
    struct buf command = BUF_INIT;
    struct reader reader;
    uint64_t index;
    bool room = true;

    rows.count = 0;
    reader_init(&reader, data, len);
    index = raise_both(a, b, LEVEL_FIRST + reader_u8(&reader) % LEVEL_NEWEST, &rows);
    while (room && reader_left(&reader) > 0) {
        enum step_kind kind = (enum step_kind)(reader_u8(&reader) % STEP_KINDS);

        if (kind == STEP_DAMAGE) {
            load_damaged(&rows, &reader);
            continue;
        }
        command.len = 0;
        if (!next_command(&reader, kind, a, index, &command)) {
            break;
        }
        room = apply(a, b, ++index, command.data, command.len, &rows);
        query(a, &command);
        if (room && index % 4 == 0) {
            reload(b, &rows, index);
            ASSERT(state_digest(fsm_state(a)) == state_digest(fsm_state(b)));
        }
    }
    buf_free(&command);
    free_rows(&rows);
    state_free(fsm_state(a));
    state_free(fsm_state(b));
    return 0;
}
