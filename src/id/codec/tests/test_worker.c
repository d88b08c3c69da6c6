/*
 * test_worker.c - the bytes of worker ids: rows, commands, results and the query are golden, and
 * damaged ones are refused. What the commands do is in test_fsm_workers.c.
 *
 * Thread: one.
 */
#include <stdlib.h>
#include <string.h>

#include "src/tests/unit/test.h"
#include "src/base/prng.h"
#include "src/id/codec/command.h"
#include "src/id/tests/id_apply.h"
#include "src/id/tests/id_random.h"
#include "src/id/tests/id_stamp.h"
#include "src/tests/unit/hex.h"

#define T 1700000000000
#define T_HEX "0068e5cf8b010000 "

/* One kind of message: who writes it, who reads it and writes it again, its bytes. */
struct golden {
    const char *name;
    void (*encode)(struct buf *buf);
    int (*again)(const void *data, size_t len, struct buf *buf);
    const char *bytes;
};

static struct worker_row sample_row(uint32_t id)
{
    return (struct worker_row){
        .id = id,
        .state = WORKER_HELD,
        .kind = WORKER_CLIENT,
        .epoch = 3,
        .granted_from_ms = T,
        .granted_until_ms = T + 256,
        .last_timestamp_ms = T + 1,
        .updated_ms = T,
        .name_len = 3,
        .address_len = 5,
        .name = "n/1",
        .address = "a:808",
    };
}

#define FIELDS_HEX                                                                                 \
    "01 02 0300000000000000 " T_HEX "0069e5cf8b010000 0168e5cf8b010000 " T_HEX                     \
    "0300 6e2f31 0500 613a383038 "
#define ROW "02 " FIELDS_HEX /* as storage keeps it */

static void encode_acquire(struct buf *buf)
{
    command_put(buf, COMMAND_WORKER_ACQUIRE,
                &(struct worker_acquire){
                    .kind = WORKER_NODE,
                    .worker_id = WORKER_ID_ANY,
                    .floor_ms = 5,
                    .window_ms = 600000,
                    .wall_ms = T,
                    .name = "n/1",
                    .name_len = 3,
                    .address = "a:1",
                    .address_len = 3,
                });
}

static int again_clock(const void *data, size_t len, struct buf *buf)
{
    struct cluster_command command;
    int err = cluster_command_read(data, len, &command);

    if (err == 0) {
        cluster_command_put(buf, command.type, &command.clock);
    }
    return err;
}

static int again_command(const void *data, size_t len, struct buf *buf)
{
    struct command command;
    int err = command_read(data, len, &command);

    if (err == 0) {
        command_put(buf, command.type, &command.acquire); /* all of them stand there */
    }
    return err;
}

static void encode_renew(struct buf *buf)
{
    command_put(buf, COMMAND_WORKER_RENEW,
                &(struct worker_renew){0x0102, 3, 4, 5, 6, T, WORKER_NODE, 0});
}

static void encode_release(struct buf *buf)
{
    command_put(buf, COMMAND_WORKER_RELEASE,
                &(struct worker_release){1023, 3, T, WORKER_NODE, 0, 0});
}

static void encode_acquire_wide(struct buf *buf)
{
    command_put(buf, COMMAND_WORKER_ACQUIRE_OF,
                &(struct worker_acquire){.kind = WORKER_CLIENT,
                                         .worker_id = 0x3fffff,
                                         .window_ms = 600000,
                                         .wall_ms = T,
                                         .name = "n/1",
                                         .name_len = 3,
                                         .client = 0x1122334455667788,
                                         .percent = 25,
                                         .bits = 22,
                                         .zone = "z",
                                         .zone_len = 1});
}

static void encode_renew_wide(struct buf *buf)
{
    command_put(buf, COMMAND_WORKER_RENEW_OF,
                &(struct worker_renew){0x10002, 3, 4, 5, 6, T, WORKER_CLIENT, 0x1122334455667788});
}

