/*
 * handlers_backup.c - GET /api/backup: all rows of the state as a file (backup_file.h), streamed.
 *
 * The happy path: the first call to the backend begins the backup and gives its first bytes; they
 * are sent; when the client has taken them, the next call asks for more, until the last. So at most
 * one part is in memory, however slow the client is; the usual limit of connections cuts it off
 * when it takes nothing at all.
 *
 * Failure modes: before the first byte: 503, as other requests; `overloaded` when another backup is
 * being taken on this node. Later: the connection is reset, and the file has no closing record. The
 * client goes: the backend is told, so that the next backup can begin.
 *
 * Thread: the loop's.
 */
#include <stdlib.h>

#include "http/api/call.h"
#include "http/api/context.h"
#include "http/api/handlers.h"
#include "http/api/request.h"
#include "src/base/assert.h"
#include "src/base/container.h"

#define PART_MS 10000 /* for a part: a read from the node's own disk */

/* A backup whose client is still to take what was sent. */
struct backup_stream {
    struct http_wait wait;
    struct api_loop *loop;
    uint64_t number;
};

static void backup_give_up(struct api_loop *loop, uint64_t number)
{
    struct call *call = call_new(ID_REQUEST_BACKUP, NULL);

    call->backup = (struct id_backup){.number = number, .close = true};
    call_submit_alone(loop, call);
}

/* A part came, and its client has gone. */
static void backup_gone(struct call *call)
{
    if (call->request.status == 0 && !call->backup.end) {
        backup_give_up(call->loop, call->backup.number);
    }
}

static void backup_cancel(struct http_wait *wait)
{
    struct backup_stream *stream = CONTAINER(wait, struct backup_stream, wait);

    backup_give_up(stream->loop, stream->number);
    free(stream);
}

static int backup_part_cb(struct conn *conn, struct call *call);

static struct call *backup_call(uint64_t number)
{
    struct call *call = call_new(ID_REQUEST_BACKUP, backup_part_cb);

    call->sees_errors = true;
    call->gone = backup_gone;
    call->backup.number = number;
    return call;
}

/* The client has taken all: ask for more. */
static void backup_sent(struct http_wait *wait)
{
    struct backup_stream *stream = CONTAINER(wait, struct backup_stream, wait);
    struct conn *conn = conn_resume(wait);

    (void)call_submit_for(conn, backup_call(stream->number), PART_MS);
    free(stream);
}

/* Send a part, and wait until it is taken. */
static void backup_send_part(struct conn *conn, const struct call *call)
{
    struct backup_stream *stream;

    conn_stream_put(conn, call->request.reply.data, call->request.reply.len);
    if (call->backup.end) {
        conn_stream_end(conn, NULL);
        return;
    }
    stream = MUST_HAVE(calloc(1, sizeof *stream));
    *stream = (struct backup_stream){.wait = {.cancel = backup_cancel, .sent = backup_sent},
                                     .loop = api_loop(conn),
                                     .number = call->backup.number};
    conn_wait(conn, &stream->wait, TIMER_NEVER);
}

static int backup_part_cb(struct conn *conn, struct call *call)
{
    if (call->request.status != 0) {
        conn_stream_end(conn, "the backup was given up");
    } else {
        backup_send_part(conn, call);
    }
    return ANSWERED;
}

static int backup_begun_cb(struct conn *conn, struct call *call)
{
    if (call->request.status == ERR_OVERLOADED) {
        return reply_error(conn, 503, "overloaded",
                           "another backup is being taken on this node; one at a time");
    }
    if (call->request.status != 0) {
        return reply_err(conn, call->request.status);
    }
    conn_stream(conn, "application/octet-stream");
    backup_send_part(conn, call);
    return ANSWERED;
}

int handle_backup(struct conn *conn)
{
    struct param options[] = {OPTION_CONSISTENCY, OPTION_TIMEOUT(conn)};
    struct call *call;

    if (!request_options(conn, options, COUNT_OF(options))) {
        return ANSWERED;
    }
    call = backup_call(0);
    call->finish = backup_begun_cb;
    call->backup.local = options[0].number == 1;
    return call_submit_for(conn, call, (uint32_t)options[1].number);
}
