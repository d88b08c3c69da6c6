/*
 * test_fsm_shares_tags.c - how much the tags of one client may count: the bound and one beyond,
 * whose a tag is, what deleting gives back, and that the count is right after whatever happens to a
 * tag.
 *
 * Thread: one.
 */
#include <stdio.h>
#include <string.h>

#include "src/tests/unit/test.h"
#include "src/base/prng.h"
#include "src/id/fsm/fsm.h"
#include "src/id/fsm/fsm_tables.h"
#include "src/id/tests/id_apply.h"
#include "src/tests/unit/hex.h"
#include "src/id/tests/id_random.h"

#define GREEDY 20
#define MODEST 22

/* What a tag without a description counts. */
#define LIVE(name_len) (TAG_SHARE_ROW_BYTES + TAG_SHARE_USED_BYTES + 2ULL * (name_len))
#define DEAD(name_len) (TAG_SHARE_ROW_BYTES + 1ULL * (name_len))
#define SHARE (2 * LIVE(1))

static int setup(void **state)
{
    struct id_apply *a = id_apply_new(state);

    id_apply_raise(a, 2);
    return 0;
}

static uint64_t held_by(const struct id_apply *a, uint64_t client)
{
    return fsm_owners_held(&a->fsm->tags.owners, client);
}

/* Counted anew from the rows, which a state machine that loads them does, each holds the same. */
static int teardown(void **state)
{
    struct id_apply *a = *state;
    struct fsm *loaded = fsm_of(state_new(&fsm_machine));

    id_apply_load(a, loaded);
    for (uint64_t client = 1; client < 32; client++) {
        assert_true(fsm_owners_held(&loaded->tags.owners, client) == held_by(a, client));
    }
    state_free(fsm_state(loaded));
    return id_apply_end(state);
}

/* Puts by a client that may have `most`; 0 of the client: in the form of level 1. */
static struct put_result puts_by(struct id_apply *a, uint64_t client, uint64_t most,
                                 const struct tag_put *puts, size_t count)
{
    const struct command_list head = {.wall_ms = 1, .client = client, .most = most};
    struct buf command = BUF_INIT;
    struct put_result result;

    command_put(&command, command_type_for(COMMAND_TAGS_PUT, &head), &head);
    for (size_t i = 0; i < count; i++) {
        struct tag_put put = puts[i];

        put.name_len = (uint16_t)strlen(put.name);
        command_item_put(&command, command_type_for(COMMAND_TAGS_PUT, &head), &put);
    }
    command_items_end(&command);
    assert_int_equal(id_apply_bytes(a, &command), 0);
    assert_int_equal(put_result_decode(a->result.data, a->result.len, &result), 0);
    buf_free(&command);
    return result;
}

static int put_by(struct id_apply *a, uint64_t client, const char *name)
{
    const struct tag_put put = {.name = name};

    return puts_by(a, client, SHARE, &put, 1).status;
}

static int describe_by(struct id_apply *a, uint64_t client, const char *name, const char *text)
{
    const struct tag_put put = {.name = name,
                                .fields = TAG_FIELD_DESCRIPTION,
                                .description = text,
                                .description_len = (uint16_t)strlen(text)};

    return puts_by(a, client, SHARE, &put, 1).status;
}

static void test_the_share_and_one_more(void **state)
{
    struct id_apply *a = *state;
    const struct tag_put third = {.name = "c"};
    struct put_result result;

    assert_int_equal(put_by(a, GREEDY, "a"), 0);
    assert_int_equal(put_by(a, GREEDY, "b"), 0);
    assert_true(held_by(a, GREEDY) == SHARE);
    result = puts_by(a, GREEDY, SHARE, &third, 1);
    assert_int_equal(result.status, ERR_SHARE);
    assert_int_equal(result.failed_at, 0);
    assert_true(result.max_id == SHARE && result.asked == SHARE);
    assert_null(fsm_tag(a->fsm, "c", 1));
    assert_int_equal(puts_by(a, GREEDY, 3 * LIVE(1) - 1, &third, 1).status, ERR_SHARE);
    assert_int_equal(put_by(a, MODEST, "c"), 0); /* others get theirs */
    assert_int_equal(put_by(a, GREEDY, "b"), 0); /* and what it has may be changed, */
    assert_int_equal(describe_by(a, GREEDY, "b", "x"), ERR_SHARE); /* but not made larger */
    assert_int_equal(puts_by(a, GREEDY, UINT64_MAX, &(struct tag_put){.name = "d"}, 1).status, 0);
    assert_true(held_by(a, GREEDY) == 3 * LIVE(1) && held_by(a, MODEST) == LIVE(1));
    assert_int_equal(put_by(a, GREEDY, "b"), 0); /* it has more than it may, and adds nothing */
}

