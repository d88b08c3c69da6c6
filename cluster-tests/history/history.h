/*
 * history.h - was a run of clients right? A history of operations on ids is checked after the run.
 *
 * An operation is one request: its tag, its client, when it was sent, when its reply was received,
 * and the ids of the reply, one contiguous range. All times are of one monotonic clock of the
 * machine the clients ran on (any unit: nanoseconds, turns of a simulation). An operation whose
 * outcome is unknown (no answer, a broken connection, an error that does not say that nothing was
 * allocated, under way when the run ended) has no ids; the ids it asked for may have been burnt. A
 * request that was surely refused (400, 404, 409) is no operation and is not recorded.
 *
 * What must hold for the ids of a tag:
 *
 *   once     no id is in two operations (all modes)
 *   key      operations of one idempotency key have the same range, and count as one: sent at the
 *            earliest time any of them was sent (answered or not: the first attempt may have
 *            allocated), received at the earliest time any of them was answered (all modes)
 *   strict   an operation has no id below one that was acknowledged before it was sent:
 *            received < sent; equal times are concurrent (strict and monotonic tags)
 *   start    no id is below the tag's start, if it has one (strict and monotonic tags)
 *   dense    the ids that were acknowledged have no gaps, from the start (else the lowest one seen)
 *            to the highest, but those that operations of unknown outcome can have burnt: each of
 *            them at most once, and a key at most once and not at all if it was answered (strict
 *            tags)
 *
 * Nothing that holds is ever reported, whatever the order of the calls. A key is known by 64 bits;
 * should two texts have the same ones (3 in a million for ten million keys), that is reported.
 *
 * Whatever does not hold is reported, but for gaps: to decide whether operations of unknown outcome
 * can have burnt them is bin packing, and the search for a way is bounded (history_steps). What was
 * not decided is counted and reported; see dense.h.
 *
 * When a tag's ids begin anew (a forced max_id, a change of its mode), what follows is another
 * axis: give it a tag of its own here, such as "orders#2". The same holds for a key that was used
 * again after it expired: another key here.
 *
 * The time is O(n log n), and the steps of that search. Memory: 40 bytes an operation, 16 more
 * while it is sorted; ten million operations are checked within 600 MB.
 *
 *     struct history *history = history_new();
 *     uint32_t tag = history_tag(history, "orders", 6);
 *     history_declare(history, tag, HISTORY_STRICT, 1);
 *     history_add(history, &(struct history_op){.tag = tag, .client = c, .sent = 10, ...});
 *     if (!history_check(history, 20, &report)) { ... report.text ... }
 *
 * Thread: one owner each.
 */
#ifndef LEAFD_HISTORY_HISTORY_H
#define LEAFD_HISTORY_HISTORY_H

#include "src/base/err.h"
#include "cluster-tests/history/entry.h"
#include "cluster-tests/history/report.h"

#define HISTORY_OPS_MAX (UINT32_C(1) << 31) /* operations; more: ERR_TOO_LARGE */

struct history_op {
    uint32_t tag;      /* of history_tag() */
    uint32_t client;   /* of history_client() */
    uint64_t sent;     /* before the first byte of the request was sent */
    uint64_t received; /* after the reply was read; HISTORY_UNKNOWN: there was none */
    uint64_t first;    /* of the ids; not looked at if the outcome is unknown */
    uint32_t count;    /* how many ids it asked for, and got: first .. first + count - 1 */
    uint64_t key;      /* a hash or a number of the idempotency key, within the tag; 0: none */
};

struct history;
struct history_axis;

/* An empty history; lack of memory ends the process. */
struct history *history_new(void);

/* NULL-safe. */
void history_free(struct history *history);

/* The number of a tag or a client by its name, a new one if it was not known. Numbers count from 0
 * in the order of the first calls. */
uint32_t history_tag(struct history *history, const char *name, size_t len);
uint32_t history_client(struct history *history, const char *name, size_t len);

/*
 * What is demanded of a tag; must be said before history_check() for each tag with operations.
 * start is the id the tag begins at, or HISTORY_NO_START; trend tags have none (it is not looked
 * at). Saying it again is fine; ERR_CONFLICT: something else was said before.
 */
int history_declare(struct history *history, uint32_t tag, enum history_mode mode, uint64_t start);

/* The name of a tag that has operations and was not declared, with its length; NULL if none. */
const char *history_undeclared(const struct history *history, size_t *ret_len);

/*
 * Add an operation. In any order; tag and client must be numbers of this history (ASSERT).
 * ERR_INVALID: received before it was sent, count 0, or ids beyond HISTORY_LAST_ID.
 * ERR_TOO_LARGE: more than HISTORY_OPS_MAX.
 */
int history_add(struct history *history, const struct history_op *op) MUST_CHECK;

/* What is kept of a tag (check.h). */
const struct history_axis *history_axis(const struct history *history, uint32_t tag);

/* How many steps the search for a way to fill a gap may take, instead of HISTORY_STEPS; for all of
 * a tag it is a hundred times as many. 0: only what is seen without a search is refused. */
void history_steps(struct history *history, uint64_t steps);

/*
 * Check all of it. True if nothing was found; look at report->undecided, too. At most texts_max
 * violations have a line in report->text, with the operations involved, and as many gaps that are
 * not decided; all are counted. Operations may be added after it, and all checked again.
 */
bool history_check(struct history *history, unsigned texts_max, struct history_report *ret_report);

#endif
