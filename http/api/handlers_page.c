/*
 * handlers_page.c - what is the same for all and shows nothing of this node: GET /, /cache and /db,
 * the page, which has nothing until its script asks; and GET /openapi.json, what can be asked.
 *
 * Failure modes: none. Thread: the loop's.
 */
#include "http/api/context.h"
#include "http/api/handlers.h"
#include "http/api/request.h"
#include "http/page/page.h"

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

int handle_page(struct conn *conn)
{
    const struct page *page = api_loop(conn)->api->page;

    conn_answer(conn, 200, PAGE_TYPE, (const char *)page->headers.data, page->html.data,
                page->html.len);
    return ANSWERED;
}

int handle_openapi(struct conn *conn)
{
    size_t len;
    const char *text = openapi_text(&len);

    conn_answer(conn, 200, ANSWER_JSON, NULL, text, len);
    return ANSWERED;
}
