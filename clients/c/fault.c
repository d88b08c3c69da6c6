/* See fault.h. */
#include "fault.h"

#include "text.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { STOOD_STILL_MS = 50, READS_MS = 500 };

int fault(struct leafd_error *error, const char *code, int status, bool retryable,
          const char *format, ...)
{
    if (error != NULL) {
        (void)snprintf(error->code, sizeof error->code, "%s", code);
        error->status = status;
        error->retryable = retryable;
        error->key[0] = '\0';
        va_list arguments;
        va_start(arguments, format);
        (void)vsnprintf(error->message, sizeof error->message, format, arguments);
        va_end(arguments);
        text_make_plain(error->message);
    }
    return -1;
}

int fault_keyed(struct leafd_error *error, const char *key)
{
    if (error != NULL && key != NULL) {
        (void)snprintf(error->key, sizeof error->key, "%s", key);
    }
    return -1;
}

bool fault_is_late(const struct leafd_error *error)
{
    return strcmp(error->code, "unreachable") == 0 || strcmp(error->code, "quota") == 0;
}

uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 * NS_PER_MS + (uint64_t)now.tv_nsec;
}

int64_t wall_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / NS_PER_MS;
}

void condition_init(pthread_cond_t *condition)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(condition, &attributes);
    pthread_condattr_destroy(&attributes);
}

bool condition_wait(pthread_cond_t *condition, pthread_mutex_t *lock, uint64_t until_ns)
{
    struct timespec until = {
        .tv_sec = (time_t)(until_ns / 1000 / NS_PER_MS),
        .tv_nsec = (long)(until_ns % ((uint64_t)1000 * NS_PER_MS)),
    };
    return pthread_cond_timedwait(condition, lock, &until) != ETIMEDOUT;
}

void condition_wait_news(pthread_cond_t *condition, pthread_mutex_t *lock, uint64_t until_ns)
{
    if (condition_wait(condition, lock, until_ns)) {
        return;
    }
    uint64_t now = now_ns(), most_ns = (uint64_t)READS_MS * NS_PER_MS;
    uint64_t late_ns = now > until_ns ? now - until_ns : 0;
    if (late_ns > (uint64_t)STOOD_STILL_MS * NS_PER_MS) {
        (void)condition_wait(condition, lock, now + (late_ns < most_ns ? late_ns : most_ns));
    }
}
