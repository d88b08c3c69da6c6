/*
 * doubt.c - see doubt.h. Thread: the raft loop.
 */
#include "raft/cluster/doubt.h"

#include <stdio.h>

#include "raft/core/trust.h"
#include "src/base/assert.h"
#include "src/base/container.h"
#include "src/base/log.h"

#define SINCE_LEVEL 3
#define HAND_OVER_MS 1000

/* --- voters, and what they say --- */

/* By the configuration that is applied: a leader alone can make another one be in force. */
static void voters_of(const struct doubt *doubt, struct configuration *ret_voters)
{
    struct configuration applied;

    applier_configured(&doubt->on->driver->applier, &applied);
    ret_voters->count = 0;
    MEMBER_FOREACH (member, &applied) {
        if (member->role == ROLE_VOTER) {
            configuration_add(ret_voters, member->id, member->address, ROLE_VOTER);
        }
    }
}

static const struct doubt_voice *voices_find(const struct doubt_voices *voices, uint64_t id)
{
    for (unsigned i = 0; i < LIMIT_NODES; i++) {
        if (voices->of[i].id == id) {
            return &voices->of[i];
        }
    }
    return NULL;
}

static void voices_put(struct doubt_voices *voices, uint64_t id, uint64_t value)
{
    const struct doubt_voice *own = voices_find(voices, id);
    const struct doubt_voice *place = own != NULL ? own : voices_find(voices, 0);

    if (place != NULL) { /* else: of nodes that are no voters any more */
        voices->of[place - voices->of] = (struct doubt_voice){id, value};
    }
}

/* --- the question --- */

static void ask_others(struct doubt *doubt)
{
    const struct wire_witness question = {.kind = doubt->kind,
                                          .known = true,
                                          .index = doubt->voices.index,
                                          .value = doubt->kind == WIRE_WITNESS_START
                                                       ? doubt->on->driver->config.incarnation
                                                       : doubt->value};
    struct configuration voters;

    voters_of(doubt, &voters);
    MEMBER_FOREACH (member, &voters) {
        if (member->id != doubt->on->node_id && voices_find(&doubt->voices, member->id) == NULL) {
            (void)ground_send_witness(doubt->on, member->id, FRAME_WITNESS, &question);
        }
    }
}

static void end_doubt(struct doubt *doubt)
{
    timer_cancel(doubt->on->timers, &doubt->again);
    doubt->state = DOUBT_NONE;
}

static void on_compared(struct compare_owner *owner, bool differs, const char *text)
{
    struct doubt *doubt = CONTAINER(owner, struct doubt, compared);
    char whole[DOUBT_TEXT_BYTES + COMPARE_TEXT_BYTES];

    ASSERT(doubt->state == DOUBT_COMPARING);
    end_doubt(doubt);
    log_line(LOG_LEVEL_ERROR, "raft",
             differs ? "the state differs from the cluster's" : "no row that differs was found",
             "index=%llu peer=%llu row=\"%s\"", ull(doubt->voices.index), ull(doubt->partner),
             text);
    snprintf(whole, sizeof whole, "%s; %s", doubt->text, text);
    driver_give_up(doubt->on->driver, doubt->err, whole);
}

/* This node is the one that ends. */
static void is_wrong(struct doubt *doubt, const char *why)
{
    char whole[DOUBT_TEXT_BYTES + 200];

    if (doubt->err == ERR_STALE) {
        end_doubt(doubt);
        doubt->owner->superseded(doubt->owner, doubt->value);
        return;
    }
    if (doubt->err == ERR_DIVERGED && doubt->partner != 0) {
        log_warn("raft", "this node's state is another than the cluster's", "index=%llu why=\"%s\"",
                 ull(doubt->voices.index), why);
        doubt->state = DOUBT_HANDING_OVER;
        doubt->until_ms = ground_now_ms(doubt->on) + HAND_OVER_MS;
        return;
    }
    end_doubt(doubt);
    snprintf(whole, sizeof whole, "%s (%s)", doubt->text, why);
    driver_give_up(doubt->on->driver, doubt->err, whole);
}

/* This node goes on, and who said so lies, or has a wrong state itself. */
static void is_right(struct doubt *doubt)
{
    int err = doubt->err;

    end_doubt(doubt);
    log_line(LOG_LEVEL_ERROR, "raft", "others confirm this node, and not what was said of it",
             "peer=%llu code=%s said=\"%s\"", ull(doubt->from), err_code(err), doubt->text);
    (void)trust_alarm(&doubt->on->driver->trust, doubt->from,
                      err == ERR_DIVERGED       ? "state_digest"
                      : err == ERR_CONTRADICTED ? "committed_entry"
                      : err == ERR_NEWER        ? "snapshot_level"
                                                : "start",
                      doubt->voices.index, doubt->value);
    if (err == ERR_STALE) {
        doubt->owner->not_superseded(doubt->owner);
    } else if (err != ERR_NEWER) {
        driver_believe(doubt->on->driver, doubt->voices.index);
    }
}

/* --- what follows from the answers --- */

