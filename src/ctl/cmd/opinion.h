/*
 * opinion.h - what is to be said of one node's answers: pure functions, which `check` feeds. What
 * an alarm of a node says is not said again.
 * Thread: any.
 */
#ifndef LEAFD_CTL_CMD_OPINION_H
#define LEAFD_CTL_CMD_OPINION_H

#include "src/ctl/cmd/finding.h"

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
