/*
 * test_command.c - golden bytes of commands, queries and results, round trips, and refusal of
 * damage.
 *
 * Thread: one.
 */
#include <string.h>

#include "src/tests/unit/test.h"
#include "src/base/container.h"
#include "src/id/codec/command.h"
#include "src/id/codec/tests/golden.h"
#include "src/id/tests/id_stamp.h"
#include "src/state/codec/cluster_command.h"
#include "src/tests/unit/hex.h"

#define WALL_MS 1700000000000
#define WALL "0068e5cf8b010000 "

/* One kind of message: who writes it, its bytes, who reads it. */
static const struct node_info NODE = {7, 0xdeadbeef, "a:8080", "0.1.0", "a:7081", {1, 2}, 9};

static struct tag_row sample_row(void)
{
    return (struct tag_row){
        .name = "a",
        .description = "x",
        .name_len = 1,
        .description_len = 1,
        .generation = 1,
        .step = 10,
        .max_step = 100,
        .max_id = 5,
    };
}

#define ROW_HEAD                                                                                   \
    "0100 61 00 00 00 01000000 0a000000 64000000 0500000000000000 "                                \
    "0000000000000000 0000000000000000 0100 78 "
#define ROW ROW_HEAD "0000000000000000 0000 "

static void encode_noop(struct buf *buf)
{
    cluster_command_put(buf, COMMAND_NOOP, NULL);
}

static void encode_grant(struct buf *buf)
{
    command_put(buf, COMMAND_GRANT, &(struct command_list){.wall_ms = WALL_MS});
    command_item_put(buf, COMMAND_GRANT, &(struct grant_item){"order", 5, 1000});
    command_item_put(buf, COMMAND_GRANT, &(struct grant_item){"a", 1, 0});
    command_items_end(buf);
}

static void encode_put(struct buf *buf)
{
    const struct tag_put all = {
        .name = "a",
        .name_len = 1,
        .fields = 0x1f,
        .max_id = 100,
        .step = 2000,
        .max_step = 1000000,
        .mode = TAG_MODE_STRICT,
        .description = "hi",
        .description_len = 2,
    };
    const struct tag_put step = {.name = "bb", .name_len = 2, .fields = TAG_FIELD_STEP, .step = 10};
    const struct tag_put none = {.name = "c", .name_len = 1};

    command_put(buf, COMMAND_TAGS_PUT, &(struct command_list){.force = true, .wall_ms = WALL_MS});
    command_item_put(buf, COMMAND_TAGS_PUT, &all);
    command_item_put(buf, COMMAND_TAGS_PUT, &step);
    command_item_put(buf, COMMAND_TAGS_PUT, &none);
    command_items_end(buf);
}

static void encode_put_by(struct buf *buf)
{
    const struct tag_put step = {.name = "bb", .name_len = 2, .fields = TAG_FIELD_STEP, .step = 10};

    command_put(buf, COMMAND_TAGS_PUT_BY,
                &(struct command_list){
                    .is_dump = true, .wall_ms = WALL_MS, .client = 0x11223344, .most = 50000});
    command_item_put(buf, COMMAND_TAGS_PUT_BY, &step);
    command_items_end(buf);
}

static void encode_delete(struct buf *buf)
{
    command_put(buf, COMMAND_TAG_DELETE,
                &(struct delete_command){.name = "def", .name_len = 3, .wall_ms = WALL_MS});
}

static void encode_node(struct buf *buf)
{
    cluster_command_put(buf, COMMAND_NODE_INFO, &NODE);
}

static void encode_digest(struct buf *buf)
{
    cluster_command_put(buf, COMMAND_DIGEST,
                        &(struct digest_command){.index = 5, .digest = 0x1122334455667788});
}

static void encode_birth(struct buf *buf)
{
    cluster_command_put(
        buf, COMMAND_BIRTH,
        &(struct birth){{0xf81d4fae7dec41d0, 0xa76500a0c91e6bf6}, 0x1122334455667788, WALL_MS, 0});
}

