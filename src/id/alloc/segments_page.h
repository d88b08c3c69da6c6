/*
 * segments_page.h - the bytes of a page of buffers (id_segments_page): what one node tells another
 * of what it holds in memory.
 *
 * They are for people to look at; no id is ever handed out by them. Little-endian, a part of
 * FRAME_BUFFERS (raft/wire/wire.h), whose golden bytes include them.
 *
 * Failure modes: a page of another node may say anything. What cannot be shown is refused: names
 * that are none, out of order or twice, more ids left than a segment had, too many tags.
 *
 * Thread: pure functions, any.
 */
#ifndef LEAFD_ID_ALLOC_SEGMENTS_PAGE_H
#define LEAFD_ID_ALLOC_SEGMENTS_PAGE_H

#include "src/id/alloc/id_table.h"

/* At most LIMIT_TAGS_PER_PAGE items. */
void segments_page_put(struct buf *buf, const struct id_segments_page *page);

/* 0, and the items are the caller's; or ERR_BAD_MESSAGE, and there are none. */
int segments_page_read(const void *data, size_t len, struct id_segments_page *ret_page) MUST_CHECK;

#endif
