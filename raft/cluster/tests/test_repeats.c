/*
 * test_repeats.c - a node repeats what it was not answered, whenever it can: whole replicas, and
 * changes that others made in between (src/state/codec/session.h, raft/cluster/requests.h).
 *
 * Thread: the test's.
 */
#include <stdio.h>
#include <string.h>

#include "src/tests/unit/test.h"
#include "raft/tests/raft_ring.h"
#include "raft/tests/raft_strict.h"
#include "raft/wire/wire.h"
#include "src/id/codec/command.h"

#define PATIENCE_MS 8000
#define OTHERS 4500 /* commands in between; the state machine once remembered 4,096 of them */

struct scene {
    struct ring ring;
    uint64_t leader;
    uint64_t cut;   /* hears nothing of the leader for a while */
    uint64_t other; /* the third */
};

static void start(struct scene *scene)
{
    memset(scene, 0, sizeof *scene);
    ring_start(&scene->ring, 3);
    scene->leader = ring_elect(&scene->ring);
    scene->cut = ring_follower(&scene->ring);
    scene->other = 6 - scene->leader - scene->cut;
    ring_run_ms(&scene->ring, 100);
}

static const struct tag_row *row(struct scene *scene, const char *tag)
{
    return ring_row(&scene->ring, scene->leader, tag);
}

/* What the node that is cut asks for is carried out, and it does not hear so. */
static void ask_unheard(struct scene *scene, struct asked *asked)
{
    scene->ring.cut[scene->leader][scene->cut] = true;
    ask(&scene->ring, scene->cut, asked, PATIENCE_MS);
    ring_run_ms(&scene->ring, 30);
    assert_int_equal(asked->done, 0);
}

static bool all_equal(struct scene *scene)
{
    const uint64_t index =
        driver_applied(&ring_node(&scene->ring, scene->leader)->replica.driver)->index;

    return driver_applied(&ring_node(&scene->ring, scene->cut)->replica.driver)->index == index &&
           driver_applied(&ring_node(&scene->ring, scene->other)->replica.driver)->index == index;
}

static void finish(struct scene *scene, struct asked *asked)
{
    scene->ring.cut[scene->leader][scene->cut] = false;
    for (unsigned i = 0; asked->done == 0 && i < PATIENCE_MS; i++) {
        ring_run_ms(&scene->ring, 1);
    }
    assert_int_equal(asked->done, 1);
    assert_int_equal(asked->base.status, 0);
    for (unsigned i = 0; !all_equal(scene) && i < PATIENCE_MS; i++) {
        ring_run_ms(&scene->ring, 1);
    }
    assert_true(all_equal(scene));
}

static void change_others(struct scene *scene)
{
    char name[16];

    for (unsigned i = 0; i < OTHERS; i++) {
        (void)snprintf(name, sizeof name, "other-%u", i % 64);
        ring_make(&scene->ring, scene->leader, name, 1 + i);
    }
}

static void test_a_put_that_comes_again_does_not_undo_a_later_one(void **state)
{
    struct scene scene;
    struct asked late;

    (void)state;
    start(&scene);
    ring_make(&scene.ring, scene.leader, "a", 5);
    asked_put(&late, "a", 111);
    ask_unheard(&scene, &late);
    assert_int_equal(row(&scene, "a")->step, 111);
    ring_make(&scene.ring, scene.other, "a", 222);
    change_others(&scene);
    finish(&scene, &late);
    for (uint64_t id = 1; id <= 3; id++) {
        assert_int_equal(ring_row(&scene.ring, id, "a")->step, 222);
    }
    asked_free(&late);
    ring_close(&scene.ring);
}

