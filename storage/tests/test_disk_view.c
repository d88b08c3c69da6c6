/*
 * test_disk_view.c - a view of the store's rows: each transition from closed over reading and open
 * to closed, reads that come back after a drop, and the end of the owner.
 *
 * The disk holds each operation until the test carries it out on a store in memory. That store
 * counts the views that are open, and can refuse to open one or to read.
 */
#include <string.h>

#include "src/tests/unit/test.h"
#include "src/base/assert.h"
#include "storage/disk.h"
#include "storage/tests/store_gen.h"
#include "storage/tests/store_mem.h"

#define ALL_BYTES (1 << 20)
#define APPLIED 5

struct view_stage {
    struct store store;
    struct store *inner;
    struct disk disk;
    struct store_op *held; /* NULL: nothing was submitted */
    unsigned submits;
    int views;       /* open in the store */
    int open_err;    /* of the next views */
    int read_err;    /* of the next reads */
    unsigned wakes;  /* calls of came() */
    struct buf rows; /* of the store, as one read of all returns them */
    struct gen gen;
    struct disk_view view;
};

static int view_stage_open(struct store *store, struct store_snapshot **ret_snapshot,
                           struct store_position *ret_position)
{
    struct view_stage *stage = CONTAINER(store, struct view_stage, store);

    if (stage->open_err != 0) {
        return stage->open_err;
    }
    stage->views++;
    return stage->inner->ops->snapshot_open(stage->inner, ret_snapshot, ret_position);
}

static int view_stage_read(struct store *store, struct store_snapshot *snapshot, size_t max_bytes,
                           struct buf *chunk, bool *ret_end)
{
    struct view_stage *stage = CONTAINER(store, struct view_stage, store);

    return stage->read_err != 0 ? stage->read_err
                                : stage->inner->ops->snapshot_read(stage->inner, snapshot,
                                                                   max_bytes, chunk, ret_end);
}

static void view_stage_close(struct store *store, struct store_snapshot *snapshot)
{
    struct view_stage *stage = CONTAINER(store, struct view_stage, store);

    assert_true(stage->views > 0);
    stage->views--;
    stage->inner->ops->snapshot_close(stage->inner, snapshot);
}

static void view_stage_submit(struct disk *disk, struct store_op *op)
{
    struct view_stage *stage = CONTAINER(disk, struct view_stage, disk);

    assert_null(stage->held); /* one read at a time */
    stage->held = op;
    stage->submits++;
}

static void view_came_cb(void *data)
{
    ((struct view_stage *)data)->wakes++;
}

/* The disk carries out what it holds. */
static void view_stage_run(struct view_stage *stage)
{
    struct store_op *op = stage->held;
    struct disk_read *read = disk_read_of(op);

    assert_non_null(op);
    stage->held = NULL;
    disk_read_run(read, &stage->store, read->max_bytes);
    op->done(op);
}

static int view_stage_begin(void **state)
{
    static const struct store_identity identity = {.cluster_id = "v", .node_id = 1};
    static const struct store_ops ops = {.snapshot_open = view_stage_open,
                                         .snapshot_read = view_stage_read,
                                         .snapshot_close = view_stage_close};
    static const struct disk_ops disk_ops = {.submit = view_stage_submit};
    static struct view_stage stage;
    struct store_error error;
    struct store_position position;

    memset(&stage, 0, sizeof stage);
    stage.store.ops = &ops;
    stage.disk.ops = &disk_ops;
    stage.view = (struct disk_view){.disk = &stage.disk, .came = view_came_cb, .data = &stage};
    stage.inner = store_mem_new(&identity);
    gen_init(&stage.gen, 1);
    assert_int_equal(gen_commit(stage.inner, gen_hard_state(&stage.gen, 1, 0), &error), 0);
    assert_int_equal(gen_commit(stage.inner, gen_append(&stage.gen, 1, 9), &error), 0);
    assert_int_equal(gen_commit(stage.inner, gen_apply(&stage.gen, APPLIED, 8), &error), 0);
    assert_int_equal(gen_snapshot(stage.inner, ALL_BYTES, &stage.rows, &position), 0);
    store_position_release(&position);
    assert_true(stage.rows.len > 0);
    *state = &stage;
    return 0;
}

/* Every test ends with no view open in the store, and nothing held by the disk. */
static int view_stage_end(void **state)
{
    struct view_stage *stage = *state;

    assert_int_equal(stage->views, 0);
    assert_null(stage->held);
    buf_free(&stage->rows);
    gen_release(&stage->gen);
    store_mem_free(stage->inner);
    return 0;
}

