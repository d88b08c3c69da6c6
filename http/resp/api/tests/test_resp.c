/*
 * test_resp.c - requests of RESP: methods, answers, who asks.
 *
 * RESP over real sockets: each method, errors, order, what waits, what closes a connection, and
 * versions..
 *
 * Who may ask what over RESP, over real sockets: AUTH and HELLO, roles, tags that are others',
 * tokens that change while connections are open, and what the audit has of it.
 *
 * Thread: one, beside the loop's and the backend's.
 *
 * Shows attack-resp.
 */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "src/tests/unit/test.h"
#include "http/api/request.h"
#include "http/api/tests/guarded.h"
#include "http/resp/api/resp.h"
#include "http/resp/api/tests/resp_ask.h"
#include "http/tests/fixture.h"
#include "src/base/assert.h"

/* --- talker --- */

#define WALL_MS 1700000000000ULL

struct scene {
    struct fixture f;
    struct client *resp;
};

static void prepare(struct fixture *f)
{
    static const struct snowflake_layout layout = SNOWFLAKE_LEAF_LAYOUT;

    fake_snowflake(&f->fake);
    f->fake.snowflake.layout = layout;
    atomic_store(&f->fake.snowflake.ready, true);
    fake_make_tag(&f->fake, "a", 1, 1000, 1000000);
    fake_make_tag(&f->fake, "small", 1, 4, 4);
    fake_set_mode(&f->fake, "strict", TAG_MODE_STRICT);
}

static void start_with(struct scene *scene, struct http_settings limits)
{
    limits.resp_address = "127.0.0.1:0";
    fixture_start_with(&scene->f, &limits, prepare);
    scene->resp = fixture_connect_resp(&scene->f);
}

static void stop(struct scene *scene)
{
    client_close(scene->resp);
    fixture_stop(&scene->f);
}

static int setup(void **state)
{
    struct scene *scene = malloc(sizeof *scene);

    ASSERT(scene != NULL);
    start_with(scene, (struct http_settings){.loops = 1});
    *state = scene;
    return 0;
}

static int teardown(void **state)
{
    stop(*state);
    free(*state);
    return 0;
}

/* --- ids --- */

static void test_one_id(void **state)
{
    struct scene *scene = *state;

    resp_expect(scene->resp, "INCR a", ":1\r\n");
    resp_expect(scene->resp, "INCR a", ":2\r\n"); /* the same bytes */
    resp_expect(scene->resp, "incr a", ":3\r\n");
    client_expect(scene->f.client, "GET", "/api/segment/get/a", 200, "4");
    client_printf(scene->resp, "INCR a\r\n\r\n  INCR a\n");
    resp_expect_bytes(scene->resp, ":5\r\n:6\r\n");
    resp_expect_error(scene->resp, "INCR none", "-ERR unknown_tag: ", "there is no tag \"none\"");
    resp_expect_error(scene->resp, "INCR", "-ERR bad_request: ", "INCR tag");
    resp_expect_error(scene->resp, "INCR a b", "-ERR bad_request: ", "INCR tag");
    client_printf(scene->resp, "*2\r\n$4\r\nINCR\r\n$2\r\n\x01z\r\n");
    resp_expect_line(scene->resp, "-ERR bad_tag: ", "a control character");
    client_printf(scene->resp, "*2\r\n$4\r\nINCR\r\n$0\r\n\r\n");
    resp_expect_line(scene->resp, "-ERR bad_tag: ", "is empty");
}

static void test_name_bounds(void **state)
{
    struct scene *scene = *state;
    char words[LIMIT_TAG_NAME_BYTES + 16] = "INCR ";

    memset(words + 5, 'n', LIMIT_TAG_NAME_BYTES);
    fake_make_tag(&scene->f.fake, words + 5, 7, 1000, 1000000);
    resp_expect(scene->resp, words, ":7\r\n");
    words[5 + LIMIT_TAG_NAME_BYTES] = 'n';
    resp_expect_error(scene->resp, words, "-ERR bad_tag: ", "longer than 128 bytes");
}

/* A name stands as it is: no byte of it is an escape. */
static void test_name_is_not_decoded(void **state)
{
    struct scene *scene = *state;

    fake_make_tag(&scene->f.fake, "%61", 50, 1000, 1000000);
    resp_expect(scene->resp, "INCR %61", ":50\r\n");
    resp_expect(scene->resp, "INCR a", ":1\r\n");
}

static void test_many_at_once(void **state)
{
    struct scene *scene = *state;

    resp_expect(scene->resp, "INCRBY a 10", ":10\r\n");
    resp_expect(scene->resp, "INCRBY a 1", ":11\r\n");
    resp_expect(scene->resp, "INCRBY a 10", ":21\r\n");
    resp_expect(scene->resp, "INCRBY strict 100000", ":100000\r\n");
    resp_expect(scene->resp, "INCR strict", ":100001\r\n");
    resp_expect_error(scene->resp, "INCRBY a 0", "-ERR bad_count: ", "\"0\" is not a whole number");
    resp_expect_error(scene->resp, "INCRBY a -1", "-ERR bad_count: ", "from 1 to 100000");
    resp_expect_error(scene->resp, "INCRBY a 100001", "-ERR bad_count: ", "\"100001\"");
    resp_expect_error(scene->resp, "INCRBY a 1.5", "-ERR bad_count: ", "\"1.5\"");
    resp_expect_error(scene->resp, "INCRBY a", "-ERR bad_request: ", "INCRBY tag count");
    /* All of them in one segment, or none. */
    resp_expect(scene->resp, "INCR small", ":1\r\n");
    resp_expect(scene->resp, "INCRBY small 4", ":8\r\n");
    resp_expect_error(scene->resp, "INCRBY small 5", "-ERR not_contiguous: ", "max_step is 4");
}

