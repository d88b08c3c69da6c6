/*
 * tag_bulk.h - the body of POST /api/tags, read tag by tag and in slices.
 *
 * It is an array of objects, or objects one a line, each with its "tag"; or what GET /api/tags has
 * shown, page after page: of those objects the fields that cannot be set (changing, created,
 * updated, generation, warning) are left out.
 *
 * The happy path: tag_bulk_begin(), then tag_bulk_step() until it is done; between two steps others
 * get their turn. Each object becomes an item of the command before the next is looked at, so that
 * no more than one of them is in memory as JSON.
 *
 * Failure modes: as in tag_json.h, with the item, line or page; the first fault ends it, also the
 * tag that is one too many (LIMIT_TAGS_PER_BULK). What was read before is worth nothing then.
 *
 * Thread: one owner.
 */
#ifndef LEAFD_HTTP_API_TAG_BULK_H
#define LEAFD_HTTP_API_TAG_BULK_H

#include "http/api/tag_json.h"

enum tag_bulk_state {
    TAG_BULK_BEGIN,
    TAG_BULK_LINE,        /* a line follows */
    TAG_BULK_FIRST_ITEM,  /* behind an array's bracket */
    TAG_BULK_ITEM,        /* behind a comma in it */
    TAG_BULK_PAGE,        /* a page follows, or the end */
    TAG_BULK_MEMBER,      /* the name of a page's member follows */
    TAG_BULK_BEHIND_VALUE /* its value is read */
};

struct tag_bulk {
    const char *text; /* the body, borrowed */
    size_t len;
    struct command_list head;
    struct buf *command; /* borrowed */
    size_t at;
    size_t count; /* tags */
    size_t pages; /* 0: it is no dump */
    enum tag_bulk_state state;
    bool has_tags; /* the page had "tags"; */
    bool has_next; /* had "next" */
};

void tag_bulk_begin(struct tag_bulk *bulk, const void *body, size_t len,
                    const struct command_list *head, struct buf *command);

/* Read on, for about so many bytes. 0; or ERR_INVALID with *ret_fault. */
int tag_bulk_step(struct tag_bulk *bulk, size_t bytes, bool *ret_done,
                  struct body_fault *ret_fault) MUST_CHECK;

#endif
