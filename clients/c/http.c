/* See http.h. Each line has a multi handle of its own with one easy handle in it: the multi handle
 * keeps the connections, and can be woken from another thread. */
#include "http.h"

#include "fake.h"
#include "fault.h"
#include "text.h"

#include <curl/curl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
    HEAD_BYTES_MAX = 64 * 1024,
    SOCKETS_MAX = 2 * NODES_MAX + 8,
    TARGET_BYTES = URL_BYTES + TEXT_ENCODED_BYTES + TEXT_ENCODED_ID_BYTES + 256,
    WAIT_MS_MAX = 1000,
    RETRY_AFTER_S_MAX = 86400,
    TOKEN_LOOK_MS = 1000 /* how often it is seen whether token_file has changed */
};

struct line {
    struct lines *lines;
    struct line *next_idle, *next;
    CURLM *multi;
    CURL *easy;
    int sockets[SOCKETS_MAX]; /* open ones, for a child of fork; -1: none */
    int fresh;                /* the one that this request opened last; -1: none */
    struct answer answer;
    size_t head_bytes;
    bool head_over;   /* what comes in the form of headers then is a trailer, which says nothing */
    bool says_length; /* or that it comes in chunks */
    bool too_long;    /* the body */
    char why[CURL_ERROR_SIZE];
    char target[TARGET_BYTES];
    char body[ANSWER_BYTES + 1];
};

/* libcurl does all it can against SIGPIPE, which is not all, and leaves the rest to the thread: it
 * is blocked there meanwhile, and one that came is taken away. */
struct held_pipe {
    sigset_t before;
    bool was_pending;
};

static void hold_pipe(struct held_pipe *held)
{
    sigset_t pipe, pending;
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    sigpending(&pending);
    held->was_pending = sigismember(&pending, SIGPIPE) == 1;
    pthread_sigmask(SIG_BLOCK, &pipe, &held->before);
}

static void release_pipe(const struct held_pipe *held)
{
    static const struct timespec at_once = {0, 0};
    sigset_t pipe;
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    while (!held->was_pending && sigtimedwait(&pipe, NULL, &at_once) == SIGPIPE) {
    }
    pthread_sigmask(SIG_SETMASK, &held->before, NULL);
}

static void start_curl(void)
{
    curl_global_init(CURL_GLOBAL_DEFAULT);
}

void lines_init(struct lines *lines, const struct settings *settings)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, start_curl);
    lines->settings = settings;
    pthread_mutex_init(&lines->lock, NULL);
    lines->idle = lines->all = NULL;
    lines->idle_count = 0;
    memcpy(lines->token, settings->token, sizeof lines->token);
    lines->looked_ns = 0;
    memset(&lines->looked, 0, sizeof lines->looked);
    atomic_init(&lines->closing, false);
}

/* To end a connection of TLS properly would say so to the parent's server. */
void lines_forget(struct lines *lines)
{
    for (struct line *line = lines->all; line != NULL; line = line->next) {
        for (size_t i = 0; i < SOCKETS_MAX; i++) {
            if (line->sockets[i] >= 0) {
                close(line->sockets[i]);
            }
        }
    }
    bool closing = atomic_load(&lines->closing);
    lines_init(lines, lines->settings);
    atomic_store(&lines->closing, closing);
}

void lines_wake(struct lines *lines)
{
    atomic_store(&lines->closing, true);
    pthread_mutex_lock(&lines->lock);
    for (struct line *line = lines->all; line != NULL; line = line->next) {
        curl_multi_wakeup(line->multi);
    }
    pthread_mutex_unlock(&lines->lock);
}

/* libcurl takes NULL as nothing. */
static void line_free(struct line *line)
{
    curl_easy_cleanup(line->easy);
    curl_multi_cleanup(line->multi);
    free(line);
}

void lines_destroy(struct lines *lines)
{
    struct held_pipe held;
    hold_pipe(&held);
    while (lines->all != NULL) {
        struct line *line = lines->all;
        lines->all = line->next;
        line_free(line);
    }
    release_pipe(&held);
    pthread_mutex_destroy(&lines->lock);
}

