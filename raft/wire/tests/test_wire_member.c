/*
 * test_wire_member.c - what nodes say of the membership in their handshakes: the bytes, every
 * truncation, every bound, and bytes that somebody changed.
 *
 * Thread: one.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/tests/unit/test.h"
#include "raft/transport/handshake.h"
#include "raft/transport/tests/net_hex.h"
#include "raft/wire/wire.h"
#include "src/base/limits.h"
#include "src/base/prng.h"

#define INDEX_MAX ((1ULL << 62) - 1)

/* A kind of payload: decode a copy that ends where the bytes do, and encode what came out. */
typedef int (*codec_fn)(const void *data, size_t len, struct buf *again);

static int statement_codec(const void *data, size_t len, struct buf *again)
{
    struct wire_statement statement;
    int rv = wire_statement_decode(data, len, &statement);

    if (rv == 0) {
        wire_statement_encode(&statement, again);
    }
    return rv;
}

static int join_codec(const void *data, size_t len, struct buf *again)
{
    struct wire_join join = {.birth.list_digest = 0};
    int rv = wire_join_decode(data, len, &join);

    if (rv == 0) {
        wire_join_encode(&join, again);
    }
    return rv;
}

static int joined_codec(const void *data, size_t len, struct buf *again)
{
    struct wire_joined joined;
    int rv = wire_joined_decode(data, len, &joined);

    if (rv == 0) {
        wire_joined_encode(&joined, again);
    }
    return rv;
}

/* 0, and then the same bytes come out, or ERR_BAD_MESSAGE. */
static int check(codec_fn codec, const struct buf *bytes)
{
    uint8_t *copy = exact_copy(bytes->data, bytes->len);
    struct buf again = BUF_INIT;
    int rv = codec(copy, bytes->len, &again);

    if (rv == 0) {
        assert_int_equal(again.len, bytes->len);
        assert_memory_equal(again.data, bytes->data, bytes->len);
    } else {
        assert_int_equal(rv, ERR_BAD_MESSAGE);
    }
    buf_free(&again);
    free(copy);
    return rv;
}

static int check_hex(codec_fn codec, const char *hex)
{
    struct buf bytes = BUF_INIT;
    int rv;

    hex_put(&bytes, hex);
    rv = check(codec, &bytes);
    buf_free(&bytes);
    return rv;
}

/* count voters, ids from 1, addresses of address_len bytes; written by hand, since it may be more
 * than a configuration holds. */
static void make_conf(unsigned count, size_t address_len, struct buf *buf)
{
    size_t begin = buf->len;

    buf_put_u8(buf, 1);
    buf_put_u64(buf, count);
    for (unsigned i = 1; i <= count; i++) {
        buf_put_u64(buf, i);
        for (size_t k = 0; k < address_len; k++) {
            buf_put_u8(buf, (uint8_t)('a' + i));
        }
        buf_put_u8(buf, 0);
        buf_put_u8(buf, ROLE_VOTER);
    }
    while ((buf->len - begin) % 8 != 0) {
        buf_put_u8(buf, 0);
    }
}

static void make_joined(enum member_outcome outcome, size_t why_len, const struct buf *conf,
                        struct buf *buf)
{
    struct wire_joined joined = {.answer.outcome = (uint8_t)outcome};

    assert_true(why_len < sizeof joined.answer.why);
    memset(joined.answer.why, 'w', why_len);
    if (conf != NULL) {
        joined.conf = (struct wire_conf){INDEX_MAX, conf->data, conf->len};
    }
    wire_joined_encode(&joined, buf);
}

/* conf NULL: none. */
static void make_statement(const struct wire_durable *start, uint64_t index, const struct buf *conf,
                           size_t earlier_len, struct buf *buf)
{
    static const uint8_t earlier[4 * LIMIT_INCARNATIONS - 4] = {0xa, 0xb, 0xc, 0xd, 0xe, 0xf, 1, 2};
    struct wire_statement statement = {.start = *start,
                                       .birth = {uid_make(1, 2), 3},
                                       .address = "h:1",
                                       .earlier = earlier,
                                       .earlier_len = earlier_len};

    if (conf != NULL) {
        statement.conf = (struct wire_conf){index, conf->data, conf->len};
    }
    wire_statement_encode(&statement, buf);
}

