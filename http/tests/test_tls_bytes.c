/*
 * test_tls_bytes.c - requests over TLS: however their bytes are cut into records and segments, and
 * however a connection ends, the answers are those of plain HTTP.
 */
#include <openssl/err.h>
#include <string.h>
#include <sys/socket.h>

#include "src/tests/unit/test.h"
#include "http/server/conn.h"
#include "http/tests/tls_world.h"
#include "src/base/assert.h"

static struct made ca;
static struct made server;
static struct tls *tls;
static struct conn_world world;

static int setup(void **state)
{
    (void)state;
    tls = tls_world_open(&ca, &server, &world);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    tls_world_close(&ca, &server, tls, &world);
    return 0;
}

static unsigned answers(const struct buf *plain)
{
    const char *at = (const char *)plain->data;
    size_t left = plain->len;
    const char *next;
    unsigned count = 0;

    while (left > 0 && (next = memmem(at, left, ANSWER, sizeof ANSWER - 1)) != NULL) {
        left -= (size_t)(next - at) + sizeof ANSWER - 1;
        at = next + sizeof ANSWER - 1;
        count++;
    }
    return count;
}

static void write_records(struct tls_user *client, const char *text, size_t len, size_t each)
{
    for (size_t at = 0; at < len; at += each) {
        int part = (int)(len - at < each ? len - at : each);

        assert_int_equal(SSL_write(client->ssl, text + at, part), part);
    }
}

/* Three requests in records of `each` bytes, in two segments that are cut at every byte, on one
 * connection. */
static void cut_everywhere(size_t each)
{
    static const char three[] = ASK ASK ASK;
    struct tls_user client;
    unsigned rounds = 0;

    assert_true(tls_user_open(&client, &world, &ca, NULL));
    for (size_t cut = 1, len = cut + 1; cut < len; cut++) {
        struct buf wire = BUF_INIT;

        write_records(&client, three, sizeof three - 1, each);
        tls_user_wire(&client, &wire);
        len = wire.len;
        conn_world_send(&world, wire.data, cut < len ? cut : len);
        conn_world_send(&world, wire.data + cut, cut < len ? len - cut : 0);
        tls_user_take(&client);
        assert_int_equal(answers(&client.plain), 3);
        client.plain.len = 0;
        buf_free(&wire);
        rounds++;
    }
    assert_true(rounds > 3 * ASK_LEN);
    tls_user_close(&client);
}

static void test_cut_everywhere(void **state)
{
    (void)state;
    cut_everywhere(3 * ASK_LEN);
    cut_everywhere(ASK_LEN);
    cut_everywhere(7);
}

/* Every byte a record, every byte of the wire a segment, the handshake too. */
static void test_byte_by_byte(void **state)
{
    struct tls_user client;
    struct buf wire = BUF_INIT;

    (void)state;
    conn_world_connect(&world);
    tls_user_make(&client, &world, &ca, NULL);
    client.taken = world.replies.len;
    for (unsigned i = 0; i < 3; i++) {
        wire.len = 0;
        tls_user_wire(&client, &wire);
        for (size_t at = 0; at < wire.len; at++) {
            conn_world_send(&world, wire.data + at, 1);
        }
        tls_user_take(&client);
    }
    assert_true(SSL_is_init_finished(client.ssl));
    write_records(&client, ASK ASK, 2 * ASK_LEN, 1);
    wire.len = 0;
    tls_user_wire(&client, &wire);
    for (size_t at = 0; at < wire.len; at++) {
        conn_world_send(&world, wire.data + at, 1);
    }
    tls_user_take(&client);
    assert_int_equal(answers(&client.plain), 2);
    buf_free(&wire);
    tls_user_close(&client);
}

/* 16 requests in 16 records in one segment: one record comes back. */
static void test_pipelined(void **state)
{
    struct tls_user client;
    struct buf wire = BUF_INIT;
    char text[16 * ASK_LEN];
    size_t before;

    (void)state;
    for (size_t i = 0; i < 16; i++) {
        memcpy(text + i * ASK_LEN, ASK, ASK_LEN);
    }
    assert_true(tls_user_open(&client, &world, &ca, NULL));
    tls_user_ask(&client, ASK, ASK_LEN);
    client.plain.len = 0;
    before = world.replies.len;
    write_records(&client, text, sizeof text, ASK_LEN);
    tls_user_wire(&client, &wire);
    conn_world_send(&world, wire.data, wire.len);
    assert_int_equal(world.replies.data[before], 23); /* application data */
    assert_int_equal(world.replies.data[before + 3] << 8 | world.replies.data[before + 4],
                     world.replies.len - before - 5);
    tls_user_take(&client);
    assert_int_equal(answers(&client.plain), 16);
    buf_free(&wire);
    tls_user_close(&client);
}