static void encode_release_wide(struct buf *buf)
{
    command_put(buf, COMMAND_WORKER_RELEASE_OF,
                &(struct worker_release){0xffff, 3, T, WORKER_CLIENT, 0x1122334455667788, true});
}

static void encode_query_wide(struct buf *buf)
{
    query_workers_encode(buf, 0x10002, 1024);
}

static void encode_acquire_client(struct buf *buf)
{
    command_put(buf, COMMAND_WORKER_ACQUIRE,
                &(struct worker_acquire){
                    .kind = WORKER_CLIENT,
                    .worker_id = 7,
                    .window_ms = 600000,
                    .wall_ms = T,
                    .name = "n/1",
                    .name_len = 3,
                    .client = 0x1122334455667788,
                    .most = 0x0102,
                    .percent = 25,
                    .force = true,
                });
}

static void encode_renew_client(struct buf *buf)
{
    command_put(buf, COMMAND_WORKER_RENEW,
                &(struct worker_renew){0x0102, 3, 4, 5, 6, T, WORKER_CLIENT, 0x1122334455667788});
}

static void encode_release_client(struct buf *buf)
{
    command_put(buf, COMMAND_WORKER_RELEASE,
                &(struct worker_release){1023, 3, T, WORKER_CLIENT, 0x1122334455667788, true});
}

static void encode_layout(struct buf *buf)
{
    command_put(buf, COMMAND_LAYOUT, &(struct snowflake_layout)SNOWFLAKE_LEAF_LAYOUT);
}

static void encode_clock(struct buf *buf)
{
    cluster_command_put(buf, COMMAND_CLOCK, &(struct clock_command){.cluster_ms = T});
}

static void encode_query(struct buf *buf)
{
    query_workers_encode(buf, 0x0102, 1024);
}

static int again_query(const void *data, size_t len, struct buf *buf)
{
    struct query query;
    int err = query_decode(data, len, &query);

    if (err != 0 || query.type != QUERY_WORKERS) {
        return ERR_BAD_MESSAGE;
    }
    query_workers_encode(buf, query.first, (uint16_t)query.limit);
    return 0;
}

static void encode_result(struct buf *buf)
{
    worker_result_encode(&(struct worker_result){.has_row = true, .row = sample_row(0x0102)}, buf);
}

static void encode_fenced(struct buf *buf)
{
    worker_result_encode(
        &(struct worker_result){.status = ERR_FENCED, .has_row = true, .row = sample_row(0x0102)},
        buf);
}

static void encode_result_wide(struct buf *buf)
{
    worker_result_encode(
        &(struct worker_result){.has_row = true, .row = sample_row(LIMIT_WORKER_IDS - 1)}, buf);
}

static void encode_refusal(struct buf *buf)
{
    worker_result_encode(&(struct worker_result){.status = ERR_NO_WORKER_ID}, buf);
}

static void encode_share(struct buf *buf)
{
    worker_result_encode(&(struct worker_result){.status = ERR_SHARE, .held = 256, .most = 255},
                         buf);
}

static int again_result(const void *data, size_t len, struct buf *buf)
{
    struct worker_result result;
    int err = worker_result_decode(data, len, &result);

    if (err == 0) {
        worker_result_encode(&result, buf);
    }
    return err;
}

static void encode_rows(struct buf *buf)
{
    const struct worker_row rows[2] = {sample_row(7), sample_row(0x0102)};

    worker_rows_encode(rows, 2, T, buf);
}

static int again_rows(const void *data, size_t len, struct buf *buf)
{
    struct worker_rows rows;
    int err = worker_rows_decode(data, len, &rows);

    if (err != 0) {
        return err;
    }
    worker_rows_encode(rows.rows, rows.count, rows.log_ms, buf);
    worker_rows_release(&rows);
    assert_null(rows.rows);
    return 0;
}

#define NOBODY "0000000000000000 "