static void test_next(void **state)
{
    struct scene *scene = *state;

    resp_expect(scene->resp, "LEAFD.NEXT a", ":1\r\n");
    resp_expect(scene->resp, "leafd.next a count 3", "*3\r\n:2\r\n:3\r\n:4\r\n");
    resp_expect(scene->resp, "LEAFD.NEXT a COUNT 1", "*1\r\n:5\r\n");
    resp_expect(scene->resp, "LEAFD.NEXT small COUNT 6",
                "*6\r\n:1\r\n:2\r\n:3\r\n:4\r\n:5\r\n:6\r\n");
    resp_expect_error(scene->resp, "LEAFD.NEXT a COUNT 0", "-ERR bad_count: ", "\"0\"");
    resp_expect_error(scene->resp, "LEAFD.NEXT a COUNT", "-ERR bad_request: ", "[COUNT count]");
    resp_expect_error(scene->resp, "LEAFD.NEXT a COUNT 1 COUNT 2", "-ERR bad_request: ", "wrong");
    resp_expect_error(scene->resp, "LEAFD.NEXT a BY 2", "-ERR bad_request: ", "wrong words");
}

static void test_keys(void **state)
{
    struct scene *scene = *state;

    fake_set_wall(&scene->f.fake, WALL_MS);
    fake_log_time(&scene->f.fake, WALL_MS);
    resp_expect(scene->resp, "LEAFD.NEXT strict KEY k1", ":1\r\n");
    resp_expect(scene->resp, "LEAFD.NEXT strict KEY k1", ":1\r\n");
    resp_expect(scene->resp, "LEAFD.NEXT strict KEY k2 COUNT 2", "*2\r\n:2\r\n:3\r\n");
    resp_expect(scene->resp, "LEAFD.NEXT strict COUNT 2 KEY k2", "*2\r\n:2\r\n:3\r\n");
    resp_expect(scene->resp, "INCR strict", ":4\r\n"); /* no key is left of the request before */
    resp_expect_error(scene->resp, "LEAFD.NEXT strict KEY k1 COUNT 2",
                      "-ERR idempotency_conflict: ", "count=1");
    resp_expect_error(scene->resp, "LEAFD.NEXT a KEY k3", "-ERR bad_key: ", "is in trend mode");
    resp_expect_error(scene->resp, "LEAFD.NEXT a KEY x KEY y", "-ERR bad_request: ", "wrong words");
    client_printf(scene->resp,
                  "*4\r\n$10\r\nLEAFD.NEXT\r\n$6\r\nstrict\r\n$3\r\nKEY\r\n$0\r\n\r\n");
    resp_expect_line(scene->resp, "-ERR bad_key: ", "0 bytes");
}

/* An array that is made part by part, with others' requests after it. */
static void test_a_large_array(void **state)
{
    struct scene *scene = *state;
    char line[32];

    resp_send(scene->resp, "LEAFD.NEXT strict COUNT 100000");
    resp_send(scene->resp, "PING");
    resp_expect_bytes(scene->resp, "*100000\r\n");
    for (unsigned i = 1; i <= 100000; i++) {
        (void)snprintf(line, sizeof line, ":%u\r\n", i);
        resp_expect_bytes(scene->resp, line);
    }
    resp_expect_bytes(scene->resp, "+PONG\r\n");
}

/* --- what waits --- */

static void test_order_of_what_waits(void **state)
{
    struct scene *scene = *state;
    struct id_tag *tag = fake_open(&scene->f.fake, "w", 0, 0);

    fake_hold(&scene->f.fake, false, true);
    client_printf(scene->resp, "INCR w\r\nPING\r\nINCRBY w 2\r\nECHO x\r\n");
    fake_await_demand(tag, 1);
    assert_false(client_has_input(scene->resp));
    fake_publish(&scene->f.fake, tag, 10, 1);
    resp_expect_bytes(scene->resp, ":10\r\n+PONG\r\n");
    fake_await_demand(tag, 2);
    fake_publish(&scene->f.fake, tag, 20, 10);
    resp_expect_bytes(scene->resp, ":21\r\n$1\r\nx\r\n");
}

static void test_a_client_that_goes(void **state)
{
    struct scene *scene = *state;
    struct client *other = fixture_connect_resp(&scene->f);
    struct id_tag *tag = fake_open(&scene->f.fake, "w", 0, 0);

    fake_hold(&scene->f.fake, false, true);
    resp_send(other, "INCRBY w 5");
    fake_await_demand(tag, 5);
    client_close(other);
    fake_await_demand(tag, 0);
    fake_publish(&scene->f.fake, tag, 10, 1);
    resp_expect(scene->resp, "INCR w", ":10\r\n");
}

static void test_deadline(void **state)
{
    struct scene *scene = *state;

    fake_fail_with(&scene->f.fake, ERR_OVERLOADED);
    resp_expect_error(scene->resp, "INCR strict", "-BUSY overloaded: ", "");
    fake_fail_with(&scene->f.fake, ERR_NO_LEADER);
    resp_expect_error(scene->resp, "GET a", "-TRYAGAIN no_leader: ", "");
    fake_fail_with(&scene->f.fake, 0);
    stop(scene);
    start_with(scene, (struct http_settings){.loops = 1, .default_timeout_ms = 30});
    (void)fake_open(&scene->f.fake, "w", 0, 0);
    fake_hold(&scene->f.fake, false, true);
    resp_expect_error(scene->resp, "INCR w", "-TRYAGAIN timeout: ", "within 30 ms");
    atomic_store(&scene->f.fake.health.leader_known, false);
    resp_expect_error(scene->resp, "INCR w", "-TRYAGAIN no_leader: ", "no leader");
    fake_release(&scene->f.fake);
}

/* --- looking --- */

