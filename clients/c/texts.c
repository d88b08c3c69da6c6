/* Ids as texts, as the server writes them (docs/clients.md, Ids as texts): each call is a request
 * with a key, as of strict ids. A tag of mode trend takes none: the first call finds that out, and
 * the source keeps it. The happy path is one answer with a line for each id. Failure modes: those
 * of a call; an answer that is none. Any thread. */
#include "client.h"

#include "fault.h"
#include "ranges.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

enum { PATH_BYTES = TEXT_ENCODED_BYTES + TEXT_ENCODED_ID_BYTES + 64 };

struct leafd_texts {
    struct source source;
    char name[TEXT_ENCODED_BYTES]; /* as an element of a path */
    atomic_bool keyless;
    struct given given; /* of each answer the first text */
};

/* An answer to be read. */
struct reading {
    struct leafd_texts *texts;
    uint32_t count;
    const char *key;
    char (*into)[LEAFD_TEXT_BYTES];
    const char *wrong; /* it is none to this request; NULL: it is */
};

static const char *refuses(void *taker, const struct answer *answer)
{
    struct reading *reading = taker;
    struct grant grant = {.count = 1, .generation = answer->generation};
    reading->wrong = "its status";
    if (answer->status != 200 || !text_read_lines(answer->body, answer->body_bytes, reading->count,
                                                  reading->into, &reading->wrong)) {
        return NULL;
    }
    reading->wrong = NULL;
    int64_t text = given_text(reading->into[0]);
    grant.ranges[0] = (struct leafd_series){.first = text, .last = text};
    return given_refuses(&reading->texts->given, &grant, reading->key);
}

static int ask(struct leafd_texts *texts, uint32_t count, const char *key,
               char (*into)[LEAFD_TEXT_BYTES], bool *replayed, uint64_t until_ns,
               struct leafd_error *error)
{
    struct leafd *client = texts->source.client;
    char path[PATH_BYTES];
    struct line *line;
    struct answer answer;
    (void)snprintf(path, sizeof path, "/api/segment/get/%s?count=%u", texts->name, count);
    struct reading reading = {.texts = texts, .count = count, .key = key, .into = into};
    struct call call = {
        .client = client,
        .door = &client->ids,
        .request = {.method = "GET", .path = path, .key = key},
        .until_ns = until_ns,
        .refuses = refuses,
        .taker = &reading,
    };
    if (client_call(&call, &line, &answer, error) != 0) {
        return fault_keyed(error, key);
    }
    line_put(line);
    if (reading.wrong != NULL) {
        (void)fault(error, "bad_answer", answer.status, false, "no answer to %u ids of %s: %s",
                    count, texts->source.name, reading.wrong);
        return fault_keyed(error, key);
    }
    if (replayed != NULL) {
        *replayed = answer.replayed;
    }
    return 0;
}

/* By the caller's key; without one by one of the call's own, if the tag takes keys. */
static int take(struct leafd_texts *texts, uint32_t count, const char *key,
                char (*into)[LEAFD_TEXT_BYTES], bool *replayed, uint64_t until_ns,
                struct leafd_error *error)
{
    char own[TEXT_OWN_KEY_CHARS + 1];
    struct leafd_error unseen;
    error = error != NULL ? error : &unseen;
    if (key != NULL) {
        return ask(texts, count, key, into, replayed, until_ns, error);
    }
    if (!atomic_load(&texts->keyless)) {
        text_make_key(own);
        if (ask(texts, count, own, into, replayed, until_ns, error) == 0) {
            return 0;
        }
        if (strcmp(error->code, "bad_key") != 0) {
            return -1;
        }
        atomic_store(&texts->keyless, true);
    }
    return ask(texts, count, NULL, into, replayed, until_ns, error);
}

static int check(uint32_t count, const char *key, struct leafd_error *error)
{
    if (count < 1 || count > TEXT_LINES_MAX) {
        return fault(error, "bad_setting", 0, false, "count=%u of texts must be from 1 to %d",
                     count, TEXT_LINES_MAX);
    }
    return text_check_key(key, error);
}

