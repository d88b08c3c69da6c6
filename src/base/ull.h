/*
 * ull.h - a number for "%llu", which asks for a type that uint64_t is not everywhere.
 */
#ifndef LEAFD_BASE_ULL_H
#define LEAFD_BASE_ULL_H

#include <stdint.h>

static inline unsigned long long ull(uint64_t number)
{
    return number;
}

#endif
