/*
 * lease_world.h - leases under test: a few nodes with one log between them, each with its own
 * clock, disk and copy of the state machine, in a time that moves only when the test says so.
 *
 * The log is real (a state machine decides what every command gives), and so are the sessions: a
 * node stamps its commands as it does in a cluster, each start being another incarnation, and one
 * without an answer is sent again with the same stamp. What can go wrong is up to the test: no
 * quorum, a node cut off, answers that are lost, a copy that lags, a disk that stands still, clocks
 * that jump, crashes that lose what was not durable, or keep it.
 *
 * Every id claimed is held against the disk and the log at once (its time is within a durable mark
 * and a granted window), and against all others by lease_world_check().
 *
 * Thread: one.
 */
#ifndef LEAFD_ID_SNOWFLAKE_TESTS_LEASE_WORLD_H
#define LEAFD_ID_SNOWFLAKE_TESTS_LEASE_WORLD_H

#include "src/id/fsm/fsm.h"
#include "src/id/snowflake/lease.h"
#include "src/id/tests/id_stamp.h"

#define LEASE_WORLD_NODES 3
#define LEASE_WORLD_START_MS 1700000000000ULL /* the true wall time at the start */
#define LEASE_WORLD_WINDOW_MS 60000
#define LEASE_WORLD_RENEW_MS 3000
#define LEASE_WORLD_LEAD_MS 1000
#define LEASE_WORLD_THRESHOLD_MS 1000
#define LEASE_WORLD_DISK_MS 2      /* how long a write takes */
#define LEASE_WORLD_LOG_MS 3       /* how long a command takes */
#define LEASE_WORLD_SOON_MS 50     /* an acquire and a write */
#define LEASE_WORLD_REPEAT_MS 1000 /* no answer for so long: it is sent again */

struct lease_world_write {
    bool busy;
    uint64_t due_ms; /* true time */
    struct buf bytes;
    void (*done)(void *data);
    void *done_data;
};

struct lease_node {
    struct lease_world *world;
    uint64_t id;
    uint64_t store_id;
    bool up;
    bool cut;          /* no quorum, no samples, no news of the log */
    bool deaf;         /* commands are applied, their answers are lost */
    bool lagging;      /* its state machine stands still */
    bool disk_stuck;   /* writes do not end */
    bool answers_held; /* commands wait */
    int64_t off_ms;    /* its wall clock against the true time */
    bool due;          /* something happened: a turn comes next */
    struct clock clock;
    struct snowflake snowflake;
    struct clock_check check;
    struct id_proposer proposer;
    struct timers timers;
    struct lease_disk disk;
    struct lease *lease;
    struct cluster_request *requests[LIMIT_WORKERS_PER_NODE]; /* under way; NULL: free */
    uint64_t seqs[LIMIT_WORKERS_PER_NODE];                    /* their stamps' */
    uint64_t lowests[LIMIT_WORKERS_PER_NODE];
    uint64_t send_ms[LIMIT_WORKERS_PER_NODE]; /* when it is in the log next; true time */
    bool sent[LIMIT_WORKERS_PER_NODE];        /* it was there */
    uint64_t starts;
    struct session session; /* of this incarnation */
    struct fsm *fsm;
    struct fsm_listener listener;
    size_t applied;                                    /* entries of the log */
    struct buf records[LIMIT_WORKERS_PER_NODE];        /* what is durable */
    struct lease_record found[LIMIT_WORKERS_PER_NODE]; /* at the start of this incarnation */
    struct lease_world_write writes[LIMIT_WORKERS_PER_NODE];
    unsigned write_count;    /* writes begun, in all incarnations */
    unsigned proposal_count; /* in all incarnations */
};

struct lease_world {
    uint64_t true_ms;
    uint64_t news_ms; /* when clocks are next compared and told to the log */
    struct lease_config config;
    bool log_down;    /* no quorum for anybody */
    bool clock_mute;  /* the log is not told the time */
    bool samples_off; /* peers are not asked for theirs */
    struct fsm *log;
    struct buf *entries;
    size_t entry_count;
    size_t entry_capacity;
    struct id_stamps stamps;      /* of commands by somebody else */
    bool copies;                  /* every command that came leaves a late copy of itself */
    struct buf ghosts;            /* commands that are yet to come: u32 length and bytes */
    struct segment_range *ranges; /* all that was ever claimed */
    size_t range_count;
    size_t range_capacity;
    uint64_t random;
    size_t node_count;
    struct lease_node nodes[LEASE_WORLD_NODES];
};

/* All nodes are up, have a layout and time from the log, and nothing else yet. */
struct lease_world *lease_world_new(size_t nodes, uint32_t workers);
/* With a layout of its own and/or other settings: before the first start. */
struct lease_world *lease_world_new_config(size_t nodes, const struct lease_config *config);
void lease_world_free(struct lease_world *world);

/* Every node serves. */
struct lease_world *lease_world_served(size_t nodes, uint32_t workers);

/* Let time pass, in whole events. */
void lease_world_run(struct lease_world *world, uint64_t ms);
/* Run until every node that is up serves all its worker ids; fails the test after max_ms. */
void lease_world_settle(struct lease_world *world, uint64_t max_ms);

void lease_world_start(struct lease_node *node);
/* Writes under way are lost, or all of them found; commands under way are lost, or come later. */
void lease_world_crash(struct lease_node *node, bool writes_survive, bool commands_survive);
/* While it is down: a new disk. */
void lease_world_wipe(struct lease_node *node);
/* Step its wall clock. */
void lease_world_step_clock(struct lease_node *node, int64_t ms);

/* A command by somebody else, at once; its result is not looked at. */
void lease_world_entry(struct lease_world *world, struct buf *command);
/* The same of a worker id. */
struct worker_result lease_world_command(struct lease_world *world, struct buf *command);
/* A client takes the worker id that this name has; its status. */
int lease_world_steal(struct lease_world *world, enum worker_kind kind, const char *name,
                      uint32_t worker_id);
/* A worker id is released in the name of its holder, which knows nothing of it; used_ms 0: nothing
 * is said of what was used. */
void lease_world_release(struct lease_world *world, uint32_t worker_id, uint64_t used_ms);
/* The log is what it was after its first entries, as after a restore from a backup; the nodes hear
 * nothing of that but by the answers to their commands. */
void lease_world_restore(struct lease_world *world, size_t entries);
/* Apply the commands of ended incarnations, and late copies. */
void lease_world_ghosts(struct lease_world *world);

/* Claim; the range is kept and checked. */
int lease_world_claim(struct lease_node *node, uint32_t count, struct segment_range *ret_range);
/* Claim one, and fail the test if it cannot be had now; its parts. */
struct snowflake_parts lease_world_id(struct lease_node *node);
/* Claim one as an HTTP loop would: again each millisecond, for max_ms. The last error. */
int lease_world_wait_id(struct lease_node *node, uint64_t max_ms, struct snowflake_parts *ret_id);

uint64_t lease_world_wall(const struct lease_node *node);
struct lease_status lease_world_status(const struct lease_node *node);
/* The durable record k; fails the test if there is none. */
struct lease_record lease_world_record(const struct lease_node *node, unsigned k);
/* The log's row of the worker id in record k. */
const struct worker_row *lease_world_row(struct lease_world *world, const struct lease_node *node,
                                         unsigned k);

/* No id was claimed twice, by anybody, ever. */
void lease_world_check(const struct lease_world *world);
/* That, and then it is freed. */
void lease_world_over(struct lease_world *world);

#endif
