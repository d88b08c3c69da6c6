/*
 * command.h - commands for the Raft log, queries to the leader, their results, and the bytes of
 * each.
 *
 * The rules for all messages and commands are in session.h.
 *
 * The happy path: the proposer writes a command from its struct with command_put(), and the items
 * of a list after it. In the state machine command_read() checks the whole command; after that all
 * its items are known to be well formed.
 *
 * Failure modes: reading gives ERR_BAD_MESSAGE and leaves nothing to release. Only the form is
 * checked here, and the counts and lengths that the structs below state; the state machine judges
 * the values. Writing cannot fail; breaking the rules is the caller's mistake (ASSERT).
 *
 * Thread: pure functions, any.
 */
#ifndef LEAFD_ID_CODEC_COMMAND_H
#define LEAFD_ID_CODEC_COMMAND_H

#include "src/id/codec/snowflake_layout.h"
#include "src/id/codec/tag.h"
#include "src/id/codec/worker.h"
#include "src/state/codec/session.h"

/* After each type, the struct that its bytes are written from and read into. */
enum command_type {
    COMMAND_GRANT = 2,              /* command_list of grant_item, up to LIMIT_GRANTS_PER_ENTRY */
    COMMAND_TAGS_PUT = 3,           /* command_list of tag_put, all or nothing */
    COMMAND_TAG_DELETE = 4,         /* delete_command: leave a tombstone */
    COMMAND_LAYOUT = 7,             /* snowflake_layout */
    COMMAND_WORKER_ACQUIRE = 9,     /* worker_acquire */
    COMMAND_WORKER_RENEW = 10,      /* worker_renew */
    COMMAND_WORKER_RELEASE = 11,    /* worker_release */
    COMMAND_STRICT = 12,            /* command_list of strict_item, up to LIMIT_STRICT_ITEMS */
    COMMAND_GIVE_BACK = 13,         /* command_list of give_back_item, LIMIT_GRANTS_PER_ENTRY */
    COMMAND_RECALLED = 14,          /* command_list of recalled_item, LIMIT_GRANTS_PER_ENTRY */
    COMMAND_WINDOW = 20,            /* command_list of grant_item, the leader's own */
    COMMAND_KEYED = 21,             /* command_list of keyed_item, the leader's own */
    COMMAND_LAYOUT_PUT = 22,        /* layout_row: make a named layout */
    COMMAND_LAYOUT_DELETE = 23,     /* delete_command: leave its tombstone */
    COMMAND_TAGS_PUT_BY = 24,       /* TAGS_PUT by a client, which its new tags count for */
    COMMAND_TAGS_PUT_STEPPED = 25,  /* the same, with items that may have fields of level 3 */
    COMMAND_WORKER_ACQUIRE_OF = 46, /* WORKER_ACQUIRE of a layout's worker ids, or a zone's */
    COMMAND_WORKER_POOLS = 47,      /* worker_pools_put */
    COMMAND_WORKER_RENEW_OF = 48,   /* WORKER_RENEW of a wide worker id (worker.h) */
    COMMAND_WORKER_RELEASE_OF = 49  /* WORKER_RELEASE of one */
};

static inline bool command_puts_tags(int type)
{
    return type == COMMAND_TAGS_PUT || type == COMMAND_TAGS_PUT_BY ||
           type == COMMAND_TAGS_PUT_STEPPED;
}

static inline bool command_acquires(int type)
{
    return type == COMMAND_WORKER_ACQUIRE || type == COMMAND_WORKER_ACQUIRE_OF;
}

/* Numbers of messages, besides the cluster's (session.h) and those of worker ids. */
#define REQUEST_STRICT 0x60 /* one strict request for the batcher */

/* The _STEPPED types are used in place of those before where an item has a field of level 3, such
 * as an increment, so never below that level. Callers that encode and decode name the others. */
enum result_type {
    RESULT_GRANTS = 0x81,
    RESULT_PUT = 0x82,
    RESULT_ROWS = 0x84,
    RESULT_STRICT = 0x87,
    RESULT_STATUSES = 0x88,
    RESULT_ROWS_STEPPED = 0x8b,
    RESULT_STRICT_STEPPED = 0x8c,
    RESULT_GRANTS_STEPPED = 0x8d,
    RESULT_PUT_STEPPED = 0x8e
};

