/*
 * test_fsm_strict_model.c - random worlds of strict batches: several nodes whose batches arrive in
 * any order, several times, late, and after their node began another incarnation; tags that change
 * their mode, are deleted and made again; nodes that hold segments; reloads of the state.
 *
 * What must hold, whatever happens: a batch (node, incarnation, seq) is applied at most once, and
 * every answer to it is the same or says that it is stale; the answer that its node waits for is
 * never stale, and a batch that is stale once is never applied; the ids of a tag rise in the order
 * of the log without a gap; and nothing is handed out of a strict tag while a node may hold a
 * segment of it.
 *
 * Thread: one.
 */
#include <stdlib.h>
#include <string.h>

#include "src/tests/unit/test.h"
#include "src/base/prng.h"
#include "src/id/fsm/fsm_tables.h"
#include "src/id/tests/id_apply.h"

#define NODES 3U
#define LIVES 8U
#define SEQS 256U
#define TAGS 4U
#define ITEMS 6U
#define COPIES 64U
#define WORLDS 200U
#define STEPS 1500U
#define SENDER 11U /* the id that node 0 sends its batches with; its other commands have 1 */

struct batch {
    struct buf command;
    struct buf answer; /* the first that was not stale */
    uint32_t counts[ITEMS];
    uint8_t tags[ITEMS];
    unsigned item_count;
    bool applied; /* it changed the state */
    bool stale;   /* it was told so */
    bool over;    /* its node waits for it no more */
};

struct node {
    unsigned incarnation; /* 1.. */
    unsigned seq;         /* of the last batch of this incarnation */
    unsigned busy;        /* batches that it awaits */
    struct batch batches[LIVES][SEQS];
    uint32_t holds[TAGS]; /* the generation of the segment it holds; 0: none */
};

struct copy {
    unsigned node;
    unsigned incarnation;
    unsigned seq;
};

struct world {
    struct id_apply apply;
    struct prng prng;
    struct node nodes[NODES];
    uint64_t next[TAGS]; /* the id that the tag's next allocation begins with */
    struct copy copies[COPIES];
    size_t copy_count;
    unsigned counts[8]; /* what happened, by enum event */
};

enum event { FRESH, REPEATED, STALE, GIVEN, CHANGING, WRONG_MODE, UNKNOWN, AWAITED };

static const char *const NAMES[TAGS] = {"a", "b", "c", "d"};

static bool fsm_recall_has(const struct fsm *fsm, const char *name, size_t name_len,
                           uint64_t node_id)
{
    const struct fsm_recall *recall =
        fsm_recalls_find(fsm, fsm_tags_find(&fsm->tags, name, name_len));

    return recall != NULL && node_set_has(&recall->nodes, node_id);
}

static const struct tag_row *row_of(const struct world *world, unsigned tag)
{
    return fsm_tag(world->apply.fsm, NAMES[tag], 1);
}

static struct batch *batch_of(struct world *world, const struct copy *copy)
{
    return &world->nodes[copy->node].batches[copy->incarnation - 1][copy->seq - 1];
}

/* --- what nodes do --- */

static void send(struct world *world, struct copy copy)
{
    if (world->copy_count < COPIES) {
        world->copies[world->copy_count++] = copy;
    }
}

/* The answer came, or the node gave it up. */
static void is_over(struct node *node, struct batch *batch)
{
    batch->over = true;
    node->busy--;
}

/* The lowest number that the node awaits; it has sent some in this incarnation. */
static unsigned lowest_of(const struct node *node)
{
    unsigned seq = 1;

    while (seq < node->seq && node->batches[node->incarnation - 1][seq - 1].over) {
        seq++;
    }
    return seq;
}

/* A new batch, if its node may: so many are awaited. It is stamped once. */
static void gather(struct world *world, unsigned number)
{
    struct node *node = &world->nodes[number];
    struct copy copy = {number, node->incarnation, node->seq + 1};
    struct batch *batch;
    struct command_list head = {.key_limit = 1};

    if (node->seq == SEQS || node->busy == LIMIT_STRICT_BATCHES) {
        return;
    }
    node->seq++;
    node->busy++;
    batch = batch_of(world, &copy);
    batch->item_count = 1 + (unsigned)prng_below(&world->prng, ITEMS);
    command_put(&batch->command, COMMAND_STRICT, &head);
    for (unsigned i = 0; i < batch->item_count; i++) {
        bool same = i > 0 && prng_below(&world->prng, 2) == 0;

        batch->tags[i] = same ? batch->tags[i - 1] : (uint8_t)prng_below(&world->prng, TAGS);
        batch->counts[i] = 1 + (uint32_t)prng_below(&world->prng, 9);
        command_item_put(&batch->command, COMMAND_STRICT,
                         &(struct strict_item){.name = NAMES[batch->tags[i]],
                                               .name_len = 1,
                                               .count = batch->counts[i]});
    }
    command_items_end(&batch->command);
    id_stamp_as(&batch->command, SENDER + number, node->incarnation, node->seq, lowest_of(node));
    send(world, copy);
}

