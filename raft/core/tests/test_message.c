/*
 * test_message.c - messages of the consensus core: golden bytes, round trips, every rule of
 * refusal, and hostile bytes.
 *
 * Thread: one.
 */
#include "raft/core/message.h"

#include <stdlib.h>

#include "src/tests/unit/test.h"
#include "raft/transport/tests/net_hex.h"
#include "raft/core/tests/core_messages.h"
#include "src/base/limits.h"

static struct raft_message vote_message(void)
{
    struct raft_message message = {.type = RAFT_REQUEST_VOTE};

    message.request_vote = (struct raft_request_vote){2, 7, 3, 100, 6, false, true};
    return message;
}

static void assert_refused(const struct buf *buf)
{
    struct raft_message message;
    uint64_t transfer;

    assert_int_equal(decode_exact(buf, &message, &transfer), ERR_BAD_MESSAGE);
}

static void assert_accepted(const struct buf *buf)
{
    struct raft_message message;
    uint64_t transfer;

    assert_int_equal(decode_exact(buf, &message, &transfer), 0);
    message_release(&message);
}

/* Every shorter part, and one byte more, is refused. */
static void assert_exact_length(struct buf *buf)
{
    struct buf part = *buf;

    assert_accepted(buf);
    for (part.len = 0; part.len < buf->len; part.len++) {
        assert_refused(&part);
    }
    buf_put_u8(buf, 0);
    assert_refused(buf);
    buf->len--;
}

/* --- golden bytes --- */

static void check_golden(const struct raft_message *message, uint64_t transfer, const char *hex)
{
    struct raft_message decoded;
    struct buf buf = BUF_INIT;
    struct buf again = BUF_INIT;
    uint64_t decoded_transfer;

    encode_anew(message, transfer, &buf);
    assert_hex(buf.data, buf.len, hex);
    assert_exact_length(&buf);
    assert_int_equal(decode_exact(&buf, &decoded, &decoded_transfer), 0);
    assert_int_equal(decoded_transfer, transfer);
    encode_anew(&decoded, decoded_transfer, &again);
    assert_hex(again.data, again.len, hex);
    message_release(&decoded);
    buf_free(&buf);
    buf_free(&again);
}

static void test_golden_append_entries(void **state)
{
    struct append_fixture f;

    (void)state;
    append_fixture_init(&f);
    check_golden(&f.message, 0,
                 "01 00 0900000000000000 3200000000000000 0400000000000000 3100000000000000"
                 "02000000 0500000000000000 01 03000000 78797a"
                 "0900000000000000 03 18000000" CONF_HEX);
    f.message.append_entries.n_entries = 0;
    check_golden(&f.message, 0,
                 "01 00 0900000000000000 3200000000000000 0400000000000000 3100000000000000"
                 "00000000");
    append_fixture_free(&f);
}

static void test_golden_append_result(void **state)
{
    struct raft_message message = {.type = RAFT_APPEND_ENTRIES_RESULT};

    (void)state;
    message.append_entries_result =
        (struct raft_append_entries_result){2, 0x0102030405060708, 17, 18, 0x0a0b, 0x0c0d};
    check_golden(&message, 0, "02 02 0807060504030201 1100000000000000 1200000000000000 0b0a 0d0c");
}

static void test_golden_votes(void **state)
{
    struct raft_message message = vote_message();

    (void)state;
    check_golden(&message, 0,
                 "03 02 0700000000000000 0300000000000000 6400000000000000 0600000000000000 00 01");
    message.type = RAFT_REQUEST_VOTE_RESULT;
    message.request_vote_result = (struct raft_request_vote_result){2, 8, true, false, 1, 2};
    check_golden(&message, 0, "04 02 0800000000000000 01 00 0100 0200");
}

static void test_golden_install_and_timeout_now(void **state)
{
    struct raft_message message = {.type = RAFT_INSTALL_SNAPSHOT};

    (void)state;
    message.install_snapshot.term = 6;
    message.install_snapshot.last_index = 1000;
    message.install_snapshot.last_term = 5;
    message.install_snapshot.conf_index = 12;
    raft_configuration_init(&message.install_snapshot.conf);
    conf_add(&message.install_snapshot.conf, 1, "ab:1", RAFT_VOTER);
    check_golden(&message, 77,
                 "05 00 0600000000000000 e803000000000000 0500000000000000 0c00000000000000"
                 "4d00000000000000 18000000" CONF_HEX);
    raft_configuration_close(&message.install_snapshot.conf);
    message.type = RAFT_TIMEOUT_NOW;
    message.timeout_now = (struct raft_timeout_now){0, 6, 30, 5};
    check_golden(&message, 0, "06 00 0600000000000000 1e00000000000000 0500000000000000");
}