static void test_get(void **state)
{
    struct scene *scene = *state;

    resp_expect(scene->resp, "GET a", "$1\r\n1\r\n");
    resp_expect(scene->resp, "INCR a", ":1\r\n");
    resp_expect(scene->resp, "GET a", "$4\r\n1001\r\n");
    resp_expect(scene->resp, "GET none", "$-1\r\n");
    resp_send(scene->resp, "HELLO 3");
    resp_expect_bytes(scene->resp,
                      "%7\r\n$6\r\nserver\r\n$5\r\nleafd\r\n$7\r\nversion\r\n$5\r\n9.8.7"
                      "\r\n$5\r\nproto\r\n:3\r\n$2\r\nid\r\n");
    resp_expect_line(scene->resp, ":", "");
    resp_expect_bytes(scene->resp,
                      "$4\r\nmode\r\n$10\r\nstandalone\r\n$4\r\nrole\r\n$6\r\nmaster\r\n"
                      "$7\r\nmodules\r\n*0\r\n");
    resp_expect(scene->resp, "GET none", "_\r\n");
    resp_expect_error(scene->resp, "GET", "-ERR bad_request: ", "GET tag");
}

/* A tag is made where there is none; the fake lets anybody make one. */
static void test_set_unless_there(void **state)
{
    struct scene *scene = *state;

    resp_expect(scene->resp, "SETNX a 7", ":0\r\n");
    resp_expect(scene->resp, "SET a 7 nx", "$-1\r\n");
    resp_expect(scene->resp, "INCR a", ":1\r\n");
    resp_expect(scene->resp, "SETNX new 0", ":1\r\n");
    resp_expect(scene->resp, "SETNX new 0", ":0\r\n");
    resp_expect(scene->resp, "INCRBY new 3", ":3\r\n");
    resp_expect(scene->resp, "SET other 41 NX", "+OK\r\n");
    resp_expect(scene->resp, "INCR other", ":42\r\n");
    resp_expect_error(scene->resp, "SETNX end 9223372036854775806",
                      "-ERR needs_force: ", "(PUT /api/tags/{tag}?force=1 over HTTP does it)");
    fake_delete_tag(&scene->f.fake, "other");
    resp_expect_error(scene->resp, "SETNX other 7", "-ERR would_repeat: max_id is ",
                      ", or 0, leaves it as it is (PUT /api/tags/{tag}?force=1 over HTTP lowers");
    resp_expect_error(scene->resp, "SETNX end 9223372036854775807",
                      "-ERR bad_request: the number \"9223372036854775807\" is not ", "");
    fake_fail_with(&scene->f.fake, ERR_NO_LEADER);
    resp_expect_error(scene->resp, "SETNX later 0", "-TRYAGAIN no_leader: ", "");
}

static void test_decode(void **state)
{
    struct scene *scene = *state;
    struct reply reply;

    resp_expect(
        scene->resp, "LEAFD.DECODE 2123759178190168126",
        "*10\r\n$2\r\nid\r\n:2123759178190168126\r\n$12\r\ntimestamp_ms\r\n:1795178620275\r\n"
        "$4\r\ntime\r\n$24\r\n2026-11-20T12:43:40.275Z\r\n$9\r\nworker_id\r\n:2\r\n"
        "$8\r\nsequence\r\n:62\r\n");
    resp_expect(scene->resp, "LEAFD.AT 2020-05-02T12:13:44.602Z", ":1256557484210913280\r\n");
    resp_expect_error(scene->resp, "LEAFD.AT 1", "-ERR bad_request: ", "outside the layout");
    resp_expect_error(scene->resp, "LEAFD.AT 1 LAYOUT none", "-ERR unknown_layout: ", "");
    resp_expect_error(scene->resp, "LEAFD.AT 1 COUNT 1", "-ERR ", "");
    resp_expect_error(scene->resp, "LEAFD.DECODE 1 COUNT none",
                      "-ERR bad_request: ", "wrong words");
    resp_expect_error(scene->resp, "LEAFD.DECODE 1 LAYOUT none", "-ERR unknown_layout: ", "");
    client_call(scene->f.client, "PUT", "/api/layouts/sony", "{\"preset\":\"sonyflake\"}", &reply);
    reply_release(&reply);
    resp_expect(
        scene->resp, "LEAFD.DECODE 617727739151450115 LAYOUT sony",
        "*10\r\n$2\r\nid\r\n:617727739151450115\r\n$12\r\ntimestamp_ms\r\n:1777724024600\r\n"
        "$4\r\ntime\r\n$24\r\n2026-05-02T12:13:44.600Z\r\n$9\r\nworker_id\r\n:3\r\n"
        "$8\r\nsequence\r\n:7\r\n");
    resp_expect(scene->resp, "LEAFD.AT 2026-05-02T12:13:44.600Z LAYOUT sony",
                ":617727739150991360\r\n");
    resp_expect_error(scene->resp, "LEAFD.DECODE x", "-ERR bad_request: ", "\"x\" is not a whole");
    resp_expect_error(scene->resp, "LEAFD.DECODE 9223372036854775808", "-ERR bad_request: ", "");
    resp_expect_error(scene->resp, "LEAFD.SNOWFLAKE KEY x", "-ERR bad_request: ", "wrong words");
    resp_expect_error(scene->resp, "LEAFD.SNOWFLAKE COUNT 0", "-ERR bad_count: ", "");
}

/* --- talk --- */

