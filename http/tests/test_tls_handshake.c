/*
 * test_tls_handshake.c - who is let in over TLS, and as whom; certificates that are replaced while
 * it runs; and how much handshakes may take.
 */
#include <errno.h>
#include <malloc.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "src/tests/unit/test.h"
#include "http/tests/tls_world.h"
#include "http/tls/tls.h"
#include "src/base/assert.h"

static struct made ca;
static struct made server;
static struct tls *tls;
static struct conn_world world;

static time_t later_s; /* so much later it is than the machine's clock says, for OpenSSL */

/* In libc's place. */
time_t time(time_t *ret_s)
{
    struct timespec now;

    ASSERT(clock_gettime(CLOCK_REALTIME, &now) == 0);
    if (ret_s != NULL) {
        *ret_s = now.tv_sec + later_s;
    }
    return now.tv_sec + later_s;
}

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

/* Each begins with the same certificate, and clients are not asked for any. */
static int begin(void **state)
{
    (void)state;
    made_commit(tls, &server, NULL, TLS_CLIENT_NONE);
    conn_world_reset(&world);
    return 0;
}

static bool has(const struct buf *text, const char *what)
{
    return memmem(text->data, text->len, what, strlen(what)) != NULL;
}

static void expect_answer(struct tls_user *client)
{
    client->plain.len = 0;
    tls_user_ask(client, ASK, ASK_LEN);
    assert_true(has(&client->plain, ANSWER));
}

/* Is one with these options served? */
static bool is_served(const struct tls_options *options)
{
    struct tls_user client;
    bool open = tls_user_open(&client, &world, &ca, options);

    if (open) {
        expect_answer(&client);
    }
    tls_user_close(&client);
    return open;
}

/* --- versions and protocols --- */

static void test_versions(void **state)
{
    const uint64_t failed = world.loop->conns.tls->counts.failed;

    (void)state;
    assert_true(is_served(&(struct tls_options){.min_version = TLS1_3_VERSION}));
    assert_true(is_served(&(struct tls_options){.max_version = TLS1_2_VERSION}));
    assert_int_equal(world.loop->conns.tls->counts.failed, failed);
    assert_false(is_served(
        &(struct tls_options){.min_version = TLS1_VERSION, .max_version = TLS1_1_VERSION}));
    assert_int_equal(world.loop->conns.tls->counts.failed, failed + 1);
}

static void test_alpn(void **state)
{
    static const unsigned char both[] = "\x02h2\x08http/1.1";
    static const unsigned char h2[] = "\x02h2";
    struct tls_options options = {.alpn = both, .alpn_len = sizeof both - 1};
    const unsigned char *chosen;
    struct tls_user client;
    unsigned len;

    (void)state;
    assert_true(tls_user_open(&client, &world, &ca, &options));
    SSL_get0_alpn_selected(client.ssl, &chosen, &len);
    assert_int_equal(len, 8);
    assert_memory_equal(chosen, "http/1.1", 8);
    expect_answer(&client);
    tls_user_close(&client);
    assert_false(is_served(&(struct tls_options){.alpn = h2, .alpn_len = sizeof h2 - 1}));
}

/* A client of TLS 1.2 that wants to negotiate anew is told no, and served on; not for ever. */
static void test_renegotiation(void **state)
{
    struct tls_options options = {.max_version = TLS1_2_VERSION};
    struct tls_user client;
    unsigned asked = 0;

    (void)state;
    assert_true(tls_user_open(&client, &world, &ca, &options));
    expect_answer(&client);
    while (!world.ended && asked < 4 * LIMIT_TLS_CONTROL) {
        (void)SSL_renegotiate(client.ssl);
        (void)SSL_do_handshake(client.ssl);
        tls_user_flush(&client);
        tls_user_take(&client);
        asked++;
    }
    assert_true(world.ended);
    tls_user_close(&client);
}

/* --- what is no TLS --- */

