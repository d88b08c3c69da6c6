/*
 * tag_marks.c - see tag_marks.h: the names of a command that have marks.
 */
#include "src/id/codec/tag_marks.h"

#include "src/base/assert.h"

void tag_names_begin(struct tag_names *names, const void *command, size_t len)
{
    int type = command_type(command, len);

    *names = (struct tag_names){0};
    if (type == COMMAND_TAGS_PUT && put_command_read(command, len, &names->put) == 0 &&
        names->put.count <= LIMIT_TAGS_PER_BULK) {
        names->is_put = true;
        names->left = names->put.count;
    } else if (type == COMMAND_TAG_DELETE &&
               delete_command_read(command, len, &names->deletion) == 0) {
        names->left = 1;
    }
}

bool tag_names_next(struct tag_names *names, const char **ret_name, size_t *ret_len)
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