static void test_talk(void **state)
{
    struct scene *scene = *state;
    char words[LIMIT_RESP_NAME_BYTES + 32] = "CLIENT SETNAME ";

    resp_expect(scene->resp, "PING", "+PONG\r\n");
    resp_expect(scene->resp, "PING hi", "$2\r\nhi\r\n");
    resp_expect(scene->resp, "ECHO hi", "$2\r\nhi\r\n");
    resp_expect(scene->resp, "SELECT 0", "+OK\r\n");
    resp_expect_error(scene->resp, "SELECT 1", "-ERR bad_request: ", "there is no database \"1\"");
    resp_expect(scene->resp, "CLIENT GETNAME", "$-1\r\n");
    resp_expect(scene->resp, "CLIENT SETNAME me", "+OK\r\n");
    resp_expect(scene->resp, "CLIENT GETNAME", "$2\r\nme\r\n");
    resp_expect(scene->resp, "CLIENT SETINFO LIB-NAME x", "+OK\r\n");
    resp_expect(scene->resp, "CLIENT NO-EVICT on", "+OK\r\n");
    resp_expect(scene->resp, "CLIENT NO-TOUCH on", "+OK\r\n");
    resp_expect_error(scene->resp, "CLIENT KILL x", "-ERR bad_request: ", "SETNAME name|GETNAME");
    memset(words + 15, 'n', LIMIT_RESP_NAME_BYTES);
    resp_expect(scene->resp, words, "+OK\r\n");
    words[15 + LIMIT_RESP_NAME_BYTES] = 'n';
    resp_expect_error(scene->resp, words,
                      "-ERR bad_request: ", "a name of 65 bytes; it may have 64");
    resp_expect(scene->resp, "COMMAND COUNT", ":19\r\n");
    resp_expect(scene->resp, "COMMAND INFO incr none",
                "*2\r\n*6\r\n$4\r\nincr\r\n:2\r\n*1\r\n+write\r\n:1\r\n:1\r\n:1\r\n$-1\r\n");
    resp_expect(scene->resp, "COMMAND DOCS quit none",
                "*2\r\n$4\r\nquit\r\n*4\r\n$7\r\nsummary\r\n$19\r\nEnd the connection.\r\n"
                "$5\r\ngroup\r\n$5\r\nleafd\r\n");
    resp_expect_error(scene->resp, "COMMAND LIST", "-ERR bad_request: ", "COMMAND [COUNT");
    resp_expect(scene->resp, "CONFIG GET save", "*0\r\n");
    resp_expect_error(scene->resp, "CONFIG SET save x", "-ERR bad_request: ", "CONFIG GET");
    client_printf(scene->resp, "*2\r\n$6\r\nOBJECT\r\n$1\r\na\r\n");
    resp_expect_line(scene->resp, "-ERR unknown_command: unknown command \"OBJECT\"; here",
                     "here are: INCR, INCRBY, LEAFD.NEXT, LEAFD.SNOWFLAKE, LEAFD.DECODE, LEAFD.AT, "
                     "GET, SET, SETNX");
    resp_expect_error(scene->resp, "SET a 1 XX", "-ERR bad_request: wrong words: SET tag ", "NX");
    resp_expect_error(scene->resp, "SETNX a -1", "-ERR bad_request: the number \"-1\" is not ", "");
    resp_expect_error(scene->resp, "SETNX  1", "-ERR bad_request: ", "");
    resp_expect_error(scene->resp, "SET a 1", "-ERR bad_request: wrong number of words: SET tag ",
                      "SETNX makes a tag; its max_id is raised over HTTP, by PUT /api/tags/{tag}");
    resp_expect_error(
        scene->resp, "MSET a 1",
        "-ERR unknown_command: unknown command \"MSET\": SETNX makes a tag; its max_id is "
        "raised over HTTP, by PUT /api/tags/{tag}; here are: INCR, ",
        "QUIT");
    resp_expect_error(scene->resp, "exec", "-ERR unknown_command: ",
                      "there are no transactions, send the requests as a pipeline without one");
    resp_expect_error(scene->resp, "Expire a 1", "-ERR unknown_command: ", "no tag expires; ");
    resp_expect_error(scene->resp, "DEL a", "-ERR unknown_command: ", "by DELETE /api/tags/{tag}");
    resp_expect_error(scene->resp, "READONLY", "-ERR unknown_command: ", "any node serves any tag");
    resp_expect_error(scene->resp, "AUTH x", "-ERR no_tokens: ", "AUTH is not needed");
}

static void test_hello(void **state)
{
    struct scene *scene = *state;

    resp_expect_error(scene->resp, "HELLO 4", "-NOPROTO bad_protocol: ", "there are 2 and 3");
    resp_expect_error(scene->resp, "HELLO 3 SETNAME", "-ERR bad_request: ", "wrong words");
    resp_expect_error(scene->resp, "HELLO 3 SETNAME a AUTH b", "-ERR bad_request: ", "wrong words");
    resp_expect_error(scene->resp, "HELLO 3 AUTH a b", "-ERR no_tokens: ", "");
    resp_expect(scene->resp, "CLIENT GETNAME", "$-1\r\n"); /* none of them changed anything */
    resp_send(scene->resp, "HELLO 2 SETNAME me");
    resp_expect_bytes(scene->resp, "*14\r\n");
    resp_send(scene->resp, "QUIT");
    for (unsigned i = 0; i < 3; i++) {
        resp_expect_line(scene->resp, "$", "");
        resp_expect_line(scene->resp, "", "");
    }
}

static void test_info(void **state)
{
    struct scene *scene = *state;

    resp_send(scene->resp, "INFO server");
    resp_expect_line(scene->resp, "$", "");
    resp_expect_bytes(scene->resp, "# Server\r\nserver_name:leafd\r\nredis_version:7.0.0\r\n"
                                   "redis_mode:standalone\r\nleafd_version:9.8.7\r\n"
                                   "leader_known:1\r\n\r\n# Clients\r\n"
                                   "connected_clients:1\r\nblocked_clients:0\r\n\r\n"
                                   "# Memory\r\n");
    resp_expect_line(scene->resp, "used_memory:", "");
    resp_expect_bytes(scene->resp, "\r\n# Stats\r\ntotal_connections_received:1\r\n"
                                   "total_commands_processed:0\r\n"
                                   "\r\n# Persistence\r\nloading:0\r\n");
}

/* --- the end of a connection --- */

static void test_quit(void **state)
{
    struct scene *scene = *state;

    client_printf(scene->resp, "INCR a\r\nQUIT\r\nINCR a\r\n");
    resp_expect_bytes(scene->resp, ":1\r\n+OK\r\n");
    client_expect_end(scene->resp);
    client_expect(scene->f.client, "GET", "/api/segment/get/a", 200, "2");
}

