/*
 * snowflake_client.c - a generator of snowflake ids with a worker id from leafd's registry.
 *
 *     make examples
 *     build/examples/snowflake_client --count 5 --name billing-1 --url http://127.0.0.1:8081
 *
 * Take it as a pattern for a generator of your own: the ids are made here, in your process, and
 * leafd is asked only now and then. One rule makes them unique, whatever clocks, crashes and
 * networks do:
 *
 *     An id may carry a time t only if from_ms < t <= until_ms of the window that was granted.
 *
 * The registry never grants the same time of the same worker id twice, so two generators that keep
 * the rule cannot make the same id. It is a rule about the number in the id, not about the moment
 * at which it is made: a process that is paused between the check and the use does no harm.
 *
 * The happy path: acquire a worker id; make ids; renew the window at a third of its length; release
 * the worker id with the last time used, so that the next start need not wait for the window's end.
 *
 * Failure modes: a renewal that fails is tried again, and ids go on until the window is over.
 * Fenced off (somebody released the worker id, or another process took the name): the end at once.
 * A clock that is set back is waited for. Killed: what was granted stays used up, and the next
 * start under this name waits until the old window is over.
 *
 * Thread: one; with several, put a lock around next_id(), or give each a lease of its own name.
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <curl/curl.h>
#include <jansson.h>

/* The layout of the ids: the cluster's own, so that leafd can decode them (docs/snowflake.md). */
#define EPOCH_MS 1288834974657
#define TIME_BITS 41
#define WORKER_BITS 10
#define SEQUENCE_BITS 12

#define RANDOM_START 100 /* a millisecond begins at a random sequence below: the low bits spread */
#define ACQUIRE_PATIENCE_MS 30000 /* how long a start waits for a cluster without a leader */
#define RETRY_MS 500
#define REQUEST_TIMEOUT_MS 5000
#define REPLY_BYTES 4096

/* The pure part: no network, and the clock is a parameter. */
struct generator {
    int64_t worker_id;
    int64_t until_ms;
    int64_t last_ms;   /* highest time used; at first from_ms, which is the holder's before */
    uint32_t sequence; /* next one of last_ms */
};

/* A worker id of the registry while this process holds it. */
struct lease {
    CURL *curl;
    char url[512]; /* of the registry */
    const char *name;
    int64_t window_ms;
    int64_t epoch;
    int64_t renew_at_ms; /* by the monotonic clock: no step of the wall clock moves it */
    bool lost;           /* fenced off, or never acquired */
    struct generator generator;
};

struct reply {
    size_t len;
    char text[REPLY_BYTES];
};

static volatile sig_atomic_t stopping;

static void stop_cb(int signal_number)
{
    (void)signal_number;
    stopping = 1;
}

