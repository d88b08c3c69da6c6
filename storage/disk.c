/*
 * disk.c - see disk.h. Thread: the store's.
 */
#include "storage/disk.h"

void disk_read_run(struct disk_read *read, struct store *store, size_t max_bytes)
{
    read->status = 0;
    if (read->snapshot == NULL) {
        struct store_position position;

        read->status = store->ops->snapshot_open(store, &read->snapshot, &position);
        if (read->status != 0) {
            read->snapshot = NULL;
            return;
        }
        store_position_copy(&read->position, &position);
    }
    if (max_bytes > 0) {
        read->status =
            store->ops->snapshot_read(store, read->snapshot, max_bytes, &read->chunk, &read->end);
    }
    if (read->close) {
        store->ops->snapshot_close(store, read->snapshot);
        read->snapshot = NULL;
    }
}

void disk_read_forget(struct disk_read *read)
{
    store_position_release(&read->position);
    buf_free(&read->chunk);
    *read = (struct disk_read){0};
}
