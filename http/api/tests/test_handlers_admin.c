/*
 * test_handlers_admin.c - tags, cluster, segments and health over real sockets.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <jansson.h>

#include "src/tests/unit/test.h"
#include "http/tests/fixture.h"

/* Call, want the status, and parse the body. */
static json_t *call_json(struct fixture *f, const char *method, const char *target,
                         const char *body, int status)
{
    struct reply reply;
    json_error_t error;
    json_t *json;

    client_call(f->client, method, target, body, &reply);
    if (reply.status != status) {
        print_error("%s %s: %d %s\n", method, target, reply.status, reply.body);
    }
    assert_int_equal(reply.status, status);
    assert_string_equal(reply_header(&reply, "Content-Type"), "application/json;charset=UTF-8");
    json = json_loadb(reply.body, reply.len, JSON_REJECT_DUPLICATES, &error);
    assert_non_null(json);
    reply_release(&reply);
    return json;
}

static const char *text_of(const json_t *json, const char *key)
{
    const char *text = json_string_value(json_object_get(json, key));

    assert_non_null(text);
    return text;
}

static json_int_t number_of(const json_t *json, const char *key)
{
    assert_true(json_is_integer(json_object_get(json, key)));
    return json_integer_value(json_object_get(json, key));
}

/* --- tags --- */

static void test_put_get_delete(void **state)
{
    struct fixture *f = *state;
    json_t *made = call_json(f, "PUT", "/api/tags/order%2Fnew",
                             "{\"step\":2000,\"max_id\":\"5000\",\"max_step\":100000,"
                             "\"mode\":\"trend\",\"description\":\"d\"}",
                             201);
    json_t *got;
    struct reply reply;

    assert_string_equal(text_of(made, "tag"), "order/new");
    assert_string_equal(text_of(made, "max_id"), "5000");
    assert_int_equal(number_of(made, "step"), 2000);
    assert_int_equal(number_of(made, "max_step"), 100000);
    assert_string_equal(text_of(made, "mode"), "trend");
    assert_string_equal(text_of(made, "description"), "d");
    assert_int_equal(strlen(text_of(made, "created")), 24);
    assert_string_equal(text_of(made, "created"), text_of(made, "updated"));
    got = call_json(f, "GET", "/api/tags/order%2Fnew", NULL, 200);
    assert_true(json_equal(made, got));
    json_decref(got);
    json_decref(made);

    got = call_json(f, "PUT", "/api/tags/order%2Fnew", "{\"step\":3000}", 200);
    assert_int_equal(number_of(got, "step"), 3000);
    assert_string_equal(text_of(got, "max_id"), "5000");
    json_decref(got);

    client_call(f->client, "DELETE", "/api/tags/order%2Fnew", NULL, &reply);
    assert_int_equal(reply.status, 204);
    assert_null(reply_header(&reply, "Content-Length"));
    assert_null(reply_header(&reply, "Content-Type"));
    reply_release(&reply);
    client_expect_error(f->client, "DELETE", "/api/tags/order%2Fnew", NULL, 404, "unknown_tag");
    client_expect_error(f->client, "GET", "/api/tags/order%2Fnew", NULL, 404, "unknown_tag");
    /* The name kept its high-water mark. */
    got = call_json(f, "PUT", "/api/tags/order%2Fnew", "{}", 201);
    assert_string_equal(text_of(got, "max_id"), "5000");
    json_decref(got);
}

static void test_put_defaults(void **state)
{
    struct fixture *f = *state;
    json_t *made = call_json(f, "PUT", "/api/tags/x", NULL, 201);

    assert_int_equal(number_of(made, "step"), 1000);
    assert_int_equal(number_of(made, "max_step"), 1000000);
    assert_string_equal(text_of(made, "max_id"), "1");
    assert_string_equal(text_of(made, "mode"), "trend");
    assert_string_equal(text_of(made, "description"), "");
    json_decref(made);
    /* Usable at once. */
    client_expect(f->client, "GET", "/api/segment/get/x", 200, "1");
}

