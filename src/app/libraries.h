/*
 * libraries.h - which versions of which libraries this process runs with. Thread: any.
 */
#ifndef LEAFD_APP_LIBRARIES_H
#define LEAFD_APP_LIBRARIES_H

#include "src/base/buf.h"

/* Append {"libuv":"1.44.2",...}: the versions loaded, not those compiled against, where a library
 * says. */
void libraries_json(struct buf *out);

#endif