static void test_what_breaks_the_protocol(void **state)
{
    static const struct {
        const char *bytes;
        const char *why;
    } bad[] = {
        {"*1000000000\r\n", "too many words; the limit is 64"},
        {"*-1\r\n", "not a whole number"},
        {"*1\r\n$1000000000\r\n", "too long (limit in bytes); the limit is 8192"},
        {"*1\r\n*1\r\n", "$ is missing"},
        {"POST / HTTP/1.1\r\nINCR a\r\n", "HTTP is served at http.listen"},
    };
    struct scene *scene = *state;

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct client *client = fixture_connect_resp(&scene->f);

        client_printf(client, "PING\r\n%sINCR a\r\n", bad[i].bytes);
        resp_expect_bytes(client, "+PONG\r\n");
        resp_expect_line(client, "-ERR bad_request: ", bad[i].why);
        client_expect_end(client);
        client_close(client);
    }
    client_expect(scene->f.client, "GET", "/api/segment/get/a", 200, "1"); /* none was taken */
}

/* A line of another protocol gets no answer that stands for the request after it, and nothing of
 * what is after it is carried out. */
static void test_lines_of_others_end_it(void **state)
{
    static const struct {
        const char *line;
        const char *why;
    } cases[] = {
        {"PROXY", "\"PROXY\" begins no request of RESP"},
        {"EHLO proxy.example", "\"EHLO\" begins no request of RESP"},
        {"get_version", "begins no request of RESP"},
    };
    struct scene *scene = *state;

    fake_open(&scene->f.fake, "a", 1, 10);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct client *client = fixture_connect_resp(&scene->f);

        client_printf(client, "%s\r\n*2\r\n$4\r\nINCR\r\n$1\r\na\r\n", cases[i].line);
        resp_expect_line(client, "-ERR unknown_command: ", cases[i].why);
        client_expect_end(client);
        client_close(client);
    }
    client_expect(scene->f.client, "GET", "/api/segment/get/a", 200, "1");
}

static void test_slow_requests(void **state)
{
    struct scene *scene = *state;

    stop(scene);
    start_with(scene, (struct http_settings){.loops = 1, .head_ms = 30, .resp_idle_ms = 60});
    client_printf(scene->resp, "*1\r\n$4\r\nPI");
    resp_expect_line(scene->resp, "-ERR too_slow: ", "did not arrive in time");
    client_expect_end(scene->resp);
    client_close(scene->resp);
    scene->resp = fixture_connect_resp(&scene->f);
    resp_expect(scene->resp, "PING", "+PONG\r\n");
    client_expect_end(scene->resp); /* it is idle for too long */
}

static void test_too_many_connections(void **state)
{
    struct scene *scene = *state;
    struct client *one_more;

    stop(scene);
    start_with(scene, (struct http_settings){.loops = 1, .connections = 2});
    resp_expect(scene->resp, "PING", "+PONG\r\n"); /* beside the one of HTTP */
    one_more = fixture_connect_resp(&scene->f);
    resp_expect_line(one_more, "-BUSY overloaded: ", "too many connections");
    client_expect_end(one_more);
    client_close(one_more);
}

static void test_quotas(void **state)
{
    static const char both[] = "PING\r\nPING\r\n"; /* in one turn: later one more is let in */
    struct scene *scene = *state;

    stop(scene);
    start_with(scene, (struct http_settings){.loops = 1, .quotas = {.ids_per_s = 10}});
    resp_expect(scene->resp, "INCRBY a 100", ":100\r\n");
    resp_expect_error(scene->resp, "INCR a", "-BUSY quota: ", "its quota of 10 ids a second");
    stop(scene);
    start_with(scene, (struct http_settings){.loops = 1, .quotas = {.requests_per_s = 1}});
    client_send(scene->resp, both, sizeof both - 1);
    resp_expect_bytes(scene->resp, "+PONG\r\n");
    resp_expect_line(scene->resp, "-BUSY quota: ", "its quota of 1 requests a second");
}

static void test_out_of_descriptors(void **state)
{
    struct scene *scene = *state;
    struct client *client;
    struct rlimit before;
    struct rlimit tight;
    int next;

    resp_expect(scene->resp, "PING", "+PONG\r\n"); /* it was accepted for certain */
    client_expect(scene->f.client, "GET", "/livez", 200, NULL);
    next = dup(scene->resp->fd);
    assert_true(next > 0);
    close(next);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    tight = before;
    tight.rlim_cur = (rlim_t)next + 1;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &tight), 0);
    client = fixture_connect_resp(&scene->f);
    resp_expect_line(client, "-BUSY overloaded: ", "no file descriptor is left");
    client_expect_end(client);
    resp_expect(scene->resp, "PING", "+PONG\r\n");
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    client_close(client);
    client = fixture_connect_resp(&scene->f);
    resp_expect(client, "PING", "+PONG\r\n");
    client_close(client);
}

/* The port of the one listener and of the other; then neither is open. */
static void test_port_in_use(void **state)
{
    static const struct http_build build = {
        .version = "", .commit = "", .libraries = "{}", .reloads = &fake_reloads};
    struct scene *scene = *state;
    struct http_settings settings = {.loops = 2};
    struct http_server *server;
    struct api *api;
    char address[32];

    (void)snprintf(address, sizeof address, "127.0.0.1:%u",
                   fixture_port(scene->f.server, ACCEPT_RESP));
    fake_settings(&settings);
    settings.resp_address = address;
    api = api_new(&settings, &build, &scene->f.fake.backend, fake_auth(), &resp_talker, NULL);
    assert_int_equal(http_server_make(&settings, &api->ids.service, &server), ERR_EXISTS);
    settings.resp_address = "127.0.0.1";
    assert_int_equal(http_server_make(&settings, &api->ids.service, &server), ERR_INVALID);
    settings.resp_address = "127.0.0.1:0";
    assert_int_equal(http_server_make(&settings, &api->ids.service, &server), 0);
    http_server_stop(server);
    api_free(api);
}

