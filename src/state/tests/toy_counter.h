/*
 * toy_counter.h - a machine that counts (machine.h): for each node the sum of what its commands
 * added, and how many there were. It knows nothing of ids: what runs with it runs with any machine.
 * A command that is applied twice, or not at all, shows in the sum.
 *
 * Thread: one.
 */
#ifndef LEAFD_STATE_TESTS_TOY_COUNTER_H
#define LEAFD_STATE_TESTS_TOY_COUNTER_H

#include "src/state/state.h"

#define TOY_COMMAND 40 /* the type of its command, a number that nobody else has */
#define TOY_NODES 8    /* ids 1..7 */

extern const struct machine_ops toy_machine;

struct toy_count {
    uint64_t sum;
    uint64_t commands;
};

/* What the node's commands have come to, in a state with this machine. */
struct toy_count toy_count_of(const struct state *state, uint64_t node_id);

/* Write a command that adds so much, into an empty buf; it is not stamped yet. Its result is a
 * status_result, 0. */
void toy_command_put(struct buf *buf, uint32_t add);

#endif
