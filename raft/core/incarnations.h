/*
 * incarnations.h - the incarnations that a node had itself: the count of each start, and the random
 * half that was drawn for it.
 *
 * The count alone does not tell a copy of a data directory from the original: once it was started
 * as often, it counts as high. The random halves do. They are on the disk (LOCAL_INCARNATIONS)
 * before anybody hears of them, and with each dial a node says those that it had, so that whoever
 * met another one under the same count knows it for a copy (rollback.h).
 *
 * The happy path: incarnations_load() and incarnations_add() at the start, incarnations_save() into
 * the same commit as the count; incarnations_earlier() into each statement.
 *
 * Failure modes: a record that is damaged or of another version is refused. More than
 * LIMIT_INCARNATIONS: the oldest are forgotten, and told by their count alone.
 *
 * Thread: pure functions, one owner.
 */
#ifndef LEAFD_RAFT_CORE_INCARNATIONS_H
#define LEAFD_RAFT_CORE_INCARNATIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "raft/wire/wire.h"
#include "src/base/buf.h"
#include "src/base/err.h"
#include "src/base/limits.h"

struct incarnations {
    uint64_t newest;                     /* count of the first of these; 0: there is none */
    uint32_t random[LIMIT_INCARNATIONS]; /* the newest first */
    uint32_t known;                      /* how many of them */
};

/* Of an empty record: none. 0, ERR_BAD_VERSION or ERR_CORRUPT. */
int incarnations_load(struct incarnations *incarnations, const void *record, size_t len) MUST_CHECK;
void incarnations_save(const struct incarnations *incarnations, struct buf *record);

/* A new one, of this count, which is above all that are known. Should one between be missing, those
 * before it are forgotten. */
void incarnations_add(struct incarnations *incarnations, uint64_t count, uint32_t random);

/* The newest as a whole: its count, and below it its random half. There must be one. */
uint64_t incarnations_newest(const struct incarnations *incarnations);

/* Append those before the newest, as a statement has them (wire.h). */
void incarnations_earlier(const struct incarnations *incarnations, struct buf *earlier);

/* Is it one of these, the newest too? Of one that is older than all that are kept, the count alone
 * decides. */
bool incarnations_include(const struct incarnations *incarnations, uint64_t incarnation);

/* May a node that says this of itself have had that incarnation before this one? Of one that is
 * older than all that it says, the count alone decides. */
bool incarnations_may_include(const struct wire_statement *statement, uint64_t incarnation);

#endif
