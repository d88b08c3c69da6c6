/*
 * fsm_strict.c - allocations of strict tags: batches, each applied once (fsm_state.h).
 *
 * The happy path: a batch with a number that its node did not use before in this life is applied,
 * item by item, and its answer becomes a row; the same batch again is answered from that row, byte
 * for byte. A batch of a later life of the node takes the place of all rows of the earlier one.
 *
 * Items in order, and of each: the tag must be there, in strict mode; a key that is known gives the
 * ids that it gave before; the tag must not drain; then the ids are [max_id, max_id + count). A run
 * of items of one tag takes its row out of the digest once.
 *
 * Failure modes: of an item, into its result (strict_command.h), and then nothing was allocated for
 * it; the others stand for themselves. A batch that is too old is not applied, each item of it says
 * ERR_STALE; beyond LIMIT_STRICT_NODES nodes ERR_OVERLOADED. A row that no apply can have made is
 * ERR_CORRUPT.
 *
 * Thread: one owner. Deterministic: only the state and the command decide.
 */
#include <stdlib.h>
#include <string.h>

#include "src/base/assert.h"
#include "src/id/command_bytes.h"
#include "src/id/fsm_state.h"

#define ROW_VERSION 1
#define ROW_HEAD_BYTES (1 + 8 + 8) /* version, life, seq */

_Static_assert(ROW_HEAD_BYTES + STRICT_RESULTS_HEAD_BYTES +
                       LIMIT_STRICT_ITEMS * STRICT_RESULT_BYTES <=
                   LIMIT_ROW_VALUE_BYTES,
               "the answer to the largest batch fits a row");

/* So many expired keys go for each new one: then a table that is full of them has room for all keys
 * of a batch, and shrinks. */
#define EXPIRE_PER_KEY 2
_Static_assert(EXPIRE_PER_KEY *LIMIT_STRICT_ITEMS <= LIMIT_KEYS_FORGOTTEN, "keys of a command");

/* Where the application of a batch stands. */
struct batch {
    struct fsm *fsm;
    const struct strict_batch *head;
    uint64_t index;
    struct fsm_changes *changes;
    struct fsm_row *row; /* of the last item's tag; NULL: unknown, or no item yet */
    bool changing;       /* it is out of the digest */
};

static int batch_refused(const struct fsm *fsm, const struct strict_batch *head,
                         const struct fsm_sender *sender);
static void batch_apply(struct fsm *fsm, uint64_t index, struct strict_command *command,
                        struct strict_result *results, struct fsm_changes *changes);
static void batch_turn_to(struct batch *batch, const struct strict_item *item);
static void batch_close(struct batch *batch);
static void item_apply(struct batch *batch, const struct strict_item *item, uint16_t position,
                       struct strict_result *result);
static bool item_by_key(struct batch *batch, const struct strict_item *item,
                        struct strict_result *result);
static bool keys_full(struct batch *batch, uint64_t *ret_limit);
static void item_allocate(struct batch *batch, const struct strict_item *item, uint16_t position,
                          struct strict_result *result);
static struct fsm_sender *sender_find(const struct fsm *fsm, uint64_t node_id);
static struct fsm_sender *sender_make(struct fsm *fsm, uint64_t node_id);
static void sender_forget_answers(struct fsm *fsm, struct fsm_sender *sender,
                                  struct fsm_changes *changes);
static struct fsm_answer *answer_of(struct fsm_sender *sender, uint64_t seq);
static void answer_put(struct fsm *fsm, struct fsm_sender *sender, uint64_t seq,
                       const void *results, size_t len, struct fsm_changes *changes);
static void answer_bytes(struct fsm *fsm, const struct fsm_sender *sender,
                         const struct fsm_answer *answer, size_t *ret_key_len);
static bool results_fit(const void *data, size_t len);
static size_t sender_place(const struct fsm *fsm, uint64_t node_id);

void fsm_apply_strict(struct fsm *fsm, uint64_t index, struct strict_command *command,
                      struct buf *result, struct fsm_changes *changes)
{
    const struct strict_batch *head = &command->batch;
    struct fsm_sender *sender = sender_find(fsm, head->node_id);
    struct strict_result results[LIMIT_STRICT_ITEMS];
    int refused = batch_refused(fsm, head, sender);
    size_t before = result->len;

