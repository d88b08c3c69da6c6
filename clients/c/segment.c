/* See segment.h and leafd.h. The lock guards all but the range that is handed out. */
#include "segment.h"

#include "fault.h"
#include "wipe.h"

#include <stdio.h>
#include <string.h>

enum { FORGET_ERROR_MS = 1000 };

/* Ranges of one answer, of which the first ones are gone already. */
struct grant {
    struct leafd_range ranges[TEXT_RANGES_MAX];
    int at, count;
    uint64_t left, total;
};

struct leafd_segment {
    struct source source;
    struct hot *hot;
    pthread_mutex_t lock;
    pthread_cond_t changed; /* a range came, or an error, or the end */
    struct job refill;
    bool asking; /* the job is under way */
    bool stopped;
    struct grant grant; /* what follows the range that is handed out */
    struct grant spare;
    uint32_t asked_count;  /* by the last request; 0: none */
    uint64_t asked_ns;     /* when */
    uint64_t asked_handed; /* ids handed out by then */
    uint64_t published;    /* ids of all ranges until now, less what was dropped */
    unsigned waiting;      /* calls */
    uint64_t error_until_ns;
    struct leafd_error error;
    char failures[900];            /* of the request under way */
    char name[TEXT_ENCODED_BYTES]; /* as an element of a path */
};

/* --- ranges --- */

static uint64_t handed_out(struct leafd_segment *segment)
{
    return segment->published - hot_left(segment->hot);
}

/* The next range of the grant, or of the spare one, takes the place of the one that is used up. */
static bool publish_next(struct leafd_segment *segment)
{
    struct grant *grant = &segment->grant;
    if (grant->at == grant->count) {
        if (segment->spare.at == segment->spare.count) {
            return false;
        }
        *grant = segment->spare;
        segment->spare.at = segment->spare.count = 0;
    }
    const struct leafd_range *range = &grant->ranges[grant->at++];
    uint64_t size = (uint64_t)(range->last - range->first) + 1;
    grant->left -= size;
    /* Half of the grant is left when so many of this range are taken. */
    uint64_t low = HOT_NEVER_LOW;
    if (segment->spare.at == segment->spare.count) {
        uint64_t half = grant->total / 2;
        low = size + grant->left > half ? size + grant->left - half : 0;
        low = low < size ? low : HOT_NEVER_LOW;
    }
    segment->published += size;
    hot_publish(segment->hot, range, (uint32_t)low);
    return true;
}

/* --- asking for more --- */

static uint32_t next_count(struct leafd_segment *segment, uint64_t now)
{
    const struct settings *settings = &segment->source.client->settings;
    uint64_t count = settings->min_count;
    uint64_t most = settings->max_count;
    uint64_t handed = handed_out(segment);
    if (segment->asked_count > 0) {
        uint64_t passed_ns = now > segment->asked_ns ? now - segment->asked_ns : 1;
        double per_ns = (double)(handed - segment->asked_handed) / (double)passed_ns;
        double wanted = per_ns * (double)settings->cover_ms * NS_PER_MS;
        uint64_t least = segment->asked_count / 2;
        uint64_t twice = (uint64_t)segment->asked_count * 2;
        most = most > twice ? twice : most;
        count = wanted < (double)least ? least : wanted > (double)most ? most : (uint64_t)wanted;
    }
    count = count < settings->min_count ? settings->min_count : count;
    count = count > most ? most : count;
    segment->asked_count = (uint32_t)count;
    segment->asked_ns = now;
    segment->asked_handed = handed;
    return (uint32_t)count;
}

/* As long as somebody waits or ids are left. */
static bool still_wanted(void *context, const char *failures)
{
    struct leafd_segment *segment = context;
    pthread_mutex_lock(&segment->lock);
    (void)snprintf(segment->failures, sizeof segment->failures, "%s", failures);
    bool wanted = !segment->stopped &&
                  (segment->waiting > 0 || hot_left(segment->hot) + segment->grant.left > 0);
    pthread_mutex_unlock(&segment->lock);
    return wanted;
}

static int ask(struct leafd_segment *segment, uint32_t count, const char *more,
               const struct call *how, struct grant *grant, struct leafd_error *error)
{
    struct leafd *client = segment->source.client;
    char path[sizeof segment->name + 64];
    (void)snprintf(path, sizeof path, "/api/segment/get/%s?count=%u&format=range%s", segment->name,
                   count, more);
    struct call call = *how;
    call.client = client;
    call.door = &client->ids;
    call.request = (struct request){.method = "GET", .path = path};
    struct line *line;
    struct answer answer;
    if (client_call(&call, &line, &answer, error) != 0) {
        return -1;
    }
    const char *why = "its status";
    int found = -1;
    if (answer.status == 200) {
        found = text_read_ranges(answer.body, answer.body_bytes, count, grant->ranges, &why);
    }
    line_put(line);
    if (found < 0) {
        return fault(error, "bad_answer", answer.status, false, "no answer to %u ids of %s: %s",
                     count, segment->source.name, why);
    }
    grant->at = 0;
    grant->count = found;
    grant->left = grant->total = count;
    return 0;
}

