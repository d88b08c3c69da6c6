/*
 * store_meta.c - see store_meta.h. Thread: one owner each.
 */
#include "storage/store_meta.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/assert.h"
#include "src/base/hash.h"

void store_meta_init(struct store_meta *meta)
{
    memset(meta, 0, sizeof *meta);
    meta->first_index = 1;
}

void store_meta_copy(struct store_meta *ret_meta, const struct store_meta *from)
{
    *ret_meta = *from;
    store_position_copy(&ret_meta->position, &from->position);
    for (unsigned i = 0; i < LIMIT_LOCAL_RECORDS; i++) {
        if (from->locals[i] != NULL) {
            from->locals[i]->refs++;
        }
    }
}

/* Accepts NULL. */
static void local_unref(struct store_local *local)
{
    if (local != NULL && --local->refs == 0) {
        free(local);
    }
}

void store_meta_release(struct store_meta *meta)
{
    store_position_release(&meta->position);
    for (unsigned i = 0; i < LIMIT_LOCAL_RECORDS; i++) {
        local_unref(meta->locals[i]);
    }
    memset(meta, 0, sizeof *meta);
}

void store_local_set(struct store_local **local, const void *data, uint32_t len)
{
    struct store_local *made = MUST_HAVE(malloc(sizeof *made + len));

    ASSERT(len >= 1 && len <= LIMIT_LOCAL_RECORD_BYTES);
    made->refs = 1;
    made->len = len;
    made->checksum = hash_crc32c(data, len);
    memcpy(made->data, data, len);
    local_unref(*local);
    *local = made;
}

void store_meta_load(const struct store_meta *meta, struct store_loaded *ret_loaded)
{
    ret_loaded->term = meta->term;
    ret_loaded->vote = meta->vote;
    ret_loaded->first_index = meta->first_index;
    store_position_copy(&ret_loaded->position, &meta->position);
    for (unsigned i = 0; i < LIMIT_LOCAL_RECORDS; i++) {
        ASSERT(ret_loaded->locals[i].len == 0);
        if (meta->locals[i] != NULL) {
            buf_put(&ret_loaded->locals[i], meta->locals[i]->data, meta->locals[i]->len);
        }
    }
}

uint64_t store_meta_compact(struct store_meta *meta)
{
    uint64_t count = 0;

    if (meta->compact_to > meta->first_index) {
        count = meta->compact_to - meta->first_index;
        count = count < LIMIT_COMPACT_PER_COMMIT ? count : LIMIT_COMPACT_PER_COMMIT;
        meta->first_index += count;
    }
    if (meta->compact_to <= meta->first_index) {
        meta->compact_to = 0;
    }
    ASSERT(meta->first_index <= meta->position.index + 1);
    return count;
}

/* ERR_CORRUPT: what does not fit, its number and term, and all that the rules look at. */
static int misfit(const struct store_meta *meta, const char *what, uint64_t number, uint64_t term,
                  struct store_error *ret_error)
{
    const struct store_position *position = &meta->position;

    return store_error_set(
        ret_error, ERR_CORRUPT,
        "%s %" PRIu64 ", term %" PRIu64 ": the log is [%" PRIu64 ", %" PRIu64 "] of term %" PRIu64
        ", the state at index %" PRIu64 " of term %" PRIu64 " with the configuration of %" PRIu64
        ", the hard state of term %" PRIu64 " with a vote for %" PRIu64,
        what, number, term, meta->first_index, meta->last_index, meta->last_term, position->index,
        position->term, position->conf_index, meta->term, meta->vote);
}

int store_meta_verify(const struct store_meta *meta, struct store_error *ret_error)
{
    const struct store_position *position = &meta->position;

    if (meta->first_index == 0 || meta->last_index < meta->first_index - 1) {
        return misfit(meta, "a log that ends at", meta->last_index, meta->last_term, ret_error);
    }
    if (position->index > meta->last_index) {
        return misfit(meta, "the log was shortened: it ends at", meta->last_index, meta->last_term,
                      ret_error);
    }
    if (position->index < meta->first_index - 1) {
        return misfit(meta, "entries are missing after", position->index, position->term,
                      ret_error);
    }
    if (meta->last_term > meta->term || position->term > meta->last_term) {
        return misfit(meta, "terms fall: entry", meta->last_index, meta->last_term, ret_error);
    }
    if (position->conf_index > position->index) {
        return misfit(meta, "the configuration is newer than the state, of", position->conf_index,
                      position->term, ret_error);
    }
    return 0;
}

int store_meta_verify_digest(const struct store_position *position, uint64_t rows_digest,
                             struct store_error *ret_error)
{
    if (rows_digest == position->digest) {
        return 0;
    }
    return store_error_set(ret_error, ERR_CORRUPT,
                           "state at index %" PRIu64 ": the rows' digest is %016" PRIx64
                           ", the position's is %016" PRIx64,
                           position->index, rows_digest, position->digest);
}

static int step_local(struct store_meta *meta, const struct store_op *op,
                      struct store_error *ret_error)
{
    if (op->local_key >= LIMIT_LOCAL_RECORDS || op->local_len == 0 ||
        op->local_len > LIMIT_LOCAL_RECORD_BYTES) {
        return store_error_set(ret_error, ERR_CORRUPT,
                               "local record %" PRIu32 " of %" PRIu32 " bytes: at most number %d, "
                               "1 to %d bytes",
                               op->local_key, op->local_len, LIMIT_LOCAL_RECORDS - 1,
                               LIMIT_LOCAL_RECORD_BYTES);
    }
    store_local_set(&meta->locals[op->local_key], op->local, op->local_len);
    return 0;
}

