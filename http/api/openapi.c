/*
 * openapi.c - see openapi.h.
 */
#include "http/api/openapi.h"

__asm__(".pushsection .rodata\n"
        "openapi_json:\n"
        ".incbin \"http/api/openapi.json\"\n"
        "openapi_json_end:\n"
        ".popsection\n");
extern const char openapi_json[] __attribute__((visibility("hidden")));
extern const char openapi_json_end[] __attribute__((visibility("hidden")));

const char *openapi_text(size_t *ret_len)
{
    *ret_len = (size_t)(openapi_json_end - openapi_json);
    return openapi_json;
}
