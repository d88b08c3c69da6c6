/*
 * give_back.h - the end of a node's segments: what is unused goes back to the cluster if it can,
 * and is burnt if not.
 *
 * The happy path: give_back_begin() claims all that is left in both slots of every tag, as any
 * claimer would, so that nobody else can; what is the top of its tag's range goes into
 * COMMAND_GIVE_BACKs, whose answers say what was taken back.
 *
 * Why nothing can be handed out twice: the ids were claimed by this function and go to nobody; the
 * state machine takes them back only if no id above them was granted since (max_id is their end)
 * and at most once (session.h). See command.h.
 *
 * Failure modes: a range that is not the top, more than LIMIT_GIVE_BACK_TAGS of them, a refusal, no
 * answer in time: burnt, and counted so. An answer that was lost counts as burnt as well.
 *
 * Thread: one owner (the raft loop).
 */
#ifndef LEAFD_ID_ALLOC_GIVE_BACK_H
#define LEAFD_ID_ALLOC_GIVE_BACK_H

#include "src/base/clock.h"
#include "src/id/alloc/id_table.h"
#include "src/id/codec/request.h"
#include "src/id/codec/tag.h"

struct give_back {
    struct id_table *table;
    const struct clock *clock;
    struct id_proposer *proposer;
    size_t open;       /* commands under way */
    uint64_t returned; /* ids that were given back */
    uint64_t burnt;    /* ids that were not */
};

/* The state machine's row of a tag, NULL: it has none. */
typedef const struct tag_row *(*row_of_fn)(void *data, const char *name, size_t len);

/* Nobody may publish a segment from here on. deadline_ms: of the commands. The struct stays until
 * open is 0. */
void give_back_begin(struct give_back *give_back, uint64_t deadline_ms, row_of_fn row_of,
                     void *data);

#endif
