/*
 * fsm_sessions.c - which commands were carried out, and what each was told (session.h,
 * fsm_state.h).
 *
 * The happy path: fsm_session_lookup() finds that a command is new; it is carried out;
 * fsm_session_answer() remembers what it was told, and forgets what its node no longer waits for. A
 * command that comes again is answered from there, byte for byte.
 *
 * Each answer is a row, in a slot: its value tells the incarnation, the number, the lowest number
 * awaited as of then, and the bytes. The first answer that is forgotten leaves its slot to the new
 * one, so that a busy node writes the same few rows again and again, and deletes none.
 *
 * Failure modes: a command that must not be carried out is refused, as session.h says, and nothing
 * changes. A row that no apply can have made is ERR_CORRUPT.
 *
 * Thread: one owner. Deterministic: only the state and the command decide.
 */
#include <stdlib.h>
#include <string.h>

#include "src/base/assert.h"
#include "src/id/codec/command_bytes.h"
#include "src/id/fsm/fsm_state.h"

#define KEY_BYTES (FSM_NODE_KEY_BYTES + 2) /* table, node, slot */
#define ROW_VERSION 1
#define ROW_HEAD_BYTES (1 + 3 * 8) /* version, incarnation, seq, lowest */

_Static_assert(ROW_HEAD_BYTES + STRICT_RESULTS_HEAD_BYTES +
                       LIMIT_STRICT_ITEMS * STRICT_RESULT_BYTES <=
                   LIMIT_ROW_VALUE_BYTES,
               "the largest answer fits a row");

/* --- sessions --- */

/* Where the node stands in the sorted array, or would. */
static size_t session_place(const struct fsm *fsm, uint64_t node_id)
{
    size_t at = 0;

    while (at < fsm->session_count && fsm->sessions[at]->node_id < node_id) {
        at++;
    }
    return at;
}

static struct fsm_session *session_find(const struct fsm *fsm, uint64_t node_id)
{
    size_t at = session_place(fsm, node_id);

    return at < fsm->session_count && fsm->sessions[at]->node_id == node_id ? fsm->sessions[at]
                                                                            : NULL;
}

static struct fsm_session *session_make(struct fsm *fsm, uint64_t node_id, uint64_t incarnation)
{
    size_t at = session_place(fsm, node_id);
    struct fsm_session *session = calloc(1, sizeof *session);

    ASSERT(session != NULL && fsm->session_count < LIMIT_SESSIONS);
    session->node_id = node_id;
    session->incarnation = incarnation;
    session->lowest = 1;
    memmove(&fsm->sessions[at + 1], &fsm->sessions[at],
            (fsm->session_count - at) * sizeof fsm->sessions[0]);
    fsm->sessions[at] = session;
    fsm->session_count++;
    return session;
}

static void session_free(struct fsm_session *session)
{
    for (size_t i = 0; i < session->slot_count; i++) {
        buf_free(&session->slots[i].bytes);
    }
    free(session->slots);
    free(session);
}

/* --- answers --- */

static uint16_t *slot_of(struct fsm_session *session, uint64_t seq)
{
    return &session->slot_of[seq % LIMIT_SESSION_COMMANDS];
}

static struct fsm_answer *answer_find(struct fsm_session *session, uint64_t seq)
{
    uint16_t slot = *slot_of(session, seq);

    return slot != 0 && session->slots[slot - 1].seq == seq ? &session->slots[slot - 1] : NULL;
}

/* Key and value of its row, one behind the other, into the scratch buffer. */
static void answer_bytes(struct fsm *fsm, const struct fsm_session *session,
                         const struct fsm_answer *answer)
{
    uint16_t slot = (uint16_t)(answer - session->slots);

    fsm_scratch_node(fsm, FSM_TABLE_ANSWERS, session->node_id);
    buf_put_u8(&fsm->scratch, (uint8_t)(slot >> 8));
    buf_put_u8(&fsm->scratch, (uint8_t)slot);
    ASSERT(fsm->scratch.len == KEY_BYTES);
    buf_put_u8(&fsm->scratch, ROW_VERSION);
    buf_put_u64(&fsm->scratch, session->incarnation);
    buf_put_u64(&fsm->scratch, answer->seq);
    buf_put_u64(&fsm->scratch, answer->lowest);
    buf_put(&fsm->scratch, answer->bytes.data, answer->bytes.len);
}

/* Nobody waits for it any more. Its row is out of the digest, or deleted. */
static void answer_drop(struct fsm_session *session, struct fsm_answer *answer)
{
    size_t slot = (size_t)(answer - session->slots);

    ASSERT(session->bytes >= answer->bytes.len);
    session->bytes -= answer->bytes.len;
    *slot_of(session, answer->seq) = 0;
    answer->seq = 0;
    buf_free(&answer->bytes);
    if (slot < session->free_from) {
        session->free_from = slot;
    }
}

