/*
 * command_read.h - commands taken apart, for the state machine.
 *
 * The happy path: command_type() tells which; the read function of that type walks the whole
 * command once, so that apply can go through the items afterwards knowing that all of them are well
 * formed.
 *
 * Failure modes: ERR_BAD_MESSAGE, with nothing usable in the output. What the values may be is the
 * state machine's to judge; here only the form counts. All strings are borrowed from the command.
 *
 * Thread: pure functions, any.
 */
#ifndef LEAFD_ID_CODEC_COMMAND_READ_H
#define LEAFD_ID_CODEC_COMMAND_READ_H

#include "src/id/codec/command.h"
#include "src/id/codec/worker.h"

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
    size_t name_len;
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

/* worker_command.c has these. */
int worker_acquire_command_read(const void *data, size_t len,
                                struct worker_acquire *ret_acquire) MUST_CHECK;
int worker_renew_command_read(const void *data, size_t len,
                              struct worker_renew *ret_renew) MUST_CHECK;
int worker_release_command_read(const void *data, size_t len,
                                struct worker_release *ret_release) MUST_CHECK;
int layout_command_read(const void *data, size_t len,
                        struct snowflake_layout *ret_layout) MUST_CHECK;
int clock_command_read(const void *data, size_t len, uint64_t *ret_cluster_ms) MUST_CHECK;

/* Also checks what a row of the table of nodes must keep: id in range, texts of UTF-8 and short
 * enough. */
int node_info_command_read(const void *data, size_t len, struct node_info *ret_info) MUST_CHECK;

/* The value bytes of a node's row (the key holds the id). decode: 0, ERR_TRUNCATED,
 * ERR_BAD_VERSION or ERR_CORRUPT. */
void node_info_row_encode(const struct node_info *info, struct buf *buf);
int node_info_row_decode(uint64_t node_id, const void *value, size_t len,
                         struct node_info *ret_info) MUST_CHECK;

#endif
