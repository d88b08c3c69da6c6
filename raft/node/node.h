/*
 * node.h - one node of the cluster on a uv loop: a replica with its service, links and disk.
 *
 * Lifecycle: node_start() loads the store and begins; node_drain() hands leadership over while
 * everything is still served; node_stop() answers all pending requests, writes queued data, closes
 * links and writer, and calls back; node_free() frees the memory. Between the callback and
 * node_free() other threads may still post to the mailbox, which refuses (ERR_SHUTTING_DOWN). So
 * the order of a stop is: node_drain, http_server_drain, node_stop, (callback) http_server_stop,
 * node_free, close the store.
 *
 * Failure modes: anything after which the node must not continue (a failed commit, an error of the
 * consensus core, a diverged state) calls `failed` of the replica's listeners, which must end the
 * process.
 *
 * Thread: the loop's, except node_mailbox(), node_wake(), and `failed` from the writer.
 */
#ifndef LEAFD_RAFT_NODE_NODE_H
#define LEAFD_RAFT_NODE_NODE_H

#include <uv.h>

#include "raft/cluster/replica.h"
#include "raft/transport/net_keys.h"
#include "src/base/container.h"
#include "storage/store.h"

struct node;

struct node_peers {
    struct net_peer peers[LIMIT_NODES];
    size_t count;
};

/* What an operator sets (docs/configuration.md). Strings are not NULL. */
struct node_settings {
    uint64_t node_id; /* 1..LIMIT_NODE_ID, one of members unless it joins */
    const char *cluster_id;
    struct net_key_source keys; /* with which nodes authenticate each other */
    const char *listen_address; /* for peers, "host:port" */
    const char *peer_address;   /* where the others reach this node */
    const char *http_address;   /* reported to the others, for GET /api/cluster */
    const char *zone;           /* reported to the others; "": none */
    struct node_peers members;  /* the first configuration, the same on all nodes; used only while
                                   the store is new, later the log's applies */
    struct node_peers
        join; /* members that a joining node asks while its store is empty; their ids do
                               not matter. None: this node does not join */
    bool bootstrap_single;         /* members may be this node alone, which then begins a cluster */
    struct replica_config replica; /* the rest of it is filled in */
};

/* Load the store and start. A node that joins a cluster first waits for admission, without a limit.
 * 0; load errors (ERR_CORRUPT, ...); net errors (ERR_EXISTS: address in use); ERR_REMOVED,
 * ERR_WRONG_NODE, ERR_OTHER_BIRTH, ERR_NEWER or ERR_REFUSED: not admitted; ERR_SHUTTING_DOWN: a
 * signal ended the join; ERR_INVALID: unreadable keys, or settings that do not fit the store. On
 * failure *ret_error has the reason, and nothing is left. Settings, listener and service are
 * borrowed until node_free(). */
int node_start(uv_loop_t *loop, const struct node_settings *settings,
               struct replica_listener *listener, struct store *store, struct service *service,
               struct node **ret_node, struct store_error *ret_error) MUST_CHECK;

/* Use new keys (net_keys_make()) from now on, without a restart; takes ownership
 * (net_uv_set_keys()). False: the node had these keys already. On the loop. */
bool node_keys_commit(struct node *node, struct net_keys *keys, unsigned *ret_renewed);

/* When the certificate for other nodes ends, in seconds of Unix time; 0: there is none. On the
 * loop. */
int64_t node_keys_until_s(const struct node *node);

/* How other threads reach the service: items are run on the loop, LIMIT_MAILBOX_ITEMS at a time.
 * Any thread; valid until node_free(). */
struct mailbox *node_mailbox(struct node *node);

/* Begin a turn of the loop, which calls service_ops.woken. Any thread; cheap; never blocks. */
void node_wake(struct node *node);

/* replica_drain(). Idempotent. */
void node_drain(struct node *node);

/* True once there is no leadership to hand over (any more). */
bool node_drained(const struct node *node);

/* Stop: leadership is handed over (waiting at most grace_ms), new and pending requests get
 * ERR_SHUTTING_DOWN, links and writer are closed. cb is called on the loop when all is closed. */
void node_stop(struct node *node, uint32_t grace_ms, void (*cb)(void *data), void *data);

/* After node_stop()'s callback, when no other thread uses the node any more. */
void node_free(struct node *node);

#endif
