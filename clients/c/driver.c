/* The driver of this library for clients/conformance: a line for a line (docs/clients.md,
 * Conformance). The happy path: read a command, do it by leafd.h alone, answer. What the library
 * refuses is answered with "error"; a command that is none ends the driver with 2. */
#include "leafd.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { WORDS_MAX = 32 };

static struct leafd *leafd;

/* --- what is answered --- */

struct text {
    char *bytes;
    size_t used, room;
};

static void put(struct text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void put(struct text *text, const char *format, ...)
{
    if (text->room - text->used < 128) {
        text->room = text->room * 2 + 4096;
        text->bytes = realloc(text->bytes, text->room);
        if (text->bytes == NULL) {
            abort();
        }
    }
    va_list arguments;
    va_start(arguments, format);
    text->used += (size_t)vsnprintf(text->bytes + text->used, 128, format, arguments);
    va_end(arguments);
}

/* Ids as ranges, joined where they follow each other. */
struct ids {
    struct text text;
    bool begun;
    int64_t first, last;
};

static void flush(struct ids *ids)
{
    if (ids->begun) {
        put(&ids->text, " %" PRId64 "-%" PRId64, ids->first, ids->last);
    }
}

static void add(struct ids *ids, int64_t first, int64_t last)
{
    if (ids->begun && first == ids->last + 1) {
        ids->last = last;
        return;
    }
    flush(ids);
    ids->begun = true;
    ids->first = first;
    ids->last = last;
}

static const char *end(struct ids *ids)
{
    flush(ids);
    ids->begun = false;
    return ids->text.bytes != NULL ? ids->text.bytes : "";
}

static void answer_error(const struct leafd_error *error)
{
    char message[sizeof error->message];
    size_t i = 0;
    for (; error->message[i] != 0; i++) {
        message[i] =
            error->message[i] == '\n' || error->message[i] == '\r' ? ' ' : error->message[i];
    }
    message[i] = 0;
    printf("error %s %d %s\n", error->code, error->status, message);
}

static void answer_ids(int result, struct ids *ids, const struct leafd_error *error)
{
    if (result != 0) {
        answer_error(error);
    } else {
        printf("ids%s\n", end(ids));
    }
}

static uint64_t clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* --- commands: words[] as they came, ended by NULL --- */

static uint32_t deadline; /* of the command; 0: the client's */

static char *settings[WORDS_MAX + 1]; /* of the last open, ended by NULL */

/* --- sources: one that was closed is kept, since asking for it anew would open it again --- */

enum kind { SEGMENT, STRICT, TEXTS, SNOWFLAKE, KINDS };
static const char *const kinds[KINDS] = {"segment", "strict", "texts", "snowflake"};

static struct source {
    enum kind kind;
    char name[256];
    void *source;
    struct source *next;
} * sources;

static void *make_source(enum kind kind, const char *name, struct leafd_error *error)
{
    return kind == SEGMENT  ? (void *)leafd_segment(leafd, name, error)
           : kind == STRICT ? (void *)leafd_strict(leafd, name, error)
           : kind == TEXTS  ? (void *)leafd_texts(leafd, name, error)
                            : (void *)leafd_snowflake(leafd, name, error);
}

/* name NULL: the one whose name the library makes. */
static void *source_of(enum kind kind, const char *name, struct leafd_error *error)
{
    const char *key = name != NULL ? name : "-";
    struct source *at = sources;
    while (at != NULL && (at->kind != kind || strcmp(at->name, key) != 0)) {
        at = at->next;
    }
    if (at != NULL) {
        return at->source;
    }
    void *made = make_source(kind, name, error);
    if (made != NULL) {
        at = calloc(1, sizeof *at);
        *at = (struct source){.kind = kind, .source = made, .next = sources};
        (void)snprintf(at->name, sizeof at->name, "%s", key);
        sources = at;
    }
    return made;
}

static void forget_sources(void)
{
    while (sources != NULL) {
        struct source *at = sources;
        sources = at->next;
        free(at);
    }
}

static void do_close_source(char **words)
{
    struct leafd_error error;
    size_t kind = 0;
    while (kind + 1 < KINDS && strcmp(kinds[kind], words[1]) != 0) {
        kind++;
    }
    void *source = source_of(kind, kind == SNOWFLAKE ? NULL : words[2], &error);
    if (source == NULL) {
        answer_error(&error);
        return;
    }
    switch (kind) {
    case SEGMENT:
        leafd_segment_close(source);
        break;
    case STRICT:
        leafd_strict_close(source);
        break;
    case TEXTS:
        leafd_texts_close(source);
        break;
    default:
        leafd_snowflake_close(source);
    }
    puts("ok");
}

/* --- events --- */

static const char *const event_kinds[] = {"failover",   "refill_failed", "recovered",
                                          "fenced",     "clock_back",    "aged",
                                          "generation", "other_cluster"};
enum { EVENT_KINDS = sizeof event_kinds / sizeof event_kinds[0] };
static _Atomic unsigned events[EVENT_KINDS];

static void count_event(void *user, const struct leafd_event *event)
{
    (void)user;
    for (size_t i = 0; i < EVENT_KINDS; i++) {
        if (strcmp(event->kind, event_kinds[i]) == 0) {
            atomic_fetch_add(&events[i], 1);
        }
    }
}

static void do_events(char **words)
{
    (void)words;
    printf("events");
    for (size_t i = 0; i < EVENT_KINDS; i++) {
        unsigned count = atomic_exchange(&events[i], 0);
        if (count > 0) {
            printf(" %s %u", event_kinds[i], count);
        }
    }
    putchar('\n');
}

static void do_open(char **words)
{
    struct leafd_error error;
    forget_sources();
    for (size_t i = 0; i < WORDS_MAX; i++) {
        free(settings[i]);
        settings[i] = words[i] != NULL && words[i + 1] != NULL ? strdup(words[i + 1]) : NULL;
    }
    leafd_free(leafd);
    leafd = leafd_open((const char *const *)settings, &error);
    if (leafd == NULL) {
        answer_error(&error);
    } else {
        leafd_on_event(leafd, count_event, NULL);
        puts("ok");
    }
}

/* Take so many ids of a source, one by one. */
typedef int take_fn(const char *name, long count, struct ids *ids, struct leafd_error *error);

static void answer_taken(take_fn *take, const char *name, const char *count)
{
    struct ids ids = {0};
    struct leafd_error error;
    answer_ids(take(name, strtol(count, NULL, 10), &ids, &error), &ids, &error);
    free(ids.text.bytes);
}

static int take_segment(const char *tag, long count, struct ids *ids, struct leafd_error *error)
{
    struct leafd_segment *segment = source_of(SEGMENT, tag, error);
    int result = segment != NULL ? 0 : -1;
    for (long i = 0; i < count && result == 0; i++) {
        int64_t id = -1;
        if (deadline > 0) {
            result = leafd_segment_take(segment, 1, &id, deadline, error);
        } else {
            id = leafd_segment_next(segment, error);
            result = id < 0 ? -1 : 0;
        }
        if (result == 0) {
            add(ids, id, id);
        }
    }
    return result;
}

static void do_segment(char **words)
{
    answer_taken(take_segment, words[1], words[2]);
}

static void do_range(char **words)
{
    struct leafd_error error;
    struct leafd_series series = {0, 0, 1};
    struct leafd_segment *segment = source_of(SEGMENT, words[1], &error);
    int result = -1;
    if (segment != NULL) {
        uint32_t count = (uint32_t)strtoul(words[2], NULL, 10);
        result = leafd_segment_series(segment, count, &series, deadline, &error);
    }
    if (result != 0) {
        answer_error(&error);
        return;
    }
    printf("ids %" PRId64 "-%" PRId64, series.first, series.last);
    if (series.increment != 1) {
        printf(" step %" PRId64, series.increment);
    }
    putchar('\n');
}

static void do_strict(char **words)
{
    struct ids ids = {0};
    struct leafd_error error;
    struct leafd_series series;
    bool replayed;
    struct leafd_strict *strict = source_of(STRICT, words[1], &error);
    if (strict == NULL ||
        leafd_strict_series(strict, (uint32_t)strtoul(words[2], NULL, 10), words[3], &series,
                            &replayed, deadline, &error) != 0) {
        answer_error(&error);
        return;
    }
    if (series.increment == 1) {
        add(&ids, series.first, series.last);
    } else {
        for (int64_t id = series.first; id < series.last; id += series.increment) {
            add(&ids, id, id);
        }
        add(&ids, series.last, series.last);
    }
    printf("ids%s%s\n", end(&ids), replayed ? " replayed" : "");
    free(ids.text.bytes);
}

static void do_texts(char **words)
{
    static char into[1000][LEAFD_TEXT_BYTES];
    struct leafd_error error;
    bool replayed;
    uint32_t count = (uint32_t)strtoul(words[2], NULL, 10);
    struct leafd_texts *texts = source_of(TEXTS, words[1], &error);
    if (texts == NULL ||
        leafd_texts_take(texts, count, words[3], into, &replayed, deadline, &error) != 0) {
        answer_error(&error);
        return;
    }
    printf("texts %s", replayed ? "replayed" : "new");
    for (uint32_t i = 0; i < count; i++) {
        printf(" %s", into[i]);
    }
    putchar('\n');
}

static void do_textid(char **words)
{
    struct leafd_error error;
    struct leafd_texts *texts = source_of(TEXTS, words[1], &error);
    int64_t id = texts != NULL ? leafd_texts_decode(texts, words[2], deadline, &error) : -1;
    if (id < 0) {
        answer_error(&error);
    } else {
        printf("textid %" PRId64 "\n", id);
    }
}

static int take_strict(const char *tag, long count, struct ids *ids, struct leafd_error *error)
{
    struct leafd_range range;
    struct leafd_strict *strict = source_of(STRICT, tag, error);
    int result = strict != NULL ? 0 : -1;
    for (long i = 0; i < count && result == 0; i++) {
        result = leafd_strict_take(strict, 1, NULL, &range, NULL, deadline, error);
        if (result == 0) {
            add(ids, range.first, range.last);
        }
    }
    return result;
}

static void do_strict1(char **words)
{
    answer_taken(take_strict, words[1], words[2]);
}

static int take_snowflake(const char *name, long count, struct ids *ids, struct leafd_error *error)
{
    struct leafd_snowflake *snowflake = source_of(SNOWFLAKE, name, error);
    int result = snowflake != NULL ? 0 : -1;
    for (long i = 0; i < count && result == 0; i++) {
        int64_t id = leafd_snowflake_next_within(snowflake, deadline, error);
        result = id < 0 ? -1 : 0;
        if (result == 0) {
            add(ids, id, id);
        }
    }
    return result;
}

static void do_snowflake(char **words)
{
    answer_taken(take_snowflake, NULL, words[1]);
}

/* --- threads --- */

struct taker {
    pthread_t thread;
    const char *tag;
    long count;
    struct ids ids;
    struct leafd_error error;
    struct leafd *leafd; /* its own, for a source of its own */
    struct leafd_segment *segment;
    int result;
    bool fell;
};

static void *take_in_thread(void *context)
{
    struct taker *taker = context;
    int64_t before = -1;
    for (long i = 0; i < taker->count && taker->result == 0; i++) {
        int64_t id = leafd_segment_next(taker->segment, &taker->error);
        taker->result = id < 0 ? -1 : 0;
        taker->fell = taker->fell || (taker->result == 0 && id <= before);
        before = id;
        add(&taker->ids, id, id);
    }
    (void)end(&taker->ids);
    return NULL;
}

static void do_threads(char **words)
{
    long threads = strtol(words[1], NULL, 10);
    struct taker *takers = calloc((size_t)threads, sizeof *takers);
    struct taker *failed = NULL;
    bool fell = false;
    for (long i = 0; i < threads; i++) {
        takers[i].count = strtol(words[3], NULL, 10);
        takers[i].segment = source_of(SEGMENT, words[2], &takers[i].error);
        takers[i].result = takers[i].segment != NULL ? 0 : -1;
        pthread_create(&takers[i].thread, NULL, take_in_thread, &takers[i]);
    }
    struct ids ids = {0};
    for (long i = 0; i < threads; i++) {
        pthread_join(takers[i].thread, NULL);
        failed = takers[i].result != 0 ? &takers[i] : failed;
        fell = fell || takers[i].fell;
        char *rest = NULL;
        char *word = strtok_r(takers[i].ids.text.bytes, " ", &rest);
        for (; word != NULL; word = strtok_r(NULL, " ", &rest)) {
            char *dash;
            int64_t first = strtoll(word, &dash, 10);
            add(&ids, first, strtoll(dash + 1, NULL, 10));
        }
        free(takers[i].ids.text.bytes);
    }
    if (fell) {
        puts("fault the ids of a thread do not rise");
    } else {
        answer_ids(failed != NULL ? -1 : 0, &ids, failed != NULL ? &failed->error : NULL);
    }
    free(ids.text.bytes);
    free(takers);
}

/* --- fork --- */

/* The child's ids come by a pipe, as the text of an answer; an error as its structure. */
static void in_child(int out, take_fn *take, const char *name, long count)
{
    struct ids ids = {0};
    struct leafd_error error;
    int result = take(name, count, &ids, &error);
    (void)end(&ids);
    const char *bytes = result == 0 ? ids.text.bytes : (const char *)&error;
    size_t left = result == 0 ? ids.text.used : sizeof error;
    while (left > 0) {
        ssize_t wrote = write(out, bytes, left);
        if (wrote <= 0) {
            _exit(3);
        }
        bytes += wrote;
        left -= (size_t)wrote;
    }
    leafd_close(leafd);
    _exit(result == 0 ? 0 : 1);
}

static void do_fork_of(take_fn *take, const char *name, long count)
{
    int ends[2];
    struct ids ids = {0};
    struct leafd_error error;
    if (pipe(ends) != 0) {
        abort();
    }
    pid_t child = fork();
    if (child == 0) {
        close(ends[0]);
        in_child(ends[1], take, name, count);
    }
    close(ends[1]);
    struct text text = {0};
    char part[4096];
    ssize_t got;
    while ((got = read(ends[0], part, sizeof part)) > 0) {
        for (ssize_t i = 0; i < got; i++) {
            put(&text, "%c", part[i]);
        }
    }
    close(ends[0]);
    int status;
    waitpid(child, &status, 0);
    int result = take(name, count, &ids, &error);
    if (!WIFEXITED(status) || WEXITSTATUS(status) > 1) {
        printf("fault the child ended with %d\n", status);
    } else if (WEXITSTATUS(status) == 1) {
        puts("fault the child was refused");
    } else if (result != 0) {
        answer_error(&error);
    } else {
        printf("ids%s%s\n", text.bytes, end(&ids));
    }
    free(text.bytes);
    free(ids.text.bytes);
}

static void do_fork(char **words)
{
    do_fork_of(take_segment, words[1], strtol(words[2], NULL, 10));
}

static void do_forksnow(char **words)
{
    do_fork_of(take_snowflake, NULL, strtol(words[1], NULL, 10));
}

/* --- for so long --- */

enum {
    STEPS = 16, /* of a histogram, for each power of two */
    BUCKETS = 64 * STEPS
};

static size_t bucket_of(uint64_t ns)
{
    unsigned power = 63u - (unsigned)__builtin_clzll(ns | STEPS);
    return (power - 4) * STEPS + (size_t)(ns >> (power - 4));
}

static uint64_t bucket_end(size_t bucket)
{
    if (bucket < 2 * STEPS) {
        return bucket;
    }
    size_t power = bucket / STEPS - 1;
    return ((uint64_t)(bucket % STEPS + STEPS + 1) << power) - 1;
}

static void do_loop(char **words)
{
    static uint64_t buckets[BUCKETS];
    struct ids ids = {0};
    struct leafd_error error;
    struct leafd_segment *segment = source_of(SEGMENT, words[1], &error);
    uint64_t longest = 0, count = 0, now = clock_ns();
    uint64_t until = now + (uint64_t)strtol(words[2], NULL, 10) * 1000000000;
    int64_t id = segment != NULL ? 0 : -1;
    memset(buckets, 0, sizeof buckets);
    while (id >= 0 && now < until) {
        id = leafd_segment_next(segment, &error);
        uint64_t after = clock_ns();
        uint64_t took = after - now;
        longest = took > longest ? took : longest;
        buckets[bucket_of(took)]++;
        count++;
        add(&ids, id, id);
        now = clock_ns();
    }
    if (id < 0) {
        answer_error(&error);
    } else {
        uint64_t seen = 0, above = count / 10000;
        size_t at = BUCKETS;
        while (at > 0 && seen <= above) {
            seen += buckets[--at];
        }
        uint64_t p9999 = bucket_end(at) < longest ? bucket_end(at) : longest;
        printf("loop %" PRIu64 " %" PRIu64 " %" PRIu64 " ids%s\n", count, longest, p9999,
               end(&ids));
    }
    free(ids.text.bytes);
}

static void do_mix(char **words)
{
    struct ids ids[3] = {{{0}, 0, 0, 0}};
    struct leafd_error error;
    uint64_t until = clock_ns() + (uint64_t)strtol(words[3], NULL, 10) * 1000000000;
    int result = 0;
    while (result == 0 && clock_ns() < until) {
        result = take_segment(words[1], 1, &ids[0], &error);
        result = result == 0 ? take_strict(words[2], 1, &ids[1], &error) : result;
        result = result == 0 ? take_snowflake(NULL, 1, &ids[2], &error) : result;
    }
    if (result != 0) {
        answer_error(&error);
    } else {
        const char *first = end(&ids[0]), *second = end(&ids[1]), *third = end(&ids[2]);
        printf("mix ids%s ;%s ;%s\n", first, second, third);
    }
    for (size_t i = 0; i < 3; i++) {
        free(ids[i].text.bytes);
    }
}

/* Nanoseconds for one call, over count of them. */
static double bench(struct leafd_segment *segment, long count, struct leafd_error *error)
{
    int64_t id = 0;
    uint64_t began = clock_ns();
    for (long i = 0; i < count && id >= 0; i++) {
        id = leafd_segment_next(segment, error);
    }
    return id < 0 ? -1 : (double)(clock_ns() - began) / (double)count;
}

static void do_bench(char **words)
{
    struct leafd_error error;
    long count = strtol(words[2], NULL, 10);
    struct leafd_segment *segment = source_of(SEGMENT, words[1], &error);
    double ns = segment != NULL ? bench(segment, count / 10 + 1, &error) : -1;
    ns = ns >= 0 ? bench(segment, count, &error) : ns;
    if (ns < 0) {
        answer_error(&error);
    } else {
        printf("bench %.2f\n", ns);
    }
}

static void *bench_in_thread(void *context)
{
    struct taker *taker = context;
    taker->result = bench(taker->segment, taker->count, &taker->error) < 0 ? -1 : 0;
    return NULL;
}

/* A source each, and so a client each: all threads of one client share the source of a tag. */
static void do_benchthreads(char **words)
{
    long threads = strtol(words[1], NULL, 10), count = strtol(words[3], NULL, 10);
    struct taker *takers = calloc((size_t)threads, sizeof *takers);
    struct taker *failed = NULL;
    for (long i = 0; i < threads; i++) {
        struct taker *taker = &takers[i];
        taker->count = count;
        taker->leafd = leafd_open((const char *const *)settings, &taker->error);
        if (taker->leafd != NULL) {
            taker->segment = leafd_segment(taker->leafd, words[2], &taker->error);
        }
        failed = taker->segment == NULL ? taker : failed;
    }
    uint64_t began = clock_ns();
    for (long i = 0; i < threads && failed == NULL; i++) {
        pthread_create(&takers[i].thread, NULL, bench_in_thread, &takers[i]);
    }
    for (long i = 0; i < threads && takers[i].thread != 0; i++) {
        pthread_join(takers[i].thread, NULL);
        failed = takers[i].result != 0 ? &takers[i] : failed;
    }
    if (failed != NULL) {
        answer_error(&failed->error);
    } else {
        printf("bench %.2f\n", (double)(clock_ns() - began) / (double)(threads * count));
    }
    for (long i = 0; i < threads; i++) {
        leafd_free(takers[i].leafd);
    }
    free(takers);
}

/* --- the rest --- */

static void do_decode(char **words)
{
    struct leafd_error error;
    struct leafd_parts parts;
    struct leafd_snowflake *snowflake = source_of(SNOWFLAKE, NULL, &error);
    int64_t id = strtoll(words[1], NULL, 10);
    if (snowflake == NULL || leafd_snowflake_decode(snowflake, id, &parts, &error) != 0) {
        answer_error(&error);
        return;
    }
    printf("decode %" PRId64 " %u %u\n", parts.time_ms, parts.worker_id, parts.sequence);
}

static void do_at(char **words)
{
    struct leafd_error error;
    struct leafd_snowflake *snowflake = source_of(SNOWFLAKE, NULL, &error);
    int64_t time_ms = strtoll(words[1], NULL, 10);
    int64_t id = snowflake != NULL ? leafd_snowflake_at(snowflake, time_ms, &error) : -1;
    if (id < 0) {
        answer_error(&error);
    } else {
        printf("at %" PRId64 "\n", id);
    }
}

static void do_stats(char **words)
{
    struct leafd_stats stats;
    (void)words;
    leafd_stats(leafd, &stats, sizeof stats);
    printf("stats ids_segment=%" PRIu64 " ids_strict=%" PRIu64 " ids_snowflake=%" PRIu64
           " requests=%" PRIu64 " retries=%" PRIu64 " failovers=%" PRIu64 " errors=%" PRIu64
           " waits=%" PRIu64 " burnt=%" PRIu64 " clock_waits=%" PRIu64 " renewals=%" PRIu64
           " hedges=%" PRIu64 "\n",
           stats.ids_segment, stats.ids_strict, stats.ids_snowflake, stats.requests, stats.retries,
           stats.failovers, stats.errors, stats.waits, stats.burnt, stats.clock_waits,
           stats.renewals, stats.hedges);
}

static void do_statstext(char **words)
{
    (void)words;
    size_t bytes = leafd_stats_text(leafd, NULL, 0) + 4096;
    char *text = malloc(bytes);
    (void)leafd_stats_text(leafd, text, bytes);
    for (char *at = text; *at != 0; at++) {
        *at = *at == '\n' ? '|' : *at;
    }
    printf("statstext %s\n", text);
    free(text);
}

static void do_close(char **words)
{
    (void)words;
    leafd_close(leafd);
    puts("ok");
}

static const struct command {
    const char *name;
    int words; /* at least */
    void (*run)(char **words);
} commands[] = {
    {"open", 1, do_open},
    {"segment", 3, do_segment},
    {"range", 3, do_range},
    {"strict", 3, do_strict},
    {"texts", 3, do_texts},
    {"textid", 3, do_textid},
    {"strict1", 3, do_strict1},
    {"snowflake", 2, do_snowflake},
    {"threads", 4, do_threads},
    {"fork", 3, do_fork},
    {"forksnow", 2, do_forksnow},
    {"loop", 3, do_loop},
    {"mix", 4, do_mix},
    {"bench", 3, do_bench},
    {"benchthreads", 4, do_benchthreads},
    {"decode", 2, do_decode},
    {"at", 2, do_at},
    {"stats", 1, do_stats},
    {"statstext", 1, do_statstext},
    {"events", 1, do_events},
    {"close_source", 3, do_close_source},
    {"close", 1, do_close},
};

/* "deadline_ms=N" as the last word. */
static void read_deadline(char **words, int *count)
{
    static const char name[] = "deadline_ms=";
    deadline = 0;
    if (strcmp(words[0], "open") != 0 && strncmp(words[*count - 1], name, sizeof name - 1) == 0) {
        deadline = (uint32_t)strtoul(words[*count - 1] + sizeof name - 1, NULL, 10);
        words[--*count] = NULL;
    }
}

static bool obey(char *line)
{
    char *words[WORDS_MAX + 1] = {NULL};
    char *rest = NULL;
    int count = 0;
    for (char *word = strtok_r(line, " ", &rest); word != NULL && count < WORDS_MAX;
         word = strtok_r(NULL, " ", &rest)) {
        words[count++] = word;
    }
    if (count == 0) {
        return false;
    }
    read_deadline(words, &count);
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        bool known = strcmp(words[0], commands[i].name) == 0 && count >= commands[i].words;
        if (known && (leafd != NULL || commands[i].run == do_open)) {
            commands[i].run(words);
            return true;
        }
    }
    return false;
}

int main(void)
{
    char *line = NULL;
    size_t room = 0;
    ssize_t length;
    int code = 0;
    while (code == 0 && (length = getline(&line, &room, stdin)) > 0) {
        if (line[length - 1] == '\n') {
            line[length - 1] = 0;
        }
        if (!obey(line)) {
            fputs("driver: that is no command\n", stderr);
            code = 2;
        }
        fflush(stdout);
    }
    free(line);
    forget_sources();
    leafd_free(leafd);
    return code;
}
