/*
 * test_backups.c - a backup on a ring of replicas: what it has, how it goes on part by part, and
 * what becomes of it when its client, the leader, or time goes.
 *
 * Thread: one.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "src/tests/unit/test.h"
#include "raft/cluster/tests/requests_scene.h"
#include "src/state/journal.h"

#define PATIENCE_MS 3000
#define CHUNK_BYTES 64

/* A client of a backup. */
struct taker {
    struct asked asked;
    struct id_backup what;
    struct buf file;
    unsigned parts;
};

static void on_done(struct cluster_request *request)
{
    ((struct asked *)request)->done++; /* its first member */
}

static void ask_part(struct ring *ring, uint64_t id, struct taker *taker)
{
    memset(&taker->asked, 0, sizeof taker->asked);
    taker->asked.base.kind = ID_REQUEST_BACKUP;
    taker->asked.base.out = &taker->what;
    taker->asked.base.done = on_done;
    ask(ring, id, &taker->asked, PATIENCE_MS);
}

/* The answer that has come. */
static int take_part(struct taker *taker)
{
    struct cluster_request *request = &taker->asked.base;
    int status = request->status;

    assert_int_equal(taker->asked.done, 1);
    if (status == 0) {
        buf_put(&taker->file, request->reply.data, request->reply.len);
        taker->parts++;
    }
    asked_free(&taker->asked);
    return status;
}

static int next_part(struct ring *ring, uint64_t id, struct taker *taker)
{
    ask_part(ring, id, taker);
    ring_run_ms(ring, 2 * RING_HEARTBEAT_MS);
    return take_part(taker);
}

/* From where it stands to its end. */
static void take_rest(struct ring *ring, uint64_t id, struct taker *taker)
{
    while (!taker->what.end) {
        assert_int_equal(next_part(ring, id, taker), 0);
    }
}

static void expect_whole(const struct taker *taker, uint64_t node_id, struct backup_head *ret_head)
{
    struct backup_error error = {""};
    struct backup_totals totals;

    if (backup_verify(taker->file.data, taker->file.len, ret_head, &totals, &error) != 0) {
        print_error("%s\n", error.text);
        fail();
    }
    assert_int_equal(ret_head->node_id, node_id);
    assert_string_equal(ret_head->cluster_id, "ring");
}

static bool has_tag(const struct taker *taker, const char *name)
{
    struct backup_reader reader;
    struct backup_block block;
    struct backup_row row;
    bool found = false;

    backup_reader_init(&reader, taker->file.data, taker->file.len);
    while (backup_next(&reader, &block)) {
        while (block.kind == BACKUP_ROWS && backup_row_next(&block.payload, &row)) {
            found = found || (row.key[0] == FSM_TABLE_TAGS && row.key_len == 1 + strlen(name) &&
                              memcmp(row.key + 1, name, strlen(name)) == 0);
        }
    }
    return found;
}

/* So long was the growth of all tags watched. */
static void expect_spans(const struct taker *taker, uint64_t ms)
{
    struct backup_reader reader;
    struct backup_block block;
    unsigned count = 0;

    backup_reader_init(&reader, taker->file.data, taker->file.len);
    while (backup_next(&reader, &block)) {
        if (block.kind == BACKUP_GROWTH) {
            assert_int_equal(block.growth.until_ms - block.growth.since_ms, ms);
            count++;
        }
    }
    assert_true(count > 0);
}

static void taker_free(struct taker *taker)
{
    buf_free(&taker->file);
}

static void make_tags(struct ring *ring, uint64_t leader)
{
    char name[8];

    for (uint64_t id = 1; id <= ring->count; id++) {
        ring_node(ring, id)->disk.chunk_bytes = CHUNK_BYTES;
    }
    for (unsigned i = 0; i < 10; i++) {
        (void)snprintf(name, sizeof name, "tag-%u", i);
        ring_make(ring, leader, name, 10);
    }
}

static int setup(void **state)
{
    struct trio *t;

    (void)scene_setup(state);
    t = *state;
    make_tags(&t->ring, t->leader);
    return 0;
}

static const struct id_backup_figures *figures_of(struct ring *ring, uint64_t id)
{
    return &ring_node(ring, id)->ids.backups.figures;
}

static void expect_figures(struct ring *ring, uint64_t id, uint64_t taken, uint64_t failed)
{
    assert_int_equal(figures_of(ring, id)->taken, taken);
    assert_int_equal(figures_of(ring, id)->failed, failed);
}

