/*
 * command.h - what goes through the Raft log and what is asked of the leader: commands, queries,
 * their results, and the bytes of each.
 *
 * All are versioned (first byte), length-checked, little-endian, with golden bytes in
 * src/id/codec/tests/test_command.c. A command carries everything apply needs (whose it is, the
 * proposer's wall time): apply reads no clock, no random, no local configuration.
 *
 * All commands may be repeated when the outcome is unknown, in any order and at any time: behind
 * its type each carries a stamp (session.h) by which the state machine knows what it has carried
 * out already. The encoders leave it empty; who sends the command first fills it in.
 *
 * Thread: pure functions, any.
 */
#ifndef LEAFD_ID_CODEC_COMMAND_H
#define LEAFD_ID_CODEC_COMMAND_H

#include "src/id/codec/command_bytes.h"
#include "src/id/codec/tag.h"

enum command_type {
    COMMAND_NOOP = 1,       /* start of a leader's term; or all that it carries is its stamp */
    COMMAND_GRANT = 2,      /* segments for one node, up to LIMIT_GRANTS_PER_ENTRY */
    COMMAND_TAGS_PUT = 3,   /* make or change tags, all or nothing, up to LIMIT_TAGS_PER_BULK */
    COMMAND_TAG_DELETE = 4, /* leave a tombstone */
    COMMAND_NODE_INFO = 5,  /* a node's HTTP address, version and store id */
    COMMAND_DIGEST = 6,     /* the proposer's state digest at an applied index */
    /* worker.h has these */
    COMMAND_LAYOUT = 7,
    COMMAND_CLOCK = 8,
    COMMAND_WORKER_ACQUIRE = 9,
    COMMAND_WORKER_RENEW = 10,
    COMMAND_WORKER_RELEASE = 11,
    /* strict_command.h has these */
    COMMAND_STRICT = 12,
    COMMAND_GIVE_BACK = 13,
    COMMAND_RECALLED = 14,
    /* member.h has these */
    COMMAND_MEMBER_BEGIN = 20,
    COMMAND_MEMBER_END = 21
};

/* --- grant --- */
struct grant_item {
    const char *name; /* borrowed */
    uint16_t name_len;
    uint32_t size; /* ids wanted; 0: the tag's step. Clamped to 1..max_step and to what is left */
};

struct grant_result {
    int32_t status;      /* 0, ERR_UNKNOWN_TAG, ERR_EXHAUSTED, ERR_WRONG_MODE (the tag is strict),
                            ERR_OVERLOADED (LIMIT_SEGMENT_HOLDERS) */
    uint32_t size;       /* ids granted, > 0 when status is 0 */
    uint64_t first;      /* first id of the range: [first, first + size) */
    uint32_t generation; /* the tag's; also set for ERR_EXHAUSTED and ERR_WRONG_MODE, and for
                            ERR_UNKNOWN_TAG: that of the tombstone, or 0 if the name was never
                            used */
    uint32_t step;
    uint32_t max_step;
};

/* The node whose stamp it bears is granted the segments. After the last item of this and all other
 * commands with a list: command_items_end(). */
void command_grant_begin(struct buf *buf, uint64_t wall_ms);
void command_grant_add(struct buf *buf, const struct grant_item *item);

void grant_results_encode(const struct grant_result *results, size_t count, struct buf *buf);
/* Read results; *ret_count <= max. ERR_BAD_MESSAGE if the bytes are not results. */
int grant_results_decode(const void *data, size_t len, struct grant_result *ret_results, size_t max,
                         size_t *ret_count) MUST_CHECK;

/* --- put --- */
enum tag_field {
    TAG_FIELD_MAX_ID = 1 << 0,
    TAG_FIELD_STEP = 1 << 1,
    TAG_FIELD_MAX_STEP = 1 << 2,
    TAG_FIELD_MODE = 1 << 3,
    TAG_FIELD_DESCRIPTION = 1 << 4
};

struct tag_put {
    const char *name; /* borrowed */
    const char *description;
    uint16_t name_len;
    uint16_t description_len;
    uint8_t fields; /* which of the following were given (enum tag_field) */
    uint8_t mode;
    uint32_t step;
    uint32_t max_step;
    uint64_t max_id;
};

void command_put_begin(struct buf *buf, bool force, uint64_t wall_ms);
void command_put_add(struct buf *buf, const struct tag_put *put);

struct put_result {
    int32_t status;     /* 0, ERR_WOULD_REPEAT, ERR_INVALID (a rule broken after merging),
                           ERR_OVERLOADED (LIMIT_TAGS, LIMIT_RECALLS) */
    uint32_t failed_at; /* position of the item that failed, when status is not 0 */
    uint32_t made;      /* counts, when status is 0 */
    uint32_t changed;
    uint64_t max_id;      /* the failed row's present max_id, for the message */
    uint64_t asked;       /* what was asked of it */
    struct tag_row first; /* the first item's row afterwards (single PUT answers it); status 0 */
    char why[96];         /* the rule that was broken, or the table that is full; NUL-terminated */
};

