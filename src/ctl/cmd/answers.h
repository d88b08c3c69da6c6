/*
 * answers.h - what leafctl makes of the answers of several nodes: what `check` finds, and how fast
 * tags are used, which `top` shows. Pure functions, tested by themselves.
 *
 * Ownership: findings are freed by their owner; answers are borrowed for the call.
 * Thread: one.
 */
#ifndef LEAFD_CTL_CMD_ANSWERS_H
#define LEAFD_CTL_CMD_ANSWERS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "src/base/buf.h"

/* --- findings: how bad, about what, why, and what to do ---
 *
 * A node judges itself and its cluster: its alarms, its quorum and its checks are shown as it says
 * them. Judged here is only what no node judges. Each is said once: what several nodes say in the
 * same words, and what is known before the node's alarm has begun.
 *
 * The happy path: findings_init(); find_*() of each node's answers, and finding_add() for what else
 * there is; findings_settle(), findings_print(). */

enum severity { SEVERITY_GOOD, SEVERITY_WARNING, SEVERITY_CRITICAL };

struct findings {
    json_t *list; /* of objects {severity, about, text, do}; an alarm's may have `more`, texts */
    enum severity worst;
};

void findings_init(struct findings *findings);
void findings_free(struct findings *findings);

/* alarm: what the name of a node's alarm begins with that says the same: with one of these among
 * the findings, this one goes; NULL: it stays. todo: NULL for what is good. */
void finding_add(struct findings *findings, enum severity severity, const char *about,
                 const char *alarm, const char *todo, const char *format, ...)
    __attribute__((format(printf, 6, 7)));

/* Once all is added: what an alarm says goes. */
void findings_settle(struct findings *findings);

/* Append them for people, worst first; with_good: also what is as it should be. */
void findings_print(const struct findings *findings, bool with_good, struct buf *out);

const char *severity_name(enum severity severity);

/* Of GET /api/status. */
void find_in_status(struct findings *findings, const json_t *status);

/* Of GET /readyz?verbose of a server. */
void find_in_ready(struct findings *findings, const char *server, const json_t *ready);

/* Of GET /api/cluster/level. */
void find_in_level(struct findings *findings, const json_t *level);

/* --- rates: out of the segments that nodes hold ---
 *
 * A node reports each tag's rate and what is left in its buffers (GET /api/node/segments). The
 * rates of all nodes are summed; the time for which a tag's buffers last is that of the node where
 * it is shortest. */

/* What one node's page says, into an object by tag of {tag, rate_per_s, left (ids in buffers), step
 * (the largest segment), lasts_s (at the present rate; null: for ever), nodes (that use it)}. */
void rates_add(json_t *rates, const json_t *page);

/* The busiest first, equal ones by name, so many at most. The list is the caller's. */
json_t *rates_busiest(json_t *rates, size_t most);

#endif
