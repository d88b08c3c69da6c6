/*
 * model_atomic.h - makes a file's atomic operations, its heap and its copies of memory calls of the
 * explorer. To be included first of all (gcc -include), so that the file needs no change.
 *
 * Operations that are not here (without an explicit order, or written as x += 1) the sanitizer's
 * instrumentation makes calls that nobody defines: they do not link.
 *
 * Thread: one.
 */
#ifndef LEAFD_MEMORY_MODEL_MODEL_ATOMIC_H
#define LEAFD_MEMORY_MODEL_MODEL_ATOMIC_H

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "cluster-tests/memory_model/model.h"
#include "cluster-tests/memory_model/ops.h"

/* The type of what p points to, without qualifiers. */
#define MODEL_TYPE(p) __typeof__((void)0, *(p))
#define MODEL_WORD(type, value) ((uint64_t)(uintptr_t)(type)(value))
#define MODEL_SITE(kind, at)                                                                       \
    ({                                                                                             \
        static struct model_site model_site_ = {.file = __FILE__,                                  \
                                                .func = __func__,                                  \
                                                .what = (kind),                                    \
                                                .place = (at),                                     \
                                                .line = __LINE__,                                  \
                                                .weak_order = -1,                                  \
                                                .weak_failure = -1};                               \
        &model_site_;                                                                              \
    })
#define MODEL_MODIFY(kind, change, p, v, o)                                                        \
    ((MODEL_TYPE(p))(uintptr_t)model_modify(MODEL_SITE(kind, #p), (p), sizeof *(p), (change),      \
                                            MODEL_WORD(MODEL_TYPE(p), (v)), (o)))
#define MODEL_COMPARE(p, e, d, s, f, is_weak)                                                      \
    ({                                                                                             \
        __auto_type model_expected_ = (e);                                                         \
        struct model_swap model_swap_ = {(uint64_t)(uintptr_t)*model_expected_,                    \
                                         MODEL_WORD(MODEL_TYPE(p), (d)), (s), (f), (is_weak)};     \
        bool model_done_ =                                                                         \
            model_compare(MODEL_SITE("compare_exchange", #p), (p), sizeof *(p), &model_swap_);     \
        if (!model_done_) {                                                                        \
            *model_expected_ = (MODEL_TYPE(p))(uintptr_t)model_swap_.expected;                     \
        }                                                                                          \
        model_done_;                                                                               \
    })

#undef atomic_init
#undef atomic_load_explicit
#undef atomic_store_explicit
#undef atomic_exchange_explicit
#undef atomic_fetch_add_explicit
#undef atomic_fetch_sub_explicit
#undef atomic_fetch_or_explicit
#undef atomic_compare_exchange_weak_explicit
#undef atomic_compare_exchange_strong_explicit
#undef atomic_thread_fence

#define atomic_init(p, v) model_init((p), sizeof *(p), MODEL_WORD(MODEL_TYPE(p), (v)))
#define atomic_load_explicit(p, o)                                                                 \
    ((MODEL_TYPE(p))(uintptr_t)model_load(MODEL_SITE("load", #p), (p), sizeof *(p), (o)))
#define atomic_store_explicit(p, v, o)                                                             \
    model_store(MODEL_SITE("store", #p), (p), sizeof *(p), MODEL_WORD(MODEL_TYPE(p), (v)), (o))
#define atomic_exchange_explicit(p, v, o) MODEL_MODIFY("exchange", MODEL_EXCHANGE, p, v, o)
#define atomic_fetch_add_explicit(p, v, o) MODEL_MODIFY("fetch_add", MODEL_ADD, p, v, o)
#define atomic_fetch_sub_explicit(p, v, o) MODEL_MODIFY("fetch_sub", MODEL_SUB, p, v, o)
#define atomic_fetch_or_explicit(p, v, o) MODEL_MODIFY("fetch_or", MODEL_OR, p, v, o)
#define atomic_compare_exchange_weak_explicit(p, e, d, s, f) MODEL_COMPARE(p, e, d, s, f, true)
#define atomic_compare_exchange_strong_explicit(p, e, d, s, f) MODEL_COMPARE(p, e, d, s, f, false)
#define atomic_thread_fence(o) model_fence(MODEL_SITE("fence", ""), (o))

/* Scenarios alone. */
#define MODEL_AWAIT(p)                                                                             \
    ((MODEL_TYPE(p))(uintptr_t)model_await(MODEL_SITE("await", #p), (p), sizeof *(p), false))
#define MODEL_AWAIT_OR_STAY(p)                                                                     \
    ((MODEL_TYPE(p))(uintptr_t)model_await(MODEL_SITE("await", #p), (p), sizeof *(p), true))

#define malloc(bytes) model_calloc(1, (bytes))
#define calloc(count, bytes) model_calloc((count), (bytes))
#define realloc(memory, bytes) model_realloc((memory), (bytes))
#define free(memory) model_free(memory)
#define memcpy(to, from, bytes) model_copy((to), (from), (bytes))
#define memmove(to, from, bytes) model_copy((to), (from), (bytes))
#define memset(to, byte, bytes) model_set((to), (byte), (bytes))
#define memcmp(a, b, bytes) model_differ((a), (b), (bytes))
#define assert_failed model_assert_failed

#endif