static void test_plain_http(void **state)
{
    (void)state;
    conn_world_connect(&world);
    conn_world_send(&world, ASK, ASK_LEN);
    assert_true(has(&world.replies, "HTTP/1.1 400 Bad Request\r\n"));
    assert_true(has(&world.replies, "\"tls_required\""));
    assert_true(world.ended);
    conn_world_disconnect(&world);

    conn_world_reset(&world);
    conn_world_connect(&world);
    conn_world_send(&world, "\x80\x2e\x01", 3); /* a hello of SSL 2 */
    assert_int_equal(world.replies.len, 0);
    assert_true(world.ended);
    conn_world_disconnect(&world);
}

static void test_handshake_deadline(void **state)
{
    struct buf wire = BUF_INIT;
    struct tls_user client;

    (void)state;
    conn_world_connect(&world);
    tls_user_make(&client, &world, &ca, NULL);
    tls_user_wire(&client, &wire);
    conn_world_send(&world, wire.data, 1);
    /* Another byte does not move it. */
    conn_world_pass(&world, LIMIT_TLS_HANDSHAKE_MS - 1);
    conn_world_send(&world, wire.data + 1, 1);
    assert_false(world.ended);
    conn_world_pass(&world, 1);
    assert_true(world.ended);
    buf_free(&wire);
    tls_user_close(&client);
}

/* --- certificates of clients --- */

/* Who a client with this certificate is, or NULL. */
static char *name_of(const char *names)
{
    struct tls_user client;
    struct made own;
    struct tls_options options = {.own = &own};
    char *name = NULL;

    made_make(&own, "a client", names, 90, &ca);
    if (tls_user_open(&client, &world, &ca, &options)) {
        const char *certificate = conn_certificate(world.conn);

        expect_answer(&client);
        name = certificate != NULL ? strdup(certificate) : NULL;
    }
    tls_user_close(&client);
    made_release(&own);
    return name;
}

static void expect_name(const char *names, const char *wanted)
{
    char *name = name_of(names);

    assert_non_null(name);
    if (strcmp(wanted, "sha256:") == 0) {
        assert_memory_equal(name, wanted, 7);
        assert_int_equal(strspn(name + 7, "0123456789abcdef"), 64);
        assert_int_equal(strlen(name), 7 + 64);
    } else {
        assert_string_equal(name, wanted);
    }
    free(name);
}

static void test_client_names(void **state)
{
    char longest[4 + CERTIFICATE_NAME_MAX + 2] = "DNS:";
    char wanted[sizeof longest] = "dns:";

    (void)state;
    made_commit(tls, &server, &ca, TLS_CLIENT_REQUIRED);
    expect_name("URI:spiffe://shop/orders", "uri:spiffe://shop/orders");
    expect_name("DNS:orders.shop", "dns:orders.shop");
    expect_name("DNS:orders.shop,email:a@b.c", "dns:orders.shop");
    expect_name("DNS:a,DNS:b", "sha256:");
    expect_name("DNS:a,URI:b:c", "sha256:");
    expect_name("URI:a b", "sha256:");
    expect_name("email:a@b.c", "sha256:");
    expect_name(NULL, "sha256:");
    memset(longest + 4, 'n', CERTIFICATE_NAME_MAX);
    memset(wanted + 4, 'n', CERTIFICATE_NAME_MAX);
    expect_name(longest, wanted);
    longest[4 + CERTIFICATE_NAME_MAX] = 'n';
    expect_name(longest, "sha256:");
}

