/*
 * version.c - which LMDB is loaded; not in store.c, so that a test of src/node can have its own
 * store. Thread: any.
 */
#include <lmdb.h>
#include <stdio.h>

#include "src/base/assert.h"
#include "storage/lmdb/store.h"

const char *store_lmdb_version(void)
{
    static _Thread_local char text[48];
    int major;
    int minor;
    int patch;
    int len;

    (void)mdb_version(&major, &minor, &patch);
    len = snprintf(text, sizeof text, "%d.%d.%d", major, minor, patch);
    ASSERT(len > 0 && len < (int)sizeof text);
    return text;
}
