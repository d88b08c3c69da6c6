/*
 * page.c - see page.h. Thread: the loop's.
 */
#include "http/api/page.h"

#include <string.h>

#include "http/server/conn.h"

/* A name or the beginning of one. */
static bool part_ok(struct conn *conn, const struct option *option)
{
    char shown[160];

    if (option->len <= LIMIT_TAG_NAME_BYTES && text_is_utf8(option->value, option->len)) {
        return true;
    }
    conn_fail(conn, 400, "bad_request", "%s=%s is not UTF-8 of at most %d bytes", option->name,
              text_show(option->value, option->len, shown, sizeof(shown)), LIMIT_TAG_NAME_BYTES);
    return false;
}

bool page_read(struct conn *conn, struct option *options, size_t count, char *space,
               struct page *ret_page)
{
    uint64_t limit;

    if (!conn_options(conn, options, count, space) || !part_ok(conn, &options[0]) ||
        !part_ok(conn, &options[1]) ||
        !conn_option_number(conn, &options[2], "bad_request", 1, LIMIT_TAGS_PER_PAGE,
                            PAGE_LIMIT_DEFAULT, &limit)) {
        return false;
    }
    *ret_page = (struct page){options[0].value, options[0].len, options[1].value, options[1].len,
                              (uint32_t)limit};
    return true;
}

bool page_consistency(struct conn *conn, const struct option *option, bool *ret_local)
{
    char shown[80];

    *ret_local = option->present && option->len == 5 && memcmp(option->value, "local", 5) == 0;
    if (!option->present || *ret_local ||
        (option->len == 12 && memcmp(option->value, "linearizable", 12) == 0)) {
        return true;
    }
    conn_fail(conn, 400, "bad_request", "consistency=%s is not linearizable or local",
              text_show(option->value, option->len, shown, sizeof(shown)));
    return false;
}
