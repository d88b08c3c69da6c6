/* See fake.h and leafd.h. Tags are there as they are asked for. */
#include "fake.h"

#include "fault.h"
#include "segment.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    FAKE_KEYS_MAX = 1024,
    FAKE_WORKERS_MAX = 1024,
    FAKE_SETTINGS_MAX = 64,
    FAKE_CODE_BYTES = 40
};

struct fake_tag {
    struct fake_tag *next;
    char name[TEXT_ENCODED_BYTES];
    int64_t next_id;
};

/* What a key has got. */
struct fake_key {
    char name[TEXT_ENCODED_BYTES]; /* of the tag */
    char key[TEXT_KEY_CHARS + 1];
    int64_t first;
};

struct fake {
    pthread_mutex_t lock;
    struct fake_tag *tags;
    struct fake_key keys[FAKE_KEYS_MAX]; /* the last ones */
    unsigned keys_seen;
    uint64_t generation;
    unsigned workers; /* that were granted, each once */
    uint32_t failing; /* requests that are still to fail, with this */
    int status;
    char code[FAKE_CODE_BYTES];
};

struct fake *fake_new(void)
{
    struct fake *fake = calloc(1, sizeof *fake);
    if (fake != NULL) {
        pthread_mutex_init(&fake->lock, NULL);
        fake->generation = 1;
    }
    return fake;
}

void fake_free(struct fake *fake)
{
    if (fake == NULL) {
        return;
    }
    while (fake->tags != NULL) {
        struct fake_tag *tag = fake->tags;
        fake->tags = tag->next;
        free(tag);
    }
    pthread_mutex_destroy(&fake->lock);
    free(fake);
}

/* NULL: no memory. */
static struct fake_tag *tag_of(struct fake *fake, const char *name)
{
    struct fake_tag *tag = fake->tags;
    while (tag != NULL && strcmp(tag->name, name) != 0) {
        tag = tag->next;
    }
    if (tag == NULL && (tag = calloc(1, sizeof *tag)) != NULL) {
        (void)snprintf(tag->name, sizeof tag->name, "%s", name);
        tag->next_id = 1;
        tag->next = fake->tags;
        fake->tags = tag;
    }
    return tag;
}

static void say_error(struct answer *answer, char *body, int status, const char *code)
{
    answer->status = status;
    (void)snprintf(body, ANSWER_BYTES, "{\"code\":\"%s\",\"message\":\"as the test has it\"}",
                   code);
}

static uint64_t option_of(const char *path, const char *name)
{
    const char *at = strstr(path, name);
    return at != NULL ? strtoull(at + strlen(name), NULL, 10) : 0;
}

/* The first id for a request: of its key, if that has got some. */
static int64_t grant_ids(struct fake *fake, struct fake_tag *tag, const char *key, int64_t count,
                         bool *replayed)
{
    for (unsigned i = 0; key != NULL && i < FAKE_KEYS_MAX; i++) {
        const struct fake_key *seen = &fake->keys[i];
        if (strcmp(seen->name, tag->name) == 0 && strcmp(seen->key, key) == 0) {
            *replayed = true;
            return seen->first;
        }
    }
    int64_t first = tag->next_id;
    tag->next_id += count;
    if (key != NULL) {
        struct fake_key *kept = &fake->keys[fake->keys_seen++ % FAKE_KEYS_MAX];
        memcpy(kept->name, tag->name, sizeof kept->name);
        (void)snprintf(kept->key, sizeof kept->key, "%s", key);
        kept->first = first;
    }
    return first;
}

static void say_ids(struct fake *fake, const struct request *request, struct answer *answer,
                    char *body)
{
    char name[TEXT_ENCODED_BYTES];
    const char *at = request->path + strlen("/api/segment/get/");
    int64_t count = (int64_t)option_of(at, "count=");
    (void)snprintf(name, sizeof name, "%.*s", (int)strcspn(at, "?"), at);
    struct fake_tag *tag = tag_of(fake, name);
    if (tag == NULL) {
        say_error(answer, body, 503, "no_memory");
        return;
    }
    int64_t first = grant_ids(fake, tag, request->key, count, &answer->replayed);
    answer->status = 200;
    if (strstr(at, "format=range") != NULL) {
        (void)snprintf(body, ANSWER_BYTES, "%lld %lld\n", (long long)first,
                       (long long)(first + count - 1));
        return;
    }
    for (size_t used = 0; count > 0; count--) {
        used += (size_t)snprintf(body + used, ANSWER_BYTES - used, "%lld\n", (long long)first++);
    }
}

