/*
 * opinion.h - what is to be said of one node's answers: pure functions, which `check` feeds, and
 * what they find: how bad, about what, why, and what to do. Each is said once: what several servers
 * say in the same words, and what a node's own alarm says already.
 *
 * The happy path: findings_init(); opinion_*() of each server's answers, which takes a node's
 * alarms first, and finding_add() for what else there is; findings_print().
 *
 * Thread: any; findings are of one.
 */
#ifndef LEAFD_CTL_CMD_OPINION_H
#define LEAFD_CTL_CMD_OPINION_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "src/base/buf.h"

/* --- voters --- */

/* How many voters are needed, how many are there, and what the next failure would cost: as the node
 * says, or, where it does not, out of its members. */
struct quorum {
    int64_t voters;
    int64_t needed;
    int64_t reachable;
    bool survives_next_failure;
    char text[320]; /* not clean */
};

/* Of an answer of GET /api/status or GET /api/cluster. */
void quorum_of(const json_t *status, struct quorum *ret);

/* --- findings --- */

enum severity { SEVERITY_GOOD, SEVERITY_WARNING, SEVERITY_CRITICAL };

/* What a finding is of, in other words than its text: of a node, or of the cluster (node 0). One
 * about the cluster stands for each of its nodes, too. */
struct topic {
    const char *kind; /* static; NULL: none, and only equal texts are the same finding */
    int64_t node;
};

struct findings {
    json_t *list;   /* of objects {severity, about, text, do}; an alarm's may have `more`, texts */
    json_t *topics; /* of each: "kind/node", or "" */
    enum severity worst;
};

void findings_init(struct findings *findings);
void findings_free(struct findings *findings);

/* Of a topic: nothing if there is a finding of it already. todo: NULL for what is good. */
void finding_add_of(struct findings *findings, struct topic topic, enum severity severity,
                    const char *about, const char *todo, const char *format, ...)
    __attribute__((format(printf, 6, 7)));

/* The same of none. */
#define finding_add(findings, ...) finding_add_of((findings), (struct topic){0}, __VA_ARGS__)

/* Append them for people, worst first; with_good: also what is as it should be. */
void findings_print(const struct findings *findings, bool with_good, struct buf *out);

const char *severity_name(enum severity severity);

/* --- opinions --- */

/* Of GET /api/status, or GET /api/cluster of an older node. wall_ms: now, for what expires. */
void opinion_status(struct findings *findings, const json_t *status, uint64_t wall_ms);

/* Of GET /readyz?verbose, after the status of the same server. node: its id; 0: not known. */
void opinion_ready(struct findings *findings, const char *server, int64_t node,
                   const json_t *ready);

/* Of GET /api/cluster/level. */
void opinion_level(struct findings *findings, const json_t *level);

/* A time of RFC 3339 in UTC as Unix milliseconds. False: it is none. */
bool opinion_time(const char *text, uint64_t *ret_ms);

#endif
