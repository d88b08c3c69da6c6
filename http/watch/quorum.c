/*
 * quorum.c - see quorum.h.
 */
#include "http/watch/quorum.h"

#include <stdio.h>
#include <string.h>

#include "src/base/assert.h"

static void quorum_set_text(struct quorum *quorum)
{
    unsigned more;

    if (quorum->voters == 0) {
        (void)snprintf(quorum->text, sizeof quorum->text,
                       "this node does not know the members of its cluster yet");
    } else if (quorum->reachable < quorum->needed) {
        (void)snprintf(quorum->text, sizeof quorum->text,
                       "%u of %u voters can be reached and %u are needed: no change is possible, "
                       "and ids last only as long as those in memory",
                       quorum->reachable, quorum->voters, quorum->needed);
    } else if (quorum->voters == 1) {
        (void)snprintf(quorum->text, sizeof quorum->text,
                       "this is the only voter: when it fails, all is out of service");
    } else if (!quorum->survives_next_failure) {
        (void)snprintf(quorum->text, sizeof quorum->text,
                       "%u of %u voters can be reached, which is just enough: when the next one "
                       "fails, no change is possible, and ids last only as long as those in memory",
                       quorum->reachable, quorum->voters);
    } else {
        more = quorum->reachable - quorum->needed;
        (void)snprintf(quorum->text, sizeof quorum->text,
                       "%u of %u voters can be reached: %u more may fail", quorum->reachable,
                       quorum->voters, more);
    }
}

void quorum_of(const struct id_cluster_status *status, struct quorum *ret_quorum)
{
    *ret_quorum = (struct quorum){0};
    ASSERT(status->member_count <= LIMIT_NODES);
    for (size_t i = 0; i < status->member_count; i++) {
        if (strcmp(status->members[i].role, "voter") == 0) {
            ret_quorum->voters++;
            ret_quorum->reachable += status->members[i].reachable;
        }
    }
    ret_quorum->needed = ret_quorum->voters / 2 + 1;
    ret_quorum->survives_next_failure =
        ret_quorum->voters > 0 && ret_quorum->reachable > ret_quorum->needed;
    quorum_set_text(ret_quorum);
}
