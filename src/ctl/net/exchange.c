/*
 * exchange.c - see exchange.h. Thread: one.
 */
#include "src/ctl/net/exchange.h"

#include <curl/curl.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/assert.h"

struct exchange {
    CURL *curl;
    const struct settings *settings;
    const struct exchange_request *request; /* under way */
    struct exchange_answer *answer;
    bool too_large;
    char error[CURL_ERROR_SIZE];
};

static void must(CURLcode code)
{
    ASSERT(code == CURLE_OK);
}

struct exchange *exchange_new(const struct settings *settings)
{
    struct exchange *exchange = MUST_HAVE(calloc(1, sizeof *exchange));

    must(curl_global_init(CURL_GLOBAL_DEFAULT));
    exchange->curl = MUST_HAVE(curl_easy_init());
    exchange->settings = settings;
    return exchange;
}

void exchange_free(struct exchange *exchange)
{
    curl_easy_cleanup(exchange->curl);
    curl_global_cleanup();
    free(exchange);
}

static size_t on_body(char *bytes, size_t size, size_t count, void *data)
{
    struct exchange *exchange = data;
    struct exchange_answer *answer = exchange->answer;
    const struct exchange_sink *sink = exchange->request->sink;
    size_t len = size * count;
    long status = 0;

    must(curl_easy_getinfo(exchange->curl, CURLINFO_RESPONSE_CODE, &status));
    if (sink != NULL && status == 200) {
        return sink->take(sink->data, bytes, len) ? len : 0;
    }
    if (len > EXCHANGE_BODY_BYTES - answer->body.len) {
        exchange->too_large = true;
        return 0;
    }
    buf_put(&answer->body, bytes, len);
    return len;
}

static size_t on_header(char *bytes, size_t size, size_t count, void *data)
{
    static const char name[] = "retry-after:";
    struct exchange *exchange = data;
    size_t len = size * count;

    if (len > sizeof name && strncasecmp(bytes, name, sizeof name - 1) == 0) {
        char value[16] = "";
        size_t value_len = len - (sizeof name - 1);

        memcpy(value, bytes + sizeof name - 1,
               value_len < sizeof value ? value_len : sizeof value - 1);
        exchange->answer->retry_after_ms = (uint32_t)(strtoul(value, NULL, 10) % 3600) * 1000;
    }
    return len;
}

static void set_tls(CURL *curl, const struct settings *settings)
{
    must(curl_easy_setopt(curl, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2));
    if (settings->values[SETTING_CA] != NULL) {
        must(curl_easy_setopt(curl, CURLOPT_CAINFO, settings->values[SETTING_CA]));
        must(curl_easy_setopt(curl, CURLOPT_CAPATH, NULL));
    }
    if (settings->values[SETTING_CERT] != NULL) {
        must(curl_easy_setopt(curl, CURLOPT_SSLCERT, settings->values[SETTING_CERT]));
        must(curl_easy_setopt(curl, CURLOPT_SSLKEY, settings->values[SETTING_KEY]));
    }
}

static void set_times(CURL *curl, const struct exchange_request *request)
{
    uint32_t connect_ms =
        request->timeout_ms < EXCHANGE_CONNECT_MS ? request->timeout_ms : EXCHANGE_CONNECT_MS;

    must(curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L));
    must(curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, (long)connect_ms));
    if (request->sink == NULL) {
        must(curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, (long)request->timeout_ms));
    } else {
        must(curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L));
        must(curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME,
                              (long)((request->timeout_ms + 999) / 1000)));
    }
}