static void test_client_certificates(void **state)
{
    struct made other_ca;
    struct made stranger;
    struct made late;
    struct made good;

    (void)state;
    made_make(&other_ca, "a CA", NULL, 90, NULL);
    made_make(&stranger, "a client", "DNS:a", 90, &other_ca);
    made_make(&late, "a client", "DNS:a", -1, &ca);
    made_make(&good, "a client", "DNS:a", 90, &ca);
    made_commit(tls, &server, &ca, TLS_CLIENT_REQUIRED);
    assert_false(is_served(NULL));
    assert_false(is_served(&(struct tls_options){.own = &stranger}));
    assert_false(is_served(&(struct tls_options){.own = &late}));
    assert_true(is_served(&(struct tls_options){.own = &good}));
    assert_false(is_served(&(struct tls_options){.own = &late, .max_version = TLS1_2_VERSION}));
    made_commit(tls, &server, &ca, TLS_CLIENT_OPTIONAL);
    assert_true(is_served(NULL));
    assert_false(is_served(&(struct tls_options){.own = &stranger}));
    assert_true(is_served(&(struct tls_options){.own = &good}));
    made_commit(tls, &server, NULL, TLS_CLIENT_NONE);
    assert_true(is_served(&(struct tls_options){.own = &stranger}));
    assert_null(name_of("DNS:a"));
    made_release(&good);
    made_release(&late);
    made_release(&stranger);
    made_release(&other_ca);
}

/* A client may send so many CAs between its certificate and the server's CA, and so many bytes. */
static void test_chains_have_bounds(void **state)
{
    enum { LINKS = 8, BYTES = 32 << 10, MORE = 1000 };
    static char names[BYTES + 1];
    struct made chain[LINKS + 1];
    struct made own;

    (void)state;
    made_commit(tls, &server, &ca, TLS_CLIENT_REQUIRED);
    for (unsigned i = 0; i <= LINKS; i++) {
        char subject[16];

        (void)snprintf(subject, sizeof subject, "link %u", i);
        made_make_link(&chain[i], subject, i == 0 ? &ca : &chain[i - 1]);
    }
    for (unsigned n = LINKS; n <= LINKS + 1; n++) {
        made_make(&own, "a client", "DNS:a", 90, &chain[n - 1]);
        assert_int_equal(
            is_served(&(struct tls_options){.own = &own, .chain = chain, .chain_len = n}),
            n == LINKS);
        made_release(&own);
    }
    for (unsigned i = 0; i < 2; i++) {
        memset(names, 'n', i == 0 ? BYTES - MORE : BYTES);
        memcpy(names, "DNS:", 4);
        made_make(&own, "a client", names, 90, &ca);
        assert_int_equal(is_served(&(struct tls_options){.own = &own}), i == 0);
        made_release(&own);
    }
    for (unsigned i = 0; i <= LINKS; i++) {
        made_release(&chain[i]);
    }
}

/* --- tickets and reloads --- */

/* A connection that leaves its ticket, at once: what comes with the end of the handshake tells the
 * client's kernel that it may send what it gathers, which is the request. The caller frees it. */
static SSL_SESSION *ticket_of(const struct tls_options *options)
{
    struct tls_user client;
    SSL_SESSION *ticket;

    assert_true(tls_user_open(&client, &world, &ca, options));
    ticket = client.ticket;
    client.ticket = NULL;
    assert_non_null(ticket);
    expect_answer(&client);
    tls_user_close(&client);
    return ticket;
}

/* Is it taken up again? It is served in any case. */
static bool is_resumed(SSL_SESSION *ticket, const struct made *own)
{
    struct tls_options options = {
        .resume = ticket, .own = own, .max_version = SSL_SESSION_get_protocol_version(ticket)};
    struct tls_user client;
    bool resumed;

    if (!tls_user_open(&client, &world, &ca, &options)) {
        tls_user_close(&client);
        return false;
    }
    resumed = SSL_session_reused(client.ssl);
    expect_answer(&client);
    tls_user_close(&client);
    return resumed;
}

/* While a connection is open the certificate is replaced: it goes on, new ones get the new one, and
 * tickets stay good. */
