/*
 * world.h - a small history for tests: tag "t", clients "c0" to "c9", and what is told.
 *
 * Thread: one.
 */
#ifndef LEAFD_HISTORY_TESTS_WORLD_H
#define LEAFD_HISTORY_TESTS_WORLD_H

#include <stdbool.h>
#include <stdint.h>

#include "cluster-tests/history/history.h"

#define LOST HISTORY_UNKNOWN

struct history_world {
    struct history *history;
    struct history_report report; /* of the last check, but for its text */
    char text[4096];
};

/* A history with tag 0, "t", as declared, and clients 0 to 9, "c0" to "c9". */
void world_begin(struct history_world *w, enum history_mode mode, uint64_t start);

/* Add an operation of tag 0, which must be one. */
void put(struct history_world *w, uint32_t client, uint64_t sent, uint64_t received, uint64_t first,
         uint32_t count, uint64_t key);

/* True if nothing is found. The report agrees with itself. */
bool world_check(struct history_world *w, unsigned texts_max);

/* Nothing is found; ends the history. */
void expect_clean(struct history_world *w);

/* One violation is found, of this kind and with this text; ends the history. */
void expect(struct history_world *w, enum history_kind kind, const char *text);

#endif
