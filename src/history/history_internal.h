/*
 * history_internal.h - how a history is kept, for the files of this folder and its tests.
 *
 * Thread: one owner each.
 */
#ifndef LEAFD_HISTORY_HISTORY_INTERNAL_H
#define LEAFD_HISTORY_HISTORY_INTERNAL_H

#include "src/history/history.h"
#include "src/history/history_names.h"

/* An operation as it is kept, or several of one key and one count merged into one. */
struct history_entry {
    uint64_t sent;
    uint64_t received; /* HISTORY_UNKNOWN: count ids were burnt, or none */
    uint64_t first;
    uint64_t key; /* of several entries of unknown outcome with one key one at most burnt ids */
    uint32_t count;
    uint32_t client;
};

_Static_assert(sizeof(struct history_entry) == 40, "the memory that history.h promises");

struct history_axis {
    struct history_entry *entries;
    size_t count;
    size_t capacity;
    bool keyed; /* some entries have a key */
    bool declared;
    enum history_mode mode;
    uint64_t start;
};

struct history {
    struct history_names tags;
    struct history_names clients;
    struct history_axis *axes; /* one a tag, by its number */
    uint32_t axis_count;
    uint32_t axis_capacity;
    uint64_t operations;
    uint64_t unknown;
    uint64_t steps;
};

static inline bool history_answered(const struct history_entry *entry)
{
    return entry->received != HISTORY_UNKNOWN;
}

static inline uint64_t history_end(const struct history_entry *entry)
{
    return entry->first + entry->count;
}

/* What the telling of violations needs. */
struct history_telling {
    const struct history *history;
    uint32_t tag;
    unsigned texts_left;
    unsigned undecided_left; /* texts on what was not decided */
    struct history_report *report;
};

/* Count a violation. True if its text is wanted, and then it is begun: "kind: tag ...: ". */
bool history_tell(struct history_telling *telling, enum history_kind kind);

/* Count a gap that is not decided; the same. */
bool history_tell_undecided(struct history_telling *telling);

/* Append an answered entry to the text: "5..9 of client c1 (sent 100, received 200)". */
void history_tell_entry(struct history_telling *telling, const struct history_entry *entry);

/* All checks of one tag. The entries are sorted, and those of a key merged. */
void history_check_axis(struct history_axis *axis, struct history_telling *telling);

#endif
