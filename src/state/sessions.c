/*
 * sessions.c - see sessions.h.
 */
#include "src/state/sessions.h"

#include <stdlib.h>
#include <string.h>

#include "src/base/assert.h"

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

void sessions_init(struct sessions *sessions, struct journal *journal)
{
    sessions->journal = journal;
    sessions->count = 0;
}

/* --- sessions --- */

static struct node_session *session_find(const struct sessions *sessions, uint64_t node_id)
{
    for (size_t i = 0; i < sessions->count; i++) {
        if (sessions->items[i]->node_id == node_id) {
            return sessions->items[i];
        }
    }
    return NULL;
}

uint64_t sessions_incarnation(const struct sessions *sessions, uint64_t node_id)
{
    const struct node_session *session = session_find(sessions, node_id);

    return session != NULL ? session->incarnation : 0;
}

static struct node_session *session_make(struct sessions *sessions, uint64_t node_id,
                                         uint64_t incarnation)
{
    struct node_session *session = MUST_HAVE(calloc(1, sizeof *session));

    ASSERT(sessions->count < LIMIT_SESSIONS);
    session->node_id = node_id;
    session->incarnation = incarnation;
    session->lowest = 1;
    sessions->items[sessions->count++] = session;
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
    uint16_t slot = (uint16_t)(answer - session->slots);
    const struct answer_row row = {
        {session->node_id, session->incarnation, answer->seq, answer->lowest},
        answer->bytes.data,
        answer->bytes.len};

    journal_node_key(journal, STATE_TABLE_ANSWERS, session->node_id);
    buf_put_u8(&journal->row, (uint8_t)(slot >> 8));
    buf_put_u8(&journal->row, (uint8_t)slot);
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

/* The lowest slot that is free. */
static struct session_answer *slot_take(struct node_session *session)
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
static void answer_put(struct sessions *sessions, struct node_session *session,
                       struct session_answer *answer, const struct session_stamp *stamp,
                       const void *data, size_t len)
{
    ASSERT(answer->seq == 0 && *answer_slot(session, stamp->seq) == 0);
    answer->seq = stamp->seq;
    answer->lowest = stamp->lowest;
    buf_put(&answer->bytes, data, len);
    session->bytes += len;
    *answer_slot(session, stamp->seq) = (uint16_t)(answer - session->slots + 1);
    journal_answer(sessions->journal, session, answer);
    journal_enter(sessions->journal);
}

/* Forget the answers below lowest. Returns one of their slots, whose row has left the digest, for
 * the next answer; NULL: none. */
static struct session_answer *forget_below(struct sessions *sessions, struct node_session *session,
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
        journal_answer(sessions->journal, session, answer);
        if (kept == NULL) {
            journal_leave(sessions->journal);
            kept = answer;
        } else {
            journal_delete(sessions->journal);
        }
        answer_drop(session, answer);
    }
    if (lowest > session->lowest) {
        session->lowest = lowest;
    }
    return kept;
}

static void forget_all(struct sessions *sessions, struct node_session *session)
{
    for (size_t i = 0; i < session->slot_count; i++) {
        struct session_answer *answer = &session->slots[i];

        if (answer->seq != 0) {
            journal_answer(sessions->journal, session, answer);
            journal_delete(sessions->journal);
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

bool sessions_lookup(const struct sessions *sessions, const struct session_stamp *stamp,
                     struct buf *result)
{
    struct node_session *session = session_find(sessions, stamp->node_id);
    const struct session_answer *known;

    if (session == NULL) {
        return sessions->count == LIMIT_SESSIONS && session_refuse(ERR_OVERLOADED, 0, result);
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

bool sessions_is_full(const struct sessions *sessions, const struct session_stamp *stamp,
                      struct buf *result)
{
    const struct node_session *session = session_find(sessions, stamp->node_id);

    return session != NULL && session->incarnation == stamp->incarnation &&
           stamp->lowest <= session->lowest && session->bytes >= LIMIT_SESSION_BYTES &&
           session_refuse(ERR_OVERLOADED, session->incarnation, result);
}

void sessions_answer(struct sessions *sessions, const struct session_stamp *stamp, const void *data,
                     size_t len)
{
    struct node_session *session = session_find(sessions, stamp->node_id);
    struct session_stamp as_answered = *stamp;
    struct session_answer *answer;

    ASSERT(len <= SESSION_ANSWER_BYTES_MAX);
    if (session == NULL) {
        session = session_make(sessions, stamp->node_id, stamp->incarnation);
    }
    ASSERT(stamp->incarnation >= session->incarnation);
    if (stamp->incarnation > session->incarnation) {
        forget_all(sessions, session);
        session->incarnation = stamp->incarnation;
        session->lowest = 1;
    }
    ASSERT(stamp->seq >= session->lowest);
    answer = forget_below(sessions, session, stamp->lowest);
    if (answer == NULL) {
        answer = slot_take(session);
    } else if ((size_t)(answer - session->slots) == session->free_from) {
        session->free_from++;
    }
    as_answered.lowest = session->lowest;
    answer_put(sessions, session, answer, &as_answered, data, len);
}

void sessions_removed(struct sessions *sessions, uint64_t node_id)
{
    for (size_t i = 0; i < sessions->count; i++) {
        struct node_session *session = sessions->items[i];

        if (session->node_id == node_id) {
            sessions->items[i] = sessions->items[--sessions->count];
            forget_all(sessions, session);
            session_free(session);
        }
    }
}

bool sessions_is_past(const struct sessions *sessions, const struct session_stamp *stamp)
{
    const struct node_session *session = session_find(sessions, stamp->node_id);

    return session != NULL &&
           (stamp->incarnation < session->incarnation ||
            (stamp->incarnation == session->incarnation && stamp->seq < session->lowest));
}

/* --- loading --- */

int sessions_load(struct sessions *sessions, const struct row_loaded *row)
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
    session = session_find(sessions, answer.stamp.node_id);
    if (session == NULL && sessions->count == LIMIT_SESSIONS) {
        return ERR_CORRUPT;
    }
    if (session == NULL) {
        session = session_make(sessions, answer.stamp.node_id, answer.stamp.incarnation);
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
    answer_put(sessions, session, &session->slots[slot], &answer.stamp, answer.bytes, answer.len);
    return 0;
}

int sessions_check(const struct sessions *sessions)
{
    for (size_t i = 0; i < sessions->count; i++) {
        const struct node_session *session = sessions->items[i];

        for (size_t slot = 0; slot < session->slot_count; slot++) {
            uint64_t seq = session->slots[slot].seq;

            if (seq != 0 && seq < session->lowest) {
                return ERR_CORRUPT;
            }
        }
    }
    return 0;
}

void sessions_clear(struct sessions *sessions)
{
    for (size_t i = 0; i < sessions->count; i++) {
        session_free(sessions->items[i]);
    }
    sessions->count = 0;
}
