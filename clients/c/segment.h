/* A source of the ids of segments (docs/clients.md, Segment ids).
 *
 * The happy path: one atomic addition on the range that is handed out (hot_take()). Behind it a
 * lock, a queue of further ranges, and one request at a time by a thread of the client.
 *
 * How a range is changed for the next one: word has the number of the range and how many of its
 * ids were taken. A thread that took one reads the range from the slot of that number, and makes
 * sure after that that it still was that one's: else what it took is skipped. All of that lies in
 * memory which a fork wipes, where range 0 has no ids. */
#ifndef LEAFD_CLIENTS_C_SEGMENT_H
#define LEAFD_CLIENTS_C_SEGMENT_H

#include "client.h"
#include "text.h"

/* A range that is handed out. */
struct hot_slot {
    _Atomic uint32_t number;
    _Atomic uint32_t size;
    _Atomic uint32_t low; /* whoever takes this one asks for more */
    _Atomic int64_t first, increment;
};

struct hot {
    _Alignas(64) _Atomic uint64_t word; /* number << 32 | taken */
    _Alignas(64) struct hot_slot slots[2];
};

enum {
    HOT_NEVER_LOW = 0x7fffffff,
    HOT_TAKEN_MAX = 0x40000000 /* far above the size of any range */
};

/* Up to count ids of the present range, from taken->first on; how many. */
struct hot_taken {
    int64_t first, increment;
    bool low; /* ask for more */
};
uint32_t hot_take(struct hot *hot, uint32_t count, struct hot_taken *taken);

/* How many are left. */
uint32_t hot_left(struct hot *hot);

/* The next range takes the place of one that is used up. One thread at a time. */
void hot_publish(struct hot *hot, const struct leafd_series *range, uint32_t low);

/* Nothing more is taken; how many were left. One thread at a time, that of hot_publish(). */
uint32_t hot_end(struct hot *hot);

/* Ids that a source has handed out from its ranges; of another kind of source 0. */
uint64_t segment_handed_out(struct source *source);
#endif
