/*
 * guarded.c - see guarded.h.
 */
#include "http/api/tests/guarded.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/tests/unit/test.h"
#include "src/base/assert.h"

#define WALL_MS 1700000000000ULL
#define JSON "Content-Type: application/json\r\n"

static const struct guarded_settings *wanted; /* for prepare() */

/* The tokens file. */
static void put_lines(const struct guarded_line *lines, struct buf *text)
{
    for (; lines->name != NULL; lines++) {
        struct token_hash hash;
        const char *colon = strchr(lines->name, ':');
        char token[128];
        int len = snprintf(token, sizeof token, "%s-token", colon ? colon + 1 : lines->name);

        ASSERT(token_hash(token, (size_t)len, &hash));
        buf_printf(text, "%.*s sha256:", (int)strcspn(lines->name, ":"), lines->name);
        for (size_t i = 0; i < TOKEN_HASH_BYTES; i++) {
            buf_printf(text, "%02x", ((const uint8_t *)hash.words)[i]);
        }
        buf_printf(text, " %s\n", lines->rest);
    }
}

static void prepare(struct fixture *f)
{
    static const struct snowflake_layout layout = SNOWFLAKE_JS53_LAYOUT;
    const struct auth_settings settings = {.web = {.hosts = "x", .origins = "https://good.example"},
                                           .anonymous_roles = wanted->anonymous_roles};
    struct buf text = BUF_INIT;
    char why[TOKENS_WHY_BYTES];

    put_lines(wanted->lines, &text);
    ASSERT(auth_new(&settings, (const char *)text.data, text.len, &f->auth, why) == 0);
    buf_free(&text);
    f->two_doors = wanted->two_doors;
    fake_set_wall(&f->fake, WALL_MS);
    fake_log_time(&f->fake, WALL_MS);
    fake_log_layout(&f->fake, &layout);
    fake_make_tag(&f->fake, "a/1", 1, 1000, 1000000);
    fake_make_tag(&f->fake, "b/1", 1, 1000, 1000000);
    fake_make_tag(&f->fake, "c", 1, 1000, 1000000);
    fake_set_mode(&f->fake, "s", TAG_MODE_STRICT);
}

void guarded_start(struct fixture *f, const struct guarded_settings *settings)
{
    const struct http_settings limits = {.loops = 1,
                                         .resp_address = settings->resp ? "127.0.0.1:0" : NULL};

    wanted = settings;
    fixture_start_with(f, &limits, prepare);
}

void guarded_reload(struct fixture *f, const struct guarded_line *lines)
{
    struct buf text = BUF_INIT;
    struct buf words = BUF_INIT;
    char why[TOKENS_WHY_BYTES];
    size_t before;
    size_t after;

    put_lines(lines, &text);
    assert_int_equal(auth_prepare(f->auth, (const char *)text.data, text.len, why), 0);
    auth_commit(f->auth, &before, &after, &words);
    buf_free(&text);
    buf_free(&words);
}

void guarded_call(struct fixture *f, const char *head, const char *headers, const char *body,
                  struct reply *reply)
{
    bool is_typed = strstr(headers, "Content-Type") != NULL;
    const char *host = strstr(headers, "Host:") != NULL ? "" : "Host: x\r\n";

    if (body != NULL) {
        client_printf(f->client, "%s HTTP/1.1\r\n%s%s%sContent-Length: %zu\r\n\r\n%s", head, host,
                      headers, is_typed ? "" : JSON, strlen(body), body);
    } else {
        client_printf(f->client, "%s HTTP/1.1\r\n%s%s\r\n", head, host, headers);
    }
    client_read(f->client, false, reply);
}

void guarded_expect(struct fixture *f, const char *head, const char *headers, const char *body,
                    int status, const char *text)
{
    struct reply reply;

    guarded_call(f, head, headers, body, &reply);
    if (reply.status != status ||
        (text != NULL && strstr(reply.body, text) == NULL && strstr(reply.head, text) == NULL)) {
        print_error("%s: wanted %d %s, got %d %s%s\n", head, status, text != NULL ? text : "",
                    reply.status, reply.head, reply.body);
        fail();
    }
    reply_release(&reply);
}

unsigned guarded_audit_count(struct fixture *f)
{
    struct audit *audit = &f->auth->audit;
    unsigned count;

    pthread_mutex_lock(&audit->lock);
    count = (unsigned)(audit->rings[AUDIT_CHANGE].count + audit->rings[AUDIT_REFUSAL].count);
    pthread_mutex_unlock(&audit->lock);
    return count;
}

char *guarded_audit(struct fixture *f)
{
    struct buf json = BUF_INIT;
    uint64_t last;
    char *text;

    pthread_mutex_lock(&f->auth->audit.lock);
    last = f->auth->audit.last_number;
    pthread_mutex_unlock(&f->auth->audit.lock);
    if (last == 0) {
        return NULL;
    }
    audit_list(&f->auth->audit, last - 1, 1, &json);
    text = malloc(json.len + 1);
    ASSERT(text != NULL);
    memcpy(text, json.data, json.len);
    text[json.len] = '\0';
    buf_free(&json);
    return text;
}

void guarded_audit_has(struct fixture *f, const char *text)
{
    char *entry = guarded_audit(f);

    assert_non_null(entry);
    if (strstr(entry, text) == NULL) {
        print_error("wanted %s in %s\n", text, entry);
        fail();
    }
    free(entry);
}
