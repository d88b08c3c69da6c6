/*
 * litmus.h - small programs with known outcomes, to test the explorer.
 *
 * A program works on a few locations and puts what it read into registers; an outcome is the digits
 * of the registers it uses. Thread: one.
 */
#ifndef LEAFD_MEMORY_MODEL_TESTS_LITMUS_H
#define LEAFD_MEMORY_MODEL_TESTS_LITMUS_H

#include "cluster-tests/memory_model/model_atomic.h"

#define LITMUS_REGISTERS 8

extern _Atomic uint32_t x, y, z;
extern uint32_t r[LITMUS_REGISTERS];

/* Begin to collect outcomes of `registers` digits. */
void litmus_begin(unsigned registers);

/* For a scenario's setup and accept. */
void litmus_setup(void);
void litmus_accept(void);

/* All outcomes that were seen, sorted, with a space between two. */
const char *litmus_outcomes(void);

/* Short words for programs. */
#define RLX memory_order_relaxed
#define ACQ memory_order_acquire
#define REL memory_order_release
#define AR memory_order_acq_rel
#define SC memory_order_seq_cst
#define GET(at, order) atomic_load_explicit(&(at), order)
#define PUT(at, value, order) atomic_store_explicit(&(at), value, order)
#define ADD(at, value, order) atomic_fetch_add_explicit(&(at), value, order)

#endif
