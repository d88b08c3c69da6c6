/*
 * assert.c - what a failed assertion prints. Thread: any.
 */
#include "src/base/assert.h"

#include <stdio.h>
#include <stdlib.h>

void assert_failed(const char *expression, const char *file, int line, const char *func)
{
    fprintf(stderr, "level=fatal at=assert msg=\"assertion failed\" expr=\"%s\" in=%s:%d func=%s\n",
            expression, file, line, func);
    fflush(stderr);
    abort();
}
