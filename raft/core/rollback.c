/*
 * rollback.c - see rollback.h. The record: version u8, mark u8 (1: this directory is an older
 * copy), and for each peer the numbers of struct peer_seen.
 */
#include "raft/core/rollback.h"

#include <raft.h>
#include <string.h>

#include "src/base/assert.h"
#include "src/base/container.h"
#include "src/base/fields.h"
#include "src/base/log.h"

#define RECORD_VERSION 2

static const struct field seen_fields[] = {
    FIELD_NUMBER(struct peer_seen, id),
    FIELD_NUMBER(struct peer_seen, incarnation),
    FIELD_NUMBER(struct peer_seen, term),
    FIELD_NUMBER(struct peer_seen, committed),
    FIELD_NUMBER(struct peer_seen, tail.term),
    FIELD_NUMBER(struct peer_seen, tail.index),
    FIELD_NUMBER(struct peer_seen, tail.last_term),
    FIELD_NUMBER(struct peer_seen, vote_term),
    FIELD_NUMBER(struct peer_seen, vote),
};
static const struct fields seen_table = FIELDS(seen_fields);

_Static_assert(2 + ROLLBACK_MAX * sizeof(struct peer_seen) <= LIMIT_LOCAL_RECORD_BYTES,
               "what is remembered of all peers fits its record");

const struct peer_seen *rollback_find(const struct rollback *memory, uint64_t peer)
{
    for (size_t i = 0; i < memory->count; i++) {
        if (memory->peers[i].id == peer) {
            return &memory->peers[i];
        }
    }
    return NULL;
}

/* NULL: no room for another. */
static struct peer_seen *find_or_add(struct rollback *memory, uint64_t peer)
{
    const struct peer_seen *seen = rollback_find(memory, peer);

    ASSERT(peer > 0 && peer <= LIMIT_NODE_ID);
    if (seen != NULL) {
        return &memory->peers[seen - memory->peers];
    }
    if (memory->count == ROLLBACK_MAX) {
        return NULL;
    }
    memory->peers[memory->count] = (struct peer_seen){.id = peer};
    return &memory->peers[memory->count++];
}

void rollback_note(struct rollback *memory, const struct peer_seen *shown)
{
    struct peer_seen *seen = find_or_add(memory, shown->id);
    struct peer_seen before;

    if (seen == NULL) {
        return;
    }
    before = *seen;
    seen->term = shown->term > seen->term ? shown->term : seen->term;
    seen->committed = shown->committed > seen->committed ? shown->committed : seen->committed;
    if (shown->tail.term > seen->tail.term ||
        (shown->tail.term == seen->tail.term && shown->tail.index > seen->tail.index)) {
        seen->tail = shown->tail;
    }
    if (shown->vote != 0 && shown->vote_term > seen->vote_term) {
        seen->vote_term = shown->vote_term;
        seen->vote = shown->vote;
    }
    memory->changed = memory->changed || memcmp(&before, seen, sizeof before) != 0;
}

/* It was only started: it has the first list, of term 1, and gave no vote. An earlier directory of
 * its id may have been deleted for a wrong list or id; once there is a cluster, the registration of
 * its store decides that. */
static bool promised_nothing(const struct peer_seen *seen)
{
    return seen->term <= 1 && seen->vote_term == 0 && seen->committed <= 1 && seen->tail.index <= 1;
}

int rollback_judge(const struct rollback *memory, uint64_t peer,
                   const struct wire_statement *statement, struct rollback_evidence *ret_evidence)
{
    const struct peer_seen *seen = rollback_find(memory, peer);
    const struct wire_durable *start = &statement->start;

    if (seen == NULL || seen->incarnation == start->incarnation || promised_nothing(seen)) {
        return 0;
    }
    /* A later incarnation of a peer: has it forgotten something? */
    if (seen->incarnation != 0 && !incarnations_may_include(statement, seen->incarnation)) {
        *ret_evidence =
            (struct rollback_evidence){"incarnation", start->incarnation, seen->incarnation};
        return ERR_STALE;
    }
    if (start->term < seen->term) {
        *ret_evidence = (struct rollback_evidence){"term", start->term, seen->term};
        return ERR_STALE;
    }
    if (start->index < seen->committed) {
        *ret_evidence = (struct rollback_evidence){"committed", start->index, seen->committed};
        return ERR_STALE;
    }
    if (start->term == seen->tail.term && start->index < seen->tail.index) {
        *ret_evidence = (struct rollback_evidence){"acknowledged", start->index, seen->tail.index};
        return ERR_STALE;
    }
    if (start->term == seen->vote_term && start->vote != seen->vote) {
        *ret_evidence = (struct rollback_evidence){"vote", start->vote, seen->vote};
        return ERR_STALE;
    }
    return 0;
}