void put_result_encode(const struct put_result *result, struct buf *buf);
/* The result owns first; release with put_result_release(). */
int put_result_decode(const void *data, size_t len, struct put_result *ret_result) MUST_CHECK;
void put_result_release(struct put_result *result);

/* --- delete --- */
void command_delete_encode(struct buf *buf, const char *name, size_t name_len, uint64_t wall_ms);
void status_result_encode(int32_t status, struct buf *buf);
int status_result_decode(const void *data, size_t len, int32_t *ret_status) MUST_CHECK;

/* --- node info, no-op, digest --- */
struct node_info {
    uint64_t node_id;
    uint64_t store_id; /* random, made with the directory: tells a wiped node from the old one */
    char http_address[LIMIT_ADDRESS_BYTES + 1];
    char version[32];
};

void command_node_info_encode(struct buf *buf, const struct node_info *info);
void command_noop_encode(struct buf *buf);
void command_digest_encode(struct buf *buf, uint64_t index, uint64_t digest);

/* --- queries: answered by the leader (or locally when asked so) from applied state --- */
enum query_type { QUERY_TAG_GET = 1, QUERY_TAG_LIST = 2, QUERY_WORKERS = 3 };

void query_get_encode(struct buf *buf, const char *name, size_t name_len);
/* after: only names greater than it (byte order), empty: from the start. limit 1..1000. Tombstones
 * are not listed. */
void query_list_encode(struct buf *buf, const char *prefix, size_t prefix_len, const char *after,
                       size_t after_len, uint32_t limit);

/* A query taken apart; the strings are borrowed from its bytes. */
struct query {
    enum query_type type;
    const char *name; /* the tag, or the prefix of a list */
    size_t name_len;
    const char *after; /* of a list */
    size_t after_len;
    uint32_t limit; /* of a list: 1..LIMIT_TAGS_PER_PAGE; of workers: 1..LIMIT_WORKER_IDS */
    uint16_t first; /* of workers: the smallest worker id */
};

/* 0, or ERR_BAD_MESSAGE if the bytes are not a query. */
int query_decode(const void *data, size_t len, struct query *ret_query) MUST_CHECK;

/* Result of either query: rows, and if there may be more, the name to go on after. A list with
 * many deleted tags ends early, perhaps with no row. QUERY_TAG_GET of an unknown or deleted tag
 * gives status ERR_UNKNOWN_TAG. */
struct tag_rows {
    struct tag_row *rows; /* owned */
    size_t count;
    char next[LIMIT_TAG_NAME_BYTES];
    size_t next_len; /* 0: that is all */
};

/* next: the row to go on after; NULL: that is all. */
void tag_rows_encode(const struct tag_row *const *rows, size_t count, const struct tag_row *next,
                     struct buf *buf);
int tag_rows_decode(const void *data, size_t len, struct tag_rows *ret_rows) MUST_CHECK;
void tag_rows_release(struct tag_rows *rows);

/* --- commands taken apart, for the state machine ---
 *
 * command_type() tells which; the read function of that type walks the whole command once, so that
 * apply can go through the items afterwards knowing that all of them are well formed.
 * ERR_BAD_MESSAGE: nothing in the output is of use. What the values may be is the state machine's
 * to judge; here only the form counts. All strings are borrowed from the command. */

struct grant_command {
    uint64_t wall_ms;
    uint32_t count;      /* items: 1..LIMIT_GRANTS_PER_ENTRY */
    struct reader items; /* at the next item */
};

struct put_command {
    bool force;
    uint64_t wall_ms;
    uint32_t count; /* items, any number */
    struct reader items;
};

struct delete_command {
    const char *name;
    uint16_t name_len;
    uint64_t wall_ms;
};

struct digest_command {
    uint64_t index;
    uint64_t digest;
};

/* The command's type (enum command_type), or ERR_BAD_MESSAGE. Only the first two bytes are read. */
int command_type(const void *data, size_t len) MUST_CHECK;

int grant_command_read(const void *data, size_t len, struct grant_command *ret_command) MUST_CHECK;
/* The next item; false after the last. */
bool grant_command_next(struct grant_command *command, struct grant_item *ret_item) MUST_CHECK;

int put_command_read(const void *data, size_t len, struct put_command *ret_command) MUST_CHECK;
bool put_command_next(struct put_command *command, struct tag_put *ret_put) MUST_CHECK;

int delete_command_read(const void *data, size_t len,
                        struct delete_command *ret_command) MUST_CHECK;
int digest_command_read(const void *data, size_t len,
                        struct digest_command *ret_command) MUST_CHECK;
int noop_command_read(const void *data, size_t len) MUST_CHECK;

/* Also checks what a row of the table of nodes must keep: id in range, texts of UTF-8 and short
 * enough. */
int node_info_command_read(const void *data, size_t len, struct node_info *ret_info) MUST_CHECK;

/* The value bytes of a node's row (the key holds the id). decode: 0, ERR_TRUNCATED,
 * ERR_BAD_VERSION or ERR_CORRUPT. */
void node_info_row_encode(const struct node_info *info, struct buf *buf);
int node_info_row_decode(uint64_t node_id, const void *value, size_t len,
                         struct node_info *ret_info) MUST_CHECK;

#endif