static void test_lowering_needs_force(void **state)
{
    struct fixture *f = *state;
    struct reply reply;
    json_t *json;

    fake_make_tag(&f->fake, "t", 5000, 10, 100);
    client_call(f->client, "PUT", "/api/tags/t", "{\"max_id\":4999}", &reply);
    assert_int_equal(reply.status, 409);
    assert_non_null(strstr(reply.body, "\"code\":\"would_repeat\""));
    assert_non_null(strstr(reply.body, "max_id is 5000; lowering it to 4999"));
    reply_release(&reply);
    client_expect_error(f->client, "PUT", "/api/tags/t?force=0", "{\"max_id\":4999}", 409,
                        "would_repeat");
    client_expect_error(f->client, "PUT", "/api/tags/t?force=yes", "{\"max_id\":4999}", 400,
                        "bad_request");
    client_expect_error(f->client, "PUT", "/api/tags/t?farce=1", "{\"max_id\":4999}", 400,
                        "bad_request");
    json = call_json(f, "PUT", "/api/tags/t?force=1", "{\"max_id\":4999}", 200);
    assert_string_equal(text_of(json, "max_id"), "4999");
    json_decref(json);
}

static void test_put_faults_propose_nothing(void **state)
{
    struct fixture *f = *state;

    client_expect_error(f->client, "PUT", "/api/tags/t", "{\"step\":0}", 400, "bad_request");
    client_expect_error(f->client, "PUT", "/api/tags/t", "{\"nope\":0}", 400, "bad_request");
    client_expect_error(f->client, "PUT", "/api/tags/t", "nope", 400, "bad_json");
    client_expect_error(f->client, "PUT", "/api/tags/%zz", "{}", 400, "bad_tag");
    client_expect_error(f->client, "PUT", "/api/tags/%00", "{}", 400, "bad_tag");
    client_expect_error(f->client, "PUT", "/api/tags/a/b", "{}", 404, "no_route");
    client_expect_error(f->client, "PUT", "/api/tags/", "{}", 404, "no_route");
    client_expect_error(f->client, "POST", "/api/tags/t", "{}", 405, "method_not_allowed");
    client_expect_error(f->client, "DELETE", "/api/tags/t?x=1", NULL, 400, "bad_request");
    client_expect_error(f->client, "GET", "/api/tags/t?consistency=some", NULL, 400, "bad_request");
    assert_int_equal(fake_submitted(&f->fake), 0);
    /* Merged with what is there, the state machine refuses. */
    client_expect_error(f->client, "PUT", "/api/tags/t", "{\"step\":50,\"max_step\":49}", 400,
                        "bad_request");
    assert_int_equal(fake_submitted(&f->fake), 2); /* a look before it */
}

static void test_list(void **state)
{
    struct fixture *f = *state;
    json_t *page;
    char name[16];

    for (unsigned i = 0; i < 130; i++) {
        snprintf(name, sizeof(name), "t%03u", i);
        fake_make_tag(&f->fake, name, i, 10, 100);
    }
    fake_make_tag(&f->fake, "u &", 1, 10, 100);
    page = call_json(f, "GET", "/api/tags", NULL, 200);
    assert_int_equal(json_array_size(json_object_get(page, "tags")), 100);
    assert_string_equal(text_of(page, "next"), "t099");
    json_decref(page);
    page = call_json(f, "GET", "/api/tags?after=t099&prefix=t", NULL, 200);
    assert_int_equal(json_array_size(json_object_get(page, "tags")), 30);
    assert_string_equal(text_of(json_array_get(json_object_get(page, "tags"), 0), "tag"), "t100");
    assert_true(json_is_null(json_object_get(page, "next")));
    json_decref(page);
    page = call_json(f, "GET", "/api/tags?prefix=u+%26&limit=1", NULL, 200);
    assert_int_equal(json_array_size(json_object_get(page, "tags")), 1);
    json_decref(page);
    page = call_json(f, "GET", "/api/tags?prefix=zzz&limit=1000", NULL, 200);
    assert_int_equal(json_array_size(json_object_get(page, "tags")), 0);
    assert_true(json_is_null(json_object_get(page, "next")));
    json_decref(page);
    page = call_json(f, "GET", "/api/tags?prefix=&after=&limit=1000", NULL, 200);
    assert_int_equal(json_array_size(json_object_get(page, "tags")), 131);
    json_decref(page);
}

