/*
 * memo.c - see memo.h. Thread: one owner.
 */
#include "http/server/memo.h"

#include <string.h>

#include "src/base/assert.h"

/* Where tags begin in "GET /api/segment/get/", and how many bytes choose the place. */
#define KEY_AT 20
#define KEY_BYTES 16

/* So often in a row a place is missed before another head gets it. */
#define MISSES_MAX 4

HOT static struct memo *slot_of(struct memos *memos, const char *data)
{
    uint64_t words[2];
    uint64_t key;

    _Static_assert(sizeof(words) == KEY_BYTES, "the key in two words");
    memcpy(words, data + KEY_AT, KEY_BYTES);
    key = words[0] ^ (words[1] << 31 | words[1] >> 33);
    key = (key ^ key >> 32) * 0x9e3779b97f4a7c15ULL; /* the upper bits depend on all of it */
    return &memos->slots[key >> (64 - MEMO_BITS)];
}

HOT struct memo *memo_find(struct memos *memos, const char *data, size_t len)
{
    struct memo *memo;

    if (len < KEY_AT + KEY_BYTES) {
        return NULL;
    }
    memo = slot_of(memos, data);
    if (memo->len == 0 || memo->len > len || memcmp(memo->text, data, memo->len) != 0) {
        return NULL;
    }
    memo->miss_count = 0;
    return memo;
}

struct memo *memo_keep(struct memos *memos, const char *data, const struct parser_head *head,
                       const struct request *request)
{
    struct memo *memo;

    ASSERT(!head->has_body);
    if (head->len < KEY_AT + KEY_BYTES || head->len > MEMO_HEAD_BYTES) {
        return NULL;
    }
    memo = slot_of(memos, data);
    if (memo->len > 0 && ++memo->miss_count < MISSES_MAX) {
        return NULL;
    }
    memo->len = head->len;
    memo->miss_count = 0;
    memo->head = *head;
    memo->request = *request;
    memo->is_name_plain = false;
    memo->tag = NULL;
    memcpy(memo->text, data, head->len);
    return memo;
}
