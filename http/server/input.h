/*
 * input.h - the bytes of one connection that were read and not used up.
 *
 * The memory that is read into is lent: all requests pass through the same, which the processor has
 * at hand, however many connections there are. A connection gets memory of its own only for what it
 * must keep from one turn to the next, and no more of it than that takes. So an idle one costs
 * little, and so does a client that has sent the beginning of a request.
 *
 * The happy path: input_borrow() before a read, input_used() behind each request, input_keep() at
 * the end of the turn.
 *
 * Invariants: start <= end, and next, unless it is 0, lies between them. Without memory (bytes is
 * NULL) there is nothing: start and end are 0. Places in it are offsets: what is kept moves.
 *
 * Thread: one owner each (a loop).
 */
#ifndef LEAFD_HTTP_SERVER_INPUT_H
#define LEAFD_HTTP_SERVER_INPUT_H

#include <stddef.h>
#include <stdint.h>

#include "src/base/limits.h"

/* Holds a head of the largest size and leaves as much again for bodies and pipelined requests. */
#define INPUT_BYTES (2 * LIMIT_HTTP_HEADERS_BYTES)

/* bytes[start, end) holds the present request and what follows; of its body all is used up to
 * next. */
struct input {
    char *bytes;   /* INPUT_BYTES lent, or own memory; NULL: there is nothing in it */
    uint32_t size; /* of own memory; 0: it has none */
    uint32_t start;
    uint32_t next; /* 0: the head is not complete */
    uint32_t end;
};

static inline uint32_t input_len(const struct input *input)
{
    return input->end - input->start;
}

/* Before a read: the lent memory, with what was kept at its front. There is room behind it. */
void input_borrow(struct input *input, char *lent);

/* The present request is done: go on behind it. */
void input_used(struct input *input);

/* Nothing of what is there is wanted. */
void input_drop(struct input *input);

/* At the end of a turn: copy what is left out of the lent memory, and free what is not needed. Own
 * memory is in steps of INPUT_STEP_BYTES. */
#define INPUT_STEP_BYTES 512
void input_keep(struct input *input, const char *lent);

/* Free memory of its own. */
void input_free(struct input *input, const char *lent);

#endif
