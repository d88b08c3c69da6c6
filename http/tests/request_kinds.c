/*
 * request_kinds.c - see request_kinds.h. Thread: the test's.
 */
#include "http/tests/request_kinds.h"

#include <string.h>

#include "src/base/assert.h"
#include "src/base/limits.h"

enum framing { NONE, LENGTH, CHUNKED, RAW };

/* In a line or a header: a name that is as long as may be, one byte longer, much longer, one that
 * is as long as may be once it is decoded, one byte longer; a head nearly as long as may be; too
 * long. */
#define NAME_MAX "\001"
#define NAME_OVER "\002"
#define NAME_HUGE "\003"
#define NAME_CODED "\004"
#define NAME_CODED_OVER "\005"
#define FILL_MOST "\006"
#define FILL_OVER "\007"

struct spec {
    const char *name;
    const char *line; /* method and target; of RAW all bytes */
    const char *headers;
    enum framing framing;
    const char *body;
};

#define TYPE "Content-Type: application/json\r\n"
#define ID "GET /api/segment/get/"
#define TAG "/api/tags/"
#define EXPECT "Expect: 100-continue\r\n"
#define KEY "Idempotency-Key: "

static const struct spec specs[] = {
    /* ids: heads whose name may be known when they repeat */
    {"get", ID "plain", "", NONE, ""},
    {"get of an escaped name", ID "a%2Fb", "", NONE, ""},
    {"get of an escaped name without need", ID "%70lain", "", NONE, ""},
    {"get of the longest name", ID NAME_MAX, "", NONE, ""},
    {"get of the longest name escaped", ID NAME_CODED, "", NONE, ""},
    {"get of a name too long", ID NAME_OVER, "", NONE, ""},
    {"get of a name too long escaped", ID NAME_CODED_OVER, "", NONE, ""},
    {"get of a name much too long", ID NAME_HUGE, "", NONE, ""},
    {"get of a bad escape", ID "a%2", "", NONE, ""},
    {"get of an unknown tag", ID "nobody", "", NONE, ""},
    {"get of a tag without ids", ID "full", "", NONE, ""},
    {"get of lines", ID "plain?count=3", "", NONE, ""},
    {"get of a range", ID "plain?count=7&format=range&contiguous=1", "", NONE, ""},
    {"get as json", ID "a%2Fb?count=2&format=json&timeout_ms=700", "", NONE, ""},
    {"get of a bad count", ID "plain?count=x", "", NONE, ""},
    {"get of too many in one piece", ID "small?count=9&contiguous=1&timeout_ms=800", "", NONE, ""},
    {"get that has to wait", ID "small?count=40&timeout_ms=9000", "", NONE, ""},
    {"get that will not wait", ID "small?count=30&timeout_ms=0", "", NONE, ""},
    {"post for an id", "POST /api/segment/get/plain", "", LENGTH, "{}"},
    {"get with a body", ID "plain", "", LENGTH, "a body is dropped"},
    {"get with chunks", ID "a%2Fb", "", CHUNKED, "a body is dropped"},
    {"get with a key", ID "plain", KEY "k\r\n", NONE, ""},
    {"get of absolute form", "GET http://a/api/segment/get/plain", "", NONE, ""},
    {"get that keeps", ID "plain", "Connection: keep-alive\r\n", NONE, ""},
    {"get that closes", ID "plain", "Connection: close\r\n", NONE, ""},
    {"old get that keeps", ID "plain HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", "", RAW, ""},
    {"old get that closes", ID "plain HTTP/1.0\r\n\r\n", "", RAW, ""},
    {"get behind empty lines", "\r\n\r\n" ID "plain HTTP/1.1\r\nHost: a\r\n\r\n", "", RAW, ""},
    {"get with a large head", ID "plain", "X-Fill: " FILL_MOST "\r\n", NONE, ""},
    {"get that expects", ID "plain", EXPECT, NONE, ""},
    /* strict ids, snowflake ids */
    {"strict", ID "strict?count=2", "", NONE, ""},
    {"strict with a key", ID "strict?count=3&timeout_ms=1000", KEY "abc\r\n", NONE, ""},
    {"strict with the key and another count", ID "strict?count=4", KEY "abc\r\n", NONE, ""},
    {"strict with two keys", ID "strict", KEY "a\r\n" KEY "b\r\n", NONE, ""},
    {"strict with an empty key", ID "strict", KEY "\r\n", NONE, ""},
    {"strict with a body", ID "strict", KEY "abc\r\n", LENGTH, "{}"},
    {"get of a tag that is strict no more", ID "behind1", "", NONE, ""},
    {"get of another tag that is strict no more", ID "behind2", "", NONE, ""},
    {"snowflake", "GET /api/snowflake/get/any%20key?count=3", "", NONE, ""},
    {"snowflake that waits in vain", "GET /api/snowflake/get/k?count=100000&timeout_ms=600", "",
     NONE, ""},
    {"snowflake with a key", "GET /api/snowflake/get/k", KEY "k\r\n", NONE, ""},
    {"snowflake decode", "GET /api/snowflake/decode/1234567890123456789", "", NONE, ""},
    /* tags */
    {"put", "PUT " TAG "plain", "", LENGTH, "{\"step\":1000}"},
    {"put of an escaped name", "PUT " TAG "a%2Fb", "", LENGTH, "{\"step\":1000}"},
    {"put of a new escaped name", "PUT " TAG "x%2Fy%25z", "", LENGTH, "{\"step\":5}"},
    {"put in chunks", "PUT " TAG "plain", "", CHUNKED, "{\"description\":\"in chunks\"}"},
    {"put of an escaped name in chunks", "PUT " TAG "a%2Fb", "", CHUNKED, "{\"step\":900}"},
    {"put without a body", "PUT " TAG "bare", "", NONE, ""},
    {"put of a name too long", "PUT " TAG NAME_OVER, "", LENGTH, "{}"},
    {"put of a name much too long", "PUT " TAG NAME_HUGE, "", LENGTH, "{}"},
    {"put of a name too long in chunks", "PUT " TAG NAME_HUGE, "", CHUNKED, "{}"},
    {"put of the longest name escaped", "PUT " TAG NAME_CODED, "", LENGTH, "{\"step\":1000}"},
    {"put of a name too long escaped", "PUT " TAG NAME_CODED_OVER, "", LENGTH, "{\"step\":1000}"},
    {"put that expects", "PUT " TAG "plain", EXPECT, LENGTH, "{\"step\":1000}"},
    {"put that expects, in chunks", "PUT " TAG "a%2Fb", EXPECT, CHUNKED, "{\"step\":1000}"},
    {"put of no json", "PUT " TAG "plain", "", LENGTH, "{\"step\":"},
    {"put of a bad field", "PUT " TAG "plain?force=1", "", LENGTH, "{\"nonsense\":1}"},
    {"put with a bad option", "PUT " TAG "plain?x=1", "", LENGTH, "{}"},
    {"post of tags", "POST /api/tags", "", LENGTH, "[{\"tag\":\"u%2Fv\"},{\"tag\":\"w\"}]"},
    {"get of a tag", "GET " TAG "plain", "", NONE, ""},
    {"get of a tag by an escaped name", "GET " TAG "a%2Fb?consistency=local", "", NONE, ""},
    {"get of a tag of a name too long", "GET " TAG NAME_HUGE, "", NONE, ""},
    {"head of a tag", "HEAD " TAG "plain", "", NONE, ""},
    {"head of no tag", "HEAD " TAG "nobody", "", NONE, ""},
    {"head of no route", "HEAD /nothing", "", NONE, ""},
    {"delete", "DELETE " TAG "a%2Fb", "", NONE, ""},
    {"delete with a body", "DELETE " TAG "nobody", "", LENGTH, "x"},
    {"list of tags", "GET /api/tags?limit=2&prefix=s", "", NONE, ""},
    {"list of segments", "GET /api/node/segments", "", NONE, ""},
    {"list of all nodes' segments", "GET /api/cluster/segments?after=s", "", NONE, ""},
    {"worker", "PUT /api/workers/3", "", LENGTH, "{\"epoch\":1}"},
    /* nothing is served, or it is refused */
    {"no route", "GET /nothing/at%20all", "", NONE, ""},
    {"no route with a body", "POST /nothing", "", LENGTH, "hello"},
    {"no route in chunks", "POST /nothing", "", CHUNKED, "hello"},
    {"a slash in a name", "GET " TAG "a/b", "", NONE, ""},
    {"no such method", "PUT /livez", "", CHUNKED, "hello"},
    {"alive", "GET /livez", "", NONE, ""},
    {"metrics", "GET /metrics", "", NONE, ""},
    {"version", "GET /version", "", NONE, ""},
    {"no route that expects", "POST /nothing", EXPECT, LENGTH, "hello"},
    {"a body too large", "PUT " TAG "plain", TYPE "Content-Length: 8388609\r\n", NONE, ""},
    {"a bad chunk",
     "PUT " TAG "plain HTTP/1.1\r\nHost: a\r\n" TYPE "Transfer-Encoding: chunked\r\n\r\nzz\r\n", "",
     RAW, ""},
    {"two lengths", "PUT " TAG "plain", "Content-Length: 2\r\n", LENGTH, "{}"},
    {"no host", "GET /livez HTTP/1.1\r\n\r\n", "", RAW, ""},
    {"nonsense", "hello\r\n\r\n", "", RAW, ""},
    {"a fragment", "GET /livez#x", "", NONE, ""},
    {"a target too long", ID NAME_HUGE "?count=" NAME_HUGE, "", NONE, ""},
    {"a head too large", ID "plain", "X-Fill: " FILL_OVER "\r\n", NONE, ""},
};