/* --- ownership of what is decoded --- */

static void test_entries_are_borrowed(void **state)
{
    struct raft_append_entries *append;
    struct raft_message decoded;
    struct append_fixture f;
    struct buf buf = BUF_INIT;
    uint64_t transfer;

    (void)state;
    append_fixture_init(&f);
    encode_anew(&f.message, 0, &buf);
    assert_int_equal(decode_exact(&buf, &decoded, &transfer), 0);
    append = &decoded.append_entries;
    assert_int_equal(append->n_entries, 2);
    assert_null(append->entries[0].batch);
    assert_int_equal(append->entries[0].buf.len, 3);
    assert_memory_equal(append->entries[0].buf.base, "xyz", 3);
    assert_int_equal(append->entries[1].buf.len, f.conf.len);
    assert_memory_equal(append->entries[1].buf.base, f.conf.data, f.conf.len);
    message_release(&decoded);
    buf_free(&buf);
    append_fixture_free(&f);
}

static void test_entries_without_data(void **state)
{
    struct raft_message decoded;
    struct append_fixture f;
    struct buf buf = BUF_INIT;
    uint64_t transfer;

    (void)state;
    append_fixture_init(&f);
    f.message.append_entries.n_entries = 1;
    f.entries[0] = (struct raft_entry){5, RAFT_BARRIER, {NULL, 0}, NULL};
    encode_anew(&f.message, 0, &buf);
    assert_int_equal(decode_exact(&buf, &decoded, &transfer), 0);
    assert_int_equal(decoded.append_entries.n_entries, 1);
    assert_int_equal(decoded.append_entries.entries[0].buf.len, 0);
    message_release(&decoded);
    f.message.append_entries.n_entries = 0;
    encode_anew(&f.message, 0, &buf);
    assert_int_equal(decode_exact(&buf, &decoded, &transfer), 0);
    assert_null(decoded.append_entries.entries);
    message_release(&decoded);
    buf_free(&buf);
    append_fixture_free(&f);
}

static void test_snapshot_configuration_is_decoded(void **state)
{
    struct raft_message message = {.type = RAFT_INSTALL_SNAPSHOT};
    struct raft_message decoded;
    struct buf buf = BUF_INIT;
    uint64_t transfer;

    (void)state;
    message.install_snapshot.term = message.install_snapshot.last_term = 2;
    message.install_snapshot.last_index = message.install_snapshot.conf_index = 3;
    raft_configuration_init(&message.install_snapshot.conf);
    conf_add(&message.install_snapshot.conf, 65535, "a.example:1", RAFT_STANDBY);
    conf_add(&message.install_snapshot.conf, 2, "b.example:2", RAFT_VOTER);
    encode_anew(&message, UINT64_MAX, &buf);
    raft_configuration_close(&message.install_snapshot.conf);
    assert_int_equal(decode_exact(&buf, &decoded, &transfer), 0);
    assert_int_equal(transfer, UINT64_MAX);
    assert_int_equal(decoded.install_snapshot.conf.n, 2);
    assert_int_equal(decoded.install_snapshot.conf.servers[0].id, 65535);
    assert_int_equal(decoded.install_snapshot.conf.servers[0].role, RAFT_STANDBY);
    assert_string_equal(decoded.install_snapshot.conf.servers[1].address, "b.example:2");
    assert_null(decoded.install_snapshot.data.base);
    message_release(&decoded);
    buf_free(&buf);
}

/* --- rules of refusal: a good message with one field made wrong --- */

struct patch {
    size_t offset;
    unsigned width; /* bytes, little-endian */
    uint64_t value;
};

static void apply_patch(struct buf *buf, const struct patch *patch)
{
    assert_true(patch->offset + patch->width <= buf->len);
    for (unsigned i = 0; i < patch->width; i++) {
        buf->data[patch->offset + i] = (uint8_t)(patch->value >> (8 * i));
    }
}

static void check_patches(const struct raft_message *message, const struct patch *patches,
                          size_t count, bool accepted)
{
    struct buf buf = BUF_INIT;

    for (size_t i = 0; i < count; i++) {
        encode_anew(message, 0, &buf);
        assert_accepted(&buf);
        apply_patch(&buf, &patches[i]);
        if (accepted) {
            assert_accepted(&buf);
        } else {
            assert_refused(&buf);
        }
    }
    buf_free(&buf);
}

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define BOUND (1ULL << 62)

