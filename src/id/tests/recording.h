/*
 * recording.h - a log that was recorded at some level, with what it made of the state: the meaning
 * of that level, which no later leafd may change (docs/versions.md).
 *
 * A text file of lines:
 *
 *   level N                     first
 *   entry INDEX HEX             a command, as it stands in the log
 *   conf INDEX BEFORE AFTER     a configuration: members "1v,2v,3s", or "-"
 *   sum INDEX DIGEST RESULTS    every few entries: the digest of the state, and a hash of all
 *                               results so far
 *   rows INDEX                  the state at this index follows,
 *   row KEY VALUE               a row each, in hex
 *
 * The happy path: recording_replay() reads one and sees that everything is the same; from the rows
 * on also for a state machine that began with them, as from a snapshot. recording_write() makes
 * one, from random commands of every type, and never in place of one that is there.
 *
 * Failure modes: replaying prints the line that differs and returns false. Thread: one.
 */
#ifndef LEAFD_ID_TESTS_RECORDING_H
#define LEAFD_ID_TESTS_RECORDING_H

#include <stdbool.h>
#include <stdint.h>

#define RECORDED_TYPES 64 /* of commands: more than there are */

/* How often a type of commands was applied, and of these with a result that is no refusal. */
struct recording_counts {
    unsigned applied[RECORDED_TYPES];
    unsigned done[RECORDED_TYPES];
};

/* False: it differs, or does not read. */
bool recording_replay(const char *path, struct recording_counts *ret_counts);

/* 0, or an errno: EEXIST if there is one. */
int recording_write(const char *path, uint16_t level);

#endif
