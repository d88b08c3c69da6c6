/*
 * change_log.h - changes in the cluster, as lines of the log, on each node: members, a change of
 * them that begins or is given up, the level, tags that have become strict, and this node's worker
 * ids.
 *
 * The client that asked for a change is logged where it asked (http/api/audited.h). These lines are
 * on the result, also of changes without a request: a node that joins, one that now votes, a level
 * that rises automatically.
 *
 * The happy path: change_log_begin() with the replica as it is loaded; change_log_turn() each turn,
 * which costs a few comparisons if nothing has changed.
 *
 * Failure modes: none. Entries applied again after a crash are logged again. Of changes within one
 * turn, or in a snapshot, only the result is logged.
 *
 * Thread: the raft loop.
 */
#ifndef LEAFD_SERVICE_CHANGE_LOG_H
#define LEAFD_SERVICE_CHANGE_LOG_H

#include "raft/cluster/replica.h"
#include "src/id/codec/tag.h"
#include "src/id/snowflake/lease.h"
#include "src/id/snowflake/snowflake.h"

struct change_log {
    const struct replica *replica;
    const struct lease *lease;
    const struct snowflake *snowflake;
    uint64_t conf_index; /* of the applied configuration */
    struct configuration conf;
    uint64_t moves; /* of members; their addresses: */
    struct net_peer reached[LIMIT_NODES];
    size_t reached_count;
    uint64_t change_index; /* of the last change of the members; 0: there was none */
    bool given_up;
    uint16_t level;
    uint32_t slots; /* worker ids of this process, the lost ones too */
    bool lost[LIMIT_SNOWFLAKE_SLOTS];
    uint32_t opened; /* tags that became strict in this turn; the first of them: */
    char opened_tag[LIMIT_TAG_NAME_BYTES];
    uint16_t opened_len;
};

/* All of these are borrowed. */
void change_log_begin(struct change_log *log, const struct replica *replica,
                      const struct lease *lease, const struct snowflake *snowflake);

/* A tag is strict: no node can still hold a segment of it. All tags of a turn are one line. */
void change_log_opened(struct change_log *log, const struct tag_row *row);

void change_log_turn(struct change_log *log);

#endif
