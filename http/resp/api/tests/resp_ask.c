/*
 * resp_ask.c - see resp_ask.h.
 */
#include "http/resp/api/tests/resp_ask.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "src/tests/unit/test.h"
#include "src/base/assert.h"
#include "src/base/buf.h"

#define LINE_BYTES 2048

void resp_send(struct client *client, const char *words)
{
    struct buf list = BUF_INIT;
    struct buf out = BUF_INIT;
    unsigned count = 0;
    size_t len;

    for (const char *at = words + strspn(words, " "); *at != '\0'; at += strspn(at, " ")) {
        len = strcspn(at, " ");
        buf_printf(&list, "$%zu\r\n%.*s\r\n", len, (int)len, at);
        at += len;
        count++;
    }
    buf_printf(&out, "*%u\r\n", count);
    buf_put(&out, list.data, list.len);
    client_send(client, out.data, out.len);
    buf_free(&list);
    buf_free(&out);
}

static void receive(struct client *client, char *out, size_t len)
{
    size_t got = 0;

    while (got < len) {
        ssize_t more = TEMP_FAILURE_RETRY(recv(client->fd, out + got, len - got, 0));

        if (more <= 0) {
            fail_msg("wanted %zu bytes, got %zu: %.*s", len, got, (int)got, out);
        }
        got += (size_t)more;
    }
}

void resp_expect_bytes(struct client *client, const char *bytes)
{
    size_t len = strlen(bytes);
    char *got = calloc(1, len + 1);

    ASSERT(got != NULL);
    receive(client, got, len);
    assert_string_equal(got, bytes);
    free(got);
}

void resp_expect(struct client *client, const char *words, const char *bytes)
{
    resp_send(client, words);
    resp_expect_bytes(client, bytes);
}

void resp_expect_line(struct client *client, const char *begin, const char *text)
{
    char line[LINE_BYTES] = "";
    size_t len = 0;

    while (len < 2 || line[len - 1] != '\n') {
        assert_true(len + 1 < sizeof line);
        receive(client, line + len, 1);
        len++;
    }
    if (strncmp(line, begin, strlen(begin)) != 0 || strstr(line, text) == NULL) {
        print_error("wanted %s%s, got %s", begin, text, line);
        fail();
    }
}

void resp_expect_error(struct client *client, const char *words, const char *begin,
                       const char *text)
{
    resp_send(client, words);
    resp_expect_line(client, begin, text);
}