#define CONF_LEN "18000000"
#define ONE "0100000000000000"
#define NONE "0000000000000000"
#define BIRTH_HEX "0140000000000000 0200000000000080 0300000000000000"
#define UNBORN NONE NONE NONE
#define NOWHERE "0000"
/* The vote, the last term, and no earlier incarnation. */
#define REST ONE ONE "00000000"

static void test_golden_bytes(void **state)
{
    const struct wire_durable start = {
        .incarnation = 3, .term = 5, .index = 7, .vote = 2, .last_term = 4};
    struct buf bytes = BUF_INIT;
    struct buf conf = BUF_INIT;
    struct wire_joined joined = {0};

    (void)state;
    hex_put(&conf, CONF_HEX);
    make_statement(&start, 9, &conf, 8, &bytes);
    assert_hex(bytes.data, bytes.len,
               "01 0300000000000000 0500000000000000 0700000000000000 0900000000000000 " CONF_LEN
               " " CONF_HEX " " BIRTH_HEX
               " 0300 683a31 0200000000000000 0400000000000000 08000000 0a0b0c0d 0e0f0102");
    bytes.len = 0;
    wire_join_encode(&(struct wire_join){"h:1", {uid_make(1, 2), 3}}, &bytes);
    assert_hex(bytes.data, bytes.len, "01 0300 683a31 " BIRTH_HEX);
    bytes.len = 0;
    joined.answer.outcome = MEMBER_WAS_REMOVED;
    memcpy(joined.answer.why, "no", 3);
    joined.birth = (struct wire_birth){uid_make(1, 2), 3};
    wire_joined_encode(&joined, &bytes);
    assert_hex(bytes.data, bytes.len, "01 04 0200 6e6f " NONE " 00000000 " BIRTH_HEX);
    buf_free(&conf);
    buf_free(&bytes);
}

static void refuse_truncations(codec_fn codec, struct buf *bytes)
{
    size_t len = bytes->len;

    assert_int_equal(check(codec, bytes), 0);
    for (bytes->len = 0; bytes->len < len; bytes->len++) {
        assert_int_equal(check(codec, bytes), ERR_BAD_MESSAGE);
    }
    buf_put_u8(bytes, 0);
    assert_int_equal(check(codec, bytes), ERR_BAD_MESSAGE);
    buf_free(bytes);
}

static void test_every_truncation_is_refused(void **state)
{
    const struct wire_durable start = {.incarnation = 1, .term = 2, .index = 3, .last_term = 2};
    struct buf bytes = BUF_INIT;
    struct buf conf = BUF_INIT;

    (void)state;
    make_statement(&start, 0, NULL, 0, &bytes);
    refuse_truncations(statement_codec, &bytes);
    wire_join_encode(&(struct wire_join){"10.0.0.1:7081", {uid_make(1, 2), 3}}, &bytes);
    refuse_truncations(join_codec, &bytes);
    make_joined(MEMBER_PENDING, 10, NULL, &bytes);
    refuse_truncations(joined_codec, &bytes);
    for (unsigned count = 1; count <= LIMIT_NODES; count++) {
        conf.len = 0;
        make_conf(count, 3, &conf);
        make_statement(&start, 1, &conf, 0, &bytes);
        refuse_truncations(statement_codec, &bytes);
        make_joined(MEMBER_DONE, 0, &conf, &bytes);
        refuse_truncations(joined_codec, &bytes);
    }
    buf_free(&conf);
}

