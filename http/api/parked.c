/*
 * parked.c - see parked.h. Thread: the loop's.
 */
#include "http/api/parked.h"

#include <stdlib.h>

#include "http/api/context.h"
#include "http/api/request.h"
#include "src/base/assert.h"
#include "src/base/container.h"

bool parked_begin(struct conn *conn, const struct id_claim *claim, struct id_tag *tag,
                  void (*cancel)(struct http_wait *wait), void (*expire)(struct http_wait *wait))
{
    struct api_loop *loop = api_loop(conn);
    struct parked *parked = calloc(1, sizeof *parked);

    ASSERT(parked != NULL);
    ASSERT(claim->left > 0);
    if (waiters_add(&loop->waiters, &parked->waiter, tag, claim->left) != 0) {
        free(parked);
        reply_error(conn, 503, "overloaded", "%d requests wait for ids on this loop already",
                    LIMIT_WAITERS_PER_LOOP);
        return false;
    }
    parked->loop = loop;
    parked->claim = *claim;
    parked->wait.cancel = cancel;
    parked->wait.expire = expire;
    parked->wait.needs_client = true;
    conn_wait(conn, &parked->wait, claim->deadline_ms);
    return true;
}

struct parked *parked_first(struct waiters *waiters, const struct id_tag *tag)
{
    struct waiter *waiter = waiters->count > 0 ? waiters_first(waiters, tag) : NULL;

    return waiter != NULL ? CONTAINER(waiter, struct parked, waiter) : NULL;
}

struct conn *parked_resume(struct parked *parked)
{
    waiters_remove(&parked->loop->waiters, &parked->waiter);
    return conn_resume(&parked->wait);
}