static void remember_socket(struct line *line, int old, int fresh)
{
    for (size_t i = 0; i < SOCKETS_MAX; i++) {
        if (line->sockets[i] == old) {
            line->sockets[i] = fresh;
            return;
        }
    }
}

static curl_socket_t on_open(void *context, curlsocktype purpose, struct curl_sockaddr *address)
{
    struct line *line = context;
    (void)purpose;
    int fd = socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
    if (fd >= 0) {
        remember_socket(line, -1, fd);
    }
    line->fresh = fd;
    return fd;
}

static int on_close(void *context, curl_socket_t fd)
{
    struct line *line = context;
    remember_socket(line, fd, -1);
    line->fresh = line->fresh == fd ? -1 : line->fresh;
    return close(fd);
}

static size_t on_body(char *data, size_t size, size_t count, void *context)
{
    struct line *line = context;
    size_t bytes = size * count;
    if (bytes > ANSWER_BYTES - line->answer.body_bytes) {
        line->too_long = true;
        return 0;
    }
    memcpy(line->body + line->answer.body_bytes, data, bytes);
    line->answer.body_bytes += bytes;
    return bytes;
}

/* Is the header of this name? Then its value, without spaces around it, is put into value[24]. */
static bool header_is(const char *data, size_t bytes, const char *name, char *value)
{
    size_t name_bytes = strlen(name);
    if (bytes <= name_bytes || strncasecmp(data, name, name_bytes) != 0 ||
        data[name_bytes] != ':') {
        return false;
    }
    const char *at = data + name_bytes + 1;
    const char *end = data + bytes;
    while (at < end && (*at == ' ' || *at == '\t')) {
        at++;
    }
    while (end > at && strchr(" \t\r\n", end[-1]) != NULL) {
        end--;
    }
    size_t value_bytes = (size_t)(end - at) < 24 ? (size_t)(end - at) : 23;
    memcpy(value, at, value_bytes);
    value[value_bytes] = 0;
    return true;
}

/* A number of seconds, a day at most; 0 for anything else. */
static uint32_t read_seconds(const char *value)
{
    uint64_t number = RETRY_AFTER_S_MAX; /* of more digits than a number has, too */
    if (value[0] == 0 || value[strspn(value, "0123456789")] != 0) {
        return 0;
    }
    (void)text_to_number(value, 0, RETRY_AFTER_S_MAX, &number);
    return (uint32_t)number;
}

static void forget_head(struct line *line)
{
    struct answer *answer = &line->answer;
    answer->retry_after_s = 0;
    answer->generation = 0;
    answer->replayed = answer->strange = line->head_over = line->says_length = false;
}

static void read_header(struct line *line, const char *data, size_t bytes)
{
    struct answer *answer = &line->answer;
    char value[24];
    if (header_is(data, bytes, "Retry-After", value)) {
        answer->retry_after_s = read_seconds(value);
    }
    if (header_is(data, bytes, "Idempotency-Replayed", value)) {
        answer->replayed = strcmp(value, "true") == 0;
    }
    if (header_is(data, bytes, "Leafd-Generation", value)) {
        answer->strange = !text_to_number(value, 0, INT64_MAX, &answer->generation);
    }
    line->says_length = line->says_length || header_is(data, bytes, "Content-Length", value) ||
                        header_is(data, bytes, "Transfer-Encoding", value);
}

static size_t on_head(char *data, size_t size, size_t count, void *context)
{
    struct line *line = context;
    size_t bytes = size * count;
    line->head_bytes += bytes;
    if (line->head_bytes > HEAD_BYTES_MAX) {
        return 0;
    }
    if (bytes > 5 && memcmp(data, "HTTP/", 5) == 0) {
        forget_head(line); /* what an interim answer said is not of this one */
    } else if (data[0] == '\r' || data[0] == '\n') {
        line->head_over = true;
    } else if (!line->head_over) {
        read_header(line, data, bytes);
    }
    return bytes;
}