static void encode_birth_at(struct buf *buf)
{
    cluster_command_put(
        buf, COMMAND_BIRTH_AT,
        &(struct birth){{0xf81d4fae7dec41d0, 0xa76500a0c91e6bf6}, 0x1122334455667788, WALL_MS, 3});
}

static void encode_layout_put(struct buf *buf)
{
    const struct layout_row row = {
        .name = "s10",
        .name_len = 3,
        .layout = {{1409529600000, 39, 16, 8}, 10, LAYOUT_WORKER_LAST},
        .created_ms = WALL_MS,
    };

    command_put(buf, COMMAND_LAYOUT_PUT, &row);
}

static void encode_layout_delete(struct buf *buf)
{
    command_put(buf, COMMAND_LAYOUT_DELETE,
                &(struct delete_command){.name = "s10", .name_len = 3, .wall_ms = WALL_MS});
}

static void encode_get(struct buf *buf)
{
    query_get_encode(buf, "a", 1);
}

static void encode_list(struct buf *buf)
{
    query_list_encode(buf, "pre", 3, "prefix", 6, 1000);
}

static void encode_grant_results(struct buf *buf)
{
    const struct grant_result results[2] = {
        {0, 1000, 0x1122334455667788, 3, 500, 2000, 0},
        {ERR_EXHAUSTED, 0, 0, 4, 1, 2, 0},
    };

    results_encode(RESULT_GRANTS, results, 2, buf);
}

static void encode_put_result(struct buf *buf)
{
    struct put_result result = {.made = 2, .changed = 3, .first = sample_row()};

    put_result_encode(&result, buf);
}

static void encode_put_failure(struct buf *buf)
{
    struct put_result result = {
        .status = ERR_WOULD_REPEAT, .failed_at = 2, .max_id = 9, .asked = 8};

    memcpy(result.why, "no", 3);
    put_result_encode(&result, buf);
}

static void encode_status(struct buf *buf)
{
    status_result_encode(ERR_UNKNOWN_TAG, buf);
}

static void encode_rows(struct buf *buf)
{
    const struct tag_row row = sample_row();
    const struct tag_row rows[2] = {row, row};

    tag_rows_encode(rows, 2, &row, buf);
}

#define JS_MAX ((1ULL << 53) - 1)

static void encode_bounded_put(struct buf *buf)
{
    const struct tag_put put = {.name = "a", .name_len = 1, .fields = TAG_FIELD_MAX, .max = JS_MAX};

    command_put(buf, COMMAND_TAGS_PUT, &(struct command_list){.wall_ms = WALL_MS});
    command_item_put(buf, COMMAND_TAGS_PUT, &put);
    command_items_end(buf);
}

static void encode_bounded_put_result(struct buf *buf)
{
    struct put_result result = {.changed = 1, .first = sample_row()};

    result.first.max = JS_MAX;
    put_result_encode(&result, buf);
}

static void encode_bounded_rows(struct buf *buf)
{
    struct tag_row rows[2] = {sample_row(), sample_row()};

    rows[1].max = JS_MAX;
    tag_rows_encode(rows, 2, NULL, buf);
}

#define SHAPE "{secret36:8}"
#define KEY "0123456789abcdefghijklmnopqrstuv"
#define SHAPE_HEX                                                                                  \
    "2d00 7b73656372657433363a387d 00 303132333435363738396162636465666768696a6b6c6d6e6f70717273"  \
    "747576 "

static void encode_shaped_put(struct buf *buf)
{
    const struct tag_put put = {.name = "a",
                                .name_len = 1,
                                .fields = TAG_FIELD_SHAPE,
                                .shape = SHAPE "\0" KEY,
                                .shape_len = sizeof(SHAPE KEY)};

    command_put(buf, COMMAND_TAGS_PUT, &(struct command_list){.wall_ms = WALL_MS});
    command_item_put(buf, COMMAND_TAGS_PUT, &put);
    command_items_end(buf);
}

static void encode_rekeyed_put(struct buf *buf)
{
    const struct tag_put put = {.name = "a",
                                .name_len = 1,
                                .fields = TAG_FIELD_KEY,
                                .key_number = 2,
                                .key = KEY,
                                .key_len = SHAPE_KEY_BYTES};

    command_put(buf, COMMAND_TAGS_PUT, &(struct command_list){.wall_ms = WALL_MS});
    command_item_put(buf, COMMAND_TAGS_PUT, &put);
    command_items_end(buf);
}