static const struct golden GOLDEN[] = {
    {"acquire", encode_acquire, again_command,
     "03 09 " ID_STAMP_EMPTY "01 ffff 0500000000000000 c027090000000000 " T_HEX
     "0300 6e2f31 0300 613a31 " NOBODY "0000 00 00"},
    {"renew", encode_renew, again_command,
     "03 0a " ID_STAMP_EMPTY
     "0201 0300000000000000 0400000000000000 0500000000000000 0600000000000000 " T_HEX
     "01 " NOBODY},
    {"release", encode_release, again_command,
     "03 0b " ID_STAMP_EMPTY "ff03 0300000000000000 " T_HEX "01 " NOBODY "00"},
    {"acquire of a client", encode_acquire_client, again_command,
     "03 09 " ID_STAMP_EMPTY "02 0700 0000000000000000 c027090000000000 " T_HEX
     "0300 6e2f31 0000 8877665544332211 0201 19 01"},
    {"renew of a client", encode_renew_client, again_command,
     "03 0a " ID_STAMP_EMPTY "0201 0300000000000000 0400000000000000 0500000000000000 "
     "0600000000000000 " T_HEX "02 8877665544332211"},
    {"release of a client", encode_release_client, again_command,
     "03 0b " ID_STAMP_EMPTY "ff03 0300000000000000 " T_HEX "02 8877665544332211 01"},
    {"acquire of a wide id", encode_acquire_wide, again_command,
     "03 2e " ID_STAMP_EMPTY "0000000000000000 c027090000000000 " T_HEX
     "0300 6e2f31 0000 8877665544332211 0000 19 00 16 0100 7a 02 ffff3f00"},
    {"renew of a wide id", encode_renew_wide, again_command,
     "03 30 " ID_STAMP_EMPTY "0300000000000000 0400000000000000 0500000000000000 "
     "0600000000000000 " T_HEX "02 8877665544332211 02000100"},
    {"release of a wide id", encode_release_wide, again_command,
     "03 31 " ID_STAMP_EMPTY "0300000000000000 " T_HEX "02 8877665544332211 01 ffff0000"},
    {"query from a wide id", encode_query_wide, again_query, "01 58 00040000 02000100"},
    {"layout", encode_layout, again_command, "03 07 " ID_STAMP_EMPTY "c1038d142c010000 29 0a 0c"},
    {"clock", encode_clock, again_clock, "03 08 " ID_STAMP_EMPTY T_HEX},
    {"query", encode_query, again_query, "01 43 0201 00040000"},
    {"result", encode_result, again_result, "01 85 00000000 01 0201 " FIELDS_HEX},
    {"result of a wide id", encode_result_wide, again_result,
     "01 85 00000000 01 ffff ffff3f00 " FIELDS_HEX},
    {"fenced", encode_fenced, again_result, "01 85 deffffff 01 0201 " FIELDS_HEX},
    {"refusal", encode_refusal, again_result, "01 85 dfffffff 00"},
    {"share", encode_share, again_result, "01 85 cfffffff 00 0001 ff00"},
    {"rows", encode_rows, again_rows,
     "01 86 " T_HEX "02000000 0700 " FIELDS_HEX "0201 " FIELDS_HEX},
};
#define GOLDEN_COUNT (sizeof GOLDEN / sizeof GOLDEN[0])

static void test_golden_bytes(void **state)
{
    (void)state;
    for (size_t i = 0; i < GOLDEN_COUNT; i++) {
        struct buf buf = BUF_INIT;
        struct buf again = BUF_INIT;

        GOLDEN[i].encode(&buf);
        if (!hex_equal(&buf, GOLDEN[i].bytes)) {
            fail_msg("%s is written differently", GOLDEN[i].name);
        }
        assert_int_equal(GOLDEN[i].again(buf.data, buf.len, &again), 0);
        assert_int_equal(again.len, buf.len);
        assert_memory_equal(again.data, buf.data, buf.len);
        buf_free(&again);
        buf_free(&buf);
    }
}

