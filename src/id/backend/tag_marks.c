/*
 * tag_marks.c - see tag_marks.h. Thread: one owner (the raft loop).
 */
#include "src/id/backend/tag_marks.h"

#include "src/base/assert.h"
#include "src/id/codec/command_read.h"

/* The names of a command, one by one. */
struct names {
    uint32_t left;
    bool is_put;
    struct put_command put;
    struct delete_command deletion;
};

static void names_read(struct names *names, const void *command, size_t len)
{
    int type = command_type(command, len);

    *names = (struct names){0};
    if (type == COMMAND_TAGS_PUT && put_command_read(command, len, &names->put) == 0 &&
        names->put.count <= LIMIT_TAGS_PER_BULK) {
        names->is_put = true;
        names->left = names->put.count;
    } else if (type == COMMAND_TAG_DELETE &&
               delete_command_read(command, len, &names->deletion) == 0) {
        names->left = 1;
    }
}

/* The next name; false after the last. */
static bool names_next(struct names *names, const char **ret_name, size_t *ret_len)
{
    struct tag_put put;

    if (names->left == 0) {
        return false;
    }
    names->left--;
    if (names->is_put) {
        bool there = put_command_next(&names->put, &put);

        ASSERT(there);
        *ret_name = put.name;
        *ret_len = put.name_len;
    } else {
        *ret_name = names->deletion.name;
        *ret_len = names->deletion.name_len;
    }
    return true;
}

void tag_marks_put(const struct fsm *fsm, const void *command, size_t len, struct buf *marks)
{
    struct names names;
    const char *name;
    size_t name_len;

    names_read(&names, command, len);
    buf_reserve(marks, (size_t)names.left * TAG_MARK_BYTES);
    while (names_next(&names, &name, &name_len)) {
        const struct tag_row *row = fsm_tag(fsm, name, name_len);

        buf_put_u32(marks, row != NULL ? row->generation : 0);
    }
}

int tag_marks_adopt(struct allocator *allocator, const void *command, size_t len, const void *marks,
                    size_t marks_len)
{
    struct names names;
    struct reader reader;
    const char *name;
    size_t name_len;

    names_read(&names, command, len);
    if (marks_len != (size_t)names.left * TAG_MARK_BYTES) {
        return ERR_BAD_MESSAGE;
    }
    reader_init(&reader, marks, marks_len);
    while (names_next(&names, &name, &name_len)) {
        allocator_outdate(allocator, name, name_len, reader_u32(&reader));
    }
    ASSERT(reader_done(&reader));
    return 0;
}
