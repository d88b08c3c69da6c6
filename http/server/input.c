/*
 * input.c - see input.h. Thread: one owner each.
 */
#include "http/server/input.h"

#include <stdlib.h>
#include <string.h>

#include "src/base/assert.h"
#include "src/base/hot.h"

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
    } else if (input->end == INPUT_BYTES) {
        ASSERT(input->start > 0);
        memmove(input->bytes, input->bytes + input->start, input_len(input));
        moved_to_front(input);
    }
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
        own = malloc(INPUT_BYTES);
        ASSERT(own != NULL);
        memcpy(own, input->bytes + input->start, len);
        input->bytes = own;
        moved_to_front(input);
    }
}

HOT void input_free(struct input *input, const char *lent)
{
    if (input->bytes != lent) {
        free(input->bytes);
    }
    input->bytes = NULL;
}
