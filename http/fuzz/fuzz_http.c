/*
 * fuzz_http.c - any bytes as HTTP: requests however they are split, targets and their options,
 * bodies of tags.
 *
 * The first byte chooses what the rest is given to. Of a stream of requests two bytes more say
 * where it is split: the outcome must not depend on it, and each head must be taken or refused as
 * the tests' reference parser would. The other parts must keep within their bounds (the sanitizers
 * see to that) and what they accept must be what a state machine accepts.
 *
 * Thread: one.
 */
#include <stdlib.h>
#include <string.h>

#include "http/api/json.h"
#include "http/proto/head.h"
#include "http/proto/parser.h"
#include "http/proto/tests/reference_parser.h"
#include "src/base/assert.h"
#include "src/id/codec/command.h"
#include "src/id/codec/tag.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

/* What is seen of a stream of requests. */
struct outcome {
    unsigned requests;
    unsigned body_bytes;
    uint32_t body_hash;
    int status; /* of the rejection, 0: none */
    size_t used;
    struct parser_head last;
};

static void check_field(const struct parser_field *got, const struct parser_field *want)
{
    ASSERT(got->count == want->count && got->at == want->at && got->len == want->len);
}

/* What the parser made of the bytes from a request's first on is what the reference does. */
static void check_head(const struct parser *parser, enum parser_event event, const char *text,
                       size_t len)
{
    struct parser reference;
    const struct parser_head *got = &parser->head;
    const struct parser_head *want = &reference.head;

    reference = (struct parser){0};
    ASSERT(reference_head(&reference, text, len) == event);
    if (event == PARSER_REJECT) {
        ASSERT(strcmp(parser->reject.why, reference.reject.why) == 0);
        ASSERT(strcmp(parser->reject.code, reference.reject.code) == 0);
        ASSERT(parser->reject.status == reference.reject.status);
        ASSERT(parser->reject.limit == reference.reject.limit);
    }
    if (event == PARSER_DONE) {
        ASSERT(got->len == want->len && got->method == want->method);
        ASSERT(got->target_at == want->target_at && got->target_len == want->target_len);
        ASSERT(got->content_length == want->content_length && got->chunked == want->chunked);
        ASSERT(got->has_body == want->has_body && got->keep_alive == want->keep_alive);
        ASSERT(got->http_1_0 == want->http_1_0 && got->expect_continue == want->expect_continue);
        check_field(&got->key, &want->key);
        check_field(&got->traceparent, &want->traceparent);
        check_field(&got->host, &want->host);
        check_field(&got->origin, &want->origin);
        check_field(&got->fetch_site, &want->fetch_site);
        check_field(&got->authorization, &want->authorization);
        check_field(&got->content_type, &want->content_type);
    }
}

/* Take what is there; false once it was refused. text is an exact copy of what arrived. */
static bool take(struct parser *parser, struct outcome *outcome, char *text, size_t len,
                 bool *in_body)
{
    for (;;) {
        enum parser_event event;
        size_t used = 0;
        size_t decoded = 0;

        if (*in_body) {
            event = parser_body(parser, text + outcome->used, len - outcome->used, &used, &decoded);
            ASSERT(decoded <= used && used <= len - outcome->used);
            for (size_t i = 0; i < decoded; i++) {
                outcome->body_hash = outcome->body_hash * 31 + (uint8_t)text[outcome->used + i];
            }
            outcome->body_bytes += (unsigned)decoded;
        } else {
            event = parser_head(parser, text + outcome->used, len - outcome->used);
            check_head(parser, event, text + outcome->used, len - outcome->used);
            used = event == PARSER_DONE ? parser->head.len : 0;
            ASSERT(event != PARSER_DONE ||
                   parser->head.target_at + parser->head.target_len <= used);
        }
        outcome->used += used;
        if (event == PARSER_REJECT) {
            ASSERT(parser->reject.code != NULL && parser->reject.why != NULL);
            outcome->status = parser->reject.status;
            return false;
        }
        if (event == PARSER_MORE) {
            return true;
        }
        if (!*in_body && parser->head.has_body) {
            *in_body = true;
            continue;
        }
        outcome->last = parser->head;
        outcome->requests++;
        *in_body = false;
        *parser = (struct parser){0};
    }
}

/* Give the stream in two or three pieces. A head is scanned from its first byte again, so what is
 * not used up yet is given anew, in memory of exactly its size. */