static void test_refuses_bad_heads(void **state)
{
    const struct patch bad[] = {
        {0, 1, 0},   {0, 1, 7}, {0, 1, 255},   {1, 1, 1}, {1, 1, 3},
        {1, 1, 255}, {2, 8, 0}, {2, 8, BOUND}, {2, 8, 5}}; /* the last: below its entry's */
    const struct patch good[] = {{2, 8, BOUND - 1}, {2, 8, 6}, {1, 1, 2}};
    const struct raft_message message = vote_message();

    (void)state;
    check_patches(&message, bad, COUNT(bad), false);
    check_patches(&message, good, COUNT(good), true);
}

static void test_refuses_bad_votes(void **state)
{
    const struct patch bad[] = {{10, 8, 0},     {10, 8, LIMIT_NODE_ID + 1},
                                {18, 8, BOUND}, {26, 8, BOUND},
                                {34, 1, 2},     {35, 1, 255},
                                {26, 8, 8}}; /* of a later term than it stands for */
    const struct patch good[] = {
        {10, 8, LIMIT_NODE_ID}, {10, 8, 1}, {18, 8, BOUND - 1}, {34, 1, 1}, {26, 8, 7}};
    const struct patch bad_result[] = {{10, 1, 2}, {11, 1, 2}};
    struct raft_message message = vote_message();

    (void)state;
    check_patches(&message, bad, COUNT(bad), false);
    check_patches(&message, good, COUNT(good), true);
    message.type = RAFT_REQUEST_VOTE_RESULT;
    message.request_vote_result = (struct raft_request_vote_result){2, 8, true, false, 1, 2};
    check_patches(&message, bad_result, COUNT(bad_result), false);
}

static void test_refuses_bad_append_entries(void **state)
{
    /* Offsets: 2 term, 10 prev index, 18 prev term, 26 commit, 34 count, 38 entry 0 {8 term, 1
     * type, 4 length, 3 data}, 54 entry 1. */
    const struct patch bad[] = {
        {10, 8, 0},                        /* no index, but a term */
        {18, 8, 0},                        /* an index, but no term */
        {18, 8, 10},                       /* previous term above the message's */
        {18, 8, 6},                        /* first entry's term below the one before it */
        {10, 8, BOUND},                    /* index out of bounds */
        {10, 8, BOUND - 2},                /* last entry's index out of bounds */
        {26, 8, BOUND},                    /* commit index out of bounds */
        {38, 8, 0},                        /* entry without a term */
        {54, 8, 0},           {38, 8, 10}, /* entry of a later term than the message */
        {54, 8, 10},          {54, 8, 4},  /* terms fall */
        {46, 1, 0},           {46, 1, 4},  /* unknown entry type */
        {34, 4, 1},           {34, 4, 3},  /* count does not fit the bytes */
        {34, 4, UINT32_MAX},  {47, 4, 4},  /* data longer than it is */
        {47, 4, UINT32_MAX},  {62, 1, RAFT_CHANGE + 1},
        {46, 1, RAFT_CHANGE}, /* "xyz" is no configuration */
        {67, 1, 2},           /* nor is one of an unknown version */
    };
    const struct patch good[] = {{10, 8, BOUND - 3}, {26, 8, BOUND - 1}, {26, 8, 0},
                                 {18, 8, 5},         {38, 8, 9},         {62, 1, RAFT_COMMAND}};
    struct append_fixture f;

    (void)state;
    append_fixture_init(&f);
    check_patches(&f.message, bad, COUNT(bad), false);
    check_patches(&f.message, good, COUNT(good), true);
    append_fixture_free(&f);
}

static void test_heartbeat_terms(void **state)
{
    /* no entries, so that only the message's own terms are in question */
    const struct patch bad[] = {{18, 8, 10}, {18, 8, 0}, {34, 4, 1}};
    const struct patch good[] = {{18, 8, 9}, {18, 8, 1}};
    struct append_fixture f;

    (void)state;
    append_fixture_init(&f);
    f.message.append_entries.n_entries = 0;
    check_patches(&f.message, bad, COUNT(bad), false);
    check_patches(&f.message, good, COUNT(good), true);
    append_fixture_free(&f);
}

static void test_append_result_bounds(void **state)
{
    const struct patch bad[] = {{1, 1, 1}, {2, 8, 0}, {10, 8, BOUND}, {18, 8, BOUND}};
    const struct patch good[] = {{10, 8, BOUND - 1}, {18, 8, BOUND - 1}, {18, 8, 0}};
    struct raft_message message = {.type = RAFT_APPEND_ENTRIES_RESULT};

    (void)state;
    message.append_entries_result = (struct raft_append_entries_result){2, 3, 17, 18, 1, 2};
    check_patches(&message, bad, COUNT(bad), false);
    check_patches(&message, good, COUNT(good), true);
}

