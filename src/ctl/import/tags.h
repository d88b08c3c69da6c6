/*
 * tags.h - rows held against the rules of leafd's tags, and what their numbers mean.
 *
 * Leaf: max_id is the next id that nobody was given. TinyID: max_id was handed out, or may have
 * been, so the next one is max_id + 1. With a delta other than 1 TinyID hands out only the numbers
 * that leave `remainder` when they are divided by it, mostly because another database hands out the
 * others; leafd hands out every number. Such a row is an error, unless every_number says that all
 * databases are in the file: then the largest max_id of a name counts.
 *
 * Failure modes: a row that breaks a rule is an error that names it and the rule, and no tag; the
 * others are checked all the same. Ownership: a tag's texts lie in the rows. Thread: one.
 */
#ifndef LEAFD_CTL_IMPORT_TAGS_H
#define LEAFD_CTL_IMPORT_TAGS_H

#include "src/base/err.h"
#include "src/ctl/import/rows.h"

#define TAG_MAX_ID INT64_MAX

struct import_tag {
    const char *name; /* not ended by a NUL */
    size_t name_len;
    const char *description; /* UTF-8 without NUL */
    size_t description_len;
    bool has_description; /* else a tag keeps what it has */
    uint64_t max_id;      /* the next id */
    uint64_t step;
    const struct row *row;
};

struct import_tags {
    struct import_tag *list; /* by name, in the order of bytes */
    size_t count;
    struct buf texts; /* of descriptions that had to be changed */
    struct messages errors;
    struct messages warnings;
};

void tags_check(const struct source *source, const struct rows *rows, bool every_number,
                struct import_tags *ret_tags);
void tags_free(struct import_tags *tags);

/* The tag of this name; NULL: there is none. */
struct import_tag *tags_find(const struct import_tags *tags, const char *name, size_t len);

#endif
