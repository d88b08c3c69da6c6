/*
 * saved.c - see saved.h. Thread: main.
 */
#include "src/app/recovery/saved.h"

#include <stdlib.h>
#include <string.h>

#include "src/base/array.h"
#include "src/base/assert.h"

struct saved_row *saved_add(struct saved *saved, const void *key, size_t key_len, const void *value,
                            size_t value_len)
{
    struct saved_row *row;

    saved->rows = array_room(saved->rows, saved->count, &saved->capacity, sizeof *saved->rows);
    row = &saved->rows[saved->count++];
    *row = (struct saved_row){.key_len = (uint32_t)key_len, .value_len = (uint32_t)value_len};
    row->key = MUST_HAVE(malloc(key_len + value_len));
    ASSERT(key_len > 0);
    memcpy(row->key, key, key_len);
    if (value_len > 0) {
        memcpy(row->key + key_len, value, value_len);
    }
    return row;
}

static int compare_keys(const struct saved_row *a, const struct saved_row *b)
{
    size_t len = a->key_len < b->key_len ? a->key_len : b->key_len;
    int order = memcmp(a->key, b->key, len);

    return order != 0 ? order : (a->key_len > b->key_len) - (a->key_len < b->key_len);
}

/* Rows of one key stay in the order in which they were added. */
static void merge(struct saved_row *rows, size_t left, size_t count, struct saved_row *room)
{
    size_t a = 0;
    size_t b = left;

    for (size_t i = 0; i < count; i++) {
        bool from_left = b == count || (a < left && compare_keys(&rows[a], &rows[b]) <= 0);

        room[i] = from_left ? rows[a] : rows[b];
        a += from_left;
        b += !from_left;
    }
    memcpy(rows, room, count * sizeof *rows);
}

static void sort(struct saved_row *rows, size_t count, struct saved_row *room)
{
    for (size_t width = 1; width < count; width *= 2) {
        for (size_t at = 0; at + width < count; at += 2 * width) {
            size_t both = count - at < 2 * width ? count - at : 2 * width;

            merge(rows + at, width, both, room);
        }
    }
}

void saved_sort(struct saved *saved)
{
    struct saved_row *room = MUST_HAVE(malloc((saved->count + 1) * sizeof *room));
    size_t kept = 0;

    sort(saved->rows, saved->count, room);
    free(room);
    for (size_t i = 0; i < saved->count; i++) {
        struct saved_row *row = &saved->rows[i];
        bool last = i + 1 == saved->count || compare_keys(row, row + 1) != 0;

        if (last && row->value_len > 0) {
            saved->rows[kept++] = *row;
        } else {
            free(row->key);
        }
    }
    saved->count = kept;
}

void saved_free(struct saved *saved)
{
    for (size_t i = 0; i < saved->count; i++) {
        free(saved->rows[i].key);
    }
    free(saved->rows);
    *saved = (struct saved){0};
}