static struct tag_row shaped_row(void)
{
    struct tag_row row = sample_row();

    row.max = 1ULL << 40;
    row.shape = SHAPE "\0" KEY;
    row.shape_len = sizeof(SHAPE KEY);
    return row;
}

static void encode_shaped_put_result(struct buf *buf)
{
    const struct put_result result = {.made = 1, .first = shaped_row()};

    put_result_encode(&result, buf);
}

static void encode_shaped_rows(struct buf *buf)
{
    const struct tag_row plain = sample_row();
    const struct tag_row shaped = shaped_row();
    const struct tag_row rows[2] = {plain, shaped};

    tag_rows_encode(rows, 2, NULL, buf);
}

static struct tag_row stepped_row(void)
{
    struct tag_row row = sample_row();

    row.increment = 16;
    row.offset = 3;
    return row;
}

static void encode_stepped_put(struct buf *buf)
{
    const struct tag_put put = {.name = "a",
                                .name_len = 1,
                                .step_fields = TAG_FIELD_INCREMENT | TAG_FIELD_OFFSET,
                                .increment = 16,
                                .offset = 3};

    command_put(
        buf, COMMAND_TAGS_PUT_STEPPED,
        &(struct command_list){.wall_ms = WALL_MS, .stepped = true, .client = 0x11, .most = 50000});
    command_item_put(buf, COMMAND_TAGS_PUT_STEPPED, &put);
    command_items_end(buf);
}

static void encode_stepped_put_result(struct buf *buf)
{
    const struct put_result result = {.made = 1, .first = stepped_row()};

    put_result_encode(&result, buf);
}

static void encode_stepped_rows(struct buf *buf)
{
    const struct tag_row plain = sample_row();
    const struct tag_row stepped = stepped_row();
    const struct tag_row rows[2] = {plain, stepped};

    tag_rows_encode(rows, 2, NULL, buf);
}

static void encode_stepped_grants(struct buf *buf)
{
    const struct grant_result results[2] = {
        {0, 1000, 0x1122334455667788, 3, 500, 2000, 2},
        {ERR_EXHAUSTED, 0, 0, 4, 1, 2, 0},
    };

    results_encode(RESULT_GRANTS, results, 2, buf);
}

static void encode_stepped_strict(struct buf *buf)
{
    const struct strict_result results[2] = {
        {.replayed = true, .generation = 3, .first = 0x1122334455667788, .increment = 2},
        {.status = ERR_EXHAUSTED, .generation = 4, .detail = 5},
    };

    results_encode(RESULT_STRICT, results, 2, buf);
}

static int decode_strict_results(const void *data, size_t len)
{
    struct strict_result results[2];
    size_t count;

    return results_decode(RESULT_STRICT, data, len, results, 2, &count);
}

static int decode_cluster_command(const void *data, size_t len)
{
    struct cluster_command command;

    return cluster_command_read(data, len, &command);
}

static int decode_command(const void *data, size_t len)
{
    struct command command;

    return command_read(data, len, &command);
}

static int decode_query(const void *data, size_t len)
{
    struct query query;

    return query_decode(data, len, &query);
}

static int decode_grant_results(const void *data, size_t len)
{
    struct grant_result results[2];
    size_t count;

    return results_decode(RESULT_GRANTS, data, len, results, 2, &count);
}

static int decode_put_result(const void *data, size_t len)
{
    struct put_result result;
    int err = put_result_decode(data, len, &result);

    if (err == 0) {
    }
    return err;
}

static int decode_status(const void *data, size_t len)
{
    int32_t status;

    return status_result_decode(data, len, &status);
}

static int decode_rows(const void *data, size_t len)
{
    struct tag_rows rows;
    int err = tag_rows_decode(data, len, &rows);

    if (err == 0) {
        tag_rows_release(&rows);
    }
    return err;
}

/* A put without max, shape and key. */
#define PUT_REST "0000000000000000 0000 00 0000 "