/* Bytes of encoded strict results: before the first, and of each at most. */
#define STRICT_RESULTS_HEAD_BYTES 6
#define STRICT_RESULT_BYTES 21

/* A command with a list of items: the part before the items. */
struct command_list {
    uint64_t wall_ms;   /* not of RECALLED */
    uint32_t key_limit; /* of STRICT: keys that the table may hold, by the sender's settings */
    uint32_t key_share; /* of STRICT and KEYED: of these, the most for a client whose item names no
                           number */
    uint64_t term;      /* of KEYED: in which the leader took the ids */
    bool force;         /* of TAGS_PUT, _BY and _STEPPED */
    bool is_dump;       /* of these: the output of GET /api/tags. A new name takes its max_id
                           without force, since no person wrote it */
    bool stepped;       /* of TAGS_PUT_STEPPED, which nothing else marks: set to write one */
    uint64_t client;    /* of TAGS_PUT_BY: the client that asks, > 0; of _STEPPED, or 0: none */
    uint64_t most;      /* and the bytes that its tags may count (tag_share_bytes()) */
    /* Filled by command_read(): */
    const struct item_format *of; /* format of the items */
    struct reader items;          /* at the next item */
    uint32_t count;
};

/* The type for this record: TAGS_PUT, WORKER_ACQUIRE, _RENEW or _RELEASE where that is enough, else
 * the later one for the same struct. */
enum command_type command_type_for(enum command_type type, const void *record);

/* --- grant: the node whose stamp the command bears is granted the segments --- */
struct grant_item {
    const char *name; /* borrowed */
    uint16_t name_len;
    uint32_t size; /* ids wanted; 0: the tag's step. Clamped to 1..max_step and to the ids left */
};

struct grant_result {
    int32_t status;      /* 0, ERR_UNKNOWN_TAG, ERR_EXHAUSTED, ERR_WRONG_MODE (the tag is of another
                            mode), ERR_PAUSED, ERR_OVERLOADED (LIMIT_SEGMENT_HOLDERS); of a WINDOW:
                            ERR_CHANGING (a node may still hold a segment of it) */
    uint32_t size;       /* ids granted, > 0 when status is 0 */
    uint64_t first;      /* first id of the range: first + i * increment, i < size */
    uint32_t generation; /* the tag's; also set for ERR_EXHAUSTED and ERR_WRONG_MODE, and for
                            ERR_UNKNOWN_TAG: that of the tombstone, or 0 if the name was never
                            used */
    uint32_t step;
    uint32_t max_step;
    uint32_t increment; /* the tag's; 0: 1 */
};

/* The results of a list, one for each item: of RESULT_GRANTS struct grant_result, of RESULT_STRICT
 * struct strict_result, of RESULT_STATUSES int32_t. _decode: *ret_count <= max; ERR_BAD_MESSAGE if
 * the bytes are not such results. */
void results_encode(enum result_type type, const void *results, size_t count, struct buf *buf);
int results_decode(enum result_type type, const void *data, size_t len, void *ret_results,
                   size_t max, size_t *ret_count) MUST_CHECK;

/* --- put --- */
enum tag_field {
    TAG_FIELD_MAX_ID = 1 << 0,
    TAG_FIELD_STEP = 1 << 1,
    TAG_FIELD_MAX_STEP = 1 << 2,
    TAG_FIELD_MODE = 1 << 3,
    TAG_FIELD_DESCRIPTION = 1 << 4,
    TAG_FIELD_MAX = 1 << 5,
    TAG_FIELD_SHAPE = 1 << 6,
    TAG_FIELD_KEY = 1 << 7
};

/* Further fields of TAGS_PUT_STEPPED. */
enum tag_step_field {
    TAG_FIELD_INCREMENT = 1 << 0,
    TAG_FIELD_OFFSET = 1 << 1,
    TAG_FIELD_COVER = 1 << 2,
    TAG_FIELD_PAUSED = 1 << 3,
    TAG_FIELD_REASON = 1 << 4
};