static void test_a_bulk_of_which_half_fits(void **state)
{
    struct id_apply *a = *state;
    const struct tag_put puts[] = {{.name = "a"}, {.name = "b"}, {.name = "c"}, {.name = "d"}};
    struct put_result result = puts_by(a, GREEDY, SHARE, puts, 4);

    assert_int_equal(result.status, ERR_SHARE);
    assert_int_equal(result.failed_at, 2);
    assert_true(result.max_id == 0 && result.asked == SHARE);
    assert_true(held_by(a, GREEDY) == 0);
    assert_int_equal(a->fsm->tags.count, 0);
    assert_int_equal(puts_by(a, GREEDY, SHARE, puts, 2).status, 0);
}

/* What comes twice counts once, with the answer that it had. */
static void test_a_repeat(void **state)
{
    struct id_apply *a = *state;
    struct buf copy;

    assert_int_equal(put_by(a, GREEDY, "a"), 0);
    copy = id_apply_copy(a);
    assert_int_equal(put_by(a, GREEDY, "b"), 0);
    id_apply_again(a, &copy);
    assert_true(held_by(a, GREEDY) == SHARE);
    buf_free(&copy);
    assert_int_equal(put_by(a, GREEDY, "c"), ERR_SHARE);
    copy = id_apply_copy(a);
    assert_int_equal(id_apply_delete(a, "a"), 0);
    id_apply_again(a, &copy); /* it was refused, and is */
    assert_null(fsm_tag(a->fsm, "c", 1));
    buf_free(&copy);
}

static void test_deleting_gives_back(void **state)
{
    struct id_apply *a = *state;

    assert_int_equal(put_by(a, GREEDY, "a"), 0);
    assert_int_equal(id_apply_grant(a, "a", 100).status, 0);
    assert_int_equal(put_by(a, GREEDY, "b"), 0);
    assert_int_equal(id_apply_delete(a, "a"), 0);
    assert_true(held_by(a, GREEDY) == DEAD(1) + LIVE(1));
    assert_int_equal(put_by(a, GREEDY, "a"), 0); /* no room is taken anew, and no id comes again */
    assert_true(held_by(a, GREEDY) == SHARE);
    assert_true(id_apply_row(a, "a")->max_id == 101);
}

/* A description is not kept: nobody sees that of a deleted tag. */
static void test_a_deleted_tag_has_no_description(void **state)
{
    struct id_apply *a = *state;

    assert_int_equal(describe_by(a, GREEDY, "a", "0123456789"), 0);
    assert_true(held_by(a, GREEDY) == LIVE(1) + 10);
    assert_int_equal(id_apply_delete(a, "a"), 0);
    assert_true(held_by(a, GREEDY) == DEAD(1));
    assert_int_equal(id_apply_row(a, "a")->description_len, 0);
    assert_int_equal(describe_by(a, 0, "b", "0123456789"), 0); /* nobody's is as it was */
    assert_int_equal(id_apply_delete(a, "b"), 0);
    assert_int_equal(id_apply_row(a, "b")->description_len, 10);
}

/* Other names for ever: it comes to the end of its share, the memory does not. */
static void test_who_makes_and_deletes_for_ever(void **state)
{
    struct id_apply *a = *state;
    char name[8];
    unsigned made = 0;

    for (unsigned i = 0; i < 100; i++) {
        (void)snprintf(name, sizeof name, "%c", (int)(33 + i));
        if (put_by(a, GREEDY, name) == 0) {
            assert_int_equal(id_apply_delete(a, name), 0);
            made++;
        }
    }
    assert_int_equal(made, (SHARE - LIVE(1)) / DEAD(1) + 1);
    assert_true(held_by(a, GREEDY) == made * DEAD(1));
    assert_int_equal(put_by(a, MODEST, "z1"), 0);
}