/* Exactly as long a copy as the bytes, so that a read past the end is seen by the sanitizer. */
static int read_exact(const struct golden *golden, const uint8_t *data, size_t len, struct buf *buf)
{
    uint8_t *copy = malloc(len > 0 ? len : 1);
    int err;

    assert_non_null(copy);
    if (len > 0) {
        memcpy(copy, data, len);
    }
    err = golden->again(copy, len, buf);
    free(copy);
    return err;
}

static void test_truncated_or_longer_is_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < GOLDEN_COUNT; i++) {
        struct buf buf = BUF_INIT;
        struct buf again = BUF_INIT;

        GOLDEN[i].encode(&buf);
        for (size_t len = 0; len < buf.len; len++) {
            assert_int_equal(read_exact(&GOLDEN[i], buf.data, len, &again), ERR_BAD_MESSAGE);
        }
        buf_put_u8(&buf, 0);
        assert_int_equal(read_exact(&GOLDEN[i], buf.data, buf.len, &again), ERR_BAD_MESSAGE);
        buf.data[0]++; /* a later version */
        assert_int_equal(read_exact(&GOLDEN[i], buf.data, buf.len - 1, &again), ERR_BAD_MESSAGE);
        assert_int_equal(again.len, 0);
        buf_free(&buf);
    }
}

/* A command is written without a stamp, and read with any. */
static void stamp_as_read(const struct buf *buf, struct buf *again)
{
    if (buf->data[0] == COMMAND_VERSION) {
        memcpy(again->data + SESSION_STAMP_AT, buf->data + SESSION_STAMP_AT, SESSION_STAMP_BYTES);
    }
}

/* There is one way to write each message: what mutated bytes are read as is written the same. */
static void test_mutated_is_refused_or_read_exactly(void **state)
{
    struct prng prng;
    unsigned read = 0;

    (void)state;
    prng_seed(&prng, 77);
    for (unsigned i = 0; i < 40000; i++) {
        const struct golden *golden = &GOLDEN[i % GOLDEN_COUNT];
        struct buf buf = BUF_INIT;
        struct buf again = BUF_INIT;
        int err;

        golden->encode(&buf);
        id_random_mutate(&prng, &buf);
        err = read_exact(golden, buf.data, buf.len, &again);
        if (err == 0) {
            assert_int_equal(again.len, buf.len);
            stamp_as_read(&buf, &again);
            assert_memory_equal(again.data, buf.data, buf.len);
            read++;
        } else {
            assert_int_equal(err, ERR_BAD_MESSAGE);
        }
        buf_free(&again);
        buf_free(&buf);
    }
    assert_in_range(read, 5000, 35000);
}

static void test_no_message_is_taken_for_another(void **state)
{
    (void)state;
    for (size_t i = 0; i < GOLDEN_COUNT; i++) {
        struct buf buf = BUF_INIT;

        GOLDEN[i].encode(&buf);
        for (size_t k = 0; k < GOLDEN_COUNT; k++) {
            struct buf again = BUF_INIT;
            int wanted = GOLDEN[i].again == GOLDEN[k].again ? 0 : ERR_BAD_MESSAGE;

            assert_int_equal(GOLDEN[k].again(buf.data, buf.len, &again), wanted);
            buf_free(&again);
        }
        buf_free(&buf);
    }
}

static void test_query_limits(void **state)
{
    const uint16_t limits[] = {0, 1, WORKER_ROWS_MAX, WORKER_ROWS_MAX + 1};
    const int wanted[] = {ERR_BAD_MESSAGE, 0, 0, ERR_BAD_MESSAGE};

    (void)state;
    for (size_t i = 0; i < 4; i++) {
        struct buf buf = BUF_INIT;
        struct query query = {.limit = 0};

        query_workers_encode(&buf, 5, limits[i]);
        assert_int_equal(query_decode(buf.data, buf.len, &query), wanted[i]);
        if (wanted[i] == 0) {
            assert_int_equal(query.type, QUERY_WORKERS);
            assert_int_equal(query.first, 5);
            assert_int_equal(query.limit, limits[i]);
        }
        buf_free(&buf);
    }
}