/* The node dies and comes back: it waits for nothing, and holds nothing. */
static void restart(struct world *world, unsigned number)
{
    struct node *node = &world->nodes[number];

    if (node->incarnation < LIVES) {
        node->incarnation++;
        node->seq = 0;
        node->busy = 0;
        memset(node->holds, 0, sizeof node->holds);
    }
}

static void grant(struct world *world, unsigned number, unsigned tag)
{
    struct grant_result result = id_apply_grant_to(&world->apply, number + 1, NAMES[tag],
                                                   1 + (uint32_t)prng_below(&world->prng, 20));

    if (result.status == 0) {
        assert_true(result.first == world->next[tag]);
        world->next[tag] += result.size;
        world->nodes[number].holds[tag] = result.generation;
    }
}

/* The node drops its segment and says so; or a late copy of an earlier word comes. */
static void recalled(struct world *world, unsigned number, unsigned tag)
{
    const struct tag_row *row = row_of(world, tag);

    if (row == NULL) {
        return;
    }
    if (prng_below(&world->prng, 3) == 0) {
        id_apply_recalled(&world->apply, number + 1, NAMES[tag], row->generation - 1);
        return;
    }
    world->nodes[number].holds[tag] = 0;
    id_apply_recalled(&world->apply, number + 1, NAMES[tag], row->generation);
}

static void change_tag(struct world *world, unsigned tag)
{
    struct tag_put put = {
        .name = NAMES[tag], .fields = TAG_FIELD_MODE, .mode = (uint8_t)prng_below(&world->prng, 2)};

    if (prng_below(&world->prng, 4) == 0) {
        (void)id_apply_delete(&world->apply, NAMES[tag]);
        return;
    }
    assert_int_equal(id_apply_put(&world->apply, put, false).status, 0);
    if (world->next[tag] == 0) {
        world->next[tag] = TAG_DEFAULT_MAX_ID;
    }
}

static void reload(struct world *world)
{
    struct fsm *fsm = fsm_of(state_new(&fsm_machine));

    id_apply_load(&world->apply, fsm);
    assert_true(state_digest(fsm_state(fsm)) == state_digest(fsm_state(world->apply.fsm)));
    state_free(fsm_state(world->apply.fsm));
    world->apply.fsm = fsm;
}

/* --- what must hold --- */

static void check_given(struct world *world, unsigned tag, uint32_t count,
                        const struct strict_result *result)
{
    assert_true(result->first == world->next[tag]);
    world->next[tag] += count;
    for (unsigned n = 0; n < NODES; n++) {
        assert_int_equal(world->nodes[n].holds[tag], 0);
    }
    world->counts[GIVEN]++;
}

/* The first answer to a batch. */
static void check_fresh(struct world *world, const struct batch *batch,
                        const struct strict_result *results)
{
    for (unsigned i = 0; i < batch->item_count; i++) {
        const struct tag_row *row = row_of(world, batch->tags[i]);

        switch (results[i].status) {
        case 0:
            check_given(world, batch->tags[i], batch->counts[i], &results[i]);
            break;
        case ERR_CHANGING:
            assert_true(row->recalling);
            assert_true(fsm_recall_has(world->apply.fsm, row->name, 1, results[i].detail));
            world->counts[CHANGING]++;
            break;
        case ERR_WRONG_MODE:
            assert_int_equal(row->mode, TAG_MODE_TREND);
            world->counts[WRONG_MODE]++;
            break;
        default:
            assert_int_equal(results[i].status, ERR_UNKNOWN_TAG);
            assert_true(row == NULL || row->deleted);
            world->counts[UNKNOWN]++;
        }
    }
    for (unsigned tag = 0; tag < TAGS; tag++) {
        assert_true(row_of(world, tag) == NULL || row_of(world, tag)->max_id == world->next[tag]);
    }
}