static void test_timeout_now_bounds(void **state)
{
    const struct patch bad[] = {{1, 1, 1}, {2, 8, 0}, {10, 8, BOUND}, {18, 8, 7}};
    struct raft_message message = {.type = RAFT_TIMEOUT_NOW};

    (void)state;
    message.timeout_now = (struct raft_timeout_now){0, 6, 30, 5};
    check_patches(&message, bad, COUNT(bad), false);
}

static void test_refuses_bad_snapshots(void **state)
{
    /* Offsets: 10 index, 18 term, 26 configuration index, 34 transfer, 42 length, 46 configuration
     */
    const struct patch bad[] = {{10, 8, 0},  {10, 8, BOUND}, {10, 8, 11},   {18, 8, 0},
                                {18, 8, 7},  {26, 8, 0},     {26, 8, 1001}, {42, 4, 23},
                                {42, 4, 25}, {42, 4, 0},     {46, 1, 2},    {68, 1, 3}};
    const struct patch good[] = {{10, 8, 12}, {18, 8, 6}, {26, 8, 1000}, {34, 8, UINT64_MAX}};
    struct raft_message message = {.type = RAFT_INSTALL_SNAPSHOT};

    (void)state;
    message.install_snapshot.term = 6;
    message.install_snapshot.last_index = 1000;
    message.install_snapshot.last_term = 5;
    message.install_snapshot.conf_index = 12;
    raft_configuration_init(&message.install_snapshot.conf);
    conf_add(&message.install_snapshot.conf, 1, "ab:1", RAFT_VOTER);
    check_patches(&message, bad, COUNT(bad), false);
    check_patches(&message, good, COUNT(good), true);
    raft_configuration_close(&message.install_snapshot.conf);
}

static void test_entry_count_at_the_limit(void **state)
{
    struct append_fixture f;
    struct buf buf = BUF_INIT;

    (void)state;
    append_fixture_init(&f);
    f.message.append_entries.n_entries = LIMIT_ENTRIES_PER_FRAME;
    for (size_t i = 0; i < LIMIT_ENTRIES_PER_FRAME; i++) {
        f.entries[i] = (struct raft_entry){9, RAFT_COMMAND, {(void *)(uintptr_t) "xyz", 3}, NULL};
    }
    encode_anew(&f.message, 0, &buf);
    assert_accepted(&buf);
    buf_set_u32(&buf, 34, LIMIT_ENTRIES_PER_FRAME + 1);
    hex_put(&buf, "0900000000000000 01 03000000 78797a");
    assert_refused(&buf);
    buf_free(&buf);
    append_fixture_free(&f);
}

static void test_entry_bytes_at_the_limit(void **state)
{
    uint8_t *data = calloc(1, LIMIT_ENTRY_BYTES);
    struct append_fixture f;
    struct buf buf = BUF_INIT;

    (void)state;
    assert_non_null(data);
    append_fixture_init(&f);
    f.message.append_entries.n_entries = 1;
    f.entries[0] = (struct raft_entry){9, RAFT_COMMAND, {data, LIMIT_ENTRY_BYTES}, NULL};
    encode_anew(&f.message, 0, &buf);
    assert_accepted(&buf);
    buf_set_u32(&buf, 47, LIMIT_ENTRY_BYTES + 1);
    buf_put_u8(&buf, 0);
    assert_refused(&buf);
    buf_free(&buf);
    free(data);
    append_fixture_free(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden_append_entries),
        cmocka_unit_test(test_golden_append_result),
        cmocka_unit_test(test_golden_votes),
        cmocka_unit_test(test_golden_install_and_timeout_now),
        cmocka_unit_test(test_entries_are_borrowed),
        cmocka_unit_test(test_entries_without_data),
        cmocka_unit_test(test_snapshot_configuration_is_decoded),
        cmocka_unit_test(test_refuses_bad_heads),
        cmocka_unit_test(test_refuses_bad_votes),
        cmocka_unit_test(test_refuses_bad_append_entries),
        cmocka_unit_test(test_heartbeat_terms),
        cmocka_unit_test(test_append_result_bounds),
        cmocka_unit_test(test_timeout_now_bounds),
        cmocka_unit_test(test_refuses_bad_snapshots),
        cmocka_unit_test(test_entry_count_at_the_limit),
        cmocka_unit_test(test_entry_bytes_at_the_limit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
