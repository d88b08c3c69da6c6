/*
 * change_log.h - what changes in the cluster, as lines of the log, on each node: members, a change
 * of them that begins or is given up, the level, tags that have become strict, and this node's
 * worker ids.
 *
 * Who asked for it has a line where it was asked (http/api/audited.h); these are of what became of
 * it, also where nobody asked: a node that joins, one that votes now, a level that rises by itself.
 *
 * The happy path: change_log_begin() with the replica as it is loaded; change_log_turn() each turn,
 * which costs some comparisons where nothing has changed.
 *
 * Failure modes: none. What is applied again after a crash is logged again. What came and went in
 * one turn, or in a snapshot, is logged by what is left of it.
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
    uint64_t moves; /* of members; where they are reached: */
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

/* A tag is strict: no node can hold a segment of it any more. All of a turn are one line. */
void change_log_opened(struct change_log *log, const struct tag_row *row);

void change_log_turn(struct change_log *log);

#endif
