/*
 * audit.h - who changed what, and who was refused: the last LIMIT_AUDIT_ENTRIES of this node, in
 * memory. The log has the same lines, for longer.
 *
 * Refusals have a part of their own, so that a client that is refused again and again does not push
 * out entries of changes. Only a limited number a second is kept; the others are counted.
 *
 * The happy path: audit_put() with an entry's JSON, audit_list() for GET /api/audit.
 *
 * Failure modes: none; when a part is full, in number or in bytes, its oldest entries are dropped.
 *
 * Threads: any; a lock is taken. No path of an id uses it.
 */
#ifndef LEAFD_HTTP_AUTH_AUDIT_H
#define LEAFD_HTTP_AUTH_AUDIT_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/base/buf.h"
#include "src/base/limits.h"

enum audit_kind { AUDIT_CHANGE, AUDIT_REFUSAL };
#define AUDIT_KINDS 2

struct audit_entry {
    uint64_t number; /* rises by one over both kinds */
    size_t len;
    char *json; /* owned */
};

/* The newest of a kind. */
struct audit_ring {
    struct audit_entry *entries; /* `room` of them; NULL: none yet */
    size_t room;
    size_t first; /* the oldest */
    size_t count;
    size_t bytes;
    size_t bytes_max;
};

struct audit {
    pthread_mutex_t lock;
    uint64_t last_number;
    uint64_t lost; /* entries that were pushed out */
    struct audit_ring rings[AUDIT_KINDS];
    uint64_t second;        /* of the wall clock, in which refusals are counted */
    uint32_t in_second;     /* refusals in it */
    uint64_t refusals_over; /* not kept */
};

void audit_init(struct audit *audit);
void audit_free(struct audit *audit);

/* Should a refusal be kept and logged? Else it is counted. *ret_over: how many were counted and not
 * reported so far; on true they count as reported. */
bool audit_takes_refusal(struct audit *audit, uint64_t wall_ms, uint64_t *ret_over);

/* Keep an entry. json: its members, "\"who\":...", at most LIMIT_AUDIT_ENTRY_BYTES. Returns its
 * number. */
uint64_t audit_put(struct audit *audit, enum audit_kind kind, const void *json, size_t len);

/* Append {"entries":[...],"next":...,"lost":...}: those above `after`, oldest first. */
void audit_list(struct audit *audit, uint64_t after, size_t limit, struct buf *out);

#endif
