/*
 * err.c - names of the error codes, and the output of a failed assertion. Thread: any.
 */
#include "src/base/err.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "src/base/assert.h"

static const struct name {
    const char *code;
    const char *text;
} names[] = {[0] = {"ok", "ok"},
#define X(name, value, code, text) [-(value)] = {code, text},
             ERR_LIST(X)
#undef X
};

static const struct name *err_name(int err)
{
    static const struct name unknown = {"unknown_error", "unknown error"};

    return err <= 0 && err > -(int)(sizeof names / sizeof names[0]) ? &names[-err] : &unknown;
}

const char *err_code(int err)
{
    return err_name(err)->code;
}

const char *err_text(int err)
{
    return err_name(err)->text;
}

bool stderr_write(const char *text, size_t len)
{
    struct pollfd out = {.fd = STDERR_FILENO, .events = POLLOUT};

    return poll(&out, 1, 0) > 0 && write(STDERR_FILENO, text, len) == (ssize_t)len;
}

void assert_failed(const char *expression, const char *file, int line, const char *func)
{
    char text[1024];
    int len =
        snprintf(text, sizeof text,
                 "level=fatal at=assert msg=\"assertion failed\" expr=\"%s\" in=%s:%d func=%s\n",
                 expression, file, line, func);

    (void)stderr_write(text, (size_t)len < sizeof text ? (size_t)len : sizeof text - 1);
    abort();
}
