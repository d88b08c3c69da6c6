/*
 * node_stop.c - the way of a node to its end (node.h).
 *
 * Draining (leadership is handed over, all is still served; then what is left of the segments is
 * given back) -> writing (all requests were answered, the disk finishes) -> closing (handles) ->
 * closed. Each turn goes as far as it can.
 *
 * Failure modes: nobody takes the leadership over: after the grace the node stops as the leader.
 * Nobody takes segments back: they are burnt.
 *
 * Thread: the raft loop's.
 */
#include <stdlib.h>

#include "raft/node/node_internal.h"
#include "src/base/assert.h"
#include "src/base/log.h"

#define GIVE_BACK_MS 1000 /* what a stop waits for the cluster to take segments back */
#define LED_AGAIN_MAX 3   /* times that leadership is passed on again */

static void closed_one(struct node *node)
{
    ASSERT(node->handles_open > 0);
    if (--node->handles_open > 0) {
        return;
    }
    /* The last requests that were in the mailbox when it closed are answered by now. */
    node->state = NODE_CLOSED;
    replica_close(&node->replica);
    node->stop_cb(node->stop_data);
}

static void handle_closed_cb(uv_handle_t *handle)
{
    closed_one(handle->data);
}

static void net_closed_cb(void *data)
{
    closed_one(data);
}

static void mailbox_closed_cb(struct mailbox *mailbox)
{
    closed_one(mailbox->data);
}

static void begin_closing(struct node *node)
{
    uv_handle_t *handles[] = {(uv_handle_t *)&node->disk_async, (uv_handle_t *)&node->want_async,
                              (uv_handle_t *)&node->prepare, (uv_handle_t *)&node->again,
                              (uv_handle_t *)&node->timer};

    node->state = NODE_CLOSING;
    mailbox_close(&node->mailbox, mailbox_closed_cb); /* runs what waits in it */
    (void)replica_turn(&node->replica);               /* and answers it */
    writer_stop(node->writer);
    node->writer = NULL;
    net_uv_close(node->net, net_closed_cb, node);
    for (size_t i = 0; i < sizeof handles / sizeof handles[0]; i++) {
        uv_close(handles[i], handle_closed_cb);
    }
}

static void log_given_back(const struct node *node)
{
    const struct allocator *allocator = node->replica.allocator;

    log_info("raft", "segments given back", "ids=%llu burnt=%llu",
             (unsigned long long)allocator_returned(allocator),
             (unsigned long long)allocator_burnt(allocator, ID_BURN_STOP));
}

/* Leadership has gone, or the grace is over; and what was left in memory was given back, or burnt
 * because nobody answered in time. */
static bool segments_are_settled(struct node *node)
{
    uint64_t now_ms = clock_now_ms(node->backend.clock);
    uint64_t left_ms = node->grace_until_ms > now_ms ? node->grace_until_ms - now_ms : 0;

    if (!node->drained && left_ms > 0) {
        return false;
    }
    if (!node->gave_back) {
        node->gave_back = true;
        replica_give_back(&node->replica,
                          now_ms + (left_ms < GIVE_BACK_MS ? left_ms : GIVE_BACK_MS));
        (void)replica_turn(&node->replica);
    }
    if (!replica_given_back(&node->replica)) {
        return false;
    }
    log_given_back(node);
    return true;
}

/* Leadership that comes back is passed on, for the other may stop, too, and a third may not; but
 * not for ever: where all nodes stop at once it would go round until they end. */
static void hand_over(struct node *node)
{
    bool over = node->led_again >= LED_AGAIN_MAX || replica_transfer(&node->replica);

    node->led_again += node->drained && !over;
    if (node->led_again >= LED_AGAIN_MAX) {
        replica_transfer_end(&node->replica);
        over = true;
    }
    node->drained = over;
}

void node_continue_stopping(struct node *node)
{
    struct driver *driver = &node->replica.driver;

    if (node->drain && node->state < NODE_WRITING) {
        hand_over(node);
    }
    if (node->state == NODE_DRAINING && segments_are_settled(node)) {
        node->state = NODE_WRITING;
        replica_stop(&node->replica);
        while (replica_turn(&node->replica)) {
            continue;
        }
        driver_quiesce(driver);
    }
    if (node->state == NODE_WRITING && driver_is_quiet(driver)) {
        begin_closing(node);
    }
}

void node_drain(struct node *node)
{
    atomic_store(&node->replica.health.stopping, true);
    node->drain = true;
    node_turn(node);
}

bool node_drained(const struct node *node)
{
    return node->drained;
}

void node_stop(struct node *node, uint32_t grace_ms, void (*cb)(void *data), void *data)
{
    ASSERT(node->state == NODE_RUNNING);
    node->state = NODE_DRAINING;
    node->stop_cb = cb;
    node->stop_data = data;
    node->grace_until_ms = clock_now_ms(node->backend.clock) + grace_ms;
    node_drain(node);
}

void node_free(struct node *node)
{
    ASSERT(node->state == NODE_CLOSED);
    replica_release(&node->replica);
    free(node);
}
