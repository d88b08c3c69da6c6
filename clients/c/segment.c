/* See segment.h and leafd.h. The lock guards all but the range that is handed out. */
#include "segment.h"

#include "fault.h"
#include "ranges.h"
#include "wipe.h"

#include <stdio.h>
#include <string.h>

enum { FORGET_ERROR_MS = 1000 };

struct leafd_segment {
    struct source source;
    struct hot *hot;
    pthread_mutex_t lock;
    pthread_cond_t changed;           /* a range came, or an error, or the end */
    struct job refill, hedge;         /* the request, and the second one beside it */
    bool asking, hedging;             /* they are under way */
    struct progress progress, second; /* of the two */
    bool told_failure;                /* refill_failed was reported, recovered was not yet */
    struct grant grant;               /* what follows the range that is handed out */
    struct grant spare;
    uint64_t answers;      /* that came */
    uint64_t refill_from;  /* of these, when the request was begun */
    uint64_t hedge_from;   /* and the second one */
    uint64_t hedged_ns;    /* when the attempt began beside which that was sent */
    int64_t highest;       /* id of the last answer that was kept */
    struct given given;    /* generation: the newest, of which alone it holds ids */
    uint64_t paused_ns;    /* when a node said last that the tag is; 0: none did */
    uint32_t asked_count;  /* by the last request; 0: none */
    uint64_t asked_ns;     /* when */
    uint64_t asked_handed; /* ids handed out by then */
    uint64_t dry_ns;       /* time since then in which calls waited with nothing held */
    uint64_t dry_since_ns; /* they do since then; 0: they do not */
    uint64_t published;    /* ids of all ranges until now, less what was dropped */
    unsigned waiting;      /* calls */
    uint64_t error_until_ns;
    struct leafd_error error;
    struct leafd_error late;       /* of the request under way, if it ended now */
    char path[TEXT_ENCODED_BYTES]; /* the name as an element of a path */
    atomic_bool stepped;
};

/* --- ranges --- */

static uint64_t handed_out(struct leafd_segment *segment)
{
    return segment->published - hot_left(segment->hot);
}

static bool has_spare(const struct leafd_segment *segment)
{
    return segment->spare.at < segment->spare.count;
}

static uint64_t drop_grant(struct grant *grant)
{
    uint64_t left = grant->left;
    grant->at = grant->count = 0;
    grant->left = 0;
    return left;
}

/* Drop the ranges that were asked for up to then; how many ids. */
static uint64_t drop_asked_by(struct leafd_segment *segment, uint64_t asked_ns)
{
    uint64_t dropped = 0;
    if (segment->grant.asked_ns <= asked_ns) {
        dropped = hot_end(segment->hot);
        segment->published -= dropped;
        dropped += drop_grant(&segment->grant);
    }
    if (segment->spare.asked_ns <= asked_ns) {
        dropped += drop_grant(&segment->spare);
    }
    ADD(segment->source.client, burnt, dropped);
    return dropped;
}

/* When what is held was asked for, the oldest of it; UINT64_MAX: nothing is held. */
static uint64_t oldest_ns(struct leafd_segment *segment)
{
    uint64_t oldest = UINT64_MAX;
    if (hot_left(segment->hot) + segment->grant.left > 0) {
        oldest = segment->grant.asked_ns;
    }
    if (has_spare(segment) && segment->spare.asked_ns < oldest) {
        oldest = segment->spare.asked_ns;
    }
    return oldest;
}

/* The next range of the grant, or of the spare one, takes the place of the one that is used up. */
static bool publish_next(struct leafd_segment *segment)
{
    struct grant *grant = &segment->grant;
    if (grant->at == grant->count) {
        if (!has_spare(segment)) {
            return false;
        }
        *grant = segment->spare;
        (void)drop_grant(&segment->spare);
    }
    const struct leafd_series *range = &grant->ranges[grant->at++];
    uint64_t size = text_ids_of(range);
    grant->left -= size;
    /* Half of the grant is left when so many of this range are taken. */
    uint64_t low = HOT_NEVER_LOW;
    if (!has_spare(segment)) {
        uint64_t half = grant->total / 2;
        low = size + grant->left > half ? size + grant->left - half : 0;
        low = low < size ? low : HOT_NEVER_LOW;
    }
    segment->published += size;
    hot_publish(segment->hot, range, (uint32_t)low);
    return true;
}

