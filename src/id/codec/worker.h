/*
 * worker.h - the registry of worker ids: rows, commands, results, and their bytes.
 *
 * A worker id is an axis of time, as a tag is an axis of ids: a grant moves granted_until_ms up,
 * and the holder of that epoch may stamp ids with times in (granted_from_ms, granted_until_ms].
 *
 * Invariants:
 *  - Windows of one worker id given to different epochs are disjoint and rising: an acquire starts
 *    at the old granted_until_ms or above.
 *  - granted_until_ms never falls, but for a release by the holder itself, down to the last time it
 *    says it used (and never below granted_from_ms). Of a node alone: what a client says of its
 *    past is not believed.
 *  - A renewal carries the epoch (fencing) and the previous bound (compare-and-set).
 *  - Rows of nodes are renewed and released by nodes alone, rows of clients by clients alone: only
 *    the holder knows what it stamped, and a node that is cut off goes on stamping. Others get such
 *    a row once its window is over, and then a window above it. The same holds among clients: the
 *    one that acquired a row owns it while it is held.
 *  - All judgements of time use the log's time (COMMAND_CLOCK, the median of the nodes' clocks) and
 *    what the command carries; apply reads no clock. A command whose time is ahead of the log's by
 *    more than LIMIT_WORKER_AHEAD_MS is refused (ERR_CLOCK_SKEW), so that one wrong clock cannot
 *    poison a worker id for years.
 *
 * Thread: pure functions, any; rows belong to the state machine.
 */
#ifndef LEAFD_ID_CODEC_WORKER_H
#define LEAFD_ID_CODEC_WORKER_H

#include "src/base/buf.h"
#include "src/base/err.h"
#include "src/base/limits.h"
#include "src/id/codec/snowflake_layout.h"

#define WORKER_ID_ANY 0xffffu

enum worker_state { WORKER_HELD = 1, WORKER_RELEASED = 2 };
enum worker_kind { WORKER_NODE = 1, WORKER_CLIENT = 2 }; /* a leafd node's, or somebody else's */

struct worker_row {
    uint16_t id;
    uint8_t state;  /* enum worker_state */
    uint8_t kind;   /* enum worker_kind */
    uint64_t epoch; /* grows by 1 with every acquire */
    uint64_t granted_from_ms;
    uint64_t granted_until_ms;
    uint64_t last_timestamp_ms; /* highest time used, as reported; 0: none */
    uint64_t updated_ms;        /* the log's time */
    uint64_t client;            /* its owner, for which it counts; 0: none */
    uint16_t name_len;          /* 1..LIMIT_WORKER_NAME_BYTES */
    uint16_t address_len;       /* 0..LIMIT_ADDRESS_BYTES */
    char name[LIMIT_WORKER_NAME_BYTES + 1];
    char address[LIMIT_ADDRESS_BYTES + 1];
};

/* The value of its row, whose key holds the id. The name's rule is the tag's (tag_name_check). */
void worker_row_put(struct buf *buf, const struct worker_row *row);
/* ret_row->id is set. As row_read(). */
int worker_row_read(const void *value, size_t len, struct worker_row *ret_row) MUST_CHECK;

/* A client is a hash of its name, or of its address; the lowest bit is set for a name. */
static inline bool client_is(uint64_t a, uint64_t b)
{
    return (a | 1) == (b | 1);
}
static inline bool client_is_named(uint64_t client)
{
    return (client & 1) != 0;
}

/*
 * Pools: of a zone the worker ids that it alone takes; what is in no pool is for all others.
 * Written as "a=0-31,b=32-63". They are of one setting of the cluster, with what a worker id begins
 * at that was never held: a restored cluster does not know which were since its backup.
 *
 * A pool says which worker ids are free for an acquire, never whose one is: a held one stays its
 * holder's, renewed as ever, until its window is over.
 */
struct worker_pool {
    uint16_t first;
    uint16_t last;
    uint16_t zone_len;
    char zone[LIMIT_ZONE_BYTES + 1];
};

struct worker_pools {
    uint32_t count;
    struct worker_pool items[LIMIT_POOLS];
};

#define WORKER_POOLS_WHY_BYTES 256

/* 0; ERR_INVALID: no such text; ERR_CONFLICT: two of them overlap, or are of one zone. why, of
 * WORKER_POOLS_WHY_BYTES, says it for people then. */
int worker_pools_read(const char *text, size_t len, struct worker_pools *ret_pools,
                      char *why) MUST_CHECK;

/* The pool of the zone, or that the worker id is in; NULL: there is none. */
const struct worker_pool *worker_pool_of(const struct worker_pools *pools, const char *zone,
                                         size_t len);
const struct worker_pool *worker_pool_with(const struct worker_pools *pools, uint32_t id);

struct worker_rules {
    uint64_t epoch;    /* of a worker id that was never held */
    uint64_t until_ms; /* its first window begins at or above it */
    uint16_t pools_len;
    char pools[LIMIT_POOLS_BYTES + 1];
};
extern const struct row_format worker_rules_format;

/* COMMAND_WORKER_POOLS: these, in place of those before. Result: a status, ERR_INVALID where
 * worker_pools_read() takes them not. */
struct worker_pools_put {
    const char *pools; /* borrowed */
    uint16_t pools_len;
};