static void test_list_faults(void **state)
{
    static const char *const targets[] = {
        "/api/tags?limit=0",
        "/api/tags?limit=1001",
        "/api/tags?limit=",
        "/api/tags?limit=1&limit=1",
        "/api/tags?prefix=%ff",
        "/api/tags?after=%C3",
        "/api/tags?prefix=%",
        "/api/tags?offset=1",
        "/api/tags?consistency=",
        "/api/node/segments?limit=0",
        "/api/cluster/segments?limit=0",
        "/api/cluster/segments?limit=101",
        "/api/cluster/segments?all=1",
        "/api/node/segments?consistency=local",
        "/api/cluster?x",
        "/livez?verbose",
        "/readyz?quiet",
        "/version?x=1",
    };
    struct fixture *f = *state;
    char target[LIMIT_TAG_NAME_BYTES + 32];
    char prefix[LIMIT_TAG_NAME_BYTES + 2] = {0};

    for (size_t i = 0; i < sizeof(targets) / sizeof(targets[0]); i++) {
        client_expect_error(f->client, "GET", targets[i], NULL, 400, "bad_request");
    }
    assert_int_equal(fake_submitted(&f->fake), 0);
    memset(prefix, 'p', LIMIT_TAG_NAME_BYTES + 1);
    snprintf(target, sizeof(target), "/api/tags?prefix=%s", prefix);
    client_expect_error(f->client, "GET", target, NULL, 400, "bad_request");
    snprintf(target, sizeof(target), "/api/tags?prefix=%s", prefix + 1);
    client_expect(f->client, "GET", target, 200, "{\"tags\":[],\"next\":null}");
}

static void test_consistency(void **state)
{
    struct fixture *f = *state;

    fake_make_tag(&f->fake, "t", 1, 10, 100);
    client_expect(f->client, "GET", "/api/tags/t?consistency=local", 200, NULL);
    assert_true(f->fake.last_local);
    client_expect(f->client, "GET", "/api/tags/t?consistency=linearizable", 200, NULL);
    assert_false(f->fake.last_local);
    client_expect(f->client, "GET", "/api/tags?consistency=local", 200, NULL);
    assert_true(f->fake.last_local);
    client_expect(f->client, "GET", "/api/tags", 200, NULL);
    assert_false(f->fake.last_local);
}

/* At this node's rate of 10 ids a second the tag must have ids left for its cover_s: those here and
 * those that are not granted yet. A change of its max is not judged by the old one. */
static void test_a_cover_that_a_tag_has_ids_for(void **state)
{
    static struct id_figures_box box = {.mutex = PTHREAD_MUTEX_INITIALIZER};
    const struct id_figures now = {.busiest_count = 1,
                                   .busiest = {{.name = "t", .name_len = 1, .per_s = 10}}};
    struct fixture *f = *state;
    struct id_tag *tag;

    fake_log_level(&f->fake, LEVEL_NEWEST);
    fake_make_tag(&f->fake, "t", 1, 101, 1000);
    id_figures_put(&box, &now);
    f->fake.backend.figures = &box;
    client_expect(f->client, "GET", "/api/segment/get/t", 200, "1");
    tag = id_table_find(f->fake.backend.table, "t", 1);
    assert_non_null(tag);
    assert_int_equal(segment_left(&tag->buffer), 100);
    atomic_store(&tag->room, 50);
    client_expect_error(f->client, "PUT", "/api/tags/t", "{\"cover_s\":16}", 409, "exhausted");
    client_expect_error(f->client, "POST", "/api/tags", "[{\"tag\":\"t\",\"cover_s\":16}]", 409,
                        "exhausted");
    client_expect_error(f->client, "PUT", "/api/tags/t", "{\"cover_s\":16,\"description\":\"d\"}",
                        409, "exhausted");
    json_decref(call_json(f, "PUT", "/api/tags/t", "{\"cover_s\":15}", 200));
    json_decref(call_json(f, "PUT", "/api/tags/t", "{\"cover_s\":16,\"max\":\"1000000\"}", 200));
}