static const struct golden GOLDEN[] = {
    {"noop", encode_noop, decode_cluster_command, "03 01 " ID_STAMP_EMPTY},
    {"grant", encode_grant, decode_command,
     "03 02 " ID_STAMP_EMPTY WALL "01 0500 6f72646572 e8030000 01 0100 61 00000000 00"},
    {"put", encode_put, decode_command,
     "03 03 " ID_STAMP_EMPTY "01 00 " WALL
     "01 0100 61 1f 6400000000000000 d0070000 40420f00 01 0200 6869 " PUT_REST
     "01 0200 6262 02 0000000000000000 0a000000 00000000 00 0000 " PUT_REST
     "01 0100 63 00 0000000000000000 00000000 00000000 00 0000 " PUT_REST "00"},
    {"put by a client", encode_put_by, decode_command,
     "03 18 " ID_STAMP_EMPTY "00 01 " WALL "4433221100000000 50c3000000000000"
     "01 0200 6262 02 0000000000000000 0a000000 00000000 00 0000 " PUT_REST "00"},
    {"bounded put", encode_bounded_put, decode_command,
     "03 03 " ID_STAMP_EMPTY "00 00 " WALL
     "01 0100 61 20 0000000000000000 00000000 00000000 00 0000 ffffffffffff1f00 0000 00 0000 00"},
    {"bounded put result", encode_bounded_put_result, decode_put_result,
     "01 82 00000000 00000000 00000000 01000000 0000000000000000 0000000000000000 0000 " ROW_HEAD
     "ffffffffffff1f00 0000"},
    {"bounded rows", encode_bounded_rows, decode_rows,
     "01 84 0000 02000000 " ROW ROW_HEAD "ffffffffffff1f00 0000"},
    {"shaped put", encode_shaped_put, decode_command,
     "03 03 " ID_STAMP_EMPTY "00 00 " WALL
     "01 0100 61 40 0000000000000000 00000000 00000000 00 0000 0000000000000000 " SHAPE_HEX
     "00 0000 00"},
    {"rekeyed put", encode_rekeyed_put, decode_command,
     "03 03 " ID_STAMP_EMPTY "00 00 " WALL
     "01 0100 61 80 0000000000000000 00000000 00000000 00 0000 0000000000000000 0000 02 2000 "
     "303132333435363738396162636465666768696a6b6c6d6e6f70717273747576 00"},
    {"shaped put result", encode_shaped_put_result, decode_put_result,
     "01 82 00000000 00000000 01000000 00000000 0000000000000000 0000000000000000 0000 " ROW_HEAD
     "0000000000010000 " SHAPE_HEX},
    {"shaped rows", encode_shaped_rows, decode_rows,
     "01 84 0000 02000000 " ROW ROW_HEAD "0000000000010000 " SHAPE_HEX},
    {"delete", encode_delete, decode_command, "03 04 " ID_STAMP_EMPTY WALL "0300 646566"},
    {"node", encode_node, decode_cluster_command,
     "03 05 " ID_STAMP_EMPTY
     "0700000000000000 efbeadde00000000 0600 613a38303830 0500 302e312e30 0600 613a37303831 "
     "0100 0200 0900000000000000"},
    {"digest", encode_digest, decode_cluster_command,
     "03 06 " ID_STAMP_EMPTY "0500000000000000 8877665544332211"},
    {"birth", encode_birth, decode_cluster_command,
     "03 0f " ID_STAMP_EMPTY "d041ec7dae4f1df8 f66b1ec9a00065a7 8877665544332211 " WALL},
    {"birth at a level", encode_birth_at, decode_cluster_command,
     "03 38 " ID_STAMP_EMPTY "d041ec7dae4f1df8 f66b1ec9a00065a7 8877665544332211 " WALL " 0300"},
    {"layout put", encode_layout_put, decode_command,
     "03 16 " ID_STAMP_EMPTY "0300 733130 0a00 00d8822e48010000 27 10 08 01 " WALL},
    {"layout delete", encode_layout_delete, decode_command,
     "03 17 " ID_STAMP_EMPTY WALL "0300 733130"},
    {"get", encode_get, decode_query, "01 41 0100 61"},
    {"list", encode_list, decode_query, "01 42 0300 707265 0600 707265666978 e8030000"},
    {"grant results", encode_grant_results, decode_grant_results,
     "01 81 02000000 00000000 e8030000 8877665544332211 03000000 f4010000 d0070000 "
     "fbffffff 00000000 0000000000000000 04000000 01000000 02000000"},
    {"put result", encode_put_result, decode_put_result,
     "01 82 00000000 00000000 02000000 03000000 0000000000000000 0000000000000000 0000 " ROW},
    {"put failure", encode_put_failure, decode_put_result,
     "01 82 fcffffff 02000000 00000000 00000000 0900000000000000 0800000000000000 0200 6e6f"},
    {"status", encode_status, decode_status, "01 83 fdffffff"},
    {"rows", encode_rows, decode_rows, "01 84 0100 61 02000000 " ROW ROW},
    {"stepped put", encode_stepped_put, decode_command,
     "03 19 " ID_STAMP_EMPTY "00 00 " WALL "1100000000000000 50c3000000000000"
     "01 0100 61 00 0000000000000000 00000000 00000000 00 0000 " PUT_REST "03 10000000 03000000 "
     "00000000 00 0000 "
     "00"},
    {"stepped put result", encode_stepped_put_result, decode_put_result,
     "01 8e 00000000 00000000 01000000 00000000 0000000000000000 0000000000000000 0000 " ROW
     "0000000000000000 10000000 03000000 00000000 00 0000"},
    {"stepped rows", encode_stepped_rows, decode_rows,
     "01 8b 0000 02000000 " ROW "0000000000000000 00000000 00000000 00000000 00 0000" ROW
     "0000000000000000 10000000 03000000 00000000 00 0000"},
    {"stepped grants", encode_stepped_grants, decode_grant_results,
     "01 8d 02000000 00000000 e8030000 8877665544332211 03000000 f4010000 d0070000 02000000 "
     "fbffffff 00000000 0000000000000000 04000000 01000000 02000000 00000000"},
    {"stepped strict", encode_stepped_strict, decode_strict_results,
     "01 8c 02000000 00000000 01 03000000 8877665544332211 02000000 "
     "fbffffff 00 04000000 0500000000000000 00000000"},
};
#define GOLDEN_COUNT (sizeof GOLDEN / sizeof GOLDEN[0])

