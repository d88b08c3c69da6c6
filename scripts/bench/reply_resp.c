/*
 * reply_resp.c - see reply.h: RESP, as Redis speaks it. Simple strings, errors, integers and bulk
 * strings; a load has no use for arrays, which count as broken. Thread: the load's.
 */
#include <string.h>

#include "scripts/bench/reply.h"
#include "src/base/assert.h"

static const char broken[] = "a reply that is no RESP";

/* The length of a bulk string's line "$n"; -1 for none, as Redis has it, and -2 if it is wrong. */
static long bulk_len(const char *line, size_t len)
{
    long value = 0;

    if (len == 3 && memcmp(line, "$-1", 3) == 0) {
        return -1;
    }
    for (size_t i = 1; i < len; i++) {
        if (line[i] < '0' || line[i] > '9' || value > REPLY_BODY_MAX) {
            return -2;
        }
        value = value * 10 + (line[i] - '0');
    }
    return len > 1 ? value : -2;
}

/* One reply at the beginning of the bytes. Returns its length, 0 if it is not complete, -1 if it is
 * no RESP. */
static long reply_take(const char *data, size_t len, struct reply *ret_reply)
{
    const char *end = memmem(data, len, "\r\n", 2);
    size_t line = end ? (size_t)(end - data) : 0;
    long bulk;

    if (memchr("+-:$", data[0], 4) == NULL || (end == NULL && len > REPLY_BODY_MAX)) {
        return -1;
    }
    if (end == NULL) {
        return 0;
    }
    *ret_reply = (struct reply){data[0] == '-' ? 0 : 200, true, data + 1, line - 1};
    if (data[0] != '$') {
        return (long)line + 2;
    }
    bulk = bulk_len(data, line);
    if (bulk == -2) {
        return -1;
    }
    if (bulk == -1) {
        ret_reply->len = 0;
        return (long)line + 2;
    }
    if (len < line + 2 + (size_t)bulk + 2) {
        return 0;
    }
    ret_reply->body = end + 2;
    ret_reply->len = (size_t)bulk;
    return memcmp(end + 2 + bulk, "\r\n", 2) == 0 ? (long)line + 2 + bulk + 2 : -1;
}

const char *reply_feed_resp(struct reply_reader *reader, const char *data, size_t len)
{
    size_t at = 0;
    long taken = 1;

    buf_put(&reader->body, data, len);
    while (taken > 0 && at < reader->body.len) {
        struct reply reply;

        taken = reply_take((const char *)reader->body.data + at, reader->body.len - at, &reply);
        if (taken < 0) {
            return broken;
        }
        if (taken > 0 && !reader->cb(reader->data, &reply)) {
            reader->refused = true;
            return "a reply that nobody asked for";
        }
        at += (size_t)taken;
    }
    memmove(reader->body.data, reader->body.data + at, reader->body.len - at);
    reader->body.len -= at;
    return NULL;
}

void reply_put_resp(struct buf *out, const char *text)
{
    size_t words = 0;
    const char *at = text;

    for (const char *word = text; *word;) {
        word += strspn(word, " ");
        words += *word ? 1 : 0;
        word += strcspn(word, " ");
    }
    buf_printf(out, "*%zu\r\n", words);
    while (words-- > 0) {
        size_t len;

        at += strspn(at, " ");
        len = strcspn(at, " ");
        ASSERT(len > 0);
        buf_printf(out, "$%zu\r\n", len);
        buf_put(out, at, len);
        buf_put(out, "\r\n", 2);
        at += len;
    }
}