static void test_bulk(void **state)
{
    struct fixture *f = *state;
    struct reply reply;

    client_call(f->client, "POST", "/api/tags", "[{\"tag\":\"a\",\"max_id\":10},{\"tag\":\"b\"}]",
                &reply);
    assert_int_equal(reply.status, 200);
    assert_string_equal(reply.body, "{\"made\":2,\"changed\":0}");
    reply_release(&reply);
    client_call(f->client, "POST", "/api/tags",
                "{\"tag\":\"a\",\"step\":7}\n{\"tag\":\"c\",\"max_id\":\"3\"}\n", &reply);
    assert_string_equal(reply.body, "{\"made\":1,\"changed\":1}");
    reply_release(&reply);
    /* All or nothing, with the item named. */
    client_call(f->client, "POST", "/api/tags", "[{\"tag\":\"d\"},{\"tag\":\"a\",\"max_id\":9}]",
                &reply);
    assert_int_equal(reply.status, 409);
    assert_non_null(strstr(reply.body, "item 1, tag \\\"a\\\": max_id is 10; lowering it to 9"));
    reply_release(&reply);
    client_expect_error(f->client, "GET", "/api/tags/d", NULL, 404, "unknown_tag");
    client_call(f->client, "POST", "/api/tags?force=1",
                "[{\"tag\":\"d\"},{\"tag\":\"a\",\"max_id\":9}]", &reply);
    assert_string_equal(reply.body, "{\"made\":1,\"changed\":1}");
    reply_release(&reply);
    client_expect_error(f->client, "POST", "/api/tags", "[{\"tag\":\"d\",\"step\":0}]", 400,
                        "bad_request");
    client_expect_error(f->client, "POST", "/api/tags", "[{\"tag\":\"\"}]", 400, "bad_tag");
    client_expect_error(f->client, "POST", "/api/tags", "", 400, "bad_json");
    client_expect_error(f->client, "POST", "/api/tags", "[]", 400, "bad_request");
    client_expect_error(f->client, "PUT", "/api/tags", "[]", 405, "method_not_allowed");
}

static void test_large_bulks(void **state)
{
    struct fixture *f = *state;
    struct buf body = BUF_INIT;
    struct reply reply;

    for (unsigned i = 0; i < LIMIT_TAGS_PER_BULK; i++) {
        buf_printf(&body, "{\"tag\":\"tag-%u\",\"max_id\":%u}\n", i, i);
    }
    buf_put_u8(&body, 0);
    client_call(f->client, "POST", "/api/tags", (char *)body.data, &reply);
    assert_string_equal(reply.body, "{\"made\":10000,\"changed\":0}");
    reply_release(&reply);
    /* As many as may be, each as long as may be: fits one entry of the log. */
    body.len = 0;
    for (unsigned i = 0; i < LIMIT_TAGS_PER_BULK; i++) {
        buf_printf(&body,
                   "{\"tag\":\"%0128u\",\"description\":\"%0256u\",\"step\":7,\"max_step\":8,"
                   "\"max_id\":\"9223372036854775807\",\"mode\":\"trend\"}\n",
                   i, i);
    }
    buf_put_u8(&body, 0);
    client_expect_error(f->client, "POST", "/api/tags", (char *)body.data, 409, "needs_force");
    client_call(f->client, "POST", "/api/tags?force=1", (char *)body.data, &reply);
    assert_string_equal(reply.body, "{\"made\":10000,\"changed\":0}");
    reply_release(&reply);
    buf_free(&body);
}

/* Every error of the backend has its answer, on every route that asks it. */
static void test_backend_errors(void **state)
{
    static const struct {
        const char *method;
        const char *target;
        const char *body;
    } routes[] = {
        {"GET", "/api/tags/t", NULL},
        {"PUT", "/api/tags/t", "{}"},
        {"DELETE", "/api/tags/t", NULL},
        {"GET", "/api/tags", NULL},
        {"POST", "/api/tags", "[{\"tag\":\"a\"}]"},
        {"GET", "/api/cluster", NULL},
        {"GET", "/api/node/segments", NULL},
        {"GET", "/api/cluster/segments", NULL},
    };
    static const struct {
        int err;
        int status;
        const char *code;
    } errors[] = {
        {ERR_INVALID, 400, "bad_request"},       {ERR_UNKNOWN_TAG, 404, "unknown_tag"},
        {ERR_WOULD_REPEAT, 409, "would_repeat"}, {ERR_CONFLICT, 409, "conflict"},
        {ERR_NO_LEADER, 503, "no_leader"},       {ERR_NOT_LEADER, 503, "no_leader"},
        {ERR_TIMEOUT, 503, "timeout"},           {ERR_UNKNOWN_OUTCOME, 503, "timeout"},
        {ERR_OVERLOADED, 503, "overloaded"},     {ERR_NOMEM, 503, "overloaded"},
        {ERR_DISK_FULL, 503, "disk_full"},       {ERR_SHUTTING_DOWN, 503, "shutting_down"},
        {ERR_IO, 500, "internal_error"},         {ERR_BAD_MESSAGE, 500, "internal_error"},
    };
    struct fixture *f = *state;

    for (size_t i = 0; i < sizeof(routes) / sizeof(routes[0]); i++) {
        for (size_t e = 0; e < sizeof(errors) / sizeof(errors[0]); e++) {
            fake_fail_with(&f->fake, errors[e].err);
            client_expect_error(f->client, routes[i].method, routes[i].target, routes[i].body,
                                errors[e].status, errors[e].code);
        }
    }
    /* 413 closes. */
    fake_fail_with(&f->fake, ERR_TOO_LARGE);
    client_expect_error(f->client, "PUT", "/api/tags/t", "{}", 413, "body_too_large");
    client_expect_end(f->client);
    client_close(f->client);
    f->client = fixture_connect(f);
    fake_fail_with(&f->fake, 0);
    f->fake.wrong_reply = true;
    for (size_t i = 0; i < 5; i++) {
        client_expect_error(f->client, routes[i].method, routes[i].target, routes[i].body,
                            i == 0 ? 404 : 500, i == 0 ? "unknown_tag" : "internal_error");
    }
}

