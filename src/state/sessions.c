/*
 * sessions.c - see state_tables.h.
 */
#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/assert.h"
#include "src/state/state_tables.h"

#define KEY_BYTES (ROW_NODE_KEY_BYTES + 2) /* table, node, slot */

/* An answer's row. */
struct answer_row {
    struct session_stamp stamp; /* its node is in the key */
    const uint8_t *bytes;
    size_t len;
};

static const struct field ANSWER_FIELDS[] = {
    FIELD_NUMBER(struct answer_row, stamp.incarnation),
    FIELD_NUMBER(struct answer_row, stamp.seq),
    FIELD_NUMBER(struct answer_row, stamp.lowest),
    FIELD_BYTES(struct answer_row, bytes, len),
};

static bool answer_is_sound(const void *data)
{
    const struct answer_row *row = data;

    return session_stamp_is_sound(&row->stamp) && row->len > 0;
}

static const struct row_format ANSWER =
    ROW_FORMAT(ROW_VERSION, FIELDS(ANSWER_FIELDS), answer_is_sound);

/* --- sessions --- */

struct node_session *sessions_find(const struct state *state, uint64_t node_id)
{
    for (size_t i = 0; i < state->sessions.count; i++) {
        if (state->sessions.items[i]->node_id == node_id) {
            return state->sessions.items[i];
        }
    }
    return NULL;
}

static struct node_session *session_make(struct state *state, uint64_t node_id,
                                         uint64_t incarnation)
{
    struct node_session *session = MUST_HAVE(calloc(1, sizeof *session));

    ASSERT(state->sessions.count < LIMIT_SESSIONS);
    session->node_id = node_id;
    session->incarnation = incarnation;
    session->lowest = 1;
    state->sessions.items[state->sessions.count++] = session;
    return session;
}

static void session_free(struct node_session *session)
{
    for (size_t i = 0; i < session->slot_count; i++) {
        buf_free(&session->slots[i].bytes);
    }
    free(session->slots);
    free(session);
}

/* --- answers --- */

static uint16_t *answer_slot(struct node_session *session, uint64_t seq)
{
    return &session->slot_of[seq % LIMIT_SESSION_COMMANDS];
}

static struct session_answer *answer_find(struct node_session *session, uint64_t seq)
{
    uint16_t slot = *answer_slot(session, seq);

    return slot != 0 && session->slots[slot - 1].seq == seq ? &session->slots[slot - 1] : NULL;
}

/* The answer's row, key and value, into the journal. */
static void journal_answer(struct journal *journal, const struct node_session *session,
                           const struct session_answer *answer)
{
    const uint64_t node = htobe64(session->node_id);
    const uint16_t slot = htobe16((uint16_t)(answer - session->slots));
    const struct answer_row row = {
        {session->node_id, session->incarnation, answer->seq, answer->lowest},
        answer->bytes.data,
        answer->bytes.len};

    journal_key(journal, STATE_TABLE_ANSWERS);
    buf_put(&journal->row, &node, sizeof node);
    buf_put(&journal->row, &slot, sizeof slot);
    journal_record(journal, &ANSWER, &row);
}

/* It is no longer awaited. Its row is out of the digest, or deleted. */
static void answer_drop(struct node_session *session, struct session_answer *answer)
{
    size_t slot = (size_t)(answer - session->slots);

    ASSERT(session->bytes >= answer->bytes.len);
    session->bytes -= answer->bytes.len;
    *answer_slot(session, answer->seq) = 0;
    answer->seq = 0;
    buf_free(&answer->bytes);
    if (slot < session->free_from) {
        session->free_from = slot;
    }
}

/* Make room for count slots. */
static void slots_reserve(struct node_session *session, size_t count)
{
    size_t old = session->slot_count;

    if (count <= old) {
        return;
    }
    ASSERT(count <= LIMIT_SESSION_COMMANDS);
    session->slots = MUST_HAVE(realloc(session->slots, count * sizeof *session->slots));
    memset(&session->slots[old], 0, (count - old) * sizeof *session->slots);
    session->slot_count = count;
}

/* Fill a free slot, whose row is not in the digest. */
static void answer_put(struct state *state, struct node_session *session,
                       struct session_answer *answer, const struct session_stamp *stamp,
                       const void *data, size_t len)
{
    ASSERT(answer->seq == 0 && *answer_slot(session, stamp->seq) == 0);
    answer->seq = stamp->seq;
    answer->lowest = stamp->lowest;
    buf_put(&answer->bytes, data, len);
    session->bytes += len;
    *answer_slot(session, stamp->seq) = (uint16_t)(answer - session->slots + 1);
    journal_answer(&state->journal, session, answer);
    journal_enter(&state->journal);
}

/* Forget the answers below lowest. Returns one of their slots, whose row has left the digest, for
 * the next answer; NULL: none. */
static struct session_answer *forget_below(struct state *state, struct node_session *session,
                                           uint64_t lowest)
{
    uint64_t end = session->lowest + LIMIT_SESSION_COMMANDS;
    struct session_answer *kept = NULL;

    end = lowest < end ? lowest : end;
    for (uint64_t seq = session->lowest; seq < end; seq++) {
        struct session_answer *answer = answer_find(session, seq);

        if (answer == NULL) {
            continue;
        }
        journal_answer(&state->journal, session, answer);
        if (kept == NULL) {
            journal_leave(&state->journal);
            kept = answer;
        } else {
            journal_delete(&state->journal);
        }
        answer_drop(session, answer);
    }
    if (lowest > session->lowest) {
        session->lowest = lowest;
    }
    return kept;
}

