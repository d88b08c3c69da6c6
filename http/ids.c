/*
 * ids.c - see ids.h. Thread: the loop's.
 */
#include "http/ids.h"

#include <string.h>

#include "http/text.h"
#include "src/base/assert.h"

#define LINE_BYTES_MAX (TEXT_DECIMAL_BYTES + 1)

bool id_claim_add(struct id_claim *claim, const struct segment_range *range)
{
    struct segment_range *last =
        claim->range_count > 0 ? &claim->ranges[claim->range_count - 1] : NULL;

    ASSERT(range->count > 0 && range->count <= claim->left);
    if (last != NULL && last->first + last->count == range->first) {
        last->count += range->count;
    } else if (claim->range_count < LIMIT_RANGES_PER_REPLY) {
        claim->ranges[claim->range_count++] = *range;
    } else {
        return false;
    }
    claim->left -= range->count;
    return true;
}

/* The decimal digits of the next number, in place; a carry out of the front makes one digit
 * more. */
static size_t increment(char *digits, size_t len)
{
    for (size_t i = len; i > 0; i--) {
        if (digits[i - 1] != '9') {
            digits[i - 1]++;
            return len;
        }
        digits[i - 1] = '0';
    }
    ASSERT(len < TEXT_DECIMAL_BYTES);
    memmove(digits + 1, digits, len);
    digits[0] = '1';
    return len + 1;
}

/* One id a line. Numbers that follow each other differ in about one digit, so each is made from the
 * one before instead of by division. */
static void put_lines(const struct segment_range *range, struct buf *buf)
{
    char digits[TEXT_DECIMAL_BYTES];
    size_t len = text_decimal(range->first, digits);
    char *at;

    buf_reserve(buf, (size_t)range->count * LINE_BYTES_MAX);
    at = (char *)buf->data + buf->len;
    for (uint32_t i = 0; i < range->count; i++) {
        if (i > 0) {
            len = increment(digits, len);
        }
        memcpy(at, digits, len);
        at[len] = '\n';
        at += len + 1;
    }
    buf->len = (size_t)(at - (char *)buf->data);
    ASSERT(buf->len <= buf->capacity);
}

static void put_ranges_json(const struct id_claim *claim, struct buf *buf)
{
    buf_put(buf, "{\"tag\":", 7);
    text_put_json(buf, claim->name, claim->name_len);
    buf_printf(buf, ",\"count\":%u,\"ranges\":[", claim->count);
    for (uint32_t i = 0; i < claim->range_count; i++) {
        const struct segment_range *range = &claim->ranges[i];

        buf_printf(buf, "%s{\"first\":\"%llu\",\"last\":\"%llu\"}", i > 0 ? "," : "",
                   (unsigned long long)range->first,
                   (unsigned long long)(range->first + range->count - 1));
    }
    buf_put(buf, "]}", 2);
}

void id_claim_put(const struct id_claim *claim, struct buf *buf)
{
    ASSERT(claim->left == 0);
    ASSERT(claim->range_count > 0);
    if (claim->format == ID_FORMAT_JSON) {
        put_ranges_json(claim, buf);
        return;
    }
    for (uint32_t i = 0; i < claim->range_count; i++) {
        const struct segment_range *range = &claim->ranges[i];

        if (claim->format == ID_FORMAT_TEXT) {
            put_lines(range, buf);
        } else {
            buf_printf(buf, "%llu %llu\n", (unsigned long long)range->first,
                       (unsigned long long)(range->first + range->count - 1));
        }
    }
}
