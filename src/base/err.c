/*
 * err.c - names of the error codes, and the output of a failed assertion. Thread: any.
 */
#include "src/base/err.h"

#include <stdio.h>
#include <stdlib.h>

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

void assert_failed(const char *expression, const char *file, int line, const char *func)
{
    fprintf(stderr, "level=fatal at=assert msg=\"assertion failed\" expr=\"%s\" in=%s:%d func=%s\n",
            expression, file, line, func);
    fflush(stderr);
    abort();
}