static void test_whose_a_tag_is(void **state)
{
    struct id_apply *a = *state;

    assert_int_equal(put_by(a, 0, "old"), 0); /* of level 1 */
    assert_true(id_apply_row(a, "old")->client == 0);
    assert_int_equal(put_by(a, GREEDY, "old"), 0); /* changed, it stays nobody's, */
    assert_true(id_apply_row(a, "old")->client == 0);
    assert_int_equal(describe_by(a, GREEDY, "old", "x"), 0); /* but not made larger */
    assert_true(id_apply_row(a, "old")->client == GREEDY);
    assert_true(held_by(a, GREEDY) == LIVE(3) + 1);
    assert_int_equal(describe_by(a, MODEST, "old", "xy"), 0);
    assert_true(held_by(a, GREEDY) == 0 && held_by(a, MODEST) == LIVE(3) + 2);
    assert_int_equal(describe_by(a, GREEDY, "old", ""), 0); /* smaller is no change of the owner */
    assert_true(held_by(a, MODEST) == LIVE(3));
    assert_int_equal(id_apply_delete(a, "old"), 0);
    assert_true(held_by(a, MODEST) == DEAD(3)); /* whoever deleted it */
    assert_int_equal(put_by(a, GREEDY, "old"), 0);
    assert_true(held_by(a, GREEDY) == LIVE(3) && held_by(a, MODEST) == 0);
    assert_int_equal(id_apply_delete(a, "old"), 0);
    assert_int_equal(put_by(a, 0, "old"), 0);
    assert_true(held_by(a, GREEDY) == 0 && a->fsm->tags.owners.table.count == 0);
}

/* Before the level nobody may say whose a tag is. */
static void test_level_1_has_no_owners(void **state)
{
    struct id_apply one;
    const struct command_list head = {.wall_ms = 1, .client = GREEDY, .most = UINT64_MAX};
    struct buf command = BUF_INIT;

    (void)state;
    id_apply_init(&one);
    command_put(&command, COMMAND_TAGS_PUT_BY, &head);
    command_item_put(&command, COMMAND_TAGS_PUT_BY, &(struct tag_put){.name = "a", .name_len = 1});
    command_items_end(&command);
    assert_int_equal(id_apply_bytes(&one, &command), ERR_BAD_MESSAGE);
    assert_int_equal(one.fsm->tags.count, 0);
    buf_free(&command);
    id_apply_free(&one);
}

/* Whatever is done to the tags of three clients, each holds what its rows count. */
static void test_the_count_is_that_of_the_rows(void **state)
{
    struct id_apply *a = *state;
    struct prng prng;
    char name[4];

    prng_seed(&prng, 20261129);
    for (unsigned step = 0; step < 4000; step++) {
        struct buf command = BUF_INIT;
        uint64_t sums[4] = {0};

        id_random_name(&prng, name);
        if (prng_below(&prng, 4) == 0) {
            (void)id_apply_delete(a, name);
        } else if (prng_below(&prng, 4) == 0) {
            (void)id_apply_grant(a, name, 10);
        } else {
            if (prng_below(&prng, 8) > 0) {
                id_random_owned_put(&prng, &command);
            } else {
                id_random_rekeyed_put(&prng, &command);
            }
            assert_int_equal(id_apply_bytes(a, &command), 0);
            buf_free(&command);
        }
        for (struct fsm_row *row = fsm_tags_seek(&a->fsm->tags, "", 0); row != NULL;
             row = fsm_tags_next(row)) {
            const struct tag_row tag = fsm_row_tag(row);

            assert_true(tag.client < 4);
            sums[tag.client] += tag_share_bytes(&tag);
        }
        for (uint64_t client = 1; client < 4; client++) {
            assert_true(held_by(a, client) == sums[client]);
        }
    }
    assert_true(held_by(a, 1) + held_by(a, 2) + held_by(a, 3) > 0);
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_the_share_and_one_more),
        TEST(test_a_bulk_of_which_half_fits),
        TEST(test_a_repeat),
        TEST(test_deleting_gives_back),
        TEST(test_a_deleted_tag_has_no_description),
        TEST(test_who_makes_and_deletes_for_ever),
        TEST(test_whose_a_tag_is),
        TEST(test_level_1_has_no_owners),
        TEST(test_the_count_is_that_of_the_rows),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
