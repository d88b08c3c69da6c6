/*
 * worker.h - the registry of worker ids: rows, commands, results, and their bytes.
 *
 * A worker id is an axis of time, as a tag is an axis of ids: a grant moves granted_until_ms up,
 * and the holder of that epoch may stamp ids with times in (granted_from_ms, granted_until_ms].
 *
 * Invariants:
 *  - Windows of one worker id given to different epochs are disjoint and rising: an acquire starts
 *    at the old granted_until_ms or above.
 *  - granted_until_ms falls only by a release by the holder itself, down to the last time it
 *    reports as used (and never below granted_from_ms). Only for nodes: a client's report of its
 *    past is not trusted.
 *  - A renewal carries the epoch (fencing) and the previous bound (compare-and-set).
 *  - Rows of nodes are renewed and released by nodes alone, rows of clients by clients alone: only
 *    the holder knows which times it stamped, and a node that is cut off continues to stamp. Others
 *    get such a row once its window is over, and then a window above it. The same holds among
 *    clients: the client that acquired a row owns it while it is held.
 *  - All judgements of time use the log's time (COMMAND_CLOCK) and the command's own times. A
 *    command whose time is ahead of the log's by more than LIMIT_WORKER_AHEAD_MS is refused
 *    (ERR_CLOCK_SKEW), so that one wrong clock cannot poison a worker id for years.
 *
 * Thread: pure functions, any; rows belong to the state machine.
 */
#ifndef LEAFD_ID_CODEC_WORKER_H
#define LEAFD_ID_CODEC_WORKER_H

#include "src/base/buf.h"
#include "src/base/err.h"
#include "src/base/limits.h"
#include "src/id/codec/snowflake_layout.h"

#define WORKER_ID_ANY UINT32_MAX

/* Worker ids from here on need level 3, and messages of that level. */
#define WORKER_IDS_NARROW 65535u

enum worker_state { WORKER_HELD = 1, WORKER_RELEASED = 2 };
enum worker_kind { WORKER_NODE = 1, WORKER_CLIENT = 2 }; /* held by a leafd node, or by a client */

/* Its texts are borrowed: from the state machine, with a NUL after them, or from the bytes that it
 * was decoded from. */
struct worker_row {
    uint32_t id;    /* below LIMIT_WORKER_IDS */
    uint8_t state;  /* enum worker_state */
    uint8_t kind;   /* enum worker_kind */
    uint64_t epoch; /* grows by 1 with every acquire */
    uint64_t granted_from_ms;
    uint64_t granted_until_ms;
    uint64_t last_timestamp_ms; /* highest time used, as reported; 0: none */
    uint64_t updated_ms;        /* the log's time */
    uint64_t client;            /* its owner, which it counts for; 0: none */
    uint16_t name_len;          /* 1..LIMIT_WORKER_NAME_BYTES */
    uint16_t address_len;       /* 0..LIMIT_ADDRESS_BYTES */
    const char *name;
    const char *address;
};

/* The rest of its row's key, after the table: the id, of 2 bytes, or from WORKER_IDS_NARROW on of
 * 6. Keys are in the order of ids. _read: false: no such key. */
void worker_key_put(struct buf *buf, uint32_t id);
bool worker_key_read(const uint8_t *key, size_t len, uint32_t *ret_id) MUST_CHECK;

/* The value of its row, whose key holds the id. Names keep the tag's rule (tag_name_check). */
void worker_row_put(struct buf *buf, const struct worker_row *row);
/* ret_row->id is set. As row_read(). */
int worker_row_read(const void *value, size_t len, struct worker_row *ret_row) MUST_CHECK;

/* Are these the same client? A client is a hash of its name, or of its address; the lowest bit is
 * set for a name. */
static inline bool client_is(uint64_t a, uint64_t b)
{
    return (a | 1) == (b | 1);
}
static inline bool client_is_named(uint64_t client)
{
    return (client & 1) != 0;
}

/*
 * Pools: the worker ids reserved for a zone; ids in no pool are for all others. Written as
 * "a=0-31,b=32-63". They are part of one setting of the cluster, struct worker_rules.
 *
 * A pool limits which worker ids an acquire may take, and never affects a held one: its holder
 * keeps and renews it as before, until its window is over.
 */
