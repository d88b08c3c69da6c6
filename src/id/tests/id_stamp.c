/*
 * id_stamp.c - see id_stamp.h. Thread: one.
 */
#include "src/id/tests/id_stamp.h"

#include "src/base/assert.h"
#include "src/id/codec/command.h"

void id_stamp(struct id_stamps *stamps, uint64_t node_id, struct buf *command)
{
    uint64_t awaited;
    uint64_t seq;

    ASSERT(node_id < ID_STAMP_NODES);
    awaited = stamps->awaited[node_id];
    seq = ++stamps->seqs[node_id];
    id_stamp_as(command, node_id, 1, seq, awaited > 0 ? awaited : seq);
}

void id_stamp_as(struct buf *command, uint64_t node_id, uint64_t incarnation, uint64_t seq,
                 uint64_t lowest)
{
    session_stamp_put(command, &(struct session_stamp){node_id, incarnation, seq, lowest});
}

bool id_stamp_is_empty(const struct buf *command)
{
    struct session_stamp stamp;

    return command->len > 0 && command->data[0] == COMMAND_VERSION &&
           session_stamp_read(command->data, command->len, &stamp) == 0 && stamp.node_id == 0;
}