static void say_worker(struct fake *fake, const struct request *request, struct answer *answer,
                       char *body)
{
    if (strcmp(request->method, "DELETE") == 0) {
        answer->status = 204;
        return;
    }
    bool acquires = strcmp(request->method, "POST") == 0;
    if (acquires && fake->workers == FAKE_WORKERS_MAX) {
        say_error(answer, body, 503, "no_worker_id");
        return;
    }
    json_t *json = json_loads(request->body, 0, NULL);
    json_int_t window_ms = json_integer_value(json_object_get(json, "window_ms"));
    json_int_t epoch = json_integer_value(json_object_get(json, "epoch"));
    json_decref(json);
    epoch = acquires ? (json_int_t)++fake->workers : epoch;
    answer->status = acquires ? 201 : 200;
    (void)snprintf(body, ANSWER_BYTES,
                   "{\"worker_id\":%lld,\"epoch\":%lld,\"from_ms\":0,\"until_ms\":%lld,"
                   "\"layout\":{\"epoch_ms\":1288834974657,\"time_bits\":41,\"worker_bits\":10,"
                   "\"sequence_bits\":12}}",
                   (long long)epoch - 1, (long long)epoch, (long long)(wall_ms() + window_ms));
}

static void say_number(const struct request *request, struct answer *answer, char *body)
{
    uint64_t number;
    const char *text = strstr(request->path, "text=");
    if (text == NULL || !text_to_number(text + 5, 0, INT64_MAX, &number)) {
        say_error(answer, body, 400, "bad_id");
        return;
    }
    answer->status = 200;
    (void)snprintf(body, ANSWER_BYTES, "{\"id\":\"%llu\",\"granted\":true}",
                   (unsigned long long)number);
}

enum ask fake_answer(struct fake *fake, const struct request *request, struct answer *answer,
                     char *body)
{
    static const char get[] = "/api/segment/get/", workers[] = "/api/workers";
    *answer = (struct answer){.asked_ns = now_ns(), .body = body, .why = "the connection broke"};
    body[0] = 0;
    pthread_mutex_lock(&fake->lock);
    answer->generation = fake->generation;
    bool lists = strcmp(request->path, "/api/nodes") == 0;
    bool broken = !lists && fake->failing > 0 && fake->status == 0;
    if (lists) {
        say_error(answer, body, 404, "not_found");
    } else if (fake->failing > 0) {
        fake->failing--;
        say_error(answer, body, fake->status, fake->code);
    } else if (strncmp(request->path, get, sizeof get - 1) == 0) {
        say_ids(fake, request, answer, body);
    } else if (strncmp(request->path, workers, sizeof workers - 1) == 0) {
        say_worker(fake, request, answer, body);
    } else {
        say_number(request, answer, body);
    }
    pthread_mutex_unlock(&fake->lock);
    answer->body_bytes = strlen(body);
    return broken ? ASK_FAILED : ASK_ANSWERED;
}

/* --- what a test does with it --- */

struct leafd *leafd_fake_new(const char *const *settings, struct leafd_error *error)
{
    const char *all[FAKE_SETTINGS_MAX + 1] = {"endpoints=http://127.0.0.1"};
    for (size_t i = 0; settings != NULL && settings[i] != NULL; i++) {
        if (i + 2 > FAKE_SETTINGS_MAX) {
            (void)fault(error, "bad_setting", 0, false, "a fake has fewer than %d settings",
                        FAKE_SETTINGS_MAX);
            return NULL;
        }
        all[i + 1] = settings[i];
    }
    struct fake *fake = fake_new();
    struct leafd *client = fake != NULL ? leafd_open(all, error) : NULL;
    if (fake == NULL) {
        (void)fault(error, "no_memory", 0, false, "there is no memory for a fake");
    } else if (client == NULL) {
        fake_free(fake);
    } else {
        client->lines.fake = fake;
    }
    return client;
}

void leafd_fake_set_next(struct leafd *client, const char *tag, int64_t next)
{
    struct fake *fake = client->lines.fake;
    char name[TEXT_ENCODED_BYTES];
    if (fake == NULL || !text_is_name(tag)) {
        return;
    }
    text_encode(tag, name);
    pthread_mutex_lock(&fake->lock);
    struct fake_tag *set = tag_of(fake, name);
    if (set != NULL) {
        set->next_id = next;
    }
    uint64_t generation = ++fake->generation;
    pthread_mutex_unlock(&fake->lock);
    pthread_mutex_lock(&client->lock);
    struct source *source = client->sources;
    pthread_mutex_unlock(&client->lock);
    for (; source != NULL; source = source->next) {
        segment_renew(source, tag, generation);
    }
}

void leafd_fake_fail(struct leafd *client, uint32_t times, int status, const char *code)
{
    struct fake *fake = client->lines.fake;
    if (fake != NULL) {
        pthread_mutex_lock(&fake->lock);
        fake->failing = times;
        fake->status = status;
        (void)snprintf(fake->code, sizeof fake->code, "%s", code);
        pthread_mutex_unlock(&fake->lock);
    }
}
