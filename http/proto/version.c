/*
 * version.c - see version.h. Thread: any.
 */
#include <http_parser.h>
#include <stdio.h>

#include "http/proto/version.h"
#include "src/base/assert.h"

const char *http_parser_library_version(void)
{
    static _Thread_local char text[48];
    unsigned long version = http_parser_version();
    int len = snprintf(text, sizeof text, "%lu.%lu.%lu", version >> 16, version >> 8 & 255,
                       version & 255);

    ASSERT(len > 0 && len < (int)sizeof text);
    return text;
}
