/*
 * array.c - see array.h. Thread: any.
 */
#include "src/base/array.h"

#include <stdlib.h>

#include "src/base/assert.h"

#define FIRST_ITEMS 16

void *array_room(void *items, size_t count, size_t *capacity, size_t item_bytes)
{
    ASSERT(count <= *capacity && item_bytes > 0);
    if (count < *capacity) {
        return items;
    }
    *capacity = count > 0 ? count + count / 2 + 1 : FIRST_ITEMS;
    items = MUST_HAVE(reallocarray(items, *capacity, item_bytes));
    return items;
}