static void test_a_delete_that_comes_again_spares_the_tag_made_again(void **state)
{
    struct scene scene;
    struct asked late;

    (void)state;
    start(&scene);
    ring_make(&scene.ring, scene.leader, "a", 5);
    ring_run_ms(&scene.ring, 100);
    asked_delete(&late, "a");
    ask_unheard(&scene, &late);
    assert_true(row(&scene, "a")->deleted);
    ring_make(&scene.ring, scene.other, "a", 222);
    change_others(&scene);
    finish(&scene, &late);
    for (uint64_t id = 1; id <= 3; id++) {
        assert_false(ring_row(&scene.ring, id, "a")->deleted);
    }
    asked_free(&late);
    ring_close(&scene.ring);
}

static void ask_mode(struct asked *asked, const char *tag, enum tag_mode mode)
{
    const struct tag_put put = {.name = tag,
                                .name_len = (uint16_t)strlen(tag),
                                .fields = TAG_FIELD_MODE,
                                .mode = (uint8_t)mode};

    asked_put(asked, tag, 1); /* for its fields; the command is written anew */
    asked->base.payload.len = 0;
    command_put(&asked->base.payload, COMMAND_TAGS_PUT,
                &(struct command_list){.force = false, .wall_ms = 1000});
    command_item_put(&asked->base.payload, COMMAND_TAGS_PUT, &put);
    command_items_end(&asked->base.payload);
}

static void test_a_mode_that_comes_again_does_not_undo_a_later_one(void **state)
{
    struct scene scene;
    struct asked late;

    (void)state;
    start(&scene);
    strict_mode(&scene.ring, scene.leader, "a", TAG_MODE_STRICT);
    ask_mode(&late, "a", TAG_MODE_TREND);
    ask_unheard(&scene, &late);
    assert_int_equal(row(&scene, "a")->mode, TAG_MODE_TREND);
    strict_mode(&scene.ring, scene.other, "a", TAG_MODE_STRICT);
    change_others(&scene);
    finish(&scene, &late);
    for (uint64_t id = 1; id <= 3; id++) {
        assert_int_equal(ring_row(&scene.ring, id, "a")->mode, TAG_MODE_STRICT);
    }
    asked_free(&late);
    ring_close(&scene.ring);
}

/* --- copies that others bring --- */

/* The frame by which node `from` sent its newest request to the leader. */
static void copy_newest(struct scene *scene, const struct asked *asked, struct buf *ret_frame)
{
    struct wire_request wire = {.id = 4711,
                                .kind = CLUSTER_REQUEST_COMMAND,
                                .time_left_ms = 5000,
                                .payload = asked->base.payload.data,
                                .payload_len = asked->base.payload.len};

    (void)scene;
    wire_request_encode(&wire, ret_frame);
}

static void bring(struct scene *scene, uint64_t to, uint64_t from, const struct buf *frame)
{
    assert_true(replica_receive(&ring_node(&scene->ring, to)->replica.peers.receiver, from,
                                FRAME_REQUEST, frame->data, frame->len));
    ring_run_ms(&scene->ring, 100);
}

/* A request that was given up is dead once its node has said so, wherever copies of it are. */
/* Shows P5-given-up. */
static void test_what_was_given_up_is_not_carried_out_any_more(void **state)
{
    struct scene scene;
    struct buf frame = BUF_INIT;
    struct asked late;

    (void)state;
    start(&scene);
    ring_make(&scene.ring, scene.leader, "a", 5);
    asked_put(&late, "a", 111);
    scene.ring.lost[FRAME_REQUEST] = true;
    ask(&scene.ring, scene.cut, &late, 200);
    ring_run_ms(&scene.ring, 50);
    copy_newest(&scene, &late, &frame); /* with its stamp: it was sent, and is on its way */
    ring_run_ms(&scene.ring, 300);
    assert_int_equal(late.done, 1);
    assert_int_equal(late.base.status, ERR_TIMEOUT);
    scene.ring.lost[FRAME_REQUEST] = false;
    ring_run_ms(&scene.ring, 3 * SESSION_TIDY_MS); /* nobody asks for anything */
    bring(&scene, scene.leader, scene.cut, &frame);
    assert_int_equal(row(&scene, "a")->step, 5);
    asked_free(&late);
    buf_free(&frame);
    ring_close(&scene.ring);
}

