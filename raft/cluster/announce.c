/*
 * announce.c - see announce.h. Thread: the raft loop.
 */
#include "raft/cluster/announce.h"

#include <string.h>

#include "src/base/assert.h"
#include "src/base/container.h"
#include "src/id/codec/command.h"

#define REGISTER_AGAIN_MS 1000
#define DIGEST_QUIET 12       /* where nothing changes, digests are compared every so many times */
#define RECALLED_AGAIN_MS 100 /* longer than a follower takes to apply what it has proposed */
#define RECALLED_SLOWLY_MS 5000 /* the log does not reach a node that is cut off from its leader */

/* --- its registration --- */

static void on_registered(struct node_command *command, int status)
{
    struct announce *announce = CONTAINER(command, struct announce, registration);

    (void)status; /* the row tells */
    ground_arm_in(announce->on, &announce->registration_pause, REGISTER_AGAIN_MS);
}

static bool is_registered(const struct announce *announce)
{
    const struct node_info *info = announce->info;
    struct node_info known;

    return info->node_id == 0 ||
           (state_node(announce->on->state, info->node_id, &known) &&
            known.store_id == info->store_id && known.incarnation == info->incarnation &&
            known.levels.min == info->levels.min && known.levels.max == info->levels.max &&
            strcmp(known.http_address, info->http_address) == 0 &&
            strcmp(known.version, info->version) == 0 &&
            strcmp(known.peer_address, info->peer_address) == 0);
}

static void register_node(struct announce *announce)
{
    struct buf payload = BUF_INIT;

    if (announce->registration.in_flight || timer_is_armed(&announce->registration_pause) ||
        !way_is_known(announce->way) || is_registered(announce)) {
        return;
    }
    cluster_command_put(&payload, COMMAND_NODE_INFO, announce->info);
    node_command_send(&announce->registration, announce->on, &payload, false);
}

/* --- digests --- */

/* The leader has every node compare its state at an equal index. */
static void compare_digests(struct announce *announce)
{
    struct driver *driver = announce->on->driver;
    uint64_t applied = driver_applied(driver)->index;
    struct buf payload = BUF_INIT;

    if (!driver_leads(driver)) {
        announce->digest_index = 0;
        return;
    }
    if (announce->digest_ms == 0 || announce->digest.in_flight ||
        timer_is_armed(&announce->digest_pause)) {
        return;
    }
    ground_arm_in(announce->on, &announce->digest_pause, announce->digest_ms);
    /* Since then nothing but the comparison itself: a quiet cluster writes little for it. */
    if (announce->digest_index != 0 && applied <= announce->digest_index + 1 &&
        ++announce->digest_skipped < DIGEST_QUIET) {
        return;
    }
    announce->digest_index = applied;
    announce->digest_skipped = 0;
    cluster_command_put(
        &payload, COMMAND_DIGEST,
        &(struct digest_command){.index = applied, .digest = state_digest(announce->on->state)});
    node_command_send(&announce->digest, announce->on, &payload, false);
}

/* --- tags on their way to strict mode --- */

void announce_tag_changed(struct announce *announce, const struct tag_row *row)
{
    struct announce_recalled *recalled = &announce->recalled;

    if (row->recalling) {
        recalled->look = true;
        recalled->after_len = 0;
        timer_cancel(announce->on->timers, &recalled->pause);
    }
}

static void on_recalled_said(struct node_command *command, int status)
{
    struct announce *announce = CONTAINER(command, struct announce, recalled.command);

    if (status != 0) {
        announce->recalled.after_len = 0;
        ground_arm_in(announce->on, &announce->recalled.pause, RECALLED_AGAIN_MS);
    }
}

/* What the command says must be true when it is proposed: the allocator has heard of the row. */
static void assert_dropped(const struct announce *announce, const struct tag_row *row)
{
    struct id_tag *tag = id_table_find(announce->table, row->name, row->name_len);

    if (tag != NULL) {
        ASSERT(tag->refill.generation >= row->generation);
        ASSERT_IMPLIES(tag->refill.generation == row->generation, segment_left(&tag->buffer) == 0);
    }
}

/* The next of the tags that wait for this node, as many as a command takes; 0: none. */
static unsigned gather_recalled(struct announce *announce, struct buf *payload)
{
    const struct ground *on = announce->on;
    struct announce_recalled *recalled = &announce->recalled;
    const struct tag_row *row =
        fsm_recall_next(on->fsm, on->node_id, recalled->after, recalled->after_len);
    unsigned count = 0;

    if (row == NULL) {
        return 0;
    }
    command_put(payload, COMMAND_RECALLED, NULL);
    while (row != NULL && count < LIMIT_GRANTS_PER_ENTRY) {
        struct recalled_item item = {row->name, row->name_len, row->generation};

        assert_dropped(announce, row);
        command_item_put(payload, COMMAND_RECALLED, &item);
        ASSERT(row->name_len <= sizeof recalled->after);
        recalled->after_len = row->name_len;
        memcpy(recalled->after, row->name, row->name_len);
        row = fsm_recall_next(on->fsm, on->node_id, recalled->after, recalled->after_len);
        count++;
    }
    ASSERT(count > 0);
    command_items_end(payload);
    return count;
}

/* Say of all tags that wait for it that this node holds nothing of them. A follower applies what it
 * has said later than the leader: it goes through all tags once, and again after a pause, until
 * none waits. */
static void say_recalled(struct announce *announce)
{
    struct announce_recalled *recalled = &announce->recalled;
    struct buf payload = BUF_INIT;

    if (!recalled->look || recalled->command.in_flight || timer_is_armed(&recalled->pause) ||
        !way_is_known(announce->way)) {
        return;
    }
    if (gather_recalled(announce, &payload) == 0) {
        recalled->look = recalled->after_len > 0;
        recalled->after_len = 0;
        ground_arm_in(announce->on, &recalled->pause,
                      way_is_direct(announce->way) ? RECALLED_AGAIN_MS : RECALLED_SLOWLY_MS);
        return;
    }
    node_command_send(&recalled->command, announce->on, &payload, false);
}

/* --- turns --- */

void announce_turn(struct announce *announce)
{
    register_node(announce);
    compare_digests(announce);
    say_recalled(announce);
}

void announce_init(struct announce *announce, const struct ground *on, const struct way *way,
                   struct id_table *table, const struct node_info *info, uint32_t digest_ms)
{
    *announce = (struct announce){.on = on,
                                  .way = way,
                                  .table = table,
                                  .info = info,
                                  .digest_ms = digest_ms,
                                  .registration.on_done = on_registered,
                                  .recalled.look = true, /* also after a restart */
                                  .recalled.command.on_done = on_recalled_said};
    ground_arm_in(announce->on, &announce->digest_pause, digest_ms);
}
