/*
 * finding.h - what `check` has found: how bad, about what, why, and what to do. Each is said once:
 * what several servers say in the same words, and what a node's own alarm says already.
 *
 * The happy path: findings_init(); of each server first its alarms (finding_add_alarm()), then what
 * else there is; findings_print().
 *
 * Thread: one.
 */
#ifndef LEAFD_CTL_CMD_FINDING_H
#define LEAFD_CTL_CMD_FINDING_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "src/base/buf.h"

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

/* An alarm of a node, which takes the place of other findings of its topic. Where another node has
 * the same one in other words, these are told with it. Any of the texts may be NULL. */
void finding_add_alarm(struct findings *findings, struct topic topic, enum severity severity,
                       const char *name, const char *todo, const char *text);

/* Append them for people, worst first; with_good: also what is as it should be. */
void findings_print(const struct findings *findings, bool with_good, struct buf *out);

const char *severity_name(enum severity severity);

#endif