/*
 * Acquire. An id is free when it was never held or its window is over (granted_until_ms is below
 * the log's time). Granted is a given worker_id if it is free, else the lowest free one, else the
 * released one whose window ends first; in a new epoch and above the old window:
 * from = max(old until, floor_ms); until = max(wall_ms, from) + window_ms.
 *
 * A node's name gets its id back, also while it holds it. A node that names another free id than
 * its own gets that one if it holds none; what it leaves is released.
 *
 * A client's name is a label: it gets the free id back that had its name last, but never one that
 * is held, and as many at once as it asks for. One that is not free goes, in a new epoch and above
 * its window, to the name that it has and its owner alone, which must name the id; or by force to
 * whom it names. And not before its present window has begun: so windows never pile up ahead of the
 * clock. ERR_CONFLICT also where they would.
 *
 * A client's id counts for it until its window is over or another takes it, also when released,
 * since no other gets it before. A client may hold as many as `most` says, or that percentage of
 * the worker ids of the layout, the cluster's own or a larger one (at least one). One that has so
 * many, and asks for one more, loses those first whose windows are over: the one that ended first
 * is released, since its old epoch could still renew it. ERR_SHARE: there is none; the result's
 * held and most. An id that it holds already is granted again in any case.
 *
 * The worker ids are those of the cluster's own layout, or where bits is given of a layout with so
 * many. Of one with more bits than the own, those that the own has no room for come first: nodes
 * have no others. An acquire that names a zone with a pool takes from that alone, each other
 * from what is in no pool (ERR_CONFLICT without a row: the given one is not among those).
 *
 * ERR_NO_WORKER_ID (all held, or beyond the layout's worker bits), ERR_CONFLICT (the given one is
 * held by another name, the name holds another one, or it is another kind of holder's: the result's
 * row), ERR_CLOCK_SKEW (wall_ms more than LIMIT_WORKER_AHEAD_MS, floor_ms more than
 * LIMIT_WINDOW_MAX_MS or until more than both ahead of the log's time), ERR_INVALID (also a given
 * one beyond the layout's worker bits), ERR_EMPTY (the log has no time or layout yet: ask again).
 */
struct worker_acquire {
    uint8_t kind;
    uint16_t worker_id; /* WORKER_ID_ANY: any */
    uint64_t floor_ms;  /* 0: none */
    uint64_t window_ms; /* LIMIT_WINDOW_MIN_MS..LIMIT_WINDOW_MAX_MS */
    uint64_t wall_ms;
    const char *name;
    uint16_t name_len;
    const char *address;
    uint16_t address_len;
    uint64_t client; /* > 0 where kind is WORKER_CLIENT, else 0, as those below: */
    uint16_t most;   /* 0: percent says it */
    uint8_t percent; /* 1..100 */
    bool force;      /* whatever client owns it */
    /* Of COMMAND_WORKER_ACQUIRE_OF alone: */
    uint8_t bits;     /* the worker bits of a layout, 1..22; 0: of the cluster's own */
    const char *zone; /* whose pool it takes from, zone_len 0..LIMIT_ZONE_BYTES; 0: none */
    uint16_t zone_len;
};

/* Renew: until becomes max(until, wall_ms + window_ms); an expired one may be renewed while no
 * other else took it. ERR_FENCED (released, or another epoch), ERR_CONFLICT (the row is of another
 * kind than the asker; or expected_until_ms, unless 0, is not the present bound; the result's row),
 * ERR_CLOCK_SKEW, ERR_NOT_FOUND, ERR_INVALID (window_ms, or last_timestamp_ms above what is granted
 * then); ERR_NOT_OWNER (another client's; the result's row). */
struct worker_renew {
    uint16_t worker_id;
    uint64_t epoch;
    uint64_t expected_until_ms;
    uint64_t window_ms;
    uint64_t last_timestamp_ms;
    uint64_t wall_ms;
    uint8_t kind;    /* of the one that asks */
    uint64_t client; /* > 0 where kind is WORKER_CLIENT, else 0 */
};

/* Release: ERR_FENCED (another epoch), ERR_CONFLICT (the row is of another kind than the one that
 * asks; the result's row), ERR_NOT_FOUND, ERR_NOT_OWNER (another client's, and no force; the
 * result's row). Again: 0, and nothing changes.
 * last_timestamp_ms 0: unknown, the window stays used up; else what is above it, and above what was
 * reported before, is given back. Of a node alone: a client's is only shown. */
struct worker_release {
    uint16_t worker_id;
    uint64_t epoch;
    uint64_t last_timestamp_ms;
    uint8_t kind;    /* of the one that asks */
    uint64_t client; /* > 0 where kind is WORKER_CLIENT, else 0 */
    bool force;
};

/* Result of acquire, renew and release (layout and clock give a status_result). */
struct worker_result {
    int32_t status;
    bool has_row;  /* row is the present row; also set for ERR_CONFLICT, _FENCED and _NOT_OWNER */
    uint16_t held; /* of ERR_SHARE: by the client, and as many as it may have */
    uint16_t most;
    struct worker_row row;
};
void worker_result_encode(const struct worker_result *result, struct buf *buf);
int worker_result_decode(const void *data, size_t len, struct worker_result *ret_result) MUST_CHECK;

/* A page of GET /api/workers, and one row more, which says that there are more. Leafds before level
 * 3 take a row less, which is all that a cluster of theirs can have. */
#define WORKER_ROWS_MAX (LIMIT_WORKERS_PER_PAGE + 1)

/* What a QUERY_WORKERS is answered: rows with id >= first, at most limit. */
struct worker_rows {
    struct worker_row *rows; /* owned */
    size_t count;
    uint64_t log_ms; /* the log's time */
};
/* rows in the order of their ids. */
void worker_rows_encode(const struct worker_row *const *rows, size_t count, uint64_t log_ms,
                        struct buf *buf);
int worker_rows_decode(const void *data, size_t len, struct worker_rows *ret_rows) MUST_CHECK;
void worker_rows_release(struct worker_rows *rows);

#endif
