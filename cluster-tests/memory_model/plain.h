/*
 * plain.h - plain accesses of memory by the code under test: do two of them race? Thread: one.
 */
#ifndef LEAFD_MEMORY_MODEL_PLAIN_H
#define LEAFD_MEMORY_MODEL_PLAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Before a run: all memory is as it was. */
void plain_begin(void);

/* An atomic access, which races with a plain one; init: a plain write of an atomic object. */
void plain_atomic(uintptr_t at, size_t bytes, unsigned index, bool init);

/* The first race of the run, or NULL. */
const char *plain_race(void);

#endif
