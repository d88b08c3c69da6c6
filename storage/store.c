/*
 * store.c - what both engines of store.h share: errors, the order of keys, ownership of loaded
 * data, the stream of rows. Thread: as store.h.
 */
#include "storage/store.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/assert.h"
#include "src/base/buf.h"
#include "src/base/hash.h"

int store_error_of(int number)
{
    switch (number) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG: /* RLIMIT_FSIZE */
        return ERR_DISK_FULL;
    case ENOMEM:
    case EMFILE:
    case ENFILE:
    case EAGAIN: /* fork() */
        return ERR_NOMEM;
    default:
        return ERR_IO;
    }
}

int store_error_set(struct store_error *ret_error, int err, const char *format, ...)
{
    va_list args;

    ASSERT(err != 0);
    va_start(args, format);
    (void)vsnprintf(ret_error->text, sizeof ret_error->text, format, args);
    va_end(args);
    return err;
}

size_t store_key_print(char *text, size_t size, const void *key, size_t key_len)
{
    const uint8_t *bytes = key;
    size_t at = 0;

    text[0] = '\0';
    for (size_t i = 0; i < key_len && at + 5 < size; i++) {
        bool plain = bytes[i] > ' ' && bytes[i] < 0x7f;

        at += (size_t)snprintf(text + at, size - at, plain ? "%c" : "\\x%02x", bytes[i]);
    }
    return at;
}

int store_error_no_row(struct store_error *ret_error, const struct state_row *row)
{
    char text[96];

    (void)store_key_print(text, sizeof text, row->key, row->key_len);
    return store_error_set(ret_error, ERR_CORRUPT, "apply: row %s is deleted, but is not there",
                           text);
}

int store_key_compare(const void *a, size_t a_len, const void *b, size_t b_len)
{
    int order = memcmp(a, b, a_len < b_len ? a_len : b_len);

    return order != 0 ? order : (a_len > b_len) - (a_len < b_len);
}

/* The array grows by need: a damaged meta cannot make it huge. */
void store_loaded_add(struct store_loaded *loaded, const struct store_entry *entry)
{
    void *copy = MUST_HAVE(malloc((size_t)entry->len + 1));

    ASSERT(entry->len <= LIMIT_ENTRY_BYTES && entry->type >= 1 && entry->type <= 3);
    if (entry->len > 0) {
        memcpy(copy, entry->data, entry->len);
    }
    loaded->entries = array_room(loaded->entries, loaded->entry_count, &loaded->entry_capacity,
                                 sizeof *loaded->entries);
    loaded->entries[loaded->entry_count] = *entry;
    loaded->entries[loaded->entry_count++].data = copy;
}

void store_loaded_release(struct store_loaded *loaded)
{
    for (size_t i = 0; i < loaded->entry_count; i++) {
        free((void *)(uintptr_t)loaded->entries[i].data);
    }
    free(loaded->entries);
    store_position_release(&loaded->position);
    for (unsigned i = 0; i < LIMIT_LOCAL_RECORDS; i++) {
        buf_free(&loaded->locals[i]);
    }
    memset(loaded, 0, sizeof *loaded);
}

void store_position_copy(struct store_position *ret_position, const struct store_position *from)
{
    void *conf = NULL;

    if (from->conf_len > 0) {
        conf = MUST_HAVE(malloc(from->conf_len));
        memcpy(conf, from->conf, from->conf_len);
    }
    *ret_position = *from;
    ret_position->conf = conf;
}

void store_position_release(struct store_position *position)
{
    free((void *)(uintptr_t)position->conf);
    memset(position, 0, sizeof *position);
}

int store_settle(struct store *store, struct store_error *ret_error)
{
    struct store_op_list nothing = STAILQ_HEAD_INITIALIZER(nothing);
    int err = 0;

    while (store->owes && err == 0) {
        err = store->ops->commit(store, &nothing, ret_error);
    }
    return err;
}

bool store_rows_next(struct reader *reader, struct state_row *ret_row)
{
    size_t key_len;
    size_t value_len;

    if (reader_left(reader) == 0) {
        return false;
    }
    ret_row->key = reader_str16(reader, &key_len);
    ret_row->value = reader_str32(reader, &value_len);
    if (key_len == 0 || key_len > LIMIT_ROW_KEY_BYTES || value_len == 0 ||
        value_len > LIMIT_ROW_VALUE_BYTES) {
        reader->bad = true;
    }
    ret_row->key_len = (uint32_t)key_len;
    ret_row->value_len = (uint32_t)value_len;
    return !reader->bad;
}

