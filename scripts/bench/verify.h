/*
 * verify.h - what the body of a good reply must be, and the ids in it.
 *
 * Every reply of a load is read whole. Ids go into an idset, which knows duplicates; with `strict`
 * also the order is checked: an id must be greater than every id of its group whose reply had
 * arrived before its request was sent. Thread: the load's.
 */
#ifndef LEAFD_SCRIPTS_BENCH_VERIFY_H
#define LEAFD_SCRIPTS_BENCH_VERIFY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "scripts/bench/idset.h"

enum verify_kind {
    VERIFY_ANY,    /* the framing alone */
    VERIFY_TEXT,   /* exactly this text */
    VERIFY_IDS,    /* decimal ids: one alone, or each in a line of its own */
    VERIFY_RANGES, /* lines "first last" */
    VERIFY_FIELD   /* JSON with one field of this name whose value is an id, quoted or not */
};

struct verify {
    enum verify_kind kind;
    const char *text; /* the text, or the field's name */
    uint64_t count;   /* ids that each reply must have; 0: any number but none */
    bool strict;
};

/* What was in a body. */
struct verified {
    uint64_t count; /* of ids */
    uint64_t max;   /* the greatest id; 0 if there is none */
};

/* Check one body. floor: the greatest id of this group that was acknowledged before the request was
 * sent (0: none). The ids go into the set. NULL, or what is wrong. */
const char *verify_body(const struct verify *verify, struct idset *set, uint32_t group,
                        uint64_t floor, const char *body, size_t len, struct verified *ret);

#endif
