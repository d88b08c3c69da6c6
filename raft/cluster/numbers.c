/*
 * numbers.c - see numbers.h. Thread: one owner.
 */
#include "raft/cluster/numbers.h"

#include <stdlib.h>

#include "src/base/assert.h"

#define PLACES (2 * NUMBERS_MAX)

static struct numbered *place_of(const struct numbers *numbers, uint64_t number)
{
    return &numbers->places[number % PLACES];
}

void numbers_init(struct numbers *numbers, uint64_t seed, uint64_t mark)
{
    ASSERT(mark == 0 || mark == NUMBERS_MARK);
    *numbers = (struct numbers){.places = MUST_HAVE(calloc(PLACES, sizeof *numbers->places)),
                                .last = mark | seed >> 16};
}

void numbers_free(struct numbers *numbers)
{
    ASSERT(numbers->count == 0);
    free(numbers->places);
    numbers->places = NULL;
}

uint64_t numbers_give(struct numbers *numbers, void *item)
{
    ASSERT(item != NULL && numbers->count < NUMBERS_MAX);
    do {
        numbers->last++;
    } while (place_of(numbers, numbers->last)->item != NULL);
    *place_of(numbers, numbers->last) = (struct numbered){numbers->last, item};
    numbers->count++;
    return numbers->last;
}

void *numbers_find(const struct numbers *numbers, uint64_t number)
{
    const struct numbered *place = place_of(numbers, number);

    return place->number == number ? place->item : NULL;
}

void numbers_end(struct numbers *numbers, uint64_t number)
{
    ASSERT(numbers_find(numbers, number) != NULL && numbers->count > 0);
    place_of(numbers, number)->item = NULL;
    numbers->count--;
}
