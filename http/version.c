/*
 * version.c - which HTTP parser is loaded. Thread: any.
 */
#include <http_parser.h>
#include <stdio.h>

#include "http/server.h"
#include "src/base/assert.h"

const char *http_server_parser_version(void)
{
    static _Thread_local char text[48];
    unsigned long version = http_parser_version();
    int len = snprintf(text, sizeof text, "%lu.%lu.%lu", version >> 16, version >> 8 & 255,
                       version & 255);

    ASSERT(len > 0 && len < (int)sizeof text);
    return text;
}
