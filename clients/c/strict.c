/* Strict ids (docs/clients.md, Strict ids): each call is a request with a key, which all its
 * retries share. The happy path is one answer of one range. Any thread. */
#include "fault.h"
#include "ranges.h"

#include <stdio.h>

struct leafd_strict {
    struct source source;
    char path[TEXT_ENCODED_BYTES]; /* the name as an element of a path */
    atomic_bool stepped;
    struct given given;
};

/* A call, by what had come before it began. */
struct taking {
    struct leafd_strict *strict;
    const char *key;
    bool own_key; /* the call's, of which nobody else knows */
    uint64_t generation;
    uint64_t above; /* all of that generation */
};

/* An id is above all that had come before it was asked for; that of a key is older. */
static const char *refuses(void *taker, const struct grant *grant)
{
    struct taking *taking = taker;
    if ((taking->own_key || !grant->replayed) && grant->generation == taking->generation &&
        (uint64_t)grant->ranges[0].first < taking->above) {
        return "its answer has ids below some that came before";
    }
    return given_refuses(&taking->strict->given, grant, taking->key);
}

static int check(uint32_t count, const char *key, struct leafd_error *error)
{
    if (count < 1 || count > TEXT_COUNT_MAX) {
        return fault(error, "bad_setting", 0, false, "count=%u must be from 1 to %d", count,
                     TEXT_COUNT_MAX);
    }
    return text_check_key(key, error);
}

static int take(struct leafd_strict *strict, const struct ranges_request *asked,
                struct leafd_series *series, bool *replayed, uint64_t until_ns,
                struct leafd_error *error)
{
    char own[TEXT_OWN_KEY_CHARS + 1];
    struct ranges_request request = *asked;
    struct grant grant;
    struct taking taking = {.strict = strict, .own_key = request.key == NULL};
    if (taking.own_key) {
        text_make_key(own);
        request.key = own;
    }
    COUNT(strict->source.client, waits);
    pthread_mutex_lock(&strict->given.lock);
    taking.generation = strict->given.generation;
    taking.above = strict->given.above;
    pthread_mutex_unlock(&strict->given.lock);
    taking.key = request.key;
    request.refuses = refuses;
    request.taker = &taking;
    struct call how = {.until_ns = until_ns};
    int result = ranges_ask(&request, &how, &grant, error);
    if (result != 0) {
        return fault_keyed(error, request.key);
    }
    *series = grant.ranges[0];
    if (replayed != NULL) {
        *replayed = grant.replayed;
    }
    return 0;
}

static int take_checked(struct leafd_strict *strict, struct ranges_request request,
                        struct leafd_series *series, bool *replayed, uint32_t deadline_ms,
                        struct leafd_error *error)
{
    struct leafd *client = strict->source.client;
    uint64_t until_ns = client_until_ns(client, deadline_ms);
    if (source_enter(&strict->source, error) != 0) {
        return -1;
    }
    request.source = &strict->source;
    request.path = strict->path;
    request.options = "";
    request.stepped = &strict->stepped;
    request.one = true;
    int result = check(request.count, request.key, error);
    if (result == 0) {
        result = take(strict, &request, series, replayed, until_ns, error);
    }
    if (result == 0) {
        ADD(client, ids_strict, request.count);
    } else {
        COUNT(client, errors);
    }
    return result;
}

int leafd_strict_series(struct leafd_strict *strict, uint32_t count, const char *key,
                        struct leafd_series *series, bool *replayed, uint32_t deadline_ms,
                        struct leafd_error *error)
{
    return take_checked(strict, (struct ranges_request){.count = count, .key = key}, series,
                        replayed, deadline_ms, error);
}

int leafd_strict_take(struct leafd_strict *strict, uint32_t count, const char *key,
                      struct leafd_range *range, bool *replayed, uint32_t deadline_ms,
                      struct leafd_error *error)
{
    struct leafd_series series;
    struct ranges_request request = {.count = count, .key = key, .plain_only = count > 1};
    if (take_checked(strict, request, &series, replayed, deadline_ms, error) != 0) {
        return -1;
    }
    *range = (struct leafd_range){series.first, series.last};
    return 0;
}

int64_t leafd_strict_next(struct leafd_strict *strict, struct leafd_error *error)
{
    struct leafd_range range;
    return leafd_strict_take(strict, 1, NULL, &range, NULL, 0, error) == 0 ? range.first : -1;
}

void leafd_strict_close(struct leafd_strict *strict)
{
    source_close(&strict->source);
}

static void forget(void *source)
{
    given_init(&((struct leafd_strict *)source)->given);
}

static void free_strict(void *source)
{
    given_free(&((struct leafd_strict *)source)->given);
}

static const struct source_kind kind = SOURCE_HOLDS_NOTHING(forget, free_strict);

static bool make(void *source)
{
    struct leafd_strict *strict = source;
    text_encode(strict->source.name, strict->path);
    forget(source);
    return true;
}

struct leafd_strict *leafd_strict(struct leafd *client, const char *tag, struct leafd_error *error)
{
    return client_source(client, &kind, tag != NULL ? tag : "", sizeof(struct leafd_strict), make,
                         error);
}
