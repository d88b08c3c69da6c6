/*
 * denial.h - what a client is told whose request the gate (gate.h) does not let through: 404 at the
 * wrong listener, 421, 403 and 415 to web pages (web.h), 401 without or with an unknown token, 403
 * without the role or for another's tag, each with what is missing. All but the first are audited.
 *
 * Also the rules on tags that no path names: a prefix limits what may be listed and put.
 *
 * Failure modes: none. Thread: the loop's.
 */
#ifndef LEAFD_HTTP_API_DENIAL_H
#define LEAFD_HTTP_API_DENIAL_H

#include <stdbool.h>

#include "src/base/buf.h"

struct conn;
struct param;

/* Answer what the gate refused. Returns ANSWERED. */
int deny(struct conn *conn);

/* A list of tags is asked for, by this option; where the client has one prefix, and asks for none,
 * it becomes that. False: the client may not see all of the list; answered. */
bool narrow_list(struct conn *conn, struct param *prefix);

/* May the client change all tags of a command? Else answered. */
bool may_put(struct conn *conn, const struct buf *command);

#endif