/* A reply of many records to one who does not read for a while, and requests after it. */
static void test_slow_reader(void **state)
{
    static const char many[] =
        "GET /api/segment/get/plain?count=100000 HTTP/1.1\r\nHost: a\r\n\r\n";
    struct tls_user client;
    struct buf wire = BUF_INIT;

    (void)state;
    conn_world_reset(&world);
    assert_true(tls_user_open(&client, &world, &ca, NULL));
    world.deaf = true;
    (void)fake_open(&world.fake, "plain", 1, 200000);
    world.late = true; /* what takes long is to read the reply, not to make it */
    write_records(&client, many, sizeof many - 1, sizeof many);
    write_records(&client, many, sizeof many - 1, sizeof many);
    write_records(&client, ASK, ASK_LEN, ASK_LEN);
    tls_user_wire(&client, &wire);
    conn_world_send(&world, wire.data, wire.len);
    assert_true(wire_is_waiting(&world.conn->wire));
    world.deaf = false;
    world.late = false;
    conn_world_rest(&world);
    assert_false(wire_is_waiting(&world.conn->wire));
    tls_user_take(&client);
    assert_int_equal(answers(&client.plain), 1);
    assert_true(client.plain.len > 1000000);
    buf_free(&wire);
    tls_user_close(&client);
}

/* What is long goes in records of 4 KiB: so much memory has a connection for one that it sends. */
static void test_short_records(void **state)
{
    static const char many[] = "GET /api/segment/get/plain?count=1000 HTTP/1.1\r\nHost: a\r\n\r\n";
    struct tls_user client;
    size_t at;
    unsigned full = 0;

    (void)state;
    conn_world_reset(&world);
    assert_true(tls_user_open(&client, &world, &ca, NULL));
    tls_user_ask(&client, ASK, ASK_LEN);
    (void)fake_open(&world.fake, "plain", 1000000000, 200000);
    at = world.replies.len;
    tls_user_ask(&client, many, sizeof many - 1);
    assert_true(world.replies.len - at > 10000);
    while (at < world.replies.len) {
        size_t len = (size_t)world.replies.data[at + 3] << 8 | world.replies.data[at + 4];

        assert_true(len <= 4096 + 17); /* and its type and tag */
        full += len == 4096 + 17;
        at += 5 + len;
    }
    assert_true(full >= 2);
    tls_user_close(&client);
}

/* A reader that takes nothing at all is cut off as over plain HTTP. */
static void test_dead_reader(void **state)
{
    static const char many[] =
        "GET /api/segment/get/plain?count=100000 HTTP/1.1\r\nHost: a\r\n\r\n";
    struct tls_user client;

    (void)state;
    conn_world_reset(&world);
    assert_true(tls_user_open(&client, &world, &ca, NULL));
    world.deaf = true;
    tls_user_ask(&client, many, sizeof many - 1);
    conn_world_pass(&world, LIMIT_HTTP_WRITE_MS - 1);
    conn_world_pass(&world, LIMIT_HTTP_WRITE_MS);
    conn_world_pass(&world, LIMIT_HTTP_WRITE_MS);
    assert_null(world.conn);
    world.deaf = false;
    tls_user_close(&client);
}

/* --- ends --- */

/* The client says right after its requests that it has no more: all are answered, then the server
 * says so, too, and closes. */
static void test_close_notify_behind_requests(void **state)
{
    struct tls_user client;

    (void)state;
    assert_true(tls_user_open(&client, &world, &ca, NULL));
    write_records(&client, ASK ASK, 2 * ASK_LEN, ASK_LEN);
    assert_int_equal(SSL_shutdown(client.ssl), 0);
    tls_user_flush(&client);
    tls_user_take(&client);
    assert_int_equal(answers(&client.plain), 2);
    assert_true(client.closed);
    assert_true(world.ended);
    tls_user_close(&client);
}