/* Who asks for much and takes nothing is cut off; what was made for it is bounded. */
static void test_a_client_that_does_not_read(void **state)
{
    struct scene *scene = *state;
    struct linger at_once = {.l_onoff = 1, .l_linger = 0};

    stop(scene);
    start_with(scene, (struct http_settings){.loops = 1, .write_ms = 50});
    for (unsigned i = 0; i < 20; i++) {
        resp_send(scene->resp, "LEAFD.NEXT strict COUNT 100000");
    }
    do {
        struct reply reply;

        client_call(scene->f.client, "GET", "/metrics", NULL, &reply);
        assert_non_null(reply.body);
        if (strstr(reply.body, "leafd_http_refused_total{why=\"reader_slow\"} 1\n") != NULL) {
            reply_release(&reply);
            break;
        }
        reply_release(&reply);
        sched_yield();
    } while (true);
    (void)setsockopt(scene->resp->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
}

/* All replies of a long pipeline, though the client reads none until it has sent all. */
static void test_a_long_pipeline(void **state)
{
    enum { COUNT = 5000 };
    struct scene *scene = *state;
    char line[32];

    for (unsigned i = 0; i < COUNT; i++) {
        resp_send(scene->resp, i % 2 == 0 ? "INCR a" : "LEAFD.NEXT a COUNT 1");
    }
    for (unsigned i = 1; i <= COUNT; i++) {
        (void)snprintf(line, sizeof line, i % 2 == 1 ? ":%u\r\n" : "*1\r\n:%u\r\n", i);
        resp_expect_bytes(scene->resp, line);
    }
}

static void test_metrics(void **state)
{
    static const char *const wanted[] = {
        "\nleafd_connections 2\n",
        "\nleafd_resp_connections 1\n",
        "\nleafd_resp_requests_total{status=\"2xx\"} 2\n",
        "\nleafd_resp_requests_total{status=\"4xx\"} 1\n",
        "class=\"resp\",status=\"2xx\",le=\"+Inf\"} 1\n",
        "class=\"resp\",status=\"4xx\",le=\"+Inf\"} 1\n",
        "class=\"segment\",status=\"2xx\",le=\"+Inf\"} 1\n",
    };
    struct scene *scene = *state;
    struct reply reply;

    resp_expect(scene->resp, "PING", "+PONG\r\n");
    resp_expect(scene->resp, "INCR a", ":1\r\n");
    resp_expect_error(scene->resp, "MSET a 1", "-ERR unknown_command: ", "");
    client_call(scene->f.client, "GET", "/metrics", NULL, &reply);
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        if (strstr(reply.body, wanted[i]) == NULL) {
            print_error("%s is not among\n%s\n", wanted[i], reply.body);
            fail();
        }
    }
    reply_release(&reply);
}

/* A reply is the last of its connection when the server retires. */
static void test_retire(void **state)
{
    struct scene *scene = *state;

    resp_expect(scene->resp, "INCR a", ":1\r\n");
    http_server_retire(scene->f.server, 10000);
    resp_expect(scene->resp, "INCR a", ":2\r\n");
    client_expect_end(scene->resp);
}

/* --- auth --- */

static const struct guarded_line lines[] = {
    {"root", "roles=all"},
    {"reader", "roles=read"},
    {"taker", "roles=ids"},
    {"shop", "roles=ids,read prefix=a/"},
    {"maker", "roles=ids,tags prefix=a/"},
    {"few", "roles=ids ids-per-s=2"},
    {NULL, NULL},
};

struct scene_auth {
    struct fixture f;
    struct client *resp;
};

static int setup_with(void **state, unsigned anonymous_roles)
{
    const struct guarded_settings settings = {
        .lines = lines, .anonymous_roles = anonymous_roles, .resp = true};
    struct scene_auth *scene_auth = malloc(sizeof *scene_auth);

    ASSERT(scene_auth != NULL);
    guarded_start(&scene_auth->f, &settings);
    scene_auth->resp = fixture_connect_resp(&scene_auth->f);
    *state = scene_auth;
    return 0;
}

static int setup_auth(void **state)
{
    return setup_with(state, ROLE_HEALTH);
}

static int setup_open(void **state)
{
    return setup_with(state, ROLE_IDS);
}

static int teardown_auth(void **state)
{
    struct scene_auth *scene_auth = *state;

    client_close(scene_auth->resp);
    fixture_stop(&scene_auth->f);
    free(scene_auth);
    return 0;
}

/* Refused so; and the audit has one entry more, with what was asked, for this reason. */
static void denied(struct scene_auth *scene_auth, const char *words, const char *begin,
                   const char *text, const char *what, const char *reason)
{
    unsigned before = guarded_audit_count(&scene_auth->f);

    resp_expect_error(scene_auth->resp, words, begin, text);
    assert_int_equal(guarded_audit_count(&scene_auth->f), before + 1);
    guarded_audit_has(&scene_auth->f, "\"outcome\":\"refused\"");
    guarded_audit_has(&scene_auth->f, what);
    guarded_audit_has(&scene_auth->f, reason);
}

static void test_without_a_token(void **state)
{
    struct scene_auth *scene_auth = *state;

    denied(scene_auth, "INCR a/1", "-NOAUTH unauthorized: ", "this needs a token: AUTH TOKEN",
           "\"what\":\"INCR a/1\"", "\"answer\":\"no token\"");
    guarded_audit_has(&scene_auth->f,
                      "\"who\":\"anonymous\",\"by\":\"nothing\",\"address\":\"127.0.0.1:");
    denied(scene_auth, "GET a/1", "-NOAUTH unauthorized: ", "", "\"what\":\"GET a/1\"",
           "\"status\":401");
    denied(scene_auth, "LEAFD.SNOWFLAKE", "-NOAUTH unauthorized: ", "",
           "\"what\":\"LEAFD.SNOWFLAKE\"", "no token");
    resp_expect(scene_auth->resp, "PING", "+PONG\r\n");
    resp_expect(scene_auth->resp, "SELECT 0", "+OK\r\n");
    resp_expect(scene_auth->resp, "CLIENT SETNAME x", "+OK\r\n");
}

