/*
 * outbox.c - see outbox.h. Thread: the raft loop.
 */
#include "raft/core/outbox.h"

#include <stddef.h>
#include <stdlib.h>

#include "src/base/assert.h"
#include "src/base/buf.h"

void outbox_vote(struct outbox *outbox, uint64_t term, uint64_t vote)
{
    struct write *write = writes_new(outbox->writes, STORE_HARD_STATE);

    ASSERT(term > 0);
    outbox->awaited = write;
    write->op.term = term;
    write->op.vote = vote;
    write_submit(write);
}

void outbox_written(struct outbox *outbox, const struct write *write)
{
    struct held_frame *frame;

    ASSERT(outbox->awaited != NULL && write->number <= outbox->awaited->number);
    outbox->awaited = write == outbox->awaited ? NULL : outbox->awaited;
    outbox->term = write->op.term;
    outbox->vote = write->op.vote;
    STAILQ_FOREACH (frame, &write->held, link) {
        (void)outbox->net->ops->send(outbox->net, frame->to, FRAME_RAFT, &frame->payload);
    }
}

void outbox_send(struct outbox *outbox, uint64_t to, struct buf *payload)
{
    struct held_frame *frame;

    ASSERT(to > 0);
    if (outbox->awaited == NULL) {
        (void)outbox->net->ops->send(outbox->net, to, FRAME_RAFT, payload);
        buf_free(payload);
        return;
    }
    frame = MUST_HAVE(calloc(1, sizeof *frame));
    frame->to = to;
    buf_move(&frame->payload, payload);
    STAILQ_INSERT_TAIL(&outbox->awaited->held, frame, link);
}

/* --- entries for followers --- */

static struct append_rest *rest_of(struct appends *appends, uint64_t to)
{
    for (unsigned i = 0; i < LIMIT_PEERS; i++) {
        if (appends->rests[i].to == to) {
            return &appends->rests[i];
        }
    }
    return NULL;
}

static void end_rest(struct appends *appends, struct append_rest *rest)
{
    ASSERT(rest->to != 0 && appends->count > 0);
    rest->to = 0;
    appends->count--;
}

void appends_forget(struct appends *appends, uint64_t to)
{
    struct append_rest *rest = rest_of(appends, to);

    ASSERT(to > 0);
    if (rest != NULL) {
        end_rest(appends, rest);
    }
}

/* Send one frame, with at most n entries of the log, as many as fit (one always does). Afterwards
 * args are those of the next frame. */
static void send_frame(struct appends *appends, struct raft_message *message, unsigned n)
{
    struct raft_append_entries *args = &message->append_entries;
    struct raft_entry entries[LIMIT_ENTRIES_PER_FRAME];
    struct buf payload = BUF_INIT;
    size_t bytes = 0;
    unsigned i;

    ASSERT(n <= LIMIT_ENTRIES_PER_FRAME);
    for (i = 0; i < n; i++) {
        const struct log_entry *entry = entry_log_get(appends->log, args->prev_log_index + 1 + i);

        ASSERT(entry != NULL);
        bytes += entry->block->len;
        if (i > 0 && bytes > LIMIT_APPEND_BYTES) {
            break;
        }
        entries[i] = (struct raft_entry){.term = entry->term,
                                         .type = (enum raft_entry_type)entry->type,
                                         .buf = {entry->block->data, entry->block->len}};
    }
    args->entries = entries;
    args->n_entries = i;
    message_encode(message, 0, &payload);
    outbox_send(appends->outbox, message->server_id, &payload);
    if (i > 0) {
        args->prev_log_index += i;
        args->prev_log_term = entries[i - 1].term;
    }
    args->entries = NULL;
    args->n_entries = 0;
}

void appends_send(struct appends *appends, struct raft_message *message)
{
    struct raft_append_entries *args = &message->append_entries;
    uint64_t last = args->prev_log_index + args->n_entries;
    struct append_rest *rest = rest_of(appends, message->server_id);

    ASSERT(message->type == RAFT_APPEND_ENTRIES && message->server_id > 0);
    if (rest != NULL && rest->next.term == args->term && rest->last == args->prev_log_index) {
        rest->last += args->n_entries; /* it begins where the rest ends, and extends it */
        rest->next.leader_commit = args->leader_commit;
        args->entries = NULL;
        args->n_entries = 0;
        return;
    }
    if (rest != NULL) {
        end_rest(appends, rest);
    }
    send_frame(appends, message, args->n_entries);
    if (args->prev_log_index == last) {
        return;
    }
    rest = rest_of(appends, 0);
    ASSERT(rest != NULL); /* there are no more followers than links */
    *rest = (struct append_rest){message->server_id, *args, last, true};
    appends->count++;
}

bool appends_turn(struct appends *appends, uint64_t term)
{
    struct raft_message message = {.type = RAFT_APPEND_ENTRIES};
    unsigned begin = appends->turn;
    bool sent = false;
    uint64_t left;

    for (unsigned i = 0; i < LIMIT_PEERS; i++) {
        struct append_rest *rest = &appends->rests[(begin + i) % LIMIT_PEERS];

        /* Does this node still lead its term, and does the log have the entries? */
        if (rest->to != 0 && (rest->next.term != term ||
                              entry_log_get(appends->log, rest->next.prev_log_index + 1) == NULL)) {
            end_rest(appends, rest);
        }
        if (rest->to != 0 && !rest->fresh && !sent) {
            left = rest->last - rest->next.prev_log_index;
            message.server_id = rest->to;
            message.append_entries = rest->next;
            send_frame(appends, &message,
                       left < LIMIT_ENTRIES_PER_FRAME ? (unsigned)left : LIMIT_ENTRIES_PER_FRAME);
            rest->next = message.append_entries;
            if (rest->next.prev_log_index == rest->last) {
                end_rest(appends, rest);
            }
            sent = true;
            appends->turn = (begin + i + 1) % LIMIT_PEERS;
        }
        rest->fresh = false;
    }
    return appends->count > 0;
}
