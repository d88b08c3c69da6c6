/*
 * ops.h - what the code under test calls in place of its atomic operations, its heap and its copies
 * of memory (model_atomic.h makes it so).
 *
 * Thread: one.
 */
#ifndef LEAFD_MEMORY_MODEL_OPS_H
#define LEAFD_MEMORY_MODEL_OPS_H

#include "cluster-tests/memory_model/model.h"

/* The operations; the value of an object of `bytes` bytes is in the low ones. */
void model_init(const volatile void *at, size_t bytes, uint64_t value);
uint64_t model_load(struct model_site *site, const volatile void *at, size_t bytes, int order);
void model_store(struct model_site *site, const volatile void *at, size_t bytes, uint64_t value,
                 int order);
enum model_change { MODEL_EXCHANGE, MODEL_ADD, MODEL_SUB, MODEL_OR };
/* The old value. */
uint64_t model_modify(struct model_site *site, const volatile void *at, size_t bytes,
                      enum model_change change, uint64_t value, int order);
struct model_swap {
    uint64_t expected; /* when it fails: what was found */
    uint64_t desired;
    int order;
    int failure;
    bool weak;
};
bool model_compare(struct model_site *site, const volatile void *at, size_t bytes,
                   struct model_swap *swap);
void model_fence(struct model_site *site, int order);
/* Load (acquire) until the value is not 0; may_stay: to wait for ever is no mistake. */
uint64_t model_await(struct model_site *site, const volatile void *at, size_t bytes, bool may_stay);

void *model_calloc(size_t count, size_t bytes);
void *model_realloc(void *memory, size_t bytes);
void model_free(void *memory);
void *model_copy(void *to, const void *from, size_t bytes);
void *model_set(void *to, int byte, size_t bytes);
int model_differ(const void *a, const void *b, size_t bytes);
_Noreturn void model_assert_failed(const char *expression, const char *file, int line,
                                   const char *func);

#endif