struct tag_put {
    const char *name; /* borrowed */
    const char *description;
    const char *shape; /* as in a row, with a key of the proposer's that is used for a new name */
    uint16_t name_len;
    uint16_t description_len;
    const char *key;    /* with its field: SHAPE_KEY_BYTES, used if the key is new */
    uint16_t shape_len; /* with its field: 0: none, as for a name without one */
    uint16_t key_len;
    uint8_t key_number; /* with its field: of the key that the tag shall have; the first is 0 */
    uint8_t fields;     /* which of the following were given (enum tag_field) */
    uint8_t mode;
    uint32_t step;
    uint32_t max_step;
    uint64_t max_id;
    uint64_t max;        /* 0: none (any more) */
    uint8_t step_fields; /* which of the following were given (enum tag_step_field) */
    uint32_t increment;  /* 0 or 1: none (any more) */
    uint32_t offset;
    uint32_t cover_s; /* 0: none (any more). Without max_step it sets the default of that */
    bool paused;
    const char *reason; /* of the pause, which ends with it */
    uint16_t reason_len;
};

struct put_result {
    int32_t status;     /* 0, ERR_WOULD_REPEAT, ERR_INVALID (a rule broken after merging),
                           ERR_CONFLICT (another key number than the present one or the next),
                           ERR_OVERLOADED (LIMIT_TAGS, LIMIT_RECALLS), ERR_NEEDS_FORCE,
                           ERR_SHARE (the client's tags count as much as they may) */
    uint32_t failed_at; /* position of the item that failed, when status is not 0 */
    uint32_t made;      /* counts, when status is 0 */
    uint32_t changed;
    uint64_t max_id;      /* the failed row's present max_id, for the message. Of ERR_SHARE: the
                             bytes that the client's tags count now */
    uint64_t asked;       /* the max_id asked for. Of ERR_SHARE: the bytes that they may count */
    struct tag_row first; /* the first item's new row (the answer to a single PUT); status 0 */
    char why[96];         /* the broken rule, or the full table; NUL-terminated. Of ERR_NEEDS_FORCE:
                             "is a jump of ...", of the value asked for */
};

void put_result_encode(const struct put_result *result, struct buf *buf);
/* The strings of first are borrowed from data. */
int put_result_decode(const void *data, size_t len, struct put_result *ret_result) MUST_CHECK;

/* --- delete --- */
struct delete_command {
    const char *name; /* borrowed */
    uint16_t name_len;
    uint64_t wall_ms;
};

/* --- strict tags ---
 *
 * A strict allocation is a grant of exactly the length asked for, used at once: the order of the
 * log is the order of the ids, so no memory of a node can become stale. The promise (P3): an id is
 * greater than every id of its tag whose reply arrived anywhere before this request was sent, and
 * acknowledged ids are dense.
 *
 * Why it holds. A reply is sent only after the entry was applied. A request sent afterwards is
 * appended after it, and max_id only rises in between (no id of a strict tag is ever given back).
 * Each request is applied once (session.h). Ids of requests that were answered with an error may be
 * skipped, and only those. */

/* One request of a batch. */
struct strict_item {
    const char *name; /* borrowed, as key */
    uint16_t name_len;
    const char *key; /* Idempotency-Key, key_len 0..LIMIT_KEY_BYTES; 0: none */
    uint16_t key_len;
    uint32_t count; /* 1..LIMIT_COUNT */
    /* Without a key they mean nothing: */
    uint64_t client; /* that the key counts for; 0: no client */
    uint32_t most;   /* keys it may have in the table; 0: the list's key_share */
    uint32_t period; /* for a tag with a date (shape.h): the period of the log's time in the tag's
                        zone, as the sender sees it; 0: it knows none */
};

