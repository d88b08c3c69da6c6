/*
 * test_fsm_workers_model.c - random sequences of acquire, renew, release and passing time, of 30
 * names on 8 worker ids, against a model that is nothing but an array; late copies of acquires; and
 * holders that go on stamping times as long as they think they may, fenced or not, and who perhaps
 * heard of their grant from such a copy alone. No time of a worker id is ever stamped by two of
 * them.
 *
 * Thread: one.
 */
#include <stdio.h>
#include <stdlib.h>

#include "src/tests/unit/test.h"
#include "src/base/prng.h"
#include "src/id/tests/id_apply.h"

#define T 1700000000000ULL
#define IDS 8
#define NAMES 30
#define HOLDERS 64
#define EPOCHS 4096
#define STEPS 40000
#define STATUS_END 64
#define ASKER 2     /* the node that sends the acquires */
#define PASTS 32U   /* late copies are of so many acquires, */
#define AWAITED 16U /* of which it still waits for these */

static const struct snowflake_layout EIGHT = {SNOWFLAKE_EPOCH_MS, 41, 3, 12};

/* The model's row of a worker id. */
struct slot {
    bool used;
    bool held;
    unsigned name;
    uint64_t epoch;
    uint64_t from;
    uint64_t until;
    uint64_t last;
    uint64_t updated;
};

/* An acquire that came before. */
struct past {
    struct buf command;
    struct buf answer;
    uint64_t seq; /* 0: none */
    bool unheard; /* granted, and nobody was told */
};

/* One incarnation of a holder: it stamps up to what it was told, also when another incarnation
 * began. */
struct holder {
    bool alive;
    uint32_t id;
    uint64_t epoch;
    uint64_t from;
    uint64_t until;
    uint64_t used; /* highest time stamped, 0: none */
};

/* What was stamped in an epoch of a worker id. */
struct stamps {
    uint64_t lowest;
    uint64_t highest;
};

struct world {
    struct id_apply apply;
    struct prng prng;
    uint64_t log_ms;
    uint64_t seq;             /* of the last acquire */
    struct past pasts[PASTS]; /* at seq % PASTS */
    struct slot slots[IDS];
    struct holder holders[HOLDERS];
    unsigned next_holder; /* the oldest, which the next one takes the place of */
    struct stamps stamps[IDS][EPOCHS];
    uint64_t stamped;
    unsigned heard_late;
    unsigned told[STATUS_END]; /* how often each status was answered, by its negative */
};

static uint64_t below(struct world *world, uint64_t bound)
{
    return prng_below(&world->prng, bound);
}

