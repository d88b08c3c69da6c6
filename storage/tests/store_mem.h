/*
 * store_mem.h - the store in memory, behind the same vtable, for tests and the simulation.
 *
 * What commit() took is "durable": it lives in the struct until store_mem_free(), across close()
 * and store_mem_reopen(), as a disk would. Faults by countdown: commit fails with an error at the
 * k-th call.
 *
 * Thread: one at a time.
 */
#ifndef LEAFD_STORAGE_TESTS_STORE_MEM_H
#define LEAFD_STORAGE_TESTS_STORE_MEM_H

#include "storage/store.h"

/* A new, empty store. */
struct store *store_mem_new(const struct store_identity *identity);

/* After ops->close(): usable again with what was committed. */
void store_mem_reopen(struct store *store);

/* Another one with the same data, as a copy of a disk: what was committed. */
struct store *store_mem_copy(struct store *store);

/* Free it with its data (closed or not). */
void store_mem_free(struct store *store);

/* The k-th commit from now (1: the next) fails with err and changes nothing; 0: never. */
void store_mem_fail_commit(struct store *store, unsigned k, int err);

#endif
