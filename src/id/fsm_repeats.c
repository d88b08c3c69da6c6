/*
 * fsm_repeats.c - the last LIMIT_REPEATS changes of tags and what each was told (fsm_state.h).
 *
 * A put or a delete whose answer is late is proposed again by the node that it came to, and both
 * may end up in the log. The second must do nothing: by then its client has its answer, and may
 * have changed the tag again, which the second would undo. A row knows the last change of its own
 * tag only; so what each change was told becomes a row of a ring here, refusals included, and a
 * change with the number of one of them gets the same answer.
 *
 * The happy path: fsm_repeat_answer() finds nothing, the command is applied, fsm_repeat_remember()
 * puts its answer in the place of the oldest.
 *
 * Failure modes: a repetition that is older than LIMIT_REPEATS changes is not recognised. A node
 * gives a request up after LIMIT_TIMEOUT_MS.
 *
 * Thread: one owner. Deterministic: only the state and the command decide.
 */
#include "src/id/fsm_state.h"

#include <stdlib.h>

#include "src/base/assert.h"

#define KEY_BYTES 3 /* table, place */
#define ROW_VERSION 1
#define ROW_HEAD_BYTES 18 /* version, type, number of the change, request */

static struct fsm_repeat *repeat_find(const struct fsm *fsm, int type, uint64_t request_id)
{
    const struct fsm_repeats *repeats = &fsm->repeats;
    uint16_t at = repeats->ring != NULL ? repeats->buckets[request_id % LIMIT_REPEATS] : 0;

    for (; at != 0; at = repeats->ring[at - 1].next) {
        struct fsm_repeat *repeat = &repeats->ring[at - 1];

        if (repeat->request_id == request_id && repeat->type == type) {
            return repeat;
        }
    }
    return NULL;
}

static void chain_leave(struct fsm_repeats *repeats, const struct fsm_repeat *repeat)
{
    uint16_t *at = &repeats->buckets[repeat->request_id % LIMIT_REPEATS];

    while (&repeats->ring[*at - 1] != repeat) {
        at = &repeats->ring[*at - 1].next;
        ASSERT(*at != 0);
    }
    *at = repeat->next;
}

/* Key and value of its row, one behind the other, into the scratch buffer. */
static void repeat_bytes(struct fsm *fsm, const struct fsm_repeat *repeat)
{
    uint16_t place = (uint16_t)(repeat->seq % LIMIT_REPEATS);

    fsm->scratch.len = 0;
    buf_put_u8(&fsm->scratch, FSM_TABLE_REPEATS);
    buf_put_u8(&fsm->scratch, (uint8_t)(place >> 8));
    buf_put_u8(&fsm->scratch, (uint8_t)place);
    ASSERT(fsm->scratch.len == KEY_BYTES);
    buf_put_u8(&fsm->scratch, ROW_VERSION);
    buf_put_u8(&fsm->scratch, repeat->type);
    buf_put_u64(&fsm->scratch, repeat->seq);
    buf_put_u64(&fsm->scratch, repeat->request_id);
    buf_put(&fsm->scratch, repeat->answer.data, repeat->answer.len);
}

/* In the place of the one LIMIT_REPEATS changes ago, if there is one. */
static void repeat_put(struct fsm *fsm, int type, uint64_t seq, uint64_t request_id,
                       const void *answer, size_t len, struct fsm_changes *changes)
{
    struct fsm_repeats *repeats = &fsm->repeats;
    struct fsm_repeat *repeat;
    uint16_t *bucket;

    if (repeats->ring == NULL) {
        repeats->ring = calloc(LIMIT_REPEATS, sizeof *repeats->ring);
        repeats->buckets = calloc(LIMIT_REPEATS, sizeof *repeats->buckets);
        ASSERT(repeats->ring != NULL && repeats->buckets != NULL);
    }
    repeat = &repeats->ring[seq % LIMIT_REPEATS];
    if (repeat->seq != 0) {
        chain_leave(repeats, repeat);
        repeat_bytes(fsm, repeat);
        fsm_scratch_leave(fsm, KEY_BYTES);
    }
    repeat->seq = seq;
    repeat->request_id = request_id;
    repeat->type = (uint8_t)type;
    repeat->answer.len = 0;
    buf_put(&repeat->answer, answer, len);
    bucket = &repeats->buckets[request_id % LIMIT_REPEATS];
    repeat->next = *bucket;
    *bucket = (uint16_t)(repeat - repeats->ring + 1);
    repeats->newest = fsm_later(repeats->newest, seq);
    repeat_bytes(fsm, repeat);
    fsm_scratch_enter(fsm, KEY_BYTES, changes);
}

bool fsm_repeat_answer(const struct fsm *fsm, int type, uint64_t request_id, struct buf *result)
{
    const struct fsm_repeat *repeat = request_id != 0 ? repeat_find(fsm, type, request_id) : NULL;

    if (repeat != NULL) {
        buf_put(result, repeat->answer.data, repeat->answer.len);
    }
    return repeat != NULL;
}

void fsm_repeat_remember(struct fsm *fsm, int type, uint64_t request_id, const void *answer,
                         size_t len, struct fsm_changes *changes)
{
    if (request_id != 0) {
        repeat_put(fsm, type, fsm->repeats.newest + 1, request_id, answer, len, changes);
    }
}

int fsm_load_repeat(struct fsm *fsm, const uint8_t *key, size_t key_len, const void *value,
                    size_t value_len)
{
    struct reader reader;
    const uint8_t *answer;
    uint64_t seq;
    uint64_t request_id;
    uint8_t type;
    size_t len;

    reader_init(&reader, value, value_len);
    if (value_len > 0 && reader_u8(&reader) != ROW_VERSION) {
        return ERR_BAD_VERSION;
    }
    type = reader_u8(&reader);
    seq = reader_u64(&reader);
    request_id = reader_u64(&reader);
    len = reader_left(&reader);
    answer = reader_bytes(&reader, len);
    if (value_len <= ROW_HEAD_BYTES || reader.bad) {
        return ERR_TRUNCATED;
    }
    if (key_len != KEY_BYTES || seq < 1 ||
        seq % LIMIT_REPEATS != ((uint64_t)key[1] << 8 | key[2]) || request_id == 0 ||
        (type != COMMAND_TAGS_PUT && type != COMMAND_TAG_DELETE)) {
        return ERR_CORRUPT;
    }
    if (fsm->repeats.ring != NULL && fsm->repeats.ring[seq % LIMIT_REPEATS].seq != 0) {
        return ERR_EXISTS;
    }
    if (repeat_find(fsm, type, request_id) != NULL) {
        return ERR_CORRUPT;
    }
    repeat_put(fsm, type, seq, request_id, answer, len, NULL);
    return 0;
}

int fsm_repeats_check(const struct fsm *fsm)
{
    const struct fsm_repeats *repeats = &fsm->repeats;

    for (size_t i = 0; repeats->ring != NULL && i < LIMIT_REPEATS; i++) {
        uint64_t seq = repeats->ring[i].seq;

        if (seq != 0 && repeats->newest - seq >= LIMIT_REPEATS) {
            return ERR_CORRUPT;
        }
    }
    return 0;
}

void fsm_repeats_clear(struct fsm *fsm)
{
    for (size_t i = 0; fsm->repeats.ring != NULL && i < LIMIT_REPEATS; i++) {
        buf_free(&fsm->repeats.ring[i].answer);
    }
    free(fsm->repeats.ring);
    free(fsm->repeats.buckets);
    fsm->repeats = (struct fsm_repeats){0};
}
