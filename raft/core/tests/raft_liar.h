/*
 * raft_liar.h - a member whose bytes may be anything: a ring of replicas (raft_ring.h) one of which
 * is played by a source of bytes, for the fuzzer (raft/fuzz/fuzz_liar.c) and for a test of fixed
 * seeds (test_liar.c).
 *
 * The liar knows everything that its victims know, and sends them any frame: every field is what an
 * honest one would say, or a number at some end, or anything. Between its frames time passes, the
 * victims get honest requests, are stopped and started, and now and then the liar's own, honest
 * replica is heard.
 *
 * What must hold: nothing fires an assertion; a victim ends by itself only for one of the reasons
 * that have an exit code: as a witness (ERR_CONTRADICTED), of another state (ERR_DIVERGED), as an
 * older copy (ERR_STALE, and then it is readmitted), by a snapshot (ERR_OTHER_BIRTH, ERR_NEWER). In
 * the end each victim starts once more, from what it had made durable, and nothing of that is for a
 * later leafd. That others serve while a member lies, or lose nothing by it, is not promised
 * (SECURITY.md), and not looked for.
 *
 * Thread: the test's.
 */
#ifndef LEAFD_RAFT_CORE_TESTS_RAFT_LIAR_H
#define LEAFD_RAFT_CORE_TESTS_RAFT_LIAR_H

#include "raft/core/tests/raft_lies.h"

struct liar_result {
    unsigned frames;  /* sent */
    unsigned refused; /* of these, whose link was closed */
    unsigned ended;   /* how often a victim ended by itself */
    uint64_t alarms;  /* of the victims */
    unsigned
        loaded; /* how often a victim started again at the end, from what it had made durable */
};

/* Play until the source is used up, or so many steps. Asserts what must hold. */
void liar_play(struct liar_source *source, unsigned steps, struct liar_result *ret_result);

#endif
