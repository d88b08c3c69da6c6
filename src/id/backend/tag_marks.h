/*
 * tag_marks.h - which generation the tags have that a change named: told by the node that applied
 * it, and taken over by the node that answers its client, before it does.
 *
 * The node that a change came to learns of its outcome before its own state machine has applied
 * it: it may be a heartbeat behind, or, where the leader does not reach it, as long as that lasts.
 * What it holds of the tags may be of an older generation by then, and nobody may get an id of
 * that once the change is acknowledged. So the answer carries the generations, and the node burns
 * what is older.
 *
 * As bytes: one u32 for each name of the command, in its order; nothing for a command that names no
 * tags, or more of them than are changed in one go.
 *
 * Failure modes: marks that do not fit the command: ERR_BAD_MESSAGE, with nothing taken over.
 *
 * Thread: one owner (the raft loop).
 */
#ifndef LEAFD_ID_BACKEND_TAG_MARKS_H
#define LEAFD_ID_BACKEND_TAG_MARKS_H

#include "src/id/alloc/allocator.h"
#include "src/id/fsm/fsm.h"

#define TAG_MARK_BYTES 4
#define TAG_MARKS_BYTES_MAX (TAG_MARK_BYTES * LIMIT_TAGS_PER_BULK)

/* Append the generations that the tags of a command have now, when it has just been applied. */
void tag_marks_put(const struct fsm *fsm, const void *command, size_t len, struct buf *marks);

/* Burn what this node holds that is older than the marks of its own command. 0 or
 * ERR_BAD_MESSAGE. */
int tag_marks_adopt(struct allocator *allocator, const void *command, size_t len, const void *marks,
                    size_t marks_len) MUST_CHECK;

#endif
