/*
 * litmus.c - see litmus.h. Thread: one.
 */
#include "cluster-tests/memory_model/tests/litmus.h"

#include <stdio.h>

#undef memset
#undef memcpy
#undef memcmp

#define OUTCOMES 512

_Atomic uint32_t x, y, z;
uint32_t r[LITMUS_REGISTERS];

static struct {
    unsigned registers;
    unsigned count;
    char seen[OUTCOMES][LITMUS_REGISTERS + 1];
    char text[OUTCOMES * (LITMUS_REGISTERS + 1) + 1];
} litmus;

void litmus_begin(unsigned registers)
{
    litmus.registers = registers;
    litmus.count = 0;
}

void litmus_setup(void)
{
    atomic_init(&x, 0);
    atomic_init(&y, 0);
    atomic_init(&z, 0);
    memset(r, 0, sizeof r);
}

void litmus_accept(void)
{
    char outcome[LITMUS_REGISTERS + 1] = "";
    unsigned at = 0;

    for (unsigned i = 0; i < litmus.registers; i++) {
        outcome[i] = (char)('0' + r[i] % 10);
    }
    while (at < litmus.count && strcmp(litmus.seen[at], outcome) < 0) {
        at++;
    }
    if ((at < litmus.count && strcmp(litmus.seen[at], outcome) == 0) || litmus.count == OUTCOMES) {
        return;
    }
    for (unsigned i = litmus.count; i > at; i--) {
        memcpy(litmus.seen[i], litmus.seen[i - 1], sizeof litmus.seen[i]);
    }
    memcpy(litmus.seen[at], outcome, sizeof outcome);
    litmus.count++;
}

const char *litmus_outcomes(void)
{
    size_t len = 0;

    litmus.text[0] = '\0';
    for (unsigned i = 0; i < litmus.count; i++) {
        len += (size_t)snprintf(litmus.text + len, sizeof litmus.text - len, "%s%s",
                                i > 0 ? " " : "", litmus.seen[i]);
    }
    return litmus.text;
}