static void test_auth(void **state)
{
    struct scene_auth *scene_auth = *state;

    resp_expect_error(scene_auth->resp, "INCR a/1", "-NOAUTH unauthorized: ", "");
    resp_expect(scene_auth->resp, "AUTH root-token", "+OK\r\n");
    resp_expect(scene_auth->resp, "INCR a/1", ":1\r\n"); /* the same bytes as before */
    resp_expect(scene_auth->resp, "AUTH default taker-token", "+OK\r\n");
    resp_expect(scene_auth->resp, "INCR a/1", ":2\r\n");
    resp_expect(scene_auth->resp, "AUTH root root-token", "+OK\r\n");
    resp_expect(scene_auth->resp, "GET a/1", "$4\r\n1001\r\n");
}

static void test_tokens_that_are_none(void **state)
{
    struct scene_auth *scene_auth = *state;
    char words[600] = "AUTH ";

    resp_expect(scene_auth->resp, "AUTH taker-token", "+OK\r\n");
    denied(scene_auth, "AUTH secret-of-mine", "-WRONGPASS wrong_token: ", "not known here",
           "\"what\":\"AUTH\"", "\"answer\":\"unknown token\"");
    denied(scene_auth, "AUTH reader taker-token", "-WRONGPASS wrong_token: ", "not this user's",
           "\"what\":\"AUTH\"", "\"answer\":\"another's token\"");
    denied(scene_auth, "HELLO 3 AUTH default x", "-WRONGPASS wrong_token: ", "",
           "\"what\":\"HELLO\"", "unknown token");
    memset(words + 5, 'x', 513);
    resp_expect_error(scene_auth->resp, words, "-WRONGPASS wrong_token: ", "");
    /* Who it stood for before, it still does, in the same version. */
    resp_expect(scene_auth->resp, "INCR a/1", ":1\r\n");
    resp_expect(scene_auth->resp, "CLIENT GETNAME", "$-1\r\n");
}

static void test_roles(void **state)
{
    struct scene_auth *scene_auth = *state;

    resp_expect(scene_auth->resp, "AUTH taker-token", "+OK\r\n");
    resp_expect(scene_auth->resp, "INCR c", ":1\r\n");
    denied(scene_auth, "GET c",
           "-NOPERM forbidden: ", "this needs the role read, and taker has ids",
           "\"what\":\"GET c\"", "\"answer\":\"the role is missing\"");
    guarded_audit_has(&scene_auth->f, "\"who\":\"taker\",\"by\":\"token\"");
    resp_expect(scene_auth->resp, "AUTH reader-token", "+OK\r\n");
    resp_expect(scene_auth->resp, "GET c", "$4\r\n1001\r\n");
    denied(scene_auth, "INCR c", "-NOPERM forbidden: ", "needs the role ids", "\"what\":\"INCR c\"",
           "the role is missing");
    denied(scene_auth, "LEAFD.NEXT c COUNT 2", "-NOPERM forbidden: ", "",
           "\"what\":\"LEAFD.NEXT c\"", "the role is missing");
    denied(scene_auth, "LEAFD.DECODE 1", "-NOPERM forbidden: ", "", "\"what\":\"LEAFD.DECODE\"",
           "the role is missing");
}

/* The name of a tag is taken as it stands. */
static void test_prefixes(void **state)
{
    struct scene_auth *scene_auth = *state;

    resp_expect(scene_auth->resp, "AUTH shop-token", "+OK\r\n");
    resp_expect(scene_auth->resp, "INCR a/1", ":1\r\n");
    denied(scene_auth, "INCR b/1", "-NOPERM forbidden_tag: ",
           "this tag is another's: shop has the tags that begin with \"a/\"",
           "\"what\":\"INCR b/1\"", "\"answer\":\"another's tag\"");
    denied(scene_auth, "INCRBY c 2", "-NOPERM forbidden_tag: ", "", "\"what\":\"INCRBY c\"",
           "another's");
    denied(scene_auth, "GET c", "-NOPERM forbidden_tag: ", "", "\"what\":\"GET c\"", "another's");
    denied(scene_auth, "INCR a%2F1", "-NOPERM forbidden_tag: ", "", "\"what\":\"INCR a%2F1\"",
           "another");
    resp_expect(scene_auth->resp, "INCR a/1", ":2\r\n");
}

/* Only who may make tags makes one by SETNX. */
static void test_who_makes_tags(void **state)
{
    struct scene_auth *scene_auth = *state;
    unsigned before;

    resp_expect(scene_auth->resp, "AUTH shop-token", "+OK\r\n");
    before = guarded_audit_count(&scene_auth->f);
    resp_expect(scene_auth->resp, "SETNX a/1 0", ":0\r\n");
    resp_expect_error(scene_auth->resp, "SETNX a/new 0", "-ERR unknown_tag: ",
                      "there is no tag \"a/new\", and to make one needs the role tags");
    resp_expect(scene_auth->resp, "AUTH maker-token", "+OK\r\n");
    resp_expect(scene_auth->resp, "SETNX a/1 0", ":0\r\n");
    assert_int_equal(guarded_audit_count(&scene_auth->f), before);
    resp_expect(scene_auth->resp, "SETNX a/new 0", ":1\r\n");
    assert_int_equal(guarded_audit_count(&scene_auth->f), before + 1);
    guarded_audit_has(&scene_auth->f, "\"outcome\":\"done\",\"who\":\"maker\"");
    guarded_audit_has(&scene_auth->f, "\"what\":\"SETNX a/new\"");
    denied(scene_auth, "SETNX c/new 0", "-NOPERM forbidden_tag: ", "", "\"what\":\"SETNX c/new\"",
           "another's");
}