static int step_hard_state(struct store_meta *meta, const struct store_op *op,
                           struct store_error *ret_error)
{
    if (op->term < (op->lower ? meta->last_term : meta->term)) {
        return misfit(meta, "hard state: an older term with a vote for", op->vote, op->term,
                      ret_error);
    }
    if (op->term == meta->term && meta->vote != 0 && op->vote != meta->vote && !op->lower) {
        return misfit(meta, "hard state: a second vote, for", op->vote, op->term, ret_error);
    }
    meta->term = op->term;
    meta->vote = op->vote;
    return 0;
}

/* The term of the entry before `index`, where index is in [position.index + 1, last_index + 1]. */
static int term_before(const struct store_meta *meta, uint64_t index, store_term_fn term_fn,
                       void *engine, uint64_t *ret_term, struct store_error *ret_error)
{
    if (index == meta->last_index + 1) {
        *ret_term = meta->last_term;
        return 0;
    }
    if (index == meta->first_index) {
        ASSERT(meta->position.index == index - 1);
        *ret_term = meta->position.term;
        return 0;
    }
    return term_fn(engine, index - 1, ret_term, ret_error);
}

static int step_append(struct store_meta *meta, const struct store_op *op, store_term_fn term_fn,
                       void *engine, struct store_error *ret_error)
{
    uint64_t term = 0;
    int err;

    if (op->index < meta->first_index || op->index > meta->last_index + 1 ||
        op->index <= meta->position.index) {
        return misfit(meta, "append at index", op->index, 0, ret_error);
    }
    err = term_before(meta, op->index, term_fn, engine, &term, ret_error);
    if (err != 0) {
        return err;
    }
    for (uint32_t i = 0; i < op->entry_count; i++) {
        const struct store_entry *entry = &op->entries[i];

        ASSERT(entry->len <= LIMIT_ENTRY_BYTES && entry->type >= 1 && entry->type <= 3);
        ASSERT(entry->data != NULL || entry->len == 0);
        if (entry->term == 0 || entry->term < term || entry->term > meta->term) {
            return misfit(meta, "append: terms fall with entry", op->index + i, entry->term,
                          ret_error);
        }
        term = entry->term;
    }
    meta->last_index = op->index + op->entry_count - 1;
    meta->last_term = term;
    return 0;
}

/* Rules that APPLY and INSTALL share; then the meta takes the position. */
static int set_position(struct store_meta *meta, const struct store_op *op,
                        struct store_error *ret_error)
{
    const struct store_position *to = &op->position;
    const struct store_position *from = &meta->position;

    ASSERT(to->conf_len <= LIMIT_CONF_BYTES);
    ASSERT(to->conf != NULL || to->conf_len == 0);
    if (to->index < from->index || to->term < from->term || to->conf_index < from->conf_index) {
        return misfit(meta, "the state goes back to", to->index, to->term, ret_error);
    }
    if (to->term > meta->term || to->conf_index > to->index) {
        return misfit(meta, "the state is newer than its term or configuration at", to->index,
                      to->term, ret_error);
    }
    store_position_release(&meta->position);
    store_position_copy(&meta->position, to);
    return 0;
}

static int step_apply(struct store_meta *meta, const struct store_op *op, store_term_fn term_fn,
                      void *engine, struct store_error *ret_error)
{
    const struct store_position *to = &op->position;
    uint64_t term = meta->position.term;
    int err = 0;

    if (to->index > meta->last_index) {
        return misfit(meta, "apply beyond the log, at", to->index, to->term, ret_error);
    }
    if (to->index >= meta->first_index) {
        err = term_fn(engine, to->index, &term, ret_error);
    }
    if (err != 0) {
        return err;
    }
    if (to->term != term) {
        return misfit(meta, "apply of another term than the log's entry, at", to->index, to->term,
                      ret_error);
    }
    for (uint32_t i = 0; i < op->row_count; i++) {
        ASSERT(op->rows[i].key_len >= 1 && op->rows[i].key_len <= LIMIT_ROW_KEY_BYTES);
        ASSERT(op->rows[i].value_len <= LIMIT_ROW_VALUE_BYTES);
        ASSERT((op->rows[i].value == NULL) == (op->rows[i].value_len == 0));
    }
    return set_position(meta, op, ret_error);
}

static int step_install(struct store_meta *meta, const struct store_op *op,
                        struct store_error *ret_error)
{
    int err = set_position(meta, op, ret_error);

    if (err != 0) {
        return err;
    }
    meta->first_index = op->position.index + 1;
    meta->last_index = op->position.index;
    meta->last_term = op->position.term;
    meta->compact_to = 0;
    return 0;
}

static int step_compact(struct store_meta *meta, const struct store_op *op,
                        struct store_error *ret_error)
{
    if (op->index > meta->position.index + 1) {
        return misfit(meta, "compact of what is not applied, below", op->index, 0, ret_error);
    }
    if (op->index > meta->compact_to) {
        meta->compact_to = op->index;
    }
    return 0;
}

int store_meta_step(struct store_meta *meta, const struct store_op *op, store_term_fn term_fn,
                    void *engine, struct store_error *ret_error)
{
    switch (op->kind) {
    case STORE_HARD_STATE:
        return step_hard_state(meta, op, ret_error);
    case STORE_APPEND:
        return step_append(meta, op, term_fn, engine, ret_error);
    case STORE_APPLY:
        return step_apply(meta, op, term_fn, engine, ret_error);
    case STORE_INSTALL:
        return step_install(meta, op, ret_error);
    case STORE_COMPACT:
        return step_compact(meta, op, ret_error);
    case STORE_LOCAL:
        return step_local(meta, op, ret_error);
    case STORE_READ:
        break;
    }
    UNREACHABLE("kind of a store operation");
}