static void test_golden_bytes(void **state)
{
    (void)state;
    golden_bytes(GOLDEN, GOLDEN_COUNT);
}

static void test_decoders_refuse_damage(void **state)
{
    (void)state;
    golden_refuse_damage(GOLDEN, GOLDEN_COUNT);
}

static void test_decoders_refuse_each_other(void **state)
{
    (void)state;
    golden_refuse_each_other(GOLDEN, GOLDEN_COUNT);
}

static void test_decoders_survive_any_bytes(void **state)
{
    (void)state;
    golden_survive_any_bytes(GOLDEN, GOLDEN_COUNT, 11);
}

static void test_command_type_by_head_alone(void **state)
{
    (void)state;
    for (uint8_t type = 0; type < UINT8_MAX; type++) {
        const uint8_t head[3] = {COMMAND_VERSION, type, 0xee};
        bool known = (type >= COMMAND_NOOP && type <= COMMAND_TAGS_PUT_STEPPED) ||
                     type == COMMAND_BIRTH_AT || type == COMMAND_PLACEMENT || type == COMMAND_CUT ||
                     (type >= COMMAND_WORKER_ACQUIRE_OF && type <= COMMAND_WORKER_RELEASE_OF);
        bool is_clusters = cluster_command_since(type) > 0;
        int since = type >= COMMAND_TAGS_PUT_STEPPED ? 3 : type == COMMAND_TAGS_PUT_BY ? 2 : 1;

        assert_int_equal(command_number(head, 3), type);
        assert_int_equal(command_type(head, 3), known && !is_clusters ? type : ERR_NEWER);
        /* Each number is of one half. */
        assert_int_equal(command_since(type) + cluster_command_since(type), known ? since : 0);
        assert_int_equal(command_type(head, 1), ERR_BAD_MESSAGE);
    }
    assert_int_equal(command_type("\x01\x01", 2), ERR_NEWER); /* another version */
    assert_int_equal(command_type(NULL, 0), ERR_BAD_MESSAGE);
}