struct worker_pool {
    uint32_t first;
    uint32_t last;
    uint16_t zone_len;
    char zone[LIMIT_ZONE_BYTES + 1];
};

struct worker_pools {
    uint32_t count;
    struct worker_pool items[LIMIT_POOLS];
};

#define WORKER_POOLS_WHY_BYTES 256

/* 0; ERR_INVALID: the text is malformed; ERR_CONFLICT: two pools overlap, or are of one zone. On
 * error `why`, of WORKER_POOLS_WHY_BYTES, explains it. */
int worker_pools_read(const char *text, size_t len, struct worker_pools *ret_pools,
                      char *why) MUST_CHECK;

/* The pool of the zone, or of the worker id; NULL: there is none. */
const struct worker_pool *worker_pool_of(const struct worker_pools *pools, const char *zone,
                                         size_t len);
const struct worker_pool *worker_pool_with(const struct worker_pools *pools, uint32_t id);

/* A restored cluster does not know which worker ids were held since its backup, and a full table
 * forgets rows: so an id without a row begins above all that it can have had. */
struct worker_rules {
    uint64_t epoch;    /* of a worker id that has no row */
    uint64_t until_ms; /* its first window begins at or above it */
    uint16_t pools_len;
    char pools[LIMIT_POOLS_BYTES + 1];
};
extern const struct row_format worker_rules_format;

/* COMMAND_WORKER_POOLS: replace the pools by these. Result: a status, ERR_INVALID where
 * worker_pools_read() refuses them. */
struct worker_pools_put {
    const char *pools; /* borrowed */
    uint16_t pools_len;
};

/*
 * Acquire. An id is free when it was never held or its window is over (granted_until_ms is below
 * the log's time). The grant is a given worker_id if it is free, else the lowest free one, else the
 * released one whose window ends first. It is in a new epoch and above the old window:
 * from = max(old until, floor_ms); until = max(wall_ms, from) + window_ms.
 *
 * Each id that was ever held has a row, up to LIMIT_WORKER_ROWS. Then an id without a row takes the
 * place of a client's row whose window is over: a released one first, of these the one that ended
 * first. The rules (worker_rules) become at least the forgotten row's epoch and time. Where no
 * window is over, a client gets ERR_NO_WORKER_ID. A node's row is added all the same: clients
 * cannot keep nodes from their ids, which are those of the cluster's own layout. A restore may add
 * as many.
 *
 * A node's name gets its id back, even while it holds it. A node that names another free id than
 * its own gets that one if it holds none; the id that it leaves is released.
 *
 * A client's name is a label: it gets back the free id that last had its name, never a held one,
 * and may have several ids at once. An id that is not free is granted, in a new epoch and above its
 * window, only to its own name and owner, and only if the acquire names the id; or by force to the
 * acquire's name. And not before its present window has begun, so windows never pile up ahead of
 * the clock: then ERR_CONFLICT.
 *
 * A client's id counts for it until its window is over or another client takes it, even when
 * released, since no other gets it before. A client may hold `most` ids, or that percentage of the
 * worker ids of the layout, the cluster's own or a larger one (of LIMIT_WORKER_ROWS at most; at
 * least one). When a client with that many asks for one more, its id whose window ended first is
 * released, since the old epoch could still renew it. ERR_SHARE: it has no such id; see the
 * result's held and most. An id that it already holds is granted again in any case.
 *
 * The worker ids are those of the cluster's own layout or, if bits is given, of a layout with that
 * many bits. With more bits than the own layout, ids beyond the own layout come first: nodes can
 * use only the others. An acquire that names a zone with a pool takes only from that pool, any
 * other only from ids in no pool (ERR_CONFLICT without a row: the given id is not among these).
 *
 * ERR_NO_WORKER_ID (all held, or as many as there may be rows), ERR_CONFLICT (the given one is held
 * by another name, the name holds another one, or the holder is of another kind: the result's row),
 * ERR_CLOCK_SKEW (also for floor_ms more than LIMIT_WINDOW_MAX_MS, or until more than that and
 * LIMIT_WORKER_AHEAD_MS ahead of the log's time), ERR_INVALID (also for a given one beyond the
 * layout's worker bits), ERR_EMPTY (the log has no time or layout yet: ask again).
 */
