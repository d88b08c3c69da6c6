/*
 * resp_method.c - see resp_method.h. Thread: pure functions over constant tables, any.
 */
#include "http/resp/api/resp_method.h"

#include "http/resp/proto/words.h"
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
