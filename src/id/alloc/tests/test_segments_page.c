/*
 * test_segments_page.c - the bytes of a page of buffers: golden, back again, and all that cannot be
 * shown is refused.
 *
 * Thread: one.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/tests/unit/test.h"
#include "src/id/alloc/id_table.h"

static struct id_segment_info info_of(const char *name)
{
    struct id_segment_info info = {.state = ID_TAG_STRICT,
                                   .slots = {{0x0102, 0x0110, 0x20, 0}, {0x0200, 0x0240, 0x40, 0}},
                                   .step = 0x30,
                                   .refill_in_flight = true,
                                   .last_refill_ago_ms = 7,
                                   .rate_per_s = 9};

    info.name_len = (uint16_t)strlen(name);
    memcpy(info.name, name, info.name_len);
    return info;
}

static void put(struct buf *buf, const struct id_segment_info *items, size_t count, bool more)
{
    const struct id_segments_page page = {(struct id_segment_info *)items, count, more};

    buf->len = 0;
    segments_page_put(buf, &page);
}

static void expect_refused(const void *data, size_t len)
{
    struct id_segments_page page;
    /* Of that very length: a sanitizer sees one byte too many. */
    void *copy = malloc(len + (len == 0));

    memcpy(copy, data, len);
    assert_int_equal(segments_page_read(copy, len, &page), ERR_BAD_MESSAGE);
    assert_null(page.items);
    assert_int_equal(page.count, 0);
    free(copy);
}

static void test_bytes(void **state)
{
    static const uint8_t golden[] = {
        1,    1, 0,   0, 0,          /* more, one */
        1,    0, 'a', 3, 0, 0, 0,    /* name, state */
        2,    1, 0,   0, 0, 0, 0, 0, /* the current slot */
        0x10, 1, 0,   0, 0, 0, 0, 0, 0x20, 0, 0, 0, 0,    2, 0, 0, 0, 0, 0, 0, /* and the next */
        0x40, 2, 0,   0, 0, 0, 0, 0, 0x40, 0, 0, 0, 0x30, 0, 0, 0, 1, /* step, a refill under way */
        7,    0, 0,   0, 0, 0, 0, 0,                                  /* the last one */
        9,    0, 0,   0, 0, 0, 0, 0};                                 /* rate */
    const struct id_segment_info info = info_of("a");
    struct id_segments_page page;
    struct buf buf = BUF_INIT;

    (void)state;
    put(&buf, &info, 1, true);
    assert_int_equal(buf.len, sizeof golden);
    assert_memory_equal(buf.data, golden, sizeof golden);
    assert_int_equal(segments_page_read(buf.data, buf.len, &page), 0);
    assert_true(page.more);
    assert_int_equal(page.count, 1);
    assert_string_equal(page.items[0].name, "a");
    assert_int_equal(page.items[0].slots[1].end, 0x0240);
    assert_int_equal(page.items[0].rate_per_s, 9);
    free(page.items);
    for (size_t len = 0; len < buf.len; len++) {
        expect_refused(buf.data, len);
    }
    buf_put_u8(&buf, 0);
    expect_refused(buf.data, buf.len);
    put(&buf, NULL, 0, false);
    assert_int_equal(segments_page_read(buf.data, buf.len, &page), 0);
    assert_int_equal(page.count, 0);
    free(page.items);
    buf_free(&buf);
}

static void refuse_one(struct id_segment_info info)
{
    struct buf buf = BUF_INIT;

    put(&buf, &info, 1, false);
    expect_refused(buf.data, buf.len);
    buf_free(&buf);
}

static void test_what_cannot_be_shown(void **state)
{
    struct id_segment_info info = info_of("");

    (void)state;
    refuse_one(info); /* no name */
    info = info_of("a\nb");
    refuse_one(info);
    info = info_of("a");
    info.state = ID_TAG_PAUSED + 1;
    refuse_one(info);
    info = info_of("a");
    info.slots[0].next_id = info.slots[0].end + 1;
    refuse_one(info);
    info = info_of("a");
    info.slots[1].size = 0x3f; /* more left than there were */
    refuse_one(info);
}

static void test_names_rise(void **state)
{
    struct id_segment_info same[] = {info_of("a"), info_of("a")};
    struct id_segment_info fall[] = {info_of("b"), info_of("a")};
    struct buf buf = BUF_INIT;

    (void)state;
    put(&buf, same, 2, false);
    expect_refused(buf.data, buf.len);
    put(&buf, fall, 2, false);
    expect_refused(buf.data, buf.len);
    buf_free(&buf);
}

/* At the bound, and one beyond it. */
static void test_count(void **state)
{
    struct id_segment_info *items = calloc(LIMIT_TAGS_PER_PAGE, sizeof *items);
    struct id_segments_page page;
    struct buf buf = BUF_INIT;
    char name[16];

    (void)state;
    for (unsigned i = 0; i < LIMIT_TAGS_PER_PAGE; i++) {
        (void)snprintf(name, sizeof name, "%06u", i);
        items[i] = info_of(name);
    }
    put(&buf, items, LIMIT_TAGS_PER_PAGE, false);
    assert_int_equal(segments_page_read(buf.data, buf.len, &page), 0);
    assert_int_equal(page.count, LIMIT_TAGS_PER_PAGE);
    free(page.items);
    buf_put(&buf, buf.data + 5 + 72, 72); /* of a name of six bytes */
    buf.data[1]++;
    expect_refused(buf.data, buf.len);
    buf_free(&buf);
    free(items);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_what_cannot_be_shown),
        cmocka_unit_test(test_names_rise),
        cmocka_unit_test(test_count),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
