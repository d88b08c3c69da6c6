/*
 * parked.h - a request for ids that waits: until its tag has more, or, without a tag, until the
 * clock brings them.
 *
 * Made when a claim cannot be filled at once, and freed when it is answered or its connection
 * closes.
 *
 * Failure modes: too many wait on this loop: 503.
 *
 * Thread: the loop's.
 */
#ifndef LEAFD_HTTP_API_PARKED_H
#define LEAFD_HTTP_API_PARKED_H

#include "http/api/ids.h"
#include "http/api/waiters.h"
#include "http/server/conn.h"

struct api_loop;

struct parked {
    struct http_wait wait;
    struct api_loop *loop;
    struct waiter waiter;
    struct id_claim claim;
};

/* Park a copy of the claim until its deadline. False if too many wait; answered. */
bool parked_begin(struct conn *conn, const struct id_claim *claim, struct id_tag *tag,
                  void (*cancel)(struct http_wait *wait), void (*expire)(struct http_wait *wait));

/* The oldest that waits for the tag (NULL: for the clock); NULL: none does. */
struct parked *parked_first(struct waiters *waiters, const struct id_tag *tag);

/* It waits no more: to be answered and freed. Returns its connection. */
struct conn *parked_resume(struct parked *parked);

#endif
