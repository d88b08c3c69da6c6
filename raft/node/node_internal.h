/*
 * node_internal.h - what the node's files share: node.c (start, what comes in, turns) and
 * node_stop.c (the way to the end).
 *
 * Thread: the raft loop's, but for `wanted` and the mailbox.
 */
#ifndef LEAFD_RAFT_NODE_NODE_INTERNAL_H
#define LEAFD_RAFT_NODE_NODE_INTERNAL_H

#include "raft/transport/join.h"
#include "raft/transport/net_uv.h"
#include "raft/node/node.h"
#include "raft/cluster/replica.h"
#include "src/id/alloc/want_list.h"
#include "src/loop/mailbox.h"
#include "storage/writer.h"

enum node_state { NODE_RUNNING, NODE_DRAINING, NODE_WRITING, NODE_CLOSING, NODE_CLOSED };

struct node {
    struct node_config config;
    struct id_backend backend;
    enum node_state state;
    bool drain; /* hand leadership over */
    bool drained;
    unsigned led_again; /* how often leadership came back while this node stops */
    bool gave_back;     /* what is left of the segments was offered to the cluster */
    uint64_t grace_until_ms;
    uv_loop_t *loop;
    struct store *store;
    struct writer *writer;
    struct net_uv *net;
    struct net_receiver receiver;
    struct replica replica;
    struct replica_owner owner;
    struct mailbox mailbox;
    uv_async_t disk_async;
    uv_async_t want_async;
    struct want_list wanted;
    uv_prepare_t prepare;
    uv_idle_t again; /* keeps the loop from waiting while a turn left work */
    uv_timer_t timer;
    unsigned handles_open;
    uint64_t seen_leader;
    int seen_refusal;          /* of snowflake ids */
    struct join_result joined; /* of a node that was let in at this start */
    void (*stop_cb)(void *data);
    void *stop_data;
};

/* Do what has become possible and arm the timer. */
void node_turn(struct node *node);

/* One step further on the way to the end, as far as it goes now. */
void node_continue_stopping(struct node *node);

#endif