/* Have so many slots. */
static void slots_reserve(struct fsm_session *session, size_t count)
{
    size_t old = session->slot_count;

    if (count <= old) {
        return;
    }
    ASSERT(count <= LIMIT_SESSION_COMMANDS);
    session->slots = realloc(session->slots, count * sizeof *session->slots);
    ASSERT(session->slots != NULL);
    memset(&session->slots[old], 0, (count - old) * sizeof *session->slots);
    session->slot_count = count;
}

/* The lowest slot that is free. */
static struct fsm_answer *slot_take(struct fsm_session *session)
{
    size_t slot = session->free_from;

    while (slot < session->slot_count && session->slots[slot].seq != 0) {
        slot++;
    }
    slots_reserve(session, slot + 1);
    session->free_from = slot + 1;
    return &session->slots[slot];
}

/* Fill a free slot, whose row is not in the digest. */
static void answer_put(struct fsm *fsm, struct fsm_session *session, struct fsm_answer *answer,
                       const struct session_stamp *stamp, const void *data, size_t len,
                       struct fsm_changes *changes)
{
    ASSERT(answer->seq == 0 && *slot_of(session, stamp->seq) == 0);
    answer->seq = stamp->seq;
    answer->lowest = stamp->lowest;
    buf_put(&answer->bytes, data, len);
    session->bytes += len;
    *slot_of(session, stamp->seq) = (uint16_t)(answer - session->slots + 1);
    answer_bytes(fsm, session, answer);
    fsm_scratch_enter(fsm, KEY_BYTES, changes);
}

/* Forget the answers below lowest. One of their slots, whose row has left the digest, is for the
 * next answer; NULL: there was none. */
static struct fsm_answer *forget_below(struct fsm *fsm, struct fsm_session *session,
                                       uint64_t lowest, struct fsm_changes *changes)
{
    uint64_t end = session->lowest + LIMIT_SESSION_COMMANDS;
    struct fsm_answer *kept = NULL;

    end = lowest < end ? lowest : end;
    for (uint64_t seq = session->lowest; seq < end; seq++) {
        struct fsm_answer *answer = answer_find(session, seq);

        if (answer == NULL) {
            continue;
        }
        answer_bytes(fsm, session, answer);
        if (kept == NULL) {
            fsm_scratch_leave(fsm, KEY_BYTES);
            kept = answer;
        } else {
            fsm_scratch_delete(fsm, KEY_BYTES, changes);
        }
        answer_drop(session, answer);
    }
    if (lowest > session->lowest) {
        session->lowest = lowest;
    }
    return kept;
}

static void forget_all(struct fsm *fsm, struct fsm_session *session, struct fsm_changes *changes)
{
    for (size_t i = 0; i < session->slot_count; i++) {
        struct fsm_answer *answer = &session->slots[i];

        if (answer->seq != 0) {
            answer_bytes(fsm, session, answer);
            fsm_scratch_delete(fsm, KEY_BYTES, changes);
            answer_drop(session, answer);
        }
    }
    ASSERT(session->bytes == 0);
}

/* --- what apply asks --- */

static bool refuse(int status, uint64_t incarnation, struct buf *result)
{
    const struct session_refusal refusal = {status, incarnation};

    session_refusal_encode(&refusal, result);
    return true;
}

bool fsm_session_lookup(const struct fsm *fsm, const struct session_stamp *stamp,
                        struct buf *result)
{
    struct fsm_session *session = session_find(fsm, stamp->node_id);
    const struct fsm_answer *known;

    if (fsm_member_removed(fsm, stamp->node_id)) {
        return refuse(ERR_REMOVED, 0, result);
    }
    if (session == NULL) {
        return fsm->session_count == LIMIT_SESSIONS && refuse(ERR_OVERLOADED, 0, result);
    }
    if (stamp->incarnation != session->incarnation) {
        return stamp->incarnation < session->incarnation &&
               refuse(ERR_STALE, session->incarnation, result);
    }
    if (stamp->seq < session->lowest) {
        return refuse(ERR_STALE, session->incarnation, result);
    }
    known = answer_find(session, stamp->seq);
    if (known != NULL) {
        buf_put(result, known->bytes.data, known->bytes.len);
    }
    return known != NULL;
}

bool fsm_session_is_full(const struct fsm *fsm, const struct session_stamp *stamp,
                         struct buf *result)
{
    const struct fsm_session *session = session_find(fsm, stamp->node_id);

    return session != NULL && session->incarnation == stamp->incarnation &&
           stamp->lowest <= session->lowest && session->bytes >= LIMIT_SESSION_BYTES &&
           refuse(ERR_OVERLOADED, session->incarnation, result);
}

