/*
 * array.h - arrays that grow: room for one item more.
 *
 * Large blocks are moved by the kernel (mremap), not copied, and what is beyond the last item takes
 * no memory yet. Lack of memory ends the process (ASSERT). Thread: any.
 */
#ifndef LEAFD_BASE_ARRAY_H
#define LEAFD_BASE_ARRAY_H

#include <stddef.h>

/* The items, moved if need be, with room for at least one more than count. *capacity counts items;
 * 0 with NULL for an array that is empty. */
void *array_room(void *items, size_t count, size_t *capacity, size_t item_bytes);

#endif