static void test_bounds_of_a_statement(void **state)
{
    static const char three[] = ONE ONE ONE;
    char hex[500];

    (void)state;
    assert_int_equal(
        check_hex(statement_codec, "01" ONE ONE ONE ONE CONF_LEN CONF_HEX UNBORN NOWHERE REST), 0);
    assert_int_equal(
        check_hex(statement_codec, "01" ONE ONE ONE NONE "00000000" UNBORN NOWHERE REST), 0);
    /* another version */
    assert_int_equal(
        check_hex(statement_codec, "00" ONE ONE ONE NONE "00000000" UNBORN NOWHERE REST),
        ERR_BAD_MESSAGE);
    assert_int_equal(
        check_hex(statement_codec, "02" ONE ONE ONE NONE "00000000" UNBORN NOWHERE REST),
        ERR_BAD_MESSAGE);
    /* an index without its configuration, and the reverse */
    assert_int_equal(
        check_hex(statement_codec, "01" ONE ONE ONE ONE "00000000" UNBORN NOWHERE REST),
        ERR_BAD_MESSAGE);
    assert_int_equal(
        check_hex(statement_codec, "01" ONE ONE ONE NONE CONF_LEN CONF_HEX UNBORN NOWHERE REST),
        ERR_BAD_MESSAGE);
    /* term, last index and index below 2^62 */
    for (size_t i = 1; i <= 3; i++) {
        for (unsigned bad = 0; bad <= 1; bad++) {
            (void)snprintf(hex, sizeof hex, "01 %s %s " CONF_LEN CONF_HEX UNBORN NOWHERE REST,
                           three, ONE);
            memcpy(hex + 3 + 16 * i + (i == 3), bad ? "0000000000000040" : "ffffffffffffff3f", 16);
            assert_int_equal(check_hex(statement_codec, hex), bad ? ERR_BAD_MESSAGE : 0);
        }
    }
    /* a configuration that the core could not decode: version 2; two bytes missing; no voter */
    assert_int_equal(
        check_hex(statement_codec,
                  "01" ONE ONE ONE ONE CONF_LEN
                  "02 0100000000000000 0100000000000000 61623a3100 01 00" UNBORN NOWHERE REST),
        ERR_BAD_MESSAGE);
    assert_int_equal(
        check_hex(statement_codec,
                  "01" ONE ONE ONE ONE "16000000"
                  "01 0100000000000000 0100000000000000 61623a3100" UNBORN NOWHERE REST),
        ERR_BAD_MESSAGE);
    assert_int_equal(
        check_hex(statement_codec,
                  "01" ONE ONE ONE ONE CONF_LEN
                  "01 0100000000000000 0100000000000000 61623a3100 00 00" UNBORN NOWHERE REST),
        ERR_BAD_MESSAGE);
    /* a length that runs away */
    assert_int_equal(
        check_hex(statement_codec, "01" ONE ONE ONE ONE "ffffffff" CONF_HEX UNBORN NOWHERE REST),
        ERR_BAD_MESSAGE);
    /* a uid that no cluster can have: no version 4 UUID */
    assert_int_equal(check_hex(statement_codec, "01" ONE ONE ONE NONE "00000000" ONE
                                                "0200000000000080" NONE NOWHERE REST),
                     ERR_BAD_MESSAGE);
    assert_int_equal(check_hex(statement_codec, "01" ONE ONE ONE NONE "00000000"
                                                "0140000000000000" NONE NONE NOWHERE REST),
                     ERR_BAD_MESSAGE);
}

static void put_unborn(struct buf *bytes)
{
    for (unsigned i = 0; i < 3; i++) {
        buf_put_u64(bytes, 0);
    }
}

static void test_bounds_of_a_standing_in_a_statement(void **state)
{
    (void)state;
    /* a vote for nobody that there can be; a last term above the term; an entry without its term;
     * half of an incarnation */
#define HEAD "01" ONE ONE ONE NONE "00000000" UNBORN NOWHERE
    assert_int_equal(check_hex(statement_codec, HEAD "ffff000000000000" ONE "00000000"), 0);
    assert_int_equal(check_hex(statement_codec, HEAD "0000010000000000" ONE "00000000"),
                     ERR_BAD_MESSAGE);
    assert_int_equal(check_hex(statement_codec, HEAD ONE "0200000000000000"
                                                         "00000000"),
                     ERR_BAD_MESSAGE);
    assert_int_equal(check_hex(statement_codec, HEAD ONE NONE "00000000"), ERR_BAD_MESSAGE);
    assert_int_equal(check_hex(statement_codec, HEAD ONE ONE "04000000 01020304"), 0);
    assert_int_equal(check_hex(statement_codec, HEAD ONE ONE "02000000 0102"), ERR_BAD_MESSAGE);
}

