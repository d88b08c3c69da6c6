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

uint32_t files_connections(uint64_t allowed, uint32_t loops, uint32_t wanted)
{
    uint64_t kept = files_kept(loops);
    uint64_t left = allowed > kept ? (allowed - kept) / loops : 0;

    ASSERT(loops > 0);
    left = left > FILES_CONNECTIONS_MIN ? left : FILES_CONNECTIONS_MIN;
    return left < wanted ? (uint32_t)left : wanted;
}
