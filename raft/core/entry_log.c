/*
 * entry_log.c - see entry_log.h. Thread: the raft loop.
 */
#include "raft/core/entry_log.h"

#include <stdlib.h>
#include <string.h>

#include "src/base/assert.h"
#include "src/base/container.h"

void entry_log_free(struct entry_log *log)
{
    entry_log_clear(log, 1);
    while (log->unused != NULL) {
        entry_log_tidy(log);
    }
    free(log->items);
    log->items = NULL;
    log->capacity = 0;
}

/* To give so many bytes back to the system, or to copy them for each follower, takes a while: most
 * of it for page faults. A compaction drops up to 48 MiB. */
#define LARGE_BLOCK_BYTES (256 << 10)

static void release(struct entry_log *log, struct log_entry *entry)
{
    struct entry_block *block = entry->block;

    ASSERT(log->bytes >= block->len);
    log->bytes -= block->len;
    if (block->refs > 1 || block->len < LARGE_BLOCK_BYTES) {
        entry_block_unref(block);
    } else {
        memcpy(block->data, &log->unused, sizeof log->unused);
        log->unused = block;
    }
}

void entry_log_tidy(struct entry_log *log)
{
    struct entry_block *block = log->unused;

    if (block != NULL) {
        memcpy(&log->unused, block->data, sizeof log->unused);
        entry_block_unref(block);
    }
}

void entry_log_clear(struct entry_log *log, uint64_t first)
{
    ASSERT(first >= 1);
    for (size_t i = 0; i < log->count; i++) {
        release(log, &log->items[log->head + i]);
    }
    log->head = 0;
    log->count = 0;
    log->first = first;
}

void entry_log_append(struct entry_log *log, uint64_t term, uint8_t type, uint64_t write,
                      struct entry_block *block)
{
    ASSERT(term > 0);
    ASSERT_IMPLIES(log->count > 0, term >= log->items[log->head + log->count - 1].term);
    if (log->head + log->count == log->capacity && log->head > log->capacity / 2) {
        /* Half is dropped prefix: move down instead of growing. */
        memmove(log->items, log->items + log->head, log->count * sizeof *log->items);
        log->head = 0;
    } else if (log->head + log->count == log->capacity) {
        log->capacity = log->capacity ? log->capacity * 2 : 64;
        log->items = MUST_HAVE(realloc(log->items, log->capacity * sizeof *log->items));
    }
    log->items[log->head + log->count] = (struct log_entry){term, write, type, block};
    log->count++;
    log->bytes += block->len;
}

void entry_log_truncate(struct entry_log *log, uint64_t from)
{
    while (log->count > 0 && entry_log_last(log) >= from) {
        release(log, &log->items[log->head + log->count - 1]);
        log->count--;
    }
}

void entry_log_drop_prefix(struct entry_log *log, uint64_t upto)
{
    while (log->count > 0 && log->first <= upto) {
        release(log, &log->items[log->head]);
        log->head++;
        log->count--;
        log->first++;
    }
}

uint64_t entry_log_last(const struct entry_log *log)
{
    return log->first + log->count - 1;
}

const struct log_entry *entry_log_get(const struct entry_log *log, uint64_t index)
{
    if (index < log->first || index - log->first >= log->count) {
        return NULL;
    }
    return &log->items[log->head + (size_t)(index - log->first)];
}

uint64_t entry_log_persisted(const struct entry_log *log, uint64_t index, uint32_t count,
                             uint64_t write)
{
    uint64_t highest = 0;

    for (uint64_t i = index; i < index + count; i++) {
        const struct log_entry *entry = entry_log_get(log, i);
        bool dropped = entry == NULL && i < log->first;

        if (!dropped && (entry == NULL || entry->write != write)) {
            break;
        }
        highest = i;
    }
    return highest;
}

/* --- writes --- */

static void writes_done_cb(struct store_op *op)
{
    struct write *write = op->data;

    STAILQ_INSERT_TAIL(&write->writes->back, write, link);
}

struct write *writes_new(struct writes *writes, enum store_op_kind kind)
{
    struct write *write = MUST_HAVE(calloc(1, sizeof *write));

    write->op.kind = kind;
    write->op.done = writes_done_cb;
    write->op.data = write;
    write->writes = writes;
    STAILQ_INIT(&write->held);
    write->number = ++writes->last_number;
    write->epoch = writes->epoch;
    writes->count++;
    return write;
}