    ASSERT(command->count >= 1 && command->count <= LIMIT_STRICT_ITEMS);
    if (refused != 0) {
        uint64_t detail = refused == ERR_STALE ? sender->life : 0;

        for (uint32_t i = 0; i < command->count; i++) {
            results[i] = (struct strict_result){.status = refused, .detail = detail};
        }
        strict_results_encode(results, command->count, result);
        return;
    }
    if (sender == NULL) {
        sender = sender_make(fsm, head->node_id);
    }
    if (sender->life != head->life) {
        sender_forget_answers(fsm, sender, changes);
        sender->life = head->life;
    }
    if (answer_of(sender, head->seq)->seq == head->seq) {
        const struct buf *known = &answer_of(sender, head->seq)->results;

        buf_put(result, known->data, known->len);
        return;
    }
    batch_apply(fsm, index, command, results, changes);
    strict_results_encode(results, command->count, result);
    answer_put(fsm, sender, head->seq, result->data + before, result->len - before, changes);
}

void fsm_strict_node_removed(struct fsm *fsm, uint64_t node_id, struct fsm_changes *changes)
{
    struct fsm_sender *sender = sender_find(fsm, node_id);
    size_t at = sender_place(fsm, node_id);

    if (sender == NULL) {
        return;
    }
    sender_forget_answers(fsm, sender, changes);
    fsm->sender_count--;
    memmove(sender, sender + 1, (fsm->sender_count - at) * sizeof *sender);
}

int fsm_load_answer(struct fsm *fsm, const uint8_t *key, size_t key_len, const void *value,
                    size_t value_len)
{
    struct fsm_sender *sender;
    struct reader reader;
    const uint8_t *results;
    uint64_t node_id;
    uint64_t life;
    uint64_t seq;
    size_t len;

    reader_init(&reader, value, value_len);
    if (value_len > 0 && reader_u8(&reader) != ROW_VERSION) {
        return ERR_BAD_VERSION;
    }
    life = reader_u64(&reader);
    seq = reader_u64(&reader);
    len = reader_left(&reader);
    results = reader_bytes(&reader, len);
    if (value_len < ROW_HEAD_BYTES + STRICT_RESULTS_HEAD_BYTES || reader.bad) {
        return ERR_TRUNCATED;
    }
    if (key_len != FSM_NODE_KEY_BYTES + 1) {
        return ERR_CORRUPT;
    }
    node_id = fsm_key_node(key);
    if (node_id < 1 || node_id > LIMIT_NODE_ID || life < 1 || seq < 1 ||
        seq % LIMIT_STRICT_BATCHES != key[FSM_NODE_KEY_BYTES] || !results_fit(results, len)) {
        return ERR_CORRUPT;
    }
    sender = sender_find(fsm, node_id);
    if (sender == NULL && fsm->sender_count == LIMIT_STRICT_NODES) {
        return ERR_CORRUPT;
    }
    if (sender == NULL) {
        sender = sender_make(fsm, node_id);
        sender->life = life;
    }
    if (answer_of(sender, seq)->seq != 0) {
        return ERR_EXISTS;
    }
    if (sender->life != life) {
        return ERR_CORRUPT;
    }
    answer_put(fsm, sender, seq, results, len, NULL);
    return 0;
}

void fsm_senders_clear(struct fsm *fsm)
{
    for (size_t i = 0; i < fsm->sender_count; i++) {
        for (size_t slot = 0; slot < LIMIT_STRICT_BATCHES; slot++) {
            buf_free(&fsm->senders[i].answers[slot].results);
        }
    }
    free(fsm->senders);
    fsm->senders = NULL;
    fsm->sender_count = 0;
}

/* --- a batch --- */

/* 0, or what each item of the batch is told instead of being looked at. */
static int batch_refused(const struct fsm *fsm, const struct strict_batch *head,
                         const struct fsm_sender *sender)
{
    if (sender == NULL) {
        return fsm->sender_count < LIMIT_STRICT_NODES ? 0 : ERR_OVERLOADED;
    }
    if (head->life != sender->life) {
        return head->life > sender->life ? 0 : ERR_STALE;
    }
    return sender->newest >= LIMIT_STRICT_BATCHES &&
                   head->seq <= sender->newest - LIMIT_STRICT_BATCHES
               ? ERR_STALE
               : 0;
}

