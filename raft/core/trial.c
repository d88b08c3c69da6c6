/*
 * trial.c - see trial.h. Thread: the raft loop.
 */
#include "raft/core/trial.h"

#include "src/base/assert.h"

#define LOOK 64 /* rows, then it looks at the clock */

void trial_drop(struct trial *trial)
{
    state_free(trial->state);
    *trial = (struct trial){0};
}

void trial_begin(struct trial *trial, const struct machine_ops *ops, struct level_range speaks,
                 uint64_t state_bytes)
{
    trial_drop(trial);
    trial->state_bytes = state_bytes;
    trial->state = state_new(ops);
    state_speaks(trial->state, speaks);
    state_load_begin(trial->state);
}

static bool is_too_large(const struct trial *trial)
{
    return trial->state_bytes > 0 && state_memory(trial->state) > trial->state_bytes;
}

static void try_row(struct trial *trial, const struct store_row *row)
{
    if (store_rows_checker_add(&trial->rows, row) != 0) {
        trial->bad = true;
    } else if (trial->err == 0) {
        trial->err =
            state_load_row(trial->state, row->key, row->key_len, row->value, row->value_len);
        if (trial->err == 0 && trial->rows.count % LOOK == 0 && is_too_large(trial)) {
            trial->err = ERR_STATE_FULL;
        }
    }
}

bool trial_step(struct trial *trial, const uint8_t *rows, size_t len, bool whole,
                const struct clock *clock)
{
    uint64_t until_ms = clock_now_ms(clock) + TRIAL_MS;
    struct reader reader;
    struct store_row row;

    ASSERT(trial->state != NULL && trial->at <= len);
    reader_init(&reader, rows + trial->at, len - trial->at);
    for (unsigned i = 1; !trial->bad; i++) {
        size_t before = reader.at;

        if (!store_rows_next(&reader, &row)) {
            /* The rest of a row may yet come. */
            trial->bad = len - trial->at - before > (whole ? 0 : LIMIT_ROW_BYTES);
            reader.at = before;
            break;
        }
        try_row(trial, &row);
        if (i % LOOK == 0) {
            clock_look(clock);
            if (clock_now_ms(clock) >= until_ms) {
                trial->at += reader.at;
                return false;
            }
        }
    }
    trial->at += reader.at;
    return true;
}

int trial_end(struct trial *trial, uint64_t digest, uint64_t index, bool *ret_fits)
{
    *ret_fits = !trial->bad && trial->rows.sum == digest;
    if (!*ret_fits) {
        return ERR_CORRUPT;
    }
    if (trial->err == 0) {
        trial->err = state_load_end(trial->state, index);
    }
    /* Rows that mean the same in other bytes are none that an apply has written. */
    if (trial->err == 0 && state_digest(trial->state) != digest) {
        trial->err = ERR_CORRUPT;
    }
    return trial->err;
}

struct state *trial_take(struct trial *trial)
{
    struct state *state = trial->state;

    ASSERT(state != NULL);
    trial->state = NULL;
    return state;
}