/* Closed, and nothing is owed to the disk: it may be opened anew. */
static void assert_closed(struct view_stage *stage)
{
    assert_true(disk_view_is_closed(&stage->view));
    assert_false(disk_view_take(&stage->view));
    assert_null(stage->view.read.chunk.data);
    assert_null(stage->view.read.position.conf);
    assert_int_equal(stage->views, 0);
}

/* A read of max_bytes that comes back and is taken. */
static void view_stage_take(struct view_stage *stage, size_t max_bytes)
{
    disk_view_read(&stage->view, max_bytes);
    view_stage_run(stage);
    assert_true(disk_view_take(&stage->view));
}

/* Drop the view while no read is under way, and take the close. */
static void view_stage_drop(struct view_stage *stage)
{
    disk_view_drop(&stage->view);
    assert_false(disk_view_is_closed(&stage->view));
    view_stage_run(stage);
    assert_false(disk_view_take(&stage->view));
    assert_closed(stage);
}

/* Chunks give the rows of the state at one index, though the store goes on meanwhile. */
static void test_disk_view_reads_a_fixed_state(void **state)
{
    struct view_stage *stage = *state;
    struct disk_view *view = &stage->view;
    struct store_error error;
    BUF_LOCAL(rows);
    unsigned reads = 0;

    assert_true(disk_view_is_closed(view));
    do {
        view_stage_take(stage, 1);
        reads++;
        assert_int_equal(view->read.status, 0);
        assert_int_equal(view->index, APPLIED);
        assert_int_equal(view->first, reads == 1);
        assert_int_equal(view->read.position.index, reads == 1 ? APPLIED : 0);
        assert_int_equal(stage->wakes, reads);
        assert_int_equal(stage->views, 1);
        assert_false(disk_view_is_closed(view));
        buf_put(&rows, view->read.chunk.data, view->read.chunk.len);
        if (reads == 1) {
            assert_int_equal(gen_commit(stage->inner, gen_apply(&stage->gen, 9, 8), &error), 0);
        }
    } while (!view->read.end);
    assert_true(reads > 2);
    assert_int_equal(rows.len, stage->rows.len);
    assert_memory_equal(rows.data, stage->rows.data, rows.len);
    view_stage_drop(stage);
}

/* A read is taken once, and not before it has come back; came() may be absent. */
static void test_disk_view_takes_a_read_once(void **state)
{
    struct view_stage *stage = *state;
    struct disk_view *view = &stage->view;

    view->came = NULL;
    assert_false(disk_view_take(view));
    disk_view_read(view, ALL_BYTES);
    assert_false(disk_view_is_closed(view));
    assert_false(disk_view_take(view));
    view_stage_run(stage);
    assert_int_equal(stage->wakes, 0);
    assert_false(disk_view_is_closed(view));
    assert_true(disk_view_take(view));
    assert_true(view->read.end);
    assert_false(disk_view_take(view));
    assert_int_equal(view->read.chunk.len, stage->rows.len);
    view_stage_drop(stage);
}

/* A view that was closed opens anew, with the state of then. */
static void test_disk_view_opens_anew(void **state)
{
    struct view_stage *stage = *state;
    struct store_error error;

    view_stage_take(stage, ALL_BYTES);
    view_stage_drop(stage);
    assert_int_equal(gen_commit(stage->inner, gen_apply(&stage->gen, 9, 8), &error), 0);
    view_stage_take(stage, ALL_BYTES);
    assert_true(stage->view.first);
    assert_int_equal(stage->view.index, 9);
    view_stage_drop(stage);
}

/* A drop of what is closed submits nothing; a second one no second close. */
static void test_disk_view_drop_is_idempotent(void **state)
{
    struct view_stage *stage = *state;

    disk_view_drop(&stage->view);
    assert_int_equal(stage->submits, 0);
    assert_closed(stage);
    view_stage_take(stage, ALL_BYTES);
    disk_view_drop(&stage->view);
    disk_view_drop(&stage->view); /* while it is being closed, */
    view_stage_run(stage);
    disk_view_drop(&stage->view); /* and once it is, but was not taken */
    assert_false(disk_view_take(&stage->view));
    assert_int_equal(stage->submits, 2);
    assert_closed(stage);
}

/* Dropped during a read, the first or a later one: its results are never seen, and the view is
 * closed once the read was taken. */
static void test_disk_view_read_comes_back_after_a_drop(void **state)
{
    struct view_stage *stage = *state;
    struct disk_view *view = &stage->view;

    for (unsigned later = 0; later <= 1; later++) {
        for (unsigned back = 0; back <= 1; back++) { /* was it back when the view was dropped? */
            if (later > 0) {
                view_stage_take(stage, 1);
            }
            disk_view_read(view, 1);
            if (back > 0) {
                view_stage_run(stage);
            }
            disk_view_drop(view);
            if (back == 0) {
                assert_false(disk_view_take(view));
                view_stage_run(stage);
            }
            assert_false(disk_view_is_closed(view));
            assert_int_equal(stage->views, 1);
            assert_false(disk_view_take(view)); /* it submits the close */
            assert_false(disk_view_is_closed(view));
            assert_null(view->read.chunk.data);
            view_stage_run(stage);
            assert_false(disk_view_take(view));
            assert_closed(stage);
        }
    }
}

