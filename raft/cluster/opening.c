/*
 * opening.c - see opening.h. Thread: the raft loop.
 */
#include "raft/cluster/opening.h"

#include <stdlib.h>

#include "src/base/assert.h"
#include "src/base/container.h"

/* A tag about which the leader is asked. */
struct open_request {
    struct id_request query;
    struct id_request *outer;
    struct opening *opening;
};

/* An answer that came round a cut link may be older than what the log has told since. */
static int open_row(struct opening *opening, const struct tag_row *row)
{
    const struct tag_row *own = fsm_tag(opening->on->fsm, row->name, row->name_len);
    bool newer = own != NULL && own->generation > row->generation;
    struct id_tag *tag = allocator_open(opening->allocator, newer ? own : row);

    return tag != NULL ? 0 : ERR_OVERLOADED;
}

static void on_queried(struct id_request *query)
{
    struct open_request *open = CONTAINER(query, struct open_request, query);
    struct tag_rows rows = {0};
    int status = query->status;

    if (status == 0) {
        status = tag_rows_decode(query->reply.data, query->reply.len, &rows);
    }
    if (status == 0) {
        status = rows.count == 1 ? open_row(open->opening, &rows.rows[0]) : ERR_UNKNOWN_TAG;
    }
    tag_rows_release(&rows);
    answers_put(open->opening->on->answers, open->outer, status);
    buf_free(&query->payload);
    buf_free(&query->reply);
    free(open);
}

/* A tag known as exhausted may have been set back, or made again, a moment ago; one known as strict
 * is asked for here only when the log said that it is not. Then the leader's row tells, as for one
 * that is not known. */
static bool is_known(const struct tag_row *row, const struct id_tag *tag)
{
    uint32_t state = tag != NULL ? atomic_load(&tag->state) : ID_TAG_ACTIVE;

    return row != NULL && !row->deleted && state != ID_TAG_EXHAUSTED && state != ID_TAG_STRICT;
}

void opening_submit(struct opening *opening, struct id_request *request)
{
    const char *name = (const char *)request->payload.data;
    const struct tag_row *row = fsm_tag(opening->on->fsm, name, request->payload.len);
    const struct id_tag *tag = id_table_find(opening->table, name, request->payload.len);
    struct open_request *open;

    ASSERT(request->kind == ID_REQUEST_OPEN);
    if (is_known(row, tag)) {
        answers_put(opening->on->answers, request, open_row(opening, row));
        return;
    }
    open = calloc(1, sizeof *open);
    ASSERT(open != NULL);
    open->outer = request;
    open->opening = opening;
    open->query.kind = ID_REQUEST_QUERY;
    open->query.deadline_ms = request->deadline_ms;
    open->query.done = on_queried;
    query_get_encode(&open->query.payload, name, request->payload.len);
    requests_submit(opening->requests, &open->query);
}
