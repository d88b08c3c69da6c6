/*
 * test_api.c - paths and methods to their routes, and openapi.json held against the table of
 * routes.
 *
 * Paths and methods to their routes.
 *
 * The document of all routes says what the table of routes says, and no more: paths, methods,
 * roles, listeners, whether there is a body, no options where there are none; and every name that
 * it refers to is there.
 *
 * Thread: one.
 */
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "src/tests/unit/test.h"
#include "http/api/api.h"
#include "http/api/request.h"

/* --- router --- */

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
    {METHOD_GET, "/tinyid/id/nextId", ROUTER_FOUND, "/tinyid/id/", "nextId"},
    {METHOD_POST, "//tinyid//id/nextId/", ROUTER_FOUND, "/tinyid/id/", "nextId"},
    {METHOD_PUT, "/tinyid/id/nextId", ROUTER_NO_METHOD, "/tinyid/id/", NULL},
    {METHOD_GET, "/tinyid/id/", ROUTER_NO_ROUTE, NULL, NULL},
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
    /* A whole path is no name of a later row. */
    {METHOD_PUT, "/api/workers/pools", ROUTER_FOUND, "/api/workers/pools", ""},
    {METHOD_HEAD, "/api/workers/pools", ROUTER_FOUND, "/api/workers/pools", ""},
    {METHOD_DELETE, "/api/workers/pools", ROUTER_NO_METHOD, "/api/workers/pools", NULL},
    {METHOD_DELETE, "/api/workers/3", ROUTER_FOUND, "/api/workers/", "3"},
    {METHOD_HEAD, "/api/clients/cuts", ROUTER_FOUND, "/api/clients/cuts", ""},
    {METHOD_GET, "/api/nodes/3/drain", ROUTER_NO_METHOD, "/api/nodes/*/drain", NULL},
    {METHOD_PUT, "/api/nodes/3", ROUTER_FOUND, "/api/nodes/", "3"},
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

/* Each change has a line in the audit, and so has a backup, which has all data. Only a renewal has
 * none: it is no news. What takes more than an answer is not for a page of another site. */
static void test_what_is_audited(void **state)
{
    const unsigned changes = 1U << METHOD_PUT | 1U << METHOD_POST | 1U << METHOD_DELETE;
    const struct route *route;

    (void)state;
    for (size_t i = 0; (route = router_route(i)) != NULL; i++) {
        bool is_change = (route->methods & changes) != 0 &&
                         (route->role & (ROLE_TAGS | ROLE_WORKERS | ROLE_ADMIN)) != 0;
        bool is_renewal =
            strcmp(route->path, "/api/workers/") == 0 && route->methods == 1U << METHOD_PUT;
        bool is_backup = strcmp(route->path, "/api/backup") == 0;
        bool is_live = strcmp(route->path, "/api/live") == 0;

        if (route->audited != ((is_change && !is_renewal) || is_backup)) {
            fail_msg("%s: audited: %d", route->path, route->audited);
        }
        assert_true(route->takes || (!is_backup && !is_live));
    }
}

/* --- openapi --- */

#define PATH_BYTES 64
#define REF "#/components/"

static const char *const methods[] = {[METHOD_GET] = "get",
                                      [METHOD_HEAD] = "head",
                                      [METHOD_POST] = "post",
                                      [METHOD_PUT] = "put",
                                      [METHOD_DELETE] = "delete"};

static int load(void **state)
{
    size_t len;
    const char *text = openapi_text(&len);
    json_error_t error;

    *state = json_loadb(text, len, JSON_REJECT_DUPLICATES, &error);
    if (*state == NULL) {
        fail_msg("line %d: %s", error.line, error.text);
    }
    return 0;
}

static int unload(void **state)
{
    json_decref(*state);
    return 0;
}

/* What stands where a "$ref" points to; NULL: nothing. */
static json_t *follow(json_t *document, const char *ref)
{
    json_t *components = json_object_get(document, "components");
    char kind[PATH_BYTES];
    char name[PATH_BYTES];

    if (sscanf(ref, REF "%63[^/]/%63s", kind, name) != 2) {
        return NULL;
    }
    return json_object_get(json_object_get(components, kind), name);
}

/* The path as the table has it: without the name, or with a '*' for one that more follows. */
static void table_path(const char *path, char out[PATH_BYTES])
{
    const char *end = strchr(path, '}');

    assert_true(strlen(path) < PATH_BYTES);
    snprintf(out, PATH_BYTES, "%.*s%s%s", (int)strcspn(path, "{"), path,
             end != NULL && end[1] != '\0' ? "*" : "", end != NULL ? end + 1 : "");
}

