/*
 * collide.h - names that a client would choose to slow a hash table down, and what they cost.
 *
 * Thread: one.
 */
#ifndef LEAFD_TESTS_UNIT_COLLIDE_H
#define LEAFD_TESTS_UNIT_COLLIDE_H

#include <stddef.h>
#include <stdint.h>

#define COLLIDE_NAME_BYTES 9 /* with its NUL */

typedef char collide_name[COLLIDE_NAME_BYTES];

/* Make `count` names whose hash_bytes() with this seed has no bit of the mask. */
void collide_make(uint64_t seed, uint64_t mask, size_t count, collide_name *ret_names);

/* The same number, whose hashes are as they come. */
void collide_make_others(size_t count, collide_name *ret_names);

/* The least CPU time of some calls of run(names, count, data): what else the machine does is not in
 * it. */
uint64_t collide_cost_ns(void (*run)(collide_name *names, size_t count, void *data),
                         collide_name *names, size_t count, void *data);

#endif