struct worker_acquire {
    uint8_t kind;
    uint32_t worker_id; /* WORKER_ID_ANY: any */
    uint64_t floor_ms;  /* 0: none */
    uint64_t window_ms; /* LIMIT_WINDOW_MIN_MS..LIMIT_WINDOW_MAX_MS */
    uint64_t wall_ms;
    const char *name;
    uint16_t name_len;
    const char *address;
    uint16_t address_len;
    uint64_t client; /* > 0 where kind is WORKER_CLIENT, else 0, as the next three: */
    uint16_t most;   /* 0: percent decides */
    uint8_t percent; /* 1..100 */
    bool force;      /* whichever client owns it */
    /* Only of COMMAND_WORKER_ACQUIRE_OF: */
    uint8_t bits;     /* the worker bits of a layout, 1..22; 0: of the cluster's own */
    const char *zone; /* take from its pool; zone_len 0..LIMIT_ZONE_BYTES; 0: none */
    uint16_t zone_len;
};

/* Renew: until becomes max(until, wall_ms + window_ms); an expired id may be renewed while no other
 * holder has taken it. ERR_FENCED (released, or another epoch), ERR_CONFLICT (the row is of another
 * kind than the sender; or expected_until_ms, unless 0, is not the present bound; the result's
 * row), ERR_CLOCK_SKEW, ERR_NOT_FOUND (no row, or none any more), ERR_INVALID (window_ms, or
 * last_timestamp_ms above the new bound); ERR_NOT_OWNER (another client's; the result's row). */
struct worker_renew {
    uint32_t worker_id;
    uint64_t epoch;
    uint64_t expected_until_ms;
    uint64_t window_ms;
    uint64_t last_timestamp_ms;
    uint64_t wall_ms;
    uint8_t kind;    /* of the sender */
    uint64_t client; /* > 0 where kind is WORKER_CLIENT, else 0 */
};

/* Release: ERR_FENCED (another epoch), ERR_CONFLICT (the row is of another kind than the sender;
 * the result's row), ERR_NOT_FOUND, ERR_NOT_OWNER (another client's, and no force; the result's
 * row). Repeated: 0, and nothing changes.
 * last_timestamp_ms 0: unknown, the window stays used up; else the part above it, and above the
 * value reported before, is given back. Only for nodes: a client's value is only displayed. */
struct worker_release {
    uint32_t worker_id;
    uint64_t epoch;
    uint64_t last_timestamp_ms;
    uint8_t kind;    /* of the sender */
    uint64_t client; /* > 0 where kind is WORKER_CLIENT, else 0 */
    bool force;
};

/* Result of acquire, renew and release (layout and clock give a status_result). */
struct worker_result {
    int32_t status;
    bool has_row;  /* row is the present row; also set for ERR_CONFLICT, _FENCED and _NOT_OWNER */
    uint16_t held; /* of ERR_SHARE: held by the client; most: its limit */
    uint16_t most;
    struct worker_row row;
};
void worker_result_encode(const struct worker_result *result, struct buf *buf);
int worker_result_decode(const void *data, size_t len, struct worker_result *ret_result) MUST_CHECK;

/* A page of GET /api/workers, plus one row to show that there are more. Leafds before level 3
 * accept one row less, which is all that their clusters can have. */
#define WORKER_ROWS_MAX (LIMIT_WORKERS_PER_PAGE + 1)

/* The answer to a QUERY_WORKERS: rows with id >= first, at most limit. */
struct worker_rows {
    struct worker_row *rows; /* owned, their texts borrowed */
    size_t count;
    uint64_t log_ms; /* the log's time */
};
/* rows in the order of their ids. */
void worker_rows_encode(const struct worker_row *rows, size_t count, uint64_t log_ms,
                        struct buf *buf);
int worker_rows_decode(const void *data, size_t len, struct worker_rows *ret_rows) MUST_CHECK;
void worker_rows_release(struct worker_rows *rows);

#endif