static void batch_apply(struct fsm *fsm, uint64_t index, struct strict_command *command,
                        struct strict_result *results, struct fsm_changes *changes)
{
    struct batch batch = {.fsm = fsm, .head = &command->batch, .index = index, .changes = changes};
    struct strict_item item;
    uint16_t position = 0;

    while (strict_command_next(command, &item)) {
        ASSERT(position < command->count);
        batch_turn_to(&batch, &item);
        item_apply(&batch, &item, position, &results[position]);
        position++;
    }
    ASSERT(position == command->count);
    batch_close(&batch);
}

/* The row of the item's tag, or NULL, becomes the present one. */
static void batch_turn_to(struct batch *batch, const struct strict_item *item)
{
    const struct fsm_row *row = batch->row;

    if (row != NULL && row->tag.name_len == item->name_len &&
        memcmp(row->name, item->name, item->name_len) == 0) {
        return;
    }
    batch_close(batch);
    batch->row = fsm_row_find(batch->fsm, item->name, item->name_len);
}

/* The present row goes back into the digest, if it left. */
static void batch_close(struct batch *batch)
{
    if (batch->changing) {
        fsm_row_change_end(batch->fsm, batch->row, batch->changes);
        batch->changing = false;
    }
}

/* --- an item --- */

static void item_apply(struct batch *batch, const struct strict_item *item, uint16_t position,
                       struct strict_result *result)
{
    const struct tag_row *tag = batch->row != NULL ? &batch->row->tag : NULL;

    *result = (struct strict_result){.generation = tag != NULL ? tag->generation : 0};
    if (tag == NULL || tag->deleted) {
        result->status = ERR_UNKNOWN_TAG;
        return;
    }
    if (tag->mode != TAG_MODE_STRICT) {
        result->status = ERR_WRONG_MODE;
        return;
    }
    if (item->key_len > 0 && item_by_key(batch, item, result)) {
        return;
    }
    if (tag->draining) {
        result->status = ERR_CHANGING;
        result->detail = fsm_drain_node(batch->fsm, tag->name, tag->name_len);
        return;
    }
    if (item->key_len > 0 && keys_full(batch, &result->detail)) {
        result->status = ERR_KEYS_FULL;
        return;
    }
    ASSERT(tag->max_id <= TAG_MAX_ID_END);
    if (item->count > TAG_MAX_ID_END - tag->max_id) {
        result->status = ERR_EXHAUSTED;
        result->detail = TAG_MAX_ID_END - tag->max_id;
        return;
    }
    item_allocate(batch, item, position, result);
}

/* True if the key decides: it is known and in force, or cannot be looked up yet. A key that is not
 * in force any more goes: to its tag it is a new one. */
static bool item_by_key(struct batch *batch, const struct strict_item *item,
                        struct strict_result *result)
{
    struct fsm *fsm = batch->fsm;
    struct fsm_key *key;

    if (fsm->log_ms == 0) {
        result->status = ERR_EMPTY;
        return true;
    }
    key = fsm_key_find(fsm, batch->row, item->key, item->key_len);
    if (key == NULL) {
        return false;
    }
    if (!fsm_key_in_force(fsm, key)) {
        fsm_key_forget(fsm, key, batch->changes);
        return false;
    }
    if (key->count == item->count) {
        result->first = key->first;
        result->replayed = true;
    } else {
        result->status = ERR_KEY_CONFLICT;
        result->detail = key->count;
    }
    return true;
}

/* True if there is no room for a new key, also after old ones went. */
static bool keys_full(struct batch *batch, uint64_t *ret_limit)
{
    uint32_t limit = batch->head->key_limit < LIMIT_KEYS ? batch->head->key_limit : LIMIT_KEYS;

    fsm_keys_expire(batch->fsm, EXPIRE_PER_KEY, batch->changes);
    if (batch->fsm->keys.count < limit) {
        return false;
    }
    *ret_limit = limit;
    return true;
}

static void item_allocate(struct batch *batch, const struct strict_item *item, uint16_t position,
                          struct strict_result *result)
{
    struct tag_row *tag = &batch->row->tag;