/* Shows backup-all. */
static void test_a_follower_gives_what_was_acknowledged_before(void **state)
{
    RING ring = {.rows_hold_ms = 60000};
    struct taker taker = {0};
    struct backup_head head;
    uint64_t leader;
    uint64_t follower;
    uint64_t now_ms;

    (void)state;
    scene_start(&ring, &leader, &follower);
    make_tags(&ring, leader);
    ring_make(&ring, leader, "last", 10); /* in no row on the follower's disk yet */
    take_rest(&ring, follower, &taker);
    expect_whole(&taker, follower, &head);
    assert_true(taker.parts > 5);
    assert_true(has_tag(&taker, "tag-0") && has_tag(&taker, "last"));
    assert_int_equal(ring_node(&ring, follower)->ids.backups.state, BACKUPS_NONE);
    expect_figures(&ring, follower, 1, 0);
    assert_int_equal(figures_of(&ring, follower)->last_bytes, taker.file.len);
    now_ms = clock_wall_ms(&ring_node(&ring, follower)->clock);
    assert_in_range(figures_of(&ring, follower)->last_ms, now_ms - 2 * RING_HEARTBEAT_MS, now_ms);
    taker_free(&taker);
}

/* A follower that has not heard yet that something was committed does not leave it out. */
static void test_it_waits_until_the_node_has_caught_up(void **state)
{
    struct trio *t = *state;
    struct taker taker = {0};
    struct backup_head head;

    ring_make(&t->ring, t->leader, "last", 10);
    t->ring.lost[FRAME_RAFT] = true;
    ask_part(&t->ring, t->follower, &taker);
    ring_settle(&t->ring);
    assert_int_equal(ring_node(&t->ring, t->follower)->ids.backups.state, BACKUPS_CATCHING_UP);
    assert_int_equal(taker.asked.done, 0);
    t->ring.lost[FRAME_RAFT] = false;
    ring_run_ms(&t->ring, 2 * RING_HEARTBEAT_MS);
    assert_int_equal(take_part(&taker), 0);
    take_rest(&t->ring, t->follower, &taker);
    expect_whole(&taker, t->follower, &head);
    assert_true(has_tag(&taker, "last"));
    taker_free(&taker);
}

/* It never hears: an error, not an older state. */
static void test_a_node_that_does_not_catch_up_in_time(void **state)
{
    struct trio *t = *state;
    struct taker taker = {0};

    ring_make(&t->ring, t->leader, "last", 10);
    t->ring.lost[FRAME_RAFT] = true;
    ask_part(&t->ring, t->follower, &taker);
    ring_run_ms(&t->ring, PATIENCE_MS + 10);
    assert_int_equal(take_part(&taker), ERR_TIMEOUT);
    assert_int_equal(ring_node(&t->ring, t->follower)->ids.backups.state, BACKUPS_NONE);
    taker_free(&taker);
}

/* Shows backup-one. */
static void test_one_fixed_state_while_the_cluster_goes_on(void **state)
{
    struct trio *t = *state;
    struct taker taker = {0};
    struct backup_head head;

    assert_int_equal(next_part(&t->ring, t->leader, &taker), 0);
    ring_make(&t->ring, t->follower, "later", 10);
    ring_make(&t->ring, t->follower, "tag-5", 77);
    take_rest(&t->ring, t->leader, &taker);
    expect_whole(&taker, t->leader, &head);
    assert_false(has_tag(&taker, "later"));
    taker_free(&taker);
}

static void test_one_at_a_time(void **state)
{
    struct trio *t = *state;
    struct taker first = {0};
    struct taker second = {0};
    struct taker foreign = {.what = {.number = 4711}};

    assert_int_equal(next_part(&t->ring, t->leader, &first), 0);
    assert_int_equal(next_part(&t->ring, t->leader, &second), ERR_OVERLOADED);
    assert_int_equal(next_part(&t->ring, t->leader, &foreign), ERR_NOT_FOUND);
    first.what.close = true;
    assert_int_equal(next_part(&t->ring, t->leader, &first), 0);
    first.what.close = false;
    assert_int_equal(next_part(&t->ring, t->leader, &first), ERR_NOT_FOUND); /* it is over */
    expect_figures(&t->ring, t->leader, 0, 1);                               /* a refusal is none */
    take_rest(&t->ring, t->leader, &second);
    expect_figures(&t->ring, t->leader, 1, 1);
    taker_free(&first);
    taker_free(&second);
}