int leafd_texts_take(struct leafd_texts *texts, uint32_t count, const char *key,
                     char (*into)[LEAFD_TEXT_BYTES], bool *replayed, uint32_t deadline_ms,
                     struct leafd_error *error)
{
    struct leafd *client = texts->source.client;
    uint64_t until_ns = client_until_ns(client, deadline_ms);
    if (source_enter(&texts->source, error) != 0) {
        return -1;
    }
    int result = check(count, key, error);
    if (result == 0) {
        COUNT(client, waits);
        result = take(texts, count, key, into, replayed, until_ns, error);
    }
    if (result == 0) {
        ADD(client, ids_strict, count);
    } else {
        COUNT(client, errors);
    }
    return result;
}

int leafd_texts_next(struct leafd_texts *texts, char text[LEAFD_TEXT_BYTES],
                     struct leafd_error *error)
{
    return leafd_texts_take(texts, 1, NULL, (char(*)[LEAFD_TEXT_BYTES])text, NULL, 0, error);
}

/* The number in an answer, or -1. */
static int64_t read_id(const struct answer *answer)
{
    uint64_t id = 0;
    json_t *json = json_loadb(answer->body, answer->body_bytes, 0, NULL);
    const char *text = json_string_value(json_object_get(json, "id"));
    bool good = answer->status == 200 && text != NULL &&
                json_is_boolean(json_object_get(json, "granted")) &&
                text_to_number(text, 0, INT64_MAX, &id);
    json_decref(json);
    return good ? (int64_t)id : -1;
}

static int64_t decode(struct leafd_texts *texts, const char *text, uint64_t until_ns,
                      struct leafd_error *error)
{
    struct leafd *client = texts->source.client;
    char path[PATH_BYTES], encoded[TEXT_ENCODED_ID_BYTES];
    struct line *line;
    struct answer answer;
    if (!text_is_visible(text, LEAFD_TEXT_BYTES - 1)) {
        return fault(error, "bad_setting", 0, false,
                     "text=\"%.200s\" must be 1 to %d visible ASCII characters", text,
                     LEAFD_TEXT_BYTES - 1);
    }
    COUNT(client, waits);
    text_encode(text, encoded);
    (void)snprintf(path, sizeof path, "/api/segment/decode/%s?text=%s", texts->name, encoded);
    if (client_get(client, &client->admin, path, NULL, until_ns, &line, &answer, error) != 0) {
        return -1;
    }
    int64_t id = read_id(&answer);
    line_put(line);
    if (id < 0) {
        return fault(error, "bad_answer", answer.status, false, "no answer to a text of %s",
                     texts->source.name);
    }
    return id;
}

int64_t leafd_texts_decode(struct leafd_texts *texts, const char *text, uint32_t deadline_ms,
                           struct leafd_error *error)
{
    struct leafd *client = texts->source.client;
    uint64_t until_ns = client_until_ns(client, deadline_ms);
    if (source_enter(&texts->source, error) != 0) {
        return -1;
    }
    int64_t id = decode(texts, text, until_ns, error);
    if (id < 0) {
        COUNT(client, errors);
    }
    return id;
}

void leafd_texts_close(struct leafd_texts *texts)
{
    source_close(&texts->source);
}

static void forget(void *source)
{
    given_init(&((struct leafd_texts *)source)->given);
}

static void free_texts(void *source)
{
    given_free(&((struct leafd_texts *)source)->given);
}

static const struct source_kind kind = SOURCE_HOLDS_NOTHING(forget, free_texts);

static bool make(void *source)
{
    struct leafd_texts *texts = source;
    text_encode(texts->source.name, texts->name);
    forget(source);
    return true;
}

struct leafd_texts *leafd_texts(struct leafd *client, const char *tag, struct leafd_error *error)
{
    return client_source(client, &kind, tag != NULL ? tag : "", sizeof(struct leafd_texts), make,
                         error);
}
