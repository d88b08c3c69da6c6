/*
 * store_meta.h - what a store knows beside its entries and rows, and the rules every operation
 * keeps.
 *
 * Both engines hold a struct store_meta and move it with store_meta_step(), so that the rules of
 * store.h are in one place and an engine never commits what load() would refuse.
 *
 * Invariants, at every commit:
 *  - first_index >= 1; last_index >= first_index - 1 (then the log is empty).
 *  - first_index - 1 <= position.index <= last_index: no gap between state and log, and nothing
 *    applied that the log lacks.
 *  - Terms of entries never fall and never pass the hard state's term.
 *  - last_term is the term of the entry at last_index, in the log or dropped from its front.
 *
 * Failure modes: an operation that breaks a rule gives ERR_CORRUPT with its text; the meta is then
 * undefined and the engine drops it with the transaction. Sizes out of bounds are bugs of the
 * caller (ASSERT). Thread: one owner each.
 */
#ifndef LEAFD_STORAGE_STORE_META_H
#define LEAFD_STORAGE_STORE_META_H

#include "storage/store.h"

/* A local record. Never changed once made, so that the meta of a transaction shares what it does
 * not replace. */
struct store_local {
    unsigned refs;
    uint32_t len;      /* 1..LIMIT_LOCAL_RECORD_BYTES */
    uint32_t checksum; /* CRC32C of data */
    uint8_t data[];
};

struct store_meta {
    uint64_t term;
    uint64_t vote;
    uint64_t first_index;
    uint64_t last_index;
    uint64_t last_term;
    struct store_position position;                  /* conf owned */
    struct store_local *locals[LIMIT_LOCAL_RECORDS]; /* shared; NULL: no such record */
    uint64_t compact_to; /* first index to keep, 0: nothing to do; lost with the process */
};

/* The term of the log's entry at an index within [first_index, last_index]. 0 or ERR_*. */
typedef int (*store_term_fn)(void *engine, uint64_t index, uint64_t *ret_term,
                             struct store_error *ret_error);

/* The meta of a new store: nothing applied, an empty log that begins at 1. */
void store_meta_init(struct store_meta *meta);
void store_meta_copy(struct store_meta *ret_meta, const struct store_meta *from);
void store_meta_release(struct store_meta *meta);

/* Put a copy of the bytes in the place of a record. */
void store_local_set(struct store_local **local, const void *data, uint32_t len);

/* Copy all of it to what load() returns: term and vote, first index, position, local records. */
void store_meta_load(const struct store_meta *meta, struct store_loaded *ret_loaded);

/* Check an operation against the meta and move the meta. The rows' digest is the engine's to check.
 */
int store_meta_step(struct store_meta *meta, const struct store_op *op, store_term_fn term_fn,
                    void *engine, struct store_error *ret_error) MUST_CHECK;

/* Take the next chunk of a pending compaction: first_index moves up by what it returns, and the
 * engine deletes so many entries from the front. */
uint64_t store_meta_compact(struct store_meta *meta);

/* Check the invariants of a meta that was read from disk. */
int store_meta_verify(const struct store_meta *meta, struct store_error *ret_error) MUST_CHECK;

/* 0 if the digest of the rows is the position's, else ERR_CORRUPT. */
int store_meta_verify_digest(const struct store_position *position, uint64_t rows_digest,
                             struct store_error *ret_error) MUST_CHECK;

#endif
