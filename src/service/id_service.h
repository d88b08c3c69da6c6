/*
 * id_service.h - ids over a cluster: the service of a replica (raft/cluster/service.h), composed of
 * the parts that hand out ids and those that show their use.
 *
 *   allocator, strict, lease   segments, strict and monotonic ids, worker ids
 *   windows                    what it answers as the leader
 *   prefetch, recalls,         what it does by itself
 *   layout, dates
 *   buffers, backups           requests of other kinds
 *   growth, health,            what others may see
 *   change_log
 *
 * The happy path: id_service_init(); replica_start() with its `base`; id_service_submit() for each
 * request of a client. The cluster serves most kinds (raft_context.submit).
 *
 * Failure modes: those of replica_start(): ERR_CORRUPT and others for a lease that cannot be read.
 *
 * Thread: the raft loop, but for want().
 */
#ifndef LEAFD_SERVICE_ID_SERVICE_H
#define LEAFD_SERVICE_ID_SERVICE_H

#include "raft/cluster/context.h"
#include "raft/cluster/replica.h"
#include "src/id/alloc/allocator.h"
#include "src/id/alloc/prefetch.h"
#include "src/id/alloc/strict.h"
#include "src/id/alloc/id_table.h"
#include "src/service/backups.h"
#include "src/service/buffers.h"
#include "src/service/dates.h"
#include "src/service/health.h"
#include "src/service/window.h"

struct id_service_config {
    struct allocator_config allocator;
    uint32_t strict_keys;            /* 1..LIMIT_KEYS: idempotency keys the cluster may hold */
    uint32_t key_percent;            /* 1..100: of these, for one client */
    struct lease_config lease;       /* workers 0: no snowflake ids */
    struct prefetch_config prefetch; /* tags 0: none is kept */
    uint32_t refill_percent;         /* see id_backend.h */
};

/* Tags that leave trend mode: this node must report that it holds no segment of them. */
struct recalls {
    struct node_command command;
    bool look;                        /* some may wait for this node */
    char after[LIMIT_TAG_NAME_BYTES]; /* the last tag that was named; empty: from the start */
    uint16_t after_len;
};

/* The layout of snowflake ids: the leader of the first term puts its setting into the log, which
 * holds from then on. A node with another setting reports the difference and runs on. */
struct layout {
    struct node_command command;
    bool compared; /* the setting, with the log's */
    bool differs;
};

struct id_service {
    struct service base;
    struct id_service_config config;
    struct id_context context;
    struct replica *replica; /* NULL before its start */
    uint8_t agreed[64];      /* the layout, as service.agreed has it */
    struct fsm_listener listener;
    struct id_table *table;
    struct allocator *allocator;
    struct want_list wanted; /* tags, by threads of http/ */
    struct strict *strict;
    struct windows *windows;    /* of the leader */
    struct window_taken *taken; /* during the answer of a batch */
    uint64_t windows_until_ms;  /* before a transfer: the wait for returned ids ends then */
    struct prefetch *prefetch;  /* of the tags served lately */
    struct snowflake snowflake;
    struct lease *lease;
    struct lease_disk lease_disk;
    struct layout layout;
    struct recalls recalls;
    struct dates dates;
    struct growth growth;
    struct backups backups;
    struct buffers buffers;
    struct health health;
    struct timer figures_due;
    struct change_log change_log;
    struct id_waker *waker; /* NULL: no loop waits for news of cuts */
    uint64_t cut_changes;   /* of the state, as the loops know it; 0: notify anew */
    int seen_refusal;       /* of snowflake ids */
    uint64_t zones_seen;    /* hash of the pools of worker ids, and of where the members are */
    unsigned zone_looks;    /* in a row that saw the same */
};

/* Call before the state is loaded, since it sets the state's machine. config is copied; the data
 * that it points to is borrowed. In the lease's config node and store are the replica's, and also
 * the address if it is NULL. What replica_start() begins is ended by replica_close() and
 * service_ops.release. */
void id_service_init(struct id_service *service, const struct id_service_config *config);

/* Any kind of request, also before the next turn of the replica; done() comes from there. */
void id_service_submit(struct id_service *service, struct cluster_request *request);

#endif