/* The same of a node that crashed: its next start ends what the one before left on its way. */
/* Shows P5-given-up. */
static void test_what_an_earlier_start_asked_for_is_not_carried_out_any_more(void **state)
{
    struct scene scene;
    struct buf frame = BUF_INIT;
    struct asked late;

    (void)state;
    start(&scene);
    ring_make(&scene.ring, scene.leader, "a", 5);
    asked_put(&late, "a", 111);
    scene.ring.lost[FRAME_REQUEST] = true;
    ask(&scene.ring, scene.cut, &late, PATIENCE_MS);
    ring_run_ms(&scene.ring, 50);
    copy_newest(&scene, &late, &frame);
    ring_crash(&scene.ring, scene.cut);
    scene.ring.lost[FRAME_REQUEST] = false;
    ring_restart(&scene.ring, scene.cut);
    ring_run_ms(&scene.ring, 500);
    bring(&scene, scene.leader, scene.cut, &frame);
    assert_int_equal(row(&scene, "a")->step, 5);
    asked_free(&late);
    buf_free(&frame);
    ring_close(&scene.ring);
}

/* --- members --- */

/* The copy of a wish that was refused is not carried out when it could be. */
/* Shows P5-again. */
static void test_a_refused_wish_for_a_member_does_not_come_true_later(void **state)
{
    struct scene scene;
    struct asked asked;
    struct asked again;
    struct member_answer answer;
    struct session_stamp stamp;
    struct wire_request wire = {.id = 4711, .kind = CLUSTER_REQUEST_MEMBER, .time_left_ms = 5000};
    struct buf frame = BUF_INIT;

    (void)state;
    start(&scene);
    /* Else the cluster is told at once which numbers are over. */
    ring_make(&scene.ring, scene.cut, "a", 5);
    ring_crash(&scene.ring, scene.other);
    asked_member(&asked, MEMBER_ASK_REMOVE, scene.cut, "");
    stamp.node_id = scene.cut;
    stamp.incarnation = ring_node(&scene.ring, scene.cut)->replica.config.driver.incarnation;
    stamp.seq = ring_node(&scene.ring, scene.cut)->replica.requests.session.newest + 1;
    stamp.lowest = stamp.seq;
    ask(&scene.ring, scene.cut, &asked, PATIENCE_MS);
    for (unsigned i = 0; asked.done == 0 && i < PATIENCE_MS; i++) {
        ring_run_ms(&scene.ring, 1);
    }
    assert_int_equal(asked.done, 1);
    assert_int_equal(member_answer_decode(asked.base.reply.data, asked.base.reply.len, &answer), 0);
    assert_int_equal(answer.outcome, MEMBER_NO_QUORUM);
    ring_restart(&scene.ring, scene.other);
    ring_run_ms(&scene.ring, 20);
    asked_member(&again, MEMBER_ASK_REMOVE, scene.cut, "");
    session_stamp_put(&again.base.payload, &stamp);
    wire.payload = again.base.payload.data;
    wire.payload_len = again.base.payload.len;
    wire_request_encode(&wire, &frame);
    bring(&scene, scene.leader, scene.cut, &frame); /* and with all nodes up it could be done */
    ring_run_ms(&scene.ring, 1000);
    assert_non_null(
        driver_member(&ring_node(&scene.ring, scene.leader)->replica.driver, scene.cut));
    asked_free(&asked);
    asked_free(&again);
    buf_free(&frame);
    ring_close(&scene.ring);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_put_that_comes_again_does_not_undo_a_later_one),
        cmocka_unit_test(test_a_delete_that_comes_again_spares_the_tag_made_again),
        cmocka_unit_test(test_a_mode_that_comes_again_does_not_undo_a_later_one),
        cmocka_unit_test(test_what_was_given_up_is_not_carried_out_any_more),
        cmocka_unit_test(test_what_an_earlier_start_asked_for_is_not_carried_out_any_more),
        cmocka_unit_test(test_a_refused_wish_for_a_member_does_not_come_true_later),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