static void test_grant_items_in_order(void **state)
{
    struct buf buf = BUF_INIT;
    struct command read;
    struct command_list command;
    struct grant_item item;

    (void)state;
    encode_grant(&buf);
    assert_int_equal(command_read(buf.data, buf.len, &read), 0);
    command = read.list;
    assert_true(command.wall_ms == WALL_MS);
    assert_int_equal(command.count, 2);
    assert_true(command_next(&command, &item));
    assert_int_equal(item.name_len, 5);
    assert_memory_equal(item.name, "order", 5);
    assert_int_equal(item.size, 1000);
    assert_true(command_next(&command, &item));
    assert_int_equal(item.name_len, 1);
    assert_int_equal(item.size, 0);
    assert_false(command_next(&command, &item));
    buf_free(&buf);
}

static int read_grants(unsigned count)
{
    struct buf buf = BUF_INIT;
    struct command read;
    int err;

    command_put(&buf, COMMAND_GRANT, &(struct command_list){.wall_ms = 0});
    for (unsigned i = 0; i < count; i++) {
        command_item_put(&buf, COMMAND_GRANT, &(struct grant_item){"a", 1, 0});
    }
    command_items_end(&buf);
    err = command_read(buf.data, buf.len, &read);
    buf_free(&buf);
    return err;
}

static void test_grant_limits(void **state)
{
    (void)state;
    assert_int_equal(read_grants(0), ERR_BAD_MESSAGE);
    assert_int_equal(read_grants(1), 0);
    assert_int_equal(read_grants(LIMIT_GRANTS_PER_ENTRY), 0);
    assert_int_equal(read_grants(LIMIT_GRANTS_PER_ENTRY + 1), ERR_BAD_MESSAGE);
}

static void test_put_items_in_order(void **state)
{
    struct buf buf = BUF_INIT;
    struct command read;
    struct command_list command;
    struct tag_put put;

    (void)state;
    encode_put(&buf);
    assert_int_equal(command_read(buf.data, buf.len, &read), 0);
    command = read.list;
    assert_true(command.force);
    assert_true(command.wall_ms == WALL_MS);
    assert_int_equal(command.count, 3);
    assert_true(command_next(&command, &put));
    assert_int_equal(put.fields, 0x1f);
    assert_int_equal(put.max_id, 100);
    assert_int_equal(put.step, 2000);
    assert_int_equal(put.max_step, 1000000);
    assert_int_equal(put.mode, TAG_MODE_STRICT);
    assert_int_equal(put.description_len, 2);
    assert_memory_equal(put.description, "hi", 2);
    assert_true(command_next(&command, &put));
    assert_int_equal(put.fields, TAG_FIELD_STEP);
    assert_int_equal(put.step, 10);
    assert_true(command_next(&command, &put));
    assert_int_equal(put.fields, 0);
    assert_false(command_next(&command, &put));
    buf_free(&buf);
}

static void test_put_refuses_unknown_bits(void **state)
{
    struct buf buf = BUF_INIT;

    (void)state;
    hex_put(&buf, "03 03 " ID_STAMP_EMPTY "02 00 " WALL
                  "01 0100 61 00 0000000000000000 00000000 00000000 00 0000 " PUT_REST "00");
    assert_int_equal(decode_command(buf.data, buf.len), ERR_BAD_MESSAGE);
    buf.data[SESSION_STAMP_AT + SESSION_STAMP_BYTES] = 0;
    assert_int_equal(decode_command(buf.data, buf.len), 0);
    buf.data[buf.len - 1] = 2; /* neither item nor end */
    assert_int_equal(decode_command(buf.data, buf.len), ERR_BAD_MESSAGE);
    buf_free(&buf);
}

