/*
 * strict_world.h - a gatherer of strict requests under test: a proposer that keeps the batches
 * until the test answers them, a clock that stands until it is moved, and a record of who was
 * answered what.
 *
 * Thread: one.
 */
#ifndef LEAFD_ID_ALLOC_TESTS_STRICT_WORLD_H
#define LEAFD_ID_ALLOC_TESTS_STRICT_WORLD_H

#include "src/id/alloc/allocator.h"
#include "src/id/alloc/strict.h"

#define STRICT_WORLD_KEYS 500
#define STRICT_WORLD_HOLD_MS 3 /* how long a small batch is held back at most */

/* A request of a client; free with strict_ask_free() or strict_world_free(). */
struct strict_ask {
    struct cluster_request base;
    STAILQ_ENTRY(strict_ask) next;
    unsigned answers; /* how often it was answered */
    uint64_t answered_ms;
};

struct strict_world {
    struct clock clock;
    uint64_t now_ms;
    struct timers timers;
    bool leader_known; /* at the next turn */
    struct id_proposer proposer;
    struct cluster_request *batches[2 * LIMIT_STRICT_BATCHES]; /* not answered yet, oldest first */
    size_t batch_count;
    unsigned proposed;  /* in all */
    int answer_at_once; /* > 0: that many are given ids from inside propose() */
    uint64_t next_id;
    struct answers answers;
    struct id_table *table;
    struct allocator *allocator;
    struct strict *strict;
    STAILQ_HEAD(, strict_ask) asks;
};

/* A leader is known. */
struct strict_world *strict_world_new(void);
/* Batches that are left get ERR_SHUTTING_DOWN. */
void strict_world_free(struct strict_world *world);
/* A test's begin and end, for cmocka. */
int strict_world_setup(void **state);
int strict_world_teardown(void **state);

/* Submit a request with so much patience; key NULL: none. */
struct strict_ask *strict_world_ask(struct strict_world *world, const char *tag, uint32_t count,
                                    const char *key, uint64_t patience_ms);

/* The command of batch number at, walked to its first item. */
struct command_list strict_world_command(struct strict_world *world, size_t at);

/* Give every request of batch number at its ids, one after the other from next_id. */
void strict_world_give(struct strict_world *world, size_t at);
/* Answer batch number at with these results, or with an error. */
void strict_world_results(struct strict_world *world, size_t at,
                          const struct strict_result *results, size_t count);
void strict_world_fail(struct strict_world *world, size_t at, int status);
/* The same answer to all requests of batch number at. */
void strict_world_say(struct strict_world *world, size_t at, int32_t status, uint64_t detail);

/* Fire what is due, as the owner's loop does, until nothing is. */
void strict_world_turn(struct strict_world *world);
/* strict_stop(). */
void strict_world_stop(struct strict_world *world);
/* When the owner's loop is woken next. */
uint64_t strict_world_next_ms(const struct strict_world *world);
/* Let time go by, and fire what is due. */
void strict_world_pass_ms(struct strict_world *world, uint64_t ms);

/* The result that a request was answered with; fails the test if it was not, or has none. */
struct strict_result strict_world_result(const struct strict_ask *ask);

#endif