struct count {
    unsigned voters;
    unsigned majority;
    unsigned silent; /* others that have not answered */
    unsigned with;   /* others on this node's side, */
    unsigned against;
    unsigned most; /* and of those that say one and the same against it */
    bool votes;    /* this node is a voter */
    uint64_t one;  /* of those with whom it may compare; 0: nobody */
};

static bool is_against(const struct doubt *doubt, uint64_t value)
{
    switch (doubt->kind) {
    case WIRE_WITNESS_STATE:
        return value != doubt->value;
    case WIRE_WITNESS_LEVEL:
        return value > fsm_levels(doubt->on->fsm).max;
    default:
        return value > doubt->on->driver->config.incarnation;
    }
}

static void count_voices(const struct doubt *doubt, struct count *ret_count)
{
    struct configuration voters;
    struct count *count = ret_count;

    *count = (struct count){0};
    voters_of(doubt, &voters);
    count->voters = voters.count;
    count->majority = voters.count / 2 + 1;
    MEMBER_FOREACH (member, &voters) {
        const struct doubt_voice *voice = voices_find(&doubt->voices, member->id);
        unsigned same = 0;

        if (member->id == doubt->on->node_id) {
            count->votes = true;
            continue;
        }
        if (voice == NULL) {
            count->silent++;
            continue;
        }
        if (!is_against(doubt, voice->value)) {
            count->with++;
            continue;
        }
        count->against++;
        MEMBER_FOREACH (other, &voters) {
            const struct doubt_voice *same_voice = voices_find(&doubt->voices, other->id);

            same += same_voice != NULL && other->id != doubt->on->node_id &&
                    (doubt->kind == WIRE_WITNESS_STATE ? same_voice->value == voice->value
                                                       : is_against(doubt, same_voice->value));
        }
        if (same > count->most) {
            count->most = same;
            count->one = 0;
        }
        if (same == count->most && (count->one == 0 || !ground_reaches(doubt->on, count->one))) {
            count->one = member->id;
        }
    }
}

/* Nothing was changed and nothing is lost by waiting: only a majority ends the node. */
static void decide_level(struct doubt *doubt, const struct count *count)
{
    if (count->most >= count->majority || (count->voters <= 2 && count->against > 0)) {
        is_wrong(doubt, "most members say so");
    } else if (count->with + count->votes >= count->majority || count->silent == 0 ||
               ground_now_ms(doubt->on) >= doubt->until_ms) {
        is_right(doubt);
    }
}

static void decide(struct doubt *doubt)
{
    struct count count;

    count_voices(doubt, &count);
    doubt->partner = count.one;
    if (doubt->kind == WIRE_WITNESS_LEVEL) {
        decide_level(doubt, &count);
    } else if (count.with > 0 && count.with + count.votes >= count.majority) {
        is_right(doubt);
    } else if (count.most >= count.majority) {
        is_wrong(doubt, "most members have another");
    } else if (count.silent == 0) {
        is_wrong(doubt, "no majority has one and the same, or there is no third");
    } else if (ground_now_ms(doubt->on) >= doubt->until_ms) {
        is_wrong(doubt, "too few members answered in time to tell who is right");
    }
}

static void on_again(struct timer *timer, uint64_t now_ms)
{
    struct doubt *doubt = CONTAINER(timer, struct doubt, again);

    timer_arm(doubt->on->timers, timer, now_ms + DOUBT_AGAIN_MS);
    if (doubt->state == DOUBT_ASKING) {
        ask_others(doubt);
    }
}

static void begin(struct doubt *doubt, uint8_t kind, uint64_t index, uint64_t value)
{
    doubt->kind = kind;
    doubt->value = value;
    doubt->partner = 0;
    doubt->until_ms = ground_now_ms(doubt->on) + LIMIT_DOUBT_MS;
    doubt->voices = (struct doubt_voices){.index = index};
    doubt->state = DOUBT_ASKING;
    if (fsm_level(doubt->on->fsm) < SINCE_LEVEL) {
        is_wrong(doubt, "below level 3 nobody else can be asked");
        return;
    }
    ask_others(doubt);
    ground_arm_in(doubt->on, &doubt->again, DOUBT_AGAIN_MS);
}

void doubt_about(struct doubt *doubt, const struct driver_doubt *what)
{
    uint64_t index = driver_applied(doubt->on->driver)->index;

    if (doubt->state != DOUBT_NONE) {
        if (what->err == ERR_NEWER) {
            return; /* it is sent again */
        }
        end_doubt(doubt); /* about less than the state */
    }
    doubt->err = what->err;
    doubt->from = what->from;
    snprintf(doubt->text, sizeof doubt->text, "%s", what->text);
    log_warn("raft", "a leader says what is not so here: others are asked", "peer=%llu code=%s",
             ull(what->from), err_code(what->err));
    if (what->err == ERR_NEWER) {
        begin(doubt, WIRE_WITNESS_LEVEL, 0, fsm_level(doubt->on->fsm));
    } else {
        begin(doubt, WIRE_WITNESS_STATE, index, fsm_digest(doubt->on->fsm));
    }
}

