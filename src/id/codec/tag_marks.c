/*
 * tag_marks.c - see tag_marks.h: the names of a command that have marks.
 */
#include "src/id/codec/tag_marks.h"

#include "src/base/assert.h"

void tag_names_begin(struct tag_names *names, const void *command, size_t len)
{
    struct command *of = &names->of;

    names->left = 0;
    if (command_read(command, len, of) != 0) {
        return;
    }
    if (command_puts_tags((int)of->type) && of->list.count <= LIMIT_TAGS_PER_BULK) {
        names->left = of->list.count;
    } else if (of->type == COMMAND_TAG_DELETE) {
        names->left = 1;
    }
}

bool tag_names_next(struct tag_names *names, const char **ret_name, size_t *ret_len)
{
    struct tag_put put;
    bool there;

    if (names->left == 0) {
        return false;
    }
    names->left--;
    if (names->of.type == COMMAND_TAG_DELETE) {
        *ret_name = names->of.deletion.name;
        *ret_len = names->of.deletion.name_len;
        return true;
    }
    there = command_next(&names->of.list, &put);
    ASSERT(there);
    *ret_name = put.name;
    *ret_len = put.name_len;
    return true;
}
