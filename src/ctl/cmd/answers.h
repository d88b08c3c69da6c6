/*
 * answers.h - what leafctl makes of the answers of several nodes: what `check` finds, and how fast
 * tags are used, which `top` shows. Pure functions, tested by themselves.
 *
 * Ownership: findings and rates are freed by their owner; answers are borrowed for the call.
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
    json_t *list;   /* of objects {severity, about, text, do}; an alarm's may have `more`, texts */
    json_t *alarms; /* of each: with which alarms it goes, or "" */
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
 * A node tells of each tag's rate and of what is left in its buffers (GET /api/node/segments). The
 * rates of all nodes are summed; the time for which a tag's buffers last is that of the node where
 * it is shortest. */

struct rate {
    const char *tag; /* owned by the rates */
    uint64_t per_s;
    uint64_t left;  /* ids in buffers, of all nodes */
    uint64_t step;  /* the largest segment of a node */
    double lasts_s; /* at the present rate; below 0: for ever */
    unsigned nodes; /* that use it */
};

struct rates {
    json_t *by_tag; /* object: an integer, the place in the list */
    struct rate *list;
    size_t count;
    size_t capacity;
};

void rates_init(struct rates *rates);
void rates_free(struct rates *rates);

/* What one node's page says. */
void rates_add(struct rates *rates, const json_t *page);

/* Busiest first; equal ones by name. Nothing may be added any more. */
void rates_sort(struct rates *rates);

#endif