/* Without a close_notify: between requests it is an end like another, and within one that is not
 * answered. */
static void test_end_without_close_notify(void **state)
{
    static const char half[] =
        "PUT /api/tags/new HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
        "Content-Length: 50\r\n\r\n{\"step\":";
    struct tls_user client;

    (void)state;
    conn_world_reset(&world);
    assert_true(tls_user_open(&client, &world, &ca, NULL));
    tls_user_ask(&client, ASK, ASK_LEN);
    (void)shutdown(world.fd, SHUT_WR);
    conn_world_rest(&world);
    tls_user_take(&client);
    assert_int_equal(answers(&client.plain), 1);
    assert_true(world.ended && !client.closed);
    tls_user_close(&client);

    conn_world_reset(&world);
    assert_true(tls_user_open(&client, &world, &ca, NULL));
    tls_user_ask(&client, half, sizeof half - 1);
    (void)shutdown(world.fd, SHUT_WR);
    conn_world_rest(&world);
    tls_user_take(&client);
    assert_int_equal(client.plain.len, 0);
    assert_int_equal(world.asked.len, 0);
    assert_true(world.ended);
    tls_user_close(&client);
}

/* "Connection: close", an idle connection, a drain: each ends with close_notify. */
static void test_server_ends(void **state)
{
    static const char last[] = "GET /livez HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    struct tls_user client;

    (void)state;
    assert_true(tls_user_open(&client, &world, &ca, NULL));
    tls_user_ask(&client, last, sizeof last - 1);
    assert_int_equal(answers(&client.plain), 1);
    assert_true(client.closed && world.ended);
    tls_user_close(&client);

    assert_true(tls_user_open(&client, &world, &ca, NULL));
    tls_user_ask(&client, ASK, ASK_LEN);
    conn_world_pass(&world, LIMIT_HTTP_IDLE_MS + LIMIT_HTTP_IDLE_MS / 32);
    tls_user_take(&client);
    assert_true(client.closed && world.ended);
    tls_user_close(&client);

    assert_true(tls_user_open(&client, &world, &ca, NULL));
    tls_user_ask(&client, ASK, ASK_LEN);
    conns_retire(&world.loop->conns, 0);
    conn_world_pass(&world, 0);
    tls_user_take(&client);
    assert_true(client.closed && world.ended);
    world.loop->conns.retiring = false;
    tls_user_close(&client);
}

/* --- errors --- */

/* What another connection left in the thread's queue of errors harms nobody. */
static void test_stale_error(void **state)
{
    struct tls_user client;

    (void)state;
    ERR_raise(ERR_LIB_SSL, SSL_R_BAD_RECORD_TYPE);
    assert_true(tls_user_open(&client, &world, &ca, NULL));
    for (unsigned i = 0; i < 3; i++) {
        struct buf wire = BUF_INIT;

        write_records(&client, ASK, ASK_LEN, 1 + i);
        tls_user_wire(&client, &wire);
        ERR_raise(ERR_LIB_SSL, SSL_R_BAD_RECORD_TYPE);
        conn_world_send(&world, wire.data, wire.len / 2);
        ERR_raise(ERR_LIB_SSL, SSL_R_BAD_RECORD_TYPE);
        conn_world_send(&world, wire.data + wire.len / 2, wire.len - wire.len / 2);
        buf_free(&wire);
    }
    tls_user_take(&client);
    assert_int_equal(answers(&client.plain), 3);
    ASSERT(SSL_shutdown(client.ssl) == 0);
    ERR_raise(ERR_LIB_SSL, SSL_R_BAD_RECORD_TYPE);
    tls_user_flush(&client);
    tls_user_take(&client);
    assert_true(client.closed && world.ended);
    tls_user_close(&client);
}

/* A client that says why it gives up is not one that has come to its end: its session has failed,
 * and gets no close_notify. */
