/*
 * collide.c - see collide.h.
 */
#include "src/tests/unit/collide.h"

#include <time.h>

#include "src/base/assert.h"
#include "src/base/hash.h"

#define ROUNDS 5

/* The number in base 64, of characters that every kind of name may have. */
static void name_number(uint64_t number, char *ret_name)
{
    static const char digits[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_";

    for (size_t i = 0; i < COLLIDE_NAME_BYTES - 1; i++) {
        ret_name[i] = digits[number >> (6 * i) & 63];
    }
    ret_name[COLLIDE_NAME_BYTES - 1] = '\0';
}

void collide_make(uint64_t seed, uint64_t mask, size_t count, collide_name *ret_names)
{
    uint64_t number = 0;

    for (size_t i = 0; i < count; number++) {
        name_number(number, ret_names[i]);
        i += (hash_bytes(ret_names[i], COLLIDE_NAME_BYTES - 1, seed) & mask) == 0;
    }
}

void collide_make_others(size_t count, collide_name *ret_names)
{
    for (size_t i = 0; i < count; i++) {
        name_number(i << 12, ret_names[i]);
    }
}

uint64_t collide_cost_ns(void (*run)(collide_name *names, size_t count, void *data),
                         collide_name *names, size_t count, void *data)
{
    uint64_t least = UINT64_MAX;

    for (unsigned i = 0; i < ROUNDS; i++) {
        struct timespec from;
        struct timespec to;
        uint64_t ns;

        ASSERT(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from) == 0);
        run(names, count, data);
        ASSERT(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &to) == 0);
        ns = (uint64_t)(to.tv_sec - from.tv_sec) * 1000000000 + (uint64_t)to.tv_nsec -
             (uint64_t)from.tv_nsec;
        least = ns < least ? ns : least;
    }
    return least;
}