/*
 * The result of one request. status:
 *  0                 first + i * increment, i < count, are the request's
 *  ERR_UNKNOWN_TAG
 *  ERR_WRONG_MODE    the tag is in another mode; detail: in which (enum tag_mode)
 *  ERR_PAUSED        the tag is paused
 *  ERR_CHANGING      the tag has left trend mode, and node `detail` may still hold a segment: ask
 *                    again
 *  ERR_EXHAUSTED     fewer than count ids are left, in all or in the period; detail: how many
 *  ERR_KEY_CONFLICT  the key was used with another count; detail: that count. Or it belongs to
 *                    another client; detail: 0
 *  ERR_KEYS_FULL     detail: the limit
 *  ERR_SHARE         the client has as many keys as it may; detail: share_detail()
 *  ERR_EMPTY         the log has no time yet, which a key or a date needs; or, for a tag with a
 *                    date, the item has no period or one more than a day off: ask again
 *  ERR_STALE         of KEYED: the ids are of an earlier term or generation: ask again, for others
 *
 * A key is looked up before recalls, room and ids left are checked. While the tag exists, is strict
 * and not paused, a known key gets its ids again, whatever has happened to the tag since.
 */
struct strict_result {
    int32_t status;
    bool replayed;       /* the key was known: these ids are its own */
    uint32_t generation; /* the tag's, as in struct grant_result */
    union {
        uint64_t first;  /* with 0 */
        uint64_t detail; /* with an error */
    };
    uint32_t increment; /* with 0: of these ids; 0: 1 */
};

/* The detail of ERR_SHARE: how many keys a client has, and how many it may have. */
static inline uint64_t share_detail(uint32_t held, uint32_t most)
{
    return (uint64_t)held << 32 | most;
}

/* --- monotonic tags (docs/monotonic.md) ---
 *
 * WINDOW reserves ids for the leader that appended it: [max_id, max_id + size), as apply finds it,
 * so the entry names no range (R2). Its items are grant_items, of a size of 1 at least; its result
 * that of a grant. KEYED records, under their keys, ids that the leader has taken from its window
 * (R9); its results are strict_results. The leader of a term appends both for itself, once and in
 * its own term: they have no stamp, and belong to no session. */
struct keyed_item {
    struct strict_item item; /* with a key */
    uint64_t first;          /* of the ids: item.count of them, by the tag's increment */
    uint32_t generation;     /* of the ids' window, and of the increment */
};

/* --- one request from HTTP to the batcher (ID_REQUEST_STRICT) --- */

void strict_item_encode(const struct strict_item *item, struct buf *buf);
/* Strings are borrowed from data. ERR_BAD_MESSAGE. */
int strict_item_decode(const void *data, size_t len, struct strict_item *ret_item) MUST_CHECK;

/*
 * The unused rest of a segment, given back by the node that owned it and will never use it again;
 * or the rest of a window that its leader has closed. Carried out only if the tag is live and not
 * strict, its generation is that given, and its max_id is `end`: then max_id becomes `first`. Else
 * the range stays burnt. Result: statuses, for each item 0 or ERR_CONFLICT.
 */
struct give_back_item {
    const char *name; /* borrowed */
    uint16_t name_len;
    uint32_t generation;
    uint64_t first;
    uint64_t end; /* > first */
};

/* The node whose stamp it bears holds no segment of the tag that is older than the generation, and
 * takes no more. Result: a status_result, 0. */
struct recalled_item {
    const char *name; /* borrowed */
    uint16_t name_len;
    uint32_t generation;
};

/* --- queries: answered by the leader (or locally when asked so) from applied state --- */
enum query_type {
    QUERY_TAG_GET = 1,
    QUERY_TAG_LIST = 2,
    QUERY_WORKERS = 3,
    QUERY_POOLS = 23,
    QUERY_WORKERS_WIDE = 24 /* QUERY_WORKERS from an id beyond 65535 on; decoded as that */
};

/* The strings of a decoded query are borrowed from its bytes. */
struct query {
    enum query_type type;
    uint16_t name_len;
    uint16_t after_len;
    uint32_t first;    /* of workers: the smallest worker id */
    uint32_t limit;    /* of a list: 1..LIMIT_TAGS_PER_PAGE; of workers: 1..WORKER_ROWS_MAX */
    const char *name;  /* the tag, or the prefix of a list (tombstones are not listed) */
    const char *after; /* of a list: only names greater (byte order); empty: from the start */
};