static void test_reload(void **state)
{
    static const int versions[] = {TLS1_2_VERSION, TLS1_3_VERSION};
    struct made renewed;
    struct tls_user open;
    struct tls_user new;

    (void)state;
    made_make(&renewed, "renewed", "DNS:localhost", 90, &ca);
    for (unsigned i = 0; i < 2; i++) {
        struct tls_options options = {.max_version = versions[i]};
        SSL_SESSION *ticket = ticket_of(&options);

        assert_true(tls_user_open(&open, &world, &ca, &options));
        made_commit(tls, &renewed, NULL, TLS_CLIENT_NONE);
        expect_answer(&open);
        tls_user_close(&open);
        assert_true(is_resumed(ticket, NULL));
        SSL_SESSION_free(ticket);
        assert_true(tls_user_open(&new, &world, &ca, &options));
        assert_int_equal(X509_cmp(SSL_get0_peer_certificate(new.ssl), renewed.certificate), 0);
        tls_user_close(&new);
        made_commit(tls, &server, NULL, TLS_CLIENT_NONE);
    }
    made_release(&renewed);
}

/* A ticket of an older key is taken up, and its client gets one of the newest: else it would have
 * none once the old key is gone. Under TLS 1.3 each connection gets one. */
static void test_a_ticket_of_an_older_key_is_renewed(void **state)
{
    struct tls_options options = {.max_version = TLS1_2_VERSION};
    SSL_SESSION *ticket = ticket_of(&options);
    const unsigned char *first;
    const unsigned char *now;
    struct tls_user client;
    size_t len;

    (void)state;
    SSL_SESSION_get0_ticket(ticket, &first, &len);
    options.resume = ticket;
    for (unsigned i = 0; i < 2; i++) {
        made_later_ms += i * TLS_KEY_MS;
        assert_true(tls_user_open(&client, &world, &ca, &options));
        assert_true(SSL_session_reused(client.ssl));
        SSL_SESSION_get0_ticket(SSL_get_session(client.ssl), &now, &len);
        assert_int_equal(memcmp(first, now, TLS_KEY_NAME_BYTES) == 0, i == 0);
        tls_user_close(&client);
    }
    SSL_SESSION_free(ticket);
}

/* Rules for clients' certificates. */
struct rules {
    const struct made *ca;
    enum tls_client client;
};

/* A connection under the first rules leaves a ticket: is that taken up under the second ones? A
 * ticket for each look, since OpenSSL's client takes up one of TLS 1.3 only once. */
static bool outlives(int version, struct rules before, struct rules after, const struct made *own)
{
    struct tls_options options = {.own = own, .max_version = version};
    SSL_SESSION *ticket;
    bool resumed;

    made_commit(tls, &server, before.ca, before.client);
    ticket = ticket_of(&options);
    made_commit(tls, &server, after.ca, after.client);
    resumed = is_resumed(ticket, own);
    SSL_SESSION_free(ticket);
    return resumed;
}

/* A ticket of other rules for clients' certificates is worth nothing: its client may not be one any
 * more. */
static void test_reload_of_client_ca(void **state)
{
    static const int versions[] = {TLS1_2_VERSION, TLS1_3_VERSION};
    const struct rules none = {NULL, TLS_CLIENT_NONE};
    const struct rules optional = {&ca, TLS_CLIENT_OPTIONAL};
    const struct rules required = {&ca, TLS_CLIENT_REQUIRED};
    struct made other_ca;
    struct made good;

    (void)state;
    made_make(&other_ca, "another CA", NULL, 90, NULL);
    made_make(&good, "a client", "DNS:a", 90, &ca);
    for (unsigned i = 0; i < 2; i++) {
        int version = versions[i];

        assert_true(outlives(version, none, none, NULL));
        assert_true(outlives(version, optional, optional, NULL));
        assert_true(outlives(version, required, required, &good));
        assert_false(outlives(version, none, optional, NULL));
        assert_false(outlives(version, none, required, NULL));
        assert_false(outlives(version, optional, required, NULL));
        assert_false(outlives(version, optional, required, &good));
        assert_false(outlives(version, required, optional, &good));
        assert_false(outlives(version, required, none, &good));
        for (enum tls_client client = TLS_CLIENT_OPTIONAL; client <= TLS_CLIENT_REQUIRED;
             client++) {
            assert_false(outlives(version, (struct rules){&ca, client},
                                  (struct rules){&other_ca, client}, &good));
        }
    }
    made_release(&good);
    made_release(&other_ca);
}