static void run(const uint8_t *data, size_t len, size_t first, size_t second,
                struct outcome *ret_outcome)
{
    const size_t ends[3] = {first, second, len};
    struct parser parser;
    bool in_body = false;

    memset(ret_outcome, 0, sizeof *ret_outcome);
    parser = (struct parser){0};
    for (unsigned i = 0; i < 3; i++) {
        char *text = malloc(ends[i] > 0 ? ends[i] : 1);
        bool going;

        ASSERT(text != NULL);
        memcpy(text, data, ends[i]);
        going = take(&parser, ret_outcome, text, ends[i], &in_body);
        free(text);
        if (!going) {
            return;
        }
    }
}

static void fuzz_stream(const uint8_t *data, size_t len)
{
    struct outcome whole;
    struct outcome split;
    size_t first;
    size_t second;

    if (len < 2) {
        return;
    }
    first = data[0] % (len - 1);
    second = first + data[1] % (len - 1 - first);
    run(data + 2, len - 2, len - 2, len - 2, &whole);
    run(data + 2, len - 2, first, second, &split);
    ASSERT(whole.requests == split.requests && whole.status == split.status);
    ASSERT(whole.body_bytes == split.body_bytes && whole.body_hash == split.body_hash);
    ASSERT(memcmp(&whole.last, &split.last, sizeof whole.last) == 0);
}

static void fuzz_target(const uint8_t *data, size_t len)
{
    struct param options[3] = {{.name = "count"}, {.name = "format"}, {.name = "timeout_ms"}};
    char *text = malloc(len > 0 ? len : 1);
    char *space = malloc(len > 0 ? len : 1);
    char why[OPTION_WHY_BYTES];
    struct target target;
    size_t decoded;

    ASSERT(text != NULL && space != NULL);
    if (len > 0) {
        memcpy(text, data, len);
    }
    if (target_split(text, len, &target) == 0) {
        ASSERT(target.path_len + target.query_len <= len);
        if (target_decode(target.path, target.path_len, TARGET_PLUS_IS_PLUS, space, len,
                          &decoded) == 0) {
            ASSERT(decoded <= target.path_len);
        }
        if (target.query != NULL &&
            options_parse(target.query, target.query_len, OPTIONS_OTHERS_REFUSED, options, 3, space,
                          why) != 0) {
            ASSERT(memchr(why, '\0', sizeof why) != NULL);
        }
    }
    free(text);
    free(space);
}

/* In slices, whose size the body tells. */
static int read_bulk(const uint8_t *data, size_t len, struct buf *command,
                     struct body_fault *ret_fault)
{
    size_t slice = len > 0 ? 1 + data[len - 1] : 1;
    struct tag_bulk bulk;
    bool done = false;
    int rv = 0;

    bulk = (struct tag_bulk){
        .text = (const char *)data, .len = len, .head = {.wall_ms = 1}, .command = command};
    while (rv == 0 && !done) {
        rv = tag_bulk_step(&bulk, slice, &done, ret_fault);
    }
    return rv;
}

/* A command that was made of a body is well-formed, item for item. */
static void fuzz_body(const uint8_t *data, size_t len, bool bulk)
{
    struct body_fault fault = {0};
    struct buf command = BUF_INIT;
    struct command whole;
    struct command_list read;
    struct tag_put put;
    unsigned count = 0;
    int rv;

    rv = bulk ? read_bulk(data, len, &command, &fault)
              : tag_json_read_one("tag", 3, data, len, &(struct command_list){.wall_ms = 1},
                                  &command, &fault);
    if (rv == 0) {
        ASSERT(command_read(command.data, command.len, &whole) == 0);
        read = whole.list;
        while (command_next(&read, &put)) {
            ASSERT(tag_name_check(put.name, put.name_len, NULL) == 0);
            count++;
        }
        ASSERT(count == read.count);
    } else {
        ASSERT(fault.code != NULL && memchr(fault.message, '\0', sizeof fault.message) != NULL);
    }
    buf_free(&command);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    if (len == 0) {
        return 0;
    }
    switch (data[0] % 4) {
    case 0:
        fuzz_stream(data + 1, len - 1);
        break;
    case 1:
        fuzz_target(data + 1, len - 1);
        break;
    default:
        fuzz_body(data + 1, len - 1, data[0] % 4 == 3);
        break;
    }
    return 0;
}