static void test_one_that_nobody_asks_for_is_given_up(void **state)
{
    struct trio *t = *state;
    struct taker first = {0};
    struct taker second = {0};

    assert_int_equal(next_part(&t->ring, t->leader, &first), 0);
    ring_run_ms(&t->ring, LIMIT_BACKUP_IDLE_MS - 200);
    assert_int_equal(next_part(&t->ring, t->leader, &second), ERR_OVERLOADED);
    ring_run_ms(&t->ring, 400);
    assert_int_equal(next_part(&t->ring, t->leader, &first), ERR_NOT_FOUND);
    take_rest(&t->ring, t->leader, &second);
    expect_figures(&t->ring, t->leader, 1, 1);
    taker_free(&first);
    taker_free(&second);
}

/* Time that a part takes to be read is not its client's. */
static void test_a_part_that_is_read_slowly(void **state)
{
    struct trio *t = *state;
    struct taker taker = {0};

    assert_int_equal(next_part(&t->ring, t->follower, &taker), 0);
    ring_node(&t->ring, t->follower)->disk_held = true;
    ask_part(&t->ring, t->follower, &taker);
    ring_run_ms(&t->ring, LIMIT_BACKUP_IDLE_MS + 100);
    assert_int_equal(taker.asked.done, 0);
    ring_node(&t->ring, t->follower)->disk_held = false;
    ring_settle(&t->ring);
    assert_int_equal(take_part(&taker), 0);
    take_rest(&t->ring, t->follower, &taker);
    expect_figures(&t->ring, t->follower, 1, 0);
    taker_free(&taker);
}

/* Without the log's time tags grow by the node's clock, which may be set back. */
static void test_a_clock_that_is_set_back(void **state)
{
    struct trio *t = *state;
    struct taker taker = {0};
    struct backup_head head;

    ring_node(&t->ring, t->leader)->wall_ahead_ms = -10000;
    take_rest(&t->ring, t->leader, &taker);
    expect_whole(&taker, t->leader, &head);
    expect_spans(&taker, 0);
    taker_free(&taker);
}

static void test_one_that_takes_too_long_is_cut_off(void **state)
{
    struct trio *t = *state;
    struct taker taker = {0};
    int status = 0;

    for (unsigned i = 0; i < 20; i++) {
        char name[12];

        (void)snprintf(name, sizeof name, "more-%u", i);
        ring_make(&t->ring, t->leader, name, 10);
    }
    ring_node(&t->ring, t->leader)->disk.chunk_bytes = 1;
    for (uint64_t ms = 0; status == 0 && !taker.what.end; ms += 29000) {
        status = next_part(&t->ring, t->leader, &taker);
        ring_run_ms(&t->ring, 29000);
        assert_true(ms < 2 * LIMIT_BACKUP_MS);
    }
    assert_int_equal(status, ERR_TIMEOUT);
    assert_int_equal(ring_node(&t->ring, t->leader)->ids.backups.state, BACKUPS_NONE);
    expect_figures(&t->ring, t->leader, 0, 1);
    taker_free(&taker);
}

static void test_without_a_majority_only_a_local_one(void **state)
{
    struct trio *t = *state;
    struct taker taker = {0};
    struct backup_head head;

    ring_isolate(&t->ring, t->follower, true);
    ring_run_ms(&t->ring, 4 * RING_ELECTION_MS);
    ask_part(&t->ring, t->follower, &taker);
    ring_run_ms(&t->ring, PATIENCE_MS + 10);
    assert_int_equal(take_part(&taker), ERR_NO_LEADER);
    taker.what.local = true;
    take_rest(&t->ring, t->follower, &taker);
    expect_whole(&taker, t->follower, &head);
    assert_true(head.local);
    taker_free(&taker);
}

static void test_a_row_that_cannot_be_read_ends_it(void **state)
{
    struct trio *t = *state;
    struct taker taker = {0};

    ring_node(&t->ring, t->leader)->disk.read_status = ERR_CORRUPT;
    assert_int_equal(next_part(&t->ring, t->leader, &taker), ERR_CORRUPT);
    ring_node(&t->ring, t->leader)->disk.read_status = 0;
    take_rest(&t->ring, t->leader, &taker);
    taker_free(&taker);
}

/* Its view keeps the database from using pages again, and changes need them: while nobody asks for
 * more, and when a part is asked for before a turn has seen it. */