/* Ask for *count; where fewer are left below the tag's max for half as many, down to one. */
static int ask_for_what_is_left(struct leafd_segment *segment, uint32_t *count, struct grant *grant,
                                struct leafd_error *error)
{
    struct call how = {.until_ns = UINT64_MAX, .wanted = still_wanted, .context = segment};
    int result = ask(segment, *count, "", &how, grant, error);
    while (result != 0 && *count > 1 && strcmp(error->code, "exhausted") == 0) {
        *count /= 2;
        result = ask(segment, *count, "", &how, grant, error);
    }
    return result;
}

/* The job. */
static void refill(void *context)
{
    struct leafd_segment *segment = context;
    struct leafd *client = segment->source.client;
    struct grant grant;
    struct leafd_error error;
    pthread_mutex_lock(&segment->lock);
    uint32_t count = next_count(segment, now_ns());
    pthread_mutex_unlock(&segment->lock);

    int result = ask_for_what_is_left(segment, &count, &grant, &error);

    pthread_mutex_lock(&segment->lock);
    segment->asking = false;
    segment->asked_count = count;
    segment->failures[0] = 0;
    if (result == 0 && !segment->stopped) {
        segment->spare = grant;
        if (hot_left(segment->hot) == 0) {
            (void)publish_next(segment);
        }
    } else if (result == 0) {
        ADD(client, burnt, count);
    } else if (strcmp(error.code, "unreachable") != 0 && strcmp(error.code, "closed") != 0) {
        segment->error = error;
        segment->error_until_ns = now_ns() + (uint64_t)FORGET_ERROR_MS * NS_PER_MS;
        COUNT(client, errors);
    }
    pthread_cond_broadcast(&segment->changed);
    pthread_mutex_unlock(&segment->lock);
}

/* Begin a request, unless one is under way or has just failed. With the lock. */
static bool want(struct leafd_segment *segment)
{
    if (segment->asking) {
        return true;
    }
    if (segment->stopped || segment->spare.at < segment->spare.count ||
        now_ns() < segment->error_until_ns) {
        return false;
    }
    segment->refill.run = refill;
    segment->refill.context = segment;
    segment->asking = client_start_job(segment->source.client, &segment->refill);
    return segment->asking;
}

static void want_more(struct leafd_segment *segment)
{
    pthread_mutex_lock(&segment->lock);
    (void)want(segment);
    pthread_mutex_unlock(&segment->lock);
}

/* --- taking --- */

/* Without a range: wait for one; 0, or -1. With the lock. */
static int wait_for_range(struct leafd_segment *segment, uint64_t until_ns,
                          struct leafd_error *error)
{
    while (hot_left(segment->hot) == 0 && !publish_next(segment)) {
        if (segment->stopped || atomic_load(&segment->source.client->closed)) {
            return fault(error, "closed", 0, false, "the client was closed");
        }
        if (!want(segment)) {
            if (now_ns() < segment->error_until_ns && error != NULL) {
                *error = segment->error;
            } else if (now_ns() >= segment->error_until_ns) {
                (void)fault(error, "no_memory", 0, true, "no thread can be started");
            }
            return -1;
        }
        if (!condition_wait(&segment->changed, &segment->lock, until_ns) &&
            hot_left(segment->hot) == 0) {
            const char *failures = segment->failures[0] != 0 ? segment->failures : "none has yet";
            return fault(error, "unreachable", 0, true, "no node answered by the deadline: %s",
                         failures);
        }
    }
    return 0;
}

/* Make sure that there is a range, in a child of fork, too. */
static int find_range(struct leafd_segment *segment, uint64_t until_ns, struct leafd_error *error)
{
    struct leafd *client = segment->source.client;
    if (client_enter(client, error) != 0) {
        return -1;
    }
    pthread_mutex_lock(&segment->lock);
    int result = 0;
    if (hot_left(segment->hot) == 0 && !publish_next(segment)) {
        COUNT(client, waits);
        segment->waiting++;
        result = wait_for_range(segment, until_ns, error);
        segment->waiting--;
    }
    /* A range that begins with less than half. */
    if (result == 0 && segment->spare.at == segment->spare.count &&
        (hot_left(segment->hot) + segment->grant.left) * 2 < segment->grant.total) {
        (void)want(segment);
    }
    pthread_mutex_unlock(&segment->lock);
    if (result != 0) {
        COUNT(client, errors);
    }
    return result;
}