static bool line_set(struct line *line)
{
    const struct settings *settings = line->lines->settings;
    CURL *easy = line->easy;
    bool good = true;
#define SET(option, value) good = curl_easy_setopt(easy, option, value) == CURLE_OK && good
    SET(CURLOPT_ERRORBUFFER, line->why);
    SET(CURLOPT_NOSIGNAL, 1L);
#if LIBCURL_VERSION_NUM >= 0x075700
    SET(CURLOPT_QUICK_EXIT, 1L); /* a request that is over waits for no resolver */
#endif
    SET(CURLOPT_PROXY, "");
    SET(CURLOPT_NOPROXY, "*");
    SET(CURLOPT_FOLLOWLOCATION, 0L);
    SET(CURLOPT_PROTOCOLS_STR, "http,https");
    SET(CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_1_1);
    SET(CURLOPT_PATH_AS_IS, 1L);
    SET(CURLOPT_TCP_NODELAY, 1L);
    SET(CURLOPT_MAXCONNECTS, (long)NODES_MAX);
    SET(CURLOPT_SSL_VERIFYPEER, 1L);
    SET(CURLOPT_SSL_VERIFYHOST, 2L);
    SET(CURLOPT_SSLVERSION, CURL_SSLVERSION_TLSv1_2);
    SET(CURLOPT_OPENSOCKETFUNCTION, on_open);
    SET(CURLOPT_OPENSOCKETDATA, line);
    SET(CURLOPT_CLOSESOCKETFUNCTION, on_close);
    SET(CURLOPT_CLOSESOCKETDATA, line);
    SET(CURLOPT_WRITEFUNCTION, on_body);
    SET(CURLOPT_WRITEDATA, line);
    SET(CURLOPT_HEADERFUNCTION, on_head);
    SET(CURLOPT_HEADERDATA, line);
    SET(CURLOPT_PRIVATE, line);
    SET(CURLOPT_USERAGENT, "leafd-c/" LEAFD_VERSION);
    if (settings->cert_file[0] != 0) {
        SET(CURLOPT_SSLCERT, settings->cert_file);
        SET(CURLOPT_SSLKEY, settings->key_file);
    }
    if (settings->ca_file[0] != 0) {
        SET(CURLOPT_CAINFO, settings->ca_file);
        SET(CURLOPT_CAPATH, NULL);
#if LIBCURL_VERSION_NUM >= 0x075700 /* else it keeps what it has read of the file for a day */
        SET(CURLOPT_CA_CACHE_TIMEOUT, 1L);
#endif
    }
#undef SET
    return good;
}

struct line *line_get(struct lines *lines)
{
    pthread_mutex_lock(&lines->lock);
    struct line *line = lines->idle;
    if (line != NULL) {
        lines->idle = line->next_idle;
        lines->idle_count--;
    }
    pthread_mutex_unlock(&lines->lock);
    if (line != NULL) {
        return line;
    }
    line = calloc(1, sizeof *line);
    if (line == NULL) {
        return NULL;
    }
    line->lines = lines;
    memset(line->sockets, -1, sizeof line->sockets);
    line->multi = curl_multi_init();
    line->easy = curl_easy_init();
    if (line->multi == NULL || line->easy == NULL || !line_set(line)) {
        line_free(line);
        return NULL;
    }
    pthread_mutex_lock(&lines->lock);
    line->next = lines->all;
    lines->all = line;
    pthread_mutex_unlock(&lines->lock);
    return line;
}

void line_put(struct line *line)
{
    struct lines *lines = line->lines;
    pthread_mutex_lock(&lines->lock);
    bool keep = lines->idle_count < LINES_IDLE_MAX;
    if (keep) {
        line->next_idle = lines->idle;
        lines->idle = line;
        lines->idle_count++;
    } else {
        struct line **at = &lines->all;
        while (*at != line) {
            at = &(*at)->next;
        }
        *at = line->next;
    }
    pthread_mutex_unlock(&lines->lock);
    if (!keep) {
        struct held_pipe held;
        hold_pipe(&held);
        line_free(line);
        release_pipe(&held);
    }
}