void query_get_encode(struct buf *buf, const char *name, size_t name_len);
void query_list_encode(struct buf *buf, const char *prefix, size_t prefix_len, const char *after,
                       size_t after_len, uint32_t limit);
void query_pools_encode(struct buf *buf);
/* first beyond 65535: not below level 3. */
void query_workers_encode(struct buf *buf, uint32_t first, uint16_t limit);
/* 0, or ERR_BAD_MESSAGE if the bytes are not a query. */
int query_decode(const void *data, size_t len, struct query *ret_query) MUST_CHECK;

/* Result of either query: rows and, if there may be more, the name to continue after. A list with
 * many deleted tags ends early, perhaps with no row. QUERY_TAG_GET of an unknown or deleted tag
 * gives status ERR_UNKNOWN_TAG. */
struct tag_rows {
    struct tag_row *rows; /* owned, their strings borrowed */
    size_t count;
    uint16_t next_len; /* 0: that is all */
    char next[LIMIT_TAG_NAME_BYTES + 1];
};

/* next: the row to continue after; NULL: that is all. */
void tag_rows_encode(const struct tag_row *rows, size_t count, const struct tag_row *next,
                     struct buf *buf);
int tag_rows_decode(const void *data, size_t len, struct tag_rows *ret_rows) MUST_CHECK;
void tag_rows_release(struct tag_rows *rows);

/* Rows that are released at the end of their block. */
#define TAG_ROWS_LOCAL(name) struct tag_rows name __attribute__((cleanup(tag_rows_release))) = {0}

/* --- commands written and taken apart --- */

struct command {
    enum command_type type;
    struct session_stamp stamp;
    union { /* strings are borrowed from the command */
        struct command_list list;
        struct delete_command deletion;
        struct snowflake_layout layout;
        struct layout_row named;
        struct worker_acquire acquire;
        struct worker_pools_put pools;
        struct worker_renew renew;
        struct worker_release release;
    };
};

/* Write a command, into an empty buf, from the type's struct; NULL if the type writes no fields.
 * After a list come its items, and command_items_end(). */
void command_put(struct buf *buf, enum command_type type, const void *record);
void command_item_put(struct buf *buf, enum command_type type, const void *item);
void command_items_end(struct buf *buf);

/* As command_number(), but ERR_NEWER for all other types than those above. */
int command_type(const void *data, size_t len) MUST_CHECK;
/* The level that the cluster needs for a command of this type to be appended, or to have an effect
 * when applied; 0: there is no such type. */
uint16_t command_since(int type);
/* 0 with a command that is well formed up to its last item, or ERR_BAD_MESSAGE. */
int command_read(const void *data, size_t len, struct command *ret_command) MUST_CHECK;
/* The next item, into the struct of the list's; false after the last. */
bool command_next(struct command_list *list, void *ret_item) MUST_CHECK;

/*
 * --- tag_marks: the generations of the tags that a change names. The node that applied the change
 * writes them (fsm_tag_marks()); the node that answers the client adopts them before it answers
 * (allocator_take_marks()).
 *
 * The node that received a change learns its outcome before its own state machine has applied it.
 * Ids that it holds may be of an older generation, and no client may get such an id once the change
 * is acknowledged. So the answer carries the generations, and the node burns older ids.
 *
 * As bytes: one u32 for each name of the command, in its order; none for a command that names no
 * tags, or more tags than are changed at once. Marks that do not fit the command are
 * ERR_BAD_MESSAGE, and none is adopted.
 */

#define TAG_MARK_BYTES 4
#define TAG_MARKS_BYTES_MAX (TAG_MARK_BYTES * LIMIT_TAGS_PER_BULK)

/* The names of a command that have marks, one by one. */
struct tag_names {
    uint32_t left;
    struct command of;
};

/* Begin with the first; left is 0 for a command that has no marks. The command must outlive it. */
void tag_names_begin(struct tag_names *names, const void *command, size_t len);
/* The next name; false after the last. */
bool tag_names_next(struct tag_names *names, const char **ret_name, size_t *ret_len) MUST_CHECK;

#endif