static void test_head(void **state)
{
    static const char *const targets[] = {"/api/tags/t", "/api/tags", "/livez",       "/readyz",
                                          "/version",    "/nothing",  "/api/tags/%zz"};
    struct fixture *f = *state;

    fake_make_tag(&f->fake, "t", 1, 10, 100);
    for (size_t i = 0; i < sizeof(targets) / sizeof(targets[0]); i++) {
        struct reply get;
        struct reply head;

        client_call(f->client, "GET", targets[i], NULL, &get);
        client_call(f->client, "HEAD", targets[i], NULL, &head);
        assert_int_equal(get.status, head.status);
        assert_int_equal(strtoull(reply_header(&head, "Content-Length"), NULL, 10), get.len);
        assert_true(get.len > 0);
        reply_release(&get);
        reply_release(&head);
    }
}

/* --- cluster and node --- */

static void test_cluster(void **state)
{
    struct fixture *f = *state;
    struct reply reply;

    f->fake.cluster = (struct id_cluster_status){
        .cluster_id = "c-1",
        .uid = {0xf81d4fae7dec41d0, 0xa76500a0c91e6bf6},
        .node_id = 2,
        .state = ID_NODE_FOLLOWER,
        .leader_id = 3,
        .term = 9,
        .commit_index = 100,
        .applied_index = 99,
        .level = {2, 50, 1700000000000},
        .member_count = 2,
        .members = {{.id = 2,
                     .peer_address = "127.0.0.1:1",
                     .http_address = "127.0.0.1:2",
                     .version = "0.1.0",
                     .placement = {.zone = "eu-1", .weight = 100},
                     .has_snowflake = true,
                     .levels = {1, 2},
                     .role = "voter",
                     .reachable = true,
                     .match_index = 7},
                    {.id = 3,
                     .peer_address = "h:\"",
                     .role = "standby",
                     .serving = ID_SERVING_UNREACHABLE}},
        .change = {.kind = "add", .state = "under_way", .node_id = 3, .peer_address = "h:1"}};
    client_call(f->client, "GET", "/api/cluster", NULL, &reply);
    assert_int_equal(reply.status, 200);
    assert_string_equal(
        reply.body,
        "{\"cluster_id\":\"c-1\",\"uid\":\"f81d4fae-7dec-41d0-a765-00a0c91e6bf6\",\"node_id\":2,"
        "\"state\":\"follower\",\"leader_id\":3,\"term\":9,"
        "\"commit_index\":100,\"applied_index\":99,\"level\":{\"number\":2,"
        "\"since\":\"2023-11-14T22:13:20.000Z\",\"index\":50},\"members\":[{\"id\":2,"
        "\"peer_address\":\"127.0.0.1:1\",\"http_address\":\"127.0.0.1:2\",\"role\":\"voter\","
        "\"version\":\"0.1.0\",\"zone\":\"eu-1\",\"weight\":100,\"state\":\"ready\","
        "\"snowflake\":true,\"levels\":{\"min\":1,\"max\":2},\"reachable\":true,\"match_index\":"
        "7},{\"id\":3,"
        "\"peer_address\":\"h:\\\"\",\"http_address\":\"\",\"role\":\"standby\",\"version\":\"\","
        "\"zone\":null,\"weight\":0,\"state\":\"unreachable\",\"snowflake\":false,\"levels\":null,"
        "\"reachable\":false,\"match_index\":0}],"
        "\"change\":{\"kind\":\"add\",\"id\":3,\"state\":\"under_way\",\"peer_address\":\"h:1\"}}");
    reply_release(&reply);
    for (int node = ID_NODE_STARTING; node <= ID_NODE_STOPPING; node++) {
        static const char *const names[] = {"starting", "follower", "candidate", "leader",
                                            "stopping"};
        json_t *json;

        f->fake.cluster.state = (enum id_node_state)node;
        f->fake.cluster.leader_id = 0;
        json = call_json(f, "GET", "/api/cluster", NULL, 200);
        assert_string_equal(text_of(json, "state"), names[node]);
        assert_true(json_is_null(json_object_get(json, "leader_id")));
        json_decref(json);
    }
    client_expect_error(f->client, "POST", "/api/cluster", "{}", 405, "method_not_allowed");
    client_expect_error(f->client, "POST", "/api/cluster/nothing", "{}", 404, "no_route");
}