static void test_query_list_limits(void **state)
{
    const uint32_t limits[] = {0, 1, LIMIT_TAGS_PER_PAGE, LIMIT_TAGS_PER_PAGE + 1};
    const int wanted[] = {ERR_BAD_MESSAGE, 0, 0, ERR_BAD_MESSAGE};

    (void)state;
    for (size_t i = 0; i < 4; i++) {
        struct buf buf = BUF_INIT;
        struct query query;

        query_list_encode(&buf, "", 0, "after", 5, limits[i]);
        assert_int_equal(query_decode(buf.data, buf.len, &query), wanted[i]);
        if (wanted[i] == 0) {
            assert_int_equal(query.type, QUERY_TAG_LIST);
            assert_int_equal(query.name_len, 0);
            assert_memory_equal(query.after, "after", query.after_len);
            assert_int_equal(query.limit, limits[i]);
        }
        buf_free(&buf);
    }
}

static void test_grant_results_bounds(void **state)
{
    struct grant_result results[2];
    struct buf buf = BUF_INIT;
    size_t count = 0;

    (void)state;
    encode_grant_results(&buf);
    assert_int_equal(results_decode(RESULT_GRANTS, buf.data, buf.len, results, 1, &count),
                     ERR_BAD_MESSAGE);
    assert_int_equal(results_decode(RESULT_GRANTS, buf.data, buf.len, results, 2, &count), 0);
    assert_int_equal(count, 2);
    assert_true(results[0].first == 0x1122334455667788);
    assert_int_equal(results[0].max_step, 2000);
    assert_int_equal(results[1].status, ERR_EXHAUSTED);
    assert_int_equal(results[1].generation, 4);
    buf.data[10] = 0; /* granted, but 0 ids */
    buf.data[11] = 0;
    assert_int_equal(results_decode(RESULT_GRANTS, buf.data, buf.len, results, 2, &count),
                     ERR_BAD_MESSAGE);
    buf_free(&buf);
}

static void test_put_result_round_trip(void **state)
{
    struct put_result back;
    struct buf buf = BUF_INIT;

    (void)state;
    encode_put_result(&buf);
    assert_int_equal(put_result_decode(buf.data, buf.len, &back), 0);
    assert_int_equal(back.made, 2);
    assert_int_equal(back.changed, 3);
    assert_memory_equal(back.first.name, "a", back.first.name_len);
    assert_memory_equal(back.first.description, "x", back.first.description_len);
    buf.len = 0;
    encode_put_failure(&buf);
    assert_int_equal(put_result_decode(buf.data, buf.len, &back), 0);
    assert_int_equal(back.status, ERR_WOULD_REPEAT);
    assert_int_equal(back.failed_at, 2);
    assert_int_equal(back.max_id, 9);
    assert_int_equal(back.asked, 8);
    assert_string_equal(back.why, "no");
    assert_null(back.first.name);
    buf_free(&buf);
}

static void encode_strict_results(struct buf *buf)
{
    results_encode(RESULT_STRICT, &(struct strict_result){.generation = 3, .first = 7}, 1, buf);
}

static void encode_statuses(struct buf *buf)
{
    results_encode(RESULT_STATUSES, &(int32_t){ERR_CONFLICT}, 1, buf);
}

static int decode_statuses(const void *data, size_t len)
{
    int32_t status;
    size_t count;

    return results_decode(RESULT_STATUSES, data, len, &status, 1, &count);
}

static void encode_refusal(struct buf *buf)
{
    session_refusal_encode(&(struct session_refusal){ERR_STALE, 5}, buf);
}

static int decode_refusal(const void *data, size_t len)
{
    struct session_refusal refusal;

    return session_refusal_decode(data, len, &refusal) ? 0 : ERR_BAD_MESSAGE;
}

static void encode_member_answer(struct buf *buf)
{
    member_answer_encode(&(struct member_answer){MEMBER_UNKNOWN, "no"}, buf);
}

static int decode_member_answer(const void *data, size_t len)
{
    struct member_answer answer;

    return member_answer_decode(data, len, &answer);
}

static void encode_worker_result(struct buf *buf)
{
    worker_result_encode(&(struct worker_result){.status = ERR_NOT_FOUND}, buf);
}

static int decode_worker_result(const void *data, size_t len)
{
    struct worker_result result;

    return worker_result_decode(data, len, &result);
}

