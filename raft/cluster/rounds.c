/*
 * rounds.c - see rounds.h. Thread: the raft loop.
 */
#include "raft/cluster/rounds.h"

#include <stdlib.h>
#include <string.h>

#include "src/base/assert.h"
#include "src/base/container.h"

void rounds_stop(struct rounds *rounds)
{
    rounds->abandoned_count += rounds->number - rounds->confirmed;
    rounds->confirmed = rounds->number;
    memset(rounds->members, 0, sizeof rounds->members);
    rounds->look = 0;
    rounds->quickest_count = 0;
    timer_cancel(rounds->on->timers, &rounds->late);
}

/* R4: the answers are of this term, or there are none. */
static void follow_term(struct rounds *rounds)
{
    uint64_t term = driver_term(rounds->on->driver);

    if (rounds->term != term) {
        rounds_stop(rounds);
        rounds->term = term;
    }
}

/* The place of a member; that of one that is none any more may be taken. */
static struct round_member *rounds_place_of(struct rounds *rounds, uint64_t id)
{
    struct round_member *unused = NULL;

    for (unsigned i = 0; i < LIMIT_NODES; i++) {
        struct round_member *member = &rounds->members[i];

        if (member->node_id == id) {
            return member;
        }
        if (member->node_id == 0 || driver_member(rounds->on->driver, member->node_id) == NULL) {
            unused = member;
        }
    }
    if (unused != NULL) { /* there is one, as there are no more members than places */
        *unused = (struct round_member){.node_id = id};
    }
    return unused;
}

/* Of this term; 0: it was asked, or has answered, none. */
static struct round_member known_of(const struct rounds *rounds, uint64_t id)
{
    for (unsigned i = 0; i < LIMIT_NODES; i++) {
        if (rounds->members[i].node_id == id) {
            return rounds->members[i];
        }
    }
    return (struct round_member){0};
}

/* --- whom to ask --- */

static bool ask_one(struct rounds *rounds, uint64_t id)
{
    const struct wire_confirm confirm = {rounds->term, rounds->number};
    struct round_member *member = rounds_place_of(rounds, id);

    if (member == NULL || context_send_confirm(rounds->on, id, FRAME_CONFIRM, &confirm) != 0) {
        return false;
    }
    member->asked = rounds->number;
    return true;
}

/* All who were not asked the newest round; or all, once more. */
static void ask_all(struct rounds *rounds, bool once_more)
{
    const struct configuration *conf = driver_configuration(rounds->on->driver);

    MEMBER_FOREACH (member, conf) {
        if (member->id != rounds->on->node_id &&
            (once_more || known_of(rounds, member->id).asked < rounds->number)) {
            (void)ask_one(rounds, member->id);
        }
    }
    rounds->all_asked = true;
}

/* How many voters make a majority with this node, or without it if it has no vote. */
static unsigned needed(const struct rounds *rounds)
{
    const struct configuration *conf = driver_configuration(rounds->on->driver);
    bool votes = configuration_role(conf, rounds->on->node_id) == ROLE_VOTER;

    return configuration_voters(conf) / 2 + (votes ? 0 : 1);
}

/* As many as are needed, the quickest first; false: there are not so many. */
static bool ask_quickest(struct rounds *rounds)
{
    unsigned left = needed(rounds);

    for (unsigned i = 0; i < rounds->quickest_count && left > 0; i++) {
        const struct conf_member *member = driver_member(rounds->on->driver, rounds->quickest[i]);

        if (member != NULL && member->role == ROLE_VOTER && ask_one(rounds, member->id)) {
            left--;
        }
    }
    return left == 0;
}

static void begin_look(struct rounds *rounds)
{
    rounds->look = rounds->number;
    rounds->look_ms = context_now_ms(rounds->on);
    rounds->quickest_count = 0;
}

/* See whether the newest round is confirmed in time, unless an earlier one is watched. */
static void watch(struct rounds *rounds)
{
    const struct raft_context *on = rounds->on;
    uint64_t due_ms = context_now_ms(on) + (rounds->all_asked ? on->driver->config.heartbeat_ms
                                                              : (uint64_t)ROUND_HEDGE_MS);

    if (!timer_is_armed(&rounds->late) || due_ms < rounds->late.due_ms) {
        rounds->watched = rounds->number;
        timer_arm(on->timers, &rounds->late, due_ms);
    }
}