/* --- asking for more --- */

/* Calls wait, and nothing is held, since now; or they do not any more. */
static void set_dry(struct leafd_segment *segment, bool dry)
{
    uint64_t now = now_ns();
    if (segment->dry_since_ns > 0) {
        segment->dry_ns += now - segment->dry_since_ns;
    }
    segment->dry_since_ns = dry ? now : 0;
}

/* By the ids handed out since the last request, and the time in which that was possible. */
static uint32_t next_count(struct leafd_segment *segment)
{
    const struct settings *settings = &segment->source.client->settings;
    uint64_t count = settings->min_count;
    uint64_t most = settings->max_count;
    uint64_t handed = handed_out(segment);
    uint64_t now = now_ns();
    set_dry(segment, segment->dry_since_ns > 0);
    if (segment->asked_count > 0) {
        uint64_t passed_ns = now - segment->asked_ns;
        passed_ns = passed_ns > segment->dry_ns ? passed_ns - segment->dry_ns : 1;
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
    segment->dry_ns = 0;
    return (uint32_t)count;
}

/* The source is without new ranges, which is reported once; then it has one again. */
static void tell_failure(struct leafd_segment *segment, const char *code)
{
    pthread_mutex_lock(&segment->lock);
    bool recovered = code == NULL && segment->told_failure;
    bool failed = code != NULL && !segment->told_failure;
    segment->told_failure = code != NULL;
    pthread_mutex_unlock(&segment->lock);
    if (recovered || failed) {
        client_event(segment->source.client,
                     (struct leafd_event){.kind = failed ? "refill_failed" : "recovered",
                                          .name = segment->source.name,
                                          .code = code});
    }
}

/* As long as nothing has come, and somebody waits or ids are left. */
static bool still_wanted(void *context, const struct leafd_error *error, unsigned rounds)
{
    struct leafd_segment *segment = context;
    pthread_mutex_lock(&segment->lock);
    segment->late = *error;
    bool wanted = !atomic_load(&segment->source.closed) &&
                  segment->answers == segment->refill_from &&
                  (segment->waiting > 0 || hot_left(segment->hot) + segment->grant.left > 0);
    pthread_mutex_unlock(&segment->lock);
    if (rounds > 0) {
        tell_failure(segment, error->code);
    }
    return wanted;
}

static bool second_is_wanted(void *context, const struct leafd_error *error, unsigned rounds)
{
    struct leafd_segment *segment = context;
    (void)error;
    (void)rounds;
    pthread_mutex_lock(&segment->lock);
    bool wanted = !atomic_load(&segment->source.closed) &&
                  segment->answers == segment->hedge_from && segment->waiting > 0;
    pthread_mutex_unlock(&segment->lock);
    return wanted;
}

/* An answer of a newer generation ends what is held. */
static const char *refuses(void *taker, const struct grant *grant)
{
    struct leafd_segment *segment = taker;
    uint64_t dropped = 0;
    pthread_mutex_lock(&segment->lock);
    uint64_t before = segment->given.generation;
    const char *why = given_refuses(&segment->given, grant, NULL);
    if (segment->given.generation > before) {
        /* What was held when no answer had one yet is as good as this. */
        dropped = before > 0 ? drop_asked_by(segment, UINT64_MAX) : 0;
    }
    pthread_mutex_unlock(&segment->lock);
    if (dropped > 0) {
        client_event(segment->source.client, (struct leafd_event){.kind = "generation",
                                                                  .name = segment->source.name,
                                                                  .ids = dropped});
    }
    return why;
}

/* A tag that is paused: what is held of it, or was asked for by now, is not handed out. With the
 * lock. */
static void drop_if_paused(struct leafd_segment *segment, const struct leafd_error *error)
{
    if (strcmp(error->code, "paused") == 0) {
        segment->paused_ns = now_ns();
        (void)drop_asked_by(segment, UINT64_MAX);
    }
}

/* Ask for *count; where fewer are left below the tag's max for half as many, down to one. */
static int ask_for_what_is_left(struct leafd_segment *segment, uint32_t *count,
                                const struct call *how, struct grant *grant,
                                struct leafd_error *error)
{
    struct ranges_request request = {
        .source = &segment->source,
        .refuses = refuses,
        .taker = segment,
        .path = segment->path,
        .count = *count,
        .options = "",
        .stepped = &segment->stepped,
    };
    int result = ranges_ask(&request, how, grant, error);
    while (result != 0 && request.count > 1 && strcmp(error->code, "exhausted") == 0) {
        request.count /= 2;
        result = ranges_ask(&request, how, grant, error);
    }
    *count = request.count;
    return result;
}

/* Keep what an answer brought, if there is room; not what is late, and below what came in its
 * place. False: it is burnt, and the source has no ids by another answer either. With the lock. */
static bool keep_grant(struct leafd_segment *segment, const struct grant *grant, bool late)
{
    struct leafd *client = segment->source.client;
    bool older = (grant->generation > 0 && grant->generation < segment->given.generation) ||
                 grant->asked_ns <= segment->paused_ns;
    bool below = late && grant->ranges[0].first < segment->highest;
    if (atomic_load(&segment->source.closed) || older || below || has_spare(segment)) {
        ADD(client, burnt, grant->left);
        return !older;
    }
    segment->answers++;
    segment->highest = grant->ranges[grant->count - 1].last;
    segment->spare = *grant;
    if (hot_left(segment->hot) == 0) {
        (void)publish_next(segment);
    }
    set_dry(segment, false);
    client_ages_at(client, grant->asked_ns + client->settings.max_age_ms * NS_PER_MS);
    return true;
}

/* The job. */
static void refill(void *context)
{
    struct leafd_segment *segment = context;
    struct grant grant;
    struct leafd_error error;
    struct call how = {.until_ns = UINT64_MAX,
                       .wanted = still_wanted,
                       .context = segment,
                       .progress = &segment->progress};
    pthread_mutex_lock(&segment->lock);
    uint32_t count = next_count(segment);
    pthread_mutex_unlock(&segment->lock);

    int result = ask_for_what_is_left(segment, &count, &how, &grant, &error);

    pthread_mutex_lock(&segment->lock);
    bool given_up = result != 0 && (fault_is_late(&error) || atomic_load(&segment->source.closed));
    bool second_came = segment->answers != segment->refill_from;
    bool kept = false;
    segment->asking = false;
    segment->late.code[0] = 0;
    if (result == 0) {
        segment->asked_count = second_came ? segment->asked_count : count;
        kept = keep_grant(segment, &grant, second_came);
    } else if (!given_up) {
        drop_if_paused(segment, &error);
        segment->error = error;
        segment->error_until_ns = now_ns() + (uint64_t)FORGET_ERROR_MS * NS_PER_MS;
    }
    pthread_cond_broadcast(&segment->changed);
    pthread_mutex_unlock(&segment->lock);
    if (kept || (result != 0 && !given_up)) {
        tell_failure(segment, kept ? NULL : error.code);
    }
}

/* The second request: by whichever answer comes first the source is asked from then on. */
static void ask_second(void *context)
{
    struct leafd_segment *segment = context;
    struct leafd *client = segment->source.client;
    struct grant grant;
    struct leafd_error error;
    struct call how = {.until_ns = UINT64_MAX,
                       .wanted = second_is_wanted,
                       .context = segment,
                       .progress = &segment->second,
                       .is_second = true,
                       .not_at = atomic_load(&segment->progress.at)};
    pthread_mutex_lock(&segment->lock);
    /* The first one may be late for a range that another second request has brought meanwhile. */
    uint32_t count =
        segment->answers == segment->refill_from ? segment->asked_count : next_count(segment);
    pthread_mutex_unlock(&segment->lock);

    int result = ask_for_what_is_left(segment, &count, &how, &grant, &error);

    pthread_mutex_lock(&segment->lock);
    bool late = segment->answers != segment->hedge_from;
    bool kept = result == 0 && keep_grant(segment, &grant, late);
    bool first = kept && !late && segment->asking;
    segment->hedging = false;
    if (result != 0) {
        drop_if_paused(segment, &error);
    }
    pthread_cond_broadcast(&segment->changed);
    pthread_mutex_unlock(&segment->lock);
    if (first) {
        struct nodes *nodes = door_nodes(&client->ids, false, 0, NULL);
        unsigned from = (unsigned)(how.not_at % NODES_MAX);
        unsigned to = (unsigned)(atomic_load(&segment->second.at) % NODES_MAX);
        if (client_spot(nodes, from) == how.not_at &&
            client_spot(nodes, to) == atomic_load(&segment->second.at)) {
            client_leave_node(client, &client->ids, nodes, from, to);
        }
        nodes_put(&client->ids, nodes);
    }
    if (kept) {
        tell_failure(segment, NULL);
    }
}

/* Begin a request, unless one is under way or has just failed. With the lock. */
static bool want(struct leafd_segment *segment)
{
    if (segment->asking) {
        return true;
    }
    if (atomic_load(&segment->source.closed) || has_spare(segment) ||
        now_ns() < segment->error_until_ns) {
        return false;
    }
    segment->refill.run = refill;
    segment->refill.context = segment;
    segment->refill_from = segment->answers;
    segment->asking = client_start_job(segment->source.client, &segment->refill);
    return segment->asking;
}

static void want_more(struct leafd_segment *segment)
{
    pthread_mutex_lock(&segment->lock);
    (void)want(segment);
    pthread_mutex_unlock(&segment->lock);
}

/* A call waits: begin a second request if the first has taken so long. When to come again at the
 * latest. With the lock. */
static uint64_t want_second(struct leafd_segment *segment)
{
    struct leafd *client = segment->source.client;
    unsigned at;
    struct nodes *nodes = door_nodes(&client->ids, false, 0, &at);
    bool alone = nodes_in_tier(nodes, at) == 1;
    nodes_put(&client->ids, nodes);
    if (segment->hedging || !segment->asking || alone) {
        return UINT64_MAX;
    }
    uint64_t now = now_ns();
    uint64_t patience_ns = client_patience_ns(client);
    uint64_t since_ns = atomic_load(&segment->progress.since_ns);
    if (since_ns == 0 || now < since_ns + patience_ns) {
        return (since_ns == 0 ? now : since_ns) + patience_ns;
    }
    if (since_ns == segment->hedged_ns && segment->answers == segment->hedge_from) {
        return now + patience_ns; /* one beside each attempt, unless it has brought something */
    }
    segment->hedged_ns = since_ns;
    segment->hedge.run = ask_second;
    segment->hedge.context = segment;
    segment->hedge_from = segment->answers;
    segment->hedging = client_start_job(client, &segment->hedge);
    if (segment->hedging) {
        COUNT(client, hedges);
    }
    return now + patience_ns;
}

/* --- taking --- */

/* Without a range: wait for one; 0, or -1. With the lock. */
static int wait_for_range(struct leafd_segment *segment, uint64_t until_ns,
                          struct leafd_error *error)
{
    while (hot_left(segment->hot) == 0 && !publish_next(segment)) {
        if (atomic_load(&segment->source.closed)) {
            return fault(error, "closed", 0, false, "the client, or this source, was closed");
        }
        if (!want(segment)) {
            if (now_ns() < segment->error_until_ns && error != NULL) {
                *error = segment->error;
            } else if (now_ns() >= segment->error_until_ns) {
                (void)fault(error, "no_memory", 0, true, "no thread can be started");
            }
            return -1;
        }
        if (segment->dry_since_ns == 0) {
            set_dry(segment, true);
        }
        uint64_t look_ns = want_second(segment);
        condition_wait_news(&segment->changed, &segment->lock,
                            look_ns < until_ns ? look_ns : until_ns);
        if (now_ns() >= until_ns && hot_left(segment->hot) == 0) {
            const struct leafd_error *late = &segment->late;
            bool asked = late->code[0] != 0;
            return fault(error, asked ? late->code : "unreachable", late->status, true, "%s",
                         asked ? late->message : "no node answered by the deadline: none has yet");
        }
    }
    return 0;
}

/* Make sure that there is a range, in a child of fork, too. */
static int find_range(struct leafd_segment *segment, uint64_t until_ns, struct leafd_error *error)
{
    struct leafd *client = segment->source.client;
    if (source_enter(&segment->source, error) != 0) {
        return -1;
    }
    pthread_mutex_lock(&segment->lock);
    int result = 0;
    if (hot_left(segment->hot) == 0 && !publish_next(segment)) {
        COUNT(client, waits);
        segment->waiting++;
        result = wait_for_range(segment, until_ns, error);
        if (--segment->waiting == 0) {
            set_dry(segment, false);
        }
    }
    /* A range that begins with less than half. */
    if (result == 0 && !has_spare(segment) &&
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
        struct hot_taken taken;
        uint32_t part = count - done < TEXT_COUNT_MAX ? (uint32_t)(count - done) : TEXT_COUNT_MAX;
        uint32_t found = hot_take(segment->hot, part, &taken);
        if (taken.low) {
            want_more(segment);
        }
        for (uint32_t i = 0; i < found; i++) {
            ids[done++] = taken.first + i * taken.increment;
        }
        if (found > 0) {
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
    struct hot_taken taken;
    if (__builtin_expect(hot_take(segment->hot, 1, &taken) == 1, 1)) {
        if (__builtin_expect(taken.low, 0)) {
            want_more(segment);
        }
        return taken.first;
    }
    return leafd_segment_take(segment, 1, &id, 0, error) == 0 ? id : -1;
}

static int take_range(struct leafd_segment *segment, uint32_t count, bool plain_only,
                      struct leafd_series *series, uint32_t deadline_ms, struct leafd_error *error)
{
    struct leafd *client = segment->source.client;
    struct call how = {.until_ns = client_until_ns(client, deadline_ms)};
    struct ranges_request request = {
        .source = &segment->source,
        .refuses = refuses,
        .taker = segment,
        .path = segment->path,
        .count = count,
        .options = "&contiguous=1",
        .stepped = &segment->stepped,
        .one = true,
        .plain_only = plain_only,
    };
    struct grant grant;
    struct leafd_error own;
    error = error != NULL ? error : &own;
    if (source_enter(&segment->source, error) != 0) {
        return -1;
    }
    if (count < 1 || count > TEXT_COUNT_MAX) {
        COUNT(client, errors);
        return fault(error, "bad_setting", 0, false, "count=%u must be from 1 to %d", count,
                     TEXT_COUNT_MAX);
    }
    COUNT(client, waits);
    int result = ranges_ask(&request, &how, &grant, error);
    if (result != 0) {
        COUNT(client, errors);
        pthread_mutex_lock(&segment->lock);
        drop_if_paused(segment, error);
        pthread_mutex_unlock(&segment->lock);
        return -1;
    }
    ADD(client, ids_segment, count);
    *series = grant.ranges[0];
    return 0;
}

int leafd_segment_series(struct leafd_segment *segment, uint32_t count, struct leafd_series *series,
                         uint32_t deadline_ms, struct leafd_error *error)
{
    return take_range(segment, count, false, series, deadline_ms, error);
}

int leafd_segment_range(struct leafd_segment *segment, uint32_t count, struct leafd_range *range,
                        uint32_t deadline_ms, struct leafd_error *error)
{
    struct leafd_series series;
    if (take_range(segment, count, true, &series, deadline_ms, error) != 0) {
        return -1;
    }
    *range = (struct leafd_range){series.first, series.last};
    return 0;
}

/* --- as a source of the client --- */

static void forget(void *source)
{
    struct leafd_segment *segment = source;
    pthread_mutex_init(&segment->lock, NULL);
    given_init(&segment->given);
    condition_init(&segment->changed);
    segment->asking = segment->hedging = segment->told_failure = false;
    (void)drop_grant(&segment->grant);
    (void)drop_grant(&segment->spare);
    segment->grant.total = 0;
    segment->asked_count = 0;
    segment->dry_ns = segment->dry_since_ns = 0;
    segment->published = 0;
    segment->waiting = 0;
    segment->error_until_ns = 0;
    segment->late.code[0] = 0;
}

static void stop(void *source)
{
    struct leafd_segment *segment = source;
    pthread_mutex_lock(&segment->lock);
    (void)drop_asked_by(segment, UINT64_MAX);
    pthread_cond_broadcast(&segment->changed);
    pthread_mutex_unlock(&segment->lock);
}

static uint64_t age(void *source, uint64_t now)
{
    struct leafd_segment *segment = source;
    uint64_t most_ns = segment->source.client->settings.max_age_ms * NS_PER_MS;
    pthread_mutex_lock(&segment->lock);
    uint64_t dropped = now > most_ns ? drop_asked_by(segment, now - most_ns) : 0;
    uint64_t oldest = oldest_ns(segment);
    pthread_mutex_unlock(&segment->lock);
    if (dropped > 0) {
        client_event(
            segment->source.client,
            (struct leafd_event){.kind = "aged", .name = segment->source.name, .ids = dropped});
    }
    return oldest == UINT64_MAX ? oldest : oldest + most_ns;
}

static bool gauge_held(void *source, struct leafd_gauge *gauge, char name[SOURCE_NAME_BYTES])
{
    (void)name;
    struct leafd_segment *segment = source;
    pthread_mutex_lock(&segment->lock);
    uint64_t oldest = oldest_ns(segment);
    gauge->ids_left = hot_left(segment->hot) + segment->grant.left + segment->spare.left;
    gauge->age_ms = oldest == UINT64_MAX ? 0 : (now_ns() - oldest) / NS_PER_MS;
    pthread_mutex_unlock(&segment->lock);
    return true;
}

static void free_segment(void *source)
{
    struct leafd_segment *segment = source;
    wipe_free(segment->hot, sizeof *segment->hot);
    pthread_cond_destroy(&segment->changed);
    pthread_mutex_destroy(&segment->lock);
    given_free(&segment->given);
}

/* stop() has done all. */
static const struct source_kind kind = {
    .forget = forget,
    .stop = stop,
    .finish = source_nothing,
    .free = free_segment,
    .age = age,
    .gauge = gauge_held,
};

static bool make(void *source)
{
    struct leafd_segment *segment = source;
    segment->hot = wipe_new(sizeof *segment->hot);
    text_encode(segment->source.name, segment->path);
    forget(source);
    return segment->hot != NULL;
}

struct leafd_segment *leafd_segment(struct leafd *client, const char *tag,
                                    struct leafd_error *error)
{
    return client_source(client, &kind, tag != NULL ? tag : "", sizeof(struct leafd_segment), make,
                         error);
}

void leafd_segment_close(struct leafd_segment *segment)
{
    source_close(&segment->source);
}

void segment_renew(struct source *source, const char *tag, uint64_t generation)
{
    if (source->kind == &kind && strcmp(source->name, tag) == 0) {
        struct leafd_segment *segment = (struct leafd_segment *)(void *)source;
        pthread_mutex_lock(&segment->lock);
        (void)drop_asked_by(segment, UINT64_MAX);
        segment->given.generation = generation;
        pthread_mutex_unlock(&segment->lock);
    }
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