int rollback_check_peer(struct rollback *memory, uint64_t peer,
                        const struct wire_statement *statement,
                        struct rollback_evidence *ret_evidence)
{
    struct peer_seen *seen = find_or_add(memory, peer);

    if (seen == NULL || seen->incarnation == statement->start.incarnation) {
        return 0;
    }
    if (rollback_judge(memory, peer, statement, ret_evidence) != 0) {
        return ERR_STALE;
    }
    ASSERT(promised_nothing(seen) || statement->start.incarnation > seen->incarnation);
    seen->incarnation = statement->start.incarnation;
    if (statement->start.term > seen->term) {
        seen->term = statement->start.term;
    }
    memory->met = true;
    return 0;
}

void rollback_log_older(uint64_t peer, const struct wire_durable *start,
                        const struct rollback_evidence *evidence)
{
    log_warn("raft", "the data directory of a peer is an older copy",
             "peer=%llu forgot=%s said=%llu known=%llu start=%llu term=%llu last=%llu", ull(peer),
             evidence->what, ull(evidence->said), ull(evidence->known),
             ull(start->incarnation >> PEER_INCARNATION_RANDOM_BITS), ull(start->term),
             ull(start->index));
}

void rollback_forget(struct rollback *memory, uint64_t peer)
{
    const struct peer_seen *seen = rollback_find(memory, peer);

    if (seen != NULL) {
        memory->peers[seen - memory->peers] = memory->peers[--memory->count];
        memory->changed = true;
    }
}

void rollback_save(const struct rollback *memory, struct buf *record)
{
    ASSERT(memory->count <= ROLLBACK_MAX);
    buf_put_u8(record, RECORD_VERSION);
    buf_put_u8(record, memory->older);
    for (size_t i = 0; i < memory->count; i++) {
        fields_put(record, &seen_table, &memory->peers[i]);
    }
}

int rollback_load(struct rollback *memory, const void *record, size_t len)
{
    struct reader reader;
    uint8_t mark;

    memset(memory, 0, sizeof *memory);
    if (len == 0) {
        return 0;
    }
    reader_init(&reader, record, len);
    if (reader_u8(&reader) != RECORD_VERSION) {
        return ERR_BAD_VERSION;
    }
    mark = reader_u8(&reader);
    if (reader.bad || mark > 1) {
        return ERR_CORRUPT;
    }
    memory->older = mark == 1;
    while (reader_left(&reader) > 0) {
        struct peer_seen seen = {0};

        if (!fields_read(&reader, &seen_table, &seen) || seen.id == 0 || seen.id > LIMIT_NODE_ID ||
            memory->count == ROLLBACK_MAX || rollback_find(memory, seen.id) != NULL) {
            memset(memory, 0, sizeof *memory);
            return ERR_CORRUPT;
        }
        memory->peers[memory->count++] = seen;
    }
    return 0;
}

/* --- incarnations of this node ---
 * The record: version u8, count u64 of the newest, and random
 * halves u32, the newest first. */

#define INCARNATIONS_VERSION 1
#define INCARNATIONS_HEAD_BYTES 9

_Static_assert(INCARNATIONS_HEAD_BYTES + sizeof(uint32_t) * LIMIT_INCARNATIONS <=
                   LIMIT_LOCAL_RECORD_BYTES,
               "all incarnations that are remembered fit their record");

int incarnations_load(struct incarnations *incarnations, const void *record, size_t len)
{
    struct reader reader;

    *incarnations = (struct incarnations){0};
    if (len == 0) {
        return 0;
    }
    reader_init(&reader, record, len);
    if (reader_u8(&reader) != INCARNATIONS_VERSION) {
        return ERR_BAD_VERSION;
    }
    incarnations->newest = reader_u64(&reader);
    while (reader_left(&reader) > 0 && incarnations->known < LIMIT_INCARNATIONS) {
        incarnations->random[incarnations->known++] = reader_u32(&reader);
    }
    if (!reader_done(&reader) || incarnations->known == 0 ||
        incarnations->newest < incarnations->known ||
        incarnations->newest >> (64 - PEER_INCARNATION_RANDOM_BITS) != 0) {
        *incarnations = (struct incarnations){0};
        return ERR_CORRUPT;
    }
    return 0;
}

void incarnations_save(const struct incarnations *incarnations, struct buf *record)
{
    ASSERT(incarnations->known > 0);
    buf_put_u8(record, INCARNATIONS_VERSION);
    buf_put_u64(record, incarnations->newest);
    for (uint32_t i = 0; i < incarnations->known; i++) {
        buf_put_u32(record, incarnations->random[i]);
    }
}