static void on_late(struct timer *timer, uint64_t now_ms)
{
    struct rounds *rounds = CONTAINER(timer, struct rounds, late);

    (void)now_ms;
    if (rounds->confirmed == rounds->number) {
        return;
    }
    if (rounds->confirmed < rounds->watched) {
        const bool once_more = rounds->all_asked;

        begin_look(rounds);
        ask_all(rounds, once_more);
    }
    watch(rounds);
}

bool rounds_are_full(const struct rounds *rounds)
{
    return rounds->number - rounds->confirmed >= LIMIT_ROUNDS;
}

uint64_t rounds_begin(struct rounds *rounds)
{
    ASSERT(!rounds_are_full(rounds));
    follow_term(rounds);
    rounds->number++;
    rounds->all_asked = false;
    if (rounds->look == 0 || context_now_ms(rounds->on) >= rounds->look_ms + ROUND_LOOK_MS) {
        begin_look(rounds);
    }
    if (!ask_quickest(rounds)) {
        ask_all(rounds, false);
    }
    watch(rounds);
    return rounds->number;
}

/* --- answers --- */

static void note_quick(struct rounds *rounds, uint64_t id)
{
    for (unsigned i = 0; i < rounds->quickest_count; i++) {
        if (rounds->quickest[i] == id) {
            return;
        }
    }
    if (rounds->quickest_count < LIMIT_NODES) {
        rounds->quickest[rounds->quickest_count++] = id;
    }
}

static void rounds_note_answer(struct rounds *rounds, uint64_t from, uint64_t number)
{
    struct round_member *member;

    follow_term(rounds);
    if (number > rounds->number || driver_member(rounds->on->driver, from) == NULL) {
        return; /* it was not asked that */
    }
    member = rounds_place_of(rounds, from);
    if (member != NULL && member->answered < number) {
        member->answered = number;
        context_wake(rounds->on, WAKE_REQUESTS);
    }
    if (number >= rounds->look && rounds->look > 0) {
        note_quick(rounds, from);
    }
}

static int newest_first(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;

    return x > y ? -1 : x < y;
}

/* R4: the newest round that a majority of the voters has answered; this node, if it is a voter,
 * agrees with itself. Of the newest configuration. */
static uint64_t majority_answered(const struct rounds *rounds)
{
    const struct configuration *conf = driver_configuration(rounds->on->driver);
    uint64_t numbers[LIMIT_NODES];
    unsigned voters = 0;

    MEMBER_FOREACH (member, conf) {
        if (member->role == ROLE_VOTER && voters < LIMIT_NODES) {
            numbers[voters++] = member->id == rounds->on->node_id
                                    ? rounds->number
                                    : known_of(rounds, member->id).answered;
        }
    }
    qsort(numbers, voters, sizeof *numbers, newest_first);
    return voters > 0 ? numbers[voters / 2] : 0;
}

bool rounds_confirm(struct rounds *rounds, uint64_t *ret_number)
{
    uint64_t answered;

    if (rounds->confirmed == rounds->number) {
        return false;
    }
    follow_term(rounds);
    answered = majority_answered(rounds);
    if (answered <= rounds->confirmed) {
        return false;
    }
    rounds->confirmed_count += answered - rounds->confirmed;
    rounds->confirmed = answered;
    if (rounds->confirmed == rounds->number) {
        timer_cancel(rounds->on->timers, &rounds->late);
    }
    *ret_number = answered;
    return true;
}

bool rounds_receive(struct rounds *rounds, uint64_t from, enum frame_type type,
                    const uint8_t *payload, size_t len)
{
    struct driver *driver = rounds->on->driver;
    struct wire_confirm confirm;

    if (wire_confirm_decode(payload, len, &confirm) != 0 ||
        !trust_term(&driver->trust, from, "confirm_term", confirm.term)) {
        return false;
    }
    if (confirm.term != driver_term(driver)) {
        return true; /* R5 */
    }
    if (type == FRAME_CONFIRM) {
        (void)context_send_confirm(rounds->on, from, FRAME_CONFIRM_ACK, &confirm);
    } else {
        rounds_note_answer(rounds, from, confirm.round);
    }
    return true;
}

void rounds_init(struct rounds *rounds, const struct raft_context *on, uint64_t number)
{
    *rounds = (struct rounds){.on = on, .number = number, .confirmed = number};
    timer_init(&rounds->late, on_late);
    rounds->late.wakes = WAKE_REQUESTS;
}