void write_submit(struct write *write)
{
    ASSERT(write->epoch == write->writes->epoch);
    write->writes->disk->ops->submit(write->writes->disk, &write->op);
}

void write_submit_local(struct write *write, uint32_t key, void (*done)(void *data), void *data)
{
    write->on_local = done;
    write->local_data = data;
    write->op.local_key = key;
    write->op.local = write->bytes.data;
    write->op.local_len = (uint32_t)write->bytes.len;
    write_submit(write);
}

bool write_is_current(const struct write *write)
{
    ASSERT(write->epoch <= write->writes->epoch);
    return write->epoch == write->writes->epoch;
}

void write_free(struct write *write)
{
    struct held_frame *frame;

    ASSERT(write->writes->count > 0);
    write->writes->count--;
    for (uint32_t i = 0; i < write->op.entry_count; i++) {
        entry_block_unref(CONTAINER(write->entries[i].data, struct entry_block, data));
    }
    while ((frame = STAILQ_FIRST(&write->held)) != NULL) {
        STAILQ_REMOVE_HEAD(&write->held, link);
        buf_free(&frame->payload);
        entry_block_unref(frame->tail);
        free(frame);
    }
    free(write->entries);
    row_changes_release(&write->changes);
    store_position_release(&write->op.position);
    buf_free(&write->bytes);
    free(write);
}

/* --- outbox --- */

void outbox_send(struct outbox *outbox, uint64_t to, struct buf *payload, struct entry_block *tail)
{
    struct held_frame *frame;

    ASSERT(to > 0);
    if (outbox->awaited == NULL) {
        (void)outbox->net->ops->send(outbox->net, to, FRAME_RAFT, payload, tail);
        buf_free(payload);
        return;
    }
    frame = MUST_HAVE(calloc(1, sizeof *frame));
    frame->to = to;
    buf_move(&frame->payload, payload);
    frame->tail = tail != NULL ? entry_block_ref(tail) : NULL;
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

#define LAST_BYTES (1 << 20) /* such an entry is the last of its frame, so that it is shared */

/* Send one frame, with at most n entries of the log, as many as fit (one always does). A large one
 * at its end is shared with the log. Afterwards args are those of the next frame. */
static void send_frame(struct appends *appends, struct raft_message *message, unsigned n)
{
    struct raft_append_entries *args = &message->append_entries;
    struct raft_entry entries[LIMIT_ENTRIES_PER_FRAME];
    struct entry_block *tail = NULL;
    struct buf payload = BUF_INIT;
    size_t bytes = 0;
    unsigned i;

    ASSERT(n <= LIMIT_ENTRIES_PER_FRAME);
    for (i = 0; i < n && (tail == NULL || tail->len < LAST_BYTES); i++) {
        const struct log_entry *entry = entry_log_get(appends->log, args->prev_log_index + 1 + i);

        ASSERT(entry != NULL);
        bytes += entry->block->len;
        if (i > 0 && bytes > LIMIT_APPEND_BYTES) {
            break;
        }
        tail = entry->block;
        entries[i] = (struct raft_entry){.term = entry->term,
                                         .type = (enum raft_entry_type)entry->type,
                                         .buf = {entry->block->data, entry->block->len}};
    }
    if (tail != NULL && tail->len >= LARGE_BLOCK_BYTES) {
        entries[i - 1].buf.base = NULL;
    } else {
        tail = NULL;
    }
    args->entries = entries;
    args->n_entries = i;
    message_encode(message, 0, &payload);
    outbox_send(appends->outbox, message->server_id, &payload, tail);
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

static bool follower_has_room(const struct appends *appends, uint64_t to)
{
    struct net *net = appends->outbox->net;

    return net->ops->has_room == NULL || net->ops->has_room(net, to);
}

bool appends_wait(const struct appends *appends)
{
    bool wait = false;

    for (unsigned i = 0; i < LIMIT_PEERS && !wait; i++) {
        const struct append_rest *rest = &appends->rests[i];

        wait = rest->to != 0 && follower_has_room(appends, rest->to);
    }
    return wait;
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
        if (rest->to != 0 && !rest->fresh && !sent && follower_has_room(appends, rest->to)) {
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
    return appends_wait(appends);
}
