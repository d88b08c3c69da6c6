/*
 * input.c - see input.h. Thread: one owner each.
 */
#include "http/server/input.h"

#include <stdlib.h>
#include <string.h>

#include "src/base/assert.h"
#include "src/base/hot.h"

_Static_assert(INPUT_BYTES % INPUT_STEP_BYTES == 0, "the largest is whole steps");

static void own_free(struct input *input)
{
    free(input->bytes);
    input->size = 0;
}

/* The present request has moved to the front. */
static void moved_to_front(struct input *input)
{
    input->end -= input->start;
    input->next -= input->next > 0 ? input->start : 0;
    input->start = 0;
}

HOT void input_borrow(struct input *input, char *lent)
{
    if (input->bytes == NULL) {
        ASSERT(input->start == 0 && input->end == 0);
        input->bytes = lent;
    } else if (input->bytes != lent) {
        memcpy(lent, input->bytes + input->start, input_len(input));
        own_free(input);
        input->bytes = lent;
        moved_to_front(input);
    } else if (input->end == INPUT_BYTES) {
        memmove(input->bytes, input->bytes + input->start, input_len(input));
        moved_to_front(input);
    }
    ASSERT(input->end < INPUT_BYTES);
}

HOT void input_used(struct input *input)
{
    ASSERT(input->next <= input->end);
    input->start = input->next;
    input->next = 0;
    if (input->start == input->end) {
        input_drop(input);
    }
}

HOT void input_drop(struct input *input)
{
    input->start = 0;
    input->next = 0;
    input->end = 0;
}

HOT void input_keep(struct input *input, const char *lent)
{
    uint32_t len = input_len(input);
    char *own;

    ASSERT(input->start <= input->end);
    ASSERT(input->end <= INPUT_BYTES);
    if (len == 0) {
        input_free(input, lent);
    } else if (input->bytes == lent) {
        input->size = (len + INPUT_STEP_BYTES - 1) / INPUT_STEP_BYTES * INPUT_STEP_BYTES;
        own = MUST_HAVE(malloc(input->size));
        memcpy(own, input->bytes + input->start, len);
        input->bytes = own;
        moved_to_front(input);
    }
}

HOT void input_free(struct input *input, const char *lent)
{
    if (input->bytes != lent) {
        own_free(input);
    }
    input->bytes = NULL;
}