int store_rows_checker_add(struct store_rows_checker *checker, const struct state_row *row)
{
    if (checker->count > 0 &&
        store_key_compare(checker->last, checker->last_len, row->key, row->key_len) >= 0) {
        return ERR_CORRUPT;
    }
    ASSERT(row->key_len <= sizeof checker->last);
    checker->sum += hash_row(row->key, row->key_len, row->value, row->value_len);
    checker->count++;
    checker->last_len = row->key_len;
    memcpy(checker->last, row->key, row->key_len);
    return 0;
}

int store_rows_check(const void *stream, size_t len, uint64_t digest, struct store_error *ret_error)
{
    struct reader reader;
    struct state_row row;
    struct store_rows_checker checker = {0};

    reader_init(&reader, stream, len);
    while (store_rows_next(&reader, &row)) {
        if (store_rows_checker_add(&checker, &row) != 0) {
            return store_error_set(ret_error, ERR_CORRUPT,
                                   "stream of rows: row %" PRIu64 " is out of order",
                                   checker.count);
        }
    }
    if (!reader_done(&reader)) {
        return store_error_set(ret_error, ERR_CORRUPT,
                               "stream of rows: no row after row %" PRIu64 ", at byte %zu of %zu",
                               checker.count, reader.at, len);
    }
    if (checker.sum != digest) {
        return store_error_set(ret_error, ERR_CORRUPT,
                               "stream of rows: digest is %016" PRIx64 ", expected %016" PRIx64,
                               checker.sum, digest);
    }
    return 0;
}

/* --- store_meta --- */

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

/* ERR_CORRUPT: the misfit, its number and term, and all values that the rules compare. */
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

static int step_append(struct store_meta *meta, const struct store_op *op, store_term_fn term_fn,
                       void *engine, struct store_error *ret_error)
{
    uint64_t term = meta->last_term; /* of the entry before */
    int err = 0;

    if (op->index < meta->first_index || op->index > meta->last_index + 1 ||
        op->index <= meta->position.index) {
        return misfit(meta, "append at index", op->index, 0, ret_error);
    }
    if (op->index <= meta->last_index && op->index == meta->first_index) {
        ASSERT(meta->position.index == op->index - 1);
        term = meta->position.term;
    } else if (op->index <= meta->last_index) {
        err = term_fn(engine, op->index - 1, &term);
    }
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
        err = term_fn(engine, to->index, &term);
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

int store_meta_step(struct store_meta *meta, const struct store_op *op, store_term_fn term_fn,
                    void *engine, struct store_error *ret_error)
{
    int err;

    switch (op->kind) {
    case STORE_HARD_STATE:
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
    case STORE_APPEND:
        return step_append(meta, op, term_fn, engine, ret_error);
    case STORE_APPLY:
        return step_apply(meta, op, term_fn, engine, ret_error);
    case STORE_INSTALL:
        err = set_position(meta, op, ret_error);
        if (err == 0) {
            meta->first_index = op->position.index + 1;
            meta->last_index = op->position.index;
            meta->last_term = op->position.term;
            meta->compact_to = 0;
        }
        return err;
    case STORE_COMPACT:
        if (op->index > meta->position.index + 1) {
            return misfit(meta, "compact of what is not applied, below", op->index, 0, ret_error);
        }
        meta->compact_to = op->index > meta->compact_to ? op->index : meta->compact_to;
        return 0;
    case STORE_LOCAL:
        if (op->local_key >= LIMIT_LOCAL_RECORDS || op->local_len == 0 ||
            op->local_len > LIMIT_LOCAL_RECORD_BYTES) {
            return store_error_set(
                ret_error, ERR_CORRUPT,
                "local record %" PRIu32 " of %" PRIu32 " bytes: at most number %d, 1 to %d bytes",
                op->local_key, op->local_len, LIMIT_LOCAL_RECORDS - 1, LIMIT_LOCAL_RECORD_BYTES);
        }
        store_local_set(&meta->locals[op->local_key], op->local, op->local_len);
        return 0;
    case STORE_READ:
        break;
    }
    UNREACHABLE("kind of a store operation");
}