static void encode_worker_rows(struct buf *buf)
{
    worker_rows_encode(NULL, 0, WALL_MS, buf);
}

static int decode_worker_rows(const void *data, size_t len)
{
    struct worker_rows rows;
    int err = worker_rows_decode(data, len, &rows);

    if (err == 0) {
        worker_rows_release(&rows);
    }
    return err;
}

/* The bytes of each result are read under its type, and under no other. */
static void test_results_by_type(void **state)
{
    static const struct {
        void (*encode)(struct buf *buf);
        int (*decode)(const void *data, size_t len);
        unsigned type;
        unsigned also; /* has no row, so the other form is the same; 0: none */
    } results[] = {
        {encode_grant_results, decode_grant_results, RESULT_GRANTS, 0},
        {encode_stepped_grants, decode_grant_results, RESULT_GRANTS_STEPPED, 0},
        {encode_strict_results, decode_strict_results, RESULT_STRICT, 0},
        {encode_stepped_strict, decode_strict_results, RESULT_STRICT_STEPPED, 0},
        {encode_statuses, decode_statuses, RESULT_STATUSES, 0},
        {encode_put_result, decode_put_result, RESULT_PUT, 0},
        {encode_put_failure, decode_put_result, RESULT_PUT, RESULT_PUT_STEPPED},
        {encode_stepped_put_result, decode_put_result, RESULT_PUT_STEPPED, 0},
        {encode_rows, decode_rows, RESULT_ROWS, 0},
        {encode_stepped_rows, decode_rows, RESULT_ROWS_STEPPED, 0},
        {encode_status, decode_status, RESULT_STATUS, 0},
        {encode_refusal, decode_refusal, RESULT_REFUSED, 0},
        {encode_member_answer, decode_member_answer, RESULT_MEMBER, 0},
        {encode_worker_result, decode_worker_result, 0x85, 0},
        {encode_worker_rows, decode_worker_rows, 0x86, 0},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(results); i++) {
        struct buf buf = BUF_INIT;

        results[i].encode(&buf);
        assert_int_equal(buf.data[1], results[i].type);
        for (unsigned type = 0; type <= UINT8_MAX; type++) {
            bool is_own = type == results[i].type || (type != 0 && type == results[i].also);

            buf.data[1] = (uint8_t)type;
            assert_int_equal(results[i].decode(buf.data, buf.len), is_own ? 0 : ERR_BAD_MESSAGE);
        }
        buf_free(&buf);
    }
}

static void test_rows_round_trip(void **state)
{
    struct tag_rows back;
    struct buf buf = BUF_INIT;

    (void)state;
    encode_rows(&buf);
    assert_int_equal(tag_rows_decode(buf.data, buf.len, &back), 0);
    assert_int_equal(back.next_len, 1);
    assert_memory_equal(back.next, "a", 1);
    assert_int_equal(back.count, 2);
    assert_memory_equal(back.rows[1].name, "a", back.rows[1].name_len);
    assert_int_equal(back.rows[1].max_id, 5);
    tag_rows_release(&back);
    buf.len = 0;
    tag_rows_encode(NULL, 0, NULL, &buf);
    assert_int_equal(tag_rows_decode(buf.data, buf.len, &back), 0);
    assert_int_equal(back.next_len, 0);
    assert_int_equal(back.count, 0);
    tag_rows_release(&back);
    buf_free(&buf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden_bytes),
        cmocka_unit_test(test_decoders_refuse_damage),
        cmocka_unit_test(test_decoders_refuse_each_other),
        cmocka_unit_test(test_decoders_survive_any_bytes),
        cmocka_unit_test(test_command_type_by_head_alone),
        cmocka_unit_test(test_grant_items_in_order),
        cmocka_unit_test(test_grant_limits),
        cmocka_unit_test(test_put_items_in_order),
        cmocka_unit_test(test_put_refuses_unknown_bits),
        cmocka_unit_test(test_query_list_limits),
        cmocka_unit_test(test_grant_results_bounds),
        cmocka_unit_test(test_put_result_round_trip),
        cmocka_unit_test(test_rows_round_trip),
        cmocka_unit_test(test_results_by_type),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