/* A resumed session has the name of its first handshake. */
static void test_resumed_name(void **state)
{
    struct made good;
    struct tls_options options = {.own = &good};
    struct tls_user client;
    SSL_SESSION *ticket;

    (void)state;
    made_make(&good, "a client", "DNS:a", 90, &ca);
    made_commit(tls, &server, &ca, TLS_CLIENT_OPTIONAL);
    ticket = ticket_of(&options);
    assert_true(tls_user_open(&client, &world, &ca, &(struct tls_options){.resume = ticket}));
    assert_true(SSL_session_reused(client.ssl));
    assert_string_equal(conn_certificate(world.conn), "dns:a");
    tls_user_close(&client);
    SSL_SESSION_free(ticket);
    made_release(&good);
}

/* Its certificate was good at its first handshake and has ended since: the ticket is as good as
 * before, and it is not let in. */
static void test_a_certificate_that_ended_since(void **state)
{
    static const int versions[] = {TLS1_2_VERSION, TLS1_3_VERSION};

    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        struct made good;
        struct tls_options options = {.own = &good, .max_version = versions[i]};
        uint64_t resumed;
        struct tls_user client;
        SSL_SESSION *ticket;

        made_make_s(&good, "a client", "DNS:a", 600, &ca);
        made_commit(tls, &server, &ca, i == 0 ? TLS_CLIENT_REQUIRED : TLS_CLIENT_OPTIONAL);
        ticket = ticket_of(&options);
        assert_true(is_resumed(ticket, NULL));
        SSL_SESSION_free(ticket);
        ticket = ticket_of(&options); /* OpenSSL's client takes each up once */
        resumed = world.loop->conns.tls->counts.resumed;
        later_s = 700;
        options = (struct tls_options){.resume = ticket, .max_version = versions[i]};
        assert_false(certificate_is_current(good.certificate));
        later_s = -3 * 365 * 86400; /* before it began */
        assert_false(certificate_is_current(good.certificate));
        later_s = 700;
        assert_false(tls_user_open(&client, &world, &ca, &options));
        assert_true(SSL_session_reused(client.ssl)); /* it was no other handshake that failed */
        tls_user_close(&client);
        later_s = 0;
        assert_int_equal(world.loop->conns.tls->counts.resumed, resumed);
        SSL_SESSION_free(ticket);
        made_release(&good);
    }
}

/* It is let in, and its certificate ends while the connection is open: its next request is not
 * read. */
static void test_a_certificate_that_ends_meanwhile(void **state)
{
    static const int versions[] = {TLS1_2_VERSION, TLS1_3_VERSION};

    (void)state;
    made_commit(tls, &server, &ca, TLS_CLIENT_OPTIONAL);
    for (unsigned i = 0; i < 2; i++) {
        struct tls_user client;
        struct made good;

        made_make_s(&good, "a client", "DNS:a", 600, &ca);
        assert_true(tls_user_open(&client, &world, &ca,
                                  &(struct tls_options){.own = &good, .max_version = versions[i]}));
        expect_answer(&client);
        later_s = 300;
        expect_answer(&client);
        later_s = 700;
        client.plain.len = 0;
        tls_user_ask(&client, ASK, ASK_LEN);
        assert_int_equal(client.plain.len, 0);
        assert_true(world.ended);
        tls_user_close(&client);
        later_s = 0;
        made_release(&good);
    }
}

/* The rules for clients' certificates change while a connection is open: its next request is not
 * read, whichever way they change. */