static void test_results_keep_their_rules(void **state)
{
    static const char *const bad[] = {
        "01 85 00000000 00",                           /* 0 without a row */
        "01 85 01000000 00",                           /* no error is positive */
        "01 85 dfffffff 02",                           /* neither with a row nor without */
        "01 85 00000000 01 ffff 00004000 " FIELDS_HEX, /* worker id 4194304 */
        "01 85 00000000 01 ffff feff0000 " FIELDS_HEX, /* 65534, which has two bytes */
        "01 85 cfffffff 00 0001",                      /* a share without an end */
        "01 86 " T_HEX "02000000 0700 " FIELDS_HEX "0700 " FIELDS_HEX, /* twice the same */
        "01 86 " T_HEX "02040000",                                     /* 1026 rows */
        "01 86 " T_HEX "01000000",                                     /* fewer rows than said */
    };

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct worker_result result;
        struct worker_rows rows;
        struct buf buf = BUF_INIT;

        hex_put(&buf, bad[i]);
        assert_int_equal(worker_result_decode(buf.data, buf.len, &result), ERR_BAD_MESSAGE);
        assert_int_equal(worker_rows_decode(buf.data, buf.len, &rows), ERR_BAD_MESSAGE);
        buf_free(&buf);
    }
}

/* --- rows --- */

static int decode_row(uint32_t id, const void *data, size_t len, struct worker_row *ret_row)
{
    *ret_row = (struct worker_row){.id = id};
    return worker_row_read(data, len, ret_row);
}

/* Keys are in the order of the ids, and each id has one. */
static void test_keys(void **state)
{
    static const struct {
        uint32_t id;
        const char *key;
    } cases[] = {
        {0, "0000"},
        {0x0102, "0102"},
        {WORKER_IDS_NARROW - 1, "fffe"},
        {WORKER_IDS_NARROW, "ffff 0000ffff"},
        {WORKER_IDS_NARROW + 1, "ffff 00010000"},
        {LIMIT_WORKER_IDS - 1, "ffff 003fffff"},
    };
    static const char *const bad[] = {
        "", "00", "ffff", "010203", "ffff 0000fffe", "fffe 0000ffff", "ffff 0000ffff00"};
    uint32_t id;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        BUF_LOCAL(key);

        worker_key_put(&key, cases[i].id);
        assert_true(hex_equal(&key, cases[i].key));
        assert_true(worker_key_read(key.data, key.len, &id));
        assert_int_equal(id, cases[i].id);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        BUF_LOCAL(key);

        hex_put(&key, bad[i]);
        assert_false(worker_key_read(key.data, key.len, &id));
    }
}

static void test_row_golden_and_damage(void **state)
{
    const struct worker_row row = sample_row(9);
    struct worker_row back;
    struct buf buf = BUF_INIT;

    (void)state;
    worker_row_put(&buf, &row);
    assert_true(hex_equal(&buf, ROW));
    assert_int_equal(decode_row(9, buf.data, buf.len, &back), 0);
    assert_true(id_apply_same_worker(&back, &row));
    assert_true(id_apply_is_named(&back, "n/1"));
    assert_int_equal(back.address_len, 5);
    assert_memory_equal(back.address, "a:808", 5);
    assert_int_equal(decode_row(LIMIT_WORKER_IDS - 1, buf.data, buf.len, &back), 0);
    assert_int_equal(decode_row(LIMIT_WORKER_IDS, buf.data, buf.len, &back), ERR_CORRUPT);
    for (size_t len = 0; len < buf.len; len++) {
        assert_int_equal(decode_row(9, buf.data, len, &back), ERR_TRUNCATED);
    }
    buf_put_u8(&buf, 0);
    assert_int_equal(decode_row(9, buf.data, buf.len, &back), ERR_CORRUPT);
    buf.data[0] = 4;
    assert_int_equal(decode_row(9, buf.data, buf.len, &back), ERR_BAD_VERSION);
    buf.data[0] = 1;
    assert_int_equal(decode_row(9, buf.data, buf.len, &back), ERR_BAD_VERSION);
    buf_free(&buf);
}

