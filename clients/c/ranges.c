/* See ranges.h. */
#include "ranges.h"

#include "fault.h"

#include <stdio.h>
#include <string.h>

/* FNV-1a. Of two keys with one hash the second's answer is not compared with the first's. */
static uint64_t hash_of(const char *key)
{
    uint64_t hash = 0xcbf29ce484222325;
    for (; key != NULL && *key != 0; key++) {
        hash = (hash ^ (unsigned char)*key) * 0x100000001b3;
    }
    return key == NULL ? 0 : hash;
}

int64_t given_text(const char *text)
{
    return (int64_t)(hash_of(text) >> 1);
}

void given_init(struct given *given)
{
    pthread_mutex_init(&given->lock, NULL);
}

void given_free(struct given *given)
{
    pthread_mutex_destroy(&given->lock);
}

/* One of the last ranges that was asked for without this key has ids of it. */
static bool has_come(const struct given *given, const struct leafd_series *range,
                     uint64_t generation, uint64_t key)
{
    for (uint64_t i = 0; i < given->count && i < TEXT_RANGES_MAX; i++) {
        const struct given_range *old = &given->ranges[i];
        if (old->generation == generation && (key == 0 || old->key != key) &&
            range->first <= old->last && range->last >= old->first) {
            return true;
        }
    }
    return false;
}

/* With the lock. */
static const char *refuses(struct given *given, const struct grant *grant, uint64_t key)
{
    if (grant->generation > 0 && grant->generation < given->generation) {
        return "its answer is of an older generation than one before";
    }
    if (grant->generation > given->generation) {
        given->generation = grant->generation;
        given->above = 0;
    }
    for (int i = 0; i < grant->count; i++) {
        if (has_come(given, &grant->ranges[i], grant->generation, key)) {
            return "its answer has ids that came before";
        }
    }
    for (int i = 0; i < grant->count; i++) {
        const struct leafd_series *range = &grant->ranges[i];
        given->ranges[given->count++ % TEXT_RANGES_MAX] =
            (struct given_range){grant->generation, range->first, range->last, key};
        if (grant->generation == given->generation && (uint64_t)range->last >= given->above) {
            given->above = (uint64_t)range->last + 1;
        }
    }
    return NULL;
}

const char *given_refuses(struct given *given, const struct grant *grant, const char *key)
{
    pthread_mutex_lock(&given->lock);
    const char *why = refuses(given, grant, hash_of(key));
    pthread_mutex_unlock(&given->lock);
    return why;
}

/* An answer to be read. */
struct reading {
    const struct ranges_request *request;
    bool stepped;
    struct grant *grant;
    const char *wrong; /* it is none to this request; NULL: it is */
};

static const char *refuses_answer(void *taker, const struct answer *answer)
{
    struct reading *reading = taker;
    const struct ranges_request *request = reading->request;
    struct grant *grant = reading->grant;
    int found = -1;
    reading->wrong = "its status";
    if (answer->status == 200) {
        found = text_read_ranges(answer->body, answer->body_bytes, request->count, reading->stepped,
                                 grant->ranges, &reading->wrong);
    }
    if (found > 1 && request->one) {
        reading->wrong = "several ranges";
        found = -1;
    }
    if (found < 0) {
        return NULL;
    }
    reading->wrong = NULL;
    grant->at = 0;
    grant->count = found;
    grant->left = grant->total = request->count;
    grant->asked_ns = answer->asked_ns;
    grant->generation = answer->generation;
    grant->replayed = answer->replayed;
    return request->refuses(request->taker, grant);
}

static int ask_once(const struct ranges_request *request, const struct call *how, bool stepped,
                    struct grant *grant, struct leafd_error *error)
{
    struct leafd *client = request->source->client;
    char path[TEXT_ENCODED_BYTES + 96];
    (void)snprintf(path, sizeof path, "/api/segment/get/%s?count=%u&format=range%s%s",
                   request->path, request->count, request->options, stepped ? "&stepped=1" : "");
    struct reading reading = {.request = request, .stepped = stepped, .grant = grant};
    struct call call = *how;
    call.client = client;
    call.door = &client->ids;
    call.request = (struct request){.method = "GET", .path = path, .key = request->key};
    call.range_ids = request->count;
    call.refuses = refuses_answer;
    call.taker = &reading;
    struct line *line;
    struct answer answer;
    if (client_call(&call, &line, &answer, error) != 0) {
        return -1;
    }
    line_put(line);
    if (reading.wrong != NULL) {
        return fault(error, "bad_answer", answer.status, false, "no answer to %u ids of %s: %s",
                     request->count, request->source->name, reading.wrong);
    }
    return 0;
}

int ranges_ask(const struct ranges_request *request, const struct call *how, struct grant *grant,
               struct leafd_error *error)
{
    struct leafd_error own;
    error = error != NULL ? error : &own;
    bool stepped = atomic_load(request->stepped) && !request->plain_only;
    int result = ask_once(request, how, stepped, grant, error);
    if (result != 0 && !stepped && !request->plain_only && strcmp(error->code, "stepped") == 0) {
        atomic_store(request->stepped, true);
        result = ask_once(request, how, true, grant, error);
    }
    return result;
}
