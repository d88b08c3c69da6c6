/*
 * entry.h - the words that all of a history is made of, and an operation as it is kept.
 *
 * Thread: one owner each.
 */
#ifndef LEAFD_HISTORY_ENTRY_H
#define LEAFD_HISTORY_ENTRY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HISTORY_UNKNOWN UINT64_MAX  /* received: there was no answer, or none with ids */
#define HISTORY_NO_START UINT64_MAX /* start: the lowest id that was seen */
#define HISTORY_LAST_ID ((UINT64_C(1) << 63) - 2)
#define HISTORY_STEPS 200000 /* of the search for a way to fill a gap */

enum history_mode {
    HISTORY_TREND,     /* segments of several nodes: once, key */
    HISTORY_MONOTONIC, /* ids of a leader's window: these, strict and start */
    HISTORY_STRICT,    /* all of them */
};

/* One operation, or several of one key and one count merged into one. */
struct history_entry {
    uint64_t sent;
    uint64_t received; /* HISTORY_UNKNOWN: count ids were burnt, or none */
    uint64_t first;
    uint64_t key; /* of several entries of unknown outcome with one key one at most burnt ids */
    uint32_t count;
    uint32_t client;
};

_Static_assert(sizeof(struct history_entry) == 40, "the memory that history.h promises");

static inline bool history_answered(const struct history_entry *entry)
{
    return entry->received != HISTORY_UNKNOWN;
}

static inline uint64_t history_end(const struct history_entry *entry)
{
    return entry->first + entry->count;
}

/* Are its ids to rise over all clients and nodes? */
static inline bool history_rises(enum history_mode mode)
{
    return mode != HISTORY_TREND;
}

/* For qsort(). */
static inline int history_order(uint64_t a, uint64_t b)
{
    return a < b ? -1 : a > b;
}

#endif