static void test_segments(void **state)
{
    struct fixture *f = *state;
    struct id_tag *tag = fake_open(&f->fake, "a", 10, 10);
    struct reply reply;

    fake_hold(&f->fake, false, true);
    client_expect(f->client, "GET", "/api/segment/get/a", 200, "10");
    fake_publish(&f->fake, tag, 50, 5);
    fake_set_state(&f->fake, fake_open(&f->fake, "b", 0, 0), ID_TAG_EXHAUSTED);
    client_call(f->client, "GET", "/api/node/segments?prefix=x&after=y&limit=2", NULL, &reply);
    assert_int_equal(reply.status, 200);
    assert_string_equal(
        reply.body,
        "{\"segments\":[{\"tag\":\"a\",\"state\":\"active\",\"slots\":[{\"current\":true,"
        "\"next_id\":\"11\",\"end\":\"20\",\"size\":10},{\"current\":false,\"next_id\":\"50\","
        "\"end\":\"55\",\"size\":5}],\"step\":1000,\"refill_in_flight\":false,"
        "\"last_refill_ago_ms\":null,\"rate_per_s\":0,\"lasts_s\":null},{\"tag\":\"b\",\"state\":"
        "\"exhausted\","
        "\"slots\":[{\"current\":true,\"next_id\":null,\"end\":null,\"size\":0},"
        "{\"current\":false,\"next_id\":null,\"end\":null,\"size\":0}],\"step\":1000,"
        "\"refill_in_flight\":false,\"last_refill_ago_ms\":7,\"rate_per_s\":0,"
        "\"lasts_s\":null}],\"next\":\"b\"}");
    reply_release(&reply);
}

static struct id_segment_info held(const char *name, uint64_t next_id)
{
    struct id_segment_info info = {.state = ID_TAG_ACTIVE,
                                   .slots = {{next_id, next_id + 5, 10, 0}},
                                   .step = 10,
                                   .last_refill_ago_ms = UINT64_MAX};

    info.name_len = (uint16_t)strlen(name);
    memcpy(info.name, name, info.name_len);
    return info;
}

#define HELD(name, next, end)                                                                      \
    "{\"tag\":\"" name "\",\"state\":\"active\",\"slots\":[{\"current\":true,\"next_id\":\"" next  \
    "\",\"end\":\"" end "\",\"size\":10},{\"current\":false,\"next_id\":null,\"end\":null,"        \
    "\"size\":0}],\"step\":10,\"refill_in_flight\":false,\"last_refill_ago_ms\":null,"             \
    "\"rate_per_s\":0,\"lasts_s\":0}"

/* Node 2 has more after "b", so nothing it can be shown of node 1 yet: node 2 may have that
 * tag, too. */