void doubt_start(struct doubt *doubt, uint64_t incarnation)
{
    if (doubt->state != DOUBT_NONE) {
        return; /* it is said again */
    }
    doubt->err = ERR_STALE;
    doubt->from = driver_leader(doubt->on->driver);
    snprintf(doubt->text, sizeof doubt->text, "there is a later start of this node, %llu",
             ull(incarnation));
    begin(doubt, WIRE_WITNESS_START, 0, incarnation);
}

/* --- frames --- */

/* What this node knows of what it is asked. */
static bool find_value(const struct doubt *doubt, uint64_t from,
                       const struct wire_witness *question, uint64_t *ret_value)
{
    const struct ground *on = doubt->on;
    const struct peer_seen *seen;

    switch (question->kind) {
    case WIRE_WITNESS_STATE:
        return fsm_digest_at(on->fsm, question->index, ret_value);
    case WIRE_WITNESS_LEVEL:
        *ret_value = fsm_level(on->fsm);
        return true;
    default:
        seen = rollback_find(&on->driver->peers.seen, from);
        *ret_value = fsm_node_start(on->fsm, from);
        if (seen != NULL && seen->incarnation > *ret_value) {
            *ret_value = seen->incarnation;
        }
        return true;
    }
}

/* A node asks that has another state than this one at an index. From a majority of them, all of the
 * same state, this node hears that it is the one that differs. */
static void hear_other(struct doubt *doubt, uint64_t from, const struct wire_witness *question,
                       uint64_t own)
{
    struct configuration voters;
    unsigned same = 0;
    char text[160];

    if (question->index < doubt->heard.index || doubt->on->driver->doubted ||
        doubt->on->driver->applier.installing) {
        return;
    }
    if (question->index > doubt->heard.index) {
        doubt->heard = (struct doubt_voices){.index = question->index};
    }
    voters_of(doubt, &voters);
    if (configuration_find(&voters, from) == NULL) {
        return;
    }
    voices_put(&doubt->heard, from, question->value);
    MEMBER_FOREACH (member, &voters) {
        const struct doubt_voice *voice = voices_find(&doubt->heard, member->id);

        same +=
            voice != NULL && member->id != doubt->on->node_id && voice->value == question->value;
    }
    if (own != question->value && same > voters.count / 2) {
        snprintf(text, sizeof text, "most members have another state than this node at entry %llu",
                 ull(question->index));
        driver_doubt_state(doubt->on->driver,
                           &(struct driver_doubt){ERR_DIVERGED, from, question->index, text});
    }
}

bool doubt_receive(struct doubt *doubt, uint64_t from, const uint8_t *payload, size_t len)
{
    struct wire_witness message;
    struct wire_witness answer;

    if (wire_witness_decode(payload, len, &message) != 0 ||
        !trust_index(&doubt->on->driver->trust, from, "witness_index", message.index)) {
        return false;
    }
    if (message.answer) {
        if (doubt->state == DOUBT_ASKING && message.kind == doubt->kind && message.known &&
            message.index == doubt->voices.index &&
            driver_member(doubt->on->driver, from) != NULL) {
            voices_put(&doubt->voices, from, message.value);
        }
        return true;
    }
    if (doubt->on->driver->failed) {
        return true;
    }
    answer = (struct wire_witness){.kind = message.kind, .answer = true, .index = message.index};
    answer.known = find_value(doubt, from, &message, &answer.value);
    (void)ground_send_witness(doubt->on, from, FRAME_WITNESS, &answer);
    if (message.kind == WIRE_WITNESS_STATE && answer.known) {
        hear_other(doubt, from, &message, answer.value);
    }
    return true;
}

/* --- turns --- */

void doubt_installed(struct doubt *doubt)
{
    if (doubt->state != DOUBT_NONE && doubt->kind == WIRE_WITNESS_STATE) {
        compare_drop(&doubt->compare);
        end_doubt(doubt);
    }
}

/* A leader first hands over: while rows are compared nothing is served. */
static void hand_over(struct doubt *doubt)
{
    if (driver_transfer(doubt->on->driver, 0) || ground_now_ms(doubt->on) >= doubt->until_ms) {
        doubt->state = DOUBT_COMPARING;
        compare_begin(&doubt->compare, doubt->partner, doubt->voices.index, doubt->value);
    }
}

void doubt_turn(struct doubt *doubt)
{
    if (doubt->on->driver->failed) {
        return;
    }
    if (doubt->state == DOUBT_ASKING) {
        decide(doubt);
    }
    if (doubt->state == DOUBT_HANDING_OVER) {
        hand_over(doubt);
    }
    compare_turn(&doubt->compare);
}

void doubt_stop(struct doubt *doubt)
{
    end_doubt(doubt);
    compare_stop(&doubt->compare);
}

void doubt_init(struct doubt *doubt, const struct ground *on, struct disk *disk,
                struct doubt_owner *owner, uint64_t first)
{
    *doubt = (struct doubt){.on = on, .owner = owner, .compared.compared = on_compared};
    compare_init(&doubt->compare, on, disk, &doubt->compared, first);
    timer_init(&doubt->again, on_again);
}
