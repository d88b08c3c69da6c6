/*
 * tag_marks.h - which generation the tags have that a change named: written down by the node that
 * applied it (fsm_tag_marks()), and taken over by the node that answers its client, before it does
 * (allocator_take_marks()).
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
 * Thread: pure functions, any.
 */
#ifndef LEAFD_ID_CODEC_TAG_MARKS_H
#define LEAFD_ID_CODEC_TAG_MARKS_H

#include "src/id/codec/command.h"

#define TAG_MARK_BYTES 4
#define TAG_MARKS_BYTES_MAX (TAG_MARK_BYTES * LIMIT_TAGS_PER_BULK)

/* The names of a command that have marks, one by one. */
struct tag_names {
    uint32_t left;
    struct command of;
};

/* Begin with the first; left is 0 for a command that has no marks. The command must outlive it. */
void tag_names_begin(struct tag_names *names, const void *command, size_t len);
/* The next name; false after the last. */
bool tag_names_next(struct tag_names *names, const char **ret_name, size_t *ret_len) MUST_CHECK;

#endif