#define KINDS (sizeof(specs) / sizeof(specs[0]))

static struct request_kind kinds[KINDS];

/* Append text with its markers filled in. */
static void put_text(struct buf *buf, const char *text)
{
    static const struct {
        const char *text;
        size_t count;
    } fills[] = {
        [1] = {"n", LIMIT_TAG_NAME_BYTES},
        [2] = {"n", LIMIT_TAG_NAME_BYTES + 1},
        [3] = {"h", 3000},
        [4] = {"%6e", LIMIT_TAG_NAME_BYTES},
        [5] = {"%6e", LIMIT_TAG_NAME_BYTES + 1},
        [6] = {"x", LIMIT_HTTP_HEADERS_BYTES / 2},
        [7] = {"x", LIMIT_HTTP_HEADERS_BYTES},
    };

    for (; *text != '\0'; text++) {
        size_t mark = (unsigned char)*text;

        if (mark >= sizeof(fills) / sizeof(fills[0])) {
            buf_put(buf, text, 1);
            continue;
        }
        for (size_t i = 0; i < fills[mark].count; i++) {
            buf_put(buf, fills[mark].text, strlen(fills[mark].text));
        }
    }
}

/* Each half of the body a chunk, and all that may stand beside them. */
static void put_chunks(struct buf *buf, const char *body)
{
    size_t len = strlen(body);
    size_t half = len / 2;

    buf_printf(buf, "%zx;ext=\"1\"\r\n%.*s\r\n", half, (int)half, body);
    buf_printf(buf, "%zX\r\n%s\r\n0\r\nX-Trailer: Content-Length: 7\r\n\r\n", len - half,
               body + half);
}