/* A row that counts for a client has a form of its own, and only such a row. */
static void test_row_of_a_client(void **state)
{
    struct worker_row row = sample_row(9);
    struct worker_row back;
    struct buf buf = BUF_INIT;

    (void)state;
    row.kind = WORKER_CLIENT;
    row.client = 0x1122334455667788;
    worker_row_put(&buf, &row);
    assert_true(hex_equal(&buf, "03 0102 0300000000000000 " T_HEX "0069e5cf8b010000 "
                                "0168e5cf8b010000 " T_HEX
                                "0300 6e2f31 0500 613a383038 8877665544332211"));
    assert_int_equal(decode_row(9, buf.data, buf.len, &back), 0);
    assert_true(id_apply_same_worker(&back, &row));
    assert_int_equal(decode_row(9, buf.data, buf.len - 1, &back), ERR_TRUNCATED);
    buf.data[1] = WORKER_RELEASED; /* which counts until its window is over */
    assert_int_equal(decode_row(9, buf.data, buf.len, &back), 0);
    buf.data[1] = WORKER_HELD;
    buf.data[2] = WORKER_NODE;
    assert_int_equal(decode_row(9, buf.data, buf.len, &back), ERR_CORRUPT);
    buf.data[2] = WORKER_CLIENT;
    memset(buf.data + buf.len - 8, 0, 8); /* nobody's has the other form */
    assert_int_equal(decode_row(9, buf.data, buf.len, &back), ERR_CORRUPT);
    buf_free(&buf);
}

static int decode_acquire(struct worker_acquire acquire)
{
    struct command command;
    struct buf buf = BUF_INIT;
    int err;

    acquire.name = "n";
    acquire.name_len = 1;
    command_put(&buf, COMMAND_WORKER_ACQUIRE, &acquire);
    err = command_read(buf.data, buf.len, &command);
    buf_free(&buf);
    return err;
}

static void test_acquire_rules(void **state)
{
    const struct worker_acquire good = {.kind = WORKER_CLIENT, .client = 1, .percent = 1};
    struct worker_acquire bad = good;

    (void)state;
    assert_int_equal(decode_acquire(good), 0);
    bad.kind = WORKER_NODE;
    assert_int_equal(decode_acquire(bad), ERR_BAD_MESSAGE);
    bad = good;
    bad.client = 0;
    assert_int_equal(decode_acquire(bad), ERR_BAD_MESSAGE);
    bad = good;
    bad.percent = 0;
    assert_int_equal(decode_acquire(bad), ERR_BAD_MESSAGE);
    bad.percent = 100;
    assert_int_equal(decode_acquire(bad), 0);
    bad.percent = 101;
    assert_int_equal(decode_acquire(bad), ERR_BAD_MESSAGE);
    /* Nobody's is a node's. */
    bad = (struct worker_acquire){.kind = WORKER_NODE};
    assert_int_equal(decode_acquire(bad), 0);
}

/* The sample's value bytes with one byte, or eight, set to something else. */
static int decode_with(size_t at, size_t size, uint64_t value)
{
    const struct worker_row row = sample_row(9);
    struct worker_row back;
    struct buf buf = BUF_INIT;
    int err;

    worker_row_put(&buf, &row);
    for (size_t i = 0; i < size; i++) {
        buf.data[at + i] = (uint8_t)(value >> (8 * i));
    }
    err = decode_row(9, buf.data, buf.len, &back);
    buf_free(&buf);
    return err;
}