static void set_request(struct exchange *exchange, struct curl_slist *headers)
{
    CURL *curl = exchange->curl;
    const struct exchange_request *request = exchange->request;

    must(curl_easy_setopt(curl, CURLOPT_URL, request->url));
    must(curl_easy_setopt(curl, CURLOPT_PATH_AS_IS, 1L));
    must(curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https"));
    must(curl_easy_setopt(curl, CURLOPT_PROXY, ""));
    must(curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 0L));
    must(curl_easy_setopt(curl, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1));
    must(curl_easy_setopt(curl, CURLOPT_USERAGENT, "leafctl/" LEAFD_VERSION));
    must(curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers));
    must(curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, exchange->error));
    must(curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_body));
    must(curl_easy_setopt(curl, CURLOPT_WRITEDATA, exchange));
    must(curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, on_header));
    must(curl_easy_setopt(curl, CURLOPT_HEADERDATA, exchange));
    if (request->body != NULL) {
        must(curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)request->body_len));
        must(curl_easy_setopt(curl, CURLOPT_POSTFIELDS, request->body));
    }
    must(curl_easy_setopt(curl, CURLOPT_FRESH_CONNECT, request->once ? 1L : 0L));
    must(curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, request->method));
}

static struct curl_slist *add_header(struct curl_slist *headers, const char *name,
                                     const char *value)
{
    BUF_LOCAL(line);

    buf_printf(&line, "%s%s", name, value);
    headers = MUST_HAVE(curl_slist_append(headers, buf_text(&line)));
    explicit_bzero(line.data, line.capacity);
    return headers;
}

/* Can the server have seen the request? */
static bool cannot_be_sent(CURLcode code)
{
    switch (code) {
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_CONNECT:
    case CURLE_URL_MALFORMAT:
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_CERTPROBLEM:
        return true;
    default:
        return false;
    }
}

static enum exchange_outcome exchange_outcome_of(struct exchange *exchange, CURLcode code,
                                                 struct buf *why)
{
    curl_off_t connected_us = 0;
    bool over_tls = strncmp(exchange->request->url, "https", 5) == 0;

    if (code == CURLE_OK) {
        return EXCHANGE_DONE;
    }
    buf_printf(why, "%s",
               exchange->too_large          ? "the answer is larger than 64 MiB"
               : exchange->error[0] != '\0' ? exchange->error
                                            : curl_easy_strerror(code));
    if (cannot_be_sent(code)) {
        return EXCHANGE_NOT_SENT;
    }
    /* A time that was over before there was a connection. */
    must(curl_easy_getinfo(exchange->curl,
                           over_tls ? CURLINFO_APPCONNECT_TIME_T : CURLINFO_CONNECT_TIME_T,
                           &connected_us));
    return code == CURLE_OPERATION_TIMEDOUT && connected_us == 0 ? EXCHANGE_NOT_SENT
                                                                 : EXCHANGE_UNKNOWN;
}

enum exchange_outcome exchange_do(struct exchange *exchange, const struct exchange_request *request,
                                  struct exchange_answer *ret_answer, struct buf *why)
{
    struct curl_slist *headers = NULL;
    CURLcode code;

    *ret_answer = (struct exchange_answer){0};
    exchange->request = request;
    exchange->answer = ret_answer;
    exchange->too_large = false;
    exchange->error[0] = '\0';
    curl_easy_reset(exchange->curl); /* which keeps connections */
    if (request->body != NULL) {
        headers = add_header(headers, "Content-Type: application/json", "");
        headers = add_header(headers, "Expect:", "");
    }
    if (exchange->settings->token != NULL) {
        headers = add_header(headers, "Authorization: Bearer ", exchange->settings->token);
    }
    if (request->key != NULL) {
        headers = add_header(headers, "Idempotency-Key: ", request->key);
    }
    set_request(exchange, headers);
    set_times(exchange->curl, request);
    set_tls(exchange->curl, exchange->settings);
    code = curl_easy_perform(exchange->curl);
    must(curl_easy_getinfo(exchange->curl, CURLINFO_RESPONSE_CODE, &ret_answer->status));
    (void)buf_text(&ret_answer->body);
    curl_slist_free_all(headers);
    return exchange_outcome_of(exchange, code, why);
}

void exchange_encode(struct buf *out, const char *text)
{
    for (; *text != '\0'; text++) {
        bool plain = (*text >= 'a' && *text <= 'z') || (*text >= 'A' && *text <= 'Z') ||
                     (*text >= '0' && *text <= '9') || strchr("-._~", *text) != NULL;

        buf_printf(out, plain ? "%c" : "%%%02X", (unsigned char)*text);
    }
}
