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

#include "src/base/array.h"
#include "src/base/assert.h"
#include "src/base/hash.h"

int store_error_of(int number)
{
    switch (number) {
    case ENOSPC:
    case EDQUOT:
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

int store_error_no_row(struct store_error *ret_error, const struct store_row *row)
{
    char text[96];

    (void)store_key_print(text, sizeof text, row->key, row->key_len);
    return store_error_set(ret_error, ERR_CORRUPT, "apply: row %s is deleted, but is not there",
                           text);
}

bool store_key_less(const void *a, size_t a_len, const void *b, size_t b_len)
{
    int order = memcmp(a, b, a_len < b_len ? a_len : b_len);

    return order < 0 || (order == 0 && a_len < b_len);
}

/* An array of a damaged meta's size is never asked for. */
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

bool store_rows_next(struct reader *reader, struct store_row *ret_row)
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

int store_rows_checker_add(struct store_rows_checker *checker, const struct store_row *row)
{
    if (checker->count > 0 &&
        !store_key_less(checker->last, checker->last_len, row->key, row->key_len)) {
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
    struct store_row row;
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
