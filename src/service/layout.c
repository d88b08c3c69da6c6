/*
 * layout.c - see layout.h. Thread: the raft loop.
 */
#include "src/service/layout.h"

#include "src/base/log.h"

#define LAYOUT_AGAIN_MS 100 /* a layout that the log refuses is not proposed in every turn */

static void layout_propose(struct layout *layout)
{
    const struct raft_context *on = layout->context->on;
    struct buf payload = BUF_INIT;

    if (layout->config->threshold_ms == 0 || layout->command.in_flight ||
        timer_is_armed(&layout->pause) || !driver_leads(on->driver)) {
        return;
    }
    command_put(&payload, COMMAND_LAYOUT, &layout->config->layout);
    context_arm_in(on, &layout->pause, LAYOUT_AGAIN_MS);
    node_command_send(&layout->command, on, &payload, false);
}

static void layout_compare(struct layout *layout, const struct snowflake_layout *known)
{
    const struct snowflake_layout *setting = &layout->config->layout;

    layout->compared = true;
    layout->differs = layout->config->workers > 0 && !(snowflake_bits_equal(setting, known) &&
                                                       setting->epoch_ms == known->epoch_ms);
    if (layout->differs) {
        log_warn("raft", "the layout of snowflake ids is not what the log knows, which holds",
                 "setting=%u+%u+%u log=%u+%u+%u epoch_ms=%llu log_epoch_ms=%llu hint=\"it is fixed "
                 "at the cluster's first start: correct snowflake.layout\"",
                 setting->time_bits, setting->worker_bits, setting->sequence_bits, known->time_bits,
                 known->worker_bits, known->sequence_bits, ull(setting->epoch_ms),
                 ull(known->epoch_ms));
    }
}

void layout_turn(struct layout *layout)
{
    struct snowflake_layout known;

    if (layout->compared) {
        return;
    }
    if (fsm_layout(layout->context->fsm, &known)) {
        layout_compare(layout, &known);
    } else {
        layout_propose(layout);
    }
}

void layout_init(struct layout *layout, struct id_context *context,
                 const struct lease_config *config)
{
    *layout = (struct layout){.context = context,
                              .config = config,
                              .command.wakes = WAKE_LAYOUT,
                              .pause.wakes = WAKE_LAYOUT};
}