static void test_row_rules(void **state)
{
    static const struct {
        uint8_t at;
        uint8_t size;
        uint64_t value;
        int wanted;
    } cases[] = {
        {1, 1, 0, ERR_CORRUPT}, /* state */
        {1, 1, WORKER_RELEASED, 0},
        {1, 1, 3, ERR_CORRUPT},
        {2, 1, 0, ERR_CORRUPT}, /* kind */
        {2, 1, WORKER_NODE, 0},
        {2, 1, 3, ERR_CORRUPT},
        {3, 8, 0, ERR_CORRUPT}, /* epoch */
        {3, 8, INT64_MAX, 0},
        {3, 8, 1ULL << 63, ERR_CORRUPT},
        {11, 8, T + 256, 0}, /* from, until is T + 256 */
        {11, 8, T + 257, ERR_CORRUPT},
        {19, 8, LIMIT_TIME_MAX_MS, 0}, /* until, last is T + 1 */
        {19, 8, LIMIT_TIME_MAX_MS + 1, ERR_CORRUPT},
        {19, 8, T + 1, 0},
        {19, 8, T, ERR_CORRUPT},
        {27, 8, 0, 0}, /* last */
        {27, 8, T + 257, ERR_CORRUPT},
        {35, 8, LIMIT_TIME_MAX_MS, 0}, /* updated */
        {35, 8, LIMIT_TIME_MAX_MS + 1, ERR_CORRUPT},
        {45, 1, 0x0a, ERR_CORRUPT}, /* name */
        {50, 1, 0xff, ERR_CORRUPT}, /* address */
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(decode_with(cases[i].at, cases[i].size, cases[i].value), cases[i].wanted);
    }
}

static int decode_texts(size_t name_len, size_t address_len)
{
    const struct worker_row row = sample_row(9);
    struct worker_row back;
    struct buf buf = BUF_INIT;
    char text[512];
    int err;

    memset(text, 'x', sizeof text);
    worker_row_put(&buf, &row);
    buf.len = 43; /* up to the name */
    buf_put_str16(&buf, text, name_len);
    buf_put_str16(&buf, text, address_len);
    err = decode_row(9, buf.data, buf.len, &back);
    if (err == 0) {
        struct buf again = BUF_INIT;

        assert_int_equal(back.name_len, name_len);
        assert_int_equal(back.address_len, address_len);
        worker_row_put(&again, &back);
        assert_int_equal(again.len, buf.len);
        assert_memory_equal(again.data, buf.data, buf.len);
        buf_free(&again);
    }
    buf_free(&buf);
    return err;
}

static void test_row_text_limits(void **state)
{
    (void)state;
    assert_int_equal(decode_texts(0, 1), ERR_CORRUPT);
    assert_int_equal(decode_texts(1, 0), 0);
    assert_int_equal(decode_texts(LIMIT_WORKER_NAME_BYTES, LIMIT_ADDRESS_BYTES), 0);
    assert_int_equal(decode_texts(LIMIT_WORKER_NAME_BYTES + 1, 0), ERR_CORRUPT);
    assert_int_equal(decode_texts(1, LIMIT_ADDRESS_BYTES + 1), ERR_CORRUPT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden_bytes),
        cmocka_unit_test(test_truncated_or_longer_is_refused),
        cmocka_unit_test(test_mutated_is_refused_or_read_exactly),
        cmocka_unit_test(test_no_message_is_taken_for_another),
        cmocka_unit_test(test_query_limits),
        cmocka_unit_test(test_results_keep_their_rules),
        cmocka_unit_test(test_keys),
        cmocka_unit_test(test_row_golden_and_damage),
        cmocka_unit_test(test_row_rules),
        cmocka_unit_test(test_row_of_a_client),
        cmocka_unit_test(test_acquire_rules),
        cmocka_unit_test(test_row_text_limits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