void fsm_session_answer(struct fsm *fsm, const struct session_stamp *stamp, const void *data,
                        size_t len, struct fsm_changes *changes)
{
    struct fsm_session *session = session_find(fsm, stamp->node_id);
    struct session_stamp as_told = *stamp;
    struct fsm_answer *answer;

    ASSERT(len <= LIMIT_ROW_VALUE_BYTES - ROW_HEAD_BYTES);
    if (session == NULL) {
        session = session_make(fsm, stamp->node_id, stamp->incarnation);
    }
    ASSERT(stamp->incarnation >= session->incarnation);
    if (stamp->incarnation > session->incarnation) {
        forget_all(fsm, session, changes);
        session->incarnation = stamp->incarnation;
        session->lowest = 1;
    }
    ASSERT(stamp->seq >= session->lowest);
    answer = forget_below(fsm, session, stamp->lowest, changes);
    if (answer == NULL) {
        answer = slot_take(session);
    } else if ((size_t)(answer - session->slots) == session->free_from) {
        session->free_from++;
    }
    as_told.lowest = session->lowest;
    answer_put(fsm, session, answer, &as_told, data, len, changes);
}

void fsm_session_removed(struct fsm *fsm, uint64_t node_id, struct fsm_changes *changes)
{
    struct fsm_session *session = session_find(fsm, node_id);
    size_t at = session_place(fsm, node_id);

    if (session == NULL) {
        return;
    }
    forget_all(fsm, session, changes);
    session_free(session);
    fsm->session_count--;
    memmove(&fsm->sessions[at], &fsm->sessions[at + 1],
            (fsm->session_count - at) * sizeof fsm->sessions[0]);
}

bool fsm_session_is_over(const struct fsm *fsm, const struct session_stamp *stamp)
{
    const struct fsm_session *session = session_find(fsm, stamp->node_id);

    return session != NULL &&
           (stamp->incarnation < session->incarnation ||
            (stamp->incarnation == session->incarnation && stamp->seq < session->lowest));
}

/* --- loading --- */

static bool stamp_fits(const struct session_stamp *stamp)
{
    return stamp->node_id >= 1 && stamp->node_id <= LIMIT_NODE_ID && stamp->incarnation >= 1 &&
           stamp->lowest >= 1 && stamp->lowest <= stamp->seq;
}

int fsm_load_answer(struct fsm *fsm, const uint8_t *key, size_t key_len, const void *value,
                    size_t value_len)
{
    struct fsm_session *session;
    struct session_stamp stamp;
    struct reader reader;
    const uint8_t *bytes;
    uint16_t slot;
    size_t len;

    reader_init(&reader, value, value_len);
    if (value_len > 0 && reader_u8(&reader) != ROW_VERSION) {
        return ERR_BAD_VERSION;
    }
    stamp.incarnation = reader_u64(&reader);
    stamp.seq = reader_u64(&reader);
    stamp.lowest = reader_u64(&reader);
    len = reader_left(&reader);
    bytes = reader_bytes(&reader, len);
    if (value_len <= ROW_HEAD_BYTES || reader.bad) {
        return ERR_TRUNCATED;
    }
    if (key_len != KEY_BYTES) {
        return ERR_CORRUPT;
    }
    stamp.node_id = fsm_key_node(key);
    slot = (uint16_t)(key[FSM_NODE_KEY_BYTES] << 8 | key[FSM_NODE_KEY_BYTES + 1]);
    if (!stamp_fits(&stamp) || slot >= LIMIT_SESSION_COMMANDS) {
        return ERR_CORRUPT;
    }
    session = session_find(fsm, stamp.node_id);
    if (session == NULL && fsm->session_count == LIMIT_SESSIONS) {
        return ERR_CORRUPT;
    }
    if (session == NULL) {
        session = session_make(fsm, stamp.node_id, stamp.incarnation);
    }
    if (session->incarnation != stamp.incarnation || *slot_of(session, stamp.seq) != 0) {
        return ERR_CORRUPT;
    }
    slots_reserve(session, slot + 1U);
    if (session->slots[slot].seq != 0) {
        return ERR_EXISTS;
    }
    /* The newest answer tells up to where the others were forgotten. */
    session->lowest = fsm_later(session->lowest, stamp.lowest);
    answer_put(fsm, session, &session->slots[slot], &stamp, bytes, len, NULL);
    return 0;
}

int fsm_sessions_check(const struct fsm *fsm)
{
    for (size_t i = 0; i < fsm->session_count; i++) {
        const struct fsm_session *session = fsm->sessions[i];

        for (size_t slot = 0; slot < session->slot_count; slot++) {
            uint64_t seq = session->slots[slot].seq;

            if (seq != 0 &&
                (seq < session->lowest || seq - session->lowest >= LIMIT_SESSION_COMMANDS)) {
                return ERR_CORRUPT;
            }
        }
    }
    return 0;
}

void fsm_sessions_clear(struct fsm *fsm)
{
    for (size_t i = 0; i < fsm->session_count; i++) {
        session_free(fsm->sessions[i]);
    }
    fsm->session_count = 0;
}