static void test_it_is_given_up_when_the_store_ends_its_view(void **state)
{
    struct trio *t = *state;
    struct taker taker = {0};
    struct taker late = {0};
    struct backups *backups;

    backups = &ring_node(&t->ring, t->leader)->ids.backups;
    assert_int_equal(next_part(&t->ring, t->leader, &taker), 0);
    atomic_store(&backups->view.snapshot->ended, true);
    ring_run_ms(&t->ring, RING_HEARTBEAT_MS);
    assert_int_equal(backups->state, BACKUPS_NONE);
    expect_figures(&t->ring, t->leader, 0, 1);
    assert_int_equal(next_part(&t->ring, t->leader, &taker), ERR_NOT_FOUND);
    taker.what.number = 0;
    assert_int_equal(next_part(&t->ring, t->leader, &taker), 0);
    atomic_store(&backups->view.snapshot->ended, true);
    assert_int_equal(next_part(&t->ring, t->leader, &taker), ERR_DISK_FULL);
    expect_figures(&t->ring, t->leader, 0, 2);
    ring_node(&t->ring, t->leader)->disk.low = true;
    take_rest(&t->ring, t->leader, &late); /* one that begins then is what is needed most */
    taker_free(&taker);
    taker_free(&late);
}

/* Whether it waits for its disk, or asks the leader how far the state must be. */
static void test_a_stop_answers_who_waits(void **state)
{
    struct trio *t = *state;
    const uint64_t nodes[] = {t->follower, t->leader};

    ring_node(&t->ring, t->leader)->disk_held = true;
    t->ring.lost[FRAME_REQUEST] = true;
    for (unsigned i = 0; i < 2; i++) {
        struct taker taker = {0};

        ask_part(&t->ring, nodes[i], &taker);
        ring_settle(&t->ring);
        assert_int_equal(taker.asked.done, 0);
        replica_stop(&ring_node(&t->ring, nodes[i])->replica);
        (void)replica_turn(&ring_node(&t->ring, nodes[i])->replica);
        assert_int_equal(take_part(&taker), ERR_SHUTTING_DOWN);
        taker_free(&taker);
    }
    ring_node(&t->ring, t->leader)->disk_held = false;
}

/* What a tag grew by in the file is what it was granted. Another change is no growth. */
static void test_it_tells_how_far_tags_grew(void **state)
{
    struct trio *t = *state;
    struct taker taker = {0};
    struct asked open;
    struct asked put;
    struct backup_reader reader;
    struct backup_block block;
    struct backup_tag_growth tag = {0};
    unsigned found = 0;

    asked_open(&open, "tag-3");
    ask(&t->ring, t->follower, &open, PATIENCE_MS);
    ring_run_ms(&t->ring, 100);
    asked_free(&open);
    (void)ring_take(&t->ring, t->follower, "tag-3", 5);
    asked_put(&put, "tag-2", 77);
    ask(&t->ring, t->follower, &put, PATIENCE_MS);
    ring_run_ms(&t->ring, 100);
    assert_int_equal(put.base.status, 0);
    asked_free(&put);
    take_rest(&t->ring, t->follower, &taker);
    backup_reader_init(&reader, taker.file.data, taker.file.len);
    while (backup_next(&reader, &block)) {
        assert_true(block.kind != BACKUP_GROWTH || block.growth.whole);
        while (block.kind == BACKUP_GROWTH && backup_growth_next(&block, &tag)) {
            assert_memory_equal(tag.name, "tag-3", 5);
            assert_int_equal(tag.max_id, TAG_DEFAULT_MAX_ID);
            found++;
        }
    }
    assert_int_equal(found, 1);
    taker_free(&taker);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, scene_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_follower_gives_what_was_acknowledged_before),
        TEST(test_it_waits_until_the_node_has_caught_up),
        TEST(test_a_node_that_does_not_catch_up_in_time),
        TEST(test_one_fixed_state_while_the_cluster_goes_on),
        TEST(test_one_at_a_time),
        TEST(test_one_that_nobody_asks_for_is_given_up),
        TEST(test_one_that_takes_too_long_is_cut_off),
        TEST(test_a_part_that_is_read_slowly),
        TEST(test_a_clock_that_is_set_back),
        TEST(test_without_a_majority_only_a_local_one),
        TEST(test_a_row_that_cannot_be_read_ends_it),
        TEST(test_it_is_given_up_when_the_store_ends_its_view),
        TEST(test_a_stop_answers_who_waits),
        TEST(test_it_tells_how_far_tags_grew),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