void incarnations_add(struct incarnations *incarnations, uint64_t count, uint32_t random)
{
    uint32_t kept = incarnations->newest + 1 == count ? incarnations->known : 0;

    ASSERT(count > incarnations->newest);
    kept = kept < LIMIT_INCARNATIONS ? kept : LIMIT_INCARNATIONS - 1;
    memmove(incarnations->random + 1, incarnations->random, kept * sizeof(uint32_t));
    incarnations->random[0] = random;
    incarnations->known = kept + 1;
    incarnations->newest = count;
}

uint64_t incarnations_newest(const struct incarnations *incarnations)
{
    ASSERT(incarnations->known > 0);
    return incarnations->newest << PEER_INCARNATION_RANDOM_BITS | incarnations->random[0];
}

void incarnations_earlier(const struct incarnations *incarnations, struct buf *earlier)
{
    for (uint32_t i = 1; i < incarnations->known; i++) {
        buf_put_u32(earlier, incarnations->random[i]);
    }
}

bool incarnations_include(const struct incarnations *incarnations, uint64_t incarnation)
{
    uint64_t count = incarnation >> PEER_INCARNATION_RANDOM_BITS;

    return count <= incarnations->newest &&
           (incarnations->newest - count >= incarnations->known ||
            incarnations->random[incarnations->newest - count] == (uint32_t)incarnation);
}

bool incarnations_may_include(const struct wire_statement *statement, uint64_t incarnation)
{
    uint64_t newest = statement->start.incarnation >> PEER_INCARNATION_RANDOM_BITS;
    uint64_t count = incarnation >> PEER_INCARNATION_RANDOM_BITS;
    struct reader reader;
    uint64_t back;

    if (count >= newest) {
        return false; /* the current one is no earlier one */
    }
    back = newest - count - 1;
    if (back >= statement->earlier_len / sizeof(uint32_t)) {
        return true;
    }
    reader_init(&reader, statement->earlier + back * sizeof(uint32_t), sizeof(uint32_t));
    return reader_u32(&reader) == (uint32_t)incarnation;
}

/* --- terms without a vote --- */

uint64_t vote_floor_met(struct vote_floor *floor, const struct wire_durable *start)
{
    /* The first start on a directory has nothing to forget. */
    uint64_t theirs = start->incarnation >> PEER_INCARNATION_RANDOM_BITS > 1 ? start->term + 1 : 0;

    floor->known = theirs > floor->known ? theirs : floor->known;
    return theirs;
}

bool vote_floor_drops(const struct vote_floor *floor, const struct raft_message *message)
{
    return message->type == RAFT_REQUEST_VOTE && !message->request_vote.pre_vote &&
           message->request_vote.term <= floor->own;
}

/* --- on the way to the disk --- */

void peer_memory_write(struct peer_memory *memory, bool more, void (*done)(void *data), void *data)
{
    struct write *write = writes_new(memory->writes, STORE_LOCAL);

    memory->seen.met = false;
    memory->seen.changed = false;
    timer_cancel(memory->timers, &memory->due);
    memory->saved_ms = clock_now_ms(memory->clock);
    rollback_save(&memory->seen, &write->bytes);
    write->op.more = more;
    write_submit_local(write, LOCAL_PEERS, done, data);
}

static void on_memory_due(struct timer *timer, uint64_t now_ms)
{
    (void)now_ms;
    peer_memory_write(CONTAINER(timer, struct peer_memory, due), false, NULL, NULL);
}

int peer_memory_init(struct peer_memory *memory, struct writes *writes, const struct clock *clock,
                     struct timers *timers, const struct buf *record)
{
    int rv;

    *memory = (struct peer_memory){.writes = writes, .clock = clock, .timers = timers};
    timer_init(&memory->due, on_memory_due);
    rv = rollback_load(&memory->seen, record->data, record->len);
    memory->at_start = memory->seen;
    return rv;
}

void peer_memory_join(struct peer_memory *memory)
{
    if (memory->seen.changed &&
        clock_now_ms(memory->clock) >= memory->saved_ms + PEER_MEMORY_JOIN_MS) {
        peer_memory_write(memory, true, NULL, NULL);
    }
}

void peer_memory_changed(struct peer_memory *memory)
{
    if (memory->seen.met) {
        peer_memory_write(memory, false, NULL, NULL);
    } else if (memory->seen.changed && !timer_is_armed(&memory->due)) {
        timer_arm(memory->timers, &memory->due, clock_now_ms(memory->clock) + PEER_MEMORY_HOLD_MS);
    }
}