    if (!batch->changing) {
        fsm_row_change_begin(batch->fsm, batch->row);
        batch->changing = true;
        tag->updated_ms = fsm_later(tag->updated_ms, fsm_shown_ms(batch->head->wall_ms));
    }
    result->first = tag->max_id;
    tag->max_id += item->count;
    ASSERT(tag->max_id <= TAG_MAX_ID_END);
    if (item->key_len > 0) {
        fsm_key_add(batch->fsm, batch->row, item, result->first, batch->index, position,
                    batch->changes);
    }
}

/* --- the answers of a node --- */

static struct fsm_sender *sender_find(const struct fsm *fsm, uint64_t node_id)
{
    size_t at = sender_place(fsm, node_id);

    return at < fsm->sender_count && fsm->senders[at].node_id == node_id ? &fsm->senders[at] : NULL;
}

static struct fsm_sender *sender_make(struct fsm *fsm, uint64_t node_id)
{
    size_t at = sender_place(fsm, node_id);

    ASSERT(fsm->sender_count < LIMIT_STRICT_NODES);
    fsm->senders = realloc(fsm->senders, (fsm->sender_count + 1) * sizeof *fsm->senders);
    ASSERT(fsm->senders != NULL);
    memmove(&fsm->senders[at + 1], &fsm->senders[at],
            (fsm->sender_count - at) * sizeof *fsm->senders);
    fsm->senders[at] = (struct fsm_sender){.node_id = node_id};
    fsm->sender_count++;
    return &fsm->senders[at];
}

static void sender_forget_answers(struct fsm *fsm, struct fsm_sender *sender,
                                  struct fsm_changes *changes)
{
    for (size_t slot = 0; slot < LIMIT_STRICT_BATCHES; slot++) {
        struct fsm_answer *answer = &sender->answers[slot];
        size_t key_len;

        if (answer->seq != 0) {
            answer_bytes(fsm, sender, answer, &key_len);
            fsm_scratch_delete(fsm, key_len, changes);
        }
        buf_free(&answer->results);
        answer->seq = 0;
    }
    sender->newest = 0;
}

static struct fsm_answer *answer_of(struct fsm_sender *sender, uint64_t seq)
{
    return &sender->answers[seq % LIMIT_STRICT_BATCHES];
}

/* The answer takes the place of that of LIMIT_STRICT_BATCHES before, for which nobody waits. */
static void answer_put(struct fsm *fsm, struct fsm_sender *sender, uint64_t seq,
                       const void *results, size_t len, struct fsm_changes *changes)
{
    struct fsm_answer *answer = answer_of(sender, seq);
    size_t key_len;

    ASSERT(answer->seq < seq);
    if (answer->seq != 0) {
        answer_bytes(fsm, sender, answer, &key_len);
        fsm_scratch_leave(fsm, key_len);
    }
    answer->seq = seq;
    answer->results.len = 0;
    buf_put(&answer->results, results, len);
    sender->newest = fsm_later(sender->newest, seq);
    answer_bytes(fsm, sender, answer, &key_len);
    fsm_scratch_enter(fsm, key_len, changes);
}

static void answer_bytes(struct fsm *fsm, const struct fsm_sender *sender,
                         const struct fsm_answer *answer, size_t *ret_key_len)
{
    fsm_scratch_node(fsm, FSM_TABLE_BATCHES, sender->node_id);
    buf_put_u8(&fsm->scratch, (uint8_t)(answer->seq % LIMIT_STRICT_BATCHES));
    *ret_key_len = fsm->scratch.len;
    buf_put_u8(&fsm->scratch, ROW_VERSION);
    buf_put_u64(&fsm->scratch, sender->life);
    buf_put_u64(&fsm->scratch, answer->seq);
    buf_put(&fsm->scratch, answer->results.data, answer->results.len);
}

static bool results_fit(const void *data, size_t len)
{
    struct strict_result results[LIMIT_STRICT_ITEMS];
    size_t count;

    return strict_results_decode(data, len, results, LIMIT_STRICT_ITEMS, &count) == 0 && count >= 1;
}

/* Where the node stands in the sorted array, or would. */
static size_t sender_place(const struct fsm *fsm, uint64_t node_id)
{
    size_t at = 0;

    while (at < fsm->sender_count && fsm->senders[at].node_id < node_id) {
        at++;
    }
    return at;
}