static uint64_t max(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static bool is_free(const struct world *world, const struct slot *slot)
{
    return !slot->used || slot->until < world->log_ms;
}

static struct slot *slot_of_name(struct world *world, unsigned name)
{
    struct slot *best = NULL;

    for (unsigned id = 0; id < IDS; id++) {
        struct slot *slot = &world->slots[id];

        if (slot->used && slot->name == name &&
            (best == NULL || slot->held || (!best->held && slot->updated > best->updated))) {
            best = slot;
        }
    }
    return best;
}

static struct slot *slot_for_any(struct world *world)
{
    struct slot *best = NULL;

    for (unsigned id = 0; id < IDS; id++) {
        struct slot *slot = &world->slots[id];

        if (is_free(world, slot)) {
            return slot;
        }
        if (!slot->held && slot->from <= world->log_ms &&
            (best == NULL || slot->until < best->until)) {
            best = slot;
        }
    }
    return best;
}

/* What the model expects of an acquire; the slot is the one granted or in the way. */
static int expect_choice(struct world *world, const struct worker_acquire *ask, unsigned name,
                         struct slot **ret_slot)
{
    struct slot *own = slot_of_name(world, name);
    struct slot *given = ask->worker_id < IDS ? &world->slots[ask->worker_id] : NULL;

    if (ask->wall_ms > world->log_ms + LIMIT_WORKER_AHEAD_MS) {
        return ERR_CLOCK_SKEW;
    }
    if (given == NULL) {
        *ret_slot = own != NULL ? own : slot_for_any(world);
        return *ret_slot != NULL ? 0 : ERR_NO_WORKER_ID;
    }
    if (own != NULL && own != given && !is_free(world, own)) {
        *ret_slot = own;
        return ERR_CONFLICT;
    }
    *ret_slot = given;
    return given == own || is_free(world, given) ? 0 : ERR_CONFLICT;
}

/* The result's row is the model's. */
static void row_is(const struct world *world, const struct worker_row *row, const struct slot *slot)
{
    char name[16];

    (void)snprintf(name, sizeof name, "name-%u", slot->name);
    assert_ptr_equal(slot, &world->slots[row->id]);
    assert_true(id_apply_is_named(row, name));
    assert_int_equal(row->state, slot->held ? WORKER_HELD : WORKER_RELEASED);
    assert_true(row->epoch == slot->epoch);
    assert_true(row->granted_from_ms == slot->from);
    assert_true(row->granted_until_ms == slot->until);
    assert_true(row->last_timestamp_ms == slot->last);
    assert_true(row->updated_ms == slot->updated);
}

static void tell(struct world *world, int status)
{
    assert_in_range(-status, 0, STATUS_END - 1);
    world->told[-status]++;
}

static void hear(struct world *world, const struct worker_row *row)
{
    world->holders[world->next_holder] =
        (struct holder){true, row->id, row->epoch, row->granted_from_ms, row->granted_until_ms, 0};
    world->next_holder = (world->next_holder + 1) % HOLDERS;
}

static void granted(struct world *world, struct slot *slot, const struct worker_acquire *ask,
                    unsigned name, const struct worker_row *row)
{
    uint64_t before = slot->until;
    struct slot *own = slot_of_name(world, name);

    if (own != NULL && own != slot && own->held) {
        own->held = false;
        own->updated = world->log_ms;
    }
    slot->used = true;
    slot->held = true;
    slot->name = name;
    slot->epoch++;
    slot->from = max(slot->until, ask->floor_ms);
    slot->until = max(ask->wall_ms, slot->from) + ask->window_ms;
    slot->updated = world->log_ms;
    row_is(world, row, slot);
    assert_true(row->granted_from_ms >= before);
    assert_true(slot->epoch < EPOCHS);
    /* Most holders hear of it. */
    if (below(world, 8) > 0) {
        hear(world, row);
    } else {
        world->pasts[world->seq % PASTS].unheard = true;
    }
}

static uint64_t lowest_awaited(const struct world *world)
{
    return world->seq > AWAITED ? world->seq - AWAITED + 1 : 1;
}

/* The acquire is applied, and kept to come again. */
static struct worker_result acquire(struct world *world, const struct worker_acquire *ask)
{
    struct past *past = &world->pasts[++world->seq % PASTS];
    struct worker_result result;

    world->apply.next = (struct session_stamp){ASKER, 1, world->seq, lowest_awaited(world)};
    result = id_apply_acquire(&world->apply, *ask);
    buf_free(&past->command);
    buf_free(&past->answer);
    past->command = id_apply_copy(&world->apply);
    buf_put(&past->answer, world->apply.result.data, world->apply.result.len);
    past->seq = world->seq;
    past->unheard = false;
    return result;
}

/* An acquire comes again: its answer is the same, or it is too late for one. Nothing changes. */
static void step_again(struct world *world)
{
    struct past *past = &world->pasts[below(world, PASTS)];
    const struct buf *answer = &world->apply.result;
    uint64_t digest = state_digest(fsm_state(world->apply.fsm));
    struct worker_result result;

    if (past->seq == 0) {
        return;
    }
    id_apply_again(&world->apply, &past->command);
    assert_int_equal(world->apply.changed, 0);
    assert_true(state_digest(fsm_state(world->apply.fsm)) == digest);
    if (past->seq < lowest_awaited(world)) {
        assert_int_equal(id_apply_refused(&world->apply), ERR_STALE);
        tell(world, ERR_STALE);
        return;
    }
    assert_int_equal(answer->len, past->answer.len);
    assert_memory_equal(answer->data, past->answer.data, answer->len);
    tell(world, ERR_EXISTS);
    if (past->unheard) {
        past->unheard = false;
        assert_int_equal(worker_result_decode(answer->data, answer->len, &result), 0);
        hear(world, &result.row);
        world->heard_late++;
    }
}

static void step_acquire(struct world *world)
{
    unsigned name = (unsigned)below(world, NAMES);
    struct worker_acquire ask = {.kind = WORKER_NODE, .worker_id = WORKER_ID_ANY};
    struct slot *slot = NULL;
    struct worker_result result;
    char text[16];
    int wanted;

    (void)snprintf(text, sizeof text, "name-%u", name);
    ask.name = text;
    ask.window_ms = 1000 + below(world, 15000);
    ask.wall_ms = world->log_ms - 30000 + below(world, 91000);
    if (below(world, 4) == 0) {
        ask.worker_id = (uint16_t)below(world, IDS);
    }
    if (below(world, 8) == 0) {
        ask.floor_ms = world->log_ms + below(world, 20000);
    }
    wanted = expect_choice(world, &ask, name, &slot);
    result = acquire(world, &ask);
    tell(world, wanted);
    assert_int_equal(result.status, wanted);
    if (wanted == 0) {
        granted(world, slot, &ask, name, &result.row);
    } else {
        assert_int_equal(world->apply.changed, 0);
        assert_int_equal(result.has_row, slot != NULL);
    }
    if (slot != NULL) {
        row_is(world, &result.row, slot);
    }
}

static int expect_renew(const struct world *world, const struct worker_renew *renew)
{
    const struct slot *slot = &world->slots[renew->worker_id];

    if (!slot->held || slot->epoch != renew->epoch) {
        return ERR_FENCED;
    }
    if (renew->expected_until_ms != 0 && renew->expected_until_ms != slot->until) {
        return ERR_CONFLICT;
    }
    return renew->wall_ms > world->log_ms + LIMIT_WORKER_AHEAD_MS ? ERR_CLOCK_SKEW : 0;
}

static void step_renew(struct world *world, struct holder *holder)
{
    struct worker_renew renew = {.worker_id = holder->id, .epoch = holder->epoch};
    struct slot *slot = &world->slots[holder->id];
    struct worker_result result;
    int wanted;

    renew.expected_until_ms = below(world, 2) * holder->until;
    renew.window_ms = 1000 + below(world, 15000);
    renew.last_timestamp_ms = below(world, 2) * holder->used;
    renew.wall_ms = world->log_ms - 30000 + below(world, 91000);
    wanted = expect_renew(world, &renew);
    result = id_apply_renew(&world->apply, renew);
    tell(world, wanted);
    assert_int_equal(result.status, wanted);
    if (wanted == 0) {
        slot->until = max(slot->until, renew.wall_ms + renew.window_ms);
        slot->last = max(slot->last, renew.last_timestamp_ms);
        slot->updated = world->log_ms;
    } else {
        assert_int_equal(world->apply.changed, 0);
    }
    row_is(world, &result.row, slot);
    /* The row says how far this epoch reaches; a lost answer leaves the holder with what it knew,
     * and a fenced one that does not stop has only that. */
    if (result.row.epoch == holder->epoch && result.row.state == WORKER_HELD &&
        below(world, 8) > 0) {
        holder->until = result.row.granted_until_ms;
    }
}

static void step_release(struct world *world, struct holder *holder)
{
    struct worker_release release = {holder->id, holder->epoch, 0, WORKER_NODE, 0, false};
    struct slot *slot = &world->slots[holder->id];
    struct worker_result result;
    int wanted = slot->epoch == holder->epoch ? 0 : ERR_FENCED;

    if (below(world, 4) > 0) {
        release.last_timestamp_ms = holder->used > 0 ? holder->used : 1;
    }
    result = id_apply_release(&world->apply, release);
    tell(world, wanted);
    assert_int_equal(result.status, wanted);
    if (wanted == 0 && slot->held) {
        slot->held = false;
        slot->updated = world->log_ms;
        if (release.last_timestamp_ms > 0) {
            slot->last = max(slot->last, release.last_timestamp_ms);
            slot->until = max(slot->from, slot->last);
        }
    }
    row_is(world, &result.row, slot);
    holder->alive = false; /* it says that it stops, and does */
}

/* The holder takes times that it thinks are its own. */
static void step_stamp(struct world *world, struct holder *holder)
{
    struct stamps *stamps = &world->stamps[holder->id][holder->epoch];
    uint64_t from = max(holder->from, holder->used);

    if (from >= holder->until) {
        return;
    }
    holder->used = from + 1 + below(world, below(world, 4) == 0 ? holder->until - from : 10);
    holder->used = holder->used < holder->until ? holder->used : holder->until;
    stamps->lowest = stamps->lowest > 0 ? stamps->lowest : holder->used;
    stamps->highest = holder->used;
    world->stamped++;
}

static void step(struct world *world)
{
    struct holder *holder = &world->holders[below(world, HOLDERS)];

    switch (below(world, 8)) {
    case 0:
        world->log_ms += below(world, 2000);
        (void)id_apply_clock(&world->apply, world->log_ms);
        break;
    case 1:
    case 2:
        if (below(world, 4) > 0) {
            step_acquire(world);
        } else {
            step_again(world);
        }
        break;
    case 3:
    case 4:
        if (holder->alive) {
            step_renew(world, holder);
        }
        break;
    case 5:
        if (holder->alive && below(world, 4) == 0) {
            step_release(world, holder);
        }
        break;
    default:
        if (holder->alive) {
            step_stamp(world, holder);
        }
    }
}

/* Every epoch's times are above those of all epochs before it. */
static void check_stamps(const struct world *world)
{
    for (unsigned id = 0; id < IDS; id++) {
        uint64_t highest = 0;

        for (unsigned epoch = 0; epoch < EPOCHS; epoch++) {
            const struct stamps *stamps = &world->stamps[id][epoch];

            if (stamps->lowest > 0) {
                assert_true(stamps->lowest > highest);
                highest = stamps->highest;
            }
        }
    }
}

static void run(uint64_t seed)
{
    struct world *world = calloc(1, sizeof *world);
    struct fsm *loaded = fsm_of(state_new(&fsm_machine));

    assert_non_null(world);
    id_apply_init(&world->apply);
    prng_seed(&world->prng, seed);
    world->log_ms = T;
    (void)id_apply_layout(&world->apply, &EIGHT);
    (void)id_apply_clock(&world->apply, T);
    for (unsigned i = 0; i < STEPS; i++) {
        step(world);
    }
    check_stamps(world);
    assert_true(world->stamped > 1000);
    /* It went through everything. */
    assert_true(world->told[0] > 500);
    assert_true(world->told[-ERR_EXISTS] > 500);
    assert_true(world->told[-ERR_STALE] > 500);
    assert_true(world->heard_late > 5);
    assert_true(world->told[-ERR_CONFLICT] > 50);
    assert_true(world->told[-ERR_CLOCK_SKEW] > 50);
    assert_true(world->told[-ERR_NO_WORKER_ID] > 50);
    assert_true(world->told[-ERR_FENCED] > 50);
    id_apply_load(&world->apply, loaded);
    assert_true(state_digest(fsm_state(loaded)) == state_digest(fsm_state(world->apply.fsm)));
    state_free(fsm_state(loaded));
    for (unsigned i = 0; i < PASTS; i++) {
        buf_free(&world->pasts[i].command);
        buf_free(&world->pasts[i].answer);
    }
    id_apply_free(&world->apply);
    free(world);
}

/* Shows P1-clock. */
static void test_windows_of_random_holders_are_disjoint(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 8; seed++) {
        run(seed);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_windows_of_random_holders_are_disjoint),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