static void test_segments_of_all(void **state)
{
    struct fixture *f = *state;
    struct id_segment_info first[] = {held("a", 1), held("c", 101)};
    struct id_segment_info second[] = {held("a", 11), held("b", 201)};
    struct reply reply;

    fake_hold(&f->fake, false, true);
    f->fake.buffers = (struct id_buffers){
        .count = 3,
        .nodes = {{.node_id = 1, .asked = true, .answered = true, .page = {first, 2, false}},
                  {.node_id = 2, .asked = true, .answered = true, .page = {second, 2, true}},
                  {.node_id = 3}}};
    client_call(f->client, "GET", "/api/cluster/segments?limit=2", NULL, &reply);
    assert_int_equal(reply.status, 200);
    assert_string_equal(
        reply.body,
        "{\"nodes\":[{\"node_id\":1,\"asked\":true,\"answered\":true,"
        "\"segments\":[" HELD("a", "1",
                              "6") "]},"
                                   "{\"node_id\":2,\"asked\":true,\"answered\":true,"
                                   "\"segments\":[" HELD("a", "11", "16") "," HELD(
                                       "b", "201",
                                       "206") "]},"
                                              "{\"node_id\":3,\"asked\":false,\"answered\":false,"
                                              "\"segments\":[]}],\"next\":\"b\"}");
    reply_release(&reply);
    f->fake.buffers.nodes[1].page.more = false;
    client_call(f->client, "GET", "/api/cluster/segments", NULL, &reply);
    assert_non_null(strstr(reply.body, HELD("c", "101", "106")));
    assert_non_null(strstr(reply.body, "\"next\":null}"));
    reply_release(&reply);
}

/* --- health --- */

static void test_health(void **state)
{
    static const struct {
        bool started, leader, applied, disk_low, stopping;
        uint64_t held;
        const char *reasons; /* NULL: ready */
    } cases[] = {
        {true, true, true, false, false, 0, NULL},
        {true, true, true, false, false, 5, NULL},
        {true, false, true, false, false, 5, NULL},
        {true, false, true, false, false, 0, "[\"no leader is known and no ids are held\"]"},
        {true, true, true, true, false, 5, NULL},
        {true, false, true, true, false, 5, NULL},
        {true, true, true, true, false, 0,
         "[\"the disk is nearly full or stands still, and no ids are held\"]"},
        {false, true, true, false, false, 5, "[\"the log is still being loaded\"]"},
        {true, true, false, false, false, 5,
         "[\"the state is older than at this node's last stop\"]"},
        {true, true, true, false, true, 5, "[\"the node is stopping\"]"},
        {true, false, true, false, true, 0,
         "[\"the node is stopping\",\"no leader is known and no ids are held\"]"},
    };
    struct fixture *f = *state;
    char wanted[256];

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        atomic_store(&f->fake.health.started, cases[i].started);
        atomic_store(&f->fake.health.leader_known, cases[i].leader);
        atomic_store(&f->fake.health.applied_once, cases[i].applied);
        atomic_store(&f->fake.health.disk_low, cases[i].disk_low);
        atomic_store(&f->fake.health.stopping, cases[i].stopping);
        atomic_store(&f->fake.health.segments_held, cases[i].held);
        if (cases[i].reasons == NULL) {
            client_expect(f->client, "GET", "/readyz", 200, "{\"status\":\"ready\"}");
        } else {
            snprintf(wanted, sizeof(wanted), "{\"status\":\"not ready\",\"reasons\":%s}",
                     cases[i].reasons);
            client_expect(f->client, "GET", "/readyz", 503, wanted);
        }
        client_expect(f->client, "GET", "/livez", 200, "{\"status\":\"alive\"}");
    }
}

static void test_ready_verbose(void **state)
{
    struct fixture *f = *state;

    atomic_store(&f->fake.health.disk_low, true);
    atomic_store(&f->fake.health.segments_held, 1);
    client_expect(f->client, "GET", "/readyz?verbose", 200,
                  "{\"status\":\"ready\",\"checks\":["
                  "{\"name\":\"started\",\"ok\":true,\"needed\":true},"
                  "{\"name\":\"applied\",\"ok\":true,\"needed\":true},"
                  "{\"name\":\"serving\",\"ok\":true,\"needed\":true},"
                  "{\"name\":\"ids\",\"ok\":true,\"needed\":true},"
                  "{\"name\":\"disk\",\"ok\":false,\"needed\":false},"
                  "{\"name\":\"born\",\"ok\":true,\"needed\":true},"
                  "{\"name\":\"drained\",\"ok\":true,\"needed\":true},"
                  "{\"name\":\"memory\",\"ok\":true,\"needed\":false},"
                  "{\"name\":\"settings\",\"ok\":true,\"needed\":false}]}");
}