/* No view could be opened: the error is seen, nothing is open, and a drop has nothing to close. */
static void test_disk_view_reports_that_it_cannot_be_opened(void **state)
{
    struct view_stage *stage = *state;
    struct disk_view *view = &stage->view;

    for (unsigned dropped = 0; dropped <= 1; dropped++) {
        stage->open_err = ERR_NOMEM;
        disk_view_read(view, ALL_BYTES);
        if (dropped > 0) {
            disk_view_drop(view);
        }
        view_stage_run(stage);
        assert_int_equal(disk_view_take(view), dropped == 0);
        assert_int_equal(view->read.status, dropped == 0 ? ERR_NOMEM : 0);
        disk_view_drop(view);
        assert_null(stage->held);
        assert_closed(stage);
        stage->open_err = 0;
        view_stage_take(stage, ALL_BYTES);
        assert_int_equal(view->index, APPLIED);
        view_stage_drop(stage);
    }
}

/* The first read opens the view, and fails to read (the store ended the view): it stays open until
 * it is dropped. So does one whose later read fails. */
static void test_disk_view_stays_open_after_a_failed_read(void **state)
{
    struct view_stage *stage = *state;

    for (unsigned later = 0; later <= 1; later++) {
        if (later > 0) {
            view_stage_take(stage, 1);
        }
        stage->read_err = ERR_DISK_FULL;
        view_stage_take(stage, 1);
        assert_int_equal(stage->view.read.status, ERR_DISK_FULL);
        assert_int_equal(stage->view.index, APPLIED);
        assert_int_equal(stage->views, 1);
        view_stage_drop(stage);
        stage->read_err = 0;
    }
}

/* The owner ends: what was read is freed at once, or once the read under way is back; nobody is
 * woken, and nothing is submitted any more. The store closes the view. */
static void test_disk_view_abandoned_frees_what_it_read(void **state)
{
    struct view_stage *stage = *state;
    struct disk_view *view = &stage->view;
    const struct disk_view unused = *view;

    for (unsigned at = 0; at < 4; at++) {
        struct store_snapshot *open;
        unsigned wakes;

        *view = unused;
        view_stage_take(stage, 1);
        open = view->snapshot;
        if (at > 0) {
            disk_view_read(view, 1); /* 1: under way, 2: back, 3: dropped and under way */
        }
        if (at == 2) {
            view_stage_run(stage);
        }
        if (at == 3) {
            disk_view_drop(view);
        }
        wakes = stage->wakes;
        disk_view_abandon(view);
        if (at == 1 || at == 3) {
            assert_true(view->reading); /* the disk still writes to it */
            view_stage_run(stage);
        }
        assert_false(view->reading);
        assert_null(view->read.chunk.data);
        assert_null(view->read.position.conf);
        assert_int_equal(stage->wakes, wakes);
        assert_null(stage->held);
        assert_int_equal(stage->views, 1);
        view_stage_close(&stage->store, open);
    }
}

/* Abandoned while closed, or while its close is under way: nothing is open afterwards. */
static void test_disk_view_abandoned_while_closing(void **state)
{
    struct view_stage *stage = *state;

    disk_view_abandon(&stage->view);
    assert_closed(stage);
    stage->view.abandoned = false;
    view_stage_take(stage, ALL_BYTES);
    disk_view_drop(&stage->view);
    disk_view_abandon(&stage->view);
    view_stage_run(stage);
    assert_int_equal(stage->views, 0);
    assert_false(stage->view.reading);
}

int main(void)
{
#define VIEW_TEST(name) cmocka_unit_test_setup_teardown(name, view_stage_begin, view_stage_end)
    const struct CMUnitTest tests[] = {
        VIEW_TEST(test_disk_view_reads_a_fixed_state),
        VIEW_TEST(test_disk_view_takes_a_read_once),
        VIEW_TEST(test_disk_view_opens_anew),
        VIEW_TEST(test_disk_view_drop_is_idempotent),
        VIEW_TEST(test_disk_view_read_comes_back_after_a_drop),
        VIEW_TEST(test_disk_view_reports_that_it_cannot_be_opened),
        VIEW_TEST(test_disk_view_stays_open_after_a_failed_read),
        VIEW_TEST(test_disk_view_abandoned_frees_what_it_read),
        VIEW_TEST(test_disk_view_abandoned_while_closing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
