/*
 * four_ids.h - a state machine with the worker ids 0 to 3 and a time, for tests of single commands
 * on them. All functions assert.
 *
 * Thread: one.
 */
#ifndef LEAFD_ID_TESTS_FOUR_IDS_H
#define LEAFD_ID_TESTS_FOUR_IDS_H

#include "src/id/tests/id_apply.h"

#define T 1700000000000ULL /* the cluster's time */
#define WINDOW 10000ULL    /* ms, what is asked for */

extern const struct snowflake_layout FOUR_IDS; /* two worker bits */

/* As id_apply_begin(). */
int four_ids_setup(void **state);

/* A client's wish for any id; and what it is told. */
struct worker_acquire four_ids_asking(const char *name);
struct worker_result four_ids_acquire(struct id_apply *a, const char *name);

struct worker_renew four_ids_renewal(uint32_t id, uint64_t epoch, uint64_t wall_ms);

void four_ids_granted(struct worker_result result, uint32_t id, uint64_t epoch, uint64_t from_ms,
                      uint64_t until_ms);

/* Refused, and nothing changed. */
void four_ids_refused(struct id_apply *a, struct worker_result result, int status);

#endif