static int64_t clock_ms(clockid_t clock)
{
    struct timespec now;

    (void)clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void pause_ms(int64_t ms)
{
    struct timespec pause = {ms / 1000, ms % 1000 * 1000000};

    (void)nanosleep(&pause, NULL); /* a signal ends it early, and that is well */
}

__attribute__((format(printf, 1, 2))) static void note(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    fputs("snowflake_client: ", stderr);
    (void)vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
}

/* --- making ids --- */

enum outcome { MADE, WAIT, WINDOW_OVER };

/* MADE with *ret_id, or WAIT with *ret_wait_ms until the next try makes sense, or WINDOW_OVER: the
 * clock is past the window (or past the layout). */
static enum outcome generator_next(struct generator *generator, int64_t now_ms, uint64_t *ret_id,
                                   int64_t *ret_wait_ms)
{
    if (now_ms > generator->until_ms || now_ms >= EPOCH_MS + (1LL << TIME_BITS)) {
        return WINDOW_OVER;
    }
    if (now_ms > generator->last_ms) {
        generator->last_ms = now_ms;
        generator->sequence = (uint32_t)(random() % RANDOM_START);
    } else if (generator->sequence >> SEQUENCE_BITS > 0) {
        /* This millisecond is used up, or the window begins later: only the clock can help. */
        *ret_wait_ms = generator->last_ms - now_ms + 1;
        return WAIT;
    }
    /* A clock that was set back comes here too, while last_ms has sequences left. */
    *ret_id = (uint64_t)(generator->last_ms - EPOCH_MS) << (WORKER_BITS + SEQUENCE_BITS) |
              (uint64_t)generator->worker_id << SEQUENCE_BITS | generator->sequence;
    generator->sequence++;
    return MADE;
}

/* --- talking to leafd --- */

static size_t take_cb(char *data, size_t size, size_t count, void *reply_data)
{
    struct reply *reply = reply_data;
    size_t len = size * count;

    if (len > sizeof reply->text - reply->len) {
        return 0; /* ends the transfer: no reply of the registry is so long */
    }
    memcpy(reply->text + reply->len, data, len);
    reply->len += len;
    return len;
}

/* One request, which takes the body over. Its status, and *ret_reply (NULL if it is no JSON; the
 * caller's to free); 0: there was no answer. */
static long call(struct lease *lease, const char *method, const char *path, json_t *body,
                 json_t **ret_reply)
{
    struct curl_slist *headers = curl_slist_append(NULL, "Content-Type: application/json");
    char *text = json_dumps(body, JSON_COMPACT);
    struct reply reply = {0};
    char url[sizeof lease->url + 32];
    long status = 0;
    CURLcode err;

    *ret_reply = NULL;
    (void)snprintf(url, sizeof url, "%s%s", lease->url, path);
    curl_easy_reset(lease->curl); /* the options; the connection is kept */
    curl_easy_setopt(lease->curl, CURLOPT_URL, url);
    curl_easy_setopt(lease->curl, CURLOPT_CUSTOMREQUEST, method);
    curl_easy_setopt(lease->curl, CURLOPT_POSTFIELDS, text);
    curl_easy_setopt(lease->curl, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(lease->curl, CURLOPT_WRITEFUNCTION, take_cb);
    curl_easy_setopt(lease->curl, CURLOPT_WRITEDATA, &reply);
    curl_easy_setopt(lease->curl, CURLOPT_TIMEOUT_MS, (long)REQUEST_TIMEOUT_MS);
    curl_easy_setopt(lease->curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(lease->curl, CURLOPT_NOPROXY, "*"); /* leafd is not behind a proxy */
    err = text != NULL ? curl_easy_perform(lease->curl) : CURLE_OUT_OF_MEMORY;
    if (err == CURLE_OK) {
        curl_easy_getinfo(lease->curl, CURLINFO_RESPONSE_CODE, &status);
        *ret_reply = json_loadb(reply.text, reply.len, 0, NULL);
    }
    if (status < 200 || status > 299) {
        note("%s %s: %s %ld %.*s", method, url, curl_easy_strerror(err), status, (int)reply.len,
             reply.text);
    }
    curl_slist_free_all(headers);
    free(text);
    json_decref(body);
    return status;
}

static bool succeeded(long status)
{
    return status >= 200 && status <= 299;
}

static void schedule_renewal(struct lease *lease, int64_t in_ms)
{
    lease->renew_at_ms = clock_ms(CLOCK_BOOTTIME) + in_ms;
}

/* Take what a granted window says. False if it is not what this program can use. */
static bool take_grant(struct lease *lease, const json_t *grant)
{
    json_int_t worker_id = json_integer_value(json_object_get(grant, "worker_id"));
    json_int_t from_ms = json_integer_value(json_object_get(grant, "from_ms"));

    lease->epoch = json_integer_value(json_object_get(grant, "epoch"));
    if (worker_id < 0 || worker_id >> WORKER_BITS > 0 || lease->epoch <= 0) {
        note("worker id %lld does not fit into %d bits", (long long)worker_id, WORKER_BITS);
        return false;
    }
    lease->generator = (struct generator){
        .worker_id = worker_id,
        .until_ms = json_integer_value(json_object_get(grant, "until_ms")),
        .last_ms = from_ms > EPOCH_MS ? from_ms : EPOCH_MS,
        .sequence = 1u << SEQUENCE_BITS, /* none is left of it */
    };
    lease->lost = false;
    schedule_renewal(lease, lease->window_ms / 3);
    note("worker id %lld, epoch %" PRId64 ", times above %lld up to %" PRId64, (long long)worker_id,
         lease->epoch, (long long)from_ms, lease->generator.until_ms);
    return true;
}

/* Ask until the cluster grants a worker id. Asking again after a lost reply is safe: a grant that
 * nobody heard of is skipped, never handed out twice. */
static bool lease_acquire(struct lease *lease)
{
    int64_t give_up_ms = clock_ms(CLOCK_BOOTTIME) + ACQUIRE_PATIENCE_MS;
    char host[256] = "";

    (void)gethostname(host, sizeof host - 1);
    while (!stopping) {
        json_t *body = json_pack("{s:s, s:s, s:I}", "name", lease->name, "address", host,
                                 "window_ms", (json_int_t)lease->window_ms);
        json_t *reply;
        long status = call(lease, "POST", "", body, &reply);
        bool granted = succeeded(status) && reply != NULL && take_grant(lease, reply);

        json_decref(reply);
        if (granted) {
            return true;
        }
        if ((status != 0 && status != 503) || clock_ms(CLOCK_BOOTTIME) > give_up_ms) {
            return false;
        }
        pause_ms(RETRY_MS);
    }
    return false;
}

/* The request about a worker id that is held. */
static long call_held(struct lease *lease, const char *method, json_t **ret_reply)
{
    json_t *body = json_pack("{s:I, s:I}", "epoch", (json_int_t)lease->epoch, "last_timestamp_ms",
                             (json_int_t)lease->generator.last_ms);
    char path[32];

    if (strcmp(method, "PUT") == 0) {
        json_object_set_new(body, "window_ms", json_integer(lease->window_ms));
    }
    (void)snprintf(path, sizeof path, "/%" PRId64, lease->generator.worker_id);
    return call(lease, method, path, body, ret_reply);
}

/* Extend the window. A failure is no reason to stop while the window lasts, except to be fenced
 * off: another process may have the worker id soon. */
static bool lease_renew(struct lease *lease)
{
    json_t *reply;
    long status = call_held(lease, "PUT", &reply);
    int64_t until_ms = json_integer_value(json_object_get(reply, "until_ms"));

    json_decref(reply);
    if (!succeeded(status)) {
        lease->lost = status == 404 || status == 409;
        schedule_renewal(lease, RETRY_MS);
        return false;
    }
    if (until_ms > lease->generator.until_ms) {
        lease->generator.until_ms = until_ms;
    }
    schedule_renewal(lease, lease->window_ms / 3);
    return true;
}

/* Give the worker id back; after this no id may be made. last_ms is the highest time used: what is
 * above it is free for the next holder at once. */
static void lease_release(struct lease *lease)
{
    json_t *reply = NULL;

    if (!lease->lost && !succeeded(call_held(lease, "DELETE", &reply))) {
        note("not released: the next start may have to wait for the window's end");
    }
    json_decref(reply);
    lease->lost = true;
}

/* The next id, waiting where that is needed. False: the window is over, or somebody else's, or this
 * process is to stop. */
static bool next_id(struct lease *lease, uint64_t *ret_id)
{
    bool told = false;

    while (!stopping) {
        int64_t wait_ms = 0;
        enum outcome outcome;

        if (clock_ms(CLOCK_BOOTTIME) >= lease->renew_at_ms && !lease_renew(lease) && lease->lost) {
            return false;
        }
        outcome = generator_next(&lease->generator, clock_ms(CLOCK_REALTIME), ret_id, &wait_ms);
        if (outcome == WINDOW_OVER && lease_renew(lease)) {
            /* The process slept past its window, and the cluster let it go on. */
            outcome = generator_next(&lease->generator, clock_ms(CLOCK_REALTIME), ret_id, &wait_ms);
        }
        if (outcome == WINDOW_OVER) {
            note("times up to %" PRId64 " are granted, and the clock is past that",
                 lease->generator.until_ms);
        }
        if (outcome != WAIT) {
            return outcome == MADE;
        }
        if (wait_ms > 1000 && !told) {
            note("waiting for the clock, %" PRId64 " ms", wait_ms);
            told = true;
        }
        pause_ms(wait_ms < 100 ? wait_ms : 100); /* short: the window is renewed meanwhile */
    }
    return false;
}

/* --- the command line --- */

static bool parse_number(const char *text, int64_t *ret_number)
{
    char *end;

    errno = 0;
    *ret_number = strtoll(text, &end, 10);
    return errno == 0 && end != text && *end == '\0' && *ret_number >= 0;
}

/* False if the arguments are not understood. */
static bool parse(int argc, char *argv[], struct lease *lease, int64_t *ret_count)
{
    const char *url = "http://127.0.0.1:8080";
    bool good = argc % 2 == 1;

    for (int i = 1; good && i < argc; i += 2) {
        if (strcmp(argv[i], "--name") == 0) {
            lease->name = argv[i + 1];
        } else if (strcmp(argv[i], "--url") == 0) {
            url = argv[i + 1];
        } else if (strcmp(argv[i], "--count") == 0) {
            good = parse_number(argv[i + 1], ret_count);
        } else if (strcmp(argv[i], "--window-ms") == 0) {
            good = parse_number(argv[i + 1], &lease->window_ms);
        } else {
            good = false;
        }
    }
    if (!good || lease->name == NULL || strlen(url) + 16 > sizeof lease->url) {
        return false;
    }
    (void)snprintf(lease->url, sizeof lease->url, "%s/api/workers", url);
    return true;
}

int main(int argc, char *argv[])
{
    struct lease lease = {.window_ms = 10000, .lost = true};
    struct sigaction action = {.sa_handler = stop_cb};
    int64_t count = 10;
    uint64_t id;
    bool good;

    if (!parse(argc, argv, &lease, &count)) {
        fputs("usage: snowflake_client --name NAME [--count N] [--url http://HOST:PORT]"
              " [--window-ms N]\n",
              stderr);
        return 2;
    }
    srandom((unsigned)clock_ms(CLOCK_REALTIME) ^ (unsigned)getpid());
    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
    (void)signal(SIGPIPE, SIG_IGN); /* "| head": then too the worker id is released */
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK ||
        (lease.curl = curl_easy_init()) == NULL) {
        note("libcurl cannot be used");
        return 1;
    }
    good = lease_acquire(&lease);
    for (; good && count > 0; count--) {
        good = next_id(&lease, &id) && printf("%" PRIu64 "\n", id) > 0 && fflush(stdout) == 0;
    }
    lease_release(&lease);
    curl_easy_cleanup(lease.curl);
    curl_global_cleanup();
    return good ? 0 : 1;
}
