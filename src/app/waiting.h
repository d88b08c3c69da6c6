/*
 * waiting.h - the doors of a node that waits to be let in by its cluster: health is answered, and
 * whatever needs the cluster gets 503, so that a supervisor can tell such a node from a dead one.
 *
 * They are the doors that the node will have, with the same addresses, certificate and tokens, over
 * a backend that has no cluster.
 *
 * The happy path: waiting_begin() when the node begins to ask; waiting_end() when it is in, or
 * gives up, before the real doors are opened.
 *
 * Failure modes: an address that cannot be bound is logged, and the node waits without doors.
 * Thread: main; the backend's functions are called on HTTP's.
 */
#ifndef LEAFD_APP_WAITING_H
#define LEAFD_APP_WAITING_H

#include "src/app/doors.h"

struct waiting;

/* All arguments are borrowed until waiting_end(). NULL: the doors could not be opened. */
struct waiting *waiting_begin(const struct config *config, struct tls *tls,
                              const struct http_build *build, const struct files_split *files);

/* Accepts NULL. */
void waiting_end(struct waiting *waiting);

#endif