/* A batch comes out of the log. */
static void deliver(struct world *world, const struct copy *copy)
{
    struct batch *batch = batch_of(world, copy);
    const struct buf *answer = &world->apply.result;
    uint64_t digest = state_digest(fsm_state(world->apply.fsm));
    struct strict_result results[ITEMS];
    bool awaited = !batch->over && copy->incarnation == world->nodes[copy->node].incarnation;
    size_t count = 0;

    assert_int_equal(id_apply_bytes(&world->apply, &batch->command), 0);
    if (id_apply_refused(&world->apply) != 0) {
        assert_int_equal(id_apply_refused(&world->apply), ERR_STALE);
        assert_false(awaited);
        assert_true(state_digest(fsm_state(world->apply.fsm)) == digest);
        batch->stale = true;
        world->counts[STALE]++;
        return;
    }
    assert_int_equal(
        results_decode(RESULT_STRICT, answer->data, answer->len, results, ITEMS, &count), 0);
    assert_int_equal(count, batch->item_count);
    assert_false(batch->stale);
    if (state_digest(fsm_state(world->apply.fsm)) != digest) { /* at least by the answer */
        assert_false(batch->applied);
        batch->applied = true;
        check_fresh(world, batch, results);
        buf_put(&batch->answer, answer->data, answer->len);
        world->counts[FRESH]++;
    } else {
        assert_true(batch->applied);
        assert_int_equal(batch->answer.len, answer->len);
        assert_memory_equal(batch->answer.data, answer->data, answer->len);
        world->counts[REPEATED]++;
    }
    if (awaited && prng_below(&world->prng, 4) > 0) { /* else the answer is lost on its way */
        is_over(&world->nodes[copy->node], batch);
        world->counts[AWAITED]++;
    }
}

/* One of the copies under way comes; it may come again, and its node may send it again. */
static void deliver_any(struct world *world)
{
    size_t at;
    struct copy copy;

    if (world->copy_count == 0) {
        return;
    }
    at = (size_t)prng_below(&world->prng, world->copy_count);
    copy = world->copies[at];
    if (prng_below(&world->prng, 3) > 0) {
        world->copies[at] = world->copies[--world->copy_count];
    }
    deliver(world, &copy);
}

/* A node looks at what it waits for: it sends it again, or gives it up. */
static void look(struct world *world, unsigned number)
{
    struct node *node = &world->nodes[number];

    for (unsigned seq = 1; seq <= node->seq; seq++) {
        struct batch *batch = &node->batches[node->incarnation - 1][seq - 1];

        if (!batch->over && prng_below(&world->prng, 8) == 0) {
            is_over(node, batch);
        } else if (!batch->over) {
            send(world, (struct copy){number, node->incarnation, seq});
        }
    }
}

static void step(struct world *world)
{
    unsigned number = (unsigned)prng_below(&world->prng, NODES);
    unsigned tag = (unsigned)prng_below(&world->prng, TAGS);

    switch (prng_below(&world->prng, 64)) {
    case 0:
        restart(world, number);
        break;
    case 1:
        reload(world);
        break;
    case 2:
    case 3:
        change_tag(world, tag);
        break;
    case 4:
    case 5:
        look(world, number);
        break;
    case 6:
    case 7:
    case 8:
        grant(world, number, tag);
        break;
    default:
        if (prng_below(&world->prng, 6) == 0) {
            recalled(world, number, tag);
        } else if (prng_below(&world->prng, 3) == 0) {
            gather(world, number);
        } else {
            deliver_any(world);
        }
    }
}

/* When all nodes have confirmed, every tag gives, above all that it gave before. */
static void check_end(struct world *world)
{
    const struct command_list head = {.key_limit = 1};
    struct strict_item item = {.count = 1};
    struct strict_result result;

    for (unsigned tag = 0; tag < TAGS; tag++) {
        id_apply_mode(&world->apply, NAMES[tag], TAG_MODE_STRICT);
        for (unsigned n = 0; n < NODES; n++) {
            id_apply_recalled(&world->apply, n + 1, NAMES[tag], row_of(world, tag)->generation);
        }
        item.name = NAMES[tag];
        id_apply_strict(&world->apply, head, &item, 1, &result);
        assert_int_equal(result.status, 0);
        assert_true(result.first == (world->next[tag] > 0 ? world->next[tag] : TAG_DEFAULT_MAX_ID));
    }
    reload(world);
}

static void test_random_worlds(void **state)
{
    unsigned counts[8] = {0};

    (void)state;
    for (unsigned seed = 0; seed < WORLDS; seed++) {
        struct world *world = calloc(1, sizeof *world);

        assert_non_null(world);
        prng_seed(&world->prng, seed);
        id_apply_init(&world->apply);
        for (unsigned n = 0; n < NODES; n++) {
            world->nodes[n].incarnation = 1;
        }
        for (unsigned i = 0; i < STEPS; i++) {
            step(world);
        }
        check_end(world);
        for (unsigned i = 0; i < 8; i++) {
            counts[i] += world->counts[i];
        }
        for (struct node *node = world->nodes; node < world->nodes + NODES; node++) {
            for (unsigned i = 0; i < LIVES * SEQS; i++) {
                buf_free(&node->batches[i / SEQS][i % SEQS].command);
                buf_free(&node->batches[i / SEQS][i % SEQS].answer);
            }
        }
        id_apply_free(&world->apply);
        free(world);
    }
    for (unsigned i = 0; i < 8; i++) { /* everything happened often */
        assert_true(counts[i] > 1000);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_worlds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
