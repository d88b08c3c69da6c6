/*
 * strict_command.h - the commands of strict tags: allocations, ranges given back, segments dropped;
 * with their results and rules.
 *
 * A strict allocation is a grant of exactly the length asked for, used at once: the order of the
 * log is the order of the ids, so no memory of a node can go stale. What is promised (P3): an id is
 * greater than every id of its tag whose reply arrived anywhere before this request was sent, and
 * acknowledged ids are dense.
 *
 * Why it holds. A reply leaves only after the entry was applied; a request that is sent afterwards
 * is appended behind it, and max_id only rises in between (nothing of a strict tag is ever given
 * back). Density needs each request to be applied once, although its node repeats it when the
 * outcome is unknown: that is what sessions are for (session.h). Ids of requests that were answered
 * with an error may be skipped, and only those.
 *
 * Thread: pure functions, any.
 */
#ifndef LEAFD_ID_CODEC_STRICT_COMMAND_H
#define LEAFD_ID_CODEC_STRICT_COMMAND_H

#include "src/id/codec/command.h"

/* --- allocation --- */

/* One request of a batch. */
struct strict_item {
    const char *name; /* borrowed, as key */
    uint16_t name_len;
    const char *key; /* Idempotency-Key, key_len 0..LIMIT_KEY_BYTES; 0: none */
    uint16_t key_len;
    uint32_t count; /* 1..LIMIT_COUNT */
};

struct strict_batch {
    uint64_t wall_ms;
    uint32_t key_limit; /* keys the table may hold (the sender's strict.keys; a command must carry
                           everything that apply needs) */
};

/*
 * What one request got. status:
 *  0                 [first, first + count) is the request's
 *  ERR_UNKNOWN_TAG
 *  ERR_WRONG_MODE    the tag is in trend mode: take its ids from a segment
 *  ERR_CHANGING      the tag became strict, and node `detail` may hold a segment yet: ask again
 *  ERR_EXHAUSTED     fewer than count ids are left; detail: how many
 *  ERR_KEY_CONFLICT  the key was used with another count; detail: that count
 *  ERR_KEYS_FULL     detail: the limit
 *  ERR_EMPTY         the log has no time yet, which a key needs: ask again
 *
 * A key is looked up before recalling, room and ids left are looked at: while the tag is there and
 * strict, the ids of a known key are given again whatever happened to it since.
 */
struct strict_result {
    int32_t status;
    bool replayed;       /* the key was known: these are its ids */
    uint32_t generation; /* the tag's, as in struct grant_result */
    uint64_t first;
    uint64_t detail;
};

void command_strict_begin(struct buf *buf, const struct strict_batch *batch);
/* 1..LIMIT_STRICT_ITEMS of them. Items of one tag should stand together: then its row is written
 * once. */
void command_strict_add(struct buf *buf, const struct strict_item *item);

struct strict_command {
    struct strict_batch batch;
    uint32_t count; /* items: 1..LIMIT_STRICT_ITEMS */
    struct reader items;
};

/* As in command.h: the whole command is walked once; ERR_BAD_MESSAGE. */
int strict_command_read(const void *data, size_t len,
                        struct strict_command *ret_command) MUST_CHECK;
bool strict_command_next(struct strict_command *command, struct strict_item *ret_item) MUST_CHECK;

void strict_results_encode(const struct strict_result *results, size_t count, struct buf *buf);
/* *ret_count <= max. ERR_BAD_MESSAGE if the bytes are not results. */
int strict_results_decode(const void *data, size_t len, struct strict_result *ret_results,
                          size_t max, size_t *ret_count) MUST_CHECK;

/* --- one request on its way from HTTP to the batcher (ID_REQUEST_STRICT) --- */

void strict_item_encode(const struct strict_item *item, struct buf *buf);
/* Strings are borrowed from data. ERR_BAD_MESSAGE. */
int strict_item_decode(const void *data, size_t len, struct strict_item *ret_item) MUST_CHECK;

/* --- give back --- */

/*
 * The unused rest of a segment, given back by the node that owned it and will never use it again.
 * Carried out only if the tag is live and in trend mode, its generation is that given, and its
 * max_id is `end`: then max_id becomes `first`. Else the range stays burnt. That nobody uses it is
 * why a copy that comes later than others of its kind does no harm; that it is carried out once, so
 * that it does none after the range was granted again, is the session's promise (session.h).
 */
struct give_back_item {
    const char *name; /* borrowed */
    uint16_t name_len;
    uint32_t generation;
    uint64_t first;
    uint64_t end; /* > first */
};

void command_give_back_begin(struct buf *buf, uint64_t wall_ms);
void command_give_back_add(struct buf *buf,
                           const struct give_back_item *item); /* 1..LIMIT_GRANTS_PER_ENTRY items */

struct give_back_command {
    uint64_t wall_ms;
    uint32_t count;
    struct reader items;
};

int give_back_command_read(const void *data, size_t len,
                           struct give_back_command *ret_command) MUST_CHECK;
bool give_back_command_next(struct give_back_command *command,
                            struct give_back_item *ret_item) MUST_CHECK;

/* Result: a status an item: 0 or ERR_CONFLICT. */
void statuses_encode(const int32_t *statuses, size_t count, struct buf *buf);
int statuses_decode(const void *data, size_t len, int32_t *ret_statuses, size_t max,
                    size_t *ret_count) MUST_CHECK;

/* --- recalled --- */

/* The node whose stamp it bears holds no segment of the tag that is older than the generation, and
 * takes none any more.
 * Result: a status_result, 0. */
struct recalled_item {
    const char *name; /* borrowed */
    uint16_t name_len;
    uint32_t generation;
};

void command_recalled_begin(struct buf *buf);
void command_recalled_add(struct buf *buf,
                          const struct recalled_item *item); /* 1..LIMIT_GRANTS_PER_ENTRY items */

struct recalled_command {
    uint32_t count;
    struct reader items;
};

int recalled_command_read(const void *data, size_t len,
                          struct recalled_command *ret_command) MUST_CHECK;
bool recalled_command_next(struct recalled_command *command,
                           struct recalled_item *ret_item) MUST_CHECK;

#endif
