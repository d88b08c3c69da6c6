/*
 * store_gen.h - operations for the tests of storage: a generator that knows what a store must hold,
 * and a dump that makes two stores comparable.
 *
 * The generator keeps its own small picture (terms of the log, values of the rows, position), so
 * each operation it makes fits the ones before, and any prefix of them is a valid history.
 *
 * Thread: one owner.
 */
#ifndef LEAFD_STORAGE_TESTS_STORE_GEN_H
#define LEAFD_STORAGE_TESTS_STORE_GEN_H

#include "src/base/prng.h"
#include "storage/store.h"

#define GEN_KEYS 48
#define GEN_SLICE_ROWS 2
#define GEN_LOG_MAX 100000

struct gen {
    struct prng prng;
    uint64_t term;
    uint64_t vote;
    uint64_t first;
    uint64_t last;
    uint64_t *terms; /* by index, GEN_LOG_MAX of them */
    struct store_position position;
    struct buf values[GEN_KEYS]; /* empty: no such row */
    size_t max_entry_bytes;
};

void gen_init(struct gen *gen, uint64_t seed);
void gen_release(struct gen *gen);

/* Operations are malloc'ed with all they point to; free with gen_op_free(). */
struct store_op *gen_hard_state(struct gen *gen, uint64_t term, uint64_t vote);
/* Append count entries at index (<= last + 1, > position.index) with the present term. */
struct store_op *gen_append(struct gen *gen, uint64_t index, uint32_t count);
/* Apply up to index with so many changes of rows: puts, and deletions of rows that are there. */
struct store_op *gen_apply(struct gen *gen, uint64_t index, uint32_t changes);
/* Apply up to index with a put of each row: as many as a bulk has for a store whose slices have few
 * rows (GEN_SLICE_ROWS). */
struct store_op *gen_puts(struct gen *gen, uint64_t index);
/* Install a state at index (>= position.index) with all rows made anew. */
struct store_op *gen_install(struct gen *gen, uint64_t index);
struct store_op *gen_compact(struct gen *gen, uint64_t index);
struct store_op *gen_local(struct gen *gen, uint32_t key);
/* One of them at random; large: now and then entries of several pages. */
struct store_op *gen_any(struct gen *gen);
void gen_op_free(struct store_op *op);

/* Commit one operation in a list of its own and free it. */
int gen_commit(struct store *store, struct store_op *op, struct store_error *ret_error);

/* Append the canonical bytes of all load() gives (store id left out). 0 or load()'s error. */
int gen_dump(struct store *store, struct buf *out, struct store_error *ret_error);

/* The same in place of what is there; the test fails if it cannot be read. */
void gen_must_dump(struct store *store, struct buf *content);

bool gen_same(const struct buf *a, const struct buf *b);

/* Read a whole snapshot; returns snapshot_open's or snapshot_read's error. */
int gen_snapshot(struct store *store, size_t max_bytes, struct buf *rows,
                 struct store_position *ret_position);

#endif
