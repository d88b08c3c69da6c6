/*
 * raft_strict.h - strict requests on a ring of replicas (raft_ring.h), and what must be true of the
 * ids they are given.
 *
 * Thread: the test's.
 */
#ifndef LEAFD_RAFT_TESTS_RAFT_STRICT_H
#define LEAFD_RAFT_TESTS_RAFT_STRICT_H

#include "raft/tests/raft_ring.h"

/* A strict request; ask() hands it to a node. Free with asked_free(). */
void strict_prepare(struct asked *asked, const char *tag, uint32_t count, const char *key);

/* The same, and it is handed to a node at once, which takes a turn. */
void strict_ask(struct ring *ring, uint64_t id, struct asked *asked, const char *tag,
                uint32_t count, const char *key, uint64_t patience_ms);

/* The first id it was given; fails the test if it was not answered, or with anything else. */
uint64_t strict_first(const struct asked *asked);

/* What it was told; fails the test unless it was answered once, with this status. */
struct strict_result strict_told(const struct asked *asked, int status);

/* Ask a node, wait for the answer, free all: the first id. */
uint64_t strict_take(struct ring *ring, uint64_t id, const char *tag, uint32_t count,
                     const char *key);

/* Give a tag a mode through a node, and wait for the answer. */
void strict_mode(struct ring *ring, uint64_t id, const char *tag, uint8_t mode);

/* Let time go by until all have been answered. */
void strict_wait(struct ring *ring, struct asked *const *asked, size_t count);

/* Ranges that were given, in the order of the calls: fails the test unless together they are all
 * ids from first on, each once. */
struct strict_ranges {
    struct segment_range items[4096];
    size_t count;
};

void strict_note(struct strict_ranges *ranges, const struct asked *asked, uint32_t count);
void strict_expect_dense(struct strict_ranges *ranges, uint64_t first);

/* Have another node lead: the one that does is cut off, and comes back when another one leads. The
 * new leader. */
uint64_t strict_depose(struct ring *ring, uint64_t leader);

#endif
