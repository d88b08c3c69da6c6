/*
 * test_router.c - paths and methods to their routes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "http/api/router.h"

static const struct {
    enum method method;
    const char *path;
    enum router_result result;
    const char *route;
    const char *name;
} cases[] = {
    {METHOD_GET, "/api/segment/get/a", ROUTER_FOUND, "/api/segment/get/", "a"},
    {METHOD_POST, "/api/segment/get/a/", ROUTER_FOUND, "/api/segment/get/", "a"},
    {METHOD_GET, "/api/segment/get/", ROUTER_NO_ROUTE, NULL, NULL},
    {METHOD_GET, "/api/segment/get//", ROUTER_NO_ROUTE, NULL, NULL},
    {METHOD_GET, "/api/segment/get/a//", ROUTER_FOUND, "/api/segment/get/", "a"},
    {METHOD_GET, "//api/segment///get//a", ROUTER_FOUND, "/api/segment/get/", "a"},
    {METHOD_POST, "//api/snowflake/get/a/", ROUTER_FOUND, "/api/snowflake/get/", "a"},
    {METHOD_PUT, "//api/segment/get/a", ROUTER_NO_METHOD, "/api/segment/get/", NULL},
    {METHOD_GET, "//api/segment/get//", ROUTER_NO_ROUTE, NULL, NULL},
    {METHOD_GET, "//api/segment/get", ROUTER_NO_ROUTE, NULL, NULL},
    {METHOD_GET, "//api/segment/get/a/b", ROUTER_NO_ROUTE, NULL, NULL},
    {METHOD_GET, "//api/segment/getx/a", ROUTER_NO_ROUTE, NULL, NULL},
    {METHOD_GET, "/decodeSnowflakeId", ROUTER_FOUND, "/decodeSnowflakeId", ""},
    {METHOD_POST, "//decodeSnowflakeId//", ROUTER_FOUND, "/decodeSnowflakeId", ""},
    {METHOD_GET, "//decodeSnowflakeId/a", ROUTER_NO_ROUTE, NULL, NULL},
    {METHOD_GET, "//api/tags/a", ROUTER_NO_ROUTE, NULL, NULL},
    {METHOD_GET, "//livez", ROUTER_NO_ROUTE, NULL, NULL},
    {METHOD_GET, "//api/segment/decode/a", ROUTER_NO_ROUTE, NULL, NULL},
    {METHOD_GET, "//api/snowflake/decode/1", ROUTER_NO_ROUTE, NULL, NULL},
    {METHOD_GET, "/api/segment/get/a/b", ROUTER_SLASH, NULL, NULL},
    {METHOD_HEAD, "/api/segment/get/a", ROUTER_NO_METHOD, "/api/segment/get/", NULL},
    {METHOD_OTHER, "/api/tags/a", ROUTER_NO_METHOD, "/api/tags/", NULL},
    {METHOD_PUT, "/api/tags/a", ROUTER_FOUND, "/api/tags/", "a"},
    {METHOD_PUT, "/api/tags/a/", ROUTER_SLASH, NULL, NULL},
    {METHOD_GET, "/api/tags/", ROUTER_NO_ROUTE, NULL, NULL},
    {METHOD_HEAD, "/api/tags", ROUTER_FOUND, "/api/tags", ""},
    {METHOD_DELETE, "/api/tags", ROUTER_NO_METHOD, "/api/tags", NULL},
    {METHOD_GET, "/api/tagsx", ROUTER_NO_ROUTE, NULL, NULL},
    {METHOD_GET, "/api/cluster", ROUTER_FOUND, "/api/cluster", ""},
    {METHOD_GET, "/api/cluster/", ROUTER_NO_ROUTE, NULL, NULL},
    {METHOD_POST, "/api/cluster/members", ROUTER_FOUND, "/api/cluster/members", ""},
    {METHOD_GET, "/api/cluster/members", ROUTER_NO_METHOD, "/api/cluster/members", NULL},
    {METHOD_PUT, "/api/cluster/members/4", ROUTER_FOUND, "/api/cluster/members/", "4"},
    {METHOD_DELETE, "/api/cluster/members/4", ROUTER_FOUND, "/api/cluster/members/", "4"},
    {METHOD_POST, "/api/cluster/leader", ROUTER_FOUND, "/api/cluster/leader", ""},
    {METHOD_GET, "/livez", ROUTER_FOUND, "/livez", ""},
    {METHOD_POST, "/livez", ROUTER_NO_METHOD, "/livez", NULL},
    {METHOD_GET, "", ROUTER_NO_ROUTE, NULL, NULL},
    {METHOD_GET, "/", ROUTER_FOUND, "/", ""},
    {METHOD_PUT, "/cache", ROUTER_NO_METHOD, "/cache", NULL},
    {METHOD_GET, "/db", ROUTER_FOUND, "/db", ""},
    {METHOD_GET, "/dbx", ROUTER_NO_ROUTE, NULL, NULL},
    {METHOD_GET, "//", ROUTER_NO_ROUTE, NULL, NULL},
};

static void test_router(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct route *route;
        const char *name;
        size_t len;

        assert_int_equal(
            router_find(cases[i].method, cases[i].path, strlen(cases[i].path), &route, &name, &len),
            cases[i].result);
        assert_int_equal(route == NULL, cases[i].route == NULL);
        if (route != NULL) {
            assert_string_equal(route->path, cases[i].route);
        }
        if (cases[i].name != NULL) {
            assert_int_equal(len, strlen(cases[i].name));
            assert_memory_equal(name, cases[i].name, len);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_router)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
