/*
 * fuzz_import.c - files of rows that nobody wrote: whatever is read, it ends soon, with tags that
 * follow the rules, or with errors that say where.
 *
 * The first byte says which table, which form, and whether every number is taken; the rest is the
 * file.
 */
#include <stdlib.h>
#include <string.h>

#include "http/proto/text.h"
#include "src/base/assert.h"
#include "src/base/limits.h"
#include "src/base/utf8.h"
#include "src/ctl/import/import.h"

static void check_messages(const struct messages *messages)
{
    const char *text = (const char *)messages->texts.data;

    ASSERT(messages->kept == (messages->count < MESSAGES_KEPT ? messages->count : MESSAGES_KEPT));
    for (size_t i = 0; i < messages->kept; i++) {
        ASSERT(*text != '\0');
        text += strlen(text) + 1;
    }
}

static void check_tag(const struct import_tags *tags, const struct import_tag *tag)
{
    char why[LOOKS_WHY_BYTES];
    size_t len = strlen(tag->name);

    ASSERT(len >= 1 && len <= LIMIT_TAG_NAME_BYTES);
    ASSERT(text_is_utf8(tag->name, len));
    ASSERT(!looks_hidden(tag->name, len, why));
    ASSERT(tag->max_id <= TAG_MAX_ID);
    ASSERT(tag->step >= 1 && tag->step <= LIMIT_TAG_STEP);
    ASSERT(json_string_length(tag->description) <= LIMIT_TAG_DESCRIPTION_BYTES);
    ASSERT(tag->description == NULL ||
           strlen(json_string_value(tag->description)) == json_string_length(tag->description));
    ASSERT(tags_find(tags, tag->name) == tag);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct rows rows = {.count = 0};
    struct import_tags tags;
    struct buf why = BUF_INIT;
    enum form form;
    const struct source *source;
    char *file;
    int err;

    if (len == 0) {
        return 0;
    }
    source = (data[0] & 1) != 0 ? &SOURCE_TINYID : &SOURCE_LEAF;
    form = (enum form)((data[0] >> 1) % FORMS);
    /* Of its own size, so that a read beyond it is seen. */
    file = MUST_HAVE(malloc(len));
    memcpy(file, data + 1, len - 1);
    file[len - 1] = '\0';
    err = file_read(source, source->table, file, len - 1, &form, &rows, &why);
    ASSERT((err != 0) == (why.len > 0));
    check_messages(&rows.errors);
    if (err == 0) {
        tags_check(source, &rows, &(struct import_rules){.every_number = (data[0] & 0x80) != 0},
                   &tags);
        check_messages(&tags.errors);
        check_messages(&tags.warnings);
        ASSERT(tags.count <= rows.count);
        ASSERT(tags.count + tags.errors.count == rows.count || (data[0] & 0x80) != 0);
        for (size_t i = 0; i < tags.count; i++) {
            check_tag(&tags, &tags.list[i]);
        }
        tags_free(&tags);
    }
    (void)file_may_be_cut_off(file, len - 1);
    rows_free(&rows);
    buf_free(&why);
    free(file);
    return 0;
}
