/*
 * files.c - see files.h. Thread: pure functions, any.
 */
#include "src/app/files.h"

#include "src/base/assert.h"
#include "src/base/limits.h"

#define OF_NODE 48 /* store, log, loops and signals of the node, and what is opened for a moment */
#define OF_LOOP 12 /* listeners, epoll, wake-ups, and a reserve to refuse with */

uint64_t files_kept(uint32_t loops)
{
    return LIMIT_PEER_CONNECTIONS + LIMIT_PEERS + OF_NODE +
           (uint64_t)loops * (OF_LOOP + LIMIT_HTTP_REFUSED);
}

uint64_t files_least(uint32_t loops)
{
    return OF_NODE + (uint64_t)loops * OF_LOOP;
}

static uint32_t bound(uint64_t left, uint32_t wanted)
{
    left = left > FILES_CONNECTIONS_MIN ? left : FILES_CONNECTIONS_MIN;
    return left < wanted ? (uint32_t)left : wanted;
}

void files_divide(uint64_t allowed, uint32_t loops, uint32_t wanted, uint32_t admin_wanted,
                  struct files_split *ret_split)
{
    uint64_t kept = files_kept(loops + (admin_wanted > 0));
    uint64_t left = allowed > kept ? allowed - kept : 0;

    ASSERT(loops > 0);
    ret_split->admin_connections = admin_wanted > 0 ? bound(left / 4, admin_wanted) : 0;
    left -= left > ret_split->admin_connections ? ret_split->admin_connections : left;
    ret_split->connections = bound(left / loops, wanted);
}