static void test_what_anonymous_may(void **state)
{
    struct scene_auth *scene_auth = *state;

    resp_expect(scene_auth->resp, "INCR c", ":1\r\n");
    denied(scene_auth, "GET c", "-NOAUTH unauthorized: ", "", "\"what\":\"GET c\"", "no token");
    resp_send(scene_auth->resp, "INFO");
    resp_expect_line(scene_auth->resp, "$", "");
    resp_expect_bytes(scene_auth->resp, "# Server\r\nserver_name:leafd\r\nredis_version:7.0.0\r\n"
                                        "redis_mode:standalone\r\n\r\n# Persistence\r\n");
}

/* A token that is taken out of the file, on a connection that has shown it. */
static void test_reload(void **state)
{
    static const struct guarded_line fewer[] = {{"root", "roles=all"}, {NULL, NULL}};
    static const struct guarded_line other[] = {
        {"root", "roles=all"}, {"taker", "roles=read"}, {NULL, NULL}};
    struct scene_auth *scene_auth = *state;

    resp_expect(scene_auth->resp, "AUTH taker-token", "+OK\r\n");
    resp_expect(scene_auth->resp, "INCR c", ":1\r\n");
    guarded_reload(&scene_auth->f, other);
    resp_expect_error(scene_auth->resp, "INCR c", "-NOPERM forbidden: ", "taker has read");
    resp_expect(scene_auth->resp, "GET c", "$4\r\n1001\r\n");
    guarded_reload(&scene_auth->f, lines);
    resp_expect(scene_auth->resp, "INCR c", ":2\r\n");
    guarded_reload(&scene_auth->f, fewer);
    resp_expect_error(scene_auth->resp, "INCR c", "-NOAUTH unauthorized: ", "");
    resp_expect_error(scene_auth->resp, "AUTH taker-token", "-WRONGPASS wrong_token: ", "");
    resp_expect(scene_auth->resp, "AUTH root-token", "+OK\r\n");
    resp_expect(scene_auth->resp, "INCR c", ":3\r\n");
}

/* They are the token's, over HTTP and RESP together. */
static void test_quotas_of_a_token(void **state)
{
    struct scene_auth *scene_auth = *state;

    resp_expect(scene_auth->resp, "AUTH few-token", "+OK\r\n");
    resp_expect(scene_auth->resp, "INCRBY c 100", ":100\r\n");
    resp_expect_error(scene_auth->resp, "INCR c",
                      "-BUSY quota: ", "client few has used up its quota");
    guarded_expect(&scene_auth->f, "GET /api/segment/get/c", GUARDED_TOKEN("few"), NULL, 429,
                   "quota");
    resp_expect(scene_auth->resp, "AUTH root-token", "+OK\r\n");
    resp_expect(scene_auth->resp, "INCR c", ":101\r\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_one_id, setup, teardown),
        cmocka_unit_test_setup_teardown(test_name_bounds, setup, teardown),
        cmocka_unit_test_setup_teardown(test_name_is_not_decoded, setup, teardown),
        cmocka_unit_test_setup_teardown(test_many_at_once, setup, teardown),
        cmocka_unit_test_setup_teardown(test_next, setup, teardown),
        cmocka_unit_test_setup_teardown(test_keys, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_large_array, setup, teardown),
        cmocka_unit_test_setup_teardown(test_order_of_what_waits, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_client_that_goes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_deadline, setup, teardown),
        cmocka_unit_test_setup_teardown(test_get, setup, teardown),
        cmocka_unit_test_setup_teardown(test_set_unless_there, setup, teardown),
        cmocka_unit_test_setup_teardown(test_decode, setup, teardown),
        cmocka_unit_test_setup_teardown(test_talk, setup, teardown),
        cmocka_unit_test_setup_teardown(test_hello, setup, teardown),
        cmocka_unit_test_setup_teardown(test_info, setup, teardown),
        cmocka_unit_test_setup_teardown(test_quit, setup, teardown),
        cmocka_unit_test_setup_teardown(test_what_breaks_the_protocol, setup, teardown),
        cmocka_unit_test_setup_teardown(test_lines_of_others_end_it, setup, teardown),
        cmocka_unit_test_setup_teardown(test_slow_requests, setup, teardown),
        cmocka_unit_test_setup_teardown(test_too_many_connections, setup, teardown),
        cmocka_unit_test_setup_teardown(test_quotas, setup, teardown),
        cmocka_unit_test_setup_teardown(test_out_of_descriptors, setup, teardown),
        cmocka_unit_test_setup_teardown(test_port_in_use, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_client_that_does_not_read, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_long_pipeline, setup, teardown),
        cmocka_unit_test_setup_teardown(test_metrics, setup, teardown),
        cmocka_unit_test_setup_teardown(test_retire, setup, teardown),
        cmocka_unit_test_setup_teardown(test_without_a_token, setup_auth, teardown_auth),
        cmocka_unit_test_setup_teardown(test_auth, setup_auth, teardown_auth),
        cmocka_unit_test_setup_teardown(test_tokens_that_are_none, setup_auth, teardown_auth),
        cmocka_unit_test_setup_teardown(test_roles, setup_auth, teardown_auth),
        cmocka_unit_test_setup_teardown(test_prefixes, setup_auth, teardown_auth),
        cmocka_unit_test_setup_teardown(test_who_makes_tags, setup_auth, teardown_auth),
        cmocka_unit_test_setup_teardown(test_what_anonymous_may, setup_open, teardown_auth),
        cmocka_unit_test_setup_teardown(test_reload, setup_auth, teardown_auth),
        cmocka_unit_test_setup_teardown(test_quotas_of_a_token, setup_auth, teardown_auth),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
