/*
 * wait_all.h - changes of tags whose answer waits until they hold on all nodes (?wait=all), and
 * how long any of them may take (?timeout_ms).
 *
 * The happy path: the change is made as any other; then the backend is asked to say when all
 * members have applied its entry (ID_REQUEST_EVERYWHERE), and what the change was told is answered
 * only then.
 *
 * Failure modes: not all have in time: 503 not_everywhere, which says that the change is made and
 * names those that are missing. It is an error, though something was done: who asks for all must
 * not take less for it.
 *
 * Thread: the loop's.
 */
#ifndef LEAFD_HTTP_API_WAIT_ALL_H
#define LEAFD_HTTP_API_WAIT_ALL_H

#include <stdbool.h>

#include "http/api/call.h"

struct conn;
struct option;

/* Read the options wait and timeout_ms, which were parsed. False if they are wrong; answered. */
bool wait_all_read(struct conn *conn, const struct option *wait, const struct option *timeout_ms,
                   struct change_wait *ret_wait);

/* Hand the change to the backend. */
void wait_all_submit(struct conn *conn, struct call *change, const struct change_wait *wait);

/* The change was answered. True if all are waited for first: then change->finish is called with
 * another call, whose request's reply is this one's and whose status tells of the others. */
bool wait_all_begin(struct conn *conn, struct call *change);

/* True if the change failed, or was made and not all had it in time; answered. what: that which
 * holds nevertheless, for the message. */
bool wait_all_failed(struct conn *conn, const struct call *waited, const char *what);

#endif
