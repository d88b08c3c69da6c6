/*
 * memo.h - heads that came lately and what they say: one that comes again is not read again.
 *
 * Who takes ids sends the same head again and again. What a head says depends on its bytes alone,
 * so the same bytes say the same; nothing is kept here that depends on anything else.
 *
 * The happy path: memo_find() with the bytes of a request; when there is none, the head is read and
 * given to memo_keep(). A few bytes of the request line, where the tag stands, choose the one place
 * where a head may be kept; a head has to be missed there some times in a row, or it does not
 * displace another.
 *
 * Failure modes: none; a head that is too long or has a body is not kept.
 *
 * Thread: one owner (an HTTP loop).
 */
#ifndef LEAFD_HTTP_SERVER_MEMO_H
#define LEAFD_HTTP_SERVER_MEMO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "http/proto/parser.h"
#include "http/api/router.h"

struct id_tag;

#define MEMO_BITS 6
#define MEMO_SLOTS (1 << MEMO_BITS)
#define MEMO_HEAD_BYTES 512

struct memo {
    uint32_t len; /* of text; 0: there is none */
    uint32_t miss_count;
    struct parser_head head;
    struct request request;
    bool is_name_plain; /* the name in the path is a tag's as it stands, without decoding */
    struct id_tag *tag; /* of that name, once it was found: it stays where it is */
    char text[MEMO_HEAD_BYTES];
};

struct memos {
    struct memo slots[MEMO_SLOTS];
};

/* The memo of the head that the bytes begin with, or NULL. */
struct memo *memo_find(struct memos *memos, const char *data, size_t len);

/* Keep what was read: a head at data, complete and without a body, whose route was found. NULL if
 * it is not kept. */
struct memo *memo_keep(struct memos *memos, const char *data, const struct parser_head *head,
                       const struct request *request);

#endif
