/*
 * id_service.h - ids over a cluster: what is handed to a replica as its service
 * (raft/cluster/service.h), put together from the parts that hand out ids, and from those that show
 * what has become of them.
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
 * request of a client. Those that the cluster serves go on as a struct cluster_request.
 *
 * Failure modes: those of replica_start(): ERR_CORRUPT and others of a lease that does not read.
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
#include "src/service/change_log.h"
#include "src/service/dates.h"
#include "src/service/health.h"
#include "src/service/window.h"

struct id_service_config {
    struct allocator_config allocator;
    uint32_t strict_keys;            /* 1..LIMIT_KEYS: idempotency keys the cluster may hold */
    uint32_t key_percent;            /* 1..100: of them, that one client may have */
    struct lease_config lease;       /* workers 0: no snowflake ids */
    struct prefetch_config prefetch; /* tags 0: none is kept */
    uint32_t refill_percent;         /* see id_backend.h */
};

/* Tags that leave trend mode: this node is to say that it holds no segment of them. */
struct recalls {
    struct node_command command;
    bool look;                        /* there may be some that wait for this node */
    struct timer pause;               /* armed: all were looked at a moment ago */
    char after[LIMIT_TAG_NAME_BYTES]; /* the last tag that was named; empty: from the start */
    uint16_t after_len;
};

/* The layout of snowflake ids: the leader of the first term puts its setting into the log, which
 * holds from then on; a node whose setting is another one says so, which stops nothing. */
struct layout {
    struct node_command command;
    struct timer pause; /* armed: it was proposed a moment ago */
    bool compared;      /* the setting, with the log's */
    bool differs;
};

struct id_service {
    struct service base;
    struct id_service_config config;
    struct id_context context;
    struct replica *replica; /* NULL before its start */
    uint8_t agreed[64];      /* the layout, as service.agreed has it */
    struct fsm_listener listener;
    struct replica_listener hears;
    struct id_table *table;
    struct allocator *allocator;
    struct want_list wanted; /* tags, by threads of http/ */
    struct strict *strict;
    struct windows *windows;    /* of the leader */
    struct window_taken *taken; /* while a batch is answered */
    uint64_t windows_until_ms;  /* before a transfer, for no longer is waited for what they give
                                   back */
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
    uint64_t cut_changes;   /* of the state, as the loops know them; 0: anew */
    int seen_refusal;       /* of snowflake ids */
    bool recalled;          /* the tag that is being changed is on its way to strict */
    bool changes;           /* it was there before, */
    uint64_t max_id_before; /* with this one */
};

/* Before the state is loaded, whose machine it names. config is copied; what it points to is
 * borrowed. Of the lease's, node and store are the replica's, and the address too where it is NULL.
 * What is begun by replica_start() is ended by replica_close() and replica_release(). */
void id_service_init(struct id_service *service, const struct id_service_config *config);

/* Any kind of id_request, also before the next turn of the replica; done() comes from there. */
void id_service_submit(struct id_service *service, struct id_request *request);

#endif
