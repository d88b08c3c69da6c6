/*
 * err.c - names of the error codes. Thread: any.
 */
#include "src/base/err.h"

const char *err_code(int err)
{
    switch (err) {
    case ERR_OK:
        return "ok";
#define X(name, value, code, text)                                                                 \
    case value:                                                                                    \
        return code;
        ERR_LIST(X)
#undef X
    default:
        return "unknown_error";
    }
}

const char *err_text(int err)
{
    switch (err) {
    case ERR_OK:
        return "ok";
#define X(name, value, code, text)                                                                 \
    case value:                                                                                    \
        return text;
        ERR_LIST(X)
#undef X
    default:
        return "unknown error";
    }
}