static void forget_all(struct state *state, struct node_session *session)
{
    for (size_t i = 0; i < session->slot_count; i++) {
        struct session_answer *answer = &session->slots[i];

        if (answer->seq != 0) {
            journal_answer(&state->journal, session, answer);
            journal_delete(&state->journal);
            answer_drop(session, answer);
        }
    }
    ASSERT(session->bytes == 0);
}

/* --- functions for apply --- */

static bool session_refuse(int status, uint64_t incarnation, struct buf *result)
{
    const struct session_refusal refusal = {status, incarnation};

    session_refusal_encode(&refusal, result);
    return true;
}

bool sessions_lookup(const struct state *state, const struct session_stamp *stamp,
                     struct buf *result)
{
    struct node_session *session = sessions_find(state, stamp->node_id);
    const struct session_answer *known;

    if (session == NULL) {
        return state->sessions.count == LIMIT_SESSIONS && session_refuse(ERR_OVERLOADED, 0, result);
    }
    if (stamp->incarnation != session->incarnation) {
        return stamp->incarnation < session->incarnation &&
               session_refuse(ERR_STALE, session->incarnation, result);
    }
    if (stamp->seq < session->lowest) {
        return session_refuse(ERR_STALE, session->incarnation, result);
    }
    known = answer_find(session, stamp->seq);
    if (known != NULL) {
        buf_put(result, known->bytes.data, known->bytes.len);
    }
    return known != NULL;
}

bool sessions_is_full(const struct state *state, const struct session_stamp *stamp,
                      struct buf *result)
{
    const struct node_session *session = sessions_find(state, stamp->node_id);

    return session != NULL && session->incarnation == stamp->incarnation &&
           stamp->lowest <= session->lowest && session->bytes >= LIMIT_SESSION_BYTES &&
           session_refuse(ERR_OVERLOADED, session->incarnation, result);
}

void sessions_answer(struct state *state, const struct session_stamp *stamp, const void *data,
                     size_t len)
{
    struct node_session *session = sessions_find(state, stamp->node_id);
    struct session_stamp as_answered = *stamp;
    struct session_answer *answer;

    ASSERT(len <= SESSION_ANSWER_BYTES_MAX);
    if (session == NULL) {
        session = session_make(state, stamp->node_id, stamp->incarnation);
    }
    ASSERT(stamp->incarnation >= session->incarnation);
    if (stamp->incarnation > session->incarnation) {
        forget_all(state, session);
        session->incarnation = stamp->incarnation;
        session->lowest = 1;
    }
    ASSERT(stamp->seq >= session->lowest);
    answer = forget_below(state, session, stamp->lowest);
    if (answer == NULL) { /* the lowest slot that is free */
        size_t slot = session->free_from;

        while (slot < session->slot_count && session->slots[slot].seq != 0) {
            slot++;
        }
        slots_reserve(session, slot + 1);
        session->free_from = slot + 1;
        answer = &session->slots[slot];
    } else if ((size_t)(answer - session->slots) == session->free_from) {
        session->free_from++;
    }
    as_answered.lowest = session->lowest;
    answer_put(state, session, answer, &as_answered, data, len);
}

void sessions_removed(struct state *state, uint64_t node_id)
{
    for (size_t i = 0; i < state->sessions.count; i++) {
        struct node_session *session = state->sessions.items[i];

        if (session->node_id == node_id) {
            state->sessions.items[i] = state->sessions.items[--state->sessions.count];
            forget_all(state, session);
            session_free(session);
        }
    }
}

/* --- loading --- */

int sessions_load(struct state *state, const struct state_row *row)
{
    struct answer_row answer = {0};
    struct node_session *session;
    uint16_t slot;
    int err;

    if (row->key_len != KEY_BYTES) {
        return ERR_CORRUPT;
    }
    answer.stamp.node_id = row_key_node(row->key);
    slot = (uint16_t)(row->key[ROW_NODE_KEY_BYTES] << 8 | row->key[ROW_NODE_KEY_BYTES + 1]);
    err = row_read(row->value, row->value_len, &ANSWER, &answer);
    if (err != 0 || slot >= LIMIT_SESSION_COMMANDS) {
        return err != 0 ? err : ERR_CORRUPT;
    }
    session = sessions_find(state, answer.stamp.node_id);
    if (session == NULL && state->sessions.count == LIMIT_SESSIONS) {
        return ERR_CORRUPT;
    }
    if (session == NULL) {
        session = session_make(state, answer.stamp.node_id, answer.stamp.incarnation);
    }
    if (session->incarnation != answer.stamp.incarnation ||
        *answer_slot(session, answer.stamp.seq) != 0) {
        return ERR_CORRUPT;
    }
    slots_reserve(session, slot + 1U);
    if (session->slots[slot].seq != 0) {
        return ERR_EXISTS;
    }
    /* The newest answer has the number below which others were forgotten. */
    session->lowest = later_of(session->lowest, answer.stamp.lowest);
    answer_put(state, session, &session->slots[slot], &answer.stamp, answer.bytes, answer.len);
    return 0;
}

int sessions_check(const struct state *state)
{
    for (size_t i = 0; i < state->sessions.count; i++) {
        const struct node_session *session = state->sessions.items[i];

        for (size_t slot = 0; slot < session->slot_count; slot++) {
            uint64_t seq = session->slots[slot].seq;

            if (seq != 0 && seq < session->lowest) {
                return ERR_CORRUPT;
            }
        }
    }
    return 0;
}

void sessions_clear(struct state *state)
{
    for (size_t i = 0; i < state->sessions.count; i++) {
        session_free(state->sessions.items[i]);
    }
    state->sessions.count = 0;
}