int leafd_segment_take(struct leafd_segment *segment, size_t count, int64_t *ids,
                       uint32_t deadline_ms, struct leafd_error *error)
{
    uint64_t until_ns = 0; /* the clock is read when there is something to wait for */
    size_t done = 0;
    while (done < count) {
        int64_t first;
        bool low;
        uint32_t part = count - done < TEXT_COUNT_MAX ? (uint32_t)(count - done) : TEXT_COUNT_MAX;
        uint32_t taken = hot_take(segment->hot, part, &first, &low);
        if (low) {
            want_more(segment);
        }
        for (uint32_t i = 0; i < taken; i++) {
            ids[done++] = first + i;
        }
        if (taken > 0) {
            continue;
        }
        until_ns = until_ns > 0 ? until_ns : client_until_ns(segment->source.client, deadline_ms);
        if (find_range(segment, until_ns, error) != 0) {
            return -1;
        }
    }
    return 0;
}

int64_t leafd_segment_next(struct leafd_segment *segment, struct leafd_error *error)
{
    int64_t id;
    bool low;
    if (__builtin_expect(hot_take(segment->hot, 1, &id, &low) == 1, 1)) {
        if (__builtin_expect(low, 0)) {
            want_more(segment);
        }
        return id;
    }
    return leafd_segment_take(segment, 1, &id, 0, error) == 0 ? id : -1;
}

int leafd_segment_range(struct leafd_segment *segment, uint32_t count, struct leafd_range *range,
                        uint32_t deadline_ms, struct leafd_error *error)
{
    struct leafd *client = segment->source.client;
    struct call how = {.until_ns = client_until_ns(client, deadline_ms)};
    struct grant grant;
    if (client_enter(client, error) != 0) {
        return -1;
    }
    if (count < 1 || count > TEXT_COUNT_MAX) {
        COUNT(client, errors);
        return fault(error, "bad_setting", 0, false, "count=%u must be from 1 to %d", count,
                     TEXT_COUNT_MAX);
    }
    COUNT(client, waits);
    int result = ask(segment, count, "&contiguous=1", &how, &grant, error);
    if (result == 0 && grant.count != 1) {
        result = fault(error, "bad_answer", 200, false, "%d ranges where one was asked for",
                       grant.count);
    }
    if (result != 0) {
        COUNT(client, errors);
        return -1;
    }
    ADD(client, ids_segment, count);
    *range = grant.ranges[0];
    return 0;
}

/* --- as a source of the client --- */

static void forget(void *source)
{
    struct leafd_segment *segment = source;
    pthread_mutex_init(&segment->lock, NULL);
    condition_init(&segment->changed);
    segment->asking = false;
    segment->grant.at = segment->grant.count = 0;
    segment->spare.at = segment->spare.count = 0;
    segment->grant.left = segment->grant.total = 0;
    segment->asked_count = 0;
    segment->published = 0;
    segment->waiting = 0;
    segment->error_until_ns = 0;
    segment->failures[0] = 0;
}

static void stop(void *source)
{
    struct leafd_segment *segment = source;
    pthread_mutex_lock(&segment->lock);
    segment->stopped = true;
    uint64_t left = hot_end(segment->hot);
    segment->published -= left;
    left += segment->grant.left;
    for (int i = segment->spare.at; i < segment->spare.count; i++) {
        left += (uint64_t)(segment->spare.ranges[i].last - segment->spare.ranges[i].first) + 1;
    }
    ADD(segment->source.client, burnt, left);
    segment->grant.at = segment->grant.count = segment->spare.at = segment->spare.count = 0;
    segment->grant.left = 0;
    pthread_cond_broadcast(&segment->changed);
    pthread_mutex_unlock(&segment->lock);
}

static void free_segment(void *source)
{
    struct leafd_segment *segment = source;
    wipe_free(segment->hot, sizeof *segment->hot);
    pthread_cond_destroy(&segment->changed);
    pthread_mutex_destroy(&segment->lock);
}

/* stop() has done all. */
static const struct source_kind kind = {forget, stop, source_nothing, free_segment};

static bool make(void *source)
{
    struct leafd_segment *segment = source;
    segment->hot = wipe_new(sizeof *segment->hot);
    text_encode(segment->source.name, segment->name);
    forget(source);
    return segment->hot != NULL;
}

struct leafd_segment *leafd_segment(struct leafd *client, const char *tag,
                                    struct leafd_error *error)
{
    return client_source(client, &kind, tag != NULL ? tag : "", sizeof(struct leafd_segment), make,
                         error);
}

uint64_t segment_handed_out(struct source *source)
{
    if (source->kind != &kind) {
        return 0;
    }
    struct leafd_segment *segment = (struct leafd_segment *)(void *)source;
    pthread_mutex_lock(&segment->lock);
    uint64_t handed = handed_out(segment);
    pthread_mutex_unlock(&segment->lock);
    return handed;
}