/* The token, read anew if its file has changed; while there is none in it, the last one. */
static void current_token(struct lines *lines, char token[TOKEN_CHARS + 1])
{
    const char *path = lines->settings->token_file;
    uint64_t now = now_ns();
    struct stat found;
    pthread_mutex_lock(&lines->lock);
    if (path[0] != 0 && now - lines->looked_ns >= (uint64_t)TOKEN_LOOK_MS * NS_PER_MS) {
        lines->looked_ns = now;
        if (stat(path, &found) == 0 &&
            (found.st_ino != lines->looked.st_ino || found.st_size != lines->looked.st_size ||
             found.st_mtim.tv_sec != lines->looked.st_mtim.tv_sec ||
             found.st_mtim.tv_nsec != lines->looked.st_mtim.tv_nsec) &&
            settings_read_token(path, lines->token)) {
            lines->looked = found;
        }
    }
    memcpy(token, lines->token, TOKEN_CHARS + 1);
    pthread_mutex_unlock(&lines->lock);
}

static struct curl_slist *make_headers(const struct line *line, const struct request *request)
{
    char text[TOKEN_CHARS + 32];
    char token[TOKEN_CHARS + 1];
    /* libcurl would add these two by itself. */
    struct curl_slist *headers = curl_slist_append(NULL, "Accept:");
    headers = curl_slist_append(headers, "Expect:");
    current_token(line->lines, token);
    if (token[0] != 0) {
        (void)snprintf(text, sizeof text, "Authorization: Bearer %s", token);
        headers = curl_slist_append(headers, text);
    }
    if (request->key != NULL) {
        (void)snprintf(text, sizeof text, "Idempotency-Key: %s", request->key);
        headers = curl_slist_append(headers, text);
    }
    if (request->body != NULL) {
        headers = curl_slist_append(headers, "Content-Type: application/json");
    }
    return headers;
}

static void prepare(struct line *line, const char *url, const struct request *request,
                    struct curl_slist *headers)
{
    CURL *easy = line->easy;
    (void)snprintf(line->target, sizeof line->target, "%s%s", url, request->path);
    curl_easy_setopt(easy, CURLOPT_URL, line->target);
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers);
    if (request->body != NULL) {
        curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE, (long)strlen(request->body));
        curl_easy_setopt(easy, CURLOPT_POSTFIELDS, request->body);
    } else {
        curl_easy_setopt(easy, CURLOPT_HTTPGET, 1L);
    }
    curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, request->method);
    memset(&line->answer, 0, sizeof line->answer);
    line->answer.asked_ns = now_ns();
    line->head_bytes = 0;
    line->too_long = line->head_over = line->says_length = false;
    line->why[0] = 0;
    line->fresh = -1;
}

/* Bytes came on an idle connection, such as the 408 of a proxy that closes it: libcurl before 8.1
 * takes them for the answer to the next request. */