static void test_rules_that_change_meanwhile(void **state)
{
    const struct rules rules[] = {{&ca, TLS_CLIENT_OPTIONAL},
                                  {&ca, TLS_CLIENT_REQUIRED},
                                  {NULL, TLS_CLIENT_NONE},
                                  {&ca, TLS_CLIENT_OPTIONAL}};
    struct tls_user client;
    struct made good;

    (void)state;
    made_make(&good, "a client", "DNS:a", 90, &ca);
    for (unsigned i = 0; i + 1 < sizeof rules / sizeof rules[0]; i++) {
        made_commit(tls, &server, rules[i].ca, rules[i].client);
        assert_true(tls_user_open(&client, &world, &ca, &(struct tls_options){.own = &good}));
        made_commit(tls, &server, rules[i].ca, rules[i].client);
        expect_answer(&client);
        made_commit(tls, &server, rules[i + 1].ca, rules[i + 1].client);
        client.plain.len = 0;
        tls_user_ask(&client, ASK, ASK_LEN);
        assert_int_equal(client.plain.len, 0);
        assert_true(world.ended);
        tls_user_close(&client);
    }
    made_release(&good);
}

/* --- how much handshakes may take --- */

#define HALVES LIMIT_TLS_HANDSHAKES
#define FIT 50

/* Give the loop what is to be done. */
static void turn(void)
{
    for (unsigned i = 0; i < 4; i++) {
        (void)uv_run(&world.loop->uv, UV_RUN_NOWAIT);
    }
}

static const struct sockaddr nobody = {.sa_family = AF_UNSPEC};

static int connect_as(const struct sockaddr *address)
{
    int fds[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
    conns_take(&world.loop->conns, &world.loop->acceptors[ACCEPT_HTTP].listener, fds[0], address);
    return fds[1];
}

static int connect_one(void)
{
    return connect_as(&nobody);
}

static void connect_and_send(int *fd, const void *data, size_t len)
{
    *fd = connect_one();
    assert_int_equal(send(*fd, data, len, MSG_NOSIGNAL), len);
}

static void close_all(int *fds, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        close(fds[i]);
    }
    while (world.loop->conns.counts.conns > 0) {
        turn();
    }
}

/* Who is too many is not told so over TLS; what was counted for it is given back all the same. */
static void test_connections_that_are_too_many(void **state)
{
    const uint32_t usual = world.settings.connections;
    struct clients *clients = world.loop->conns.clients;
    struct http_client *client = clients_of_address(clients, &nobody);
    int fds[4];

    (void)state;
    assert_int_equal(client->connections, 0);
    world.settings.connections = 1;
    for (unsigned i = 0; i < 4; i++) {
        fds[i] = connect_one();
    }
    assert_int_equal(client->connections, 1);
    close_all(fds, 4);
    assert_int_equal(client->connections, 0);
    world.settings.connections = usual;
    clients_release(clients, client);
}

/* The last quarter of the places is for clients that have no more than a quarter of those of all
 * loops. */
static void test_a_share_of_the_last_places(void **state)
{
    const struct http_settings usual = world.settings;
    const _Atomic uint64_t *refused = &world.loop->conns.counts.refused[REFUSED_SHARE];
    const uint64_t before = *refused;
    int fds[9];

    (void)state;
    world.settings.connections = 8;
    world.settings.loops = 2;
    for (unsigned i = 0; i < 9; i++) {
        const struct sockaddr_in one = {.sin_family = AF_INET,
                                        .sin_addr.s_addr =
                                            htonl(i < 5 || i == 6 ? 0x0a000001 : 0x0a000002)};

        fds[i] = connect_as((const struct sockaddr *)&one);
        assert_int_equal(*refused - before, i < 6 ? 0 : 1);
    }
    assert_int_equal(world.loop->conns.counts.conns, 8);
    close_all(fds, 9);
    world.settings = usual;
}

/* Clients that send half of a hello cost little more than what they sent. */
static void test_half_hellos(void **state)
{
    static int fds[HALVES];
    struct rlimit files = {2 * HALVES + 100, 2 * HALVES + 100};
    struct buf wire = BUF_INIT;
    struct tls_user client;
    size_t before;

    (void)state;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);
    tls_user_make(&client, &world, &ca, NULL);
    tls_user_wire(&client, &wire);
    before = mallinfo2().uordblks;
    for (unsigned i = 0; i < HALVES; i++) {
        connect_and_send(&fds[i], wire.data, wire.len / 2);
        turn();
    }
    assert_int_equal(world.loop->conns.counts.conns, HALVES);
    assert_true(mallinfo2().uordblks - before < HALVES * (4096 + wire.len));
    assert_int_equal(world.loop->conns.meter.input_bytes, HALVES * (wire.len / 2));
    close_all(fds, HALVES);
    assert_int_equal(world.loop->conns.meter.input_bytes, 0);
    buf_free(&wire);
    tls_user_free(&client);
}

