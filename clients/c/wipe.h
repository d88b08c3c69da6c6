/* Memory that is all zeros in a child of fork. So a child cannot hand out what its parent held,
 * however it was forked, and finds out that it is one. Any thread. */
#ifndef LEAFD_CLIENTS_C_WIPE_H
#define LEAFD_CLIENTS_C_WIPE_H

#include <stddef.h>

/* Zeroed pages with room for so many bytes; NULL when there is no memory, or the kernel has no
 * MADV_WIPEONFORK. */
void *wipe_new(size_t bytes);
void wipe_free(void *memory, size_t bytes);
#endif