static void make_kind(const struct spec *spec, struct request_kind *kind)
{
    struct buf *bytes = &kind->bytes;

    kind->name = spec->name;
    put_text(bytes, spec->line);
    if (spec->framing != RAW) {
        buf_printf(bytes, " HTTP/1.1\r\nHost: a\r\n%s", spec->framing != NONE ? TYPE : "");
        put_text(bytes, spec->headers);
        if (spec->framing == LENGTH) {
            buf_printf(bytes, "Content-Length: %zu\r\n", strlen(spec->body));
        } else if (spec->framing == CHUNKED) {
            buf_printf(bytes, "Transfer-Encoding: chunked\r\n");
        }
        buf_printf(bytes, "\r\n");
    }
    kind->head_len = bytes->len;
    kind->expects = strstr(spec->headers, "Expect:") != NULL;
    if (spec->framing == LENGTH) {
        buf_put(bytes, spec->body, strlen(spec->body));
    } else if (spec->framing == CHUNKED) {
        put_chunks(bytes, spec->body);
    }
}

const struct request_kind *request_kinds(size_t *ret_count)
{
    if (kinds[0].bytes.len == 0) {
        for (size_t i = 0; i < KINDS; i++) {
            make_kind(&specs[i], &kinds[i]);
        }
    }
    *ret_count = KINDS;
    return kinds;
}

void request_kinds_free(void)
{
    for (size_t i = 0; i < KINDS; i++) {
        buf_free(&kinds[i].bytes);
    }
}
