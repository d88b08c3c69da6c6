/*
 * budget.c - see budget.h. Thread: a loop's.
 */
#include "http/server/budget.h"

#include "src/base/assert.h"

#define SMALL_PART 4 /* this part of the room for bodies is for small ones alone */

static uint64_t at_least(uint64_t value, uint64_t least)
{
    return value > least ? value : least;
}

void budget_init(struct budget *budget, const struct http_settings *settings)
{
    /* One bulk body has to fit, whatever is set, and as many loops as there are. */
    uint64_t least_bytes = LIMIT_HTTP_BODY_BYTES / (SMALL_PART - 1) * SMALL_PART + SMALL_PART;

    ASSERT(settings->loops > 0);
    *budget = (struct budget){
        .bodies_max = at_least(settings->bodies_bytes / settings->loops, least_bytes),
        .client_max = at_least(settings->client_bodies_bytes, LIMIT_HTTP_BODY_BYTES),
        .output_max =
            at_least(settings->output_bytes / settings->loops, LIMIT_HTTP_OUTPUT_MIN_BYTES),
        .input_max = at_least(settings->input_bytes / settings->loops, LIMIT_HTTP_INPUT_MIN_BYTES),
    };
    budget->large_max = budget->bodies_max - budget->bodies_max / SMALL_PART;
    ASSERT(budget->large_max >= LIMIT_HTTP_BODY_BYTES);
}

static uint64_t large_of(uint64_t bytes)
{
    return budget_is_large(bytes) ? bytes : 0;
}

/* Add to what the client's large bodies take. False: it would be more than its share. */
static bool client_take(struct http_client *client, uint64_t more, uint64_t max)
{
    uint64_t before = atomic_load_explicit(&client->body_bytes, memory_order_relaxed);

    do {
        if (before + more > max) {
            return false;
        }
    } while (!atomic_compare_exchange_weak_explicit(&client->body_bytes, &before, before + more,
                                                    memory_order_relaxed, memory_order_relaxed));
    return true;
}

enum budget_result budget_body(struct budget *budget, struct http_client *client,
                               uint64_t from_bytes, uint64_t to_bytes)
{
    uint64_t before = atomic_load_explicit(&budget->body_bytes, memory_order_relaxed);
    uint64_t more = to_bytes - from_bytes;
    uint64_t more_large = large_of(to_bytes) - large_of(from_bytes);

    ASSERT(from_bytes <= to_bytes);
    if (before + more > budget->bodies_max) {
        return BUDGET_ALL;
    }
    if (more_large > 0) {
        if (budget->large_bytes + more_large > budget->large_max) {
            return BUDGET_LARGE;
        }
        if (!client_take(client, more_large, budget->client_max)) {
            return BUDGET_CLIENT;
        }
        budget->large_bytes += more_large;
    }
    atomic_store_explicit(&budget->body_bytes, before + more, memory_order_relaxed);
    return BUDGET_OK;
}

void budget_body_free(struct budget *budget, struct http_client *client, uint64_t bytes)
{
    uint64_t before = atomic_load_explicit(&budget->body_bytes, memory_order_relaxed);
    uint64_t large = large_of(bytes);

    ASSERT(before >= bytes && budget->large_bytes >= large);
    atomic_store_explicit(&budget->body_bytes, before - bytes, memory_order_relaxed);
    if (large > 0) {
        budget->large_bytes -= large;
        ASSERT(atomic_fetch_sub_explicit(&client->body_bytes, large, memory_order_relaxed) >=
               large);
    }
}