/* It says which, and stops nothing. */
static void test_settings_that_differ(void **state)
{
    struct fixture *f = *state;
    struct reply reply;

    atomic_store(&f->fake.health.segments_held, 1);
    atomic_store(&f->fake.health.differs, ID_DIFFERS_MEMBERS | ID_DIFFERS_LAYOUT);
    client_expect(f->client, "GET", "/readyz", 200, "{\"status\":\"ready\"}");
    client_call(f->client, "GET", "/readyz?verbose", NULL, &reply);
    assert_int_equal(reply.status, 200);
    assert_non_null(strstr(reply.body, "{\"name\":\"settings\",\"ok\":false,\"needed\":false,"
                                       "\"differ\":[\"cluster.members\",\"snowflake.layout\"]}"));
    reply_release(&reply);
    client_call(f->client, "GET", "/metrics", NULL, &reply);
    assert_non_null(strstr(reply.body, "leafd_setting_differs{setting=\"cluster.members\"} 1\n"));
    assert_non_null(strstr(reply.body, "leafd_setting_differs{setting=\"peer.advertise\"} 0\n"));
    reply_release(&reply);
}

/* Of the seven members the longest reason is told whole. */
static void test_a_node_that_is_not_born_says_for_whom_it_waits(void **state)
{
    static const char why[] = "the cluster is not born yet, as far as this node knows: node 2 "
                              "not met yet; node 65535 was given another cluster.members, "
                              "cluster.id or snowflake layout";
    struct fixture *f = *state;
    char wanted[1024];
    struct reply reply;

    atomic_store(&f->fake.health.uid_low, 0);
    atomic_store(&f->fake.health.birth_waits[0], 2u << 8 | BIRTH_WAIT_UNMET);
    atomic_store(&f->fake.health.birth_waits[1], 65535u << 8 | BIRTH_WAIT_OTHER_LIST);
    snprintf(wanted, sizeof(wanted), "{\"status\":\"not ready\",\"reasons\":[\"%s\"]}", why);
    client_expect(f->client, "GET", "/readyz", 503, wanted);
    client_call(f->client, "GET", "/readyz?verbose", NULL, &reply);
    snprintf(wanted, sizeof(wanted),
             "{\"name\":\"born\",\"ok\":false,\"needed\":true,\"reason\":\"%s\"}", why);
    assert_non_null(strstr(reply.body, wanted));
    reply_release(&reply);
    client_call(f->client, "GET", "/metrics", NULL, &reply);
    assert_non_null(strstr(reply.body, "\nleafd_born 0\n"));
    assert_null(strstr(reply.body, "leafd_cluster_info"));
    reply_release(&reply);
    for (unsigned i = 0; i < LIMIT_NODES; i++) {
        atomic_store(&f->fake.health.birth_waits[i], (65500u + i) << 8 | BIRTH_WAIT_OTHER_LIST);
    }
    client_call(f->client, "GET", "/readyz", NULL, &reply);
    assert_non_null(strstr(reply.body,
                           "node 65506 was given another cluster.members, cluster.id or "
                           "snowflake layout\"]"));
    reply_release(&reply);
}

static void test_version(void **state)
{
    struct fixture *f = *state;

    client_expect(f->client, "GET", "/version", 200,
                  "{\"version\":\"9.8.7\",\"commit\":\"abc\\\"def\",\"level\":0,"
                  "\"levels\":{\"min\":1,\"max\":3},"
                  "\"libraries\":{\"libuv\":\"1.44.2\"}}");
    client_expect_error(f->client, "POST", "/version", "", 405, "method_not_allowed");
    client_expect_error(f->client, "DELETE", "/livez", NULL, 405, "method_not_allowed");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_put_get_delete),
        TEST(test_put_defaults),
        TEST(test_lowering_needs_force),
        TEST(test_put_faults_propose_nothing),
        TEST(test_list),
        TEST(test_list_faults),
        TEST(test_consistency),
        TEST(test_a_cover_that_a_tag_has_ids_for),
        TEST(test_bulk),
        TEST(test_large_bulks),
        TEST(test_backend_errors),
        TEST(test_head),
        TEST(test_cluster),
        TEST(test_segments),
        TEST(test_segments_of_all),
        TEST(test_health),
        TEST(test_ready_verbose),
        TEST(test_settings_that_differ),
        TEST(test_a_node_that_is_not_born_says_for_whom_it_waits),
        TEST(test_version),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