/* The longest record but for its last byte: what is kept of all of them is bounded as heads are. */
static void test_long_halves(void **state)
{
    static uint8_t record[5 + 16384 - 1] = {0x16, 3, 1, 0x40, 0};
    static int fds[FIT + 1];
    const struct conn_meter *meter = &world.loop->conns.meter;
    const uint64_t usual_max = meter->input_max;

    (void)state;
    world.loop->conns.meter.input_max = FIT * sizeof record;
    for (unsigned i = 0; i < FIT; i++) {
        connect_and_send(&fds[i], record, sizeof record);
        turn();
    }
    assert_int_equal(world.loop->conns.counts.conns, FIT);
    assert_int_equal(meter->input_bytes, FIT * sizeof record);
    connect_and_send(&fds[FIT], record, sizeof record);
    turn();
    assert_int_equal(world.loop->conns.counts.conns, FIT);
    assert_int_equal(meter->input_bytes, FIT * sizeof record);
    assert_true(recv(fds[0], record, 1, 0) <= 0); /* the first of them */
    assert_true(recv(fds[1], record, 1, 0) < 0 && errno == EAGAIN);
    close_all(fds, FIT + 1);
    world.loop->conns.meter.input_max = usual_max;
}

/* Of those that send a whole one and then nothing so many are kept, the newest, and somebody who
 * does finish is served. */
static void test_handshakes_under_way(void **state)
{
    static int fds[LIMIT_TLS_HANDSHAKES + 1];
    struct buf wire = BUF_INIT;
    struct tls_user client;
    char byte[4096];

    (void)state;
    tls_user_make(&client, &world, &ca, NULL);
    tls_user_wire(&client, &wire);
    for (unsigned i = 0; i < LIMIT_TLS_HANDSHAKES; i++) {
        connect_and_send(&fds[i], wire.data, wire.len);
        turn();
    }
    assert_int_equal(world.loop->conns.tls->handshake_count, LIMIT_TLS_HANDSHAKES);
    assert_int_equal(world.loop->conns.counts.conns, LIMIT_TLS_HANDSHAKES);
    connect_and_send(&fds[LIMIT_TLS_HANDSHAKES], wire.data, wire.len);
    turn();
    assert_int_equal(world.loop->conns.tls->handshake_count, LIMIT_TLS_HANDSHAKES);
    assert_int_equal(world.loop->conns.counts.conns, LIMIT_TLS_HANDSHAKES);
    while (recv(fds[0], byte, sizeof byte, 0) > 0) {
    }
    assert_int_equal(recv(fds[0], byte, sizeof byte, 0), 0); /* it is the oldest that went */
    assert_true(recv(fds[1], byte, sizeof byte, 0) > 0);
    close_all(fds, LIMIT_TLS_HANDSHAKES + 1);
    assert_true(is_served(NULL));
    buf_free(&wire);
    tls_user_free(&client);
}

