/*
 * resp.c - see resp.h. Thread: the loop's.
 */
#include "http/resp/api/resp.h"

#include <string.h>

#include "http/api/context.h"
#include "http/api/gate.h"
#include "http/api/request.h"
#include "src/base/hot.h"

HOT const struct resp_method *resp_method_find(const struct resp_methods *table, const char *text,
                                               size_t len)
{
    for (size_t i = 0; i < table->count; i++) {
        if (word_is(text, len, table->methods[i].route.path)) {
            return &table->methods[i];
        }
    }
    return NULL;
}

int caller_wrong_words(struct conn *conn)
{
    return reply_error(conn, 400, "bad_request", "wrong words: %s",
                       resp_caller(conn)->method->usage);
}

bool caller_name(struct conn *conn, uint32_t index)
{
    struct resp_caller *caller = resp_caller(conn);
    char shown[SHOWN_BYTES];
    size_t len;
    const char *name = caller_word(conn, index, &len);

    for (size_t i = 0; i < len; i++) {
        if (name[i] <= ' ' || name[i] > '~') {
            return reply_error(conn, 400, "bad_request",
                               "the name %s has a blank or a character that is not of ASCII",
                               text_show(name, len, shown, sizeof shown));
        }
    }
    if (len > LIMIT_RESP_NAME_BYTES) {
        return reply_error(conn, 400, "bad_request", "a name of %zu bytes; it may have %d", len,
                           LIMIT_RESP_NAME_BYTES);
    }
    caller->name_len = (uint32_t)len;
    memcpy(caller->name, name, len);
    return true;
}
