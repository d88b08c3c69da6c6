/*
 * raft_lies.h - the frames of a member that lies (raft_liar.h): each field drawn from what an
 * honest one would say, from numbers at some end, or from anything.
 *
 * Thread: the test's.
 */
#ifndef LEAFD_RAFT_CORE_TESTS_RAFT_LIES_H
#define LEAFD_RAFT_CORE_TESTS_RAFT_LIES_H

#include "raft/tests/raft_ring.h"
#include "src/base/prng.h"

/* Where its bytes come from: a generator, or the input of a fuzzer, and zeros after its end. */
struct liar_source {
    const uint8_t *data;
    size_t len;
    size_t at;
    struct prng *prng; /* instead of data */
};

/* The next byte, or a number of eight, of the source; a number below bound (0 gives 0). */
uint8_t liar_byte(struct liar_source *source);
uint64_t liar_word(struct liar_source *source);
uint64_t liar_below(struct liar_source *source, uint64_t bound);
bool liar_is_out(const struct liar_source *source);

struct liar {
    struct ring ring;
    struct liar_source *source;
    unsigned frames;  /* sent */
    unsigned refused; /* of these, whose link was closed */
    bool over;        /* it lies no more: its victims start again */
    uint64_t id;      /* the liar's own */
    uint64_t victim;  /* whom the next frame is for */
};

/* Send the victim something; it takes a turn. */
void lie_message(struct liar *liar);  /* of the core */
void lie_snapshot(struct liar *liar); /* a head, and chunks of rows */
void lie_request(struct liar *liar);  /* a command, a query or a membership request */
void lie_reply(struct liar *liar);    /* to what the victim asked, or did not */
void lie_small(struct liar *liar);    /* confirmations, clocks, acknowledgements of chunks */
void lie_compare(struct liar *liar);
void lie_buffers(struct liar *liar);
void lie_handshake(struct liar *liar); /* a statement, or a request to join */
void lie_bytes(struct liar *liar);     /* no frame at all */

#endif
