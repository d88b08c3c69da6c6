/*
 * read_round.c - see read_round.h. Thread: the raft loop.
 */
#include "raft/cluster/read_round.h"

#include "src/base/assert.h"
#include "src/base/container.h"

static void send_confirm(const struct ground *on, uint64_t to, enum frame_type type,
                         const struct wire_confirm *confirm)
{
    struct buf frame = BUF_INIT;

    wire_confirm_encode(confirm, &frame);
    (void)ground_send(on, to, type, &frame);
}

static void ask(struct read_round *round)
{
    const struct ground *on = round->on;
    const struct configuration *conf = driver_configuration(on->driver);
    const struct wire_confirm confirm = {driver_term(on->driver), round->number};

    ASSERT(round->active);
    for (unsigned i = 0; i < conf->count; i++) {
        if (conf->members[i].id != on->node_id) {
            send_confirm(on, conf->members[i].id, FRAME_CONFIRM, &confirm);
        }
    }
    timer_arm(on->timers, &round->again, ground_now_ms(on) + on->driver->config.heartbeat_ms);
}

static void on_again(struct timer *timer, uint64_t now_ms)
{
    (void)now_ms;
    ask(CONTAINER(timer, struct read_round, again));
}

void read_round_init(struct read_round *round, const struct ground *on, uint64_t seed)
{
    *round = (struct read_round){.on = on, .number = seed >> 16};
    timer_init(&round->again, on_again);
}

void read_round_begin(struct read_round *round)
{
    ASSERT(!round->active);
    round->number++;
    round->active = true;
    round->index = round->on->driver->commit;
    round->ack_count = 0;
    ask(round);
}

void read_round_stop(struct read_round *round)
{
    round->active = false;
    timer_cancel(round->on->timers, &round->again);
}

static bool has_acked(const struct read_round *round, uint64_t id)
{
    for (unsigned i = 0; i < LIMIT_NODES && i < round->ack_count; i++) {
        if (round->acks[i] == id) {
            return true;
        }
    }
    return false;
}

bool read_round_is_done(struct read_round *round)
{
    const struct configuration *conf = driver_configuration(round->on->driver);
    unsigned voters = 0;
    unsigned confirmed = 0;

    if (!round->active) {
        return false;
    }
    for (unsigned i = 0; i < conf->count; i++) {
        uint64_t id = conf->members[i].id;

        if (conf->members[i].role == ROLE_VOTER) {
            voters++;
            confirmed += id == round->on->node_id || has_acked(round, id);
        }
    }
    ASSERT(confirmed <= voters);
    if (confirmed < voters / 2 + 1) {
        return false;
    }
    read_round_stop(round);
    return true;
}

bool read_round_receive(struct read_round *round, uint64_t from, enum frame_type type,
                        const uint8_t *payload, size_t len)
{
    struct wire_confirm confirm;

    if (wire_confirm_decode(payload, len, &confirm) != 0 ||
        !driver_believes_term(round->on->driver, from, "confirm_term", confirm.term)) {
        return false;
    }
    if (confirm.term != driver_term(round->on->driver)) {
        return true;
    }
    if (type == FRAME_CONFIRM) {
        send_confirm(round->on, from, FRAME_CONFIRM_ACK, &confirm);
    } else if (round->active && confirm.round == round->number && !has_acked(round, from)) {
        round->acks[round->ack_count++ % LIMIT_NODES] = from;
    }
    return true;
}