/* Nor are more kept of those that never sent the whole of their first record. */
/* Shows attack-tls. */
static void test_halves_under_way(void **state)
{
    static int fds[LIMIT_TLS_HANDSHAKES + 1];
    const uint64_t failed = atomic_load(&world.loop->conns.tls->counts.failed);
    struct buf wire = BUF_INIT;
    struct tls_user client;
    char byte;

    (void)state;
    tls_user_make(&client, &world, &ca, NULL);
    tls_user_wire(&client, &wire);
    for (unsigned i = 0; i < LIMIT_TLS_HANDSHAKES; i++) {
        connect_and_send(&fds[i], wire.data, i % 2 == 0 ? wire.len - 1 : 1);
        turn();
    }
    assert_int_equal(world.loop->conns.counts.conns, LIMIT_TLS_HANDSHAKES);
    connect_and_send(&fds[LIMIT_TLS_HANDSHAKES], wire.data, wire.len - 1);
    turn();
    assert_int_equal(world.loop->conns.counts.conns, LIMIT_TLS_HANDSHAKES);
    assert_true(recv(fds[0], &byte, 1, 0) == 0 || errno == ECONNRESET); /* the oldest went */
    assert_true(recv(fds[1], &byte, 1, 0) < 0 && errno == EAGAIN);
    assert_int_equal(atomic_load(&world.loop->conns.tls->counts.failed), failed + 1);
    /* What was a half keeps its place when the rest of it comes. */
    assert_int_equal(send(fds[1], wire.data + 1, wire.len - 1, 0), (ssize_t)wire.len - 1);
    turn();
    assert_true(recv(fds[1], &byte, 1, 0) > 0);
    assert_int_equal(world.loop->conns.tls->handshake_count, LIMIT_TLS_HANDSHAKES);
    close_all(fds, LIMIT_TLS_HANDSHAKES + 1);
    assert_int_equal(world.loop->conns.tls->handshake_count, 0);
    assert_true(is_served(NULL));
    buf_free(&wire);
    tls_user_free(&client);
}

/* So many begin in one turn; the others in the next one. */
static void test_handshakes_per_turn(void **state)
{
    enum { COUNT = 2 * LIMIT_TLS_STARTS_PER_TURN + 1 };
    static int fds[COUNT];
    struct buf wire = BUF_INIT;
    struct tls_user client;

    (void)state;
    tls_user_make(&client, &world, &ca, NULL);
    tls_user_wire(&client, &wire);
    for (unsigned i = 0; i < COUNT; i++) {
        connect_and_send(&fds[i], wire.data, wire.len);
    }
    for (unsigned i = 1; i <= 3; i++) {
        unsigned most = i * LIMIT_TLS_STARTS_PER_TURN;

        (void)uv_run(&world.loop->uv, UV_RUN_NOWAIT);
        assert_int_equal(world.loop->conns.tls->handshake_count, most < COUNT ? most : COUNT);
    }
    close_all(fds, COUNT);
    buf_free(&wire);
    tls_user_free(&client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_versions, begin),
        cmocka_unit_test_setup(test_alpn, begin),
        cmocka_unit_test_setup(test_renegotiation, begin),
        cmocka_unit_test_setup(test_plain_http, begin),
        cmocka_unit_test_setup(test_handshake_deadline, begin),
        cmocka_unit_test_setup(test_client_names, begin),
        cmocka_unit_test_setup(test_client_certificates, begin),
        cmocka_unit_test_setup(test_chains_have_bounds, begin),
        cmocka_unit_test_setup(test_a_ticket_of_an_older_key_is_renewed, begin),
        cmocka_unit_test_setup(test_reload, begin),
        cmocka_unit_test_setup(test_reload_of_client_ca, begin),
        cmocka_unit_test_setup(test_resumed_name, begin),
        cmocka_unit_test_setup(test_a_certificate_that_ended_since, begin),
        cmocka_unit_test_setup(test_a_certificate_that_ends_meanwhile, begin),
        cmocka_unit_test_setup(test_rules_that_change_meanwhile, begin),
        cmocka_unit_test_setup(test_connections_that_are_too_many, begin),
        cmocka_unit_test_setup(test_a_share_of_the_last_places, begin),
        cmocka_unit_test_setup(test_half_hellos, begin),
        cmocka_unit_test_setup(test_long_halves, begin),
        cmocka_unit_test_setup(test_handshakes_under_way, begin),
        cmocka_unit_test_setup(test_halves_under_way, begin),
        cmocka_unit_test_setup(test_handshakes_per_turn, begin),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
