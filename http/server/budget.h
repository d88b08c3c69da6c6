/*
 * budget.h - how much memory the requests that are not whole yet, their bodies, and the replies of
 * a loop's connections may take together, and who gives way when it is used up.
 *
 * Input. Of what came of a request and was not served (the beginning of a head, the head of a body
 * that is being received, requests behind others whose turn has not come) a connection keeps a copy
 * (input.h), over TLS also of what is not decrypted yet. All of these are bounded; beyond it the
 * connection goes whose last request is longest ago.
 *
 * Waiting. Whoever waits for an answer keeps its head and what came behind it. It does not count as
 * input, and slow requests do not end it. INPUT_STEP_BYTES, which hold what most clients send, are
 * each one's own; what all of them keep beyond that is bounded by as much again as input, and who
 * would take more is cut off.
 *
 * Bodies. What all of them take is bounded, and so is what one client's large ones take on all
 * loops. A body is large once it has more than LIMIT_HTTP_SMALL_BODY_BYTES. A quarter is kept for
 * small ones, so that large ones cannot crowd them out.
 *
 * Output. Beyond its bound no connection is served that has replies which its client did not take;
 * one that has none still is, so that whoever reads is not refused for the sake of those who do
 * not. Beyond one and a half times the bound nobody is, until slow readers were cut off (rate.h).
 *
 * The settings are for a node, and each loop has its part.
 *
 * The happy path: budget_kept() at the end of a connection's turn; budget_body() before a piece of
 * a body is kept, budget_body_free() when the body goes; budget_output() whenever what a connection
 * holds has changed.
 *
 * Failure modes: no room: which bound stands in the way is said, and nothing is taken.
 *
 * Thread: a loop's; the counts of a client are shared by loops, and what is shown may be read by
 * any.
 */
#ifndef LEAFD_HTTP_SERVER_BUDGET_H
#define LEAFD_HTTP_SERVER_BUDGET_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "http/server/client.h"
#include "http/server/service.h"

struct budget {
    uint64_t bodies_max;
    uint64_t large_max;
    uint64_t client_max; /* of a client's large bodies, on all loops */
    uint64_t output_max;
    uint64_t input_max; /* and likewise of those that wait */
    uint64_t large_bytes;
    /* The loop alone writes; any thread may read. */
    _Atomic uint64_t body_bytes;
    _Atomic uint64_t output_bytes;
    _Atomic uint64_t input_bytes;
    _Atomic uint64_t waiting_bytes;
};

enum budget_result {
    BUDGET_OK,
    BUDGET_CLIENT, /* the client's large bodies take its share */
    BUDGET_LARGE,  /* all large bodies together take theirs */
    BUDGET_ALL
};

/* settings->loops and those of bytes are set. */
void budget_init(struct budget *budget, const struct http_settings *settings);

/* A body grows from one length to another: take the room. */
enum budget_result budget_body(struct budget *budget, struct http_client *client,
                               uint64_t from_bytes, uint64_t to_bytes);

/* A body of that length goes. */
void budget_body_free(struct budget *budget, struct http_client *client, uint64_t bytes);

static inline bool budget_is_large(uint64_t body_bytes)
{
    return body_bytes > LIMIT_HTTP_SMALL_BODY_BYTES;
}

static inline uint64_t budget_output_bytes(const struct budget *budget)
{
    return atomic_load_explicit(&budget->output_bytes, memory_order_relaxed);
}

/* What a connection holds has become another: *counted is what was counted for it. */
static inline void budget_output(struct budget *budget, uint64_t *counted, uint64_t held)
{
    if (held != *counted) {
        atomic_store_explicit(&budget->output_bytes, budget_output_bytes(budget) + held - *counted,
                              memory_order_relaxed);
        *counted = held;
    }
}

/*
 * What a connection keeps has become another: *counted is what was counted for it. In *bytes:
 * input_bytes of its input, waiting_bytes of what it keeps beyond its own while it waits.
 */
static inline void budget_kept(_Atomic uint64_t *bytes, uint32_t *counted, uint32_t kept)
{
    uint64_t before = atomic_load_explicit(bytes, memory_order_relaxed);

    atomic_store_explicit(bytes, before + kept - *counted, memory_order_relaxed);
    *counted = kept;
}

static inline uint64_t budget_input_bytes(const struct budget *budget)
{
    return atomic_load_explicit(&budget->input_bytes, memory_order_relaxed);
}

/* Somebody has to go. */
static inline bool budget_input_is_over(const struct budget *budget)
{
    return budget_input_bytes(budget) > budget->input_max;
}

static inline uint64_t budget_waiting_bytes(const struct budget *budget)
{
    return atomic_load_explicit(&budget->waiting_bytes, memory_order_relaxed);
}

/* The one that grew has to go. */
static inline bool budget_waiting_is_over(const struct budget *budget)
{
    return budget_waiting_bytes(budget) > budget->input_max;
}

/* Nobody is served who has not taken all of its replies. */
static inline bool budget_output_is_full(const struct budget *budget)
{
    return budget_output_bytes(budget) >= budget->output_max;
}

/* Nobody at all is served: those who were although they had taken all took half as much again. */
static inline bool budget_output_is_over(const struct budget *budget)
{
    return budget_output_bytes(budget) >= budget->output_max / 2 * 3;
}

/* It will be so soon, if readers are slow: those who are have to go. */
static inline bool budget_output_is_short(const struct budget *budget)
{
    return budget_output_bytes(budget) >= budget->output_max / 4 * 3;
}

#endif
