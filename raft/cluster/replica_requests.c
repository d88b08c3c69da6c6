/*
 * replica_requests.c - requests of all kinds find their way (replica.h): commands and queries into
 * the cluster, strict ones to their gatherer; tags are opened, and pages filled, here.
 *
 * Failure modes: as id_backend.h says.
 *
 * Thread: the raft loop.
 */
#include <stdlib.h>

#include "raft/cluster/replica_internal.h"
#include "src/base/assert.h"

/* A tag asked for on this node for the first time: known here, or the leader is asked. */
struct open_request {
    struct id_request query;
    struct id_request *outer;
    struct replica *replica;
};

/* An answer that came round a cut link may be older than what the log has told since. */
static int open_row(struct replica *replica, const struct tag_row *row)
{
    const struct tag_row *own = fsm_tag(replica->fsm, row->name, row->name_len);
    bool newer = own != NULL && own->generation > row->generation;
    struct id_tag *tag = allocator_open(replica->allocator, newer ? own : row);

    return tag != NULL ? 0 : ERR_OVERLOADED;
}

static void open_done(struct id_request *query)
{
    struct open_request *open = query->data;
    struct tag_rows rows = {0};
    int status = query->status;

    if (status == 0) {
        status = tag_rows_decode(query->reply.data, query->reply.len, &rows);
    }
    if (status == 0) {
        status = rows.count == 1 ? open_row(open->replica, &rows.rows[0]) : ERR_UNKNOWN_TAG;
    }
    tag_rows_release(&rows);
    requests_finish(&open->replica->requests, open->outer, status);
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

static void submit_open(struct replica *replica, struct id_request *request)
{
    const char *name = (const char *)request->payload.data;
    const struct tag_row *row = fsm_tag(replica->fsm, name, request->payload.len);
    const struct id_tag *tag = id_table_find(replica->table, name, request->payload.len);
    struct open_request *open;

    if (is_known(row, tag)) {
        requests_finish(&replica->requests, request, open_row(replica, row));
        return;
    }
    open = calloc(1, sizeof *open);
    ASSERT(open != NULL);
    open->outer = request;
    open->replica = replica;
    open->query.kind = ID_REQUEST_QUERY;
    open->query.deadline_ms = request->deadline_ms;
    open->query.done = open_done;
    open->query.data = open;
    query_get_encode(&open->query.payload, name, request->payload.len);
    requests_submit(&replica->requests, &open->query);
}

static int fill_segments(struct replica *replica, struct id_request *request)
{
    struct query query;

    if (query_decode(request->payload.data, request->payload.len, &query) != 0 ||
        query.type != QUERY_TAG_LIST) {
        return ERR_BAD_MESSAGE;
    }
    allocator_segments(replica->allocator, query.name, query.name_len, query.after, query.after_len,
                       query.limit, request->out);
    return 0;
}

void replica_submit(struct replica *replica, struct id_request *request)
{
    int status;

    if (replica->stopping) {
        requests_finish(&replica->requests, request, ERR_SHUTTING_DOWN);
        return;
    }
    switch (request->kind) {
    case ID_REQUEST_COMMAND:
    case ID_REQUEST_QUERY:
        requests_submit(&replica->requests, request);
        break;
    case ID_REQUEST_OPEN:
        submit_open(replica, request);
        break;
    case ID_REQUEST_STRICT:
        strict_submit(replica->strict, request);
        break;
    case ID_REQUEST_MEMBER:
        wishes_submit(&replica->wishes, request);
        break;
    case ID_REQUEST_EVERYWHERE:
        everywhere_submit(&replica->everywhere, request);
        break;
    case ID_REQUEST_STATUS:
        replica_status(replica, request->out);
        requests_finish(&replica->requests, request, 0);
        break;
    case ID_REQUEST_SEGMENTS:
        status = fill_segments(replica, request);
        requests_finish(&replica->requests, request, status);
        break;
    default:
        UNREACHABLE("kind of request");
    }
}