static bool has_bytes_unasked(const struct line *line)
{
    char byte;
    for (size_t i = 0; i < SOCKETS_MAX; i++) {
        if (line->sockets[i] >= 0 &&
            recv(line->sockets[i], &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0) {
            return true;
        }
    }
    return false;
}

/* Close all connections, which are idle. False: no memory. */
static bool drop_connections(struct line *line)
{
    CURLM *fresh = curl_multi_init();
    if (fresh == NULL) {
        return false;
    }
    pthread_mutex_lock(&line->lines->lock);
    CURLM *old = line->multi;
    line->multi = fresh;
    pthread_mutex_unlock(&line->lines->lock);
    curl_multi_cleanup(old);
    return true;
}

static bool is_connecting(const struct line *line)
{
    struct sockaddr_storage peer;
    socklen_t bytes = sizeof peer;
    return line->fresh >= 0 && getpeername(line->fresh, (struct sockaddr *)&peer, &bytes) != 0;
}

enum { TOO_LATE = -1, NOT_CONNECTED = -2 };

/* Turn until the transfer has ended (its result), or the time is over, or the client closes. */
static int run(struct line *line, const struct limits *limits)
{
    bool late = limits->late == NULL;
    for (;;) {
        int running;
        if (curl_multi_perform(line->multi, &running) != CURLM_OK) {
            return CURLE_FAILED_INIT;
        }
        int left;
        CURLMsg *message = curl_multi_info_read(line->multi, &left);
        if (message != NULL && message->msg == CURLMSG_DONE) {
            return (int)message->data.result;
        }
        bool connecting = is_connecting(line);
        uint64_t until_ns = connecting ? limits->connected_ns : limits->until_ns;
        uint64_t now = now_ns();
        bool stopped = limits->stop != NULL && atomic_load(limits->stop);
        if (now >= until_ns || stopped || atomic_load(&line->lines->closing)) {
            return connecting ? NOT_CONNECTED : TOO_LATE;
        }
        if (!late && now >= limits->late_ns) {
            late = true;
            limits->late(limits->context);
        }
        until_ns = late || limits->late_ns > until_ns ? until_ns : limits->late_ns;
        uint64_t wait_ms = (until_ns - now) / NS_PER_MS + 1;
        (void)curl_multi_poll(line->multi, NULL, 0,
                              wait_ms > WAIT_MS_MAX ? WAIT_MS_MAX : (int)wait_ms, NULL);
    }
}

void line_wake(struct line *line)
{
    curl_multi_wakeup(line->multi);
}

enum ask line_ask(struct line *line, const struct node *node, const struct request *request,
                  const struct limits *limits, struct answer *answer)
{
    if (line->lines->fake != NULL) {
        return fake_answer(line->lines->fake, request, answer, line->body);
    }
    if (strstr(node->url, "+srv://") != NULL) {
        *answer = (struct answer){.why = "no SRV record of this name was found"};
        return ASK_FAILED;
    }
    struct held_pipe held;
    hold_pipe(&held);
    struct curl_slist *headers = make_headers(line, request);
    struct curl_slist *connect_to =
        node->connect_to[0] != 0 ? curl_slist_append(NULL, node->connect_to) : NULL;
    curl_easy_setopt(line->easy, CURLOPT_CONNECT_TO, connect_to);
    prepare(line, node->url, request, headers);
    int result = CURLE_FAILED_INIT;
    if ((!has_bytes_unasked(line) || drop_connections(line)) &&
        curl_multi_add_handle(line->multi, line->easy) == CURLM_OK) {
        result = run(line, limits);
        curl_multi_remove_handle(line->multi, line->easy);
    }
    curl_easy_setopt(line->easy, CURLOPT_HTTPHEADER, NULL);
    curl_slist_free_all(headers);
    curl_easy_setopt(line->easy, CURLOPT_CONNECT_TO, NULL);
    curl_slist_free_all(connect_to);
    release_pipe(&held);
    if (atomic_load(&line->lines->closing)) {
        return ASK_CLOSED;
    }
    line->body[line->answer.body_bytes] = 0;
    line->answer.body = line->body;
    line->answer.why = result == TOO_LATE        ? "no answer in time"
                       : result == NOT_CONNECTED ? "no connection in time"
                       : line->why[0] != 0       ? line->why
                                                 : curl_easy_strerror((CURLcode)result);
    long status = 0;
    curl_easy_getinfo(line->easy, CURLINFO_RESPONSE_CODE, &status);
    line->answer.status = (int)status;
    *answer = line->answer;
    if (result != CURLE_OK) {
        bool bad_file = result == CURLE_SSL_CERTPROBLEM || result == CURLE_SSL_CACERT_BADFILE;
        return line->too_long                             ? ASK_TOO_LONG
               : bad_file                                 ? ASK_BAD_FILE
               : result == CURLE_PEER_FAILED_VERIFICATION ? ASK_UNTRUSTED
                                                          : ASK_FAILED;
    }
    /* libcurl takes the end of a connection for the end of such an answer. */
    bool empty = status == 204 || status == 304;
    if (!line->head_over || (!line->says_length && !empty)) {
        answer->why = line->head_over ? "an answer that does not say its length"
                                      : "the connection ended in the head of an answer";
        return ASK_FAILED;
    }
    return ASK_ANSWERED;
}
