/*
 * id_figures.h - what a node measures of itself and of the cluster, once a second: for /metrics and
 * whoever shows the cluster to people. (What is asked at every request is in struct id_health.)
 *
 * The happy path: the raft loop fills in a struct id_figures and puts it into the box; any thread
 * takes a copy, at most a second old while the node has something to do, without asking the raft
 * loop: also from one that hangs.
 *
 * Failure modes: none. The lock is held while a few kB are copied.
 *
 * Thread: put: the raft loop; copy: any.
 */
#ifndef LEAFD_ID_BACKEND_ID_FIGURES_H
#define LEAFD_ID_BACKEND_ID_FIGURES_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/base/limits.h"
#include "src/base/stats.h"
#include "src/state/codec/cluster_command.h"

#define ID_BUSIEST_TAGS 20
#define ID_VERSION_BYTES 32

/* A member, as this node sees it. */
struct id_member_figures {
    uint64_t id;
    bool voter;
    bool reachable;                 /* this node has a link to it (itself: true) */
    bool has_match;                 /* this node leads, and knows: */
    uint64_t match_index;           /* how far its log is the same */
    bool has_rtt;                   /* it answered in the last CLOCK_SAMPLE_FRESH_MS: */
    uint64_t rtt_us;                /* there and back, of the last question */
    bool has_clock;                 /* the same, and soon enough to tell: */
    int64_t clock_off_ms;           /* its clock is ahead of this node's; behind: negative */
    struct level_range levels;      /* that it speaks; zeros until it registered */
    char version[ID_VERSION_BYTES]; /* "" until it registered */
};

/* One of the tags of which this node hands out most. */
struct id_tag_figures {
    char name[LIMIT_TAG_NAME_BYTES + 1];
    uint16_t name_len;
    double per_s;     /* ids, by this node, of late */
    double ends_s;    /* until its ids end, at the rate at which all nodes use them */
    uint64_t lasts_s; /* what this node holds; UINT64_MAX: it has no segments */
    uint32_t cover_s; /* how long that is to be at least; 0: not said */
    bool is_short;    /* it is less, also after refills (src/id/alloc/usage.h) */
};

/* The data directory and its file, as the writer saw them last; zeros: not known. */
struct id_disk_figures {
    uint64_t map_bytes;  /* what the file may grow to: data.map-bytes */
    uint64_t used_bytes; /* of it */
    uint64_t disk_bytes; /* of the file system */
    uint64_t disk_free_bytes;
    uint64_t views_ended;         /* backups and snapshots, to have room, since the start */
    struct histogram_view commit; /* from the first operation of a commit until all is durable */
    struct histogram_view flush;  /* of this, writing and syncing */
};

/* Backups that were taken of this node since its start. */
struct id_backup_figures {
    uint64_t taken;
    uint64_t failed;     /* begun, and given up */
    uint64_t last_ms;    /* when the last one was whole, of wall clock; 0: none was */
    uint64_t last_bytes; /* of that one */
};

struct id_figures {
    unsigned role;      /* enum id_node_state */
    uint64_t leader_id; /* 0: none known */
    uint64_t term;
    uint64_t commit_index;
    uint64_t applied_index;
    uint64_t last_index;          /* of the log, */
    uint64_t log_entries;         /* that it has in memory, */
    uint64_t log_bytes;           /* and what they take */
    uint64_t elections;           /* that this node stood for, since its start */
    uint64_t leaderships;         /* and won */
    uint64_t snapshots_sent;      /* to others, whole */
    uint64_t snapshots_received;  /* and installed */
    uint64_t compactions;         /* the log was cut behind rows on the disk */
    uint64_t workers;             /* worker ids that somebody holds */
    uint64_t worker_names_shared; /* names under which there are several now */
    uint64_t requests_pending;    /* that this node holds for the cluster */
    uint64_t refills_in_flight;   /* tags */
    uint64_t ids_granted;         /* in segments, to this node */
    uint64_t covers_short;        /* tags that last less than their cover_s, also after refills */
    uint64_t windows;             /* of monotonic tags, that this node has as the leader, */
    uint64_t window_ids;          /* and what is left in them */
    uint64_t window_entries;      /* that asked for more of them */
    uint64_t window_waits;        /* batches that had to wait for one */
    uint64_t rounds_confirmed;    /* by which it heard that it leads, */
    uint64_t rounds_abandoned;    /* or did not */
    struct histogram_view refill; /* from the question to the segment */
    struct histogram_view strict; /* from the request to its ids, or its refusal */
    struct id_disk_figures disk;
    struct id_backup_figures backups;
    size_t member_count;
    struct id_member_figures members[LIMIT_NODES];
    size_t busiest_count;
    struct id_tag_figures busiest[ID_BUSIEST_TAGS]; /* fastest first */
};

struct id_figures_box {
    pthread_mutex_t mutex;
    struct id_figures now;   /* guarded by mutex, as what follows */
    struct client_cuts cuts; /* put when they change, before loops are woken (id_waker) */
};

static inline void id_figures_put(struct id_figures_box *box, const struct id_figures *figures)
{
    (void)pthread_mutex_lock(&box->mutex);
    box->now = *figures;
    (void)pthread_mutex_unlock(&box->mutex);
}

static inline void id_figures_copy(struct id_figures_box *box, struct id_figures *ret_figures)
{
    (void)pthread_mutex_lock(&box->mutex);
    *ret_figures = box->now;
    (void)pthread_mutex_unlock(&box->mutex);
}

static inline void id_cuts_put(struct id_figures_box *box, const struct client_cuts *cuts)
{
    (void)pthread_mutex_lock(&box->mutex);
    box->cuts = *cuts;
    (void)pthread_mutex_unlock(&box->mutex);
}

static inline void id_cuts_copy(struct id_figures_box *box, struct client_cuts *ret_cuts)
{
    (void)pthread_mutex_lock(&box->mutex);
    *ret_cuts = box->cuts;
    (void)pthread_mutex_unlock(&box->mutex);
}

#endif
