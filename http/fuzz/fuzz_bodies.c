/*
 * fuzz_bodies.c - any bytes as the body of every route that takes one, and any name and options of
 * those that take these: tags, worker ids, members, leader, level.
 *
 * The first byte chooses the route, the second how the body is sent; what stands before the first
 * 0xff goes into the target, where there is a place for it. The request goes through the real
 * connection and handlers to a backend with a real state machine, in front of a GET whose answer
 * must be as ever: whatever the body is, it gets one answer of the contract, errors have a code and
 * a message, and the stream stays in step.
 *
 * Thread: one.
 */
#include <stdlib.h>
#include <string.h>

#include "http/tests/conn_world.h"
#include "src/base/assert.h"

#define TARGET_END 0xff
#define WELL "HTTP/1.1 200 OK\r\n"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

/* '*' is where the bytes of the input stand. */
static const char *const requests[] = {
    "PUT /api/tags/*",
    "PUT /api/tags/plain?*",
    "PUT /api/tags/strict",
    "POST /api/tags?*",
    "POST /api/tags",
    "DELETE /api/tags/*",
    "POST /api/workers",
    "PUT /api/workers/*",
    "PUT /api/workers/3",
    "DELETE /api/workers/*",
    "DELETE /api/workers/3",
    "POST /api/cluster/members",
    "POST /api/cluster/members?*",
    "PUT /api/cluster/members/*",
    "PUT /api/cluster/members/2",
    "DELETE /api/cluster/members/*",
    "POST /api/cluster/leader",
    "POST /api/cluster/level",
    "POST /api/cluster/level?*",
    "GET /api/tags?*",
    "GET /api/segment/get/*",
    "GET /api/snowflake/get/k?*",
    "GET /api/workers?*",
    "GET /decodeSnowflakeId?*",
    "GET /api/snowflake/decode/*",
    "GET /readyz?*",
    "GET /api/node/segments?*",
};

static struct conn_world world;

static void put_target(struct buf *out, const char *text, const uint8_t *fill, size_t fill_len)
{
    for (; *text != '\0'; text++) {
        for (size_t i = 0; *text == '*' && i < fill_len; i++) {
            /* What ends a target would make another request of it: fuzz_conn.c does that. */
            if (fill[i] > ' ' && fill[i] != 0x7f && fill[i] != '#') {
                buf_put_u8(out, fill[i]);
            }
        }
        if (*text != '*') {
            buf_put_u8(out, (uint8_t)*text);
        }
    }
}

static void put_body(struct buf *out, const uint8_t *body, size_t len, bool chunked)
{
    size_t half = len / 2;

    if (!chunked) {
        buf_printf(out, "Content-Length: %zu\r\n\r\n", len);
        buf_put(out, body, len);
        return;
    }
    buf_printf(out, "Transfer-Encoding: chunked\r\n\r\n");
    for (unsigned i = 0; i < 2; i++) {
        size_t part = i == 0 ? half : len - half;

        if (part > 0) {
            buf_printf(out, "%zx\r\n", part);
            buf_put(out, body + i * half, part);
            buf_printf(out, "\r\n");
        }
    }
    buf_printf(out, "0\r\n\r\n");
}

/* One answer's length; it must be of the contract. */
static size_t check_answer(const char *text, size_t len)
{
    const char *end = memmem(text, len, "\r\n\r\n", 4);
    const char *length = memmem(text, len, "\r\nContent-Length: ", 18);
    size_t head;
    size_t body;

    ASSERT(end != NULL && len > 12 && memcmp(text, "HTTP/1.1 ", 9) == 0);
    head = (size_t)(end - text) + 4;
    body = length != NULL && length < end ? strtoul(length + 18, NULL, 10) : 0;
    ASSERT(head + body <= len);
    ASSERT(text[9] == '2' || text[9] == '4' || text[9] == '5');
    ASSERT(memcmp(text + 9, "500", 3) != 0);
    if (text[9] != '2') {
        ASSERT(memmem(end, body + 4, "\"code\":\"", 8) != NULL);
        ASSERT(memmem(end, body + 4, "\"message\":\"", 11) != NULL);
    }
    return head + body;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static const char then[] = "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n";
    static struct buf bytes;
    const uint8_t *end;
    size_t fill_len;
    size_t used;

    if (len < 2) {
        return 0;
    }
    if (world.server == NULL) {
        conn_world_start(&world);
    }
    end = memchr(data + 2, TARGET_END, len - 2);
    fill_len = end != NULL ? (size_t)(end - data) - 2 : 0;
    bytes.len = 0;
    put_target(&bytes, requests[data[0] % (sizeof requests / sizeof requests[0])], data + 2,
               fill_len);
    buf_printf(&bytes, " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n");
    used = 2 + fill_len + (end != NULL);
    put_body(&bytes, data + used, len - used, data[1] % 2 == 1);
    conn_world_reset(&world);
    world.fake.prompt = true;
    conn_world_connect(&world);
    conn_world_send(&world, bytes.data, bytes.len);
    used = check_answer((const char *)world.replies.data, world.replies.len);
    ASSERT(used == world.replies.len);
    if (!world.ended) {
        conn_world_send(&world, then, sizeof then - 1);
        ASSERT(world.replies.len > used + sizeof WELL &&
               memcmp(world.replies.data + used, WELL, sizeof WELL - 1) == 0);
        ASSERT(used + check_answer((const char *)world.replies.data + used,
                                   world.replies.len - used) ==
               world.replies.len);
    }
    conn_world_disconnect(&world);
    return 0;
}