/* Whether a parameter of the operation has this place: "query", "path" or "header". */
static bool has_parameter(json_t *document, json_t *operation, const char *place)
{
    json_t *parameters = json_object_get(operation, "parameters");
    json_t *one;
    size_t i;

    json_array_foreach(parameters, i, one)
    {
        json_t *parameter = follow(document, json_string_value(json_object_get(one, "$ref")));

        assert_non_null(parameter);
        if (strcmp(json_string_value(json_object_get(parameter, "in")), place) == 0) {
            return true;
        }
    }
    return false;
}

static unsigned doors_of(json_t *operation)
{
    unsigned listeners = 0;
    json_t *listener;
    size_t i;

    json_array_foreach(json_object_get(operation, "x-listeners"), i, listener)
    {
        listeners |=
            strcmp(json_string_value(listener), "ids") == 0 ? LISTENER_IDS : LISTENER_ADMIN;
    }
    return listeners;
}

static void check_operation(json_t *document, json_t *operation, const struct route *route)
{
    const char *role = json_string_value(json_object_get(operation, "x-role"));

    assert_string_equal(role, route->role == ROLE_NONE ? "none" : role_name(route->role));
    assert_int_equal(doors_of(operation), route->listeners);
    assert_int_equal(has_parameter(document, operation, "path"), route->takes_name);
    /* Which ones, a node is asked by cluster-tests/test_openapi.py. */
    assert_true(route->takes_options || !has_parameter(document, operation, "query"));
    assert_int_equal(json_object_get(operation, "requestBody") != NULL, route->takes_body);
}

/* The operation of a route and a method; NULL: it is not there. */
static json_t *find_operation(json_t *document, const struct route *route, const char *method)
{
    json_t *found = NULL;
    const char *path;
    json_t *item;

    json_object_foreach(json_object_get(document, "paths"), path, item)
    {
        char whole[PATH_BYTES];

        table_path(path, whole);
        if (strcmp(whole, route->path) == 0 && (strchr(path, '{') != NULL) == route->takes_name) {
            found = json_object_get(item, method);
        }
    }
    return found;
}

static void test_every_route_is_there(void **state)
{
    const struct route *route;

    for (size_t i = 0; (route = router_route(i)) != NULL; i++) {
        for (size_t method = 0; method < sizeof methods / sizeof methods[0]; method++) {
            json_t *operation = find_operation(*state, route, methods[method]);

            if ((route->methods & 1U << method) == 0) {
                continue;
            }
            if (operation == NULL) {
                fail_msg("no %s of %s", methods[method], route->path);
            }
            check_operation(*state, operation, route);
        }
    }
}

static void test_nothing_else_is_there(void **state)
{
    json_t *paths = json_object_get(*state, "paths");
    const char *path;
    json_t *item;

    json_object_foreach(paths, path, item)
    {
        const char *method;
        json_t *operation;

        json_object_foreach(item, method, operation)
        {
            char asked[PATH_BYTES + 2];
            const struct route *route;
            enum method number = METHOD_GET;
            const char *name;
            size_t len;

            table_path(path, asked);
            if (strchr(path, '{') != NULL && strchr(asked, '*') == NULL) {
                strncat(asked, "1", 2);
            }
            while (number < sizeof methods / sizeof methods[0] &&
                   strcmp(methods[number], method) != 0) {
                number++;
            }
            if (number >= sizeof methods / sizeof methods[0] ||
                router_find(number, asked, strlen(asked), &route, &name, &len) != ROUTER_FOUND) {
                fail_msg("%s of %s is not served", method, path);
            }
        }
    }
}

/* Go through all of it. */
static void check_refs(json_t *document, json_t *value, unsigned *found)
{
    const char *name;
    json_t *one;
    size_t i;

    json_array_foreach(value, i, one)
    {
        check_refs(document, one, found);
    }
    json_object_foreach(value, name, one)
    {
        if (strcmp(name, "$ref") != 0) {
            check_refs(document, one, found);
        } else if (follow(document, json_string_value(one)) == NULL) {
            fail_msg("nothing is at %s", json_string_value(one));
        } else {
            *found += 1;
        }
    }
}

static void test_every_reference_leads_somewhere(void **state)
{
    unsigned found = 0;

    check_refs(*state, *state, &found);
    assert_true(found > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_router),
        cmocka_unit_test(test_what_is_audited),
        cmocka_unit_test_setup_teardown(test_every_route_is_there, load, unload),
        cmocka_unit_test_setup_teardown(test_nothing_else_is_there, load, unload),
        cmocka_unit_test_setup_teardown(test_every_reference_leads_somewhere, load, unload),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