static void test_bounds_of_a_join(void **state)
{
    char address[LIMIT_ADDRESS_BYTES + 2];
    struct buf bytes = BUF_INIT;

    (void)state;
    memset(address, 'a', sizeof address);
    for (size_t len = LIMIT_ADDRESS_BYTES; len <= LIMIT_ADDRESS_BYTES + 1; len++) {
        buf_put_u8(&bytes, 1);
        buf_put_str16(&bytes, address, len);
        put_unborn(&bytes);
        assert_int_equal(check(join_codec, &bytes),
                         len > LIMIT_ADDRESS_BYTES ? ERR_BAD_MESSAGE : 0);
        bytes.len = 0;
    }
    buf_free(&bytes);
    assert_int_equal(check_hex(join_codec, "01 0000" UNBORN),
                     0); /* refused by who reads the address */
    assert_int_equal(check_hex(join_codec, "02 0300 683a31" UNBORN), ERR_BAD_MESSAGE);
    assert_int_equal(check_hex(join_codec, "01 0300 680031" UNBORN), ERR_BAD_MESSAGE); /* a NUL */
    assert_int_equal(check_hex(join_codec, "01 ffff 683a31" UNBORN), ERR_BAD_MESSAGE);
    assert_int_equal(check_hex(join_codec, "01 0300 683a31" ONE ONE NONE), ERR_BAD_MESSAGE);
}

static void test_bounds_of_an_answer(void **state)
{
    struct buf bytes = BUF_INIT;
    char why[sizeof((struct member_answer *)0)->why];

    (void)state;
    memset(why, 'w', sizeof why);
    for (unsigned outcome = 0; outcome <= MEMBER_OUTCOMES; outcome++) {
        for (size_t len = sizeof why - 1; len <= sizeof why; len++) {
            bool fits = outcome < MEMBER_OUTCOMES && outcome != MEMBER_DONE && len < sizeof why;

            buf_put_u8(&bytes, 1);
            buf_put_u8(&bytes, (uint8_t)outcome);
            buf_put_str16(&bytes, why, len);
            buf_put_u64(&bytes, 0);
            buf_put_u32(&bytes, 0);
            put_unborn(&bytes);
            assert_int_equal(check(joined_codec, &bytes), fits ? 0 : ERR_BAD_MESSAGE);
            bytes.len = 0;
        }
    }
    buf_free(&bytes);
    /* done has a configuration, and nothing else has */
    assert_int_equal(check_hex(joined_codec, "01 00 0000" ONE CONF_LEN CONF_HEX UNBORN), 0);
    assert_int_equal(check_hex(joined_codec, "01 01 0000" ONE CONF_LEN CONF_HEX UNBORN),
                     ERR_BAD_MESSAGE);
    assert_int_equal(check_hex(joined_codec, "02 01 0000" NONE "00000000" UNBORN), ERR_BAD_MESSAGE);
    assert_int_equal(check_hex(joined_codec, "01 01 0100 00" NONE "00000000" UNBORN),
                     ERR_BAD_MESSAGE);
    assert_int_equal(check_hex(joined_codec, "01 01 0000" NONE "00000000" ONE ONE NONE),
                     ERR_BAD_MESSAGE); /* no uid of any cluster */
}

