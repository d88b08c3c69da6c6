/*
 * snowflake_fixture.h - a server whose backend carries a generator of snowflake ids, for tests.
 */
#ifndef LEAFD_HTTP_API_TESTS_SNOWFLAKE_FIXTURE_H
#define LEAFD_HTTP_API_TESTS_SNOWFLAKE_FIXTURE_H

#include "http/tests/fixture.h"

#define T0 1700000000000ULL /* the wall clock's first time */
#define SMALL_BITS 6        /* sequence bits of the small layout */
#define GET "/api/snowflake/get/"

/* For cmocka: state is a struct fixture. The wall clock stands at T0, by Leaf's layout and worker
 * id 7 with a window of an hour; "small": by a layout of 64 ids a millisecond and worker id 5;
 * "bare": the generator has neither layout nor worker id. */
int snowflake_setup(void **state);
int snowflake_setup_small(void **state);
int snowflake_setup_bare(void **state);

/* "bare", and the state machine has T0 as the log's time and a layout of 64 worker ids. */
int workers_setup(void **state);

/* The one worker id of a fixture that is not bare. */
struct snowflake_slot *snowflake_slot_of(struct fixture *f);

/* Set the wall clock to T0 + ms. */
void snowflake_at(struct fixture *f, int64_t ms);

/* Claim what is left of the millisecond that the clock shows, past the server. */
void snowflake_use_up(struct fixture *f);

/* One id in the reply's body, taken apart. Releases the reply. */
struct snowflake_parts snowflake_one(struct fixture *f, struct reply *reply);

/* The lines of a body as numbers: their count, at most max. Each is larger than the one before. */
size_t snowflake_lines(const struct reply *reply, uint64_t *ret_ids, size_t max);

#endif