static void test_fatal_alert(void **state)
{
    static const uint8_t broken[37] = {0x17, 3, 3, 0, 32}; /* nobody has sealed that */
    struct tls_counts *counts;
    struct tls_user client;
    uint64_t failed;
    char out[64];

    (void)state;
    assert_true(tls_user_open(&client, &world, &ca, NULL));
    tls_user_ask(&client, ASK, ASK_LEN);
    counts = &world.loop->conns.tls->counts;
    failed = counts->failed;
    ASSERT(BIO_write(client.in, broken, sizeof broken) == sizeof broken);
    assert_int_equal(SSL_read(client.ssl, out, sizeof out), -1);
    tls_user_flush(&client);
    assert_int_equal(counts->failed, failed + 1);
    assert_true(world.ended);
    tls_user_take(&client);
    assert_int_equal(answers(&client.plain), 1);
    assert_true(!client.closed);
    tls_user_close(&client);
}

/* A record that was changed on its way: nothing of it is believed, and the connection ends. */
static void test_changed_record(void **state)
{
    struct tls_user client;
    struct buf wire = BUF_INIT;

    (void)state;
    assert_true(tls_user_open(&client, &world, &ca, NULL));
    write_records(&client, ASK, ASK_LEN, ASK_LEN);
    tls_user_wire(&client, &wire);
    wire.data[wire.len - 1] ^= 1;
    conn_world_send(&world, wire.data, wire.len);
    tls_user_take(&client);
    assert_int_equal(client.plain.len, 0);
    assert_true(world.ended);
    assert_int_equal(SSL_get_shutdown(client.ssl) & SSL_RECEIVED_SHUTDOWN, SSL_RECEIVED_SHUTDOWN);
    buf_free(&wire);
    tls_user_close(&client);
}

/* Key updates: as many as are allowed, and requests between them; then one more. */
static void test_key_updates(void **state)
{
    struct tls_user client;

    (void)state;
    assert_true(tls_user_open(&client, &world, &ca, NULL));
    for (unsigned i = 0; i < LIMIT_TLS_CONTROL; i++) { /* each is answered by one */
        assert_int_equal(SSL_key_update(client.ssl, SSL_KEY_UPDATE_NOT_REQUESTED), 1);
        assert_int_equal(SSL_do_handshake(client.ssl), 1);
    }
    tls_user_ask(&client, ASK, ASK_LEN);
    assert_int_equal(answers(&client.plain), 1);
    assert_int_equal(SSL_key_update(client.ssl, SSL_KEY_UPDATE_REQUESTED), 1);
    tls_user_ask(&client, ASK, ASK_LEN);
    assert_int_equal(answers(&client.plain), 2);
    for (unsigned i = 0; i < LIMIT_TLS_CONTROL + 1; i++) {
        assert_int_equal(SSL_key_update(client.ssl, SSL_KEY_UPDATE_NOT_REQUESTED), 1);
        assert_int_equal(SSL_do_handshake(client.ssl), 1);
    }
    tls_user_flush(&client);
    assert_true(world.ended);
    tls_user_close(&client);
}

/* --- memory --- */

/* A connection that is quiet gives its buffers back, and takes them again. */
static void test_quiet_connection_cools(void **state)
{
    struct tls_user client;

    (void)state;
    assert_true(tls_user_open(&client, &world, &ca, NULL));
    tls_user_ask(&client, ASK, ASK_LEN);
    assert_int_equal(world.loop->conns.tls->warm_count, 1);
    conn_world_pass(&world, LIMIT_TLS_WARM_MS - 1);
    assert_int_equal(world.loop->conns.tls->warm_count, 1);
    conn_world_pass(&world, 1);
    assert_int_equal(world.loop->conns.tls->warm_count, 0);
    tls_user_ask(&client, ASK, ASK_LEN);
    assert_int_equal(answers(&client.plain), 2);
    assert_int_equal(world.loop->conns.tls->warm_count, 1);
    tls_user_close(&client);
    assert_int_equal(world.loop->conns.tls->warm_count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cut_everywhere),
        cmocka_unit_test(test_byte_by_byte),
        cmocka_unit_test(test_pipelined),
        cmocka_unit_test(test_slow_reader),
        cmocka_unit_test(test_short_records),
        cmocka_unit_test(test_dead_reader),
        cmocka_unit_test(test_close_notify_behind_requests),
        cmocka_unit_test(test_end_without_close_notify),
        cmocka_unit_test(test_server_ends),
        cmocka_unit_test(test_stale_error),
        cmocka_unit_test(test_fatal_alert),
        cmocka_unit_test(test_changed_record),
        cmocka_unit_test(test_key_updates),
        cmocka_unit_test(test_quiet_connection_cools),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