/* The largest of everything that may be said fits a frame of a handshake. */
static void test_the_largest_fit_a_handshake_frame(void **state)
{
    const struct wire_durable start = {UINT64_MAX, INDEX_MAX, INDEX_MAX, LIMIT_NODE_ID, INDEX_MAX};
    struct buf bytes = BUF_INIT;
    struct buf conf = BUF_INIT;

    (void)state;
    make_conf(LIMIT_NODES, LIMIT_ADDRESS_BYTES, &conf);
    make_statement(&start, INDEX_MAX, &conf, 4 * LIMIT_INCARNATIONS - 4, &bytes);
    assert_int_equal(check(statement_codec, &bytes), 0);
    assert_true(FRAME_HEADER_BYTES + bytes.len <= LIMIT_HANDSHAKE_BYTES);
    bytes.len = 0;
    make_joined(MEMBER_DONE, sizeof((struct member_answer *)0)->why - 1, &conf, &bytes);
    assert_int_equal(check(joined_codec, &bytes), 0);
    assert_true(FRAME_HEADER_BYTES + bytes.len <= LIMIT_HANDSHAKE_BYTES);
    bytes.len = 0;
    conf.len = 0;
    make_conf(LIMIT_NODES + 1, 3, &conf); /* one member more */
    buf_put_u8(&bytes, 1);
    for (unsigned i = 0; i < 4; i++) {
        buf_put_u64(&bytes, 1);
    }
    buf_put_str32(&bytes, conf.data, conf.len);
    put_unborn(&bytes);
    buf_put_u16(&bytes, 0);
    hex_put(&bytes, REST);
    assert_int_equal(check(statement_codec, &bytes), ERR_BAD_MESSAGE);
    buf_free(&bytes);
    buf_free(&conf);
}

/* Changed, inserted or lost bytes: refused, or what was read is what was written. */
static void test_mutations(void **state)
{
    static const codec_fn codecs[] = {statement_codec, join_codec, joined_codec};
    unsigned accepted = 0;
    struct buf conf = BUF_INIT;
    struct prng prng;

    (void)state;
    prng_seed(&prng, 7);
    make_conf(2, 4, &conf);
    for (unsigned i = 0; i < 30000; i++) {
        struct buf bytes = BUF_INIT;

        if (i % 3 == 0) {
            make_statement(&(struct wire_durable){1, 2, 3, 0, 2}, 4, &conf, 0, &bytes);
        } else if (i % 3 == 1) {
            wire_join_encode(&(struct wire_join){"somewhere:7081", {uid_make(1, 2), 3}}, &bytes);
        } else {
            make_joined(i % 2 == 0 ? MEMBER_DONE : MEMBER_PENDING, 5, i % 2 == 0 ? &conf : NULL,
                        &bytes);
        }
        for (uint64_t n = prng_below(&prng, 3) + 1; n > 0; n--) {
            bytes.data[prng_below(&prng, bytes.len)] = (uint8_t)prng_next(&prng);
        }
        if (prng_below(&prng, 4) == 0) {
            bytes.len = (size_t)prng_below(&prng, bytes.len + 1);
        }
        accepted += check(codecs[i % 3], &bytes) == 0;
        buf_free(&bytes);
    }
    for (unsigned i = 0; i < 30000; i++) { /* and bytes that never were anything */
        uint8_t data[64] = {1};
        size_t len = (size_t)prng_below(&prng, sizeof data + 1);
        struct buf bytes = BUF_INIT;

        for (size_t k = 1; k < len; k++) {
            data[k] = (uint8_t)prng_next(&prng);
        }
        buf_put(&bytes, data, len);
        (void)check(codecs[i % 3], &bytes);
        buf_free(&bytes);
    }
    assert_true(accepted > 1000 && accepted < 29000);
    buf_free(&conf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden_bytes),
        cmocka_unit_test(test_every_truncation_is_refused),
        cmocka_unit_test(test_bounds_of_a_statement),
        cmocka_unit_test(test_bounds_of_a_standing_in_a_statement),
        cmocka_unit_test(test_bounds_of_a_join),
        cmocka_unit_test(test_bounds_of_an_answer),
        cmocka_unit_test(test_the_largest_fit_a_handshake_frame),
        cmocka_unit_test(test_mutations),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
